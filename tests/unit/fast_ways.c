/* fast_ways.c -- kernels have quick ways for dense rows of some length. They give what
 * the plain ways give for the same elements with gaps between them. */
#include "base/base.h"
#include "op_help.h"

static bool same(td_tensor *a, td_tensor *b) {
    return td_item(td_op_to(td_op_equal(a, b), TD_I64, false)) == 1;
}

/* The same elements, two apart. */
static td_tensor *gappy(td_tensor *t) {
    td_tensor *two[] = {t, t};
    return td_op_select(td_op_stack((td_tensors){two, 2}, -1), -1, 0);
}

static td_tensor *numbers(td_ctx *cx, td_ints size, td_dtype dt) {
    return td_op_to(td_op_randint(cx, -40, 40, size, TD_I64), dt, false);
}

static td_tensor *places(td_ctx *cx, int64_t below, td_ints size) {
    return td_op_randint(cx, 0, below, size, TD_I64);
}

TEST(rows_chosen_by_an_index_move_and_add_up_alike) {
    static const char *const how[] = {"prod", "mean", "amax", "amin"};
    td_ctx                  *cx = td_open();
    for (int k = 0; k < 2; k++) {
        td_dtype   dt = k ? TD_F64 : TD_F32;
        td_tensor *x = td_op_to(td_op_randn(cx, TD_SHAPE(20, 33), TD_F64), dt, false);
        td_tensor *s = td_op_to(td_op_randn(cx, TD_SHAPE(50, 33), TD_F64), dt, false);
        td_tensor *i = places(cx, 20, TD_SHAPE(50));
        td_tensor *gx = gappy(x), *gs = gappy(s);
        td_value   two = td_value_int(2);
        CHECK(same(td_op_index_select(x, 0, i), td_op_index_select(gx, 0, i)));
        CHECK(
            same(td_op_embedding(x, i, -1, false, false), td_op_index_select(x, 0, i)));
        CHECK(same(td_op_index_copy(x, 0, i, s), td_op_index_copy(gx, 0, i, gs)));
        CHECK(
            same(td_op_index_add(x, 0, i, s, two), td_op_index_add(gx, 0, i, gs, two)));
        for (int h = 0; h < TD_COUNT(how); h++)
            CHECK(same(td_op_index_reduce(x, 0, i, s, how[h], h % 2 == 0),
                       td_op_index_reduce(gx, 0, i, gs, how[h], h % 2 == 0)));
        CHECK(same(td_op_embedding_dense_backward(s, i, 20, 3, false),
                   td_op_embedding_dense_backward(gs, i, 20, 3, false)));
        CHECK(same(td_op_embedding_dense_backward(s, i, 20, -1, true),
                   td_op_embedding_dense_backward(gs, i, 20, -1, true)));
    }
    td_close(cx);
}

TEST(elements_chosen_by_an_index_move_and_add_up_alike) {
    static const char *const how[] = {"sum", "prod", "mean", "amax", "amin"};
    td_ctx                  *cx = td_open();
    td_tensor *x = td_op_randn(cx, TD_SHAPE(4, 30), TD_F32), *gx = gappy(x);
    td_tensor *s = td_op_randn(cx, TD_SHAPE(4, 70), TD_F32), *gs = gappy(s);
    td_tensor *i = places(cx, 30, TD_SHAPE(4, 70)), *gi = gappy(i);
    td_tensor *narrow = td_op_to(i, TD_I32, false);
    CHECK(same(td_op_gather(x, 1, i), td_op_gather(gx, 1, gi)));
    CHECK(same(td_op_gather(x, 1, i), td_op_gather(x, 1, narrow)));
    CHECK(same(td_op_scatter(x, 1, i, s), td_op_scatter(gx, 1, gi, gs)));
    for (int h = 0; h < TD_COUNT(how); h++)
        CHECK(same(td_op_scatter_reduce(x, 1, i, s, how[h], true),
                   td_op_scatter_reduce(gx, 1, gi, gs, how[h], true)));
    td_close(cx);
}

TEST(a_bad_index_of_an_expanded_one_is_the_first_in_order) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(4, 5));
    int64_t    v[] = {1, 0, 9};
    td_tensor *i = td_from(cx, TD_I64, TD_SHAPE(3, 1), v);
    td_op_gather(x, 0, td_op_expand(i, TD_SHAPE(3, 5)));
    CHECK_FAILS(cx, TD_E_INDEX, "gather: index 9 at position [2,0]");
    td_close(cx);
}

TEST(copies_of_few_columns_put_each_element_in_its_place) {
    static const td_dtype dts[] = {TD_F32, TD_F64, TD_I16, TD_BOOL, TD_C128};
    td_ctx               *cx = td_open();
    for (int k = 0; k < TD_COUNT(dts); k++) {
        td_tensor *x = numbers(cx, TD_SHAPE(3, 2, 600, 5), dts[k]);
        td_tensor *a = td_op_permute(x, TD_DIMS(0, 2, 3, 1));
        td_tensor *b = td_op_permute(x, TD_DIMS(2, 3, 1, 0));
        CHECK(same(td_op_clone(a, true), a));
        CHECK(same(td_op_clone(b, true), b));
        CHECK(same(td_op_clone(gappy(b), true), b));
    }
    td_close(cx);
}

TEST(rows_turn_round_and_roll) {
    static const td_dtype dts[] = {TD_F32, TD_F64, TD_I16, TD_C128};
    td_ctx               *cx = td_open();
    for (int k = 0; k < TD_COUNT(dts); k++) {
        td_tensor *x = numbers(cx, TD_SHAPE(3, 1037), dts[k]);
        td_tensor *flipped = td_op_flip(x, TD_DIMS(1));
        CHECK(same(flipped, td_op_flip(gappy(x), TD_DIMS(1))));
        CHECK(same(td_op_flip(flipped, TD_DIMS(1)), x));
        x = numbers(cx, TD_SHAPE(40, 3), dts[k]);
        td_tensor *rolled = td_op_roll(x, TD_DIMS(1), TD_DIMS(1));
        CHECK(same(td_op_select(rolled, 1, 0), td_op_select(x, 1, 2)));
        CHECK(same(rolled, td_op_roll(gappy(x), TD_DIMS(1), TD_DIMS(1))));
    }
    td_close(cx);
}

TEST(masked_scatter_takes_elements_of_every_size) {
    static const td_dtype dts[] = {TD_F32, TD_F64, TD_I16, TD_I8, TD_C128};
    td_ctx               *cx = td_open();
    td_tensor            *m = td_op_to(places(cx, 2, TD_SHAPE(7, 31)), TD_BOOL, false);
    for (int k = 0; k < TD_COUNT(dts); k++) {
        td_tensor *x = numbers(cx, TD_SHAPE(7, 31), dts[k]);
        td_tensor *s = td_op_masked_select(numbers(cx, TD_SHAPE(7, 31), dts[k]), m);
        td_tensor *y = td_op_masked_scatter(x, m, s); /* no element is left over */
        CHECK(same(y, td_op_masked_scatter(gappy(x), gappy(m), gappy(s))));
        CHECK(same(td_op_masked_select(y, m), s));
    }
    td_close(cx);
}

TEST(logsumexp_of_columns_is_that_of_rows) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_op_randn(cx, TD_SHAPE(30, 300), TD_F32);
    td_op_fill_(td_op_select(x, 1, 5), td_value_float(-(double)INFINITY));
    td_op_fill_(td_op_slice(td_op_select(x, 1, 290), 0, td_value_int(2),
                            td_value_int(3), 1),
                td_value_float((double)INFINITY));
    td_tensor *columns = td_op_logsumexp(x, TD_DIMS(0), false);
    td_tensor *rows = td_op_logsumexp(td_op_clone(td_op_t(x), true), TD_DIMS(1), false);
    td_tensor *close = td_op_allclose(columns, rows, 1e-6, 1e-6, true);
    CHECK(td_item(td_op_to(close, TD_I64, false)) == 1);
    td_close(cx);
}

TEST(weights_drawn_without_replacement_are_all_there_and_zeros_come_last) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_op_rand(cx, TD_SHAPE(2, 100), TD_F32), *drawn;
    td_op_fill_(td_op_slice(w, 1, td_value_int(10), td_value_int(20), 1),
                td_value_int(0));
    drawn = td_op_multinomial(w, 100, false);
    td_tensor *all =
        td_op_arange(cx, td_value_int(0), td_value_int(100), td_value_int(1), TD_I64);
    CHECK(same(td_op_sort(drawn, 1, false, false, NULL),
               td_op_expand(all, TD_SHAPE(2, 100))));
    td_tensor *last = td_op_slice(drawn, 1, td_value_int(90), td_value_int(100), 1);
    td_tensor *zeros = td_op_slice(all, 0, td_value_int(10), td_value_int(20), 1);
    CHECK(same(last, td_op_expand(zeros, TD_SHAPE(2, 10))));
    td_close(cx);
}

TEST(linspace_has_both_ends_and_the_steps_of_f64) {
    td_ctx    *cx = td_open();
    td_value   from = td_value_float(-1.7), to = td_value_float(3.1);
    td_tensor *x = td_op_linspace(cx, from, to, 100001, TD_F32);
    td_tensor *y = td_op_linspace(cx, from, to, 100001, TD_F64);
    td_tensor *near = td_op_allclose(td_op_to(x, TD_F64, false), y, 1e-6, 1e-6, false);
    CHECK(td_item(td_op_to(near, TD_I64, false)) == 1);
    CHECK(td_item(td_op_select(x, 0, 0)) == (double)-1.7f);
    CHECK(td_item(td_op_select(x, 0, -1)) == (double)3.1f);
    td_close(cx);
}
