/* kern_eig.c -- eigenvalues and eigenvectors of square matrices by LAPACK's geev. */
#include "kernels/lapack.h"
#include "ops/cast.h"

#include <math.h>
#include <string.h>

/* A stack of n x n matrices in `a`, overwritten; eigenvalues w and eigenvectors v are
 * complex. */
typedef struct eigen {
    td_dtype    dt; /* of a */
    int         n;
    char       *a, *w, *v; /* v is NULL: without vectors */
    int32_t    *info;
    const char *job;
} eigen;

static bool is_finite(const eigen *e, const char *a) {
    td_dtype part = td__real_of(e->dt);
    int64_t  n = (int64_t)e->n * e->n * (part == e->dt ? 1 : 2);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(td__load_f(part, a + i * td__dtype_bytes[part]))) return false;
    return true;
}

static void put(td_dtype part, char *at, int64_t i, double re, double im) {
    int64_t size = td__dtype_bytes[part];
    td__store_f(part, at + 2 * i * size, re);
    td__store_f(part, at + (2 * i + 1) * size, im);
}

/* LAPACK's real results as complex numbers: two conjugate eigenvalues share two real
 * columns, the real part and the imaginary part of the first one's vector. */
static void widen(const eigen *e, const char *wr, const char *wi, const char *columns,
                  char *w, char *v) {
    int64_t size = td__dtype_bytes[e->dt], n = e->n;
    for (int64_t k = 0; k < n; k++) {
        double im = td__load_f(e->dt, wi + k * size);
        put(e->dt, w, k, td__load_f(e->dt, wr + k * size), im);
        const char *first = columns + (im < 0 ? k - 1 : k) * n * size;
        for (int64_t r = 0; v && r < n; r++) {
            double x = td__load_f(e->dt, first + r * size), y = 0;
            if (im != 0) y = td__load_f(e->dt, first + (n + r) * size);
            put(e->dt, v, k * n + r, x, im < 0 ? -y : y);
        }
    }
}

static bool real_one(const eigen *e, char *a, char *w, char *v, int32_t *info) {
    int     ld = e->n, one = 1, query = -1, lwork;
    double  few = 0; /* the answer of a query */
    int64_t n = e->n, size = td__dtype_bytes[e->dt];
    size_t  bytes;
    TD_LAPACK(e->dt, geev, "N", e->job, &e->n, a, &ld, NULL, NULL, NULL, &one, NULL,
              v ? &ld : &one, &few, &query, info, 1, 1);
    lwork = td__lapack_work(e->dt, &few);
    char *wr = td__lapack_block(e->dt, 2 * n + (v ? n * n : 0) + lwork, 0, &bytes);
    if (!wr) return false;
    char *wi = wr + n * size, *columns = wi + n * size;
    char *work = columns + (v ? n * n * size : 0);
    TD_LAPACK(e->dt, geev, "N", e->job, &e->n, a, &ld, wr, wi, NULL, &one, columns,
              v ? &ld : &one, work, &lwork, info, 1, 1);
    if (*info == 0) widen(e, wr, wi, columns, w, v);
    td__block_free(wr, bytes);
    return true;
}

static bool complex_one(const eigen *e, char *a, char *w, char *v, int32_t *info) {
    int    ld = e->n, one = 1, query = -1, lwork;
    double few[2] = {0}, real = 0; /* a query writes the first element of both */
    size_t bytes, real_bytes;
    TD_LAPACK_COMPLEX(e->dt, geev, "N", e->job, &e->n, a, &ld, w, NULL, &one, v,
                      v ? &ld : &one, few, &query, &real, info, 1, 1);
    lwork = td__lapack_work(e->dt, few);
    char *work = td__lapack_block(e->dt, lwork, 0, &bytes);
    char *reals = td__lapack_block(td__real_of(e->dt), 2 * e->n, 0, &real_bytes);
    if (work && reals)
        TD_LAPACK_COMPLEX(e->dt, geev, "N", e->job, &e->n, a, &ld, w, NULL, &one, v,
                          v ? &ld : &one, work, &lwork, reals, info, 1, 1);
    bool ok = work && reals;
    if (work) td__block_free(work, bytes);
    if (reals) td__block_free(reals, real_bytes);
    return ok;
}

static bool eig_one(void *job, int64_t i) {
    eigen  *e = job;
    int64_t n = e->n, wide = 2 * td__dtype_bytes[td__real_of(e->dt)];
    char   *a = e->a + i * n * n * td__dtype_bytes[e->dt], *w = e->w + i * n * wide;
    char   *v = e->v ? e->v + i * n * n * wide : NULL;
    if (n == 0) return true;
    if (!is_finite(e, a)) return e->info[i] = -4, true;
    return td__is_complex(e->dt) ? complex_one(e, a, w, v, &e->info[i])
                                 : real_one(e, a, w, v, &e->info[i]);
}

/* in: A, compute_v; out: eigenvalues, eigenvectors. */
bool td__kern_eig(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *a = td__columns_copy(c, t);
    if (!a || !td__fits_lapack(c, t)) return td_drop(a), false;
    int64_t count = td__stack_count(a);
    size_t  bytes = (size_t)(count + 1) * sizeof(int32_t);
    bool    vectors = td__in_bool(c, 1);
    eigen   e = {.dt = (td_dtype)t->dtype,
                 .n = (int)t->size[t->rank - 1],
                 .a = td__ptr(a),
                 .w = td__ptr(c->out[0]),
                 .v = vectors ? td__ptr(c->out[1]) : NULL,
                 .info = td__block_alloc(bytes),
                 .job = vectors ? "V" : "N"};
    bool    ok = e.info != NULL;
    if (!ok) td__fail_memory(c->cx);
    else memset(e.info, 0, bytes);
    ok = ok && td__each_matrix(c, count, 10.0 * e.n * e.n * e.n, eig_one, &e) &&
         td__check_infos(c, e.info, count,
                         "the algorithm did not converge; is an element not finite? "
                         "LAPACK info");
    if (e.info) td__block_free(e.info, bytes);
    td_drop(a);
    return ok;
}
