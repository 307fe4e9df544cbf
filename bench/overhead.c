/* overhead.c -- tanh(x*w) of 64 to a million elements, eager and compiled, forward and
 * with backward: where calls cost, and where elements do. Peers print the same. */
#include "bench.h"

#include <tandem/tandem.h>

typedef struct job {
    td_ctx    *cx;
    td_fn     *f; /* NULL: the body as it is */
    td_tensor *x, *w, *ones;
    bool       back;
} job;

static bool body(td_call *c) {
    return td_return(c, td_tanh(td_mul(td_arg(c, 0), td_arg(c, 1))));
}

static void calls(void *env, long reps) {
    job      *j = env;
    td_values args = TD_ARGS(j->x, j->w);
    for (long i = 0; i < reps; i++) {
        td_value y = TD_NONE;
        td_scope_begin(j->cx, NULL);
        if (j->f) td_invoke_values(j->f, args, &y, 1);
        else td_call_body(j->cx, body, NULL, args, &y, 1);
        if (j->back) {
            td_tensor *root = y.u.t;
            td_backward_with((td_tensors){&root, 1}, (td_tensors){&j->ones, 1}, NULL);
            td_zero_grad(j->x);
            td_zero_grad(j->w);
        }
        td_scope_end(j->cx, NULL, NULL);
    }
}

static void measure(td_ctx *cx, long size, bool back) {
    const char *name = back ? "overhead_forward_backward" : "overhead_forward";
    td_scope_begin(cx, NULL);
    job j = {.cx = cx,
             .x = td_set_requires_grad(td_rand(cx, TD_SHAPE(size)), back),
             .w = td_set_requires_grad(td_rand(cx, TD_SHAPE(size)), back),
             .ones = td_ones(cx, TD_SHAPE(size)),
             .back = back};
    bench_print_at(name, "tandem_eager", size, 1e6 * bench_time(calls, &j), "us");
    j.f = td_aot_function(cx, body, NULL, NULL);
    bench_print_at(name, "tandem", size, 1e6 * bench_time(calls, &j), "us");
    td_fn_drop(j.f);
    td_scope_end(cx, NULL, NULL);
}

int main(void) {
    td_ctx *cx = td_open();
    if (!cx) return 1;
    for (long size = 64; size <= 1 << 20; size *= 4) {
        measure(cx, size, false);
        measure(cx, size, true);
    }
    bool ok = td_ok(cx);
    if (!ok) fprintf(stderr, "overhead: %s\n", td_message(cx));
    td_close(cx);
    return !ok;
}
