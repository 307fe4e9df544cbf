/* decomp_patches.c -- padding and shuffles as users call them, and the derivative of
 * im2col. */
#include "rules/geom.h"

#include <string.h>

static td_ints list_of(td_value v) { return (td_ints){v.u.ints, (int)v.n}; }

/* ---- padding ------------------------------------------------------------ */

/* in: self, padding of two numbers for each of `spatial` dims. */
static bool pad_edge(td_opcall *c, int spatial, const char *mode) {
    if ((int)c->in[1].n != 2 * spatial)
        return td__op_fail(c, TD_E_ARG, "padding must have %d entries, got %u",
                           2 * spatial, c->in[1].n);
    c->out[0] = td_op__pad_edge(td__in(c, 0), list_of(c->in[1]), mode);
    return true;
}

bool td__decomp_reflection_pad1d(td_opcall *c) { return pad_edge(c, 1, "reflect"); }
bool td__decomp_reflection_pad2d(td_opcall *c) { return pad_edge(c, 2, "reflect"); }
bool td__decomp_reflection_pad3d(td_opcall *c) { return pad_edge(c, 3, "reflect"); }
bool td__decomp_replication_pad1d(td_opcall *c) { return pad_edge(c, 1, "replicate"); }
bool td__decomp_replication_pad2d(td_opcall *c) { return pad_edge(c, 2, "replicate"); }
bool td__decomp_replication_pad3d(td_opcall *c) { return pad_edge(c, 3, "replicate"); }

/* in: self, pad, mode, value. */
bool td__decomp_pad(td_opcall *c) {
    td_value    value = td__in_none(c, 3) ? td_value_int(0) : c->in[3];
    const char *mode = c->in[2].u.s;
    td_tensor  *x = td__in(c, 0);
    if (!strcmp(mode, "constant")) {
        c->out[0] = td_op_constant_pad_nd(x, list_of(c->in[1]), value);
        return true;
    }
    if (strcmp(mode, "reflect") && strcmp(mode, "replicate") &&
        strcmp(mode, "circular"))
        return td__op_fail(c, TD_E_ARG,
                           "mode must be constant, reflect, replicate or circular, got "
                           "\"%s\"",
                           mode);
    if (td__value_f(value) != 0)
        return td__op_fail(c, TD_E_ARG, "mode \"%s\" takes no value", mode);
    c->out[0] = td_op__pad_edge(x, list_of(c->in[1]), mode);
    return true;
}

/* ---- patches ------------------------------------------------------------ */

/* The columns of g are added up where they were taken from. */
bool td__vjp_im2col(td_vjp *v) {
    const td_meta *m = v->in_meta[0];
    if (v->need[0])
        v->grad[0] = td_op_col2im(v->g[0], (td_ints){m->size + m->rank - 2, 2},
                                  list_of(v->in[1]), list_of(v->in[2]),
                                  list_of(v->in[3]), list_of(v->in[4]));
    return td_ok(v->cx);
}

/* ---- shuffles ----------------------------------------------------------- */

/* t as `cut` sizes, with its last n dims in the order given, copied as `size`:
 * row-major or, of a channels-last argument, channels-last. The first of the n are
 * channels, and `channels` of the ordered ones make up those of the result. */
static td_tensor *shuffled(td_tensor *t, td_ints cut, const int64_t *order, int n,
                           td_ints size, int channels) {
    int64_t dims[TD_MAX_RANK], last[TD_MAX_RANK], back[TD_MAX_RANK];
    int     first = cut.n - n, at = first;
    bool    channels_last = t->rank == 4 && td__is_channels_last(t);
    for (int d = 0; d < first; d++) dims[d] = d;
    for (int k = channels_last ? channels : 0; k < n; k++)
        dims[at++] = first + order[k];
    for (int k = 0; channels_last && k < channels; k++) dims[at++] = first + order[k];
    td_tensor *y = td_op_permute(td_op_reshape(t, cut), (td_ints){dims, cut.n});
    if (!channels_last) return td_op__reshape_copy(y, size);
    for (int d = 0; d < size.n; d++) {
        int from = d == 0 ? 0 : d < size.n - 1 ? d + 1 : 1;
        last[d] = size.v[from];
        back[from] = d;
    }
    return td_op_permute(td_op__reshape_copy(y, (td_ints){last, size.n}),
                         (td_ints){back, size.n});
}

enum { MOST_FACTOR = 1 << 15 }; /* its square is an int */

/* self is [...,C,H,W] with a positive factor. */
static bool want_pixels(td_opcall *c, int64_t factor) {
    const td_tensor *t = td__in(c, 0);
    if (t->rank < 3 || t->rank > TD_MAX_RANK - 2)
        return td__op_fail(c, TD_E_SHAPE, "self must be [...,C,H,W], got %s",
                           td__type_str(t));
    return (factor > 0 && factor <= MOST_FACTOR) ||
           td__op_fail(c, TD_E_ARG, "%s must be from 1 to %d, got %lld",
                       c->info->s.in[1].name, MOST_FACTOR, (long long)factor);
}

/* in: self [...,C*r*r,H,W], upscale_factor. */
bool td__decomp_pixel_shuffle(td_opcall *c) {
    static const int64_t order[] = {0, 3, 1, 4, 2};
    td_tensor           *t = td__in(c, 0);
    int64_t              r = td__in_number(c, 1), cut[TD_MAX_RANK], size[TD_MAX_RANK];
    if (!want_pixels(c, r)) return false;
    int     lead = t->rank - 3;
    int64_t all = t->size[lead], h = t->size[lead + 1], w = t->size[lead + 2];
    if (!td__dim_eq(td__dim_mod(all, r * r), 0))
        return td__op_fail(c, TD_E_SHAPE,
                           "the channels of %s must be a multiple of %lld",
                           td__type_str(t), (long long)(r * r));
    for (int d = 0; d < lead; d++) cut[d] = size[d] = t->size[d];
    cut[lead] = size[lead] = td__dim_div(all, r * r);
    cut[lead + 1] = cut[lead + 2] = r;
    cut[lead + 3] = h, cut[lead + 4] = w;
    size[lead + 1] = td__dim_mul(h, r), size[lead + 2] = td__dim_mul(w, r);
    c->out[0] =
        shuffled(t, (td_ints){cut, lead + 5}, order, 5, (td_ints){size, lead + 3}, 1);
    return true;
}

/* in: self [...,C,H*r,W*r], downscale_factor. */
bool td__decomp_pixel_unshuffle(td_opcall *c) {
    static const int64_t order[] = {0, 2, 4, 1, 3};
    td_tensor           *t = td__in(c, 0);
    int64_t              r = td__in_number(c, 1), cut[TD_MAX_RANK], size[TD_MAX_RANK];
    if (!want_pixels(c, r)) return false;
    int     lead = t->rank - 3;
    int64_t all = t->size[lead], h = t->size[lead + 1], w = t->size[lead + 2];
    if (!td__dim_eq(td__dim_mod(h, r), 0) || !td__dim_eq(td__dim_mod(w, r), 0))
        return td__op_fail(c, TD_E_SHAPE,
                           "heights and widths of %s must be multiples of "
                           "%lld",
                           td__type_str(t), (long long)r);
    if (!td__dim_expect(t->numel, TD_DIM_IS_NE, 0)) /* keeps its sizes, as in ATen */
        return c->out[0] = td_op_clone(t, false), true;
    for (int d = 0; d < lead; d++) cut[d] = size[d] = t->size[d];
    cut[lead] = all;
    cut[lead + 1] = size[lead + 1] = td__dim_div(h, r);
    cut[lead + 3] = size[lead + 2] = td__dim_div(w, r);
    cut[lead + 2] = cut[lead + 4] = r;
    size[lead] = td__dim_mul(all, r * r);
    c->out[0] =
        shuffled(t, (td_ints){cut, lead + 5}, order, 5, (td_ints){size, lead + 3}, 3);
    return true;
}

/* in: self [N,C,...], groups. */
bool td__decomp_channel_shuffle(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    groups = td__in_number(c, 1), cut[TD_MAX_RANK], size[TD_MAX_RANK];
    int64_t    order[TD_MAX_RANK] = {0, 2, 1};
    if (t->rank < 3 || t->rank >= TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE,
                           "self must be [N,C,...] of 3 dims or more, got "
                           "%s",
                           td__type_str(t));
    if (groups < 1 || !td__dim_eq(td__dim_mod(t->size[1], groups), 0))
        return td__op_fail(c, TD_E_ARG,
                           "groups must divide the channels of %s, got %lld",
                           td__type_str(t), (long long)groups);
    cut[0] = t->size[0], cut[1] = groups, cut[2] = td__dim_div(t->size[1], groups);
    for (int d = 2; d < t->rank; d++) cut[d + 1] = t->size[d], order[d + 1] = d + 1;
    for (int d = 0; d < t->rank; d++) size[d] = t->size[d];
    for (int d = 0; d < t->rank; d++) order[d] = order[d + 1] - 1;
    c->out[0] = shuffled(t, (td_ints){cut, t->rank + 1}, order, t->rank,
                         (td_ints){size, t->rank}, 2);
    return true;
}
