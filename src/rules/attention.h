/* attention.h -- attention in plain products, shared by the composite op, the simpler
 * forms of the blocked ones and their derivatives. */
#ifndef TD_ATTENTION_H
#define TD_ATTENTION_H

#include "rules/rule_arith.h"

/* The operands of the scores. q is [.., T, E], k is [.., S, E]; mask broadcasts to [..,
 * T, S] and has the dtype of q, or is NULL. `causal` hides key j from query i where j >
 * i. */
typedef struct td_attention {
    td_ctx    *cx;
    td_tensor *q, *k, *mask;
    bool       causal;
    double     scale;
} td_attention;

/* All below give nil when something failed. */

/* scale * q @ k^T + mask, [.., T, S]; hidden scores are -inf. Nil after td__fail, as in
 * all functions below. */
td_tensor *td__attention_scores(const td_attention *a);
/* exp(scores - lse), [.., T, S]. lse is [.., T], the log of the sum of exponentials of
 * each row, which a forward pass returned. */
td_tensor *td__attention_weights(const td_attention *a, td_tensor *lse);

/* The gradient g of `out` [.., T, E], the values v [.., S, E] and g_lse, the gradient
 * of lse, or NULL when it is zero. */
typedef struct td_attention_grad {
    td_tensor *g, *v, *out, *g_lse;
} td_attention_grad;
/* g @ v^T - (sum(g * out) - g_lse), [.., T, S]. Multiplied by the weights it is the
 * gradient of the scores. */
td_tensor *td__attention_pull(const td_attention_grad *d);

static inline td_tensor *t_transposed(td_tensor *t) {
    return td_op_transpose(t, -2, -1);
}

/* [.., T] as [.., T, 1], to stand beside scores. */
static inline td_tensor *t_column(td_tensor *t) { return td_op_unsqueeze(t, -1); }

#endif
