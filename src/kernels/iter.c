/* iter.c -- the dims of an elementwise run: their order (rules/iter_order.h), and which
 * neighbours are one dim to every operand. */
#include "kernels/iter.h"

#include <string.h>

/* Is dim d of every operand the continuation of the innermost-first dim `to`? */
static bool joins(const td_iter *it, int to, int d) {
    for (int k = 0; k < it->n; k++)
        if (it->stride[k][d] != it->size[to] * it->stride[k][to]) return false;
    return true;
}

/* Merges neighbouring dims that every operand steps through as if they were one; fewer
 * and longer inner loops remain. */
static void join_dims(td_iter *it) {
    int to = 0;
    for (int d = 1; d < it->rank; d++) {
        if (joins(it, to, d)) {
            it->size[to] *= it->size[d];
            continue;
        }
        to++;
        it->size[to] = it->size[d];
        for (int k = 0; k < it->n; k++) it->stride[k][to] = it->stride[k][d];
    }
    it->rank = to + 1;
}

/* Strides of t in bytes, seen from the rank of the output; 0 where broadcast. */
static void place(const td_tensor *t, const td_tensor *out, int64_t *stride) {
    int64_t bytes = td__dtype_bytes[t->dtype];
    int     add = out->rank - t->rank;
    for (int d = 0; d < out->rank; d++)
        stride[d] = d < add || t->size[d - add] == 1 ? 0 : t->stride[d - add] * bytes;
}

/* Dims of size 1 are left out; one element is a run of one dim. */
void td__iter_build(td_iter *it, const td_tensor *const *t, int n) {
    int64_t stride[TD_RUN_OPERANDS][TD_MAX_RANK];
    int     order[TD_MAX_RANK];
    it->n = n;
    for (int k = 0; k < n; k++) {
        it->ptr[k] = t[k] ? td__ptr(t[k]) : NULL;
        if (t[k]) place(t[k], t[0], stride[k]);
        else memset(stride[k], 0, sizeof(int64_t) * t[0]->rank);
    }
    td__iter_order(t[0]->rank, t[0]->size, n, stride, order);
    it->rank = 0;
    for (int i = 0; i < t[0]->rank; i++) {
        int d = order[i];
        if (t[0]->size[d] == 1) continue;
        it->size[it->rank] = t[0]->size[d];
        for (int k = 0; k < n; k++) it->stride[k][it->rank] = stride[k][d];
        it->rank++;
    }
    if (it->rank == 0) { /* one element */
        it->rank = 1;
        it->size[0] = 1;
        for (int k = 0; k < n; k++)
            it->stride[k][0] = t[k] ? td__dtype_bytes[t[k]->dtype] : 0;
    }
    join_dims(it);
}
