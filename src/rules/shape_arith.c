/* shape_arith.c -- shape rules of pointwise rows that check more than dtypes and sizes:
 * alphas, rounding modes, bounds, masks. Each checks its own arguments, then leaves
 * promotion, broadcasting and layout to shape_pointwise.c. Where ATen refuses a
 * combination, the message names the op that was probably meant. */
#include "rules/pointwise_args.h"
#include "rules/shape_rules.h"

#include <math.h>
#include <string.h>

/* The integers a dtype holds; bool takes any. */
static void int_range(td_dtype dt, int64_t *low, int64_t *high) {
    int bits = 8 * td__dtype_bytes[dt] - (dt != TD_U8);
    *high = dt == TD_BOOL || bits == 63 ? INT64_MAX : ((int64_t)1 << bits) - 1;
    *low = dt == TD_U8 ? 0 : -*high - 1;
}

/* in: a, b, alpha. The common dtype is that of a and b; alpha does not promote. */
bool td__shape_add(td_opcall *c) {
    const td_pw_args *a = td__pw_args(c->def);
    td_dtype          dt = td__pw_common(c, a);
    return td__factor_suits(c, 2, dt) && td__pw_meta(c, a, dt, dt);
}

/* ATen lists these ops' two operands the other way round: where their layouts
 * differ the second decides. */
static bool second_first(td_opcall *c, td_dtype dt) {
    const td_pw_args *a = td__pw_args(c->def);
    td_pw_args        swapped = *a;
    swapped.in[0] = a->in[1];
    swapped.in[1] = a->in[0];
    return td__pw_meta(c, &swapped, dt, dt);
}

bool td__shape_second_first(td_opcall *c) {
    td_dtype dt = td__pw_common(c, td__pw_args(c->def));
    return td__pw_check(c, dt) && second_first(c, dt);
}

/* Row-major whatever the layout of its operand. */
bool td__shape_row_major(td_opcall *c) {
    if (!td__shape_pointwise(c)) return false;
    c->meta[0].strided = false;
    return true;
}

/* A bool tensor or a bool number. */
static bool is_bool(td_value v) {
    return v.kind == TD_K_BOOL || (v.kind == TD_K_TENSOR && v.u.t->dtype == TD_BOOL);
}

/* sub, rsub: ATen refuses bool and says what was probably meant. */
bool td__shape_sub(td_opcall *c) {
    if (is_bool(c->in[0]) && is_bool(c->in[1]))
        return td__op_fail(c, TD_E_DTYPE,
                           "two bool tensors cannot be subtracted; "
                           "use bitwise_xor or logical_xor");
    if (is_bool(c->in[0]) || is_bool(c->in[1]))
        return td__op_fail(c, TD_E_DTYPE,
                           "a bool tensor cannot be subtracted; to invert "
                           "a mask use bitwise_not or logical_not");
    return td__shape_add(c);
}

/* b - a, so b is the first operand. */
bool td__shape_rsub(td_opcall *c) {
    return td__shape_sub(c) && second_first(c, (td_dtype)c->meta[0].dtype);
}

/* ATen negates no bool. */
bool td__shape_neg(td_opcall *c) {
    if (is_bool(c->in[0]))
        return td__op_fail(c, TD_E_DTYPE,
                           "a bool tensor cannot be negated; to invert a mask "
                           "use bitwise_not or logical_not");
    return td__shape_pointwise(c);
}

/* Without a rounding mode integers give the default float; with one they keep their
 * dtype, and bool is an error. */
bool td__shape_div(td_opcall *c) {
    const td_pw_args *a = td__pw_args(c->def);
    td_dtype          dt = td__pw_common(c, a);
    const char       *mode = c->in[2].u.s;
    if (strcmp(mode, "") && strcmp(mode, "trunc") && strcmp(mode, "floor"))
        return td__op_fail(
            c, TD_E_ARG,
            "rounding_mode must be \"\", \"trunc\" or \"floor\", got \"%.32s\"", mode);
    if (*mode && td__is_complex(dt))
        return td__op_fail(c, TD_E_DTYPE,
                           "with a rounding_mode is not defined on %s; complex numbers "
                           "have no order",
                           td_dtype_name(dt));
    if (!*mode && !td__is_differentiable(dt)) dt = c->cx->default_dtype;
    if (dt == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE,
                           "with a rounding_mode is not defined on bool; convert an "
                           "operand to an integer or a float");
    return td__pw_meta(c, a, dt, dt);
}

/* A negative whole exponent of an integer tensor has no integer result: an error, as in
 * ATen. Of halves only the exponent must be representable; the base is taken as f32. */
bool td__shape_pow(td_opcall *c) {
    const td_pw_args *a = td__pw_args(c->def);
    td_dtype          dt = td__pw_common(c, a);
    if (!td__in(c, 0) && !td__in(c, 1))
        return td__op_fail(c, TD_E_ARG, "at least one argument must be a tensor");
    if (dt == TD_BOOL && td__in(c, 1))
        return td__op_fail(
            c, TD_E_DTYPE,
            "is not defined on bool; convert to an integer or a float first");
    if (!td__is_differentiable(dt) && !td__in(c, 1) && td__value_i(c->in[1]) < 0)
        return td__op_fail(c, TD_E_ARG,
                           "integers to negative integer powers are not "
                           "allowed; make the base a float");
    for (int i = 0; i < 2; i++) {
        bool half_exponent = i == 1 && td__is_half(dt);
        if ((half_exponent || !td__is_differentiable(dt)) && !td__number_fits(c, i, dt))
            return false;
    }
    return td__pw_meta(c, a, dt, dt);
}

/* decimals other than 0 are for floats. */
bool td__shape_round(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (td__in_number(c, 1) != 0 && !td__is_float((td_dtype)t->dtype))
        return td__op_fail(c, TD_E_DTYPE,
                           "with decimals is defined on floats only, got %s",
                           td__type_str(t));
    return td__shape_pointwise(c);
}

/* condition is bool, or u8 as in old programs; only the two values take part in
 * promotion. */
bool td__shape_where(td_opcall *c) {
    td_tensor        *mask = td__in(c, 0);
    const td_pw_args *a = td__pw_args(c->def);
    if (mask->dtype != TD_BOOL && mask->dtype != TD_U8)
        return td__op_fail(c, TD_E_DTYPE, "condition must be bool, got %s",
                           td__type_str(mask));
    td_dtype dt = td__pw_common(c, a);
    if (!td__is_half(dt) && (!td__number_fits(c, 1, dt) || !td__number_fits(c, 2, dt)))
        return false;
    return td__pw_meta(c, a, dt, dt);
}

/* The result is row-major whatever the operands are, as ATen's. */
bool td__shape_masked_fill(td_opcall *c) {
    td_tensor *mask = td__in(c, 1), *value = td__in(c, 2);
    if (mask->dtype != TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "mask must be bool, got %s",
                           td__type_str(mask));
    if (value && value->rank != 0)
        return td__op_fail(c, TD_E_SHAPE,
                           "value must be a number or a 0-dim tensor, got %s",
                           td__type_str(value));
    if (value && !td__can_keep(c, value, (td_dtype)td__in(c, 0)->dtype)) return false;
    if (!td__number_fits(c, 2, (td_dtype)td__in(c, 0)->dtype) ||
        !td__shape_pointwise(c))
        return false;
    c->meta[0].strided = false;
    return true;
}

/* A number that bounds integers: one that would leave nothing is an error, one that
 * binds nothing becomes the end of the range (td__clamp_bound). */
static bool bound_fits(td_opcall *c, int arg, bool is_min, td_dtype dt) {
    int64_t  low, high;
    td_value v = c->in[arg];
    if (td__is_float(dt)) return td__number_fits(c, arg, dt);
    if (v.kind == TD_K_FLOAT) { /* counts as a whole number */
        if (!td__number_fits(c, arg, TD_I64)) return false;
        v = td_value_int(td__value_i(v));
    }
    if (v.kind != TD_K_INT || td__dim_is_symbolic(v.u.i)) return true;
    int_range(dt, &low, &high);
    if (is_min ? v.u.i <= high : v.u.i >= low) return true;
    return td__op_fail(c, TD_E_ARG, "%s = %lld is outside the range of %s",
                       c->info->s.in[arg].name, (long long)v.u.i, td_dtype_name(dt));
}

/* The shape rule has refused bounds that would leave nothing; one beyond the range
 * binds nothing. */
td_value td__clamp_bound(td_value v, bool is_min, td_dtype dt) {
    int64_t low, high;
    if (v.kind == TD_K_TENSOR || (v.kind == TD_K_FLOAT && td__is_float(dt))) return v;
    if (td__is_float(dt)) {
        if (v.kind == TD_K_NONE) return td_value_float(is_min ? -INFINITY : INFINITY);
        return v;
    }
    int_range(dt, &low, &high);
    if (v.kind == TD_K_NONE) return td_value_int(is_min ? low : high);
    if (is_min && v.u.i < low) return td_value_int(low);
    return !is_min && v.u.i > high ? td_value_int(high) : v;
}

/* clamp: numbers weigh in promotion like operands. */
bool td__shape_clamp(td_opcall *c) {
    const td_pw_args *a = td__pw_args(c->def);
    if (td__in_none(c, 1) && td__in_none(c, 2))
        return td__op_fail(c, TD_E_ARG, "at least one of min and max must be given");
    td_dtype dt = td__result_type(c->cx, c->in, 3);
    bool     one = td__in_none(c, 1) || td__in_none(c, 2);
    if (dt == TD_BOOL && !(one && (td__in(c, 1) || td__in(c, 2))))
        return td__op_fail(
            c, TD_E_DTYPE,
            "is not defined on bool; convert to an integer or a float first");
    return bound_fits(c, 1, true, dt) && bound_fits(c, 2, false, dt) &&
           td__pw_meta(c, a, dt, dt);
}

/* clamp_min and clamp_max; bool only between tensors. */
static bool one_bound(td_opcall *c, bool is_min) {
    const td_pw_args *a = td__pw_args(c->def);
    td_dtype          dt = td__pw_common(c, a);
    if (dt == TD_BOOL && !td__in(c, 1))
        return td__op_fail(
            c, TD_E_DTYPE,
            "is not defined on bool; convert to an integer or a float first");
    return bound_fits(c, 1, is_min, dt) && td__pw_meta(c, a, dt, dt);
}

bool td__shape_clamp_min(td_opcall *c) { return one_bound(c, true); }
bool td__shape_clamp_max(td_opcall *c) { return one_bound(c, false); }

/* ATen refuses integer division here, since true division would change the dtype of
 * self. */
bool td__shape_addcdiv(td_opcall *c) {
    const td_tensor *x = td__in(c, 1), *y = td__in(c, 2);
    if (!td__is_differentiable((td_dtype)x->dtype) &&
        !td__is_differentiable((td_dtype)y->dtype))
        return td__op_fail(c, TD_E_DTYPE,
                           "does not divide integers, %s and %s; convert one",
                           td__type_str(x), td__type_str(y));
    return td__shape_pointwise(c);
}

/* lerp promotes nothing. A weight without dims may have another dtype. */
static bool same_dtype(td_opcall *c, int arg) {
    td_tensor *t = td__in(c, arg), *first = td__in(c, 0);
    if (!t || t->dtype == first->dtype || (t->rank == 0 && arg == 2)) return true;
    return td__op_fail(c, TD_E_DTYPE, "%s must have the dtype of %s, %s vs %s",
                       c->info->s.in[arg].name, c->info->s.in[0].name, td__type_str(t),
                       td__type_str(first));
}

/* A weight of another dtype has no dims: it promotes a result without dims only. */
bool td__shape_lerp(td_opcall *c) {
    td_dtype dt = (td_dtype)td__in(c, 0)->dtype;
    if (!td__pw_check(c, dt)) return false;
    if (!td__number_fits(c, 2, td__is_half(dt) ? TD_F32 : dt)) return false;
    return same_dtype(c, 1) && same_dtype(c, 2) && td__shape_pointwise(c);
}

/* lambd is a distance: finite and not negative. */
bool td__shape_softshrink(td_opcall *c) {
    if (!(td__in_f(c, 1) >= 0))
        return td__op_fail(c, TD_E_ARG, "lambd must not be negative, got %g",
                           td__in_f(c, 1));
    if (isinf(td__in_f(c, 1)))
        return td__op_fail(c, TD_E_ARG, "lambd must be finite, got %g", td__in_f(c, 1));
    return td__number_fits(c, 1, (td_dtype)td__in(c, 0)->dtype) &&
           td__shape_pointwise(c);
}

/* Below 0 a result tells the sign of its argument only if the slope is positive. */
static bool sign_shows(td_opcall *c, int slope, int is_result) {
    if (!td__in_bool(c, is_result) || !(td__in_f(c, slope) < 0)) return true;
    return td__op_fail(c, TD_E_ARG,
                       "%s %g is negative, and a result does not show "
                       "the sign of its argument then; pass the argument",
                       c->info->s.in[slope].name, td__in_f(c, slope));
}

/* in: grad_output, a, negative_slope, is_result. */
bool td__shape_leaky_relu_backward(td_opcall *c) {
    return sign_shows(c, 2, 3) && td__shape_second_first(c);
}

/* in: grad_output, alpha, scale, input_scale, is_result, a. */
bool td__shape_elu_backward(td_opcall *c) {
    return sign_shows(c, 1, 4) && td__shape_pointwise(c);
}

/* approximate is the last argument, of gelu and of its backward op. */
bool td__shape_gelu(td_opcall *c) {
    const char *how = c->in[c->n_in - 1].u.s;
    if (strcmp(how, "none") && strcmp(how, "tanh"))
        return td__op_fail(c, TD_E_ARG,
                           "approximate must be \"none\" or \"tanh\", got \"%.32s\"",
                           how);
    return td__shape_pointwise(c);
}

/* Bounds are checked as those of clamp. */
bool td__shape_hardtanh(td_opcall *c) {
    td_dtype dt = (td_dtype)td__in(c, 0)->dtype;
    return bound_fits(c, 1, true, dt) && bound_fits(c, 2, false, dt) &&
           td__shape_pointwise(c);
}
