/* eager/eager.h -- autograd, as later stages see it. The tape is the mode at
 * the bottom of the mode stack: it receives every op that is not composite, and
 * gives results that need gradients a node (their grad_fn). The engine walks
 * these nodes in backward. */
#ifndef TD_EAGER_H
#define TD_EAGER_H

#include "graph/graph.h"
#include "tandem/autocast.h"
#include "tandem/grad.h"

/* requires_grad of t. A floating-point view requires grad if its base does. */
static inline bool td__needs_grad(const td_tensor *t) {
    if (t->flags & TD_TF_NEEDS_GRAD) return true;
    return t->base && t->base->flags & TD_TF_NEEDS_GRAD &&
           td__is_differentiable((td_dtype)t->dtype);
}

/* Does the tape record at the moment? Not under no_grad or in inference mode. */
static inline bool td__recording(const td_ctx *cx) {
    return cx->grad_enabled && !cx->inference;
}

/* ---- the .grad of a tensor (gradmode.c) --------------------------------- */

/* How the .grad of a tensor was used since td__grad_at_entry. A capture reads it from
 * its fake copies to learn what the body did with the .grad of its arguments. */
typedef enum td_grad_use {
    TD_GRAD_READ = 1, /* the result depends on the .grad at entry, or its absence */
    TD_GRAD_ACCUMULATED = 2, /* a backward accumulated into it */
    TD_GRAD_SET = 4,         /* it was replaced or cleared */
    TD_GRAD_WANTED = 8,      /* td_grad computed the tensor's gradient */
    TD_GRAD_REACHED = 16     /* a leaf: a backward in a capture has a path to it */
} td_grad_use;
unsigned   td__grad_use(const td_tensor *t);
/* Sets the .grad that t, a fake copy, has at entry. Its sizes may differ from
 * t's, if the original's sizes were changed after the backward. False after
 * td__fail. */
bool       td__grad_at_entry(td_tensor *t, td_tensor *g);
/* After set_ gave a leaf other sizes: ops that read it from now on send
 * gradients of the new sizes to a new accumulation node; earlier ops keep the
 * old one. */
void       td__accumulator_renew(td_tensor *t);
void       td__grad_want(td_tensor *t);  /* adds TD_GRAD_WANTED */
void       td__grad_reach(td_tensor *t); /* adds TD_GRAD_REACHED */
bool       td__grad_read(td_tensor *t);  /* adds TD_GRAD_READ; false after td__fail */
/* The .grad of t itself, without noting its use; NULL: none. */
td_tensor *td__own_grad(const td_tensor *t);
/* td_retains_grad of t itself, also where a captured body may not ask. */
bool       td__retains_grad(const td_tensor *t);
/* Would a hook or td_retain_grad observe a gradient that reaches t? `accumulated`:
 * count td_on_accumulated hooks, which observe only accumulation into .grad. */
bool       td__grad_hooked(const td_tensor *t, bool accumulated);
/* The tensor whose .grad is meant by t: in a capture the fake copy of a real
 * tensor, else t. */
td_tensor *td__stand_in(td_tensor *t);

/* td_is_leaf of t itself, not of the fake copy that a captured body sees. */
bool        td__is_leaf(td_tensor *t);
/* td_grad_fn and td_grad_fn_name, likewise. */
td_node    *td__grad_fn(td_tensor *t);
const char *td__made_by(td_tensor *t);

/* What the checkpoint region around ops of a capture requests for them. */
struct td_wish {
    int           region; /* number of the region, from 1 */
    td_policy_fn *policy; /* per op; NULL: TD_PREFER_RECOMPUTE for all */
    void         *env;    /* of policy */
    bool         *draws;  /* set to true if an op in it draws random numbers */
};

/* The call of a custom function, handed to a mode that records it
 * (td_mode.function). */
struct td_fncall {
    td_ctx            *cx;
    const td_function *fn;
    void              *payload;
    td_tensors         in;
    td_tensor        **out;
    int                n_out;
};

/* Arguments of op `custom`, which a captured custom function becomes
 * (ops/nested.def). */
enum {
    TD_CUSTOM_NAME,
    TD_CUSTOM_FORWARD,
    TD_CUSTOM_BACKWARD,
    TD_CUSTOM_INPUTS,
    TD_CUSTOM_FIXED,
    TD_CUSTOM_DIRTY,
    TD_CUSTOM_PLAIN,
    TD_CUSTOM_STASH,
    TD_CUSTOM_MATERIALIZE,
    TD_CUSTOM_ONCE,
    TD_CUSTOM_ERROR,
    TD_CUSTOM_CODE
};

/* A gradient hook that a captured body registers or removes, for the recorder
 * (td_mode.hook). */
struct td_hookcall {
    td_tensor    *t; /* the hook is registered on it; NULL: hook `id` is removed */
    td_grad_hook *fn;
    void         *env;
    uint64_t      id;
};

/* Does a hook of a captured body, registered after the hook with id `after`, close over
 * a tensor in the storage? */
bool         td__hooks_read(const td_ctx *cx, uint64_t after, const td_storage *st);
/* The sum of the versions of all tensors that such hooks close over, but for those of
 * which `skip` is true: it grows if one of them is written. */
typedef bool td_storage_test(const void *env, const td_storage *st);
uint64_t     td__hooks_versions(const td_ctx *cx, uint64_t after, td_storage_test *skip,
                                const void *env);
/* In the backward that is traced next, such hooks read by(env, t) in place of each
 * tensor t that they close over; NULL: t itself. False if `by` fails. */
typedef td_tensor *td_stand_in(void *env, td_tensor *t);
bool td__hooks_replace(td_ctx *cx, uint64_t after, td_stand_in *by, void *env);
/* The same for tensors that custom functions have stashed (td_fcall_stash), which are
 * saved without a version check. */
bool td__stashes_replace(td_ctx *cx, uint64_t after, td_stand_in *by, void *env);
/* A stashed tensor in place of which a backward wrote another; NULL: there is none. */
const td_tensor *td__stashes_written(const td_ctx *cx, uint64_t after);
/* Notes that st is the storage of an argument of the traced call: hooks registered
 * after `after` that read it do so in backward. */
void             td__hooks_note_given(td_ctx *cx, uint64_t after, const td_storage *st);
/* Fails for such a hook that reads result nr: what it reads depends on the caller.
 * Always returns false. */
bool             td__hooks_fail_result(td_ctx *cx, const td_tensor *t, int nr);
/* Arguments of op `on_grad`, which a hook of a captured body becomes. */
enum {
    TD_ON_GRAD_X,
    TD_ON_GRAD_HOOK,
    TD_ON_GRAD_FIXED,
    TD_ON_GRAD_ERROR,
    TD_ON_GRAD_CODE
};
/* May a captured body register a hook on t? Not if the hook would outlive the call,
 * because t is a leaf or has its grad_fn from outside. False after td__fail. */
bool td__hook_stays_inside(td_tensor *t);
/* May a hook return `by`, or NULL, for the gradient `old`? False after td__fail. */
bool td__hook_may_return(td_ctx *cx, const td_tensor *old, const td_tensor *by);

/* Eager calls a hook once, with the sum of all gradients of its tensor; compiled code
 * of double backward once for each part of the sum. NULL if that is the same for node n
 * of a graph, or n is no `on_grad`; else what the hook does, for a message that ends
 * with TD_HOOK_TWICE. */
const char *td__hook_not_linear(const td_gnode *n);
#define TD_HOOK_TWICE                                                             \
    "Compiled code would call it twice, with parts of the gradient, where eager " \
    "calls "                                                                      \
    "it once with the sum. Register it outside of the body"

/* A custom function in pieces, for a capture: forward and backward are called
 * separately, on fake tensors, and what forward declared is read off (custom.c). */

/* What forward declared through td_fcall_*. Borrowed from the td_fcall. */
typedef struct td_fsaid {
    td_tensors  saved; /* td_fcall_save: for backward, with version checks */
    td_tensors  stash; /* td_fcall_stash: for backward, without checks or history */
    td_tensors  dirty; /* td_fcall_mark_dirty: inputs it wrote */
    td_tensors  plain; /* td_fcall_mark_non_differentiable: results */
    const char *name;  /* of the function */
    bool        materialize; /* backward gets zeros for missing gradients */
} td_fsaid;
/* The values backward reads: saved ones, then stashed ones. */
typedef struct td_fkept {
    td_tensors all;
    int        n_saved;
} td_fkept;
/* Takes over the payload. need[] is by input and must live as long as the result.
 * NULL after td__fail, with the payload destroyed. */
td_fcall *td__fcall_open(const td_fncall *call, const bool *need);
void      td__fcall_close(td_fcall *f); /* destroys the payload */
bool td__fcall_forward(td_fcall *f, td_tensor *const *in, td_tensor **out, int n_out);
void td__fcall_said(const td_fcall *f, td_fsaid *s);
bool td__fcall_backward(td_fcall *f, const td_fkept *kept, td_tensor *const *g,
                        int n_out, td_tensor **grad);
/* Zeros with the sizes and dtype of result i, in backward of a recorded call.
 * nil on failure. */
td_tensor *td__fcall_zeros(const td_fcall *f, int i);

/* Zeros with the sizes and dtype of result i, for derivative rules that need a
 * gradient that did not arrive. nil on failure. */
td_tensor *td__vjp_zeros(const td_vjp *v, int i);

/* ---- autocast (autocast.c) ---------------------------------------------- */

/* 0 without autocast, else one number per dtype. Part of the key of a compiled
 * call. */
int            td__autocast_state(const td_ambient *a);
/* The region's cast of weight t; NULL: t is no weight. nil after td__fail. */
td_tensor     *td__autocast_weight(td_ctx *cx, td_tensor *t, td_dtype to);
/* The first mode after autocast. */
const td_mode *td__modes_below_autocast(const td_ctx *cx);

/* ---- modes that affect the result of a call (gradmode.c) ---------------- */

/* The ambient state that a call's result depends on. Keys of compiled calls contain
 * it, and a capture starts from it. The rest of the ambient state is hidden from
 * captures. */
typedef struct td_modes {
    bool     grad, inference;
    td_dtype default_dtype;
    int      autocast; /* td__autocast_state */
    uint8_t  device;   /* td_ambient.device */
} td_modes;
td_modes    td__modes_of(const td_ambient *a);
/* Restores grad mode, inference mode, default dtype and device of `from` in a context
 * whose ambient state was cleared. Autocast is not restored: a capture begins
 * it itself, and in a replay the casts are ops of the program. */
void        td__modes_resume(td_ctx *cx, const td_ambient *from);
/* Which of these modes (other than grad and inference mode, whose changes
 * programs record) a body changed and did not restore; NULL: none. */
const char *td__modes_left(const td_ctx *cx, const td_ambient *from);

#endif
