/* aot_module.c -- a module compiled: calls take the user's arguments, gradients arrive
 * in the parameters, buffers are written back, and a changed mode is noticed. */
#include <stdio.h>
#include <tandem/tandem.h>

typedef struct scaled {
    td_tensor *weight, *steps;
} scaled;

static bool forward(td_module *m, td_call *c) {
    scaled *s = td_module_state(m);
    if (td_module_training(m)) td_add_(s->steps, 1.0);
    return td_return(c, td_sum(td_mul(td_arg(c, 0), s->weight)));
}

static const td_module_type type = {.name = "Scaled",
                                    .bytes = sizeof(scaled),
                                    .forward = forward};

int main(void) {
    td_ctx    *cx = td_open();
    td_module *m = td_module_make(cx, &type);
    scaled    *s = td_module_state(m);
    s->weight = td_module_param(m, "weight", td_ones(cx, TD_SHAPE(3)));
    s->steps = td_module_buffer(m, "steps", td_zeros(cx, TD_SHAPE()), true);

    td_fn     *f = td_aot_module(m, NULL);
    td_tensor *x = td_full(cx, TD_SHAPE(3), 2.0), *y;
    td_invoke(f, TD_ARGS(x), &y, 1);
    td_backward(y);
    td_module_train(m, false);
    td_invoke(f, TD_ARGS(x), &y, 1);
    double steps = td_item(s->steps), grad = td_item(td_sum(td_grad_of(s->weight)));
    printf("%g step, gradient %g, %d specializations\n", steps, grad,
           td_fn_specializations(f));
    bool ok = td_ok(cx) && steps == 1 && grad == 6 && td_fn_specializations(f) == 2;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_fn_drop(f);
    td_module_free(m);
    td_close(cx);
    return !ok;
}
