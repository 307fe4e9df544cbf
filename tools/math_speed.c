/* math_speed.c: elements per nanosecond of every function of kernels/math.h over
 * 64 K elements in cache, f32 then f64. How to build it: docs/numerics.md. */
#define _POSIX_C_SOURCE 199309L
#include "kernels/math.h"
#include "kernels/math_special.h"

#include <stdio.h>
#include <time.h>

enum { N = 65536, ROUNDS = 12 };

/* Visible outside, so that the results count as used. */
float  xf[N], yf[N], of[N];
double xd[N], yd[N], od[N];

/* clang-format off */
#define ONE(X)                                                            \
    X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(log1pexp)  \
    X(sqrt) X(rsqrt) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) \
    X(cosh) X(tanh) X(sigmoid) X(erf) X(erfc) X(ndtr) X(floor) X(ceil)    \
    X(round) X(trunc) X(abs) X(sign) X(lgamma) X(digamma)
#define TWO(X) \
    X(pow) X(atan2) X(fmod) X(remainder) X(floor_div) X(max) X(min)
/* clang-format on */

#define LOOP(type, out, call)                                          \
    static void type(void) {                                           \
        _Pragma("omp simd") for (int i = 0; i < N; i++) out[i] = call; \
    }
#define LOOP1(n)                             \
    LOOP(n##_f32, of, td_m_##n##_f32(xf[i])) \
    LOOP(n##_f64, od, td_m_##n##_f64(xd[i]))
#define LOOP2(n)                                    \
    LOOP(n##_f32, of, td_m_##n##_f32(xf[i], yf[i])) \
    LOOP(n##_f64, od, td_m_##n##_f64(xd[i], yd[i]))
ONE(LOOP1)
TWO(LOOP2)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double rate(void (*loop)(void)) {
    double best = 1e30;
    for (int r = 0; r < ROUNDS; r++) {
        double t = now();
        loop();
        t = now() - t;
        best = t < best ? t : best;
    }
    return N / best;
}

#define ENTRY(n) {#n, n##_f32, n##_f64},
static const struct {
    const char *name;
    void (*f32)(void);
    void (*f64)(void);
} table[] = {ONE(ENTRY) TWO(ENTRY)};

int main(void) {
    for (int i = 0; i < N; i++) {
        double u = (double)((uint32_t)i * 2654435761u) * 0x1p-32;
        xd[i] = 0.01 + 0.98 * u;
        yd[i] = 7.0 * u - 3.0;
        xf[i] = (float)xd[i];
        yf[i] = (float)yd[i];
    }
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        printf("%-10s %6.2f %6.2f\n", table[i].name, rate(table[i].f32),
               rate(table[i].f64));
    return 0;
}
