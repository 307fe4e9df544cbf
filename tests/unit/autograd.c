/* autograd.c -- requires-grad, leaves, backward and gradients of any order. */
#include "grad_help.h"

#include <math.h>

TEST(a_fresh_tensor_is_a_leaf_without_grad) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 1, 2);

    CHECK(td_is_leaf(x) && !td_requires_grad(x) && td_is_nil(td_grad_of(x)));
    CHECK_STR(td_grad_fn_name(x), "");
    td_close(cx);
}

TEST(a_result_of_a_leaf_requires_grad_and_is_no_leaf) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_tensor *y = td_mul(x, 2.0);

    CHECK(td_requires_grad(y) && !td_is_leaf(y) && td_is_leaf(x));
    CHECK_STR(td_grad_fn_name(y), "mul");
    CHECK(td_output_nr(y) == 0);
    td_close(cx);
}

TEST(only_floats_can_require_grad) {
    td_ctx    *cx = td_open();
    td_tensor *i = td_to(td_tensor1(cx, 1, 2), TD_I64);

    CHECK(td_is_nil(td_set_requires_grad(i, true)));
    CHECK_FAILS(cx,
                "only floating point and complex tensors can require grad, got i64[2]");
    td_close(cx);
}

TEST(requires_grad_of_a_result_cannot_be_switched_off) {
    td_ctx    *cx = td_open();
    td_tensor *y = MADE(cx, 1, 2);

    td_set_requires_grad(y, false);

    CHECK_FAILS(cx, "only leaves can stop requiring grad");
    td_close(cx);
}

TEST(requires_grad_of_a_leaf_goes_on_and_off) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_set_requires_grad(x, false);

    CHECK(!td_requires_grad(x) && !td_requires_grad(td_mul(x, x)));
    CHECK_OK(cx);
    td_close(cx);
}

TEST(backward_of_a_product_gives_both_gradients) {
    td_ctx    *cx = td_open();
    td_tensor *a = LEAF(cx, 1, 2, 3), *b = LEAF(cx, 4, 5, 6);

    CHECK(td_backward(td_sum(td_mul(a, b))));

    CHECK_VALUES(td_grad_of(a), 4, 5, 6);
    CHECK_VALUES(td_grad_of(b), 1, 2, 3);
    td_close(cx);
}

TEST(a_tensor_used_twice_gets_the_sum_of_its_gradients) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3);

    td_backward(td_sum(td_add(td_mul(x, x), x)));

    CHECK_VALUES(td_grad_of(x), 3, 5, 7);
    td_close(cx);
}

TEST(a_broadcast_input_gets_the_sum_over_what_was_broadcast) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_set_requires_grad(td_ones(cx, TD_SHAPE(2, 3)), true);
    td_tensor *b = LEAF(cx, 1, 2, 3);
    td_tensor *c = td_set_requires_grad(td_full(cx, TD_SHAPE(2, 1), 2.0), true);

    td_backward(td_sum(td_mul(td_mul(a, b), c)));

    CHECK_VALUES(td_grad_of(b), 4, 4, 4);
    CHECK_VALUES(td_grad_of(c), 6, 6);
    CHECK(td_rank(td_grad_of(c)) == 2);
    td_close(cx);
}

TEST(the_gradient_of_an_input_has_its_dtype) {
    td_ctx    *cx = td_open();
    td_tensor *a = LEAF(cx, 1, 2);
    td_tensor *b = td_set_requires_grad(td_to(td_tensor1(cx, 3, 4), TD_F64), true);

    td_backward(td_sum(td_mul(a, b)));

    CHECK(td_dtype_of(td_grad_of(a)) == TD_F32 && td_dtype_of(td_grad_of(b)) == TD_F64);
    CHECK_VALUES(td_grad_of(a), 3, 4);
    td_close(cx);
}

TEST(gradients_accumulate_over_backwards) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_backward(td_sum(td_mul(x, 2.0)));
    td_backward(td_sum(td_mul(x, 3.0)));

    CHECK_VALUES(td_grad_of(x), 5, 5);
    td_zero_grad(x);
    CHECK(td_is_nil(td_grad_of(x)));
    td_close(cx);
}

TEST(a_root_of_several_elements_needs_a_gradient) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    CHECK(!td_backward(td_mul(x, 2.0)));
    CHECK_FAILS(cx, "only a root of one element has an implicit gradient of 1");
    td_clear(cx);
    td_tensor *y = td_mul(x, 2.0), *g = td_tensor1(cx, 1, 10);
    CHECK(td_backward_with(TD_LIST(y), TD_LIST(g), NULL));
    CHECK_VALUES(td_grad_of(x), 2, 20);
    td_close(cx);
}

TEST(a_root_gradient_of_other_sizes_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *y = MADE(cx, 1, 2);

    CHECK(!td_backward_with(TD_LIST(y), TD_LIST(td_tensor1(cx, 1, 2, 3)), NULL));

    CHECK_FAILS(cx, "gradient 0 is f32[3], but its root is f32[2]");
    td_close(cx);
}

TEST(a_root_gradient_of_another_dtype_is_cast) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 2.0);
    td_tensor *g = td_to(td_tensor1(cx, 1, 3), TD_F64);

    td_backward_with(TD_LIST(y), TD_LIST(g), NULL);

    CHECK_VALUES(td_grad_of(x), 2, 6);
    CHECK(td_dtype_of(td_grad_of(x)) == TD_F32);
    td_close(cx);
}

TEST(backward_from_a_tensor_without_history_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 1);

    CHECK(!td_backward(td_sum(x)));

    CHECK_FAILS(cx, "does not require grad and has no history");
    CHECK(td_error(cx) == TD_E_GRAD);
    td_close(cx);
}

TEST(backward_from_nil_does_nothing) {
    td_ctx *cx = td_open();

    CHECK(!td_backward(td_nil(cx)));

    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_leaf_can_be_the_root) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 2);

    CHECK(td_backward(x));

    CHECK_VALUES(td_grad_of(x), 1);
    td_close(cx);
}

TEST(several_roots_add_up) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3), *y = td_sum(x), *z = td_mul(y, 2.0);

    CHECK(td_backward_with(TD_LIST(y, z), (td_tensors){0}, NULL));

    CHECK_VALUES(td_grad_of(x), 3, 3, 3);
    td_close(cx);
}

TEST(the_same_root_twice_counts_twice) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_sum(x);

    td_backward_with(TD_LIST(y, y), (td_tensors){0}, NULL);

    CHECK_VALUES(td_grad_of(x), 2, 2);
    td_close(cx);
}

TEST(td_grad_leaves_the_leaves_alone) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3);

    td_tensor *g = grad1(td_sum(td_mul(x, x)), x, NULL);

    CHECK_VALUES(g, 2, 4, 6);
    CHECK(td_is_nil(td_grad_of(x)));
    td_close(cx);
}

TEST(td_grad_serves_tensors_that_are_no_leaves) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *h = td_mul(x, 3.0), *y = td_sum(td_mul(h, h));

    td_tensor *g[2];
    CHECK(td_grad(TD_LIST(y), TD_LIST(h, x), g, NULL));

    CHECK_VALUES(g[0], 6, 12);
    CHECK_VALUES(g[1], 18, 36);
    td_close(cx);
}

TEST(td_grad_of_a_tensor_by_itself_is_one) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 5), *y = td_mul(x, 2.0);

    CHECK_VALUES(grad1(x, x, NULL), 1);
    CHECK_VALUES(grad1(y, y, NULL), 1);
    td_close(cx);
}

TEST(td_grad_takes_an_input_twice) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *g[2];

    CHECK(td_grad(TD_LIST(td_sum(x)), TD_LIST(x, x), g, NULL));

    CHECK_VALUES(g[0], 1, 1);
    CHECK_VALUES(g[1], 1, 1);
    td_close(cx);
}

TEST(an_unused_input_is_refused_unless_allowed) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1), *z = LEAF(cx, 1, 2), *y = td_mul(x, x);
    td_tensor *g[2];

    CHECK(!td_grad(TD_LIST(y), TD_LIST(x, z), g,
                   &(td_grad_opts){TD_GRAD_OPTS, .retain_graph = true}));
    CHECK_FAILS(cx, "input 1, f32[2], was not used to compute the outputs");
    CHECK(td_is_nil(g[0]) && td_is_nil(g[1]));
    td_clear(cx);
    CHECK(td_grad(TD_LIST(y), TD_LIST(x, z), g,
                  &(td_grad_opts){TD_GRAD_OPTS, .retain_graph = true,
                                  .allow_unused = true}));
    CHECK_VALUES(g[0], 2);
    CHECK(td_is_nil(g[1]));
    CHECK(td_grad(TD_LIST(y), TD_LIST(x, z), g,
                  &(td_grad_opts){TD_GRAD_OPTS, .materialize = true}));
    CHECK_VALUES(g[1], 0, 0);
    td_close(cx);
}

TEST(an_input_that_does_not_require_grad_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1);

    CHECK(td_is_nil(grad1(td_mul(x, x), td_tensor1(cx, 1), NULL)));

    CHECK_FAILS(cx, ", does not require grad; call td_requires_grad_");
    td_close(cx);
}

TEST(backward_with_inputs_touches_only_those) {
    td_ctx    *cx = td_open();
    td_tensor *a = LEAF(cx, 1, 2), *b = LEAF(cx, 3, 4), *y = td_sum(td_mul(a, b));

    td_backward_with(TD_LIST(y), (td_tensors){0},
                     &(td_backward_opts){TD_BACKWARD_OPTS, .inputs = TD_LIST(a)});

    CHECK_VALUES(td_grad_of(a), 3, 4);
    CHECK(td_is_nil(td_grad_of(b)));
    td_close(cx);
}

TEST(backward_with_an_inner_input_stops_there) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *h = td_mul(x, 2.0), *y = td_sum(h);

    td_backward_with(TD_LIST(y), (td_tensors){0},
                     &(td_backward_opts){TD_BACKWARD_OPTS, .inputs = TD_LIST(h)});

    CHECK_VALUES(td_grad_of(h), 1, 1);
    CHECK(td_is_nil(td_grad_of(x)));
    td_close(cx);
}

TEST(a_second_backward_needs_retain_graph) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_sum(td_mul(x, x));

    CHECK(td_backward(y) && !td_backward(y));

    CHECK_FAILS(cx, "backward through the graph a second time");
    CHECK_FAILS(cx, "retain_graph");
    td_close(cx);
}

TEST(retain_graph_allows_a_second_backward) {
    td_ctx          *cx = td_open();
    td_tensor       *x = LEAF(cx, 1, 2), *y = td_sum(td_mul(x, x));
    td_backward_opts keep = {TD_BACKWARD_OPTS, .retain_graph = true};

    td_backward_with(TD_LIST(y), (td_tensors){0}, &keep);
    td_backward(y);

    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(x), 4, 8);
    td_close(cx);
}

TEST(a_graph_that_saves_nothing_can_be_walked_twice) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_sum(td_add(x, x));

    td_backward(y);
    td_backward(y);

    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(x), 4, 4);
    td_close(cx);
}

TEST(create_graph_gives_third_derivatives) {
    td_ctx      *cx = td_open();
    td_tensor   *x = LEAF(cx, 2, 3), *y = td_sum(td_pow(x, 4.0));
    td_grad_opts cg = {TD_GRAD_OPTS, .create_graph = true};

    td_tensor *g1 = grad1(y, x, &cg);
    td_tensor *g2 = grad1(td_sum(g1), x, &cg);
    td_tensor *g3 = grad1(td_sum(g2), x, &cg);

    CHECK_VALUES(g1, 32, 108);
    CHECK_VALUES(g2, 48, 108);
    CHECK_VALUES(g3, 48, 72);
    CHECK(td_requires_grad(g3));
    td_close(cx);
}

TEST(gradients_have_no_history_without_create_graph) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 2, 3);

    CHECK(!td_requires_grad(grad1(td_sum(td_mul(x, x)), x, NULL)));
    td_backward(td_sum(td_mul(x, x)));
    CHECK(!td_requires_grad(td_grad_of(x)));
    td_close(cx);
}

TEST(backward_with_create_graph_records_the_gradient) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 2, 3), *y = td_sum(td_pow(x, 3.0));

    td_backward_with(TD_LIST(y), (td_tensors){0},
                     &(td_backward_opts){TD_BACKWARD_OPTS, .create_graph = true});
    td_tensor *g = td_grad_of(x);

    CHECK(td_requires_grad(g));
    CHECK_VALUES(grad1(td_sum(g), x, NULL), 12, 18);
    td_zero_grad(x); /* the gradient refers to x and x to it */
    td_close(cx);
}

TEST(a_gradient_penalty_differentiates_through_a_gradient) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *w = LEAF(cx, 3, 4);
    td_tensor *y = td_sum(td_mul(td_mul(x, x), w));

    td_tensor *g = grad1(y, x, &(td_grad_opts){TD_GRAD_OPTS, .create_graph = true});
    td_backward(td_sum(td_mul(g, g))); /* sum (2xw)^2 */

    CHECK_VALUES(td_grad_of(w), 8 * 3, 8 * 4 * 4);
    CHECK_VALUES(td_grad_of(x), 8 * 9, 8 * 2 * 16);
    td_close(cx);
}

TEST(steps_without_slope_have_a_gradient_of_zeros) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1.5, 2.5), *y = td_floor(x);

    CHECK(td_requires_grad(y));
    CHECK_VALUES(grad1(td_sum(y), x, NULL), 0, 0);
    td_close(cx);
}

TEST(comparisons_and_indices_have_no_history) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    CHECK(!td_requires_grad(td_gt(x, 0.0)));
    CHECK(!td_requires_grad(td_argmax(x)));
    CHECK(!td_requires_grad(td_to(x, TD_I64)));
    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_result_without_gradient_counts_as_zeros) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3, 4);
    td_tensor *part[2];

    td_op_split(x, 2, 0, part, 2);
    td_backward(td_sum(td_mul(part[1], 3.0)));

    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(x), 0, 0, 3, 3);
    td_close(cx);
}

TEST(a_list_of_inputs_gets_a_gradient_each) {
    td_ctx    *cx = td_open();
    td_tensor *a = LEAF(cx, 1, 2), *b = td_tensor1(cx, 9), *c = LEAF(cx, 5);

    td_tensor *y = td_cat(TD_LIST(a, b, c), 0);
    td_backward(td_sum(td_mul(y, td_tensor1(cx, 1, 2, 3, 4))));

    CHECK_VALUES(td_grad_of(a), 1, 2);
    CHECK_VALUES(td_grad_of(c), 4);
    CHECK(td_is_nil(td_grad_of(b)));
    td_close(cx);
}

TEST(detach_cuts_the_history_and_shares_the_bytes) {
    td_ctx    *cx = td_open();
    td_tensor *y = MADE(cx, 1, 2), *d = td_detach(y);

    CHECK(!td_requires_grad(d) && td_is_leaf(d) && td_same_storage(d, y));
    CHECK(!td_is_view(d));
    CHECK(td_base(td_view(d, TD_SHAPE(2, 1))) == d);
    td_close(cx);
}

TEST(a_detached_tensor_can_become_a_leaf) {
    td_ctx    *cx = td_open();
    td_tensor *d = td_set_requires_grad(td_detach(MADE(cx, 1, 2)), true);

    td_backward(td_sum(td_mul(d, d)));

    CHECK_VALUES(td_grad_of(d), 2, 4);
    td_close(cx);
}

TEST(a_gradient_can_be_set_and_must_fit) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    CHECK(td_set_grad(x, td_tensor1(cx, 5, 6)));
    CHECK_VALUES(td_grad_of(x), 5, 6);
    CHECK(!td_set_grad(x, td_tensor1(cx, 5)));
    CHECK_FAILS(cx, "the gradient is f32[1], but the tensor is f32[2]");
    td_clear(cx);
    CHECK(!td_set_grad(x, td_to(td_tensor1(cx, 5, 6), TD_F64)));
    td_clear(cx);
    CHECK(td_set_grad(x, NULL) && td_is_nil(td_grad_of(x)));
    td_close(cx);
}

TEST(retain_grad_keeps_the_gradient_of_a_result) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 3.0);

    CHECK(td_retain_grad(y) && td_retains_grad(y));
    td_backward(td_sum(td_mul(y, y)));

    CHECK_VALUES(td_grad_of(y), 6, 12);
    CHECK_VALUES(td_grad_of(x), 18, 36);
    td_close(cx);
}

TEST(retain_grad_on_a_leaf_says_nothing) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    CHECK(td_retain_grad(x) && !td_retains_grad(x));
    td_close(cx);
}

TEST(retain_grad_needs_a_tensor_that_requires_grad) {
    td_ctx *cx = td_open();

    CHECK(!td_retain_grad(td_tensor1(cx, 1)));

    CHECK_FAILS(cx, "does not require grad");
    td_close(cx);
}

TEST(a_tensor_whose_gradient_is_retained_may_die_first) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);
    td_scope_begin(cx, "inner");
    td_tensor *y = td_mul(x, 3.0);
    td_retain_grad(y);
    td_tensor *z = td_scope_end(cx, "inner", td_sum(td_add(y, 1.0)));

    CHECK(td_backward(z));

    CHECK_VALUES(td_grad_of(x), 3, 3);
    td_close(cx);
}

TEST(history_outlives_the_scope_of_its_tensors) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);
    td_scope_begin(cx, "inner");
    td_tensor *y = td_scope_end(cx, "inner", td_sum(td_exp(td_mul(x, x))));

    td_backward(y);

    CHECK_VALUES(td_grad_of(x), 2 * exp(1), 4 * exp(4));
    td_close(cx);
}

TEST(zero_size_tensors_have_zero_size_gradients) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_set_requires_grad(td_zeros(cx, TD_SHAPE(0, 3)), true);

    td_backward(td_sum(td_mul(x, x)));

    CHECK_OK(cx);
    CHECK(td_numel(td_grad_of(x)) == 0 && td_size(td_grad_of(x), 1) == 3);
    td_close(cx);
}

TEST(a_failure_before_backward_stays_the_first_one) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);
    td_add(x, td_tensor1(cx, 1, 2, 3));
    char first[256];
    snprintf(first, sizeof first, "%s", td_message(cx));

    CHECK(td_backward(td_sum(td_mul(x, x))));

    CHECK_VALUES(td_grad_of(x), 2, 4);
    CHECK_STR(td_message(cx), first);
    td_close(cx);
}

TEST(the_graph_can_be_looked_at) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(td_exp(x), td_tensor1(cx, 1, 2));
    td_node   *n = td_grad_fn(y);

    CHECK_STR(td_node_name(n), "mul");
    CHECK(td_node_edges(n) == 2 && td_node_edge(n, 1) == NULL);
    CHECK_STR(td_node_name(td_node_edge(n, 0)), "exp");
    CHECK_STR(td_node_name(td_node_edge(td_node_edge(n, 0), 0)), "accumulate");
    td_close(cx);
}

/* PyTorch fails likewise: "the derivative for geqrf is not implemented". */
TEST(backward_through_an_op_without_a_derivative_fails_and_names_it) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_randn(cx, TD_SHAPE(3, 2))), *tau;

    td_tensor *a = td_geqrf(x, &tau);
    CHECK(td_requires_grad(a) && td_requires_grad(tau));
    CHECK(!td_backward(td_sum(a)));
    CHECK(strstr(td_message(cx), "geqrf: its derivative is not implemented") != NULL);
    td_clear(cx);

    td_tensor *index = td_tensor1(cx, 0, 1, 1), *w = LEAF(cx, 1, 2, 3);
    td_tensor *sums = td_bincount(td_to(index, TD_I64), w);
    CHECK(td_requires_grad(sums) && !td_backward(td_sum(sums)));
    td_clear(cx);
    td_close(cx);
}

/* As in PyTorch, both results of a histogram have the history of all its arguments. */
TEST(edges_of_a_histogram_require_grad_if_an_argument_does) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 0, 1, 2), *bins = LEAF(cx, 0, 1, 2), *edges;

    td_tensor *hist = td_histogram_bins(x, bins, NULL, false, &edges);
    CHECK(td_requires_grad(hist) && td_requires_grad(edges));
    CHECK(!td_backward(td_sum(edges)));
    CHECK(strstr(td_message(cx), "its derivative is not implemented") != NULL);
    td_clear(cx);

    td_histogram_bins(x, td_detach(bins), LEAF(cx, 1, 2, 3), false, &edges);
    CHECK(td_requires_grad(edges));
    td_close(cx);
}
