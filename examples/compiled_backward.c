/* compiled_backward.c -- a backward through ordinary code as compiled code. The forward
 * runs op by op, with branches in C that no capture could follow; each shape of history
 * that results is compiled once. */
#include <stdio.h>
#include <tandem/nn.h>
#include <tandem/optim.h>
#include <tandem/tandem.h>

/* C code decides from a value how deep the network is. */
static td_tensor *forward(td_module *in, td_module *mid, td_module *out, td_tensor *x) {
    td_tensor *h = td_tanh(td_module_call(in, TD_ARGS(x)));
    int        depth = td_item(td_mean(x)) > 0 ? 2 : 1;
    for (int i = 0; i < depth; i++)
        h = td_add(h, td_tanh(td_module_call(mid, TD_ARGS(h))));
    return td_module_call(out, TD_ARGS(h));
}

int main(void) {
    td_ctx *cx = td_open();
    td_seed(cx, 1);
    td_module *in = td_nn_linear(cx, 2, 32, NULL),
              *mid = td_nn_linear(cx, 32, 32, NULL),
              *out = td_nn_linear(cx, 32, 1, NULL);
    td_module      *net = td_nn_sequential(cx, TD_MODULES(in, mid, out));
    td_optim       *opt = td_optim_module(net, td_adamw(0.01));
    td_backward_fn *with = td_aot_backward(cx, NULL);

    double first = 0, last = 0;
    for (int step = 0; step < 200; step++) {
        td_scope_begin(cx, "step");
        td_tensor *x = td_randn(cx, TD_SHAPE(16, 2));
        td_tensor *y = td_sin(td_sum(x, TD_DIMS(1), true));
        td_tensor *loss = td_mse_loss(forward(in, mid, out, x), y);
        td_backward_with(TD_LIST(loss), (td_tensors){0},
                         &(td_backward_opts){TD_BACKWARD_OPTS, .with = with});
        td_optim_step(opt);
        td_optim_zero_grad(opt);
        last = td_item(loss);
        if (step == 0) first = last;
        td_scope_end(cx, "step", NULL);
    }
    printf("loss %.3f, after 200 steps %.3f; %d histories compiled, %d backwards ran\n",
           first, last, td_backward_histories(with), (int)td_backward_runs(with));
    bool ok = td_ok(cx) && last < first / 3 && td_backward_histories(with) == 2 &&
              td_backward_runs(with) == 200;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_backward_fn_drop(with);
    td_optim_free(opt);
    td_module_free(net);
    td_close(cx);
    return !ok;
}
