/* inside.c -- version counters of inputs that the forward code itself writes
 * (keep_mutations). How often code bumps them depends on the backend. The epilogue
 * counts the writes as eager does, so the counters are reset after the code. */
#include "runtime/plan.h"

/* Lists the primals that the forward graph writes; the call needs them afterwards. */
bool td__plan_inside(td_plan *p) {
    const td_graph *g = td__plan_forward(p);
    p->inside =
        td__arena_alloc(&p->j->arena, sizeof *p->inside * ((size_t)g->nodes.n + 1));
    if (!p->inside) return td__fail_memory(p->cx);
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        bool writes = td__opinfo(n->op)->writes && n->in[0].kind == TD_G_VALUE;
        const td_gval *v = writes ? n->in[0].u.v : NULL;
        if (!v || v->node || v->nr >= p->j->n_primals) continue;
        p->inside[p->n_inside++] = v->nr;
        p->late[v->nr] = true;
    }
    return true;
}

static td_storage *written(const td_pcall *c, int i) {
    return c->in[c->p->inside[i]].u.t->st;
}

void td__plan_count(td_pcall *c) {
    for (int i = 0; i < c->p->n_inside; i++)
        c->counts[i] =
            atomic_load_explicit(&written(c, i)->version, memory_order_relaxed);
}

void td__plan_uncount(const td_pcall *c) {
    for (int i = 0; i < c->p->n_inside; i++)
        atomic_store_explicit(&written(c, i)->version, c->counts[i],
                              memory_order_relaxed);
}
