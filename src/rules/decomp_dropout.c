/* decomp_dropout.c -- dropout of elements and of channels, alpha dropout, and other
 * composites that draw. */
#include "rules/rule_arith.h"
#include "rules/shape_rules.h"

#include <math.h>

/* Outside training, for p = 0 and for empty tensors nothing is drawn. */
static bool drops_nothing(td_opcall *c) {
    return td__in_f(c, 1) == 0 || !td__in_bool(c, 2) ||
           !td__dim_expect(td__in(c, 0)->numel, TD_DIM_IS_NE, 0);
}

/* x without all its elements; what is not finite becomes NaN. */
static td_tensor *zeros_of(td_tensor *x) {
    if (td__is_float((td_dtype)x->dtype)) return td_op_mul(x, td_value_int(0));
    return t_mul(x, td_op_new_zeros(x, (td_ints){NULL, 0}, TD_DTYPE_NONE));
}

/* in: input, p, train. Returns input itself when nothing is dropped: PyTorch draws no
 * numbers then. */
bool td__decomp_dropout(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    double     p = td__in_f(c, 1);
    if (!td__check_probability(c, p)) return false;
    if (drops_nothing(c)) return c->out[0] = x, true;
    if (p == 1 && !td__is_float((td_dtype)x->dtype)) c->out[0] = zeros_of(x);
    else c->out[0] = td_op_native_dropout(x, p, true, NULL);
    return true;
}

/* dropout, then a copy into input. */
bool td__decomp_dropout_(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    if (!td__decomp_dropout(c)) return false;
    if (c->out[0] != x) c->out[0] = td_op_copy_(x, c->out[0], false);
    return true;
}

/* ---- of channels -------------------------------------------------------- */

/* 1 with probability 1 - p, else 0: one for each element of x, or each channel. They
 * have no history, and so are constants of a gradient. */
static td_tensor *coins(td_tensor *x, double p, bool channels) {
    int64_t size[TD_MAX_RANK];
    for (int i = 0; i < x->rank; i++) size[i] = channels && i > 1 ? 1 : x->size[i];
    td_tensor *like = channels
                          ? td_op_new_empty(x, (td_ints){size, x->rank}, TD_DTYPE_NONE)
                          : td_op_detach(x);
    return td_op_bernoulli_p(like, 1 - p);
}

/* Channels are dim 1. */
static bool check_channels(td_opcall *c) {
    const td_tensor *x = td__in(c, 0);
    return x->rank >= 2 || td__op_fail(c, TD_E_SHAPE, "input must be [N,C,...], got %s",
                                       td__type_str(x));
}

/* Integers cannot be divided by 1 - p. With p = 1 nothing is. */
static bool check_scaled(td_opcall *c, double p) {
    td_dtype dt = (td_dtype)td__in(c, 0)->dtype;
    return p == 1 || td__is_float(dt) ||
           td__op_fail(c, TD_E_DTYPE, "needs a float dtype unless p is 1, got %s",
                       td_dtype_name(dt));
}

/* feature_dropout of a tensor from which elements are dropped. NULL after a failure. */
static td_tensor *drop_channels(td_opcall *c, td_tensor *x) {
    double p = td__in_f(c, 1);
    if (drops_nothing(c)) return x;
    if (!check_scaled(c, p)) return NULL;
    if (p == 1) return zeros_of(x);
    return t_mul(x, td_op_div(coins(x, p, true), td_value_float(1 - p), ""));
}

/* in: input [N,C,...], p, train. */
bool td__decomp_feature_dropout(td_opcall *c) {
    if (!td__check_probability(c, td__in_f(c, 1)) || !check_channels(c)) return false;
    return (c->out[0] = drop_channels(c, td__in(c, 0))) != NULL;
}

/* feature_dropout of an input of rank `least` to `most`; with `one`, an input of the
 * least is one sample, and the result a view of it where nothing is dropped. */
static bool dropout_nd(td_opcall *c, int least, int most, bool one) {
    td_tensor *x = td__in(c, 0);
    double     p = td__in_f(c, 1);
    bool       single = one && x->rank == least;
    if (!td__check_probability(c, p)) return false;
    if (x->rank < least || x->rank > most)
        return td__op_fail(c, TD_E_SHAPE, "input must have %d or %d dims, got %s",
                           least, most, td__type_str(x));
    td_tensor *y = drop_channels(c, single ? td_op_unsqueeze(x, 0) : x);
    c->out[0] = y && single ? td_op_squeeze_dim(y, 0) : y;
    return y != NULL;
}

bool td__decomp_dropout1d(td_opcall *c) { return dropout_nd(c, 2, 3, true); }
/* Three dims are [N,C,L], as in PyTorch. */
bool td__decomp_dropout2d(td_opcall *c) { return dropout_nd(c, 3, 4, false); }
bool td__decomp_dropout3d(td_opcall *c) { return dropout_nd(c, 4, 5, true); }

/* ---- alpha dropout ------------------------------------------------------ */

/* x where a coin is 1, else selu's limit -alpha; a and the shift restore mean and
 * variance. */
static bool alpha_dropout(td_opcall *c, bool channels) {
    const double alpha = 1.7580993408473766;
    td_tensor   *x = td__in(c, 0);
    double       p = td__in_f(c, 1);
    if (!td__check_probability(c, p) || (channels && !check_channels(c))) return false;
    if (drops_nothing(c)) return c->out[0] = x, true;
    if (!check_scaled(c, p)) return false;
    if (p == 1) return c->out[0] = zeros_of(x), true;
    double     a = 1 / sqrt((alpha * alpha * p + 1) * (1 - p));
    td_tensor *keep = coins(x, p, channels);
    td_tensor *shift = td_op_sub(keep, td_value_int(1), td_value_int(1));
    shift = td_op_add(t_scale(shift, alpha * a), td_value_float(alpha * a * p),
                      td_value_int(1));
    c->out[0] = t_add(t_mul(x, t_scale(keep, a)), shift);
    return true;
}

/* in: input, p, train. */
bool td__decomp_alpha_dropout(td_opcall *c) { return alpha_dropout(c, false); }
bool td__decomp_feature_alpha_dropout(td_opcall *c) { return alpha_dropout(c, true); }

/* ---- other composites that draw ----------------------------------------- */

/* in: self, lower, upper, training. The result is row-major, as PyTorch has it. */
bool td__decomp_rrelu(td_opcall *c) {
    td_tensor *x = td_op_contiguous(td__in(c, 0));
    double     low = td__in_f(c, 1), high = td__in_f(c, 2);
    if (!(isfinite(low) && isfinite(high) && low <= high))
        return td__op_fail(c, TD_E_ARG,
                           "lower and upper must be finite with lower <= upper, got %g "
                           "and %g",
                           low, high);
    if (!td__in_bool(c, 3)) {
        c->out[0] = td_op_leaky_relu(x, td_value_float((low + high) / 2));
        return true;
    }
    td_tensor *slope = td_op_uniform(td_op_detach(x), low, high);
    td_tensor *negative = td_op_le(x, td_value_int(0));
    c->out[0] =
        td_op_where(negative, td_value_tensor(t_mul(x, slope)), td_value_tensor(x));
    return true;
}

/* in: logits, tau, hard, dim. */
bool td__decomp_gumbel_softmax(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    int        dim = td__op_dim(c, td__in_int(c, 3), x->rank);
    if (dim < 0) return false;
    td_tensor *noise = td_op_neg(td_op_log(td_op_exponential(td_op_detach(x), 1)));
    td_tensor *y =
        td_op_softmax(t_over(t_add(x, noise), td__in_f(c, 1)), dim, TD_DTYPE_NONE);
    c->out[0] = y;
    if (!td__in_bool(c, 2)) return true;
    td_tensor *at = td_op_argmax(y, td_value_int(dim), true);
    td_tensor *hard = td_op_scatter_value(td_op_zeros_like(y, TD_DTYPE_NONE), dim, at,
                                          td_value_float(1));
    c->out[0] = t_add(t_sub(hard, td_op_detach(y)), y);
    return true;
}
