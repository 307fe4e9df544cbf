/* memory_format.c -- channels last: made, recognized, and kept by ops with the strides
 * that PyTorch 2.15 gives for the same calls. */
#include "tandem/tandem.h"
#include "td_test.h"

static bool has_strides(td_tensor *t, const int64_t *want) {
    bool same = td_rank(t) > 0;
    for (int d = 0; d < td_rank(t); d++) same &= td_stride(t, d) == want[d];
    if (same) return true;
    for (int d = 0; d < td_rank(t); d++)
        fprintf(stderr, "%lld ", (long long)td_stride(t, d));
    return false;
}
#define CHECK_STRIDES(t, ...) CHECK(has_strides(t, (int64_t[]){__VA_ARGS__}))

static td_tensor *last(td_tensor *t) {
    return td_to_memory_format(t, TD_CHANNELS_LAST);
}

TEST(a_format_is_made_and_recognized) {
    td_ctx    *cx = td_open();
    td_tensor *y = td_randn(cx, TD_SHAPE(2, 3, 4, 5)), *x = last(y);
    CHECK_STRIDES(x, 60, 1, 15, 3);
    CHECK(!td_is_view(x) && last(x) == x && td_item(td_equal(x, y)));
    CHECK(td_is_memory_format(x, TD_CHANNELS_LAST));
    CHECK(!td_is_memory_format(x, TD_CONTIGUOUS_FORMAT));
    CHECK(td_is_memory_format(y, TD_CONTIGUOUS_FORMAT));
    CHECK_STRIDES(td_to_memory_format(x, TD_CONTIGUOUS_FORMAT), 60, 20, 5, 1);
    td_tensor *one = td_randn(cx, TD_SHAPE(2, 1, 4, 5)); /* both at once */
    CHECK(last(one) == one && td_is_memory_format(one, TD_CHANNELS_LAST));
    td_tensor *v = td_randn(cx, TD_SHAPE(2, 3, 4, 5, 6));
    CHECK_STRIDES(td_to_memory_format(v, TD_CHANNELS_LAST_3D), 360, 1, 90, 18, 3);
    td_tensor *g = td_requires_grad_(td_randn(cx, TD_SHAPE(2, 3, 4, 5)));
    td_backward(td_sum(td_mul(last(g), y)));
    CHECK(td_item(td_equal(td_grad_of(g), y)));
    CHECK_OK(cx);
    CHECK(td_is_nil(last(td_randn(cx, TD_SHAPE(2, 3)))));
    CHECK(td_error(cx) == TD_E_SHAPE);
    td_clear(cx);
    td_close(cx);
}

TEST(ops_keep_the_order_that_pytorch_keeps) {
    td_ctx    *cx = td_open();
    td_tensor *y = td_randn(cx, TD_SHAPE(2, 3, 4, 5)), *x = last(y);
    td_tensor *w = td_randn(cx, TD_SHAPE(4, 3, 3, 3)),
              *c = td_randn(cx, TD_SHAPE(3, 1, 1));
    CHECK_STRIDES(td_relu(x), 60, 1, 15, 3);
    CHECK_STRIDES(td_add(x, y), 60, 1, 15, 3);
    CHECK_STRIDES(td_add(y, x), 60, 20, 5, 1);
    CHECK_STRIDES(td_add(x, c), 60, 1, 15, 3);
    CHECK_STRIDES(td_add(td_randn(cx, TD_SHAPE(5)), x), 60, 1, 15, 3);
    CHECK_STRIDES(td_clone(x), 60, 1, 15, 3);
    CHECK_STRIDES(td_empty_like(x), 60, 1, 15, 3);
    CHECK_STRIDES(td_zeros_like(x), 60, 1, 15, 3);
    CHECK_STRIDES(td_rand_like(x), 60, 1, 15, 3);
    CHECK_STRIDES(td_to(x, TD_F64), 60, 1, 15, 3);
    CHECK_STRIDES(td_to(x, TD_F8E4M3), 60, 1, 15, 3);
    CHECK_STRIDES(td_cat(TD_LIST(x, x), 1), 120, 1, 30, 6);
    CHECK_STRIDES(td_cat(TD_LIST(x, y), 1), 120, 20, 5, 1);
    CHECK_STRIDES(td_conv2d(x, w), 24, 1, 12, 4);
    CHECK_STRIDES(td_conv2d(y, last(w)), 24, 1, 12, 4);
    CHECK_STRIDES(td_gelu(x), 60, 1, 15, 3);
    CHECK_STRIDES(td_softmax(x, 1), 60, 20, 5, 1);
    CHECK_STRIDES(td_log_softmax(x, 1), 60, 20, 5, 1);
    CHECK_STRIDES(td_sum(x, TD_DIMS(1), true), 20, 20, 5, 1);
    CHECK_STRIDES(td_mean(x, TD_DIMS(1)), 20, 5, 1);
    CHECK_STRIDES(td_where(td_gt(x, 0), x, y), 60, 1, 15, 3);
    CHECK_STRIDES(td_where(td_gt(y, 0), y, x), 60, 20, 5, 1);
    CHECK_STRIDES(td_cumsum(x, 1), 60, 20, 5, 1);
    CHECK_STRIDES(td_flip(x, TD_DIMS(1)), 60, 1, 15, 3);
    CHECK_STRIDES(td_roll(x, TD_DIMS(1), TD_DIMS(1)), 60, 1, 15, 3);
    CHECK_STRIDES(td_constant_pad_nd(x, TD_DIMS(1, 1), 0), 84, 1, 21, 3);
    CHECK_STRIDES(td_stack(TD_LIST(x, x), 0), 120, 60, 1, 15, 3);
    CHECK_STRIDES(td_repeat(x, TD_DIMS(1, 2, 1, 1)), 120, 20, 5, 1);
    CHECK_STRIDES(td_masked_fill(x, td_gt(x, 0), 1), 60, 20, 5, 1);
    CHECK_STRIDES(td_clamp(x, 0, 1), 60, 1, 15, 3);
    CHECK_STRIDES(td_lt(x, y), 60, 1, 15, 3);
    CHECK_STRIDES(td_contiguous(x), 60, 20, 5, 1);
    CHECK_STRIDES(td_clone(x, true), 60, 20, 5, 1);
    CHECK_STRIDES(td_neg(td_slice(x, 1, 0, 2)), 40, 1, 10, 2);
    CHECK_STRIDES(td_add(td_slice(x, 2, 0, 4, 2), 1), 30, 1, 15, 3);
    CHECK_STRIDES(td_mul(td_permute(x, TD_DIMS(0, 2, 3, 1)), 2), 60, 15, 3, 1);
    CHECK_STRIDES(td_relu(last(td_randn(cx, TD_SHAPE(1, 3, 4, 5)))), 60, 1, 15, 3);
    CHECK_STRIDES(td_exp(td_expand(td_randn(cx, TD_SHAPE(3, 4)), TD_SHAPE(2, 3, 4))),
                  12, 4, 1);
    td_tensor *m = td_randn(cx, TD_SHAPE(4, 6));
    CHECK_STRIDES(td_empty_like(
                      td_expand(td_randn(cx, TD_SHAPE(3, 1)), TD_SHAPE(3, 4))),
                  4, 1);
    CHECK_STRIDES(td_empty_like(td_slice(m, 1, 0, 6, 2)), 3, 1);
    CHECK_STRIDES(td_empty_like(td_slice(td_t(m), 0, 0, 6, 2)), 1, 3);
    CHECK_STRIDES(td_to(td_slice(td_t(m), 0, 0, 6, 2), TD_F64), 1, 3);
    CHECK_OK(cx);
    td_close(cx);
}
