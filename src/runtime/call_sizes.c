/* call_sizes.c -- symbolic sizes in one call: the numbers that all of the plan but the
 * code itself needs. */
#include "rules/geom.h"
#include "runtime/plan.h"

#include <string.h>

/* Gradients of gradients are computed from primals in their geometry. */
static bool note_given(const td_pcall *c) {
    td_now *n = c->now;
    if (!c->p->h) return true;
    n->given =
        td__arena_zalloc(&n->arena, sizeof *n->given * ((size_t)c->j->n_primals + 1));
    if (!n->given) return td__fail_memory(c->p->cx);
    for (int i = 0; i < c->j->n_primals; i++)
        if (c->in[i].kind == TD_K_TENSOR &&
            !td__geom_copy(c->p->cx, &n->arena, &n->given[i], c->in[i].u.t))
            return false;
    return true;
}

/* Before the forward code runs. */
bool td__now_make(td_pcall *c) {
    td_plan *p = c->p;
    c->j = p->j;
    if (p->j->g->dims.n == 0) return true;
    td_now *n = td__zalloc(sizeof *n);
    if (!n) return td__fail_memory(p->cx);
    n->refs = 1;
    c->now = n;
    c->j = &n->j;
    n->numbers =
        td__arena_zalloc(&n->arena, sizeof *n->numbers * ((size_t)p->n_saves + 1));
    n->types = td__arena_zalloc(&n->arena, sizeof *n->types * ((size_t)p->n_saves + 1));
    n->j = *p->j;
    n->j.tangents = td__arena_alloc(&n->arena, sizeof *n->j.tangents *
                                                   ((size_t)p->j->n_tangents + 1));
    if (!n->numbers || !n->types || !n->j.tangents) return td__fail_memory(p->cx);
    if (p->j->n_tangents)
        memcpy(n->j.tangents, p->j->tangents,
               sizeof *n->j.tangents * (size_t)p->j->n_tangents);
    return note_given(c);
}

/* The geometry of tangents is that of the forward outputs, in the tangent's order of
 * dims. */
bool td__now_tangents(td_pcall *c) {
    if (!c->now) return true;
    for (int i = 0; i < c->j->n_tangents; i++) {
        td_tangent      *to = &c->now->j.tangents[i];
        const td_tensor *t = c->vals[to->index].u.t;
        size_t           n = sizeof(int64_t) * (size_t)(t->rank + 1);
        int64_t         *size = td__arena_alloc(&c->now->arena, n);
        int64_t         *stride = td__arena_alloc(&c->now->arena, n);
        if (!size || !stride) return td__fail_memory(c->p->cx);
        memcpy(size, t->size, n - sizeof *size);
        td__tangent_strides(to, size, stride);
        to->geom.size = size;
        to->geom.stride = stride;
        to->geom.offset = 0;
    }
    return true;
}

void td__now_drop(td_now *n) {
    if (!n || --n->refs > 0) return;
    td__arena_free(&n->arena);
    td__free(n);
}
