/* attention.h -- attention in plain products, shared by the composite op, the simpler
 * forms of the blocked ones and their derivatives. */
#ifndef TD_ATTENTION_H
#define TD_ATTENTION_H

#include "rules/terms.h"

/* What scores are made of; the mask is of the dtype of q, or NULL. */
typedef struct td_attention {
    td_ctx    *cx;
    td_tensor *q, *k, *mask;
    bool       causal;
    double     scale;
} td_attention;

/* All below give nil when something failed. */

/* scale * q @ k^T + mask; what is hidden is -inf. */
td_tensor *td__attention_scores(const td_attention *a);
/* exp(scores - lse) */
td_tensor *td__attention_weights(const td_attention *a, td_tensor *lse);

/* A gradient that arrives, and what it is held against; g_lse may be NULL. */
typedef struct td_attention_grad {
    td_tensor *g, *v, *out, *g_lse;
} td_attention_grad;
/* g @ v^T - (sum(g * out) - g_lse): times the weights, the gradient of the scores. */
td_tensor *td__attention_pull(const td_attention_grad *d);

static inline td_tensor *t_transposed(td_tensor *t) {
    return td_op_transpose(t, -2, -1);
}

/* [.., T] as [.., T, 1], to stand beside scores. */
static inline td_tensor *t_column(td_tensor *t) { return td_op_unsqueeze(t, -1); }

#endif
