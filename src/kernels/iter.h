/* kernels/iter.h -- runs a one-dimensional loop over strided, broadcast, mixed-dtype
 * operands. kern_pointwise.c and cast.c describe a run, iter.c orders and joins the
 * dims as ATen's TensorIterator does, elementwise_run.c splits it over threads and
 * feeds the loop: straight from memory where an operand is contiguous in the loop's
 * type, else through a buffer in the first-level cache. No run allocates. */
#ifndef TD_ITER_H
#define TD_ITER_H

#include "kernels/loops/loops.h"
#include "rules/iter_order.h"

enum {
    TD_RUN_OPERANDS = TD_LOOP_INPUTS + 1, /* the output comes first */
    TD_RUN_CHUNK = 256,  /* elements in a buffer: see elementwise_run.c */
    TD_RUN_GRAIN = 32768 /* elements worth a thread */
};

/* The dims of a run, innermost first, equal neighbours joined. Strides in bytes. */
typedef struct td_iter {
    int     n;    /* operands */
    int     rank; /* at least 1 */
    int64_t size[TD_MAX_RANK];
    int64_t stride[TD_RUN_OPERANDS][TD_MAX_RANK];
    char   *ptr[TD_RUN_OPERANDS];
} td_iter;

/* Where an operand's elements come from, or the results go to. */
typedef struct td_side {
    td_convert_fn *convert; /* memory to the loop's type, or back; with widen, to... */
    td_convert_fn *widen;   /* ...a narrower dtype, and that to the loop's; NULL */
    bool           same;    /* memory holds the loop's type */
    uint8_t        mem;     /* bytes of an element in memory */
    uint8_t        loop;    /* and as the loop sees it */
    uint8_t        via;     /* and of the narrower dtype in between */
} td_side;

typedef struct td_run {
    td_loop_fn     *loop; /* NULL: a copy, side[1].convert does it */
    const td_isa   *isa;
    td_scalars      p;
    td_side         side[TD_RUN_OPERANDS];
    td_element_bits number[TD_RUN_OPERANDS]; /* number operands, in the loop's type */
    td_iter         it;
} td_run;

/* Lays out the dims for output t[0] and inputs t[1..n), which broadcast to its
 * sizes. t[k] == NULL: a number; the caller sets ptr[k]. */
void td__iter_build(td_iter *it, const td_tensor *const *t, int n);
/* Computes every element of the output. */
void td__run(td_run *r);

#endif
