/* tandem/distributions.h -- distributions with the arguments and numbers of
 * torch.distributions. A distribution is a small struct; its parameters are tensors
 * that the caller keeps alive. The functions are ops of them, so they may be captured,
 * and gradients reach the parameters.
 *
 *     td_distribution    q = td_dist_normal(mean, td_exp(log_std));
 *     td_tensor      *z = td_dist_rsample(q, TD_SHAPE());
 *     td_tensor      *loss = td_sub(td_sum(td_dist_kl(q, prior)), log_likelihood(z));
 */
#ifndef TANDEM_DISTRIBUTIONS_H
#define TANDEM_DISTRIBUTIONS_H

#include "tandem/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum td_dist_kind {
    TD_DIST_NORMAL,
    TD_DIST_LOG_NORMAL,
    TD_DIST_UNIFORM,
    TD_DIST_BERNOULLI,
    TD_DIST_CATEGORICAL,
    TD_DIST_GAMMA,
    TD_DIST_BETA,
    TD_DIST_DIRICHLET,
    TD_DIST_EXPONENTIAL,
    TD_DIST_LAPLACE,
    TD_DIST_POISSON,
    TD_DIST_BINOMIAL,
    TD_DIST_STUDENT_T,
    TD_DIST_MULTIVARIATE_NORMAL,
    TD_DIST_COUNT
} td_dist_kind;

/* Made by the functions below. Parameters are broadcast against each other. */
typedef struct td_distribution {
    size_t       size;
    td_dist_kind kind;
    td_tensor   *param[3];
} td_distribution;

TD_API td_distribution td_dist_normal(td_tensor *loc, td_tensor *scale);
TD_API td_distribution td_dist_log_normal(td_tensor *loc, td_tensor *scale);
TD_API td_distribution td_dist_uniform(td_tensor *low, td_tensor *high);
/* Of probabilities, or of their logits; the other is NULL. */
TD_API td_distribution td_dist_bernoulli(td_tensor *probs, td_tensor *logits);
/* Indices of the last dim: of weights, or of their logarithms; the other is NULL. */
TD_API td_distribution td_dist_categorical(td_tensor *probs, td_tensor *logits);
TD_API td_distribution td_dist_gamma(td_tensor *concentration, td_tensor *rate);
TD_API td_distribution td_dist_beta(td_tensor *concentration1,
                                    td_tensor *concentration0);
TD_API td_distribution td_dist_dirichlet(td_tensor *concentration);
TD_API td_distribution td_dist_exponential(td_tensor *rate);
TD_API td_distribution td_dist_laplace(td_tensor *loc, td_tensor *scale);
TD_API td_distribution td_dist_poisson(td_tensor *rate);
TD_API td_distribution td_dist_binomial(td_tensor *total_count, td_tensor *probs,
                                        td_tensor *logits);
TD_API td_distribution td_dist_student_t(td_tensor *df, td_tensor *loc,
                                         td_tensor *scale);
/* loc [..., n], scale_tril [..., n, n]: lower triangular, positive diagonal. */
TD_API td_distribution td_dist_multivariate_normal(td_tensor *loc,
                                                   td_tensor *scale_tril);

/* Each returns nil after a failure.
 *
 * Draws `shape` times: sizes are shape, then those of the parameters. sample has no
 * gradient; rsample has one, by reparametrization. It fails for the distributions of
 * integers. */
TD_API td_tensor *td_dist_sample(td_distribution d, td_ints shape);
TD_API td_tensor *td_dist_rsample(td_distribution d, td_ints shape);
/* The logarithm of the density, or probability, at a value. Values outside of the
 * support are not checked. */
TD_API td_tensor *td_dist_log_prob(td_distribution d, td_tensor *value);
/* Poisson has none, as in PyTorch. */
TD_API td_tensor *td_dist_entropy(td_distribution d);
/* Categorical has neither. */
TD_API td_tensor *td_dist_mean(td_distribution d);
TD_API td_tensor *td_dist_variance(td_distribution d);
/* The Kullback-Leibler divergence of p from q, for two of a kind but StudentT, and for
 * the pairs of different kinds that PyTorch has among these. */
TD_API td_tensor *td_dist_kl(td_distribution p, td_distribution q);

#ifdef __cplusplus
}
#endif

#endif
