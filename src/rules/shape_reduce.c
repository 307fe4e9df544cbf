/* shape_reduce.c -- sizes, dtypes and argument checks of reductions, scans, sorts
 * and softmax. Results are row-major, but for sort's, which keep the order of
 * dims of their input. */
#include "rules/reduce_dims.h"
#include "rules/shape_rules.h"

#include <math.h>

void td__reduce_mask(const td_value *dim, int rank, bool empty_is_all, bool *mask) {
    bool all = dim->kind == TD_K_NONE;
    if (dim->kind == TD_K_INTS && dim->n == 0) all = empty_is_all;
    for (int i = 0; i < rank; i++) mask[i] = all;
    if (all || rank == 0) return;
    if (dim->kind == TD_K_INT) mask[td__wrap_dim(dim->u.i, rank)] = true;
    for (uint32_t k = 0; dim->kind == TD_K_INTS && k < dim->n; k++)
        mask[td__wrap_dim(dim->u.ints[k], rank)] = true;
}

/* The reduced tensor is always the first argument. */
static td_tensor *self_of(td_opcall *c) { return td__in(c, 0); }

/* ---- dims -------------------------------------------------------------- */

/* Adds one dim to the mask; naming it twice is an error. */
static bool mark_dim(td_opcall *c, int64_t dim, int rank, bool *mask) {
    int d = td__op_dim(c, dim, rank);
    if (d < 0) return false;
    if (mask[d])
        return td__op_fail(c, TD_E_ARG, "dim %d appears more than once in dim", d);
    mask[d] = true;
    return true;
}

/* Which dims are reduced, from an int, a list or nothing. */
static bool read_dims(td_opcall *c, int arg, bool empty_is_all, bool *mask) {
    int             rank = self_of(c)->rank;
    const td_value *v = &c->in[arg];
    bool            all = v->kind == TD_K_NONE;
    for (int i = 0; i <= rank; i++) mask[i] = false;
    if (v->kind == TD_K_INTS && v->n == 0) all = empty_is_all;
    for (int i = 0; i < rank && all; i++) mask[i] = true;
    if (v->kind == TD_K_INT) return mark_dim(c, v->u.i, rank, mask);
    for (uint32_t k = 0; v->kind == TD_K_INTS && k < v->n; k++)
        if (!mark_dim(c, v->u.ints[k], rank, mask)) return false;
    return true;
}

/* Sizes of t without the masked dims, or with size 1 there when `keep`. */
static void reduced_meta(td_meta *m, const td_tensor *t, const bool *mask, bool keep,
                         td_dtype dt) {
    int64_t size[TD_MAX_RANK];
    int     n = 0;
    for (int i = 0; i < t->rank; i++) {
        if (!mask[i]) size[n++] = t->size[i];
        else if (keep) size[n++] = 1;
    }
    td__meta_dense(m, dt, n, size);
}

/* Every reduced dim must have elements: the op has no identity. */
static bool not_empty(td_opcall *c, const bool *mask) {
    const td_tensor *t = self_of(c);
    for (int i = 0; i < t->rank; i++)
        if (mask[i] && !td__dim_expect(t->size[i], TD_DIM_IS_NE, 0))
            return td__op_fail(c, TD_E_INDEX,
                               "reduced dim %d has size 0 and there is no identity, %s",
                               i, td__type_str(t));
    return true;
}

/* self must be floating. */
static bool float_only(td_opcall *c) {
    const td_tensor *t = self_of(c);
    return td__is_differentiable((td_dtype)t->dtype) ||
           td__op_fail(c, TD_E_DTYPE, "needs a floating point tensor, got %s",
                       td__type_str(t));
}

/* ---- sums -------------------------------------------------------------- */

/* The dtype given in argument `arg`, else i64 for integers and bool: ATen sums them
 * there. */
static td_dtype sum_dtype(td_opcall *c, int arg) {
    td_dtype dt = (td_dtype)self_of(c)->dtype;
    return td__in_dtype(c, arg, td__is_differentiable(dt) ? dt : TD_I64);
}

/* in: self, dim, keepdim, dtype. Also prod_dim and nansum. */
bool td__shape_sum(td_opcall *c) {
    bool mask[TD_MAX_RANK + 1];
    if (!read_dims(c, 1, true, mask)) return false;
    reduced_meta(c->meta, self_of(c), mask, td__in_bool(c, 2), sum_dtype(c, 3));
    return true;
}

/* in: self, dim, keepdim, dtype. The dtype given, or that of self, must be floating. */
bool td__shape_mean(td_opcall *c) {
    const td_tensor *t = self_of(c);
    bool             mask[TD_MAX_RANK + 1];
    td_dtype         dt = td__in_dtype(c, 3, (td_dtype)t->dtype);
    if (!td__is_float(dt))
        return td__op_fail(c, TD_E_DTYPE,
                           "the result must be floating point, not %s (self is %s)",
                           td_dtype_name(dt), td__type_str(t));
    if (!read_dims(c, 1, true, mask)) return false;
    reduced_meta(c->meta, t, mask, td__in_bool(c, 2), dt);
    return true;
}

/* in: self, dtype. 0-dim. */
bool td__shape_prod(td_opcall *c) {
    td__meta_dense(c->meta, sum_dtype(c, 1), 0, NULL);
    return true;
}

/* in: self, dim. i64. */
bool td__shape_count_nonzero(td_opcall *c) {
    bool mask[TD_MAX_RANK + 1];
    if (!read_dims(c, 1, true, mask)) return false;
    reduced_meta(c->meta, self_of(c), mask, false, TD_I64);
    return true;
}

/* in: self, dim, keepdim. An empty list of dims reduces none, unlike in sum. */
bool td__shape_all(td_opcall *c) {
    bool     mask[TD_MAX_RANK + 1];
    td_dtype dt = self_of(c)->dtype == TD_U8 ? TD_U8 : TD_BOOL;
    if (!read_dims(c, 1, false, mask)) return false;
    reduced_meta(c->meta, self_of(c), mask, td__in_bool(c, 2), dt);
    return true;
}

/* ---- extremes ---------------------------------------------------------- */

/* in: self, dim, keepdim. */
bool td__shape_amax(td_opcall *c) {
    const td_tensor *t = self_of(c);
    bool             mask[TD_MAX_RANK + 1];
    if (!read_dims(c, 1, true, mask) || !not_empty(c, mask)) return false;
    reduced_meta(c->meta, t, mask, td__in_bool(c, 2), (td_dtype)t->dtype);
    return true;
}

/* A maximum of no elements does not exist; a symbolic size is guarded to be above 0. */
static bool some_elements(td_opcall *c) {
    const td_tensor *t = self_of(c);
    for (int i = 0; i < t->rank; i++)
        if (!td__dim_expect(t->size[i], TD_DIM_IS_NE, 0))
            return td__op_fail(c, TD_E_INDEX, "self must have elements, got %s",
                               td__type_str(t));
    return true;
}

/* in: self. 0-dim. */
bool td__shape_max(td_opcall *c) {
    if (!some_elements(c)) return false;
    td__meta_dense(c->meta, (td_dtype)self_of(c)->dtype, 0, NULL);
    return true;
}

/* ATen has no sorting or arg-reduction of bool. */
static bool not_bool(td_opcall *c) {
    const td_tensor *t = self_of(c);
    return t->dtype != TD_BOOL ||
           td__op_fail(c, TD_E_DTYPE,
                       "is not defined on bool, got %s; convert to u8 first",
                       td__type_str(t));
}

/* in: self. 0-dim; NaN for an empty tensor, hence no check of its size. */
bool td__shape_median(td_opcall *c) {
    if (!not_bool(c)) return false;
    td__meta_dense(c->meta, (td_dtype)self_of(c)->dtype, 0, NULL);
    return true;
}

bool td__shape_median_dim(td_opcall *c) { return not_bool(c) && td__shape_max_dim(c); }

/* in: self, dim, keepdim. Results: values, indices. */
bool td__shape_max_dim(td_opcall *c) {
    const td_tensor *t = self_of(c);
    bool             mask[TD_MAX_RANK + 1];
    if (!read_dims(c, 1, true, mask) || !not_empty(c, mask)) return false;
    reduced_meta(&c->meta[0], t, mask, td__in_bool(c, 2), (td_dtype)t->dtype);
    reduced_meta(&c->meta[1], t, mask, td__in_bool(c, 2), TD_I64);
    return true;
}

/* in: self, dim or none, keepdim. */
bool td__shape_argmax(td_opcall *c) {
    const td_tensor *t = self_of(c);
    bool             mask[TD_MAX_RANK + 1];
    if (!not_bool(c) || !read_dims(c, 1, true, mask)) return false;
    if (td__in_none(c, 1) ? !some_elements(c) : !not_empty(c, mask)) return false;
    reduced_meta(c->meta, t, mask, td__in_bool(c, 2), TD_I64);
    return true;
}

/* ---- moments and norms ------------------------------------------------- */

/* var, std and their twins with a mean. */
bool td__shape_var(td_opcall *c) {
    const td_tensor *t = self_of(c);
    bool             mask[TD_MAX_RANK + 1];
    if (!float_only(c) || !read_dims(c, 1, true, mask)) return false;
    for (int i = 0; i < c->n_out; i++)
        reduced_meta(&c->meta[i], t, mask, td__in_bool(c, 3), (td_dtype)t->dtype);
    return true;
}

/* in: self, p, dim, keepdim, dtype. The norms with negative p and with p = inf have no
 * value on empty dims. */
bool td__shape_norm(td_opcall *c) {
    const td_tensor *t = self_of(c);
    bool             mask[TD_MAX_RANK + 1];
    double           p = td__in_f(c, 1);
    td_dtype         dt = td__in_dtype(c, 4, (td_dtype)t->dtype);
    if (!float_only(c) || !read_dims(c, 2, true, mask)) return false;
    if (!td__is_float(dt) || td__promote((td_dtype)t->dtype, dt) != dt)
        return td__op_fail(c, TD_E_DTYPE, "%s cannot become %s without loss",
                           td__type_str(t), td_dtype_name(dt));
    if ((p < 0 || p == INFINITY) && !not_empty(c, mask)) return false;
    reduced_meta(c->meta, t, mask, td__in_bool(c, 3), dt);
    return true;
}

/* in: self, dim, keepdim. Integers give the default float. */
bool td__shape_logsumexp(td_opcall *c) {
    const td_tensor *t = self_of(c);
    bool             mask[TD_MAX_RANK + 1];
    td_dtype         dt = (td_dtype)t->dtype;
    if (!td__is_float(dt)) dt = c->cx->default_dtype;
    if (!read_dims(c, 1, true, mask)) return false;
    reduced_meta(c->meta, t, mask, td__in_bool(c, 2), dt);
    return true;
}

/* ---- scans ------------------------------------------------------------- */

/* in: self, dim, dtype. cumsum and cumprod; in place, dtype may only repeat that of
 * self. */
bool td__shape_cumsum(td_opcall *c) {
    const td_tensor *t = self_of(c);
    td_dtype         own = (td_dtype)t->dtype;
    if (td__op_dim(c, td__in_int(c, 1), t->rank) < 0) return false;
    if (c->info->writes && td__in_dtype(c, 2, own) != own)
        return td__op_fail(c, TD_E_DTYPE,
                           "dtype is %s and the written tensor %s: leave dtype out, or "
                           "use the op that returns a new tensor",
                           td_dtype_name(td__in_dtype(c, 2, own)), td_dtype_name(own));
    td__meta_dense(c->meta, sum_dtype(c, 2), t->rank, t->size);
    return true;
}

/* in: self, dim. */
bool td__shape_logcumsumexp(td_opcall *c) {
    const td_tensor *t = self_of(c);
    if (!float_only(c) || td__op_dim(c, td__in_int(c, 1), t->rank) < 0) return false;
    td__meta_dense(c->meta, (td_dtype)t->dtype, t->rank, t->size);
    return true;
}

/* in: self, dim. Results: values, indices. */
bool td__shape_cummax(td_opcall *c) {
    const td_tensor *t = self_of(c);
    if (td__op_dim(c, td__in_int(c, 1), t->rank) < 0) return false;
    td__meta_dense(&c->meta[0], (td_dtype)t->dtype, t->rank, t->size);
    td__meta_dense(&c->meta[1], TD_I64, t->rank, t->size);
    return true;
}

/* in: a, b, dim, reverse. a and b have one dtype and the same sizes. */
bool td__shape_linear_scan(td_opcall *c) {
    const td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    bool             same = a->rank == b->rank && a->dtype == b->dtype;
    for (int i = 0; same && i < a->rank; i++) same = td__dim_eq(a->size[i], b->size[i]);
    if (!same)
        return td__op_fail(c, TD_E_SHAPE, "a and b differ, %s vs %s", td__type_str(a),
                           td__type_str(b));
    if (!float_only(c) || td__op_dim(c, td__in_int(c, 2), a->rank) < 0) return false;
    td__meta_dense(c->meta, (td_dtype)b->dtype, b->rank, b->size);
    return true;
}

/* ---- sorting ----------------------------------------------------------- */

/* in: self, dim, descending, stable. Results: values, indices, both in the layout of
 * self. */
bool td__shape_sort(td_opcall *c) {
    const td_tensor *t = self_of(c);
    td_meta         *m = c->meta;
    if (td__op_dim(c, td__in_int(c, 1), t->rank) < 0) return false;
    td__meta_dense(m, (td_dtype)t->dtype, t->rank, t->size);
    m->strided = true;
    bool packed = td__is_packed(t->rank, t->size, t->stride);
    if (!packed) td__strides_like(t->rank, t->size, t->stride, m->stride);
    for (int i = 0; i < t->rank && packed; i++) m->stride[i] = t->stride[i];
    c->meta[1] = c->meta[0];
    c->meta[1].dtype = TD_I64;
    return true;
}

/* in: self, k, dim, largest, sorted. Results: values, indices, with size k in dim. */
bool td__shape_topk(td_opcall *c) {
    const td_tensor *t = self_of(c);
    int64_t          k = td__in_int(c, 1);
    int              dim = td__op_dim(c, td__in_int(c, 2), t->rank);
    if (dim < 0 || !not_bool(c)) return false;
    if (td__dim_lt(k, 0) || td__dim_lt(t->rank ? t->size[dim] : 1, k))
        return td__op_fail(c, TD_E_INDEX, "k = %lld is out of range for dim %d of %s",
                           (long long)k, dim, td__type_str(t));
    td__meta_dense(&c->meta[0], (td_dtype)t->dtype, t->rank, t->size);
    if (t->rank) c->meta[0].size[dim] = k;
    c->meta[1] = c->meta[0];
    c->meta[1].dtype = TD_I64;
    return true;
}

/* in: self, k, dim, keepdim. k counts from 1. */
bool td__shape_kthvalue(td_opcall *c) {
    const td_tensor *t = self_of(c);
    int64_t          k = td__in_int(c, 1);
    bool             mask[TD_MAX_RANK + 1];
    if (!not_bool(c) || !read_dims(c, 2, true, mask) || !not_empty(c, mask))
        return false;
    int dim = td__wrap_dim(td__in_int(c, 2), t->rank);
    if (td__dim_lt(k, 1) || td__dim_lt(t->rank ? t->size[dim] : 1, k))
        return td__op_fail(c, TD_E_INDEX, "k = %lld is out of range for dim %d of %s",
                           (long long)k, dim, td__type_str(t));
    reduced_meta(&c->meta[0], t, mask, td__in_bool(c, 3), (td_dtype)t->dtype);
    reduced_meta(&c->meta[1], t, mask, td__in_bool(c, 3), TD_I64);
    return true;
}

/* ---- softmax ----------------------------------------------------------- */

/* in: self, dim, half_to_float. */
bool td__shape_softmax(td_opcall *c) {
    const td_tensor *t = self_of(c);
    if (!float_only(c) || td__op_dim(c, td__in_int(c, 1), t->rank) < 0) return false;
    if (td__in_bool(c, 2))
        return td__op_fail(c, TD_E_ARG, "half_to_float must be false on the CPU");
    td__meta_dense(c->meta, (td_dtype)t->dtype, t->rank, t->size);
    return true;
}

/* in: grad_output, output, dim, input_dtype. */
bool td__shape_softmax_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0), *y = td__in(c, 1);
    bool             same = g->rank == y->rank && g->dtype == y->dtype;
    for (int i = 0; same && i < g->rank; i++) same = td__dim_eq(g->size[i], y->size[i]);
    if (!same)
        return td__op_fail(c, TD_E_SHAPE, "grad_output and output differ, %s vs %s",
                           td__type_str(g), td__type_str(y));
    if (!float_only(c) || td__op_dim(c, td__in_int(c, 2), g->rank) < 0) return false;
    if (td__in_dtype(c, 3, (td_dtype)g->dtype) != (td_dtype)g->dtype)
        return td__op_fail(c, TD_E_DTYPE, "input_dtype must be that of grad_output, %s",
                           td__type_str(g));
    td__meta_dense(c->meta, (td_dtype)g->dtype, g->rank, g->size);
    return true;
}
