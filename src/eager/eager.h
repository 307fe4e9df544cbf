/* eager/eager.h -- the tape and the engine, as the rooms to the right see them.
 * The tape is an ordinary mode at the bottom of the stack; it hears every op that
 * is not composite and hangs a node on results that need gradients. */
#ifndef TD_EAGER_H
#define TD_EAGER_H

#include "ops/ops.h"
#include "tandem/grad.h"

/* Takes part in differentiation? A view does when its base does, unless it
 * reinterprets bits. */
static inline bool td__needs_grad(const td_tensor *t) {
    if (t->flags & TD_TF_NEEDS_GRAD) return true;
    return t->base && t->base->flags & TD_TF_NEEDS_GRAD && !(t->flags & TD_TF_CUT) &&
           td__is_float((td_dtype)t->dtype);
}

/* Is the context recording? */
static inline bool td__recording(const td_ctx *cx) {
    return cx->grad_enabled && !cx->inference;
}

/* Zeros of the sizes and dtype of result i, for rules whose gradient i did not
 * arrive. nil on failure. */
td_tensor *td__vjp_zeros(const td_vjp *v, int i);

#endif
