/* decomp_pointwise.c -- composite pointwise rows with a check that a formula cannot
 * state. */
#include "rules/rule_arith.h"

/* celu(a, alpha) = elu(a, alpha, 1, 1 / alpha). */
bool td__decomp_celu(td_opcall *c) {
    double alpha = td__in_f(c, 1);
    if (alpha == 0.0) return td__op_fail(c, TD_E_ARG, "alpha must not be 0");
    c->out[0] =
        td_op_elu(td__in(c, 0), c->in[1], td_value_int(1), td_value_float(1.0 / alpha));
    return true;
}

/* in: self, weight. */
bool td__decomp_prelu(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *w = td__in(c, 1);
    int64_t    size[TD_MAX_RANK], channels = t->rank > 1 ? t->size[1] : 1;
    if (w->rank > 1 || !(td__dim_eq(w->numel, 1) || td__dim_eq(w->numel, channels)))
        return td__op_fail(c, TD_E_SHAPE,
                           "weight is %s; self %s takes a vector of 1 or %lld elements",
                           td__type_str(w), td__type_str(t),
                           (long long)td__dim_now(channels));
    if (w->dtype != t->dtype || !td__is_float((td_dtype)t->dtype))
        return td__op_fail(c, TD_E_DTYPE,
                           "self %s and weight %s must have one float dtype",
                           td__type_str(t), td__type_str(w));
    for (int d = 0; d < t->rank; d++) size[d] = d == 1 ? w->numel : 1;
    w = td_op_reshape(w, (td_ints){size, t->rank});
    td_tensor *positive = td_op_gt(t, td_value_int(0));
    c->out[0] = td_op_where(positive, td_value_tensor(t), td_value_tensor(t_mul(w, t)));
    return true;
}

/* in: self, dim. */
bool td__decomp_glu(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int        dim = td__op_dim(c, td__in_int(c, 1), t->rank);
    if (dim < 0) return false;
    if (t->rank == 0 || !td__is_float((td_dtype)t->dtype))
        return td__op_fail(c, TD_E_SHAPE,
                           "self must be a float tensor with a dim, got %s",
                           td__type_str(t));
    int64_t half = td__dim_div(t->size[dim], 2);
    if (!td__dim_eq(td__dim_mul(half, 2), t->size[dim]))
        return td__op_fail(c, TD_E_SHAPE, "dim %d of self %s must have an even size",
                           dim, td__type_str(t));
    td_value   from = td_value_int(0), middle = td_value_int(half);
    td_tensor *a = td_op_slice(t, dim, from, middle, 1);
    td_tensor *b = td_op_slice(t, dim, middle, TD_NONE, 1);
    c->out[0] = t_mul(a, td_op_sigmoid(b));
    return true;
}
