/* iter_order.c -- the order in which ATen's TensorIterator walks dims. */
#include "rules/iter_order.h"

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
