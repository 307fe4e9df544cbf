/* step.c -- a training step of GPT-2's form (12 layers, AdamW, clipping) as one
 * function: what each stage takes from the body to the plan, and what a warm call costs
 * besides its kernels. The width is small, because stages do not look at sizes. */
#include "bench.h"

#include "aot/aot.h"
#include "tandem/nn.h"
#include "tandem/optim.h"
#include "tandem/tandem.h"

enum { LAYERS = 12, WIDTH = 32, HEADS = 2, WORDS = 64, ROWS = 2, LENGTH = 8 };

typedef struct block {
    td_module *ln1, *qkv, *out, *ln2, *up, *down;
} block;

typedef struct gpt {
    td_ctx    *cx;
    td_module *all, *wte, *wpe, *last;
    block      h[LAYERS];
    td_optim  *opt;
} gpt;

static td_module *add(gpt *g, const char *what, int i, td_module *m) {
    char name[40];
    snprintf(name, sizeof name, "%s%d", what, i);
    return td_nn_add(g->all, name, m);
}

static void make(gpt *g) {
    td_ctx *cx = g->cx;
    g->all = td_nn_list(cx, (td_modules){NULL, 0});
    g->wte = add(g, "wte", 0, td_nn_embedding(cx, WORDS, WIDTH, NULL));
    g->wpe = add(g, "wpe", 0, td_nn_embedding(cx, LENGTH, WIDTH, NULL));
    for (int i = 0; i < LAYERS; i++) {
        block *b = &g->h[i];
        b->ln1 = add(g, "ln_1_", i, td_nn_layer_norm(cx, TD_SHAPE(WIDTH), NULL));
        b->qkv = add(g, "qkv", i, td_nn_linear(cx, WIDTH, 3 * WIDTH, NULL));
        b->out = add(g, "out", i, td_nn_linear(cx, WIDTH, WIDTH, NULL));
        b->ln2 = add(g, "ln_2_", i, td_nn_layer_norm(cx, TD_SHAPE(WIDTH), NULL));
        b->up = add(g, "up", i, td_nn_linear(cx, WIDTH, 4 * WIDTH, NULL));
        b->down = add(g, "down", i, td_nn_linear(cx, 4 * WIDTH, WIDTH, NULL));
    }
    g->last = add(g, "ln_f", 0, td_nn_layer_norm(cx, TD_SHAPE(WIDTH), NULL));
    g->opt = td_optim_module(g->all, td_adamw(1e-3));
}

static td_tensor *on(td_module *m, td_tensor *x) {
    return td_module_call(m, TD_ARGS(x));
}

static td_tensor *heads(td_tensor *qkv, int i) {
    td_tensor *t = td_narrow(qkv, 2, i * WIDTH, WIDTH);
    t = td_view(t, TD_SHAPE(ROWS, LENGTH, HEADS, WIDTH / HEADS));
    return td_transpose(t, 1, 2);
}

static td_tensor *layer(const block *b, td_tensor *x) {
    td_tensor *qkv = on(b->qkv, on(b->ln1, x));
    td_tensor *y = td_scaled_dot_product_attention(heads(qkv, 0), heads(qkv, 1),
                                                   heads(qkv, 2), NULL, 0, true);
    y = td_reshape(td_transpose(y, 1, 2), TD_SHAPE(ROWS, LENGTH, WIDTH));
    x = td_add(x, on(b->out, y));
    return td_add(x, on(b->down, td_gelu(on(b->up, on(b->ln2, x)))));
}

static bool step(td_call *c) {
    gpt       *g = td_call_env(c);
    td_tensor *at = td_arange(g->cx, 0, LENGTH, 1, TD_I64);
    td_tensor *x = td_add(on(g->wte, td_arg(c, 0)), on(g->wpe, at));
    for (int i = 0; i < LAYERS; i++) x = layer(&g->h[i], x);
    td_tensor *weight = td_module_get(g->wte, "weight"); /* tied */
    td_tensor *out = td_linear(on(g->last, x), weight);
    td_tensor *loss = td_cross_entropy(td_view(out, TD_SHAPE(ROWS * LENGTH, WORDS)),
                                       td_view(td_arg(c, 1), TD_SHAPE(ROWS * LENGTH)));
    if (!td_backward(loss)) return false;
    td_optim_clip_norm(g->opt, 1.0);
    if (!td_optim_step(g->opt)) return false;
    td_optim_zero_grad(g->opt);
    return td_return(c, loss);
}

/* Code that does nothing: results are of the right kind, and old. */
static td_tensor *made;
static bool       do_nothing(void *env, td_ctx *cx, const td_value *in, td_value *out) {
          (void)env, (void)cx, (void)in;
          out[0] = td_value_tensor(made);
          return true;
}
static bool no_code(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *code) {
    (void)env, (void)g, (void)info;
    *code = (td_runner){.run = do_nothing};
    return true;
}

typedef struct warm {
    td_fn     *f;
    td_tensor *x;
} warm;

static void calls(void *env, long reps) {
    warm      *w = env;
    td_tensor *loss;
    for (long i = 0; i < reps; i++) td_invoke(w->f, TD_ARGS(w->x, w->x), &loss, 1);
}

/* The least of five of each stage. */
static bool time_stages(gpt *g, td_tensor *x) {
    double best[TD_PIPE_COUNT], all = 1e9;
    int    nodes = 0;
    for (int i = 0; i < TD_PIPE_COUNT; i++) best[i] = 1e9;
    for (int k = 0; k < 5; k++) {
        double sum = 0;
        td_fn *f =
            td_aot_step(g->cx, step, g, &(td_aot_opts){TD_AOT_OPTS, .module = g->all});
        td_invoke(f, TD_ARGS(x, x), NULL, 0);
        if (!td_ok(g->cx)) return td_fn_drop(f), false;
        for (int i = 0; i < TD_PIPE_FORWARD; i++) {
            double ms = 1e-6 * (double)f->specs->ns[i];
            if (ms < best[i]) best[i] = ms;
            sum += ms;
        }
        if (sum < all) all = sum;
        nodes = f->specs->plan->j->g->nodes.n;
        td_fn_drop(f);
    }
    for (int i = 0; i < TD_PIPE_FORWARD; i++) {
        char name[64];
        snprintf(name, sizeof name, "step_gpt2_%s", td__stages[i].name);
        if (i != TD_PIPE_PARTITION) bench_print(name, best[i], "ms");
    }
    bench_print("step_gpt2_all_stages", all, "ms");
    bench_print("step_gpt2_nodes", nodes, "nodes");
    return true;
}

static bool time_wrapper(gpt *g, td_tensor *x) {
    const td_backend nothing = {.name = "nothing", .compile = no_code};
    td_aot_opts      o = {TD_AOT_OPTS, .module = g->all, .inference = &nothing};
    warm             w = {td_aot_step(g->cx, step, g, &o), x};
    made = td_keep(td_zeros(g->cx, TD_SHAPE()));
    bench_print("step_gpt2_wrapper", 1e6 * bench_time(calls, &w), "us");
    td_fn_drop(w.f);
    td_drop(made);
    return td_ok(g->cx);
}

int main(void) {
    gpt g = {.cx = td_open()};
    if (!g.cx) return 1;
    make(&g);
    td_tensor *x = td_randint(g.cx, 0, WORDS, TD_SHAPE(ROWS, LENGTH), TD_I64);
    bool       ok = td_ok(g.cx) && time_stages(&g, x) && time_wrapper(&g, x);
    if (!ok) fprintf(stderr, "step: %s\n", td_message(g.cx));
    td_optim_free(g.opt);
    td_module_free(g.all);
    td_close(g.cx);
    return !ok;
}
