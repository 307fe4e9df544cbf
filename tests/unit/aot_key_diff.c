/* aot_key_diff.c -- why a call did not fit: the log names the property that differs. */
#include "aot_help.h"

static bool scaled(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_arg_number(c, 1)));
}

TEST(types_that_differ_are_named) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *a = td_ones(cx, TD_SHAPE(2, 3)), *b = td_ones(cx, TD_SHAPE(2, 3));
    td_fn     *f = td_aot_function(cx, product, NULL, NULL);

    CHECK_STR(difference_of(f, TD_ARGS(a, b), TD_ARGS(a, b)), "it fits");
    td_tensor *w = td_ones(cx, TD_SHAPE(4, 3));
    CHECK_STR(difference_of(f, TD_ARGS(a, b), TD_ARGS(w, td_ones(cx, TD_SHAPE(4, 3)))),
              "argument 0: size 4 at dim 0, was 2");
    CHECK_STR(difference_of(f, TD_ARGS(a, b), TD_ARGS(a, td_to(b, TD_F64))),
              "argument 1: dtype f64, was f32");
    CHECK_STR(difference_of(f, TD_ARGS(a, b), TD_ARGS(td_ones(cx, TD_SHAPE(3)), b)),
              "argument 0: 1 dims, were 2");
    CHECK_STR(difference_of(f, TD_ARGS(a, b),
                            TD_ARGS(td_transpose(td_ones(cx, TD_SHAPE(3, 2)), 0, 1),
                                    b)),
              "argument 0: stride 1 at dim 0, was 3");
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(flags_and_modes_that_differ_are_named) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *a = td_ones(cx, TD_SHAPE(2)), *b = td_ones(cx, TD_SHAPE(2));
    td_tensor *g = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_fn     *f = td_aot_function(cx, product, NULL, NULL);

    CHECK_STR(difference_of(f, TD_ARGS(a, b), TD_ARGS(a, g)),
              "argument 1 requires grad now");
    td_fn_drop(f);
    f = td_aot_function(cx, product, NULL, NULL);
    CHECK_STR(difference_of(f, TD_ARGS(a, g), TD_ARGS(a, td_mul(g, 2.0))),
              "argument 1 is no longer a leaf");
    td_tensor *out[1];
    heard[0] = 0;
    td_grad_mode mode = td_no_grad_begin(cx);
    CHECK(td_invoke(f, TD_ARGS(a, g), out, 1));
    td_no_grad_end(cx, mode);
    CHECK(strstr(heard, "not #0: grad mode off"));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(alias_patterns_that_differ_are_named) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *a = td_ones(cx, TD_SHAPE(2)), *b = td_ones(cx, TD_SHAPE(2));
    td_fn     *f = td_aot_function(cx, product, NULL, NULL);
    td_fn     *g = td_aot_function(cx, product, NULL, NULL);

    CHECK_STR(difference_of(f, TD_ARGS(a, b), TD_ARGS(a, a)),
              "argument 1 is the same tensor as argument 0 now");
    CHECK_STR(difference_of(g, TD_ARGS(a, a), TD_ARGS(a, b)),
              "argument 0 and argument 1 no longer are the same tensor");
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_fn     *h = td_aot_function(cx, product, NULL, NULL);
    CHECK_STR(difference_of(h, TD_ARGS(w, b), TD_ARGS(w, w)),
              "argument 1 is the same tensor as argument 0 now");
    td_fn_drop(h);
    CHECK_STR(difference_of(g, TD_ARGS(a, b), TD_ARGS(a, td_detach(a))),
              "argument 0 and argument 1 share storage now");
    CHECK_OK(cx);
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
}

TEST(numbers_and_kinds_that_differ_are_named) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *a = td_ones(cx, TD_SHAPE(2));
    td_fn     *f = td_aot_function(cx, scaled, NULL, NULL);
    td_fn     *g = td_aot_function(cx, product, NULL, NULL);

    CHECK_STR(difference_of(f, TD_ARGS(a, 2.0), TD_ARGS(a, 2.5)),
              "argument 1 is 2.5, was 2");
    CHECK_STR(difference_of(g, TD_ARGS(a, a), TD_ARGS(a, a, 1.0)),
              "3 arguments, were 2");
    CHECK_OK(cx);
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
}

static bool doubled(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_module_get(td_call_env(c), "weight")));
}
TEST(members_are_named_and_arguments_counted_without_them) {
    td_ctx    *cx = open_hearing("guards");
    td_module *m = td_nn_linear(cx, 3, 2, NULL);
    td_tensor *x = td_ones(cx, TD_SHAPE(4, 3)), *w = td_module_get(m, "weight"),
              *out[1];
    td_fn *f = td_aot_module(m, NULL), *g = td_aot_function(cx, doubled, m, NULL);

    CHECK_STR(difference_of(f, TD_ARGS(x), TD_ARGS(td_ones(cx, TD_SHAPE(5, 3)))),
              "argument 0: size 5 at dim 0, was 4");
    CHECK(td_invoke(g, TD_ARGS(td_ones(cx, TD_SHAPE(2, 3))), out, 1));
    td_set_requires_grad(w, false);
    CHECK_STR(difference_of(f, TD_ARGS(x), TD_ARGS(x)), "it fits");
    heard[0] = 0;
    CHECK(td_invoke(g, TD_ARGS(td_ones(cx, TD_SHAPE(2, 3))), out, 1));
    TD_CHECK_THAT(strstr(heard, "not #0: Linear.weight no longer requires grad"), "%s",
                  heard);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_fn_drop(g);
    td_module_free(m);
    td_close(cx);
}
