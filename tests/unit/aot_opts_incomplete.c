/* aot_opts_incomplete.c -- td_aot_opts with structs of callbacks that are filled in
 * part: each missing function is named, and every drop function runs exactly once. */
#include "backend/backend.h"
#include "tower_help.h"

#include "td_test.h"

static bool body(td_call *c) { return td_return(c, td_tanh(td_arg(c, 0))); }

/* ---- callbacks ---------------------------------------------------------- */

static int dropped;

static void drop(void *env) { dropped += *(int *)env; }

static bool compile(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *code) {
    (void)env;
    return td__interp.compile(NULL, g, info, code);
}

static bool save(void *env, const td_runner *code, td_code_put *put, void *to) {
    (void)env, (void)code, (void)put, (void)to;
    return false;
}

static bool load(void *env, const td_graph *g, const td_compile_info *info,
                 const void *bytes, size_t n, td_runner *code) {
    (void)env, (void)g, (void)info, (void)bytes, (void)n, (void)code;
    return false;
}

static int pack(void *env, const td_saved_at *at, td_tensor *t, td_tensor **packed) {
    (void)env, (void)at, (void)t, (void)packed;
    return 0;
}

static td_tensor *unpack(void *env, const td_saved_at *at, td_tensor *const *packed,
                         int n) {
    (void)env, (void)at, (void)n;
    return packed[0];
}

static bool choose(void *env, const td_saved_at *at) {
    (void)env, (void)at;
    return true;
}

static bool decompose(void *env, td_mode_call *h, const td_op_site *at) {
    (void)env, (void)at;
    return td_mode_call_go(h);
}

/* ---- refusals ----------------------------------------------------------- */

/* Is `o` refused with these words, and are its callbacks dropped so often? */
static bool refused(td_ctx *cx, td_aot_opts o, const char *words, int drops) {
    dropped = 0;
    return td_is_nil(td_aot_function(cx, body, NULL, &o)) &&
           aot_says(cx, TD_E_ARG, words) && dropped == drops;
}

TEST(a_backend_that_is_cached_has_version_save_and_load) {
    td_ctx    *cx = td_open();
    td_backend b = {.name = "own", .compile = compile, .save = save};
    CHECK(refused(cx, (td_aot_opts){TD_AOT_OPTS, .forward = &b},
                  "td_aot_opts.forward: the backend own has no load", 0));
    b.load = load;
    CHECK(refused(cx, (td_aot_opts){TD_AOT_OPTS, .backward = &b},
                  "td_aot_opts.backward: the backend own has no version", 0));
    b.save = NULL;
    CHECK(refused(cx, (td_aot_opts){TD_AOT_OPTS, .inference = &b},
                  "td_aot_opts.inference: the backend own has no save", 0));
    td_close(cx);
}

TEST(a_pass_or_partitioner_has_its_function) {
    td_ctx *cx = td_open();
    int     one = 1;
    CHECK(refused(cx, (td_aot_opts){TD_AOT_OPTS, .pass = {.name = "p"}},
                  "td_aot_opts.pass.run is NULL", 0));
    CHECK(refused(cx, (td_aot_opts){TD_AOT_OPTS, .pass = {.env = &one, .drop = drop}},
                  "td_aot_opts.pass.run is NULL", 1));
    CHECK(refused(cx, (td_aot_opts){TD_AOT_OPTS, .chooser = {.name = "c"}},
                  "td_aot_opts.chooser.choose is NULL", 0));
    CHECK(refused(cx, (td_aot_opts){TD_AOT_OPTS, .on_compile = {.env = &one}},
                  "td_aot_opts.on_compile.begin and .end is NULL", 0));
    CHECK(refused(cx,
                  (td_aot_opts){TD_AOT_OPTS, .on_compile = {.env = &one, .drop = drop}},
                  "td_aot_opts.on_compile.begin and .end is NULL", 1));
    td_close(cx);
}

TEST(packing_has_both_functions) {
    td_ctx    *cx = td_open();
    int        one = 1;
    td_packing none[] = {{.unpack = unpack},
                         {.filter = TD_SAVED_ALL},
                         {.version = "1"},
                         {.env = &one},
                         {.env = &one, .drop = drop}};
    for (int i = 0; i < 5; i++)
        CHECK(refused(cx, (td_aot_opts){TD_AOT_OPTS, .saved = none[i]},
                      "td_aot_opts.saved.pack is NULL", i == 4));
    CHECK(refused(cx, (td_aot_opts){TD_AOT_OPTS, .saved = {.pack = pack}},
                  "td_aot_opts.saved.unpack is NULL", 0));
    td_close(cx);
}

TEST(offloading_has_a_store_of_its_context) {
    td_ctx    *cx = td_open(), *other = td_open();
    int        one = 1;
    td_offload none[] = {{.choose = choose},         {.min_bytes = 1},
                         {.filter = TD_SAVED_ALL},   {.ahead = 2},
                         {.version = "1"},           {.env = &one},
                         {.env = &one, .drop = drop}};
    for (int i = 0; i < 7; i++)
        CHECK(refused(cx, (td_aot_opts){TD_AOT_OPTS, .offload = none[i]},
                      "td_aot_opts.offload.store is NULL", i == 6));
    td_store *s = td_store_memory(other, "far");
    CHECK(refused(cx, (td_aot_opts){TD_AOT_OPTS, .offload = {.store = s}},
                  "td_aot_opts.offload.store belongs to another context", 0));
    td_store_close(s);
    CHECK(td_is_nil(
        td_aot_function(cx, body, NULL,
                        &(td_aot_opts){TD_AOT_OPTS, .offload = {.store = s}})));
    td_clear(cx);
    td_close(other);
    td_close(cx);
}

TEST(a_decomposition_has_an_op_and_a_function) {
    td_ctx          *cx = td_open();
    td_decomposition no_op = {.run = decompose}, no_run = {.op = "tanh"};
    CHECK(refused(cx,
                  (td_aot_opts){TD_AOT_OPTS, .decompositions = &no_op,
                                .n_decompositions = 1},
                  "td_aot_opts.decompositions[0] has no op", 0));
    CHECK(refused(cx,
                  (td_aot_opts){TD_AOT_OPTS, .decompositions = &no_run,
                                .n_decompositions = 1},
                  "td_aot_opts.decompositions[0] has no run", 0));
    td_close(cx);
}

/* ---- drop functions ----------------------------------------------------- */

/* Equal drop and env are one object; another env or drop is another. */
TEST(every_drop_function_runs_once) {
    td_ctx          *cx = td_open();
    int              one = 1, ten = 10, hundred = 100;
    td_backend       a = {.compile = compile, .env = &one, .drop = drop}, b = a;
    td_decomposition d[] = {{"tanh", decompose, &hundred, drop},
                            {"exp", decompose, &hundred, drop},
                            {"sin", decompose, &ten, drop},
                            {"cos", decompose, &ten, NULL}};
    b.env = &ten;
    td_aot_opts o = {
        TD_AOT_OPTS,
        .forward = &a,
        .backward = &a,
        .inference = &b,
        .decompositions = d,
        .n_decompositions = 4,
        .saved = {.pack = pack, .unpack = unpack, .env = &one, .drop = drop}};
    dropped = 0;
    td_fn     *f = td_aot_function(cx, body, NULL, &o);
    td_tensor *y;
    CHECK(td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(2))), &y, 1) && dropped == 0);
    td_fn_drop(f);
    CHECK(dropped == 1 + 10 + 1 + 100 + 10);
    td_close(cx);
}
