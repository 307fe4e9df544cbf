/* create.h -- what shape rules and kernels of the create and random families
 * share. */
#ifndef TD_OPS_CREATE_H
#define TD_OPS_CREATE_H

#include "ops/ops.h"

/* The argument of type dtype?, or `otherwise` when it is not given. */
td_dtype td__create_dtype(const td_opcall *c, td_dtype otherwise);
/* Result 0: fresh and row-major, of the sizes in argument i. */
bool     td__create_sizes(td_opcall *c, int i, td_dtype dt);
/* Result 0: sizes and layout of argument 0, with the dtype given or its own. */
void     td__create_like(td_opcall *c);
/* Index of the first argument of type Scalar. */
int      td__scalar_arg(const td_opcall *c);

#endif
