/* aot_leaves.c -- what a compiled body leaves behind beside its results: grad modes,
 * and results that share a storage of which none shows every element. */
#include "aot_help.h"

/* ---- grad modes ----------------------------------------------------------- */

static bool turns_off(td_call *c) {
    td_tensor *y = td_mul(td_arg(c, 0), 2.0);
    td_set_grad_enabled(td_call_ctx(c), false);
    return td_return(c, y, td_mul(td_arg(c, 0), 3.0));
}
static bool turns_on(td_call *c) {
    td_tensor *y = td_mul(td_arg(c, 0), 2.0);
    td_set_grad_enabled(td_call_ctx(c), true);
    return td_return(c, y, td_mul(td_arg(c, 0), 3.0));
}
static bool infers(td_call *c) {
    td_tensor *y = td_mul(td_arg(c, 0), 2.0);
    (void)td_inference_begin(td_call_ctx(c), true);
    return td_return(c, y, td_mul(td_arg(c, 0), 3.0));
}
static bool infers_no_more(td_call *c) {
    td_tensor *y = td_mul(td_arg(c, 0), 2.0);
    (void)td_inference_begin(td_call_ctx(c), false);
    return td_return(c, y, td_mul(td_arg(c, 0), 3.0));
}

/* Modes afterwards and flags of both results, as bits. */
static unsigned seen(td_ctx *cx, bool done, td_tensor *const y[2]) {
    return (unsigned)(td_grad_enabled(cx) | td_inference_enabled(cx) << 1 |
                      td_requires_grad(y[0]) << 2 | td_requires_grad(y[1]) << 3 |
                      td_is_inference(y[0]) << 4 | td_is_inference(y[1]) << 5 |
                      done << 6);
}

TEST(a_grad_mode_that_a_body_leaves_is_left_by_compiled_code) {
    static td_body *const bodies[] = {turns_off, turns_on, infers, infers_no_more};
    td_ctx               *cx = td_open();
    td_tensor            *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    for (int i = 0; i < TD_COUNT(bodies); i++)
        for (int begin = 0; begin < 3; begin++) {
            if (bodies[i] == turns_on && begin == 2) continue; /* refused, below */
            td_fn   *f = td_aot_function(cx, bodies[i], NULL, NULL);
            unsigned got[3];
            for (int way = 0; way < 3; way++) { /* eager, compiling, compiled */
                td_value     v[2];
                td_tensor   *y[2];
                bool         ok;
                td_grad_mode was = td_inference_begin(cx, begin == 2);
                if (begin == 1) td_set_grad_enabled(cx, false);
                if (way == 0) {
                    ok = td_call_body(cx, bodies[i], NULL, TD_ARGS(x), v, 2) == 2;
                    y[0] = v[0].u.t, y[1] = v[1].u.t;
                } else ok = td_invoke(f, TD_ARGS(x), y, 2);
                got[way] = seen(cx, ok, y);
                td_inference_end(cx, was);
                CHECK_OK(cx);
            }
            TD_CHECK_THAT(got[0] == got[1] && got[0] == got[2],
                          "body %d from mode %d: %#x, %#x, %#x", i, begin, got[0],
                          got[1], got[2]);
            td_fn_drop(f);
        }
    td_close(cx);
}

/* The topics of the function's own log are on while it is compiled, no longer. */
TEST(a_grad_mode_that_a_body_leaves_is_explained) {
    static char text[1 << 14];
    td_ctx     *cx = open_hearing("");
    td_tensor  *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2))), *y[2];
    for (int on = 0; on < 2; on++) {
        td_aot_opts o = {TD_AOT_OPTS, .log = "facts"};
        td_fn      *f = td_aot_function(cx, on ? turns_on : turns_off, NULL, &o);
        td_set_grad_enabled(cx, !on);
        heard[0] = 0;
        CHECK(td_invoke(f, TD_ARGS(x), y, 2));
        CHECK(strstr(heard, on ? "leaves gradients on" : "leaves gradients off"));
        td_set_grad_enabled(cx, !on);
        heard[0] = 0;
        CHECK(td_invoke(f, TD_ARGS(x), y, 2) && !heard[0]);
        td_explain(f, text, sizeof text);
        CHECK(strstr(text, "the grad mode is another one after the call"));
        td_fn_drop(f);
    }
    td_set_grad_enabled(cx, true);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(gradients_on_in_inference_mode_cannot_be_left) {
    td_ctx      *cx = td_open();
    td_tensor   *x = td_ones(cx, TD_SHAPE(2)), *y[2];
    td_fn       *f = td_aot_function(cx, turns_on, NULL, NULL);
    td_grad_mode was = td_inference_begin(cx, true);
    CHECK(!td_invoke(f, TD_ARGS(x), y, 2) && td_is_nil(y[1]));
    CHECK(strstr(td_message(cx), "returns with grad mode and inference mode both"));
    td_clear(cx);
    CHECK(td_inference_enabled(cx) && !td_grad_enabled(cx));
    td_inference_end(cx, was);
    CHECK(td_invoke(f, TD_ARGS(x), y, 2) && td_item(td_sum(y[1])) == 6);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- rooms ---------------------------------------------------------------- */

/* Neither shows all that the other shows. */
static bool overlapping(td_call *c) {
    td_tensor *b = td_mul(td_arg(c, 0), 2.0);
    td_tensor *p = td_detach(td_slice(b, 0, 0, 4)),
              *q = td_detach(td_slice(b, 0, 2, 6));
    return td_return(c, p, q, td_sum(b));
}

TEST(results_that_overlap_share_a_storage_of_their_dtype) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_arange(cx, 0.0, 6.0)), *y[3];
    td_fn     *f = td_aot_function(cx, overlapping, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK(td_invoke(f, TD_ARGS(x), y, 3));
        CHECK(td_item(td_sum(y[0])) == 12 && td_item(td_sum(y[1])) == 28);
        td_mul_(y[0], 10.0); /* is seen through the other */
        CHECK(td_item(td_sum(y[0])) == 120 && td_item(td_sum(y[1])) == 118);
        td_zero_grad(x);
        CHECK(td_backward(y[2]) && td_item(td_sum(td_grad_of(x))) == 12);
    }
    CHECK_OK(cx);
    size_t live = td_memory_live();
    for (int64_t n = 0, more = 1; more; n++) {
        td_scope_begin(cx, "try");
        td__fault_arm(n, false);
        bool ok = td_invoke(f, TD_ARGS(x), y, 3);
        more = td__fault_count() > n;
        td__fault_arm(-1, false);
        CHECK(ok ? td_ok(cx) && td_item(td_sum(y[1])) == 28
                 : td_error(cx) == TD_E_MEMORY);
        td_clear(cx);
        td_scope_end(cx, "try", NULL);
    }
    CHECK(td_memory_live() == live);
    td_fn_drop(f);
    td_close(cx);
}
