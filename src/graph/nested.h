/* nested.h -- how ops that take graphs run them, for nested.c and nested_loop.c. */
#ifndef TD_GRAPH_NESTED_H
#define TD_GRAPH_NESTED_H

#include "graph/graph_int.h"
#include "ops/call.h"

/* Nested graphs run below all modes, on tensors without bytes if `fake`. Ends with
 * td__modes_leave. */
td_mode_scope td__nested_enter(td_ctx *cx, bool fake);

/* Results of g, called `which` in errors, on ts; they become the innermost scope's. */
bool td__nested_run(td_opcall *c, const td_graph *g, const char *which, td_tensors ts,
                    td_tensor **out);
/* Results that are views or share bytes with what was given, or with each other, are
 * copied. How often one was written on the way nobody is told. */
bool td__nested_own(td_opcall *c, const td_graph *g, td_tensors ts, td_tensor **out);
/* One element, as true or false; only of a tensor with bytes. */
bool td__nested_flag(td_opcall *c, const td_tensor *t, const char *what, bool *on);
/* Fails where result i, a, looks otherwise than b, which is `what`. */
bool td__nested_agree(td_opcall *c, const td_tensor *a, const td_tensor *b, int i,
                      const char *what);
/* n pointers for the length of the call; NULL after td__fail. */
td_tensor **td__nested_room(td_opcall *c, int n);

#endif
