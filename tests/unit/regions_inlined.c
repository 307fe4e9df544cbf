/* regions_inlined.c -- regions whose ops become part of the program around them, and
 * regions with numbers and closed-over tensors: a compiled function that contains them
 * behaves as eager does. */
#include "aot_sides.h"

static td_tensor *call_as(td_call *c, td_region_body of, td_values args) {
    td_tensor *y = td_nil(td_call_ctx(c));
    td_call_region(td_call_ctx(c), of, args, &y, 1);
    return y;
}
static td_tensor *call(td_call *c, td_body *body, td_values args) {
    return call_as(c, (td_region_body){.body = body}, args);
}

/* ---- scenes ------------------------------------------------------------- */

/* Two calls with a backward each. */
static void train(side *s) {
    for (int i = 0; i < 2; i++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(3, 3), 0.1 + i);
        td_tensor *w = leaf(s->cx, TD_SHAPE(3, 3), -0.3), *y;
        y = ask1(s, TD_ARGS(x, w, 2.0 + i));
        tell(s, "y", y);
        if (td_ok(s->cx) && td_requires_grad(y)) td_backward(td_sum(td_mul(y, y)));
        tell(s, "x", x);
        tell_grad(s, "gx", td_grad_of(x));
        tell_grad(s, "gw", td_grad_of(w));
    }
}

/* Sizes that vary, where the function is compiled for symbols. */
static void sizes(side *s) {
    for (int n = 3; n < 6; n++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(n, 3), 0.1);
        td_tensor *w = leaf(s->cx, TD_SHAPE(3, 3), -0.3);
        td_tensor *y = ask1(s, TD_ARGS(x, w, 2.0));
        tell(s, "y", y);
        if (td_ok(s->cx)) td_backward(td_sum(td_mul(y, y)));
        tell_grad(s, "gx", td_grad_of(x));
        tell_grad(s, "gw", td_grad_of(w));
    }
}

/* ---- arguments ---------------------------------------------------------- */

static bool scaled(td_call *c) {
    td_tensor *h = td_mul(td_arg(c, 0), td_arg_number(c, 2));
    return td_return(c, td_sin(td_matmul(h, td_arg(c, 1))));
}

/* Numbers and an absent argument, of calls that share a graph and of another. */
static bool numbers(td_call *c) {
    td_region_body of = {.body = scaled, .once = true};
    td_tensor     *x = td_arg(c, 0), *w = td_arg(c, 1);
    x = call_as(c, of, TD_ARGS(x, w, 2.0, TD_NONE));
    x = call_as(c, of, TD_ARGS(x, w, 2.0, TD_NONE));
    x = call_as(c, of, TD_ARGS(x, w, 3, TD_NONE));
    return td_return(c, call_as(c, of, TD_ARGS(x, x, true, TD_NONE)));
}

/* The number of the call itself, which becomes an input of the code. */
static bool by_value(td_call *c) {
    return td_return(c, td_sin(td_mul(td_arg(c, 0), td_arg_value(c, 1))));
}
static bool varying(td_call *c) {
    td_tensor *x = call(c, by_value, TD_ARGS(td_arg(c, 0), td_arg_value(c, 2)));
    return td_return(c, call(c, by_value, TD_ARGS(x, td_arg_value(c, 2))));
}

static bool closing(td_call *c) {
    return td_return(c, td_tanh(td_matmul(td_arg(c, 0), td_call_env(c))));
}
static bool closed_once(td_call *c) {
    td_region_body of = {.body = closing, .env = td_arg(c, 1), .once = true};
    td_tensor     *x = td_arg(c, 0);
    for (int i = 0; i < 3; i++) x = call_as(c, of, TD_ARGS(x));
    return td_return(c, x);
}

/* The first argument is the tensor that the body closes over, the second is not. */
static bool closed_argument(td_call *c) {
    td_region_body of = {.body = closing, .env = td_arg(c, 1), .once = true};
    td_tensor     *y = call_as(c, of, TD_ARGS(td_arg(c, 1)));
    return td_return(c, td_add(y, call_as(c, of, TD_ARGS(td_arg(c, 0)))));
}

TEST(regions_take_numbers_and_close_over_tensors) {
    check_scene(train, numbers);
    check_scene(train, varying);
    check_scene(train, closed_once);
    check_scene(train, closed_argument);
}

static bool block(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_add(x, td_tanh(td_matmul(x, td_arg(c, 1)))));
}
static bool blocks(td_call *c) {
    td_tensor *x = call(c, block, TD_ARGS(td_arg(c, 0), td_arg(c, 1)));
    return td_return(c, call(c, block, TD_ARGS(x, td_arg(c, 1))));
}
TEST(regions_of_symbolic_sizes_do_what_eager_does) {
    static const td_aot_opts dynamic = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};
    check_with(sizes, blocks, NULL, &dynamic);
    check_with(sizes, blocks, NULL, NULL);
}

/* ---- bodies that cannot be one node ------------------------------------- */

static bool feeds(td_call *c) {
    td_tensor *h = td_exp(td_mul(td_arg(c, 0), 0.1));
    return td_return(c, h, td_tanh(h));
}
static bool result_of_a_result(td_call *c) {
    td_tensor *y[2], *x = td_arg(c, 0);
    td_call_region(td_call_ctx(c), (td_region_body){.body = feeds}, TD_ARGS(x), y, 2);
    td_call_region(td_call_ctx(c), (td_region_body){.body = feeds}, TD_ARGS(y[1]), y,
                   2);
    return td_return(c, td_add(y[0], y[1]));
}

static bool picks(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_sum(td_masked_select(x, td_gt(x, 0.3))));
}
static bool size_by_values(td_call *c) {
    td_tensor *s = call(c, picks, TD_ARGS(td_arg(c, 0)));
    return td_return(c, td_mul(td_arg(c, 1), s));
}

/* Gradients are on inside of a region that is called under no_grad. */
static bool enables(td_call *c) {
    td_ctx      *cx = td_call_ctx(c);
    td_grad_mode was = td_enable_grad_begin(cx);
    td_tensor   *y = td_mul(td_arg(c, 0), td_arg(c, 1));
    td_enable_grad_end(cx, was);
    return td_return(c, y);
}
static bool under_no_grad(td_call *c) {
    td_ctx      *cx = td_call_ctx(c);
    td_grad_mode was = td_no_grad_begin(cx);
    td_tensor   *y = call(c, enables, TD_ARGS(td_arg(c, 0), td_arg(c, 1)));
    td_no_grad_end(cx, was);
    return td_return(c, td_sin(y));
}

/* A leaf of the body's own, and a result without a history. */
static bool makes_leaf(td_call *c) {
    td_tensor *l = td_requires_grad_(td_mul(td_detach(td_arg(c, 0)), 2.0));
    return td_return(c, td_mul(l, td_arg(c, 1)));
}
static bool own_leaf(td_call *c) {
    return td_return(c, call(c, makes_leaf, TD_ARGS(td_arg(c, 0), td_arg(c, 1))));
}
static bool detaches(td_call *c) {
    return td_return(c, td_exp(td_detach(td_arg(c, 0))));
}
static bool no_history(td_call *c) {
    return td_return(c, td_mul(call(c, detaches, TD_ARGS(td_arg(c, 0))), td_arg(c, 1)));
}

/* Metadata of an operand, and of a tensor of its own, is written. */
static bool turns(td_call *c) {
    td_tensor *h = td_mul(td_arg(c, 0), 2.0);
    td_transpose_(h, 0, 1);
    return td_return(c, td_add(h, 1.0));
}
static bool transposed(td_call *c) {
    td_tensor *h = call(c, turns, TD_ARGS(td_arg(c, 0)));
    return td_return(c, td_matmul(h, td_arg(c, 1)));
}

TEST(regions_that_cannot_be_one_node_do_what_eager_does) {
    check_scene(train, result_of_a_result);
    check_scene(train, size_by_values);
    check_scene(train, under_no_grad);
    check_scene(train, own_leaf);
    check_scene(train, no_history);
    check_scene(train, transposed);
}

/* The body writes a value that its backward needs. */
static bool overwrites(td_call *c) {
    td_tensor *h = td_exp(td_arg(c, 0));
    td_mul_(h, 2.0);
    return td_return(c, td_add(h, 1.0));
}
static bool broken(td_call *c) {
    return td_return(c, call(c, overwrites, TD_ARGS(td_arg(c, 0))));
}
static void fails(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(2, 2), 0.1);
    td_tensor *y = ask1(s, TD_ARGS(x));
    tell(s, "y", y);
    td_backward(td_sum(y));
    tell_error(s, "modified in place");
}
TEST(a_region_whose_backward_fails_in_eager_fails_alike) { check_scene(fails, broken); }

/* ---- gradients and errors ------------------------------------------------ */

/* Of a history that begins in the region. */
static bool takes_grad(td_call *c) {
    td_tensor *x = td_arg(c, 0), *g;
    return td_grad(TD_LIST(td_sum(td_mul(x, x))), TD_LIST(x), &g, NULL) &&
           td_return(c, td_add(g, 1.0));
}
static bool grad_region(td_call *c) {
    td_tensor *h = td_mul(td_arg(c, 0), td_arg(c, 1));
    return td_return(c, td_mul(call(c, takes_grad, TD_ARGS(h)), h));
}
TEST(a_region_takes_gradients_of_its_arguments) { check_scene(train, grad_region); }

/* The gradient of sum(a * x) by x; a may be computed from x outside of the region. */
static bool slope(td_call *c) {
    td_tensor *a = td_arg(c, 0), *x = td_arg(c, 1), *g;
    return td_grad(TD_LIST(td_sum(td_mul(a, x))), TD_LIST(x), &g, NULL) &&
           td_return(c, td_add(g, 1.0));
}

/* The first call has no such history, the second has: the gradient passes through it,
 * so that the body becomes a part of the program around it. */
static bool slopes(td_call *c) {
    td_tensor     *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_region_body of = {.body = slope, .once = true};
    td_tensor     *a = call_as(c, of, TD_ARGS(td_mul(w, 2.0), x));
    return td_return(c, td_add(a, call_as(c, of, TD_ARGS(td_mul(x, 2.0), x))));
}
TEST(a_promise_does_not_hide_the_history_of_other_arguments) {
    td_ctx    *cx = td_open();
    td_tensor *x = leaf(cx, TD_SHAPE(2), 0.1), *w = leaf(cx, TD_SHAPE(2), 0.3), *y;
    td_fn     *f = td_aot_function(cx, slopes, NULL, NULL);
    td_value   v;
    CHECK(td_call_body(cx, slopes, NULL, TD_ARGS(x, w), &v, 1) == 1);
    CHECK(td_invoke(f, TD_ARGS(x, w), &y, 1));
    CHECK(td_item(td_sum(td_abs(td_sub(y, v.u.t)))) == 0);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

static bool gives_number(td_call *c) { return td_return(c, 2.0); }
static bool number_region(td_call *c) {
    return td_return(c, call(c, gives_number, TD_ARGS(td_arg(c, 0))));
}
static bool accumulates(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_backward(td_sum(td_mul(x, x))) && td_return(c, td_add(x, 1.0));
}
static bool backward_region(td_call *c) {
    return td_return(c, call(c, accumulates, TD_ARGS(td_arg(c, 0))));
}

TEST(regions_that_return_numbers_or_go_backward_are_errors) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2))), *y;
    td_fn     *f = td_aot_function(cx, number_region, NULL, NULL);
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(strstr(td_message(cx), "result 0 of the body is a number or absent"));
    td_clear(cx);
    td_fn_drop(f);
    f = td_aot_function(cx, backward_region, NULL, NULL);
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1) && td_error(cx) == TD_E_UNSUPPORTED);
    CHECK(strstr(td_message(cx), "changes the .grad of a tensor"));
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}
