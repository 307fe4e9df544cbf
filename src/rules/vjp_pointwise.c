/* vjp_pointwise.c -- derivatives of pointwise ops that depend on an option, on which
 * arguments are numbers, or share a longer subexpression. Each sets the gradient of
 * every argument that needs one, in the broadcast sizes; the engine sums it to the
 * sizes of the argument. */
#include "rules/shape_rules.h"

#include <math.h>
#include <string.h>

static td_tensor *times(td_tensor *a, td_tensor *b) {
    return td_op_mul(a, td_value_tensor(b));
}
static td_tensor *scaled(td_tensor *a, double by) {
    return td_op_mul(a, td_value_float(by));
}
static td_tensor *plus(td_tensor *a, double b) {
    return td_op_add(a, td_value_float(b), td_value_int(1));
}
static td_value zero(void) { return td_value_int(0); }

/* Sets one gradient; false when it could not be computed. */
static bool give(td_vjp *v, int i, td_tensor *g) {
    v->grad[i] = g;
    return g && !td_is_nil(g);
}

/* ---- sums ---------------------------------------------------------------- */

/* g times a scalar argument, without an op when that is 1. */
static td_tensor *times_scalar(td_tensor *g, td_value by, bool minus) {
    bool one = td__value_f(by) == 1.0;
    if (one) return minus ? td_op_neg(g) : g;
    g = td_op_mul(g, by);
    return minus ? td_op_neg(g) : g;
}

/* a + alpha b: g and alpha g. */
bool td__vjp_add(td_vjp *v) {
    if (v->need[0] && !give(v, 0, v->g[0])) return false;
    return !v->need[1] || give(v, 1, times_scalar(v->g[0], v->in[2], false));
}

/* a - alpha b: g and -alpha g. */
bool td__vjp_sub(td_vjp *v) {
    if (v->need[0] && !give(v, 0, v->g[0])) return false;
    return !v->need[1] || give(v, 1, times_scalar(v->g[0], v->in[2], true));
}

/* b - alpha a: -alpha g and g. */
bool td__vjp_rsub(td_vjp *v) {
    if (v->need[0] && !give(v, 0, times_scalar(v->g[0], v->in[2], true))) return false;
    return !v->need[1] || give(v, 1, v->g[0]);
}

/* ---- quotients and powers ------------------------------------------------ */

/* a / b, true division. */
static td_tensor *divided(td_tensor *a, td_value b) { return td_op_div(a, b, ""); }

/* a / b: g / b and -g * (a / b) / b; a rounded quotient is flat. */
bool td__vjp_div(td_vjp *v) {
    td_tensor *g = v->g[0];
    bool       flat = *v->in[2].u.s != 0;
    for (int i = 0; i < 2 && flat; i++)
        if (v->need[i] && !give(v, i, td_op_zeros_like(g, TD_DTYPE_NONE))) return false;
    if (flat) return true;
    if (v->need[0] && !give(v, 0, divided(g, v->in[1]))) return false;
    if (!v->need[1]) return true;
    td_tensor *slope = divided(divided(v->in[0].u.t, v->in[1]), v->in[1]);
    return give(v, 1, times(td_op_neg(g), slope));
}

/* d/da a^b = b * a^(b-1), and 0 for b = 0 even where a^(b-1) is infinite. */
static td_tensor *pow_grad_base(td_vjp *v) {
    td_tensor *g = v->g[0];
    td_value   a = v->in[0], b = v->in[1];
    if (b.kind != TD_K_TENSOR) {
        if (b.kind != TD_K_FLOAT)
            b.u.i = td__dim_fixed(b.u.i); /* it is subtracted from */
        if (td__value_f(b) == 0.0) return td_op_zeros_like(g, TD_DTYPE_NONE);
        bool     whole = b.kind != TD_K_FLOAT && b.u.i != INT64_MIN;
        td_value less =
            whole ? td_value_int(b.u.i - 1) : td_value_float(td__value_f(b) - 1.0);
        return times(g, td_op_mul(td_op_pow(a, less), b));
    }
    td_tensor *less = td_op_sub(b.u.t, td_value_int(1), td_value_int(1));
    td_tensor *slope = times(b.u.t, td_op_pow(a, td_value_tensor(less)));
    return td_op_where(td_op_eq(b.u.t, zero()), zero(),
                       td_value_tensor(times(g, slope)));
}

/* b >= 0; of complex numbers that of the real parts, as in ATen. */
static td_tensor *not_negative(td_tensor *b) { return td_op_ge(td_op_real(b), zero()); }

/* d/db a^b = a^b * log(a), and 0 where a = 0 and b >= 0. The logarithm is taken in
 * the dtype the power was. */
static td_tensor *pow_grad_exponent(td_vjp *v) {
    td_tensor *g = v->g[0], *out = v->out[0];
    td_value   a = v->in[0], b = v->in[1];
    if (a.kind != TD_K_TENSOR) {
        double     base = td__value_f(a);
        td_tensor *slope = scaled(out, log(base));
        if (base != 0.0) return times(g, slope);
        return times(g,
                     td_op_where(not_negative(b.u.t), zero(), td_value_tensor(slope)));
    }
    td_tensor *at_zero =
        td_op_logical_and(td_op_eq(a.u.t, zero()), not_negative(b.u.t));
    td_tensor *wide = td_op_to(a.u.t, td__result_type(v->cx, v->in, 2), false);
    td_tensor *slope = times(out, td_op_log(wide));
    return times(g, td_op_where(at_zero, zero(), td_value_tensor(slope)));
}

/* in: a, b, each a tensor or a number. */
bool td__vjp_pow(td_vjp *v) {
    if (v->need[0] && !give(v, 0, pow_grad_base(v))) return false;
    return !v->need[1] || give(v, 1, pow_grad_exponent(v));
}

/* ---- bounds -------------------------------------------------------------- */

static td_tensor *both(td_tensor *a, td_tensor *b) { return td_op_logical_and(a, b); }
static td_tensor *either(td_tensor *a, td_tensor *b) { return td_op_logical_or(a, b); }

/* Numbers bound: the gradient passes strictly between them. */
bool td__vjp_clamp(td_vjp *v) {
    td_tensor *a = v->in[0].u.t, *low = NULL, *high = NULL;
    if (v->in[1].kind != TD_K_NONE) low = td_op_gt(a, v->in[1]);
    if (v->in[2].kind != TD_K_NONE) high = td_op_lt(a, v->in[2]);
    td_tensor *inside = low && high ? both(low, high) : low ? low : high;
    return give(v, 0, td_op_where(inside, td_value_tensor(v->g[0]), zero()));
}

/* t in its layout, with 0 where mask holds. masked_fill would be row-major. */
static td_tensor *zero_where(td_tensor *mask, td_tensor *t) {
    return td_op_where(mask, zero(), td_value_tensor(t));
}

/* One tensor bounds: as maximum or minimum, equal elements share the gradient.
 * `arg` is the bound's place. */
static bool one_bound(td_vjp *v, int arg, bool is_min) {
    td_tensor *a = v->in[0].u.t, *g = v->g[0];
    td_value   b = v->in[arg];
    if (b.kind != TD_K_TENSOR) {
        td_tensor *free = is_min ? td_op_gt(a, b) : td_op_lt(a, b);
        return give(v, 0, td_op_where(free, td_value_tensor(g), zero()));
    }
    td_tensor *half = divided(g, td_value_int(2));
    td_tensor *share =
        td_op_where(td_op_eq(a, b), td_value_tensor(half), td_value_tensor(g));
    td_tensor *below = td_op_lt(a, b), *above = td_op_gt(a, b);
    if (v->need[0] && !give(v, 0, zero_where(is_min ? below : above, share)))
        return false;
    return !v->need[arg] || give(v, arg, zero_where(is_min ? above : below, share));
}

bool td__vjp_clamp_min(td_vjp *v) { return one_bound(v, 1, true); }
bool td__vjp_clamp_max(td_vjp *v) { return one_bound(v, 1, false); }

/* The gradient, half of it at a tie, nothing elsewhere. */
static td_tensor *take(td_tensor *g, td_tensor *whole, td_tensor *tie) {
    td_value half = td_value_tensor(divided(g, td_value_int(2)));
    td_value rest = td_value_tensor(td_op_where(tie, half, zero()));
    return td_op_where(whole, td_value_tensor(g), rest);
}

/* Two tensors bound, and max wins where they cross. An element equal to a bound
 * shares with it; what no bound claims, NaN among it, is a's. */
bool td__vjp_clamp_tensor(td_vjp *v) {
    td_tensor *a = v->in[0].u.t, *g = v->g[0];
    td_value   min = v->in[1], max = v->in[2];
    if (min.kind == TD_K_NONE) return one_bound(v, 2, false);
    if (max.kind == TD_K_NONE) return one_bound(v, 1, true);
    td_tensor *apart = td_op_lt(min.u.t, max);
    td_tensor *hit_min = both(td_op_lt(a, min), td_op_le(min.u.t, max));
    td_tensor *hit_max = either(td_op_gt(a, max), td_op_gt(min.u.t, max));
    td_tensor *tie_min = both(td_op_eq(a, min), apart),
              *tie_max = both(td_op_eq(a, max), apart);
    if (v->need[1] && !give(v, 1, take(g, hit_min, tie_min))) return false;
    if (v->need[2] && !give(v, 2, take(g, hit_max, tie_max))) return false;
    if (!v->need[0]) return true;
    td_value   half = td_value_tensor(divided(g, td_value_int(2)));
    td_tensor *own = td_op_where(either(tie_min, tie_max), half, td_value_tensor(g));
    return give(v, 0, zero_where(either(hit_min, hit_max), own));
}

/* ---- second derivatives of activations ----------------------------------- */

/* elu_backward is flat where x > 0. Below, its derivative is input_scale times
 * itself when made from the input, and g * input_scale from the result. */
bool td__vjp_elu_backward(td_vjp *v) {
    td_tensor *g = v->g[0], *go = v->in[0].u.t, *x = v->in[5].u.t;
    td_value   alpha = v->in[1], scale = v->in[2], input_scale = v->in[3];
    bool       is_result = v->in[4].u.i != 0;
    if (v->need[0] &&
        !give(v, 0, td_op_elu_backward(g, alpha, scale, input_scale, is_result, x)))
        return false;
    if (!v->need[5]) return true;
    td_tensor *h = td_op_mul(times(g, go), input_scale);
    if (!is_result) h = td_op_elu_backward(h, alpha, scale, input_scale, false, x);
    return give(v, 5, times(h, td_op_lt(x, zero())));
}

/* With u = k (x + c x^3), t = tanh u: gelu'' = (1 - t^2) (u' + x u''/2 - x t u'^2),
 * u' = k (1 + 3 c x^2), u'' = 6 k c x. */
static td_tensor *gelu_tanh_second(td_tensor *x) {
    const double k = 0.7978845608028654, c = 0.044715;
    td_tensor   *x2 = times(x, x);
    td_tensor   *t = td_op_tanh(times(scaled(x, k), plus(scaled(x2, c), 1.0)));
    td_tensor   *u1 = plus(scaled(x2, 3.0 * k * c), k);
    td_tensor   *curve =
        td_op_add(u1, td_value_tensor(scaled(x2, 3.0 * k * c)), td_value_int(1));
    td_tensor *bend = times(times(x, t), times(u1, u1));
    td_tensor *sum = td_op_sub(curve, td_value_tensor(bend), td_value_int(1));
    return times(plus(td_op_neg(times(t, t)), 1.0), sum);
}

/* in: grad_output, a. Linear in grad_output; a takes g * grad_output * gelu''. */
bool td__vjp_gelu_tanh_backward(td_vjp *v) {
    td_tensor *g = v->g[0], *go = v->in[0].u.t, *x = v->in[1].u.t;
    if (v->need[0] && !give(v, 0, td_op_gelu_tanh_backward(g, x))) return false;
    return !v->need[1] || give(v, 1, times(times(g, go), gelu_tanh_second(x)));
}

/* The exact gelu: gelu'' = (2 - x^2) exp(-x^2 / 2) / sqrt(2 pi). */
static td_tensor *gelu_erf_second(td_tensor *x) {
    td_tensor *x2 = times(x, x);
    td_tensor *bell = scaled(td_op_exp(scaled(x2, -0.5)), 0.3989422804014327);
    return times(plus(td_op_neg(x2), 2.0), bell);
}

/* in: grad_output, a, approximate. */
bool td__vjp_gelu_backward(td_vjp *v) {
    td_tensor  *g = v->g[0], *go = v->in[0].u.t, *x = v->in[1].u.t;
    const char *how = v->in[2].u.s;
    if (v->need[0] && !give(v, 0, td_op_gelu_backward(g, x, how))) return false;
    if (!v->need[1]) return true;
    td_tensor *second = strcmp(how, "tanh") ? gelu_erf_second(x) : gelu_tanh_second(x);
    return give(v, 1, times(times(g, go), second));
}

/* With s = sigmoid x, t = tanh(softplus x), q = 1 - t^2:
 * mish'' = q s (2 + x (1 - s - 2 t s)). */
bool td__vjp_mish_backward(td_vjp *v) {
    td_tensor *g = v->g[0], *go = v->in[0].u.t, *x = v->in[1].u.t;
    if (v->need[0] && !give(v, 0, td_op_mish_backward(g, x))) return false;
    if (!v->need[1]) return true;
    td_tensor *s = td_op_sigmoid(x);
    td_tensor *t = td_op_tanh(td_op_softplus(x, td_value_int(1), td_value_int(20)));
    td_tensor *q = plus(td_op_neg(times(t, t)), 1.0);
    td_tensor *turn = plus(td_op_neg(times(s, plus(scaled(t, 2.0), 1.0))), 1.0);
    td_tensor *second = times(times(q, s), plus(times(x, turn), 2.0));
    return give(v, 1, times(times(g, go), second));
}
