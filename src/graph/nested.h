/* nested.h -- executing the graphs of ops that take graphs; for nested*.c. */
#ifndef TD_GRAPH_NESTED_H
#define TD_GRAPH_NESTED_H

#include "graph/graph_int.h"
#include "ops/call.h"

/* Nested graphs run below all modes, on tensors without bytes if `fake`. Ends with
 * td__modes_leave. */
td_mode_scope td__nested_enter(td_ctx *cx, bool fake);

/* Replays g, the graph argument `which`, on ts; results belong to the innermost
 * scope. */
bool td__nested_run(td_opcall *c, const td_graph *g, const char *which, td_tensors ts,
                    td_tensor **out);
/* Clones results that are views or share storage with ts, consts or each other, and
 * resets their versions to 0: how often a graph wrote a result is not observable. */
bool td__nested_own(td_opcall *c, const td_graph *g, td_tensors ts, td_tensor **out);
/* Reads a predicate of one element; of a fake tensor only its size is checked. */
bool td__nested_flag(td_opcall *c, const td_tensor *t, const char *what, bool *on);
/* Fails if result i, a, differs from b in dtype, sizes or strides; `what` names b in
 * the message. */
bool td__nested_agree(td_opcall *c, const td_tensor *a, const td_tensor *b, int i,
                      const char *what);
/* Scratch memory for n pointers during the call; NULL after td__fail. */
td_tensor **td__nested_scratch(td_opcall *c, int n);

/* A loop in progress. ts: the current state, then the fixed tensors. */
typedef struct td_loop_run {
    td_opcall  *c;
    td_graph   *test, *body;
    td_value    state, fixed;
    int         n, n_fixed;
    td_tensor **ts, **next;
    bool        keeps;        /* store the state before each iteration in past */
    TD_VEC(td_tensor *) past; /* [iterations * n] */
} td_loop_run;

/* Checks the numbers of results of test and body, and allocates the state. */
bool td__loop_make(td_loop_run *l);
/* Iterates until the test is 0; once on fake tensors, to check that types agree. */
bool td__loop_run(td_loop_run *l, bool fake);

#endif
