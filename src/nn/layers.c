/* layers.c -- Linear, Embedding, Conv1d, Conv2d: PyTorch's parameter names, shapes
 * and initial distributions. */
#include "nn/nn.h"

/* ---- Linear ------------------------------------------------------------- */

/* weight [out, in], bias [out] or NULL. */
typedef struct linear {
    td_tensor *weight, *bias;
} linear;

static bool linear_forward(td_module *m, td_call *c) {
    const linear *l = td_module_state(m);
    return td_return(c, td_linear(td__nn_arg(m, c), l->weight, l->bias));
}

static const td_module_type linear_type = {.name = "Linear",
                                           .bytes = sizeof(linear),
                                           .forward = linear_forward};

td_module *td_nn_linear(td_ctx *cx, int64_t in, int64_t out,
                        const td_nn_linear_opts *opts) {
    td_nn_linear_opts o;
    if (!td__opts_take(td__ctx_of_any(cx), "Linear", &o, sizeof o, opts,
                       "TD_NN_LINEAR_OPTS"))
        return TD_NIL(cx, MODULE);
    if (!td__nn_positive(cx, "Linear", "in", in) ||
        !td__nn_positive(cx, "Linear", "out", out))
        return TD_NIL(cx, MODULE);
    td_making  k = td__nn_begin(cx, &linear_type);
    linear    *l = k.m ? td_module_state(k.m) : NULL;
    td_tensor *weight = td__nn_uniform(cx, TD_SHAPE(out, in), in);
    td_tensor *bias = o.no_bias ? NULL : td__nn_uniform(cx, TD_SHAPE(out), in);
    if (l) {
        td__nn_param(&k, "weight", weight, &l->weight);
        td__nn_param(&k, "bias", bias, &l->bias);
    }
    return td__nn_end(&k);
}

/* ---- Embedding ---------------------------------------------------------- */

/* weight [count, dim]. */
typedef struct embedding {
    td_tensor *weight;
    int64_t    padding; /* row whose gradient is zero; -1: none */
} embedding;

static bool embedding_forward(td_module *m, td_call *c) {
    const embedding *e = td_module_state(m);
    return td_return(c, td_embedding(e->weight, td__nn_arg(m, c), e->padding));
}

static const td_module_type embedding_type = {.name = "Embedding",
                                              .bytes = sizeof(embedding),
                                              .forward = embedding_forward};

/* Resolves a negative padding_idx. False after td__fail. */
static bool embedding_padding(td_ctx *cx, int64_t count, const td_nn_embedding_opts *o,
                              int64_t *padding) {
    int64_t at = o->padding_idx < 0 ? o->padding_idx + count : o->padding_idx;
    *padding = o->padded ? at : -1;
    if (!o->padded || (at >= 0 && at < count)) return true;
    return td__fail(
        cx, TD_E_INDEX,
        "Embedding: padding_idx is %lld; it must be a row, from %lld to %lld",
        (long long)o->padding_idx, (long long)-count, (long long)(count - 1));
}

td_module *td_nn_embedding(td_ctx *cx, int64_t count, int64_t dim,
                           const td_nn_embedding_opts *opts) {
    td_nn_embedding_opts o;
    int64_t              padding;
    if (!td__opts_take(td__ctx_of_any(cx), "Embedding", &o, sizeof o, opts,
                       "TD_NN_EMBEDDING_OPTS"))
        return TD_NIL(cx, MODULE);
    if (!td__nn_positive(cx, "Embedding", "count", count) ||
        !td__nn_positive(cx, "Embedding", "dim", dim) ||
        !embedding_padding(cx, count, &o, &padding))
        return TD_NIL(cx, MODULE);
    td_making  k = td__nn_begin(cx, &embedding_type);
    embedding *e = k.m ? td_module_state(k.m) : NULL;
    td_tensor *weight = td_randn(cx, TD_SHAPE(count, dim));
    if (o.padded) td_zero_(td_select(weight, 0, padding));
    if (e) {
        e->padding = padding;
        td__nn_param(&k, "weight", weight, &e->weight);
    }
    return td__nn_end(&k);
}

/* ---- convolutions ------------------------------------------------------- */

/* weight [out, in / groups, kernel...], bias [out] or NULL. */
typedef struct conv {
    td_tensor *weight, *bias;
    int        dims;
    int64_t    stride[2], padding[2], dilation[2], groups;
} conv;

static bool conv_forward(td_module *m, td_call *c) {
    const conv *v = td_module_state(m);
    td_ints     stride = {v->stride, v->dims}, padding = {v->padding, v->dims};
    td_ints     dilation = {v->dilation, v->dims};
    td_tensor  *x = td__nn_arg(m, c);
    if (v->dims == 1)
        return td_return(c, td_conv1d(x, v->weight, v->bias, stride, padding, dilation,
                                      v->groups));
    return td_return(c, td_conv2d(x, v->weight, v->bias, stride, padding, dilation,
                                  v->groups));
}

static const td_module_type conv_types[] = {
    {.name = "Conv1d", .bytes = sizeof(conv), .forward = conv_forward},
    {.name = "Conv2d", .bytes = sizeof(conv), .forward = conv_forward}};

/* A list in the options: one entry for all dims, or one per dim. */
typedef struct conv_arg {
    const char *what;
    td_ints     given;
    int64_t     none, least;
} conv_arg;

/* Expands a list to `dims` entries and checks their minimum. False after td__fail. */
static bool conv_list(td_ctx *cx, int dims, conv_arg a, int64_t *to) {
    const char *who = conv_types[dims - 1].name;
    if (a.given.v && a.given.n != 1 && a.given.n != dims)
        return td__fail(cx, TD_E_ARG, "%s: %s has %d entries; it must have 1 or %d",
                        who, a.what, a.given.n, dims);
    for (int i = 0; i < dims; i++) {
        to[i] = a.given.v ? a.given.v[a.given.n == 1 ? 0 : i] : a.none;
        if (to[i] < a.least)
            return td__fail(cx, TD_E_ARG, "%s: %s is %lld; it must be at least %lld",
                            who, a.what, (long long)to[i], (long long)a.least);
    }
    return true;
}

/* Fills *v but for its tensors. size is [out, in, 1, 1] and becomes the weight's
 * sizes. False after td__fail. */
static bool conv_read(td_ctx *cx, conv *v, td_ints kernel, const td_nn_conv_opts *o,
                      int64_t *size) {
    const char *who = conv_types[v->dims - 1].name;
    int64_t     in = size[1];
    v->groups = o->groups ? o->groups : 1;
    if (!td__nn_positive(cx, who, "in", in) ||
        !td__nn_positive(cx, who, "out", size[0]) ||
        !td__nn_positive(cx, who, "groups", v->groups))
        return false;
    if (in % v->groups || size[0] % v->groups)
        return td__fail(
            cx, TD_E_ARG,
            "%s: in is %lld and out %lld; both must be divisible by groups, "
            "%lld",
            who, (long long)in, (long long)size[0], (long long)v->groups);
    size[1] = in / v->groups;
    if (!kernel.v || !kernel.n)
        return td__fail(
            cx, TD_E_ARG,
            "%s: kernel is empty; pass its sizes, for example TD_SHAPE(3, 3)", who);
    return conv_list(cx, v->dims, (conv_arg){"kernel", kernel, 1, 1}, size + 2) &&
           conv_list(cx, v->dims, (conv_arg){"stride", o->stride, 1, 1}, v->stride) &&
           conv_list(cx, v->dims, (conv_arg){"padding", o->padding, 0, 0},
                     v->padding) &&
           conv_list(cx, v->dims, (conv_arg){"dilation", o->dilation, 1, 1},
                     v->dilation);
}

/* Makes a convolution; size is [out, in, 1, 1]. */
static td_module *conv_make(td_ctx *cx, int64_t size[4], td_ints kernel, int dims,
                            const td_nn_conv_opts *opts) {
    td_nn_conv_opts o;
    conv            read = {.dims = dims};
    if (!td__opts_take(td__ctx_of_any(cx), conv_types[dims - 1].name, &o, sizeof o,
                       opts, "TD_NN_CONV_OPTS"))
        return TD_NIL(cx, MODULE);
    if (!conv_read(cx, &read, kernel, &o, size)) return TD_NIL(cx, MODULE);
    td_making  k = td__nn_begin(cx, &conv_types[dims - 1]);
    conv      *v = k.m ? td_module_state(k.m) : NULL;
    int64_t    fan = size[1] * size[2] * size[3];
    td_tensor *weight = td__nn_uniform(cx, (td_ints){size, 2 + dims}, fan);
    td_tensor *bias = o.no_bias ? NULL : td__nn_uniform(cx, TD_SHAPE(size[0]), fan);
    if (v) {
        *v = read;
        td__nn_param(&k, "weight", weight, &v->weight);
        td__nn_param(&k, "bias", bias, &v->bias);
    }
    return td__nn_end(&k);
}

td_module *td_nn_conv1d(td_ctx *cx, int64_t in, int64_t out, int64_t kernel,
                        const td_nn_conv_opts *opts) {
    return conv_make(cx, (int64_t[4]){out, in, 1, 1}, TD_SHAPE(kernel), 1, opts);
}

td_module *td_nn_conv2d(td_ctx *cx, int64_t in, int64_t out, td_ints kernel,
                        const td_nn_conv_opts *opts) {
    return conv_make(cx, (int64_t[4]){out, in, 1, 1}, kernel, 2, opts);
}
