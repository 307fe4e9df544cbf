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

/* An element of a 4-dim integer tensor. */
static int64_t at(const td_tensor *t, int64_t a, int64_t b, int64_t h, int64_t w) {
    int64_t k =
        a * t->stride[0] + b * t->stride[1] + h * t->stride[2] + w * t->stride[3];
    return td__load_i((td_dtype)t->dtype, td__ptr(t) + k * td__dtype_bytes[t->dtype]);
}

/* One element of the result: n, o, y, x. */
static int64_t int_sum(const td_opcall *c, const td_conv *p, const int64_t *i) {
    const td_tensor *in = td__in(c, 0), *w = td__in(c, 1), *bias = td__in(c, 2);
    uint64_t         sum = 0;
    int64_t          per = p->c / p->groups, first = i[1] / (p->o / p->groups) * per;
    if (bias)
        sum = (uint64_t)td__load_i((td_dtype)bias->dtype,
                                   td__ptr(bias) + i[1] * bias->stride[0] *
                                                       td__dtype_bytes[bias->dtype]);
    for (int64_t k = 0; k < per * p->kh * p->kw; k++) {
        int64_t ch = k / (p->kh * p->kw), kh = k / p->kw % p->kh, kw = k % p->kw;
        int64_t y = i[2] * p->stride_h - p->pad_h + kh * p->dil_h;
        int64_t x = i[3] * p->stride_w - p->pad_w + kw * p->dil_w;
        if (y < 0 || y >= p->h || x < 0 || x >= p->w) continue;
        sum += (uint64_t)at(in, i[0], first + ch, y, x) *
               (uint64_t)at(w, i[1], ch, kh, kw);
    }
    return (int64_t)sum;
}

/* No library has integer convolution, and PyTorch's is plain loops as well. */
static bool int_convolution(td_opcall *c, const td_conv *p) {
    td_tensor *out = c->out[0];
    for (int64_t k = 0; k < out->numel; k++) {
        int64_t i[4], rest = k, offset = 0;
        for (int d = 3; d >= 0; d--) {
            i[d] = rest % out->size[d];
            rest /= out->size[d];
            offset += i[d] * out->stride[d];
        }
        td__store_i((td_dtype)out->dtype,
                    td__ptr(out) + offset * td__dtype_bytes[out->dtype],
                    int_sum(c, p, i));
    }
    return true;
}

/* in: input, weight, bias, options; checked by the shape rule. */
bool td__kern_convolution(td_opcall *c) {
    td_conv p;
    if (c->out[0]->numel == 0) return true;
    if (td__in(c, 0)->numel == 0 ||
        td__in(c, 1)->numel == 0) { /* no channels: the bias */
        if (!td__fill(c->out[0], td_value_int(0))) return false;
        td_tensor *bias = td__in(c, 2);
        td_meta    m;
        if (!bias) return true;
        td__tensor_meta(bias, &m);
        m.rank = 4;
        m.size[1] = m.size[0], m.stride[1] = m.stride[0];
        m.size[0] = m.size[2] = m.size[3] = 1;
        m.stride[0] = m.stride[2] = m.stride[3] = 0;
        td_tensor *wide = td__tensor_over(c->cx, bias->st, &m);
        return wide && td__copy_into(c->out[0], wide);
    }
    if (!td__conv_sizes(c, &p, td__in(c, 0)->size, td__in(c, 1)->size)) return false;
    if (!td__is_float((td_dtype)c->out[0]->dtype)) return int_convolution(c, &p);
    return run(c, &p, TD_CONV_FORWARD, td__in(c, 2));
}

/* in: grad, weight, input_sizes, options. */
bool td__kern_conv_data_grad(td_opcall *c) {
    td_conv p;
    if (c->out[0]->numel == 0) return true;
    if (td__in(c, 0)->numel == 0 || td__in(c, 1)->numel == 0)
        return td__fill(c->out[0], td_value_int(0));
    return td__conv_sizes(c, &p, c->in[2].u.ints, td__in(c, 1)->size) &&
           run(c, &p, TD_CONV_DATA, NULL);
}

/* in: grad, input, weight_sizes, options. */
bool td__kern_conv_weight_grad(td_opcall *c) {
    td_conv p;
    if (c->out[0]->numel == 0) return true;
    if (td__in(c, 0)->numel == 0 || td__in(c, 1)->numel == 0)
        return td__fill(c->out[0], td_value_int(0));
    return td__conv_sizes(c, &p, td__in(c, 1)->size, c->in[2].u.ints) &&
           run(c, &p, TD_CONV_WEIGHTS, NULL);
}
