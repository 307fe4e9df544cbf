/* math_poly.h: orthogonal polynomials in f64 by their recurrences, and by cosines where
 * those of Chebyshev oscillate; those of f32 round the result. Scalar, as
 * math_bessel.h. A degree is truncated to an integer; below 0 the polynomial is 0. */
#ifndef TD_OPS_MATH_POLY_H
#define TD_OPS_MATH_POLY_H

#include "kernels/math_f64.h"

/* Chebyshev polynomials of the kinds T, U, V, W (0 to 3) inside (-1, 1), where x is the
 * cosine of c. */
TD_M_RUN double td_m_chebyshev_wave_f64(double x, double n, int kind) {
    double c = __builtin_acos(x);
    if (kind == 0) return __builtin_cos(n * c);
    if (kind == 1) return __builtin_sin((n + 1.0) * c) / __builtin_sin(c);
    if (kind == 2) return __builtin_cos((n + 0.5) * c) / __builtin_cos(0.5 * c);
    return __builtin_sin((n + 0.5) * c) / __builtin_sin(0.5 * c);
}

/* At x = 1 and x = -1; `even`: of the degree. */
TD_M double td_m_chebyshev_end_f64(double x, double n, int even, int kind) {
    double at_one = kind == 0 || kind == 2 ? 1.0 : kind == 1 ? n + 1.0 : 2.0 * n + 1.0;
    double below = kind == 0 || kind == 3 ? 1.0 : kind == 1 ? n + 1.0 : 2.0 * n + 1.0;
    return x > 0.0 ? at_one : even ? below : -below;
}

TD_M_RUN double td_m_chebyshev_f64(double x, double degree, int kind) {
    int64_t n = td_m_f64_to_i64(degree);
    if (n < 0) return 0.0;
    if (__builtin_fabs(x) == 1.0)
        return td_m_chebyshev_end_f64(x, (double)n, n % 2 == 0, kind);
    if ((n > 8) & (__builtin_fabs(x) < 1.0))
        return td_m_chebyshev_wave_f64(x, (double)n, kind);
    double p = 1.0, q = kind == 0   ? x
                        : kind == 1 ? x + x
                        : kind == 2 ? x + x - 1.0
                                    : x + x + 1.0;
    if (n == 0) return p;
    for (int64_t k = 2; (k <= n) & (q == q); k++) {
        double r = (x + x) * q - p;
        p = q;
        q = r;
    }
    return q;
}
TD_M double td_m_chebyshev_t_f64(double x, double n) {
    return td_m_chebyshev_f64(x, n, 0);
}
TD_M double td_m_chebyshev_u_f64(double x, double n) {
    return td_m_chebyshev_f64(x, n, 1);
}
TD_M double td_m_chebyshev_v_f64(double x, double n) {
    return td_m_chebyshev_f64(x, n, 2);
}
TD_M double td_m_chebyshev_w_f64(double x, double n) {
    return td_m_chebyshev_f64(x, n, 3);
}

/* The same on [0, 1]. */
TD_M double td_m_shifted_t_f64(double x, double n) {
    return td_m_chebyshev_f64(x + x - 1.0, n, 0);
}
TD_M double td_m_shifted_u_f64(double x, double n) {
    return td_m_chebyshev_f64(x + x - 1.0, n, 1);
}
TD_M double td_m_shifted_v_f64(double x, double n) {
    return td_m_chebyshev_f64(x + x - 1.0, n, 2);
}
TD_M double td_m_shifted_w_f64(double x, double n) {
    return td_m_chebyshev_f64(x + x - 1.0, n, 3);
}

/* Hermite polynomials; a degree above `most` is NaN, as in PyTorch. scale: 2 for the
 * physicists' H, 1 for the probabilists' He. */
TD_M_RUN double td_m_hermite_f64(double x, double degree, double scale, int64_t most) {
    int64_t n = td_m_f64_to_i64(degree);
    double  p = 1.0, q = scale * x;
    if (n < 0) return 0.0;
    if (n == 0) return 1.0;
    if (n > most) return __builtin_nan("");
    for (int64_t k = 1; k < n; k++) {
        double r = scale * x * q - scale * (double)k * p;
        p = q;
        q = r;
    }
    return q;
}
TD_M double td_m_hermite_h_f64(double x, double n) {
    return td_m_hermite_f64(x, n, 2.0, 512);
}
TD_M double td_m_hermite_he_f64(double x, double n) {
    return td_m_hermite_f64(x, n, 1.0, 512);
}
TD_M float td_m_hermite_h_f32(float x, float n) {
    return (float)td_m_hermite_f64((double)x, (double)n, 2.0, 128);
}
TD_M float td_m_hermite_he_f32(float x, float n) {
    return (float)td_m_hermite_f64((double)x, (double)n, 1.0, 128);
}

TD_M_RUN double td_m_laguerre_l_f64(double x, double degree) {
    int64_t n = td_m_f64_to_i64(degree);
    double  p = 1.0, q = 1.0 - x;
    if (n < 0) return 0.0;
    if ((n == 0) | (x == 0.0)) return 1.0;
    for (int64_t k = 1; (k < n) & (q == q); k++) {
        double r =
            (((double)(k + k) + (1.0 - x)) * q - (double)k * p) / (double)(k + 1);
        p = q;
        q = r;
    }
    return q;
}

TD_M_RUN double td_m_legendre_p_f64(double x, double degree) {
    int64_t n = td_m_f64_to_i64(degree);
    double  p = 1.0, q = x;
    if (n < 0) return 0.0;
    if (__builtin_fabs(x) == 1.0) return ((x > 0.0) | (n % 2 == 0)) ? 1.0 : -1.0;
    if (n == 0) return 1.0;
    for (int64_t k = 1; (k < n) & (q == q); k++) {
        double r = ((double)(k + k + 1) * x * q - (double)k * p) / (double)(k + 1);
        p = q;
        q = r;
    }
    return q;
}

TD_M float td_m_chebyshev_t_f32(float x, float y) {
    return (float)td_m_chebyshev_t_f64((double)x, (double)y);
}
TD_M float td_m_chebyshev_u_f32(float x, float y) {
    return (float)td_m_chebyshev_u_f64((double)x, (double)y);
}
TD_M float td_m_chebyshev_v_f32(float x, float y) {
    return (float)td_m_chebyshev_v_f64((double)x, (double)y);
}
TD_M float td_m_chebyshev_w_f32(float x, float y) {
    return (float)td_m_chebyshev_w_f64((double)x, (double)y);
}
TD_M float td_m_shifted_t_f32(float x, float y) {
    return (float)td_m_shifted_t_f64((double)x, (double)y);
}
TD_M float td_m_shifted_u_f32(float x, float y) {
    return (float)td_m_shifted_u_f64((double)x, (double)y);
}
TD_M float td_m_shifted_v_f32(float x, float y) {
    return (float)td_m_shifted_v_f64((double)x, (double)y);
}
TD_M float td_m_shifted_w_f32(float x, float y) {
    return (float)td_m_shifted_w_f64((double)x, (double)y);
}
TD_M float td_m_laguerre_l_f32(float x, float y) {
    return (float)td_m_laguerre_l_f64((double)x, (double)y);
}
TD_M float td_m_legendre_p_f32(float x, float y) {
    return (float)td_m_legendre_p_f64((double)x, (double)y);
}

#endif
