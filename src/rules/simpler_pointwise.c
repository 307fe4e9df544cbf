/* simpler_pointwise.c -- activation functions and products with a choice in them, in
 * terms of simpler ops. A number that an argument decides on is no branch in the
 * result: it is known when the op is called. */
#include "rules/rule_arith.h"

#include <math.h>

#include <string.h>

/* a + k. */
static td_tensor *plus(td_tensor *a, double k) {
    return td_op_add(a, td_value_float(k), td_value_int(1));
}

/* Sets result 0; the caller looks for nil. */
static bool set_out(td_opcall *c, td_tensor *t) {
    c->out[0] = t;
    return true;
}

/* in: a, approximate. */
bool td__simpler_gelu(td_opcall *c) {
    bool erf = strcmp(c->in[1].u.s, "tanh") != 0;
    return set_out(c,
                   erf ? td_op_gelu_erf(td__in(c, 0)) : td_op_gelu_tanh(td__in(c, 0)));
}

/* in: grad_output, a, approximate. */
bool td__simpler_gelu_backward(td_opcall *c) {
    td_tensor *g = td__in(c, 0), *a = td__in(c, 1);
    bool       erf = strcmp(c->in[2].u.s, "tanh") != 0;
    return set_out(c, erf ? td_op_gelu_erf_backward(g, a)
                          : td_op_gelu_tanh_backward(g, a));
}

/* With t = tanh(k (a + c a^3)): (1 + t) / 2 + a (1 - t^2) k (1 + 3 c a^2) / 2. */
bool td__simpler_gelu_tanh_backward(td_opcall *c) {
    const double k = 0.7978845608028654;
    td_tensor   *g = td__in(c, 0), *a = td__in(c, 1), *aa = t_mul(a, a);
    td_tensor   *t = td_op_tanh(t_scale(t_add(a, t_mul(t_scale(aa, 0.044715), a)), k));
    td_tensor   *slope = t_scale(plus(t_scale(aa, 0.134145), 1), k);
    td_tensor   *rest = t_mul(t_scale(a, 0.5), plus(td_op_neg(t_mul(t, t)), 1));
    return set_out(c, t_mul(g, t_add(t_scale(plus(t, 1), 0.5), t_mul(rest, slope))));
}

/* in: grad_output, alpha, scale, input_scale, is_result, self_or_result. */
bool td__simpler_elu_backward(td_opcall *c) {
    td_tensor *g = td__in(c, 0), *a = td__in(c, 5);
    double     k = td__in_f(c, 1) * td__in_f(c, 2), in_scale = td__in_f(c, 3);
    td_tensor *low = t_scale(g, in_scale);
    if (td__in_bool(c, 4)) low = t_mul(low, plus(a, k));
    else {
        td_tensor *neg = td_op_clamp_max(a, td_value_int(0));
        low = t_mul(t_scale(low, k), td_op_exp(t_scale(neg, in_scale)));
    }
    td_tensor *high = td_op_mul(g, c->in[2]);
    return set_out(c, td_op_where(td_op_le(a, td_value_int(0)), td_value_tensor(low),
                                  td_value_tensor(high)));
}

/* Unlike clamp it is flat at the bounds; integers have no slope. */
bool td__simpler_threshold(td_opcall *c) {
    td_tensor *a = td__in(c, 0);
    td_value   least = c->in[1];
    if (a->dtype == TD_U8) least = td_value_int((uint8_t)td__value_i(least));
    return set_out(c, td_op_where(td_op_le(a, least), c->in[2], td_value_tensor(a)));
}

/* in: a, min_val, max_val. Selected by <= and >=, so that the gradient at a bound is 0.
 * NaN bounds make every element NaN, which clamp does. */
bool td__simpler_hardtanh(td_opcall *c) {
    td_tensor *a = td__in(c, 0);
    td_value   low = c->in[1], high = c->in[2];
    if (!td__is_float((td_dtype)a->dtype))
        return set_out(c, td_op_clamp(a, td_value_int(td__value_i(low)),
                                      td_value_int(td__value_i(high))));
    if (isnan(td__value_f(low)) || isnan(td__value_f(high)))
        return set_out(c, td_op_clamp(a, low, high));
    td_tensor *r = td_op_where(td_op_le(a, low), low, td_value_tensor(a));
    return set_out(c, td_op_where(td_op_ge(r, high), high, td_value_tensor(r)));
}

/* A factor counts in the dtype of the result. */
bool td__simpler_addcmul(td_opcall *c) {
    td_value value = c->in[3];
    if (!td__is_differentiable(c->meta[0].dtype))
        value = td_value_int(td__value_i(value));
    td_tensor *product = t_mul(td__in(c, 1), td__in(c, 2));
    return set_out(c, t_add(td__in(c, 0), td_op_mul(product, value)));
}

/* ---- products ----------------------------------------------------------- */

/* A factor of 1 costs no op. */
static bool is_one(td_value v) { return td__value_f(v) == 1; }

/* A factor of integers is truncated. */
static td_value factor(const td_opcall *c, int i) {
    bool floats = td__is_differentiable((td_dtype)td__in(c, 0)->dtype);
    return floats ? c->in[i] : td_value_int(td__value_i(c->in[i]));
}

/* beta * self + alpha * product; a side with factor 0 is not read. */
static bool add_product(td_opcall *c, td_tensor *product) {
    td_value   beta = factor(c, 3), alpha = factor(c, 4);
    td_tensor *self = td__in(c, 0);
    if (td__value_f(alpha) == 0) product = td_op_zero(product);
    else if (!is_one(alpha)) product = td_op_mul(product, alpha);
    if (td__value_f(beta) == 0) return set_out(c, product);
    return set_out(c, t_add(product, is_one(beta) ? self : td_op_mul(self, beta)));
}

bool td__simpler_addmm(td_opcall *c) {
    return add_product(c, td_op_mm(td__in(c, 1), td__in(c, 2)));
}
bool td__simpler_baddbmm(td_opcall *c) {
    return add_product(c, td_op_bmm(td__in(c, 1), td__in(c, 2)));
}
bool td__simpler_addmv(td_opcall *c) {
    return add_product(c, td_op_mv(td__in(c, 1), td__in(c, 2)));
}
