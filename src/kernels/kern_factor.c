/* kern_factor.c -- kernels of Cholesky, LU, QR and LDL by LAPACK. A result that LAPACK
 * overwrites starts as a column-major copy of the argument. */
#include "kernels/lapack.h"
#include "ops/cast.h"

#include <math.h>
#include <string.h>

/* A stack whose matrices are factored in place. */
typedef struct factoring {
    td_dtype   dt;
    int        m, n;
    int64_t    item; /* bytes of a matrix */
    char      *a;    /* matrix 0; all are dense */
    int32_t   *pivots;
    int32_t   *info;
    char       uplo;
    td_tensor *x, *y; /* other results */
} factoring;

/* Copies argument 0 into result i, and describes it. */
static bool start(td_opcall *c, int i, factoring *f) {
    td_tensor *t = c->out[i];
    if (!td__fits_lapack(c, t) || !td__copy_into(t, td__in(c, 0))) return false;
    f->dt = (td_dtype)t->dtype;
    f->m = (int)t->size[t->rank - 2];
    f->n = (int)t->size[t->rank - 1];
    f->item = (int64_t)f->m * f->n * td__dtype_bytes[f->dt];
    f->a = td__ptr(t);
    return true;
}

/* LAPACK's leading dimension is never 0. */
static int lead(int rows) { return rows > 0 ? rows : 1; }

/* Matrices times their sizes: an estimate for how to split the stack. */
static double cube(const factoring *f) { return (double)f->m * f->n * f->n; }

/* ---- Cholesky ----------------------------------------------------------- */

/* Sets the triangle that potrf leaves alone to 0. */
static void clear_triangle(const factoring *f, char *a) {
    size_t size = td__dtype_bytes[f->dt];
    for (int k = 0; k < f->n; k++) {
        char *col = a + (size_t)k * (size_t)f->n * size;
        if (f->uplo == 'L') memset(col, 0, (size_t)k * size);
        else memset(col + (size_t)(k + 1) * size, 0, (size_t)(f->n - k - 1) * size);
    }
}

static bool cholesky_one(void *job, int64_t i) {
    factoring *f = job;
    char      *a = f->a + i * f->item;
    int        ld = lead(f->n);
    TD_LAPACK_ALL(f->dt, potrf, &f->uplo, &f->n, a, &ld, &f->info[i], 1);
    clear_triangle(f, a);
    return true;
}

/* in: self, upper, check_errors; out: L, info. */
bool td__kern_cholesky_ex(td_opcall *c) {
    factoring f = {.uplo = td__in_bool(c, 1) ? 'U' : 'L'};
    int64_t   count = td__stack_count(c->out[0]);
    if (!start(c, 0, &f)) return false;
    f.info = (int32_t *)(void *)td__ptr(c->out[1]);
    if (!td__each_matrix(c, count, cube(&f), cholesky_one, &f)) return false;
    return !td__in_bool(c, 2) ||
           td__check_infos(c, f.info, count,
                           "not positive-definite; the first leading minor that is "
                           "not positive has order");
}

/* ---- LU ----------------------------------------------------------------- */

static void lu_item(const factoring *f, char *a, int32_t *pivots, int32_t *info) {
    int ld = lead(f->m);
    TD_LAPACK_ALL(f->dt, getrf, &f->m, &f->n, a, &ld, pivots, info);
}

static bool lu_one(void *job, int64_t i) {
    factoring *f = job;
    int        k = f->m < f->n ? f->m : f->n;
    lu_item(f, f->a + i * f->item, f->pivots + i * k, &f->info[i]);
    return true;
}

/* in: A, pivot, check_errors; out: LU, pivots, info. */
bool td__kern_lu_factor_ex(td_opcall *c) {
    factoring f = {0};
    int64_t   count = td__stack_count(c->out[0]);
    if (!start(c, 0, &f)) return false;
    f.pivots = (int32_t *)(void *)td__ptr(c->out[1]);
    f.info = (int32_t *)(void *)td__ptr(c->out[2]);
    return td__each_matrix(c, count, cube(&f), lu_one, &f) &&
           (!td__in_bool(c, 2) ||
            td__check_infos(
                c, f.info, count,
                "U is singular; the first zero of its diagonal is element"));
}

/* A number, with im = 0 of real dtypes. */
typedef struct number {
    double re, im;
} number;

static number times(number a, number b) {
    return (number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* z / |z|; 0 and NaN stay. */
static number direction(number z) {
    if (z.im == 0) return (number){z.re > 0 ? 1 : z.re < 0 ? -1 : z.re, 0};
    double size = hypot(z.re, z.im);
    return (number){z.re / size, z.im / size};
}

/* Diagonal element k of an item. */
static number diagonal(const factoring *f, const char *a, int k) {
    td_dtype    part = td__real_of(f->dt);
    const char *at = a + ((int64_t)k * f->n + k) * td__dtype_bytes[f->dt];
    number      z = {td__load_f(part, at), 0};
    if (f->dt != part) z.im = td__load_f(part, at + td__dtype_bytes[part]);
    return z;
}

/* Element i of a result. */
static void put(const td_tensor *t, int64_t i, number z) {
    td_dtype dt = (td_dtype)t->dtype, part = td__real_of(dt);
    char    *at = td__ptr(t) + i * td__dtype_bytes[dt];
    td__store_f(part, at, z.re);
    if (dt != part) td__store_f(part, at + td__dtype_bytes[part], z.im);
}

/* Factors item i; writes its determinant to x, or its direction, the sign of a real
 * one, to x and the log of its magnitude to y. */
static bool det_one(void *job, int64_t i) {
    factoring *f = job;
    char      *a = f->a + i * f->item;
    int32_t   *p = f->pivots + i * f->n, info;
    number     det = {1, 0}, sign = {1, 0}, log_det = {0, 0};
    lu_item(f, a, p, &info);
    for (int k = 0; k < f->n; k++) {
        number d = diagonal(f, a, k), way = {p[k] == k + 1 ? 1 : -1, 0};
        det = times(det, times(d, way));
        sign = times(sign, times(direction(d), way));
        log_det.re += log(d.im == 0 ? fabs(d.re) : hypot(d.re, d.im));
    }
    put(f->x, i, f->y ? sign : det);
    if (f->y) put(f->y, i, log_det);
    return true;
}

/* in: A; out: det, LU, pivots. */
bool td__kern_det(td_opcall *c) {
    factoring f = {.x = c->out[0]};
    if (!start(c, 1, &f)) return false;
    f.pivots = (int32_t *)(void *)td__ptr(c->out[2]);
    return td__each_matrix(c, td__stack_count(c->out[1]), cube(&f), det_one, &f);
}

/* in: A; out: sign, log |det|, LU, pivots. */
bool td__kern_slogdet(td_opcall *c) {
    factoring f = {.x = c->out[0], .y = c->out[1]};
    if (!start(c, 2, &f)) return false;
    f.pivots = (int32_t *)(void *)td__ptr(c->out[3]);
    return td__each_matrix(c, td__stack_count(c->out[2]), cube(&f), det_one, &f);
}

/* in: pivots, rows; out: the permutation. Applies the exchanges to 0, 1, 2.. */
bool td__kern_lu_permutation(td_opcall *c) {
    td_tensor *own, *p = td__dense_of(c, td__in(c, 0), &own);
    int64_t    k, m = td__in_int(c, 1), count = m ? c->out[0]->numel / m : 0;
    bool       ok = p != NULL;
    if (!ok) return false;
    k = p->size[p->rank - 1];
    const int32_t *from = (const int32_t *)(const void *)td__ptr(p);
    int64_t       *to = (int64_t *)(void *)td__ptr(c->out[0]);
    for (int64_t i = 0; ok && i < count; i++, from += k, to += m) {
        for (int64_t r = 0; r < m; r++) to[r] = r;
        for (int64_t r = 0; ok && r < k; r++) {
            if (from[r] < 1 || from[r] > m) {
                ok =
                    td__op_fail(c, TD_E_INDEX,
                                "pivot %lld is %d; pivots of %lld rows "
                                "are 1 to %lld",
                                (long long)r, (int)from[r], (long long)m, (long long)m);
                break;
            }
            int64_t t = to[r];
            to[r] = to[from[r] - 1];
            to[from[r] - 1] = t;
        }
    }
    if (own) td_drop(own);
    return ok;
}

/* ---- inverse ------------------------------------------------------------ */

static bool inv_one(void *job, int64_t i) {
    factoring *f = job;
    char      *a = f->a + i * f->item;
    double     few[2] = {0}; /* the answer of a query */
    int        ld = lead(f->n), query = -1, lwork, info;
    size_t     bytes;
    TD_LAPACK_ALL(f->dt, getri, &f->n, a, &ld, NULL, few, &query, &info);
    lwork = td__lapack_work(f->dt, few);
    char *work = td__lapack_block(f->dt, lwork, f->n, &bytes);
    if (!work) return false;
    int32_t *pivots =
        (int32_t *)(void *)(work + (size_t)(lwork + 1) * td__dtype_bytes[f->dt]);
    lu_item(f, a, pivots, &f->info[i]);
    if (f->info[i] == 0)
        TD_LAPACK_ALL(f->dt, getri, &f->n, a, &ld, pivots, work, &lwork, &f->info[i]);
    td__block_free(work, bytes);
    return true;
}

/* in: A, check_errors; out: inverse, info. */
bool td__kern_inv_ex(td_opcall *c) {
    factoring f = {0};
    int64_t   count = td__stack_count(c->out[0]);
    if (!start(c, 0, &f)) return false;
    f.info = (int32_t *)(void *)td__ptr(c->out[1]);
    return td__each_matrix(c, count, cube(&f), inv_one, &f) &&
           (!td__in_bool(c, 1) ||
            td__check_infos(
                c, f.info, count,
                "singular, it has no inverse; the first zero on the diagonal of its "
                "LU factors is element"));
}

/* ---- LDL ---------------------------------------------------------------- */

static bool ldl_one(void *job, int64_t i) {
    factoring *f = job;
    char      *a = f->a + i * f->item;
    double     few = 0; /* the answer of a query */
    int        ld = lead(f->n), query = -1, lwork;
    size_t     bytes;
    TD_LAPACK(f->dt, sytrf, "L", &f->n, a, &ld, NULL, &few, &query, &f->info[i], 1);
    lwork = td__lapack_work(f->dt, &few);
    void *work = td__lapack_block(f->dt, lwork, 0, &bytes);
    if (!work) return false;
    TD_LAPACK(f->dt, sytrf, "L", &f->n, a, &ld, f->pivots + i * f->n, work, &lwork,
              &f->info[i], 1);
    clear_triangle(f, a);
    td__block_free(work, bytes);
    return true;
}

/* in: self, hermitian, check_errors; out: LD, pivots, info. The upper triangle, which
 * sytrf leaves alone, becomes 0. */
bool td__kern_ldl_factor_ex(td_opcall *c) {
    factoring f = {.uplo = 'L'};
    int64_t   count = td__stack_count(c->out[0]);
    if (!start(c, 0, &f)) return false;
    f.pivots = (int32_t *)(void *)td__ptr(c->out[1]);
    f.info = (int32_t *)(void *)td__ptr(c->out[2]);
    if (!td__each_matrix(c, count, cube(&f), ldl_one, &f)) return false;
    return !td__in_bool(c, 2) ||
           td__check_infos(c, f.info, count,
                           "singular; the first zero on the diagonal of D is element");
}
