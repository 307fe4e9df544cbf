/* shape_factor.c -- results and argument checks of the matrix factorizations. */
#include "rules/matrix_args.h"
#include "rules/shape_rules.h"

#include <string.h>

/* Meta i: the sizes of t without its last `drop`, then `extra` if it is not -1. */
static void meta_stack(td_opcall *c, int i, const td_tensor *t, int drop, int64_t extra,
                       td_dtype dt) {
    int64_t size[TD_MAX_RANK];
    int     n = t->rank - drop;
    for (int d = 0; d < n; d++) size[d] = t->size[d];
    if (extra != -1) size[n++] = extra;
    td__meta_dense(&c->meta[i], dt, n, size);
}

/* Meta i: column-major matrices, as many as t has, of m rows and n columns. */
static void meta_matrices(td_opcall *c, int i, const td_tensor *t, int64_t m,
                          int64_t n) {
    int64_t size[TD_MAX_RANK];
    memcpy(size, t->size, sizeof(int64_t) * (size_t)t->rank);
    size[t->rank - 2] = m;
    size[t->rank - 1] = n;
    td__meta_columns(&c->meta[i], (td_dtype)t->dtype, t->rank, size);
}

/* Meta i: column-major, of the sizes of t. */
static void meta_like(td_opcall *c, int i, const td_tensor *t) {
    td__meta_columns(&c->meta[i], (td_dtype)t->dtype, t->rank, t->size);
}

/* in: self, upper, check_errors. */
bool td__shape_cholesky_ex(td_opcall *c) {
    if (!td__want_square(c, 0)) return false;
    meta_like(c, 0, td__in(c, 0));
    meta_stack(c, 1, td__in(c, 0), 2, -1, TD_I32);
    return true;
}

/* ---- LU ----------------------------------------------------------------- */

/* in: A, pivot, check_errors. */
bool td__shape_lu_factor_ex(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (!td__want_matrix(c, 0)) return false;
    if (!td__in_bool(c, 1))
        return td__op_fail(c, TD_E_ARG,
                           "pivot is false; LU without pivoting is not "
                           "defined on the CPU, pass true");
    meta_like(c, 0, t);
    meta_stack(c, 1, t, 2, td__dim_min(t_last(t, 1), t_last(t, 2)), TD_I32);
    meta_stack(c, 2, t, 2, -1, TD_I32);
    return true;
}

/* in: A. Results: one number per matrix, and a real one for slogdet; LU, pivots. */
static bool determinant(td_opcall *c, int scalars) {
    const td_tensor *t = td__in(c, 0);
    td_dtype         dt = (td_dtype)t->dtype;
    if (!td__want_square(c, 0)) return false;
    for (int i = 0; i < scalars; i++)
        meta_stack(c, i, t, 2, -1, i ? td__real_of(dt) : dt);
    meta_like(c, scalars, t);
    meta_stack(c, scalars + 1, t, 1, -1, TD_I32);
    return true;
}
bool td__shape_det(td_opcall *c) { return determinant(c, 1); }
bool td__shape_slogdet(td_opcall *c) { return determinant(c, 2); }

/* Pivots, argument i, are i32 with at least one dim. */
static bool want_pivots(td_opcall *c, int i) {
    const td_tensor *p = td__in(c, i);
    if (p->dtype == TD_I32 && p->rank > 0) return true;
    return td__op_fail(c, TD_E_DTYPE,
                       "%s must be a vector of i32 or a stack of them, "
                       "got %s",
                       c->info->s.in[i].name, td__type_str(p));
}

/* in: pivots, rows. */
bool td__shape_lu_permutation(td_opcall *c) {
    const td_tensor *p = td__in(c, 0);
    if (!want_pivots(c, 0)) return false;
    if (td__dim_lt(td__in_int(c, 1), t_last(p, 1)))
        return td__op_fail(c, TD_E_SHAPE,
                           "there are more pivots than rows, %s and %lld",
                           td__type_str(p), (long long)td__dim_now(td__in_int(c, 1)));
    meta_stack(c, 0, p, 1, td__in_int(c, 1), TD_I64);
    return true;
}

/* B, argument b, fits the square matrices of argument a on the side given; its leading
 * sizes broadcast with theirs. Meta 0: the solution, column-major if `columns`. */
static bool meta_solution(td_opcall *c, int a, int b, bool left, bool columns) {
    const td_tensor *A = td__in(c, a), *B = td__in(c, b);
    int              n = A->rank - 2;
    int64_t          size[TD_MAX_RANK];
    if (!td__dim_eq(t_last(B, left ? 2 : 1), t_last(A, 1)))
        return td__op_fail(c, TD_E_SHAPE, "%s %s has %s for matrices %s %s",
                           c->info->s.in[b].name, td__type_str(B),
                           left ? "too many or too few rows"
                                : "too many or too few columns",
                           c->info->s.in[a].name, td__type_str(A));
    memcpy(size, A->size, sizeof(int64_t) * (size_t)n);
    if (!td__broadcast(&n, size, B->rank - 2, B->size))
        return td__op_fail(c, TD_E_SHAPE,
                           "leading sizes do not broadcast, %s %s and %s "
                           "%s",
                           c->info->s.in[a].name, td__type_str(A),
                           c->info->s.in[b].name, td__type_str(B));
    size[n] = t_last(B, 2);
    size[n + 1] = t_last(B, 1);
    if (columns) td__meta_columns(&c->meta[0], (td_dtype)B->dtype, n + 2, size);
    else td__meta_dense(&c->meta[0], (td_dtype)B->dtype, n + 2, size);
    return true;
}

/* The pivots, argument p, belong to the matrices of argument a. */
static bool pivots_fit(td_opcall *c, int a, int p) {
    const td_tensor *A = td__in(c, a), *P = td__in(c, p);
    if (!want_pivots(c, p)) return false;
    if (P->rank == A->rank - 1 && td__dims_eq(P->size, A->size, P->rank)) return true;
    return td__op_fail(c, TD_E_SHAPE,
                       "pivots must have the sizes of %s without the "
                       "last, got %s and %s",
                       c->info->s.in[a].name, td__type_str(P), td__type_str(A));
}

/* in: LU, pivots, B, left, adjoint. */
bool td__shape_lu_solve(td_opcall *c) {
    bool left = td__in_bool(c, 3);
    return td__want_square(c, 0) && td__want_matrix(c, 2) &&
           td__want_same_dtype(c, 0, 2) && pivots_fit(c, 0, 1) &&
           meta_solution(c, 0, 2, left, left);
}

/* in: self, B, upper, left, unitriangular. */
bool td__shape_solve_triangular(td_opcall *c) {
    return td__want_square(c, 0) && td__want_matrix(c, 1) &&
           td__want_same_dtype(c, 0, 1) &&
           meta_solution(c, 0, 1, td__in_bool(c, 3), true);
}

/* The solution of vectors B for matrices A: their leading sizes broadcast. ATen takes
 * the strides of column-major matrices for the last two dims of it. */
static bool meta_vectors(td_opcall *c) {
    const td_tensor *A = td__in(c, 0), *B = td__in(c, 1);
    int              n = A->rank - 2;
    int64_t          size[TD_MAX_RANK];
    if (!td__in_bool(c, 2))
        return td__op_fail(c, TD_E_ARG,
                           "B %s is a vector; with left=false it must be a "
                           "matrix or a stack of them",
                           td__type_str(B));
    memcpy(size, A->size, sizeof(int64_t) * (size_t)n);
    if (!td__dim_eq(t_last(B, 1), t_last(A, 1)) ||
        !td__broadcast(&n, size, B->rank - 1, B->size))
        return td__op_fail(c, TD_E_SHAPE, "vectors B %s do not fit matrices A %s",
                           td__type_str(B), td__type_str(A));
    size[n] = t_last(B, 1);
    td__meta_columns(&c->meta[0], (td_dtype)B->dtype, n + 1, size);
    return true;
}

/* in: A, B, left, check_errors. */
bool td__shape_solve_ex(td_opcall *c) {
    const td_tensor *A = td__in(c, 0), *B = td__in(c, 1);
    bool             left = td__in_bool(c, 2);
    if (!td__want_square(c, 0) || !td__want_same_dtype(c, 0, 1)) return false;
    if (B->rank == 0)
        return td__op_fail(c, TD_E_SHAPE, "B must have at least one dim, got %s",
                           td__type_str(B));
    if (td__is_vector_rhs(A, B) ? !meta_vectors(c)
                                : !meta_solution(c, 0, 1, left, left))
        return false;
    meta_like(c, 1, A);
    meta_stack(c, 2, A, 1, -1, TD_I32);
    meta_stack(c, 3, A, 2, -1, TD_I32);
    return true;
}

/* in: A, check_errors. */
bool td__shape_inv_ex(td_opcall *c) { return td__shape_cholesky_ex(c); }

/* ---- QR ----------------------------------------------------------------- */

/* in: A, mode. */
bool td__shape_qr(td_opcall *c) {
    static const char *const modes[] = {"reduced", "complete", "r"};
    const td_tensor         *t = td__in(c, 0);
    if (!td__want_matrix(c, 0) || !td__want_word(c, 1, modes, 3)) return false;
    int64_t m = t_last(t, 2), n = t_last(t, 1);
    int64_t k = c->in[1].u.s[0] == 'c' ? m : td__dim_min(m, n);
    if (!strcmp(c->in[1].u.s, "r")) td__meta_none(&c->meta[0], (td_dtype)t->dtype);
    else meta_matrices(c, 0, t, m, k);
    meta_matrices(c, 1, t, k, n);
    return true;
}

/* in: self. */
bool td__shape_geqrf(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (!td__want_matrix(c, 0)) return false;
    meta_like(c, 0, t);
    meta_stack(c, 1, t, 2, td__dim_min(t_last(t, 1), t_last(t, 2)), (td_dtype)t->dtype);
    return true;
}

/* Factors tau, argument i, belong to the columns of argument 0, of which there may be
 * more. */
static bool tau_fits(td_opcall *c, int i) {
    const td_tensor *a = td__in(c, 0), *tau = td__in(c, i);
    if (!td__want_same_dtype(c, 0, i)) return false;
    if (tau->rank == a->rank - 1 && td__dims_eq(tau->size, a->size, a->rank - 2) &&
        td__dim_le(t_last(tau, 1), t_last(a, 1)))
        return true;
    return td__op_fail(c, TD_E_SHAPE,
                       "%s must have the leading sizes of %s and at most "
                       "one element for each column, got %s and %s",
                       c->info->s.in[i].name, c->info->s.in[0].name, td__type_str(tau),
                       td__type_str(a));
}

/* in: input, tau. */
bool td__shape_householder(td_opcall *c) {
    const td_tensor *a = td__in(c, 0);
    if (!td__want_matrix(c, 0) || !tau_fits(c, 1)) return false;
    if (td__dim_lt(t_last(a, 2), t_last(a, 1)))
        return td__op_fail(c, TD_E_SHAPE,
                           "input must not have more columns than rows, "
                           "got %s",
                           td__type_str(a));
    meta_like(c, 0, a);
    return true;
}

/* in: self, input2 (tau), input3, left, transpose. */
bool td__shape_ormqr(td_opcall *c) {
    const td_tensor *a = td__in(c, 0), *tau = td__in(c, 1), *o = td__in(c, 2);
    bool             left = td__in_bool(c, 3);
    if (!td__want_matrix(c, 0) || !td__want_matrix(c, 2) ||
        !td__want_same_dtype(c, 0, 2) || !tau_fits(c, 1))
        return false;
    if (o->rank != a->rank || !td__dims_eq(o->size, a->size, a->rank - 2) ||
        !td__dim_eq(t_last(o, left ? 2 : 1), t_last(a, 2)) ||
        !td__dim_eq(t_last(tau, 1), td__dim_min(t_last(a, 2), t_last(a, 1))))
        return td__op_fail(c, TD_E_SHAPE,
                           "input3 %s does not fit Householder vectors "
                           "self %s and input2 %s",
                           td__type_str(o), td__type_str(a), td__type_str(tau));
    meta_like(c, 0, o);
    return true;
}

/* ---- eigenvalues, singular values, LDL ---------------------------------- */

/* in: A, UPLO, compute_v. */
bool td__shape_eigh(td_opcall *c) {
    static const char *const words[] = {"L", "U", "l", "u"};
    const td_tensor         *t = td__in(c, 0);
    if (!td__want_square(c, 0) || !td__want_word(c, 1, words, 4)) return false;
    meta_stack(c, 0, t, 1, -1, td__real_of((td_dtype)t->dtype));
    if (td__in_bool(c, 2)) meta_like(c, 1, t);
    else td__meta_none(&c->meta[1], (td_dtype)t->dtype);
    return true;
}

/* in: A, compute_v. */
bool td__shape_eig(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (!td__want_square(c, 0)) return false;
    td_dtype dt = td__complex_of((td_dtype)t->dtype);
    meta_stack(c, 0, t, 1, -1, dt);
    if (td__in_bool(c, 1)) meta_like(c, 1, t);
    else td__meta_none(&c->meta[1], dt);
    c->meta[1].dtype = dt;
    return true;
}

/* in: A, full_matrices, compute_uv. */
bool td__shape_svd(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (!td__want_matrix(c, 0)) return false;
    int64_t m = t_last(t, 2), n = t_last(t, 1), k = td__dim_min(m, n);
    bool    full = td__in_bool(c, 1);
    meta_stack(c, 1, t, 2, k, td__real_of((td_dtype)t->dtype));
    if (td__in_bool(c, 2)) {
        meta_matrices(c, 0, t, m, full ? m : k);
        meta_matrices(c, 2, t, full ? n : k, n);
    } else {
        td__meta_none(&c->meta[0], (td_dtype)t->dtype);
        td__meta_none(&c->meta[2], (td_dtype)t->dtype);
    }
    return true;
}

/* in: self, hermitian, check_errors. */
bool td__shape_ldl_factor_ex(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (!td__want_square(c, 0)) return false;
    meta_like(c, 0, t);
    meta_stack(c, 1, t, 1, -1, TD_I32);
    meta_stack(c, 2, t, 2, -1, TD_I32);
    return true;
}

/* in: LD, pivots, B, hermitian. */
bool td__shape_ldl_solve(td_opcall *c) {
    return td__want_square(c, 0) && td__want_matrix(c, 2) &&
           td__want_same_dtype(c, 0, 2) && pivots_fit(c, 0, 1) &&
           meta_solution(c, 0, 2, true, true);
}

/* ---- least squares, pseudoinverse, exponential, distances --------------- */

/* in: A [.., m, n], B [.., m, k], rcond, driver, with equal leading sizes. */
static bool lstsq_fits(td_opcall *c) {
    static const char *const drivers[] = {"gelsy", "gels", "gelsd", "gelss"};
    const td_tensor         *A = td__in(c, 0), *B = td__in(c, 1);
    if (!td__want_matrix(c, 0) || !td__want_matrix(c, 1) ||
        !td__want_same_dtype(c, 0, 1) || !td__want_word(c, 3, drivers, 4))
        return false;
    return (A->rank == B->rank && td__dims_eq(A->size, B->size, A->rank - 1)) ||
           td__op_fail(c, TD_E_SHAPE,
                       "B %s must have the sizes of A %s but for the last",
                       td__type_str(B), td__type_str(A));
}

bool td__shape_lstsq(td_opcall *c) {
    const td_tensor *A = td__in(c, 0), *B = td__in(c, 1);
    td_dtype         dt = (td_dtype)A->dtype;
    const char      *driver = c->in[3].u.s;
    if (!lstsq_fits(c)) return false;
    int64_t m = t_last(A, 2), n = t_last(A, 1);
    bool    values = !strcmp(driver, "gelsd") || !strcmp(driver, "gelss");
    meta_matrices(c, 0, B, td__dim_max(m, n), t_last(B, 1));
    if (td__dim_lt(n, m) && strcmp(driver, "gelsy") != 0)
        meta_stack(c, 1, B, 2, t_last(B, 1), dt);
    else td__meta_none(&c->meta[1], dt);
    if (!strcmp(driver, "gels")) td__meta_none(&c->meta[2], TD_I64);
    else meta_stack(c, 2, A, 2, -1, TD_I64);
    if (values) meta_stack(c, 3, A, 2, td__dim_min(m, n), dt);
    else td__meta_none(&c->meta[3], dt);
    return true;
}

/* in: self [.., m, n], pinv [.., n, m]. */
bool td__shape_pinv_of(td_opcall *c) {
    const td_tensor *t = td__in(c, 0), *p = td__in(c, 1);
    if (!td__want_matrix(c, 0) || !td__want_same_dtype(c, 0, 1)) return false;
    if (p->rank != t->rank || !td__dims_eq(p->size, t->size, t->rank - 2) ||
        !td__dim_eq(t_last(p, 2), t_last(t, 1)) ||
        !td__dim_eq(t_last(p, 1), t_last(t, 2)))
        return td__op_fail(c, TD_E_SHAPE,
                           "pinv %s must have the sizes of the transpose of self %s",
                           td__type_str(p), td__type_str(t));
    td__meta_dense(&c->meta[0], (td_dtype)p->dtype, p->rank, p->size);
    return true;
}

/* in: self. */
bool td__shape_matrix_exp(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (!td__want_square(c, 0)) return false;
    td__meta_dense(&c->meta[0], (td_dtype)t->dtype, t->rank, t->size);
    return true;
}

/* in: x1 [.., n, d], x2 [.., m, d], p. */
bool td__shape_cdist(td_opcall *c) {
    const td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    int64_t          size[TD_MAX_RANK];
    if (!td__want_matrix(c, 0) || !td__want_matrix(c, 1) ||
        !td__want_same_dtype(c, 0, 1))
        return false;
    if (a->rank != b->rank || !td__dims_eq(a->size, b->size, a->rank - 2) ||
        !td__dim_eq(t_last(a, 1), t_last(b, 1)))
        return td__op_fail(c, TD_E_SHAPE,
                           "takes stacks of equal length with rows of one "
                           "size, got %s and %s",
                           td__type_str(a), td__type_str(b));
    memcpy(size, a->size, sizeof(int64_t) * (size_t)a->rank);
    size[a->rank - 1] = t_last(b, 2);
    td__meta_dense(&c->meta[0], (td_dtype)a->dtype, a->rank, size);
    return true;
}
