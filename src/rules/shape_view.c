/* shape_view.c -- geometry of the view ops: sizes, order of dims, single parts and
 * as_strided. Every rule starts from the geometry of in[0] and changes it; no element
 * is read, and the storage stays. Views with several results are in shape_split.c.
 *
 * Strides of dims of size 1 do not address anything, but PyTorch shows them to users
 * and some layouts differ only in them, so the rules compute them as ATen does. */
#include "rules/geom.h"
#include "rules/shape_rules.h"

/* Meta 0 becomes the geometry of `self`, to be changed by the rule. */
static td_meta *start(td_opcall *c) {
    td_meta *m = &c->meta[0];
    td__tensor_meta(td__in(c, 0), m);
    m->strided = true;
    return m;
}

/* TD_MAX_RANK bounds the arrays of every geometry. */
static bool rank_ok(td_opcall *c, int64_t rank) {
    if (rank <= TD_MAX_RANK) return true;
    return td__op_fail(c, TD_E_SHAPE,
                       "the result would have %lld dims; at most %d are supported",
                       (long long)rank, TD_MAX_RANK);
}

/* Dims after it move up by one; the offset stays. */
static void remove_dim(td_meta *m, int dim) {
    for (int i = dim; i + 1 < m->rank; i++) {
        m->size[i] = m->size[i + 1];
        m->stride[i] = m->stride[i + 1];
    }
    m->rank--;
}

bool td__shape_alias(td_opcall *c) {
    start(c);
    return true;
}

/* A step of an epilogue that gives `self` the elements or the history of `value`.
 * Epilogues in text form may be written by hand, so their types are checked. */
bool td__shape_step(td_opcall *c) {
    const td_tensor *t = c->in[0].u.t;
    const td_tensor *value = c->in[1].kind == TD_K_TENSOR ? c->in[1].u.t : NULL;
    start(c);
    if (!value || (t->dtype == value->dtype && td__same_sizes(t, value))) return true;
    return td__fail(c->cx, TD_E_SHAPE,
                    "%s: the value is %s, but the tensor is %s; dtype and sizes must "
                    "be equal",
                    c->def->name, td__type_str(value), td__type_str(t));
}

/* ---- sizes -------------------------------------------------------------- */

/* The product of the sizes asked for; *hole is the place of the -1, or -1. */
static bool read_sizes(td_opcall *c, const td_value *want, int64_t *known, int *hole) {
    *known = 1;
    *hole = -1;
    if (!rank_ok(c, want->n)) return false;
    for (int i = 0; i < (int)want->n; i++) {
        int64_t n = want->u.ints[i];
        if (n != -1 && td__dim_is_negative(n))
            return td__op_fail(
                c, TD_E_SHAPE,
                "size %lld at position %d must not be negative; only -1 is inferred",
                (long long)n, i);
        if (n == -1 && *hole >= 0)
            return td__op_fail(c, TD_E_SHAPE, "only one size may be -1, got %s",
                               td__sizes_str((int)want->n, want->u.ints));
        if (n == -1) *hole = i;
        else *known = td__dim_mul(*known, n);
    }
    return true;
}

/* numel may be symbolic. */
static bool fail_count(td_opcall *c, const td_value *want, int64_t numel) {
    td_buf n = {0};
    td__dim_text(numel, &n);
    td__op_fail(c, TD_E_SHAPE, "sizes %s do not hold the %s elements of %s",
                td__sizes_str((int)want->n, want->u.ints), td__buf_str(&n),
                td__type_str(td__in(c, 0)));
    td__buf_free(&n);
    return false;
}

/* numel is that of the tensor, or the size of the one dim that unflatten replaces. */
bool td__infer_sizes(td_opcall *c, const td_value *want, int64_t numel, int64_t *size) {
    int64_t known;
    int     hole, rank = (int)want->n;
    if (!read_sizes(c, want, &known, &hole)) return false;
    /* any size would do for -1 */
    if (hole >= 0 && !td__dim_expect(known, TD_DIM_IS_NE, 0))
        return td__op_fail(
            c, TD_E_SHAPE,
            "-1 in %s could be anything: the other sizes have no elements",
            td__sizes_str(rank, want->u.ints));
    /* a guard for symbolic sizes: the trace holds for calls where it divides */
    bool fits =
        hole >= 0 ? td__dim_eq(td__dim_mod(numel, known), 0) : td__dim_eq(numel, known);
    if (!fits) return fail_count(c, want, numel);
    for (int i = 0; i < rank; i++)
        size[i] = i == hole ? td__dim_div(numel, known) : want->u.ints[i];
    return true;
}

/* in: self, size. An error where the strides of self do not allow the sizes; reshape
 * copies then. */
bool td__shape_view(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    td_meta         *m = start(c);
    m->rank = (int)c->in[1].n;
    if (!td__infer_sizes(c, &c->in[1], t->numel, m->size)) return false;
    if (td__view_strides(t->rank, t->size, t->stride, m->rank, m->size, m->stride))
        return true;
    return td__op_fail(c, TD_E_SHAPE,
                       "sizes %s need a copy of %s with strides %s; use td_reshape",
                       td__sizes_str(m->rank, m->size), td__type_str(t),
                       td__sizes_str(t->rank, t->stride));
}

/* in: self, size. The copy that reshape takes: row-major. */
bool td__shape_reshape_copy(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    int64_t          size[TD_MAX_RANK];
    if (!td__infer_sizes(c, &c->in[1], t->numel, size)) return false;
    td__meta_dense(&c->meta[0], (td_dtype)t->dtype, (int)c->in[1].n, size);
    return true;
}

/* Is n a multiple of the ratio? Strides and offsets that show nothing need not be, and
 * are only asked about where they are not. */
static bool divides(int64_t n, int64_t ratio, int64_t size, int64_t numel) {
    return td__dim_eq(td__dim_mod(n, ratio), 0) || td__dim_eq(size, 1) ||
           td__dim_eq(numel, 0);
}

/* Several old items make one new one. */
static bool join_items(td_opcall *c, td_meta *m, int64_t ratio) {
    int     last = m->rank - 1;
    int64_t numel = td__in(c, 0)->numel;
    if (!td__dim_eq(td__dim_mod(m->size[last], ratio), 0))
        return td__op_fail(c, TD_E_SHAPE,
                           "the last size of %s must be a multiple of %lld",
                           td__type_str(td__in(c, 0)), (long long)ratio);
    if (!divides(m->offset, ratio, 0, numel))
        return td__op_fail(c, TD_E_SHAPE,
                           "storage offset %lld must be a multiple of %lld",
                           (long long)m->offset, (long long)ratio);
    for (int i = 0; i < last; i++) {
        if (!divides(m->stride[i], ratio, m->size[i], numel))
            return td__op_fail(c, TD_E_SHAPE,
                               "stride %lld of dim %d must be a multiple of %lld",
                               (long long)m->stride[i], i, (long long)ratio);
        m->stride[i] = td__dim_div(m->stride[i], ratio);
    }
    m->size[last] = td__dim_div(m->size[last], ratio);
    m->offset = td__dim_div(m->offset, ratio);
    return true;
}

/* One old item becomes `ratio` new ones: sizes and strides are counted in items. */
static void cut_items(td_meta *m, int64_t ratio) {
    for (int i = 0; i + 1 < m->rank; i++)
        m->stride[i] = td__dim_mul(m->stride[i], ratio);
    m->size[m->rank - 1] = td__dim_mul(m->size[m->rank - 1], ratio);
    m->offset = td__dim_mul(m->offset, ratio);
}

/* in: self, dtype. Another item size scales the last dim, which must be dense. */
bool td__shape_view_dtype(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    td_meta         *m = start(c);
    int              old = td__dtype_bytes[m->dtype];
    m->dtype = td__in_dtype(c, 1, m->dtype);
    int now = td__dtype_bytes[m->dtype];
    if (old == now) return true;
    if (m->rank == 0)
        return td__op_fail(c, TD_E_SHAPE,
                           "a 0-dim tensor must keep its item size, got %s to %s",
                           td__type_str(t), td_dtype_name(m->dtype));
    if (!td__dim_eq(m->stride[m->rank - 1], 1)) {
        if (!td__dim_eq(m->size[m->rank - 1], 1) && !td__dim_eq(t->numel, 0))
            return td__op_fail(
                c, TD_E_SHAPE,
                "the last stride must be 1 for another item size, got %lld",
                (long long)m->stride[m->rank - 1]);
        m->stride[m->rank - 1] = 1;
    }
    if (now > old) return join_items(c, m, now / old);
    cut_items(m, old / now);
    return true;
}

/* New leading dims continue the strides; repeated ones have stride 0. */
bool td__shape_expand(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    const int64_t   *w = c->in[1].u.ints;
    td_meta         *m = start(c);
    int              n = (int)c->in[1].n, add = n - t->rank;
    if (!rank_ok(c, n)) return false;
    if (add < 0)
        return td__op_fail(c, TD_E_SHAPE, "%d sizes given for %s, which has %d dims", n,
                           td__type_str(t), t->rank);
    m->rank = n;
    for (int i = n - 1; i >= 0; i--) {
        bool    old = i >= add;
        int64_t size = old ? t->size[i - add] : 1, next = 0;
        if (i + 1 < n) next = td__dim_mul(m->size[i + 1], m->stride[i + 1]);
        m->stride[i] = old ? t->stride[i - add] : t->rank ? next : 0;
        m->size[i] = w[i] == -1 && old ? size : w[i];
        if (td__dim_is_negative(w[i]) && !(old && w[i] == -1))
            return td__op_fail(c, TD_E_SHAPE,
                               "size %lld of dim %d must not be negative for %s; -1 "
                               "keeps the size of a dim that exists",
                               (long long)w[i], i, td__type_str(t));
        /* A dim of size 1 expands to anything; the comparison then decides between its
         * own stride and 0 only. */
        /* of what has size 1 it only decides the stride */
        bool same =
            size == 1 ? td__dim_seems_eq(m->size[i], 1) : td__dim_eq(m->size[i], size);
        if (same) continue;
        if (!td__dim_eq(size, 1))
            return td__op_fail(c, TD_E_SHAPE,
                               "dim %d of size %lld cannot become %lld in %s", i - add,
                               (long long)size, (long long)w[i], td__type_str(t));
        m->stride[i] = 0;
    }
    return true;
}

/* Removes every dim of size 1; a symbolic size is guarded to be 1 or not. */
bool td__shape_squeeze(td_opcall *c) {
    td_meta *m = start(c);
    for (int i = m->rank - 1; i >= 0; i--)
        if (td__dim_eq(m->size[i], 1)) remove_dim(m, i);
    return true;
}

/* in: self, dim. A dim of another size stays. */
bool td__shape_squeeze_dim(td_opcall *c) {
    td_meta *m = start(c);
    int      dim = td__op_dim(c, td__in_int(c, 1), m->rank);
    if (dim < 0) return false;
    if (m->rank > 0 && td__dim_eq(m->size[dim], 1)) remove_dim(m, dim);
    return true;
}

/* One bit per dim of argument i; false when one is out of range or twice. */
static bool dim_set(td_opcall *c, int i, int rank, uint64_t *set) {
    *set = 0;
    for (int k = 0; k < (int)c->in[i].n; k++) {
        int dim = td__op_dim(c, c->in[i].u.ints[k], rank);
        if (dim < 0) return false;
        if (*set >> dim & 1)
            return td__op_fail(c, TD_E_ARG, "dim %d appears twice in %s", dim,
                               td__sizes_str((int)c->in[i].n, c->in[i].u.ints));
        *set |= (uint64_t)1 << dim;
    }
    return true;
}

/* in: self, dims. */
bool td__shape_squeeze_dims(td_opcall *c) {
    td_meta *m = start(c);
    uint64_t set;
    if (!dim_set(c, 1, m->rank, &set)) return false;
    for (int i = m->rank - 1; i >= 0; i--)
        if (set >> i & 1 && td__dim_eq(m->size[i], 1)) remove_dim(m, i);
    return true;
}

/* Its stride continues those of the dims after it, as ATen's. */
void td__insert_dim(td_meta *m, int dim) {
    int64_t stride = 1;
    if (dim < m->rank) stride = td__dim_mul(m->size[dim], m->stride[dim]);
    for (int i = m->rank; i > dim; i--) {
        m->size[i] = m->size[i - 1];
        m->stride[i] = m->stride[i - 1];
    }
    m->size[dim] = 1;
    m->stride[dim] = stride;
    m->rank++;
}

/* in: self, dim, which may also be the rank. */
bool td__shape_unsqueeze(td_opcall *c) {
    td_meta *m = start(c);
    int      dim = td__op_dim(c, td__in_int(c, 1), m->rank + 1);
    if (dim < 0 || !rank_ok(c, m->rank + 1)) return false;
    td__insert_dim(m, dim);
    return true;
}

/* ---- order of dims ------------------------------------------------------ */

/* Exchanges sizes and strides of two dims. */
static void swap_dims(td_meta *m, int a, int b) {
    int64_t size = m->size[a], stride = m->stride[a];
    m->size[a] = m->size[b];
    m->stride[a] = m->stride[b];
    m->size[b] = size;
    m->stride[b] = stride;
}

/* in: self, dim0, dim1. */
bool td__shape_transpose(td_opcall *c) {
    td_meta *m = start(c);
    int      a = td__op_dim(c, td__in_int(c, 1), m->rank);
    int      b = a < 0 ? -1 : td__op_dim(c, td__in_int(c, 2), m->rank);
    if (b < 0) return false;
    if (m->rank > 0) swap_dims(m, a, b);
    return true;
}

/* Matrices are transposed; vectors and numbers stay. */
bool td__shape_t(td_opcall *c) {
    td_meta *m = start(c);
    if (m->rank > 2)
        return td__op_fail(c, TD_E_SHAPE, "takes a tensor of at most 2 dims, got %s",
                           td__type_str(td__in(c, 0)));
    if (m->rank == 2) swap_dims(m, 0, 1);
    return true;
}

/* in: self, dims: every dim once. */
bool td__shape_permute(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    td_meta         *m = start(c);
    uint64_t         set;
    if ((int)c->in[1].n != t->rank)
        return td__op_fail(c, TD_E_SHAPE, "%d dims listed for %s, which has %d",
                           (int)c->in[1].n, td__type_str(t), t->rank);
    if (!dim_set(c, 1, t->rank, &set)) return false;
    for (int i = 0; i < t->rank; i++) {
        int from = td__wrap_dim(c->in[1].u.ints[i], t->rank);
        m->size[i] = t->size[from];
        m->stride[i] = t->stride[from];
    }
    return true;
}

/* ---- parts -------------------------------------------------------------- */

/* The dim goes; the offset moves to the entry. */
bool td__select_part(td_opcall *c, td_meta *m, int64_t dim_arg, int64_t index) {
    if (m->rank == 0)
        return td__op_fail(c, TD_E_SHAPE, "self has no dim to select from");
    int dim = td__op_dim(c, dim_arg, m->rank);
    if (dim < 0) return false;
    int64_t n = m->size[dim];
    if (!td__dim_lt(index, n) || td__dim_lt(index, td__dim_sub(0, n)))
        return td__op_fail(c, TD_E_INDEX,
                           "index %lld is out of range for dim %d of size %lld",
                           (long long)index, dim, (long long)n);
    if (td__dim_lt(index, 0)) index = td__dim_add(index, n);
    m->offset = td__dim_add(m->offset, td__dim_mul(index, m->stride[dim]));
    remove_dim(m, dim);
    return true;
}

bool td__shape_select(td_opcall *c) {
    return td__select_part(c, start(c), td__in_int(c, 1), td__in_int(c, 2));
}

/* A bound counted from the end when negative, clamped to low..n. */
static int64_t clamp_bound(int64_t at, int64_t low, int64_t n) {
    if (td__dim_lt(at, 0)) at = td__dim_add(at, n);
    return td__dim_max(low, td__dim_min(at, n));
}

/* args: dim, start, end, step, as in slice's schema. */
bool td__slice_part(td_opcall *c, td_meta *m, const td_value *args) {
    if (m->rank == 0) return td__op_fail(c, TD_E_SHAPE, "self has no dim to slice");
    int dim = td__op_dim(c, args[0].u.i, m->rank);
    if (dim < 0) return false;
    int64_t step = td__dim_fixed(args[3].u.i), n = m->size[dim];
    int64_t start_at = 0, end = n;
    if (step < 1)
        return td__op_fail(c, TD_E_ARG, "step must be positive, got %lld",
                           (long long)step);
    if (args[1].kind != TD_K_NONE) start_at = clamp_bound(args[1].u.i, 0, n);
    if (args[2].kind != TD_K_NONE) end = args[2].u.i;
    end = clamp_bound(end, start_at, n);
    m->offset = td__dim_add(m->offset, td__dim_mul(start_at, m->stride[dim]));
    m->size[dim] = td__dim_sub(end, start_at);
    /* ceil(n / step), written so that it divides once; also right for n = 0 */
    if (step > 1)
        m->size[dim] = td__dim_add(td__dim_div(td__dim_sub(m->size[dim], 1), step), 1);
    m->stride[dim] = td__dim_mul(m->stride[dim], step);
    return true;
}

bool td__shape_slice(td_opcall *c) { return td__slice_part(c, start(c), &c->in[1]); }

/* args: offset, dim1, dim2, as in diagonal's schema. */
bool td__diagonal_part(td_opcall *c, td_meta *m, const td_value *args) {
    int64_t off = td__dim_fixed(args[0].u.i); /* its sign decides */
    int     a = td__op_dim(c, args[1].u.i, m->rank);
    int     b = a < 0 ? -1 : td__op_dim(c, args[2].u.i, m->rank);
    if (b < 0) return false;
    if (a == b)
        return td__op_fail(c, TD_E_ARG, "dim1 and dim2 are the same, %d, in %s", a,
                           td__type_str(td__in(c, 0)));
    int64_t rows = m->size[a], cols = m->size[b];
    if (off >= 0) cols = td__dim_sub(cols, off);
    else rows = td__dim_add(rows, off);
    int64_t n = td__dim_max(td__dim_min(rows, cols), 0),
            step = td__dim_add(m->stride[a], m->stride[b]);
    if (off && td__dim_expect(n, TD_DIM_IS_NE, 0))
        m->offset = td__dim_add(m->offset, off >= 0 ? td__dim_mul(off, m->stride[b])
                                                    : td__dim_mul(-off, m->stride[a]));
    remove_dim(m, a > b ? a : b);
    remove_dim(m, a > b ? b : a);
    m->size[m->rank] = n;
    m->stride[m->rank] = step;
    m->rank++;
    return true;
}

bool td__shape_diagonal(td_opcall *c) {
    return td__diagonal_part(c, start(c), &c->in[1]);
}

/* in: self, dim, size, step. dim counts the windows; their elements are a new last dim,
 * so windows may overlap in storage. */
bool td__shape_unfold(td_opcall *c) {
    td_meta *m = start(c);
    int      rank = m->rank, dim = td__op_dim(c, td__in_int(c, 1), rank);
    int64_t  size = td__in_int(c, 2), step = td__in_int(c, 3);
    if (dim < 0 || !rank_ok(c, rank + 1)) return false;
    int64_t n = rank ? m->size[dim] : 1;
    if (td__dim_lt(size, 0) || td__dim_lt(step, 1))
        return td__op_fail(c, TD_E_ARG,
                           "size %lld must not be negative, step %lld positive",
                           (long long)size, (long long)step);
    if (td__dim_lt(n, size))
        return td__op_fail(c, TD_E_SHAPE,
                           "windows of %lld do not fit dim %d of size %lld",
                           (long long)size, dim, (long long)n);
    m->size[rank] = size;
    m->stride[rank] = rank ? m->stride[dim] : 1;
    m->rank = rank + 1;
    if (rank == 0) return true;
    m->size[dim] = td__dim_add(td__dim_div(td__dim_sub(n, size), step), 1);
    m->stride[dim] = td__dim_mul(m->stride[dim], step);
    return true;
}
