/* norms.c -- LayerNorm, RMSNorm, GroupNorm; BatchNorm and InstanceNorm over 1 to 3
 * dims. */
#include "nn/nn.h"

#include <math.h>
#include <string.h>

/* The state of all kinds; fields that a kind does not use are zero. */
typedef struct norm {
    td_tensor *weight, *bias, *mean, *var, *tracked; /* tracked: number of batches */
    double     eps, momentum;
    int64_t    groups; /* of GroupNorm; of Batch-, InstanceNorm: spatial dims */
    int        rank;   /* of shape */
    int64_t    shape[8];
} norm;

/* ---- forward ------------------------------------------------------------ */

static bool layer_forward(td_module *m, td_call *c) {
    const norm *n = td_module_state(m);
    td_ints     shape = {n->shape, n->rank};
    return td_return(c, td_layer_norm(td__nn_arg(m, c), shape, n->weight, n->bias,
                                      n->eps));
}

/* eps 0 stands for the op's default. */
static bool rms_forward(td_module *m, td_call *c) {
    const norm *n = td_module_state(m);
    td_ints     shape = {n->shape, n->rank};
    td_tensor  *x = td__nn_arg(m, c);
    if (n->eps == 0) return td_return(c, td_rms_norm(x, shape, n->weight));
    return td_return(c, td_rms_norm(x, shape, n->weight, n->eps));
}

static bool group_forward(td_module *m, td_call *c) {
    const norm *n = td_module_state(m);
    return td_return(c, td_group_norm(td__nn_arg(m, c), n->groups, n->weight, n->bias,
                                      n->eps));
}

/* In training, normalizes by the batch and updates the running statistics; without
 * statistics, always by the batch. */
static bool batch_forward(td_module *m, td_call *c) {
    const norm              *n = td_module_state(m);
    td_tensor               *x = td__nn_arg(m, c);
    bool                     training = td_module_training(m);
    static const char *const sizes[] = {"[N,C] or [N,C,L]", "[N,C,H,W]", "[N,C,D,H,W]"};
    if (td_is_nil(x)) return false;
    if (td_rank(x) != n->groups + 2 && (n->groups != 1 || td_rank(x) != 2))
        return td__fail(td_call_ctx(c), TD_E_SHAPE,
                        "%s: the input must be %s; it is %s", td_module_name(m),
                        sizes[n->groups - 1], td__type_str(x));
    if (training && n->tracked) td_add_(n->tracked, 1);
    return td_return(c, td_batch_norm(x, n->weight, n->bias, n->mean, n->var,
                                      training || !n->mean, n->momentum, n->eps));
}

/* Normalizes each plane of [N,C,...] or [C,...] by itself. */
static bool instance_forward(td_module *m, td_call *c) {
    const norm *n = td_module_state(m);
    td_tensor  *x = td__nn_arg(m, c);
    if (td_is_nil(x)) return false;
    bool single = td_rank(x) == n->groups + 1;
    if (!single && td_rank(x) != n->groups + 2)
        return td__fail(
            td_call_ctx(c), TD_E_SHAPE,
            "%s: the input must have %lld dims, or %lld without a batch; it "
            "is %s",
            td_module_name(m), (long long)n->groups + 2, (long long)n->groups + 1,
            td__type_str(x));
    if (single) x = td_unsqueeze(x, 0);
    x = td_instance_norm(x, n->weight, n->bias, n->mean, n->var,
                         td_module_training(m) || !n->mean, n->momentum, n->eps);
    return td_return(c, single ? td_select(x, 0, 0) : x);
}

static const td_module_type layer_type = {.name = "LayerNorm",
                                          .bytes = sizeof(norm),
                                          .forward = layer_forward};
static const td_module_type rms_type = {.name = "RMSNorm",
                                        .bytes = sizeof(norm),
                                        .forward = rms_forward};
static const td_module_type group_type = {.name = "GroupNorm",
                                          .bytes = sizeof(norm),
                                          .forward = group_forward};
static const td_module_type batch_types[] = {
    {.name = "BatchNorm1d", .bytes = sizeof(norm), .forward = batch_forward},
    {.name = "BatchNorm2d", .bytes = sizeof(norm), .forward = batch_forward},
    {.name = "BatchNorm3d", .bytes = sizeof(norm), .forward = batch_forward}};
static const td_module_type instance_types[] = {
    {.name = "InstanceNorm1d", .bytes = sizeof(norm), .forward = instance_forward},
    {.name = "InstanceNorm2d", .bytes = sizeof(norm), .forward = instance_forward},
    {.name = "InstanceNorm3d", .bytes = sizeof(norm), .forward = instance_forward}};

/* ---- making ------------------------------------------------------------- */

/* Checks and copies the options. False after td__fail. */
static bool read_norm(td_ctx *cx, const char *who, norm *n, td_ints shape,
                      const td_nn_norm_opts *o) {
    if (shape.n < 1 || shape.n > TD_COUNT(n->shape))
        return td__fail(cx, TD_E_ARG, "%s: the shape has %d dims; it must have 1 to %d",
                        who, shape.n, TD_COUNT(n->shape));
    if (!td__has_list(cx, who, shape.v, shape.n)) return false;
    for (int i = 0; i < shape.n; i++)
        if (!td__nn_positive(cx, who, "a size", shape.v[i])) return false;
    if (!(o->eps >= 0) || !(o->momentum >= 0 && o->momentum <= 1))
        return td__fail(cx, TD_E_ARG,
                        "%s: eps is %g and momentum %g; eps must be at least 0, "
                        "momentum from 0 to 1",
                        who, o->eps, o->momentum);
    n->rank = shape.n;
    memcpy(n->shape, shape.v, sizeof *shape.v * (size_t)shape.n);
    n->eps = o->eps;
    n->momentum = o->momentum != 0 ? o->momentum : 0.1;
    return true;
}

/* Makes the module with its weight and, if the kind has one, its bias. */
static td_making begin_norm(td_ctx *cx, const td_module_type *type, const norm *read,
                            const td_nn_norm_opts *o, bool bias) {
    td_making k = td__nn_begin(cx, type);
    td_ints   shape = {read->shape, read->rank};
    norm     *n = k.m ? td_module_state(k.m) : NULL;
    if (!n) return k;
    *n = *read;
    td__nn_param(&k, "weight", o->no_affine ? NULL : td_ones(cx, shape), &n->weight);
    bool none = o->no_affine || o->no_bias;
    if (bias) td__nn_param(&k, "bias", none ? NULL : td_zeros(cx, shape), &n->bias);
    return k;
}

/* LayerNorm or RMSNorm: over the last dims, which are `shape`. */
static td_module *last_dims_norm(td_ctx *cx, const td_module_type *type, td_ints shape,
                                 const td_nn_norm_opts *opts) {
    td_nn_norm_opts o;
    norm            n = {0};
    bool            layer = type == &layer_type;
    if (!td__opts_take(td__ctx_of_any(cx), type->name, &o, sizeof o, opts,
                       "TD_NN_NORM_OPTS"))
        return TD_NIL(cx, MODULE);
    if (!read_norm(cx, type->name, &n, shape, &o)) return TD_NIL(cx, MODULE);
    if (layer && n.eps == 0) n.eps = 1e-5;
    td_making k = begin_norm(cx, type, &n, &o, layer);
    return td__nn_end(&k);
}

td_module *td_nn_layer_norm(td_ctx *cx, td_ints shape, const td_nn_norm_opts *opts) {
    return last_dims_norm(cx, &layer_type, shape, opts);
}

td_module *td_nn_rms_norm(td_ctx *cx, td_ints shape, const td_nn_norm_opts *opts) {
    return last_dims_norm(cx, &rms_type, shape, opts);
}

td_module *td_nn_group_norm(td_ctx *cx, int64_t groups, int64_t channels,
                            const td_nn_norm_opts *opts) {
    td_nn_norm_opts o;
    norm            n = {.groups = groups};
    if (!td__opts_take(td__ctx_of_any(cx), "GroupNorm", &o, sizeof o, opts,
                       "TD_NN_NORM_OPTS"))
        return TD_NIL(cx, MODULE);
    if (!td__nn_positive(cx, "GroupNorm", "groups", groups) ||
        !read_norm(cx, "GroupNorm", &n, TD_SHAPE(channels), &o))
        return TD_NIL(cx, MODULE);
    if (channels % groups) {
        td__fail(cx, TD_E_ARG,
                 "GroupNorm: channels is %lld, not divisible by groups, %lld",
                 (long long)channels, (long long)groups);
        return TD_NIL(cx, MODULE);
    }
    if (n.eps == 0) n.eps = 1e-5;
    td_making k = begin_norm(cx, &group_type, &n, &o, true);
    return td__nn_end(&k);
}

/* BatchNorm or InstanceNorm over `dims`. */
static td_module *planes_norm(td_ctx *cx, const td_module_type *types, int dims,
                              int64_t channels, const td_nn_norm_opts *opts) {
    td_nn_norm_opts       o;
    norm                  read = {.groups = dims};
    const td_module_type *type = &types[dims - 1];
    if (!td__opts_take(td__ctx_of_any(cx), type->name, &o, sizeof o, opts,
                       "TD_NN_NORM_OPTS"))
        return TD_NIL(cx, MODULE);
    if (types == instance_types) { /* PyTorch's defaults of InstanceNorm */
        o.no_affine |= !o.affine;
        o.no_stats |= !o.track_stats;
    }
    if (!read_norm(cx, type->name, &read, TD_SHAPE(channels), &o))
        return TD_NIL(cx, MODULE);
    if (read.eps == 0) read.eps = 1e-5;
    td_making k = begin_norm(cx, type, &read, &o, true);
    norm     *n = k.m ? td_module_state(k.m) : NULL;
    bool      stats = !o.no_stats;
    if (n) {
        td_ints shape = TD_SHAPE(channels);
        td__nn_buffer(&k, "running_mean", stats ? td_zeros(cx, shape) : NULL, &n->mean);
        td__nn_buffer(&k, "running_var", stats ? td_ones(cx, shape) : NULL, &n->var);
        td__nn_buffer(&k, "num_batches_tracked",
                      stats ? td_zeros(cx, TD_SHAPE(), TD_I64) : NULL, &n->tracked);
    }
    return td__nn_end(&k);
}

td_module *td_nn_batch_norm1d(td_ctx *cx, int64_t channels,
                              const td_nn_norm_opts *opts) {
    return planes_norm(cx, batch_types, 1, channels, opts);
}

td_module *td_nn_batch_norm2d(td_ctx *cx, int64_t channels,
                              const td_nn_norm_opts *opts) {
    return planes_norm(cx, batch_types, 2, channels, opts);
}

td_module *td_nn_batch_norm3d(td_ctx *cx, int64_t channels,
                              const td_nn_norm_opts *opts) {
    return planes_norm(cx, batch_types, 3, channels, opts);
}

td_module *td_nn_instance_norm1d(td_ctx *cx, int64_t channels,
                                 const td_nn_norm_opts *opts) {
    return planes_norm(cx, instance_types, 1, channels, opts);
}

td_module *td_nn_instance_norm2d(td_ctx *cx, int64_t channels,
                                 const td_nn_norm_opts *opts) {
    return planes_norm(cx, instance_types, 2, channels, opts);
}

td_module *td_nn_instance_norm3d(td_ctx *cx, int64_t channels,
                                 const td_nn_norm_opts *opts) {
    return planes_norm(cx, instance_types, 3, channels, opts);
}
