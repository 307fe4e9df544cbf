/* kernels/loops/quantized.h -- the loops of products with weights of 8 and 4 bits. */
#ifndef TD_QUANTIZED_LOOPS_H
#define TD_QUANTIZED_LOOPS_H

#include <stdint.h>

/* Rows of x that one pass over the weights serves, and rows of a packed block. */
enum { TD_QUANT_ROWS = 4, TD_QUANT_BLOCK = 64 };

/* dot[r] = sum over k of x[r*step + k] * w[k], for r < rows <= TD_QUANT_ROWS. */
typedef void td_dot_i8_fn(int rows, int64_t k, const float *x, int64_t step,
                          const int8_t *w, float *dot);

/* A block of 64 rows of packed 4-bit weights: byte j of the 32 for each k has row j
 * low and row j + 32 high. scale has scale and zero of each row, one group after the
 * other, `scale_step` floats apart. */
typedef struct td_int4_block {
    const uint8_t *packed; /* [k][32] */
    const float   *scale;  /* [k / group][64][2] */
    int64_t        scale_step, k, group;
} td_int4_block;
/* out[r*out_step + j] = the product of row r of x and row j of the block. */
typedef void td_dot_i4_fn(int rows, const float *x, int64_t step,
                          const td_int4_block *w, float *out, int64_t out_step);

typedef struct td_quant_loops {
    td_dot_i8_fn *dot_i8;
    td_dot_i4_fn *dot_i4;
} td_quant_loops;

#endif
