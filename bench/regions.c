/* regions.c -- what compiling a stack of blocks costs, with each block as a region and
 * with the blocks written out: the first call with its backward, nothing cached. Each
 * size has a process of its own. */
#include "bench.h"

#include "aot/aot.h"
#include "tandem/tandem.h"

#include <sys/wait.h>
#include <unistd.h>

enum { WIDTH = 32, MOST = 48 };

/* x, w, v: normalization and two products, with a residual. */
static bool block(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *v = td_arg(c, 2);
    td_tensor *m = td_mean(x, TD_DIMS(1), true), *d = td_sub(x, m);
    td_tensor *n =
        td_div(d, td_sqrt(td_add(td_mean(td_mul(d, d), TD_DIMS(1), true), 1e-5)));
    return td_return(c, td_add(x, td_mm(td_gelu(td_mm(n, w)), v)));
}

typedef struct way {
    int  blocks;
    bool regions;
} way;

static bool stack(td_call *c) {
    const way *how = td_call_env(c);
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *x = td_arg(c, 0);
    for (int i = 0; i < how->blocks; i++) {
        td_values      args = TD_ARGS(x, td_arg(c, 1 + 2 * i), td_arg(c, 2 + 2 * i));
        td_value       y = TD_NONE;
        td_region_body of = {.body = block};
        bool           ok;
        if (how->regions) ok = td_call_region(cx, of, args, &x, 1);
        else ok = td_call_body(cx, block, NULL, args, &y, 1) == 1;
        if (!ok) return false;
        if (!how->regions) x = y.u.t;
    }
    return td_return(c, x);
}

/* The first call and its backward. */
static bool measure(way how) {
    td_ctx    *cx = td_open();
    td_value   v[2 * MOST + 1];
    td_tensor *y = NULL;
    if (!cx) return false;
    td_config_set(cx, "cache_disk_mb", "0");
    for (int i = 0; i <= 2 * how.blocks; i++) {
        td_tensor *t = td_mul(td_randn(cx, TD_SHAPE(i ? WIDTH : 8, WIDTH)), 0.1);
        v[i] = td_value_tensor(td_set_requires_grad(t, true));
    }
    td_fn *f = td_aot_function(cx, stack, &how, NULL);
    double start = bench_now();
    td_invoke(f, (td_values){v, 2 * how.blocks + 1}, &y, 1);
    if (td_ok(cx)) td_backward(td_sum(td_mul(y, y)));
    bool        ok = td_ok(cx);
    const char *name = how.regions ? "compile_regions" : "compile_written_out";
    if (ok)
        bench_print_at(name, "tandem", how.blocks, 1e3 * (bench_now() - start), "ms");
    if (!ok) fprintf(stderr, "regions: %s\n", td_message(cx));
    td_fn_drop(f);
    td_close(cx);
    return ok;
}

int main(void) {
    static const way ways[] = {{2, true}, {MOST, true}, {2, false}, {MOST, false}};
    bool             ok = true;
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        int   end = 1;
        if (child == 0) _exit(measure(ways[i]) ? 0 : 1);
        ok = child > 0 && waitpid(child, &end, 0) == child && end == 0 && ok;
    }
    return !ok;
}
