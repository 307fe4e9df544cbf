/* math_bessel.h: Bessel functions of order 0 and 1, and Airy's Ai, in f64; same
 * contract as math.h, but scalar: each is compiled once and called per element. Those
 * of f32 are in math_special_f32.h.
 *
 * Chebyshev series, fitted with 40 digits: of the function itself near 0 (without its
 * logarithm, and divided by its first zeros), of the factors of its asymptotic form
 * beyond. Measured errors are in docs/numerics.md. */
#ifndef TD_OPS_MATH_BESSEL_H
#define TD_OPS_MATH_BESSEL_H

#include "kernels/math_f64.h"

/* The Chebyshev series of n coefficients at t in [-1, 1], by Clenshaw's recurrence. */
TD_M_RUN double td_m_cheb_f64(double t, const double *c, int n) {
    double b = 0.0, b1 = 0.0, t2 = 2.0 * t;
    for (int i = n - 1; i > 0; i--) {
        double b2 = b1;
        b1 = b;
        b = t2 * b1 - b2 + c[i];
    }
    return t * b - b1 + c[0];
}

/* ---- modified Bessel functions of the first kind -------------------------- */

/* The power series of I_v(x) (2 / x)^v in z = x^2 / 4, v = 0 or 1: all terms are
 * positive. */
TD_M_RUN double td_m_bessel_i_low_f64(double z, double v) {
    double sum = 1.0, term = 1.0;
    for (double k = 1.0; term > sum * 0x1p-56; k += 1.0) {
        term *= z / (k * (k + v));
        sum += term;
    }
    return sum;
}

/* sqrt(x) e^-x I0(x) at t = 16 / x - 1, x >= 8. */
TD_M_RUN double td_m_i0_high_f64(double t) {
    static const double c[] = {
        4.0224520550705439e-01,  3.3691164782556943e-03,  6.8897583469168245e-05,
        2.8913705208347567e-06,  2.0489185894690638e-07,  2.2666689904981780e-08,
        3.3962320257083865e-09,  4.9406023882249701e-10,  1.1889147107846439e-11,
        -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12,
        7.1801244513836660e-13,  3.8527783827421426e-13,  1.5400862175214100e-14,
        -4.1505693472872222e-14, -9.5548466988283073e-15, 3.8116806693526224e-15,
        1.7725601330565263e-15,  -3.4254856196772190e-16, -2.8276239805165836e-16,
        3.4612228676974612e-17,  4.4656214202967598e-17,  -4.8305044859441819e-18,
        -7.2331804878747538e-18, 9.9214754121736987e-19,  1.1936508908459820e-18};
    return td_m_cheb_f64(t, c, 27);
}

/* sqrt(x) e^-x I1(x) at t = 16 / x - 1, x >= 8. */
TD_M_RUN double td_m_i1_high_f64(double t) {
    static const double c[] = {
        3.8928811750914005e-01,  -9.7610974913614687e-03, -1.1058893876262371e-04,
        -3.8825648088776906e-06, -2.5122362378702088e-07, -2.6314688468895196e-08,
        -3.8353803859642370e-09, -5.5897434621965838e-10, -1.8974958123505413e-11,
        3.2526035830154884e-11,  1.4125807436613782e-11,  2.0356285441470896e-12,
        -7.1985517762459084e-13, -4.0835511110921974e-13, -2.1015418427726643e-14,
        4.2724400167119510e-14,  1.0420276984128802e-14,  -3.8144030724370075e-15,
        -1.8803547755107825e-15, 3.3082023109209285e-16,  2.9626289976459501e-16,
        -3.2095259219934238e-17, -4.6503053684893586e-17, 4.4143483230717077e-18,
        7.5172963108421052e-18,  -9.3141788673268842e-19, -1.2421932751948910e-18};
    return td_m_cheb_f64(t, c, 27);
}

/* I0(x) e^-|x|. */
TD_M_RUN double td_m_i0e_f64(double x) {
    double a = __builtin_fabs(x);
    if (a < 8.0) return __builtin_exp(-a) * td_m_bessel_i_low_f64(0.25 * a * a, 0.0);
    return td_m_i0_high_f64(16.0 / a - 1.0) / __builtin_sqrt(a);
}

/* e^a in two factors, so that I0 and I1 overflow where they do and no earlier. */
TD_M_RUN double td_m_i0_f64(double x) {
    double a = __builtin_fabs(x);
    if (a < 8.0) return td_m_bessel_i_low_f64(0.25 * a * a, 0.0);
    if (a == __builtin_inf()) return a;
    double y = td_m_i0_high_f64(16.0 / a - 1.0) / __builtin_sqrt(a);
    if (a < 700.0) return __builtin_exp(a) * y;
    double e = __builtin_exp(0.5 * a);
    return e * y * e;
}

TD_M_RUN double td_m_i1e_f64(double x) {
    double a = __builtin_fabs(x), y;
    if (a < 8.0)
        y = __builtin_exp(-a) * (0.5 * a) * td_m_bessel_i_low_f64(0.25 * a * a, 1.0);
    else y = td_m_i1_high_f64(16.0 / a - 1.0) / __builtin_sqrt(a);
    return __builtin_copysign(y, x);
}

TD_M_RUN double td_m_i1_f64(double x) {
    double a = __builtin_fabs(x);
    if (a < 8.0) return 0.5 * x * td_m_bessel_i_low_f64(0.25 * a * a, 1.0);
    if (a == __builtin_inf()) return x;
    double y = td_m_i1_high_f64(16.0 / a - 1.0) / __builtin_sqrt(a);
    double e = __builtin_exp(a < 700.0 ? a : 0.5 * a);
    y = e * y * (a < 700.0 ? 1.0 : e);
    return __builtin_copysign(y, x);
}

/* ---- modified Bessel functions of the second kind ------------------------- */

/* K0(x) + log(x / 2) I0(x) at t = x^2 / 2 - 1, x <= 2. */
TD_M_RUN double td_m_k0_low_f64(double t) {
    static const double c[] = {-2.6766369661695139e-01, 3.4428989992462850e-01,
                               3.5979936515361501e-02,  1.2646154114469260e-03,
                               2.2862121031194519e-05,  2.5347910790261494e-07,
                               1.9045163772202091e-09,  1.0349695257633625e-11,
                               4.2598161427910826e-14,  1.3744654358807508e-16};
    return td_m_cheb_f64(t, c, 10);
}

/* sqrt(x) e^x K0(x) at t = 4 / x - 1, x >= 2. */
TD_M_RUN double td_m_k0_high_f64(double t) {
    static const double c[] = {
        1.2201515410329777e+00,  -3.1448101311964502e-02, 1.5698838857300533e-03,
        -1.2849549581627802e-04, 1.3949813718876500e-05,  -1.8317555227191195e-06,
        2.7668136394450149e-07,  -4.6604898976879478e-08, 8.5740340174142253e-09,
        -1.6975345093890614e-09, 3.5773972814003283e-10,  -7.9574892444773965e-11,
        1.8559491149549264e-11,  -4.5145978833745193e-12, 1.1403405882073441e-12,
        -2.9800969231481784e-13, 8.0328907750683746e-14,  -2.2275133267462965e-14,
        6.3400764762766461e-15,  -1.8485933779209071e-15, 5.5120559994043335e-16,
        -1.6782311257549006e-16, 5.2103917776435543e-17,  -1.6475805939842632e-17,
        5.3004337711773354e-18};
    return td_m_cheb_f64(t, c, 25);
}

/* x (K1(x) - log(x / 2) I1(x)) at t = x^2 / 2 - 1, x <= 2. */
TD_M_RUN double td_m_k1_low_f64(double t) {
    static const double c[] = {7.6265011366947388e-01,  -3.5315596077654487e-01,
                               -1.2261118082265715e-01, -6.9757238596398641e-03,
                               -1.7302889575130520e-04, -2.4334061415659684e-06,
                               -2.2133876307347260e-08, -1.4114883926335278e-10,
                               -6.6669016941993295e-13, -2.4274498505193660e-15,
                               -7.0238634793862882e-18};
    return td_m_cheb_f64(t, c, 11);
}

/* sqrt(x) e^x K1(x) at t = 4 / x - 1, x >= 2. */
TD_M_RUN double td_m_k1_high_f64(double t) {
    static const double c[] = {
        1.3603130952422213e+00,  1.0392373657681724e-01,  -2.8578168596227792e-03,
        1.9521551847135162e-04,  -1.9361979741660830e-05, 2.4064849478372170e-06,
        -3.5019606030878126e-07, 5.7410841254500495e-08,  -1.0345762465678097e-08,
        2.0150497551970347e-09,  -4.1903547593419254e-10, 9.2183151876053146e-11,
        -2.1299678384277909e-11, 5.1396396734823432e-12,  -1.2891739609498229e-12,
        3.3484196660522431e-13,  -8.9767051820101463e-14, 2.4771544242195988e-14,
        -7.0198370892147685e-15, 2.0387031662398610e-15,  -6.0570472706430177e-16,
        1.8380935752430455e-16,  -5.6894628491936484e-17, 1.7940510478863572e-17,
        -5.7567444820733025e-18};
    return td_m_cheb_f64(t, c, 25);
}

/* Infinite at 0, NaN below, as K0 and K1 all. scaled: times e^x. */
TD_M_RUN double td_m_k0_any_f64(double x, int scaled) {
    if (x == 0.0) return __builtin_inf();
    if (!(x > 0.0)) return __builtin_nan("");
    if (x <= 2.0) {
        double y = td_m_k0_low_f64(0.5 * x * x - 1.0) -
                   __builtin_log(0.5 * x) * td_m_i0_f64(x);
        return scaled ? y * __builtin_exp(x) : y;
    }
    double y = td_m_k0_high_f64(4.0 / x - 1.0) / __builtin_sqrt(x);
    return scaled ? y : y * __builtin_exp(-x);
}
TD_M double td_m_k0_f64(double x) { return td_m_k0_any_f64(x, 0); }
TD_M double td_m_k0e_f64(double x) { return td_m_k0_any_f64(x, 1); }

TD_M_RUN double td_m_k1_any_f64(double x, int scaled) {
    if (x == 0.0) return __builtin_inf();
    if (!(x > 0.0)) return __builtin_nan("");
    if (x <= 2.0) {
        double y = td_m_k1_low_f64(0.5 * x * x - 1.0) / x +
                   __builtin_log(0.5 * x) * td_m_i1_f64(x);
        return scaled ? y * __builtin_exp(x) : y;
    }
    double y = td_m_k1_high_f64(4.0 / x - 1.0) / __builtin_sqrt(x);
    return scaled ? y : y * __builtin_exp(-x);
}
TD_M double td_m_k1_f64(double x) { return td_m_k1_any_f64(x, 0); }
TD_M double td_m_k1e_f64(double x) { return td_m_k1_any_f64(x, 1); }

#endif
