/* naive_reduce.c -- reductions, softmax and layer norm written as plain as can be:
 * what the fast paths are compared with. */
#include "kernels/reduce.h"

#include <math.h>

/* The map of a reduction, by its definition. */
static double mapped(const td_reduction *r, double x) {
    switch (r->map) {
    case TD_MAP_ABS: return fabs(x);
    case TD_MAP_SQUARE: return x * x;
    case TD_MAP_NONZERO: return x != 0;
    case TD_MAP_NAN0: return isnan(x) ? 0 : x;
    case TD_MAP_POW: return pow(fabs(x), r->power);
    default: return x;
    }
}

/* The operation of a reduction; NaN wins in maxima and minima. */
static double combined(td_red op, double a, double x) {
    switch (op) {
    case TD_RED_SUM: return a + x;
    case TD_RED_PROD: return a * x;
    case TD_RED_MAX: return x > a || isnan(x) ? x : a;
    default: return x < a || isnan(x) ? x : a;
    }
}

void td__naive_reduce(const td_reduction *r, double *by_place) {
    static const double unit[] = {0, 1, -INFINITY, INFINITY};
    int64_t             size = td__dtype_bytes[r->in];
    for (int64_t p = 0; p < r->w.outs; p++) {
        double a = unit[r->op];
        for (int64_t i = 0; i < r->w.reds; i++) {
            int64_t at = td__walk_in(&r->w, p) + td__walk_red(&r->w, i);
            a = combined(r->op, a, mapped(r, td__load_f(r->in, r->src + at * size)));
        }
        by_place[p] = a;
    }
}

void td__naive_softmax(const double *x, int64_t n, int64_t step, bool log_of,
                       double *y) {
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++) max = x[i * step] > max ? x[i * step] : max;
    for (int64_t i = 0; i < n; i++) sum += exp(x[i * step] - max);
    for (int64_t i = 0; i < n; i++)
        y[i * step] =
            log_of ? x[i * step] - max - log(sum) : exp(x[i * step] - max) / sum;
}

void td__naive_layer_norm(const double *x, int64_t n, double eps, double *y) {
    double mean = 0, var = 0;
    for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) var += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) / sqrt(var + eps);
}
