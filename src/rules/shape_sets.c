/* shape_sets.c -- results and argument checks of ops that repeat, count and look up
 * values: repeat_interleave, combinations, bincount, histc, searchsorted and others.
 * Sizes that depend on values are known when the program runs. */
#include "rules/index_args.h"
#include "rules/shape_rules.h"

#include <math.h>
#include <string.h>

/* A size from lo on that is known only when a program runs. */
static bool size_later(td_opcall *c, int64_t lo, int64_t *n) {
    *n = td__dim_fresh(lo, TD_DIM_HUGE - 1);
    return *n != TD_DIM_HUGE ||
           td__op_fail(
               c, TD_E_TRACE,
               "the size of the result depends on values; capture with dynamic sizes");
}

/* ---- repeated indices --------------------------------------------------- */

/* in: repeats, output_size or none. Without output_size the size is the sum of
 * repeats. */
bool td__shape_repeat_interleave(td_opcall *c) {
    int64_t n = 0;
    if (!td__repeats_check(c)) return false;
    if (!td__in_none(c, 1)) n = td__in_int(c, 1);
    else if (!size_later(c, 0, &n)) return false;
    td__meta_dense(&c->meta[0], (td_dtype)td__in(c, 0)->dtype, 1, &n);
    return true;
}

bool td__repeats_check(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (t->rank != 1 || (t->dtype != TD_I64 && t->dtype != TD_I32))
        return td__op_fail(c, TD_E_DTYPE,
                           "repeats must be a vector of i64 or i32, got %s",
                           td__type_str(t));
    return td__in_none(c, 1) || !td__dim_lt(td__in_int(c, 1), 0) ||
           td__op_fail(c, TD_E_ARG, "output_size must not be negative, got %lld",
                       (long long)td__in_int(c, 1));
}

/* n over r, or TD_DIM_HUGE where it is too large for a size. */
static int64_t choose(int64_t n, int64_t r) {
    double count = 1;
    if (n < r) return 0;
    if (r > n - r) r = n - r;
    int64_t exact = 1;
    for (int64_t i = 1; i <= r; i++) {
        count *= (double)(n - r + i) / (double)i;
        if (count > 1e15) return TD_DIM_HUGE;
        exact = exact * (n - r + i) / i; /* a product of i numbers is divisible by i! */
    }
    return exact;
}

/* in: n, r, with_replacement. [number of lists, r]. */
bool td__shape_combinations(td_opcall *c) {
    int64_t n = td__in_number(c, 0), r = td__in_number(c, 1);
    if (n < 0 || r < 1)
        return td__op_fail(c, TD_E_ARG,
                           "n must not be negative and r positive, got %lld and %lld",
                           (long long)n, (long long)r);
    bool    again = td__in_bool(c, 2);
    int64_t count = n == 0 ? 0 : choose(again ? td__dim_add(n, r - 1) : n, r);
    if (count >= TD_DIM_HUGE)
        return td__op_fail(c, TD_E_ARG,
                           "%lld of %lld elements have too many combinations",
                           (long long)r, (long long)n);
    td__meta_dense(&c->meta[0], TD_I64, 2, (int64_t[]){count, r});
    return true;
}

/* ---- counts ------------------------------------------------------------- */

/* in: self, size, fill_value. */
bool td__shape_nonzero_static(td_opcall *c) {
    int64_t size[2] = {td__in_int(c, 1), td__in(c, 0)->rank};
    if (td__dim_lt(size[0], 0))
        return td__op_fail(c, TD_E_ARG, "size must not be negative, got %lld",
                           (long long)size[0]);
    td__meta_dense(&c->meta[0], TD_I64, 2, size);
    return true;
}

bool td__bincount_check(td_opcall *c, td_dtype *dt) {
    const td_tensor *self = td__in(c, 0), *weights = td__in(c, 1);
    if (self->rank != 1 || td__is_float((td_dtype)self->dtype) ||
        self->dtype == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "self must be a vector of integers, got %s",
                           td__type_str(self));
    if (td__dim_lt(td__in_int(c, 2), 0))
        return td__op_fail(c, TD_E_ARG, "minlength must not be negative, got %lld",
                           (long long)td__in_int(c, 2));
    if (weights && (weights->rank != 1 || !td__dim_eq(weights->numel, self->numel)))
        return td__op_fail(c, TD_E_SHAPE, "weights %s must have the sizes of self %s",
                           td__type_str(weights), td__type_str(self));
    *dt = !weights ? TD_I64 : weights->dtype == TD_F32 ? TD_F32 : TD_F64;
    return true;
}

/* in: self, weights or none, minlength. Counts of no elements are i64, also with
 * weights. */
bool td__shape_bincount(td_opcall *c) {
    td_dtype dt;
    int64_t  n, least = td__in_int(c, 2);
    if (!td__bincount_check(c, &dt)) return false;
    if (dt != TD_I64 && !td__dim_expect(td__in(c, 0)->numel, TD_DIM_IS_NE, 0))
        dt = TD_I64;
    if (!size_later(c, td__dim_is_symbolic(least) ? 0 : least, &n)) return false;
    td__meta_dense(&c->meta[0], dt, 1, &n);
    return true;
}

/* Is `bins`, argument 1, a number of bins? */
static bool bins_fit(td_opcall *c) {
    int64_t bins = td__in_int(c, 1);
    return (!td__dim_lt(bins, 1) && td__dim_lt(bins, INT32_MAX)) ||
           td__op_fail(c, TD_E_ARG, "bins must be from 1 to %d, got %lld",
                       INT32_MAX - 1, (long long)bins);
}

/* in: self, bins, min, max. */
bool td__shape_histc(td_opcall *c) {
    const td_tensor *self = td__in(c, 0);
    td_dtype         dt = (td_dtype)self->dtype;
    int64_t          bins = td__in_int(c, 1);
    if (!td__is_float(dt))
        return td__op_fail(c, TD_E_DTYPE, "self must be floating point, got %s",
                           td__type_str(self));
    if (!bins_fit(c) || !td__number_fits(c, 2, dt) || !td__number_fits(c, 3, dt))
        return false;
    td__meta_dense(&c->meta[0], dt, 1, &bins);
    return true;
}

/* Is self, argument 0, f32 or f64? */
static bool single_or_double(td_opcall *c) {
    const td_tensor *self = td__in(c, 0);
    return self->dtype == TD_F32 || self->dtype == TD_F64 ||
           td__op_fail(c, TD_E_DTYPE, "self must be f32 or f64, got %s",
                       td__type_str(self));
}

/* in: self, bins, min, max. */
bool td__shape_histogram_edges(td_opcall *c) {
    int64_t n = td__dim_add(td__in_int(c, 1), 1);
    if (!single_or_double(c) || !bins_fit(c)) return false;
    if (td__in_none(c, 2) != td__in_none(c, 3))
        return td__op_fail(c, TD_E_ARG, "min and max must both be given, or none");
    td__meta_dense(&c->meta[0], (td_dtype)td__in(c, 0)->dtype, 1, &n);
    return true;
}

/* in: self, edges, weight or none, even. */
bool td__shape_histogram(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *edges = td__in(c, 1), *weight = td__in(c, 2);
    if (!single_or_double(c)) return false;
    if (edges->rank != 1 || edges->dtype != self->dtype || td__dim_lt(edges->numel, 2))
        return td__op_fail(c, TD_E_SHAPE,
                           "bins %s must be a vector of at least 2 edges of the dtype "
                           "of self %s",
                           td__type_str(edges), td__type_str(self));
    if (weight &&
        (weight->dtype != self->dtype || !td__dim_eq(weight->numel, self->numel)))
        return td__op_fail(c, TD_E_SHAPE,
                           "weight %s must have the dtype of self %s and as many "
                           "elements",
                           td__type_str(weight), td__type_str(self));
    int64_t bins = td__dim_sub(edges->numel, 1);
    td__meta_dense(&c->meta[0], (td_dtype)self->dtype, 1, &bins);
    td__meta_dense(&c->meta[1], (td_dtype)self->dtype, 1, edges->size);
    return true;
}

/* ---- lookup ------------------------------------------------------------- */

/* in: sorted_sequence, self, out_int32, right, sorter or none. The sizes of self. */
bool td__shape_searchsorted(td_opcall *c) {
    const td_tensor *seq = td__in(c, 0), *self = td__in(c, 1), *sorter = td__in(c, 4);
    bool fits = seq->rank == 1 || (seq->rank > 1 && seq->rank == self->rank);
    for (int d = 0; fits && seq->rank > 1 && d < seq->rank - 1; d++)
        fits = td__dim_eq(seq->size[d], self->size[d]);
    if (!fits)
        return td__op_fail(c, TD_E_SHAPE,
                           "sorted_sequence %s must be a vector, or have all sizes of "
                           "self %s but the last",
                           td__type_str(seq), td__type_str(self));
    if (seq->dtype == TD_BOOL || seq->dtype != self->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "sorted_sequence %s and self %s must have one dtype, which "
                           "is not bool",
                           td__type_str(seq), td__type_str(self));
    bool same = !sorter || (sorter->dtype == TD_I64 && sorter->rank == seq->rank);
    for (int d = 0; sorter && same && d < seq->rank; d++)
        same = td__dim_eq(sorter->size[d], seq->size[d]);
    if (!same)
        return td__op_fail(
            c, TD_E_SHAPE,
            "sorter %s must be i64 and have the sizes of sorted_sequence "
            "%s",
            td__type_str(sorter), td__type_str(seq));
    td__meta_dense(&c->meta[0], td__in_bool(c, 2) ? TD_I32 : TD_I64, self->rank,
                   self->size);
    return true;
}

/* in: lengths, n, unsafe. One more than there are lengths. */
bool td__shape_segment_offsets(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (t->rank == 0 || !td__index_dtype(c, t, "lengths", true))
        return td__op_fail(c, TD_E_SHAPE, "lengths %s must have at least one dim",
                           td__type_str(t));
    td__meta_dense(&c->meta[0], TD_I64, t->rank, t->size);
    c->meta[0].size[t->rank - 1] = td__dim_add(t->size[t->rank - 1], 1);
    return true;
}

/* in: self, dim, ranks. Both results have the sizes of ranks, which are those of self
 * but for dim. */
bool td__shape_sorted_at(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *ranks = td__in(c, 2);
    int              dim = td__op_dim(c, td__in_int(c, 1), self->rank);
    bool             fits = dim >= 0 && ranks->rank == self->rank;
    if (dim < 0 || !td__index_dtype(c, ranks, "ranks", false)) return false;
    for (int d = 0; fits && d < self->rank; d++)
        fits = d == dim || td__dim_eq(ranks->size[d], self->size[d]);
    if (!fits)
        return td__op_fail(c, TD_E_SHAPE,
                           "ranks %s must have the sizes of self %s but for dim %d",
                           td__type_str(ranks), td__type_str(self), dim);
    td__meta_dense(&c->meta[0], (td_dtype)self->dtype, ranks->rank, ranks->size);
    td__meta_dense(&c->meta[1], TD_I64, ranks->rank, ranks->size);
    return true;
}

/* in: self, least, most, what. A row-major copy. */
bool td__shape_expect_range(td_opcall *c) {
    td__meta_like(&c->meta[0], td__in(c, 0));
    return true;
}
