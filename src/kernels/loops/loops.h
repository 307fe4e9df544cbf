/* kernels/loops/loops.h -- what the vector loops and their callers share.
 *
 * Every .c file beside this one is compiled once per CPU level with TD_ISA set to
 * the level's name, and exports tables whose names end in it; isa.c picks a level
 * when the process first computes. The loops know one dimension and one type:
 * strides, threads and mixed dtypes are iter.c's matter. */
#ifndef TD_LOOPS_H
#define TD_LOOPS_H

#include "kernels/loops/fft.h"
#include "kernels/loops/quantized.h"
#include "ops/compute.h"
#include "ops/ops.h"

/* An op's number arguments in schema order, as both kinds. */
typedef struct td_scalars {
    double  f[TD_LOOP_SCALARS];
    int64_t i[TD_LOOP_SCALARS];
} td_scalars;

/* out[i] = expr(in[0][i], in[1][i], ...) for i < n. `out` may be one of `in`. */
typedef void td_loop_fn(int64_t n, void *out, const void *const *in,
                        const td_scalars *p);

/* Converts n elements; steps are in bytes, a source step of 0 repeats. */
typedef void td_convert_fn(int64_t n, char *dst, int64_t dst_step, const char *src,
                           int64_t src_step);

/* dst[r][j] = src[j][r]: `rows` rows of `cols` elements. Rows of dst are dst_step
 * bytes apart, those of src src_step. */
typedef struct td_block {
    char       *dst;
    const char *src;
    int64_t     dst_step, src_step;
    int         bytes; /* of an element */
} td_block;
typedef void td_transpose_fn(int64_t rows, int64_t cols, td_block b);

/* One tap of a row of windows of a plane x: window i in [from,to) looks at element
 * at + i * step, and takes it, and its place, if it is more than most[i] or NaN. */
typedef struct td_tap {
    int64_t at, step, from, to;
} td_tap;
typedef void td_tap_fn(const void *x, td_tap t, void *most, int64_t *best);

/* One CPU level. */
typedef struct td_isa {
    const char        *name;
    td_loop_fn *const *loops[TD_COMPUTE_COUNT];      /* [type][op]; NULL: not defined */
    td_convert_fn *const (*convert)[TD_DTYPE_COUNT]; /* [from][to] */
    td_transpose_fn      *transpose;
    td_tap_fn *const     *max_tap; /* f32, f64, i64 */
    const td_fft_loops   *fft;     /* f32, f64 */
    const td_quant_loops *quant;
} td_isa;

/* The loops of the level in use (td__cpu_level). */
const td_isa *td__isa(void);

#define TD_ISA_PASTE2(name, isa) name##_##isa
#define TD_ISA_PASTE(name, isa) TD_ISA_PASTE2(name, isa)
#define TD_ISA_NAME(name) TD_ISA_PASTE(name, TD_ISA)

/* What each level exports. */
#define TD_ISA_DECLARE(isa)                                                        \
    extern td_loop_fn *const    td__loops_f32_##isa[TD_OP_COUNT];                  \
    extern td_loop_fn *const    td__loops_f64_##isa[TD_OP_COUNT];                  \
    extern td_loop_fn *const    td__loops_i32_##isa[TD_OP_COUNT];                  \
    extern td_loop_fn *const    td__loops_i64_##isa[TD_OP_COUNT];                  \
    extern td_loop_fn *const    td__loops_c64_##isa[TD_OP_COUNT];                  \
    extern td_loop_fn *const    td__loops_c128_##isa[TD_OP_COUNT];                 \
    extern td_convert_fn *const td__convert_##isa[TD_DTYPE_COUNT][TD_DTYPE_COUNT]; \
    extern td_tap_fn *const     td__max_tap_##isa[3];                              \
    extern const td_fft_loops   td__fft_##isa[2];                                  \
    extern const td_quant_loops td__quant_##isa;                                   \
    td_transpose_fn             td__transpose_##isa

TD_ISA_DECLARE(base);
#ifdef __x86_64__
TD_ISA_DECLARE(avx2);
TD_ISA_DECLARE(avx512);
#endif

#endif
