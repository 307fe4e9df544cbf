/* emit_c.c -- td_export_c: functions of .td files are written as C, compiled with all
 * warnings as errors, run in a process of their own, and compared with td_exported_run:
 * results, gradients, and arguments that they write.
 *
 *     emit_c             a fixed list of files, with the first compiler found
 *     emit_c --all       all cases and the corpus, every compiler, then sanitizers
 *     emit_c FILE...     these files (programs --print writes random ones)
 *
 * A function may be refused, by TD_E_UNSUPPORTED and with a reason; the summary counts
 * them, and how many results are equal to the bit. */
#include "cli/case_run.h"
#include "core/files.h"
#include "tandem/export.h"
#include "tandem/tandem.h"
#include "trace/trace.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STRICT "-std=c99 -Wall -Wextra -pedantic -Werror "
#define EXACT "-fwrapv -ffp-contract=off -fno-strict-aliasing "

/* A way to compile. */
typedef struct build {
    const char *cc, *flags;
} build;

static const build builds[] = {
    {"gcc", STRICT EXACT "-O1 -march=native"},
    {"gcc", STRICT EXACT "-O0 -march=native -DTD_NO_BUILTINS -fopenmp"},
    {"clang", STRICT EXACT "-O1 -march=native"},
    {"tcc", "-std=c99 -Wall"},
    {"gcc", STRICT EXACT "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover"},
    {"gcc", STRICT EXACT "-O1 -m32 -msse2 -mfpmath=sse"}};

static const build *with;    /* the current one */
static char         dir[64]; /* of the files */
static int          n_all, n_run, n_refused, n_failed, n_exact, n_same;
static bool         verbose;
static double       slack = 1;

static bool can_use(const build *b) {
    char line[512];
    snprintf(line, sizeof line,
             "cd %s && echo 'int main(void) { return 0; }' > t.c && %s %s t.c -o t "
             "-lm >/dev/null 2>&1 && ./t",
             dir, b->cc, b->flags);
    return system(line) == 0;
}

/* ---- one call ------------------------------------------------------------- */

enum { MOST = 64 };

/* A function, what it is called with, and what the library gives. */
typedef struct trial {
    const td_graph *fn;
    td_exported    *e;
    td_value        in[MOST], out[MOST];
    int             n_in, n_out;
    bool            state[MOST];
    void           *before[MOST]; /* elements of arguments before the call */
} trial;

static int64_t span_of(const td_tensor *t) {
    int64_t last = 0;
    for (int d = 0; d < t->rank; d++) {
        if (t->size[d] == 0) return 0;
        last += (t->size[d] - 1) * t->stride[d];
    }
    return (last + 1) * td__dtype_bytes[t->dtype];
}

static bool fail(const trial *t, const char *what) {
    fprintf(stderr, "FAILED @%s: %s (%s)\n", t->fn->name, what, dir);
    n_failed++;
    return false;
}

static void write_inputs(const trial *t) {
    char path[128];
    snprintf(path, sizeof path, "%s/in.bin", dir);
    FILE *f = fopen(path, "wb");
    for (int i = 0; f && i < t->n_in; i++)
        if (!t->state[i])
            fwrite(td__ptr(t->in[i].u.t), 1, (size_t)span_of(t->in[i].u.t), f);
    if (f) fclose(f);
}

/* The name of the function: the last one that model.h declares. */
static bool find_name(char *name, size_t cap, bool *draws) {
    char path[128], line[4096];
    snprintf(path, sizeof path, "%s/model.h", dir);
    FILE *f = fopen(path, "r");
    *name = 0, *draws = false;
    while (f && fgets(line, sizeof line, f)) {
        if (!strncmp(line, "int model_", 10))
            snprintf(name, cap, "%.*s", (int)strcspn(line + 4, "("), line + 4);
        *draws |= strstr(line, "uint64_t seed") != NULL;
    }
    if (f) fclose(f);
    return *name;
}

/* A main that reads arguments, calls the function and writes arguments and results. */
static bool write_main(const trial *t) {
    char name[80], path[128];
    bool draws;
    snprintf(path, sizeof path, "%s/run.c", dir);
    FILE *f = fopen(path, "w");
    if (!f || !find_name(name, sizeof name, &draws)) return f && fclose(f) && false;
    fprintf(f, "#include <stdio.h>\n#include \"model.h\"\nstatic model m;\n");
    for (int i = 0; i < t->n_in + t->n_out; i++) {
        const td_value *v = i < t->n_in ? &t->in[i] : &t->out[i - t->n_in];
        if (i < t->n_in && t->state[i]) continue;
        if (v->kind != TD_K_TENSOR) continue;
        fprintf(f, "static union { unsigned char b[%lld]; double d; long l; } a%d;\n",
                (long long)span_of(v->u.t) + 1, i);
    }
    fprintf(f, "int main(void) {\n    FILE *f = fopen(\"in.bin\", \"rb\");\n"
               "    size_t n = 0;\n    if (!f) return 99;\n");
    for (int i = 0; i < t->n_in; i++)
        if (!t->state[i])
            fprintf(f, "    n += fread(a%d.b, 1, %lld, f);\n", i,
                    (long long)span_of(t->in[i].u.t));
    fprintf(f, "    fclose(f);\n    model_init(&m);\n");
    if (draws)
        fprintf(f, "    m.seed = %lluu, m.offset = 0;\n",
                (unsigned long long)t->fn->cx->rng_seed);
    fprintf(f, "    int bad = %s(&m", name);
    for (int i = 0; i < t->n_in + t->n_out; i++)
        if (!(i < t->n_in && t->state[i]) &&
            (i < t->n_in || t->out[i - t->n_in].kind == TD_K_TENSOR))
            fprintf(f, ", (void *)a%d.b", i);
    fprintf(f, ");\n    f = fopen(\"out.bin\", \"wb\");\n    if (!f) return 99;\n");
    for (int i = 0; i < t->n_in + t->n_out; i++) {
        const td_value *v = i < t->n_in ? &t->in[i] : &t->out[i - t->n_in];
        if ((i < t->n_in && t->state[i]) || v->kind != TD_K_TENSOR) continue;
        fprintf(f, "    n += fwrite(a%d.b, 1, %lld, f);\n", i,
                (long long)span_of(v->u.t));
    }
    fprintf(f, "    fclose(f);\n    return bad ? 98 : (int)(n & 0);\n}\n");
    return fclose(f) == 0;
}

static bool compile_and_run(const trial *t) {
    char line[1024];
    snprintf(line, sizeof line,
             "cd %s && rm -f out.bin && %s %s -o run run.c model.c weights.c -lm > log "
             "2>&1",
             dir, with->cc, with->flags);
    if (system(line) != 0) {
        snprintf(line, sizeof line, "head -5 %s/log >&2", dir);
        return fail(t,
                    system(line) ? "does not compile" : "does not compile, see above");
    }
    snprintf(line, sizeof line, "cd %s && timeout 20 ./run > log 2>&1", dir);
    int status = system(line);
    if (status == 0) return true;
    snprintf(line, sizeof line, "head -8 %s/log >&2", dir);
    if (system(line)) return fail(t, "crashed");
    return fail(t, WIFEXITED(status) && WEXITSTATUS(status) == 98
                       ? "an index is refused"
                       : "crashed");
}

/* ---- comparing ------------------------------------------------------------ */

/* Element by element at the offsets of t; *exact becomes false if bits differ. */
static bool compare(const td_tensor *t, const char *got, bool *exact) {
    int64_t     i[TD_MAX_RANK] = {0}, item = td__dtype_bytes[t->dtype];
    const char *want = td__ptr(t);
    double      eps = t->dtype == TD_F64 ? 1e-10 : t->dtype == TD_F32 ? 2e-5 : 2e-2;
    double      top = 1e-3;
    if (td__numel(t->rank, t->size) == 0) return true;
    for (int64_t k = 0; td__is_float(t->dtype) && k < span_of(t) / item; k++) {
        double x = fabs(td__load_f(t->dtype, want + k * item));
        if (isfinite(x) && x > top) top = x;
    }
    for (bool more = true; more;) {
        int64_t at = 0;
        for (int d = 0; d < t->rank; d++) at += i[d] * t->stride[d] * item;
        if (memcmp(want + at, got + at, (size_t)item)) {
            if (!td__is_float(t->dtype)) return false;
            double x = td__load_f(t->dtype, want + at),
                   y = td__load_f(t->dtype, got + at);
            bool nan = isnan(x) && isnan(y);
            if (!nan) *exact = false;
            if (!nan && x != y && !(fabs(x - y) <= slack * eps * top)) return false;
        }
        more = false;
        for (int d = t->rank - 1; d >= 0 && !more; d--) {
            more = ++i[d] < t->size[d];
            if (!more) i[d] = 0;
        }
    }
    return true;
}

static bool compare_all(const trial *t) {
    char path[128], what[80];
    bool exact = true, ok = true;
    snprintf(path, sizeof path, "%s/out.bin", dir);
    FILE *f = fopen(path, "rb");
    for (int i = 0; f && ok && i < t->n_in + t->n_out; i++) {
        const td_value *v = i < t->n_in ? &t->in[i] : &t->out[i - t->n_in];
        if ((i < t->n_in && t->state[i]) || v->kind != TD_K_TENSOR) continue;
        size_t n = (size_t)span_of(v->u.t);
        char  *got = malloc(n + 1);
        ok = got && fread(got, 1, n, f) == n && compare(v->u.t, got, &exact);
        snprintf(what, sizeof what, "%s %d differs",
                 i < t->n_in ? "argument" : "result", i < t->n_in ? i : i - t->n_in);
        free(got);
    }
    if (f) fclose(f);
    n_exact += f && ok && exact;
    return (f && ok) || fail(t, f ? what : "wrote nothing");
}

/* ---- trials --------------------------------------------------------------- */

/* The body that replays a graph on the arguments it takes. */
static bool graph_body(td_call *c) {
    const td_graph *g = td_call_env(c);
    td_value        in[2 * MOST] = {{0}}, out[2 * MOST] = {{0}};
    if (g->inputs.n > 2 * MOST || g->outputs.n > 2 * MOST) return false;
    for (int i = 0, k = 0; i < g->inputs.n; i++)
        if (!td__graph_holds(g, i)) in[i] = td_value_tensor(td_arg(c, k++));
    return td__graph_replay(g, in, out) &&
           td_return_values(c, (td_values){out, g->outputs.n});
}

/* Is argument `arg` of the function a parameter or a buffer? */
static bool is_state(const td_graph *fn, int arg) {
    for (int i = 0, k = 0; i < fn->inputs.n; i++) {
        uint8_t kind = fn->in_desc.v[i].kind;
        if (td__graph_holds(fn, i)) continue;
        if (k++ == arg) return kind == TD_D_PARAM || kind == TD_D_BUFFER;
    }
    return false;
}

/* Does the exported function fit what the harness can pass? */
static bool take_inputs(trial *t, const td_value *args) {
    const td_graph *g = td_exported_graph(t->e);
    t->n_in = td_exported_inputs(t->e);
    t->n_out = td_exported_outputs(t->e);
    if (t->n_in > MOST || t->n_out > MOST) return false;
    for (int i = 0, k = 0, at = 0; i < t->n_in; i++, at++) {
        td_slot s = td_exported_input(t->e, i);
        while (td__graph_holds(g, at)) at++;
        const td_gtype *l = g->inputs.v[at]->type;
        t->state[i] = is_state(t->fn, i);
        if (s.kind == TD_SLOT_TANGENT || s.kind == TD_SLOT_UPDATE_TANGENT) {
            td_meta m = {.dtype = l->dtype, .rank = l->rank, .strided = true};
            for (int d = 0; d < l->rank; d++)
                m.size[d] = l->size[d], m.stride[d] = l->stride[d];
            td_tensor *x = td__tensor_make(t->fn->cx, &m, false);
            for (int64_t j = 0; x && j < span_of(x) / td__dtype_bytes[l->dtype]; j++)
                td__store_f(x->dtype, td__ptr(x) + j * td__dtype_bytes[l->dtype],
                            (double)(j % 5) - 1.5);
            t->in[i] = td_value_tensor(x);
        } else t->in[i] = args[k++];
        if (t->in[i].kind != TD_K_TENSOR || !t->in[i].u.t->st->data) return false;
    }
    return true;
}

static void swap_bytes(trial *t, bool save) {
    for (int i = 0; i < t->n_in; i++) {
        size_t n = (size_t)span_of(t->in[i].u.t);
        if (save && (t->before[i] = malloc(n + 1)))
            memcpy(t->before[i], td__ptr(t->in[i].u.t), n);
        if (!save && t->before[i]) memcpy(td__ptr(t->in[i].u.t), t->before[i], n);
    }
}

/* A function as C, for these arguments. True unless something is wrong. */
static bool try_function(const td_graph *fn, const td_value *args, int n,
                         td_export_what what) {
    td_ctx          *cx = fn->cx;
    td_export_c_opts o = {TD_EXPORT_C_OPTS, .what = what,
                          .weights = TD_C_WEIGHTS_ARRAY};
    td_export_opts   eo = {TD_EXPORT_OPTS, .what = what};
    td_aot_opts      ao = {TD_AOT_OPTS, .name = fn->name, .dynamic = TD_SHAPES_STATIC};
    trial            t = {.fn = fn};
    td_fn           *f = td_aot_graph(fn, &ao);
    uint64_t         seed = cx->rng_seed, offset = cx->rng_offset;
    bool             ok = td_export_c(f, (td_values){args, n}, dir, &o);
    td_fn_drop(f);
    if (!ok) {
        ok = td__error(cx) == TD_E_UNSUPPORTED;
        if (verbose) fprintf(stderr, "%s\n", td_message(cx));
        td_clear(cx);
        t.e = ok ? NULL
                 : td_export_joint(cx, graph_body, (void *)(uintptr_t)fn,
                                   (td_values){args, n}, &eo);
        ok |= !td_ok(cx); /* the function itself fails */
        if (ok) n_refused++;
        else fail(&t, "not exported");
        td_clear(cx);
        td_exported_drop(t.e);
        return ok;
    }
    cx->rng_seed = seed, cx->rng_offset = 0;
    t.e = td_export_joint(cx, graph_body, (void *)(uintptr_t)fn, (td_values){args, n},
                          &eo);
    if (td_is_nil(t.e) || !take_inputs(&t, args)) {
        if (verbose) fprintf(stderr, "skipped: %s\n", td_message(cx));
        td_clear(cx);
        td_exported_drop(t.e);
        n_same++;
        cx->rng_seed = seed, cx->rng_offset = offset;
        return true;
    }
    write_inputs(&t);
    swap_bytes(&t, true);
    ok = td_exported_run(t.e, (td_values){t.in, t.n_in}, t.out, t.n_out);
    if (!ok) {
        if (verbose) fprintf(stderr, "eager fails: %s\n", td_message(cx));
        td_clear(cx);
    } else {
        for (int i = 0; i < t.n_out; i++)
            if (t.out[i].kind == TD_K_TENSOR)
                t.out[i].u.t = td_op_clone(t.out[i].u.t, false);
        ok = write_main(&t) && compile_and_run(&t) && compare_all(&t);
        n_run++;
    }
    swap_bytes(&t, false);
    for (int i = 0; i < t.n_in; i++) free(t.before[i]);
    td_exported_drop(t.e);
    cx->rng_seed = seed, cx->rng_offset = offset;
    return ok;
}

/* ---- files ---------------------------------------------------------------- */

static const td_graph *seen[256]; /* functions of the file that were tried */
static int             n_seen;

static bool was_seen(const td_graph *fn) {
    for (int i = 0; i < n_seen; i++)
        if (seen[i] == fn) return true;
    if (n_seen < TD_COUNT(seen)) seen[n_seen++] = fn;
    return false;
}

/* Tries a function at its first call, forward and with gradients; then runs it
 * eagerly, so that the case goes on. */
static bool try_and_call(case_run *run, const td_graph *fn, const td_value *in,
                         td_value *out) {
    td_value args[MOST];
    int      n = 0;
    bool     fits = fn->inputs.n <= MOST, grad = false;
    (void)run;
    for (int i = 0; fits && i < fn->inputs.n; i++)
        if (!td__graph_holds(fn, i)) {
            args[n++] = in[i];
            fits = in[i].kind == TD_K_TENSOR;
            grad |= fits && td_requires_grad(in[i].u.t);
        }
    if (fits && !was_seen(fn)) {
        td_scope_begin(fn->cx, NULL);
        try_function(fn, args, n, TD_EXPORT_FORWARD);
        if (grad && fn->cx->grad_enabled) try_function(fn, args, n, TD_EXPORT_TANGENTS);
        td_scope_end(fn->cx, NULL, NULL);
    }
    return td__graph_replay(fn, in, out);
}

static const case_way way = {.name = "emit-c", .call = try_and_call};

static void try_file(const char *path) {
    td_ctx   *cx = td_open();
    td_gfile *f = td__gfile_read(cx, path);
    n_seen = 0;
    int failed = n_failed;
    for (int i = 0; f && i < f->cases.n; i++) {
        case_run run = {.file = f, .c = f->cases.v[i], .way = &way};
        case_run_all(&run); /* cases may fail, as they do eagerly */
        td_clear(cx);
    }
    if (n_failed > failed) fprintf(stderr, "  in %s\n", path);
    td__gfile_drop(f);
    td_close(cx);
}

static void try_files(const char *pattern) {
    glob_t g;
    if (glob(pattern, 0, NULL, &g)) return;
    for (size_t i = 0; i < g.gl_pathc; i++) try_file(g.gl_pathv[i]);
    globfree(&g);
}

static void try_list(int argc, char **argv, bool all) {
    static const char *const few[] = {"tests/emit_c/*.td"};
    static const char *const many[] = {"tests/emit_c/*.td", "tests/cases/*/*.td",
                                       "tests/corpus/*/*.td"};
    for (int i = 0; i < argc; i++) try_files(argv[i]);
    for (int i = 0; !argc && !all && i < TD_COUNT(few); i++) try_files(few[i]);
    for (int i = 0; !argc && all && i < TD_COUNT(many); i++) try_files(many[i]);
}

int main(int argc, char **argv) {
    bool all = false;
    int  n_files = 0, least = -1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--all")) all = true;
        else if (!strcmp(argv[i], "-v")) verbose = true;
        else if (!strncmp(argv[i], "--build=", 8)) least = atoi(argv[i] + 8);
        else argv[1 + n_files++] = argv[i];
    }
    snprintf(dir, sizeof dir, "/tmp/tandem-emit-c-XXXXXX");
    if (!mkdtemp(dir)) return perror(dir), 1;
    for (int i = 0; i < TD_COUNT(builds); i++) {
        with = &builds[i];
        if (least >= 0 ? i != least : i > 0 && !all) continue;
        if (!can_use(with)) {
            printf("skipped: no %s %s here\n", with->cc, with->flags);
            continue;
        }
        n_run = n_refused = n_exact = n_same = 0;
        try_list(n_files, argv + 1, all);
        n_all += n_run;
        printf(
            "%s %s: %d run, %d equal to the bit, %d refused, %d without a reference, "
            "%d failed\n",
            with->cc, with->flags, n_run, n_exact, n_refused, n_same, n_failed);
    }
    char line[128];
    snprintf(line, sizeof line, "rm -r %s", dir);
    if (!n_failed && system(line)) n_failed++;
    printf("%d passed, %d failed\n", n_all - n_failed, n_failed);
    return n_failed != 0;
}
