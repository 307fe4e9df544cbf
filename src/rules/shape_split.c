/* shape_split.c -- geometry of views with several results, of as_strided, and of the
 * writers that change geometry in place. The number of results of a call must be known
 * when it is traced, so a symbolic count is fixed to the number of the trace. */
#include "rules/geom.h"

/* ---- several results ---------------------------------------------------- */

/* The wrapped dim to cut along; -1 after td__fail. */
static int cut_dim(td_opcall *c, int64_t dim) {
    const td_tensor *t = td__in(c, 0);
    if (t->rank > 0) return td__op_dim(c, dim, t->rank);
    td__op_fail(c, TD_E_SHAPE, "self has no dim to cut along");
    return -1;
}

/* Piece i of `size` entries from `at`. */
static void piece(td_opcall *c, int i, int dim, int64_t at, int64_t size) {
    td_meta *m = &c->meta[i];
    td__tensor_meta(td__in(c, 0), m);
    m->strided = true;
    m->offset = td__dim_add(m->offset, td__dim_mul(at, m->stride[dim]));
    m->size[dim] = size;
}

/* in: self, split_size, dim. The last piece may be shorter. The number of results must
 * be known, so a symbolic quotient is fixed. */
bool td__shape_split(td_opcall *c) {
    int64_t size = td__in_int(c, 1);
    int     dim = cut_dim(c, td__in_int(c, 2));
    if (dim < 0) return false;
    int64_t n = td__in(c, 0)->size[dim];
    if (td__dim_lt(size, 0) || (td__dim_eq(size, 0) && !td__dim_eq(n, 0)))
        return td__op_fail(c, TD_E_ARG,
                           "split_size %lld cannot cut dim %d of size %lld",
                           (long long)size, dim, (long long)n);
    int64_t count = 1;
    if (td__dim_lt(0, size) && td__dim_lt(0, n))
        count = td__dim_add(td__dim_div(td__dim_sub(n, 1), size), 1);
    count = td__dim_fixed(count);
    if (count < 0 || count > INT32_MAX)
        return td__op_fail(c, TD_E_UNSUPPORTED,
                           "unsupported: the number of pieces depends on a symbolic "
                           "size; capture with that size as a number");
    if (!td__call_results(c, (int)count)) return false;
    for (int i = 0; i < (int)count; i++) {
        int64_t at = td__dim_mul(i, size), rest = td__dim_sub(n, at);
        piece(c, i, dim, at, td__dim_min(size, rest));
    }
    return true;
}

/* in: self, split_sizes, dim. The sizes must add up to that of dim. */
bool td__shape_split_with_sizes(td_opcall *c) {
    const td_value *sizes = &c->in[1];
    int             dim = cut_dim(c, td__in_int(c, 2));
    if (dim < 0) return false;
    int64_t n = td__in(c, 0)->size[dim], sum = 0;
    for (uint32_t i = 0; i < sizes->n; i++) {
        if (td__dim_lt(sizes->u.ints[i], 0))
            return td__op_fail(c, TD_E_ARG,
                               "split_sizes must not be negative, got %lld",
                               (long long)sizes->u.ints[i]);
        sum = td__dim_add(sum, sizes->u.ints[i]);
    }
    if (!td__dim_eq(sum, n))
        return td__op_fail(
            c, TD_E_SHAPE,
            "split_sizes add up to %lld; they must add up to the size of dim %d of %s",
            (long long)sum, dim, td__type_str(td__in(c, 0)));
    if (!td__call_results(c, (int)sizes->n)) return false;
    sum = 0;
    for (int i = 0; i < (int)sizes->n; i++) {
        piece(c, i, dim, sum, sizes->u.ints[i]);
        sum = td__dim_add(sum, sizes->u.ints[i]);
    }
    return true;
}

/* in: self, dim. One view for each entry of dim. */
bool td__shape_unbind(td_opcall *c) {
    int dim = cut_dim(c, td__in_int(c, 1));
    if (dim < 0) return false;
    int64_t n = td__dim_fixed(td__in(c, 0)->size[dim]);
    if (n < 0 || n > INT32_MAX)
        return td__op_fail(c, TD_E_UNSUPPORTED,
                           "unsupported: the number of results depends on a symbolic "
                           "size; capture with that size as a number");
    if (!td__call_results(c, (int)n)) return false;
    for (int i = 0; i < (int)n; i++) {
        td__tensor_meta(td__in(c, 0), &c->meta[i]);
        if (!td__select_part(c, &c->meta[i], dim, i)) return false;
    }
    return true;
}

/* ---- any geometry over a storage ---------------------------------------- */

/* All addressed elements must lie within so many bytes. Symbolic sizes are guarded to
 * fit; a size that depends on values is checked when the program runs. */
static bool fits_storage(td_opcall *c, int64_t bytes, const td_meta *m) {
    if (td__dim_eq(td__numel(m->rank, m->size), 0)) return true;
    int64_t last = m->offset, item = td__dtype_bytes[m->dtype];
    for (int i = 0; i < m->rank; i++)
        last = td__dim_add(last, td__dim_mul(td__dim_sub(m->size[i], 1), m->stride[i]));
    int64_t need = td__dim_mul(td__dim_add(last, 1), item);
    if (td__dim_expect(bytes, TD_DIM_IS_GE, need)) return true;
    if (td__dim_tracing())
        return td__op_fail(c, TD_E_UNSUPPORTED,
                           "unsupported: sizes %s, strides %s over a storage whose "
                           "size in bytes the trace does not know; use contiguous "
                           "first, or fixed sizes",
                           td__sizes_str(m->rank, m->size),
                           td__sizes_str(m->rank, m->stride));
    return td__op_fail(
        c, TD_E_INDEX,
        "sizes %s, strides %s at offset %lld need %lld bytes, the storage "
        "has %lld",
        td__sizes_str(m->rank, m->size), td__sizes_str(m->rank, m->stride),
        (long long)m->offset, (long long)need, (long long)bytes);
}

/* Sizes and strides as two lists of one length without negative numbers. */
static bool take_geometry(td_opcall *c, td_meta *m, const td_value *size,
                          const td_value *stride) {
    if (size->n != stride->n || size->n > TD_MAX_RANK)
        return td__op_fail(
            c, TD_E_ARG,
            "size has %d entries and stride %d; they must have as many, at most %d",
            (int)size->n, (int)stride->n, TD_MAX_RANK);
    m->rank = (int)size->n;
    for (int i = 0; i < m->rank; i++) {
        m->size[i] = size->u.ints[i];
        m->stride[i] = stride->u.ints[i];
        if (td__dim_lt(m->size[i], 0) || td__dim_lt(m->stride[i], 0))
            return td__op_fail(c, TD_E_ARG,
                               "size %lld and stride %lld of dim %d must not be "
                               "negative",
                               (long long)m->size[i], (long long)m->stride[i], i);
    }
    return true;
}

int64_t td__storage_room(const td_tensor *t) {
    const td_storage *st = t->st;
    return st->open && !st->span && !td__dim_tracing() ? INT64_MAX
                                                       : td__storage_span(st);
}

/* An absent storage_offset keeps that of the meta. */
bool td__as_strided_part(td_opcall *c, td_meta *m, const td_value *args,
                         int64_t bytes) {
    m->strided = true;
    if (args[2].kind != TD_K_NONE) m->offset = args[2].u.i;
    if (td__dim_lt(m->offset, 0))
        return td__op_fail(c, TD_E_ARG, "storage_offset must not be negative, got %lld",
                           (long long)m->offset);
    return take_geometry(c, m, &args[0], &args[1]) && fits_storage(c, bytes, m);
}

/* in: self, size, stride, storage_offset. */
bool td__shape_as_strided(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    td__tensor_meta(t, &c->meta[0]);
    return td__as_strided_part(c, &c->meta[0], &c->in[1], td__storage_room(t));
}

/* in: self, size. The same sizes keep the strides; others are row-major from the same
 * offset. */
bool td__shape_resize(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    const td_value  *w = &c->in[1];
    td_meta         *m = &c->meta[0];
    bool             same = (int)w->n == t->rank;
    if (w->n > TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE,
                           "size has %d entries; at most %d dims are supported",
                           (int)w->n, TD_MAX_RANK);
    td__tensor_meta(t, m);
    for (int i = 0; i < (int)w->n; i++) {
        if (td__dim_lt(w->u.ints[i], 0))
            return td__op_fail(c, TD_E_SHAPE,
                               "size %lld at position %d must not be negative",
                               (long long)w->u.ints[i], i);
        same = same && td__dim_eq(w->u.ints[i], t->size[i]);
        m->size[i] = w->u.ints[i];
    }
    m->rank = (int)w->n;
    if (!same) td__strides_dense(m->rank, m->size, m->stride);
    if (td__dim_le(TD_DIM_HUGE / 16, td__numel(m->rank, m->size)))
        return td__op_fail(c, TD_E_SHAPE, "too many elements: %s",
                           td__sizes_str(m->rank, m->size));
    return true;
}

/* in: self, source, storage_offset, size, stride. Without sizes, the geometry of
 * source. */
bool td__shape_set(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *source = td__in(c, 1);
    td_meta         *m = &c->meta[0];
    td_value         size = c->in[3], stride = c->in[4];
    int64_t          dense[TD_MAX_RANK];
    if (self->dtype != source->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "source must have the dtype of self, %s and %s",
                           td__type_str(self), td__type_str(source));
    td__tensor_meta(source, m);
    if (td__in_none(c, 2) && td__in_none(c, 3)) return true;
    if (td__in_none(c, 2) || td__in_none(c, 3))
        return td__op_fail(
            c, TD_E_ARG, "storage_offset and size must be given together, or neither");
    if (size.n > TD_MAX_RANK || td__in_int(c, 2) < 0)
        return td__op_fail(c, TD_E_ARG,
                           "size has %d entries, of which at most %d are supported, "
                           "and storage_offset %lld must not be negative",
                           (int)size.n, TD_MAX_RANK, (long long)td__in_int(c, 2));
    if (stride.kind == TD_K_NONE || (stride.n == 0 && size.n > 0)) {
        td__strides_dense((int)size.n, size.u.ints, dense);
        stride = (td_value){TD_K_INTS, size.n, {.ints = dense}};
    }
    if (!td_is_contiguous(source))
        return td__op_fail(c, TD_E_ARG,
                           "source must be contiguous when storage_offset and size are "
                           "given, got %s with strides %s",
                           td__type_str(source),
                           td__sizes_str(source->rank, source->stride));
    m->offset = td__dim_add(source->offset, td__in_int(c, 2));
    if (!take_geometry(c, m, &size, &stride)) return false;
    /* The storage grows for a new geometry, as in PyTorch; self's own has to fit. */
    bool same = m->rank == self->rank && td__dims_eq(m->size, self->size, m->rank) &&
                td__dims_eq(m->stride, self->stride, m->rank);
    return !same || fits_storage(c, td__storage_room(source), m);
}
