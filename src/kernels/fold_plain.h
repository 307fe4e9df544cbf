/* fold_plain.h -- the folds of fold.h without vector types, for artefacts
 * (td_export_c): C99 that any compiler accepts. The order of operations is that of
 * fold.h, so both give the same bits. Twins for f64 and i64 as there. */
#ifndef TD_OPS_FOLD_PLAIN_H
#define TD_OPS_FOLD_PLAIN_H

#include "kernels/fold.h"

/* Lanes of one of the four accumulators. */
#define td_plain_n_f32 (64 / (int)sizeof(float))

TD_M void td_plain_step_f32(int how, float *a, const float *x) {
    for (int k = 0; k < td_plain_n_f32; k++) a[k] = td_fold_one_f32(how, a[k], x[k]);
}

/* The lanes of four accumulators to one, halving. */
TD_M float td_plain_lanes_f32(int how, float *v) {
    td_plain_step_f32(how, v, v + td_plain_n_f32);
    td_plain_step_f32(how, v + 2 * td_plain_n_f32, v + 3 * td_plain_n_f32);
    td_plain_step_f32(how, v, v + 2 * td_plain_n_f32);
    for (int half = td_plain_n_f32 / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++) v[k] = td_fold_one_f32(how, v[k], v[k + half]);
    return v[0];
}

/* A block of at most n elements; a short tail is padded with the unit. */
TD_M float td_plain_block_f32(int how, const float *p, int64_t n) {
    float v[4 * td_plain_n_f32], pad[td_plain_n_f32], unit = td_fold_unit_f32(how);
    for (int k = 0; k < 4 * td_plain_n_f32; k++) v[k] = unit;
    for (; n >= 4 * td_plain_n_f32; n -= 4 * td_plain_n_f32, p += 4 * td_plain_n_f32)
        for (int k = 0; k < 4; k++)
            td_plain_step_f32(how, v + k * td_plain_n_f32, p + k * td_plain_n_f32);
    for (; n >= td_plain_n_f32; n -= td_plain_n_f32, p += td_plain_n_f32)
        td_plain_step_f32(how, v, p);
    if (n > 0) {
        for (int k = 0; k < td_plain_n_f32; k++) pad[k] = k < n ? p[k] : unit;
        td_plain_step_f32(how, v + td_plain_n_f32, pad);
    }
    return td_plain_lanes_f32(how, v);
}

/* a, then all n elements. */
TD_M float td_plain_run_f32(int how, const float *p, int64_t n, float a) {
    if (n < td_plain_n_f32 / 2) {
        for (int64_t i = 0; i < n; i++) a = td_fold_one_f32(how, a, p[i]);
        return a;
    }
    for (int64_t k; n > 0; n -= k, p += k) {
        k = how > 1 || n < 64 * td_plain_n_f32 ? n : 64 * td_plain_n_f32;
        a = td_fold_one_f32(how, a, td_plain_block_f32(how, p, k));
    }
    return a;
}

TD_M_RUN float td_plain_sum_f32(const float *p, int64_t n, float a) {
    return td_plain_run_f32(0, p, n, a);
}
TD_M_RUN float td_plain_prod_f32(const float *p, int64_t n, float a) {
    return td_plain_run_f32(1, p, n, a);
}
TD_M_RUN float td_plain_max_f32(const float *p, int64_t n, float a) {
    return td_plain_run_f32(2, p, n, a);
}
TD_M_RUN float td_plain_min_f32(const float *p, int64_t n, float a) {
    return td_plain_run_f32(3, p, n, a);
}

#endif
