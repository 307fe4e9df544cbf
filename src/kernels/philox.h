/* philox.h: counter-based random numbers, Philox 4x32 with 10 rounds.
 *
 * A block of four words is a pure function of (seed, counter): kernels number
 * their blocks by element, so results depend neither on threads nor on order.
 * Checked against the Random123 known answers in tests/unit/math.c. The text
 * is also pasted into emitted files, after math.h. */
#ifndef TD_OPS_PHILOX_H
#define TD_OPS_PHILOX_H

#include "kernels/math.h"

/* out = the block of a 128-bit counter under a 64-bit key. out may be ctr. */
TD_M void td_philox_block(const uint32_t ctr[4], const uint32_t key[2],
                          uint32_t out[4]) {
    uint32_t a = ctr[0], b = ctr[1], c = ctr[2], d = ctr[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int i = 0; i < 10; i++) {
        uint64_t p = (uint64_t)0xd2511f53u * a;
        uint64_t q = (uint64_t)0xcd9e8d57u * c;
        a = (uint32_t)(q >> 32) ^ b ^ k0;
        b = (uint32_t)q;
        c = (uint32_t)(p >> 32) ^ d ^ k1;
        d = (uint32_t)p;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

/* The seed is the key; the counter fills the low half of the block number. */
TD_M void td_philox(uint64_t seed, uint64_t counter, uint32_t out[4]) {
    uint32_t ctr[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    td_philox_block(ctr, key, out);
}

/* Uniform in [0, 1) on a grid of 2^-24. */
TD_M float td_uniform_f32(uint32_t w) { return (float)(int32_t)(w >> 8) * 0x1p-24f; }

/* Uniform in [0, 1) on a grid of 2^-53, from two words. */
TD_M double td_uniform_f64(uint32_t lo, uint32_t hi) {
    uint64_t w = ((uint64_t)hi << 32 | lo) >> 11;
    return (double)(int64_t)w * 0x1p-53;
}

/* Box-Muller: r cos(2 pi v) and r sin(2 pi v) with r = sqrt(-2 log u). u is in
 * (0, 1] with 31 bits, so |normal| reaches 6.6 and never infinity. */
TD_M float td_normal_radius_f32(uint32_t wu) {
    float u = (float)(int32_t)(wu >> 1) * 0x1p-31f + 0x1p-32f;
    return td_m_sqrt_f32(-2.0f * td_m_log_f32(u > 1.0f ? 1.0f : u));
}

TD_M float td_normal_angle_f32(uint32_t wv) {
    return 6.283185307f * td_uniform_f32(wv);
}

TD_M void td_normal_f32(uint32_t wu, uint32_t wv, float out[2]) {
    float r = td_normal_radius_f32(wu), a = td_normal_angle_f32(wv);
    out[0] = r * td_m_cos_f32(a);
    out[1] = r * td_m_sin_f32(a);
}

/* The same from a whole block. u is in (0, 1] on the grid of 2^-53. */
TD_M void td_normal_f64(const uint32_t w[4], double out[2]) {
    double u = 1.0 - td_uniform_f64(w[0], w[1]);
    double r = td_m_sqrt_f64(-2.0 * td_m_log_f64(u));
    double a = 6.28318530717958623 * td_uniform_f64(w[2], w[3]);
    out[0] = r * td_m_cos_f64(a);
    out[1] = r * td_m_sin_f64(a);
}

#endif
