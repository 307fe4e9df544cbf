/* decomp_index.c -- composite ops of the index family. Masks become integer index
 * tensors here, so that the ops below have results of known sizes: only nonzero, which
 * makes the index tensors, has a size that depends on values. */
#include "core/device.h"
#include "rules/index_args.h"

/* A list of n sizes or dims as ops take it. */
static td_ints ints(const int64_t *v, int n) { return (td_ints){v, n}; }

/* Sets result 0; false when the call that made t failed, so that a rule ends with
 * `return give(...)`. */
static bool give(td_opcall *c, td_tensor *t) {
    c->out[0] = t;
    return t && !td_is_nil(t);
}

/* ---- masks among the indices -------------------------------------------- */

/* PyTorch takes bool tensors, and u8 ones of old programs, as masks. */
static bool is_mask(const td_tensor *t) {
    return t && (t->dtype == TD_BOOL || t->dtype == TD_U8);
}

/* Indices without masks. */
typedef struct opened {
    td_tensor *self; /* with a dim of size 1 for each mask without dims */
    td_tensor *list[TD_MAX_RANK];
    int        n; /* how many: the dims of self they cover */
} opened;

/* The mask must have the sizes of the dims of self it stands for. */
static bool mask_fits(td_opcall *c, const td_tensor *mask, int nr, const opened *o) {
    const td_tensor *self = o->self;
    bool             fits = o->n + mask->rank <= self->rank;
    for (int d = 0; fits && d < mask->rank; d++)
        fits = td__dim_eq(mask->size[d], self->size[o->n + d]);
    if (fits) return true;
    return td__op_fail(c, TD_E_INDEX, "mask %d, %s, does not match %s from dim %d on",
                       nr, td__type_str(mask), td__type_str(self), o->n);
}

/* Replaces each mask by one index tensor a dim. A mask without dims stands for no dim
 * of self: it is one of size [1] over a dim that self gets for it. */
static bool open_masks(td_opcall *c, opened *o) {
    td_value given = c->in[1];
    *o = (opened){.self = td__in(c, 0)};
    for (uint32_t i = 0; i < given.n; i++) {
        td_tensor *t = given.u.ts[i];
        if (o->n >= TD_MAX_RANK)
            return td__op_fail(c, TD_E_INDEX,
                               "indices and masks cover more than %d dims, which is "
                               "the most supported",
                               TD_MAX_RANK);
        if (!is_mask(t)) {
            o->list[o->n++] = t;
            continue;
        }
        if (t->rank == 0 && o->n <= o->self->rank) {
            o->self = td_op_unsqueeze(o->self, o->n);
            t = td_op_unsqueeze(t, 0);
        }
        if (td_is_nil(o->self) || td_is_nil(t) || !mask_fits(c, t, (int)i, o))
            return false;
        /* [number of true elements, rank]: column d indexes dim d */
        td_tensor *hits = td_op_nonzero(t);
        for (int d = 0; d < t->rank; d++) {
            o->list[o->n] = td_op_select(hits, 1, d);
            if (td_is_nil(o->list[o->n++])) return false;
        }
    }
    return true;
}

/* The same where holes alone are given: the first dim is taken in its order. */
static bool open_indices(td_opcall *c, opened *o) {
    if (!open_masks(c, o)) return false;
    for (int i = 0; i < o->n; i++)
        if (o->list[i]) return true;
    if (o->self->rank == 0) return true; /* for the op below to refuse */
    if (o->n == 0) o->n = 1;
    o->list[0] = td_op_arange(c->cx, td_value_int(0), td_value_int(o->self->size[0]),
                              td_value_int(1), TD_I64);
    return !td_is_nil(o->list[0]);
}

/* in: self, indices (a list of index tensors, masks and holes). Masks are opened into
 * index tensors first, so that _index sees integers only. */
bool td__decomp_index(td_opcall *c) {
    opened o;
    return open_indices(c, &o) &&
           give(c, td_op__index(o.self, (td_tensors){o.list, o.n}));
}

/* Is one mask alone given, and one value to write? ATen then calls masked_fill_ with
 * the number, so the value may have any rank and dtype, and may overlap self. */
static bool fills_mask(td_opcall *c) {
    td_value         given = c->in[1];
    const td_tensor *values = td__in(c, 2);
    int              masks = 0;
    for (uint32_t i = 0; i < given.n; i++) {
        if (given.u.ts[i] && !is_mask(given.u.ts[i])) return false;
        masks += given.u.ts[i] != NULL;
    }
    return masks == 1 && !td__in_bool(c, 3) && td__dim_eq(values->numel, 1);
}

/* The values as _index_put takes them: the number that fills a mask has no dims, the
 * dtype of self and memory of its own. */
static td_tensor *put_values(td_opcall *c) {
    td_tensor *self = td__in(c, 0), *values = td__in(c, 2);
    bool       cast = values->dtype != self->dtype;
    bool       apart = td__overlap(self, values) == TD_OVERLAP_NO;
    if ((!cast && apart && values->rank <= 1) || !fills_mask(c)) return values;
    return td_op_to(td_op_reshape(values, TD_SHAPE()), (td_dtype)self->dtype, !apart);
}

/* in: self, indices, values, accumulate. open_indices may have inserted dims of size 1
 * into self; the result gets the sizes of self back. */
bool td__decomp_index_put(td_opcall *c) {
    opened     o;
    td_tensor *self = td__in(c, 0), *values = put_values(c);
    if (td_is_nil(values) || !open_indices(c, &o)) return false;
    td_tensor *y =
        td_op__index_put(o.self, (td_tensors){o.list, o.n}, values, td__in_bool(c, 3));
    return give(c, o.self == self ? y : td_op_reshape(y, td__sizes(self)));
}

/* index_put_: writes through o.self, which is self or a view of it, and returns
 * self. A mask may not overlap self, though its indices do not: ATen checks the
 * arguments. */
bool td__decomp_index_put_write(td_opcall *c) {
    opened     o;
    td_tensor *self = td__in(c, 0), *values = put_values(c);
    return !td_is_nil(values) && td__may_read_beside(c, 1, self, !fills_mask(c)) &&
           open_indices(c, &o) &&
           !td_is_nil(td_op__index_put_(o.self, (td_tensors){o.list, o.n}, values,
                                        td__in_bool(c, 3))) &&
           give(c, self);
}

/* ---- others ------------------------------------------------------------- */

/* t expanded to the sizes of `other` in every dim but `dim`; both have the same
 * rank. */
static td_tensor *broadcast_beside(td_tensor *t, const td_tensor *other, int dim) {
    int64_t size[TD_MAX_RANK];
    for (int d = 0; d < t->rank; d++)
        size[d] =
            d == dim || td__dim_eq(other->size[d], 1) ? t->size[d] : other->size[d];
    return td_op_expand(t, ints(size, t->rank));
}

/* in: self, indices, dim or none. Without a dim both are flattened first. Indices wrap
 * around, as in ATen: the remainder by the size makes negative ones positive. */
bool td__decomp_take_along_dim(td_opcall *c) {
    td_tensor *self = td__in(c, 0), *index = td__in(c, 1);
    int64_t    all = -1;
    bool       flat = td__in_none(c, 2);
    if (index->dtype != TD_I64 && !(flat && index->dtype == TD_I32))
        return td__op_fail(c, TD_E_DTYPE, "indices must be i64%s, got %s",
                           flat ? " or i32" : "", td__type_str(index));
    if (flat)
        return give(c, td_op_gather(td_op_reshape(self, ints(&all, 1)), 0,
                                    td_op_reshape(index, ints(&all, 1))));
    if (self->rank != index->rank)
        return td__op_fail(c, TD_E_SHAPE,
                           "indices %s must have as many dims as self %s",
                           td__type_str(index), td__type_str(self));
    if (self->rank == 0)
        return td__op_fail(c, TD_E_INDEX,
                           "self and indices have no dims; leave dim out");
    int dim = td__op_dim(c, td__in_int(c, 2), self->rank);
    if (dim < 0) return false;
    if (!td__dim_eq(self->size[dim], 0))
        index = td_op_remainder(index, td_value_int(self->size[dim]));
    if (td_is_nil(index)) return false;
    td_tensor *wide = broadcast_beside(self, index, dim);
    return give(c, td_op_gather(wide, dim, broadcast_beside(index, self, dim)));
}

/* in: self i64, num_classes. num_classes -1 means max(self) + 1. Classes are checked
 * here, before the scatter. */
bool td__decomp_one_hot(td_opcall *c) {
    td_tensor *self = td__in(c, 0);
    int64_t    classes = td__in_number(c, 1), size[TD_MAX_RANK];
    if (self->dtype != TD_I64)
        return td__op_fail(c, TD_E_DTYPE, "takes i64 classes, got %s",
                           td__type_str(self));
    if (self->rank == TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE,
                           "self %s has %d dims; the result has one more, and at most "
                           "%d are supported",
                           td__type_str(self), self->rank, TD_MAX_RANK);
    if (td__dim_eq(self->numel, 0) && classes <= 0)
        return td__op_fail(c, TD_E_ARG,
                           "num_classes must be given for a tensor without "
                           "elements");
    if (classes < -1)
        return td__op_fail(c, TD_E_ARG,
                           "num_classes must be -1, which counts the classes, or not "
                           "negative, got %lld",
                           (long long)classes);
    if (classes == -1) {
        td_tensor *all = td_op__classes(self);
        if (td_is_nil(all)) return false;
        classes = all->size[0];
    }
    bool             read = !c->cx->fake && !td__is_fake(self) && !self->typed;
    const td_tensor *host = read ? td__on_host(self) : NULL;
    if (read && (!host || !td__class_check(c, host, classes))) return false;
    for (int d = 0; d < self->rank; d++) size[d] = self->size[d];
    size[self->rank] = classes;
    td_tensor *zeros = td_op_zeros(c->cx, ints(size, self->rank + 1), TD_I64);
    td_tensor *index = td_op_unsqueeze(self, -1);
    return give(c, td_op_scatter_value(zeros, -1, index, td_value_int(1)));
}

/* ---- different values --------------------------------------------------- */

/* For a sorted vector: bool, true at each element that differs from the one before it;
 * the first is true. */
static td_tensor *begins(td_tensor *sorted) {
    td_value   none = td_value_none(), one = td_value_int(1);
    td_tensor *head = td_op_slice(sorted, 0, none, one, 1);
    td_tensor *next = td_op_slice(sorted, 0, one, none, 1);
    td_tensor *before = td_op_slice(sorted, 0, none, td_value_int(-1), 1);
    td_tensor *parts[2] = {td_op_ones_like(head, TD_BOOL),
                           td_op_ne(next, td_value_tensor(before))};
    return td_op_cat((td_tensors){parts, 2}, 0);
}

/* in: self, return_inverse, return_counts. Results: the values in ascending order, for
 * each element of self its place among them, and how often each occurs. The number of
 * values is known at run time only: it is that of nonzero(first). */
bool td__decomp_unique(td_opcall *c) {
    td_tensor *self = td__in(c, 0), *order = NULL;
    int64_t    all = -1, zero = 0;
    td_tensor *sorted =
        td_op_sort(td_op_reshape(self, ints(&all, 1)), 0, false, true, &order);
    td_tensor *first = begins(sorted);
    /* where each value first occurs in the sorted list */
    td_tensor *at = td_op_select(td_op_nonzero(first), 1, 0);
    td_tensor *place = td_op_sub(td_op_cumsum(first, 0, TD_DTYPE_NONE), td_value_int(1),
                                 td_value_int(1));
    /* place[i]: which of the different values sorted[i] is */
    td_tensor *ones = td_op_ones_like(place, TD_DTYPE_NONE);
    c->out[0] = td_op_index_select(sorted, 0, at);
    c->out[1] =
        td__in_bool(c, 1)
            ? td_op_reshape(td_op_scatter(place, 0, order, place), td__sizes(self))
            : td_op_new_zeros(place, ints(&zero, 1), TD_DTYPE_NONE);
    c->out[2] = td__in_bool(c, 2)
                    ? td_op_index_add(td_op_zeros_like(at, TD_DTYPE_NONE), 0, place,
                                      ones, td_value_int(1))
                    : td_op_new_zeros(place, ints(&zero, 1), TD_DTYPE_NONE);
    return td_ok(c->cx);
}
