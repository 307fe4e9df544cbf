/* aot_numbers.c -- numbers among the arguments of compiled functions: constants at
 * first, inputs of the code once they have changed. */
#include "cache_help.h"
#include "grad_help.h"
#include "tower_help.h"

#include <math.h>

static int runs;

/* x[0:n] * 2 + n, and n itself */
static bool cuts(td_call *c) {
    int64_t n = td_sym_arg(c, 1);
    runs++;
    td_tensor *y = td_narrow(td_arg(c, 0), 0, 0, n);
    return td_return(c, td_add(td_mul(y, 2.0), n), td_sym_mul(n, 3));
}
static bool scales(td_call *c) {
    runs++;
    td_tensor *x = td_arg(c, 0);
    td_tensor *y = td_sub(td_mul(x, td_arg_value(c, 1)), td_arg_value(c, 2));
    return td_return(c, td_div(td_tanh(y), td_arg_value(c, 1)));
}
static bool reads(td_call *c) {
    runs++;
    return td_return(c, td_mul(td_arg(c, 0), td_arg_number(c, 1)));
}
static bool reads_int(td_call *c) {
    runs++;
    return td_return(c, td_mul(td_arg(c, 0), (double)td_arg_int(c, 1)));
}

static bool equal(td_tensor *a, td_tensor *b) {
    return td_dtype_of(a) == td_dtype_of(b) && td_numel(a) == td_numel(b) &&
           (!td_numel(a) || td_item(td_all(td_eq(a, b))) != 0);
}

/* Calls f and the body on equal arguments, and compares results and gradients. */
static void same(td_fn *f, td_body *body, td_value a, td_value b, int specs) {
    td_ctx    *cx = f->cx;
    td_value   out[2][2];
    td_tensor *g[2];
    td_scope_begin(cx, "same");
    for (int eager = 0; eager < 2; eager++) {
        td_tensor *x = td_requires_grad_(
            td_div(td_add(td_arange(cx, 0, 12, 1, TD_F32), 1.0), 7.0));
        td_value args[3] = {td_value_tensor(x), a, b};
        int      was = runs;
        int n = eager ? td_call_body(cx, body, NULL, TD_ARGS_OF(args, 3), out[1], 1)
                      : td_invoke_values(f, TD_ARGS_OF(args, 3), out[0], 1);
        TD_CHECK_THAT(n >= 1, "%s", td_message(cx));
        if (eager) runs = was;
        CHECK(td_backward(td_sum(td_mul(out[eager][0].u.t, out[eager][0].u.t))));
        g[eager] = td_grad_of(x);
    }
    CHECK(equal(out[0][0].u.t, out[1][0].u.t) && equal(g[0], g[1]));
    TD_CHECK_THAT(td_fn_specializations(f) == specs, "%d", td_fn_specializations(f));
    CHECK_OK(cx);
    td_scope_end(cx, "same", NULL);
}

static td_ctx *open_exact(void) {
    td_ctx *cx = td_open();
    CHECK(td_config_set(cx, "backend", "interp"));
    runs = 0;
    return cx;
}

TEST(an_int_that_changed_is_a_symbol) {
    td_ctx *cx = open_exact();
    td_fn  *f = td_aot_function(cx, cuts, NULL, NULL);
    same(f, cuts, td_value_int(5), TD_NONE, 1);
    same(f, cuts, td_value_int(5), TD_NONE, 1);
    for (int n = 6; n < 12; n++) same(f, cuts, td_value_int(n), TD_NONE, 2);
    CHECK(runs == 2);
    td_value out[2];
    CHECK(td_invoke_values(f, TD_ARGS(td_ones(cx, TD_SHAPE(12)), 7), out, 2) == 2);
    CHECK(out[1].kind == TD_K_INT && out[1].u.i == 21);
    same(f, cuts, td_value_int(1), TD_NONE, 4); /* 0 and 1 are numbers, */
    same(f, cuts, td_value_int(0), TD_NONE, 5); /* ...and requires_grad differs above */
    td_fn_drop(f);
    td_close(cx);
}

TEST(guards_and_messages_name_the_int) {
    td_ctx    *cx = open_exact();
    td_fn     *f = td_aot_function(cx, cuts, NULL, NULL);
    td_tensor *x = td_ones(cx, TD_SHAPE(12)), *y;
    for (int n = 5; n < 8; n++) CHECK(td_invoke(f, TD_ARGS(x, n), &y, 1));
    char text[8000];
    td_explain(f, text, sizeof text);
    TD_CHECK_THAT(strstr(text, "s0 == x1"), "%s", text);
    CHECK(strstr(text, "argument 1: an int that varies"));
    CHECK(!td_invoke(f, TD_ARGS(x, 13), &y, 1));
    CHECK(td_error(cx) == TD_E_INDEX || td_error(cx) == TD_E_SHAPE);
    td_clear(cx);
    int was = td_fn_specializations(f); /* a call that fails decides nothing */
    for (int n = 5; n < 11; n++) CHECK(td_invoke(f, TD_ARGS(x, n), &y, 1));
    CHECK(td_fn_specializations(f) == was);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_float_that_changed_is_an_input) {
    td_ctx *cx = open_exact();
    td_fn  *f = td_aot_function(cx, scales, NULL, NULL);
    same(f, scales, td_value_float(0.3), td_value_float(0.7), 1);
    for (int k = 0; k < 6; k++)
        same(f, scales, td_value_float(0.1 + k / 3.0), td_value_float(0.7), 2);
    CHECK(runs == 2);
    for (int k = 0; k < 6; k++)
        same(f, scales, td_value_float(-k - 0.1), td_value_float(k / 7.0), 3);
    CHECK(runs == 3);
    char text[8000];
    td_explain(f, text, sizeof text);
    CHECK(strstr(text, "argument 1: a float that varies"));
    td_fn_drop(f);
    td_close(cx);
}

static bool scales_any(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_arg_value(c, 1)));
}

/* A number weighs less than a 0-d tensor in promotion. */
TEST(dtypes_are_those_of_a_number) {
    td_ctx  *cx = open_exact();
    td_dtype of[] = {TD_F32, TD_F64, TD_I64, TD_U8, TD_BF16, TD_F16};
    for (int k = 0; k < TD_COUNT(of); k++)
        for (int rank = 0; rank < 2; rank++) {
            td_fn *f = td_aot_function(cx, scales_any, NULL, NULL);
            for (int n = 0; n < 4; n++) {
                td_tensor *x = td_full(cx, rank ? TD_SHAPE(3) : TD_SHAPE(), 3, of[k]);
                td_tensor *y;
                double     by = 0.1 + n / 3.0;
                CHECK(td_invoke(f, TD_ARGS(x, by), &y, 1));
                td_tensor *e = td_mul(x, by);
                CHECK(td_dtype_of(e) == td_dtype_of(y) && equal(e, y));
            }
            int specs = of[k] == TD_BF16 || of[k] == TD_F16 ? 4 : 2;
            TD_CHECK_THAT(td_fn_specializations(f) == specs, "%d %d", k,
                          td_fn_specializations(f));
            td_fn_drop(f);
        }
    td_close(cx);
}

static bool compares(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_value   v = td_arg_value(c, 1);
    td_tensor *a = td_add(td_lt(x, v), td_mul(td_le(x, v), 2));
    td_tensor *b = td_add(td_mul(td_gt(x, v), 4), td_mul(td_ge(x, v), 8));
    td_tensor *e = td_add(td_mul(td_eq(x, v), 16), td_mul(td_ne(x, v), 32));
    return td_return(c, td_add(td_add(a, b), e));
}

/* The number is compared in the tensor's dtype: 0.1 equals the f32 nearest to it. */
TEST(comparisons_are_those_with_a_number) {
    td_ctx      *cx = open_exact();
    td_dtype     of[] = {TD_F32, TD_F64, TD_I64, TD_BOOL};
    const double by[] = {0.5, 0.1, 1.0, 2.0, NAN, INFINITY, 16777217.0, -0.0};
    for (int k = 0; k < TD_COUNT(of); k++) {
        td_fn *f = td_aot_function(cx, compares, NULL, NULL);
        for (int n = 0; n < TD_COUNT(by); n++) {
            td_tensor *x = td_to(td_from_doubles(cx, by, 4), of[k]), *y;
            td_value   e;
            if (of[k] == TD_I64) x = td_add(x, 16777216);
            CHECK(td_invoke(f, TD_ARGS(x, by[n]), &y, 1));
            CHECK(td_call_body(cx, compares, NULL, TD_ARGS(x, by[n]), &e, 1) == 1);
            TD_CHECK_THAT(equal(y, e.u.t), "%d %d", k, n);
        }
        CHECK(td_fn_specializations(f) == 2);
        td_fn_drop(f);
    }
    td_close(cx);
}

TEST(a_tensor_in_the_place_of_a_varying_number_is_another_call) {
    td_ctx    *cx = open_exact();
    td_fn     *f = td_aot_function(cx, scales_any, NULL, NULL);
    td_tensor *x = td_full(cx, TD_SHAPE(), 3, TD_F32), *y;
    for (int n = 0; n < 3; n++) CHECK(td_invoke(f, TD_ARGS(x, n / 3.0), &y, 1));
    td_tensor *w = td_full(cx, TD_SHAPE(), 0.1, TD_F64);
    CHECK(td_invoke(f, TD_ARGS(x, w), &y, 1) && td_dtype_of(y) == TD_F64);
    CHECK(td_fn_specializations(f) == 3);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_number_that_is_read_stays_a_constant) {
    td_ctx    *cx = open_exact();
    td_body   *bodies[] = {reads, reads_int};
    td_tensor *x = td_ones(cx, TD_SHAPE(3)), *y;
    for (int k = 0; k < 2; k++) {
        td_fn *f = td_aot_function(cx, bodies[k], NULL, NULL);
        runs = 0;
        for (int n = 2; n < 6; n++) {
            CHECK(td_invoke(f, k ? TD_ARGS(x, n) : TD_ARGS(x, n + 0.5), &y, 1));
            CHECK(td_item(td_select(y, 0, 0)) == (k ? n : n + 0.5));
        }
        CHECK(td_fn_specializations(f) == 4 && runs == 4);
        td_fn_drop(f);
    }
    td_close(cx);
}

/* What no program can express with an input is done with constants. */
static bool needs_number(td_call *c) {
    runs++;
    return td_return(c, td_pow(td_arg(c, 0), td_arg_value(c, 1)), td_arg_value(c, 1));
}
TEST(where_an_input_is_impossible_numbers_are_constants) {
    td_ctx    *cx = open_exact();
    td_fn     *f = td_aot_function(cx, needs_number, NULL, NULL);
    td_tensor *x = td_full(cx, TD_SHAPE(3), 2.0);
    td_value   out[2];
    for (int n = 1; n < 5; n++) {
        CHECK(td_invoke_values(f, TD_ARGS(x, n + 0.5), out, 2) == 2);
        CHECK(equal(out[0].u.t, td_pow(x, n + 0.5)));
        CHECK(out[1].kind == TD_K_FLOAT && out[1].u.f == n + 0.5);
    }
    CHECK(td_fn_specializations(f) == 4 && runs == 5); /* once for nothing */
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(static_numbers_and_static_shapes_stay_constants) {
    td_ctx     *cx = open_exact();
    td_tensor  *x = td_ones(cx, TD_SHAPE(12)), *y;
    td_aot_opts o[] = {
        {TD_AOT_OPTS, .static_args = (int[]){1}, .n_static_args = 1},
        {TD_AOT_OPTS, .dynamic = TD_SHAPES_STATIC},
        {TD_AOT_OPTS, .dynamic = TD_SHAPES_MARKED},
    };
    for (int k = 0; k < TD_COUNT(o); k++) {
        td_fn *f = td_aot_function(cx, cuts, NULL, &o[k]);
        for (int n = 4; n < 8; n++) CHECK(td_invoke(f, TD_ARGS(x, n), &y, 1));
        CHECK(td_fn_specializations(f) == 4);
        td_fn_drop(f);
    }
    td_close(cx);
}

static bool picks(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_arg_value(c, 1)));
}
static bool cond_body(td_call *c) {
    td_tensor *y;
    if (!td_cond(td_arg(c, 2), (td_branches){.yes = picks, .no = picks},
                 TD_ARGS(td_arg(c, 0), td_arg_value(c, 1)), &y, 1))
        return false;
    return td_return(c, y);
}
TEST(varying_numbers_in_branches) {
    td_ctx    *cx = open_exact();
    td_fn     *f = td_aot_function(cx, cond_body, NULL, NULL);
    td_tensor *x = td_full(cx, TD_SHAPE(), 3, TD_F32), *y, *t = td_ones(cx, TD_SHAPE());
    for (int n = 1; n < 5; n++) {
        TD_CHECK_THAT(td_invoke(f, TD_ARGS(x, n / 3.0, t), &y, 1), "%s",
                      td_message(cx));
        CHECK(td_dtype_of(y) == TD_F32 && equal(y, td_mul(x, n / 3.0)));
    }
    td_fn *g = td_aot_function(cx, cond_body, NULL, NULL);
    for (int n = 2; n < 6; n++) {
        TD_CHECK_THAT(td_invoke(g, TD_ARGS(x, n, t), &y, 1), "%s", td_message(cx));
        CHECK(td_dtype_of(y) == TD_F32 && equal(y, td_mul(x, n)));
    }
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
}

TEST(gradients_of_gradients_with_varying_numbers) {
    td_ctx *cx = open_exact();
    td_fn  *f = td_aot_function(cx, scales, NULL, NULL);
    for (int n = 0; n < 4; n++) {
        double one[2];
        for (int eager = 0; eager < 2; eager++) {
            td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(3), 0.3, TD_F64));
            td_value   v[] = {td_value_tensor(x), td_value_float(0.2 + n),
                              td_value_float(0.1)};
            td_value   y;
            td_tensor *g, *h;
            CHECK((eager ? td_call_body(cx, scales, NULL, TD_ARGS_OF(v, 3), &y, 1)
                         : td_invoke_values(f, TD_ARGS_OF(v, 3), &y, 1)) == 1);
            td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
            CHECK(td_grad(TD_LIST(td_sum(y.u.t)), TD_LIST(x), &g, &o));
            CHECK(td_grad(TD_LIST(td_sum(g)), TD_LIST(x), &h, NULL));
            one[eager] = td_item(td_sum(h));
        }
        CHECK(fabs(one[0] - one[1]) < 1e-12);
    }
    td_fn_drop(f);
    td_close(cx);
}

TEST(sizes_vary_beside_an_int_that_varies) {
    td_ctx *cx = open_exact();
    td_fn  *f = td_aot_function(cx, cuts, NULL, NULL);
    for (int i = 0; i < 8; i++) {
        td_tensor *y, *x = td_ones(cx, TD_SHAPE(i < 2 ? 12 : 13 + i));
        CHECK(td_invoke(f, TD_ARGS(x, 4 + i), &y, 1) && td_size(y, 0) == 4 + i);
        TD_CHECK_THAT(td_fn_specializations(f) == (i < 2 ? i + 1 : 3), "call %d: %d", i,
                      td_fn_specializations(f));
    }
    CHECK_OK(cx);
    td_close(cx);
}

static bool two_results(td_call *c) {
    td_tensor *y = td_sin(td_arg(c, 0));
    return td_return(c, y, td_narrow(td_mul(y, y), 0, 0, td_sym_arg(c, 1)));
}
/* The int is a symbol of its own, also in the trace for one of the gradients. */
TEST(an_int_that_equals_a_size_in_a_backward_from_some_results) {
    td_ctx *cx = open_exact();
    CHECK(td_config_set(cx, "dynamic", "on"));
    td_fn     *f = td_aot_function(cx, two_results, NULL, NULL);
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(5))), *y[2];
    for (int i = 0; i < 3; i++) {
        CHECK(td_invoke(f, TD_ARGS(x, i == 1 ? 5 : 3), y, 2));
        CHECK(td_backward(td_sum(y[1])));
        CHECK_OK(cx);
    }
    CHECK(fabs(td_item(td_select(td_grad_of(x), 0, 4)) - sin(2.0)) < 1e-5);
    td_close(cx);
}

TEST(varying_numbers_are_cached) {
    td_ctx *cx = enter("cache");
    for (int k = 0; k < 2; k++) {
        td_fn     *f = td_aot_function(cx, scales, NULL, NULL);
        td_tensor *x = td_ones(cx, TD_SHAPE(3)), *y;
        for (int n = 1; n < 5; n++)
            CHECK(td_invoke(f, TD_ARGS(x, n / 3.0, 0.5), &y, 1) &&
                  td_fn_specializations(f) == (n > 1 ? 2 : 1));
        td_fn_drop(f);
    }
    CHECK(count("hit: f_") == 2 && count("stored f_") == 2);
    leave(cx);
}

TEST(reading_arguments_eagerly) {
    td_ctx  *cx = td_open();
    td_value out[2];
    CHECK(td_call_body(cx, cuts, NULL, TD_ARGS(td_ones(cx, TD_SHAPE(5)), 3), out, 2) ==
          2);
    CHECK(out[1].u.i == 9 && td_size(out[0].u.t, 0) == 3);
    CHECK(td_call_body(cx, cuts, NULL, TD_ARGS(td_ones(cx, TD_SHAPE(5)), 3.5), out, 2) <
          0);
    CHECK(aot_says(cx, TD_E_ARG, "td_sym_arg: argument 1 is a float"));
    CHECK(td_call_body(cx, scales_any, NULL, TD_ARGS(td_ones(cx, TD_SHAPE(5))), out,
                       1) < 0);
    CHECK(aot_says(cx, TD_E_ARG, "td_arg_value: there is no argument 1"));
    td_close(cx);
}
