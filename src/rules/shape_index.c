/* shape_index.c -- results and argument checks of the index family: gather, scatter,
 * index_select, index, index_put, masks, embedding. Index values are elements, which a
 * rule may not read: kernels check them before they write (kernels/index_walk.c).
 *
 * A 0-dim tensor counts as one dim of size 1 (td__rank1 and its relatives), as in
 * ATen. */
#include "rules/index_args.h"
#include "rules/iter_order.h"
#include "rules/shape_rules.h"

#include <string.h>

bool td__index_dtype(td_opcall *c, const td_tensor *index, const char *name,
                     bool i32_too) {
    if (index->dtype == TD_I64 || (i32_too && index->dtype == TD_I32)) return true;
    return td__op_fail(c, TD_E_DTYPE, "%s must be i64%s, got %s", name,
                       i32_too ? " or i32" : "", td__type_str(index));
}

/* The index family casts nothing: values have the dtype of self. */
static bool same_dtype(td_opcall *c, const td_tensor *a, const td_tensor *b,
                       const char *name) {
    if (a->dtype == b->dtype) return true;
    return td__op_fail(c, TD_E_DTYPE, "%s must have the dtype of self, %s and %s", name,
                       td__type_str(a), td__type_str(b));
}

/* Fresh, row-major, of the sizes of self: what ATen gives for most of these. */
static bool dense_like_self(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    td__meta_dense(&c->meta[0], (td_dtype)t->dtype, t->rank, t->size);
    return true;
}

/* ---- element by element ------------------------------------------------- */

/* Every size of index at most that of t, except in `dim` (-1: everywhere). */
static bool within(td_opcall *c, const td_tensor *index, const td_tensor *t, int dim,
                   const char *name) {
    bool fits = td__rank1(index) == td__rank1(t);
    for (int d = 0; fits && d < td__rank1(t); d++)
        fits = d == dim || td__dim_le(td__size1(index, d), td__size1(t, d));
    if (fits) return true;
    return td__op_fail(c, TD_E_SHAPE, "index %s must fit in %s %s%s",
                       td__type_str(index), name, td__type_str(t),
                       dim < 0 ? "" : " in every dim but dim");
}

/* in: self, dim, index. The result has the sizes of index. */
bool td__shape_gather(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *index = td__in(c, 2);
    int              dim = td__op_dim(c, td__in_int(c, 1), self->rank);
    if (dim < 0 || !td__index_dtype(c, index, "index", true)) return false;
    if (!td__dim_eq(index->numel, 0) && !within(c, index, self, dim, "self"))
        return false;
    td__meta_dense(&c->meta[0], (td_dtype)self->dtype, index->rank, index->size);
    return true;
}

/* src is argument 3, a tensor or a number. */
bool td__shape_scatter(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *index = td__in(c, 2), *src = td__in(c, 3);
    int              dim = td__op_dim(c, td__in_int(c, 1), self->rank);
    if (dim < 0 || !td__index_dtype(c, index, "index", true)) return false;
    if (src && !same_dtype(c, self, src, "src")) return false;
    if (c->info->s.in[3].type == TD_T_SCALAR &&
        !td__number_fits(c, 3, (td_dtype)self->dtype))
        return false;
    if (!td__dim_eq(index->numel, 0)) {
        if (!within(c, index, self, dim, "self")) return false;
        if (src && !within(c, index, src, -1, "src")) return false;
    }
    return dense_like_self(c);
}

/* in: self, dim, index, src, reduce, include_self. */
bool td__shape_scatter_reduce(td_opcall *c) {
    static const char *const known[] = {"sum", "prod", "mean", "amax", "amin"};
    for (int i = 0; i < TD_COUNT(known); i++)
        if (!strcmp(c->in[4].u.s, known[i])) return td__shape_scatter(c);
    return td__op_fail(c, TD_E_ARG,
                       "reduce must be sum, prod, mean, amax or amin, got %s",
                       c->in[4].u.s);
}

/* ---- whole entries ------------------------------------------------------ */

/* index is a vector or 0-dim, and i64 (or i32 where ATen takes it). */
static bool vector_index(td_opcall *c, const td_tensor *index, bool i32_too) {
    if (!td__index_dtype(c, index, "index", i32_too)) return false;
    if (index->rank <= 1) return true;
    return td__op_fail(c, TD_E_SHAPE, "index must have at most 1 dim, got %s",
                       td__type_str(index));
}

/* in: self, dim, index. Dim `dim` gets one entry per index. */
bool td__shape_index_select(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *index = td__in(c, 2);
    int              dim = td__op_dim(c, td__in_int(c, 1), self->rank);
    if (dim < 0 || !vector_index(c, index, true)) return false;
    if (self->rank == 0 && !td__dim_eq(index->numel, 1))
        return td__op_fail(c, TD_E_SHAPE, "a 0-dim tensor takes one index, got %lld",
                           (long long)index->numel);
    dense_like_self(c);
    if (self->rank > 0) c->meta[0].size[dim] = index->numel;
    return true;
}

/* source has an entry for each index and the sizes of self elsewhere. */
static bool source_fits(td_opcall *c, int dim) {
    const td_tensor *self = td__in(c, 0), *index = td__in(c, 2), *source = td__in(c, 3);
    bool             fits = source->rank == self->rank;
    for (int d = 0; fits && d < self->rank; d++)
        fits = td__dim_eq(source->size[d], d == dim ? index->numel : self->size[d]);
    if (fits && (self->rank > 0 || td__dim_eq(index->numel, 1))) return true;
    return td__op_fail(c, TD_E_SHAPE,
                       "source %s must be self %s with %lld entries in dim %d",
                       td__type_str(source), td__type_str(self),
                       (long long)index->numel, dim);
}

/* in: self, dim, index, source, alpha. */
bool td__shape_index_add(td_opcall *c) {
    const td_tensor *self = td__in(c, 0);
    int              dim = td__op_dim(c, td__in_int(c, 1), self->rank);
    if (dim < 0 || !vector_index(c, td__in(c, 2), true) ||
        !same_dtype(c, self, td__in(c, 3), "source"))
        return false;
    return td__number_fits(c, 4, (td_dtype)self->dtype) && source_fits(c, dim) &&
           dense_like_self(c);
}

/* A source of one element may be 0-dim. */
bool td__shape_index_copy(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *source = td__in(c, 3);
    int              dim = td__op_dim(c, td__in_int(c, 1), self->rank);
    if (dim < 0 || !vector_index(c, td__in(c, 2), false) ||
        !same_dtype(c, self, source, "source"))
        return false;
    bool lone = source->rank + self->rank <= 1 && td__dim_eq(source->numel, 1) &&
                td__dim_eq(td__in(c, 2)->numel, 1);
    return (lone || source_fits(c, dim)) && dense_like_self(c);
}

/* in: self, dim, index, value. */
bool td__shape_index_fill(td_opcall *c) {
    const td_tensor *value = td__in(c, 3);
    if (td__op_dim(c, td__in_int(c, 1), td__in(c, 0)->rank) < 0 ||
        !vector_index(c, td__in(c, 2), false))
        return false;
    if (value && value->rank > 0)
        return td__op_fail(c, TD_E_SHAPE,
                           "value must be a number or a 0-dim tensor, got %s",
                           td__type_str(value));
    const td_dtype dt = (td_dtype)td__in(c, 0)->dtype;
    if (!td__number_fits(c, 3, dt) || (value && !td__can_keep(c, value, dt)))
        return false;
    td__meta_like(&c->meta[0], td__in(c, 0));
    return true;
}

/* ---- several dims ------------------------------------------------------- */

/* The broadcast sizes of all index tensors, and whether they stand side by side. */
static bool read_indices(td_opcall *c, td_index_plan *p, bool *adjacent) {
    const td_tensor *self = td__in(c, 0);
    td_value         list = c->in[1];
    int              last = -1;
    *adjacent = true;
    p->rank = p->indexed = 0;
    if ((int)list.n > self->rank)
        return td__op_fail(c, TD_E_INDEX, "%u indices are too many for %s", list.n,
                           td__type_str(self));
    for (int i = 0; i < (int)list.n; i++) {
        const td_tensor *t = list.u.ts[i];
        if (!t) continue;
        if (!td__index_dtype(c, t, "every index", true)) return false;
        if (t->rank > TD_MAX_RANK - self->rank ||
            !td__broadcast(&p->rank, p->size, t->rank, t->size))
            return td__op_fail(c, TD_E_SHAPE,
                               "index %d, %s, does not broadcast with the "
                               "others, %s",
                               i, td__type_str(t), td__sizes_str(p->rank, p->size));
        if (last >= 0 && last != i - 1) *adjacent = false;
        last = i;
        p->indexed++;
    }
    return p->indexed > 0 ||
           td__op_fail(c, TD_E_ARG, "at least one index must be given");
}

/* ATen's rule: where the indexed dims stand side by side, the dims of the indices take
 * their place; else they come first. */
bool td__index_plan(td_opcall *c, td_index_plan *p) {
    const td_tensor *self = td__in(c, 0);
    td_value         list = c->in[1];
    bool             adjacent, seen = false;
    int              n = 0;
    if (!read_indices(c, p, &adjacent)) return false;
    p->before = 0;
    for (int d = 0; d < self->rank && adjacent; d++) {
        seen = seen || (d < (int)list.n && list.u.ts[d]);
        if (!seen) p->order[n++] = d, p->before++;
    }
    for (int d = 0; d < (int)list.n; d++)
        if (list.u.ts[d]) p->order[n++] = d;
    for (int d = 0; d < self->rank; d++)
        if ((d >= (int)list.n || !list.u.ts[d]) && !(adjacent && d < p->before))
            p->order[n++] = d;
    p->after = self->rank - p->before - p->indexed;
    if (td__dim_eq(td__numel(p->rank, p->size), 0)) return true;
    for (int k = 0; k < p->indexed; k++)
        if (!td__dim_expect(self->size[p->order[p->before + k]], TD_DIM_IS_NE, 0))
            return td__op_fail(c, TD_E_INDEX, "dim %d of %s has no element to index",
                               p->order[p->before + k], td__type_str(self));
    return true;
}

/* Sizes of the result: dims before, the indices' own, dims after. */
static void result_sizes(const td_tensor *self, const td_index_plan *p, td_meta *m) {
    m->dtype = (td_dtype)self->dtype;
    m->rank = p->before + p->rank + p->after;
    m->strided = false;
    m->offset = 0;
    for (int i = 0; i < p->before; i++) m->size[i] = self->size[p->order[i]];
    for (int i = 0; i < p->rank; i++) m->size[p->before + i] = p->size[i];
    for (int i = 0; i < p->after; i++)
        m->size[p->before + p->rank + i] =
            self->size[p->order[p->before + p->indexed + i]];
}

/* The sizes of what index returns, and of what values of index_put broadcast to. */
bool td__index_part(td_opcall *c, td_meta *m) {
    td_index_plan p;
    if (!td__index_plan(c, &p)) return false;
    if (p.before + p.rank + p.after > TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE,
                           "the result would have %d dims; at most %d are supported",
                           p.before + p.rank + p.after, TD_MAX_RANK);
    result_sizes(td__in(c, 0), &p, m);
    return true;
}

/* An index among the dims of the result, as ATen reshapes it: dims of size 1 stand
 * for those of self, and have strides of their own where the result has one entry. */
static void index_strides(const td_tensor *index, const td_index_plan *p,
                          const td_meta *m, int64_t *out) {
    int64_t size[TD_MAX_RANK], old[TD_MAX_RANK];
    for (int i = 0; i < m->rank; i++) size[i] = 1;
    memcpy(size + p->before, p->size, sizeof(int64_t) * (size_t)p->rank);
    td__expand_strides(index, p->rank, p->size, old);
    if (td__dim_is_sym(td__numel(p->rank, p->size))) { /* a question of layout only */
        for (int i = 0; i < m->rank; i++) out[i] = 0;
        for (int i = 0; i < m->rank; i++)
            if (m->size[i] == 1) /* no guard */
                out[i] =
                    i < p->before ? td__dim_mul(old[0], p->size[0]) : old[p->rank - 1];
        memcpy(out + p->before, old, sizeof(int64_t) * (size_t)p->rank);
        return;
    }
    td__view_strides(p->rank, p->size, old, m->rank, size, out);
    for (int i = 0; i < m->rank; i++)
        if (td__dim_eq(size[i], 1) && !td__dim_eq(m->size[i], 1)) out[i] = 0;
}

/* Strides of the operands as ATen's iterator sees them: self stands still where the
 * indices step, the indices where self does. */
static void operand_strides(td_opcall *c, const td_index_plan *p, const td_meta *m,
                            int64_t (*st)[TD_MAX_RANK]) {
    const td_tensor *self = td__in(c, 0);
    int              at = p->before;
    memset(st, 0, sizeof *st * (size_t)(p->indexed + 1));
    for (int i = 0; i < p->before; i++) st[0][i] = self->stride[p->order[i]];
    for (int i = 0; i < p->after; i++)
        st[0][at + p->rank + i] = self->stride[p->order[at + p->indexed + i]];
    for (int k = 0; k < p->indexed; k++)
        index_strides(c->in[1].u.ts[p->order[at + k]], p, m, st[k + 1]);
}

/* The result is laid out in the order ATen's iterator walks the operands. */
static void result_layout(td_opcall *c, const td_index_plan *p, td_meta *m) {
    int64_t st[TD_MAX_RANK + 1][TD_MAX_RANK], step = 1;
    int     order[TD_MAX_RANK];
    bool    plain = true;
    operand_strides(c, p, m, st);
    bool alike = true; /* operands of one size that are all row-major */
    for (int i = 0; i < p->before; i++) alike = alike && td__dim_eq(m->size[i], 1);
    for (int i = p->before + p->rank; i < m->rank; i++)
        alike = alike && td__dim_eq(m->size[i], 1);
    for (int k = 0; alike && k <= p->indexed; k++)
        alike = td__is_dense(m->rank, m->size, st[k]);
    if (alike) return;
    td__iter_order(m->rank, m->size, p->indexed + 1, st, order);
    for (int i = 0; i < m->rank; i++) plain = plain && order[i] == m->rank - 1 - i;
    if (plain) return;
    m->strided = true;
    for (int i = 0; i < m->rank; i++) {
        m->stride[order[i]] = step;
        step = td__dim_mul(step, m->size[order[i]]);
    }
}

/* in: self, indices. */
bool td__shape_index(td_opcall *c) {
    td_index_plan p;
    if (!td__index_part(c, &c->meta[0]) || !td__index_plan(c, &p)) return false;
    result_layout(c, &p, &c->meta[0]);
    return true;
}

/* in: self, indices, values, accumulate. values broadcast to what the indices pick. */
bool td__shape_index_put(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *values = td__in(c, 2);
    td_meta          m;
    int64_t          stride[TD_MAX_RANK];
    if (!td__index_part(c, &m) || !same_dtype(c, self, values, "values")) return false;
    if (!td__expand_strides(values, m.rank, m.size, stride))
        return td__op_fail(c, TD_E_SHAPE,
                           "values %s do not broadcast to the indexed part %s",
                           td__type_str(values), td__sizes_str(m.rank, m.size));
    td__meta_like(&c->meta[0], self);
    return true;
}

/* ---- masks and tables --------------------------------------------------- */

/* u8 is no mask here. */
static bool bool_mask(td_opcall *c, const td_tensor *mask) {
    if (mask->dtype == TD_BOOL) return true;
    return td__op_fail(c, TD_E_DTYPE, "mask must be bool, got %s", td__type_str(mask));
}

/* How many elements of t are set: known only when a program runs. */
static bool count_later(td_opcall *c, int64_t most, int64_t *n) {
    *n = td__dim_fresh(0, most);
    return *n != TD_DIM_HUGE ||
           td__op_fail(
               c, TD_E_TRACE,
               "the size of the result depends on values; capture with dynamic sizes");
}

/* [number of nonzero elements, rank], column-major as ATen's: a column is the index
 * along one dim. */
bool td__shape_nonzero(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    int64_t          hits;
    if (!count_later(c, t->numel, &hits)) return false;
    c->meta[0] = (td_meta){.dtype = TD_I64,
                           .rank = 2,
                           .strided = true,
                           .size = {hits, t->rank},
                           .stride = {1, hits}};
    return true;
}

/* in: self. What the kernel of _classes checks as well. */
bool td__classes_check(td_opcall *c, const td_tensor *t) {
    if (t->dtype != TD_I64)
        return td__op_fail(c, TD_E_DTYPE, "takes i64 classes, got %s", td__type_str(t));
    return td__dim_expect(t->numel, TD_DIM_IS_NE, 0) ||
           td__op_fail(c, TD_E_ARG, "takes a tensor with elements, got %s",
                       td__type_str(t));
}

/* in: self. One entry for each class. */
bool td__shape_classes(td_opcall *c) {
    int64_t n;
    if (!td__classes_check(c, td__in(c, 0))) return false;
    if (!count_later(c, TD_DIM_HUGE - 1, &n)) return false;
    td__meta_dense(&c->meta[0], TD_I64, 1, &n);
    return true;
}

/* in: self, mask. Both broadcast; a vector of the chosen elements. */
bool td__shape_masked_select(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *mask = td__in(c, 1);
    int64_t          size[TD_MAX_RANK], hits;
    int              rank = self->rank;
    memcpy(size, self->size, sizeof(int64_t) * (size_t)rank);
    if (!bool_mask(c, mask)) return false;
    if (!td__broadcast(&rank, size, mask->rank, mask->size))
        return td__op_fail(c, TD_E_SHAPE, "mask %s does not broadcast with self %s",
                           td__type_str(mask), td__type_str(self));
    if (!count_later(c, td__numel(rank, size), &hits)) return false;
    td__meta_dense(&c->meta[0], (td_dtype)self->dtype, 1, &hits);
    return true;
}

/* in: self, mask, source. Only the kernel can count whether source has enough
 * elements. */
bool td__shape_masked_scatter(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *mask = td__in(c, 1);
    td_meta         *m = &c->meta[0];
    td__meta_dense(m, (td_dtype)self->dtype, self->rank, self->size);
    if (!bool_mask(c, mask) || !same_dtype(c, self, td__in(c, 2), "source"))
        return false;
    if (td__broadcast(&m->rank, m->size, mask->rank, mask->size)) return true;
    return td__op_fail(c, TD_E_SHAPE, "mask %s does not broadcast with self %s",
                       td__type_str(mask), td__type_str(self));
}

/* in: grad, mask, sizes of source. */
bool td__shape_masked_scatter_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0), *mask = td__in(c, 1);
    int64_t          stride[TD_MAX_RANK];
    if (!bool_mask(c, mask)) return false;
    if (!td__expand_strides(mask, g->rank, g->size, stride) || c->in[2].n > TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE, "mask %s does not broadcast to %s",
                           td__type_str(mask), td__type_str(g));
    td__meta_dense(&c->meta[0], (td_dtype)g->dtype, (int)c->in[2].n, c->in[2].u.ints);
    return true;
}

/* in: weight [n, d], indices, padding_idx, scale_grad_by_freq, sparse. The sizes of
 * indices, then d. */
bool td__shape_embedding(td_opcall *c) {
    const td_tensor *weight = td__in(c, 0), *indices = td__in(c, 1);
    td_meta         *m = &c->meta[0];
    if (weight->rank != 2)
        return td__op_fail(c, TD_E_SHAPE, "weight must have 2 dims, got %s",
                           td__type_str(weight));
    if (!td__index_dtype(c, indices, "indices", true)) return false;
    if (td__in_bool(c, 3) && td__in_bool(c, 4))
        return td__op_fail(c, TD_E_ARG,
                           "scale_grad_by_freq is not supported with sparse gradients; "
                           "set one of the two");
    if (indices->rank == TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE,
                           "indices %s has %d dims; the result has one more, and at "
                           "most %d are supported",
                           td__type_str(indices), indices->rank, TD_MAX_RANK);
    td__meta_dense(m, (td_dtype)weight->dtype, indices->rank, indices->size);
    m->size[m->rank++] = weight->size[1];
    return true;
}

/* in: grad, indices, num_weights, padding_idx, scale_grad_by_freq. [num_weights, d]. */
bool td__shape_embedding_dense_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0), *indices = td__in(c, 1);
    bool             fits = g->rank == indices->rank + 1;
    for (int d = 0; fits && d < indices->rank; d++)
        fits = td__dim_eq(g->size[d], indices->size[d]);
    if (!td__index_dtype(c, indices, "indices", true)) return false;
    if (!fits || td__dim_lt(td__in_int(c, 2), 0))
        return td__op_fail(c, TD_E_SHAPE,
                           "grad %s must have the sizes of indices %s and one more "
                           "dim, and num_weights must not be negative",
                           td__type_str(g), td__type_str(indices));
    int64_t size[2] = {td__in_int(c, 2), g->size[g->rank - 1]};
    td__meta_dense(&c->meta[0], (td_dtype)g->dtype, 2, size);
    return true;
}
