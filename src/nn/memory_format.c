/* memory_format.c -- tensors of images with channels last in memory. */
#include "nn/nn.h"

/* The dims in the order of memory, the outermost first. */
static const int8_t orders[3][5] = {{0, 1, 2, 3, 4}, {0, 2, 3, 1}, {0, 2, 3, 4, 1}};

/* Symbolic where the sizes are. */
static void strides_of(td_tensor *x, const int8_t *order, int64_t *stride) {
    int64_t next = 1;
    for (int i = td_rank(x) - 1; i >= 0; i--) {
        int d = order ? order[i] : i;
        stride[d] = next;
        int64_t n = td_sym_size(x, d);
        next = td_sym_mul(next, td_size(x, d) < 1 ? 1 : n);
    }
}

/* NULL order: row-major, of any rank. False after td_fail. */
static bool order_of(const td_tensor *x, td_memory_format f, const char *who,
                     const int8_t **order) {
    int rank = f == TD_CHANNELS_LAST ? 4 : 5;
    *order = f == TD_CONTIGUOUS_FORMAT ? NULL : orders[f];
    if ((unsigned)f > TD_CHANNELS_LAST_3D)
        return td_fail(td_ctx_of(x), TD_E_ARG, "%s: no memory format %d", who, (int)f),
               false;
    if (*order && td_rank(x) != rank)
        return td_fail(td_ctx_of(x), TD_E_SHAPE,
                       "%s: channels last is for tensors of %d dims, got %d", who, rank,
                       td_rank(x)),
               false;
    return true;
}

bool td_is_memory_format(td_tensor *x, td_memory_format f) {
    const int8_t *order;
    int64_t       expect = 1;
    if (!TD_ENTER(x, TENSOR) || !order_of(x, f, "td_is_memory_format", &order))
        return false;
    for (int i = td_rank(x) - 1; i >= 0; i--) {
        int d = order ? order[i] : i;
        if (td_size(x, d) != 1 && td_stride(x, d) != expect) return false;
        expect *= td_size(x, d);
    }
    return true;
}

td_tensor *td_to_memory_format(td_tensor *x, td_memory_format f) {
    const int8_t *order;
    int64_t       stride[TD_MAX_RANK];
    if (!TD_ENTER(x, TENSOR)) return td_nil(td_ctx_of(x));
    td_ctx *cx = td_ctx_of(x);
    if (!order_of(x, f, "td_to_memory_format", &order)) return td_nil(cx);
    if (td_is_memory_format(x, f)) return x;
    strides_of(x, order, stride);
    td_tensor *to = td_empty_strided(cx, td_sym_sizes(x),
                                     TD_SHAPE_OF(stride, td_rank(x)), td_dtype_of(x));
    return td_copy(to, x);
}
