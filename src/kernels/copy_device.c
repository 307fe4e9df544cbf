/* copy_device.c -- copies and fills of elements on a device. */
#include "core/device.h"
#include "ops/cast.h"
#include "ops/device_kernel.h"

/* Elements in the same order, without gaps: the copy is one of bytes. */
static bool is_bytes(const td_tensor *a, const td_tensor *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank && a->numel == b->numel;
    for (int d = 0; same && d < a->rank; d++)
        same = a->size[d] == b->size[d] && a->stride[d] == b->stride[d];
    return same && td__is_packed(a->rank, a->size, a->stride);
}

/* Anything else is computed on the host, from copies. Gaps between the elements of dst
 * keep their bytes. */
static bool copy_by_host(td_tensor *dst, td_tensor *src) {
    td_ctx *cx = dst->cx;
    if (!td__scope_push(cx)) return false;
    td_tensor *from = td__on_host(src), *to = from ? td__on_host(dst) : NULL;
    bool       ok = to && td__copy_into(to, from);
    if (ok && to != dst) ok = td__host_back(dst, to);
    td__scope_pop(cx, NULL, 0);
    return ok;
}

/* Do both have the same elements at the same addresses? */
static bool is_there(const td_tensor *a, const td_tensor *b) {
    bool same = td__ptr(a) == td__ptr(b) && a->dtype == b->dtype && a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++)
        same = a->size[d] == b->size[d] &&
               (a->size[d] == 1 || a->stride[d] == b->stride[d]);
    return same;
}

bool td__copy_on_device(td_tensor *dst, const td_tensor *src) {
    size_t           item = td__dtype_bytes[dst->dtype];
    bool             ok = false, one = dst->st->device == src->st->device;
    td_device_state *d = td__device_state(dst->st->device);
    if (is_there(dst, src)) return true;
    if (!is_bytes(dst, src) && one && d->plugin->build &&
        td__device_copy_kernel(dst, src, d, &ok))
        return ok;
    if (!is_bytes(dst, src)) return copy_by_host(dst, (td_tensor *)(uintptr_t)src);
    return td__bytes_copy(dst->cx, dst->st, (size_t)dst->offset * item, src->st,
                          (size_t)src->offset * item, (size_t)dst->numel * item);
}

bool td__fill_on_device(td_tensor *t, td_value number) {
    td_ctx          *cx = t->cx;
    bool             ok = false;
    td_device_state *d = td__device_state(t->st->device);
    if (d->plugin->build && td__device_fill_kernel(t, number, d, &ok)) return ok;
    if (!td__scope_push(cx)) return false;
    td_tensor *host = td__on_host(t);
    ok = host && td__fill(host, number) && td__host_back(t, host);
    td__scope_pop(cx, NULL, 0);
    return ok;
}
