/* fft.c -- Fourier transforms of many sizes and layouts against sums, round trips,
 * plans that leave the cache, threads, and messages. tests/ops/samples_fft.def has the
 * rest. */
#include "op_help.h"

#include "base/base.h"
#include "kernels/fft.h"

#include <string.h>

#define PI 3.14159265358979323846

static const int64_t sizes[] = {81,  97,  121, 127, 128, 169, 200, 210, 243, 254, 256,
                                257, 258, 289, 343, 360, 500, 509, 512, 521, 529, 620};
/* Too large for sums: passes alone, matrices, and Bluestein's algorithm over both. */
static const int64_t large[] = {1000, 1021, 2048, 2049, 2053,  4096,
                                4099, 5000, 8192, 9973, 16384, 65537};

/* exp(-2 pi i j k / n), by j and k. */
static td_tensor *roots(td_ctx *cx, int64_t n) {
    td_tensor *j = td_arange(cx, 0, n);
    td_tensor *turns = td_remainder(td_mul(td_unsqueeze(j, 1), j), n);
    td_tensor *angle = td_mul(td_to(turns, TD_F64), -2 * PI / (double)n);
    return td_polar(td_ones_like(angle), angle);
}

static td_tensor *noise(td_ctx *cx, int64_t rows, int64_t n) {
    td_tensor *re = td_to(td_randn(cx, TD_SHAPE(rows, n)), TD_F64);
    return td_complex(re, td_to(td_randn(cx, TD_SHAPE(rows, n)), TD_F64));
}

/* The largest distance of a and b. */
static double apart(td_tensor *a, td_tensor *b) {
    return td_item(td_max(td_abs(td_sub(a, b))));
}

static void against_sums(td_ctx *cx, int64_t rows, int64_t n) {
    td_tensor *x = noise(cx, rows, n), *w = roots(cx, n), *want = td_matmul(x, w);
    td_tensor *across = td_fft_fft(td_contiguous(td_t(x)), TD_NONE, 0);
    td_tensor *half, *re = td_contiguous(td_real(x));
    double     tol = 1e-12 * (double)n;
    TD_CHECK_THAT(apart(td_fft_fft(x), want) < tol, "fft of %lld", (long long)n);
    TD_CHECK_THAT(apart(td_t(across), want) < tol, "fft over dim 0 of %lld",
                  (long long)n);
    TD_CHECK_THAT(apart(td_fft_ifft(want), x) < tol, "ifft of %lld", (long long)n);
    half = td_slice(td_matmul(td_complex(re, td_zeros_like(re)), w), 1, 0, n / 2 + 1);
    TD_CHECK_THAT(apart(td_fft_rfft(re), half) < tol, "rfft of %lld", (long long)n);
    TD_CHECK_THAT(apart(td_fft_irfft(half, n), re) < tol, "irfft of %lld",
                  (long long)n);
}

TEST(transforms_of_all_small_sizes_equal_sums) {
    td_ctx *cx = td_open();
    for (int64_t n = 1; n <= 80 + TD_COUNT(sizes); n++) {
        int64_t size = n <= 80 ? n : sizes[n - 81];
        for (int64_t rows = 1; rows <= 19; rows += 9) {
            td_scope_begin(cx, "size");
            against_sums(cx, rows, size);
            td_scope_end(cx, "size", NULL);
        }
    }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(transforms_of_large_sizes_are_undone_and_keep_the_sum_of_squares) {
    td_ctx *cx = td_open();
    for (int i = 0; i < TD_COUNT(large); i++)
        for (int64_t rows = 1; rows <= 9; rows += 8) {
            td_scope_begin(cx, "size");
            td_tensor *x = noise(cx, rows, large[i]);
            td_tensor *y = td_fft_fft(x, TD_NONE, -1, "ortho"), *re = td_real(x);
            double     was = td_item(td_norm(x)), is = td_item(td_norm(y));
            CHECK(apart(td_fft_ifft(y, TD_NONE, -1, "ortho"), x) < 1e-12);
            CHECK(td_test_near(is, was, 1e-12));
            CHECK(apart(td_slice(td_fft_fft(re), 1, 0, large[i] / 2 + 1),
                        td_fft_rfft(re)) == 0);
            CHECK(apart(td_fft_irfft(td_fft_rfft(re), large[i]), re) < 1e-12);
            CHECK(apart(td_to(td_fft_fft(td_to(x, TD_C64)), TD_C128), td_fft_fft(x)) <
                  1e-5 * was);
            td_scope_end(cx, "size", NULL);
        }
    CHECK_OK(cx);
    td_close(cx);
}

/* The same elements in five layouts. */
TEST(transforms_do_not_depend_on_the_layout_of_their_argument) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_reshape(noise(cx, 12, 20 * 18), TD_SHAPE(12, 20, 18));
    for (int d = 0; d < 3; d++) {
        td_tensor *want = td_fft_fft(x, TD_NONE, d);
        td_tensor *t = td_contiguous(td_transpose(x, d, (d + 1) % 3));
        t = td_fft_fft(td_transpose(t, d, (d + 1) % 3), TD_NONE, d);
        CHECK(apart(t, want) < 1e-12);
        td_tensor *gaps = td_slice(td_repeat_interleave(x, 2, 1), 1, 0, 40, 2);
        CHECK(apart(td_fft_fft(gaps, TD_NONE, d), want) < 1e-12);
        td_tensor *parts = td_complex(td_real(x), td_imag(x));
        CHECK(apart(td_fft_fft(parts, TD_NONE, d), want) == 0);
    }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(results_do_not_depend_on_the_number_of_threads) {
    td_ctx *cx = td_open();
    for (int i = 0; i < TD_COUNT(sizes); i++) {
        td_scope_begin(cx, "size");
        td_tensor *x = noise(cx, 70, sizes[i]);
        td__pool_resize(1);
        td_tensor *one = td_fft_fft(x), *real = td_fft_rfft(td_real(x));
        td__pool_resize(4);
        CHECK(apart(td_fft_fft(x), one) == 0);
        CHECK(apart(td_fft_rfft(td_real(x)), real) == 0);
        td_scope_end(cx, "size", NULL);
    }
    td__pool_resize(0);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(plans_are_shared_and_leave_the_cache) {
    td_ctx      *cx = td_open();
    td_fft_plan *a = td__fft_plan(360, TD_F64, false);
    td_fft_plan *b = td__fft_plan(360, TD_F64, false);
    CHECK(a && a == b);
    td__fft_release(b);
    for (int64_t n = 1; n < 300; n++) {
        td_fft_plan *p = td__fft_plan(n, TD_F32, n % 2);
        CHECK(p && p->n == n && p->dt == TD_F32);
        td__fft_release(p);
    }
    CHECK(a->n == 360 && a->refs == 1); /* it is in use */
    td__fft_release(a);
    td_fft_plan *wide = td__fft_plan(1 << 22, TD_F64, true); /* beyond the limit */
    CHECK(wide != NULL);
    td__fft_release(wide);
    td_tensor *x = noise(cx, 3, 360);
    CHECK(apart(td_fft_ifft(td_fft_fft(x)), x) < 1e-12);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(transforms_of_wrong_arguments_say_what_is_wrong) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(2, 3)), *z = td_complex(x, x);
    td_fft_rfft(z);
    CHECK_FAILS(cx, TD_E_DTYPE, "fft_rfft: self must be real, got c64[2,3]");
    td_fft_ihfftn(z);
    CHECK_FAILS(cx, TD_E_DTYPE, "fft_ihfftn: self must be real, got c64[2,3]");
    td_fft_fft(x, 0);
    CHECK_FAILS(cx, TD_E_SHAPE, "fft_fft: a transform needs at least 1 element, got 0");
    td_fft_fft(x, TD_NONE, -1, "both");
    CHECK_FAILS(cx, TD_E_ARG,
                "fft_fft: norm must be backward, forward or ortho, got \"both\"");
    td_fft_fft(td_to(x, TD_F16));
    CHECK_FAILS(cx, TD_E_DTYPE, "no transform of f16[2,3]; convert it to f32");
    td_op__fft_r2c(z, TD_DIMS(0), 0, true);
    CHECK_FAILS(cx, TD_E_DTYPE, "_fft_r2c: ");
    td_op__fft_c2c(z, TD_DIMS(0, 0), 0, true);
    CHECK_FAILS(cx, TD_E_ARG, "dim [0,0] must name dims of self c64[2,3], each once");
    td_op__fft_c2r(z, TD_DIMS(1), 0, 8);
    CHECK_FAILS(cx, TD_E_SHAPE, "must have last_dim_size / 2 + 1 elements");
    td_istft(z, 4, 4, TD_NONE, td_zeros(cx, TD_SHAPE(4)));
    CHECK_FAILS(cx, TD_E_SHAPE, "must have 3 frequencies for n_fft 4");
    td_istft(td_complex(td_zeros(cx, TD_SHAPE(3, 3)), td_zeros(cx, TD_SHAPE(3, 3))), 4,
             4, TD_NONE, td_zeros(cx, TD_SHAPE(4)));
    CHECK_FAILS(cx, TD_E_ARG, "the squares of the windows add up to 0 at element 0");
    td_close(cx);
}
