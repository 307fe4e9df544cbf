/* decomp_view.c -- composite views and copies, as the ops they are made of, and the
 * inverses of views that need more than a formula: an inverse takes the base and the
 * changed view, and returns the base with the change. */
#include "ops/call.h"
#include "rules/geom.h"

#include <string.h>

static td_ints ints(const int64_t *v, int n) { return (td_ints){v, n}; }
static td_ints sizes_of(const td_tensor *t) { return ints(t->size, t->rank); }
static td_ints in_ints(const td_opcall *c, int i) {
    return ints(c->in[i].u.ints, (int)c->in[i].n);
}

/* The one result; false when its call failed. */
static bool give(td_opcall *c, td_tensor *t) {
    c->out[0] = t;
    return t && !td_is_nil(t);
}

/* The same of a copy that the layout of t takes. */
static bool give_copy(td_opcall *c, const td_tensor *t, td_tensor *copy) {
    td__copy_by_layout(t, copy);
    return give(c, copy);
}

/* ---- sizes -------------------------------------------------------------- */

/* in: self, size. A view where the strides of self allow the sizes, else a copy. The
 * choice is recorded (ops/assumed_copy.c): for a symbolic size of 0 or 1 eager would
 * take a view. */
bool td__decomp_reshape(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    size[TD_MAX_RANK], stride[TD_MAX_RANK];
    int        n = (int)c->in[1].n;
    if (!td__infer_sizes(c, &c->in[1], t->numel, size)) return false;
    if (td__view_strides(t->rank, t->size, t->stride, n, size, stride))
        return give(c, td_op_view(t, ints(size, n)));
    return give_copy(c, t, td_op__reshape_copy(t, ints(size, n)));
}

/* in: self, start_dim, end_dim. The dims from start_dim to end_dim become one; a 0-dim
 * tensor becomes [1]. */
bool td__decomp_flatten(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int        first = td__op_dim(c, td__in_int(c, 1), t->rank);
    int        last = first < 0 ? -1 : td__op_dim(c, td__in_int(c, 2), t->rank);
    int64_t    size[TD_MAX_RANK], one = 1;
    int        n = 0;
    if (last < 0) return false;
    if (first > last)
        return td__op_fail(c, TD_E_ARG, "start_dim %d must not come after end_dim %d",
                           first, last);
    if (t->rank == 0) return give(c, td_op_reshape(t, ints(&one, 1)));
    if (first == last) return give(c, t);
    for (int d = 0; d < t->rank; d++)
        if (d <= first || d > last) size[n++] = t->size[d];
        else size[n - 1] = td__dim_mul(size[n - 1], t->size[d]);
    return give(c, td_op_reshape(t, ints(size, n)));
}

/* in: self, dim, sizes with at most one -1: dim becomes the dims of these sizes. */
bool td__decomp_unflatten(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    td_value   cut = c->in[2];
    int        dim = td__op_dim(c, td__in_int(c, 1), t->rank), n = (int)cut.n;
    int64_t    size[TD_MAX_RANK];
    if (dim < 0) return false;
    if (n == 0 || t->rank == 0 || t->rank - 1 + n > TD_MAX_RANK)
        return td__op_fail(c, TD_E_ARG, "%d sizes cannot replace dim %d of %s", n, dim,
                           td__type_str(t));
    if (!td__infer_sizes(c, &cut, t->size[dim], size + dim)) return false;
    for (int d = 0; d < dim; d++) size[d] = t->size[d];
    for (int d = dim + 1; d < t->rank; d++) size[d + n - 1] = t->size[d];
    return give(c, td_op_view(t, ints(size, t->rank - 1 + n)));
}

/* Expanded dims hold equal copies: the first stands for all. An empty one holds none,
 * and self stays as it is. */
bool td__decomp_expand_inverse(td_opcall *c) {
    td_tensor *self = td__in(c, 0), *v = td__in(c, 1);
    int        lead = v->rank - self->rank;
    bool       fits = lead >= 0;
    for (int d = 0; fits && d < self->rank; d++)
        fits = td__dim_eq(v->size[lead + d], self->size[d]) ||
               td__dim_eq(self->size[d], 1);
    if (!fits)
        return td__op_fail(c, TD_E_SHAPE, "%s is not expanded from %s", td__type_str(v),
                           td__type_str(self));
    for (int d = 0; d < v->rank; d++)
        if (td__dim_eq(v->size[d], 0)) return give(c, self);
    while (v->rank > self->rank && !td_is_nil(v)) v = td_op_select(v, 0, 0);
    for (int d = 0; d < self->rank && !td_is_nil(v); d++)
        if (!td__dim_eq(v->size[d], self->size[d]))
            v = td_op_slice(v, d, td_value_int(0), td_value_int(1), 1);
    return give(c, v);
}

/* ---- order of dims ------------------------------------------------------ */

/* in: self, src, dims. result dim dims[i] is dim i of src. */
bool td__decomp_permute_inverse(td_opcall *c) {
    int64_t back[TD_MAX_RANK] = {0}; /* a dim twice leaves a gap: permute refuses */
    int     n = (int)c->in[2].n;
    if (n != td__in(c, 0)->rank)
        return td__op_fail(c, TD_E_ARG, "dims has %d entries, and self %s has %d dims",
                           n, td__type_str(td__in(c, 0)), td__in(c, 0)->rank);
    for (int i = 0; i < n; i++) {
        int d = td__op_dim(c, c->in[2].u.ints[i], n);
        if (d < 0) return false;
        back[d] = i;
    }
    return give(c, td_op_permute(td__in(c, 1), ints(back, n)));
}

/* dims[i] = where result dim i comes from; -1 while open. */
static bool place_dims(td_opcall *c, int rank, int64_t *dims, uint64_t *taken) {
    td_value from = c->in[1], to = c->in[2];
    if (from.n != to.n)
        return td__op_fail(
            c, TD_E_ARG,
            "source has %u entries and destination %u; they must have as many", from.n,
            to.n);
    for (uint32_t k = 0; k < from.n; k++) {
        int a = td__op_dim(c, from.u.ints[k], rank);
        int b = a < 0 ? -1 : td__op_dim(c, to.u.ints[k], rank);
        if (b < 0) return false;
        if (*taken >> a & 1 || (rank > 0 && dims[b] >= 0))
            return td__op_fail(c, TD_E_ARG,
                               "a dim appears twice in source %s or destination %s",
                               td__sizes_str((int)from.n, from.u.ints),
                               td__sizes_str((int)to.n, to.u.ints));
        *taken |= (uint64_t)1 << a;
        if (rank > 0) dims[b] = a;
    }
    return true;
}

/* in: self, source, destination. Dims that are not named keep their order. */
bool td__decomp_movedim(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    dims[TD_MAX_RANK];
    uint64_t   taken = 0;
    for (int i = 0; i < TD_MAX_RANK; i++) dims[i] = -1;
    if (!place_dims(c, t->rank, dims, &taken)) return false;
    if (t->rank == 0) return give(c, td_op_alias(t));
    for (int i = 0, next = 0; i < t->rank; i++) {
        if (dims[i] >= 0) continue;
        while (taken >> next & 1) next++;
        dims[i] = next++;
    }
    return give(c, td_op_permute(t, ints(dims, t->rank)));
}

/* ---- parts -------------------------------------------------------------- */

/* in: self, dim, start, length. start may count from the end; unlike slice, nothing is
 * clamped. */
bool td__decomp_narrow(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    start = td__in_int(c, 2), length = td__in_int(c, 3);
    if (t->rank == 0)
        return td__op_fail(c, TD_E_SHAPE,
                           "self has no dims, and narrow needs at least one");
    int dim = td__op_dim(c, td__in_int(c, 1), t->rank);
    if (dim < 0) return false;
    int64_t n = t->size[dim];
    if (td__dim_lt(length, 0))
        return td__op_fail(c, TD_E_ARG, "length must not be negative, got %lld",
                           (long long)length);
    if (td__dim_lt(n, start) || td__dim_lt(start, td__dim_sub(0, n)))
        return td__op_fail(c, TD_E_INDEX,
                           "start %lld is out of range for dim %d of size %lld",
                           (long long)start, dim, (long long)n);
    if (td__dim_lt(start, 0)) start = td__dim_add(start, n);
    int64_t end = td__dim_add(start, length);
    if (td__dim_lt(n, end))
        return td__op_fail(c, TD_E_INDEX,
                           "start %lld and length %lld go beyond dim %d of size %lld",
                           (long long)start, (long long)length, dim, (long long)n);
    return give(c, td_op_slice(t, dim, td_value_int(start), td_value_int(end), 1));
}

/* in: self, chunks, dim. At most `chunks` pieces of equal size, the last may be
 * shorter. A dim of size 0 gives exactly `chunks` empty pieces. */
bool td__decomp_chunk(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    chunks = td__in_number(c, 1);
    if (chunks <= 0)
        return td__op_fail(c, TD_E_ARG, "chunks must be positive, got %lld",
                           (long long)chunks);
    if (t->rank == 0) return td__op_fail(c, TD_E_SHAPE, "self has no dim to cut along");
    int dim = td__op_dim(c, td__in_int(c, 2), t->rank);
    if (dim < 0) return false;
    int64_t n = t->size[dim];
    if (!td__dim_is_sym(n) && n > 0 && chunks > n) chunks = n;
    /* ceil(n / chunks); the pieces of that size may be fewer than asked for */
    int64_t piece = td__dim_div(td__dim_add(n, chunks - 1), chunks), count = chunks;
    if (!td__dim_eq(piece, 0))
        count = td__dim_div(td__dim_add(n, td__dim_sub(piece, 1)), piece);
    count = td__dim_fixed(count);
    if (count < 0 || count > INT32_MAX)
        return td__op_fail(c, TD_E_UNSUPPORTED,
                           "unsupported: the number of pieces depends on a symbolic "
                           "size; capture with that size as a number");
    if (!td__call_results(c, (int)count)) return false;
    if (!td__dim_eq(piece, 0))
        return td_op_split(t, piece, dim, c->out, (int)count) >= 0;
    int64_t *zeros =
        td__arena_zalloc(&c->cx->scratch, sizeof(int64_t) * (size_t)chunks);
    if (!zeros) return td__fail_memory(c->cx);
    return td_op_split_with_sizes(t, ints(zeros, (int)chunks), dim, c->out,
                                  (int)count) >= 0;
}

/* Result 0: self with src in place of the entries at .. at + size of src along dim. */
static bool put_piece(td_opcall *c, int64_t dim, int64_t at) {
    td_tensor *self = td__in(c, 0), *src = td__in(c, 1);
    int        d = td__op_dim(c, dim, self->rank);
    if (d < 0 || src->rank != self->rank)
        return td__op_fail(c, TD_E_SHAPE,
                           "src %s is not a piece of self %s: the ranks differ",
                           td__type_str(src), td__type_str(self));
    td_value end = td_value_int(td__dim_add(at, src->size[d]));
    return give(c, td_op_slice_scatter(self, src, d, td_value_int(at), end, 1));
}

/* in: self, src, nr, split_size, dim. Piece nr starts at nr * split_size. */
bool td__decomp_split_inverse(td_opcall *c) {
    return put_piece(c, td__in_int(c, 4),
                     td__dim_mul(td__in_int(c, 2), td__in_int(c, 3)));
}

/* in: self, src, nr, split_sizes, dim. Piece nr starts where the sizes before it
 * end. */
bool td__decomp_split_with_sizes_inverse(td_opcall *c) {
    int64_t at = 0;
    for (int64_t i = 0; i < td__in_int(c, 2) && i < c->in[3].n; i++)
        at = td__dim_add(at, c->in[3].u.ints[i]);
    return put_piece(c, td__in_int(c, 4), at);
}

/* in: self, src, dimension, size, step. The windows of src are laid side by side and
 * copied to the entries they were taken from; where windows overlap, the last one
 * wins. */
bool td__decomp_unfold_inverse(td_opcall *c) {
    td_tensor *self = td__in(c, 0), *v = td__in(c, 1);
    int        dim = td__op_dim(c, td__in_int(c, 2), self->rank);
    int64_t    last = -1, next = dim + 1, all = -1;
    if (dim < 0) return false;
    if (self->rank == 0) return give(c, td_op_reshape(v, sizes_of(self)));
    td_tensor *index =
        td_op_arange(c->cx, td_value_int(0), td_value_int(self->size[dim]),
                     td_value_int(1), TD_I64);
    index = td_op_unfold(index, 0, td__in_int(c, 3), td__in_int(c, 4));
    index = td_op_reshape(index, ints(&all, 1));
    v = td_op_movedim(v, ints(&last, 1), ints(&next, 1));
    v = td_op_flatten(v, dim, dim + 1);
    return give(c, td_op_index_copy(self, dim, index, v));
}

/* ---- as_strided --------------------------------------------------------- */

/* A geometry without its dims of size 1. */
typedef struct geometry {
    int     rank;
    int64_t size[TD_MAX_RANK], stride[TD_MAX_RANK], offset;
} geometry;

/* Appends a dim. */
static void add_dim(geometry *g, int64_t size, int64_t stride) {
    g->size[g->rank] = size;
    g->stride[g->rank++] = stride;
}

/* May two elements share a place? By ATen's rule: sorted by stride, each dim must
 * step over everything the smaller ones reach. */
static bool may_overlap(const geometry *g) {
    int     order[TD_MAX_RANK];
    int64_t reach = 0;
    for (int i = 0; i < g->rank; i++) {
        int k = i;
        for (; k > 0 && td__dim_lt(g->stride[i], g->stride[order[k - 1]]); k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int i = 0; i < g->rank; i++) {
        int d = order[i];
        if (td__dim_le(g->stride[d], reach)) return true;
        reach =
            td__dim_add(reach, td__dim_mul(td__dim_sub(g->size[d], 1), g->stride[d]));
    }
    return false;
}

/* The index of the last element of g in a storage, plus 1. */
static int64_t places_needed(const geometry *g) {
    int64_t last = g->offset;
    for (int d = 0; d < g->rank; d++)
        last = td__dim_add(last, td__dim_mul(td__dim_sub(g->size[d], 1), g->stride[d]));
    return td__dim_add(last, 1);
}

/* For each element of g its index in a flat tensor of `places` elements. */
static td_tensor *places_of(td_ctx *cx, const geometry *g, int64_t places) {
    int64_t    all = -1;
    td_tensor *index = td_op_arange(cx, td_value_int(0), td_value_int(places),
                                    td_value_int(1), TD_I64);
    index = td_op_as_strided(index, ints(g->size, g->rank), ints(g->stride, g->rank),
                             td_value_int(g->offset));
    return td_op_reshape(index, ints(&all, 1));
}

/* Sums g over expanded dims and drops those of size 1; *out gets the rest. */
static td_tensor *reduce_grad(td_opcall *c, td_tensor *g, geometry *out) {
    td_value size = c->in[4], stride = c->in[5];
    geometry back = {0};
    for (int d = g->rank - 1; d >= 0; d--) {
        int64_t dim = d;
        if (td__dim_eq(size.u.ints[d], 1)) g = td_op_squeeze_dim(g, d);
        else if (td__dim_eq(stride.u.ints[d], 0))
            g = td_op_sum(g, ints(&dim, 1), false, TD_DTYPE_NONE);
        else add_dim(&back, size.u.ints[d], stride.u.ints[d]);
    }
    for (int d = back.rank - 1; d >= 0; d--) add_dim(out, back.size[d], back.stride[d]);
    return g;
}

/* Elements of the input that share a place share its gradient. */
static td_tensor *share_out(td_ctx *cx, td_tensor *flat, const geometry *in,
                            int64_t places) {
    int64_t    one = 1;
    td_tensor *index = places_of(cx, in, places);
    td_tensor *ones =
        td_op_expand_as(td_op_new_ones(flat, ints(&one, 1), TD_DTYPE_NONE), index);
    td_tensor *none = td_op_new_zeros(flat, ints(&places, 1), TD_DTYPE_NONE);
    td_tensor *count = td_op_index_add(none, 0, index, ones, td_value_int(1));
    return td_op_div(flat, td_value_tensor(count), "");
}

/* The storage is rebuilt as one flat tensor: the gradient is added where the
 * result's elements lay, and read where the input's elements lie. */
bool td__decomp_as_strided_backward(td_opcall *c) {
    td_tensor *g = td__in(c, 0), *flat;
    geometry   in = {0}, out = {0};
    td_ints    in_size = in_ints(c, 1), in_stride = in_ints(c, 2);
    /* the flat tensor starts where the earlier of the two geometries does */
    int64_t    low = td__dim_min(td__in_int(c, 3), td__in_int(c, 6)), all = -1;
    bool       fits = g->rank == (int)c->in[4].n && c->in[4].n == c->in[5].n;
    for (int d = 0; fits && d < g->rank; d++)
        fits = td__dim_eq(g->size[d], c->in[4].u.ints[d]);
    if (!fits || in_size.n != in_stride.n || in_size.n > TD_MAX_RANK)
        return td__op_fail(c, TD_E_ARG,
                           "grad %s must have the sizes given, and each list of sizes "
                           "a list of strides of its length",
                           td__type_str(g));
    if (td__dim_eq(g->numel, 0) || td__dim_eq(td__numel(in_size.n, in_size.v), 0))
        return give(c, td_op_new_zeros(g, in_size, TD_DTYPE_NONE));
    g = reduce_grad(c, g, &out);
    in.offset = td__dim_sub(td__in_int(c, 3), low);
    out.offset = td__dim_sub(td__in_int(c, 6), low);
    for (int d = 0; d < in_size.n; d++)
        if (!td__dim_eq(in_size.v[d], 1)) add_dim(&in, in_size.v[d], in_stride.v[d]);
    int64_t places = td__dim_max(places_needed(&in), places_needed(&out));
    flat = td_op_new_zeros(g, ints(&places, 1), TD_DTYPE_NONE);
    if (may_overlap(&out))
        flat = td_op_index_add(flat, 0, places_of(c->cx, &out, places),
                               td_op_reshape(g, ints(&all, 1)), td_value_int(1));
    else
        flat = td_op_as_strided_scatter(flat, g, ints(out.size, out.rank),
                                        ints(out.stride, out.rank),
                                        td_value_int(out.offset));
    if (may_overlap(&in)) flat = share_out(c->cx, flat, &in, places);
    return give(c, td_op_as_strided(flat, in_size, in_stride, td_value_int(in.offset)));
}

/* ---- copies ------------------------------------------------------------- */

/* self itself when it is row-major, else a copy; see td__decomp_reshape for what is
 * recorded. */
bool td__decomp_contiguous(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (td__is_dense(t->rank, t->size, t->stride)) return give(c, t);
    return give_copy(c, t, td_op_clone(t, true));
}

/* in: self, dtype, copy. self itself when nothing changes and no copy is asked for. */
bool td__decomp_to(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    td_dtype   dt = td__in_dtype(c, 1, (td_dtype)t->dtype);
    return give(c, dt == (td_dtype)t->dtype && !td__in_bool(c, 2)
                       ? t
                       : td_op__to_copy(t, dt));
}

/* in: self, dims. Missing leading repeats count 1, then repeat. */
bool td__decomp_tile(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    reps[TD_MAX_RANK];
    int        n = (int)c->in[1].n, add = t->rank > n ? t->rank - n : 0;
    if (n + add > TD_MAX_RANK)
        return td__op_fail(c, TD_E_ARG, "dims has %d entries; at most %d are supported",
                           n, TD_MAX_RANK);
    for (int i = 0; i < add; i++) reps[i] = 1;
    for (int i = 0; i < n; i++) reps[add + i] = c->in[1].u.ints[i];
    return give(c, td_op_repeat(t, ints(reps, n + add)));
}
