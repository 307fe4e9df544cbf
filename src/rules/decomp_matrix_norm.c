/* decomp_matrix_norm.c -- matrix norms, condition numbers, ranks and distances between
 * rows, made of vector norms and singular values. */
#include "rules/matrix_args.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- norms -------------------------------------------------------------- */

/* What all matrix norms take: self, the dims, keepdim, dtype. */
typedef struct matrix_norm {
    td_tensor *t;
    int64_t    dim[2]; /* counted from the front */
    bool       keepdim;
    td_dtype   dtype; /* TD_DTYPE_NONE: that of t */
} matrix_norm;

/* Checks self and its two dims; false after td__op_fail. */
static bool open_norm(td_opcall *c, matrix_norm *n, td_ints dim, bool keepdim,
                      td_dtype dtype) {
    td_tensor *t = td__in(c, 0);
    *n = (matrix_norm){.t = t, .keepdim = keepdim, .dtype = dtype};
    if (!td__is_float((td_dtype)t->dtype))
        return td__op_fail(c, TD_E_DTYPE, "self must be floating point, got %s",
                           td__type_str(t));
    if (t->rank < 2)
        return td__op_fail(c, TD_E_SHAPE, "self must have at least 2 dims, got %s",
                           td__type_str(t));
    if (dtype != TD_DTYPE_NONE && td__promote((td_dtype)t->dtype, dtype) != dtype)
        return td__op_fail(c, TD_E_DTYPE, "dtype %s is narrower than self %s",
                           td_dtype_name(dtype), td__type_str(t));
    if (dim.n != 2)
        return td__op_fail(c, TD_E_ARG, "dim must list 2 dims, got %d", dim.n);
    for (int i = 0; i < 2; i++)
        if ((n->dim[i] = td__op_dim(c, dim.v[i], t->rank)) < 0) return false;
    if (n->dim[0] == n->dim[1])
        return td__op_fail(c, TD_E_ARG,
                           "dim must list 2 different dims, got %lld twice",
                           (long long)n->dim[0]);
    return true;
}

/* Singular values with the two dims moved to the end; nil after td__op_fail. A half is
 * refused whatever the dtype of the result is, as in ATen. */
static td_tensor *singular_values(td_opcall *c, const matrix_norm *n) {
    td_tensor *t = n->dtype == TD_DTYPE_NONE ? n->t : t_as(n->t, n->dtype);
    if (td__is_half((td_dtype)n->t->dtype)) {
        td__op_fail(
            c, TD_E_DTYPE,
            "a norm of singular values takes f32 or f64, self is %s; convert it "
            "with td_to",
            td__type_str(n->t));
        return &c->cx->nil;
    }
    return td_op_linalg_svdvals(
        td_op_movedim(t, (td_ints){n->dim, 2}, TD_DIMS(-2, -1)));
}

/* r with the two dims back, of size 1, if they are to be kept. */
static td_tensor *restore(const matrix_norm *n, td_tensor *r) {
    if (!n->keepdim) return r;
    return td_op_movedim(t_col(t_col(r)), TD_DIMS(-2, -1), (td_ints){n->dim, 2});
}

/* The greatest element along dim, 0 of none, or the least. */
static td_tensor *extreme(td_tensor *t, int64_t dim, bool keepdim, bool greatest) {
    td_ints d = {&dim, 1};
    if (td_is_nil(t)) return t;
    if (greatest && td__dim_eq(t->size[td__wrap_dim(dim, t->rank)], 0))
        return t_sum(td_op_detach(t), d, keepdim); /* without history, as in ATen */
    return greatest ? td_op_amax(t, d, keepdim) : td_op_amin(t, d, keepdim);
}

/* Has a matrix such a norm? */
static bool is_norm(td_opcall *c, double ord) {
    double size = fabs(ord);
    return size == 1 || size == 2 || size == INFINITY ||
           td__op_fail(c, TD_E_ARG,
                       "ord is %g; it must be 1, 2, inf or one of these negated", ord);
}

/* Norm `ord` of the matrices of n; NULL after td__op_fail. */
static td_tensor *norm_by_number(td_opcall *c, const matrix_norm *n, double ord) {
    double size = fabs(ord);
    if (size == 2)
        return restore(n, extreme(singular_values(c, n), -1, false, ord > 0));
    if (!is_norm(c, ord)) return NULL;
    int64_t sum = n->dim[size == 1 ? 0 : 1], pick = n->dim[size == 1 ? 1 : 0];
    if (!n->keepdim && sum < pick) pick--;
    td_tensor *t =
        td_op_norm(n->t, td_value_int(1), (td_ints){&sum, 1}, n->keepdim, n->dtype);
    return extreme(t, pick, n->keepdim, ord > 0);
}

/* Norm "fro" or "nuc"; NULL after td__op_fail. */
static td_tensor *norm_by_word(td_opcall *c, const matrix_norm *n, const char *ord) {
    if (!strcmp(ord, "fro"))
        return td_op_norm(n->t, td_value_int(2), (td_ints){n->dim, 2}, n->keepdim,
                          n->dtype);
    if (!strcmp(ord, "nuc"))
        return restore(n, t_sum(singular_values(c, n), TD_DIMS(-1), false));
    td__op_fail(c, TD_E_ARG, "the norm is \"%s\"; it must be \"fro\" or \"nuc\"", ord);
    return NULL;
}

/* in: self, ord, dim, keepdim, dtype. */
bool td__decomp_matrix_norm(td_opcall *c) {
    matrix_norm n;
    if (!open_norm(c, &n, t_ints(c->in[2]), td__in_bool(c, 3),
                   td__in_dtype(c, 4, TD_DTYPE_NONE)))
        return false;
    return (c->out[0] = norm_by_number(c, &n, td__in_f(c, 1))) != NULL;
}
bool td__decomp_matrix_norm_str(td_opcall *c) {
    matrix_norm n;
    if (!open_norm(c, &n, t_ints(c->in[2]), td__in_bool(c, 3),
                   td__in_dtype(c, 4, TD_DTYPE_NONE)))
        return false;
    return (c->out[0] = norm_by_word(c, &n, c->in[1].u.s)) != NULL;
}

/* The dims of linalg_norm: as given, or both of a matrix. False after td__op_fail. */
static bool norm_dims(td_opcall *c, bool has_ord, td_ints *dim) {
    static const int64_t both[2] = {0, 1};
    const td_tensor     *t = td__in(c, 0);
    *dim = t_ints(c->in[2]);
    if (!td__in_none(c, 2)) {
        if (dim->n == 1 || dim->n == 2) return true;
        return td__op_fail(c, TD_E_ARG, "dim must list 1 or 2 dims, got %d", dim->n);
    }
    if (has_ord && t->rank != 1 && t->rank != 2)
        return td__op_fail(c, TD_E_SHAPE,
                           "with ord and without dim, self must have 1 "
                           "or 2 dims, got %s",
                           td__type_str(t));
    if (has_ord && t->rank == 2) *dim = (td_ints){both, 2};
    return true;
}

/* in: self, ord or none, dim, keepdim, dtype. */
bool td__decomp_linalg_norm(td_opcall *c) {
    bool     has_ord = !td__in_none(c, 1), keep = td__in_bool(c, 3);
    td_ints  dim;
    td_dtype dt = td__in_dtype(c, 4, TD_DTYPE_NONE);
    if (!norm_dims(c, has_ord, &dim)) return false;
    if (has_ord && dim.n == 2) {
        matrix_norm n;
        if (!open_norm(c, &n, dim, keep, dt)) return false;
        return (c->out[0] = norm_by_number(c, &n, td__in_f(c, 1))) != NULL;
    }
    td_value ord = has_ord ? c->in[1] : td_value_int(2);
    c->out[0] = td_op_linalg_vector_norm(td__in(c, 0), ord, dim, keep, dt);
    return true;
}
bool td__decomp_linalg_norm_str(td_opcall *c) {
    matrix_norm n;
    td_ints     dim;
    if (!norm_dims(c, true, &dim) ||
        !open_norm(c, &n, dim, td__in_bool(c, 3), td__in_dtype(c, 4, TD_DTYPE_NONE)))
        return false;
    return (c->out[0] = norm_by_word(c, &n, c->in[1].u.s)) != NULL;
}

/* ---- condition numbers and ranks ---------------------------------------- */

/* Is a matrix of t empty? */
static bool has_no_elements(const td_tensor *t) {
    return td__dim_eq(td__numel(t->rank, t->size), 0);
}

/* Zeros of the sizes of t without its last two, of a dtype. */
static td_tensor *no_matrices(td_tensor *t, td_dtype dt) {
    return td_op_new_zeros(t, (td_ints){t->size, t->rank - 2}, dt);
}

/* The inverse, with infinities where there is none; *none says where. */
static td_tensor *inverse_or_inf(td_tensor *t, td_tensor **none) {
    td_tensor *info, *inv = td_op_linalg_inv_ex(t, false, &info);
    *none = td_op_gt(info, td_value_int(0));
    return td_op_masked_fill(inv, t_col(t_col(*none)),
                             td_value_float((double)INFINITY));
}

/* The product of two norms, inf where there is no inverse. */
static td_tensor *norm_product(td_tensor *a, td_tensor *b, td_tensor *none) {
    return td_op_masked_fill(t_mul(a, b), none, td_value_float((double)INFINITY));
}

/* Greatest over least singular value, or the reverse. */
static td_tensor *ratio(td_tensor *t, bool inverted) {
    td_tensor *s = td_op_linalg_svdvals(t);
    td_tensor *first = td_op_select(s, -1, 0), *last = td_op_select(s, -1, -1);
    return inverted ? t_div(last, first) : t_div(first, last);
}

/* in: self, p or none. */
bool td__decomp_cond(td_opcall *c) {
    td_tensor  *t = td__in(c, 0), *none;
    double      p = td__in_none(c, 1) ? 2 : td__in_f(c, 1);
    matrix_norm n;
    if (!td__want_matrix(c, 0) || !is_norm(c, p)) return false;
    if (has_no_elements(t)) return c->out[0] = no_matrices(t, TD_DTYPE_NONE), true;
    if (fabs(p) == 2) return c->out[0] = ratio(t, p < 0), true;
    if (!td__want_square(c, 0) ||
        !open_norm(c, &n, TD_DIMS(-2, -1), false, TD_DTYPE_NONE))
        return false;
    td_tensor *a = norm_by_number(c, &n, p);
    if (!a) return false;
    n.t = inverse_or_inf(t, &none);
    c->out[0] = norm_product(a, norm_by_number(c, &n, p), none);
    return true;
}
bool td__decomp_cond_str(td_opcall *c) {
    td_tensor  *t = td__in(c, 0), *none;
    const char *p = c->in[1].u.s;
    matrix_norm n;
    if (!td__want_square(c, 0)) return false;
    if (has_no_elements(t)) return c->out[0] = no_matrices(t, TD_DTYPE_NONE), true;
    if (!open_norm(c, &n, TD_DIMS(-2, -1), false, TD_DTYPE_NONE)) return false;
    td_tensor *a = norm_by_word(c, &n, p);
    if (!a) return false;
    n.t = inverse_or_inf(t, &none);
    c->out[0] = norm_product(a, norm_by_word(c, &n, p), none);
    return true;
}

/* in: self, atol, rtol, hermitian. */
td_tensor *td__rank_tolerance(td_opcall *c, td_tensor *s) {
    const td_tensor *t = td__in(c, 0);
    double           eps =
        td__real_of((td_dtype)t->dtype) == TD_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
    bool       has_atol = !td__in_none(c, 1), has_rtol = !td__in_none(c, 2);
    td_tensor *most = td_op_amax(s, TD_DIMS(-1), true), *rel;
    int64_t    size = td__dim_max(t_last(t, 1), t_last(t, 2));
    double     atol = has_atol ? td__in_f(c, 1) : 0;
    if (has_rtol) rel = td_op_mul(most, td_value_float(td__in_f(c, 2)));
    else if (has_atol && atol > 0) rel = t_scale(most, 0);
    else rel = t_scale(td_op_mul(most, td_value_int(size)), eps);
    return td_op_clamp_min(rel, td_value_float(atol));
}

bool td__decomp_matrix_rank(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    bool       hermitian = td__in_bool(c, 3);
    if (hermitian ? !td__want_square(c, 0) : !td__want_matrix(c, 0)) return false;
    if (has_no_elements(t)) return c->out[0] = no_matrices(t, TD_I64), true;
    td_tensor *s =
        hermitian ? td_op_abs(td_op_linalg_eigvalsh(t, "L")) : td_op_linalg_svdvals(t);
    td_tensor *tol = td__rank_tolerance(c, s);
    c->out[0] = t_sum(td_op_gt(s, td_value_tensor(tol)), TD_DIMS(-1), false);
    return true;
}

/* ---- distances ---------------------------------------------------------- */

/* Argument i is a stack of rows of floats; halves are computed in f32. */
static bool want_rows(td_opcall *c, int i) {
    const td_tensor *t = td__in(c, i);
    if (t->rank >= 2 && td__is_float((td_dtype)t->dtype)) return true;
    return td__op_fail(c, TD_E_SHAPE,
                       "%s must be floating point with 2 or more dims, got %s",
                       c->info->s.in[i].name, td__type_str(t));
}

/* x1 and x2 with leading sizes that were broadcast. False after td__op_fail. */
static bool share_stack(td_opcall *c, td_tensor **a, td_tensor **b) {
    int     n = (*a)->rank - 2;
    int64_t size[TD_MAX_RANK];
    memcpy(size, (*a)->size, sizeof(int64_t) * (size_t)n);
    if (!td__broadcast(&n, size, (*b)->rank - 2, (*b)->size))
        return td__op_fail(c, TD_E_SHAPE,
                           "leading sizes do not broadcast, x1 %s and x2 "
                           "%s",
                           td__type_str(*a), td__type_str(*b));
    td_tensor **t[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        size[n] = t_last(*t[i], 2);
        size[n + 1] = t_last(*t[i], 1);
        *t[i] = td_op_expand(*t[i], (td_ints){size, n + 2});
    }
    return !td_is_nil(*a) && !td_is_nil(*b);
}

/* in: x1, x2, p, compute_mode. */
bool td__decomp_cdist(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    if (!want_rows(c, 0) || !want_rows(c, 1) || !td__want_same_dtype(c, 0, 1))
        return false;
    if (!td__dim_eq(t_last(a, 1), t_last(b, 1)))
        return td__op_fail(c, TD_E_SHAPE,
                           "rows of x1 and x2 must have one size, got %s "
                           "and %s",
                           td__type_str(a), td__type_str(b));
    if (!(td__in_f(c, 2) >= 0))
        return td__op_fail(c, TD_E_ARG, "p is %g; it must be 0 or more",
                           td__in_f(c, 2));
    int64_t mode = td__in_none(c, 3) ? 0 : td__in_number(c, 3);
    if (mode < 0 || mode > 2)
        return td__op_fail(c, TD_E_ARG, "compute_mode is %lld; it must be 0, 1 or 2",
                           (long long)mode);
    if (!share_stack(c, &a, &b)) return false;
    td_tensor *d = td_op__cdist(t_wide(a), t_wide(b), td__in_f(c, 2));
    c->out[0] = t_as(d, (td_dtype)a->dtype);
    return true;
}

/* in: self, p. Pairs of rows by the indices above the diagonal. */
bool td__decomp_pdist(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (t->rank != 2)
        return td__op_fail(c, TD_E_SHAPE, "self must have 2 dims, got %s",
                           td__type_str(t));
    if (!want_rows(c, 0)) return false;
    if (!(td__in_f(c, 1) >= 0))
        return td__op_fail(c, TD_E_ARG, "p is %g; it must be 0 or more",
                           td__in_f(c, 1));
    int64_t n = td__dim_fixed(t->size[0]);
    if (!td_ok(c->cx)) return false;
    td_tensor *pairs = td_op_triu_indices(t->cx, n, n, 1, TD_I64);
    td_tensor *a = td_op_index_select(t, 0, td_op_select(pairs, 0, 0));
    td_tensor *b = td_op_index_select(t, 0, td_op_select(pairs, 0, 1));
    td_tensor *d = td_op__cdist(t_wide(t_row(a)), t_wide(t_row(b)), td__in_f(c, 1));
    d = t_as(d, (td_dtype)t->dtype);
    c->out[0] = td_op__unsafe_view(d, TD_SHAPE(n < 1 ? 0 : n * (n - 1) / 2));
    return true;
}
