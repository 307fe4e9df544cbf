/* eager/eager.h -- the tape and the engine, as the rooms to the right see them.
 * The tape is an ordinary mode at the bottom of the stack; it hears every op that
 * is not composite and hangs a node on results that need gradients. */
#ifndef TD_EAGER_H
#define TD_EAGER_H

#include "graph/graph.h"
#include "tandem/autocast.h"
#include "tandem/grad.h"

/* Takes part in differentiation? A view does when its base does. */
static inline bool td__needs_grad(const td_tensor *t) {
    if (t->flags & TD_TF_NEEDS_GRAD) return true;
    return t->base && t->base->flags & TD_TF_NEEDS_GRAD &&
           td__is_float((td_dtype)t->dtype);
}

/* Is the context recording? */
static inline bool td__recording(const td_ctx *cx) {
    return cx->grad_enabled && !cx->inference;
}

/* ---- the gradient a tensor keeps (gradmode.c) --------------------------- */

/* What was done with it since td__grad_came; a capture asks that of its copies. */
typedef enum td_grad_use {
    TD_GRAD_ASKED = 1, /* it mattered whether there was one at first */
    TD_GRAD_FED = 2,   /* a backward accumulated */
    TD_GRAD_SET = 4,   /* replaced, or taken away */
    TD_GRAD_WANTED = 8 /* td_grad computed one, which is not kept */
} td_grad_use;
unsigned   td__grad_use(const td_tensor *t);
/* t, new in a capture, has the gradient g from the start, whose sizes need not be t's:
 * those of the original may have changed since. False after td__fail. */
bool       td__grad_came(td_tensor *t, td_tensor *g);
/* set_ may have given t other sizes: ops that read it from now on send gradients of
 * these, ops that read it before those of the old ones. */
void       td__accumulator_renew(td_tensor *t);
void       td__grad_want(td_tensor *t);          /* notes TD_GRAD_WANTED */
td_tensor *td__own_grad(const td_tensor *t);     /* not td_grad_of's; NULL: none */
bool       td__retains_grad(const td_tensor *t); /* also of what a capture was given */
/* Does a hook or td_retain_grad see a gradient that reaches t? td_on_accumulated sees
 * only what a backward adds to the gradient that t keeps. (hooks.c) */
bool       td__grad_hooked(const td_tensor *t, bool accumulated);
/* The tensor that counts where t's gradient is meant; in a capture its copy. */
td_tensor *td__stand_in(td_tensor *t);

/* td_is_leaf of t itself, not of the copy that a captured body sees. */
bool        td__is_leaf(td_tensor *t);
/* td_grad_fn and td_grad_fn_name, likewise. */
td_node    *td__grad_fn(td_tensor *t);
const char *td__made_by(td_tensor *t);

/* What the checkpoint region around the ops of a capture asks for them. */
struct td_wish {
    int           region; /* 1 upwards */
    td_policy_fn *policy; /* NULL: TD_PREFER_RECOMPUTE */
    void         *env;
    bool         *draws; /* set where an op in it draws random numbers */
};

/* The call of a custom function, for the mode that takes it over. */
struct td_fncall {
    td_ctx            *cx;
    const td_function *fn;
    void              *payload;
    td_tensors         in;
    td_tensor        **out;
    int                n_out;
};

/* Such a call taken apart: forward and backward run once each, on tensors without
 * bytes, and what they say is asked for (custom.c). */
typedef struct td_fsaid {
    td_tensors  saved, stash, dirty, plain; /* after forward */
    const char *name;
    bool        materialize;
} td_fsaid;
typedef struct td_fkept {
    td_tensors all; /* what was saved, then what was stashed */
    int        n_saved;
} td_fkept;
/* NULL after td__fail; then the payload is gone. need[] by input, while f lives. */
td_fcall *td__fcall_open(const td_fncall *call, const bool *need);
void      td__fcall_close(td_fcall *f); /* destroys the payload */
bool td__fcall_forward(td_fcall *f, td_tensor *const *in, td_tensor **out, int n_out);
void td__fcall_said(const td_fcall *f, td_fsaid *s);
bool td__fcall_backward(td_fcall *f, const td_fkept *kept, td_tensor *const *g,
                        int n_out, td_tensor **grad);
/* In backward of a recorded call: zeros like result i. nil on failure. */
td_tensor *td__fcall_zeros(const td_fcall *f, int i);

/* Zeros of the sizes and dtype of result i, for rules whose gradient i did not
 * arrive. nil on failure. */
td_tensor *td__vjp_zeros(const td_vjp *v, int i);

/* ---- autocast (autocast.c) ---------------------------------------------- */

/* What is on: 0 nothing, else one number per dtype. Part of what a program was captured
 * for. */
int            td__autocast_state(const td_ambient *a);
/* Who else hears calls, first to last. */
const td_mode *td__modes_below_autocast(const td_ctx *cx);

/* ---- ambient state that has a meaning (gradmode.c) ---------------------- */

/* The ambient state that is part of the meaning of a call: keys have it as one word,
 * and a capture starts from it. Everything else ambient is invisible to a trace. */
typedef struct td_modes {
    bool     grad, inference;
    td_dtype default_dtype;
    int      autocast; /* td__autocast_state */
} td_modes;
td_modes    td__modes_of(const td_ambient *a);
/* Grad mode, inference mode and default dtype of `from`, in a context whose ambient
 * state was cleared. Not autocast, which a capture begins itself: the casts are ops of
 * the program, and a replay must not cast again. */
void        td__modes_resume(td_ctx *cx, const td_ambient *from);
/* NULL, or which of them differs between the context and a trace's start: the body has
 * left it changed. Grad mode and inference mode may; programs record them. */
const char *td__modes_left(const td_ctx *cx, const td_ambient *from);

#endif
