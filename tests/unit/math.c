/* Unit tests of kernels/math.h and kernels/philox.h: error bounds, special values,
 * half precision, random numbers.
 *
 * Each bound is the one docs/numerics.md states. TD_MATH_REPORT=1 prints the
 * measured maxima; TD_MATH_POINTS sets the sample points per function and sweep. */
#include "td_test.h"

#include "kernels/math.h"
#include "kernels/math_special.h"
#include "kernels/philox.h"

#include <float.h>
#include <stdlib.h>

/* ---- measuring ----------------------------------------------------------- */

typedef struct {
    const char *name;
    float (*f32)(float);
    double (*f64)(double);
    double (*ref)(double);            /* for f32 */
    long double (*refl)(long double); /* for f64 */
    double lo, hi;                    /* the linear sweep */
    double bound32, bound64;          /* ulp */
} row;

/* clang-format off */
#define UNARY(X)                                                          \
    X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(sqrt)      \
    X(rsqrt) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) \
    X(tanh) X(sigmoid) X(erf) X(erfc) X(floor) X(ceil) X(round) X(trunc)  \
    X(log1pexp) X(lgamma)
/* clang-format on */

/* The functions are always inlined; these have addresses. */
#define WRAP(n)                                                  \
    static float  f32_##n(float x) { return td_m_##n##_f32(x); } \
    static double f64_##n(double x) { return td_m_##n##_f64(x); }
UNARY(WRAP)

static double ref_rsqrt(double x) { return 1.0 / sqrt(x); }
static double ref_round(double x) { return rint(x); }
static double ref_sigmoid(double x) {
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}
static double ref_log1pexp(double x) { return (x < 0 ? 0 : x) + log1p(exp(-fabs(x))); }
static long double ref_rsqrtl(long double x) { return 1.0L / sqrtl(x); }
static long double ref_roundl(long double x) { return rintl(x); }
static long double ref_sigmoidl(long double x) {
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}
static long double ref_log1pexpl(long double x) {
    return (x < 0 ? 0 : x) + log1pl(expl(-fabsl(x)));
}

#define ROW(n, lo, hi, b32, b64) \
    { #n, f32_##n, f64_##n, n, n##l, lo, hi, b32, b64 }
#define OWN(n, lo, hi, b32, b64) \
    { #n, f32_##n, f64_##n, ref_##n, ref_##n##l, lo, hi, b32, b64 }

static const row rows[] = {
    ROW(exp, -110, 95, 1.5, 1.5),
    ROW(exp2, -155, 135, 1.5, 1.5),
    ROW(expm1, -20, 95, 2.5, 2),
    ROW(log, 0.3, 3, 1.5, 1.5),
    ROW(log2, 0.3, 3, 2.5, 2),
    ROW(log10, 0.3, 3, 2.5, 2),
    ROW(log1p, -1.1, 3, 2, 2),
    ROW(sqrt, 0, 100, 0.51, 0.51),
    OWN(rsqrt, 0, 100, 1.6, 1.6),
    ROW(sin, -100000, 100000, 0.6, 1),
    ROW(cos, -100000, 100000, 0.6, 1),
    ROW(tan, -100000, 100000, 0.6, 1),
    ROW(asin, -1.1, 1.1, 2.5, 1),
    ROW(acos, -1.1, 1.1, 2, 1),
    ROW(atan, -5, 5, 2, 1),
    ROW(sinh, -95, 95, 2, 2),
    ROW(cosh, -95, 95, 2, 2),
    ROW(tanh, -10, 10, 2, 2),
    OWN(sigmoid, -110, 40, 2.5, 2.5),
    ROW(erf, -5, 5, 2, 2),
    ROW(erfc, -5, 11, 0.6, 5.5),
    ROW(floor, -9, 9, 0, 0),
    ROW(ceil, -9, 9, 0, 0),
    OWN(round, -9, 9, 0, 0),
    ROW(trunc, -9, 9, 0, 0),
    OWN(log1pexp, -110, 40, 2.5, 2),
    ROW(lgamma, -30, 30, 0.6, 20),
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static uint32_t points(void) {
    const char *s = getenv("TD_MATH_POINTS");
    if (s) return (uint32_t)strtoul(s, NULL, 10);
    return getenv("TD_TEST_QUICK") ? 2000u : 100000u;
}

/* Distance in units of the last place of a float (or double) near ref. A
 * result past the largest finite number counts as 2^128 (2^1024). */
static double ulps32(float y, double ref) {
    if (isnan(ref)) return isnan(y) ? 0 : INFINITY;
    if (isinf(ref) || isnan(y)) return (double)y == ref ? 0 : INFINITY;
    int    e = ref == 0 ? -126 : ilogb(ref);
    double v = isinf(y) ? copysign(0x1p128, y) : (double)y;
    if (fabs(ref) > 0x1p128) ref = copysign(0x1p128, ref), e = 127;
    return fabs(v - ref) / ldexp(1.0, (e < -126 ? -126 : e) - 23);
}

static double ulps64(double y, long double ref) {
    if (isnan(ref)) return isnan(y) ? 0 : INFINITY;
    if (isinf(ref) || isnan(y)) return (long double)y == ref ? 0 : INFINITY;
    int         e = ref == 0 ? -1022 : ilogbl(ref);
    long double v = isinf(y) ? copysignl(0x1p1024L, y) : (long double)y;
    if (fabsl(ref) > 0x1p1024L) ref = copysignl(0x1p1024L, ref), e = 1023;
    return (double)(fabsl(v - ref) / ldexpl(1.0L, (e < -1022 ? -1022 : e) - 52));
}

typedef struct {
    double ulp, at;
} worst;

static void note(worst *w, double ulp, double at) {
    if (!(ulp <= w->ulp)) *w = (worst){ulp, at};
}

/* The i-th of n points from lo to hi, each at its own place in its cell. */
static double on_line(const row *r, uint32_t i, uint32_t n) {
    double u = (double)(i * 2654435761u) * 0x1p-32;
    return r->lo + (r->hi - r->lo) * ((double)i + u) / (double)n;
}

/* Two sweeps: all bit patterns of both signs, and the line from lo to hi. */
static worst sweep32(const row *r) {
    worst    w = {0, 0};
    uint32_t n = points(), step = UINT32_MAX / n;
    for (uint32_t i = 0, u = 0; i < n; i++, u += step) {
        float x = td_m_from_bits_f32(u);
        note(&w, ulps32(r->f32(x), r->ref((double)x)), (double)x);
        x = (float)on_line(r, i, n);
        note(&w, ulps32(r->f32(x), r->ref((double)x)), (double)x);
    }
    return w;
}

static worst sweep64(const row *r) {
    worst    w = {0, 0};
    uint32_t n = points();
    uint64_t step = UINT64_MAX / n, u = 0;
    for (uint32_t i = 0; i < n; i++, u += step) {
        double x = td_m_from_bits_f64(u);
        note(&w, ulps64(r->f64(x), r->refl((long double)x)), x);
        x = on_line(r, i, n);
        note(&w, ulps64(r->f64(x), r->refl((long double)x)), x);
    }
    return w;
}

static void check_worst(const char *name, const char *type, worst w, double bound) {
    if (getenv("TD_MATH_REPORT"))
        printf("%-10s %s %6.3f ulp at %.9g\n", name, type, w.ulp, w.at);
    TD_CHECK_THAT(w.ulp <= bound, "%s %s: %.3f ulp at %.17g, bound %g", name, type,
                  w.ulp, w.at, bound);
}

/* Valgrind computes long double with 64 bits and cannot judge doubles. */
static bool long_double_is_wide(void) {
    volatile long double one = 1.0L, tiny = LDBL_EPSILON;
    return one + tiny != one && sizeof(long double) > sizeof(double);
}

TEST(f32_functions_stay_within_their_bounds) {
    for (int i = 0; i < ROWS; i++)
        check_worst(rows[i].name, "f32", sweep32(&rows[i]), rows[i].bound32);
}

TEST(f64_functions_stay_within_their_bounds) {
    if (!long_double_is_wide()) return;
    for (int i = 0; i < ROWS; i++)
        check_worst(rows[i].name, "f64", sweep64(&rows[i]), rows[i].bound64);
}

TEST(exp_of_what_is_not_positive_is_as_exact_as_exp) {
    worst w = {0, 0};
    for (uint32_t i = 0, n = points(); i <= n; i++) {
        float x = -110.0f * (float)i / (float)n;
        note(&w, ulps32(td_m_exp_neg_f32(x), exp((double)x)), (double)x);
    }
    check_worst("exp_neg", "f32", w, 1.5);
    CHECK(td_m_exp_neg_f32(-INFINITY) == 0 && isnan(td_m_exp_neg_f32(NAN)));
}

/* In float the error grows with the square of the argument, in double it is
 * relative to one. */
TEST(normal_distribution_function_stays_within_its_bounds) {
    worst w = {0, 0}, wide = {0, 0};
    for (uint32_t i = 0, n = points(); i <= n; i++) {
        float  x = -13.0f + 26.0f * (float)i / (float)n;
        double ref = 0.5 * erfc((double)x * -7.07106781186547524e-01);
        double grow = x < 0 ? 1 + (double)(x * x) / 8 : 1;
        note(&w, ulps32(td_m_ndtr_f32(x), ref) / grow, (double)x);
        note(&wide, fabs(td_m_ndtr_f64((double)x) - ref) * 0x1p53, (double)x);
    }
    check_worst("ndtr", "f32", w, 7);
    check_worst("ndtr", "f64", wide, 2);
    CHECK(td_m_ndtr_f32(-INFINITY) == 0 && td_m_ndtr_f32(INFINITY) == 1);
    CHECK(isnan(td_m_ndtr_f32(NAN)));
}

/* ---- special values ------------------------------------------------------ */

static bool same32(float a, float b) {
    return td_m_bits_f32(a) == td_m_bits_f32(b) || (isnan(a) && isnan(b));
}

static bool same64(double a, double b) {
    return td_m_bits_f64(a) == td_m_bits_f64(b) || (isnan(a) && isnan(b));
}

/* Where libm is exact: signs of zero, infinities, NaN, the ends of domains. */
TEST(special_arguments_give_what_libm_gives_to_the_bit) {
    static const char *const exact[] = {"exp",   "exp2",  "expm1",   "log",   "log2",
                                        "log10", "log1p", "sqrt",    "sin",   "cos",
                                        "tan",   "asin",  "acos",    "atan",  "sinh",
                                        "cosh",  "tanh",  "sigmoid", "erf",   "erfc",
                                        "floor", "ceil",  "round",   "trunc", "rsqrt"};
    static const double      at[] = {0.0, -0.0, INFINITY, -INFINITY, NAN};
    for (int i = 0; i < ROWS; i++)
        for (size_t k = 0; k < sizeof exact / sizeof *exact; k++)
            for (int j = 0; j < 5; j++) {
                if (strcmp(rows[i].name, exact[k]) != 0) continue;
                double want = rows[i].ref(at[j]);
                TD_CHECK_THAT(same32(rows[i].f32((float)at[j]), (float)want),
                              "%s f32 at %g", rows[i].name, at[j]);
                TD_CHECK_THAT(same64(rows[i].f64(at[j]), want), "%s f64 at %g",
                              rows[i].name, at[j]);
            }
}

TEST(subnormal_arguments_are_not_flushed) {
    float  tiny = 0x1p-149f;
    double least = 0x1p-1074;

    CHECK(td_m_log2_f32(tiny) == -149.0f);
    CHECK(td_m_log2_f64(least) == -1074.0);
    CHECK(td_m_exp2_f32(-149.0f) == tiny);
    CHECK(td_m_exp2_f64(-1074.0) == least);
    CHECK(td_m_sin_f32(tiny) == tiny && td_m_tanh_f32(-tiny) == -tiny);
    CHECK(td_m_expm1_f32(tiny) == tiny && td_m_log1p_f32(-tiny) == -tiny);
    CHECK(td_m_expm1_f64(least) == least && td_m_log1p_f64(least) == least);
    CHECK(td_m_atan_f32(tiny) == tiny && td_m_asin_f32(tiny) == tiny);
}

/* Thousands of multiples of pi/2 rounded to float are the hardest arguments. */
TEST(angles_near_multiples_of_a_right_angle_keep_relative_accuracy) {
    worst w = {0, 0};
    for (uint32_t i = 1; i < points(); i++) {
        double k = i < 50000 ? (double)i : (double)i * 6829.0;
        float  x = (float)(k * 1.57079632679489662);
        note(&w, ulps32(td_m_sin_f32(x), sin((double)x)), (double)x);
        note(&w, ulps32(td_m_cos_f32(x), cos((double)x)), (double)x);
        note(&w, ulps32(td_m_tan_f32(x), tan((double)x)), (double)x);
    }
    check_worst("sincostan", "f32", w, 0.6);
}

TEST(minimum_and_maximum_propagate_nan) {
    float nan = NAN;

    CHECK(isnan(td_m_max_f32(nan, 1)) && isnan(td_m_max_f32(1, nan)));
    CHECK(isnan(td_m_min_f32(nan, 1)) && isnan(td_m_min_f32(1, nan)));
    CHECK(isnan(td_m_max_f64(NAN, 1)) && isnan(td_m_min_f64(1, NAN)));
    CHECK(td_m_max_f32(1, 2) == 2 && td_m_min_f32(1, 2) == 1);
    CHECK(td_m_sign_f32(nan) == 0 && td_m_sign_f32(-3) == -1);
    CHECK(td_m_isnan_f32(nan) && !td_m_isfinite_f32(nan));
    CHECK(td_m_isinf_f64(-INFINITY) && !td_m_isinf_f64(DBL_MAX));
}

/* ---- two arguments ------------------------------------------------------- */

static const float edges[] = {0.0f,       -0.0f,       1.0f,     -1.0f,     0.5f,
                              -0.5f,      2.0f,        -2.0f,    3.0f,      -3.0f,
                              1.5f,       -1.5f,       INFINITY, -INFINITY, NAN,
                              1e30f,      -1e30f,      1e-40f,   -1e-40f,   16777216.f,
                              16777215.f, -16777215.f, FLT_MAX,  FLT_MIN};
enum { EDGES = sizeof edges / sizeof edges[0] };

TEST(pow_and_atan2_agree_with_libm_at_every_pair_of_edges) {
    for (int i = 0; i < EDGES; i++)
        for (int j = 0; j < EDGES; j++) {
            float  x = edges[i], y = edges[j];
            double p = pow((double)x, (double)y);
            double t = atan2((double)x, (double)y);
            TD_CHECK_THAT(ulps32(td_m_pow_f32(x, y), p) <= 0.6, "pow %g %g", (double)x,
                          (double)y);
            TD_CHECK_THAT(ulps32(td_m_atan2_f32(x, y), t) <= 2.5, "atan2 %g %g",
                          (double)x, (double)y);
            CHECK(isnan(p) || !signbit(p) == !signbit(td_m_pow_f32(x, y)));
            CHECK(isnan(t) || !signbit(t) == !signbit(td_m_atan2_f32(x, y)));
        }
}

/* Word i of a fixed random stream. */
static uint32_t word(uint32_t i) {
    uint32_t w[4];
    td_philox(2026, i >> 2, w);
    return w[i & 3];
}

TEST(pow_and_atan2_stay_within_their_bounds) {
    worst p = {0, 0}, t = {0, 0};
    for (uint32_t i = 0; i < points(); i++) {
        float x = td_m_from_bits_f32(word(2 * i)), a = fabsf(x);
        float y = td_m_from_bits_f32(word(2 * i + 1));
        float e = 300.0f * (td_uniform_f32(word(2 * i + 1)) - 0.5f);
        float b = 0.3f + 3.0f * td_uniform_f32(word(2 * i));
        note(&p, ulps32(td_m_pow_f32(x, y), pow((double)x, (double)y)), (double)x);
        note(&p, ulps32(td_m_pow_f32(a, e / 99), pow((double)a, (double)(e / 99))),
             (double)a);
        note(&p, ulps32(td_m_pow_f32(b, e), pow((double)b, (double)e)), (double)b);
        note(&t, ulps32(td_m_atan2_f32(x, y), atan2((double)x, (double)y)), (double)x);
        note(&t, ulps32(td_m_atan2_f32(b, e), atan2((double)b, (double)e)), (double)b);
        note(&t,
             ulps32(td_m_atan2_f32(b - 1, e / 75),
                    atan2((double)(b - 1), (double)(e / 75))),
             (double)b);
    }
    check_worst("pow", "f32", p, 0.6);
    check_worst("atan2", "f32", t, 2.5);
}

/* x, y, floor_div, remainder, fmod as torch 2.15 gives them in f32. */
static const float div_cases[][5] = {
    {1, 0, INFINITY, NAN, NAN},
    {-1, 0, -INFINITY, NAN, NAN},
    {0, 0, NAN, NAN, NAN},
    {5, INFINITY, 0, 5, 5},
    {-5, INFINITY, -1, INFINITY, -5},
    {INFINITY, 2, NAN, NAN, NAN},
    {5, -2, -3, -1, 1},
    {-0.0f, 3, -0.0f, -0.0f, -0.0f},
    {0, -3, -0.0f, 0, 0},
    {NAN, 1, NAN, NAN, NAN},
    {1e30f, 1e-10f, INFINITY, 3.899824907449556e-12f, 3.899824907449556e-12f},
    {0.3f, 0.1f, 3, 7.450580596923828e-09f, 7.450580596923828e-09f},
};

TEST(floor_div_and_remainder_follow_torch) {
    for (size_t i = 0; i < sizeof div_cases / sizeof *div_cases; i++) {
        const float *c = div_cases[i];
        double       x = (double)c[0], y = (double)c[1];
        CHECK(same32(td_m_floor_div_f32(c[0], c[1]), c[2]));
        CHECK(same32(td_m_remainder_f32(c[0], c[1]), c[3]));
        CHECK(same32(td_m_fmod_f32(c[0], c[1]), c[4]));
        CHECK(same64(td_m_remainder_f64(x, y), (double)c[3]));
        CHECK(same64(td_m_fmod_f64(x, y), (double)c[4]));
    }
    CHECK(td_m_floor_div_f64(-7.0, 2.0) == -4 && td_m_floor_div_f64(1, 0.1) == 9);
}

/* A float for number i: any bits, and every third time a small whole number. */
static float some_float(uint32_t i, uint32_t of) {
    uint32_t w[4];
    td_philox(7, (uint64_t)i * 2 + of, w);
    return i % 3 ? td_m_from_bits_f32(w[0]) : (float)((int)(w[0] % 2001) - 1000);
}

TEST(fmod_and_nextafter_are_exact) {
    for (uint32_t i = 0; i < points(); i++) {
        float x = some_float(i, 0), y = some_float(i, 1);
        CHECK(same32(td_m_fmod_f32(x, y), fmodf(x, y)));
        CHECK(same32(td_m_nextafter_f32(x, y), nextafterf(x, y)));
        CHECK(same64(td_m_nextafter_f64((double)x, (double)y),
                     nextafter((double)x, (double)y)));
    }
}

TEST(inverse_hyperbolic_functions_and_hypot_round_doubles) {
    for (uint32_t i = 0; i < points(); i++) {
        float x = some_float(i, 0), y = some_float(i, 1), u = x / 1000.0f;
        CHECK(ulps32(td_m_asinh_f32(x), asinh((double)x)) <= 0.51);
        CHECK(ulps32(td_m_acosh_f32(x), acosh((double)x)) <= 0.51);
        CHECK(ulps32(td_m_atanh_f32(u), atanh((double)u)) <= 0.51);
        CHECK(ulps32(td_m_hypot_f32(x, y), hypot((double)x, (double)y)) <= 0.51);
    }
    CHECK(td_m_hypot_f32(INFINITY, NAN) == INFINITY);
    CHECK(isnan(td_m_acosh_f32(0.5f)) && isnan(td_m_atanh_f32(1.5f)));
}

TEST(digamma_has_its_poles_and_known_values) {
    CHECK_NEAR(td_m_digamma_f64(1.0), -0.57721566490153286, 1e-15);
    CHECK_NEAR(td_m_digamma_f64(0.5), -1.9635100260214235, 1e-15);
    CHECK_NEAR(td_m_digamma_f64(-2.5), 1.1031566406452432, 1e-14);
    CHECK_NEAR(td_m_digamma_f64(1e6), 13.815510057964191, 1e-14);
    CHECK(td_m_digamma_f32(0.0f) == -INFINITY);
    CHECK(td_m_digamma_f32(-0.0f) == INFINITY);
    CHECK(isnan(td_m_digamma_f32(-3.0f)) && isnan(td_m_digamma_f32(-INFINITY)));
    CHECK(td_m_digamma_f32(INFINITY) == INFINITY);
    CHECK(td_m_lgamma_f32(-2.0f) == INFINITY);
}

/* ---- conversions --------------------------------------------------------- */

TEST(every_f16_and_bf16_survives_the_trip_through_f32) {
    for (uint32_t h = 0; h < 65536; h++) {
        uint16_t u = (uint16_t)h;
        float    x = td_m_f16_to_f32(u), b = td_m_bf16_to_f32(u);
        int      e = (int)(h >> 10 & 31);
        double   m = (double)(h & 1023u) + (e ? 1024 : 0);
        double   want = ldexp(m, (e ? e : 1) - 25) * (h >> 15 ? -1 : 1);
        if (e == 31) want = h & 1023u ? NAN : copysign(INFINITY, want);
        CHECK(same32(x, (float)want));
        CHECK(isnan(x) || td_m_f32_to_f16(x) == u);
        CHECK(isnan(b) || td_m_f32_to_bf16(b) == u);
    }
    CHECK(td_m_f32_to_f16(NAN) == 0x7e00 && isnan(td_m_f16_to_f32(0x7c01)));
    CHECK(td_m_f32_to_bf16(-NAN) == 0xffc0 || td_m_f32_to_bf16(-NAN) == 0x7fc0);
    CHECK(td_m_f32_to_bf16(td_m_from_bits_f32(0x7f800001u)) == 0x7fc0);
}

TEST(halves_round_to_nearest_even) {
    for (uint32_t i = 0; i < 4 * points(); i++) {
        /* Exponents around the f16 range; every other one on a tie. */
        uint32_t u = (word(i) & 0x8fffffffu) | 0x30000000u;
        float    x = td_m_from_bits_f32(i & 1 ? u : (u & ~0xfffu));
        double   a = fabs((double)x);
        int      e = ilogb(a) < -14 ? -14 : ilogb(a);
        double   want = ldexp(rint(ldexp(a, 10 - e)), e - 10);
        if (want > 65504) want = INFINITY;
        CHECK(same32(td_m_f16_to_f32(td_m_f32_to_f16(x)), copysignf((float)want, x)));
        e = ilogb(a);
        want = ldexp(rint(ldexp(a, 7 - e)), e - 7);
        CHECK(same32(td_m_bf16_to_f32(td_m_f32_to_bf16(x)), copysignf((float)want, x)));
    }
    CHECK(td_m_f32_to_bf16(FLT_MAX) == 0x7f80 && td_m_f32_to_f16(1e9f) == 0x7c00);
}

TEST(floats_become_integers_without_undefined_behaviour) {
    CHECK(td_m_f64_to_i64(-1.9) == -1 && td_m_f64_to_i64(0x1p62) == INT64_C(1) << 62);
    CHECK(td_m_f64_to_i64(NAN) == INT64_MIN && td_m_f64_to_i64(1e300) == INT64_MIN);
    CHECK(td_m_f64_to_i32(2147483647.9) == INT32_MAX);
    CHECK(td_m_f64_to_i32(-2147483648.9) == INT32_MIN);
    CHECK(td_m_f32_to_i32(INFINITY) == INT32_MIN && td_m_f32_to_i32(-7.7f) == -7);
    CHECK(td_m_f32_to_i64(3e9f) == 3000000000);
    CHECK(td_m_f32_to_u8(300.0f) == 44 && td_m_f32_to_u8(-1.0f) == 255);
    CHECK(td_m_f32_to_i8(-129.0f) == 127 && td_m_f32_to_i16(70000.0f) == 4464);
    CHECK(td_m_f64_to_u8(NAN) == 0 && td_m_f64_to_i16(-1.0) == -1);
}

/* ---- random numbers ------------------------------------------------------ */

TEST(philox_gives_the_random123_known_answers) {
    static const uint32_t kat[3][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
         0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    uint32_t out[4];
    for (int i = 0; i < 3; i++) {
        td_philox_block(kat[i], kat[i] + 4, out);
        CHECK(memcmp(out, kat[i] + 6, sizeof out) == 0);
    }
    td_philox(0, 0, out);
    CHECK(out[0] == 0x6627e8d5);
}

TEST(uniforms_fill_the_half_open_interval) {
    CHECK(td_uniform_f32(0) == 0 && td_uniform_f32(~0u) == 1 - 0x1p-24f);
    CHECK(td_uniform_f64(0, 0) == 0 && td_uniform_f64(~0u, ~0u) == 1 - 0x1p-53);
}

TEST(normals_have_the_moments_of_a_normal) {
    double s1[2] = {0, 0}, s2[2] = {0, 0}, s4[2] = {0, 0}, cross[2] = {0, 0};
    int    n = 50000;
    for (int i = 0; i < n; i++) {
        uint32_t w[4];
        float    f[2];
        double   d[2][2];
        td_philox(7, (uint64_t)i, w);
        td_normal_f32(w[0], w[1], f);
        td_normal_f64(w, d[1]);
        d[0][0] = (double)f[0], d[0][1] = (double)f[1];
        for (int k = 0; k < 2; k++) {
            double a = d[k][0], b = d[k][1];
            s1[k] += a + b, s2[k] += a * a + b * b, cross[k] += a * b;
            s4[k] += a * a * a * a + b * b * b * b;
        }
    }
    for (int k = 0; k < 2; k++) {
        CHECK_NEAR(s1[k] / (2 * n), 0, 0.02);
        CHECK_NEAR(s2[k] / (2 * n), 1, 0.02);
        CHECK_NEAR(s4[k] / (2 * n), 3, 0.15);
        CHECK_NEAR(cross[k] / n, 0, 0.02);
    }
    float ends[2];
    td_normal_f32(0, 0, ends);
    CHECK(ends[0] > 6.6f && isfinite(ends[0]));
    td_normal_f32(~0u, ~0u, ends);
    CHECK(isfinite(ends[0]) && isfinite(ends[1]));
}
