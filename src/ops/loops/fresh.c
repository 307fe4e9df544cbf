/* fresh.c -- the loops of fresh.h, at one CPU level. Philox runs on several
 * counters side by side; the rest is one expression per element. */
#include "ops/fresh.h"
#include "ops/draw.h"
#include "ops/loops/loops.h"

#include <string.h>

enum { LANES = 16 };

/* LANES blocks at once, word by word in arrays. */
static void blocks(uint64_t seed, uint64_t first, uint32_t *out) {
    uint32_t a[LANES], b[LANES], c[LANES] = {0}, d[LANES] = {0};
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < LANES; i++) {
        a[i] = (uint32_t)(first + (uint64_t)i);
        b[i] = (uint32_t)((first + (uint64_t)i) >> 32);
    }
    for (int r = 0; r < 10; r++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            uint64_t p = (uint64_t)0xd2511f53u * a[i], q = (uint64_t)0xcd9e8d57u * c[i];
            a[i] = (uint32_t)(q >> 32) ^ b[i] ^ k0;
            b[i] = (uint32_t)q;
            c[i] = (uint32_t)(p >> 32) ^ d[i] ^ k1;
            d[i] = (uint32_t)p;
        }
    }
    for (int i = 0; i < LANES; i++) {
        out[4 * i] = a[i];
        out[4 * i + 1] = b[i];
        out[4 * i + 2] = c[i];
        out[4 * i + 3] = d[i];
    }
}

static void words(uint64_t seed, uint64_t first, int64_t n, uint32_t *out) {
    uint32_t rest[4 * LANES];
    int64_t  i = 0;
    for (; i + LANES <= n; i += LANES) blocks(seed, first + (uint64_t)i, out + 4 * i);
    if (i == n) return;
    blocks(seed, first + (uint64_t)i, rest);
    memcpy(out + 4 * i, rest, sizeof *rest * 4 * (size_t)(n - i));
}

static void uniform_f32(const uint32_t *w, int64_t n, float from, float width,
                        float *out) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = td_uniform_f32(w[i]) * width + from;
}

/* td_normal_f32 on LANES pairs, a loop for each step so that all vectorize. */
static void normal_pairs(const uint32_t *u, const uint32_t *v, float *first,
                         float *second) {
    float r[LANES], a[LANES];
#pragma omp simd
    for (int k = 0; k < LANES; k++) r[k] = td_normal_radius_f32(u[k]);
#pragma omp simd
    for (int k = 0; k < LANES; k++) a[k] = td_normal_angle_f32(v[k]);
#pragma omp simd
    for (int k = 0; k < LANES; k++) first[k] = r[k] * td_m_cos_f32(a[k]);
#pragma omp simd
    for (int k = 0; k < LANES; k++) second[k] = r[k] * td_m_sin_f32(a[k]);
}

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
        normal_pairs(u, v, first, second);
        for (int64_t k = 0; k < m; k++) {
            out[i + 2 * k] = first[k] * std + mean;
            out[i + 2 * k + 1] = second[k] * std + mean;
        }
    }
}

/* td_draw_bernoulli on integers: w / 2^32 < p is w < p * 2^32, and a whole number
 * is below a bound when it is below the bound rounded up. */
static void coins(const uint32_t *w, int64_t n, double p, uint8_t *out) {
    uint64_t bound = (uint64_t)__builtin_ceil(p * 0x1p32);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) out[i] = w[i] < bound;
}

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

extern const td_fresh_loops TD_ISA_NAME(td__fresh);
const td_fresh_loops        TD_ISA_NAME(td__fresh) = {
           words, uniform_f32, normal_f32, coins, range_f32, range_f64,
};
