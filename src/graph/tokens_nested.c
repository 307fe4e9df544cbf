/* tokens_nested.c -- tokens of branches and loops. An op whose graphs call ops with an
 * ordered effect takes a token among its operands and returns one among its results,
 * and so do these graphs:
 *
 *     %y, %t1 = cond(%p, func @yes(%a: f32[3], %token: u8[0] <token 0>) {
 *       %t, %r = my_print_with_token(%token, %a, "yes")
 *       return %r, %t <token 0>
 *     }, ..., [%x, %token])
 *
 * A graph without such calls returns its token. Nested graphs may be shared, so each
 * use gets a copy. */
#include "graph/graph_int.h"

enum { MOST_GRAPHS = 2 };

/* Where the token of such an op is. */
typedef struct place {
    int graph[MOST_GRAPHS]; /* arguments: graphs that take the token */
    int n_graphs;
    int n_give; /* how many of them, the first ones, return it */
    int list;   /* argument: the operands, with the token at list_at */
    int list_at;
    int input;  /* of the graphs, not counting consts that they own */
    int output; /* of the graphs, and of the op */
} place;

static int length(const td_gnode *n, int arg) { return (int)n->in[arg].n; }

static int outputs(const td_gnode *n, int arg) { return n->in[arg].u.g->outputs.n; }

static bool fits(const td_gnode *n, const char *kinds) {
    for (int k = 0; kinds[k]; k++) {
        int want = kinds[k] == 'g' ? TD_G_GRAPH : kinds[k] == 'l' ? TD_G_LIST : -1;
        if (k >= n->n_in || (want >= 0 && n->in[k].kind != want)) return false;
    }
    return true;
}

/* Finds the place; `has` is 1 if the token is there already, else 0. False: the op has
 * none. */
static bool find_place(const td_gnode *n, int has, place *p) {
    if (n->kind != TD_N_OP || n->dead) return false;
    if (n->op == TD_OP_cond && fits(n, "?ggl")) {
        int at = length(n, TD_COND_OPERANDS) - has, out = outputs(n, TD_COND_YES) - has;
        *p = (place){{TD_COND_YES, TD_COND_NO}, 2, 2, TD_COND_OPERANDS, at, at, out};
        return true;
    }
    if (n->op == TD_OP_while_loop && fits(n, "ggl")) {
        int at = length(n, 2) - has;
        *p = (place){{1, 0}, 2, 1, 2, at, at, at};
        return true;
    }
    if (n->op == TD_OP_while_loop_backward && fits(n, "gggl?l")) {
        int first = length(n, 3) + (n->in[4].kind == TD_G_LIST ? length(n, 4) : 0);
        *p = (place){{2}, 1, 1, 5, 0, first, 0};
        return true;
    }
    return false;
}

/* Does a graph call an op with an ordered effect, or one that nests such calls? */
static bool takes_token(const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (td__gnode_takes_token(g->nodes.v[i])) return true;
    return false;
}

bool td__gnode_takes_token(const td_gnode *n) {
    place p;
    bool  any = false, other = false;
    if (n->kind != TD_N_OP || n->dead) return false;
    if (td__op_with_token(n->op) != TD_OP_COUNT) return true;
    if (!find_place(n, 0, &p)) return false;
    for (int k = 0; k < n->n_in; k++) {
        bool gives = false;
        for (int i = 0; i < p.n_give; i++) gives |= p.graph[i] == k;
        if (n->in[k].kind != TD_G_GRAPH) continue;
        *(gives ? &any : &other) |= takes_token(n->in[k].u.g);
    }
    return any && !other; /* the test of a loop returns nothing else */
}

/* ---- inputs, outputs, results ------------------------------------------- */

/* The index of the nr-th input that is no const of the graph. */
static int input_index(const td_graph *g, int nr) {
    for (int i = 0; i < g->inputs.n; i++)
        if (!td__graph_holds(g, i) && nr-- == 0) return i;
    return g->inputs.n;
}

static void number_inputs(td_graph *g) {
    for (int i = 0; i < g->inputs.n; i++) g->inputs.v[i]->nr = i;
}

static td_gval *insert_input(td_graph *g, int at, int chain) {
    td_gval *v = td__token_input(g, chain);
    if (!v) return NULL;
    td_desc d = g->in_desc.v[g->in_desc.n - 1];
    for (int i = g->inputs.n - 1; i > at; i--) {
        g->inputs.v[i] = g->inputs.v[i - 1];
        g->in_desc.v[i] = g->in_desc.v[i - 1];
    }
    g->inputs.v[at] = v;
    g->in_desc.v[at] = d;
    number_inputs(g);
    return v;
}

static bool insert_output(td_graph *g, int at, td_gval *v, int chain) {
    td_desc d = {TD_D_TOKEN, chain, NULL};
    if (!td__graph_output(g, td__garg_value(v), d)) return false;
    for (int i = g->outputs.n - 1; i > at; i--) {
        g->outputs.v[i] = g->outputs.v[i - 1];
        g->out_desc.v[i] = g->out_desc.v[i - 1];
    }
    g->outputs.v[at] = td__garg_value(v);
    g->out_desc.v[at] = d;
    return true;
}

static bool fail_place(const td_graph *g, const td_gnode *n) {
    return td__fail(g->cx, TD_E_ARG,
                    "@%.60s: a graph of %s has a token that is not its last operand or "
                    "result, or not in each of its graphs",
                    g->name, td__row(n->op)->name);
}

static void remove_input(td_graph *g, int at) {
    for (int i = at; i < g->inputs.n - 1; i++) {
        g->inputs.v[i] = g->inputs.v[i + 1];
        g->in_desc.v[i] = g->in_desc.v[i + 1];
    }
    g->inputs.n--;
    g->in_desc.n--;
    number_inputs(g);
}

static void remove_output(td_graph *g, int at) {
    for (int i = at; i < g->outputs.n - 1; i++) {
        g->outputs.v[i] = g->outputs.v[i + 1];
        g->out_desc.v[i] = g->out_desc.v[i + 1];
    }
    g->outputs.n--;
    g->out_desc.n--;
}

/* ---- arguments ---------------------------------------------------------- */

/* list[] with one entry more at p->list_at, or without that entry. */
static bool change_list(td_graph *g, td_garg *list, const place *p, td_gval *add) {
    int      n = (int)list->n, m = add ? n + 1 : n - 1;
    td_garg *to = td__arena_alloc(&g->arena, sizeof *to * ((size_t)n + 2));
    if (!to) return td__fail_memory(g->cx);
    for (int i = 0; i < m; i++) {
        bool after = i > p->list_at || (!add && i == p->list_at);
        if (add && i == p->list_at) to[i] = td__garg_value(add);
        else to[i] = list->u.list[after ? i + (add ? -1 : 1) : i];
    }
    *list = (td_garg){.kind = TD_G_LIST, .n = (uint32_t)m, .u.list = to};
    return true;
}

/* The node with graphs in[] in place of its own, whose list has or loses a token. */
static bool put_args(td_graph *g, td_gnode *n, td_garg *in, const place *p,
                     td_gval *add) {
    if (!change_list(g, &in[p->list], p, add)) return false;
    return td__graph_become(g, n, n->op, in, n->n_in);
}

/* A copy of argument k, a graph, which g owns. NULL after td__fail. */
static td_graph *copy_of(td_graph *g, const td_gnode *n, int k) {
    td_graph *to = td__graph_clone(n->in[k].u.g);
    return to && td__graph_own(g, to) ? to : NULL;
}

/* ---- adding ------------------------------------------------------------- */

td_gval *td__token_nested(td_graph *g, td_gnode *n, td_gval *last, int chain) {
    place   p;
    td_garg in[TD_MAX_ARGS];
    if (!find_place(n, 0, &p)) return NULL;
    memcpy(in, n->in, sizeof *in * (size_t)n->n_in);
    for (int k = 0; k < p.n_graphs; k++) {
        td_graph *to = copy_of(g, n, p.graph[k]);
        td_gval  *t = to ? insert_input(to, input_index(to, p.input), chain) : NULL;
        if (!t || !td__tokens_thread(to, &t, chain)) return NULL;
        if (k < p.n_give && !insert_output(to, p.output, t, chain)) return NULL;
        if (!td__graph_index(to)) return NULL;
        in[p.graph[k]].u.g = to;
    }
    if (!put_args(g, n, in, &p, last)) return NULL;
    return td__token_result(g, n, p.output);
}

/* ---- removing ----------------------------------------------------------- */

bool td__token_is_nested(const td_gnode *n) {
    place p;
    if (!find_place(n, 1, &p)) return false;
    const td_graph *g = n->in[p.graph[0]].u.g;
    for (int i = 0; i < g->in_desc.n; i++)
        if (g->in_desc.v[i].kind == TD_D_TOKEN) return true;
    return false;
}

static bool unthread_graph(td_graph *to, const place *p, bool gives) {
    int at = input_index(to, p->input);
    if (at >= to->inputs.n || to->in_desc.v[at].kind != TD_D_TOKEN) return false;
    if (gives && (p->output < 0 || p->output >= to->outputs.n ||
                  to->out_desc.v[p->output].kind != TD_D_TOKEN))
        return false;
    remove_input(to, at);
    if (gives) remove_output(to, p->output);
    bool any = false;
    if (!td__tokens_unthread(to, &any)) return false;
    td__graph_pack(to);
    return td__graph_index(to);
}

bool td__token_unnest(td_graph *g, td_gnode *n) {
    place   p;
    td_garg in[TD_MAX_ARGS];
    if (!find_place(n, 1, &p) || p.list_at < 0 || p.list_at >= length(n, p.list) ||
        p.output < 0 || p.output >= n->n_out)
        return fail_place(g, n);
    memcpy(in, n->in, sizeof *in * (size_t)n->n_in);
    for (int k = 0; k < p.n_graphs; k++) {
        td_graph *to = copy_of(g, n, p.graph[k]);
        if (!to) return false;
        if (!unthread_graph(to, &p, k < p.n_give))
            return td_ok(g->cx) ? fail_place(g, n) : false;
        in[p.graph[k]].u.g = to;
    }
    if (!put_args(g, n, in, &p, NULL)) return false;
    for (int i = p.output; i < n->n_out - 1; i++) n->out[i] = n->out[i + 1];
    n->n_out--;
    for (int i = 0; i < n->n_out; i++) n->out[i]->nr = i;
    return true;
}
