/* norm_frame.h -- all norm layers as one function (vjp_norm.c), for derivatives and
 * simpler forms. Private to them. */
#ifndef TD_NORM_FRAME_H
#define TD_NORM_FRAME_H

#include "rules/rule_arith.h"

typedef enum td_norm_kind { TD_NORM_LAYER, TD_NORM_GROUP, TD_NORM_BATCH } td_norm_kind;

typedef struct td_norm_frame {
    td_tensor *x, *mean, *rstd, *w;   /* w may be NULL */
    td_ints    stats, shared;         /* dims, of x */
    int64_t    n;                     /* elements per statistic */
    int64_t    dims[2 * TD_MAX_RANK]; /* room for the two lists */
    int64_t    size[TD_MAX_RANK];     /* of x */
    int64_t    stat_size[TD_MAX_RANK], w_size[TD_MAX_RANK];
} td_norm_frame;

/* x is [N, C, ...] or, for layer norm, [..., normalized]; k is the number of
 * normalized dims or of groups. Then the tensors, mrw being mean, rstd and weight. */
void td__norm_frame(td_norm_frame *f, td_norm_kind kind, const td_tensor *x, int64_t k);
void td__norm_frame_tensors(td_norm_frame *f, td_norm_kind kind, td_tensor *x,
                            td_tensor *const *mrw);

#endif
