/* own_grad.c -- gradients that arguments keep, touched inside a compiled body: added
 * to, read, replaced and taken away. What is left is what the body itself leaves, also
 * which tensor it is. */
#include "aot_sides.h"

static td_tensor *loss_of(td_tensor *x, td_tensor *w) {
    return td_sum(td_tanh(td_mul(td_matmul(x, w), 0.7)));
}

/* The gradient, what it shares bytes with, and whether it is `was`. */
static void tell_own(side *s, const char *what, td_tensor *t, td_tensor *was) {
    td_tensor *g = td_grad_of(t);
    tell(s, what, g);
    say(s, "%s, %s\n",
        td_is_nil(g) ? "none"
        : g == was   ? "the same"
                     : "another",
        td_grad_of(t) == g ? "kept" : "lost");
}

/* Three calls; in the second one some gradients are there, in the third others. */
static void three_calls(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(2, 3), 0.3),
              *w = leaf(s->cx, TD_SHAPE(3, 2), 0.5);
    for (int i = 0; i < 4; i++) {
        td_tensor *gx = td_grad_of(x), *gw = td_grad_of(w);
        td_tensor *y = ask1(s, TD_ARGS(x, w));
        tell_grad(s, "y", td_is_nil(y) ? y : td_detach(y));
        tell_own(s, "x.grad", x, gx);
        tell_own(s, "w.grad", w, gw);
        if (i == 1) td_zero_grad(w);
    }
}

static bool backward(td_call *c) {
    td_tensor *loss = loss_of(td_arg(c, 0), td_arg(c, 1));
    return td_backward(loss) && td_return(c, td_detach(loss));
}
TEST(backward_adds_to_gradients_or_makes_them) { check_scene(three_calls, backward); }

static bool backward_twice(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    return td_backward(loss_of(x, w)) && td_backward(td_sum(td_mul(w, w))) &&
           td_return(c);
}
TEST(several_backwards_add_up) { check_scene(three_calls, backward_twice); }

static bool zero_first(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_zero_grad(x);
    td_zero_grad(w);
    return td_backward(loss_of(x, w)) && td_return(c);
}
static void zeroed_calls(side *s) {
    three_calls(s);
    if (s->fn) CHECK(td_fn_specializations(s->fn) == 1);
}
TEST(a_gradient_taken_away_first_need_not_be_known) {
    check_scene(zeroed_calls, zero_first);
}

static bool zero_last(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    if (!td_backward(loss_of(x, w))) return false;
    td_tensor *g = td_mul(td_grad_of(w), 2.0);
    td_zero_grad(x);
    td_zero_grad(w);
    return td_return(c, g);
}
TEST(gradients_may_be_read_and_taken_away) { check_scene(three_calls, zero_last); }

static bool zero_in_place(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    if (!td_is_nil(td_grad_of(w))) td_zero_(td_grad_of(w));
    return td_backward(loss_of(x, w)) && td_return(c);
}
TEST(gradients_may_be_set_to_zeros) { check_scene(three_calls, zero_in_place); }

static bool set_own(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_tensor *old = td_grad_of(x);
    if (!td_backward(loss_of(x, w))) return false;
    if (!td_set_grad(x, td_mul(td_detach(x), 3.0))) return false;
    return td_is_nil(old) ? td_return(c) : td_return(c, td_mul(old, 1.0));
}
TEST(a_gradient_may_be_replaced) { check_scene(three_calls, set_own); }

/* The gradient of one becomes that of the other, too. */
static bool share_own(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    if (!td_backward(td_sum(td_mul(x, td_transpose(td_tanh(w), 0, 1))))) return false;
    td_set_grad(w, td_transpose(td_grad_of(x), 0, 1));
    return td_return(c);
}
TEST(gradients_may_share_bytes) { check_scene(three_calls, share_own); }

static bool only_some(td_call *c) {
    td_tensor       *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_tensor       *only[] = {w}, *root[] = {loss_of(x, w)};
    td_backward_opts o = {TD_BACKWARD_OPTS, .inputs = {only, 1}};
    return td_backward_with((td_tensors){root, 1}, (td_tensors){0}, &o) && td_return(c);
}
TEST(backward_may_name_its_leaves) { check_scene(three_calls, only_some); }

static bool with_history(td_call *c) {
    td_tensor       *x = td_arg(c, 0), *w = td_arg(c, 1), *root[] = {loss_of(x, w)};
    td_backward_opts o = {TD_BACKWARD_OPTS, .create_graph = true};
    if (!td_backward_with((td_tensors){root, 1}, (td_tensors){0}, &o)) return false;
    td_tensor *g = td_grad_of(w), *p = td_sum(td_mul(g, g));
    td_set_grad(w, td_detach(g));
    td_set_grad(x, NULL);
    return td_backward(p) && td_return(c);
}
TEST(a_loss_on_gradients_adds_to_them) { check_scene(three_calls, with_history); }

/* The gradient of an argument is an argument as well. */
static bool given_too(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *g = td_arg(c, 2);
    td_mul_(g, 2.0);
    return td_backward(loss_of(x, w)) && td_return(c);
}
static void give_gradient(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(2, 3), 0.3),
              *w = leaf(s->cx, TD_SHAPE(3, 2), 0.5);
    td_tensor *g = values(s->cx, TD_SHAPE(3, 2), 1.0);
    for (int i = 0; i < 4; i++) {
        if (i == 1) td_set_grad(w, g);
        if (i == 3) td_set_grad(w, td_mul(g, 0.5));
        ask(s, TD_ARGS(x, w, g), NULL, 0);
        tell_own(s, "w.grad", w, g);
        tell(s, "g", g);
    }
}
TEST(a_gradient_may_be_an_argument_too) { check_scene(give_gradient, given_too); }

/* Gradients in one block, as some optimizers keep them. */
static void one_block(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(2, 3), 0.3),
              *w = leaf(s->cx, TD_SHAPE(3, 2), 0.5);
    td_tensor *all = values(s->cx, TD_SHAPE(12), 0.0);
    td_set_grad(x, td_view(td_slice(all, 0, 0, 6), TD_SHAPE(2, 3)));
    td_set_grad(w, td_view(td_slice(all, 0, 6, 12), TD_SHAPE(3, 2)));
    for (int i = 0; i < 2; i++) {
        td_tensor *gx = td_grad_of(x);
        ask(s, TD_ARGS(x, w), NULL, 0);
        tell_own(s, "x.grad", x, gx);
        tell(s, "all", all);
    }
}
TEST(gradients_may_be_pieces_of_one_block) { check_scene(one_block, backward); }

/* ---- tensors around the arguments --------------------------------------- */

static td_tensor *outer_w;
static bool       around(td_call *c) {
          td_tensor *x = td_arg(c, 0);
          if (!td_backward(loss_of(x, outer_w))) return false;
    return td_return(c, td_mul(td_grad_of(outer_w), 1.0));
}
static void around_arguments(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(2, 3), 0.3);
    outer_w = leaf(s->cx, TD_SHAPE(3, 2), 0.5);
    for (int i = 0; i < 3; i++) {
        td_tensor *gw = td_grad_of(outer_w), *y = ask1(s, TD_ARGS(x));
        tell_grad(s, "y", y);
        tell_own(s, "x.grad", x, td_nil(s->cx));
        tell_own(s, "w.grad", outer_w, gw);
        if (i == 1) td_zero_grad(outer_w);
    }
}
TEST(tensors_closed_over_keep_gradients_too) { check_scene(around_arguments, around); }

static bool grad_around(td_call *c) {
    td_tensor *x = td_arg(c, 0), *g;
    return td_grad(TD_LIST(loss_of(x, outer_w)), TD_LIST(outer_w), &g, NULL) &&
           td_return(c, g);
}
TEST(td_grad_takes_tensors_closed_over) { check_scene(around_arguments, grad_around); }

/* ---- what a program cannot say ------------------------------------------ */

static void check_refused(td_body *body, td_tensor *x, const char *words) {
    td_ctx    *cx = td_ctx_of(x);
    td_fn     *f = td_aot_function(cx, body, NULL, NULL);
    td_tensor *w = leaf(cx, TD_SHAPE(3, 2), 0.5);
    CHECK(!td_invoke(f, TD_ARGS(x, w), NULL, 0));
    TD_CHECK_THAT(td_error(cx) == TD_E_UNSUPPORTED && strstr(td_message(cx), words),
                  "\"%s\"", td_message(cx));
    td_clear(cx);
    CHECK(td_is_nil(td_grad_of(w)));
    td_fn_drop(f);
}

static bool heard_leaf(void *env, td_tensor *t) {
    (void)env, (void)t;
    return true;
}
TEST(a_backward_that_leaves_the_body_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = leaf(cx, TD_SHAPE(2, 3), 0.3);
    check_refused(backward, td_mul(x, 2.0), "into history outside of the body");
    check_refused(backward, td_view(leaf(cx, TD_SHAPE(6), 0.3), TD_SHAPE(2, 3)),
                  "the base of an argument that is a view");
    td_on_accumulated(x, heard_leaf, NULL);
    check_refused(backward, x, "with gradient hooks");
    td_close(cx);
}

/* What docs/beyond.md offers in its place: the body returns gradients of its arguments,
 * and the caller continues from there. One side has the whole backward in its body. */
static bool whole_backward(td_call *c) {
    td_tensor *loss = loss_of(td_arg(c, 0), td_arg(c, 1));
    return td_backward(loss) && td_return(c, td_detach(loss));
}
static bool returns_gradients(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *g[2];
    td_tensor *loss = loss_of(x, w);
    return td_grad(TD_LIST(loss), TD_LIST(x, w), g, NULL) &&
           td_return(c, td_detach(loss), g[0], g[1]);
}

TEST(gradients_of_arguments_continue_outside_of_the_body) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, returns_gradients, NULL, NULL);
    td_tensor *x[2], *w[2];
    for (int way = 0; way < 2; way++) {
        x[way] = leaf(cx, TD_SHAPE(2, 3), 0.3);
        w[way] = leaf(cx, TD_SHAPE(3, 2), 0.5);
        td_tensor *h = td_sin(x[way]), *v = td_exp(w[way]), *y[3];
        td_value   out;
        if (!way)
            CHECK(td_call_body(cx, whole_backward, NULL, TD_ARGS(h, v), &out, 1) == 1);
        else {
            CHECK(td_invoke(f, TD_ARGS(h, v), y, 3));
            CHECK(td_backward_with(TD_LIST(h, v), TD_LIST(y[1], y[2]), NULL));
        }
    }
    CHECK_OK(cx);
    for (int i = 0; i < 6; i++) {
        CHECK_NEAR(td_item(td_select(td_flatten(td_grad_of(x[1])), 0, i)),
                   td_item(td_select(td_flatten(td_grad_of(x[0])), 0, i)), 1e-12);
        CHECK_NEAR(td_item(td_select(td_flatten(td_grad_of(w[1])), 0, i)),
                   td_item(td_select(td_flatten(td_grad_of(w[0])), 0, i)), 1e-12);
    }
    td_fn_drop(f);
    td_close(cx);
}
