/* kern_resample.c -- nearest resampling: which element each result element is from.
 * ATen has two rules that round differently; both are here, used where it uses
 * them, so that results agree for every size. */
#include "rules/geom.h"
#include "kernels/planes.h"

#include <math.h>
#include <string.h>

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

/* One dim: its sizes before and after, and the scale the caller gave, else 0. */
typedef struct axis {
    int64_t from, to;
    double  scale;
} axis;

/* The index, not beyond the last element. */
static int64_t inside(float at, int64_t size) {
    return at < (float)(size - 1) ? (int64_t)at : size - 1;
}

/* Equal and doubled sizes are exact, whatever the scale; all else is f32. */
static int64_t plain_source(const axis *a, int64_t i) {
    float step = a->scale > 0 ? (float)(1 / a->scale) : (float)a->from / (float)a->to;
    if (a->to == a->from) return i;
    if (a->to == 2 * a->from) return i / 2;
    return inside(floorf((float)i * step), a->from);
}

/* In the precision of the elements, no case exact; the product is cut to f32. */
static int64_t generic_source(const axis *a, int64_t i, bool wide) {
    double step = a->scale > 0 ? 1 / a->scale : (double)a->from / (double)a->to;
    float  slim = a->scale > 0 ? (float)step : (float)a->from / (float)a->to;
    float  at = wide ? (float)((double)i * step) : (float)i * slim;
    return inside(floorf(at), a->from);
}

/* For each index of the result the index it is read from; lives in the call's
 * scratch. */
static int64_t *sources(td_opcall *c, const axis *a, bool generic) {
    bool     wide = c->out[0]->dtype == TD_F64;
    int64_t *at = td__arena_alloc(&c->cx->scratch, sizeof *at * (size_t)a->to);
    if (!at) return (void)td__fail_memory(c->cx), NULL;
    for (int64_t i = 0; i < a->to; i++)
        at[i] = generic ? generic_source(a, i, wide) : plain_source(a, i);
    return at;
}

static bool resample(td_opcall *c, const axis *h, const axis *w, td_plane_dir dir,
                     bool generic) {
    static const td_plane_fns forward = {nearest_forward_f32, nearest_forward_f64,
                                         nearest_forward_i64};
    static const td_plane_fns backward = {nearest_backward_f32, nearest_backward_f64,
                                          nearest_backward_i64};
    const td_tensor          *x = c->out[0];
    td_planes p = {.h = h->from, .w = w->from, .oh = h->to, .ow = w->to};
    p.n = x->size[0] * x->size[1];
    p.row = sources(c, h, generic);
    p.col = sources(c, w, generic);
    return p.row && p.col &&
           td__planes_run(c, &p, dir, dir == TD_PLANES_FORWARD ? forward : backward,
                          NULL);
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
    axis             h = {x->size[2], out->size[2], scale_of(c, 2)};
    axis             w = {x->size[3], out->size[3], scale_of(c, 3)};
    return resample(c, &h, &w, TD_PLANES_FORWARD, is_generic(x, out));
}

/* in: grad_output, output_size, input_size, scales_h, scales_w. Always the plain rule,
 * as in ATen. */
bool td__kern_upsample2d_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0), *out = c->out[0];
    axis             h = {out->size[2], g->size[2], scale_of(c, 3)};
    axis             w = {out->size[3], g->size[3], scale_of(c, 4)};
    return resample(c, &h, &w, TD_PLANES_BACKWARD, false);
}

bool td__kern_upsample1d(td_opcall *c) {
    const td_tensor *x = td__in(c, 0), *out = c->out[0];
    axis             h = {1, 1, 0}, w = {x->size[2], out->size[2], scale_of(c, 2)};
    return resample(c, &h, &w, TD_PLANES_FORWARD, true);
}

bool td__kern_upsample1d_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0), *out = c->out[0];
    axis             h = {1, 1, 0}, w = {out->size[2], g->size[2], scale_of(c, 3)};
    return resample(c, &h, &w, TD_PLANES_BACKWARD, false);
}
