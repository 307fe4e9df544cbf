/* ops/device_kernel.h -- kernels of a device: set by the room that writes them, called
 * for every op on a device whose plugin compiles kernels. */
#ifndef TD_DEVICE_KERNEL_H
#define TD_DEVICE_KERNEL_H

#include "core/device.h"
#include "ops/ops.h"

/* Computes c->out on device d. Returns whether there is a kernel for the call; then *ok
 * is false after td__fail. */
typedef bool td_device_kernel_fn(td_opcall *c, td_device_state *d, bool *ok);

/* NULL until a context is opened by a program that has kernels. */
extern td_device_kernel_fn *td__device_kernel;

#endif
