/* tandem/optim.h -- optimizers: rules that change parameters by their gradients, with
 * the numbers PyTorch's give; clipping; learning rates as functions of the step.
 *
 *     td_optim *opt = td_optim_module(net, td_adamw(3e-4));
 *     ...
 *     td_backward(loss);
 *     td_optim_step(opt);
 *     td_optim_zero_grad(opt);
 *
 * A step is ordinary ops without gradients on tensors that exist beforehand: state,
 * step counts and learning rates are made with a group. So a step can be part of a
 * captured function, where the learning rate changes without another compilation
 * (docs/training.md). */
#ifndef TANDEM_OPTIM_H
#define TANDEM_OPTIM_H

#include "tandem/module.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- rules -------------------------------------------------------------- */

typedef enum td_rule_kind {
    TD_RULE_SGD,
    TD_RULE_ADAM,
    TD_RULE_ADAMW,
    TD_RULE_RMSPROP,
    TD_RULE_ADAGRAD,
    TD_RULE_LION,
    TD_RULE_MUON,
    TD_RULE_COUNT
} td_rule_kind;

/* How Muon's rate depends on the sizes of a matrix [rows,cols]. */
typedef enum td_muon_scale {
    TD_MUON_ORIGINAL,  /* sqrt(max(1, rows/cols)) */
    TD_MUON_MATCH_ADAM /* 0.2 * sqrt(max(rows, cols)): same rates as AdamW */
} td_muon_scale;

/* An update rule. The functions below fill in PyTorch's defaults; change fields
 * before passing it on. Fields of other kinds are ignored. */
typedef struct td_rule {
    size_t        size;
    td_rule_kind  kind;
    double        lr;
    double        weight_decay; /* AdamW, Lion, Muon: of the parameter, times lr;
                                 * others: added to the gradient */
    double        momentum;     /* SGD, RMSprop, Muon */
    double        dampening;    /* SGD */
    double        beta1, beta2; /* Adam, AdamW, Lion */
    double        eps;          /* Adam, AdamW, RMSprop, Adagrad, Muon */
    double        alpha;        /* RMSprop: decay of the squared average */
    double        lr_decay;     /* Adagrad */
    double        initial;      /* Adagrad: initial sum of squares */
    bool          nesterov;     /* SGD, Muon */
    bool          amsgrad;      /* Adam, AdamW */
    bool          centered;     /* RMSprop */
    bool          maximize;     /* ascend instead of descend; not Muon */
    int           ns_steps;     /* Muon: Newton-Schulz iterations */
    bool          ns_wide;      /* Muon: iterate in the parameter's dtype, not bf16 */
    td_muon_scale scale;        /* Muon */
} td_rule;

TD_API td_rule td_sgd(double lr);     /* momentum 0 */
TD_API td_rule td_adam(double lr);    /* betas 0.9, 0.999, eps 1e-8 */
TD_API td_rule td_adamw(double lr);   /* the same, weight_decay 0.01 */
TD_API td_rule td_rmsprop(double lr); /* alpha 0.99, eps 1e-8 */
TD_API td_rule td_adagrad(double lr); /* eps 1e-10 */
TD_API td_rule td_lion(double lr);    /* betas 0.9, 0.99 */
/* For matrices, beside another rule for the rest: momentum 0.95, nesterov, weight_decay
 * 0.1, 5 steps. */
TD_API td_rule td_muon(double lr);

/* ---- making ------------------------------------------------------------- */

typedef struct td_optim td_optim;

/* An optimizer without groups; nil after a failure. Belongs to the context's thread;
 * td_close frees it if td_optim_free did not. */
TD_API td_optim *td_optim_make(td_ctx *cx);
/* All parameters of a module in one group; nil for a nil module. */
TD_API td_optim *td_optim_module(td_module *m, td_rule rule);
TD_API void      td_optim_free(td_optim *o); /* NULL is allowed */
/* Adds a group, which keeps its parameters alive, and makes their state.
 *
 *   returns  its number, from 0; -1 after a failure
 *   fails    TD_E_ARG    a number of the rule is out of range; a parameter is in
 *                        a group of this optimizer already
 *            TD_E_GRAD   a parameter is not a leaf
 *            TD_E_DTYPE  it is not a float    TD_E_SHAPE  Muon: it is not a matrix */
TD_API int       td_optim_add(td_optim *o, td_tensors params, td_rule rule);

TD_API int     td_optim_groups(const td_optim *o);
TD_API td_rule td_optim_rule(const td_optim *o, int group); /* its lr: td_optim_lr */
/* The parameters in the order of groups: returns their number; out gets the first
 * `cap`. */
TD_API int     td_optim_params(const td_optim *o, td_tensor **out, int cap);
/* The rate is a tensor f64[] that steps read; setting it writes that tensor. group
 * -1: all. */
TD_API bool    td_optim_set_lr(td_optim *o, int group, double lr);
TD_API double  td_optim_lr(const td_optim *o, int group);

/* ---- stepping ----------------------------------------------------------- */

/* One step with the parameters' gradients; a parameter without one is skipped, and
 * its step count stays. Gradients are not changed. Everything is checked before
 * anything is written; after that only exhausted memory can interrupt a step. */
TD_API bool td_optim_step(td_optim *o);
/* The same with the given gradients, one per parameter (td_optim_params), NULL or nil
 * for none. For results of td_grad. */
TD_API bool td_optim_step_with(td_optim *o, td_tensors grads);
TD_API void td_optim_zero_grad(td_optim *o); /* removes the gradients */

/* Accumulates results of td_grad over several batches; td_backward accumulates by
 * itself. Makes the sums, once, as zeros. */
TD_API bool td_optim_make_sums(td_optim *o);
/* Adds scale times the gradients, one for each parameter, NULL or nil for none. */
TD_API bool td_optim_add_to_sums(td_optim *o, td_tensors grads, double scale);
/* Steps with the sums, and zeroes them. A parameter without gradients has sum zero. */
TD_API bool td_optim_step_sums(td_optim *o);

/* ---- clipping ----------------------------------------------------------- */

/* Scales the gradients in place such that their total norm is at most `most` (order
 * p; INFINITY: largest element). NULL and nil entries are skipped. Returns the norm
 * before, 0-d; nil after a failure. */
TD_API td_tensor *td_clip_norm(td_ctx *cx, td_tensors grads, double most, double p);
/* Bounds each element to -most..most. */
TD_API bool       td_clip_value(td_ctx *cx, td_tensors grads, double most);
/* The same, order 2, for the parameters' gradients. */
TD_API td_tensor *td_optim_clip_norm(td_optim *o, double most);
TD_API bool       td_optim_clip_value(td_optim *o, double most);

/* ---- state -------------------------------------------------------------- */

/* The tensors that a step reads and writes besides parameters and gradients:
 * "group.0.lr", "group.0.step" (f64[parameters]), "state.3.exp_avg" (of parameter 3
 * of td_optim_params; PyTorch's names). Returns their number; out gets the first
 * `cap`. */
TD_API int    td_optim_tensors(const td_optim *o, td_tensor **out, int cap);
/* The name of tensor i; at most cap bytes including the final NUL. Returns its
 * length. */
TD_API size_t td_optim_tensor_name(const td_optim *o, int i, char *out, size_t cap);
/* Saves and loads them as .safetensors. Loading checks names, sizes and dtypes of all
 * before it writes any. False after a failure: then nothing has changed. */
TD_API bool   td_optim_save(td_optim *o, const char *path);
TD_API bool   td_optim_load(td_optim *o, const char *path);

/* ---- learning rates ----------------------------------------------------- */

/* Functions of the step alone, from 0; steps outside a range have the value of its
 * nearest end. */
TD_API double td_lr_linear(int64_t step, int64_t steps, double from, double to);
/* Half a cosine: from at step 0, to at `steps`. */
TD_API double td_lr_cosine(int64_t step, int64_t steps, double from, double to);
/* lr/warm, 2*lr/warm, ..., lr, lr, ... */
TD_API double td_lr_warmup(int64_t step, int64_t warm, double lr);
/* Up in `warm` steps, then down to `to` at `steps` as td_lr_cosine. */
TD_API double td_lr_warmup_cosine(int64_t step, int64_t warm, int64_t steps, double lr,
                                  double to);
/* lr, times gamma after each `every` steps. */
TD_API double td_lr_steps(int64_t step, int64_t every, double gamma, double lr);
/* PyTorch's OneCycleLR with its defaults: lr/25 up to lr in 30 % of the steps, then
 * down to lr/250000, both as cosines. */
TD_API double td_lr_one_cycle(int64_t step, int64_t steps, double lr);

#ifdef __cplusplus
}
#endif

#endif
