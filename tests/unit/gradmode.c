/* gradmode.c -- no_grad, enable_grad and inference mode. */
#include "grad_help.h"

TEST(nothing_is_recorded_under_no_grad) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_grad_mode was = td_no_grad_begin(cx);
    td_tensor   *y = td_mul(x, x);
    CHECK(!td_grad_enabled(cx));
    td_no_grad_end(cx, was);

    CHECK(td_grad_enabled(cx) && !td_requires_grad(y) && td_is_leaf(y));
    td_close(cx);
}

TEST(grad_modes_nest) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_grad_mode a = td_no_grad_begin(cx);
    td_grad_mode b = td_enable_grad_begin(cx);
    td_tensor   *y = td_mul(x, x);
    td_enable_grad_end(cx, b);
    td_tensor *z = td_mul(x, x);
    td_no_grad_end(cx, a);

    CHECK(td_requires_grad(y) && !td_requires_grad(z) && td_grad_enabled(cx));
    td_close(cx);
}

TEST(grad_can_be_switched_off_for_good) {
    td_ctx *cx = td_open();

    td_set_grad_enabled(cx, false);

    CHECK(!td_requires_grad(td_mul(LEAF(cx, 1), 2.0)));
    td_close(cx);
}

TEST(writes_under_no_grad_change_values_and_versions_only) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_grad_mode was = td_no_grad_begin(cx);
    td_mul_(x, 3.0);
    td_no_grad_end(cx, was);

    CHECK_OK(cx);
    CHECK_VALUES(x, 3, 6);
    CHECK(td_is_leaf(x) && td_requires_grad(x) && td_version(x) == 1);
    td_close(cx);
}

TEST(a_view_made_under_no_grad_still_requires_grad) {
    td_ctx    *cx = td_open();
    td_tensor *x = MADE(cx, 1, 2, 3);

    td_grad_mode was = td_no_grad_begin(cx);
    td_tensor   *v = td_slice(x, 0, 0, 2);
    td_no_grad_end(cx, was);

    CHECK(td_requires_grad(v) && td_is_leaf(v) && td_is_view(v));
    td_tensor *y = td_sum(td_mul(v, 3.0));
    CHECK(td_requires_grad(y) && td_backward(y));
    CHECK(td_is_nil(td_grad_of(v))); /* nothing leads to it */
    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_no_grad_view_may_not_be_written_with_grad) {
    td_ctx      *cx = td_open();
    td_tensor   *x = MADE(cx, 1, 2, 3);
    td_grad_mode was = td_no_grad_begin(cx);
    td_tensor   *v = td_slice(x, 0, 0, 2);
    td_no_grad_end(cx, was);

    td_mul_(v, 2.0);

    CHECK_FAILS(cx, "mul_: a view was created in no_grad mode and is being modified");
    CHECK_VALUES(x, 1, 2, 3);
    td_close(cx);
}

TEST(a_no_grad_view_may_be_written_under_no_grad) {
    td_ctx    *cx = td_open();
    td_tensor *x = MADE(cx, 1, 2, 3);

    td_grad_mode was = td_no_grad_begin(cx);
    td_mul_(td_slice(x, 0, 0, 2), 2.0);
    td_no_grad_end(cx, was);

    CHECK_OK(cx);
    CHECK_VALUES(x, 2, 4, 3);
    td_close(cx);
}

TEST(a_no_grad_view_is_refused_once_its_base_is_written) {
    td_ctx      *cx = td_open();
    td_tensor   *x = td_zeros(cx, TD_SHAPE(4));
    td_grad_mode was = td_no_grad_begin(cx);
    td_tensor   *v = td_slice(x, 0, 0, 2);
    td_no_grad_end(cx, was);

    td_copy_(x, LEAF(cx, 1, 2, 3, 4));
    td_mul(v, 2.0);

    CHECK_FAILS(cx, "its base or another view of its base has been modified");
    td_close(cx);
}

TEST(a_no_grad_view_of_a_plain_tensor_may_not_take_history) {
    td_ctx      *cx = td_open();
    td_tensor   *x = td_zeros(cx, TD_SHAPE(4));
    td_grad_mode was = td_no_grad_begin(cx);
    td_tensor   *v = td_slice(x, 0, 0, 2);
    td_no_grad_end(cx, was);

    td_mul_(v, 2.0); /* without gradients it is fine */
    CHECK_OK(cx);
    td_mul_(v, LEAF(cx, 1, 2));

    CHECK_FAILS(cx, "created in no_grad mode");
    td_close(cx);
}

TEST(backward_under_no_grad_works) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_sum(td_mul(x, x));

    td_grad_mode was = td_no_grad_begin(cx);
    CHECK(td_backward(y));
    td_no_grad_end(cx, was);

    CHECK_VALUES(td_grad_of(x), 2, 4);
    td_close(cx);
}

TEST(inference_results_are_marked) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_grad_mode was = td_inference_begin(cx, true);
    td_tensor   *y = td_mul(x, x);
    CHECK(td_inference_enabled(cx) && !td_grad_enabled(cx));
    td_inference_end(cx, was);

    CHECK(td_is_inference(y) && !td_requires_grad(y) && !td_is_inference(x));
    CHECK(!td_inference_enabled(cx) && td_grad_enabled(cx));
    td_close(cx);
}

TEST(enable_grad_inside_inference_mode_records_nothing) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_grad_mode a = td_inference_begin(cx, true);
    td_grad_mode b = td_enable_grad_begin(cx);
    td_tensor   *y = td_mul(x, x);
    td_enable_grad_end(cx, b);
    td_inference_end(cx, a);

    CHECK(!td_requires_grad(y) && td_is_inference(y));
    td_close(cx);
}

TEST(a_view_of_a_normal_tensor_in_inference_mode_is_normal) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_grad_mode was = td_inference_begin(cx, true);
    td_tensor   *v = td_view(x, TD_SHAPE(2, 1));
    td_inference_end(cx, was);

    CHECK(!td_is_inference(v) && td_requires_grad(v));
    td_close(cx);
}

TEST(a_view_of_an_inference_tensor_is_one) {
    td_ctx      *cx = td_open();
    td_grad_mode was = td_inference_begin(cx, true);
    td_tensor   *x = td_tensor1(cx, 1, 2);
    td_inference_end(cx, was);

    CHECK(td_is_inference(td_view(x, TD_SHAPE(2, 1))));
    CHECK(!td_is_inference(td_mul(x, 2.0)));
    td_close(cx);
}

TEST(an_inference_tensor_cannot_be_saved) {
    td_ctx      *cx = td_open();
    td_grad_mode was = td_inference_begin(cx, true);
    td_tensor   *x = td_tensor1(cx, 1, 2);
    td_inference_end(cx, was);

    CHECK(td_requires_grad(td_add(x, LEAF(cx, 1, 2)))); /* saves nothing */
    CHECK_OK(cx);
    td_mul(x, LEAF(cx, 1, 2));

    CHECK_FAILS(cx, "cannot be saved for backward");
    td_close(cx);
}

TEST(an_inference_tensor_cannot_be_written_outside) {
    td_ctx      *cx = td_open();
    td_grad_mode was = td_inference_begin(cx, true);
    td_tensor   *x = td_tensor1(cx, 1, 2);
    td_add_(x, 1.0);
    td_inference_end(cx, was);
    CHECK_OK(cx);

    td_add_(x, 1.0);

    CHECK_FAILS(cx, "cannot be written outside inference mode");
    CHECK_VALUES(x, 2, 3);
    td_close(cx);
}

TEST(an_inference_tensor_cannot_require_grad_outside) {
    td_ctx      *cx = td_open();
    td_grad_mode was = td_inference_begin(cx, true);
    td_tensor   *x = td_tensor1(cx, 1, 2);
    td_inference_end(cx, was);

    td_set_requires_grad(x, true);

    CHECK_FAILS(cx, "inference tensor cannot require grad");
    td_close(cx);
}

TEST(an_inference_view_may_not_be_written_with_grad) {
    td_ctx      *cx = td_open();
    td_tensor   *x = MADE(cx, 1, 2);
    td_grad_mode was = td_inference_begin(cx, true);
    td_tensor   *v = td_view(x, TD_SHAPE(2, 1));
    td_inference_end(cx, was);

    td_mul_(v, 2.0);

    CHECK_FAILS(cx, "a view was created in inference mode");
    td_close(cx);
}

TEST(normal_tensors_can_be_written_in_inference_mode) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_grad_mode was = td_inference_begin(cx, true);
    td_mul_(td_view(x, TD_SHAPE(2)), 2.0);
    td_inference_end(cx, was);

    CHECK_OK(cx);
    CHECK_VALUES(x, 2, 4);
    CHECK(td_version(x) == 1);
    td_close(cx);
}
