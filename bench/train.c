/* train.c -- whole training steps: loss, backward and update, eager and compiled.
 *
 *     train [--peak] [part of a name]...
 *
 * Chooses the networks of nets/nets.c whose names contain a word; none: all but GPT-2,
 * whose 124M parameters take 3 GiB. --peak: instead of times the most bytes that one
 * step holds beyond those it found. */
#include "bench.h"
#include "nets/nets.h"

#include <string.h>

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

static void measure(steps_env *e, const char *name, const char *who, bool peak) {
    char text[96];
    snprintf(text, sizeof text, "%s_%s", peak ? "peak" : "train", name);
    if (peak) bench_print_who(text, who, peak_of(e), "MiB");
    else bench_print_who(text, who, 1e3 * bench_time(steps, e), "ms");
}

static bool measure_both(td_ctx *cx, const net_kind *kind, bool peak) {
    net_job j;
    td_scope_begin(cx, kind->name);
    bool ok = net_open(&j, cx, kind);
    if (ok) {
        steps_env e = {&j, NULL};
        measure(&e, kind->name, "tandem_eager", peak);
        td_aot_opts o = {TD_AOT_OPTS, .module = j.net};
        e.f = td_aot_step(cx, net_step, &j, &o);
        steps(&e, 1);
        measure(&e, kind->name, "tandem", peak);
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

int main(int argc, char **argv) {
    bool    peak = argc > 1 && !strcmp(argv[1], "--peak");
    td_ctx *cx = td_open();
    if (!cx) return 1;
    bool ok = true;
    td_seed(cx, 1);
    for (const net_kind *k = net_kinds; ok && k->name; k++)
        if (is_wanted(k->name, argv + 1 + peak)) ok = measure_both(cx, k, peak);
    td_close(cx);
    return !ok;
}
