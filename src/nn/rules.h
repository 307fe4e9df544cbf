/* nn/rules.h -- what the update rules of optimizers share. rules.c has the table of
 * rules, rules_adam.c and rules_sgd.c the updates. */
#ifndef TD_RULES_ROOM_H
#define TD_RULES_ROOM_H

#include "nn/optim.h"

/* Values that the updates of a group share; a vector has one entry per parameter. */
typedef struct td_shared {
    td_tensor *rate;  /* f64[] or f64[n] */
    td_tensor *fix;   /* f64[n]; Adam: sqrt(1 - beta2^t); SGD: 1 - dampening */
    td_tensor *now;   /* f64[n]; NAdam: mu; RAdam: is the variance known? (bool[n]) */
    td_tensor *next;  /* f64[n]; NAdam: mu of the next step */
    td_tensor *decay; /* f64[]: 1 - lr * weight_decay; NULL: no decoupled decay */
} td_shared;

/* The update of one parameter with gradient g; the tensors are its entries. */
typedef struct td_update {
    const td_rule    *r;
    const td_trained *t;
    td_tensor        *g, *step;
    td_shared         by;
} td_update;

typedef void td_share_fn(const td_group *g, td_shared *s);
typedef void td_update_fn(const td_update *u);

/* The gradient with L2 weight decay added, if the rule has it. */
td_tensor *td__rule_decayed(const td_update *u);
/* Decoupled weight decay of the parameter, if the rule has it. */
void       td__rule_shrink(const td_update *u);
/* p -= rate * by; the rate is f64[]. */
void       td__rule_descend(const td_update *u, td_tensor *by, td_tensor *rate);
/* t += w * (by - t); w is f64[]. */
void       td__rule_mix(td_tensor *t, td_tensor *by, td_tensor *w);

td_share_fn  td__share_sgd, td__share_adam, td__share_adagrad, td__share_adamax;
td_share_fn  td__share_nadam, td__share_radam;
td_update_fn td__step_sgd, td__step_adam, td__step_rmsprop, td__step_adagrad;
td_update_fn td__step_lion, td__step_muon, td__step_adadelta, td__step_adamax;
td_update_fn td__step_nadam, td__step_radam, td__step_adafactor, td__step_asgd;
td_update_fn td__step_rprop;
/* By sparse gradients (rules_sparse.c). */
td_share_fn  td__share_sparse_adam;
td_update_fn td__sparse_sgd, td__sparse_adagrad, td__sparse_adam;

#endif
