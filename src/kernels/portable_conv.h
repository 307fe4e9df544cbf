/* portable_conv.h -- convolutions and pools of portable.h, with the same contract. */
#ifndef TD_OPS_PORTABLE_CONV_H
#define TD_OPS_PORTABLE_CONV_H

#include "kernels/portable_index.h"

/* Entry k of a list of one or two numbers; an empty one gives `none`. */
TD_M int64_t td_c_pick(td_c_ints v, int k, int64_t none) {
    return v.n == 0 ? none : v.v[v.n == 1 ? 0 : k];
}

/* Strides, padding and dilation of rows and columns; channels of a group. */
typedef struct td_c_window {
    int64_t step[2], pad[2], gap[2], ins, outs;
} td_c_window;

/* lists: strides, padding, dilation. */
TD_M td_c_window td_c_windows(const td_c_array *weight, const td_c_ints *lists,
                              int64_t groups) {
    td_c_window w;
    for (int k = 0; k < 2; k++) {
        w.step[k] = td_c_pick(lists[0], k, 1);
        w.pad[k] = td_c_pick(lists[1], k, 0);
        w.gap[k] = td_c_pick(lists[2], k, 1);
    }
    w.ins = weight->size[1];
    w.outs = weight->size[0] / groups;
    return w;
}

TD_M float *td_c_at4_f32(const td_c_array *a, int64_t n, int64_t c, int64_t y,
                         int64_t x) {
    return (float *)(void *)(a->at + (n * a->stride[0] + c * a->stride[1] +
                                      y * a->stride[2] + x * a->stride[3]) *
                                         a->item);
}

/* ---- convolutions ---------------------------------------------------------- */

/* The rows of a small image and a large one that meet at row y of the small one and
 * tap (u, v) of the weight: column x of the small one meets x * step of the large. */
typedef struct td_c_meet_f32 {
    float  *small, *large;
    int64_t from, to, s, t; /* columns of the small one; steps in both */
} td_c_meet_f32;

/* k: image, channel of the small one, channel of the large one, row y, u, v. */
TD_M td_c_meet_f32 td_c_meet_of_f32(const td_c_array *small, const td_c_array *large,
                                    const td_c_window *g, const int64_t *k) {
    td_c_meet_f32 m = {0, 0, 0, 0, small->stride[3], large->stride[3] * g->step[1]};
    int64_t       y = k[3] * g->step[0] - g->pad[0] + k[4] * g->gap[0];
    int64_t       off = k[5] * g->gap[1] - g->pad[1], n = large->size[3];
    if (y < 0 || y >= large->size[2]) return m;
    m.from = off >= 0 ? 0 : (-off + g->step[1] - 1) / g->step[1];
    m.to = off >= n ? 0 : (n - off + g->step[1] - 1) / g->step[1];
    if (m.to > small->size[3]) m.to = small->size[3];
    m.small = td_c_at4_f32(small, k[0], k[1], k[3], 0);
    m.large = td_c_at4_f32(large, k[0], k[2], y, off);
    return m;
}

/* Adds the taps of channel c to row y of channel o. */
TD_M void td_c_taps_f32(const td_c_array *in, const td_c_array *w, const td_c_window *g,
                        int64_t *k, const td_c_array *to) {
    int64_t c = k[2] - k[1] / g->outs * g->ins;
    for (k[4] = 0; k[4] < w->size[2]; k[4]++)
        for (k[5] = 0; k[5] < w->size[3]; k[5]++) {
            td_c_meet_f32 m = td_c_meet_of_f32(to, in, g, k);
            const float   f = *td_c_at4_f32(w, k[1], c, k[4], k[5]);
            for (int64_t x = m.from; x < m.to; x++)
                m.small[x * m.s] += f * m.large[x * m.t];
        }
}

/* lists: stride, padding, dilation; n: groups. */
TD_M_RUN int td_c_convolution_f32(const td_c_array *input, const td_c_array *weight,
                                  const td_c_array *bias, const td_c_ints *lists,
                                  const int64_t *n, const td_c_array *to) {
    td_c_window g = td_c_windows(weight, lists, n[0]);
    int64_t     all = to->size[0] * to->size[1];
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int64_t e = 0; e < all; e++) {
        int64_t k[6] = {e / to->size[1], e % to->size[1], 0, 0, 0, 0};
        float   b = 0;
        if (bias)
            b = *(float *)(void *)(bias->at + k[1] * bias->stride[0] * bias->item);
        for (k[3] = 0; k[3] < to->size[2]; k[3]++) {
            int64_t first = k[1] / g.outs * g.ins;
            for (int64_t x = 0; x < to->size[3]; x++)
                *td_c_at4_f32(to, k[0], k[1], k[3], x) = b;
            for (k[2] = first; k[2] < first + g.ins; k[2]++)
                td_c_taps_f32(input, weight, &g, k, to);
        }
    }
    return 0;
}

TD_M_RUN void td_c_zero_f32(const td_c_array *to) {
    int64_t i[8] = {0};
    if (td_c_count(to) == 0) return;
    do *(float *)(void *)td_c_at(to, i) = 0;
    while (td_c_next(i, to));
}

/* Spreads channel k[1] of the gradient of image k[0] over channel k[2]. */
TD_M void td_c_spread_f32(const td_c_array *grad, const td_c_array *w,
                          const td_c_window *g, int64_t *k, const td_c_array *to) {
    int64_t c = k[2] - k[1] / g->outs * g->ins, taps = w->size[2] * w->size[3];
    for (int64_t e = 0; e < taps; e++) {
        k[4] = e / w->size[3], k[5] = e % w->size[3];
        const float f = *td_c_at4_f32(w, k[1], c, k[4], k[5]);
        for (k[3] = 0; k[3] < grad->size[2]; k[3]++) {
            td_c_meet_f32 m = td_c_meet_of_f32(grad, to, g, k);
            for (int64_t x = m.from; x < m.to; x++)
                m.large[x * m.t] += f * m.small[x * m.s];
        }
    }
}

/* lists: input_size, stride, padding, dilation; n: groups. */
TD_M_RUN int td_c_conv_data_grad_f32(const td_c_array *grad, const td_c_array *weight,
                                     const td_c_ints *lists, const int64_t *n,
                                     const td_c_array *to) {
    td_c_window g = td_c_windows(weight, lists + 1, n[0]);
    td_c_zero_f32(to);
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int64_t e = 0; e < to->size[0]; e++) {
        int64_t k[6] = {e, 0, 0, 0, 0, 0};
        for (k[1] = 0; k[1] < grad->size[1]; k[1]++) {
            int64_t first = k[1] / g.outs * g.ins;
            for (k[2] = first; k[2] < first + g.ins; k[2]++)
                td_c_spread_f32(grad, weight, &g, k, to);
        }
    }
    return 0;
}

/* One element of the gradient of a weight: a sum over images, rows and columns. */
TD_M float td_c_weight_grad_f32(const td_c_array *grad, const td_c_array *in,
                                const td_c_window *g, int64_t *k) {
    float sum = 0;
    for (k[0] = 0; k[0] < grad->size[0]; k[0]++)
        for (k[3] = 0; k[3] < grad->size[2]; k[3]++) {
            td_c_meet_f32 m = td_c_meet_of_f32(grad, in, g, k);
            for (int64_t x = m.from; x < m.to; x++)
                sum += m.small[x * m.s] * m.large[x * m.t];
        }
    return sum;
}

/* lists: weight_size, stride, padding, dilation; n: groups. */
TD_M_RUN int td_c_conv_weight_grad_f32(const td_c_array *grad, const td_c_array *input,
                                       const td_c_ints *lists, const int64_t *n,
                                       const td_c_array *to) {
    td_c_window g = td_c_windows(to, lists + 1, n[0]);
    int64_t     all = td_c_count(to), cols = to->size[3], taps = to->size[2] * cols;
#ifdef _OPENMP
#pragma omp parallel for schedule(static)
#endif
    for (int64_t e = 0; e < all; e++) {
        int64_t o = e / taps / to->size[1], c = e / taps % to->size[1];
        int64_t k[6] = {0, o, o / g.outs * g.ins + c, 0, e % taps / cols, e % cols};
        *td_c_at4_f32(to, o, c, k[4], k[5]) = td_c_weight_grad_f32(grad, input, &g, k);
    }
    return 0;
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
    td_c_zero_f32(to);
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
