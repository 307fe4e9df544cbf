/* portable_scatter.h -- places of extremes, random integers, indexing by several
 * tensors, and writes into parts, of portable.h, with the same contract. */
#ifndef TD_OPS_PORTABLE_SCATTER_H
#define TD_OPS_PORTABLE_SCATTER_H

#include "kernels/draw.h"
#include "kernels/portable_conv.h"

/* The place of the best element, along a dim or, without one, of all in row-major
 * order. */
TD_M_RUN int td_c_best_place_f32(int how, const td_c_array *self, int64_t dim,
                                 const td_c_array *to) {
    int64_t i[8] = {0}, n = 0, place = 0;
    float   best = 0;
    if (dim != INT64_MIN) return td_c_best_dim_f32(how, self, dim, 0, to);
    if (td_c_count(self) == 0) return 0;
    do {
        const float x = *(const float *)(const void *)td_c_at(self, i);
        if (n == 0 || (!TD_C_NAN_f32(best) && !(how == 2 ? x <= best : x >= best)))
            best = x, place = n;
        n++;
    } while (td_c_next(i, self));
    __builtin_memcpy(to->at, &place, 8);
    return 0;
}

TD_M_RUN int td_c_argmax_f32(const td_c_array *self, const int64_t *n,
                             const td_c_array *to) {
    return td_c_best_place_f32(2, self, n[0], to);
}

TD_M_RUN int td_c_argmin_f32(const td_c_array *self, const int64_t *n,
                             const td_c_array *to) {
    return td_c_best_place_f32(3, self, n[0], to);
}

/* Integers from low up to but without high, in row-major order: two of them per block
 * of random words. */
TD_M_RUN int td_c_randint_f32(uint64_t seed, uint64_t offset, const td_c_ints *lists,
                              const int64_t *n, const td_c_array *to) {
    int64_t  i[8] = {0}, k = 0;
    uint32_t w[4];
    (void)lists;
    if (td_c_count(to) == 0) return 0;
    do {
        if (k % 2 == 0) td_philox(seed, offset + (uint64_t)(k / 2), w);
        uint64_t x = td_draw_below(w[k % 2 * 2], w[k % 2 * 2 + 1],
                                   (uint64_t)n[1] - (uint64_t)n[0]);
        *(float *)(void *)td_c_at(to, i) = (float)(int64_t)((uint64_t)n[0] + x);
        k++;
    } while (td_c_next(i, to));
    return 0;
}

TD_M_RUN int td_c_index_add_f32(const td_c_array *self, const td_c_array *index,
                                const td_c_array *source, const int64_t *n,
                                double alpha, const td_c_array *to) {
    int     d = td_c_dim(n[0], self);
    int64_t i[8] = {0};
    td_c_copy(self, to);
    if (td_c_count(source) == 0) return 0;
    do {
        int64_t was = self->rank ? i[d] : 0, k = td_c_index_at(index, &was);
        if (self->rank && (k < 0 || k >= to->size[d])) return 1;
        const float x = *(const float *)(const void *)td_c_at(source, i);
        if (self->rank) i[d] = k;
        *(float *)(void *)td_c_at(to, i) += (float)alpha * x;
        if (self->rank) i[d] = was;
    } while (td_c_next(i, source));
    return 0;
}

/* How index tensors, one per leading dim, name elements: their sizes broadcast with
 * each other, and stand in the result where the indexed dims were, or first if those
 * are not adjacent. An entry without an address keeps its dim. */
typedef struct td_c_lookup {
    const td_c_array *index;
    int               n, at, rank; /* entries; the place and rank of the index dims */
    td_c_array        shape;       /* the sizes of the result */
} td_c_lookup;

TD_M td_c_lookup td_c_look(const td_c_array *self, const td_c_array *index, int n) {
    td_c_lookup l = {index, n, -1, 0, *self};
    int         last = -1, gaps = 0;
    for (int d = 0; d < n; d++) {
        if (!index[d].at) continue;
        gaps |= last >= 0 && d != last + 1;
        l.at = l.at < 0 ? d : l.at;
        last = d;
        l.rank = index[d].rank > l.rank ? index[d].rank : l.rank;
    }
    if (gaps || l.at < 0) l.at = 0;
    l.shape.rank = 0;
    for (int d = 0; d <= self->rank; d++) {
        for (int b = 0; d == l.at && b < l.rank; b++) {
            int64_t size = 1;
            for (int e = 0; e < n; e++)
                if (index[e].at && index[e].rank - l.rank + b >= 0 &&
                    index[e].size[index[e].rank - l.rank + b] != 1)
                    size = index[e].size[index[e].rank - l.rank + b];
            l.shape.size[l.shape.rank++] = size;
        }
        if (d < self->rank && !(d < n && index[d].at))
            l.shape.size[l.shape.rank++] = self->size[d];
    }
    return l;
}

/* The element of `self` that the result has at index i; NULL: out of range. */
TD_M char *td_c_named(const td_c_lookup *l, const td_c_array *self, const int64_t *i) {
    int64_t at[8] = {0};
    for (int d = 0, k = 0; d < self->rank; d++) {
        if (d < l->n && l->index[d].at) {
            const td_c_array *x = &l->index[d];
            int64_t           e[8] = {0};
            for (int b = 0; b < x->rank; b++)
                e[b] = x->size[b] == 1 ? 0 : i[l->at + l->rank - x->rank + b];
            at[d] = td_c_index_at(x, e);
            if (at[d] < 0) at[d] += self->size[d];
            if (at[d] < 0 || at[d] >= self->size[d]) return 0;
        } else {
            at[d] = i[k < l->at ? k : k + l->rank];
            k++;
        }
    }
    return td_c_at(self, at);
}

TD_M_RUN int td_c_index(const td_c_array *self, const td_c_array *index, int count,
                        const td_c_array *to) {
    td_c_lookup l = td_c_look(self, index, count);
    int64_t     i[8] = {0};
    if (td_c_count(to) == 0) return 0;
    do {
        const char *from = td_c_named(&l, self, i);
        if (!from) return 1;
        td_c_move(td_c_at(to, i), from, to->item);
    } while (td_c_next(i, to));
    return 0;
}

TD_M_RUN int td_c_index_put_f32(const td_c_array *self, const td_c_array *index,
                                int count, const td_c_array *values, const int64_t *n,
                                const td_c_array *to) {
    td_c_lookup l = td_c_look(self, index, count);
    int64_t     i[8] = {0}, k[8] = {0};
    td_c_copy(self, to);
    if (td_c_count(&l.shape) == 0) return 0;
    do {
        char *at = td_c_named(&l, to, i);
        for (int d = 0; d < values->rank; d++)
            k[d] = values->size[d] == 1 ? 0 : i[d + l.shape.rank - values->rank];
        if (!at) return 1;
        const float x = *(const float *)(const void *)td_c_at(values, k);
        *(float *)(void *)at = n[0] ? *(float *)(void *)at + x : x;
    } while (td_c_next(i, &l.shape));
    return 0;
}

/* self is contiguous and begins its storage, and so is the result. */
TD_M_RUN int td_c_as_strided_scatter(const td_c_array *self, const td_c_array *src,
                                     const td_c_ints *lists, const int64_t *n,
                                     const td_c_array *to) {
    td_c_array part = *src;
    part.at = to->at + (n[0] < 0 ? 0 : n[0]) * to->item;
    for (int d = 0; d < lists[1].n; d++) part.stride[d] = lists[1].v[d];
    td_c_copy(self, to);
    td_c_copy(src, &part);
    return 0;
}

#endif
