/* decomp_resample.c -- resampling as users call it, in terms of ops with kernels. */
#include "rules/geom.h"

#include <string.h>

/* ---- one row per dims and mode ------------------------------------------ */

/* in: self, output_size, align_corners when `aligned`, a scale per dim. */
static bool resample(td_opcall *c, int spatial, const char *mode, bool aligned) {
    td_value scale[3] = {TD_NONE, TD_NONE, TD_NONE};
    int      at = aligned ? 3 : 2;
    if ((int)c->in[1].n != spatial)
        return td__op_fail(c, TD_E_ARG, "output_size must have %d entries, got %u",
                           spatial, c->in[1].n);
    for (int d = 0; d < spatial; d++) scale[3 - spatial + d] = c->in[at + d];
    c->out[0] =
        td_op__resample(td__in(c, 0), (td_ints){c->in[1].u.ints, (int)c->in[1].n}, mode,
                        aligned && td__in_bool(c, 2), scale[0], scale[1], scale[2]);
    return true;
}

bool td__decomp_upsample_nearest3d(td_opcall *c) {
    return resample(c, 3, "nearest", false);
}
bool td__decomp_upsample_exact1d(td_opcall *c) {
    return resample(c, 1, "nearest-exact", false);
}
bool td__decomp_upsample_exact2d(td_opcall *c) {
    return resample(c, 2, "nearest-exact", false);
}
bool td__decomp_upsample_exact3d(td_opcall *c) {
    return resample(c, 3, "nearest-exact", false);
}
bool td__decomp_upsample_linear1d(td_opcall *c) {
    return resample(c, 1, "linear", true);
}
bool td__decomp_upsample_bilinear2d(td_opcall *c) {
    return resample(c, 2, "linear", true);
}
bool td__decomp_upsample_trilinear3d(td_opcall *c) {
    return resample(c, 3, "linear", true);
}
bool td__decomp_upsample_bicubic2d(td_opcall *c) {
    return resample(c, 2, "cubic", true);
}
bool td__decomp_upsample_bilinear2d_aa(td_opcall *c) {
    return resample(c, 2, "linear-aa", true);
}
bool td__decomp_upsample_bicubic2d_aa(td_opcall *c) {
    return resample(c, 2, "cubic-aa", true);
}

/* ---- interpolate -------------------------------------------------------- */

enum { SIZE = 1, SCALE, MODE, ALIGN, RECOMPUTE, ANTIALIAS };

/* Result sizes: `size`, one entry for every dim or one each, or scaled ones, which only
 * mode area has empty. */
static bool target_sizes(td_opcall *c, int spatial, bool area, int64_t *to) {
    const td_tensor *x = td__in(c, 0);
    td_value         size = c->in[SIZE];
    double           scale = td__in_none(c, SCALE) ? 0 : td__in_f(c, SCALE);
    if (td__in_none(c, SIZE) == td__in_none(c, SCALE))
        return td__op_fail(c, TD_E_ARG,
                           "exactly one of size and scale_factor must be given");
    if (!td__in_none(c, SIZE) && size.n != 1 && (int)size.n != spatial)
        return td__op_fail(c, TD_E_ARG, "size must have 1 or %d entries for %s, got %u",
                           spatial, td__type_str(x), size.n);
    for (int d = 0; d < spatial; d++) {
        if (!td__in_none(c, SIZE)) {
            to[d] = size.u.ints[size.n == 1 ? 0 : d];
            continue;
        }
        double want = (double)td__dim_fixed(x->size[d + 2]) * scale;
        if (!(want >= (area ? 0 : 1) && want < 0x1p62))
            return td__op_fail(c, TD_E_ARG, "scale_factor %g gives no size for %s",
                               scale, td__type_str(x));
        to[d] = (int64_t)want;
    }
    return true;
}

/* Which op a mode is, and for how many dims: 0 for any. */
typedef struct mode_row {
    const char *name, *mode; /* of interpolate, of _resample */
    int         spatial;
} mode_row;

static const mode_row modes[] = {{"nearest", "nearest", 0},
                                 {"nearest-exact", "nearest-exact", 0},
                                 {"area", NULL, 0},
                                 {"linear", "linear", 1},
                                 {"bilinear", "linear", 2},
                                 {"trilinear", "linear", 3},
                                 {"bicubic", "cubic", 2}};

/* The row of the mode asked for; NULL after td__op_fail. */
static const mode_row *find_mode(td_opcall *c, int spatial) {
    const char     *name = c->in[MODE].u.s;
    const mode_row *m = NULL;
    for (int i = 0; i < (int)TD_COUNT(modes); i++)
        if (!strcmp(name, modes[i].name)) m = &modes[i];
    if (!m)
        return td__op_fail(
                   c, TD_E_ARG,
                   "mode must be nearest, nearest-exact, area, linear, bilinear, "
                   "trilinear or bicubic, got \"%s\"",
                   name),
               NULL;
    if (m->spatial && m->spatial != spatial)
        return td__op_fail(c, TD_E_SHAPE, "mode \"%s\" resizes %d dims, got %s", name,
                           m->spatial, td__type_str(td__in(c, 0))),
               NULL;
    if (!m->spatial && td__in_bool(c, ALIGN))
        return td__op_fail(c, TD_E_ARG, "mode \"%s\" has no align_corners", name), NULL;
    if (td__in_bool(c, ANTIALIAS) && m->spatial != 2)
        return td__op_fail(c, TD_E_ARG,
                           "antialias needs mode bilinear or bicubic, got \"%s\"",
                           name),
               NULL;
    return m;
}

/* Mode "area": means over windows that cover the input. */
static td_tensor *area(td_tensor *x, const int64_t *to, int spatial) {
    td_ints size = {to, spatial};
    return spatial == 1   ? td_op_adaptive_avg_pool1d(x, size)
           : spatial == 2 ? td_op_adaptive_avg_pool2d(x, size)
                          : td_op_adaptive_avg_pool3d(x, size);
}

/* in: input, size, scale_factor, mode, align_corners, recompute_scale_factor,
 * antialias. The scale is passed on, unless it is to be computed again: the ops map
 * indices by it, not by the ratio of sizes. */
bool td__decomp_interpolate(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    int        spatial = x->rank - 2;
    int64_t    to[3];
    td_value   scale = c->in[SCALE];
    if (spatial < 1 || spatial > 3)
        return td__op_fail(c, TD_E_SHAPE,
                           "input must be [N,C,L], [N,C,H,W] or [N,C,D,H,W], got %s",
                           td__type_str(x));
    const mode_row *m = find_mode(c, spatial);
    if (!m || !target_sizes(c, spatial, !m->mode, to)) return false;
    if (scale.kind != TD_K_NONE) scale = td_value_float(td__value_f(scale));
    if (td__in_bool(c, RECOMPUTE)) scale = TD_NONE;
    if (!m->mode) {
        c->out[0] = area(x, to, spatial);
        return true;
    }
    if (!strcmp(m->mode, "nearest") && spatial < 3) {
        c->out[0] = spatial == 1
                        ? td_op_upsample_nearest1d(x, (td_ints){to, 1}, scale)
                        : td_op_upsample_nearest2d(x, (td_ints){to, 2}, scale, scale);
        return true;
    }
    const char *mode = m->mode;
    if (td__in_bool(c, ANTIALIAS)) mode = m->mode[0] == 'l' ? "linear-aa" : "cubic-aa";
    c->out[0] = td_op__resample(x, (td_ints){to, spatial}, mode, td__in_bool(c, ALIGN),
                                spatial > 2 ? scale : TD_NONE,
                                spatial > 1 ? scale : TD_NONE, scale);
    return true;
}
