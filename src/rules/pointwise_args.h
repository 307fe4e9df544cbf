/* rules/pointwise_args.h -- which arguments of a pointwise op its loop reads, and what
 * its result is; for shape rules and kernels. */
#ifndef TD_POINTWISE_ARGS_H
#define TD_POINTWISE_ARGS_H

#include "ops/compute.h"
#include "ops/ops.h"

/* Which arguments of an op its loop reads, in the order it numbers them. */
typedef struct td_pw_args {
    uint8_t n_in, n_scalars;
    uint8_t in[TD_LOOP_INPUTS];      /* tensors and operands */
    uint8_t scalar[TD_LOOP_SCALARS]; /* numbers */
    uint8_t masks; /* bit k: input k is a bool mask, read as bytes (%name) */
} td_pw_args;
const td_pw_args *td__pw_args(const td_opdef *def);

/* The dtype operands are converted to: promotion, then the row's dtype bits. It only
 * looks; td__pw_check reports dtypes that the row excludes. */
td_dtype td__pw_common(const td_opcall *c, const td_pw_args *a);
bool     td__pw_check(td_opcall *c, td_dtype common);
/* Result 0: broadcast sizes and ATen's layout. False after td__fail. */
bool td__pw_meta(td_opcall *c, const td_pw_args *a, td_dtype common, td_dtype result);

/* A bound of clamp as the loop needs it: absent or beyond what the dtype holds, it
 * becomes the end of the range. */
td_value td__clamp_bound(td_value v, bool is_min, td_dtype dt);

#endif
