/* cli/demo.h -- the parts of `tandem demo`: gradient checks, a small GPT and its
 * speed. */
#ifndef TD_DEMO_H
#define TD_DEMO_H

#include "examples/gpt2/model.h"

#include "core/core.h"
#include "tandem/data.h"
#include "tandem/optim.h"

extern const char *const demo_text[]; /* paragraphs; NULL ends them (demo_text.c) */

/* ---- gradients (demo_grads.c) ------------------------------------------- */

enum { DEMO_CHECKS = 7 };

/* Derivatives of a compiled function compared with finite differences. */
typedef struct demo_check {
    const char *name, *what;
    int64_t     count; /* number of derivatives compared */
    double      worst; /* |difference| / max(|a|, |b|, a thousandth of the largest) */
    bool        good;
} demo_check;

/* Runs check i. False after td__fail. */
bool demo_check_one(td_ctx *cx, int i, demo_check *to);

/* ---- a small GPT (demo_gpt.c) ------------------------------------------- */

typedef struct demo_sizes {
    gpt2_sizes net;
    int64_t    batch, steps, sample, rounds; /* rounds: of the measurement */
} demo_sizes;

/* The speed of a training step. */
typedef struct demo_speed {
    double ms, tokens; /* median time of a step; tokens per second */
    size_t peak;       /* peak bytes of all tensors */
} demo_speed;

/* The model with its optimizer, data and compiled training step. */
typedef struct demo_gpt {
    td_ctx    *cx;
    demo_sizes size;
    td_buf     text;
    td_module *net;
    td_optim  *opt;
    td_loader *data;
    td_fn     *step; /* loss, backward, clipping and AdamW as one function */
    int64_t    at;   /* number of steps done */
    double     compile_s;
    size_t     state; /* bytes of parameters and optimizer */
    demo_speed eager, compiled;
} demo_gpt;

/* All of these return false or NaN after td__fail. */
bool    demo_gpt_open(demo_gpt *g, td_ctx *cx, demo_sizes size);
void    demo_gpt_close(demo_gpt *g); /* a zeroed struct is allowed */
int64_t demo_gpt_numel(demo_gpt *g); /* parameters in all */
double  demo_gpt_train(demo_gpt *g); /* one compiled step; the loss before it */
/* One step with learning rate 0, compiled or eager. */
double  demo_gpt_idle(demo_gpt *g, bool compiled);
/* Appends `bytes` sampled bytes to `to`, which begins with the prompt. */
bool    demo_gpt_write(demo_gpt *g, td_buf *to, int64_t bytes);
/* Alternates eager and compiled steps; fills g->eager and g->compiled. */
bool    demo_gpt_measure(demo_gpt *g);

#endif
