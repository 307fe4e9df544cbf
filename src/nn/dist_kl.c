/* dist_kl.c -- Kullback-Leibler divergences: of two of a kind, and of a kind from
 * Normal, Exponential, Gamma, Beta, Uniform or Poisson by moments. */
#include "nn/dist.h"

#include <math.h>

typedef td_tensor *kl_fn(const td_distribution *p, const td_distribution *q);

static const double euler = 0.57721566490153286061;
static const double pi = 3.14159265358979323846;

/* Parameter i of p. */
#define P(i) (p->param[i])
#define Q(i) (q->param[i])

static td_tensor *rest(td_tensor *t) { return td_add(td_neg(t), 1.0); }
static td_tensor *last_sum(td_tensor *t) { return td_sum(t, TD_DIMS(-1)); }
static td_tensor *half(td_tensor *t) { return td_mul(t, 0.5); }

/* ---- two of a kind ------------------------------------------------------- */

static td_tensor *normals(const td_distribution *p, const td_distribution *q) {
    td_tensor *v = td_square(td_div(P(1), Q(1)));
    td_tensor *m = td_square(td_div(td_sub(P(0), Q(0)), Q(1)));
    return half(td_sub(td_sub(td_add(v, m), 1.0), td_log(v)));
}

static td_tensor *uniforms(const td_distribution *p, const td_distribution *q) {
    td_tensor *kl = td_log(td_div(td_sub(Q(1), Q(0)), td_sub(P(1), P(0))));
    td_tensor *out = td_logical_or(td_gt(Q(0), P(0)), td_lt(Q(1), P(1)));
    return td__dist_inf_where(out, kl);
}

/* p * (softplus of one logit - of the other), which is 0 where p is 0 and infinite
 * where only the other is. */
static td_tensor *outcome(td_tensor *p, td_tensor *q, td_tensor *of_p,
                          td_tensor *of_q) {
    td_tensor *t = td_sub(td__dist_softplus(of_q), td__dist_softplus(of_p));
    t = td__dist_inf_where(td_eq(q, 0.0), td_mul(p, t));
    return td_where(td_eq(p, 0.0), 0.0, t);
}

static td_tensor *bernoullis(const td_distribution *p, const td_distribution *q) {
    td_tensor *a = td__dist_probs(p), *b = td__dist_probs(q);
    td_tensor *la = td__dist_logits(p), *lb = td__dist_logits(q);
    return td_add(outcome(a, b, td_neg(la), td_neg(lb)),
                  outcome(rest(a), rest(b), la, lb));
}

static td_tensor *categoricals(const td_distribution *p, const td_distribution *q) {
    td_tensor *a = td__dist_probs(p), *b = td__dist_probs(q);
    td_tensor *t = td_mul(a, td_sub(td__dist_logits(p), td__dist_logits(q)));
    t = td__dist_inf_where(td_eq(b, 0.0), t);
    return last_sum(td_where(td_eq(a, 0.0), 0.0, t));
}

static td_tensor *gammas(const td_distribution *p, const td_distribution *q) {
    td_tensor *t = td_mul(Q(0), td_log(td_div(P(1), Q(1))));
    t = td_add(t, td_sub(td_lgamma(Q(0)), td_lgamma(P(0))));
    t = td_add(t, td_mul(td_sub(P(0), Q(0)), td_digamma(P(0))));
    return td_add(t, td_mul(td_sub(Q(1), P(1)), td_div(P(0), P(1))));
}

static td_tensor *betas(const td_distribution *p, const td_distribution *q) {
    td_tensor *sp = td_add(P(0), P(1)), *sq = td_add(Q(0), Q(1));
    td_tensor *t = td_sub(td__dist_log_beta(Q(0), Q(1)), td__dist_log_beta(P(0), P(1)));
    t = td_add(t, td_mul(td_sub(P(0), Q(0)), td_digamma(P(0))));
    t = td_add(t, td_mul(td_sub(P(1), Q(1)), td_digamma(P(1))));
    return td_add(t, td_mul(td_sub(sq, sp), td_digamma(sp)));
}

static td_tensor *dirichlets(const td_distribution *p, const td_distribution *q) {
    td_tensor *sp = last_sum(P(0)), *sq = last_sum(Q(0));
    td_tensor *t = td_sub(td_lgamma(sp), td_lgamma(sq));
    t = td_sub(t, last_sum(td_sub(td_lgamma(P(0)), td_lgamma(Q(0)))));
    td_tensor *psi = td_sub(td_digamma(P(0)), td_digamma(td_unsqueeze(sp, -1)));
    return td_add(t, last_sum(td_mul(td_sub(P(0), Q(0)), psi)));
}

static td_tensor *exponentials(const td_distribution *p, const td_distribution *q) {
    td_tensor *r = td_div(Q(0), P(0));
    return td_sub(td_sub(r, td_log(r)), 1.0);
}

static td_tensor *laplaces(const td_distribution *p, const td_distribution *q) {
    td_tensor *r = td_div(P(1), Q(1)), *apart = td_abs(td_sub(P(0), Q(0)));
    td_tensor *t = td_mul(r, td_exp(td_neg(td_div(apart, P(1)))));
    t = td_add(t, td_sub(td_div(apart, Q(1)), td_log(r)));
    return td_sub(t, 1.0);
}

static td_tensor *poissons(const td_distribution *p, const td_distribution *q) {
    td_tensor *t = td_mul(P(0), td_sub(td_log(P(0)), td_log(Q(0))));
    return td_sub(t, td_sub(P(0), Q(0)));
}

/* Infinite if p has more trials. PyTorch has no formula if q has more: NaN here. */
static td_tensor *binomials(const td_distribution *p, const td_distribution *q) {
    td_tensor *a = td__dist_probs(p), *b = td__dist_probs(q);
    td_tensor *t = td_mul(a, td_sub(td__dist_logits(p), td__dist_logits(q)));
    t = td_add(t, td_sub(td_log1p(td_neg(a)), td_log1p(td_neg(b))));
    t = td__dist_inf_where(td_gt(P(2), Q(2)), td_mul(P(2), t));
    return td_where(td_lt(P(2), Q(2)), NAN, t);
}

static td_tensor *multivariate_normals(const td_distribution *p,
                                       const td_distribution *q) {
    td_tensor *t = td_sub(td__dist_half_log_det(Q(1)), td__dist_half_log_det(P(1)));
    td_tensor *factor = td_linalg_solve_triangular(Q(1), P(1), false);
    td_tensor *trace = td_sum(td_square(factor), TD_DIMS(-2, -1));
    td_tensor *m = last_sum(td_square(td__dist_solve(Q(1), td_sub(Q(0), P(0)))));
    double     n = (double)td_size(P(0), -1);
    return td_add(t, half(td_sub(td_add(trace, m), n)));
}

static kl_fn *const same[TD_DIST_COUNT] = {
    [TD_DIST_NORMAL] = normals,
    [TD_DIST_LOG_NORMAL] = normals,
    [TD_DIST_UNIFORM] = uniforms,
    [TD_DIST_BERNOULLI] = bernoullis,
    [TD_DIST_CATEGORICAL] = categoricals,
    [TD_DIST_GAMMA] = gammas,
    [TD_DIST_BETA] = betas,
    [TD_DIST_DIRICHLET] = dirichlets,
    [TD_DIST_EXPONENTIAL] = exponentials,
    [TD_DIST_LAPLACE] = laplaces,
    [TD_DIST_POISSON] = poissons,
    [TD_DIST_BINOMIAL] = binomials,
    [TD_DIST_MULTIVARIATE_NORMAL] = multivariate_normals,
};

/* ---- different kinds, by the moments of p ---------------------------------- */

static const td_dist_row *row(const td_distribution *d) {
    return &td__dist_rows[d->kind];
}

/* The mean of log x for x uniform in [low, high]; low is not below 0. */
static td_tensor *uniform_log(td_tensor *low, td_tensor *high) {
    td_tensor *t = td_sub(td_xlogy(high, high), td_xlogy(low, low));
    return td_sub(td_div(t, td_sub(high, low)), 1.0);
}

/* The mean of log x. */
static td_tensor *mean_log(const td_distribution *p) {
    switch (p->kind) {
    case TD_DIST_BETA: return td_sub(td_digamma(P(0)), td_digamma(td_add(P(0), P(1))));
    case TD_DIST_EXPONENTIAL: return td_neg(td_add(td_log(P(0)), euler));
    default: return uniform_log(P(0), P(1));
    }
}

static td_tensor *minus_entropy(const td_distribution *p) {
    return td_neg(row(p)->entropy(p));
}

static td_tensor *infinite(const td_distribution *p, const td_distribution *q) {
    return td_full_like(td_add(P(0), Q(0) ? Q(0) : Q(1)), INFINITY);
}

/* Infinite where a uniform p reaches below 0. */
static td_tensor *unless_negative(const td_distribution *p, td_tensor *kl) {
    if (p->kind != TD_DIST_UNIFORM) return kl;
    return td__dist_inf_where(td_lt(P(0), 0.0), kl);
}

static td_tensor *from_normal(const td_distribution *p, const td_distribution *q) {
    td_tensor *v = td_square(Q(1)), *apart = td_sub(row(p)->mean(p), Q(0));
    td_tensor *t = td_div(td_add(row(p)->variance(p), td_square(apart)), v);
    t = td_add(t, td_log(td_mul(v, 2 * pi)));
    return td_add(minus_entropy(p), half(t));
}

static td_tensor *from_exponential(const td_distribution *p, const td_distribution *q) {
    td_tensor *t = td_sub(td_mul(Q(0), row(p)->mean(p)), td_log(Q(0)));
    return unless_negative(p, td_add(minus_entropy(p), t));
}

static td_tensor *from_gamma(const td_distribution *p, const td_distribution *q) {
    td_tensor *t = td_sub(td_lgamma(Q(0)), td_mul(Q(0), td_log(Q(1))));
    t = td_sub(t, td_mul(td_sub(Q(0), 1.0), mean_log(p)));
    t = td_add(t, td_mul(Q(1), row(p)->mean(p)));
    return unless_negative(p, td_add(minus_entropy(p), t));
}

static td_tensor *uniform_from_beta(const td_distribution *p,
                                    const td_distribution *q) {
    td_tensor *t = td_add(minus_entropy(p), td__dist_log_beta(Q(0), Q(1)));
    t = td_sub(t, td_mul(td_sub(Q(0), 1.0), mean_log(p)));
    t = td_sub(t, td_mul(td_sub(Q(1), 1.0), uniform_log(rest(P(1)), rest(P(0)))));
    td_tensor *out = td_logical_or(td_gt(P(1), 1.0), td_lt(P(0), 0.0));
    return td__dist_inf_where(out, t);
}

static td_tensor *beta_from_uniform(const td_distribution *p,
                                    const td_distribution *q) {
    td_tensor *t = td_add(minus_entropy(p), td_log(td_sub(Q(1), Q(0))));
    td_tensor *out = td_logical_or(td_gt(Q(0), 0.0), td_lt(Q(1), 1.0));
    return td__dist_inf_where(out, t);
}

static td_tensor *bernoulli_from_poisson(const td_distribution *p,
                                         const td_distribution *q) {
    td_tensor *t = td_sub(td_mul(td__dist_probs(p), td_log(Q(0))), Q(0));
    return td_sub(minus_entropy(p), t);
}

static td_tensor *normal_from_laplace(const td_distribution *p,
                                      const td_distribution *q) {
    td_tensor *z = td_div(td_sub(P(0), Q(0)), P(1));
    td_tensor *near = td_mul(td_exp(td_mul(td_square(z), -0.5)), sqrt(2 / pi));
    td_tensor *mean = td_add(near, td_mul(z, td_erf(td_mul(z, sqrt(0.5)))));
    td_tensor *t = td_mul(td_div(P(1), Q(1)), mean);
    return td_add(minus_entropy(p), td_add(td_log(td_mul(Q(1), 2.0)), t));
}

/* The pairs that PyTorch has. */
static const struct pair {
    td_dist_kind p, q;
    kl_fn       *fn;
} pairs[] = {
    {TD_DIST_BERNOULLI, TD_DIST_POISSON, bernoulli_from_poisson},
    {TD_DIST_BETA, TD_DIST_EXPONENTIAL, from_exponential},
    {TD_DIST_BETA, TD_DIST_GAMMA, from_gamma},
    {TD_DIST_BETA, TD_DIST_NORMAL, from_normal},
    {TD_DIST_BETA, TD_DIST_UNIFORM, beta_from_uniform},
    {TD_DIST_EXPONENTIAL, TD_DIST_BETA, infinite},
    {TD_DIST_EXPONENTIAL, TD_DIST_GAMMA, from_gamma},
    {TD_DIST_EXPONENTIAL, TD_DIST_NORMAL, from_normal},
    {TD_DIST_EXPONENTIAL, TD_DIST_UNIFORM, infinite},
    {TD_DIST_GAMMA, TD_DIST_BETA, infinite},
    {TD_DIST_GAMMA, TD_DIST_EXPONENTIAL, from_exponential},
    {TD_DIST_GAMMA, TD_DIST_NORMAL, from_normal},
    {TD_DIST_GAMMA, TD_DIST_UNIFORM, infinite},
    {TD_DIST_LAPLACE, TD_DIST_BETA, infinite},
    {TD_DIST_LAPLACE, TD_DIST_EXPONENTIAL, infinite},
    {TD_DIST_LAPLACE, TD_DIST_GAMMA, infinite},
    {TD_DIST_LAPLACE, TD_DIST_NORMAL, from_normal},
    {TD_DIST_LAPLACE, TD_DIST_UNIFORM, infinite},
    {TD_DIST_NORMAL, TD_DIST_BETA, infinite},
    {TD_DIST_NORMAL, TD_DIST_EXPONENTIAL, infinite},
    {TD_DIST_NORMAL, TD_DIST_GAMMA, infinite},
    {TD_DIST_NORMAL, TD_DIST_LAPLACE, normal_from_laplace},
    {TD_DIST_NORMAL, TD_DIST_UNIFORM, infinite},
    {TD_DIST_POISSON, TD_DIST_BERNOULLI, infinite},
    {TD_DIST_POISSON, TD_DIST_BINOMIAL, infinite},
    {TD_DIST_UNIFORM, TD_DIST_BETA, uniform_from_beta},
    {TD_DIST_UNIFORM, TD_DIST_EXPONENTIAL, from_exponential},
    {TD_DIST_UNIFORM, TD_DIST_GAMMA, from_gamma},
    {TD_DIST_UNIFORM, TD_DIST_NORMAL, from_normal},
};

td_tensor *td__dist_kl(const td_distribution *p, const td_distribution *q) {
    if (p->kind == q->kind) return same[p->kind] ? same[p->kind](p, q) : NULL;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i].p == p->kind && pairs[i].q == q->kind) return pairs[i].fn(p, q);
    return NULL;
}
