/* build/device_code.h -- kernels of devices from their texts. */
#ifndef TD_DEVICE_CODE_H
#define TD_DEVICE_CODE_H

#include "core/device.h"

/* Kernels by the hash of what they compute and a device. */
typedef struct td_kernel_slot {
    td_hash128 of;
    uint8_t    device; /* 0: an empty slot */
    void      *kernel; /* NULL: it could not be built */
} td_kernel_slot;
typedef struct td_kernel_table {
    td_kernel_slot *v;
    size_t          n, cap; /* cap: a power of two, or 0 */
} td_kernel_table;

/* The slot of a hash, which lives until the next call; of a new one *found is false,
 * and the caller stores the kernel. NULL: out of memory. */
td_kernel_slot *td__kernel_slot(td_kernel_table *t, td_hash128 of, uint8_t device,
                                bool *found);

/* The kernel KERNEL of a text on a device that builds kernels: built at its first use
 * in this process, or read from the cache on disk. It stays as long as the process.
 * NULL, after a warning: the device cannot compile it. */
void *td__device_build(td_ctx *cx, td_device_state *d, const char *text);
/* Builds n texts, which td__device_build then finds. Those that have to be compiled are
 * compiled at the same time. */
void  td__device_build_all(td_ctx *cx, td_device_state *d, const char *const *text,
                           int n);

#endif
