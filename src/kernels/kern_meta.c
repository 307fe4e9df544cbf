/* kern_meta.c -- writers of geometry: they change what a tensor looks at, not the
 * bytes. The shape rule has put the new geometry into meta 0. */
#include "rules/geom.h"

#include <string.h>

/* t_, squeeze_, ...: sizes, strides and offset of self become those of the meta. */
bool td__kern_set_geometry(td_opcall *c) {
    c->out[0] = td__in(c, 0);
    return td__tensor_set_geometry(td__in(c, 0), &c->meta[0]);
}

/* Bytes from the start of a storage to the last element m addresses. */
static int64_t bytes_for(const td_meta *m) {
    if (td__numel(m->rank, m->size) == 0) return 0;
    int64_t last = m->offset;
    for (int i = 0; i < m->rank; i++)
        last = td__dim_add(last, td__dim_mul(td__dim_sub(m->size[i], 1), m->stride[i]));
    return td__dim_mul(td__dim_add(last, 1), td__dtype_bytes[m->dtype]);
}

/* Enlarges st for the geometry m, if needed. Memory that the library did not allocate
 * cannot grow. */
static bool grow(td_opcall *c, td_storage *st, const td_meta *m) {
    int64_t need = bytes_for(m);
    /* Bytes that only run time counts have to be enough there. */
    if (td__dim_expect(td__storage_span(st), TD_DIM_IS_GE, need)) return true;
    if (td__dim_is_sym(need) || st->span)
        return td__op_fail(c, TD_E_UNSUPPORTED,
                           "unsupported: the storage would grow to a symbolic size; "
                           "capture with that size as a number");
    if ((st->release && !st->fake) || st->readonly)
        return td__op_fail(
            c, TD_E_ALIAS,
            "%lld bytes are needed, and the storage of %lld bytes is memory that the "
            "library did not allocate and cannot enlarge; use a clone",
            (long long)need, (long long)st->bytes);
    if (need >= TD_DIM_HUGE || !td__storage_resize(st, (size_t)need))
        return td__fail_memory(c->cx);
    return true;
}

/* in: self, size. */
bool td__kern_resize(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (!grow(c, t->st, &c->meta[0])) return false;
    c->out[0] = t;
    return td__tensor_set_geometry(t, &c->meta[0]);
}

/* The storage grows first: a failure leaves self as it was. */
bool td__kern_set(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *source = td__in(c, 1);
    if (!grow(c, source->st, &c->meta[0])) return false;
    if (!td__tensor_set_geometry(t, &c->meta[0])) return false;
    td__tensor_set_storage(t, source->st);
    c->out[0] = t;
    return true;
}

/* Flags of autograd are the tape's to change. */
bool td__kern_keep_self(td_opcall *c) {
    c->out[0] = td__in(c, 0);
    return true;
}
