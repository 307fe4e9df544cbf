/* norm.h -- what the kernels of the norm layers share. Private to them. */
#ifndef TD_NORM_H
#define TD_NORM_H

#include "kernels/reduce.h"

#include <stdatomic.h>

/* Reads any float tensor as dense accumulators: in place where it is that. */
typedef struct td_dense {
    const char *p;    /* NULL: the tensor is absent */
    td_tensor  *copy; /* a copy to drop in td__dense_close, or NULL */
    td_dtype    dtype;
    bool        direct; /* elements are accumulators */
} td_dense;

/* What one norm kernel works with. */
typedef struct td_norm {
    td_acc                 acc;
    size_t                 acc_size;
    const td_reduce_loops *loops;
    const td_float_loops  *f;
    atomic_bool            failed; /* out of memory in a thread */
} td_norm;

void td__norm_init(td_norm *s, td_dtype dt);
/* Opens t in row-major order, or in channels-last order when `last`; copies it
 * where it is laid out otherwise. False after td__fail_memory. */
bool td__dense_open(td_ctx *cx, td_norm *s, td_dense *d, td_tensor *t, bool last);
void td__dense_close(td_dense *d);
/* n elements from `at` on, as accumulators: in place, or in buf. */
const void *td__dense_read(const td_norm *s, const td_dense *d, int64_t at, int64_t n,
                           void *buf);
/* All elements of a small tensor as accumulators; false after td__fail_memory. The
 * block is size bytes, freed by the caller; *out is NULL when t is absent. */
bool   td__norm_params(td_ctx *cx, const td_norm *s, const td_tensor *t, void **out);
void   td__norm_free(const td_norm *s, const td_tensor *t, void *params);
/* The i-th accumulator, as double. */
double td__norm_get(const td_norm *s, const void *p, int64_t i);
void   td__norm_set(const td_norm *s, void *p, int64_t i, double v);

#endif
