/* body_functions.c -- every public function that is no op is called in a captured body:
 * it is recorded, becomes a guard, is refused, or is harmless, as the rows of
 * body_functions.def say. A function without a row fails the last test. */
#include "aot_help.h"
#include "tandem/dlpack.h"
#include "tandem/export.h"
#include "tandem/io.h"

#include <ctype.h>
#include <stdlib.h>

static td_tensor *sum_of(void *env) { return td_sum(env); }

typedef enum kind { RECORDED, GUARD, REFUSED, HARMLESS, CALLBACK } kind;

/* ---- what the rows use -------------------------------------------------- */

static td_ctx         *cx, *cx2;
static td_tensor      *tensor, *weight, *slot;
static td_value        value;
static td_module      *net, *seq, *child;
static td_optim       *optim, *sums;
static td_tree        *tree;
static td_gfile       *graphs;
static td_graph       *graph;
static td_loader      *loader;
static td_store       *store;
static td_program     *program;
static td_staged      *staged;
static td_backward_fn *by;
static td_exported    *exported;
static td_fn          *fn;
static int             watched;
static char            room[4096];

static const uint16_t       tokens[64];
static const td_loader_opts loading = {TD_LOADER_OPTS, .type = TD_TOKENS_U16,
                                       .batch = 2, .window = 4};

static const td_store_io own_io; /* refused before it is read */

static bool twice(td_call *c) { return td_return(c, td_add(td_arg(c, 0), 1.0)); }
static bool below(td_call *c) { return td_return(c, td_lt(td_sum(td_arg(c, 0)), 9.0)); }
static bool hear_op(void *env, td_mode_call *h) {
    (void)env;
    return td_mode_call_go(h);
}
static td_mode_hook hook = {.name = "passes", .call = hear_op};
static bool         forward(td_module *m, td_call *c) { return (void)m, twice(c); }
static const td_module_type type = {.name = "T", .forward = forward};
static bool                 member(void *env, const td_member *m) {
                    (void)env, (void)m;
                    return true;
}
static bool every(void *env, td_module *m, const char *name) {
    (void)env, (void)m, (void)name;
    return true;
}
static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)env, (void)n_in, (void)n_out;
    out[0] = td_exp(in[0]);
    return true;
}
static bool run_forward(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                        int n_out) {
    return region(f, in, n_in, out, n_out);
}
static bool run_backward(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                         int n_in) {
    (void)f, (void)n_out, (void)n_in;
    grad[0] = g[0];
    return true;
}
static const td_function function = {.name = "f",
                                     .forward = run_forward,
                                     .backward = run_backward};

static void add_group(void) {
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_optim_add(optim, TD_LIST(w), td_sgd(1));
    td_optim_add(sums, TD_LIST(td_requires_grad_(td_ones(cx, TD_SHAPE(2)))), td_sgd(1));
}
static void open_loader(void) {
    td_loader_close(td_loader_over(cx, tokens, sizeof tokens, &loading));
}
static td_tensor *on_grad(void *env, td_tensor *g) { return (void)env, g; }
static bool       on_leaf(void *env, td_tensor *t) { return (void)env, t != NULL; }
static bool       on_pre(void *env, td_tensor **g, int n) {
          (void)env, (void)g, (void)n;
          return true;
}
static bool on_post(void *env, td_tensor **made, int n_made, td_tensor *const *g,
                    int n) {
    (void)env, (void)made, (void)n_made, (void)g, (void)n;
    return true;
}
static void exported_again(void) {
    size_t n = td_exported_text(exported, room, sizeof room);
    td_exported_drop(td_exported_parse(cx, room, n, "again"));
}

static void set_up(void) {
    static const char text[] =
        "func @g(%x: f32[2]) {\n  %y = exp(%x)\n  return %y\n}\n";
    td_tensor *x, *sum;
    cx = td_open();
    cx2 = td_open();
    x = tensor = td_ones(cx, TD_SHAPE(2));
    weight = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    net = td_nn_linear(cx, 2, 2, NULL);
    child = NULL;
    seq = td_nn_sequential(cx, TD_MODULES(td_nn_relu(cx)));
    optim = td_optim_make(cx);
    sums = td_optim_make(cx);
    td_optim_add(optim, TD_LIST(weight), td_sgd(0.5));
    sum = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_optim_add(sums, TD_LIST(sum), td_sgd(0.5));
    td_optim_make_sums(sums);
    td_set_grad(weight, td_ones(cx, TD_SHAPE(2)));
    tree = td_tree_from(cx, "*", TD_ARGS(x));
    graphs = td_graphs_parse(cx, text, sizeof text - 1, "text");
    graph = td_graphs_at(graphs, 0);
    store = td_store_memory(cx, "rows");
    loader = td_loader_over(cx, tokens, sizeof tokens, &loading);
    program = td_capture(cx, twice, NULL, TD_ARGS(x));
    staged = td_stage_capture(cx, twice, NULL, TD_ARGS(x), NULL);
    by = td_aot_backward(cx, NULL);
    exported = td_export_joint(cx, twice, NULL, TD_ARGS(x), NULL);
    fn = td_aot_function(cx, twice, NULL, NULL);
    TD_CHECK_THAT(td_ok(cx), "%s", td_message(cx));
}

/* ---- the rows ----------------------------------------------------------- */

/* The tensor that rows use: the body's argument, or one of another context. */
static td_tensor *foreign;
#define X (foreign ? foreign : td_arg(c, 0))
#define BOTH(name, ...) \
    static void call_##name(td_call *c) { (void)c, (void)((void)0, __VA_ARGS__); }
#define ONE_RECORDED(name, ...) BOTH(name, __VA_ARGS__) NOTHING(name)
#define ONE_REFUSED ONE_RECORDED
#define ONE_HARMLESS ONE_RECORDED
#define ONE_CALLBACK ONE_RECORDED
#define NOTHING(name) \
    static void change_##name(void) {}
#define ONE_GUARD(name, call, change) \
    BOTH(name, call)                  \
    static void change_##name(void) { (void)(change); }
#define F(name, kind, ...) ONE_##kind(name, __VA_ARGS__)
#include "body_functions.def"
#undef F

typedef struct row {
    const char *name;
    kind        is;
    void (*call)(td_call *c);
    void (*change)(void);
} row;
static const row rows[] = {
#define F(name, kind, ...) {#name, kind, call_##name, change_##name},
#include "body_functions.def"
#undef F
};

/* ---- the tests ---------------------------------------------------------- */

static const row *now;

static bool calls_one(td_call *c) {
    now->call(c);
    return td_ok(td_call_ctx(c)) && td_return(c, td_exp(td_arg(c, 0)));
}

/* What is wrong with the row; NULL: nothing. */
static const char *wrong(td_fn *f) {
    td_tensor *y;
    bool       ok = td_invoke(f, TD_ARGS(tensor, 1), &y, 1);
    if (now->is == REFUSED) {
        if (ok) return "the body is compiled";
        const char *text = td_message(cx);
        if (!strstr(text, "captured") && !strstr(text, "inside a call of the library"))
            return "the error does not say that a body is captured";
        return strstr(text, now->name) ? NULL : "the error does not name it";
    }
    if (!ok) return "the call fails";
    if (now->is != GUARD) return NULL;
    now->change();
    if (!td_invoke(f, TD_ARGS(tensor, 1), &y, 1)) /* captured again, it fails */
        return strstr(td_message(cx), now->name) ? NULL : "the call fails afterwards";
    return td_fn_specializations(f) == 2 ? NULL : "the change is not noticed";
}

TEST(a_body_that_calls_a_public_function_is_right_or_refused) {
    int bad = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        now = &rows[i];
        if (now->is == CALLBACK) continue;
        set_up();
        td_fn      *f = td_aot_function(cx, calls_one, NULL, NULL);
        const char *why = wrong(f);
        if (why) printf("%s: %s. %s\n", now->name, why, td_message(cx));
        bad += why != NULL;
        td_clear(cx);
        td_clear(cx2);
        td_close(cx);
        td_close(cx2);
    }
    CHECK(bad == 0);
}

/* The same rows on objects of another context. What a body does there is not recorded,
 * so it is refused, unless the row is harmless or needs the call alone. */
TEST(a_body_that_uses_another_context_is_refused) {
    int bad = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        now = &rows[i];
        if (now->is == CALLBACK) continue;
        set_up();
        td_ctx    *own = td_open();
        td_tensor *y, *x = td_ones(own, TD_SHAPE(2));
        td_fn     *f = td_aot_function(own, calls_one, NULL, NULL);
        bool       may = now->is == HARMLESS || !strcmp(now->name, "td_watch") ||
                   !strncmp(now->name, "td_arg", strlen("td_arg")) ||
                   !strcmp(now->name, "td_sym_arg");
        foreign = tensor;
        bool ok = td_invoke(f, TD_ARGS(x, 1), &y, 1);
        foreign = NULL;
        bool good = ok ? may : strstr(td_message(own), "captured") != NULL;
        if (!good) printf("%s: compiled. %s\n", now->name, td_message(own));
        bad += !good;
        td_clear(own);
        td_clear(cx);
        td_close(own);
        td_close(cx);
        td_close(cx2);
    }
    CHECK(bad == 0);
}

static bool has_row(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name)) return true;
    return false;
}

/* Every `TD_API ... td_name(` of a header; returns how many have no row. */
static int missing_of(const char *path) {
    FILE *f = fopen(path, "r");
    char  line[4096], name[100];
    int   bad = 0;
    CHECK(f != NULL);
    while (f && fgets(line, sizeof line, f)) {
        const char *at = strncmp(line, "TD_API ", 7) ? NULL : strchr(line, '(');
        if (!at) continue;
        const char *from = at;
        while (from > line && (from[-1] == '_' || isalnum((unsigned char)from[-1])))
            from--;
        snprintf(name, sizeof name, "%.*s", (int)(at - from), from);
        if (has_row(name)) continue;
        printf("%s: %s has no row in body_functions.def\n", path, name);
        bad++;
    }
    if (f) fclose(f);
    return bad;
}

/* Ops, and layers made of them, are recorded like any op. */
TEST(every_public_function_has_a_row) {
    static const char *const headers[] = {"tensor", "mode",   "config",   "module",
                                          "optim",  "data",   "io",       "dlpack",
                                          "tree",   "grad",   "graph",    "capture",
                                          "aot",    "export", "autocast", "facts",
                                          "device"};
    int                      bad = 0;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        char path[100];
        snprintf(path, sizeof path, "include/tandem/%s.h", headers[i]);
        bad += missing_of(path);
    }
    CHECK(bad == 0);
}
