/* gpu.c -- compiled code on a device: a training step of GPT-2 124M in bf16 (autocast)
 * with AdamW, a small network, and a function of 64 elements.
 *
 *     gpu DEVICE [gpt2 BATCH LENGTH [eager] | tiny | mlp | small]
 *
 * tiny is a GPT-2 of two layers, whose losses show whether both ways train alike.
 *
 * One JSON line per figure, as bench/peer_gpu.py prints them for PyTorch. */
#include "../examples/gpt2/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem/nn.h>
#include <tandem/optim.h>
#include <tandem/tandem.h>
#include <time.h>

typedef struct job {
    td_ctx    *cx;
    td_device  dev;
    td_module *net;
    td_optim  *opt;
    td_tensor *x, *y;
    int64_t    classes;
    bool       half; /* bf16 where autocast says so */
    td_fn     *f;    /* NULL: eagerly */
} job;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void show(const job *j, const char *name, const char *who, double value,
                 const char *unit) {
    if (!td_ok(j->cx)) return; /* what was measured is no figure */
    printf("{\"name\": \"%s\", \"who\": \"%s\", \"value\": %.4g, \"unit\": \"%s\"}\n",
           name, who, value, unit);
    fflush(stdout);
}

/* ---- training steps ------------------------------------------------------ */

static td_tensor *loss_of(job *j, td_tensor *x, td_tensor *y) {
    td_autocast_mode was = {0};
    if (j->half) was = td_autocast_begin(j->cx, TD_BF16);
    td_tensor *out = td_module_call(j->net, TD_ARGS(x));
    td_tensor *loss = td_cross_entropy(td_reshape(out, TD_SHAPE(-1, j->classes)),
                                       td_reshape(y, TD_SHAPE(-1)));
    if (j->half) td_autocast_end(j->cx, was);
    return loss;
}

static bool step(td_call *c) {
    job       *j = td_call_env(c);
    td_tensor *loss = loss_of(j, td_arg(c, 0), td_arg(c, 1));
    if (!td_backward(loss) || !td_optim_step(j->opt)) return false;
    td_optim_zero_grad(j->opt);
    return td_return(c, loss);
}

/* One step; its loss if `read`, which waits for the device. */
static double take_step(job *j, bool read) {
    td_tensor *loss = NULL;
    td_value   out = TD_NONE;
    double     is = 0;
    td_scope_begin(j->cx, NULL);
    if (j->f) td_invoke(j->f, TD_ARGS(j->x, j->y), &loss, 1);
    else if (td_call_body(j->cx, step, j, TD_ARGS(j->x, j->y), &out, 1)) loss = out.u.t;
    if (read && loss) is = td_item(loss);
    td_scope_end(j->cx, NULL, NULL);
    return is;
}

/* Seconds of a step: the best of three rounds. */
static double seconds(job *j, int n) {
    double best = 1e9;
    for (int round = 0; round < 3; round++) {
        td_device_sync(j->cx, j->dev);
        double start = now();
        for (int i = 0; i < n; i++) take_step(j, false);
        td_device_sync(j->cx, j->dev);
        double took = (now() - start) / n;
        if (took < best) best = took;
    }
    return best;
}

static void show_counts(job *j, const char *who, const td_device_counts *was) {
    td_device_counts n;
    if (!td_device_counters(j->cx, j->dev, &n)) return;
    printf(
        "# %s: launches %llu, on the host %llu, to the host %llu, to the device %llu, "
        "kernels built %llu, peak %.0f MiB\n",
        who, (unsigned long long)(n.launches - was->launches),
        (unsigned long long)(n.on_host - was->on_host),
        (unsigned long long)(n.to_host - was->to_host),
        (unsigned long long)(n.to_device - was->to_device),
        (unsigned long long)(n.kernels_built - was->kernels_built),
        (double)n.peak / 0x1p20);
}

/* The first losses, then times. */
static void measure(job *j, const char *name, const char *who, int n) {
    td_device_counts was;
    double           start = now();
    printf("# %s %s: losses", name, who);
    for (int i = 0; i < 5; i++) {
        td_device_counters(j->cx, j->dev, &was);
        double loss = take_step(j, true);
        printf(i ? " %.6f" : " %.6f (after %.1f s)", loss, now() - start);
        fflush(stdout);
    }
    printf("\n");
    show_counts(j, who, &was);
    show(j, name, who, 1e3 * seconds(j, n), "ms");
}

static void train(job *j, const char *name, int n, bool eager) {
    td_aot_opts o = {TD_AOT_OPTS, .module = j->net};
    j->opt = td_optim_module(j->net, td_adamw(1e-4));
    if (eager) measure(j, name, "tandem_eager", n);
    j->f = td_aot_step(j->cx, step, j, &o);
    if (td_ok(j->cx)) measure(j, name, "tandem", n);
    td_fn_drop(j->f);
    td_optim_free(j->opt);
    td_module_free(j->net);
}

static void train_gpt2(job *j, gpt2_sizes sizes, int64_t batch, int64_t length,
                       bool eager) {
    char name[64];
    snprintf(name, sizeof name, "cuda_gpt2_%dx%d_bf16", (int)batch, (int)length);
    td_seed(j->cx, 1);
    j->half = true;
    j->net = gpt2_make(j->cx, sizes);
    j->classes = sizes.vocab;
    j->x = td_randint(j->cx, 0, j->classes, TD_SHAPE(batch, length));
    j->y = td_randint(j->cx, 0, j->classes, TD_SHAPE(batch, length));
    train(j, name, 5, eager);
}

static void train_tiny(job *j) {
    static const gpt2_sizes tiny = {1027, 64, 2, 2, 64}; /* its head is padded */
    for (int compiled = 0; compiled < 2; compiled++) {
        td_seed(j->cx, 1);
        j->half = true;
        j->net = gpt2_make(j->cx, tiny);
        j->classes = tiny.vocab;
        j->x = td_randint(j->cx, 0, j->classes, TD_SHAPE(4, 64));
        j->y = td_randint(j->cx, 0, j->classes, TD_SHAPE(4, 64));
        j->opt = td_optim_module(j->net, td_adamw(1e-3));
        td_aot_opts o = {TD_AOT_OPTS, .module = j->net};
        j->f = compiled ? td_aot_step(j->cx, step, j, &o) : NULL;
        measure(j, "cuda_gpt2_tiny_bf16", compiled ? "tandem" : "tandem_eager", 3);
        td_fn_drop(j->f);
        td_optim_free(j->opt);
        td_module_free(j->net);
    }
}

static void train_mlp(job *j) {
    j->net = td_nn_sequential(j->cx, (td_modules){NULL, 0});
    for (int i = 0; i < 4; i++) {
        td_nn_append(j->net, td_nn_linear(j->cx, 256, 256, NULL));
        if (i < 3) td_nn_append(j->net, td_nn_gelu(j->cx));
    }
    j->classes = 256;
    j->x = td_randn(j->cx, TD_SHAPE(64, 256));
    j->y = td_randint(j->cx, 0, 256, TD_SHAPE(64));
    train(j, "cuda_mlp_64x256x4", 200, true);
}

/* ---- a function of 64 elements ------------------------------------------- */

static bool small(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_add(td_mul(td_tanh(x), td_sigmoid(x)), td_sin(x)));
}

static void measure_small(job *j) {
    td_tensor *x = td_randn(j->cx, TD_SHAPE(64)), *y;
    td_fn     *f = td_aot_function(j->cx, small, j, NULL);
    for (int compiled = 0; compiled < 2; compiled++) {
        double best = 1e9;
        for (int round = 0; round < 4; round++) {
            td_device_sync(j->cx, j->dev);
            double start = now();
            for (int i = 0; i < 2000; i++) {
                td_value out = TD_NONE;
                td_scope_begin(j->cx, NULL);
                if (compiled) td_invoke(f, TD_ARGS(x), &y, 1);
                else td_call_body(j->cx, small, j, TD_ARGS(x), &out, 1);
                td_scope_end(j->cx, NULL, NULL);
            }
            td_device_sync(j->cx, j->dev);
            double took = (now() - start) / 2000;
            if (took < best) best = took;
        }
        show(j, "cuda_small_64", compiled ? "tandem" : "tandem_eager", 1e6 * best,
             "us");
    }
    td_fn_drop(f);
}

int main(int argc, char **argv) {
    td_ctx     *cx = td_open();
    job         j = {.cx = cx, .dev = {TD_CUDA, 0}};
    const char *what = argc > 2 ? argv[2] : "";
    if (argc > 1 && !td_device_parse(argv[1], &j.dev)) return 2;
    td_seed(cx, 1);
    td_set_default_device(cx, j.dev);
    if (!*what || !strcmp(what, "small")) measure_small(&j);
    if (!*what || !strcmp(what, "mlp")) train_mlp(&j);
    if (!*what) train_gpt2(&j, gpt2_small, 16, 1024, false);
    if (!strcmp(what, "tiny")) train_tiny(&j);
    if (!strcmp(what, "gpt2") && argc > 4)
        train_gpt2(&j, gpt2_small, atoi(argv[3]), atoi(argv[4]), argc > 5);
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    int status = td_ok(cx) ? 0 : 1;
    td_close(cx);
    return status;
}
