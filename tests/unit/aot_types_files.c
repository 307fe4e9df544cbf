/* aot_types_files.c -- functions of tensors of a type in files: exports, td_fn_save,
 * and the disk cache between processes. */
#include "type_help.h"

#include "cache_help.h"
#include "child.h"

/* ---- exports ------------------------------------------------------------ */

static char path[64];

static td_tensor *some_pair(td_ctx *cx, const char *metadata) {
    return make_pair(noise(cx, 2, 3), noise(cx, 2, 3), metadata);
}

/* Runs an export of @smooth, a joint graph, and compares with eager's gradients. */
static bool runs_as_eager(td_ctx *cx, const td_exported *e) {
    td_value     in[4], out[8];
    td_tensor   *g[2], *y[2];
    int          n = td_exported_inputs(e), at = 0;
    td_tensor   *x = td_requires_grad_(some_pair(cx, "m"));
    td_tensor   *b = td_requires_grad_(noise(cx, 2, 3));
    td_tensor   *p = td_mul(td_tanh(td_mul(x, b)), x), *q = td_sin(b);
    td_tensor   *tp = td_ones_like(p), *tq = td_ones_like(q);
    td_grad_opts o = {TD_GRAD_OPTS, .grads = TD_LIST(tp, tq)};
    if (!td_grad(TD_LIST(p, q), TD_LIST(x, b), g, &o)) return false;
    in[at++] = td_value_tensor(td_detach(x));
    in[at++] = td_value_tensor(td_detach(b));
    in[at++] = td_value_tensor(tp);
    in[at++] = td_value_tensor(tq);
    if (n != at || !td_exported_run(e, (td_values){in, n}, out, td_exported_outputs(e)))
        return false;
    y[0] = out[0].u.t, y[1] = out[1].u.t;
    return td_exported_outputs(e) == 4 && same(y[0], td_detach(p)) &&
           same(y[1], td_detach(q)) && same(out[2].u.t, g[0]) && same(out[3].u.t, g[1]);
}

TEST(a_function_of_pairs_is_exported_and_runs) {
    td_ctx      *cx = td_open();
    td_tensor   *x = td_requires_grad_(some_pair(cx, "m"));
    td_tensor   *b = td_requires_grad_(noise(cx, 2, 3));
    td_exported *e = td_export_joint(cx, smooth, NULL, TD_ARGS(x, b), NULL);
    CHECK_OK(cx);
    CHECK(runs_as_eager(cx, e));
    snprintf(path, sizeof path, "/tmp/td-types-%ld.td", (long)getpid());
    CHECK(td_exported_save(e, path));
    td_exported *again = td_exported_load(cx, path);
    CHECK_OK(cx);
    CHECK(runs_as_eager(cx, again));
    unlink(path);
    td_close(cx);
}

TEST(an_export_names_the_type_that_it_takes) {
    td_ctx      *cx = td_open();
    td_tensor   *x = some_pair(cx, "m"), *b = noise(cx, 2, 3);
    td_exported *e = td_export_joint(cx, smooth, NULL, TD_ARGS(x, b), NULL);
    td_value     out[4];
    int          n = td_exported_outputs(e);
    CHECK(td_exported_run(e, TD_ARGS(x, b), out, n));
    CHECK(!td_exported_run(e, TD_ARGS(b, b), out, n));
    CHECK(strstr(td_message(cx), "is a plain tensor, but the graph takes") &&
          strstr(td_message(cx), "of pair(\"m\", f32[2,3], f32[2,3])"));
    td_clear(cx);
    CHECK(!td_exported_run(e, TD_ARGS(some_pair(cx, "other"), b), out, n));
    CHECK(strstr(td_message(cx), "a pair (\"other\")"));
    td_clear(cx);
    CHECK(!td_exported_run(e, TD_ARGS(x, some_pair(cx, "m")), out, n));
    td_clear(cx);
    td_close(cx);
}

static bool sum_of(td_call *c) { return td_return(c, td_sum(td_arg(c, 0))); }

TEST(a_loss_of_a_type_is_not_exported) {
    td_ctx        *cx = td_open();
    td_export_opts o = {TD_EXPORT_OPTS, .what = TD_EXPORT_LOSS};
    td_tensor     *x = td_requires_grad_(some_pair(cx, ""));
    CHECK(td_is_nil(td_export_joint(cx, sum_of, NULL, TD_ARGS(x), &o)));
    CHECK(strstr(td_message(cx), "is a tensor of a type"));
    td_clear(cx);
    td_close(cx);
}

/* Runs fn in a child process; is its verdict true? */
static bool in_child(bool (*fn)(void *env), void *env) {
    int   status = 0;
    pid_t pid = fork();
    if (pid == 0) child_leaves(fn(env));
    return pid > 0 && waitpid(pid, &status, 0) == pid && child_was_ok(status);
}

static bool each(void *env, td_mode_call *h) {
    (void)env;
    return td_type_each(h);
}

/* Exports a function of a type that no other test registers. */
static bool export_lone(void *env) {
    static const char *const names[] = {"a"};
    td_ctx                  *cx = td_open();
    td_tensor               *b = noise(cx, 2, 3);
    const td_type           *lone =
        td_register_type(cx,
                         &(td_type_opts){TD_TYPE_OPTS, .name = "lone", .inner = names,
                                         .n_inner = 1, .call = each, .version = 1});
    td_tensor *x =
        td_type_make(lone, TD_LIST(b), "", td_sizes(b), (td_ints){0}, TD_F32);
    td_exported *e = td_export_joint(cx, smooth, NULL, TD_ARGS(x, b), NULL);
    (void)env;
    return td_exported_save(e, path);
}

TEST(an_export_of_an_unregistered_type_is_an_error_that_names_it) {
    snprintf(path, sizeof path, "/tmp/td-types-%ld.td", (long)getpid());
    CHECK(in_child(export_lone, NULL)); /* this process does not register the type */
    td_ctx *cx = td_open();
    CHECK(td_is_nil(td_exported_load(cx, path)));
    CHECK(strstr(td_message(cx), "no type lone is registered"));
    td_clear(cx);
    unlink(path);
    td_close(cx);
}

/* ---- td_fn_save --------------------------------------------------------- */

static const td_aot_opts savable = {TD_AOT_OPTS, .savable = true};

static bool save_pair(void *env) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, smooth, NULL, &savable);
    (void)env;
    return agrees(cx, f, smooth, pair_and_plain, 1, 1) && td_fn_save(f, path);
}

static bool load_pair(void *env) {
    td_ctx *cx = td_open();
    (void)env;
    pair_type(cx);
    td_fn *f = td_fn_load(cx, path, NULL);
    return td_ok(cx) && agrees(cx, f, smooth, pair_and_plain, 1, 2);
}

/* Without the type there is no argument to pass: the file says what it needs. */
static bool load_without(void *env) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_fn_load(cx, path, NULL);
    td_tensor *x = noise(cx, 2, 3), *out[2];
    (void)env;
    return !td_ok(cx) || !td_invoke(f, TD_ARGS(x, x), out, 2);
}

TEST(a_saved_function_of_pairs_runs_in_another_process) {
    snprintf(path, sizeof path, "/tmp/td-types-%ld.tdfn", (long)getpid());
    CHECK(in_child(save_pair, NULL));
    CHECK(in_child(load_pair, NULL));
    CHECK(in_child(load_without, NULL));
    unlink(path);
}

/* ---- the disk cache ------------------------------------------------------ */

/* One call in a process of its own. */
typedef struct process {
    const char *metadata;
    uint64_t    version; /* of the type */
    int         rows;
    bool        found;
} process;

/* A type of its own, because versions differ between processes. */
static const td_type *box_type(td_ctx *cx, uint64_t version) {
    static const char *const names[] = {"x"};
    return td_register_type(cx, &(td_type_opts){TD_TYPE_OPTS, .name = "box",
                                                .inner = names, .n_inner = 1,
                                                .call = each, .version = version});
}

static bool call_boxed(void *env) {
    const process *p = env;
    td_ctx        *cx = enter("cache");
    td_tensor     *x = noise(cx, p->rows, 3), *out[2];
    td_tensor     *t = td_type_make(box_type(cx, p->version), TD_LIST(x), p->metadata,
                                    td_sizes(x), (td_ints){0}, TD_F32);
    td_fn         *f = td_aot_function(cx, smooth, NULL, NULL);
    td_requires_grad_(t);
    bool ok = td_invoke(f, TD_ARGS(t, noise(cx, p->rows, 3)), out, 2) &&
              td_backward(td_sum(out[0])) && td_type_of(td_grad_of(t));
    if (count("bypass")) fprintf(stderr, "%s\n", heard);
    return ok && (count("hit: f_") > 0) == p->found && (p->found || count("stored f_"));
}

TEST(another_process_finds_a_function_of_a_type_by_its_version_and_metadata) {
    td_ctx *cx = enter("cache"); /* the directory; no type is registered here */
    CHECK(in_child(call_boxed, &(process){"m", 1, 2, false}));
    CHECK(in_child(call_boxed, &(process){"m", 1, 2, true}));
    CHECK(in_child(call_boxed, &(process){"n", 1, 2, false}));
    CHECK(in_child(call_boxed, &(process){"m", 2, 2, false}));
    CHECK(in_child(call_boxed, &(process){"m", 2, 2, true}));
    CHECK(in_child(call_boxed, &(process){"m", 1, 5, false}));
    leave(cx);
}
