/* native_memory.c -- where native code keeps its values: places in one block that do
 * not meet, never more in use than with blocks alone, and the same numbers. */
#include "aot_help.h"

#include "backend/native.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- places -------------------------------------------------------------- */

static uint64_t noise = 5;

static int pick(int n) {
    noise = noise * 6364136223846793005u + 1442695040888963407u;
    return (int)((noise >> 33) % (uint64_t)n);
}

static bool meet(const td_live_range *a, const td_live_range *b) {
    bool time = a->first <= b->last && b->first <= a->last;
    return time && a->at < b->at + b->bytes && b->at < a->at + a->bytes;
}

static void check_places(int n, int steps) {
    td_live_range *s = calloc((size_t)n, sizeof *s);
    td_arena_sizes z;
    for (int i = 0; i < n; i++) {
        s[i].first = pick(steps);
        s[i].last = s[i].first + pick(8);
        s[i].own = pick(6) == 0;
        if (s[i].last > steps || s[i].own) s[i].last = steps;
        if (pick(10) == 0) s[i].first = -1, s[i].own = true, s[i].last = pick(steps);
        s[i].bytes = pick(4) ? pick(5000) : pick(200);
    }
    CHECK(td__arena_place(s, n, steps, &z));
    CHECK(z.live <= z.arena && z.most <= z.blocks + 4096);
    for (int i = 0; i < n; i++) {
        CHECK(s[i].at % 64 == 0 || s[i].at == -1);
        CHECK(s[i].at < 0 || (!s[i].own && s[i].at + s[i].bytes <= z.arena));
        for (int k = 0; k < i && s[i].at >= 0; k++)
            CHECK(s[k].at < 0 || !meet(&s[i], &s[k]));
    }
    free(s);
}

TEST(values_that_live_at_once_have_disjoint_bytes) {
    for (int i = 0; i < 60; i++) check_places(1 + pick(120), 1 + pick(60));
}

/* Bytes early, then a large result: one block for the whole run holds both. */
TEST(an_arena_does_not_raise_the_most_in_use) {
    td_live_range  s[3] = {{.first = 0, .last = 1, .bytes = 4000},
                           {.first = 2, .last = 4, .bytes = 40000, .own = true},
                           {.first = 1, .last = 3, .bytes = 64}};
    td_arena_sizes z;
    CHECK(td__arena_place(s, 3, 4, &z));
    CHECK(s[1].at == -1 && z.most <= z.blocks + 4096 && z.blocks < 45000);
}

TEST(places_need_memory) {
    td_live_range  s[2] = {{.last = 1, .bytes = 64},
                           {.first = 1, .last = 2, .bytes = 9}};
    td_arena_sizes z;
    bool           ok = false;
    for (int64_t n = 0; !ok && n < 50; n++) {
        td__fault_arm(n, false);
        ok = td__arena_place(s, 2, 3, &z);
        td__fault_arm(-1, false);
    }
    CHECK(ok);
}

/* ---- functions ----------------------------------------------------------- */

/* Products with loops between them: most values are read by calls. */
static bool tower(td_call *c) {
    td_tensor *h = td_arg(c, 0);
    for (int i = 0; i < 4; i++) {
        td_tensor *a = td_matmul(h, td_arg(c, 1));
        td_tensor *b = td_matmul(td_transpose(a, 0, 1), td_softmax(a, 1));
        h = td_add(td_tanh(td_matmul(td_gelu(a), td_arg(c, 1))), td_sum(b));
    }
    return td_return(c, h, td_mean(h));
}

static td_tensor *leaf_of(td_ctx *cx, int64_t rows, int64_t cols) {
    return td_requires_grad_(td_mul(td_randn(cx, TD_SHAPE(rows, cols)), 0.1));
}

static void call_tower(td_fn *f, const char *backend, td_tensor *x, td_tensor *w,
                       td_tensor **out) {
    td_config_set(f->cx, "backend", backend);
    td_invoke(f, TD_ARGS(x, w), out, 2);
    td_backward(td_add(td_sum(out[0]), out[1]));
}

static void check_near(td_tensor *a, td_tensor *b) {
    double far = td_item(td_max(td_abs(td_sub(a, b))));
    double most = td_item(td_max(td_abs(b)));
    TD_CHECK_THAT(far <= 1e-5 * (1 + most), "%g of %g", far, most);
}

static void check_tower(const char *dynamic) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, tower, NULL, NULL);
    td_fn  *slow = td_aot_function(cx, tower, NULL, NULL);
    td_config_set(cx, "dynamic", dynamic);
    for (int64_t rows = 5; rows < 200; rows *= 3) {
        td_tensor *x = leaf_of(cx, rows, 24), *w = leaf_of(cx, 24, 24), *y[2], *z[2];
        td_tensor *v = td_requires_grad_(td_clone(td_detach(x)));
        for (int i = 0; i < 2; i++) {
            td_zero_grad(x);
            call_tower(f, "native", x, w, y);
        }
        call_tower(slow, "interp", v, td_detach(w), z);
        CHECK_OK(cx);
        check_near(y[0], z[0]);
        check_near(td_grad_of(x), td_grad_of(v));
    }
    const td_plan   *p = f->specs->plan;
    const td_native *n[2] = {td__native_of(&p->fwd), td__native_of(&p->back.code)};
    CHECK(n[0] && n[1]);
    for (int i = 0; i < 2 && n[i]; i++) {
        const td_arena_sizes *s = &n[i]->mem.sizes;
        CHECK(s->live <= s->arena && s->most <= s->blocks + 4096 && !n[i]->mem.arena);
    }
    CHECK(n[0]->mem.sizes.arena > 0);
    td_fn_drop(f);
    td_fn_drop(slow);
    td_close(cx);
}

TEST(values_in_an_arena_are_the_same) { check_tower("off"); }
TEST(an_arena_serves_every_size) { check_tower("on"); }

/* ---- how much ------------------------------------------------------------ */

static bool plain_tower(td_call *c) {
    td_tensor *h = td_arg(c, 0);
    for (int i = 0; i < 6; i++)
        h = td_tanh(td_matmul(td_gelu(td_matmul(h, td_arg(c, 1))), td_arg(c, 1)));
    return td_return(c, td_mean(h));
}

TEST(a_run_uses_what_was_planned) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, plain_tower, NULL, NULL);
    td_tensor *x = td_randn(cx, TD_SHAPE(16, 64)), *w = td_randn(cx, TD_SHAPE(64, 64));
    td_tensor *y;
    td_config_set(cx, "backend", "native");
    td_invoke(f, TD_ARGS(x, w), &y, 1);
    CHECK_OK(cx);
    const td_native *n = td__native_of(&f->specs->plan->fwd);
    size_t           before = td__block_live();
    td__block_peak_reset();
    td_invoke(f, TD_ARGS(x, w), &y, 1);
    size_t most = td__block_peak() - before, item = 16 * 64 * 4;
    CHECK(n->mem.sizes.arena >= (int64_t)item);
    CHECK(most >= item && most <= (size_t)n->mem.sizes.most + (1 << 14));
    /* a product, what it reads, and the packed w */
    CHECK(most <= 2 * item + 64 * 64 * 4 + (1 << 14));
    td_fn_drop(f);
    td_close(cx);
}

/* ---- threads ------------------------------------------------------------- */

static void *work(void *arg) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, tower, NULL, NULL);
    td_tensor *y[2];
    td_seed(cx, 1);
    td_config_set(cx, "backend", "native");
    td_tensor *x = leaf_of(cx, 16, 24), *w = leaf_of(cx, 24, 24);
    double    *sum = arg;
    for (int i = 0; i < 50; i++) {
        td_invoke(f, TD_ARGS(x, w), y, 2);
        *sum += td_item(y[1]);
    }
    if (!td_ok(cx)) *sum = -1;
    td_fn_drop(f);
    td_close(cx);
    return NULL;
}

TEST(each_thread_has_an_arena) {
    pthread_t t[3];
    double    sum[4] = {0};
    work(&sum[3]);
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&t[i], NULL, work, &sum[i]) == 0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < 3; i++) CHECK(sum[i] == sum[3] && sum[i] != -1);
}

/* ---- beside eager -------------------------------------------------------- */

/* One weight in every step of a loop; eager frees what a step no longer needs. */
static bool chain(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *h = td_arg(c, 0);
    for (int i = 0; i < 8; i++) {
        td_scope_begin(cx, "step");
        h = td_scope_end(cx, "step", td_tanh(td_matmul(h, td_arg(c, 1))));
    }
    return td_return(c, td_sum(h));
}

/* The most that a call and its backward have in use beside the arguments. */
static size_t peak_of(td_ctx *cx, td_fn *f, td_tensor *x, td_tensor *w) {
    td_tensor *y;
    td_value   v;
    td_scope_begin(cx, "call");
    size_t before = td_memory_live();
    td_memory_peak_reset();
    if (f) CHECK(td_invoke(f, TD_ARGS(x, w), &y, 1));
    else CHECK(td_call_body(cx, chain, NULL, TD_ARGS(x, w), &v, 1) == 1);
    CHECK(td_backward(f ? y : v.u.t));
    size_t most = td_memory_peak() - before;
    td_scope_end(cx, "call", NULL);
    td_zero_grad(w);
    return most;
}

TEST(products_that_are_summed_do_not_pile_up) {
    td_ctx *cx = td_open();
    td_config_set(cx, "backend", "native");
    td_fn     *f = td_aot_function(cx, chain, NULL, NULL);
    td_tensor *x = td_randn(cx, TD_SHAPE(256, 256)), *w = leaf_of(cx, 256, 256);
    size_t     eager = peak_of(cx, NULL, x, w), first = peak_of(cx, f, x, w);
    CHECK(first <= eager + (1 << 17) && peak_of(cx, f, x, w) <= eager + (1 << 17));
    td_fn_drop(f);
    td_close(cx);
}

/* ---- the ends of inputs -------------------------------------------------- */

static bool rows(td_call *c) {
    td_tensor *x = td_arg(c, 0), *d = td_sub(x, 0.5);
    return td_return(c, td_softmax(x, 1), td_sum(td_mul(d, d), TD_DIMS(1), false),
                     td_amax(x, TD_DIMS(1), false));
}

/* A kernel may not read what lies behind an input: here, a page that is not there. The
 * lengths leave every tail of a vector, each a constant of its kernel. */
TEST(kernels_read_no_further_than_their_inputs) {
    size_t  page = (size_t)sysconf(_SC_PAGESIZE);
    td_ctx *cx = td_open();
    td_config_set(cx, "backend", "native");
    td_config_set(cx, "dynamic", "off");
    td_config_set(cx, "specialization_limit", "64");
    char *map = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && mprotect(map + page, page, PROT_NONE) == 0);
    for (int wide = 0; wide < 2; wide++) {
        td_dtype dt = wide ? TD_F64 : TD_F32;
        td_fn   *f = td_aot_function(cx, rows, NULL, NULL);
        for (int64_t n = 1; n <= 17; n++) {
            size_t     bytes = 2 * (size_t)n * td_dtype_size(dt);
            td_tensor *y[3], *x = td_wrap(cx, dt, TD_SHAPE(2, n), TD_ALL,
                                          map + page - bytes, NULL, NULL);
            CHECK(td_invoke(f, TD_ARGS(x), y, 3));
        }
        td_fn_drop(f);
    }
    CHECK_OK(cx);
    td_close(cx);
    munmap(map, 2 * page);
}
