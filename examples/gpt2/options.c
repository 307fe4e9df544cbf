/* options.c -- reads the command line. */
#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const options_help =
    "gpt2 --data FILE [option value]...    trains, then writes\n"
    "gpt2 --from DIR [option value]...     only writes\n"
    "\n"
    "  --data FILE       a text, or a file that ends in .bin with u16 tokens of GPT-2\n"
    "  --tokenizer DIR   texts in GPT-2's tokens: vocab.json and merges.txt, or\n"
    "                    encoder.json and vocab.bpe; without it a byte is a token\n"
    "  --from DIR        begin with these weights: config.json, model.safetensors\n"
    "                    as Hugging Face has them, and its tokenizer if it is there\n"
    "  --save DIR        a checkpoint every --every steps, DIR/step-N; a run that "
    "finds\n"
    "                    one goes on from it\n"
    "  --steps N  100    --batch N  4    --window N   tokens of a sequence: the "
    "context\n"
    "  --lr X  3e-4      --every N  50   --seed N  1  --eager  steps are not compiled\n"
    "  --device NAME     where it runs: cpu, cuda, cuda:1\n"
    "  --recompute       blocks are computed again in backward: less memory, more "
    "time\n"
    "  --budget X  1     down to 0: how much memory a compiled step may keep\n"
    "  --model NAME      small (124M, unless told otherwise), medium, large or xl; or\n"
    "  --layers N  --heads N  --width N  --context N\n"
    "  --prompt TEXT     what the writing goes on from\n"
    "  --sample N  200   tokens to write      --heat X  0.8   how daring it is\n";

static const size_t MOST_PATH = 3000;

static bool is(const char *a, const char *name) { return !strcmp(a, name); }

/* ---- one ----------------------------------------------------------------- */

static bool set_model(gpt2_sizes *s, const char *name) {
    static const struct {
        const char *name;
        int64_t     layers, heads, width;
    } models[] = {{"small", 12, 12, 768},
                  {"medium", 24, 16, 1024},
                  {"large", 36, 20, 1280},
                  {"xl", 48, 25, 1600}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (!is(models[i].name, name)) continue;
        s->layers = models[i].layers;
        s->heads = models[i].heads;
        s->width = models[i].width;
        return true;
    }
    return false;
}

static int64_t *number(options *o, const char *name) {
    return is(name, "--steps")     ? &o->steps
           : is(name, "--batch")   ? &o->batch
           : is(name, "--window")  ? &o->window
           : is(name, "--context") ? &o->sizes.context
           : is(name, "--layers")  ? &o->sizes.layers
           : is(name, "--heads")   ? &o->sizes.heads
           : is(name, "--width")   ? &o->sizes.width
           : is(name, "--every")   ? &o->every
           : is(name, "--sample")  ? &o->sample
           : is(name, "--seed")    ? &o->seed
                                   : NULL;
}

static const char **text(options *o, const char *name) {
    return is(name, "--data")        ? &o->data
           : is(name, "--save")      ? &o->save
           : is(name, "--from")      ? &o->from
           : is(name, "--tokenizer") ? &o->tokenizer
           : is(name, "--prompt")    ? &o->prompt
           : is(name, "--device")    ? &o->device
                                     : NULL;
}

static bool set(options *o, const char *name, const char *v) {
    int64_t     *n = number(o, name);
    const char **s = text(o, name);
    char        *end = NULL;
    if (s) return *s = v, s == &o->prompt || strlen(v) <= MOST_PATH;
    if (is(name, "--model")) return set_model(&o->sizes, v);
    if (n) return *n = strtoll(v, &end, 10), end != v && !*end && *n > 0;
    if (is(name, "--budget"))
        return o->budget = strtod(v, &end),
               end != v && !*end && o->budget >= 0 && o->budget <= 1;
    double *x = is(name, "--lr") ? &o->lr : is(name, "--heat") ? &o->heat : NULL;
    return x && (*x = strtod(v, &end), end != v && !*end && *x > 0);
}

/* ---- all ----------------------------------------------------------------- */

static bool refuse(const char *name, const char *v) {
    if (v) fprintf(stderr, "gpt2: no option %s, or not with the value %s\n\n", name, v);
    else fprintf(stderr, "gpt2: no option %s, or it has no value\n\n", name);
    return false;
}

bool options_read(options *o, int argc, char **argv) {
    *o = (options){.sizes = gpt2_small,
                   .batch = 4,
                   .steps = 100,
                   .every = 50,
                   .sample = 200,
                   .seed = 1,
                   .lr = 3e-4,
                   .budget = 1,
                   .heat = 0.8};
    for (int i = 1; i < argc; i++) {
        if (is(argv[i], "--eager")) o->eager = true;
        else if (is(argv[i], "--recompute")) o->recompute = true;
        else if (i + 1 == argc || !set(o, argv[i], argv[i + 1]))
            return refuse(argv[i], argv[i + 1]);
        else i++;
    }
    return (o->data || o->from) && o->sizes.width % o->sizes.heads == 0;
}
