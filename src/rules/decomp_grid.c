/* decomp_grid.c -- grids and reading at them as users call it. */
#include "rules/rule_arith.h"

#include <string.h>

/* ---- reading ------------------------------------------------------------ */

/* The place of a name among three; -1 after td__op_fail. */
static int number_of(td_opcall *c, int i, const char *const names[3]) {
    for (int k = 0; k < 3; k++)
        if (!strcmp(c->in[i].u.s, names[k])) return k;
    td__op_fail(c, TD_E_ARG, "%s must be %s, %s or %s, got \"%s\"",
                c->info->s.in[i].name, names[0], names[1], names[2], c->in[i].u.s);
    return -1;
}

/* in: input, grid, mode, padding_mode, align_corners. */
bool td__decomp_grid_sample(td_opcall *c) {
    static const char *const modes[] = {"bilinear", "nearest", "bicubic"};
    static const char *const pads[] = {"zeros", "border", "reflection"};
    td_tensor               *x = td__in(c, 0), *g = td__in(c, 1);
    int                      mode = number_of(c, 2, modes);
    int                      pad = mode < 0 ? -1 : number_of(c, 3, pads);
    if (pad < 0) return false;
    c->out[0] = x->rank == 5
                    ? td_op_grid_sampler_3d(x, g, mode, pad, td__in_bool(c, 4))
                    : td_op_grid_sampler_2d(x, g, mode, pad, td__in_bool(c, 4));
    return true;
}

/* in: input, grid, options. */
bool td__vjp_grid_sampler(td_vjp *v) {
    v->grad[0] =
        td_op__grid_sampler_backward(v->g[0], v->in[0].u.t, v->in[1].u.t, v->in[2].u.i,
                                     v->in[3].u.i, v->in[4].u.i != 0, &v->grad[1]);
    return td_ok(v->cx);
}

/* in: grad_output, input, grid, options; either gradient may be missing. */
bool td__vjp_grid_sampler_backward(td_vjp *v) {
    td_tensor *x = v->in[1].u.t, *grid = v->in[2].u.t, *gx, *ggrid;
    td_tensor *hx = v->g[0] ? v->g[0] : td_op_zeros_like(x, TD_DTYPE_NONE);
    td_tensor *hg = v->g[1] ? v->g[1] : td_op_zeros_like(grid, TD_DTYPE_NONE);
    v->grad[0] = td_op__grid_sampler_double_backward(hx, hg, v->in[0].u.t, x, grid,
                                                     v->in[3].u.i, v->in[4].u.i,
                                                     v->in[5].u.i != 0, &gx, &ggrid);
    v->grad[1] = gx;
    v->grad[2] = ggrid;
    return td_ok(v->cx);
}

/* ---- a grid of an affine map -------------------------------------------- */

/* n coordinates from -1 to 1: middles of n cells, or with their ends when aligned. */
static td_tensor *steps(td_opcall *c, td_dtype dt, int64_t n, bool aligned) {
    if (td__dim_eq(n, 1)) return td_op_zeros(c->cx, (td_ints){&n, 1}, dt);
    td_tensor *t = td_op_linspace(c->cx, td_value_float(-1), td_value_float(1), n, dt);
    if (aligned) return t;
    return td_op_div(td_op_mul(t, td_value_int(td__dim_sub(n, 1))), td_value_int(n),
                     "");
}

/* in: theta [N,d,d+1], size [N,C,...] of d dims behind the channels, align_corners.
 * Coordinates are x, y, z: the last dim first. */
bool td__decomp_affine_grid(td_opcall *c) {
    td_tensor *theta = td__in(c, 0), *part[4];
    td_value   v = c->in[1];
    int        d = (int)v.n - 2;
    int64_t    full[5], points = 1;
    if (d != 2 && d != 3)
        return td__op_fail(c, TD_E_ARG, "size must have 4 or 5 entries, got %u", v.n);
    if (theta->rank != 3 || !td__dim_eq(theta->size[0], v.u.ints[0]) ||
        !td__dim_eq(theta->size[1], d) || !td__dim_eq(theta->size[2], d + 1))
        return td__op_fail(c, TD_E_SHAPE, "theta must be %s for size %s, got %s",
                           td__sizes_str(3, (int64_t[]){v.u.ints[0], d, d + 1}),
                           td__sizes_str((int)v.n, v.u.ints), td__type_str(theta));
    if (!td__is_float((td_dtype)theta->dtype))
        return td__op_fail(c, TD_E_DTYPE, "theta must be floating, got %s",
                           td__type_str(theta));
    for (int k = 0; k < (int)v.n; k++)
        if (td__dim_lt(v.u.ints[k], 1))
            return td__op_fail(c, TD_E_ARG, "size must be positive, got %s",
                               td__sizes_str((int)v.n, v.u.ints));
    for (int k = 0; k < d; k++) full[k] = v.u.ints[2 + k];
    for (int k = 0; k < d; k++) points = td__dim_mul(points, full[k]);
    full[d] = 1;
    for (int k = 0; k < d; k++) {
        int64_t shape[4] = {1, 1, 1, 1};
        shape[d - 1 - k] = full[d - 1 - k];
        td_tensor *t =
            steps(c, (td_dtype)theta->dtype, full[d - 1 - k], td__in_bool(c, 2));
        part[k] = td_op_expand(td_op_reshape(t, (td_ints){shape, d + 1}),
                               (td_ints){full, d + 1});
    }
    part[d] = td_op_new_ones(theta, (td_ints){full, d + 1}, TD_DTYPE_NONE);
    td_tensor *base = td_op_cat((td_tensors){part, d + 1}, -1);
    int64_t    flat[3] = {points, d + 1}, made[5] = {v.u.ints[0]};
    base = td_op_reshape(base, (td_ints){flat, 2});
    for (int k = 0; k < d; k++) made[1 + k] = full[k];
    made[1 + d] = d;
    c->out[0] = td_op_reshape(td_op_matmul(base, td_op_transpose(theta, 1, 2)),
                              (td_ints){made, d + 2});
    return true;
}
