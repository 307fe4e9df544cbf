/* shape_resample.c -- shape rules of resampling. Results of 4-d and 5-d inputs keep the
 * input's memory format, as in ATen. */
#include "rules/geom.h"
#include "rules/resample_args.h"
#include "rules/shape_rules.h"
#include "rules/windows.h"

#include <string.h>

static const char *name_of(td_opcall *c, int i) { return c->info->s.in[i].name; }

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

/* self [N,C,..] with `spatial` sizes at the end becomes output_size, argument 1. */
static bool upsample(td_opcall *c, int spatial, td_dtype also) {
    const td_tensor *x = td__in(c, 0);
    int              rank = spatial + 2;
    bool             ok = x->rank == rank;
    for (int d = 1; ok && d < rank; d++)
        ok = td__dim_expect(x->size[d], TD_DIM_IS_NE, 0);
    if (!ok)
        return td__op_fail(c, TD_E_SHAPE,
                           "self must have %d dims, none but the first empty, "
                           "got %s",
                           rank, td__type_str(x));
    if (!want_sizes(c, 1, spatial, 0) || !td__want_float(c, 0, also)) return false;
    td__planes_meta(&c->meta[0], x, x, spatial, c->in[1].u.ints, spatial > 1);
    return true;
}

/* in: grad_output, output_size, input_size of all dims. */
static bool upsample_backward(td_opcall *c, int spatial, td_dtype also) {
    const td_tensor *g = td__in(c, 0);
    int              rank = spatial + 2;
    if (!want_sizes(c, 1, spatial, 0) || !want_sizes(c, 2, rank, 1) ||
        !td__want_float(c, 0, also))
        return false;
    const int64_t *to = c->in[1].u.ints, *from = c->in[2].u.ints;
    int64_t        want[5] = {from[0], from[1]};
    for (int d = 0; d < spatial; d++) want[2 + d] = to[d];
    if (g->rank != rank || !td__dims_eq(g->size, want, rank))
        return td__op_fail(c, TD_E_SHAPE, "grad_output must be %s, got %s",
                           td__sizes_str(rank, want), td__type_str(g));
    td__planes_meta(&c->meta[0], g, g, spatial, from + 2, spatial > 1);
    return true;
}

bool td__shape_upsample2d(td_opcall *c) { return upsample(c, 2, TD_U8); }
bool td__shape_upsample1d(td_opcall *c) { return upsample(c, 1, TD_U8); }
bool td__shape_upsample2d_backward(td_opcall *c) {
    return upsample_backward(c, 2, TD_U8);
}
bool td__shape_upsample1d_backward(td_opcall *c) {
    return upsample_backward(c, 1, TD_U8);
}

/* ---- by weights --------------------------------------------------------- */

static const char *const mode_names[] = {"nearest", "nearest-exact", "linear",
                                         "cubic",   "linear-aa",     "cubic-aa"};

bool td__resample_mode(td_opcall *c, int i, td_resample_mode *mode) {
    for (int k = 0; k < (int)TD_COUNT(mode_names); k++)
        if (!strcmp(c->in[i].u.s, mode_names[k])) {
            *mode = (td_resample_mode)k;
            return true;
        }
    return td__op_fail(c, TD_E_ARG, "%s is unknown: \"%s\"", name_of(c, i),
                       c->in[i].u.s);
}

/* output_size, argument 1, has 1 to 3 entries; u8 only where elements are copied. */
static bool want_mode(td_opcall *c, int i, td_dtype *also) {
    td_resample_mode mode;
    if (!td__resample_mode(c, i, &mode)) return false;
    *also = mode <= TD_RESAMPLE_EXACT ? TD_U8 : TD_DTYPE_NONE;
    return (c->in[1].n >= 1 && c->in[1].n <= 3) ||
           td__op_fail(c, TD_E_ARG, "output_size must have 1 to 3 entries, got %u",
                       c->in[1].n);
}

/* in: self, output_size, mode, align_corners, scales. */
bool td__shape_resample(td_opcall *c) {
    td_dtype also;
    return want_mode(c, 2, &also) && upsample(c, (int)c->in[1].n, also);
}

/* in: grad_output, output_size, input_size, mode, align_corners, scales. */
bool td__shape_resample_backward(td_opcall *c) {
    td_dtype also;
    return want_mode(c, 3, &also) && upsample_backward(c, (int)c->in[1].n, also);
}
