/* tandem/grad.h -- requires-grad, backward, hooks, custom functions, checkpoints
 * and gradient checks. The rules are those of PyTorch's eager autograd. */
#ifndef TANDEM_GRAD_H
#define TANDEM_GRAD_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- requires_grad and gradients ------------------------------------------- */

/* Does the tensor take part in differentiation? A view does if its base does. */
TD_API bool       td_requires_grad(const td_tensor *t);
/* Sets requires_grad of a leaf with a float dtype. Returns t; nil after a failure:
 * TD_E_GRAD for other tensors. */
TD_API td_tensor *td_set_requires_grad(td_tensor *t, bool on);
#define td_requires_grad_(t) td_set_requires_grad((t), true)
/* Is it no result of a recorded op? Gradients accumulate in leaves. */
TD_API bool       td_is_leaf(td_tensor *t);
/* Removes the tensor's own history. An error for a view. In inference mode it does
 * nothing, as in PyTorch. Returns t. */
TD_API td_tensor *td_detach_(td_tensor *t);
TD_API bool       td_is_inference(const td_tensor *t);

/* The accumulated gradient; nil, without an error, if there is none. It lives at
 * least until the scope that is innermost at this call ends. Passing the nil to an op
 * is an error. */
TD_API td_tensor *td_grad_of(td_tensor *t);
TD_API bool       td_has_grad(td_tensor *t);
/* Replaces the gradient; NULL or nil removes it. Sizes and dtype must be those of t.
 * False after a failure. */
TD_API bool       td_set_grad(td_tensor *t, td_tensor *grad);
TD_API void       td_zero_grad(td_tensor *t); /* removes the gradient */
/* Makes backward store a gradient in a tensor that is no leaf. Later writes to the
 * tensor do not change that. */
TD_API bool       td_retain_grad(td_tensor *t);
TD_API bool       td_retains_grad(const td_tensor *t);

/* ---- backward ----------------------------------------------------------- */

typedef struct td_backward_fn td_backward_fn; /* tandem/compiled_backward.h */

/* Options carry their size: write {TD_BACKWARD_OPTS, .retain_graph = true}. */
typedef struct td_backward_opts {
    TD_SIZE(td_backward_opts);
    bool retain_graph     TD_0; /* do not free saved values: backward may run again */
    bool create_graph     TD_0; /* gradients are differentiable; implies retain_graph */
    td_tensor_list inputs TD_0; /* accumulate into these only; empty: every leaf */
    td_backward_fn *with  TD_0; /* runs it as compiled code (td_aot_backward); NULL: op
                                 * by op */
} td_backward_opts;
#define TD_BACKWARD_OPTS .td_backward_opts_size = sizeof(td_backward_opts)

typedef struct td_grad_opts {
    TD_SIZE(td_grad_opts);
    bool retain_graph TD_0, create_graph TD_0;
    bool allow_unused    TD_0; /* the gradient of an unused input is nil, no error */
    bool materialize     TD_0; /* the gradient of an unused input is zeros */
    td_tensor_list grads TD_0; /* gradients of the outputs; empty or NULL: 1 */
    td_backward_fn *with TD_0; /* as in td_backward_opts */
} td_grad_opts;
#define TD_GRAD_OPTS .td_grad_opts_size = sizeof(td_grad_opts)

/* Accumulates d root / d leaf into the gradient of every leaf. root must have one
 * element. False after a failure.
 *   fails  TD_E_GRAD  root has no history; saved values were freed or modified */
TD_API bool td_backward(td_tensor *root);
/* Several roots. grads may be shorter than roots, or have NULL entries: those roots
 * must have one element, and their gradient is 1. opts may be NULL. False after a
 * failure. */
TD_API bool td_backward_with(td_tensors roots, td_tensors grads,
                             const td_backward_opts *opts);
/* grads[i] = d outputs / d inputs[i], in the innermost scope; no leaf accumulates.
 * opts may be NULL. False after a failure: all grads are nil. */
TD_API bool td_grad(td_tensors outputs, td_tensors inputs, td_tensor **grads,
                    const td_grad_opts *opts);

/* ---- grad modes --------------------------------------------------------- */

/* The state before a _begin, which its _end restores. Regions nest. */
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

/* Makes backward check every gradient for NaN and name the forward op, its source
 * line and scope. Slow. Returns the previous setting. */
TD_API bool td_set_anomaly(td_ctx *cx, bool on);

/* ---- the graph ---------------------------------------------------------- */

typedef struct td_node td_node; /* a recorded op */

/* The node that made t; NULL for a leaf. Valid while t lives and is not written. */
TD_API td_node    *td_grad_fn(td_tensor *t);
TD_API const char *td_grad_fn_name(td_tensor *t); /* "mul"; "" for a leaf */
TD_API int         td_output_nr(td_tensor *t);    /* which result of that node */
TD_API const char *td_node_name(const td_node *n);
/* The number of edges of a node, and the node at edge i; NULL: no gradient is needed
 * there. */
TD_API int         td_node_edges(const td_node *n);
TD_API td_node    *td_node_edge(const td_node *n, int i);

/* ---- hooks -------------------------------------------------------------- */

/* Identifies a hook; 0: none. td_hook_remove of a removed hook does nothing. A list
 * of hooks runs those that it had when it began: a hook that another hook of the same
 * list removes still runs this time, and needs its env until the backward is over. */
typedef uint64_t td_hook;

/* Gets the gradient of a tensor. Returns a replacement, NULL to leave it, or nil
 * (td_fail) to stop the backward. Hooks run in order of registration. */
typedef td_tensor *td_grad_hook(void *env, td_tensor *grad);
/* Called after the gradient of leaf t was accumulated. */
typedef bool       td_leaf_hook(void *env, td_tensor *t);
/* Called before a node runs: may replace grads[i], the gradients of its results, by
 * others of the same sizes and dtype. NULL: no gradient arrives; it may set an entry to
 * NULL, not a NULL entry to a tensor. A node without any gradient does not run. */
typedef bool       td_pre_hook(void *env, td_tensor **grads, int n);
/* Called after a node ran: may replace made[i], the gradients of its inputs, as a pre
 * hook may. */
typedef bool       td_post_hook(void *env, td_tensor **made, int n_made,
                                td_tensor *const *grads, int n);

/* In a captured body: t must be a tensor that the body has computed. fn runs once, on a
 * gradient without elements, and its ops become ops of backward (docs/aot.md, Hooks in
 * a body). The other kinds of hooks are errors there. */
TD_API td_hook td_on_grad(td_tensor *t, td_grad_hook *fn, void *env);
TD_API td_hook td_on_accumulated(td_tensor *leaf, td_leaf_hook *fn, void *env);
TD_API td_hook td_on_node_pre(td_node *n, td_pre_hook *fn, void *env);
TD_API td_hook td_on_node_post(td_node *n, td_post_hook *fn, void *env);
TD_API void    td_hook_remove(td_ctx *cx, td_hook hook);

/* Values saved for backward pass through the innermost pair of hooks: pack gets a
 * detached tensor and returns any object, unpack makes a tensor from it, drop frees
 * it (once per packed value; may be NULL). NULL from pack and nil from unpack are
 * failures. */
typedef struct td_saved_hooks {
    void *(*pack)(void *env, td_tensor *t)TD_0;
    td_tensor *(*unpack)(void *env, void *packed, td_ctx *cx)TD_0;
    void (*drop)(void *env, void *packed) TD_0;
    void *env TD_0;
} td_saved_hooks;
TD_API bool td_saved_hooks_push(td_ctx *cx, const td_saved_hooks *hooks);
TD_API void td_saved_hooks_pop(td_ctx *cx);

/* ---- custom functions --------------------------------------------------- */

/* One call of a custom function, shared by its forward and backward. */
typedef struct td_fcall td_fcall;

typedef struct td_function {
    const char *name TD_0;
    /* Computes out[0..n_out) from in; its ops are not recorded. */
    bool (*forward)(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) TD_0;
    /* Fills grad[i] for the inputs; NULL: no gradient. An entry of g is NULL if no
     * gradient arrived and td_fcall_materialize was switched off. */
    bool (*backward)(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                     int n_in) TD_0;
    /* Frees the payload: once, when the graph drops the call, or at once if nothing is
     * recorded. May be NULL. */
    void (*destroy)(void *payload) TD_0;
} td_function;

/* Calls a custom function; entries of `in` may be NULL. False after a failure: out is
 * all nil. In a captured body, forward and backward run during the capture and not in
 * later calls, and more than once if the capture is repeated (another specialization,
 * sizes that depend on values): what they do to C variables or files is not repeated in
 * each call. */
TD_API bool td_function_call(td_ctx *cx, const td_function *fn, void *payload,
                             td_tensors in, td_tensor **out, int n_out);

TD_API td_ctx    *td_fcall_ctx(const td_fcall *f);
TD_API void      *td_fcall_payload(const td_fcall *f);
/* In forward, once: saves inputs, results or temporaries for backward. Inputs and
 * results are checked for later writes. */
TD_API bool       td_fcall_save(td_fcall *f, td_tensors saved);
/* In backward: saved tensor i; nil and an error if they were freed. */
TD_API td_tensor *td_fcall_saved(td_fcall *f, int i);
/* Stores tensors for the life of the call, without checks. */
TD_API bool       td_fcall_stash(td_fcall *f, td_tensors kept);
TD_API td_tensor *td_fcall_stashed(td_fcall *f, int i);
/* In forward: declares inputs that were written; they must be among the results. */
TD_API bool       td_fcall_mark_dirty(td_fcall *f, td_tensors written);
/* In forward: declares results without a gradient. */
TD_API bool       td_fcall_mark_non_differentiable(td_fcall *f, td_tensors results);
/* Missing gradients are zeros (the default) or NULL. */
TD_API void       td_fcall_materialize(td_fcall *f, bool on);
/* Is the gradient of input i required? */
TD_API bool       td_fcall_needs(const td_fcall *f, int i);

/* ---- checkpoint --------------------------------------------------------- */

/* A region: computes out[0..n_out) from in. False stops. It may run more than once. A
 * result may be NULL, as a gradient taken inside may; numbers go into env. */
typedef bool td_region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                       int n_out);

/* Runs the region, saves only its inputs, and recomputes in backward by running it
 * again with the same random numbers. env must stay valid as long as the results'
 * history. A backward inside the region reruns it too. Inputs must not be written by
 * the region, nor between the call and the backward: the backward fails then. Inputs
 * are saved through saved-tensor hooks if any are pushed; then the region is rerun on
 * what these unpack. The region should not write other tensors that outlive it, because
 * the number of its runs is unspecified. */
TD_API bool td_checkpoint(td_ctx *cx, td_region *fn, void *env, td_tensors in,
                          td_tensor **out, int n_out);
/* The same for a region without random numbers, or whose random numbers may differ in
 * the second run. Unsupported in a capture if it draws and requires gradients. */
TD_API bool td_checkpoint_fresh(td_ctx *cx, td_region *fn, void *env, td_tensors in,
                                td_tensor **out, int n_out);

/* What compiled code does with results that backward reads. It affects memory and
 * time only, never values; eager execution recomputes everything. */
typedef enum td_policy {
    TD_POLICY_NONE, /* as if there were no region */
    TD_MUST_SAVE,
    TD_PREFER_SAVE,
    TD_PREFER_RECOMPUTE, /* the policy of td_checkpoint */
    TD_MUST_RECOMPUTE,
    TD_MUST_OFFLOAD /* saved, and offloaded by a function with td_aot_opts.offload */
} td_policy;
/* Called for each op of a region during its capture, with the op's name ("matmul"). */
typedef td_policy td_policy_fn(void *env, const char *op);

/* td_checkpoint with a policy per op. */
typedef struct td_checkpoint_opts {
    TD_SIZE(td_checkpoint_opts);
    td_region *region    TD_0;
    void *env            TD_0;
    td_policy_fn *policy TD_0; /* NULL: TD_PREFER_RECOMPUTE for all */
    void *policy_env     TD_0;
    bool fresh           TD_0; /* as td_checkpoint_fresh */
} td_checkpoint_opts;
#define TD_CHECKPOINT_OPTS .td_checkpoint_opts_size = sizeof(td_checkpoint_opts)
TD_API bool td_checkpoint_with(td_ctx *cx, td_tensors in, td_tensor **out, int n_out,
                               const td_checkpoint_opts *opts);

/* ---- checks ------------------------------------------------------------- */

typedef struct td_check_opts {
    TD_SIZE(td_check_opts);
    double eps TD_0, atol TD_0, rtol TD_0; /* 0: 1e-6, 1e-5, 1e-3 */
    double nondet TD_0;                    /* allowed difference between two runs */
} td_check_opts;
#define TD_CHECK_OPTS .td_check_opts_size = sizeof(td_check_opts)

/* Compares derivatives with central differences at `in` (f64; entries that require
 * grad are varied). Results that are not floats, or do not require grad, are skipped.
 * False if they differ; td_message has the first entry that does. */
TD_API bool td_gradcheck(td_ctx *cx, td_region *fn, void *env, td_tensors in, int n_out,
                         const td_check_opts *opts);
/* The same for second derivatives. */
TD_API bool td_gradgradcheck(td_ctx *cx, td_region *fn, void *env, td_tensors in,
                             int n_out, const td_check_opts *opts);

#ifdef __cplusplus
}
#endif

#endif
