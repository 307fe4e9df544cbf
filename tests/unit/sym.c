/* sym.c -- symbolic sizes: one form per expression, rules that hold, ranges, facts. */
#include "trace/sym.h"

#include "td_test.h"

static td_ctx    *cx;
static td_symenv *e;
static int64_t    s0, s1, s2;

static void begin(void) {
    cx = td_open();
    e = td__symenv_make(cx);
    s0 = td__sym_size(e, "x.size(0)", 0, 0, 16);
    s1 = td__sym_size(e, "x.size(1)", 0, 1, 5);
    s2 = td__sym_size(e, "y.size(0)", 1, 0, 16);
    td__symenv_begin(e);
}

static void end(void) {
    td__symenv_end(e);
    td__symenv_drop(e);
    td_close(cx);
}

static const char *text(int64_t dim) {
    static char out[4][256];
    static int  next;
    td_buf      b = {0};
    char       *to = out[next++ % 4];
    td__sym_print(e, dim, &b);
    snprintf(to, sizeof out[0], "%s", td__buf_str(&b));
    td__buf_free(&b);
    return to;
}

static int64_t read_dim(const char *s) {
    int64_t dim;
    char    why[200];
    if (td__sym_parse(e, s, &dim, why, sizeof why)) return dim;
    return INT64_MIN;
}

#define IS(expr, want)               \
    do {                             \
        CHECK_STR(text(expr), want); \
        CHECK_OK(cx);                \
    } while (0)

TEST(a_size_of_two_or_more_is_a_symbol_and_smaller_ones_are_numbers) {
    begin();
    CHECK(td__dim_is_sym(s0) && td__sym_hint(e, s0) == 16);
    CHECK(td__sym_size(e, "z.size(0)", 2, 0, 1) == 1);
    CHECK(td__sym_size(e, "z.size(1)", 2, 1, 0) == 0);
    end();
}

TEST(equal_hints_do_not_make_equal_symbols) {
    begin();
    CHECK(s0 != s2 && td__sym_prove(e, s0, TD_DIM_IS_EQ, s2) == -1);
    end();
}

TEST(equal_expressions_are_one_dim) {
    begin();
    CHECK(td__dim_mul(s0, td__dim_add(s1, 1)) == td__dim_add(td__dim_mul(s1, s0), s0));
    CHECK(td__dim_sub(td__dim_add(s0, s1), s1) == s0);
    CHECK(td__dim_sub(s0, s0) == 0);
    end();
}

TEST(expressions_print_as_sums_of_products) {
    begin();
    IS(td__dim_add(td__dim_mul(4, s0), 1), "s0*4 + 1");
    IS(td__dim_sub(td__dim_mul(s0, s1), 3), "s0*s1 - 3");
    IS(td__dim_sub(3, s0), "3 - s0");
    IS(td__dim_mul(s0, s0), "s0*s0");
    IS(td__dim_mul(td__dim_div(s0, 2), 3), "(s0 // 2)*3");
    IS(td__dim_mod(td__dim_add(s0, 1), 8), "(s0 + 1) % 8");
    IS(td__dim_min(s0, s1), "min(s0, s1)");
    end();
}

TEST(text_parses_back_to_the_same_dim) {
    begin();
    int64_t all[] = {s0,
                     td__dim_add(td__dim_mul(4, s0), 1),
                     td__dim_sub(3, td__dim_mul(s0, s1)),
                     td__dim_div(td__dim_add(s0, 1), 3),
                     td__dim_mul(td__dim_mod(s0, 7), s1),
                     td__dim_max(td__dim_sub(s0, 4), s1),
                     td__dim_mul(td__dim_sub(0, s0), 5)};
    for (int i = 0; i < TD_COUNT(all); i++) CHECK(read_dim(text(all[i])) == all[i]);
    end();
}

TEST(wrong_text_is_refused_with_its_column) {
    begin();
    int64_t dim;
    char    why[200];
    CHECK(!td__sym_parse(e, "s0 + ", &dim, why, sizeof why));
    CHECK(strstr(why, "column 6") != NULL);
    CHECK(!td__sym_parse(e, "s9", &dim, why, sizeof why));
    CHECK(!td__sym_parse(e, "s0 // 0", &dim, why, sizeof why));
    CHECK(!td__sym_parse(e, "min(s0", &dim, why, sizeof why));
    CHECK(!td__sym_parse(e, "s0)", &dim, why, sizeof why));
    CHECK(!td__sym_parse(e, "99999999999999999999", &dim, why, sizeof why));
    CHECK_OK(cx);
    end();
}

TEST(division_takes_out_what_divides) {
    begin();
    CHECK(td__dim_div(td__dim_mul(s0, 8), 4) == td__dim_mul(s0, 2));
    IS(td__dim_div(td__dim_add(td__dim_mul(s0, 8), 5), 4), "s0*2 + 1");
    IS(td__dim_div(td__dim_add(td__dim_mul(s0, 6), 3), 4), "(s0*3 + 1) // 2");
    end();
}

TEST(division_by_an_expression_is_exact_where_it_goes_in) {
    begin();
    int64_t both = td__dim_mul(s0, s1), sum = td__dim_mul(s0, td__dim_add(s1, 1));
    CHECK(td__dim_div(both, s1) == s0 && td__dim_mod(both, s1) == 0);
    CHECK(td__dim_div(sum, td__dim_add(s1, 1)) == s0);
    CHECK(td__dim_mod(sum, td__dim_add(s1, 1)) == 0);
    CHECK(td__dim_div(s0, s0) == 1);
    end();
}

TEST(a_division_of_a_division_is_one) {
    begin();
    CHECK(td__dim_div(td__dim_div(s0, 2), 3) == td__dim_div(s0, 6));
    end();
}

TEST(modulo_forgets_multiples) {
    begin();
    CHECK(td__dim_mod(td__dim_add(td__dim_mul(s0, 8), 3), 8) == 3);
    CHECK(td__dim_mod(td__dim_add(td__dim_mul(s0, 9), 8), 8) == td__dim_mod(s0, 8));
    end();
}

TEST(min_and_max_resolve_by_range) {
    begin();
    CHECK(td__dim_max(s0, 1) == s0 && td__dim_min(s0, 2) == 2);
    CHECK(td__dim_min(s0, td__dim_add(s0, 3)) == s0);
    CHECK(td__dim_max(td__dim_min(s0, 8), 0) == td__dim_min(s0, 8));
    CHECK(td__dim_min(td__dim_min(s0, 8), 8) == td__dim_min(s0, 8));
    end();
}

TEST(ranges_follow_arithmetic) {
    begin();
    td_symrange r = td__sym_range(e, td__dim_add(td__dim_mul(s0, 3), 1));
    CHECK(r.lo == 7 && r.hi == TD_DIM_HUGE);
    r = td__sym_range(e, td__dim_mod(s0, 8));
    CHECK(r.lo == 0 && r.hi == 7);
    r = td__sym_range(e, td__dim_min(s0, 8));
    CHECK(r.lo == 2 && r.hi == 8);
    CHECK(td__sym_range(e, td__dim_div(s0, 2)).lo == 1);
    end();
}

TEST(products_are_compared_from_their_lower_bounds) {
    begin();
    int64_t both = td__dim_mul(s0, s1);
    CHECK(td__sym_prove(e, s1, TD_DIM_IS_LT, both) == 1);
    CHECK(td__sym_prove(e, both, TD_DIM_IS_EQ, s1) == 0);
    CHECK(td__sym_prove(e, td__dim_mul(both, s2), TD_DIM_IS_GE, both) == 1);
    end();
}

TEST(what_is_rounded_down_is_not_larger) {
    begin();
    CHECK(td__sym_prove(e, s0, TD_DIM_IS_GE, td__dim_mul(td__dim_div(s0, 4), 4)) == 1);
    CHECK(td__sym_prove(e, s0, TD_DIM_IS_GE, td__dim_min(s0, s1)) == 1);
    CHECK(td__sym_prove(e, td__dim_max(s0, s1), TD_DIM_IS_GE, s1) == 1);
    end();
}

TEST(a_size_that_is_neither_less_nor_more_is_equal) {
    begin();
    int64_t least = td__dim_min(s0, s1);
    CHECK(td__sym_prove(e, least, TD_DIM_IS_EQ, s1) == -1);
    CHECK(td__sym_learn(e, least, TD_DIM_IS_GE, s1));
    CHECK(td__sym_prove(e, least, TD_DIM_IS_EQ, s1) == 1);
    end();
}

TEST(numbers_without_a_common_divisor_are_never_equal) {
    begin();
    int64_t even = td__dim_add(td__dim_mul(s0, 2), td__dim_mul(s1, 4));
    CHECK(td__sym_prove(e, even, TD_DIM_IS_EQ, 31) == 0);
    CHECK(td__sym_prove(e, even, TD_DIM_IS_EQ, 32) == -1);
    end();
}

TEST(what_is_provable_leaves_no_guard) {
    begin();
    CHECK(!td__dim_eq(s0, 1) && !td__dim_eq(s0, 0) && td__dim_lt(1, s0));
    CHECK(!td__dim_eq(td__dim_mul(s0, s1), 0) && e->guards.n == 0);
    end();
}

TEST(an_equality_makes_the_younger_symbol_the_older) {
    begin();
    CHECK(td__dim_eq(s0, s2) && e->guards.n == 1);
    CHECK(td__sym_now(e, s2) == s0 &&
          td__sym_now(e, td__dim_mul(s2, s1)) == td__dim_mul(s0, s1));
    CHECK(td__dim_eq(td__dim_add(s0, 1), td__dim_add(s2, 1)) && e->guards.n == 1);
    end();
}

TEST(an_equality_with_a_number_fixes_the_symbol) {
    begin();
    CHECK(td__dim_eq(s1, 5) && td__sym_now(e, s1) == 5);
    CHECK(!td__dim_lt(s1, 5) && e->guards.n == 1);
    end();
}

TEST(a_multiple_is_remembered) {
    begin();
    CHECK(td__dim_eq(td__dim_mod(s0, 8), 0) && e->guards.n == 1);
    CHECK(td__dim_mod(s0, 8) == 0 && td__dim_mod(s0, 4) == 0);
    CHECK(td__dim_mod(td__dim_mul(s0, s1), 2) == 0);
    CHECK(td__dim_mul(td__dim_div(s0, 8), 8) == s0 && e->guards.n == 1);
    end();
}

TEST(a_comparison_narrows_the_range) {
    begin();
    CHECK(td__dim_lt(s1, 10) && !td__dim_lt(s1, 4) && e->guards.n == 2);
    CHECK(td__dim_lt(s1, 11) && td__dim_lt(3, s1) && e->guards.n == 2);
    CHECK(td__dim_min(s1, 9) == s1);
    end();
}

TEST(a_difference_known_to_be_positive_stays_so) {
    begin();
    CHECK(td__dim_lt(s1, s0) && e->guards.n == 1);
    CHECK(td__dim_lt(s1, td__dim_add(s0, 3)) && !td__dim_eq(s0, s1));
    CHECK(td__dim_max(s0, s1) == s0 && e->guards.n == 1);
    end();
}

TEST(answers_repeat_without_another_guard) {
    begin();
    for (int i = 0; i < 3; i++) CHECK(!td__dim_eq(s0, s1));
    CHECK(e->guards.n == 1);
    end();
}

TEST(a_fixed_dim_is_its_hint_under_a_guard) {
    begin();
    CHECK(td__dim_fixed(td__dim_add(s1, 1)) == 6 && e->guards.n == 1);
    CHECK(td__sym_now(e, s1) == 5 && td__dim_fixed(7) == 7);
    end();
}

TEST(expressions_evaluate_under_any_sizes) {
    begin();
    int64_t v, at[] = {9, 4, 7};
    CHECK(td__sym_eval(e, read_dim("s0*s1 - s2"), at, &v) && v == 29);
    CHECK(td__sym_eval(e, td__dim_div(s0, 2), at, &v) && v == 4);
    CHECK(td__sym_eval(e, td__dim_mod(td__dim_sub(s1, s0), 3), at, &v) && v == 1);
    CHECK(td__sym_eval(e, td__dim_max(s1, s2), at, &v) && v == 7);
    int64_t zero[] = {9, 0, 0};
    CHECK(!td__sym_eval(e, td__dim_div(s0, s1), zero, &v));
    end();
}

TEST(an_overflow_is_an_error_not_a_size) {
    begin();
    int64_t big = td__dim_mul(s0, (int64_t)1 << 40);
    td__dim_mul(big, (int64_t)1 << 40);
    CHECK(td_error(cx) == TD_E_TRACE && strstr(td_message(cx), "overflows"));
    end();
}

TEST(a_size_without_measure_is_an_error) {
    begin();
    int64_t d = s0;
    for (int i = 0; i < 300 && td_ok(cx); i++) d = td__dim_div(td__dim_add(d, s1), s2);
    CHECK(td_error(cx) == TD_E_TRACE);
    end();
}

TEST(expressions_go_into_graphs) {
    begin();
    td_graph *g = td__graph_make(cx, "f");
    int64_t   d = td__sym_to_graph(e, g, td__dim_sub(td__dim_mul(s0, s1), 3));
    CHECK(td__gdim_at(g, d) != NULL && td__gdim_at(g, d)->op == TD_DIM_SUB);
    CHECK(td__sym_to_graph(e, g, 12) == 12);
    td__graph_drop(g);
    end();
}

/* ---- random expressions against plain arithmetic ------------------------ */

enum { POOL = 24, POINTS = 6 };

static uint32_t state;
static int      draw(int n) {
         state = state * 1664525u + 1013904223u;
         return (int)((state >> 10) % (uint32_t)n);
}

static int64_t apply(int op, int64_t a, int64_t b) {
    switch (op) {
    case 0: return td__dim_add(a, b);
    case 1: return td__dim_sub(a, b);
    case 2: return td__dim_mul(a, b);
    case 3: return td__dim_min(a, b);
    case 4: return td__dim_max(a, b);
    case 5: return td__dim_div(a, b);
    default: return td__dim_mod(a, b);
    }
}

/* One more expression of the pool; divisors are numbers or symbols. */
static bool grow(int64_t *dim, int64_t (*at)[POINTS], int n) {
    int     op = draw(7), i = draw(n), j = op > 4 ? draw(3) : draw(n);
    int64_t k = 1 + draw(9), got;
    bool    number = draw(2);
    dim[n] = apply(op, dim[i], number ? k : dim[j]);
    for (int p = 0; p < POINTS; p++) {
        int64_t values[3] = {at[0][p], at[1][p], at[2][p]};
        at[n][p] = apply(op, at[i][p], number ? k : at[j][p]);
        if (!td__sym_eval(e, dim[n], values, &got) || got != at[n][p]) return false;
    }
    return true;
}

/* What is proved holds at every point. */
static bool proofs_hold(const int64_t *dim, int64_t (*at)[POINTS], int i, int j) {
    int         lt = td__sym_prove(e, dim[i], TD_DIM_IS_LT, dim[j]);
    int         eq = td__sym_prove(e, dim[i], TD_DIM_IS_EQ, dim[j]);
    td_symrange r = td__sym_range(e, dim[i]);
    for (int p = 0; p < POINTS; p++) {
        if (lt >= 0 && lt != (at[i][p] < at[j][p])) return false;
        if (eq >= 0 && eq != (at[i][p] == at[j][p])) return false;
        if (at[i][p] < r.lo || at[i][p] > r.hi) return false;
    }
    return true;
}

TEST(random_expressions_and_proofs_agree_with_plain_arithmetic) {
    for (int round = 0; round < 300; round++) {
        int64_t dim[POOL], at[POOL][POINTS];
        begin();
        state = (uint32_t)round * 7919u + 1;
        dim[0] = s0, dim[1] = s1, dim[2] = s2;
        for (int i = 0; i < 3; i++)
            for (int p = 0; p < POINTS; p++) at[i][p] = p == 0 ? 2 : 2 + draw(30);
        for (int n = 3; n < 12; n++) CHECK(grow(dim, at, n) || !td_ok(cx));
        for (int k = 0; k < 30 && td_ok(cx); k++)
            CHECK(proofs_hold(dim, at, draw(12), draw(12)));
        end();
    }
}
