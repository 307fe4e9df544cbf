/* core/cpu.h -- instruction levels: those that the CPU has, and the one that the
 * process uses. One setting, TD_ISA, bounds the vector loops (kernels/isa.c), the flags
 * of emitted code (build/cc.c), oneDNN and OpenBLAS (kernels/blas_setup.c). The level
 * is fixed when it is first needed, and is part of every cache key. */
#ifndef TD_CPU_H
#define TD_CPU_H

#include "base/base.h"

#include <stdatomic.h>

/* In the order of the words of the row `isa` in config.def. */
typedef enum td_cpu_level {
    TD_CPU_BASE, /* the baseline of the architecture */
    TD_CPU_AVX2, /* AVX2, FMA, F16C */
    TD_CPU_AVX512,
    TD_CPU_COUNT
} td_cpu_level;

const char                *td__level_name(td_cpu_level level);
/* The highest level of this CPU; what a level includes is what the Makefile passes to
 * the compiler as ISA_<level>. */
td_cpu_level               td__cpu_best(void);
/* The level in use: the one TD_ISA names, and at most td__cpu_best. */
static inline td_cpu_level td__cpu_level(void);
/* The level for the text of TD_ISA (NULL, "" and unknown names: `best`). If the text
 * names a level above `best`, writes a warning into `why`, else "". */
td_cpu_level td__level_wanted(const char *said, td_cpu_level best, char *why,
                              size_t cap);

extern _Atomic int td__level_known; /* the level in use + 1; 0: not known yet */
td_cpu_level       td__level_find(void);

static inline td_cpu_level td__cpu_level(void) {
    int at = atomic_load_explicit(&td__level_known, memory_order_relaxed);
    return TD_LIKELY(at != 0) ? (td_cpu_level)(at - 1) : td__level_find();
}

#endif
