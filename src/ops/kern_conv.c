/* kern_conv.c -- convolution rows over td__conv: shape rules, and kernels that
 * hand contiguous operands to it. */
#include "ops/cast.h"
#include "ops/conv.h"
#include "ops/geom.h"
#include "ops/ops.h"

#include <string.h>

/* ---- geometry ----------------------------------------------------------- */

/* The parameters shared by the three rows start at this argument. */
enum { STRIDE = 3, PADDING, DILATION, GROUPS };

static bool read_pair(td_opcall *c, int i, int64_t least, int64_t *h, int64_t *w) {
    td_value v = c->in[i];
    if (v.n != 2)
        return td__op_fail(c, TD_E_ARG, "%s must have 2 entries, got %u",
                           c->info->s.in[i].name, v.n);
    *h = v.u.ints[0];
    *w = v.u.ints[1];
    bool fits = *h >= least && *w >= least && *h <= INT32_MAX && *w <= INT32_MAX;
    return fits ||
           td__op_fail(c, TD_E_ARG, "%s must be at least %lld and an int, got %s",
                       c->info->s.in[i].name, (long long)least,
                       td__sizes_str(2, v.u.ints));
}

static bool read_options(td_opcall *c, td_conv *p) {
    p->groups = td__in_int(c, GROUPS);
    if (p->groups < 1)
        return td__op_fail(c, TD_E_ARG, "groups must be positive, got %lld",
                           (long long)p->groups);
    return read_pair(c, STRIDE, 1, &p->stride_h, &p->stride_w) &&
           read_pair(c, PADDING, 0, &p->pad_h, &p->pad_w) &&
           read_pair(c, DILATION, 1, &p->dil_h, &p->dil_w);
}

/* Products of what passes stay in range; symbols are looked at as numbers, later. */
static bool too_large(int64_t n) { return n > INT32_MAX; }

static bool read_sizes(td_opcall *c, td_conv *p, const int64_t *x, const int64_t *w) {
    p->n = x[0], p->c = x[1], p->h = x[2], p->w = x[3];
    p->o = w[0], p->kh = w[2], p->kw = w[3];
    if (!read_options(c, p)) return false;
    if (td__dim_lt(p->o, 1))
        return td__op_fail(c, TD_E_SHAPE, "weight %s has no output channels",
                           td__sizes_str(4, w));
    if (td__dim_lt(p->kh, 1) || td__dim_lt(p->kw, 1))
        return td__op_fail(c, TD_E_SHAPE, "the kernel of weight %s is empty",
                           td__sizes_str(4, w));
    if (too_large(p->h) || too_large(p->w) || too_large(p->kh) || too_large(p->kw))
        return td__op_fail(c, TD_E_SHAPE, "planes of %s or kernels of %s are too large",
                           td__sizes_str(4, x), td__sizes_str(4, w));
    if (!td__dim_eq(td__dim_mod(p->o, p->groups), 0) ||
        !td__dim_eq(td__dim_mod(p->c, p->groups), 0) ||
        !td__dim_eq(w[1], td__dim_div(p->c, p->groups)))
        return td__op_fail(c, TD_E_SHAPE,
                           "weight %s does not fit input %s in %lld group(s): it needs "
                           "[out, in/groups, kh, kw]",
                           td__sizes_str(4, w), td__sizes_str(4, x),
                           (long long)p->groups);
    if (td__dim_lt(td__conv_out_h(p), 1) || td__dim_lt(td__conv_out_w(p), 1))
        return td__op_fail(c, TD_E_SHAPE,
                           "the kernel %s is larger than the padded input %s",
                           td__sizes_str(2, w + 2), td__sizes_str(4, x));
    return true;
}

static bool want_4d(td_opcall *c, int i) {
    const td_tensor *t = td__in(c, i);
    if (t->rank != 4)
        return td__op_fail(c, TD_E_SHAPE, "%s must have 4 dims, got %s",
                           c->info->s.in[i].name, td__type_str(t));
    if (t->dtype == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "not defined for bool, got %s",
                           td__type_str(t));
    return true;
}

static bool same_dtype(td_opcall *c, int i, int k) {
    const td_tensor *a = td__in(c, i), *b = td__in(c, k);
    return !b || a->dtype == b->dtype ||
           td__op_fail(c, TD_E_DTYPE, "%s and %s must have one dtype, got %s and %s",
                       c->info->s.in[i].name, c->info->s.in[k].name, td__type_str(a),
                       td__type_str(b));
}

bool td__shape_convolution(td_opcall *c) {
    td_conv          p;
    const td_tensor *x = td__in(c, 0), *w = td__in(c, 1), *bias = td__in(c, 2);
    if (!want_4d(c, 0) || !want_4d(c, 1) || !same_dtype(c, 0, 1) ||
        !same_dtype(c, 0, 2) || !read_sizes(c, &p, x->size, w->size))
        return false;
    if (bias && (bias->rank != 1 || !td__dim_eq(bias->size[0], p.o)))
        return td__op_fail(c, TD_E_SHAPE, "bias must have %lld entries, got %s",
                           (long long)p.o, td__type_str(bias));
    td__meta_dense(&c->meta[0], (td_dtype)x->dtype, 4,
                   (int64_t[]){p.n, p.o, td__conv_out_h(&p), td__conv_out_w(&p)});
    if (td__is_channels_last(x) || td__is_channels_last(w)) {
        c->meta[0].strided = true;
        td__strides_channels_last(4, c->meta[0].size, c->meta[0].stride);
    }
    return true;
}

/* grad must look like the result of a convolution of x with w. */
static bool grad_fits(td_opcall *c, td_conv *p, const int64_t *x, const int64_t *w) {
    const td_tensor *g = td__in(c, 0);
    if (!td__is_float((td_dtype)g->dtype))
        return td__op_fail(c, TD_E_DTYPE, "grad must be floating, got %s",
                           td__type_str(g));
    if (!want_4d(c, 0) || !same_dtype(c, 0, 1) || !read_sizes(c, p, x, w)) return false;
    int64_t want[4] = {p->n, p->o, td__conv_out_h(p), td__conv_out_w(p)};
    bool    same = true;
    for (int d = 0; d < 4; d++) same = same && td__dim_eq(want[d], g->size[d]);
    return same || td__op_fail(c, TD_E_SHAPE, "grad must be %s, got %s",
                               td__sizes_str(4, want), td__type_str(g));
}

static bool list_of_4(td_opcall *c, int i) {
    return c->in[i].n == 4 || td__op_fail(c, TD_E_ARG, "%s must have 4 entries, got %u",
                                          c->info->s.in[i].name, c->in[i].n);
}

bool td__shape_conv_data_grad(td_opcall *c) {
    td_conv        p;
    const int64_t *x = c->in[2].u.ints;
    if (!list_of_4(c, 2) || !want_4d(c, 1) || !grad_fits(c, &p, x, td__in(c, 1)->size))
        return false;
    td__meta_dense(&c->meta[0], (td_dtype)td__in(c, 0)->dtype, 4, x);
    return true;
}

bool td__shape_conv_weight_grad(td_opcall *c) {
    td_conv        p;
    const int64_t *w = c->in[2].u.ints;
    if (!list_of_4(c, 2) || !want_4d(c, 1) || !grad_fits(c, &p, td__in(c, 1)->size, w))
        return false;
    td__meta_dense(&c->meta[0], (td_dtype)td__in(c, 0)->dtype, 4, w);
    return true;
}

/* ---- kernels ------------------------------------------------------------ */

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
    if (!read_sizes(c, &p, td__in(c, 0)->size, td__in(c, 1)->size)) return false;
    if (!td__is_float((td_dtype)c->out[0]->dtype)) return int_convolution(c, &p);
    return run(c, &p, TD_CONV_FORWARD, td__in(c, 2));
}

bool td__kern_conv_data_grad(td_opcall *c) {
    td_conv p;
    if (c->out[0]->numel == 0) return true;
    if (td__in(c, 0)->numel == 0 || td__in(c, 1)->numel == 0)
        return td__fill(c->out[0], td_value_int(0));
    return read_sizes(c, &p, c->in[2].u.ints, td__in(c, 1)->size) &&
           run(c, &p, TD_CONV_DATA, NULL);
}

bool td__kern_conv_weight_grad(td_opcall *c) {
    td_conv p;
    if (c->out[0]->numel == 0) return true;
    if (td__in(c, 0)->numel == 0 || td__in(c, 1)->numel == 0)
        return td__fill(c->out[0], td_value_int(0));
    return read_sizes(c, &p, td__in(c, 1)->size, c->in[2].u.ints) &&
           run(c, &p, TD_CONV_WEIGHTS, NULL);
}

/* ---- composites --------------------------------------------------------- */

/* A list of one entry serves both dims. */
static bool widen(td_opcall *c, int i, int64_t *pair) {
    td_value v = c->in[i];
    if (v.n != 1 && v.n != 2)
        return td__op_fail(c, TD_E_ARG, "%s must have 1 or 2 entries, got %u",
                           c->info->s.in[i].name, v.n);
    pair[0] = v.u.ints[0];
    pair[1] = v.u.ints[v.n - 1];
    return true;
}

static bool want_rank(td_opcall *c, int rank) {
    const td_tensor *x = td__in(c, 0), *w = td__in(c, 1);
    return ((x->rank == rank || x->rank == rank - 1) && w->rank == rank) ||
           td__op_fail(c, TD_E_SHAPE,
                       "input must have %d or %d dims and weight %d, got %s and %s",
                       rank - 1, rank, rank, td__type_str(x), td__type_str(w));
}

bool td__decomp_conv2d(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    int64_t    stride[2], pad[2], dil[2];
    if (!want_rank(c, 4) || !widen(c, 3, stride) || !widen(c, 4, pad) ||
        !widen(c, 5, dil))
        return false;
    bool single = x->rank == 3;
    if (single) x = td_op_unsqueeze(x, 0);
    td_tensor *y =
        td_op_convolution(x, td__in(c, 1), td__in(c, 2), (td_ints){stride, 2},
                          (td_ints){pad, 2}, (td_ints){dil, 2}, td__in_int(c, 6));
    c->out[0] = single ? td_op_squeeze_dim(y, 0) : y;
    return true;
}

/* One dim more, of size 1, in front of the length. */
bool td__decomp_conv1d(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *w = td__in(c, 1);
    if (!want_rank(c, 3)) return false;
    for (int i = 3; i <= 5; i++)
        if (c->in[i].n != 1)
            return td__op_fail(c, TD_E_ARG, "%s must have 1 entry, got %u",
                               c->info->s.in[i].name, c->in[i].n);
    int64_t stride[2] = {1, c->in[3].u.ints[0]}, pad[2] = {0, c->in[4].u.ints[0]};
    int64_t dil[2] = {1, c->in[5].u.ints[0]};
    bool    single = x->rank == 2;
    if (single) x = td_op_unsqueeze(x, 0);
    x = td_op_contiguous(x); /* a size-1 dim must not pass for channels-last */
    w = td_op_contiguous(w);
    td_tensor *y =
        td_op_convolution(td_op_unsqueeze(x, 2), td_op_unsqueeze(w, 2), td__in(c, 2),
                          (td_ints){stride, 2}, (td_ints){pad, 2}, (td_ints){dil, 2},
                          td__in_int(c, 6));
    y = td_op_squeeze_dim(y, 2);
    c->out[0] = single ? td_op_squeeze_dim(y, 0) : y;
    return true;
}
