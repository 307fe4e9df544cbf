/* types.c -- tensors of a type in eager mode: ops, views, writes, gradients. */
#include "type_samples.h"

static double first(td_tensor *t, int i) {
    return td_item(td_sum(td_type_inner(t, i)));
}

TEST(a_type_computes_the_ops_of_its_tensors) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_ones(cx, TD_SHAPE(2, 3)), *b = td_full(cx, TD_SHAPE(2, 3), 2.0);
    td_tensor *x = make_pair(a, b, "m"), *y = td_add(td_mul(x, 3.0), a);
    CHECK(td_type_of(x) == pair_type(cx) && td_type_inner_count(x) == 2);
    CHECK(!strcmp(td_type_name(td_type_of(y)), "pair"));
    CHECK(!strcmp(td_type_metadata(y), "m") && td_size(y, 1) == 3);
    CHECK(first(y, 0) == 24 && first(y, 1) == 42);
    CHECK(td_type_of(a) == NULL && !td_type_metadata(a)[0]);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(autograd_records_ops_on_tensors_of_a_type) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_ones(cx, TD_SHAPE(2)), *b = td_full(cx, TD_SHAPE(2), 2.0);
    td_tensor *x = td_requires_grad_(make_pair(a, b, ""));
    CHECK(td_backward(td_sum(td_mul(x, x))));
    td_tensor *g = td_grad_of(x);
    CHECK(td_type_of(g) == pair_type(cx) && first(g, 0) == 4 && first(g, 1) == 8);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(writes_and_views_reach_the_inner_tensors) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_ones(cx, TD_SHAPE(2, 3)), *b = td_full(cx, TD_SHAPE(2, 3), 2.0);
    td_tensor *x = make_pair(a, b, ""), *row = td_select(x, 0, 1);
    CHECK(td_is_view(row) && td_base(row) == x);
    td_mul_(row, 10.0);
    CHECK(td_version(x) == 1 && td_item(td_sum(a)) == 33 && first(x, 1) == 66);
    td_t_(x);
    CHECK(td_size(x, 0) == 3 && td_size(td_type_inner(x, 0), 0) == 3);
    CHECK_OK(cx);
    td_close(cx);
}
