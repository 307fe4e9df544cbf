/* rules/conv_args.h -- a convolution, read off the arguments of its three ops. */
#ifndef TD_CONV_ARGS_H
#define TD_CONV_ARGS_H

#include "ops/ops.h"

/* Sizes and options of a convolution; input [n,c,d,h,w], weight [o,c/groups,kd,kh,kw].
 * One over planes or lengths has 1 in the place of what it lacks, and no padding. */
typedef struct td_conv {
    td_dtype dtype;
    int64_t  n, c, h, w; /* input */
    int64_t  o, kh, kw;  /* output channels, kernel */
    int64_t  stride_h, stride_w, pad_h, pad_w, dil_h, dil_w; /* pad: both ends */
    int64_t  groups;                                         /* divides c and o */
    int64_t  d, kd, stride_d, pad_d, dil_d;
} td_conv;

int64_t td__conv_out_d(const td_conv *p); /* 0 when the kernel does not fit */
int64_t td__conv_out_h(const td_conv *p);
int64_t td__conv_out_w(const td_conv *p);

/* Where the options of a row begin: stride, padding, dilation, then groups after
 * transposed and output_padding, where the row has these. */
enum { TD_CONV_STRIDE = 3, TD_CONV_PADDING, TD_CONV_DILATION };

/* Sizes and options of a convolution of x with w, both of `rank` dims, 3 to 5; all but
 * the dtype. False after td__op_fail. */
bool td__conv_sizes(td_opcall *c, td_conv *p, int rank, const int64_t *x,
                    const int64_t *w);
/* The convolution whose data gradient a transposed one is: its output is `input`
 * [n,o,..] and its input the result, whose sizes are put into `made`. */
bool td__conv_transposed(td_opcall *c, td_conv *p, int64_t *made);

#endif
