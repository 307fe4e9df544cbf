/* cli/demo.h -- the network of `tandem demo`, on the public API alone. */
#ifndef TD_DEMO_H
#define TD_DEMO_H

#include "tandem/tandem.h"

enum { DEMO_LAYERS = 3, DEMO_PARAMS = 2 * DEMO_LAYERS };

typedef struct demo {
    td_ctx    *cx;
    td_tensor *x, *y;           /* points [n,2] in [-1,1], arms 0 or 1 [n] */
    td_tensor *fresh, *fresh_y; /* points it never trains on */
    td_tensor *param[DEMO_PARAMS], *mean[DEMO_PARAMS], *square[DEMO_PARAMS];
    int64_t    step, steps;
} demo;

/* All of these: false, or NaN, when something failed; td_message(d->cx) says what. */
bool    demo_open(demo *d, int64_t points, int64_t hidden, int64_t steps, int64_t seed);
void    demo_close(demo *d);
double  demo_step(demo *d); /* one step of training; the loss before it */
double  demo_accuracy(demo *d, bool fresh);
int64_t demo_numel(const demo *d); /* parameters in all */
/* Probability of arm 1 on a size by size grid over [-1,1]^2, row 0 at y = 1. */
bool    demo_map(demo *d, float *p, int size);

/* Compares backward with central differences in f64 for every parameter. each is
 * called after each parameter with how many are done; it may be NULL. Returns the
 * largest |difference| / max(|a|, |b|, a thousandth of the largest gradient). */
double demo_check(demo *d, void (*each)(void *env, int64_t done), void *env);

#endif
