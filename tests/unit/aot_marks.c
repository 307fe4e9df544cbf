/* aot_marks.c -- dims marked with td_mark_dynamic and its kin in compiled functions. */
#include "cache_help.h"
#include "grad_help.h"
#include "tower_help.h"

static bool doubles(td_call *c) {
    return td_return(c, td_reshape(td_mul(td_arg(c, 0), 2.0), TD_DIMS(-1)));
}
static bool pairs(td_call *c) {
    return td_return(c, td_reshape(td_arg(c, 0), TD_DIMS(-1, 6)));
}
static bool reads_size(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(x, (double)td_size(x, 0)));
}
static bool strides(td_call *c) {
    return td_return(c, td_as_strided(td_arg(c, 0), TD_SHAPE(2), TD_DIMS(1), 0));
}
static bool adds(td_call *c) {
    return td_return(c, td_add(td_arg(c, 0), td_arg(c, 1)));
}

static td_tensor *of(td_ctx *cx, int64_t n) { return td_ones(cx, TD_SHAPE(n, 3)); }
static td_tensor *marked(td_ctx *cx, int64_t n) {
    td_tensor *x = of(cx, n);
    CHECK(td_mark_dynamic(x, 0));
    return x;
}
static td_tensor *within(td_ctx *cx, int64_t n, int64_t least, int64_t most) {
    td_tensor *x = of(cx, n);
    CHECK(td_mark_dynamic_range(x, -2, least, most));
    return x;
}
static void doubled(td_fn *f, td_tensor *x, int specs) {
    td_tensor *y;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(td_numel(y) == td_numel(x) && td_fn_specializations(f) == specs);
}
static bool explains(td_fn *f, const char *words) {
    char text[8000];
    td_explain(f, text, sizeof text);
    return strstr(text, words) != NULL;
}
/* The error has all of these in it. */
static void fails(td_fn *f, td_tensor *x, const char *a, const char *b) {
    td_tensor *y;
    td_ctx    *cx = td_ctx_of(x);
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1) && td_error(cx) == TD_E_GUARD);
    TD_CHECK_THAT(strstr(td_message(cx), a) && strstr(td_message(cx), b), "%s",
                  td_message(cx));
    td_clear(cx);
}

TEST(bounds_of_a_marked_dim_are_guards) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, doubles, NULL, NULL);
    for (int64_t n = 2; n < 9; n++) doubled(f, within(cx, n, 0, 8), 1);
    CHECK(explains(f, "2 <= s0 <= 8"));
    doubled(f, of(cx, 8), 1);
    doubled(f, of(cx, 9), 2);
    doubled(f, within(cx, 1, 0, 8), 3); /* 0 and 1 stay numbers */
    td_fn_drop(f);
    td_close(cx);
}

TEST(bounds_that_the_program_narrows_are_an_error) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, pairs, NULL, NULL);
    char    where[80];
    snprintf(where, sizeof where, "reshape at %s:%d", __FILE__, 10);
    fails(f, within(cx, 4, 2, 64),
          "dim 0 of argument 0 is marked dynamic for sizes 2 "
          "to 64",
          where);
    doubled(f, marked(cx, 4), 1); /* one code for many sizes, not for all */
    doubled(f, marked(cx, 8), 1);
    td_fn_drop(f);
    td_close(cx);
}

TEST(bounds_are_checked_where_they_are_given) {
    td_ctx    *cx = td_open();
    td_tensor *x = of(cx, 5);
    CHECK(!td_mark_dynamic_range(x, 0, 3, 2));
    CHECK(aot_says(cx, TD_E_ARG, "no size from 3 to 2"));
    CHECK(!td_mark_dynamic_range(x, 0, -1, 2));
    CHECK(aot_says(cx, TD_E_ARG, "no size from -1 to 2"));
    CHECK(!td_mark_dynamic_range(x, 0, 6, 9));
    CHECK(aot_says(cx, TD_E_ARG, "has size 5, which is not from 6 to 9"));
    CHECK(!td_mark_dynamic_range(x, 2, 0, 9));
    CHECK(aot_says(cx, TD_E_INDEX, "td_mark_dynamic_range: "));
    CHECK(!td_mark_maybe_dynamic(td_ones(cx, TD_SHAPE()), 0));
    CHECK(aot_says(cx, TD_E_INDEX, "td_mark_maybe_dynamic: "));
    td_close(cx);
}

TEST(code_for_a_number_does_not_serve_a_marked_dim) {
    td_ctx *cx = open_hearing("guards");
    td_fn  *f = td_aot_function(cx, doubles, NULL, NULL);
    doubled(f, of(cx, 5), 1);
    doubled(f, marked(cx, 5), 2);
    CHECK(!strcmp(difference(), "dim 0 of argument 0 is marked dynamic now"));
    doubled(f, marked(cx, 6), 2);
    doubled(f, of(cx, 7), 2);
    td_fn_drop(f);
    f = td_aot_function(cx, reads_size, NULL, NULL);
    doubled(f, of(cx, 5), 1);
    fails(f, marked(cx, 5), "size 5", "s0 == 5 (read at "); /* not: it runs by chance */
    td_fn_drop(f);
    td_close(cx);
}

TEST(with_marked_shapes_no_other_size_is_a_symbol) {
    td_ctx     *cx = td_open();
    td_aot_opts o = {TD_AOT_OPTS, .dynamic = TD_SHAPES_MARKED};
    td_fn      *f = td_aot_function(cx, doubles, NULL, &o);
    for (int k = 1; k < 4; k++) doubled(f, of(cx, 4 + k), k);
    doubled(f, marked(cx, 5), 4);
    doubled(f, marked(cx, 9), 4);
    td_fn_drop(f);
    CHECK(td_config_set(cx, "dynamic", "marked"));
    f = td_aot_function(cx, doubles, NULL, NULL);
    for (int k = 1; k < 4; k++) doubled(f, of(cx, 4 + k), k);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_weak_mark_is_no_promise) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, doubles, NULL, NULL);
    td_fn     *g = td_aot_function(cx, reads_size, NULL, NULL);
    td_tensor *x = of(cx, 5);
    CHECK(td_mark_maybe_dynamic(x, 0));
    doubled(g, x, 1);
    doubled(f, x, 1);
    CHECK(explains(f, "f32[s0,3]"));
    doubled(f, of(cx, 6), 1);
    td_fn_drop(f);
    f = td_aot_function(cx, doubles, NULL, NULL);
    doubled(f, of(cx, 5), 1);
    doubled(f, x, 1); /* what fits serves */
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
}

TEST(a_marked_dim_that_cannot_be_a_symbol_is_an_error) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, strides, NULL, NULL);
    td_tensor *y, *x = of(cx, 5), *w = td_requires_grad_(of(cx, 4));
    fails(f, marked(cx, 5), "dim 0 of argument 0", "as_strided");
    td_fn_drop(f);
    f = td_aot_function(cx, doubles, NULL, NULL);
    td_tensor *v = td_slice(w, 0, 0, 2);
    CHECK(td_mark_dynamic(v, 1));
    fails(f, v, "dim 1 of argument 0", "argument 0 is a view that requires grad");
    td_fn_drop(f);
    f = td_aot_function(cx, adds, NULL, &(td_aot_opts){TD_AOT_OPTS, .n_params = 1});
    CHECK(td_mark_dynamic(w, 0));
    CHECK(!td_invoke(f, TD_ARGS(w, x), &y, 1));
    CHECK(aot_says(cx, TD_E_SHAPE, ""));
    CHECK(!td_invoke(f, TD_ARGS(w, of(cx, 4)), &y, 1));
    CHECK(aot_says(cx, TD_E_GUARD, "setting static_params"));
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_view_that_requires_grad_leaves_marks_of_other_arguments) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, adds, NULL, NULL);
    td_tensor *y, *w = td_requires_grad_(of(cx, 4)), *v = td_slice(w, 0, 1, 2);
    for (int64_t n = 4; n < 7; n++) {
        CHECK(td_invoke(f, TD_ARGS(marked(cx, n), v), &y, 1));
        CHECK(td_size(y, 0) == n && td_fn_specializations(f) == 1);
        td_zero_grad(w);
        td_backward(td_sum(y));
        CHECK(td_item(td_sum(td_grad_of(w))) == (double)(3 * n));
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(two_marked_dims_may_turn_out_to_be_equal) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, adds, NULL, NULL);
    td_tensor *y;
    for (int64_t n = 4; n < 7; n++) {
        CHECK(td_invoke(f, TD_ARGS(marked(cx, n), marked(cx, n)), &y, 1));
        CHECK(td_size(y, 0) == n && td_fn_specializations(f) == 1);
    }
    CHECK(!td_invoke(f, TD_ARGS(marked(cx, 4), marked(cx, 5)), &y, 1));
    CHECK(aot_says(cx, TD_E_SHAPE, ""));
    td_fn_drop(f);
    td_close(cx);
}

TEST(stages_honour_marks) {
    td_ctx    *cx = td_open();
    td_staged *s = td_stage_capture(cx, doubles, NULL, TD_ARGS(marked(cx, 5)), NULL);
    td_fn     *f = td_stage_compile(s);
    doubled(f, marked(cx, 6), 1);
    doubled(f, of(cx, 7), 1);
    td_fn_drop(f);
    td_stage_drop(s);
    td_close(cx);
}

TEST(exports_honour_marks) {
    td_ctx        *cx = td_open();
    td_export_opts o = {TD_EXPORT_OPTS};
    td_exported   *e =
        td_export_joint(cx, doubles, NULL, TD_ARGS(within(cx, 5, 2, 9)), &o);
    td_value out;
    CHECK(td_exported_run(e, TD_ARGS(of(cx, 9)), &out, 1));
    CHECK(!td_exported_run(e, TD_ARGS(of(cx, 10)), &out, 1));
    CHECK(strstr(td_message(cx), "from 2 to 9"));
    td_clear(cx);
    td_exported_drop(e);
    td_tensor *weak = of(cx, 5);
    td_mark_maybe_dynamic(weak, 0);
    e = td_export_joint(cx, doubles, NULL, TD_ARGS(weak), &o);
    CHECK(!td_exported_run(e, TD_ARGS(of(cx, 9)), &out, 1));
    td_clear(cx);
    td_exported_drop(e);
    td_close(cx);
}

TEST(an_entry_on_disk_for_one_size_does_not_serve_a_marked_dim) {
    td_ctx     *cx = enter("cache");
    td_aot_opts o = {TD_AOT_OPTS, .version = "1"};
    for (int k = 0; k < 4; k++) {
        td_fn *f = td_aot_function(cx, doubles, NULL, &o);
        doubled(f, k % 2 ? marked(cx, 5) : of(cx, 5), 1);
        CHECK((f->specs->guards != NULL) == (k % 2 == 1));
        doubled(f, of(cx, 6), k % 2 ? 1 : 2);
        td_fn_drop(f);
    }
    CHECK(count("hit: f_") >= 2);
    td_fn *f = td_aot_function(cx, pairs, NULL, NULL);
    doubled(f, marked(cx, 4), 1);
    td_fn_drop(f);
    f = td_aot_function(cx, pairs, NULL, NULL);
    fails(f, within(cx, 4, 2, 64), "for sizes 2 to 64", "reshape at ");
    td_fn_drop(f);
    leave(cx);
}

/* ---- results ------------------------------------------------------------ */

TEST(results_carry_weak_marks_to_the_next_function) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, doubles, NULL, NULL);
    td_fn     *g = td_aot_function(cx, adds, NULL, NULL);
    td_fn     *h = td_aot_function(cx, reads_size, NULL, NULL);
    td_tensor *y, *z;
    for (int64_t n = 5; n < 9; n++) {
        CHECK(td_invoke(f, TD_ARGS(marked(cx, n)), &y, 1));
        CHECK(td_invoke(g, TD_ARGS(y, y), &z, 1) && td_size(z, 0) == 3 * n);
        CHECK(td_fn_specializations(f) == 1 && td_fn_specializations(g) == 1);
    }
    CHECK(explains(g, "f32[s0]"));
    CHECK(td_invoke(h, TD_ARGS(y), &z, 1)); /* no promise: its size is read */
    CHECK_OK(cx);
    td_fn *plain = td_aot_function(cx, doubles, NULL, NULL);
    CHECK(td_invoke(plain, TD_ARGS(of(cx, 5)), &y, 1) && y->maybe == 0);
    td_fn *fns[] = {f, g, h, plain};
    for (int i = 0; i < 4; i++) td_fn_drop(fns[i]);
    td_close(cx);
}

TEST(results_of_code_from_disk_are_marked_too) {
    td_ctx     *cx = enter("cache");
    td_aot_opts o = {TD_AOT_OPTS, .version = "1"};
    for (int k = 0; k < 2; k++) {
        td_fn     *f = td_aot_function(cx, doubles, NULL, &o);
        td_tensor *y;
        CHECK(td_invoke(f, TD_ARGS(marked(cx, 5)), &y, 1) && y->maybe == 1);
        td_fn_drop(f);
    }
    CHECK(count("hit: f_") == 1);
    leave(cx);
}

/* ---- static arguments --------------------------------------------------- */

static bool product_tanh(td_call *c) {
    td_tensor *w = td_arg(c, 1);
    return td_return(c, td_tanh(td_mul(td_arg(c, 0), w)), td_mul(w, w));
}

TEST(sizes_of_static_arguments_are_numbers) {
    td_ctx     *cx = td_open();
    int         second[] = {1};
    td_aot_opts o = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC, .static_args = second,
                     .n_static_args = 1};
    td_fn      *f = td_aot_function(cx, product_tanh, NULL, &o);
    second[0] = 7; /* it was copied */
    td_tensor *y[2], *x = of(cx, 5), *w = td_requires_grad_(td_ones(cx, TD_SHAPE(3)));
    CHECK(td_invoke(f, TD_ARGS(x, w), y, 2));
    CHECK(explains(f, "f32[s0,3]") && explains(f, "f32[3]"));
    CHECK(td_invoke(f, TD_ARGS(of(cx, 6), w), y, 2) && td_fn_specializations(f) == 1);
    CHECK(!td_invoke(f, TD_ARGS(x), y, 2));
    CHECK(aot_says(cx, TD_E_ARG, "static_args names argument 1"));
    CHECK(td_mark_dynamic(w, 0));
    CHECK(!td_invoke(f, TD_ARGS(x, w), y, 2));
    CHECK(aot_says(cx, TD_E_GUARD, "dim 0 of argument 1"));
    td_fn_drop(f);
    td_close(cx);
}

TEST(wrong_static_arguments_are_errors) {
    td_ctx     *cx = td_open();
    int         none[] = {-1};
    td_aot_opts o = {TD_AOT_OPTS, .static_args = none, .n_static_args = 1};
    CHECK(td_is_nil(td_aot_function(cx, doubles, NULL, &o)));
    CHECK(aot_says(cx, TD_E_ARG, "there is no argument -1"));
    o.static_args = NULL;
    CHECK(td_is_nil(td_aot_function(cx, doubles, NULL, &o)));
    CHECK(aot_says(cx, TD_E_ARG, "static_args is NULL, and n_static_args is 1"));
    td_close(cx);
}

/* What backward reads of a static argument is saved for nothing. */
TEST(saving_a_static_argument_is_free) {
    td_ctx *cx = td_open();
    int     second[] = {1};
    for (int is = 0; is < 2; is++) {
        td_aot_opts o = {TD_AOT_OPTS, .static_args = second, .n_static_args = is};
        td_staged  *s = td_stage_capture(cx, product_tanh, NULL,
                                         TD_ARGS(td_requires_grad_(of(cx, 4)),
                                                 td_ones(cx, TD_SHAPE(3))),
                                         &o);
        CHECK(td_stage_input(s, 1).kind == (is ? TD_SLOT_BUFFER : TD_SLOT_PLAIN));
        CHECK(td_stage_input(s, 0).kind == TD_SLOT_PLAIN);
        td_stage_drop(s);
    }
    td_close(cx);
}

static bool product_and_sine(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    return td_return(c, td_mul(a, b), td_sin(b));
}

/* The capture finds the two marked sizes to be equal, and is not repeated for a
 * backward with one of the tangents. */
TEST(a_backward_from_one_result_has_equal_marked_sizes) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, product_and_sine, NULL, NULL);
    for (int64_t n = 4; n < 9; n += 2) {
        td_tensor *a = td_requires_grad_(marked(cx, n)), *y[2], *g;
        td_tensor *b = td_requires_grad_(marked(cx, n));
        CHECK(td_invoke(f, TD_ARGS(a, b), y, 2));
        td_tensor *loss = td_sum(y[0]);
        CHECK(td_grad(TD_LIST(loss), TD_LIST(b), &g, NULL));
        CHECK(td_item(td_sum(g)) == (double)(3 * n));
    }
    CHECK(td_fn_specializations(f) == 1);
    CHECK_OK(cx);
    td_close(cx);
}
