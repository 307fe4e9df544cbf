/* runtime/steps.h -- the prologue or the epilogue of a call as the flat list that a
 * warm call walks. */
#ifndef TD_STEPS_H
#define TD_STEPS_H

#include "eager/node.h"
#include "graph/graph.h"

typedef struct td_plan_step {
    td_step_fn *run; /* of an op that only plans have; NULL: any other op, */
    td_op       op;
    bool        sets_mode; /* ...or none: the grad mode changes to */
    bool        grad, inference;
    int         n_in, n_out;
    int         first; /* slot of the first result */
    td_value   *in;    /* what is no tensor, by argument */
    int32_t    *from;  /* slot of a tensor, by argument; -1: none */
} td_plan_step;

typedef struct td_steps {
    bool          flat; /* else the graphs are replayed */
    int           n, n_slots;
    td_plan_step *v;
    td_value     *outs;     /* what is no tensor, by output */
    int32_t      *out_slot; /* -1: none */
    td_arena      arena;
} td_steps;

/* Of graphs with the same inputs, in the modes that hold now; prologue may be NULL. To
 * be freed either way; false after td__fail. */
bool td__steps_make(td_steps *s, const td_graph *prologue, const td_graph *epilogue);
void td__steps_free(td_steps *s);
/* slot[n_slots] begins with the inputs of the graphs. */
bool td__steps_run(const td_steps *s, td_ctx *cx, td_value *slot, td_value *out,
                   int n_out);

#endif
