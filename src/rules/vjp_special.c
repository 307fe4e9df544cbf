/* vjp_special.c -- derivatives of special functions that need an `if`, a constant of
 * the dtype, or that do not exist. */
#include "rules/rule_arith.h"

#include <float.h>
#include <math.h>

/* Sets one gradient; false when it could not be computed. */
static bool give(td_vjp *v, int i, td_tensor *g) {
    v->grad[i] = g;
    return g && !td_is_nil(g);
}

/* Refuses a derivative that PyTorch does not have either. Always false. */
static bool refuse(td_vjp *v, const char *op, const char *arg) {
    return td__fail(v->cx, TD_E_GRAD,
                    "%s: has no derivative with respect to %s; pass td_detach(%s)", op,
                    arg, arg);
}

/* The derivative of an op that has none in PyTorch either: results require grad, and
 * backward through them fails. */
bool td__vjp_unknown(td_vjp *v) {
    return td__fail(v->cx, TD_E_GRAD,
                    "%s: its derivative is not implemented; pass td_detach of its "
                    "arguments",
                    v->def->name);
}

/* ---- gamma functions ------------------------------------------------------ */

/* in: a, b, tensors or numbers. d/db is -a zeta(a + 1, b). */
bool td__vjp_zeta(td_vjp *v) {
    td_value a = v->in[0], more;
    if (v->need[0]) return refuse(v, "special_zeta", "a");
    if (a.kind == TD_K_TENSOR)
        more = td_value_tensor(td_op_add(a.u.t, td_value_float(1.0), td_value_int(1)));
    else more = td_value_float(td__value_f(a) + 1.0);
    td_tensor *z = td_op_mul(td_op_special_zeta(more, v->in[1]), a);
    return give(v, 1, t_mul(v->g[0], td_op_neg(z)));
}

/* The density of the gamma distribution, b^(a - 1) e^-b / Gamma(a), by its log. */
static td_tensor *gamma_density(td_tensor *a, td_tensor *b) {
    td_tensor *less = td_op_sub(a, td_value_int(1), td_value_int(1));
    td_tensor *log = t_sub(t_mul(less, td_op_log(b)), b);
    return td_op_exp(t_sub(log, td_op_lgamma(a)));
}

bool td__vjp_igamma(td_vjp *v) {
    if (v->need[0]) return refuse(v, "igamma", "a");
    return give(v, 1, t_mul(v->g[0], gamma_density(v->in[0].u.t, v->in[1].u.t)));
}

bool td__vjp_igammac(td_vjp *v) {
    if (v->need[0]) return refuse(v, "igammac", "a");
    td_tensor *g = td_op_neg(v->g[0]);
    return give(v, 1, t_mul(g, gamma_density(v->in[0].u.t, v->in[1].u.t)));
}

/* ---- Bessel functions of order 1 ------------------------------------------ */

/* Where |x| exceeds the unit of its dtype; below it the derivative is its limit 1/2,
 * and quotients by x, which would be NaN at 0, are not computed. */
static td_tensor *not_tiny(td_tensor *x) {
    static const double unit[] = {[TD_F64] = DBL_EPSILON,
                                  [TD_F32] = FLT_EPSILON,
                                  [TD_F16] = 0x1p-10,
                                  [TD_BF16] = 0x1p-7};
    double              least = td__is_float((td_dtype)x->dtype) ? unit[x->dtype] : 0.0;
    return td_op_gt(td_op_abs(x), td_value_float(least));
}

/* g times the slope where `apart` holds, else g / 2. */
static bool slope_or_half(td_vjp *v, td_tensor *apart, td_tensor *slope) {
    td_tensor *d = td_op_where(apart, td_value_tensor(slope), td_value_float(0.5));
    return give(v, 0, t_mul(v->g[0], d));
}

/* x, or 1 where it is tiny. */
static td_tensor *safe(td_tensor *apart, td_tensor *x) {
    return td_op_where(apart, td_value_tensor(x), td_value_int(1));
}

/* I1' = I0 - I1 / x. */
bool td__vjp_i1(td_vjp *v) {
    td_tensor *apart = not_tiny(v->in[0].u.t), *x = safe(apart, v->in[0].u.t);
    td_tensor *slope = t_sub(td_op_i0(x), t_mul(v->out[0], td_op_reciprocal(x)));
    return slope_or_half(v, apart, slope);
}

/* (I1 e^-|x|)' = I0 e^-|x| - I1 e^-|x| (sgn x + 1 / x). */
bool td__vjp_i1e(td_vjp *v) {
    td_tensor *apart = not_tiny(v->in[0].u.t), *x = safe(apart, v->in[0].u.t);
    td_tensor *factor = t_add(td_op_sgn(x), td_op_reciprocal(x));
    return slope_or_half(v, apart,
                         t_sub(td_op_special_i0e(x), t_mul(v->out[0], factor)));
}

/* J1' = J0 - J1 / x. */
bool td__vjp_bessel_j1(td_vjp *v) {
    td_tensor *apart = not_tiny(v->in[0].u.t), *x = safe(apart, v->in[0].u.t);
    td_tensor *slope =
        t_sub(td_op_special_bessel_j0(x), t_mul(v->out[0], td_op_reciprocal(x)));
    return slope_or_half(v, apart, slope);
}

/* Y1' = Y0 - Y1 / x, infinite at 0, where both terms are. */
bool td__vjp_bessel_y1(td_vjp *v) {
    td_tensor *a = v->in[0].u.t, *zero = td_op_eq(a, td_value_int(0));
    td_tensor *x = td_op_where(zero, td_value_int(1), td_value_tensor(a));
    td_tensor *slope = t_sub(td_op_special_bessel_y0(x), t_div(v->out[0], x));
    td_tensor *d =
        td_op_where(zero, td_value_float((double)INFINITY), td_value_tensor(slope));
    return give(v, 0, t_mul(v->g[0], d));
}
