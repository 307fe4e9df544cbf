/* call_sizes.c -- symbolic sizes in one call: the numbers that all of the plan but the
 * code itself needs. */
#include "core/typed.h"
#include "rules/geom.h"
#include "runtime/plan.h"

#include <string.h>

/* The geometry of what a tensor of a type consists of; `like`: in the layout of
 * ones_like, which tangents have. NULL after td__fail. */
static const td_gtyped *parts_of(td_ctx *cx, td_arena *a, const td_typed *d,
                                 bool like) {
    size_t     n = (size_t)d->n;
    td_gtyped *to = td__arena_zalloc(a, sizeof *to + sizeof(td_gtype *) * n);
    td_gtype  *all = td__arena_zalloc(a, sizeof *all * (n + 1));
    char      *text = td__arena_strdup(a, d->metadata); /* outlives the tensor */
    if (!to || !all || !text) return td__fail_memory(cx), NULL;
    *to = (td_gtyped){d->type->opts.name, text, d->n};
    for (int i = 0; i < d->n; i++) {
        const td_tensor *t = d->inner[i];
        if (!td__geom_copy(cx, a, &all[i].geom, t)) return NULL;
        int64_t *stride = (int64_t *)(uintptr_t)all[i].stride;
        if (like) td__strides_like(t->rank, t->size, t->stride, stride);
        if (like) all[i].offset = 0;
        all[i].kind = TD_K_TENSOR;
        to->inner[i] = &all[i];
        if (t->typed && !(all[i].of = parts_of(cx, a, t->typed, like))) return NULL;
    }
    return to;
}

/* Gradients of gradients are computed from primals in their geometry. */
static bool note_given(const td_pcall *c) {
    td_now *n = c->now;
    if (!c->p->h) return true;
    size_t primals = (size_t)c->p->j->n_primals + 1;
    n->given = td__arena_zalloc(&n->arena, sizeof *n->given * primals);
    n->given_typed = td__arena_zalloc(&n->arena, sizeof *n->given_typed * primals);
    if (!n->given || !n->given_typed) return td__fail_memory(c->p->cx);
    for (int i = 0; i < c->p->j->n_primals; i++) {
        const td_tensor *t = c->in[i].kind == TD_K_TENSOR ? c->in[i].u.t : NULL;
        if (!t) continue;
        if (!td__geom_copy(c->p->cx, &n->arena, &n->given[i], t)) return false;
        if (TD_LIKELY(!t->typed)) continue;
        n->given_typed[i] = parts_of(c->p->cx, &n->arena, t->typed, false);
        if (!n->given_typed[i]) return false;
    }
    return true;
}

/* Before the forward code runs. */
bool td__now_make(td_pcall *c) {
    td_plan *p = c->p;
    if (p->j->g->dims.n == 0) return true;
    td_now *n = td__zalloc(sizeof *n);
    if (!n) return td__fail_memory(p->cx);
    n->refs = 1;
    c->now = n;
    size_t saves = (size_t)p->n_saves + 1, tangents = (size_t)p->j->n_tangents + 1;
    n->numbers = td__arena_zalloc(&n->arena, sizeof *n->numbers * saves);
    n->types = td__arena_zalloc(&n->arena, sizeof *n->types * saves);
    n->tangents = td__arena_alloc(&n->arena, sizeof *n->tangents * tangents);
    n->typed = td__arena_zalloc(&n->arena, sizeof *n->typed * tangents);
    n->saved_typed = td__arena_zalloc(&n->arena, sizeof *n->saved_typed * saves);
    if (!n->numbers || !n->types || !n->tangents || !n->typed || !n->saved_typed)
        return td__fail_memory(p->cx);
    return note_given(c);
}

bool td__now_saved(const td_pcall *c, int i, const td_tensor *t) {
    td_now *n = c->now;
    if (!n) return true;
    if (!td__geom_copy(c->p->cx, &n->arena, &n->types[i], t)) return false;
    if (TD_LIKELY(!t->typed)) return true;
    n->saved_typed[i] = parts_of(c->p->cx, &n->arena, t->typed, false);
    return n->saved_typed[i] != NULL;
}

/* The geometry of tangents is that of the forward outputs, in the tangent's order of
 * dims. */
bool td__now_tangents(td_pcall *c) {
    if (!c->now) return true;
    for (int i = 0; i < c->p->j->n_tangents; i++) {
        const td_tangent *of = &c->p->j->tangents[i];
        td_geom          *to = &c->now->tangents[i];
        int64_t          *stride;
        if (!td__geom_copy(c->p->cx, &c->now->arena, to, c->vals[of->index].u.t))
            return false;
        stride = (int64_t *)(uintptr_t)to->stride;
        td__tangent_strides(of, to->size, stride);
        to->offset = 0;
        const td_gtype *l = c->p->j->g->inputs.v[c->p->j->n_primals + i]->type;
        const td_typed *d = l->of ? c->vals[of->index].u.t->typed : NULL;
        if (d && !(c->now->typed[i] = parts_of(c->p->cx, &c->now->arena, d, true)))
            return false;
    }
    return true;
}

void td__now_drop(td_now *n) {
    if (!n || --n->refs > 0) return;
    td__arena_free(&n->arena);
    td__free(n);
}
