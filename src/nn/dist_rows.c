/* dist_rows.c -- the formulas of the distributions, as PyTorch has them. */
#include "nn/dist.h"

#include <math.h>

#define A (d->param[0])
#define B (d->param[1])
#define C (d->param[2])

static const double log_2pi = 1.83787706640934548356;

/* ---- parts -------------------------------------------------------------- */

/* The distance from 1 to the next larger number; probabilities keep it from 0 and 1. */
static double epsilon(const td_tensor *t) {
    switch (td_dtype_of(t)) {
    case TD_F64: return 0x1p-52;
    case TD_F16: return 0x1p-10;
    case TD_BF16: return 0x1p-7;
    default: return 0x1p-23;
    }
}

static td_tensor *rest(td_tensor *t) { return td_add(td_neg(t), 1.0); }

static td_tensor *normalized(td_tensor *weights) {
    return td_div(weights, td_sum(weights, TD_DIMS(-1), true));
}

td_tensor *td__dist_probs(const td_distribution *d) {
    bool choice = d->kind == TD_DIST_CATEGORICAL;
    if (A) return choice ? normalized(A) : A;
    return choice ? td_softmax(B, -1) : td_sigmoid(B);
}

td_tensor *td__dist_logits(const td_distribution *d) {
    bool choice = d->kind == TD_DIST_CATEGORICAL;
    if (B) return choice ? td_sub(B, td_logsumexp(B, TD_DIMS(-1), true)) : B;
    td_tensor *p = choice ? normalized(A) : A;
    p = td_clamp(p, epsilon(p), 1 - epsilon(p));
    return choice ? td_log(p) : td_sub(td_log(p), td_log1p(td_neg(p)));
}

/* The positive part of x, whose derivative at 0 is 1/2: so that of the whole is. */
static td_tensor *positive_part(td_tensor *x) {
    td_tensor *two = td_sub(td_add(td_clamp_min(x, 0.0), x), td_clamp_max(x, 0.0));
    return td_mul(two, 0.5);
}

td_tensor *td__dist_softplus(td_tensor *x) {
    return td_add(positive_part(x), td_log1p(td_exp(td_neg(td_abs(x)))));
}

td_tensor *td__dist_log_beta(td_tensor *a, td_tensor *b) {
    return td_sub(td_add(td_lgamma(a), td_lgamma(b)), td_lgamma(td_add(a, b)));
}

td_tensor *td__dist_solve(td_tensor *tril, td_tensor *b) {
    td_tensor *x = td_linalg_solve_triangular(tril, td_unsqueeze(b, -1), false);
    return td_squeeze_dim(x, -1);
}

td_tensor *td__dist_half_log_det(td_tensor *tril) {
    return td_sum(td_log(td_diagonal(tril, 0, -2, -1)), TD_DIMS(-1));
}

td_tensor *td__dist_inf_where(td_tensor *condition, td_tensor *t) {
    return td_where(condition, INFINITY, t);
}

/* A tensor of these sizes and A's dtype, for ops that draw. */
static td_tensor *room(const td_distribution *d, td_ints size) {
    td_tensor *like = A ? A : B;
    return td_zeros(td_ctx_of(like), size, td_dtype_of(like));
}

static td_tensor *gammas(td_tensor *alpha, td_ints size) {
    return td_standard_gamma(td_expand(alpha, size));
}

/* ---- Normal, LogNormal --------------------------------------------------- */

static td_tensor *normal_draw(const td_distribution *d, td_ints size) {
    td_tensor *e = td_randn(td_ctx_of(A), size, td_dtype_of(A));
    return td_add(A, td_mul(e, B));
}
static td_tensor *normal_log_prob(const td_distribution *d, td_tensor *x) {
    td_tensor *z = td_div(td_sub(x, A), B);
    return td_sub(td_mul(td_square(z), -0.5), td_add(td_log(B), log_2pi / 2));
}
/* t, broadcast against another parameter. */
static td_tensor *wide_as(td_tensor *t, td_tensor *other) {
    return td_mul(t, td_ones_like(other));
}
static td_tensor *normal_entropy(const td_distribution *d) {
    return td_add(td_log(wide_as(B, A)), 0.5 + log_2pi / 2);
}
static td_tensor *normal_mean(const td_distribution *d) { return wide_as(A, B); }
static td_tensor *normal_variance(const td_distribution *d) {
    return wide_as(td_square(B), A);
}

static td_tensor *log_normal_draw(const td_distribution *d, td_ints size) {
    return td_exp(normal_draw(d, size));
}
static td_tensor *log_normal_log_prob(const td_distribution *d, td_tensor *x) {
    td_tensor *y = td_log(x);
    return td_sub(normal_log_prob(d, y), y);
}
static td_tensor *log_normal_entropy(const td_distribution *d) {
    return td_add(normal_entropy(d), A);
}
static td_tensor *log_normal_mean(const td_distribution *d) {
    return td_exp(td_add(A, td_mul(td_square(B), 0.5)));
}
static td_tensor *log_normal_variance(const td_distribution *d) {
    td_tensor *v = td_square(B);
    return td_mul(td_expm1(v), td_exp(td_add(td_mul(A, 2.0), v)));
}

/* ---- Uniform ------------------------------------------------------------ */

static td_tensor *uniform_draw(const td_distribution *d, td_ints size) {
    td_tensor *u = td_rand(td_ctx_of(A), size, td_dtype_of(A));
    return td_add(A, td_mul(u, td_sub(B, A)));
}
static td_tensor *uniform_log_prob(const td_distribution *d, td_tensor *x) {
    td_tensor *inside = td_logical_and(td_ge(x, A), td_lt(x, B));
    td_tensor *density = td_neg(td_log(td_sub(B, A)));
    return td_where(inside, density, -INFINITY);
}
static td_tensor *uniform_entropy(const td_distribution *d) {
    return td_log(td_sub(B, A));
}
static td_tensor *uniform_mean(const td_distribution *d) {
    return td_mul(td_add(A, B), 0.5);
}
static td_tensor *uniform_variance(const td_distribution *d) {
    return td_div(td_square(td_sub(B, A)), 12.0);
}

/* ---- Bernoulli, Categorical ---------------------------------------------- */

static td_tensor *bernoulli_draw(const td_distribution *d, td_ints size) {
    return td_bernoulli(td_expand(td__dist_probs(d), size));
}
static td_tensor *bernoulli_log_prob(const td_distribution *d, td_tensor *x) {
    td_tensor *l = td__dist_logits(d);
    return td_sub(td_mul(x, l), td__dist_softplus(l));
}
static td_tensor *bernoulli_entropy(const td_distribution *d) {
    td_tensor *l = td__dist_logits(d);
    return td_sub(td__dist_softplus(l), td_mul(td__dist_probs(d), l));
}
static td_tensor *bernoulli_variance(const td_distribution *d) {
    td_tensor *p = td__dist_probs(d);
    return td_mul(p, rest(p));
}

/* The rows of probabilities draw all samples of one place together. */
static td_tensor *categorical_draw(const td_distribution *d, td_ints size) {
    td_tensor *p = td__dist_probs(d);
    int        batch = td_rank(p) - 1;
    int64_t    n = 1;
    for (int i = 0; i < size.n - batch; i++) n *= size.v[i];
    td_tensor *rows = td_reshape(p, TD_SHAPE(-1, td_sym_size(p, -1)));
    return td_reshape(td_t(td_multinomial(rows, n, true)), size);
}
static td_tensor *categorical_log_prob(const td_distribution *d, td_tensor *x) {
    td_tensor *l = td__dist_logits(d), *at = td_unsqueeze(td_to(x, TD_I64), -1);
    td_tensor *one = td_zeros_like(at, td_dtype_of(l));
    td_tensor *rows = td_add(l, one), *wide = td_zeros_like(td_select(rows, -1, 0));
    at = td_add(at, td_to(td_unsqueeze(wide, -1), TD_I64));
    return td_squeeze_dim(td_gather(rows, -1, at), -1);
}
static td_tensor *categorical_entropy(const td_distribution *d) {
    td_tensor *l = td_clamp_min(td__dist_logits(d), -1e38);
    return td_neg(td_sum(td_mul(l, td__dist_probs(d)), TD_DIMS(-1)));
}

/* ---- Gamma, Beta, Dirichlet ------------------------------------------------ */

static td_tensor *gamma_draw(const td_distribution *d, td_ints size) {
    return td_div(gammas(A, size), B);
}
static td_tensor *gamma_log_prob(const td_distribution *d, td_tensor *x) {
    td_tensor *powers = td_add(td_xlogy(A, B), td_xlogy(td_sub(A, 1.0), x));
    return td_sub(td_sub(powers, td_mul(B, x)), td_lgamma(A));
}
static td_tensor *gamma_entropy(const td_distribution *d) {
    td_tensor *e = td_add(td_sub(A, td_log(B)), td_lgamma(A));
    return td_add(e, td_mul(rest(A), td_digamma(A)));
}
static td_tensor *gamma_mean(const td_distribution *d) { return td_div(A, B); }
static td_tensor *gamma_variance(const td_distribution *d) {
    return td_div(A, td_square(B));
}

static td_tensor *beta_draw(const td_distribution *d, td_ints size) {
    td_tensor *x = gammas(A, size), *y = gammas(B, size);
    return td_div(x, td_add(x, y));
}
static td_tensor *beta_log_prob(const td_distribution *d, td_tensor *x) {
    td_tensor *powers = td_add(td_xlogy(td_sub(A, 1.0), x),
                               td_mul(td_sub(B, 1.0), td_log1p(td_neg(x))));
    return td_sub(powers, td__dist_log_beta(A, B));
}
static td_tensor *beta_entropy(const td_distribution *d) {
    td_tensor *sum = td_add(A, B);
    td_tensor *parts = td_add(td_mul(td_sub(A, 1.0), td_digamma(A)),
                              td_mul(td_sub(B, 1.0), td_digamma(B)));
    td_tensor *e = td_sub(td__dist_log_beta(A, B), parts);
    return td_add(e, td_mul(td_sub(sum, 2.0), td_digamma(sum)));
}
static td_tensor *beta_mean(const td_distribution *d) {
    return td_div(A, td_add(A, B));
}
static td_tensor *beta_variance(const td_distribution *d) {
    td_tensor *sum = td_add(A, B);
    return td_div(td_mul(A, B), td_mul(td_square(sum), td_add(sum, 1.0)));
}

static td_tensor *last_sum(td_tensor *t) { return td_sum(t, TD_DIMS(-1)); }

static td_tensor *dirichlet_draw(const td_distribution *d, td_ints size) {
    return normalized(gammas(A, size));
}
static td_tensor *dirichlet_log_prob(const td_distribution *d, td_tensor *x) {
    td_tensor *powers = last_sum(td_xlogy(td_sub(A, 1.0), x));
    return td_sub(td_add(powers, td_lgamma(last_sum(A))), last_sum(td_lgamma(A)));
}
static td_tensor *dirichlet_entropy(const td_distribution *d) {
    td_tensor *sum = last_sum(A);
    td_tensor *e = td_sub(last_sum(td_lgamma(A)), td_lgamma(sum));
    double     k = (double)td_size(A, -1);
    e = td_add(e, td_mul(td_sub(sum, k), td_digamma(sum)));
    return td_sub(e, last_sum(td_mul(td_sub(A, 1.0), td_digamma(A))));
}
static td_tensor *dirichlet_mean(const td_distribution *d) { return normalized(A); }
static td_tensor *dirichlet_variance(const td_distribution *d) {
    td_tensor *sum = td_sum(A, TD_DIMS(-1), true);
    return td_div(td_mul(A, td_sub(sum, A)), td_mul(td_square(sum), td_add(sum, 1.0)));
}

/* ---- Exponential, Laplace ------------------------------------------------ */

static td_tensor *exponential_draw(const td_distribution *d, td_ints size) {
    return td_div(td_exponential(room(d, size), 1), A);
}
static td_tensor *exponential_log_prob(const td_distribution *d, td_tensor *x) {
    return td_sub(td_log(A), td_mul(A, x));
}
static td_tensor *exponential_entropy(const td_distribution *d) {
    return rest(td_log(A));
}
static td_tensor *exponential_mean(const td_distribution *d) {
    return td_reciprocal(A);
}
static td_tensor *exponential_variance(const td_distribution *d) {
    return td_reciprocal(td_square(A));
}

/* The difference of two exponential numbers. */
static td_tensor *laplace_draw(const td_distribution *d, td_ints size) {
    td_tensor *e = td_exponential(room(d, size), 1);
    e = td_sub(e, td_exponential(room(d, size), 1));
    return td_add(A, td_mul(e, B));
}
static td_tensor *laplace_log_prob(const td_distribution *d, td_tensor *x) {
    td_tensor *z = td_div(td_abs(td_sub(x, A)), B);
    return td_neg(td_add(td_log(td_mul(B, 2.0)), z));
}
static td_tensor *laplace_entropy(const td_distribution *d) {
    return td_add(td_log(wide_as(td_mul(B, 2.0), A)), 1.0);
}
static td_tensor *laplace_variance(const td_distribution *d) {
    return wide_as(td_mul(td_square(B), 2.0), A);
}

/* ---- Poisson, Binomial --------------------------------------------------- */

static td_tensor *poisson_draw(const td_distribution *d, td_ints size) {
    return td_poisson(td_expand(A, size));
}
static td_tensor *poisson_log_prob(const td_distribution *d, td_tensor *x) {
    return td_sub(td_sub(td_xlogy(x, A), A), td_lgamma(td_add(x, 1.0)));
}
static td_tensor *poisson_mean(const td_distribution *d) { return td_mul(A, 1.0); }

static td_tensor *binomial_draw(const td_distribution *d, td_ints size) {
    return td_binomial(td_expand(C, size), td_expand(td__dist_probs(d), size));
}
static td_tensor *binomial_log_prob(const td_distribution *d, td_tensor *x) {
    td_tensor *l = td__dist_logits(d);
    td_tensor *ways = td_sub(td_lgamma(td_add(C, 1.0)), td_lgamma(td_add(x, 1.0)));
    ways = td_sub(ways, td_lgamma(td_add(td_sub(C, x), 1.0)));
    return td_add(ways, td_sub(td_mul(x, l), td_mul(C, td__dist_softplus(l))));
}

/* The sum over all values, whose number must be the same everywhere. */
static td_tensor *binomial_entropy(const td_distribution *d) {
    td_ctx *cx = td_ctx_of(C);
    double  most = td_item(td_amax(C, TD_ALL));
    if (!td_ok(cx)) return td_nil(cx);
    if (td_item(td_amin(C, TD_ALL)) != most)
        return td_fail(cx, TD_E_UNSUPPORTED,
                       "td_dist_entropy: Binomial has total counts that differ");
    td_tensor *k = td_arange(cx, 0, (int64_t)most + 1, 1, td_dtype_of(C)), *values = k;
    td_tensor *wide = td_mul(td__dist_logits(d), td_ones_like(C));
    for (int i = 0; i < td_rank(wide); i++) values = td_unsqueeze(values, -1);
    td_tensor *l = binomial_log_prob(d, td_add(values, td_zeros_like(wide)));
    return td_neg(td_sum(td_mul(td_exp(l), l), TD_DIMS(0)));
}
static td_tensor *binomial_mean(const td_distribution *d) {
    return td_mul(C, td__dist_probs(d));
}
static td_tensor *binomial_variance(const td_distribution *d) {
    return td_mul(C, bernoulli_variance(d));
}

/* ---- StudentT: df, loc, scale ---------------------------------------------- */

static td_tensor *student_draw(const td_distribution *d, td_ints size) {
    td_tensor *e = td_randn(td_ctx_of(A), size, td_dtype_of(A));
    td_tensor *z = td_mul(gammas(td_mul(A, 0.5), size), 2.0);
    return td_add(B, td_mul(C, td_mul(e, td_rsqrt(td_div(z, A)))));
}
static td_tensor *student_log_prob(const td_distribution *d, td_tensor *x) {
    td_tensor *y = td_div(td_sub(x, B), C), *half = td_mul(td_add(A, 1.0), 0.5);
    td_tensor *z = td_add(td_log(C), td_mul(td_log(A), 0.5));
    z = td_add(td_add(z, 0.57236494292470008707), td_lgamma(td_mul(A, 0.5)));
    z = td_sub(z, td_lgamma(half));
    return td_sub(td_neg(td_mul(half, td_log1p(td_div(td_square(y), A)))), z);
}
static td_tensor *student_entropy(const td_distribution *d) {
    td_tensor *half = td_mul(A, 0.5), *more = td_mul(td_add(A, 1.0), 0.5);
    td_tensor *beta = td_add(td_lgamma(half), 0.57236494292470008707);
    beta = td_sub(beta, td_lgamma(more));
    td_tensor *e = td_mul(more, td_sub(td_digamma(more), td_digamma(half)));
    e = td_add(td_add(td_log(wide_as(C, B)), e), td_mul(td_log(A), 0.5));
    return td_add(e, beta);
}
static td_tensor *student_mean(const td_distribution *d) {
    td_tensor *wide = td_mul(td_mul(B, td_ones_like(A)), td_ones_like(C));
    return td_where(td_gt(A, 1.0), wide, NAN);
}
static td_tensor *student_variance(const td_distribution *d) {
    td_tensor *v = td_div(td_mul(td_square(C), A), td_sub(A, 2.0));
    v = wide_as(v, B);
    td_tensor *small = td_where(td_gt(A, 1.0), td_full_like(v, INFINITY), NAN);
    return td_where(td_gt(A, 2.0), v, small);
}

/* ---- MultivariateNormal -------------------------------------------------- */

static td_tensor *mvn_draw(const td_distribution *d, td_ints size) {
    td_tensor *e = td_randn(td_ctx_of(A), size, td_dtype_of(A));
    return td_add(A, td_squeeze_dim(td_matmul(B, td_unsqueeze(e, -1)), -1));
}
static double     dims(const td_distribution *d) { return (double)td_size(A, -1); }
static td_tensor *mvn_log_prob(const td_distribution *d, td_tensor *x) {
    td_tensor *m = last_sum(td_square(td__dist_solve(B, td_sub(x, A))));
    m = td_mul(td_add(m, dims(d) * log_2pi), -0.5);
    return td_sub(m, td__dist_half_log_det(B));
}
static td_tensor *mvn_entropy(const td_distribution *d) {
    td_tensor *h = td_mul(td__dist_half_log_det(B), td_ones_like(td_select(A, -1, 0)));
    return td_add(h, 0.5 * dims(d) * (1 + log_2pi));
}
static td_tensor *mvn_mean(const td_distribution *d) {
    return wide_as(A, td_select(B, -1, 0));
}
static td_tensor *mvn_variance(const td_distribution *d) {
    return wide_as(last_sum(td_square(B)), A);
}

/* ---- the table ---------------------------------------------------------- */

const td_dist_row td__dist_rows[TD_DIST_COUNT] = {
    [TD_DIST_NORMAL] = {"Normal", 2, false, normal_draw, normal_log_prob,
                        normal_entropy, normal_mean, normal_variance},
    [TD_DIST_LOG_NORMAL] = {"LogNormal", 2, false, log_normal_draw, log_normal_log_prob,
                            log_normal_entropy, log_normal_mean, log_normal_variance},
    [TD_DIST_UNIFORM] = {"Uniform", 2, false, uniform_draw, uniform_log_prob,
                         uniform_entropy, uniform_mean, uniform_variance},
    [TD_DIST_BERNOULLI] = {"Bernoulli", 2, true, bernoulli_draw, bernoulli_log_prob,
                           bernoulli_entropy, td__dist_probs, bernoulli_variance},
    [TD_DIST_CATEGORICAL] = {"Categorical", 2, true, categorical_draw,
                             categorical_log_prob, categorical_entropy, NULL, NULL},
    [TD_DIST_GAMMA] = {"Gamma", 2, false, gamma_draw, gamma_log_prob, gamma_entropy,
                       gamma_mean, gamma_variance},
    [TD_DIST_BETA] = {"Beta", 2, false, beta_draw, beta_log_prob, beta_entropy,
                      beta_mean, beta_variance},
    [TD_DIST_DIRICHLET] = {"Dirichlet", 1, false, dirichlet_draw, dirichlet_log_prob,
                           dirichlet_entropy, dirichlet_mean, dirichlet_variance},
    [TD_DIST_EXPONENTIAL] = {"Exponential", 1, false, exponential_draw,
                             exponential_log_prob, exponential_entropy,
                             exponential_mean, exponential_variance},
    [TD_DIST_LAPLACE] = {"Laplace", 2, false, laplace_draw, laplace_log_prob,
                         laplace_entropy, normal_mean, laplace_variance},
    [TD_DIST_POISSON] = {"Poisson", 1, true, poisson_draw, poisson_log_prob, NULL,
                         poisson_mean, poisson_mean},
    [TD_DIST_BINOMIAL] = {"Binomial", 3, true, binomial_draw, binomial_log_prob,
                          binomial_entropy, binomial_mean, binomial_variance},
    [TD_DIST_STUDENT_T] = {"StudentT", 3, false, student_draw, student_log_prob,
                           student_entropy, student_mean, student_variance},
    [TD_DIST_MULTIVARIATE_NORMAL] = {"MultivariateNormal", 2, false, mvn_draw,
                                     mvn_log_prob, mvn_entropy, mvn_mean, mvn_variance},
};
