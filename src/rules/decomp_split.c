/* decomp_split.c -- composite ops that split a tensor in parts or give its dims
 * another order or number. */
#include "ops/ops.h"

static td_ints ints(const int64_t *v, int n) { return (td_ints){v, n}; }

/* Sets result 0; false when the call that made t failed. */
static bool give(td_opcall *c, td_tensor *t) {
    c->out[0] = t;
    return t && !td_is_nil(t);
}

/* ---- parts -------------------------------------------------------------- */

/* Result i: entries start..end along dim. */
static bool give_slice(td_opcall *c, int i, int dim, int64_t start, int64_t end) {
    c->out[i] =
        td_op_slice(td__in(c, 0), dim, td_value_int(start), td_value_int(end), 1);
    return !td_is_nil(c->out[i]);
}

/* `sections` pieces; of a size that is not divisible the first get one entry more. */
static bool split_sections(td_opcall *c, int dim, int64_t sections) {
    int64_t n = td__in(c, 0)->size[dim], start = 0;
    if (sections <= 0 || sections > INT32_MAX)
        return td__op_fail(c, TD_E_ARG, "sections must be positive, got %lld",
                           (long long)sections);
    int64_t piece = td__dim_div(n, sections), more = td__dim_mod(n, sections);
    if (!td__call_results(c, (int)sections)) return false;
    for (int64_t i = 0; i < sections; i++) {
        int64_t end = td__dim_add(start, piece);
        if (td__dim_lt(i, more)) end = td__dim_add(end, 1);
        if (!give_slice(c, (int)i, dim, start, end)) return false;
        start = end;
    }
    return true;
}

/* Pieces between the indices, argument 1. Slices clamp them. */
static bool split_indices(td_opcall *c, int dim) {
    td_value at = c->in[1];
    int64_t  start = 0;
    if (!td__call_results(c, (int)at.n + 1)) return false;
    for (uint32_t i = 0; i <= at.n; i++) {
        int64_t end = i < at.n ? at.u.ints[i] : td__in(c, 0)->size[dim];
        if (!give_slice(c, (int)i, dim, start, end)) return false;
        start = end;
    }
    return true;
}

/* The dim argument 2 of tensor_split; -1 after td__op_fail. */
static int split_dim(td_opcall *c) {
    const td_tensor *t = td__in(c, 0);
    if (t->rank > 0) return td__op_dim(c, td__in_int(c, 2), t->rank);
    td__op_fail(c, TD_E_SHAPE, "self has no dim to split along");
    return -1;
}

/* in: self, sections, dim. */
bool td__decomp_tensor_split(td_opcall *c) {
    int dim = split_dim(c);
    return dim >= 0 && split_sections(c, dim, td__in_number(c, 1));
}

/* in: self, indices, dim. */
bool td__decomp_tensor_split_indices(td_opcall *c) {
    int dim = split_dim(c);
    return dim >= 0 && split_indices(c, dim);
}

/* Has self at least `rank` dims? */
static bool rank_at_least(td_opcall *c, int rank) {
    const td_tensor *t = td__in(c, 0);
    return t->rank >= rank ||
           td__op_fail(c, TD_E_SHAPE, "self is %s; it must have at least %d dim%s",
                       td__type_str(t), rank, rank > 1 ? "s" : "");
}

/* in: self, sections. The size of dim must be divisible. */
static bool split_equally(td_opcall *c, int dim) {
    int64_t n = td__in(c, 0)->size[dim], sections = td__in_number(c, 1);
    if (sections <= 0 || !td__dim_eq(td__dim_mod(n, sections), 0))
        return td__op_fail(c, TD_E_ARG,
                           "sections must be positive and divide dim %d of %s, got "
                           "%lld",
                           dim, td__type_str(td__in(c, 0)), (long long)sections);
    return split_sections(c, dim, sections);
}

/* A vector is split along its only dim. */
static int h_dim(const td_opcall *c) { return td__in(c, 0)->rank > 1; }

bool td__decomp_hsplit(td_opcall *c) {
    return rank_at_least(c, 1) && split_equally(c, h_dim(c));
}
bool td__decomp_vsplit(td_opcall *c) {
    return rank_at_least(c, 2) && split_equally(c, 0);
}
bool td__decomp_dsplit(td_opcall *c) {
    return rank_at_least(c, 3) && split_equally(c, 2);
}
bool td__decomp_hsplit_indices(td_opcall *c) {
    return rank_at_least(c, 1) && split_indices(c, h_dim(c));
}
bool td__decomp_vsplit_indices(td_opcall *c) {
    return rank_at_least(c, 2) && split_indices(c, 0);
}
bool td__decomp_dsplit_indices(td_opcall *c) {
    return rank_at_least(c, 3) && split_indices(c, 2);
}

/* ---- order of dims ------------------------------------------------------ */

/* in: self, k, dims. A quarter turn is a flip of one dim, then both exchanged. */
bool td__decomp_rot90(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    k = (td__in_number(c, 1) % 4 + 4) % 4, dims[2];
    if (c->in[2].n != 2 || t->rank < 2)
        return td__op_fail(c, TD_E_ARG,
                           "needs two dims of a tensor with at least 2, got %u of %s",
                           c->in[2].n, td__type_str(t));
    for (int i = 0; i < 2; i++)
        if ((dims[i] = td__op_dim(c, c->in[2].u.ints[i], t->rank)) < 0) return false;
    if (dims[0] == dims[1])
        return td__op_fail(c, TD_E_ARG, "dims are both %lld; they must differ",
                           (long long)dims[0]);
    if (k == 0) return give(c, td_op_clone(t, true));
    if (k == 2) return give(c, td_op_flip(t, ints(dims, 2)));
    t = td_op_flip(t, ints(&dims[k == 1], 1));
    return give(c, td_op_transpose(t, dims[0], dims[1]));
}

bool td__decomp_fliplr(td_opcall *c) {
    return rank_at_least(c, 2) && give(c, td_op_flip(td__in(c, 0), TD_DIMS(1)));
}
bool td__decomp_flipud(td_opcall *c) {
    return rank_at_least(c, 1) && give(c, td_op_flip(td__in(c, 0), TD_DIMS(0)));
}

/* in: self. All dims reversed. */
bool td__decomp_numpy_T(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    dims[TD_MAX_RANK];
    for (int d = 0; d < t->rank; d++) dims[d] = t->rank - 1 - d;
    return give(c, td_op_permute(t, ints(dims, t->rank)));
}

/* in: self. mT, mH and adjoint. */
bool td__decomp_mT(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (t->rank == 0) return give(c, t);
    return rank_at_least(c, 2) && give(c, td_op_transpose(t, -2, -1));
}

/* in: self. */
bool td__decomp_matrix_H(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (t->rank == 0) return give(c, td_op_conj(t));
    if (t->rank != 2)
        return td__op_fail(
            c, TD_E_SHAPE,
            "self is %s; it must be a matrix. Use mH for batches of them",
            td__type_str(t));
    return give(c, td_op_conj(td_op_transpose(t, 0, 1)));
}

/* ---- number of dims ----------------------------------------------------- */

bool td__decomp_atleast_1d(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    return give(c, t->rank ? t : td_op_reshape(t, TD_SHAPE(1)));
}

bool td__decomp_atleast_2d(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (t->rank == 0) return give(c, td_op_reshape(t, TD_SHAPE(1, 1)));
    return give(c, t->rank == 1 ? td_op_unsqueeze(t, 0) : t);
}

bool td__decomp_atleast_3d(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (t->rank == 0) return give(c, td_op_reshape(t, TD_SHAPE(1, 1, 1)));
    if (t->rank == 1) t = td_op_unsqueeze(t, 0);
    return give(c, t->rank == 2 ? td_op_unsqueeze(t, -1) : t);
}
