/* spirals.c -- trains a small network to tell two spirals apart.
 *
 *     cc spirals.c $(pkg-config --cflags --libs tandem) && ./a.out
 */
#include <tandem/tandem.h>

#include <math.h>
#include <stdio.h>

enum { POINTS = 400, HIDDEN = 32, STEPS = 1000, LAYERS = 3, PARAMS = 2 * LAYERS };

/* A weight and its bias, drawn small enough that tanh is not saturated. */
static void make_layer(td_ctx *cx, int64_t in, int64_t out, td_tensor **param) {
    double bound = 1 / sqrt((double)in);
    param[0] = td_uniform_(td_empty(cx, TD_SHAPE(out, in)), -bound, bound);
    param[1] = td_uniform_(td_empty(cx, TD_SHAPE(out)), -bound, bound);
    td_requires_grad_(param[0]);
    td_requires_grad_(param[1]);
}

/* One arm is the other turned by half a circle. */
static td_tensor *make_points(td_ctx *cx) {
    td_tensor *t = td_mul(td_sqrt(td_rand(cx, TD_SHAPE(POINTS / 2))), 3 * 3.14159265);
    td_tensor *arm = td_stack(TD_LIST(td_mul(t, td_cos(t)), td_mul(t, td_sin(t))), 1);
    td_tensor *all = td_cat(TD_LIST(arm, td_neg(arm)));
    return td_add(td_div(all, 3.0), td_mul(td_randn(cx, TD_SHAPE(POINTS, 2)), 0.05));
}

static td_tensor *forward(td_tensor *x, td_tensor *const *param) {
    for (int i = 0; i < LAYERS; i++) {
        x = td_linear(x, param[2 * i], param[2 * i + 1]);
        if (i < LAYERS - 1) x = td_tanh(x);
    }
    return td_squeeze(x);
}

/* One step of Adam; the moments live beside the parameters. */
static void update(td_tensor *p, td_tensor *mean, td_tensor *square, int step) {
    td_tensor *g = td_grad_of(p);
    td_add_(td_mul_(mean, 0.9), g, 0.1);
    td_addcmul_(td_mul_(square, 0.99), g, g, 0.01);
    double rate = 0.01 * sqrt(1 - pow(0.99, step)) / (1 - pow(0.9, step));
    td_addcdiv_(p, mean, td_add(td_sqrt(square), 1e-8), -rate);
    td_zero_grad(p);
}

int main(void) {
    td_ctx    *cx = td_open();
    td_tensor *param[PARAMS], *mean[PARAMS], *square[PARAMS];
    td_seed(cx, 1);
    td_tensor *x = make_points(cx);
    td_tensor *y = td_cat(
        TD_LIST(td_zeros(cx, TD_SHAPE(POINTS / 2)), td_ones(cx, TD_SHAPE(POINTS / 2))));
    make_layer(cx, 2, HIDDEN, &param[0]);
    make_layer(cx, HIDDEN, HIDDEN, &param[2]);
    make_layer(cx, HIDDEN, 1, &param[4]);
    for (int i = 0; i < PARAMS; i++)
        mean[i] = td_zeros_like(param[i]), square[i] = td_zeros_like(param[i]);

    for (int step = 1; step <= STEPS && td_ok(cx); step++) {
        td_scope_begin(cx, "step"); /* what a step makes, dies with it */
        td_tensor *score = forward(x, param);
        td_tensor *loss = td_bce_with_logits(score, y);
        td_backward(loss);
        td_grad_mode was = td_no_grad_begin(cx);
        for (int i = 0; i < PARAMS; i++) update(param[i], mean[i], square[i], step);
        if (step % 100 == 0)
            printf("step %4d  loss %.4f  right %.1f %%\n", step, td_item(loss),
                   100 * td_item(td_mean(td_eq(td_gt(score, 0), td_gt(y, 0.5)), TD_ALL,
                                         false, TD_F32)));
        td_no_grad_end(cx, was);
        td_scope_end(cx, "step", NULL);
    }
    bool ok = td_ok(cx);
    if (!ok) fprintf(stderr, "%s\n", td_message(cx));
    td_close(cx);
    return ok ? 0 : 1;
}
