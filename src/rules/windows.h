/* rules/windows.h -- the windows of pooling and resampling, read and checked. */
#ifndef TD_WINDOWS_H
#define TD_WINDOWS_H

#include "ops/ops.h"

/* A pool or a resampling over n planes; h, w of the input side and oh, ow of the result
 * side, also in backward ops. */
typedef struct td_planes {
    int64_t        n;              /* how many planes */
    int64_t        h, w, oh, ow;   /* sizes of a plane of the input and of the result */
    int64_t        kh, kw, sh, sw; /* window and its steps */
    int64_t        ph, pw, dh, dw; /* padding on each side, distance between taps */
    bool           count_pad;
    int64_t        divisor; /* of an average; 0: the window's size */
    int64_t        least;   /* of integers: the maximum of a window without elements */
    const int64_t *row, *col; /* resampling: where each result row, column is from */
} td_planes;

/* Reads and checks the window arguments from argument `at` on: kernel_size, stride,
 * padding, dilation when `dilated`, ceil_mode; the input is argument at - 1. */
bool td__planes_window(td_opcall *c, int at, bool dilated, td_planes *p);
/* Sizes of an adaptive pool of x to oh x ow. */
void td__planes_of(const td_tensor *x, int64_t oh, int64_t ow, td_planes *p);

#endif
