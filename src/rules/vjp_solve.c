/* vjp_solve.c -- derivatives of linear systems, determinants, pseudoinverses, the
 * matrix exponential and distances. A gradient of a solution is a system with the
 * transposed matrix; LU factors from forward serve it. A^H is the conjugate transpose,
 * of real matrices A^T. */
#include "rules/matrix_args.h"
#include "rules/vjp_matrix.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Sets the gradient of argument i; false when it could not be computed. */
static bool give(td_vjp *v, int i, td_tensor *g) {
    v->grad[i] = g;
    return g && !td_is_nil(g);
}

/* in: self (A), B, upper, left, unitriangular. G_B solves with A^H; G_A is the triangle
 * of -G_B X^H, or of -X^H G_B. */
bool td__vjp_solve_triangular(td_vjp *v) {
    td_tensor *a = v->in[0].u.t, *x = v->out[0];
    bool upper = v->in[2].u.i != 0, left = v->in[3].u.i != 0, unit = v->in[4].u.i != 0;
    td_tensor *gb = td_op_linalg_solve_triangular(t_mH(a), v->g[0], !upper, left, unit);
    if (v->need[1] && !give(v, 1, gb)) return false;
    if (!v->need[0]) return true;
    td_tensor *ga = t_neg(left ? t_mm(gb, t_mH(x)) : t_mm(t_mH(x), gb));
    return give(v, 0, upper ? td_op_triu(ga, unit) : td_op_tril(ga, -(int64_t)unit));
}

/* The gradient of LU factors from ga, that of A = P L U: tril(P^T G_A U^H, -1) and
 * triu(L^H P^T G_A). */
static td_tensor *factors_grad(td_tensor *lu, td_tensor *pivots, td_tensor *ga) {
    td_tensor *r = td__permute_rows(ga, pivots, true);
    td_tensor *low = t_mm(r, t_mH(td_op_triu(lu, 0)));
    td_tensor *high = t_add(r, t_mm(t_mH(td_op_tril(lu, -1)), r));
    return t_add(td_op_tril(low, -1), td_op_triu(high, 0));
}

/* in: LU, pivots, B, left, adjoint. */
bool td__vjp_lu_solve(td_vjp *v) {
    td_tensor *lu = v->in[0].u.t, *pivots = v->in[1].u.t, *x = v->out[0], *ga;
    bool       left = v->in[3].u.i != 0, adjoint = v->in[4].u.i != 0;
    td_tensor *gb = td_op_linalg_lu_solve(lu, pivots, v->g[0], left, !adjoint);
    if (v->need[2] && !give(v, 2, gb)) return false;
    if (!v->need[0]) return true;
    if (left) ga = adjoint ? t_mm(x, t_mH(gb)) : t_mm(gb, t_mH(x));
    else ga = adjoint ? t_mm(t_mH(gb), x) : t_mm(t_mH(x), gb);
    return give(v, 0, factors_grad(lu, pivots, t_neg(ga)));
}

/* in: A, B, left, check_errors; results: X, LU, pivots, info. */
bool td__vjp_solve_ex(td_vjp *v) {
    td_tensor     *lu = v->out[1], *pivots = v->out[2], *g = v->g[0], *ga = NULL, *gb;
    const td_meta *a = v->in_meta[0], *b = v->in_meta[1];
    bool           left = v->in[2].u.i != 0;
    bool           vector = b->rank == 1 ||
                  (a->rank - 1 == b->rank && td__dims_eq(a->size, b->size, b->rank));
    if (g) {
        gb = td_op_linalg_lu_solve(lu, pivots, vector ? t_col(g) : g, left, true);
        if (v->need[1] && !give(v, 1, vector ? td_op_squeeze_dim(gb, -1) : gb))
            return false;
        if (v->need[0]) {
            td_tensor *x = vector ? t_col(v->out[0]) : v->out[0];
            ga = t_neg(left ? t_mm(gb, t_mH(x)) : t_mm(t_mH(x), gb));
        }
    }
    if (v->need[0] && v->g[1]) { /* of A's own sizes, while ga has those of X */
        if (ga) ga = td_op_sum_to_size(ga, (td_ints){a->size, a->rank});
        ga = t_join(ga, td__lu_grad(lu, pivots, v->g[1]));
    }
    return !ga || give(v, 0, ga);
}

/* ---- determinants ------------------------------------------------------- */

/* x A^-H for numbers x, one for each matrix of the LU factors. */
static td_tensor *times_inverse(td_tensor *lu, td_tensor *pivots, td_tensor *x) {
    td_tensor *eye = td_op_eye(lu->cx, t_last(lu, 1), td_value_int(t_last(lu, 1)),
                               (td_dtype)lu->dtype);
    return td_op_linalg_lu_solve(lu, pivots, t_mul(t_col(t_col(x)), eye), true, true);
}

/* The LU factors with zeros on the diagonal of U replaced by a small number: the
 * derivative of the determinant of a matrix of rank n - 1 is finite. */
static td_tensor *nudged(td_tensor *lu) {
    bool       wide = td__real_of((td_dtype)lu->dtype) == TD_F64;
    double     small = wide ? DBL_EPSILON : (double)FLT_EPSILON;
    td_tensor *zero = td_op_eq(td_op_diagonal(lu, 0, -2, -1), td_value_int(0));
    td_tensor *by = t_scale(t_as(zero, (td_dtype)lu->dtype), small);
    td_tensor *eye = td_op_eye(lu->cx, t_last(lu, 1), td_value_int(t_last(lu, 1)),
                               (td_dtype)lu->dtype);
    return t_add(lu, t_mul(eye, t_row(by)));
}

/* The product of the diagonal of U, with the sign of the exchanges. */
static td_tensor *det_of_factors(td_tensor *lu, td_tensor *pivots) {
    td_tensor *d = td_op_diagonal(lu, 0, -2, -1);
    td_tensor *rows = td_op_arange(lu->cx, td_value_int(1),
                                   td_value_int(td__dim_add(t_last(lu, 1), 1)),
                                   td_value_int(1), TD_I32);
    td_tensor *moved = td_op_ne(pivots, td_value_tensor(rows));
    td_tensor *way = t_scale(t_as(moved, (td_dtype)lu->dtype), -2);
    way = td_op_add(way, td_value_int(1), td_value_int(1)); /* 1, or -1 */
    return td_op_prod_dim(t_mul(d, way), -1, false, TD_DTYPE_NONE);
}

/* results: det, LU, pivots. G_A = g conj(det) A^-H, with det from the factors:
 * of a singular matrix both are nudged. */
bool td__vjp_det(td_vjp *v) {
    td_tensor *lu = v->out[1], *pivots = v->out[2], *ga = NULL;
    if (v->g[0]) {
        td_tensor *a = nudged(lu);
        ga = times_inverse(a, pivots,
                           t_mul(v->g[0], td_op_conj(det_of_factors(a, pivots))));
    }
    if (v->g[1]) ga = t_join(ga, td__lu_grad(lu, pivots, v->g[1]));
    return !ga || give(v, 0, ga);
}

/* g + i k for the gradient g of log |det|, or NULL, and k = -Im(conj(G_sign) sign): the
 * logarithm of a complex determinant is log |det| + i t, and its sign is exp(i t). */
static td_tensor *log_grad(td_tensor *sign, td_tensor *g_sign, td_tensor *g) {
    if (!g_sign || !td__is_complex((td_dtype)sign->dtype)) return g;
    td_tensor *k = td_op_imag(t_mul(g_sign, td_op_conj(sign)));
    return td_op_complex(g ? g : td_op_zeros_like(k, TD_DTYPE_NONE), k);
}

/* results: sign, log |det|, LU, pivots. The sign of a real determinant has no gradient,
 * as in PyTorch. */
bool td__vjp_slogdet(td_vjp *v) {
    td_tensor *lu = v->out[2], *pivots = v->out[3], *ga = NULL;
    td_tensor *g = log_grad(v->out[0], v->g[0], v->g[1]);
    if (g) ga = times_inverse(lu, pivots, g);
    if (v->g[2]) ga = t_join(ga, td__lu_grad(lu, pivots, v->g[2]));
    return !ga || give(v, 0, ga);
}

/* ---- pseudoinverse, least squares --------------------------------------- */

/* dP = -P dA P + P P^T dA^T (I - A P) + (I - P A) dA^T P^T P (Golub and Pereyra 1973),
 * transposed: with K = G^T P,
 * G_A = -(P K)^T + (K - A P K) P^T + P^T P (G^T - K A). T conjugates complex ones. */
static td_tensor *pinv_grad(td_tensor *a, td_tensor *p, td_tensor *g) {
    td_tensor *pt = t_mH(p), *k = t_mm(t_mH(g), p);
    td_tensor *first = t_mm(t_sub(k, t_mm(a, t_mm(p, k))), pt);
    td_tensor *second = t_mm(pt, t_mm(p, t_sub(t_mH(g), t_mm(k, a))));
    return t_sub(t_add(first, second), t_mH(t_mm(p, k)));
}

/* in: self, pinv. */
bool td__vjp_pinv_of(td_vjp *v) {
    return !v->need[0] || give(v, 0, pinv_grad(v->in[0].u.t, v->out[0], v->g[0]));
}

/* in: A, B; results: X padded, residuals, rank, singular values. X = pinv(A) B, and
 * residuals = sum((A X - B)^2). */
bool td__vjp_lstsq(td_vjp *v) {
    td_tensor *a = v->in[0].u.t, *b = v->in[1].u.t, *ga = NULL, *gb = NULL;
    int64_t    n = t_last(a, 1);
    if (v->g[0]) {
        td_tensor *gx = td_op_narrow(v->g[0], -2, 0, n);
        td_tensor *p = td_op_linalg_pinv(a, TD_NONE, TD_NONE, false);
        gb = t_mm(t_mT(p), gx);
        if (v->need[0]) ga = pinv_grad(a, p, t_mm(gx, t_mT(b)));
    }
    bool fits = td__dim_lt(n, t_last(a, 2)) && strcmp(v->in[3].u.s, "gelsy") != 0;
    if (v->g[1] && fits) { /* else there are none */
        td_tensor *x = td_op_narrow(v->out[0], -2, 0, n);
        td_tensor *r = t_scale(t_mul(t_sub(t_mm(a, x), b), t_row(v->g[1])), 2);
        gb = gb ? t_sub(gb, r) : t_neg(r);
        if (v->need[0]) ga = t_join(ga, t_mm(r, t_mT(x)));
    }
    return (!v->need[0] || !ga || give(v, 0, ga)) &&
           (!v->need[1] || !gb || give(v, 1, gb));
}

/* ---- exponential, distances --------------------------------------------- */

/* The derivative of exp at A^T in the direction of g: the upper right block of
 * exp([[A^T, g], [0, A^T]]). */
bool td__vjp_matrix_exp(td_vjp *v) {
    td_tensor *at = t_mT(v->in[0].u.t), *g = v->g[0];
    td_tensor *zero = td_op_zeros_like(g, TD_DTYPE_NONE);
    td_tensor *top = td_op_cat((td_tensors){(td_tensor *[]){at, g}, 2}, -1);
    td_tensor *low = td_op_cat((td_tensors){(td_tensor *[]){zero, at}, 2}, -1);
    td_tensor *all = td_op_cat((td_tensors){(td_tensor *[]){top, low}, 2}, -2);
    int64_t    n = t_last(g, 1);
    td_tensor *e = td_op_narrow(td_op__matrix_exp(all), -2, 0, n);
    return give(v, 0, td_op_narrow(e, -1, n, n));
}

/* d (|d| / dist)^(p - 2) / dist for differences d, in the order that neither overflows
 * nor divides by 0: the derivative of the p-norm. */
static td_tensor *norm_slope(td_tensor *d, td_tensor *dist, double p) {
    td_tensor *sign = td_op_sign(d), *size = td_op_abs(d);
    if (p == 1) return sign;
    if (p == INFINITY) return t_mul(sign, td_op_eq(size, td_value_tensor(dist)));
    td_tensor *none = td_op_eq(dist, td_value_int(0));
    dist = td_op_masked_fill(dist, none, td_value_int(1));
    if (p == 2) return t_div(d, dist);
    if (p < 2) { /* |d|^(p - 1) is steep, or infinite, at 0 */
        td_tensor *zero = td_op_eq(d, td_value_int(0));
        size = td_op_masked_fill(size, zero, td_value_int(1));
    }
    td_value q = td_value_float(p - 1);
    return t_mul(sign, td_op_pow(td_value_tensor(t_div(size, dist)), q));
}

/* in: x1, x2, p. The differences of all pairs are [.., n, m, d]. */
bool td__vjp_cdist(td_vjp *v) {
    double     p = td__value_f(v->in[2]);
    td_tensor *a = v->in[0].u.t, *b = v->in[1].u.t;
    td_tensor *diff = t_sub(td_op_unsqueeze(a, -2), td_op_unsqueeze(b, -3));
    td_tensor *w = p == 0
                       ? td_op_zeros_like(diff, TD_DTYPE_NONE)
                       : t_mul(norm_slope(diff, t_col(v->out[0]), p), t_col(v->g[0]));
    if (v->need[0] && !give(v, 0, t_sum(w, TD_DIMS(-2), false))) return false;
    return !v->need[1] || give(v, 1, t_neg(t_sum(w, TD_DIMS(-3), false)));
}
