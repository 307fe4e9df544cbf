/* create.c -- creation: sizes, dtypes, values and refusals, as PyTorch has them. */
#include "tandem/tandem.h"
#include "td_test.h"

#include <stdlib.h>

/* The elements of t as text, so that one line checks them all. */
static const char *shown(td_tensor *t) {
    static char s[1024];
    td_format(t, s, sizeof s);
    return s;
}

TEST(full_takes_its_dtype_from_the_value) {
    td_ctx *cx = td_open();

    CHECK(td_dtype_of(td_full(cx, TD_SHAPE(2), 3)) == TD_I64);
    CHECK(td_dtype_of(td_full(cx, TD_SHAPE(2), 3.0)) == TD_F32);
    CHECK(td_dtype_of(td_full(cx, TD_SHAPE(2), (bool)true)) == TD_BOOL);
    CHECK(td_dtype_of(td_full(cx, TD_SHAPE(2), 3, TD_F16)) == TD_F16);
    CHECK(td_dtype_of(td_scalar_tensor(cx, 3)) == TD_F32);
    CHECK_STR(shown(td_full(cx, TD_SHAPE(2), 2.7, TD_I64)), "tensor([2, 2])");
    CHECK_STR(shown(td_full(cx, TD_SHAPE(2), -1, TD_U8)),
              "tensor([255, 255], dtype=u8)");
    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_value_the_dtype_cannot_hold_is_refused) {
    td_ctx *cx = td_open();

    CHECK(td_is_nil(td_full(cx, TD_SHAPE(2), 300, TD_U8)));
    CHECK_MESSAGE(cx, "full: value = 300 cannot be represented in u8");
    td_clear(cx);
    CHECK(td_is_nil(td_full(cx, TD_SHAPE(2), 1e40, TD_F32)));
    td_clear(cx);
    CHECK(td_is_nil(td_full(cx, TD_SHAPE(2), (double)NAN, TD_I64)));
    td_clear(cx);
    CHECK(td_is_nil(td_full(cx, TD_SHAPE(2), -0.1, TD_U8)));
    td_clear(cx);
    CHECK(td_item(td_full(cx, TD_SHAPE(1), 1e6, TD_F16)) == INFINITY);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(arange_counts_as_pytorch_does) {
    td_ctx *cx = td_open();

    CHECK_STR(shown(td_arange(cx, 1, 4)), "tensor([1, 2, 3])");
    CHECK_STR(shown(td_arange(cx, 0, -5, -2)), "tensor([ 0, -2, -4])");
    CHECK_STR(shown(td_arange(cx, 1, 2.5, 0.5)), "tensor([1.0000, 1.5000, 2.0000])");
    CHECK_STR(shown(td_arange(cx, 3, 3)), "tensor([], dtype=i64)");
    CHECK_STR(shown(td_arange(cx, 0.9, 3.2, 0.5, TD_I32)),
              "tensor([0, 0, 0, 0, 0], dtype=i32)");
    CHECK(td_numel(td_arange(cx, INT64_MIN, INT64_MAX, INT64_MAX)) == 3);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(arange_refuses_what_has_no_range) {
    static const double bad[][3] = {{0, 3, -1},
                                    {0, 3, 0},
                                    {0, INFINITY, 1},
                                    {NAN, 1, 1}};
    td_ctx             *cx = td_open();

    for (int i = 0; i < 4; i++) {
        CHECK(td_is_nil(td_arange(cx, bad[i][0], bad[i][1], bad[i][2])));
        CHECK(td_error(cx) == TD_E_ARG);
        td_clear(cx);
    }
    CHECK(td_is_nil(td_arange(cx, 0, 2, 1, TD_BOOL)));
    CHECK(td_error(cx) == TD_E_DTYPE);
    td_clear(cx);
    CHECK(td_is_nil(td_arange(cx, 0, 1e30)));
    CHECK(td_error(cx) == TD_E_ARG);
    td_close(cx);
}

/* Values PyTorch 2.x gives; the step is counted from the first lane of each vector
 * of eight. */
TEST(a_long_arange_of_fractions_has_pytorchs_bits) {
    td_ctx    *cx = td_open();
    td_tensor *t = td_arange(cx, -16, 7, 0.1);
    float      v[230];

    CHECK(td_read(t, TD_F32, v, sizeof v));

    CHECK(v[160] == 0x1p-50f);
    CHECK(v[0] == -16 && v[10] == -15.0f);
    td_close(cx);
}

TEST(linspace_hits_both_ends) {
    td_ctx *cx = td_open();

    CHECK_STR(shown(td_linspace(cx, 0, 1, 5)),
              "tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])");
    CHECK_STR(shown(td_linspace(cx, 0, 10, 4, TD_I64)), "tensor([ 0,  3,  6, 10])");
    CHECK_STR(shown(td_linspace(cx, 3, 10, 1)), "tensor([3.])");
    CHECK_STR(shown(td_linspace(cx, 3, 10, 0)), "tensor([])");
    CHECK_OK(cx);
    CHECK(td_is_nil(td_linspace(cx, 0, 1, -1)));
    CHECK_MESSAGE(cx, "linspace: steps must not be negative, got -1");
    td_close(cx);
}

TEST(eye_and_triangles) {
    td_ctx *cx = td_open();

    CHECK_STR(shown(td_eye(cx, 2, td_value_int(3), TD_I64)),
              "tensor([[1, 0, 0],\n        [0, 1, 0]])");
    CHECK(td_size(td_eye(cx, 3), 1) == 3);
    CHECK_STR(shown(td_tril_indices(cx, 2, 3, 0)),
              "tensor([[0, 1, 1],\n        [0, 0, 1]])");
    CHECK_STR(shown(td_triu_indices(cx, 2, 3, 1)),
              "tensor([[0, 0, 1],\n        [1, 2, 2]])");
    CHECK(td_size(td_tril_indices(cx, 3, 3, -7), 1) == 0);
    CHECK(td_size(td_triu_indices(cx, 3, 3, -7), 1) == 9);
    CHECK_OK(cx);
    CHECK(td_is_nil(td_eye(cx, -1)));
    CHECK_MESSAGE(cx, "eye: n must not be negative, got -1");
    td_close(cx);
}

TEST(a_like_tensor_keeps_the_order_of_dims) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(4, 6));

    td_tensor *t = td_ones_like(td_t(x));
    td_tensor *gaps = td_zeros_like(td_t(td_slice(x, 1, TD_NONE, TD_NONE, 2)));
    td_tensor *wide =
        td_empty_like(td_expand(td_zeros(cx, TD_SHAPE(3, 1)), TD_SHAPE(3, 4)));

    CHECK_OK(cx);
    CHECK(td_stride(t, 0) == 1 && td_stride(t, 1) == 6);
    CHECK(td_size(gaps, 0) == 3 && td_stride(gaps, 0) == 1 && td_stride(gaps, 1) == 3);
    CHECK(td_stride(wide, 0) == 4 && td_stride(wide, 1) == 1);
    CHECK(td_dtype_of(td_full_like(x, 2, TD_I16)) == TD_I16);
    td_close(cx);
}

TEST(new_tensors_take_the_dtype_only) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(4, 6), TD_F64);

    CHECK(td_dtype_of(td_new_ones(td_t(x), TD_SHAPE(2, 3))) == TD_F64);
    CHECK(td_is_contiguous(td_new_zeros(td_t(x), TD_SHAPE(2, 3))));
    td_tensor *s = td_new_empty_strided(x, TD_SHAPE(2, 3), TD_SHAPE(1, 4));
    CHECK(td_stride(s, 1) == 4 && td_storage_bytes(s) == 10 * sizeof(double));
    CHECK_STR(shown(td_new_full(x, TD_SHAPE(), 7)), "tensor(7., dtype=f64)");
    CHECK_OK(cx);
    td_close(cx);
}

TEST(bad_sizes_and_strides_are_refused) {
    td_ctx *cx = td_open();

    CHECK(td_is_nil(td_zeros(cx, TD_SHAPE(2, -1))));
    CHECK_MESSAGE(cx, "zeros: size -1 of dim 1 must not be negative");
    td_clear(cx);
    CHECK(td_is_nil(td_empty_strided(cx, TD_SHAPE(2, 3), TD_SHAPE(1))));
    CHECK_MESSAGE(
        cx, "empty_strided: size has 2 entries and stride 1; they must have as many");
    td_clear(cx);
    CHECK(td_is_nil(td_empty_strided(cx, TD_SHAPE(2), TD_SHAPE(-1))));
    td_clear(cx);
    CHECK(td_is_nil(td_zeros(cx, TD_SHAPE((int64_t)1 << 40, (int64_t)1 << 40))));
    CHECK(td_error(cx) == TD_E_SHAPE);
    td_close(cx);
}

TEST(empty_and_zero_dim_tensors_can_be_made) {
    td_ctx *cx = td_open();

    CHECK(td_numel(td_zeros(cx, TD_SHAPE(3, 0))) == 0);
    CHECK(td_rank(td_ones(cx, TD_SHAPE())) == 0);
    CHECK(td_item(td_ones(cx, TD_SHAPE(), TD_BOOL)) == 1);
    CHECK(td_size(td_eye(cx, 0), 0) == 0);
    CHECK_OK(cx);
    td_close(cx);
}
