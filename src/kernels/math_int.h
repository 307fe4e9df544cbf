/* math_int.h: integer arithmetic of the pointwise ops, and the few float
 * functions that are one libm call. Same contract as math.h: static inline
 * scalars in plain C11, pasted into emitted files. Build with -fwrapv: results
 * wrap. No function divides by zero; callers have refused a zero divisor. */
#ifndef TD_OPS_MATH_INT_H
#define TD_OPS_MATH_INT_H

#include "kernels/math_bits.h"

TD_M double td_m_hypot_f64(double x, double y) { return __builtin_hypot(x, y); }

TD_M int32_t td_m_abs_i32(int32_t x) { return x < 0 ? (int32_t)(0u - (uint32_t)x) : x; }
TD_M int64_t td_m_abs_i64(int64_t x) {
    return x < 0 ? (int64_t)(0ull - (uint64_t)x) : x;
}
TD_M int32_t td_m_sign_i32(int32_t x) { return (x > 0) - (x < 0); }
TD_M int64_t td_m_sign_i64(int64_t x) { return (x > 0) - (x < 0); }
TD_M int32_t td_m_max_i32(int32_t a, int32_t b) { return a > b ? a : b; }
TD_M int64_t td_m_max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
TD_M int32_t td_m_min_i32(int32_t a, int32_t b) { return a < b ? a : b; }
TD_M int64_t td_m_min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

/* Quotient toward zero. The smallest integer over -1 wraps to itself. */
TD_M int32_t td_m_trunc_div_i32(int32_t a, int32_t b) {
    if (b == -1) return (int32_t)(0u - (uint32_t)a);
    return b ? a / b : 0;
}
TD_M int64_t td_m_trunc_div_i64(int64_t a, int64_t b) {
    if (b == -1) return (int64_t)(0ull - (uint64_t)a);
    return b ? a / b : 0;
}

/* What is left of it; the sign of the dividend. */
TD_M int32_t td_m_fmod_i32(int32_t a, int32_t b) { return b == -1 || !b ? 0 : a % b; }
TD_M int64_t td_m_fmod_i64(int64_t a, int64_t b) { return b == -1 || !b ? 0 : a % b; }

/* What is left of the floor quotient; the sign of the divisor. */
TD_M int32_t td_m_remainder_i32(int32_t a, int32_t b) {
    int32_t r = td_m_fmod_i32(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
TD_M int64_t td_m_remainder_i64(int64_t a, int64_t b) {
    int64_t r = td_m_fmod_i64(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

TD_M int32_t td_m_floor_div_i32(int32_t a, int32_t b) {
    int32_t r = td_m_fmod_i32(a, b);
    return td_m_trunc_div_i32(a, b) - (r != 0 && (r < 0) != (b < 0));
}
TD_M int64_t td_m_floor_div_i64(int64_t a, int64_t b) {
    int64_t r = td_m_fmod_i64(a, b);
    return td_m_trunc_div_i64(a, b) - (r != 0 && (r < 0) != (b < 0));
}

/* A negative exponent gives the truncated reciprocal: 0 except for 1 and -1. */
TD_M int64_t td_m_pow_i64(int64_t a, int64_t b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
    uint64_t r = 1, x = (uint64_t)a;
    for (; b; b >>= 1, x *= x)
        if (b & 1) r *= x;
    return (int64_t)r;
}
TD_M int32_t td_m_pow_i32(int32_t a, int32_t b) {
    return (int32_t)(uint32_t)(uint64_t)td_m_pow_i64(a, b);
}

/* Euclid's algorithm on magnitudes; the magnitude of the smallest integer is itself. */
TD_M int64_t td_m_gcd_i64(int64_t a, int64_t b) {
    a = td_m_abs_i64(a);
    b = td_m_abs_i64(b);
    while (a != 0) {
        int64_t r = td_m_fmod_i64(b, a);
        b = a;
        a = r;
    }
    return b;
}
TD_M int32_t td_m_gcd_i32(int32_t a, int32_t b) {
    return (int32_t)(uint32_t)(uint64_t)td_m_gcd_i64(a, b);
}
TD_M int64_t td_m_lcm_i64(int64_t a, int64_t b) {
    int64_t g = td_m_gcd_i64(a, b);
    return g ? td_m_abs_i64((int64_t)((uint64_t)td_m_trunc_div_i64(a, g) * (uint64_t)b))
             : 0;
}
TD_M int32_t td_m_lcm_i32(int32_t a, int32_t b) {
    return td_m_abs_i32((int32_t)(uint32_t)(uint64_t)td_m_lcm_i64(a, b));
}

/* Shifts by a negative or too large count: all bits leave, or the sign stays. */
TD_M int32_t td_m_shl_i32(int32_t a, int32_t b) {
    return b < 0 || b > 31 ? 0 : (int32_t)((uint32_t)a << b);
}
TD_M int64_t td_m_shl_i64(int64_t a, int64_t b) {
    return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
}
TD_M int32_t td_m_shr_i32(int32_t a, int32_t b) {
    return a >> (b < 0 || b > 31 ? 31 : b);
}
TD_M int64_t td_m_shr_i64(int64_t a, int64_t b) {
    return a >> (b < 0 || b > 63 ? 63 : b);
}

#endif
