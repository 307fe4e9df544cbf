/* rules/iter_order.h -- the order of dims in an elementwise run. Kernels walk in it,
 * and the strides of a fresh result follow from it. */
#ifndef TD_ITER_ORDER_H
#define TD_ITER_ORDER_H

#include "ops/ops.h"

/* The order in which ATen's iterator walks dims, innermost first. stride[k] is
 * operand k's, 0 where it is broadcast; earlier operands decide first. */
void td__iter_order(int rank, const int64_t *size, int n,
                    int64_t (*stride)[TD_MAX_RANK], int *order);

#endif
