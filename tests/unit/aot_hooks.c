/* aot_hooks.c -- hooks around compiled calls see what they see around eager ones. */
#include "aot_sides.h"

#include <string.h>

static side *now; /* the side that plays; hooks write there */

static td_tensor *seen_grad(void *env, td_tensor *g) {
    tell_grad(now, env, g);
    return NULL;
}
static td_tensor *doubled(void *env, td_tensor *g) {
    tell_grad(now, env, g);
    return td_mul(g, 2.0);
}
static bool accumulated(void *env, td_tensor *t) {
    tell_grad(now, env, td_grad_of(t));
    return true;
}

static bool pair_body(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *h = td_mul(x, w);
    return td_return(c, td_exp(h), td_sum(h, TD_DIMS(0), false));
}

/* On an argument that is no leaf, on leaves, on results, on a view of a result. */
static void hooks_everywhere(side *s) {
    now = s;
    td_tensor *x = leaf(s->cx, TD_SHAPE(2, 2), 0.1);
    td_tensor *w = leaf(s->cx, TD_SHAPE(2, 2), 0.5);
    td_tensor *in = td_mul(x, 3.0), *y[2];
    td_on_grad(in, doubled, "in");
    td_on_grad(w, seen_grad, "w");
    td_on_accumulated(w, accumulated, "w accumulated");
    td_on_accumulated(x, accumulated, "x accumulated");
    for (int call = 0; call < 2; call++) {
        ask(s, TD_ARGS(in, w), y, 2);
        td_on_grad(y[0], doubled, "y0");
        td_hook gone = td_on_grad(y[0], doubled, "y0, removed");
        td_on_grad(y[0], seen_grad, "y0 again");
        td_hook_remove(s->cx, gone);
        td_tensor *row = td_select(y[0], 0, 1);
        td_on_grad(row, seen_grad, "row");
        td_backward_with(TD_LIST(td_add(td_sum(row), td_sum(y[1]))), (td_tensors){0},
                         &(td_backward_opts){TD_BACKWARD_OPTS, .retain_graph = true});
        tell_grad(s, "x", td_grad_of(x));
    }
}
TEST(hooks_on_tensors_around_a_call_run_as_eagers) {
    check_scene(hooks_everywhere, pair_body);
}

static void retained(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(2, 2), 0.1);
    td_tensor *w = leaf(s->cx, TD_SHAPE(2, 2), 0.5);
    td_tensor *in = td_mul(x, 3.0), *y[2];
    td_retain_grad(in);
    ask(s, TD_ARGS(in, w), y, 2);
    td_retain_grad(y[0]);
    td_retain_grad(y[1]);
    td_mul_(y[1], 2.0);
    td_backward(td_add(td_sum(td_mul(y[0], y[0])), td_sum(y[1])));
    tell_grad(s, "in", td_grad_of(in));
    tell_grad(s, "y0", td_grad_of(y[0]));
    tell_grad(s, "y1", td_grad_of(y[1]));
}
TEST(results_and_arguments_retain_gradients) { check_scene(retained, pair_body); }

/* Only one result is used: the other's gradient never arrives, and its hook rests. */
static void one_result_unused(side *s) {
    now = s;
    td_tensor *x = leaf(s->cx, TD_SHAPE(2, 2), 0.1);
    td_tensor *w = leaf(s->cx, TD_SHAPE(2, 2), 0.5), *y[2];
    for (int used = 0; used < 2; used++) {
        ask(s, TD_ARGS(x, w), y, 2);
        td_on_grad(y[0], seen_grad, "y0");
        td_on_grad(y[1], seen_grad, "y1");
        td_backward(td_sum(y[used]));
        tell_grad(s, "x", td_grad_of(x));
    }
}
TEST(hooks_of_results_nobody_uses_rest) { check_scene(one_result_unused, pair_body); }

/* ---- nodes -------------------------------------------------------------- */

static int pre_calls, post_calls;

static bool pre(void *env, td_tensor **grads, int n) {
    (void)env;
    pre_calls++;
    for (int i = 0; i < n; i++)
        if (grads[i]) grads[i] = td_mul(grads[i], 10.0);
    return true;
}
static bool post(void *env, td_tensor **made, int n_made, td_tensor *const *grads,
                 int n) {
    (void)env, (void)grads, (void)n;
    post_calls++;
    for (int i = 0; i < n_made; i++)
        if (made[i]) made[i] = td_neg(made[i]);
    return true;
}

TEST(a_compiled_call_is_one_node_with_hooks) {
    td_ctx    *cx = td_open();
    td_tensor *x = leaf(cx, TD_SHAPE(2, 2), 1.0), *w = leaf(cx, TD_SHAPE(2, 2), 2.0);
    td_fn     *f = td_aot_function(cx, product_body, NULL, NULL);
    td_tensor *y;
    CHECK(td_invoke(f, TD_ARGS(x, w), &y, 1));
    td_node *n = td_grad_fn(y);
    CHECK(n != NULL);
    CHECK(td_node_edges(n) == 2);
    pre_calls = post_calls = 0;
    CHECK(td_on_node_pre(n, pre, NULL) != 0);
    CHECK(td_on_node_post(n, post, NULL) != 0);
    CHECK(td_backward(td_sum(y)));
    CHECK(pre_calls == 1 && post_calls == 1);
    CHECK_NEAR(td_item(td_select(td_select(td_grad_of(x), 0, 0), 0, 0)), -20.0, 1e-6);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

static bool remove_pre(void *env, td_tensor **g, int n) {
    (void)env;
    for (int i = 0; i < n; i++) g[i] = NULL;
    return true;
}
static bool remove_post(void *env, td_tensor **made, int n_made, td_tensor *const *g,
                        int n) {
    (void)g, (void)n;
    return remove_pre(env, made, n_made);
}
static bool square_body(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_arg(c, 0)));
}

/* The result of x * x, eager or compiled. */
static td_tensor *square_of(td_tensor *x, bool compiled) {
    td_tensor *y = NULL;
    if (!compiled) return td_mul(x, x);
    td_invoke(td_aot_function(td_ctx_of(x), square_body, NULL, NULL), TD_ARGS(x), &y,
              1);
    return y;
}

/* As a hook of a PyTorch node that returns (None,). */
TEST(a_node_hook_may_remove_gradients) {
    for (int i = 0; i < 4; i++) {
        td_ctx    *cx = td_open();
        td_tensor *x = leaf(cx, TD_SHAPE(2), 1.0), *y = square_of(x, i & 1);
        if (i < 2) td_on_node_pre(td_grad_fn(y), remove_pre, NULL);
        else td_on_node_post(td_grad_fn(y), remove_post, NULL);
        CHECK(td_backward(td_sum(td_exp(y))));
        CHECK(!td_has_grad(x));
        td_close(cx);
    }
}

static bool reshape_post(void *env, td_tensor **made, int n_made, td_tensor *const *g,
                         int n) {
    (void)env, (void)n_made, (void)g, (void)n;
    made[0] = td_ones(td_ctx_of(made[0]), TD_SHAPE(9, 9));
    return true;
}
static bool add_post(void *env, td_tensor **made, int n_made, td_tensor *const *g,
                     int n) {
    (void)env, (void)n;
    for (int i = 0; i < n_made; i++) made[i] = g[0];
    return true;
}

TEST(a_node_hook_keeps_sizes_and_adds_no_gradient) {
    for (int i = 0; i < 2; i++) {
        td_ctx    *cx = td_open();
        td_tensor *x = leaf(cx, TD_SHAPE(2), 1.0), *y = square_of(x, i);
        td_on_node_post(td_grad_fn(y), reshape_post, NULL);
        CHECK(!td_backward(td_sum(y)));
        CHECK_MESSAGE(cx, "a gradient hook returned f32[9,9] for a gradient of f64[2]; "
                          "dtype and sizes must stay");
        CHECK(!td_has_grad(x));
        td_clear(cx);
        y = td_mul(x, td_detach(x));
        td_on_node_post(td_grad_fn(y), add_post, NULL);
        CHECK(!td_backward(td_sum(y)));
        CHECK_MESSAGE(cx,
                      "a node hook set an entry that is NULL to f64[2]; it may replace "
                      "and remove gradients, but not add one that is missing");
        td_close(cx);
    }
}

/* ---- saved values ------------------------------------------------------- */

static int packed, dropped, unpacked;

static void *pack(void *env, td_tensor *t) {
    (void)env;
    packed++;
    return td_keep(td_mul(t, 2.0));
}
static td_tensor *unpack(void *env, void *p, td_ctx *cx) {
    (void)env, (void)cx;
    unpacked++;
    return td_mul(p, 0.5);
}
static void drop(void *env, void *p) {
    (void)env;
    dropped++;
    td_drop(p);
}

static void with_packers(side *s) {
    static const td_saved_hooks hooks = {pack, unpack, drop, NULL};
    td_tensor                  *x = leaf(s->cx, TD_SHAPE(2, 2), 0.1);
    td_tensor                  *w = leaf(s->cx, TD_SHAPE(2, 2), 0.5), *y[2];
    packed = unpacked = dropped = 0;
    td_saved_hooks_push(s->cx, &hooks);
    ask(s, TD_ARGS(x, w), y, 2);
    td_saved_hooks_pop(s->cx);
    td_backward(td_add(td_sum(y[0]), td_sum(y[1])));
    tell_grad(s, "x", td_grad_of(x));
    tell_grad(s, "w", td_grad_of(w));
    say(s, "packed %d unpacked %d all dropped %d\n", packed > 0, unpacked > 0,
        packed == dropped);
}
TEST(saved_values_go_through_the_hooks_around_the_call) {
    check_scene(with_packers, pair_body);
}

static void *no_pack(void *env, td_tensor *t) {
    (void)env;
    td_fail(td_ctx_of(t), TD_E_IO, "the disk is full");
    return NULL;
}
static void failing_packer(side *s) {
    static const td_saved_hooks hooks = {no_pack, unpack, drop, NULL};
    td_tensor                  *x = leaf(s->cx, TD_SHAPE(2, 2), 0.1);
    td_tensor                  *w = leaf(s->cx, TD_SHAPE(2, 2), 0.5), *y[2];
    td_saved_hooks_push(s->cx, &hooks);
    say(s, "call %d\n", ask(s, TD_ARGS(x, w), y, 2));
    td_saved_hooks_pop(s->cx);
    tell_error(s, "the disk is full");
    say(s, "call %d\n", ask(s, TD_ARGS(x, w), y, 2));
}
TEST(a_hook_that_cannot_pack_fails_the_call) { check_scene(failing_packer, pair_body); }

/* ---- anomaly mode ------------------------------------------------------- */

static bool root_of(td_call *c) {
    return td_return(c, td_mul(td_sqrt(td_arg(c, 0)), 0.0));
}

TEST(anomaly_mode_names_the_compiled_call) {
    td_ctx     *cx = td_open();
    td_aot_opts opts = {TD_AOT_OPTS, .name = "rooted"};
    td_fn      *f = td_aot_function(cx, root_of, NULL, &opts);
    td_tensor  *x = td_requires_grad_(td_zeros(cx, TD_SHAPE(2))), *y;
    td_set_anomaly(cx, true);
    td_scope_begin(cx, "step");
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(!td_backward(td_sum(y)));
    CHECK(strstr(td_message(cx), "rooted"));
    CHECK(strstr(td_message(cx), "step"));
    td_clear(cx);
    td_scope_end(cx, "step", NULL);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- a backward inside the body ------------------------------------------ */

/* Hooks on what a backward in the body ends in are not run by compiled code. With them
 * the call is refused, also where it was compiled before they were registered. */

static td_tensor *closed;

static bool backs_closed(td_call *c) {
    td_tensor *l = td_sum(td_mul(td_mul(closed, closed), td_arg(c, 0)));
    return td_backward(l) && td_return(c, td_detach(l));
}
static bool backs_argument(td_call *c) {
    td_tensor *k = td_arg(c, 1), *l = td_sum(td_mul(td_mul(k, k), td_arg(c, 0)));
    return td_backward(l) && td_return(c, td_detach(l));
}
static bool grads_closed(td_call *c) {
    td_tensor *l = td_sum(td_mul(td_mul(closed, closed), td_arg(c, 0))), *g;
    return td_grad(TD_LIST(l), TD_LIST(closed), &g, NULL) && td_return(c, g);
}
static bool grads_argument(td_call *c) {
    td_tensor *k = td_arg(c, 1), *g;
    td_tensor *l = td_sum(td_mul(td_mul(k, k), td_arg(c, 0)));
    return td_grad(TD_LIST(l), TD_LIST(k), &g, NULL) && td_return(c, g);
}

static td_tensor *tenfold(void *env, td_tensor *g) {
    (void)env;
    return td_mul(g, 10.0);
}
static bool left_alone(void *env, td_tensor *t) { return (void)env, !td_is_nil(t); }

static bool refuses(td_ctx *cx, const char *part) {
    bool ok = td_error(cx) == TD_E_UNSUPPORTED && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

static void hooks_come_and_go(td_fn *f, td_tensor *k, td_values args, bool keeps) {
    td_ctx    *cx = td_ctx_of(k);
    td_tensor *y;
    for (int i = 0; i < 3; i++) CHECK(td_invoke(f, args, &y, 1));
    int     specs = td_fn_specializations(f);
    td_hook hook = td_on_grad(k, tenfold, NULL);
    CHECK(!td_invoke(f, args, &y, 1));
    CHECK(refuses(cx, "gradient hooks"));
    td_hook_remove(cx, hook);
    CHECK(td_invoke(f, args, &y, 1));
    CHECK(td_fn_specializations(f) == specs);
    hook = td_on_accumulated(k, left_alone, NULL); /* td_grad accumulates nothing */
    CHECK(td_invoke(f, args, &y, 1) == !keeps);
    if (keeps) CHECK(refuses(cx, "gradient hooks"));
    CHECK_OK(cx);
}

TEST(hooks_on_what_a_backward_in_the_body_reaches_are_refused) {
    td_body *bodies[] = {backs_closed, backs_argument, grads_closed, grads_argument};
    for (int i = 0; i < 8; i++) {
        td_ctx    *cx = td_open();
        td_body   *b = bodies[i / 2];
        td_tensor *x = values(cx, TD_SHAPE(3), 1.0), *k = leaf(cx, TD_SHAPE(3), 0.5);
        td_fn     *f =
            i % 2 ? td_aot_step(cx, b, NULL, NULL) : td_aot_function(cx, b, NULL, NULL);
        closed = k;
        bool arg = i / 2 % 2 == 1;
        hooks_come_and_go(f, k, arg ? TD_ARGS(x, k) : TD_ARGS(x), i < 4);
        td_close(cx);
    }
}

/* A tensor that is no leaf: its hooks are on the node that made it. */
TEST(td_grad_in_a_body_refuses_a_hooked_tensor_that_is_no_leaf) {
    td_ctx    *cx = td_open();
    td_tensor *x = values(cx, TD_SHAPE(3), 1.0), *y;
    td_tensor *k = td_mul(leaf(cx, TD_SHAPE(3), 0.5), 2.0);
    td_tensor *r = td_mul(leaf(cx, TD_SHAPE(3), 0.5), 2.0);
    td_fn     *f = td_aot_function(cx, grads_argument, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, k), &y, 1) && td_invoke(f, TD_ARGS(x, r), &y, 1));
    td_on_grad(k, tenfold, NULL);
    td_retain_grad(r);
    CHECK(!td_invoke(f, TD_ARGS(x, k), &y, 1));
    CHECK(refuses(cx, "gradient hooks"));
    CHECK(!td_invoke(f, TD_ARGS(x, r), &y, 1));
    CHECK(refuses(cx, "td_retain_grad"));
    td_close(cx);
}

/* ---- modes --------------------------------------------------------------- */

/* Counts muls, and multiplies what they give. */
static bool tenfold_mul(void *env, td_mode_call *h) {
    int *n = env;
    if (!td_mode_call_go(h)) return false;
    if (strcmp(td_mode_call_name(h), "mul") != 0) return true;
    ++*n;
    return td_mode_call_answer(h, 0, td_mul(td_mode_call_result(h, 0), 10.0));
}

static bool tanh_body(td_call *c) {
    return td_return(c, td_tanh(td_mul(td_arg(c, 0), 3.0)));
}

/* Pushed after the call, it hears the derivative and nothing of the forward, which a
 * compiled backward may compute once more. */
static void mode_after_call(side *s) {
    int          n = 0;
    td_mode_hook m = {.name = "tenfold", .call = tenfold_mul, .env = &n};
    td_tensor   *x = leaf(s->cx, TD_SHAPE(3), 0.1), *y = ask1(s, TD_ARGS(x)), *g;
    td_tensor   *sum = td_sum(y);
    td_grad_opts keep = {TD_GRAD_OPTS, .retain_graph = true};
    td_mode_push(s->cx, &m);
    td_grad(TD_LIST(sum), TD_LIST(x), &g, &keep);
    td_mode_pop(s->cx, &m);
    say(s, "%d muls\n", n);
    tell_grad(s, "heard", g);
    td_grad(TD_LIST(sum), TD_LIST(x), &g, &keep);
    tell_grad(s, "not heard", g);
}
TEST(a_mode_pushed_after_a_compiled_call_receives_its_backward) {
    check_scene(mode_after_call, tanh_body);
}

TEST(a_mode_and_create_graph_refuse_a_compiled_backward) {
    td_ctx      *cx = td_open();
    int          n = 0;
    td_mode_hook m = {.name = "tenfold", .call = tenfold_mul, .env = &n};
    td_fn       *f = td_aot_function(cx, tanh_body, NULL, NULL);
    td_tensor   *x = leaf(cx, TD_SHAPE(3), 0.1), *y, *g;
    td_grad_opts create = {TD_GRAD_OPTS, .create_graph = true};
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    td_tensor *sum = td_sum(y);
    td_mode_push(cx, &m);
    CHECK(!td_grad(TD_LIST(sum), TD_LIST(x), &g, &create));
    td_mode_pop(cx, &m);
    CHECK(refuses(cx, "a mode is pushed"));
    CHECK(td_grad(TD_LIST(sum), TD_LIST(x), &g, &create));
    td_close(cx);
}
