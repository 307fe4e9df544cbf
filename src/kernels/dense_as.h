/* kernels/dense_as.h -- arguments of kernels that read row-major elements of few
 * dtypes. */
#ifndef TD_DENSE_AS_H
#define TD_DENSE_AS_H

#include "core/core.h"

/* t where it is row-major and has the dtype, else a row-major copy in it; NULL after
 * td__fail_memory. The caller ends with td__dense_drop(copy, t). */
td_tensor *td__dense_as(td_tensor *t, td_dtype dt);
void       td__dense_drop(td_tensor *copy, const td_tensor *t);

/* f32 for f16, bf16 and f32, f64 for f64, i64 for all else. */
td_dtype td__wide_dtype(td_dtype dt);

#endif
