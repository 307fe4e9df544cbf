/* print.c -- tensors as text. The expected strings are PyTorch's, but for the
 * names of dtypes. */
#include "core/core.h"
#include "tandem/tandem.h"
#include "td_test.h"

#include <stdlib.h>

static const char *shown(td_tensor *t) {
    static char s[8192];
    CHECK(td_format(t, s, sizeof s) < sizeof s);
    return s;
}

#define DOUBLES(...) ((const double[]){__VA_ARGS__})
static td_tensor *f32(td_ctx *cx, td_ints shape, const double *v) {
    td_tensor *t = td_zeros(cx, shape);
    td_write(t, TD_F64, v, (size_t)td_numel(t) * sizeof *v);
    return t;
}

TEST(columns_are_aligned) {
    td_ctx *cx = td_open();

    CHECK_STR(shown(f32(cx, TD_SHAPE(2, 2), DOUBLES(1, 2.5, -3, 40))),
              "tensor([[ 1.0000,  2.5000],\n        [-3.0000, 40.0000]])");
    CHECK_STR(shown(f32(cx, TD_SHAPE(3), DOUBLES(1, -20, 3))),
              "tensor([  1., -20.,   3.])");
    CHECK_STR(shown(td_arange(cx, 8, 12)), "tensor([ 8,  9, 10, 11])");
    td_close(cx);
}

TEST(magnitudes_far_apart_are_written_scientifically) {
    td_ctx *cx = td_open();

    CHECK_STR(shown(f32(cx, TD_SHAPE(2), DOUBLES(1e-5, 1))),
              "tensor([1.0000e-05, 1.0000e+00])");
    CHECK_STR(shown(f32(cx, TD_SHAPE(2), DOUBLES(2e8, 1e8))),
              "tensor([2.0000e+08, 1.0000e+08])");
    CHECK_STR(shown(f32(cx, TD_SHAPE(2), DOUBLES(0.5, 501))),
              "tensor([5.0000e-01, 5.0100e+02])");
    td_close(cx);
}

TEST(what_is_not_finite_does_not_widen_columns) {
    td_ctx *cx = td_open();

    CHECK_STR(shown(f32(cx, TD_SHAPE(4), DOUBLES(1.5, NAN, INFINITY, -INFINITY))),
              "tensor([1.5000,    nan,    inf,   -inf])");
    CHECK_STR(shown(f32(cx, TD_SHAPE(2), DOUBLES(1, -NAN))), "tensor([1., nan])");
    CHECK_STR(shown(f32(cx, TD_SHAPE(2), DOUBLES(NAN, NAN))), "tensor([nan, nan])");
    CHECK_STR(shown(f32(cx, TD_SHAPE(2), DOUBLES(0, -0.0))), "tensor([0., -0.])");
    td_close(cx);
}

TEST(scalars_bools_and_empty_tensors) {
    td_ctx *cx = td_open();

    CHECK_STR(shown(td_full(cx, TD_SHAPE(), 2.5)), "tensor(2.5000)");
    CHECK_STR(shown(td_full(cx, TD_SHAPE(), 7)), "tensor(7)");
    CHECK_STR(shown(td_eye(cx, 2, TD_NONE, TD_BOOL)),
              "tensor([[ True, False],\n        [False,  True]])");
    CHECK_STR(shown(td_zeros(cx, TD_SHAPE(0))), "tensor([])");
    CHECK_STR(shown(td_zeros(cx, TD_SHAPE(0), TD_I64)), "tensor([], dtype=i64)");
    CHECK_STR(shown(td_zeros(cx, TD_SHAPE(2, 0))), "tensor([], size=(2, 0))");
    CHECK_STR(shown(td_nil(cx)), "nil");
    td_close(cx);
}

TEST(a_dtype_that_items_do_not_show_is_named) {
    td_ctx *cx = td_open();

    CHECK_STR(shown(td_ones(cx, TD_SHAPE(2), TD_F64)), "tensor([1., 1.], dtype=f64)");
    CHECK_STR(shown(td_ones(cx, TD_SHAPE(2), TD_BF16)), "tensor([1., 1.], dtype=bf16)");
    CHECK_STR(shown(td_ones(cx, TD_SHAPE(2), TD_U8)), "tensor([1, 1], dtype=u8)");
    td_tensor *w = td_ones(cx, TD_SHAPE(1));
    td_set_requires_grad(w, true);
    CHECK_STR(shown(w), "tensor([1.], requires_grad=True)");
    CHECK_STR(shown(td_mul(w, 2.0)), "tensor([2.], grad_fn=<mul>)");
    td_close(cx);
}

TEST(large_tensors_are_summed_up) {
    td_ctx *cx = td_open();

    CHECK_STR(shown(td_arange(cx, 0, 1001)),
              "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
    CHECK_STR(shown(td_zeros(cx, TD_SHAPE(1000, 2))),
              "tensor([[0., 0.],\n        [0., 0.],\n        [0., 0.],\n        ...,\n"
              "        [0., 0.],\n        [0., 0.],\n        [0., 0.]])");
    td_print_options(cx, 2, 1, 3, -1);
    CHECK_STR(shown(td_full(cx, TD_SHAPE(4), 0.125)), "tensor([0.12,  ..., 0.12])");
    td_print_options(cx, -1, 0, -1, -1);
    CHECK_STR(shown(td_full(cx, TD_SHAPE(4), 0.125)), "tensor([...], size=(4,))");
    td_close(cx);
}

TEST(blocks_are_parted_by_empty_lines) {
    td_ctx *cx = td_open();

    CHECK_STR(shown(td_zeros(cx, TD_SHAPE(2, 1, 2), TD_I64)),
              "tensor([[[0, 0]],\n\n        [[0, 0]]])");
    td_close(cx);
}

TEST(long_rows_and_suffixes_wrap) {
    td_ctx *cx = td_open();
    td_print_options(cx, -1, -1, -1, 20);

    CHECK_STR(shown(td_zeros(cx, TD_SHAPE(5), TD_I64)),
              "tensor([0, 0, 0, 0,\n        0])");
    CHECK_STR(shown(td_zeros(cx, TD_SHAPE(3), TD_I16)),
              "tensor([0, 0, 0],\n       dtype=i16)");
    td_close(cx);
}

TEST(strides_are_followed) {
    td_ctx *cx = td_open();

    td_tensor *x = td_reshape(td_arange(cx, 0, 6), TD_SHAPE(2, 3));

    CHECK_STR(shown(td_t(x)), "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])");
    CHECK_STR(shown(td_select(x, 1, 1)), "tensor([1, 4])");
    td_close(cx);
}

TEST(a_short_buffer_gets_what_fits) {
    td_ctx *cx = td_open();
    char    s[8];

    CHECK(td_format(td_ones(cx, TD_SHAPE(2)), s, sizeof s) ==
          strlen("tensor([1., 1.])"));
    CHECK_STR(s, "tensor(");
    CHECK(td_format(td_ones(cx, TD_SHAPE(2)), NULL, 0) == strlen("tensor([1., 1.])"));
    td_close(cx);
}

TEST(a_tensor_without_bytes_shows_its_sizes) {
    td_ctx *cx = td_open();
    cx->takes_fakes = true;
    td_meta m = {.dtype = TD_F64, .rank = 2, .size = {2, 3}};

    CHECK_STR(shown(td__tensor_make(cx, &m, true)),
              "tensor(..., size=(2, 3), dtype=f64)");
    td_close(cx);
}

TEST(printing_without_memory_is_an_error) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(20, 20));
    bool       ok = false;

    for (int64_t n = 0; !ok && n < 100; n++) {
        td__fault_arm(n, false);
        size_t want = td_format(x, NULL, 0);
        td__fault_arm(-1, false);
        ok = td_ok(cx);
        CHECK(ok || (want == 0 && td_error(cx) == TD_E_MEMORY));
        td_clear(cx);
    }
    CHECK(ok);
    td_close(cx);
}
