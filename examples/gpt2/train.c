/* train.c -- trains GPT-2 on a text or a file of tokens, and lets it write.
 *
 *     gpt2 --data shakespeare.txt --layers 4 --heads 4 --width 128 --context 64
 *     gpt2 --data fineweb.bin                         (u16 tokens of GPT-2, 124M)
 *     gpt2 --data t.txt --save run.safetensors        (goes on where it stopped)
 *
 * A step (loss, gradients, clipping, AdamW) is one compiled function. Checkpoints are
 * safetensors with the names Hugging Face uses; the optimizer's state lies beside. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem/data.h>
#include <tandem/nn.h>
#include <tandem/optim.h>
#include <time.h>

typedef struct options {
    const char *data, *save, *prompt;
    gpt2_sizes  sizes;
    int64_t     batch, steps, every, sample;
    double      lr, heat;
    bool        bytes, eager;
} options;

typedef struct trainer {
    options    o;
    td_ctx    *cx;
    td_module *net;
    td_optim  *opt;
    td_loader *data;
    td_fn     *step;
    int64_t    at; /* steps done */
} trainer;

/* ---- options ------------------------------------------------------------- */

static const char *const help =
    "gpt2 --data FILE [--save FILE] [--steps N] [--batch N] [--context N] [--layers "
    "N]\n"
    "     [--heads N] [--width N] [--lr X] [--every N] [--sample N] [--heat X]\n"
    "     [--prompt TEXT] [--eager]\n"
    "A FILE that ends in .bin holds u16 tokens of GPT-2, any other is read byte by "
    "byte.\n"
    "Without sizes it is the 124M model. --save keeps a checkpoint every --every "
    "steps,\n"
    "and a run that finds one goes on from it.\n";

static bool is(const char *a, const char *name) { return !strcmp(a, name); }

static bool set(options *o, const char *name, const char *v) {
    int64_t *n = is(name, "--steps")     ? &o->steps
                 : is(name, "--batch")   ? &o->batch
                 : is(name, "--context") ? &o->sizes.context
                 : is(name, "--layers")  ? &o->sizes.layers
                 : is(name, "--heads")   ? &o->sizes.heads
                 : is(name, "--width")   ? &o->sizes.width
                 : is(name, "--every")   ? &o->every
                 : is(name, "--sample")  ? &o->sample
                                         : NULL;
    char    *end = NULL;
    if (n) *n = strtoll(v, &end, 10);
    else if (is(name, "--lr")) o->lr = strtod(v, &end);
    else if (is(name, "--heat")) o->heat = strtod(v, &end);
    else if (is(name, "--data")) o->data = v;
    else if (is(name, "--save")) o->save = v;
    else if (is(name, "--prompt")) o->prompt = v;
    else return false;
    return !end || (end != v && !*end && (!n || *n > 0));
}

static bool read_options(options *o, int argc, char **argv) {
    *o = (options){.sizes = gpt2_small,
                   .batch = 4,
                   .steps = 100,
                   .every = 50,
                   .sample = 200,
                   .lr = 3e-4,
                   .heat = 0.8,
                   .prompt = "\n"};
    for (int i = 1; i < argc; i++) {
        if (is(argv[i], "--eager")) o->eager = true;
        else if (i + 1 == argc || !set(o, argv[i], argv[i + 1])) return false;
        else i++;
    }
    size_t n = o->data ? strlen(o->data) : 0;
    o->bytes = n < 4 || !is(o->data + n - 4, ".bin");
    if (o->bytes) o->sizes.vocab = 256;
    return o->data && o->sizes.width % o->sizes.heads == 0;
}

/* ---- a step -------------------------------------------------------------- */

static bool step(td_call *c) {
    trainer   *t = td_call_env(c);
    td_tensor *y = td_module_call(t->net, TD_ARGS(td_arg(c, 0)));
    y = td_reshape(y, TD_SHAPE(-1, t->o.sizes.vocab));
    td_tensor *loss = td_cross_entropy(y, td_reshape(td_arg(c, 1), TD_SHAPE(-1)));
    if (!td_backward(loss)) return false;
    td_optim_clip_norm(t->opt, 1.0);
    if (!td_optim_step(t->opt)) return false;
    td_optim_zero_grad(t->opt);
    return td_return(c, loss);
}

static double take_step(trainer *t) {
    td_tensor *x, *y, *loss = NULL;
    double     value = 0;
    td_scope_begin(t->cx, "step");
    td_optim_set_lr(t->opt, 0,
                    td_lr_warmup_cosine(t->at, t->o.steps / 10 + 1, t->o.steps, t->o.lr,
                                        t->o.lr / 10));
    if (td_loader_next(t->data, &x, &y)) {
        td_value out = TD_NONE;
        if (t->step) td_invoke(t->step, TD_ARGS(x, y), &loss, 1);
        else if (td_call_body(t->cx, step, t, TD_ARGS(x, y), &out, 1)) loss = out.u.t;
        if (loss && td_ok(t->cx)) value = td_item(loss);
    }
    td_scope_end(t->cx, "step", NULL);
    return value;
}

/* ---- checkpoints --------------------------------------------------------- */

static const char *beside(const trainer *t, const char *end) {
    static char path[4096];
    snprintf(path, sizeof path, "%s%s", t->o.save, end);
    return path;
}

/* The note is written last: what it names is complete. */
static bool save(trainer *t) {
    td_loader_place at = td_loader_tell(t->data);
    if (!t->o.save || !td_module_save(t->net, t->o.save, NULL) ||
        !td_optim_save(t->opt, beside(t, ".optim")))
        return !t->o.save;
    char note[4096];
    snprintf(note, sizeof note, "%s", beside(t, ".note"));
    FILE *f = fopen(beside(t, ".note.new"), "w");
    if (!f) return false;
    fprintf(f, "%lld %lld %lld\n", (long long)t->at, (long long)at.epoch,
            (long long)at.batch);
    return fclose(f) == 0 && rename(beside(t, ".note.new"), note) == 0;
}

static bool go_on(trainer *t) {
    long long at, epoch, batch;
    FILE     *f = t->o.save ? fopen(beside(t, ".note"), "r") : NULL;
    if (!f) return true; /* a fresh start */
    bool read = fscanf(f, "%lld %lld %lld", &at, &epoch, &batch) == 3;
    fclose(f);
    if (!read) return true;
    t->at = at;
    printf("going on after step %lld of %s\n", at, t->o.save);
    return td_module_load(t->net, t->o.save, NULL) &&
           td_optim_load(t->opt, beside(t, ".optim")) &&
           td_loader_seek(t->data, (td_loader_place){epoch, batch});
}

/* ---- progress ------------------------------------------------------------ */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void show(const trainer *t, double loss, double rate, double left) {
    char    bar[25];
    int64_t full = t->at * 24 / t->o.steps;
    for (int i = 0; i < 24; i++) bar[i] = i < full ? '#' : '.';
    bar[24] = 0;
    printf("\r%s %lld/%lld  loss %.4f  %.0f tokens/s  %d:%02d left ", bar,
           (long long)t->at, (long long)t->o.steps, loss, rate, (int)left / 60,
           (int)left % 60);
    fflush(stdout);
}

static bool train(trainer *t) {
    double start = now(), loss = 0;
    for (int64_t first = t->at; t->at < t->o.steps && td_ok(t->cx);) {
        double one = take_step(t);
        if (!td_ok(t->cx)) break;
        loss = loss == 0 ? one : 0.9 * loss + 0.1 * one;
        t->at++;
        double spent = now() - start, done = (double)(t->at - first);
        show(t, loss, done * (double)(t->o.batch * t->o.sizes.context) / spent,
             spent / done * (double)(t->o.steps - t->at));
        if ((t->at % t->o.every == 0 || t->at == t->o.steps) && !save(t)) break;
    }
    printf("\n");
    return td_ok(t->cx);
}

/* ---- writing ------------------------------------------------------------- */

/* Bytes, one after another, each from what came before it. */
static bool write_text(trainer *t) {
    int64_t *at = calloc((size_t)(t->o.sizes.context + 1), sizeof *at), n = 0;
    if (!at) return false;
    for (const char *p = t->o.prompt; *p && n < t->o.sizes.context; p++)
        at[n++] = (unsigned char)*p;
    td_module_train(t->net, false);
    td_grad_mode was = td_no_grad_begin(t->cx);
    for (int64_t i = 0; i < t->o.sample && td_ok(t->cx); i++) {
        td_scope_begin(t->cx, "write");
        td_tensor *x = td_from(t->cx, TD_I64, TD_SHAPE(1, n), at);
        td_tensor *y = td_select(td_module_call(t->net, TD_ARGS(x)), 1, -1);
        y = td_multinomial(td_softmax(td_div(y, t->o.heat), -1), 1);
        int64_t next = (int64_t)td_item(y);
        td_scope_end(t->cx, "write", NULL);
        if (n == t->o.sizes.context) memmove(at, at + 1, sizeof *at * (size_t)--n);
        at[n++] = next;
        if (t->o.bytes) putchar((int)next);
        else printf("%lld ", (long long)next);
    }
    td_no_grad_end(t->cx, was);
    putchar('\n');
    free(at);
    return td_ok(t->cx);
}

/* ---- the whole ----------------------------------------------------------- */

static bool prepare(trainer *t) {
    td_loader_opts how = {TD_LOADER_OPTS,
                          .type = t->o.bytes ? TD_TOKENS_U8 : TD_TOKENS_U16,
                          .batch = t->o.batch,
                          .window = t->o.sizes.context,
                          .seed = 1,
                          .vocab = t->o.sizes.vocab};
    td_seed(t->cx, 1);
    t->data = td_loader_open(t->cx, t->o.data, &how);
    if (t->data) t->net = gpt2_make(t->cx, t->o.sizes);
    if (t->net) t->opt = td_optim_module(t->net, td_adamw(t->o.lr));
    td_aot_opts o = {TD_AOT_OPTS, .name = "gpt2", .module = t->net};
    if (t->opt && !t->o.eager) t->step = td_aot_step(t->cx, step, t, &o);
    return t->opt && (t->o.eager || t->step) && go_on(t);
}

int main(int argc, char **argv) {
    trainer t = {.cx = NULL};
    if (!read_options(&t.o, argc, argv)) return fputs(help, stderr), 2;
    t.cx = td_open();
    bool ok = prepare(&t) && train(&t) && write_text(&t);
    if (!ok) fprintf(stderr, "gpt2: %s\n", td_message(t.cx));
    td_fn_drop(t.step);
    td_optim_free(t.opt);
    td_module_free(t.net);
    td_loader_close(t.data);
    td_close(t.cx);
    return !ok;
}
