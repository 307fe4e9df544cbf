/* levels.c -- instruction levels: one setting bounds the loops, emitted code, oneDNN
 * and OpenBLAS. */
#include "core/cpu.h"
#include "core/core.h"
#include "kernels/blas_setup.h"
#include "kernels/loops/loops.h"
#include "tandem/tandem.h"
#include "td_test.h"

#include <cblas.h>
#include <stdlib.h>

static const char *why_of(const char *said, td_cpu_level best, td_cpu_level want) {
    static char why[200];
    CHECK(td__level_wanted(said, best, why, sizeof why) == want);
    return why;
}

TEST(a_level_above_the_cpus_is_a_warning_with_the_levels) {
    CHECK_STR(why_of("avx512", TD_CPU_AVX2, TD_CPU_AVX2),
              "TD_ISA=avx512: this CPU does not have that level, only base, avx2; avx2 "
              "is used");
    CHECK_STR(
        why_of("avx2", TD_CPU_BASE, TD_CPU_BASE),
        "TD_ISA=avx2: this CPU does not have that level, only base; base is used");
    CHECK_STR(why_of("avx2", TD_CPU_AVX2, TD_CPU_AVX2), "");
    CHECK_STR(why_of("base", TD_CPU_AVX512, TD_CPU_BASE), "");
}

/* The row of the setting warns about a name that does not exist. */
TEST(no_level_and_an_unknown_one_are_the_cpus_own) {
    CHECK_STR(why_of(NULL, TD_CPU_AVX2, TD_CPU_AVX2), "");
    CHECK_STR(why_of("", TD_CPU_AVX2, TD_CPU_AVX2), "");
    CHECK_STR(why_of("sse9", TD_CPU_AVX512, TD_CPU_AVX512), "");
}

TEST(the_words_of_the_setting_are_the_levels) {
    const char *p = td__knobs[TD_KNOB_NR_isa].words;
    for (int i = 0; i < TD_CPU_COUNT; i++, p += strcspn(p, " "), p += *p == ' ') {
        const char *name = td__level_name((td_cpu_level)i);
        CHECK(strcspn(p, " ") == strlen(name) && !strncmp(p, name, strlen(name)));
    }
    CHECK(!*p);
}

TEST(loops_and_libraries_are_at_the_level_in_use) {
    static const char *const blas[] = {"Prescott", "Haswell", "SkylakeX"};
    static const char *const dnnl[] = {"SSE4.1 or less", "AVX2", "AVX-512"};
    td_cpu_level             at = td__cpu_level();
    CHECK(at <= td__cpu_best());
    CHECK_STR(td__isa()->name, td__level_name(at));
    if (at < td__cpu_best() && !getenv("OPENBLAS_CORETYPE"))
        CHECK_STR(openblas_get_corename(), blas[at]);
#if TD_HAVE_DNNL && defined(__x86_64__)
    td__dnnl_bound();
    CHECK_STR(td__dnnl_level(), dnnl[at]);
#else
    (void)dnnl;
#endif
}
