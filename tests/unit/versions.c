/* versions.c -- saved values notice that they were written. */
#include "grad_help.h"

TEST(a_saved_input_that_was_written_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = MADE(cx, 1, 2), *y = td_mul(x, x);

    td_add_(x, 1.0);
    CHECK(!td_backward(td_sum(y)));

    CHECK_FAILS(cx, "mul: its backward needs");
    CHECK_FAILS(cx, "f32[2]");
    CHECK_FAILS(cx, "saved at version 0");
    CHECK_FAILS(cx, "modified in place by add_ (version 1)");
    CHECK_FAILS(cx, "clone");
    td_close(cx);
}

TEST(a_saved_input_that_set_moved_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = MADE(cx, 1, 4), *z = td_tensor1(cx, 5, 6);
    td_sqrt_(x); /* version 1, which z has after set_ too */
    td_tensor *y = td_sin(x);

    td_set_(x, z);
    CHECK(!td_backward(td_sum(y)));

    CHECK_FAILS(cx, "sin: its backward needs");
    CHECK_FAILS(cx, "modified in place by set_");
    td_close(cx);
}

TEST(set_to_a_saved_storage_writes_nothing) {
    td_ctx    *cx = td_open();
    td_tensor *x = MADE(cx, 1, 4), *y = td_mul(x, x), *z = td_tensor1(cx, 5, 6);

    td_set_(z, x);
    CHECK(td_version(x) == 0);
    CHECK(td_version(z) == 1);
    CHECK(td_backward(td_sum(y)));

    td_close(cx);
}

TEST(a_saved_tensor_that_left_its_storage_and_returned_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = MADE(cx, 1, 4), *y = td_mul(x, x), *was = td_detach(x);

    td_set_(x, td_tensor1(cx, 5, 6));
    td_set_(x, was);
    CHECK(!td_backward(td_sum(y)));

    CHECK_FAILS(cx, "modified in place by set_ (version 2)");
    td_close(cx);
}

TEST(a_saved_result_that_was_written_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *y = td_exp(LEAF(cx, 1, 2));

    td_add_(y, 1.0);
    CHECK(!td_backward(td_sum(y)));

    CHECK_FAILS(cx, "exp: its backward needs its result");
    CHECK_FAILS(cx, "by add_");
    td_close(cx);
}

TEST(a_write_through_a_view_is_noticed) {
    td_ctx    *cx = td_open();
    td_tensor *x = MADE(cx, 1, 2), *y = td_mul(x, x);

    td_zero_(td_select(x, 0, 0));
    td_backward(td_sum(y));

    CHECK_FAILS(cx, "modified in place by zero_");
    td_close(cx);
}

TEST(a_write_to_a_detached_alias_is_noticed) {
    td_ctx    *cx = td_open();
    td_tensor *x = MADE(cx, 1, 2), *y = td_mul(x, x);

    td_add_(td_detach(x), 1.0);
    td_backward(td_sum(y));

    CHECK_FAILS(cx, "modified in place by add_");
    td_close(cx);
}

TEST(a_write_under_no_grad_is_noticed) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, x);

    td_grad_mode was = td_no_grad_begin(cx);
    td_add_(x, 1.0);
    td_no_grad_end(cx, was);
    td_backward(td_sum(y));

    CHECK_FAILS(cx, "modified in place");
    td_close(cx);
}

TEST(a_write_by_hand_is_noticed_once_it_is_reported) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, x);

    ((float *)td_data(x))[0] = 9;
    td_bump(x);
    td_backward(td_sum(y));

    CHECK_FAILS(cx, "modified in place by td_bump");
    td_close(cx);
}

TEST(a_write_to_a_value_nobody_saved_is_fine) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 2.0), *z = td_add(y, 1.0);

    td_add_(y, 5.0);
    td_backward(td_sum(z));

    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(x), 2, 2);
    td_close(cx);
}

TEST(only_what_the_wanted_gradients_read_is_saved) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *b = td_tensor1(cx, 3, 4), *y = td_mul(x, 1.0);
    td_tensor *z = td_mul(y, b); /* needs b, not y */

    td_add_(y, 5.0);
    td_backward(td_sum(z));

    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(x), 3, 4);
    td_close(cx);
}

TEST(a_written_value_is_refused_whichever_gradient_is_wanted) {
    td_ctx    *cx = td_open();
    td_tensor *a = LEAF(cx, 1, 2), *b = LEAF(cx, 3, 4), *m = td_mul(b, 1.0);
    td_tensor *y = td_sum(td_mul(a, m)); /* b's gradient reads a, a's reads m */

    td_add_(m, 1.0);

    CHECK(td_is_nil(grad1(y, b, NULL)));
    CHECK_FAILS(cx, "modified in place by add_");
    td_close(cx);
}

TEST(the_view_written_by_one_of_its_own_base_is_noticed) {
    td_ctx    *cx = td_open();
    td_tensor *b = MADE(cx, 1, 2, 3, 4);

    td_mul_(td_slice(b, 0, 0, 2), td_slice(b, 0, 2, 4));
    td_backward(td_sum(b));

    CHECK_FAILS(cx, "modified in place by mul_");
    td_close(cx);
}

TEST(versions_count_writes_and_are_shared_by_views) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 1, 2), *v = td_select(x, 0, 0), *d = td_detach(x);

    td_add_(x, 1.0);
    td_add_(v, 1.0);
    td_add_(d, 1.0);

    CHECK(td_version(x) == 3 && td_version(v) == 3 && td_version(d) == 3);
    CHECK(td_version(td_clone(x)) == 0);
    td_close(cx);
}

TEST(a_failed_write_counts_no_version) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_add_(x, 1.0);

    CHECK(!td_ok(cx) && td_version(x) == 0);
    td_close(cx);
}
