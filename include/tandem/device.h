/* tandem/device.h -- devices: where the elements of a tensor are. Memory of the CPU is
 * built in; every other device is a plugin, a shared library that is loaded when a
 * program first names it (tandem/device_plugin.h). docs/cuda.md has the rules. */
#ifndef TANDEM_DEVICE_H
#define TANDEM_DEVICE_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum td_device_kind {
    TD_CPU,
    TD_CUDA, /* an NVIDIA GPU: libtandem-cuda.so */
    TD_TEST, /* host memory that host code cannot read: libtandem-test.so, for tests */
    TD_DEVICE_KINDS
} td_device_kind;

/* A device of a kind, by number. {0} is the CPU. */
typedef struct td_device {
    td_device_kind kind;
    int            index; /* 0 to 14; of the CPU 0 */
} td_device;

/* What a device did in this process. Bytes count memory of tensors. */
typedef struct td_device_counts {
    uint64_t bytes, peak;   /* in use now, and the most since the device was opened */
    uint64_t to_device;     /* copies from the host */
    uint64_t to_host;       /* copies to the host; each waits for the device */
    uint64_t launches;      /* kernels of the device, products included */
    uint64_t on_host;       /* ops that have no kernel there and ran on the host */
    uint64_t kernels_built; /* kernels compiled, not found in a cache */
} td_device_counts;

/* "cpu", "cuda:0"; valid as long as the process runs. NULL: no such device. */
TD_API const char *td_device_name(td_device dev);
/* Reads "cpu", "cuda", "cuda:1". False, and *dev is unchanged: the text names none. */
TD_API bool        td_device_parse(const char *text, td_device *dev);
/* How many devices of that kind this machine has. 0: none, and `why` (of cap bytes, may
 * be NULL) says whether plugin, driver or hardware is missing, and what to do. */
TD_API int  td_device_count(td_ctx *cx, td_device_kind kind, char *why, size_t cap);
/* "NVIDIA H200, 139.8 GiB, sm_90"; false after a failure. */
TD_API bool td_device_describe(td_ctx *cx, td_device dev, char *out, size_t cap);

/* Where the elements of t are. In a captured body: where they will be. */
TD_API td_device td_device_of(const td_tensor *t);

/* t on that device: itself if it is there, else a copy. An op: it is differentiable,
 * captured, and part of compiled functions.
 *
 *   returns  nil after a failure
 *   owns     the innermost scope
 *   fails    TD_E_UNSUPPORTED  plugin, driver or device is missing
 *            TD_E_MEMORY       the device has not enough memory
 *   since    0.1 */
TD_API td_tensor *td_to_device(td_tensor *t, td_device dev);

/* Ops that read no tensor (td_zeros, td_randn, td_from) make their result on `dev` from
 * now on. Returns the device used before, for the call that restores it. Part of the
 * key of compiled functions.
 *   fails  TD_E_UNSUPPORTED  as td_to_device; the device stays
 *   since  0.1 */
TD_API td_device td_set_default_device(td_ctx *cx, td_device dev);
TD_API td_device td_default_device(const td_ctx *cx);

/* Moves the memory of t: t, its views and every tensor that shares it are on `dev`
 * afterwards, with the same elements, versions and histories. For parameters, buffers
 * and states; not in a captured body.
 *   fails  as td_to_device; and TD_E_UNSUPPORTED for memory that is not Tandem's
 *   since  0.1 */
TD_API bool td_move(td_tensor *t, td_device dev);

/* The address of the first element on its device, which host code must not read; on the
 * CPU that of td_data. NULL: no elements, or after a failure. */
TD_API void *td_device_data(td_tensor *t);

/* Waits until everything that was started on `dev` has finished. False after a failure,
 * also of work that was started before. */
TD_API bool td_device_sync(td_ctx *cx, td_device dev);
/* False after a failure. */
TD_API bool td_device_counters(td_ctx *cx, td_device dev, td_device_counts *out);

#ifdef __cplusplus
}
#endif

#endif
