/* samplers.c -- draws by rejection and by quantiles: distributions, numbers that never
 * change, and that an element depends on seed, offset and index alone. */
#include "nn_help.h"

#include <stdlib.h>

enum { N = 100000 };

static void moments(td_tensor *t, double *mean, double *var) {
    double *v = malloc(N * sizeof *v), sum = 0, squares = 0;
    CHECK(td_read(t, TD_F64, v, N * sizeof *v));
    for (int i = 0; i < N; i++) sum += v[i];
    *mean = sum / N;
    for (int i = 0; i < N; i++) squares += (v[i] - *mean) * (v[i] - *mean);
    *var = squares / N;
    free(v);
}

/* Mean and variance within five of their own standard deviations, or nearly. */
static void check_moments(td_tensor *t, double mean, double var) {
    double m, v;
    moments(t, &m, &v);
    CHECK_NEAR(m, mean, 5 * sqrt(var / N));
    CHECK_NEAR(v, var, 0.05 * var);
}

static td_tensor *full(td_ctx *cx, double v) {
    return td_full(cx, TD_SHAPE(N), v, TD_F64);
}

TEST(draws_have_the_moments_of_their_distribution) {
    static const double rates[] = {0.2, 3, 9.9, 10.1, 60, 5000};
    static const double trials[][2] = {{1, 0.5},     {20, 0.3},  {20, 0.95},
                                       {1000, 0.02}, {100, 0.7}, {1e6, 0.4}};
    td_ctx             *cx = td_open();
    td_seed(cx, 21);
    for (int i = 0; i < 6; i++) {
        double n = trials[i][0], p = trials[i][1];
        check_moments(td_poisson(full(cx, rates[i])), rates[i], rates[i]);
        check_moments(td_binomial(full(cx, n), td_full(cx, TD_SHAPE(), p, TD_F64)),
                      n * p, n * p * (1 - p));
        check_moments(td_standard_gamma(full(cx, rates[i])), rates[i], rates[i]);
    }
    check_moments(td_geometric(full(cx, 0), 0.25), 4, 12);
    check_moments(td_log_normal(full(cx, 0), 0.5, 0.3), exp(0.545),
                  expm1(0.09) * exp(1.09));
    td_tensor *c = td_cauchy(full(cx, 0), 2, 3); /* no moments: quartiles */
    CHECK_NEAR(td_item(td_mean(td_to(td_lt(c, 2.0), TD_F64))), 0.5, 0.01);
    CHECK_NEAR(td_item(td_mean(td_to(td_lt(c, 5.0), TD_F64))), 0.75, 0.01);
    CHECK_OK(cx);
    td_close(cx);
}

/* The largest distance between the empirical distribution function of N draws and the
 * incomplete gamma function: Kolmogorov and Smirnov's test at 1 in 10,000. */
TEST(gamma_variables_follow_the_incomplete_gamma_function) {
    static const double shapes[] = {0.05, 0.5, 1, 7.5, 300};
    td_ctx             *cx = td_open();
    double             *v = malloc(N * sizeof *v);
    td_seed(cx, 5);
    for (int k = 0; k < 5; k++) {
        td_tensor *x = td_standard_gamma(full(cx, shapes[k])), *sorted, *at;
        sorted = td_sort(x, -1, false, &at);
        td_tensor *f = td_igamma(full(cx, shapes[k]), sorted);
        CHECK(td_read(f, TD_F64, v, N * sizeof *v));
        double far = 0;
        for (int i = 0; i < N; i++)
            far = fmax(far, fmax(v[i] - (double)i / N, (i + 1.0) / N - v[i]));
        if (far * sqrt(N) >= 2.23) fprintf(stderr, "shape %g: %g\n", shapes[k], far);
        CHECK(far * sqrt(N) < 2.23);
    }
    free(v);
    CHECK_OK(cx);
    td_close(cx);
}

/* The same on every machine and in every version. */
TEST(drawn_numbers_never_change) {
    static const double want[][3] = {
        {25, 13, 17},
        {37, 32, 25},
        {1.442199752453738, 0.95811981448475081, 3.2878778693280171},
        {1, 8, 10},
        {1.6675925670491452, 0.5498403607431448, 1.5595104237015522},
        {4.7644727415374071, -9.4100025274273413, -1.5853380424585852}};
    td_ctx    *cx = td_open();
    td_tensor *t[6], *a = td_full(cx, TD_SHAPE(3), 2.5, TD_F64);
    td_seed(cx, 1234);
    t[0] = td_poisson(td_mul(a, 8.0));
    t[1] = td_binomial(td_full(cx, TD_SHAPE(3), 100, TD_F64),
                       td_full(cx, TD_SHAPE(), 0.3, TD_F64));
    t[2] = td_standard_gamma(a);
    t[3] = td_geometric(a, 0.1);
    t[4] = td_log_normal(a, 0, 1);
    t[5] = td_cauchy(a, 0, 1);
    for (int i = 0; i < 6; i++) {
        double v[3];
        CHECK(td_read(t[i], TD_F64, v, sizeof v));
        for (int k = 0; k < 3; k++) {
            bool same = fabs(v[k] - want[i][k]) <= 1e-13 * fabs(want[i][k]);
            if (!same) fprintf(stderr, "%d %d: %.17g\n", i, k, v[k]);
            CHECK(same);
        }
    }
    CHECK(td_rng_offset(cx) == 3 * 3 + 3 * 2);
    td_close(cx);
}

TEST(an_element_depends_on_seed_offset_and_index_alone) {
    td_ctx    *cx = td_open();
    td_tensor *rates = td_add(td_rand(cx, TD_SHAPE(60, 50), TD_F64), 0.1);
    td_seed(cx, 8);
    td_tensor *all = td_standard_gamma(rates);
    td_tensor *p = td_poisson(td_mul(rates, 30.0));
    td_seed(cx, 8);
    td_tensor *again = td_standard_gamma(td_t(td_clone(td_t(rates)))); /* strides */
    CHECK(nn_apart(all, again) == 0);
    td_rng_set(cx, 8, 50 * 7);
    td_tensor *row = td_standard_gamma(td_select(rates, 0, 7));
    CHECK(nn_apart(row, td_select(all, 0, 7)) == 0);
    td_rng_set(cx, 8, 3000);
    CHECK(nn_apart(td_poisson(td_mul(rates, 30.0)), p) == 0);
    CHECK_OK(cx);
    td_close(cx);
}

/* Against a difference of the incomplete gamma function, over the density. */
TEST(the_gradient_of_gamma_is_that_at_a_fixed_quantile) {
    static const double at[][2] = {{0.3, 0.01},  {0.3, 2},  {1, 0.5},  {5, 3},
                                   {5, 6.5},     {5, 15},   {60, 50},  {60, 75},
                                   {0.05, 1e-8}, {0.05, 3}, {900, 950}};
    td_ctx             *cx = td_open();
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        double     a = at[i][0], x = at[i][1], h = a * 1e-5, f[2];
        td_tensor *tx = td_full(cx, TD_SHAPE(), x, TD_F64);
        for (int k = 0; k < 2; k++)
            f[k] = td_item(
                td_igamma(td_full(cx, TD_SHAPE(), k ? a + h : a - h, TD_F64), tx));
        double density = exp((a - 1) * log(x) - x - lgamma(a));
        double want = -(f[1] - f[0]) / (2 * h) / density;
        double got =
            td_item(td_standard_gamma_grad(td_full(cx, TD_SHAPE(), a, TD_F64), tx));
        if (!(fabs(got - want) < 1e-5 * want))
            fprintf(stderr, "a %g, x %g: %.10g, difference %.10g\n", a, x, got, want);
        CHECK(fabs(got - want) < 1e-5 * want);
    }
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- compiled ----------------------------------------------------------------- */

static bool body(td_call *c) {
    td_tensor *a = td_arg(c, 0);
    td_tensor *y = td_add(td_standard_gamma(a), td_poisson(td_detach(a)));
    y = td_add(y, td_log_normal(a, 0, 0.5));
    td_tensor *n = td_full_like(a, 9);
    y = td_add(y, td_binomial(n, td_sigmoid(a)));
    return td_return(c, td_sum(td_square(td_add(y, td_geometric(a, 0.5)))));
}

TEST(compiled_draws_are_eagers_and_functional_ones_too) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_requires_grad_(td_add(td_rand(cx, TD_SHAPE(7, 5)), 0.5));
    td_value   eager;
    td_seed(cx, 17);
    td_call_body(cx, body, NULL, TD_ARGS(a), &eager, 1);
    td_backward(eager.u.t);
    td_tensor *grad = td_clone(td_grad_of(a));
    uint64_t   offset = td_rng_offset(cx);
    for (int functional = 0; functional < 2; functional++) {
        td_aot_opts o = {TD_AOT_OPTS, .functional_rng = functional};
        td_fn      *f = td_aot_function(cx, body, NULL, &o);
        td_tensor  *got = NULL;
        td_seed(cx, 17);
        td_set_grad(a, NULL);
        td_invoke(f, TD_ARGS(a), &got, 1);
        td_backward(got);
        CHECK_OK(cx);
        CHECK(nn_apart(got, eager.u.t) < 1e-6 && nn_apart(td_grad_of(a), grad) < 1e-5);
        CHECK(td_rng_offset(cx) == offset);
        td_fn_drop(f);
    }
    td_close(cx);
}
