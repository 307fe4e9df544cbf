/* reduce_loops.c -- fills the table of reduce_loops.h for one CPU level.
 * Compiled once per level with TD_ISA naming it; the loops themselves are in the
 * two headers included per accumulator type. */
#include "kernels/math.h"
#include "kernels/reduce_loops.h"

#if defined(__F16C__) || defined(__AVX512F__)
#include <immintrin.h>
#endif
#include <math.h>
#include <string.h>

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

/* One 64-byte vector per type; compilers split it where the machine's are
 * shorter. Loads and stores go through memcpy: nothing is assumed aligned. */
typedef float   vec_f32 __attribute__((vector_size(64)));
typedef int32_t bits_f32 __attribute__((vector_size(64)));
typedef double  vec_f64 __attribute__((vector_size(64)));
typedef int64_t bits_f64 __attribute__((vector_size(64)));
typedef int64_t vec_i64 __attribute__((vector_size(64)));
typedef int64_t bits_i64 __attribute__((vector_size(64)));

#define T float
#define K f32
#define IS_FLOAT 1
#define FN_EXP td_m_exp_f32
#define FN_LOG td_m_log_f32
#define FN_POW td_m_pow_f32
#define LOWEST (-INFINITY)
#define HIGHEST INFINITY
#ifdef __AVX512F__
#define MAX_VEC(x, a) (V) _mm512_max_ps((__m512)(x), (__m512)(a))
#define MIN_VEC(x, a) (V) _mm512_min_ps((__m512)(x), (__m512)(a))
#endif
#include "kernels/loops/reduce.inc"
#include "kernels/loops/norm.inc"
#include "kernels/loops/attend.inc"
#undef T
#undef K
#undef FN_EXP
#undef FN_LOG
#undef FN_POW

#define T double
#define K f64
#define FN_EXP td_m_exp_f64
#define FN_LOG td_m_log_f64
#define FN_POW td_m_pow_f64
#ifdef __AVX512F__
#undef MAX_VEC
#undef MIN_VEC
#define MAX_VEC(x, a) (V) _mm512_max_pd((__m512d)(x), (__m512d)(a))
#define MIN_VEC(x, a) (V) _mm512_min_pd((__m512d)(x), (__m512d)(a))
#endif
#include "kernels/loops/reduce.inc"
#include "kernels/loops/norm.inc"
#include "kernels/loops/attend.inc"
#undef T
#undef K
#undef MAX_VEC
#undef MIN_VEC
#undef IS_FLOAT
#undef LOWEST
#undef HIGHEST

#define T int64_t
#define K i64
#define IS_FLOAT 0
#define LOWEST INT64_MIN
#define HIGHEST INT64_MAX
#include "kernels/loops/reduce.inc"

/* Dense f16 by the machine's own conversions, eight at a time: compilers do not
 * find them in the bit arithmetic. Halves are 3 to 4 times as fast with it. */
#ifdef __F16C__
static void load_half_f32(const void *p, int64_t stride, int64_t n, void *out) {
    const uint16_t *s = p;
    float          *d = out;
    int64_t         i = 0;
    for (; stride == 1 && i + 8 <= n; i += 8)
        _mm256_storeu_ps(d + i,
                         _mm256_cvtph_ps(_mm_loadu_si128((const void *)(s + i))));
    load_f16_f32(s + i * stride, stride, n - i, d + i);
}

/* Rounds to nearest even, as the bit arithmetic does. */
static void store_half_f32(const void *acc, int64_t n, void *out) {
    const float *a = acc;
    uint16_t    *d = out;
    int64_t      i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((void *)(d + i), _mm256_cvtps_ph(_mm256_loadu_ps(a + i), 0));
    store_f16_f32(a + i, n - i, d + i);
}
#define HALF(f, k) f##_half_##k
#else
#define HALF(f, k) f##_f16_##k
#endif

/* Rows of the table for the type named k; h is how it reads and writes f16. */
#define LOADS(k, h)                                                               \
    {                                                                             \
        load_f64_##k, load_f32_##k, h, load_bf16_##k, load_i64_##k, load_i32_##k, \
            load_i16_##k, load_i8_##k, load_u8_##k, load_truth_##k                \
    }
#define STORES(k, h)                                                                   \
    {                                                                                  \
        store_f64_##k, store_f32_##k, h, store_bf16_##k, store_i64_##k, store_i32_##k, \
            store_i16_##k, store_i8_##k, store_u8_##k, store_truth_##k                 \
    }
#define FLOATS(k)                                                                      \
    {                                                                                  \
        square_dev_##k, exp_row_##k, exp_cols_##k, scale_##k, shift_##k,               \
            log_softmax_##k, divide_##k, dot_row_##k, dot_cols_##k, softmax_grad_##k,  \
            log_softmax_grad_##k, moments_##k, affine_row_##k, affine_plane_##k,       \
            affine_cols_##k, norm_grad_stats_##k, norm_grad_row_##k,                   \
            norm_grad_cols_##k, norm_grad_weight_##k, attend_add_##k, attend_hide_##k, \
            attend_##k, attend_end_##k, attend_grad_##k                                \
    }

extern const td_reduce_loops PASTE(td__reduce_loops_, TD_ISA);
const td_reduce_loops        PASTE(td__reduce_loops_, TD_ISA) = {
           .load = {LOADS(f32, HALF(load, f32)), LOADS(f64, load_f16_f64),
                    LOADS(i64, load_f16_i64)},
           .store = {STORES(f32, HALF(store, f32)), STORES(f64, store_f16_f64),
                     STORES(i64, store_f16_i64)},
           .row = {{row_sum_f32, row_prod_f32, row_max_f32, row_min_f32},
                   {row_sum_f64, row_prod_f64, row_max_f64, row_min_f64},
                   {row_sum_i64, row_prod_i64, row_max_i64, row_min_i64}},
           .col = {{col_sum_f32, col_prod_f32, col_max_f32, col_min_f32},
                   {col_sum_f64, col_prod_f64, col_max_f64, col_min_f64},
                   {col_sum_i64, col_prod_i64, col_max_i64, col_min_i64}},
           .map = {{NULL, map_abs_f32, map_square_f32, map_nonzero_f32, map_nan0_f32,
                    map_pow_f32},
                   {NULL, map_abs_f64, map_square_f64, map_nonzero_f64, map_nan0_f64,
                    map_pow_f64},
                   {NULL, NULL, NULL, map_nonzero_i64, NULL, NULL}},
           .f = {FLOATS(f32), FLOATS(f64)},
};
