/* tandem/grad.h -- requires-grad, backward, hooks, custom functions, checkpoints
 * and gradient checks. The rules are those of PyTorch's eager autograd. */
#ifndef TANDEM_GRAD_H
#define TANDEM_GRAD_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- which tensors take gradients --------------------------------------- */

/* Does the tensor take part in differentiation? A view does when its base does. */
TD_API bool       td_requires_grad(const td_tensor *t);
/* Leaves of a float dtype only; TD_E_GRAD otherwise. Returns t, nil on failure. */
TD_API td_tensor *td_set_requires_grad(td_tensor *t, bool on);
#define td_requires_grad_(t) td_set_requires_grad((t), true)
/* No op on the tape made it: gradients stop here. */
TD_API bool       td_is_leaf(td_tensor *t);
/* Cuts the tensor itself off its history. Refused for a view. Returns t. */
TD_API td_tensor *td_detach_(td_tensor *t);
TD_API bool       td_is_inference(const td_tensor *t);

/* The accumulated gradient. Alive at least until the scope that is innermost at this
 * call ends. Where there is none it is nil (td_is_nil), without an error; an op that is
 * given this nil records one. */
TD_API td_tensor *td_grad_of(td_tensor *t);
TD_API bool       td_has_grad(td_tensor *t);
/* Replaces it; NULL or nil takes it away. Sizes and dtype must be those of t. */
TD_API bool       td_set_grad(td_tensor *t, td_tensor *grad);
TD_API void       td_zero_grad(td_tensor *t); /* takes the gradient away */
/* A tensor that is no leaf gets a gradient too. Survives writes to it. */
TD_API bool       td_retain_grad(td_tensor *t);
TD_API bool       td_retains_grad(const td_tensor *t);

/* ---- backward ----------------------------------------------------------- */

/* Options carry their size: write {TD_BACKWARD_OPTS, .retain_graph = true}. */
typedef struct td_backward_opts {
    size_t size           TD_SIZE(td_backward_opts);
    bool retain_graph     TD_0; /* saved values stay for another backward */
    bool create_graph     TD_0; /* gradients have a history; implies retain_graph */
    td_tensor_list inputs TD_0; /* accumulate into these only; none: every leaf */
} td_backward_opts;
#define TD_BACKWARD_OPTS .size = sizeof(td_backward_opts)

typedef struct td_grad_opts {
    size_t size       TD_SIZE(td_grad_opts);
    bool retain_graph TD_0, create_graph TD_0;
    bool allow_unused    TD_0; /* an input that was not used has gradient nil */
    bool materialize     TD_0; /* ...or zeros; implies allow_unused */
    td_tensor_list grads TD_0; /* of the outputs; none or a NULL entry: one */
} td_grad_opts;
#define TD_GRAD_OPTS .size = sizeof(td_grad_opts)

/* Accumulates d root / d leaf into the gradient of every leaf. root: one element.
 *   fails  TD_E_GRAD  root has no history, saved values are gone or were written */
TD_API bool td_backward(td_tensor *root);
/* Several roots. grads may be shorter than roots or have NULL entries: those roots
 * must have one element and get the gradient one. opts may be NULL. */
TD_API bool td_backward_with(td_tensors roots, td_tensors grads,
                             const td_backward_opts *opts);
/* grads[i] = d outputs / d inputs[i], in the innermost scope; no leaf is touched.
 * On failure all are nil and false is returned. opts may be NULL. */
TD_API bool td_grad(td_tensors outputs, td_tensors inputs, td_tensor **grads,
                    const td_grad_opts *opts);

/* ---- grad modes --------------------------------------------------------- */

/* What a _begin found; its _end puts it back. Guards nest. */
typedef struct td_grad_mode {
    bool grad, inference;
} td_grad_mode;

TD_API bool         td_grad_enabled(const td_ctx *cx);
TD_API bool         td_inference_enabled(const td_ctx *cx);
TD_API void         td_set_grad_enabled(td_ctx *cx, bool on);
TD_API td_grad_mode td_no_grad_begin(td_ctx *cx);
TD_API void         td_no_grad_end(td_ctx *cx, td_grad_mode was);
TD_API td_grad_mode td_enable_grad_begin(td_ctx *cx);
TD_API void         td_enable_grad_end(td_ctx *cx, td_grad_mode was);
/* Results made inside can never take part in differentiation. */
TD_API td_grad_mode td_inference_begin(td_ctx *cx, bool on);
TD_API void         td_inference_end(td_ctx *cx, td_grad_mode was);

/* Backward checks every gradient for NaN and names the forward op, its source
 * line and scope. Costs time. Returns what was set before. */
TD_API bool td_set_anomaly(td_ctx *cx, bool on);

/* ---- the graph ---------------------------------------------------------- */

typedef struct td_node td_node; /* an op that was recorded */

/* The node that made t; NULL for a leaf. Alive while t is and is not written. */
TD_API td_node    *td_grad_fn(td_tensor *t);
TD_API const char *td_grad_fn_name(td_tensor *t); /* "mul"; "" for a leaf */
TD_API int         td_output_nr(td_tensor *t);    /* which result of that node */
TD_API const char *td_node_name(const td_node *n);
/* The nodes gradients go to: how many, and the i-th, NULL where none is needed. */
TD_API int         td_node_edges(const td_node *n);
TD_API td_node    *td_node_edge(const td_node *n, int i);

/* ---- hooks -------------------------------------------------------------- */

/* Names one hook; 0 is no hook. td_hook_remove of a hook that is gone is fine. A list
 * of hooks runs those it had when it began: one that another hook of the same list
 * removes still runs that time, and needs its env until the backward is over. */
typedef uint64_t td_hook;

/* Sees the gradient of a tensor; returns another in its place, NULL to leave it,
 * nil (td_fail) to stop the backward. Runs in the order of registration. */
typedef td_tensor *td_grad_hook(void *env, td_tensor *grad);
/* After the gradient of leaf t has been accumulated. */
typedef bool       td_leaf_hook(void *env, td_tensor *t);
/* Before a node runs: may replace grads[i], the gradients of its results; an entry
 * may be NULL. */
typedef bool       td_pre_hook(void *env, td_tensor **grads, int n);
/* After it has run: may replace made[i], the gradients of its inputs. */
typedef bool       td_post_hook(void *env, td_tensor **made, int n_made,
                                td_tensor *const *grads, int n);

TD_API td_hook td_on_grad(td_tensor *t, td_grad_hook *fn, void *env);
TD_API td_hook td_on_accumulated(td_tensor *leaf, td_leaf_hook *fn, void *env);
TD_API td_hook td_on_node_pre(td_node *n, td_pre_hook *fn, void *env);
TD_API td_hook td_on_node_post(td_node *n, td_post_hook *fn, void *env);
TD_API void    td_hook_remove(td_ctx *cx, td_hook hook);

/* Values saved for backward pass through the innermost pair: pack gets a detached
 * tensor and returns what to hold, unpack makes a tensor of it again, drop lets go
 * of it (each packed value once; may be NULL). A NULL from pack, or a nil from
 * unpack, is a failure. */
typedef struct td_saved_hooks {
    void *(*pack)(void *env, td_tensor *t)TD_0;
    td_tensor *(*unpack)(void *env, void *packed, td_ctx *cx)TD_0;
    void (*drop)(void *env, void *packed) TD_0;
    void *env TD_0;
} td_saved_hooks;
TD_API bool td_saved_hooks_push(td_ctx *cx, const td_saved_hooks *hooks);
TD_API void td_saved_hooks_pop(td_ctx *cx);

/* ---- custom functions --------------------------------------------------- */

/* What forward and backward of one call share. */
typedef struct td_fcall td_fcall;

typedef struct td_function {
    const char *name TD_0;
    /* Computes out[0..n_out) from in; nothing inside is recorded. */
    bool (*forward)(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) TD_0;
    /* Fills grad[i] for the inputs; NULL stays "no gradient". An entry of g is NULL
     * when no gradient arrived and td_fcall_materialize was switched off. */
    bool (*backward)(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                     int n_in) TD_0;
    /* Runs once, when the graph lets go of the call, or right away when nothing
     * is recorded. May be NULL. */
    void (*destroy)(void *payload) TD_0;
} td_function;

/* in may hold NULL entries. False: out is all nil, see td_message. */
TD_API bool td_function_call(td_ctx *cx, const td_function *fn, void *payload,
                             td_tensors in, td_tensor **out, int n_out);

TD_API td_ctx    *td_fcall_ctx(const td_fcall *f);
TD_API void      *td_fcall_payload(const td_fcall *f);
/* In forward: keep inputs, results or temporaries for backward. Inputs and results
 * are checked for later writes. Call it once. */
TD_API bool       td_fcall_save(td_fcall *f, td_tensors saved);
/* In backward: the i-th of them; nil, with an error, when they are gone. */
TD_API td_tensor *td_fcall_saved(td_fcall *f, int i);
/* Keep a tensor as it is, unchecked, for the life of the call. */
TD_API bool       td_fcall_stash(td_fcall *f, td_tensors kept);
TD_API td_tensor *td_fcall_stashed(td_fcall *f, int i);
/* In forward: these inputs were written; they must be among the results. */
TD_API bool       td_fcall_mark_dirty(td_fcall *f, td_tensors written);
/* In forward: these results take no gradient. */
TD_API bool       td_fcall_mark_non_differentiable(td_fcall *f, td_tensors results);
/* Gradients that did not arrive are zeros (the default) or NULL. */
TD_API void       td_fcall_materialize(td_fcall *f, bool on);
/* Is a gradient of input i wanted? */
TD_API bool       td_fcall_needs(const td_fcall *f, int i);

/* ---- checkpoint --------------------------------------------------------- */

/* A region: fills out[0..n_out) from in; false stops. It may run again. */
typedef bool td_region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                       int n_out);

/* Runs the region, keeps its inputs only, and computes what its backward reads by
 * running it again, with the same random numbers. env must stay valid as long as
 * the results' history. A backward inside the region runs it again too. Inputs may not
 * be written between the call and the backward, nor by the region: the backward fails.
 * The region should not write other tensors that outlive it either: it would do so each
 * time it runs, and how often that is may change. */
TD_API bool td_checkpoint(td_ctx *cx, td_region *fn, void *env, td_tensors in,
                          td_tensor **out, int n_out);
/* The same for a region without random numbers, or one that may draw anew. Captured,
 * one that draws and takes gradients is refused. */
TD_API bool td_checkpoint_fresh(td_ctx *cx, td_region *fn, void *env, td_tensors in,
                                td_tensor **out, int n_out);

/* What compiled code does with the results of an op that backward reads. It is a
 * matter of memory and time only, never of values: run eagerly, everything is
 * computed again. */
typedef enum td_policy {
    TD_POLICY_NONE, /* as if there were no region */
    TD_MUST_SAVE,
    TD_PREFER_SAVE,
    TD_PREFER_RECOMPUTE, /* what td_checkpoint asks for */
    TD_MUST_RECOMPUTE
} td_policy;
/* Asked for each op of a region while it is captured, by the op's name ("matmul"). */
typedef td_policy td_policy_fn(void *env, const char *op);

/* td_checkpoint with a choice for each op. */
typedef struct td_checkpoint_opts {
    size_t size          TD_SIZE(td_checkpoint_opts);
    td_region *region    TD_0;
    void *env            TD_0;
    td_policy_fn *policy TD_0; /* NULL: TD_PREFER_RECOMPUTE for all */
    void *policy_env     TD_0;
    bool fresh           TD_0; /* as td_checkpoint_fresh */
} td_checkpoint_opts;
#define TD_CHECKPOINT_OPTS .size = sizeof(td_checkpoint_opts)
TD_API bool td_checkpoint_with(td_ctx *cx, td_tensors in, td_tensor **out, int n_out,
                               const td_checkpoint_opts *opts);

/* ---- checks ------------------------------------------------------------- */

typedef struct td_check_opts {
    size_t size TD_SIZE(td_check_opts);
    double eps TD_0, atol TD_0, rtol TD_0; /* 0: 1e-6, 1e-5, 1e-3 */
    double nondet TD_0; /* most difference of two runs; 0: none allowed */
} td_check_opts;
#define TD_CHECK_OPTS .size = sizeof(td_check_opts)

/* Compares derivatives with central differences at `in` (f64; the entries that
 * require grad are varied). Results that are not floats or do not require grad are
 * passed over. False, with the first bad entry in td_message, when they differ. */
TD_API bool td_gradcheck(td_ctx *cx, td_region *fn, void *env, td_tensors in, int n_out,
                         const td_check_opts *opts);
/* The same for the gradients themselves. */
TD_API bool td_gradgradcheck(td_ctx *cx, td_region *fn, void *env, td_tensors in,
                             int n_out, const td_check_opts *opts);

#ifdef __cplusplus
}
#endif

#endif
