/* random.c -- draws: distributions, and that they depend on seed, offset and
 * element index alone. */
#include "kernels/draw.h"
#include "tandem/tandem.h"
#include "td_test.h"

#include <stdlib.h>

#define N 100000

static void moments(td_tensor *t, double *mean, double *var) {
    double *v = malloc(N * sizeof *v), sum = 0, squares = 0;
    CHECK(td_read(t, TD_F64, v, N * sizeof *v));
    for (int i = 0; i < N; i++) sum += v[i];
    *mean = sum / N;
    for (int i = 0; i < N; i++) squares += (v[i] - *mean) * (v[i] - *mean);
    *var = squares / N;
    free(v);
}

static bool same(td_tensor *a, td_tensor *b) {
    size_t bytes = (size_t)td_numel(a) * sizeof(double);
    void  *x = malloc(bytes), *y = malloc(bytes);
    bool   eq = td_read(a, TD_F64, x, bytes) && td_read(b, TD_F64, y, bytes) &&
              !memcmp(x, y, bytes);
    free(x);
    free(y);
    return eq;
}

TEST(uniform_and_normal_have_their_moments) {
    static const td_dtype floats[] = {TD_F64, TD_F32, TD_F16, TD_BF16};
    td_ctx               *cx = td_open();
    double                mean, var;
    td_seed(cx, 7);

    for (int i = 0; i < 4; i++) {
        moments(td_rand(cx, TD_SHAPE(N), floats[i]), &mean, &var);
        CHECK_NEAR(mean, 0.5, 0.005);
        CHECK_NEAR(var, 1.0 / 12, 0.002);
        moments(td_randn(cx, TD_SHAPE(N), floats[i]), &mean, &var);
        CHECK_NEAR(mean, 0, 0.02);
        CHECK_NEAR(var, 1, 0.03);
        td_tensor *t = td_empty(cx, TD_SHAPE(N), floats[i]);
        moments(td_uniform_(t, -1, 3), &mean, &var);
        CHECK_NEAR(mean, 1, 0.02);
        moments(td_normal_(t, 5, 0.5), &mean, &var);
        CHECK_NEAR(mean, 5, 0.02);
        CHECK_NEAR(var, 0.25, 0.01);
        moments(td_exponential_(t, 2), &mean, &var);
        CHECK_NEAR(mean, 0.5, 0.01);
    }
    CHECK_OK(cx);
    td_close(cx);
}

TEST(uniform_never_reaches_one) {
    static const td_dtype floats[] = {TD_F64, TD_F32, TD_F16, TD_BF16};
    td_ctx               *cx = td_open();

    for (int i = 0; i < 4; i++) {
        td_tensor *t = td_rand(cx, TD_SHAPE(N), floats[i]);
        double    *v = malloc(N * sizeof *v);
        CHECK(td_read(t, TD_F64, v, N * sizeof *v));
        for (int k = 0; k < N; k++) CHECK(v[k] >= 0 && v[k] < 1);
        free(v);
    }
    td_close(cx);
}

TEST(the_same_seed_and_offset_give_the_same_numbers) {
    td_ctx *cx = td_open();
    td_seed(cx, 42);

    td_tensor *a = td_randn(cx, TD_SHAPE(1000));
    uint64_t   offset = td_rng_offset(cx);
    td_tensor *b = td_randn(cx, TD_SHAPE(1000));
    td_seed(cx, 42);
    td_tensor *again = td_randn(cx, TD_SHAPE(1000));
    td_rng_set(cx, 42, offset);
    td_tensor *later = td_randn(cx, TD_SHAPE(1000));

    CHECK(offset == 250);
    CHECK(same(a, again) && same(b, later) && !same(a, b));
    td_close(cx);
}

TEST(threads_do_not_change_a_draw) {
    td_ctx    *cx = td_open();
    td_tensor *t[2][5];
    int        before = td_threads();

    for (int k = 0; k < 2; k++) {
        td_set_threads(k ? 4 : 1);
        td_seed(cx, 1);
        t[k][0] = td_rand(cx, TD_SHAPE(N + 3));
        t[k][1] = td_randn(cx, TD_SHAPE(N + 3), TD_F64);
        t[k][2] = td_randint(cx, 0, 1000, TD_SHAPE(N + 3));
        t[k][3] = td_bernoulli_p(td_empty(cx, TD_SHAPE(N + 3)), 0.3);
        t[k][4] = td_native_dropout(td_ones(cx, TD_SHAPE(N + 3)), 0.3, true, NULL);
    }
    td_set_threads(before);

    for (int i = 0; i < 5; i++) CHECK(same(t[0][i], t[1][i]));
    td_close(cx);
}

TEST(strides_do_not_change_a_draw) {
    td_ctx    *cx = td_open();
    td_tensor *flat = td_empty(cx, TD_SHAPE(37, 29));
    td_tensor *turned = td_t(td_empty(cx, TD_SHAPE(29, 37)));
    td_tensor *gaps = td_slice(td_zeros(cx, TD_SHAPE(37, 58)), 1, TD_NONE, TD_NONE, 2);

    td_seed(cx, 3);
    td_uniform_(flat);
    td_seed(cx, 3);
    td_uniform_(turned);
    td_seed(cx, 3);
    td_uniform_(gaps);
    td_seed(cx, 3);
    td_tensor *like = td_rand_like(turned);

    CHECK(same(flat, turned) && same(flat, gaps) && same(flat, like));
    CHECK(td_stride(like, 0) == 1);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(an_element_is_a_function_of_its_index) {
    td_ctx *cx = td_open();
    float   f[10];
    double  d[10];
    int64_t n[10];
    td_rng_set(cx, 99, 1000);

    td_read(td_rand(cx, TD_SHAPE(10)), TD_F32, f, sizeof f);
    td_read(td_rand(cx, TD_SHAPE(10), TD_F64), TD_F64, d, sizeof d);
    td_read(td_randint(cx, -5, 5, TD_SHAPE(10)), TD_I64, n, sizeof n);

    uint32_t w[4];
    for (int i = 0; i < 10; i++) {
        td_philox(99, 1000 + (uint64_t)i / 4, w);
        CHECK(f[i] == td_uniform_f32(w[i % 4]));
        td_philox(99, 1003 + (uint64_t)i / 2, w);
        CHECK(d[i] == td_uniform_f64(w[i % 2 * 2], w[i % 2 * 2 + 1]));
        td_philox(99, 1008 + (uint64_t)i / 2, w);
        CHECK(n[i] == (int64_t)td_draw_below(w[i % 2 * 2], w[i % 2 * 2 + 1], 10) - 5);
    }
    CHECK(td_rng_offset(cx) == 1013);
    td_close(cx);
}

/* The loops of this CPU against the plain functions. */
TEST(vector_loops_draw_what_the_functions_say) {
    enum { M = 1003 };
    td_ctx *cx = td_open();
    float   normal[M];
    uint8_t coin[M];
    td_rng_set(cx, 4, UINT32_MAX - 20);

    td_read(td_randn(cx, TD_SHAPE(M)), TD_F32, normal, sizeof normal);
    uint64_t second = td_rng_offset(cx);
    td_read(td_bernoulli_p(td_empty(cx, TD_SHAPE(M), TD_BOOL), 0.3), TD_BOOL, coin, M);

    for (int i = 0; i < M; i++) {
        uint32_t w[4];
        float    pair[2];
        td_philox(4, (uint64_t)UINT32_MAX - 20 + (uint64_t)i / 4, w);
        td_normal_f32(w[i / 2 % 2 * 2], w[i / 2 % 2 * 2 + 1], pair);
        CHECK(normal[i] == pair[i % 2] * 1.0f + 0.0f);
        td_philox(4, second + (uint64_t)i / 4, w);
        CHECK(coin[i] == td_draw_bernoulli(w[i % 4], 0.3));
    }
    td_close(cx);
}

TEST(a_writer_draws_what_its_twin_draws) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(100));

    td_seed(cx, 5);
    td_tensor *pure = td_normal(x, 2, 3);
    td_seed(cx, 5);
    td_tensor *written = td_normal_(td_zeros(cx, TD_SHAPE(100)), 2, 3);

    CHECK(same(pure, written));
    CHECK(td_version(x) == 0 && td_version(written) == 1);
    td_close(cx);
}

TEST(integers_fill_their_range_evenly) {
    td_ctx *cx = td_open();
    int     seen[6] = {0};
    int64_t v[6000];
    td_seed(cx, 11);

    td_read(td_randint(cx, -3, 3, TD_SHAPE(6000)), TD_I64, v, sizeof v);

    for (int i = 0; i < 6000; i++) {
        CHECK(v[i] >= -3 && v[i] < 3);
        seen[v[i] + 3]++;
    }
    for (int k = 0; k < 6; k++) CHECK(seen[k] > 850 && seen[k] < 1150);
    CHECK(td_dtype_of(td_randint(cx, 0, 2, TD_SHAPE(1), TD_BOOL)) == TD_BOOL);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(random_without_bounds_counts_as_far_as_the_dtype) {
    td_ctx *cx = td_open();
    td_seed(cx, 13);

    double top16 = 0, top8 = 0, v[5000];
    td_read(td_random_(td_empty(cx, TD_SHAPE(5000), TD_F16)), TD_F64, v, sizeof v);
    for (int i = 0; i < 5000; i++) top16 = v[i] > top16 ? v[i] : top16;
    td_read(td_random_(td_empty(cx, TD_SHAPE(5000), TD_U8)), TD_F64, v, sizeof v);
    for (int i = 0; i < 5000; i++) top8 = v[i] > top8 ? v[i] : top8;

    CHECK(top16 > 2000 && top16 <= 2048);
    CHECK(top8 == 255);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(randperm_is_a_permutation) {
    td_ctx *cx = td_open();
    int64_t v[500];
    bool    seen[500] = {false};
    int     moved = 0;

    td_read(td_randperm(cx, 500), TD_I64, v, sizeof v);

    for (int i = 0; i < 500; i++) {
        CHECK(v[i] >= 0 && v[i] < 500 && !seen[v[i]]);
        seen[v[i]] = true;
        moved += v[i] != i;
    }
    CHECK(moved > 480);
    CHECK(td_numel(td_randperm(cx, 0)) == 0);
    CHECK(td_numel(td_randperm(cx, 256, TD_U8)) == 256);
    CHECK_OK(cx);
    CHECK(td_is_nil(td_randperm(cx, 3000, TD_F16)));
    CHECK_MESSAGE(
        cx,
        "randperm: dtype f16 cannot represent n - 1 = 2999 exactly; use a wider one");
    td_close(cx);
}

TEST(coins_follow_their_probability) {
    td_ctx    *cx = td_open();
    double     mean, var;
    td_tensor *p = td_full(cx, TD_SHAPE(N), 0.25);

    moments(td_bernoulli(p), &mean, &var);
    CHECK_NEAR(mean, 0.25, 0.01);
    moments(td_bernoulli_(td_empty(cx, TD_SHAPE(N), TD_I32), 0.75), &mean, &var);
    CHECK_NEAR(mean, 0.75, 0.01);
    moments(td_bernoulli_(p, 0), &mean, &var);
    CHECK(mean == 0);
    moments(td_bernoulli_(p, 1), &mean, &var);
    CHECK(mean == 1);

    CHECK_OK(cx);
    CHECK(td_is_nil(td_bernoulli(td_tensor1(cx, 0.5, 1.5))));
    CHECK_MESSAGE(cx, "bernoulli: element 1 of self must be from 0 to 1, got 1.5");
    td_close(cx);
}

TEST(multinomial_draws_by_weight) {
    td_ctx    *cx = td_open();
    int64_t    v[10000], count[3] = {0}, w[3];
    td_tensor *p = td_tensor1(cx, 1, 0, 3);
    td_seed(cx, 17);

    td_read(td_multinomial(p, 10000, true), TD_I64, v, sizeof v);
    for (int i = 0; i < 10000; i++) count[v[i]]++;
    CHECK(count[1] == 0 && count[0] > 2300 && count[0] < 2700);

    td_read(td_multinomial(p, 3, false), TD_I64, w, sizeof w);
    CHECK(w[0] + w[1] + w[2] == 3 && w[2] == 1);
    CHECK_OK(cx);
    CHECK(td_is_nil(td_multinomial(p, 4, false)));
    CHECK_MESSAGE(cx, "multinomial: num_samples 4 is more than the 3 weights; pass "
                      "replacement = true");
    td_close(cx);
}

TEST(dropout_scales_what_it_keeps) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_full(cx, TD_SHAPE(N), 2.0), *mask;
    double     mean, var, kept;

    td_tensor *y = td_native_dropout(x, 0.25, true, &mask);
    moments(mask, &kept, &var);
    moments(y, &mean, &var);

    CHECK_NEAR(kept, 0.75, 0.01);
    CHECK_NEAR(mean, kept * 2 / 0.75, 1e-6);
    CHECK(td_dropout(x, 0.5, false) == x);
    CHECK(td_dropout(x, 0, true) == x);
    moments(td_dropout(x, 1, true), &mean, &var);
    CHECK(mean == 0);
    CHECK_OK(cx);
    CHECK(td_is_nil(td_dropout(x, 1.5, false)));
    CHECK_MESSAGE(cx, "dropout: p must be from 0 to 1, got 1.5");
    td_close(cx);
}

TEST(dropout_of_a_transposed_matrix_keeps_its_layout) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_t(td_rand(cx, TD_SHAPE(5, 7))), *mask;

    td_tensor *y = td_native_dropout(x, 0.5, true, &mask);
    td_tensor *want = td_mul(td_mul(x, mask), 2.0);

    CHECK(td_stride(y, 0) == 1 && td_stride(mask, 0) == 1);
    CHECK(same(y, want));
    CHECK_OK(cx);
    td_close(cx);
}

TEST(gradients_of_dropout_pass_the_mask) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(50)), *mask;
    td_set_requires_grad(x, true);

    td_tensor *y = td_native_dropout(x, 0.5, true, &mask);
    td_backward(td_sum(y));

    CHECK_OK(cx);
    CHECK(same(td_grad_of(x), td_mul(td_to(mask, TD_F32), 2.0)));
    td_close(cx);
}

TEST(a_draw_over_a_tensor_that_needs_a_gradient_has_a_zero_one) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(3));
    td_set_requires_grad(x, true);

    td_tensor *y = td_normal_(td_mul(x, 2.0));
    CHECK(td_requires_grad(y));
    td_backward(td_sum(y));

    CHECK_OK(cx);
    CHECK(same(td_grad_of(x), td_zeros(cx, TD_SHAPE(3))));
    td_close(cx);
}

TEST(bad_parameters_are_refused_before_anything_is_drawn) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(3)), *n = td_zeros(cx, TD_SHAPE(3), TD_I64);
    uint64_t   offset = td_rng_offset(cx);

    CHECK(td_is_nil(td_uniform_(x, 1, 0)));
    CHECK_MESSAGE(cx, "uniform_: from must not be above to, got 1 and 0");
    td_clear(cx);
    CHECK(td_is_nil(td_uniform_(n)));
    CHECK_MESSAGE(cx, "uniform_: needs a float dtype, got i64");
    td_clear(cx);
    CHECK(td_is_nil(td_normal_(x, 0, -1)));
    CHECK_MESSAGE(cx, "normal_: std must be 0 or more, got -1");
    td_clear(cx);
    CHECK(td_is_nil(td_randint(cx, 3, 3, TD_SHAPE(2))));
    CHECK_MESSAGE(
        cx, "randint: the range [3, 3) is empty; its end must be above its start");
    td_clear(cx);
    CHECK(td_is_nil(td_randint(cx, 0, 300, TD_SHAPE(2), TD_U8)));
    CHECK_MESSAGE(cx, "randint: dtype u8 cannot represent all integers of [0, 300)");
    td_clear(cx);
    CHECK(td_is_nil(td_exponential_(x, 0)));
    CHECK(td_version(x) == 0 && td_rng_offset(cx) == offset);
    td_close(cx);
}

static void check_constants(td_ctx *cx, td_tensor *x, td_tensor *y) {
    td_tensor   *g, *one = td_ones_like(y);
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true, .grads = {&one, 1}};
    CHECK(td_grad((td_tensors){&y, 1}, (td_tensors){&x, 1}, &g, &o));
    CHECK(td_ok(cx) && !td_requires_grad(g));
}

TEST(what_a_dropout_or_rrelu_draws_is_a_constant_of_its_gradient) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_randn(cx, TD_SHAPE(2, 3, 4));
    td_set_requires_grad(x, true);
    check_constants(cx, x, td_alpha_dropout(x, 0.5, true));
    check_constants(cx, x, td_feature_alpha_dropout(x, 0.5, true));
    check_constants(cx, x, td_dropout1d(x, 0.5, true));
    check_constants(cx, x, td_rrelu(x, 0.125, 0.5, true));
    td_close(cx);
}

TEST(dropout_of_one_sample_that_drops_nothing_is_a_view) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(3, 4));
    td_tensor *y = td_dropout1d(x, 0.5, false), *z = td_feature_dropout(x, 0.5, false);
    CHECK(y != x && td_is_view(y) && td_same_storage(x, y));
    CHECK(z == x);
    td_close(cx);
}
