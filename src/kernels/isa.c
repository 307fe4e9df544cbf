/* isa.c -- the vector loops that are compiled for the instruction level in use. */
#include "core/cpu.h"
#include "kernels/loops/loops.h"

#define LEVEL(isa)                                                               \
    {                                                                            \
#isa, {td__loops_f32_##isa, td__loops_f64_##isa, td__loops_i32_##isa,    \
               td__loops_i64_##isa, td__loops_c64_##isa, td__loops_c128_##isa }, \
               td__convert_##isa, td__transpose_##isa, td__max_tap_##isa,        \
               td__fft_##isa, &td__quant_##isa                                   \
    }

/* By td_cpu_level. */
static const td_isa levels[TD_CPU_COUNT] = {
    LEVEL(base),
#ifdef __x86_64__
    LEVEL(avx2),
    LEVEL(avx512),
#endif
};

/* The CPU level is fixed when it is first read, so a process uses one set of loops. */
const td_isa *td__isa(void) { return &levels[td__cpu_level()]; }
