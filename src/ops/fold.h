/* fold.h -- a run of elements to one: sum, product, greatest and least, for emitted C.
 *
 * Same contract as math.h: plain C11 of both compilers, pasted into emitted files. The
 * order of operations is that of reduce_op.inc, the same on every machine: four
 * vectors of 64 bytes side by side, combined in a fixed tree; sums are cut into blocks
 * of 64 vectors. So eager's rows and fused ones have equal sums. `how` is a td_fold
 * and a constant at every call, which leaves one of the four ways. */
#ifndef TD_OPS_FOLD_H
#define TD_OPS_FOLD_H

#include "ops/math_bits.h"

/* Eight bytes move together. */
typedef int64_t td_fold_pairs __attribute__((vector_size(64)));

/* ---- f32 ---------------------------------------------------------------- */

typedef float   td_fold_v_f32 __attribute__((vector_size(64)));
typedef int32_t td_fold_b_f32 __attribute__((vector_size(64)));

/* What a fold of nothing gives. */
TD_M float td_fold_unit_f32(int how) {
    return how == 0   ? 0
           : how == 1 ? 1
           : how == 2 ? -__builtin_inff()
                      : __builtin_inff();
}

/* Of two the greater or the lesser: a NaN, once met, stays. */
TD_M float td_fold_one_f32(int how, float a, float x) {
    if (how == 0) return a + x;
    if (how == 1) return a * x;
    int takes = how == 2 ? x > a : x < a;
    return (takes | (x != x)) ? x : a;
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
    float         lane[16];
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
    return td_fold_one_f32(how, lane[0], lane[1]);
}

/* A block of at most n elements; a short tail is padded with the unit. */
TD_M float td_fold_block_f32(int how, const float *p, int64_t n) {
    td_fold_v_f32 v[4], x;
    float         pad[16], unit = td_fold_unit_f32(how);
    for (int k = 0; k < 4; k++) v[k] = (td_fold_v_f32){0} + unit;
    for (; n >= 64; n -= 64, p += 64) {
        __builtin_memcpy(&x, p, sizeof x);
        td_fold_step_f32(how, &v[0], &x);
        __builtin_memcpy(&x, p + 16, sizeof x);
        td_fold_step_f32(how, &v[1], &x);
        __builtin_memcpy(&x, p + 32, sizeof x);
        td_fold_step_f32(how, &v[2], &x);
        __builtin_memcpy(&x, p + 48, sizeof x);
        td_fold_step_f32(how, &v[3], &x);
    }
    for (; n >= 16; n -= 16, p += 16) {
        __builtin_memcpy(&x, p, sizeof x);
        td_fold_step_f32(how, &v[0], &x);
    }
    if (n > 0) {
        for (int i = 0; i < 16; i++) pad[i] = i < n ? p[i] : unit;
        __builtin_memcpy(&x, pad, sizeof x);
        td_fold_step_f32(how, &v[1], &x);
    }
    return td_fold_lanes_f32(how, v);
}

/* a, then all n elements. */
TD_M float td_fold_run_f32(int how, const float *p, int64_t n, float a) {
    if (n < 8) {
        for (int64_t i = 0; i < n; i++) a = td_fold_one_f32(how, a, p[i]);
        return a;
    }
    for (int64_t k; n > 0; n -= k, p += k) {
        k = how > 1 || n < 1024 ? n : 1024;
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

/* ---- f64 ---------------------------------------------------------------- */

typedef double  td_fold_v_f64 __attribute__((vector_size(64)));
typedef int64_t td_fold_b_f64 __attribute__((vector_size(64)));

/* What a fold of nothing gives. */
TD_M double td_fold_unit_f64(int how) {
    return how == 0 ? 0 : how == 1 ? 1 : how == 2 ? -__builtin_inf() : __builtin_inf();
}

/* Of two the greater or the lesser: a NaN, once met, stays. */
TD_M double td_fold_one_f64(int how, double a, double x) {
    if (how == 0) return a + x;
    if (how == 1) return a * x;
    int takes = how == 2 ? x > a : x < a;
    return (takes | (x != x)) ? x : a;
}

TD_M void td_fold_step_f64(int how, td_fold_v_f64 *a, const td_fold_v_f64 *x) {
    if (how == 0) *a += *x;
    else if (how == 1) *a *= *x;
    else {
        td_fold_b_f64 m = (td_fold_b_f64)(how == 2 ? *x > *a : *x < *a);
        m |= (td_fold_b_f64)(*x != *x);
        *a = (td_fold_v_f64)(((td_fold_b_f64)*x & m) | ((td_fold_b_f64)*a & ~m));
    }
}

/* The lanes of four vectors to one, halving. */
TD_M double td_fold_lanes_f64(int how, td_fold_v_f64 *v) {
    td_fold_pairs p, q;
    td_fold_v_f64 x;
    double        lane[8];
    td_fold_step_f64(how, &v[0], &v[1]);
    td_fold_step_f64(how, &v[2], &v[3]);
    td_fold_step_f64(how, &v[0], &v[2]);
    p = (td_fold_pairs)v[0];
    q = __builtin_shufflevector(p, p, 4, 5, 6, 7, 0, 1, 2, 3);
    x = (td_fold_v_f64)q;
    td_fold_step_f64(how, &v[0], &x);
    p = (td_fold_pairs)v[0];
    q = __builtin_shufflevector(p, p, 2, 3, 0, 1, 6, 7, 4, 5);
    x = (td_fold_v_f64)q;
    td_fold_step_f64(how, &v[0], &x);
    p = (td_fold_pairs)v[0];
    q = __builtin_shufflevector(p, p, 1, 0, 3, 2, 5, 4, 7, 6);
    x = (td_fold_v_f64)q;
    td_fold_step_f64(how, &v[0], &x);
    __builtin_memcpy(lane, v, sizeof lane);
    return lane[0];
}

/* A block of at most n elements; a short tail is padded with the unit. */
TD_M double td_fold_block_f64(int how, const double *p, int64_t n) {
    td_fold_v_f64 v[4], x;
    double        pad[8], unit = td_fold_unit_f64(how);
    for (int k = 0; k < 4; k++) v[k] = (td_fold_v_f64){0} + unit;
    for (; n >= 32; n -= 32, p += 32) {
        __builtin_memcpy(&x, p, sizeof x);
        td_fold_step_f64(how, &v[0], &x);
        __builtin_memcpy(&x, p + 8, sizeof x);
        td_fold_step_f64(how, &v[1], &x);
        __builtin_memcpy(&x, p + 16, sizeof x);
        td_fold_step_f64(how, &v[2], &x);
        __builtin_memcpy(&x, p + 24, sizeof x);
        td_fold_step_f64(how, &v[3], &x);
    }
    for (; n >= 8; n -= 8, p += 8) {
        __builtin_memcpy(&x, p, sizeof x);
        td_fold_step_f64(how, &v[0], &x);
    }
    if (n > 0) {
        for (int i = 0; i < 8; i++) pad[i] = i < n ? p[i] : unit;
        __builtin_memcpy(&x, pad, sizeof x);
        td_fold_step_f64(how, &v[1], &x);
    }
    return td_fold_lanes_f64(how, v);
}

/* a, then all n elements. */
TD_M double td_fold_run_f64(int how, const double *p, int64_t n, double a) {
    if (n < 4) {
        for (int64_t i = 0; i < n; i++) a = td_fold_one_f64(how, a, p[i]);
        return a;
    }
    for (int64_t k; n > 0; n -= k, p += k) {
        k = how > 1 || n < 512 ? n : 512;
        a = td_fold_one_f64(how, a, td_fold_block_f64(how, p, k));
    }
    return a;
}

TD_M_RUN double td_fold_sum_f64(const double *p, int64_t n, double a) {
    return td_fold_run_f64(0, p, n, a);
}
TD_M_RUN double td_fold_prod_f64(const double *p, int64_t n, double a) {
    return td_fold_run_f64(1, p, n, a);
}
TD_M_RUN double td_fold_max_f64(const double *p, int64_t n, double a) {
    return td_fold_run_f64(2, p, n, a);
}
TD_M_RUN double td_fold_min_f64(const double *p, int64_t n, double a) {
    return td_fold_run_f64(3, p, n, a);
}

/* ---- i64 ---------------------------------------------------------------- */

typedef int64_t td_fold_v_i64 __attribute__((vector_size(64)));
typedef int64_t td_fold_b_i64 __attribute__((vector_size(64)));

/* What a fold of nothing gives. */
TD_M int64_t td_fold_unit_i64(int how) {
    return how == 0 ? 0 : how == 1 ? 1 : how == 2 ? INT64_MIN : INT64_MAX;
}

/* Of two the greater or the lesser, or what is made of both. */
TD_M int64_t td_fold_one_i64(int how, int64_t a, int64_t x) {
    if (how == 0) return a + x;
    if (how == 1) return a * x;
    int takes = how == 2 ? x > a : x < a;
    return takes ? x : a;
}

TD_M void td_fold_step_i64(int how, td_fold_v_i64 *a, const td_fold_v_i64 *x) {
    if (how == 0) *a += *x;
    else if (how == 1) *a *= *x;
    else {
        td_fold_b_i64 m = (td_fold_b_i64)(how == 2 ? *x > *a : *x < *a);
        *a = (td_fold_v_i64)(((td_fold_b_i64)*x & m) | ((td_fold_b_i64)*a & ~m));
    }
}

/* The lanes of four vectors to one, halving. */
TD_M int64_t td_fold_lanes_i64(int how, td_fold_v_i64 *v) {
    td_fold_pairs p, q;
    td_fold_v_i64 x;
    int64_t       lane[8];
    td_fold_step_i64(how, &v[0], &v[1]);
    td_fold_step_i64(how, &v[2], &v[3]);
    td_fold_step_i64(how, &v[0], &v[2]);
    p = (td_fold_pairs)v[0];
    q = __builtin_shufflevector(p, p, 4, 5, 6, 7, 0, 1, 2, 3);
    x = (td_fold_v_i64)q;
    td_fold_step_i64(how, &v[0], &x);
    p = (td_fold_pairs)v[0];
    q = __builtin_shufflevector(p, p, 2, 3, 0, 1, 6, 7, 4, 5);
    x = (td_fold_v_i64)q;
    td_fold_step_i64(how, &v[0], &x);
    p = (td_fold_pairs)v[0];
    q = __builtin_shufflevector(p, p, 1, 0, 3, 2, 5, 4, 7, 6);
    x = (td_fold_v_i64)q;
    td_fold_step_i64(how, &v[0], &x);
    __builtin_memcpy(lane, v, sizeof lane);
    return lane[0];
}

/* A block of at most n elements; a short tail is padded with the unit. */
TD_M int64_t td_fold_block_i64(int how, const int64_t *p, int64_t n) {
    td_fold_v_i64 v[4], x;
    int64_t       pad[8], unit = td_fold_unit_i64(how);
    for (int k = 0; k < 4; k++) v[k] = (td_fold_v_i64){0} + unit;
    for (; n >= 32; n -= 32, p += 32) {
        __builtin_memcpy(&x, p, sizeof x);
        td_fold_step_i64(how, &v[0], &x);
        __builtin_memcpy(&x, p + 8, sizeof x);
        td_fold_step_i64(how, &v[1], &x);
        __builtin_memcpy(&x, p + 16, sizeof x);
        td_fold_step_i64(how, &v[2], &x);
        __builtin_memcpy(&x, p + 24, sizeof x);
        td_fold_step_i64(how, &v[3], &x);
    }
    for (; n >= 8; n -= 8, p += 8) {
        __builtin_memcpy(&x, p, sizeof x);
        td_fold_step_i64(how, &v[0], &x);
    }
    if (n > 0) {
        for (int i = 0; i < 8; i++) pad[i] = i < n ? p[i] : unit;
        __builtin_memcpy(&x, pad, sizeof x);
        td_fold_step_i64(how, &v[1], &x);
    }
    return td_fold_lanes_i64(how, v);
}

/* a, then all n elements. */
TD_M int64_t td_fold_run_i64(int how, const int64_t *p, int64_t n, int64_t a) {
    if (n < 4) {
        for (int64_t i = 0; i < n; i++) a = td_fold_one_i64(how, a, p[i]);
        return a;
    }
    for (int64_t k; n > 0; n -= k, p += k) {
        k = how > 1 || n < 512 ? n : 512;
        a = td_fold_one_i64(how, a, td_fold_block_i64(how, p, k));
    }
    return a;
}

TD_M_RUN int64_t td_fold_sum_i64(const int64_t *p, int64_t n, int64_t a) {
    return td_fold_run_i64(0, p, n, a);
}
TD_M_RUN int64_t td_fold_prod_i64(const int64_t *p, int64_t n, int64_t a) {
    return td_fold_run_i64(1, p, n, a);
}
TD_M_RUN int64_t td_fold_max_i64(const int64_t *p, int64_t n, int64_t a) {
    return td_fold_run_i64(2, p, n, a);
}
TD_M_RUN int64_t td_fold_min_i64(const int64_t *p, int64_t n, int64_t a) {
    return td_fold_run_i64(3, p, n, a);
}

#endif
