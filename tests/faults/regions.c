/* regions.c -- every allocation fails in turn while a function with regions is
 * captured, joined, partitioned, run and differentiated. */
#include "faults.h"

static bool block(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    return td_return(c, td_add(x, td_tanh(td_matmul(x, w))));
}

/* Three calls, the last two with a promise; the last one captures nothing. */
static bool stack(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    for (int i = 0; i < 3; i++) {
        td_region_body of = {.body = block, .once = i > 0};
        td_values      args = TD_ARGS(x, td_arg(c, 1 + i % 2));
        if (!td_call_region(td_call_ctx(c), of, args, &x, 1)) return false;
    }
    return td_return(c, td_sum(td_mul(x, x)));
}

static double regions(td_ctx *cx) {
    td_config_set(cx, "backend", "interp");
    td_config_set(cx, "cache_disk_mb", "0");
    td_tensor *x = td_randn(cx, TD_SHAPE(2, 3)), *v = td_randn(cx, TD_SHAPE(3, 3));
    td_tensor *w = td_set_requires_grad(td_randn(cx, TD_SHAPE(3, 3)), true), *y = NULL;
    td_fn     *f = td_aot_function(cx, stack, NULL, NULL);
    td_invoke(f, TD_ARGS(x, w, v), &y, 1);
    td_backward(y);
    double sum = td_item(y) + td_item(td_sum(td_grad_of(w)));
    td_fn_drop(f);
    return sum;
}

static const td_fault_case cases[] = {
    {.name = "regions", .run = regions, .slow = true}};

int main(int argc, char **argv) {
    return fault_main(cases, TD_COUNT(cases), argc, argv);
}
