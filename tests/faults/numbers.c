/* numbers.c -- marked dims with bounds, and numbers that become inputs of the code,
 * under failing allocations. */
#include "faults.h"

static bool cut(td_call *c) {
    int64_t    n = td_sym_arg(c, 1);
    td_tensor *x = td_narrow(td_arg(c, 0), 0, 0, n);
    return td_return(c, td_tanh(td_mul(x, td_arg_value(c, 2))));
}

static bool power(td_call *c) { /* not with an input: the function gives that up */
    return td_return(c, td_pow(td_arg(c, 0), td_arg_value(c, 2)));
}

static double calls(td_ctx *cx, td_body *body, bool mark) {
    td_fn *f = td_aot_function(cx, body, NULL, NULL);
    double sum = 0;
    for (int i = 0; i < 3 && td_ok(cx); i++) {
        td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(6 + i, 2), 0.3)), *y;
        if (mark && !td_mark_dynamic_range(x, 0, 6, 64)) break;
        if (td_invoke(f, TD_ARGS(x, 3 + i, 0.5 + i), &y, 1) && td_backward(td_sum(y)))
            sum += td_item(td_sum(td_grad_of(x)));
    }
    td_fn_drop(f);
    return td_ok(cx) ? sum : 0;
}

static double varying(td_ctx *cx) { return calls(cx, cut, false); }
static double marked(td_ctx *cx) { return calls(cx, cut, true); }
static double constant(td_ctx *cx) { return calls(cx, power, false); }

static const td_fault_case cases[] = {{.name = "varying", .run = varying, .slow = true},
                                      {.name = "marked", .run = marked, .slow = true},
                                      {.name = "constant",
                                       .run = constant,
                                       .slow = true}};

int main(int argc, char **argv) {
    return fault_main(cases, TD_COUNT(cases), argc, argv);
}
