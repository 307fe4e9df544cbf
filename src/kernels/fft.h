/* kernels/fft.h -- discrete Fourier transforms of any size, of f32 and f64.
 *
 * A plan has what depends on the size only: factors and roots of unity. Plans are
 * cached by size and dtype for the process. A size whose primes are at most
 * TD_FFT_RADIX is computed by passes over tiles of transforms side by side
 * (loops/fft.h); one transform of a large size as a matrix whose columns and rows are
 * transformed, so that it is many small ones; other sizes by Bluestein's algorithm, as
 * a convolution of a larger size. */
#ifndef TD_FFT_H
#define TD_FFT_H

#include "core/core.h"
#include "kernels/loops/fft.h"

typedef struct td_fft_plan td_fft_plan;
struct td_fft_plan {
    int64_t      n;  /* of a REAL plan: how many complex elements are transformed */
    td_dtype     dt; /* f32 or f64 */
    /* By passes, unless it has large primes (not smooth) or is too large. */
    bool         smooth;
    int          n_pass;
    td_fft_pass  pass[TD_FFT_FACTORS];
    void        *factors;
    /* Of an even number of real numbers: exp(-pi i k / n), as pairs. */
    void        *real;
    /* As a matrix of columns->n rows and rows->n columns; NULL: not. The element in row
     * k and column 16 b + l is multiplied by coarse[b][k] * fine[k][l]. */
    td_fft_plan *columns, *rows;
    void        *coarse, *fine;
    /* By Bluestein's algorithm: exp(-pi i j^2 / n), and the transform of its
     * conjugates; NULL: not. */
    td_fft_plan *convolution;
    void        *chirp, *kernel;

    /* of the cache */
    int      refs;
    bool     is_real;
    size_t   bytes;
    uint64_t used;
};

/* The plan for complex transforms of n > 0 elements; `real`: of 2n real numbers. NULL:
 * no memory. It may be used until it is released. */
td_fft_plan *td__fft_plan(int64_t n, td_dtype dt, bool real);
void         td__fft_release(td_fft_plan *p);

/* `count` transforms from `in` to `out`, which are apart or the same elements. */
typedef struct td_fft_job {
    td_fft_kind kind;
    td_fft_side in, out;
    int64_t     count;
    double      scale;
} td_fft_job;

/* False: no memory. */
bool td__fft_run(const td_fft_plan *p, const td_fft_job *j);

/* How many transforms at a time suit the plan. */
int64_t td__fft_chunk(const td_fft_plan *p);

#endif
