/* pinn.c -- a network that solves u'' = -sin(x), u(0) = u(pi) = 0. The loss holds
 * second derivatives of the network by its input; a training step is one function. */
#include <math.h>
#include <stdio.h>
#include <tandem/nn.h>
#include <tandem/optim.h>
#include <tandem/tandem.h>

#define PI 3.14159265358979323846

typedef struct solver {
    td_module *net;
    td_optim  *opt;
} solver;

/* The derivative of y by x, element by element, with a history of its own. */
static td_tensor *slope(td_tensor *y, td_tensor *x) {
    td_tensor   *all = td_sum(y), *d = NULL;
    td_grad_opts keep = {TD_GRAD_OPTS, .create_graph = true};
    td_grad((td_tensors){&all, 1}, (td_tensors){&x, 1}, &d, &keep);
    return d;
}

static bool step(td_call *c) {
    solver    *s = td_call_env(c);
    td_tensor *x = td_arg(c, 0), *ends = td_arg(c, 1);
    td_tensor *u = td_module_call(s->net, TD_ARGS(x));
    td_tensor *rest = td_add(slope(slope(u, x), x), td_sin(x));
    td_tensor *edge = td_module_call(s->net, TD_ARGS(ends));
    td_tensor *loss = td_add(td_mean(td_square(rest)), td_mean(td_square(edge)));
    if (!td_backward(loss) || !td_optim_step(s->opt)) return false;
    td_optim_zero_grad(s->opt);
    return td_return(c, loss);
}

static double worst_error(td_ctx *cx, const solver *s) {
    td_tensor *x = td_linspace(cx, 0.0, PI, 101);
    td_tensor *u = td_module_call(s->net, TD_ARGS(td_unsqueeze(x, 1)));
    return td_item(td_max(td_abs(td_sub(td_squeeze_dim(u, 1), td_sin(x)))));
}

int main(void) {
    td_ctx *cx = td_open();
    td_seed(cx, 1);
    solver s = {.net = td_nn_sequential(cx, TD_MODULES(td_nn_linear(cx, 1, 32, NULL),
                                                       td_nn_tanh(cx),
                                                       td_nn_linear(cx, 32, 32, NULL),
                                                       td_nn_tanh(cx),
                                                       td_nn_linear(cx, 32, 1, NULL)))};
    s.opt = td_optim_module(s.net, td_adam(5e-3));
    td_fn *f = td_aot_step(cx, step, &s, &(td_aot_opts){TD_AOT_OPTS, .module = s.net});
    double before = worst_error(cx, &s);
    for (int i = 0; i < 400 && td_ok(cx); i++) {
        td_scope_begin(cx, "step");
        td_tensor *x = td_mul(td_rand(cx, TD_SHAPE(64, 1)), PI), *loss;
        td_optim_set_lr(s.opt, 0, td_lr_cosine(i, 400, 5e-3, 1e-4));
        td_tensor *ends = td_reshape(td_tensor1(cx, 0.0, PI), TD_SHAPE(2, 1));
        td_invoke(f, TD_ARGS(td_requires_grad_(x), ends), &loss, 1);
        td_scope_end(cx, "step", NULL);
    }
    double after = worst_error(cx, &s);
    printf("largest error %.3f, after 400 steps %.4f\n", before, after);
    bool ok = td_ok(cx) && after < 0.05;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_fn_drop(f);
    td_optim_free(s.opt);
    td_module_free(s.net);
    td_close(cx);
    return !ok;
}
