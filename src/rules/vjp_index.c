/* vjp_index.c -- derivatives of the index family that need more than a formula. Reading
 * by index has writing by index as its derivative, and the other way round; elements
 * that were read several times add up. */
#include "ops/ops.h"

#include <string.h>

static td_ints    ints(const int64_t *v, int n) { return (td_ints){v, n}; }
static td_value   tv(td_tensor *t) { return td_value_tensor(t); }
static td_tensor *over(td_tensor *a, td_tensor *b) { return td_op_div(a, tv(b), ""); }

/* Zeros with the sizes of m and the dtype of g. */
static td_tensor *zeros_for(td_tensor *g, const td_meta *m) {
    return td_op_new_zeros(g, ints(m->size, m->rank), TD_DTYPE_NONE);
}

/* Sets the gradient of argument i; false when it could not be computed. */
static bool give(td_vjp *v, int i, td_tensor *g) {
    v->grad[i] = g;
    return g && !td_is_nil(g);
}

/* A 0-dim input is indexed as one dim of size 1. */
bool td__vjp_index_select(td_vjp *v) {
    const td_meta *m = v->in_meta[0];
    td_tensor     *g = v->g[0];
    if (m->rank == 0) return give(v, 0, td_op_reshape(g, ints(NULL, 0)));
    return give(v, 0,
                td_op_index_add(zeros_for(g, m), v->in[1].u.i, v->in[2].u.t, g,
                                td_value_int(1)));
}

/* The index tensors, argument 1. */
static td_tensors list_of(const td_vjp *v) {
    return (td_tensors){v->in[1].u.ts, (int)v->in[1].n};
}

/* in: self, indices. Elements picked several times add up, hence accumulate = true. */
bool td__vjp_index(td_vjp *v) {
    td_tensor *g = v->g[0];
    return give(v, 0,
                td_op__index_put(zeros_for(g, v->in_meta[0]), list_of(v), g, true));
}

/* in: self, indices, values, accumulate. self: g, with zeros where values replaced
 * elements. values: what the indices pick from g. */
bool td__vjp_index_put(td_vjp *v) {
    td_tensor *g = v->g[0], *self = g;
    bool       add = v->in[3].u.i != 0;
    if (v->need[0]) {
        td_tensor *none = td_op_new_zeros(g, ints(NULL, 0), TD_DTYPE_NONE);
        if (!add) self = td_op__index_put(g, list_of(v), none, false);
        if (!give(v, 0, self)) return false;
    }
    return !v->need[2] || give(v, 2, td_op__index(g, list_of(v)));
}

/* The strides that zeros_like of self, expanded to these sizes, has in ATen. */
static void expanded_like(const td_meta *m, int rank, const int64_t *size,
                          int64_t *stride) {
    int64_t own[TD_MAX_RANK];
    int     lead = rank - m->rank;
    for (int i = 0; i < rank; i++) {
        bool kept = i >= lead && td__dim_seems_eq(m->size[i - lead], size[i]);
        own[i] = kept ? m->stride[i - lead] : 0;
    }
    td__strides_like(rank, size, own, stride);
}

/* in: self, mask. g is spread over the places of the mask, in the broadcast sizes; the
 * engine sums them to those of self. The layout is that of self. */
bool td__vjp_masked_select(td_vjp *v) {
    const td_meta *m = v->in_meta[0];
    td_tensor     *g = v->g[0], *mask = v->in[1].u.t;
    int64_t        size[TD_MAX_RANK], stride[TD_MAX_RANK];
    int            rank = m->rank;
    memcpy(size, m->size, sizeof(int64_t) * (size_t)rank);
    if (!td__broadcast(&rank, size, mask->rank, mask->size)) return false;
    expanded_like(m, rank, size, stride);
    if (td__is_dense(rank, size, stride)) {
        td_tensor *none = td_op_new_zeros(g, ints(size, rank), TD_DTYPE_NONE);
        return give(v, 0, td_op_masked_scatter(none, mask, g));
    }
    td_tensor *none =
        td_op_new_empty_strided(g, ints(size, rank), ints(stride, rank), TD_DTYPE_NONE);
    return give(v, 0, td_op_masked_scatter_(td_op_zero_(none), mask, g));
}

/* ---- tables ------------------------------------------------------------- */

/* in: weight, indices, padding_idx, scale_grad_by_freq, sparse. */
bool td__vjp_embedding(td_vjp *v) {
    if (v->in[4].u.i)
        return give(v, 0,
                    td_op_embedding_sparse_backward(v->g[0], v->in[1].u.t,
                                                    v->in_meta[0]->size[0],
                                                    v->in[2].u.i));
    return give(v, 0,
                td_op_embedding_dense_backward(v->g[0], v->in[1].u.t,
                                               v->in_meta[0]->size[0], v->in[2].u.i,
                                               v->in[3].u.i != 0));
}

/* How often each index occurs, shaped like indices with a last dim of 1. */
static td_tensor *frequencies(td_tensor *g, td_tensor *indices, int64_t rows) {
    int64_t    all = -1, one = 1;
    td_tensor *flat = td_op_reshape(indices, ints(&all, 1));
    td_tensor *ones =
        td_op_expand_as(td_op_new_ones(g, ints(&one, 1), TD_DTYPE_NONE), flat);
    td_tensor *none = td_op_new_zeros(g, ints(&rows, 1), TD_DTYPE_NONE);
    td_tensor *count = td_op_index_add(none, 0, flat, ones, td_value_int(1));
    count = td_op_index_select(count, 0, flat);
    return td_op_unsqueeze(td_op_reshape_as(count, indices), -1);
}

/* The gradient of grad_output: each takes the row of g that it was added to, 0 for the
 * padding row, divided by the frequency where the op divided. */
bool td__vjp_embedding_dense_backward(td_vjp *v) {
    td_tensor *g = v->g[0], *indices = v->in[1].u.t;
    int64_t    pad = td__dim_fixed(v->in[3].u.i);
    td_tensor *rows = td_op_embedding(g, indices, -1, false, false);
    if (pad >= 0) {
        td_tensor *mask = td_op_unsqueeze(td_op_eq(indices, td_value_int(pad)), -1);
        rows = td_op_masked_fill(rows, mask, td_value_int(0));
    }
    if (v->in[4].u.i) rows = over(rows, frequencies(g, indices, v->in[2].u.i));
    return give(v, 0, rows);
}

/* ---- scatter_reduce ----------------------------------------------------- */

typedef struct reduction {
    td_tensor  *self, *index, *src, *out, *g;
    int64_t     dim;
    const char *how;
    bool        with_self;
    td_tensor  *grad_self, *grad_src;
} reduction;

/* gather(t, dim, index). */
static td_tensor *at_index(const reduction *r, td_tensor *t) {
    return td_op_gather(t, r->dim, r->index);
}

/* n counts the terms of each mean; a mean of no terms keeps self, so its n becomes
 * 1. */
static void mean_grads(reduction *r) {
    td_tensor *ones = td_op_ones_like(r->src, TD_DTYPE_NONE);
    td_tensor *n = r->with_self ? td_op_ones_like(r->g, TD_DTYPE_NONE)
                                : td_op_zeros_like(r->g, TD_DTYPE_NONE);
    n = td_op_scatter_add(n, r->dim, r->index, ones);
    n = td_op_masked_fill(n, td_op_eq(n, td_value_int(0)), td_value_int(1));
    r->grad_self = over(r->g, n);
    r->grad_src = over(at_index(r, r->g), at_index(r, n));
}

/* Those that equal the extreme share its gradient. */
static void extreme_grads(reduction *r) {
    td_dtype   dt = (td_dtype)r->self->dtype;
    td_tensor *mine = td_op_to(td_op_eq(r->self, tv(r->out)), dt, false);
    td_tensor *value = at_index(r, r->out);
    td_tensor *theirs = td_op_to(td_op_eq(r->src, tv(value)), dt, false);
    td_tensor *n = td_op_scatter_add(mine, r->dim, r->index, theirs);
    td_tensor *share = over(r->g, n);
    r->grad_self = td_op_mul(mine, tv(share));
    r->grad_src = td_op_mul(theirs, tv(at_index(r, share)));
}

/* g * out / x, with the product without x computed where x is the only zero. */
static void prod_grads(reduction *r) {
    td_dtype   dt = (td_dtype)r->self->dtype;
    td_value   one = td_value_int(1), zero = td_value_int(0);
    td_tensor *nozero = td_op_masked_fill(r->self, td_op_eq(r->self, zero), one);
    td_tensor *rest =
        td_op_scatter_reduce(nozero, r->dim, r->index, r->src, r->how, r->with_self);
    r->grad_self = over(td_op_mul(r->g, tv(rest)), nozero);

    /* dividing by a zero would lose its gradient: a place with exactly one zero gets
     * the product of the others */
    td_tensor *is_zero = td_op_eq(r->src, zero);
    td_tensor *zeros =
        td_op_scatter_add(td_op_zeros_like(r->self, TD_DTYPE_NONE), r->dim, r->index,
                          td_op_to(is_zero, dt, false));
    td_tensor *single = td_op_logical_and(is_zero, td_op_eq(at_index(r, zeros), one));
    td_tensor *without = td_op_scatter_reduce(r->self, r->dim, r->index,
                                              td_op_masked_fill(r->src, single, one),
                                              r->how, r->with_self);
    td_tensor *lone = at_index(r, td_op_mul(r->g, tv(without)));
    td_tensor *common = over(at_index(r, td_op_mul(r->g, tv(r->out))),
                             td_op_masked_fill(r->src, is_zero, one));
    r->grad_src = td_op_where(single, tv(lone), tv(common));
}

/* in: self, dim, index, src, reduce, include_self. Without self, the elements of self
 * that were replaced get 0. */
bool td__vjp_scatter_reduce(td_vjp *v) {
    reduction r = {.self = v->in[0].u.t,
                   .index = v->in[2].u.t,
                   .src = v->in[3].u.t,
                   .out = v->out[0],
                   .g = v->g[0],
                   .dim = v->in[1].u.i,
                   .how = v->in[4].u.s,
                   .with_self = v->in[5].u.i != 0};
    if (!strcmp(r.how, "sum")) {
        r.grad_self = r.g;
        r.grad_src = at_index(&r, r.g);
    } else if (!strcmp(r.how, "mean")) mean_grads(&r);
    else if (!strcmp(r.how, "prod")) prod_grads(&r);
    else extreme_grads(&r);
    if (!r.with_self)
        r.grad_self = td_op_scatter_value(r.grad_self, r.dim, r.index, td_value_int(0));
    return (!v->need[0] || give(v, 0, r.grad_self)) &&
           (!v->need[3] || give(v, 3, r.grad_src));
}
