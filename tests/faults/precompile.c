/* precompile.c -- every allocation fails in turn while a function with options of all
 * kinds is made and compiled on fake tensors, and while a module's call is. */
#include "faults.h"

static bool layer(td_call *c) {
    td_tensor *h = td_tanh(td_matmul(td_arg(c, 0), td_arg(c, 1)));
    return td_return(c, td_mul(h, h));
}

static bool pass(void *env, const td_graph **g) {
    (void)env, (void)g;
    return true;
}

static bool decline(void *env, td_mode_call *h, const td_op_site *at) {
    (void)env, (void)at;
    return td_mode_call_go(h);
}

static double sum_of(td_tensor *t) { return td_item(td_sum(td_to(t, TD_F64))); }

static void settle(td_ctx *cx) {
    td_config_set(cx, "backend", "interp");
    td_config_set(cx, "cache_disk_mb", "0");
}

/* Options that point to others; compiled before there are values. */
static double function(td_ctx *cx) {
    static const td_decomposition d = {.op = "tanh", .run = decline};
    static const char *const      names[] = {"x", "w"};
    settle(cx);
    td_aot_opts o = {TD_AOT_OPTS,
                     .name = "layer",
                     .n_params = 2,
                     .state_names = names,
                     .decompositions = &d,
                     .n_decompositions = 1,
                     .pass = {.run = pass, .name = "none"}};
    td_fn      *f = td_aot_function(cx, layer, NULL, &o);
    td_tensor  *fx = td_fake(cx, TD_SHAPE(2, 3), (td_ints){0}, TD_F32);
    td_tensor  *fw = td_fake(cx, TD_SHAPE(3, 2), (td_ints){0}, TD_F32), *y;
    td_set_requires_grad(fw, true);
    double sum = 0;
    if (td_fn_precompile(f, TD_ARGS(fx, fw))) {
        td_tensor *x = td_full(cx, TD_SHAPE(2, 3), 0.25);
        td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(3, 2), 0.5));
        if (td_invoke(f, TD_ARGS(x, w), &y, 1) && td_backward(td_sum(y)))
            sum = sum_of(y) + sum_of(td_grad_of(w));
    }
    td_fn_drop(f);
    return td_ok(cx) ? sum : 0;
}

static double module(td_ctx *cx) {
    settle(cx);
    td_module *m = td_nn_linear(cx, 3, 2, NULL);
    td_fn     *f = td_aot_module(m, NULL);
    td_tensor *y, *x = td_full(cx, TD_SHAPE(2, 3), 0.25);
    double     sum = 0;
    if (td_fn_precompile(f, TD_ARGS(td_fake_like(x))) &&
        td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(td_sum(y)))
        sum = sum_of(y);
    td_fn_drop(f);
    td_module_free(m);
    return td_ok(cx) ? sum : 0;
}

static const td_fault_case cases[] = {{.name = "function",
                                       .run = function,
                                       .slow = true},
                                      {.name = "module", .run = module}};

int main(int argc, char **argv) {
    return fault_main(cases, TD_COUNT(cases), argc, argv);
}
