/* aot.c -- compiled functions are differentiated as eager ones: gradients of any
 * order, accumulation, graphs kept and freed, saved values written in between. */
#include "aot_sides.h"

/* ---- the layer of the README -------------------------------------------- */

static void first_gradients(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(4, 3), 0.1);
    td_tensor *w = leaf(s->cx, TD_SHAPE(3, 3), -0.4);
    td_tensor *seen = values(s->cx, TD_SHAPE(3), 0.0), *y[2];
    for (int step = 0; step < 3; step++) {
        ask(s, TD_ARGS(x, w, seen), y, 2);
        tell(s, "h", y[0]);
        tell(s, "t", y[1]);
        tell(s, "seen", seen);
        say(s, "aliases %d\n", td_same_storage(y[0], y[1]));
        td_backward(td_sum(td_mul(y[step % 2], y[step % 2])));
        tell_grad(s, "dx", td_grad_of(x));
        tell_grad(s, "dw", td_grad_of(w));
        td_detach_(seen);
    }
}
TEST(the_layer_gives_values_writes_aliases_and_gradients) {
    check_scene(first_gradients, layer_body);
}

/* Gradients of gradients of gradients. */
static void three_orders(side *s) {
    td_grad_opts again = {TD_GRAD_OPTS, .create_graph = true, .allow_unused = true};
    td_tensor   *x = leaf(s->cx, TD_SHAPE(2, 3), 0.1);
    td_tensor   *w = leaf(s->cx, TD_SHAPE(3, 3), -0.4);
    td_tensor   *seen = values(s->cx, TD_SHAPE(3), 0.0), *y[2], *g[2];
    ask(s, TD_ARGS(x, w, seen), y, 2);
    td_tensor *of = td_sum(td_mul(y[1], y[1]));
    for (int order = 1; order <= 3; order++) {
        td_grad(TD_LIST(of), TD_LIST(x, w), g, &again);
        tell_grad(s, "dx", g[0]);
        tell_grad(s, "dw", g[1]);
        of = td_add(td_sum(td_mul(g[0], g[0])), td_sum(td_mul(g[1], g[1])));
    }
    td_backward(of);
    tell_grad(s, "x.grad", td_grad_of(x));
    tell_grad(s, "w.grad", td_grad_of(w));
}
TEST(gradients_of_gradients_are_eagers_to_the_fourth_order) {
    check_scene(three_orders, layer_body);
}

/* An argument that is not a leaf is written and takes gradients. */
static bool scaled_in_place(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    td_mul_(a, b);
    return td_return(c, td_mul(a, a));
}
static void written_history(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.5), *b = leaf(s->cx, TD_SHAPE(3), 1.5);
    td_tensor *a = td_mul(x, 2.0), *y = ask1(s, TD_ARGS(a, b)), *g[2];
    tell(s, "y", y);
    tell(s, "a", a);
    td_grad_opts again = {TD_GRAD_OPTS, .create_graph = true};
    td_grad(TD_LIST(td_add(td_sum(y), td_sum(td_mul(a, a)))), TD_LIST(x, b), g, &again);
    tell_grad(s, "dx", g[0]);
    tell_grad(s, "db", g[1]);
    td_backward(td_add(td_sum(td_mul(g[0], g[0])), td_sum(g[1])));
    tell_grad(s, "x.grad", td_grad_of(x));
    tell_grad(s, "b.grad", td_grad_of(b));
}
TEST(a_written_argument_carries_on_the_history) {
    check_scene(written_history, scaled_in_place);
}

/* ---- graphs kept and freed ---------------------------------------------- */

static bool squares(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    return td_return(c, td_mul(td_exp(td_mul(x, w)), x));
}
static void twice_kept(side *s) {
    td_backward_opts keep = {TD_BACKWARD_OPTS, .retain_graph = true};
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.2), *w = leaf(s->cx, TD_SHAPE(3), 1);
    td_tensor *y = td_sum(ask1(s, TD_ARGS(x, w)));
    td_backward_with(TD_LIST(y), (td_tensors){0}, &keep);
    tell_grad(s, "once", td_grad_of(x));
    td_backward(y);
    tell_grad(s, "twice", td_grad_of(x));
    say(s, "third %d\n", td_backward(y));
    tell_error(s, "retain_graph");
    tell_grad(s, "still", td_grad_of(x));
}
TEST(retain_graph_decides_how_long_saved_values_live) {
    check_scene(twice_kept, squares);
}

static void history_late(side *s) {
    td_backward_opts make = {TD_BACKWARD_OPTS, .create_graph = true};
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.2), *w = leaf(s->cx, TD_SHAPE(3), 1);
    for (int call = 0; call < 3; call++) {
        td_tensor *y = td_sum(ask1(s, TD_ARGS(x, w))), *g;
        td_zero_grad(x);
        if (call != 1) {
            td_backward(y);
            tell_grad(s, "plain", td_grad_of(x));
            continue;
        }
        td_backward_with(TD_LIST(y), (td_tensors){0}, &make);
        td_grad(TD_LIST(td_sum(td_grad_of(x))), TD_LIST(w), &g, NULL);
        tell_grad(s, "dgdw", g);
        td_zero_grad(x);
        td_zero_grad(w);
    }
}
TEST(gradients_get_a_history_at_any_call) { check_scene(history_late, squares); }

static void two_calls_added(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.2), *w = leaf(s->cx, TD_SHAPE(3), 1);
    td_tensor *y = ask1(s, TD_ARGS(x, w)), *z = ask1(s, TD_ARGS(y, w));
    td_tensor *u = ask1(s, TD_ARGS(x, x));
    td_backward(td_add(td_sum(z), td_sum(td_add(y, u))));
    tell_grad(s, "dx", td_grad_of(x));
    tell_grad(s, "dw", td_grad_of(w));
}
TEST(calls_feed_each_other_and_gradients_add_up) {
    check_scene(two_calls_added, squares);
}

static void only_some(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.2), *w = leaf(s->cx, TD_SHAPE(3), 1);
    td_backward_opts to = {TD_BACKWARD_OPTS, .inputs = TD_LIST(w)};
    td_tensor       *z = leaf(s->cx, TD_SHAPE(3), 0.0), *g[2];
    td_backward_with(TD_LIST(td_sum(ask1(s, TD_ARGS(x, w)))), (td_tensors){0}, &to);
    tell_grad(s, "x", td_grad_of(x));
    tell_grad(s, "w", td_grad_of(w));
    td_grad(TD_LIST(ask1(s, TD_ARGS(x, w))), TD_LIST(x, z), g,
            &(td_grad_opts){TD_GRAD_OPTS, .allow_unused = true,
                            .grads = TD_LIST(values(s->cx, TD_SHAPE(3), -1))});
    tell_grad(s, "dx", g[0]);
    tell_grad(s, "dz", g[1]);
    say(s, "%d\n",
        td_grad(TD_LIST(td_sum(ask1(s, TD_ARGS(x, w)))), TD_LIST(z), g, NULL));
    tell_error(s, "unused");
}
TEST(gradients_of_chosen_inputs) { check_scene(only_some, squares); }

/* ---- what is saved is checked ------------------------------------------- */

static void written_between(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.2), *b = values(s->cx, TD_SHAPE(3), 1);
    td_tensor *y = td_sum(ask1(s, TD_ARGS(x, b)));
    td_add_(b, 1.0);
    say(s, "backward %d\n", td_backward(y));
    tell_error(s, "modified in place");
    y = td_sum(ask1(s, TD_ARGS(x, b)));
    td_backward(y);
    tell_grad(s, "dx", td_grad_of(x));
}
TEST(a_saved_argument_that_was_written_is_an_error) {
    check_scene(written_between, product_body);
}

static bool exponential(td_call *c) { return td_return(c, td_exp(td_arg(c, 0))); }
static void result_written(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.2), *y = ask1(s, TD_ARGS(x));
    td_tensor *sum = td_sum(y);
    td_mul_(td_detach(y), 2.0);
    say(s, "backward %d\n", td_backward(sum));
    tell_error(s, "modified in place");
}
TEST(a_saved_result_that_was_written_is_an_error) {
    check_scene(result_written, exponential);
}

static void result_written_on(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.2), *y = ask1(s, TD_ARGS(x, x));
    td_mul_(y, 3.0);
    td_add_(td_select(y, 0, 1), x = td_select(x, 0, 0));
    td_backward(td_sum(y));
    tell(s, "y", y);
}
TEST(results_may_be_written_and_differentiated_on) {
    check_scene(result_written_on, product_body);
}
