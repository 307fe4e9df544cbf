/* decomp_arith.c -- further pointwise functions made of other ops: with a check that a
 * formula cannot state, an option, or two results. */
#include "rules/rule_arith.h"

/* Both operands of one dtype: isclose promotes nothing. */
static bool check_same_dtype(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    if (a->dtype == b->dtype) return true;
    return td__op_fail(c, TD_E_DTYPE,
                       "a is %s and b is %s; both must have one dtype, convert one "
                       "with td_to",
                       td__type_str(a), td__type_str(b));
}

/* The argument itself. */
bool td__decomp_positive(td_opcall *c) {
    td_tensor *a = td__in(c, 0);
    if (a->dtype == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE,
                           "is not defined on bool; convert to an integer or a float "
                           "first");
    c->out[0] = a;
    return true;
}

/* Mantissa and exponent, the latter as i32. */
bool td__decomp_frexp(td_opcall *c) {
    td_tensor *a = td__in(c, 0);
    if (!td__is_float((td_dtype)a->dtype))
        return td__op_fail(c, TD_E_DTYPE, "is defined on floats only, got %s",
                           td__type_str(a));
    c->out[0] = td_op__frexp_mantissa(a);
    c->out[1] = td_op_to(td_op__frexp_exponent(a), TD_I32, false);
    return true;
}

/* A float scaled by integers has its own dtype, whatever the dims; halves are scaled in
 * f32, which every exponent that matters fits. All else is a product. */
bool td__decomp_ldexp(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    td_dtype   dt = (td_dtype)a->dtype;
    if (td__is_float(dt) && !td__is_float((td_dtype)b->dtype) && b->dtype != TD_BOOL)
        c->out[0] = t_as(td_op__ldexp(t_wide(a), b), dt);
    else c->out[0] = t_mul(a, td_op_pow(td_value_float(2.0), td_value_tensor(b)));
    return true;
}

/* pow in f64; a number needs no conversion. */
bool td__decomp_float_power(td_opcall *c) {
    td_value v[2] = {c->in[0], c->in[1]};
    if (!td__in(c, 0) && !td__in(c, 1))
        return td__op_fail(c, TD_E_ARG, "at least one argument must be a tensor");
    for (int i = 0; i < 2; i++) {
        if (v[i].kind == TD_K_TENSOR) v[i].u.t = td_op_to(v[i].u.t, TD_F64, false);
        else v[i] = td_value_float(td__value_f(v[i]));
    }
    c->out[0] = td_op_pow(v[0], v[1]);
    return true;
}

/* ---- closeness ----------------------------------------------------------- */

/* |a - b| <= atol + |rtol b| where the difference is finite. Integers are compared as
 * floats, as in ATen. */
static td_tensor *within(td_ctx *cx, td_tensor *a, td_tensor *b, double rtol,
                         double atol) {
    if (!td__is_differentiable((td_dtype)b->dtype)) {
        a = td_op_to(a, cx->default_dtype, false);
        b = td_op_to(b, cx->default_dtype, false);
    }
    td_tensor *allowed =
        td_op_add(td_op_abs(t_scale(b, rtol)), td_value_float(atol), td_value_int(1));
    td_tensor *apart = td_op_abs(t_sub(a, b));
    return td_op_logical_and(td_op_isfinite(apart),
                             td_op_le(apart, td_value_tensor(allowed)));
}

/* in: a, b, rtol, atol, equal_nan. */
bool td__decomp_isclose(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    double     rtol = td__in_f(c, 2), atol = td__in_f(c, 3);
    if (!check_same_dtype(c)) return false;
    if (!(rtol >= 0.0) || !(atol >= 0.0))
        return td__op_fail(c, TD_E_ARG,
                           "rtol is %g and atol is %g; both must be at least 0", rtol,
                           atol);
    td_tensor *close = td_op_eq(a, td_value_tensor(b));
    if (td__in_bool(c, 4) && td__is_differentiable((td_dtype)a->dtype))
        close =
            td_op_logical_or(close, td_op_logical_and(td_op_isnan(a), td_op_isnan(b)));
    if (rtol != 0.0 || atol != 0.0)
        close = td_op_logical_or(close, within(c->cx, a, b, rtol, atol));
    c->out[0] = close;
    return true;
}

/* in: as isclose. */
bool td__decomp_allclose(td_opcall *c) {
    td_tensor *close = td_op_isclose(td__in(c, 0), td__in(c, 1), td__in_f(c, 2),
                                     td__in_f(c, 3), td__in_bool(c, 4));
    c->out[0] = td_op_all(close, TD_ALL, false);
    return true;
}

/* Other sizes are not equal, whatever the elements are. */
bool td__decomp_equal(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    bool       same = a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) same = td__dim_eq(a->size[d], b->size[d]);
    c->out[0] = same ? td_op_all(td_op_eq(a, td_value_tensor(b)), TD_ALL, false)
                     : td_op_zeros(c->cx, (td_ints){NULL, 0}, TD_BOOL);
    return true;
}

/* ---- gamma --------------------------------------------------------------- */

/* in: a, p. The sum of lgamma(a + (1 - i) / 2) for i = 1 to p, and a constant. */
bool td__decomp_mvlgamma(td_opcall *c) {
    td_tensor *a = td__in(c, 0);
    int64_t    p = td__in_number(c, 1);
    td_dtype   dt = (td_dtype)a->dtype;
    if (dt == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE,
                           "is not defined on bool; convert to an integer or a float "
                           "first");
    if (p < 1)
        return td__op_fail(c, TD_E_ARG, "p is %lld; it must be at least 1",
                           (long long)p);
    if (!td__is_float(dt)) dt = c->cx->default_dtype;
    td_tensor *less =
        td_op_arange(c->cx, td_value_int(1 - p), td_value_int(1), td_value_int(1), dt);
    td_tensor *each = t_add(td_op_unsqueeze(a, -1), t_scale(less, 0.5));
    td_tensor *sum = t_sum(td_op_lgamma(each), TD_DIMS(-1), false);
    double     pairs = (double)p * (double)(p - 1) * 0.25;
    c->out[0] =
        td_op_add(sum, td_value_float(pairs * 1.1447298858494002), td_value_int(1));
    return true;
}
