/* old_storage.c -- copies of storages as they were before a call wrote them. Gradients
 * of gradients recompute the program from its inputs. Where the program reads elements
 * of a storage that the input it goes by does not show (as_strided, or inputs that
 * overlap), the whole storage is saved, one copy for all inputs in it. */
#include "runtime/plan.h"

#include <string.h>

static const td_gval *input_of(const td_gnode *n) {
    const td_garg *a = &n->in[0];
    while (a->kind == TD_G_VALUE && a->u.v->node && a->u.v->node->op == TD_OP_alias)
        a = &a->u.v->node->in[0];
    return a->kind == TD_G_VALUE && !a->u.v->node ? a->u.v : NULL;
}

bool td__plan_reads_storage(const td_plan *p, int i) {
    const td_graph *g = p->j->g;
    for (int k = 0; k < g->nodes.n; k++) {
        const td_gnode *n = g->nodes.v[k];
        if (!(td__ops[n->op].flags & TD_OPF_PLACES) || !n->n_in) continue;
        const td_gval *v = input_of(n);
        if (v && v->nr == i) return true;
    }
    return false;
}

/* The copy of primal i's storage: that of an earlier one in the same, or a new one. */
static td_storage *copy_storage(td_pcall *c, int i) {
    const td_storage *st = c->in[i].u.t->st;
    for (int k = 0; k < i; k++)
        if (c->old[k] && c->in[k].u.t->st == st) {
            td__storage_keep(c->old[k]->st);
            return c->old[k]->st;
        }
    td_storage *to = td__storage_make(st->bytes, false);
    if (!to) return td__fail_memory(c->p->cx), NULL;
    if (st->bytes) memcpy(to->data, st->data, st->bytes);
    return to;
}

bool td__plan_copy_storages(td_pcall *c) {
    td_ctx *cx = c->p->cx;
    size_t  n = sizeof *c->old * (size_t)c->j->n_primals;
    c->old = td__arena_zalloc(&c->arena, n + sizeof *c->old);
    if (!c->old) return td__fail_memory(cx);
    for (int i = 0; i < c->p->n_keep; i++) {
        const td_hold *k = &c->p->keep[i];
        if (!k->copied) continue;
        td_meta m;
        td__tensor_meta(c->in[k->index].u.t, &m);
        td_storage *st = copy_storage(c, k->index);
        if (!st) return false;
        c->old[k->index] = td__tensor_over(cx, st, &m);
        td__storage_drop(st);
        if (!c->old[k->index]) return false;
    }
    return true;
}
