/* core_shape.c -- high ranks, empty tensors, sizes at the edge of 64 bits. */
#include "op_help.h"

#include "core/core.h"

/* [2,1,1,...,1,3] of this rank, counting up from 0. */
static td_tensor *of_rank(td_ctx *cx, int rank) {
    int64_t size[TD_MAX_RANK];
    for (int i = 0; i < rank; i++) size[i] = 1;
    size[0] = 2;
    size[rank - 1] = 3;
    td_ints sizes = {size, rank};
    return td_reshape(td_arange(cx, 0.0, 6.0), sizes);
}

TEST(pointwise_ops_work_at_every_rank) {
    td_ctx *cx = td_open();

    for (int rank = 2; rank <= TD_MAX_RANK; rank++) {
        td_scope_begin(cx, "rank");
        td_tensor *x = of_rank(cx, rank), *y = td_transpose(x, 0, -1);
        CHECK(td_rank(x) == rank);
        CHECK_VALUES(td_add(x, x), 0, 2, 4, 6, 8, 10);
        CHECK_VALUES(td_mul(y, 2), 0, 6, 2, 8, 4, 10);
        CHECK(td_numel(td_add(x, y)) == (rank == 2 ? 0 : 0) || !td_ok(cx));
        td_clear(cx);
        td_scope_end(cx, "rank", NULL);
    }
    td_close(cx);
}

TEST(reductions_work_at_every_rank) {
    td_ctx *cx = td_open();

    for (int rank = 2; rank <= TD_MAX_RANK; rank++) {
        td_scope_begin(cx, "rank");
        td_tensor *x = of_rank(cx, rank);
        CHECK_VALUES(td_sum(x, TD_DIMS(0)), 3, 5, 7);
        CHECK_VALUES(td_sum(x, TD_DIMS(-1), true), 3, 12);
        CHECK_VALUES(td_amax(x, TD_DIMS(0, -1)), 5);
        CHECK_VALUES(td_mean(x), 2.5);
        CHECK_VALUES(td_cumsum(x, 0), 0, 1, 2, 3, 5, 7);
        CHECK(td_rank(td_softmax(x, -1)) == rank);
        td_scope_end(cx, "rank", NULL);
    }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(views_and_copies_work_at_every_rank) {
    td_ctx *cx = td_open();

    for (int rank = 2; rank <= TD_MAX_RANK; rank++) {
        td_scope_begin(cx, "rank");
        td_tensor *x = of_rank(cx, rank), *t = td_movedim(x, TD_DIMS(0), TD_DIMS(-1));
        CHECK(td_size(t, -1) == 2 && td_rank(t) == rank);
        CHECK_VALUES(td_contiguous(t), 0, 3, 1, 4, 2, 5);
        CHECK_VALUES(td_select(x, 0, 1), 3, 4, 5);
        CHECK_VALUES(td_squeeze(x), 0, 1, 2, 3, 4, 5);
        CHECK_VALUES(td_flip(x, TD_DIMS(0)), 3, 4, 5, 0, 1, 2);
        CHECK(td_size(td_cat(TD_LIST(x, x), 0), 0) == 4);
        td_scope_end(cx, "rank", NULL);
    }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(gradients_flow_at_rank_twenty) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_set_requires_grad(td_clone(of_rank(cx, 20)), true);

    CHECK(td_backward(td_sum(td_mul(td_transpose(x, 0, 19), td_transpose(x, 0, 19)))));

    CHECK_VALUES(td_grad_of(x), 0, 2, 4, 6, 8, 10);
    td_close(cx);
}

TEST(a_rank_above_the_limit_is_refused) {
    td_ctx *cx = td_open();
    int64_t size[TD_MAX_RANK + 1];
    td_ints sizes = {size, TD_MAX_RANK + 1};
    for (int i = 0; i <= TD_MAX_RANK; i++) size[i] = 1;

    CHECK(td_is_nil(td_zeros(cx, sizes)));
    CHECK(td_error(cx) == TD_E_SHAPE);
    td_clear(cx);
    CHECK(td_is_nil(td_from(cx, TD_F32, sizes, size)));
    CHECK_FAILS(cx, TD_E_SHAPE, "td_from: 33 dims; a tensor has at most 32");
    CHECK(td_is_nil(td_reshape(td_zeros(cx, TD_SHAPE(1)), sizes)));
    CHECK(!td_ok(cx));
    td_clear(cx);
    CHECK(td_is_nil(td_expand(td_zeros(cx, TD_SHAPE(1)), sizes)));
    CHECK(!td_ok(cx));
    td_clear(cx);
    td_tensor *full =
        td_reshape(td_zeros(cx, TD_SHAPE(1)), ((td_ints){size, TD_MAX_RANK}));
    CHECK_OK(cx);
    CHECK(td_is_nil(td_unsqueeze(full, 0)));
    CHECK(!td_ok(cx));
    td_clear(cx);
    CHECK(td_is_nil(td_stack(TD_LIST(full, full), 0)));
    CHECK(!td_ok(cx));
    td_clear(cx);
    CHECK(td_is_nil(td_one_hot(td_to(full, TD_I64), 3)));
    CHECK(!td_ok(cx));
    td_clear(cx);
    CHECK(td_is_nil(td_unfold(full, 0, 1, 1)));
    CHECK(!td_ok(cx));

    td_close(cx);
}

TEST(empty_tensors_pass_through_every_kind_of_op) {
    td_ctx    *cx = td_open();
    td_tensor *e = td_zeros(cx, TD_SHAPE(0, 3)), *list[4];

    CHECK_SHAPE(td_add(e, 1), 0, 3);
    CHECK_SHAPE(td_add(e, td_ones(cx, TD_SHAPE(3))), 0, 3);
    CHECK_SHAPE(td_add(e, td_ones(cx, TD_SHAPE(1, 1))), 0, 3);
    CHECK_VALUES(td_sum(e, TD_DIMS(0)), 0, 0, 0);
    CHECK_VALUES(td_prod(e), 1);
    CHECK_SHAPE(td_sum(e, TD_DIMS(1)), 0);
    CHECK(isnan(td_item(td_mean(e))));
    CHECK_SHAPE(td_t(e), 3, 0);
    CHECK_SHAPE(td_reshape(e, TD_SHAPE(5, 0, 2)), 5, 0, 2);
    CHECK_SHAPE(td_matmul(e, td_ones(cx, TD_SHAPE(3, 4))), 0, 4);
    CHECK_VALUES(td_matmul(td_zeros(cx, TD_SHAPE(2, 0)), td_zeros(cx, TD_SHAPE(0, 2))),
                 0, 0, 0, 0);
    CHECK_SHAPE(td_cat(TD_LIST(e, td_ones(cx, TD_SHAPE(2, 3))), 0), 2, 3);
    CHECK_SHAPE(td_softmax(e, 0), 0, 3);
    CHECK_SHAPE(td_index_select(td_ones(cx, TD_SHAPE(4)), 0,
                                td_zeros(cx, TD_SHAPE(0), TD_I64)),
                0);
    CHECK_SHAPE(td_nonzero(e), 0, 2);
    CHECK_SHAPE(td_slice(td_ones(cx, TD_SHAPE(4)), 0, td_value_int(3), td_value_int(3)),
                0);
    CHECK(td_split(e, 1, 1, list, 4) == 3);
    CHECK_SHAPE(list[2], 0, 1);
    td_add_(e, 1);
    CHECK(td_version(e) == 1);
    CHECK(td_is_contiguous(e));

    CHECK_OK(cx);
    td_close(cx);
}

TEST(extremes_of_nothing_are_refused) {
    td_ctx    *cx = td_open();
    td_tensor *e = td_zeros(cx, TD_SHAPE(0, 3));

    CHECK(td_is_nil(td_amax(e, TD_DIMS(0))));
    CHECK(!td_ok(cx));
    td_clear(cx);
    CHECK(td_is_nil(td_argmax(e)));
    CHECK(!td_ok(cx));
    td_clear(cx);
    CHECK_SHAPE(td_amax(e, TD_DIMS(1)), 0); /* no row, but rows of three */
    CHECK_OK(cx);

    td_close(cx);
}

TEST(gradients_of_empty_tensors_are_empty) {
    td_ctx    *cx = td_open();
    td_tensor *e = td_set_requires_grad(td_zeros(cx, TD_SHAPE(0, 3)), true);

    CHECK(td_backward(td_sum(td_mul(td_exp(e), e))));

    CHECK_SHAPE(td_grad_of(e), 0, 3);
    td_close(cx);
}

TEST(sizes_whose_product_overflows_are_refused) {
    td_ctx *cx = td_open();
    int64_t big = (int64_t)1 << 40;

    CHECK(td_is_nil(td_zeros(cx, TD_SHAPE(big, big))));
    CHECK_FAILS(cx, TD_E_SHAPE, "too many elements");
    CHECK(td_is_nil(td_empty(cx, TD_SHAPE(INT64_MAX))));
    CHECK_FAILS(cx, TD_E_SHAPE, "too many elements");
    CHECK(td_is_nil(td_empty(cx, TD_SHAPE((int64_t)1 << 62, 4))));
    CHECK_FAILS(cx, TD_E_SHAPE, "too many elements");
    CHECK(td_is_nil((td_from)(cx, TD_F64, TD_SHAPE((int64_t)1 << 60), &big)));
    CHECK_FAILS(cx, TD_E_SHAPE, "too many elements");
    td_tensor *wide = td_expand(td_zeros(cx, TD_SHAPE(1)), TD_SHAPE((int64_t)1 << 61));
    CHECK_OK(cx);
    CHECK(td_is_nil(td_add(wide, 1)));
    CHECK_FAILS(cx, TD_E_SHAPE, "too many elements");
    CHECK(td_is_nil(td_cat(TD_LIST(wide, wide, wide), 0)));
    CHECK(!td_ok(cx));
    td_clear(cx);
    CHECK(td_is_nil(td_expand(wide, TD_SHAPE(1024, (int64_t)1 << 61))) || td_ok(cx));
    td_clear(cx);
    CHECK(td_is_nil(td_repeat(td_zeros(cx, TD_SHAPE(4)), TD_SHAPE((int64_t)1 << 61))));
    CHECK(!td_ok(cx));

    td_close(cx);
}

/* Sums and products of sizes saturate at 2^62; beside a size of 0 that must not pass
 * for the true size. PyTorch refuses strides that overflow. */
TEST(an_empty_tensor_with_a_size_or_stride_that_overflows_is_refused) {
    td_ctx       *cx = td_open();
    const int64_t huge = (int64_t)1 << 62;
    td_tensor    *empty = td_zeros(cx, TD_SHAPE(3, 0));

    CHECK(td_is_nil(td_repeat(empty, TD_SHAPE(huge, 1))));
    CHECK_FAILS(cx, TD_E_SHAPE, "too many elements");
    CHECK(td_is_nil(td_repeat(empty, TD_SHAPE(huge / 2, 1))));
    CHECK_FAILS(cx, TD_E_SHAPE, "too many elements");
    CHECK(td_is_nil(td_zeros(cx, TD_SHAPE(0, huge - 1, 2))));
    CHECK_FAILS(cx, TD_E_SHAPE, "too many elements");
    CHECK(
        td_is_nil(td_reshape(td_zeros(cx, TD_SHAPE(0, 3)), TD_SHAPE(0, 4, huge - 1))));
    CHECK_FAILS(cx, TD_E_SHAPE, "too many elements");
    CHECK(td_is_nil(td_as_strided(empty, TD_SHAPE(0), TD_DIMS(1), INT64_MAX)));
    CHECK_FAILS(cx, TD_E_SHAPE, "too many elements");
    CHECK_SHAPE(td_repeat(empty, TD_SHAPE(huge / 4, 1)), 3 * (huge / 4), 0);
    CHECK_SHAPE(td_zeros(cx, TD_SHAPE(0, huge - 1)), 0, huge - 1);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(more_memory_than_there_is_is_an_error) {
    td_ctx *cx = td_open();

    CHECK(td_is_nil(td_empty(cx, TD_SHAPE((int64_t)1 << 50))));
    CHECK_FAILS(cx, TD_E_MEMORY,
                "out of memory: 4503599627370496 bytes for a tensor "
                "f32[1125899906842624] could not be allocated; tensors hold ");
    CHECK_VALUES(td_add(td_ones(cx, TD_SHAPE(2)), 1), 2, 2);

    td_close(cx);
}

TEST(negative_sizes_are_refused_also_extreme_ones) {
    static const int64_t sizes[] = {-1,
                                    -5,
                                    INT64_MIN,
                                    INT64_MIN + 1,
                                    -((int64_t)1 << 62),
                                    -((int64_t)1 << 62) - 1,
                                    -((int64_t)1 << 62) + 1};
    td_ctx              *cx = td_open();
    td_tensor           *x = td_zeros(cx, TD_SHAPE(4));

    for (int i = 0; i < TD_COUNT(sizes); i++) {
        int64_t n = sizes[i];
        CHECK(td_is_nil(td_zeros(cx, TD_SHAPE(2, n))));
        CHECK(td_error(cx) == TD_E_SHAPE);
        td_clear(cx);
        CHECK(td_is_nil(td_reshape(x, TD_SHAPE(n, n))));
        CHECK(!td_ok(cx));
        td_clear(cx);
        if (n != -1) CHECK(td_is_nil(td_expand(x, TD_SHAPE(n, 4))));
        td_clear(cx);
        CHECK(td_is_nil(td_as_strided(x, TD_SHAPE(2), TD_DIMS(n))));
        CHECK(!td_ok(cx));
        td_clear(cx);
        CHECK(td_is_nil(td_as_strided(x, TD_SHAPE(n), TD_DIMS(1))));
        CHECK(!td_ok(cx));
        td_clear(cx);
        CHECK(td_is_nil(td_narrow(x, 0, 0, n)));
        CHECK(!td_ok(cx));
        td_clear(cx);
        CHECK(td_is_nil(td_repeat(x, TD_SHAPE(n))));
        CHECK(!td_ok(cx));
        td_clear(cx);
        CHECK(td_is_nil(td_rand(cx, TD_SHAPE(n))));
        CHECK(!td_ok(cx));
        td_clear(cx);
        td_resize_(x, TD_SHAPE(n));
        CHECK(!td_ok(cx));
        td_clear(cx);
        CHECK_SHAPE(x, 4);
    }
    td_close(cx);
}

TEST(extreme_integers_in_every_argument_are_harmless) {
    static const int64_t v[] = {
        INT64_MIN,        INT64_MIN + 1, -((int64_t)1 << 62) - 1, -9, 9,
        (int64_t)1 << 62, INT64_MAX};
    td_ctx    *cx = td_open();
    td_tensor *out[8];

    for (int i = 0; i < TD_COUNT(v); i++) {
        int64_t n = v[i];
        td_scope_begin(cx, "try");
        td_tensor *x = td_arange(cx, 0, 12), *m = td_reshape(x, TD_SHAPE(3, 4));
        td_slice(x, 0, td_value_int(n), td_value_int(n), 1);
        td_slice(x, 0, td_value_int(0), td_value_int(n), 2);
        td_slice(x, 0, td_value_int(n), td_value_int(12), 1);
        td_slice(x, 0, td_value_int(0), td_value_int(12), n);
        td_select(x, 0, n);
        td_narrow(x, 0, n, 1);
        td_narrow(x, 0, 1, n);
        td_unfold(x, 0, n, 1);
        td_unfold(x, 0, 1, n);
        td_split(x, n, 0, out, 8);
        td_chunk(x, n, 0, out, 8);
        td_diagonal(m, n, 0, 1);
        td_tril(m, n);
        td_triu(m, n);
        td_roll(m, TD_DIMS(n), TD_DIMS(0));
        td_as_strided(x, TD_SHAPE(2), TD_DIMS(1), td_value_int(n));
        td_as_strided(x, TD_SHAPE(2), TD_DIMS(n));
        td_movedim(m, TD_DIMS(n), TD_DIMS(0));
        td_one_hot(x, n < 100 ? n : -1);
        td_permute(m, TD_DIMS(n, 0));
        td_flatten(m, n, -1);
        td_cumsum(m, n);
        td_topk(x, n, 0, true, true, NULL);
        td_pad(td_to(m, TD_F32), TD_DIMS(n, 1));
        td_pad(td_to(m, TD_F32), TD_DIMS(n, n));
        td_squeeze_dim(m, n);
        td_unsqueeze(m, n);
        td_scope_end(cx, "try", NULL);
        td_clear(cx);
    }
    td_close(cx);
}

TEST(broadcasting_grows_leading_dims_only) {
    td_ctx *cx = td_open();

    CHECK_SHAPE(td_add(td_ones(cx, TD_SHAPE(3, 1)), td_ones(cx, TD_SHAPE(2, 1, 4))), 2,
                3, 4);
    CHECK_SHAPE(td_add(td_ones(cx, TD_SHAPE()), td_ones(cx, TD_SHAPE(0))), 0);
    CHECK(td_is_nil(td_add(td_ones(cx, TD_SHAPE(3, 2)), td_ones(cx, TD_SHAPE(3)))));
    CHECK_FAILS(cx, TD_E_SHAPE,
                "add: cannot broadcast f32[3,2] with f32[3]: dim -1 is "
                "2 and 3; sizes must be equal or 1");
    CHECK(td_is_nil(td_add(td_ones(cx, TD_SHAPE(0)), td_ones(cx, TD_SHAPE(2)))));
    CHECK_FAILS(cx, TD_E_SHAPE, "add: cannot broadcast f32[0] with f32[2]");

    td_close(cx);
}

TEST(fresh_results_keep_the_order_of_dims) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_t(td_ones(cx, TD_SHAPE(2, 3)));

    CHECK(td_stride(td_add(x, 1), 0) == 1);
    CHECK(td_stride(td_zeros_like(x), 0) == 1);
    CHECK(td_stride(td_clone(x), 1) == 3);
    CHECK(td_stride(td_contiguous(x), 0) == 2);
    CHECK(td_stride(td_add(x, td_ones(cx, TD_SHAPE(3, 2))), 0) == 1);

    td_close(cx);
}

TEST(overlap_of_two_tensors_is_decided_by_their_bytes) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(8));
    td_tensor *a = td_narrow(x, 0, 0, 4), *b = td_narrow(x, 0, 2, 4),
              *c = td_narrow(x, 0, 4, 4);

    CHECK(td__overlap(x, x) == TD_OVERLAP_FULL);
    CHECK(td__overlap(a, td_narrow(x, 0, 0, 4)) == TD_OVERLAP_FULL);
    CHECK(td__overlap(a, b) == TD_OVERLAP_PARTIAL);
    CHECK(td__overlap(a, c) == TD_OVERLAP_NO);
    CHECK(td__overlap(x, td_view(x, TD_SHAPE(2, 4))) == TD_OVERLAP_PARTIAL);
    CHECK(td__overlap(td_view(x, TD_SHAPE(2, 4)), x) == TD_OVERLAP_PARTIAL);
    CHECK(td__overlap(x, td_clone(x)) == TD_OVERLAP_NO);
    CHECK(td__overlaps_itself(td_expand(td_zeros(cx, TD_SHAPE(1)), TD_SHAPE(3))));
    CHECK(!td__overlaps_itself(td_expand(td_zeros(cx, TD_SHAPE(1)), TD_SHAPE(1))));

    td_close(cx);
}

TEST(a_reshape_is_a_view_whenever_strides_allow) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_reshape(td_arange(cx, 0, 24), TD_SHAPE(2, 3, 4));
    td_tensor *t = td_transpose(x, 0, 1);

    CHECK(td_same_storage(td_reshape(x, TD_SHAPE(6, 4)), x));
    CHECK(td_same_storage(td_reshape(t, TD_SHAPE(3, 2, 2, 2)), x));
    CHECK(!td_same_storage(td_reshape(t, TD_SHAPE(6, 4)), x));
    CHECK(td_is_nil(td_view(t, TD_SHAPE(6, 4))));
    CHECK(!td_ok(cx));
    td_clear(cx);
    CHECK(
        td_same_storage(td_reshape(td_expand(td_ones(cx, TD_SHAPE(1)), TD_SHAPE(4, 6)),
                                   TD_SHAPE(24)),
                        x) == false);

    td_close(cx);
}
