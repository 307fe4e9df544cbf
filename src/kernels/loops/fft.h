/* kernels/loops/fft.h -- what the loops of Fourier transforms and their callers share.
 *
 * A tile is a few transforms of one size side by side: element i of all of them is one
 * vector of real and one of imaginary parts, so every butterfly is plain arithmetic on
 * vectors, whatever the size. A tile is loaded from any layout, transformed by passes
 * of a Stockham FFT, which needs no bit reversal, and stored. The arithmetic of a
 * transform does not depend on the width of the vectors. */
#ifndef TD_LOOPS_FFT_H
#define TD_LOOPS_FFT_H

#include <stdint.h>

enum {
    TD_FFT_LANES = 16,     /* the most transforms of a tile, at any level */
    TD_FFT_FACTORS = 16,   /* the most passes */
    TD_FFT_RADIX = 31,     /* the largest prime with a pass */
    TD_FFT_PASSES = 65536, /* the largest size computed by passes alone */
};

/* One pass: `radix` transforms combined into one; twiddle factors as pairs by
 * [p][j - 1], p < m; of an odd radix its roots of unity. */
typedef struct td_fft_pass {
    int         radix;
    int64_t     m, s; /* n of the pass is radix * m; s: product of the radices before */
    const void *twiddle, *roots;
} td_fft_pass;

/* Where the parts of element i of transform l are: i * elem + l * lane bytes after re
 * and im. im is NULL: real numbers. An inverse transform exchanges re and im. */
typedef struct td_fft_side {
    char   *re, *im;
    int64_t elem, lane;
} td_fft_side;

typedef enum td_fft_kind {
    TD_FFT_COMPLEX,
    /* Of 2n real numbers, two to a complex element: */
    TD_FFT_REAL_TO_HALF, /* n elements in, n + 1 out, the rest is symmetric */
    TD_FFT_HALF_TO_REAL  /* n + 1 elements in, n out: an inverse transform, whose
                          * caller exchanges out.re and out.im only */
} td_fft_kind;

typedef struct td_fft_tile {
    int64_t            n;
    int                n_pass;
    const td_fft_pass *pass;
    td_fft_kind        kind;
    const void        *real; /* exp(-pi i k / n) as pairs, k <= n / 2, unless COMPLEX */
    td_fft_side        in, out;
    int64_t            lanes; /* at most those of the loops */
    double             scale;
    void              *work; /* two buffers of n + 1 vectors of both parts */
    /* Not NULL: element k of transform l is multiplied by coarse[k] * fine[k][l]. */
    const void        *coarse, *fine;
} td_fft_tile;

/* The loops of one level and one dtype. */
typedef struct td_fft_loops {
    int lanes;
    void (*tile)(const td_fft_tile *t);
    /* out[i] = in[i] * w[i] * scale, n complex elements each, in pairs. */
    void (*multiply)(int64_t n, const void *in, const void *w, void *out, double scale);
} td_fft_loops;

#endif
