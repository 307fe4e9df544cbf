/* fuzz_dlpack.c -- descriptions of memory by another library that lies: an error, or a
 * tensor whose every use stays within what was described. The deleter runs once. */
#include "core/core.h"
#include "tandem/dlpack.h"
#include "tandem/tandem.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES = 4096, DIMS = 40 };
static _Alignas(64) char memory[BYTES];
static int deleted;

static void delete_new(DLManagedTensorVersioned *m) { (void)m, deleted++; }
static void delete_old(DLManagedTensor *m) { (void)m, deleted++; }

/* Bytes of the input, zeros behind them. */
typedef struct input {
    const uint8_t *p, *end;
} input;

static unsigned take(input *in) { return in->p < in->end ? *in->p++ : 0; }

/* Ordinary numbers, and those that overflow something. */
static int64_t take_number(input *in) {
    static const int64_t odd[] = {INT64_MAX,        INT64_MIN,        -1,
                                  (int64_t)1 << 62, (int64_t)1 << 61, (int64_t)1 << 32,
                                  (int64_t)1 << 40, INT64_MIN + 1,    100};
    unsigned             b = take(in);
    return b < 200 ? (int64_t)(b % 9) : odd[b % TD_COUNT(odd)];
}

static void describe(input *in, DLTensor *t, int64_t *shape, int64_t *strides) {
    unsigned how = take(in), more = take(in);
    *t = (DLTensor){.data = how & 1 ? NULL : memory + (how & 2 ? 1 : 0)};
    t->device = (DLDevice){how & 4 ? (DLDeviceType)(more % 20) : kDLCPU, (int)more};
    t->ndim = how & 8 ? (int32_t)take_number(in) : (int32_t)(take(in) % 6);
    t->dtype.code = (uint8_t)(take(in) % 8);
    t->dtype.bits = (uint8_t)(how & 16 ? take(in) : 8u << take(in) % 4);
    t->dtype.lanes = how & 32 ? (uint16_t)take(in) : 1;
    t->byte_offset = how & 64 ? (uint64_t)take_number(in) : 0;
    for (int i = 0; i < DIMS; i++) {
        shape[i] = take_number(in);
        strides[i] = take_number(in);
    }
    t->shape = how & 128 && more & 1 ? NULL : shape;
    t->strides = more & 2 ? NULL : strides;
    if (t->ndim > DIMS) t->ndim = DIMS;
}

/* Are all elements in `memory`? */
static bool is_there(const td_tensor *t, const DLTensor *d) {
    double last = 0;
    for (int i = 0; i < td_rank(t); i++)
        last += (double)(td_size(t, i) - 1) * (double)td_stride(t, i);
    last = (last + 1) * (double)td_dtype_size(td_dtype_of(t)) + 1;
    return td_numel(t) <= BYTES && last + (double)d->byte_offset <= BYTES;
}

static void use(td_ctx *cx, td_tensor *t) {
    (void)td_sum(t);
    (void)td_clone(t);
    td_format(t, NULL, 0);
    td_clear(cx);
    for (int i = 0; i < td_rank(t); i++) {
        (void)td_sum(td_transpose(t, 0, i));
        (void)td_sum(td_slice(t, i, 0, td_size(t, i), 2));
        (void)td_sum(td_unfold(t, i, td_size(t, i), 3));
        td_clear(cx);
    }
    (void)td_clone(td_unsqueeze(t, 0));
    (void)td_add_(t, 1);
    td_clear(cx);
    DLManagedTensorVersioned *back = td_to_dlpack(t);
    if (back) back->deleter(back);
    td_clear(cx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static td_ctx *cx;
    input          in = {data, data + size};
    int64_t        shape[DIMS], strides[DIMS];
    DLTensor       d;
    if (!cx) cx = td_open();
    unsigned how = take(&in);
    bool     keeps = how & 1, legacy = how & 2;
    describe(&in, &d, shape, strides);
    DLManagedTensorVersioned m = {{how & 4 ? take(&in) : 1, 0}, NULL, NULL, how, d};
    DLManagedTensor          l = {d, NULL, keeps ? NULL : delete_old};
    if (!keeps) m.deleter = delete_new;
    memset(memory, 0, sizeof memory);
    deleted = 0;
    td_scope_begin(cx, "fuzz");
    td_tensor *t = legacy ? td_from_dlpack_legacy(cx, &l) : td_from_dlpack(cx, &m);
    if (td_is_nil(t) == td_ok(cx)) abort(); /* nil and an error go together */
    td_clear(cx);
    if (!td_is_nil(t) && is_there(t, &d)) use(cx, t);
    td_scope_end(cx, "fuzz", NULL);
    td_clear(cx);
    if (deleted != !keeps) abort();
    return 0;
}
