/* donated.c -- what donated buffers save: the peak memory of a training step whose
 * model is compiled (td_aot_module) and whose loss and update are eager, with the
 * setting on and off, and of an eager step.
 *
 *     donated [part of a name]...     one JSON line per figure; none: all models */
#include "bench.h"
#include "../examples/gpt2/model.h"

#include <tandem/nn.h>
#include <tandem/optim.h>

enum { BATCH = 8, LAYERS = 8, WIDTH = 512 };
static const gpt2_sizes gpt = {
    .vocab = 256, .context = 128, .layers = 6, .heads = 8, .width = 256};

/* ---- models ------------------------------------------------------------- */

static td_module *mlp_make(td_ctx *cx) {
    td_module *m = td_nn_sequential(cx, (td_modules){NULL, 0});
    for (int i = 0; i < LAYERS; i++) {
        td_nn_append(m, td_nn_linear(cx, WIDTH, WIDTH, NULL));
        td_nn_append(m, td_nn_tanh(cx));
    }
    return m;
}
static td_tensor *mlp_input(td_ctx *cx) {
    return td_randn(cx, TD_SHAPE(4 * WIDTH, WIDTH));
}
static td_module *gpt_make(td_ctx *cx) { return gpt2_make(cx, gpt); }
static td_tensor *gpt_input(td_ctx *cx) {
    return td_randint(cx, 0, gpt.vocab, TD_SHAPE(BATCH, gpt.context));
}

typedef struct model {
    const char *name;
    td_module *(*make)(td_ctx *cx);
    td_tensor *(*input)(td_ctx *cx);
} model;
static const model models[] = {{"mlp", mlp_make, mlp_input},
                               {"gpt", gpt_make, gpt_input}};

/* ---- a step ------------------------------------------------------------- */

typedef struct job {
    td_ctx    *cx;
    td_module *net;
    td_fn     *f; /* NULL: eagerly */
    td_optim  *opt;
    td_tensor *x;
} job;

static double step(const job *j) {
    td_scope_begin(j->cx, NULL);
    td_tensor *y = NULL;
    if (j->f) td_invoke(j->f, TD_ARGS(j->x), &y, 1);
    else y = td_module_call(j->net, TD_ARGS(j->x));
    td_tensor *loss = y ? td_mean(td_mul(y, y)) : NULL;
    if (loss) td_backward(loss);
    td_optim_step(j->opt);
    td_optim_zero_grad(j->opt);
    double value = loss ? td_item(loss) : 0;
    td_scope_end(j->cx, NULL, NULL);
    return value;
}

/* The most bytes that the third step has live beyond those it found: optimizer state
 * and code exist by then. */
static bool measure(const model *m, const char *who, const char *donated) {
    td_ctx *cx = td_open();
    td_seed(cx, 1);
    if (donated) td_config_set(cx, "donated_buffers", donated);
    job j = {.cx = cx, .net = m->make(cx), .x = m->input(cx)};
    j.opt = td_optim_module(j.net, td_sgd(0.01));
    if (donated) j.f = td_aot_module(j.net, NULL);
    step(&j), step(&j);
    size_t before = td_memory_live();
    td_memory_peak_reset();
    double loss = step(&j);
    char   name[64];
    snprintf(name, sizeof name, "donated_%s", m->name);
    bench_print_who(name, who, (double)(td_memory_peak() - before) / 1048576, "MiB");
    fprintf(stderr, "%s %s: loss %.9g\n", name, who, loss);
    bool ok = td_ok(cx);
    if (!ok) fprintf(stderr, "donated: %s\n", td_message(cx));
    td_fn_drop(j.f);
    td_optim_free(j.opt);
    td_module_free(j.net);
    td_close(cx);
    return ok;
}

static bool wanted(const char *name, char **words) {
    for (char **w = words; *w; w++)
        if (strstr(name, *w)) return true;
    return !*words;
}

int main(int n, char **words) {
    bool ok = n > 0;
    for (int i = 0; ok && i < (int)(sizeof models / sizeof *models); i++)
        if (wanted(models[i].name, words + 1))
            ok = measure(&models[i], "tandem_eager", NULL) &&
                 measure(&models[i], "donated_off", "off") &&
                 measure(&models[i], "tandem", "on");
    return !ok;
}
