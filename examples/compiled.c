/* compiled.c -- the program of the README: a compiled layer with a written argument
 * and two results in one storage. */
#include <stdio.h>
#include <tandem/tandem.h>

static bool layer(td_call *c) { /* runs once, on fake tensors */
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *seen = td_arg(c, 2);
    td_add_(seen, 1.0); /* writes the caller's tensor */
    td_tensor *h = td_tanh(td_matmul(x, w));
    return td_return(c, h, td_transpose(h, 0, 1)); /* two aliases */
}

int main(void) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_randn(cx, TD_SHAPE(64, 8)), *seen = td_zeros(cx, TD_SHAPE());
    td_tensor *w = td_requires_grad_(td_randn(cx, TD_SHAPE(8, 4))), *out[2];
    td_fn     *f = td_aot_function(cx, layer, NULL, NULL);

    for (int step = 0; step < 100; step++) {
        td_scope_begin(cx, "step"); /* owns every temporary below */
        td_invoke(f, TD_ARGS(x, w, seen), out, 2);
        td_backward(td_mean(td_mul(out[1], out[1]))); /* the compiled backward */

        td_grad_mode was = td_no_grad_begin(cx);
        td_sub_(w, td_mul(td_grad_of(w), 0.1)); /* numbers work as operands */
        td_no_grad_end(cx, was);
        td_zero_grad(w);
        td_scope_end(cx, "step", NULL);
    }
    printf("%g calls, compiled %d time\n", td_item(seen), td_fn_specializations(f));
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx)); /* one check */
    td_fn_drop(f);
    td_close(cx);
}
