/* export_joint.c -- forward and backward of a function in one graph, with a tangent for
 * each differentiable result; printed with what everything stands for. */
#include <stdio.h>
#include <tandem/tandem.h>

static bool products(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1);
    return td_return(c, td_mul(x, y), td_mul(y, y));
}

int main(void) {
    td_ctx      *cx = td_open();
    td_tensor   *x = td_set_requires_grad(td_full(cx, TD_SHAPE(2), 3.0), true);
    td_tensor   *y = td_set_requires_grad(td_full(cx, TD_SHAPE(2), 5.0), true);
    td_tensor   *one = td_ones(cx, TD_SHAPE(2));
    td_exported *e = td_export_joint(cx, products, NULL, TD_ARGS(x, y), NULL);
    char         text[2000];
    td_value     out[4];
    double       dy = 0;
    if (e && td_exported_run(e, TD_ARGS(x, y, one, one), out, 4)) {
        td_exported_text(e, text, sizeof text);
        puts(text);
        dy = td_item(td_sum(out[td_exported_find_output(e, TD_SLOT_GRAD, 1)].u.t));
    }
    printf("the gradient of y sums to %g\n", dy); /* 2 (x + 2 y) */
    bool ok = td_ok(cx) && dy == 26;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_exported_drop(e);
    td_close(cx);
    return !ok;
}
