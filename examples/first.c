/* first.c -- fits a vector by gradient descent, op by op. */
#include <stdio.h>
#include <tandem/tandem.h>

int main(void) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_randn(cx, TD_SHAPE(64, 8));
    td_tensor *y = td_sin(td_sum(x, TD_DIMS(1), true));
    td_tensor *w = td_requires_grad_(td_randn(cx, TD_SHAPE(8, 1)));

    for (int step = 0; step < 100; step++) {
        td_scope_begin(cx, "step"); /* owns every temporary below */
        td_tensor *loss = td_mse_loss(td_tanh(td_matmul(x, w)), y);
        td_backward(loss);

        td_grad_mode was = td_no_grad_begin(cx);
        td_sub_(w, td_mul(td_grad_of(w), 0.1)); /* numbers stand where tensors do */
        td_no_grad_end(cx, was);
        td_zero_grad(w);
        if (step % 20 == 0) printf("%3d  %.4f\n", step, td_item(loss));
        td_scope_end(cx, "step", NULL);
    }
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx)); /* one check */
    td_close(cx);
}
