/* kern_resample.c -- results whose elements are elements of the argument: nearest
 * resampling and padding. Tables say which, dim by dim. ATen has two rules of nearest
 * that round differently; both are here, used where it uses them, so that results agree
 * for every size. */
#include "kernels/interp.h"
#include "kernels/planes.h"
#include "rules/geom.h"

#include <math.h>
#include <string.h>

/* Places [from, to) of a result row are neighbours in the row they come from. */
typedef struct straight {
    int64_t from, to;
} straight;

#define T float
#define NAME(what) what##_f32
#include "kernels/resample_loops.inc"
#define T double
#define NAME(what) what##_f64
#include "kernels/resample_loops.inc"
#define T int64_t
#define NAME(what) what##_i64
#include "kernels/resample_loops.inc"

/* ---- where elements are from -------------------------------------------- */

/* The index, not beyond the last element. */
static int64_t inside(float at, int64_t size) {
    return at < (float)(size - 1) ? (int64_t)at : size - 1;
}

/* Equal and doubled sizes are exact, whatever the scale; all else is f32. */
static int64_t plain_source(const td_axis *a, int64_t i) {
    float step = a->scale > 0 ? (float)(1 / a->scale) : (float)a->from / (float)a->to;
    if (a->to == a->from) return i;
    if (a->to == 2 * a->from) return i / 2;
    return inside(floorf((float)i * step), a->from);
}

/* In the precision of the elements, no case exact; the product is cut to f32. */
static int64_t generic_source(const td_axis *a, int64_t i, bool wide) {
    double step = a->scale > 0 ? 1 / a->scale : (double)a->from / (double)a->to;
    float  slim = a->scale > 0 ? (float)step : (float)a->from / (float)a->to;
    float  at = wide ? (float)((double)i * step) : (float)i * slim;
    return inside(floorf(at), a->from);
}

/* The element whose middle is nearest. `seen`: as forward rounds, in the precision of
 * the elements; else as backward does, in f32. */
static int64_t exact_source(const td_axis *a, int64_t i, bool wide, bool seen) {
    double step = td__axis_step(a, wide, false);
    if (!seen) {
        step = td__axis_step(a, false, false);
        return inside(floorf((float)(((double)i + 0.5) * step)), a->from);
    }
    return inside(floorf((float)(td__axis_source(step, i, wide, false, false) + 0.5)),
                  a->from);
}

typedef enum rule { PLAIN, GENERIC, EXACT, EXACT_BACKWARD } rule;

/* For each index of the result the index it is read from; lives in the call's
 * scratch. */
static int64_t *sources(td_opcall *c, const td_axis *a, rule by) {
    bool     wide = c->out[0]->dtype == TD_F64;
    int64_t *at = td__arena_alloc(&c->cx->scratch, sizeof *at * (size_t)(a->to + 1));
    if (!at) return (void)td__fail_memory(c->cx), NULL;
    for (int64_t i = 0; i < a->to; i++)
        at[i] = by == PLAIN     ? plain_source(a, i)
                : by == GENERIC ? generic_source(a, i, wide)
                                : exact_source(a, i, wide, by == EXACT);
    return at;
}

/* The longest run of neighbours, where it is worth a copy of its own. */
static straight longest_run(const int64_t *at, int64_t n) {
    straight best = {0, 0};
    for (int64_t i = 0, from = 0; i < n; i++) {
        if (i > 0 && at[i] != at[i - 1] + 1) from = i;
        if (i + 1 - from > best.to - best.from) best = (straight){from, i + 1};
    }
    return best.to - best.from >= 8 ? best : (straight){0, 0};
}

/* Sizes and tables are in p. */
static bool run_tables(td_opcall *c, td_planes *p, td_plane_dir dir) {
    static const td_plane_fns forward = {nearest_forward_f32, nearest_forward_f64,
                                         nearest_forward_i64};
    static const td_plane_fns backward = {nearest_backward_f32, nearest_backward_f64,
                                          nearest_backward_i64};
    if (!p->deep || !p->row || !p->col) return false;
    straight s = longest_run(p->col, p->ow);
    p->more = &s;
    bool ok =
        td__planes_run(c, p, dir, dir == TD_PLANES_FORWARD ? forward : backward, NULL);
    p->more = NULL;
    return ok;
}

/* The axes, of volumes [d,h,w]. */
static bool resample(td_opcall *c, const td_axis a[3], td_plane_dir dir, rule by) {
    const td_tensor *x = c->out[0];
    td_planes        p = {.d = a[0].from,
                          .h = a[1].from,
                          .w = a[2].from,
                          .od = a[0].to,
                          .oh = a[1].to,
                          .ow = a[2].to};
    p.n = x->size[0] * x->size[1];
    p.deep = sources(c, &a[0], by);
    p.row = sources(c, &a[1], by);
    p.col = sources(c, &a[2], by);
    return run_tables(c, &p, dir);
}

/* ---- kernels ------------------------------------------------------------ */

/* The scale argument; 0: none was given. */
static double scale_of(const td_opcall *c, int i) {
    return td__in_none(c, i) ? 0 : td__in_f(c, i);
}

/* ATen's plain kernel takes many channels that lie together, and small results. */
static bool is_generic(const td_tensor *x, const td_tensor *out) {
    int64_t step[4];
    bool    together = x->size[1] > 3;
    td__strides_channels_last(4, x->size, step);
    for (int d = 0; together && d < 4; d++)
        together = x->size[d] == 1 || x->stride[d] == step[d];
    return !together && out->size[2] + out->size[3] > 128;
}

/* in: self, output_size, scales_h, scales_w. */
bool td__kern_upsample2d(td_opcall *c) {
    const td_tensor *x = td__in(c, 0), *out = c->out[0];
    td_axis          a[3] = {{1, 1, 0},
                             {x->size[2], out->size[2], scale_of(c, 2)},
                             {x->size[3], out->size[3], scale_of(c, 3)}};
    return resample(c, a, TD_PLANES_FORWARD, is_generic(x, out) ? GENERIC : PLAIN);
}

/* in: grad_output, output_size, input_size, scales_h, scales_w. Always the plain rule,
 * as in ATen. */
bool td__kern_upsample2d_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0), *out = c->out[0];
    td_axis          a[3] = {{1, 1, 0},
                             {out->size[2], g->size[2], scale_of(c, 3)},
                             {out->size[3], g->size[3], scale_of(c, 4)}};
    return resample(c, a, TD_PLANES_BACKWARD, PLAIN);
}

bool td__kern_upsample1d(td_opcall *c) {
    const td_tensor *x = td__in(c, 0), *out = c->out[0];
    td_axis a[3] = {{1, 1, 0}, {1, 1, 0}, {x->size[2], out->size[2], scale_of(c, 2)}};
    return resample(c, a, TD_PLANES_FORWARD, GENERIC);
}

bool td__kern_upsample1d_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0), *out = c->out[0];
    td_axis a[3] = {{1, 1, 0}, {1, 1, 0}, {out->size[2], g->size[2], scale_of(c, 3)}};
    return resample(c, a, TD_PLANES_BACKWARD, PLAIN);
}

/* The axes of the last `spatial` dims; scales from argument `at` on, depth first.
 * Antialiasing leaves an axis whose size does not change, whatever the scale. */
static void read_axes(const td_opcall *c, const td_tensor *from, const td_tensor *to,
                      int at, td_resample_mode mode, td_axis a[3]) {
    bool aa = mode == TD_RESAMPLE_LINEAR_AA || mode == TD_RESAMPLE_CUBIC_AA;
    int  spatial = from->rank - 2;
    for (int d = 0; d < 3; d++) {
        int k = 2 + d - (3 - spatial);
        a[d] = (td_axis){1, 1, 0};
        if (k >= 2) a[d] = (td_axis){from->size[k], to->size[k], scale_of(c, at + d)};
        if (aa && a[d].from == a[d].to) a[d].scale = 0;
    }
}

/* in: self, output_size, mode, align_corners, scales. */
bool td__kern_resample(td_opcall *c) {
    const td_tensor *x = td__in(c, 0), *out = c->out[0];
    td_axis          a[3];
    td_resample_mode mode;
    if (!td__resample_mode(c, 2, &mode)) return false;
    read_axes(c, x, out, 4, mode, a);
    bool many = x->rank == 5 && x->size[1] > 3 && !td_is_contiguous(x) &&
                td__is_channels_last(x);
    if (mode == TD_RESAMPLE_NEAREST)
        return resample(c, a, TD_PLANES_FORWARD, many ? PLAIN : GENERIC);
    if (mode == TD_RESAMPLE_EXACT) return resample(c, a, TD_PLANES_FORWARD, EXACT);
    return td__interp_run(c, a, mode, td__in_bool(c, 3), TD_PLANES_FORWARD);
}

/* in: grad_output, output_size, input_size, mode, align_corners, scales. */
bool td__kern_resample_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0), *out = c->out[0];
    td_axis          a[3];
    td_resample_mode mode;
    if (!td__resample_mode(c, 3, &mode)) return false;
    read_axes(c, out, g, 5, mode, a);
    if (mode == TD_RESAMPLE_NEAREST) return resample(c, a, TD_PLANES_BACKWARD, PLAIN);
    if (mode == TD_RESAMPLE_EXACT)
        return resample(c, a, TD_PLANES_BACKWARD, EXACT_BACKWARD);
    return td__interp_run(c, a, mode, td__in_bool(c, 4), TD_PLANES_BACKWARD);
}

/* ---- padding ------------------------------------------------------------ */

/* Circular: what negative padding leaves of the n elements repeats. */
static int64_t around(int64_t i, int64_t left, int64_t right, int64_t n) {
    int64_t from = left < 0 ? -left : 0, m = n - from + (right < 0 ? right : 0);
    int64_t at = (i - (left > 0 ? left : 0)) % m;
    return from + (at < 0 ? at + m : at);
}

/* The place that place i of a row of n padded by `left` shows. */
static int64_t shown(char mode, int64_t i, int64_t left, int64_t n) {
    int64_t at = i - left;
    if (mode == 'e') return at < 0 ? 0 : at >= n ? n - 1 : at; /* edges */
    return at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;     /* reflected */
}

/* in: padding and mode are arguments `at` and at + 1; `from` is padded to `to`. */
static bool pad(td_opcall *c, const td_tensor *from, const td_tensor *to, int at,
                td_plane_dir dir) {
    td_value    v = c->in[at];
    const char *name = c->in[at + 1].u.s;
    char        mode = name[0] == 'c' ? 'c' : name[2] == 'p' ? 'e' : 'r';
    int         spatial = (int)v.n / 2, first = from->rank - spatial;
    int64_t    *table[3];
    td_planes   p = {.n = 1};
    for (int d = 0; d < first; d++) p.n *= from->size[d];
    for (int k = 0; k < 3; k++) {
        int     d = first + k - (3 - spatial);
        bool    has = k >= 3 - spatial;
        int64_t n = has ? from->size[d] : 1, m = has ? to->size[d] : 1;
        table[k] = td__arena_alloc(&c->cx->scratch, sizeof *table[k] * (size_t)(m + 1));
        if (!table[k]) return td__fail_memory(c->cx);
        int64_t left = has ? v.u.ints[2 * (from->rank - 1 - d)] : 0;
        for (int64_t i = 0; i < m; i++)
            table[k][i] = mode == 'c' ? around(i, left, m - n - left, n)
                                      : shown(mode, i, left, n);
        *(k == 0 ? &p.d : k == 1 ? &p.h : &p.w) = n;
        *(k == 0 ? &p.od : k == 1 ? &p.oh : &p.ow) = m;
    }
    p.deep = table[0], p.row = table[1], p.col = table[2];
    return run_tables(c, &p, dir);
}

/* in: self, padding, mode. */
bool td__kern_pad_edge(td_opcall *c) {
    return pad(c, td__in(c, 0), c->out[0], 1, TD_PLANES_FORWARD);
}

/* in: grad_output, input_size, padding, mode. */
bool td__kern_pad_edge_backward(td_opcall *c) {
    return pad(c, c->out[0], td__in(c, 0), 2, TD_PLANES_BACKWARD);
}
