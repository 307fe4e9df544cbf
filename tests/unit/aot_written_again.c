/* aot_written_again.c -- an argument that a compiled call has written, and that is
 * written again before backward. Eager saved the argument itself and refuses; the
 * compiled call, like PyTorch's, saved values of its own, so its gradients are those of
 * the call: the same as if nothing had been written since. */
#include "aot_sides.h"

#include <math.h>
#include <string.h>

/* x is written, and y computed from what was written, and from x as it came. */
static bool body(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_tensor *before = td_sin(td_add(x, w));
    td_mul_(x, w);
    return td_return(c, td_mul(td_sin(x), before));
}

typedef enum again { NOT, WITH_HISTORY, WITHOUT, THROUGH_A_VIEW, ELSEWHERE } again;

static void write_again(td_ctx *cx, td_tensor *x, again how) {
    td_grad_mode was = td_no_grad_begin(cx);
    if (how == WITHOUT) td_add_(x, 1.0);
    if (how == THROUGH_A_VIEW) td_zero_(td_select(x, 0, 1));
    if (how == ELSEWHERE) td_set_(x, td_tensor1(cx, 7, 8));
    td_no_grad_end(cx, was);
    if (how == WITH_HISTORY) td_add_(x, 1.0);
}

/* The first and second gradient of w, {NaN} where eager refuses. */
static void gradients(td_ctx *cx, td_fn *f, again how, bool twice, double *to) {
    td_tensor *w = td_set_requires_grad(td_tensor1(cx, 2, 3), true);
    td_tensor *x = td_tensor1(cx, 0.5, 0.25), *g, *g2;
    td_value   y;
    to[0] = to[1] = NAN;
    int n = f ? td_invoke_values(f, TD_ARGS(x, w), &y, 1)
              : td_call_body(cx, body, NULL, TD_ARGS(x, w), &y, 1);
    CHECK(n == 1);
    write_again(cx, x, how);
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = twice};
    if (td_grad(TD_LIST(td_sum(y.u.t)), TD_LIST(w), &g, &o)) {
        if (twice && td_grad(TD_LIST(td_sum(g)), TD_LIST(w), &g2, NULL)) g = g2;
        CHECK(td_ok(cx) && td_read(td_detach(g), TD_F64, to, 2 * sizeof *to));
    }
}

static void check(again how, bool twice) {
    for (int k = 0; k < 4; k++) {
        td_ctx *cx = td_open();
        double  want[2], eager[2], got[2];
        CHECK(td_config_set(cx, "partition", k % 2 ? "default" : "mincut"));
        CHECK(td_config_set(cx, "keep_mutations", k / 2 ? "on" : "off"));
        td_fn *f = td_aot_function(cx, body, NULL, NULL);
        gradients(cx, NULL, NOT, twice, want);
        CHECK_OK(cx);
        gradients(cx, f, how, twice, got);
        CHECK_OK(cx);
        for (int i = 0; i < 2; i++) CHECK_NEAR(got[i], want[i], 1e-5);
        gradients(cx, NULL, how, twice, eager);
        CHECK(td_error(cx) == TD_E_GRAD && isnan(eager[0]));
        CHECK(strstr(td_message(cx), "it has been modified in place"));
        td_clear(cx);
        td_fn_drop(f);
        td_close(cx);
    }
}

TEST(a_written_argument_may_be_written_again_before_backward) {
    check(WITH_HISTORY, false);
    check(WITHOUT, false);
    check(THROUGH_A_VIEW, false);
}
TEST(a_written_argument_may_move_before_backward) { check(ELSEWHERE, false); }
TEST(a_written_argument_may_be_written_again_before_a_gradient_of_a_gradient) {
    check(WITH_HISTORY, true);
    check(WITHOUT, true);
    check(THROUGH_A_VIEW, true);
}

static bool exponential(td_call *c) { return td_return(c, td_exp(td_arg(c, 0))); }

TEST(a_result_that_backward_reads_may_not_be_written_before_it) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2))), *y;
    td_fn     *f = td_aot_function(cx, exponential, NULL, NULL);
    td_invoke(f, TD_ARGS(x), &y, 1);
    td_grad_mode was = td_no_grad_begin(cx);
    td_mul_(y, 2.0);
    td_no_grad_end(cx, was);
    CHECK(!td_backward(td_sum(y)));
    CHECK(strstr(td_message(cx), "has been modified in place") != NULL);
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}

static td_tensor *kept;
static bool       keeps(td_call *c) {
          kept = td_keep(td_exp(td_arg(c, 0)));
          return td_return(c, kept);
}

TEST(a_tensor_kept_from_a_captured_body_has_no_elements) {
    td_ctx    *cx = td_open();
    td_tensor *y;
    td_fn     *f = td_aot_function(cx, keeps, NULL, NULL);
    td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(1))), &y, 1);
    (void)td_item(kept);
    TD_CHECK_THAT(strstr(td_message(cx), "kept from a body") != NULL, "%s",
                  td_message(cx));
    td_clear(cx);
    td_drop(kept);
    td_fn_drop(f);
    td_close(cx);
}
