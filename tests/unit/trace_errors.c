/* trace_errors.c -- what a capture refuses, and that nothing stays behind. */
#include "trace_help.h"

static td_tensor *outside; /* what a body closes over */

/* The capture fails with these words, and the context is as it was. */
static void check_refused(td_body *body, td_code code, const char *words) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 2));
    outside = x;
    int      scopes = cx->scopes.n;
    uint64_t version = td_version(x), offset = td_rng_offset(cx);
    td_mode *top = cx->top;

    CHECK(td_is_nil(td_capture(cx, body, NULL, TD_ARGS(x, 2))));

    TD_CHECK_THAT(td_error(cx) == code && strstr(td_message(cx), words),
                  "%s: \"%s\" without \"%s\"", td_code_name(td_error(cx)),
                  td_message(cx), words);
    CHECK(cx->scopes.n == scopes && cx->top == top && !cx->fake);
    CHECK(td_version(x) == version && td_rng_offset(cx) == offset);
    CHECK(td_grad_enabled(cx) && !td_inference_enabled(cx));
    td_clear(cx);
    CHECK_NEAR(td_item(td_sum(td_mul(x, 3))), 12, 0);
    CHECK_OK(cx);
    td_close(cx);
}

static bool item(td_call *c) {
    if (td_item(td_sum(td_arg(c, 0))) > 0) return td_return(c, td_arg(c, 0));
    return td_return(c);
}
static bool item_of_literal(td_call *c) {
    return td_return(c, td_item(td_tensor1(td_call_ctx(c), 5)));
}
static bool data(td_call *c) {
    float *p = td_data(td_arg(c, 0));
    if (p) p[0] = 1;
    return td_return(c);
}
static bool data_of_outside(td_call *c) {
    return td_data(outside) != NULL && td_return(c);
}
static bool reads(td_call *c) {
    double v[4];
    return td_read(td_arg(c, 0), TD_F64, v, sizeof v) && td_return(c);
}
static bool writes(td_call *c) {
    double v[4] = {0};
    return td_write(outside, TD_F64, v, sizeof v) && td_return(c);
}

TEST(reading_a_value_is_refused_with_the_line_and_a_way_out) {
    check_refused(item, TD_E_TRACE, "trace_errors.c:");
    check_refused(item, TD_E_TRACE, "td_where");
    check_refused(item_of_literal, TD_E_TRACE, "td_item: ");
    check_refused(data, TD_E_TRACE, "td_data: ");
    check_refused(data_of_outside, TD_E_TRACE, "td_data: ");
    check_refused(reads, TD_E_TRACE, "td_read: ");
    check_refused(writes, TD_E_TRACE, "td_write: ");
}

/* How many pieces there are is known when the program runs. */
static bool split_by_values(td_call *c) {
    td_tensor *pieces[8];
    return td_unbind(td_nonzero(td_arg(c, 0)), 0, pieces, 8) >= 0;
}
TEST(a_number_of_results_that_depends_on_values_is_refused_with_the_line) {
    check_refused(split_by_values, TD_E_TRACE, "unbind: ");
    check_refused(split_by_values, TD_E_TRACE, "trace_errors.c:");
}

static bool wrong_shape(td_call *c) {
    td_scope_begin(td_call_ctx(c), "model");
    return td_return(c,
                     td_matmul(td_arg(c, 0), td_ones(td_call_ctx(c), TD_SHAPE(3, 3))));
}
TEST(a_mistake_in_the_body_is_the_error_eager_would_give) {
    check_refused(wrong_shape, TD_E_SHAPE, "model: ");
}

static bool says_false(td_call *c) { return (void)c, false; }
static bool fails_itself(td_call *c) {
    td_fail(td_call_ctx(c), TD_E_ARG, "not today");
    return false;
}
static bool returns_twice(td_call *c) { return td_return(c) && td_return(c); }
static bool ignores_failure(td_call *c) {
    td_add(td_arg(c, 0), td_ones(td_call_ctx(c), TD_SHAPE(5)));
    td_return(c, td_arg(c, 0));
    return true;
}
TEST(a_body_that_fails_gives_no_program) {
    check_refused(says_false, TD_E_ARG, "without an error");
    check_refused(fails_itself, TD_E_ARG, "not today");
    check_refused(returns_twice, TD_E_ARG, "called twice");
    check_refused(ignores_failure, TD_E_SHAPE, "add: ");
}

static bool leaves_mess(td_call *c) {
    td_ctx *cx = td_call_ctx(c);
    td_scope_begin(cx, "a");
    td_scope_begin(cx, "b");
    td_no_grad_begin(cx);
    td_inference_begin(cx, true);
    td_fail(cx, TD_E_ARG, "in the middle");
    return false;
}
TEST(modes_and_scopes_of_a_failed_body_are_undone) {
    check_refused(leaves_mess, TD_E_ARG, "in the middle");
}

static bool seeds(td_call *c) {
    td_seed(td_call_ctx(c), 3);
    return td_return(c, td_randn(td_call_ctx(c), TD_SHAPE(2)));
}
static bool seeds_last(td_call *c) {
    td_seed(td_call_ctx(c), 3);
    return td_return(c);
}
TEST(setting_the_generator_is_refused) {
    check_refused(seeds, TD_E_TRACE, "random generator");
    check_refused(seeds_last, TD_E_TRACE, "random generator");
}

static bool wrong_arg(td_call *c) { return td_return(c, td_arg(c, 7)); }
static bool number_as_tensor(td_call *c) { return td_return(c, td_arg(c, 1)); }
static bool tensor_as_number(td_call *c) { return td_return(c, td_arg_number(c, 0)); }
TEST(asking_for_the_wrong_argument_is_an_error) {
    check_refused(wrong_arg, TD_E_ARG, "no argument 7");
    check_refused(number_as_tensor, TD_E_ARG,
                  "td_arg: argument 1 is an int; the body expects a tensor there");
    check_refused(tensor_as_number, TD_E_ARG,
                  "argument 0 is a tensor; the body expects a number there");
}

static bool closes_over_argument(td_call *c) {
    return td_return(c, td_mul(outside, 2));
}
TEST(closing_over_an_argument_is_refused) {
    check_refused(closes_over_argument, TD_E_TRACE, "read it with td_arg");
}

static bool closes_over(td_call *c) {
    td_add_(outside, td_arg(c, 0));
    return td_return(c, td_mul(outside, 2), td_transpose(outside, 0, 1));
}
TEST(a_tensor_closed_over_belongs_to_the_program) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 2)), *w = td_ones(cx, TD_SHAPE(2, 2));
    td_value   out[2];
    outside = w;

    td_program *p = td_capture(cx, closes_over, NULL, TD_ARGS(x));
    CHECK_OK(cx);
    CHECK(td_version(w) == 0 && !td_is_nil(w));
    CHECK_NEAR(td_item(td_sum(w)), 4, 0);
    td_drop(w); /* the program holds it */
    CHECK(td_program_run(p, TD_ARGS(x), out, 2));
    CHECK(td_program_run(p, TD_ARGS(x), out, 2));
    CHECK_NEAR(td_item(td_sum(out[0].u.t)), 24, 0);
    CHECK(td_same_storage(out[1].u.t, w) && td_version(w) == 2);

    td_program_drop(p);
    td_close(cx);
}

static td_tensor *kept;
static bool       keeps(td_call *c) {
          kept = td_keep(td_mul(td_arg(c, 0), 2));
          return td_return(c);
}
static bool uses_kept(td_call *c) { return td_return(c, td_mul(kept, 2)); }
TEST(a_tensor_carried_out_of_a_capture_has_no_bytes) {
    td_ctx     *cx = td_open();
    td_tensor  *x = td_ones(cx, TD_SHAPE(2));
    td_program *p = td_capture(cx, keeps, NULL, TD_ARGS(x));
    CHECK_OK(cx);
    CHECK(isnan(td_item(td_sum(kept))) && td_error(cx) == TD_E_TRACE);
    td_clear(cx);
    CHECK(td_is_nil(td_capture(cx, uses_kept, NULL, TD_ARGS(x))));
    CHECK(strstr(td_message(cx), "of another capture"));
    td_program_drop(p);
    td_close(cx);
}

static bool twice(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_arg_number(c, 1)));
}
TEST(a_program_refuses_arguments_it_was_not_captured_for) {
    td_ctx     *cx = td_open();
    td_tensor  *x = td_ones(cx, TD_SHAPE(2)), *y = td_ones(cx, TD_SHAPE(3));
    td_program *p = td_capture(cx, twice, NULL, TD_ARGS(x, 2.0));
    td_value    out[1];
    td_value    wrong[4][2] = {{TD_V(y), TD_V(2.0)},
                               {TD_V(x), TD_V(3.0)},
                               {TD_V(x), TD_NONE},
                               {TD_NONE, TD_V(2.0)}};
    for (int i = 0; i < 4; i++) {
        CHECK(!td_program_run(p, (td_values){wrong[i], 2}, out, 1));
        CHECK(td_error(cx) == TD_E_ARG && td_is_nil(out[0].u.t));
        td_clear(cx);
    }
    CHECK(!td_program_run(p, TD_ARGS(x), out, 1));
    td_clear(cx);
    td_tensor *all = td_ones(cx, TD_SHAPE(4));
    p = (td_program_drop(p), td_capture(cx, keeps, NULL, TD_ARGS(x, x)));
    CHECK(!td_program_run(p, TD_ARGS(td_narrow(all, 0, 0, 2), td_ones(cx, TD_SHAPE(2))),
                          NULL, 0));
    td_program_drop(p);
    td_close(cx);
}

static bool nested(td_call *c) {
    td_ctx     *cx = td_call_ctx(c);
    td_tensor  *y = td_mul(td_arg(c, 0), 2);
    td_program *p = td_capture(cx, twice, NULL, TD_ARGS(y, 2.0));
    td_value    out[1] = {TD_NONE};
    if (p) td_program_run(p, TD_ARGS(y, 2.0), out, 1);
    td_program_drop(p);
    return td_return(c, out[0]);
}
TEST(a_body_may_capture_and_run_another) { check_body(nested, two); }

TEST(running_out_of_memory_at_any_point_leaves_no_trace) {
    for (int64_t k = 0;; k++) {
        td_ctx    *cx = td_open();
        td_tensor *x = td_ones(cx, TD_SHAPE(2, 2)), *w = td_ones(cx, TD_SHAPE(2, 2));
        outside = w;
        td__fault_arm(k, false);
        td_program *p = td_capture(cx, closes_over, NULL, TD_ARGS(x));
        bool        hit = td__fault_count() > k;
        td__fault_arm(-1, false);
        CHECK(!td_is_nil(p) ? td_ok(cx) : td_error(cx) == TD_E_MEMORY);
        CHECK(!cx->fake && cx->top == cx->tape && !cx->tape->below);
        td_program_drop(p);
        td_clear(cx);
        CHECK_NEAR(td_item(td_sum(td_add(x, w))), 8, 0);
        td_close(cx);
        if (!hit) break;
    }
}

/* The place that an error of backward names is the graph's, which is gone. */
TEST(a_history_outlives_the_graph_that_made_it) {
    static const char text[] = "func @f(%x: f32[2] grad) {\n"
                               "  %y = mul(%x, %x)\n"
                               "  return %y\n"
                               "}\n";
    td_ctx           *cx = td_open();
    td_tensor        *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(2)), true);
    td_value          in[1] = {td_value_tensor(x)}, out[1];
    td_gfile         *f = td__gfile_parse(cx, text, sizeof text - 1, "gone.td");
    CHECK(td__graph_replay(f->graphs.v[0], in, out));
    td__gfile_drop(f);
    td_grad_mode was = td_no_grad_begin(cx);
    td_add_(x, 1.0);
    td_no_grad_end(cx, was);
    td_backward(td_sum(out[0].u.t));
    CHECK(td_error(cx) == TD_E_GRAD);
    CHECK(strstr(td_message(cx), "gone.td:2") != NULL);
    td_close(cx);
}
