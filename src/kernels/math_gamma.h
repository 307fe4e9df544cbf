/* math_gamma.h: relatives of the gamma function in f64: Hurwitz zeta, polygamma and the
 * regularized incomplete gamma functions; those of f32 round the result. Scalar, as
 * math_bessel.h. lgamma and digamma are in math_f64.h, tgamma is the C library's. */
#ifndef TD_OPS_MATH_GAMMA_H
#define TD_OPS_MATH_GAMMA_H

#include "kernels/math_bessel.h"

/* ---- Hurwitz zeta ---------------------------------------------------------- */

/* The sum of (q + k)^-s over all k >= 0 for s > 1, q > 0, by Euler and Maclaurin: terms
 * up to a >= s + 10, then the integral and 12 corrections B_2j / (2j)!. Where terms
 * vanish before that, their sum is all. */
TD_M_RUN double td_m_zeta_sum_f64(double s, double q) {
    static const double c[] = {8.3333333333333329e-02, -1.3888888888888889e-03,
                               3.3068783068783071e-05, -8.2671957671957675e-07,
                               2.0876756987868100e-08, -5.2841901386874932e-10,
                               1.3382536530684679e-11, -3.3896802963225827e-13,
                               8.5860620562778452e-15, -2.1748686985580619e-16,
                               5.5090028283602295e-18, -1.3954464685812522e-19};
    double              sum = 0.0, a = q, term = __builtin_pow(q, -s);
    while (a < s + 10.0) {
        sum += term;
        a += 1.0;
        term = __builtin_pow(a, -s);
        if (term <= sum * 0x1p-56) return sum;
    }
    if (term == 0.0) return sum;
    double tail = 0.0, f = s / a;
    for (int j = 0; j < 12; j++) {
        tail += c[j] * f;
        f *= (s + 2.0 * j + 1.0) / a * ((s + 2.0 * j + 2.0) / a);
    }
    return sum + term * (a / (s - 1.0) + 0.5 + tail);
}

/* Poles at q = 0, -1, -2 ...; for q < 0 a power is real only of a whole s, and the
 * terms below 0 are those of two other series. */
TD_M_RUN double td_m_zeta_f64(double s, double q) {
    if ((s != s) | (q != q)) return s + q;
    if (s == 1.0) return __builtin_inf();
    if (s < 1.0) return __builtin_nan("");
    if (q > 0.0) return td_m_zeta_sum_f64(s, q);
    if (q == __builtin_floor(q)) return __builtin_inf();
    if (s != __builtin_floor(s)) return __builtin_nan("");
    double r = q - __builtin_floor(q);
    double below = td_m_zeta_sum_f64(s, 1.0 - r) - td_m_zeta_sum_f64(s, 1.0 - q);
    double above = td_m_zeta_sum_f64(s, r);
    return __builtin_fmod(s, 2.0) == 0.0 ? above + below : above - below;
}

/* The derivative of digamma of the given order. */
TD_M_RUN double td_m_polygamma_f64(double order, double x) {
    if (order == 0.0) return td_m_digamma_f64(x);
    double y = __builtin_tgamma(order + 1.0) * td_m_zeta_f64(order + 1.0, x);
    return __builtin_fmod(order, 2.0) == 0.0 ? -y : y;
}

/* ---- incomplete gamma functions -------------------------------------------- */

/* log(1 + m) - m without cancellation: with r = m / (2 + m) it is
 * r (2 r^2 (1/3 + r^2/5 + ...) - m). `one` is 1 + m to all digits. */
TD_M_RUN double td_m_log1p_minus_f64(double m, double one) {
    if ((m < -0.5) | (m > 1.0)) return __builtin_log(one) - m;
    double r = m / (2.0 + m), z = r * r, sum = 0.0;
    for (double k = 35.0; k > 2.0; k -= 2.0) sum = sum * z + 1.0 / k;
    return r * (2.0 * z * sum - m);
}

/* x^a e^-x / Gamma(a). From a = 20 on by Stirling's series, so that no factor
 * overflows and no digits are lost in a logarithm. */
TD_M_RUN double td_m_gamma_density_f64(double a, double x) {
    if (a < 20.0) {
        if (x > 1500.0) return 0.0;
        double e = __builtin_exp(x < 700.0 ? -x : -0.5 * x);
        return __builtin_pow(x, a) * e * (x < 700.0 ? 1.0 : e) / __builtin_tgamma(a);
    }
    double i = 1.0 / a, z = i * i;
    double series =
        i * (1.0 / 12.0 -
             z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z / 1188.0))));
    double m = a * td_m_log1p_minus_f64((x - a) / a, x / a);
    return 3.9894228040143268e-01 * __builtin_sqrt(a) * __builtin_exp(m - series);
}

/* P(a, x) by its power series, for x up to about a. */
TD_M_RUN double td_m_igamma_series_f64(double a, double x) {
    double sum = 1.0, term = 1.0;
    for (double k = a + 1.0; term > sum * 0x1p-56; k += 1.0) {
        term *= x / k;
        sum += term;
    }
    return sum * td_m_gamma_density_f64(a, x) / a;
}

/* Q(a, x) by its continued fraction (Lentz), for x above a and 1. */
TD_M_RUN double td_m_igammac_fraction_f64(double a, double x) {
    double b = x + 1.0 - a, c = 1e300, d = 1.0 / b, h = d;
    for (int i = 1; i < 2000; i++) {
        double n = i * (a - i), ratio;
        b += 2.0;
        d = 1.0 / (n * d + b);
        c = b + n / c;
        ratio = c * d;
        h *= ratio;
        if (__builtin_fabs(ratio - 1.0) < 0x1p-53) break;
    }
    return h * td_m_gamma_density_f64(a, x);
}

/* log(Gamma(1 + a)) for a in [0, 5/4], with all digits near its zeros 0 and 1. */
TD_M_RUN double td_m_lgamma1p_f64(double a) {
    static const double c[] = {
        4.7683419000044569e-01,  -8.7078813646282130e-02, 1.1288529912134821e-02,
        -1.6870796141500305e-03, 2.7166445973394662e-04,  -4.5744556760619319e-05,
        7.9311398746867258e-06,  -1.4034026530705915e-06, 2.5207178326002060e-07,
        -4.5796657703307831e-08, 8.3960162497867650e-09,  -1.5506339827101845e-09,
        2.8814108963592601e-10,  -5.3821533206365537e-11, 1.0098297344670978e-11,
        -1.9020967916654694e-12, 3.5950760358496536e-13,  -6.8156738539773155e-14,
        1.2956757012093059e-14,  -2.4691843088467323e-15, 4.7160701612729420e-16,
        -9.0258926911159222e-17, 1.7306453735522672e-17,  -3.3240549308965404e-18};
    return a * (a - 1.0) * td_m_cheb_f64(a * 1.6 - 1.0, c, 24);
}

/* Q(a, x) for small a and x: 1 - x^a / Gamma(1 + a) without cancellation, less the
 * terms of the series of P from the second on. */
TD_M_RUN double td_m_igammac_series_f64(double a, double x) {
    double log_factor = a * __builtin_log(x) - td_m_lgamma1p_f64(a);
    double sum = 0.0, term = 1.0;
    for (double k = 1.0; k < 60.0; k += 1.0) {
        term *= -x / k;
        sum += term / (a + k);
        if (__builtin_fabs(term) < __builtin_fabs(sum) * 0x1p-56) break;
    }
    return -__builtin_expm1(log_factor) - a * __builtin_exp(log_factor) * sum;
}

/* Temme's uniform expansion, for a >= 200 and x within a factor of two of a: with
 * eta^2 / 2 = m - log(1 + m), m = (x - a) / a, Q is erfc(eta sqrt(a / 2)) / 2 plus, and
 * P its complement minus, e^(-a eta^2 / 2) / sqrt(2 pi a) times a series in 1 / a whose
 * coefficients are power series in eta (rational numbers, derived by the recurrence of
 * DLMF 8.12.11). complement: Q. */
TD_M_RUN double td_m_igamma_uniform_f64(double a, double x, int complement) {
    static const int    n[] = {26, 24, 20, 16, 14, 10, 8, 6, 4};
    static const double c[] = {
        -3.3333333333333331e-01, 8.3333333333333329e-02,  -1.4814814814814815e-02,
        1.1574074074074073e-03,  3.5273368606701942e-04,  -1.7875514403292180e-04,
        3.9192631785224377e-05,  -2.1854485106799920e-06, -1.8540622107151600e-06,
        8.2967113409530865e-07,  -1.7665952736826078e-07, 6.7078535434014984e-09,
        1.0261809784240309e-08,  -4.3820360184533529e-09, 9.1476995822367902e-10,
        -2.5514193994946248e-11, -5.8307721325504256e-11, 2.4361948020667415e-11,
        -5.0276692801141755e-12, 1.1004392031956135e-13,  3.3717632624009851e-13,
        -1.3923887224181621e-13, 2.8534893807047445e-14,  -5.1391118342425723e-16,
        -1.9752288294349442e-15, 8.0995211567045613e-16,  -1.8518518518518519e-03,
        -3.4722222222222220e-03, 2.6455026455026454e-03,  -9.9022633744855963e-04,
        2.0576131687242798e-04,  -4.0187757201646090e-07, -1.8098550334489977e-05,
        7.6491609160811098e-06,  -1.6120900894563446e-06, 4.6471278028074340e-09,
        1.3786334469157209e-07,  -5.7525456035177047e-08, 1.1951628599778148e-08,
        -1.7543241719747647e-11, -1.0091543710600413e-09, 4.1627929918425828e-10,
        -8.5639070264929801e-11, 6.0672151016047582e-14,  7.1624989648114856e-12,
        -2.9331866437714371e-12, 5.9966963656836885e-13,  -2.1671786527323313e-16,
        -4.9783399723692617e-14, 2.0291628823713425e-14,  4.1335978835978834e-03,
        -2.6813271604938273e-03, 7.7160493827160490e-04,  2.0093878600823047e-06,
        -1.0736653226365160e-04, 5.2923448829120125e-05,  -1.2760635188618728e-05,
        3.4235787340961378e-08,  1.3721957309062934e-06,  -6.2989921383800548e-07,
        1.4280614206064242e-07,  -2.0477098421990866e-10, -1.4092529910867520e-08,
        6.2289740849220218e-09,  -1.3670488396617114e-09, 9.4283561590146780e-13,
        1.2872252400089318e-10,  -5.5645956134363323e-11, 1.1975935546366981e-11,
        -4.1689782251838634e-15, 6.4943415637860077e-04,  2.2947209362139917e-04,
        -4.6918949439525570e-04, 2.6772063206283885e-04,  -7.5618016718839766e-05,
        -2.3965051138672968e-07, 1.1082654115347302e-05,  -5.6749528269915965e-06,
        1.4230900732435883e-06,  -2.7861080291528143e-11, -1.6958404091930278e-07,
        8.0994649053880827e-08,  -1.9111168485973655e-08, 2.3928620439808118e-12,
        2.0620131815488797e-09,  -9.4604966618551330e-10, -8.6188829091671173e-04,
        7.8403922172006662e-04,  -2.9907248030319018e-04, -1.4638452578843418e-06,
        6.6414982154651219e-05,  -3.9683650471794347e-05, 1.1375726970678419e-05,
        2.5074972262375329e-10,  -1.6954149536558305e-06, 8.9075075322053094e-07,
        -2.2929348340008049e-07, 2.9567941375440492e-11,  2.8865829742708783e-08,
        -1.4189739437803219e-08, -3.3679855336635813e-04, -6.9728137583658571e-05,
        2.7727532449593918e-04,  -1.9932570516188847e-04, 6.7977804779372080e-05,
        1.4190629206439671e-07,  -1.3594048189768693e-05, 8.0184702563342020e-06,
        -2.2914811765080952e-06, -3.2524735512984538e-10, 5.3130793646399225e-04,
        -5.9216643735369393e-04, 2.7087820967180450e-04,  7.9023532326603281e-07,
        -8.1539693675619691e-05, 5.6116827531062497e-05,  -1.8329116582843375e-05,
        -3.0796134506033047e-09, 3.4436760689237765e-04,  5.1717909082605919e-05,
        -3.3493161081142234e-04, 2.8126951547632369e-04,  -1.0976582244684731e-04,
        -1.2741009095484485e-07, -6.5262391859530937e-04, 8.3949872067208726e-04,
        -4.3829709854172099e-04, -6.9690914584205523e-07};
    double        m = (x - a) / a, h = -td_m_log1p_minus_f64(m, x / a);
    double        eta = __builtin_copysign(__builtin_sqrt(2.0 * h), m), sum = 0.0;
    const double *end = c + sizeof c / sizeof *c;
    for (int k = (int)(sizeof n / sizeof *n) - 1; k >= 0; k--) {
        double p = 0.0;
        end -= n[k];
        for (int i = n[k] - 1; i >= 0; i--) p = p * eta + end[i];
        sum = sum / a + p;
    }
    double rest =
        __builtin_exp(-a * h) * sum * 3.9894228040143268e-01 / __builtin_sqrt(a);
    double y = eta * __builtin_sqrt(0.5 * a);
    return complement ? 0.5 * __builtin_erfc(y) + rest
                      : 0.5 * __builtin_erfc(-y) - rest;
}

/* The values where no method is needed: at 0 and infinity, and NaN for what is
 * undefined. False in *done: none of them. */
TD_M double td_m_igamma_edge_f64(double a, double x, int complement, int *done) {
    double zero = complement ? 1.0 : 0.0, one = 1.0 - zero;
    *done = 1;
    if ((a < 0.0) | (x < 0.0)) return __builtin_nan("");
    if (a == 0.0) return x > 0.0 ? one : __builtin_nan("");
    if (x == 0.0) return zero;
    if (a == __builtin_inf()) return x == a ? __builtin_nan("") : zero;
    if (x == __builtin_inf()) return one;
    if ((a != a) | (x != x)) return __builtin_nan(""); /* last, as in ATen */
    *done = 0;
    return 0.0;
}

TD_M int td_m_igamma_is_uniform(double a, double x) {
    return (a >= 200.0) & (__builtin_fabs(x - a) < 0.7 * a);
}

/* P(a, x), the regularized lower incomplete gamma function. */
TD_M_RUN double td_m_igamma_f64(double a, double x) {
    int    done;
    double y = td_m_igamma_edge_f64(a, x, 0, &done);
    if (done) return y;
    if (td_m_igamma_is_uniform(a, x)) return td_m_igamma_uniform_f64(a, x, 0);
    if ((x > 1.0) & (x > a)) return 1.0 - td_m_igammac_fraction_f64(a, x);
    if (a < 0x1p-1000) return 1.0; /* Gamma(a) may overflow */
    return td_m_igamma_series_f64(a, x);
}

/* Q(a, x) = 1 - P(a, x), accurate where it is small. */
TD_M_RUN double td_m_igammac_f64(double a, double x) {
    int    done;
    double y = td_m_igamma_edge_f64(a, x, 1, &done);
    if (done) return y;
    if (td_m_igamma_is_uniform(a, x)) return td_m_igamma_uniform_f64(a, x, 1);
    double most = x > 0.5 ? 1.1 * x : -0.4 / __builtin_log(x);
    if (x > 1.1 ? x < a : a > most) return 1.0 - td_m_igamma_series_f64(a, x);
    return x > 1.1 ? td_m_igammac_fraction_f64(a, x) : td_m_igammac_series_f64(a, x);
}

TD_M float td_m_zeta_f32(float x, float y) {
    return (float)td_m_zeta_f64((double)x, (double)y);
}
TD_M float td_m_polygamma_f32(float x, float y) {
    return (float)td_m_polygamma_f64((double)x, (double)y);
}
TD_M float td_m_igamma_f32(float x, float y) {
    return (float)td_m_igamma_f64((double)x, (double)y);
}
TD_M float td_m_igammac_f32(float x, float y) {
    return (float)td_m_igammac_f64((double)x, (double)y);
}

#endif
