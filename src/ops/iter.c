/* iter.c -- the dims of an elementwise run: their order, and which neighbours are
 * one dim to every operand. The order is ATen's TensorIterator's, because a fresh
 * result's strides follow from it (shape_pointwise.c). */
#include "ops/iter.h"

#include <string.h>

/* 1: dim a goes outside dim b; -1: inside; 0: these operands cannot tell. */
static int compare(const int64_t *size, int n, int64_t (*stride)[TD_MAX_RANK], int a,
                   int b) {
    for (int k = 0; k < n; k++) {
        int64_t sa = stride[k][a], sb = stride[k][b];
        if (td__dim_seems_eq(sa, 0) || td__dim_seems_eq(sb, 0))
            continue; /* broadcast: no opinion */
        if (td__dim_seems_lt(sa, sb)) return -1;
        if (td__dim_seems_lt(sb, sa)) return 1;
        if (td__dim_seems_lt(size[b], size[a]))
            return 1; /* equal strides: the longer outside */
    }
    return 0;
}

/* Insertion sort that steps over dims it cannot compare with. */
void td__iter_order(int rank, const int64_t *size, int n,
                    int64_t (*stride)[TD_MAX_RANK], int *order) {
    for (int i = 0; i < rank; i++) order[i] = rank - 1 - i;
    for (int i = 1; i < rank; i++) {
        int at = i;
        for (int k = i - 1; k >= 0; k--) {
            int c = compare(size, n, stride, order[k], order[at]);
            if (c < 0) break;
            if (c == 0) continue;
            int moved = order[k];
            order[k] = order[at];
            order[at] = moved;
            at = k;
        }
    }
}

/* Is dim d of every operand the continuation of the innermost-first dim `to`? */
static bool joins(const td_iter *it, int to, int d) {
    for (int k = 0; k < it->n; k++)
        if (it->stride[k][d] != it->size[to] * it->stride[k][to]) return false;
    return true;
}

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
