/* nn/optim.h -- optimizers: groups, state of parameters, and update rules. */
#ifndef TD_OPTIM_ROOM_H
#define TD_OPTIM_ROOM_H

#include "module/deps.h"
#include "module/state_files.h"
#include "nn/nn.h"
#include "tandem/optim.h"

/* State tensors of a parameter, named as in PyTorch. */
typedef enum td_slot_id {
    TD_S_EXP_AVG,
    TD_S_EXP_AVG_SQ,
    TD_S_MAX_EXP_AVG_SQ,
    TD_S_EXP_INF,
    TD_S_MU_PRODUCT,
    TD_S_MOMENTUM,
    TD_S_SQUARE_AVG,
    TD_S_GRAD_AVG,
    TD_S_ACC_DELTA,
    TD_S_SUM,
    TD_S_ROW_VAR,
    TD_S_COL_VAR,
    TD_S_VARIANCE,
    TD_S_AX,
    TD_S_ETA,
    TD_S_MU,
    TD_S_PREV,
    TD_S_STEP_SIZE,
    TD_S_GRAD_SUM, /* accumulated gradients (td_optim_make_sums); not in PyTorch */
    TD_S_COUNT
} td_slot_id;

/* State tensors of a group with LBFGS; names as in PyTorch. */
typedef enum td_lbfgs_slot {
    TD_L_D,         /* the last direction */
    TD_L_PREV_GRAD, /* the gradient that it started from */
    TD_L_OLD_DIRS,  /* the history, a row for each step: changes of the gradient, */
    TD_L_OLD_STPS,  /* of the parameters, */
    TD_L_RO,        /* and 1 / their product */
    TD_L_NUMBERS,   /* counts, and the last length and loss */
    TD_L_COUNT
} td_lbfgs_slot;

/* A parameter and its state. Each tensor has a reference. */
typedef struct td_trained {
    td_tensor *p;
    char      *name;              /* in files, owned; NULL: its number */
    td_tensor *state[TD_S_COUNT]; /* NULL: the rule has no such state */
} td_trained;

/* Parameters with one rule. */
typedef struct td_group {
    td_rule    rule;
    td_tensor *lr, *steps; /* f64[] and f64[n], owned; tensors, so that captures vary */
    td_tensor *flat[TD_L_COUNT]; /* LBFGS; else NULL */
    TD_VEC(td_trained) at;
} td_group;

struct td_optim {
    TD_OWNED_FIELDS;
    TD_VEC(td_group) groups;
    TD_VEC(td_tensor *) grads; /* scratch: one gradient per parameter */
    bool         sums;         /* td_optim_make_sums was called */
    td_revision *revision;     /* changes with groups and parameters */
};

const char *td__slot_name(td_slot_id k);
/* A parameter's state before the first step; nil after a failure. */
td_tensor  *td__slot_make(td_tensor *p, const td_rule *r, td_slot_id k);
/* Has the state the type that its parameter requires? */
bool        td__slot_fits(const td_tensor *p, const td_tensor *state, td_slot_id k);
/* Equal dtype and sizes? Symbolic sizes are left to the ops of the step. */
bool        td__same_type(const td_tensor *a, const td_tensor *b);

/* The set of td_slot_id that the rule uses for a parameter. */
unsigned td__rule_slots(const td_rule *r, const td_tensor *p);
/* Are the rule's numbers in range? False after td__fail. */
bool     td__rule_check(td_ctx *cx, const td_rule *r);
/* Can the rule update parameter nr by this gradient? Sparse ones are not for all rules.
 * False after td__fail. */
bool     td__rule_takes(const td_rule *r, const char *who, int nr, const td_tensor *g);
/* One step of a group; grads[i] belongs to its i-th parameter, NULL: skip it. Errors
 * are left in the context. */
void     td__rule_step(const td_group *g, td_tensor *const *grads);

/* The name of a state tensor of LBFGS; the tensor before the first step, nil after a
 * failure; a step. */
const char *td__lbfgs_name(td_lbfgs_slot k);
td_tensor  *td__lbfgs_make(td_tensors params, const td_rule *r, td_lbfgs_slot k);
td_tensor  *td__lbfgs_step(td_optim *o, td_loss_fn *fn, void *env);
/* Calls the closure with gradients enabled. The loss; nil after td__fail. */
td_tensor  *td__closure_call(td_optim *o, td_loss_fn *fn, void *env);

/* Makes a capture in progress depend on the groups and parameters, and names the
 * state tensors in it. False after td__fail. */
bool td__optim_used(const td_optim *o);
/* As td__module_state and td__module_load_begin. */
bool td__optim_state(const td_optim *o, const char *prefix, td_state_out *out);
typedef struct td_optim_load_plan td_optim_load_plan;
td_optim_load_plan *td__optim_load_begin(td_optim *o, const td_state_in *in);
bool                td__optim_load_write(td_optim_load_plan *l);
void                td__optim_load_end(td_optim_load_plan *l); /* NULL is allowed */

/* Copies the parameters' .grad to o->grads; NULL: none. False after td__fail. */
bool td__optim_grads(td_optim *o);

#endif
