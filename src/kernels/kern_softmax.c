/* kern_softmax.c -- softmax, log_softmax, their derivatives, and logsumexp.
 *
 * Along the innermost dim a row is done in place, in the result's own memory when
 * that is f32 or f64. Along another dim, a strip of neighbouring columns is done
 * together: their greatest elements, then the sums, then the results. */
#include "kernels/reduce.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { STRIP = 256, TASK = 8192 };

typedef enum soft_kind {
    SOFTMAX,
    LOG_SOFTMAX,
    SOFTMAX_GRAD,
    LOG_SOFTMAX_GRAD
} soft_kind;

typedef union strip {
    float  f32[STRIP];
    double f64[STRIP];
} strip;

/* One call: the four ops differ in what a line computes, not in how lines are found. */
typedef struct soft {
    soft_kind              kind;
    td_acc                 acc;
    const td_float_loops  *f;
    const td_reduce_loops *loops;
    const td_tensor       *x, *y; /* input; or gradient and result */
    td_tensor             *out;   /* row-major */
    int                    dim;
    int64_t                n, inner, outer; /* along dim, after it, before it */
    size_t                 size, acc_size;
    bool                   plain; /* elements are accumulators */
    atomic_bool            failed;
} soft;

/* Offset in t of the element at (outer o, 0, inner i). */
static int64_t at(const td_tensor *t, int dim, int64_t o, int64_t i) {
    int64_t off = 0;
    for (int d = t->rank - 1; d > dim; d--) {
        off += i % t->size[d] * t->stride[d];
        i /= t->size[d];
    }
    for (int d = dim - 1; d >= 0; d--) {
        off += o % t->size[d] * t->stride[d];
        o /= t->size[d];
    }
    return off;
}

/* The stride along dim; a 0-dim tensor is a line of one. */
static int64_t step_of(const td_tensor *t, int dim) {
    return t->rank ? t->stride[dim] : 1;
}

/* In place. */
static void logs(td_acc acc, strip *sum, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (acc == TD_ACC_F32) sum->f32[i] = logf(sum->f32[i]);
        else sum->f64[i] = log(sum->f64[i]);
    }
}

/* n accumulators of value v. */
static void fill(td_acc acc, strip *s, int64_t n, double v) {
    for (int64_t i = 0; i < n; i++) {
        if (acc == TD_ACC_F32) s->f32[i] = (float)v;
        else s->f64[i] = v;
    }
}

/* ---- rows -------------------------------------------------------------- */

/* One line x (and y), dense accumulators, into z, which may be x or y. */
static void soft_row(const soft *s, const void *x, const void *y, void *z) {
    strip max, sum;
    switch (s->kind) {
    case SOFTMAX:
    case LOG_SOFTMAX:
        fill(s->acc, &max, 1, -INFINITY);
        s->loops->row[s->acc][TD_RED_MAX](x, s->n, &max);
        s->f->exp_row(x, &max, s->n, s->kind == SOFTMAX ? z : NULL, &sum);
        if (s->kind == SOFTMAX) {
            s->f->divide(z, &sum, 0, s->n, z);
        } else {
            logs(s->acc, &sum, 1);
            s->f->log_softmax(x, &max, &sum, 0, s->n, z);
        }
        break;
    case SOFTMAX_GRAD:
        s->f->dot_row(x, y, s->n, &sum);
        s->f->softmax_grad(x, y, &sum, 0, s->n, z);
        break;
    case LOG_SOFTMAX_GRAD:
        fill(s->acc, &sum, 1, 0);
        s->loops->row[s->acc][TD_RED_SUM](x, s->n, &sum);
        s->f->log_softmax_grad(x, y, &sum, 0, s->n, z);
        break;
    }
}

/* The line of t at (o, i) as dense accumulators: its own memory, or buf. */
static const void *line(const soft *s, const td_tensor *t, int64_t o, int64_t i,
                        void *buf) {
    const char *p = td__ptr(t) + at(t, s->dim, o, i) * (int64_t)s->size;
    int64_t     step = step_of(t, s->dim);
    if (s->plain && step == 1) return p;
    s->loops->load[s->acc][t->dtype](p, step, s->n, buf);
    return buf;
}

/* Lines [begin, end), each as dense accumulators. */
static void soft_rows(void *arg, int64_t begin, int64_t end) {
    soft  *s = arg;
    size_t each = (size_t)s->n * s->acc_size, bytes = 3 * each;
    char  *buf = td__block_alloc(bytes);
    if (!buf) {
        atomic_store(&s->failed, true);
        return;
    }
    for (int64_t k = begin; k < end; k++) {
        int64_t     o = k / s->inner, i = k % s->inner;
        char       *p = td__ptr(s->out) + at(s->out, s->dim, o, i) * (int64_t)s->size;
        bool        direct = s->plain && s->inner == 1;
        const void *x = line(s, s->x, o, i, buf);
        const void *y = s->y ? line(s, s->y, o, i, buf + each) : NULL;
        void       *z = direct ? p : buf + 2 * each;
        soft_row(s, x, y, z);
        if (direct) continue;
        if (s->inner == 1) {
            s->loops->store[s->acc][s->out->dtype](z, s->n, p);
            continue;
        }
        for (int64_t j = 0; j < s->n; j++)
            s->loops->store[s->acc][s->out->dtype]((char *)z + (size_t)j * s->acc_size,
                                                   1,
                                                   p + j * s->inner * (int64_t)s->size);
    }
    td__block_free(buf, bytes);
}

/* ---- columns ----------------------------------------------------------- */

/* Elements (o, j, i..i+n) of t, which lie side by side; buf when converted. */
static const void *across(const soft *s, const td_tensor *t, const char *p, int64_t j,
                          int64_t n, strip *buf) {
    p += j * step_of(t, s->dim) * (int64_t)s->size;
    if (s->plain) return p;
    s->loops->load[s->acc][t->dtype](p, 1, n, buf);
    return buf;
}

/* Statistics of a strip: sum, and the greatest for softmax itself. */
static void strip_stats(const soft *s, const char *px, const char *py, int64_t n,
                        strip *max, strip *sum) {
    strip a, b;
    fill(s->acc, max, n, -INFINITY);
    fill(s->acc, sum, n, 0);
    td_red op = s->kind == LOG_SOFTMAX_GRAD ? TD_RED_SUM : TD_RED_MAX;
    for (int64_t j = 0; j < s->n; j++) {
        const void *x = across(s, s->x, px, j, n, &a);
        if (s->kind == SOFTMAX_GRAD)
            s->f->dot_cols(x, across(s, s->y, py, j, n, &b), n, sum);
        else s->loops->col[s->acc][op](op == TD_RED_SUM ? sum : max, x, 0, 1, n);
    }
    if (s->kind > LOG_SOFTMAX) return;
    for (int64_t j = 0; j < s->n; j++)
        s->f->exp_cols(across(s, s->x, px, j, n, &a), max, n, NULL, sum);
    if (s->kind == LOG_SOFTMAX) logs(s->acc, sum, n);
}

/* Columns [i, i + n) after the scanned dim, for one index o before it. */
static void soft_strip(const soft *s, int64_t o, int64_t i, int64_t n) {
    const char *px = td__ptr(s->x) + at(s->x, s->dim, o, i) * (int64_t)s->size;
    const char *py =
        s->y ? td__ptr(s->y) + at(s->y, s->dim, o, i) * (int64_t)s->size : NULL;
    char *pz = td__ptr(s->out) + at(s->out, s->dim, o, i) * (int64_t)s->size;
    strip max, sum, a, b, c, dead;
    strip_stats(s, px, py, n, &max, &sum);
    for (int64_t j = 0; j < s->n; j++) {
        const void *x = across(s, s->x, px, j, n, &a);
        char       *p = pz + j * s->inner * (int64_t)s->size;
        void       *z = s->plain ? (void *)p : &c;
        if (s->kind == SOFTMAX) {
            fill(s->acc, &dead, n, 0);
            s->f->exp_cols(x, &max, n, z, &dead);
            s->f->divide(z, &sum, 1, n, z);
        } else if (s->kind == LOG_SOFTMAX) {
            s->f->log_softmax(x, &max, &sum, 1, n, z);
        } else {
            const void *y = across(s, s->y, py, j, n, &b);
            (s->kind == SOFTMAX_GRAD ? s->f->softmax_grad
                                     : s->f->log_softmax_grad)(x, y, &sum, 1, n, z);
        }
        if (!s->plain) s->loops->store[s->acc][s->out->dtype](z, n, p);
    }
}

/* Strips [begin, end); a strip is STRIP columns of one outer index. */
static void soft_strips(void *arg, int64_t begin, int64_t end) {
    const soft *s = arg;
    int64_t     strips = (s->inner + STRIP - 1) / STRIP;
    for (int64_t k = begin; k < end; k++) {
        int64_t i = k % strips * STRIP;
        soft_strip(s, k / strips, i, s->inner - i < STRIP ? s->inner - i : STRIP);
    }
}

/* ---- entry points ------------------------------------------------------ */

/* Do the dims after `dim` lie densely, so that strips can be read in place? */
static bool inner_dense(const td_tensor *t, int dim) {
    int k = dim + 1;
    return td__is_dense(t->rank - k, t->size + k, t->stride + k);
}

/* y: the result of the forward op, for derivatives. Strips need at least 8 columns that
 * lie side by side. */
static bool run(td_opcall *c, soft_kind kind, const td_tensor *y, int64_t dim) {
    const td_tensor *x = td__in(c, 0);
    soft             s = {.kind = kind, .x = x, .y = y, .out = c->out[0]};
    if (x->numel == 0) return true;
    s.acc = td__acc_of((td_dtype)x->dtype);
    s.loops = td__reduce_loops();
    s.f = &s.loops->f[s.acc];
    s.dim = td__wrap_dim(dim, x->rank);
    s.n = x->rank ? x->size[s.dim] : 1;
    s.inner = s.outer = 1;
    for (int d = 0; d < s.dim; d++) s.outer *= x->size[d];
    for (int d = s.dim + 1; d < x->rank; d++) s.inner *= x->size[d];
    s.size = td__dtype_bytes[x->dtype];
    s.acc_size = td__acc_size(s.acc);
    s.plain = s.size == s.acc_size;
    bool strips =
        s.inner >= 8 && inner_dense(x, s.dim) && (!y || inner_dense(y, s.dim));
    if (strips)
        td__pool_run(s.outer * ((s.inner + STRIP - 1) / STRIP),
                     TASK / (s.n * STRIP) + 1, soft_strips, &s);
    else td__pool_run(s.outer * s.inner, TASK / s.n + 1, soft_rows, &s);
    return !atomic_load(&s.failed) || td__fail_memory(c->cx);
}

/* in: self, dim, half_to_float. */
bool td__kern_softmax(td_opcall *c) { return run(c, SOFTMAX, NULL, td__in_int(c, 1)); }
bool td__kern_log_softmax(td_opcall *c) {
    return run(c, LOG_SOFTMAX, NULL, td__in_int(c, 1));
}
/* in: grad_output, output, dim, input_dtype. */
bool td__kern_softmax_backward(td_opcall *c) {
    return run(c, SOFTMAX_GRAD, td__in(c, 1), td__in_int(c, 2));
}
bool td__kern_log_softmax_backward(td_opcall *c) {
    return run(c, LOG_SOFTMAX_GRAD, td__in(c, 1), td__in_int(c, 2));
}

/* ---- logsumexp --------------------------------------------------------- */

/* Two reductions: the greatest, with infinities made 0 as in ATen, then the sum of
 * exp about it. */
typedef struct lse {
    td_walk     w;
    td_dtype    in;
    td_acc      acc;
    const char *src;
    td_tensor  *out;
} lse;

/* Outputs [begin, end). */
static void lse_places(void *arg, int64_t begin, int64_t end) {
    const lse             *s = arg;
    const td_reduce_loops *l = td__reduce_loops();
    const td_walk_dim     *run = &s->w.red[s->w.nr - 1];
    int64_t                size = td__dtype_bytes[s->in];
    td_dtype               dt = (td_dtype)s->out->dtype;
    for (int64_t k = begin; k < end; k++) {
        const char *p = s->src + td__walk_in(&s->w, k) * size;
        strip       buf, max, part, total;
        fill(s->acc, &max, 1, -INFINITY);
        fill(s->acc, &total, 1, 0);
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t i = 0, n; i < s->w.reds; i += n) {
                n = run->size - i % run->size;
                if (n > STRIP) n = STRIP;
                l->load[s->acc][s->in](p + td__walk_red(&s->w, i) * size, run->in, n,
                                       &buf);
                if (pass == 0) {
                    l->row[s->acc][TD_RED_MAX](&buf, n, &max);
                    continue;
                }
                l->f[s->acc].exp_row(&buf, &max, n, NULL, &part);
                l->row[s->acc][TD_RED_SUM](&part, 1, &total);
            }
            if (pass == 0 &&
                (s->acc == TD_ACC_F32 ? isinf(max.f32[0]) : isinf(max.f64[0])))
                fill(s->acc, &max, 1, 0);
        }
        logs(s->acc, &total, 1);
        l->row[s->acc][TD_RED_SUM](&max, 1, &total);
        l->store[s->acc][dt](&total, 1,
                             td__ptr(s->out) +
                                 td__walk_out(&s->w, k) * td__dtype_bytes[dt]);
    }
}

/* n outputs that are neighbours in the input, from place `k` on: element by element of
 * the reduced dims, all of them together. */
static void lse_strip(const lse *s, int64_t k, int64_t n) {
    const td_reduce_loops *l = td__reduce_loops();
    const td_walk_dim     *along = &s->w.kept[s->w.nk - 1];
    int64_t                size = td__dtype_bytes[s->in];
    td_dtype               dt = (td_dtype)s->out->dtype;
    const char            *p = s->src + td__walk_in(&s->w, k) * size;
    strip                  buf, max, total;
    fill(s->acc, &max, n, -INFINITY);
    fill(s->acc, &total, n, 0);
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t i = 0; i < s->w.reds; i++) {
            l->load[s->acc][s->in](p + td__walk_red(&s->w, i) * size, along->in, n,
                                   &buf);
            if (pass == 0) l->col[s->acc][TD_RED_MAX](&max, &buf, n, 1, n);
            else l->f[s->acc].exp_cols(&buf, &max, n, NULL, &total);
        }
        for (int64_t j = 0; j < n && pass == 0; j++) {
            if (s->acc == TD_ACC_F32) max.f32[j] = isinf(max.f32[j]) ? 0 : max.f32[j];
            else max.f64[j] = isinf(max.f64[j]) ? 0 : max.f64[j];
        }
    }
    logs(s->acc, &total, n);
    l->col[s->acc][TD_RED_SUM](&total, &max, n, 1, n);
    for (int64_t j = 0; j < n; j++)
        l->store[s->acc][dt](
            s->acc == TD_ACC_F32 ? (void *)&total.f32[j] : (void *)&total.f64[j], 1,
            td__ptr(s->out) + td__walk_out(&s->w, k + j) * td__dtype_bytes[dt]);
}

/* Strips [begin, end). */
static void lse_strips(void *arg, int64_t begin, int64_t end) {
    const lse *s = arg;
    int64_t    inner = s->w.kept[s->w.nk - 1].size, per = (inner + STRIP - 1) / STRIP;
    for (int64_t u = begin; u < end; u++) {
        int64_t from = u % per * STRIP, n = inner - from < STRIP ? inner - from : STRIP;
        lse_strip(s, u / per * inner + from, n);
    }
}

/* in: self, dim, keepdim. */
bool td__kern_logsumexp(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    bool             mask[TD_MAX_RANK + 1];
    lse s = {.in = (td_dtype)t->dtype, .src = td__ptr(t), .out = c->out[0]};
    s.acc = td__acc_of((td_dtype)s.out->dtype);
    td__reduce_mask(&c->in[1], t->rank, true, mask);
    td__walk_make(&s.w, t, mask, false);
    int64_t inner = s.w.kept[s.w.nk - 1].size;
    if (s.w.by_column && inner >= 8)
        td__pool_run(s.w.outs / inner * ((inner + STRIP - 1) / STRIP),
                     TASK / (s.w.reds * STRIP + 1) + 1, lse_strips, &s);
    else td__pool_run(s.w.outs, TASK / (s.w.reds + 1) + 1, lse_places, &s);
    return true;
}
