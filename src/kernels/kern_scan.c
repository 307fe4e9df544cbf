/* kern_scan.c -- running sums, products, maxima and linear recurrences along a dim.
 *
 * A line is the elements along the scanned dim. Where that dim is not the
 * innermost, lines are walked side by side, so that memory is read in rows.
 * Running sums of f32 are kept in double, as in ATen. Results are row-major. */
#include "kernels/kern_complex.h"

#include <math.h>
#include <string.h>

enum { LANES = 64, TASK = 16384 };

typedef enum scan_op { SCAN_SUM, SCAN_PROD, SCAN_LSE, SCAN_MAX, SCAN_MIN } scan_op;

typedef union lanes {
    double  f[LANES];
    int64_t i[LANES];
} lanes;

/* One call. Lines run along `dim`; `inner` of them lie side by side in memory. */
typedef struct scan {
    scan_op    op;
    bool       ints; /* accumulate in int64, else in double */
    td_acc     acc;
    td_dtype   as; /* elements take this dtype first */
    td_tensor *t, *out;
    td_tensor *indices; /* of cummax; NULL: none */
    int        dim;
    int64_t    n;                 /* length of a line */
    int64_t    in_step, out_step; /* along the line */
    int64_t    inner;             /* lines side by side: dims after the scanned one */
} scan;

/* Offset of element i of t's dims but `dim`, in row-major order of the others. */
static int64_t line_at(const td_tensor *t, int dim, int64_t i) {
    int64_t at = 0;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (d == dim) continue;
        at += i % t->size[d] * t->stride[d];
        i /= t->size[d];
    }
    return at;
}

/* One element as the dtype of the scan, in the accumulator's type. */
static void load_lane(const scan *s, const char *p, lanes *x, int k) {
    td_dtype in = (td_dtype)s->t->dtype;
    int64_t  cast = 0;
    if (s->ints && !td__is_float(in) && s->as != TD_BOOL) {
        x->i[k] = td__load_i(in, p);
        return;
    }
    double f = td__load_f(in, p);
    if (in != s->as) td__store_f(s->as, &cast, f);
    if (s->ints) x->i[k] = in == s->as ? f != 0 : td__load_i(s->as, &cast);
    else x->f[k] = in == s->as ? f : td__load_f(s->as, &cast);
}

/* log(exp(a) + exp(b)) without overflow; NaN stays. */
static double log_add(double a, double b) {
    double hi = a > b || isnan(a) ? a : b, lo = a > b || isnan(a) ? b : a;
    if (isinf(hi) && hi == lo) return hi;
    return hi + log1p(exp(lo - hi));
}

/* Takes x[k] into the running value; true when a new extreme was taken. */
static bool take(const scan *s, lanes *run, const lanes *x, int k) {
    double  f = x->f[k];
    int64_t i = x->i[k];
    switch (s->op) {
    case SCAN_SUM:
        if (s->ints) run->i[k] = (int64_t)((uint64_t)run->i[k] + (uint64_t)i);
        else run->f[k] += f;
        return false;
    case SCAN_PROD:
        if (s->ints) run->i[k] = (int64_t)((uint64_t)run->i[k] * (uint64_t)i);
        else run->f[k] *= f;
        return false;
    case SCAN_LSE: run->f[k] = log_add(run->f[k], f); return false;
    case SCAN_MAX:
        if (s->ints ? i < run->i[k] : !(f >= run->f[k] || isnan(f))) return false;
        break;
    case SCAN_MIN:
        if (s->ints ? i > run->i[k] : !(f <= run->f[k] || isnan(f))) return false;
        break;
    }
    if (!s->ints && isnan(run->f[k]) && !isnan(f)) return false;
    *(s->ints ? &run->i[k] : (int64_t *)(void *)&run->f[k]) = i;
    return true;
}

/* A sum begins at 0, so that the first one of -0 is 0; that of a 0-dim tensor is a
 * copy. */
static void begin(const scan *s, lanes *run, const lanes *x, int k) {
    run->i[k] = x->i[k];
    if (s->op == SCAN_SUM && !s->ints && s->t->rank > 0) run->f[k] += 0.0;
}

/* `count` neighbouring lines from line `first` on. */
static void scan_lines(const scan *s, int64_t first, int count) {
    size_t   in_size = td__dtype_bytes[s->t->dtype];
    size_t   out_size = td__dtype_bytes[s->out->dtype];
    td_dtype out = (td_dtype)s->out->dtype;
    int64_t  in_at[LANES], out_at[LANES], index[LANES] = {0};
    lanes    run, x;
    for (int k = 0; k < count; k++) {
        in_at[k] = line_at(s->t, s->dim, first + k);
        out_at[k] = line_at(s->out, s->dim, first + k);
    }
    for (int64_t i = 0; i < s->n; i++) {
        for (int k = 0; k < count; k++) {
            int64_t to = out_at[k] + i * s->out_step;
            load_lane(s, td__ptr(s->t) + (in_at[k] + i * s->in_step) * (int64_t)in_size,
                      &x, k);
            if (i == 0) begin(s, &run, &x, k);
            else if (take(s, &run, &x, k)) index[k] = i;
            char *p = td__ptr(s->out) + to * (int64_t)out_size;
            if (s->ints) td__store_i(out, p, run.i[k]);
            else td__store_f(out, p, run.f[k]);
            if (s->indices) ((int64_t *)(void *)td__ptr(s->indices))[to] = index[k];
        }
    }
}

/* Lines [begin, end), LANES at a time where neighbours lie side by side in memory. */
static void run_lines(void *arg, int64_t begin, int64_t end) {
    const scan *s = arg;
    for (int64_t at = begin; at < end;) {
        int64_t n = s->inner > 1 ? LANES : 1;
        if (n > end - at) n = end - at;
        scan_lines(s, at, (int)n);
        at += n;
    }
}

/* The commonest cases: dense lines of f32 or f64 along the last dim. */
static void sum_dense(void *arg, int64_t begin, int64_t end) {
    const scan *s = arg;
    bool        wide = s->t->dtype == TD_F64;
    for (int64_t l = begin; l < end; l++) {
        const char *p = td__ptr(s->t) + l * s->n * (wide ? 8 : 4);
        char       *o = td__ptr(s->out) + l * s->n * (wide ? 8 : 4);
        double      run = s->op == SCAN_SUM ? 0 : 1;
        for (int64_t i = 0; i < s->n; i++) {
            double x = wide ? ((const double *)(const void *)p)[i]
                            : (double)((const float *)(const void *)p)[i];
            run = s->op == SCAN_SUM ? run + x : run * x;
            if (wide) ((double *)(void *)o)[i] = run;
            else ((float *)(void *)o)[i] = (float)run;
        }
    }
}

/* Does sum_dense apply? */
static bool is_plain(const scan *s) {
    const td_tensor *t = s->t, *o = s->out;
    return s->op <= SCAN_PROD && s->inner == 1 && t->rank > 0 && t->dtype == o->dtype &&
           (t->dtype == TD_F32 || t->dtype == TD_F64) &&
           td__is_dense(t->rank, t->size, t->stride) &&
           td__is_dense(o->rank, o->size, o->stride);
}

/* in: self, dim, dtype. */
static bool run_scan(td_opcall *c, scan_op op, td_tensor *indices) {
    td_tensor *t = td__in(c, 0), *out = c->out[0];
    scan       s = {.op = op, .t = t, .out = out, .indices = indices, .as = out->dtype};
    if (out->numel == 0) return true;
    s.ints = !td__is_float(s.as);
    s.dim = td__wrap_dim(td__in_int(c, 1), t->rank);
    s.n = t->rank ? t->size[s.dim] : 1;
    s.in_step = t->rank ? t->stride[s.dim] : 1;
    s.out_step = t->rank ? out->stride[s.dim] : 1;
    s.inner = 1;
    for (int d = s.dim + 1; d < t->rank; d++) s.inner *= t->size[d];
    td__pool_run(t->numel / s.n, TASK / s.n + 1, is_plain(&s) ? sum_dense : run_lines,
                 &s);
    return true;
}

bool td__kern_cumsum(td_opcall *c) { return run_scan(c, SCAN_SUM, NULL); }
bool td__kern_cumprod(td_opcall *c) {
    if (td__is_complex((td_dtype)c->out[0]->dtype)) return td__complex_cumprod(c);
    return run_scan(c, SCAN_PROD, NULL);
}
bool td__kern_logcumsumexp(td_opcall *c) { return run_scan(c, SCAN_LSE, NULL); }
bool td__kern_cummax(td_opcall *c) { return run_scan(c, SCAN_MAX, c->out[1]); }
bool td__kern_cummin(td_opcall *c) { return run_scan(c, SCAN_MIN, c->out[1]); }

/* ---- linear recurrences ------------------------------------------------ */

/* in: a, b, dim, reverse. Sequential and in double: products of many factors, and only
 * derivatives use it. */
bool td__kern_linear_scan(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1), *out = c->out[0];
    td_dtype   dt = (td_dtype)out->dtype;
    int64_t    size = td__dtype_bytes[dt];
    bool       back = td__in_bool(c, 3);
    if (td__is_complex(dt)) return td__complex_linear_scan(c);
    if (out->numel == 0) return true;
    int     dim = td__wrap_dim(td__in_int(c, 2), b->rank);
    int64_t n = b->rank ? b->size[dim] : 1;
    for (int64_t l = 0; l < out->numel / n; l++) {
        int64_t pa = line_at(a, dim, l), pb = line_at(b, dim, l),
                po = line_at(out, dim, l);
        double run = 0;
        for (int64_t k = 0; k < n; k++) {
            int64_t i = back ? n - 1 - k : k, j = back ? i + 1 : i;
            double  f = 0;
            if (k > 0)
                f = td__load_f(dt, td__ptr(a) + (pa + j * a->stride[dim]) * size);
            run = run * f +
                  td__load_f(dt, td__ptr(b) +
                                     (pb + (b->rank ? i * b->stride[dim] : 0)) * size);
            td__store_f(dt,
                        td__ptr(out) +
                            (po + (b->rank ? i * out->stride[dim] : 0)) * size,
                        run);
        }
    }
    return true;
}
