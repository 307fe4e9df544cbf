/* unit_help.h -- kernels for the tests of compiling and loading. */
#ifndef TD_UNIT_HELP_H
#define TD_UNIT_HELP_H

#include "build/unit.h"
#include "tandem/tandem.h"
#include "td_test.h"

#include <stdatomic.h>

/* A context that neither finds code on disk nor keeps it there. */
static inline td_ctx *open_plain(void) {
    td_ctx *cx = td_open();
    td_config_set(cx, "cache_disk_mb", "0");
    return cx;
}

/* y = by * x, from a text of its own; the 512 last ones stay valid. */
static inline td_kernel scale_kernel(int by) {
    static char       text[512][512];
    static atomic_int nr;
    char             *s = text[(unsigned)atomic_fetch_add(&nr, 1) % 512];
    snprintf(s, sizeof text[0],
             "void KERNEL(const td_nest_run *r, int64_t part, int64_t begin,\n"
             "            int64_t end) {\n"
             "    const float *x = (const float *)r->ptr[0];\n"
             "    float *y = (float *)r->ptr[1];\n"
             "#pragma omp simd\n"
             "    for (int64_t i = begin; i < end; i++) y[i] = x[i] * %d.0f;\n"
             "}\n",
             by);
    return (td_kernel){.text = s};
}

static inline void run_on(const td_kernel *k, float *x, float *y, int64_t begin,
                          int64_t end) {
    char       *ptr[] = {(char *)x, (char *)y};
    td_nest_run r = {.ptr = ptr};
    k->run(&r, 0, begin, end);
}

#endif
