/* typed_sparse.c -- ops that take or give sparse tensors, below autograd: by ops on
 * inner tensors (ops/sparse.h). Shape rules have checked kinds and sizes. */
#include "ops/sparse.h"
#include "rules/rule_arith.h"

/* Sets result 0; false when a call that made t failed. */
static bool give(td_opcall *c, td_tensor *t) {
    c->out[0] = t;
    return t && !td_is_nil(t);
}

/* The sizes of result 0. */
static td_ints out_size(const td_opcall *c) {
    return (td_ints){c->meta[0].size, c->meta[0].rank};
}

static td_tensor *wide_index(td_tensor *t) { return t_as(t, TD_I64); }

/* ---- making ------------------------------------------------------------- */

/* in: indices, values, size, is_coalesced. */
bool td__typed_sparse_coo_tensor(td_opcall *c) {
    td_tensor *values = td__in(c, 1), *indices = wide_index(td__in(c, 0));
    td_ints    sparse = {c->meta[0].size, c->meta[0].rank - values->rank + 1};
    return give(c, td__coo_wrap(td_op__coo_check(indices, sparse),
                                td_op_clone(values, true), out_size(c),
                                td__in_bool(c, 3)));
}

/* in: crow_indices, col_indices, values, size. */
bool td__typed_sparse_csr_tensor(td_opcall *c) {
    td_tensor *col = NULL;
    td_tensor *crow = td_op__csr_check(wide_index(td__in(c, 0)),
                                       wide_index(td__in(c, 1)), out_size(c), &col);
    return give(c,
                td__csr_wrap(crow, col, td_op_clone(td__in(c, 2), true), out_size(c)));
}

bool td__typed_to_dense(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    return give(c, t->typed ? td__sparse_to_dense(t) : td_op_clone(t, true));
}

/* in: self, indices, inverse. */
bool td__typed_coalesced(td_opcall *c) {
    td_tensor *values = td__sparse_values(td__in(c, 0)), *at = td__in(c, 1);
    int64_t    size[TD_MAX_RANK];
    for (int d = 0; d < values->rank; d++) size[d] = values->size[d];
    size[0] = at->size[1];
    td_tensor *zero =
        td_op_new_zeros(values, (td_ints){size, values->rank}, TD_DTYPE_NONE);
    values = td_op_index_add(zero, 0, td__in(c, 2), values, td_value_int(1));
    return give(c, td__coo_wrap(at, values, out_size(c), true));
}

bool td__typed_coo_to_csr(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *at[TD_MAX_RANK];
    if (!td__sparse_places(t, at)) return false;
    return give(c, td__csr_wrap(td_op__coo_crow(at[0], t->size[0]),
                                td_op_clone(at[1], true), td__sparse_values(t),
                                out_size(c)));
}

bool td__typed_csr_to_coo(td_opcall *c) {
    return give(c, td__sparse_as_coo(td__in(c, 0)));
}

/* in: self [, dim0, dim1]. */
bool td__typed_sparse_t(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    bool       same = c->n_in > 1 &&
                td__wrap_dim(td__in_int(c, 1), 2) == td__wrap_dim(td__in_int(c, 2), 2);
    return give(c, same ? td__sparse_with(t, td__sparse_values(t)) : td__sparse_t(t));
}

/* ---- parts -------------------------------------------------------------- */

/* crow_indices is part 0 of sparse_csr, and so on. */
bool td__typed_sparse_part(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    switch (c->info->op) {
    case TD_OP_crow_indices: return give(c, td__sparse_part(t, TD_CSR_CROW));
    case TD_OP_col_indices: return give(c, td__sparse_part(t, TD_CSR_COL));
    case TD_OP_values: return give(c, td__sparse_values(t));
    default: return give(c, td__sparse_part(t, TD_COO_INDICES));
    }
}

/* in: like, values. */
bool td__typed_sparse_like(td_opcall *c) {
    return give(c, td__sparse_with(td__in(c, 0), td__in(c, 1)));
}

/* in: self, at. */
bool td__typed_values_at(td_opcall *c) {
    return give(c, td__sparse_values_at(td__in(c, 0), td__in(c, 1)));
}

/* in: self, mask. The gradient of a plain tensor may be masked by it: a copy. */
bool td__typed_sparse_mask(td_opcall *c) {
    td_tensor *self = td__in(c, 0), *mask = td__in(c, 1);
    if (!mask->typed)
        return give(c,
                    self->typed ? td__sparse_to_dense(self) : td_op_clone(self, true));
    td_tensor *values = td__sparse_values_at(self, mask);
    return give(c, td__sparse_with(mask, td__sparse_once(mask, values)));
}

/* ---- computing ---------------------------------------------------------- */

bool td__typed_sparse_mm(td_opcall *c) {
    return give(c, td__sparse_product(c, td__in(c, 0), td__in(c, 1)));
}

bool td__typed_sparse_sum(td_opcall *c) {
    td_tensor *values = td__sparse_values(td__in(c, 0));
    return give(c, td_op_sum(values, TD_ALL, false, TD_DTYPE_NONE));
}

/* in: mask, x, y. */
bool td__typed_sparse_sampled(td_opcall *c) {
    td_tensor *mask = td__in(c, 0), *x = td__in(c, 1), *y = td__in(c, 2);
    td_tensor *at[TD_MAX_RANK];
    td_dtype   dt = (td_dtype)x->dtype;
    if (td__is_sparse(x)) x = td__sparse_to_dense(x);
    if (td__is_sparse(y)) y = td__sparse_to_dense(y);
    if (!td__sparse_places(mask, at)) return false;
    td_tensor *r =
        td_op__sampled_mm(td_op_contiguous(at[0]), td_op_contiguous(at[1]),
                          td_op_contiguous(t_wide(x)), td_op_contiguous(t_wide(y)));
    return give(c, td__sparse_with(mask, td__sparse_once(mask, t_as(r, dt))));
}

/* ---- embedding ---------------------------------------------------------- */

/* in: grad_output, indices, num_weights, padding_idx. */
bool td__typed_embedding_sparse_backward(td_opcall *c) {
    td_tensor *g = td__in(c, 0);
    int64_t    d = g->size[g->rank - 1], pad = td__in_number(c, 3);
    int64_t    rows[2] = {td__in(c, 1)->numel, d}, at[2] = {1, rows[0]};
    td_tensor *indices = td_op_reshape(wide_index(td__in(c, 1)), (td_ints){at, 2});
    td_tensor *values = td_op_reshape(g, (td_ints){rows, 2});
    if (pad >= 0) {
        td_tensor *none =
            td_op_eq(td_op_reshape(indices, (td_ints){rows, 1}), td_value_int(pad));
        values = td_op_masked_fill(values, td_op_unsqueeze(none, 1), td_value_int(0));
    }
    return give(c,
                td__coo_wrap(td_op__coo_check(indices, (td_ints){c->meta[0].size, 1}),
                             values, out_size(c), false));
}

/* in: as above. grad_output takes what its entry has; the padding row nothing. */
bool td__vjp_embedding_sparse_backward(td_vjp *v) {
    const td_meta *m = v->in_meta[0];
    td_tensor     *g = v->g[0], *indices = v->in[1].u.t;
    int64_t        pad = td__dim_fixed(v->in[3].u.i);
    td_tensor     *r =
        td_op_reshape(td_op__values_at(g, v->out[0]), (td_ints){m->size, m->rank});
    if (pad >= 0)
        r = td_op_masked_fill(r,
                              td_op_unsqueeze(td_op_eq(indices, td_value_int(pad)), -1),
                              td_value_int(0));
    v->grad[0] = r;
    return !td_is_nil(r);
}

/* ---- derivative of the product ------------------------------------------ */

/* The gradient of one operand: of a sparse one, x @ y^T at its entries; of a plain one
 * a product. */
bool td__vjp_sparse_mm(td_vjp *v) {
    td_tensor *a = v->in[0].u.t, *b = v->in[1].u.t, *g = v->g[0];
    if (v->need[0])
        v->grad[0] =
            a->typed ? td_op__sparse_sampled(a, g, b) : td_op_sparse_mm(g, td_op_t(b));
    if (v->need[1])
        v->grad[1] = b->typed ? td_op__sparse_sampled(b, td_op_t(a), td_op_t(g))
                              : td_op_sparse_mm(td_op_t(a), g);
    return (!v->need[0] || !td_is_nil(v->grad[0])) &&
           (!v->need[1] || !td_is_nil(v->grad[1]));
}
