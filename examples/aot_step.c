/* aot_step.c -- a whole training step as one function: loss, backward, clipping and
 * the optimizer are one graph that writes parameters and state itself. */
#include <stdio.h>
#include <tandem/nn.h>
#include <tandem/optim.h>
#include <tandem/tandem.h>

typedef struct trainer {
    td_module *net;
    td_optim  *opt;
} trainer;

/* Ordinary code: called as it is, it does the same. */
static bool step(td_call *c) {
    trainer   *t = td_call_env(c);
    td_tensor *out = td_module_call(t->net, TD_ARGS(td_arg(c, 0)));
    td_tensor *loss = td_mse_loss(out, td_arg(c, 1));
    if (!td_backward(loss)) return false;
    td_optim_clip_norm(t->opt, 1.0);
    if (!td_optim_step(t->opt)) return false;
    td_optim_zero_grad(t->opt);
    return td_return(c, loss);
}

static double train(td_ctx *cx, trainer *t, td_fn *f, int steps) {
    double last = 0;
    for (int i = 0; i < steps; i++) {
        td_scope_begin(cx, "step");
        td_tensor *x = td_randn(cx, TD_SHAPE(16, 2)), *loss;
        td_tensor *y = td_sin(td_sum(x, TD_DIMS(1), true));
        td_optim_set_lr(t->opt, 0, td_lr_warmup(i, 20, 0.01)); /* no other code */
        if (td_invoke(f, TD_ARGS(x, y), &loss, 1)) last = td_item(loss);
        td_scope_end(cx, "step", NULL);
    }
    return last;
}

int main(void) {
    td_ctx *cx = td_open();
    td_seed(cx, 1);
    trainer t = {
        .net = td_nn_sequential(cx, TD_MODULES(td_nn_linear(cx, 2, 32, NULL),
                                               td_nn_gelu(cx), td_nn_dropout(cx, 0.01),
                                               td_nn_linear(cx, 32, 1, NULL)))};
    t.opt = td_optim_module(t.net, td_adamw(0.01));

    td_fn *f = td_aot_step(cx, step, &t, &(td_aot_opts){TD_AOT_OPTS, .module = t.net});
    double first = train(cx, &t, f, 1), last = train(cx, &t, f, 300);
    printf("loss %.3f, after 300 steps %.3f; compiled %d times\n", first, last,
           td_fn_specializations(f));
    bool ok = td_ok(cx) && last < first / 3 && td_fn_specializations(f) == 1;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_fn_drop(f);
    td_optim_free(t.opt);
    td_module_free(t.net);
    td_close(cx);
    return !ok;
}
