/* quantized.c -- products of a few rows with weights of 8 and 4 bits. A weight is
 * widened to f32 in a register and used for up to four rows of x. */
#include "kernels/loops/quantized.h"
#include "kernels/loops/loops.h"

#include <string.h>

/* As many on every CPU level, so that sums have one order: where registers are
 * narrower, a vector is several. All functions with vectors are inlined. */
#define LANES 16
#pragma GCC diagnostic ignored "-Wpsabi"

typedef float   vec __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t whole __attribute__((vector_size(LANES * sizeof(int32_t))));
typedef uint8_t byte __attribute__((vector_size(LANES)));
#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const float *p) {
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* By way of unsigned bytes: gcc widens signed ones one at a time. */
INLINE vec widen(const int8_t *p) {
    byte b;
    memcpy(&b, p, sizeof b);
    whole w = __builtin_convertvector(b ^ 128, whole);
    return __builtin_convertvector(w - 128, vec);
}

INLINE float total(vec v) {
    float s = 0;
    for (int i = 0; i < LANES; i++) s += v[i];
    return s;
}

/* ---- eight bits ---------------------------------------------------------- */

/* Two sums for each row, so that additions overlap. */
INLINE void dot_i8(int rows, int64_t k, const float *x, int64_t step, const int8_t *w,
                   float *dot) {
    vec     a[TD_QUANT_ROWS] = {0}, b[TD_QUANT_ROWS] = {0};
    int64_t i = 0;
    for (; i + 2 * LANES <= k; i += 2 * LANES) {
        vec u = widen(w + i), v = widen(w + i + LANES);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            a[r] += u * load(x + r * step + i);
            b[r] += v * load(x + r * step + i + LANES);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) {
        dot[r] = total(a[r] + b[r]);
        for (int64_t j = i; j < k; j++) dot[r] += x[r * step + j] * (float)w[j];
    }
}

static void any_dot_i8(int rows, int64_t k, const float *x, int64_t step,
                       const int8_t *w, float *dot) {
    switch (rows) {
    case 1: dot_i8(1, k, x, step, w, dot); break;
    case 2: dot_i8(2, k, x, step, w, dot); break;
    case 3: dot_i8(3, k, x, step, w, dot); break;
    default: dot_i8(4, k, x, step, w, dot); break;
    }
}

/* ---- four bits ----------------------------------------------------------- */

enum { HALF = TD_QUANT_BLOCK / 2, PARTS = HALF / LANES };

INLINE vec nibble(byte b) {
    return __builtin_convertvector(__builtin_convertvector(b, whole), vec);
}

/* Adds scale * (sum of x * q - 8 * sum of x) + zero * sum of x of one group. */
INLINE void add_group(const float *scale, const float *sum, float all, float *out) {
    for (int j = 0; j < TD_QUANT_BLOCK; j++)
        out[j] += scale[2 * j] * (sum[j] - 8 * all) + scale[2 * j + 1] * all;
}

/* What one group of a row of x adds up: x * q of each row of the block, and x. */
typedef struct sums {
    float of[TD_QUANT_BLOCK], x;
} sums;

/* The sums of one group, for each row of x. */
INLINE void sum_group(int rows, int64_t n, const float *x, int64_t step,
                      const uint8_t *p, sums *to) {
    for (int part = 0; part < PARTS; part++) {
        vec low[TD_QUANT_ROWS] = {0}, high[TD_QUANT_ROWS] = {0};
        for (int64_t k = 0; k < n; k++) {
            byte b;
            memcpy(&b, p + k * HALF + part * LANES, sizeof b);
            vec l = nibble(b & 15), h = nibble(b >> 4);
            for (int r = 0; r < rows; r++) {
                low[r] += l * x[r * step + k];
                high[r] += h * x[r * step + k];
            }
        }
        for (int r = 0; r < rows; r++) {
            memcpy(&to[r].of[part * LANES], &low[r], sizeof low[r]);
            memcpy(&to[r].of[HALF + part * LANES], &high[r], sizeof high[r]);
        }
    }
    for (int r = 0; r < rows; r++) {
        to[r].x = 0;
        for (int64_t k = 0; k < n; k++) to[r].x += x[r * step + k];
    }
}

INLINE void dot_i4(int rows, const float *x, int64_t step, const td_int4_block *w,
                   float *out, int64_t out_step) {
    sums sum[TD_QUANT_ROWS];
    for (int r = 0; r < rows; r++)
        memset(out + r * out_step, 0, TD_QUANT_BLOCK * sizeof *out);
    const float *scale = w->scale;
    for (int64_t k = 0; k < w->k; k += w->group, scale += w->scale_step) {
        int64_t n = w->k - k < w->group ? w->k - k : w->group;
        sum_group(rows, n, x + k, step, w->packed + k * HALF, sum);
        for (int r = 0; r < rows; r++)
            add_group(scale, sum[r].of, sum[r].x, out + r * out_step);
    }
}

static void any_dot_i4(int rows, const float *x, int64_t step, const td_int4_block *w,
                       float *out, int64_t out_step) {
    switch (rows) {
    case 1: dot_i4(1, x, step, w, out, out_step); break;
    case 2: dot_i4(2, x, step, w, out, out_step); break;
    case 3: dot_i4(3, x, step, w, out, out_step); break;
    default: dot_i4(4, x, step, w, out, out_step); break;
    }
}

const td_quant_loops TD_ISA_NAME(td__quant) = {any_dot_i8, any_dot_i4};
