/* init.c -- initial values of parameters, with PyTorch's distributions. All functions
 * write t in place under no_grad and return it, or nil after an error. */
#include "nn/nn.h"

#include <math.h>
#include <string.h>

/* ---- constants and distributions ------------------------------------------- */

/* Restores the grad mode; returns t, or nil if the write failed. */
static td_tensor *end(td_tensor *t, td_grad_mode was, td_tensor *written) {
    td_no_grad_end(td_ctx_of(t), was);
    return td_is_nil(written) ? written : t;
}

td_tensor *td_init_constant(td_tensor *t, double value) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    td_grad_mode was = td_no_grad_begin(td_ctx_of(t));
    return end(t, was, td_fill_(t, value));
}

td_tensor *td_init_zeros(td_tensor *t) { return td_init_constant(t, 0); }
td_tensor *td_init_ones(td_tensor *t) { return td_init_constant(t, 1); }

td_tensor *td_init_uniform(td_tensor *t, double from, double to) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    td_grad_mode was = td_no_grad_begin(td_ctx_of(t));
    return end(t, was, td_uniform_(t, from, to));
}

td_tensor *td_init_normal(td_tensor *t, double mean, double std) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    td_grad_mode was = td_no_grad_begin(td_ctx_of(t));
    return end(t, was, td_normal_(t, mean, std));
}

/* Winitzki's closed form, accurate to 2e-3, then three Newton steps, accurate to f64.
 */
static double inverse_erf(double y) {
    double l = log(1 - y * y), a = 0.147, b = 2 / (3.14159265358979323846 * a) + l / 2;
    double x = copysign(sqrt(sqrt(b * b - l / a) - b), y);
    for (int i = 0; i < 3; i++)
        x -= (erf(x) - y) / (1.12837916709551257390 * exp(-x * x));
    return x;
}

/* Samples by inversion: sqrt(2) * erfinv(u), u uniform between erf(-sqrt 2) and
 * erf(sqrt 2), so that values lie within two standard deviations. */
td_tensor *td_init_trunc_normal(td_tensor *t, double mean, double std) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    td_ctx      *cx = td_ctx_of(t);
    double       edge = erf(sqrt(2.0));
    td_grad_mode was = td_no_grad_begin(cx);
    td_scope_begin(cx, "init");
    td_tensor *u = td_empty(cx, td__sizes(t), TD_F64);
    td_uniform_(u, -edge, edge);
    double *v = td_data(u);
    for (int64_t i = 0; v && i < td_numel(u); i++)
        v[i] = mean + std * sqrt(2.0) * inverse_erf(v[i]);
    td_tensor *written = td_copy_(t, u);
    td_scope_end(cx, "init", NULL);
    return end(t, was, written);
}

/* ---- scaled by fan --------------------------------------------------------- */

/* Fan in and fan out of a weight [out, in, ...]. False after td__fail. */
static bool fans(td_tensor *t, const char *who, double *in, double *out) {
    if (td_is_nil(t)) return false;
    if (td_rank(t) < 2 || td_numel(t) == 0)
        return td__fail(
            td_ctx_of(t), TD_E_SHAPE,
            "%s: tensor is %s; fan in and fan out need at least 2 dims and an element",
            who, td__type_str(t));
    double beyond = (double)(td_numel(t) / (td_size(t, 0) * td_size(t, 1)));
    *out = (double)td_size(t, 0) * beyond;
    *in = (double)td_size(t, 1) * beyond;
    return true;
}

td_tensor *td_init_xavier_uniform(td_tensor *t, double gain) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    double in, out;
    if (!fans(t, "td_init_xavier_uniform", &in, &out)) return td_nil(td_ctx_of(t));
    double bound = gain * sqrt(6 / (in + out));
    return td_init_uniform(t, -bound, bound);
}

td_tensor *td_init_xavier_normal(td_tensor *t, double gain) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    double in, out;
    if (!fans(t, "td_init_xavier_normal", &in, &out)) return td_nil(td_ctx_of(t));
    return td_init_normal(t, 0, gain * sqrt(2 / (in + out)));
}

td_tensor *td_init_kaiming_uniform(td_tensor *t, double gain, td_fan fan) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    double in, out;
    if (!fans(t, "td_init_kaiming_uniform", &in, &out)) return td_nil(td_ctx_of(t));
    double bound = gain * sqrt(3 / (fan == TD_FAN_IN ? in : out));
    return td_init_uniform(t, -bound, bound);
}

td_tensor *td_init_kaiming_normal(td_tensor *t, double gain, td_fan fan) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    double in, out;
    if (!fans(t, "td_init_kaiming_normal", &in, &out)) return td_nil(td_ctx_of(t));
    return td_init_normal(t, 0, gain / sqrt(fan == TD_FAN_IN ? in : out));
}

double td_init_gain(const char *what, double a) {
    static const struct {
        const char *name;
        double      gain;
    } known[] = {{"linear", 1}, {"sigmoid", 1}, {"tanh", 5.0 / 3}, {"selu", 0.75}};
    if (!what) return NAN;
    for (int i = 0; i < TD_COUNT(known); i++)
        if (!strcmp(known[i].name, what)) return known[i].gain;
    if (!strcmp(what, "relu")) return sqrt(2.0);
    if (!strcmp(what, "leaky_relu")) return sqrt(2 / (1 + a * a));
    return NAN;
}

/* ---- orthogonal ------------------------------------------------------------- */

static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Gram-Schmidt on the rows of v [rows, n]; each row is made orthogonal to the
 * previous ones twice, which suffices in f64. The rows are independent with
 * probability 1. */
static void orthogonal_rows(double *v, int64_t rows, int64_t n, double length) {
    for (int64_t i = 0; i < rows; i++) {
        double *row = v + i * n;
        for (int64_t k = 0; k < 2 * i; k++) {
            double *before = v + k % i * n, along = dot(row, before, n);
            for (int64_t j = 0; j < n; j++) row[j] -= along * before[j];
        }
        double size = sqrt(dot(row, row, n));
        for (int64_t j = 0; j < n; j++) row[j] /= size;
    }
    for (int64_t i = 0; i < rows * n; i++) v[i] *= length;
}

/* A tall matrix gets orthogonal columns: the transpose of orthogonal rows. */
td_tensor *td_init_orthogonal(td_tensor *t, double gain) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    td_ctx *cx = td_ctx_of(t);
    double  in, out;
    if (!fans(t, "td_init_orthogonal", &in, &out)) return td_nil(cx);
    int64_t      rows = td_size(t, 0), cols = td_numel(t) / rows;
    bool         wide = rows <= cols;
    td_grad_mode was = td_no_grad_begin(cx);
    td_scope_begin(cx, "init");
    td_tensor *v =
        td_randn(cx, wide ? TD_SHAPE(rows, cols) : TD_SHAPE(cols, rows), TD_F64);
    double *data = td_data(v);
    if (data) orthogonal_rows(data, wide ? rows : cols, wide ? cols : rows, gain);
    td_tensor *written = td_copy_(t, td_reshape(wide ? v : td_t(v), td__sizes(t)));
    td_scope_end(cx, "init", NULL);
    return end(t, was, written);
}
