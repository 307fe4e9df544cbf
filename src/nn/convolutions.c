/* convolutions.c -- convolutions and transposed convolutions over 1 to 3 dims:
 * PyTorch's parameter names, shapes and initial distributions. */
#include "nn/nn.h"

enum { MOST_DIMS = 3 };

/* weight [out, in / groups, kernel...], transposed [in, out / groups, kernel...]; bias
 * [out] or NULL. */
typedef struct conv {
    td_tensor *weight, *bias;
    int        dims;
    bool       transposed;
    int64_t    stride[MOST_DIMS], padding[MOST_DIMS], dilation[MOST_DIMS], groups;
    int64_t    more[MOST_DIMS]; /* output_padding */
} conv;

typedef td_tensor *conv_fn(td_tensor *x, td_tensor *weight, td_tensor *bias,
                           td_ints stride, td_ints padding, td_ints dilation,
                           int64_t groups);
typedef td_tensor *transposed_fn(td_tensor *x, td_tensor *weight, td_tensor *bias,
                                 td_ints stride, td_ints padding, td_ints more,
                                 int64_t groups, td_ints dilation);

static bool forward(td_module *m, td_call *c) {
    static conv_fn *const       plain[] = {td_op_conv1d, td_op_conv2d, td_op_conv3d};
    static transposed_fn *const back[] = {td_op_conv_transpose1d,
                                          td_op_conv_transpose2d,
                                          td_op_conv_transpose3d};
    const conv                 *v = td_module_state(m);
    td_ints    stride = {v->stride, v->dims}, padding = {v->padding, v->dims};
    td_ints    dilation = {v->dilation, v->dims}, more = {v->more, v->dims};
    td_tensor *x = td__nn_arg(m, c);
    if (v->transposed)
        return td_return(c, back[v->dims - 1](x, v->weight, v->bias, stride, padding,
                                              more, v->groups, dilation));
    return td_return(c, plain[v->dims - 1](x, v->weight, v->bias, stride, padding,
                                           dilation, v->groups));
}

#define CONV(name_) \
    { .name = (name_), .bytes = sizeof(conv), .forward = forward }
static const td_module_type types[2][MOST_DIMS] = {
    {CONV("Conv1d"), CONV("Conv2d"), CONV("Conv3d")},
    {CONV("ConvTranspose1d"), CONV("ConvTranspose2d"), CONV("ConvTranspose3d")}};

static const char *name_of(const conv *v) {
    return types[v->transposed][v->dims - 1].name;
}

/* A list in the options: one entry for all dims, or one per dim. */
typedef struct conv_arg {
    const char *what;
    td_ints     given;
    int64_t     none, least;
} conv_arg;

/* Expands a list to the dims of v and checks their minimum. False after td__fail. */
static bool read_list(td_ctx *cx, const conv *v, conv_arg a, int64_t *to) {
    if (a.given.v && a.given.n != 1 && a.given.n != v->dims)
        return td__fail(cx, TD_E_ARG, "%s: %s has %d entries; it must have 1 or %d",
                        name_of(v), a.what, a.given.n, v->dims);
    for (int i = 0; i < v->dims; i++) {
        to[i] = a.given.v ? a.given.v[a.given.n == 1 ? 0 : i] : a.none;
        if (to[i] < a.least)
            return td__fail(cx, TD_E_ARG, "%s: %s is %lld; it must be at least %lld",
                            name_of(v), a.what, (long long)to[i], (long long)a.least);
    }
    return true;
}

/* Fills *v but for its tensors. size is [out, in, ...] and becomes the weight's sizes.
 * False after td__fail. */
static bool read(td_ctx *cx, conv *v, td_ints kernel, const td_nn_conv_opts *o,
                 int64_t *size) {
    const char *who = name_of(v);
    int64_t     out = size[0], in = size[1];
    v->groups = o->groups ? o->groups : 1;
    if (!td__nn_positive(cx, who, "in", in) || !td__nn_positive(cx, who, "out", out) ||
        !td__nn_positive(cx, who, "groups", v->groups))
        return false;
    if (in % v->groups || out % v->groups)
        return td__fail(
            cx, TD_E_ARG,
            "%s: in is %lld and out %lld; both must be divisible by groups, "
            "%lld",
            who, (long long)in, (long long)out, (long long)v->groups);
    size[0] = v->transposed ? in : out;
    size[1] = (v->transposed ? out : in) / v->groups;
    if (!kernel.v || !kernel.n)
        return td__fail(
            cx, TD_E_ARG,
            "%s: kernel is empty; pass its sizes, for example TD_SHAPE(3, 3)", who);
    if (!v->transposed && o->output_padding.v)
        return td__fail(cx, TD_E_ARG,
                        "%s: output_padding is for transposed convolutions", who);
    return read_list(cx, v, (conv_arg){"kernel", kernel, 1, 1}, size + 2) &&
           read_list(cx, v, (conv_arg){"stride", o->stride, 1, 1}, v->stride) &&
           read_list(cx, v, (conv_arg){"padding", o->padding, 0, 0}, v->padding) &&
           read_list(cx, v, (conv_arg){"output_padding", o->output_padding, 0, 0},
                     v->more) &&
           read_list(cx, v, (conv_arg){"dilation", o->dilation, 1, 1}, v->dilation);
}

/* Makes a convolution; size is [out, in, 1...]. */
static td_module *make(td_ctx *cx, conv v, int64_t *size, td_ints kernel,
                       const td_nn_conv_opts *opts) {
    td_nn_conv_opts o;
    int64_t         out = size[0], fan;
    if (!td__opts_take(td__ctx_of_any(cx), name_of(&v), &o, sizeof o, opts,
                       "TD_NN_CONV_OPTS"))
        return TD_NIL(cx, MODULE);
    if (!read(cx, &v, kernel, &o, size)) return TD_NIL(cx, MODULE);
    td_making k = td__nn_begin(cx, &types[v.transposed][v.dims - 1]);
    conv     *state = k.m ? td_module_state(k.m) : NULL;
    fan = size[1] * size[2] * size[3] * size[4];
    td_tensor *weight = td__nn_uniform(cx, (td_ints){size, 2 + v.dims}, fan);
    td_tensor *bias = o.no_bias ? NULL : td__nn_uniform(cx, TD_SHAPE(out), fan);
    if (state) {
        *state = v;
        td__nn_param(&k, "weight", weight, &state->weight);
        td__nn_param(&k, "bias", bias, &state->bias);
    }
    return td__nn_end(&k);
}

td_module *td_nn_conv1d(td_ctx *cx, int64_t in, int64_t out, int64_t kernel,
                        const td_nn_conv_opts *opts) {
    return make(cx, (conv){.dims = 1}, (int64_t[]){out, in, 1, 1, 1}, TD_SHAPE(kernel),
                opts);
}
td_module *td_nn_conv2d(td_ctx *cx, int64_t in, int64_t out, td_ints kernel,
                        const td_nn_conv_opts *opts) {
    return make(cx, (conv){.dims = 2}, (int64_t[]){out, in, 1, 1, 1}, kernel, opts);
}
td_module *td_nn_conv3d(td_ctx *cx, int64_t in, int64_t out, td_ints kernel,
                        const td_nn_conv_opts *opts) {
    return make(cx, (conv){.dims = 3}, (int64_t[]){out, in, 1, 1, 1}, kernel, opts);
}
td_module *td_nn_conv_transpose1d(td_ctx *cx, int64_t in, int64_t out, int64_t kernel,
                                  const td_nn_conv_opts *opts) {
    return make(cx, (conv){.dims = 1, .transposed = true},
                (int64_t[]){out, in, 1, 1, 1}, TD_SHAPE(kernel), opts);
}
td_module *td_nn_conv_transpose2d(td_ctx *cx, int64_t in, int64_t out, td_ints kernel,
                                  const td_nn_conv_opts *opts) {
    return make(cx, (conv){.dims = 2, .transposed = true},
                (int64_t[]){out, in, 1, 1, 1}, kernel, opts);
}
td_module *td_nn_conv_transpose3d(td_ctx *cx, int64_t in, int64_t out, td_ints kernel,
                                  const td_nn_conv_opts *opts) {
    return make(cx, (conv){.dims = 3, .transposed = true},
                (int64_t[]){out, in, 1, 1, 1}, kernel, opts);
}
