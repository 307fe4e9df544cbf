/* tandem/losses.h -- the losses of torch.nn as modules, with its names, defaults and
 * state files. Each calls the op of the same name; write td_mse_loss(y, target) where
 * no module is needed.
 *
 *     td_nn_loss_opts o = {TD_NN_LOSS_OPTS, .weight = w, .label_smoothing = 0.1};
 *     td_module      *loss = td_nn_cross_entropy_loss(cx, &o);
 *     td_backward(td_module_call(loss, TD_ARGS(logits, target)));
 *
 * Options may be NULL; a zero field means PyTorch's default. A number that each loss
 * needs is an argument of its constructor; PyTorch's default is beside it. */
#ifndef TANDEM_LOSSES_H
#define TANDEM_LOSSES_H

#include "tandem/module.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_nn_loss_opts {
    TD_SIZE(td_nn_loss_opts);
    const char *reduction  TD_0; /* "mean" (NULL), "sum" or "none" */
    td_tensor *weight      TD_0; /* CrossEntropy, NLL, BCE...: buffer `weight` */
    td_tensor *pos_weight  TD_0; /* BCEWithLogits: buffer `pos_weight` */
    bool ignored           TD_0; /* CrossEntropy, NLL: ignore_index is given */
    int64_t ignore_index   TD_0; /* else -100 */
    double label_smoothing TD_0; /* CrossEntropy */
    double eps         TD_0; /* PoissonNLL 1e-8, GaussianNLL 1e-6, TripletMargin 1e-6 */
    double p           TD_0; /* TripletMargin: of the distance; 0: 2 */
    int64_t blank      TD_0; /* CTC */
    bool log_target    TD_0; /* KLDiv */
    bool no_log_input  TD_0; /* PoissonNLL: log_input=False */
    bool full          TD_0; /* PoissonNLL, GaussianNLL */
    bool zero_infinity TD_0; /* CTC */
    bool swap          TD_0; /* TripletMargin */
} td_nn_loss_opts;
#define TD_NN_LOSS_OPTS .td_nn_loss_opts_size = sizeof(td_nn_loss_opts)

/* Called with (input, target). */
TD_API td_module *td_nn_l1_loss(td_ctx *cx, const td_nn_loss_opts *opts);
TD_API td_module *td_nn_mse_loss(td_ctx *cx, const td_nn_loss_opts *opts);
TD_API td_module *td_nn_smooth_l1_loss(td_ctx *cx, double beta, /* 1 */
                                       const td_nn_loss_opts *opts);
TD_API td_module *td_nn_huber_loss(td_ctx *cx, double delta, /* 1 */
                                   const td_nn_loss_opts *opts);
TD_API td_module *td_nn_cross_entropy_loss(td_ctx *cx, const td_nn_loss_opts *opts);
TD_API td_module *td_nn_nll_loss(td_ctx *cx, const td_nn_loss_opts *opts);
TD_API td_module *td_nn_bce_loss(td_ctx *cx, const td_nn_loss_opts *opts);
TD_API td_module *td_nn_bce_with_logits_loss(td_ctx *cx, const td_nn_loss_opts *opts);
/* reduction "batchmean" too. */
TD_API td_module *td_nn_kl_div_loss(td_ctx *cx, const td_nn_loss_opts *opts);
TD_API td_module *td_nn_poisson_nll_loss(td_ctx *cx, const td_nn_loss_opts *opts);
TD_API td_module *td_nn_soft_margin_loss(td_ctx *cx, const td_nn_loss_opts *opts);
TD_API td_module *td_nn_hinge_embedding_loss(td_ctx *cx, double margin, /* 1 */
                                             const td_nn_loss_opts *opts);
/* PyTorch's: p 1, margin 1. */
TD_API td_module *td_nn_multi_margin_loss(td_ctx *cx, int64_t p, double margin,
                                          const td_nn_loss_opts *opts);
TD_API td_module *td_nn_multilabel_margin_loss(td_ctx *cx, const td_nn_loss_opts *opts);
TD_API td_module *td_nn_multilabel_soft_margin_loss(td_ctx                *cx,
                                                    const td_nn_loss_opts *opts);
/* (input, target, var) */
TD_API td_module *td_nn_gaussian_nll_loss(td_ctx *cx, const td_nn_loss_opts *opts);
/* (input1, input2, target) */
TD_API td_module *td_nn_margin_ranking_loss(td_ctx *cx, double margin, /* 0 */
                                            const td_nn_loss_opts *opts);
TD_API td_module *td_nn_cosine_embedding_loss(td_ctx *cx, double margin, /* 0 */
                                              const td_nn_loss_opts *opts);
/* (log_probs, targets, input_lengths, target_lengths) */
TD_API td_module *td_nn_ctc_loss(td_ctx *cx, const td_nn_loss_opts *opts);
/* (anchor, positive, negative) */
TD_API td_module *td_nn_triplet_margin_loss(td_ctx *cx, double margin, /* 1 */
                                            const td_nn_loss_opts *opts);
/* A distance of two batches of vectors: one number for each pair. */
typedef td_tensor *td_distance_fn(void *env, td_tensor *a, td_tensor *b);
/* The same by your distance; NULL: td_pairwise_distance. env outlives the module. */
TD_API td_module  *td_nn_triplet_margin_with_distance_loss(td_ctx         *cx,
                                                           td_distance_fn *distance,
                                                           void *env, double margin,
                                                           const td_nn_loss_opts *opts);

typedef struct td_nn_linear_ce_opts {
    TD_SIZE(td_nn_linear_ce_opts);
    td_int_list out_features TD_0; /* sizes of the scores after the class */
    bool bias                TD_0; /* PyTorch's default is none */
    td_nn_loss_opts loss     TD_0; /* reduction, weight, ignore_index, smoothing */
} td_nn_linear_ce_opts;
#define TD_NN_LINEAR_CE_OPTS .td_nn_linear_ce_opts_size = sizeof(td_nn_linear_ce_opts)
/* LinearCrossEntropyLoss: child `linear`, then the cross entropy of its scores. Called
 * with (input, target). */
TD_API td_module *td_nn_linear_cross_entropy_loss(td_ctx *cx, int64_t in,
                                                  int64_t                     classes,
                                                  const td_nn_linear_ce_opts *opts);

typedef struct td_nn_adaptive_softmax_opts {
    TD_SIZE(td_nn_adaptive_softmax_opts);
    double div_value TD_0; /* 0: 4 */
    bool head_bias   TD_0;
} td_nn_adaptive_softmax_opts;
#define TD_NN_ADAPTIVE_SOFTMAX_OPTS \
    .td_nn_adaptive_softmax_opts_size = sizeof(td_nn_adaptive_softmax_opts)
/* AdaptiveLogSoftmaxWithLoss: children `head` and `tail`; classes are sorted by
 * frequency, and cutoffs, ascending, divide them into clusters. Called with (input
 * [N,in], target [N]) or (input [in], target []). Results: log-probabilities of the
 * targets, and their mean, negated. */
TD_API td_module *td_nn_adaptive_log_softmax_with_loss(
    td_ctx *cx, int64_t in, int64_t classes, td_ints cutoffs,
    const td_nn_adaptive_softmax_opts *opts);
/* Its log-probabilities of all classes [N,classes], and the likeliest class [N]. */
TD_API td_tensor *td_nn_adaptive_log_prob(td_module *m, td_tensor *input);
TD_API td_tensor *td_nn_adaptive_predict(td_module *m, td_tensor *input);

#ifdef __cplusplus
}
#endif

#endif
