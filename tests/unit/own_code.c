/* own_code.c -- the code of a user's backend in the disk cache: the next function and
 * the next process load it; what is damaged or refused is compiled again. */
#include "cache_help.h"
#include "child.h"

#include <dirent.h>

/* What the backend did, and what its load answers. */
static int  compiled, saved, loaded;
static bool refuses, fails, half_made;

/* Code is a word and the number of nodes: load needs both to be right. */
typedef struct code {
    const td_graph *g;
    char            word[4];
    int             nodes;
} code;

static bool run_code(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    const code *c = env;
    (void)cx;
    return td_graph_run(c->g, in, td_graph_inputs(c->g), out, td_graph_outputs(c->g));
}

static void drop_code(void *env) { free(env); }

static bool make(const td_graph *g, td_runner *to) {
    code *c = malloc(sizeof *c);
    *c = (code){g, "one", td_graph_nodes(g)};
    *to = (td_runner){.run = run_code, .drop = drop_code, .env = c};
    return true;
}

static bool compile(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *to) {
    (void)env, (void)info;
    compiled++;
    return make(g, to);
}

static bool save(void *env, const td_runner *r, td_code_put *put, void *to) {
    const code *c = r->env;
    (void)env;
    saved++;
    return put(to, c->word, sizeof c->word) && put(to, &c->nodes, sizeof c->nodes);
}

static bool load(void *env, const td_graph *g, const td_compile_info *info,
                 const void *bytes, size_t n, td_runner *to) {
    int nodes;
    (void)env, (void)info;
    loaded++;
    if (fails) td_fail(td_graph_ctx(g), TD_E_IO, "the code is for another day");
    if (half_made) return to->env = malloc(8), to->drop = drop_code, false;
    if (refuses || n != 4 + sizeof nodes || memcmp(bytes, "one", 4)) return false;
    memcpy(&nodes, (const char *)bytes + 4, sizeof nodes);
    CHECK(nodes == td_graph_nodes(g));
    return make(g, to);
}

static td_backend ours = {
    .name = "ours", .version = "1", .compile = compile, .save = save, .load = load};

static bool cubes(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(td_mul(x, x), x));
}

/* A call and its backward; the gradient of x at 0.5. */
static double call(td_ctx *cx) {
    td_aot_opts o = {TD_AOT_OPTS, .forward = &ours, .backward = &ours};
    td_scope_begin(cx, "call");
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(3), 0.5)), *y;
    td_fn     *f = td_aot_function(cx, cubes, NULL, &o);
    bool       ok = td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(td_sum(y));
    double     g = ok ? td_item(td_select(td_grad_of(x), 0, 0)) : -1;
    td_fn_drop(f);
    td_scope_end(cx, "call", NULL);
    return g;
}

static void start(void) {
    compiled = saved = loaded = 0;
    refuses = fails = half_made = false;
    ours.version = "1";
}

TEST(the_code_of_a_users_backend_is_loaded_by_the_next_function) {
    td_ctx *cx = enter("cache");
    start();
    CHECK(call(cx) == 0.75 && compiled == 2 && saved == 2 && loaded == 0);
    CHECK(count("stored u_") == 2);
    CHECK(call(cx) == 0.75 && compiled == 2 && saved == 2 && loaded == 2);
    CHECK(count("hit: u_") == 2);
    leave(cx);
}

TEST(another_process_loads_it) {
    td_ctx *cx = enter("cache");
    start();
    pid_t pid = fork();
    int   status = 0;
    if (pid == 0) child_leaves(call(cx) == 0.75 && compiled == 2);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && child_was_ok(status));
    CHECK(call(cx) == 0.75 && compiled == 0 && loaded == 2);
    leave(cx);
}

TEST(another_version_of_the_backend_is_compiled) {
    td_ctx *cx = enter("cache");
    start();
    CHECK(call(cx) == 0.75 && compiled == 2);
    ours.version = "2";
    CHECK(call(cx) == 0.75 && compiled == 4 && loaded == 0);
    leave(cx);
}

TEST(code_that_load_refuses_is_compiled_and_replaced) {
    td_ctx *cx = enter("cache");
    start();
    CHECK(call(cx) == 0.75 && compiled == 2);
    refuses = true;
    CHECK(call(cx) == 0.75 && compiled == 4 && loaded == 2 && saved == 4);
    refuses = false, fails = true;
    CHECK(call(cx) == 0.75 && td_ok(cx) && compiled == 6);
    CHECK(count("the code is for another day") == 2);
    fails = false, half_made = true;
    CHECK(call(cx) == 0.75 && td_ok(cx) && compiled == 8);
    leave(cx);
}

/* Changes one byte of each entry of user code. */
static int damage(void) {
    char           path[400];
    int            n = 0;
    DIR           *d = opendir(place);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        if (strncmp(e->d_name, "u_", 2)) continue;
        snprintf(path, sizeof path, "%s/%.200s", place, e->d_name);
        FILE *f = fopen(path, "r+b");
        CHECK(f && fseek(f, 1, SEEK_SET) == 0 && fputc('#', f) == '#');
        CHECK(f && fclose(f) == 0);
        n++;
    }
    if (d) closedir(d);
    return n;
}

TEST(damaged_code_of_a_users_backend_is_a_miss_that_load_never_sees) {
    td_ctx *cx = enter("cache");
    start();
    CHECK(call(cx) == 0.75);
    CHECK(damage() == 2);
    CHECK(call(cx) == 0.75 && compiled == 4 && loaded == 0);
    leave(cx);
}

TEST(a_backend_that_saves_nothing_is_compiled_each_time) {
    td_backend was = ours;
    td_ctx    *cx = enter("cache");
    start();
    ours.save = NULL, ours.load = NULL;
    CHECK(call(cx) == 0.75 && call(cx) == 0.75 && compiled == 4);
    ours = was;
    leave(cx);
}

TEST(save_without_load_or_version_is_refused) {
    td_backend bad = {.name = "b", .version = "1", .compile = compile, .save = save};
    td_ctx    *cx = open_hearing("");
    (void)td_aot_function(cx, cubes, NULL,
                          &(td_aot_opts){TD_AOT_OPTS, .forward = &bad});
    CHECK(strstr(td_message(cx), "td_aot_opts.forward: the backend b has no load"));
    td_clear(cx);
    bad.load = load, bad.version = NULL;
    (void)td_aot_function(cx, cubes, NULL,
                          &(td_aot_opts){TD_AOT_OPTS, .inference = &bad});
    CHECK(
        strstr(td_message(cx), "td_aot_opts.inference: the backend b has no version"));
    td_close(cx);
}
