/* rules/reduce_dims.h -- the dims that a reduction goes over. */
#ifndef TD_REDUCE_DIMS_H
#define TD_REDUCE_DIMS_H

#include "ops/ops.h"

/* mask[d]: is dim d reduced? `dim` is an int, a list or none, which means all; an empty
 * list means all or no dims, as empty_is_all says. The shape rule has checked that the
 * dims exist. */
void td__reduce_mask(const td_value *dim, int rank, bool empty_is_all, bool *mask);

#endif
