/* callbacks.c -- the user's code inside a call of the library may not take away what
 * the call works with: the context, and scopes begun outside. */
#include "grad_help.h"
#include "tandem/tandem.h"

static td_ctx *shared;
static int     calls;

/* Tries both, and goes on as if nothing had been. */
static void misbehave(void) {
    if (calls++) return;
    td_scope_end(shared, "around", NULL);
    CHECK(td_error(shared) == TD_E_ARG &&
          strstr(td_message(shared), "was begun outside of this code"));
    td_clear(shared);
    td_close(shared);
    CHECK(td_error(shared) == TD_E_ARG &&
          strstr(td_message(shared), "the context is in use"));
    td_clear(shared);
    td_scope_begin(shared, "mine");
    td_ones(shared, TD_SHAPE(2));
    td_scope_end(shared, "mine", NULL);
    CHECK_OK(shared);
}

static td_tensor *on_grad(void *env, td_tensor *g) {
    (void)env;
    (void)g;
    misbehave();
    return NULL;
}
static bool on_leaf(void *env, td_tensor *t) {
    (void)env;
    (void)t;
    misbehave();
    return true;
}
static bool on_pre(void *env, td_tensor **g, int n) {
    (void)env;
    (void)g;
    (void)n;
    misbehave();
    return true;
}
static bool on_post(void *env, td_tensor **made, int n_made, td_tensor *const *g,
                    int n) {
    (void)made;
    (void)n_made;
    return on_pre(env, (td_tensor **)(uintptr_t)g, n);
}
static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)env;
    (void)n_in;
    (void)n_out;
    misbehave();
    out[0] = td_exp(in[0]);
    return true;
}
static bool body(td_call *c) {
    misbehave();
    return td_return(c, td_exp(td_arg(c, 0)));
}
static bool module_forward(td_module *m, td_call *c) {
    (void)m;
    return body(c);
}
static bool forward(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) {
    (void)f;
    (void)n_in;
    (void)n_out;
    misbehave();
    out[0] = td_mul(in[0], 2.0);
    return true;
}
static bool backward(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                     int n_in) {
    (void)f;
    (void)n_out;
    (void)n_in;
    misbehave();
    grad[0] = td_mul(g[0], 2.0);
    return true;
}
static bool plain_forward(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                          int n_out) {
    (void)f;
    (void)n_in;
    (void)n_out;
    out[0] = td_mul(in[0], 2.0);
    return true;
}
static bool mode(void *env, td_mode_call *h) {
    (void)env;
    misbehave();
    return td_mode_call_go(h);
}
static void sink(void *env, const char *topic, const char *text) {
    (void)env;
    (void)topic;
    (void)text;
    misbehave();
}
static void *pack(void *env, td_tensor *t) {
    (void)env;
    misbehave();
    return td_keep(t);
}
static void *plain_pack(void *env, td_tensor *t) {
    (void)env;
    return td_keep(t);
}
static td_tensor *unpack(void *env, void *packed, td_ctx *cx) {
    (void)env;
    (void)cx;
    misbehave();
    return packed;
}
static void drop_packed(void *env, void *packed) {
    (void)env;
    td_drop(packed);
}
static bool visit(void *env, const td_member *m) {
    (void)env;
    (void)m;
    misbehave();
    return true;
}

static void with_function(td_tensor *x, const td_function *f) {
    td_tensor *y;
    td_function_call(shared, f, NULL, TD_LIST(x), &y, 1);
    td_backward(td_sum(y));
}

static void with_saved(td_tensor *x, td_saved_hooks h) {
    h.drop = drop_packed;
    td_saved_hooks_push(shared, &h);
    td_tensor *y = td_exp(x);
    td_saved_hooks_pop(shared);
    td_backward(td_sum(y));
}

static const td_module_type module_type = {.name = "M", .forward = module_forward};

static void with_module(td_tensor *x, bool walk) {
    td_module *m = td_module_make(shared, &module_type);
    td_module_param(m, "w", td_ones(shared, TD_SHAPE(2)));
    if (walk) td_module_visit(m, TD_VISIT_PARAMS, visit, NULL);
    else td_module_call(m, TD_ARGS(x));
}

static void with_fn(td_tensor *x) {
    td_tensor *y;
    td_fn     *f = td_aot_function(shared, body, NULL, NULL);
    td_invoke(f, TD_ARGS(x), &y, 1);
}

/* Runs the callback of number k; false: there are no more. */
static bool run(int k, td_tensor *x) {
    td_tensor *y = td_mul(x, 2.0), *out;
    td_value   v;
    switch (k) {
    case 0: td_on_grad(y, on_grad, NULL); break;
    case 1: td_on_grad(x, on_grad, NULL); break;
    case 2: td_on_accumulated(x, on_leaf, NULL); break;
    case 3: td_on_node_pre(td_grad_fn(y), on_pre, NULL); break;
    case 4: td_on_node_post(td_grad_fn(y), on_post, NULL); break;
    case 5: td_checkpoint(shared, region, NULL, TD_LIST(x), &out, 1); break;
    case 6: td_call_body(shared, body, NULL, TD_ARGS(x), &v, 1); break;
    case 7: with_fn(x); break;
    case 8: with_module(x, false); break;
    case 9: with_module(x, true); break;
    case 10:
        with_function(x, &(td_function){.name = "f",
                                        .forward = forward,
                                        .backward = backward});
        break;
    case 11:
        with_function(x, &(td_function){.name = "f",
                                        .forward = plain_forward,
                                        .backward = backward});
        break;
    case 12: with_saved(x, (td_saved_hooks){.pack = pack, .unpack = unpack}); break;
    case 13:
        with_saved(x, (td_saved_hooks){.pack = plain_pack, .unpack = unpack});
        break;
    case 14: {
        td_mode_hook h = {.name = "m", .call = mode};
        td_mode_push(shared, &h);
        td_exp(x);
        td_mode_pop(shared, &h);
        break;
    }
    case 15:
        td_log_to(shared, sink, NULL);
        td_config_set(shared, "log", "all");
        td_capture(shared, body, NULL, TD_ARGS(x));
        break;
    default: return false;
    }
    td_backward(td_sum(y));
    return true;
}

TEST(a_callback_can_neither_close_the_context_nor_end_a_scope_around_it) {
    bool more = true;
    for (int k = 0; more; k++) {
        shared = td_open();
        calls = 0;
        td_tensor *x = LEAF(shared, 1, 2);
        td_scope_begin(shared, "around");
        more = run(k, x);
        TD_CHECK_THAT(td_ok(shared), "callback %d: %s", k, td_message(shared));
        TD_CHECK_THAT(!more || calls > 0, "callback %d did not run", k);
        td_scope_end(shared, "around", NULL);
        CHECK_OK(shared);
        td_close(shared);
    }
}

static void closes(void *env) {
    (void)env;
    calls++;
    td_close(shared);
}

TEST(a_release_function_cannot_close_the_context_that_calls_it) {
    static float bytes[2] = {1, 2};
    shared = td_open();
    calls = 0;
    td_drop(td_wrap(shared, TD_F32, TD_SHAPE(2), TD_ALL, bytes, closes, NULL));
    CHECK(calls == 1);
    CHECK(td_error(shared) == TD_E_ARG &&
          strstr(td_message(shared), "the context is in use"));
    td_close(shared);
}

/* ---- modules ------------------------------------------------------------ */

static td_module *parent;

static bool frees_parent(td_module *m, td_call *c) {
    (void)m;
    td_module_free(parent);
    return td_return(c, td_arg(c, 0));
}
static bool calls_child(td_module *m, td_call *c) {
    td_module *child = td_module_child_at(m, 0, NULL);
    return td_return(c, td_module_call(child, TD_ARGS(td_arg(c, 0))));
}
static const td_module_type child_type = {.name = "Child", .forward = frees_parent};
static const td_module_type parent_type = {.name = "Parent", .forward = calls_child};

TEST(a_module_cannot_be_freed_while_a_child_of_it_runs) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *y;
    parent = td_module_make(cx, &parent_type);
    td_module_child(parent, "kid", td_module_make(cx, &child_type));

    td_module_call(parent, TD_ARGS(x));
    CHECK_FAILS(cx, "kid: td_module_free: the forward of this Parent or of one");
    td_clear(cx);
    CHECK(!td_invoke(td_aot_module(parent, NULL), TD_ARGS(x), &y, 1));
    CHECK_FAILS(cx, "td_module_free: the forward of this Parent or of one");
    td_clear(cx);
    td_module_free(parent);
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- boxed calls -------------------------------------------------------- */

static bool product(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_arg(c, 1)));
}
static bool second(td_call *c) { return td_return(c, td_arg(c, 1)); }

TEST(a_boxed_call_takes_a_tensor_that_is_given_twice_once) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, product, NULL, NULL);
    td_tensor *x = LEAF(cx, 3, 3), *y;
    for (int k = 0; k < 3; k++) {
        td_tensor *h = td_mul(x, 1.0), *args[2] = {h, h};
        if (k > 0) td_keep(h);
        if (k > 1) td_keep(h);
        td_zero_grad(x);
        CHECK(td_invoke_boxed(f, args, 2, &y, 1) && !args[0] && !args[1]);
        td_backward(td_sum(y));
        CHECK_OK(cx);
        CHECK_VALUES(td_grad_of(x), 6, 6);
        if (k > 1) td_drop(h);
    }
    td_close(cx);
}

TEST(a_result_that_is_an_argument_of_a_boxed_call_lives) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, second, NULL, NULL);
    td_tensor *y;
    for (int k = 0; k < 3; k++) {
        td_tensor *a = td_full(cx, TD_SHAPE(2), 1.0),
                  *b = td_full(cx, TD_SHAPE(2), 2.0);
        td_tensor *args[2] = {k < 2 ? a : b, b};
        if (k == 1) td_keep(b);
        CHECK(td_invoke_boxed(f, args, 2, &y, 1));
        CHECK_OK(cx);
        CHECK_VALUES(y, 2, 2);
    }
    td_close(cx);
}

/* ---- nil ---------------------------------------------------------------- */

TEST(a_nil_object_is_an_error_once_the_failure_that_made_it_is_cleared) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *y;
    td_fail(cx, TD_E_SHAPE, "a mistake");
    td_fn     *f = td_aot_function(cx, product, NULL, NULL);
    td_module *m = td_nn_linear(cx, 2, 2, NULL);
    td_optim  *o = td_optim_module(m, td_sgd(0.1));
    CHECK(td_is_nil(f) && td_is_nil(m) && td_is_nil(o));
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1) && !td_optim_step(o));
    CHECK_FAILS(cx, "a mistake"); /* still the first one */
    td_clear(cx);

    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK_FAILS(cx, "td_invoke: the compiled function is nil");
    td_clear(cx);
    CHECK(td_is_nil(td_module_call(m, TD_ARGS(x))));
    CHECK_FAILS(cx, "the module is nil");
    td_clear(cx);
    CHECK(!td_optim_step(o));
    CHECK_FAILS(cx, "the optimizer is nil");
    td_clear(cx);
    td_fn_drop(f);
    td_module_free(m);
    td_optim_free(o);
    CHECK_OK(cx);
    td_close(cx);
}
