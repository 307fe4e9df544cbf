/* draw.h -- how Philox blocks become elements.
 *
 * Element i of a draw reads block offset + i / PER, where PER is how many
 * elements one block of four words serves:
 *
 *     uniform, bernoulli of f32 f16 bf16   4   one word each
 *     normal of f32 f16 bf16               4   two words make two
 *     uniform, exponential of f64          2   two words each
 *     normal of f64                        2   four words make two
 *     exponential of others, integers      2   two words each
 *
 * bernoulli is the same for every dtype. The text is also pasted into emitted
 * files, after philox.h. */
#ifndef TD_OPS_DRAW_H
#define TD_OPS_DRAW_H

#include "kernels/philox.h"

/* [0, 1) on the grid of the dtype's own digits, so that rounding never gives 1. */
TD_M float td_uniform_f16(uint32_t w) { return (float)(int32_t)(w >> 21) * 0x1p-11f; }
TD_M float td_uniform_bf16(uint32_t w) { return (float)(int32_t)(w >> 24) * 0x1p-8f; }

/* True with probability p, to 32 bits; exact for 0 and 1. */
TD_M int td_draw_bernoulli(uint32_t w, double p) { return (double)w * 0x1p-32 < p; }

/* [0, range) from two words; 0 stands for 2^64. The bias is below range / 2^64. */
TD_M uint64_t td_draw_below(uint32_t lo, uint32_t hi, uint64_t range) {
    uint64_t w = (uint64_t)hi << 32 | lo;
    if (range == 0) return w;
    uint64_t a = range >> 32, b = range & 0xffffffffu;
    uint64_t mid = (uint64_t)hi * b + ((uint64_t)lo * b >> 32);
    uint64_t low = (uint64_t)lo * a + (mid & 0xffffffffu);
    return (uint64_t)hi * a + (mid >> 32) + (low >> 32);
}

/* -log(1 - u) / rate, u uniform in [0, 1). */
TD_M double td_draw_exponential(uint32_t lo, uint32_t hi, double rate) {
    return -td_m_log1p_f64(-td_uniform_f64(lo, hi)) / rate;
}

#endif
