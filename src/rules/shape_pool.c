/* shape_pool.c -- shape rules of pooling and resampling, with all checks of their
 * arguments. Results of 4-d inputs keep the input's memory format, as in ATen.
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

/* A list of one entry serves both dims. */
static bool read_pair(td_opcall *c, int i, int64_t least, int64_t *h, int64_t *w) {
    td_value v = c->in[i];
    if (v.n != 1 && v.n != 2)
        return td__op_fail(c, TD_E_ARG, "%s must have 1 or 2 entries, got %u",
                           name_of(c, i), v.n);
    *h = v.u.ints[0];
    *w = v.u.ints[v.n - 1];
    if (*h < least || *w < least)
        return td__op_fail(c, TD_E_ARG, "%s must be at least %lld, got %s",
                           name_of(c, i), (long long)least,
                           td__sizes_str((int)v.n, v.u.ints));
    return (*h <= INT_MAX && *w <= INT_MAX) ||
           td__op_fail(c, TD_E_ARG, "%s is too large, %s", name_of(c, i),
                       td__sizes_str((int)v.n, v.u.ints));
}

/* kernel_size, stride, padding and dilation from argument `at` on. An empty stride
 * means that of kernel_size: windows do not overlap. */
static bool read_window(td_opcall *c, int at, bool dilated, td_planes *p) {
    bool own_stride = c->in[at + 1].n > 0;
    p->dh = p->dw = 1;
    if (!read_pair(c, at, 1, &p->kh, &p->kw) ||
        !read_pair(c, own_stride ? at + 1 : at, 1, &p->sh, &p->sw) ||
        !read_pair(c, at + 2, 0, &p->ph, &p->pw) ||
        (dilated && !read_pair(c, at + 3, 1, &p->dh, &p->dw)))
        return false;
    return (p->ph <= p->kh / 2 && p->pw <= p->kw / 2) ||
           td__op_fail(c, TD_E_ARG,
                       "padding must be at most half of kernel_size, got %s "
                       "for %s",
                       td__sizes_str(2, (int64_t[]){p->ph, p->pw}),
                       td__sizes_str(2, (int64_t[]){p->kh, p->kw}));
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

/* [C,H,W] or [N,C,H,W]; only N may be 0. */
static bool want_planes(td_opcall *c, int i) {
    const td_tensor *x = td__in(c, i);
    bool             ok = x->rank == 3 || x->rank == 4;
    for (int d = x->rank - 3; ok && d < x->rank; d++) ok = !td__dim_eq(x->size[d], 0);
    return ok || td__op_fail(c, TD_E_SHAPE,
                             "%s must be [C,H,W] or [N,C,H,W] and not empty "
                             "but for N, got %s",
                             name_of(c, i), td__type_str(x));
}

void td__planes_of(const td_tensor *x, int64_t oh, int64_t ow, td_planes *p) {
    p->h = x->size[x->rank - 2], p->w = x->size[x->rank - 1];
    p->oh = oh, p->ow = ow;
    p->n = 1;
    for (int d = 0; d < x->rank - 2; d++) p->n = td__dim_mul(p->n, x->size[d]);
}

/* The input is argument at - 1. */
bool td__planes_window(td_opcall *c, int at, bool dilated, td_planes *p) {
    const td_tensor *x = td__in(c, at - 1);
    bool             ceil = td__in_bool(c, at + (dilated ? 4 : 3));
    if (!want_planes(c, at - 1) || !read_window(c, at, dilated, p)) return false;
    td__planes_of(x, 0, 0, p);
    p->oh = windows(p->h, p->kh, p->sh, p->ph, p->dh, ceil);
    p->ow = windows(p->w, p->kw, p->sw, p->pw, p->dw, ceil);
    return (td__dim_le(1, p->oh) && td__dim_le(1, p->ow)) ||
           td__op_fail(c, TD_E_SHAPE, "a window of %s does not fit into %s",
                       td__sizes_str(2, (int64_t[]){p->dh * (p->kh - 1) + 1,
                                                    p->dw * (p->kw - 1) + 1}),
                       td__type_str(x));
}

/* ---- results ------------------------------------------------------------ */

/* Sizes of `like` with the last two replaced, in the memory format of `format`. */
static void planes_meta(td_meta *m, const td_tensor *like, const td_tensor *format,
                        int64_t h, int64_t w) {
    td__meta_dense(m, (td_dtype)format->dtype, like->rank, like->size);
    m->size[m->rank - 2] = h;
    m->size[m->rank - 1] = w;
    if (m->rank == 4 && td__is_channels_last(format)) {
        /* strides are products of sizes also where a size is 0, as ATen's */
        const int64_t *n = m->size; /* products as they are, also where empty */
        m->strided = true;
        m->stride[1] = 1;
        m->stride[3] = n[1];
        m->stride[2] = td__dim_mul(n[1], n[3]);
        m->stride[0] = td__dim_mul(m->stride[2], n[2]);
    }
}

/* Fresh, with the sizes and memory format of x. */
static void meta_as(td_meta *m, const td_tensor *x) {
    planes_meta(m, x, x, x->size[x->rank - 2], x->size[x->rank - 1]);
}

/* Argument i is floating, or of the one other dtype that ATen's kernel takes. */
static bool want_float(td_opcall *c, int i, td_dtype also) {
    const td_tensor *x = td__in(c, i);
    return td__is_float((td_dtype)x->dtype) || x->dtype == also ||
           td__op_fail(c, TD_E_DTYPE, "%s must be floating%s%s, got %s", name_of(c, i),
                       also == TD_DTYPE_NONE ? "" : " or ",
                       also == TD_DTYPE_NONE ? "" : td_dtype_name(also),
                       td__type_str(x));
}

/* Argument i must have the sizes of x with the last two replaced. */
static bool want_result(td_opcall *c, int i, const td_tensor *x, int64_t h, int64_t w) {
    const td_tensor *g = td__in(c, i);
    td_meta          m;
    planes_meta(&m, x, x, h, w);
    bool same = g->rank == m.rank;
    for (int d = 0; same && d < m.rank; d++) same = td__dim_eq(g->size[d], m.size[d]);
    return same || td__op_fail(c, TD_E_SHAPE, "%s must be %s, got %s", name_of(c, i),
                               td__sizes_str(m.rank, m.size), td__type_str(g));
}

/* A backward row: grad_output is argument 0, self argument 1. */
static bool want_grad(td_opcall *c, int64_t h, int64_t w) {
    const td_tensor *g = td__in(c, 0), *x = td__in(c, 1);
    if (g->dtype != x->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "grad_output and self must have one dtype, %s vs %s",
                           td__type_str(g), td__type_str(x));
    return want_float(c, 1, TD_DTYPE_NONE) && want_result(c, 0, x, h, w);
}

/* ---- maximum ------------------------------------------------------------ */

/* in: self, kernel_size, stride, padding, dilation, ceil_mode. Results: the maxima, and
 * the index of each in its plane. */
bool td__shape_max_pool2d(td_opcall *c) {
    const td_tensor *x = td__in(c, 0);
    td_planes        p;
    if (!td__planes_window(c, 1, true, &p)) return false;
    if (x->dtype == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "self may not be bool, got %s",
                           td__type_str(x));
    planes_meta(&c->meta[0], x, x, p.oh, p.ow);
    c->meta[1] = c->meta[0];
    c->meta[1].dtype = TD_I64;
    return true;
}

/* in: grad_output, self, the five window arguments, indices. */
bool td__shape_max_pool2d_backward(td_opcall *c) {
    const td_tensor *x = td__in(c, 1), *index = td__in(c, 7);
    td_planes        p;
    if (!td__planes_window(c, 2, true, &p) || !want_grad(c, p.oh, p.ow) ||
        !want_result(c, 7, x, p.oh, p.ow))
        return false;
    if (index->dtype != TD_I64)
        return td__op_fail(c, TD_E_DTYPE, "indices must be i64, got %s",
                           td__type_str(index));
    meta_as(&c->meta[0], x);
    return true;
}

/* ---- average ------------------------------------------------------------ */

/* divisor_override, when given, is not 0. */
static bool want_divisor(td_opcall *c, int i) {
    return td__in_none(c, i) || td__in_int(c, i) != 0 ||
           td__op_fail(c, TD_E_ARG, "divisor_override must not be zero");
}

/* in: self, kernel_size, stride, padding, ceil_mode, count_include_pad,
 * divisor_override. */
bool td__shape_avg_pool2d(td_opcall *c) {
    const td_tensor *x = td__in(c, 0);
    td_planes        p;
    if (!td__planes_window(c, 1, false, &p) || !want_divisor(c, 6) ||
        !want_float(c, 0, TD_I64))
        return false;
    planes_meta(&c->meta[0], x, x, p.oh, p.ow);
    return true;
}

/* in: grad_output, self, then as avg_pool2d. */
bool td__shape_avg_pool2d_backward(td_opcall *c) {
    td_planes p;
    if (!td__planes_window(c, 2, false, &p) || !want_divisor(c, 7) ||
        !want_grad(c, p.oh, p.ow))
        return false;
    meta_as(&c->meta[0], td__in(c, 1));
    return true;
}

/* Planes that windows of at least one element can cover. */
static bool want_adaptive(td_opcall *c, int i) {
    const td_tensor *x = td__in(c, i);
    bool ok = (x->rank == 3 || x->rank == 4) && !td__dim_eq(x->size[x->rank - 2], 0) &&
              !td__dim_eq(x->size[x->rank - 1], 0);
    return ok || td__op_fail(c, TD_E_SHAPE,
                             "self must be [C,H,W] or [N,C,H,W] with H and W "
                             "not 0, got %s",
                             td__type_str(x));
}

/* in: self, output_size of two entries. */
bool td__shape_adaptive_pool(td_opcall *c) {
    const td_tensor *x = td__in(c, 0);
    td_value         v = c->in[1];
    if (v.n != 2)
        return td__op_fail(c, TD_E_ARG, "output_size must have 2 entries, got %u", v.n);
    if (td__dim_lt(v.u.ints[0], 0) || td__dim_lt(v.u.ints[1], 0))
        return td__op_fail(c, TD_E_ARG, "output_size may not be negative, got %s",
                           td__sizes_str(2, v.u.ints));
    if (!want_adaptive(c, 0)) return false;
    planes_meta(&c->meta[0], x, x, v.u.ints[0], v.u.ints[1]);
    bool empty = td__dim_eq(td__numel(x->rank, c->meta[0].size), 0);
    return empty || want_float(c, 0, TD_DTYPE_NONE); /* ATen asks when it computes */
}

/* in: grad_output, self. */
bool td__shape_adaptive_pool_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0), *x = td__in(c, 1);
    if (!want_adaptive(c, 1)) return false;
    bool ok = g->rank == x->rank;
    for (int d = 1; ok && d < g->rank; d++) ok = !td__dim_eq(g->size[d], 0);
    if (!ok)
        return td__op_fail(c, TD_E_SHAPE,
                           "grad_output must have the rank of self and no empty "
                           "dim but the first, %s vs %s",
                           td__type_str(g), td__type_str(x));
    if (!want_grad(c, g->size[g->rank - 2], g->size[g->rank - 1])) return false;
    meta_as(&c->meta[0], x);
    return true;
}

/* ---- resampling --------------------------------------------------------- */

/* The list in argument i has n entries, positive from entry `from` on. */
static bool want_sizes(td_opcall *c, int i, int n, int from) {
    td_value v = c->in[i];
    if ((int)v.n != n)
        return td__op_fail(c, TD_E_ARG, "%s must have %d %s, got %u", name_of(c, i), n,
                           n == 1 ? "entry" : "entries", v.n);
    for (int k = 0; k < n; k++)
        if (td__dim_lt(v.u.ints[k], k < from ? 0 : 1))
            return td__op_fail(c, TD_E_ARG, "%s must be positive, got %s",
                               name_of(c, i), td__sizes_str(n, v.u.ints));
    return true;
}

/* x seen as [N,C,H,W] with `spatial` sizes at the end becomes output_size. */
static bool upsample(td_opcall *c, int spatial) {
    const td_tensor *x = td__in(c, 0);
    int              rank = spatial + 2;
    bool             ok = x->rank == rank;
    for (int d = 1; ok && d < rank; d++) ok = !td__dim_eq(x->size[d], 0);
    if (!ok)
        return td__op_fail(c, TD_E_SHAPE,
                           "self must have %d dims, none but the first empty, "
                           "got %s",
                           rank, td__type_str(x));
    if (!want_sizes(c, 1, spatial, 0) || !want_float(c, 0, TD_U8)) return false;
    const int64_t *to = c->in[1].u.ints;
    if (spatial == 2) planes_meta(&c->meta[0], x, x, to[0], to[1]);
    else
        td__meta_dense(&c->meta[0], (td_dtype)x->dtype, 3,
                       (int64_t[]){x->size[0], x->size[1], to[0]});
    return true;
}

/* in: grad_output, output_size, input_size of all dims, scales. */
static bool upsample_backward(td_opcall *c, int spatial) {
    const td_tensor *g = td__in(c, 0);
    int              rank = spatial + 2;
    if (!want_sizes(c, 1, spatial, 0) || !want_sizes(c, 2, rank, 1) ||
        !want_float(c, 0, TD_U8))
        return false;
    const int64_t *to = c->in[1].u.ints, *from = c->in[2].u.ints;
    int64_t        want[4] = {from[0], from[1], to[0], to[spatial - 1]};
    bool           ok = g->rank == rank;
    for (int d = 0; ok && d < rank; d++) ok = td__dim_eq(g->size[d], want[d]);
    if (!ok)
        return td__op_fail(c, TD_E_SHAPE, "grad_output must be %s, got %s",
                           td__sizes_str(rank, want), td__type_str(g));
    td__meta_dense(&c->meta[0], (td_dtype)g->dtype, rank, from);
    if (spatial == 2) planes_meta(&c->meta[0], g, g, from[2], from[3]);
    return true;
}

bool td__shape_upsample2d(td_opcall *c) { return upsample(c, 2); }
bool td__shape_upsample1d(td_opcall *c) { return upsample(c, 1); }
bool td__shape_upsample2d_backward(td_opcall *c) { return upsample_backward(c, 2); }
bool td__shape_upsample1d_backward(td_opcall *c) { return upsample_backward(c, 1); }
