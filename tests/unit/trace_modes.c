/* trace_modes.c -- modes written by users. */
#include "td_test.h"

#include "core/core.h"
#include "tandem/tandem.h"

typedef struct diary {
    char text[512];
} diary;

static bool note(void *env, td_mode_call *h) {
    diary *d = env;
    size_t n = strlen(d->text);
    snprintf(d->text + n, sizeof d->text - n, "%s ", td_mode_call_name(h));
    return td_mode_call_go(h);
}

TEST(a_mode_receives_every_op_in_order) {
    td_ctx      *cx = td_open();
    diary        d = {""};
    td_mode_hook m = {.name = "diary", .call = note, .env = &d};
    td_tensor   *x = td_ones(cx, TD_SHAPE(2, 2));

    CHECK(td_mode_push(cx, &m));
    td_add_(x, td_exp(td_transpose(x, 0, 1)));
    CHECK(td_mode_pop(cx, &m));
    td_mul(x, x);

    CHECK_STR(d.text, "transpose exp add_ ");
    td_close(cx);
}

TEST(a_mode_receives_composites_whole_or_their_parts) {
    td_ctx      *cx = td_open();
    diary        a = {""}, b = {""};
    td_mode_hook parts = {.call = note, .env = &a};
    td_mode_hook whole = {.call = note, .env = &b, .composites = true};
    td_tensor *x = td_ones(cx, TD_SHAPE(3, 4)), *t = td_zeros(cx, TD_SHAPE(3), TD_I64);

    td_mode_push(cx, &parts);
    td_mode_push(cx, &whole);
    td_cross_entropy(x, t);
    td_mode_pop(cx, &whole);
    td_mode_pop(cx, &parts);

    CHECK_OK(cx);
    CHECK_STR(b.text, "cross_entropy ");
    CHECK(strstr(a.text, "log_softmax") && !strstr(a.text, "cross_entropy"));
    td_close(cx);
}

/* Computes in f64 whatever comes. */
static bool widen(void *env, td_mode_call *h) {
    (void)env;
    for (int i = 0; i < td_mode_call_args(h); i++) {
        td_value v = td_mode_call_arg(h, i);
        if (v.kind == TD_K_TENSOR && td_dtype_of(v.u.t) == TD_F32)
            td_mode_call_change(h, i, TD_V(td_to(v.u.t, TD_F64)));
    }
    return td_mode_call_go(h);
}

TEST(a_mode_may_change_arguments) {
    td_ctx      *cx = td_open();
    td_mode_hook m = {.call = widen};
    td_tensor   *x = td_ones(cx, TD_SHAPE(2));
    td_mode_push(cx, &m);
    td_tensor *y = td_mul(x, 2);
    td_mode_pop(cx, &m);
    CHECK_OK(cx);
    CHECK(td_dtype_of(y) == TD_F64);
    td_close(cx);
}

static bool answer(void *env, td_mode_call *h) {
    if (strcmp(td_mode_call_name(h), "exp") != 0) return td_mode_call_go(h);
    CHECK(td_mode_call_results(h) == 1 && td_is_nil(td_mode_call_result(h, 0)));
    CHECK_STR(td_mode_call_arg_name(h, 0), "a");
    CHECK(!td_mode_call_writes(h, 0));
    return td_mode_call_answer(h, 0, env);
}

TEST(a_mode_may_answer_in_place_of_the_op) {
    td_ctx      *cx = td_open();
    td_tensor   *x = td_ones(cx, TD_SHAPE(2)), *y = td_zeros(cx, TD_SHAPE(2));
    td_mode_hook m = {.call = answer, .env = y};
    td_mode_push(cx, &m);
    CHECK(td_exp(x) == y);
    td_mode_pop(cx, &m);
    CHECK_OK(cx);
    td_close(cx);
}

static bool silent(void *env, td_mode_call *h) { return (void)env, (void)h, true; }
static bool refuse(void *env, td_mode_call *h) { return (void)env, (void)h, false; }
static bool twice(void *env, td_mode_call *h) {
    return (void)env, td_mode_call_go(h) && td_mode_call_go(h);
}
static bool pops(void *env, td_mode_call *h) {
    return td_mode_pop(td_mode_call_ctx(h), env);
}

static void check_fails(td_mode_fn *fn, const char *words) {
    td_ctx      *cx = td_open();
    td_mode_hook m = {.name = "bad", .call = fn};
    td_tensor   *x = td_ones(cx, TD_SHAPE(2));
    m.env = &m;
    td_mode_push(cx, &m);
    CHECK(td_is_nil(td_exp(x)));
    TD_CHECK_THAT(strstr(td_message(cx), words), "%s", td_message(cx));
    td_clear(cx);
    CHECK(td_mode_pop(cx, &m));
    td_close(cx);
}

TEST(a_mode_that_does_not_answer_fails_the_call) {
    check_fails(silent,
                "exp: mode bad neither called td_mode_call_go nor gave result 0");
    check_fails(refuse, "exp: the function of mode bad returned false");
    check_fails(twice, "called twice");
    check_fails(pops, "not the innermost");
}

TEST(modes_are_popped_in_the_opposite_order) {
    td_ctx      *cx = td_open();
    diary        d = {""};
    td_mode_hook a = {.name = "a", .call = note, .env = &d}, b = a;
    td_mode_push(cx, &a);
    td_mode_push(cx, &b);
    CHECK(!td_mode_push(cx, &a));
    td_clear(cx);
    CHECK(!td_mode_pop(cx, &a));
    td_clear(cx);
    td_exp(td_ones(cx, TD_SHAPE(1)));
    CHECK_STR(d.text, "ones ones exp exp ");
    CHECK(td_mode_pop(cx, &b) && td_mode_pop(cx, &a));
    td_close(cx);
}

TEST(a_mode_left_pushed_goes_with_its_context) {
    td_ctx      *cx = td_open();
    diary        d = {""};
    td_mode_hook a = {.call = note, .env = &d}, b = a;
    td_mode_push(cx, &a);
    td_mode_push(cx, &b);
    td_close(cx);
    CHECK(!a.link && !b.link);
}

TEST(only_modes_below_receive_the_ops_that_a_mode_calls) {
    td_ctx      *cx = td_open();
    diary        d = {""};
    td_mode_hook below = {.call = note, .env = &d}, above = {.call = widen};
    td_tensor   *x = td_ones(cx, TD_SHAPE(2));
    td_mode_push(cx, &below);
    td_mode_push(cx, &above);
    td_exp(x);
    td_mode_pop(cx, &above);
    td_mode_pop(cx, &below);
    CHECK_OK(cx);
    CHECK_STR(d.text, "_to_copy exp ");
    td_close(cx);
}

static bool body(td_call *c) { return td_return(c, td_exp(td_arg(c, 0))); }

TEST(a_mode_around_a_capture_receives_the_program_when_it_runs) {
    td_ctx      *cx = td_open();
    diary        d = {""};
    td_mode_hook m = {.call = note, .env = &d};
    td_tensor   *x = td_ones(cx, TD_SHAPE(2));
    td_value     out[1];
    td_mode_push(cx, &m);
    td_program *p = td_capture(cx, body, NULL, TD_ARGS(x));
    CHECK_STR(d.text, "");
    CHECK(td_program_run(p, TD_ARGS(x), out, 1));
    CHECK_STR(d.text, "exp ");
    td_mode_pop(cx, &m);
    td_program_drop(p);
    td_close(cx);
}

static bool pushes(td_call *c) {
    td_mode_hook *m = td_call_env(c);
    td_mode_push(td_call_ctx(c), m);
    return td_return(c, td_exp(td_arg(c, 0)));
}

TEST(a_mode_left_pushed_by_a_body_is_an_error) {
    td_ctx      *cx = td_open();
    diary        d = {""};
    td_mode_hook m = {.call = note, .env = &d};
    CHECK(td_is_nil(td_capture(cx, pushes, &m, TD_ARGS(td_ones(cx, TD_SHAPE(2))))));
    CHECK(strstr(td_message(cx), "pushed a mode and did not pop it"));
    CHECK(m.link == NULL);
    td_close(cx);
}

TEST(leaving_a_mode_scope_puts_back_the_stack_and_the_switches) {
    td_ctx      *cx = td_open();
    diary        d = {0};
    td_mode_hook m = {.call = note, .env = &d};
    td_mode     *tape = cx->tape, under = {.name = "under"};
    td_mode_push(cx, &m);
    td_mode *top = cx->top;

    td_mode_scope outer = td__modes_enter_plain(cx, tape);
    CHECK(cx->top == tape && !cx->grad_enabled && !cx->inference);
    td__modes_tape(cx, &under);
    cx->fake = cx->inference = true;
    td__modes_leave(cx, &outer);
    td_neg(td_ones(cx, TD_SHAPE(2)));

    CHECK(cx->top == top && !tape->below && cx->grad_enabled);
    CHECK(!cx->fake && !cx->inference && strcmp(d.text, "ones neg ") == 0);
    td_mode_pop(cx, &m);
    td_close(cx);
}

TEST(an_inserted_mode_is_right_above_the_tape) {
    td_ctx      *cx = td_open();
    diary        d = {0};
    td_mode_hook m = {.call = note, .env = &d};
    td_mode      low = {.name = "low"};
    td_mode_push(cx, &m);

    td__mode_insert(cx, &low);
    CHECK(cx->top->below == &low && low.below == cx->tape);
    td__mode_remove(cx, &low);
    td__mode_remove(cx, &low); /* it is gone: nothing happens */

    CHECK(cx->top->below == cx->tape);
    td_mode_pop(cx, &m);
    td_close(cx);
}
