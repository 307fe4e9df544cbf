/* core/stack.h -- how much stack a thread has left, for recursion over nested
 * graphs, whose depth the user chooses. */
#ifndef TD_STACK_H
#define TD_STACK_H

#include "core/core.h"

/* Is there enough stack for one more level of nested graphs and everything it
 * calls? False after td__fail; `who` names what is nested. True where the stack
 * is not the thread's own (coroutines). */
bool td__stack_holds(td_ctx *cx, const char *who);

#endif
