/* fill_loops.c -- the loops of fill_loops.h, at one CPU level. Philox runs on several
 * counters side by side; the rest is one expression per element. */
#include "kernels/fill_loops.h"
#include "kernels/loops/draw_runs.h"
#include "kernels/loops/loops.h"

#include <string.h>

enum { LANES = 16 };

/* Sixteen blocks side by side; the last few are computed in full and cut. */
static void words(uint64_t seed, uint64_t first, int64_t n, uint32_t *out) {
    uint32_t rest[4 * LANES];
    int64_t  i = 0;
    for (; i + LANES <= n; i += LANES)
        td_philox_16(seed, first + (uint64_t)i, out + 4 * i);
    if (i == n) return;
    td_philox_16(seed, first + (uint64_t)i, rest);
    memcpy(out + 4 * i, rest, sizeof *rest * 4 * (size_t)(n - i));
}

static void uniform_f32(const uint32_t *w, int64_t n, float from, float width,
                        float *out) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = td_uniform_f32(w[i]) * width + from;
}

/* Pairs of words make pairs of elements; sixteen pairs at a time, so that each step
 * vectorizes. */
static void normal_f32(const uint32_t *w, int64_t n, float mean, float std,
                       float *out) {
    float    first[LANES], second[LANES];
    uint32_t u[LANES] = {0}, v[LANES] = {0};
    for (int64_t i = 0; i < n; i += 2 * LANES) {
        int64_t m = (n - i < 2 * LANES ? n - i : 2 * LANES) / 2;
        for (int64_t k = 0; k < m; k++) {
            u[k] = w[i + 2 * k];
            v[k] = w[i + 2 * k + 1];
        }
        td_normal_16(u, v, first, second);
        for (int64_t k = 0; k < m; k++) {
            out[i + 2 * k] = first[k] * std + mean;
            out[i + 2 * k + 1] = second[k] * std + mean;
        }
    }
}

static void normal_f64(const uint32_t *w, int64_t n, double mean, double std,
                       double *out) {
    for (int64_t i = 0; i < n; i += 2) {
        td_normal_f64(w + 2 * i, out + i);
        for (int k = 0; k < 2; k++) out[i + k] = out[i + k] * std + mean;
    }
}

/* td_draw_bernoulli on integers: w / 2^32 < p is w < p * 2^32, and a whole number
 * is below a bound when it is below the bound rounded up. */
static void coins(const uint32_t *w, int64_t n, double p, uint8_t *out) {
    uint64_t bound = (uint64_t)__builtin_ceil(p * 0x1p32);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = w[i] < bound;
}

/* As PyTorch rounds: the first lane of a vector in double, then to float, and the other
 * lanes from it. */
static void range_f32(const td_range *r, int64_t begin, int64_t end, float *out) {
    for (int64_t i = begin; i < end; i++) {
        int64_t v = td__range_vector(r, i, 8);
        float   base = (float)__builtin_fma(r->step, (double)v, r->start);
        out[i] = (float)__builtin_fma(r->step, (double)(i - v), (double)base);
    }
}

static void range_f64(const td_range *r, int64_t begin, int64_t end, double *out) {
    for (int64_t i = begin; i < end; i++) {
        int64_t v = td__range_vector(r, i, 4);
        double  base = __builtin_fma(r->step, (double)v, r->start);
        out[i] = __builtin_fma(r->step, (double)(i - v), base);
    }
}

static void line_f32(float from, float step, int64_t first, int64_t n, float *out) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = __builtin_fmaf(step, (float)(first + i), from);
}

extern const td_fresh_loops TD_ISA_NAME(td__fresh);
const td_fresh_loops        TD_ISA_NAME(td__fresh) = {
           .words = words,
           .uniform_f32 = uniform_f32,
           .normal_f32 = normal_f32,
           .normal_f64 = normal_f64,
           .coins = coins,
           .range_f32 = range_f32,
           .range_f64 = range_f64,
           .line_f32 = line_f32,
};
