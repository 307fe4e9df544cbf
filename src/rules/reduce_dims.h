/* rules/reduce_dims.h -- the dims that a reduction goes over. */
#ifndef TD_REDUCE_DIMS_H
#define TD_REDUCE_DIMS_H

#include "ops/ops.h"

/* Which dims an argument names; checked before by the shape rule. */
void td__reduce_mask(const td_value *dim, int rank, bool empty_is_all, bool *mask);

#endif
