/* core/stack.h -- how much stack a thread has left, for recursion over nested graphs,
 * whose depth the user decides. */
#ifndef TD_STACK_H
#define TD_STACK_H

#include "core/core.h"

/* Is there room for one more level of nested graphs and for all that it calls? False
 * after td__fail. `who` names what nests, for the message. True where the stack is not
 * the thread's own (coroutines). */
bool td__stack_holds(td_ctx *cx, const char *who);

#endif
