/* isa.c -- which compiled version of the vector loops this CPU runs. */
#include "ops/loops/loops.h"

#include <stdlib.h>
#include <string.h>

#define LEVEL(isa)                                                            \
    {                                                                         \
#isa, {td__loops_f32_##isa, td__loops_f64_##isa, td__loops_i32_##isa, \
               td__loops_i64_##isa },                                         \
               td__convert_##isa, td__transpose_##isa, td__max_tap_##isa      \
    }

static const td_isa levels[] = {
    LEVEL(base),
#ifdef __x86_64__
    LEVEL(avx2),
    LEVEL(avx512),
#endif
};

static bool cpu_has(int level) {
#ifdef __x86_64__
    if (level >= 1 &&
        !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")))
        return false;
    if (level >= 2)
        return __builtin_cpu_supports("avx512f") &&
               __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
    (void)level;
    return true;
}

static const td_isa *choose(void) {
    const char *wish = getenv("TD_ISA");
    int         best = 0;
    for (int i = 0; i < TD_COUNT(levels) && cpu_has(i); i++) {
        best = i;
        if (wish && !strcmp(wish, levels[i].name)) break;
    }
    return &levels[best];
}

/* Two threads may both choose; they choose the same. */
const td_isa *td__isa(void) {
    static _Atomic(const td_isa *) chosen;
    const td_isa *isa = atomic_load_explicit(&chosen, memory_order_acquire);
    if (TD_LIKELY(isa != NULL)) return isa;
    isa = choose();
    atomic_store_explicit(&chosen, isa, memory_order_release);
    return isa;
}
