/* shape_norm.c -- sizes, dtypes and argument checks of the norm layers. Halves may come
 * with f32 parameters; statistics then are f32, else of the input's dtype.
 *
 * Backward ops end with output_mask, three numbers that say which of dx, dw and db are
 * wanted; a result that is not wanted is an empty tensor. */
#include "rules/geom.h"
#include "rules/shape_rules.h"

/* The dtype of statistics: that of the parameters, which must agree. */
static bool stat_dtype(td_opcall *c, const int *params, int n, td_dtype *dt) {
    td_tensor *x = td__in(c, 0);
    td_dtype   in = (td_dtype)x->dtype, got = TD_DTYPE_NONE;
    if (!td__is_float(in))
        return td__op_fail(c, TD_E_DTYPE, "input must be floating point, got %s",
                           td__type_str(x));
    for (int i = 0; i < n; i++) {
        td_tensor *p = td__in(c, params[i]);
        if (!p) continue;
        bool ok = (td_dtype)p->dtype == in || (td__is_half(in) && p->dtype == TD_F32);
        if (!ok || (got != TD_DTYPE_NONE && got != (td_dtype)p->dtype))
            return td__op_fail(c, TD_E_DTYPE,
                               "%s must be of the input's dtype, or f32 with the other "
                               "parameters when the input is half, got %s for %s",
                               c->info->s.in[params[i]].name, td__type_str(p),
                               td__type_str(x));
        got = (td_dtype)p->dtype;
    }
    *dt = got == TD_DTYPE_NONE ? in : got;
    return true;
}

/* An optional vector argument of n elements. */
static bool is_vector(td_opcall *c, int arg, int64_t n) {
    td_tensor *p = td__in(c, arg);
    if (!p || (p->rank == 1 && td__dim_eq(p->size[0], n))) return true;
    return td__op_fail(c, TD_E_SHAPE, "%s must have one element per channel, %s for %s",
                       c->info->s.in[arg].name, td__type_str(p),
                       td__type_str(td__in(c, 0)));
}

/* grad_out and input have the same sizes. */
static bool same_sizes(td_opcall *c, const td_tensor *a, const td_tensor *b) {
    return td__same_sizes(a, b) ||
           td__op_fail(c, TD_E_SHAPE, "the gradient's sizes differ, %s vs %s",
                       td__type_str(a), td__type_str(b));
}

/* Argument arg, when given, is floating. */
static bool is_floating(td_opcall *c, int arg) {
    td_tensor *t = td__in(c, arg);
    return !t || td__is_float((td_dtype)t->dtype) ||
           td__op_fail(c, TD_E_DTYPE, "%s must be floating point, got %s",
                       c->info->s.in[arg].name, td__type_str(t));
}

/* Statistics, arguments arg and the next, have these sizes. */
static bool fit_stats(td_opcall *c, int arg, int rank, const int64_t *size) {
    for (int i = arg; i < arg + 2; i++) {
        td_tensor *t = td__in(c, i);
        bool       same = t->rank == rank;
        for (int d = 0; same && d < rank; d++) same = td__dim_eq(t->size[d], size[d]);
        if (!same)
            return td__op_fail(c, TD_E_SHAPE, "%s must have the sizes %s, got %s",
                               c->info->s.in[i].name, td__sizes_str(rank, size),
                               td__type_str(t));
    }
    return true;
}

/* Checks that all backward ops share: grad_out and input, mean and rstd, a weight and,
 * in the end, the mask. */
static bool backward_args(td_opcall *c, int mean, int weight) {
    const td_value *mask = &c->in[c->n_in - 1];
    if (mask->n != 3)
        return td__op_fail(c, TD_E_ARG, "output_mask must have 3 entries, got %u",
                           mask->n);
    return same_sizes(c, td__in(c, 0), td__in(c, 1)) && is_floating(c, 0) &&
           is_floating(c, 1) && is_floating(c, mean) && is_floating(c, mean + 1) &&
           is_floating(c, weight);
}

/* An output that the mask leaves out is empty. */
static void masked_meta(td_opcall *c, int i, td_dtype dt, int rank,
                        const int64_t *size) {
    const td_value      *mask = &c->in[c->n_in - 1];
    static const int64_t none[1] = {0};
    bool                 on = mask->u.ints[i] != 0;
    td__meta_dense(&c->meta[i], dt, on ? rank : 1, on ? size : none);
}

/* Row-major, but channels last stays so. */
static void meta_image(td_meta *m, const td_tensor *x, bool last) {
    td__meta_dense(m, (td_dtype)x->dtype, x->rank, x->size);
    if (!last) return;
    m->strided = true;
    td__strides_channels_last(x->rank, x->size, m->stride);
}

/* As ATen's batch norm sees it: a packed channels-last input counts even where
 * the strides of dims of size 1 say otherwise. */
static bool packed_last(const td_tensor *x) {
    int64_t stride[TD_MAX_RANK];
    bool    same = x->rank == 4 || x->rank == 5;
    if (!same || td__is_dense(x->rank, x->size, x->stride)) return false;
    td__strides_channels_last(x->rank, x->size, stride);
    for (int i = 0; i < x->rank; i++)
        same =
            same && (td__dim_eq(x->size[i], 1) || td__dim_eq(x->stride[i], stride[i]));
    return same || td__is_channels_last(x);
}

/* ---- layer norm -------------------------------------------------------- */

/* The last sizes of x are normalized_shape. */
static bool shape_ends_with(td_opcall *c, const td_tensor *x, const td_value *norm) {
    int n = (int)norm->n, lead = x->rank - n;
    if (n < 1)
        return td__op_fail(c, TD_E_SHAPE,
                           "normalized_shape must have at least one dim");
    bool fits = lead >= 0;
    for (int i = 0; fits && i < n; i++)
        fits = td__dim_eq(norm->u.ints[i], x->size[lead + i]);
    return fits ||
           td__op_fail(c, TD_E_SHAPE, "input must end with normalized_shape %s, got %s",
                       td__sizes_str(n, norm->u.ints), td__type_str(x));
}

/* weight or bias, when given, has the sizes of normalized_shape. */
static bool fits_norm(td_opcall *c, int arg, const td_value *norm) {
    td_tensor *p = td__in(c, arg);
    if (!p) return true;
    bool fits = p->rank == (int)norm->n;
    for (int i = 0; fits && i < p->rank; i++)
        fits = td__dim_eq(p->size[i], norm->u.ints[i]);
    return fits ||
           td__op_fail(c, TD_E_SHAPE, "%s must be of normalized_shape %s, got %s",
                       c->info->s.in[arg].name,
                       td__sizes_str((int)norm->n, norm->u.ints), td__type_str(p));
}

/* in: input, normalized_shape, weight, bias, eps. Results: out, then mean and rstd with
 * size 1 in the normalized dims. */
bool td__shape_layer_norm(td_opcall *c) {
    static const int params[] = {2, 3};
    td_tensor       *x = td__in(c, 0);
    td_dtype         dt;
    if (!shape_ends_with(c, x, &c->in[1]) || !fits_norm(c, 2, &c->in[1]) ||
        !fits_norm(c, 3, &c->in[1]) || !stat_dtype(c, params, 2, &dt))
        return false;
    td__meta_dense(&c->meta[0], (td_dtype)x->dtype, x->rank, x->size);
    td__meta_dense(&c->meta[1], dt, x->rank, x->size);
    for (int i = x->rank - (int)c->in[1].n; i < x->rank; i++) c->meta[1].size[i] = 1;
    c->meta[2] = c->meta[1];
    return true;
}

/* in: grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask. */
bool td__shape_layer_norm_backward(td_opcall *c) {
    td_tensor *x = td__in(c, 1), *w = td__in(c, 5);
    td_value  *norm = &c->in[2];
    td_dtype   dt = w ? (td_dtype)w->dtype : (td_dtype)x->dtype;
    int64_t    stats[TD_MAX_RANK];
    if (!backward_args(c, 3, 5) || !shape_ends_with(c, x, norm) ||
        !fits_norm(c, 5, norm))
        return false;
    for (int i = 0; i < x->rank; i++)
        stats[i] = i < x->rank - (int)norm->n ? x->size[i] : 1;
    if (!fit_stats(c, 3, x->rank, stats)) return false;
    masked_meta(c, 0, (td_dtype)x->dtype, x->rank, x->size);
    masked_meta(c, 1, dt, (int)norm->n, norm->u.ints);
    masked_meta(c, 2, dt, (int)norm->n, norm->u.ints);
    return true;
}

/* ---- group norm -------------------------------------------------------- */

/* N, C, HxW and group, from argument `at`, describe x. */
static bool group_args(td_opcall *c, const td_tensor *x, int at) {
    int64_t n = td__in_int(c, at), ch = td__in_int(c, at + 1);
    int64_t hw = td__in_int(c, at + 2), group = td__in_int(c, at + 3);
    if (x->rank < 2 || !td__dim_eq(x->size[0], n) || !td__dim_eq(x->size[1], ch) ||
        !td__dim_eq(td__dim_mul(td__dim_mul(n, ch), hw), td__numel(x->rank, x->size)))
        return td__op_fail(c, TD_E_SHAPE,
                           "N = %lld, C = %lld and HxW = %lld do not match input %s",
                           (long long)n, (long long)ch, (long long)hw, td__type_str(x));
    if (td__dim_lt(ch, 1) || td__dim_lt(hw, 1))
        return td__op_fail(c, TD_E_SHAPE,
                           "input is %s; it needs at least one channel, and each "
                           "channel at least one element",
                           td__type_str(x));
    if (group < 1 || !td__dim_eq(td__dim_mod(ch, group), 0))
        return td__op_fail(c, TD_E_ARG, "%lld groups do not divide the channels of %s",
                           (long long)group, td__type_str(x));
    return true;
}

/* in: input, weight, bias, N, C, HxW, group, eps. Results: out, then mean and rstd [N,
 * group]. */
bool td__shape_group_norm(td_opcall *c) {
    static const int params[] = {1, 2};
    td_tensor       *x = td__in(c, 0);
    int64_t          ch = td__in_int(c, 4);
    int64_t          size[2] = {td__in_int(c, 3), td__in_int(c, 6)};
    td_dtype         dt;
    if (!group_args(c, x, 3)) return false;
    if (!is_vector(c, 1, ch) || !is_vector(c, 2, ch) || !stat_dtype(c, params, 2, &dt))
        return false;
    meta_image(&c->meta[0], x, td__is_channels_last(x));
    td__meta_dense(&c->meta[1], dt, 2, size);
    td__meta_dense(&c->meta[2], dt, 2, size);
    return true;
}

/* in: grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask. */
bool td__shape_group_norm_backward(td_opcall *c) {
    td_tensor *x = td__in(c, 1), *w = td__in(c, 4);
    int64_t    ch = td__in_int(c, 6), stats[2] = {td__in_int(c, 5), td__in_int(c, 8)};
    td_dtype   dt = w ? (td_dtype)w->dtype : (td_dtype)x->dtype;
    if (!backward_args(c, 2, 4) || !group_args(c, x, 5) || !is_vector(c, 4, ch) ||
        !fit_stats(c, 2, 2, stats))
        return false;
    masked_meta(c, 0, (td_dtype)x->dtype, x->rank, x->size);
    masked_meta(c, 1, dt, 1, &ch);
    masked_meta(c, 2, dt, 1, &ch);
    return true;
}

/* ---- batch norm -------------------------------------------------------- */

/* input is [N,C,..] and each of the parameters named, when given, is [C]. */
static bool batch_args(td_opcall *c, const int *params, int n, td_dtype *dt) {
    td_tensor *x = td__in(c, 0);
    if (x->rank < 2)
        return td__op_fail(c, TD_E_SHAPE,
                           "input needs a batch and a channel dim, got %s",
                           td__type_str(x));
    for (int i = 0; i < n; i++)
        if (!is_vector(c, params[i], x->size[1])) return false;
    return stat_dtype(c, params, n, dt);
}

/* in: input, weight, bias, running_mean, running_var, momentum, eps. Results: out, then
 * mean and rstd of the batch [C]. */
bool td__shape_batch_norm_train(td_opcall *c) {
    static const int params[] = {1, 2, 3, 4};
    td_tensor       *x = td__in(c, 0);
    td_dtype         dt;
    if (!batch_args(c, params, 4, &dt)) return false;
    if (!td__in(c, 3) != !td__in(c, 4))
        return td__op_fail(
            c, TD_E_ARG, "running_mean and running_var must both be given, or neither");
    meta_image(&c->meta[0], x, packed_last(x));
    td__meta_dense(&c->meta[1], dt, 1, &x->size[1]);
    td__meta_dense(&c->meta[2], dt, 1, &x->size[1]);
    return true;
}

/* The same, with the new running statistics as results 3 and 4 instead of writes; empty
 * where none were given. */
bool td__shape_batch_norm_functional(td_opcall *c) {
    static const int64_t none = 0;
    td_dtype             dt = (td_dtype)td__in(c, 0)->dtype;
    if (!td__shape_batch_norm_train(c)) return false;
    for (int i = 3; i < 5; i++) {
        td_tensor *t = td__in(c, i);
        td__meta_dense(&c->meta[i], t ? (td_dtype)t->dtype : dt, 1,
                       t ? t->size : &none);
    }
    return true;
}

/* in: input, weight, bias, running_mean, running_var, eps. */
bool td__shape_batch_norm_eval(td_opcall *c) {
    static const int params[] = {1, 2, 3, 4};
    td_dtype         dt;
    if (!batch_args(c, params, 4, &dt)) return false;
    meta_image(&c->meta[0], td__in(c, 0), packed_last(td__in(c, 0)));
    return true;
}

/* in: grad_out, input, mean, rstd, weight, output_mask. */
bool td__shape_batch_norm_backward(td_opcall *c) {
    td_tensor *x = td__in(c, 1), *w = td__in(c, 4);
    td_dtype   dt = w ? (td_dtype)w->dtype : (td_dtype)x->dtype;
    if (!backward_args(c, 2, 4)) return false;
    if (x->rank < 2)
        return td__op_fail(c, TD_E_SHAPE,
                           "input needs a batch and a channel dim, got %s",
                           td__type_str(x));
    if (!is_vector(c, 4, x->size[1]) || !fit_stats(c, 2, 1, &x->size[1])) return false;
    masked_meta(c, 0, (td_dtype)x->dtype, x->rank, x->size);
    if (c->meta[0].rank == x->rank) meta_image(&c->meta[0], x, packed_last(x));
    masked_meta(c, 1, dt, 1, &x->size[1]);
    masked_meta(c, 2, dt, 1, &x->size[1]);
    return true;
}
