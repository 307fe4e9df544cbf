/* decomp_solve.c -- factorizations, systems and inverses made of the ops that have
 * kernels. Forms that must not fail silently check info in the kernel. */
#include "rules/matrix_args.h"

#include <math.h>
#include <string.h>

/* ---- Cholesky, LU, QR, LDL ---------------------------------------------- */

/* in: self, upper. */
bool td__decomp_cholesky(td_opcall *c) {
    td_tensor *info;
    c->out[0] = td_op_linalg_cholesky_ex(td__in(c, 0), td__in_bool(c, 1), true, &info);
    return true;
}

/* B by the factor f: two triangular systems. */
static td_tensor *cholesky_solve(td_tensor *b, td_tensor *f, bool upper) {
    td_tensor *first = upper ? t_mH(f) : f, *second = upper ? f : t_mH(f);
    td_tensor *y = td_op_linalg_solve_triangular(first, b, false, true, false);
    return td_op_linalg_solve_triangular(second, y, true, true, false);
}

/* in: self (B), input2 (the factor), upper. */
bool td__decomp_cholesky_solve(td_opcall *c) {
    if (!td__want_square(c, 1) || !td__want_matrix(c, 0)) return false;
    c->out[0] = cholesky_solve(td__in(c, 0), td__in(c, 1), td__in_bool(c, 2));
    return true;
}

/* Ones on the diagonal, expanded to the sizes of t. */
static td_tensor *identity_for(td_tensor *t) {
    td_tensor *eye =
        td_op_eye(t->cx, t_last(t, 1), td_value_int(t_last(t, 1)), (td_dtype)t->dtype);
    return td_op_expand(eye, td__sizes(t));
}

/* in: self, upper. */
bool td__decomp_cholesky_inverse(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (!td__want_square(c, 0)) return false;
    c->out[0] = cholesky_solve(identity_for(t), t, td__in_bool(c, 1));
    return true;
}

/* in: A, pivot. */
bool td__decomp_lu_factor(td_opcall *c) {
    td_tensor *info;
    c->out[0] = td_op_linalg_lu_factor_ex(td__in(c, 0), td__in_bool(c, 1), true,
                                          &c->out[1], &info);
    return true;
}

/* The permutation matrix [.., m, m] with a 1 in row perm[i] of column i. */
static td_tensor *permutation(td_tensor *pivots, int64_t m, td_dtype dt) {
    td_tensor *perm = td_op__lu_permutation(pivots, m);
    td_tensor *rows = td_op_arange(pivots->cx, td_value_int(0), td_value_int(m),
                                   td_value_int(1), TD_I64);
    return td_op_to(td_op_eq(t_col(rows), td_value_tensor(t_row(perm))), dt, false);
}

/* L [.., m, k] and U [.., k, n] of LU [.., m, n], fresh and row-major. */
static void unpack(td_tensor *lu, td_tensor **l, td_tensor **u) {
    int64_t    m = t_last(lu, 2), n = t_last(lu, 1), k = td__dim_min(m, n);
    td_tensor *left = td_op_narrow(lu, -1, 0, k), *top = td_op_narrow(lu, -2, 0, k);
    td_tensor *eye = td_op_eye(lu->cx, m, td_value_int(k), (td_dtype)lu->dtype);
    *l = td_op_contiguous(t_add(td_op_tril(left, -1), eye));
    *u = td_op_contiguous(td_op_triu(top, 0));
}

/* A fresh empty vector with the history of t. */
static td_tensor *no_elements_of(td_tensor *t) {
    td_tensor *flat = td_op_reshape(t, TD_SHAPE(td__numel(t->rank, t->size)));
    return td_op_clone(td_op_narrow(flat, 0, 0, 0), true);
}

/* Are they the pivots of lu? */
static bool pivots_of(td_opcall *c, const td_tensor *lu, const td_tensor *pivots) {
    int64_t k = td__dim_min(t_last(lu, 1), t_last(lu, 2));
    if (pivots->dtype == TD_I32 && pivots->rank == lu->rank - 1 &&
        td__dims_eq(pivots->size, lu->size, lu->rank - 2) &&
        td__dim_eq(t_last(pivots, 1), k))
        return true;
    return td__op_fail(c, TD_E_SHAPE,
                       "LU_pivots must be i32 with the leading sizes of LU_data and as "
                       "many elements as it has rows or columns, the fewer, got %s and "
                       "%s",
                       td__type_str(pivots), td__type_str(lu));
}

/* in: LU_data, LU_pivots, unpack_data, unpack_pivots. */
bool td__decomp_lu_unpack(td_opcall *c) {
    td_tensor *lu = td__in(c, 0), *pivots = td__in(c, 1);
    if (!td__want_matrix_dims(c, 0) || (td__in_bool(c, 3) && !pivots_of(c, lu, pivots)))
        return false;
    c->out[0] = td__in_bool(c, 3)
                    ? permutation(pivots, t_last(lu, 2), (td_dtype)lu->dtype)
                    : td_op_new_zeros(lu, TD_SHAPE(0), TD_DTYPE_NONE);
    if (td__in_bool(c, 2)) unpack(lu, &c->out[1], &c->out[2]);
    else c->out[1] = no_elements_of(lu), c->out[2] = no_elements_of(lu);
    return true;
}

/* in: A, pivot. */
bool td__decomp_lu(td_opcall *c) {
    td_tensor *pivots, *info;
    td_tensor *lu = td_op_linalg_lu_factor_ex(td__in(c, 0), td__in_bool(c, 1), false,
                                              &pivots, &info);
    if (td_is_nil(lu)) return false;
    c->out[0] = permutation(pivots, t_last(lu, 2), (td_dtype)lu->dtype);
    unpack(lu, &c->out[1], &c->out[2]);
    return true;
}

/* in: self, hermitian. */
bool td__decomp_ldl_factor(td_opcall *c) {
    td_tensor *info;
    c->out[0] = td_op_linalg_ldl_factor_ex(td__in(c, 0), td__in_bool(c, 1), true,
                                           &c->out[1], &info);
    return true;
}

/* ---- eigenvalues, singular values --------------------------------------- */

/* in: self, UPLO. */
bool td__decomp_eigh(td_opcall *c) {
    c->out[0] = td_op__linalg_eigh(td__in(c, 0), c->in[1].u.s, true, &c->out[1]);
    return true;
}
/* The derivative of eigenvalues reads the eigenvectors: they are computed where a
 * gradient may be taken. */
bool td__decomp_eigvalsh(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *vectors;
    bool       need = t->flags & TD_TF_NEEDS_GRAD;
    c->out[0] = td_op__linalg_eigh(t, c->in[1].u.s, need, &vectors);
    return true;
}

/* in: self. */
bool td__decomp_eig(td_opcall *c) {
    c->out[0] = td_op__linalg_eig(td__in(c, 0), true, &c->out[1]);
    return true;
}
bool td__decomp_eigvals(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *vectors;
    c->out[0] = td_op__linalg_eig(t, t->flags & TD_TF_NEEDS_GRAD, &vectors);
    return true;
}

/* in: A, full_matrices. */
bool td__decomp_linalg_svd(td_opcall *c) {
    c->out[0] = td_op__linalg_svd(td__in(c, 0), td__in_bool(c, 1), true, &c->out[1],
                                  &c->out[2]);
    return true;
}
bool td__decomp_svdvals(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *vh;
    bool       need = t->flags & TD_TF_NEEDS_GRAD;
    td_op__linalg_svd(t, false, need, &c->out[0], &vh);
    return true;
}

/* in: self, some, compute_uv. */
bool td__decomp_svd(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *vh;
    bool       uv = td__in_bool(c, 2), some = td__in_bool(c, 1);
    if (!td__want_matrix(c, 0)) return false;
    if (uv) {
        c->out[0] = td_op__linalg_svd(t, !some, true, &c->out[1], &vh);
        c->out[2] = t_mH(vh);
        return true;
    }
    int64_t size[TD_MAX_RANK], *last = size + t->rank - 2;
    memcpy(size, t->size, sizeof(int64_t) * (size_t)t->rank);
    c->out[1] = td_op_linalg_svdvals(t);
    last[0] = last[1] = t_last(t, 2);
    c->out[0] = td_op_new_zeros(t, (td_ints){size, t->rank}, TD_DTYPE_NONE);
    last[0] = last[1] = t_last(t, 1);
    c->out[2] = t_mT(td_op_new_zeros(t, (td_ints){size, t->rank}, TD_DTYPE_NONE));
    return true;
}

/* ---- systems ------------------------------------------------------------ */

/* in: A, B, left, check_errors. */
bool td__decomp_solve_ex(td_opcall *c) {
    td_tensor *lu, *pivots;
    c->out[0] = td_op__linalg_solve_ex(td__in(c, 0), td__in(c, 1), td__in_bool(c, 2),
                                       td__in_bool(c, 3), &lu, &pivots, &c->out[1]);
    return true;
}
/* in: A, B, left. */
bool td__decomp_solve(td_opcall *c) {
    td_tensor *lu, *pivots, *info;
    c->out[0] = td_op__linalg_solve_ex(td__in(c, 0), td__in(c, 1), td__in_bool(c, 2),
                                       true, &lu, &pivots, &info);
    return true;
}

/* t, whose leading sizes are broadcast to (rank, size), as column-major copies. */
static td_tensor *column_copy(td_tensor *t, int rank, const int64_t *size) {
    td_meta m;
    td__meta_columns(&m, (td_dtype)t->dtype, rank, size);
    td_tensor *to = td_op_empty_strided(t->cx, (td_ints){m.size, rank},
                                        (td_ints){m.stride, rank}, m.dtype);
    return td_op_copy(to, t, false);
}

/* in: self (B), A, upper, transpose, unitriangular. */
bool td__decomp_triangular_solve(td_opcall *c) {
    td_tensor *b = td__in(c, 0), *a = td__in(c, 1);
    bool       flip = td__in_bool(c, 3);
    int64_t    size[TD_MAX_RANK];
    if (!td__want_square(c, 1) || !td__want_matrix(c, 0)) return false;
    td_tensor *x =
        td_op_linalg_solve_triangular(flip ? t_mT(a) : a, b, td__in_bool(c, 2) != flip,
                                      true, td__in_bool(c, 4));
    if (td_is_nil(x)) return false;
    memcpy(size, x->size, sizeof(int64_t) * (size_t)x->rank);
    size[x->rank - 1] = t_last(a, 1);
    c->out[0] = x;
    c->out[1] = column_copy(a, x->rank, size);
    return true;
}

/* Product of the sizes [begin, end) of t. */
static int64_t span(const td_tensor *t, int begin, int end) {
    int64_t n = 1;
    for (int d = begin; d < end; d++) n = td__dim_mul(n, t->size[d]);
    return n;
}

/* in: self, other, dims. */
bool td__decomp_tensorsolve(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    td_ints    dims = t_ints(c->in[2]);
    int64_t    to[TD_MAX_RANK];
    if (dims.n > a->rank)
        return td__op_fail(c, TD_E_ARG, "dims lists %d dims of self %s", dims.n,
                           td__type_str(a));
    for (int i = 0; i < dims.n; i++) to[i] = a->rank - dims.n + i;
    if (dims.n) a = td_op_movedim(a, dims, (td_ints){to, dims.n});
    if (td_is_nil(a)) return false;
    if (a->rank < b->rank ||
        !td__dim_eq(span(a, 0, b->rank), span(a, b->rank, a->rank)))
        return td__op_fail(c, TD_E_SHAPE,
                           "the first %d sizes of self %s must have the "
                           "product of the others",
                           b->rank, td__type_str(a));
    int64_t n = span(a, b->rank, a->rank);
    if (!td__dim_eq(span(b, 0, b->rank), n))
        return td__op_fail(c, TD_E_SHAPE, "other %s does not fit self %s",
                           td__type_str(b), td__type_str(a));
    td_ints    rest = {a->size + b->rank, a->rank - b->rank};
    td_tensor *x = td_op_linalg_solve(td_op_reshape(a, TD_SHAPE(n, n)),
                                      td_op_reshape(b, TD_SHAPE(n)), true);
    c->out[0] = td_op_reshape(x, rest);
    return true;
}

/* in: self, b, rcond, driver. b is a stack of vectors if it lacks one dim. */
bool td__decomp_lstsq(td_opcall *c) {
    static const char *const drivers[] = {"gelsy", "gels", "gelsd", "gelss"};
    td_tensor               *a = td__in(c, 0), *b = td__in(c, 1);
    bool                     vector = a->rank - 1 == b->rank && a->rank > 1;
    if (!td__want_matrix(c, 0) || !td__want_same_dtype(c, 0, 1) ||
        !td__want_word(c, 3, drivers, 4))
        return false;
    if (b->rank != a->rank && !vector)
        return td__op_fail(c, TD_E_SHAPE,
                           "b must have the rank of self, or one less, "
                           "got %s and %s",
                           td__type_str(b), td__type_str(a));
    if (vector) b = t_col(b);
    if (td_is_nil(b)) return false;
    if (!td__dims_eq(a->size, b->size, a->rank - 1))
        return td__op_fail(c, TD_E_SHAPE,
                           "b %s must have the sizes of self %s but for "
                           "the last",
                           td__type_str(b), td__type_str(a));
    td_tensor *x = td_op__linalg_lstsq(a, b, c->in[2], c->in[3].u.s, &c->out[1],
                                       &c->out[2], &c->out[3]);
    if (c->out[3]->flags & TD_TF_NEEDS_GRAD) /* which have no derivative here */
        c->out[3] = td_op_clone(td_op_detach(c->out[3]), false);
    x = td_op_narrow(x, -2, 0, t_last(a, 1));
    c->out[0] = vector ? td_op_squeeze_dim(x, -1) : x;
    return true;
}

/* ---- inverses and determinants ------------------------------------------ */

bool td__decomp_inv(td_opcall *c) {
    td_tensor *info;
    c->out[0] = td_op_linalg_inv_ex(td__in(c, 0), true, &info);
    return true;
}

/* in: self, ind. */
bool td__decomp_tensorinv(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    ind = td__in_number(c, 1), size[TD_MAX_RANK];
    if (ind <= 0 || ind > t->rank)
        return td__op_fail(c, TD_E_ARG, "ind is %lld; it must be from 1 to %d for %s",
                           (long long)ind, t->rank, td__type_str(t));
    int     k = (int)ind, n = t->rank - k;
    int64_t rows = span(t, 0, k), cols = span(t, k, t->rank);
    if (!td__dim_eq(rows, cols))
        return td__op_fail(c, TD_E_SHAPE,
                           "the first %d sizes of self %s must have the "
                           "product of the others",
                           k, td__type_str(t));
    for (int d = 0; d < n; d++) size[d] = t->size[k + d];
    for (int d = 0; d < k; d++) size[n + d] = t->size[d];
    td_tensor *inv = td_op_linalg_inv(td_op_reshape(t, TD_SHAPE(rows, cols)));
    c->out[0] = td_op_reshape(inv, (td_ints){size, t->rank});
    return true;
}

/* 1 / s where s exceeds the tolerance, else 0. */
static td_tensor *inverted(td_tensor *s, td_tensor *size, td_tensor *tol) {
    td_tensor *counts = td_op_gt(size, td_value_tensor(tol));
    return td_op_where(counts, td_value_tensor(td_op_reciprocal(s)), td_value_int(0));
}

/* The pseudoinverse of matrices without elements, a product as that of others is: under
 * autocast it has the dtype of the region. */
static td_tensor *of_nothing(td_tensor *a) {
    td_tensor *t = td_op_new_zeros(a, td__sizes(t_mT(a)), TD_DTYPE_NONE);
    return t_last(a, 2) ? t_mm(t, t_mm(a, t)) : t_mm(t_mm(t, a), t);
}

/* in: self, atol, rtol, hermitian. Computed without history; _pinv_of has the
 * derivative. */
bool td__decomp_pinv(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *s, *u, *vh, *p;
    bool       hermitian = td__in_bool(c, 3);
    if (hermitian ? !td__want_square(c, 0) : !td__want_matrix(c, 0)) return false;
    td_tensor *a = t->flags & TD_TF_NEEDS_GRAD ? td_op_detach(t) : t;
    if (td__dim_eq(td__numel(t->rank, t->size), 0)) {
        p = of_nothing(a);
    } else if (hermitian) {
        s = td_op__linalg_eigh(a, "L", true, &u);
        td_tensor *size = td_op_abs(s);
        s = inverted(s, size, td__rank_tolerance(c, size));
        p = t_mm(t_mul(u, t_row(s)), t_mH(u));
    } else {
        u = td_op__linalg_svd(a, false, true, &s, &vh);
        s = inverted(s, s, td__rank_tolerance(c, s));
        p = t_mm(t_mul(t_mH(vh), t_row(s)), t_mH(u));
    }
    td_dtype product = (td_dtype)p->dtype; /* under autocast that of the region */
    p = td_op__pinv_of(t, td_op_to(p, (td_dtype)t->dtype, false));
    c->out[0] = td_op_to(p, product, false);
    return true;
}

bool td__decomp_det(td_opcall *c) {
    td_tensor *lu, *pivots;
    c->out[0] = td_op__linalg_det(td__in(c, 0), &lu, &pivots);
    return true;
}
bool td__decomp_slogdet(td_opcall *c) {
    td_tensor *lu, *pivots;
    c->out[0] = td_op__linalg_slogdet(td__in(c, 0), &c->out[1], &lu, &pivots);
    return true;
}
bool td__decomp_logdet(td_opcall *c) {
    td_tensor *log, *sign = td_op_linalg_slogdet(td__in(c, 0), &log);
    if (td_is_nil(sign)) return false;
    if (td__is_complex((td_dtype)sign->dtype))
        return c->out[0] = t_add(td_op_log(sign), log), true;
    td_tensor *minus = td_op_eq(sign, td_value_int(-1));
    c->out[0] = td_op_where(minus, td_value_float((double)NAN), td_value_tensor(log));
    return true;
}
