/* rules/index_args.h -- what the rules and kernels of the index family read off their
 * arguments. */
#ifndef TD_INDEX_ARGS_H
#define TD_INDEX_ARGS_H

#include "ops/ops.h"

/* A 0-dim tensor is walked as one dim of size 1. */
static inline int     td__rank1(const td_tensor *t) { return t->rank ? t->rank : 1; }
static inline int64_t td__size1(const td_tensor *t, int d) {
    return t->rank ? t->size[d] : 1;
}
static inline int64_t td__stride1(const td_tensor *t, int d) {
    return t->rank ? t->stride[d] : 1;
}

/* Is the index i64 or i32? False after td__fail, naming the argument. */
bool td__index_dtype(td_opcall *c, const td_tensor *index, const char *name,
                     bool i32_too);
/* Is each entry a class, from 0 to n - 1? False after td__op_fail. Reads
 * elements: a kernel (kernels/index_walk.c). */
bool td__class_check(td_opcall *c, const td_tensor *classes, int64_t n);
/* May classes be counted in t? False after td__fail. */
bool td__classes_check(td_opcall *c, const td_tensor *t);

/* Are repeats and output_size, arguments 0 and 1, such that entries can be repeated?
 * False after td__fail. */
bool td__repeats_check(td_opcall *c);

/* May self and weights, arguments 0 and 1, be counted? *dt: the dtype of the counts.
 * False after td__fail. */
bool td__bincount_check(td_opcall *c, td_dtype *dt);

/* How integer index tensors meet the dims of self: which dims stay before, which
 * are replaced by the broadcast sizes of the indices, which stay after. */
typedef struct td_index_plan {
    int     order[TD_MAX_RANK]; /* dims of self: before, indexed, after */
    int     before, indexed, after;
    int     rank; /* of the broadcast index */
    int64_t size[TD_MAX_RANK];
} td_index_plan;
bool td__index_plan(td_opcall *c, td_index_plan *p);
/* Sizes of what the index tensors pick; false after td__fail. */
bool td__index_part(td_opcall *c, td_meta *m);

#endif
