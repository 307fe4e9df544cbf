/* decomp_complex.c -- composites of complex.def, and the derivatives of functions of
 * complex numbers that are not analytic. */
#include "rules/rule_arith.h"

/* Part 0 or 1 of every element, a view. */
static td_tensor *part(td_tensor *t, int which) {
    return td_op_select(td_op_view_as_real(t), -1, which);
}

bool td__decomp_real(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    c->out[0] = td__is_complex((td_dtype)t->dtype) ? part(t, 0) : t;
    return true;
}

/* in: self, which no lazy conjugate or negative stands behind. */
bool td__decomp_itself(td_opcall *c) {
    c->out[0] = td__in(c, 0);
    return true;
}

bool td__decomp_polar(td_opcall *c) {
    td_tensor *abs = td__in(c, 0), *angle = td__in(c, 1);
    if ((abs->dtype != TD_F32 && abs->dtype != TD_F64) || abs->dtype != angle->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "abs and angle must both be f32 or both f64, got %s and %s",
                           td__type_str(abs), td__type_str(angle));
    td_value cos = td_value_tensor(td_op_cos(angle));
    td_value sin = td_value_tensor(td_op_sin(angle));
    c->out[0] = td_op_complex(td_op_mul(abs, cos), td_op_mul(abs, sin));
    return true;
}

/* ATen refuses real tensors here: zeros would not be a view of them. */
bool td__decomp_imag(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (!td__is_complex((td_dtype)t->dtype))
        return td__op_fail(c, TD_E_DTYPE,
                           "self must be complex, got %s; a real tensor has no "
                           "imaginary part (td_zeros_like)",
                           td__type_str(t));
    c->out[0] = part(t, 1);
    return true;
}

bool td__decomp_conj(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    c->out[0] = td__is_complex((td_dtype)t->dtype) ? td_op__conj_physical(t) : t;
    return true;
}

/* A write, of real tensors too. */
bool td__decomp_conj_write(td_opcall *c) {
    c->out[0] = td_op__conj_physical_(td__in(c, 0));
    return true;
}

/* Is the imaginary part 0? Always, of real tensors. */
bool td__decomp_isreal(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    c->out[0] = td__is_complex((td_dtype)t->dtype)
                    ? td_op_eq(part(t, 1), td_value_int(0))
                    : td_op_ones_like(t, TD_BOOL);
    return true;
}

/* in: self, other. */
bool td__decomp_vdot(td_opcall *c) {
    c->out[0] = td_op_dot(td_op_conj(td__in(c, 0)), td__in(c, 1));
    return true;
}

/* The last two dims exchanged and conjugated; a tensor without dims is conjugated. */
bool td__decomp_mH(td_opcall *c) {
    c->out[0] = td_op_conj(td_op_mT(td__in(c, 0)));
    return true;
}

/* ---- derivatives --------------------------------------------------------- */

/* t, with 1 where it is 0: a divisor whose quotient is replaced there. */
static td_tensor *no_zero(td_tensor *t) {
    return td_op_masked_fill(t, td_op_eq(t, td_value_int(0)), td_value_int(1));
}

/* z / |z|, and 0 at 0. Real: flat. Complex: g moves z along itself by Re(conj(out) g),
 * which does not turn it; the rest of g does, by 1 / |z|. */
bool td__vjp_sgn(td_vjp *v) {
    td_tensor *g = v->g[0], *z = v->in[0].u.t, *out = v->out[0];
    if (!td__is_complex(v->in_meta[0]->dtype)) {
        v->grad[0] = td_op_zeros_like(g, TD_DTYPE_NONE);
        return !td_is_nil(v->grad[0]);
    }
    td_tensor *size = td_op_abs(z), *along = td_op_real(t_mul(td_op_conj(out), g));
    td_tensor *across = t_div(t_sub(g, t_mul(out, along)), no_zero(size));
    v->grad[0] =
        td_op_masked_fill(across, td_op_eq(size, td_value_int(0)), td_value_int(0));
    return !td_is_nil(v->grad[0]);
}

/* atan2(y, x): g (-y + x i) / |z|^2, and 0 at 0. Real: flat. */
bool td__vjp_angle(td_vjp *v) {
    td_tensor *g = v->g[0], *z = v->in[0].u.t;
    if (!td__is_complex(v->in_meta[0]->dtype)) {
        v->grad[0] = td_op_zeros_like(g, TD_DTYPE_NONE);
        return !td_is_nil(v->grad[0]);
    }
    td_tensor *x = td_op_real(z), *y = td_op_imag(z);
    td_tensor *by = t_div(g, no_zero(t_add(t_mul(x, x), t_mul(y, y))));
    v->grad[0] = td_op_complex(td_op_neg(t_mul(by, y)), t_mul(by, x));
    return !td_is_nil(v->grad[0]);
}

/* g / sqrt(a^2 - 1); of complex numbers with a root of each factor, so that the branch
 * cut is that of acosh. */
bool td__vjp_acosh(td_vjp *v) {
    td_tensor *g = v->g[0], *a = v->in[0].u.t;
    td_value   one = td_value_int(1);
    td_tensor *slope;
    if (td__is_complex(v->in_meta[0]->dtype))
        slope = t_mul(td_op_rsqrt(td_op_add(a, one, one)),
                      td_op_rsqrt(td_op_sub(a, one, one)));
    else slope = td_op_rsqrt(td_op_sub(t_mul(a, a), one, one));
    v->grad[0] = t_mul(g, slope);
    return !td_is_nil(v->grad[0]);
}
