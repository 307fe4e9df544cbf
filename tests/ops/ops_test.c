/* ops_test.c -- every sample of every op against PyTorch's stored results.
 *
 *   build/ops-test                all samples and the self-check of the table
 *   build/ops-test TEXT...        samples whose text contains TEXT
 *   build/ops-test --device=cuda:0    all tensors on a device
 *   build/ops-test --native       each as a compiled function, against eager
 *   build/ops-test --twice        second gradients inside and outside of such
 *   --every=N                     every Nth sample only
 *   -q  failures are counted, not printed    -d DIR  where the samples are
 *
 * Prints one block per failing sample and `N passed, N failed`; the exit status
 * is the verdict. Runs from the root of the source tree. */
#include "tandem/device.h"
#include "sample.h"

#include "backend/nest.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct suite {
    const char  *dir;
    char       **words; /* filters, without blanks */
    int          n_words;
    bool         quiet;
    int          passed, failed;
    int          first, second; /* samples that went through gradcheck, by order */
    sym_stats    sym;           /* samples that went through on symbolic sizes */
    int          simpler;       /* samples compared with the op's simpler form */
    int          wrong;         /* wrong kernels that had to be noticed, and were */
    bool         native, twice;
    td_device    device; /* of all tensors */
    int          every;
    native_stats compiled;
    twice_stats  again;
    char         torch[64]; /* whose results are stored */
    bool         seen[TD_OP_COUNT], graded[TD_OP_COUNT];
    bool         complex[TD_OP_COUNT]; /* ran on complex tensors */
} suite;

static const char *volatile running; /* the sample a crash is blamed on */

static void crashed(int sig) {
    const char *text = running ? running : "?";
    char        line[700];
    int         n = snprintf(line, sizeof line, "CRASH (signal %d) in %s\n", sig, text);
    if (write(STDOUT_FILENO, line, (size_t)n) < 0) _exit(3);
    _exit(2);
}

static bool wanted(const suite *u, int nr, const char *text) {
    if (u->every > 1 && nr % u->every) return false;
    for (int i = 0; i < u->n_words; i++)
        if (strstr(text, u->words[i])) return true;
    return u->n_words == 0;
}

/* Does the sample have complex tensors? */
static bool is_complex(const sample *s, const expected *e) {
    bool found = false;
    for (int i = 0; i < s->n_leaves; i++) found |= td_dtype_is_complex(s->leaves[i].dt);
    for (int i = 0; i < e->n_out; i++) found |= td_dtype_is_complex(e->out[i].dt);
    return found;
}

/* One sample in all ways but compiled. */
static void run_checks(suite *u, td_ctx *cx, report *r, const expected *e) {
    grad_stats g = {false, false};
    td_op      op = td__op_find(r->s->op_name);
    u->seen[op] = true;
    if (e->status == EXP_OK) u->complex[op] |= is_complex(r->s, e);
    check_call(cx, r, e);
    if (!r->failures && e->status == EXP_OK) check_notices(cx, r, e, &u->wrong);
    if (cx->rng_offset && !td__op_draws(op))
        fail_sample(r, "draws, and no flag of its row says so");
    if (!r->failures && e->status == EXP_OK) check_parts(cx, r);
    if (!r->failures && e->status == EXP_OK) check_twins(cx, r);
    if (!r->failures && e->status == EXP_OK) check_fake(cx, r);
    if (!r->failures && e->status == EXP_OK) check_grad(cx, r, e, &g);
    if (!r->failures && e->status == EXP_OK) check_sym(cx, r, &u->sym);
    if (!r->failures && e->status == EXP_OK) check_simpler(cx, r, &u->simpler);
    if (g.first) u->graded[op] = true;
    u->first += g.first;
    u->second += g.second;
}

static void run_sample(suite *u, const sample_text *t, const exp_file *f) {
    static sample   s;
    static expected e;
    report          r = {.s = &s, .quiet = u->quiet};
    td_ctx         *cx = NULL;
    running = t->text;
    memset(&s, 0, sizeof s);
    s.src = t;
    if (!sample_parse(t, &s)) fail_sample(&r, "%s", s.why);
    td_op op = s.why[0] ? TD_OP_COUNT : td__op_find(s.op_name);
    if (!s.why[0] && op == TD_OP_COUNT) fail_sample(&r, "no such op");
    if (!r.failures && !expected_find(f, &s, &e))
        fail_sample(&r, "stored result damaged");
    if (!r.failures && e.status == EXP_MISSING)
        fail_sample(&r, "no stored result: run tools/oracle/oracle.py");
    if (!r.failures && !(cx = td_open())) fail_sample(&r, "out of memory");
    if (!r.failures) td_set_default_device(cx, u->device);
    if (!r.failures && !td_ok(cx)) fail_sample(&r, "%s", td_message(cx));
    if (!r.failures) sums_measure(cx, &r);
    if (!r.failures && u->native) check_native(cx, &r, &u->compiled);
    else if (!r.failures && u->twice) check_twice(cx, &r, &u->again);
    else if (!r.failures) run_checks(u, cx, &r, &e);
    sums_free(&r);
    if (cx) td_close(cx);
    if (r.failures) u->failed++;
    else u->passed++;
}

/* Many samples are compiled at once: a first round, with kernels held back, says what
 * there is to compile, the second counts. */
enum { BATCH = 400 };

static void rehearse(suite *u, const sample_list *l, const exp_file *f, int from) {
    suite was = *u;
    td__kernels_defer();
    u->quiet = true;
    for (int i = from; i < l->items.n && i < from + BATCH; i++)
        if (wanted(u, i, l->items.v[i].text)) run_sample(u, &l->items.v[i], f);
    *u = was;
    td_ctx *cx = td_open();
    if (cx && !td__kernels_build_deferred(cx)) printf("%s\n", td_message(cx));
    if (cx) td_close(cx);
}

static void run_samples(suite *u, const sample_list *l, const exp_file *f) {
    for (int i = 0; f && i < l->items.n; i++) {
        if (u->native && i % BATCH == 0) rehearse(u, l, f, i);
        if (wanted(u, i, l->items.v[i].text)) run_sample(u, &l->items.v[i], f);
    }
}

static bool run_family(suite *u, const char *family) {
    char        path[512], why[600];
    sample_list list = {.items = {NULL, 0, 0}};
    snprintf(path, sizeof path, "%s/samples_%s.def", u->dir, family);
    bool ok = sample_read(&list, path);
    snprintf(path, sizeof path, "%s/expected/%s.bin", u->dir, family);
    exp_file *f = ok ? expected_open(path, why, sizeof why) : NULL;
    if (ok && !f) fprintf(stderr, "%s\n", why);
    if (f) snprintf(u->torch, sizeof u->torch, "%s", expected_version(f));
    run_samples(u, &list, f);
    expected_close(f);
    td__vec_free(&list.items);
    td__arena_free(&list.arena);
    return f != NULL;
}

static int is_samples(const struct dirent *d) {
    size_t n = strlen(d->d_name);
    return !strncmp(d->d_name, "samples_", 8) && n > 12 &&
           !strcmp(d->d_name + n - 4, ".def");
}

static bool run_all(suite *u) {
    struct dirent **files;
    int             n = scandir(u->dir, &files, is_samples, alphasort);
    bool            ok = n > 0;
    for (int i = 0; i < n; i++) {
        char   family[256];
        size_t k = strlen(files[i]->d_name) - 12;
        snprintf(family, sizeof family, "%.*s", (int)k, files[i]->d_name + 8);
        ok &= run_family(u, family);
        free(files[i]);
    }
    if (n >= 0) free(files);
    else fprintf(stderr, "%s: no samples\n", u->dir);
    return ok;
}

static void strip_blanks(char *s) {
    char *to = s;
    for (; *s; s++)
        if (*s != ' ') *to++ = *s;
    *to = 0;
}

int main(int argc, char **argv) {
    static suite u = {.dir = "tests/ops"};
    u.words = argv + 1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-q")) u.quiet = true;
        else if (!strcmp(argv[i], "--native")) u.native = true;
        else if (!strncmp(argv[i], "--device=", 9))
            td_device_parse(argv[i] + 9, &u.device);
        else if (!strcmp(argv[i], "--twice")) u.twice = true;
        else if (!strncmp(argv[i], "--every=", 8)) u.every = atoi(argv[i] + 8);
        else if (!strcmp(argv[i], "-d") && i + 1 < argc) u.dir = argv[++i];
        else if (*argv[i]) {
            strip_blanks(argv[i]);
            u.words[u.n_words++] = argv[i];
        }
    }
    if (!td__table_init()) {
        printf("FAIL table: %s\n0 passed, 1 failed\n", td__table_why());
        return 1;
    }
    signal(SIGSEGV, crashed);
    signal(SIGFPE, crashed);
    signal(SIGABRT, crashed);
    bool ok = run_all(&u);
    bool whole = u.n_words == 0 && u.every < 2 && !u.native && !u.twice;
    if (whole) u.failed += check_table(u.seen, u.graded, u.complex);
    if (!ok) u.failed++;
    if (u.native && u.n_words == 0 && u.compiled.exact == u.compiled.compared) {
        printf("FAIL no sample rounds otherwise: was any of them compiled?\n");
        u.failed++;
    }
    if (u.native)
        printf("native code against eager: %d compared, %d bit for bit, %d with "
               "gradients; %d refused\n",
               u.compiled.compared, u.compiled.exact, u.compiled.exact_grads,
               u.compiled.refused);
    else if (u.twice)
        printf("gradients of gradients: %d compared, %d held against differences; %d "
               "refused\n",
               u.again.compared, u.again.slopes, u.again.refused);
    else
        printf(
            "ops against PyTorch %s; gradcheck %d, second order %d; symbolic sizes %d, "
            "others %d; simpler forms %d; wrong kernels noticed %d\n",
            u.torch, u.first, u.second, u.sym.same, u.sym.other, u.simpler, u.wrong);
    printf("%d passed, %d failed\n", u.passed, u.failed);
    return u.failed != 0;
}
