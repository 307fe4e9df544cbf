/* call_copy.c -- copies whose rows are whole vectors on both sides: parts of cat,
 * slices and clones. Others are copied element by element (call_nest.c). */
#include "device/op_kernel.h"

enum { VECTOR = 16, LEAST = 4096 };

/* Do steps of so many elements begin at vectors? */
static bool steps_fit(const td_tensor *t, int last) {
    int64_t item = td__dtype_bytes[t->dtype];
    if ((uintptr_t)td__ptr(t) % VECTOR || t->stride[last] != 1) return false;
    for (int d = 0; d < last; d++)
        if (t->size[d] > 1 && t->stride[d] * item % VECTOR) return false;
    return true;
}

bool td__op_copy_vectors(td_tensor *dst, const td_tensor *src, td_device_state *d,
                         bool *ok) {
    td_opcall      c = {.cx = dst->cx};
    td_op_kernel   k = {.name = "td_k_copy", .c = &c};
    int64_t        item = td__dtype_bytes[dst->dtype], count;
    int64_t        size[TD_MAX_RANK], from[TD_MAX_RANK], to[TD_MAX_RANK];
    const int64_t *stride[2] = {from, to};
    int            last = dst->rank - 1;
    while (last > 0 && dst->size[last] == 1) last--;
    if (last < 0 || dst->dtype != src->dtype || dst->rank != src->rank ||
        dst->numel < LEAST || dst->size[last] * item % VECTOR ||
        dst->numel * item / VECTOR > INT32_MAX || !steps_fit(dst, last) ||
        !steps_fit(src, last))
        return false;
    count = dst->numel * item / VECTOR;
    for (int i = 0; i <= last; i++) {
        if (dst->size[i] != src->size[i]) return false;
        size[i] = i < last ? dst->size[i] : dst->size[i] * item / VECTOR;
        from[i] = i < last ? src->stride[i] * item / VECTOR : 1;
        to[i] = i < last ? dst->stride[i] * item / VECTOR : 1;
    }
    k.run.ptr[0] = td__ptr(src);
    k.run.ptr[1] = td__ptr(dst);
    k.run.given[0] = count;
    return td__op_walk(&k, 0, last + 1, size, stride, 2) &&
           td__op_start(&k, d, count, 0, ok);
}
