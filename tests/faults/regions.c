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

/* ---- several results, closed-over tensors, regions in regions ------------- */

static bool two(td_call *c) {
    const td_tensor *w = td_call_env(c);
    td_tensor       *h = td_exp(td_matmul(td_arg(c, 0), (td_tensor *)(uintptr_t)w));
    return td_return(c, td_mul(h, td_arg(c, 0)), td_mul(h, h));
}
static bool around(td_call *c) {
    td_tensor     *y[2];
    td_region_body of = {.body = two, .env = td_call_env(c), .name = "two"};
    return td_call_region(td_call_ctx(c), of, TD_ARGS(td_arg(c, 0)), y, 2) &&
           td_return(c, td_dropout(td_sin(y[0]), 0.5, true));
}

/* Writes its operand: the ops are called in its place. */
static bool writes(td_call *c) {
    return td_return(c, td_add(td_mul_(td_arg(c, 0), 2.0), 1.0));
}

/* Gradients of some results arrive, of others do not. */
static bool mixed(td_call *c) {
    td_ctx        *cx = td_call_ctx(c);
    td_tensor     *x = td_arg(c, 0), *w = td_arg(c, 1), *a[2], *b[2], *h = NULL;
    td_region_body of = {.body = two, .env = w, .name = "two"};
    td_call_region(cx, of, TD_ARGS(x), a, 2);
    of.once =
        true; /* the second and third call share a graph, and what it closes over */
    td_call_region(cx, of, TD_ARGS(td_mul(x, 0.5)), b, 2);
    td_call_region(cx, of, TD_ARGS(b[0]), b, 2);
    td_tensor *s = td_add(a[0], b[1]);
    td_call_region(cx, (td_region_body){.body = around, .env = w}, TD_ARGS(s), &h, 1);
    td_call_region(cx, (td_region_body){.body = around, .env = w}, TD_ARGS(h), &h, 1);
    td_call_region(cx, (td_region_body){.body = writes}, TD_ARGS(h), &h, 1);
    return td_return(c, td_sum(h));
}

/* Of the whole, with gradients of gradients; then without gradients. */
static double results(td_ctx *cx) {
    td_config_set(cx, "backend", "interp");
    td_config_set(cx, "cache_disk_mb", "0");
    td_tensor   *x = td_requires_grad_(td_full(cx, TD_SHAPE(3, 3), 0.1)), *y = NULL;
    td_tensor   *w = td_requires_grad_(td_full(cx, TD_SHAPE(3, 3), 0.2)), *g[2];
    td_fn       *f = td_aot_function(cx, mixed, NULL, NULL);
    td_grad_opts make = {TD_GRAD_OPTS, .create_graph = true};
    double       sum = 0;
    if (td_invoke(f, TD_ARGS(x, w), &y, 1) &&
        td_grad(TD_LIST(y), TD_LIST(x, w), g, &make) &&
        td_backward(td_sum(td_mul(g[0], g[1]))))
        sum = td_item(td_sum(td_grad_of(w))) + td_item(td_detach(y));
    td_grad_mode was = td_no_grad_begin(cx);
    if (td_ok(cx) && td_invoke(f, TD_ARGS(x, w), &y, 1)) sum += td_item(y);
    td_no_grad_end(cx, was);
    td_fn_drop(f);
    return sum;
}

static const td_fault_case cases[] = {{.name = "regions", .run = regions, .slow = true},
                                      {.name = "results",
                                       .run = results,
                                       .slow = true}};

int main(int argc, char **argv) {
    return fault_main(cases, TD_COUNT(cases), argc, argv);
}
