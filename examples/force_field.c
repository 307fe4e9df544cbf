/* force_field.c -- learns a potential from the forces it exerts: the network gives an
 * energy, the force is minus its gradient by the positions, and the loss compares
 * forces. So every step differentiates a gradient. */
#include <stdio.h>
#include <tandem/nn.h>
#include <tandem/optim.h>
#include <tandem/tandem.h>

typedef struct field {
    td_module *net;
    td_optim  *opt;
} field;

/* Minus the gradient of the energy of each position by that position. */
static td_tensor *forces(const field *f, td_tensor *at) {
    td_tensor   *energy = td_sum(td_module_call(f->net, TD_ARGS(at))), *g = NULL;
    td_grad_opts keep = {TD_GRAD_OPTS, .create_graph = true};
    td_grad((td_tensors){&energy, 1}, (td_tensors){&at, 1}, &g, &keep);
    return td_neg(g);
}

static bool step(td_call *c) {
    field     *f = td_call_env(c);
    td_tensor *loss = td_mse_loss(forces(f, td_arg(c, 0)), td_arg(c, 1));
    if (!td_backward(loss) || !td_optim_step(f->opt)) return false;
    td_optim_zero_grad(f->opt);
    return td_return(c, loss);
}

/* Of the potential (x^2 - 1)^2 + y^2: two wells. */
static td_tensor *true_forces(td_tensor *at) {
    td_tensor *x = td_narrow(at, 1, 0, 1), *y = td_narrow(at, 1, 1, 1);
    td_tensor *fx = td_mul(td_mul(x, td_sub(td_square(x), 1.0)), -4.0);
    return td_cat(TD_LIST(fx, td_mul(y, -2.0)), 1);
}

int main(void) {
    td_ctx *cx = td_open();
    td_seed(cx, 3);
    field f = {.net = td_nn_sequential(cx, TD_MODULES(td_nn_linear(cx, 2, 64, NULL),
                                                      td_nn_tanh(cx),
                                                      td_nn_linear(cx, 64, 64, NULL),
                                                      td_nn_tanh(cx),
                                                      td_nn_linear(cx, 64, 1, NULL)))};
    f.opt = td_optim_module(f.net, td_adamw(5e-3));
    td_fn *run =
        td_aot_step(cx, step, &f, &(td_aot_opts){TD_AOT_OPTS, .module = f.net});
    double first = 0, last = 0;
    for (int i = 0; i < 400 && td_ok(cx); i++) {
        td_scope_begin(cx, "step");
        td_tensor *at = td_mul(td_sub(td_rand(cx, TD_SHAPE(128, 2)), 0.5), 3.0), *loss;
        td_tensor *want = true_forces(at);
        td_optim_set_lr(f.opt, 0, td_lr_cosine(i, 400, 5e-3, 1e-4));
        if (td_invoke(run, TD_ARGS(td_requires_grad_(at), want), &loss, 1))
            last = td_item(loss);
        if (i == 0) first = last;
        td_scope_end(cx, "step", NULL);
    }
    printf("squared error of forces %.2f, after 400 steps %.4f\n", first, last);
    bool ok = td_ok(cx) && last < first / 50;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_fn_drop(run);
    td_optim_free(f.opt);
    td_module_free(f.net);
    td_close(cx);
    return !ok;
}
