/* kern_mask.c -- masks: which elements are set, taking them out and putting others
 * in, always in row-major order. The sizes of some results depend on values. */
#include "ops/cast.h"
#include "rules/geom.h"
#include "rules/index_args.h"
#include "kernels/index_walk.h"
#include "kernels/loops/loops.h"
#include "rules/shape_rules.h"

#include <string.h>

/* Two operands walked together over broadcast sizes; offsets in elements. */
typedef struct pair {
    int     rank;
    int64_t size[TD_MAX_RANK], stride[2][TD_MAX_RANK], at[TD_MAX_RANK], off[2];
} pair;

/* b NULL: only the first operand is walked. */
static void pair_start(pair *w, int rank, const int64_t *size, const td_tensor *a,
                       const td_tensor *b) {
    memset(w, 0, sizeof *w);
    w->rank = rank;
    memcpy(w->size, size, sizeof(int64_t) * (size_t)rank);
    td__expand_strides(a, rank, size, w->stride[0]);
    if (b) td__expand_strides(b, rank, size, w->stride[1]);
}

/* Moves to the next element in row-major order. */
static inline void pair_next(pair *w) {
    for (int d = w->rank - 1; d >= 0; d--) {
        bool carry = ++w->at[d] == w->size[d];
        w->off[0] += (carry ? 1 - w->size[d] : 1) * w->stride[0][d];
        w->off[1] += (carry ? 1 - w->size[d] : 1) * w->stride[1][d];
        if (!carry) return;
        w->at[d] = 0;
    }
}

/* Not zero; NaN is set. */
static bool is_set(const td_tensor *t, const char *p) {
    td_dtype dt = (td_dtype)t->dtype;
    return td__is_float(dt) ? td__load_f(dt, p) != 0 : td__load_i(dt, p) != 0;
}

/* How many elements of t are set, over sizes it broadcasts to. */
static int64_t count_set(const td_tensor *t, int rank, const int64_t *size) {
    pair    w;
    int64_t n = td__numel(rank, size), found = 0, item = td__dtype_bytes[t->dtype];
    if (item == 1 && n == t->numel && td__is_dense(t->rank, t->size, t->stride)) {
        const char *set = td__ptr(t);
        for (int64_t p = 0; p < n; p++) found += set[p] != 0;
        return found;
    }
    pair_start(&w, rank, size, t, NULL);
    for (int64_t p = 0; p < n; p++, pair_next(&w))
        found += is_set(t, td__ptr(t) + w.off[0] * item);
    return found;
}

enum { HITS = 512 }; /* elements looked at in one go */

/* Starts a walk over the rows of t, all dims but the last. */
static void rows_start(pair *w, const td_tensor *t) {
    memset(w, 0, sizeof *w);
    w->rank = t->rank - 1;
    for (int d = 0; d < w->rank; d++) {
        w->size[d] = t->size[d];
        w->stride[0][d] = t->stride[d];
    }
}

/* One byte for each of at most HITS elements of the walk's row from j on, 1 where it
 * is set; how many. */
static int64_t type(const td_tensor *t, const pair *w, int64_t j, uint8_t *set) {
    int64_t     n = t->size[w->rank] - j, item = td__dtype_bytes[t->dtype];
    int64_t     step = t->stride[w->rank];
    const char *p = td__ptr(t) + (w->off[0] + j * step) * item;
    if (n > HITS) n = HITS;
    td__isa()->convert[t->dtype][TD_BOOL](n, (char *)set, 1, p, step * item);
    return n;
}

/* How many elements of t are set; t has at least one dim. */
static int64_t count_rows(const td_tensor *t) {
    pair    w;
    uint8_t set[HITS];
    int64_t found = 0, rows = t->numel ? t->numel / t->size[t->rank - 1] : 0;
    rows_start(&w, t);
    for (; rows > 0; rows--, pair_next(&w))
        for (int64_t j = 0, n; j < t->size[w.rank]; j += n) {
            n = type(t, &w, j, set);
            for (int64_t k = 0; k < n; k++) found += set[k];
        }
    return found;
}

/* Where in the row elements are set: at most `cap` of them; how many. */
static int64_t row_hits(const td_tensor *t, const pair *w, int64_t *to, int64_t cap) {
    uint8_t set[HITS];
    int64_t got = 0;
    for (int64_t j = 0, n; j < t->size[w->rank]; j += n) {
        n = type(t, w, j, set);
        for (int64_t k = 0; k < n && got < cap; k++) {
            to[got] = j + k; /* stays only if it is set */
            got += set[k];
        }
    }
    return got;
}

/* Column by column, as ATen lays it out: the i-th index of all hits side by side. */
bool td__kern_nonzero(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    int              last = t->rank - 1;
    int64_t          hits = t->rank ? count_rows(t) : count_set(t, t->rank, t->size);
    td_meta          m = {.dtype = TD_I64,
                          .rank = 2,
                          .strided = true,
                          .size = {hits, t->rank},
                          .stride = {1, hits}};
    pair             w;
    if (!(c->out[0] = td__tensor_make(c->cx, &m, false))) return false;
    if (t->rank == 0) return true;
    int64_t *to = (int64_t *)(void *)td__ptr(c->out[0]);
    rows_start(&w, t);
    for (int64_t row = 0; row < hits; pair_next(&w)) {
        int64_t n = row_hits(t, &w, to + last * hits + row, hits - row);
        for (int d = 0; d < last; d++)
            for (int64_t k = 0; k < n; k++) to[d * hits + row + k] = w.at[d];
        row += n;
    }
    return true;
}

/* in: self, size, fill_value. Row by row; what is left of the result is filled. */
bool td__kern_nonzero_static(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    int64_t          most = td__in_int(c, 1), got = 0, rank = t->rank;
    int64_t         *to = (int64_t *)(void *)td__ptr(c->out[0]);
    uint8_t          set[HITS];
    pair             w;
    td__fill(c->out[0], c->in[2]);
    if (t->numel == 0 || rank == 0) return true;
    rows_start(&w, t);
    for (int64_t rows = t->numel / t->size[w.rank]; rows > 0; rows--, pair_next(&w))
        for (int64_t j = 0, n; j < t->size[w.rank] && got < most; j += n) {
            n = type(t, &w, j, set);
            for (int64_t k = 0; k < n && got < most; k++) {
                if (!set[k]) continue;
                for (int d = 0; d < w.rank; d++) to[got * rank + d] = w.at[d];
                to[got++ * rank + w.rank] = j + k;
            }
        }
    return true;
}

/* Copies the elements of `from` under the mask to `to`, one after another. */
static int64_t take(const td_tensor *from, const td_tensor *mask, int rank,
                    const int64_t *size, char *to, int64_t most) {
    pair    w;
    int64_t n = td__numel(rank, size), got = 0;
    size_t  item = td__dtype_bytes[from->dtype];
    pair_start(&w, rank, size, from, mask);
    const char *set = td__ptr(mask), *src = td__ptr(from);
    for (int64_t p = 0; p < n && got < most; p++, pair_next(&w)) {
        if (!set[w.off[1]]) continue;
        memcpy(to + (size_t)got * item, src + w.off[0] * (int64_t)item, item);
        got++;
    }
    return got;
}

/* in: self, mask. The size depends on values, so this kernel checks what a shape rule
 * would and makes the result. */
bool td__kern_masked_select(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *mask = td__in(c, 1);
    int64_t          size[TD_MAX_RANK], hits;
    int              rank = self->rank;
    td_meta          m;
    memcpy(size, self->size, sizeof(int64_t) * (size_t)rank);
    if (mask->dtype != TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "mask must be bool, got %s",
                           td__type_str(mask));
    if (!td__broadcast(&rank, size, mask->rank, mask->size))
        return td__op_fail(c, TD_E_SHAPE, "mask %s does not broadcast with self %s",
                           td__type_str(mask), td__type_str(self));
    hits = count_set(mask, rank, size);
    td__meta_dense(&m, (td_dtype)self->dtype, 1, &hits);
    if (!(c->out[0] = td__tensor_make(c->cx, &m, false))) return false;
    take(self, mask, rank, size, td__ptr(c->out[0]), hits);
    return true;
}

/* Puts source at the places of a dense mask, in dense elements of T; hits of them.
 * Which place is set is not predictable, so no branch depends on it. */
#define PUT_UNDER(T)                                                         \
    static void put_under_##T(char *to, const char *set, const char *source, \
                              int64_t hits) {                                \
        T       *y = (T *)(void *)to;                                        \
        const T *x = (const T *)(const void *)source;                        \
        for (int64_t p = 0, k = 0; k < hits; p++) {                          \
            T here = y[p], new = x[k];                                       \
            y[p] = set[p] ? new : here;                                      \
            k += set[p] != 0;                                                \
        }                                                                    \
    }
PUT_UNDER(uint8_t)
PUT_UNDER(uint16_t)
PUT_UNDER(uint32_t)
PUT_UNDER(uint64_t)

/* False: an element of another size. */
static bool put_dense(int64_t item, char *to, const char *set, const char *source,
                      int64_t hits) {
    if (item == 1) put_under_uint8_t(to, set, source, hits);
    else if (item == 2) put_under_uint16_t(to, set, source, hits);
    else if (item == 4) put_under_uint32_t(to, set, source, hits);
    else if (item == 8) put_under_uint64_t(to, set, source, hits);
    else return false;
    return true;
}

/* in: self, mask, source. Elements of source go to the places of the mask in row-major
 * order. */
bool td__kern_masked_scatter(td_opcall *c) {
    const td_tensor *mask = td__in(c, 1);
    td_tensor       *source = td__in(c, 2), *out = c->out[0], *dense = source;
    int64_t          hits = count_set(mask, out->rank, out->size), k = 0;
    int64_t          item = td__dtype_bytes[out->dtype];
    pair             w;
    if (hits > source->numel)
        return td__op_fail(c, TD_E_SHAPE,
                           "source %s has fewer elements than the mask sets, %lld",
                           td__type_str(source), (long long)hits);
    if (!td__is_dense(source->rank, source->size, source->stride)) {
        td_meta m;
        td__meta_dense(&m, (td_dtype)source->dtype, source->rank, source->size);
        dense = td__tensor_make(c->cx, &m, false);
        if (!dense || !td__copy_into(dense, source)) return false;
    }
    if (out != td__in(c, 0) && !td__copy_into(out, td__in(c, 0))) return false;
    bool plain = td__is_dense(out->rank, out->size, out->stride) &&
                 mask->numel == out->numel &&
                 td__is_dense(mask->rank, mask->size, mask->stride) &&
                 put_dense(item, td__ptr(out), td__ptr(mask), td__ptr(dense), hits);
    pair_start(&w, out->rank, out->size, out, mask);
    for (int64_t p = 0; !plain && p < out->numel && k < hits; p++, pair_next(&w))
        if (td__ptr(mask)[w.off[1]])
            memcpy(td__ptr(out) + w.off[0] * item, td__ptr(dense) + k++ * item,
                   (size_t)item);
    if (dense != source) td_drop(dense);
    return true;
}

/* in: grad, mask, sizes. The gradient of source: elements of grad under the mask, then
 * zeros. */
bool td__kern_masked_scatter_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0), *mask = td__in(c, 1);
    td__fill(c->out[0], td_value_int(0));
    if (g->numel > 0 && c->out[0]->numel > 0)
        take(g, mask, g->rank, g->size, td__ptr(c->out[0]), c->out[0]->numel);
    return true;
}

/* ---- classes ------------------------------------------------------------ */

/* The greatest element, plus 1. */
bool td__kern_classes(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (!td__classes_check(c, t)) return false;
    int64_t most = td__index_at(t, 0);
    for (int64_t i = 1; i < t->numel; i++)
        if (td__index_at(t, i) > most) most = td__index_at(t, i);
    if (most < 0)
        return td__op_fail(
            c, TD_E_INDEX,
            "class values must not be negative, and the greatest is %lld",
            (long long)most);
    int64_t n = td__dim_add(most, 1);
    td_meta m;
    td__meta_dense(&m, TD_I64, 1, &n);
    if (!(c->out[0] = td__tensor_make(c->cx, &m, false))) return false;
    int64_t *to = (int64_t *)(void *)td__ptr(c->out[0]);
    for (int64_t i = 0; i < n; i++) to[i] = i;
    return true;
}
