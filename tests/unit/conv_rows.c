/* conv_rows.c -- the convolution ops, as users call them, against plain loops. */
#include "op_help.h"

#include "core/core.h"

typedef struct geometry {
    int64_t n, c, h, w, o, kh, kw; /* input [n,c,h,w], weight [o,c/groups,kh,kw] */
    int64_t stride[2], pad[2], dil[2], groups;
} geometry;

static const geometry shapes[] = {
    {1, 1, 4, 4, 1, 3, 3, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 3, 5, 6, 4, 3, 2, {1, 1}, {0, 0}, {1, 1}, 1},
    {2, 3, 5, 6, 4, 3, 2, {2, 1}, {1, 0}, {1, 1}, 1},
    {1, 4, 7, 7, 6, 3, 3, {1, 2}, {2, 1}, {2, 1}, 2},
    {2, 4, 5, 5, 4, 3, 3, {1, 1}, {1, 1}, {1, 1}, 4}, /* depthwise */
    {1, 2, 5, 5, 3, 1, 1, {1, 1}, {0, 0}, {1, 1}, 1}, /* pointwise */
    {1, 2, 3, 3, 2, 3, 3, {3, 3}, {2, 2}, {2, 2}, 1},
    {3, 1, 1, 9, 2, 1, 4, {1, 3}, {0, 3}, {1, 2}, 1},
};

static int64_t out_size(int64_t n, int64_t k, int64_t stride, int64_t pad,
                        int64_t dil) {
    return (n + 2 * pad - dil * (k - 1) - 1) / stride + 1;
}

/* One place of one output channel. */
static double naive_place(const geometry *g, const double *x, const double *w,
                          int64_t b, int64_t o, const int64_t *at) {
    int64_t in = g->c / g->groups, group = o / (g->o / g->groups);
    double  sum = 0;
    for (int64_t c = 0; c < in; c++)
        for (int64_t i = 0; i < g->kh * g->kw; i++) {
            int64_t y = at[0] * g->stride[0] - g->pad[0] + i / g->kw * g->dil[0];
            int64_t z = at[1] * g->stride[1] - g->pad[1] + i % g->kw * g->dil[1];
            if (y < 0 || y >= g->h || z < 0 || z >= g->w) continue;
            sum += x[((b * g->c + group * in + c) * g->h + y) * g->w + z] *
                   w[(o * in + c) * g->kh * g->kw + i];
        }
    return sum;
}

static double *naive(const geometry *g, const double *x, const double *w,
                     const double *bias) {
    int64_t oh = out_size(g->h, g->kh, g->stride[0], g->pad[0], g->dil[0]);
    int64_t ow = out_size(g->w, g->kw, g->stride[1], g->pad[1], g->dil[1]);
    double *y = malloc(sizeof(double) * (size_t)(g->n * g->o * oh * ow)), *p = y;
    for (int64_t b = 0; b < g->n; b++)
        for (int64_t o = 0; o < g->o; o++)
            for (int64_t i = 0; i < oh * ow; i++)
                *p++ = naive_place(g, x, w, b, o, (int64_t[]){i / ow, i % ow}) +
                       (bias ? bias[o] : 0);
    return y;
}

static td_tensor *call(const geometry *g, td_tensor *x, td_tensor *w, td_tensor *bias) {
    return td_op_conv2d(x, w, bias, (td_ints){g->stride, 2}, (td_ints){g->pad, 2},
                        (td_ints){g->dil, 2}, g->groups);
}

TEST(conv2d_equals_plain_loops) {
    td_ctx *cx = td_open();

    for (int i = 0; i < TD_COUNT(shapes); i++) {
        const geometry *g = &shapes[i];
        td_tensor      *x = pattern(cx, TD_SHAPE(g->n, g->c, g->h, g->w), 7);
        td_tensor *w = pattern(cx, TD_SHAPE(g->o, g->c / g->groups, g->kh, g->kw), 5);
        td_tensor *b = pattern(cx, TD_SHAPE(g->o), 3);
        double    *want = naive(g, td_data(x), td_data(w), td_data(b));
        td_tensor *y = call(g, x, w, b);
        CHECK_OK(cx);
        CHECK_ARRAY(y, want, td_numel(y), 1e-12);
        CHECK(td_is_contiguous(y));
        td_tensor *y32 = call(g, td_to(x, TD_F32), td_to(w, TD_F32), td_to(b, TD_F32));
        CHECK_ARRAY(y32, want, td_numel(y), 1e-5);
        free(want);
    }
    td_close(cx);
}

TEST(conv2d_takes_strided_operands) {
    td_ctx         *cx = td_open();
    const geometry *g = &shapes[1];
    td_tensor      *x = pattern(cx, TD_SHAPE(g->n, g->c, g->h, g->w), 7);
    td_tensor      *w = pattern(cx, TD_SHAPE(g->o, g->c, g->kh, g->kw), 5);
    double         *want = naive(g, td_data(x), td_data(w), NULL);

    td_tensor *xs = td_permute(td_contiguous(td_permute(x, TD_DIMS(2, 3, 0, 1))),
                               TD_DIMS(2, 3, 0, 1));
    td_tensor *ws = td_permute(td_contiguous(td_permute(w, TD_DIMS(1, 0, 3, 2))),
                               TD_DIMS(1, 0, 3, 2));
    CHECK(!td_is_contiguous(xs) && !td_is_contiguous(ws));
    td_tensor *y = call(g, xs, ws, NULL);

    CHECK_OK(cx);
    CHECK_ARRAY(y, want, td_numel(y), 1e-12);
    free(want);
    td_close(cx);
}

typedef struct conv_env {
    const geometry *g;
} conv_env;

static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    const conv_env *e = env;
    (void)n_in, (void)n_out;
    out[0] = call(e->g, in[0], in[1], in[2]);
    return !td_is_nil(out[0]);
}

TEST(conv2d_has_right_derivatives_of_both_orders) {
    td_ctx *cx = td_open();

    for (int i = 0; i < TD_COUNT(shapes); i++) {
        const geometry *g = &shapes[i];
        if (g->n * g->c * g->h * g->w > 130) continue;
        conv_env   env = {g};
        td_tensor *x = pattern(cx, TD_SHAPE(g->n, g->c, g->h, g->w), 7);
        td_tensor *w = pattern(cx, TD_SHAPE(g->o, g->c / g->groups, g->kh, g->kw), 5);
        td_tensor *in[] = {td_set_requires_grad(x, true), td_set_requires_grad(w, true),
                           td_set_requires_grad(pattern(cx, TD_SHAPE(g->o), 3), true)};
        CHECK(td_gradcheck(cx, region, &env, (td_tensors){in, 3}, 1, NULL));
        if (i < 4)
            CHECK(td_gradgradcheck(cx, region, &env, (td_tensors){in, 3}, 1, NULL));
    }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_sample_without_a_batch_dim_is_a_batch_of_one) {
    td_ctx    *cx = td_open();
    td_tensor *x = pattern(cx, TD_SHAPE(3, 5, 6), 7),
              *w = pattern(cx, TD_SHAPE(4, 3, 3, 2), 5);
    td_tensor *l = pattern(cx, TD_SHAPE(3, 9), 7),
              *v = pattern(cx, TD_SHAPE(2, 3, 4), 5);

    double    *want = values_of(td_conv2d(td_unsqueeze(x, 0), w));
    td_tensor *y = td_conv2d(x, w);
    CHECK_SHAPE(y, 4, 3, 5);
    CHECK_ARRAY(y, want, 60, 0);
    free(want);
    want = values_of(td_conv1d(td_unsqueeze(l, 0), v));
    y = td_conv1d(l, v);
    CHECK_SHAPE(y, 2, 6);
    CHECK_ARRAY(y, want, 12, 0);
    free(want);

    td_close(cx);
}

TEST(conv1d_equals_plain_loops) {
    static const geometry g = {2, 4, 1, 10, 6, 1, 3, {1, 2}, {0, 3}, {1, 2}, 2};
    td_ctx               *cx = td_open();
    td_tensor            *x = pattern(cx, TD_SHAPE(2, 4, 10), 7),
              *w = pattern(cx, TD_SHAPE(6, 2, 3), 5);
    td_tensor *b = pattern(cx, TD_SHAPE(6), 3);

    double    *want = naive(&g, td_data(x), td_data(w), td_data(b));
    td_tensor *y = td_conv1d(x, w, b, TD_DIMS(2), TD_DIMS(3), TD_DIMS(2), 2);
    CHECK_OK(cx);
    CHECK_SHAPE(y, 2, 6, 6);
    CHECK_ARRAY(y, want, 72, 1e-12);
    free(want);

    td_close(cx);
}

TEST(one_entry_serves_both_dims) {
    td_ctx    *cx = td_open();
    td_tensor *x = pattern(cx, TD_SHAPE(1, 2, 7, 7), 7),
              *w = pattern(cx, TD_SHAPE(2, 2, 3, 3), 5);

    double *want =
        values_of(td_conv2d(x, w, NULL, TD_DIMS(2, 2), TD_DIMS(1, 1), TD_DIMS(2, 2)));
    td_tensor *y = td_conv2d(x, w, NULL, TD_DIMS(2), TD_DIMS(1), TD_DIMS(2));
    CHECK_ARRAY(y, want, td_numel(y), 0);
    free(want);

    td_close(cx);
}

TEST(convolutions_of_empty_batches_and_channels_are_defined) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_ones(cx, TD_SHAPE(2, 3, 3, 3)), *bias = td_tensor1(cx, 5, 6);

    CHECK_SHAPE(td_conv2d(td_zeros(cx, TD_SHAPE(0, 3, 5, 5)), w), 0, 2, 3, 3);
    td_tensor *x = td_set_requires_grad(td_zeros(cx, TD_SHAPE(0, 3, 5, 5)), true);
    td_set_requires_grad(w, true);
    CHECK(td_backward(td_sum(td_conv2d(x, w, bias))));
    CHECK_SHAPE(td_grad_of(x), 0, 3, 5, 5);
    CHECK(td_item(td_sum(td_abs(td_grad_of(w)))) == 0);

    CHECK_OK(cx);
    td_close(cx);
}

TEST(wrong_convolutions_are_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(1, 4, 5, 5)),
              *w = td_ones(cx, TD_SHAPE(2, 4, 3, 3));

    CHECK(td_is_nil(td_conv2d(x, td_ones(cx, TD_SHAPE(2, 3, 3, 3)))));
    CHECK_FAILS(cx, TD_E_SHAPE,
                "weight [2,3,3,3] does not fit input [1,4,5,5] in 1 group(s): it must "
                "be [out, in/groups, kernel] = [2,4,3,3]");
    CHECK(td_is_nil(td_conv2d(x, w, NULL, TD_DIMS(1), TD_DIMS(0), TD_DIMS(1), 3)));
    CHECK_FAILS(cx, TD_E_SHAPE, "in 3 group(s): groups must divide the channels");
    CHECK(td_is_nil(td_conv2d(x, td_ones(cx, TD_SHAPE(2, 4, 6, 3)))));
    CHECK_FAILS(cx, TD_E_SHAPE, "the kernel [6,3] is larger than the padded input");
    CHECK(td_is_nil(td_conv2d(x, td_ones(cx, TD_SHAPE(2, 4, 0, 3)))));
    CHECK_FAILS(cx, TD_E_SHAPE, "the kernel of weight [2,4,0,3] is empty");
    CHECK(td_is_nil(td_conv2d(td_ones(cx, TD_SHAPE(5, 5)), w)));
    CHECK(td_error(cx) == TD_E_SHAPE);
    td_clear(cx);
    CHECK(td_is_nil(td_conv2d(x, td_ones(cx, TD_SHAPE(2, 4, 3)))));
    CHECK(td_error(cx) == TD_E_SHAPE);
    td_clear(cx);
    CHECK(td_is_nil(td_conv2d(x, w, td_ones(cx, TD_SHAPE(3)))));
    CHECK_FAILS(cx, TD_E_SHAPE, "bias must have 2 entries, got f32[3]");
    CHECK(td_is_nil(td_conv2d(x, w, NULL, TD_DIMS(0))));
    CHECK_FAILS(cx, TD_E_ARG, "stride must be at least 1");
    CHECK(td_is_nil(td_conv2d(x, w, NULL, TD_DIMS(1), TD_DIMS(-1))));
    CHECK_FAILS(cx, TD_E_ARG, "padding must be at least 0");
    CHECK(td_is_nil(td_conv2d(x, w, NULL, TD_DIMS(1), TD_DIMS(0), TD_DIMS(0))));
    CHECK_FAILS(cx, TD_E_ARG, "dilation must be at least 1");
    CHECK(td_is_nil(td_conv2d(x, w, NULL, TD_DIMS(1, 1, 1))));
    CHECK_FAILS(cx, TD_E_ARG, "stride must have 1 or 2 entries, got 3");
    CHECK(td_is_nil(td_conv2d(x, w, NULL, TD_DIMS(1), TD_DIMS(0), TD_DIMS(1), 3)));
    CHECK(td_error(cx) == TD_E_SHAPE);
    td_clear(cx);
    CHECK(td_is_nil(td_conv2d(x, w, NULL, TD_DIMS(1), TD_DIMS(0), TD_DIMS(1), 0)));
    CHECK_FAILS(cx, TD_E_ARG, "groups must be positive, got 0");
    CHECK(td_is_nil(td_conv2d(x, td_to(w, TD_F64))));
    CHECK_FAILS(cx, TD_E_DTYPE, "input and weight must have one dtype");
    td_close(cx);
}

TEST(extreme_options_of_a_convolution_are_harmless) {
    static const int64_t v[] = {
        INT64_MIN,        -((int64_t)1 << 62) - 1, -1,       (int64_t)1 << 40,
        (int64_t)1 << 61, INT64_MAX - 1,           INT64_MAX};
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(1, 2, 5, 5)),
              *w = td_ones(cx, TD_SHAPE(2, 2, 3, 3));

    for (int i = 0; i < TD_COUNT(v); i++) {
        int64_t n = v[i];
        td_conv2d(x, w, NULL, TD_DIMS(n)); /* a large stride gives one place */
        td_clear(cx);
        CHECK(td_is_nil(td_conv2d(x, w, NULL, TD_DIMS(1), TD_DIMS(n))));
        td_clear(cx);
        CHECK(td_is_nil(td_conv2d(x, w, NULL, TD_DIMS(1), TD_DIMS(0), TD_DIMS(n))));
        td_clear(cx);
        CHECK(td_is_nil(td_conv2d(x, w, NULL, TD_DIMS(1), TD_DIMS(0), TD_DIMS(1), n)));
        CHECK(!td_ok(cx));
        td_clear(cx);
    }
    td_close(cx);
}
