/* compile.c -- what compiling costs for programs of 10 to 100,000 ops: the stages from
 * the body to the plan, and the whole first call with its backward, code and all, where
 * nothing was compiled before. Each size has a process of its own. */
#include "bench.h"

#include "aot/aot.h"
#include "tandem/tandem.h"

#include <sys/wait.h>
#include <unistd.h>

enum { MOST_CODE = 10000 }; /* ops of the largest program that is run */

/* Layers of five ops; x [4,4]. */
static bool layers(td_call *c) {
    const long *n = td_call_env(c);
    td_tensor  *x = td_arg(c, 0), *w = td_arg(c, 1), *b = td_arg(c, 2);
    for (long i = 0; i < *n / 5; i++)
        x = td_add(td_mul(td_tanh(td_add(td_mm(x, w), b)), 0.5), x);
    return td_return(c, x);
}

static bool measure(long n) {
    td_ctx *cx = td_open();
    if (!cx) return false;
    td_config_set(cx, "cache_disk_mb", "0");
    if (n > MOST_CODE) td_config_set(cx, "backend", "interp");
    td_tensor *x = td_ones(cx, TD_SHAPE(4, 4)), *w = td_rand(cx, TD_SHAPE(4, 4));
    td_tensor *b = td_rand(cx, TD_SHAPE(4)), *y = NULL;
    td_set_requires_grad(w, true);
    td_fn *f = td_aot_function(cx, layers, &n, NULL);
    double start = bench_now();
    td_invoke(f, TD_ARGS(x, w, b), &y, 1);
    double stages = 0;
    for (int i = 0; td_ok(cx) && i < TD_PIPE_FORWARD; i++)
        stages += 1e-9 * (double)f->specs->ns[i];
    if (td_ok(cx)) td_backward(td_sum(y));
    bool ok = td_ok(cx);
    if (ok) bench_print_at("compile_stages", "tandem", n, 1e3 * stages, "ms");
    if (ok && n <= MOST_CODE)
        bench_print_at("compile_cold", "tandem", n, 1e3 * (bench_now() - start), "ms");
    if (!ok) fprintf(stderr, "compile: %s\n", td_message(cx));
    td_fn_drop(f);
    td_close(cx);
    return ok;
}

int main(void) {
    bool ok = true;
    for (long n = 10; n <= 100000; n *= 10) {
        pid_t child = fork();
        int   end = 1;
        if (child == 0) _exit(measure(n) ? 0 : 1);
        ok = child > 0 && waitpid(child, &end, 0) == child && end == 0 && ok;
    }
    return !ok;
}
