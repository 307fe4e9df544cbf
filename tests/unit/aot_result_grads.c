/* aot_result_grads.c -- gradients of results that other results of the same compiled
 * call were computed from. Eager sends the gradients of the others through them; a
 * compiled call is one node and cannot. It refuses exactly where that would show. */
#include "aot_sides.h"

#include <string.h>

static td_ctx *cx;

static bool refuses(const char *part) {
    bool ok = td_error(cx) == TD_E_UNSUPPORTED && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

static td_tensor *tenfold(void *env, td_tensor *g) {
    (void)env;
    return td_mul(g, 10.0);
}

/* h, and y computed from h. */
static bool chain_body(td_call *c) {
    td_tensor *h = td_mul(td_arg(c, 0), 2.0);
    return td_return(c, h, td_mul(h, h));
}

/* The argument is written; y is computed from what was written. */
static bool write_body(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_mul_(x, 2.0);
    return td_return(c, td_mul(x, x));
}

/* A view of the argument, and y computed from the view. */
static bool view_body(td_call *c) {
    td_tensor *v = td_reshape(td_arg(c, 0), TD_SHAPE(-1));
    return td_return(c, v, td_mul(v, v));
}

static bool fork_body(td_call *c) {
    td_tensor *h = td_mul(td_arg(c, 0), 2.0);
    return td_return(c, td_exp(h), td_mul(h, h));
}

/* All the ways to ask for the gradient of h in a backward from y. */
static void ask_all(td_tensor *(*call)(td_fn *, td_tensor **), td_fn *f,
                    const char *part) {
    td_tensor   *h, *g, *y = call(f, &h);
    td_grad_opts zeros = {TD_GRAD_OPTS, .materialize = true, .retain_graph = true};
    CHECK(td_ok(cx));
    CHECK(!td_grad(TD_LIST(td_sum(y)), TD_LIST(h), &g, &zeros));
    CHECK(refuses(part));
    td_backward_opts to = {TD_BACKWARD_OPTS, .inputs = TD_LIST(h)};
    CHECK(!td_backward_with(TD_LIST(td_sum(y)), (td_tensors){0}, &to));
    CHECK(refuses(part));
    y = call(f, &h);
    CHECK(!(td_retain_grad(h) && td_backward(td_sum(y))));
    CHECK(refuses(part));
    y = call(f, &h);
    CHECK(!(td_on_grad(h, tenfold, NULL) && td_backward(td_sum(y))));
    CHECK(refuses(part));
    y = call(f, &h);
    CHECK(td_backward(td_sum(y))); /* nobody asks */
}

static td_tensor *call_chain(td_fn *f, td_tensor **h) {
    td_tensor *x = leaf(cx, TD_SHAPE(3), 0.1), *y[2];
    td_invoke(f, TD_ARGS(x), y, 2);
    *h = y[0];
    return y[1];
}

static td_tensor *call_write(td_fn *f, td_tensor **h) {
    td_tensor *y;
    *h = td_mul(leaf(cx, TD_SHAPE(3), 0.1), 3.0);
    td_invoke(f, TD_ARGS(*h), &y, 1);
    return y;
}

/* The written argument is a view, and its history its base's. */
static td_tensor *call_write_part(td_fn *f, td_tensor **h) {
    td_tensor *base = td_mul(leaf(cx, TD_SHAPE(2, 3), 0.1), 3.0), *y;
    *h = td_select(base, 0, 1);
    td_invoke(f, TD_ARGS(*h), &y, 1);
    return y;
}

static td_tensor *call_view(td_fn *f, td_tensor **h) {
    td_tensor *x = leaf(cx, TD_SHAPE(2, 3), 0.1), *y[2];
    td_invoke(f, TD_ARGS(x), y, 2);
    *h = y[0];
    return y[1];
}

TEST(gradients_that_pass_through_another_result_are_refused) {
    static const struct {
        td_body *body;
        td_tensor *(*call)(td_fn *, td_tensor **);
        const char *part;
    } all[] = {
        {chain_body, call_chain, "result 1 was computed from result 0"},
        {write_body, call_write, "result 0 was computed from argument 0"},
        {write_body, call_write_part, "a view that a compiled call"},
        {view_body, call_view, "a view that a compiled call"},
    };
    for (int i = 0; i < 4; i++) {
        cx = td_open();
        td_fn *f = td_aot_function(cx, all[i].body, NULL, NULL);
        ask_all(all[i].call, f, all[i].part);
        td_close(cx);
    }
}

/* Nothing of y is missing where the gradient of y is asked for, or that of h where only
 * h goes backward. */
static void what_is_whole(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *y[2], *g;
    ask(s, TD_ARGS(x), y, 2);
    td_on_grad(y[1], tenfold, NULL);
    td_retain_grad(y[1]);
    td_backward(td_add(td_sum(y[1]), td_sum(y[0])));
    tell_grad(s, "x", td_grad_of(x));
    tell_grad(s, "y", td_grad_of(y[1]));
    ask(s, TD_ARGS(x), y, 2);
    td_on_grad(y[0], tenfold, NULL);
    td_tensor *sum = td_sum(td_mul(y[0], 2.0));
    td_grad(TD_LIST(sum), TD_LIST(y[0]), &g, &(td_grad_opts){TD_GRAD_OPTS});
    tell_grad(s, "h", g);
    ask(s, TD_ARGS(x), y, 2);
    td_on_grad(y[0], tenfold, NULL);
    td_backward(td_sum(td_mul(y[0], 2.0)));
    tell_grad(s, "x again", td_grad_of(x));
}
TEST(gradients_that_are_whole_are_given) { check_scene(what_is_whole, chain_body); }

/* Two results of a third value: neither was computed from the other. */
static void two_of_one(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *y[2];
    ask(s, TD_ARGS(x), y, 2);
    td_on_grad(y[0], tenfold, NULL);
    td_retain_grad(y[1]);
    td_backward(td_sum(td_mul(y[0], y[1])));
    tell_grad(s, "x", td_grad_of(x));
    tell_grad(s, "y1", td_grad_of(y[1]));
}
TEST(results_that_do_not_depend_on_each_other_take_hooks) {
    check_scene(two_of_one, fork_body);
}

static bool inner_grad(td_call *c) {
    td_tensor   *g;
    td_grad_opts zeros = {TD_GRAD_OPTS, .materialize = true};
    return td_grad(TD_LIST(td_sum(td_arg(c, 1))), TD_LIST(td_arg(c, 0)), &g, &zeros) &&
           td_return(c, g);
}

/* A second compiled function asks for it. */
TEST(td_grad_in_a_second_body_is_refused_too) {
    cx = td_open();
    td_fn     *f = td_aot_function(cx, chain_body, NULL, NULL);
    td_fn     *v = td_aot_function(cx, view_body, NULL, NULL);
    td_fn     *second = td_aot_function(cx, inner_grad, NULL, NULL);
    td_tensor *h, *g, *y = call_chain(f, &h);
    CHECK(!td_invoke(second, TD_ARGS(h, y), &g, 1));
    CHECK(refuses("from which input x1 was computed outside"));
    y = call_view(v, &h);
    CHECK(!td_invoke(second, TD_ARGS(h, y), &g, 1));
    CHECK(refuses("a view that a compiled call"));
    td_close(cx);
}
