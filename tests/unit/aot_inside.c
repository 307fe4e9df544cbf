/* aot_inside.c -- what bodies may have inside: custom functions, branches, checkpoint
 * regions, gradients, other compiled functions; and what may be around a call. */
#include "aot_sides.h"

/* ---- custom functions --------------------------------------------------- */

static bool wave(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)n_in, (void)n;
    out[0] = td_mul(in[0], td_sin(in[1]));
    return td_fcall_save(f, TD_LIST(in[0], in[1]));
}
/* Not the true derivative: one can tell that it was used. */
static bool wave_back(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                      int n_in) {
    (void)n, (void)n_in;
    td_tensor *x = td_fcall_saved(f, 0), *w = td_fcall_saved(f, 1);
    grad[0] = td_mul(g[0], td_mul(td_sin(w), 5.0));
    grad[1] = td_mul(g[0], td_mul(x, x));
    return true;
}
static const td_function waves = {.name = "wave",
                                  .forward = wave,
                                  .backward = wave_back};

static bool waving(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *y;
    if (!td_function_call(td_call_ctx(c), &waves, NULL, TD_LIST(td_mul(x, 2.0), w), &y,
                          1))
        return false;
    return td_return(c, td_mul(y, x));
}

/* First and second gradients of the first result. */
static void two_orders(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(2, 2), 0.3);
    td_tensor *w = leaf(s->cx, TD_SHAPE(2, 2), 0.7);
    for (int call = 0; call < 2; call++) {
        td_tensor   *y = ask1(s, TD_ARGS(x, w)), *g[2];
        td_grad_opts make = {TD_GRAD_OPTS, .create_graph = true};
        tell(s, "y", y);
        td_grad(TD_LIST(td_sum(td_mul(y, y))), TD_LIST(x, w), g, &make);
        tell_grad(s, "dx", g[0]);
        tell_grad(s, "dw", g[1]);
        td_backward(td_add(td_sum(td_mul(g[0], g[0])), td_sum(g[1])));
        tell_grad(s, "x.grad", td_grad_of(x));
        tell_grad(s, "w.grad", td_grad_of(w));
    }
}
TEST(custom_functions_inside_use_their_own_backward) {
    check_scene(two_orders, waving);
}

/* ---- branches ----------------------------------------------------------- */

static bool grow(td_call *c) {
    return td_return(c, td_mul(td_exp(td_arg(c, 0)), td_arg(c, 1)));
}
static bool shrink(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_arg(c, 0)));
}
static bool branching(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *w = td_arg(c, 1), *y;
    td_branches b = {.yes = grow, .no = shrink};
    if (!td_cond(td_gt(td_sum(x), 0.0), b, TD_ARGS(x, w), &y, 1)) return false;
    return td_return(c, td_mul(y, 3.0));
}
static void either_branch(side *s) {
    for (int i = 0; i < 4; i++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(2), i % 2 ? 0.4 : -4.0);
        td_tensor *w = leaf(s->cx, TD_SHAPE(2), 0.7), *y = ask1(s, TD_ARGS(x, w));
        tell(s, "y", y);
        td_backward(td_sum(y));
        tell_grad(s, "dx", td_grad_of(x));
    }
    if (s->fn) CHECK(td_fn_specializations(s->fn) == 1);
}
TEST(one_specialization_serves_both_branches) { check_scene(either_branch, branching); }

/* ---- checkpoints -------------------------------------------------------- */

static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)env, (void)n_in, (void)n;
    out[0] = td_dropout(td_tanh(td_mul(in[0], in[1])), 0.5, true);
    return !td_is_nil(out[0]);
}
static bool checkpointed(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *y;
    if (!td_checkpoint(td_call_ctx(c), region, NULL, TD_LIST(x, w), &y, 1))
        return false;
    return td_return(c, td_mul(y, y));
}
static void one_order(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(2, 2), 0.3);
    td_tensor *w = leaf(s->cx, TD_SHAPE(2, 2), 0.7);
    for (int call = 0; call < 2; call++) {
        td_tensor *y = ask1(s, TD_ARGS(x, w));
        tell(s, "y", y);
        td_backward(td_sum(y));
        tell_grad(s, "dx", td_grad_of(x));
        tell_grad(s, "dw", td_grad_of(w));
        say(s, "offset %d\n", (int)td_rng_offset(s->cx));
    }
}
TEST(checkpoint_regions_draw_the_same_numbers_again) {
    check_scene(one_order, checkpointed);
}

/* ---- gradients inside --------------------------------------------------- */

static bool penalized(td_call *c) {
    td_tensor   *x = td_arg(c, 0), *w = td_arg(c, 1), *g;
    td_grad_opts make = {TD_GRAD_OPTS, .create_graph = true};
    td_tensor   *y = td_sum(td_exp(td_mul(x, w)));
    if (!td_grad(TD_LIST(y), TD_LIST(x), &g, &make)) return false;
    return td_return(c, td_add(y, td_sum(td_mul(g, g))));
}
TEST(gradients_taken_inside_are_differentiated) { check_scene(two_orders, penalized); }

static bool modes_inside(td_call *c) {
    td_ctx      *cx = td_call_ctx(c);
    td_tensor   *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_grad_mode was = td_no_grad_begin(cx);
    td_tensor   *k = td_exp(x);
    td_no_grad_end(cx, was);
    return td_return(c, td_mul(td_mul(k, x), td_add(w, td_detach(w))));
}
TEST(grad_modes_inside_cut_history) { check_scene(two_orders, modes_inside); }

/* An argument whose value no gradient depends on, at several sizes. */
static bool added_inside(td_call *c) {
    td_tensor *x = td_arg(c, 0), *b = td_arg(c, 1);
    return td_return(c, td_mul(td_add(td_mul(x, x), b), td_detach(td_exp(x))));
}
static void several_sizes(side *s) {
    for (int n = 2; n < 6; n++) {
        td_grad_opts make = {TD_GRAD_OPTS, .create_graph = true};
        td_tensor *x = leaf(s->cx, TD_SHAPE(n), 0.3), *b = leaf(s->cx, TD_SHAPE(n), 1);
        td_tensor *g[2], *y = ask1(s, TD_ARGS(x, b));
        td_grad(TD_LIST(td_sum(y)), TD_LIST(x, b), g, &make);
        tell_grad(s, "dx", g[0]);
        tell_grad(s, "db", g[1]);
        td_backward(td_sum(td_mul(g[0], td_add(x, 1.0))));
        tell_grad(s, "x.grad", td_grad_of(x));
    }
}
TEST(gradients_of_gradients_where_history_is_cut_at_any_size) {
    check_scene(several_sizes, added_inside);
}

/* The statistics of a norm have a history of their own. */
static bool normed(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    return td_return(c, td_mul(td_layer_norm(td_mul(x, w), TD_DIMS(2)), w));
}
TEST(gradients_of_gradients_through_a_norm) { check_scene(two_orders, normed); }

/* Gradients of the first order inside, of the second outside: what a derivative saved
 * has the history it had when it was saved. */
static td_tensor *bent(td_tensor *y, td_tensor *x, td_tensor *w) {
    td_tensor   *g[2];
    td_grad_opts make = {TD_GRAD_OPTS, .create_graph = true, .allow_unused = true};
    if (!td_grad(TD_LIST(td_sum(td_mul(y, y))), TD_LIST(x, w), g, &make)) return NULL;
    return td_add(td_mul(g[0], td_cos(g[0])), td_mul(x, w));
}
static bool normed_bent(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_tensor *y = td_layer_norm(td_mul(td_exp(x), w), TD_DIMS(2));
    return td_return(c, bent(y, x, w));
}
TEST(gradients_inside_through_a_norm_are_differentiated) {
    check_scene(two_orders, normed_bent);
}

static bool detached_bent(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_tensor *y = td_exp(td_mul(x, w)), *z = td_mul(y, 2.0);
    td_detach_(y);
    return td_return(c, td_add(bent(z, x, w), y));
}
TEST(results_that_are_detached_later_keep_their_history_in_derivatives) {
    check_scene(two_orders, detached_bent);
}

static bool view_bent(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *y = td_mul(x, w);
    td_sigmoid_(td_select(y, 0, 1));
    return td_return(c, bent(y, x, w));
}
TEST(results_written_through_a_view_keep_their_history_in_derivatives) {
    check_scene(two_orders, view_bent);
}

static bool view_detached_bent(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *y = td_mul(x, w);
    td_sigmoid_(td_select(y, 0, 1));
    td_tensor *z = td_mul(y, 2.0);
    td_detach_(y);
    return td_return(c, td_add(bent(z, x, w), y));
}
TEST(a_view_written_keeps_it_when_the_base_is_detached_later) {
    check_scene(two_orders, view_detached_bent);
}

/* Running statistics are written once, by the call. */
static bool batch_normed(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_tensor *y =
        td_op_batch_norm(x, NULL, NULL, td_arg(c, 1), td_arg(c, 2), true, 0.1, 1e-5);
    return td_return(c, td_mul(y, x));
}
static void batch_norm_twice(side *s) {
    td_grad_opts make = {TD_GRAD_OPTS, .create_graph = true};
    td_tensor   *mean = values(s->cx, TD_SHAPE(2), 0),
              *var = values(s->cx, TD_SHAPE(2), 1);
    for (int call = 0; call < 2; call++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(3, 2), 0.3), *g;
        td_tensor *y = ask1(s, TD_ARGS(td_mul(x, x), mean, var));
        td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, &make);
        tell_grad(s, "dx", g);
        td_backward(td_sum(td_mul(g, g)));
        tell_grad(s, "x.grad", td_grad_of(x));
        tell(s, "mean", mean);
        tell(s, "var", var);
    }
}
TEST(gradients_of_gradients_through_batch_norm) {
    check_scene(batch_norm_twice, batch_normed);
}

/* A value is detached, and one of two arguments that overlap is written. */
static bool cut_and_written(td_call *c) {
    td_tensor *x = td_arg(c, 0), *k = td_detach(td_exp(x));
    td_add_(td_arg(c, 1), 1.0);
    return td_return(c, td_mul(td_mul(x, k), td_sum(td_arg(c, 2))));
}
static void overlapping_twice(side *s) {
    td_grad_opts make = {TD_GRAD_OPTS, .create_graph = true};
    td_tensor   *b = values(s->cx, TD_SHAPE(4), 1), *x = leaf(s->cx, TD_SHAPE(2), 1);
    td_tensor   *g, *gg;
    for (int call = 0; call < 2; call++) {
        td_values  args = TD_ARGS(x, td_narrow(b, 0, 0, 3), td_narrow(b, 0, 1, 3));
        td_tensor *y = ask1(s, args);
        td_grad(TD_LIST(td_sum(td_mul(y, y))), TD_LIST(x), &g, &make);
        tell_grad(s, "dx", g);
        td_grad(TD_LIST(td_sum(g)), TD_LIST(x), &gg, NULL);
        tell_grad(s, "ddx", gg);
        tell(s, "b", b);
    }
}
TEST(gradients_of_gradients_of_a_body_that_writes_overlapping_arguments) {
    check_scene(overlapping_twice, cut_and_written);
}

/* ---- tensors a body closes over ----------------------------------------- */

static bool closed_over(td_call *c) {
    td_tensor **own = td_call_env(c);
    td_add_(own[1], 1.0);
    return td_return(c, td_mul(td_mul(td_arg(c, 0), own[0]), own[1]));
}
TEST(tensors_closed_over_are_written_and_take_gradients) {
    double got[2][3];
    for (int compiled = 0; compiled < 2; compiled++) {
        td_ctx    *cx = td_open();
        td_tensor *own[2] = {leaf(cx, TD_SHAPE(2), 0.5), values(cx, TD_SHAPE(2), 1)};
        td_tensor *x = leaf(cx, TD_SHAPE(2), 2);
        td_fn     *f = td_aot_function(cx, closed_over, own, NULL);
        for (int call = 0; call < 3; call++) {
            td_value v = TD_NONE;
            if (compiled) td_invoke_values(f, TD_ARGS(x), &v, 1);
            else td_call_body(cx, closed_over, own, TD_ARGS(x), &v, 1);
            td_backward(td_sum(v.u.t));
        }
        got[compiled][0] = td_item(td_sum(td_grad_of(own[0])));
        got[compiled][1] = td_item(td_sum(own[1]));
        got[compiled][2] = td_item(td_sum(td_grad_of(x)));
        CHECK_OK(cx);
        CHECK(td_fn_specializations(f) == compiled);
        td_fn_drop(f);
        td_close(cx);
    }
    for (int i = 0; i < 3; i++) CHECK_NEAR(got[1][i], got[0][i], 1e-5);
}

/* ---- calls inside others ------------------------------------------------ */

typedef struct nested {
    td_fn *inner;
} nested;

static bool calls_inner(td_call *c) {
    nested    *n = td_call_env(c);
    td_tensor *y, *x = td_arg(c, 0);
    td_values  args = TD_ARGS(td_mul(x, 2.0), td_arg(c, 1));
    if (!td_invoke(n->inner, args, &y, 1)) return false;
    return td_return(c, td_exp(y));
}
TEST(a_function_called_in_anothers_body_becomes_part_of_it) {
    td_ctx    *cx = td_open();
    td_tensor *x = leaf(cx, TD_SHAPE(3), 0.1), *w = leaf(cx, TD_SHAPE(3), 0.5), *y;
    nested     n = {td_aot_function(cx, product_body, NULL, NULL)};
    td_fn     *f = td_aot_function(cx, calls_inner, &n, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, w), &y, 1));
    CHECK(td_fn_specializations(n.inner) == 0);
    CHECK(td_backward(td_sum(y)));
    td_tensor *want = td_sum(td_mul(td_exp(td_mul(td_mul(x, 2.0), w)), td_mul(w, 2.0)));
    CHECK_NEAR(td_item(td_sum(td_grad_of(x))), td_item(want), 1e-5);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_fn_drop(n.inner);
    td_close(cx);
}

/* A function differentiated inside a hook of its own backward. */
static td_fn     *hooked_fn;
static td_tensor *call_again(void *env, td_tensor *g) {
    td_ctx      *cx = td_ctx_of(g);
    td_grad_mode was = td_enable_grad_begin(cx);
    td_tensor   *y, *d = td_set_requires_grad(td_detach(g), true);
    if (td_invoke(hooked_fn, TD_ARGS(d, (td_tensor *)env), &y, 1))
        td_backward(td_sum(y));
    td_enable_grad_end(cx, was);
    return td_grad_of(d);
}
TEST(a_function_may_be_called_while_its_backward_runs) {
    td_ctx    *cx = td_open();
    td_tensor *x = leaf(cx, TD_SHAPE(3), 1), *w = values(cx, TD_SHAPE(3), 2), *y;
    hooked_fn = td_aot_function(cx, product_body, NULL, NULL);
    CHECK(td_invoke(hooked_fn, TD_ARGS(x, w), &y, 1));
    td_on_grad(y, call_again, w);
    CHECK(td_backward(td_sum(y)));
    CHECK_NEAR(td_item(td_sum(td_grad_of(x))), 4 + 2.1 * 2.1 + 2.2 * 2.2, 1e-4);
    CHECK_OK(cx);
    td_fn_drop(hooked_fn);
    td_close(cx);
}

/* ---- modes around ------------------------------------------------------- */

static bool count_ops(void *env, td_mode_call *h) {
    ++*(int *)env;
    return td_mode_call_go(h);
}
static void under_a_mode(side *s) {
    int          n = 0;
    td_mode_hook m = {.name = "count", .call = count_ops, .env = &n};
    td_tensor   *x = leaf(s->cx, TD_SHAPE(2), 1), *w = leaf(s->cx, TD_SHAPE(2), 2);
    for (int call = 0; call < 2; call++) {
        td_mode_push(s->cx, &m);
        td_tensor *y = ask1(s, TD_ARGS(x, w));
        td_mode_pop(s->cx, &m);
        td_backward(td_sum(y));
        say(s, "heard %d\n", n);
        tell_grad(s, "dx", td_grad_of(x));
        ask1(s, TD_ARGS(x, w));
    }
}
TEST(a_mode_receives_the_ops_of_the_body) { check_scene(under_a_mode, product_body); }
