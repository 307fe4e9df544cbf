/* math_f64.h: double-precision elementwise functions.
 *
 * exp, exp2, expm1, log, log2, log10, log1p, tanh, sigmoid, erf, log1pexp and
 * the rounding family are inline and vectorize. The rest call libm, which is
 * scalar: doubles serve gradient checks, where being right matters more. */
#ifndef TD_OPS_MATH_F64_H
#define TD_OPS_MATH_F64_H

#include "kernels/math_bits.h"

/* ---- classes, signs, rounding -------------------------------------------- */

TD_M int td_m_isnan_f64(double x) { return x != x; }

TD_M int td_m_isinf_f64(double x) { return __builtin_fabs(x) == __builtin_inf(); }

TD_M int td_m_isfinite_f64(double x) { return __builtin_fabs(x) < __builtin_inf(); }

TD_M double td_m_abs_f64(double x) { return __builtin_fabs(x); }

/* 0 for zeros and for NaN, as torch.sign. */
TD_M double td_m_sign_f64(double x) {
    double s = x > 0.0 ? 1.0 : 0.0;
    return x < 0.0 ? -1.0 : s;
}

/* A NaN on either side wins; on a tie the first argument does. */
TD_M double td_m_max_f64(double a, double b) {
    double m = a >= b ? a : b;
    return a != a ? a : m;
}

TD_M double td_m_min_f64(double a, double b) {
    double m = a <= b ? a : b;
    return a != a ? a : m;
}

TD_M double td_m_floor_f64(double x) { return __builtin_floor(x); }
TD_M double td_m_ceil_f64(double x) { return __builtin_ceil(x); }
TD_M double td_m_trunc_f64(double x) { return __builtin_trunc(x); }

/* Half to even, in the default rounding mode. */
TD_M double td_m_round_f64(double x) { return __builtin_rint(x); }

TD_M double td_m_sqrt_f64(double x) { return __builtin_sqrt(x); }

TD_M double td_m_rsqrt_f64(double x) { return 1.0 / __builtin_sqrt(x); }

/* x within [lo, hi], as td_m_clip_f32. */
TD_M double td_m_clip_f64(double x, double lo, double hi) {
    double y = x > hi ? hi : x;
    return x < lo ? lo : y;
}

/* ---- exponentials -------------------------------------------------------- */

/* 2^n for n in [-1022, 1023], n as two's complement. */
TD_M double td_m_pow2_f64(uint64_t n) { return td_m_from_bits_f64((n + 1023u) << 52); }

/* expm1(r) for |r| <= 0.35. */
TD_M double td_m_expm1_poly_f64(double r) {
    double p = 2.09254392069442845e-09;
    p = TD_FMA(p, r, 2.51101786957346236e-08);
    p = TD_FMA(p, r, 2.75572395053309743e-07);
    p = TD_FMA(p, r, 2.75572411646960053e-06);
    p = TD_FMA(p, r, 2.48015873644018724e-05);
    p = TD_FMA(p, r, 1.98412698888921911e-04);
    p = TD_FMA(p, r, 1.38888888888648722e-03);
    p = TD_FMA(p, r, 8.33333333332065586e-03);
    p = TD_FMA(p, r, 4.16666666666667060e-02);
    p = TD_FMA(p, r, 1.66666666666666768e-01);
    p = TD_FMA(p, r, 0.5);
    return TD_FMA(p, r * r, r);
}

/* y * 2^n for n in [-2046, 2046]: two exact factors, one rounding. */
TD_M double td_m_scale_f64(double y, uint64_t n) {
    uint64_t h = ((n + 4096u) >> 1) - 2048u;
    return y * td_m_pow2_f64(h) * td_m_pow2_f64(n - h);
}

/* Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits. */
#define TD_MAGIC_F64 6755399441055744.0
#define TD_LOG2E_F64 1.44269504088896339
#define TD_LN2_HI_F64 6.93147180485539138e-01 /* 33 bits */
#define TD_LN2_LO_F64 7.44061711001239685e-11

/* e^x 2^k for small k. */
TD_M double td_m_expk_f64(double x, uint64_t k) {
    x = td_m_clip_f64(x, -746.0, 711.0);
    double   t = TD_FMA(x, TD_LOG2E_F64, TD_MAGIC_F64);
    double   n = t - TD_MAGIC_F64;
    uint64_t i = td_m_bits_f64(t) - td_m_bits_f64(TD_MAGIC_F64);
    double   r = TD_FMA(n, -TD_LN2_HI_F64, x);
    r = TD_FMA(n, -TD_LN2_LO_F64, r);
    return td_m_scale_f64(1.0 + td_m_expm1_poly_f64(r), i + k);
}

TD_M double td_m_exp_f64(double x) { return td_m_expk_f64(x, 0); }

/* e^x for x <= 0; the float one is cheaper than exp. */
TD_M double td_m_exp_neg_f64(double x) { return td_m_exp_f64(x); }

TD_M double td_m_exp2_f64(double x) {
    x = td_m_clip_f64(x, -1077.0, 1025.0);
    double   t = x + TD_MAGIC_F64;
    uint64_t i = td_m_bits_f64(t) - td_m_bits_f64(TD_MAGIC_F64);
    double   r = (x - (t - TD_MAGIC_F64)) * 6.93147180559945309e-01;
    return td_m_scale_f64(1.0 + td_m_expm1_poly_f64(r), i);
}

/* 2^n p + (2^n - 1), with 2^(n-1) so that n = 1024 stays finite. */
TD_M double td_m_expm1_f64(double x) {
    double   c = td_m_clip_f64(x, -60.0, 710.0);
    double   t = TD_FMA(c, TD_LOG2E_F64, TD_MAGIC_F64);
    double   n = t - TD_MAGIC_F64;
    uint64_t i = td_m_bits_f64(t) - td_m_bits_f64(TD_MAGIC_F64);
    double   r = TD_FMA(n, -TD_LN2_HI_F64, c);
    r = TD_FMA(n, -TD_LN2_LO_F64, r);
    double s = td_m_pow2_f64(i - 1u);
    double y = 2.0 * TD_FMA(s, td_m_expm1_poly_f64(r), s - 0.5);
    return __builtin_fabs(x) < 0x1p-54 ? x : y;
}

TD_M double td_m_sigmoid_f64(double x) {
    double e = td_m_exp_f64(-__builtin_fabs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/* Odd polynomial below 0.625, 1 - 2 / (e^2a + 1) above. */
TD_M double td_m_tanh_f64(double x) {
    double a = __builtin_fabs(x), z = a * a;
    double p = 6.05553030398869603e-06;
    p = TD_FMA(p, z, -3.02177255591951653e-05);
    p = TD_FMA(p, z, 9.15895570046469350e-05);
    p = TD_FMA(p, z, -2.37029979042842711e-04);
    p = TD_FMA(p, z, 5.89458570383840914e-04);
    p = TD_FMA(p, z, -1.45572760438348182e-03);
    p = TD_FMA(p, z, 3.59211426935013550e-03);
    p = TD_FMA(p, z, -8.86323434130579027e-03);
    p = TD_FMA(p, z, 2.18694884706415113e-02);
    p = TD_FMA(p, z, -5.39682539661339514e-02);
    p = TD_FMA(p, z, 1.33333333333298887e-01);
    p = TD_FMA(p, z, -3.33333333333333148e-01);
    double low = TD_FMA(a * z, p, a);
    double high = 1.0 - 2.0 / (td_m_exp_f64(2.0 * a) + 1.0);
    return td_m_with_sign_f64(a < 0.625 ? low : high, x);
}

/* ---- logarithms ---------------------------------------------------------- */

/* x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x. */
typedef struct {
    double k, f;
} td_m_split_f64;

TD_M td_m_split_f64 td_m_log_split_f64(double x) {
    int            sub = x < 0x1p-1022;
    uint64_t       u = td_m_bits_f64(sub ? x * 0x1p54 : x) - 0x3fe6a09e667f3bcdu;
    uint64_t       k = (u + ((uint64_t)1024 << 52)) >> 52;
    uint64_t       m = (u & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu;
    double         kd = td_m_from_bits_f64(k | 0x4330000000000000u) - (0x1p52 + 1024.0);
    td_m_split_f64 r = {kd - (sub ? 54.0 : 0.0), td_m_from_bits_f64(m) - 1.0};
    return r;
}

/* log(1 + f) - f. With s = f / (2 + f), log(1 + f) = 2 atanh(s) and
 * 2 s = f - s f, so the sum below is s (f^2 / 2 + R) - f^2 / 2. */
TD_M double td_m_log_tail_f64(double f) {
    double s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
    double p = 1.47992752278540474e-01;
    p = TD_FMA(p, z, 1.53137359167623555e-01);
    p = TD_FMA(p, z, 1.81835758982230866e-01);
    p = TD_FMA(p, z, 2.22221983652321348e-01);
    p = TD_FMA(p, z, 2.85714287442618786e-01);
    p = TD_FMA(p, z, 3.99999999994069877e-01);
    p = TD_FMA(p, z, 6.66666666666673513e-01);
    return TD_FMA(s, TD_FMA(p, z, h), -h);
}

/* y, except -inf at zero, NaN below it, and inf and NaN kept. */
TD_M double td_m_log_edges_f64(double x, double y) {
    y = x < __builtin_inf() ? y : x;
    y = x == 0.0 ? -__builtin_inf() : y;
    return x < 0.0 ? __builtin_nan("") : y;
}

TD_M double td_m_log_f64(double x) {
    td_m_split_f64 v = td_m_log_split_f64(x);
    double         y = TD_FMA(v.k, TD_LN2_LO_F64, td_m_log_tail_f64(v.f)) + v.f;
    return td_m_log_edges_f64(x, TD_FMA(v.k, TD_LN2_HI_F64, y));
}

TD_M double td_m_log2_f64(double x) {
    td_m_split_f64 v = td_m_log_split_f64(x);
    double         t = td_m_log_tail_f64(v.f);
    /* log2(e) in two parts; the second product carries what is small. */
    double         y = TD_FMA(t, TD_LOG2E_F64, v.f * 0.44269504088896341);
    return td_m_log_edges_f64(x, v.k + (y + v.f));
}

TD_M double td_m_log10_f64(double x) {
    td_m_split_f64 v = td_m_log_split_f64(x);
    double         y = (v.f + td_m_log_tail_f64(v.f)) * 4.34294481903251817e-01;
    y = TD_FMA(v.k, 5.63033480667509770e-11, y);
    return td_m_log_edges_f64(x, TD_FMA(v.k, 3.01029995607677847e-01, y));
}

/* With 1 + x near 2^k, f = x 2^-k + (2^-k - 1) is one rounding of exact
 * terms, so nothing of x is lost. Past 2^60 the 1 is invisible. */
TD_M double td_m_log1p_f64(double x) {
    double         u = 1.0 + x;
    td_m_split_f64 v = td_m_log_split_f64(u);
    double         k = v.k > 60.0 ? 60.0 : v.k;
    uint64_t       i = td_m_bits_f64(TD_MAGIC_F64 - k) - td_m_bits_f64(TD_MAGIC_F64);
    double         t = td_m_pow2_f64(i);
    double         f = v.k > 60.0 ? v.f : x * t + (t - 1.0);
    double         y = TD_FMA(v.k, TD_LN2_LO_F64, td_m_log_tail_f64(f)) + f;
    y = td_m_log_edges_f64(u, TD_FMA(v.k, TD_LN2_HI_F64, y));
    return __builtin_fabs(x) < 0x1p-54 ? x : y;
}

/* log(1 + e^x), the core of softplus and of logaddexp: the larger of x and 0
 * plus log1p(e) for e = e^-|x| in [0, 1], where the binary exponent of 1 + e is
 * 0 or 1. */
TD_M double td_m_log1pexp_f64(double x) {
    double e = td_m_exp_f64(-__builtin_fabs(x));
    int    up = e > 0.41421356;
    double f = up ? 0.5 * e - 0.5 : e;
    double y = td_m_log_tail_f64(f) + (up ? TD_LN2_LO_F64 : 0.0) + f;
    y += up ? TD_LN2_HI_F64 : 0.0;
    return (x < 0.0 ? 0.0 : x) + y;
}

/* ---- error function ------------------------------------------------------ */

/* a + a Q(a^2) up to 1; above, 1 - e^(-a^2) G(t) / (1 + 2a). */
TD_M double td_m_erf_f64(double x) {
    double a = __builtin_fabs(x), z = a * a;
    double q = 5.96068736271246155e-11;
    q = TD_FMA(q, z, -1.13749563088667333e-09);
    q = TD_FMA(q, z, 1.46603286848534155e-08);
    q = TD_FMA(q, z, -1.63503961855758945e-07);
    q = TD_FMA(q, z, 1.64610084708895689e-06);
    q = TD_FMA(q, z, -1.49255957715100628e-05);
    q = TD_FMA(q, z, 1.20553311329165826e-04);
    q = TD_FMA(q, z, -8.54832698142411209e-04);
    q = TD_FMA(q, z, 5.22397762482839853e-03);
    q = TD_FMA(q, z, -2.68661706450778713e-02);
    q = TD_FMA(q, z, 1.12837916709548847e-01);
    q = TD_FMA(q, z, -3.76126389031837483e-01);
    q = TD_FMA(q, z, 1.28379167095512586e-01);
    double b = a > 6.0 ? 6.0 : a;
    double t = (b - 2.0) / (b + 2.0);
    double g = -1.96948854818826467e-05;
    g = TD_FMA(g, t, 3.41230634395145195e-06);
    g = TD_FMA(g, t, 1.49698164729584657e-04);
    g = TD_FMA(g, t, 2.05407829070980847e-04);
    g = TD_FMA(g, t, -4.54426572688630367e-04);
    g = TD_FMA(g, t, -1.45677260593494963e-03);
    g = TD_FMA(g, t, 1.27134778179507761e-03);
    g = TD_FMA(g, t, 8.72265366544157372e-03);
    g = TD_FMA(g, t, -8.03401526099413628e-03);
    g = TD_FMA(g, t, -5.42200010013021913e-02);
    g = TD_FMA(g, t, 1.64051280034198776e-01);
    g = TD_FMA(g, t, -1.66030397615228920e-01);
    g = TD_FMA(g, t, -9.27638265857455707e-02);
    g = TD_FMA(g, t, 1.27697838155252863e+00);
    double high = 1.0 - td_m_exp_f64(-b * b) * g / (1.0 + 2.0 * b);
    return td_m_with_sign_f64(a < 1.0 ? TD_FMA(a, q, a) : high, x);
}

/* The normal distribution function, to 2^-53 but not relative to a small result. */
TD_M double td_m_ndtr_f64(double x) {
    return 0.5 * (1.0 + td_m_erf_f64(x * 7.07106781186547524e-01));
}

/* ---- by way of libm ------------------------------------------------------ */

TD_M double td_m_erfc_f64(double x) { return __builtin_erfc(x); }
TD_M double td_m_sin_f64(double x) { return __builtin_sin(x); }
TD_M double td_m_cos_f64(double x) { return __builtin_cos(x); }
TD_M double td_m_tan_f64(double x) { return __builtin_tan(x); }
TD_M double td_m_asin_f64(double x) { return __builtin_asin(x); }
TD_M double td_m_acos_f64(double x) { return __builtin_acos(x); }
TD_M double td_m_atan_f64(double x) { return __builtin_atan(x); }
TD_M double td_m_sinh_f64(double x) { return __builtin_sinh(x); }
TD_M double td_m_cosh_f64(double x) { return __builtin_cosh(x); }

TD_M double td_m_asinh_f64(double x) { return __builtin_asinh(x); }
TD_M double td_m_acosh_f64(double x) { return __builtin_acosh(x); }
TD_M double td_m_atanh_f64(double x) { return __builtin_atanh(x); }

TD_M double td_m_atan2_f64(double y, double x) { return __builtin_atan2(y, x); }

TD_M double td_m_pow_f64(double x, double y) { return __builtin_pow(x, y); }

TD_M double td_m_fmod_f64(double x, double y) { return __builtin_fmod(x, y); }

/* The sign of the divisor, as Python and torch.remainder. */
TD_M double td_m_remainder_f64(double x, double y) {
    double r = __builtin_fmod(x, y);
    return ((r != 0.0) & ((r < 0.0) != (y < 0.0))) ? r + y : r;
}

/* torch.div(x, y, rounding_mode="floor"): the quotient of what is left after
 * the remainder, snapped to the nearest integer, so floor_div(0.3, 0.1)
 * agrees with remainder(0.3, 0.1). */
TD_M double td_m_floor_div_f64(double x, double y) {
    double r = __builtin_fmod(x, y);
    double q = (x - r) / y;
    q = ((r != 0.0) & ((r < 0.0) != (y < 0.0))) ? q - 1.0 : q;
    double f = __builtin_floor(q);
    f = q - f > 0.5 ? f + 1.0 : f;
    f = q == 0.0 ? __builtin_copysign(0.0, x / y) : f;
    return y == 0.0 ? x / y : f;
}

/* ---- parts of a number --------------------------------------------------- */

TD_M int td_m_signbit_f64(double x) { return (int)(td_m_bits_f64(x) >> 63); }

/* As td_m_nextafter_f32. */
TD_M double td_m_nextafter_f64(double x, double y) {
    uint64_t u = td_m_bits_f64(x), zero = (td_m_bits_f64(y) & (uint64_t)1 << 63) | 1u;
    uint64_t step = ((y > x) == (x > 0.0)) ? u + 1u : u - 1u;
    double   r = td_m_from_bits_f64(x == 0.0 ? zero : step);
    r = x == y ? y : r;
    return ((x != x) | (y != y)) ? x + y : r;
}

/* x 2^n for a whole n, rounded once. Beyond 2200 every number is 0 or infinite. */
TD_M double td_m_ldexp_f64(double x, double n) {
    return __builtin_ldexp(x, (int)td_m_clip_f64(n, -2200.0, 2200.0));
}

/* x = mantissa * 2^exponent with the mantissa in [0.5, 1); a number without such parts
 * (0, infinity, NaN) is its own mantissa, with exponent 0. */
TD_M double td_m_frexp_mantissa_f64(double x) {
    double   y = __builtin_fabs(x) < 0x1p-1022 ? x * 0x1p54 : x;
    uint64_t u = (td_m_bits_f64(y) & 0x800fffffffffffffu) | 0x3fe0000000000000u;
    return (td_m_isfinite_f64(x) & (x != 0.0)) ? td_m_from_bits_f64(u) : x;
}

TD_M double td_m_frexp_exponent_f64(double x) {
    int      low = __builtin_fabs(x) < 0x1p-1022;
    uint64_t u = td_m_bits_f64(low ? x * 0x1p54 : x) >> 52 & 0x7ffu;
    double   e = (double)(int32_t)u - (low ? 1022.0 + 54.0 : 1022.0);
    return (td_m_isfinite_f64(x) & (x != 0.0)) ? e : 0.0;
}

/* The reentrant form, so that no thread writes the global signgam. Clang has
 * no builtin for it, hence the declaration. */
extern double lgamma_r(double x, int *sign);

TD_M double td_m_lgamma_f64(double x) {
    int sign;
    return lgamma_r(x, &sign);
}

/* psi(x): reflection below 0, recurrence up to 10, then the asymptotic series.
 * Zeros give an infinity of the opposite sign, negative integers NaN. */
TD_M double td_m_digamma_f64(double x) {
    double y = 0.0;
    if (x == 0.0) return __builtin_copysign(__builtin_inf(), -x);
    if (x < 0.0) {
        double frac = x - __builtin_rint(x);
        if (!(frac != 0.0)) return __builtin_nan("");
        y = -3.14159265358979312 / __builtin_tan(3.14159265358979312 * frac);
        x = 1.0 - x;
    }
    if (x == __builtin_inf()) return x + y;
    for (; x < 10.0; x += 1.0) y -= 1.0 / x;
    double z = 1.0 / (x * x);
    double p = 8.33333333333333333e-02;
    p = p * z - 2.10927960927960928e-02;
    p = p * z + 7.57575757575757576e-03;
    p = p * z - 4.16666666666666667e-03;
    p = p * z + 3.96825396825396825e-03;
    p = p * z - 8.33333333333333333e-03;
    p = p * z + 8.33333333333333333e-02;
    return y + __builtin_log(x) - 0.5 / x - p * z;
}

#endif
