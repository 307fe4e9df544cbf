/* device_ops.c -- times of single ops on a device, at the sizes of a step of GPT-2
 * with 16 x 1024 tokens: `build/bench/device_ops cuda:0`. A line names the op, the
 * time of a call, the bytes that it must move at least in that time, and how many of
 * its calls ran on the host. */
#include "tandem/tandem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROWS = 16384, WIDTH = 768, WORDS = 50257, SOME = 4096 };

/* Operands of the ops below; those of one dtype. */
typedef struct operands {
    td_tensor *x, *wide, *scores, *loss_grad, *weight, *table, *q, *mean, *rstd, *up,
        *image, *filter;
    td_tensor *index, *few_targets, *out, *lse;
} operands;
static operands v;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static td_ints row(void) {
    static const int64_t size[] = {WIDTH};
    return (td_ints){size, 1};
}

static void do_add(void) { td_op_add(v.x, td_value_tensor(v.x), td_value_int(1)); }
static void do_gelu(void) { td_gelu(v.wide, "tanh"); }
static void do_cast(void) {
    td_to(v.wide, td_dtype_of(v.wide) == TD_F32 ? TD_BF16 : TD_F32);
}
static void do_turn(void) { td_contiguous(td_t(v.wide)); }
static void do_norm(void) {
    td_op_native_layer_norm(v.x, row(), v.weight, v.weight, 1e-5, &v.mean, &v.rstd);
}
static void do_norm_grad(void) {
    td_tensor *dw, *db;
    td_op_native_layer_norm_backward(v.x, v.x, row(), v.mean, v.rstd, v.weight,
                                     TD_DIMS(1, 1, 1), &dw, &db);
}
static void do_softmax(void) { td_softmax(v.scores, -1); }
static void do_log_softmax(void) { v.out = td_log_softmax(v.scores, -1); }
static void do_log_softmax_grad(void) {
    td_op__log_softmax_backward_data(v.scores, v.scores, -1, td_dtype_of(v.scores));
}
static void do_cross_entropy(void) { td_cross_entropy(v.scores, v.few_targets); }
static void do_embedding(void) { td_embedding(v.table, v.index); }
static void do_embedding_grad(void) {
    td_op_embedding_dense_backward(v.x, v.index, WORDS, -1, false);
}
static void do_column_sum(void) { td_sum(v.wide, TD_DIMS(0)); }
static void do_row_sum(void) { td_sum(v.wide, TD_DIMS(1)); }
static void do_sum(void) { td_sum(v.wide); }
static void do_size(void) { td_norm(v.wide); }
static void do_dropout(void) { td_dropout(v.wide, 0.1); }
static void do_normal(void) { td_op_normal(v.wide, 0, 1); }
static void do_argmax(void) { td_argmax(v.scores, -1); }
static void do_cumsum(void) { td_cumsum(v.scores, -1); }
static void do_topk(void) {
    td_tensor *at;
    td_op_topk(td_narrow(v.scores, 0, 0, 1), 50, -1, true, true, &at);
}
static void do_cat(void) { td_cat(TD_LIST(v.x, v.x), 1); }
static void do_product(void) { td_mm(v.x, v.up); }
static void do_head(void) { td_mm(v.x, td_t(v.table)); }
static void do_head_grad(void) { td_mm(td_t(v.scores), td_narrow(v.x, 0, 0, SOME)); }
static void do_attention(void) {
    v.out = td_op__flash_attention(v.q, v.q, v.q, NULL, true, 0.125, &v.lse);
}
static void do_attention_grad(void) {
    td_tensor *dk, *dv;
    td_op__flash_attention_backward(v.q, v.q, v.q, v.q, NULL, v.out, v.lse, NULL, true,
                                    0.125, &dk, &dv);
}

static void do_conv(void) {
    td_convolution(v.image, v.filter, NULL, TD_DIMS(1, 1), TD_DIMS(1, 1), TD_DIMS(1, 1),
                   false, TD_DIMS(0, 0), 1);
}
static void do_conv_grad(void) {
    td_op_conv_data_grad(v.image, v.filter, TD_DIMS(64, 128, 56, 56), TD_DIMS(1, 1),
                         TD_DIMS(1, 1), TD_DIMS(1, 1), 1);
    td_op_conv_weight_grad(v.image, v.image, TD_DIMS(128, 128, 3, 3), TD_DIMS(1, 1),
                           TD_DIMS(1, 1), TD_DIMS(1, 1), 1);
}
static void do_max_pool(void) { td_max_pool2d(v.image, TD_DIMS(2)); }
static void do_batch_norm(void) {
    td_batch_norm(v.image, NULL, NULL, NULL, NULL, true);
}

/* An op, and how many bytes it moves, as multiples of the elements of x, wide,
 * scores and of the table. */
static const struct {
    const char *name;
    void (*run)(void);
    int x, wide, scores, table;
} ops[] = {{"add 16384 x 768", do_add, 3, 0, 0, 0},
           {"gelu 16384 x 3072", do_gelu, 0, 2, 0, 0},
           {"cast 16384 x 3072", do_cast, 0, 2, 0, 0},
           {"transposed copy 16384 x 3072", do_turn, 0, 2, 0, 0},
           {"layer norm 16384 x 768", do_norm, 2, 0, 0, 0},
           {"layer norm backward", do_norm_grad, 3, 0, 0, 0},
           {"softmax 4096 x 50257", do_softmax, 0, 0, 2, 0},
           {"log_softmax", do_log_softmax, 0, 0, 2, 0},
           {"log_softmax backward", do_log_softmax_grad, 0, 0, 3, 0},
           {"cross entropy 4096 x 50257", do_cross_entropy, 0, 0, 2, 0},
           {"embedding 16384 of 50257 x 768", do_embedding, 2, 0, 0, 0},
           {"embedding backward", do_embedding_grad, 1, 0, 0, 1},
           {"sum of columns 16384 x 3072", do_column_sum, 0, 1, 0, 0},
           {"sum of rows", do_row_sum, 0, 1, 0, 0},
           {"sum of all", do_sum, 0, 1, 0, 0},
           {"norm of all", do_size, 0, 1, 0, 0},
           {"dropout", do_dropout, 0, 2, 0, 0},
           {"normal", do_normal, 0, 1, 0, 0},
           {"argmax of rows 4096 x 50257", do_argmax, 0, 0, 1, 0},
           {"cumsum of rows", do_cumsum, 0, 0, 2, 0},
           {"topk 50 of 50257", do_topk, 0, 0, 0, 0},
           {"cat of two 16384 x 768", do_cat, 4, 0, 0, 0},
           {"product 16384 x 768 x 3072", do_product, 1, 1, 0, 0},
           {"product 16384 x 768 x 50257", do_head, 1, 0, 4, 1},
           {"product 50257 x 4096 x 768", do_head_grad, 0, 0, 1, 1},
           {"convolution 3 x 3 of 64 x 128 x 56 x 56", do_conv, 0, 1, 0, 0},
           {"its gradients", do_conv_grad, 0, 2, 0, 0},
           {"max pool 2 x 2", do_max_pool, 0, 0, 0, 0},
           {"batch norm", do_batch_norm, 0, 1, 0, 0},
           {"attention 16 x 12 x 1024 x 64", do_attention, 4, 0, 0, 0},
           {"attention backward", do_attention_grad, 8, 0, 0, 0}};

static td_tensor *normal(td_ctx *cx, td_dtype dt, td_ints size) {
    return td_to(td_randn(cx, size), dt);
}

static void prepare(td_ctx *cx, td_dtype dt) {
    memset(&v, 0, sizeof v);
    v.x = normal(cx, dt, TD_DIMS(ROWS, WIDTH));
    v.wide = normal(cx, dt, TD_DIMS(ROWS, 4 * WIDTH));
    v.scores = normal(cx, dt, TD_DIMS(SOME, WORDS));
    v.weight = normal(cx, dt, TD_DIMS(WIDTH));
    v.table = normal(cx, dt, TD_DIMS(WORDS, WIDTH));
    v.up = normal(cx, dt, TD_DIMS(WIDTH, 4 * WIDTH));
    v.image = normal(cx, dt, TD_DIMS(64, 128, 56, 56));
    v.filter = normal(cx, dt, TD_DIMS(128, 128, 3, 3));
    v.q = normal(cx, dt, TD_DIMS(16, 12, 1024, 64));
    v.index = td_randint(cx, 0, WORDS, TD_DIMS(ROWS));
    v.few_targets = td_randint(cx, 0, WORDS, TD_DIMS(SOME));
    do_norm();
    do_attention();
}

/* False: the device failed, and nothing more will run there. */
static bool measure(td_ctx *cx, td_device dev, size_t i, td_dtype dt) {
    td_device_counts before, after;
    double           best = 1e9, start;
    operands         was = v; /* results are of the scope of a round */
    for (int n = 0; n < 4 && td_ok(cx); n++) {
        td_scope_begin(cx, "op");
        td_device_sync(cx, dev);
        td_device_counters(cx, dev, &before);
        start = now();
        for (int k = 0; k < 5; k++) ops[i].run();
        td_device_sync(cx, dev);
        double took = (now() - start) / 5;
        td_device_counters(cx, dev, &after);
        if (n > 0 && took < best) best = took;
        td_scope_end(cx, "op", NULL);
        v = was;
        if (n > 0 && took > 0.2) break;
    }
    double elements =
        (double)ops[i].x * ROWS * WIDTH + (double)ops[i].wide * ROWS * 4 * WIDTH +
        (double)ops[i].scores * SOME * WORDS + (double)ops[i].table * WORDS * WIDTH;
    double bytes = elements * (dt == TD_F32 ? 4 : 2);
    printf("%-6s %-34s %10.1f us %8.0f GB/s  host %llu\n", td_dtype_name(dt),
           ops[i].name, 1e6 * best, bytes / best * 1e-9,
           (unsigned long long)(after.on_host - before.on_host));
    fflush(stdout);
    if (!td_ok(cx)) printf("       %s\n", td_message(cx));
    td_clear(cx);
    return td_device_sync(cx, dev);
}

/* The largest difference, as a part of the largest element. */
static double apart(td_tensor *a, td_tensor *b) {
    td_tensor *wide = td_to(b, TD_F32), *d = td_abs(td_sub(td_to(a, TD_F32), wide));
    return td_item(td_max(d)) / td_item(td_max(td_abs(wide)));
}

/* Attention of halves, which a library computes, beside that of f32. */
static void compare_attention(td_ctx *cx, td_dtype dt, bool causal) {
    td_tensor *x[4], *wide[4], *r[5], *e[5];
    for (int i = 0; i < 4; i++) {
        x[i] = td_to(td_randn(cx, TD_SHAPE(2, 3, 160, 64)), dt);
        wide[i] = td_to(x[i], TD_F32);
    }
    for (int k = 0; k < 2; k++) {
        td_tensor **in = k ? wide : x, **to = k ? e : r;
        to[0] =
            td_op__flash_attention(in[0], in[1], in[2], NULL, causal, 0.125, &to[1]);
        to[2] =
            td_op__flash_attention_backward(in[3], in[0], in[1], in[2], NULL, to[0],
                                            to[1], NULL, causal, 0.125, &to[3], &to[4]);
    }
    printf("attention %s%s, beside f32: out %.2g, lse %.2g, gradients %.2g %.2g %.2g\n",
           td_dtype_name(dt), causal ? " causal" : "", apart(r[0], e[0]),
           apart(r[1], e[1]), apart(r[2], e[2]), apart(r[3], e[3]), apart(r[4], e[4]));
    fflush(stdout);
    if (!td_ok(cx)) printf("%s\n", td_message(cx));
    td_clear(cx);
}

/* `device_ops DEVICE [FIRST]`: from entry FIRST on, of both dtypes counted through.
 * After a failure of the device it says where to go on, and its status is 3. */
int main(int argc, char **argv) {
    static const td_dtype dtypes[] = {TD_BF16, TD_F32};
    size_t    n = sizeof ops / sizeof *ops, at = argc > 2 ? (size_t)atoi(argv[2]) : 0;
    td_ctx   *cx = td_open();
    td_device dev = {TD_CPU, 0};
    bool      ok = true;
    if (argc > 1 && !td_device_parse(argv[1], &dev)) return 2;
    td_set_default_device(cx, dev);
    td_no_grad_begin(cx);
    for (int i = 0; i < 4 && at == 0; i++)
        compare_attention(cx, i / 2 ? TD_F16 : TD_BF16, i % 2);
    for (; ok && at < 2 * n; at = (at / n + 1) * n) {
        td_scope_begin(cx, "dtype");
        prepare(cx, dtypes[at / n]);
        for (size_t end = (at / n + 1) * n; ok && at < end; at++)
            ok = measure(cx, dev, at % n, dtypes[at / n]);
        at -= 1;
        td_scope_end(cx, "dtype", NULL);
    }
    if (!ok) printf("go on at %zu\n", at + 1);
    td_close(cx);
    return ok ? 0 : 3;
}
