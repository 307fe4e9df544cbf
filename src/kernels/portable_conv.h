/* portable_conv.h -- convolutions and pools of portable.h, with the same contract. */
#ifndef TD_OPS_PORTABLE_CONV_H
#define TD_OPS_PORTABLE_CONV_H

#include "kernels/portable_index.h"

/* Entry k of a list of one number for all dims or one for each; an empty one gives
 * `none`. */
TD_M int64_t td_c_pick(td_c_ints v, int k, int64_t none) {
    return v.n == 0 ? none : v.v[v.n == 1 ? 0 : k];
}

/* [N,C,W] and [N,C,H,W] as [N,C,D,H,W] with sizes of 1. */
TD_M td_c_array td_c_volumes(const td_c_array *a) {
    td_c_array b = *a;
    int        more = 5 - a->rank;
    b.rank = 5;
    for (int d = 2; d < 5; d++) {
        b.size[d] = d - more < 2 ? 1 : a->size[d - more];
        b.stride[d] = d - more < 2 ? 0 : a->stride[d - more];
    }
    return b;
}

/* Strides, padding and dilation of depths, rows and columns; channels of a group. */
typedef struct td_c_window {
    int64_t step[3], pad[3], gap[3], ins, outs;
} td_c_window;

/* lists: strides, padding, dilation; rank: of the weight, 3 to 5. */
TD_M td_c_window td_c_windows(const td_c_array *weight, int rank,
                              const td_c_ints *lists, int64_t groups) {
    td_c_window w;
    for (int d = 0; d < 3; d++) {
        int k = d - (5 - rank);
        w.step[d] = k < 0 ? 1 : td_c_pick(lists[0], k, 1);
        w.pad[d] = k < 0 ? 0 : td_c_pick(lists[1], k, 0);
        w.gap[d] = k < 0 ? 1 : td_c_pick(lists[2], k, 1);
    }
    w.ins = weight->size[1];
    w.outs = weight->size[0] / groups;
    return w;
}

/* The element of image n and channel c at depth, row and column v[0], v[1] and x. */
TD_M float *td_c_at5_f32(const td_c_array *a, int64_t n, int64_t c, const int64_t *v,
                         int64_t x) {
    return (float *)(void *)(a->at + (n * a->stride[0] + c * a->stride[1] +
                                      v[0] * a->stride[2] + v[1] * a->stride[3] +
                                      x * a->stride[4]) *
                                         a->item);
}

/* ---- convolutions ---------------------------------------------------------- */

/* Where a sum of a convolution is: the image, the channels of the small side (the
 * convolution's output) and of the large side (its input), depth and row of the small
 * side, and the tap of the weight. */
typedef struct td_c_point {
    int64_t n, small, large, at[2], tap[3];
} td_c_point;

/* The rows of the small and the large side that meet at a point: column x of the small
 * side meets x * step of the large one. */
typedef struct td_c_meet_f32 {
    float  *small, *large;
    int64_t from, to, s, t; /* columns of the small side; strides of both */
} td_c_meet_f32;

TD_M td_c_meet_f32 td_c_meet_of_f32(const td_c_array *small, const td_c_array *large,
                                    const td_c_window *g, const td_c_point *p) {
    td_c_meet_f32 m = {0, 0, 0, 0, small->stride[4], large->stride[4] * g->step[2]};
    int64_t       off = p->tap[2] * g->gap[2] - g->pad[2], n = large->size[4], v[2];
    for (int d = 0; d < 2; d++) {
        v[d] = p->at[d] * g->step[d] - g->pad[d] + p->tap[d] * g->gap[d];
        if (v[d] < 0 || v[d] >= large->size[d + 2]) return m;
    }
    m.from = off >= 0 ? 0 : (-off + g->step[2] - 1) / g->step[2];
    m.to = off >= n ? 0 : (n - off + g->step[2] - 1) / g->step[2];
    if (m.to > small->size[4]) m.to = small->size[4];
    m.small = td_c_at5_f32(small, p->n, p->small, p->at, 0);
    m.large = td_c_at5_f32(large, p->n, p->large, v, off);
    return m;
}

/* Sets p->tap to tap e of the weight. */
TD_M void td_c_tap(td_c_point *p, const td_c_array *w, int64_t e) {
    p->tap[2] = e % w->size[4];
    p->tap[1] = e / w->size[4] % w->size[3];
    p->tap[0] = e / w->size[4] / w->size[3];
}

/* The element of the weight that p's tap has for p's channels. */
TD_M float *td_c_weight_at_f32(const td_c_array *w, const td_c_window *g,
                               const td_c_point *p) {
    int64_t c = p->large - p->small / g->outs * g->ins;
    return td_c_at5_f32(w, p->small, c, p->tap, p->tap[2]);
}

/* Adds the taps of p's large channel to a row of the small side. */
TD_M void td_c_taps_f32(const td_c_array *in, const td_c_array *w, const td_c_window *g,
                        td_c_point *p, const td_c_array *to) {
    int64_t taps = w->size[2] * w->size[3] * w->size[4];
    for (int64_t e = 0; e < taps; e++) {
        td_c_tap(p, w, e);
        td_c_meet_f32 m = td_c_meet_of_f32(to, in, g, p);
        const float   f = *td_c_weight_at_f32(w, g, p);
        for (int64_t x = m.from; x < m.to; x++)
            m.small[x * m.s] += f * m.large[x * m.t];
    }
}

/* The bias of channel c; 0 without one. */
TD_M float td_c_bias_f32(const td_c_array *bias, int64_t c) {
    return bias ? *(float *)(void *)(bias->at + c * bias->stride[0] * bias->item) : 0;
}

/* Computes channel p->small of image p->n. */
TD_M void td_c_channel_f32(const td_c_array *in, const td_c_array *w,
                           const td_c_array *bias, const td_c_window *g, td_c_point *p,
                           const td_c_array *to) {
    const float b = td_c_bias_f32(bias, p->small);
    int64_t     first = p->small / g->outs * g->ins;
    for (int64_t e = 0; e < to->size[2] * to->size[3]; e++) {
        p->at[0] = e / to->size[3], p->at[1] = e % to->size[3];
        for (int64_t x = 0; x < to->size[4]; x++)
            *td_c_at5_f32(to, p->n, p->small, p->at, x) = b;
        for (p->large = first; p->large < first + g->ins; p->large++)
            td_c_taps_f32(in, w, g, p, to);
    }
}

/* Spreads p's small channel of a gradient over p's large channel. */
TD_M void td_c_spread_f32(const td_c_array *grad, const td_c_array *w,
                          const td_c_window *g, td_c_point *p, const td_c_array *to) {
    int64_t taps = w->size[2] * w->size[3] * w->size[4];
    int64_t rows = grad->size[2] * grad->size[3];
    for (int64_t e = 0; e < taps; e++) {
        td_c_tap(p, w, e);
        const float f = *td_c_weight_at_f32(w, g, p);
        for (int64_t r = 0; r < rows; r++) {
            p->at[0] = r / grad->size[3], p->at[1] = r % grad->size[3];
            td_c_meet_f32 m = td_c_meet_of_f32(grad, to, g, p);
            for (int64_t x = m.from; x < m.to; x++)
                m.large[x * m.t] += f * m.small[x * m.s];
        }
    }
}

/* Sets the elements of every channel to its bias, or to 0 without one. */
TD_M_RUN void td_c_fill_bias_f32(const td_c_array *bias, const td_c_array *to) {
    int64_t i[8] = {0};
    if (td_c_count(to) == 0) return;
    do *(float *)(void *)td_c_at(to, i) = bias ? td_c_bias_f32(bias, i[1]) : 0;
    while (td_c_next(i, to));
}

/* A transposed convolution, which is also the gradient of the input of one: lists are
 * stride, padding, dilation. */
TD_M_RUN void td_c_transposed_f32(const td_c_array *grad, const td_c_array *weight,
                                  const td_c_array *bias, const td_c_ints *lists,
                                  int64_t groups, const td_c_array *to) {
    td_c_array  x = td_c_volumes(grad), w = td_c_volumes(weight), y = td_c_volumes(to);
    td_c_window g = td_c_windows(weight, weight->rank, lists, groups);
    td_c_fill_bias_f32(bias, to);
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int64_t e = 0; e < to->size[0]; e++) {
        td_c_point p = {0};
        p.n = e;
        for (p.small = 0; p.small < x.size[1]; p.small++) {
            int64_t first = p.small / g.outs * g.ins;
            for (p.large = first; p.large < first + g.ins; p.large++)
                td_c_spread_f32(&x, &w, &g, &p, &y);
        }
    }
}

/* lists: stride, padding, dilation, output_padding; n: transposed, groups. */
TD_M_RUN int td_c_convolution_f32(const td_c_array *input, const td_c_array *weight,
                                  const td_c_array *bias, const td_c_ints *lists,
                                  const int64_t *n, const td_c_array *to) {
    if (n[0]) return td_c_transposed_f32(input, weight, bias, lists, n[1], to), 0;
    td_c_array  x = td_c_volumes(input), w = td_c_volumes(weight), y = td_c_volumes(to);
    td_c_window g = td_c_windows(weight, weight->rank, lists, n[1]);
    int64_t     all = to->size[0] * to->size[1];
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int64_t e = 0; e < all; e++) {
        td_c_point p = {0};
        p.n = e / y.size[1], p.small = e % y.size[1];
        td_c_channel_f32(&x, &w, bias, &g, &p, &y);
    }
    return 0;
}

/* lists: input_size, stride, padding, dilation; n: groups. */
TD_M_RUN int td_c_conv_data_grad_f32(const td_c_array *grad, const td_c_array *weight,
                                     const td_c_ints *lists, const int64_t *n,
                                     const td_c_array *to) {
    td_c_transposed_f32(grad, weight, 0, lists + 1, n[0], to);
    return 0;
}

/* One element of the gradient of a weight: a sum over images, depths, rows, columns. */
TD_M float td_c_weight_grad_f32(const td_c_array *grad, const td_c_array *in,
                                const td_c_window *g, td_c_point *p) {
    float   sum = 0;
    int64_t rows = grad->size[2] * grad->size[3];
    for (p->n = 0; p->n < grad->size[0]; p->n++)
        for (int64_t r = 0; r < rows; r++) {
            p->at[0] = r / grad->size[3], p->at[1] = r % grad->size[3];
            td_c_meet_f32 m = td_c_meet_of_f32(grad, in, g, p);
            for (int64_t x = m.from; x < m.to; x++)
                sum += m.small[x * m.s] * m.large[x * m.t];
        }
    return sum;
}

/* lists: weight_size, stride, padding, dilation; n: groups. */
TD_M_RUN int td_c_conv_weight_grad_f32(const td_c_array *grad, const td_c_array *input,
                                       const td_c_ints *lists, const int64_t *n,
                                       const td_c_array *to) {
    td_c_array  x = td_c_volumes(grad), y = td_c_volumes(input), w = td_c_volumes(to);
    td_c_window g = td_c_windows(to, to->rank, lists + 1, n[0]);
    int64_t     all = td_c_count(to), taps = w.size[2] * w.size[3] * w.size[4];
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int64_t e = 0; e < all; e++) {
        td_c_point p = {0};
        p.small = e / taps / w.size[1];
        p.large = p.small / g.outs * g.ins + e / taps % w.size[1];
        td_c_tap(&p, &w, e % taps);
        *td_c_weight_at_f32(&w, &g, &p) = td_c_weight_grad_f32(&x, &y, &g, &p);
    }
    return 0;
}

/* The element of image n and channel c at row y and column x. */
TD_M float *td_c_at4_f32(const td_c_array *a, int64_t n, int64_t c, int64_t y,
                         int64_t x) {
    return (float *)(void *)(a->at + (n * a->stride[0] + c * a->stride[1] +
                                      y * a->stride[2] + x * a->stride[3]) *
                                         a->item);
}

/* ---- pools ---------------------------------------------------------------- */

/* [C,H,W] as [1,C,H,W]. */
TD_M td_c_array td_c_images(const td_c_array *a) {
    td_c_array b = *a;
    if (a->rank == 4) return b;
    b.rank = 4;
    b.size[0] = 1;
    b.stride[0] = 0;
    for (int d = 0; d < 3; d++)
        b.size[d + 1] = a->size[d], b.stride[d + 1] = a->stride[d];
    return b;
}

/* The greatest element of the window at index i, and its place in the plane. */
TD_M int64_t td_c_peak_f32(const td_c_array *a, const td_c_ints *lists,
                           const int64_t *i, float *best) {
    int64_t at = -1, high = td_c_pick(lists[0], 0, 1), wide = td_c_pick(lists[0], 1, 1);
    for (int64_t k = 0; k < high * wide; k++) {
        int64_t y = i[2] * td_c_pick(lists[1], 0, high) - td_c_pick(lists[2], 0, 0) +
                    k / wide * td_c_pick(lists[3], 0, 1);
        int64_t x = i[3] * td_c_pick(lists[1], 1, wide) - td_c_pick(lists[2], 1, 0) +
                    k % wide * td_c_pick(lists[3], 1, 1);
        if (y < 0 || y >= a->size[2] || x < 0 || x >= a->size[3]) continue;
        const float e = *td_c_at4_f32(a, i[0], i[1], y, x);
        if (at < 0 || e > *best || (TD_C_NAN_f32(e) && !TD_C_NAN_f32(*best)))
            *best = e, at = y * a->size[3] + x;
    }
    return at;
}

/* lists: kernel_size, stride, padding, dilation; n: ceil_mode. */
TD_M_RUN int td_c_max_pool2d_f32(const td_c_array *self, const td_c_ints *lists,
                                 const int64_t *n, const td_c_array *to,
                                 const td_c_array *places) {
    td_c_array a = td_c_images(self), b = td_c_images(to);
    td_c_array p = td_c_images(places ? places : to);
    int64_t    i[8] = {0};
    (void)n;
    if (td_c_count(&b) == 0) return 0;
    do {
        float   best = 0;
        int64_t at = td_c_peak_f32(&a, lists, i, &best);
        *(float *)(void *)td_c_at(&b, i) = best;
        if (places) __builtin_memcpy(td_c_at(&p, i), &at, 8);
    } while (td_c_next(i, &b));
    return 0;
}

TD_M_RUN int td_c_max_pool2d_backward_f32(const td_c_array *grad,
                                          const td_c_array *self,
                                          const td_c_array *places,
                                          const td_c_ints *lists, const int64_t *n,
                                          const td_c_array *to) {
    td_c_array g = td_c_images(grad), p = td_c_images(places), b = td_c_images(to);
    int64_t    i[8] = {0};
    (void)self, (void)lists, (void)n;
    td_c_fill_bias_f32(0, to);
    if (td_c_count(&g) == 0) return 0;
    do {
        int64_t at = td_c_index_at(&p, i), wide = b.size[3];
        if (at < 0 || at >= wide * b.size[2]) return 1;
        *td_c_at4_f32(&b, i[0], i[1], at / wide, at % wide) +=
            *(const float *)(const void *)td_c_at(&g, i);
    } while (td_c_next(i, &g));
    return 0;
}

#endif
