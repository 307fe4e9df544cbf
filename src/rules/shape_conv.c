/* shape_conv.c -- sizes, dtypes and argument checks of convolutions. One op has a
 * kernel, over 1 to 3 dims; users' conv1d to conv_transpose3d are composites of it
 * (decomp_conv.c), and its two derivatives have rows of their own with the same
 * options. A transposed convolution is the data gradient of the one whose output its
 * input would be. */
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

int64_t td__conv_out_d(const td_conv *p) {
    return out_size(p->d, p->kd, p->stride_d, p->pad_d, p->dil_d);
}

int64_t td__conv_out_h(const td_conv *p) {
    return out_size(p->h, p->kh, p->stride_h, p->pad_h, p->dil_h);
}

int64_t td__conv_out_w(const td_conv *p) {
    return out_size(p->w, p->kw, p->stride_w, p->pad_w, p->dil_w);
}

/* ---- options ------------------------------------------------------------ */

enum { TRANSPOSED = TD_CONV_DILATION + 1, OUTPUT_PADDING };

static const char *name_of(td_opcall *c, int i) { return c->info->s.in[i].name; }

/* A list of `spatial` ints, or of one for all, each at least `least` and at most
 * INT32_MAX, so that products of them stay in range. They become the last of to[3],
 * whose others stay. */
static bool read_list(td_opcall *c, int i, int spatial, int64_t least, int64_t to[3]) {
    td_value v = c->in[i];
    if (v.n != 1 && (int)v.n != spatial)
        return td__op_fail(c, TD_E_ARG, "%s must have 1%s entries, got %u",
                           name_of(c, i),
                           spatial == 1   ? ""
                           : spatial == 2 ? " or 2"
                                          : " or 3",
                           v.n);
    for (int d = 0; d < spatial; d++) {
        int64_t k = v.u.ints[v.n == 1 ? 0 : d];
        if (k < least || k > INT32_MAX)
            return td__op_fail(c, TD_E_ARG,
                               "%s must be at least %lld and an int, got %s",
                               name_of(c, i), (long long)least,
                               td__sizes_str((int)v.n, v.u.ints));
        to[3 - spatial + d] = k;
    }
    return true;
}

/* stride, padding, dilation and groups into p. */
static bool read_options(td_opcall *c, td_conv *p, int spatial) {
    int64_t stride[3] = {1, 1, 1}, pad[3] = {0}, dil[3] = {1, 1, 1};
    p->groups = td__in_number(c, c->info->s.n_in - 1);
    if (p->groups < 1)
        return td__op_fail(c, TD_E_ARG, "groups must be positive, got %lld",
                           (long long)p->groups);
    if (!read_list(c, TD_CONV_STRIDE, spatial, 1, stride) ||
        !read_list(c, TD_CONV_PADDING, spatial, 0, pad) ||
        !read_list(c, TD_CONV_DILATION, spatial, 1, dil))
        return false;
    p->stride_d = stride[0], p->stride_h = stride[1], p->stride_w = stride[2];
    p->pad_d = pad[0], p->pad_h = pad[1], p->pad_w = pad[2];
    p->dil_d = dil[0], p->dil_h = dil[1], p->dil_w = dil[2];
    return true;
}

/* ---- sizes -------------------------------------------------------------- */

/* Products of what passes stay in range; symbols are looked at as numbers, later. */
static bool too_large(int rank, const int64_t *size) {
    for (int d = 2; d < rank; d++)
        if (size[d] > INT32_MAX) return true;
    return false;
}

/* Channels of input and weight do not fit. Shows the weight that would, or says that no
 * weight does in so many groups. */
static bool fail_channels(td_opcall *c, const td_conv *p, int rank, const int64_t *x,
                          const int64_t *w) {
    int64_t want[5] = {p->o, td__dim_div(p->c, p->groups)};
    for (int d = 2; d < rank; d++) want[d] = w[d];
    if (td__dim_eq(td__dim_mod(p->o, p->groups), 0) &&
        td__dim_eq(td__dim_mod(p->c, p->groups), 0))
        return td__op_fail(c, TD_E_SHAPE,
                           "weight %s does not fit input %s in %lld group(s): it must "
                           "be [out, in/groups, kernel] = %s",
                           td__sizes_str(rank, w), td__sizes_str(rank, x),
                           (long long)p->groups, td__sizes_str(rank, want));
    return td__op_fail(c, TD_E_SHAPE,
                       "weight %s does not fit input %s in %lld group(s): groups must "
                       "divide the channels, dim 0 of weight and dim 1 of input",
                       td__sizes_str(rank, w), td__sizes_str(rank, x),
                       (long long)p->groups);
}

/* Sizes of input and kernel; dims that a smaller rank lacks are 1. */
static void set_sizes(td_conv *p, int rank, const int64_t *x, const int64_t *w) {
    p->n = x[0], p->c = x[1], p->o = w[0];
    p->d = rank > 4 ? x[2] : 1, p->kd = rank > 4 ? w[2] : 1;
    p->h = rank > 3 ? x[rank - 2] : 1, p->kh = rank > 3 ? w[rank - 2] : 1;
    p->w = x[rank - 1], p->kw = w[rank - 1];
}

/* The weight has output channels and a kernel, of sizes that fit an int. */
static bool want_kernel(td_opcall *c, const td_conv *p, int rank, const int64_t *x,
                        const int64_t *w) {
    if (td__dim_lt(p->o, 1))
        return td__op_fail(c, TD_E_SHAPE, "weight %s has no output channels",
                           td__sizes_str(rank, w));
    if (td__dim_lt(p->kd, 1) || td__dim_lt(p->kh, 1) || td__dim_lt(p->kw, 1))
        return td__op_fail(c, TD_E_SHAPE, "the kernel of weight %s is empty",
                           td__sizes_str(rank, w));
    return (!too_large(rank, x) && !too_large(rank, w)) ||
           td__op_fail(
               c, TD_E_SHAPE,
               "heights and widths of input %s and weight %s must be at most %d",
               td__sizes_str(rank, x), td__sizes_str(rank, w), INT32_MAX);
}

/* Also for the backward ops, which pass the sizes of the input or of the weight as a
 * list. */
bool td__conv_sizes(td_opcall *c, td_conv *p, int rank, const int64_t *x,
                    const int64_t *w) {
    set_sizes(p, rank, x, w);
    if (!read_options(c, p, rank - 2) || !want_kernel(c, p, rank, x, w)) return false;
    if (!td__dim_eq(td__dim_mod(p->o, p->groups), 0) ||
        !td__dim_eq(td__dim_mod(p->c, p->groups), 0) ||
        !td__dim_eq(w[1], td__dim_div(p->c, p->groups)))
        return fail_channels(c, p, rank, x, w);
    if (td__dim_lt(td__conv_out_d(p), 1) || td__dim_lt(td__conv_out_h(p), 1) ||
        td__dim_lt(td__conv_out_w(p), 1))
        return td__op_fail(c, TD_E_SHAPE,
                           "the kernel %s is larger than the padded input %s",
                           td__sizes_str(rank - 2, w + 2), td__sizes_str(rank, x));
    return true;
}

/* One dim of a transposed convolution's result. */
static int64_t made_size(int64_t in, int64_t k, const int64_t *stride,
                         const int64_t *pad, const int64_t *dil, int64_t extra) {
    int64_t steps = td__dim_mul(td__dim_sub(in, 1), *stride);
    int64_t span = td__dim_mul(*dil, td__dim_sub(k, 1));
    return td__dim_add(td__dim_add(steps, span), extra + 1 - 2 * *pad);
}

/* in: input [n,o,..], weight [o,c/groups,..], bias, options with output_padding. */
bool td__conv_transposed(td_opcall *c, td_conv *p, int64_t *made) {
    const td_tensor *y = td__in(c, 0), *w = td__in(c, 1);
    int              rank = y->rank;
    int64_t          extra[3] = {0};
    set_sizes(p, rank, y->size, w->size);
    if (!read_options(c, p, rank - 2) ||
        !read_list(c, OUTPUT_PADDING, rank - 2, 0, extra) ||
        !want_kernel(c, p, rank, y->size, w->size))
        return false;
    if (!td__dim_eq(y->size[1], w->size[0]) ||
        !td__dim_eq(td__dim_mod(w->size[0], p->groups), 0))
        return td__op_fail(c, TD_E_SHAPE,
                           "weight %s does not fit input %s in %lld group(s): it must "
                           "be [in, out/groups, kernel], in a multiple of groups",
                           td__sizes_str(rank, w->size), td__sizes_str(rank, y->size),
                           (long long)p->groups);
    if (extra[0] >= p->stride_d || extra[1] >= p->stride_h || extra[2] >= p->stride_w)
        return td__op_fail(c, TD_E_ARG, "output_padding must be below stride, got %s",
                           td__sizes_str(rank - 2, extra + (5 - rank)));
    made[0] = p->n, made[1] = td__dim_mul(w->size[1], p->groups);
    int64_t d = made_size(p->d, p->kd, &p->stride_d, &p->pad_d, &p->dil_d, extra[0]);
    int64_t h = made_size(p->h, p->kh, &p->stride_h, &p->pad_h, &p->dil_h, extra[1]);
    int64_t n = made_size(p->w, p->kw, &p->stride_w, &p->pad_w, &p->dil_w, extra[2]);
    if (rank > 4) made[2] = d;
    if (rank > 3) made[rank - 2] = h;
    made[rank - 1] = n;
    for (int i = 1; i < rank; i++)
        if (td__dim_lt(made[i], 1))
            return td__op_fail(c, TD_E_SHAPE,
                               "input %s and weight %s would give a result of %s",
                               td__sizes_str(rank, y->size),
                               td__sizes_str(rank, w->size), td__sizes_str(rank, made));
    set_sizes(p, rank, made, w->size);
    return true;
}

/* ---- rules -------------------------------------------------------------- */

/* Argument i has 3 to 5 dims and is not bool. */
static bool want_images(td_opcall *c, int i) {
    const td_tensor *t = td__in(c, i);
    if (t->rank < 3 || t->rank > 5)
        return td__op_fail(c, TD_E_SHAPE, "%s must have 3, 4 or 5 dims, got %s",
                           name_of(c, i), td__type_str(t));
    if (t->dtype == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "not defined for bool, got %s",
                           td__type_str(t));
    return true;
}

/* Argument k has as many dims as argument i. */
static bool same_rank(td_opcall *c, int i, int k) {
    const td_tensor *a = td__in(c, i), *b = td__in(c, k);
    return a->rank == b->rank ||
           td__op_fail(c, TD_E_SHAPE, "%s and %s must have as many dims, got %s and %s",
                       name_of(c, i), name_of(c, k), td__type_str(a), td__type_str(b));
}

/* Argument k, when given, has the dtype of argument i. */
static bool same_dtype(td_opcall *c, int i, int k) {
    const td_tensor *a = td__in(c, i), *b = td__in(c, k);
    return !b || a->dtype == b->dtype ||
           td__op_fail(c, TD_E_DTYPE, "%s and %s must have one dtype, got %s and %s",
                       name_of(c, i), name_of(c, k), td__type_str(a), td__type_str(b));
}

/* The sizes of the result, by the options. */
static bool result_sizes(td_opcall *c, int64_t *made) {
    const td_tensor *x = td__in(c, 0), *w = td__in(c, 1);
    int              rank = x->rank;
    td_conv          p;
    int64_t          unused[3];
    if (td__in_bool(c, TRANSPOSED)) return td__conv_transposed(c, &p, made);
    if (!read_list(c, OUTPUT_PADDING, rank - 2, 0, unused) ||
        !td__conv_sizes(c, &p, rank, x->size, w->size))
        return false;
    made[0] = p.n, made[1] = p.o;
    if (rank > 4) made[2] = td__conv_out_d(&p);
    if (rank > 3) made[rank - 2] = td__conv_out_h(&p);
    made[rank - 1] = td__conv_out_w(&p);
    return true;
}

/* in: input [N,C,..], weight [O,C/groups,..], bias [O], then the options; transposed:
 * weight [C,O/groups,..]. A result of planes is channels-last when input or weight is,
 * as in ATen. */
bool td__shape_convolution(td_opcall *c) {
    const td_tensor *x = td__in(c, 0), *w = td__in(c, 1), *bias = td__in(c, 2);
    int64_t          made[5];
    if (!want_images(c, 0) || !want_images(c, 1) || !same_rank(c, 0, 1) ||
        !same_dtype(c, 0, 1) || !same_dtype(c, 0, 2) || !result_sizes(c, made))
        return false;
    if (bias && (bias->rank != 1 || !td__dim_eq(bias->size[0], made[1])))
        return td__op_fail(c, TD_E_SHAPE, "bias must have %lld entries, got %s",
                           (long long)made[1], td__type_str(bias));
    td__meta_dense(&c->meta[0], (td_dtype)x->dtype, x->rank, made);
    if (x->rank == 4 && (td__is_channels_last(x) || td__is_channels_last(w))) {
        c->meta[0].strided = true;
        td__strides_channels_last(4, c->meta[0].size, c->meta[0].stride);
    }
    return true;
}

/* grad must look like the result of a convolution of x with w. */
static bool grad_fits(td_opcall *c, td_conv *p, const int64_t *x, const int64_t *w) {
    const td_tensor *g = td__in(c, 0);
    int              rank = g->rank;
    if (!td__is_float((td_dtype)g->dtype))
        return td__op_fail(c, TD_E_DTYPE, "grad must be floating, got %s",
                           td__type_str(g));
    if (!same_dtype(c, 0, 1) || !td__conv_sizes(c, p, rank, x, w)) return false;
    int64_t want[5] = {p->n, p->o, td__conv_out_d(p)};
    if (rank > 3) want[rank - 2] = td__conv_out_h(p);
    want[rank - 1] = td__conv_out_w(p);
    return td__dims_eq(want, g->size, rank) ||
           td__op_fail(c, TD_E_SHAPE, "grad must be %s, got %s",
                       td__sizes_str(rank, want), td__type_str(g));
}

/* Tensor arguments 0 and 1, and a list with the sizes of a third, have as many dims. */
static bool want_dims(td_opcall *c) {
    if (!want_images(c, 0) || !want_images(c, 1) || !same_rank(c, 0, 1)) return false;
    int rank = td__in(c, 0)->rank;
    return (int)c->in[2].n == rank ||
           td__op_fail(c, TD_E_ARG, "%s must have %d entries, got %u", name_of(c, 2),
                       rank, c->in[2].n);
}

/* in: grad, weight, input_sizes, options. Result: the gradient of the input. */
bool td__shape_conv_data_grad(td_opcall *c) {
    td_conv        p;
    const int64_t *x = c->in[2].u.ints;
    if (!want_dims(c) || !grad_fits(c, &p, x, td__in(c, 1)->size)) return false;
    td__meta_dense(&c->meta[0], (td_dtype)td__in(c, 0)->dtype, (int)c->in[2].n, x);
    return true;
}

/* in: grad, input, weight_sizes, options. Result: the gradient of the weight. */
bool td__shape_conv_weight_grad(td_opcall *c) {
    td_conv        p;
    const int64_t *w = c->in[2].u.ints;
    if (!want_dims(c) || !grad_fits(c, &p, td__in(c, 1)->size, w)) return false;
    td__meta_dense(&c->meta[0], (td_dtype)td__in(c, 0)->dtype, (int)c->in[2].n, w);
    return true;
}
