/* shape_grid.c -- shape rules of grid_sampler, its gradients and theirs. */
#include "rules/shape_rules.h"
#include "rules/windows.h"

static const char *name_of(td_opcall *c, int i) { return c->info->s.in[i].name; }

/* input and grid, arguments i and i + 1: [N,C,H,W] and [N,h,w,2], or [N,C,D,H,W] and
 * [N,d,h,w,3]; of one floating dtype, dims of input behind N and C not empty. */
static bool want_images(td_opcall *c, int i, int dims) {
    const td_tensor *x = td__in(c, i), *g = td__in(c, i + 1);
    bool             ok = (x->rank == 4 || x->rank == 5) && g->rank == x->rank &&
              (!dims || x->rank == dims + 2) && td__dim_eq(x->size[0], g->size[0]) &&
              td__dim_eq(g->size[g->rank - 1], x->rank - 2);
    if (!ok)
        return td__op_fail(
            c, TD_E_SHAPE,
            "input and grid must be [N,C,H,W] and [N,h,w,2], or [N,C,D,H,W] "
            "and [N,d,h,w,3], got %s and %s",
            td__type_str(x), td__type_str(g));
    for (int d = 2; d < x->rank; d++)
        if (!td__dim_expect(x->size[d], TD_DIM_IS_NE, 0))
            return td__op_fail(c, TD_E_SHAPE, "input has no elements to read, got %s",
                               td__type_str(x));
    if (x->dtype != g->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "input and grid must have one dtype, %s vs %s",
                           td__type_str(x), td__type_str(g));
    return td__want_float(c, i, TD_DTYPE_NONE);
}

/* interpolation_mode 0 to 2 and padding_mode 0 to 2, from argument i on. */
static bool want_modes(td_opcall *c, int i) {
    int64_t mode = td__in_int(c, i), pad = td__in_int(c, i + 1);
    if (mode < 0 || mode > 2 || pad < 0 || pad > 2)
        return td__op_fail(c, TD_E_ARG,
                           "%s and %s must be from 0 to 2, got %lld and %lld",
                           name_of(c, i), name_of(c, i + 1), (long long)mode,
                           (long long)pad);
    return true;
}

/* [N,C] of input and the points of grid. */
static int result_sizes(const td_tensor *x, const td_tensor *g, int64_t *size) {
    size[0] = x->size[0], size[1] = x->size[1];
    for (int d = 1; d < g->rank - 1; d++) size[d + 1] = g->size[d];
    return x->rank;
}

/* Argument i is what grid_sampler gives for input and grid, arguments x and x + 1. */
static bool want_grad(td_opcall *c, int i, int x) {
    const td_tensor *g = td__in(c, i);
    int64_t          size[5];
    int              rank = result_sizes(td__in(c, x), td__in(c, x + 1), size);
    return (g->rank == rank && td__dims_eq(g->size, size, rank) &&
            g->dtype == td__in(c, x)->dtype) ||
           td__op_fail(c, TD_E_SHAPE, "%s must be %s of the dtype of input, got %s",
                       name_of(c, i), td__sizes_str(rank, size), td__type_str(g));
}

/* Argument i has sizes and dtype of argument k. */
static bool want_same(td_opcall *c, int i, int k) {
    const td_tensor *a = td__in(c, i), *b = td__in(c, k);
    return (a->dtype == b->dtype && td__same_sizes(a, b)) ||
           td__op_fail(c, TD_E_SHAPE, "%s must be as %s, %s, got %s", name_of(c, i),
                       name_of(c, k), td__type_str(b), td__type_str(a));
}

/* Result k: row-major with the sizes of t. */
static void meta_of(td_opcall *c, int k, const td_tensor *t) {
    td__meta_dense(&c->meta[k], (td_dtype)t->dtype, t->rank, t->size);
}

/* in: input, grid, interpolation_mode, padding_mode, align_corners. */
static bool grid_sampler(td_opcall *c, int dims) {
    int64_t size[5];
    if (!want_images(c, 0, dims) || !want_modes(c, 2)) return false;
    const td_tensor *x = td__in(c, 0);
    int              rank = result_sizes(x, td__in(c, 1), size);
    td__meta_dense(&c->meta[0], (td_dtype)x->dtype, rank, size);
    return true;
}

bool td__shape_grid_sampler2d(td_opcall *c) { return grid_sampler(c, 2); }
bool td__shape_grid_sampler3d(td_opcall *c) { return grid_sampler(c, 3); }

/* in: grad_output, input, grid, options. */
bool td__shape_grid_sampler_backward(td_opcall *c) {
    if (!want_images(c, 1, 0) || !want_modes(c, 3) || !want_grad(c, 0, 1)) return false;
    meta_of(c, 0, td__in(c, 1));
    meta_of(c, 1, td__in(c, 2));
    return true;
}

/* in: gradients of grad_input and grad_grid, grad_output, input, grid, options. */
bool td__shape_grid_sampler_twice(td_opcall *c) {
    if (!want_images(c, 3, 0) || !want_modes(c, 5) || !want_grad(c, 2, 3) ||
        !want_same(c, 0, 3) || !want_same(c, 1, 4))
        return false;
    meta_of(c, 0, td__in(c, 2));
    meta_of(c, 1, td__in(c, 3));
    meta_of(c, 2, td__in(c, 4));
    return true;
}
