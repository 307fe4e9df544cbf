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
    TD_RULE_ADADELTA,
    TD_RULE_ADAMAX,
    TD_RULE_NADAM,
    TD_RULE_RADAM,
    TD_RULE_ADAFACTOR,
    TD_RULE_ASGD,
    TD_RULE_RPROP,
    TD_RULE_LBFGS,
    TD_RULE_SPARSE_ADAM,
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
    double        weight_decay;   /* AdamW, Lion, Muon, Adafactor, or decoupled: of the
                                 * parameter, times lr; others: added to the gradient;
                                 * Rprop and LBFGS have none */
    double        momentum;       /* SGD, RMSprop, Muon */
    double        dampening;      /* SGD */
    double        beta1, beta2;   /* Adam and its kin, Lion */
    double        eps;            /* Adam and its kin, RMSprop, Adagrad, Adadelta, Muon;
                                 * Adafactor: eps[0], 0 is the dtype's epsilon */
    double        alpha;          /* RMSprop: decay of the squared average; ASGD */
    double        lr_decay;       /* Adagrad */
    double        initial;        /* Adagrad: initial sum of squares */
    double        rho;            /* Adadelta: decay of the squared averages */
    double        momentum_decay; /* NAdam */
    double        beta2_decay;    /* Adafactor: weight of a step is its power */
    double        eps2, d;        /* Adafactor: eps[1], bound of an update */
    double        lambd, t0;      /* ASGD: decay, step where averaging begins */
    double        etaminus, etaplus;  /* Rprop: factors of step sizes */
    double        step_min, step_max; /* Rprop: their bounds */
    double        tolerance_grad;     /* LBFGS: ends at a gradient this small */
    double        tolerance_change;   /* LBFGS: ends at a step this small */
    bool          nesterov;           /* SGD, Muon */
    bool          amsgrad;            /* Adam, AdamW */
    bool          centered;           /* RMSprop */
    bool          decoupled;          /* Adam, NAdam, RAdam: decoupled_weight_decay */
    bool          maximize;           /* ascend instead of descend; not Muon */
    bool          strong_wolfe;       /* LBFGS: line_search_fn="strong_wolfe" */
    int           ns_steps;           /* Muon: Newton-Schulz iterations */
    bool          ns_wide; /* Muon: iterate in the parameter's dtype, not bf16 */
    td_muon_scale scale;   /* Muon */
    int           max_iter, max_eval; /* LBFGS; max_eval 0: max_iter * 5 / 4 */
    int           history_size;       /* LBFGS: steps remembered */
} td_rule;

TD_API td_rule td_sgd(double lr);       /* momentum 0 */
TD_API td_rule td_adam(double lr);      /* betas 0.9, 0.999, eps 1e-8 */
TD_API td_rule td_adamw(double lr);     /* the same, weight_decay 0.01 */
TD_API td_rule td_rmsprop(double lr);   /* alpha 0.99, eps 1e-8 */
TD_API td_rule td_adagrad(double lr);   /* eps 1e-10 */
TD_API td_rule td_lion(double lr);      /* betas 0.9, 0.99 */
TD_API td_rule td_adadelta(double lr);  /* rho 0.9, eps 1e-6 */
TD_API td_rule td_adamax(double lr);    /* betas 0.9, 0.999, eps 1e-8 */
TD_API td_rule td_nadam(double lr);     /* the same, momentum_decay 0.004 */
TD_API td_rule td_radam(double lr);     /* betas 0.9, 0.999, eps 1e-8 */
TD_API td_rule td_adafactor(double lr); /* beta2_decay -0.8, eps2 1e-3, d 1 */
TD_API td_rule td_asgd(double lr);      /* lambd 1e-4, alpha 0.75, t0 1e6 */
TD_API td_rule td_rprop(double lr);     /* etas 0.5, 1.2, step sizes 1e-6 to 50 */
/* For sparse gradients alone (docs/sparse.md): Adam of the rows that a gradient has;
 * betas 0.9, 0.999, eps 1e-8. */
TD_API td_rule td_sparse_adam(double lr);
/* max_iter 20, tolerances 1e-7 and 1e-9, history_size 100. The only group of its
 * optimizer; td_optim_step_closure steps it. */
TD_API td_rule td_lbfgs(double lr);
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

/* Does the group get this parameter? */
typedef bool   td_param_filter(void *env, const char *name, td_tensor *p);
/* Adds a group of those parameters of m that `filter` accepts and no group has yet.
 * Files contain their state under their names. Without a filter: all that remain.
 *
 *     td_optim_add_module(o, net, decayed, td_param_is_matrix, NULL);
 *     td_optim_add_module(o, net, plain, NULL, NULL);
 *
 * Returns and fails as td_optim_add. */
TD_API int     td_optim_add_module(td_optim *o, td_module *m, td_rule rule,
                                   td_param_filter *filter, void *env);
/* A filter: weights, not biases and scales; they have two dims or more. */
TD_API bool    td_param_is_matrix(void *env, const char *name, td_tensor *p);
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

/* Zeroes the gradients, computes the loss and its gradients (td_backward), and returns
 * the loss. */
typedef td_tensor *td_loss_fn(void *env);
/* Computes the loss by `fn`, with gradients enabled, and steps. LBFGS calls it several
 * times and reads its values, so it cannot be captured. Returns the first loss; nil
 * after a failure. */
TD_API td_tensor  *td_optim_step_closure(td_optim *o, td_loss_fn *fn, void *env);

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
 * "group.0.lr", "group.0.step" (f64[parameters]), "state.0.weight.exp_avg" (of
 * parameter "0.weight" of a module; PyTorch's names), "state.3.exp_avg" (of parameter 3
 * of td_optim_params, added without a name). Returns their number; out gets the first
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

/* Functions of the step alone, from 0, with the numbers of torch.optim.lr_scheduler.
 * One after the other (SequentialLR): step < m ? td_lr_a(step) : td_lr_b(step - m).
 * Together (ChainedScheduler): td_lr_a(step, ..., td_lr_b(step, ..., lr)).
 *
 * Linear in steps 0 to `steps`, then `to`. LinearLR has from = lr / 3 and to = lr. */
TD_API double td_lr_linear(int64_t step, int64_t steps, double from, double to);
/* Half a cosine: from at step 0, to at `steps` and after. */
TD_API double td_lr_cosine(int64_t step, int64_t steps, double from, double to);
/* lr/warm, 2*lr/warm, ..., lr, lr, ... */
TD_API double td_lr_warmup(int64_t step, int64_t warm, double lr);
/* Up in `warm` steps, then down to `to` at `steps` as td_lr_cosine. */
TD_API double td_lr_warmup_cosine(int64_t step, int64_t warm, int64_t steps, double lr,
                                  double to);
/* StepLR: lr, times gamma after each `every` steps. */
TD_API double td_lr_steps(int64_t step, int64_t every, double gamma, double lr);
/* MultiStepLR: lr, times gamma at each of the milestones. */
TD_API double td_lr_multi_step(int64_t step, td_ints milestones, double gamma,
                               double lr);
/* ExponentialLR: lr, times gamma after each step. */
TD_API double td_lr_exponential(int64_t step, double gamma, double lr);
/* ConstantLR: lr times factor before `steps`, then lr. */
TD_API double td_lr_constant(int64_t step, int64_t steps, double factor, double lr);
/* PolynomialLR: down to 0 at `steps`. */
TD_API double td_lr_polynomial(int64_t step, int64_t steps, double power, double lr);
/* CosineAnnealingLR: from lr down to `to` at `half` steps, then up again, and so on. */
TD_API double td_lr_cosine_annealing(int64_t step, int64_t half, double lr, double to);
/* CosineAnnealingWarmRestarts: half a cosine down to `to` in `first` steps, then from
 * lr again, each time `mult` times as long. */
TD_API double td_lr_cosine_restarts(int64_t step, int64_t first, int64_t mult,
                                    double lr, double to);

typedef struct td_lr_one_cycle_opts {
    TD_SIZE(td_lr_one_cycle_opts);
    double pct_start        TD_0; /* part of the steps that rises; 0: 0.3 */
    double div_factor       TD_0; /* lr / first rate; 0: 25 */
    double final_div_factor TD_0; /* first rate / last rate; 0: 1e4 */
    bool linear             TD_0; /* not cosines */
    bool three_phase        TD_0; /* down as fast as up, then to the last rate */
} td_lr_one_cycle_opts;
#define TD_LR_ONE_CYCLE_OPTS .td_lr_one_cycle_opts_size = sizeof(td_lr_one_cycle_opts)
/* OneCycleLR with its defaults: lr/25 up to lr in 30 % of the steps, then down to
 * lr/250000, both as cosines. It does not cycle a momentum. */
TD_API double td_lr_one_cycle(int64_t step, int64_t steps, double lr);
/* The same with options. NaN if they carry no size; NULL: the defaults. */
TD_API double td_lr_one_cycle_with(int64_t step, int64_t steps, double lr,
                                   const td_lr_one_cycle_opts *opts);

typedef enum td_cyclic_mode {
    TD_CYCLIC_TRIANGULAR,  /* all cycles are equal */
    TD_CYCLIC_TRIANGULAR2, /* each cycle has half the height of the previous one */
    TD_CYCLIC_EXP_RANGE    /* the height is times gamma after each step */
} td_cyclic_mode;
typedef struct td_lr_cyclic_opts {
    TD_SIZE(td_lr_cyclic_opts);
    int64_t up TD_0, down TD_0; /* steps up and down; 0: 2000, as up */
    td_cyclic_mode mode TD_0;
    double gamma        TD_0; /* 0: 1 */
} td_lr_cyclic_opts;
#define TD_LR_CYCLIC_OPTS .td_lr_cyclic_opts_size = sizeof(td_lr_cyclic_opts)
/* CyclicLR: from base up to most and down again. It does not cycle a momentum. NaN if
 * the options carry no size; NULL: the defaults. */
TD_API double td_lr_cyclic(int64_t step, double base, double most,
                           const td_lr_cyclic_opts *opts);

/* ReduceLROnPlateau: options and state, a plain struct that may be copied. */
typedef struct td_plateau {
    double factor, threshold, min_lr, eps;
    int    patience, cooldown;
    bool   maximize; /* mode="max" */
    bool   absolute; /* threshold_mode="abs" */
    double best;     /* state */
    int    bad, cooling;
} td_plateau;
/* factor 0.1, patience 10, threshold 1e-4, eps 1e-8, the others 0. */
TD_API td_plateau td_lr_plateau(void);
/* Tells it a metric; returns the rate that follows lr. NaN if p is NULL. */
TD_API double     td_lr_plateau_step(td_plateau *p, double metric, double lr);

/* ---- averages of parameters ----------------------------------------------- */

/* Moves each parameter of `into` by w towards the one of that name in `from`, and
 * copies buffers. EMA: w = 1 - decay; SWA: w = 1.0 / (n + 1) for the n-th model, from
 * 0. Both modules have the same names and types: td_module_copy makes such a module.
 * May be captured. False after a failure: then nothing has changed. */
TD_API bool td_module_average(td_module *into, td_module *from, double w);

#ifdef __cplusplus
}
#endif

#endif
