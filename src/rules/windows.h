/* rules/windows.h -- the windows of pooling and resampling, read and checked. */
#ifndef TD_WINDOWS_H
#define TD_WINDOWS_H

#include "ops/ops.h"

/* A pool or a resampling over n volumes [d,h,w]; od, oh, ow are the sizes of the result
 * side, also in backward ops. Planes are volumes with d = od = 1. */
typedef struct td_planes {
    int64_t        n;                   /* how many */
    int64_t        d, h, w, od, oh, ow; /* sizes of the input and of the result */
    int64_t        kd, kh, kw;          /* window */
    int64_t        sd, sh, sw;          /* its steps */
    int64_t        pd, ph, pw;          /* padding on each side */
    int64_t        dd, dh, dw;          /* distance between taps */
    bool           count_pad;
    int64_t        divisor; /* of an average; 0: the window's size */
    int64_t        least;   /* of integers: the maximum of a window without elements */
    bool           any_index; /* indices outside a plane pass nothing: no error */
    int64_t        plane;     /* which one, while it is worked on */
    const int64_t *deep, *row, *col; /* where each result place is from */
    const void    *more;             /* what a kernel hands to its plane function */
} td_planes;

/* Reads and checks the window arguments from argument `at` on: kernel_size, stride,
 * padding, dilation when `dilated`, ceil_mode; the input is argument at - 1, and the
 * windows move along its last `spatial` dims, 2 or 3. */
bool td__planes_window(td_opcall *c, int at, int spatial, bool dilated, td_planes *p);
/* Sizes of a pool of x, along its last `spatial` dims, to the sizes `to`. */
void td__planes_of(const td_tensor *x, int spatial, const int64_t *to, td_planes *p);

/* Result sizes: those of `like` with the last ones replaced by `to`, in the dtype of
 * `format`, and channels-last where `format` is and `keep` says so. */
void td__planes_meta(td_meta *m, const td_tensor *like, const td_tensor *format,
                     int spatial, const int64_t *to, bool keep);
/* Argument i is floating, or of the one other dtype given, TD_DTYPE_NONE for none. */
bool td__want_float(td_opcall *c, int i, td_dtype also);
/* Argument i has the sizes of `like` with the last ones replaced by `to`. */
bool td__want_planes_like(td_opcall *c, int i, const td_tensor *like, int spatial,
                          const int64_t *to);
/* Argument i is [C,...] or [N,C,...] with `spatial` dims; only N may be 0, or, when
 * `channels`, the channels too. */
bool td__want_planes(td_opcall *c, int i, int spatial, bool channels);

#endif
