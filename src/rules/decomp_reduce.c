/* decomp_reduce.c -- reductions made of other ops. */
#include "rules/reduce_dims.h"
#include "rules/rule_arith.h"

/* in: g, sizes of the reduced tensor, dim, keepdim. g has the kept dims only, or all
 * with size 1 where reduced: it gets every dim, then is expanded. Leading dims need no
 * view, because expand adds them. */
bool td__decomp_expand_reduced(td_opcall *c) {
    td_tensor *g = td__in(c, 0);
    td_ints    size = t_ints(c->in[1]);
    int64_t    full[TD_MAX_RANK];
    bool       mask[TD_MAX_RANK + 1], seen_kept = false, gap = false;
    if (size.n > TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE,
                           "size has %d entries; at most %d dims are supported", size.n,
                           TD_MAX_RANK);
    for (uint32_t i = 0; c->in[2].kind == TD_K_INTS && i < c->in[2].n; i++)
        if (td__op_dim(c, c->in[2].u.ints[i], size.n) < 0) return false;
    if (!td__in_bool(c, 3) && g->rank > 0) {
        td__reduce_mask(&c->in[2], size.n, true, mask);
        /* a view is needed only where a reduced dim follows a kept one: expand can add
         * dims in front */
        for (int i = 0, k = 0; i < size.n; i++) {
            gap |= mask[i] && seen_kept;
            seen_kept |= !mask[i];
            full[i] = mask[i] || k >= g->rank ? 1 : g->size[k++];
        }
        if (gap) g = td_op_view(g, (td_ints){full, size.n});
    }
    c->out[0] = td_op_expand(g, size);
    return true;
}

/* in: self, size. Sums over the dims in which `size` is 1 or absent and self is not. */
bool td__decomp_sum_to_size(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    td_ints    size = t_ints(c->in[1]);
    int64_t    dims[TD_MAX_RANK];
    int        n = 0, lead = t->rank - size.n;
    bool       fits = lead >= 0;
    for (int i = 0; fits && i < t->rank; i++) {
        int64_t want = i < lead ? 1 : size.v[i - lead];
        bool    same = i >= lead && td__dim_eq(want, t->size[i]);
        fits = same || td__dim_eq(want, 1);
        if (!same) dims[n++] = i;
    }
    if (!fits)
        return td__op_fail(c, TD_E_SHAPE, "size %s does not broadcast to that of %s",
                           td__sizes_str(size.n, size.v), td__type_str(t));
    /* To no dims it is ATen's sum: a fresh result and no view, i64 of integers. */
    bool whole = size.n == 0;
    c->out[0] = n == 0 && !whole ? t : t_sum(t, (td_ints){dims, n}, !whole);
    if (lead > 0 && !whole) c->out[0] = td_op_view(c->out[0], size);
    return true;
}

/* The sum of the diagonal of a matrix. */
bool td__decomp_trace(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (t->rank != 2)
        return td__op_fail(c, TD_E_SHAPE, "needs a matrix, got %s", td__type_str(t));
    c->out[0] = t_sum(td_op_diagonal(t, 0, 0, 1), TD_ALL, false);
    return true;
}

/* in: self, dim or none, keepdim. Results: minimum, maximum. */
bool td__decomp_aminmax(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    dim = td__in_int(c, 1);
    td_ints    dims = td__in_none(c, 1) ? TD_DIMS() : (td_ints){&dim, 1};
    c->out[0] = td_op_amin(t, dims, td__in_bool(c, 2));
    c->out[1] = td_op_amax(t, dims, td__in_bool(c, 2));
    return true;
}

/* in: self, dim, descending, stable: the second result of sort. */
bool td__decomp_argsort(td_opcall *c) {
    td_op_sort(td__in(c, 0), td__in_int(c, 1), td__in_bool(c, 2), td__in_bool(c, 3),
               &c->out[0]);
    return true;
}

/* in: self, n, dim. n differences one after another; of bool, whether neighbours
 * differ. */
bool td__decomp_diff(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    n = td__in_number(c, 1);
    int        dim = td__op_dim(c, td__in_int(c, 2), t->rank);
    if (dim < 0) return false;
    if (n < 0 || t->rank == 0)
        return td__op_fail(c, TD_E_ARG,
                           "needs n >= 0 and at least one dim, got n = %lld, %s",
                           (long long)n, td__type_str(t));
    if (n == 0) t = td_op_clone(t, false);
    for (; n > 0 && !td_is_nil(t) && !td__dim_seems_eq(t->size[dim], 0); n--) {
        int64_t    len = td__dim_sub(t->size[dim], 1);
        td_tensor *hi = td_op_narrow(t, dim, 1, len),
                  *lo = td_op_narrow(t, dim, 0, len);
        t = t->dtype == TD_BOOL ? td_op_ne(hi, td_value_tensor(lo)) : t_sub(hi, lo);
    }
    c->out[0] = t;
    return true;
}

/* in: grad, dim, indices, sizes, keepdim. Zeros of `sizes` with the gradient at the
 * indices along dim; without keepdim, grad and indices get that dim back with size 1
 * first. */
bool td__decomp_select_backward(td_opcall *c) {
    td_tensor *g = td__in(c, 0), *ix = td__in(c, 2);
    int64_t    dim = td__in_int(c, 1);
    td_ints    sizes = t_ints(c->in[3]);
    if (!td__in_bool(c, 4) && sizes.n > 0) {
        if ((dim = td__op_dim(c, dim, sizes.n)) < 0) return false;
        g = td_op_unsqueeze(g, dim);
        ix = td_op_unsqueeze(ix, dim);
    }
    c->out[0] = td_op_scatter(td_op_new_zeros(g, sizes, TD_DTYPE_NONE), dim, ix, g);
    return true;
}

/* in: self, dim, dtype. softmax casts before it computes. */
static td_tensor *converted(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    td_dtype   dt = td__in_dtype(c, 2, (td_dtype)t->dtype);
    return dt == (td_dtype)t->dtype ? t : td_op_to(t, dt, false);
}

bool td__decomp_softmax(td_opcall *c) {
    c->out[0] = td_op__softmax(converted(c), td__in_int(c, 1), false);
    return true;
}

bool td__decomp_log_softmax(td_opcall *c) {
    c->out[0] = td_op__log_softmax(converted(c), td__in_int(c, 1), false);
    return true;
}

/* in: self, p, dim, maxnorm. The norm of a half is taken in f32, its factor rounded to
 * the half. The result is row-major. */
bool td__decomp_renorm(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    td_dtype   dt = (td_dtype)t->dtype;
    int64_t    dims[TD_MAX_RANK];
    int        n = 0, dim;
    if (!td__is_float(dt))
        return td__op_fail(c, TD_E_DTYPE, "is defined on floats only, got %s",
                           td__type_str(t));
    if (t->rank < 2)
        return td__op_fail(c, TD_E_SHAPE, "self must have at least 2 dims, got %s",
                           td__type_str(t));
    if (!(td__in_f(c, 1) > 0.0) || !(td__in_f(c, 3) >= 0.0))
        return td__op_fail(c, TD_E_ARG,
                           "p is %g and maxnorm is %g; p must be above 0 and maxnorm "
                           "at least 0",
                           td__in_f(c, 1), td__in_f(c, 3));
    if ((dim = td__op_dim(c, td__in_number(c, 2), t->rank)) < 0) return false;
    for (int d = 0; d < t->rank; d++)
        if (d != dim) dims[n++] = d;
    td_tensor *norm = td_op_norm(t, c->in[1], (td_ints){dims, n}, true,
                                 td__is_half(dt) ? TD_F32 : TD_DTYPE_NONE);
    td_tensor *over = td_op_add(norm, td_value_float(1e-7), td_value_int(1));
    td_tensor *down = td_op_mul(td_op_reciprocal(over), c->in[3]);
    td_tensor *factor =
        td_op_where(td_op_gt(norm, c->in[3]), td_value_tensor(down), td_value_int(1));
    c->out[0] = td_op_contiguous(t_mul(t, t_as(factor, dt)));
    return true;
}
