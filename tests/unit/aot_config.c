/* aot_config.c -- compiled functions obey settings: of the context, of their own, and
 * by option. */
#include "aot_help.h"

/* ---- which settings hold ------------------------------------------------ */

static td_spec *first_call(td_fn *f, td_values args) {
    td_tensor *out[1];
    return td_invoke(f, args, out, 1) ? f->specs : NULL;
}

/* Does the compiled graph itself write an input? */
static bool writes_inside(const td_spec *s) {
    const td_graph *g = s->plan->h ? s->plan->h->fwd : s->plan->j->g;
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.v[i]->op == TD_OP_copy_) return true;
    return false;
}

TEST(a_function_takes_the_settings_of_the_moment_it_is_compiled) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(4, 3)), *w = td_ones(cx, TD_SHAPE(3, 2));
    td_tensor *seen = td_zeros(cx, TD_SHAPE());
    td_fn     *f = td_aot_function(cx, layer, NULL, NULL);

    td_config_set(cx, "keep_mutations", "on");
    td_spec *s = first_call(f, TD_ARGS(x, w, seen));
    CHECK(s && writes_inside(s));
    td_config_set(cx, "keep_mutations", "off");
    s = first_call(f, TD_ARGS(x, td_ones(cx, TD_SHAPE(3, 5)), seen));
    CHECK(s && !writes_inside(s));

    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(settings_of_its_own_win_over_the_context_and_options_over_both) {
    td_ctx   *cx = td_open();
    td_config c = {TD_CONFIG};
    td_config_get(cx, &c);
    c.specialization_limit = 7;
    c.partition = TD_PARTITION_DEFAULT;
    td_aot_opts own = {TD_AOT_OPTS, .config = &c};
    td_aot_opts both = {TD_AOT_OPTS, .config = &c, .limit = 3};
    td_fn      *f = td_aot_function(cx, product, NULL, &own);
    td_fn      *g = td_aot_function(cx, product, NULL, &both);
    c.specialization_limit = 9; /* it was copied */
    td_config_set(cx, "specialization_limit", "5");

    CHECK(td__fn_settings(f).specialization_limit == 7);
    CHECK(td__fn_settings(f).partition == TD_PARTITION_DEFAULT);
    CHECK(td__fn_settings(g).specialization_limit == 3);

    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
}

TEST(a_wrong_setting_is_refused_by_name) {
    td_ctx   *cx = td_open();
    td_config c = {TD_CONFIG};
    td_config_get(cx, &c);
    c.memory_budget = 2;
    td_aot_opts o = {TD_AOT_OPTS, .config = &c};
    CHECK(td_is_nil(td_aot_function(cx, product, NULL, &o)));
    CHECK(td_error(cx) == TD_E_ARG && strstr(td_message(cx), "memory_budget"));
    td_close(cx);
}

TEST(partition_settings_reach_the_partitioner) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(64, 64)));
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(64, 64)));
    td_fn     *f = td_aot_function(cx, layer, NULL, NULL);
    td_fn     *g = td_aot_function(cx, layer, NULL, NULL);
    td_tensor *seen = td_zeros(cx, TD_SHAPE());

    td_spec *s = first_call(f, TD_ARGS(x, w, seen));
    td_config_set(cx, "memory_budget", "0");
    td_spec *t = first_call(g, TD_ARGS(x, w, seen));

    CHECK(s && t);
    CHECK(s->plan->h->bytes_saved > t->plan->h->bytes_saved);
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
}

static bool twice_the_same(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_add(td_exp(x), td_exp(x)));
}

TEST(cse_merges_equal_nodes_or_leaves_them) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(3));
    td_fn     *f = td_aot_function(cx, twice_the_same, NULL, NULL);
    td_fn     *g = td_aot_function(cx, twice_the_same, NULL, NULL);
    td_spec   *s = first_call(f, TD_ARGS(x));
    td_config_set(cx, "cse", "off");
    td_spec *t = first_call(g, TD_ARGS(x));
    CHECK(s && s->plan->j->g->nodes.n == 2);
    CHECK(t && t->plan->j->g->nodes.n == 3);
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
}

/* ---- backends that watch or lie ----------------------------------------- */

typedef struct spy {
    int  compiled[3], dropped;
    bool aliases, other_dtype;
} spy;

typedef struct spied {
    td_runner inner;
    spy      *s;
} spied;

static bool spied_run(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    spied *p = env;
    if (!p->inner.run(p->inner.env, cx, in, out)) return false;
    if (p->s->aliases) out[0] = in[0];
    if (p->s->other_dtype) out[0] = td_value_tensor(td_to(out[0].u.t, TD_F64));
    return true;
}

static void spied_drop(void *env) {
    td__runner_drop(&((spied *)env)->inner);
    td__free(env);
}

static bool spy_compile(void *env, const td_graph *g, const td_compile_info *info,
                        td_runner *code) {
    spied *p = td__zalloc(sizeof *p);
    p->s = env;
    p->s->compiled[info->half]++;
    *code = (td_runner){.run = spied_run, .drop = spied_drop, .env = p};
    return td__interp.compile(NULL, g, info, &p->inner);
}

static void spy_drop(void *env) { ((spy *)env)->dropped++; }

TEST(a_backend_is_dropped_once_also_after_gradients_of_gradients) {
    td_ctx    *cx = td_open();
    spy        s = {0};
    td_backend b = {.name = "spy", .compile = spy_compile, .env = &s, .drop = spy_drop};
    td_aot_opts  o = {TD_AOT_OPTS, .forward = &b, .backward = &b};
    td_tensor   *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3))), *out[1], *g;
    td_fn       *f = td_aot_function(cx, product, NULL, &o);
    td_grad_opts twice = {TD_GRAD_OPTS, .create_graph = true};
    td_scope_begin(cx, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, x), out, 1));
    td_tensor *loss = td_sum(out[0]);
    CHECK(td_grad((td_tensors){&loss, 1}, (td_tensors){&x, 1}, &g, &twice));
    CHECK(s.compiled[TD_FORWARD] == 2);
    td_scope_end(cx, NULL, NULL);
    td_fn_drop(f);
    CHECK(s.dropped == 1);
    td_close(cx);
}

TEST(backward_is_compiled_late_or_at_once) {
    for (int lazy = 0; lazy < 2; lazy++) {
        td_ctx     *cx = td_open();
        spy         s = {0};
        td_backend  b = {.name = "spy", .compile = spy_compile, .env = &s};
        td_aot_opts o = {TD_AOT_OPTS, .forward = &b, .backward = &b};
        td_tensor  *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3))), *out[1];
        td_config_set(cx, "lazy_backward", lazy ? "on" : "off");
        td_fn *f = td_aot_function(cx, product, NULL, &o);

        CHECK(td_invoke(f, TD_ARGS(x, x), out, 1));
        CHECK(s.compiled[TD_FORWARD] == 1 && s.compiled[TD_BACKWARD] == !lazy);
        CHECK(td_backward(td_sum(out[0])));
        CHECK(s.compiled[TD_BACKWARD] == 1);
        td_fn_drop(f);
        td_close(cx);
    }
}

/* What a lying backend is told; "": nothing. */
static const char *told(bool aliases, bool other_dtype, const char *asserts) {
    static char text[512];
    td_ctx     *cx = td_open();
    spy         s = {.aliases = aliases, .other_dtype = other_dtype};
    td_backend  b = {.name = "spy", .compile = spy_compile, .env = &s};
    td_aot_opts o = {TD_AOT_OPTS, .inference = &b};
    td_tensor  *x = td_ones(cx, TD_SHAPE(3)), *out[1];
    td_config_set(cx, "debug_asserts", asserts);
    td_fn *f = td_aot_function(cx, product, NULL, &o);
    td_invoke(f, TD_ARGS(x, td_ones(cx, TD_SHAPE(3))), out, 1);
    snprintf(text, sizeof text, "%s", td_message(cx));
    td_fn_drop(f);
    td_close(cx);
    return text;
}

TEST(debug_asserts_catch_a_backend_with_wrong_results) {
    CHECK_STR(told(false, false, "on"), "");
    CHECK_STR(told(true, false, "off"), "");
    CHECK(strstr(told(true, false, "on"), "output 0 is f32[3]"));
    CHECK(strstr(told(true, false, "on"), "a storage of its own"));
    CHECK(strstr(told(false, true, "on"), "output 0 is f64[3]"));
}

/* What the interpreter says to a graph of one node that tells where it lies. */
static const char *told_of_graph(const char *node) {
    static char text[512];
    td_ctx     *cx = td_open();
    td_runner   code;
    td_value    in = td_value_tensor(td_ones(cx, TD_SHAPE(2, 3))), out;
    snprintf(text, sizeof text, "func @f(%%x: f32[2,3]) {\n  %s\n  return %%y\n}\n",
             node);
    td_config_set(cx, "debug_asserts", "on");
    td_gfile       *f = td__gfile_parse(cx, text, strlen(text), "t.td");
    td_compile_info info = {.half = TD_INFERENCE};
    CHECK(f && td__compile(cx, &td__interp, f->graphs.v[0], &info, &code));
    code.run(code.env, cx, &in, &out);
    snprintf(text, sizeof text, "%s", td_message(cx));
    td__runner_drop(&code);
    td__gfile_drop(f);
    td_close(cx);
    return text;
}

TEST(debug_asserts_catch_a_graph_with_wrong_types) {
    CHECK_STR(told_of_graph("%y = select(%x, 0, 1) : f32[3]+3"), "");
    CHECK(strstr(told_of_graph("%y = select(%x, 0, 1) : f32[3]"),
                 "[1] at offset 3, which"));
    CHECK(strstr(told_of_graph("%y = t(%x) : f32[3,2]"), "strides [1,3]"));
    CHECK(strstr(told_of_graph("%y = neg(%x) : f64[2,3]"),
                 "result 0 of neg is f32[2,3]"));
}

TEST(debug_asserts_let_a_whole_step_pass) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(4, 3)), *seen = td_zeros(cx, TD_SHAPE());
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 2))), *out[2];
    td_config_set(cx, "debug_asserts", "on");
    td_fn *f = td_aot_function(cx, layer, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, w, seen), out, 2));
    CHECK(td_backward(td_sum(out[1])));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- double_backward, backend, fallback --------------------------------- */

TEST(without_double_backward_gradients_of_gradients_are_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3))), *out[1], *g;
    td_config_set(cx, "double_backward", "off");
    td_fn       *f = td_aot_function(cx, product, NULL, NULL);
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};

    CHECK(td_invoke(f, TD_ARGS(x, x), out, 1));
    td_tensor *loss = td_sum(out[0]);
    CHECK(!td_grad((td_tensors){&loss, 1}, (td_tensors){&x, 1}, &g, &o));
    CHECK(td_error(cx) == TD_E_UNSUPPORTED);
    CHECK(strstr(td_message(cx), "double_backward"));
    td_clear(cx);
    CHECK(td_invoke(f, TD_ARGS(x, x), out, 1) && td_backward(td_sum(out[0])));
    td_fn_drop(f);
    td_close(cx);
}

TEST(without_a_compiler_native_is_an_error) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(3)), *out[1];
    td_config_set(cx, "backend", "native");
    td_config_set(cx, "cc", "no-such-compiler");
    td_fn *f = td_aot_function(cx, product, NULL, NULL);
    CHECK(!td_invoke(f, TD_ARGS(x, x), out, 1));
    CHECK(td_error(cx) == TD_E_UNSUPPORTED && strstr(td_message(cx), "interp"));
    td_fn_drop(f);
    td_close(cx);
}

TEST(without_a_compiler_auto_interprets) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(3)), *out[1];
    td_config_set(cx, "backend", "auto");
    td_config_set(cx, "cc", "no-such-compiler");
    td_fn *f = td_aot_function(cx, product, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, x), out, 1) && td_ok(cx));
    CHECK(td_item(td_sum(out[0])) == 3);
    td_fn_drop(f);
    td_close(cx);
}

TEST(over_the_limit_is_an_error_that_names_the_difference) {
    td_ctx     *cx = td_open();
    td_aot_opts o = {TD_AOT_OPTS, .name = "p", .limit = 1};
    td_fn      *f = td_aot_function(cx, product, NULL, &o);
    td_tensor  *x = td_ones(cx, TD_SHAPE(3)), *y = td_ones(cx, TD_SHAPE(4)), *out[1];
    CHECK(td_invoke(f, TD_ARGS(x, x), out, 1));
    CHECK(!td_invoke(f, TD_ARGS(y, y), out, 1));
    CHECK(strstr(td_message(cx), "1 specializations exist, which is the limit (1)"));
    CHECK(strstr(td_message(cx), "argument 0: size 4 at dim 0, was 3"));
    td_fn_drop(f);
    td_close(cx);
}

TEST(fallback_runs_what_is_over_the_limit_and_says_so_once) {
    td_ctx     *cx = open_hearing("");
    td_aot_opts o = {TD_AOT_OPTS, .name = "p", .limit = 1};
    td_fn      *f = td_aot_function(cx, product, NULL, &o);
    td_tensor  *x = td_ones(cx, TD_SHAPE(3)), *out[1];
    td_config_set(cx, "fallback", "eager");
    for (int n = 3; n < 7; n++) {
        td_tensor *y = td_full(cx, TD_SHAPE(n), 2.0);
        CHECK(td_invoke(f, TD_ARGS(y, y), out, 1));
        CHECK(td_item(td_sum(out[0])) == 4.0 * n);
    }
    CHECK_OK(cx);
    CHECK(td_fn_specializations(f) == 1);
    CHECK(strstr(heard, "warning: p is not compiled and runs eagerly"));
    CHECK(!strstr(strstr(heard, "runs eagerly") + 5, "runs eagerly"));
    (void)x;
    td_fn_drop(f);
    td_close(cx);
}

/* Reads a value: no program can. */
static bool peeks(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_item(td_sum(x)) > 0 ? td_mul(x, 2.0) : x);
}

TEST(fallback_runs_what_cannot_be_captured) {
    td_ctx    *cx = open_hearing("");
    td_tensor *x = td_ones(cx, TD_SHAPE(3)), *out[1];
    td_fn     *f = td_aot_function(cx, peeks, NULL, NULL);
    CHECK(!td_invoke(f, TD_ARGS(x), out, 1));
    CHECK(td_error(cx) == TD_E_TRACE && strstr(td_message(cx), "aot_config.c:"));
    td_clear(cx);
    td_config_set(cx, "fallback", "eager");
    for (int i = 0; i < 2; i++) {
        CHECK(td_invoke(f, TD_ARGS(x), out, 1));
        CHECK(td_item(td_sum(out[0])) == 6.0);
    }
    CHECK(!strstr(strstr(heard, "runs eagerly") + 5, "runs eagerly"));
    static char text[1 << 14];
    td_explain(f, text, sizeof text);
    CHECK(strstr(text, "not compiled, runs eagerly"));
    td_explain_json(f, text, sizeof text);
    CHECK(strstr(text, "\"kind\":\"as is\""));
    td_fn_drop(f);
    td_close(cx);
}

/* ---- how many backwards -------------------------------------------------- */

static bool three_results(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_sin(x), td_exp(x), td_square(x));
}

/* Of the sum of those results that bits of `which` name; with history where twice. */
static bool differentiate(td_fn *f, td_tensor *x, int which, bool twice) {
    td_tensor   *out[3], *sum = td_zeros(f->cx, TD_SHAPE()), *g;
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = twice};
    if (!td_invoke(f, TD_ARGS(x), out, 3)) return false;
    for (int i = 0; i < 3; i++)
        if (which >> i & 1) sum = td_add(sum, td_sum(out[i]));
    return td_grad(TD_LIST(sum), TD_LIST(x), &g, &o);
}

TEST(backwards_are_bounded_and_counted) {
    static char text[1 << 14];
    for (int twice = 0; twice < 2; twice++) {
        td_ctx     *cx = td_open();
        td_tensor  *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3)));
        const char *what = twice ? "double backward was compiled for 2 sets"
                                 : "backward was compiled for 2 sets";
        td_config_set(cx, "backward_limit", "2");
        td_fn *f = td_aot_function(cx, three_results, NULL, NULL);
        CHECK(differentiate(f, x, 1, twice) && differentiate(f, x, 6, twice));
        CHECK(differentiate(f, x, 1, twice)); /* as before */
        CHECK_OK(cx);
        CHECK(!differentiate(f, x, 7, twice) && td_error(cx) == TD_E_UNSUPPORTED);
        CHECK(strstr(td_message(cx), what) && strstr(td_message(cx), "backward_limit"));
        td_clear(cx);
        td_explain(f, text, sizeof text);
        CHECK(strstr(text, twice ? "double backward is compiled, 2 variants\n"
                                 : "backward is compiled, 2 variants"));
        td_fn_drop(f);
        td_close(cx);
    }
}
