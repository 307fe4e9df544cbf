/* norms.c -- softmax and the norm layers: values against plain loops, layouts,
 * running statistics, refusals and derivatives of two orders. */
#include "op_help.h"

#include "kernels/reduce.h"

#include <string.h>

static td_tensor *randn64(td_ctx *cx, td_ints size) {
    return td_set_requires_grad(td_randn(cx, size, TD_F64), true);
}

/* ---- softmax ----------------------------------------------------------- */

static void softmax_as_plain(td_tensor *x, bool log_of, int dim, double tol) {
    int64_t inner = 1, n = td_size(x, dim), all = td_numel(x);
    for (int i = dim + 1; i < td_rank(x); i++) inner *= td_size(x, i);
    double *v = values_of(x), *want = malloc(sizeof(double) * (size_t)all);
    for (int64_t l = 0; l < all / n; l++) {
        int64_t at = l / inner * inner * n + l % inner;
        td__naive_softmax(v + at, n, inner, log_of, want + at);
    }
    td_tensor *y = log_of ? td_log_softmax(x, dim) : td_softmax(x, dim);
    CHECK_ARRAY(y, want, all, tol);
    CHECK(td_is_contiguous(y));
    free(v);
    free(want);
}

TEST(softmax_agrees_with_plain_loops_along_every_dim) {
    td_ctx *cx = td_open();
    for (int dim = 0; dim < 3; dim++)
        for (int log_of = 0; log_of < 2; log_of++) {
            td_tensor *x = td_randn(cx, TD_SHAPE(3, 70, 40));
            softmax_as_plain(x, log_of, dim, 1e-5);
            softmax_as_plain(td_permute(x, TD_DIMS(2, 0, 1)), log_of, dim, 1e-5);
            softmax_as_plain(td_op_to(x, TD_F64, false), log_of, dim, 1e-12);
            softmax_as_plain(td_op_to(x, TD_BF16, false), log_of, dim, 2e-2);
        }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(softmax_of_large_numbers_does_not_overflow) {
    td_ctx *cx = td_open();
    CHECK_VALUES(td_softmax(td_tensor1(cx, 1000, 1000), 0), 0.5, 0.5);
    CHECK_VALUES(td_log_softmax(td_tensor1(cx, -1000, 0), 0), -1000, 0);
    td_close(cx);
}

TEST(softmax_of_a_number_is_one_and_of_nothing_is_empty) {
    td_ctx *cx = td_open();
    CHECK_VALUES(td_softmax(td_full(cx, TD_SHAPE(), 2.0), 0), 1);
    CHECK_SHAPE(td_softmax(td_zeros(cx, TD_SHAPE(0, 3)), 0), 0, 3);
    td_close(cx);
}

TEST(softmax_of_integers_needs_a_dtype) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_arange(cx, 0, 2, 1, TD_I64);

    td_softmax(x, 0);
    CHECK_FAILS(cx, TD_E_DTYPE, "softmax: needs a floating point tensor, got i64[2]");
    CHECK_VALUES(td_softmax(x, 0, TD_F64), 1 / (1 + exp(1)), 1 / (1 + exp(-1)));
    td_close(cx);
}

/* ---- norm layers ------------------------------------------------------- */

TEST(layer_norm_agrees_with_plain_loops_on_short_and_long_rows) {
    td_ctx       *cx = td_open();
    const int64_t n[] = {1, 7, 64, 1000, 9000};
    for (int k = 0; k < 5; k++) {
        td_tensor *x = td_add(td_randn(cx, TD_SHAPE(3, n[k])), 5.0);
        double    *v = values_of(x), *want = malloc(sizeof(double) * 3 * (size_t)n[k]);
        for (int i = 0; i < 3; i++)
            td__naive_layer_norm(v + i * n[k], n[k], 1e-5, want + i * n[k]);
        CHECK_ARRAY(td_layer_norm(x, TD_SHAPE(n[k])), want, 3 * n[k], 1e-3);
        free(v);
        free(want);
    }
    td_close(cx);
}

TEST(layer_norm_returns_statistics_of_each_row) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_view(td_tensor1(cx, 1, 3, 2, 6), TD_SHAPE(2, 2)), *mean, *rstd;

    td_native_layer_norm(x, TD_SHAPE(2), NULL, NULL, 0, &mean, &rstd);

    CHECK_SHAPE(mean, 2, 1);
    CHECK_VALUES(mean, 2, 4);
    CHECK_VALUES(rstd, 1, 0.5);
    td_close(cx);
}

TEST(layer_norm_refuses_shapes_that_do_not_end_its_input) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(2, 3));

    td_layer_norm(x, TD_SHAPE(2));
    CHECK_FAILS(cx, TD_E_SHAPE,
                "input must end with normalized_shape [2], got f32[2,3]");
    td_layer_norm(x, TD_SHAPE(3), td_zeros(cx, TD_SHAPE(2)));
    CHECK_FAILS(cx, TD_E_SHAPE, "weight must be of normalized_shape [3]");
    td_layer_norm(x, TD_SHAPE(3), td_zeros(cx, TD_SHAPE(3), TD_F64));
    CHECK_FAILS(cx, TD_E_DTYPE, "weight must be of the input's dtype");
    td_close(cx);
}

TEST(half_inputs_may_have_single_precision_parameters) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_op_to(td_randn(cx, TD_SHAPE(2, 8)), TD_BF16, false), *mean, *rstd;
    td_tensor *y = td_native_layer_norm(x, TD_SHAPE(8), td_ones(cx, TD_SHAPE(8)), NULL,
                                        1e-5, &mean, &rstd);

    CHECK(td_dtype_of(y) == TD_BF16);
    CHECK(td_dtype_of(mean) == TD_F32 && td_dtype_of(rstd) == TD_F32);
    td_close(cx);
}

TEST(batch_norm_in_training_moves_the_running_statistics) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_view(td_tensor1(cx, 1, 10, 3, 20), TD_SHAPE(2, 2));
    td_tensor *m = td_zeros(cx, TD_SHAPE(2)), *v = td_ones(cx, TD_SHAPE(2));

    td_tensor *y = td_batch_norm(x, NULL, NULL, m, v, true, 0.5, 1e-14);

    CHECK_VALUES(y, -1, -1, 1, 1);
    CHECK_VALUES(m, 1, 7.5);
    CHECK_VALUES(v, 1.5, 25.5); /* the unbiased variances are 2 and 50 */
    CHECK(td_version(m) == 1 && td_version(v) == 1);
    td_close(cx);
}

TEST(batch_norm_in_evaluation_uses_the_running_statistics) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_view(td_tensor1(cx, 1, 10, 3, 20), TD_SHAPE(2, 2)), *a, *b;
    td_tensor *m = td_tensor1(cx, 1, 10), *v = td_tensor1(cx, 4, 25);

    CHECK_VALUES(td_native_batch_norm(x, NULL, NULL, m, v, false, 0.1, 0, &a, &b), 0, 0,
                 1, 2);
    CHECK_VALUES(m, 1, 10);
    CHECK_SHAPE(a, 0);
    td_batch_norm(x, NULL, NULL, NULL, NULL, false);
    CHECK_FAILS(cx, TD_E_ARG, "running_mean must be given when not training");
    td_close(cx);
}

TEST(channels_last_inputs_give_channels_last_results) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_randn(cx, TD_SHAPE(2, 5, 6, 4));
    td_tensor *c = td_permute(x, TD_DIMS(0, 3, 1, 2)); /* [2,4,5,6] */
    td_tensor *y = td_batch_norm(c, NULL, NULL, NULL, NULL, true);
    td_tensor *z = td_batch_norm(td_contiguous(c), NULL, NULL, NULL, NULL, true);

    CHECK(td_stride(y, 1) == 1 && td_stride(z, 1) == 30);
    CHECK_NEAR(td_item(td_amax(td_abs(td_sub(y, z)))), 0, 1e-5);
    y = td_group_norm(c, 2);
    z = td_group_norm(td_contiguous(c), 2);
    CHECK(td_stride(y, 1) == 1);
    CHECK_NEAR(td_item(td_amax(td_abs(td_sub(y, z)))), 0, 1e-5);
    td_close(cx);
}

TEST(group_norm_refuses_groups_that_do_not_divide_the_channels) {
    td_ctx *cx = td_open();
    td_group_norm(td_zeros(cx, TD_SHAPE(2, 4)), 3);
    CHECK_FAILS(cx, TD_E_ARG, "group_norm: 3 groups do not divide the channels");
    td_close(cx);
}

TEST(instance_norm_normalizes_every_channel_of_every_sample) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_randn(cx, TD_SHAPE(2, 3, 50));
    td_tensor *y = td_instance_norm(x);

    CHECK_NEAR(td_item(td_amax(td_abs(td_mean(y, TD_DIMS(2))))), 0, 1e-5);
    CHECK_NEAR(td_item(td_amin(td_std(y, TD_DIMS(2), td_value_int(0)))), 1, 1e-3);
    td_close(cx);
}

TEST(an_infinite_weight_gives_infinities_with_the_sign_of_the_deviation) {
    td_ctx    *cx = td_open();
    double     v[] = {0.1, 0.2, 0.7}; /* in f32 the mean is rounded */
    td_tensor *x = td_view(td_from_doubles(cx, v, 3), TD_SHAPE(1, 1, 3));
    td_tensor *w = td_full(cx, TD_SHAPE(1), INFINITY);

    CHECK_VALUES(td_group_norm(x, 1, w), -INFINITY, -INFINITY, INFINITY);
    CHECK_VALUES(td_instance_norm(x, w), -INFINITY, -INFINITY, INFINITY);
    td_close(cx);
}

/* ---- derivatives ------------------------------------------------------- */

typedef td_tensor *layer(td_tensor *const *in);

static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)n_in, (void)n_out;
    layer *const *f = env;
    out[0] = (*f)(in);
    return !td_is_nil(out[0]);
}

static td_tensor *soft(td_tensor *const *in) { return td_softmax(in[0], 1); }
static td_tensor *log_soft(td_tensor *const *in) { return td_log_softmax(in[0], 1); }
static td_tensor *by_layer(td_tensor *const *in) {
    td_ints c = TD_SHAPE(4);
    return td_layer_norm(td_transpose(in[0], 1, 2), c, in[1], in[2]);
}
static td_tensor *by_rms(td_tensor *const *in) {
    return td_rms_norm(td_transpose(in[0], 1, 2), TD_SHAPE(4), in[1],
                       td_value_float(1e-3));
}
static td_tensor *by_group(td_tensor *const *in) {
    return td_group_norm(in[0], 2, in[1], in[2]);
}
static td_tensor *by_batch(td_tensor *const *in) {
    return td_batch_norm(in[0], in[1], in[2], NULL, NULL, true);
}
static td_tensor *by_running(td_tensor *const *in) {
    td_ctx *cx = td_ctx_of(in[0]);
    return td_batch_norm(in[0], in[1], in[2], td_full(cx, TD_SHAPE(4), 0.2, TD_F64),
                         td_full(cx, TD_SHAPE(4), 1.5, TD_F64), false);
}

TEST(softmax_and_norm_layers_have_derivatives_of_two_orders) {
    td_ctx *cx = td_open();
    layer *each[7] = {soft, log_soft, by_layer, by_rms, by_group, by_batch, by_running};
    td_seed(cx, 3);
    for (int i = 0; i < 7; i++) {
        td_tensor *in[3] = {randn64(cx, TD_SHAPE(2, 4, 3)), randn64(cx, TD_SHAPE(4)),
                            randn64(cx, TD_SHAPE(4))};
        td_tensors all = {in, i < 2 ? 1 : i == 3 ? 2 : 3};
        CHECK(td_gradcheck(cx, region, &each[i], all, 1, NULL));
        CHECK(td_gradgradcheck(cx, region, &each[i], all, 1, NULL));
    }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(norms_of_an_input_without_gradient_have_those_of_their_parameters) {
    td_ctx *cx = td_open();
    layer  *each[3] = {by_layer, by_group, by_batch};
    for (int i = 0; i < 3; i++) {
        td_tensor *in[3] = {randn64(cx, TD_SHAPE(2, 4, 3)), randn64(cx, TD_SHAPE(4)),
                            randn64(cx, TD_SHAPE(4))};
        td_set_requires_grad(in[0], false);
        td_set_requires_grad(in[1], true);
        td_set_requires_grad(in[2], true);
        td_backward(td_sum(each[i](in)));
        CHECK_OK(cx);
        CHECK(!td_is_nil(td_grad_of(in[1])) && !td_is_nil(td_grad_of(in[2])));
    }
    td_close(cx);
}
