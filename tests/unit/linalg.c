/* linalg.c -- products of all ranks against plain loops, and einsum against numbers
 * from PyTorch. */
#include "op_help.h"

#include "core/core.h"

/* ---- matmul ------------------------------------------------------------- */

/* One element of a @ b at the index `at` of the result: the leading dims broadcast,
 * a vector on the left has no row, one on the right no column. */
static double naive_element(td_tensor *a, td_tensor *b, const int64_t *at, int rank) {
    const double *pa = td_data(a), *pb = td_data(b);
    int           ra = td_rank(a), rb = td_rank(b);
    int           lead = rank - (ra > 1) - (rb > 1);
    int64_t       oa = 0, ob = 0, k = td_size(a, -1);
    int64_t       sb = td_stride(b, rb > 1 ? -2 : 0);
    if (ra > 1) oa = at[lead] * td_stride(a, -2);
    if (rb > 1) ob = at[rank - 1] * td_stride(b, -1);
    for (int d = 0; d < ra - 2; d++)
        if (td_size(a, d) > 1) oa += at[lead - (ra - 2) + d] * td_stride(a, d);
    for (int d = 0; d < rb - 2; d++)
        if (td_size(b, d) > 1) ob += at[lead - (rb - 2) + d] * td_stride(b, d);
    double sum = 0;
    for (int64_t i = 0; i < k; i++)
        sum += pa[oa + i * td_stride(a, -1)] * pb[ob + i * sb];
    return sum;
}

static void check_matmul(td_tensor *a, td_tensor *b) {
    td_tensor *y = td_matmul(a, b);
    CHECK(!td_is_nil(y));
    double *got = values_of(y);
    int64_t at[TD_MAX_RANK] = {0}, n = td_numel(y);
    for (int64_t i = 0; i < n; i++) {
        double want = naive_element(a, b, at, td_rank(y));
        TD_CHECK_THAT(td_test_near(got[i], want, 1e-12),
                      "element %lld of rank %d @ rank %d", (long long)i, td_rank(a),
                      td_rank(b));
        for (int d = td_rank(y) - 1; d >= 0 && ++at[d] == td_size(y, d); d--) at[d] = 0;
    }
    free(got);
}

TEST(matmul_of_all_pairs_of_ranks_equals_plain_loops) {
    static const struct {
        int64_t v[5];
        int     n;
    } left[] = {{{3}, 1},       {{2, 3}, 2},       {{4, 2, 3}, 3},
                {{1, 2, 3}, 3}, {{3, 4, 2, 3}, 4}, {{2, 1, 4, 2, 3}, 5}};
    static const struct {
        int64_t v[5];
        int     n;
    } right[] = {{{3}, 1},       {{3, 5}, 2},       {{4, 3, 5}, 3},
                 {{1, 3, 5}, 3}, {{3, 1, 3, 5}, 4}, {{1, 3, 4, 3, 5}, 5}};
    td_ctx *cx = td_open();
    for (int i = 0; i < TD_COUNT(left); i++)
        for (int j = 0; j < TD_COUNT(right); j++) {
            td_ints l = {left[i].v, left[i].n}, r = {right[j].v, right[j].n};
            td_scope_begin(cx, "pair");
            check_matmul(pattern(cx, l, 7), pattern(cx, r, 5));
            td_scope_end(cx, "pair", NULL);
        }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(matmul_takes_strided_operands) {
    td_ctx    *cx = td_open();
    td_tensor *a = pattern(cx, TD_SHAPE(3, 2), 7),
              *b = pattern(cx, TD_SHAPE(4, 5, 3), 5);
    td_tensor *wide = pattern(cx, TD_SHAPE(6, 8), 3);

    check_matmul(td_t(a), td_transpose(b, 1, 2));
    check_matmul(td_transpose(b, 0, 2), td_transpose(td_transpose(b, 0, 2), 1, 2));
    check_matmul(td_slice(td_t(wide), 1, td_value_int(0), td_value_int(6), 2), a);
    check_matmul(td_expand(td_narrow(wide, 0, 0, 1), TD_SHAPE(3, 8)),
                 td_expand(pattern(cx, TD_SHAPE(8, 1), 7), TD_SHAPE(8, 4)));
    check_matmul(td_select(wide, 1, 2),
                 td_slice(wide, 1, td_value_int(1), td_value_int(8), 3));

    CHECK_OK(cx);
    td_close(cx);
}

TEST(matmul_of_every_dtype_but_bool_works) {
    td_ctx *cx = td_open();

    for (int dt = 0; dt < TD_BOOL; dt++) {
        td_tensor *a =
            td_to(td_reshape(td_arange(cx, 0, 6), TD_SHAPE(2, 3)), (td_dtype)dt);
        td_tensor *y = td_matmul(a, td_t(a));
        CHECK(td_dtype_of(y) == (td_dtype)dt);
        CHECK_VALUES(y, 5, 14, 14, 50);
    }
    td_tensor *b = td_ones(cx, TD_SHAPE(2, 2), TD_BOOL);
    CHECK(td_is_nil(td_matmul(b, b)));
    CHECK_FAILS(cx, TD_E_DTYPE, "not defined for bool");

    td_close(cx);
}

TEST(products_refuse_operands_that_do_not_fit) {
    td_ctx    *cx = td_open();
    td_tensor *m = td_ones(cx, TD_SHAPE(2, 3)), *v = td_ones(cx, TD_SHAPE(3));
    td_tensor *s = td_ones(cx, TD_SHAPE()), *t = td_ones(cx, TD_SHAPE(4, 2, 3));

    CHECK(td_is_nil(td_matmul(m, m)));
    CHECK_FAILS(cx, TD_E_SHAPE, "matmul: inner sizes differ, f32[2,3] @ f32[2,3]");
    CHECK(td_is_nil(td_matmul(m, s)));
    CHECK_FAILS(cx, TD_E_SHAPE, "matmul: both must have at least one dim");
    CHECK(td_is_nil(td_matmul(t, td_ones(cx, TD_SHAPE(3, 3, 2)))));
    CHECK_FAILS(cx, TD_E_SHAPE, "matmul: leading sizes do not broadcast");
    CHECK(td_is_nil(td_matmul(m, td_ones(cx, TD_SHAPE(3, 2), TD_F64))));
    CHECK(td_error(cx) == TD_E_DTYPE);
    td_clear(cx);
    CHECK(td_is_nil(td_mm(m, v)));
    CHECK_FAILS(cx, TD_E_SHAPE, "mm: b must have 2 dims, got f32[3]");
    CHECK(td_is_nil(td_bmm(m, t)));
    CHECK_FAILS(cx, TD_E_SHAPE, "bmm: a must have 3 dims, got f32[2,3]");
    CHECK(td_is_nil(td_bmm(t, td_ones(cx, TD_SHAPE(5, 3, 2)))));
    CHECK_FAILS(cx, TD_E_SHAPE, "bmm: the stacks have different lengths");
    CHECK(td_is_nil(td_mv(v, m)));
    CHECK_FAILS(cx, TD_E_SHAPE, "mv: a must have 2 dims");
    CHECK(td_is_nil(td_dot(v, td_ones(cx, TD_SHAPE(2)))));
    CHECK_FAILS(cx, TD_E_SHAPE, "dot: inner sizes differ");
    CHECK(td_is_nil(td_outer(m, v)));
    CHECK_FAILS(cx, TD_E_SHAPE, "outer: takes two vectors");
    CHECK(td_is_nil(td_addmm(td_ones(cx, TD_SHAPE(3)), m, td_t(m))));
    CHECK_FAILS(cx, TD_E_SHAPE,
                "addmm: self f32[3] does not broadcast to the product [2,2]");
    CHECK(td_is_nil(td_linear(m, td_ones(cx, TD_SHAPE(4, 2)))));
    CHECK_FAILS(cx, TD_E_SHAPE, "linear: inner sizes differ");

    td_close(cx);
}

TEST(addmm_does_not_read_self_when_beta_is_zero) {
    td_ctx    *cx = td_open();
    td_tensor *nan = td_full(cx, TD_SHAPE(2, 2), (double)NAN), *e = td_eye(cx, 2);

    CHECK_VALUES(td_addmm(nan, e, e, 0, 3), 3, 0, 0, 3);
    CHECK_VALUES(td_addmm(td_ones(cx, TD_SHAPE(2)), e, e, 2, 0.5), 2.5, 2, 2, 2.5);
    CHECK_VALUES(td_addmm(td_ones(cx, TD_SHAPE(2, 1)), e, e, -1, 1), 0, -1, -1, 0);
    td_tensor *empty =
        td_addmm(td_full(cx, TD_SHAPE(2), 3.0), td_ones(cx, TD_SHAPE(2, 0)),
                 td_ones(cx, TD_SHAPE(0, 2)), 2);
    CHECK_VALUES(empty, 6, 6, 6, 6);

    td_close(cx);
}

TEST(linear_takes_any_leading_dims_and_a_bias) {
    td_ctx    *cx = td_open();
    td_tensor *w = pattern(cx, TD_SHAPE(2, 3), 7), *b = pattern(cx, TD_SHAPE(2), 3);
    td_tensor *x = pattern(cx, TD_SHAPE(2, 2, 3), 5);

    td_tensor *want = td_add(td_matmul(x, td_t(w)), b);
    double    *v = values_of(want);
    CHECK_ARRAY(td_linear(x, w, b), v, 8, 1e-12);
    CHECK_ARRAY(td_linear(td_transpose(td_contiguous(td_transpose(x, 0, 1)), 0, 1), w,
                          b),
                v, 8, 1e-12);
    CHECK_ARRAY(td_linear(td_reshape(x, TD_SHAPE(4, 3)), w, b), v, 8, 1e-12);
    CHECK_ARRAY(td_linear(td_select(td_select(x, 0, 0), 0, 0), w, b), v, 2, 1e-12);
    CHECK_SHAPE(td_linear(x, td_select(w, 0, 0)), 2, 2);
    free(v);

    td_close(cx);
}

/* ---- einsum ------------------------------------------------------------- */

typedef struct einsum_case {
    const char *equation;
    int         n;
    struct {
        int64_t size[4];
        int     rank, k;
    } in[3];
    int64_t size[4]; /* of the result */
    int     rank, numel;
    double  want[16];
} einsum_case;

static const einsum_case einsum_cases[] = {
    {"ij,jk->ik",
     2,
     {{{2, 3}, 2, 7}, {{3, 2}, 2, 5}},
     {2, 2},
     2,
     4,
     {1.6875, 0.125, -2, 0.3125}},
    {"ij,jk",
     2,
     {{{2, 3}, 2, 7}, {{3, 2}, 2, 5}},
     {2, 2},
     2,
     4,
     {1.6875, 0.125, -2, 0.3125}},
    {"ij->ji",
     1,
     {{{2, 3}, 2, 7}},
     {3, 2},
     2,
     6,
     {-1.25, 1.25, 0.5, 0.25, -0.5, -0.75}},
    {"ij", 1, {{{2, 3}, 2, 7}}, {2, 3}, 2, 6, {-1.25, 0.5, -0.5, 1.25, 0.25, -0.75}},
    {"ba", 1, {{{2, 3}, 2, 7}}, {3, 2}, 2, 6, {-1.25, 1.25, 0.5, 0.25, -0.5, -0.75}},
    {"ij->", 1, {{{2, 3}, 2, 7}}, {0}, 0, 1, {-0.5}},
    {"ij->j", 1, {{{2, 3}, 2, 7}}, {3}, 1, 3, {0, 0.75, -1.25}},
    {"ii->i", 1, {{{3, 3}, 2, 7}}, {3}, 1, 3, {-1.25, 0.25, -1}},
    {"ii", 1, {{{3, 3}, 2, 7}}, {0}, 0, 1, {-2}},
    {"ii->", 1, {{{3, 3}, 2, 7}}, {0}, 0, 1, {-2}},
    {"i,j->ij",
     2,
     {{{3}, 1, 4}, {{3}, 1, 4}},
     {3, 3},
     2,
     9,
     {1.5625, 0.3125, -0.9375, 0.3125, 0.0625, -0.1875, -0.9375, -0.1875, 0.5625}},
    {"i,i->", 2, {{{3}, 1, 4}, {{3}, 1, 7}}, {0}, 0, 1, {1.0625}},
    {"ij,ij->ij",
     2,
     {{{2, 3}, 2, 7}, {{2, 3}, 2, 5}},
     {2, 3},
     2,
     6,
     {1.5625, 0, -0.625, -0.3125, 0.25, 0.375}},
    {"bij,bjk->bik",
     2,
     {{{2, 2, 3}, 3, 7}, {{2, 3, 2}, 3, 5}},
     {2, 2, 2},
     3,
     8,
     {1.6875, 0.125, -2, 0.3125, 0.5, 0.5, 0.125, 1.25}},
    {"...j,j->...",
     2,
     {{{2, 2, 3}, 3, 7}, {{3}, 1, 4}},
     {2, 2},
     2,
     4,
     {1.0625, -2.1875, -2, -1.8125}},
    {"...ij->...ji",
     1,
     {{{2, 1, 3}, 3, 7}},
     {2, 3, 1},
     3,
     6,
     {-1.25, 0.5, -0.5, 1.25, 0.25, -0.75}},
    {"i...->...", 1, {{{2, 3}, 2, 7}}, {3}, 1, 3, {0, 0.75, -1.25}},
    {"...,...",
     2,
     {{{2, 3}, 2, 7}, {{3}, 1, 4}},
     {2, 3},
     2,
     6,
     {1.5625, -0.125, -0.375, -1.5625, -0.0625, -0.5625}},
    {"ij,jk,kl->il",
     3,
     {{{2, 3}, 2, 7}, {{3, 2}, 2, 5}, {{2, 2}, 2, 3}},
     {2, 2},
     2,
     4,
     {-2.078125, -0.71875, 2.578125, 1.3125}},
    {"ij,j,i->", 3, {{{2, 3}, 2, 7}, {{3}, 1, 4}, {{2}, 1, 3}}, {0}, 0, 1, {-0.234375}},
    {"iij->j", 1, {{{2, 2, 3}, 3, 7}}, {3}, 1, 3, {-0.5, 0.25, -1.75}},
    {"ab,cb->ca",
     2,
     {{{2, 3}, 2, 7}, {{4, 3}, 2, 2}},
     {4, 2},
     2,
     8,
     {1.3125, -1.5625, -0.5625, -0.4375, 1, -1.375, 0.5, 1.8125}},
    {" i j , j k -> i k ",
     2,
     {{{2, 3}, 2, 7}, {{3, 2}, 2, 5}},
     {2, 2},
     2,
     4,
     {1.6875, 0.125, -2, 0.3125}},
    {"Ab,bC",
     2,
     {{{2, 3}, 2, 7}, {{3, 2}, 2, 5}},
     {2, 2},
     2,
     4,
     {1.6875, 0.125, -2, 0.3125}},
    {"i...,...i->...i",
     2,
     {{{3, 2}, 2, 7}, {{3}, 1, 4}},
     {2, 3},
     2,
     6,
     {1.5625, 0.125, 0.1875, -0.625, -0.3125, -0.5625}},
    {"bhqd,bhkd->bhqk",
     2,
     {{{1, 2, 2, 2}, 4, 7}, {{1, 2, 3, 2}, 4, 3}},
     {1, 2, 2, 3},
     4,
     12,
     {1.3125, 0.1875, 1.125, 0, 1.125, 0.1875, -0.8125, -0.1875, 1.125, 0.5, -0.75,
      0.75}},
    {"ij,kl->ijkl",
     2,
     {{{2, 2}, 2, 3}, {{2, 2}, 2, 3}},
     {2, 2, 2, 2},
     4,
     16,
     {1.5625, 0.625, -0.3125, -1.25, 0.625, 0.25, -0.125, -0.5, -0.3125, -0.125, 0.0625,
      0.25, -1.25, -0.5, 0.25, 1}},
    {"a,b->", 2, {{{3}, 1, 4}, {{3}, 1, 4}}, {0}, 0, 1, {0.5625}},
    {"ij,j->ij",
     2,
     {{{2, 3}, 2, 7}, {{3}, 1, 4}},
     {2, 3},
     2,
     6,
     {1.5625, -0.125, -0.375, -1.5625, -0.0625, -0.5625}},
    {"...ii->...i", 1, {{{2, 2, 2}, 3, 7}}, {2, 2}, 2, 4, {-1.25, 1.25, 0.25, 0}},
    {"ij,ij,ij->i",
     3,
     {{{2, 3}, 2, 7}, {{2, 3}, 2, 5}, {{2, 3}, 2, 3}},
     {2},
     1,
     2,
     {-2.109375, -0.65625}},
    {"i,->i", 2, {{{3}, 1, 4}, {{0}, 0, 7}}, {3}, 1, 3, {1.5625, 0.3125, -0.9375}},
    {"ij->i...", 1, {{{2, 3}, 2, 7}}, {2}, 1, 2, {-1.25, 0.75}},
    {"...->", 1, {{{2, 3}, 2, 7}}, {0}, 0, 1, {-0.5}},
    {"", 1, {{{0}, 0, 7}}, {0}, 0, 1, {-1.25}},
    {"->", 1, {{{0}, 0, 7}}, {0}, 0, 1, {-1.25}},
    {"i,j", 2, {{{3}, 1, 4}, {{1}, 1, 7}}, {3, 1}, 2, 3, {1.5625, 0.3125, -0.9375}},
    {"...i,...i->...", 2, {{{2, 3}, 2, 7}, {{1, 3}, 2, 5}}, {2}, 1, 2, {0.9375, -2.5}},
    {"ij,jk->", 2, {{{2, 3}, 2, 7}, {{3, 2}, 2, 5}}, {0}, 0, 1, {0.125}},
    {"ik,jk->ij", 2, {{{0, 3}, 2, 7}, {{2, 3}, 2, 5}}, {0, 2}, 2, 0, {0}},
    {"ik,kj->ij", 2, {{{2, 0}, 2, 7}, {{0, 2}, 2, 5}}, {2, 2}, 2, 4, {0, 0, 0, 0}},
    {"bij,ij->b", 2, {{{2, 2, 3}, 3, 7}, {{2, 3}, 2, 5}}, {2}, 1, 2, {1.25, -2.3125}},
    {"ij,ji->ij", 2, {{{2, 1}, 2, 7}, {{1, 2}, 2, 5}}, {2, 1}, 2, 2, {1.5625, 0}},
};

TEST(einsum_gives_the_numbers_of_pytorch) {
    td_ctx *cx = td_open();

    for (int i = 0; i < TD_COUNT(einsum_cases); i++) {
        const einsum_case *e = &einsum_cases[i];
        td_tensor         *in[3];
        td_scope_begin(cx, e->equation);
        for (int k = 0; k < e->n; k++)
            in[k] = pattern(cx, (td_ints){e->in[k].size, e->in[k].rank}, e->in[k].k);
        td_tensor *y = td_op_einsum(e->equation, (td_tensors){in, e->n});
        CHECK_OK(cx);
        TD_CHECK_THAT(has_shape(y, (td_ints){e->size, e->rank}), "%s: %s", e->equation,
                      text_of(y));
        TD_CHECK_THAT(first_bad(y, e->want, e->numel, 1e-9) == -1, "%s: %s",
                      e->equation, text_of(y));
        td_scope_end(cx, e->equation, NULL);
    }
    td_close(cx);
}

TEST(wrong_equations_are_refused) {
    static const char *const cases[] = {"ij,jk",    "ijk", "ij->ik",   "ij->ijj",
                                        "i..j",     "i1",  "...ij...", "ij-",
                                        "ij->i->j", "ij,", ",",        "i",
                                        "ij>i",     "ii",  "ij->i.",   "ij->....",
                                        "ij..."};
    td_ctx                  *cx = td_open();
    td_tensor               *a = td_ones(cx, TD_SHAPE(2, 3));

    for (int i = 0; i < TD_COUNT(cases) - 1; i++) {
        TD_CHECK_THAT(td_is_nil(td_einsum(cases[i], TD_LIST(a))), "%s", cases[i]);
        TD_CHECK_THAT(!td_ok(cx), "%s", cases[i]);
        CHECK(strstr(td_message(cx), "einsum: ") != NULL);
        td_clear(cx);
    }
    CHECK(!td_is_nil(td_einsum("ij...", TD_LIST(a)))); /* dots may stand for nothing */
    CHECK(td_is_nil(td_einsum("ij", TD_LIST(a, a))));
    CHECK_FAILS(cx, TD_E_ARG, "einsum: operands and subscripts differ");
    CHECK(td_is_nil(td_einsum("ij,jk", TD_LIST(a, a))));
    CHECK_FAILS(cx, TD_E_SHAPE, "einsum: operands have different sizes for one letter");

    td_close(cx);
}

TEST(einsum_is_differentiated_through_its_parts) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_set_requires_grad(pattern(cx, TD_SHAPE(2, 3), 7), true);
    td_tensor *b = td_set_requires_grad(pattern(cx, TD_SHAPE(3, 2), 5), true);

    CHECK(td_backward(td_sum(td_einsum("ij,jk->ik", TD_LIST(a, b)))));

    double *rows = values_of(td_sum(b, TD_DIMS(1)));
    CHECK_VALUES(td_grad_of(a), rows[0], rows[1], rows[2], rows[0], rows[1], rows[2]);
    free(rows);
    td_close(cx);
}
