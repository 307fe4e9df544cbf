/* row_walk.h -- walks over tensors of any strides in row-major order. */
#ifndef TD_ROW_WALK_H
#define TD_ROW_WALK_H

#include "core/core.h"

/* A position in a tensor of any strides, in row-major order. */
typedef struct walk {
    const td_tensor *t;
    char            *p;
    int64_t          at[TD_MAX_RANK];
} walk;

/* At the element with this row-major index. */
static inline void walk_start(walk *w, const td_tensor *t, int64_t index) {
    int64_t bytes = td__dtype_bytes[t->dtype];
    w->t = t;
    w->p = td__ptr(t);
    for (int d = t->rank - 1; d >= 0; d--) {
        w->at[d] = index % t->size[d];
        index /= t->size[d];
        w->p += w->at[d] * t->stride[d] * bytes;
    }
}

/* To the next element in row-major order. */
static inline void walk_next(walk *w) {
    const td_tensor *t = w->t;
    int64_t          bytes = td__dtype_bytes[t->dtype];
    for (int d = t->rank - 1; d >= 0; d--) {
        w->p += t->stride[d] * bytes;
        if (++w->at[d] < t->size[d]) return;
        w->p -= t->size[d] * t->stride[d] * bytes;
        w->at[d] = 0;
    }
}

#endif
