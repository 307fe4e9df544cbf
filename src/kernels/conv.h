/* kernels/conv.h -- convolution and its three derivatives over plain pointers.
 * Activations are contiguous NCDHW, weights contiguous O,C/groups,KD,KH,KW. 2-d is
 * d = kd = 1, 1-d h = kh = 1 too. Floating dtypes only; halves are computed in f32 and
 * rounded once. */
#ifndef TD_CONV_H
#define TD_CONV_H

#include "rules/conv_args.h"

typedef enum td_conv_dir {
    TD_CONV_FORWARD, /* a = x,  b = w,  out = y  */
    TD_CONV_DATA,    /* a = dy, b = w,  out = dx */
    TD_CONV_WEIGHTS  /* a = x,  b = dy, out = dw */
} td_conv_dir;

/* The three tensors of one direction. `bias` is NULL or of the same dtype: forward's O
 * elements, or C, which the data gradient of a transposed convolution adds. `out` does
 * not overlap the others and is overwritten. */
typedef struct td_conv_args {
    const void *a, *b, *bias;
    void       *out;
} td_conv_args;

/* False when p is not a convolution (dtype, sizes that do not divide, a stride
 * below 1) or memory is exhausted; `out` is then unspecified. Any number of
 * threads may call at once. */
bool td__conv(const td_conv *p, td_conv_dir dir, const td_conv_args *t);
bool td__conv_backward_bias(const td_conv *p, const void *dy, void *db);

/* The reference: plain loops, f64 accumulation. */
bool td__conv_naive(const td_conv *p, td_conv_dir dir, const td_conv_args *t);

/* ---- between conv.c, conv_dnnl.c and conv_cols.c ------------------------- */

bool td__conv_is_valid(const td_conv *p);

/* f32 by oneDNN, without the bias of a data gradient; false: nothing usable was done,
 * take the columns. */
bool td__conv_dnnl(const td_conv *p, td_conv_dir dir, const td_conv_args *t);
/* Few pixels and many channels: the columns beat oneDNN's kernels. */
bool td__conv_at_once(const td_conv *p, td_conv_dir dir);
/* f32 and f64 by unfolding into columns and td__gemm; the bias as above. */
bool td__conv_cols(const td_conv *p, td_conv_dir dir, const td_conv_args *t);

/* Inner layout of activations; AUTO follows the measurements. For tests. */
typedef enum td_conv_layout {
    TD_CONV_AUTO,
    TD_CONV_NCHW,
    TD_CONV_NHWC,
    TD_CONV_BLOCKED
} td_conv_layout;
void td__conv_set_layout(td_conv_layout layout);

#endif
