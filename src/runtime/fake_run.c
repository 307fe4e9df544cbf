/* fake_run.c -- a call on fake tensors (td_fakes_begin): the code does not run. Its
 * outputs are fake tensors of the types that the graph has, which share storage where
 * those do; node and epilogue of the plan then do what they always do, so results have
 * the strides, aliases and histories of a real call. */
#include "runtime/plan.h"

#include <string.h>

typedef struct faking {
    td_plan        *p;
    const td_graph *g;
    const td_value *in;
    int64_t        *bound; /* symbolic sizes; NULL: there are none */
    td_tensor     **first; /* by storage number: an output or input in it */
} faking;

static int64_t size_of(const faking *f, int64_t dim) {
    return f->bound ? td__gdim_value(f->g, dim, f->bound) : dim;
}

/* The type's geometry as numbers. False after td__fail: a size depends on values. */
static bool geometry(const faking *f, const td_gtype *l, td_meta *m) {
    *m = (td_meta){.dtype = (td_dtype)l->dtype, .rank = l->rank, .strided = true};
    m->offset = size_of(f, l->offset);
    bool known = m->offset != INT64_MIN;
    for (int d = 0; d < l->rank; d++) {
        m->size[d] = size_of(f, l->size[d]);
        m->stride[d] = size_of(f, l->stride[d]);
        known &= m->size[d] != INT64_MIN && m->stride[d] != INT64_MIN;
    }
    return known || td__fail(f->p->cx, TD_E_UNSUPPORTED,
                             "%s: a size of a result depends on values, which fake "
                             "tensors do not have; call it with real tensors",
                             f->p->name);
}

/* Output i of the graph. NULL after td__fail. */
static td_tensor *make(faking *f, const td_gval *v) {
    td_meta     m;
    td_tensor **first = v->type->storage >= 0 ? &f->first[v->type->storage] : NULL;
    if (!v->node && f->in[v->nr].kind == TD_K_TENSOR) return f->in[v->nr].u.t;
    if (!geometry(f, v->type, &m)) return NULL;
    td_tensor *t = first && *first ? td__tensor_over(f->p->cx, (*first)->st, &m)
                                   : td__tensor_make(f->p->cx, &m, true);
    if (first && !*first) *first = t;
    return t;
}

static bool make_all(faking *f, td_value *out) {
    const td_graph *g = f->g;
    for (int i = 0; i < g->outputs.n; i++) {
        const td_garg *a = &g->outputs.v[i];
        out[i] = TD_NONE;
        for (int k = 0; k < i && a->kind == TD_G_VALUE; k++)
            if (g->outputs.v[k].kind == TD_G_VALUE && g->outputs.v[k].u.v == a->u.v)
                out[i] = out[k];
        if (out[i].kind != TD_K_NONE) continue;
        bool tensor =
            a->kind == TD_G_VALUE && a->u.v->type && a->u.v->type->kind == TD_K_TENSOR;
        if (tensor) {
            td_tensor *t = make(f, a->u.v);
            if (!t) return false;
            out[i] = td_value_tensor(t);
        } else if (a->kind == TD_G_SYM) out[i] = td_value_int(size_of(f, a->u.i));
        else if (a->kind == TD_G_VALUE && !a->u.v->node) out[i] = f->in[a->u.v->nr];
        else (void)td__garg_literal(a, &out[i]);
    }
    return true;
}

/* Outputs that share storage with an input are views of it. */
static void note_inputs(faking *f) {
    for (int i = 0; i < f->g->inputs.n; i++) {
        const td_gtype *l = f->g->inputs.v[i]->type;
        if (l && l->storage >= 0 && f->in[i].kind == TD_K_TENSOR)
            f->first[l->storage] = f->in[i].u.t;
    }
}

bool td__plan_run_fake(td_plan *p, const td_graph *g, const td_value *in,
                       const bool *own, td_value *out) {
    faking f = {.p = p, .g = g, .in = in};
    size_t n = (size_t)g->n_storages + 1;
    f.first = td__zalloc(sizeof *f.first * n);
    f.bound = g->dims.n ? td__zalloc(sizeof *f.bound * ((size_t)g->dims.n + 1)) : NULL;
    bool ok = (f.first && (f.bound || !g->dims.n)) || td__fail_memory(p->cx);
    if (ok && f.bound) {
        td__gdim_bind(g, in, f.bound);
        td__gdim_solve(g, f.bound);
    }
    if (ok) note_inputs(&f);
    ok = ok && make_all(&f, out);
    if (ok) td__drop_owned(g, in, own, out);
    td__free((void *)f.first);
    td__free(f.bound);
    return ok;
}
