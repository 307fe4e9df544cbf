/* overhead.c -- tanh(x*w) of 64 to a million elements, eager and compiled, forward and
 * with backward: where calls cost, and where elements do. Peers print the same. Of 64
 * elements also: the same with a third input that the call writes, and one eager op. */
#include "bench.h"

#include <tandem/tandem.h>

typedef struct job {
    td_ctx    *cx;
    td_fn     *f; /* NULL: the body as it is */
    td_tensor *x, *w, *ones;
    td_tensor *count; /* an input that the body writes; or NULL */
    bool       back;
} job;

static bool body(td_call *c) {
    return td_return(c, td_tanh(td_mul(td_arg(c, 0), td_arg(c, 1))));
}

static bool writing_body(td_call *c) {
    td_add_(td_arg(c, 2), 1.0);
    return body(c);
}

static void calls(void *env, long reps) {
    job      *j = env;
    td_body  *f = j->count ? writing_body : body;
    td_value  in[3] = {td_value_tensor(j->x), td_value_tensor(j->w),
                       td_value_tensor(j->count)};
    td_values args = {in, j->count ? 3 : 2};
    for (long i = 0; i < reps; i++) {
        td_value y = TD_NONE;
        td_scope_begin(j->cx, NULL);
        if (j->f) td_invoke_values(j->f, args, &y, 1);
        else td_call_body(j->cx, f, NULL, args, &y, 1);
        if (j->back) {
            td_tensor *root = y.u.t;
            td_backward_with((td_tensors){&root, 1}, (td_tensors){&j->ones, 1}, NULL);
            td_zero_grad(j->x);
            td_zero_grad(j->w);
        }
        td_scope_end(j->cx, NULL, NULL);
    }
}

static void ops(void *env, long reps) {
    job *j = env;
    for (long i = 0; i < reps; i++) {
        td_scope_begin(j->cx, NULL);
        td_mul(j->x, j->w);
        td_scope_end(j->cx, NULL, NULL);
    }
}

static void measure(td_ctx *cx, long size, bool back, bool writes) {
    static const char *names[] = {"overhead_forward", "overhead_forward_backward",
                                  "overhead_written_forward",
                                  "overhead_written_forward_backward"};
    const char        *name = names[2 * writes + back];
    td_scope_begin(cx, NULL);
    job j = {.cx = cx,
             .x = td_set_requires_grad(td_rand(cx, TD_SHAPE(size)), back),
             .w = td_set_requires_grad(td_rand(cx, TD_SHAPE(size)), back),
             .ones = td_ones(cx, TD_SHAPE(size)),
             .count = writes ? td_zeros(cx, TD_SHAPE(size)) : NULL,
             .back = back};
    bench_print_at(name, "tandem_eager", size, 1e6 * bench_time(calls, &j), "us");
    j.f = td_aot_function(cx, writes ? writing_body : body, NULL, NULL);
    bench_print_at(name, "tandem", size, 1e6 * bench_time(calls, &j), "us");
    td_fn_drop(j.f);
    td_scope_end(cx, NULL, NULL);
}

/* One op without and with history. */
static void measure_op(td_ctx *cx, bool grad) {
    td_scope_begin(cx, NULL);
    job j = {.cx = cx,
             .x = td_set_requires_grad(td_rand(cx, TD_SHAPE(64)), grad),
             .w = td_set_requires_grad(td_rand(cx, TD_SHAPE(64)), grad)};
    bench_print_at(grad ? "overhead_op_grad" : "overhead_op", "tandem_eager", 64,
                   1e6 * bench_time(ops, &j), "us");
    td_scope_end(cx, NULL, NULL);
}

int main(void) {
    td_ctx *cx = td_open();
    if (!cx) return 1;
    for (long size = 64; size <= 1 << 20; size *= 4) {
        measure(cx, size, false, false);
        measure(cx, size, true, false);
    }
    for (int i = 0; i < 2; i++) measure(cx, 64, i, true);
    for (int i = 0; i < 2; i++) measure_op(cx, i);
    bool ok = td_ok(cx);
    if (!ok) fprintf(stderr, "overhead: %s\n", td_message(cx));
    td_close(cx);
    return !ok;
}
