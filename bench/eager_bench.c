/* eager_bench.c -- what one eager op costs: small calls, where overhead counts,
 * and 16 MiB calls, where memory does, on one and two threads. bench/peer_torch.py
 * prints the same names for PyTorch. */
#include "bench.h"

#include <string.h>
#include <tandem/tandem.h>

typedef struct env {
    td_ctx    *cx;
    td_tensor *x, *y, *w, *b;
} env;

/* ---- small calls -------------------------------------------------------- */

static void add_small(void *p, long reps) {
    env *e = p;
    for (long i = 0; i < reps; i++) {
        td_scope_begin(e->cx, "step");
        td_add(e->x, e->y);
        td_scope_end(e->cx, "step", NULL);
    }
}

static void tanh_step(void *p, long reps) {
    env *e = p;
    for (long i = 0; i < reps; i++) {
        td_scope_begin(e->cx, "step");
        td_backward(td_sum(td_tanh(td_add(td_mul(e->x, e->w), 1.0))));
        td_zero_grad(e->w);
        td_zero_grad(e->x);
        td_scope_end(e->cx, "step", NULL);
    }
}

static void bench_small(td_ctx *cx) {
    td_scope_begin(cx, "small");
    env e = {.cx = cx, .x = td_randn(cx, TD_SHAPE(64)), .y = td_randn(cx, TD_SHAPE(64))};
    bench_print("add_64", 1e6 * bench_time(add_small, &e), "us");
    td_set_requires_grad(e.x, true);
    bench_print("add_64_tape", 1e6 * bench_time(add_small, &e), "us");
    e.w = td_set_requires_grad(td_randn(cx, TD_SHAPE(64)), true);
    bench_print("tanh_64_forward_backward", 1e6 * bench_time(tanh_step, &e), "us");
    td_scope_end(cx, "small", NULL);
}

/* ---- 16 MiB calls ------------------------------------------------------- */

#define LARGE(name, expr)                         \
    static void name(void *p, long reps) {        \
        env *e = p;                               \
        for (long i = 0; i < reps; i++) {         \
            td_scope_begin(e->cx, "step");        \
            (void)(expr);                         \
            td_scope_end(e->cx, "step", NULL);    \
        }                                         \
    }
LARGE(add_large, td_add(e->x, e->y))
LARGE(mul_number, td_mul(e->x, 2.5))
LARGE(exp_large, td_exp(e->x))
LARGE(tanh_large, td_tanh(e->x))
LARGE(gelu_large, td_gelu(e->x))
LARGE(add_transposed, td_add(td_t(e->x), e->y))
LARGE(copy_transposed, td_contiguous(td_t(e->x)))
LARGE(sum_all, td_sum(e->x))
LARGE(sum_rows, td_sum(e->x, TD_DIMS(1)))
LARGE(sum_columns, td_sum(e->x, TD_DIMS(0)))
LARGE(max_rows, td_amax(e->x, TD_DIMS(1)))
LARGE(softmax_rows, td_softmax(e->x, -1))
LARGE(layer_norm_rows, td_layer_norm(e->x, TD_SHAPE(2048), e->w, e->b))

static const struct {
    const char *name;
    bench_fn   *fn;
} large[] = {
    {"add", add_large},           {"mul_number", mul_number},
    {"exp", exp_large},           {"tanh", tanh_large},
    {"gelu", gelu_large},         {"add_transposed", add_transposed},
    {"copy_transposed", copy_transposed}, {"sum_all", sum_all},
    {"sum_rows", sum_rows},       {"sum_columns", sum_columns},
    {"max_rows", max_rows},       {"softmax_rows", softmax_rows},
    {"layer_norm_rows", layer_norm_rows},
};

static void bench_large(td_ctx *cx, int threads) {
    td_scope_begin(cx, "large");
    td_set_threads(threads);
    env e = {.cx = cx, .x = td_randn(cx, TD_SHAPE(2048, 2048)),
             .y = td_randn(cx, TD_SHAPE(2048, 2048)), .w = td_randn(cx, TD_SHAPE(2048)),
             .b = td_randn(cx, TD_SHAPE(2048))};
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s_16MiB_%dt", large[i].name, threads);
        bench_print(name, 1e3 * bench_time(large[i].fn, &e), "ms");
    }
    td_scope_end(cx, "large", NULL);
}

/* ---- memory ------------------------------------------------------------- */

/* One training step of a 4-layer perceptron, width 1024, batch 256: the most bytes
 * held at once beyond what was there before. */
#define LAYERS 4
#define WIDTH 1024

static td_tensor *layer(td_ctx *cx, td_tensor *x, td_tensor *w, td_tensor *b, bool last) {
    td_scope_begin(cx, "layer");
    td_tensor *h = td_linear(x, w, b);
    if (!last) h = td_relu(h);
    return td_scope_end(cx, "layer", h);
}

static void bench_memory(td_ctx *cx) {
    td_tensor *w[LAYERS], *b[LAYERS];
    td_scope_begin(cx, "memory");
    for (int i = 0; i < LAYERS; i++) {
        w[i] = td_set_requires_grad(td_randn(cx, TD_SHAPE(WIDTH, WIDTH)), true);
        b[i] = td_set_requires_grad(td_randn(cx, TD_SHAPE(WIDTH)), true);
    }
    td_tensor *x = td_randn(cx, TD_SHAPE(256, WIDTH)), *y = td_randn(cx, TD_SHAPE(256, WIDTH));
    for (int step = 0; step < 2; step++) { /* the second has gradients to replace */
        size_t before = td_memory_live();
        td_memory_peak_reset();
        td_scope_begin(cx, "step");
        td_tensor *h = x;
        for (int i = 0; i < LAYERS; i++) {
            td_tensor *next = layer(cx, h, w[i], b[i], i == LAYERS - 1);
            if (h != x) td_drop(h);
            h = next;
        }
        td_tensor *loss = td_mse_loss(h, y);
        td_drop(h);
        td_backward(loss);
        td_scope_end(cx, "step", NULL);
        if (step == 0)
            bench_print("mlp_step_peak", (double)(td_memory_peak() - before) / 1048576, "MiB");
        for (int i = 0; i < LAYERS; i++) td_zero_grad(w[i]), td_zero_grad(b[i]);
    }
    td_scope_end(cx, "memory", NULL);
}

int main(void) {
    td_ctx *cx = td_open();
    if (!cx) return fprintf(stderr, "no memory\n"), 1;
    td_set_threads(1);
    bench_small(cx);
    bench_large(cx, 1);
    bench_large(cx, 2);
    bench_memory(cx);
    bool ok = td_ok(cx);
    if (!ok) fprintf(stderr, "%s\n", td_message(cx));
    td_close(cx);
    return ok ? 0 : 1;
}
