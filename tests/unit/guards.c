/* guards.c -- guards as people read them, as programs, and unbacked sizes. */
#include "trace/sym.h"

#include "td_test.h"

static td_ctx    *cx;
static td_symenv *e;
static int64_t    s0, s1;

static void begin(void) {
    cx = td_open();
    e = td__symenv_make(cx);
    s0 = td__sym_size(e, "x.size(0)", 0, 0, 16);
    s1 = td__sym_size(e, "x.size(1)", 0, 1, 5);
    td__symenv_begin(e);
    td_here = (td_where){"model.c", 41};
}

static void end(void) {
    td_here = (td_where){NULL, 0};
    td__symenv_end(e);
    td__symenv_drop(e);
    td_close(cx);
}

static const char *all(void) {
    static char out[1024];
    td_buf      b = {0};
    td__guards_print(e, &b);
    snprintf(out, sizeof out, "%s", td__buf_str(&b));
    td__buf_free(&b);
    return out;
}

/* What the guards say to these sizes: "" when they hold. */
static const char *verdict(int64_t a, int64_t b) {
    static char    out[256];
    int64_t        v[2] = {a, b};
    td_guard_prog *p = td__guards_compile(e);
    int            i = p ? td__guards_run_loaded(p, v) : 0;
    td_buf         text = {0};
    if (p && i >= 0) td__guard_line_print(&p->checks.v[i], &text);
    snprintf(out, sizeof out, "%s", td__buf_str(&text));
    td__buf_free(&text);
    td__guards_drop(p);
    return out;
}

TEST(guards_name_source_range_and_the_op_that_asked) {
    begin();
    e->op = "view";
    CHECK(td__dim_eq(td__dim_mod(s0, 8), 0));
    CHECK_STR(all(), "s0 == x.size(0), s0 >= 2, s1 == x.size(1), s1 >= 2, "
                     "s0 % 8 == 0 (view at model.c:41)");
    e->op = NULL;
    end();
}

TEST(a_size_that_stayed_a_number_is_guarded) {
    begin();
    td__sym_size(e, "y.size(0)", 1, 0, 1);
    CHECK(strstr(all(), "y.size(0) == 1") != NULL);
    end();
}

TEST(a_program_takes_what_its_guards_take) {
    begin();
    CHECK(td__dim_eq(td__dim_mod(s0, 8), 0) && td__dim_lt(s1, s0));
    CHECK_STR(verdict(16, 5), "");
    CHECK_STR(verdict(64, 63), "");
    end();
}

TEST(a_failing_guard_is_named) {
    begin();
    CHECK(td__dim_eq(td__dim_mod(s0, 8), 0) && td__dim_lt(s1, s0));
    CHECK_STR(verdict(12, 5), "s0 % 8 == 0 (read at model.c:41)");
    CHECK(strstr(verdict(8, 8), "s1 < s0") != NULL);
    CHECK_STR(verdict(1, 8), "s0 >= 2");
    end();
}

TEST(sizes_that_overflow_fail_their_guard) {
    begin();
    CHECK(!td__dim_eq(td__dim_mul(s0, s1), 81));
    CHECK(*verdict((int64_t)1 << 40, (int64_t)1 << 40) != 0);
    CHECK_STR(verdict(3, 4), "");
    end();
}

TEST(programs_read_sizes_and_strides_of_tensors) {
    begin();
    td_tensor *t = td_op_zeros(cx, TD_SHAPE(16, 5), TD_F32);
    td_tensor *u = td_op_transpose(td_op_zeros(cx, TD_SHAPE(5, 16), TD_F32), 0, 1);
    td_symenv *own = td__symenv_make(cx);
    td_meta    m;
    CHECK(td__sym_tensor(own, "t", 0, t, TD_SYM_ALL, &m) && m.stride[0] == m.size[1]);
    td_guard_prog *p = td__guards_compile(own);
    td_value       in = td_value_tensor(t);
    CHECK(td__guards_run(p, &in) == -1);
    in = td_value_tensor(u);
    int bad = td__guards_run(p, &in);
    CHECK(bad >= 0 && strstr(p->checks.v[bad].text, "stride") != NULL);
    td__guards_drop(p);
    td__symenv_drop(own);
    end();
}

TEST(unbacked_sizes_answer_what_is_provable) {
    begin();
    int64_t u = td__sym_unbacked(e, "nonzero(x)", (td_symrange){0, TD_DIM_HUGE}, true);
    CHECK(td__dim_lt(td__dim_sub(0, u), 1) && td__dim_eq(u, u));
    CHECK(e->guards.n == 0);
    CHECK_OK(cx);
    end();
}

TEST(unbacked_sizes_count_as_neither_zero_nor_one) {
    begin();
    int64_t u = td__sym_unbacked(e, "nonzero(x)", (td_symrange){0, TD_DIM_HUGE}, true);
    CHECK(!td__dim_eq(u, 0) && e->guards.n == 0);
    CHECK(!td__dim_eq(u, 1) && e->guards.n == 1 && e->guards.v[0].runtime);
    CHECK(strstr(all(), "at run time u0 != 1") != NULL);
    end();
}

TEST(an_undecidable_unbacked_size_is_an_error_with_a_remedy) {
    begin();
    int64_t u = td__sym_unbacked(e, "nonzero(x)", (td_symrange){0, TD_DIM_HUGE}, true);
    e->op = "view";
    CHECK(!td__dim_lt(u, 8));
    CHECK(td_error(cx) == TD_E_TRACE);
    CHECK(strstr(td_message(cx), "view: whether u0 < 8 is data-dependent") != NULL);
    CHECK(strstr(td_message(cx), "model.c:41") && strstr(td_message(cx), "td_expect"));
    e->op = NULL;
    end();
}

TEST(an_assert_decides_and_is_checked_when_the_program_runs) {
    begin();
    int64_t u = td__sym_unbacked(e, "nonzero(x)", (td_symrange){0, TD_DIM_HUGE}, true);
    CHECK(td__sym_assert(e, u, TD_DIM_IS_LT, 8) && td__dim_lt(u, 8) &&
          td__dim_lt(u, 9));
    CHECK(e->guards.n == 1 && e->guards.v[0].runtime);
    CHECK_OK(cx);
    end();
}

TEST(an_assert_that_cannot_hold_is_refused) {
    begin();
    CHECK(!td__sym_assert(e, s0, TD_DIM_IS_LT, 2));
    CHECK(strstr(td_message(cx), "s0 < 2 is required here") != NULL);
    end();
}

TEST(asserts_are_no_entry_guards) {
    begin();
    CHECK(td__sym_assert(e, td__dim_mod(s0, 8), TD_DIM_IS_EQ, 0));
    CHECK_STR(verdict(12, 5), "");
    end();
}

TEST(an_op_on_symbolic_tensors_keeps_their_symbols) {
    begin();
    td_meta m = {.dtype = TD_F32, .rank = 2, .size = {s0, s1}};
    cx->fake = true;
    td_tensor *x = td__tensor_make(cx, &m, true);
    td_tensor *y =
        td_op_transpose(td_op_add(x, td_value_tensor(x), td_value_int(1)), 0, 1);
    CHECK_OK(cx);
    CHECK(y->size[0] == s1 && y->size[1] == s0 && y->stride[1] == s1);
    CHECK(y->numel == td__dim_mul(s0, s1) && e->guards.n == 0);
    end();
}

TEST(a_view_that_cuts_a_symbol_guards_its_multiple) {
    begin();
    td_meta m = {.dtype = TD_F32, .rank = 1, .size = {s0}};
    cx->fake = true;
    td_tensor *y = td_op_view(td__tensor_make(cx, &m, true), TD_SHAPE(-1, 8));
    CHECK_OK(cx);
    CHECK(y->numel == s0 && td__sym_now(e, td__dim_mod(s0, 8)) == 0);
    CHECK(strstr(all(), "s0 % 8 == 0 (view at ") != NULL);
    end();
}

TEST(a_broadcast_of_two_symbols_makes_them_equal) {
    begin();
    int64_t s2 = td__sym_size(e, "y.size(0)", 1, 0, 5);
    td_meta m = {.dtype = TD_F32, .rank = 2, .size = {s0, s1}};
    td_meta n = {.dtype = TD_F32, .rank = 1, .size = {s2}};
    cx->fake = true;
    td_tensor *y = td_op_mul(td__tensor_make(cx, &m, true),
                             td_value_tensor(td__tensor_make(cx, &n, true)));
    CHECK_OK(cx);
    CHECK(y->rank == 2 && td__sym_now(e, s2) == s1 && e->guards.n == 1);
    end();
}

TEST(a_dim_of_another_trace_is_refused) {
    begin();
    td__dim_add(td__sym_tag(100000), 1);
    CHECK(td_error(cx) == TD_E_TRACE && strstr(td_message(cx), "another trace"));
    end();
}
