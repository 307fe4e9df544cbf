/* aot_fails.c -- calls that fail: bodies, limits, backends; and who is let go when. */
#include "aot_sides.h"

#include "aot/aot.h"

/* ---- bodies ------------------------------------------------------------- */

static bool bad_sizes(td_call *c) {
    td_add_(td_arg(c, 0), 1.0);
    return td_return(c, td_mm(td_arg(c, 0), td_arg(c, 1)));
}
static void body_fails(side *s) {
    td_tensor *a = values(s->cx, TD_SHAPE(2, 3), 1),
              *b = leaf(s->cx, TD_SHAPE(3, 2), 1);
    td_tensor *y[1];
    for (int round = 0; round < 2; round++) {
        say(s, "call %d\n", ask(s, TD_ARGS(b, b), y, 1));
        tell_error(s, NULL);
        say(s, "call %d\n", ask(s, TD_ARGS(td_zeros(s->cx, TD_SHAPE(2, 2)), b), y, 1));
        say(s, "nil %d %s\n", td_is_nil(y[0]), td_message(s->cx));
        tell_error(s, NULL);
        say(s, "call %d\n", ask(s, TD_ARGS(values(s->cx, TD_SHAPE(2, 3), 1), b), y, 1));
        tell(s, "y", y[0]);
    }
    tell(s, "a", a);
}
TEST(a_body_that_fails_fails_in_eagers_words) { check_scene(body_fails, bad_sizes); }

static bool refuses(td_call *c) {
    td_fail(td_call_ctx(c), TD_E_ARG, "not on my watch");
    return false;
}
static void body_refuses(side *s) {
    say(s, "call %d %s\n", ask(s, TD_ARGS(1), NULL, 0), td_message(s->cx));
    tell_error(s, NULL);
}
TEST(a_body_may_refuse) { check_scene(body_refuses, refuses); }

/* Nothing may be written by a call that fails while it is compiled. */
TEST(a_call_that_cannot_be_compiled_writes_nothing) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, bad_sizes, NULL, NULL);
    td_tensor *a = values(cx, TD_SHAPE(2, 2), 1), *y;
    CHECK(!td_invoke(f, TD_ARGS(a, values(cx, TD_SHAPE(3, 2), 1)), &y, 1));
    CHECK(td_is_nil(y));
    td_clear(cx);
    CHECK(td_version(a) == 0);
    CHECK_NEAR(td_item(td_select(td_select(a, 0, 0), 0, 0)), 1.0, 0);
    CHECK(td_fn_specializations(f) == 0);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- the limit ---------------------------------------------------------- */

TEST(the_limit_is_an_error_that_names_itself_and_the_difference) {
    td_ctx     *cx = td_open();
    td_aot_opts opts = {TD_AOT_OPTS, .name = "pair", .limit = 2};
    td_fn      *f = td_aot_function(cx, product_body, NULL, &opts);
    td_tensor  *y;
    for (int n = 1; n <= 2; n++) {
        td_tensor *a = td_ones(cx, TD_SHAPE(2), n == 1 ? TD_F32 : TD_F64);
        CHECK(td_invoke(f, TD_ARGS(a, a), &y, 1));
    }
    td_tensor *a = td_ones(cx, TD_SHAPE(2), TD_I64);
    CHECK(!td_invoke(f, TD_ARGS(a, a), &y, 1));
    CHECK(strstr(td_message(cx), "pair: 2 specializations exist"));
    CHECK(strstr(td_message(cx), "which is the limit (2)"));
    CHECK(strstr(td_message(cx), "dtype i64"));
    CHECK(td_error(cx) == TD_E_UNSUPPORTED);
    td_clear(cx);
    a = td_ones(cx, TD_SHAPE(2));
    CHECK(td_invoke(f, TD_ARGS(a, a), &y, 1));
    CHECK(td_fn_specializations(f) == 2);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- lifetimes ---------------------------------------------------------- */

static void dropped_early(side *s) {
    td_tensor   *x = leaf(s->cx, TD_SHAPE(2), 1), *w = leaf(s->cx, TD_SHAPE(2), 2);
    td_tensor   *y = ask1(s, TD_ARGS(x, w)), *g;
    td_grad_opts make = {TD_GRAD_OPTS, .create_graph = true};
    td_fn_drop(s->fn);
    s->fn = NULL;
    td_grad(TD_LIST(td_sum(td_mul(y, y))), TD_LIST(x), &g, &make);
    tell_grad(s, "g", g);
    td_backward(td_sum(td_mul(g, g)));
    tell_grad(s, "dw", td_grad_of(w));
}
TEST(a_function_may_go_before_its_backward_runs) {
    check_scene(dropped_early, product_body);
}

static td_fn     *to_drop;
static td_tensor *drop_fn(void *env, td_tensor *g) {
    (void)env, (void)g;
    td_fn_drop(to_drop);
    to_drop = NULL;
    return NULL;
}
TEST(a_function_may_go_while_its_backward_runs) {
    td_ctx    *cx = td_open();
    td_tensor *x = leaf(cx, TD_SHAPE(2), 1), *w = leaf(cx, TD_SHAPE(2), 2), *y;
    to_drop = td_aot_function(cx, product_body, NULL, NULL);
    CHECK(td_invoke(to_drop, TD_ARGS(x, w), &y, 1));
    td_on_grad(y, drop_fn, NULL);
    CHECK(td_backward(td_sum(y)));
    CHECK_NEAR(td_item(td_sum(td_grad_of(x))), 4.1, 1e-5);
    CHECK(td_is_nil(to_drop));
    td_close(cx);
}

/* ---- backends ----------------------------------------------------------- */

/* Runs graphs by the interpreter and counts; fails where told. */
typedef struct spy {
    int  compiled[3], runs, drops, gone; /* by half */
    int  last_id;
    bool refuse, silent, fail_run, fail_back;
} spy;

typedef struct spied {
    spy      *of;
    td_runner code;
    td_half   half;
} spied;

static bool spy_run(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    spied *s = env;
    s->of->runs++;
    if (s->of->fail_run || (s->of->fail_back && s->half == TD_BACKWARD)) {
        if (!s->of->silent) td_fail(cx, TD_E_BUILD, "the device is on fire");
        return false;
    }
    return s->code.run(s->code.env, cx, in, out);
}
static void spy_drop_code(void *env) {
    spied *s = env;
    s->of->drops++;
    td__runner_drop(&s->code);
    td__free(s);
}
static bool spy_compile(void *env, const td_graph *g, const td_compile_info *info,
                        td_runner *code) {
    spy *s = env;
    s->compiled[info->half]++;
    s->last_id = info->id;
    if (s->refuse) {
        if (!s->silent) td_fail(g->cx, TD_E_BUILD, "no compiler for %s", info->name);
        return false;
    }
    spied *to = td__zalloc(sizeof *to);
    *to = (spied){.of = s, .half = info->half};
    *code = (td_runner){.run = spy_run, .drop = spy_drop_code, .env = to};
    return td__interp.compile(NULL, g, info, &to->code);
}
static void spy_drop(void *env) { ((spy *)env)->gone++; }

static td_fn *spying(td_ctx *cx, spy *s, td_backend *b) {
    *b =
        (td_backend){.name = "spy", .compile = spy_compile, .env = s, .drop = spy_drop};
    td_aot_opts opts = {TD_AOT_OPTS, .name = "watched", .forward = b, .backward = b,
                        .inference = b};
    return td_aot_function(cx, product_body, NULL, &opts);
}

TEST(a_backend_compiles_each_half_and_is_dropped_once) {
    td_ctx    *cx = td_open();
    spy        s = {0};
    td_backend b;
    td_fn     *f = spying(cx, &s, &b), *g;
    td_tensor *x = leaf(cx, TD_SHAPE(2), 1), *w = leaf(cx, TD_SHAPE(2), 2), *y;
    for (int i = 0; i < 3; i++) {
        CHECK(td_invoke(f, TD_ARGS(x, w), &y, 1));
        CHECK(td_backward(td_sum(y)));
    }
    CHECK(s.compiled[TD_FORWARD] == 1 && s.compiled[TD_BACKWARD] == 1);
    CHECK(s.runs == 6);
    CHECK(td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(2)), td_ones(cx, TD_SHAPE(2))), &y,
                    1));
    CHECK(s.compiled[TD_INFERENCE] == 1);
    g = td_aot_function(cx, product_body, NULL, NULL);
    CHECK(g != NULL && s.last_id > 0);
    td_fn_drop(g);
    CHECK(td_invoke(f, TD_ARGS(x, w), &y, 1));
    td_tensor *sum = td_sum(y);
    td_fn_drop(f);
    CHECK(s.gone == 0); /* code and backend live as long as histories need them */
    CHECK(td_backward(sum));
    CHECK_OK(cx);
    td_close(cx);
    CHECK(s.gone == 1);
    CHECK(s.drops == s.compiled[0] + s.compiled[1] + s.compiled[2]);
}

static bool fill_nothing(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    return (void)env, (void)cx, (void)in, (void)out, true;
}
static bool lazy_compile(void *env, const td_graph *g, const td_compile_info *info,
                         td_runner *code) {
    (void)env, (void)g, (void)info;
    code->run = fill_nothing;
    return true;
}
TEST(code_that_leaves_out_a_result_is_an_error_in_either_half) {
    td_backend  lazy = {.name = "lazy", .compile = lazy_compile};
    td_aot_opts opts[2] = {{TD_AOT_OPTS, .name = "pair", .forward = &lazy},
                           {TD_AOT_OPTS, .name = "pair", .backward = &lazy}};
    for (int half = 0; half < 2; half++) {
        td_ctx    *cx = td_open();
        td_fn     *f = td_aot_function(cx, product_body, NULL, &opts[half]);
        td_tensor *a = leaf(cx, TD_SHAPE(2, 3), 1), *y;
        CHECK(td_invoke(f, TD_ARGS(a, a), &y, 1) == (half == 1));
        if (half) td_backward(td_sum(y));
        CHECK(td_error(cx) == TD_E_ARG &&
              strstr(td_message(cx), "out[0] is no tensor"));
        td_fn_drop(f);
        td_close(cx);
    }
}

/* ---- functions that call themselves -------------------------------------- */

static td_fn *itself;
static bool   counts_down(td_call *c) {
      td_tensor *x = td_mul(td_arg(c, 0), 2.0);
      int64_t    n = (int64_t)td_arg_number(c, 1);
      if (n != 0) td_invoke(itself, TD_ARGS(x, n - 1), &x, 1);
    return td_return(c, x);
}
TEST(a_body_may_call_its_own_function_as_long_as_that_ends) {
    td_ctx    *cx = td_open();
    td_tensor *one = td_ones(cx, TD_SHAPE(1)), *y;
    itself = td_aot_function(cx, counts_down, NULL, NULL);
    CHECK(td_invoke(itself, TD_ARGS(one, 9), &y, 1));
    CHECK_NEAR(td_item(y), 1024, 0);
    CHECK(!td_invoke(itself, TD_ARGS(one, -1), &y, 1));
    CHECK(td_error(cx) == TD_E_TRACE &&
          strstr(td_message(cx), "calls its own function"));
    td_fn_drop(itself);
    td_close(cx);
}

TEST(a_backend_that_cannot_compile_is_named) {
    for (int silent = 0; silent < 2; silent++) {
        td_ctx    *cx = td_open();
        spy        s = {.refuse = true, .silent = silent};
        td_backend b;
        td_fn     *f = spying(cx, &s, &b);
        td_tensor *x = leaf(cx, TD_SHAPE(2), 1), *y;
        CHECK(!td_invoke(f, TD_ARGS(x, x), &y, 1));
        CHECK(td_is_nil(y));
        CHECK(strstr(td_message(cx),
                     silent ? "backend spy: compile returned no forward code"
                            : "no compiler for watched"));
        td_clear(cx);
        s.refuse = false;
        CHECK(td_invoke(f, TD_ARGS(x, x), &y, 1));
        td_fn_drop(f);
        td_close(cx);
        CHECK(s.gone == 1);
    }
}

TEST(code_that_fails_fails_the_call_and_leaves_no_history) {
    for (int silent = 0; silent < 2; silent++) {
        td_ctx    *cx = td_open();
        spy        s = {.fail_run = true, .silent = silent};
        td_backend b;
        td_fn     *f = spying(cx, &s, &b);
        td_tensor *x = leaf(cx, TD_SHAPE(2), 1), *y;
        CHECK(!td_invoke(f, TD_ARGS(x, x), &y, 1));
        CHECK(td_is_nil(y));
        CHECK(strstr(td_message(cx), silent ? "watched" : "the device is on fire"));
        CHECK(td_grad_enabled(cx));
        td_clear(cx);
        s.fail_run = false;
        s.fail_back = true;
        CHECK(td_invoke(f, TD_ARGS(x, x), &y, 1));
        CHECK(!td_backward(td_sum(y)));
        CHECK(!td_ok(cx));
        CHECK(strstr(td_message(cx), silent ? "watched" : "the device is on fire"));
        td_clear(cx);
        CHECK(td_is_nil(td_grad_of(x)));
        s.fail_back = false;
        CHECK(td_invoke(f, TD_ARGS(x, x), &y, 1));
        CHECK(td_backward(td_sum(y)));
        CHECK(td_item(td_sum(td_grad_of(x))) > 0);
        td_fn_drop(f);
        td_close(cx);
    }
}
