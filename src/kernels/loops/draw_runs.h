/* draw_runs.h -- many elements of a draw at once: for eager's loops (fill_loops.c), and
 * for emitted ones, into which the text is pasted after draw.h. What an element becomes
 * is draw.h's matter; here blocks are made side by side. */
#ifndef TD_OPS_DRAW_RUNS_H
#define TD_OPS_DRAW_RUNS_H

#include "kernels/draw.h"

/* The words of 16 blocks from `first` on, side by side. */
TD_M void td_philox_16(uint64_t seed, uint64_t first, uint32_t out[64]) {
    uint32_t a[16], b[16], c[16] = {0}, d[16] = {0};
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < 16; i++) {
        a[i] = (uint32_t)(first + (uint64_t)i);
        b[i] = (uint32_t)((first + (uint64_t)i) >> 32);
    }
    for (int r = 0; r < 10; r++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
#pragma omp simd
        for (int i = 0; i < 16; i++) {
            uint64_t p = (uint64_t)0xd2511f53u * a[i], q = (uint64_t)0xcd9e8d57u * c[i];
            a[i] = (uint32_t)(q >> 32) ^ b[i] ^ k0;
            b[i] = (uint32_t)q;
            c[i] = (uint32_t)(p >> 32) ^ d[i] ^ k1;
            d[i] = (uint32_t)p;
        }
    }
    for (int i = 0; i < 16; i++) {
        out[4 * i] = a[i];
        out[4 * i + 1] = b[i];
        out[4 * i + 2] = c[i];
        out[4 * i + 3] = d[i];
    }
}

/* td_normal_f32 on 16 pairs, a loop for each step so that all vectorize. */
TD_M void td_normal_16(const uint32_t *u, const uint32_t *v, float *first,
                       float *second) {
    float r[16], a[16];
#pragma omp simd
    for (int k = 0; k < 16; k++) r[k] = td_normal_radius_f32(u[k]);
#pragma omp simd
    for (int k = 0; k < 16; k++) a[k] = td_normal_angle_f32(v[k]);
#pragma omp simd
    for (int k = 0; k < 16; k++) first[k] = r[k] * td_m_cos_f32(a[k]);
#pragma omp simd
    for (int k = 0; k < 16; k++) second[k] = r[k] * td_m_sin_f32(a[k]);
}

/* The words of up to 16 blocks. */
TD_M void td_draw_words(uint64_t seed, uint64_t first, int64_t n, uint32_t w[64]) {
    if (n > 3) td_philox_16(seed, first, w);
    else
        for (int64_t i = 0; i < n; i++) td_philox(seed, first + (uint64_t)i, w + 4 * i);
}

/* How many of n elements from `place` on lie in the 16 blocks that begin with its
 * own, and their words. `per` elements share a block, a power of two. */
TD_M int64_t td_draw_some(const uint64_t key[2], int64_t place, int64_t n, int64_t per,
                          uint32_t w[64]) {
    int64_t skip = place & (per - 1), most = 16 * per - skip;
    int64_t m = n < most ? n : most;
    td_draw_words(key[0], key[1] + (uint64_t)(place / per), (skip + m + per - 1) / per,
                  w);
    return m;
}

/* Elements [place, place + n) of a draw: key is its seed and offset. */
TD_M_RUN void td_draw_uniform_f32(const uint64_t key[2], int64_t place, int64_t n,
                                  float *out) {
    uint32_t w[64];
    for (int64_t m; n > 0; n -= m, place += m, out += m) {
        m = td_draw_some(key, place, n, 4, w);
        const uint32_t *x = w + (place & 3);
#pragma omp simd
        for (int64_t i = 0; i < m; i++) out[i] = td_uniform_f32(x[i]);
    }
}

/* On the grid of f16: an f32 in [0, 1) could round up to 1. */
TD_M_RUN void td_draw_uniform_f16(const uint64_t key[2], int64_t place, int64_t n,
                                  float *out) {
    uint32_t w[64];
    for (int64_t m; n > 0; n -= m, place += m, out += m) {
        m = td_draw_some(key, place, n, 4, w);
        const uint32_t *x = w + (place & 3);
#pragma omp simd
        for (int64_t i = 0; i < m; i++) out[i] = td_uniform_f16(x[i]);
    }
}

TD_M_RUN void td_draw_uniform_bf16(const uint64_t key[2], int64_t place, int64_t n,
                                   float *out) {
    uint32_t w[64];
    for (int64_t m; n > 0; n -= m, place += m, out += m) {
        m = td_draw_some(key, place, n, 4, w);
        const uint32_t *x = w + (place & 3);
#pragma omp simd
        for (int64_t i = 0; i < m; i++) out[i] = td_uniform_bf16(x[i]);
    }
}

/* Two words an element. */
TD_M_RUN void td_draw_uniform_f64(const uint64_t key[2], int64_t place, int64_t n,
                                  double *out) {
    uint32_t w[64];
    for (int64_t m; n > 0; n -= m, place += m, out += m) {
        m = td_draw_some(key, place, n, 2, w);
        const uint32_t *x = w + 2 * (place & 1);
        for (int64_t i = 0; i < m; i++) out[i] = td_uniform_f64(x[2 * i], x[2 * i + 1]);
    }
}

/* Adding 0 makes -0 a 0, as a mean of 0 does. */
TD_M_RUN void td_draw_normal_f32(const uint64_t key[2], int64_t place, int64_t n,
                                 float *out) {
    uint32_t w[64] = {0}, u[32], v[32];
    float    cosine[32], sine[32], all[64];
    for (int64_t m; n > 0; n -= m, place += m, out += m) {
        m = td_draw_some(key, place, n, 4, w);
        for (int k = 0; k < 32; k++) u[k] = w[2 * k], v[k] = w[2 * k + 1];
        td_normal_16(u, v, cosine, sine);
        if ((place & 3) + m > 32) td_normal_16(u + 16, v + 16, cosine + 16, sine + 16);
        for (int k = 0; k < 32; k++) {
            all[2 * k] = cosine[k] + 0.0f;
            all[2 * k + 1] = sine[k] + 0.0f;
        }
        for (int64_t i = 0; i < m; i++) out[i] = all[(place & 3) + i];
    }
}

/* A block makes two elements; a range may begin with the second one of a block. */
TD_M_RUN void td_draw_normal_f64(const uint64_t key[2], int64_t place, int64_t n,
                                 double *out) {
    uint32_t w[64];
    double   pair[2];
    for (int64_t m; n > 0; n -= m, place += m, out += m) {
        m = td_draw_some(key, place, n, 2, w);
        for (int64_t i = 0; i < m; i++) {
            td_normal_f64(w + 4 * (((place & 1) + i) / 2), pair);
            out[i] = pair[(place + i) & 1] + 0.0;
        }
    }
}

/* A word below p * 2^32; exact for p = 0 and p = 1. */
TD_M_RUN void td_draw_coins(const uint64_t key[2], int64_t place, int64_t n, double p,
                            int32_t *out) {
    uint64_t bound = (uint64_t)__builtin_ceil(p * 0x1p32);
    uint32_t w[64];
    for (int64_t m; n > 0; n -= m, place += m, out += m) {
        m = td_draw_some(key, place, n, 4, w);
        const uint32_t *x = w + (place & 3);
#pragma omp simd
        for (int64_t i = 0; i < m; i++) out[i] = x[i] < bound;
    }
}

#endif
