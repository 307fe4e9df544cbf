/* kern_patches.c -- im2col and col2im. A plane [h,w] and its columns [kh*kw,oh,ow] are
 * the two sides of a run over planes; the loops are in patch_loops.inc. */
#include "kernels/planes.h"
#include "rules/patch_args.h"

#include <string.h>

/* Places [from, to) of a row that meet the plane. */
typedef struct span {
    int64_t from, to;
} span;

/* The places of n whose element o * step + shift lies inside the row. */
static span inside(int64_t shift, int64_t step, int64_t size, int64_t n) {
    int64_t from = shift < 0 ? (-shift + step - 1) / step : 0;
    int64_t to = size <= shift ? 0 : (size - shift - 1) / step + 1;
    if (to > n) to = n;
    return (span){from < to ? from : to, to};
}

#define T float
#define NAME(what) what##_f32
#include "kernels/patch_loops.inc"
#define T double
#define NAME(what) what##_f64
#include "kernels/patch_loops.inc"
#define T int64_t
#define NAME(what) what##_i64
#include "kernels/patch_loops.inc"

/* in: self, kernel_size, dilation, padding, stride. */
bool td__kern_im2col(td_opcall *c) {
    static const td_plane_fns fns = {patches_f32, patches_f64, patches_i64};
    const td_tensor          *x = td__in(c, 0);
    td_planes                 p = {0};
    if (!td__patches_read(c, 1, x->size[x->rank - 2], x->size[x->rank - 1], &p))
        return false;
    p.n = x->numel / (p.h * p.w);
    return td__planes_run(c, &p, TD_PLANES_FORWARD, fns, NULL);
}

/* in: self, output_size, kernel_size, dilation, padding, stride. */
bool td__kern_col2im(td_opcall *c) {
    static const td_plane_fns fns = {gathered_f32, gathered_f64, gathered_i64};
    td_value                  v = c->in[1];
    td_planes                 p = {0};
    if (!td__patches_read(c, 2, v.u.ints[0], v.u.ints[v.n - 1], &p)) return false;
    p.n = c->out[0]->numel / (p.h * p.w);
    return td__planes_run(c, &p, TD_PLANES_BACKWARD, fns, NULL);
}
