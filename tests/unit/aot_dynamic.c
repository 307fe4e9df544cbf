/* aot_dynamic.c -- which sizes of a compiled function are symbols: marked dims, and
 * parameters where the settings say so. What a body may not ask of values. */
#include "aot_help.h"
#include "grad_help.h"
#include "tower_help.h"

static bool doubles(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_reshape(td_mul(x, 2.0), TD_DIMS(-1)));
}
static bool reads_size(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(x, (double)td_size(x, 0)));
}

static td_tensor *marked(td_ctx *cx, int64_t n) {
    td_tensor *x = td_ones(cx, TD_SHAPE(n, 3));
    td_mark_dynamic(x, 0);
    return x;
}

TEST(a_marked_dim_is_a_symbol_from_the_first_call_on) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, doubles, NULL, NULL);
    td_tensor *y;
    for (int64_t n = 5; n < 9; n++) {
        CHECK(td_invoke(f, TD_ARGS(n % 2 ? marked(cx, n) : td_ones(cx, TD_SHAPE(n, 3))),
                        &y, 1));
        CHECK(td_numel(y) == 3 * n && td_fn_specializations(f) == 1);
    }
    CHECK(td_invoke(f, TD_ARGS(marked(cx, 1)), &y, 1)); /* 0 and 1 stay numbers */
    CHECK(td_numel(y) == 3 && td_fn_specializations(f) == 2);
    CHECK(td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(6, 4))), &y, 1)); /* not marked */
    CHECK(td_numel(y) == 24 && td_fn_specializations(f) == 3);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_marked_dim_that_the_body_fixes_is_an_error) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, reads_size, NULL, NULL);
    td_tensor *y;
    CHECK(!td_invoke(f, TD_ARGS(marked(cx, 5)), &y, 1));
    CHECK(aot_says(cx, TD_E_GUARD, "dim 0 of argument 0 is marked dynamic"));
    CHECK(!td_invoke(f, TD_ARGS(marked(cx, 5)), &y, 1));
    CHECK(strstr(td_message(cx), "read at") && strstr(td_message(cx), "td_sym_size"));
    td_clear(cx);
    CHECK(td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(5, 3))), &y, 1));
    td_fn_drop(f);
    td_fn *fixed =
        td_aot_function(cx, reads_size, NULL,
                        &(td_aot_opts){TD_AOT_OPTS, .dynamic = TD_SHAPES_STATIC});
    CHECK(td_invoke(fixed, TD_ARGS(marked(cx, 5)), &y, 1)); /* none is a symbol */
    td_fn_drop(fixed);
    td_close(cx);
}

/* Sizes of a dynamic trace are tags below -2^62; an integer must not be taken for
 * one. */
static bool adds_env(td_call *c) {
    const int64_t *n = td_call_env(c);
    return td_return(c, td_add(td_arg(c, 0), *n));
}
static bool rolls_env(td_call *c) {
    const int64_t *n = td_call_env(c);
    return td_return(c, td_roll(td_arg(c, 0), TD_DIMS(*n), TD_DIMS(0)));
}

TEST(integers_below_minus_2_to_the_62_are_no_sizes) {
    td_ctx              *cx = td_open();
    static const int64_t low = -((int64_t)1 << 62);
    for (int k = 0; k < 64; k++) {
        int64_t n = k == 63 ? INT64_MIN : low - (k < 40 ? k : (int64_t)1 << (k - 1));
        td_aot_opts o = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};
        td_fn      *f = td_aot_function(cx, adds_env, &n, &o);
        td_tensor  *y, *x = td_arange(cx, 0, 3);
        CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
        CHECK(td_item_int(td_select(y, 0, 2)) == n + 2);
        td_fn_drop(f);
    }
    td_close(cx);
}

TEST(shifts_below_minus_2_to_the_62_work_eagerly_and_are_unsupported_in_graphs) {
    td_ctx    *cx = td_open();
    int64_t    n = INT64_MIN; /* 1 modulo 3 */
    td_tensor *x =
        td_requires_grad_(td_from(cx, TD_F32, TD_SHAPE(3), (float[]){1, 2, 3}));
    td_tensor *y = td_roll(x, TD_DIMS(n), TD_DIMS(0));
    CHECK_VALUES(y, 3, 1, 2);
    td_backward(td_sum(td_mul(y, td_arange(cx, 1, 4))));
    CHECK_VALUES(td_grad_of(x), 2, 3, 1);
    CHECK_OK(cx);
    for (int way = TD_SHAPES_AUTO; way <= TD_SHAPES_STATIC; way++) {
        td_aot_opts o = {TD_AOT_OPTS, .dynamic = (td_shapes)way};
        td_fn      *f = td_aot_function(cx, rolls_env, &n, &o);
        CHECK(!td_invoke(f, TD_ARGS(x), &y, 1));
        CHECK(aot_says(cx, TD_E_UNSUPPORTED, "contains -9223372036854775808"));
        td_fn_drop(f);
    }
    td_close(cx);
}

static bool matrices(td_call *c) {
    return td_return(c, td_matmul(td_arg(c, 1), td_arg(c, 0)));
}
static bool explains(td_fn *f, const char *words) {
    char text[8000];
    td_explain(f, text, sizeof text);
    return strstr(text, words) != NULL;
}

TEST(sizes_of_parameters_are_numbers_unless_static_params_is_off) {
    td_ctx     *cx = td_open();
    td_aot_opts o = {TD_AOT_OPTS, .n_params = 1, .dynamic = TD_SHAPES_DYNAMIC};
    td_tensor  *w = td_set_requires_grad(td_ones(cx, TD_SHAPE(4, 3)), true), *y;
    td_tensor  *x = td_ones(cx, TD_SHAPE(5, 4));
    for (int off = 0; off < 2; off++) {
        td_config_set(cx, "static_params", off ? "off" : "on");
        td_fn *f = td_aot_function(cx, matrices, NULL, &o);
        CHECK(td_invoke(f, TD_ARGS(w, x), &y, 1));
        CHECK(explains(f, off ? "f32[s0,s1]" : "f32[4,3]"));
        CHECK(td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(4, 7)), x), &y, 1));
        CHECK(td_size(y, 1) == 7);
        td_fn_drop(f);
    }
    td_module *m = td_nn_linear(cx, 4, 3, NULL);
    td_fn     *f =
        td_aot_module(m, &(td_aot_opts){TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC});
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_size(y, 1) == 3);
    CHECK(!explains(f, "f32[3,4]"));
    td_fn_drop(f);
    td_module_free(m);
    td_close(cx);
}

static bool asks_for_a_number(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(x, td_item(td_sum(x))));
}
TEST(a_number_read_in_a_body_is_an_error_with_its_remedies) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, asks_for_a_number, NULL, NULL);
    td_tensor *y;
    CHECK(!td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(3))), &y, 1));
    CHECK(strstr(td_message(cx), "pass the number as an argument"));
    CHECK(strstr(td_message(cx), "td_where"));
    CHECK(aot_says(cx, TD_E_TRACE, "td_item: "));
    td_fn_drop(f);
    td_close(cx);
}

/* With keep_mutations the graph writes inputs itself, by nodes that stand for the
 * user's line. */
static bool counts(td_call *c) {
    td_add_(td_arg(c, 0), 1.0);
    return td_return(c, td_mul(td_arg(c, 0), 2.0));
}
TEST(a_write_left_in_the_graph_has_its_source_line) {
    td_ctx     *cx = open_hearing("joint");
    td_aot_opts o = {TD_AOT_OPTS, .keep_mutations = true};
    td_fn      *f = td_aot_function(cx, counts, NULL, &o);
    td_tensor  *y;
    char       *copy;
    CHECK(td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(3))), &y, 1));
    CHECK((copy = strstr(heard, "copy_(")) != NULL);
    copy[strcspn(copy, "\n")] = 0;
    CHECK(strstr(copy, "aot_dynamic.c") != NULL);
    td_fn_drop(f);
    td_close(cx);
}
