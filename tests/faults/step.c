/* step.c -- failures of allocations while training steps are compiled and called, with
 * gradients taken away inside and gradients that stay. */
#include "faults.h"

typedef struct net {
    td_tensor *w, *m;
    bool       keep; /* the gradient stays */
} net;

static bool step(td_call *c) {
    net         *n = td_call_env(c);
    td_ctx      *cx = td_call_ctx(c);
    td_tensor   *h = td_dropout(td_tanh(td_matmul(td_arg(c, 0), n->w)), 0.2, true);
    td_tensor   *loss = td_mean(td_square(h));
    bool         ok = td_backward(loss);
    td_grad_mode was = td_no_grad_begin(cx);
    td_lerp_(n->m, td_grad_of(n->w), 0.1);
    td_sub_(n->w, td_mul(n->m, td_arg(c, 1)));
    if (!n->keep) td_zero_grad(n->w);
    td_no_grad_end(cx, was);
    return ok && td_return(c, loss);
}

static double run(td_ctx *cx, bool keep) {
    net n = {.keep = keep};
    n.w = td_requires_grad_(td_randn(cx, TD_SHAPE(3, 2)));
    n.m = td_zeros(cx, TD_SHAPE(3, 2));
    td_tensor  *x = td_randn(cx, TD_SHAPE(4, 3)), *lr = td_full(cx, TD_SHAPE(), 0.1);
    td_tensor  *loss;
    const char *name = "w";
    td_fn      *f = td_aot_step(cx, step, &n,
                                &(td_aot_opts){TD_AOT_OPTS, .state = {&n.w, 1},
                                               .state_names = &name});
    double      sum = 0;
    for (int i = 0; f && i < 3; i++)
        if (td_invoke(f, TD_ARGS(x, lr), &loss, 1)) sum += td_item(loss);
    td_fn_drop(f);
    sum += td_item(td_sum(td_detach(n.w)));
    td_tensor *g = td_grad_of(n.w);
    return td_is_nil(g) ? sum : sum + td_item(td_sum(g));
}

static double inside(td_ctx *cx) { return run(cx, false); }
static double stays(td_ctx *cx) { return run(cx, true); }

static const td_fault_case cases[] = {{.name = "inside", .run = inside},
                                      {.name = "stays", .run = stays}};

int main(int argc, char **argv) {
    return fault_main(cases, (int)(sizeof cases / sizeof *cases), argc, argv);
}
