/* kern_create.c -- kernels of creation: one value, or a sequence. */
#include "ops/cast.h"
#include "rules/create.h"
#include "rules/shape_rules.h"
#include "kernels/fill_loops.h"

#include <math.h>

#define GRAIN 32768 /* elements below which a second thread does not pay */

/* ---- one value ---------------------------------------------------------- */

bool td__kern_empty(td_opcall *c) { return c->out[0] != NULL; }
bool td__kern_zeros(td_opcall *c) { return td__fill(c->out[0], td_value_int(0)); }
bool td__kern_ones(td_opcall *c) { return td__fill(c->out[0], td_value_int(1)); }
bool td__kern_full(td_opcall *c) {
    return td__fill(c->out[0], c->in[td__scalar_arg(c)]);
}

/* All of it is in the shape rule. */
bool td__kern_expect(td_opcall *c) { return c->n_out == 0; }

/* The result is row-major: the diagonal steps by columns + 1. */
bool td__kern_eye(td_opcall *c) {
    td_tensor *t = c->out[0];
    size_t     item = td__dtype_bytes[t->dtype];
    td__fill(t, td_value_int(0));
    for (int64_t i = 0; i < t->size[0] && i < t->size[1]; i++)
        td__store_i((td_dtype)t->dtype,
                    td__ptr(t) + (size_t)(i * (t->size[1] + 1)) * item, 1);
    return true;
}

/* ---- sequences ---------------------------------------------------------- */

/* A sequence that threads fill; which fields count depends on op and dtype. */
typedef struct range_job {
    char    *p;
    td_dtype dt;
    td_range range;         /* floats, and linspace of integers */
    double   end;           /* linspace */
    int64_t  first, stride; /* arange of integers */
} range_job;

/* v after rounding to dt. */
static double rounded(td_dtype dt, double v) {
    char item[8];
    td__store_f(dt, item, v);
    return td__load_f(dt, item);
}

/* Integers wrap like two's complement, computed unsigned. */
static void arange_ints(const range_job *j, int64_t begin, int64_t end) {
    size_t   item = td__dtype_bytes[j->dt];
    uint64_t first = (uint64_t)j->first, stride = (uint64_t)j->stride;
    for (int64_t i = begin; i < end && j->dt == TD_I64; i++)
        ((uint64_t *)(void *)j->p)[i] = first + (uint64_t)i * stride;
    for (int64_t i = begin; i < end && j->dt != TD_I64; i++)
        td__store_i(j->dt, j->p + (size_t)i * item,
                    (int64_t)(first + (uint64_t)i * stride));
}

/* As range_f32, with the first lane of each vector rounded to the half
 * (td__range_vector). */
static void arange_halves(const range_job *j, int64_t begin, int64_t end) {
    const td_range *r = &j->range;
    float           step = (float)r->step, start = (float)r->start;
    for (int64_t i = begin; i < end; i++) {
        int64_t v = td__range_vector(r, i, 16);
        float   base = (float)rounded(j->dt, (double)fmaf(step, (float)v, start));
        td__store_f(j->dt, j->p + 2 * i, (double)fmaf(step, (float)(i - v), base));
    }
}

/* Elements [begin, end) by the loop of the dtype. */
static void arange_range(void *arg, int64_t begin, int64_t end) {
    const range_job *j = arg;
    void            *p = j->p;
    if (j->dt == TD_F32) td__fresh_loops()->range_f32(&j->range, begin, end, p);
    else if (j->dt == TD_F64) td__fresh_loops()->range_f64(&j->range, begin, end, p);
    else if (td__is_half(j->dt)) arange_halves(j, begin, end);
    else arange_ints(j, begin, end);
}

/* in: start, end, step, dtype. The rule counted the elements. */
bool td__kern_arange(td_opcall *c) {
    td_tensor *t = c->out[0];
    range_job  j = {.p = td__ptr(t),
                    .dt = (td_dtype)t->dtype,
                    .range = {td__in_f(c, 0), td__in_f(c, 2), t->numel},
                    .first = td__value_i(c->in[0]),
                    .stride = td__value_i(c->in[2])};
    if (t->numel) td__pool_run(t->numel, GRAIN, arange_range, &j);
    return true;
}

/* From start up to the middle, from end after it, so that both ends are exact.
 * Product and sum round once together, except for f16, as in ATen. */
static void linspace_range(void *arg, int64_t begin, int64_t end) {
    const range_job *j = arg;
    size_t           item = td__dtype_bytes[j->dt];
    const td_range  *r = &j->range;
    float            step = (float)r->step;
    if (j->dt == TD_F32) {
        float  *to = (float *)(void *)j->p;
        int64_t half = r->n / 2, cut = end < half ? end : half;
        cut = cut < begin ? begin : cut;
        td__fresh_loops()->line_f32((float)r->start, step, begin, cut - begin,
                                    to + begin);
        td__fresh_loops()->line_f32((float)j->end, step, cut - (r->n - 1), end - cut,
                                    to + cut);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        bool    head = i < r->n / 2;
        int64_t k = head ? i : i - (r->n - 1); /* steps from that end */
        double  from = head ? r->start : j->end, v;
        if (j->dt == TD_F32 || j->dt == TD_BF16)
            v = (double)fmaf(step, (float)k, (float)from);
        else if (j->dt == TD_F16) v = (double)((float)from + step * (float)k);
        else v = fma(r->step, (double)k, from);
        td__store_f(j->dt, j->p + (size_t)i * item, v);
    }
}

/* Bounds are rounded to the dtype, the step is not: 16-bit floats take one of
 * float, integers one of double. */
bool td__kern_linspace(td_opcall *c) {
    td_tensor *t = c->out[0];
    td_dtype   dt = (td_dtype)t->dtype;
    double     gaps = (double)(t->numel - 1);
    range_job  j = {.p = td__ptr(t), .dt = dt, .range = {0, 0, t->numel}};
    char       ends[2][8];
    if (t->numel < 2) return t->numel ? td__fill(t, c->in[0]) : true;
    td__store_value(dt, ends[0], c->in[0]);
    td__store_value(dt, ends[1], c->in[1]);
    double start = td__load_f(dt, ends[0]), end = td__load_f(dt, ends[1]);
    j.range.start = start;
    j.range.step = (end - start) / gaps;
    j.end = end;
    if (td__is_float(dt) && dt != TD_F64)
        j.range.step = (double)(((float)end - (float)start) / (float)gaps);
    td__pool_run(t->numel, GRAIN, linspace_range, &j);
    return true;
}

/* in: start, end, steps, base, dtype. From start up to the middle, from end after it,
 * as linspace. Exponents are f32 of floats below f64; one alone is not rounded. */
bool td__kern_logspace(td_opcall *c) {
    td_tensor *t = c->out[0];
    td_dtype   dt = (td_dtype)t->dtype;
    bool       f32 = td__is_float(dt) && dt != TD_F64;
    char       ends[2][8];
    double     base = td__in_f(c, 3), one = pow(base, td__in_f(c, 0));
    if (t->numel == 1 && !td__is_half(dt) && !td__dtype_holds(dt, td_value_float(one)))
        return td__op_fail(c, TD_E_ARG, "%g to the power of %g is no %s", base,
                           td__in_f(c, 0), td_dtype_name(dt));
    if (t->numel < 2) return td__fill(t, td_value_float(one));
    td__store_value(dt, ends[0], c->in[0]);
    td__store_value(dt, ends[1], c->in[1]);
    double start = td__load_f(dt, ends[0]), end = td__load_f(dt, ends[1]);
    double step = (end - start) / (double)(t->numel - 1);
    if (f32) step = (double)(((float)end - (float)start) / (float)(t->numel - 1));
    for (int64_t i = 0; i < t->numel; i++) {
        bool   head = i < t->numel / 2;
        double k = (double)(head ? i : i - (t->numel - 1)), from = head ? start : end;
        double x =
            f32 ? (double)((float)from + (float)step * (float)k) : from + step * k;
        td__store_f(dt, td__ptr(t) + (size_t)i * td__dtype_bytes[dt], pow(base, x));
    }
    return true;
}

/* ---- windows ------------------------------------------------------------ */

/* The modified Bessel function I0, by its power series: all terms are positive, so
 * rounding errors do not grow. Relative error below 1e-14 for |x| < 100. */
static double bessel_i0(double x) {
    double sum = 1, term = 1, q = x * x / 4;
    for (int k = 1; k < 2000 && term > sum * 1e-18; k++) {
        term *= q / ((double)k * k);
        sum += term;
    }
    return sum;
}

/* I0(beta sqrt(1 - x^2)) / I0(beta), x from -1 to 1 over a period. */
static bool kaiser(td_opcall *c, double beta, bool sym) {
    td_tensor *t = c->out[0];
    td_dtype   dt = (td_dtype)t->dtype;
    double     period = (double)(sym ? t->numel - 1 : t->numel);
    for (int64_t i = 0; i < t->numel; i++) {
        double x = t->numel > 1 ? 2 * (double)i / period - 1 : 0, in = 1 - x * x;
        td__store_f(dt, td__ptr(t) + (size_t)i * td__dtype_bytes[dt],
                    bessel_i0(beta * sqrt(in > 0 ? in : 0)) / bessel_i0(beta));
    }
    return true;
}

/* in: window_length, periodic, beta. */
bool td__kern_kaiser_window(td_opcall *c) {
    return kaiser(c, td__in_f(c, 2), !td__in_bool(c, 1));
}
/* in: M, beta, sym. */
bool td__kern_signal_kaiser(td_opcall *c) {
    return kaiser(c, td__in_f(c, 1), td__in_bool(c, 2));
}

/* ---- triangles ---------------------------------------------------------- */

/* Writes the row and column of each element from `low` to `high` of every row. */
static bool tri_indices(td_opcall *c, bool upper) {
    td_tensor *t = c->out[0];
    td_dtype   dt = (td_dtype)t->dtype;
    int64_t    rows = td__in_int(c, 0), cols = td__in_int(c, 1), k = td__in_int(c, 2);
    size_t     item = td__dtype_bytes[dt];
    char      *row = td__ptr(t), *col = row ? row + (size_t)t->size[1] * item : NULL;
    if (k > cols) k = cols;
    if (k < -rows) k = -rows;
    for (int64_t i = 0; i < rows && row; i++) {
        int64_t low = upper && i + k > 0 ? i + k : 0;
        int64_t high = upper || i + k >= cols ? cols : i + k + 1;
        if (dt == TD_I64) {
            int64_t *r = (int64_t *)(void *)row, *q = (int64_t *)(void *)col;
            for (int64_t j = low; j < high; j++) *r++ = i, *q++ = j;
            row = (char *)r, col = (char *)q;
            continue;
        }
        for (int64_t j = low; j < high; j++, row += item, col += item) {
            td__store_i(dt, row, i);
            td__store_i(dt, col, j);
        }
    }
    return true;
}

bool td__kern_tril_indices(td_opcall *c) { return tri_indices(c, false); }
bool td__kern_triu_indices(td_opcall *c) { return tri_indices(c, true); }
