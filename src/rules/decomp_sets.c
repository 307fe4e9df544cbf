/* decomp_sets.c -- composite ops that look values up and find the different ones. */
#include "rules/index_args.h"
#include "rules/rule_arith.h"
#include "rules/shape_rules.h"

#include <string.h>

/* Sets result 0; false when the call that made t failed. */
static bool give(td_opcall *c, td_tensor *t) {
    c->out[0] = t;
    return t && !td_is_nil(t);
}

static td_tensor *flat(td_tensor *t) { return td_op_reshape(t, TD_SHAPE(-1)); }

/* ---- by flat index ------------------------------------------------------ */

/* Has self an element for index to name? */
static bool has_elements(td_opcall *c, const td_tensor *index) {
    const td_tensor *self = td__in(c, 0);
    if (td__dim_eq(index->numel, 0) || td__dim_expect(self->numel, TD_DIM_IS_NE, 0))
        return true;
    return td__op_fail(c, TD_E_INDEX, "self %s has no element for an index to name",
                       td__type_str(self));
}

/* in: self, index. */
bool td__decomp_take(td_opcall *c) {
    td_tensor *index = td__in(c, 1), *at = flat(index);
    if (!td__index_dtype(c, index, "index", false) || !has_elements(c, index))
        return false;
    td_tensor *got = td_op__index(flat(td__in(c, 0)), (td_tensors){&at, 1});
    return give(c, td_op_reshape(got, td__sizes(index)));
}

/* in: self, index, source, accumulate. */
static bool put_fits(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *index = td__in(c, 1), *source = td__in(c, 2);
    if (!td__index_dtype(c, index, "index", false) || !has_elements(c, index))
        return false;
    if (source->dtype != self->dtype || !td__dim_eq(source->numel, index->numel))
        return td__op_fail(c, TD_E_SHAPE,
                           "source %s must have the dtype of self %s and as many "
                           "elements as index %s",
                           td__type_str(source), td__type_str(self),
                           td__type_str(index));
    return true;
}

/* The result has the layout of self. */
bool td__decomp_put(td_opcall *c) {
    td_tensor *self = td__in(c, 0), *at = flat(td__in(c, 1));
    if (!put_fits(c)) return false;
    td_tensor *out = td_op__index_put(flat(self), (td_tensors){&at, 1},
                                      flat(td__in(c, 2)), td__in_bool(c, 3));
    out = td_op_reshape(out, td__sizes(self));
    if (!td__is_dense(self->rank, self->size, self->stride))
        out = td_op_copy(td_op_empty_like(self, TD_DTYPE_NONE), out, false);
    return give(c, out);
}

/* put_: through a flat view of self where there is one. */
bool td__decomp_put_write(td_opcall *c) {
    td_tensor *self = td__in(c, 0), *at = flat(td__in(c, 1)), *done;
    if (!put_fits(c)) return false;
    if (!td__may_read_beside(c, 1, self, true) ||
        !td__may_read_beside(c, 2, self, true))
        return false;
    if (td__is_dense(self->rank, self->size, self->stride))
        done = td_op__index_put_(td_op_view(self, TD_SHAPE(-1)), (td_tensors){&at, 1},
                                 flat(td__in(c, 2)), td__in_bool(c, 3));
    else
        done =
            td_op_copy_(self,
                        td_op_put(self, td__in(c, 1), td__in(c, 2), td__in_bool(c, 3)),
                        false);
    return !td_is_nil(done) && give(c, self);
}

/* in: indices, shape. Results are the columns of one tensor, as in PyTorch. */
bool td__decomp_unravel_index(td_opcall *c) {
    td_tensor *index = td__in(c, 0), *steps[TD_MAX_RANK], *sizes[TD_MAX_RANK];
    td_value   shape = c->in[1];
    int64_t    step = 1;
    int        n = (int)shape.n;
    if (td__is_float((td_dtype)index->dtype) || index->dtype == TD_BOOL ||
        n > TD_MAX_RANK)
        return td__op_fail(c, TD_E_ARG,
                           "indices must be integers and shape have at most %d "
                           "entries, got %s and %d",
                           TD_MAX_RANK, td__type_str(index), n);
    for (int d = 0; d < n; d++)
        if (td__dim_lt(shape.u.ints[d], 0) ||
            (!td__dim_eq(index->numel, 0) &&
             !td__dim_expect(shape.u.ints[d], TD_DIM_IS_NE, 0)))
            return td__op_fail(c, TD_E_ARG,
                               "size %d of shape %s must be positive, as there are "
                               "indices",
                               d, td__sizes_str(n, shape.u.ints));
    if (!td__call_results(c, n) || n == 0) return n == 0;
    for (int d = n - 1; d >= 0; d--) {
        int64_t size = td__dim_max(shape.u.ints[d], 1);
        steps[d] = td_op_scalar_tensor(c->cx, td_value_int(step), TD_I64);
        sizes[d] = td_op_scalar_tensor(c->cx, td_value_int(size), TD_I64);
        step = td__dim_mul(step, size);
    }
    td_tensor *by = td_op_stack((td_tensors){steps, n}, 0);
    td_tensor *of = td_op_stack((td_tensors){sizes, n}, 0);
    td_tensor *all =
        td_op_div(td_op_unsqueeze(index, -1), td_value_tensor(by), "floor");
    return td_op_unbind(td_op_remainder(all, td_value_tensor(of)), -1, c->out, n) >= 0;
}

/* ---- lookup ------------------------------------------------------------- */

/* Operand i as a tensor of the dtype given. */
static td_tensor *operand(td_opcall *c, int i, td_dtype dt) {
    td_tensor *t = td__in(c, i);
    td_dtype   own = c->in[i].kind == TD_K_FLOAT ? TD_F64 : TD_I64;
    /* a number beyond the dtype wraps around, as in ATen */
    return t_as(t ? t : td_op_scalar_tensor(c->cx, c->in[i], own), dt);
}

/* Does the search take the index behind equal elements? False after td__op_fail where
 * `right` and `side` are no answer. */
static bool search_side(td_opcall *c, bool *right) {
    const char *side = c->in[4].u.s;
    *right = td__in_bool(c, 3) || !strcmp(side, "right");
    if (side[0] && strcmp(side, "left") && strcmp(side, "right"))
        return td__op_fail(c, TD_E_ARG, "side must be 'left' or 'right', got '%.20s'",
                           side);
    return !(td__in_bool(c, 3) && !strcmp(side, "left")) ||
           td__op_fail(c, TD_E_ARG, "right is true and side is 'left'; give one");
}

/* in: sorted_sequence, self, out_int32, right, side, sorter. */
bool td__decomp_searchsorted(td_opcall *c) {
    bool     right;
    td_dtype dt = td__result_type(c->cx, c->in, 2);
    if (!search_side(c, &right)) return false;
    return give(c, td_op__searchsorted(operand(c, 0, dt), operand(c, 1, dt),
                                       td__in_bool(c, 2), right, td__in(c, 5)));
}

/* in: self, boundaries, out_int32, right. */
bool td__decomp_bucketize(td_opcall *c) {
    td_tensor *edges = td__in(c, 1);
    if (edges->rank != 1)
        return td__op_fail(c, TD_E_SHAPE, "boundaries is %s; it must be a vector",
                           td__type_str(edges));
    return give(c, td_op_searchsorted(edges, c->in[0], td__in_bool(c, 2),
                                      td__in_bool(c, 3), "", NULL));
}

/* A vector in ascending order, NaNs first: a search passes over them. */
static td_tensor *ascending(td_tensor *t) {
    td_tensor *order;
    if (!td__is_float((td_dtype)t->dtype)) return td_op_sort(t, 0, false, true, &order);
    t = td_op_sort(td_op_neg(t), 0, false, true, &order);
    return td_op_neg(td_op_flip(t, TD_DIMS(0)));
}

/* in: elements, test_elements, assume_unique, invert. An element is compared with the
 * sorted test element at which a search ends. */
bool td__decomp_isin(td_opcall *c) {
    td_dtype   dt = td__result_type(c->cx, c->in, 2);
    td_tensor *el = operand(c, 0, dt), *test = operand(c, 1, dt);
    bool       invert = td__in_bool(c, 3);
    if (td_is_nil(el) || td_is_nil(test)) return false;
    for (int i = 0; i < 2; i++)
        if (c->in[i].kind == TD_K_TENSOR && td__in(c, i)->dtype == TD_BOOL)
            return td__op_fail(c, TD_E_DTYPE,
                               "bool is unsupported; convert to an integer dtype");
    el = td_op_contiguous(td_op_detach(el));
    if (td__dim_eq(test->numel, 0))
        return give(c, invert ? td_op_ones_like(el, TD_BOOL)
                              : td_op_zeros_like(el, TD_BOOL));
    td_tensor *sorted = ascending(flat(td_op_detach(test)));
    td_tensor *at =
        td_op_searchsorted(sorted, td_value_tensor(el), false, false, "", NULL);
    if (td_is_nil(at)) return false;
    at = td_op_clamp_max(at, td_value_int(td__dim_sub(sorted->numel, 1)));
    td_value found = td_value_tensor(td_op_take(sorted, at));
    return give(c, invert ? td_op_ne(el, found) : td_op_eq(el, found));
}

/* ---- runs of equal elements --------------------------------------------- */

/* For each entry along dim 0, bool: does it differ from the one before it? The first
 * does. */
static td_tensor *run_begins(td_tensor *t) {
    td_value   none = td_value_none(), one = td_value_int(1);
    td_tensor *next = td_op_slice(t, 0, one, none, 1);
    td_tensor *before = td_op_slice(t, 0, none, td_value_int(-1), 1);
    td_tensor *differs = td_op_ne(next, td_value_tensor(before));
    td_tensor *head = td_op_slice(t, 0, none, one, 1);
    if (t->rank > 1) {
        differs = td_op_any(td_op_flatten(differs, 1, -1), TD_DIMS(1), false);
        head = td_op_select(td_op_flatten(head, 1, -1), 1, 0);
    }
    td_tensor *parts[2] = {td_op_ones_like(head, TD_BOOL), differs};
    return td_op_cat((td_tensors){parts, 2}, 0);
}

/* Sets the results for the entries of t along dim 0. The number of runs is known at run
 * time only: it is that of nonzero(first). */
static void give_runs(td_opcall *c, td_tensor *t, bool inverse, bool counts) {
    td_tensor *first = run_begins(td_op_detach(t));
    td_tensor *at = td_op_select(td_op_nonzero(first), 1, 0);
    td_tensor *place = td_op_sub(td_op_cumsum(first, 0, TD_DTYPE_NONE), td_value_int(1),
                                 td_value_int(1));
    td_tensor *ones = td_op_ones_like(place, TD_DTYPE_NONE);
    c->out[0] = td_op_index_select(t, 0, at);
    c->out[1] = inverse ? place : td_op_new_zeros(place, TD_SHAPE(0), TD_DTYPE_NONE);
    c->out[2] = counts ? td_op_index_add(td_op_zeros_like(at, TD_DTYPE_NONE), 0, place,
                                         ones, td_value_int(1))
                       : td_op_new_zeros(place, TD_SHAPE(0), TD_DTYPE_NONE);
}

/* in: self, return_inverse, return_counts, dim or none. With a dim PyTorch returns all
 * three whatever is asked for, unless self is a vector and dim is 0. */
bool td__decomp_unique_consecutive(td_opcall *c) {
    td_tensor *self = td__in(c, 0);
    int        dim = 0;
    if (!td__in_none(c, 3) && (dim = td__op_dim(c, td__in_int(c, 3), self->rank)) < 0)
        return false;
    if (td__in_none(c, 3) || (self->rank == 1 && td__in_int(c, 3) == 0)) {
        give_runs(c, flat(self), td__in_bool(c, 1), td__in_bool(c, 2));
        if (td__in_bool(c, 1)) c->out[1] = td_op_reshape(c->out[1], td__sizes(self));
        return td_ok(c->cx);
    }
    bool empty = self->rank == 0;
    for (int d = 0; d < self->rank; d++)
        empty |= d != dim && !td__dim_expect(self->size[d], TD_DIM_IS_NE, 0);
    if (empty)
        return td__op_fail(c, TD_E_SHAPE,
                           "self is %s; its entries along dim %d must have elements",
                           td__type_str(self), dim);
    give_runs(c, td_op_movedim(self, TD_DIMS(dim), TD_DIMS(0)), true, true);
    c->out[0] = td_op_movedim(c->out[0], TD_DIMS(0), TD_DIMS(dim));
    return td_ok(c->cx);
}

/* ---- histograms --------------------------------------------------------- */

/* Counts as a density: over their sum and the widths of the intervals. */
static td_tensor *density(td_tensor *hist, td_tensor *edges) {
    td_tensor *share = t_div(hist, t_sum(hist, TD_ALL, false));
    return t_div(share, td_op_diff(edges, 1, 0));
}

/* Sets both results of a histogram. As PyTorch's, they have one history. */
static bool give_histogram(td_opcall *c, td_tensor *edges, td_value weight, bool dense,
                           bool even) {
    td_tensor *w = weight.kind == TD_K_TENSOR ? weight.u.t : NULL;
    c->out[0] = td_op__histogram(td__in(c, 0), edges, w, even, &c->out[1]);
    if (dense) c->out[0] = density(c->out[0], c->out[1]);
    return td_ok(c->cx) && !td_is_nil(c->out[0]);
}

/* in: self, bins, min, max, weight, density. */
bool td__decomp_histogram(td_opcall *c) {
    td_tensor *edges =
        td_op__histogram_edges(td__in(c, 0), td__in_int(c, 1), c->in[2], c->in[3]);
    return give_histogram(c, edges, c->in[4], td__in_bool(c, 5), true);
}

/* in: self, bins, weight, density. */
bool td__decomp_histogram_bins(td_opcall *c) {
    return give_histogram(c, td__in(c, 1), c->in[2], td__in_bool(c, 3), false);
}
