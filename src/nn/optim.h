/* nn/optim.h -- optimizers: groups, state of parameters, and update rules. */
#ifndef TD_OPTIM_ROOM_H
#define TD_OPTIM_ROOM_H

#include "module/deps.h"
#include "nn/nn.h"
#include "tandem/optim.h"

/* State tensors of a parameter, named as in PyTorch. */
typedef enum td_slot_id {
    TD_S_EXP_AVG,
    TD_S_EXP_AVG_SQ,
    TD_S_MAX_EXP_AVG_SQ,
    TD_S_MOMENTUM,
    TD_S_SQUARE_AVG,
    TD_S_GRAD_AVG,
    TD_S_SUM,
    TD_S_GRAD_SUM, /* accumulated gradients (td_optim_make_sums); not in PyTorch */
    TD_S_COUNT
} td_slot_id;

/* A parameter and its state. Each tensor has a reference. */
typedef struct td_trained {
    td_tensor *p;
    td_tensor *state[TD_S_COUNT]; /* NULL: the rule has no such state */
} td_trained;

/* Parameters with one rule. */
typedef struct td_group {
    td_rule    rule;
    td_tensor *lr, *steps; /* f64[] and f64[n], owned; tensors, so that captures vary */
    TD_VEC(td_trained) at;
} td_group;

struct td_optim {
    TD_OWNED_FIELDS;
    TD_VEC(td_group) groups;
    TD_VEC(td_tensor *) grads; /* scratch: one gradient per parameter */
    bool         sums;         /* td_optim_make_sums was called */
    td_revision *revision;     /* changes with groups and parameters */
};

extern const char *const td__slot_names[TD_S_COUNT];

/* The set of td_slot_id that the rule uses. */
unsigned td__rule_slots(const td_rule *r);
/* Are the rule's numbers in range? False after td__fail. */
bool     td__rule_check(td_ctx *cx, const td_rule *r);
/* One step of a group; grads[i] belongs to its i-th parameter, NULL: skip it. Errors
 * are left in the context. */
void     td__rule_step(const td_group *g, td_tensor *const *grads);

/* Makes a capture in progress depend on the groups and parameters, and names the
 * state tensors in it. False after td__fail. */
bool td__optim_used(const td_optim *o);
/* Copies the parameters' .grad to o->grads; NULL: none. False after td__fail. */
bool td__optim_grads(td_optim *o);

#endif
