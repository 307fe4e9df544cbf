/* kernels/pointwise.h -- from a call of a pointwise op to a run of its loop, for its
 * kernels and for the emitter. */
#ifndef TD_POINTWISE_H
#define TD_POINTWISE_H

#include "kernels/iter.h"
#include "rules/pointwise_args.h"

/* One elementwise computation, ready to run. Kernels of rows with options change
 * what td__pw_begin filled in. */
typedef struct td_pw {
    td_op      op; /* whose loop */
    int        n;
    uint8_t    masks;
    td_value   in[TD_LOOP_INPUTS];
    td_dtype   common;
    td_scalars p;
} td_pw;
void td__pw_begin(td_pw *w, td_opcall *c);
bool td__pw_run(td_pw *w, td_opcall *c);

/* What the kernel of a pointwise row would run on such arguments: tensors of which
 * only dtype and rank count, and a result of dtype `out`. False: not one loop, or one
 * that looks at values first (integers over zero). */
bool td__pw_describe(td_ctx *cx, td_pw *w, td_op op, const td_value *in, td_dtype out);
td_dtype td__pw_compute_dtype(td_dtype common); /* what its loop computes in */
/* A number operand as the loop sees it, in the loop's type. */
int64_t  td__pw_number(const td_pw *w, td_value v);
/* Is tensor operand k taken as it is, without rounding to the common half? */
bool     td__pw_keeps(const td_pw *w, const td_tensor *t);

#endif
