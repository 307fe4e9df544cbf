/* core/device.h -- devices of this process: their plugins, memory and copies.
 *
 * A device is one byte, its code: kind * 16 + index, 0 for the CPU. The storage of a
 * tensor has it, fake or real, and so have td_meta, td_geom and the types of graphs.
 *
 * Invariants: a real storage with a code other than 0 has memory of a device that is
 * open, and host code reads or writes its bytes only through the functions below. All
 * tensor arguments of a call have one device (ops/device_args.c), and a kernel of the
 * CPU runs on host memory only (ops/exec_device.c). */
#ifndef TD_CORE_DEVICE_H
#define TD_CORE_DEVICE_H

#include "core/core.h"
#include "tandem/device.h"
#include "tandem/device_plugin.h"

#include <pthread.h>

enum { TD_DEVICE_INDICES = 15 };

/* One open device. */
typedef struct td_device_state {
    const td_device_plugin *plugin;
    void                   *dev;
    pthread_mutex_t         lock; /* held during calls of the plugin */
    uint8_t                 code;
    /* td_device_counts, beside memory */
    _Atomic uint64_t        to_device, to_host, launches, on_host, kernels_built;
    /* Two int64_t that kernels set when they find a value out of range: the name of
     * the op, and the value. NULL before the first such kernel. `suspect`: one has
     * been started since they were read. */
    void                   *status;
    _Atomic bool            suspect;
} td_device_state;

/* No such device: 255 is the code of none. */
enum { TD_NO_DEVICE = 255 };
uint8_t                 td__device_code(td_device dev); /* TD_NO_DEVICE: out of range */
static inline td_device td__device_at(uint8_t code) {
    return (td_device){(td_device_kind)(code >> 4), code & 15};
}
/* "cuda:0"; lives as long as the process. */
const char      *td__device_str(uint8_t code);
/* The device, opened at its first use. NULL after td__fail, also for the CPU. */
td_device_state *td__device_open(td_ctx *cx, uint8_t code);
/* The same for a device that is open already, such as that of a real storage. */
td_device_state *td__device_state(uint8_t code);
/* Fails: the host cannot read the bytes of t, which `who` needs. Returns false. */
bool             td__fail_on_device(td_tensor *t, const char *who);

/* ---- memory (device_memory.c) ------------------------------------------- */

/* A new storage of a device that is open; NULL: out of memory. td__storage_make and
 * td__tensor_make call it. */
td_storage *td__storage_on(size_t bytes, uint8_t device);
void        td__device_release(td_storage *s); /* frees the memory of s */
/* Reallocates the memory of s, which is on a device; the common prefix stays, the rest
 * is zero. */
bool        td__device_resize(td_storage *s, size_t bytes);
bool        td__device_zero(td_storage *s);

/* Memory of a device that a recording uses. While this thread has a keeper, memory
 * that it allocates there and releases again stays, for allocations of the same size
 * and for replays. */
typedef struct td_kept {
    void  *memory;
    size_t bytes;
    bool   released;
} td_kept;

typedef struct td_keeper {
    uint8_t device;
    TD_VEC(td_kept) v;
} td_keeper;

/* The keeper of this thread from now on; NULL: none. */
void td__device_keep(td_keeper *k);
/* Forgets what is still in use, which its storages own; `all`: releases the rest
 * too. */
void td__keeper_end(td_keeper *k, bool all);

/* False, after td__fail, if a kernel found a value out of range since the last
 * check. */
bool td__device_check(td_ctx *cx, td_device_state *d);
/* Copies n bytes between the host and a real storage on any device, from byte `at` of
 * the storage on. False after td__fail. */
bool td__storage_get(td_ctx *cx, const td_storage *s, size_t at, void *to, size_t n);
bool td__storage_put(td_ctx *cx, td_storage *s, size_t at, const void *from, size_t n);
/* Copies n bytes between two storages, on any two devices. */
bool td__bytes_copy(td_ctx *cx, td_storage *to, size_t at, const td_storage *from,
                    size_t from_at, size_t n);
/* Copies all bytes of `from` to the start of `to`, on any two devices. */
bool td__storage_copy(td_ctx *cx, td_storage *to, const td_storage *from);
/* A tensor of the CPU with the elements, sizes and strides of t: t itself if it is
 * there, else a copy of the bytes from its first element to its last, offset 0. NULL
 * after td__fail. Belongs to the innermost scope. */
td_tensor *td__on_host(td_tensor *t);
/* Copies the bytes of `host`, which td__on_host made of t, back to t. */
bool       td__host_back(td_tensor *t, const td_tensor *host);
/* Moves the bytes of s to another device; s stays the storage of its tensors. */
bool       td__storage_move(td_ctx *cx, td_storage *s, uint8_t device);

#endif
