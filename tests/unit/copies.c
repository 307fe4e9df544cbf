/* copies.c -- fresh tensors with elements of others: layouts, dtypes, joins. */
#include "op_help.h"

static td_tensor *count(td_ctx *cx, td_ints size) {
    int64_t n = 1;
    for (int i = 0; i < size.n; i++) n *= size.v[i];
    return td_op_view(td_op_arange(cx, td_value_int(0), td_value_int(n),
                                   td_value_int(1), TD_F32),
                      size);
}

TEST(clone_keeps_the_order_of_dims) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_t(count(cx, TD_SHAPE(2, 3)));

    td_tensor *y = td_clone(x), *z = td_clone(x, true);

    CHECK(td_stride(y, 0) == 1 && td_stride(y, 1) == 3);
    CHECK(td_is_contiguous(z) && !td_same_storage(x, y));
    CHECK_VALUES(y, 0, 3, 1, 4, 2, 5);
    td_close(cx);
}

TEST(a_clone_of_a_gappy_tensor_is_dense_in_the_same_order) {
    td_ctx    *cx = td_open();
    td_tensor *x =
        td_slice(td_transpose(count(cx, TD_SHAPE(4, 6, 5)), 0, 2), 1, 0, 6, 2);

    td_tensor *y = td_clone(x);

    CHECK_SHAPE(y, 5, 3, 4);
    CHECK(td_stride(y, 0) == 1 && td_stride(y, 1) == 5 && td_stride(y, 2) == 15);
    td_close(cx);
}

TEST(contiguous_returns_its_argument_when_it_can) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(2, 3));

    CHECK(td_contiguous(x) == x);
    CHECK(td_contiguous(td_t(x)) != x && td_is_contiguous(td_contiguous(td_t(x))));
    td_close(cx);
}

TEST(to_returns_its_argument_unless_the_dtype_changes) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, 1.7, -1.7);

    CHECK(td_to(x, TD_F32) == x);
    CHECK(td_to(x, TD_F32, true) != x);
    CHECK(td_dtype_of(td_to(x, TD_I64)) == TD_I64);
    CHECK_VALUES(td_to(x, TD_I64), 1, -1);
    td_close(cx);
}

TEST(copy_broadcasts_and_casts) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(2, 2), TD_I64);

    td_copy_(x, td_tensor1(cx, 1.5, 2.5));

    CHECK_VALUES(x, 1, 2, 1, 2);
    td_copy_(x, td_tensor1(cx, 1, 2, 3));
    CHECK_FAILS(cx, TD_E_SHAPE,
                "copy_: src f32[3] cannot be broadcast to self i64[2,2]");
    td_close(cx);
}

TEST(copy_refuses_partly_overlapping_memory) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(4));

    td_copy_(td_slice(x, 0, 1, 4), td_slice(x, 0, 0, 3));

    CHECK_FAILS(cx, TD_E_ALIAS, "copy_: ");
    td_close(cx);
}

TEST(fill_takes_a_number_or_a_tensor_without_dims) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_clone(count(cx, TD_SHAPE(2)));

    CHECK_VALUES(td_fill_(x, 2.5), 2.5, 2.5);
    CHECK_VALUES(td_fill_(x, td_select(td_tensor1(cx, 4, 5), 0, 1)), 5, 5);
    CHECK_VALUES(td_zero_(x), 0, 0);
    td_fill_(x, td_tensor1(cx, 1));
    CHECK_FAILS(cx, TD_E_SHAPE,
                "fill_: value must be a number or a 0-dim tensor, got f32[1]");
    td_close(cx);
}

TEST(cat_promotes_and_skips_empty_vectors) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_ones(cx, TD_SHAPE(1, 2), TD_I64), *b = count(cx, TD_SHAPE(2, 2));
    td_tensor *y = td_cat(TD_LIST(a, td_zeros(cx, TD_SHAPE(0), TD_F64), b), 0);

    CHECK(td_dtype_of(y) == TD_F64);
    CHECK_VALUES(y, 1, 1, 0, 1, 2, 3);
    td_close(cx);
}

TEST(cat_names_the_dim_in_which_sizes_may_differ) {
    td_ctx *cx = td_open();
    td_cat(TD_LIST(count(cx, TD_SHAPE(1, 2)), count(cx, TD_SHAPE(1, 3))), 0);
    CHECK_FAILS(cx, TD_E_SHAPE,
                "cat: tensor 1 of the list is f32[1,3], and must have the sizes [1,2] "
                "of those before it, except in dim 0");
    td_cat(TD_LIST(td_select(count(cx, TD_SHAPE(1)), 0, 0)), 0);
    CHECK_FAILS(cx, TD_E_SHAPE, "cat: tensor 0 has no dims");
    td_close(cx);
}

TEST(stack_makes_a_new_dim_anywhere) {
    td_ctx    *cx = td_open();
    td_tensor *a = count(cx, TD_SHAPE(2)), *b = td_tensor1(cx, 8, 9);

    CHECK_VALUES(td_stack(TD_LIST(a, b), -1), 0, 8, 1, 9);
    CHECK_SHAPE(td_stack(TD_LIST(a, b, a), 0), 3, 2);
    td_close(cx);
}

TEST(repeat_adds_leading_dims) {
    td_ctx    *cx = td_open();
    td_tensor *y = td_repeat(count(cx, TD_SHAPE(2)), TD_DIMS(2, 2));

    CHECK_SHAPE(y, 2, 4);
    CHECK_VALUES(y, 0, 1, 0, 1, 0, 1, 0, 1);
    CHECK_SHAPE(td_tile(count(cx, TD_SHAPE(2, 3)), TD_DIMS(2)), 2, 6);
    td_repeat(count(cx, TD_SHAPE(2, 2)), TD_DIMS(2));
    CHECK_FAILS(cx, TD_E_SHAPE,
                "repeat: repeats has 1 entries; there must be at least 2");
    td_close(cx);
}

TEST(flip_and_roll_move_entries) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(2, 3));

    CHECK_VALUES(td_flip(x, TD_DIMS(1)), 2, 1, 0, 5, 4, 3);
    CHECK_VALUES(td_roll(x, TD_DIMS(1), TD_DIMS(1)), 2, 0, 1, 5, 3, 4);
    CHECK_VALUES(td_roll(x, TD_DIMS(-1)), 1, 2, 3, 4, 5, 0);
    CHECK_VALUES(td_roll(td_t(x), TD_DIMS(2)), 2, 5, 0, 3, 1, 4);
    td_close(cx);
}

TEST(pad_adds_and_takes_away) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(2, 2));

    CHECK_VALUES(td_pad(x, TD_DIMS(1, 0, 0, -1)), 0, 0, 1);
    CHECK_VALUES(td_pad(x, TD_DIMS(0, 1), "constant", 7), 0, 1, 7, 2, 3, 7);
    td_pad(x, TD_DIMS(1));
    CHECK_FAILS(cx, TD_E_ARG, "pad has 1 numbers");
    td_pad(x, TD_DIMS(1, 1), "mirror");
    CHECK_FAILS(cx, TD_E_ARG, "mirror");
    td_close(cx);
}

TEST(triangles_keep_one_side_of_a_diagonal) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3));

    CHECK_VALUES(td_tril(x), 1, 0, 0, 1, 1, 0);
    CHECK_VALUES(td_triu(x, 1), 0, 1, 1, 0, 0, 1);
    CHECK_VALUES(td_tril_(td_t(td_ones(cx, TD_SHAPE(2, 2)))), 1, 0, 1, 1);
    td_tril(td_ones(cx, TD_SHAPE(3)));
    CHECK_FAILS(cx, TD_E_SHAPE, "tril: takes a tensor of at least 2 dims");
    td_close(cx);
}

TEST(the_gradient_of_cat_goes_back_to_each_piece) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_requires_grad_(td_tensor1(cx, 1, 2)),
              *b = td_requires_grad_(td_tensor1(cx, 3));

    td_tensor *y = td_cat(TD_LIST(a, b), 0);
    td_backward(td_sum(td_mul(y, y)));

    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(a), 2, 4);
    CHECK_VALUES(td_grad_of(b), 6);
    td_close(cx);
}

TEST(the_gradient_of_an_overlapping_as_strided_is_summed) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_tensor1(cx, 1, 2, 3, 4));

    td_backward(td_sum(td_as_strided(x, TD_SHAPE(3, 2), TD_SHAPE(1, 1))));

    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(x), 1, 2, 2, 1);
    td_close(cx);
}
