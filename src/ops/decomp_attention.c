/* decomp_attention.c -- scaled dot product attention in plain products: the
 * reference that blocked kernels are compared with. */
#include "ops/ops.h"

#include <math.h>

/* The mask as a number to add: bool masks and causality become 0 and -inf. */
static td_tensor *additive_mask(td_opcall *c, td_tensor *q, td_tensor *k) {
    td_tensor *mask = td__in(c, 3);
    td_dtype   dt = (td_dtype)q->dtype;
    if (td__in_bool(c, 5)) {
        td_tensor *all =
            td_op_ones(c->cx, TD_SHAPE(q->size[q->rank - 2], k->size[k->rank - 2]),
                       TD_BOOL);
        mask = td_op_tril(all, 0);
    }
    if (!mask || mask->dtype != TD_BOOL) return mask;
    td_tensor *zero = td_op_zeros(c->cx, td__sizes(mask), dt);
    return td_op_masked_fill(zero, td_op_logical_not(mask), td_value_float(-INFINITY));
}

/* Stacked heads without dropout come back laid out as the query. */
static td_tensor *laid_out_as(td_opcall *c, td_tensor *q, td_tensor *y) {
    bool heads = q->rank == 4 && td__in_f(c, 4) == 0 && td__dim_lt(0, y->numel) &&
                 td__dim_eq(q->size[3], y->size[3]);
    if (!heads || td_is_nil(y) || td_is_contiguous(q) ||
        !td__is_packed(q->rank, q->size, q->stride))
        return y;
    td_tensor *r =
        td_op_empty_strided(c->cx, td__sizes(y), td__strides(q), (td_dtype)y->dtype);
    return td_is_nil(r) ? r : td_op_copy_(r, y, false);
}

bool td__decomp_attention(td_opcall *c) {
    td_tensor *q = td__in(c, 0), *k = td__in(c, 1), *v = td__in(c, 2);
    if (q->rank < 2 || k->rank < 2 || v->rank < 2)
        return td__op_fail(c, TD_E_SHAPE,
                           "query, key and value need [.., T, E], got %s, %s, %s",
                           td__type_str(q), td__type_str(k), td__type_str(v));
    if (q->dtype != k->dtype || q->dtype != v->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "query, key and value must have one dtype, got %s, %s, %s",
                           td__type_str(q), td__type_str(k), td__type_str(v));
    if (td__in(c, 3) && td__in_bool(c, 5))
        return td__op_fail(c, TD_E_ARG, "give attn_mask or is_causal, not both");
    double scale = td__in_none(c, 6)
                       ? 1 / sqrt((double)td__dim_fixed(q->size[q->rank - 1]))
                       : td__in_f(c, 6);
    double half =
        sqrt(scale < 0 ? -scale : scale); /* both sides: less overflow in f16 */
    td_tensor *mask = additive_mask(c, q, k);
    td_tensor *qs = td_op_mul(q, td_value_float(scale < 0 ? -half : half));
    td_tensor *kt = td_op_transpose(td_op_mul(k, td_value_float(half)), -2, -1);
    td_tensor *p = td_op_matmul(qs, kt);
    if (mask) p = td_op_add(p, td_value_tensor(mask), td_value_int(1));
    p = mask ? td_op__safe_softmax(p, -1) : td_op_softmax(p, -1, TD_DTYPE_NONE);
    if (td__in_f(c, 4) > 0) p = td_op_dropout(p, td__in_f(c, 4), true);
    c->out[0] = laid_out_as(c, q, td_op_matmul(p, v));
    return true;
}
