/* samplers.c -- gamma, Poisson and binomial variables by rejection: Marsaglia and Tsang
 * 2000, and Hoermann's transformed rejection 1993. */
#include "kernels/samplers.h"

#include <math.h>

/* No sampler rejects that often; it bounds the loops for parameters like NaN. */
enum { MOST = 10000 };

static const double pi = 3.14159265358979323846;

td_stream td__stream(uint64_t seed, uint64_t block) {
    return (td_stream){.ctr = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0},
                       .key = {(uint32_t)seed, (uint32_t)(seed >> 32)}};
}

double td__stream_uniform(td_stream *s) {
    if (s->left == 0) {
        td_philox_block(s->ctr, s->key, s->w);
        s->ctr[2]++;
        s->left = 2;
    }
    int at = 2 * (2 - s->left--);
    return td_uniform_f64(s->w[at], s->w[at + 1]);
}

/* In (0, 1], so that its logarithm is finite. */
static double positive(td_stream *s) { return 1 - td__stream_uniform(s); }

static double normal(td_stream *s) {
    double radius = sqrt(-2 * td_m_log_f64(positive(s)));
    return radius * td_m_cos_f64(2 * pi * td__stream_uniform(s));
}

/* ---- gamma -------------------------------------------------------------- */

/* A shape below 1 is that of alpha + 1, times a power of a uniform number. */
double td__sample_gamma(td_stream *s, double alpha, double unused) {
    double scale = 1;
    (void)unused;
    if (!(alpha >= 0) || isinf(alpha)) return isinf(alpha) && alpha > 0 ? alpha : NAN;
    if (alpha == 0) return 0;
    if (alpha < 1) {
        scale = td_m_exp_f64(td_m_log_f64(positive(s)) / alpha);
        alpha += 1;
    }
    double d = alpha - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (int i = 0; i < MOST; i++) {
        double x = normal(s), y = 1 + c * x, v = y * y * y;
        if (y <= 0) continue;
        if (td_m_log_f64(positive(s)) < 0.5 * x * x + d - d * v + d * td_m_log_f64(v))
            return scale * d * v;
    }
    return scale * d;
}

/* ---- Poisson ------------------------------------------------------------ */

/* Counts the factors until the product of uniform numbers is below exp(-rate). */
static double poisson_small(td_stream *s, double rate) {
    double bound = td_m_exp_f64(-rate), product = 1;
    for (int k = 0; k < MOST; k++)
        if ((product *= td__stream_uniform(s)) <= bound) return k;
    return MOST;
}

/* A candidate of transformed rejection: k, and what accepts it. */
typedef struct candidate {
    double k, us, v;
} candidate;

static candidate propose(td_stream *s, double a, double b, double center) {
    double u = td__stream_uniform(s) - 0.5, us = 0.5 - fabs(u);
    return (candidate){floor((2 * a / us + b) * u + center), us, td__stream_uniform(s)};
}

double td__sample_poisson(td_stream *s, double rate, double unused) {
    (void)unused;
    if (!(rate > 0) || isinf(rate)) return rate == 0 ? 0 : NAN;
    if (rate < 10) return poisson_small(s, rate);
    double root = sqrt(rate), log_rate = td_m_log_f64(rate);
    double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    double scale = td_m_log_f64(1.1239 + 1.1328 / (b - 3.4));
    double inner = 0.9277 - 3.6224 / (b - 2);
    for (int i = 0; i < MOST; i++) {
        candidate c = propose(s, a, b, rate + 0.43);
        if (c.us >= 0.07 && c.v <= inner) return c.k;
        if (c.k < 0 || (c.us < 0.013 && c.v > c.us)) continue;
        double log_p = c.k * log_rate - rate - td_m_lgamma_f64(c.k + 1);
        double log_v = td_m_log_f64(c.v) + scale - td_m_log_f64(a / (c.us * c.us) + b);
        if (log_v <= log_p) return c.k;
    }
    return floor(rate);
}

/* ---- binomial ----------------------------------------------------------- */

/* Adds the lengths of runs of failures until they exceed the count. */
static double binomial_small(td_stream *s, double n, double p) {
    double step = td_m_log1p_f64(-p), at = 0;
    for (int k = 0; k < MOST; k++) {
        at += ceil(td_m_log_f64(positive(s)) / step);
        if (!(at <= n)) return k;
    }
    return MOST;
}

/* The logarithm of n! / (k! (n - k)!) up to a constant of n. */
static double log_ways(double n, double k) {
    return -td_m_lgamma_f64(k + 1) - td_m_lgamma_f64(n - k + 1);
}

static double binomial_large(td_stream *s, double n, double p) {
    double root = sqrt(n * p * (1 - p)), odds = td_m_log_f64(p / (1 - p));
    double b = 1.15 + 2.53 * root, a = -0.0873 + 0.0248 * b + 0.01 * p;
    double inner = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * root;
    double mode = floor((n + 1) * p), at_mode = log_ways(n, mode);
    for (int i = 0; i < MOST; i++) {
        candidate c = propose(s, a, b, n * p + 0.5);
        if (c.us >= 0.07 && c.v <= inner) return c.k;
        if (c.k < 0 || c.k > n) continue;
        double log_v = td_m_log_f64(c.v * alpha / (a / (c.us * c.us) + b));
        if (log_v <= log_ways(n, c.k) - at_mode + (c.k - mode) * odds) return c.k;
    }
    return mode;
}

double td__sample_binomial(td_stream *s, double count, double prob) {
    double n = floor(count), p = prob > 0.5 ? 1 - prob : prob, k;
    if (isnan(n) || isnan(p) || isinf(n)) return NAN;
    if (n <= 0 || prob <= 0) return 0;
    if (prob >= 1) return n;
    k = n * p < 10 ? binomial_small(s, n, p) : binomial_large(s, n, p);
    return prob > 0.5 ? n - k : k;
}

/* ---- the derivative of gamma ------------------------------------------------ */

/* The sum over k of x^(k+1) / (alpha ... (alpha + k)) * (psi(alpha + k + 1) - log x):
 * the derivative of the series of F, divided by the density. */
static double grad_series(double alpha, double x) {
    double term = x / alpha, log_x = log(x), sum = 0;
    double psi = td_m_digamma_f64(alpha + 1);
    for (int k = 0; k < 100000; k++) {
        double add = term * (psi - log_x);
        sum += add;
        if (fabs(add) <= 1e-17 * fabs(sum) && alpha + k > x) break;
        psi += 1 / (alpha + k + 1);
        term *= x / (alpha + k + 1);
    }
    return sum;
}

/* The integral over t > x of (t/x)^(alpha-1) exp(x - t) (log t - psi(alpha)), by the
 * substitution t = x + length * exp(pi/2 sinh s). */
static double grad_integral(double alpha, double x) {
    const double h = 1.0 / 16;
    double       psi = td_m_digamma_f64(alpha), sum = 0;
    double       length = 1 / fmax(1 - (alpha - 1) / x, 1 / sqrt(alpha + 1));
    for (int i = -64; i <= 48; i++) {
        double s = i * h, u = length * exp(pi / 2 * sinh(s));
        double f = exp((alpha - 1) * log1p(u / x) - u) * (log(x + u) - psi);
        sum += h * f * u * (pi / 2) * cosh(s);
    }
    return sum;
}

/* For large alpha by the approximation of Wilson and Hilferty, in which the cube root
 * of x / alpha is normal. */
static double grad_large(double alpha, double x) {
    double w = cbrt(x / alpha);
    double dw = 1 / (9 * alpha * alpha) - (w - 1 + 1 / (9 * alpha)) / (2 * alpha);
    return w * w * w + 3 * alpha * w * w * dw;
}

double td__gamma_grad(double alpha, double x) {
    if (!(alpha > 0 && x >= 0) || isinf(alpha) || isinf(x)) return NAN;
    if (x == 0) return 0;
    if (alpha > 1e6) return grad_large(alpha, x);
    return x <= alpha + 1 ? grad_series(alpha, x) : grad_integral(alpha, x);
}
