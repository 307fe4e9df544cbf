/* options.h -- what the program is told. */
#ifndef GPT2_OPTIONS_H
#define GPT2_OPTIONS_H

#include "model.h"

typedef struct options {
    const char *data, *save, *from, *tokenizer, *prompt, *device;
    gpt2_sizes  sizes;
    int64_t     batch, window, steps, every, sample, seed;
    double      lr, heat, budget;
    bool        eager, recompute;
} options;

/* False after wrong ones; then this is for the user. */
bool                     options_read(options *o, int argc, char **argv);
extern const char *const options_help;

#endif
