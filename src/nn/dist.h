/* nn/dist.h -- distributions: kinds, and parts of their formulas. */
#ifndef TD_DIST_ROOM_H
#define TD_DIST_ROOM_H

#include "nn/nn.h"
#include "tandem/distributions.h"

/* A kind. The functions have valid arguments and leave errors in the context; NULL: the
 * kind has no such value. */
typedef struct td_dist_row {
    const char *name;
    int         params;   /* how many it has; probs and logits are two */
    bool        integers; /* no rsample */
    td_tensor *(*draw)(const td_distribution *d, td_ints size);
    td_tensor *(*log_prob)(const td_distribution *d, td_tensor *x);
    td_tensor *(*entropy)(const td_distribution *d);
    td_tensor *(*mean)(const td_distribution *d);
    td_tensor *(*variance)(const td_distribution *d);
} td_dist_row;
extern const td_dist_row td__dist_rows[TD_DIST_COUNT];

td_tensor *td__dist_probs(
    const td_distribution *d); /* of Bernoulli, Binomial, Categorical */
td_tensor *td__dist_logits(const td_distribution *d);
/* log(1 + exp(x)), without overflow. */
td_tensor *td__dist_softplus(td_tensor *x);
/* log B(a, b) */
td_tensor *td__dist_log_beta(td_tensor *a, td_tensor *b);
/* L^-1 b, of vectors b [..., n]. */
td_tensor *td__dist_solve(td_tensor *tril, td_tensor *b);
/* Half the logarithm of the determinant of L L^T. */
td_tensor *td__dist_half_log_det(td_tensor *tril);
/* Infinity where the condition holds, else t. */
td_tensor *td__dist_inf_where(td_tensor *condition, td_tensor *t);

/* A divergence; NULL: there is no formula for the pair. */
td_tensor *td__dist_kl(const td_distribution *p, const td_distribution *q);

#endif
