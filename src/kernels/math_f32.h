/* math_f32.h: single-precision elementwise functions.
 *
 * exp, log, tanh, sigmoid, erf and their relatives work in float. The
 * trigonometric functions, erfc and pow widen to double inside, which costs
 * half the lanes and leaves little but the final rounding; so do fmod, remainder and
 * floor_div. Only lgamma and digamma call libm and stay scalar.
 *
 * sin, cos and tan take any argument. Up to 2^30 the reduction by pi keeps the
 * relative error; beyond, the angle has an absolute error below 2^-47, which
 * only a result smaller than 2^-23 would show. */
#ifndef TD_OPS_MATH_F32_H
#define TD_OPS_MATH_F32_H

#include "kernels/math_bits.h"
#include "kernels/math_f64.h"

/* ---- classes, signs, rounding -------------------------------------------- */

TD_M int td_m_isnan_f32(float x) { return x != x; }

TD_M int td_m_isinf_f32(float x) { return __builtin_fabsf(x) == __builtin_inff(); }

TD_M int td_m_isfinite_f32(float x) { return __builtin_fabsf(x) < __builtin_inff(); }

TD_M float td_m_abs_f32(float x) { return __builtin_fabsf(x); }

/* 0 for zeros and for NaN, as torch.sign. */
TD_M float td_m_sign_f32(float x) {
    float s = x > 0.0f ? 1.0f : 0.0f;
    return x < 0.0f ? -1.0f : s;
}

/* A NaN on either side wins; on a tie the first argument does. */
TD_M float td_m_max_f32(float a, float b) {
    float m = a >= b ? a : b;
    return a != a ? a : m;
}

TD_M float td_m_min_f32(float a, float b) {
    float m = a <= b ? a : b;
    return a != a ? a : m;
}

TD_M float td_m_floor_f32(float x) { return __builtin_floorf(x); }
TD_M float td_m_ceil_f32(float x) { return __builtin_ceilf(x); }
TD_M float td_m_trunc_f32(float x) { return __builtin_truncf(x); }

/* Half to even, in the default rounding mode. */
TD_M float td_m_round_f32(float x) { return __builtin_rintf(x); }

TD_M float td_m_sqrt_f32(float x) { return __builtin_sqrtf(x); }

TD_M float td_m_rsqrt_f32(float x) { return 1.0f / __builtin_sqrtf(x); }

/* x within [lo, hi]; NaN stays. Both tests look at x itself: given the second on the
 * result of the first, gcc merges them into four compares. */
TD_M float td_m_clip_f32(float x, float lo, float hi) {
    float y = x > hi ? hi : x;
    return x < lo ? lo : y;
}

/* a / b for b in [1, 2] and a in [0, 2]: no quotient overflows, and where one is
 * subnormal, b is 1. A device may divide such numbers without the cases of others. */
#ifdef TD_QUOTIENT
#define TD_DIVF(a, b) TD_QUOTIENT(a, b)
#else
#define TD_DIVF(a, b) ((a) / (b))
#endif

/* The larger, or NaN: by one instruction, where there is one. */
#ifdef TD_LARGER
#define TD_MAX_F32(a, b) TD_LARGER(a, b)
#else
#define TD_MAX_F32(a, b) ((a) < (b) ? (b) : (a))
#endif

/* ---- exponentials -------------------------------------------------------- */

/* 2^n for n in [-126, 127], n as two's complement. */
TD_M float td_m_pow2_f32(uint32_t n) { return td_m_from_bits_f32((n + 127u) << 23); }

/* expm1(r) for |r| <= 0.35. */
TD_M float td_m_expm1_poly_f32(float r) {
    float p = 1.394760562e-03f;
    p = TD_FMAF(p, r, 8.367246948e-03f);
    p = TD_FMAF(p, r, 4.166626558e-02f);
    p = TD_FMAF(p, r, 1.666653752e-01f);
    p = TD_FMAF(p, r, 0.5f);
    return TD_FMAF(p, r * r, r);
}

/* y * 2^n for n in [-252, 254]: two exact factors, one rounding. */
TD_M float td_m_scale_f32(float y, uint32_t n) {
    uint32_t h = ((n + 512u) >> 1) - 256u;
    return y * td_m_pow2_f32(h) * td_m_pow2_f32(n - h);
}

/* Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits. */
#define TD_MAGIC_F32 12582912.0f
#define TD_LOG2E_F32 1.442695041f
#define TD_LN2_HI_F32 0.693359375f /* 9 bits */
#define TD_LN2_LO_F32 (-2.121944401e-04f)

/* e^x / 2^n, n the integer next to log2(e) x. A device that has an instruction for 2^y
 * rounds it in other places, in a third of the steps. */
#ifdef TD_EX2
#define TD_LOG2E_LO_F32 1.925963033e-08f
#define TD_EXP_REST_F32(x, n) \
    TD_EX2(TD_FMAF(x, TD_LOG2E_LO_F32, TD_FMAF(x, TD_LOG2E_F32, -(n))))
#else
#define TD_EXP_REST_F32(x, n) \
    (1.0f +                   \
     td_m_expm1_poly_f32(TD_FMAF(n, -TD_LN2_LO_F32, TD_FMAF(n, -TD_LN2_HI_F32, x))))
#endif

/* e^x 2^k for small k. */
TD_M float td_m_expk_f32(float x, uint32_t k) {
    x = td_m_clip_f32(x, -105.0f, 90.0f);
    float    t = TD_FMAF(x, TD_LOG2E_F32, TD_MAGIC_F32);
    float    n = t - TD_MAGIC_F32;
    uint32_t i = td_m_bits_f32(t) - td_m_bits_f32(TD_MAGIC_F32);
    return td_m_scale_f32(TD_EXP_REST_F32(x, n), i + k);
}

TD_M float td_m_exp_f32(float x) { return td_m_expk_f32(x, 0); }

/* e^x 2^64 for x <= 0, cheaper than exp: one factor is in range for every n that
 * occurs. The bits of t beyond n are shifted out. */
TD_M float td_m_exp_neg64_f32(float x) {
    x = TD_MAX_F32(x, -105.0f);
    float t = TD_FMAF(x, TD_LOG2E_F32, TD_MAGIC_F32);
    float n = t - TD_MAGIC_F32;
    float s = td_m_from_bits_f32((td_m_bits_f32(t) + (127u + 64u)) << 23);
    return TD_EXP_REST_F32(x, n) * s;
}

TD_M float td_m_exp_neg_f32(float x) { return td_m_exp_neg64_f32(x) * 0x1p-64f; }

TD_M float td_m_exp2_f32(float x) {
    x = td_m_clip_f32(x, -151.0f, 129.0f);
    float    t = x + TD_MAGIC_F32;
    uint32_t i = td_m_bits_f32(t) - td_m_bits_f32(TD_MAGIC_F32);
    float    r = (x - (t - TD_MAGIC_F32)) * 6.931471825e-01f;
    return td_m_scale_f32(1.0f + td_m_expm1_poly_f32(r), i);
}

/* 2^n p + (2^n - 1), with 2^(n-1) so that n = 128 stays finite. */
TD_M float td_m_expm1_f32(float x) {
    float    c = td_m_clip_f32(x, -30.0f, 89.0f);
    float    t = TD_FMAF(c, TD_LOG2E_F32, TD_MAGIC_F32);
    float    n = t - TD_MAGIC_F32;
    uint32_t i = td_m_bits_f32(t) - td_m_bits_f32(TD_MAGIC_F32);
    float    r = TD_FMAF(n, -TD_LN2_HI_F32, c);
    r = TD_FMAF(n, -TD_LN2_LO_F32, r);
    float s = td_m_pow2_f32(i - 1u);
    float y = 2.0f * TD_FMAF(s, td_m_expm1_poly_f32(r), s - 0.5f);
    return __builtin_fabsf(x) < 0x1p-25f ? x : y;
}

TD_M float td_m_sigmoid_f32(float x) {
    float e = td_m_exp_neg_f32(-__builtin_fabsf(x));
    return TD_DIVF(x < 0.0f ? e : 1.0f, 1.0f + e);
}

/* 1 - 2e / (1 + e) with e = e^-2a, for a >= 0.625. */
TD_M float td_m_tanh_of_f32(float e) { return 1.0f - TD_DIVF(2.0f * e, 1.0f + e); }
#ifdef TD_EX2
#define TD_TANH_HIGH_F32(a) TD_TANH_OF(TD_EX2(-2.885390082f * (a)))
#else
#define TD_TANH_HIGH_F32(a) td_m_tanh_of_f32(td_m_exp_neg_f32(-2.0f * (a)))
#endif

/* Odd polynomial below 0.625. */
TD_M float td_m_tanh_f32(float x) {
    float a = __builtin_fabsf(x), z = a * a;
    float p = -5.717041437e-03f;
    p = TD_FMAF(p, z, 2.065058425e-02f);
    p = TD_FMAF(p, z, -5.374349654e-02f);
    p = TD_FMAF(p, z, 1.333149076e-01f);
    p = TD_FMAF(p, z, -3.333328366e-01f);
    float low = TD_FMAF(a * z, p, a);
    float high = TD_TANH_HIGH_F32(a);
    return td_m_with_sign_f32(a < 0.625f ? low : high, x);
}

/* Odd polynomial below 1; above, h - 1 / (4h) with h = e^a / 2. */
TD_M float td_m_sinh_f32(float x) {
    float a = __builtin_fabsf(x), z = a * a;
    float p = 2.817439736e-06f;
    p = TD_FMAF(p, z, 1.983606635e-04f);
    p = TD_FMAF(p, z, 8.333350532e-03f);
    p = TD_FMAF(p, z, 1.666666716e-01f);
    float low = TD_FMAF(a * z, p, a);
    float h = td_m_expk_f32(a, ~0u);
    return td_m_with_sign_f32(a < 1.0f ? low : h - 0.25f / h, x);
}

TD_M float td_m_cosh_f32(float x) {
    float h = td_m_expk_f32(__builtin_fabsf(x), ~0u);
    return h + 0.25f / h;
}

/* ---- logarithms ---------------------------------------------------------- */

/* x = 2^k (1 + f), 1 + f in [sqrt(1/2), sqrt(2)), for positive finite x. */
typedef struct {
    float k, f;
} td_m_split_f32;

TD_M td_m_split_f32 td_m_log_split_f32(float x) {
    int            sub = x < 0x1p-126f;
    uint32_t       u = td_m_bits_f32(sub ? x * 0x1p24f : x) - 0x3f3504f3u;
    uint32_t       k = (u + (128u << 23)) >> 23;
    uint32_t       m = (u & 0x7fffffu) + 0x3f3504f3u;
    float          kf = td_m_from_bits_f32(k | 0x4b000000u) - (0x1p23f + 128.0f);
    td_m_split_f32 r = {kf - (sub ? 24.0f : 0.0f), td_m_from_bits_f32(m) - 1.0f};
    return r;
}

/* log(1 + f) - f for 1 + f in [sqrt(1/2), sqrt(2)]. */
TD_M float td_m_log_tail_f32(float f) {
    float z = f * f;
    float p = 6.915392727e-02f;
    p = TD_FMAF(p, f, -1.178979129e-01f);
    p = TD_FMAF(p, f, 1.187295690e-01f);
    p = TD_FMAF(p, f, -1.238435060e-01f);
    p = TD_FMAF(p, f, 1.421866119e-01f);
    p = TD_FMAF(p, f, -1.666925102e-01f);
    p = TD_FMAF(p, f, 2.000222653e-01f);
    p = TD_FMAF(p, f, -2.499998659e-01f);
    p = TD_FMAF(p, f, 3.333331048e-01f);
    return TD_FMAF(p, f * z, -0.5f * z);
}

/* y, except -inf at zero, NaN below it, and inf and NaN kept. */
TD_M float td_m_log_edges_f32(float x, float y) {
    y = x < __builtin_inff() ? y : x;
    y = x == 0.0f ? -__builtin_inff() : y;
    return x < 0.0f ? __builtin_nanf("") : y;
}

TD_M float td_m_log_f32(float x) {
    td_m_split_f32 v = td_m_log_split_f32(x);
    float          y = TD_FMAF(v.k, TD_LN2_LO_F32, td_m_log_tail_f32(v.f)) + v.f;
    return td_m_log_edges_f32(x, TD_FMAF(v.k, TD_LN2_HI_F32, y));
}

TD_M float td_m_log2_f32(float x) {
    td_m_split_f32 v = td_m_log_split_f32(x);
    float          t = td_m_log_tail_f32(v.f);
    /* log2(e) in two parts; the second product carries what is small. */
    float          y = TD_FMAF(t, TD_LOG2E_F32, v.f * 4.426950514e-01f);
    return td_m_log_edges_f32(x, v.k + (y + v.f));
}

TD_M float td_m_log10_f32(float x) {
    td_m_split_f32 v = td_m_log_split_f32(x);
    float          y = (v.f + td_m_log_tail_f32(v.f)) * 4.342944920e-01f;
    y = TD_FMAF(v.k, 4.605038981e-06f, y);
    return td_m_log_edges_f32(x, TD_FMAF(v.k, 3.010253906e-01f, y));
}

/* With 1 + x near 2^k, f = x 2^-k + (2^-k - 1) is one rounding of exact
 * terms, so nothing of x is lost. Past 2^30 the 1 is invisible. */
TD_M float td_m_log1p_f32(float x) {
    float          u = 1.0f + x;
    td_m_split_f32 v = td_m_log_split_f32(u);
    float          k = v.k > 30.0f ? 30.0f : v.k;
    uint32_t       i = td_m_bits_f32(TD_MAGIC_F32 - k) - td_m_bits_f32(TD_MAGIC_F32);
    float          t = td_m_pow2_f32(i);
    float          f = v.k > 30.0f ? v.f : x * t + (t - 1.0f);
    float          y = TD_FMAF(v.k, TD_LN2_LO_F32, td_m_log_tail_f32(f)) + f;
    y = td_m_log_edges_f32(u, TD_FMAF(v.k, TD_LN2_HI_F32, y));
    return __builtin_fabsf(x) < 0x1p-25f ? x : y;
}

/* log(1 + e^x), the core of softplus and of logaddexp: the larger of x and 0
 * plus log1p(e) for e = e^-|x| in [0, 1], where the binary exponent of 1 + e is
 * 0 or 1. */
TD_M float td_m_log1pexp_f32(float x) {
    float e = td_m_exp_neg_f32(-__builtin_fabsf(x));
    int   up = e > 0.41421356f;
    float f = up ? 0.5f * e - 0.5f : e;
    float y = td_m_log_tail_f32(f) + (up ? TD_LN2_LO_F32 : 0.0f) + f;
    y += up ? TD_LN2_HI_F32 : 0.0f;
    return (x < 0.0f ? 0.0f : x) + y;
}

/* ---- error function ------------------------------------------------------ */

/* a + a Q(a^2) below 0.92; above, 1 - e^g with g fitted to log(erfc(a)). */
TD_M float td_m_erf_f32(float x) {
    float a = __builtin_fabsf(x), z = a * a;
    float q = 8.215427079e-05f;
    q = TD_FMAF(q, z, -8.105966263e-04f);
    q = TD_FMAF(q, z, 5.197797436e-03f);
    q = TD_FMAF(q, z, -2.685810439e-02f);
    q = TD_FMAF(q, z, 1.128367260e-01f);
    q = TD_FMAF(q, z, -3.761263192e-01f);
    q = TD_FMAF(q, z, 1.283791661e-01f);
    float b = a > 4.0f ? 4.0f : a;
    float g = -2.091180613e-05f;
    g = TD_FMAF(g, b, 4.323253233e-04f);
    g = TD_FMAF(g, b, -4.160616547e-03f);
    g = TD_FMAF(g, b, 2.509168163e-02f);
    g = TD_FMAF(g, b, -1.082368344e-01f);
    g = TD_FMAF(g, b, -6.333864927e-01f);
    g = TD_FMAF(g, b, -1.129495144e+00f);
    g = TD_FMAF(g, b, 1.705535396e-04f);
    float high = 1.0f - td_m_exp_f32(g);
    return td_m_with_sign_f32(a < 0.92f ? TD_FMAF(a, q, a) : high, x);
}

/* The normal distribution function. Phi(-a) is e^(-a^2/2) t P(t), t = 1/(1 + 0.27a);
 * the coefficients carry the 2^-64. */
TD_M float td_m_ndtr_f32(float x) {
    float t = 1.0f / TD_FMAF(0.27f, __builtin_fabsf(x), 1.0f);
    float p = 0x1p-64f * 2.899557725e-02f;
    p = TD_FMAF(p, t, 0x1p-64f * -1.266589910e-01f);
    p = TD_FMAF(p, t, 0x1p-64f * 1.701567471e-01f);
    p = TD_FMAF(p, t, 0x1p-64f * -6.965138763e-02f);
    p = TD_FMAF(p, t, 0x1p-64f * 1.081430465e-01f);
    p = TD_FMAF(p, t, 0x1p-64f * 7.190812379e-02f);
    p = TD_FMAF(p, t, 0x1p-64f * 1.018486172e-01f);
    p = TD_FMAF(p, t, 0x1p-64f * 1.075372696e-01f);
    p = TD_FMAF(p, t, 0x1p-64f * 1.077210084e-01f);
    float q = td_m_exp_neg64_f32(-0.5f * x * x) * (p * t);
    return x < 0.0f ? q : 1.0f - q;
}

/* e^(-a^2) G(t) / (1 + 2a) in double, so the far tail keeps its accuracy. */
TD_M float td_m_erfc_f32(float x) {
    double a = (double)__builtin_fabsf(x);
    a = a > 10.5 ? 10.5 : a;
    double t = (a - 2.0) / (a + 2.0);
    double g = 8.04186355883612538e-05;
    g = TD_FMA(g, t, 1.71191533632920602e-04);
    g = TD_FMA(g, t, -4.01031565124151566e-04);
    g = TD_FMA(g, t, -1.42263545073468309e-03);
    g = TD_FMA(g, t, 1.25240064353116702e-03);
    g = TD_FMA(g, t, 8.70977283941468811e-03);
    g = TD_FMA(g, t, -8.03072868306241652e-03);
    g = TD_FMA(g, t, -5.42179349178738418e-02);
    g = TD_FMA(g, t, 1.64051023745373004e-01);
    g = TD_FMA(g, t, -1.66030515270946616e-01);
    g = TD_FMA(g, t, -9.27638202842412662e-02);
    g = TD_FMA(g, t, 1.27697838261539665e+00);
    double y = td_m_exp_f64(-a * a) * g / (1.0 + 2.0 * a);
    return (float)(x < 0.0f ? 2.0 - y : y);
}

/* ---- trigonometry -------------------------------------------------------- */

/* x c, less the nearest integer. Exact: 24 bits by 29 fit a double. */
TD_M double td_m_turn_part(double x, double c) {
    double y = x * c;
    return y - __builtin_rint(y);
}

/* x as a double, or, beyond 2^30, an equal angle of a few turns at most: the
 * fractions of x times 29-bit parts of 1/(2 pi) add up to the fraction of a
 * turn. Infinities and NaN give NaN. */
TD_M double td_m_angle_f32(float x) {
    double a = (double)x;
    double t = a * 9.45814097074016904e-46;
    t += td_m_turn_part(a, 2.58671717520905366e-36);
    t += td_m_turn_part(a, 1.47030368469326084e-27);
    t += td_m_turn_part(a, 5.69002516799295402e-19);
    t += td_m_turn_part(a, 3.67041581156302144e-10);
    t += td_m_turn_part(a, 1.59154942724853754e-01);
    return __builtin_fabsf(x) < 0x1p30f ? a : t * 6.28318530717958623;
}

/* r in [-pi/2, pi/2] with x = n pi + r; flip is the sign bit for odd n. */
typedef struct {
    double   r;
    uint64_t flip;
} td_m_half_turn;

/* shift is 0 for sin and 0.5 for cos, whose n is an odd multiple of 1/2. The
 * first two parts of pi have 23 bits, so their products with n are exact. */
TD_M td_m_half_turn td_m_reduce_f32(float x, double shift) {
    double a = td_m_angle_f32(x);
    double t = a * 3.18309886183790691e-01 - shift + TD_MAGIC_F64;
    double n = t - TD_MAGIC_F64 + shift;
    double r = TD_FMA(n, -3.14159250259399414e+00, a);
    r = TD_FMA(n, -1.50995788317231927e-07, r);
    r = TD_FMA(n, -1.07806057163162379e-14, r);
    td_m_half_turn h = {r, td_m_bits_f64(t) << 63};
    return h;
}

/* sin(r) for |r| <= pi/2; r (1 + ...) keeps the sign of zero. */
TD_M double td_m_sin_poly_f32(double r) {
    double z = r * r;
    double p = -2.39095984511468385e-08;
    p = TD_FMA(p, z, 2.75266393927983944e-06);
    p = TD_FMA(p, z, -1.98408945179257684e-04);
    p = TD_FMA(p, z, 8.33333132679524129e-03);
    p = TD_FMA(p, z, -1.66666666318110113e-01);
    return r * TD_FMA(p, z, 1.0);
}

TD_M float td_m_sin_f32(float x) {
    td_m_half_turn h = td_m_reduce_f32(x, 0.0);
    double         y = td_m_sin_poly_f32(h.r);
    return (float)td_m_from_bits_f64(td_m_bits_f64(y) ^ h.flip);
}

/* cos(x) = -sin(x - pi/2), and n = j + 1/2 flips once more per j. */
TD_M float td_m_cos_f32(float x) {
    td_m_half_turn h = td_m_reduce_f32(x, 0.5);
    double         y = -td_m_sin_poly_f32(h.r);
    return (float)td_m_from_bits_f64(td_m_bits_f64(y) ^ h.flip);
}

/* sin / cos after reduction by pi/2, or -cos / sin in the odd quarters. */
TD_M float td_m_tan_f32(float x) {
    double a = td_m_angle_f32(x);
    double t = a * 6.36619772367581382e-01 + TD_MAGIC_F64;
    double n = t - TD_MAGIC_F64;
    double r = TD_FMA(n, -1.57079625129699707e+00, a);
    r = TD_FMA(n, -7.54978941586159635e-08, r);
    r = TD_FMA(n, -5.39030285815811897e-15, r);
    double z = r * r;
    double c = 2.43904477235580523e-05;
    c = TD_FMA(c, z, -1.38867637617069890e-03);
    c = TD_FMA(c, z, 4.16666233233242214e-02);
    c = TD_FMA(c, z, -4.99999997251004302e-01);
    c = TD_FMA(c, z, 1.0);
    double s = td_m_sin_poly_f32(r);
    int    odd = (td_m_bits_f64(t) & 1u) != 0;
    return (float)((odd ? -c : s) / (odd ? s : c));
}

/* asin(s) - s for s in [0, 0.5] given z = s^2. */
TD_M float td_m_asin_tail_f32(float s, float z) {
    float p = 4.221861437e-02f;
    p = TD_FMAF(p, z, 2.414758503e-02f);
    p = TD_FMAF(p, z, 4.547709972e-02f);
    p = TD_FMAF(p, z, 7.495241612e-02f);
    p = TD_FMAF(p, z, 1.666675359e-01f);
    return s * z * p;
}

#define TD_PIO2_HI_F32 1.570796371f
#define TD_PIO2_LO_F32 (-4.371139000e-08f)

/* Above 0.5, asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)); NaN past 1. */
TD_M float td_m_asin_f32(float x) {
    float a = __builtin_fabsf(x);
    int   low = a < 0.5f;
    float z = low ? a * a : 0.5f * (1.0f - a);
    float s = low ? a : __builtin_sqrtf(z);
    float t = td_m_asin_tail_f32(s, z);
    float high = TD_PIO2_HI_F32 - 2.0f * s - (2.0f * t - TD_PIO2_LO_F32);
    float y = low ? s + t : high;
    return td_m_with_sign_f32(y, x);
}

TD_M float td_m_acos_f32(float x) {
    float a = __builtin_fabsf(x);
    int   low = a < 0.5f;
    float z = low ? a * a : 0.5f * (1.0f - a);
    float s = low ? a : __builtin_sqrtf(z);
    float p = s + td_m_asin_tail_f32(s, z);
    float q = x < 0.0f ? -p : p;
    float mid = TD_PIO2_HI_F32 - (q - TD_PIO2_LO_F32);
    float neg = 2.0f * (TD_PIO2_HI_F32 - (p - TD_PIO2_LO_F32));
    float end = x < 0.0f ? neg : 2.0f * p;
    return low ? mid : end;
}

/* atan(q) for q in [0, 1]. */
TD_M float td_m_atan_poly_f32(float q) {
    float z = q * q;
    float p = -1.827219268e-03f;
    p = TD_FMAF(p, z, 1.106446143e-02f);
    p = TD_FMAF(p, z, -3.145572171e-02f);
    p = TD_FMAF(p, z, 5.823454261e-02f);
    p = TD_FMAF(p, z, -8.419456333e-02f);
    p = TD_FMAF(p, z, 1.095757410e-01f);
    p = TD_FMAF(p, z, -1.426524520e-01f);
    p = TD_FMAF(p, z, 1.999863833e-01f);
    p = TD_FMAF(p, z, -3.333330154e-01f);
    return TD_FMAF(q * z, p, q);
}

TD_M float td_m_atan_f32(float x) {
    float a = __builtin_fabsf(x);
    int   big = a > 1.0f;
    float p = td_m_atan_poly_f32(big ? 1.0f / a : a);
    float y = big ? TD_PIO2_HI_F32 - (p - TD_PIO2_LO_F32) : p;
    return td_m_with_sign_f32(y, x);
}

/* The angle of the smaller over the larger side, then reflections. Equal
 * infinities count as equal sides and 0 / 0 as 0, as in C. */
TD_M float td_m_atan2_f32(float y, float x) {
    float a = __builtin_fabsf(y), b = __builtin_fabsf(x);
    int   steep = a > b;
    float small = steep ? b : a, large = steep ? a : b;
    float q = small == large ? 1.0f : small / large;
    q = large == 0.0f ? 0.0f : q;
    q = ((a != a) | (b != b)) ? a + b : q;
    float p = td_m_atan_poly_f32(q);
    p = steep ? TD_PIO2_HI_F32 - (p - TD_PIO2_LO_F32) : p;
    float back = 2.0f * TD_PIO2_HI_F32 - (p - 2.0f * TD_PIO2_LO_F32);
    p = (td_m_bits_f32(x) >> 31) != 0 ? back : p;
    return td_m_with_sign_f32(p, y);
}

/* ---- powers, remainders, gamma ------------------------------------------- */

/* log2(a) in double for a >= 0, relative error 2^-44; -inf at 0. */
TD_M double td_m_log2_wide_f32(float a) {
    td_m_split_f32 v = td_m_log_split_f32(a);
    double         s = (double)v.f / (2.0 + (double)v.f), z = s * s;
    double         p = 2.82917493956112598e-01;
    p = TD_FMA(p, z, 3.19904483359893022e-01);
    p = TD_FMA(p, z, 4.12209282036158087e-01);
    p = TD_FMA(p, z, 5.77077942069937899e-01);
    p = TD_FMA(p, z, 9.61796694114364525e-01);
    p = TD_FMA(p, z, 2.88539008177784950e+00);
    double y = TD_FMA(s, p, (double)v.k);
    y = a < __builtin_inff() ? y : (double)a;
    return a == 0.0f ? -__builtin_inf() : y;
}

/* 2^e in double, relative error 2^-34, e clamped to where float ends. */
TD_M double td_m_exp2_wide_f32(double e) {
    e = e > 200.0 ? 200.0 : e;
    e = e < -200.0 ? -200.0 : e;
    double t = e + TD_MAGIC_F64;
    double r = e - (t - TD_MAGIC_F64);
    double p = 1.53164623285525547e-05;
    p = TD_FMA(p, r, 1.54697330570674241e-04);
    p = TD_FMA(p, r, 1.33334226426491762e-03);
    p = TD_FMA(p, r, 9.61802559948342177e-03);
    p = TD_FMA(p, r, 5.55041097611342488e-02);
    p = TD_FMA(p, r, 2.40226512136181652e-01);
    p = TD_FMA(p, r, 6.93147180535023555e-01);
    p = TD_FMA(p, r, 9.99999999959547914e-01);
    return p * td_m_pow2_f64(td_m_bits_f64(t) - td_m_bits_f64(TD_MAGIC_F64));
}

/* C's pow: 1 when x is 1 or y is 0 even against NaN, the sign of x for odd
 * integers y, NaN for negative x and other finite y. */
TD_M float td_m_pow_f32(float x, float y) {
    float  a = __builtin_fabsf(x), h = 0.5f * y;
    int    whole = __builtin_truncf(y) == y;
    int    odd = whole & (__builtin_truncf(h) != h) & (__builtin_fabsf(y) < 0x1p24f);
    double e = (double)y * td_m_log2_wide_f32(a);
    e = ((a == 1.0f) & (y == y)) ? 0.0 : e;
    float    p = (float)td_m_exp2_wide_f32(e);
    uint32_t sign = odd ? td_m_bits_f32(x) & 0x80000000u : 0u;
    p = td_m_from_bits_f32(td_m_bits_f32(p) | sign);
    int bad = (x < 0.0f) & (a < __builtin_inff()) & !whole;
    p = bad ? __builtin_nanf("") : p;
    return ((x == 1.0f) | (y == 0.0f)) ? 1.0f : p;
}

/* One step of td_m_fmod_f32: r modulo b, within half of b, after a shift by bits. */
#ifdef __FMA__
#define TD_MOD_BITS 0x1p50
#define TD_MOD_LOW 0x1p-250
#else
#define TD_MOD_BITS 0x1p28
#define TD_MOD_LOW 0x1p-252
#endif
TD_M double td_m_mod_step(double r, double b, double inverse) {
    double t = r * inverse + TD_MAGIC_F64;
    return TD_FMA(-(t - TD_MAGIC_F64), b, r);
}

/* x - trunc(x / y) y, exactly: the quotient, of up to 278 bits, is taken off from the
 * top in parts whose products with y are exact. What is left never has more bits than
 * x or y. */
TD_M float td_m_fmod_f32(float x, float y) {
    double b = (double)__builtin_fabsf(y), a = (double)__builtin_fabsf(x);
    double inverse = 1.0 / b, r = td_m_mod_step(a * TD_MOD_LOW, b, inverse);
    r = td_m_mod_step(r * TD_MOD_BITS, b, inverse);
    r = td_m_mod_step(r * TD_MOD_BITS, b, inverse);
    r = td_m_mod_step(r * TD_MOD_BITS, b, inverse);
    r = td_m_mod_step(r * TD_MOD_BITS, b, inverse);
    r = td_m_mod_step(r * TD_MOD_BITS, b, inverse);
#ifndef __FMA__
    r = td_m_mod_step(r * TD_MOD_BITS, b, inverse);
    r = td_m_mod_step(r * TD_MOD_BITS, b, inverse);
    r = td_m_mod_step(r * TD_MOD_BITS, b, inverse);
    r = td_m_mod_step(r * TD_MOD_BITS, b, inverse);
#endif
    r = r < 0.0 ? r + b : r;
    r = ((b == __builtin_inf()) & (a < b)) ? a : r;
    return td_m_with_sign_f32((float)r, x);
}

/* The sign of the divisor, as Python and torch.remainder. */
TD_M float td_m_remainder_f32(float x, float y) {
    float r = td_m_fmod_f32(x, y);
    return ((r != 0.0f) & ((r < 0.0f) != (y < 0.0f))) ? r + y : r;
}

/* torch.div(x, y, rounding_mode="floor"); see td_m_floor_div_f64. */
TD_M float td_m_floor_div_f32(float x, float y) {
    float r = td_m_fmod_f32(x, y);
    float q = (x - r) / y;
    q = ((r != 0.0f) & ((r < 0.0f) != (y < 0.0f))) ? q - 1.0f : q;
    float f = __builtin_floorf(q);
    f = q - f > 0.5f ? f + 1.0f : f;
    f = q == 0.0f ? __builtin_copysignf(0.0f, x / y) : f;
    return y == 0.0f ? x / y : f;
}

/* By log1p in double, of arguments that lose nothing of a small x. */
TD_M float td_m_asinh_f32(float x) {
    double a = (double)__builtin_fabsf(x);
    double y = td_m_log1p_f64(a + a * a / (1.0 + __builtin_sqrt(1.0 + a * a)));
    return td_m_with_sign_f32((float)(a < __builtin_inf() ? y : a), x);
}
TD_M float td_m_acosh_f32(float x) {
    double t = (double)x - 1.0;
    double y = td_m_log1p_f64(t + __builtin_sqrt(t * (t + 2.0)));
    return x < 1.0f ? __builtin_nanf("") : (float)y;
}
TD_M float td_m_atanh_f32(float x) {
    double a = (double)__builtin_fabsf(x);
    return td_m_with_sign_f32((float)(0.5 * td_m_log1p_f64(2.0 * a / (1.0 - a))), x);
}

/* Squares of floats are exact in double. An infinite side wins over NaN. */
TD_M float td_m_hypot_f32(float x, float y) {
    double a = (double)x, b = (double)y;
    float  r = (float)__builtin_sqrt(a * a + b * b);
    return (td_m_isinf_f32(x) | td_m_isinf_f32(y)) ? __builtin_inff() : r;
}

/* ---- parts of a number --------------------------------------------------- */

TD_M int td_m_signbit_f32(float x) { return (int)(td_m_bits_f32(x) >> 31); }

/* Magnitudes are ordered as their bits. From 0 the step is to the smallest number of
 * the sign of y. */
TD_M float td_m_nextafter_f32(float x, float y) {
    uint32_t u = td_m_bits_f32(x), zero = (td_m_bits_f32(y) & 0x80000000u) | 1u;
    uint32_t step = ((y > x) == (x > 0.0f)) ? u + 1u : u - 1u;
    float    r = td_m_from_bits_f32(x == 0.0f ? zero : step);
    r = x == y ? y : r;
    return ((x != x) | (y != y)) ? x + y : r;
}

TD_M float td_m_ldexp_f32(float x, float n) {
    return __builtin_ldexpf(x, (int)td_m_clip_f32(n, -2200.0f, 2200.0f));
}

/* Every finite f32 but 0 is normal in f64. */
TD_M float td_m_frexp_mantissa_f32(float x) {
    return (float)td_m_frexp_mantissa_f64((double)x);
}
TD_M float td_m_frexp_exponent_f32(float x) {
    return (float)td_m_frexp_exponent_f64((double)x);
}

/* The bits of a half, one step toward the half y: magnitudes are ordered as their bits.
 * From 0 the step is to the smallest number of the sign of y. */
TD_M uint16_t td_m_next_half(uint16_t x, float from, float to) {
    uint16_t zero = (uint16_t)(to < 0.0f ? 0x8001u : 0x0001u);
    int      away = (to > from) == (from > 0.0f);
    uint16_t step = (uint16_t)(away ? x + 1u : x - 1u);
    return from == 0.0f ? zero : step;
}

/* nextafter among the numbers of bf16, for x and y that are such numbers. */
TD_M float td_m_nextafter_bf16_f32(float x, float y) {
    uint16_t u = td_m_next_half(td_m_f32_to_bf16(x), x, y);
    return ((x != x) | (y != y)) ? x + y : x == y ? y : td_m_bf16_to_f32(u);
}
TD_M double td_m_nextafter_bf16_f64(double x, double y) {
    return (double)td_m_nextafter_bf16_f32((float)x, (float)y);
}

/* nextafter among the numbers of f16. */
TD_M float td_m_nextafter_f16_f32(float x, float y) {
    uint16_t u = td_m_next_half(td_m_f32_to_f16(x), x, y);
    return ((x != x) | (y != y)) ? x + y : x == y ? y : td_m_f16_to_f32(u);
}
TD_M double td_m_nextafter_f16_f64(double x, double y) {
    return (double)td_m_nextafter_f16_f32((float)x, (float)y);
}

TD_M float td_m_digamma_f32(float x) { return (float)td_m_digamma_f64((double)x); }

#endif
