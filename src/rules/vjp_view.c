/* vjp_view.c -- derivatives of views and copies that need more than a formula. A view's
 * gradient has the sizes of its argument: zeros where the view showed nothing, sums
 * where it showed an element several times. */
#include "ops/ops.h"

#include <string.h>

static td_ints ints(const int64_t *v, int n) { return (td_ints){v, n}; }

/* Zeros with the sizes and dtype of m. */
static td_tensor *zeros(const td_vjp *v, const td_meta *m) {
    return td_op_zeros(v->cx, ints(m->size, m->rank), m->dtype);
}

/* The one gradient, of argument i. */
static bool give(td_vjp *v, int i, td_tensor *g) {
    v->grad[i] = g;
    return g && !td_is_nil(g);
}

/* in: self, dims. The inverse permutation. */
bool td__vjp_permute(td_vjp *v) {
    int64_t back[TD_MAX_RANK];
    int     n = (int)v->in[1].n;
    for (int i = 0; i < n; i++) back[td__wrap_dim(v->in[1].u.ints[i], n)] = i;
    return give(v, 0, td_op_permute(v->g[0], ints(back, n)));
}

/* in: self, src. The gradient of src is converted before the engine adds it up where
 * src was repeated. Of a complex one for a real src the engine takes the real part. */
bool td__vjp_copy(td_vjp *v) {
    td_tensor *g = v->g[0];
    td_dtype   dt = (td_dtype)v->in_meta[1]->dtype;
    bool       part = td__is_complex((td_dtype)g->dtype) && !td__is_complex(dt);
    return (!v->need[0] || give(v, 0, td_op_zeros_like(g, TD_DTYPE_NONE))) &&
           (!v->need[1] || give(v, 1, part ? g : td_op_to(g, dt, false)));
}

/* ---- several results ---------------------------------------------------- */

/* The gradients of all results, zeros where none arrived; NULL: no memory. */
static td_tensor **all_grads(const td_vjp *v) {
    td_tensor **g = td__alloc(sizeof *g * (size_t)(v->n_out ? v->n_out : 1));
    if (!g) return td__fail_memory(v->cx), NULL;
    for (int i = 0; i < v->n_out; i++)
        g[i] = v->g[i] ? v->g[i] : zeros(v, v->out_meta[i]);
    return g;
}

/* The gradient of a tensor that was cut along dim: those of the pieces side by side, or
 * stacked where the pieces lack the dim. */
static bool join_grads(td_vjp *v, int64_t dim, bool stacked) {
    if (v->n_out == 0) return give(v, 0, zeros(v, v->in_meta[0]));
    td_tensor **g = all_grads(v);
    if (!g) return false;
    td_tensors list = {g, v->n_out};
    bool       ok = give(v, 0, stacked ? td_op_stack(list, dim) : td_op_cat(list, dim));
    td__free(g);
    return ok;
}

/* in: self, split_size or split_sizes, dim. The gradients of the pieces side by
 * side. */
bool td__vjp_split(td_vjp *v) {
    return join_grads(v, td__wrap_dim(v->in[2].u.i, v->in_meta[0]->rank), false);
}
bool td__vjp_split_with_sizes(td_vjp *v) { return td__vjp_split(v); }
bool td__vjp_unbind(td_vjp *v) {
    return join_grads(v, td__wrap_dim(v->in[1].u.i, v->in_meta[0]->rank), true);
}

/* ---- joins -------------------------------------------------------------- */

/* Each tensor's own stretch of g. Skipped tensors have no stretch. */
bool td__vjp_cat(td_vjp *v) {
    td_tensor *g = v->g[0];
    int64_t    at = 0;
    int        dim = td__wrap_dim(v->in[1].u.i, g->rank);
    for (uint32_t k = 0; k < v->in[0].n; k++) {
        const td_meta *m = v->list_meta[0][k];
        if (m->rank == 1 && td__dim_eq(m->size[0], 0)) {
            if (v->list_need[0][k]) v->list_grad[0][k] = zeros(v, m);
            continue;
        }
        int64_t end = td__dim_add(at, m->size[dim]);
        if (v->list_need[0][k]) {
            td_tensor *part =
                td_op_slice(g, dim, td_value_int(at), td_value_int(end), 1);
            if (td_is_nil(part)) return false;
            v->list_grad[0][k] = part;
        }
        at = end;
    }
    return true;
}

/* in: tensors, dim. Each takes its entry of g. */
bool td__vjp_stack(td_vjp *v) {
    for (uint32_t k = 0; k < v->in[0].n; k++) {
        if (!v->list_need[0][k]) continue;
        td_tensor *part = td_op_select(v->g[0], v->in[1].u.i, k);
        if (td_is_nil(part)) return false;
        v->list_grad[0][k] = part;
    }
    return true;
}

/* Each repeated dim becomes two, repeats and entries, and the repeats are summed. */
bool td__vjp_repeat(td_vjp *v) {
    const td_meta *m = v->in_meta[0];
    td_tensor     *g = v->g[0];
    int64_t        size[2 * TD_MAX_RANK], sum[TD_MAX_RANK];
    int            n = (int)v->in[1].n, add = n - m->rank, rank = 0, sums = 0;
    if (td__dim_eq(g->numel, 0)) return give(v, 0, zeros(v, m));
    for (int i = 0; i < n; i++) {
        int64_t r = v->in[1].u.ints[i];
        if (i < add || !td__dim_eq(r, 1)) {
            sum[sums++] = rank;
            size[rank++] = r;
        }
        if (i >= add) size[rank++] = m->size[i - add];
    }
    if (rank > TD_MAX_RANK)
        return td__fail(v->cx, TD_E_UNSUPPORTED,
                        "repeat: unsupported: its gradient needs %d dims, and at most "
                        "%d are supported",
                        rank, TD_MAX_RANK);
    if (sums == 0) return give(v, 0, g);
    g = td_op_reshape(g, ints(size, rank));
    return give(v, 0, td_op_sum(g, ints(sum, sums), false, TD_DTYPE_NONE));
}

/* ---- elsewhere ---------------------------------------------------------- */

/* *out gets the negated list, to be freed by the caller; false after
 * td__fail_memory. */
static bool negated(const td_vjp *v, td_value list, int64_t **out) {
    *out = td__alloc(sizeof(int64_t) * (list.n + 1));
    if (!*out) return td__fail_memory(v->cx);
    for (uint32_t k = 0; k < list.n; k++) (*out)[k] = td__dim_sub(0, list.u.ints[k]);
    return true;
}

/* A shift beyond the range of dims has no negative of its own; the rest of its division
 * by the size shifts as far. */
static int64_t shift_back(int64_t shift, int64_t size) {
    bool far = !td__dim_is_symbolic(shift) &&
               (shift <= -TD_DIM_HUGE || shift >= TD_DIM_HUGE) && !td__dim_eq(size, 0);
    return td__dim_sub(0, far ? td__dim_mod(shift, size) : shift);
}

/* in: self, shifts, dims. Rolls back. */
bool td__vjp_roll(td_vjp *v) {
    int64_t *back;
    td_value shifts = v->in[1], dims = v->in[2];
    if (!negated(v, shifts, &back)) return false;
    const td_tensor *g = v->g[0];
    for (uint32_t k = 0; k < shifts.n; k++)
        back[k] = shift_back(shifts.u.ints[k],
                             dims.n ? g->size[td__wrap_dim(dims.u.ints[k], g->rank)]
                                    : g->numel);
    bool ok = give(v, 0,
                   td_op_roll(v->g[0], ints(back, (int)shifts.n),
                              ints(dims.u.ints, (int)dims.n)));
    td__free(back);
    return ok;
}

/* in: self, pad, value. Padding by the negated numbers cuts the padding off, and pads
 * with zeros what was cut. */
bool td__vjp_pad(td_vjp *v) {
    int64_t *back;
    if (!negated(v, v->in[1], &back)) return false;
    td_ints pad = ints(back, (int)v->in[1].n);
    bool    ok = give(v, 0, td_op_constant_pad_nd(v->g[0], pad, td_value_int(0)));
    td__free(back);
    return ok;
}

/* ---- as_strided --------------------------------------------------------- */

/* in: self, size, stride, storage_offset. The geometry of self at the call is saved in
 * in_meta. */
bool td__vjp_as_strided(td_vjp *v) {
    const td_meta *m = v->in_meta[0];
    int64_t        off = v->in[3].kind == TD_K_NONE ? m->offset : v->in[3].u.i;
    td_ints        size = ints(v->in[1].u.ints, (int)v->in[1].n);
    td_ints        stride = ints(v->in[2].u.ints, (int)v->in[2].n);
    return give(v, 0,
                td_op_as_strided_backward(v->g[0], ints(m->size, m->rank),
                                          ints(m->stride, m->rank), m->offset, size,
                                          stride, off));
}

/* The place behind the last one that a geometry of at least one element shows. */
static int64_t extent(td_ints size, td_ints stride, int64_t offset) {
    int64_t last = offset;
    for (int d = 0; d < size.n; d++)
        last = td__dim_add(last, td__dim_mul(td__dim_sub(size.v[d], 1), stride.v[d]));
    return td__dim_add(last, 1);
}

/* Has a tensor like m expanded dims? */
static bool is_expanded(const td_meta *m) {
    bool    again[TD_MAX_RANK];
    int64_t dims[2][TD_MAX_RANK];
    return td__dims_apart(m->rank, m->size, m->stride, dims[0], dims[1], again) <
           m->rank;
}

/* in: self, src, size, stride, storage_offset. The result has the geometry of self, m.
 * The part that src replaces may lie beyond what that shows of its storage, and there
 * may be gaps. So the gradient of the storage is made first: zeros, and g where the
 * result lies. A result that shows all of it is that storage. */
bool td__vjp_as_strided_scatter(td_vjp *v) {
    const td_meta *m = v->in_meta[0], *s = v->in_meta[1];
    td_ints        size = ints(v->in[2].u.ints, (int)v->in[2].n);
    td_ints        stride = ints(v->in[3].u.ints, (int)v->in[3].n);
    td_ints        sizes = ints(m->size, m->rank), strides = ints(m->stride, m->rank);
    td_value       off = v->in[4];
    int64_t        numel = td__numel(m->rank, m->size), places, one = 1;
    if (off.kind == TD_K_NONE) off = td_value_int(m->offset);
    if (td__dim_seems_eq(numel, 0) || td__dim_seems_eq(td__numel(s->rank, s->size), 0))
        return (!v->need[0] || give(v, 0, v->g[0])) &&
               (!v->need[1] || give(v, 1, zeros(v, s))); /* nothing of src shows */
    if (is_expanded(m)) /* the result is a dense copy */
        return td__fail(v->cx, TD_E_UNSUPPORTED,
                        "as_strided_scatter: unsupported: its gradient is not "
                        "implemented for an expanded self; pass self through "
                        "contiguous");
    places =
        td__dim_max(extent(sizes, strides, m->offset), extent(size, stride, off.u.i));
    bool all =
        td__is_dense(m->rank, m->size, m->stride) && td__dim_seems_eq(places, numel);
    td_tensor *g =
        all ? td_op_contiguous(v->g[0])
            : td_op_as_strided_backward(v->g[0], ints(&places, 1), ints(&one, 1), 0,
                                        sizes, strides, m->offset);
    if (g->offset != 0 && !td_is_nil(g)) g = td_op_clone(g, true);
    if (v->need[1] &&
        !give(v, 1, td_op_contiguous(td_op_as_strided(g, size, stride, off))))
        return false;
    if (!v->need[0]) return true;
    g = td_op_as_strided_scatter(g, zeros(v, s), size, stride, off);
    if (!all)
        g = td_op_as_strided_backward(g, sizes, strides, m->offset, ints(&places, 1),
                                      ints(&one, 1), 0);
    return give(v, 0, g);
}
