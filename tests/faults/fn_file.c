/* fn_file.c -- failing allocations and file calls while a function is compiled with
 * decompositions, saved, loaded and called. What is loaded computes what was saved. */
#include "faults.h"

#include <unistd.h>

static char path[64];

static bool layer(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_add_(td_arg(c, 2), 1.0);
    td_tensor *h = td_tanh(td_matmul(x, w));
    return td_return(c, td_sum(h), td_transpose(h, 0, 1));
}

static bool by_sigmoid(void *env, td_mode_call *h, const td_op_site *at) {
    td_tensor *x = td_mode_call_arg(h, 0).u.t, *s;
    (void)env, (void)at;
    s = td_sub(td_mul(td_sigmoid(td_mul(x, 2.0)), 2.0), 1.0);
    return td_ok(td_mode_call_ctx(h)) && td_mode_call_answer(h, 0, s);
}

static double call(td_ctx *cx, td_fn *f) {
    td_tensor *x = td_full(cx, TD_SHAPE(2, 3), 0.5), *seen = td_zeros(cx, TD_SHAPE(1));
    td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(3, 2), 0.25)), *out[2];
    if (!td_invoke(f, TD_ARGS(x, w, seen), out, 2) || !td_backward(out[0])) return 0;
    return td_item(out[0]) + td_item(td_sum(td_grad_of(w))) + td_item(seen);
}

static double saved(td_ctx *cx) {
    td_decomposition one = {.op = "tanh", .run = by_sigmoid};
    td_aot_opts      o = {TD_AOT_OPTS, .savable = true, .decompositions = &one,
                          .n_decompositions = 1};
    td_config_set(cx, "backend", "interp");
    td_config_set(cx, "cache_disk_mb", "0");
    td_fn *f = td_aot_function(cx, layer, NULL, &o), *g = NULL;
    double a = call(cx, f), b = 0;
    if (td_ok(cx) && td_fn_save(f, path)) g = td_fn_load(cx, path, NULL);
    if (g && td_ok(cx)) b = call(cx, g);
    td_fn_drop(f);
    td_fn_drop(g);
    if (td_ok(cx) && !fault_same(a, b))
        td_fail(cx, TD_E_BUILD, "the file computes something else");
    return a + b;
}

static const td_fault_case cases[] = {
    {.name = "fn_file", .run = saved, .io = true, .slow = true}};

int main(int argc, char **argv) {
    snprintf(path, sizeof path, "/tmp/td-faults-fn-%ld", (long)getpid());
    int status = fault_main(cases, TD_COUNT(cases), argc, argv);
    unlink(path);
    return status;
}
