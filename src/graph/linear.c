/* linear.c -- are the results of a graph linear in some of its inputs? Every dependence
 * that is not known to be linear counts as not linear. */
#include "graph/graph_int.h"

#include <string.h>

/* How a value depends on the given inputs: not at all, linearly (also zeros), or
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

/* The op, or for an in-place op its functional twin. */
static td_op pure_of(const td_gnode *n) {
    td_op pure = td__opinfo(n->op)->pure;
    return pure == TD_OP_COUNT ? n->op : pure;
}

/* The op's row says in which operands it is linear; views are linear in all. */
static td_linear linear_of(const td_gnode *n) {
    bool view = td__opinfo(n->op)->view_of >= 0;
    return view ? TD_LINEAR_SUM : (td_linear)td__row(pure_of(n))->linear;
}

/* Does it add or subtract a number that no operand scales? */
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

/* Does it write a tensor whose dependence on the inputs was another one? Views of that
 * tensor are not followed. */
static bool changes(const state *s, const td_gnode *n, uint8_t is) {
    bool writes = n->kind == TD_N_OP && td__opinfo(n->op)->writes;
    return writes && (n->in[0].kind != TD_G_VALUE || s->of[n->in[0].u.v->id] != is);
}

static bool is_linear(const td_graph *g, state *s, bool (*in)(const td_graph *, int)) {
    bool linear = !td__graph_draws(g); /* each call would draw other numbers */
    for (int i = 0; i < g->inputs.n; i++)
        s->of[g->inputs.v[i]->id] = in(g, i) ? LINEAR : FREE;
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

bool td__graph_linear(const td_graph *g, bool (*in)(const td_graph *, int)) {
    state s = {.of = td__zalloc((size_t)g->n_values + 1)};
    bool  linear = s.of && is_linear(g, &s, in);
    td__free(s.of);
    return linear;
}
