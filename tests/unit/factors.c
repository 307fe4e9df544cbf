/* factors.c -- matrix factorizations of larger matrices by their defining equations,
 * systems by their residuals, and errors that name the matrix of a stack. The samples
 * of tests/ops compare small ones with PyTorch. */
#include "op_help.h"

/* The greatest magnitude of a - b. */
static double apart(td_tensor *a, td_tensor *b) {
    return td_item(td_max(td_abs(td_sub(a, b))));
}

/* A stack of two m x n matrices of normal numbers. */
static td_tensor *some(td_ctx *cx, int64_t m, int64_t n) {
    td_seed(cx, 7);
    return td_to(td_randn(cx, TD_SHAPE(2, m, n)), TD_F64);
}

/* a a^T plus a multiple of the identity: symmetric, positive-definite. */
static td_tensor *definite(td_ctx *cx, int64_t n) {
    td_tensor *a = some(cx, n, n), *eye = td_to(td_eye(cx, n), TD_F64);
    return td_add(td_matmul(a, td_transpose(a, -2, -1)), td_mul(eye, (double)n));
}

static td_tensor *flip(td_tensor *t) { return td_transpose(t, -2, -1); }

static td_tensor *unit(td_ctx *cx, int64_t n) { return td_to(td_eye(cx, n), TD_F64); }

TEST(a_cholesky_factor_times_its_transpose_is_the_matrix) {
    td_ctx    *cx = td_open();
    td_tensor *a = definite(cx, 130), *l = td_linalg_cholesky(a);
    CHECK(apart(td_matmul(l, flip(l)), a) < 1e-10);
    CHECK(apart(td_tril(l), l) == 0);
    td_tensor *u = td_linalg_cholesky(a, true);
    CHECK(apart(u, flip(l)) < 1e-12);
    td_close(cx);
}

TEST(permutation_lower_and_upper_factor_multiply_to_the_matrix) {
    static const int64_t size[][2] = {{130, 130}, {130, 70}, {70, 130}};
    for (int i = 0; i < 3; i++) {
        td_ctx    *cx = td_open();
        td_tensor *a = some(cx, size[i][0], size[i][1]), *l, *u;
        td_tensor *p = td_linalg_lu(a, true, &l, &u);
        CHECK(apart(td_matmul(p, td_matmul(l, u)), a) < 1e-11);
        CHECK(apart(td_triu(u), u) == 0);
        td_close(cx);
    }
}

TEST(q_has_orthonormal_columns_and_q_times_r_is_the_matrix) {
    static const char *const mode[] = {"reduced", "complete"};
    for (int i = 0; i < 4; i++) {
        td_ctx    *cx = td_open();
        td_tensor *a = i < 2 ? some(cx, 130, 70) : some(cx, 70, 130), *r;
        td_tensor *q = td_linalg_qr(a, mode[i % 2], &r);
        CHECK(apart(td_matmul(q, r), a) < 1e-11);
        CHECK(apart(td_matmul(flip(q), q), unit(cx, td_size(q, -1))) < 1e-12);
        td_close(cx);
    }
}

TEST(eigenvectors_are_scaled_by_their_eigenvalues) {
    td_ctx    *cx = td_open();
    td_tensor *a = definite(cx, 130), *v, *w = td_linalg_eigh(a, "L", &v);
    CHECK(apart(td_matmul(a, v), td_mul(v, td_unsqueeze(w, -2))) < 1e-9);
    CHECK(apart(td_matmul(flip(v), v), unit(cx, 130)) < 1e-12);
    CHECK(apart(td_linalg_eigvalsh(a), w) < 1e-9);
    td_close(cx);
}

TEST(singular_values_and_vectors_multiply_to_the_matrix) {
    for (int i = 0; i < 2; i++) {
        td_ctx    *cx = td_open();
        td_tensor *a = i ? some(cx, 130, 70) : some(cx, 70, 130), *s, *vh;
        td_tensor *u = td_linalg_svd(a, false, &s, &vh);
        CHECK(apart(td_matmul(td_mul(u, td_unsqueeze(s, -2)), vh), a) < 1e-11);
        CHECK(apart(td_linalg_svdvals(a), s) < 1e-11);
        td_tensor *p = td_linalg_pinv(a);
        CHECK(apart(td_matmul(a, td_matmul(p, a)), a) < 1e-10);
        td_close(cx);
    }
}

TEST(a_solution_satisfies_its_system) {
    td_ctx    *cx = td_open();
    td_tensor *a = definite(cx, 130), *b = some(cx, 130, 9), *pivots, *info;
    CHECK(apart(td_matmul(a, td_linalg_solve(a, b)), b) < 1e-10);
    td_tensor *x = td_linalg_solve(a, flip(b), false);
    CHECK(apart(td_matmul(x, a), flip(b)) < 1e-10);
    CHECK(apart(td_matmul(a, td_linalg_inv(a)), unit(cx, 130)) < 1e-10);
    td_tensor *ld = td_linalg_ldl_factor_ex(a, false, false, &pivots, &info);
    CHECK(apart(td_matmul(a, td_linalg_ldl_solve(ld, pivots, b)), b) < 1e-10);
    x = td_linalg_solve_triangular(a, b, true);
    CHECK(apart(td_matmul(td_triu(a), x), b) < 1e-10);
    td_close(cx);
}

/* The residual of least squares is orthogonal to the columns. */
TEST(every_driver_of_least_squares_satisfies_the_normal_equations) {
    static const char *const driver[] = {"gelsy", "gels", "gelsd", "gelss"};
    for (int i = 0; i < 4; i++) {
        td_ctx    *cx = td_open();
        td_tensor *a = some(cx, 130, 20), *b = some(cx, 130, 3), *rest, *rank, *s;
        td_tensor *x = td_linalg_lstsq(a, b, TD_NONE, driver[i], &rest, &rank, &s);
        td_tensor *r = td_sub(td_matmul(a, x), b);
        CHECK(apart(td_matmul(flip(a), r), td_zeros_like(x)) < 1e-10);
        if (i) CHECK(apart(rest, td_sum(td_mul(r, r), TD_DIMS(-2))) < 1e-9);
        td_close(cx);
    }
}

/* exp(a) exp(-a) = 1, and the determinant of exp(a) is exp(trace a). */
TEST(the_exponential_of_a_matrix_has_that_of_its_negative_as_inverse) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_mul(some(cx, 40, 40), 0.2), *e = td_linalg_matrix_exp(a);
    td_tensor *back = td_matmul(e, td_linalg_matrix_exp(td_neg(a)));
    CHECK(apart(back, unit(cx, 40)) < 1e-10);
    td_tensor *trace = td_sum(td_diagonal(a, 0, -2, -1), TD_DIMS(-1));
    CHECK(apart(td_log(td_linalg_det(e)), trace) < 1e-10);
    td_close(cx);
}

TEST(an_error_names_the_matrix_of_the_stack) {
    static const double v[] = {2, 0, 0, 2, 1, 1, 1, 1};
    td_ctx             *cx = td_open();
    td_tensor          *a = td_from(cx, TD_F64, TD_SHAPE(2, 2, 2), v);
    CHECK(td_is_nil(td_linalg_inv(a)));
    CHECK(strstr(td_message(cx), "linalg_inv: matrix 1 of A f64[2,2,2]"));
    td_clear(cx);
    CHECK(td_is_nil(td_linalg_cholesky(td_neg(a))));
    CHECK(strstr(td_message(cx), "linalg_cholesky: matrix 0 of self f64[2,2,2]"));
    td_clear(cx);
    td_tensor *info, *inv = td_linalg_inv_ex(a, false, &info);
    CHECK(!td_is_nil(inv) && td_item(td_select(info, 0, 1)) == 2);
    td_close(cx);
}

/* LAPACK would search for ever. */
TEST(singular_values_of_an_infinity_are_an_error) {
    static const double v[] = {1, 2, 3, INFINITY, 5, 6};
    td_ctx             *cx = td_open();
    td_tensor          *a = td_from(cx, TD_F64, TD_SHAPE(3, 2), v);
    CHECK(td_is_nil(td_linalg_svdvals(a)));
    CHECK(strstr(td_message(cx), "matrix 0 of A f64[3,2]: the algorithm did not conv"));
    td_clear(cx);
    td_close(cx);
}

/* Compiled code calls the kernel, which fails there as it does in eager. */
static bool body_of_inverse(td_call *c) {
    return td_return(c, td_mul(td_linalg_inv(td_arg(c, 0)), 2));
}

TEST(a_compiled_inverse_equals_eagers_and_fails_like_it) {
    static const double ones[] = {1, 1, 1, 1};
    td_ctx             *cx = td_open();
    td_fn              *f = td_aot_function(cx, body_of_inverse, NULL, NULL);
    td_tensor          *a = definite(cx, 8), *y = NULL;
    CHECK(td_invoke(f, TD_ARGS(a), &y, 1));
    CHECK(apart(y, td_mul(td_linalg_inv(a), 2)) == 0);
    a = td_from(cx, TD_F64, TD_SHAPE(2, 2), ones);
    CHECK(!td_invoke(f, TD_ARGS(a), &y, 1));
    CHECK(strstr(td_message(cx), "matrix 0 of A f64[2,2]"));
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}
