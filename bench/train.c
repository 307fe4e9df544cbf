/* train.c -- whole training steps: loss, backward and update, eager and compiled.
 * MLPs of four layers, and GPT-2 when asked for (`train gpt2`): 124M parameters take
 * 3 GiB. */
#include "bench.h"

#include "../examples/gpt2/model.h"

#include <string.h>
#include <tandem/nn.h>
#include <tandem/optim.h>

typedef struct job {
    td_ctx    *cx;
    td_module *net;
    td_optim  *opt;
    td_fn     *f; /* NULL: eagerly */
    td_tensor *x, *y;
    int64_t    classes;
} job;

static bool step(td_call *c) {
    job       *j = td_call_env(c);
    td_tensor *out = td_module_call(j->net, TD_ARGS(td_arg(c, 0)));
    td_tensor *loss = td_cross_entropy(td_reshape(out, TD_SHAPE(-1, j->classes)),
                                       td_reshape(td_arg(c, 1), TD_SHAPE(-1)));
    if (!td_backward(loss) || !td_optim_step(j->opt)) return false;
    td_optim_zero_grad(j->opt);
    return td_return(c, loss);
}

static void steps(void *env, long reps) {
    job *j = env;
    for (long i = 0; i < reps; i++) {
        td_value   out = TD_NONE;
        td_tensor *loss;
        td_scope_begin(j->cx, NULL);
        if (j->f) td_invoke(j->f, TD_ARGS(j->x, j->y), &loss, 1);
        else td_call_body(j->cx, step, j, TD_ARGS(j->x, j->y), &out, 1);
        td_scope_end(j->cx, NULL, NULL);
    }
}

static void time_both(job *j, const char *name) {
    char text[96];
    snprintf(text, sizeof text, "%s_eager", name);
    bench_print(text, 1e3 * bench_time(steps, j), "ms");
    j->f = td_aot_step(j->cx, step, j, &(td_aot_opts){TD_AOT_OPTS, .module = j->net});
    steps(j, 1);
    snprintf(text, sizeof text, "%s_compiled", name);
    bench_print(text, 1e3 * bench_time(steps, j), "ms");
    if (!td_ok(j->cx)) fprintf(stderr, "%s\n", td_message(j->cx));
    td_fn_drop(j->f);
    td_optim_free(j->opt);
    td_module_free(j->net);
}

static void time_mlp(td_ctx *cx, const char *name, int64_t batch, int64_t width) {
    td_module *net = td_nn_sequential(cx, (td_modules){NULL, 0});
    for (int i = 0; i < 4; i++) {
        td_nn_append(net, td_nn_linear(cx, width, width, NULL));
        if (i < 3) td_nn_append(net, td_nn_gelu(cx));
    }
    td_scope_begin(cx, name);
    job j = {.cx = cx, .net = net, .classes = width};
    j.opt = td_optim_module(net, td_adamw(1e-4));
    j.x = td_randn(cx, TD_SHAPE(batch, width));
    j.y = td_randint(cx, 0, width, TD_SHAPE(batch));
    time_both(&j, name);
    td_scope_end(cx, name, NULL);
}

static void time_gpt2(td_ctx *cx, const char *name, int64_t batch, int64_t length) {
    td_scope_begin(cx, name);
    job j = {.cx = cx, .net = gpt2_make(cx, gpt2_small), .classes = gpt2_small.vocab};
    if (j.net) {
        j.opt = td_optim_module(j.net, td_adamw(1e-4));
        j.x = td_randint(cx, 0, gpt2_small.vocab, TD_SHAPE(batch, length));
        j.y = td_randint(cx, 0, gpt2_small.vocab, TD_SHAPE(batch, length));
        time_both(&j, name);
    }
    td_scope_end(cx, name, NULL);
}

int main(int argc, char **argv) {
    td_ctx *cx = td_open();
    bool    big = argc > 1 && !strcmp(argv[1], "gpt2");
    td_seed(cx, 1);
    if (!big) {
        time_mlp(cx, "train_mlp_64x256x4", 64, 256);
        time_mlp(cx, "train_mlp_256x1024x4", 256, 1024);
    } else {
        time_gpt2(cx, "train_gpt2_4x64", 4, 64);
        time_gpt2(cx, "train_gpt2_2x256", 2, 256);
    }
    bool ok = td_ok(cx);
    td_close(cx);
    return !ok;
}
