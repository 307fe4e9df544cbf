/* effects.c -- ops that do more than compute, in a compiled function: a log of values,
 * a callback of the host program, and a counter that is passed as an object. Each
 * happens as often and in the order of eager, in backward too. */
#include <stdio.h>
#include <string.h>
#include <tandem/tandem.h>

/* "ex_log(Tensor x, str what) -> Tensor": x, and a line of the log. */
static char log_text[400];
static bool log_value(const td_op_run *r) {
    size_t n = strlen(log_text);
    snprintf(log_text + n, sizeof log_text - n, "%s %.2f; ", r->in[1].u.s,
             td_item(td_mean(r->in[0].u.t)));
    return td_copy_(r->out[0], r->in[0].u.t), td_ok(r->cx);
}
static bool log_gradient(const td_op_run *r) {
    return td_call_op(r->cx, "ex_log", TD_ARGS(r->g[0], td_value_str("gradient")),
                      r->grad, 1);
}

/* "ex_call(Tensor x) -> ()": the function that env has, on the host. */
typedef struct callback {
    void (*fn)(double mean);
} callback;
static double best = 1e30;
static void   keep_best(double mean) { best = mean < best ? mean : best; }
static bool   call_host(const td_op_run *r) {
      ((const callback *)r->env)->fn(td_item(td_mean(r->in[0].u.t)));
      return td_ok(r->cx);
}

/* "ex_count(Tensor x, Object n) -> ()": adds 1 to the counter that is passed. */
static bool count(const td_op_run *r) {
    int *n = td_object_data(r->in[1].u.t, "counter");
    if (n) ++*n;
    return n != NULL;
}

static bool layer(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *y, *loss;
    td_call_op(cx, "ex_log",
               TD_ARGS(td_tanh(td_mul(td_arg(c, 0), td_arg(c, 1))), td_value_str("y")),
               &y, 1);
    loss = td_mean(td_square(td_sub(y, 0.5)));
    td_call_op(cx, "ex_call", TD_ARGS(td_detach(loss)), NULL, 0); /* nothing reads it */
    td_call_op(cx, "ex_count", TD_ARGS(td_detach(loss), td_arg(c, 2)), NULL, 0);
    return td_return(c, loss);
}

static void register_ops(td_ctx *cx, callback *host) {
    td_register_op(cx, &(td_op_opts){TD_OP_OPTS,
                                     .schema = "ex_log(Tensor x, str what) -> Tensor",
                                     .shape = "x", .kernel = log_value,
                                     .backward = log_gradient,
                                     .effect = TD_EFFECT_ORDERED, .version = 1});
    td_register_op(cx, &(td_op_opts){TD_OP_OPTS, .schema = "ex_call(Tensor x) -> ()",
                                     .kernel = call_host, .env = host,
                                     .effect = TD_EFFECT_ORDERED, .version = 1});
    td_register_op(cx, &(td_op_opts){TD_OP_OPTS,
                                     .schema = "ex_count(Tensor x, Object n) -> ()",
                                     .kernel = count, .effect = TD_EFFECT_UNORDERED,
                                     .version = 1});
}

int main(void) {
    static callback host = {keep_best};
    td_ctx         *cx = td_open();
    int             calls = 0;
    register_ops(cx, &host);
    td_tensor *x = td_linspace(cx, 0.5, 1.5, 8), *loss = NULL;
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(8)));
    td_tensor *n = td_object(cx, &(td_object_opts){TD_OBJECT_OPTS, .type = "counter",
                                                   .data = &calls});
    td_fn     *f = td_aot_function(cx, layer, NULL, NULL);
    for (int i = 0; i < 2; i++)
        if (td_invoke(f, TD_ARGS(x, w, n), &loss, 1)) td_backward(loss);
    bool good = td_ok(cx) && calls == 2 && best < 1 &&
                !strcmp(log_text, "y 0.73; gradient 0.06; y 0.73; gradient 0.06; ");
    printf("%s\n%d calls, best %.3f %s\n", log_text, calls, best, td_message(cx));
    td_close(cx);
    return !good;
}
