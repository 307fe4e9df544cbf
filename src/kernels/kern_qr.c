/* kern_qr.c -- kernels of QR, Householder products, eigenvalues of symmetric matrices
 * and singular values by LAPACK. */
#include "kernels/lapack.h"
#include "ops/cast.h"

#include <math.h>
#include <string.h>

/* A stack of m x n matrices in `a` and up to three results per matrix; `cols` are those
 * of the first. */
typedef struct decomposing {
    td_dtype    dt;
    int         m, n, k, cols;
    char       *a; /* column-major, dense, overwritten */
    char       *x, *y, *z;
    int64_t     x_item, y_item, z_item; /* bytes of one matrix */
    int32_t    *info;
    const char *job, *uplo;
    bool        left, transpose;
} decomposing;

static int     lead(int rows) { return rows > 0 ? rows : 1; }
static int     least(int a, int b) { return a < b ? a : b; }
static double  cube(const decomposing *d) { return (double)d->m * d->n * d->n * 4; }
static int64_t bytes_of(const decomposing *d, int64_t rows, int64_t cols) {
    return rows * cols * td__dtype_bytes[d->dt];
}

/* The sizes of t's matrices. */
static bool open_stack(td_opcall *c, decomposing *d, const td_tensor *t) {
    if (!td__fits_lapack(c, t)) return false;
    d->dt = (td_dtype)t->dtype;
    d->m = (int)t->size[t->rank - 2];
    d->n = (int)t->size[t->rank - 1];
    return true;
}

/* ---- QR ----------------------------------------------------------------- */

/* Factors `a` in place with factors tau. False: no memory. */
static bool factor_qr(const decomposing *d, char *a, char *tau) {
    int    ld = lead(d->m), query = -1, info, lwork;
    double few[2] = {0}; /* the answer of a query */
    size_t bytes;
    TD_LAPACK_ALL(d->dt, geqrf, &d->m, &d->n, a, &ld, tau, few, &query, &info);
    lwork = td__lapack_work(d->dt, few);
    void *work = td__lapack_block(d->dt, lwork, 0, &bytes);
    if (!work) return false;
    TD_LAPACK_ALL(d->dt, geqrf, &d->m, &d->n, a, &ld, tau, work, &lwork, &info);
    td__block_free(work, bytes);
    return true;
}

/* The first `cols` columns of the product of k Householder matrices, over their vectors
 * in q, by orgqr, or ungqr of complex dtypes. False: no memory. */
static bool form_q(const decomposing *d, char *q, int cols, int k, const char *tau) {
    int    ld = lead(d->m), info, lwork = -1;
    double few[2] = {0}; /* the answer of a query */
    void  *work = few;
    size_t bytes = 0;
    for (bool query = true;; query = false) {
        if (td__is_complex(d->dt))
            TD_LAPACK_COMPLEX(d->dt, ungqr, &d->m, &cols, &k, q, &ld, tau, work, &lwork,
                              &info);
        else
            TD_LAPACK(d->dt, orgqr, &d->m, &cols, &k, q, &ld, tau, work, &lwork, &info);
        if (!query) break;
        lwork = td__lapack_work(d->dt, few);
        if (!(work = td__lapack_block(d->dt, lwork, 0, &bytes))) return false;
    }
    td__block_free(work, bytes);
    return true;
}

/* The upper triangle of `a` as `rows` rows, zeros below. */
static void copy_r(const decomposing *d, const char *a, char *r, int rows) {
    int64_t size = td__dtype_bytes[d->dt];
    for (int64_t k = 0; k < d->n; k++) {
        int64_t above = k + 1 < rows ? k + 1 : rows;
        if (above > d->m) above = d->m;
        if (above > 0)
            memcpy(r + k * rows * size, a + k * d->m * size, (size_t)(above * size));
        if (rows > above)
            memset(r + (k * rows + above) * size, 0, (size_t)((rows - above) * size));
    }
}

/* x is Q with `cols` columns, or none; y is R, with rows to match. */
static bool qr_one(void *job, int64_t i) {
    decomposing *d = job;
    char        *a = d->a + i * bytes_of(d, d->m, d->n), *q = d->x + i * d->x_item;
    int          k = least(d->m, d->n);
    size_t       bytes;
    char        *tau = td__lapack_block(d->dt, k, 0, &bytes);
    bool         ok = tau && factor_qr(d, a, tau);
    if (ok) copy_r(d, a, d->y + i * d->y_item, d->cols);
    if (ok && d->x) {
        if (k > 0) memcpy(q, a, (size_t)bytes_of(d, d->m, least(d->cols, d->n)));
        ok = form_q(d, q, d->cols, k, tau);
    }
    if (tau) td__block_free(tau, bytes);
    return ok;
}

/* in: A, mode; out: Q, R. */
bool td__kern_qr(td_opcall *c) {
    td_tensor  *q = c->out[0], *r = c->out[1];
    decomposing d = {0};
    if (!open_stack(c, &d, td__in(c, 0))) return false;
    d.cols = (int)r->size[r->rank - 2];
    d.x = strcmp(c->in[1].u.s, "r") ? td__ptr(q) : NULL;
    d.y = td__ptr(r);
    d.x_item = bytes_of(&d, d.m, d.cols);
    d.y_item = bytes_of(&d, d.cols, d.n);
    td_tensor *a = td__columns_copy(c, td__in(c, 0));
    if (!a) return false;
    d.a = td__ptr(a);
    bool ok = td__each_matrix(c, td__stack_count(a), cube(&d), qr_one, &d);
    td_drop(a);
    return ok;
}

static bool geqrf_one(void *job, int64_t i) {
    decomposing *d = job;
    return factor_qr(d, d->a + i * bytes_of(d, d->m, d->n), d->x + i * d->x_item);
}

/* in: self; out: a, tau. */
bool td__kern_geqrf(td_opcall *c) {
    decomposing d = {.a = td__ptr(c->out[0]), .x = td__ptr(c->out[1])};
    if (!open_stack(c, &d, c->out[0]) || !td__copy_into(c->out[0], td__in(c, 0)))
        return false;
    d.x_item = bytes_of(&d, 1, least(d.m, d.n));
    return td__each_matrix(c, td__stack_count(c->out[0]), cube(&d), geqrf_one, &d);
}

static bool householder_one(void *job, int64_t i) {
    decomposing *d = job;
    return form_q(d, d->a + i * bytes_of(d, d->m, d->n), d->n, d->k,
                  d->x + i * d->x_item);
}

/* in: input, tau. */
bool td__kern_householder(td_opcall *c) {
    decomposing d = {.a = td__ptr(c->out[0])};
    td_tensor  *own, *tau = td__dense_of(c, td__in(c, 1), &own);
    bool        ok =
        tau && open_stack(c, &d, c->out[0]) && td__copy_into(c->out[0], td__in(c, 0));
    if (ok) {
        d.k = (int)tau->size[tau->rank - 1];
        d.x = td__ptr(tau);
        d.x_item = bytes_of(&d, 1, d.k);
        ok = td__each_matrix(c, td__stack_count(c->out[0]), cube(&d), householder_one,
                             &d);
    }
    if (own) td_drop(own);
    return ok;
}

/* `a` holds Householder vectors in d->cols columns of d->m or d->n rows. */
static bool ormqr_one(void *job, int64_t i) {
    decomposing *d = job;
    int          rows = d->left ? d->m : d->n, ld = lead(rows), ldc = lead(d->m);
    int          query = -1, info, lwork;
    char        *a = d->a + i * bytes_of(d, rows, d->cols), *x = d->x + i * d->x_item;
    char        *tau = d->y + i * d->y_item;
    double       few = 0; /* the answer of a query */
    const char  *side = d->left ? "L" : "R", *trans = d->transpose ? "T" : "N";
    size_t       bytes;
    TD_LAPACK(d->dt, ormqr, side, trans, &d->m, &d->n, &d->k, a, &ld, tau, x, &ldc,
              &few, &query, &info, 1, 1);
    lwork = td__lapack_work(d->dt, &few);
    void *work = td__lapack_block(d->dt, lwork, 0, &bytes);
    if (!work) return false;
    TD_LAPACK(d->dt, ormqr, side, trans, &d->m, &d->n, &d->k, a, &ld, tau, x, &ldc,
              work, &lwork, &info, 1, 1);
    td__block_free(work, bytes);
    return true;
}

/* in: self, input2 (tau), input3, left, transpose. LAPACK changes the vectors while it
 * runs: it gets a copy. */
bool td__kern_ormqr(td_opcall *c) {
    td_tensor  *own, *tau = td__dense_of(c, td__in(c, 1), &own);
    td_tensor  *a = td__columns_copy(c, td__in(c, 0));
    decomposing d = {.left = td__in_bool(c, 3), .transpose = td__in_bool(c, 4)};
    bool ok = tau && a && open_stack(c, &d, c->out[0]) && td__fits_lapack(c, a) &&
              td__copy_into(c->out[0], td__in(c, 2));
    if (ok && c->out[0]->numel) {
        d.cols = (int)a->size[a->rank - 1];
        d.k = (int)tau->size[tau->rank - 1];
        d.a = td__ptr(a);
        d.x = td__ptr(c->out[0]);
        d.y = td__ptr(tau);
        d.x_item = bytes_of(&d, d.m, d.n);
        d.y_item = bytes_of(&d, 1, d.k);
        ok = td__each_matrix(c, td__stack_count(a), cube(&d), ormqr_one, &d);
    }
    if (own) td_drop(own);
    if (a) td_drop(a);
    return ok;
}

/* ---- eigenvalues -------------------------------------------------------- */

static bool eigh_one(void *job, int64_t i) {
    decomposing *d = job;
    char        *a = d->a + i * bytes_of(d, d->n, d->n), *w = d->x + i * d->x_item;
    double       few = 0; /* the answer of a query */
    int          ld = lead(d->n), query = -1, lwork, liwork;
    size_t       bytes;
    TD_LAPACK(d->dt, syevd, d->job, d->uplo, &d->n, a, &ld, w, &few, &query, &liwork,
              &query, &d->info[i], 1, 1);
    lwork = td__lapack_work(d->dt, &few);
    char *work = td__lapack_block(d->dt, lwork, liwork, &bytes);
    if (!work) return false;
    int *iwork = (int *)(void *)(work + bytes - (size_t)(liwork + 1) * 8);
    TD_LAPACK(d->dt, syevd, d->job, d->uplo, &d->n, a, &ld, w, work, &lwork, iwork,
              &liwork, &d->info[i], 1, 1);
    td__block_free(work, bytes);
    return true;
}

/* The same of Hermitian matrices; a block for complex numbers, one for real ones and
 * integers. */
static bool eigh_complex(void *job, int64_t i) {
    decomposing *d = job;
    td_dtype     part = td__real_of(d->dt);
    char        *a = d->a + i * bytes_of(d, d->n, d->n), *w = d->x + i * d->x_item;
    double       few[2] = {0}, fewer = 0; /* the answers of a query */
    int          ld = lead(d->n), query = -1, lwork, lrwork, liwork;
    size_t       bytes, real_bytes;
    TD_LAPACK_COMPLEX(d->dt, heevd, d->job, d->uplo, &d->n, a, &ld, w, few, &query,
                      &fewer, &query, &liwork, &query, &d->info[i], 1, 1);
    lwork = td__lapack_work(d->dt, few);
    lrwork = td__lapack_work(part, &fewer);
    char *work = td__lapack_block(d->dt, lwork, 0, &bytes);
    char *rwork = td__lapack_block(part, lrwork, liwork, &real_bytes);
    if (work && rwork) {
        int *iwork = (int *)(void *)(rwork + real_bytes - (size_t)(liwork + 1) * 8);
        TD_LAPACK_COMPLEX(d->dt, heevd, d->job, d->uplo, &d->n, a, &ld, w, work, &lwork,
                          rwork, &lrwork, iwork, &liwork, &d->info[i], 1, 1);
    }
    bool ok = work && rwork;
    if (work) td__block_free(work, bytes);
    if (rwork) td__block_free(rwork, real_bytes);
    return ok;
}

/* Runs `fn` with a list for infos, and fails where it did not converge. */
static bool run_checked(td_opcall *c, decomposing *d, int64_t count, td_matrix_fn *fn) {
    size_t bytes = (size_t)(count + 1) * sizeof(int32_t);
    bool   ok;
    if (!(d->info = td__block_alloc(bytes))) return td__fail_memory(c->cx);
    memset(d->info, 0, bytes);
    ok = td__each_matrix(c, count, cube(d), fn, d) &&
         td__check_infos(c, d->info, count,
                         "the algorithm did not converge; is an element not finite? "
                         "LAPACK info");
    td__block_free(d->info, bytes);
    return ok;
}

/* Is every element of an m x n matrix finite? */
static bool is_finite(const decomposing *d, const char *a) {
    td_dtype part = td__real_of(d->dt);
    int64_t  size = td__dtype_bytes[part];
    int64_t  n = (int64_t)d->m * d->n * (part == d->dt ? 1 : 2);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(td__load_f(part, a + i * size))) return false;
    return true;
}

/* in: A, UPLO, compute_v; out: eigenvalues, eigenvectors. */
bool td__kern_eigh(td_opcall *c) {
    bool        vectors = td__in_bool(c, 2);
    decomposing d = {.job = vectors ? "V" : "N", .uplo = c->in[1].u.s};
    td_tensor  *a = vectors ? c->out[1] : td__columns_copy(c, td__in(c, 0));
    bool ok = a && (!vectors || td__copy_into(a, td__in(c, 0))) && open_stack(c, &d, a);
    if (ok) {
        d.a = td__ptr(a);
        d.x = td__ptr(c->out[0]);
        d.x_item = (int64_t)d.n * td__dtype_bytes[td__real_of(d.dt)];
        ok = run_checked(c, &d, td__stack_count(a),
                         td__is_complex(d.dt) ? eigh_complex : eigh_one);
    }
    if (a && !vectors) td_drop(a);
    return ok;
}

/* ---- singular values ---------------------------------------------------- */

/* Of a matrix without elements: unit vectors. */
static void unit_matrix(const decomposing *d, char *x, int n) {
    int64_t  size = td__dtype_bytes[d->dt];
    td_dtype part = td__real_of(d->dt);
    if (n > 0) memset(x, 0, (size_t)((int64_t)n * n * size));
    for (int64_t k = 0; k < n; k++) td__store_f(part, x + k * (n + 1) * size, 1);
}

/* gesdd of a complex matrix, with its own work of real numbers. False: no memory. */
static bool svd_complex(const decomposing *d, char *a, char *s, char *u, char *vt,
                        int64_t i) {
    int64_t k = least(d->m, d->n), most = d->m > d->n ? d->m : d->n;
    int     ld = lead(d->m), ldvt = lead(*d->job == 'A' ? d->n : (int)k);
    int     query = -1, lwork;
    double  few[2] = {0}; /* the answer of a query */
    int64_t reals = *d->job == 'N' ? 7 * k : k * (5 * k + 7 + 2 * (most + k));
    size_t  bytes, real_bytes;
    TD_LAPACK_COMPLEX(d->dt, gesdd, d->job, &d->m, &d->n, a, &ld, s, u, &ld, vt, &ldvt,
                      few, &query, NULL, NULL, &d->info[i], 1);
    lwork = td__lapack_work(d->dt, few);
    char *work = td__lapack_block(d->dt, lwork, 0, &bytes);
    char *rwork = td__lapack_block(td__real_of(d->dt), reals, 8 * k, &real_bytes);
    if (work && rwork) {
        int *iwork = (int *)(void *)(rwork + real_bytes - (size_t)(8 * k + 1) * 8);
        TD_LAPACK_COMPLEX(d->dt, gesdd, d->job, &d->m, &d->n, a, &ld, s, u, &ld, vt,
                          &ldvt, work, &lwork, rwork, iwork, &d->info[i], 1);
    }
    bool ok = work && rwork;
    if (work) td__block_free(work, bytes);
    if (rwork) td__block_free(rwork, real_bytes);
    return ok;
}

/* x: U, y: S, z: Vh. Of an infinity LAPACK may search for ever, so that it is refused
 * before, with the info that LAPACK has for NaN. */
static bool svd_one(void *job, int64_t i) {
    decomposing *d = job;
    char        *a = d->a + i * bytes_of(d, d->m, d->n), *u = d->x + i * d->x_item;
    char        *vt = d->z + i * d->z_item;
    double       few = 0; /* the answer of a query */
    int          k = least(d->m, d->n), ld = lead(d->m), query = -1, lwork;
    int          ldvt = lead(*d->job == 'A' ? d->n : k);
    size_t       bytes;
    if (k == 0) {
        if (*d->job == 'A') unit_matrix(d, u, d->m), unit_matrix(d, vt, d->n);
        return true;
    }
    if (!is_finite(d, a)) return d->info[i] = -4, true;
    char *s = d->y + i * d->y_item;
    if (td__is_complex(d->dt)) return svd_complex(d, a, s, u, vt, i);
    TD_LAPACK(d->dt, gesdd, d->job, &d->m, &d->n, a, &ld, s, u, &ld, vt, &ldvt, &few,
              &query, NULL, &d->info[i], 1);
    lwork = td__lapack_work(d->dt, &few);
    char *work = td__lapack_block(d->dt, lwork, 8 * (int64_t)k, &bytes);
    if (!work) return false;
    int *iwork = (int *)(void *)(work + bytes - (size_t)(8 * (int64_t)k + 1) * 8);
    TD_LAPACK(d->dt, gesdd, d->job, &d->m, &d->n, a, &ld, s, u, &ld, vt, &ldvt, work,
              &lwork, iwork, &d->info[i], 1);
    td__block_free(work, bytes);
    return true;
}

/* in: A, full_matrices, compute_uv; out: U, S, Vh. */
bool td__kern_svd(td_opcall *c) {
    bool        full = td__in_bool(c, 1);
    decomposing d = {.job = !td__in_bool(c, 2) ? "N" : full ? "A" : "S"};
    if (!open_stack(c, &d, td__in(c, 0))) return false;
    td_tensor *a = td__columns_copy(c, td__in(c, 0));
    if (!a) return false;
    int k = least(d.m, d.n);
    d.a = td__ptr(a);
    d.x = td__ptr(c->out[0]);
    d.y = td__ptr(c->out[1]);
    d.z = td__ptr(c->out[2]);
    d.y_item = (int64_t)k * td__dtype_bytes[td__real_of(d.dt)];
    if (*d.job != 'N') {
        d.x_item = bytes_of(&d, d.m, full ? d.m : k);
        d.z_item = bytes_of(&d, full ? d.n : k, d.n);
    }
    bool ok = run_checked(c, &d, td__stack_count(a), svd_one);
    td_drop(a);
    return ok;
}
