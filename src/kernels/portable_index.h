/* portable_index.h -- indexing and copies of portable.h, with the same contract. */
#ifndef TD_OPS_PORTABLE_INDEX_H
#define TD_OPS_PORTABLE_INDEX_H

#include "kernels/portable.h"

/* ---- along one dim -------------------------------------------------------- */

/* Moves elements between `one`, of the index's sizes, and `all`, where dim is replaced
 * by the index. to_all: from `one` to `all`. */
TD_M_RUN int td_c_along(const td_c_array *all, int dim, const td_c_array *index,
                        const td_c_array *one, int to_all) {
    int64_t i[8] = {0};
    if (td_c_count(index) == 0) return 0;
    do {
        int64_t was = i[dim], k = td_c_index_at(index, i);
        if (k < 0 || k >= all->size[dim]) return 1;
        char *p = td_c_at(one, i);
        i[dim] = k;
        char *q = td_c_at(all, i);
        i[dim] = was;
        td_c_move(to_all ? q : p, to_all ? p : q, all->item);
    } while (td_c_next(i, index));
    return 0;
}

TD_M_RUN int td_c_gather(const td_c_array *self, const td_c_array *index,
                         const int64_t *n, const td_c_array *to) {
    if (self->rank == 0) return td_c_copy(self, to), 0;
    return td_c_along(self, td_c_dim(n[0], self), index, to, 0);
}

TD_M_RUN int td_c_scatter(const td_c_array *self, const td_c_array *index,
                          const td_c_array *src, const int64_t *n,
                          const td_c_array *to) {
    td_c_copy(self, to);
    if (self->rank == 0) return td_c_copy(src, to), 0;
    return td_c_along(to, td_c_dim(n[0], self), index, src, 1);
}

TD_M_RUN int td_c_scatter_value_f32(const td_c_array *self, const td_c_array *index,
                                    const int64_t *n, double value,
                                    const td_c_array *to) {
    float      x = (float)value;
    td_c_array one = *index;
    one.at = (char *)&x;
    one.item = (int)sizeof x;
    for (int d = 0; d < 8; d++) one.stride[d] = 0;
    return td_c_scatter(self, index, &one, n, to);
}

TD_M_RUN int td_c_scatter_add_f32(const td_c_array *self, const td_c_array *index,
                                  const td_c_array *src, const int64_t *n,
                                  const td_c_array *to) {
    int64_t i[8] = {0};
    int     d = td_c_dim(n[0], self);
    td_c_copy(self, to);
    if (td_c_count(index) == 0) return 0;
    do {
        int64_t was = i[d], k = td_c_index_at(index, i);
        if (self->rank > 0 && (k < 0 || k >= to->size[d])) return 1;
        const float x = *(const float *)(const void *)td_c_at(src, i);
        if (self->rank > 0) i[d] = k;
        *(float *)(void *)td_c_at(to, i) += x;
        i[d < 0 ? 0 : d] = was;
    } while (td_c_next(i, index));
    return 0;
}

/* An array without dim, at place k of it. */
TD_M td_c_array td_c_slice(const td_c_array *a, int dim, int64_t k) {
    td_c_array s = *a;
    s.at += k * a->stride[dim] * a->item;
    for (s.rank = 0; s.rank < a->rank - 1; s.rank++) {
        s.size[s.rank] = a->size[s.rank + (s.rank >= dim)];
        s.stride[s.rank] = a->stride[s.rank + (s.rank >= dim)];
    }
    return s;
}

TD_M_RUN int td_c_index_select(const td_c_array *self, const td_c_array *index,
                               const int64_t *n, const td_c_array *to) {
    int     d = td_c_dim(n[0], self);
    int64_t count = index->rank ? index->size[0] : 1;
    if (self->rank == 0) return td_c_copy(self, to), 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t k = td_c_index_at(index, &i);
        if (k < 0 || k >= self->size[d]) return 1;
        td_c_array from = td_c_slice(self, d, k), at = td_c_slice(to, d, i);
        td_c_copy(&from, &at);
    }
    return 0;
}

/* ---- embedding ------------------------------------------------------------ */

/* The row of a matrix that element i of the index names; NULL: out of range. */
TD_M char *td_c_row(const td_c_array *m, int64_t k) {
    return k < 0 || k >= m->size[0] ? 0 : m->at + k * m->stride[0] * m->item;
}

TD_M_RUN int td_c_embedding(const td_c_array *weight, const td_c_array *indices,
                            const int64_t *n, const td_c_array *to) {
    int64_t i[8] = {0}, cols = weight->size[1];
    (void)n;
    if (td_c_count(indices) == 0) return 0;
    do {
        const char *from = td_c_row(weight, td_c_index_at(indices, i));
        char       *at = td_c_at(to, i);
        if (!from) return 1;
        for (int64_t k = 0; k < cols; k++)
            td_c_move(at + k * to->stride[to->rank - 1] * to->item,
                      from + k * weight->stride[1] * to->item, to->item);
    } while (td_c_next(i, indices));
    return 0;
}

/* How many elements of the array of indices are k. */
TD_M int64_t td_c_frequency(const td_c_array *indices, int64_t k) {
    int64_t i[8] = {0}, n = 0;
    do n += td_c_index_at(indices, i) == k;
    while (td_c_next(i, indices));
    return n;
}

TD_M_RUN int td_c_embedding_dense_backward_f32(const td_c_array *grad,
                                               const td_c_array *indices,
                                               const int64_t *n, const td_c_array *to) {
    int64_t i[8] = {0}, rows = n[0], padding = n[1], scale = n[2];
    int64_t cols = to->size[1];
    for (int64_t k = 0; k < rows; k++)
        for (int64_t j = 0; j < cols; j++)
            *(float *)(void *)(td_c_row(to, k) + j * to->stride[1] * to->item) = 0;
    if (td_c_count(indices) == 0) return 0;
    do {
        int64_t     k = td_c_index_at(indices, i);
        char       *at = td_c_row(to, k);
        const char *from = td_c_at(grad, i);
        if (!at) return 1;
        if (k == padding) continue;
        const float times = scale ? (float)td_c_frequency(indices, k) : 1;
        for (int64_t j = 0; j < cols; j++)
            *(float *)(void *)(at + j * to->stride[1] * to->item) +=
                *(const float *)(const void *)(from + j * grad->stride[grad->rank - 1] *
                                                          grad->item) /
                times;
    } while (td_c_next(i, indices));
    return 0;
}

/* ---- concatenation and parts ---------------------------------------------- */

TD_M_RUN int td_c_cat(const td_c_array *tensors, int count, const int64_t *n,
                      const td_c_array *to) {
    int     d = td_c_dim(n[0], to);
    int64_t at = 0;
    for (int k = 0; k < count; k++) {
        td_c_array part = *to;
        if (tensors[k].rank != to->rank) continue; /* an empty one of rank 1 */
        part.at += at * to->stride[d] * to->item;
        part.size[d] = tensors[k].size[d];
        td_c_copy(&tensors[k], &part);
        at += part.size[d];
    }
    return 0;
}

TD_M_RUN int td_c_stack(const td_c_array *tensors, int count, const int64_t *n,
                        const td_c_array *to) {
    for (int k = 0; k < count; k++) {
        td_c_array part = td_c_slice(to, td_c_dim(n[0], to), k);
        td_c_copy(&tensors[k], &part);
    }
    return 0;
}

/* The elements in row-major order, in other sizes; the result is contiguous. */
TD_M_RUN int td_c_reshape_copy(const td_c_array *self, const td_c_ints *lists,
                               const td_c_array *to) {
    int64_t    i[8] = {0}, n, s;
    td_c_array rows = td_c_rows_of(self, &n, &s);
    char      *at = to->at;
    (void)lists;
    if (td_c_count(to) == 0) return 0;
    do {
        td_c_move_run(at, 1, td_c_at(&rows, i), s, n, to->item);
        at += n * to->item;
    } while (td_c_next(i, &rows));
    return 0;
}

/* Keeps the elements of each matrix on one side of a diagonal; others become zeros. */
TD_M_RUN void td_c_triangle(const td_c_array *self, int64_t diagonal, int lower,
                            const td_c_array *to) {
    int64_t i[8] = {0};
    if (td_c_count(to) == 0) return;
    do {
        int64_t off = i[to->rank - 1] - i[to->rank - 2];
        char   *at = td_c_at(to, i);
        if (lower ? off <= diagonal : off >= diagonal)
            td_c_move(at, td_c_at(self, i), to->item);
        else __builtin_memset(at, 0, (uint64_t)to->item);
    } while (td_c_next(i, to));
}

TD_M_RUN int td_c_tril(const td_c_array *self, const int64_t *n, const td_c_array *to) {
    td_c_triangle(self, n[0], 1, to);
    return 0;
}

TD_M_RUN int td_c_triu(const td_c_array *self, const int64_t *n, const td_c_array *to) {
    td_c_triangle(self, n[0], 0, to);
    return 0;
}

TD_M_RUN int td_c_repeat(const td_c_array *self, const td_c_ints *lists,
                         const td_c_array *to) {
    int64_t i[8] = {0}, k[8] = {0};
    (void)lists;
    if (td_c_count(to) == 0) return 0;
    do {
        for (int d = 0; d < self->rank; d++)
            k[d] = i[d + to->rank - self->rank] % self->size[d];
        td_c_move(td_c_at(to, i), td_c_at(self, k), to->item);
    } while (td_c_next(i, to));
    return 0;
}

/* Without dims, the elements in row-major order. */
TD_M_RUN int td_c_roll(const td_c_array *self, const td_c_ints *lists,
                       const td_c_array *to) {
    int64_t   i[8] = {0}, all = td_c_count(to);
    td_c_ints shifts = lists[0], dims = lists[1];
    if (all == 0) return 0;
    for (int64_t e = 0; e < all; e++, (void)td_c_next(i, self)) {
        int64_t k[8], at = e;
        for (int d = 0; d < 8; d++) k[d] = i[d];
        if (dims.n == 0) {
            at = ((e + shifts.v[0]) % all + all) % all;
            for (int d = self->rank - 1; d >= 0; d--)
                k[d] = at % self->size[d], at /= self->size[d];
        }
        for (int j = 0; j < dims.n; j++) {
            int     d = td_c_dim(dims.v[j], self);
            int64_t s = self->size[d];
            k[d] = ((k[d] + shifts.v[j]) % s + s) % s;
        }
        td_c_move(td_c_at(to, k), td_c_at(self, i), to->item);
    }
    return 0;
}

TD_M_RUN int td_c_select_scatter(const td_c_array *self, const td_c_array *src,
                                 const int64_t *n, const td_c_array *to) {
    int        d = td_c_dim(n[0], self);
    td_c_array part = td_c_slice(to, d, n[1] < 0 ? n[1] + to->size[d] : n[1]);
    td_c_copy(self, to);
    td_c_copy(src, &part);
    return 0;
}

/* n: dim, start, end, step. src has the sizes of the slice. */
TD_M_RUN int td_c_slice_scatter(const td_c_array *self, const td_c_array *src,
                                const int64_t *n, const td_c_array *to) {
    int        d = td_c_dim(n[0], self);
    td_c_array part = *to;
    int64_t    size = to->size[d], start = n[1] < 0 ? n[1] + size : n[1];
    start = start < 0 ? 0 : start > size ? size : start;
    part.at += start * to->stride[d] * to->item;
    part.stride[d] *= n[3];
    part.size[d] = src->size[d];
    td_c_copy(self, to);
    td_c_copy(src, &part);
    return 0;
}

TD_M_RUN int td_c_flip(const td_c_array *self, const td_c_ints *lists,
                       const td_c_array *to) {
    td_c_array from = *self;
    if (td_c_count(to) == 0) return 0;
    for (int k = 0; k < lists->n; k++) {
        int d = td_c_dim(lists->v[k], self);
        from.at += (from.size[d] - 1) * from.stride[d] * from.item;
        from.stride[d] = -from.stride[d];
    }
    td_c_copy(&from, to);
    return 0;
}

/* pad has two numbers per dim, from the last dim on. */
TD_M_RUN int td_c_constant_pad_nd_f32(const td_c_array *self, const td_c_ints *lists,
                                      double value, const td_c_array *to) {
    td_c_array from = *self, at = *to;
    int64_t    i[8] = {0};
    if (td_c_count(to) == 0) return 0;
    do *(float *)(void *)td_c_at(to, i) = (float)value;
    while (td_c_next(i, to));
    for (int k = 0; k < lists->n / 2; k++) {
        int     d = self->rank - 1 - k;
        int64_t low = lists->v[2 * k], high = lists->v[2 * k + 1];
        at.at += (low > 0 ? low : 0) * at.stride[d] * at.item;
        from.at -= (low < 0 ? low : 0) * from.stride[d] * from.item;
        from.size[d] += (low < 0 ? low : 0) + (high < 0 ? high : 0);
        at.size[d] = from.size[d];
    }
    for (int d = 0; d < at.rank; d++) at.size[d] = from.size[d];
    td_c_copy(&from, &at);
    return 0;
}

TD_M_RUN int td_c_cumsum_f32(const td_c_array *self, const int64_t *n,
                             const td_c_array *to) {
    int        d = td_c_dim(n[0], self);
    td_c_array rows = *to;
    int64_t    i[8] = {0};
    if (self->rank == 0) return td_c_copy(self, to), 0;
    if (td_c_count(to) == 0) return 0;
    rows.size[d] = 1;
    do {
        float       s = 0;
        const char *from = td_c_at(self, i);
        char       *at = td_c_at(to, i);
        for (int64_t k = 0; k < to->size[d]; k++) {
            s +=
                *(const float *)(const void *)(from + k * self->stride[d] * self->item);
            *(float *)(void *)(at + k * to->stride[d] * to->item) = s;
        }
    } while (td_c_next(i, &rows));
    return 0;
}

#define TD_C_NAN_f32(x) ((x) != (x))
#define TD_C_NAN_f64(x) ((x) != (x))
#define TD_C_NAN_i64(x) 0

/* The place of the greatest (how 2) or least (how 3) element along dim d at index i;
 * the first NaN, if there is one. */
TD_M int64_t td_c_best_f32(int how, const td_c_array *a, int d, const int64_t *i,
                           float *best) {
    const char *p = td_c_at(a, i);
    int64_t     at = 0;
    *best = *(const float *)(const void *)p;
    for (int64_t k = 1; a->rank > 0 && k < a->size[d]; k++) {
        float x = *(const float *)(const void *)(p + k * a->stride[d] * a->item);
        if (TD_C_NAN_f32(*best)) break;
        if (how == 2 ? !(x <= *best) : !(x >= *best)) *best = x, at = k;
    }
    return at;
}

/* Both results of max_dim and min_dim; either may be NULL. */
TD_M_RUN int td_c_best_dim_f32(int how, const td_c_array *self, int64_t dim,
                               const td_c_array *to, const td_c_array *place) {
    int        d = td_c_dim(dim, self);
    td_c_array rows = *self;
    int64_t    i[8] = {0}, n = 0;
    if (self->rank > 0) rows.size[d] = 1;
    if (td_c_count(&rows) == 0) return 0;
    do { /* results are contiguous, with or without the dim of size 1 */
        float   x;
        int64_t k = td_c_best_f32(how, self, d, i, &x);
        if (to) *(float *)(void *)(to->at + n * to->item) = x;
        if (place) __builtin_memcpy(place->at + n * 8, &k, 8);
        n++;
    } while (td_c_next(i, &rows));
    return 0;
}

TD_M_RUN int td_c_max_dim_f32(const td_c_array *self, const int64_t *n,
                              const td_c_array *to, const td_c_array *place) {
    return td_c_best_dim_f32(2, self, n[0], to, place);
}

TD_M_RUN int td_c_min_dim_f32(const td_c_array *self, const int64_t *n,
                              const td_c_array *to, const td_c_array *place) {
    return td_c_best_dim_f32(3, self, n[0], to, place);
}

/* ---- norms ---------------------------------------------------------------- */

/* The norm of the elements of `a`, summed in double. */
TD_M double td_c_norm_of_f32(const td_c_array *a, double p) {
    int64_t i[8] = {0};
    double  s = 0, inf = __builtin_inf();
    int     first = 1;
    if (td_c_count(a) == 0) return 0;
    do {
        const double x =
            __builtin_fabs((double)*(const float *)(const void *)td_c_at(a, i));
        if (p == inf || p == -inf)
            s = first || x != x || (s == s && (p > 0 ? x > s : x < s)) ? x : s;
        else if (p == 0) s += x != 0;
        else s += p == 2 ? x * x : p == 1 ? x : __builtin_pow(x, p);
        first = 0;
    } while (td_c_next(i, a));
    if (p == inf || p == -inf || p == 0 || p == 1) return s;
    return p == 2 ? __builtin_sqrt(s) : __builtin_pow(s, 1 / p);
}

/* The dims that stay, and in `part` those that are folded. */
TD_M td_c_array td_c_folded(const td_c_array *a, const td_c_ints *dims,
                            td_c_array *part) {
    td_c_array rows = *a;
    *part = *a;
    for (int d = 0; d < a->rank; d++) {
        int fold = dims->n == 0;
        for (int k = 0; k < dims->n; k++) fold |= td_c_dim(dims->v[k], a) == d;
        *(fold ? &rows.size[d] : &part->size[d]) = 1;
    }
    return rows;
}

TD_M_RUN int td_c_norm_f32(const td_c_array *self, const td_c_ints *lists,
                           const int64_t *n, double p, const td_c_array *to) {
    td_c_array part, rows = td_c_folded(self, lists, &part);
    int64_t    i[8] = {0}, k = 0;
    (void)n;
    if (td_c_count(&rows) == 0) return 0;
    do { /* the result is contiguous */
        part.at = td_c_at(self, i);
        *(float *)(void *)(to->at + k++ * to->item) = (float)td_c_norm_of_f32(&part, p);
    } while (td_c_next(i, &rows));
    return 0;
}

#endif
