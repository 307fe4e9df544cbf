/* kern_conv.c -- kernels of convolution that hand contiguous operands to td__conv;
 * integers by plain loops. */
#include "kernels/conv.h"
#include "ops/cast.h"
#include "rules/shape_rules.h"

#include <string.h>

/* A fresh row-major tensor of the same sizes and dtype. */
static td_tensor *dense_like(const td_tensor *t) {
    td_meta m;
    td__meta_dense(&m, (td_dtype)t->dtype, t->rank, t->size);
    return td__tensor_make(t->cx, &m, false);
}

/* t, or a dense copy of it that the surrounding scope owns; NULL: failed. */
static td_tensor *dense(td_tensor *t) {
    if (!t || td_is_contiguous(t)) return t;
    td_tensor *copy = dense_like(t);
    return copy && td__copy_into(copy, t) ? copy : NULL;
}

/* Copies operands that are not contiguous, for the time of the call; a result in
 * another layout is computed beside and copied. */
static bool run(td_opcall *c, td_conv *p, td_conv_dir dir, td_tensor *bias) {
    td_ctx    *cx = c->cx;
    td_tensor *out = c->out[0];
    if (!td__scope_push(cx)) return false; /* the dense copies end here */
    /* weights: a = x, b = dy; the rows give (dy, x) */
    int        first = dir == TD_CONV_WEIGHTS ? 1 : 0;
    td_tensor *a = dense(td__in(c, first)), *b = dense(td__in(c, 1 - first)),
              *d = dense(bias);
    td_tensor *y = td_is_contiguous(out) ? out : dense_like(out);
    bool       ok = a && b && y && (d || !bias);
    p->dtype = (td_dtype)out->dtype;
    if (ok) {
        td_conv_args t = {td__ptr(a), td__ptr(b), d ? td__ptr(d) : NULL, td__ptr(y)};
        ok = td__conv(p, dir, &t) || td__fail_memory(cx);
    }
    if (ok && y != out) td__copy_into(out, y);
    td__scope_pop(cx, NULL, 0);
    return ok;
}

/* ---- integers: plain loops, sums wrap as in C -------------------------- */

enum { DIMS = 5 };

/* An element of an integer tensor: i is [n,c,d,h,w], of which it has the last. */
static int64_t at(const td_tensor *t, const int64_t i[DIMS]) {
    int64_t k = i[0] * t->stride[0] + i[1] * t->stride[1];
    for (int d = 2; d < t->rank; d++) k += i[DIMS - t->rank + d] * t->stride[d];
    return td__load_i((td_dtype)t->dtype, td__ptr(t) + k * td__dtype_bytes[t->dtype]);
}

/* The options by dim, and the sizes of the argument. */
typedef struct walk {
    int64_t k[3], stride[3], pad[3], dil[3], in[3];
    bool    transposed;
    int64_t groups, from, to; /* channels of the argument and of the result */
} walk;

/* Where kernel cell k meets the argument, for place `to` of the result; false: in the
 * padding, or between steps. */
static bool meets(const walk *p, const int64_t k[3], const int64_t *to, int64_t *from) {
    for (int d = 0; d < 3; d++) {
        int64_t i = to[d] * p->stride[d] - p->pad[d] + k[d] * p->dil[d];
        if (p->transposed) {
            i = to[d] + p->pad[d] - k[d] * p->dil[d];
            if (i % p->stride[d]) return false;
            i /= p->stride[d];
        }
        if (i < 0 || i >= p->in[d]) return false;
        from[d] = i;
    }
    return true;
}

/* One element of the result, at i. */
static int64_t int_sum(const td_opcall *c, const walk *p, const int64_t i[DIMS]) {
    const td_tensor *in = td__in(c, 0), *w = td__in(c, 1), *bias = td__in(c, 2);
    int64_t          per = p->from / p->groups, each = p->to / p->groups;
    int64_t          cells = p->k[0] * p->k[1] * p->k[2];
    uint64_t         sum = 0;
    if (bias)
        sum = (uint64_t)td__load_i((td_dtype)bias->dtype,
                                   td__ptr(bias) + i[1] * bias->stride[0] *
                                                       td__dtype_bytes[bias->dtype]);
    for (int64_t q = 0; q < per * cells; q++) {
        int64_t ch = i[1] / each * per + q / cells, e = q % cells;
        int64_t k[3] = {e / (p->k[1] * p->k[2]), e / p->k[2] % p->k[1], e % p->k[2]};
        int64_t x[DIMS] = {i[0], ch}, f[DIMS] = {i[1], q / cells, k[0], k[1], k[2]};
        if (p->transposed) f[0] = ch, f[1] = i[1] % each;
        if (meets(p, k, i + 2, x + 2)) sum += (uint64_t)at(in, x) * (uint64_t)at(w, f);
    }
    return (int64_t)sum;
}

/* No library has integer convolution, and PyTorch's is plain loops as well. */
static bool int_convolution(td_opcall *c, const td_conv *p, bool transposed) {
    const td_tensor *x = td__in(c, 0);
    td_tensor       *out = c->out[0];
    walk             s = {{p->kd, p->kh, p->kw},
                          {p->stride_d, p->stride_h, p->stride_w},
                          {p->pad_d, p->pad_h, p->pad_w},
                          {p->dil_d, p->dil_h, p->dil_w},
                          {1, 1, 1},
                          transposed,
                          p->groups,
                          x->size[1],
                          out->size[1]};
    for (int d = 2; d < x->rank; d++) s.in[3 - x->rank + d] = x->size[d];
    for (int64_t k = 0; k < out->numel; k++) {
        int64_t i[DIMS] = {0}, rest = k, offset = 0;
        for (int d = out->rank - 1; d >= 0; d--) {
            int64_t *to = &i[d < 2 ? d : DIMS - out->rank + d];
            *to = rest % out->size[d];
            rest /= out->size[d];
            offset += *to * out->stride[d];
        }
        td__store_i((td_dtype)out->dtype,
                    td__ptr(out) + offset * td__dtype_bytes[out->dtype],
                    int_sum(c, &s, i));
    }
    return true;
}

/* ---- kernels ------------------------------------------------------------ */

/* Nothing to multiply: the bias of each channel, or zeros. */
static bool bias_alone(td_opcall *c) {
    td_tensor *out = c->out[0], *bias = td__in(c, 2);
    td_meta    m;
    if (!td__fill(out, td_value_int(0))) return false;
    if (!bias) return true;
    td__tensor_meta(bias, &m);
    m.size[1] = m.size[0], m.stride[1] = m.stride[0];
    m.rank = out->rank;
    for (int d = 0; d < m.rank; d++)
        if (d != 1) m.size[d] = 1, m.stride[d] = 0;
    td_tensor *wide = td__tensor_over(c->cx, bias->st, &m);
    return wide && td__copy_into(out, wide);
}

/* in: input, weight, bias, options; checked by the shape rule. */
bool td__kern_convolution(td_opcall *c) {
    const td_tensor *x = td__in(c, 0), *w = td__in(c, 1);
    bool             transposed = td__in_bool(c, TD_CONV_DILATION + 1);
    int64_t          made[5];
    td_conv          p;
    if (c->out[0]->numel == 0) return true;
    if (x->numel == 0 || w->numel == 0) return bias_alone(c);
    if (!(transposed ? td__conv_transposed(c, &p, made)
                     : td__conv_sizes(c, &p, x->rank, x->size, w->size)))
        return false;
    if (!td__is_float((td_dtype)c->out[0]->dtype))
        return int_convolution(c, &p, transposed);
    return run(c, &p, transposed ? TD_CONV_DATA : TD_CONV_FORWARD, td__in(c, 2));
}

/* in: grad, weight, input_sizes, options. */
bool td__kern_conv_data_grad(td_opcall *c) {
    td_conv p;
    if (c->out[0]->numel == 0) return true;
    if (td__in(c, 0)->numel == 0 || td__in(c, 1)->numel == 0)
        return td__fill(c->out[0], td_value_int(0));
    return td__conv_sizes(c, &p, (int)c->in[2].n, c->in[2].u.ints,
                          td__in(c, 1)->size) &&
           run(c, &p, TD_CONV_DATA, NULL);
}

/* in: grad, input, weight_sizes, options. */
bool td__kern_conv_weight_grad(td_opcall *c) {
    td_conv p;
    if (c->out[0]->numel == 0) return true;
    if (td__in(c, 0)->numel == 0 || td__in(c, 1)->numel == 0)
        return td__fill(c->out[0], td_value_int(0));
    return td__conv_sizes(c, &p, (int)c->in[2].n, td__in(c, 1)->size,
                          c->in[2].u.ints) &&
           run(c, &p, TD_CONV_WEIGHTS, NULL);
}
