/* decomp_pool.c -- pools that are made of others. One-dim pools go
 * through a dim of size 1 in front of the length, as in ATen: [N,C,L] becomes
 * [N,C,1,L], and each option gets a first entry that changes nothing. */
#include "rules/geom.h"
#include "rules/rule_arith.h"

#include <string.h>

static td_ints list_of(td_value v) { return (td_ints){v.u.ints, (int)v.n}; }

/* in: self, kernel_size, stride, padding, dilation, ceil_mode. The op with a kernel
 * returns the indices of the maxima as well, for its derivative. */
bool td__decomp_max_pool2d(td_opcall *c) {
    c->out[0] =
        td_op_max_pool2d_with_indices(td__in(c, 0), list_of(c->in[1]),
                                      list_of(c->in[2]), list_of(c->in[3]),
                                      list_of(c->in[4]), td__in_bool(c, 5), NULL);
    return true;
}

bool td__decomp_max_pool3d(td_opcall *c) {
    c->out[0] =
        td_op_max_pool3d_with_indices(td__in(c, 0), list_of(c->in[1]),
                                      list_of(c->in[2]), list_of(c->in[3]),
                                      list_of(c->in[4]), td__in_bool(c, 5), NULL);
    return true;
}

/* ---- one dim ------------------------------------------------------------ */

/* One-dim pools take [C,L] or [N,C,L]. */
static bool want_length(td_opcall *c) {
    const td_tensor *x = td__in(c, 0);
    return x->rank == 2 || x->rank == 3 ||
           td__op_fail(c, TD_E_SHAPE, "self must be [C,L] or [N,C,L], got %s",
                       td__type_str(x));
}

/* pair = {first, the one entry of argument i}. */
static bool widen(td_opcall *c, int i, int64_t first, int64_t *pair) {
    td_value v = c->in[i];
    if (v.n != 1)
        return td__op_fail(c, TD_E_ARG, "%s must have 1 entry, got %u",
                           c->info->s.in[i].name, v.n);
    pair[0] = first;
    pair[1] = v.u.ints[0];
    return true;
}

/* kernel_size, stride and padding are arguments 1 to 3. */
static bool widen_window(td_opcall *c, int64_t *k, int64_t *stride, int64_t *pad) {
    return want_length(c) && widen(c, 1, 1, k) &&
           widen(c, c->in[2].n ? 2 : 1, 1, stride) && widen(c, 3, 0, pad);
}

/* in: as max_pool2d, lists of one entry. */
bool td__decomp_max_pool1d(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    int64_t    k[2], stride[2], pad[2], dil[2];
    if (!widen_window(c, k, stride, pad) || !widen(c, 4, 1, dil)) return false;
    if (!td__is_float((td_dtype)x->dtype))
        return td__op_fail(c, TD_E_DTYPE, "self must be floating, got %s",
                           td__type_str(x));
    /* ATen keeps the layout only where it needs the indices for a gradient. */
    bool taped = c->cx->grad_enabled && (x->flags & TD_TF_NEEDS_GRAD);
    if (!taped) x = td_op_contiguous(x);
    td_tensor *y =
        td_op_max_pool2d_with_indices(td_op_unsqueeze(x, -2), (td_ints){k, 2},
                                      (td_ints){stride, 2}, (td_ints){pad, 2},
                                      (td_ints){dil, 2}, td__in_bool(c, 5), NULL);
    c->out[0] = td_op_squeeze_dim(y, -2);
    return true;
}

/* in: as max_pool1d. Results: the maxima, and their indices in the length. */
bool td__decomp_max_pool1d_with_indices(td_opcall *c) {
    int64_t    k[2], stride[2], pad[2], dil[2];
    td_tensor *index = NULL;
    if (!widen_window(c, k, stride, pad) || !widen(c, 4, 1, dil)) return false;
    td_tensor *y = td_op_max_pool2d_with_indices(td_op_unsqueeze(td__in(c, 0), -2),
                                                 (td_ints){k, 2}, (td_ints){stride, 2},
                                                 (td_ints){pad, 2}, (td_ints){dil, 2},
                                                 td__in_bool(c, 5), &index);
    c->out[0] = td_op_squeeze_dim(y, -2);
    c->out[1] = td_op_squeeze_dim(index, -2);
    return true;
}

/* in: self, output_size of one entry. Results: maxima, indices. */
bool td__decomp_adaptive_max1d(td_opcall *c) {
    int64_t    to[2];
    td_tensor *index = NULL;
    if (!want_length(c) || !widen(c, 1, 1, to)) return false;
    td_tensor *y = td_op_adaptive_max_pool2d(td_op_unsqueeze(td__in(c, 0), -2),
                                             (td_ints){to, 2}, &index);
    c->out[0] = td_op_squeeze_dim(y, -2);
    c->out[1] = td_op_squeeze_dim(index, -2);
    return true;
}

/* in: self, kernel_size, stride, padding, ceil_mode, count_include_pad. */
bool td__decomp_avg_pool1d(td_opcall *c) {
    int64_t k[2], stride[2], pad[2];
    if (!widen_window(c, k, stride, pad)) return false;
    td_tensor *y = td_op_avg_pool2d(td_op_unsqueeze(td__in(c, 0), -2), (td_ints){k, 2},
                                    (td_ints){stride, 2}, (td_ints){pad, 2},
                                    td__in_bool(c, 4), td__in_bool(c, 5), TD_NONE);
    c->out[0] = td_op_squeeze_dim(y, -2);
    return true;
}

/* in: self, output_size of one entry. */
bool td__decomp_adaptive_pool1d(td_opcall *c) {
    int64_t to[2];
    if (!want_length(c) || !widen(c, 1, 1, to)) return false;
    td_tensor *y =
        td_op_adaptive_avg_pool2d(td_op_unsqueeze(td__in(c, 0), -2), (td_ints){to, 2});
    c->out[0] = td_op_squeeze_dim(y, -2);
    return true;
}

/* ---- adaptive ----------------------------------------------------------- */

/* One window over the whole is a mean; it keeps a channels-last layout. */
static bool whole_mean(td_opcall *c, int spatial) {
    td_tensor *x = td__in(c, 0);
    td_tensor *y = td_op_mean(x, spatial == 2 ? TD_DIMS(-1, -2) : TD_DIMS(-1, -2, -3),
                              true, TD_DTYPE_NONE);
    if (!td_is_nil(y) && x->rank == spatial + 2 && td__is_channels_last(x)) {
        int64_t k = x->size[1], size[5] = {x->size[0], k, 1, 1, 1};
        int64_t stride[5] = {k, 1, k, k, k};
        y = td_op_as_strided_(y, (td_ints){size, x->rank}, (td_ints){stride, x->rank},
                              TD_NONE);
    }
    c->out[0] = y;
    return true;
}

/* in: self, output_size of one entry or of one per dim. */
static bool adaptive(td_opcall *c, int spatial) {
    td_value v = c->in[1];
    int64_t  all[3];
    bool     ones = true;
    if (v.n != 1 && (int)v.n != spatial)
        return td__op_fail(c, TD_E_ARG, "output_size must have 1 or %d entries, got %u",
                           spatial, v.n);
    for (int d = 0; d < spatial; d++) {
        all[d] = v.u.ints[v.n == 1 ? 0 : d];
        ones = ones && td__dim_eq(all[d], 1);
    }
    if (ones) return whole_mean(c, spatial);
    c->out[0] = spatial == 2
                    ? td_op__adaptive_avg_pool2d(td__in(c, 0), (td_ints){all, 2})
                    : td_op__adaptive_avg_pool3d(td__in(c, 0), (td_ints){all, 3});
    return true;
}

bool td__decomp_adaptive_pool2d(td_opcall *c) { return adaptive(c, 2); }
bool td__decomp_adaptive_pool3d(td_opcall *c) { return adaptive(c, 3); }

/* grad_output's gradient is the pool of g; self counts with its sizes only. */
static bool adaptive_vjp(td_vjp *v, int spatial) {
    const td_meta *m = v->in_meta[0];
    td_ints        to = {&m->size[m->rank - spatial], spatial};
    if (v->g[0] && v->need[0])
        v->grad[0] = spatial == 2 ? td_op__adaptive_avg_pool2d(v->g[0], to)
                                  : td_op__adaptive_avg_pool3d(v->g[0], to);
    if (v->g[0] && v->need[1])
        v->grad[1] = td_op_zeros_like(v->in[1].u.t, TD_DTYPE_NONE);
    return td_ok(v->cx);
}

bool td__vjp_adaptive_pool_backward(td_vjp *v) { return adaptive_vjp(v, 2); }
bool td__vjp_adaptive_pool3d_backward(td_vjp *v) { return adaptive_vjp(v, 3); }

/* ---- power average ------------------------------------------------------ */

/* The average of powers, times the size of the window: their sum. The sign counts, as
 * in PyTorch, where the power of it would be NaN. */
static bool power_average(td_opcall *c, int spatial) {
    td_tensor *x = td_op_pow(td_value_tensor(td__in(c, 0)), c->in[1]), *y;
    td_ints    k = list_of(c->in[2]), stride = list_of(c->in[3]);
    int64_t    zero = 0, size = 1;
    td_ints    pad = {&zero, 1};
    double     p = td__in_f(c, 1);
    bool       ceil = td__in_bool(c, 4);
    if (!td__is_float((td_dtype)td__in(c, 0)->dtype))
        return td__op_fail(c, TD_E_DTYPE, "self must be floating, got %s",
                           td__type_str(td__in(c, 0)));
    if (p == 0)
        return td__op_fail(c, TD_E_ARG, "norm_type is 0; it must be another number");
    for (int d = 0; d < spatial; d++) {
        if (k.n > 0) size *= td__dim_fixed(k.v[k.n == 1 ? 0 : d < k.n ? d : 0]);
        if (!td_ok(c->cx)) return false;
    }
    if (spatial == 1) y = td_op_avg_pool1d(x, k, stride, pad, ceil, true);
    else if (spatial == 2) y = td_op_avg_pool2d(x, k, stride, pad, ceil, true, TD_NONE);
    else y = td_op_avg_pool3d(x, k, stride, pad, ceil, true, TD_NONE);
    y = t_mul(td_op_sign(y), td_op_relu(td_op_abs(y)));
    y = td_op_mul(y, td_value_int(size));
    c->out[0] = td_op_pow(td_value_tensor(y), td_value_float(1 / p));
    return true;
}

bool td__decomp_lp_pool1d(td_opcall *c) { return power_average(c, 1); }
bool td__decomp_lp_pool2d(td_opcall *c) { return power_average(c, 2); }
bool td__decomp_lp_pool3d(td_opcall *c) { return power_average(c, 3); }

/* ---- the inverse of a maximum pool -------------------------------------- */

/* Entry d of a list, of which one serves all. */
static int64_t entry(td_value v, int d) { return v.u.ints[v.n == 1 ? 0 : d]; }

/* Lists 2 to 4, kernel_size, stride and padding, have 1 entry or one per dim; products
 * of these stay in range, and strides of volumes are positive, as in ATen. */
static bool want_lists(td_opcall *c, int spatial) {
    for (int i = 2; i <= 4; i++) {
        td_value v = c->in[i];
        int64_t  least = i == 3 && spatial == 3 ? 1 : -INT32_MAX;
        if (v.n != 1 && (int)v.n != spatial && (i != 3 || v.n))
            return td__op_fail(c, TD_E_ARG, "%s must have 1 or %d entries, got %u",
                               c->info->s.in[i].name, spatial, v.n);
        for (uint32_t k = 0; k < v.n; k++)
            if (v.u.ints[k] < least || v.u.ints[k] > INT32_MAX)
                return td__op_fail(c, TD_E_ARG, "%s must be from %lld to %d, got %s",
                                   c->info->s.in[i].name, (long long)least, INT32_MAX,
                                   td__sizes_str((int)v.n, v.u.ints));
    }
    return true;
}

/* The size along dim d that a pool made these windows of, or the one asked for, which
 * may differ from it by less than a stride. */
static bool unpooled(td_opcall *c, int spatial, int d, int64_t *size) {
    const td_tensor *x = td__in(c, 0);
    td_value         want = c->in[5], step = c->in[3].n ? c->in[3] : c->in[2];
    int64_t          from = x->size[x->rank - spatial + d], s = entry(step, d);
    *size = td__dim_add(td__dim_mul(td__dim_sub(from, 1), s),
                        entry(c->in[2], d) - 2 * entry(c->in[4], d));
    if (td__in_none(c, 5)) return true;
    int64_t ask = want.u.ints[(int)want.n - spatial + d];
    if (!td__dim_lt(td__dim_sub(*size, s), ask) ||
        !td__dim_lt(ask, td__dim_add(*size, s)))
        return td__op_fail(c, TD_E_ARG,
                           "output_size %s must be within a stride of %lld in dim %d",
                           td__sizes_str((int)want.n, want.u.ints), (long long)*size,
                           d);
    *size = ask;
    return true;
}

/* in: self, indices, kernel_size, stride, padding, output_size. */
static bool unpool(td_opcall *c, int spatial) {
    td_tensor *x = td__in(c, 0), *index = td__in(c, 1);
    int64_t    size[6];
    int        lead = x->rank - spatial;
    if (lead != 1 && lead != 2)
        return td__op_fail(c, TD_E_SHAPE, "self must have %d or %d dims, got %s",
                           spatial + 1, spatial + 2, td__type_str(x));
    int n = td__in_none(c, 5) ? spatial : (int)c->in[5].n;
    if (n != spatial && n != spatial + 2) /* with samples and channels */
        return td__op_fail(c, TD_E_ARG,
                           "output_size must have %d or %d entries, got %d", spatial,
                           spatial + 2, n);
    if (!want_lists(c, spatial)) return false;
    for (int d = 1; d < x->rank; d++)
        if (!td__dim_expect(x->size[d], TD_DIM_IS_NE, 0))
            return td__op_fail(c, TD_E_SHAPE,
                               "self is %s; only its first dim may be empty",
                               td__type_str(x));
    for (int d = 0; d < lead; d++) size[d] = x->size[d];
    for (int d = 0; d < spatial; d++)
        if (!unpooled(c, spatial, d, &size[lead + d])) return false;
    if (spatial > 1) {
        c->out[0] = td_op__max_unpool(x, index, (td_ints){size, x->rank}, spatial);
        return true;
    }
    size[lead + 1] = 1; /* behind, as in ATen: it decides what channels-last is */
    td_tensor *y = td_op__max_unpool(td_op_unsqueeze(x, -1), td_op_unsqueeze(index, -1),
                                     (td_ints){size, x->rank + 1}, 2);
    c->out[0] = td_op_squeeze_dim(y, -1);
    return true;
}

bool td__decomp_max_unpool1d(td_opcall *c) { return unpool(c, 1); }
bool td__decomp_max_unpool2d(td_opcall *c) { return unpool(c, 2); }
bool td__decomp_max_unpool3d(td_opcall *c) { return unpool(c, 3); }
