/* decomp_norm.c -- norm layers as users call them, in terms of the native ops, which
 * return the statistics that their derivatives need. Checks that PyTorch makes in
 * torch.nn.functional, above ATen, are made here. */
#include "rules/geom.h"
#include "rules/rule_arith.h"

#include <float.h>

/* Sets result 0. The caller of a composite looks for nil results. */
static bool set_out(td_opcall *c, td_tensor *t) {
    c->out[0] = t;
    return true;
}

/* Statistics of the public native_ ops carry no history in PyTorch: a detached copy in
 * a storage of its own. */
static td_tensor *plain(td_tensor *t) {
    bool needs = t && t->flags & TD_TF_NEEDS_GRAD;
    return needs ? td_op_clone(td_op_detach(t), false) : t;
}

/* in: input, normalized_shape, weight, bias, eps. *mean and *rstd may be NULL. */
static td_tensor *layer_norm(td_opcall *c, td_tensor **mean, td_tensor **rstd) {
    return td_op__layer_norm_stats(td__in(c, 0), t_ints(c->in[1]), td__in(c, 2),
                                   td__in(c, 3), td__in_f(c, 4), mean, rstd);
}

bool td__decomp_layer_norm(td_opcall *c) {
    return set_out(c, layer_norm(c, NULL, NULL));
}

/* The same with the statistics as results 1 and 2. */
bool td__decomp_native_layer_norm(td_opcall *c) {
    td_tensor *mean = NULL, *rstd = NULL;
    c->out[0] = layer_norm(c, &mean, &rstd);
    c->out[1] = plain(mean);
    c->out[2] = plain(rstd);
    return true;
}

/* The eps that PyTorch's rms_norm takes when none is given: that of the dtype it
 * computes in. */
static double epsilon_of(td_dtype dt) {
    return dt == TD_F64 ? DBL_EPSILON : FLT_EPSILON;
}

/* x / sqrt(mean(x^2) + eps), computed in f32 for halves. */
bool td__decomp_rms_norm(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *w = td__in(c, 2);
    td_dtype   dt = (td_dtype)x->dtype;
    td_ints    norm = t_ints(c->in[1]);
    int64_t    dims[TD_MAX_RANK];
    int        lead = x->rank - norm.n;
    bool       fits = lead >= 0 && norm.n > 0;
    for (int i = 0; fits && i < norm.n; i++) {
        fits = td__dim_eq(norm.v[i], x->size[lead + i]);
        dims[i] = lead + i;
    }
    if (!fits)
        return td__op_fail(c, TD_E_SHAPE,
                           "input must end with normalized_shape %s, got %s",
                           td__sizes_str(norm.n, norm.v), td__type_str(x));
    if (!td__is_float(dt))
        return td__op_fail(c, TD_E_DTYPE, "input must be floating point, got %s",
                           td__type_str(x));
    bool fits_w = !w || w->rank == norm.n;
    for (int i = 0; w && fits_w && i < norm.n; i++)
        fits_w = td__dim_eq(w->size[i], norm.v[i]);
    if (!fits_w)
        return td__op_fail(c, TD_E_SHAPE,
                           "weight must be of normalized_shape %s, got %s",
                           td__sizes_str(norm.n, norm.v), td__type_str(w));
    /* the mean of squares is taken in f32 for halves: 65504 is soon exceeded */
    double     eps = td__in_none(c, 3) ? epsilon_of(dt) : td__in_f(c, 3);
    td_tensor *wide = td__is_half(dt) ? td_op_to(x, TD_F32, false) : x;
    td_tensor *mean =
        t_mean(td_op_mul(wide, td_value_tensor(wide)), (td_ints){dims, norm.n}, true);
    td_tensor *r = td_op_rsqrt(td_op_add(mean, td_value_float(eps), td_value_int(1)));
    td_tensor *y = t_mul(wide, r);
    if (w) y = t_mul(y, w);
    y = td_op_to(y, dt, false); /* whatever the weight's is */
    return set_out(c, td__is_channels_last(x) ? y : td_op_contiguous(y));
}

/* in: input [N,C,..], num_groups, weight, bias, eps. The native op takes N, C and the
 * product of the other sizes as numbers. */
bool td__decomp_group_norm(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    int64_t    hw = 1;
    if (x->rank < 2)
        return td__op_fail(c, TD_E_SHAPE,
                           "input needs a batch and a channel dim, got %s",
                           td__type_str(x));
    for (int i = 2; i < x->rank; i++) hw = td__dim_mul(hw, x->size[i]);
    if (!td__dim_expect(x->size[1], TD_DIM_IS_NE, 0) ||
        !td__dim_expect(hw, TD_DIM_IS_NE, 0))
        return td__op_fail(c, TD_E_SHAPE,
                           "input %s has no channels or no elements in one",
                           td__type_str(x));
    if (td__dim_eq(td__dim_mul(td__dim_mul(x->size[0], x->size[1]), hw),
                   td__in_int(c, 1)))
        return td__op_fail(c, TD_E_SHAPE,
                           "needs more than one value per channel, got input %s",
                           td__type_str(x));
    return set_out(c, td_op_native_group_norm(x, td__in(c, 2), td__in(c, 3), x->size[0],
                                              x->size[1], hw, td__in_int(c, 1),
                                              td__in_f(c, 4), NULL, NULL));
}

/* ---- batch norm -------------------------------------------------------- */

/* in: input, weight, bias, running_mean, running_var, training, momentum, eps. */
/* in: input, weight, bias, running_mean, running_var, training, momentum, eps. In
 * training one value per channel has no variance; torch.nn.functional refuses it
 * too. */
static bool check_training(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    int64_t    n = 1;
    if (td__in_f(c, 7) < 0 || (td__in_bool(c, 5) && td__in_f(c, 7) == 0))
        return td__op_fail(c, TD_E_ARG, "eps must be %s, got %g",
                           td__in_bool(c, 5) ? "positive in training"
                                             : "zero or positive",
                           td__in_f(c, 7));
    for (int i = 0; i < x->rank; i++)
        if (i != 1) n = td__dim_mul(n, x->size[i]);
    if (!td__in_bool(c, 5) || x->rank < 2 || !td__dim_eq(n, 1)) return true;
    return td__op_fail(c, TD_E_SHAPE,
                       "training needs more than one value per channel, got input %s",
                       td__type_str(x));
}

/* Arguments as above. Outside training the native op has no batch statistics: *mean and
 * *rstd become empty tensors, as in ATen. Nil after td__op_fail. */
static td_tensor *batch_norm(td_opcall *c, td_tensor **mean, td_tensor **rstd) {
    td_tensor *x = td__in(c, 0), *w = td__in(c, 1), *b = td__in(c, 2);
    td_tensor *rm = td__in(c, 3), *rv = td__in(c, 4);
    if (td__in_bool(c, 5))
        return td_op__batch_norm_train(x, w, b, rm, rv, td__in_f(c, 6), td__in_f(c, 7),
                                       mean, rstd);
    if (!rm || !rv) {
        td__op_fail(c, TD_E_ARG, "%s must be given when not training",
                    rm ? "running_var" : "running_mean");
        return td_nil(c->cx);
    }
    *mean = td_op_new_empty(rm, TD_SHAPE(0), TD_DTYPE_NONE);
    *rstd = td_op_new_empty(rm, TD_SHAPE(0), TD_DTYPE_NONE);
    return td_op__batch_norm_eval(x, w, b, rm, rv, td__in_f(c, 7));
}

/* The statistics of the batch are results 1 and 2, without history. */
bool td__decomp_native_batch_norm(td_opcall *c) {
    td_tensor *mean = NULL, *rstd = NULL;
    c->out[0] = batch_norm(c, &mean, &rstd);
    c->out[1] = plain(mean);
    c->out[2] = plain(rstd);
    return true;
}

bool td__decomp_batch_norm(td_opcall *c) {
    td_tensor *mean, *rstd;
    return check_training(c) && set_out(c, batch_norm(c, &mean, &rstd));
}

/* A parameter of the channels once per sample. */
static td_tensor *per_sample(td_tensor *p, int64_t n) {
    return p ? td_op_repeat(p, TD_SHAPE(n)) : NULL;
}

/* The mean of the running statistics [N * C] goes back to the caller's. x: the input.
 */
static bool write_back(td_tensor *to, td_tensor *from, const td_tensor *x) {
    if (!to) return true;
    td_tensor *m = td_op_view(from, TD_SHAPE(x->size[0], x->size[1]));
    m = t_mean(m, TD_DIMS(0), false);
    return !td_is_nil(td_op_copy_(to, m, false));
}

/* batch_norm of one sample whose channels are those of all samples. */
bool td__decomp_instance_norm(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *rm = td__in(c, 3), *rv = td__in(c, 4);
    int64_t    size[TD_MAX_RANK];
    bool       use_input = td__in_bool(c, 5);
    if (x->rank < 3)
        return td__op_fail(c, TD_E_SHAPE,
                           "input needs dims after batch and channel, got %s",
                           td__type_str(x));
    if (!use_input && (!rm || !rv))
        return td__op_fail(c, TD_E_ARG,
                           "running_mean and running_var must be given when "
                           "use_input_stats is false");
    int64_t area = 1;
    for (int i = 2; i < x->rank; i++) area = td__dim_mul(area, size[i] = x->size[i]);
    if (use_input && td__dim_eq(area, 1))
        return td__op_fail(c, TD_E_SHAPE,
                           "the input's statistics need more than one element in each "
                           "channel of a sample, got %s",
                           td__type_str(x));
    size[0] = 1;
    size[1] = td__dim_mul(x->size[0], x->size[1]);
    int64_t    n = x->size[0];
    /* [N * C]: every sample has statistics of its own */
    td_tensor *m = per_sample(rm, n), *v = per_sample(rv, n);
    /* [1, N * C, ...] */
    td_tensor *flat = td_op_view(td_op_contiguous(x), (td_ints){size, x->rank});
    td_tensor *y = td_op_native_batch_norm(flat, per_sample(td__in(c, 1), n),
                                           per_sample(td__in(c, 2), n), m, v, use_input,
                                           td__in_f(c, 6), td__in_f(c, 7), NULL, NULL);
    if (use_input && (!write_back(rm, m, x) || !write_back(rv, v, x))) return false;
    return set_out(c, td_op_view(y, td__sizes(x)));
}

/* in: input [N,C,...], size, alpha, beta, k. The channels are a spatial dim of an
 * average pool, with zeros around them. */
bool td__decomp_local_response_norm(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    int64_t    n = td__in_int(c, 1);
    if (x->rank < 3 || n < 1)
        return td__op_fail(
            c, TD_E_SHAPE,
            "takes input [N,C,...] with 3 dims or more and a size of 1 or "
            "more, got %s and %lld",
            td__type_str(x), (long long)n);
    if (td__dim_eq(x->numel, 0)) return set_out(c, td_op_clone(x, false));
    td_tensor *m = td_op_flatten(t_mul(x, x), 2, -1);
    m = td_op_constant_pad_nd(td_op_unsqueeze(m, 1), TD_DIMS(0, 0, n / 2, (n - 1) / 2),
                              td_value_int(0));
    m = td_op_avg_pool2d(m, TD_DIMS(n, 1), TD_DIMS(1), TD_DIMS(0), false, true,
                         td_value_none());
    m = td_op_reshape(m, td__sizes(x));
    m = td_op_add(t_scale(m, td__in_f(c, 2)), td_value_float(td__in_f(c, 4)),
                  td_value_int(1));
    return set_out(c, t_div(x, td_op_pow(td_value_tensor(m),
                                         td_value_float(td__in_f(c, 3)))));
}
