/* explain.c -- compiling a layer with every log on, a step through it, and its
 * explanations, under failing allocations. */
#include "faults.h"

#include <tandem/aot.h>

static void drop_text(void *env, const char *topic, const char *text) {
    (void)env, (void)topic, (void)text;
}

/* A written argument, a result that is a view of the other, a view of an argument. */
static bool layer(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *seen = td_arg(c, 2);
    td_add_(seen, 1.0);
    td_tensor *h = td_tanh(td_matmul(x, w));
    return td_return(c, h, td_transpose(h, 0, 1), td_select(x, 0, 1));
}

static double step(td_ctx *cx, td_fn *f, int rows) {
    char       text[64];
    td_tensor *x = td_ones(cx, TD_SHAPE(rows, 3)), *seen = td_zeros(cx, TD_SHAPE());
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 2))), *out[3];
    td_invoke(f, TD_ARGS(x, w, seen), out, 3);
    td_backward(td_sum(out[1]));
    td_explain(f, text, sizeof text);
    td_explain_json(f, text, sizeof text);
    if (!td_ok(cx)) return 0;
    return td_item(seen) + td_item(td_sum(td_grad_of(w))) + td_item(td_sum(out[2]));
}

static double explained(td_ctx *cx) {
    td_log_to(cx, drop_text, NULL);
    td_config_set(cx, "log", "all");
    td_config_set(cx, "debug_asserts", "on");
    td_aot_opts o = {TD_AOT_OPTS, .name = "layer"};
    td_fn      *f = td_aot_function(cx, layer, NULL, &o);
    double      sum = f ? step(cx, f, 4) : 0;
    if (f) sum += step(cx, f, 5);
    td_fn_drop(f);
    return sum;
}

static const td_fault_case cases[] = {{.name = "explain", .run = explained}};

int main(int argc, char **argv) {
    return fault_main(cases, TD_COUNT(cases), argc, argv);
}
