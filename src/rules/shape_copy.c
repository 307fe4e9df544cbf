/* shape_copy.c -- results of ops that copy elements: clones, joins, repeats, rolls,
 * padding, and the inverses and derivatives of views.
 *
 * Three layouts occur. A clone keeps the order of dims and closes gaps (meta_clone).
 * The inverse of a view keeps strides and gaps to the letter (meta_exact), because it
 * stands for the base after a write through the view. Joins and padding are row-major,
 * or channels-last when all their tensors are. */
#include "core/device.h"
#include "rules/geom.h"
#include "rules/shape_rules.h"

#include <string.h>

/* ---- layouts ------------------------------------------------------------ */

/* Fresh, with the order of dims of (size, stride) kept, as ATen's clone does. */
static void keep_order(td_meta *m) {
    m->offset = 0;
    m->strided = true;
    td__strides_like(m->rank, m->size, m->stride, m->stride);
}

/* Sizes and order of dims of t, packed. */
static void meta_clone(td_meta *m, const td_tensor *t) {
    td__tensor_meta(t, m);
    keep_order(m);
}

/* Fresh, with the very strides and offset of t, gaps included, unless elements of
 * t share places. */
static void meta_exact(td_meta *m, const td_tensor *t) {
    if (td__overlaps_itself(t)) meta_clone(m, t);
    else td__tensor_meta(t, m);
}

/* Dims of a channels-last tensor, fastest first: channels, then space from the
 * last dim on, then the batch. */
static int channel_dim(int rank, int i) {
    if (i == 0) return 1;
    return i == rank - 1 ? 0 : rank - i;
}

/* ATen's test: channels step least, then width, height and batch. A tensor that is
 * row-major as well, such as [N,1,1,1], is not. */
bool td__is_channels_last(const td_tensor *t) {
    int64_t least = 0;
    if ((t->rank != 4 && t->rank != 5) || td__dim_seems_eq(t->stride[1], 0))
        return false;
    for (int i = 0; i < t->rank; i++) {
        int d = channel_dim(t->rank, i);
        if (td__dim_seems_eq(t->size[d], 0) || td__dim_seems_lt(t->stride[d], least))
            return false;
        if (d == 0 && td__dim_seems_eq(least, t->stride[1]))
            return false; /* ambiguous: row-major */
        least = td__dim_mul(t->stride[d], td__dim_max(t->size[d], 1));
    }
    return true;
}

void td__strides_channels_last(int rank, const int64_t *size, int64_t *stride) {
    int64_t step = 1;
    for (int i = 0; i < rank; i++) {
        int d = channel_dim(rank, i);
        stride[d] = step;
        step = td__dim_mul(step, size[d]);
    }
}

/* Fresh and channels-last. */
static void use_channels_last(td_meta *m) {
    m->strided = true;
    m->offset = 0;
    td__strides_channels_last(m->rank, m->size, m->stride);
}

/* Equal rank and sizes. */
static bool same_sizes(const td_tensor *t, const td_meta *m) {
    return t->rank == m->rank && td__dims_eq(t->size, m->size, m->rank);
}

/* ---- the same elements -------------------------------------------------- */

/* in: self, contiguous. Row-major when asked for, else in the order of dims of self. */
bool td__shape_clone(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (td__in_bool(c, 1))
        td__meta_dense(&c->meta[0], (td_dtype)t->dtype, t->rank, t->size);
    else meta_clone(&c->meta[0], t);
    return true;
}

/* in: self, device. exec.c sets the device of the result. */
bool td__shape_to_device(td_opcall *c) {
    meta_clone(&c->meta[0], td__in(c, 0));
    return true;
}

/* The gradient goes back to the device of the argument. */
bool td__vjp_to_device(td_vjp *v) {
    if (!v->need[0] || !v->g[0]) return true;
    v->grad[0] = td_op_to_device(v->g[0], td__device_str(v->in_meta[0]->device));
    return !td_is_nil(v->grad[0]);
}

/* in: self, dtype. */
bool td__shape_to_copy(td_opcall *c) {
    meta_clone(&c->meta[0], td__in(c, 0));
    c->meta[0].dtype = td__in_dtype(c, 1, c->meta[0].dtype);
    return td__can_keep(c, td__in(c, 0), c->meta[0].dtype);
}

/* in: self, src. src broadcasts to self; the result has the strides of self, gaps
 * included, because it stands for self after a write. */
bool td__shape_copy(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *src = td__in(c, 1);
    int64_t          stride[TD_MAX_RANK];
    if (!td__can_keep(c, src, (td_dtype)self->dtype)) return false;
    if (!td__expand_strides(src, self->rank, self->size, stride))
        return td__op_fail(c, TD_E_SHAPE, "src %s cannot be broadcast to self %s",
                           td__type_str(src), td__type_str(self));
    meta_exact(&c->meta[0], self);
    return true;
}

/* in: self, value. Through an expanded view only a number can be written: a tensor
 * might overlap the elements it fills. */
bool td__shape_fill(td_opcall *c) {
    const td_tensor *value = c->n_in > 1 ? td__in(c, 1) : NULL;
    if (value && !td__can_keep(c, value, (td_dtype)td__in(c, 0)->dtype)) return false;
    if (value && value->rank > 0)
        return td__op_fail(c, TD_E_SHAPE,
                           "value must be a number or a 0-dim tensor, got %s",
                           td__type_str(value));
    if (value && c->info->writes && td__overlaps_itself(td__in(c, 0)))
        return td__op_fail(
            c, TD_E_ALIAS,
            "elements of %s share one place in memory; only a number can fill it",
            td__type_str(td__in(c, 0)));
    if (c->n_in > 1 && !td__number_fits(c, 1, (td_dtype)td__in(c, 0)->dtype))
        return false;
    meta_clone(&c->meta[0], td__in(c, 0));
    return true;
}

/* ---- joins -------------------------------------------------------------- */

/* ATen skips 1-d tensors without elements whatever the others are. */
static bool skipped(const td_tensor *t) {
    return t->rank == 1 && td__dim_eq(t->size[0], 0);
}

/* Are all tensors channels-last? Then so is the result. */
static bool cat_channels_last(td_value list, int rank) {
    for (uint32_t i = 0; i < list.n; i++)
        if (list.u.ts[i]->rank != rank || !td__is_channels_last(list.u.ts[i]))
            return false;
    return true;
}

/* Adds tensor nr to the sizes so far; all sizes but that of `dim` must agree. */
static bool cat_add(td_opcall *c, td_meta *m, uint32_t nr, int dim) {
    const td_tensor *t = c->in[0].u.ts[nr];
    bool             fits = t->rank == m->rank;
    for (int d = 0; fits && d < m->rank; d++)
        fits = d == dim || td__dim_eq(t->size[d], m->size[d]);
    if (!fits)
        return td__op_fail(c, TD_E_SHAPE,
                           "tensor %u of the list is %s, and must have the sizes %s of "
                           "those before it, except in dim %d",
                           nr, td__type_str(t), td__sizes_str(m->rank, m->size), dim);
    m->size[dim] = td__dim_add(m->size[dim], t->size[dim]);
    return true;
}

/* The dtype of tensors that are joined; NONE after td__op_fail: a stored dtype has none
 * in common with another. */
static td_dtype joined_dtype(td_opcall *c) {
    td_value list = c->in[0];
    td_dtype all = (td_dtype)list.u.ts[0]->dtype;
    for (uint32_t i = 1; i < list.n; i++) {
        td_dtype dt = (td_dtype)list.u.ts[i]->dtype, next = td__promote(all, dt);
        if (next == TD_DTYPE_NONE)
            return td__op_fail(c, TD_E_DTYPE,
                               "tensor %u is %s, and those before it are %s; the two "
                               "have no common dtype. Cast one (td_to)",
                               i, td_dtype_name(dt), td_dtype_name(all)),
                   TD_DTYPE_NONE;
        all = next;
    }
    return td__result_type(c->cx, &list, 1);
}

/* At least one tensor, each with dims. */
static bool cat_list(td_opcall *c) {
    td_value list = c->in[0];
    if (list.n == 0) return td__op_fail(c, TD_E_ARG, "the list of tensors is empty");
    for (uint32_t i = 0; i < list.n; i++)
        if (list.u.ts[i]->rank == 0)
            return td__op_fail(c, TD_E_SHAPE,
                               "tensor %u has no dims; stack takes such tensors", i);
    return true;
}

/* in: tensors, dim. dim is wrapped by the rank of the first tensor that counts. */
bool td__shape_cat(td_opcall *c) {
    td_value list = c->in[0];
    td_meta *m = &c->meta[0];
    int      dim = 0;
    bool     begun = false;
    if (!cat_list(c)) return false;
    td_dtype dt = joined_dtype(c);
    if (dt == TD_DTYPE_NONE) return false;
    td__meta_dense(m, dt, 1, list.u.ts[0]->size);
    if (skipped(list.u.ts[0])) m->size[0] = 0;
    for (uint32_t i = 0; i < list.n; i++) {
        const td_tensor *t = list.u.ts[i];
        if (skipped(t)) continue;
        if (begun) {
            if (!cat_add(c, m, i, dim)) return false;
            continue;
        }
        if ((dim = td__op_dim(c, td__in_int(c, 1), t->rank)) < 0) return false;
        td__meta_dense(m, m->dtype, t->rank, t->size);
        begun = true;
    }
    if (begun && cat_channels_last(list, m->rank)) use_channels_last(m);
    return true;
}

/* Is every tensor channels-last with a last dim of size 1 added? */
static bool last_dim_channels_last(td_value list) {
    for (uint32_t i = 0; i < list.n; i++) {
        td_meta          m;
        td_window        w;
        const td_tensor *t = list.u.ts[i];
        td__tensor_meta(t, &m);
        td__insert_dim(&m, m.rank);
        if (!td__is_channels_last(td__window(&w, t, &m))) return false;
    }
    return true;
}

/* The sizes and strides of stacked tensors with the sizes in m, as ATen computes
 * them: of cat along `dim`, whose result a view splits into the new dim and `dim`. A
 * new last dim has no dim to split; the tensors are unsqueezed before cat. */
static void stack_layout(td_meta *m, td_value list, int dim) {
    bool last = dim == m->rank;
    bool split = !last && cat_channels_last(list, m->rank);
    td__strides_dense(m->rank, m->size, m->stride);
    if (split) {
        int64_t len = m->size[dim];
        m->size[dim] = td__dim_mul(list.n, len);
        use_channels_last(m);
        m->size[dim] = len;
    }
    td__insert_dim(m, dim);
    m->size[dim] = list.n;
    if (last && last_dim_channels_last(list)) use_channels_last(m);
}

/* in: tensors, dim. All have the same sizes; the new dim has one entry for each. */
bool td__shape_stack(td_opcall *c) {
    td_value list = c->in[0];
    td_meta *m = &c->meta[0];
    if (list.n == 0) return td__op_fail(c, TD_E_ARG, "the list of tensors is empty");
    const td_tensor *first = list.u.ts[0];
    int              dim = td__op_dim(c, td__in_int(c, 1), first->rank + 1);
    if (dim < 0) return false;
    if (first->rank == TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE,
                           "tensors of type %s have %d dims; the result has one more, "
                           "and at most %d are supported",
                           td__type_str(first), first->rank, TD_MAX_RANK);
    td_dtype dt = joined_dtype(c);
    if (dt == TD_DTYPE_NONE) return false;
    td__meta_dense(m, dt, first->rank, first->size);
    for (uint32_t i = 1; i < list.n; i++)
        if (!same_sizes(list.u.ts[i], m))
            return td__op_fail(
                c, TD_E_SHAPE,
                "tensor %u of the list is %s, and must have the sizes of the first, %s",
                i, td__type_str(list.u.ts[i]), td__type_str(first));
    stack_layout(m, list, dim);
    return true;
}

/* in: self, repeats. Missing leading dims of self count as 1. */
bool td__shape_repeat(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    td_value         r = c->in[1];
    int64_t          size[TD_MAX_RANK];
    int              add = (int)r.n - t->rank;
    if (add < 0 || r.n > TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE,
                           "repeats has %u entries; there must be at least %d, the "
                           "number of dims of %s",
                           r.n, t->rank, td__type_str(t));
    for (int i = 0; i < (int)r.n; i++) {
        if (td__dim_lt(r.u.ints[i], 0))
            return td__op_fail(c, TD_E_ARG, "repeats must not be negative, got %lld",
                               (long long)r.u.ints[i]);
        size[i] = td__dim_mul(r.u.ints[i], i < add ? 1 : t->size[i - add]);
    }
    td__meta_dense(&c->meta[0], (td_dtype)t->dtype, (int)r.n, size);
    return true;
}

/* ---- elsewhere ---------------------------------------------------------- */

/* in: self, dims, each named once. */
bool td__shape_flip(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    uint64_t         set = 0;
    for (uint32_t k = 0; k < c->in[1].n; k++) {
        int dim = td__op_dim(c, c->in[1].u.ints[k], t->rank);
        if (dim < 0) return false;
        if (set >> dim & 1)
            return td__op_fail(c, TD_E_ARG, "dim %d appears twice in dims", dim);
        set |= (uint64_t)1 << dim;
    }
    meta_clone(&c->meta[0], t);
    return true;
}

/* ATen joins two stretches, and a join of channels-last stretches stays so; without
 * a shift one stretch is empty, which counts as row-major. */
static bool roll_channels_last(const td_tensor *t, td_value shifts, td_value dims) {
    bool last = dims.n > 0 && td__is_channels_last(t);
    for (uint32_t k = 0; last && k < dims.n; k++) {
        int64_t n = t->size[td__wrap_dim(dims.u.ints[k], t->rank)];
        last = !td__dim_eq(td__dim_mod(shifts.u.ints[k], n), 0);
    }
    return last;
}

/* in: self, shifts, dims: as many shifts as dims, or one shift and no dim, which rolls
 * the flattened tensor. */
bool td__shape_roll(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    td_value         shifts = c->in[1], dims = c->in[2];
    if (shifts.n == 0)
        return td__op_fail(c, TD_E_ARG, "shifts must have at least one entry");
    if (shifts.n != dims.n && !(shifts.n == 1 && dims.n == 0))
        return td__op_fail(c, TD_E_ARG,
                           "shifts has %u entries and dims %u; they must have as many",
                           shifts.n, dims.n);
    for (uint32_t k = 0; k < dims.n; k++)
        if (t->rank == 0 || td__op_dim(c, dims.u.ints[k], t->rank) < 0)
            return td__op_fail(c, TD_E_INDEX, "dim %lld is out of range for rank %d",
                               (long long)dims.u.ints[k], t->rank);
    if (dims.n > 0 && td__dim_eq(t->numel, 0)) meta_clone(&c->meta[0], t);
    else td__meta_dense(&c->meta[0], (td_dtype)t->dtype, t->rank, t->size);
    if (roll_channels_last(t, shifts, dims)) use_channels_last(&c->meta[0]);
    return true;
}

/* Numbers for dim d, last dim first in the list. */
static int64_t pad_at(td_value pad, int rank, int d, int side) {
    uint32_t k = 2 * (uint32_t)(rank - 1 - d) + (uint32_t)side;
    return k < pad.n ? pad.u.ints[k] : 0;
}

/* in: self, pad, value. Negative entries cut off. Without growth the result keeps the
 * order of dims, as ATen's slice and clone do. */
bool td__shape_pad(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    td_meta         *m = &c->meta[0];
    td_value         pad = c->in[1];
    bool             grows = false;
    if (pad.n % 2 != 0 || pad.n > 2u * t->rank)
        return td__op_fail(c, TD_E_ARG,
                           "pad has %u numbers; %s takes pairs, at most %d", pad.n,
                           td__type_str(t), t->rank);
    if (!td__number_fits(c, 2, (td_dtype)t->dtype)) return false;
    td__tensor_meta(t, m);
    for (int d = 0; d < t->rank; d++) {
        int64_t before = pad_at(pad, t->rank, d, 0), after = pad_at(pad, t->rank, d, 1);
        int64_t cut = td__dim_add(td__dim_min(before, 0), td__dim_min(after, 0));
        if (td__dim_lt(td__dim_add(t->size[d], cut), 0))
            return td__op_fail(c, TD_E_SHAPE,
                               "pad %lld,%lld takes more than dim %d of %s has",
                               (long long)before, (long long)after, d, td__type_str(t));
        grows = grows || td__dim_lt(0, before) || td__dim_lt(0, after);
        m->size[d] = td__dim_add(t->size[d], td__dim_add(before, after));
    }
    if (!grows) keep_order(m);
    else if (td__is_channels_last(t)) use_channels_last(m);
    else m->strided = false;
    return true;
}

/* tril and triu take matrices or stacks of them. */
bool td__shape_tri(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (t->rank < 2)
        return td__op_fail(c, TD_E_SHAPE, "takes a tensor of at least 2 dims, got %s",
                           td__type_str(t));
    td__meta_dense(&c->meta[0], (td_dtype)t->dtype, t->rank, t->size);
    return true;
}

/* ---- views put back ----------------------------------------------------- */

/* src must have the sizes of the part it replaces. */
static bool src_fits(td_opcall *c, const td_meta *part) {
    const td_tensor *src = td__in(c, 1);
    if (same_sizes(src, part)) return true;
    return td__op_fail(c, TD_E_SHAPE,
                       "src %s must have the sizes %s of the part it replaces",
                       td__type_str(src), td__sizes_str(part->rank, part->size));
}

/* in: self, src, dim, index. */
bool td__shape_select_scatter(td_opcall *c) {
    td_meta part;
    meta_exact(&c->meta[0], td__in(c, 0));
    part = c->meta[0];
    return td__select_part(c, &part, td__in_int(c, 2), td__in_int(c, 3)) &&
           src_fits(c, &part);
}

/* in: self, src, dim, start, end, step. */
bool td__shape_slice_scatter(td_opcall *c) {
    td_meta part;
    meta_exact(&c->meta[0], td__in(c, 0));
    part = c->meta[0];
    return td__slice_part(c, &part, &c->in[2]) && src_fits(c, &part);
}

/* in: self, src, offset, dim1, dim2. */
bool td__shape_diagonal_scatter(td_opcall *c) {
    td_meta part;
    meta_exact(&c->meta[0], td__in(c, 0));
    part = c->meta[0];
    return td__diagonal_part(c, &part, &c->in[2]) && src_fits(c, &part);
}

/* in: self, src, size, stride, storage_offset. The geometry addresses the storage of
 * self, or of its dense copy where elements of self overlap. */
bool td__shape_as_strided_scatter(td_opcall *c) {
    const td_tensor *self = td__in(c, 0);
    td_meta          part;
    int64_t          bytes = td__storage_room(self);
    meta_exact(&c->meta[0], self);
    part = c->meta[0];
    if (td__overlaps_itself(self)) /* the copy is a dense one */
        bytes = td__dim_mul(self->numel, td__dtype_bytes[self->dtype]);
    if (!td__as_strided_part(c, &part, &c->in[2], bytes)) return false;
    /* dims along which the part steps over each element once; fewer than its rank means
     * that elements repeat */
    bool    again[TD_MAX_RANK];
    int64_t dims[2][TD_MAX_RANK];
    if (td__dims_apart(part.rank, part.size, part.stride, dims[0], dims[1], again) <
            part.rank &&
        !td__dim_seems_eq(td__numel(part.rank, part.size), 0))
        return td__op_fail(c, TD_E_ALIAS,
                           "size and stride address some elements of self several "
                           "times, and src has one for each");
    return src_fits(c, &part);
}

/* ---- backwards ---------------------------------------------------------- */

/* Meta 0: fresh with the sizes of argument 1; *part starts as the same. */
static bool start_backward(td_opcall *c, td_meta *part) {
    td_value sizes = c->in[1];
    if (sizes.n > TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE,
                           "input_sizes has %u entries; at most %d are supported",
                           sizes.n, TD_MAX_RANK);
    td__meta_dense(&c->meta[0], (td_dtype)td__in(c, 0)->dtype, (int)sizes.n,
                   sizes.u.ints);
    *part = c->meta[0];
    part->strided = true;
    td__strides_dense(part->rank, part->size, part->stride);
    return true;
}

/* The gradient has the sizes of the part. */
static bool grad_fits(td_opcall *c, const td_meta *part) {
    const td_tensor *g = td__in(c, 0);
    if (same_sizes(g, part)) return true;
    return td__op_fail(c, TD_E_SHAPE, "gradient %s must have the sizes %s",
                       td__type_str(g), td__sizes_str(part->rank, part->size));
}

/* in: grad, input_sizes, dim, index. */
bool td__shape_select_backward(td_opcall *c) {
    td_meta part;
    return start_backward(c, &part) &&
           td__select_part(c, &part, td__in_int(c, 2), td__in_int(c, 3)) &&
           grad_fits(c, &part);
}

/* in: grad, input_sizes, dim, start, end, step. */
bool td__shape_slice_backward(td_opcall *c) {
    td_meta part;
    return start_backward(c, &part) && td__slice_part(c, &part, &c->in[2]) &&
           grad_fits(c, &part);
}

/* in: grad, input_sizes, offset, dim1, dim2. */
bool td__shape_diagonal_backward(td_opcall *c) {
    td_meta part;
    return start_backward(c, &part) && td__diagonal_part(c, &part, &c->in[2]) &&
           grad_fits(c, &part);
}

/* in: grad, input_sizes, dim, size, step. grad has the sizes that unfold gives for an
 * input of input_sizes. */
bool td__shape_unfold_backward(td_opcall *c) {
    td_meta part;
    int64_t size = td__in_int(c, 3), step = td__in_int(c, 4);
    if (!start_backward(c, &part)) return false;
    int rank = part.rank, dim = td__op_dim(c, td__in_int(c, 2), rank);
    if (dim < 0) return false;
    int64_t n = rank ? part.size[dim] : 1;
    if (td__dim_lt(size, 0) || td__dim_lt(step, 1) || rank == TD_MAX_RANK ||
        td__dim_lt(n, size))
        return td__op_fail(c, TD_E_ARG,
                           "size %lld must be from 0 to the size of the dim, %lld, and "
                           "step %lld positive",
                           (long long)size, (long long)n, (long long)step);
    part.size[rank] = size;
    part.rank = rank + 1;
    if (rank) part.size[dim] = td__dim_add(td__dim_div(td__dim_sub(n, size), step), 1);
    return grad_fits(c, &part);
}

/* Fills in the struct by hand: a td__tensor_over would allocate, and belong to a
 * scope. */
td_tensor *td__window(td_window *w, const td_tensor *t, const td_meta *m) {
    memset(&w->t, 0, sizeof w->t);
    w->t.handle = (td_handle)TD_LIVE(TENSOR, t->cx);
    w->t.refs = 1;
    w->t.slot = -1;
    w->t.dtype = (uint8_t)m->dtype;
    w->t.rank = (uint8_t)m->rank;
    w->t.numel = td__numel(m->rank, m->size);
    w->t.offset = m->offset;
    w->t.size = w->dims;
    w->t.stride = w->dims + TD_MAX_RANK;
    w->t.st = t->st;
    memcpy(w->t.size, m->size, sizeof(int64_t) * (size_t)m->rank);
    if (m->strided) memcpy(w->t.stride, m->stride, sizeof(int64_t) * (size_t)m->rank);
    else td__strides_dense(m->rank, m->size, w->t.stride);
    return &w->t;
}
