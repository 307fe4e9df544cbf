/* dlpack.c -- exchange with other libraries: layouts, ownership, refusals. */
#include "core/core.h"
#include "tandem/dlpack.h"
#include "tandem/tandem.h"
#include "td_test.h"

_Static_assert(sizeof(DLTensor) == 48, "the standard's layout");
_Static_assert(offsetof(DLTensor, byte_offset) == 40, "the standard's layout");
_Static_assert(offsetof(DLManagedTensor, deleter) == 56, "the standard's layout");
_Static_assert(offsetof(DLManagedTensorVersioned, flags) == 24,
               "the standard's layout");
_Static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32,
               "the standard's layout");

/* A producer of our own that counts how often it is asked to delete. */
typedef struct producer {
    DLManagedTensorVersioned m;
    double                   data[8];
    int64_t                  shape[2], strides[2];
    int                      deleted;
} producer;

static void count_delete(DLManagedTensorVersioned *m) {
    ((producer *)m->manager_ctx)->deleted++;
}

static producer produce(void) {
    producer p = {.shape = {2, 3}, .strides = {1, 2}};
    for (int i = 0; i < 8; i++) p.data[i] = i;
    p.m.version = (DLPackVersion){1, 0};
    p.m.dl_tensor.device = (DLDevice){kDLCPU, 0};
    p.m.dl_tensor.ndim = 2;
    p.m.dl_tensor.dtype = (DLDataType){kDLFloat, 64, 1};
    return p;
}

/* Pointers into the struct itself: set where it has come to rest. */
static DLManagedTensorVersioned *offered(producer *p) {
    p->m.manager_ctx = p;
    p->m.deleter = count_delete;
    p->m.dl_tensor.data = p->data;
    p->m.dl_tensor.shape = p->shape;
    p->m.dl_tensor.strides = p->strides;
    return &p->m;
}

TEST(an_exported_tensor_imports_over_the_same_bytes) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_t(td_ones(cx, TD_SHAPE(2, 3)));

    td_tensor *y = td_from_dlpack(cx, td_to_dlpack(x));
    td_add_(y, 1.0);

    CHECK_OK(cx);
    CHECK(td_item(td_sum(x)) == 12);
    CHECK(td_stride(y, 0) == 1 && td_stride(y, 1) == 3);
    CHECK(td_same_storage(x, y));
    td_close(cx);
}

TEST(an_export_outlives_its_context) {
    td_ctx    *cx = td_open();
    size_t     before = td_memory_live();
    td_tensor *x = td_full(cx, TD_SHAPE(1000), 3.0);

    DLManagedTensorVersioned *m = td_to_dlpack(td_slice(x, 0, 10, 12));
    td_close(cx);

    CHECK(((float *)m->dl_tensor.data)[1] == 3);
    CHECK(m->dl_tensor.ndim == 1 && m->dl_tensor.shape[0] == 2);
    CHECK(m->version.major == 1 && m->flags == 0);
    m->deleter(m);
    CHECK(td_memory_live() <= before);
}

TEST(every_dtype_has_its_code) {
    static const struct {
        td_dtype dt;
        uint8_t  code, bits;
    } rows[] = {{TD_F64, kDLFloat, 64}, {TD_F32, kDLFloat, 32},
                {TD_F16, kDLFloat, 16}, {TD_BF16, kDLBfloat, 16},
                {TD_I64, kDLInt, 64},   {TD_I32, kDLInt, 32},
                {TD_I16, kDLInt, 16},   {TD_I8, kDLInt, 8},
                {TD_U8, kDLUInt, 8},    {TD_BOOL, kDLBool, 8}};
    td_ctx *cx = td_open();

    for (int i = 0; i < TD_COUNT(rows); i++) {
        DLManagedTensor *m = td_to_dlpack_legacy(td_ones(cx, TD_SHAPE(2), rows[i].dt));
        CHECK(m->dl_tensor.dtype.code == rows[i].code);
        CHECK(m->dl_tensor.dtype.bits == rows[i].bits && m->dl_tensor.dtype.lanes == 1);
        td_tensor *back = td_from_dlpack_legacy(cx, m);
        CHECK(td_dtype_of(back) == rows[i].dt && td_item(td_sum(back)) == 2);
    }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(an_import_is_deleted_once_when_its_last_tensor_dies) {
    td_ctx  *cx = td_open();
    producer p = produce();

    td_scope_begin(cx, "s");
    td_tensor *x = td_from_dlpack(cx, offered(&p));
    td_tensor *view = td_keep(td_select(x, 0, 1));
    td_scope_end(cx, "s", NULL);

    CHECK(p.deleted == 0 && td_item(td_sum(view)) == 1 + 3 + 5);
    td_drop(view);
    CHECK(p.deleted == 1);
    td_close(cx);
    CHECK(p.deleted == 1);
}

TEST(missing_strides_mean_row_major_and_offsets_count) {
    td_ctx  *cx = td_open();
    producer p = produce();
    offered(&p)->dl_tensor.strides = NULL;
    p.m.dl_tensor.byte_offset = 16;

    td_tensor *x = td_from_dlpack(cx, &p.m);

    CHECK_OK(cx);
    CHECK(td_stride(x, 0) == 3 && ((double *)td_data(x))[0] == 2);
    td_close(cx);
    CHECK(p.deleted == 1);
}

TEST(a_read_only_import_may_not_be_written) {
    td_ctx  *cx = td_open();
    producer p = produce();
    offered(&p)->flags = DLPACK_FLAG_BITMASK_READ_ONLY;

    td_tensor *x = td_from_dlpack(cx, &p.m);

    CHECK(td_is_nil(td_add_(x, 1.0)) && td_error(cx) == TD_E_ALIAS);
    td_clear(cx);
    DLManagedTensorVersioned *again = td_to_dlpack(x);
    CHECK(again->flags == DLPACK_FLAG_BITMASK_READ_ONLY);
    again->deleter(again);
    CHECK(!td_to_dlpack_legacy(x) && td_error(cx) == TD_E_ALIAS);
    td_close(cx);
    CHECK(p.deleted == 1);
}

enum {
    MAJOR,
    DEVICE,
    DTYPE,
    LANES,
    RANK,
    NEGATIVE,
    STRIDE,
    NO_DATA,
    ALIGN,
    HUGE_SIZE,
    EXPANDED,
    FAR_OFFSET,
    WRAPPING,
    LAST
};

static void spoil(producer *p, int how) {
    DLTensor *d = &p->m.dl_tensor;
    switch (how) {
    case MAJOR: p->m.version.major = 2; break;
    case DEVICE: d->device.device_type = kDLCUDA; break;
    case DTYPE: d->dtype.code = kDLOpaqueHandle; break;
    case LANES: d->dtype.lanes = 4; break;
    case RANK: d->ndim = 33; break;
    case NEGATIVE: d->shape[0] = -1; break;
    case STRIDE: d->strides[1] = -1; break;
    case NO_DATA: d->data = NULL; break;
    case ALIGN: d->byte_offset = 4; break;
    case FAR_OFFSET: d->byte_offset = UINT64_MAX - 7; break;
    case WRAPPING: d->strides[0] = d->strides[1] = (int64_t)1 << 61; break;
    case EXPANDED:
        d->shape[0] = d->shape[1] = (int64_t)1 << 32;
        d->strides[0] = d->strides[1] = 0;
        break;
    default: d->shape[0] = d->shape[1] = INT64_MAX / 2; break;
    }
}

TEST(a_refused_import_is_deleted_once_too) {
    static const td_code codes[LAST] = {TD_E_UNSUPPORTED, TD_E_UNSUPPORTED,
                                        TD_E_UNSUPPORTED, TD_E_UNSUPPORTED,
                                        TD_E_ARG,         TD_E_ARG,
                                        TD_E_UNSUPPORTED, TD_E_ARG,
                                        TD_E_ARG,         TD_E_ARG,
                                        TD_E_ARG,         TD_E_ARG,
                                        TD_E_ARG};
    td_ctx              *cx = td_open();

    for (int how = 0; how < LAST; how++) {
        producer p = produce();
        offered(&p);
        spoil(&p, how);
        CHECK(td_is_nil(td_from_dlpack(cx, &p.m)));
        CHECK(p.deleted == 1 && td_error(cx) == codes[how]);
        td_clear(cx);
    }
    td_close(cx);
}

/* Strides of dims of one element, and of tensors of none, mean nothing. */
TEST(idle_strides_of_an_import_do_no_harm) {
    static const int64_t odd[] = {INT64_MIN, INT64_MAX, -1, (int64_t)1 << 62};
    td_ctx              *cx = td_open();
    for (int i = 0; i < TD_COUNT(odd); i++)
        for (int64_t n = 0; n < 2; n++) {
            producer p = produce();
            offered(&p);
            td_scope_begin(cx, "import"); /* p must outlive what was imported */
            p.shape[0] = n, p.strides[0] = odd[i], p.strides[1] = 1;
            td_tensor *x = td_from_dlpack(cx, &p.m);
            CHECK(td_stride(x, 0) == 3 && td_numel(x) == 3 * n);
            CHECK(td_item(td_sum(x)) == 3.0 * (double)n);
            (void)td_clone(td_unfold(x, 0, n, 7));
            td_scope_end(cx, "import", NULL);
            CHECK_OK(cx);
        }
    producer p = produce();
    offered(&p);
    p.shape[0] = 1, p.strides[0] = 100, p.strides[1] = 1;
    CHECK(td_stride(td_from_dlpack(cx, &p.m), 0) == 100); /* a slice of something */
    td_close(cx);
}

TEST(an_import_without_memory_is_deleted_once) {
    td_ctx *cx = td_open();
    bool    ok = false;

    for (int64_t n = 0; !ok && n < 20; n++) {
        producer p = produce();
        offered(&p);
        td_scope_begin(cx, "s");
        td__fault_arm(n, false);
        ok = !td_is_nil(td_from_dlpack(cx, &p.m));
        td__fault_arm(-1, false);
        CHECK(ok == td_ok(cx) && p.deleted == (ok ? 0 : 1));
        td_scope_end(cx, "s", NULL);
        CHECK(p.deleted == 1);
        td_clear(cx);
    }
    CHECK(ok);
    td_close(cx);
}

TEST(tensors_that_need_gradients_or_have_no_bytes_stay_here) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_ones(cx, TD_SHAPE(2));
    td_meta    m = {.dtype = TD_F32, .rank = 0};
    td_set_requires_grad(w, true);

    CHECK(!td_to_dlpack(w) && td_error(cx) == TD_E_GRAD);
    td_clear(cx);
    CHECK(!td_to_dlpack(td__tensor_make(cx, &m, true)) && td_error(cx) == TD_E_TRACE);
    td_clear(cx);
    CHECK(!td_to_dlpack(td_nil(cx)) && td_ok(cx));
    CHECK(td_is_nil(td_from_dlpack(cx, NULL)) && td_error(cx) == TD_E_ARG);
    td_close(cx);
}
