/* kern_norm.c -- layer norm and its gradients, a row at a time, and what the norm
 * kernels share. Gradients of the parameters are summed in blocks of rows whose
 * number depends on the sizes only, then joined in order. */
#include "kernels/norm.h"

#include "ops/cast.h"
#include "rules/geom.h"
#include "rules/shape_rules.h"

#include <math.h>
#include <string.h>

enum { TASK = 16384, BLOCKS = 16 };

/* ---- shared ------------------------------------------------------------ */

/* Halves are normalized in f32. */
void td__norm_init(td_norm *s, td_dtype dt) {
    memset(s, 0, sizeof *s);
    s->acc = td__acc_of(dt);
    s->acc_size = td__acc_size(s->acc);
    s->loops = td__reduce_loops();
    s->f = &s->loops->f[s->acc];
}

double td__norm_get(const td_norm *s, const void *p, int64_t i) {
    return s->acc == TD_ACC_F32 ? (double)((const float *)p)[i]
                                : ((const double *)p)[i];
}

void td__norm_set(const td_norm *s, void *p, int64_t i, double v) {
    if (s->acc == TD_ACC_F32) ((float *)p)[i] = (float)v;
    else ((double *)p)[i] = v;
}

/* A tensor in another layout is copied; strides of dims of size 1 do not count. */
bool td__dense_open(td_ctx *cx, td_norm *s, td_dense *d, td_tensor *t, bool last) {
    td_meta m;
    memset(d, 0, sizeof *d);
    if (!t) return true;
    d->dtype = (td_dtype)t->dtype;
    d->direct = td__dtype_bytes[t->dtype] == s->acc_size;
    td__meta_dense(&m, d->dtype, t->rank, t->size);
    td__strides_dense(t->rank, t->size, m.stride);
    if (last) td__strides_channels_last(t->rank, t->size, m.stride);
    bool fits = true;
    for (int i = 0; i < t->rank; i++)
        fits = fits && (t->size[i] == 1 || t->stride[i] == m.stride[i]);
    if (!fits) {
        m.strided = true;
        d->copy = td__tensor_make(cx, &m, false);
        if (!d->copy) return false;
        td__copy_into(d->copy, t);
        t = d->copy;
    }
    d->p = td__ptr(t);
    return true;
}

void td__dense_close(td_dense *d) {
    if (d->copy) td_drop(d->copy);
    d->copy = NULL;
}

/* buf has room for n accumulators. */
const void *td__dense_read(const td_norm *s, const td_dense *d, int64_t at, int64_t n,
                           void *buf) {
    const char *p = d->p + at * td__dtype_bytes[d->dtype];
    if (d->direct) return p;
    s->loops->load[s->acc][d->dtype](p, 1, n, buf);
    return buf;
}

/* Strided parameters are gathered stretch by stretch. */
bool td__norm_params(td_ctx *cx, const td_norm *s, const td_tensor *t, void **out) {
    int64_t  n = t ? t->numel : 0, inner = 1;
    td_dtype dt = t ? (td_dtype)t->dtype : TD_F32;
    *out = NULL;
    if (!t || n == 0) return true;
    char *p = td__block_alloc((size_t)n * s->acc_size);
    if (!p) return td__fail_memory(cx);
    *out = p;
    int dense = t->rank; /* the dims from here on are dense */
    while (dense > 0 && t->stride[dense - 1] == inner) inner *= t->size[--dense];
    for (int64_t at = 0; at < n; at += inner) {
        int64_t off = 0, i = at / inner;
        for (int d = dense - 1; d >= 0; d--) {
            off += i % t->size[d] * t->stride[d];
            i /= t->size[d];
        }
        s->loops->load[s->acc][dt](td__ptr(t) + off * td__dtype_bytes[dt], 1, inner,
                                   p + (size_t)at * s->acc_size);
    }
    return true;
}

void td__norm_free(const td_norm *s, const td_tensor *t, void *params) {
    if (params) td__block_free(params, (size_t)t->numel * s->acc_size);
}

/* ---- layer norm -------------------------------------------------------- */

/* A call of layer norm or of its gradient; the fields of the other are 0. */
typedef struct layer {
    td_norm    s;
    td_dense   x, g;
    void      *w, *b;
    td_tensor *out, *mean, *rstd; /* results, or inputs of the gradient */
    int64_t    rows, n;
    double     eps;
    void      *rstats; /* gradient: mean, rstd as accumulators */
    void      *mstats;
    bool       want_x, want_w;
    char      *partial; /* gradient of parameters: [block][2][n] */
} layer;

/* Element i of a dense tensor of statistics. */
static void put_stat(td_tensor *t, int64_t i, double v) {
    td__store_f((td_dtype)t->dtype, td__ptr(t) + i * td__dtype_bytes[t->dtype], v);
}

/* Normalizes rows [begin, end): statistics, then (x - mean) rstd w + b. */
static void layer_rows(void *arg, int64_t begin, int64_t end) {
    layer   *l = arg;
    td_norm *s = &l->s;
    size_t   row = (size_t)l->n * s->acc_size, bytes = 2 * row + 64;
    char    *buf = td__block_alloc(bytes);
    if (!buf) {
        atomic_store(&s->failed, true);
        return;
    }
    td_store_fn *store = s->loops->store[s->acc][l->out->dtype];
    for (int64_t i = begin; i < end; i++) {
        const void *x = td__dense_read(s, &l->x, i * l->n, l->n, buf);
        char       *to = td__ptr(l->out) + i * l->n * td__dtype_bytes[l->out->dtype];
        void       *y = l->x.direct ? (void *)to : buf + row;
        double      stat[2], k[2];
        s->f->moments(x, l->n, stat);
        double mean = td__norm_get(s, stat, 0);
        double var = td__norm_get(s, stat, 1) / (double)l->n;
        double rstd = 1 / sqrt(var + l->eps);
        td__norm_set(s, k, 0, mean);
        td__norm_set(s, k, 1, rstd);
        s->f->affine_row(x, k, l->w, l->b, l->n, y);
        if (!l->x.direct) store(y, l->n, to);
        put_stat(l->mean, i, mean);
        put_stat(l->rstd, i, rstd);
    }
    td__block_free(buf, bytes);
}

/* Rows and row length from the sizes of x and the number of normalized dims. */
static void layer_sizes(layer *l, const td_tensor *x, int k) {
    l->n = l->rows = 1;
    for (int i = 0; i < x->rank; i++)
        *(i < x->rank - k ? &l->rows : &l->n) *= x->size[i];
}

/* in: input, normalized_shape, weight, bias, eps. Results: out, mean, rstd. */
bool td__kern_layer_norm(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *w = td__in(c, 2), *b = td__in(c, 3);
    layer      l = {.out = c->out[0], .mean = c->out[1], .rstd = c->out[2]};
    layer_sizes(&l, x, (int)c->in[1].n);
    l.eps = td__in_f(c, 4);
    td__norm_init(&l.s, (td_dtype)x->dtype);
    bool ok = td__dense_open(c->cx, &l.s, &l.x, x, false) &&
              td__norm_params(c->cx, &l.s, w, &l.w) &&
              td__norm_params(c->cx, &l.s, b, &l.b);
    if (ok) td__pool_run(l.rows, TASK / (l.n + 1) + 1, layer_rows, &l);
    if (ok && atomic_load(&l.s.failed)) ok = td__fail_memory(c->cx);
    td__norm_free(&l.s, w, l.w);
    td__norm_free(&l.s, b, l.b);
    td__dense_close(&l.x);
    return ok;
}

/* ---- its gradients ----------------------------------------------------- */

/* dx = rstd (gw - s0/n - h s1/n) with h = (x - mean) rstd, computed as
 * a gw + b (x - mean) + c. */
static void layer_grad_row(layer *l, int64_t i, char *buf, char *part) {
    td_norm    *s = &l->s;
    size_t      row = (size_t)l->n * s->acc_size;
    const void *x = td__dense_read(s, &l->x, i * l->n, l->n, buf);
    const void *g = td__dense_read(s, &l->g, i * l->n, l->n, buf + row);
    double mean = td__norm_get(s, l->mstats, i), rstd = td__norm_get(s, l->rstats, i);
    double k[4], stat[2], n = (double)l->n;
    td__norm_set(s, k, 0, mean);
    td__norm_set(s, k, 1, rstd);
    if (l->want_w) s->f->norm_grad_weight(g, x, k, l->n, part, part + row);
    if (!l->want_x) return;
    s->f->norm_grad_stats(g, x, k, l->w, l->n, stat);
    double s0 = td__norm_get(s, stat, 0) / n, s1 = td__norm_get(s, stat, 1) / n;
    td__norm_set(s, k, 2, -rstd * rstd * s1);
    td__norm_set(s, k, 3, -rstd * s0);
    char *to = td__ptr(l->out) + i * l->n * td__dtype_bytes[l->out->dtype];
    void *y = l->x.direct ? (void *)to : buf + 2 * row;
    s->f->norm_grad_row(g, x, k, l->w, l->n, y);
    if (!l->x.direct) s->loops->store[s->acc][l->out->dtype](y, l->n, to);
}

/* Rows are cut into so many blocks; not by the number of threads, or sums would depend
 * on it. */
static int64_t layer_blocks(const layer *l) {
    return l->rows < BLOCKS ? l->rows : BLOCKS;
}

/* Blocks [begin, end): dx of their rows, and their sums for dw and db. */
static void layer_grad_blocks(void *arg, int64_t begin, int64_t end) {
    layer *l = arg;
    size_t row = (size_t)l->n * l->s.acc_size, bytes = 3 * row + 64;
    char  *buf = td__block_alloc(bytes);
    if (!buf) {
        atomic_store(&l->s.failed, true);
        return;
    }
    int64_t blocks = layer_blocks(l);
    for (int64_t k = begin; k < end; k++) {
        char *part = l->partial + (size_t)k * 2 * row;
        memset(part, 0, 2 * row);
        for (int64_t i = l->rows * k / blocks; i < l->rows * (k + 1) / blocks; i++)
            layer_grad_row(l, i, buf, part);
    }
    td__block_free(buf, bytes);
}

/* Adds the blocks' sums in order and stores dw and db. */
static void layer_grad_join(layer *l, td_tensor *const *out, const bool *want) {
    size_t row = (size_t)l->n * l->s.acc_size;
    for (int which = 0; which < 2; which++) {
        char *sum = l->partial + (size_t)which * row;
        if (!want[which] || l->n == 0) continue;
        if (l->rows == 0) {
            td__fill(out[which], td_value_int(0));
            continue;
        }
        for (int64_t k = 1; k < layer_blocks(l); k++)
            l->s.loops->col[l->s.acc][TD_RED_SUM](sum, sum + (size_t)k * 2 * row, 0, 1,
                                                  l->n);
        l->s.loops->store[l->s.acc][out[which]->dtype](sum, l->n, td__ptr(out[which]));
    }
}

/* in: grad_out, input, normalized_shape, mean, rstd, weight, output_mask. */
bool td__kern_layer_norm_backward(td_opcall *c) {
    td_tensor     *g = td__in(c, 0), *x = td__in(c, 1), *w = td__in(c, 5);
    td_tensor     *mean = td__in(c, 3), *rstd = td__in(c, 4);
    const int64_t *mask = c->in[6].u.ints;
    layer          l = {.out = c->out[0], .want_x = mask[0]};
    bool           want[2] = {mask[1] != 0, mask[2] != 0};
    layer_sizes(&l, x, (int)c->in[2].n);
    l.want_w = want[0] || want[1];
    td__norm_init(&l.s, (td_dtype)x->dtype);
    size_t bytes = (size_t)(layer_blocks(&l) + 1) * 2 * (size_t)l.n * l.s.acc_size + 64;
    bool   ok = td__dense_open(c->cx, &l.s, &l.x, x, false) &&
              td__dense_open(c->cx, &l.s, &l.g, g, false) &&
              td__norm_params(c->cx, &l.s, w, &l.w) &&
              td__norm_params(c->cx, &l.s, mean, &l.mstats) &&
              td__norm_params(c->cx, &l.s, rstd, &l.rstats);
    if (ok && !(l.partial = td__block_alloc(bytes))) ok = td__fail_memory(c->cx);
    if (ok && l.n > 0) td__pool_run(layer_blocks(&l), 1, layer_grad_blocks, &l);
    if (ok && atomic_load(&l.s.failed)) ok = td__fail_memory(c->cx);
    if (ok) layer_grad_join(&l, &c->out[1], want);
    if (l.partial) td__block_free(l.partial, bytes);
    td__norm_free(&l.s, w, l.w);
    td__norm_free(&l.s, mean, l.mstats);
    td__norm_free(&l.s, rstd, l.rstats);
    td__dense_close(&l.g);
    td__dense_close(&l.x);
    return ok;
}
