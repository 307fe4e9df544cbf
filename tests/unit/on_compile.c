/* on_compile.c -- what callbacks of compiling are told: which function, specialization,
 * stage and half; td_on_compile before and after; ids in the log. */
#include "cache_help.h"

static char told[4096]; /* one line per callback */
static int  first_id, drops;

static void tell(const char *who, const td_compile_info *i) {
    static const char *const halves[] = {"forward", "backward", "inference", "joint"};
    size_t                   n = strlen(told);
    if (!i) snprintf(told + n, sizeof told - n, "%s: nothing\n", who);
    else
        snprintf(told + n, sizeof told - n, "%s: %s +%d #%d %s, %s, order %d\n", who,
                 i->name, i->id - first_id, i->nr, i->stage, halves[i->half], i->order);
}

/* ---- td_compiling --------------------------------------------------------- */

static bool pass(void *env, const td_graph **g) {
    (void)g;
    tell("pass", td_compiling(env));
    return true;
}

static bool choose(void *env, td_split *s) {
    (void)s;
    tell("chooser", td_compiling(env));
    return true;
}

static bool keep(void *env, td_mode_call *h, const td_op_site *at) {
    (void)at;
    tell("tanh", td_compiling(env));
    return td_mode_call_go(h);
}

static bool body(td_call *c) {
    td_ctx *cx = td_call_ctx(c);
    if (td_compiling(cx)) tell("body", td_compiling(cx));
    return td_return(c, td_sum(td_tanh(td_arg(c, 0))));
}

static td_tensor *leaf(td_ctx *cx, int n) {
    return td_requires_grad_(td_full(cx, TD_SHAPE(n), 0.25));
}

static td_ctx *start(void) {
    td_ctx *cx = enter("");
    told[0] = 0;
    drops = 0;
    return cx;
}

TEST(passes_partitioners_and_decompositions_know_what_is_compiled) {
    td_ctx          *cx = start();
    td_decomposition by = {.op = "tanh", .run = keep, .env = cx};
    td_aot_opts      o = {TD_AOT_OPTS,
                          .name = "g",
                          .dynamic = TD_SHAPES_STATIC,
                          .pass = {.run = pass, .env = cx},
                          .chooser = {.choose = choose, .env = cx},
                          .decompositions = &by,
                          .n_decompositions = 1};
    td_fn           *f = td_aot_function(cx, body, NULL, &o);
    td_tensor       *y;
    first_id = f->id;
    CHECK(td_invoke(f, TD_ARGS(leaf(cx, 2)), &y, 1));
    CHECK_STR(told, "tanh: g +0 #0 passes, joint, order 0\n"
                    "pass: g +0 #0 passes, joint, order 0\n"
                    "chooser: g +0 #0 partition, joint, order 0\n");
    told[0] = 0;
    CHECK(td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(3))), &y, 1));
    CHECK_STR(told, "tanh: g +0 #1 passes, inference, order 0\n"
                    "pass: g +0 #1 passes, inference, order 0\n");
    CHECK(td_compiling(cx) == NULL && td_compiling(NULL) == NULL);
    td_clear(cx);
    leave(cx);
}

TEST(gradients_of_gradients_are_decomposed_and_have_an_order) {
    td_ctx          *cx = start();
    td_decomposition by = {.op = "tanh", .run = keep, .env = cx};
    td_aot_opts      o = {TD_AOT_OPTS, .name = "g", .decompositions = &by,
                          .n_decompositions = 1};
    td_fn           *f = td_aot_function(cx, body, NULL, &o);
    td_tensor       *x = leaf(cx, 2), *y, *g;
    td_grad_opts     twice = {TD_GRAD_OPTS, .create_graph = true};
    first_id = f->id;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(td_grad(TD_LIST(y), TD_LIST(x), &g, &twice));
    CHECK_STR(told, "tanh: g +0 #0 passes, joint, order 0\n"
                    "tanh: g' +1 #0 passes, joint, order 1\n");
    leave(cx);
}

/* ---- td_on_compile -------------------------------------------------------- */

static void begin(void *env, const td_compile_info *i) {
    CHECK(td_compiling(env) == i && i->size == sizeof *i);
    tell("begin", i);
}

static void end(void *env, const td_compile_info *i, const td_compiled *how) {
    size_t n;
    CHECK(td_compiling(env) == i && how->size == sizeof *how);
    CHECK(how->seconds >= 0 && how->seconds < 600);
    CHECK(how->ok == td_ok(env));
    tell("end", i);
    n = strlen(told) - 1;
    snprintf(told + n, sizeof told - n, "%s%s\n", how->ok ? "" : ", failed",
             how->found ? ", found" : "");
}

static void gone(void *env) { (void)env, drops++; }

static td_aot_opts watched(td_ctx *cx) {
    return (td_aot_opts){TD_AOT_OPTS, .name = "g",
                         .on_compile = {begin, end, cx, gone}};
}

/* Compiles the forward at the call and the backward when it runs. */
static td_fn *call(td_ctx *cx, const td_aot_opts *o) {
    td_fn     *f = td_aot_function(cx, body, NULL, o);
    td_tensor *y;
    first_id = f->id;
    if (td_invoke(f, TD_ARGS(leaf(cx, 2)), &y, 1)) CHECK(td_backward(y));
    return f;
}

TEST(callbacks_surround_each_specialization_and_each_graph) {
    td_ctx     *cx = start();
    td_aot_opts o = watched(cx);
    td_tensor  *y;
    td_config_set(cx, "lazy_backward", "true");
    td_fn *f = call(cx, &o);
    CHECK_STR(told, "begin: g +0 #0 specialize, joint, order 0\n"
                    "begin: g +0 #0 compile forward, forward, order 0\n"
                    "end: g +0 #0 compile forward, forward, order 0\n"
                    "end: g +0 #0 specialize, joint, order 0\n"
                    "begin: g +0 #0 compile backward, backward, order 0\n"
                    "end: g +0 #0 compile backward, backward, order 0\n");
    told[0] = 0;
    CHECK(td_invoke(f, TD_ARGS(leaf(cx, 2)), &y, 1) && td_backward(y) && !told[0]);
    td_fn_drop(f);
    leave(cx);
    CHECK(drops == 1);
}

TEST(callbacks_are_told_what_the_cache_had) {
    td_ctx     *cx = start();
    td_aot_opts o = watched(cx);
    td_fn_drop(call(cx, &o));
    CHECK(!strstr(told, "found"));
    told[0] = 0;
    td_fn_drop(call(cx, &o));
    CHECK(strstr(told, "end: g +0 #0 specialize, joint, order 0, found\n"));
    CHECK(strstr(told, "end: g +0 #0 compile forward, forward, order 0\n"));
    leave(cx);
}

static bool refuse(void *env, const td_graph *g, const td_compile_info *info,
                   td_runner *to) {
    (void)env, (void)to;
    tell("compile", td_compiling(td_graph_ctx(g)));
    CHECK(!strcmp(info->stage, "compile forward"));
    return td_fail(td_graph_ctx(g), TD_E_UNSUPPORTED, "not today"), false;
}

TEST(each_begin_has_an_end_after_a_failure_too) {
    td_ctx     *cx = start();
    td_backend  b = {.name = "b", .compile = refuse};
    td_aot_opts o = watched(cx);
    o.forward = &b;
    td_fn_drop(call(cx, &o));
    CHECK(td_error(cx) == TD_E_UNSUPPORTED);
    CHECK_STR(told, "begin: g +0 #0 specialize, joint, order 0\n"
                    "begin: g +0 #0 compile forward, forward, order 0\n"
                    "compile: g +0 #0 compile forward, forward, order 0\n"
                    "end: g +0 #0 compile forward, forward, order 0, failed\n"
                    "end: g +0 #0 specialize, joint, order 0, failed\n");
    td_clear(cx);
    o = (td_aot_opts){TD_AOT_OPTS, .on_compile = {.env = cx, .drop = gone}};
    drops = 0;
    (void)td_aot_function(cx, body, NULL, &o);
    CHECK(strstr(td_message(cx), "td_aot_opts.on_compile") && drops == 1);
    td_clear(cx);
    leave(cx);
}

TEST(a_function_in_stages_is_announced_when_it_is_compiled) {
    td_ctx     *cx = start();
    td_aot_opts o = watched(cx);
    td_tensor  *y;
    td_staged  *s = td_stage_capture(cx, body, NULL, TD_ARGS(leaf(cx, 2)), &o);
    CHECK(td_ok(cx) && !told[0]);
    td_fn *f = td_stage_compile(s);
    CHECK(strstr(told, "specialize") && td_invoke(f, TD_ARGS(leaf(cx, 2)), &y, 1));
    leave(cx);
}
