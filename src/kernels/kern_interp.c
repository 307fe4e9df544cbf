/* kern_interp.c -- resampling by weights: linear, cubic, and both with filters that
 * widen where the result is smaller. Each dim has a table of taps, the elements that a
 * place of the result sums and their weights; rows are summed first, then along each
 * row. The loops are in interp_loops.inc. */
#include "kernels/interp.h"

#include <math.h>
#include <string.h>

/* The taps of one dim: place i has count[i] of them, from entry i * most on. */
typedef struct taps {
    int64_t  most;
    bool     pairs; /* every place has two */
    int32_t *at, *count;
    float   *weight_f32;
    double  *weight_f64;
} taps;

/* What the loops take: the taps of [d,h,w], and a row per volume to work in. */
typedef struct interp {
    taps  axis[3];
    void *rows;
} interp;

#define T float
#define NAME(what) what##_f32
#include "kernels/interp_loops.inc"
#define T double
#define NAME(what) what##_f64
#include "kernels/interp_loops.inc"

/* ---- places ------------------------------------------------------------- */

/* The result of one operation on values of the elements' precision. */
static double rounded(double v, bool wide) { return wide ? v : (double)(float)v; }

double td__axis_step(const td_axis *a, bool wide, bool align_corners) {
    if (align_corners)
        return a->to > 1 ? rounded((double)(a->from - 1) / (double)(a->to - 1), wide)
                         : 0;
    return rounded(a->scale > 0 ? 1 / a->scale : (double)a->from / (double)a->to, wide);
}

double td__axis_source(double step, int64_t i, bool wide, bool align_corners,
                       bool cubic) {
    if (align_corners) return rounded(step * (double)i, wide);
    double at = rounded(rounded(step * ((double)i + 0.5), wide) - 0.5, wide);
    return at < 0 && !cubic ? 0 : at;
}

/* ---- taps --------------------------------------------------------------- */

static int64_t clamped(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

/* Entry k of place i. */
static void put(taps *t, int64_t i, int64_t k, int64_t at, double weight) {
    t->at[i * t->most + k] = (int32_t)at;
    t->weight_f32[i * t->most + k] = (float)weight;
    t->weight_f64[i * t->most + k] = weight;
}

/* Cubic convolution: the weight of an element x away, for the parameter a. */
static double cubic(double x, double a) {
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/* A place of a source as a number from 0 to n; a given scale may make it infinite. */
static int64_t bounded(double at, int64_t n) {
    return at >= (double)n ? n : at > 0 ? (int64_t)at : 0;
}

/* The place before, and how far behind it the source is, which is at least -1. */
static int64_t place(double source, int64_t n, double *beyond) {
    int64_t at = bounded(floor(source) + 1, n) - 1;
    *beyond = source - (double)at;
    if (*beyond < 0) *beyond = 0;
    if (*beyond > 1) *beyond = 1;
    return at;
}

/* Two neighbours; equal sizes keep every element. */
static void linear_taps(taps *t, const td_axis *a, bool align, bool wide) {
    double step = td__axis_step(a, wide, align);
    for (int64_t i = 0; i < a->to; i++) {
        double  far = 0;
        int64_t at =
            a->to == a->from
                ? i
                : place(td__axis_source(step, i, wide, align, false), a->from, &far);
        far = rounded(far, wide);
        put(t, i, 0, at, rounded(1 - far, wide));
        put(t, i, 1, clamped(at + 1, a->from), far);
        t->count[i] = 2;
    }
}

/* Four neighbours, those outside being the ends. */
static void cubic_taps(taps *t, const td_axis *a, bool align, bool wide) {
    double step = td__axis_step(a, wide, align), far;
    for (int64_t i = 0; i < a->to; i++) {
        int64_t at = place(td__axis_source(step, i, wide, align, true), a->from, &far);
        for (int k = 0; k < 4; k++)
            put(t, i, k, clamped(at - 1 + k, a->from), cubic(far + 1 - k, -0.75));
        t->count[i] = 4;
    }
}

/* All elements below a filter of `size` elements, which a step above 1 widens; the
 * weights add up to 1. A scale that does not fit the sizes leaves places without. */
static void filter_taps(taps *t, const td_axis *a, bool align, bool wide, int size) {
    double step = td__axis_step(a, wide, align), back = step >= 1 ? 1 / step : 1;
    double reach = step >= 1 ? size * 0.5 * step : size * 0.5;
    for (int64_t i = 0; i < a->to; i++) {
        double  middle = rounded(step * ((double)i + 0.5), wide), sum = 0, w;
        int64_t from = bounded(middle - reach + 0.5, a->from),
                to = bounded(middle + reach + 0.5, a->from);
        if (to - from > t->most) to = from + t->most;
        for (int pass = 0; pass < 2; pass++)
            for (int64_t k = from; k < to; k++) {
                double x = ((double)k - middle + 0.5) * back;
                w = size == 2 ? 1 - fabs(x) : cubic(x, -0.5);
                if (size == 2 && w < 0) w = 0;
                if (pass == 0) sum += w;
                else put(t, i, k - from, k, sum != 0 ? w / sum : w);
            }
        t->count[i] = (int32_t)(to - from);
    }
}

/* The most taps that a place of the axis has. */
static int64_t most_taps(const td_axis *a, td_resample_mode mode, bool align) {
    if (a->from == 1 && a->to == 1) return 1;
    if (mode == TD_RESAMPLE_LINEAR) return 2;
    if (mode == TD_RESAMPLE_CUBIC) return 4;
    double step = td__axis_step(a, true, align);
    double size = mode == TD_RESAMPLE_LINEAR_AA ? 2 : 4;
    double most = 2 * ceil(0.5 * size * (step >= 1 ? step : 1)) + 2;
    return most < (double)a->from ? (int64_t)most : a->from;
}

/* Tables in the call's scratch. A dim without extent keeps its element. */
static bool make_taps(td_opcall *c, taps *t, const td_axis *a, td_resample_mode mode,
                      bool align) {
    bool      wide = c->out[0]->dtype == TD_F64;
    td_arena *m = &c->cx->scratch;
    t->most = most_taps(a, mode, align);
    t->pairs = mode == TD_RESAMPLE_LINEAR && t->most == 2;
    size_t n = (size_t)(a->to * t->most + 1);
    t->at = td__arena_alloc(m, n * sizeof *t->at);
    t->count = td__arena_alloc(m, (size_t)(a->to + 1) * sizeof *t->count);
    t->weight_f32 = td__arena_alloc(m, n * sizeof *t->weight_f32);
    t->weight_f64 = td__arena_alloc(m, n * sizeof *t->weight_f64);
    if (!t->at || !t->count || !t->weight_f32 || !t->weight_f64)
        return td__fail_memory(c->cx);
    if (t->most == 1 && a->to == 1 && a->from == 1) {
        put(t, 0, 0, 0, 1);
        t->count[0] = 1;
    } else if (mode == TD_RESAMPLE_LINEAR) linear_taps(t, a, align, wide);
    else if (mode == TD_RESAMPLE_CUBIC) cubic_taps(t, a, align, wide);
    else filter_taps(t, a, align, wide, mode == TD_RESAMPLE_LINEAR_AA ? 2 : 4);
    return true;
}

/* ---- the run ------------------------------------------------------------ */

bool td__interp_run(td_opcall *c, const td_axis a[3], td_resample_mode mode,
                    bool align_corners, td_plane_dir dir) {
    static const td_plane_fns forward = {interp_forward_f32, interp_forward_f64, NULL};
    static const td_plane_fns backward = {interp_backward_f32, interp_backward_f64,
                                          NULL};
    const td_tensor          *out = c->out[0];
    interp                    m;
    td_planes                 p = {.d = a[0].from,
                                   .h = a[1].from,
                                   .w = a[2].from,
                                   .od = a[0].to,
                                   .oh = a[1].to,
                                   .ow = a[2].to};
    for (int d = 0; d < 3; d++) {
        if (a[d].from > INT32_MAX)
            return td__op_fail(c, TD_E_SHAPE, "sizes must be at most %d", INT32_MAX);
        if (!make_taps(c, &m.axis[d], &a[d], mode, align_corners)) return false;
    }
    p.n = out->size[0] * out->size[1];
    m.rows = td__arena_alloc(&c->cx->scratch, (size_t)(p.n * p.w + 1) * sizeof(double));
    p.more = &m;
    if (!m.rows) return td__fail_memory(c->cx);
    return td__planes_run(c, &p, dir, dir == TD_PLANES_FORWARD ? forward : backward,
                          NULL);
}
