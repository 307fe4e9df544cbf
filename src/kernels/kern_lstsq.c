/* kern_lstsq.c -- least squares by LAPACK's drivers, and the copy that carries the
 * derivative of a pseudoinverse. */
#include "kernels/lapack.h"
#include "ops/cast.h"
#include "rules/geom.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct fitting {
    td_dtype         dt;
    int              m, n, k;
    double           rcond;
    char             driver;  /* the last letter: s (gels), y, d, S (gelss) */
    const td_tensor *a0, *b0; /* the arguments */
    td_tensor       *a, *x;   /* overwritten: column-major */
    td_tensor       *residuals, *rank, *values;
    int32_t         *info;
} fitting;

static int lead(int rows) { return rows > 0 ? rows : 1; }

/* What LAPACK gets for one matrix. */
typedef struct driver_call {
    char *a, *x, *s, *work;
    int   lwork, rank; /* lwork -1 asks for the workspace */
    int  *iwork;
} driver_call;

/* One call of the driver; returns its info. */
static int call_driver(const fitting *f, driver_call *d) {
    int         ld = lead(f->m), ldb = lead(f->m > f->n ? f->m : f->n), info = 0;
    float       r32 = (float)f->rcond;
    const void *rcond = f->dt == TD_F64 ? (const void *)&f->rcond : (const void *)&r32;
    if (f->driver == 's')
        TD_LAPACK(f->dt, gels, "N", &f->m, &f->n, &f->k, d->a, &ld, d->x, &ldb, d->work,
                  &d->lwork, &info, 1);
    else if (f->driver == 'y')
        TD_LAPACK(f->dt, gelsy, &f->m, &f->n, &f->k, d->a, &ld, d->x, &ldb, d->iwork,
                  rcond, &d->rank, d->work, &d->lwork, &info);
    else if (f->driver == 'd')
        TD_LAPACK(f->dt, gelsd, &f->m, &f->n, &f->k, d->a, &ld, d->x, &ldb, d->s, rcond,
                  &d->rank, d->work, &d->lwork, d->iwork, &info);
    else
        TD_LAPACK(f->dt, gelss, &f->m, &f->n, &f->k, d->a, &ld, d->x, &ldb, d->s, rcond,
                  &d->rank, d->work, &d->lwork, &info);
    return info;
}

/* Element (r, q) of a matrix at p of t. */
static double element(const td_tensor *t, const char *p, int64_t r, int64_t q) {
    int64_t at = r * t->stride[t->rank - 2] + q * t->stride[t->rank - 1];
    return td__load_f((td_dtype)t->dtype, p + at * td__dtype_bytes[t->dtype]);
}

/* Sums of squares of A X - B by column. LAPACK leaves them behind X for matrices of
 * full rank only; this holds for all. */
static void write_residuals(const fitting *f, int64_t i) {
    const char *a = td__stack_at(f->a0, 2, f->x, i),
               *b = td__stack_at(f->b0, 2, f->x, i);
    const char *x = td__stack_at(f->x, 2, f->x, i);
    char       *to = td__ptr(f->residuals) + i * f->k * td__dtype_bytes[f->dt];
    for (int64_t q = 0; q < f->k; q++) {
        double sum = 0;
        for (int64_t r = 0; r < f->m; r++) {
            double d = -element(f->b0, b, r, q);
            for (int64_t k = 0; k < f->n; k++)
                d += element(f->a0, a, r, k) * element(f->x, x, k, q);
            sum += d * d;
        }
        td__store_f(f->dt, to + q * td__dtype_bytes[f->dt], sum);
    }
}

/* Zeros below the solution x, where LAPACK leaves other numbers, and residuals. */
static void finish(const fitting *f, int64_t i, char *x, int64_t rows) {
    int64_t size = td__dtype_bytes[f->dt];
    for (int64_t q = 0; q < f->k && rows > f->n; q++)
        memset(x + (q * rows + f->n) * size, 0, (size_t)((rows - f->n) * size));
    if (f->residuals->numel) write_residuals(f, i);
}

/* LAPACK's number of an argument that the driver must not get, negated; 0: none. NaNs
 * are rejected as in ATen; gelsd would also report infinities of A on stdout. */
static int rejected(const fitting *f, int64_t i, const driver_call *d) {
    bool inf = f->driver == 'd';
    for (int64_t k = 0; k < (int64_t)f->m * f->n; k++) {
        double v = td__load_f(f->dt, d->a + k * td__dtype_bytes[f->dt]);
        if (isnan(v) || (inf && isinf(v))) return -4;
    }
    const char *b = td__stack_at(f->b0, 2, f->x, i);
    for (int64_t k = 0; k < (int64_t)f->m * f->k; k++)
        if (isnan(element(f->b0, b, k / f->k, k % f->k))) return -6;
    return 0;
}

static bool lstsq_one(void *job, int64_t i) {
    fitting    *f = job;
    int64_t     size = td__dtype_bytes[f->dt], most = f->m > f->n ? f->m : f->n;
    int64_t     least = f->m < f->n ? f->m : f->n;
    double      few = 0; /* the answer of a query */
    int         ints = 0;
    size_t      bytes;
    driver_call d = {.a = td__ptr(f->a) + i * f->m * f->n * size,
                     .x = td__ptr(f->x) + i * most * f->k * size,
                     .work = (char *)&few,
                     .lwork = -1,
                     .iwork = &ints};
    if (f->k == 0 || least == 0) return finish(f, i, d.x, most), true;
    if ((f->info[i] = rejected(f, i, &d))) return true;
    call_driver(f, &d);
    d.lwork = td__lapack_work(f->dt, &few);
    if (f->driver != 'd') ints = f->n;
    d.work = td__lapack_block(f->dt, d.lwork + least, ints, &bytes);
    if (!d.work) return false;
    d.iwork = (int *)(void *)(d.work + bytes - (size_t)(ints + 1) * 8);
    memset(d.iwork, 0, (size_t)ints * sizeof *d.iwork); /* no column comes first */
    d.s = f->values->numel ? td__ptr(f->values) + i * least * size
                           : d.work + (int64_t)d.lwork * size;
    f->info[i] = call_driver(f, &d);
    if (f->driver != 's') ((int64_t *)(void *)td__ptr(f->rank))[i] = d.rank;
    td__block_free(d.work, bytes);
    finish(f, i, d.x, most);
    return true;
}

/* Argument rcond, by default eps * the larger size. */
static double rcond_of(const td_opcall *c, const fitting *f) {
    double eps = f->dt == TD_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    return td__in_none(c, 2) ? eps * (f->m > f->n ? f->m : f->n) : td__in_f(c, 2);
}

/* The top rows of the result hold B, those below are 0. */
static bool start_solution(td_opcall *c, fitting *f) {
    td_meta   m;
    td_window w;
    td__tensor_meta(f->x, &m);
    m.size[m.rank - 2] = f->m;
    if (f->x->numel)
        memset(td__ptr(f->x), 0, (size_t)f->x->numel * td__dtype_bytes[f->dt]);
    return td__copy_into(td__window(&w, f->x, &m), td__in(c, 1));
}

/* in: A, B, rcond, driver; out: X padded, residuals, rank, singular values. */
bool td__kern_lstsq(td_opcall *c) {
    const char *name = c->in[3].u.s;
    td_tensor  *a0 = td__in(c, 0);
    fitting     f = {.dt = (td_dtype)a0->dtype,
                     .a0 = a0,
                     .b0 = td__in(c, 1),
                     .x = c->out[0],
                     .residuals = c->out[1],
                     .rank = c->out[2],
                     .values = c->out[3],
                     .driver = !strcmp(name, "gelss") ? 'S' : name[strlen(name) - 1]};
    int64_t     count = td__stack_count(a0);
    size_t      bytes = (size_t)(count + 1) * sizeof(int32_t);
    if (!td__fits_lapack(c, a0) || !td__fits_lapack(c, f.b0)) return false;
    f.m = (int)a0->size[a0->rank - 2];
    f.n = (int)a0->size[a0->rank - 1];
    f.k = (int)f.b0->size[f.b0->rank - 1];
    f.rcond = rcond_of(c, &f);
    for (int64_t i = 0; f.driver != 's' && i < f.rank->numel; i++)
        ((int64_t *)(void *)td__ptr(f.rank))[i] = 0;
    /* Ranks and singular values are 0 where B has no columns: nothing is factored. */
    if (f.values->numel)
        memset(td__ptr(f.values), 0, (size_t)f.values->numel * td__dtype_bytes[f.dt]);
    if (!(f.info = td__block_alloc(bytes))) return td__fail_memory(c->cx);
    memset(f.info, 0, bytes);
    f.a = td__columns_copy(c, a0);
    bool ok =
        f.a && start_solution(c, &f) &&
        td__each_matrix(c, count, 4.0 * f.m * f.n * (f.n + f.k), lstsq_one, &f) &&
        td__check_infos(c, f.info, count,
                        f.driver == 's' ? "not of full rank, or not finite; use "
                                          "driver gelsy, gelsd or gelss; LAPACK info"
                                        : "the algorithm did not converge; is an "
                                          "element of A or B not finite? LAPACK info");
    if (f.a) td_drop(f.a);
    td__block_free(f.info, bytes);
    return ok;
}

/* in: self, pinv. */
bool td__kern_pinv_of(td_opcall *c) { return td__copy_into(c->out[0], td__in(c, 1)); }
