/* guide.c -- the program of docs/guide.md: a small network learns sin(a + b), its whole
 * training step compiled as one function.
 *
 *     cc guide.c $(pkg-config --cflags --libs tandem) -o guide && ./guide
 */
#include <stdio.h>
#include <tandem/tandem.h>

typedef struct trainer {
    td_module *net;
    td_optim  *opt;
} trainer;

/* An ordinary training step. It may be called as it is, or compiled. */
static bool step(td_call *c) {
    trainer   *t = td_call_env(c);
    td_tensor *guess = td_module_call(t->net, TD_ARGS(td_arg(c, 0)));
    td_tensor *loss = td_mse_loss(guess, td_arg(c, 1));
    td_backward(loss);
    td_optim_step(t->opt);
    td_optim_zero_grad(t->opt);
    return td_return(c, loss);
}

int main(void) {
    td_ctx *cx = td_open();
    double  last = 1;
    td_seed(cx, 1);
    trainer t = {.net =
                     td_nn_sequential(cx, TD_MODULES(td_nn_linear(cx, 2, 64, NULL),
                                                     td_nn_gelu(cx),
                                                     td_nn_linear(cx, 64, 1, NULL)))};
    t.opt = td_optim_module(t.net, td_adamw(1e-2));

    td_fn *f = td_aot_step(cx, step, &t, &(td_aot_opts){TD_AOT_OPTS, .module = t.net});
    for (int i = 0; i <= 500 && td_ok(cx); i++) {
        td_scope_begin(cx, "step"); /* owns every temporary below */
        td_tensor *x = td_randn(cx, TD_SHAPE(64, 2)), *loss;
        td_tensor *y = td_sin(td_sum(x, TD_DIMS(1), true));
        td_invoke(f, TD_ARGS(x, y), &loss, 1);
        last = td_item(loss);
        if (i % 100 == 0) printf("%3d  %.5f\n", i, last);
        td_scope_end(cx, "step", NULL);
    }

    bool ok = td_ok(cx) && last < 0.05;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx)); /* one check */
    td_fn_drop(f);
    td_optim_free(t.opt);
    td_module_free(t.net);
    td_close(cx);
    return !ok;
}
