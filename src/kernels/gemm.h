/* kernels/gemm.h -- matrix products over plain pointers, no tensors.
 * C = alpha * A @ B + beta * C, batched, for every dtype but bool; alpha and beta are
 * real. Kernels of
 * the op table call this; gemm.c picks the library and the split. */
#ifndef TD_GEMM_H
#define TD_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "tandem/tensor.h"

/* A is m x k, B is k x n, C is m x n; strides count elements and may be anything
 * (0 and negative included) for a and b. Elements of C are distinct and C does
 * not overlap A or B. Row-major, column-major and padded matrices are used in
 * place; others are packed into scratch first. */
typedef struct td_gemm {
    td_dtype    dtype;
    int64_t     batch, m, n, k;
    const void *a, *b;
    void       *c;
    int64_t     a_row, a_col, b_row, b_col, c_row, c_col;
    int64_t     a_batch, b_batch, c_batch; /* 0 on an input repeats it */
    double      alpha, beta;               /* of floats; 0: that side is not read */
    int64_t     alpha_int, beta_int;       /* the same of integers */
} td_gemm;

/* False for bool and when memory is exhausted; C is then unspecified. May be
 * called from any number of threads at once. f16 and bf16 multiply in f32 and
 * round once at the end; integers wrap. */
bool td__gemm(const td_gemm *p);

/* Nanoseconds of a multiply-add of f32 in products that fit the caches, by the CPU
 * level, for choosing the number of threads. */
double td__gemm_ns(void);

/* A block of a larger product, on the calling thread, by the library that is quick for
 * some 64^3 multiply-adds: f32 or f64, one item, and layouts that are read in place
 * (a stride of 1, the other at least the size along the first). */
void td__gemm_small(const td_gemm *p);

/* The reference: three loops, f64 accumulation for floats. */
bool td__gemm_naive(const td_gemm *p);

/* gemm_pack.c, for gemm.c: copies blocks of A and B into plain scratch, in f32
 * for halves and in unsigned words for integers. C is scaled by the caller when
 * there is nothing to add (k or alpha is 0). */
bool td__gemm_packed(const td_gemm *p);
bool td__gemm_adds_nothing(const td_gemm *p);
void td__gemm_scale(const td_gemm *p);

#endif
