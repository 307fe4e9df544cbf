/* decomp_conv.c -- convolutions as users call them, in terms of the one op with a
 * kernel, and the derivatives of that. */
#include "rules/conv_args.h"
#include "rules/rule_arith.h"

#include <string.h>

static td_ints list_of(td_value v) { return (td_ints){v.u.ints, (int)v.n}; }
static td_ints sizes_of(const td_meta *m) { return (td_ints){m->size, m->rank}; }

/* Entries of a list of one, for all dims, or of one per dim. */
static int64_t entry(td_value v, int d) { return v.u.ints[v.n == 1 ? 0 : d]; }

/* ---- derivatives -------------------------------------------------------- */

enum { STRIDE = TD_CONV_STRIDE, PADDING, DILATION, TRANSPOSED, OUTPUT_PADDING, GROUPS };

/* The same options for a gradient: those of argument `at` on. */
typedef struct options {
    td_ints stride, padding, dilation;
    int64_t groups;
} options;

static options options_of(const td_value *in, int at) {
    return (options){list_of(in[at]), list_of(in[at + 1]), list_of(in[at + 2]),
                     in[at + 5].u.i};
}

/* The gradient of the input; a transposed convolution's is a plain one of g. */
static td_tensor *grad_input(td_tensor *g, td_tensor *w, td_ints size, const options *o,
                             bool transposed) {
    int64_t zero = 0;
    if (transposed)
        return td_op_convolution(g, w, NULL, o->stride, o->padding, o->dilation, false,
                                 (td_ints){&zero, 1}, o->groups);
    return td_op_conv_data_grad(g, w, size, o->stride, o->padding, o->dilation,
                                o->groups);
}

/* The gradient of the weight; of a transposed one, input and g change places. */
static td_tensor *grad_weight(td_tensor *g, td_tensor *x, td_ints size,
                              const options *o, bool transposed) {
    return td_op_conv_weight_grad(transposed ? x : g, transposed ? g : x, size,
                                  o->stride, o->padding, o->dilation, o->groups);
}

/* The gradient of the bias: the sum over all dims but the channels. */
static td_tensor *grad_bias(td_tensor *g) {
    static const int64_t dims[] = {0, 2, 3, 4};
    return t_sum(g, (td_ints){dims, g->rank - 1}, false);
}

/* in: input, weight, bias, options. */
bool td__vjp_convolution(td_vjp *v) {
    options    o = options_of(v->in, STRIDE);
    bool       transposed = v->in[TRANSPOSED].u.i != 0;
    td_tensor *g = v->g[0];
    if (v->need[0])
        v->grad[0] =
            grad_input(g, v->in[1].u.t, sizes_of(v->in_meta[0]), &o, transposed);
    if (v->need[1])
        v->grad[1] =
            grad_weight(g, v->in[0].u.t, sizes_of(v->in_meta[1]), &o, transposed);
    if (v->need[2]) v->grad[2] = grad_bias(g);
    return td_ok(v->cx);
}

/* in: grad_output, input, weight, bias_sizes, options, output_mask. */
bool td__decomp_convolution_backward(td_opcall *c) {
    td_tensor *g = td__in(c, 0), *x = td__in(c, 1), *w = td__in(c, 2);
    options    o = options_of(c->in, STRIDE + 1);
    bool       transposed = td__in_bool(c, TRANSPOSED + 1);
    td_value   mask = c->in[GROUPS + 2];
    int64_t    none = 0;
    if (mask.n != 3)
        return td__op_fail(c, TD_E_ARG, "output_mask must have 3 entries, got %u",
                           mask.n);
    if (g->rank < 3 || g->rank > 5 || x->rank != g->rank || w->rank != g->rank)
        return td__op_fail(c, TD_E_SHAPE,
                           "grad_output, input and weight must have as many dims, 3 to "
                           "5, got %s, %s and %s",
                           td__type_str(g), td__type_str(x), td__type_str(w));
    for (int i = 0; i < 3; i++)
        if (!mask.u.ints[i])
            c->out[i] = td_op_new_empty(g, (td_ints){&none, 1}, TD_DTYPE_NONE);
    if (mask.u.ints[0])
        c->out[0] = grad_input(g, w, (td_ints){x->size, x->rank}, &o, transposed);
    if (mask.u.ints[1])
        c->out[1] = grad_weight(g, x, (td_ints){w->size, w->rank}, &o, transposed);
    if (mask.u.ints[2]) c->out[2] = grad_bias(g);
    return td_ok(c->cx);
}

/* ---- calls -------------------------------------------------------------- */

/* input is [N,C,..] with spatial + 2 dims or one sample [C,..] without N; weight always
 * has all dims. The n lists have one entry or one per dim. */
static bool want(td_opcall *c, int spatial, const int *lists, int n) {
    const td_tensor *x = td__in(c, 0), *w = td__in(c, 1);
    int              rank = spatial + 2;
    if ((x->rank != rank && x->rank != rank - 1) || w->rank != rank)
        return td__op_fail(c, TD_E_SHAPE,
                           "input must have %d or %d dims and weight %d, got %s and %s",
                           rank - 1, rank, rank, td__type_str(x), td__type_str(w));
    for (int i = 0; i < n; i++) {
        unsigned have = c->in[lists[i]].n;
        if (have != 1 && (int)have != spatial)
            return td__op_fail(c, TD_E_ARG, "%s must have 1%s entries, got %u",
                               c->info->s.in[lists[i]].name,
                               spatial == 1   ? ""
                               : spatial == 2 ? " or 2"
                                              : " or 3",
                               have);
    }
    return true;
}

/* The call on x, which gets an N of 1 where it has none. */
typedef struct call {
    td_tensor *x, *w, *bias;
    td_ints    stride, padding, dilation, output_padding;
    bool       transposed;
    int64_t    groups;
} call;

static bool convolve(td_opcall *c, const call *k) {
    bool       single = k->x->rank == k->w->rank - 1;
    td_tensor *x = single ? td_op_unsqueeze(k->x, 0) : k->x;
    td_tensor *y =
        td_op_convolution(x, k->w, k->bias, k->stride, k->padding, k->dilation,
                          k->transposed, k->output_padding, k->groups);
    c->out[0] = single ? td_op_squeeze_dim(y, 0) : y;
    return true;
}

/* in: input, weight, bias, stride, padding, dilation, groups. */
static bool plain(td_opcall *c, int spatial) {
    int64_t zero = 0;
    call    k = {td__in(c, 0),      td__in(c, 1),      td__in(c, 2), list_of(c->in[3]),
                 list_of(c->in[4]), list_of(c->in[5]), {&zero, 1},   false,
                 td__in_int(c, 6)};
    return want(c, spatial, (int[]){3, 4, 5}, 3) && convolve(c, &k);
}

bool td__decomp_conv1d(td_opcall *c) { return plain(c, 1); }
bool td__decomp_conv2d(td_opcall *c) { return plain(c, 2); }
bool td__decomp_conv3d(td_opcall *c) { return plain(c, 3); }

/* ---- padding by name ---------------------------------------------------- */

/* Padding that keeps the sizes: dil * (k - 1) entries in each dim, of which the larger
 * half is at the end. What is not even is put there by `more`, the list of a pad.
 * Returns whether there is such. */
static bool same_padding(const td_tensor *w, int spatial, td_value dil, int64_t *pad,
                         int64_t *more) {
    bool uneven = false;
    for (int d = 0; d < spatial; d++) {
        int64_t all = td__dim_mul(entry(dil, d), td__dim_sub(w->size[d + 2], 1));
        int64_t odd = td__dim_fixed(td__dim_mod(all, 2));
        pad[d] = td__dim_fixed(td__dim_div(all, 2));
        more[2 * (spatial - 1 - d)] = 0;
        more[2 * (spatial - 1 - d) + 1] = odd;
        uneven = uneven || odd;
    }
    return uneven;
}

/* in: as conv2d, padding being "same" or "valid". */
static bool named(td_opcall *c, int spatial) {
    const char *how = c->in[4].u.s;
    td_tensor  *x = td__in(c, 0), *w = td__in(c, 1);
    int64_t     zero = 0, pad[3] = {0}, more[6];
    bool        same = !strcmp(how, "same");
    if (!want(c, spatial, (int[]){3, 5}, 2)) return false;
    if (!same && strcmp(how, "valid"))
        return td__op_fail(c, TD_E_ARG,
                           "padding must be \"same\" or \"valid\", got \"%s\"", how);
    for (int d = 0; same && d < spatial; d++)
        if (entry(c->in[3], d) != 1)
            return td__op_fail(c, TD_E_ARG,
                               "padding \"same\" needs a stride of 1, got %s",
                               td__sizes_str((int)c->in[3].n, c->in[3].u.ints));
    if (same && same_padding(w, spatial, c->in[5], pad, more))
        x = td_op_constant_pad_nd(x, (td_ints){more, 2 * spatial}, td_value_int(0));
    call k = {x,
              w,
              td__in(c, 2),
              list_of(c->in[3]),
              {pad, spatial},
              list_of(c->in[5]),
              {&zero, 1},
              false,
              td__in_int(c, 6)};
    return convolve(c, &k);
}

bool td__decomp_conv1d_padding(td_opcall *c) { return named(c, 1); }
bool td__decomp_conv2d_padding(td_opcall *c) { return named(c, 2); }
bool td__decomp_conv3d_padding(td_opcall *c) { return named(c, 3); }

/* ---- transposed --------------------------------------------------------- */

/* An output_padding of a stride or more, which the op leaves out, is that of an input
 * with zeros at its end. `pad`: those zeros, as the list of a pad. False: none. */
static bool longer_input(const td_opcall *c, int spatial, int64_t *extra,
                         int64_t *pad) {
    bool any = false;
    for (int d = 0; d < spatial; d++) {
        int64_t more = entry(c->in[5], d), stride = entry(c->in[3], d);
        int64_t fits = stride > 0 && more >= stride ? more / stride : 0;
        extra[d] = more - fits * stride;
        pad[2 * (spatial - 1 - d)] = 0;
        pad[2 * (spatial - 1 - d) + 1] = fits;
        any = any || fits > 0;
    }
    return any;
}

/* in: input, weight, bias, stride, padding, output_padding, groups, dilation. */
static bool transposed(td_opcall *c, int spatial) {
    td_tensor *x = td__in(c, 0);
    int64_t    extra[3], pad[6];
    if (!want(c, spatial, (int[]){3, 4, 5, 7}, 4)) return false;
    for (int d = 0; d < spatial; d++) {
        int64_t more = entry(c->in[5], d);
        if (more < 0 ||
            (more > 0 && more >= entry(c->in[3], d) && more >= entry(c->in[7], d)))
            return td__op_fail(
                c, TD_E_ARG, "output_padding must be below stride or dilation, got %s",
                td__sizes_str((int)c->in[5].n, c->in[5].u.ints));
    }
    if (longer_input(c, spatial, extra, pad))
        x = td_op_constant_pad_nd(x, (td_ints){pad, 2 * spatial}, td_value_int(0));
    call k = {x,
              td__in(c, 1),
              td__in(c, 2),
              list_of(c->in[3]),
              list_of(c->in[4]),
              list_of(c->in[7]),
              {extra, spatial},
              true,
              td__in_int(c, 6)};
    return convolve(c, &k);
}

bool td__decomp_conv_transpose1d(td_opcall *c) { return transposed(c, 1); }
bool td__decomp_conv_transpose2d(td_opcall *c) { return transposed(c, 2); }
bool td__decomp_conv_transpose3d(td_opcall *c) { return transposed(c, 3); }
