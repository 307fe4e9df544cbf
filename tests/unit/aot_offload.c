/* aot_offload.c -- saved values in a store between forward and backward
 * (td_aot_opts.offload), and the stores themselves. */
#include "saved_help.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- runs --------------------------------------------------------------- */

enum { LAYERS = 5 };
typedef struct run {
    double     loss;
    td_tensor *grad[LAYERS];
    size_t     saved; /* bytes that the history of the call has live */
    size_t     peak;  /* of forward and backward */
} run;

static void inputs(td_ctx *cx, int64_t n, td_value *in) {
    td_seed(cx, 3);
    for (int i = 0; i < LAYERS; i++) {
        td_tensor *x = td_mul(td_randn(cx, TD_SHAPE(n, n)), 0.1);
        in[i] = td_value_tensor(td_requires_grad_(x));
    }
}

/* Forward and backward of @deep on n x n matrices. */
static run train(td_ctx *cx, td_fn *f, td_store *s, int64_t n) {
    td_value   in[LAYERS];
    td_tensor *out[1];
    run        r = {0};
    inputs(cx, n, in);
    size_t before = td_memory_live();
    td_memory_peak_reset();
    CHECK(td_invoke(f, (td_values){in, LAYERS}, out, 1));
    if (s) CHECK(td_store_flush(s));
    r.saved = td_memory_live() - before;
    CHECK(td_backward(out[0]));
    r.peak = td_memory_peak() - before;
    r.loss = td_item(out[0]);
    for (int i = 0; i < LAYERS; i++) r.grad[i] = td_grad_of(in[i].u.t);
    CHECK_OK(cx);
    return r;
}

static bool same(td_tensor *a, td_tensor *b) {
    return td_item(td_sum(td_ne(a, b))) == 0;
}
static bool near(td_tensor *a, td_tensor *b) {
    return td_item(td_amax(td_abs(td_sub(a, b)))) < 1e-5;
}
static bool same_run(const run *a, const run *b) {
    bool is = a->loss == b->loss;
    for (int i = 0; i < LAYERS; i++) is = is && same(a->grad[i], b->grad[i]);
    return is;
}

static td_aot_opts offload(td_store *s) {
    return (td_aot_opts){TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT,
                         .offload = {.store = s, .min_bytes = 1}};
}

static bool is_empty(td_store *s) {
    td_store_stats n = td_store_count(s);
    return n.values == 0 && n.bytes == 0;
}

/* ---- values and memory -------------------------------------------------- */

static void compare(td_ctx *cx, td_store *s, int ahead) {
    td_aot_opts plain = {TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT};
    td_aot_opts o = offload(s);
    o.offload.ahead = ahead;
    td_fn *f = td_aot_function(cx, deep, NULL, &plain);
    td_fn *g = td_aot_function(cx, deep, NULL, &o);
    CHECK(td_store_limit(s, 0));
    for (int i = 0; i < 2; i++) {
        td_store_stats before = td_store_count(s);
        run            a = train(cx, f, NULL, 64), b = train(cx, g, s, 64);
        td_store_stats after = td_store_count(s);
        CHECK(same_run(&a, &b));
        CHECK(after.puts - before.puts == LAYERS && after.gets - before.gets == LAYERS);
        CHECK(a.saved >= LAYERS * 64 * 64 * 4 && b.saved < 4096);
        CHECK(b.peak <= a.peak + (size_t)(ahead > 0 ? ahead : !ahead) * 64 * 64 * 4);
        CHECK(is_empty(s));
    }
    td_fn_drop(f);
    td_fn_drop(g);
}

TEST(offloaded_values_give_the_same_gradients_and_take_no_memory) {
    for (int ahead = -1; ahead < 3; ahead++) {
        td_ctx *cx = td_open();
        compare(cx, td_store_memory(cx, "mem"), ahead);
        compare(cx, td_store_file(cx, "disk", "/tmp"), ahead);
        td_close(cx);
    }
}

/* Values that are on their way when backward first waits for one. */
static int fetched_first(const td_fn *f) {
    const td_graph *g = f->specs->plan->h->bwd;
    int             n = 0;
    for (int i = 0; i < g->nodes.n && g->nodes.v[i]->op != TD_OP_offload_wait; i++)
        n += g->nodes.v[i]->op == TD_OP_offload_fetch;
    return n;
}

TEST(values_are_fetched_ahead_of_their_readers) {
    static const int want[] = {1, 2, 2, 3, 4}; /* by ahead, from -1; 0 stands for 1 */
    td_ctx          *cx = td_open();
    td_store        *s = td_store_memory(cx, "mem");
    for (int ahead = -1; ahead < 4; ahead++) {
        td_aot_opts o = offload(s);
        o.offload.ahead = ahead;
        td_fn *f = td_aot_function(cx, deep, NULL, &o);
        train(cx, f, s, 16);
        CHECK(fetched_first(f) == want[ahead + 1]);
        td_fn_drop(f);
    }
    td_close(cx);
}

TEST(native_code_and_the_interpreter_offload_alike) {
    static const char *const backends[] = {"interp", "native"};
    for (int i = 0; i < 2; i++) {
        td_ctx *cx = td_open();
        td_config_set(cx, "backend", backends[i]);
        td_config_set(cx, "lazy_backward", "off");
        compare(cx, td_store_memory(cx, "mem"), 0);
        td_close(cx);
    }
}

TEST(small_values_and_values_not_chosen_stay_in_memory) {
    td_ctx     *cx = td_open();
    td_store   *s = td_store_memory(cx, "mem");
    td_aot_opts o = offload(s);
    o.offload.min_bytes = 0; /* 64 KiB */
    td_fn *f = td_aot_function(cx, deep, NULL, &o);
    train(cx, f, s, 64);
    CHECK(td_store_count(s).puts == 0);
    td_fn *g = td_aot_function(cx, deep, NULL, &o);
    train(cx, g, s, 128);
    CHECK(td_store_count(s).puts == LAYERS);
    td_fn_drop(g);
    td_fn_drop(f);
    td_close(cx);
}

static bool only_exp(void *env, const td_saved_at *at) {
    *(int *)env += 1;
    CHECK(at->bytes == 64 * 64 * 4 && at->donated);
    return !strcmp(at->op, "exp");
}

TEST(a_function_chooses_what_is_offloaded) {
    td_ctx     *cx = td_open();
    td_store   *s = td_store_memory(cx, "mem");
    int         calls = 0;
    td_aot_opts o = offload(s);
    o.offload.choose = only_exp;
    o.offload.env = &calls;
    td_fn *f = td_aot_function(cx, deep, NULL, &o);
    train(cx, f, s, 64);
    CHECK(td_store_count(s).puts == 1 && calls == LAYERS);
    train(cx, f, s, 64);
    CHECK(td_store_count(s).puts == 2 && calls == LAYERS);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- histories ---------------------------------------------------------- */

TEST(a_retained_history_fetches_again) {
    td_ctx     *cx = td_open();
    td_store   *s = td_store_memory(cx, "mem");
    td_aot_opts o = offload(s);
    td_fn      *f = td_aot_function(cx, deep, NULL, &o);
    td_value    in[LAYERS];
    td_tensor  *out[1], *a[1], *b[1];
    inputs(cx, 16, in);
    CHECK(td_invoke(f, (td_values){in, LAYERS}, out, 1));
    td_grad_opts keep = {TD_GRAD_OPTS, .retain_graph = true};
    td_tensors   roots = {out, 1}, to = {&in[1].u.t, 1};
    CHECK(td_grad(roots, to, a, &keep) && td_grad(roots, to, b, &keep));
    CHECK(same(a[0], b[0]));
    CHECK(td_store_count(s).gets > LAYERS && !is_empty(s));
    CHECK(td_backward(out[0]) && is_empty(s));
    CHECK(!td_backward(out[0]) && td_error(cx) == TD_E_GRAD);
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_history_that_is_dropped_drops_its_values) {
    td_ctx     *cx = td_open();
    td_store   *s = td_store_file(cx, "disk", "/tmp");
    td_aot_opts o = offload(s);
    td_fn      *f = td_aot_function(cx, deep, NULL, &o);
    td_value    in[LAYERS];
    td_tensor  *out[1];
    td_scope_begin(cx, NULL);
    inputs(cx, 64, in);
    CHECK(td_invoke(f, (td_values){in, LAYERS}, out, 1) && !is_empty(s));
    td_fn_drop(f);
    td_scope_end(cx, NULL, NULL);
    CHECK(is_empty(s));
    CHECK_OK(cx);
    td_close(cx);
}

/* Values keep the store's memory, not the handle of the user. */
TEST(a_store_may_be_closed_before_the_history) {
    td_ctx     *cx = td_open();
    td_store   *s = td_store_memory(cx, "mem");
    td_aot_opts o = offload(s);
    td_fn      *f = td_aot_function(cx, deep, NULL, &o);
    td_value    in[LAYERS];
    td_tensor  *out[1], *late[1];
    inputs(cx, 16, in);
    CHECK(td_invoke(f, (td_values){in, LAYERS}, out, 1));
    td_store_close(s);
    CHECK(td_backward(out[0]) && td_ok(cx));
    CHECK(!td_invoke(f, (td_values){in, LAYERS}, late, 1));
    CHECK(strstr(td_message(cx), "no store mem is open"));
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* Double backward repeats forward from the inputs, whose values are the same. */
TEST(offloaded_functions_have_gradients_of_gradients) {
    td_ctx     *cx = td_open();
    td_store   *s = td_store_memory(cx, "mem");
    td_aot_opts plain = {TD_AOT_OPTS}, o = offload(s);
    td_tensor  *got[2][2], *y[2], *g[1];
    CHECK(td_store_limit(s, 0)); /* none is dropped before it is stored */
    td_fn *f[2] = {td_aot_function(cx, pair, NULL, &plain),
                   td_aot_function(cx, pair, NULL, &o)};
    for (int i = 0; i < 2; i++) {
        td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(2, 3), 0.3));
        td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(2, 3), 0.7));
        td_tensor *in[2] = {x, w};
        CHECK(td_invoke(f[i], TD_ARGS(x, w), y, 2));
        td_grad_opts twice = {TD_GRAD_OPTS, .create_graph = true};
        CHECK(td_grad((td_tensors){&y[1], 1}, (td_tensors){in, 1}, g, &twice));
        td_tensor *sum = td_sum(td_mul(g[0], g[0]));
        CHECK(td_grad((td_tensors){&sum, 1}, (td_tensors){in, 2}, got[i], NULL));
    }
    CHECK(same(got[0][0], got[1][0]) && same(got[0][1], got[1][1]));
    CHECK(td_store_count(s).puts > 0);
    CHECK_OK(cx);
    td_fn_drop(f[0]);
    td_fn_drop(f[1]);
    td_close(cx);
}

TEST(a_missing_tangent_fetches_what_its_backward_reads) {
    td_ctx     *cx = td_open();
    td_store   *s = td_store_memory(cx, "mem");
    td_aot_opts o = offload(s);
    td_fn      *f = td_aot_function(cx, pair, NULL, &o);
    for (int which = 0; which < 2; which++) {
        td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(2, 3), 0.3)), *y[2];
        td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(2, 3), 0.7)), *want[1];
        td_value   v[2];
        CHECK(td_call_body(cx, pair, NULL, TD_ARGS(x, w), v, 2) == 2);
        CHECK(td_grad((td_tensors){&v[which].u.t, 1}, (td_tensors){&x, 1}, want, NULL));
        CHECK(td_invoke(f, TD_ARGS(x, w), y, 2) && td_backward(y[which]));
        CHECK(near(td_grad_of(x), want[0]));
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* A store that is slow to read what it is given. */
static bool slow_put(void *env, const void *bytes, size_t n, uint64_t *handle,
                     char *why) {
    void *block = malloc(n);
    (void)env, (void)why;
    usleep(20000);
    if (block) memcpy(block, bytes, n);
    *handle = (uint64_t)(uintptr_t)block;
    return block != NULL;
}
static bool slow_get(void *env, uint64_t handle, void *to, size_t n, char *why) {
    (void)env, (void)why;
    memcpy(to, (void *)(uintptr_t)handle, n);
    return true;
}
static void slow_drop(void *env, uint64_t handle) {
    (void)env;
    free((void *)(uintptr_t)handle);
}
static td_store *slow_store(td_ctx *cx) {
    td_store_io io = {.put = slow_put, .get = slow_get, .drop = slow_drop};
    return td_store_open(cx, "slow", &io);
}

static bool shows(td_call *c) {
    td_tensor *a = td_exp(td_arg(c, 0));
    return td_return(c, td_reshape(a, TD_SHAPE(-1)), td_sum(td_sin(a)));
}

/* The second result is computed from the first, which is written meanwhile. */
TEST(an_offloaded_result_may_be_written_before_backward) {
    td_ctx     *cx = td_open();
    td_aot_opts o = offload(slow_store(cx));
    o.offload.filter = TD_SAVED_ALL;
    td_fn     *f = td_aot_function(cx, shows, NULL, &o);
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(8, 8), 0.3)), *y[2];
    CHECK(td_invoke(f, TD_ARGS(x), y, 2));
    td_zero_(td_detach(y[0]));
    CHECK(td_backward(y[1]));
    double a = exp(0.3);
    CHECK(fabs(td_item(td_sum(td_grad_of(x))) / (64 * a * cos(a)) - 1) < 1e-5);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* An argument is stored before the call returns: later writes do not matter. */
TEST(an_offloaded_argument_may_be_written_before_backward) {
    td_ctx     *cx = td_open();
    td_store   *s = slow_store(cx);
    td_aot_opts o = offload(s);
    o.offload.filter = TD_SAVED_ALL;
    td_fn     *f = td_aot_function(cx, pair, NULL, &o);
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(64, 64), 0.3)), *y[2];
    td_tensor *w = td_full(cx, TD_SHAPE(64, 64), 0.7);
    CHECK(td_invoke(f, TD_ARGS(x, w), y, 2));
    td_zero_(w);
    CHECK(td_backward(y[1]));
    double a = exp(0.3), want = 2 * sin(a * 0.7) * cos(a * 0.7) * 0.7 * a * 64 * 64;
    CHECK(fabs(td_item(td_sum(td_grad_of(x))) / want - 1) < 1e-5);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- together with other features ---------------------------------------- */

static int halve(void *env, const td_saved_at *at, td_tensor *t, td_tensor **packed) {
    (void)env, (void)at;
    packed[0] = td_mul(t, 0.5);
    packed[1] = td_zeros(td_ctx_of(t), TD_SHAPE(1));
    return 2;
}
static td_tensor *redouble(void *env, const td_saved_at *at, td_tensor *const *packed,
                           int n) {
    (void)env, (void)at;
    CHECK(n == 2);
    return td_mul(packed[0], 2.0);
}

TEST(what_pack_returns_is_offloaded) {
    td_ctx     *cx = td_open();
    td_store   *s = td_store_memory(cx, "mem");
    td_aot_opts plain = {TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT};
    td_aot_opts o = offload(s);
    o.offload.min_bytes = 1024;
    o.saved = (td_packing){.pack = halve, .unpack = redouble};
    td_fn *f = td_aot_function(cx, deep, NULL, &plain);
    td_fn *g = td_aot_function(cx, deep, NULL, &o);
    run    a = train(cx, f, NULL, 64), b = train(cx, g, s, 64);
    CHECK(same_run(&a, &b)); /* 0.5 is exact */
    CHECK(td_store_count(s).puts == LAYERS && b.saved < 4096);
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
}

TEST(symbolic_sizes_are_offloaded_with_each_calls_own) {
    td_ctx     *cx = td_open();
    td_store   *s = td_store_memory(cx, "mem");
    td_aot_opts o = offload(s);
    o.dynamic = TD_SHAPES_DYNAMIC;
    td_fn *f = td_aot_function(cx, pair, NULL, &o);
    for (int64_t n = 3; n < 6; n++) {
        td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(n, n + 2), 0.3)), *y[2];
        td_tensor *w = td_full(cx, TD_SHAPE(n, n + 2), 0.7), *want[1];
        td_value   v[2];
        CHECK(td_call_body(cx, pair, NULL, TD_ARGS(x, w), v, 2) == 2);
        CHECK(td_grad((td_tensors){&v[1].u.t, 1}, (td_tensors){&x, 1}, want, NULL));
        CHECK(td_invoke(f, TD_ARGS(x, w), y, 2) && td_backward(y[1]));
        CHECK(near(td_grad_of(x), want[0]));
    }
    CHECK(td_fn_specializations(f) == 1 && td_store_count(s).puts > 0);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

static int   n_hooked;
static void *hook(void *env, td_tensor *t) {
    (void)env;
    n_hooked++;
    CHECK(td_dtype_of(t) == TD_F32);
    return td_clone(t) ? td_keep(td_clone(t)) : NULL;
}
static td_tensor *unhook(void *env, void *p, td_ctx *cx) {
    (void)env, (void)cx;
    return p;
}
static void unkeep(void *env, void *p) {
    (void)env;
    td_drop(p);
}

/* They could only copy a handle, which is then none. */
TEST(hooks_around_the_call_do_not_get_handles) {
    td_ctx        *cx = td_open();
    td_store      *s = td_store_memory(cx, "mem");
    td_aot_opts    o = offload(s);
    td_fn         *f = td_aot_function(cx, pair, NULL, &o);
    td_tensor     *x = td_requires_grad_(td_full(cx, TD_SHAPE(4, 4), 0.3)), *y[2];
    td_saved_hooks hooks = {.pack = hook, .unpack = unhook, .drop = unkeep};
    n_hooked = 0;
    CHECK(td_saved_hooks_push(cx, &hooks));
    CHECK(td_invoke(f, TD_ARGS(x, x), y, 2));
    td_saved_hooks_pop(cx);
    CHECK(n_hooked > 0 && td_backward(y[1]));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- checkpoint policies -------------------------------------------------- */

static td_policy offload_exp(void *env, const char *op) {
    (void)env;
    return !strcmp(op, "exp") ? TD_MUST_OFFLOAD : TD_MUST_RECOMPUTE;
}
static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)env, (void)n_in, (void)n_out;
    out[0] = td_sin(td_exp(td_mul(in[0], in[0])));
    return true;
}
static bool checkpointed(td_call *c) {
    td_tensor         *x = td_arg(c, 0), *y;
    td_checkpoint_opts o = {TD_CHECKPOINT_OPTS, .region = region,
                            .policy = offload_exp};
    if (!td_checkpoint_with(td_call_ctx(c), (td_tensors){&x, 1}, &y, 1, &o))
        return false;
    return td_return(c, td_sum(y));
}

TEST(a_checkpoint_policy_offloads_whatever_the_size) {
    td_ctx     *cx = td_open();
    td_store   *s = td_store_memory(cx, "mem");
    td_aot_opts o = {TD_AOT_OPTS, .offload = {.store = s}};
    td_fn      *f = td_aot_function(cx, checkpointed, NULL, &o);
    td_tensor  *x = td_requires_grad_(td_full(cx, TD_SHAPE(4), 0.5)), *y[1];
    CHECK(td_invoke(f, TD_ARGS(x), y, 1));
    CHECK(td_store_flush(s) && td_store_count(s).puts == 1);
    CHECK(td_backward(y[0]));
    double e = exp(0.25);
    CHECK(fabs(td_item(td_sum(td_grad_of(x))) - 4 * cos(e) * e) < 1e-5);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- stores --------------------------------------------------------------- */

TEST(an_offloaded_call_is_explained) {
    td_ctx     *cx = td_open();
    td_store   *s = td_store_memory(cx, "mem");
    td_aot_opts o = offload(s);
    td_fn      *f = td_aot_function(cx, deep, NULL, &o);
    static char text[1 << 15];
    train(cx, f, s, 64);
    CHECK(td_explain(f, text, sizeof text) > 0);
    CHECK(strstr(text, "saved value 5 is offloaded to store mem: <saved 0>, 16.0 KiB"));
    td_fn_drop(f);
    td_close(cx);
}

static void not_opened(td_ctx *cx, td_store *s, td_code code) {
    CHECK(td_is_nil(s) && td_error(cx) == code);
    td_clear(cx);
}

TEST(stores_have_names_of_their_own) {
    td_ctx     *cx = td_open();
    td_store_io none = {0};
    td_store   *s = td_store_memory(cx, "mem");
    CHECK(!td_is_nil(s));
    not_opened(cx, td_store_memory(cx, "mem"), TD_E_ARG);
    not_opened(cx, td_store_memory(cx, "a b"), TD_E_ARG);
    not_opened(cx, td_store_memory(cx, ""), TD_E_ARG);
    not_opened(cx, td_store_memory(cx, "a234567890123456789012345678901"), TD_E_ARG);
    not_opened(cx, td_store_open(cx, "own", &none), TD_E_ARG);
    not_opened(cx, td_store_file(cx, "disk", "/nowhere/at/all"), TD_E_IO);
    td_store_close(s);
    s = td_store_memory(cx, "mem");
    CHECK(!td_is_nil(s));
    td_close(cx);
}

/* A file may not grow beyond 20 KB: the first value fits. */
static void disk_full(void *env) {
    struct rlimit most = {20000, 20000};
    td_ctx       *cx = td_open();
    td_store     *s = td_store_file(cx, "disk", "/tmp");
    td_aot_opts   o = offload(s);
    td_fn        *f = td_aot_function(cx, deep, NULL, &o);
    td_value      in[LAYERS];
    td_tensor    *out[1];
    (void)env;
    signal(SIGXFSZ, SIG_IGN);
    inputs(cx, 64, in);
    td_invoke(f, (td_values){in, LAYERS}, out, 1); /* compiles */
    if (setrlimit(RLIMIT_FSIZE, &most)) _exit(2);
    if (!td_invoke(f, (td_values){in, LAYERS}, out, 1)) _exit(3);
    if (td_store_flush(s) || td_error(cx) != TD_E_IO) _exit(4);
    td_clear(cx);
    if (td_backward(out[0]) || td_error(cx) != TD_E_IO) _exit(5);
    if (!strstr(td_message(cx), "writing 16384 bytes")) _exit(6);
    if (!strstr(td_message(cx), "/tmp")) _exit(7);
    td_clear(cx);
    if (td_item(td_sum(td_ones(cx, TD_SHAPE(3)))) != 3) _exit(8);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_full_disk_is_an_error_of_backward) {
    int   status = -1;
    pid_t child = fork();
    if (child == 0) {
        disk_full(NULL);
        child_leaves(true);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(child_was_ok(status));
}

/* A child works with the stores of its parent; a file of the parent is not shared. */
TEST(a_forked_child_has_stores_of_its_own) {
    td_ctx     *cx = td_open();
    td_store   *disk = td_store_file(cx, "disk", "/tmp");
    td_aot_opts o = offload(disk);
    td_fn      *f = td_aot_function(cx, deep, NULL, &o);
    td_value    in[LAYERS];
    td_tensor  *out[1];
    int         status = -1;
    run         want = train(cx, f, disk, 32);
    inputs(cx, 32, in);
    CHECK(td_invoke(f, (td_values){in, LAYERS}, out, 1) && td_store_flush(disk));
    pid_t child = fork();
    if (child == 0) {
        bool gone = !td_backward(out[0]) && td_error(cx) == TD_E_IO &&
                    strstr(td_message(cx), "before a fork");
        td_clear(cx);
        run r = train(cx, f, disk, 32);
        child_leaves(gone && same_run(&r, &want));
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(child_was_ok(status));
    CHECK(td_backward(out[0]) && td_ok(cx));
    CHECK(same(td_grad_of(in[1].u.t), want.grad[1]));
    td_fn_drop(f);
    td_close(cx);
}

static void *in_a_thread(void *env) {
    td_ctx     *cx = td_open();
    td_store   *s = td_store_file(cx, "disk", "/tmp");
    td_aot_opts plain = {TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT};
    td_aot_opts o = offload(s);
    td_fn      *f = td_aot_function(cx, deep, NULL, &plain);
    td_fn      *g = td_aot_function(cx, deep, NULL, &o);
    bool        is = true;
    for (int i = 0; i < 10; i++) {
        td_scope_begin(cx, NULL);
        run a = train(cx, f, NULL, 32), b = train(cx, g, i % 2 ? s : NULL, 32);
        is = is && same_run(&a, &b);
        td_scope_end(cx, NULL, NULL);
    }
    *(bool *)env = is && td_ok(cx) && is_empty(s);
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
    return NULL;
}

TEST(two_threads_offload_in_contexts_of_their_own) {
    pthread_t thread[2];
    bool      ok[2] = {false, false};
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_create(&thread[i], NULL, in_a_thread, &ok[i]));
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    CHECK(ok[0] && ok[1]);
}

/* ---- a store of the program's own ----------------------------------------- */

typedef struct own_store {
    char bytes[1 << 16];
    int  closed, fails;
} own_store;

static bool own_put(void *env, const void *bytes, size_t n, uint64_t *handle,
                    char *why) {
    own_store *s = env;
    if (s->fails) return snprintf(why, TD_STORE_WHY, "no room at all"), false;
    if (n > sizeof s->bytes) return false;
    memcpy(s->bytes, bytes, n);
    *handle = 7;
    return true;
}
static bool own_get(void *env, uint64_t handle, void *to, size_t n, char *why) {
    own_store *s = env;
    (void)why;
    if (handle != 7) return false;
    memcpy(to, s->bytes, n);
    return true;
}
static void own_drop(void *env, uint64_t handle) { (void)env, (void)handle; }
static void own_close(void *env) { ((own_store *)env)->closed++; }

static bool one_exp(td_call *c) { return td_return(c, td_sum(td_exp(td_arg(c, 0)))); }

TEST(a_store_of_the_programs_own_is_used_and_may_fail) {
    static own_store own;
    td_store_io      io = {own_put, own_get, own_drop, own_close, &own};
    td_ctx          *cx = td_open();
    td_store        *s = td_store_open(cx, "own", &io);
    td_aot_opts      o = offload(s);
    td_fn           *f = td_aot_function(cx, one_exp, NULL, &o);
    td_tensor       *x = td_requires_grad_(td_full(cx, TD_SHAPE(9), 0.5)), *y[1];
    CHECK(td_invoke(f, TD_ARGS(x), y, 1) && td_backward(y[0]));
    CHECK(fabs(td_item(td_sum(td_grad_of(x))) - 9 * exp(0.5)) < 1e-5);
    own.fails = 1;
    CHECK(td_invoke(f, TD_ARGS(x), y, 1) && !td_backward(y[0]));
    CHECK(td_error(cx) == TD_E_IO && strstr(td_message(cx), "no room at all"));
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
    CHECK(own.closed == 1);
}

/* ---- the ops in text -------------------------------------------------------- */

TEST(copies_of_handles_and_other_sizes_are_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_arange(cx, 0, 6);
    CHECK(!td_is_nil(td_store_memory(cx, "mem")));
    td_tensor *h = td_op_offload_store(x, "mem", false);
    td_tensor *t = td_op_offload_fetch(h, 0);
    int64_t    six = 6, five = 5, one = 1;
    td_dtype   dt = td_dtype_of(x);
    CHECK(same(td_op_offload_wait(t, (td_ints){&six, 1}, (td_ints){&one, 1}, dt), x));
    CHECK(td_is_nil(td_op_offload_wait(t, (td_ints){&six, 1}, (td_ints){&one, 1}, dt)));
    CHECK(strstr(td_message(cx), "taken before"));
    td_clear(cx);
    CHECK(td_is_nil(td_op_offload_fetch(td_clone(h), 0)));
    CHECK(strstr(td_message(cx), "not a copy"));
    td_clear(cx);
    t = td_op_offload_fetch(h, 0);
    CHECK(
        td_is_nil(td_op_offload_wait(t, (td_ints){&five, 1}, (td_ints){&one, 1}, dt)));
    CHECK(td_error(cx) == TD_E_SHAPE);
    td_clear(cx);
    CHECK(td_is_nil(td_op_offload_store(x, "none", false)));
    td_clear(cx);
    td_op_offload_fetch(h, 0); /* nobody waits for it */
    td_close(cx);
}
