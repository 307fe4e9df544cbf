/* tokens.c -- the order of effects as data flow. A graph is a list, and Tandem's own
 * passes keep calls with ordered effects in their order. A reader that only follows
 * values (a user's pass or backend, another system that reads an export) needs that
 * order as values: each call of an op with an ordered effect takes a token and returns
 * the next one,
 *
 *     %t1, %y = my_print_with_token(%token, %x, "a")
 *     %t2 = my_log_with_token(%t1, %y)
 *
 * and the chain goes from an input <token k> to an output <token k>. Chain 0 is that of
 * forward, chain 1 that of backward: they run in different calls. Branches and loops
 * that have effects take tokens, too (tokens_nested.c). Tokens are tensors without
 * elements. Adding and removing them changes nothing else in the graph. */
#include "graph/graph_int.h"

static const char *const names[2] = {"token", "backward_token"};

/* The type of a token: u8[0], in no storage that another value shares. */
static const td_gtype *token_type(td_graph *g) {
    static const int64_t none = 0, one = 1;
    td_gtype             l = {.kind = TD_K_TENSOR, .dense = true};
    l.dtype = TD_U8;
    l.rank = 1;
    l.size = &none;
    l.stride = &one;
    l.storage = g->n_storages++;
    return td__graph_type_of(g, l);
}

bool td__graph_has_tokens(const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->kind == TD_N_OP &&
            (td__op_without_token(n->op) != TD_OP_COUNT || td__token_is_nested(n)))
            return true;
    }
    return false;
}

/* ---- adding ------------------------------------------------------------- */

typedef struct threading {
    td_graph *g;
    bool      split;   /* the graph has tangents: backward has a chain of its own */
    td_gval  *last[2]; /* by chain; NULL: it has no call yet */
} threading;

td_gval *td__token_input(td_graph *g, int chain) {
    const td_gtype *type = token_type(g);
    const char     *name = td__graph_str(g, names[chain]);
    if (!type || !name) return NULL;
    return td__graph_input(g, name, type, (td_desc){TD_D_TOKEN, chain, NULL});
}

td_gval *td__token_result(td_graph *g, td_gnode *n, int at) {
    int      cap = n->n_out; /* full: the array is replaced */
    td_gval *v = td__graph_result(g, n, &cap);
    if (!v) return NULL;
    for (int i = n->n_out - 1; i > at; i--) n->out[i] = n->out[i - 1];
    n->out[at] = v;
    for (int i = 0; i < n->n_out; i++) n->out[i]->nr = i;
    v->type = token_type(g);
    return v->type ? v : NULL;
}

/* Makes n the token form of its op. Returns the next token; NULL after td__fail. */
static td_gval *thread_call(td_graph *g, td_gnode *n, td_gval *last, int chain) {
    td_garg in[TD_MAX_ARGS];
    td_op   form = td__op_with_token(n->op);
    if (form == TD_OP_COUNT) return td__token_nested(g, n, last, chain);
    in[0] = td__garg_value(last);
    for (int i = 0; i < n->n_in; i++) in[i + 1] = n->in[i];
    if (!td__graph_become(g, n, form, in, n->n_in + 1)) return NULL;
    return td__token_result(g, n, 0);
}

bool td__tokens_thread(td_graph *g, td_gval **last, int chain) {
    for (int i = 0; i < g->nodes.n; i++) {
        td_gnode *n = g->nodes.v[i];
        if (td__gnode_takes_token(n) && !(*last = thread_call(g, n, *last, chain)))
            return false;
    }
    return true;
}

bool td__tokens_add(td_graph *g) {
    threading t = {.g = g};
    for (int i = 0; i < g->in_desc.n; i++)
        t.split |= g->in_desc.v[i].kind == TD_D_TANGENT;
    for (int i = 0; i < g->nodes.n; i++) {
        td_gnode *n = g->nodes.v[i];
        int       chain = t.split && n->origin == TD_FROM_BACKWARD;
        td_gval **last = &t.last[chain];
        if (!td__gnode_takes_token(n)) continue;
        if (!*last && !(*last = td__token_input(g, chain))) return false;
        if (!(*last = thread_call(g, n, *last, chain))) return false;
    }
    for (int k = 0; k < 2; k++)
        if (t.last[k] && !td__graph_output(g, td__garg_value(t.last[k]),
                                           (td_desc){TD_D_TOKEN, k, NULL}))
            return false;
    return (!t.last[0] && !t.last[1]) || td__graph_index(g);
}

/* ---- removing ----------------------------------------------------------- */

/* Makes n a call of `op` again. The token results have no other reader than token
 * forms and outputs <token>, which are removed with them. */
static bool unthread_call(td_graph *g, td_gnode *n, td_op op) {
    if (n->n_in < 1 || n->n_out < 1)
        return td__fail(g->cx, TD_E_ARG,
                        "@%.60s: a call of %s has no token; it takes one as its first "
                        "argument and returns one as its first result",
                        g->name, td__row(n->op)->name);
    if (!td__graph_become(g, n, op, n->in + 1, n->n_in - 1)) return false;
    n->out++;
    n->n_out--;
    for (int i = 0; i < n->n_out; i++) n->out[i]->nr = i;
    return true;
}

/* Tokens are the last inputs and outputs of a graph. */
static bool is_last(const td_desc *d, int n) {
    bool rest = true;
    for (int i = n - 1; i >= 0; i--) {
        bool token = d[i].kind == TD_D_TOKEN;
        if (token && !rest) return false;
        rest &= token;
    }
    return true;
}

bool td__tokens_unthread(td_graph *g, bool *any) {
    for (int i = 0; i < g->nodes.n; i++) {
        td_gnode *n = g->nodes.v[i];
        td_op     op = n->kind == TD_N_OP ? td__op_without_token(n->op) : TD_OP_COUNT;
        bool      nested = op == TD_OP_COUNT && td__token_is_nested(n);
        *any |= nested || op != TD_OP_COUNT;
        if (nested ? !td__token_unnest(g, n)
                   : op != TD_OP_COUNT && !unthread_call(g, n, op))
            return false;
    }
    return true;
}

bool td__tokens_remove(td_graph *g) {
    if (!is_last(g->in_desc.v, g->in_desc.n) || !is_last(g->out_desc.v, g->out_desc.n))
        return td__fail(g->cx, TD_E_ARG,
                        "@%.60s: tokens must be its last inputs and outputs", g->name);
    bool any = false;
    if (!td__tokens_unthread(g, &any)) return false;
    while (g->out_desc.n && g->out_desc.v[g->out_desc.n - 1].kind == TD_D_TOKEN)
        g->outputs.n--, g->out_desc.n--, any = true;
    while (g->in_desc.n && g->in_desc.v[g->in_desc.n - 1].kind == TD_D_TOKEN)
        g->inputs.n--, g->in_desc.n--, any = true;
    if (!any) return true;
    td__graph_pack(g);
    return td__graph_index(g) && td__graph_verify(g, TD_STAGE_PROGRAM);
}
