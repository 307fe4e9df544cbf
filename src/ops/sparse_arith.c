/* sparse_arith.c -- what several ops on sparse tensors compute: plain elements, the
 * transpose, products, the elements of a tensor at the entries of another. All are ops
 * on inner tensors, and below autograd. */
#include "ops/sparse.h"

td_tensor *td__sparse_to_dense(td_tensor *t) {
    td_tensor *at[TD_MAX_RANK], *values = td__sparse_values(t);
    int        n = td__sparse_places(t, at);
    td_tensor *zero =
        td_op_new_zeros(values, (td_ints){t->size, t->rank}, TD_DTYPE_NONE);
    if (!n) return td_nil(t->cx);
    return td_op__index_put(zero, (td_tensors){at, n}, values, true);
}

/* ---- other layouts ------------------------------------------------------ */

static td_tensor *csr_transposed(td_tensor *t) {
    int64_t    size[2] = {t->size[1], t->size[0]};
    td_tensor *at[TD_MAX_RANK];
    if (!td__sparse_places(t, at)) return td_nil(t->cx);
    td_tensor *order = td_op__coo_order(at[1], size[0]);
    return td__csr_wrap(td_op__coo_crow(at[1], size[0]),
                        td_op_index_select(at[0], 0, order),
                        td_op_index_select(td__sparse_values(t), 0, order),
                        (td_ints){size, 2});
}

td_tensor *td__sparse_t(td_tensor *t) {
    int64_t size[2] = {t->size[1], t->size[0]}, zero = 0;
    if (td__is_csr(t)) return csr_transposed(t);
    td_tensor *at = td_op_flip(td__sparse_indices(t), (td_ints){&zero, 1});
    return td__coo_wrap(at, td__sparse_values(t), (td_ints){size, 2}, false);
}

td_tensor *td__sparse_as_coo(td_tensor *t) {
    if (td__is_coo(t)) return t;
    return td__coo_wrap(td__sparse_indices(t), td__sparse_values(t),
                        (td_ints){t->size, t->rank}, true);
}

/* ---- elements at entries ------------------------------------------------ */

/* A bool [nnz] in the rank of the values, so that it broadcasts. */
static td_tensor *as_rows(td_tensor *flags, const td_tensor *values) {
    for (int d = 1; d < values->rank; d++) flags = td_op_unsqueeze(flags, -1);
    return flags;
}

td_tensor *td__sparse_once(td_tensor *t, td_tensor *values) {
    if (td__is_coalesced(t)) return values;
    td_tensor *first = td_op__coo_first(td__sparse_flat(t));
    return td_op_where(as_rows(first, values), td_value_tensor(values),
                       td_value_int(0));
}

/* The kernel adds up f32 and f64; halves are rounded once. */
static td_tensor *lookup(td_tensor *at, td_tensor *g) {
    td_tensor *values = td__sparse_values(g);
    td_dtype   dt = (td_dtype)values->dtype;
    if (td__is_half(dt)) values = td_op_to(values, TD_F32, false);
    td_tensor *r = td_op__coo_lookup(td__sparse_flat(at), td__sparse_flat(g),
                                     td_op_contiguous(values));
    return td__is_half(dt) ? td_op_to(r, dt, false) : r;
}

td_tensor *td__sparse_values_at(td_tensor *g, td_tensor *at) {
    td_tensor *places[TD_MAX_RANK];
    if (td__is_sparse(g)) {
        if (td__sparse_dims(g) == td__sparse_dims(at)) return lookup(at, g);
        g = td__sparse_to_dense(g);
    }
    int n = td__sparse_places(at, places);
    return n ? td_op__index(g, (td_tensors){places, n}) : td_nil(g->cx);
}

/* ---- products ----------------------------------------------------------- */

/* The rows of a sparse matrix, as a CSR tensor has them; entries of a row in any order.
 * */
typedef struct rows {
    td_tensor *crow, *col, *values;
} rows;

static rows read_rows(td_tensor *a) {
    rows r;
    if (td__is_csr(a)) {
        r.crow = td__sparse_part(a, TD_CSR_CROW);
        r.col = td__sparse_part(a, TD_CSR_COL);
        r.values = td__sparse_part(a, TD_CSR_VALUES);
        return r;
    }
    td_tensor *at = td__sparse_part(a, TD_COO_INDICES);
    td_tensor *row = td_op_select(at, 0, 0);
    r.col = td_op_select(at, 0, 1);
    r.values = td__sparse_part(a, TD_COO_VALUES);
    r.crow = td_op__coo_crow(row, a->size[0]);
    if (td__is_coalesced(a)) return r;
    td_tensor *order = td_op__coo_order(row, a->size[0]);
    r.col = td_op_index_select(r.col, 0, order);
    r.values = td_op_index_select(r.values, 0, order);
    return r;
}

/* sparse @ plain, in the dtype of the kernel: halves as f32. */
static td_tensor *product(td_tensor *a, td_tensor *b) {
    rows     r = read_rows(a);
    td_dtype dt = (td_dtype)a->dtype;
    if (td__is_half(dt)) {
        r.values = td_op_to(r.values, TD_F32, false);
        b = td_op_to(b, TD_F32, false);
    }
    td_tensor *y = td_op__csr_mm(r.crow, td_op_contiguous(r.col),
                                 td_op_contiguous(r.values), td_op_contiguous(b));
    return td__is_half(dt) ? td_op_to(y, dt, false) : y;
}

td_tensor *td__sparse_product(td_opcall *c, td_tensor *a, td_tensor *b) {
    td_tensor *s = td__is_sparse(a) ? a : b, *plain = s == a ? b : a;
    if (plain->typed || !td__is_sparse(s) || td__sparse_dims(s) != 2 || s->rank != 2)
        td__op_fail(c, TD_E_UNSUPPORTED,
                    "takes a sparse matrix whose entries are numbers and a plain "
                    "matrix, in either order; convert others with td_to_dense");
    else if (!td__is_float((td_dtype)s->dtype) || s->dtype != plain->dtype)
        td__op_fail(c, TD_E_DTYPE,
                    "products of sparse tensors need one float dtype, got %s and %s; "
                    "convert with td_to",
                    td_dtype_name((td_dtype)a->dtype),
                    td_dtype_name((td_dtype)b->dtype));
    else
        return s == a ? product(a, b)
                      : td_op_t(product(td__sparse_t(s), td_op_t(plain)));
    return td_nil(s->cx);
}
