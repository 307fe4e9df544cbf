/* kern_norm_channel.c -- group norm and batch norm: statistics over groups of
 * channels of a sample, or over the batch, and parameters by channel.
 *
 * Both see the input as planes [N][C][S] in row-major order, or, channels last, as
 * pixels [N][S][C]. Normalizing and its gradient are then, by plane or by channel,
 *   out = a (x - m) + b   and   dx = a g + b (x - m) + c,
 * where m is the mean: a large mean cancels in x - m, before anything is rounded. */
#include "kernels/norm.h"

#include "ops/cast.h"
#include "rules/geom.h"

#include <math.h>
#include <string.h>

enum { TASK = 16384 };

/* A call of group or batch norm, or of its gradient. */
typedef struct planes {
    td_norm    s;
    td_dense   x, g; /* g only for gradients */
    td_tensor *out;
    int64_t    N, C, S;
    bool       last;      /* channels last, or S is 1 */
    bool       per_image; /* coefficients by (n, c), else by c */
    double    *k[4];      /* coefficients m, a, b (and c) */
    double    *sum[2];    /* by (n, c): sums of g and of g h; h = (x - h0) h1 */
    double    *h[2];
} planes;

/* Index of a coefficient. */
static int64_t at(const planes *p, int64_t n, int64_t c) {
    return p->per_image ? n * p->C + c : c;
}

/* The offset of element (n, c, s), in elements. */
static int64_t offset(const planes *p, int64_t n, int64_t c, int64_t s) {
    return p->last ? (n * p->S + s) * p->C + c : (n * p->C + c) * p->S + s;
}

/* Sizes, and the order of the elements from that of the result. */
static void planes_sizes(planes *p, const td_tensor *x) {
    const td_tensor *out = p->out;
    p->N = x->size[0];
    p->C = x->size[1];
    p->S = 1;
    for (int i = 2; i < x->rank; i++) p->S *= x->size[i];
    p->last = p->S == 1 || !td__is_dense(out->rank, out->size, out->stride);
    td__norm_init(&p->s, (td_dtype)x->dtype);
}

/* t in the order of the result, copied if it has another. */
static bool open_planes(td_ctx *cx, planes *p, td_dense *d, td_tensor *t) {
    return td__dense_open(cx, &p->s, d, t, p->last && p->S > 1);
}

/* ---- applying coefficients --------------------------------------------- */

/* One run: a plane of S elements with constant coefficients, or a pixel's C. */
static void apply_run(const planes *p, int64_t run, char *buf,
                      const void *const *cols) {
    const td_norm *s = &p->s;
    int64_t        n = p->last ? p->C : p->S, from = run * n;
    size_t         row = (size_t)n * s->acc_size;
    const void    *x = td__dense_read(s, &p->x, from, n, buf);
    const void    *g = p->g.p ? td__dense_read(s, &p->g, from, n, buf + row) : NULL;
    char          *to = td__ptr(p->out) + from * td__dtype_bytes[p->out->dtype];
    void          *y = p->x.direct ? (void *)to : buf + 2 * row;
    if (p->last && g) s->f->norm_grad_cols(g, x, cols, n, y);
    else if (p->last) s->f->affine_cols(x, cols, n, y);
    else {
        double  k[4];
        int64_t i = at(p, run / p->C, run % p->C);
        for (int j = 0; j < 4 && p->k[j]; j++) td__norm_set(s, k, j, p->k[j][i]);
        if (g) s->f->norm_grad_row(g, x, k, NULL, n, y);
        else s->f->affine_plane(x, k, n, y);
    }
    if (!p->x.direct) s->loops->store[s->acc][p->out->dtype](y, n, to);
}

/* Coefficients of one sample (or of all) as accumulators, for pixels. */
static void pack(const planes *p, int64_t n, char *to, const void **cols) {
    for (int j = 0; j < 4 && p->k[j]; j++, to += (size_t)p->C * p->s.acc_size) {
        for (int64_t c = 0; c < p->C; c++)
            td__norm_set(&p->s, to, c, p->k[j][at(p, n, c)]);
        cols[j] = to;
    }
}

/* Runs [begin, end): planes (n, c), or pixels (n, s). */
static void apply_runs(void *arg, int64_t begin, int64_t end) {
    planes     *p = arg;
    int64_t     n = p->last ? p->C : p->S, packed = -1;
    size_t      row = (size_t)n * p->s.acc_size, bytes = 7 * row + 64;
    const void *cols[4] = {NULL, NULL, NULL, NULL};
    char       *buf = td__block_alloc(bytes);
    if (!buf) {
        atomic_store(&p->s.failed, true);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        int64_t image = p->per_image ? i / p->S : 0;
        if (p->last && image != packed) pack(p, packed = image, buf + 3 * row, cols);
        apply_run(p, i, buf, cols);
    }
    td__block_free(buf, bytes);
}

/* Writes the result from the coefficients in p->k. */
static bool apply(td_ctx *cx, planes *p) {
    int64_t runs = p->last ? p->N * p->S : p->N * p->C, n = p->last ? p->C : p->S;
    if (n == 0) return true;
    td__pool_run(runs, TASK / n + 1, apply_runs, p);
    return !atomic_load(&p->s.failed) || td__fail_memory(cx);
}

/* ---- sums for gradients ------------------------------------------------ */

/* Sums of g and g h over the plane (n, c), in double for pixels. */
static void plane_sums(planes *p, int64_t i, char *buf) {
    const td_norm *s = &p->s;
    int64_t        n = i / p->C, c = i % p->C, k = at(p, n, c);
    double         stat[2], h[2];
    p->sum[0][i] = p->sum[1][i] = 0;
    if (p->last) {
        for (int64_t j = 0; j < p->S; j++) {
            int64_t o = offset(p, n, c, j);
            double x = td__load_f(p->x.dtype, p->x.p + o * td__dtype_bytes[p->x.dtype]);
            double g = td__load_f(p->g.dtype, p->g.p + o * td__dtype_bytes[p->g.dtype]);
            p->sum[0][i] += g;
            p->sum[1][i] += g * ((x - p->h[0][k]) * p->h[1][k]);
        }
        return;
    }
    size_t      row = (size_t)p->S * s->acc_size;
    const void *x = td__dense_read(s, &p->x, i * p->S, p->S, buf);
    const void *g = td__dense_read(s, &p->g, i * p->S, p->S, buf + row);
    td__norm_set(s, h, 0, p->h[0][k]);
    td__norm_set(s, h, 1, p->h[1][k]);
    s->f->norm_grad_stats(g, x, h, NULL, p->S, stat);
    p->sum[0][i] = td__norm_get(s, stat, 0);
    p->sum[1][i] = td__norm_get(s, stat, 1);
}

/* p->sum for planes [begin, end). */
static void sum_planes(void *arg, int64_t begin, int64_t end) {
    planes *p = arg;
    size_t  bytes = 2 * (size_t)p->S * p->s.acc_size + 64;
    char   *buf = td__block_alloc(bytes);
    if (!buf) {
        atomic_store(&p->s.failed, true);
        return;
    }
    for (int64_t i = begin; i < end; i++) plane_sums(p, i, buf);
    td__block_free(buf, bytes);
}

/* dw and db: sums over samples. */
static void channel_grads(const planes *p, td_tensor *dw, td_tensor *db) {
    td_tensor *to[2] = {db, dw};
    for (int j = 0; j < 2; j++)
        for (int64_t c = 0; to[j] && c < p->C; c++) {
            double sum = 0;
            for (int64_t n = 0; n < p->N; n++) sum += p->sum[j][n * p->C + c];
            td_dtype dt = (td_dtype)to[j]->dtype;
            td__store_f(dt, td__ptr(to[j]) + c * td__dtype_bytes[dt], sum);
        }
}

/* ---- coefficients ------------------------------------------------------ */

/* Element i of a vector of parameters. */
static double param(const td_tensor *t, int64_t i, double otherwise) {
    if (!t) return otherwise;
    return td__load_f((td_dtype)t->dtype,
                      td__ptr(t) + i * t->stride[0] * td__dtype_bytes[t->dtype]);
}

/* An element of a dense or strided [N, G] tensor. */
static double stat_at(const td_tensor *t, int64_t n, int64_t g) {
    int64_t o = n * t->stride[0] + g * t->stride[1];
    return td__load_f((td_dtype)t->dtype, td__ptr(t) + o * td__dtype_bytes[t->dtype]);
}

/* Element i of a vector, strided, or of a dense tensor. */
static void put(td_tensor *t, int64_t i, double v) {
    td_dtype dt = (td_dtype)t->dtype;
    td__store_f(dt,
                td__ptr(t) +
                    i * (t->rank == 1 ? t->stride[0] : 1) * td__dtype_bytes[dt],
                v);
}

/* One block of doubles for `n` coefficients each; freed with the same count. */
static double *accumulators(td_ctx *cx, int64_t n, int each, size_t *bytes) {
    *bytes = (size_t)(n * each + 1) * sizeof(double);
    double *p = td__block_alloc(*bytes);
    if (!p) td__fail_memory(cx);
    return p;
}

/* Coefficients i of out = a (x - mean) + b. m is the mean as x's accumulators have it;
 * b gets a times the rounding error of m, unless a is infinite: then the result is
 * infinite with the sign of x - m, and the error would make it NaN. */
static void normalize(planes *p, int64_t i, double mean, double a, double b) {
    double m = p->s.acc == TD_ACC_F32 ? (double)(float)mean : mean;
    p->k[0][i] = m;
    p->k[1][i] = a;
    p->k[2][i] = m == mean || isinf(a) ? b : b - (mean - m) * a;
}

/* ---- group norm -------------------------------------------------------- */

/* Mean and squared deviations of each (n, group), in place order n * G + g. The
 * input is seen as [N, G, D * S] or, channels last, as [N, S, G, D]. */
static bool group_moments(td_ctx *cx, planes *p, int64_t G, double *mean, double *m2) {
    int64_t    D = p->C / G;
    td_window  win;
    td_meta    m = {.dtype = p->x.dtype, .rank = 4, .strided = true};
    int64_t    size[4] = {p->N, G, D, p->S};
    int64_t    stride[4] = {p->C * p->S, D * (p->last ? 1 : p->S), p->last ? 1 : p->S,
                         p->last ? p->C : 1};
    bool       mask[4] = {false, false, true, true};
    td_walk    w;
    td_storage store = {.data = (void *)(uintptr_t)p->x.p};
    td_tensor  base = {.cx = cx, .dtype = (uint8_t)p->x.dtype, .st = &store};
    memcpy(m.size, size, sizeof size);
    memcpy(m.stride, stride, sizeof stride);
    return td__moments(cx, td__window(&win, &base, &m), mask, &w, mean, m2);
}

/* in: input, weight, bias, N, C, HxW, group, eps. Results: out, mean, rstd. */
bool td__kern_group_norm(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *w = td__in(c, 1), *b = td__in(c, 2);
    int64_t    G = td__in_int(c, 6);
    planes     p = {.out = c->out[0], .per_image = true};
    size_t     bytes;
    planes_sizes(&p, x);
    if (x->numel == 0 && p.N * G == 0) return true;
    int64_t stats = p.N * G, D = p.C / G;
    double *v = accumulators(c->cx, 2 * stats + 3 * p.N * p.C, 1, &bytes);
    if (!v) return false;
    double *mean = v, *m2 = v + stats;
    for (int j = 0; j < 3; j++) p.k[j] = m2 + stats + j * p.N * p.C;
    bool ok = open_planes(c->cx, &p, &p.x, x) && group_moments(c->cx, &p, G, mean, m2);
    for (int64_t i = 0; ok && i < stats; i++) {
        double rstd = 1 / sqrt(m2[i] / (double)(D * p.S) + td__in_f(c, 7));
        put(c->out[1], i, !x->numel ? 0 : isinf(mean[i]) ? NAN : mean[i]);
        put(c->out[2], i, rstd);
        for (int64_t d = 0; d < D; d++) {
            int64_t ch = i % G * D + d, k = i / G * p.C + ch;
            normalize(&p, k, mean[i], rstd * param(w, ch, 1), param(b, ch, 0));
        }
    }
    ok = ok && apply(c->cx, &p);
    td__dense_close(&p.x);
    td__block_free(v, bytes);
    return ok;
}

/* With s0, s1 the group's sums of w g and w g h over M elements:
 * dx = rstd (w g - s0/M - h s1/M). */
static void group_coefficients(planes *p, int64_t G, const td_tensor *mean,
                               const td_tensor *rstd, const td_tensor *w) {
    int64_t D = p->C / G;
    double  M = (double)(D * p->S);
    for (int64_t i = 0; i < p->N * G; i++) {
        double  m = stat_at(mean, i / G, i % G), r = stat_at(rstd, i / G, i % G);
        double  s0 = 0, s1 = 0;
        int64_t first = i / G * p->C + i % G * D;
        for (int64_t d = 0; d < D; d++) {
            double wc = param(w, i % G * D + d, 1);
            s0 += wc * p->sum[0][first + d];
            s1 += wc * p->sum[1][first + d];
        }
        for (int64_t d = 0; d < D; d++) {
            p->k[0][first + d] = m;
            p->k[1][first + d] = r * param(w, i % G * D + d, 1);
            p->k[2][first + d] = -r * r * s1 / M;
            p->k[3][first + d] = -r * s0 / M;
        }
    }
}

/* in: grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask. */
bool td__kern_group_norm_backward(td_opcall *c) {
    td_tensor     *g = td__in(c, 0), *x = td__in(c, 1), *mean = td__in(c, 2);
    td_tensor     *rstd = td__in(c, 3), *w = td__in(c, 4);
    int64_t        G = td__in_int(c, 8);
    const int64_t *mask = c->in[9].u.ints;
    planes         p = {.out = c->out[0], .per_image = true};
    size_t         bytes;
    planes_sizes(&p, x);
    int64_t n = p.N * p.C;
    double *v = accumulators(c->cx, n, 8, &bytes);
    if (!v) return false;
    for (int j = 0; j < 4; j++) p.k[j] = v + j * n;
    for (int j = 0; j < 2; j++) p.sum[j] = v + (4 + j) * n;
    for (int j = 0; j < 2; j++) p.h[j] = v + (6 + j) * n;
    bool ok = open_planes(c->cx, &p, &p.x, x) && open_planes(c->cx, &p, &p.g, g);
    for (int64_t i = 0; ok && i < n; i++) {
        int64_t grp = i % p.C / (p.C / G);
        p.h[0][i] = stat_at(mean, i / p.C, grp);
        p.h[1][i] = stat_at(rstd, i / p.C, grp);
    }
    if (ok) td__pool_run(n, TASK / (p.S + 1) + 1, sum_planes, &p);
    if (ok && atomic_load(&p.s.failed)) ok = td__fail_memory(c->cx);
    if (ok) channel_grads(&p, mask[1] ? c->out[1] : NULL, mask[2] ? c->out[2] : NULL);
    if (ok && mask[0] && x->numel) {
        group_coefficients(&p, G, mean, rstd, w);
        ok = apply(c->cx, &p);
    }
    td__dense_close(&p.g);
    td__dense_close(&p.x);
    td__block_free(v, bytes);
    return ok;
}

/* ---- batch norm -------------------------------------------------------- */

/* out = (x - mean) rstd w + b, from per-channel mean and rstd. */
static bool batch_apply(td_opcall *c, const double *mean, const double *rstd) {
    td_tensor *x = td__in(c, 0), *w = td__in(c, 1), *b = td__in(c, 2);
    planes     p = {.out = c->out[0]};
    size_t     bytes;
    planes_sizes(&p, x);
    double *v = accumulators(c->cx, p.C, 3, &bytes);
    if (!v) return false;
    for (int j = 0; j < 3; j++) p.k[j] = v + j * p.C;
    for (int64_t i = 0; i < p.C; i++)
        normalize(&p, i, mean[i], rstd[i] * param(w, i, 1), param(b, i, 0));
    bool ok = open_planes(c->cx, &p, &p.x, x);
    ok = ok && apply(c->cx, &p);
    td__dense_close(&p.x);
    td__block_free(v, bytes);
    return ok;
}

/* Moves a running statistic towards the batch's. */
/* The running statistic i of t after one more batch. All are computed before the first
 * is written: the two tensors may share places. */
static double moved(const td_tensor *t, int64_t i, double momentum, double to) {
    return t ? momentum * to + (1 - momentum) * param(t, i, 0) : to;
}

/* in: input, weight, bias, running_mean, running_var, momentum, eps. The running
 * variance moves towards the unbiased one, over n - 1. */
bool td__kern_batch_norm_train(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    int64_t    C = x->size[1];
    double     momentum = td__in_f(c, 5);
    bool       mask[TD_MAX_RANK];
    td_walk    w;
    size_t     bytes;
    double    *mean = accumulators(c->cx, C, 3, &bytes);
    if (!mean) return false;
    double *m2 = mean + C, *rstd = m2 + C;
    for (int i = 0; i < x->rank; i++) mask[i] = i != 1;
    bool ok = td__moments(c->cx, x, mask, &w, mean, m2);
    for (int64_t i = 0; ok && i < C; i++) {
        rstd[i] = 1 / sqrt(m2[i] / (double)w.reds + td__in_f(c, 6));
        put(c->out[1], i, mean[i]);
        put(c->out[2], i, rstd[i]);
    }
    ok = ok && batch_apply(c, mean, rstd);
    for (int64_t i = 0; ok && w.reds > 0 && i < C; i++) {
        mean[i] = moved(td__in(c, 3), i, momentum, mean[i]);
        m2[i] = moved(td__in(c, 4), i, momentum, m2[i] / ((double)w.reds - 1));
    }
    for (int k = 3; k < 5; k++)
        for (int64_t i = 0; ok && w.reds > 0 && td__in(c, k) && i < C; i++)
            put(td__in(c, k), i, k == 3 ? mean[i] : m2[i]);
    td__block_free(mean, bytes);
    return ok;
}

/* The same on copies of the running statistics. */
bool td__kern_batch_norm_functional(td_opcall *c) {
    td_value own[2] = {c->in[3], c->in[4]};
    bool     ok = true;
    for (int i = 3; i < 5 && ok; i++) {
        if (!td__in(c, i)) continue;
        ok = td__copy_into(c->out[i], td__in(c, i));
        c->in[i] = td_value_tensor(c->out[i]);
    }
    ok = ok && td__kern_batch_norm_train(c);
    c->in[3] = own[0];
    c->in[4] = own[1];
    return ok;
}

/* in: input, weight, bias, running_mean, running_var, eps. */
bool td__kern_batch_norm_eval(td_opcall *c) {
    int64_t C = td__in(c, 0)->size[1];
    size_t  bytes;
    double *mean = accumulators(c->cx, C, 2, &bytes);
    if (!mean) return false;
    for (int64_t i = 0; i < C; i++) {
        mean[i] = param(td__in(c, 3), i, 0);
        mean[C + i] = 1 / sqrt(param(td__in(c, 4), i, 0) + td__in_f(c, 5));
    }
    bool ok = batch_apply(c, mean, mean + C);
    td__block_free(mean, bytes);
    return ok;
}

/* dx = w rstd (g - s0/M - h s1/M), with the sums over the whole batch. */
static void batch_coefficients(planes *p, const td_tensor *mean, const td_tensor *rstd,
                               const td_tensor *w) {
    double M = (double)(p->N * p->S);
    for (int64_t c = 0; c < p->C; c++) {
        double s0 = 0, s1 = 0, r = param(rstd, c, 0), a = r * param(w, c, 1);
        for (int64_t n = 0; n < p->N; n++) {
            s0 += p->sum[0][n * p->C + c];
            s1 += p->sum[1][n * p->C + c];
        }
        p->k[0][c] = param(mean, c, 0);
        p->k[1][c] = a;
        p->k[2][c] = -a * r * s1 / M;
        p->k[3][c] = -a * s0 / M;
    }
}

/* in: grad_out, input, mean, rstd, weight, output_mask. */
bool td__kern_batch_norm_backward(td_opcall *c) {
    td_tensor     *g = td__in(c, 0), *x = td__in(c, 1), *mean = td__in(c, 2);
    td_tensor     *rstd = td__in(c, 3), *w = td__in(c, 4);
    const int64_t *mask = c->in[5].u.ints;
    planes         p = {.out = c->out[0]};
    size_t         bytes;
    planes_sizes(&p, x);
    int64_t n = p.N * p.C;
    double *v = accumulators(c->cx, 2 * n + 6 * p.C, 1, &bytes);
    if (!v) return false;
    p.sum[0] = v;
    p.sum[1] = v + n;
    for (int j = 0; j < 4; j++) p.k[j] = v + 2 * n + j * p.C;
    for (int j = 0; j < 2; j++) p.h[j] = v + 2 * n + (4 + j) * p.C;
    for (int64_t i = 0; i < p.C; i++) {
        p.h[0][i] = param(mean, i, 0);
        p.h[1][i] = param(rstd, i, 0);
    }
    bool ok = open_planes(c->cx, &p, &p.x, x) && open_planes(c->cx, &p, &p.g, g);
    if (ok) td__pool_run(n, TASK / (p.S + 1) + 1, sum_planes, &p);
    if (ok && atomic_load(&p.s.failed)) ok = td__fail_memory(c->cx);
    if (ok) channel_grads(&p, mask[1] ? c->out[1] : NULL, mask[2] ? c->out[2] : NULL);
    if (ok && mask[0] && x->numel) {
        batch_coefficients(&p, mean, rstd, w);
        ok = apply(c->cx, &p);
    }
    td__dense_close(&p.g);
    td__dense_close(&p.x);
    td__block_free(v, bytes);
    return ok;
}
