/* small_stack.c -- eager, captured, compiled and text work on a thread with a stack of
 * 256 KB: no function, of the library or emitted, has large arrays on the stack. */
#include "graph/graph.h"
#include "tandem/tandem.h"
#include "td_test.h"

#include <pthread.h>

/* Frames are larger under the sanitizers. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STACK = 2048 * 1024 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { STACK = 2048 * 1024 };
#else
enum { STACK = 256 * 1024 };
#endif
#else
enum { STACK = 256 * 1024 };
#endif

/* Runs fn(cx) on such a thread, with its own context, and expects no error. */
typedef struct job {
    void (*fn)(td_ctx *cx);
    char why[200];
} job;

static void *on_thread(void *arg) {
    job    *j = arg;
    td_ctx *cx = td_open();
    j->fn(cx);
    if (!td_ok(cx)) snprintf(j->why, sizeof j->why, "%s", td_message(cx));
    td_close(cx);
    return NULL;
}

static void run_with(size_t stack, void (*fn)(td_ctx *cx)) {
    job            j = {.fn = fn};
    pthread_attr_t a;
    pthread_t      t;
    CHECK(!pthread_attr_init(&a) && !pthread_attr_setstacksize(&a, stack));
    CHECK(!pthread_create(&t, &a, on_thread, &j));
    CHECK(!pthread_join(t, NULL));
    pthread_attr_destroy(&a);
    CHECK_STR(j.why, "");
}

static void run(void (*fn)(td_ctx *cx)) { run_with(STACK, fn); }

/* ---- eager -------------------------------------------------------------- */

static td_tensor *some(td_ctx *cx, td_ints size, td_dtype dt) {
    return td_requires_grad_(td_to(td_mul(td_randn(cx, size), 0.1), dt));
}

static void eager(td_ctx *cx) {
    td_tensor *x = some(cx, TD_SHAPE(2, 3, 16, 16), TD_F32);
    td_tensor *w = some(cx, TD_SHAPE(8, 3, 3, 3), TD_F32);
    td_tensor *y = td_max_pool2d(td_conv2d(x, w), TD_DIMS(2));
    td_backward(td_sum(td_mul(y, y)));
    td_tensor *q = some(cx, TD_SHAPE(2, 4, 70, 16), TD_F32);
    td_backward(td_sum(td_scaled_dot_product_attention(q, q, q)));
    td_tensor *m = some(cx, TD_SHAPE(300, 300), TD_F64);
    td_tensor *h = td_layer_norm(td_softmax(td_matmul(m, m), 1), TD_DIMS(300));
    td_tensor *order;
    td_backward(td_sum(td_cumsum(td_sort(h, 1, false, false, &order), 0)));
    td_tensor *half = some(cx, TD_SHAPE(64, 3000), TD_BF16);
    td_backward(td_sum(td_log_softmax(td_matmul(half, td_t(half)), 1)));
    td_einsum("ij,jk->ik", TD_LIST(m, m));
}

TEST(eager_work_needs_less_than_256_kb_of_stack) { run(eager); }

/* ---- compiled ----------------------------------------------------------- */

static bool softmaxes(td_call *c) {
    td_tensor *h = td_arg(c, 0);
    for (int i = 0; i < 4; i++) h = td_softmax(td_add(h, 0.5), 1);
    return td_return(c, h);
}

/* As many sums as a kernel may have, all in one loop of rows. */
static bool sums(td_call *c) {
    td_tensor *x = td_arg(c, 0), *all = NULL;
    for (int i = 0; i < 14; i++) {
        td_tensor *s = td_sum(td_sin(td_mul(x, 1.0 + i)), TD_DIMS(1), true);
        all = all ? td_add(all, s) : s;
    }
    return td_return(c, td_mul(x, all));
}

static bool norms(td_call *c) {
    td_tensor *h = td_arg(c, 0);
    for (int i = 0; i < 4; i++)
        h = td_layer_norm(td_dropout(td_sin(h), 0.5, true), TD_DIMS(1000));
    return td_return(c, h);
}

/* Forward and backward, with optimization and without: that has more on the stack. */
static void compiled(td_ctx *cx, td_body *body, int64_t cols, td_dtype dt) {
    static const char *const flags[] = {"-O0", ""};
    for (int i = 0; i < 2; i++) {
        td_tensor *x = some(cx, TD_SHAPE(4, cols), dt), *out[1];
        td_config_set(cx, "backend", "native");
        td_config_set(cx, "cc_flags", flags[i]);
        td_fn *f = td_aot_function(cx, body, NULL, NULL);
        if (td_invoke(f, TD_ARGS(x), out, 1))
            td_backward(td_sum(td_mul(out[0], out[0])));
        td_fn_drop(f);
    }
}

static void softmaxes_of_long_rows(td_ctx *cx) {
    compiled(cx, softmaxes, 4096, TD_F64);
}
static void many_sums(td_ctx *cx) { compiled(cx, sums, 4096, TD_F64); }
static void many_long_sums(td_ctx *cx) { compiled(cx, sums, 100000, TD_F64); }
static void many_norms(td_ctx *cx) { compiled(cx, norms, 1000, TD_F32); }

TEST(compiled_softmaxes_of_4096_doubles_need_less) { run(softmaxes_of_long_rows); }
TEST(a_kernel_of_14_sums_needs_less) { run(many_sums); }
TEST(a_kernel_of_14_sums_over_long_rows_needs_less) { run(many_long_sums); }
TEST(norms_with_dropout_need_less) { run(many_norms); }

/* ---- nested graphs ------------------------------------------------------- */

/* The user decides how deep branches nest; a capture, its derivative and its replay
 * recurse over them. */
static bool nest_body(td_call *c) {
    int       *left = td_call_env(c);
    td_tensor *x = td_arg(c, 0), *y;
    if (--*left <= 0) return td_return(c, td_mul(x, 2.0));
    td_branches of = {nest_body, nest_body, left};
    td_tensor  *on = td_ones(td_call_ctx(c), TD_SHAPE());
    return td_cond(on, of, TD_ARGS(x), &y, 1) && td_return(c, y);
}

static bool nest(td_ctx *cx, int depth) {
    td_fn     *f = td_aot_function(cx, nest_body, &depth, NULL);
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(3)), true), *y;
    return td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(td_sum(y)) &&
           td_item(td_sum(td_grad_of(x))) == 6;
}

static void nest_few(td_ctx *cx) { CHECK(nest(cx, 4)); }

static void nest_many(td_ctx *cx) {
    for (int depth = 10; depth < 1000; depth += depth) {
        bool ok = nest(cx, depth);
        CHECK(ok == td_ok(cx));
        if (ok) continue;
        CHECK(td_error(cx) == TD_E_UNSUPPORTED);
        TD_CHECK_THAT(strstr(td_message(cx), "a larger stack"), "%s", td_message(cx));
        td_clear(cx);
        return;
    }
    CHECK(false);
}

TEST(branches_that_nest_a_few_levels_fit_a_small_stack) { run(nest_few); }
/* Graphs that nest deep are large: a stack under a sanitizer must not fit 80 levels. */
TEST(branches_that_nest_too_deep_for_the_stack_are_refused) {
    run_with(STACK > 1024 * 1024 ? 1024 * 1024 : STACK, nest_many);
}
