/* prog_main.c -- `build/fuzz/programs`: makes programs from seeds, checks them, makes
 * what disagrees small and saves it. See docs/testing.md. */
#include "prog.h"

#include "backend/nest.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    uint64_t    seed;
    int64_t     count, seconds;
    int         size, most_bad, batch;
    const char *save;
    bool        print, coverage, quiet;
} opt = {1, 1000, 0, 12, 10, 1, "build/fuzz/found", false, false, false};

/* ---- a crash tells its program ------------------------------------------ */

#define KEPT "tests/corpus/*/*.td"
#define TYPED "tests/fuzz/types/*.td" /* of types that only this program knows */
#define ROUNDS "tests/fuzz/rounds/*.td"
enum { CALM = 60, LONG = 600 }; /* seconds a program may take; where it is compiled */

static td_buf current;
static char   crash_path[512];

static int crash_file;

static void say(const char *text, size_t n) {
    if (crash_file >= 0 && write(crash_file, text, n) < 0) crash_file = -1;
}

/* While a program grows there is only what has grown so far. */
static void tell_program(const char *what) {
    crash_file = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (current.n) say(current.s, current.n);
    else prog_unfinished(say);
    const char *lines[] = {"\n", what, ": ", crash_path, "\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (write(2, lines[i], strlen(lines[i])) < 0) return;
}

static void on_signal(int sig) {
    tell_program(sig == SIGALRM ? "hangs" : "crashes");
    signal(sig, SIG_DFL);
    raise(sig);
}

static void on_death(void) { tell_program("found by a sanitizer"); }

void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

static void catch_crashes(void) {
    static const int deadly[] = {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL, SIGALRM};
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(on_death);
        signal(SIGALRM, on_signal);
        return;
    }
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++)
        signal(deadly[i], on_signal);
}

/* ---- counting ----------------------------------------------------------- */

typedef struct tally {
    char     kind[160];
    int64_t  n;
    uint64_t seed; /* the first */
} tally;

static TD_VEC(tally) refusals;
static int64_t n_done, n_agree, n_fail, n_refused, n_rounds, n_bad;

/* Refusals are counted by reason, whichever way gives it. */
static void count_refusal(const char *kind, uint64_t seed) {
    const char *reason = strstr(kind, ": ");
    tally       t = {.n = 1, .seed = seed};
    /* behind the way, of which the end of a long reason depends */
    snprintf(t.kind, sizeof t.kind, "%.110s", reason ? reason + 2 : kind);
    n_refused++;
    for (int i = 0; i < refusals.n; i++)
        if (!strcmp(refusals.v[i].kind, t.kind)) {
            refusals.v[i].n++;
            return;
        }
    td__vec_push(&refusals, t);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_count(const void *a, const void *b) {
    int64_t x = ((const tally *)a)->n, y = ((const tally *)b)->n;
    return x < y ? 1 : x > y ? -1 : 0;
}

static void report(double seconds) {
    if (refusals.n) qsort(refusals.v, (size_t)refusals.n, sizeof(tally), by_count);
    printf("%lld programs in %.1f s (%.0f a second): %lld agree, of these %lld fail "
           "alike; %lld refused; %lld disagree\n",
           (long long)n_done, seconds, (double)n_done / (seconds > 0 ? seconds : 1),
           (long long)n_agree, (long long)n_fail, (long long)n_refused,
           (long long)n_bad);
    if (td__kernels_loaded()) printf("%d kernels\n", td__kernels_loaded());
    if (n_rounds) printf("%lld round otherwise\n", (long long)n_rounds);
    for (int i = 0; i < refusals.n; i++)
        printf("refused %6lld  %s (seed %llu)\n", (long long)refusals.v[i].n,
               refusals.v[i].kind, (unsigned long long)refusals.v[i].seed);
    int unused = 0;
    for (int i = 0; i < TD_OP_COUNT; i++) unused += prog_calls[i] == 0;
    printf("ops used: %d of %d\n", TD_OP_COUNT - unused, TD_OP_COUNT);
    for (int i = 0; opt.coverage && i < TD_OP_COUNT; i++)
        if (prog_calls[i] == 0) printf("never used: %s\n", td__ops[i].name);
    td__vec_free(&refusals);
}

/* ---- one program -------------------------------------------------------- */

static void save(uint64_t seed, const char *what, td_buf *text, const prog_result *r) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s-%llu.td", opt.save, what,
             (unsigned long long)seed);
    FILE *f = fopen(path, "w");
    if (f) {
        fprintf(f, "# seed %llu: ", (unsigned long long)seed);
        for (const char *p = r->why; *p; p++)
            fputs(*p == '\n' ? "\n# " : (char[]){*p, 0}, f);
        fprintf(f, "\n\n%s", td__buf_str(text));
        fclose(f);
    }
    printf("%s: %s%s\n  %s\n", what, path, f ? "" : " (cannot be written)", r->why);
    fflush(stdout);
}

static void judge(uint64_t seed, td_buf *text) {
    prog_result r;
    prog_check(td__buf_str(text), text->n, &r);
    n_done++;
    if (r.rounds) {
        n_rounds++;
        save(seed, "rounds", text, &r);
    }
    if (r.verdict == PROG_REFUSED) count_refusal(r.kind, seed);
    else if (r.verdict == PROG_AGREE) {
        n_agree++;
        n_fail += r.failed;
    } else {
        n_bad++;
        if (r.verdict == PROG_DIFFER) {
            save(seed, "found", text, &r);
            prog_shrink(text, r.kind);
            prog_check(td__buf_str(text), text->n, &r);
        }
        save(seed, r.verdict == PROG_DIFFER ? "small" : "broken", text, &r);
    }
}

static void on_your_mark(uint64_t seed) {
    current.n = 0;
    snprintf(crash_path, sizeof crash_path, "%s/crash-%llu.td", opt.save,
             (unsigned long long)seed);
    alarm(opt.batch > 1 ? LONG : CALM);
}

static bool one_seed(uint64_t seed) {
    on_your_mark(seed);
    if (!prog_make(seed, opt.size, &current)) return false;
    if (opt.print) fputs(td__buf_str(&current), stdout);
    else judge(seed, &current);
    alarm(0);
    return true;
}

/* ---- many programs, one call of the compiler ---------------------------- */

/* Makes the programs and runs each with its kernels held back. */
static bool rehearse(uint64_t seed, td_buf *text, int n) {
    bool ok = true;
    td__kernels_defer();
    for (int i = 0; i < n && ok; i++) {
        on_your_mark(seed + (uint64_t)i);
        ok = prog_make(seed + (uint64_t)i, opt.size, &current);
        if (ok) td__buf_addn(&text[i], current.s, current.n);
        if (ok) prog_rehearse(current.s, current.n);
        alarm(0);
    }
    td_ctx *cx = td_open();
    ok = cx && td__kernels_build_deferred(cx) && ok;
    if (!ok) printf("a batch stops: %s\n", cx ? td_message(cx) : "no memory");
    if (cx) td_close(cx);
    return ok;
}

/* Those of the programs n from `seed` on; in the end all kernels are there. */
static bool one_batch(uint64_t seed, int n) {
    td_buf *text = td__zalloc(sizeof *text * (size_t)n);
    bool    ok = text && rehearse(seed, text, n);
    for (int i = 0; i < n && ok && n_bad < opt.most_bad; i++) {
        on_your_mark(seed + (uint64_t)i);
        td__buf_addn(&current, text[i].s, text[i].n);
        judge(seed + (uint64_t)i, &current);
        alarm(0);
    }
    for (int i = 0; text && i < n; i++) td__buf_free(&text[i]);
    td__free(text);
    return ok;
}

/* ---- files -------------------------------------------------------------- */

static bool read_text(const char *path, td_buf *b) {
    FILE  *f = fopen(path, "r");
    char   part[4096];
    size_t n;
    if (!f) return false;
    b->n = 0;
    while ((n = fread(part, 1, sizeof part, f)) > 0) td__buf_addn(b, part, n);
    fclose(f);
    return true;
}

/* A kept program says in its first words that it must be refused; others agree. */
static bool is_as_kept(const prog_result *r) {
    bool refused = !strncmp(td__buf_str(&current), "# Refused", 9);
    return r->verdict == (refused ? PROG_REFUSED : PROG_AGREE);
}

/* Kept programs: how many are not as they must be. */
static int replay(int argc, char **argv) {
    int bad = 0;
    prog_all_passes = true;
    for (int i = 0; i < argc; i++) {
        prog_result r = {.verdict = PROG_BROKEN, .why = "cannot be read"};
        snprintf(crash_path, sizeof crash_path, "%s.crash", argv[i]);
        alarm(CALM);
        if (read_text(argv[i], &current))
            prog_check(td__buf_str(&current), current.n, &r);
        if (is_as_kept(&r)) continue;
        bad++;
        printf("FAIL %s\n     %s\n", argv[i], r.why);
    }
    prog_all_passes = false;
    td__buf_free(&current);
    return bad;
}

/* ---- parts of the grammar ----------------------------------------------- */

static const char *const parts[] = {"closed",    "hooks",    "checkpoint", "autocast",
                                    "custom",    "grads",    "module",     "masks",
                                    "functions", "branches", "user",       "numbers",
                                    "marks",     "types",    "regions",    "all"};
enum { N_PARTS = sizeof parts / sizeof *parts };

/* --with=closed,hooks or --with=all */
static bool with(const char *words) {
    for (size_t i = 0; *words; i = 0) {
        size_t n = strcspn(words, ",");
        while (i < N_PARTS && (strncmp(words, parts[i], n) || parts[i][n])) i++;
        if (i == N_PARTS) return false;
        prog_with |= strcmp(parts[i], "all") ? 1u << i : (unsigned)PROG_ALL;
        words += n + (words[n] == ',');
    }
    return true;
}

/* ---- as a test ---------------------------------------------------------- */

enum { SMOKE = 1000, SMOKE_PART = 100, SMOKE_WIDE = 300, QUICK = 5 };

/* A fixed stretch of seeds, up to the first program that disagrees. */
static int stretch(const char *part, const char *way, bool wide, int n) {
    static uint64_t seed = 100001;
    if (getenv("TD_TEST_QUICK")) n /= QUICK;
    prog_with = 0;
    prog_only = way;
    prog_wide = wide;
    with(part);
    for (int i = 0; i < n && n_bad == 0; i++) one_seed(seed + (uint64_t)i);
    seed += SMOKE;
    return n;
}

/* Plain programs in every way, then each part, then all at once for many sizes, then
 * all at once with some of their allocations failing, then on a device. */
static int stretches(void) {
    int n = stretch("", NULL, false, SMOKE);
    for (int i = 0; i < N_PARTS; i++) n += stretch(parts[i], NULL, i % 2, SMOKE_PART);
    n += stretch("all", "dynamic", true, SMOKE_WIDE);
    prog_faults = 5;
    n += stretch("all", NULL, true, SMOKE_PART);
    prog_faults = 0;
    prog_device = "test:0";
    n += stretch("all", NULL, true, SMOKE_PART) + stretch("", NULL, false, SMOKE_PART);
    prog_device = NULL;
    return n;
}

/* Programs whose gradients round otherwise: they count as that, and a gradient that is
 * off by less, but in every dtype, does not. How many verdicts are wrong. */
static int judge_rounding(int argc, char **argv) {
    int bad = 0;
    for (int i = 0; i < argc; i++) {
        prog_result r = {.verdict = PROG_BROKEN, .why = "cannot be read"}, wrong = r;
        if (read_text(argv[i], &current)) {
            prog_check(td__buf_str(&current), current.n, &r);
            prog_mistaken = true;
            prog_check(td__buf_str(&current), current.n, &wrong);
            prog_mistaken = false;
        }
        if (r.verdict == PROG_AGREE && r.rounds && wrong.verdict == PROG_DIFFER)
            continue;
        bad++;
        printf("FAIL %s\n     %s; with a mistake: %s\n", argv[i], r.why, wrong.why);
    }
    td__buf_free(&current);
    return bad;
}

/* Calls fn for the programs of a pattern whose path behind tests/ has `word` in it, in
 * order of their names: how many it finds bad; *n counts all. */
static int each_kept(const char *pattern, const char       *word,
                     int (*fn)(int argc, char **argv), int *n) {
    glob_t found;
    int    bad = 0;
    if (glob(pattern, 0, NULL, &found))
        return ++*n, printf("FAIL %s: no such files\n", pattern), 1;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if (word && !strstr(found.gl_pathv[i] + strlen("tests/"), word)) continue;
        bad += fn(1, &found.gl_pathv[i]);
        ++*n;
    }
    globfree(&found);
    return bad;
}

/* The kept programs whose name has `word` in it, then fixed stretches of seeds. */
static int run_as_test(const char *word) {
    int n = 0;
    int bad = each_kept(KEPT, word, replay, &n);
    bad += each_kept(TYPED, word, replay, &n);
    bad += each_kept(ROUNDS, word, judge_rounding, &n);
    if (!word || strstr("programs", word)) {
        n += stretches();
        report(0);
    }
    printf("%d passed, %d failed\n", n - bad - (int)n_bad, bad + (int)n_bad);
    return bad != 0 || n_bad != 0;
}

/* ---- the command -------------------------------------------------------- */

static const char help[] =
    "usage: programs [--seed=N] [--count=N] [--seconds=N] [--size=N] [--save=DIR]\n"
    "                [--way=[!]WORD,...] [--wide] [--public] [--coverage]\n"
    "                [--device=NAME]\n"
    "                [--print] [--batch=N] [--with=PART,...] [--faults=N]\n"
    "       programs [--way=[!]WORD,...] [--faults=N] --replay FILE...\n"
    "       programs [WORD]    the kept programs, then fixed stretches of seeds\n"
    "Random programs, run eagerly and in every other way; see docs/testing.md.\n";

static bool number(const char *arg, const char *name, int64_t *to) {
    size_t n = strlen(name);
    if (strncmp(arg, name, n)) return false;
    *to = strtoll(arg + n, NULL, 10);
    return true;
}

static bool option(const char *arg) {
    int64_t n;
    if (number(arg, "--seed=", &n)) opt.seed = (uint64_t)n;
    else if (number(arg, "--count=", &n)) opt.count = n;
    else if (number(arg, "--seconds=", &n)) opt.seconds = n;
    else if (number(arg, "--size=", &n)) opt.size = n > 0 ? (int)n : 1;
    else if (number(arg, "--most-bad=", &n)) opt.most_bad = (int)n;
    else if (number(arg, "--faults=", &n)) prog_faults = n > 0 ? (int)n : 0;
    else if (number(arg, "--batch=", &n)) opt.batch = n > 0 ? (int)n : 1;
    else if (!strncmp(arg, "--save=", 7)) opt.save = arg + 7;
    else if (!strncmp(arg, "--way=", 6)) prog_only = arg + 6;
    else if (!strncmp(arg, "--device=", 9)) prog_device = arg + 9;
    else if (!strcmp(arg, "--print")) opt.print = true;
    else if (!strcmp(arg, "--wide")) prog_wide = true;
    else if (!strncmp(arg, "--with=", 7)) return with(arg + 7);
    else if (!strcmp(arg, "--public")) prog_public = true;
    else if (!strcmp(arg, "--coverage")) opt.coverage = true;
    else return false;
    return true;
}

/* What asks for too much gets an error at once. Sanitizers need room of their own. */
static void bound_memory(void) {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct rlimit most = {(rlim_t)8 << 30, (rlim_t)8 << 30};
    setrlimit(RLIMIT_AS, &most);
#endif
}

/* Ops and types. Programs of any seed may have them; a kept one names them. */
static bool register_ops(void) {
    td_ctx *cx = td_open();
    bool    ok = prog_register_ops(cx) && prog_register_types(cx);
    if (!ok) fprintf(stderr, "%s\n", td_message(cx));
    td_close(cx);
    return ok;
}

int main(int argc, char **argv) {
    /* Native code takes a compiler's time: TD_BACKEND=native asks for it. */
    setenv("TD_BACKEND", "interp", 0);
    setenv("TD_CACHE_DISK_MB", "0", 0); /* nobody asks for a random program again */
    catch_crashes();
    td_set_threads(1);
    if (!register_ops()) return 2;
    if (argc < 2 || argv[1][0] != '-') return run_as_test(argc > 1 ? argv[1] : NULL);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--replay")) {
            int n = argc - i - 1, bad = replay(n, argv + i + 1);
            printf("%d passed, %d failed\n", n - bad, bad);
            return bad != 0;
        }
        if (!option(argv[i])) {
            fputs(help, stderr);
            return 2;
        }
    }
    mkdir(opt.save, 0777);
    if (!prog_device) bound_memory(); /* drivers reserve more addresses than that */
    double start = now();
    for (int64_t i = 0; i < opt.count; i += opt.batch) {
        int64_t n = opt.count - i < opt.batch ? opt.count - i : opt.batch;
        if (opt.seconds && now() - start > (double)opt.seconds) break;
        uint64_t seed = opt.seed + (uint64_t)i;
        if (!(n == 1 ? one_seed(seed) : one_batch(seed, (int)n))) break;
        if (n_bad >= opt.most_bad) break;
    }
    if (!opt.print) report(now() - start);
    td__buf_free(&current);
    return n_bad != 0;
}
