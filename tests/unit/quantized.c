/* quantized.c -- products with weights of 8 and 4 bits: other sizes than the samples,
 * threads, derivatives, compiled calls and the layer. */
#include "tandem/tandem.h"
#include "td_test.h"

#include <math.h>

static td_tensor *ints(td_ctx *cx, int64_t n, int64_t k, int low, int high,
                       td_dtype dt) {
    return td_to(td_randint(cx, low, high, TD_SHAPE(n, k)), dt);
}

/* The largest distance, relative to the largest value. */
static double apart(td_tensor *a, td_tensor *b) {
    a = td_to(a, TD_F64);
    b = td_to(b, TD_F64);
    return td_item(td_amax(td_abs(td_sub(a, b)), TD_ALL)) /
           (td_item(td_amax(td_abs(b), TD_ALL)) + 1e-30);
}

TEST(int8_products_of_any_size) {
    static const int64_t sizes[][3] = {{1, 1, 1},    {1, 7, 33}, {2, 64, 128},
                                       {3, 5, 31},   {4, 9, 64}, {5, 130, 70},
                                       {11, 3, 257}, {0, 4, 8}};
    td_ctx              *cx = td_open();
    for (int i = 0; i < 8; i++)
        for (int half = 0; half < 2; half++) {
            int64_t    m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
            td_dtype   dt = half ? TD_BF16 : TD_F32;
            td_tensor *x = td_to(td_randn(cx, TD_SHAPE(m, k)), dt);
            td_tensor *w = ints(cx, n, k, -128, 128, TD_I8);
            td_tensor *s = td_to(td_rand(cx, TD_SHAPE(n)), dt);
            td_tensor *y = td_weight_int8pack_mm(x, w, s);
            td_tensor *d = td_mul(td_to(w, TD_F64), td_unsqueeze(td_to(s, TD_F64), 1));
            td_tensor *want = td_matmul(td_to(x, TD_F64), td_t(d));
            CHECK_OK(cx);
            CHECK(td_size(y, 0) == m && td_size(y, 1) == n && td_dtype_of(y) == dt);
            if (m) CHECK(apart(y, want) < (half ? 0x1p-7 : 1e-5));
            td_tensor *wt =
                td_contiguous(td_t(w)); /* other strides, the same numbers */
            if (m) CHECK(apart(td_weight_int8pack_mm(x, td_t(wt), s), y) == 0);
        }
    td_close(cx);
}

TEST(int4_products_are_those_of_the_dequantized_weight) {
    td_ctx *cx = td_open();
    for (int64_t n = 16; n <= 208; n += 48)
        for (int64_t k = 32; k <= 352; k += 80)
            for (int64_t group = 32; group <= 256; group *= 2) {
                int64_t    m = 1 + (n + k) / 16 % 6, groups = (k + group - 1) / group;
                td_tensor *q = ints(cx, n, k, 0, 16, TD_I32);
                td_tensor *p = td_convert_weight_to_int4pack(q);
                td_tensor *sz = td_randn(cx, TD_SHAPE(groups, n, 2));
                td_tensor *x = td_randn(cx, TD_SHAPE(m, k));
                td_tensor *w = td_dequantize_int4pack(p, group, sz);
                td_tensor *y = td_weight_int4pack_mm(x, p, group, sz);
                td_tensor *want = td_matmul(td_to(x, TD_F64), td_t(td_to(w, TD_F64)));
                CHECK_OK(cx);
                CHECK(apart(y, want) < 2e-5);
                td_tensor *rep = td_repeat_interleave(sz, group, 0);
                rep = td_narrow(rep, 0, 0, k);
                td_tensor *scale = td_t(td_select(rep, 2, 0));
                td_tensor *zero = td_t(td_select(rep, 2, 1));
                CHECK(apart(w, td_add(td_mul(td_sub(q, 8), scale), zero)) < 1e-6);
            }
    td_close(cx);
}

TEST(numbers_that_do_not_fit_are_refused) {
    td_ctx    *cx = td_open();
    td_tensor *q = td_full(cx, TD_SHAPE(16, 4), 16, TD_I32);
    CHECK(td_is_nil(td_convert_weight_to_int4pack(q)));
    CHECK(strstr(td_message(cx), "self[0, 0] is 16"));
    td_clear(cx);
    td_close(cx);
}

/* Gradients of x and of scales against finite differences. */
TEST(x_and_scales_have_derivatives) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_randn(cx, TD_SHAPE(3, 64)));
    td_tensor *q = td_convert_weight_to_int4pack(ints(cx, 16, 64, 0, 16, TD_I32));
    td_tensor *sz = td_requires_grad_(td_randn(cx, TD_SHAPE(2, 16, 2)));
    td_tensor *w = ints(cx, 8, 64, -9, 9, TD_I8);
    td_tensor *s = td_requires_grad_(td_rand(cx, TD_SHAPE(8)));
    td_tensor *g4 = td_randn(cx, TD_SHAPE(3, 16)), *g8 = td_randn(cx, TD_SHAPE(3, 8));
    td_tensor *got[4], *want[4];
    td_backward(td_sum(td_mul(td_weight_int4pack_mm(x, q, 32, sz), g4)));
    got[0] = td_clone(td_grad_of(x));
    got[1] = td_clone(td_grad_of(sz));
    td_zero_grad(x);
    td_backward(td_sum(td_mul(td_weight_int8pack_mm(x, w, s), g8)));
    got[2] = td_clone(td_grad_of(x));
    got[3] = td_clone(td_grad_of(s));
    td_zero_grad(x);
    td_zero_grad(sz);
    td_zero_grad(s);
    td_backward(
        td_sum(td_mul(td_matmul(x, td_t(td_dequantize_int4pack(q, 32, sz))), g4)));
    want[0] = td_clone(td_grad_of(x));
    want[1] = td_clone(td_grad_of(sz));
    td_zero_grad(x);
    td_tensor *d = td_mul(td_to(w, TD_F32), td_unsqueeze(s, 1));
    td_backward(td_sum(td_mul(td_matmul(x, td_t(d)), g8)));
    want[2] = td_clone(td_grad_of(x));
    want[3] = td_clone(td_grad_of(s));
    CHECK_OK(cx);
    for (int i = 0; i < 4; i++) CHECK(apart(got[i], want[i]) < 1e-4);
    /* the weight is linear in scales and zeros: a difference is exact */
    td_tensor *step = td_randn(cx, TD_SHAPE(2, 16, 2));
    td_tensor *plus = td_dequantize_int4pack(q, 32, td_add(td_detach(sz), step));
    td_tensor *diff = td_sub(plus, td_dequantize_int4pack(q, 32, td_detach(sz)));
    td_tensor *gw = td_matmul(td_t(g4), td_detach(x));
    CHECK_NEAR(td_item(td_sum(td_mul(diff, gw))),
               td_item(td_sum(td_mul(step, want[1]))), 1e-2);
    td_close(cx);
}

static bool body(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *s = td_arg(c, 2);
    return td_return(c, td_relu(td_add(td_weight_int8pack_mm(x, w, s), 1.0)));
}

TEST(compiled_products_are_eager_ones) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_randn(cx, TD_SHAPE(2, 64))), *y[2], *g[2];
    td_tensor *w = ints(cx, 48, 64, -128, 128, TD_I8), *s = td_rand(cx, TD_SHAPE(48));
    td_fn     *f = td_aot_function(cx, body, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, w, s), &y[0], 1));
    td_value v;
    CHECK(td_call_body(cx, body, NULL, TD_ARGS(x, w, s), &v, 1) == 1);
    y[1] = v.u.t;
    CHECK(apart(y[0], y[1]) == 0);
    for (int i = 0; i < 2; i++) {
        td_backward(td_sum(y[i]));
        g[i] = td_clone(td_grad_of(x));
        td_zero_grad(x);
    }
    CHECK(apart(g[0], g[1]) < 1e-6);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_quantized_layer_is_near_its_linear) {
    td_ctx    *cx = td_open();
    td_module *full = td_nn_linear(cx, 128, 64, NULL);
    td_module *eight = td_nn_quantized_linear(cx, full, 8, 0);
    td_module *four = td_nn_quantized_linear(cx, full, 4, 32);
    for (int rank = 1; rank <= 3; rank++) {
        int64_t    size[] = {2, 3, 128};
        td_tensor *x = td_randn(cx, TD_SHAPE_OF(size + 3 - rank, rank));
        td_tensor *y = td_module_call(full, TD_ARGS(x));
        td_tensor *a = td_module_call(eight, TD_ARGS(x)),
                  *b = td_module_call(four, TD_ARGS(x));
        CHECK_OK(cx);
        CHECK(td_rank(a) == rank && td_rank(b) == rank);
        CHECK(apart(a, y) < 0.02 && apart(b, y) < 0.2);
    }
    CHECK(td_is_nil(td_nn_quantized_linear(cx, full, 5, 0)));
    CHECK(strstr(td_message(cx), "bits is 5"));
    td_clear(cx);
    CHECK(td_is_nil(td_nn_quantized_linear(cx, full, 4, 48)));
    td_clear(cx);
    CHECK(td_is_nil(td_nn_quantized_linear(cx, full, 4, 256)));
    CHECK(strstr(td_message(cx), "use 8 bits"));
    td_clear(cx);
    td_module_free(four);
    td_module_free(eight);
    td_module_free(full);
    td_close(cx);
}
