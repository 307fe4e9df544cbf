/* fold.h -- a run of elements to one: sum, product, greatest and least, for emitted C.
 * What is here for f32 is there for f64 and i64 too: gen_helpers.c puts their types and
 * names in its place, but for what they have of their own.
 *
 * Same contract as math.h: plain C11 of both compilers, pasted into emitted files. The
 * order of operations is that of reduce_op.inc, the same on every machine: four
 * vectors of 64 bytes side by side, combined in a fixed tree; sums are cut into blocks
 * of 64 vectors. So eager's rows and fused ones have equal sums. `how` is a td_fold
 * and a constant at every call, which leaves one of the four ways. */
#ifndef TD_OPS_FOLD_H
#define TD_OPS_FOLD_H

#include "kernels/math_bits.h"

/* Eight bytes move together. */
typedef int64_t td_fold_pairs __attribute__((vector_size(64)));

/* ---- what a fold of nothing gives ---------------------------------------- */

TD_M float td_fold_unit_f32(int how) {
    return how == 0   ? 0
           : how == 1 ? 1
           : how == 2 ? -__builtin_inff()
                      : __builtin_inff();
}

TD_M double td_fold_unit_f64(int how) {
    return how == 0 ? 0 : how == 1 ? 1 : how == 2 ? -__builtin_inf() : __builtin_inf();
}

TD_M int64_t td_fold_unit_i64(int how) {
    return how == 0 ? 0 : how == 1 ? 1 : how == 2 ? INT64_MIN : INT64_MAX;
}

/* ---- f32, and by it the others ------------------------------------------- */

typedef float   td_fold_v_f32 __attribute__((vector_size(64)));
typedef int32_t td_fold_b_f32 __attribute__((vector_size(64)));
/* Lanes. */
#define td_fold_n_f32 (64 / (int)sizeof(float))

/* Of two the greater or the lesser: a NaN, once met, stays. */
TD_M float td_fold_one_f32(int how, float a, float x) {
    if (how == 0) return a + x;
    if (how == 1) return a * x;
    int takes = how == 2 ? x > a : x < a;
    return (takes | (x != x)) ? x : a;
}

/* Integers have no NaN. */
TD_M int64_t td_fold_one_i64(int how, int64_t a, int64_t x) {
    if (how == 0) return a + x;
    if (how == 1) return a * x;
    return (how == 2 ? x > a : x < a) ? x : a;
}

TD_M void td_fold_step_f32(int how, td_fold_v_f32 *a, const td_fold_v_f32 *x) {
    if (how == 0) *a += *x;
    else if (how == 1) *a *= *x;
    else {
        td_fold_b_f32 m = (td_fold_b_f32)(how == 2 ? *x > *a : *x < *a);
        m |= (td_fold_b_f32)(*x != *x);
        *a = (td_fold_v_f32)(((td_fold_b_f32)*x & m) | ((td_fold_b_f32)*a & ~m));
    }
}

/* The lanes of four vectors to one, halving. */
TD_M float td_fold_lanes_f32(int how, td_fold_v_f32 *v) {
    td_fold_pairs p, q;
    td_fold_v_f32 x;
    float         lane[td_fold_n_f32];
    td_fold_step_f32(how, &v[0], &v[1]);
    td_fold_step_f32(how, &v[2], &v[3]);
    td_fold_step_f32(how, &v[0], &v[2]);
    p = (td_fold_pairs)v[0];
    q = __builtin_shufflevector(p, p, 4, 5, 6, 7, 0, 1, 2, 3);
    x = (td_fold_v_f32)q;
    td_fold_step_f32(how, &v[0], &x);
    p = (td_fold_pairs)v[0];
    q = __builtin_shufflevector(p, p, 2, 3, 0, 1, 6, 7, 4, 5);
    x = (td_fold_v_f32)q;
    td_fold_step_f32(how, &v[0], &x);
    p = (td_fold_pairs)v[0];
    q = __builtin_shufflevector(p, p, 1, 0, 3, 2, 5, 4, 7, 6);
    x = (td_fold_v_f32)q;
    td_fold_step_f32(how, &v[0], &x);
    __builtin_memcpy(lane, v, sizeof lane);
    return td_fold_n_f32 > 8 ? td_fold_one_f32(how, lane[0], lane[1]) : lane[0];
}

/* A block of at most n elements; a short tail is padded with the unit. It is copied,
 * not chosen by i < n: for a constant n and AVX-512, gcc 12 makes that a load of the
 * whole vector, which may reach into a page that is not there. */
TD_M float td_fold_block_f32(int how, const float *p, int64_t n) {
    td_fold_v_f32 v[4], x;
    float         pad[td_fold_n_f32], unit = td_fold_unit_f32(how);
    for (int k = 0; k < 4; k++) v[k] = (td_fold_v_f32){0} + unit;
    for (; n >= 4 * td_fold_n_f32; n -= 4 * td_fold_n_f32, p += 4 * td_fold_n_f32) {
        __builtin_memcpy(&x, p, sizeof x);
        td_fold_step_f32(how, &v[0], &x);
        __builtin_memcpy(&x, p + td_fold_n_f32, sizeof x);
        td_fold_step_f32(how, &v[1], &x);
        __builtin_memcpy(&x, p + 2 * td_fold_n_f32, sizeof x);
        td_fold_step_f32(how, &v[2], &x);
        __builtin_memcpy(&x, p + 3 * td_fold_n_f32, sizeof x);
        td_fold_step_f32(how, &v[3], &x);
    }
    for (; n >= td_fold_n_f32; n -= td_fold_n_f32, p += td_fold_n_f32) {
        __builtin_memcpy(&x, p, sizeof x);
        td_fold_step_f32(how, &v[0], &x);
    }
    if (n > 0) {
        for (int i = 0; i < td_fold_n_f32; i++) pad[i] = unit;
        __builtin_memcpy(pad, p, sizeof *p * (uint64_t)n);
        __builtin_memcpy(&x, pad, sizeof x);
        td_fold_step_f32(how, &v[1], &x);
    }
    return td_fold_lanes_f32(how, v);
}

/* a, then all n elements. */
TD_M float td_fold_run_f32(int how, const float *p, int64_t n, float a) {
    if (n < td_fold_n_f32 / 2) {
        for (int64_t i = 0; i < n; i++) a = td_fold_one_f32(how, a, p[i]);
        return a;
    }
    for (int64_t k; n > 0; n -= k, p += k) {
        k = how > 1 || n < 64 * td_fold_n_f32 ? n : 64 * td_fold_n_f32;
        a = td_fold_one_f32(how, a, td_fold_block_f32(how, p, k));
    }
    return a;
}

TD_M_RUN float td_fold_sum_f32(const float *p, int64_t n, float a) {
    return td_fold_run_f32(0, p, n, a);
}
TD_M_RUN float td_fold_prod_f32(const float *p, int64_t n, float a) {
    return td_fold_run_f32(1, p, n, a);
}
TD_M_RUN float td_fold_max_f32(const float *p, int64_t n, float a) {
    return td_fold_run_f32(2, p, n, a);
}
TD_M_RUN float td_fold_min_f32(const float *p, int64_t n, float a) {
    return td_fold_run_f32(3, p, n, a);
}

#endif
