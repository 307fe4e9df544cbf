/* distributions.c -- distributions against PyTorch's numbers, and samples against the
 * distributions. tests/nn/distributions.safetensors is tools/oracle/distributions.py's.
 * */
#include "nn_help.h"

#include <stdlib.h>

typedef struct fixture {
    td_ctx         *cx;
    td_safetensors *file;
} fixture;

static fixture fixture_begin(void) {
    fixture f = {.cx = td_open()};
    f.file = td_safetensors_open(f.cx, "tests/nn/distributions.safetensors");
    CHECK_OK(f.cx);
    return f;
}

static void fixture_end(fixture *f) {
    CHECK_OK(f->cx);
    td_safetensors_close(f->file);
    td_close(f->cx);
}

/* "name.what" of the file; NULL: it has none. */
static td_tensor *stored(const fixture *f, const char *name, const char *what) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", name, what);
    for (int i = 0; i < td_safetensors_count(f->file); i++)
        if (!strcmp(td_safetensors_name(f->file, i), key))
            return td_clone(td_safetensors_get(f->file, key));
    return NULL;
}

/* Also equal infinities and NaNs. */
static bool near(td_tensor *got, td_tensor *want, const char *name, const char *what) {
    td_grad_mode was = td_no_grad_begin(td_ctx_of(want));
    td_tensor   *same = td_logical_and(td_ne(want, want), td_ne(got, got));
    same = td_logical_or(same, td_eq(got, want));
    td_tensor *close =
        td_le(td_abs(td_sub(got, want)), td_mul(td_add(td_abs(want), 1.0), 1e-9));
    bool ok = td_rank(got) == td_rank(want) &&
              td_item(td_all(td_logical_or(same, close))) == 1;
    for (int d = 0; ok && d < td_rank(got); d++)
        ok = td_size(got, d) == td_size(want, d);
    td_no_grad_end(td_ctx_of(want), was);
    if (!ok) {
        fprintf(stderr, "%s.%s: %s\n", name, what, td_message(td_ctx_of(want)));
        td_print(got);
        td_print(want);
    }
    return ok;
}

static td_distribution bernoulli_logits(td_tensor *l) {
    return td_dist_bernoulli(NULL, l);
}
static td_distribution bernoulli_probs(td_tensor *p) {
    return td_dist_bernoulli(p, NULL);
}
static td_distribution categorical_logits(td_tensor *l) {
    return td_dist_categorical(NULL, l);
}
static td_distribution categorical_probs(td_tensor *p) {
    return td_dist_categorical(p, NULL);
}
static td_distribution binomial(td_tensor *p, td_tensor *n) {
    return td_dist_binomial(n, p, NULL);
}
static td_distribution normal(td_tensor *a, td_tensor *b) {
    return td_dist_normal(a, b);
}
static td_distribution log_normal(td_tensor *a, td_tensor *b) {
    return td_dist_log_normal(a, b);
}
static td_distribution uniform(td_tensor *a, td_tensor *b) {
    return td_dist_uniform(a, b);
}
static td_distribution gamma_of(td_tensor *a, td_tensor *b) {
    return td_dist_gamma(a, b);
}
static td_distribution beta(td_tensor *a, td_tensor *b) { return td_dist_beta(a, b); }
static td_distribution laplace(td_tensor *a, td_tensor *b) {
    return td_dist_laplace(a, b);
}
static td_distribution mvn(td_tensor *a, td_tensor *b) {
    return td_dist_multivariate_normal(a, b);
}
static td_distribution dirichlet(td_tensor *a) { return td_dist_dirichlet(a); }
static td_distribution exponential(td_tensor *a) { return td_dist_exponential(a); }
static td_distribution poisson(td_tensor *a) { return td_dist_poisson(a); }
static td_distribution student(td_tensor *a, td_tensor *b, td_tensor *c) {
    return td_dist_student_t(a, b, c);
}

static const struct kind {
    const char *name;
    td_distribution (*one)(td_tensor *);
    td_distribution (*two)(td_tensor *, td_tensor *);
    td_distribution (*three)(td_tensor *, td_tensor *, td_tensor *);
} kinds[] = {
    {.name = "normal", .two = normal},
    {.name = "log_normal", .two = log_normal},
    {.name = "uniform", .two = uniform},
    {.name = "bernoulli", .one = bernoulli_probs},
    {.name = "bernoulli_logits", .one = bernoulli_logits},
    {.name = "categorical", .one = categorical_probs},
    {.name = "categorical_logits", .one = categorical_logits},
    {.name = "gamma", .two = gamma_of},
    {.name = "beta", .two = beta},
    {.name = "dirichlet", .one = dirichlet},
    {.name = "exponential", .one = exponential},
    {.name = "laplace", .two = laplace},
    {.name = "poisson", .one = poisson},
    {.name = "binomial", .two = binomial},
    {.name = "student_t", .three = student},
    {.name = "mvn", .two = mvn},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static td_distribution make(const struct kind *k, td_tensor *const *p) {
    if (k->one) return k->one(p[0]);
    return k->two ? k->two(p[0], p[1]) : k->three(p[0], p[1], p[2]);
}

/* The stored parameters "name.0", or "name.q.0", ... False: there are none. */
static bool params(const fixture *f, const char *name, const char *before,
                   td_tensor **out) {
    for (int i = 0; i < 3; i++) {
        char what[16];
        snprintf(what, sizeof what, "%s%d", before, i);
        out[i] = stored(f, name, what);
    }
    return out[0] != NULL;
}

TEST(values_and_gradients_are_pytorchs) {
    fixture f = fixture_begin();
    bool    ok = true;
    for (int k = 0; k < KINDS; k++) {
        const char *name = kinds[k].name;
        td_tensor  *p[3], *want;
        CHECK(params(&f, name, "", p));
        for (int i = 0; i < 3; i++)
            if (p[i]) td_requires_grad_(p[i]);
        td_distribution d = make(&kinds[k], p);
        td_tensor      *lp = td_dist_log_prob(d, stored(&f, name, "value"));
        ok &= near(lp, stored(&f, name, "log_prob"), name, "log_prob");
        td_backward(td_sum(td_masked_select(lp, td_isfinite(lp))));
        for (int i = 0; i < 3; i++) {
            char what[16];
            snprintf(what, sizeof what, "grad.%d", i);
            want = stored(&f, name, what);
            if (want) ok &= near(td_grad_of(p[i]), want, name, what);
        }
        if ((want = stored(&f, name, "entropy")))
            ok &= near(td_dist_entropy(d), want, name, "entropy");
        if ((want = stored(&f, name, "mean")))
            ok &= near(td_dist_mean(d), want, name, "mean");
        if ((want = stored(&f, name, "variance")))
            ok &= near(td_dist_variance(d), want, name, "variance");
    }
    CHECK(ok);
    fixture_end(&f);
}

TEST(divergences_are_pytorchs) {
    fixture f = fixture_begin();
    bool    ok = true;
    int     n = 0;
    for (int a = 0; a < KINDS; a++)
        for (int b = 0; b < KINDS; b++) {
            char       key[64];
            td_tensor *p[3], *q[3], *want;
            snprintf(key, sizeof key, "%s.%s", kinds[a].name, kinds[b].name);
            if (!(want = stored(&f, "kl", key))) continue;
            params(&f, kinds[a].name, "", p);
            CHECK(params(&f, kinds[b].name, "q.", q));
            td_distribution from = make(&kinds[a], p), to = make(&kinds[b], q);
            ok &= near(td_add(td_dist_kl(from, to), td_zeros_like(want)), want, "kl",
                       key);
            n++;
        }
    CHECK(ok && n == 43);
    fixture_end(&f);
}

/* ---- samples ---------------------------------------------------------------- */

enum { N = 40000 };

/* Mean and variance of N samples, against those of the distribution. */
static bool has_moments(td_distribution d, const char *name) {
    td_tensor *mean = td_dist_mean(d), *variance = td_dist_variance(d);
    td_tensor *x = td_dist_sample(d, TD_SHAPE(N));
    td_tensor *m = td_mean(x, TD_DIMS(0)), *v = td_var(x, TD_DIMS(0));
    /* five standard deviations of the mean; a fifth of the variance */
    td_tensor *far = td_mul(td_sqrt(td_div(variance, N)), 5.0);
    td_tensor *ok = td_logical_and(td_le(td_abs(td_sub(m, mean)), far),
                                   td_le(td_abs(td_sub(v, variance)),
                                         td_add(td_mul(variance, 0.2), 1e-12)));
    bool       all = td_item(td_all(ok)) == 1;
    if (!all) fprintf(stderr, "%s: %s\n", name, td_message(td_ctx_of(x)));
    return all;
}

TEST(samples_have_the_moments_of_their_distribution) {
    fixture f = fixture_begin();
    bool    ok = true;
    td_seed(f.cx, 11);
    for (int k = 0; k < KINDS; k++) {
        td_tensor *p[3];
        CHECK(params(&f, kinds[k].name, "", p));
        if (!strcmp(kinds[k].name, "student_t")) p[0] = td_add(p[0], 8.0);
        if (!strcmp(kinds[k].name, "log_normal")) p[1] = td_mul(p[1], 0.3);
        if (strncmp(kinds[k].name, "categorical", 11))
            ok &= has_moments(make(&kinds[k], p), kinds[k].name);
    }
    CHECK(ok);
    fixture_end(&f);
}

TEST(categories_are_drawn_with_their_probabilities) {
    td_ctx      *cx = td_open();
    const double p[] = {0.1, 0.4, 0.5, 0.25, 0.25, 0.5};
    td_tensor   *probs = td_from(cx, TD_F64, TD_SHAPE(2, 3), p);
    td_tensor   *x = td_dist_sample(td_dist_categorical(probs, NULL), TD_SHAPE(N, 2));
    CHECK(td_rank(x) == 3 && td_size(x, 2) == 2 && td_dtype_of(x) == TD_I64);
    for (int row = 0; row < 2; row++)
        for (int i = 0; i < 3; i++) {
            td_tensor *hit = td_to(td_eq(td_select(x, -1, row), i), TD_F64);
            CHECK_NEAR(td_item(td_mean(hit)), p[3 * row + i], 0.01);
        }
    CHECK_OK(cx);
    td_close(cx);
}

/* d mean / d parameter through the samples is that of the mean. */
static void check_slope(td_distribution d, td_tensor *p, double want) {
    td_tensor *x = td_dist_rsample(d, TD_SHAPE(N));
    CHECK(td_requires_grad(x));
    td_set_grad(p, NULL);
    td_backward(td_mean(x));
    CHECK_NEAR(td_item(td_grad_of(p)), want, 0.03 * fabs(want) + 0.01);
}

TEST(gradients_flow_through_samples) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_requires_grad_(td_full(cx, TD_SHAPE(), 2.5, TD_F64));
    td_tensor *b = td_requires_grad_(td_full(cx, TD_SHAPE(), 1.5, TD_F64));
    td_seed(cx, 4);
    check_slope(td_dist_normal(a, b), a, 1);
    check_slope(td_dist_gamma(a, b), a, 1 / 1.5);
    check_slope(td_dist_gamma(a, b), b, -2.5 / (1.5 * 1.5));
    check_slope(td_dist_beta(a, b), a, 1.5 / 16);
    check_slope(td_dist_exponential(b), b, -1 / (1.5 * 1.5));
    check_slope(td_dist_uniform(a, td_add(a, 1.0)), a, 1);
    check_slope(td_dist_laplace(a, b), a, 1);
    CHECK(!td_requires_grad(td_dist_sample(td_dist_normal(a, b), TD_SHAPE(3))));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- compiled --------------------------------------------------------------- */

static bool body(td_call *c) {
    td_tensor      *a = td_arg(c, 0), *b = td_exp(td_arg(c, 1));
    td_distribution q = td_dist_normal(a, b), g = td_dist_gamma(b, b);
    td_tensor      *z =
        td_add(td_dist_rsample(q, TD_SHAPE(4)), td_dist_rsample(g, TD_SHAPE()));
    z = td_add(z, td_dist_sample(td_dist_poisson(b), TD_SHAPE()));
    td_tensor *kl = td_dist_kl(q, td_dist_normal(td_zeros_like(a), td_ones_like(b)));
    td_tensor *lp = td_dist_log_prob(g, td_add(td_square(z), 0.1));
    return td_return(c, td_sub(td_sum(kl), td_mean(lp)));
}

TEST(a_compiled_loss_of_samples_is_the_same) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_requires_grad_(td_randn(cx, TD_SHAPE(5)));
    td_tensor *b = td_requires_grad_(td_randn(cx, TD_SHAPE(5)));
    td_fn     *f = td_aot_function(cx, body, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        td_tensor *got = NULL;
        td_value   eager;
        td_seed(cx, 3);
        td_call_body(cx, body, NULL, TD_ARGS(a, b), &eager, 1);
        td_backward(eager.u.t);
        td_tensor *ga = td_clone(td_grad_of(a)), *gb = td_clone(td_grad_of(b));
        uint64_t   offset = td_rng_offset(cx);
        td_set_grad(a, NULL);
        td_set_grad(b, NULL);
        td_seed(cx, 3);
        td_invoke(f, TD_ARGS(a, b), &got, 1);
        td_backward(got);
        CHECK_OK(cx);
        CHECK(nn_apart(got, eager.u.t) < 1e-6 && td_rng_offset(cx) == offset);
        CHECK(nn_apart(td_grad_of(a), ga) < 1e-5 && nn_apart(td_grad_of(b), gb) < 1e-5);
        td_set_grad(a, NULL);
        td_set_grad(b, NULL);
    }
    td_fn_drop(f);
    td_close(cx);
}

/* ---- mistakes --------------------------------------------------------------- */

static bool says(td_ctx *cx, td_code code, const char *part) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

TEST(mistakes_with_distributions_are_errors) {
    td_ctx    *cx = td_open();
    td_tensor *one = td_ones(cx, TD_SHAPE(2)), *ints = td_ones(cx, TD_SHAPE(2), TD_I64);
    CHECK(td_is_nil(td_dist_rsample(td_dist_poisson(one), TD_SHAPE())));
    CHECK(says(cx, TD_E_GRAD, "Poisson has integer values, which have no gradient"));
    CHECK(td_is_nil(td_dist_entropy(td_dist_poisson(one))));
    CHECK(
        says(cx, TD_E_UNSUPPORTED, "td_dist_entropy: Poisson has none in closed form"));
    CHECK(td_is_nil(td_dist_mean(td_dist_bernoulli(one, one))));
    CHECK(says(cx, TD_E_ARG, "Bernoulli takes either probs or logits"));
    CHECK(td_is_nil(td_dist_sample(td_dist_normal(ints, one), TD_SHAPE())));
    CHECK(says(cx, TD_E_DTYPE, "parameter 0 of Normal is i64[2]"));
    CHECK(td_is_nil(td_dist_log_prob(td_dist_multivariate_normal(one, one), one)));
    CHECK(says(cx, TD_E_SHAPE, "MultivariateNormal has too few dims"));
    CHECK(td_is_nil(
        td_dist_kl(td_dist_student_t(one, one, one), td_dist_normal(one, one))));
    CHECK(says(cx, TD_E_UNSUPPORTED, "of StudentT from Normal has no closed form"));
    CHECK(td_is_nil(td_dist_mean((td_distribution){0})));
    td_clear(cx);
    td_close(cx);
}
