/* decomp_bag.c -- embedding_bag: rows of a table, added up or reduced by bags. */
#include "rules/rule_arith.h"

#include <math.h>
#include <string.h>

enum { OFFSETS = 2, BY_FREQ, MODE, WEIGHTS, LAST, PADDING, SPARSE };

/* What the two forms share. */
typedef struct bags {
    char       how;   /* 's'um, 'm'ean, ma'x' */
    td_tensor *rows;  /* [..., D], the padding zero, or -inf of a maximum */
    td_tensor *kept;  /* which rows count, or NULL: all */
    td_dtype   dtype; /* halves are computed in f32 */
} bags;

/* Rows without an element of its own give zeros, also of a maximum. */
static td_tensor *zero_where_empty(td_tensor *t) {
    return td_op_where(td_op_eq(t, td_value_float(-(double)INFINITY)),
                       td_value_float(0), td_value_tensor(t));
}

/* The rows of the table, weighted, with the padding taken out. */
static bool read_rows(td_opcall *c, bags *b) {
    td_tensor *w = td__in(c, 0), *at = td__in(c, 1), *k = td__in(c, WEIGHTS);
    b->rows = t_wide(
        td_op_embedding(w, at, -1, td__in_bool(c, BY_FREQ), td__in_bool(c, SPARSE)));
    if (k) b->rows = t_mul(b->rows, td_op_unsqueeze(t_wide(k), -1));
    if (td__in_none(c, PADDING)) return true;
    int64_t pad = td__in_int(c, PADDING), n = td__dim_fixed(w->size[0]);
    if (pad < -n || pad >= n)
        return td__op_fail(c, TD_E_ARG,
                           "padding_idx must be from %lld to %lld, got %lld",
                           (long long)-n, (long long)(n - 1), (long long)pad);
    b->kept = td_op_ne(at, td_value_int(pad < 0 ? pad + n : pad));
    double none = b->how == 'x' ? -(double)INFINITY : 0;
    b->rows = td_op_where(td_op_unsqueeze(b->kept, -1), td_value_tensor(b->rows),
                          td_value_float(none));
    return true;
}

/* Means: sums over how many there are, at least one. */
static td_tensor *over_count(td_tensor *sum, td_tensor *count) {
    count = td_op_clamp_min(count, td_value_int(1));
    return td_op_div(sum, td_value_tensor(td_op_unsqueeze(count, -1)), "");
}

/* indices [B,N]: each row is a bag. */
static td_tensor *by_rows(td_opcall *c, const bags *b) {
    td_tensor *at = td__in(c, 1);
    int64_t    one = 1, n = at->size[1];
    td_ints    dim = {&one, 1};
    if (b->how == 'x') {
        if (td__dim_eq(n, 0)) return t_sum(b->rows, dim, false);
        return zero_where_empty(td_op_max_dim(b->rows, 1, false, NULL));
    }
    td_tensor *sum = t_sum(b->rows, dim, false);
    if (b->how == 's') return sum;
    if (b->kept)
        return over_count(sum, t_sum(td_op_to(b->kept, b->dtype, false), dim, false));
    return td__dim_expect(n, TD_DIM_IS_NE, 0) ? t_share(sum, n) : sum;
}

/* The offsets; fails where they descend. */
static td_tensor *ascending(td_tensor *offsets) {
    td_tensor *first = td_op_slice(offsets, 0, td_value_int(0), td_value_int(1), 1);
    td_tensor *both[] = {first, td_op_diff(offsets, 1, 0)};
    td_tensor *steps = td_op_cat((td_tensors){both, 2}, 0);
    steps = td_op__expect_range(steps, 0, (double)INFINITY, "the length of a bag");
    return td_op_cumsum(steps, 0, (td_dtype)offsets->dtype);
}

/* For each index the number of its bag: how many bags begin at it or before, less 1. */
static td_tensor *bag_numbers(td_opcall *c, td_tensor *offsets) {
    td_tensor *at = td__in(c, 1);
    int64_t    n = at->size[0], room = td__dim_add(n, 1);
    td_tensor *begin = td_op_new_zeros(offsets, (td_ints){&room, 1}, TD_I64);
    td_tensor *one = td_op_new_ones(offsets, (td_ints){offsets->size, 1}, TD_I64);
    begin = td_op_index_add(begin, 0, offsets, one, td_value_int(1));
    td_tensor *nr = td_op_cumsum(begin, 0, TD_DTYPE_NONE);
    nr = td_op_slice(nr, 0, td_value_int(0), td_value_int(n), 1);
    return td_op_sub(nr, td_value_int(1), td_value_int(1));
}

/* indices [N], bags of neighbours that begin at offsets. */
static td_tensor *by_offsets(td_opcall *c, const bags *b) {
    td_tensor *w = td__in(c, 0), *offsets = td__in(c, OFFSETS);
    int64_t    many = offsets->size[0];
    if (td__in_bool(c, LAST)) {
        many = td__dim_sub(many, 1);
        offsets = td_op_slice(offsets, 0, td_value_int(0), td_value_int(many), 1);
    }
    int64_t    size[2] = {many, w->size[1]};
    td_tensor *nr = bag_numbers(c, ascending(offsets));
    td_tensor *zero = td_op_new_zeros(b->rows, (td_ints){size, 2}, TD_DTYPE_NONE);
    if (b->how == 'x') {
        td_ints    all = {b->rows->size, 2};
        td_tensor *low =
            td_op_full_like(zero, td_value_float(-(double)INFINITY), TD_DTYPE_NONE);
        nr = td_op_expand(td_op_unsqueeze(nr, 1), all);
        return zero_where_empty(
            td_op_scatter_reduce(low, 0, nr, b->rows, "amax", true));
    }
    td_tensor *sum = td_op_index_add(zero, 0, nr, b->rows, td_value_int(1));
    if (b->how == 's') return sum;
    td_tensor *one = b->kept
                         ? td_op_to(b->kept, b->dtype, false)
                         : td_op_new_ones(zero, (td_ints){nr->size, 1}, TD_DTYPE_NONE);
    td_tensor *none = td_op_new_zeros(zero, (td_ints){size, 1}, TD_DTYPE_NONE);
    return over_count(sum, td_op_index_add(none, 0, nr, one, td_value_int(1)));
}

/* The table is [V,D], the indices have 1 or 2 dims and offsets only with 1; weights are
 * those of a sum. */
static bool want(td_opcall *c, bags *b) {
    const td_tensor *w = td__in(c, 0), *at = td__in(c, 1), *off = td__in(c, OFFSETS);
    const td_tensor *k = td__in(c, WEIGHTS);
    const char      *mode = c->in[MODE].u.s;
    b->how = !strcmp(mode, "sum") ? 's' : !strcmp(mode, "mean") ? 'm' : 'x';
    b->dtype = td__is_half((td_dtype)w->dtype) ? TD_F32 : (td_dtype)w->dtype;
    if (b->how == 'x' && strcmp(mode, "max"))
        return td__op_fail(c, TD_E_ARG, "mode must be sum, mean or max, got \"%s\"",
                           mode);
    if (w->rank != 2 || !td__is_float(b->dtype))
        return td__op_fail(c, TD_E_SHAPE, "weight must be floating [V,D], got %s",
                           td__type_str(w));
    if (at->rank == 2 ? off != NULL : at->rank != 1 || !off || off->rank != 1)
        return td__op_fail(c, TD_E_SHAPE,
                           "indices must be [B,N] without offsets or [N] with offsets "
                           "[B], got %s and %s",
                           td__type_str(at), off ? td__type_str(off) : "none");
    if (k && (b->how != 's' || k->dtype != w->dtype || !td__same_sizes(k, at)))
        return td__op_fail(
            c, TD_E_ARG,
            "per_sample_weights need mode sum, the dtype of weight and the "
            "sizes of indices, got \"%s\" and %s",
            mode, td__type_str(k));
    if (b->how == 'x' && td__in_bool(c, 3))
        return td__op_fail(c, TD_E_ARG,
                           "scale_grad_by_freq must be false for mode max, whose "
                           "gradient goes to the largest elements alone");
    return !off || !td__in_bool(c, LAST) || !td__dim_lt(off->size[0], 1) ||
           td__op_fail(c, TD_E_SHAPE, "include_last_offset needs an offset");
}

/* in: weight, indices, offsets, scale_grad_by_freq, mode, per_sample_weights,
 * include_last_offset, padding_idx, sparse. */
bool td__decomp_embedding_bag(td_opcall *c) {
    bags b = {0};
    if (!want(c, &b) || !read_rows(c, &b)) return false;
    td_tensor *y = td__in(c, 1)->rank == 2 ? by_rows(c, &b) : by_offsets(c, &b);
    c->out[0] = td_is_nil(y) ? y : t_as(y, (td_dtype)td__in(c, 0)->dtype);
    return true;
}
