/* dlpack.c -- tensors to and from other libraries without copying. An exported struct
 * references the storage, not the tensor, so it outlives the context. An imported
 * struct becomes a storage that calls the producer's deleter when it is freed. */
#include "tandem/dlpack.h"
#include "core/device.h"
#include "core/readonly.h"

#include <string.h>

static const struct {
    uint8_t code, bits;
} types[TD_DTYPE_COUNT] = {
#define TD_DTYPE(id, text, bytes, klass, c, loop, npy, dlpack, ...) \
    {kDL##dlpack, 8 * bytes},
#include "core/dtype.def"
#undef TD_DTYPE
};

/* ---- export ------------------------------------------------------------- */

/* An export in one block: the struct for the consumer, the storage it references, its
 * sizes and strides. */
typedef struct exported {
    union {
        DLManagedTensorVersioned versioned;
        DLManagedTensor          legacy;
    } m;
    td_storage *st;
    int64_t     dims[];
} exported;

static void release_export(exported *e) {
    td__storage_drop(e->st);
    td__free(e);
}

static void delete_versioned(DLManagedTensorVersioned *m) {
    release_export(m->manager_ctx);
}
static void delete_legacy(DLManagedTensor *m) { release_export(m->manager_ctx); }

static bool may_export(const td_tensor *t, const char *who) {
    if (t->flags & TD_TF_NEEDS_GRAD)
        return td__fail(t->cx, TD_E_GRAD, "%s: %s requires grad; pass td_detach of it",
                        who, td__type_str(t));
    if (t->st->device) return td__fail_on_device((td_tensor *)(uintptr_t)t, who);
    if (t->st->fake || t->cx->fake)
        return td__fail_no_bytes(
            t->cx, who, "a captured body cannot read the elements of a tensor");
    return true;
}

/* The exported struct references the storage, so that it outlives the tensor and the
 * context. Sizes and strides are in the same allocation. */
static exported *make_export(const td_tensor *t, DLTensor *out) {
    size_t    dims = sizeof(int64_t) * 2 * (size_t)t->rank;
    exported *e = td__zalloc(sizeof *e + dims);
    if (!e) {
        td__fail_memory(t->cx);
        return NULL;
    }
    for (int i = 0; i < t->rank; i++) {
        e->dims[i] = t->size[i];
        e->dims[t->rank + i] = t->stride[i];
    }
    td__storage_keep(t->st);
    e->st = t->st;
    *out = (DLTensor){0};
    out->data = t->numel ? td__ptr(t) : NULL;
    out->device = (DLDevice){kDLCPU, 0};
    out->ndim = t->rank;
    out->shape = e->dims;
    out->strides = e->dims + t->rank;
    out->dtype = (DLDataType){types[t->dtype].code, types[t->dtype].bits, 1};
    return e;
}

DLManagedTensorVersioned *td_to_dlpack(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return NULL;
    DLTensor  d;
    exported *e = may_export(t, "td_to_dlpack") ? make_export(t, &d) : NULL;
    if (!e) return NULL;
    DLManagedTensorVersioned *m = &e->m.versioned;
    m->version.major = DLPACK_MAJOR_VERSION;
    m->version.minor = DLPACK_MINOR_VERSION;
    m->manager_ctx = e;
    m->deleter = delete_versioned;
    m->flags = t->st->readonly ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
    m->dl_tensor = d;
    return m;
}

DLManagedTensor *td_to_dlpack_legacy(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return NULL;
    DLTensor d;
    if (!may_export(t, "td_to_dlpack_legacy")) return NULL;
    if (t->st->readonly) {
        td__fail(t->cx, TD_E_ALIAS,
                 "td_to_dlpack_legacy: %s " TD_READONLY
                 ", which the legacy struct cannot say; export a clone of it "
                 "(td_clone), or use td_to_dlpack",
                 td__type_str(t));
        return NULL;
    }
    exported *e = make_export(t, &d);
    if (!e) return NULL;
    e->m.legacy = (DLManagedTensor){d, e, delete_legacy};
    return &e->m.legacy;
}

/* ---- import ------------------------------------------------------------- */

static void delete_import(void *env) {
    DLManagedTensorVersioned *m = env;
    if (m->deleter) m->deleter(m);
}

static void delete_import_legacy(void *env) {
    DLManagedTensor *m = env;
    if (m->deleter) m->deleter(m);
}

static bool read_dtype(td_ctx *cx, DLDataType d, td_meta *m) {
    for (int i = 0; i < TD_DTYPE_COUNT; i++)
        if (d.lanes == 1 && d.code == types[i].code && d.bits == types[i].bits) {
            m->dtype = (td_dtype)i;
            return true;
        }
    return td__fail(cx, TD_E_UNSUPPORTED,
                    "td_from_dlpack: no such element type: code %d, %d bits, %d lanes",
                    d.code, d.bits, d.lanes);
}

/* Sizes: none is negative, and arithmetic on the bytes they span cannot overflow. */
static bool read_sizes(td_ctx *cx, const DLTensor *d, td_meta *m, int64_t *numel) {
    if (d->ndim < 0 || d->ndim > TD_MAX_RANK || (d->ndim && !d->shape))
        return td__fail(cx, TD_E_ARG,
                        "td_from_dlpack: rank %d, sizes %s; at most %d dims",
                        (int)d->ndim, d->shape ? "given" : "missing", TD_MAX_RANK);
    m->rank = d->ndim;
    m->strided = true;
    m->device = 0;
    m->offset = 0;
    for (int i = 0; i < m->rank; i++) {
        m->size[i] = d->shape[i];
        if (m->size[i] < 0)
            return td__fail(cx, TD_E_ARG,
                            "td_from_dlpack: size %lld of dim %d is negative",
                            (long long)m->size[i], i);
    }
    int64_t most = td__dtype_bytes[m->dtype]; /* an empty tensor's sizes count too */
    for (int i = 0; i < m->rank; i++)
        if (m->size[i]) most = td__dim_mul(most, m->size[i]);
    *numel = td__numel(m->rank, m->size);
    if (most < TD_DIM_HUGE) return true;
    return td__fail(cx, TD_E_ARG, "td_from_dlpack: too many elements: %s",
                    td__sizes_str(m->rank, m->size));
}

/* Along a dim of at most one element the stride has no effect, and producers write any
 * number: one beyond this bound is replaced by the dense stride. */
#define MOST_IDLE_STRIDE ((int64_t)1 << 40)

/* Strides; *extent is the elements from the first to the last. */
static bool read_strides(td_ctx *cx, const DLTensor *d, td_meta *m, int64_t numel,
                         int64_t *extent) {
    int64_t last = 0;
    td__strides_dense(m->rank, m->size, m->stride);
    *extent = numel;
    for (int i = 0; d->strides && i < m->rank; i++) {
        int64_t stride = d->strides[i];
        if (numel == 0 || m->size[i] == 1) {
            if (stride >= 0 && stride <= MOST_IDLE_STRIDE) m->stride[i] = stride;
            continue;
        }
        if (stride < 0)
            return td__fail(cx, TD_E_UNSUPPORTED,
                            "td_from_dlpack: stride %lld of dim %d is negative",
                            (long long)stride, i);
        m->stride[i] = stride;
    }
    for (int i = 0; i < m->rank && numel; i++)
        if (m->size[i] > 1)
            last = td__dim_add(last, td__dim_mul(m->size[i] - 1, m->stride[i]));
    if (numel) *extent = td__dim_add(last, 1);
    return true;
}

/* Is data + byte_offset with its `bytes` valid, aligned memory of the host? */
static bool check_memory(td_ctx *cx, const DLTensor *d, const td_meta *m,
                         int64_t bytes) {
    size_t    item = td__dtype_bytes[m->dtype];
    uintptr_t data = (uintptr_t)d->data, most = UINTPTR_MAX / 2;
    bool far = d->byte_offset > most || data > most || d->byte_offset > most - data ||
               (uint64_t)bytes > most - data - (uintptr_t)d->byte_offset;
    if (bytes >= TD_DIM_HUGE || far)
        return td__fail(cx, TD_E_ARG,
                        "td_from_dlpack: elements from byte %llu on, %lld bytes, do "
                        "not fit in memory",
                        (unsigned long long)d->byte_offset, (long long)bytes);
    if (bytes && (!d->data || (data + (uintptr_t)d->byte_offset) % item))
        return td__fail(cx, TD_E_ARG, "td_from_dlpack: elements of %s %s",
                        td_dtype_name(m->dtype),
                        d->data ? "are not aligned" : "have no address");
    return true;
}

/* All numbers come from outside: extents are computed with overflow checks before any
 * pointer is used. */
static bool read_tensor(td_ctx *cx, const DLTensor *d, td_meta *m, size_t *bytes) {
    int64_t numel = 0, extent = 0;
    if (d->device.device_type != kDLCPU)
        return td__fail(cx, TD_E_UNSUPPORTED,
                        "td_from_dlpack: memory of device type %d, not of the CPU",
                        (int)d->device.device_type);
    if (!read_dtype(cx, d->dtype, m) || !read_sizes(cx, d, m, &numel) ||
        !read_strides(cx, d, m, numel, &extent))
        return false;
    int64_t size = td__dim_mul(extent, td__dtype_bytes[m->dtype]);
    *bytes = (size_t)size;
    return check_memory(cx, d, m, size);
}

/* Imports `m`, which release(m) frees. Takes it over unless it fails. */
static td_tensor *import(td_ctx *cx, const DLTensor *d, bool readonly,
                         void (*release)(void *), void *m) {
    td_meta meta;
    size_t  bytes = 0;
    if (!read_tensor(cx, d, &meta, &bytes)) {
        release(m);
        return &cx->nil;
    }
    char       *data = d->data ? (char *)d->data + d->byte_offset : NULL;
    td_storage *st = td__storage_wrap(data, bytes, release, m);
    if (!st) {
        td__fail_memory(cx);
        release(m);
        return &cx->nil;
    }
    st->readonly = readonly;
    td_tensor *t = td__tensor_over(cx, st, &meta);
    td__storage_drop(st);
    return t ? t : &cx->nil;
}

td_tensor *td_from_dlpack(td_ctx *cx, DLManagedTensorVersioned *m) {
    if (!TD_ENTER_CTX(cx)) {
        if (m) delete_import(m);
        return TD_NIL(cx, TENSOR);
    }
    if (!m) return td_fail(cx, TD_E_ARG, "td_from_dlpack: the managed tensor is NULL");
    if (m->version.major != DLPACK_MAJOR_VERSION) {
        td__fail(cx, TD_E_UNSUPPORTED, "td_from_dlpack: DLPack %u.%u, this is %d.x",
                 (unsigned)m->version.major, (unsigned)m->version.minor,
                 DLPACK_MAJOR_VERSION);
        delete_import(m);
        return &cx->nil;
    }
    bool readonly = m->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
    return import(cx, &m->dl_tensor, readonly, delete_import, m);
}

td_tensor *td_from_dlpack_legacy(td_ctx *cx, DLManagedTensor *m) {
    if (!TD_ENTER_CTX(cx)) {
        if (m) delete_import_legacy(m);
        return TD_NIL(cx, TENSOR);
    }
    if (!m)
        return td_fail(cx, TD_E_ARG,
                       "td_from_dlpack_legacy: the managed tensor is NULL");
    return import(cx, &m->dl_tensor, false, delete_import_legacy, m);
}
