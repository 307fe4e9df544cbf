/* aot_deps.c -- what a body reads besides its arguments: modes and members of modules,
 * watched bytes; and debug_asserts, which finds what it reads in secret. */
#include "cache_help.h"
#include "tandem/nn.h"

typedef struct env {
    td_module *net, *other;
    double     rate;
    int        n;
    td_fn     *inner;
} env;

static td_ctx *open_quiet(void) {
    td_ctx *cx = open_hearing("guards");
    td_config_set(cx, "backend", "interp");
    td_config_set(cx, "cache_disk_mb", "0");
    td_seed(cx, 1);
    return cx;
}

static double value_of(td_fn *f, td_tensor *x) {
    td_tensor *y = NULL;
    if (!td_invoke(f, TD_ARGS(x), &y, 1)) return NAN;
    return td_item(td_sum(td_detach(y)));
}

/* ---- modes -------------------------------------------------------------- */

static bool calls_net(td_call *c) {
    env *e = td_call_env(c);
    return td_return(c, td_sum(td_module_call(e->net, TD_ARGS(td_arg(c, 0)))));
}
static bool asks_mode(td_call *c) {
    env *e = td_call_env(c);
    return td_return(c, td_mul(td_arg(c, 0), td_module_training(e->net) ? 2.0 : 1.0));
}
static bool yes(td_call *c) {
    env *e = td_call_env(c);
    return td_return(c, td_module_call(e->net, TD_ARGS(td_arg(c, 0))));
}
static bool no(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), 1.0)); }
static bool in_a_branch(td_call *c) {
    td_tensor *y, *x = td_arg(c, 0);
    td_cond(td_gt(td_sum(x), 0.0), (td_branches){yes, no, td_call_env(c)}, TD_ARGS(x),
            &y, 1);
    return td_return(c, td_sum(y));
}
static bool by_another_function(td_call *c) {
    env       *e = td_call_env(c);
    td_tensor *y;
    return td_invoke(e->inner, TD_ARGS(td_arg(c, 0)), &y, 1) && td_return(c, y);
}

/* Whoever calls it, and however: a change of mode counts, and the old mode's code is
 * found again. */
static void check_mode(td_body *body, bool step) {
    td_ctx    *cx = open_quiet();
    td_tensor *x = td_ones(cx, TD_SHAPE(1000));
    env        e = {.net = td_nn_dropout(cx, 0.5)};
    e.inner = td_aot_function(cx, calls_net, &e, NULL);
    td_fn *f =
        step ? td_aot_step(cx, body, &e, NULL) : td_aot_function(cx, body, &e, NULL);
    CHECK(value_of(f, x) != 1000.0);
    td_module_train(e.net, false);
    heard[0] = 0;
    CHECK(value_of(f, x) == 1000.0);
    CHECK(
        strstr(heard, "not #0: module Dropout is in eval mode, was in training mode"));
    td_module_train(e.net, true);
    CHECK(value_of(f, x) != 1000.0);
    td_module_train(e.net, false);
    CHECK(value_of(f, x) == 1000.0);
    CHECK(td_fn_specializations(f) == 2);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_fn_drop(e.inner);
    td_module_free(e.net);
    td_close(cx);
}

TEST(the_mode_of_a_module_that_a_body_uses_counts) {
    td_body *const bodies[] = {calls_net, asks_mode, in_a_branch, by_another_function};
    for (int i = 0; i < TD_COUNT(bodies); i++)
        for (int step = 0; step < 2; step++) check_mode(bodies[i], step);
}

static bool calls_both(td_call *c) {
    env       *e = td_call_env(c);
    td_tensor *a = td_module_call(e->net, TD_ARGS(td_arg(c, 0)));
    return td_return(c, td_sum(td_module_call(e->other, TD_ARGS(a))));
}

TEST(any_number_of_modules_counts_with_and_without_the_option) {
    for (int with = 0; with < 2; with++) {
        td_ctx    *cx = open_quiet();
        td_tensor *x = td_ones(cx, TD_SHAPE(1000));
        td_module *deep = td_nn_dropout(cx, 0.5);
        env        e = {.net = td_nn_sequential(cx, TD_MODULES(td_nn_relu(cx), deep))};
        e.other = td_nn_sequential(cx, TD_MODULES(td_nn_dropout(cx, 0.5)));
        td_aot_opts opts = {TD_AOT_OPTS, .module = with ? e.net : NULL};
        td_fn      *f = td_aot_step(cx, calls_both, &e, &opts);
        value_of(f, x);
        td_module_train(deep, false); /* of a child alone */
        heard[0] = 0;
        value_of(f, x);
        CHECK(
            strstr(heard, "module Sequential: \"1\" is in eval mode, was in training"));
        td_module_train(e.other, false);
        heard[0] = 0;
        CHECK(value_of(f, x) == 1000.0);
        CHECK(strstr(heard, "module Sequential"));
        CHECK(td_fn_specializations(f) == 3);
        td_module *unrelated = td_nn_dropout(cx, 0.5);
        td_module_train(unrelated, false);
        CHECK(value_of(f, x) == 1000.0);
        CHECK(td_fn_specializations(f) == 3);
        CHECK_OK(cx);
        td_fn_drop(f);
        td_module_free(e.net);
        td_module_free(e.other);
        td_module_free(unrelated);
        td_close(cx);
    }
}

/* ---- members ------------------------------------------------------------ */

static bool reads_weight(td_call *c) {
    env *e = td_call_env(c);
    return td_return(c, td_sum(td_mul(td_arg(c, 0), td_module_get(e->net, "weight"))));
}

TEST(a_replaced_member_is_used) {
    td_body *const bodies[] = {calls_net, reads_weight};
    for (int i = 0; i < TD_COUNT(bodies); i++) {
        td_ctx    *cx = open_quiet();
        td_tensor *x = td_ones(cx, TD_SHAPE(1, 4));
        env        e = {.net = td_nn_linear(cx, 4, 1,
                                            &(td_nn_linear_opts){TD_NN_LINEAR_OPTS,
                                                                 .no_bias = true})};
        td_fn     *f = td_aot_function(cx, bodies[i], &e, NULL);
        value_of(f, x);
        td_module_set(e.net, "weight", td_full(cx, TD_SHAPE(1, 4), 2.0));
        heard[0] = 0;
        CHECK(value_of(f, x) == 8.0);
        CHECK(strstr(heard, "module Linear: \"weight\" is another tensor"));
        td_no_grad_begin(cx);
        td_mul_(td_module_get(e.net, "weight"), 2.0); /* its values are no key */
        td_set_grad_enabled(cx, true);
        CHECK(value_of(f, x) == 16.0);
        CHECK(td_fn_specializations(f) == 2);
        CHECK_OK(cx);
        td_fn_drop(f);
        td_module_free(e.net);
        td_close(cx);
    }
}

TEST(a_module_freed_since_is_not_touched) {
    td_ctx    *cx = open_quiet();
    td_tensor *x = td_ones(cx, TD_SHAPE(1000));
    env        e = {.net = td_nn_dropout(cx, 0.5)};
    td_fn     *f = td_aot_function(cx, calls_net, &e, NULL);
    value_of(f, x);
    td_module_free(e.net);
    e.net = td_nn_dropout(cx, 0.5);
    td_module_train(e.net, false);
    heard[0] = 0;
    CHECK(value_of(f, x) == 1000.0);
    CHECK(strstr(heard, "not #0: module Dropout was freed"));
    CHECK(td_fn_specializations(f) == 2);
    td_module_free(e.net);
    td_fn_drop(f); /* it knows a module that is gone */
    CHECK_OK(cx);
    td_close(cx);
}

static bool trains(td_call *c) {
    env *e = td_call_env(c);
    td_module_train(e->net, false);
    return calls_net(c);
}
static bool sets(td_call *c) {
    env *e = td_call_env(c);
    td_module_set(e->net, "weight", e->other ? NULL : NULL);
    return td_return(c, td_arg(c, 0));
}
static bool freezes(td_call *c) {
    env *e = td_call_env(c);
    td_module_requires_grad(e->net, false);
    return td_return(c, td_arg(c, 0));
}

TEST(a_captured_body_cannot_change_a_module) {
    static const struct {
        td_body    *body;
        const char *who;
    } rows[] = {{trains, "td_module_train: a captured body cannot change a module"},
                {sets, "td_module_set: a captured body cannot change a module"},
                {freezes, "td_module_requires_grad: a captured body cannot change"}};
    for (int i = 0; i < TD_COUNT(rows); i++) {
        td_ctx *cx = open_quiet();
        env     e = {.net = td_nn_linear(cx, 4, 4, NULL)};
        td_fn  *f = td_aot_function(cx, rows[i].body, &e, NULL);
        CHECK(isnan(value_of(f, td_ones(cx, TD_SHAPE(4)))));
        CHECK(td_error(cx) == TD_E_TRACE);
        CHECK(strstr(td_message(cx), rows[i].who));
        CHECK(td_module_training(e.net) && !td_is_nil(td_module_get(e.net, "weight")));
        td_clear(cx);
        td_fn_drop(f);
        td_module_free(e.net);
        td_close(cx);
    }
}

/* ---- watched bytes ------------------------------------------------------ */

static bool scaled(td_call *c) {
    env *e = td_call_env(c);
    td_watch(c, &e->rate, sizeof e->rate);
    td_watch(c, &e->rate, sizeof e->rate); /* once is enough, twice is fine */
    return td_return(c, td_mul(td_arg(c, 0), e->rate));
}
static bool scaled_branch(td_call *c) {
    env *e = td_call_env(c);
    td_watch(c, &e->n, sizeof e->n);
    return td_return(c, td_mul(td_arg(c, 0), e->rate * e->n));
}
static bool scaled_in_a_branch(td_call *c) {
    env       *e = td_call_env(c);
    td_tensor *y, *x = td_arg(c, 0);
    td_watch(c, &e->rate, sizeof e->rate);
    td_cond(td_gt(td_sum(x), 0.0), (td_branches){scaled_branch, no, e}, TD_ARGS(x), &y,
            1);
    return td_return(c, y);
}
static bool scaled_forward(td_module *m, td_call *c) {
    env *e = td_module_state(m);
    td_watch(c, &e->rate, sizeof e->rate);
    return td_return(c, td_mul(td_arg(c, 0), e->rate));
}
static const td_module_type scaled_type = {.name = "Scaled",
                                           .bytes = sizeof(env),
                                           .forward = scaled_forward};

TEST(a_watched_number_is_part_of_the_key) {
    for (int kind = 0; kind < 4; kind++) {
        td_ctx    *cx = open_quiet();
        env        own = {.rate = 1.0, .n = 1}, *e = &own;
        td_tensor *x = td_ones(cx, TD_SHAPE(4));
        td_module *m = td_module_make(cx, &scaled_type);
        td_fn     *f = kind == 0   ? td_aot_function(cx, scaled, e, NULL)
                       : kind == 1 ? td_aot_step(cx, scaled, e, NULL)
                       : kind == 2 ? td_aot_module(m, NULL)
                                   : td_aot_function(cx, scaled_in_a_branch, e, NULL);
        if (kind == 2) e = td_module_state(m);
        e->rate = 1.0;
        CHECK(value_of(f, x) == 4.0);
        e->rate = 2.5;
        heard[0] = 0;
        CHECK(value_of(f, x) == 10.0);
        CHECK(strstr(heard, "watched value 0 (tests/unit/aot_deps.c:"));
        CHECK(strstr(heard, ") is 2.5 (as an int"));
        CHECK(strstr(heard, ", was 1 (as an int"));
        e->rate = 1.0;
        CHECK(value_of(f, x) == 4.0);
        CHECK(td_fn_specializations(f) == 2);
        if (kind == 3) {
            e->n = 3;
            CHECK(value_of(f, x) == 12.0);
            CHECK(td_fn_specializations(f) == 3);
        }
        td_value v;
        CHECK(td_call_body(cx, scaled, &own, TD_ARGS(x), &v, 1) == 1); /* eagerly */
        CHECK_OK(cx);
        td_fn_drop(f);
        td_module_free(m);
        td_close(cx);
    }
}

static bool watches_and_calls(td_call *c) {
    env *e = td_call_env(c);
    td_watch(c, &e->rate, sizeof e->rate);
    return calls_net(c);
}

TEST(an_explanation_lists_modules_and_watched_values) {
    td_ctx *cx = open_quiet();
    env     e = {.net = td_nn_dropout(cx, 0.5), .rate = 0.25};
    td_fn  *f = td_aot_function(cx, watches_and_calls, &e, NULL);
    char    text[8000];
    value_of(f, td_ones(cx, TD_SHAPE(4)));
    td_explain(f, text, sizeof text);
    CHECK(strstr(text, "module Dropout: modes and members"));
    CHECK(strstr(text, "watched value 0 (tests/unit/aot_deps.c:"));
    CHECK(strstr(text, "): 0.25 (as an int"));
    td_explain_json(f, text, sizeof text);
    CHECK(strstr(text, "module Dropout: modes and members"));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_module_free(e.net);
    td_close(cx);
}

TEST(watched_values_end_at_the_limit_of_specializations) {
    td_ctx     *cx = open_quiet();
    env         e = {.rate = 0};
    td_aot_opts opts = {TD_AOT_OPTS, .limit = 4};
    td_tensor  *x = td_ones(cx, TD_SHAPE(4));
    td_fn      *f = td_aot_function(cx, scaled, &e, &opts);
    for (e.rate = 1; e.rate < 5; e.rate++) CHECK(value_of(f, x) == 4 * e.rate);
    CHECK(isnan(value_of(f, x)));
    CHECK(td_error(cx) == TD_E_UNSUPPORTED);
    CHECK(strstr(td_message(cx), "f: 4 specializations exist, which is the limit (4)"));
    CHECK(strstr(td_message(cx), "watched value 0"));
    CHECK(strstr(td_message(cx), "is 5 (as an int"));
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}

static bool watches_null(td_call *c) { return td_watch(c, NULL, 8); }
static bool watches_much(td_call *c) {
    static char big[1 << 20];
    return td_watch(c, big, 1 << 19) && td_watch(c, big, sizeof big);
}
static bool watches_nothing(td_call *c) {
    return td_watch(c, NULL, 0) && td_return(c, td_arg(c, 0));
}

TEST(what_cannot_be_watched_is_an_error) {
    td_ctx    *cx = open_quiet();
    td_tensor *x = td_ones(cx, TD_SHAPE(4));
    td_fn     *f = td_aot_function(cx, watches_null, NULL, NULL);
    CHECK(isnan(value_of(f, x)) && td_error(cx) == TD_E_ARG);
    CHECK(strstr(td_message(cx), "td_watch: bytes is NULL, n is 8"));
    td_clear(cx);
    td_fn_drop(f);
    f = td_aot_function(cx, watches_much, NULL, NULL);
    CHECK(isnan(value_of(f, x)) && td_error(cx) == TD_E_ARG);
    CHECK(strstr(td_message(cx),
                 "td_watch: 1048576 bytes exceed the limit of a function (524288 are"));
    td_clear(cx);
    td_fn_drop(f);
    f = td_aot_function(cx, watches_nothing, NULL, NULL);
    CHECK(value_of(f, x) == 4.0);
    td_fn_drop(f);
    td_close(cx);
}

/* A version says that body and env are the same; a mode is more than it can say. */
TEST(a_version_does_not_cover_modes_and_watched_values) {
    td_aot_opts opts = {TD_AOT_OPTS, .name = "vouched", .version = "1"};
    for (int process = 0; process < 2; process++) {
        td_ctx    *cx = enter("cache");
        td_tensor *x = td_ones(cx, TD_SHAPE(1000));
        env        e = {.net = td_nn_dropout(cx, 0.5), .rate = 1.0 + process};
        td_module_train(e.net, process == 1);
        td_fn *f = td_aot_function(cx, calls_net, &e, &opts);
        td_fn *g = td_aot_function(cx, scaled, &e, &opts);
        CHECK((value_of(f, x) == 1000.0) == (process == 0));
        CHECK(value_of(g, x) == 1000.0 * e.rate);
        CHECK(count("vouched calls modules or watches values") == 2);
        td_fn_drop(f);
        td_fn_drop(g);
        td_module_free(e.net);
        if (process) leave(cx);
        else td_close(cx);
    }
}

/* ---- debug_asserts ------------------------------------------------------ */

static bool reads_rate(td_call *c) {
    env       *e = td_call_env(c);
    td_tensor *h = td_tanh(td_arg(c, 0));
    return td_return(c, td_mul(h, e->rate));
}
static bool loops_n_times(td_call *c) {
    env       *e = td_call_env(c);
    td_tensor *h = td_arg(c, 0);
    for (int i = 0; i < e->n; i++) h = td_mul(h, 2.0);
    return td_return(c, h);
}
static bool rate_forward(td_module *m, td_call *c) {
    env *e = td_module_state(m);
    return td_return(c, td_mul(td_arg(c, 0), e->rate));
}
static const td_module_type rate_type = {.name = "Rate",
                                         .bytes = sizeof(env),
                                         .forward = rate_forward};

static td_ctx *open_asserting(const char *dynamic) {
    td_ctx *cx = open_quiet();
    td_config_set(cx, "debug_asserts", "on");
    td_config_set(cx, "dynamic", dynamic);
    return cx;
}

TEST(with_debug_asserts_a_number_read_in_secret_is_found) {
    const char *const shapes[] = {"off", "on"};
    for (int kind = 0; kind < 6; kind++) {
        td_ctx    *cx = open_asserting(shapes[kind % 2]);
        env        own = {.rate = 1.0}, *e = &own;
        td_tensor *x = td_ones(cx, TD_SHAPE(4));
        td_module *m = td_module_make(cx, &rate_type);
        td_fn     *f = kind < 2   ? td_aot_function(cx, reads_rate, e, NULL)
                       : kind < 4 ? td_aot_step(cx, reads_rate, e, NULL)
                                  : td_aot_module(m, NULL);
        if (kind >= 4) e = td_module_state(m);
        e->rate = 1.0;
        for (int i = 1; i <= 3; i++) CHECK(!isnan(value_of(f, x)));
        e->rate = 2.0;
        CHECK(isnan(value_of(f, x))); /* the fourth */
        CHECK(td_error(cx) == TD_E_GUARD);
        CHECK(strstr(td_message(cx), "at call 4 the body does something"));
        const char *at = strstr(td_message(cx), " is now ");
        CHECK(at && strstr(td_message(cx), "mul(") < at && strstr(at, "mul("));
        CHECK(strstr(at, ", 2)") || strstr(at, ", 2.0)"));
        CHECK(strstr(at, "aot_deps.c:"));
        CHECK(strstr(at, "td_watch it"));
        td_clear(cx);
        td_fn_forget(f); /* what the message says */
        CHECK(!isnan(value_of(f, x)));
        CHECK_OK(cx);
        td_fn_drop(f);
        td_module_free(m);
        td_close(cx);
    }
}

TEST(with_debug_asserts_more_and_fewer_ops_are_found) {
    for (int more = 0; more < 2; more++) {
        td_ctx    *cx = open_asserting("off");
        env        e = {.n = 2};
        td_tensor *x = td_ones(cx, TD_SHAPE(4));
        td_fn     *f = td_aot_function(cx, loops_n_times, &e, NULL);
        value_of(f, x);
        e.n = more ? 3 : 1;
        CHECK(isnan(value_of(f, x)));
        CHECK(strstr(td_message(cx), "at call 2 the body does something else"));
        CHECK(strstr(td_message(cx), "return"));
        td_clear(cx);
        td_fn_drop(f);
        td_close(cx);
    }
}

static td_tensor *closed;
static bool       closes_over(td_call *c) {
          return td_return(c, td_mul(td_arg(c, 0), closed));
}

TEST(with_debug_asserts_another_closed_over_tensor_is_found) {
    td_ctx    *cx = open_asserting("off");
    td_tensor *x = td_ones(cx, TD_SHAPE(4));
    closed = td_full(cx, TD_SHAPE(4), 2.0);
    td_fn *f = td_aot_function(cx, closes_over, NULL, NULL);
    value_of(f, x);
    closed = td_full(cx, TD_SHAPE(4), 3.0);
    CHECK(isnan(value_of(f, x)));
    CHECK(strstr(td_message(cx), "closed-over tensor 0 is another tensor, f32[4]"));
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* Random numbers, a backward inside, modules, branches: the same program each time. */
static bool honest(td_call *c) {
    env       *e = td_call_env(c);
    td_tensor *x = td_arg(c, 0), *y, *g;
    td_cond(td_gt(td_sum(x), 0.0), (td_branches){yes, no, e}, TD_ARGS(x), &y, 1);
    td_tensor *h = td_softmax(td_dropout(td_mul(y, 3.0), 0.5, true), -1);
    if (!td_grad(TD_LIST(td_sum(td_mul(h, h))), TD_LIST(x), &g, NULL)) return false;
    return td_return(c, td_sum(td_add(h, g)), td_transpose(h, 0, 1));
}

TEST(with_debug_asserts_bodies_that_read_nothing_in_secret_pass) {
    const char *const shapes[] = {"off", "on", "auto"};
    for (int i = 0; i < 2 * TD_COUNT(shapes); i++) {
        td_ctx *cx = open_asserting(shapes[i / 2]);
        env     e = {.net = td_nn_linear(cx, 4, 4, NULL)};
        td_fn  *f = i % 2 ? td_aot_step(cx, honest, &e, NULL)
                          : td_aot_function(cx, honest, &e, NULL);
        for (int call = 0; call < 20; call++) {
            td_tensor *x = td_requires_grad_(td_randn(cx, TD_SHAPE(2 + call % 3, 4)));
            double     v = value_of(f, x);
            CHECK_OK(cx);
            CHECK(!isnan(v));
        }
        td_fn_drop(f);
        td_module_free(e.net);
        td_close(cx);
    }
}

/* Writes its argument and returns views of it: all of them begin where that does. */
static bool writes_and_views(td_call *c) {
    td_tensor *x = td_mul_(td_arg(c, 0), 2.0);
    return td_return(c, td_narrow(x, 1, 1, 2), td_select(x, 0, 0));
}

TEST(with_debug_asserts_an_argument_may_begin_anywhere) {
    const char *const shapes[] = {"off", "on", "auto"};
    for (int i = 0; i < TD_COUNT(shapes); i++) {
        td_ctx    *cx = open_asserting(shapes[i]);
        td_fn     *f = td_aot_function(cx, writes_and_views, NULL, NULL);
        td_tensor *all = td_zeros(cx, TD_SHAPE(20, 4)), *out[2];
        for (int call = 0; call < 17; call++) {
            td_invoke(f, TD_ARGS(td_narrow(all, 0, call, 2)), out, 2);
            CHECK_OK(cx);
        }
        td_fn_drop(f);
        td_close(cx);
    }
}

/* ---- reasons ------------------------------------------------------------ */

static bool halves(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_sum(td_view(x, TD_SHAPE(2, -1)), TD_DIMS(1), false));
}

TEST(a_guard_that_does_not_hold_is_the_reason) {
    td_ctx     *cx = open_quiet();
    td_aot_opts opts = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC, .limit = 1};
    td_fn      *f = td_aot_function(cx, halves, NULL, &opts);
    value_of(f, td_ones(cx, TD_SHAPE(4)));
    heard[0] = 0;
    value_of(f, td_ones(cx, TD_SHAPE(1)));
    CHECK(td_error(cx) == TD_E_UNSUPPORTED);
    CHECK(strstr(heard, "not #0: the guard ") && strstr(heard, "does not hold"));
    CHECK(strstr(td_message(cx), "differs from #0: the guard"));
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* A gradient is taken over or copied by its strides, which are symbols equal to those
 * of the parameter. */
static bool goes_back(td_call *c) {
    env       *e = td_call_env(c);
    td_tensor *loss = td_mean(td_square(td_module_call(e->net, TD_ARGS(td_arg(c, 0)))));
    if (!td_backward(loss)) return false;
    td_module_zero_grad(e->net);
    return td_return(c, loss);
}
TEST(a_body_that_goes_backward_is_the_same_for_all_sizes) {
    td_ctx *cx = open_quiet();
    env     e = {.net = td_nn_linear(cx, 8, 8, NULL)};
    td_config_set(cx, "debug_asserts", "on");
    td_config_set(cx, "dynamic", "on");
    td_aot_opts o = {TD_AOT_OPTS, .module = e.net};
    td_fn      *f = td_aot_step(cx, goes_back, &e, &o);
    for (int i = 0; i < 9; i++) value_of(f, td_ones(cx, TD_SHAPE(3 + i % 4, 8)));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_module_free(e.net);
    td_close(cx);
}

/* What C computes from a handle for a size, nobody sees but debug_asserts. */
static bool compares_a_handle(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_sym_size(x, 0) > 5 ? td_sum(x) : td_neg(td_sum(x)));
}
static bool divides_by_a_handle(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(td_sum(x), 1.0 / (double)td_sym_size(x, 0)));
}
TEST(a_number_made_of_a_handle_is_found) {
    td_body *bodies[] = {compares_a_handle, divides_by_a_handle};
    for (int k = 0; k < 2; k++) {
        td_ctx *cx = open_quiet();
        td_config_set(cx, "debug_asserts", "on");
        td_config_set(cx, "dynamic", "on");
        td_fn *f = td_aot_function(cx, bodies[k], NULL, NULL);
        for (int i = 0; i < 2; i++) value_of(f, td_ones(cx, TD_SHAPE(8, 2)));
        CHECK(td_error(cx) == TD_E_GUARD);
        CHECK(strstr(td_message(cx), "at call 2 the body does something else"));
        td_clear(cx);
        td_fn_drop(f);
        td_close(cx);
    }
}

TEST(the_form_of_a_module_is_the_reason) {
    td_ctx    *cx = open_quiet();
    td_module *m = td_nn_sequential(cx, TD_MODULES(td_nn_linear(cx, 4, 4, NULL),
                                                   td_nn_dropout(cx, 0.5)));
    td_fn     *f = td_aot_module(m, NULL);
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 4));
    value_of(f, x);
    td_module_train(td_module_find(m, "1"), false);
    heard[0] = 0;
    value_of(f, x);
    CHECK(strstr(heard, "module Sequential: \"1\" is in eval mode, was in training"));
    td_module_set(m, "0.bias", NULL);
    heard[0] = 0;
    value_of(f, x);
    CHECK(strstr(heard, "module Sequential no longer has \"0.bias\""));
    td_module_set(m, "0.bias", td_zeros(cx, TD_SHAPE(4)));
    heard[0] = 0;
    value_of(f, x);
    CHECK_STR(heard, ""); /* it fits again */
    CHECK(!strstr(heard, "nothing"));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_module_free(m);
    td_close(cx);
}
