/* kern_solve.c -- kernels of linear systems, given a matrix or its factors. Right-hand
 * sides start in the result and are overwritten there. */
#include "kernels/lapack.h"
#include "ops/cast.h"
#include "rules/geom.h"
#include "rules/shape_rules.h"

#include <cblas.h>
#include <string.h>

/* Systems with the square matrices of `a` and the right-hand sides in `x`. */
typedef struct solving {
    td_dtype         dt;
    int              n, k;      /* of a: n x n; columns of a right-hand side */
    const td_tensor *a, *p, *x; /* factors, pivots, solutions */
    int64_t          item;      /* bytes of a solution, which are dense */
    const char      *trans;
    bool             upper, left, unit;
    bool             conj; /* of the conjugate right-hand sides, conjugated */
    int32_t         *info; /* of solve_ex, by matrix of a */
} solving;

static int lead(int rows) { return rows > 0 ? rows : 1; }

/* Sizes of the systems of out, whose last dims are n x k, or k x n if not left. */
static void open_systems(solving *s, const td_tensor *a, const td_tensor *out,
                         bool left) {
    s->dt = (td_dtype)out->dtype;
    s->a = a;
    s->x = out;
    s->left = left;
    s->n = (int)a->size[a->rank - 1];
    s->k = (int)out->size[out->rank - (left ? 1 : 2)];
    s->item = (int64_t)s->n * s->k * td__dtype_bytes[s->dt];
}

static double work_of(const solving *s) { return (double)s->n * s->n * s->k; }

/* ---- triangular --------------------------------------------------------- */

/* A matrix as BLAS takes it: row-major is the transpose of column-major. */
typedef struct operand {
    const char *p;
    int         ld;
    bool        transposed;
} operand;

/* Item i of t for the solution i of `of`; false: neither order of it is dense. */
static bool open_operand(const td_tensor *t, const td_tensor *of, int64_t i,
                         operand *o) {
    int64_t row = t->stride[t->rank - 2], col = t->stride[t->rank - 1];
    int64_t n = t->size[t->rank - 1];
    o->p = td__stack_at(t, 2, of, i);
    o->transposed = !((row == 1 || n < 2) && col >= n);
    int64_t ld = o->transposed ? row : col;
    if (o->transposed && !((col == 1 || n < 2) && row >= n)) return false;
    o->ld = ld < 1 ? 1 : (int)ld;
    return n < 2 || ld == o->ld;
}

static bool triangular_one(void *job, int64_t i) {
    const solving       *s = job;
    operand              a;
    bool                 dense = open_operand(s->a, s->x, i, &a);
    bool                 upper = s->upper != a.transposed;
    enum CBLAS_TRANSPOSE trans = a.transposed ? CblasTrans : CblasNoTrans;
    enum CBLAS_SIDE      side = s->left ? CblasLeft : CblasRight;
    enum CBLAS_UPLO      uplo = upper ? CblasUpper : CblasLower;
    enum CBLAS_DIAG      diag = s->unit ? CblasUnit : CblasNonUnit;
    int                  m = s->left ? s->n : s->k, n = s->left ? s->k : s->n;
    void                *x = td__ptr(s->x) + i * s->item;
    const void          *p = a.p;
    const float          one32[] = {1, 0};
    const double         one[] = {1, 0};
    TD_ASSERT(dense);
    (void)dense;
    if (s->dt == TD_C128)
        cblas_ztrsm(CblasColMajor, side, uplo, trans, diag, m, n, one, p, a.ld, x,
                    lead(m));
    else if (s->dt == TD_C64)
        cblas_ctrsm(CblasColMajor, side, uplo, trans, diag, m, n, one32, p, a.ld, x,
                    lead(m));
    else if (s->dt == TD_F64)
        cblas_dtrsm(CblasColMajor, side, uplo, trans, diag, m, n, 1, p, a.ld, x,
                    lead(m));
    else
        cblas_strsm(CblasColMajor, side, uplo, trans, diag, m, n, 1, p, a.ld, x,
                    lead(m));
    return true;
}

/* in: self, B, upper, left, unitriangular. */
bool td__kern_solve_triangular(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *out = c->out[0], *own = NULL;
    solving    s = {.upper = td__in_bool(c, 2), .unit = td__in_bool(c, 4)};
    operand    o;
    if (!td__fits_lapack(c, out) || !td__copy_into(out, td__in(c, 1))) return false;
    if (out->numel == 0) return true;
    if (!open_operand(a, out, 0, &o)) a = own = td__columns_copy(c, a);
    if (!a) return false;
    open_systems(&s, a, out, td__in_bool(c, 3));
    bool ok = td__each_matrix(c, td__stack_count(out), work_of(&s), triangular_one, &s);
    if (own) td_drop(own);
    return ok;
}

/* ---- by LU and LDL factors ---------------------------------------------- */

/* Conjugates solution i. */
static void conjugate(const solving *s, int64_t i) {
    td_dtype part = td__real_of(s->dt);
    size_t   bytes = (size_t)td__dtype_bytes[part];
    char    *x = td__ptr(s->x) + i * s->item + bytes;
    for (int64_t k = 0; k < (int64_t)s->n * s->k; k++, x += 2 * bytes)
        td__store_f(part, x, -td__load_f(part, x));
}

/* Solutions of X A = B are the transposes of those of A^T X^T = B^T, and those of
 * X A^H = B of conj(A) X^T = B^T. */
static bool lu_solve_one(void *job, int64_t i) {
    const solving *s = job;
    int            ld = lead(s->n), info;
    if (s->conj) conjugate(s, i);
    TD_LAPACK_ALL(s->dt, getrs, s->trans, &s->n, &s->k, td__stack_at(s->a, 2, s->x, i),
                  &ld, (const int *)(const void *)td__stack_at(s->p, 1, s->x, i),
                  td__ptr(s->x) + i * s->item, &ld, &info, 1);
    if (s->conj) conjugate(s, i);
    return true;
}

static bool ldl_solve_one(void *job, int64_t i) {
    const solving *s = job;
    int            ld = lead(s->n), info;
    TD_LAPACK(s->dt, sytrs, "L", &s->n, &s->k, td__stack_at(s->a, 2, s->x, i), &ld,
              (const int *)(const void *)td__stack_at(s->p, 1, s->x, i),
              td__ptr(s->x) + i * s->item, &ld, &info, 1);
    return true;
}

/* Pivots that LAPACK may use as indices; LDL has negative ones for blocks. */
static bool check_pivots(td_opcall *c, const td_tensor *p, int n, bool ldl) {
    const int32_t *v = (const int32_t *)(const void *)td__ptr(p);
    for (int64_t i = 0; i < p->numel; i++) {
        int64_t at = ldl && v[i] < 0 ? -(int64_t)v[i] : v[i];
        if (at >= 1 && at <= n) continue;
        return td__op_fail(c, TD_E_INDEX,
                           "pivot %lld is %d; pivots of matrices with %d "
                           "rows are %s to %d",
                           (long long)i, (int)v[i], n,
                           ldl ? "1 (or, of blocks, -1)" : "1", n);
    }
    return true;
}

/* in: factors, pivots, B: solves with fn. */
static bool solve_by_factors(td_opcall *c, solving *s, bool left, td_matrix_fn *fn) {
    td_tensor *out = c->out[0], *own_a, *own_p = NULL;
    td_tensor *a = td__columns_of(c, td__in(c, 0), &own_a);
    td_tensor *p = a ? td__dense_of(c, td__in(c, 1), &own_p) : NULL;
    bool       ok = p && td__fits_lapack(c, out) && td__fits_lapack(c, a) &&
              check_pivots(c, p, (int)a->size[a->rank - 1], fn == ldl_solve_one) &&
              td__copy_into(out, td__in(c, 2));
    if (ok && out->numel) {
        open_systems(s, a, out, left);
        s->p = p;
        ok = td__each_matrix(c, td__stack_count(out), work_of(s), fn, s);
    }
    if (own_a) td_drop(own_a);
    if (own_p) td_drop(own_p);
    return ok;
}

/* in: LU, pivots, B, left, adjoint. */
bool td__kern_lu_solve(td_opcall *c) {
    bool    left = td__in_bool(c, 3), adjoint = td__in_bool(c, 4);
    solving s = {.trans = !left == !adjoint ? (left ? "C" : "T") : "N"};
    s.conj = !left && adjoint && td__is_complex((td_dtype)c->out[0]->dtype);
    return solve_by_factors(c, &s, left, lu_solve_one);
}

/* in: LD, pivots, B, hermitian. */
bool td__kern_ldl_solve(td_opcall *c) {
    solving s = {0};
    return solve_by_factors(c, &s, true, ldl_solve_one);
}

/* ---- solve_ex ----------------------------------------------------------- */

static bool factor_one(void *job, int64_t i) {
    solving *s = job;
    int      ld = lead(s->n);
    int64_t  item = (int64_t)s->n * s->n * td__dtype_bytes[s->dt];
    int32_t *pivots = (int32_t *)(void *)td__ptr(s->p) + i * s->n;
    TD_LAPACK_ALL(s->dt, getrf, &s->n, &s->n, td__ptr(s->a) + i * item, &ld, pivots,
                  &s->info[i]);
    return true;
}

/* Solves for right-hand sides B, argument 1, in x, which is dense in the order of
 * solutions. */
static bool solve_into(td_opcall *c, solving *s, td_tensor *x, bool left) {
    td_tensor *lu = c->out[1];
    open_systems(s, lu, x, left);
    if (!td__copy_into(lu, td__in(c, 0)) ||
        !td__each_matrix(c, td__stack_count(lu), (double)s->n * s->n * s->n, factor_one,
                         s))
        return false;
    if (td__in_bool(c, 3) &&
        !td__check_infos(c, s->info, td__stack_count(lu),
                         "singular; the first zero on the diagonal "
                         "of its LU factors is element"))
        return false;
    return x->numel == 0 ||
           td__each_matrix(c, td__stack_count(x), work_of(s), lu_solve_one, s);
}

/* Vectors, whose result has ATen's strides, are solved in a stack of columns. */
static bool solve_vectors(td_opcall *c, solving *s) {
    td_tensor *out = c->out[0], *b = td__in(c, 1);
    td_meta    m, as_column;
    td_window  w;
    td__tensor_meta(out, &m);
    m.size[m.rank++] = 1;
    td__meta_dense(&m, m.dtype, m.rank, m.size);
    td_tensor *x = td__tensor_make(c->cx, &m, false);
    if (!x || td_is_nil(x)) return false;
    td__tensor_meta(x, &as_column);
    as_column.rank--;
    td_tensor *flat = td__window(&w, x, &as_column);
    bool       ok =
        td__copy_into(flat, b) && solve_into(c, s, x, true) && td__copy_into(out, flat);
    td_drop(x);
    return ok;
}

/* in: A, B, left, check_errors; out: X, LU, pivots, info. */
bool td__kern_solve_ex(td_opcall *c) {
    const td_tensor *b = td__in(c, 1);
    bool             left = td__in_bool(c, 2);
    bool             vector = c->out[0]->rank < c->out[1]->rank;
    solving          s = {.trans = left ? "N" : "T", .p = c->out[2]};
    s.info = (int32_t *)(void *)td__ptr(c->out[3]);
    if (!td__fits_lapack(c, c->out[1])) return false;
    if (vector) return solve_vectors(c, &s);
    return td__fits_lapack(c, c->out[0]) && td__copy_into(c->out[0], b) &&
           solve_into(c, &s, c->out[0], left);
}
