/* decomp_statistics.c -- composite statistics: quantiles, moments, and integrals of
 * sampled functions. */
#include "rules/rule_arith.h"
#include "rules/shape_rules.h"

#include <math.h>
#include <string.h>

static td_ints ints(const int64_t *v, int n) { return (td_ints){v, n}; }

/* Sets result 0; false when the call that made t failed. */
static bool give(td_opcall *c, td_tensor *t) {
    c->out[0] = t;
    return t && !td_is_nil(t);
}

/* ---- quantiles ---------------------------------------------------------- */

typedef struct quantiles {
    td_tensor *x;   /* the elements of each quantile along the last dim */
    td_tensor *q;   /* a vector */
    bool       one; /* q was a number or a tensor without dims */
    bool       skip_nan;
    char       how; /* first letter of the interpolation; 'm': midpoint */
} quantiles;

/* in: self, q, dim, keepdim, interpolation. */
static bool quantile_fits(td_opcall *c) {
    static const char *const known[] = {"linear", "lower", "higher", "midpoint",
                                        "nearest"};
    const td_tensor         *self = td__in(c, 0), *q = td__in(c, 1);
    int                      i = 0;
    if (self->dtype != TD_F32 && self->dtype != TD_F64)
        return td__op_fail(c, TD_E_DTYPE, "self must be f32 or f64, got %s",
                           td__type_str(self));
    if (q && (q->dtype != self->dtype || q->rank > 1))
        return td__op_fail(c, TD_E_SHAPE,
                           "q is %s; it must be a number or a vector of the dtype of "
                           "self %s",
                           td__type_str(q), td__type_str(self));
    if (!td__dim_expect(self->numel, TD_DIM_IS_NE, 0))
        return td__op_fail(c, TD_E_SHAPE, "self is %s; it must have elements",
                           td__type_str(self));
    if (!q && !(td__in_f(c, 1) >= 0 && td__in_f(c, 1) <= 1))
        return td__op_fail(c, TD_E_ARG, "q must be from 0 to 1, got %g",
                           td__in_f(c, 1));
    while (i < TD_COUNT(known) && strcmp(known[i], c->in[4].u.s)) i++;
    return i < TD_COUNT(known) ||
           td__op_fail(c, TD_E_ARG,
                       "interpolation must be linear, lower, higher, midpoint or "
                       "nearest, got %.20s",
                       c->in[4].u.s);
}

/* self with the dim, or all elements, as the last dim; kept dims of size 1 stay. */
static td_tensor *quantile_rows(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    size[TD_MAX_RANK + 1];
    bool       keep = td__in_bool(c, 3);
    if (td__in_none(c, 2)) {
        for (int d = 0; d < t->rank; d++) size[d] = 1;
        size[t->rank] = -1;
        if (!keep || t->rank == TD_MAX_RANK) return td_op_flatten(t, 0, -1);
        return td_op_reshape(t, ints(size, t->rank + 1));
    }
    int dim = td__op_dim(c, td__in_int(c, 2), t->rank);
    if (dim < 0) return NULL;
    if (t->rank == 0) return td_op_reshape(t, TD_SHAPE(1));
    if (keep) return td_op_transpose(td_op_unsqueeze(t, -1), dim, -1);
    return td_op_movedim(t, TD_DIMS(dim), TD_DIMS(-1));
}

/* The ranks of the quantiles, with fractions: q times the last index of each row, or
 * of its elements that are not NaN. A row with a NaN ends with it once sorted. */
static td_tensor *quantile_ranks(const quantiles *z) {
    td_tensor *nan = td_op_isnan(z->x);
    if (z->skip_nan) {
        td_tensor *n =
            td_op_sum(td_op_logical_not(nan), TD_DIMS(-1), true, TD_DTYPE_NONE);
        td_tensor *r = t_mul(z->q, td_op_sub(n, td_value_int(1), td_value_int(1)));
        return td_op_masked_fill(r, td_op_lt(r, td_value_int(0)), td_value_int(0));
    }
    td_value   last = td_value_int(td__dim_sub(z->x->size[z->x->rank - 1], 1));
    td_tensor *r = td_op_mul(z->q, last), *some = td_op_any(nan, TD_DIMS(-1), true);
    return td_op_where(some, last, td_value_tensor(r));
}

/* The values at the ranks, between two of them by interpolation. */
static td_tensor *quantile_values(const quantiles *z) {
    td_tensor *r = quantile_ranks(z), *index, *parts[2], *both[2];
    if (z->how == 'o') r = td_op_floor(r);
    if (z->how == 'h') r = td_op_ceil(r);
    if (z->how == 'n') r = td_op_round(r, 0);
    parts[0] = td_op_to(td_op_detach(r), TD_I64, false);
    if (z->how != 'i' && z->how != 'm')
        return td_op__sorted_at(z->x, -1, parts[0], &index);
    parts[1] = td_op_to(td_op_ceil(td_op_detach(r)), TD_I64, false);
    td_tensor *v =
        td_op__sorted_at(z->x, -1, td_op_cat((td_tensors){parts, 2}, -1), &index);
    if (td_is_nil(v) || td_op_chunk(v, 2, -1, both, 2) < 0) return v;
    if (z->how == 'm') return td_op_lerp(both[0], both[1], td_value_float(0.5));
    return td_op_lerp(both[0], both[1], td_value_tensor(t_sub(r, parts[0])));
}

/* in: self, q, dim, keepdim, interpolation; nanquantile, too. A vector of q is the
 * first dim of the result. */
bool td__decomp_quantile(td_opcall *c) {
    td_tensor *q = td__in(c, 1);
    if (!quantile_fits(c)) return false;
    quantiles z = {.skip_nan = c->def->name[0] == 'n',
                   .one = !q || q->rank == 0,
                   .how =
                       c->in[4].u.s[1]}; /* lInear, lOwer, hIgher, mIdpoint, nEarest */
    if (c->in[4].u.s[0] != 'l') z.how = c->in[4].u.s[0];
    z.x = quantile_rows(c);
    if (!z.x || td_is_nil(z.x)) return false;
    td_dtype dt = (td_dtype)z.x->dtype;
    z.q = q ? td_op__expect_range(q, 0, 1, "q")
            : td_op_scalar_tensor(c->cx, c->in[1], dt);
    if (z.one) z.q = td_op_unsqueeze(z.q, 0);
    td_tensor *v = quantile_values(&z);
    if (td_is_nil(v)) return false;
    if (z.one) return give(c, td_op_squeeze_dim(v, -1));
    v = td_op_transpose(td_op_unsqueeze(v, 0), 0, -1);
    return give(c, td_op_squeeze_dim(v, -1));
}

/* in: self. */
bool td__decomp_msort(td_opcall *c) {
    td_tensor *order;
    return give(c, td_op_sort(td__in(c, 0), 0, false, false, &order));
}

/* ---- moments ------------------------------------------------------------ */

/* in: self, dim, keepdim, dtype. */
bool td__decomp_nanmean(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    td_ints    dim = t_ints(c->in[1]);
    bool       keep = td__in_bool(c, 2);
    if (!td__is_float((td_dtype)t->dtype))
        return td__op_fail(c, TD_E_DTYPE, "self must be floating point, got %s",
                           td__type_str(t));
    td_dtype dt = td__in_dtype(c, 3, TD_DTYPE_NONE);
    if (dt != TD_DTYPE_NONE && !td__is_float(dt))
        return td__op_fail(c, TD_E_DTYPE, "dtype must be floating point, got %s",
                           td_dtype_name(dt));
    td_tensor *n = t_sum(td_op_logical_not(td_op_isnan(t)), dim, keep);
    return give(c, t_div(td_op_nansum(t, dim, keep, dt), n));
}

/* Weights, argument i, once their sizes and signs are checked; NULL: not given or
 * after td__op_fail. */
static td_tensor *weights_of(td_opcall *c, int i, int64_t n, bool whole) {
    td_tensor  *w = td__in(c, i);
    const char *name = c->info->s.in[i].name;
    if (!w) return NULL;
    td_dtype dt = (td_dtype)w->dtype;
    if (w->rank > 1 || !td__dim_eq(w->numel, n) || td__is_float(dt) == whole ||
        dt == TD_BOOL) {
        td__op_fail(c, TD_E_SHAPE,
                    "%s is %s; it must be a vector of %s with one entry for each of "
                    "the %lld observations",
                    name, td__type_str(w), whole ? "integers" : "floats", (long long)n);
        return NULL;
    }
    return td_op__expect_range(w, 0, (double)INFINITY, name);
}

/* The sum of weights, which must not be 0. */
static td_tensor *weight_sum(td_tensor *w) {
    td_tensor *sum = t_sum(w, TD_ALL, false);
    return td_op__expect_range(sum, 4.9406564584124654e-324, (double)INFINITY,
                               "the sum of weights");
}

/* in: self, correction, fweights, aweights. Without weights, where n - correction is
 * the divisor; w: the product of the weights. */
static td_tensor *cov_of(td_opcall *c, td_tensor *x, td_tensor *w, td_tensor *aw) {
    int64_t    n = x->size[1], less = td__in_int(c, 1);
    td_tensor *sum = w ? weight_sum(w) : NULL;
    td_tensor *total = t_sum(w ? t_mul(x, w) : x, TD_DIMS(1), false);
    td_tensor *mean = w ? t_div(total, sum) : t_share(total, n);
    x = t_sub(x, td_op_unsqueeze(mean, 1));
    td_tensor *out = td_op_mm(x, td_op_t(w ? t_mul(x, w) : x));
    if (!w) return t_share(out, td__dim_max(td__dim_sub(n, less), 0));
    td_tensor *norm = sum;
    if (aw && less != 0) {
        td_tensor *squares = t_sum(t_mul(w, aw), TD_ALL, false);
        norm = t_sub(sum, t_div(td_op_mul(squares, td_value_int(less)), sum));
    } else norm = td_op_sub(sum, td_value_int(less), td_value_int(1));
    return t_div(out, td_op_clamp_min(norm, td_value_int(0)));
}

bool td__decomp_cov(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    if (x->rank > 2 || x->dtype == TD_BOOL)
        return td__op_fail(c, TD_E_SHAPE,
                           "self is %s; it must have at most 2 dims and not be bool",
                           td__type_str(x));
    if (x->rank < 2) x = td_op_view(x, TD_SHAPE(1, -1));
    if (td_is_nil(x)) return false;
    td_tensor *fw = weights_of(c, 2, x->size[1], true);
    td_tensor *aw = weights_of(c, 3, x->size[1], false);
    if ((td__in(c, 2) && !fw) || (td__in(c, 3) && !aw)) return false;
    td_tensor *w = fw && aw ? t_mul(fw, aw) : fw ? fw : aw;
    return give(c, td_op_squeeze(cov_of(c, x, w, aw)));
}

/* in: self. Of halves in f32. */
bool td__decomp_corrcoef(td_opcall *c) {
    td_tensor *m = td_op_cov(t_wide(td__in(c, 0)), 1, NULL, NULL);
    td_dtype   dt = (td_dtype)td__in(c, 0)->dtype;
    if (td_is_nil(m)) return false;
    bool cast = td__is_half((td_dtype)m->dtype); /* by autocast */
    if (cast || !td__is_half(dt)) dt = (td_dtype)m->dtype;
    if (m->rank == 0) return give(c, t_as(t_div(m, m), dt));
    td_tensor *root = td_op_sqrt(td_op_diag(m, 0));
    m = t_div(m, td_op_view(root, TD_SHAPE(-1, 1)));
    return give(c, t_as(t_div(m, td_op_view(root, TD_SHAPE(1, -1))), dt));
}

/* ---- integrals ---------------------------------------------------------- */

/* Entries from `start` on, `drop` fewer at the end, along dim. */
static td_tensor *part(td_tensor *t, int dim, int64_t start, int64_t drop) {
    td_value end = drop ? td_value_int(-drop) : td_value_none();
    return td_op_slice(t, dim, td_value_int(start), end, 1);
}

/* Distances of the points x along dim of y; x may be a vector, or have fewer dims.
 * NULL after td__op_fail. */
static td_tensor *distances(td_opcall *c, const td_tensor *y, td_tensor *x, int dim) {
    int64_t size[TD_MAX_RANK];
    if (x->rank == 1 && !td__dim_eq(x->size[0], y->size[dim])) {
        td__op_fail(c, TD_E_SHAPE,
                    "x %s must have one value for each of the %lld "
                    "samples along dim %d of y",
                    td__type_str(x), (long long)y->size[dim], dim);
        return NULL;
    }
    if (x->rank < y->rank) {
        int lead = x->rank == 1 ? dim : y->rank - x->rank;
        for (int d = 0; d < y->rank; d++)
            size[d] = d >= lead && d < lead + x->rank ? x->size[d - lead] : 1;
        x = td_op_view(x, ints(size, y->rank));
    }
    return t_sub(part(x, dim, 1, 0), part(x, dim, 0, 1));
}

/* in: y, x, dx, dim. Sets *dim; *dx gets the distances of x, or NULL. */
static bool read_trapezoid(td_opcall *c, int *dim, td_tensor **dx) {
    const td_tensor *y = td__in(c, 0), *x = td__in(c, 1);
    if (y->rank == 0)
        return td__op_fail(c, TD_E_SHAPE, "y has no dim to integrate along");
    if ((*dim = td__op_dim(c, td__in_int(c, 3), y->rank)) < 0) return false;
    if (y->dtype == TD_BOOL || (x && x->dtype == TD_BOOL))
        return td__op_fail(c, TD_E_DTYPE, "bool is unsupported; convert to numbers");
    *dx = x ? distances(c, y, td__in(c, 1), *dim) : NULL;
    return !x || (*dx && !td_is_nil(*dx));
}

/* Sums of neighbours along dim, times their distances where there are any. */
static td_tensor *trapezoids(td_tensor *y, int dim, td_tensor *dx) {
    td_tensor *sums = t_add(part(y, dim, 0, 1), part(y, dim, 1, 0));
    return dx ? t_mul(sums, dx) : sums;
}

/* The integral of no samples is 0. */
bool td__decomp_trapezoid(td_opcall *c) {
    td_tensor *y = td__in(c, 0), *dx;
    int        dim = y->rank ? td__op_dim(c, td__in_int(c, 3), y->rank) : 0;
    int64_t    size[TD_MAX_RANK];
    if (dim < 0) return false;
    if (y->rank > 0 && td__dim_eq(y->size[dim], 0)) {
        for (int d = 0; d + 1 < y->rank; d++) size[d] = y->size[d < dim ? d : d + 1];
        return give(c, td_op_new_zeros(y, ints(size, y->rank - 1), TD_DTYPE_NONE));
    }
    if (!read_trapezoid(c, &dim, &dx)) return false;
    if (dx)
        return give(c, t_over(t_sum(trapezoids(y, dim, dx), TD_DIMS(dim), false), 2));
    td_tensor *ends = t_add(td_op_select(y, dim, 0), td_op_select(y, dim, -1));
    td_tensor *sum = t_sub(t_sum(y, TD_DIMS(dim), false), t_over(ends, 2));
    return give(c, t_scale(sum, td__in_f(c, 2)));
}

bool td__decomp_cumulative_trapezoid(td_opcall *c) {
    td_tensor *dx;
    int        dim;
    if (!read_trapezoid(c, &dim, &dx)) return false;
    td_tensor *t = trapezoids(td__in(c, 0), dim, dx);
    if (dx) return give(c, t_over(td_op_cumsum(t, dim, TD_DTYPE_NONE), 2));
    return give(c, td_op_cumsum(t_scale(t, td__in_f(c, 2) / 2), dim, TD_DTYPE_NONE));
}
