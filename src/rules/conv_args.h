/* rules/conv_args.h -- a 2-d convolution, read off the arguments of its three ops. */
#ifndef TD_CONV_ARGS_H
#define TD_CONV_ARGS_H

#include "ops/ops.h"

/* Sizes and options of a convolution; input [n,c,h,w], weight [o,c/groups,kh,kw]. */
typedef struct td_conv {
    td_dtype dtype;
    int64_t  n, c, h, w; /* input */
    int64_t  o, kh, kw;  /* output channels, kernel */
    int64_t  stride_h, stride_w, pad_h, pad_w, dil_h, dil_w; /* pad: both ends */
    int64_t  groups;                                         /* divides c and o */
} td_conv;

int64_t td__conv_out_h(const td_conv *p); /* 0 when the kernel does not fit */
int64_t td__conv_out_w(const td_conv *p);

/* Sizes and options of a convolution of x with w, both of 4 dims; all but the dtype.
 * False after td__op_fail. */
bool td__conv_sizes(td_opcall *c, td_conv *p, const int64_t *x, const int64_t *w);

#endif
