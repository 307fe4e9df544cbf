/* kern_attention.c -- the softmax of attention: a row that keeps nothing is zeros.
 * Its result alone decides the gradient, which is zero there as well. */
#include "ops/ops.h"

#include <math.h>

/* Where row k along `dim` starts, in elements, rows counted in row-major order. */
static int64_t row_start(const td_tensor *t, int dim, int64_t k) {
    int64_t at = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (d == dim) continue;
        at += k % t->size[d] * t->stride[d];
        k /= t->size[d];
    }
    return at;
}

/* The address of an element by its offset. */
static char *element(const td_tensor *t, int64_t offset) {
    return td__ptr(t) + offset * td__dtype_bytes[t->dtype];
}

/* Is all of a row -inf? A tensor without dims (dim -1) is a row of one. */
static bool keeps_nothing(const td_tensor *t, int dim, int64_t start) {
    int64_t n = dim < 0 ? 1 : t->size[dim], step = dim < 0 ? 0 : t->stride[dim];
    for (int64_t i = 0; i < n; i++)
        if (td__load_f((td_dtype)t->dtype, element(t, start + i * step)) != -INFINITY)
            return false;
    return true;
}

/* A row of -inf has NaN throughout after softmax: one look at its first element
 * finds the rows in question. */
bool td__kern_safe_softmax(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *out = c->out[0];
    td_dtype   dt = (td_dtype)out->dtype;
    if (!td__kern_softmax(c)) return false;
    if (out->numel == 0) return true;
    if (out->rank == 0) { /* one row of one element */
        if (keeps_nothing(t, -1, 0)) td__store_f(dt, element(out, 0), 0);
        return true;
    }
    int     dim = td__wrap_dim(td__in_int(c, 1), t->rank);
    int64_t rows = out->numel / out->size[dim];
    for (int64_t k = 0; k < rows; k++) {
        int64_t to = row_start(out, dim, k);
        if (!isnan(td__load_f(dt, element(out, to)))) continue;
        if (!keeps_nothing(t, dim, row_start(t, dim, k))) continue;
        for (int64_t i = 0; i < out->size[dim]; i++)
            td__store_f(dt, element(out, to + i * out->stride[dim]), 0);
    }
    return true;
}
