/* ops/cast.h -- bulk copies between tensors of any layout and dtype. For kernels;
 * users have copy_ and fill_. Neither allocates, checks overlap or counts a write. */
#ifndef TD_CAST_H
#define TD_CAST_H

#include "core/core.h"

/* Writes src, broadcast and cast, into dst. True on the CPU; on a device false
 * after td__fail. */
bool td__copy_into(td_tensor *dst, const td_tensor *src);
/* The same where one is on a device. False after td__fail. */
bool td__copy_on_device(td_tensor *dst, const td_tensor *src);
/* Writes the number, cast, into every element of t. True on the CPU; on a device false
 * after td__fail. */
bool td__fill(td_tensor *t, td_value number);
/* The same where t is on a device. False after td__fail. */
bool td__fill_on_device(td_tensor *t, td_value number);
/* n contiguous elements from one dtype to another. */
void td__cast_run(int64_t n, td_dtype to, void *dst, td_dtype from, const void *src);

#endif
