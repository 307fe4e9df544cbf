/* cmd_doctor.c -- `tandem doctor`: describes the build and the machine, for bug
 * reports. */
#include "build/remote.h"
#include "build/unit.h"
#include "cli/cli.h"
#include "core/cpu.h"
#include "kernels/blas_setup.h"
#include "tandem/tandem.h"

#include <cblas.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const cli_option options[] = {{0}};

static void line(const cli_term *t, const char *what, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void line(const cli_term *t, const char *what, const char *fmt, ...) {
    va_list ap;
    printf("%s%-10s%s ", cli_ink_on(t, CLI_BOLD), what, cli_ink_on(t, CLI_PLAIN));
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
}

/* ---- the build ---------------------------------------------------------- */

static void show_build(const cli_term *t) {
    line(t, "tandem", "%s", TD_VERSION_STRING);
#ifdef __clang__
    line(t, "compiler", "clang %s", __clang_version__);
#else
    line(t, "compiler", "gcc %s", __VERSION__);
#endif
#if TD_HAVE_DNNL
    const dnnl_version_t *v = dnnl_version();
    td__dnnl_bound();
    line(t, "oneDNN", "%d.%d.%d, %s", v->major, v->minor, v->patch, td__dnnl_level());
#else
    line(t, "oneDNN", "not in this build");
#endif
    line(t, "OpenBLAS", "%s, %s", openblas_get_config(), openblas_get_corename());
}

/* ---- the machine -------------------------------------------------------- */

static void show_system(const cli_term *t) {
    struct utsname u;
    long           pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (uname(&u) == 0) line(t, "system", "%s %s %s", u.sysname, u.release, u.machine);
    if (pages > 0 && page > 0)
        line(t, "memory", "%.1f GiB", (double)pages * (double)page / 0x1p30);
}

static void show_cpu(const cli_term *t) {
    char name[128];
    line(t, "CPU", "%s, %ld cores", td__cpu_name(name, sizeof name),
         sysconf(_SC_NPROCESSORS_ONLN));
}

static void show_features(const cli_term *t) {
#ifdef __x86_64__
    static const char *const yes[] = {"-", "+"};
    line(t, "features", "%savx2 %sfma %savx512f %savx512bw %savx512dq %savx512vl",
         yes[!!__builtin_cpu_supports("avx2")], yes[!!__builtin_cpu_supports("fma")],
         yes[!!__builtin_cpu_supports("avx512f")],
         yes[!!__builtin_cpu_supports("avx512bw")],
         yes[!!__builtin_cpu_supports("avx512dq")],
         yes[!!__builtin_cpu_supports("avx512vl")]);
#else
    line(t, "features", "not detected on this architecture");
#endif
    const char *wish = secure_getenv("TD_ISA");
    line(t, "level", "%s of %s%s%s%s", td__level_name(td__cpu_level()),
         td__level_name(td__cpu_best()), wish ? " (TD_ISA=" : "", wish ? wish : "",
         wish ? ")" : "");
    const char *count = secure_getenv("TD_NUM_THREADS");
    line(t, "threads", "%d%s%s%s", td_threads(), count ? " (TD_NUM_THREADS=" : "",
         count ? count : "", count ? ")" : "");
}

/* ---- devices ------------------------------------------------------------ */

/* Each GPU, or which of plugin, driver and GPU is missing. */
static void show_devices(const cli_term *t) {
    char    text[1200];
    td_ctx *cx = td_open();
    int     n = cx ? td_device_count(cx, TD_CUDA, text, sizeof text) : 0;
    for (int i = 0; i < n; i++) {
        td_device dev = {TD_CUDA, i};
        bool      ok = td_device_describe(cx, dev, text, sizeof text);
        line(t, td_device_name(dev), "%s", ok ? text : td_message(cx));
        td_clear(cx);
    }
    if (n == 0) line(t, "cuda", "%s", cx ? text : "out of memory");
    if (cx) td_close(cx);
}

/* ---- native code -------------------------------------------------------- */

static void show_compiler(const cli_term *t, td_ctx *cx) {
    td_cc cc;
    if (td__cc_open(&cc, cx)) {
        line(t, "cc", "%.*s%s", (int)strcspn(cc.identity, ","), cc.identity,
             cc.path ? "" : " (not found now; its cached code is used)");
        line(t, "cc flags", "%s", cc.flags);
    } else line(t, "cc", "%s", td_message(cx));
    td__cc_close(&cc);
    td_clear(cx);
}

static void show_cache(const cli_term *t, td_ctx *cx) {
    td_disk       d;
    td_disk_files list = {0};
    long long     most = td__config(cx)->cache_disk_mb;
    td__disk_open(&d, cx, false);
    if (d.fd >= 0 && td__disk_list(&d, &list))
        line(t, "cache", "%s, %.1f of %lld MiB", d.dir,
             (double)td__disk_bytes(&list) / 0x1p20, most);
    else if (!most) line(t, "cache", "off (cache_disk_mb is 0)");
    else line(t, "cache", "%s", *d.dir ? d.dir : "no directory: HOME is not set");
    td__vec_free(&list);
    td__disk_close(&d);
}

static void show_remote(const cli_term *t, td_ctx *cx) {
    td_remote_state s;
    char            text[600];
    td__remote_state(cx, &s);
    if (s.on) td__remote_text(&s, text, sizeof text);
    line(t, "remote", "%s", s.on ? text : "none (TD_CACHE_REMOTE is not set)");
}

static void show_native(const cli_term *t) {
    td_ctx *cx = td_open();
    if (!cx) return;
    show_compiler(t, cx);
    show_cache(t, cx);
    show_remote(t, cx);
    td_close(cx);
}

/* ---- does it work ------------------------------------------------------- */

/* A product, a gradient and an error on a fresh context. False: *why says what
 * failed. */
static bool self_test(char *why, size_t cap) {
    td_ctx *cx = td_open();
    if (!cx) return snprintf(why, cap, "out of memory"), false;
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 3)));
    td_backward(td_sum(td_matmul(x, x)));
    double sum = td_item(td_sum(td_grad_of(x)));
    bool   ok = td_ok(cx) && sum == 54;
    snprintf(why, cap, "%s", td_ok(cx) ? "a gradient is wrong" : td_message(cx));
    td_clear(cx);
    bool refused = td_is_nil(td_matmul(x, td_ones(cx, TD_SHAPE(2)))) && !td_ok(cx);
    if (ok && !refused) snprintf(why, cap, "a wrong shape was not detected");
    td_clear(cx); /* or td_close warns of the error */
    td_close(cx);
    return ok && refused;
}

static int run(int argc, char **argv) {
    const char *operand;
    char        why[512];
    int         status;
    if (!cli_parse(&cli_doctor, argc, argv, &operand, &status)) return status;
    cli_term t = cli_term_open(stdout, "auto");
    show_build(&t);
    show_system(&t);
    show_cpu(&t);
    show_features(&t);
    show_native(&t);
    show_devices(&t);
    bool ok = self_test(why, sizeof why);
    line(&t, "self-test", "%s%s%s", cli_ink_on(&t, ok ? CLI_GOOD : CLI_BAD),
         ok ? "fine" : why, cli_ink_on(&t, CLI_PLAIN));
    return ok ? CLI_OK : CLI_FAILED;
}

const cli_command cli_doctor = {
    .name = "doctor",
    .summary = "describe this build and machine, and run a self-test",
    .about = "Prints the compiler and libraries that Tandem was built with, the "
             "machine, the\n"
             "instruction set of its kernels, the number of threads, the C compiler "
             "and the\n"
             "cache of native code, and the result of a small self-test. Please "
             "include this\n"
             "output in bug reports.\n"
             "\n"
             "The exit status is 1 if the self-test fails.\n",
    .examples = "tandem doctor\n"
                "TD_ISA=base TD_NUM_THREADS=1 tandem doctor\n",
    .options = options,
    .run = run,
};
