/* shape_pool.c -- shape rules of pooling, with all checks of their arguments. Results
 * of 4-d inputs keep the input's memory format, as in ATen.
 *
 * A window covers kernel_size elements, `dilation` apart; windows start every `stride`
 * elements, the first at -padding. td__planes_window reads these arguments for the
 * forward and the backward op alike, and kernels call it again. */
#include "rules/windows.h"
#include "rules/geom.h"
#include "rules/shape_rules.h"

#include <limits.h>
#include <string.h>

static const char *name_of(td_opcall *c, int i) { return c->info->s.in[i].name; }

/* ---- windows ------------------------------------------------------------ */

/* A list of one entry serves all dims. They become the last of to[3]. */
static bool read_list(td_opcall *c, int i, int spatial, int64_t least, int64_t to[3]) {
    td_value v = c->in[i];
    if (v.n != 1 && (int)v.n != spatial)
        return td__op_fail(c, TD_E_ARG, "%s must have 1 or %d entries, got %u",
                           name_of(c, i), spatial, v.n);
    for (int d = 0; d < spatial; d++) {
        int64_t k = v.u.ints[v.n == 1 ? 0 : d];
        if (td__dim_lt(k, least))
            return td__op_fail(c, TD_E_ARG, "%s must be at least %lld, got %s",
                               name_of(c, i), (long long)least,
                               td__sizes_str((int)v.n, v.u.ints));
        if (k > INT_MAX)
            return td__op_fail(c, TD_E_ARG, "%s is too large, %s", name_of(c, i),
                               td__sizes_str((int)v.n, v.u.ints));
        to[3 - spatial + d] = k;
    }
    return true;
}

/* A list of windows: kernels and rules compute with these, so symbols are fixed. */
static bool read_fixed(td_opcall *c, int i, int spatial, int64_t least, int64_t to[3]) {
    if (!read_list(c, i, spatial, least, to)) return false;
    for (int d = 3 - spatial; d < 3; d++) to[d] = td__dim_fixed(to[d]);
    return true;
}

/* kernel_size, stride, padding and dilation from argument `at` on. An empty stride
 * means that of kernel_size: windows do not overlap. */
static bool read_window(td_opcall *c, int at, int spatial, bool dilated, td_planes *p) {
    bool    own_stride = c->in[at + 1].n > 0;
    int64_t k[3] = {1, 1, 1}, step[3] = {1, 1, 1}, pad[3] = {0}, dil[3] = {1, 1, 1};
    if (!read_fixed(c, at, spatial, 1, k) ||
        !read_fixed(c, own_stride ? at + 1 : at, spatial, 1, step) ||
        !read_fixed(c, at + 2, spatial, 0, pad) ||
        (dilated && !read_fixed(c, at + 3, spatial, 1, dil)))
        return false;
    for (int d = 3 - spatial; d < 3; d++)
        if (pad[d] > k[d] / 2)
            return td__op_fail(c, TD_E_ARG,
                               "padding must be at most half of kernel_size, got %s "
                               "for %s",
                               td__sizes_str(spatial, pad + 3 - spatial),
                               td__sizes_str(spatial, k + 3 - spatial));
    p->kd = k[0], p->kh = k[1], p->kw = k[2];
    p->sd = step[0], p->sh = step[1], p->sw = step[2];
    p->pd = pad[0], p->ph = pad[1], p->pw = pad[2];
    p->dd = dil[0], p->dh = dil[1], p->dw = dil[2];
    return true;
}

/* How many windows fit; the last one may stick out at the end when `ceil`, but it
 * must start inside the input or the padding before it. */
static int64_t windows(int64_t size, int64_t k, int64_t step, int64_t pad, int64_t dil,
                       bool ceil) {
    int64_t extent = td__dim_sub(td__dim_add(size, 2 * pad), dil * (k - 1) + 1);
    int64_t n =
        td__dim_add(td__dim_div(td__dim_add(extent, ceil ? step - 1 : 0), step), 1);
    /* the last window must start inside the input or the left padding, or it would see
     * padding only */
    if (ceil &&
        td__dim_le(td__dim_add(size, pad), td__dim_mul(td__dim_sub(n, 1), step)))
        n = td__dim_sub(n, 1);
    return n;
}

static const char *form_of(int spatial) {
    return spatial == 3   ? "[C,D,H,W] or [N,C,D,H,W]"
           : spatial == 2 ? "[C,H,W] or [N,C,H,W]"
                          : "[C,L] or [N,C,L]";
}

bool td__want_planes(td_opcall *c, int i, int spatial, bool channels) {
    const td_tensor *x = td__in(c, i);
    bool             ok = x->rank == spatial + 1 || x->rank == spatial + 2;
    for (int d = x->rank - spatial - !channels; ok && d < x->rank; d++)
        ok = td__dim_expect(x->size[d], TD_DIM_IS_NE, 0);
    return ok ||
           td__op_fail(c, TD_E_SHAPE, "%s must be %s and not empty but for %s, got %s",
                       name_of(c, i), form_of(spatial), channels ? "N and C" : "N",
                       td__type_str(x));
}

void td__planes_of(const td_tensor *x, int spatial, const int64_t *to, td_planes *p) {
    int first = x->rank - spatial;
    p->d = spatial == 3 ? x->size[first] : 1, p->od = spatial == 3 ? to[0] : 1;
    p->h = x->size[x->rank - 2], p->oh = to[spatial - 2];
    p->w = x->size[x->rank - 1], p->ow = to[spatial - 1];
    p->n = 1;
    for (int d = 0; d < first; d++) p->n = td__dim_mul(p->n, x->size[d]);
}

/* The input is argument at - 1. */
bool td__planes_window(td_opcall *c, int at, int spatial, bool dilated, td_planes *p) {
    const td_tensor *x = td__in(c, at - 1);
    bool             ceil = td__in_bool(c, at + (dilated ? 4 : 3));
    if (!td__want_planes(c, at - 1, spatial, false) ||
        !read_window(c, at, spatial, dilated, p))
        return false;
    td__planes_of(x, spatial, (int64_t[]){1, 1, 1}, p);
    if (spatial == 3) p->od = windows(p->d, p->kd, p->sd, p->pd, p->dd, ceil);
    p->oh = windows(p->h, p->kh, p->sh, p->ph, p->dh, ceil);
    p->ow = windows(p->w, p->kw, p->sw, p->pw, p->dw, ceil);
    int64_t extent[3] = {p->dd * (p->kd - 1) + 1, p->dh * (p->kh - 1) + 1,
                         p->dw * (p->kw - 1) + 1};
    return (td__dim_le(1, p->od) && td__dim_le(1, p->oh) && td__dim_le(1, p->ow)) ||
           td__op_fail(c, TD_E_SHAPE, "a window of %s does not fit into %s",
                       td__sizes_str(spatial, extent + 3 - spatial), td__type_str(x));
}

/* ---- results ------------------------------------------------------------ */

/* Strides are products of sizes also where a size is 0, as ATen's. */
void td__planes_meta(td_meta *m, const td_tensor *like, const td_tensor *format,
                     int spatial, const int64_t *to, bool keep) {
    td__meta_dense(m, (td_dtype)format->dtype, like->rank, like->size);
    for (int d = 0; d < spatial; d++) m->size[m->rank - spatial + d] = to[d];
    if (!keep || m->rank != spatial + 2 || !td__is_channels_last(format)) return;
    int64_t step = m->size[1];
    m->strided = true;
    m->stride[1] = 1;
    for (int d = m->rank - 1; d > 1; d--) {
        m->stride[d] = step;
        step = td__dim_mul(step, m->size[d]);
    }
    m->stride[0] = step;
}

/* Fresh, with the sizes and memory format of x. */
static void meta_as(td_meta *m, const td_tensor *x, int spatial, bool keep) {
    td__planes_meta(m, x, x, spatial, x->size + x->rank - spatial, keep);
}

bool td__want_float(td_opcall *c, int i, td_dtype also) {
    const td_tensor *x = td__in(c, i);
    return td__is_float((td_dtype)x->dtype) || x->dtype == also ||
           td__op_fail(c, TD_E_DTYPE, "%s must be floating%s%s, got %s", name_of(c, i),
                       also == TD_DTYPE_NONE ? "" : " or ",
                       also == TD_DTYPE_NONE ? "" : td_dtype_name(also),
                       td__type_str(x));
}

bool td__want_planes_like(td_opcall *c, int i, const td_tensor *like, int spatial,
                          const int64_t *to) {
    const td_tensor *g = td__in(c, i);
    td_meta          m;
    td__planes_meta(&m, like, like, spatial, to, false);
    return (g->rank == m.rank && td__dims_eq(g->size, m.size, m.rank)) ||
           td__op_fail(c, TD_E_SHAPE, "%s must be %s, got %s", name_of(c, i),
                       td__sizes_str(m.rank, m.size), td__type_str(g));
}

/* A backward row: grad_output is argument 0, self argument 1. */
static bool want_grad(td_opcall *c, int spatial, const int64_t *to) {
    const td_tensor *g = td__in(c, 0), *x = td__in(c, 1);
    if (g->dtype != x->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "grad_output and self must have one dtype, %s vs %s",
                           td__type_str(g), td__type_str(x));
    return td__want_float(c, 1, TD_DTYPE_NONE) &&
           td__want_planes_like(c, 0, x, spatial, to);
}

/* The sizes of the result along the last `spatial` dims. */
static const int64_t *result_of(const td_planes *p, int spatial, int64_t to[3]) {
    to[0] = p->od, to[1] = p->oh, to[2] = p->ow;
    return to + 3 - spatial;
}

/* Argument i holds indices. */
static bool want_indices(td_opcall *c, int i) {
    const td_tensor *index = td__in(c, i);
    return index->dtype == TD_I64 ||
           td__op_fail(c, TD_E_DTYPE, "%s must be i64, got %s", name_of(c, i),
                       td__type_str(index));
}

/* ---- maximum ------------------------------------------------------------ */

/* Maxima, and the index of each in its plane. */
static void with_indices(td_opcall *c) {
    c->meta[1] = c->meta[0];
    c->meta[1].dtype = TD_I64;
}

/* in: self, kernel_size, stride, padding, dilation, ceil_mode. */
static bool max_pool(td_opcall *c, int spatial) {
    const td_tensor *x = td__in(c, 0);
    td_planes        p;
    int64_t          to[3];
    if (!td__planes_window(c, 1, spatial, true, &p)) return false;
    if (x->dtype == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "self may not be bool, got %s",
                           td__type_str(x));
    td__planes_meta(&c->meta[0], x, x, spatial, result_of(&p, spatial, to), true);
    with_indices(c);
    return true;
}

bool td__shape_max_pool2d(td_opcall *c) { return max_pool(c, 2); }
bool td__shape_max_pool3d(td_opcall *c) { return max_pool(c, 3); }

/* in: grad_output, self, the five window arguments, indices. */
bool td__shape_max_pool2d_backward(td_opcall *c) {
    const td_tensor *x = td__in(c, 1);
    td_planes        p;
    int64_t          to[3];
    if (!td__planes_window(c, 2, 2, true, &p) ||
        !want_grad(c, 2, result_of(&p, 2, to)) ||
        !td__want_planes_like(c, 7, x, 2, result_of(&p, 2, to)) || !want_indices(c, 7))
        return false;
    meta_as(&c->meta[0], x, 2, true);
    return true;
}

/* in: self, output_size. Only the first dim, channels or samples, may be empty. */
static bool adaptive_max(td_opcall *c, int spatial) {
    const td_tensor *x = td__in(c, 0);
    int64_t          to[3] = {1, 1, 1};
    if (!td__want_planes(c, 0, spatial, x->rank == spatial + 1) ||
        !td__want_float(c, 0, TD_DTYPE_NONE) || !read_list(c, 1, spatial, 0, to))
        return false;
    td__planes_meta(&c->meta[0], x, x, spatial, to + 3 - spatial, spatial == 2);
    with_indices(c);
    return true;
}

bool td__shape_adaptive_max2d(td_opcall *c) { return adaptive_max(c, 2); }
bool td__shape_adaptive_max3d(td_opcall *c) { return adaptive_max(c, 3); }

/* in: self, kernel_size, output_size, random_samples [N,C,spatial]. Volumes must have
 * an element more than they need, as in ATen. */
static bool fractional_max(td_opcall *c, int spatial) {
    const td_tensor *x = td__in(c, 0), *r = td__in(c, 3);
    int64_t          k[3] = {1, 1, 1}, to[3] = {1, 1, 1};
    int              first = x->rank - spatial;
    if (!td__want_planes(c, 0, spatial, false) ||
        !td__want_float(c, 0, TD_DTYPE_NONE) || !read_fixed(c, 1, spatial, 1, k) ||
        !read_list(c, 2, spatial, 1, to))
        return false;
    for (int d = 0; d < spatial; d++) {
        int64_t need =
            td__dim_add(to[3 - spatial + d], k[3 - spatial + d] - (spatial == 2));
        if (td__dim_lt(x->size[first + d], need))
            return td__op_fail(c, TD_E_SHAPE,
                               "kernel_size %s and output_size %s need more than %s",
                               td__sizes_str(spatial, k + 3 - spatial),
                               td__sizes_str(spatial, to + 3 - spatial),
                               td__type_str(x));
    }
    int64_t want[3] = {first == 2 ? x->size[0] : 1, x->size[first - 1], spatial};
    if (r->dtype != x->dtype || r->rank != 3 || !td__dims_eq(r->size, want, 3))
        return td__op_fail(c, TD_E_SHAPE, "random_samples must be %s of %s, got %s",
                           td__sizes_str(3, want), td_dtype_name((td_dtype)x->dtype),
                           td__type_str(r));
    td__planes_meta(&c->meta[0], x, x, spatial, to + 3 - spatial, false);
    with_indices(c);
    return true;
}

bool td__shape_fractional_max2d(td_opcall *c) { return fractional_max(c, 2); }
bool td__shape_fractional_max3d(td_opcall *c) { return fractional_max(c, 3); }

/* ---- by indices --------------------------------------------------------- */

/* `spatial`, argument i, is 2 or 3, and argument 0 has as many dims at least. */
static bool want_spatial(td_opcall *c, int i) {
    int64_t n = td__in_int(c, i);
    return ((n == 2 || n == 3) && td__in(c, 0)->rank >= n) ||
           td__op_fail(c, TD_E_ARG, "%s must be 2 or 3 dims of self, got %lld for %s",
                       name_of(c, i), (long long)n, td__type_str(td__in(c, 0)));
}

/* in: values, indices of the same sizes, size, spatial. Result: `size`, whose leading
 * dims are those of the values. */
bool td__shape_pool_put(td_opcall *c) {
    const td_tensor *x = td__in(c, 0), *index = td__in(c, 1);
    td_value         v = c->in[2];
    if (!want_spatial(c, 3) || !want_indices(c, 1)) return false;
    int  lead = x->rank - (int)td__in_int(c, 3);
    bool ok = (int)v.n == x->rank && td__dims_eq(v.u.ints, x->size, lead);
    if (!ok)
        return td__op_fail(c, TD_E_SHAPE, "size %s does not fit %s",
                           td__sizes_str((int)v.n, v.u.ints), td__type_str(x));
    if (index->rank != x->rank || !td__dims_eq(index->size, x->size, x->rank))
        return td__op_fail(c, TD_E_SHAPE, "indices must have the sizes of %s, got %s",
                           td__type_str(x), td__type_str(index));
    td__meta_dense(&c->meta[0], (td_dtype)x->dtype, x->rank, v.u.ints);
    return true;
}

/* The same for values of any layout, whose result keeps channels-last. */
bool td__shape_max_unpool(td_opcall *c) {
    int spatial = (int)td__in_int(c, 3);
    if (!td__shape_pool_put(c) || !td__want_float(c, 0, TD_DTYPE_NONE)) return false;
    td__planes_meta(&c->meta[0], td__in(c, 0), td__in(c, 0), spatial,
                    c->in[2].u.ints + c->in[2].n - spatial, spatial == 2);
    return true;
}

/* in: self, indices, spatial. Result: sizes of the indices. */
bool td__shape_pool_take(td_opcall *c) {
    const td_tensor *x = td__in(c, 0), *index = td__in(c, 1);
    if (!want_spatial(c, 2) || !want_indices(c, 1)) return false;
    int lead = x->rank - (int)td__in_int(c, 2);
    if (index->rank != x->rank || !td__dims_eq(index->size, x->size, lead))
        return td__op_fail(c, TD_E_SHAPE, "indices %s do not fit %s",
                           td__type_str(index), td__type_str(x));
    td__meta_dense(&c->meta[0], (td_dtype)x->dtype, x->rank, index->size);
    return true;
}

/* ---- average ------------------------------------------------------------ */

/* divisor_override, when given, is not 0. */
static bool want_divisor(td_opcall *c, int i) {
    return td__in_none(c, i) || td__in_int(c, i) != 0 ||
           td__op_fail(c, TD_E_ARG, "divisor_override must not be zero");
}

/* Volumes must be as large as the kernel, padding aside, as in ATen. */
static bool want_kernel_inside(td_opcall *c, const td_planes *p, int spatial) {
    return spatial != 3 ||
           (!td__dim_lt(p->d, p->kd) && !td__dim_lt(p->h, p->kh) &&
            !td__dim_lt(p->w, p->kw)) ||
           td__op_fail(c, TD_E_SHAPE, "kernel_size %s is larger than volumes of %s",
                       td__sizes_str(3, (int64_t[]){p->kd, p->kh, p->kw}),
                       td__sizes_str(3, (int64_t[]){p->d, p->h, p->w}));
}

/* in: self, kernel_size, stride, padding, ceil_mode, count_include_pad,
 * divisor_override. */
static bool avg_pool(td_opcall *c, int spatial) {
    const td_tensor *x = td__in(c, 0);
    td_planes        p;
    int64_t          to[3];
    if (!td__planes_window(c, 1, spatial, false, &p) || !want_divisor(c, 6) ||
        !want_kernel_inside(c, &p, spatial) || !td__want_float(c, 0, TD_I64))
        return false;
    td__planes_meta(&c->meta[0], x, x, spatial, result_of(&p, spatial, to),
                    spatial == 2);
    return true;
}

bool td__shape_avg_pool2d(td_opcall *c) { return avg_pool(c, 2); }
bool td__shape_avg_pool3d(td_opcall *c) { return avg_pool(c, 3); }

/* in: grad_output, self, then as avg_pool2d. */
static bool avg_pool_backward(td_opcall *c, int spatial) {
    td_planes p;
    int64_t   to[3];
    if (!td__planes_window(c, 2, spatial, false, &p) || !want_divisor(c, 7) ||
        !want_grad(c, spatial, result_of(&p, spatial, to)))
        return false;
    meta_as(&c->meta[0], td__in(c, 1), spatial, spatial == 2);
    return true;
}

bool td__shape_avg_pool2d_backward(td_opcall *c) { return avg_pool_backward(c, 2); }
bool td__shape_avg_pool3d_backward(td_opcall *c) { return avg_pool_backward(c, 3); }

/* Planes that windows of at least one element can cover. */
static bool want_adaptive(td_opcall *c, int i, int spatial) {
    const td_tensor *x = td__in(c, i);
    bool             ok = x->rank == spatial + 1 || x->rank == spatial + 2;
    for (int d = x->rank - spatial; ok && d < x->rank; d++)
        ok = td__dim_expect(x->size[d], TD_DIM_IS_NE, 0);
    return ok || td__op_fail(c, TD_E_SHAPE, "self must be %s with %s not 0, got %s",
                             form_of(spatial), spatial == 2 ? "H and W" : "D, H and W",
                             td__type_str(x));
}

/* in: self, output_size with an entry per dim. */
static bool adaptive(td_opcall *c, int spatial) {
    const td_tensor *x = td__in(c, 0);
    td_value         v = c->in[1];
    if ((int)v.n != spatial)
        return td__op_fail(c, TD_E_ARG, "output_size must have %d entries, got %u",
                           spatial, v.n);
    for (int d = 0; d < spatial; d++)
        if (td__dim_lt(v.u.ints[d], 0))
            return td__op_fail(c, TD_E_ARG, "output_size may not be negative, got %s",
                               td__sizes_str(spatial, v.u.ints));
    if (!want_adaptive(c, 0, spatial)) return false;
    td__planes_meta(&c->meta[0], x, x, spatial, v.u.ints, spatial == 2);
    bool empty = td__dim_eq(td__numel(x->rank, c->meta[0].size), 0);
    return empty ||
           td__want_float(c, 0, TD_DTYPE_NONE); /* ATen asks when it computes */
}

bool td__shape_adaptive_pool(td_opcall *c) { return adaptive(c, 2); }
bool td__shape_adaptive_pool3d(td_opcall *c) { return adaptive(c, 3); }

/* in: grad_output, self. */
static bool adaptive_backward(td_opcall *c, int spatial) {
    const td_tensor *g = td__in(c, 0), *x = td__in(c, 1);
    if (!want_adaptive(c, 1, spatial)) return false;
    bool ok = g->rank == x->rank;
    for (int d = 1; ok && d < g->rank; d++)
        ok = td__dim_expect(g->size[d], TD_DIM_IS_NE, 0);
    if (!ok)
        return td__op_fail(c, TD_E_SHAPE,
                           "grad_output must have the rank of self and no empty "
                           "dim but the first, %s vs %s",
                           td__type_str(g), td__type_str(x));
    if (!want_grad(c, spatial, g->size + g->rank - spatial)) return false;
    meta_as(&c->meta[0], x, spatial, spatial == 2);
    return true;
}

bool td__shape_adaptive_pool_backward(td_opcall *c) { return adaptive_backward(c, 2); }
bool td__shape_adaptive_pool3d_backward(td_opcall *c) {
    return adaptive_backward(c, 3);
}
