/* ops/device_kernel.h -- kernels of a device, which room `device` writes. Declared here
 * because ops call them, as they call the CPU's kernels. */
#ifndef TD_DEVICE_KERNEL_H
#define TD_DEVICE_KERNEL_H

#include "core/device.h"
#include "ops/ops.h"

/* Computes c->out on device d, whose plugin builds kernels. Returns whether there is a
 * kernel for the call; then *ok is false after td__fail. */
bool td__device_kernel(td_opcall *c, td_device_state *d, bool *ok);
/* The same for a copy of src, cast and broadcast, to dst; both are on device d. */
bool td__device_copy_kernel(td_tensor *dst, const td_tensor *src, td_device_state *d,
                            bool *ok);
/* The same for a number in every element of t. */
bool td__device_fill_kernel(td_tensor *t, td_value number, td_device_state *d,
                            bool *ok);
/* Does a device with kernels compute the op without the host: by a kernel of its own,
 * by a nest, or by the ops of its simpler form? Some arguments may be beyond it. */
bool td__device_computes(td_op op);

#endif
