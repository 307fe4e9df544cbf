/* math_error.h: relatives of the error function in f64: scaled complement, inverses and
 * the logarithm of the normal distribution function; those of f32 round the result.
 * Scalar, as math_bessel.h. erf and erfc are the C library's. */
#ifndef TD_OPS_MATH_ERROR_H
#define TD_OPS_MATH_ERROR_H

#include "kernels/math_bessel.h"

/* (1 + 2x) e^(x^2) erfc(x) at t = (x - 15/4) / (x + 15/4), x >= 0. */
TD_M_RUN double td_m_erfcx_fit_f64(double t) {
    static const double c[] = {
        1.1775789345674017e+00,  -4.5900545806464776e-03, -8.4249133366517917e-02,
        5.9209939998191893e-02,  -2.6658668435305753e-02, 9.0749976707052652e-03,
        -2.4131635404176081e-03, 4.9077583652580863e-04,  -6.9169733025012070e-05,
        4.1390279860730102e-06,  7.7403830661984903e-07,  -2.1886401049234397e-07,
        1.0764999465670910e-08,  4.5219598112182866e-09,  -7.7544002088313509e-10,
        -6.3180883408866841e-11, 2.8687950109306699e-11,  1.9455868545777347e-13,
        -9.6546967484334393e-13, 3.2525481481487401e-14,  3.3478119482868056e-14,
        -1.8645628804193130e-15, -1.2507950530688648e-15, 7.4182352566240441e-17,
        5.0681489047961110e-17};
    return td_m_cheb_f64(t, c, 25);
}

/* e^(x^2) with the low half of the square, which matters where it is large. */
TD_M_RUN double td_m_exp_square_f64(double x) {
    double hi = td_m_from_bits_f64(td_m_bits_f64(x) & 0xfffffffff8000000u), lo = x - hi;
    double s = hi * hi, e = 2.0 * hi * lo + lo * lo;
    return __builtin_exp(s) * __builtin_exp(e);
}

/* e^(x^2) erfc(x). */
TD_M_RUN double td_m_erfcx_f64(double x) {
    if (x < -26.7) return __builtin_inf();
    double a = __builtin_fabs(x);
    double y = a > 0x1p27
                   ? 5.6418958354775629e-01 / a
                   : td_m_erfcx_fit_f64((a - 3.75) / (a + 3.75)) / (1.0 + 2.0 * a);
    return x < 0.0 ? 2.0 * td_m_exp_square_f64(a) - y : y;
}

/* y with erfc(y) = q for q in (0, 1/2]: a rational start (Hastings; to 4e-4), then
 * Halley's steps. Below 1e-290, where erfc loses digits, Newton's on its logarithm. */
TD_M_RUN double td_m_erfcinv_f64(double q) {
    double l = __builtin_log(q),
           t = __builtin_sqrt(-2.0 * (l - 6.9314718055994531e-01));
    double num = (0.010328 * t + 0.802853) * t + 2.515517;
    double den = ((0.001308 * t + 0.189269) * t + 1.432788) * t + 1.0;
    double y = (t - num / den) * 7.0710678118654752e-01;
    for (int i = 0; i < 3 && q > 1e-290; i++) {
        double e =
            (q - __builtin_erfc(y)) * td_m_exp_square_f64(y) * 8.8622692545275801e-01;
        y -= e / (1.0 + y * e);
    }
    for (int i = 0; i < 4 && q <= 1e-290; i++) {
        double x = td_m_erfcx_f64(y);
        y += (__builtin_log(x) - y * y - l) * x * 8.8622692545275801e-01;
    }
    return y;
}

/* Up to 1/2: the first terms of the series, then Halley's steps; beyond, by erfcinv:
 * 1 - |x| is exact there. */
TD_M_RUN double td_m_erfinv_f64(double x) {
    double a = __builtin_fabs(x), z = x * x;
    if (!(a <= 1.0)) return __builtin_nan("");
    if (a == 1.0) return x * __builtin_inf();
    if (a > 0.5) return __builtin_copysign(td_m_erfcinv_f64(1.0 - a), x);
    double p = ((0.0976 * z + 0.14391) * z + 0.26179939) * z + 1.0;
    double y = x * 8.8622692545275801e-01 * p;
    for (int i = 0; i < 2; i++) {
        double e =
            (__builtin_erf(y) - x) * __builtin_exp(y * y) * 8.8622692545275801e-01;
        y -= e / (1.0 + y * e);
    }
    return y;
}

/* The inverse of the normal distribution function. */
TD_M_RUN double td_m_ndtri_f64(double p) {
    const double root = 1.4142135623730951;
    if (!(p >= 0.0) | !(p <= 1.0)) return __builtin_nan("");
    if (p == 0.0) return -__builtin_inf();
    if (p == 1.0) return __builtin_inf();
    if (p < 0.25) return -root * td_m_erfcinv_f64(2.0 * p);
    if (p > 0.75) return root * td_m_erfcinv_f64(2.0 * (1.0 - p));
    return root * td_m_erfinv_f64(2.0 * p - 1.0);
}

/* log of the normal distribution function, without underflow. */
TD_M_RUN double td_m_log_ndtr_f64(double x) {
    double t = x * 7.0710678118654752e-01;
    if (x < -1.0) return __builtin_log(0.5 * td_m_erfcx_f64(-t)) - t * t;
    return __builtin_log1p(-0.5 * __builtin_erfc(t));
}

#endif
