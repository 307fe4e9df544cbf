/* decomp_pool.c -- pools that are made of others, and interpolate. One-dim pools go
 * through a dim of size 1 in front of the length, as in ATen: [N,C,L] becomes
 * [N,C,1,L], and each option gets a first entry that changes nothing. */
#include "rules/geom.h"

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

/* One window over the whole plane is a mean; it keeps a channels-last layout. */
bool td__decomp_adaptive_pool2d(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    td_value   v = c->in[1];
    int64_t    both[2];
    if (v.n == 1) {
        both[0] = both[1] = v.u.ints[0];
        v.u.ints = both;
        v.n = 2;
    }
    if (v.n != 2)
        return td__op_fail(c, TD_E_ARG, "output_size must have 1 or 2 entries, got %u",
                           v.n);
    if (!td__dim_eq(v.u.ints[0], 1) || !td__dim_eq(v.u.ints[1], 1)) {
        c->out[0] = td_op__adaptive_avg_pool2d(x, list_of(v));
        return true;
    }
    td_tensor *y = td_op_mean(x, TD_DIMS(-1, -2), true, TD_DTYPE_NONE);
    if (!td_is_nil(y) && td__is_channels_last(x)) {
        int64_t n = x->size[0], k = x->size[1];
        y = td_op_as_strided_(y, TD_SHAPE(n, k, 1, 1), TD_SHAPE(k, 1, k, k), TD_NONE);
    }
    c->out[0] = y;
    return true;
}

/* grad_output's gradient is the pool of g; self counts with its sizes only. */
bool td__vjp_adaptive_pool_backward(td_vjp *v) {
    const td_meta *m = v->in_meta[0];
    if (v->g[0] && v->need[0])
        v->grad[0] =
            td_op__adaptive_avg_pool2d(v->g[0], (td_ints){&m->size[m->rank - 2], 2});
    if (v->g[0] && v->need[1])
        v->grad[1] = td_op_zeros_like(v->in[1].u.t, TD_DTYPE_NONE);
    return td_ok(v->cx);
}

/* ---- interpolate -------------------------------------------------------- */

/* Result sizes: `size`, one entry for every dim or one each, or scaled ones. */
static bool target_sizes(td_opcall *c, int spatial, int64_t *to) {
    const td_tensor *x = td__in(c, 0);
    td_value         size = c->in[1];
    double           scale = td__in_none(c, 2) ? 0 : td__in_f(c, 2);
    if (td__in_none(c, 1) == td__in_none(c, 2))
        return td__op_fail(c, TD_E_ARG,
                           "exactly one of size and scale_factor must be given");
    if (!td__in_none(c, 1) && size.n != 1 && (int)size.n != spatial)
        return td__op_fail(c, TD_E_ARG, "size must have 1 or %d entries for %s, got %u",
                           spatial, td__type_str(x), size.n);
    for (int d = 0; d < spatial; d++) {
        if (!td__in_none(c, 1)) {
            to[d] = size.u.ints[size.n == 1 ? 0 : d];
            continue;
        }
        double want = (double)td__dim_fixed(x->size[d + 2]) * scale;
        if (!(want >= 1 && want < 0x1p62))
            return td__op_fail(c, TD_E_ARG, "scale_factor %g gives no size for %s",
                               scale, td__type_str(x));
        to[d] = (int64_t)want;
    }
    return true;
}

/* in: input [N,C,L] or [N,C,H,W], size, scale_factor, mode. Only mode "nearest" exists.
 * The scale is passed on: the op maps indices by it, not by the ratio of sizes. */
bool td__decomp_interpolate(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    int64_t    to[2];
    if (strcmp(c->in[3].u.s, "nearest"))
        return td__op_fail(c, TD_E_ARG, "mode must be nearest, got \"%s\"",
                           c->in[3].u.s);
    if (x->rank != 3 && x->rank != 4)
        return td__op_fail(c, TD_E_SHAPE, "input must be [N,C,L] or [N,C,H,W], got %s",
                           td__type_str(x));
    if (!target_sizes(c, x->rank - 2, to)) return false;
    td_value scale = c->in[2];
    if (scale.kind != TD_K_NONE) scale = td_value_float(td__value_f(scale));
    c->out[0] = x->rank == 3
                    ? td_op_upsample_nearest1d(x, (td_ints){to, 1}, scale)
                    : td_op_upsample_nearest2d(x, (td_ints){to, 2}, scale, scale);
    return true;
}
