/* ops/pointwise.h -- between the shape rules, kernels and derivatives of pointwise
 * ops; private to the room. */
#ifndef TD_POINTWISE_H
#define TD_POINTWISE_H

#include "ops/iter.h"

/* Which arguments of an op its loop reads, in the order it numbers them. */
typedef struct td_pw_args {
    uint8_t n_in, n_scalars;
    uint8_t in[TD_LOOP_INPUTS];      /* tensors and operands */
    uint8_t scalar[TD_LOOP_SCALARS]; /* numbers */
    uint8_t masks; /* bit k: input k is a bool mask, read as bytes (%name) */
} td_pw_args;
const td_pw_args *td__pw_args(const td_opdef *def);

/* The dtype operands are converted to: promotion, then the row's flags. Only looks;
 * td__pw_check refuses what the flags refuse. */
td_dtype td__pw_common(const td_opcall *c, const td_pw_args *a);
bool     td__pw_check(td_opcall *c, td_dtype common);
/* Result 0: broadcast sizes and ATen's layout. False after td__fail. */
bool td__pw_meta(td_opcall *c, const td_pw_args *a, td_dtype common, td_dtype result);

/* A bound of clamp as the loop needs it: absent or beyond what the dtype holds, it
 * becomes the end of the range. */
td_value td__clamp_bound(td_value v, bool is_min, td_dtype dt);

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
bool     td__pw_tell(td_ctx *cx, td_pw *w, td_op op, const td_value *in, td_dtype out);
td_dtype td__pw_compute_dtype(td_dtype common); /* what its loop computes in */
/* A number operand as the loop sees it, in the loop's type. */
int64_t  td__pw_number(const td_pw *w, td_value v);
/* Is tensor operand k taken as it is, without rounding to the common half? */
bool     td__pw_keeps(const td_pw *w, const td_tensor *t);

#endif
