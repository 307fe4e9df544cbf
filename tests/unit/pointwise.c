/* pointwise.c -- layout, dtypes, errors and the fast paths of pointwise ops. Each
 * fast path is compared with element-by-element arithmetic. */
#include "td_test.h"

#include "ops/cast.h"
#include "tandem/tandem.h"

#include <math.h>

static td_tensor *ramp(td_ctx *cx, td_dtype dt, int64_t rows, int64_t cols) {
    td_tensor *t = td_arange(cx, 0, rows * cols, 1, TD_F64);
    return td_to(td_reshape(td_sub(td_remainder(t, 251), 125), TD_SHAPE(rows, cols)),
                 dt);
}

static double at(td_tensor *t, int64_t i, int64_t k) {
    return td_item(td_select(td_select(t, 0, i), 0, k));
}

static bool has_strides(const td_tensor *t, int64_t s0, int64_t s1) {
    return td_stride(t, 0) == s0 && td_stride(t, 1) == s1;
}

static bool fails_with(td_ctx *cx, td_code code, const char *text) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), text);
    if (!ok) fprintf(stderr, "message: %s\n", td_message(cx));
    td_clear(cx);
    return ok;
}

/* ---- layout -------------------------------------------------------------- */

TEST(a_transposed_operand_keeps_its_layout) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_t(ramp(cx, TD_F32, 3, 4));

    CHECK(has_strides(td_add(x, 1), 1, 4));
    CHECK(has_strides(td_exp(x), 1, 4));
    CHECK(has_strides(td_mul(x, x), 1, 4));
    CHECK(has_strides(td_lt(x, 2), 1, 4));
    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_sliced_operand_gives_a_packed_result_in_its_dim_order) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_t(td_slice(ramp(cx, TD_F32, 4, 12), 1, 0, 12, 2));

    CHECK(has_strides(x, 2, 12));
    CHECK(has_strides(td_neg(x), 1, 6));
    td_close(cx);
}

TEST(the_first_operand_with_an_opinion_decides_the_layout) {
    td_ctx    *cx = td_open();
    td_tensor *x = ramp(cx, TD_F32, 4, 4), *y = td_t(ramp(cx, TD_F32, 4, 4));

    CHECK(has_strides(td_add(x, y), 4, 1));
    CHECK(has_strides(td_add(y, x), 1, 4));
    td_close(cx);
}

TEST(masked_fill_is_row_major_whatever_it_is_given) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_t(ramp(cx, TD_F32, 3, 4));

    CHECK(has_strides(td_masked_fill(x, td_gt(x, 0), 1), 3, 1));
    td_close(cx);
}

TEST(empty_tensors_pass_through_every_path) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(0, 3), TD_F32);

    CHECK(td_numel(td_add(x, x)) == 0 && td_size(td_mul(x, 2.0), 1) == 3);
    CHECK(td_numel(td_add(x, td_zeros(cx, TD_SHAPE(3), TD_I64))) == 0);
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- dtypes -------------------------------------------------------------- */

TEST(numbers_are_weaker_than_tensors) {
    td_ctx    *cx = td_open();
    td_tensor *i8 = ramp(cx, TD_I8, 2, 2), *f16 = ramp(cx, TD_F16, 2, 2);

    CHECK(td_dtype_of(td_add(i8, 300)) == TD_I8);
    CHECK(td_dtype_of(td_add(i8, 0.5)) == TD_F32);
    CHECK(td_dtype_of(td_mul(f16, 0.5)) == TD_F16);
    CHECK(td_dtype_of(td_add(f16, ramp(cx, TD_I64, 2, 2))) == TD_F16);
    CHECK(td_dtype_of(td_div(i8, i8)) == TD_F32);
    CHECK(td_dtype_of(td_div(i8, td_full(cx, TD_SHAPE(1), 2, TD_I64), "floor")) ==
          TD_I64);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(narrow_integers_wrap) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_full(cx, TD_SHAPE(2), 200, TD_U8);

    CHECK(td_item_int(td_select(td_add(x, x), 0, 0)) == 144);
    CHECK(td_item_int(td_select(td_neg(x), 0, 0)) == 56);
    CHECK(td_item_int(td_select(td_bitwise_not(x), 0, 0)) == 55);
    td_close(cx);
}

TEST(an_operand_is_rounded_to_the_common_half_type) {
    td_ctx    *cx = td_open();
    td_tensor *i = td_full(cx, TD_SHAPE(2), 2049, TD_I64);
    td_tensor *h = td_full(cx, TD_SHAPE(2), 0.0, TD_F16);

    CHECK(td_item(td_select(td_add(i, h), 0, 0)) == 2048.0);
    CHECK(td_item_int(td_select(td_lt(td_add(h, 0.1), 0.1), 0, 0)) == 0);
    td_close(cx);
}

TEST(integers_to_floats_where_the_function_needs_it) {
    td_ctx    *cx = td_open();
    td_tensor *i = ramp(cx, TD_I32, 2, 2);

    CHECK(td_dtype_of(td_exp(i)) == TD_F32 && td_dtype_of(td_floor(i)) == TD_I32);
    CHECK(td_dtype_of(td_isnan(i)) == TD_BOOL);
    td_close(cx);
}

TEST(not_of_bool_is_the_opposite) {
    td_ctx    *cx = td_open();
    td_tensor *m = td_gt(td_tensor1(cx, -1, 2), 0);

    td_tensor *n = td_bitwise_not(m);

    CHECK(td_item_int(td_select(n, 0, 0)) == 1 && td_item_int(td_select(n, 0, 1)) == 0);
    td_close(cx);
}

/* ---- errors -------------------------------------------------------------- */

TEST(sizes_that_do_not_broadcast_are_named) {
    td_ctx *cx = td_open();

    td_add(td_zeros(cx, TD_SHAPE(2, 3), TD_F32), td_zeros(cx, TD_SHAPE(4), TD_F32));

    CHECK(fails_with(cx, TD_E_SHAPE, "add: cannot broadcast f32[2,3] with f32[4]"));
    td_close(cx);
}

TEST(wrong_dtypes_are_refused) {
    td_ctx    *cx = td_open();
    td_tensor *m = td_gt(td_tensor1(cx, -1, 2), 0), *f = td_tensor1(cx, 1, 2);

    td_sub(m, m);
    CHECK(fails_with(cx, TD_E_DTYPE, "sub: two bool tensors"));
    td_neg(m);
    CHECK(fails_with(cx, TD_E_DTYPE, "neg: a bool tensor"));
    td_bitwise_and(f, 1);
    CHECK(fails_with(cx, TD_E_DTYPE, "bitwise_and: is not defined on floats"));
    td_gelu(td_to(f, TD_I64));
    CHECK(fails_with(cx, TD_E_DTYPE, "gelu: is defined on floats only"));
    td_where(td_to(f, TD_I64), f, f);
    CHECK(fails_with(cx, TD_E_DTYPE, "where: condition must be bool"));
    td_close(cx);
}

TEST(wrong_options_are_refused) {
    td_ctx    *cx = td_open();
    td_tensor *i = td_to(td_tensor1(cx, 1, 0), TD_I64);

    td_add(i, i, 0.5);
    CHECK(fails_with(cx, TD_E_ARG, "add: alpha must be an integer"));
    td_div(i, i, "up");
    CHECK(fails_with(cx, TD_E_ARG, "div: rounding_mode"));
    td_pow(i, -1);
    CHECK(fails_with(cx, TD_E_ARG, "pow: integers to negative"));
    td_clamp(i);
    CHECK(fails_with(cx, TD_E_ARG, "clamp: at least one of min and max"));
    td_where(td_gt(i, 0), td_to(i, TD_U8), 300);
    CHECK(fails_with(cx, TD_E_ARG, "where: b = 300 cannot be represented in u8"));
    td_close(cx);
}

TEST(division_by_an_integer_zero_writes_nothing) {
    td_ctx    *cx = td_open();
    td_tensor *i = td_to(td_tensor1(cx, 7, 5), TD_I64);
    td_tensor *z = td_to(td_tensor1(cx, 2, 0), TD_I64);

    td_remainder_(i, z);

    CHECK(fails_with(cx, TD_E_ARG, "integer division by zero"));
    CHECK(td_item_int(td_select(i, 0, 0)) == 7);
    td_div(i, 0, "trunc");
    CHECK(fails_with(cx, TD_E_ARG, "integer division by zero"));
    td_close(cx);
}

/* ---- the ways through memory --------------------------------------------- */

/* a.t() + b and b + a column of b, against sums of single elements. */
static void check_sums(td_tensor *a, td_tensor *b) {
    td_tensor *y = td_add(td_t(a), b), *z = td_add(b, td_slice(b, 1, 3, 4, 1));
    bool       wraps = td_dtype_of(y) == TD_I8, wraps_z = td_dtype_of(z) == TD_I8;
    for (int64_t i = 0; i < 130; i += 43)
        for (int64_t k = 0; k < 70; k += 23) {
            double sum = at(a, k, i) + at(b, i, k), col = at(b, i, k) + at(b, i, 3);
            CHECK_NEAR(at(y, i, k), wraps ? (int8_t)sum : sum, 0);
            CHECK_NEAR(at(z, i, k), wraps_z ? (int8_t)col : col, 0);
        }
}

TEST(every_pair_of_layouts_and_dtypes_adds_up) {
    static const td_dtype dts[] = {TD_F64, TD_F32, TD_F16, TD_I64, TD_I32, TD_I8};
    td_ctx               *cx = td_open();

    for (int p = 0; p < TD_COUNT(dts); p++)
        for (int q = 0; q < TD_COUNT(dts); q++) {
            td_scope_begin(cx, "pair");
            check_sums(ramp(cx, dts[p], 70, 130), ramp(cx, dts[q], 130, 70));
            td_scope_end(cx, "pair", NULL);
        }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(copies_cast_between_any_two_layouts) {
    static const td_dtype dts[] = {TD_F64, TD_F32, TD_BF16, TD_I64,
                                   TD_I16, TD_U8,  TD_BOOL};
    td_ctx               *cx = td_open();

    for (int p = 0; p < TD_COUNT(dts); p++)
        for (int q = 0; q < TD_COUNT(dts); q++) {
            td_scope_begin(cx, "pair");
            td_tensor *a = td_abs(ramp(cx, TD_I32, 80, 90)), *s = td_to(a, dts[p]);
            td_tensor *d = td_zeros(cx, TD_SHAPE(90, 80), dts[q]);
            CHECK(td__copy_into(d, td_t(s)));
            double want =
                td_dtype_of(s) == TD_BOOL || dts[q] == TD_BOOL ? 1 : at(a, 77, 83);
            CHECK_NEAR(at(d, 83, 77), want, 0);
            td_scope_end(cx, "pair", NULL);
        }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(floats_out_of_range_become_the_smallest_integer) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, NAN, INFINITY, 300, -1.5);

    td_tensor *i32 = td_to(x, TD_I32), *u8 = td_to(x, TD_U8);

    CHECK(td_item_int(td_select(i32, 0, 0)) == INT32_MIN);
    CHECK(td_item_int(td_select(i32, 0, 1)) == INT32_MIN);
    CHECK(td_item_int(td_select(u8, 0, 2)) == 44 &&
          td_item_int(td_select(u8, 0, 3)) == 255);
    td_close(cx);
}

TEST(a_write_stores_in_the_dtype_of_what_is_written) {
    td_ctx    *cx = td_open();
    td_tensor *h = td_full(cx, TD_SHAPE(3), 1.0, TD_F16);
    td_tensor *f = td_full(cx, TD_SHAPE(3), 0.5, TD_F64);

    td_add_(h, f);
    td_lt_(f, 0.75);

    CHECK(td_dtype_of(h) == TD_F16 && td_item(td_select(h, 0, 2)) == 1.5);
    CHECK(td_dtype_of(f) == TD_F64 && td_item(td_select(f, 0, 2)) == 1.0);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(fill_reaches_every_element_of_a_strided_view) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(6, 8), TD_I16);

    CHECK(td__fill(td_slice(x, 1, 0, 8, 2), td_value_int(3)));

    CHECK(at(x, 5, 6) == 3 && at(x, 5, 7) == 0);
    td_close(cx);
}

/* ---- values -------------------------------------------------------------- */

TEST(nan_wins_in_maximum_and_stays_in_clamp) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_tensor1(cx, NAN, 5), *y = td_tensor1(cx, 1, NAN);

    CHECK(isnan(td_item(td_select(td_maximum(x, y), 0, 0))));
    CHECK(isnan(td_item(td_select(td_maximum(x, y), 0, 1))));
    CHECK(isnan(td_item(td_select(td_clamp(x, 0, 1), 0, 0))));
    CHECK(td_item(td_select(td_clamp(x, 3, 1), 0, 1)) == 1.0);
    td_close(cx);
}

TEST(quotients_round_as_asked) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_tensor1(cx, -7, 7), *b = td_tensor1(cx, 2, -2);

    CHECK(td_item(td_select(td_div(a, b, "floor"), 0, 0)) == -4);
    CHECK(td_item(td_select(td_div(a, b, "trunc"), 0, 0)) == -3);
    CHECK(td_item(td_select(td_remainder(a, b), 0, 0)) == 1);
    CHECK(td_item(td_select(td_fmod(a, b), 0, 0)) == -1);
    CHECK(td_item(td_select(td_round(td_tensor1(cx, 2.5, 0)), 0, 0)) == 2);
    CHECK_NEAR(td_item(td_select(td_round(td_tensor1(cx, 1.26, 0), 1), 0, 0)), 1.3,
               1e-6);
    td_close(cx);
}

TEST(gradients_at_ties_and_borders_are_those_of_eager) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_set_requires_grad(td_tensor1(cx, 1, 2, 0), true);
    td_tensor *y = td_set_requires_grad(td_tensor1(cx, 1, 1, 5), true);

    td_backward(td_sum(td_maximum(x, y)));
    CHECK(td_item(td_select(td_grad_of(x), 0, 0)) == 0.5);
    CHECK(td_item(td_select(td_grad_of(y), 0, 0)) == 0.5);
    td_zero_grad(x);
    td_backward(td_sum(td_clamp(x, 0, 2)));
    CHECK(td_item(td_select(td_grad_of(x), 0, 0)) == 1.0);
    CHECK(td_item(td_select(td_grad_of(x), 0, 1)) == 0.0);
    td_zero_grad(x);
    td_backward(td_sum(td_pow(x, 0)));
    CHECK(td_item(td_select(td_grad_of(x), 0, 2)) == 0.0);
    CHECK_OK(cx);
    td_close(cx);
}

/* 3 / 3.25 rounded once to f32; 3 * (1 / 3.25) is rounded twice and has another last
 * bit. */
TEST(the_gradient_of_addcdiv_divides_value_by_the_divisor) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_zeros(cx, TD_SHAPE(1), TD_F64);
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(1), TD_F64), true);
    td_tensor *d = td_tensor1(cx, 3.25);

    td_backward(td_sum(td_addcdiv(a, x, d, 3)));
    CHECK(td_item(td_grad_of(x)) == (double)(3.0F / 3.25F));
    td_zero_grad(x);
    td_tensor *whole = td_to(d, TD_I64);
    td_backward(td_sum(td_addcdiv(a, x, whole, 0.5)));
    CHECK(td_item(td_grad_of(x)) == (double)(0.5F / 3.0F));
    CHECK_OK(cx);
    td_close(cx);
}

/* Three factors whose product depends on the order: -sum(g) first, as in ATen. */
TEST(the_second_gradient_of_log_softmax_multiplies_in_the_order_of_aten) {
    td_ctx      *cx = td_open();
    const double v[2] = {0.1, 0.2}, w[2] = {0.9, 1.1};
    td_tensor   *g = td_from(cx, TD_F64, TD_SHAPE(2), v);
    td_tensor   *h = td_from(cx, TD_F64, TD_SHAPE(2), w), *found;
    td_tensor   *y = td_requires_grad_(td_full(cx, TD_SHAPE(2), 1.3, TD_F64));
    td_tensor   *d = td_op__log_softmax_backward_data(g, y, 0, TD_F64);

    td_grad((td_tensors){&d, 1}, (td_tensors){&y, 1}, &found,
            &(td_grad_opts){TD_GRAD_OPTS, .grads = {&h, 1}});
    td_tensor *s = td_neg(td_sum(g)), *e = td_exp(td_detach(y));
    CHECK(td_item(td_all(td_eq(found, td_mul(td_mul(s, e), h)))));
    CHECK(!td_item(td_all(td_eq(found, td_mul(td_mul(h, e), s)))));
    CHECK_OK(cx);
    td_close(cx);
}
