/* shape_conv.c -- sizes, dtypes and argument checks of convolutions. One op has a
 * kernel, with 4 dims; users' conv1d and conv2d are composites of it (decomp_conv.c),
 * and its two derivatives have rows of their own with the same options. */
#include "rules/conv_args.h"
#include "rules/geom.h"
#include "rules/shape_rules.h"

/* floor((in + 2 pad - dil (k - 1) - 1) / stride) + 1, or 0 when the kernel is larger
 * than the padded input. */
static int64_t out_size(int64_t in, int64_t k, int64_t stride, int64_t pad,
                        int64_t dil) {
    int64_t span = td__dim_add(td__dim_mul(dil, td__dim_sub(k, 1)), 1);
    int64_t extent = td__dim_sub(td__dim_add(in, 2 * pad), span);
    return td__dim_lt(extent, 0) ? 0 : td__dim_add(td__dim_div(extent, stride), 1);
}

int64_t td__conv_out_h(const td_conv *p) {
    return out_size(p->h, p->kh, p->stride_h, p->pad_h, p->dil_h);
}

int64_t td__conv_out_w(const td_conv *p) {
    return out_size(p->w, p->kw, p->stride_w, p->pad_w, p->dil_w);
}

/* The parameters shared by the three rows start at this argument. */
enum { STRIDE = 3, PADDING, DILATION, GROUPS };

/* A list of two ints, or of one for both, each at least `least` and at most INT32_MAX,
 * so that products of them stay in range. */
static bool read_pair(td_opcall *c, int i, int64_t least, int64_t *h, int64_t *w) {
    td_value v = c->in[i];
    if (v.n != 1 && v.n != 2)
        return td__op_fail(c, TD_E_ARG, "%s must have 1 or 2 entries, got %u",
                           c->info->s.in[i].name, v.n);
    *h = v.u.ints[0];
    *w = v.u.ints[v.n - 1];
    bool fits = *h >= least && *w >= least && *h <= INT32_MAX && *w <= INT32_MAX;
    return fits ||
           td__op_fail(c, TD_E_ARG, "%s must be at least %lld and an int, got %s",
                       c->info->s.in[i].name, (long long)least,
                       td__sizes_str((int)v.n, v.u.ints));
}

/* stride, padding, dilation and groups into p. */
static bool read_options(td_opcall *c, td_conv *p) {
    p->groups = td__in_number(c, GROUPS);
    if (p->groups < 1)
        return td__op_fail(c, TD_E_ARG, "groups must be positive, got %lld",
                           (long long)p->groups);
    return read_pair(c, STRIDE, 1, &p->stride_h, &p->stride_w) &&
           read_pair(c, PADDING, 0, &p->pad_h, &p->pad_w) &&
           read_pair(c, DILATION, 1, &p->dil_h, &p->dil_w);
}

/* Products of what passes stay in range; symbols are looked at as numbers, later. */
static bool too_large(int64_t n) { return n > INT32_MAX; }

/* Channels of input and weight do not fit. Shows the weight that would, or says that no
 * weight does in so many groups. */
static bool fail_channels(td_opcall *c, const td_conv *p, const int64_t *x,
                          const int64_t *w) {
    int64_t want[4] = {p->o, td__dim_div(p->c, p->groups), p->kh, p->kw};
    if (td__dim_eq(td__dim_mod(p->o, p->groups), 0) &&
        td__dim_eq(td__dim_mod(p->c, p->groups), 0))
        return td__op_fail(c, TD_E_SHAPE,
                           "weight %s does not fit input %s in %lld group(s): it must "
                           "be [out, in/groups, kh, kw] = %s",
                           td__sizes_str(4, w), td__sizes_str(4, x),
                           (long long)p->groups, td__sizes_str(4, want));
    return td__op_fail(c, TD_E_SHAPE,
                       "weight %s does not fit input %s in %lld group(s): groups must "
                       "divide the channels, dim 0 of weight and dim 1 of input",
                       td__sizes_str(4, w), td__sizes_str(4, x), (long long)p->groups);
}

/* Also for the backward ops, which pass the sizes of the input or of the weight as a
 * list. */
bool td__conv_sizes(td_opcall *c, td_conv *p, const int64_t *x, const int64_t *w) {
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
        return td__op_fail(
            c, TD_E_SHAPE,
            "heights and widths of input %s and weight %s must be at most %d",
            td__sizes_str(4, x), td__sizes_str(4, w), INT32_MAX);
    if (!td__dim_eq(td__dim_mod(p->o, p->groups), 0) ||
        !td__dim_eq(td__dim_mod(p->c, p->groups), 0) ||
        !td__dim_eq(w[1], td__dim_div(p->c, p->groups)))
        return fail_channels(c, p, x, w);
    if (td__dim_lt(td__conv_out_h(p), 1) || td__dim_lt(td__conv_out_w(p), 1))
        return td__op_fail(c, TD_E_SHAPE,
                           "the kernel %s is larger than the padded input %s",
                           td__sizes_str(2, w + 2), td__sizes_str(4, x));
    return true;
}

/* Argument i has 4 dims and is not bool. */
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

/* Argument k, when given, has the dtype of argument i. */
static bool same_dtype(td_opcall *c, int i, int k) {
    const td_tensor *a = td__in(c, i), *b = td__in(c, k);
    return !b || a->dtype == b->dtype ||
           td__op_fail(c, TD_E_DTYPE, "%s and %s must have one dtype, got %s and %s",
                       c->info->s.in[i].name, c->info->s.in[k].name, td__type_str(a),
                       td__type_str(b));
}

/* in: input [N,C,H,W], weight [O,C/groups,kh,kw], bias [O], then the options. The
 * result is channels-last when input or weight is, as in ATen. */
bool td__shape_convolution(td_opcall *c) {
    td_conv          p;
    const td_tensor *x = td__in(c, 0), *w = td__in(c, 1), *bias = td__in(c, 2);
    if (!want_4d(c, 0) || !want_4d(c, 1) || !same_dtype(c, 0, 1) ||
        !same_dtype(c, 0, 2) || !td__conv_sizes(c, &p, x->size, w->size))
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
    if (!want_4d(c, 0) || !same_dtype(c, 0, 1) || !td__conv_sizes(c, p, x, w))
        return false;
    int64_t want[4] = {p->n, p->o, td__conv_out_h(p), td__conv_out_w(p)};
    bool    same = true;
    for (int d = 0; d < 4; d++) same = same && td__dim_eq(want[d], g->size[d]);
    return same || td__op_fail(c, TD_E_SHAPE, "grad must be %s, got %s",
                               td__sizes_str(4, want), td__type_str(g));
}

/* The sizes of an input or of a weight. */
static bool list_of_4(td_opcall *c, int i) {
    return c->in[i].n == 4 || td__op_fail(c, TD_E_ARG, "%s must have 4 entries, got %u",
                                          c->info->s.in[i].name, c->in[i].n);
}

/* in: grad, weight, input_sizes, options. Result: the gradient of the input. */
bool td__shape_conv_data_grad(td_opcall *c) {
    td_conv        p;
    const int64_t *x = c->in[2].u.ints;
    if (!list_of_4(c, 2) || !want_4d(c, 1) || !grad_fits(c, &p, x, td__in(c, 1)->size))
        return false;
    td__meta_dense(&c->meta[0], (td_dtype)td__in(c, 0)->dtype, 4, x);
    return true;
}

/* in: grad, input, weight_sizes, options. Result: the gradient of the weight. */
bool td__shape_conv_weight_grad(td_opcall *c) {
    td_conv        p;
    const int64_t *w = c->in[2].u.ints;
    if (!list_of_4(c, 2) || !want_4d(c, 1) || !grad_fits(c, &p, td__in(c, 1)->size, w))
        return false;
    td__meta_dense(&c->meta[0], (td_dtype)td__in(c, 0)->dtype, 4, w);
    return true;
}
