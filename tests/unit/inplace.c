/* inplace.c -- writes: what they refuse, and what history they leave behind. */
#include "grad_help.h"

TEST(a_leaf_that_requires_grad_may_not_be_written) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_mul_(x, 2.0);

    CHECK_FAILS(cx, "mul_: a leaf that requires grad is being written in place");
    CHECK(td_error(cx) == TD_E_GRAD);
    CHECK_VALUES(x, 1, 2);
    td_close(cx);
}

TEST(a_view_of_such_a_leaf_may_not_be_written) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_mul_(td_select(x, 0, 1), 2.0);

    CHECK_FAILS(cx, "a view of a leaf that requires grad");
    CHECK_VALUES(x, 1, 2);
    td_close(cx);
}

TEST(an_expanded_view_of_such_a_leaf_is_refused_for_the_leaf) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_add_(td_expand(x, TD_SHAPE(3, 2)), 1.0);

    CHECK_FAILS(cx, "a view of a leaf that requires grad");
    td_close(cx);
}

TEST(a_written_result_continues_its_history) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3), *y = td_mul(x, 2.0);

    td_tensor *r = td_mul_(y, 5.0);
    td_backward(td_sum(y));

    CHECK(r == y);
    CHECK_STR(td_grad_fn_name(y), "mul_");
    CHECK_VALUES(td_grad_of(x), 10, 10, 10);
    td_close(cx);
}

TEST(a_derivative_that_reads_the_overwritten_value_saves_a_copy) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *w = LEAF(cx, 3, 4), *y = td_mul(x, 2.0);

    td_mul_(y, w);
    td_backward(td_sum(y));

    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(x), 6, 8);
    CHECK_VALUES(td_grad_of(w), 2, 4);
    td_close(cx);
}

TEST(a_derivative_that_reads_the_result_saves_the_written_value) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 1.0);

    td_exp_(y);
    td_backward(td_sum(y));

    CHECK_VALUES(td_grad_of(x), exp(1), exp(2));
    td_close(cx);
}

TEST(a_plain_tensor_written_with_grad_gets_a_history) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 1, 2), *w = LEAF(cx, 3, 4);

    td_mul_(x, w);

    CHECK(td_requires_grad(x) && !td_is_leaf(x));
    td_backward(td_sum(x));
    CHECK_VALUES(td_grad_of(w), 1, 2);
    td_close(cx);
}

TEST(a_write_to_a_view_reaches_the_base) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3, 4), *y = td_mul(x, 1.0);

    td_mul_(td_slice(y, 0, 0, 2), 10.0);
    td_backward(td_sum(y));

    CHECK_STR(td_grad_fn_name(y), "copy_slices");
    CHECK_VALUES(td_grad_of(x), 10, 10, 1, 1);
    td_close(cx);
}

TEST(a_write_to_a_view_of_a_view_of_a_view_reaches_the_base) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(2, 3)), true);
    td_tensor *y = td_mul(x, 1.0);

    td_tensor *v = td_slice(td_select(td_transpose(y, 0, 1), 0, 1), 0, 1, 2);
    td_mul_(v, 7.0);
    td_backward(td_sum(y));

    CHECK_OK(cx);
    CHECK_VALUES(y, 1, 1, 1, 1, 7, 1);
    CHECK_VALUES(td_grad_of(x), 1, 1, 1, 1, 7, 1);
    td_close(cx);
}

TEST(a_written_view_is_differentiated_through_the_write) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3), *y = td_mul(x, 1.0), *v = td_slice(y, 0, 0, 2);

    td_mul_(v, 3.0);
    td_backward(td_sum(v));

    CHECK_STR(td_grad_fn_name(v), "as_strided");
    CHECK_VALUES(td_grad_of(x), 3, 3, 0);
    td_close(cx);
}

TEST(a_sibling_view_follows_a_write) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3, 4), *y = td_mul(x, 1.0);
    td_tensor *v = td_slice(y, 0, 0, 3), *w = td_slice(y, 0, 1, 4);

    td_mul_(v, 5.0);
    td_backward(td_sum(w));

    CHECK_VALUES(td_grad_of(x), 0, 5, 5, 1);
    td_close(cx);
}

TEST(a_view_of_a_plain_base_takes_part_after_a_sibling_was_written) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(4)), *s = LEAF(cx, 1, 2);
    td_tensor *v = td_slice(x, 0, 0, 2), *w = td_slice(x, 0, 1, 3);

    td_copy_(v, s);

    CHECK(td_requires_grad(x) && td_requires_grad(w) && !td_is_leaf(w));
    td_backward(td_sum(td_mul(w, 4.0)));
    CHECK_VALUES(td_grad_of(s), 0, 4);
    td_close(cx);
}

TEST(a_view_follows_a_write_to_its_base) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 1.0), *v = td_view(y, TD_SHAPE(2, 1));

    td_mul_(y, 6.0);
    td_backward(td_sum(v));

    CHECK_VALUES(td_grad_of(x), 6, 6);
    td_close(cx);
}

TEST(a_view_follows_a_no_grad_write_to_its_base) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 2.0), *v = td_view(y, TD_SHAPE(2, 1));

    td_grad_mode was = td_no_grad_begin(cx);
    td_mul_(y, 6.0);
    td_no_grad_end(cx, was);
    td_backward(td_sum(v));

    CHECK_VALUES(td_grad_of(x), 2, 2);
    td_close(cx);
}

TEST(a_view_made_before_its_base_became_a_leaf_is_not_connected) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(4)), *v = td_slice(x, 0, 0, 2);

    td_set_requires_grad(x, true);

    CHECK(td_requires_grad(v) && td_is_leaf(v));
    CHECK(td_node_edge(td_grad_fn(td_mul(v, 2.0)), 0) == NULL);
    td_grad_mode was = td_no_grad_begin(cx);
    td_add_(x, 1.0);
    td_no_grad_end(cx, was);
    CHECK_STR(td_grad_fn_name(v), "as_strided");
    td_close(cx);
}

TEST(writes_in_a_row_through_two_views_all_count) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3), *y = td_mul(x, 1.0);
    td_tensor *v = td_slice(y, 0, 0, 2), *w = td_slice(y, 0, 1, 3);

    td_mul_(v, 2.0);
    td_mul_(w, 3.0);
    td_mul_(v, 5.0);
    td_backward(td_sum(y));

    CHECK_VALUES(y, 10, 60, 9);
    CHECK_VALUES(td_grad_of(x), 10, 30, 3);
    td_close(cx);
}

TEST(copying_into_a_view_sends_gradients_to_both) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3), *s = LEAF(cx, 7), *y = td_mul(x, 2.0);

    td_copy_(td_slice(y, 0, 1, 2), s);
    td_backward(td_sum(td_mul(y, y)));

    CHECK_VALUES(td_grad_of(s), 14);
    CHECK_VALUES(td_grad_of(x), 8, 0, 24);
    td_close(cx);
}

TEST(filling_a_view_stops_its_gradient) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 1.0);

    td_fill_(td_select(y, 0, 0), 5.0);
    td_mul_(td_select(y, 0, 1), td_select(x, 0, 1));
    td_backward(td_sum(y));

    CHECK_VALUES(td_grad_of(x), 0, 4);
    td_close(cx);
}

TEST(filling_a_result_keeps_it_on_the_tape_with_zeros) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 1.0);

    td_fill_(y, 3.0);

    CHECK(td_requires_grad(y));
    td_backward(td_sum(y));
    CHECK_VALUES(td_grad_of(x), 0, 0);
    td_close(cx);
}

TEST(comparing_in_place_keeps_it_on_the_tape_with_zeros) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 1.0);

    td_eq_(y, 2.0);

    CHECK(td_requires_grad(y));
    td_backward(td_sum(y));
    CHECK_VALUES(td_grad_of(x), 0, 0);
    td_close(cx);
}

TEST(integers_copied_from_a_leaf_have_no_history) {
    td_ctx    *cx = td_open();
    td_tensor *i = td_zeros(cx, TD_SHAPE(2), TD_I64);

    td_copy_(i, LEAF(cx, 1, 2));

    CHECK_OK(cx);
    CHECK(!td_requires_grad(i));
    CHECK_VALUES(i, 1, 2);
    td_close(cx);
}

TEST(one_of_several_views_may_not_be_written) {
    td_ctx    *cx = td_open();
    td_tensor *x = MADE(cx, 1, 2, 3, 4), *part[2];

    td_op_split(x, 2, 0, part, 2);
    td_mul_(part[0], 2.0);

    CHECK_FAILS(cx, "mul_: result 0 of split is a view and is being modified in place");
    CHECK_FAILS(cx, "returns several views");
    td_close(cx);
}

TEST(a_view_of_one_of_several_views_may_not_be_written) {
    td_ctx    *cx = td_open();
    td_tensor *x = MADE(cx, 1, 2, 3, 4), *part[2];

    td_op_split(x, 2, 0, part, 2);
    td_mul_(td_slice(part[0], 0, 0, 1), 2.0);

    CHECK_FAILS(cx, "result 0 of slice is a view");
    td_close(cx);
}

TEST(a_split_into_one_is_still_a_split) {
    td_ctx    *cx = td_open();
    td_tensor *x = MADE(cx, 1, 2), *part[1];

    td_op_split(x, 2, 0, part, 1);
    td_mul_(part[0], 2.0);

    CHECK_FAILS(cx, "returns several views");
    td_close(cx);
}

TEST(several_views_are_refused_once_their_base_is_written) {
    td_ctx    *cx = td_open();
    td_tensor *x = MADE(cx, 1, 2, 3, 4), *part[2];

    td_op_split(x, 2, 0, part, 2);
    td_mul_(x, 2.0);
    td_add(part[0], 1.0);

    CHECK_FAILS(cx,
                "result 0 of split is a view and its base or another view of its base");
    td_close(cx);
}

TEST(several_views_of_a_plain_tensor_may_be_written_without_grad) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 1, 2, 3, 4), *part[2];

    td_op_split(x, 2, 0, part, 2);
    td_mul_(part[0], 2.0);

    CHECK_OK(cx);
    CHECK_VALUES(x, 2, 4, 3, 4);
    td_close(cx);
}

TEST(a_geometry_write_is_differentiated) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(2, 3)), true);
    td_tensor *y = td_mul(x, 2.0);

    td_t_(y);
    td_backward(td_sum(
        td_mul(y, td_from(cx, TD_F32, TD_SHAPE(3, 2), (float[]){1, 2, 3, 4, 5, 6}))));

    CHECK(td_version(y) == 1 && td_size(y, 0) == 3);
    CHECK_STR(td_grad_fn_name(y), "t_");
    CHECK_VALUES(td_grad_of(x), 2, 6, 10, 4, 8, 12);
    td_close(cx);
}

TEST(a_geometry_write_of_a_view_leaves_the_base_alone) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(2, 3)), true);
    td_tensor *y = td_mul(x, 2.0), *v = td_slice(y, 1, 0, 2);

    td_t_(v);

    CHECK_STR(td_grad_fn_name(y), "mul");
    CHECK_STR(td_grad_fn_name(v), "t_");
    td_mul_(v, 3.0); /* and the view can be written afterwards */
    td_backward(td_sum(y));
    CHECK_VALUES(td_grad_of(x), 6, 6, 2, 6, 6, 2);
    td_close(cx);
}

TEST(a_geometry_write_under_no_grad_cannot_be_differentiated_through) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(2, 3)), true);
    td_tensor *y = td_mul(x, 2.0);

    td_grad_mode was = td_no_grad_begin(cx);
    td_t_(y);
    td_no_grad_end(cx, was);
    CHECK(!td_backward(td_sum(y)));

    CHECK_FAILS(cx, "mul: a gradient of f32[3,2] arrived for a result of size [2,3]");
    td_close(cx);
}

TEST(dims_of_one_put_before_others_under_no_grad_are_summed_away) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(2, 3)), true);
    td_tensor *y = td_mul(x, 2.0), *w = td_view(td_arange(cx, 0, 6), TD_SHAPE(1, 2, 3));

    td_grad_mode was = td_no_grad_begin(cx);
    td_unsqueeze_(y, 0);
    td_no_grad_end(cx, was);
    td_backward(td_add(td_sum(td_mul(y, w)), td_sum(y)));

    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(x), 2, 4, 6, 8, 10, 12);
    td_close(cx);
}

/* PyTorch keeps such a gradient as it is: only dims of another size are compared. */
TEST(a_leaf_that_lost_dims_of_one_under_no_grad_keeps_their_gradient) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(1, 1)), true);
    td_tensor *y = td_mul(x, 2.0);

    td_grad_mode was = td_no_grad_begin(cx);
    td_as_strided_(x, TD_SHAPE(), TD_SHAPE());
    td_no_grad_end(cx, was);
    td_backward(td_sum(y));

    CHECK_OK(cx);
    CHECK(td_rank(td_grad_of(x)) == 2);
    CHECK_VALUES(td_grad_of(x), 2);
    td_close(cx);
}

TEST(the_geometry_of_a_leaf_that_requires_grad_stays) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(2, 3)), true);

    td_t_(x);

    CHECK_FAILS(cx, "t_: a leaf that requires grad");
    CHECK(td_size(x, 0) == 2);
    td_close(cx);
}

TEST(a_tensor_that_requires_grad_is_not_resized) {
    td_ctx    *cx = td_open();
    td_tensor *y = MADE(cx, 1, 2);

    td_resize_(y, TD_SHAPE(3));

    CHECK_FAILS(cx, "cannot resize a tensor that requires grad");
    td_close(cx);
}

TEST(detach_in_place_makes_a_leaf) {
    td_ctx    *cx = td_open();
    td_tensor *y = MADE(cx, 1, 2);

    CHECK(td_detach_(y) == y);

    CHECK(td_is_leaf(y) && !td_requires_grad(y));
    td_tensor *x = LEAF(cx, 1);
    td_detach_(x);
    CHECK(!td_requires_grad(x));
    td_close(cx);
}

TEST(a_view_is_not_detached_in_place) {
    td_ctx    *cx = td_open();
    td_tensor *y = MADE(cx, 1, 2);

    CHECK(td_is_nil(td_detach_(td_slice(y, 0, 0, 1))));

    CHECK_FAILS(cx, "a view cannot be detached in place");
    td_close(cx);
}

TEST(a_view_keeps_its_history_when_its_base_is_detached) {
    td_ctx    *cx = td_open();
    td_tensor *y = MADE(cx, 1, 2), *v = td_slice(y, 0, 0, 1);

    td_detach_(y);

    CHECK(td_requires_grad(v));
    CHECK_STR(td_grad_fn_name(v), "slice");
    td_close(cx);
}

TEST(a_dtype_view_has_no_history) {
    td_ctx    *cx = td_open();
    td_tensor *x = MADE(cx, 1, 2), *i = td_view_dtype(x, TD_I32);

    CHECK(!td_requires_grad(i));
    td_tensor *f = td_view_dtype(i, TD_F32);
    CHECK(!td_requires_grad(f));
    td_fill_(i, 0);
    CHECK_OK(cx);
    CHECK_VALUES(x, 0, 0);
    CHECK_STR(td_grad_fn_name(x), "mul");
    td_close(cx);
}

TEST(writing_a_view_can_be_differentiated_twice) {
    td_ctx      *cx = td_open();
    td_tensor   *x = LEAF(cx, 2, 3, 4), *y = td_mul(x, 1.0);
    td_grad_opts cg = {TD_GRAD_OPTS, .create_graph = true};

    td_mul_(td_slice(y, 0, 0, 2), td_slice(x, 0, 1, 3)); /* [x0 x1, x1 x2, x2] */
    td_tensor *g = grad1(td_sum(td_mul(y, y)), x, &cg);
    td_tensor *h = grad1(td_sum(g), x, NULL);

    /* f = x0^2 x1^2 + x1^2 x2^2 + x2^2 */
    CHECK_OK(cx);
    CHECK_VALUES(g, 36, 24 + 96, 72 + 8);
    CHECK_VALUES(h, 18 + 24, 24 + 8 + 32 + 48, 48 + 18 + 2);
    td_close(cx);
}

TEST(a_write_to_a_view_that_saves_its_result_can_be_differentiated_twice) {
    td_ctx      *cx = td_open();
    td_tensor   *x = LEAF(cx, 0.5, 1), *y = td_mul(x, 1.0);
    td_grad_opts cg = {TD_GRAD_OPTS, .create_graph = true};

    td_exp_(td_slice(y, 0, 0, 1)); /* [e^x0, x1] */
    td_tensor *g = grad1(td_sum(y), x, &cg);
    td_tensor *h = grad1(td_sum(g), x, NULL);

    CHECK_OK(cx);
    CHECK_VALUES(g, exp(0.5), 1);
    CHECK_VALUES(h, exp(0.5), 0);
    td_close(cx);
}

TEST(a_write_to_a_transposed_base_keeps_its_layout) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(3, 2)), true);
    td_tensor *y = td_mul(td_t(x), 1.0); /* f32[2,3] with strides 1,2 */

    td_mul_(td_select(y, 0, 0), 4.0);
    td_backward(td_sum(y));

    CHECK(td_stride(y, 0) == 1);
    CHECK_VALUES(td_grad_of(x), 4, 1, 4, 1, 4, 1);
    td_close(cx);
}

TEST(a_write_to_a_transposed_base_can_be_differentiated_twice) {
    td_ctx      *cx = td_open();
    td_tensor   *x = td_set_requires_grad(td_full(cx, TD_SHAPE(3, 2), 2.0), true);
    td_tensor   *y = td_mul(td_t(x), td_t(x)); /* f32[2,3] with strides 1,2 */
    td_grad_opts cg = {TD_GRAD_OPTS, .create_graph = true};

    td_mul_(td_select(y, 0, 0), 5.0);
    td_tensor *g = grad1(td_sum(y), x, &cg);

    CHECK_VALUES(g, 20, 4, 20, 4, 20, 4);
    CHECK_VALUES(grad1(td_sum(g), x, NULL), 10, 2, 10, 2, 10, 2);
    td_close(cx);
}

TEST(an_aliased_operand_written_through_itself_is_noticed) {
    td_ctx    *cx = td_open();
    td_tensor *y = MADE(cx, 1, 2);

    td_mul_(y, y);
    CHECK_OK(cx);
    td_backward(td_sum(y));

    CHECK_FAILS(cx, "modified in place by mul_");
    td_close(cx);
}

TEST(a_failed_write_leaves_the_history_as_it_was) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 2.0);

    td_mul_(y, td_tensor1(cx, 1, 2, 3));
    CHECK(!td_ok(cx));
    td_clear(cx);

    CHECK_STR(td_grad_fn_name(y), "mul");
    CHECK(td_backward(td_sum(y)));
    CHECK_VALUES(td_grad_of(x), 2, 2);
    td_close(cx);
}

TEST(retain_grad_follows_a_write) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 1.0);
    td_retain_grad(y);
    td_tensor *z = td_add(y, 1.0);

    td_mul_(y, 2.0);
    td_backward(td_add(td_sum(z), td_sum(td_mul(y, 3.0))));

    CHECK_VALUES(td_grad_of(y), 3, 3);
    CHECK_VALUES(td_grad_of(x), 7, 7);
    td_close(cx);
}

TEST(the_written_argument_of_a_shared_storage_need_not_be_the_base) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3, 4), *y = td_mul(x, 1.0);
    td_tensor *v = td_view(y, TD_SHAPE(2, 2));

    td_mul_(td_select(v, 0, 0), 2.0); /* a row */
    td_add_(td_select(v, 1, 0), 1.0); /* a column */
    td_backward(td_sum(td_mul(v, v)));

    CHECK_VALUES(v, 3, 4, 4, 4);
    CHECK_VALUES(td_grad_of(x), 12, 16, 8, 8);
    td_close(cx);
}

TEST(a_view_has_its_history_from_a_base_that_moved_elsewhere) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_tensor1(cx, 1, 2, 3, 4), *v = td_view(a, TD_SHAPE(2, 2));
    td_neg_(v);
    td_set_(a, td_tensor1(cx, 5, 6));
    td_set_requires_grad(a, true);

    td_backward(td_sum(td_mul(v, 2.0)));

    CHECK(td_ok(cx));
    CHECK_VALUES(v, -1, -2, -3, -4);
    CHECK_VALUES(td_grad_of(a), 2, 2);
    td_close(cx);
}
