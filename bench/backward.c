/* backward.c -- an eager network, forward op by op: its backward by the engine and as
 * compiled code (td_aot_backward), in turn, so that both meet the same machine; and the
 * same with a hook at one layer, and at each. */
#include "bench.h"

#include <tandem/tandem.h>

enum { LAYERS = 6, ROUNDS = 7 };

typedef struct job {
    td_ctx         *cx;
    td_tensor      *x, *w[LAYERS];
    td_backward_fn *with;
    int             hooks; /* layers that have one */
    double          back;  /* seconds of backwards */
} job;

static td_tensor *looks(void *env, td_tensor *g) {
    (void)env, (void)g;
    return NULL;
}

/* A step: products, a pointwise chain between them, a loss. */
static void steps(job *j, long reps) {
    for (long i = 0; i < reps; i++) {
        td_scope_begin(j->cx, NULL);
        td_tensor *h = j->x;
        for (int k = 0; k < LAYERS; k++) {
            h = td_mul(td_sigmoid(td_tanh(td_matmul(h, j->w[k]))), 1.5);
            if (k < j->hooks) td_on_grad(h, looks, NULL);
        }
        td_tensor *loss = td_mean(td_mul(h, h));
        double     start = bench_now();
        td_backward_with(TD_LIST(loss), (td_tensors){0},
                         &(td_backward_opts){TD_BACKWARD_OPTS, .with = j->with});
        j->back += bench_now() - start;
        for (int k = 0; k < LAYERS; k++) td_zero_grad(j->w[k]);
        td_scope_end(j->cx, NULL, NULL);
    }
}

/* The least time of a backward in any round. */
static double least(job *j, td_backward_fn *with, long reps, double best) {
    j->with = with;
    j->back = 0;
    steps(j, reps);
    double t = j->back / (double)reps;
    return t < best ? t : best;
}

static void measure_with(job *j, int hooks, long size, long reps) {
    static const char *const names[] = {"backward_ratio", "backward_hook_ratio",
                                        "backward_hooks_ratio"};
    td_backward_fn          *with = td_aot_backward(j->cx, NULL);
    double                   engine = 1e9, code = 1e9;
    j->hooks = hooks;
    least(j, with, 1, 0); /* compiles */
    for (int i = 0; i < ROUNDS; i++) {
        engine = least(j, NULL, reps, engine);
        code = least(j, with, reps, code);
    }
    bench_print_at(names[hooks < 2 ? hooks : 2], "tandem", size, engine / code, "x");
    if (!hooks) {
        bench_print_at("backward_us", "tandem_eager", size, 1e6 * engine, "us");
        bench_print_at("backward_us", "tandem", size, 1e6 * code, "us");
    }
    td_backward_fn_drop(with);
}

static void measure(td_ctx *cx, long rows, long width) {
    td_scope_begin(cx, NULL);
    job  j = {.cx = cx, .x = td_randn(cx, TD_SHAPE(rows, width))};
    long reps = 1 + 2000000 / (rows * width * width + 10000);
    for (int k = 0; k < LAYERS; k++)
        j.w[k] = td_requires_grad_(td_mul(td_randn(cx, TD_SHAPE(width, width)), 0.1));
    measure_with(&j, 0, rows * width, reps);
    measure_with(&j, 1, rows * width, reps);
    measure_with(&j, LAYERS, rows * width, reps);
    td_scope_end(cx, NULL, NULL);
}

int main(void) {
    td_ctx *cx = td_open();
    if (!cx) return 1;
    measure(cx, 4, 8);
    measure(cx, 32, 32);
    measure(cx, 128, 64);
    measure(cx, 512, 64);
    bool ok = td_ok(cx);
    if (!ok) fprintf(stderr, "backward: %s\n", td_message(cx));
    td_close(cx);
    return !ok;
}
