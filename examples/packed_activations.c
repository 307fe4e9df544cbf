/* packed_activations.c -- activations packed to 8 bits between forward and backward: a
 * small GPT is trained twice from the same numbers, with saved values as they are and
 * packed. Prints the losses, and the memory of a step. */
#include "gpt2/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tandem/nn.h>
#include <tandem/optim.h>

enum { STEPS = 60, BATCH = 8, EVERY = 12 };
static const gpt2_sizes sizes = {
    .vocab = 128, .context = 64, .layers = 4, .heads = 4, .width = 64};

static const char text[] =
    "The quick brown fox jumps over the lazy dog. The five boxing wizards jump "
    "quickly. Pack my box with five dozen liquor jugs. How vexingly quick daft zebras "
    "jump! Sphinx of black quartz, judge my vow. ";

/* ---- hooks -------------------------------------------------------------- */

/* One scale per row. Small values and masks stay as they are. */
static int pack(void *env, const td_saved_at *at, td_tensor *t, td_tensor **packed) {
    (void)env, (void)at;
    if (td_dtype_of(t) != TD_F32 || td_rank(t) < 2 || td_numel(t) < 4096) return 0;
    td_tensor *most = td_amax(td_abs(t), TD_DIMS(-1), true);
    td_tensor *scale = td_clamp_min(td_div(most, 127.0), 1e-20);
    packed[0] = td_to(td_round(td_div(t, scale)), TD_I8);
    packed[1] = scale;
    return 2;
}

static td_tensor *unpack(void *env, const td_saved_at *at, td_tensor *const *packed,
                         int n) {
    (void)env, (void)at, (void)n;
    return td_mul(td_to(packed[0], TD_F32), packed[1]);
}

/* ---- training ----------------------------------------------------------- */

/* Windows of the text, and the same moved by one character. */
static void batch(td_ctx *cx, int step, td_tensor **x, td_tensor **y) {
    int64_t at[BATCH * 65], n = sizes.context + 1;
    for (int64_t i = 0; i < BATCH * n; i++) {
        size_t from = (size_t)(37 * step + 19 * (i / n) + i % n);
        at[i] = (unsigned char)text[from % (sizeof text - 1)];
    }
    td_tensor *all = td_from(cx, TD_I64, TD_SHAPE(BATCH, n), at);
    *x = td_narrow(all, 1, 0, sizes.context);
    *y = td_narrow(all, 1, 1, sizes.context);
}

typedef struct curve {
    double loss[STEPS];
    double saved; /* MiB live between forward and backward, */
    double peak;  /* ...and at most, of the last step */
} curve;

static bool step(td_ctx *cx, td_fn *f, td_optim *opt, int i, curve *c) {
    td_tensor *x, *y, *out;
    td_scope_begin(cx, "step");
    batch(cx, i, &x, &y);
    size_t before = td_memory_live();
    td_memory_peak_reset();
    if (td_invoke(f, TD_ARGS(x), &out, 1)) {
        c->saved = (double)(td_memory_live() - before) / 1048576;
        td_tensor *logits = td_reshape(out, TD_SHAPE(-1, sizes.vocab));
        td_tensor *loss = td_cross_entropy(logits, td_reshape(y, TD_SHAPE(-1)));
        td_backward(loss);
        c->peak = (double)(td_memory_peak() - before) / 1048576;
        c->loss[i] = td_item(loss);
        td_optim_step(opt);
        td_optim_zero_grad(opt);
    }
    td_scope_end(cx, "step", NULL);
    return td_ok(cx);
}

static bool train(const td_aot_opts *o, curve *c) {
    td_ctx *cx = td_open();
    td_seed(cx, 1);
    td_module *net = gpt2_make(cx, sizes);
    td_optim  *opt = td_optim_module(net, td_adamw(2e-3));
    td_fn     *f = td_aot_module(net, o);
    bool       ok = td_ok(cx);
    for (int i = 0; ok && i < STEPS; i++) ok = step(cx, f, opt, i, c);
    if (!ok) fprintf(stderr, "%s\n", td_message(cx));
    td_fn_drop(f);
    td_optim_free(opt);
    td_module_free(net);
    td_close(cx);
    return ok;
}

int main(void) {
    static curve plain, packed;
    td_aot_opts  o = {TD_AOT_OPTS, .saved = {.pack = pack,
                                             .unpack = unpack,
                                             .version = "int8 rows, 1"}};
    if (!train(NULL, &plain) || !train(&o, &packed)) return 1;
    printf("step   loss  with 8 bits\n");
    for (int i = 0; i < STEPS; i += EVERY)
        printf("%4d  %5.3f  %5.3f\n", i, plain.loss[i], packed.loss[i]);
    double a = plain.loss[STEPS - 1], b = packed.loss[STEPS - 1];
    printf("%4d  %5.3f  %5.3f\n", STEPS - 1, a, b);
    printf("saved for backward %.2f MiB, packed %.2f MiB; peak of a step %.2f and %.2f "
           "MiB\n",
           plain.saved, packed.saved, plain.peak, packed.peak);
    return !(a < plain.loss[0] / 1.5 && fabs(a - b) < 0.1 * a &&
             packed.saved < 0.6 * plain.saved);
}
