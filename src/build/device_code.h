/* build/device_code.h -- kernels of devices from their texts. */
#ifndef TD_DEVICE_CODE_H
#define TD_DEVICE_CODE_H

#include "core/device.h"

/* The kernel KERNEL of a text on a device that builds kernels: built at its first use
 * in this process, or read from the cache on disk. It stays as long as the process.
 * NULL, after a warning: the device cannot compile it. */
void *td__device_build(td_ctx *cx, td_device_state *d, const char *text);

#endif
