/* backward.c -- failures of allocations while backwards are traced, compiled, found
 * again and run as code. */
#include "faults.h"

static bool body(td_call *c) {
    return td_return(c, td_tanh(td_matmul(td_arg(c, 0), td_arg(c, 1))));
}

/* An eager history with a write into a view and a compiled call in it, three times; a
 * hook of a leaf would be the engine's own business. */
static double steps(td_ctx *cx) {
    td_backward_fn *with = td_aot_backward(cx, NULL);
    td_fn          *f = td_aot_function(cx, body, NULL, NULL);
    td_tensor      *w = td_requires_grad_(td_randn(cx, TD_SHAPE(3, 3)));
    double          sum = 0;
    for (int i = 0; i < 3 && td_ok(cx); i++) {
        td_tensor *h = td_mul(w, 2.0), *y;
        td_exp_(td_select(h, 0, 1));
        td_invoke(f, TD_ARGS(h, w), &y, 1);
        td_tensor *loss = td_sum(td_mul(y, y));
        td_backward_with(TD_LIST(loss), (td_tensors){0},
                         &(td_backward_opts){TD_BACKWARD_OPTS, .with = with});
        sum += td_ok(cx) ? td_item(td_sum(td_grad_of(w))) : 0;
    }
    td_fn_drop(f);
    td_backward_fn_drop(with);
    return sum;
}

/* td_grad of a value in the middle, and the explanation of the code. */
static double grads(td_ctx *cx) {
    td_backward_fn *with = td_aot_backward(cx, NULL);
    td_tensor      *x = td_requires_grad_(td_randn(cx, TD_SHAPE(4))), *h = td_sin(x);
    td_tensor      *g[2];
    double          sum = 0;
    char            text[2000];
    if (td_grad(TD_LIST(td_sum(td_mul(h, h))), TD_LIST(h, x), g,
                &(td_grad_opts){TD_GRAD_OPTS, .with = with}))
        sum = td_item(td_sum(g[0])) + td_item(td_sum(g[1]));
    td_backward_explain(with, text, sizeof text);
    td_backward_fn_drop(with);
    return sum;
}

static td_tensor *clipped(void *env, td_tensor *g) {
    (void)env;
    return td_clamp(g, -0.5, 0.5);
}

static bool some(void *env, td_tensor **g, int n) {
    (void)n;
    if (++*(int *)env % 2) g[0] = NULL; /* another set of gradients in the next part */
    return true;
}

/* Parts of code around nodes with hooks. */
static double hooked(td_ctx *cx) {
    td_backward_fn *with = td_aot_backward(cx, NULL);
    td_tensor      *w = td_requires_grad_(td_randn(cx, TD_SHAPE(3, 3)));
    double          sum = 0;
    int             calls = 0;
    char            text[2000];
    for (int i = 0; i < 3 && td_ok(cx); i++) {
        td_tensor *h = td_tanh(td_matmul(w, w)), *k = td_exp(h), *g;
        td_on_grad(h, clipped, NULL);
        td_on_node_pre(td_grad_fn(k), some, &calls);
        td_tensor *loss = td_add(td_sum(td_mul(td_sin(k), h)), td_sum(w));
        td_backward_with(TD_LIST(loss), (td_tensors){0},
                         &(td_backward_opts){TD_BACKWARD_OPTS, .with = with,
                                             .retain_graph = true});
        if (td_grad(TD_LIST(loss), TD_LIST(h), &g,
                    &(td_grad_opts){TD_GRAD_OPTS, .with = with}))
            sum += td_item(td_sum(g)) + td_item(td_sum(td_grad_of(w)));
    }
    td_backward_explain(with, text, sizeof text);
    td_backward_fn_drop(with);
    return sum;
}

static const td_fault_case cases[] = {
    {.name = "compiled backward with hooks", .run = hooked, .slow = true},
    {.name = "compiled backward", .run = steps, .slow = true},
    {.name = "compiled td_grad", .run = grads}};

int main(int argc, char **argv) {
    return fault_main(cases, TD_COUNT(cases), argc, argv);
}
