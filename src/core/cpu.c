/* cpu.c -- instruction levels: detection, and the bound that TD_ISA sets. */
#include "core/cpu.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[TD_CPU_COUNT] = {"base", "avx2", "avx512"};

const char *td__level_name(td_cpu_level level) { return names[level]; }

#ifdef __x86_64__
/* clang 14 does not know the name for __builtin_cpu_supports. */
static bool has_f16c(void) {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}
#endif

td_cpu_level td__cpu_best(void) {
#ifdef __x86_64__
    bool avx2 =
        __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                  __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
    if (avx2) return avx512 ? TD_CPU_AVX512 : TD_CPU_AVX2;
#endif
    return TD_CPU_BASE;
}

/* The level that TD_ISA names, if the CPU has it; `why` is a warning otherwise. */
td_cpu_level td__level_wanted(const char *said, td_cpu_level best, char *why,
                              size_t cap) {
    char list[64] = "";
    snprintf(why, cap, "%s", "");
    for (int i = 0; said && i < TD_CPU_COUNT; i++) {
        size_t n = strlen(list);
        if (i <= (int)best)
            snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", names[i]);
        if (strcmp(said, names[i]) != 0) continue;
        if (i <= (int)best) return (td_cpu_level)i;
        snprintf(why, cap,
                 "TD_ISA=%s: this CPU does not have that level, only %s; %s is used",
                 said, list, names[best]);
    }
    return best;
}

/* Two threads may both find it; they find the same. */
_Atomic int td__level_known;

td_cpu_level td__level_find(void) {
    char         why[8];
    td_cpu_level level =
        td__level_wanted(secure_getenv("TD_ISA"), td__cpu_best(), why, sizeof why);
    atomic_store_explicit(&td__level_known, (int)level + 1, memory_order_relaxed);
    return level;
}
