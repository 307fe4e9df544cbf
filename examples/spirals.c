/* spirals.c -- trains a small network to tell two spirals apart.
 *
 *     cc spirals.c $(pkg-config --cflags --libs tandem) && ./a.out
 */
#include <tandem/tandem.h>

#include <stdio.h>

enum { POINTS = 400, HIDDEN = 32, STEPS = 600 };

/* One arm is the other turned by half a circle. */
static td_tensor *make_points(td_ctx *cx) {
    td_tensor *t = td_mul(td_sqrt(td_rand(cx, TD_SHAPE(POINTS / 2))), 3 * 3.14159265);
    td_tensor *arm = td_stack(TD_LIST(td_mul(t, td_cos(t)), td_mul(t, td_sin(t))), 1);
    td_tensor *all = td_cat(TD_LIST(arm, td_neg(arm)));
    return td_add(td_div(all, 3.0), td_mul(td_randn(cx, TD_SHAPE(POINTS, 2)), 0.05));
}

static double right(td_tensor *score, td_tensor *y) {
    td_tensor *same = td_eq(td_gt(score, 0), td_gt(y, 0.5));
    return td_item(td_mean(same, TD_ALL, false, TD_F32));
}

int main(void) {
    td_ctx *cx = td_open();
    double  last = 0;
    td_seed(cx, 1);
    td_tensor *x = make_points(cx);
    td_tensor *y = td_cat(
        TD_LIST(td_zeros(cx, TD_SHAPE(POINTS / 2)), td_ones(cx, TD_SHAPE(POINTS / 2))));
    td_module *net =
        td_nn_sequential(cx,
                         TD_MODULES(td_nn_linear(cx, 2, HIDDEN, NULL), td_nn_tanh(cx),
                                    td_nn_linear(cx, HIDDEN, HIDDEN, NULL),
                                    td_nn_tanh(cx), td_nn_linear(cx, HIDDEN, 1, NULL),
                                    td_nn_flatten(cx, 0, -1)));
    td_optim *opt = net ? td_optim_module(net, td_adam(0.01)) : NULL;

    for (int step = 1; step <= STEPS && td_ok(cx); step++) {
        td_scope_begin(cx, "step"); /* what a step makes, dies with it */
        td_optim_set_lr(opt, -1, td_lr_one_cycle(step - 1, STEPS, 0.03));
        td_tensor *score = td_module_call(net, TD_ARGS(x));
        td_tensor *loss = td_bce_with_logits(score, y);
        td_backward(loss);
        td_optim_step(opt);
        td_optim_zero_grad(opt);
        last = right(score, y);
        if (step % 100 == 0)
            printf("step %4d  loss %.4f  right %.1f %%\n", step, td_item(loss),
                   100 * last);
        td_scope_end(cx, "step", NULL);
    }

    bool ok = td_ok(cx);
    if (!ok) fprintf(stderr, "%s\n", td_message(cx));
    td_optim_free(opt);
    td_module_free(net);
    td_close(cx);
    return ok && last > 0.95 ? 0 : 1;
}
