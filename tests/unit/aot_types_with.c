/* aot_types_with.c -- tensors of a type together with packed and offloaded saved
 * values, regions, functional random numbers, training steps and compiled backwards. */
#include "type_help.h"

#include "tandem/compiled_backward.h"
#include "tandem/store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- saved values ------------------------------------------------------- */

static int n_packed;

/* Loses nothing. */
static int halve(void *env, const td_saved_at *at, td_tensor *t, td_tensor **packed) {
    (void)env, (void)at;
    n_packed++;
    if (td_type_of(t)) return -1; /* only tensors with elements are packed */
    packed[0] = td_mul(t, 0.5);
    return 1;
}
static td_tensor *twice(void *env, const td_saved_at *at, td_tensor *const *packed,
                        int n) {
    (void)env, (void)at, (void)n;
    return td_mul(packed[0], 2.0);
}

TEST(saved_inner_tensors_are_packed) {
    td_ctx     *cx = td_open();
    td_aot_opts o = {TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT,
                     .saved = {.pack = halve, .unpack = twice, .lossless = true}};
    CHECK(agree_with(cx, smooth, pair_and_plain, 1, &o));
    CHECK(n_packed > 0);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(saved_inner_tensors_are_offloaded) {
    td_ctx     *cx = td_open();
    td_store   *s = td_store_memory(cx, "memory");
    td_aot_opts o = {TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT,
                     .offload = {.store = s, .min_bytes = 1}};
    CHECK_OK(cx);
    CHECK(agree_with(cx, smooth, pair_and_plain, 1, &o));
    CHECK_OK(cx);
    td_close(cx);
}

static bool late_put(void *env, const void *bytes, size_t n, uint64_t *handle,
                     char *why) {
    void *copy = malloc(n);
    (void)env, (void)why;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    *handle = (uint64_t)(uintptr_t)copy;
    return copy && memcpy(copy, bytes, n);
}
static bool late_get(void *env, uint64_t handle, void *to, size_t n, char *why) {
    (void)env, (void)why;
    return memcpy(to, (const void *)(uintptr_t)handle, n) != NULL;
}
static void late_drop(void *env, uint64_t handle) {
    (void)env;
    free((void *)(uintptr_t)handle);
}

static bool shows(td_call *c) {
    td_tensor *a = td_exp(td_arg(c, 0));
    return td_return(c, a, td_sin(a));
}

/* The second result is computed from the first, of which an inner tensor is written
 * before the store has read it. */
TEST(an_offloaded_inner_tensor_of_a_result_may_be_written_before_backward) {
    td_store_io io = {.put = late_put, .get = late_get, .drop = late_drop};
    for (int k = 0; k < 2; k++) {
        td_ctx     *cx = td_open();
        td_store   *s = td_store_open(cx, "late", &io);
        td_aot_opts o = {TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT,
                         .offload = {.store = s,
                                     .min_bytes = 1,
                                     .filter = TD_SAVED_ALL}};
        td_fn      *f = td_aot_function(cx, shows, NULL, &o);
        td_tensor  *a = td_full(cx, TD_SHAPE(8), 0.3), *y[2];
        td_tensor  *x = td_requires_grad_(make_pair(a, td_clone(a), ""));
        CHECK(td_invoke(f, TD_ARGS(x), y, 2));
        if (k) td_zero_(td_type_inner(y[0], 0));
        CHECK(td_backward_with(TD_LIST(y[1]), TD_LIST(td_ones_like(y[1])), NULL));
        td_tensor *grad = td_type_inner(td_grad_of(x), 0);
        CHECK(fabs(td_item(td_sum(grad)) / (8 * exp(0.3) * cos(exp(0.3))) - 1) < 1e-5);
        CHECK_OK(cx);
        td_fn_drop(f);
        td_close(cx);
    }
}

/* ---- regions ------------------------------------------------------------ */

static bool scaled(td_call *c) {
    return td_return(c, td_tanh(td_mul(td_arg(c, 0), td_arg(c, 1))));
}
static bool closes_over(td_call *c) {
    td_tensor *pair = td_call_env(c);
    return td_return(c, td_mul(td_mul(pair, td_arg(c, 0)), 0.5));
}

/* Operands, a closed-over tensor and results of a type; a plain call between them has
 * the sizes of the others. */
static bool calls_regions(td_call *c) {
    td_ctx        *cx = td_call_ctx(c);
    td_tensor     *a = td_arg(c, 0), *b = td_arg(c, 1), *x, *y, *z;
    td_region_body of = {.body = scaled, .once = true};
    td_region_body over = {.body = closes_over, .env = a};
    bool           ok = td_call_region(cx, of, TD_ARGS(b, b), &x, 1) &&
              td_call_region(cx, of, TD_ARGS(a, x), &y, 1) &&
              td_call_region(cx, of, TD_ARGS(y, x), &y, 1) &&
              td_call_region(cx, over, TD_ARGS(b), &z, 1);
    return ok && td_return(c, td_add(y, z));
}

TEST(regions_take_and_give_tensors_of_a_type) {
    td_ctx *cx = td_open();
    CHECK(agree_with(cx, calls_regions, pair_and_plain, 2, NULL));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- random numbers ----------------------------------------------------- */

static bool drops(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    return td_return(c, td_dropout(td_mul(a, b), 0.5, true));
}

TEST(random_numbers_of_pairs_are_functional) {
    td_ctx     *cx = td_open();
    td_aot_opts o = {TD_AOT_OPTS, .functional_rng = true};
    CHECK(agree_with(cx, drops, pair_and_plain, 1, NULL));
    CHECK(agree_with(cx, drops, pair_and_plain, 1, &o));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- a training step ---------------------------------------------------- */

/* Weights of a type: w <- w - 0.1 * gradient. */
typedef struct model {
    td_tensor *w;
} model;

static bool step(td_call *c) {
    const model *m = td_call_env(c);
    td_tensor   *x = td_arg(c, 0), *g;
    td_tensor   *loss = td_mean(td_pow(td_tanh(td_matmul(x, m->w)), 2.0));
    if (!td_grad(TD_LIST(loss), TD_LIST(m->w), &g, NULL)) return false;
    td_grad_mode was = td_no_grad_begin(td_call_ctx(c));
    td_sub_(m->w, td_mul(g, 0.1));
    td_no_grad_end(td_call_ctx(c), was);
    return td_return(c, td_detach(loss));
}

/* Five steps; the weights afterwards. */
static td_tensor *train(td_ctx *cx, bool compiled, td_tensor *(*make)(td_tensor *w)) {
    td_seed(cx, 3);
    model       m = {td_requires_grad_(make(noise(cx, 4, 3)))};
    td_tensor  *x = noise(cx, 5, 4), *loss;
    td_aot_opts o = {TD_AOT_OPTS, .state = TD_LIST(m.w)};
    td_fn      *f = compiled ? td_aot_step(cx, step, &m, &o) : NULL;
    for (int i = 0; i < 5; i++) {
        td_value v = TD_NONE;
        bool     ok = f ? td_invoke(f, TD_ARGS(x), &loss, 1)
                        : td_call_body(cx, step, &m, TD_ARGS(x), &v, 1) == 1;
        if (!ok) fprintf(stderr, "%s\n", td_message(cx));
        CHECK(ok);
    }
    if (f) CHECK(td_fn_specializations(f) == 1);
    td_fn_drop(f);
    return td_detach(m.w);
}

static td_tensor *twins(td_tensor *w) { return make_pair(w, td_mul(w, 2.0), ""); }

TEST(weights_of_a_type_are_trained_by_a_compiled_step) {
    td_ctx *cx = td_open();
    CHECK(same(train(cx, true, make_int8), train(cx, false, make_int8)));
    CHECK(same(train(cx, true, twins), train(cx, false, twins)));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- a backward as code ------------------------------------------------- */

TEST(a_compiled_backward_takes_histories_of_pairs) {
    td_ctx         *cx = td_open();
    td_backward_fn *with = td_aot_backward(cx, NULL);
    for (int k = 0; k < 3; k++) {
        td_seed(cx, 5);
        td_tensor *x =
            td_requires_grad_(make_pair(noise(cx, 2, 3), noise(cx, 2, 3), ""));
        td_tensor       *y = td_sum(td_mul(td_tanh(x), x)), *first;
        td_backward_opts o = {TD_BACKWARD_OPTS, .retain_graph = true};
        CHECK(td_backward_with(TD_LIST(y), (td_tensors){0}, &o));
        first = td_clone(td_grad_of(x));
        td_zero_grad(x);
        o.with = with;
        CHECK(td_backward_with(TD_LIST(y), (td_tensors){0}, &o));
        CHECK(same(td_grad_of(x), first));
    }
    CHECK_OK(cx);
    td_backward_fn_drop(with);
    td_close(cx);
}

/* ---- text --------------------------------------------------- */

typedef struct held {
    td_tensor *pair;
} held;

static bool multiplies_held(td_call *c) {
    const held *h = td_call_env(c);
    return td_return(c, td_mul(td_arg(c, 0), h->pair));
}

/* It has no elements to print. */
TEST(a_closed_over_tensor_of_a_type_is_printed_as_an_input) {
    td_ctx     *cx = td_open();
    char        text[600];
    held        h = {make_pair(noise(cx, 2, 3), noise(cx, 2, 3), "m")};
    td_program *p = td_capture(cx, multiplies_held, &h, TD_ARGS(noise(cx, 2, 3)));
    CHECK(td_program_text(p, text, sizeof text) < sizeof text);
    CHECK(strstr(text, "%c0: f32[2,3] of pair(\"m\", f32[2,3], f32[2,3])"));
    CHECK(strstr(text, "<const>") && !strstr(text, "tensor(["));
    td_program_drop(p);
    CHECK_OK(cx);
    td_close(cx);
}
