/* decomp_products.c -- products of vectors, matrices and tensors made of mm, matmul,
 * mul and sum. */
#include "rules/matrix_args.h"

#include <string.h>

/* in: x, y, dim. */
bool td__decomp_vecdot(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *y = td__in(c, 1);
    int64_t    dim = td__in_int(c, 2);
    if (!td__is_differentiable((td_dtype)x->dtype))
        return td__op_fail(c, TD_E_DTYPE, "x must be floating point, got %s",
                           td__type_str(x));
    if (!td__want_same_dtype(c, 0, 1)) return false;
    if (x->rank == 1 && y->rank == 1) {
        if (td__op_dim(c, dim, 1) < 0) return false;
        c->out[0] = td_op_vdot(x, y);
        return true;
    }
    c->out[0] = t_sum(t_mul(td_op_conj(x), y), (td_ints){&dim, 1}, false);
    return true;
}

/* ---- tensordot ---------------------------------------------------------- */

/* The dims of one operand in the order that a matrix product needs. */
typedef struct side {
    int64_t order[TD_MAX_RANK]; /* for permute */
    int64_t free_size[TD_MAX_RANK];
    int     n_free;
    int64_t rows; /* the product of free_size */
} side;

/* Separates dims of t into those of `dims`, which are summed, and the others; the
 * summed ones come last, or first. False after td__op_fail. */
static bool split_dims(td_opcall *c, const td_tensor *t, td_ints dims, bool sum_last,
                       side *s) {
    bool summed[TD_MAX_RANK + 1] = {false};
    int  at[TD_MAX_RANK] = {0}, n = 0;
    *s = (side){.rows = 1};
    if (dims.n > t->rank)
        return td__op_fail(c, TD_E_ARG, "%s has fewer dims than the %d to sum over",
                           td__type_str(t), dims.n);
    for (int i = 0; i < dims.n; i++) {
        at[i] = td__op_dim(c, dims.v[i], t->rank);
        if (at[i] < 0) return false;
        if (summed[at[i]])
            return td__op_fail(c, TD_E_ARG, "dim %d of %s is listed twice", at[i],
                               td__type_str(t));
        summed[at[i]] = true;
    }
    for (int i = 0; !sum_last && i < dims.n; i++) s->order[n++] = at[i];
    for (int d = 0; d < t->rank; d++) {
        if (summed[d]) continue;
        s->order[n++] = d;
        s->free_size[s->n_free++] = t->size[d];
        s->rows = td__dim_mul(s->rows, t->size[d]);
    }
    for (int i = 0; sum_last && i < dims.n; i++) s->order[n++] = at[i];
    return true;
}

/* The sum along dim, which stays, in t's own dtype: integers would become i64. */
static td_tensor *sum_in(td_tensor *t, int64_t dim) {
    td_dtype dt = (td_dtype)t->dtype;
    return td_op_sum(t, (td_ints){&dim, 1}, true,
                     td__is_differentiable(dt) ? TD_DTYPE_NONE : dt);
}

/* A summed dim of size 1 on one side stands for any size: the other side is summed
 * over its dim first, as in ATen. Other sizes must agree. */
static bool fit_pair(td_opcall *c, td_tensor **a, int da, td_tensor **b, int db,
                     int64_t *inner) {
    int64_t na = (*a)->size[da], nb = (*b)->size[db];
    if (td__dim_eq(na, 1)) {
        if (!td__dim_eq(nb, 1)) *b = sum_in(*b, db);
    } else if (td__dim_eq(nb, 1)) *a = sum_in(*a, da);
    else if (!td__dim_eq(na, nb))
        return td__op_fail(c, TD_E_SHAPE, "dim %d of %s and dim %d of %s differ", da,
                           td__type_str(*a), db, td__type_str(*b));
    else *inner = td__dim_mul(*inner, na);
    return !td_is_nil(*a) && !td_is_nil(*b);
}

/* a and b summed over pairs of dims by one matrix product. */
static td_tensor *contract(td_opcall *c, td_tensor *a, td_tensor *b, td_ints da,
                           td_ints db) {
    side    sa, sb;
    int64_t inner = 1, size[2 * TD_MAX_RANK];
    if (!split_dims(c, a, da, true, &sa) || !split_dims(c, b, db, false, &sb))
        return NULL;
    for (int i = 0; i < da.n; i++)
        if (!fit_pair(c, &a, td__wrap_dim(da.v[i], a->rank), &b,
                      td__wrap_dim(db.v[i], b->rank), &inner))
            return NULL;
    if (sa.n_free + sb.n_free > TD_MAX_RANK) {
        td__op_fail(c, TD_E_SHAPE, "the result has %d dims; at most %d are supported",
                    sa.n_free + sb.n_free, TD_MAX_RANK);
        return NULL;
    }
    memcpy(size, sa.free_size, sizeof(int64_t) * (size_t)sa.n_free);
    memcpy(size + sa.n_free, sb.free_size, sizeof(int64_t) * (size_t)sb.n_free);
    a = td_op_reshape(td_op_permute(a, (td_ints){sa.order, a->rank}),
                      TD_SHAPE(sa.rows, inner));
    b = td_op_reshape(td_op_permute(b, (td_ints){sb.order, b->rank}),
                      TD_SHAPE(inner, sb.rows));
    td_ints as = {size, sa.n_free + sb.n_free};
    if (td__dim_eq(sa.rows, 1) && td__dim_eq(sb.rows, 1)) /* as ATen: no autocast */
        return td_op_view(td_op_dot(td_op_reshape(a, TD_SHAPE(inner)),
                                    td_op_reshape(b, TD_SHAPE(inner))),
                          as);
    return td_op__unsafe_view(td_op_mm(a, b), as);
}

/* in: self, other, dims_self, dims_other. */
bool td__decomp_tensordot(td_opcall *c) {
    td_ints da = t_ints(c->in[2]), db = t_ints(c->in[3]);
    if (da.n != db.n)
        return td__op_fail(c, TD_E_ARG,
                           "dims_self and dims_other must have one length, got %d and "
                           "%d dims",
                           da.n, db.n);
    if (!td__want_same_dtype(c, 0, 1)) return false;
    c->out[0] = contract(c, td__in(c, 0), td__in(c, 1), da, db);
    return c->out[0] != NULL;
}

/* in: self, other. */
bool td__decomp_inner(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    int64_t    last = -1;
    if (a->rank == 0 || b->rank == 0) return c->out[0] = t_mul(a, b), true;
    if (!td__want_same_dtype(c, 0, 1)) return false;
    if (!td__dim_eq(t_last(a, 1), t_last(b, 1)))
        return td__op_fail(c, TD_E_SHAPE, "the last sizes differ, %s and %s",
                           td__type_str(a), td__type_str(b));
    c->out[0] = contract(c, a, b, (td_ints){&last, 1}, (td_ints){&last, 1});
    return c->out[0] != NULL;
}

/* ---- kron, cross -------------------------------------------------------- */

/* in: self, other. Dims are interleaved, multiplied with broadcasting, and merged in
 * pairs. */
bool td__decomp_kron(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    int        n = a->rank > b->rank ? a->rank : b->rank;
    int64_t    sa[2 * TD_MAX_RANK], sb[2 * TD_MAX_RANK], out[TD_MAX_RANK];
    if (2 * n > TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE, "takes at most %d dims, got %s and %s",
                           TD_MAX_RANK / 2, td__type_str(a), td__type_str(b));
    for (int d = 0; d < n; d++) {
        int ia = d - (n - a->rank), ib = d - (n - b->rank);
        sa[2 * d] = ia < 0 ? 1 : a->size[ia];
        sb[2 * d + 1] = ib < 0 ? 1 : b->size[ib];
        sa[2 * d + 1] = sb[2 * d] = 1;
        out[d] = td__dim_mul(sa[2 * d], sb[2 * d + 1]);
    }
    td_tensor *x = td_op_reshape(a, (td_ints){sa, 2 * n});
    td_tensor *y = td_op_reshape(b, (td_ints){sb, 2 * n});
    td_tensor *z = td_op_contiguous(t_mul(x, y));
    c->out[0] = n ? td_op__unsafe_view(z, (td_ints){out, n}) : z;
    return true;
}

/* a[i + 1] b[i + 2] along dim, counted from the start again behind the end. */
static td_tensor *ahead(td_tensor *a, td_tensor *b, int dim) {
    return t_mul(td_op_roll(a, TD_DIMS(-1), TD_DIMS(dim)),
                 td_op_roll(b, TD_DIMS(-2), TD_DIMS(dim)));
}

/* Cross products of arguments 0 and 1 along dim. */
static bool cross(td_opcall *c, int dim) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    if (!td__want_same_dtype(c, 0, 1)) return false;
    if (a->dtype == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "not defined for bool, got %s",
                           td__type_str(a));
    if (a->rank != b->rank || !td__dim_eq(a->size[dim], 3) ||
        !td__dim_eq(b->size[dim], 3))
        return td__op_fail(c, TD_E_SHAPE,
                           "takes tensors of equal rank with size 3 in dim %d, got %s "
                           "and %s",
                           dim, td__type_str(a), td__type_str(b));
    c->out[0] = td_op_contiguous(t_sub(ahead(a, b, dim), ahead(b, a, dim)));
    return true;
}

/* in: self, other, dim. */
bool td__decomp_linalg_cross(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    if (a->rank != b->rank || a->rank == 0)
        return td__op_fail(c, TD_E_SHAPE, "takes tensors of equal rank, got %s and %s",
                           td__type_str(a), td__type_str(b));
    int dim = td__op_dim(c, td__in_int(c, 2), a->rank);
    return dim >= 0 && cross(c, dim);
}

/* in: self, other, dim or none. */
bool td__decomp_cross(td_opcall *c) {
    td_tensor *a = td__in(c, 0);
    if (!td__in_none(c, 2)) return td__decomp_linalg_cross(c);
    for (int d = 0; d < a->rank; d++)
        if (td__dim_eq(a->size[d], 3)) {
            if (a->rank != td__in(c, 1)->rank) break;
            return cross(c, d);
        }
    return td__op_fail(c, TD_E_SHAPE,
                       "takes tensors of equal rank with a dim of size 3, got %s and "
                       "%s",
                       td__type_str(a), td__type_str(td__in(c, 1)));
}

/* ---- bilinear ----------------------------------------------------------- */

/* Sizes of input1 [.., i], input2 [.., j], weight [k, i, j], bias [k]. */
static bool check_bilinear(td_opcall *c) {
    const td_tensor *x = td__in(c, 0), *y = td__in(c, 1), *w = td__in(c, 2);
    const td_tensor *bias = td__in(c, 3);
    bool             fits = w->rank == 3 && x->rank == y->rank && x->rank > 0 &&
                td__dims_eq(x->size, y->size, x->rank - 1) &&
                td__dim_eq(t_last(x, 1), w->size[1]) &&
                td__dim_eq(t_last(y, 1), w->size[2]);
    if (!fits)
        return td__op_fail(c, TD_E_SHAPE,
                           "takes input1 [.., i], input2 [.., j] and weight [k, i, j], "
                           "got %s, %s and %s",
                           td__type_str(x), td__type_str(y), td__type_str(w));
    if (bias && (bias->rank != 1 || !td__dim_eq(bias->size[0], w->size[0])))
        return td__op_fail(c, TD_E_SHAPE, "bias must be [k] for weight %s, got %s",
                           td__type_str(w), td__type_str(bias));
    return td__want_same_dtype(c, 0, 1) && td__want_same_dtype(c, 0, 2) &&
           (!bias || td__want_same_dtype(c, 0, 3));
}

/* in: input1, input2, weight, bias. input1 by all weights is one product [n, k j]; its
 * rows are then multiplied by those of input2. */
bool td__decomp_bilinear(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *y = td__in(c, 1), *w = td__in(c, 2);
    int64_t    size[TD_MAX_RANK], rows = 1;
    if (!check_bilinear(c)) return false;
    int64_t k = w->size[0], i = w->size[1], j = w->size[2];
    for (int d = 0; d < x->rank - 1; d++)
        rows = td__dim_mul(rows, size[d] = x->size[d]);
    size[x->rank - 1] = k;
    td_tensor *flat = td_op_reshape(td_op_permute(w, TD_DIMS(1, 0, 2)),
                                    TD_SHAPE(i, td__dim_mul(k, j)));
    td_tensor *xw = td_op_mm(td_op_reshape(x, TD_SHAPE(rows, i)), flat);
    td_tensor *out = td_op_bmm(td_op_view(xw, TD_SHAPE(rows, k, j)),
                               td_op_reshape(y, TD_SHAPE(rows, j, 1)));
    out = td_op__unsafe_view(out, (td_ints){size, x->rank});
    c->out[0] = td__in(c, 3) ? t_add(out, td__in(c, 3)) : out;
    return true;
}

/* ---- powers ------------------------------------------------------------- */

/* in: x, N. Running products of x repeated N - 1 times, after a 1. */
bool td__decomp_vander(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    int64_t    size[TD_MAX_RANK + 1];
    if (td__is_half((td_dtype)x->dtype) || x->dtype == TD_BOOL)
        return td__op_fail(c, TD_E_DTYPE, "x must be f32, f64 or integers, got %s",
                           td__type_str(x));
    if (x->rank == TD_MAX_RANK || (x->rank == 0 && td__in_none(c, 1)))
        return td__op_fail(
            c, TD_E_SHAPE,
            "x must have at most %d dims, and one or more where N is not "
            "given, got %s",
            TD_MAX_RANK - 1, td__type_str(x));
    int64_t n = td__in_none(c, 1) ? t_last(x, 1) : td__in_int(c, 1);
    if (td__dim_le(n, 1))
        return td__op_fail(c, TD_E_ARG, "N must be greater than 1, got %lld",
                           (long long)td__dim_now(n));
    if (!td__is_float((td_dtype)x->dtype)) x = t_as(x, TD_I64);
    if (x->rank == 0) x = td_op_reshape(x, TD_SHAPE(1));
    if (td_is_nil(x)) return false;
    memcpy(size, x->size, sizeof(int64_t) * (size_t)x->rank);
    size[x->rank] = td__dim_sub(n, 1);
    td_ints    all = {size, x->rank + 1};
    td_tensor *powers = td_op_cumprod(td_op_expand(t_col(x), all), -1, TD_DTYPE_NONE);
    size[x->rank] = 1;
    td_tensor *ends[2] = {td_op_new_ones(x, all, TD_DTYPE_NONE), powers};
    c->out[0] = td_op_cat((td_tensors){ends, 2}, -1);
    return true;
}

/* Ones on the diagonal, row-major, with the sizes and dtype of t, and the history of a
 * tensor that t was overwritten by, as in ATen. */
static td_tensor *identity_like(td_tensor *t) {
    td_tensor *eye =
        td_op_eye(t->cx, t_last(t, 1), td_value_int(t_last(t, 1)), (td_dtype)t->dtype);
    return td_op_copy(td_op_clone(t, true), eye, false);
}

/* Product of n > 0 equal matrices by repeated squaring. */
static td_tensor *power(td_tensor *t, int64_t n) {
    td_tensor *square = NULL, *r = NULL;
    if (n == 1) return td_op_clone(t, true);
    if (n == 3) return t_mm(t_mm(t, t), t);
    for (; n > 0; n /= 2) {
        square = square ? t_mm(square, square) : t;
        if (n % 2) r = r ? t_mm(r, square) : square;
    }
    return r;
}

/* in: self, n. */
bool td__decomp_matrix_power(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    n = td__in_number(c, 1);
    if (t->rank < 2 || !td__dim_eq(t_last(t, 1), t_last(t, 2)))
        return td__op_fail(c, TD_E_SHAPE,
                           "self must be a square matrix or a stack of them, got %s",
                           td__type_str(t));
    if (n == INT64_MIN)
        return td__op_fail(c, TD_E_ARG, "n is %lld; its magnitude must be an int64",
                           (long long)n);
    if (n < 0) t = td_op_linalg_inv(t);
    if (td_is_nil(t)) return false;
    if (n == 0) c->out[0] = identity_like(t);
    else c->out[0] = n == -1 ? t : power(t, n < 0 ? -n : n);
    return true;
}

/* in: self. Halves are computed in f32. */
/* exp(X + i Y) by the exponential of the real matrix [[X, -Y], [Y, X]], whose first
 * columns are its real part and its imaginary part. */
static td_tensor *complex_exp(td_tensor *t) {
    td_tensor *re = td_op_real(t), *im = td_op_imag(t), *rows[2], *half[2];
    int64_t    n = t->size[t->rank - 1];
    half[0] = re, half[1] = td_op_neg(im);
    rows[0] = td_op_cat((td_tensors){half, 2}, -1);
    half[0] = im, half[1] = re;
    rows[1] = td_op_cat((td_tensors){half, 2}, -1);
    td_tensor *e = td_op__matrix_exp(td_op_cat((td_tensors){rows, 2}, -2));
    e = td_op_narrow(e, -1, 0, n);
    return td_op_complex(td_op_narrow(e, -2, 0, n), td_op_narrow(e, -2, n, n));
}

bool td__decomp_matrix_exp(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (td__is_complex((td_dtype)t->dtype)) {
        if (!td__want_square(c, 0)) return false;
        return c->out[0] = complex_exp(t), true;
    }
    if (!td__is_float((td_dtype)t->dtype))
        return td__op_fail(c, TD_E_DTYPE, "self must be floating point, got %s",
                           td__type_str(t));
    c->out[0] = t_as(td_op__matrix_exp(t_wide(t)), (td_dtype)t->dtype);
    return true;
}
