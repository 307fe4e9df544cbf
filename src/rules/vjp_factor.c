/* vjp_factor.c -- derivatives of the matrix factorizations, for stacks of matrices.
 * Each follows from differentiating the defining equation; G_X is the gradient of a
 * result X, tril and triu keep a triangle, and M^H is the conjugate
 * transpose. Householder products and singular values are of real matrices. */
#include "rules/matrix_args.h"
#include "rules/vjp_matrix.h"

#include <math.h>
#include <string.h>

/* Sets the gradient of argument i; false when it could not be computed. */
static bool give(td_vjp *v, int i, td_tensor *g) {
    v->grad[i] = g;
    return g && !td_is_nil(g);
}

/* A X = B for triangular A, and X A = B. */
static td_tensor *solve_left(td_tensor *a, td_tensor *b, bool upper, bool unit) {
    return td_op_linalg_solve_triangular(a, b, upper, true, unit);
}
static td_tensor *solve_right(td_tensor *a, td_tensor *b, bool upper) {
    return td_op_linalg_solve_triangular(a, b, upper, false, false);
}

/* ---- Cholesky ----------------------------------------------------------- */

/* A = L L^H: with X = L^H G_L, G_A = L^-H (tril(X) + tril(X, -1)^H) / 2 L^-1, which is
 * Hermitian where the diagonal of X is real. U = L^H has the same A. */
bool td__vjp_cholesky_ex(td_vjp *v) {
    bool       upper = v->in[1].u.i != 0;
    td_tensor *l = v->out[0], *g = v->g[0];
    if (!g) return true;
    if (upper) l = t_mH(l), g = t_mH(g);
    td_tensor *x = t_mm(t_mH(l), g);
    x = t_scale(t_add(td_op_tril(x, 0), t_mH(td_op_tril(x, -1))), 0.5);
    return give(v, 0, solve_right(l, solve_left(t_mH(l), x, true, false), false));
}

/* ---- LU ----------------------------------------------------------------- */

td_tensor *td__permute_rows(td_tensor *x, td_tensor *pivots, bool transposed) {
    td_tensor *perm = td_op__lu_permutation(pivots, t_last(x, 2));
    if (!transposed) perm = td_op_argsort(perm, -1, false, false);
    return td_op_gather(x, -2, td_op_expand(t_col(perm), td__sizes(x)));
}

/* L^-H [phi U1^-H | G_U2] for A = P L [U1 | U2], which has at least as many columns as
 * rows. */
static td_tensor *wide_lu(td_tensor *lu, td_tensor *g, int64_t k, int64_t more) {
    td_tensor *lt = t_mH(td_op_narrow(lu, -1, 0, k)); /* L^H, of which triu is read */
    td_tensor *u1t = t_mH(td_op_triu(td_op_narrow(lu, -1, 0, k), 0));
    td_tensor *g1 = td_op_narrow(g, -1, 0, k), *gl = td_op_tril(g1, -1);
    /* L^H G_L = G_L + triu(L^H, 1) G_L */
    td_tensor *low = t_add(gl, t_mm(td_op_triu(lt, 1), gl)), *g2 = NULL;
    if (more) {
        g2 = td_op_narrow(g, -1, k, more);
        low = t_sub(low, t_mm(g2, t_mH(td_op_narrow(lu, -1, k, more))));
    }
    td_tensor *high = t_mm(td_op_triu(g1, 0), u1t);
    td_tensor *phi = t_add(td_op_tril(low, -1), td_op_triu(high, 0));
    td_tensor *r = solve_right(u1t, phi, false);
    if (more) r = td_op_cat((td_tensors){(td_tensor *[]){r, g2}, 2}, -1);
    return solve_left(lt, r, true, true);
}

/* [L1^-H phi; G_L2] U^-H for A = P [L1; L2] U with more rows than columns. */
static td_tensor *tall_lu(td_tensor *lu, td_tensor *g, int64_t k, int64_t more) {
    td_tensor *top = td_op_narrow(lu, -2, 0, k), *l1t = t_mH(top);
    td_tensor *ut = t_mH(td_op_triu(top, 0));
    td_tensor *gl1 = td_op_tril(td_op_narrow(g, -2, 0, k), -1);
    td_tensor *gl2 = td_op_narrow(g, -2, k, more);
    td_tensor *low = t_add(gl1, t_mm(td_op_triu(l1t, 1), gl1));
    td_tensor *high = t_mm(td_op_triu(td_op_narrow(g, -2, 0, k), 0), ut);
    high = t_sub(high, t_mm(t_mH(td_op_narrow(lu, -2, k, more)), gl2));
    td_tensor *phi = t_add(td_op_tril(low, -1), td_op_triu(high, 0));
    td_tensor *r[2] = {solve_left(l1t, phi, true, true), gl2};
    return solve_right(ut, td_op_cat((td_tensors){r, 2}, -2), false);
}

/* For square A = P L U: G_A = P L^-H (tril(L^H G_L, -1) + triu(G_U U^H)) U^-H. */
td_tensor *td__lu_grad(td_tensor *lu, td_tensor *pivots, td_tensor *g) {
    int64_t    m = t_last(lu, 2), n = t_last(lu, 1);
    bool       tall = td__dim_lt(n, m), wide = !tall && td__dim_lt(m, n);
    td_tensor *r = tall ? tall_lu(lu, g, n, td__dim_sub(m, n))
                        : wide_lu(lu, g, m, wide ? td__dim_sub(n, m) : 0);
    return td_is_nil(r) ? r : td__permute_rows(r, pivots, false);
}

bool td__vjp_lu_factor_ex(td_vjp *v) {
    if (!v->g[0]) return true;
    return give(v, 0, td__lu_grad(v->out[0], v->out[1], v->g[0]));
}

/* ---- QR ----------------------------------------------------------------- */

/* Q with R1 = the first columns of R, square: with M = R1 G_R1^H - G_Q^H Q,
 * G_A1 = (G_Q + Q (tril(M) + tril(M, -1)^H)) R1^-H. */
static td_tensor *square_qr(td_tensor *q, td_tensor *r1, td_tensor *gq,
                            td_tensor *gr1) {
    td_tensor *m = NULL;
    if (gr1) m = t_mm(r1, t_mH(gr1));
    if (gq) {
        td_tensor *x = t_mm(t_mH(gq), q);
        m = m ? t_sub(m, x) : t_neg(x);
    }
    m = t_add(td_op_tril(m, 0), t_mH(td_op_tril(m, -1)));
    if (td__is_complex((td_dtype)m->dtype)) m = t_scale(t_add(m, t_mH(m)), 0.5);
    return solve_right(t_mH(r1), t_join(gq, t_mm(q, m)), false);
}

/* in: A, mode. With A = [A1 | A2] and more columns than rows, R2 = Q^H A2. */
bool td__vjp_qr(td_vjp *v) {
    td_tensor *q = v->out[0], *r = v->out[1], *gq = v->g[0], *gr = v->g[1];
    int64_t    m = t_last(q, 2), k = t_last(r, 2), n = t_last(r, 1);
    if (!gq && !gr) return true;
    if (!strcmp(v->in[1].u.s, "r"))
        return td__fail(v->cx, TD_E_GRAD,
                        "linalg_qr: the derivative needs Q, "
                        "which mode \"r\" does not compute; use mode \"reduced\"");
    if (v->in[1].u.s[0] == 'c' && td__dim_lt(n, m))
        return td__fail(v->cx, TD_E_GRAD,
                        "linalg_qr: mode \"complete\" has no "
                        "derivative for more rows than columns; use mode \"reduced\"");
    if (!td__dim_lt(k, n)) return give(v, 0, square_qr(q, r, gq, gr));
    td_tensor *gr1 = gr ? td_op_narrow(gr, -1, 0, k) : NULL, *g2 = NULL;
    int64_t    more = td__dim_sub(n, k);
    if (gr) {
        td_tensor *gr2 = td_op_narrow(gr, -1, k, more);
        td_tensor *a2 = t_mm(q, td_op_narrow(r, -1, k, more));
        gq = t_join(gq, t_mm(a2, t_mH(gr2)));
        g2 = t_mm(q, gr2);
    }
    td_tensor *g1 = square_qr(q, td_op_narrow(r, -1, 0, k), gq, gr1);
    if (!g2) g2 = td_op_zeros_like(td_op_narrow(r, -1, k, more), TD_DTYPE_NONE);
    return give(v, 0, td_op_cat((td_tensors){(td_tensor *[]){g1, g2}, 2}, -1));
}

/* ---- Householder products ----------------------------------------------- */

/* The vectors v_i, with 1 on the diagonal, of the first k columns of a. */
static td_tensor *householder_vectors(td_tensor *a, int64_t k) {
    td_tensor *eye =
        td_op_eye(a->cx, t_last(a, 2), td_value_int(k), (td_dtype)a->dtype);
    return t_add(td_op_tril(td_op_narrow(a, -1, 0, k), -1), eye);
}

/* What passes through the factors H_i = I - tau_i v_i v_i^T, from the outermost in. */
typedef struct reflections {
    td_tensor  *vectors, *tau; /* [.., m, k], [.., k] */
    td_tensor  *x, *g;         /* X_i = H_i X_{i+1}, and its gradient */
    td_tensor **dv, **dtau;    /* [k] */
} reflections;

/* Undoes factor i. H^-1 = I + tau / (1 - tau v^T v) v v^T, also where H is not
 * orthogonal. With a = v^T G and b = v^T X below: dtau = -a b^T,
 * dv = -tau (G b^T + X a^T). */
static bool pass_factor(reflections *r, int64_t i) {
    td_tensor *v = td_op_narrow(r->vectors, -1, i, 1), *vt = t_mT(v);
    td_tensor *tau = t_col(td_op_narrow(r->tau, -1, i, 1));
    td_tensor *free = t_scale(t_mul(tau, t_mm(vt, v)), -1);
    td_tensor *back = t_div(tau, td_op_add(free, td_value_int(1), td_value_int(1)));
    r->x = t_add(r->x, t_mul(back, t_mm(v, t_mm(vt, r->x))));
    td_tensor *a = t_mm(vt, r->g), *b = t_mm(vt, r->x);
    td_tensor *sum = t_add(t_mm(r->g, t_mT(b)), t_mm(r->x, t_mT(a)));
    r->dv[i] = t_neg(t_mul(tau, sum));
    r->dtau[i] = t_neg(td_op_squeeze_dim(t_mm(a, t_mT(b)), -1));
    r->g = t_sub(r->g, t_mul(tau, t_mm(v, a)));
    return !td_is_nil(r->g) && !td_is_nil(r->x);
}

/* Gradients of input a (argument `arg`) and tau (the next one) from r's columns. */
static bool give_reflections(td_vjp *v, int arg, reflections *r, int64_t k, int64_t n) {
    td_tensor *da = k ? td_op_cat((td_tensors){r->dv, (int)k}, -1) : NULL;
    td_tensor *dt = k ? td_op_cat((td_tensors){r->dtau, (int)k}, -1) : NULL;
    if (!k) return true; /* no factor: no gradient */
    da = td_op_tril(da, -1);
    if (!td__dim_eq(n, k))
        da = td_op_constant_pad_nd(da, TD_DIMS(0, td__dim_sub(n, k)), td_value_int(0));
    return (!v->need[arg] || give(v, arg, da)) &&
           (!v->need[arg + 1] || give(v, arg + 1, dt));
}

/* r->x = H_1 .. H_k X, or H_k .. H_1 X if reversed, with gradient r->g and Householder
 * vectors in the columns of `a`: gradients of arguments 0 (a) and 1 (tau). */
static bool grad_of_product(td_vjp *v, td_tensor *a, reflections *r, bool reversed) {
    int64_t k = td__dim_fixed(t_last(r->tau, 1));
    bool    ok = true;
    if (!td_ok(v->cx)) return false; /* the number of factors depends on values */
    r->vectors = householder_vectors(a, k);
    r->dv = td__alloc(sizeof *r->dv * 2 * (size_t)(k + 1));
    if (!r->dv) return td__fail_memory(v->cx);
    r->dtau = r->dv + k;
    for (int64_t i = 0; ok && i < k; i++) ok = pass_factor(r, reversed ? k - 1 - i : i);
    ok = ok && give_reflections(v, 0, r, k, t_last(a, 1));
    td__free(r->dv);
    return ok;
}

/* in: input, tau. X is the identity, which has no gradient. */
bool td__vjp_householder(td_vjp *v) {
    reflections r = {.tau = v->in[1].u.t, .x = v->out[0], .g = v->g[0]};
    return grad_of_product(v, v->in[0].u.t, &r, false);
}

/* in: self, input2 (tau), input3, left, transpose. C Q is (Q^T C^T)^T. */
bool td__vjp_ormqr(td_vjp *v) {
    td_tensor  *a = v->in[0].u.t, *tau = v->in[1].u.t, *c = v->in[2].u.t, *g = v->g[0];
    bool        left = v->in[3].u.i != 0, transpose = v->in[4].u.i != 0;
    reflections r = {.tau = tau};
    if (v->need[2] && !give(v, 2, td_op_ormqr(a, tau, g, left, !transpose)))
        return false;
    if (!v->need[0] && !v->need[1]) return true;
    td_tensor *x = td_op_ormqr(a, tau, c, left, transpose);
    r.x = left ? x : t_mT(x);
    r.g = left ? g : t_mT(g);
    return grad_of_product(v, a, &r, left == transpose);
}

/* ---- eigenvalues and singular values ------------------------------------ */

/* s_j - s_i in row i and column j, inf on the diagonal. */
static td_tensor *gaps(td_tensor *s) {
    td_tensor *e = t_sub(t_row(s), t_col(s)), *n;
    if (td_is_nil(e)) return e;
    n = td_op_eye(e->cx, t_last(e, 1), td_value_int(t_last(e, 1)), TD_BOOL);
    return td_op_masked_fill(e, n, td_value_float((double)INFINITY));
}

static td_tensor *skew(td_tensor *x) { return t_sub(x, t_mH(x)); }

/* A = V diag(w) V^H: G_A = V (diag(G_w) + skew(V^H G_V) / 2 / E) V^H with gaps E. */
bool td__vjp_eigh(td_vjp *v) {
    td_tensor *w = v->out[0], *vec = v->out[1], *gw = v->g[0], *gv = v->g[1], *m = NULL;
    if (!gw && !gv) return true;
    if (v->in[2].u.i == 0)
        return td__fail(v->cx, TD_E_GRAD,
                        "_linalg_eigh: the derivative needs "
                        "eigenvectors; pass compute_v=true");
    if (gv) {
        m = t_scale(skew(t_mm(t_mH(vec), gv)), 0.5);
        m = t_mm(vec, t_div(m, gaps(w)));
    }
    if (gw) m = t_join(m, t_mul(vec, t_row(gw)));
    return give(v, 0, t_mm(m, t_mH(vec)));
}

/* A = V diag(w) V^-1 with columns of V of length 1. With gaps E,
 * G_A = V^-H (diag(G_w) + (V^H G_V - V^H V diag(Re V^H G_V)) / E^*) V^H. */
bool td__vjp_eig(td_vjp *v) {
    td_tensor *w = v->out[0], *vec = v->out[1], *gw = v->g[0], *gv = v->g[1], *m = NULL;
    if (!gw && !gv) return true;
    if (v->in[1].u.i == 0)
        return td__fail(v->cx, TD_E_GRAD,
                        "_linalg_eig: the derivative needs "
                        "eigenvectors; pass compute_v=true");
    td_tensor *vh = t_mH(vec);
    if (gv) {
        m = t_mm(vh, gv);
        td_tensor *own = td_op_real(td_op_diagonal(m, 0, -2, -1));
        m = t_div(t_sub(m, t_mm(vh, t_mul(vec, t_row(own)))), td_op_conj(gaps(w)));
    }
    if (gw) m = t_join(m, td_op_diag_embed(gw, 0, -2, -1));
    return give(v, 0, td_op_linalg_solve(vh, t_mm(m, vh), true));
}

/* The part of gU outside of the span of U, over S: (I - U U^H) G_U / S. */
static td_tensor *outside(td_tensor *u, td_tensor *gu, td_tensor *s) {
    return t_div(t_sub(gu, t_mm(u, t_mm(t_mH(u), gu))), t_row(s));
}

/* The first k singular vectors, where there are more. */
static td_tensor *first(td_tensor *t, int dim, int64_t k, bool full) {
    return t && full ? td_op_narrow(t, dim, 0, k) : t;
}

/* A = U diag(S) Vh: with gaps E of S^2,
 * G_A = U (skew(U^H G_U) / E S + S skew(V^H G_V) / E + diag(G_S)) Vh, and what leaves
 * the spans of U and V. The vectors of a complex A are defined up to common phases of
 * u_i and v_i, so that the diagonals of both skew parts cancel; half of each remains:
 * diag(skew(U^H G_U)) / (2 S). */
bool td__vjp_svd(td_vjp *v) {
    bool       full = v->in[1].u.i != 0;
    td_tensor *s = v->out[1], *gs = v->g[1], *m = NULL;
    int64_t    k = t_last(s, 1);
    if (!v->g[0] && !gs && !v->g[2]) return true;
    if (v->in[2].u.i == 0)
        return td__fail(v->cx, TD_E_GRAD,
                        "_linalg_svd: the derivative needs "
                        "singular vectors; pass compute_uv=true");
    td_tensor *u = first(v->out[0], -1, k, full), *vh = first(v->out[2], -2, k, full);
    td_tensor *gu = first(v->g[0], -1, k, full), *gvh = first(v->g[2], -2, k, full);
    td_tensor *e = gu || gvh ? gaps(t_mul(s, s)) : NULL;
    td_tensor *turn = gu ? skew(t_mm(t_mH(u), gu)) : NULL;
    if (gu) m = t_mul(t_div(turn, e), t_row(s));
    if (gvh) m = t_join(m, t_mul(t_col(s), t_div(skew(t_mm(vh, t_mH(gvh))), e)));
    if (gu && gvh && td__is_complex((td_dtype)u->dtype)) {
        td_tensor *own = td_op_diagonal(turn, 0, -2, -1);
        m = t_join(m, td_op_diag_embed(t_div(own, t_scale(s, 2)), 0, -2, -1));
    }
    td_tensor *x = m ? t_mm(u, m) : NULL;
    if (gs) x = t_join(x, t_mul(u, t_row(gs)));
    if (gu && td__dim_lt(k, t_last(u, 2))) x = t_join(x, outside(u, gu, s));
    x = x ? t_mm(x, vh) : NULL;
    if (gvh && td__dim_lt(k, t_last(vh, 1)))
        x = t_join(x, t_mm(u, t_mH(outside(t_mH(vh), t_mH(gvh), s))));
    return give(v, 0, x);
}
