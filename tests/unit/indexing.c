/* indexing.c -- elements picked and placed by index: values, layouts, which errors
 * name what, and that a failed write has written nothing. */
#include "op_help.h"

static td_tensor *count(td_ctx *cx, td_ints size) {
    int64_t n = 1;
    for (int i = 0; i < size.n; i++) n *= size.v[i];
    return td_clone(td_op_view(td_op_arange(cx, td_value_int(0), td_value_int(n),
                                            td_value_int(1), TD_F32),
                               size));
}

static td_tensor *longs(td_ctx *cx, td_ints v) {
    return td_from(cx, TD_I64, TD_SHAPE(v.n), v.v);
}

static td_tensor *mask(td_ctx *cx, td_ints v) { return td_to(longs(cx, v), TD_BOOL); }

TEST(gather_picks_along_one_dim) {
    td_ctx    *cx = td_open();
    td_tensor *i = td_view(longs(cx, TD_DIMS(2, 0, 1, 1)), TD_SHAPE(2, 2));

    CHECK_VALUES(td_gather(count(cx, TD_SHAPE(2, 3)), 1, i), 2, 0, 4, 4);
    td_close(cx);
}

TEST(gather_names_the_bad_index_and_its_place) {
    td_ctx    *cx = td_open();
    td_tensor *i = td_view(longs(cx, TD_DIMS(0, 0, 0, 3)), TD_SHAPE(2, 2));

    td_gather(count(cx, TD_SHAPE(2, 3)), 1, i);
    CHECK_FAILS(
        cx, TD_E_INDEX,
        "gather: index 3 at position [1,1] is out of range for dim 1 of size 3");
    td_gather(count(cx, TD_SHAPE(3)), 0, longs(cx, TD_DIMS(-1)));
    CHECK_FAILS(cx, TD_E_INDEX, "gather: index -1 at position [0]");
    td_close(cx);
}

TEST(gather_takes_integer_indices_only) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(3));

    CHECK_VALUES(td_gather(x, 0, td_to(longs(cx, TD_DIMS(2, 1)), TD_I32)), 2, 1);
    td_gather(x, 0, x);
    CHECK_FAILS(cx, TD_E_DTYPE, "gather: index must be i64 or i32, got f32[3]");
    td_close(cx);
}

TEST(scatter_writes_nothing_when_an_index_is_bad) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(3)), *ones = td_ones(cx, TD_SHAPE(2));
    uint64_t   was = td_version(x);

    td_scatter_(x, 0, longs(cx, TD_DIMS(0, 5)), ones);

    CHECK_FAILS(cx, TD_E_INDEX, "scatter_: index 5 at position [1]");
    CHECK_VALUES(x, 0, 1, 2);
    CHECK(td_version(x) == was);
    td_close(cx);
}

TEST(scatter_leaves_its_argument_alone_and_its_twin_does_not) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(3)), *i = longs(cx, TD_DIMS(2, 0));

    CHECK_VALUES(td_scatter_value(x, 0, i, 9), 9, 1, 9);
    CHECK_VALUES(x, 0, 1, 2);
    td_scatter_value_(x, 0, i, 7);
    CHECK_VALUES(x, 7, 1, 7);
    td_close(cx);
}

TEST(scatter_add_adds_every_duplicate) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(2));

    td_scatter_add_(x, 0, longs(cx, TD_DIMS(1, 1, 1)), td_tensor1(cx, 1, 2, 4));

    CHECK_VALUES(x, 0, 7);
    td_close(cx);
}

TEST(scatter_reduce_knows_five_reductions) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 2, 5), *i = longs(cx, TD_DIMS(0, 0)),
              *s = td_tensor1(cx, 3, 7);

    CHECK_VALUES(td_scatter_reduce(x, 0, i, s, "prod"), 42, 5);
    CHECK_VALUES(td_scatter_reduce(x, 0, i, s, "mean"), 4, 5);
    CHECK_VALUES(td_scatter_reduce(x, 0, i, s, "mean", false), 5, 5);
    CHECK_VALUES(td_scatter_reduce(x, 0, i, s, "amax"), 7, 5);
    CHECK_VALUES(td_scatter_reduce(x, 0, i, s, "amin", false), 3, 5);
    td_scatter_reduce(x, 0, i, s, "median");
    CHECK_FAILS(cx, TD_E_ARG,
                "scatter_reduce: reduce must be sum, prod, mean, amax or amin");
    td_close(cx);
}

TEST(scatter_wants_the_dtype_of_self) {
    td_ctx    *cx = td_open();
    td_tensor *i = longs(cx, TD_DIMS(0));

    td_scatter(count(cx, TD_SHAPE(2)), 0, i, i);
    CHECK_FAILS(cx, TD_E_DTYPE, "scatter: src must have the dtype of self");
    td_close(cx);
}

TEST(index_select_keeps_the_order_of_its_indices) {
    td_ctx    *cx = td_open();
    td_tensor *y =
        td_index_select(count(cx, TD_SHAPE(2, 3)), 1, longs(cx, TD_DIMS(2, 0, 2)));

    CHECK_VALUES(y, 2, 0, 2, 5, 3, 5);
    td_close(cx);
}

TEST(index_add_scales_and_accumulates) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(2, 2));
    td_tensor *s = count(cx, TD_SHAPE(3, 2));

    CHECK_VALUES(td_index_add(x, 0, longs(cx, TD_DIMS(1, 1, 0)), s, 2), 8, 10, 4, 8);
    td_close(cx);
}

TEST(index_fill_counts_negative_indices_from_the_end) {
    td_ctx *cx = td_open();
    CHECK_VALUES(td_index_fill(count(cx, TD_SHAPE(3)), 0, longs(cx, TD_DIMS(-1)), 9), 0,
                 1, 9);
    td_close(cx);
}

TEST(index_copy_checks_its_source) {
    td_ctx *cx = td_open();
    td_index_copy(count(cx, TD_SHAPE(3, 2)), 0, longs(cx, TD_DIMS(0)),
                  count(cx, TD_SHAPE(2, 2)));
    CHECK_FAILS(cx, TD_E_SHAPE,
                "index_copy: source f32[2,2] must be self f32[3,2] with 1 entries");
    td_close(cx);
}

TEST(adjacent_indices_keep_their_place_among_the_dims) {
    td_ctx    *cx = td_open();
    td_tensor *i = longs(cx, TD_DIMS(0, 1));
    td_tensor *y = td_index(count(cx, TD_SHAPE(5, 2, 3, 4)), TD_LIST(NULL, i, i));

    CHECK_SHAPE(y, 5, 2, 4);
    td_close(cx);
}

TEST(separated_indices_come_first) {
    td_ctx    *cx = td_open();
    td_tensor *i = longs(cx, TD_DIMS(0, 1));
    td_tensor *y = td_index(count(cx, TD_SHAPE(3, 5, 4)), TD_LIST(i, NULL, i));

    CHECK_SHAPE(y, 2, 5);
    CHECK_VALUES(y, 0, 4, 8, 12, 16, 21, 25, 29, 33, 37);
    td_close(cx);
}

TEST(index_tensors_broadcast_with_each_other) {
    td_ctx    *cx = td_open();
    td_tensor *row = td_view(longs(cx, TD_DIMS(0, 2)), TD_SHAPE(2, 1));

    CHECK_VALUES(td_index(count(cx, TD_SHAPE(3, 4)),
                          TD_LIST(row, longs(cx, TD_DIMS(1, -1)))),
                 1, 3, 9, 11);
    td_close(cx);
}

TEST(a_mask_stands_for_as_many_dims_as_it_has) {
    td_ctx    *cx = td_open();
    td_tensor *m = td_view(mask(cx, TD_DIMS(1, 0, 0, 1)), TD_SHAPE(2, 2));

    CHECK_VALUES(td_index(count(cx, TD_SHAPE(2, 2, 2)), TD_LIST(m)), 0, 1, 6, 7);
    td_index(count(cx, TD_SHAPE(3, 2)), TD_LIST(m));
    CHECK_FAILS(cx, TD_E_INDEX, "index: mask 0, bool[2,2], does not match f32[3,2]");
    td_close(cx);
}

/* As in Python's x[mask]. ATen leaves a mask without dims out beside other indices,
 * also one that is false. */
TEST(a_mask_without_dims_takes_no_dim) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(2, 2)), *i = longs(cx, TD_DIMS(1, 0));
    td_tensor *yes = td_full(cx, TD_SHAPE(), 1.0, TD_BOOL);
    td_tensor *no = td_full(cx, TD_SHAPE(), 0.0, TD_BOOL);

    CHECK_SHAPE(td_index(x, TD_LIST(yes)), 1, 2, 2);
    CHECK_SHAPE(td_index(x, TD_LIST(no)), 0, 2, 2);
    CHECK_VALUES(td_index(x, TD_LIST(i, yes)), 2, 3, 0, 1);
    CHECK_SHAPE(td_index(count(cx, TD_SHAPE()), TD_LIST(yes)), 1);
    CHECK_VALUES(td_index_put(x, TD_LIST(no), td_full(cx, TD_SHAPE(), 9.0)), 0, 1, 2,
                 3);
    td_index_put_(x, TD_LIST(yes, longs(cx, TD_DIMS(1))), td_full(cx, TD_SHAPE(), 9.0));
    CHECK_OK(cx);
    CHECK_VALUES(x, 0, 1, 9, 9);
    td_close(cx);
}

TEST(an_index_of_a_transposed_tensor_keeps_its_layout) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_transpose(count(cx, TD_SHAPE(4, 3, 5)), 0, 2); /* [5,3,4] */
    td_tensor *y = td_index(x, TD_LIST(NULL, longs(cx, TD_DIMS(0, 2))));

    CHECK_SHAPE(y, 5, 2, 4);
    CHECK(td_stride(y, 0) == 1 && td_stride(y, 1) == 5 && td_stride(y, 2) == 10);
    td_close(cx);
}

TEST(too_many_indices_are_refused) {
    td_ctx    *cx = td_open();
    td_tensor *i = longs(cx, TD_DIMS(0));

    td_index(count(cx, TD_SHAPE(3)), TD_LIST(i, i));
    CHECK_FAILS(cx, TD_E_INDEX, "2 indices are too many for f32[3]");
    td_close(cx);
}

TEST(index_put_writes_or_accumulates) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(3)), *i = longs(cx, TD_DIMS(0, 0, -1));
    td_tensor *ones = td_ones(cx, TD_SHAPE(1));

    CHECK_VALUES(td_index_put(x, TD_LIST(i), ones, true), 2, 1, 3);
    td_index_put_(x, TD_LIST(i), ones);
    CHECK_VALUES(x, 1, 1, 1);
    td_close(cx);
}

TEST(index_put_by_a_mask_writes_where_it_is_set) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(4));

    td_index_put_(x, TD_LIST(mask(cx, TD_DIMS(0, 1, 0, 1))), td_tensor1(cx, 8, 9));

    CHECK_VALUES(x, 0, 8, 2, 9);
    td_close(cx);
}

TEST(an_index_that_is_the_written_tensor_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = longs(cx, TD_DIMS(2, 0, 1));

    td_index_put_(x, TD_LIST(x), longs(cx, TD_DIMS(7, 8, 9))); /* as in PyTorch */

    CHECK_FAILS(cx, TD_E_ALIAS, "the written tensor and argument indices overlap");
    CHECK_VALUES(x, 2, 0, 1);
    td_close(cx);
}

TEST(nonzero_lists_places_column_by_column) {
    td_ctx    *cx = td_open();
    td_tensor *y = td_nonzero(td_view(td_tensor1(cx, 0, 3, 5, 0), TD_SHAPE(2, 2)));

    CHECK_SHAPE(y, 2, 2);
    CHECK_VALUES(y, 0, 1, 1, 0);
    CHECK(td_stride(y, 0) == 1 && td_stride(y, 1) == 2);
    td_close(cx);
}

TEST(masked_select_broadcasts_both_ways) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(2, 2));

    CHECK_VALUES(td_masked_select(x, mask(cx, TD_DIMS(0, 1))), 1, 3);
    td_masked_select(x, x);
    CHECK_FAILS(cx, TD_E_DTYPE, "masked_select: mask must be bool");
    td_close(cx);
}

TEST(masked_scatter_needs_enough_elements) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(3)), *m = mask(cx, TD_DIMS(1, 0, 1));

    CHECK_VALUES(td_masked_scatter(x, m, td_tensor1(cx, 8, 9, 10)), 8, 1, 9);
    td_masked_scatter_(x, m, td_tensor1(cx, 8));
    CHECK_FAILS(
        cx, TD_E_SHAPE,
        "masked_scatter_: source f32[1] has fewer elements than the mask sets, 2");
    CHECK_VALUES(x, 0, 1, 2);
    td_close(cx);
}

TEST(one_hot_finds_or_checks_the_number_of_classes) {
    td_ctx *cx = td_open();
    CHECK_VALUES(td_one_hot(longs(cx, TD_DIMS(0, 2))), 1, 0, 0, 0, 0, 1);
    td_one_hot(longs(cx, TD_DIMS(0, 3)), 3);
    CHECK_FAILS(cx, TD_E_INDEX, "class 3");
    td_close(cx);
}

static td_tensor *table_grad(td_ctx *cx, td_tensor *at, td_tensor *g, int threads) {
    td_tensor *w = td_requires_grad_(td_zeros(cx, TD_SHAPE(37, 64)));
    td_set_threads(threads);
    td_backward(td_sum(td_mul(td_embedding(w, at, 5), g)));
    td_set_threads(0);
    return td_grad_of(w);
}

TEST(threads_add_up_the_gradient_of_an_embedding_in_the_order_of_one) {
    td_ctx    *cx = td_open();
    td_tensor *g = td_randn(cx, TD_SHAPE(3000, 64));
    td_tensor *at = td_to(td_mul(td_rand(cx, TD_SHAPE(3000)), 37.0), TD_I64);
    td_tensor *one = table_grad(cx, at, g, 1), *four = table_grad(cx, at, g, 4);
    CHECK(td_item(td_all(td_eq(one, four))) != 0);
    CHECK(td_item(td_any(td_ne(one, 0.0))) != 0);
    td_close(cx);
}

TEST(embedding_gives_rows_and_no_gradient_to_the_padding) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_requires_grad_(count(cx, TD_SHAPE(3, 2))),
              *i = longs(cx, TD_DIMS(2, 0, 2));

    td_tensor *y = td_embedding(w, i, 0);
    CHECK_VALUES(y, 4, 5, 0, 1, 4, 5);
    td_backward(td_sum(y));
    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(w), 0, 0, 0, 0, 2, 2);
    td_embedding(w, longs(cx, TD_DIMS(3)));
    CHECK_FAILS(cx, TD_E_INDEX, "embedding: index 3 at position [0]");
    td_close(cx);
}

TEST(the_gradient_of_a_gather_counts_duplicates) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(count(cx, TD_SHAPE(3)));

    td_backward(td_sum(td_gather(x, 0, longs(cx, TD_DIMS(1, 1, 2)))));

    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(x), 0, 2, 1);
    td_close(cx);
}

TEST(a_large_gather_on_threads_equals_a_small_one) {
    td_ctx    *cx = td_open();
    int64_t    n = 200000;
    td_tensor *x =
        td_op_arange(cx, td_value_int(0), td_value_int(n), td_value_int(1), TD_F32);
    td_tensor *i = td_flip(td_op_arange(cx, td_value_int(0), td_value_int(n),
                                        td_value_int(1), TD_I64),
                           TD_DIMS(0));

    td_tensor *y = td_index_select(x, 0, i);

    CHECK_NEAR(td_item(td_select(y, 0, 0)), (double)(n - 1), 0);
    CHECK_NEAR(td_item(td_select(y, 0, n - 1)), 0.0, 0);
    CHECK_NEAR(td_item(td_select(y, 0, 123456)), (double)(n - 1 - 123456), 0);
    td_close(cx);
}
