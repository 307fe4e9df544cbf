/* control_errors.c -- the error codes of a loop that fails, eager and captured. */
#include "trace_help.h"

#include <string.h>

static bool below(td_call *c) {
    return td_return(c, td_lt(td_arg(c, 0), *(int *)td_call_env(c)));
}
static bool two_flags(td_call *c) {
    return td_return(c, td_stack(TD_LIST(td_arg(c, 0), td_arg(c, 0))));
}
static bool widens(td_call *c) { return td_return(c, td_to(td_arg(c, 0), TD_F64)); }
static bool plus_one(td_call *c) { return td_return(c, td_add(td_arg(c, 0), 1)); }

static td_loop failing;
static bool    fails(td_call *c) {
       td_tensor *y;
       return td_while(td_call_ctx(c), failing, TD_LIST(td_arg(c, 0)), &y) &&
              td_return(c, y);
}

/* Eager calls the test always, and the body perhaps never: an error of the body is a
 * refusal where the loop is captured. */
TEST(errors_of_a_captured_loop_are_eagers_where_eager_always_fails) {
    td_ctx   *cx = td_open();
    int       most = 3;
    td_values x = TD_ARGS(td_zeros(cx, TD_SHAPE()));
    td_value  y;
    failing = (td_loop){.test = two_flags, .body = plus_one};
    CHECK(td_call_body(cx, fails, NULL, x, &y, 1) < 0 && td_error(cx) == TD_E_SHAPE);
    td_clear(cx);
    CHECK(td_is_nil(td_capture(cx, fails, NULL, x)) && td_error(cx) == TD_E_SHAPE);
    td_clear(cx);
    failing = (td_loop){.test = below, .body = widens, .env = &most};
    CHECK(td_call_body(cx, fails, NULL, x, &y, 1) < 0 && td_error(cx) == TD_E_SHAPE);
    td_clear(cx);
    CHECK(td_is_nil(td_capture(cx, fails, NULL, x)) && td_error(cx) == TD_E_TRACE);
    CHECK(strstr(td_message(cx), "the body returns f64[] for state 0, which is f32[]"));
    td_clear(cx);
    most = 0;
    CHECK(td_call_body(cx, fails, NULL, x, &y, 1) == 1);
    CHECK_OK(cx);
    td_close(cx);
}
