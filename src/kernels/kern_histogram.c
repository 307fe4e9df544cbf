/* kern_histogram.c -- counts of integers and of values in intervals.
 *
 * Positions are computed for a block of elements, then counted. With few bins the
 * counts go to WAYS tables in turn, because two increments of one counter in a row wait
 * for each other. */
#include "kernels/dense_as.h"
#include "kernels/index_walk.h"
#include "kernels/math.h"
#include "ops/cast.h"
#include "rules/index_args.h"
#include "rules/shape_rules.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 512, WAYS = 4, LANES = 8, FEW_BINS = 4096 };

/* ---- tables ------------------------------------------------------------- */

/* Counters of n bins, and one more for elements outside. */
typedef struct table {
    int64_t *count;
    int64_t  n;    /* with the one more */
    int64_t  ways; /* tables side by side */
} table;

static bool table_make(td_ctx *cx, table *t, int64_t bins) {
    t->n = bins + 1;
    t->ways = bins <= FEW_BINS ? WAYS : 1;
    t->count = td__block_alloc((size_t)(t->n * t->ways) * sizeof *t->count);
    if (!t->count) return td__fail_memory(cx);
    memset(t->count, 0, (size_t)(t->n * t->ways) * sizeof *t->count);
    return true;
}

static void table_drop(table *t) {
    td__block_free(t->count, (size_t)(t->n * t->ways) * sizeof *t->count);
}

/* Counts n positions, each below the number of counters. */
static void table_add(table *t, const int32_t *at, int64_t n) {
    int64_t *c = t->count, step = t->n, i = 0;
    if (t->ways == WAYS)
        for (; i + WAYS <= n; i += WAYS) {
            c[at[i]]++;
            c[step + at[i + 1]]++;
            c[2 * step + at[i + 2]]++;
            c[3 * step + at[i + 3]]++;
        }
    for (; i < n; i++) c[at[i]]++;
}

/* The count of a bin. */
static int64_t table_sum(const table *t, int64_t bin) {
    int64_t sum = 0;
    for (int64_t w = 0; w < t->ways; w++) sum += t->count[w * t->n + bin];
    return sum;
}

/* Writes the counts of all bins but the last counter to `out`, in its dtype. */
static void table_store(const table *t, td_tensor *out) {
    td_dtype dt = (td_dtype)out->dtype;
    for (int64_t b = 0; b < t->n - 1; b++) {
        char *p = td__ptr(out) + b * td__dtype_bytes[dt];
        if (dt == TD_I64) td__store_i(dt, p, table_sum(t, b));
        else td__store_f(dt, p, (double)table_sum(t, b));
    }
}

/* ---- bincount ----------------------------------------------------------- */

/* Adds weights, f32 or f64 like out, to the bins that at names. */
static void add_weights(td_tensor *out, const int64_t *at, const td_tensor *w) {
    if (out->dtype == TD_F32) {
        float       *to = (float *)(void *)td__ptr(out);
        const float *from = (const float *)(const void *)td__ptr(w);
        for (int64_t i = 0; i < w->numel; i++) to[at[i]] += from[i];
    } else {
        double       *to = (double *)(void *)td__ptr(out);
        const double *from = (const double *)(const void *)td__ptr(w);
        for (int64_t i = 0; i < w->numel; i++) to[at[i]] += from[i];
    }
}

/* The greatest of n integers, -1 of none; fails where one is negative. */
static bool greatest(td_opcall *c, const int64_t *v, int64_t n, int64_t *most) {
    int64_t low = 0, high = -1;
    for (int64_t i = 0; i < n; i++) {
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    *most = high;
    return low >= 0 ||
           td__op_fail(c, TD_E_INDEX,
                       "self must not have negative elements, and the least "
                       "is %lld",
                       (long long)low);
}

/* Counts n dense integers: in turn to WAYS tables of the few bins, then their sum. */
static bool count_few(td_opcall *c, const int64_t *at, int64_t n, int64_t bins) {
    int64_t *out = (int64_t *)(void *)td__ptr(c->out[0]), i = 0;
    table    t;
    if (!table_make(c->cx, &t, bins)) return false;
    for (; i + WAYS <= n; i += WAYS)
        for (int w = 0; w < WAYS; w++) t.count[w * t.n + at[i + w]]++;
    for (; i < n; i++) t.count[at[i]]++;
    for (int64_t b = 0; b < bins; b++) out[b] = table_sum(&t, b);
    table_drop(&t);
    return true;
}

/* Fills out, which has n entries, from the dense integers v. */
static bool count_into(td_opcall *c, td_tensor *v, int64_t n) {
    td_tensor *out = c->out[0], *weights = td__in(c, 1);
    int64_t   *at = (int64_t *)(void *)td__ptr(v);
    int64_t   *count = (int64_t *)(void *)td__ptr(out);
    if (out->dtype == TD_I64 && n <= FEW_BINS) return count_few(c, at, v->numel, n);
    td__fill(out, td_value_int(0));
    for (int64_t i = 0; out->dtype == TD_I64 && i < v->numel; i++) count[at[i]]++;
    if (out->dtype == TD_I64) return true;
    td_tensor *w = td__dense_as(weights, (td_dtype)out->dtype);
    if (!w) return false;
    add_weights(out, at, w);
    td__dense_drop(w, weights);
    return true;
}

/* in: self, weights or none, minlength. The size depends on values, so this kernel
 * checks what a shape rule would and makes the result. */
bool td__kern_bincount(td_opcall *c) {
    td_tensor *self = td__in(c, 0);
    int64_t    n = td__in_int(c, 2), most = -1;
    td_meta    m;
    if (!td__bincount_check(c, &m.dtype)) return false;
    td_tensor *v = td__dense_as(self, TD_I64);
    bool       ok =
        v && greatest(c, (const int64_t *)(const void *)td__ptr(v), v->numel, &most);
    if (most + 1 > n) n = most + 1;
    if (ok) {
        td__meta_dense(&m, self->numel ? m.dtype : TD_I64, 1, &n);
        ok = (c->out[0] = td__tensor_make(c->cx, &m, false)) != NULL &&
             count_into(c, v, n);
    }
    td__dense_drop(v, self);
    return ok;
}

/* ---- histc -------------------------------------------------------------- */

/* Intervals of one width; in the compute type, rounded as in the dtype of self. */
typedef struct range {
    double   left, right;
    int64_t  bins;
    td_dtype dt; /* of self */
} range;

/* Rounds n numbers to a half and back. */
static void round_half(td_dtype dt, float *v, int64_t n) {
    uint16_t half[BLOCK];
    td__cast_run(n, dt, half, TD_F32, v);
    td__cast_run(n, TD_F32, v, dt, half);
}

/* at[i]: the interval of x[i] of BLOCK elements, or `bins` where it is outside. The
 * right end belongs to the last interval. Halves round after each step, as in ATen. */
static void positions_f32(const range *r, const float *x, int32_t *at) {
    float   left = (float)r->left, right = (float)r->right, p[BLOCK];
    float   k[2] = {(float)r->bins, right - left};
    int32_t bins = (int32_t)r->bins;
    bool    half = td__is_half(r->dt);
    if (half) round_half(r->dt, k, 2);
    for (int i = 0; i < BLOCK; i++) p[i] = x[i] - left;
    if (half) round_half(r->dt, p, BLOCK);
    for (int i = 0; i < BLOCK; i++) p[i] = p[i] * k[0];
    if (half) round_half(r->dt, p, BLOCK);
    for (int i = 0; i < BLOCK; i++) p[i] = p[i] / k[1];
    if (half) round_half(r->dt, p, BLOCK);
    for (int i = 0; i < BLOCK; i++) {
        float   in = x[i] >= left && x[i] <= right ? p[i] : 0;
        int32_t at_most = (int32_t)(in < k[0] ? in : 0); /* no conversion overflows */
        at_most = in < k[0] && at_most < bins ? at_most : bins - 1;
        at[i] = x[i] >= left && x[i] <= right ? at_most : bins;
    }
}

static void positions_f64(const range *r, const double *x, int64_t n, int32_t *at) {
    double  scale = (double)r->bins, width = r->right - r->left;
    int32_t bins = (int32_t)r->bins;
    for (int64_t i = 0; i < n; i++) {
        bool   in = x[i] >= r->left && x[i] <= r->right;
        double p = in ? (x[i] - r->left) * scale / width : 0;
        at[i] = !in ? bins : p < scale ? (int32_t)p : bins - 1;
    }
}

/* Counts the elements of x, f32 or f64. The last elements fill a block with NaN, which
 * is outside. */
static void count_elements(const range *r, const td_tensor *x, table *t) {
    int32_t       at[BLOCK];
    float         last[BLOCK];
    const float  *f = (const float *)(const void *)td__ptr(x);
    const double *d = (const double *)(const void *)td__ptr(x);
    for (int64_t i = 0; i < x->numel; i += BLOCK) {
        int64_t n = x->numel - i < BLOCK ? x->numel - i : BLOCK;
        if (x->dtype == TD_F64) positions_f64(r, d + i, n, at);
        else if (n == BLOCK) positions_f32(r, f + i, at);
        else {
            for (int64_t k = 0; k < BLOCK; k++) last[k] = k < n ? f[i + k] : NAN;
            positions_f32(r, last, at);
        }
        table_add(t, at, n);
    }
}

/* The least and greatest of n numbers of type T in LANES lanes; NaN where there is
 * one. */
#define EXTREMES(name, T)                                                             \
    static void name(const void *of, int64_t n, double *least, double *most) {        \
        const T *x = of;                                                              \
        T        low[LANES], high[LANES], odd[LANES] = {0};                           \
        int64_t  i = 0;                                                               \
        for (int k = 0; k < LANES; k++) low[k] = (T)INFINITY, high[k] = -(T)INFINITY; \
        for (; i + LANES <= n; i += LANES)                                            \
            for (int k = 0; k < LANES; k++) {                                         \
                low[k] = x[i + k] < low[k] ? x[i + k] : low[k];                       \
                high[k] = x[i + k] > high[k] ? x[i + k] : high[k];                    \
                odd[k] += x[i + k] * 0; /* NaN or infinite: NaN */                    \
            }                                                                         \
        for (; i < n; i++) {                                                          \
            low[0] = x[i] < low[0] ? x[i] : low[0];                                   \
            high[0] = x[i] > high[0] ? x[i] : high[0];                                \
            odd[0] += x[i] * 0;                                                       \
        }                                                                             \
        for (int k = 1; k < LANES; k++) {                                             \
            low[0] = low[k] < low[0] ? low[k] : low[0];                               \
            high[0] = high[k] > high[0] ? high[k] : high[0];                          \
            odd[0] += odd[k];                                                         \
        }                                                                             \
        *least = (double)(low[0] + odd[0]);                                           \
        *most = (double)(high[0] + odd[0]);                                           \
    }
EXTREMES(extremes_f32, float)
EXTREMES(extremes_f64, double)

/* The least and greatest element of x, dense and f32 or f64; NaN where an element is
 * not finite, which no range may have. */
static void extremes(const td_tensor *x, double *least, double *most) {
    if (x->dtype == TD_F32) extremes_f32(td__ptr(x), x->numel, least, most);
    else extremes_f64(td__ptr(x), x->numel, least, most);
}

/* v as the dtype represents it. */
static double rounded(td_dtype dt, double v) {
    char item[8];
    td__store_f(dt, item, v);
    return td__load_f(dt, item);
}

/* Sets the bounds where they are equal: those of the elements, or `more` to each side
 * of a single value. Fails unless they are finite and in order. */
static bool choose_bounds(td_opcall *c, const td_tensor *x, range *r, double more) {
    if (r->left == r->right && x->numel > 0) extremes(x, &r->left, &r->right);
    if (r->left == r->right) r->left -= more, r->right += more;
    if (!isfinite(r->left) || !isfinite(r->right) || r->left > r->right)
        return td__op_fail(c, TD_E_ARG,
                           "the range from %g to %g must be finite, and min not above "
                           "max",
                           r->left, r->right);
    r->left = rounded(r->dt, r->left);
    r->right = rounded(r->dt, r->right);
    return true;
}

/* in: self, bins, min, max. */
bool td__kern_histc(td_opcall *c) {
    td_tensor *self = td__in(c, 0);
    td_dtype   dt = (td_dtype)self->dtype;
    range      r = {rounded(dt, td__in_f(c, 2)), rounded(dt, td__in_f(c, 3)),
                    td__in_int(c, 1), dt};
    td_tensor *x = td__dense_as(self, td__wide_dtype(dt));
    table      t;
    bool       ok = x && choose_bounds(c, x, &r, 1) && table_make(c->cx, &t, r.bins);
    if (ok) {
        count_elements(&r, x, &t);
        table_store(&t, c->out[0]);
        table_drop(&t);
    }
    td__dense_drop(x, self);
    return ok;
}

/* ---- histogram ---------------------------------------------------------- */

/* in: self, bins, min, max. From the left up to the middle, from the right after it,
 * as linspace. */
bool td__kern_histogram_edges(td_opcall *c) {
    td_tensor *self = td__in(c, 0), *out = c->out[0];
    td_dtype   dt = (td_dtype)self->dtype;
    bool       given = !td__in_none(c, 2) && !td__in_none(c, 3);
    range      r = {0, 0, td__in_int(c, 1), dt};
    if (given) r.left = td__in_f(c, 2), r.right = td__in_f(c, 3);
    else if (self->numel == 0) r.right = 1;
    td_tensor *x = td__dense_as(self, td__wide_dtype(dt));
    bool       ok = x != NULL;
    if (ok && !given && self->numel > 0) extremes(x, &r.left, &r.right);
    /* bounds that are equal here are a single value, whatever the elements are */
    if (ok && r.left == r.right) r.left -= 0.5, r.right += 0.5;
    ok = ok && choose_bounds(c, x, &r, 0.5);
    double step = (r.right - r.left) / (double)r.bins;
    float  step32 = ((float)r.right - (float)r.left) / (float)r.bins;
    for (int64_t i = 0; ok && i <= r.bins; i++) {
        bool    head = i < (r.bins + 1) / 2;
        int64_t k = head ? i : i - r.bins;
        double  from = head ? r.left : r.right;
        double  v = dt == TD_F64 ? fma(step, (double)k, from)
                                 : (double)fmaf(step32, (float)k, (float)from);
        td__store_f(dt, td__ptr(out) + i * td__dtype_bytes[dt], v);
    }
    td__dense_drop(x, self);
    return ok;
}

/* The interval of x among n edges: the first edge above x is searched for from `low`
 * to `high`. The right end belongs to the last interval; n - 1: x is outside. */
static int64_t interval(const double *edge, int64_t n, int64_t low, int64_t high,
                        double x) {
    if (!(x >= edge[0] && x <= edge[n - 1])) return n - 1;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (edge[mid] > x) high = mid;
        else low = mid + 1;
    }
    int64_t at = low - 1;
    return at >= n - 1 ? n - 2 : at < 0 ? 0 : at;
}

/* in: self, edges, weight or none, even. Of intervals of one width the position is
 * computed, then corrected by a search among the edges beside it. */
bool td__kern_histogram(td_opcall *c) {
    td_tensor *self = td__in(c, 0), *weight = td__in(c, 2);
    td_tensor *x = td__dense_as(self, TD_F64), *e = td__dense_as(td__in(c, 1), TD_F64);
    td_tensor *w = weight ? td__dense_as(weight, TD_F64) : NULL;
    bool       ok = x && e && (w || !weight);
    int64_t    n = td__in(c, 1)->numel;
    size_t     bytes = (size_t)n * sizeof(double);
    double    *sum = ok ? td__block_alloc(bytes) : NULL;
    if (ok && !sum) ok = td__fail_memory(c->cx);
    if (ok) {
        const double *v = (const double *)(const void *)td__ptr(x);
        const double *edge = (const double *)(const void *)td__ptr(e);
        const double *by = w ? (const double *)(const void *)td__ptr(w) : NULL;
        range         r = {edge[0], edge[n - 1], n - 1, TD_F64};
        memset(sum, 0, bytes);
        for (int64_t i = 0; i < x->numel; i++) {
            int64_t low = 0, high = n;
            int32_t at;
            if (td__in_bool(c, 3)) {
                positions_f64(&r, v + i, 1, &at);
                low = at > 0 ? at - 1 : 0;
                high = at + 2 < n ? at + 2 : n;
            }
            sum[interval(edge, n, low, high, v[i])] += by ? by[i] : 1;
        }
        td_dtype dt = (td_dtype)self->dtype;
        td__cast_run(n - 1, dt, td__ptr(c->out[0]), TD_F64, sum);
        td__cast_run(n, dt, td__ptr(c->out[1]), TD_F64, edge);
        td__block_free(sum, bytes);
    }
    td__dense_drop(x, self);
    td__dense_drop(e, td__in(c, 1));
    td__dense_drop(w, weight);
    return ok;
}
