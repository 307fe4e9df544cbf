/* used.c -- which tangents a kept value is kept for. A backward that does not retain
 * the graph lets go of what no other can read; a backward without some tangents reads
 * only what the others need. */
#include "runtime/plan.h"

typedef struct using {
    const td_graph *g;
    uint64_t       *from; /* by value: tangents it depends on */
    uint64_t       *used; /* by value: tangents whose backward reads it */
    uint64_t        now;
}
using;

static uint64_t bit(int tangent) {
    return tangent < 64 ? (uint64_t)1 << tangent : UINT64_MAX;
}

static void gather(void *env, td_gval *v) {
    using *u = env;
    u->now |= u->from[v->id];
}

static void spread(void *env, td_gval *v) {
    using *u = env;
    u->used[v->id] |= u->now;
}

static uint64_t from_args(using *u, const td_gnode *n) {
    u->now = 0;
    for (int k = 0; k < n->n_in; k++) td__garg_each(&n->in[k], gather, u);
    return u->now;
}

static void follow(using *u, const td_target *to) {
    const td_graph *g = u->g;
    for (int i = 0; i < g->inputs.n; i++)
        if (g->in_desc.v[i].kind == TD_D_TANGENT)
            u->from[g->inputs.v[i]->id] = bit(g->in_desc.v[i].index);
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        uint64_t        from = from_args(u, n);
        for (int k = 0; k < n->n_out; k++) u->from[n->out[k]->id] = from;
    }
    for (int i = 0; i < g->outputs.n; i++) {
        u->now = to[i].from;
        td__garg_each(&g->outputs.v[i], spread, u);
    }
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const td_gnode *n = g->nodes.v[i];
        uint64_t        now = from_args(u, n);
        for (int k = 0; k < n->n_out; k++) now |= u->used[n->out[k]->id];
        u->now = td__gnode_stays(n) ? UINT64_MAX : now; /* effects are for all */
        for (int k = 0; k < n->n_in; k++) td__garg_each(&n->in[k], spread, u);
    }
}

bool td__plan_used(td_plan *p, bool twice) {
    const td_graph *g = p->h->bwd;
    size_t          n = (size_t)g->n_values + 1;
    using u = {.g = g, .from = td__zalloc(2 * sizeof *u.from * n)};
    if (!u.from) return td__fail_memory(p->cx);
    u.used = u.from + n;
    follow(&u, p->j->targets);
    for (int i = 0; i < p->n_keep; i++)
        p->keep[i].used = i < p->n_kept ? u.used[g->inputs.v[i]->id] : UINT64_MAX;
    for (int i = 0; i < p->j->n_primals; i++) /* gradients of gradients read it */
        if (twice && p->held[i] >= 0) p->keep[p->held[i]].used = UINT64_MAX;
    td__free(u.from);
    return true;
}
