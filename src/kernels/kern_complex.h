/* kernels/kern_complex.h -- what the kernels of real reductions and scans call for
 * complex tensors: products and recurrences, whose parts are not independent. */
#ifndef TD_KERN_COMPLEX_H
#define TD_KERN_COMPLEX_H

#include "kernels/reduce.h"

/* The products of a planned reduction, in the order of the walk. */
bool td__complex_prod(const td_reduction *r);
/* The kernels of cumprod and _linear_scan. */
bool td__complex_cumprod(td_opcall *c);
bool td__complex_linear_scan(td_opcall *c);

#endif
