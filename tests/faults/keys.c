/* keys.c -- every allocation fails in turn while calls that differ in one property
 * each compile anew, and while the differences are logged and explained: types,
 * aliases, flags, numbers, marked sizes, missing tangents, gradients, modes. */
#include "faults.h"

/* ---- bodies ------------------------------------------------------------- */

static bool scaled(td_call *c) {
    td_tensor *x = td_mul(td_arg(c, 0), td_arg_value(c, 2));
    return td_return(c, td_exp(x), td_mul(x, td_arg(c, 1)));
}

/* Reads and clears a gradient. */
static bool clears(td_call *c) {
    td_tensor *w = td_arg(c, 0);
    double     was = td_has_grad(w) ? 2.0 : 1.0;
    if (td_has_grad(w)) td_zero_grad(w);
    return td_return(c, td_sum(td_mul(td_mul(w, w), was)), td_detach(w));
}

/* ---- runs --------------------------------------------------------------- */

static double sum_of(td_tensor *t) { return td_item(td_sum(td_to(t, TD_F64))); }

static void quiet(void *env, const char *topic, const char *text) {
    (void)env, (void)topic, (void)text;
}

static void settle(td_ctx *cx) {
    td_config_set(cx, "backend", "interp");
    td_config_set(cx, "cache_disk_mb", "0");
    td_config_set(cx, "log", "guards,graphs");
    td_log_to(cx, quiet, NULL);
}

/* One call, and a backward from one of its results where it has a history. */
static double one(td_fn *f, td_values args) {
    td_tensor *y[2];
    if (!td_invoke(f, args, y, 2)) return 0;
    double sum = sum_of(y[0]) + sum_of(y[1]);
    if (td_requires_grad(y[1])) td_backward(td_sum(y[1]));
    return sum;
}

static double differ(td_ctx *cx) {
    char text[4000];
    settle(cx);
    td_tensor   *x = td_full(cx, TD_SHAPE(2, 3), 0.3), *w = td_full(cx, TD_SHAPE(3), 2);
    td_tensor   *g = td_requires_grad_(td_full(cx, TD_SHAPE(3), 0.5));
    td_tensor   *both = td_full(cx, TD_SHAPE(3, 2), 0.25);
    td_aot_opts  o = {TD_AOT_OPTS, .limit = 20};
    td_fn       *f = td_aot_function(cx, scaled, NULL, &o);
    double       sum = one(f, TD_ARGS(x, w, 2.0));
    td_grad_mode was;
    sum += one(f, TD_ARGS(td_to(x, TD_F64), w, 2.0));
    sum += one(f, TD_ARGS(td_transpose(both, 0, 1), w, 2.0));
    sum += one(f, TD_ARGS(td_select(x, 0, 1), w, 2.0));
    sum += one(f, TD_ARGS(w, w, 2.0));
    sum += one(f, TD_ARGS(x, g, 2.0));
    sum += one(f, TD_ARGS(x, w, 3));
    sum += one(f, TD_ARGS(x, w, 4.0));
    was = td_no_grad_begin(cx);
    sum += one(f, TD_ARGS(x, g, 2.0));
    td_no_grad_end(cx, was);
    td_explain(f, text, sizeof text);
    td_fn_drop(f);
    return td_ok(cx) ? sum + sum_of(td_grad_of(g)) : 0;
}

/* Marked sizes, of which another may be too small, and a size that began to vary. */
static double sizes(td_ctx *cx) {
    char   text[4000];
    double sum = 0;
    settle(cx);
    td_fn *f = td_aot_function(cx, scaled, NULL, NULL);
    for (int i = 0; i < 4 && td_ok(cx); i++) {
        td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(3 + i, 3), 0.3));
        if (i > 1) td_mark_dynamic_range(x, 0, 2, 64);
        sum += one(f, TD_ARGS(x, td_full(cx, TD_SHAPE(3), 2), 0.5 + i));
        if (td_ok(cx)) sum += sum_of(td_grad_of(x));
    }
    td_explain(f, text, sizeof text);
    td_fn_drop(f);
    return td_ok(cx) ? sum : 0;
}

static double grads(td_ctx *cx) {
    char text[4000];
    settle(cx);
    td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(3), 0.5));
    td_fn     *f = td_aot_function(cx, clears, NULL, NULL);
    double     sum = 0;
    for (int i = 0; i < 3 && td_ok(cx); i++) {
        td_tensor *y[2];
        if (td_invoke(f, TD_ARGS(w), y, 2) && td_backward(y[0]))
            sum += sum_of(td_grad_of(w));
        if (i == 1) td_zero_grad(w);
    }
    td_explain(f, text, sizeof text);
    td_fn_drop(f);
    return td_ok(cx) ? sum : 0;
}

static const td_fault_case cases[] = {{.name = "differ", .run = differ, .slow = true},
                                      {.name = "sizes", .run = sizes, .slow = true},
                                      {.name = "grads", .run = grads, .slow = true}};

int main(int argc, char **argv) {
    return fault_main(cases, TD_COUNT(cases), argc, argv);
}
