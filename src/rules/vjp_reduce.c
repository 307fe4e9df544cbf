/* vjp_reduce.c -- derivatives of reductions and scans too long for their rows.
 * Made of ordinary ops, so they have derivatives themselves. */
#include "rules/reduce_dims.h"
#include "rules/rule_arith.h"

#include <math.h>

/* Sets the gradient of an argument; false when it could not be computed. */
static bool give(td_vjp *v, int arg, td_tensor *g) {
    v->grad[arg] = g;
    return !td_is_nil(g);
}

/* The sizes of m as an argument. */
static td_ints sizes_of(const td_meta *m) { return (td_ints){m->size, m->rank}; }

/* Repeats g along the dims that were reduced. */
static td_tensor *expand(td_vjp *v, td_tensor *g, td_value dim, bool keepdim) {
    return td_op__expand_reduced(g, sizes_of(v->in_meta[0]), t_ints(dim), keepdim);
}

/* Gives t, a result of the reduction, its reduced dims back with size 1. */
static td_tensor *restore(td_vjp *v, td_tensor *t, td_value dim, bool keepdim) {
    const td_meta *m = v->in_meta[0];
    bool           mask[TD_MAX_RANK + 1];
    int64_t        size[TD_MAX_RANK];
    if (keepdim || t->rank == 0) return t;
    td__reduce_mask(&dim, m->rank, true, mask);
    for (int i = 0; i < m->rank; i++) size[i] = mask[i] ? 1 : m->size[i];
    return td_op_view(t, (td_ints){size, m->rank});
}

/* How many elements each result was made of. */
static int64_t reduced_count(td_vjp *v, td_value dim) {
    const td_meta *m = v->in_meta[0];
    bool           mask[TD_MAX_RANK + 1];
    int64_t        n = 1;
    td__reduce_mask(&dim, m->rank, true, mask);
    for (int i = 0; i < m->rank; i++)
        if (mask[i]) n = td__dim_mul(n, m->size[i]);
    return n;
}

/* g repeated over the reduced dims, divided by their number of elements. */
static td_tensor *mean_grad(td_vjp *v, td_tensor *g, td_value dim, bool keepdim) {
    return td_op_div(expand(v, g, dim, keepdim), td_value_int(reduced_count(v, dim)),
                     "");
}

bool td__vjp_mean(td_vjp *v) {
    return give(v, 0, mean_grad(v, v->g[0], v->in[1], (v->in[2].u.i != 0)));
}

/* ---- products ---------------------------------------------------------- */

/* out[i] = t[i-1] along dim, out[0] = fill. */
static td_tensor *shifted(td_tensor *t, int64_t dim, double fill) {
    int     d = td__wrap_dim(dim, t->rank);
    int64_t pad[2 * TD_MAX_RANK] = {0};
    if (td_is_nil(t)) return t;
    if (t->rank == 0) return td_op_full_like(t, td_value_float(fill), TD_DTYPE_NONE);
    if (td__dim_eq(t->size[d], 0)) return t;
    int n = 2 * (t->rank - d);
    pad[n - 2] = 1;
    return td_op_constant_pad_nd(td_op_narrow(t, d, 0, td__dim_sub(t->size[d], 1)),
                                 (td_ints){pad, n}, td_value_float(fill));
}

/* The product of all but each element: those before it times those after it.
 * No division, so zeros are like other numbers at any order. */
static td_tensor *others(td_tensor *x, int64_t dim) {
    td_ints    d = {&dim, 1};
    td_tensor *before = shifted(td_op_cumprod(x, dim, TD_DTYPE_NONE), dim, 1);
    td_tensor *reversed = td_op_flip(x, d);
    td_tensor *after = shifted(td_op_cumprod(reversed, dim, TD_DTYPE_NONE), dim, 1);
    return t_mul(before, td_op_flip(after, d));
}

/* self in the dtype that was multiplied in. */
static td_tensor *as_result(td_vjp *v, td_tensor *self) {
    td_dtype dt = (td_dtype)v->g[0]->dtype;
    return dt == (td_dtype)self->dtype ? self : td_op_to(self, dt, false);
}

/* in: self, dtype. g times the product of all other elements. */
bool td__vjp_prod(td_vjp *v) {
    td_tensor *x = as_result(v, v->in[0].u.t);
    if (x->rank == 0) return give(v, 0, v->g[0]);
    td_tensor *flat = others(td_op_reshape(x, TD_SHAPE(-1)), 0);
    return give(v, 0, td_op_reshape(t_mul(flat, v->g[0]), sizes_of(v->in_meta[0])));
}

/* in: self, dim, keepdim, dtype. */
bool td__vjp_prod_dim(td_vjp *v) {
    td_tensor *x = as_result(v, v->in[0].u.t);
    if (x->rank == 0) return give(v, 0, v->g[0]);
    td_tensor *g = restore(v, v->g[0], v->in[1], (v->in[2].u.i != 0));
    return give(v, 0, t_mul(others(x, v->in[1].u.i), g));
}

/* Has t one element, whatever symbolic sizes stand for? */
static bool is_single(const td_tensor *t) {
    for (int d = 0; d < t->rank; d++)
        if (!td__dim_same(t->size[d], 1)) return false;
    return true;
}

/* With y = cumprod(x): dx[i] = y[i-1] S[i], S[i] = sum of g[k] x[i+1]...x[k] over
 * k >= i, that is S[i] = g[i] + x[i+1] S[i+1]. Of one element it is g, which does not
 * depend on x: as in ATen, it requires grad only if g does. */
bool td__vjp_cumprod(td_vjp *v) {
    int64_t    dim = v->in[1].u.i;
    td_tensor *x = as_result(v, v->in[0].u.t);
    if (is_single(x)) return give(v, 0, v->g[0]);
    td_tensor *s = td_op__linear_scan(x, v->g[0], dim, true);
    return give(v, 0, t_mul(shifted(v->out[0], dim, 1), s));
}

/* With r the transposed recurrence run on g: db = r, and da[i] = r[i] out[i-1]
 * forwards, r[i-1] out[i] backwards. */
bool td__vjp_linear_scan(td_vjp *v) {
    int64_t    dim = v->in[2].u.i;
    bool       back = (v->in[3].u.i != 0);
    td_tensor *r = td_op__linear_scan(v->in[0].u.t, v->g[0], dim, !back);
    if (v->need[1] && !give(v, 1, r)) return false;
    if (!v->need[0]) return true;
    return give(v, 0,
                back ? t_mul(shifted(r, dim, 0), v->out[0])
                     : t_mul(r, shifted(v->out[0], dim, 0)));
}

/* ---- extremes ---------------------------------------------------------- */

/* Equal elements share the gradient evenly. */
bool td__vjp_amax(td_vjp *v) {
    bool       keep = (v->in[2].u.i != 0);
    td_tensor *g = restore(v, v->g[0], v->in[1], keep);
    td_tensor *out = restore(v, v->out[0], v->in[1], keep);
    td_tensor *mask = td_op_eq(v->in[0].u.t, td_value_tensor(out));
    td_tensor *count = t_sum(mask, t_ints(v->in[1]), true);
    return give(v, 0, t_div(t_mul(g, mask), count));
}

/* Of all elements: as above, with every NaN equal to a NaN result. Elements that are
 * not the result get 0, also where the gradient is no finite number. ATen fills zeros,
 * which are row-major. */
bool td__vjp_max(td_vjp *v) {
    td_tensor *x = v->in[0].u.t, *out = v->out[0];
    td_tensor *nan = td_op_logical_and(td_op_isnan(x), td_op_isnan(out));
    td_tensor *mask = td_op_logical_or(td_op_eq(x, td_value_tensor(out)), nan);
    td_tensor *share = t_div(v->g[0], t_sum(mask, TD_ALL, false));
    mask = td_op_contiguous(mask);
    return give(v, 0, td_op_where(mask, td_value_tensor(share), td_value_int(0)));
}

/* in: self, dim, keepdim; result 1 is the indices. g goes to the selected elements, as
 * for max_dim, min_dim and median_dim. */
bool td__vjp_select_dim(td_vjp *v) {
    if (!v->g[0]) return true;
    return give(v, 0,
                td_op_value_selecting_reduction_backward(v->g[0], v->in[1].u.i,
                                                         v->out[1],
                                                         sizes_of(v->in_meta[0]),
                                                         (v->in[2].u.i != 0)));
}

/* in: self, dim; result 1 is the indices. An element that was the maximum of several
 * prefixes takes the sum of their gradients. */
bool td__vjp_cummax(td_vjp *v) {
    if (!v->g[0]) return true;
    td_tensor *zero = td_op_zeros_like(v->g[0], TD_DTYPE_NONE);
    return give(v, 0, td_op_scatter_add(zero, v->in[1].u.i, v->out[1], v->g[0]));
}

/* ---- moments ----------------------------------------------------------- */

/* The correction of var; none means 1. */
static double correction(td_value v) {
    return v.kind == TD_K_NONE ? 1 : td__value_f(v);
}

/* g * (2 / (count - less)). A symbolic count has no fraction that is a number: it is
 * computed when the program runs. A trace records the same ops for a count that is a
 * number, so that a body captured again for numbers is the same program; constants are
 * folded later. */
static td_tensor *two_over(td_tensor *g, int64_t count, double less) {
    if (!g->cx->fake) return t_scale(g, 2 / ((double)count - less));
    td_tensor *n = td_op_scalar_tensor(g->cx, td_value_int(count), TD_F64);
    n = td_op_sub(n, td_value_float(less), td_value_int(1));
    td_tensor *two = td_op_scalar_tensor(g->cx, td_value_float(2), TD_F64);
    return t_mul(g, t_div(two, n));
}

/* 2 / (n - correction) * g * (self - mean); args: dim, correction, keepdim. Of halves
 * in f32, for the caller to round. */
static td_tensor *var_grad(td_vjp *v, td_tensor *g) {
    td_tensor *x = t_wide(v->in[0].u.t);
    td_value   dim = v->in[1];
    bool       all = dim.kind == TD_K_NONE || x->rank == 0;
    int64_t    count = reduced_count(v, dim);
    double     less = correction(v->in[2]);
    td_tensor *mean = t_mean(x, all ? TD_ALL : t_ints(dim), !all);
    g = restore(v, g, dim, (v->in[3].u.i != 0));
    /* n <= correction: the variance is x / 0. ATen gives NaN where x equals the mean,
     * inf elsewhere. */
    if (all && td__dim_le(count, (int64_t)floor(less))) {
        td_tensor *same = td_op_eq(x, td_value_tensor(mean));
        return t_mul(g, td_op_where(same, td_value_float((double)NAN),
                                    td_value_float((double)INFINITY)));
    }
    return t_mul(two_over(g, count, less), t_sub(x, mean));
}

/* The gradient of the variance from that of its root; 0 where the root is 0. */
static td_tensor *std_grad(td_tensor *g, td_tensor *std) {
    td_tensor *zero = td_op_eq(std, td_value_int(0));
    td_tensor *twice = t_scale(t_wide(std), 2);
    return td_op_masked_fill(t_div(t_wide(g), twice), zero, td_value_int(0));
}

/* The gradient of self, rounded to its dtype once, at the end. */
static bool give_rounded(td_vjp *v, td_tensor *g) {
    return give(v, 0, t_as(g, v->in_meta[0]->dtype));
}

/* in: self, dim, correction, keepdim. */
bool td__vjp_var(td_vjp *v) { return give_rounded(v, var_grad(v, t_wide(v->g[0]))); }

/* The chain rule through the root; see std_grad for a deviation of 0. */
bool td__vjp_std(td_vjp *v) {
    return give_rounded(v, var_grad(v, std_grad(v->g[0], v->out[0])));
}

/* var_mean and std_mean: g_var is the gradient of the variance, NULL: it is zero; that
 * of the mean is g[1]. */
static bool with_mean(td_vjp *v, td_tensor *g_var) {
    td_tensor *g = g_var ? var_grad(v, g_var) : NULL;
    if (v->g[1])
        g = t_join(g, mean_grad(v, t_wide(v->g[1]), v->in[1], (v->in[3].u.i != 0)));
    return !g || give_rounded(v, g);
}

bool td__vjp_var_mean(td_vjp *v) {
    return with_mean(v, v->g[0] ? t_wide(v->g[0]) : NULL);
}

bool td__vjp_std_mean(td_vjp *v) {
    return with_mean(v, v->g[0] ? std_grad(v->g[0], v->out[0]) : NULL);
}

/* ---- norms ------------------------------------------------------------- */

/* t in its layout, with 0 where at_zero is 0. masked_fill would be row-major. */
static td_tensor *zero_where(td_tensor *t, td_tensor *at_zero) {
    td_value zero = td_value_int(0);
    return td_op_where(td_op_eq(at_zero, zero), zero, td_value_tensor(t));
}

/* t^p. */
static td_tensor *power(td_tensor *t, double p) {
    return td_op_pow(td_value_tensor(t), td_value_float(p));
}

/* |x| = norm, all NaN where the norm is one; they share the gradient. */
static td_tensor *inf_norm_grad(td_tensor *x, td_tensor *g, td_tensor *norm,
                                td_ints dim) {
    td_tensor *nan = td_op_logical_and(td_op_isnan(x), td_op_isnan(norm));
    td_tensor *hit =
        td_op_logical_or(td_op_eq(td_op_abs(x), td_value_tensor(norm)), nan);
    return t_mul(t_mul(td_op_sign(x), hit), t_div(g, t_sum(hit, dim, true)));
}

/* d|x|_p / dx = sgn(x) |x|^(p-1) / |x|_p^(p-1), written so that no 0/0 or 0^-1
 * appears: 0 at a zero norm. */
static td_tensor *norm_grad(td_tensor *x, double p, td_tensor *g, td_tensor *norm,
                            td_ints dim) {
    if (p == 1) return t_mul(td_op_sign(x), g);
    if (p == 2) return t_mul(g, zero_where(t_div(x, norm), norm));
    if (isinf(p)) return inf_norm_grad(x, g, norm, dim);
    if (p < 1) {
        td_tensor *s = t_mul(td_op_sign(x), power(td_op_abs(x), p - 1));
        return t_mul(t_mul(zero_where(s, x), g), power(norm, 1 - p));
    }
    td_tensor *s = p < 2 ? t_mul(td_op_sign(x), power(td_op_abs(x), p - 1))
                         : t_mul(x, power(td_op_abs(x), p - 2));
    return t_mul(s, zero_where(t_div(g, power(norm, p - 1)), norm));
}

/* in: self, p, dim, keepdim, dtype. */
bool td__vjp_norm(td_vjp *v) {
    td_value dim = v->in[2];
    bool     keep = (v->in[3].u.i != 0);
    if (td__value_f(v->in[1]) == 0) return true; /* a count: no gradient, as in ATen */
    td_tensor *g = restore(v, v->g[0], dim, keep);
    td_tensor *norm = restore(v, v->out[0], dim, keep);
    return give(v, 0,
                norm_grad(v->in[0].u.t, td__value_f(v->in[1]), g, norm, t_ints(dim)));
}

/* in: self, dim, keepdim. g exp(self - out), the softmax of self times g. */
bool td__vjp_logsumexp(td_vjp *v) {
    bool       keep = (v->in[2].u.i != 0);
    td_tensor *g = restore(v, v->g[0], v->in[1], keep);
    td_tensor *out = restore(v, v->out[0], v->in[1], keep);
    return give(v, 0, t_mul(g, td_op_exp(t_sub(v->in[0].u.t, out))));
}

/* dx[i] = exp(x[i] - y[i]) S[i], S[i] = sum of g[k] exp(y[i] - y[k]) over k >= i, that
 * is S[i] = g[i] + exp(y[i] - y[i+1]) S[i+1]. No exponent is above 0, and no logarithm
 * of a gradient is taken, which would have no derivative at 0. Of halves y is computed
 * again: rounded to a half it is off by far more than the exponents allow. */
bool td__vjp_logcumsumexp(td_vjp *v) {
    int64_t dim = v->in[1].u.i;
    if (v->in[0].u.t->rank == 0) return give(v, 0, v->g[0]); /* self, as in ATen */
    bool       half = td__is_half(v->in_meta[0]->dtype);
    td_tensor *x = t_wide(v->in[0].u.t);
    td_tensor *y = half ? td_op_logcumsumexp(x, dim) : v->out[0];
    td_tensor *last = shifted(y, dim, -INFINITY);
    td_tensor *stays =
        td_op_logical_and(td_op_isinf(y), td_op_eq(y, td_value_tensor(last)));
    td_tensor *step =
        td_op_where(stays, td_value_float(0), td_value_tensor(t_sub(last, y)));
    td_tensor *s = td_op__linear_scan(td_op_exp(step), t_wide(v->g[0]), dim, true);
    s = t_mul(td_op_exp(t_sub(x, y)), s);
    return give(v, 0, t_as(s, v->in_meta[0]->dtype));
}
