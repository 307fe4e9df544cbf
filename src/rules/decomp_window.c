/* decomp_window.c -- windows of signal processing, as ops on a sequence of points. A
 * window of one entry is 1. */
#include "rules/create.h"
#include "rules/rule_arith.h"

#include <math.h>

#define PI 3.14159265358979323846

/* A window: its length, its dtype, and what its period is. */
typedef struct window {
    int64_t  n;
    td_dtype dt;
    double   period; /* distance of two equal points of a periodic window */
} window;

/* Sets result 0; false when the call that made t failed. */
static bool give(td_opcall *c, td_tensor *t) {
    c->out[0] = t;
    return t && !td_is_nil(t);
}

/* in[0]: the length. sym: the last entry is the first mirrored. */
static bool read_window(td_opcall *c, bool sym, window *w) {
    w->n = td__in_number(c, 0);
    w->dt = td__create_dtype(c, c->cx->default_dtype);
    w->period = (double)(sym || w->n <= 1 ? w->n - 1 : w->n);
    if (w->n < 0)
        return td__op_fail(c, TD_E_ARG, "the length must not be negative, got %lld",
                           (long long)w->n);
    return td__is_float(w->dt) ||
           td__op_fail(c, TD_E_DTYPE, "dtype must be floating point, got %s",
                       td_dtype_name(w->dt));
}

/* n evenly spaced points: start + i * step. */
static td_tensor *points(td_opcall *c, const window *w, double start, double step) {
    double end = start + (double)(w->n - 1) * step;
    return td_op_linspace(c->cx, td_value_float(start),
                          td_value_float(w->n > 0 ? end : start), w->n, w->dt);
}

static td_tensor *ones(td_opcall *c, const window *w) {
    return td_op_ones(c->cx, (td_ints){&w->n, 1}, w->dt);
}

/* a[0] - a[1] cos(x) + a[2] cos(2x) - ... over a period. */
static bool cosines(td_opcall *c, const window *w, const double *a, int n) {
    if (w->n <= 1) return give(c, ones(c, w));
    td_tensor *x = points(c, w, 0, 2 * PI / w->period), *sum = NULL;
    for (int i = n - 1; i > 0; i--) {
        td_tensor *term =
            t_scale(td_op_cos(i > 1 ? t_scale(x, i) : x), i % 2 ? -a[i] : a[i]);
        sum = t_join(sum, term);
    }
    return give(c, td_op_add(sum, td_value_float(a[0]), td_value_int(1)));
}

/* A triangle: 1 - |x|, x from -1 to 1. */
static bool triangle(td_opcall *c, const window *w) {
    if (w->n <= 1) return give(c, ones(c, w));
    td_tensor *x = td_op_abs(points(c, w, -1, 2 / w->period));
    return give(c, td_op_rsub(x, td_value_int(1), td_value_int(1)));
}

static const double blackman[] = {0.42, 0.5, 0.08};
static const double hann[] = {0.5, 0.5};
static const double hamming[] = {0.54, 0.46};
static const double nuttall[] = {0.3635819, 0.4891775, 0.1365995, 0.0106411};

/* ---- torch: periodic is argument 1 -------------------------------------- */

bool td__decomp_bartlett_window(td_opcall *c) {
    window w;
    return read_window(c, !td__in_bool(c, 1), &w) && triangle(c, &w);
}
bool td__decomp_blackman_window(td_opcall *c) {
    window w;
    return read_window(c, !td__in_bool(c, 1), &w) && cosines(c, &w, blackman, 3);
}
bool td__decomp_hann_window(td_opcall *c) {
    window w;
    return read_window(c, !td__in_bool(c, 1), &w) && cosines(c, &w, hann, 2);
}
/* in: window_length, periodic, alpha, beta. */
bool td__decomp_hamming_window(td_opcall *c) {
    window w;
    double a[2] = {td__in_f(c, 2), td__in_f(c, 3)};
    return read_window(c, !td__in_bool(c, 1), &w) && cosines(c, &w, a, 2);
}

/* ---- torch.signal.windows ----------------------------------------------- */

/* These have no halves. */
static bool read_signal(td_opcall *c, bool sym, window *w) {
    if (!read_window(c, sym, w)) return false;
    return !td__is_half(w->dt) ||
           td__op_fail(c, TD_E_DTYPE, "dtype must be f32 or f64, got %s",
                       td_dtype_name(w->dt));
}

bool td__decomp_signal_bartlett(td_opcall *c) {
    window w;
    return read_signal(c, td__in_bool(c, 1), &w) && triangle(c, &w);
}
bool td__decomp_signal_blackman(td_opcall *c) {
    window w;
    return read_signal(c, td__in_bool(c, 1), &w) && cosines(c, &w, blackman, 3);
}
bool td__decomp_signal_hamming(td_opcall *c) {
    window w;
    return read_signal(c, td__in_bool(c, 1), &w) && cosines(c, &w, hamming, 2);
}
bool td__decomp_signal_hann(td_opcall *c) {
    window w;
    return read_signal(c, td__in_bool(c, 1), &w) && cosines(c, &w, hann, 2);
}
bool td__decomp_signal_nuttall(td_opcall *c) {
    window w;
    return read_signal(c, td__in_bool(c, 1), &w) && cosines(c, &w, nuttall, 4);
}
/* in: M, alpha, sym. */
bool td__decomp_signal_general_hamming(td_opcall *c) {
    window w;
    double a[2] = {td__in_f(c, 1), 1 - td__in_f(c, 1)};
    return read_signal(c, td__in_bool(c, 2), &w) && cosines(c, &w, a, 2);
}

/* in: M, sym. sin at the middles of M equal parts of half a period. */
bool td__decomp_signal_cosine(td_opcall *c) {
    window w;
    if (!read_signal(c, td__in_bool(c, 1), &w)) return false;
    double step = PI / (w.period + 1);
    return give(c, td_op_sin(points(c, &w, 0.5 * step, step)));
}

/* in: M, std, sym. */
bool td__decomp_signal_gaussian(td_opcall *c) {
    window w;
    double std = td__in_f(c, 1), k = 1 / (std * sqrt(2));
    if (!read_signal(c, td__in_bool(c, 2), &w)) return false;
    if (std <= 0) return td__op_fail(c, TD_E_ARG, "std must be positive, got %g", std);
    double middle = w.n > 1 ? w.period / 2 : 0;
    return give(c, td_op_exp(td_op_neg(td_op_square(points(c, &w, -middle * k, k)))));
}

/* in: M, center or none, tau, sym. */
bool td__decomp_signal_exponential(td_opcall *c) {
    window w;
    bool   sym = td__in_bool(c, 3), given = !td__in_none(c, 1);
    double tau = td__in_f(c, 2);
    if (!read_signal(c, sym, &w)) return false;
    if (tau <= 0 || (sym && given))
        return td__op_fail(c, TD_E_ARG,
                           "tau must be positive, and a symmetric window takes no "
                           "center, got tau %g%s",
                           tau, given ? " and a center" : "");
    double     center = given ? td__in_f(c, 1) : w.n > 1 ? w.period / 2 : 0;
    td_tensor *x = td_op_abs(points(c, &w, -center / tau, 1 / tau));
    return give(c, td_op_exp(td_op_neg(x)));
}

/* in: M, a, sym, dtype. The products of all coefficients and cosines, summed. */
bool td__decomp_signal_general_cosine(td_opcall *c) {
    window     w;
    td_tensor *a = td__in(c, 1);
    if (!read_signal(c, td__in_bool(c, 2), &w)) return false;
    if (a->rank != 1 || !td__dim_expect(a->numel, TD_DIM_IS_NE, 0))
        return td__op_fail(c, TD_E_SHAPE, "a is %s; it must be a vector with elements",
                           td__type_str(a));
    if (w.n <= 1) return give(c, ones(c, &w));
    td_tensor *i = td_op_arange(c->cx, td_value_int(0), td_value_int(a->numel),
                                td_value_int(1), TD_I64);
    td_tensor *odd = td_op_remainder(i, td_value_int(2));
    td_tensor *sign =
        td_op_rsub(td_op_mul(odd, td_value_int(2)), td_value_int(1), td_value_int(1));
    a = td_op_detach(a); /* numbers in PyTorch */
    td_tensor *k = td_op_unsqueeze(t_as(t_mul(a, sign), w.dt), -1);
    td_tensor *x =
        t_mul(td_op_unsqueeze(t_as(i, w.dt), -1), points(c, &w, 0, 2 * PI / w.period));
    return give(c, t_sum(t_mul(k, td_op_cos(x)), TD_DIMS(0), false));
}
