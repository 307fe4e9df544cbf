/* views.c -- views share bytes with what they show: geometry, aliasing, the ways
 * back, and writers of geometry. */
#include "op_help.h"

/* 0, 1, 2, ... as f32 of the given sizes. */
static td_tensor *count(td_ctx *cx, td_ints size) {
    int64_t n = 1;
    for (int i = 0; i < size.n; i++) n *= size.v[i];
    return td_op_view(td_op_arange(cx, td_value_int(0), td_value_int(n),
                                   td_value_int(1), TD_F32),
                      size);
}

static td_tensor *cut(td_tensor *t, int64_t dim, int64_t from, int64_t to,
                      int64_t step) {
    return td_op_slice(t, dim, td_value_int(from), td_value_int(to), step);
}

#define CHECK_STRIDES(t, ...)                                       \
    CHECK(memcmp(td_strides(t).v, ((const int64_t[]){__VA_ARGS__}), \
                 sizeof((const int64_t[]){__VA_ARGS__})) == 0)

TEST(a_write_through_a_view_is_seen_by_its_base) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(2, 3));

    td_fill_(td_op_select(x, 1, 1), 9);

    CHECK_OK(cx);
    CHECK_VALUES(x, 0, 9, 2, 3, 9, 5);
    td_close(cx);
}

TEST(view_infers_one_size) {
    td_ctx    *cx = td_open();
    td_tensor *v = td_view(count(cx, TD_SHAPE(2, 6)), TD_SHAPE(3, -1));

    CHECK_SHAPE(v, 3, 4);
    CHECK_STRIDES(v, 4, 1);
    td_close(cx);
}

TEST(view_refuses_two_open_sizes_and_wrong_counts) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(2, 6));

    td_view(x, TD_SHAPE(-1, -1));
    CHECK_FAILS(cx, TD_E_SHAPE, "view: only one size may be -1");
    td_view(x, TD_SHAPE(5));
    CHECK_FAILS(cx, TD_E_SHAPE, "view: sizes [5] do not hold the 12 elements");
    td_view(x, TD_SHAPE(-1, 0));
    CHECK_FAILS(cx, TD_E_SHAPE, "could be anything");
    td_close(cx);
}

TEST(view_of_a_transposed_tensor_names_reshape) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_t(count(cx, TD_SHAPE(2, 3)));

    td_view(x, TD_SHAPE(6));

    CHECK_FAILS(cx, TD_E_SHAPE, "use td_reshape");
    td_close(cx);
}

TEST(reshape_is_a_view_where_one_exists_and_a_copy_elsewhere) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(2, 3));
    td_tensor *a = td_reshape(x, TD_SHAPE(6)), *b = td_reshape(td_t(x), TD_SHAPE(6));

    CHECK(td_same_storage(a, x) && td_is_view(a));
    CHECK(!td_same_storage(b, x) && !td_is_view(b));
    CHECK_VALUES(b, 0, 3, 1, 4, 2, 5);
    td_close(cx);
}

TEST(a_view_of_a_view_has_the_first_tensor_as_its_base) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_from_doubles(cx, (const double[]){1, 2, 3, 4}, 4);
    td_tensor *v = td_select(td_view(x, TD_SHAPE(2, 2)), 0, 1);

    CHECK(td_base(v) == x);
    CHECK(td_offset(v) == 2);
    td_close(cx);
}

TEST(transposes_exchange_strides) {
    td_ctx    *cx = td_open();
    td_tensor *v = td_transpose(count(cx, TD_SHAPE(2, 3, 4)), 0, -1);

    CHECK_SHAPE(v, 4, 3, 2);
    CHECK_STRIDES(v, 1, 4, 12);
    td_close(cx);
}

TEST(t_takes_at_most_two_dims) {
    td_ctx *cx = td_open();
    td_t(count(cx, TD_SHAPE(2, 3, 4)));
    CHECK_FAILS(cx, TD_E_SHAPE, "t: takes a tensor of at most 2 dims, got f32[2,3,4]");
    td_close(cx);
}

TEST(permute_refuses_a_dim_named_twice) {
    td_ctx *cx = td_open();
    td_permute(count(cx, TD_SHAPE(2, 3)), TD_DIMS(0, -2));
    CHECK_FAILS(cx, TD_E_ARG, "permute: dim 0 appears twice");
    td_close(cx);
}

TEST(movedim_keeps_the_order_of_the_other_dims) {
    td_ctx    *cx = td_open();
    td_tensor *v =
        td_movedim(count(cx, TD_SHAPE(2, 3, 4)), TD_DIMS(0, -1), TD_DIMS(1, 0));

    CHECK_SHAPE(v, 4, 2, 3);
    td_close(cx);
}

TEST(expanded_dims_have_stride_zero_and_cannot_be_written) {
    td_ctx    *cx = td_open();
    td_tensor *v = td_expand(count(cx, TD_SHAPE(3, 1)), TD_SHAPE(2, -1, 4));

    CHECK_SHAPE(v, 2, 3, 4);
    CHECK_STRIDES(v, 0, 1, 0);
    td_add_(v, 1);
    CHECK_FAILS(cx, TD_E_ALIAS, "add_: ");
    td_close(cx);
}

TEST(expand_refuses_sizes_that_do_not_fit) {
    td_ctx *cx = td_open();
    td_expand(count(cx, TD_SHAPE(3, 2)), TD_SHAPE(4, 2));
    CHECK_FAILS(cx, TD_E_SHAPE, "expand: dim 0 of size 3 cannot become 4");
    td_close(cx);
}

TEST(squeeze_drops_dims_of_size_one_only) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(1, 2, 1, 3));

    CHECK_SHAPE(td_squeeze(x), 2, 3);
    CHECK_SHAPE(td_squeeze_dim(x, 1), 1, 2, 1, 3);
    CHECK_SHAPE(td_squeeze_dim(x, -2), 1, 2, 3);
    CHECK_SHAPE(td_squeeze_dims(x, TD_DIMS(0, 1)), 2, 1, 3);
    CHECK_SHAPE(td_unsqueeze(x, -1), 1, 2, 1, 3, 1);
    td_close(cx);
}

TEST(select_names_the_index_and_the_size_it_missed) {
    td_ctx *cx = td_open();
    td_select(count(cx, TD_SHAPE(2, 3)), 1, 3);
    CHECK_FAILS(cx, TD_E_INDEX, "select: index 3 is out of range for dim 1 of size 3");
    td_select(count(cx, TD_SHAPE(2, 3)), 2, 0);
    CHECK_FAILS(cx, TD_E_INDEX, "select: dim 2 is out of range for rank 2");
    td_close(cx);
}

TEST(slice_clamps_its_bounds_and_steps) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(7));

    CHECK_VALUES(cut(x, 0, -3, 100, 1), 4, 5, 6);
    CHECK_VALUES(cut(x, 0, 1, 7, 3), 1, 4);
    CHECK(td_numel(cut(x, 0, 5, 2, 1)) == 0);
    cut(x, 0, 0, 1, 0);
    CHECK_FAILS(cx, TD_E_ARG, "slice: step must be positive");
    td_close(cx);
}

TEST(narrow_refuses_what_slice_would_clamp) {
    td_ctx *cx = td_open();
    td_narrow(count(cx, TD_SHAPE(4)), 0, 2, 3);
    CHECK_FAILS(cx, TD_E_INDEX,
                "narrow: start 2 and length 3 go beyond dim 0 of size 4");
    td_close(cx);
}

TEST(split_gives_views_and_a_smaller_last_piece) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(5)), *piece[3];

    CHECK(td_split(x, 2, 0, piece, 3) == 3);
    CHECK_VALUES(piece[1], 2, 3);
    CHECK_VALUES(piece[2], 4);
    CHECK(td_same_storage(piece[2], x) && td_offset(piece[2]) == 4);
    td_close(cx);
}

TEST(split_with_sizes_must_fill_the_dim) {
    td_ctx    *cx = td_open();
    td_tensor *piece[2];

    CHECK(td_split_with_sizes(count(cx, TD_SHAPE(5)), TD_SHAPE(2, 2), 0, piece, 2) ==
          -1);
    CHECK_FAILS(cx, TD_E_SHAPE, "split_with_sizes: split_sizes add up to 4");
    td_close(cx);
}

TEST(chunk_of_an_empty_dim_gives_as_many_empty_pieces) {
    td_ctx    *cx = td_open();
    td_tensor *piece[4];

    CHECK(td_chunk(count(cx, TD_SHAPE(0, 2)), 4, 0, piece, 4) == 4);
    CHECK_SHAPE(piece[3], 0, 2);
    CHECK(td_chunk(count(cx, TD_SHAPE(5)), 4, 0, piece, 4) == 3);
    td_close(cx);
}

TEST(unbind_gives_every_entry_without_its_dim) {
    td_ctx    *cx = td_open();
    td_tensor *row[2];

    CHECK(td_unbind(count(cx, TD_SHAPE(2, 3)), 0, row, 2) == 2);
    CHECK_SHAPE(row[1], 3);
    CHECK_VALUES(row[1], 3, 4, 5);
    td_close(cx);
}

TEST(diagonals_above_and_below_have_the_right_elements) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(3, 4));

    CHECK_VALUES(td_diagonal(x, 1), 1, 6, 11);
    CHECK_VALUES(td_diagonal(x, -1), 4, 9);
    CHECK(td_numel(td_diagonal(x, 9)) == 0);
    td_diagonal(x, 0, 1, -1);
    CHECK_FAILS(cx, TD_E_ARG, "diagonal: dim1 and dim2 are the same, 1");
    td_close(cx);
}

TEST(unfold_shows_overlapping_windows) {
    td_ctx    *cx = td_open();
    td_tensor *v = td_unfold(count(cx, TD_SHAPE(5)), 0, 3, 1);

    CHECK_SHAPE(v, 3, 3);
    CHECK_STRIDES(v, 1, 1);
    CHECK_VALUES(v, 0, 1, 2, 1, 2, 3, 2, 3, 4);
    td_close(cx);
}

TEST(as_strided_stays_inside_the_storage) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(6));

    CHECK_VALUES(td_as_strided(x, TD_SHAPE(2, 2), TD_SHAPE(3, 1), 1), 1, 2, 4, 5);
    td_as_strided(x, TD_SHAPE(2, 2), TD_SHAPE(4, 2));
    CHECK_FAILS(cx, TD_E_INDEX, "need 28 bytes, the storage has 24");
    td_as_strided(x, TD_SHAPE(2), TD_SHAPE(-1));
    CHECK_FAILS(cx, TD_E_ARG, "must not be negative");
    td_close(cx);
}

TEST(a_dtype_view_scales_the_last_dim) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(2, 4));

    CHECK_SHAPE(td_view_dtype(x, TD_F64), 2, 2);
    CHECK_SHAPE(td_view_dtype(x, TD_U8), 2, 16);
    CHECK(td_same_storage(td_view_dtype(x, TD_I32), x));
    td_view_dtype(td_t(x), TD_F64);
    CHECK_FAILS(cx, TD_E_SHAPE, "view_dtype: the last stride must be 1");
    td_view_dtype(count(cx, TD_SHAPE(3)), TD_F64);
    CHECK_FAILS(cx, TD_E_SHAPE, "a multiple of 2");
    td_close(cx);
}

TEST(detach_shares_bytes) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(2)), *d = td_detach(x);

    td_fill_(d, 5);

    CHECK_VALUES(x, 5, 5);
    CHECK(td_version(x) == td_version(d));
    td_close(cx);
}

TEST(inverses_put_changed_views_back) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(2, 3)), *two = td_full(cx, TD_SHAPE(2), 7.0);

    CHECK_VALUES(td_op_select_scatter(x, two, 1, -1), 0, 1, 7, 3, 4, 7);
    CHECK_VALUES(td_op_diagonal_scatter(x, two, 1, 0, 1), 0, 7, 2, 3, 4, 7);
    CHECK_VALUES(td_op_transpose_inverse(x, td_t(x), 0, 1), 0, 1, 2, 3, 4, 5);
    CHECK_VALUES(td_op_unbind_inverse(x, td_full(cx, TD_SHAPE(3), 8.0), 1, 0), 0, 1, 2,
                 8, 8, 8);
    CHECK_VALUES(td_op_split_inverse(x, td_full(cx, TD_SHAPE(2, 1), 8.0), 1, 2, 1), 0,
                 1, 8, 3, 4, 8);
    CHECK_VALUES(x, 0, 1, 2, 3, 4, 5);
    td_close(cx);
}

TEST(unfold_inverse_lets_the_last_window_count) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, TD_SHAPE(4));
    td_tensor *w = td_view(td_tensor1(cx, 10, 11, 20, 21, 30, 31), TD_SHAPE(3, 2));

    CHECK_VALUES(td_op_unfold_inverse(x, w, 0, 2, 1), 10, 20, 30, 31);
    td_close(cx);
}

TEST(as_strided_scatter_reaches_beyond_its_elements) {
    td_ctx    *cx = td_open();
    td_tensor *x = cut(count(cx, TD_SHAPE(6)), 0, 2, 6, 1);
    td_tensor *y = td_op_as_strided_scatter(x, td_full(cx, TD_SHAPE(2), 9.0),
                                            TD_SHAPE(2), TD_SHAPE(2), td_value_int(1));

    CHECK_VALUES(y, 2, 9, 4, 5);
    CHECK(td_offset(y) == 2);
    CHECK_VALUES(td_as_strided(y, TD_SHAPE(6), TD_SHAPE(1), 0), 0, 9, 2, 9, 4, 5);
    td_close(cx);
}

TEST(a_scatter_of_the_wrong_size_is_refused) {
    td_ctx *cx = td_open();
    td_op_select_scatter(count(cx, TD_SHAPE(2, 3)), count(cx, TD_SHAPE(2)), 0, 0);
    CHECK_FAILS(cx, TD_E_SHAPE,
                "src f32[2] must have the sizes [3] of the part it replaces");
    td_close(cx);
}

TEST(metadata_writers_change_geometry_and_count_as_writes) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_clone(count(cx, TD_SHAPE(2, 3)));
    uint64_t   was = td_version(x);

    CHECK(td_t_(x) == x);

    CHECK_SHAPE(x, 3, 2);
    CHECK_STRIDES(x, 1, 3);
    CHECK(td_version(x) > was);
    td_transpose_(x, 0, 1);
    td_unsqueeze_(x, 0);
    CHECK_SHAPE(x, 1, 2, 3);
    td_squeeze_(x);
    CHECK_SHAPE(x, 2, 3);
    td_close(cx);
}

TEST(a_failed_metadata_write_changes_nothing) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_clone(count(cx, TD_SHAPE(2, 3)));

    td_as_strided_(x, TD_SHAPE(9), TD_SHAPE(1));

    CHECK_FAILS(cx, TD_E_INDEX, "as_strided_: ");
    CHECK_SHAPE(x, 2, 3);
    td_close(cx);
}

TEST(resize_grows_the_storage_and_keeps_its_bytes) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_clone(count(cx, TD_SHAPE(3)));

    td_resize_(x, TD_SHAPE(2, 3));

    CHECK_OK(cx);
    CHECK_SHAPE(x, 2, 3);
    CHECK(td_storage_bytes(x) >= 24);
    CHECK_VALUES(td_select(x, 0, 0), 0, 1, 2);
    td_resize_(x, TD_SHAPE(2));
    CHECK(td_storage_bytes(x) >= 24);
    td_close(cx);
}

TEST(resize_refuses_foreign_memory_it_cannot_grow) {
    static float room[2] = {1, 2};
    td_ctx      *cx = td_open();
    td_tensor   *x = td_wrap(cx, TD_F32, TD_SHAPE(2), TD_ALL, room, NULL, NULL);

    td_resize_(x, TD_SHAPE(1));
    CHECK_OK(cx);
    td_resize_(x, TD_SHAPE(4));
    CHECK_FAILS(cx, TD_E_ALIAS, "resize_: ");
    CHECK_SHAPE(x, 1);
    td_close(cx);
}

TEST(set_looks_at_another_storage) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_clone(count(cx, TD_SHAPE(2))),
              *y = td_clone(count(cx, TD_SHAPE(6)));

    td_set_(x, y);
    CHECK(td_same_storage(x, y));
    CHECK_SHAPE(x, 6);
    td_op_set_(x, y, td_value_int(1), TD_SHAPE(2, 2), TD_SHAPE(1, 2));
    CHECK_VALUES(x, 1, 3, 2, 4);
    td_set_(x, td_zeros(cx, TD_SHAPE(2), TD_I64));
    CHECK_FAILS(cx, TD_E_DTYPE, "set_: source must have the dtype of self");
    td_close(cx);
}
