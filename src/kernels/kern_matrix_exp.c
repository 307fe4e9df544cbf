/* kern_matrix_exp.c -- the matrix exponential by scaling and squaring: exp(A) =
 * exp(A / 2^s)^(2^s), with s such that the Taylor polynomial of the scaled matrix is
 * exact to the dtype's precision. Its terms are grouped as by Paterson and Stockmeyer
 * (1973): a polynomial of degree b q in A is one of degree q in A^b, whose coefficients
 * are polynomials of degree b - 1. */
#include "kernels/gemm.h"
#include "kernels/lapack.h"
#include "ops/cast.h"

#include <math.h>
#include <string.h>

/* Degree 16 = 4 * 4 is exact in f64 below a norm of 0.75, as 0.75^17 / 17! < 2^-55, and
 * in f32 below 2: 2^17 / 17! < 2^-31, relative to a result of at least exp(-2). */
enum { BLOCK = 4, DEGREE = 16, MOST_SQUARINGS = 1100 };

typedef struct expm {
    td_dtype         dt;
    int64_t          n;
    const td_tensor *in, *out;
} expm;

static double get(td_dtype dt, const char *p, int64_t i) {
    return dt == TD_F64 ? ((const double *)(const void *)p)[i]
                        : (double)((const float *)(const void *)p)[i];
}

/* c = a b for row-major n x n matrices. */
static bool product(const expm *e, const char *a, const char *b, char *c) {
    int64_t n = e->n;
    td_gemm p = {.dtype = e->dt,
                 .batch = 1,
                 .m = n,
                 .n = n,
                 .k = n,
                 .a = a,
                 .b = b,
                 .c = c,
                 .a_row = n,
                 .a_col = 1,
                 .b_row = n,
                 .b_col = 1,
                 .c_row = n,
                 .c_col = 1,
                 .alpha = 1,
                 .beta = 0};
    return td__gemm(&p);
}

/* The greatest sum of magnitudes of a column. */
static double norm_1(const expm *e, const char *a) {
    double most = 0;
    for (int64_t k = 0; k < e->n; k++) {
        double sum = 0;
        for (int64_t r = 0; r < e->n; r++) sum += fabs(get(e->dt, a, r * e->n + k));
        if (!(sum <= most)) most = sum; /* NaN stays */
    }
    return most;
}

/* to = c0 I + c1 A + c2 A^2 + c3 A^3, which is what one group of terms sums to. */
static void group(const expm *e, char *const *power, const double *c, char *to) {
    for (int64_t i = 0; i < e->n * e->n; i++) {
        double sum = i % (e->n + 1) == 0 ? c[0] : 0;
        for (int k = 1; k < BLOCK; k++) sum += c[k] * get(e->dt, power[k], i);
        td__store_f(e->dt, to + i * td__dtype_bytes[e->dt], sum);
    }
}

/* p[1..4] hold A and have room for A^2 to A^4; sum and next are room for one matrix
 * each. The result is in *sum. Groups of terms from the highest down, by Horner's rule;
 * the last term of all is 1 / degree! A^degree. */
static bool taylor(const expm *e, char **p, char **sum, char **next) {
    double c[DEGREE + 1] = {1};
    for (int k = 1; k <= DEGREE; k++) c[k] = c[k - 1] / k;
    for (int k = 2; k <= BLOCK; k++)
        if (!product(e, p[k / 2], p[k - k / 2], p[k])) return false;
    for (int64_t i = 0; i < e->n * e->n; i++) {
        double x = i % (e->n + 1) == 0 ? c[DEGREE - BLOCK] : 0;
        for (int k = 1; k <= BLOCK; k++)
            x += c[DEGREE - BLOCK + k] * get(e->dt, p[k], i);
        td__store_f(e->dt, *sum + i * td__dtype_bytes[e->dt], x);
    }
    for (int at = DEGREE - 2 * BLOCK; at >= 0; at -= BLOCK) {
        td_gemm q = {.dtype = e->dt,
                     .batch = 1,
                     .m = e->n,
                     .n = e->n,
                     .k = e->n,
                     .a = *sum,
                     .b = p[BLOCK],
                     .c = *next,
                     .a_row = e->n,
                     .a_col = 1,
                     .b_row = e->n,
                     .b_col = 1,
                     .c_row = e->n,
                     .c_col = 1,
                     .alpha = 1,
                     .beta = 1};
        group(e, p, c + at, *next);
        if (!td__gemm(&q)) return false;
        char *t = *sum;
        *sum = *next;
        *next = t;
    }
    return true;
}

/* How often the matrix must be halved. */
static int squarings(const expm *e, double norm) {
    int s = 0;
    if (!isfinite(norm)) return 0;
    for (double most = e->dt == TD_F64 ? 0.75 : 2; norm > most; norm /= 2) s++;
    return s < MOST_SQUARINGS ? s : MOST_SQUARINGS;
}

static bool exp_one(void *job, int64_t i) {
    const expm *e = job;
    int64_t     size = td__dtype_bytes[e->dt], n = e->n;
    size_t      item = (size_t)(n * n * size), bytes = 6 * item;
    char       *room = td__block_alloc(bytes), *p[BLOCK + 1] = {NULL}, *sum, *next;
    const char *from = td__stack_at(e->in, 2, e->out, i);
    if (!room) return false;
    for (int k = 1; k <= BLOCK; k++) p[k] = room + (size_t)(k - 1) * item;
    sum = room + 4 * item;
    next = room + 5 * item;
    for (int64_t k = 0; k < n * n; k++) {
        int64_t at = k / n * e->in->stride[e->in->rank - 2] +
                     k % n * e->in->stride[e->in->rank - 1];
        memcpy(p[1] + k * size, from + at * size, (size_t)size);
    }
    int    s = squarings(e, norm_1(e, p[1]));
    double scale = ldexp(1, -s);
    for (int64_t k = 0; s && k < n * n; k++)
        td__store_f(e->dt, p[1] + k * size, get(e->dt, p[1], k) * scale);
    bool ok = taylor(e, p, &sum, &next);
    for (; ok && s > 0; s--) {
        ok = product(e, sum, sum, next);
        char *t = sum;
        sum = next;
        next = t;
    }
    if (ok) memcpy(td__ptr(e->out) + (size_t)i * item, sum, item);
    td__block_free(room, bytes);
    return ok;
}

/* in: self. */
bool td__kern_matrix_exp(td_opcall *c) {
    td_tensor *out = c->out[0];
    expm       e = {.dt = (td_dtype)out->dtype, .in = td__in(c, 0), .out = out};
    if (out->numel == 0) return true;
    e.n = out->size[out->rank - 1];
    double n = (double)e.n;
    return td__each_matrix(c, td__stack_count(out), 8 * n * n * n, exp_one, &e);
}
