/* sym_unbacked.c -- what a program may not do at every size: guards that fail, sizes
 * that were read, sizes that depend on values. */
#include "sym_help.h"

static const td_capture_opts all_sizes = {TD_CAPTURE_OPTS, .dynamic = TD_DYNAMIC_ALL};

/* ---- guards ------------------------------------------------------------- */

static bool halves(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_view(x, TD_SHAPE(2, -1)));
}

TEST(a_guard_that_fails_is_named) {
    td_ctx     *cx = td_open();
    td_program *p = td_capture_with(cx, halves, NULL, TD_ARGS(td_ones(cx, TD_SHAPE(8))),
                                    &all_sizes);
    td_value    out[1];
    CHECK_OK(cx);
    char *s = guards_of(p), *text = text_of_program(p);
    CHECK(strstr(s, "s0 == x0.size(0), s0 >= 2") != NULL);
    TD_CHECK_THAT(strstr(s, "s0 % 2 == 0 (view at ") != NULL, "%s", s);
    CHECK(strstr(text, "f32[2,s0//2]") != NULL);
    CHECK(td_program_run(p, TD_ARGS(td_ones(cx, TD_SHAPE(12))), out, 1));
    CHECK(td_size(out[0].u.t, 1) == 6);
    CHECK(!td_program_run(p, TD_ARGS(td_ones(cx, TD_SHAPE(9))), out, 1));
    CHECK(td_error(cx) == TD_E_GUARD && strstr(td_message(cx), "s0 % 2 == 0 (view"));
    td_clear(cx);
    CHECK(!td_program_run(p, TD_ARGS(td_ones(cx, TD_SHAPE(1))), out, 1));
    CHECK(td_error(cx) == TD_E_GUARD && strstr(td_message(cx), "s0 >= 2"));
    td_clear(cx);
    free(s);
    free(text);
    td_program_drop(p);
    td_close(cx);
}

static bool reads_size(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(x, (double)td_size(x, 0)));
}

TEST(a_size_that_is_read_is_fixed) {
    td_ctx     *cx = td_open();
    td_value    out[1];
    td_program *p = td_capture_with(cx, reads_size, NULL,
                                    TD_ARGS(td_ones(cx, TD_SHAPE(4, 3))), &all_sizes);
    CHECK_OK(cx);
    char *s = guards_of(p);
    TD_CHECK_THAT(strstr(s, "s0 == 4 (read at tests/unit/sym_unbacked.c") != NULL, "%s",
                  s);
    CHECK(td_program_run(p, TD_ARGS(td_ones(cx, TD_SHAPE(4, 7))), out, 1));
    CHECK(!td_program_run(p, TD_ARGS(td_ones(cx, TD_SHAPE(5, 3))), out, 1));
    CHECK(td_error(cx) == TD_E_GUARD && strstr(td_message(cx), "s0 == 4"));
    free(s);
    td_program_drop(p);
    td_close(cx);
}

static bool reads_sizes(td_call *c) {
    td_ints s = td_sizes(td_arg(c, 0));
    return td_return(c, td_zeros(td_call_ctx(c), s));
}

TEST(a_list_of_sizes_that_is_read_is_fixed) {
    td_ctx     *cx = td_open();
    td_value    out[1];
    td_program *p = td_capture_with(cx, reads_sizes, NULL,
                                    TD_ARGS(td_ones(cx, TD_SHAPE(4, 3))), &all_sizes);
    CHECK_OK(cx);
    CHECK(td_program_run(p, TD_ARGS(td_ones(cx, TD_SHAPE(4, 3))), out, 1));
    CHECK(td_size(out[0].u.t, 0) == 4 && td_size(out[0].u.t, 1) == 3);
    CHECK(!td_program_run(p, TD_ARGS(td_ones(cx, TD_SHAPE(5, 3))), out, 1));
    CHECK(td_error(cx) == TD_E_GUARD && strstr(td_message(cx), "s0 == 4"));
    td_program_drop(p);
    td_close(cx);
}

static bool misuses(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_slice(x, 0, 0, td_sym_size(x, 0) - 1));
}

TEST(a_handle_computed_by_other_means_is_refused) {
    td_ctx *cx = td_open();
    CHECK(td_is_nil(td_capture_with(cx, misuses, NULL,
                                    TD_ARGS(td_ones(cx, TD_SHAPE(4, 3))), &all_sizes)));
    CHECK(td_error(cx) == TD_E_TRACE && strstr(td_message(cx), "td_sym_add"));
    td_close(cx);
}

static bool same(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), 2)); }

TEST(only_marked_sizes_are_dynamic) {
    td_ctx         *cx = td_open();
    td_value        out[1];
    td_capture_opts opts = {TD_CAPTURE_OPTS, .dynamic = TD_DYNAMIC_MARKED};
    td_tensor      *x = td_ones(cx, TD_SHAPE(4, 3));
    CHECK(td_mark_dynamic(x, 0) && !td_mark_dynamic(x, 2));
    td_clear(cx);
    td_program *p = td_capture_with(cx, same, NULL, TD_ARGS(x), &opts);
    CHECK_OK(cx);
    CHECK(td_program_run(p, TD_ARGS(td_ones(cx, TD_SHAPE(9, 3))), out, 1));
    CHECK(!td_program_run(p, TD_ARGS(td_ones(cx, TD_SHAPE(4, 4))), out, 1));
    CHECK(strstr(td_message(cx), "x0.size(1) == 3") != NULL);
    td_program_drop(p);
    td_close(cx);
}

/* ---- sizes that depend on values ---------------------------------------- */

static td_tensor *counted(td_ctx *cx, int n, int set) {
    td_tensor *x = td_zeros(cx, TD_SHAPE(n));
    for (int i = 0; i < set; i++) td_add_(td_select(x, 0, i), i + 1);
    return x;
}

static void check_counts(td_body *body) {
    td_ctx     *cx = td_open();
    td_program *p =
        td_capture_with(cx, body, NULL, TD_ARGS(counted(cx, 6, 3)), &all_sizes);
    td_value a[4], b[4];
    TD_CHECK_THAT(!td_is_nil(p), "%s", td_message(cx));
    for (int n = 4; n < 9; n++)
        for (int set = 0; set <= n; set++) {
            td_tensor *x = counted(cx, n, set);
            int        k = td_call_body(cx, body, NULL, TD_ARGS(x), a, 4);
            TD_CHECK_THAT(td_program_run(p, TD_ARGS(x), b, 4), "%d of %d: %s", set, n,
                          td_message(cx));
            for (int i = 0; i < k; i++) check_elements(a[i].u.t, b[i].u.t, PLAIN);
        }
    td_program_drop(p);
    td_close(cx);
}

static bool finds(td_call *c) {
    td_tensor *x = td_arg(c, 0), *i = td_nonzero(x);
    return td_return(c, i, td_add(i, 1), td_sum(i));
}
TEST(nonzero_gives_any_count) { check_counts(finds); }

static bool selects(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_masked_select(x, td_gt(x, 1));
    return td_return(c, y, td_mul(y, 2), td_cat(TD_LIST(y, x), 0));
}
TEST(masked_select_gives_any_count) { check_counts(selects); }

static bool distinct(td_call *c) {
    td_tensor *inverse, *counts, *x = td_arg(c, 0);
    td_tensor *v = td_unique(x, true, true, &inverse, &counts);
    return td_return(c, v, inverse, td_mul(v, counts));
}
TEST(unique_gives_any_count) { check_counts(distinct); }

static bool picks(td_call *c) {
    td_tensor *x = td_arg(c, 0), *i = td_select(td_nonzero(x), 1, 0);
    return td_return(c, td_index_select(x, 0, i), td_relu(td_index_select(x, 0, i)));
}
TEST(indices_found_are_used) { check_counts(picks); }

static bool needs_two(td_call *c) {
    td_tensor *i = td_nonzero(td_arg(c, 0));
    td_expect(i, 0, ">=", 2);
    return td_return(c, td_slice(i, 0, 0, 2));
}

TEST(what_is_expected_is_checked_when_it_runs) {
    td_ctx     *cx = td_open();
    td_value    out[1];
    td_program *p =
        td_capture_with(cx, needs_two, NULL, TD_ARGS(counted(cx, 6, 3)), &all_sizes);
    TD_CHECK_THAT(!td_is_nil(p), "%s", td_message(cx));
    char *text = text_of_program(p);
    TD_CHECK_THAT(strstr(text, "expect(u0, \">=\", 2)") != NULL, "%s", text);
    CHECK(td_program_run(p, TD_ARGS(counted(cx, 9, 2)), out, 1));
    CHECK(!td_program_run(p, TD_ARGS(counted(cx, 9, 1)), out, 1));
    CHECK(td_error(cx) == TD_E_SHAPE && strstr(td_message(cx), "[1] >= [2]"));
    free(text);
    td_program_drop(p);
    td_close(cx);
}

static bool asks(td_call *c) {
    td_tensor *i = td_nonzero(td_arg(c, 0));
    return td_return(c, td_mul(i, (double)td_size(i, 0)));
}

TEST(a_size_nobody_knows_is_no_number) {
    td_ctx *cx = td_open();
    CHECK(td_is_nil(
        td_capture_with(cx, asks, NULL, TD_ARGS(counted(cx, 6, 3)), &all_sizes)));
    CHECK(td_error(cx) == TD_E_TRACE && strstr(td_message(cx), "data-dependent"));
    CHECK(strstr(td_message(cx), "sym_unbacked.c") != NULL);
    td_close(cx);
}

static bool meets(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_masked_select(x, td_gt(x, 0));
    return td_return(c, td_add(y, td_arg(c, 1)));
}

TEST(sizes_that_meet_must_be_equal) {
    td_ctx     *cx = td_open();
    td_value    out[1];
    td_program *p =
        td_capture_with(cx, meets, NULL,
                        TD_ARGS(counted(cx, 6, 3), td_ones(cx, TD_SHAPE(3))),
                        &all_sizes);
    TD_CHECK_THAT(!td_is_nil(p), "%s", td_message(cx));
    char *text = text_of_program(p);
    TD_CHECK_THAT(strstr(text, "expect(") != NULL, "%s", text);
    CHECK(td_program_run(p, TD_ARGS(counted(cx, 9, 5), td_ones(cx, TD_SHAPE(5))), out,
                         1));
    CHECK(!td_program_run(p, TD_ARGS(counted(cx, 9, 4), td_ones(cx, TD_SHAPE(5))), out,
                          1));
    CHECK(td_error(cx) == TD_E_UNSUPPORTED);
    free(text);
    td_program_drop(p);
    td_close(cx);
}
