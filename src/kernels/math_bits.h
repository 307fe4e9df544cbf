/* math_bits.h: bit views of floats, half precision, float to integer.
 *
 * The lowest layer of math.h. Half-precision values travel as uint16_t; both
 * directions are bit arithmetic with selects, because the F16C builtins work on
 * whole vectors and would stop a scalar loop from vectorizing. */
#ifndef TD_OPS_MATH_BITS_H
#define TD_OPS_MATH_BITS_H

#include <stdint.h>

/* At -O2 gcc stops inlining the longer functions into each other, and a call
 * left in a loop keeps it scalar. Where nothing is optimized a call is quicker to
 * compile. */
#ifdef __OPTIMIZE__
#define TD_M static inline __attribute__((always_inline))
#else
#define TD_M static inline
#endif
/* Of those that work on a run of elements: compiled once, however often called. */
#define TD_M_RUN static __attribute__((noinline, unused))

/* a * b + c. The bounds in docs/numerics.md hold for both expansions. */
#ifdef __FMA__
#define TD_FMAF(a, b, c) __builtin_fmaf((a), (b), (c))
#define TD_FMA(a, b, c) __builtin_fma((a), (b), (c))
#else
#define TD_FMAF(a, b, c) ((a) * (b) + (c))
#define TD_FMA(a, b, c) ((a) * (b) + (c))
#endif

TD_M uint32_t td_m_bits_f32(float x) {
    union {
        float    f;
        uint32_t u;
    } v = {.f = x};
    return v.u;
}

TD_M float td_m_from_bits_f32(uint32_t u) {
    union {
        uint32_t u;
        float    f;
    } v = {.u = u};
    return v.f;
}

TD_M uint64_t td_m_bits_f64(double x) {
    union {
        double   f;
        uint64_t u;
    } v = {.f = x};
    return v.u;
}

TD_M double td_m_from_bits_f64(uint64_t u) {
    union {
        uint64_t u;
        double   f;
    } v = {.u = u};
    return v.f;
}

/* Magnitude of `a`, sign of `s`. `a` must have its sign bit clear or be NaN. */
TD_M float td_m_with_sign_f32(float a, float s) {
    return td_m_from_bits_f32(td_m_bits_f32(a) | (td_m_bits_f32(s) & 0x80000000u));
}

TD_M double td_m_with_sign_f64(double a, double s) {
    return td_m_from_bits_f64(td_m_bits_f64(a) |
                              (td_m_bits_f64(s) & 0x8000000000000000u));
}

/* ---- half precision ------------------------------------------------------ */

TD_M float td_m_bf16_to_f32(uint16_t h) {
    return td_m_from_bits_f32((uint32_t)h << 16);
}

/* Nearest even; a NaN becomes the quiet NaN of its sign, or of an instruction of the
 * device. */
TD_M uint16_t td_m_f32_to_bf16(float x) {
#ifdef TD_BF16_OF
    return TD_BF16_OF(x);
#else
    uint32_t u = td_m_bits_f32(x);
    uint32_t r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    uint32_t nan = ((u >> 16) & 0x8000u) | 0x7fc0u;
    return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : r);
#endif
}

/* Subnormals go through an exact float subtraction: with exponent field 113 the
 * ten mantissa bits sit above 2^-14, which is then taken off. */
TD_M float td_m_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t body = (uint32_t)(h & 0x7fffu) << 13;
    uint32_t exp = body & 0x0f800000u;
    uint32_t top = body + 0x70000000u; /* inf, NaN: exponent 255 */
    uint32_t mid = body + 0x38000000u; /* normal: rebias 15 to 127 */
    float    low =
        td_m_from_bits_f32(body + 0x38800000u) - td_m_from_bits_f32(0x38800000u);
    uint32_t u = exp == 0x0f800000u ? top : mid;
    u = exp == 0 ? td_m_bits_f32(low) : u;
    return td_m_from_bits_f32(u | sign);
}

/* Nearest even. Below 2^-14 the sum with 0.5 rounds to units of 2^-24, which
 * are exactly the subnormal steps of f16. */
TD_M uint16_t td_m_f32_to_f16(float x) {
    uint32_t u = td_m_bits_f32(x);
    uint32_t sign = (u >> 16) & 0x8000u;
    uint32_t a = u & 0x7fffffffu;
    uint32_t norm = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
    uint32_t low = td_m_bits_f32(td_m_from_bits_f32(a) + 0.5f) - 0x3f000000u;
    uint32_t r = a < 0x38800000u ? low : norm;
    r = a >= 0x477ff000u ? 0x7c00u : r;
    r = a > 0x7f800000u ? 0x7e00u : r;
    return (uint16_t)(r | sign);
}

/* ---- eight bits ---------------------------------------------------------- */

/* The upper byte of an f16. */
TD_M float td_m_f8e5m2_to_f32(uint8_t b) { return td_m_f16_to_f32((uint16_t)(b << 8)); }

/* As td_m_f16_to_f32; the only NaN is 0x7f. */
TD_M float td_m_f8e4m3_to_f32(uint8_t b) {
    uint32_t sign = (uint32_t)(b & 0x80u) << 24;
    uint32_t body = (uint32_t)(b & 0x7fu) << 20;
    float    low =
        td_m_from_bits_f32(body + 0x3c800000u) - td_m_from_bits_f32(0x3c800000u);
    uint32_t u = body < 0x00800000u ? td_m_bits_f32(low) : body + 0x3c000000u;
    u = body == 0x07f00000u ? 0x7fc00000u : u;
    return td_m_from_bits_f32(u | sign);
}

/* Nearest even; beyond 448, and for infinity, 448, as PyTorch's. Subnormals are those
 * of td_m_f32_to_f16: adding 2^14 rounds to units of 2^-9. */
TD_M uint8_t td_m_f32_to_f8e4m3(float x) {
    uint32_t u = td_m_bits_f32(x);
    uint32_t sign = (u >> 24) & 0x80u;
    uint32_t a = u & 0x7fffffffu;
    uint32_t norm = (a - 0x3c000000u + 0x7ffffu + ((a >> 20) & 1u)) >> 20;
    uint32_t low = td_m_bits_f32(td_m_from_bits_f32(a) + 16384.0f) - 0x46800000u;
    uint32_t r = a < 0x3c800000u ? low : norm;
    r = a > 0x43e00000u ? 0x7eu : r;
    r = a > 0x7f800000u ? 0x7fu : r;
    return (uint8_t)(r | sign);
}

/* Nearest even; infinity from 61440 on. */
TD_M uint8_t td_m_f32_to_f8e5m2(float x) {
    uint32_t u = td_m_bits_f32(x);
    uint32_t sign = (u >> 24) & 0x80u;
    uint32_t a = u & 0x7fffffffu;
    uint32_t norm = (a - 0x38000000u + 0xfffffu + ((a >> 21) & 1u)) >> 21;
    uint32_t low = td_m_bits_f32(td_m_from_bits_f32(a) + 128.0f) - 0x43000000u;
    uint32_t r = a < 0x38800000u ? low : norm;
    r = a >= 0x47700000u ? 0x7cu : r;
    r = a > 0x7f800000u ? 0x7fu : r;
    return (uint8_t)(r | sign);
}

/* ---- float to integer ---------------------------------------------------- */

/* Truncation toward zero. Outside the range, and for NaN, the result is the
 * smallest integer, as x86 conversions and PyTorch on x86 give. */
TD_M int64_t td_m_f64_to_i64(double x) {
    int     in = (x >= -0x1p63) & (x < 0x1p63);
    int64_t r = (int64_t)(in ? x : 0.0);
    return in ? r : INT64_MIN;
}

TD_M int32_t td_m_f64_to_i32(double x) {
    int     in = (x > -2147483649.0) & (x < 2147483648.0);
    int32_t r = (int32_t)(in ? x : 0.0);
    return in ? r : INT32_MIN;
}

TD_M int64_t td_m_f32_to_i64(float x) {
    int     in = (x >= -0x1p63f) & (x < 0x1p63f);
    int64_t r = (int64_t)(in ? x : 0.0f);
    return in ? r : INT64_MIN;
}

TD_M int32_t td_m_f32_to_i32(float x) {
    int     in = (x >= -0x1p31f) & (x < 0x1p31f);
    int32_t r = (int32_t)(in ? x : 0.0f);
    return in ? r : INT32_MIN;
}

/* Narrow integers wrap modulo their width within the int32 range and are 0
 * beyond it, as PyTorch's. */
TD_M uint8_t td_m_f32_to_u8(float x) {
    return (uint8_t)((uint32_t)td_m_f32_to_i32(x) & 0xffu);
}

TD_M int8_t td_m_f32_to_i8(float x) {
    return (int8_t)((uint32_t)td_m_f32_to_i32(x) & 0xffu);
}

TD_M int16_t td_m_f32_to_i16(float x) {
    return (int16_t)((uint32_t)td_m_f32_to_i32(x) & 0xffffu);
}

TD_M uint16_t td_m_f32_to_u16(float x) {
    return (uint16_t)((uint32_t)td_m_f32_to_i32(x) & 0xffffu);
}

TD_M uint16_t td_m_f64_to_u16(double x) {
    return (uint16_t)((uint32_t)td_m_f64_to_i32(x) & 0xffffu);
}

/* u32 wraps modulo 2^32 within the int64 range and is 0 beyond it. PyTorch's result
 * beyond int32 below 0 depends on where in a tensor the number is. */
TD_M uint32_t td_m_f64_to_u32(double x) {
    return (uint32_t)((uint64_t)td_m_f64_to_i64(x) & 0xffffffffu);
}

TD_M uint32_t td_m_f32_to_u32(float x) { return td_m_f64_to_u32((double)x); }

/* Below 0 it wraps; from 2^64 on, and for infinity, it is 0. */
TD_M uint64_t td_m_f64_to_u64(double x) {
    int      big = x >= 0x1p63;
    uint64_t r = (uint64_t)td_m_f64_to_i64(big ? x - 0x1p63 : x);
    return r ^ (uint64_t)big << 63;
}

TD_M uint64_t td_m_f32_to_u64(float x) { return td_m_f64_to_u64((double)x); }

TD_M uint8_t td_m_f64_to_u8(double x) {
    return (uint8_t)((uint32_t)td_m_f64_to_i32(x) & 0xffu);
}

TD_M int8_t td_m_f64_to_i8(double x) {
    return (int8_t)((uint32_t)td_m_f64_to_i32(x) & 0xffu);
}

TD_M int16_t td_m_f64_to_i16(double x) {
    return (int16_t)((uint32_t)td_m_f64_to_i32(x) & 0xffffu);
}

#endif
