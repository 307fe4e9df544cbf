/* types.c -- tensors of a type in eager mode: ops, views, writes, gradients. */
#include "type_samples.h"

#include "graph_help.h"

static bool no_call(void *env, td_mode_call *h) {
    (void)env;
    return td_type_each(h);
}

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

TEST(null_nil_and_wrong_arguments_are_errors) {
    td_ctx      *cx = td_open();
    td_tensor   *a = td_ones(cx, TD_SHAPE(2)), *x = make_pair(a, a, "");
    const char  *names[] = {"a"};
    td_type_opts o = {TD_TYPE_OPTS, .name = "pair", .inner = names, .n_inner = 1,
                      .call = no_call};
    CHECK(td_is_nil(
        td_type_make(NULL, TD_LIST(a), "", td_sizes(a), (td_ints){0}, TD_F32)));
    td_clear(cx);
    CHECK(td_is_nil(td_type_make(pair_type(cx), TD_LIST(a), "", td_sizes(a),
                                 (td_ints){0}, TD_F32)));
    CHECK(strstr(td_message(cx), "2 inner tensors"));
    td_clear(cx);
    CHECK(td_is_nil(td_type_inner(x, 2)) && td_is_nil(td_type_inner(a, 0)));
    td_clear(cx);
    CHECK(!td_register_type(cx, &o) && strstr(td_message(cx), "another type pair"));
    td_clear(cx);
    o.name = "no name";
    CHECK(!td_register_type(cx, &o));
    td_clear(cx);
    CHECK(isnan(td_item(td_sum(x))) &&
          strstr(td_message(cx), "no elements of its own"));
    td_clear(cx);
    CHECK(!td_data(x) && !td_ok(cx));
    td_clear(cx);
    CHECK(td_is_nil(td_mul(x, td_nil(cx))));
    td_clear(cx);
    CHECK(td_is_nil(td_add_(a, x)) && strstr(td_message(cx), "types and metadata"));
    td_clear(cx);
    td_tensor *y = make_pair(a, a, "other");
    CHECK(td_is_nil(td_add(x, y)) && strstr(td_message(cx), "metadata must"));
    td_clear(cx);
    td_drop(td_keep(x));
    td_close(cx);
}

/* The storage of a plain one, which holds less, is not asked. */
TEST(a_type_that_is_computed_as_a_plain_tensor_has_no_view_of_a_storage) {
    td_ctx    *cx = td_open();
    td_tensor *d = td_ones(cx, TD_SHAPE(2));
    td_tensor *x = td_type_make(td_type_of(make_diag(d)), TD_LIST(d), "",
                                TD_SHAPE(2, 2), TD_SHAPE(4, 1), TD_F32);
    CHECK(td_is_nil(td_as_strided(x, TD_SHAPE(6), TD_SHAPE(1))));
    CHECK(strstr(td_message(cx), "it has no such view"));
    td_clear(cx);
    td_close(cx);
}

TEST(a_graph_with_values_of_a_type_prints_and_parses) {
    td_ctx *cx = td_open();
    pair_type(cx);
    counted_type(cx);
    td_close(cx);
    check_prints(
        "func @f(\n    %x: f32[2] of pair(\"m\", f32[2], f32[2]) grad,\n"
        "    %y: f32[2] of counted(\"\", f32[2] of pair(\"\", f32[2], f32[2]))) {\n"
        "  %2 = mul(%x, 2.0) : f32[2] of pair(\"m\", f32[2], f32[2]) grad\n"
        "  return %2, %y\n}\n");
}
