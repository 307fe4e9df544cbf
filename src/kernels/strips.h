/* kernels/strips.h -- products of few rows with a matrix that was packed before: the
 * time steps of a recurrent network multiply by one matrix again and again.
 *
 * B [k,n] is packed as strips of TD_STRIP columns, each k x TD_STRIP and contiguous;
 * the last is filled up with zeros. An element of C is one chain of multiply-adds
 * over k, whatever the number of rows, strips and threads. */
#ifndef TD_STRIPS_H
#define TD_STRIPS_H

#include <stdint.h>

enum { TD_STRIP = 16 };

/* C [m,n] = A [m,k] times packed B; strides count floats, of C along rows only. */
typedef struct td_strips {
    int64_t      m, n, k;
    const float *a, *b;
    float       *c;
    int64_t      a_row, a_col, c_row;
} td_strips;

/* Strips [begin,end) of rows [from,to). */
typedef void td_strips_run(const td_strips *p, int64_t from, int64_t to, int64_t begin,
                           int64_t end);

td_strips_run td__strips_base, td__strips_avx2, td__strips_avx512;

#endif
