/* user_op.c -- an op with a kernel of its own, and one with an effect, in a compiled
 * function that is trained. */
#include <math.h>
#include <stdio.h>
#include <tandem/tandem.h>

static bool softclip(const td_op_run *r) { /* x / (1 + |x| / limit) */
    const float *x = td_data(r->in[0].u.t);
    float       *y = td_data(r->out[0]), limit = (float)r->in[1].u.f;
    for (int64_t i = 0; i < td_numel(r->out[0]); i++)
        y[i] = x[i] / (1 + fabsf(x[i]) / limit);
    return true;
}

static bool count(const td_op_run *r) {
    ++*(int *)r->env;
    return true;
}

static bool layer(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *h = td_matmul(td_arg(c, 0), td_arg(c, 1)), *y;
    td_call_op(cx, "my_softclip", TD_ARGS(h, 2.0), &y, 1);
    td_call_op(cx, "my_count", TD_ARGS(y), NULL, 0); /* nothing reads it; it runs */
    return td_return(c, td_mean(td_square(td_sub(y, 1.0))));
}

int main(void) {
    static int calls;
    td_ctx    *cx = td_open();
    td_register_op(cx,
                   &(td_op_opts){TD_OP_OPTS,
                                 .schema =
                                     "my_softclip(Tensor x, float limit=1.0) -> Tensor",
                                 .shape = "x", .kernel = softclip,
                                 .derivative = "x: g / square(1 + abs(x) / limit)",
                                 .dtypes = TD_ONLY(TD_F32), .version = 1});
    td_register_op(cx, &(td_op_opts){TD_OP_OPTS, .schema = "my_count(Tensor x) -> ()",
                                     .kernel = count, .effect = TD_EFFECT_ORDERED,
                                     .version = 1, .env = &calls});
    td_seed(cx, 1);
    td_tensor *x = td_add(td_rand(cx, TD_SHAPE(64, 4)), 0.5), *loss = NULL;
    td_tensor *w = td_requires_grad_(td_zeros(cx, TD_SHAPE(4, 1)));
    td_fn     *f = td_aot_function(cx, layer, NULL, NULL);
    for (int step = 0; step < 100 && td_invoke(f, TD_ARGS(x, w), &loss, 1); step++) {
        td_backward(loss);
        td_grad_mode was = td_no_grad_begin(cx);
        td_sub_(w, td_mul(td_grad_of(w), 0.3));
        td_no_grad_end(cx, was);
        td_zero_grad(w);
    }
    bool good = td_ok(cx) && calls == 100 && td_item(loss) < 0.1;
    printf("loss %.3f after %d calls %s\n", td_item(loss), calls, td_message(cx));
    td_close(cx);
    return !good;
}
