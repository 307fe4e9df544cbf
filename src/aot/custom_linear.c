/* custom_linear.c -- is the backward of a custom function linear in its incoming
 * gradients?
 *
 * Eager calls that backward once, with the sum of all gradients of a result. Compiled
 * double backward recomputes the result and calls it once per use, which is the same
 * only if it is linear. Anything not known to be linear counts as not linear. */
#include "aot/aot.h"

#include <string.h>

/* How a value depends on the incoming gradients: not at all, linearly (also zeros), or
 * otherwise. */
enum { FREE, LINEAR, OTHER };

typedef struct state {
    uint8_t *of;   /* dependence by value id */
    int      n[3]; /* a node's operands by dependence */
} state;

static void count(void *env, td_gval *v) {
    state *s = env;
    s->n[s->of[v->id]]++;
}

/* The op, or what an op that writes in place computes. */
static td_op pure_of(const td_gnode *n) {
    td_op pure = td__opinfo(n->op)->pure;
    return pure == TD_OP_COUNT ? n->op : pure;
}

/* The op's row says in which operands it is linear; views are linear in all. */
static td_linear linear_of(const td_gnode *n) {
    bool view = td__opinfo(n->op)->view_of >= 0;
    return view ? TD_LINEAR_SUM : (td_linear)td__row(pure_of(n))->linear;
}

/* Does it add or subtract a number, which no gradient scales? */
static bool adds_number(const td_gnode *n) {
    td_op op = pure_of(n);
    return (op == TD_OP_add || op == TD_OP_sub) && n->in[1].kind != TD_G_VALUE;
}

/* The dependence of a node's results, from those of its operands. */
static uint8_t state_of(state *s, const td_gnode *n) {
    td_linear is = linear_of(n);
    memset(s->n, 0, sizeof s->n);
    for (int i = 0; i < n->n_in; i++) td__garg_each(&n->in[i], count, s);
    if (is == TD_LINEAR_ZERO) return LINEAR;
    if (s->n[OTHER]) return OTHER;
    if (!s->n[LINEAR]) return FREE;
    bool first = n->in[0].kind == TD_G_VALUE && s->of[n->in[0].u.v->id] == LINEAR;
    bool ok = is == TD_LINEAR_SUM     ? !s->n[FREE] && !adds_number(n)
              : is == TD_LINEAR_EACH  ? s->n[LINEAR] == 1
              : is == TD_LINEAR_FIRST ? first && s->n[LINEAR] == 1
              : is == TD_LINEAR_REST  ? !first && s->n[FREE] == 1
                                      : false;
    return ok ? LINEAR : OTHER;
}

/* Does it write a tensor that depended on the gradients in another way? Views of that
 * tensor are not followed. */
static bool changes(const state *s, const td_gnode *n, uint8_t is) {
    bool writes = n->kind == TD_N_OP && td__opinfo(n->op)->writes;
    return writes && (n->in[0].kind != TD_G_VALUE || s->of[n->in[0].u.v->id] != is);
}

/* Are all gradients that the backward g returns linear in its incoming ones? */
static bool is_linear(const td_graph *g, state *s) {
    bool linear = !td__graph_draws(g); /* each call would draw other numbers */
    for (int i = 0; i < g->inputs.n; i++)
        s->of[g->inputs.v[i]->id] =
            g->in_desc.v[i].kind == TD_D_TANGENT ? LINEAR : FREE;
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        uint8_t         is = n->kind == TD_N_OP ? state_of(s, n) : (uint8_t)OTHER;
        for (int k = 0; k < n->n_out; k++) s->of[n->out[k]->id] = is;
        linear &= !changes(s, n, is);
    }
    for (int i = 0; i < g->outputs.n; i++) {
        const td_garg *a = &g->outputs.v[i];
        linear &= a->kind != TD_G_VALUE || s->of[a->u.v->id] == LINEAR;
    }
    return linear;
}

/* The backward graph of a custom function's node; NULL: n is no such node. */
static const td_graph *backward_of(const td_gnode *n) {
    const td_graph *g = NULL;
    if (n->kind != TD_N_OP || n->op != TD_OP_custom) return NULL;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].kind == TD_G_GRAPH)
            g = n->in[i].u.g; /* the last graph; the forward is before it */
    return g;
}

static const char *name_of(const td_gnode *n) {
    return n->in[0].kind == TD_G_STR ? n->in[0].u.s : "custom";
}

typedef struct reading {
    const td_gnode *of;
    bool            any;
} reading;

static void note_read(void *env, td_gval *v) {
    reading *r = env;
    r->any |= v->node == r->of;
}

/* Does the function save a result for its own backward? Its forward returns results and
 * then saved values. */
static bool saves_result(const td_gnode *n) {
    const td_graph *back = backward_of(n), *forward = NULL;
    int             saved = 0;
    for (int i = 0; i < n->n_in && !forward; i++)
        if (n->in[i].kind == TD_G_GRAPH) forward = n->in[i].u.g;
    for (int i = 0; i < back->in_desc.n; i++)
        saved += back->in_desc.v[i].kind == TD_D_SAVED;
    for (int i = 0; i < forward->outputs.n - saved; i++)
        for (int k = forward->outputs.n - saved; k < forward->outputs.n; k++)
            if (forward->outputs.v[i].u.v == forward->outputs.v[k].u.v) return true;
    return false;
}

/* Does anything read a result of the node, so that double backward passes through it?
 */
static bool is_read(const td_graph *g, const td_gnode *of) {
    reading r = {of, saves_result(of)};
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_in; k++)
            td__garg_each(&g->nodes.v[i]->in[k], note_read, &r);
    return r.any;
}

/* False after td__fail: double backward through this node would be wrong. */
static bool check_node(td_fn *f, const td_graph *g, const td_gnode *n) {
    const td_graph *back = backward_of(n);
    if (!back || !is_read(g, n)) return true;
    state s = {.of = td__zalloc((size_t)back->n_values + 1)};
    if (!s.of) return td__fail_memory(f->cx);
    bool linear = is_linear(back, &s);
    td__free(s.of);
    return linear ||
           td__fail(f->cx, TD_E_UNSUPPORTED,
                    "%s: unsupported: double backward passes through a result of the "
                    "custom function %s, whose backward is not known to be linear in "
                    "its incoming gradient%s. Call that function outside of the body",
                    f->name, name_of(n),
                    td__graph_draws(back) ? ": it draws random numbers" : "");
}

bool td__custom_linear(td_fn *f, const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (!check_node(f, g, g->nodes.v[i])) return false;
    return true;
}
