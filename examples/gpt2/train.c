/* train.c -- trains GPT-2 on a text or a file of tokens, and lets it write.
 *
 *     gpt2 --data shakespeare.txt --layers 4 --heads 4 --width 128 --context 64
 *     gpt2 --data fineweb.bin --window 256            (u16 tokens of GPT-2, 124M)
 *     gpt2 --data t.txt --tokenizer gpt2 --save run   (goes on where it stopped)
 *     gpt2 --from gpt2 --prompt "Once upon a time"    (a folder of Hugging Face)
 *
 * A step (loss, gradients, clipping, AdamW) is one compiled function. */
#include "checkpoint.h"
#include "options.h"
#include "tokenizer.h"
#include "weights.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tandem/nn.h>
#include <tandem/device.h>
#include <time.h>
#include <unistd.h>

typedef struct trainer {
    options         o;
    td_ctx         *cx;
    gpt2_tokenizer *words;  /* NULL: tokens are bytes, or cannot be printed */
    gpt2_tokens     tokens; /* of the text; none when the loader maps the file */
    gpt2_run        run;
    td_fn          *step;
    bool            live; /* stdout is a terminal */
} trainer;

/* ---- a step -------------------------------------------------------------- */

static bool step(td_call *c) {
    trainer   *t = td_call_env(c);
    td_tensor *y = td_module_call(t->run.net, TD_ARGS(td_arg(c, 0)));
    y = td_reshape(y, TD_SHAPE(-1, t->o.sizes.vocab));
    td_tensor *loss = td_cross_entropy(y, td_reshape(td_arg(c, 1), TD_SHAPE(-1)));
    if (!td_backward(loss)) return false;
    td_optim_clip_norm(t->run.opt, 1.0);
    if (!td_optim_step(t->run.opt)) return false;
    td_optim_zero_grad(t->run.opt);
    return td_return(c, loss);
}

static double take_step(trainer *t) {
    td_tensor *x, *y, *loss = NULL;
    double     value = 0, lr = t->o.lr;
    td_scope_begin(t->cx, "step");
    td_optim_set_lr(t->run.opt, 0,
                    td_lr_warmup_cosine(t->run.at, t->o.steps / 10 + 1, t->o.steps, lr,
                                        lr / 10));
    if (td_loader_next(t->run.data, &x, &y)) {
        td_value out = TD_NONE;
        if (t->step) td_invoke(t->step, TD_ARGS(x, y), &loss, 1);
        else if (td_call_body(t->cx, step, t, TD_ARGS(x, y), &out, 1)) loss = out.u.t;
        if (loss && td_ok(t->cx)) value = td_item(loss);
    }
    td_scope_end(t->cx, "step", NULL);
    return value;
}

/* ---- progress ------------------------------------------------------------ */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A bar on a terminal, ten lines elsewhere. */
static void show(const trainer *t, double loss, double rate, double left) {
    char    bar[25];
    int64_t at = t->run.at, all = t->o.steps;
    if (!t->live && at < all && at * 10 / all == (at - 1) * 10 / all) return;
    for (int i = 0; i < 24; i++) bar[i] = i < at * 24 / all ? '#' : '.';
    bar[24] = 0;
    printf("%s%s %lld/%lld  loss %.4f  %.0f tokens/s  %d:%02d left %s",
           t->live ? "\r" : "", bar, (long long)at, (long long)all, loss, rate,
           (int)left / 60, (int)left % 60, t->live ? "" : "\n");
    fflush(stdout);
}

static bool train(trainer *t) {
    double   start = now(), loss = 0;
    int64_t *at = &t->run.at, from = *at, first = *at + 1;
    if (from) printf("going on after step %lld of %s\n", (long long)from, t->o.save);
    while (*at < t->o.steps) {
        double one = take_step(t);
        if (!td_ok(t->cx)) break;
        loss = loss == 0 ? one : 0.9 * loss + 0.1 * one;
        ++*at;
        double spent = now() - start, done = (double)(*at - from);
        show(t, loss, done * (double)(t->o.batch * t->o.window) / spent,
             spent / done * (double)(t->o.steps - *at));
        if (*at == first) start = now(), from = *at; /* that one was compiled, too */
        if (t->o.save && (*at % t->o.every == 0 || *at == t->o.steps) &&
            !gpt2_save_run(&t->run, t->o.save))
            break;
    }
    if (t->live) printf("\n");
    return td_ok(t->cx);
}

/* ---- writing ------------------------------------------------------------- */

static bool is_bytes(const trainer *t) { return !t->words && t->o.sizes.vocab == 256; }

/* What comes before the first token: the prompt, or the end of another text. */
static bool begin(trainer *t, gpt2_tokens *to) {
    const char *text = t->o.prompt;
    if (!text) text = t->words ? "<|endoftext|>" : "\n";
    if (t->words) return gpt2_encode(t->words, text, strlen(text), to);
    size_t n = is_bytes(t) ? strlen(text) : 1;
    to->v = calloc(n + 1, sizeof *to->v);
    if (!to->v) return false;
    to->n = n;
    for (size_t i = 0; i < n; i++)
        to->v[i] =
            is_bytes(t) ? (unsigned char)text[i] : (uint32_t)t->o.sizes.vocab - 1;
    return true;
}

static void print_token(const trainer *t, int64_t token) {
    size_t      n;
    const char *p = t->words ? gpt2_decode(t->words, token, &n) : NULL;
    if (p) fwrite(p, 1, n, stdout);
    else if (is_bytes(t)) putchar((int)token);
    else printf("%lld ", (long long)token);
    fflush(stdout);
}

/* Draws the token after the n at `at`. */
static int64_t draw(trainer *t, const int64_t *at, int64_t n) {
    td_scope_begin(t->cx, "write");
    td_tensor *x = td_from(t->cx, TD_I64, TD_SHAPE(1, n), at);
    td_tensor *y = td_select(td_module_call(t->run.net, TD_ARGS(x)), 1, -1);
    y = td_multinomial(td_softmax(td_div(y, t->o.heat), -1), 1);
    int64_t next = (int64_t)td_item(y);
    td_scope_end(t->cx, "write", NULL);
    return td_ok(t->cx) ? next : 0;
}

/* Tokens, one after another, each from what came before it. */
static bool write_text(trainer *t) {
    int64_t     most = t->o.sizes.context, n = 0;
    gpt2_tokens from = {NULL, 0, 0};
    int64_t    *at = calloc((size_t)most + 1, sizeof *at);
    bool        ok = at && begin(t, &from);
    for (size_t i = from.n > (size_t)most ? from.n - (size_t)most : 0; ok && i < from.n;
         i++)
        at[n++] = from.v[i];
    free(from.v);
    td_module_train(t->run.net, false);
    td_grad_mode was = td_no_grad_begin(t->cx);
    if (ok && t->o.prompt) fputs(t->o.prompt, stdout);
    for (int64_t i = 0; i < t->o.sample && ok && n > 0; i++) {
        int64_t next = draw(t, at, n);
        ok = td_ok(t->cx);
        if (n == most) memmove(at, at + 1, sizeof *at * (size_t)--n);
        at[n++] = next;
        if (ok) print_token(t, next);
    }
    td_no_grad_end(t->cx, was);
    putchar('\n');
    free(at);
    return ok;
}

/* ---- the whole ----------------------------------------------------------- */

static bool ends(const char *s, const char *end) {
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

/* The sizes of --from, its tokenizer, and how many tokens there are. */
static bool settle(trainer *t) {
    options    *o = &t->o;
    static char path[4096];
    if (o->from) {
        snprintf(path, sizeof path, "%s/config.json", o->from);
        if (!gpt2_read_config(t->cx, path, &o->sizes)) return false;
        snprintf(path, sizeof path, "%s/vocab.json", o->from);
        if (!o->tokenizer && !access(path, F_OK)) o->tokenizer = o->from;
    }
    if (o->tokenizer && !(t->words = gpt2_tokenizer_open(t->cx, o->tokenizer)))
        return false;
    bool    text = o->prompt || (o->data && !ends(o->data, ".bin"));
    int64_t n = t->words ? gpt2_tokenizer_count(t->words) : text ? 256 : 0;
    if (!o->from && n) o->sizes.vocab = n;
    if (n > o->sizes.vocab || (n && !t->words && o->sizes.vocab != 256)) {
        td_fail(t->cx, TD_E_ARG, "the model has %lld tokens; give its --tokenizer",
                (long long)o->sizes.vocab);
        return false;
    }
    if (!o->window) o->window = o->sizes.context;
    if (o->window <= o->sizes.context) return true;
    td_fail(t->cx, TD_E_ARG, "--window is longer than the context, %lld",
            (long long)o->sizes.context);
    return false;
}

/* The whole text in tokens. */
static bool encode_file(trainer *t) {
    FILE  *f = fopen(t->o.data, "rb");
    char  *text = NULL;
    size_t n = 0, got = 1;
    for (size_t cap = 1 << 20; f && got; n += got, cap *= 2) {
        char *more = realloc(text, cap);
        if (!more) break;
        text = more;
        got = fread(text + n, 1, cap - n, f);
    }
    bool read = f && !got && !ferror(f);
    if (!read)
        td_fail(t->cx, TD_E_IO, "cannot read %s: %s", t->o.data, strerror(errno));
    if (f) fclose(f);
    bool ok = read && gpt2_encode(t->words, text, n, &t->tokens);
    free(text);
    return ok;
}

static bool open_data(trainer *t) {
    bool           bin = ends(t->o.data, ".bin");
    td_loader_opts how = {TD_LOADER_OPTS,
                          .type = bin ? TD_TOKENS_U16 : TD_TOKENS_U8,
                          .batch = t->o.batch,
                          .window = t->o.window,
                          .seed = (uint64_t)t->o.seed,
                          .vocab = t->o.sizes.vocab};
    if (bin || !t->words) {
        t->run.data = td_loader_open(t->cx, t->o.data, &how);
    } else if (encode_file(t)) {
        how.type = TD_TOKENS_U32;
        t->run.data =
            td_loader_over(t->cx, t->tokens.v, t->tokens.n * sizeof *t->tokens.v, &how);
    }
    return t->run.data != NULL;
}

static bool make_net(trainer *t) {
    char path[4096];
    td_seed(t->cx, (uint64_t)t->o.seed);
    t->run.sizes = t->o.sizes;
    t->run.net = gpt2_make(t->cx, t->o.sizes);
    if (!t->run.net || !t->o.from) return t->run.net != NULL;
    snprintf(path, sizeof path, "%s/model.safetensors", t->o.from);
    return gpt2_load(t->run.net, path);
}

static bool prepare(trainer *t) {
    if (!settle(t) || (t->o.data && !open_data(t)) || !make_net(t)) return false;
    if (!t->o.data) return true;
    td_aot_opts o = {TD_AOT_OPTS, .name = "gpt2", .module = t->run.net};
    char        budget[32];
    snprintf(budget, sizeof budget, "%.6f", t->o.budget);
    if (t->o.budget < 1) td_config_set(t->cx, "memory_budget", budget);
    if (t->o.recompute) gpt2_recompute(t->run.net);
    t->run.opt = td_optim_module(t->run.net, td_adamw(t->o.lr));
    if (t->run.opt && !t->o.eager) t->step = td_aot_step(t->cx, step, t, &o);
    if (!t->run.opt || (!t->step && !t->o.eager)) return false;
    return !t->o.save || gpt2_resume_run(&t->run, t->o.save);
}

/* Everything is made on the device of --device. */
static bool choose_device(trainer *t) {
    td_device dev;
    if (!t->o.device) return true;
    if (!td_device_parse(t->o.device, &dev)) {
        td_fail(t->cx, TD_E_ARG, "--device: there is no kind %s", t->o.device);
        return false;
    }
    td_set_default_device(t->cx, dev);
    return td_ok(t->cx);
}

int main(int argc, char **argv) {
    trainer t = {.live = isatty(STDOUT_FILENO)};
    if (!options_read(&t.o, argc, argv)) return fputs(options_help, stderr), 2;
    t.cx = td_open();
    bool ok =
        choose_device(&t) && prepare(&t) && (!t.o.data || train(&t)) && write_text(&t);
    if (!ok) fprintf(stderr, "gpt2: %s\n", td_message(t.cx));
    td_fn_drop(t.step);
    td_optim_free(t.run.opt);
    td_module_free(t.run.net);
    td_loader_close(t.run.data);
    gpt2_tokenizer_close(t.words);
    free(t.tokens.v);
    td_close(t.cx);
    return !ok;
}
