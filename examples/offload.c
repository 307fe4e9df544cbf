/* offload.c -- activations in a file between forward and backward: a GPT is trained
 * three times from the same numbers, with saved values in memory, in a file, and packed
 * to bf16 in a file. Prints the losses, and the memory of a step.
 *
 *     offload [folder]     where the file is; /tmp without one */
#include "gpt2/model.h"

#include <stdio.h>
#include <tandem/nn.h>
#include <tandem/optim.h>

enum { STEPS = 3, BATCH = 8 };
static const gpt2_sizes sizes = {
    .vocab = 128, .context = 64, .layers = 12, .heads = 4, .width = 64};

/* ---- half the bytes, with td_aot_opts.saved ------------------------------- */

static int pack(void *env, const td_saved_at *at, td_tensor *t, td_tensor **packed) {
    (void)env, (void)at;
    if (td_dtype_of(t) != TD_F32) return 0;
    packed[0] = td_to(t, TD_BF16);
    return 1;
}
static td_tensor *unpack(void *env, const td_saved_at *at, td_tensor *const *packed,
                         int n) {
    (void)env, (void)at, (void)n;
    return td_to(packed[0], TD_F32);
}

/* ---- training -------------------------------------------------------------- */

typedef struct curve {
    double loss[STEPS];
    double saved; /* MiB live between forward and backward, */
    double peak;  /* ...and at most, of the last step */
} curve;

static bool step(td_ctx *cx, td_fn *f, td_store *s, td_optim *opt, int i, curve *c) {
    td_tensor *out;
    td_scope_begin(cx, "step");
    td_tensor *x = td_randint(cx, 0, sizes.vocab, TD_SHAPE(BATCH, sizes.context));
    size_t     before = td_memory_live();
    td_memory_peak_reset();
    if (td_invoke(f, TD_ARGS(x), &out, 1)) {
        if (s) td_store_flush(s); /* for the figure below; backward needs no flush */
        c->saved = (double)(td_memory_live() - before) / 1048576;
        td_tensor *logits = td_reshape(out, TD_SHAPE(-1, sizes.vocab));
        td_tensor *loss = td_cross_entropy(logits, td_reshape(x, TD_SHAPE(-1)));
        td_backward(loss);
        c->peak = (double)(td_memory_peak() - before) / 1048576;
        c->loss[i] = td_item(loss);
        td_optim_step(opt);
        td_optim_zero_grad(opt);
    }
    td_scope_end(cx, "step", NULL);
    return td_ok(cx);
}

/* folder NULL: saved values stay in memory. */
static bool train(const char *folder, bool packs, curve *c) {
    td_ctx     *cx = td_open();
    td_store   *s = folder ? td_store_file(cx, "disk", folder) : NULL;
    td_aot_opts o = {TD_AOT_OPTS, .offload = {.store = s}};
    if (packs)
        o.saved = (td_packing){.pack = pack, .unpack = unpack, .version = "bf16"};
    if (s) td_store_limit(s, 1 << 20); /* at most 1 MiB waits for the disk */
    td_seed(cx, 1);
    td_module *net = gpt2_make(cx, sizes);
    td_optim  *opt = td_optim_module(net, td_adamw(2e-3));
    td_fn     *f = td_aot_module(net, &o);
    bool       ok = td_ok(cx);
    for (int i = 0; ok && i < STEPS; i++) ok = step(cx, f, s, opt, i, c);
    if (!ok) fprintf(stderr, "%s\n", td_message(cx));
    td_fn_drop(f);
    td_optim_free(opt);
    td_module_free(net);
    td_close(cx);
    return ok;
}

static void print(const char *name, const curve *c) {
    printf("%-16s loss %.6f %.6f %.6f  live %6.2f MiB  peak %6.2f MiB\n", name,
           c->loss[0], c->loss[1], c->loss[2], c->saved, c->peak);
}

int main(int n, char **args) {
    static curve plain, stored, both;
    const char  *folder = n > 1 ? args[1] : "/tmp";
    if (!train(NULL, false, &plain) || !train(folder, false, &stored) ||
        !train(folder, true, &both))
        return 1;
    print("in memory", &plain);
    print("in a file", &stored);
    print("bf16 in a file", &both);
    bool same = true;
    for (int i = 0; i < STEPS; i++) same = same && plain.loss[i] == stored.loss[i];
    return !(same && stored.saved < 0.3 * plain.saved && stored.peak < plain.peak);
}
