/* train.c -- whole training steps: loss, backward and update, eager and compiled.
 *
 *     train [--peak | --threads | --batches] [part of a name]...
 *
 * Chooses the networks of nets/nets.c whose names contain a word; none: all but GPT-2,
 * whose 124M parameters take 3 GiB. --peak: instead of times the most bytes that one
 * step holds beyond those it found. --batches: that of ResNet-18 of 1 to 32 images.
 * --threads: times, compiled, with 1, 2, 4, ... threads to the size of the pool. */
#include "bench.h"
#include "nets/nets.h"

#include <string.h>
#include <unistd.h>

typedef struct steps_env {
    net_job *j;
    td_fn   *f; /* NULL: eagerly */
} steps_env;

static void steps(void *env, long reps) {
    steps_env *e = env;
    net_job   *j = e->j;
    for (long i = 0; i < reps; i++) {
        td_value   out = TD_NONE;
        td_tensor *loss;
        td_scope_begin(j->cx, NULL);
        if (e->f) td_invoke(e->f, TD_ARGS(j->x, j->y), &loss, 1);
        else td_call_body(j->cx, net_step, j, TD_ARGS(j->x, j->y), &out, 1);
        td_scope_end(j->cx, NULL, NULL);
    }
}

/* Two steps first: optimizer state is made in the first one. */
static double peak_of(steps_env *e) {
    steps(e, 2);
    size_t before = td_memory_live();
    td_memory_peak_reset();
    steps(e, 1);
    return (double)(td_memory_peak() - before) / 1048576;
}

/* Prints under a name and a size, or under the network's own where size is 0. */
typedef struct figure {
    bool peak;
    long size;
    long threads; /* the most, for a curve; 0: none */
} figure;

/* The same code with each number of threads. */
static void measure_threads(steps_env *e, const char *name, long most) {
    char text[96];
    snprintf(text, sizeof text, "threads_%s", name);
    for (long n = 1; n <= most; n = n < most && 2 * n > most ? most : 2 * n) {
        td_set_threads((int)n);
        steps(e, 2);
        bench_print_at(text, "tandem", n, 1e3 * bench_time_for(steps, e, 0.4), "ms");
    }
}

static void measure(steps_env *e, const char *name, const char *who, figure what) {
    char text[96];
    snprintf(text, sizeof text, "%s_%s", what.peak ? "peak" : "train", name);
    if (what.size) bench_print_at("memory_resnet18", who, what.size, peak_of(e), "MiB");
    else if (what.peak) bench_print_who(text, who, peak_of(e), "MiB");
    else bench_print_who(text, who, 1e3 * bench_time_for(steps, e, 1), "ms");
}

static bool measure_both(td_ctx *cx, const net_kind *kind, figure what) {
    net_job j;
    td_scope_begin(cx, kind->name);
    bool ok = net_open(&j, cx, kind);
    if (ok) {
        steps_env e = {&j, NULL};
        if (!what.threads) measure(&e, kind->name, "tandem_eager", what);
        td_aot_opts o = {TD_AOT_OPTS, .module = j.net};
        e.f = td_aot_step(cx, net_step, &j, &o);
        steps(&e, 1);
        if (what.threads) measure_threads(&e, kind->name, what.threads);
        else measure(&e, kind->name, "tandem", what);
        td_fn_drop(e.f);
        net_close(&j);
    }
    td_scope_end(cx, kind->name, NULL);
    if (!td_ok(cx)) fprintf(stderr, "%s: %s\n", kind->name, td_message(cx));
    return td_ok(cx);
}

static bool is_wanted(const char *name, char **words) {
    if (!*words) return strncmp(name, "gpt2", 4) != 0;
    for (; *words; words++)
        if (strstr(name, *words)) return true;
    return false;
}

static bool measure_batches(td_ctx *cx) {
    const net_kind *k = net_kinds;
    while (k->name && strncmp(k->name, "resnet18", 8)) k++;
    bool ok = k->name != NULL;
    for (long batch = 1; ok && batch <= 32; batch *= 2) {
        net_kind one = *k;
        one.batch = batch;
        ok = measure_both(cx, &one, (figure){.peak = true, .size = batch});
    }
    return ok;
}

/* TD_NUM_THREADS, or the cores. */
static long most_threads(void) {
    const char *n = getenv("TD_NUM_THREADS");
    return n && atol(n) > 0 ? atol(n) : sysconf(_SC_NPROCESSORS_ONLN);
}

int main(int argc, char **argv) {
    bool    peak = argc > 1 && !strcmp(argv[1], "--peak");
    bool    batches = argc > 1 && !strcmp(argv[1], "--batches");
    bool    threads = argc > 1 && !strcmp(argv[1], "--threads");
    figure  what = {.peak = peak, .threads = threads ? most_threads() : 0};
    td_ctx *cx = td_open();
    if (!cx) return 1;
    bool ok = true;
    td_seed(cx, 1);
    if (batches) ok = measure_batches(cx);
    for (const net_kind *k = net_kinds; ok && !batches && k->name; k++)
        if (is_wanted(k->name, argv + 1 + peak + threads))
            ok = measure_both(cx, k, what);
    td_close(cx);
    return !ok;
}
