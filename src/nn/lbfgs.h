/* nn/lbfgs.h -- LBFGS: the state of its group, the step and the line search. */
#ifndef TD_LBFGS_ROOM_H
#define TD_LBFGS_ROOM_H

#include "nn/optim.h"

/* What a step of LBFGS works on. A vector has one element per element of the
 * parameters, in their order. */
typedef struct td_lbfgs_run {
    td_optim   *o;
    td_ctx     *cx;
    td_loss_fn *fn;
    void       *env;
    uint64_t    revision; /* of the optimizer at the start of the step */
    int         evals;    /* calls of fn in this step */
    double      first;    /* what the first one returned, and its dtype */
    td_dtype    dtype;
} td_lbfgs_run;

/* A place on the line: the loss and its gradient there. */
typedef struct td_on_line {
    double     at, loss, slope; /* slope: gradient times direction */
    td_tensor *grad;
} td_on_line;

/* The loss and gradient at the parameters, by the closure. A failed call has loss NaN;
 * the context has the error. */
td_on_line td__lbfgs_eval(td_lbfgs_run *s);
/* Parameters += t * d. */
void       td__lbfgs_move(td_lbfgs_run *s, td_tensor *d, double t);
/* Parameters = x. */
void       td__lbfgs_put(td_lbfgs_run *s, td_tensor *x);
double     td__lbfgs_dot(td_tensor *a, td_tensor *b);
double     td__lbfgs_largest(td_tensor *a); /* absolute value */

/* Searches the line from the parameters along d for a place that satisfies the strong
 * Wolfe conditions, by at most `most` calls of the closure after the first, which is at
 * t. `from` is the start, where the parameters are `start`. Leaves them at the place.
 * */
td_on_line td__strong_wolfe(td_lbfgs_run *s, td_tensor *d, td_on_line from, double t,
                            td_tensor *start, int most);

#endif
