/* eager_bench.c -- what one eager op costs: small calls, where overhead counts,
 * and 16 MiB calls, where memory does, on one and two threads. bench/peer_torch.py
 * prints the same names for PyTorch. Arguments choose the figures whose names
 * contain one of them; none: all. */
#include "bench.h"

#include <string.h>
#include <tandem/tandem.h>

typedef struct env {
    td_ctx    *cx;
    td_tensor *x, *y, *w, *b, *col, *cube, *index, *mean, *rstd;
} env;

static char **chosen;

static void measure(const char *name, bench_fn *fn, env *e, double units,
                    const char *unit) {
    bool wanted = !*chosen;
    for (char **c = chosen; *c && !wanted; c++) wanted = strstr(name, *c) != NULL;
    if (wanted) bench_print(name, units * bench_time(fn, e), unit);
}

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
    env e = {.cx = cx,
             .x = td_randn(cx, TD_SHAPE(64)),
             .y = td_randn(cx, TD_SHAPE(64))};
    measure("add_64", add_small, &e, 1e6, "us");
    td_set_requires_grad(e.x, true);
    measure("add_64_tape", add_small, &e, 1e6, "us");
    e.w = td_set_requires_grad(td_randn(cx, TD_SHAPE(64)), true);
    measure("tanh_64_forward_backward", tanh_step, &e, 1e6, "us");
    td_scope_end(cx, "small", NULL);
}

/* ---- 16 MiB calls ------------------------------------------------------- */

#define LARGE(name, expr)                      \
    static void name(void *p, long reps) {     \
        env *e = p;                            \
        for (long i = 0; i < reps; i++) {      \
            td_scope_begin(e->cx, "step");     \
            (void)(expr);                      \
            td_scope_end(e->cx, "step", NULL); \
        }                                      \
    }
static td_tensor *layer_norm_grads(env *e) {
    td_tensor *dw, *db;
    return td_op_native_layer_norm_backward(e->y, e->x, TD_SHAPE(2048), e->mean,
                                            e->rstd, e->w, TD_SHAPE(1, 1, 1), &dw, &db);
}

LARGE(add_large, td_add(e->x, e->y))
LARGE(add_row_large, td_add(e->x, e->w))
LARGE(add_column_large, td_add(e->x, e->col))
LARGE(mul_number_large, td_mul(e->x, 2.5))
LARGE(relu_large, td_relu(e->x))
LARGE(exp_large, td_exp(e->x))
LARGE(tanh_large, td_tanh(e->x))
LARGE(sigmoid_large, td_sigmoid(e->x))
LARGE(gelu_large, td_gelu(e->x))
LARGE(gelu_backward_large, td_op_gelu_backward(e->x, e->y, "none"))
LARGE(add_transposed_large, td_add(td_t(e->x), e->y))
LARGE(mul_number_transposed_large, td_mul(td_t(e->x), 2.5))
LARGE(copy_transposed_large, td_contiguous(td_t(e->x)))
LARGE(sum_all_large, td_sum(e->x))
LARGE(sum_rows_large, td_sum(e->x, TD_DIMS(1)))
LARGE(sum_columns_large, td_sum(e->x, TD_DIMS(0)))
LARGE(sum_middle_large, td_sum(e->cube, TD_DIMS(1)))
LARGE(max_rows_large, td_amax(e->x, TD_DIMS(1)))
LARGE(max_columns_large, td_amax(e->x, TD_DIMS(0)))
LARGE(argmax_rows_large, td_argmax(e->x, 1))
LARGE(cumsum_rows_large, td_cumsum(e->x, 1))
LARGE(softmax_rows_large, td_softmax(e->x, -1))
LARGE(softmax_columns_large, td_softmax(e->x, 0))
LARGE(softmax_backward_large, td__softmax_backward_data(e->x, e->y, 1, TD_F32))
LARGE(layer_norm_rows_large, td_layer_norm(e->x, TD_SHAPE(2048), e->w, e->b))
LARGE(layer_norm_backward_large, layer_norm_grads(e))
LARGE(embedding_large, td_embedding(e->x, e->index))
LARGE(cat_large, td_cat(TD_LIST(e->x, e->y), 1))
LARGE(select_columns_large, td_index_select(e->x, 1, e->index))
LARGE(roll_columns_large, td_roll(e->x, TD_SHAPE(5), TD_DIMS(1)))
LARGE(flip_columns_large, td_flip(e->x, TD_DIMS(1)))
LARGE(nonzero_large, td_nonzero(e->x))

static const struct {
    const char *name;
    bench_fn   *fn;
} large[] = {
    {"add", add_large},
    {"add_row", add_row_large},
    {"add_column", add_column_large},
    {"mul_number", mul_number_large},
    {"relu", relu_large},
    {"exp", exp_large},
    {"tanh", tanh_large},
    {"sigmoid", sigmoid_large},
    {"gelu", gelu_large},
    {"gelu_backward", gelu_backward_large},
    {"add_transposed", add_transposed_large},
    {"mul_number_transposed", mul_number_transposed_large},
    {"copy_transposed", copy_transposed_large},
    {"sum_all", sum_all_large},
    {"sum_rows", sum_rows_large},
    {"sum_columns", sum_columns_large},
    {"sum_middle", sum_middle_large},
    {"max_rows", max_rows_large},
    {"max_columns", max_columns_large},
    {"argmax_rows", argmax_rows_large},
    {"cumsum_rows", cumsum_rows_large},
    {"softmax_rows", softmax_rows_large},
    {"softmax_columns", softmax_columns_large},
    {"softmax_backward", softmax_backward_large},
    {"layer_norm_rows", layer_norm_rows_large},
    {"layer_norm_backward", layer_norm_backward_large},
    {"embedding", embedding_large},
    {"cat", cat_large},
    {"index_select_columns", select_columns_large},
    {"roll_columns", roll_columns_large},
    {"flip_columns", flip_columns_large},
    {"nonzero", nonzero_large},
};

static void bench_large(td_ctx *cx, int threads) {
    td_scope_begin(cx, "large");
    td_set_threads(threads);
    env e = {.cx = cx,
             .x = td_randn(cx, TD_SHAPE(2048, 2048)),
             .y = td_randn(cx, TD_SHAPE(2048, 2048)),
             .w = td_randn(cx, TD_SHAPE(2048)),
             .b = td_randn(cx, TD_SHAPE(2048)),
             .col = td_randn(cx, TD_SHAPE(2048, 1)),
             .cube = td_randn(cx, TD_SHAPE(64, 256, 256)),
             .index = td_randint(cx, 0, 2048, TD_SHAPE(2048))};
    td_op_native_layer_norm(e.x, TD_SHAPE(2048), e.w, e.b, 1e-5, &e.mean, &e.rstd);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        char name[80];
        snprintf(name, sizeof name, "%s_16MiB_%dt", large[i].name, threads);
        measure(name, large[i].fn, &e, 1e3, "ms");
    }
    td_scope_end(cx, "large", NULL);
}

/* ---- attention ---------------------------------------------------------- */

/* Twelve heads of 64, cut out of a packed [1,T,3*768], causal. */
LARGE(attention_forward,
      td_scaled_dot_product_attention(e->x, e->y, e->w, NULL, 0.0, true))

static void attention_step(void *p, long reps) {
    env *e = p;
    for (long i = 0; i < reps; i++) {
        td_scope_begin(e->cx, "step");
        td_tensor *y =
            td_scaled_dot_product_attention(e->x, e->y, e->w, NULL, 0.0, true);
        td_backward_with(TD_LIST(y), TD_LIST(e->b), NULL);
        td_zero_grad(e->x), td_zero_grad(e->y), td_zero_grad(e->w);
        td_scope_end(e->cx, "step", NULL);
    }
}

static td_tensor *heads_of(td_tensor *packed, int which) {
    td_tensor *t = td_slice(packed, 2, 768 * which, 768 * (which + 1));
    t = td_reshape(t, TD_SHAPE(1, td_size(packed, 1), 12, 64));
    return td_detach(td_transpose(t, 1, 2));
}

static void bench_attention(td_ctx *cx, int threads) {
    td_set_threads(threads);
    for (int64_t t = 64; t <= 1024; t *= 4) {
        char name[80];
        td_scope_begin(cx, "attention");
        td_tensor *packed = td_randn(cx, TD_SHAPE(1, t, 3 * 768));
        env        e = {.cx = cx,
                        .x = heads_of(packed, 0),
                        .y = heads_of(packed, 1),
                        .w = heads_of(packed, 2)};
        e.b = td_transpose(td_randn(cx, TD_SHAPE(1, t, 12, 64)), 1, 2);
        snprintf(name, sizeof name, "attention_%d_%dt", (int)t, threads);
        measure(name, attention_forward, &e, 1e6, "us");
        td_set_requires_grad(e.x, true);
        td_set_requires_grad(e.y, true);
        td_set_requires_grad(e.w, true);
        snprintf(name, sizeof name, "attention_%d_step_%dt", (int)t, threads);
        measure(name, attention_step, &e, 1e6, "us");
        td_scope_end(cx, "attention", NULL);
    }
}

/* ---- memory ------------------------------------------------------------- */

/* One training step of a 4-layer perceptron, width 1024, batch 256: the most bytes
 * held at once beyond what was there before. */
#define LAYERS 4
#define WIDTH 1024

static td_tensor *layer(td_ctx *cx, td_tensor *x, td_tensor *w, td_tensor *b,
                        bool last) {
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
    td_tensor *x = td_randn(cx, TD_SHAPE(256, WIDTH)),
              *y = td_randn(cx, TD_SHAPE(256, WIDTH));
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
            bench_print("mlp_step_peak", (double)(td_memory_peak() - before) / 1048576,
                        "MiB");
        for (int i = 0; i < LAYERS; i++) td_zero_grad(w[i]), td_zero_grad(b[i]);
    }
    td_scope_end(cx, "memory", NULL);
}

int main(int argc, char **argv) {
    (void)argc;
    chosen = argv + 1;
    td_ctx *cx = td_open();
    if (!cx) return fprintf(stderr, "no memory\n"), 1;
    td_set_threads(1);
    bench_small(cx);
    bench_large(cx, 1);
    bench_large(cx, 2);
    bench_attention(cx, 1);
    bench_attention(cx, 2);
    if (!*chosen) bench_memory(cx);
    bool ok = td_ok(cx);
    if (!ok) fprintf(stderr, "%s\n", td_message(cx));
    td_close(cx);
    return ok ? 0 : 1;
}
