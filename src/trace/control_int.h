/* control_int.h -- backward graphs of branches and loops; for control_vjp.c and
 * control_loop*.c. */
#ifndef TD_CONTROL_INT_H
#define TD_CONTROL_INT_H

#include "trace/trace.h"

/* One backward graph to capture. */
typedef struct td_backward_job {
    const td_graph *g;           /* the forward graph */
    int             n_in, n_out; /* its operands and results */
    const bool     *need;        /* by operand: compute its gradient */
    const bool     *have;        /* by result: a gradient arrived */
    int             sums; /* operands from this one on get a running sum as input */
    bool       *reached;  /* by operand: set where gradients reach it; NULL: unused */
    int         skipped;  /* arguments between the operands and the gradients */
    /* By operand, for typed gradients (td_grad_types); NULL: unused. */
    td_tensor **made;       /* receives the gradient, if there is one; referenced */
    td_tensor *const *like; /* the type of zeros for a missing one; NULL: that of the
                             * operand */
} td_backward_job;

/* By operand: its gradient in a first capture, whose type later captures use. */
typedef struct td_grad_types {
    td_tensor **v; /* referenced; NULL: no gradient arrived */
    int         n;
} td_grad_types;

bool td__grad_types_make(td_ctx *cx, td_grad_types *g, int n);
void td__grad_types_free(td_grad_types *g);

/* Appends a template of t (td__template) to to[]. */
bool      td__add_template(td_value *to, int *n, td_tensor *t, bool grad);
/* May backward recompute graph g of an op? Fails if that would draw other numbers.
 * `what` is as below. */
bool      td__check_repeats(td_ctx *cx, const td_graph *g, const char *what);
/* Captures the backward graph of j->g, which is the graph argument `what` of an
 * op: "yes", "no" (of cond), "body" (of while_loop). NULL after td__fail. */
td_graph *td__capture_backward(td_ctx *cx, td_backward_job *j, td_values args,
                               const char *what);

/* Removes nodes TD_FROM_BEFORE that nothing reads, such as those with effects. Fails if
 * the result of an effect is read; the others become ordinary nodes. */
bool      td__drop_repeats(td_graph *g, const char *what);
/* Graph g of an op whose backward runs it once more: without its effects. One
 * reference; NULL after td__fail. */
td_graph *td__without_effects(td_graph *g, const char *what);

#endif
