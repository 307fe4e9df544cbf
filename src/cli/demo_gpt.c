/* demo_gpt.c -- the model of `tandem demo`: examples/gpt2 at a small size, trained on
 * a built-in text, one byte per token. */
#include "cli/cli.h"
#include "cli/demo.h"

#include <math.h>
#include <stdlib.h>

static const double RATE = 4e-3, TEMPERATURE = 0.5;
enum { MOST_ROUNDS = 64 };

/* ---- a step ------------------------------------------------------------- */

static bool step(td_call *c) {
    demo_gpt  *g = td_call_env(c);
    td_tensor *y = td_module_call(g->net, TD_ARGS(td_arg(c, 0)));
    y = td_reshape(y, TD_SHAPE(-1, g->size.net.vocab));
    td_tensor *loss = td_cross_entropy(y, td_reshape(td_arg(c, 1), TD_SHAPE(-1)));
    if (!td_backward(loss)) return false;
    td_optim_clip_norm(g->opt, 1.0);
    if (!td_optim_step(g->opt)) return false;
    td_optim_zero_grad(g->opt);
    return td_return(c, loss);
}

/* One training step with this rate; the loss, or NaN. */
static double take_step(demo_gpt *g, double rate, bool compiled) {
    td_tensor *x, *y, *loss = NULL;
    double     value = (double)NAN;
    td_scope_begin(g->cx, "step");
    td_optim_set_lr(g->opt, 0, rate);
    if (td_loader_next(g->data, &x, &y)) {
        td_value out = TD_NONE;
        if (compiled) td_invoke(g->step, TD_ARGS(x, y), &loss, 1);
        else if (td_call_body(g->cx, step, g, TD_ARGS(x, y), &out, 1) == 1)
            loss = out.u.t;
        if (loss && td_ok(g->cx)) value = td_item(loss);
    }
    td_scope_end(g->cx, "step", NULL);
    return td_ok(g->cx) ? value : (double)NAN;
}

double demo_gpt_train(demo_gpt *g) {
    int64_t steps = g->size.steps;
    double  rate = td_lr_warmup_cosine(g->at, steps / 20 + 1, steps, RATE, RATE / 20);
    double  begun = cli_now(), loss = take_step(g, rate, true);
    if (g->at++ == 0) g->compile_s = cli_now() - begun;
    return loss;
}

double demo_gpt_idle(demo_gpt *g, bool compiled) { return take_step(g, 0, compiled); }

/* ---- opening ------------------------------------------------------------ */

static bool join_text(demo_gpt *g) {
    for (const char *const *p = demo_text; *p; p++) {
        td__buf_add(&g->text, *p);
        td__buf_add(&g->text, "\n\n");
    }
    return !g->text.failed || td__fail_memory(g->cx);
}

/* A smaller beta2 than usual, because the run is short. */
static td_rule rule(void) {
    td_rule r = td_adamw(RATE);
    r.beta2 = 0.99;
    return r;
}

bool demo_gpt_open(demo_gpt *g, td_ctx *cx, demo_sizes size) {
    *g = (demo_gpt){.cx = cx, .size = size};
    if (!join_text(g)) return false;
    td_loader_opts how = {TD_LOADER_OPTS,           .type = TD_TOKENS_U8,
                          .batch = size.batch,      .window = size.net.context,
                          .order = TD_ORDER_RANDOM, .seed = td_rng_seed(cx),
                          .vocab = size.net.vocab,  .ahead = -1};
    g->data = td_loader_over(cx, g->text.s, g->text.n, &how);
    if (g->data) g->net = gpt2_make(cx, size.net);
    if (g->net) g->opt = td_optim_module(g->net, rule());
    td_aot_opts o = {TD_AOT_OPTS, .name = "step", .module = g->net};
    if (g->opt) g->step = td_aot_step(cx, step, g, &o);
    return g->step != NULL;
}

void demo_gpt_close(demo_gpt *g) {
    td_fn_drop(g->step);
    if (g->opt) td_optim_free(g->opt);
    if (g->net) td_module_free(g->net);
    td_loader_close(g->data);
    td__buf_free(&g->text);
}

static bool add_numel(void *env, const td_member *m) {
    *(int64_t *)env += td_numel(m->t);
    return true;
}

int64_t demo_gpt_numel(demo_gpt *g) {
    int64_t n = 0;
    td_module_visit(g->net, TD_VISIT_PARAMS, add_numel, &n);
    return n;
}

/* ---- writing ------------------------------------------------------------ */

/* Samples the next byte from the model's prediction. */
static int next_byte(demo_gpt *g, const td_buf *text) {
    int64_t     most = g->size.net.context, at[1024];
    int64_t     n = (int64_t)text->n < most ? (int64_t)text->n : most;
    const char *from = text->s + text->n - n;
    for (int64_t i = 0; i < n; i++) at[i] = (unsigned char)from[i];
    td_scope_begin(g->cx, "write");
    td_tensor *x = td_from(g->cx, TD_I64, TD_SHAPE(1, n), at);
    td_tensor *y = td_select(td_module_call(g->net, TD_ARGS(x)), 1, -1);
    y = td_multinomial(td_softmax(td_div(y, TEMPERATURE), -1), 1);
    int byte = (int)td_item(y);
    td_scope_end(g->cx, "write", NULL);
    return byte;
}

bool demo_gpt_write(demo_gpt *g, td_buf *to, int64_t bytes) {
    td_grad_mode was = td_no_grad_begin(g->cx);
    td_module_train(g->net, false);
    for (int64_t i = 0; i < bytes && td_ok(g->cx) && !to->failed; i++) {
        char c = (char)next_byte(g, to);
        td__buf_addn(to, &c, 1);
    }
    td_module_train(g->net, true);
    td_no_grad_end(g->cx, was);
    return td_ok(g->cx) && !to->failed;
}

/* ---- speed -------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void fill(const demo_gpt *g, demo_speed *to, double *seconds, int n) {
    double s = median(seconds, n);
    to->ms = s * 1e3;
    to->tokens = (double)(g->size.batch * g->size.net.context) / s;
}

bool demo_gpt_measure(demo_gpt *g) {
    double      seconds[2][MOST_ROUNDS];
    demo_speed *way[2] = {&g->eager, &g->compiled};
    int         n = (int)(g->size.rounds < MOST_ROUNDS ? g->size.rounds : MOST_ROUNDS);
    g->state = td_memory_live();
    for (int i = -1; i < n; i++) /* the first round warms up */
        for (int k = 0; k < 2; k++) {
            td_memory_peak_reset();
            double begun = cli_now();
            if (isnan(demo_gpt_idle(g, k == 1))) return false;
            if (i >= 0) seconds[k][i] = cli_now() - begun;
            way[k]->peak = td_memory_peak();
        }
    for (int k = 0; k < 2; k++) fill(g, way[k], seconds[k], n);
    return true;
}
