/* blas_setup.c -- oneDNN and OpenBLAS at the instruction level in use.
 *
 * oneDNN takes a bound before its first use. OpenBLAS detects the CPU while it is
 * loaded and has no call to change its choice; its variable OPENBLAS_CORETYPE is read
 * by gotoblas_dynamic_init, so that function runs a second time when Tandem is loaded,
 * before main. Not only lower levels need that: OpenBLAS 0.3.21 takes the SSE3 kernels
 * for CPUs younger than itself (dgemm of 64 x 64 on a Xeon of 2023: 14 GF/s against 76
 * with the AVX-512 kernels). */
#include "kernels/blas_setup.h"

#include "core/cpu.h"

#include <cblas.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- oneDNN ------------------------------------------------------------- */

#if TD_HAVE_DNNL
void td__dnnl_bound(void) {
#ifdef __x86_64__
    td_cpu_level level = td__cpu_level();
    if (level == td__cpu_best()) return;
    (void)dnnl_set_max_cpu_isa(level == TD_CPU_AVX2 ? dnnl_cpu_isa_avx2
                                                    : dnnl_cpu_isa_sse41);
#endif
}

const char *td__dnnl_level(void) {
#ifdef __x86_64__
    dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
    if ((isa & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core) return "AVX-512";
    if ((isa & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2) return "AVX2";
    if ((isa & dnnl_cpu_isa_avx) == dnnl_cpu_isa_avx) return "AVX";
    return "SSE4.1 or less";
#else
    return "its own choice";
#endif
}
#endif

/* ---- OpenBLAS ----------------------------------------------------------- */

void td__blas_start(void) { openblas_set_num_threads(1); }

#ifdef __x86_64__
/* The level of the kernels that OpenBLAS has under a name. */
static td_cpu_level level_of_core(const char *core) {
    static const char *const avx512[] = {"SkylakeX", "Cooperlake", "SapphireRapids"};
    static const char *const avx[] = {"Haswell",   "Zen",         "Sandybridge",
                                      "Excavator", "Steamroller", "Piledriver",
                                      "Bulldozer"};
    for (int i = 0; i < TD_COUNT(avx512); i++)
        if (!strcasecmp(core, avx512[i])) return TD_CPU_AVX512;
    for (int i = 0; i < TD_COUNT(avx); i++)
        if (!strcasecmp(core, avx[i])) return TD_CPU_AVX2;
    return TD_CPU_BASE;
}

/* Lets OpenBLAS choose again, among its own names; NULL: by its own detection. */
static void choose_core(void (*quit)(void), void (*init)(void), const char *core) {
    static const char var[] = "OPENBLAS_CORETYPE";
    if (core) setenv(var, core, 1);
    quit();
    init();
    if (core) unsetenv(var);
}

/* Before main, or while dlopen runs: OpenBLAS's own constructor has run, and no thread
 * is inside it unless the program used OpenBLAS before it loaded Tandem. */
__attribute__((constructor)) static void settle_openblas(void) {
    static const char *const core_for[TD_CPU_COUNT] = {"Prescott", "Haswell",
                                                       "SkylakeX"};
    void (*quit)(void), (*init)(void);
    td_cpu_level level = td__cpu_level(), has = level_of_core(openblas_get_corename());
    bool         lower = has > level && level < td__cpu_best();
    if ((!lower && has >= level) || secure_getenv("OPENBLAS_CORETYPE")) return;
    *(void **)&quit = dlsym(RTLD_DEFAULT, "gotoblas_dynamic_quit");
    *(void **)&init = dlsym(RTLD_DEFAULT, "gotoblas_dynamic_init");
    if (!quit || !init) return; /* built for one CPU only */
    choose_core(quit, init, core_for[level]);
    if (strcasecmp(openblas_get_corename(), core_for[level]) != 0)
        choose_core(quit, init, NULL);
}
#endif
