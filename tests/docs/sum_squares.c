/* sum_squares.c -- what the op of docs/adding-an-op.md does without a further line:
 * values, first and second derivatives, capture, compiled code, fusion. Compiled by
 * tests/programs/add_an_op.c against a library that has the op. */
#include <stdio.h>
#include <string.h>
#include <tandem/tandem.h>

static int passed, failed;

static void check(bool ok, const char *what) {
    if (!ok) printf("FAIL %s\n", what);
    passed += ok;
    failed += !ok;
}

/* exp runs before the reduction: native code must compute both in one loop. */
static bool body(td_call *c) {
    return td_return(c, td_sum_squares(td_exp(td_arg(c, 0)), TD_DIMS(1)));
}

static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)env, (void)n_in, (void)n_out;
    out[0] = td_sum_squares(in[0], TD_DIMS(0), true);
    return true;
}

static bool same(td_tensor *a, td_tensor *b) {
    return td_item(td_amax(td_abs(td_sub(a, b)))) < 1e-5;
}

static void check_eager(td_ctx *cx) {
    td_tensor *x = td_tensor1(cx, 1.0, -2.0, 3.0), *m = td_ones(cx, TD_SHAPE(2, 3));
    check(td_item(td_sum_squares(x)) == 14, "the sum of all squares is 14");
    td_tensor *rows = td_sum_squares(m, TD_DIMS(1), true);
    check(td_rank(rows) == 2 && td_size(rows, 1) == 1, "keepdim keeps the dim");
    td_requires_grad_(x);
    td_backward(td_sum_squares(x));
    check(same(td_grad_of(x), td_mul(td_detach(x), 2)), "the gradient is 2 x");
    td_tensor *d = td_requires_grad_(td_randn(cx, TD_SHAPE(3, 2), TD_F64));
    check(td_gradcheck(cx, region, NULL, TD_LIST(d), 1, NULL),
          "the gradient is checked");
    check(td_gradgradcheck(cx, region, NULL, TD_LIST(d), 1, NULL),
          "so is the gradient of the gradient");
}

static void check_capture(td_ctx *cx, td_tensor *x) {
    char        text[4096] = "";
    td_program *p = td_capture(cx, body, NULL, TD_ARGS(x));
    td_program_text(p, text, sizeof text);
    check(strstr(text, "= sum_squares(") != NULL, "a capture records the op by name");
    td_program_drop(p);
}

static void check_compiled(td_ctx *cx, td_tensor *x) {
    static char text[1 << 14];
    td_tensor  *y, *g = NULL, *want = td_sum_squares(td_exp(x), TD_DIMS(1));
    td_config_set(cx, "backend", "native");
    td_config_set(cx, "cc_flags", "-O0");
    td_config_set(cx, "cache_disk_mb", "0");
    td_fn *f = td_aot_function(cx, body, NULL, NULL);
    td_invoke(f, TD_ARGS(x), &y, 1);
    check(same(y, want), "native code gives what eager gives");
    td_tensor *sum = td_sum(y);
    td_grad(TD_LIST(sum), TD_LIST(x), &g, NULL);
    check(same(g, td_mul(td_exp(td_mul(x, 2)), 2)), "and its gradient");
    td_explain(f, text, sizeof text);
    check(strstr(text, "exp+mul+sum ") != NULL, "exp and the reduction are one kernel");
    if (failed) printf("%s\n", text);
    td_fn_drop(f);
}

int main(void) {
    td_ctx *cx = td_open();
    check_eager(cx);
    td_tensor *x = td_requires_grad_(td_randn(cx, TD_SHAPE(4, 8)));
    check_capture(cx, x);
    check_compiled(cx, x);
    check(td_ok(cx), td_message(cx));
    td_close(cx);
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
