/* shape_patches.c -- shape rules of padding by elements of the input and of patches. */
#include "rules/patch_args.h"
#include "rules/shape_rules.h"

#include <limits.h>
#include <string.h>

static const char *name_of(td_opcall *c, int i) { return c->info->s.in[i].name; }

/* ---- padding ------------------------------------------------------------ */

/* padding and mode are arguments `at` and at + 1: two numbers for each of 1 to 3 dims,
 * not more than mode can take from sizes[rank]. `to` gets the padded sizes. */
static bool want_padding(td_opcall *c, int at, int rank, const int64_t *size,
                         int64_t *to) {
    td_value    v = c->in[at];
    const char *mode = c->in[at + 1].u.s;
    bool        reflect = !strcmp(mode, "reflect"), around = !strcmp(mode, "circular");
    int         spatial = (int)v.n / 2;
    if (!reflect && !around && strcmp(mode, "replicate"))
        return td__op_fail(c, TD_E_ARG,
                           "mode must be reflect, replicate or circular, got \"%s\"",
                           mode);
    if (v.n % 2 || spatial < 1 || spatial > 3 ||
        (rank != spatial + 1 && rank != spatial + 2))
        return td__op_fail(c, TD_E_ARG,
                           "%s must have 2 numbers for each dim behind the channels of "
                           "%s, got %u",
                           name_of(c, at), td__sizes_str(rank, size), v.n);
    for (int d = 0; d < rank; d++) {
        const int64_t *pair = v.u.ints + 2 * (rank - 1 - d);
        to[d] = size[d];
        if (d < rank - spatial) continue;
        int64_t most = td__dim_sub(size[d], reflect ? 1 : 0);
        for (int k = 0; k < 2 && (reflect || around); k++)
            if (td__dim_lt(most, pair[k]))
                return td__op_fail(c, TD_E_ARG, "%s %s must be %s each size of %s",
                                   name_of(c, at), td__sizes_str((int)v.n, v.u.ints),
                                   reflect ? "below" : "at most",
                                   td__sizes_str(rank, size));
        to[d] = td__dim_add(size[d], td__dim_add(pair[0], pair[1]));
        int64_t cut = td__dim_add(td__dim_min(pair[0], 0), td__dim_min(pair[1], 0));
        if (td__dim_lt(to[d], 1) ||
            (around && td__dim_lt(td__dim_add(size[d], cut), 1)))
            return td__op_fail(c, TD_E_SHAPE, "%s %s leaves nothing of %s",
                               name_of(c, at), td__sizes_str((int)v.n, v.u.ints),
                               td__sizes_str(rank, size));
    }
    return true;
}

/* in: self, padding, mode. Circular results are row-major, as in ATen. */
bool td__shape_pad_edge(td_opcall *c) {
    const td_tensor *x = td__in(c, 0);
    int              spatial = (int)c->in[1].n / 2;
    int64_t          to[TD_MAX_RANK];
    if (!want_padding(c, 1, x->rank, x->size, to) ||
        !td__want_planes(c, 0, spatial, false))
        return false;
    td__planes_meta(&c->meta[0], x, x, spatial, to + x->rank - spatial,
                    spatial > 1 && c->in[2].u.s[0] != 'c');
    return true;
}

/* in: grad_output, input_size, padding, mode. */
bool td__shape_pad_edge_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0);
    td_value         v = c->in[1];
    int64_t          to[TD_MAX_RANK];
    if (!want_padding(c, 2, (int)v.n, v.u.ints, to)) return false;
    if (g->rank != (int)v.n || !td__dims_eq(g->size, to, g->rank))
        return td__op_fail(c, TD_E_SHAPE, "grad_output must be %s, got %s",
                           td__sizes_str((int)v.n, to), td__type_str(g));
    td__meta_dense(&c->meta[0], (td_dtype)g->dtype, g->rank, v.u.ints);
    return true;
}

/* ---- patches ------------------------------------------------------------ */

/* A list of one entry serves both dims; each is at least `least`. */
static bool read_pair(td_opcall *c, int i, int64_t least, int64_t *h, int64_t *w) {
    td_value v = c->in[i];
    if (v.n != 1 && v.n != 2)
        return td__op_fail(c, TD_E_ARG, "%s must have 1 or 2 entries, got %u",
                           name_of(c, i), v.n);
    *h = v.u.ints[0];
    *w = v.u.ints[v.n - 1];
    return (*h >= least && *w >= least && *h <= INT_MAX && *w <= INT_MAX) ||
           td__op_fail(c, TD_E_ARG, "%s must be at least %lld and an int, got %s",
                       name_of(c, i), (long long)least,
                       td__sizes_str((int)v.n, v.u.ints));
}

/* How many places a kernel has. */
static int64_t places(int64_t size, int64_t k, int64_t step, int64_t pad, int64_t dil) {
    int64_t extent = td__dim_sub(td__dim_add(size, 2 * pad), dil * (k - 1) + 1);
    return td__dim_lt(extent, 0) ? 0 : td__dim_add(td__dim_div(extent, step), 1);
}

bool td__patches_read(td_opcall *c, int at, int64_t h, int64_t w, td_planes *p) {
    if (!read_pair(c, at, 1, &p->kh, &p->kw) ||
        !read_pair(c, at + 1, 1, &p->dh, &p->dw) ||
        !read_pair(c, at + 2, 0, &p->ph, &p->pw) ||
        !read_pair(c, at + 3, 1, &p->sh, &p->sw))
        return false;
    p->d = 1, p->h = h, p->w = w;
    p->od = p->kh * p->kw;
    p->oh = places(h, p->kh, p->sh, p->ph, p->dh);
    p->ow = places(w, p->kw, p->sw, p->pw, p->dw);
    return (!td__dim_lt(p->oh, 1) && !td__dim_lt(p->ow, 1)) ||
           td__op_fail(c, TD_E_SHAPE, "a kernel of %s has no place in planes of %s",
                       td__sizes_str(2, (int64_t[]){p->kh, p->kw}),
                       td__sizes_str(2, (int64_t[]){h, w}));
}

/* Floating or bool, as ATen has them. */
static bool want_dtype(td_opcall *c) { return td__want_float(c, 0, TD_BOOL); }

/* in: self, kernel_size, dilation, padding, stride. */
bool td__shape_im2col(td_opcall *c) {
    const td_tensor *x = td__in(c, 0);
    td_planes        p;
    if (!td__want_planes(c, 0, 2, false) || !want_dtype(c) ||
        !td__patches_read(c, 1, x->size[x->rank - 2], x->size[x->rank - 1], &p))
        return false;
    int64_t size[3] = {x->size[0], td__dim_mul(x->size[x->rank - 3], p.od),
                       td__dim_mul(p.oh, p.ow)};
    td__meta_dense(&c->meta[0], (td_dtype)x->dtype, x->rank - 1, size + (4 - x->rank));
    return true;
}

/* in: self, output_size, kernel_size, dilation, padding, stride. */
bool td__shape_col2im(td_opcall *c) {
    const td_tensor *x = td__in(c, 0);
    td_value         v = c->in[1];
    int              rank = x->rank;
    td_planes        p;
    if (v.n != 1 && v.n != 2)
        return td__op_fail(c, TD_E_ARG, "output_size must have 1 or 2 entries, got %u",
                           v.n);
    int64_t h = v.u.ints[0], w = v.u.ints[v.n - 1];
    if (td__dim_lt(h, 1) || td__dim_lt(w, 1))
        return td__op_fail(c, TD_E_ARG, "output_size must be positive, got %s",
                           td__sizes_str((int)v.n, v.u.ints));
    if (rank != 2 && rank != 3)
        return td__op_fail(c, TD_E_SHAPE,
                           "self must be [N,C*KH*KW,L] or [C*KH*KW,L], "
                           "got %s",
                           td__type_str(x));
    if (!want_dtype(c) || !td__patches_read(c, 2, h, w, &p)) return false;
    if (td__dim_lt(x->size[rank - 2], 1) ||
        !td__dim_eq(td__dim_mod(x->size[rank - 2], p.od), 0) ||
        !td__dim_eq(x->size[rank - 1], td__dim_mul(p.oh, p.ow)))
        return td__op_fail(
            c, TD_E_SHAPE,
            "self must have a multiple of %lld rows and %lld columns for "
            "these windows, got %s",
            (long long)p.od, (long long)td__dim_mul(p.oh, p.ow), td__type_str(x));
    int64_t size[4] = {x->size[0], td__dim_div(x->size[rank - 2], p.od), h, w};
    td__meta_dense(&c->meta[0], (td_dtype)x->dtype, rank + 1, size + 3 - rank);
    return true;
}
