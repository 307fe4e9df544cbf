/* shape_sparse.c -- sizes, dtypes and argument checks of ops on sparse tensors. Of ops
 * that take or give one, sizes are those of the whole tensor; the internal ops below
 * take indices and values. */
#include "ops/sparse.h"
#include "rules/index_args.h"
#include "rules/shape_rules.h"

/* ---- checks ------------------------------------------------------------- */

static bool want_index(td_opcall *c, int i, int rank) {
    const td_tensor *t = td__in(c, i);
    if (t->rank == rank) return td__index_dtype(c, t, c->info->s.in[i].name, true);
    return td__op_fail(c, TD_E_SHAPE, "%s must have %d dims, got %s",
                       c->info->s.in[i].name, rank, td__type_str(t));
}

/* Is argument i sparse? */
static bool want_sparse(td_opcall *c, int i) {
    const td_tensor *t = td__in(c, i);
    char             is[120];
    if (td__is_sparse(t)) return true;
    return td__op_fail(c, TD_E_ARG,
                       "%s is %s; it must be a sparse one (td_to_sparse, "
                       "td_to_sparse_csr)",
                       c->info->s.in[i].name, td__typed_str(t->typed, is, sizeof is));
}

static bool want_plain(td_opcall *c, int i) {
    const td_tensor *t = td__in(c, i);
    char             is[120];
    if (!t->typed) return true;
    return td__op_fail(c, TD_E_ARG, "%s is %s; it must be a plain tensor",
                       c->info->s.in[i].name, td__typed_str(t->typed, is, sizeof is));
}

/* Is argument i sparse or plain? */
static bool want_known(td_opcall *c, int i) {
    return !td__in(c, i)->typed || want_sparse(c, i);
}

static bool same_nnz(td_opcall *c, int64_t n, const td_tensor *values) {
    if (values->rank && td__dim_eq(values->size[0], n)) return true;
    return td__op_fail(c, TD_E_SHAPE,
                       "values %s must have a first dim of the number of entries",
                       td__type_str(values));
}

static bool dense(td_opcall *c, td_dtype dt, int rank, const int64_t *size) {
    td__meta_dense(&c->meta[0], dt, rank, size);
    return true;
}

static bool dense_like(td_opcall *c, const td_tensor *t) {
    return dense(c, (td_dtype)t->dtype, t->rank, t->size);
}

/* ---- making and converting ---------------------------------------------- */

/* Sizes argument i, for values behind `sparse` dims with indices. */
static bool want_size(td_opcall *c, int i, const td_tensor *values, int64_t sparse) {
    const td_value *size = &c->in[i];
    if ((int64_t)size->n != sparse + values->rank - 1 || size->n > TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE,
                           "there are %u sizes; %lld dims have indices, and values %s "
                           "have %d further ones",
                           size->n, (long long)sparse, td__type_str(values),
                           values->rank - 1);
    for (uint32_t d = 0; d < size->n; d++) {
        bool entry = d >= (uint64_t)sparse;
        if (td__dim_lt(size->u.ints[d], 0))
            return td__op_fail(c, TD_E_SHAPE, "a size is negative: %s",
                               td__sizes_str((int)size->n, size->u.ints));
        if (entry && !td__dim_eq(size->u.ints[d], values->size[d - sparse + 1]))
            return td__op_fail(c, TD_E_SHAPE,
                               "sizes %s do not end with those of values %s",
                               td__sizes_str((int)size->n, size->u.ints),
                               td__type_str(values));
    }
    return dense(c, (td_dtype)values->dtype, (int)size->n, size->u.ints);
}

/* in: indices, values, size, is_coalesced. */
bool td__shape_sparse_coo_tensor(td_opcall *c) {
    const td_tensor *at = td__in(c, 0), *values = td__in(c, 1);
    return want_plain(c, 0) && want_plain(c, 1) && want_index(c, 0, 2) &&
           same_nnz(c, at->size[1], values) &&
           want_size(c, 2, values, td__dim_fixed(at->size[0]));
}

/* in: crow_indices, col_indices, values, size. */
bool td__shape_sparse_csr_tensor(td_opcall *c) {
    const td_tensor *crow = td__in(c, 0), *col = td__in(c, 1), *values = td__in(c, 2);
    if (!want_plain(c, 0) || !want_plain(c, 1) || !want_plain(c, 2) ||
        !want_index(c, 0, 1) || !want_index(c, 1, 1) ||
        !same_nnz(c, col->size[0], values))
        return false;
    if (values->rank != 1)
        return td__op_fail(c, TD_E_SHAPE, "values must have 1 dim, got %s",
                           td__type_str(values));
    if (!want_size(c, 3, values, 2)) return false;
    return td__dim_eq(crow->size[0], td__dim_add(c->meta[0].size[0], 1)) ||
           td__op_fail(c, TD_E_SHAPE,
                       "crow_indices %s must have one entry more than there are rows, "
                       "and sizes are %s",
                       td__type_str(crow), td__sizes_str(2, c->meta[0].size));
}

bool td__shape_to_dense(td_opcall *c) {
    return want_known(c, 0) && dense_like(c, td__in(c, 0));
}

/* in: self, mask. */
bool td__shape_sparse_mask(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *mask = td__in(c, 1);
    if (!want_known(c, 0) || !want_known(c, 1)) return false;
    return td__same_sizes(self, mask) ? dense_like(c, self)
                                      : td__op_fail(c, TD_E_SHAPE,
                                                    "self %s and mask must have equal "
                                                    "sizes",
                                                    td__type_str(self));
}

bool td__shape_sparse_t(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (!want_sparse(c, 0)) return false;
    if (t->rank != 2 || td__sparse_dims(t) != 2)
        return td__op_fail(c, TD_E_UNSUPPORTED,
                           "unsupported: a transpose of a sparse tensor that is no "
                           "matrix of numbers; convert it with td_to_dense");
    return dense(c, (td_dtype)t->dtype, 2, (int64_t[]){t->size[1], t->size[0]});
}

/* in: self, dim0, dim1. */
bool td__shape_sparse_transpose(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    int              a = td__op_dim(c, td__in_number(c, 1), t->rank);
    int              b = a < 0 ? a : td__op_dim(c, td__in_number(c, 2), t->rank);
    if (b < 0 || !td__shape_sparse_t(c)) return false;
    return a != b || dense_like(c, t);
}

/* ---- parts -------------------------------------------------------------- */

/* The inner tensor that the op copies. */
bool td__shape_sparse_part(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    td_op            op = c->info->op;
    bool             values = op == TD_OP_values, csr = td__is_csr(t);
    bool             of_csr = op == TD_OP_crow_indices || op == TD_OP_col_indices;
    if (!want_sparse(c, 0)) return false;
    if (!values && of_csr != csr)
        return td__op_fail(c, TD_E_ARG, "self is %s tensor; %s",
                           csr ? "a sparse_csr" : "a sparse_coo",
                           csr ? "it has td_crow_indices and td_col_indices"
                               : "it has td_indices");
    if (op != TD_OP__indices && !td__is_coalesced(t))
        return td__op_fail(c, TD_E_ARG,
                           "self is not coalesced; coalesce it (td_coalesce), or read "
                           "an inner tensor as it is (td_type_inner)");
    int i = values   ? t->typed->n - 1
            : of_csr ? (op == TD_OP_crow_indices ? TD_CSR_CROW : TD_CSR_COL)
                     : TD_COO_INDICES;
    return dense_like(c, t->typed->inner[i]);
}

/* in: like, values. */
bool td__shape_sparse_like(td_opcall *c) {
    const td_tensor *like = td__in(c, 0), *values = td__in(c, 1);
    if (!want_sparse(c, 0) || !want_plain(c, 1)) return false;
    if (!td__same_sizes(values, like->typed->inner[like->typed->n - 1]))
        return td__op_fail(c, TD_E_SHAPE, "values %s do not fit the entries of like",
                           td__type_str(values));
    return dense(c, (td_dtype)values->dtype, like->rank, like->size);
}

/* in: self, at. */
bool td__shape_values_at(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *at = td__in(c, 1);
    if (!want_known(c, 0) || !want_sparse(c, 1)) return false;
    if (!td__same_sizes(self, at))
        return td__op_fail(c, TD_E_SHAPE, "self %s must have the sizes of `at`",
                           td__type_str(self));
    const td_tensor *values = at->typed->inner[at->typed->n - 1];
    return dense(c, (td_dtype)self->dtype, values->rank, values->size);
}

/* ---- computing ---------------------------------------------------------- */

bool td__shape_sparse_sum(td_opcall *c) {
    return want_sparse(c, 0) && dense(c, (td_dtype)td__in(c, 0)->dtype, 0, NULL);
}

/* in: mask [m,n], x [m,k], y [n,k]. */
bool td__shape_sparse_sampled(td_opcall *c) {
    const td_tensor *mask = td__in(c, 0), *x = td__in(c, 1), *y = td__in(c, 2);
    if (!want_sparse(c, 0) || !want_known(c, 1) || !want_known(c, 2)) return false;
    bool fits = mask->rank == 2 && td__sparse_dims(mask) == 2 && x->rank == 2 &&
                y->rank == 2 && td__dim_eq(x->size[0], mask->size[0]) &&
                td__dim_eq(y->size[0], mask->size[1]) &&
                td__dim_eq(x->size[1], y->size[1]) && x->dtype == y->dtype &&
                td__is_float((td_dtype)x->dtype);
    if (fits) return dense(c, (td_dtype)x->dtype, 2, mask->size);
    return td__op_fail(c, TD_E_SHAPE,
                       "a product of %s and the transpose of %s, at the entries of a "
                       "sparse tensor of sizes %s, needs matching sizes and one float "
                       "dtype",
                       td__type_str(x), td__type_str(y),
                       td__sizes_str(mask->rank, mask->size));
}

/* in: grad_output, indices, num_weights, padding_idx. */
bool td__shape_embedding_sparse_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0), *indices = td__in(c, 1);
    bool             fits = g->rank == indices->rank + 1;
    for (int d = 0; fits && d < indices->rank; d++)
        fits = td__dim_eq(g->size[d], indices->size[d]);
    if (!want_plain(c, 0) || !td__index_dtype(c, indices, "indices", true))
        return false;
    if (!fits || td__dim_lt(td__in_int(c, 2), 0))
        return td__op_fail(c, TD_E_SHAPE,
                           "grad_output %s must have the sizes of indices %s and one "
                           "more dim, and num_weights must not be negative",
                           td__type_str(g), td__type_str(indices));
    return dense(c, (td_dtype)g->dtype, 2,
                 (int64_t[]){td__in_int(c, 2), g->size[g->rank - 1]});
}

/* ---- on plain tensors --------------------------------------------------- */

/* in: indices, size. As many sizes as indices has rows. */
static bool fits_size(td_opcall *c) {
    const td_tensor *at = td__in(c, 0);
    if (!want_index(c, 0, 2)) return false;
    return (at->dtype == TD_I64 && td__dim_eq(at->size[0], c->in[1].n)) ||
           td__op_fail(c, TD_E_SHAPE,
                       "indices %s must be i64, with a row for each of %u "
                       "sizes",
                       td__type_str(at), c->in[1].n);
}

bool td__shape_coo_check(td_opcall *c) {
    return fits_size(c) && dense_like(c, td__in(c, 0));
}

bool td__shape_coo_flat(td_opcall *c) {
    return fits_size(c) && dense(c, TD_I64, 1, &td__in(c, 0)->size[1]);
}

/* Is argument i an i64 vector? */
static bool want_vector(td_opcall *c, int i) {
    const td_tensor *t = td__in(c, i);
    return (t->rank == 1 && t->dtype == TD_I64) ||
           td__op_fail(c, TD_E_SHAPE, "%s must be an i64 vector, got %s",
                       c->info->s.in[i].name, td__type_str(t));
}

bool td__shape_coo_unflat(td_opcall *c) {
    if (!want_vector(c, 0)) return false;
    return dense(c, TD_I64, 2, (int64_t[]){c->in[1].n, td__in(c, 0)->size[0]});
}

/* in: rows, n. */
bool td__shape_coo_crow(td_opcall *c) {
    if (!want_vector(c, 0)) return false;
    return dense(c, TD_I64, 1, (int64_t[]){td__dim_add(td__in_int(c, 1), 1)});
}

bool td__shape_coo_order(td_opcall *c) {
    return want_vector(c, 0) && dense_like(c, td__in(c, 0));
}

bool td__shape_coo_first(td_opcall *c) {
    return want_vector(c, 0) && dense(c, TD_BOOL, 1, td__in(c, 0)->size);
}

/* in: at, flat, values. */
bool td__shape_coo_lookup(td_opcall *c) {
    const td_tensor *values = td__in(c, 2);
    int64_t          size[TD_MAX_RANK];
    if (!want_vector(c, 0) || !want_vector(c, 1) ||
        !same_nnz(c, td__in(c, 1)->size[0], values))
        return false;
    for (int d = 0; d < values->rank; d++) size[d] = values->size[d];
    size[0] = td__in(c, 0)->size[0];
    if (values->dtype != TD_F32 && values->dtype != TD_F64)
        return td__op_fail(c, TD_E_DTYPE,
                           "sparse tensors are masked by others in float dtypes, got "
                           "%s; convert with td_to",
                           td_dtype_name((td_dtype)values->dtype));
    return dense(c, (td_dtype)values->dtype, values->rank, size);
}

/* in: crow, col, size. */
bool td__shape_csr_check(td_opcall *c) {
    if (!want_vector(c, 0) || !want_vector(c, 1)) return false;
    td__meta_dense(&c->meta[1], TD_I64, 1, td__in(c, 1)->size);
    return dense_like(c, td__in(c, 0));
}

bool td__shape_csr_same(td_opcall *c) {
    for (int i = 0; i < 4; i++)
        if (!want_vector(c, i)) return false;
    return dense_like(c, td__in(c, 0));
}

bool td__shape_csr_rows(td_opcall *c) {
    return want_vector(c, 0) && want_vector(c, 1) && dense_like(c, td__in(c, 1));
}

static bool want_matrix(td_opcall *c, int i) {
    const td_tensor *t = td__in(c, i);
    return (t->rank == 2 && (t->dtype == TD_F32 || t->dtype == TD_F64)) ||
           td__op_fail(c, TD_E_SHAPE, "%s must be an f32 or f64 matrix, got %s",
                       c->info->s.in[i].name, td__type_str(t));
}

/* in: crow, col, values, b. */
bool td__shape_csr_mm(td_opcall *c) {
    const td_tensor *values = td__in(c, 2), *b = td__in(c, 3);
    if (!want_vector(c, 0) || !want_vector(c, 1) || !want_matrix(c, 3) ||
        !same_nnz(c, td__in(c, 1)->size[0], values))
        return false;
    if (values->rank != 1 || values->dtype != b->dtype)
        return td__op_fail(c, TD_E_DTYPE, "values %s must have the dtype of b %s",
                           td__type_str(values), td__type_str(b));
    return dense(c, (td_dtype)b->dtype, 2,
                 (int64_t[]){td__dim_sub(td__in(c, 0)->size[0], 1), b->size[1]});
}

/* in: rows, cols, x, y. */
bool td__shape_sampled_mm(td_opcall *c) {
    const td_tensor *x = td__in(c, 2), *y = td__in(c, 3);
    if (!want_vector(c, 0) || !want_vector(c, 1) || !want_matrix(c, 2) ||
        !want_matrix(c, 3))
        return false;
    if (x->dtype != y->dtype || !td__dim_eq(x->size[1], y->size[1]) ||
        !td__dim_eq(td__in(c, 0)->size[0], td__in(c, 1)->size[0]))
        return td__op_fail(c, TD_E_SHAPE, "x %s and y %s must have equal rows",
                           td__type_str(x), td__type_str(y));
    return dense(c, (td_dtype)x->dtype, 1, td__in(c, 0)->size);
}
