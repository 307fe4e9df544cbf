/* nn/optim.h -- optimizers: groups, and what a rule does to one parameter. */
#ifndef TD_OPTIM_ROOM_H
#define TD_OPTIM_ROOM_H

#include "module/deps.h"
#include "nn/nn.h"
#include "tandem/optim.h"

/* State of a parameter, as PyTorch names it. */
typedef enum td_slot_id {
    TD_S_EXP_AVG,
    TD_S_EXP_AVG_SQ,
    TD_S_MAX_EXP_AVG_SQ,
    TD_S_MOMENTUM,
    TD_S_SQUARE_AVG,
    TD_S_GRAD_AVG,
    TD_S_SUM,
    TD_S_GRAD_SUM, /* td_optim_make_sums; ours */
    TD_S_COUNT
} td_slot_id;

typedef struct td_trained {
    td_tensor *p;                 /* held */
    td_tensor *state[TD_S_COUNT]; /* kept; NULL: the rule has none */
} td_trained;

typedef struct td_group {
    td_rule    rule;
    td_tensor *lr, *steps; /* f64[], f64[n]; kept */
    TD_VEC(td_trained) at;
} td_group;

struct td_optim {
    TD_OWNED_FIELDS;
    TD_VEC(td_group) groups;
    TD_VEC(td_tensor *) grads; /* room for one per parameter */
    bool         sums;
    td_revision *revision; /* moves with groups and parameters */
};

extern const char *const td__slot_names[TD_S_COUNT];

/* Bit i: the rule keeps state i. */
unsigned td__rule_slots(const td_rule *r);
/* False after td__fail, which names the number and its range. */
bool     td__rule_check(td_ctx *cx, const td_rule *r);
/* One step of a group; grads[i] of its i-th parameter, NULL: none. */
void     td__rule_step(const td_group *g, td_tensor *const *grads);

/* A capture under way depends on groups and parameters, and knows the tensors of the
 * state by the names of these. False after td__fail. */
bool td__optim_used(td_optim *o);
/* The gradients the parameters have, in o->grads; NULL: none. False after td__fail. */
bool td__optim_grads(td_optim *o);

#endif
