/* fakes.c -- a two-layer network compiled before there is memory for it: called on fake
 * tensors, which have types and no elements, then on real ones. */
#include <stdio.h>
#include <tandem/tandem.h>

static bool network(td_call *c) {
    td_tensor *h = td_tanh(td_matmul(td_arg(c, 0), td_arg(c, 1)));
    return td_return(c, td_sum(td_matmul(h, td_arg(c, 2))), td_t(h));
}

/* A weight: random, or fake between td_fakes_begin and td_fakes_end. */
static td_tensor *weight(td_ctx *cx, int64_t rows, int64_t cols) {
    return td_set_requires_grad(td_randn(cx, TD_SHAPE(rows, cols)), true);
}

int main(void) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, network, NULL, NULL);
    td_tensor *out[2];

    /* What would it give, and what takes how much? 64 GiB of weights cost nothing. */
    bool       was = td_fakes_begin(cx);
    td_tensor *huge = weight(cx, 131072, 131072);
    printf("%lld bytes of weights\n", (long long)td_numel(huge) * 4);
    td_tensor *x = td_randn(cx, TD_SHAPE(8, 16));
    td_tensor *v = weight(cx, 16, 32), *w = weight(cx, 32, 4);
    td_invoke(f, TD_ARGS(x, v, w), out, 2);
    td_backward(out[0]);
    printf("results: rank %d and [%lld,%lld], the gradient is fake: %d\n",
           td_rank(out[0]), (long long)td_size(out[1], 0),
           (long long)td_size(out[1], 1), td_is_fake(td_grad_of(v)));
    td_fakes_end(cx, was);

    /* The same function on real tensors: it is compiled already. */
    td_tensor *a = weight(cx, 16, 32), *b = weight(cx, 32, 4);
    td_invoke(f, TD_ARGS(td_randn(cx, TD_SHAPE(8, 16)), a, b), out, 2);
    td_backward(out[0]);
    printf("loss %g, specializations: %d\n", td_item(out[0]), td_fn_specializations(f));
    bool ok = td_ok(cx) && td_fn_specializations(f) == 1 && !td_is_fake(out[0]);
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_fn_drop(f);
    td_close(cx);
    return !ok;
}
