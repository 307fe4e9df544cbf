/* decomp_stack.c -- composite ops that join, repeat and combine tensors. */
#include "rules/rule_arith.h"
#include "rules/shape_rules.h"

#include <string.h>

static td_ints ints(const int64_t *v, int n) { return (td_ints){v, n}; }

/* Sets result 0; false when the call that made t failed. */
static bool give(td_opcall *c, td_tensor *t) {
    c->out[0] = t;
    return t && !td_is_nil(t);
}

/* ---- joined ------------------------------------------------------------- */

typedef td_tensor *reshaper(td_tensor *t);

/* A vector, or a number, as a column. */
static td_tensor *as_column(td_tensor *t) {
    return t->rank > 1 ? t : td_op_reshape(t, TD_SHAPE(t->numel, 1));
}

/* Result 0: cat along `dim` of the tensors of argument 0, each in the form that `how`
 * gives it. dim < 0: along dim 1, or 0 when the first has fewer. */
static bool cat_as(td_opcall *c, reshaper *how, int64_t dim) {
    td_value    list = c->in[0];
    td_tensor **ts =
        td__arena_zalloc(&c->cx->scratch, sizeof *ts * ((size_t)list.n + 1));
    if (!ts) return td__fail_memory(c->cx);
    if (list.n == 0)
        return td__op_fail(c, TD_E_ARG, "tensors is empty; it must have an entry");
    for (uint32_t i = 0; i < list.n; i++) {
        ts[i] = how(list.u.ts[i]);
        if (td_is_nil(ts[i])) return false;
    }
    if (dim < 0) dim = ts[0]->rank > 1;
    return give(c, td_op_cat((td_tensors){ts, (int)list.n}, dim));
}

bool td__decomp_hstack(td_opcall *c) { return cat_as(c, td_op_atleast_1d, -1); }
bool td__decomp_vstack(td_opcall *c) { return cat_as(c, td_op_atleast_2d, 0); }
bool td__decomp_dstack(td_opcall *c) { return cat_as(c, td_op_atleast_3d, 2); }
bool td__decomp_column_stack(td_opcall *c) { return cat_as(c, as_column, -1); }

/* One block as rows of the result: zeros before and after its columns. *at is its
 * first column and moves behind it. */
static td_tensor *block_rows(td_tensor *t, td_dtype dt, int64_t *at, int64_t columns) {
    t = t_as(td_op_atleast_2d(t), dt);
    if (td_is_nil(t)) return t;
    int64_t end = td__dim_add(*at, t->size[1]);
    int64_t pad[2] = {*at, td__dim_sub(columns, end)};
    *at = end;
    return td_op_constant_pad_nd(t, ints(pad, 2), td_value_int(0));
}

/* in: tensors. Each block is padded to all columns; the rows are joined. */
bool td__decomp_block_diag(td_opcall *c) {
    td_value    list = c->in[0];
    td_dtype    dt = td__result_type(c->cx, &list, 1);
    int64_t     columns = 0, at = 0;
    td_tensor **ts =
        td__arena_zalloc(&c->cx->scratch, sizeof *ts * ((size_t)list.n + 1));
    if (!ts) return td__fail_memory(c->cx);
    if (list.n == 0)
        return td__op_fail(c, TD_E_ARG, "tensors is empty; it must have an entry");
    for (uint32_t i = 0; i < list.n; i++) {
        const td_tensor *t = list.u.ts[i];
        if (t->rank > 2)
            return td__op_fail(c, TD_E_SHAPE,
                               "tensor %u is %s; each must have at most 2 dims", i,
                               td__type_str(t));
        columns = td__dim_add(columns, t->rank ? t->size[t->rank - 1] : 1);
    }
    for (uint32_t i = 0; i < list.n; i++) {
        ts[i] = block_rows(list.u.ts[i], dt, &at, columns);
        if (td_is_nil(ts[i])) return false;
    }
    return give(c, td_op_cat((td_tensors){ts, (int)list.n}, 0));
}

/* ---- repeated ----------------------------------------------------------- */

/* Every entry of t along dim as often as the number says: a copy of the expanded
 * tensor. */
static td_tensor *repeat_evenly(td_opcall *c, td_tensor *t, int dim) {
    int64_t n = td__in_int(c, 1), size[TD_MAX_RANK];
    if (td__dim_lt(n, 0)) {
        td__op_fail(c, TD_E_ARG, "repeats must not be negative, got %lld",
                    (long long)n);
        return NULL;
    }
    if (t->rank == 0 || t->rank == TD_MAX_RANK) {
        td__op_fail(c, TD_E_SHAPE, "self is %s; with a dim it must have 1 to %d dims",
                    td__type_str(t), TD_MAX_RANK - 1);
        return NULL;
    }
    int64_t all = td__dim_mul(n, t->size[dim]);
    if (!td__in_none(c, 3) && !td__dim_eq(td__in_int(c, 3), all)) {
        td__op_fail(c, TD_E_ARG, "output_size is %lld, and the entries are %lld",
                    (long long)td__in_int(c, 3), (long long)all);
        return NULL;
    }
    for (int d = 0; d <= t->rank; d++)
        size[d] = d == dim + 1 ? n : t->size[d > dim ? d - 1 : d];
    t = td_op_expand(td_op_unsqueeze(t, dim + 1), ints(size, t->rank + 1));
    return td_op_flatten(td_op_clone(t, true), dim, dim + 1);
}

/* repeats, one for each of n entries. */
static td_tensor *repeats_of(td_opcall *c, int64_t n) {
    td_tensor *r = td__in(c, 1);
    if (r->rank == 0 || (r->rank == 1 && td__dim_eq(r->size[0], 1)))
        return td_op_expand(td_op_reshape(r, TD_SHAPE(1)), TD_SHAPE(n));
    if (r->rank == 1 && td__dim_eq(r->size[0], n)) return r;
    td__op_fail(c, TD_E_SHAPE,
                "repeats is %s; it must be a number or a vector with one entry, or one "
                "for each of the %lld entries that are repeated",
                td__type_str(r), (long long)n);
    return NULL;
}

/* in: self, repeats, dim or none, output_size or none. */
bool td__decomp_repeat_interleave(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int        dim = 0;
    if (td__in_none(c, 2)) t = td_op_flatten(t, 0, -1);
    else if ((dim = td__op_dim(c, td__in_int(c, 2), t->rank)) < 0) return false;
    if (td_is_nil(t)) return false;
    if (c->in[1].kind == TD_K_FLOAT)
        return td__op_fail(c, TD_E_ARG, "repeats must be an integer, got %g",
                           td__in_f(c, 1));
    if (c->in[1].kind != TD_K_TENSOR) return give(c, repeat_evenly(c, t, dim));
    if (t->rank == 0)
        return td__op_fail(c, TD_E_SHAPE, "self has no dims; leave dim out");
    td_tensor *r = repeats_of(c, t->size[dim]);
    if (!r || td_is_nil(r)) return false;
    return give(c, td_op_index_select(t, dim, td_op__repeat_interleave(r, c->in[3])));
}

/* ---- grids -------------------------------------------------------------- */

/* in: tensors. */
bool td__decomp_broadcast_tensors(td_opcall *c) {
    td_value list = c->in[0];
    int64_t  size[TD_MAX_RANK];
    int      rank = 0;
    for (uint32_t i = 0; i < list.n; i++)
        if (!td__broadcast(&rank, size, list.u.ts[i]->rank, list.u.ts[i]->size))
            return td__op_fail(
                c, TD_E_SHAPE,
                "tensor %u, %s, does not broadcast with those before it, %s", i,
                td__type_str(list.u.ts[i]), td__sizes_str(rank, size));
    if (!td__call_results(c, (int)list.n)) return false;
    for (uint32_t i = 0; i < list.n; i++) {
        td_tensor *t = list.u.ts[i];
        bool       same = t->rank == rank && td__dims_eq(t->size, size, rank);
        c->out[i] = same ? t : td_op_expand(t, ints(size, rank));
    }
    return td_ok(c->cx);
}

/* Are the tensors vectors or numbers of one dtype, and few enough for a dim each? */
static bool grid_fits(td_opcall *c) {
    td_value list = c->in[0];
    if (list.n == 0 || list.n > TD_MAX_RANK)
        return td__op_fail(c, TD_E_ARG, "got %u tensors; there must be 1 to %d", list.n,
                           TD_MAX_RANK);
    for (uint32_t i = 0; i < list.n; i++) {
        const td_tensor *t = list.u.ts[i];
        if (t->rank > 1 || t->dtype != list.u.ts[0]->dtype)
            return td__op_fail(
                c, TD_E_SHAPE,
                "tensor %u is %s; each must have at most one dim and the dtype of the "
                "first, %s",
                i, td__type_str(t), td_dtype_name((td_dtype)list.u.ts[0]->dtype));
    }
    return true;
}

/* in: tensors, indexing. Tensor i is seen along dim i; with 'xy' dims 0 and 1 are
 * exchanged. */
bool td__decomp_meshgrid(td_opcall *c) {
    td_value list = c->in[0];
    bool     xy = !strcmp(c->in[1].u.s, "xy");
    int64_t  size[TD_MAX_RANK], view[TD_MAX_RANK];
    int      n = (int)list.n;
    if (!xy && strcmp(c->in[1].u.s, "ij"))
        return td__op_fail(c, TD_E_ARG, "indexing must be 'ij' or 'xy', got '%.20s'",
                           c->in[1].u.s);
    if (!grid_fits(c) || !td__call_results(c, n)) return false;
    xy = xy && n > 1;
    for (int i = 0; i < n; i++) { /* the order of the grid of 'ij' */
        size[xy && i < 2 ? 1 - i : i] = list.u.ts[i]->numel;
        view[i] = 1;
    }
    for (int i = 0; i < n; i++) {
        int d = xy && i < 2 ? 1 - i : i;
        view[d] = list.u.ts[i]->numel;
        td_tensor *t = td_op_view(list.u.ts[i], ints(view, n));
        c->out[i] = td_op_expand(t, ints(size, n));
        view[d] = 1;
    }
    return td_ok(c->cx);
}

/* in: tensors. One alone is itself. */
bool td__decomp_cartesian_prod(td_opcall *c) {
    td_value   list = c->in[0];
    td_tensor *grid[TD_MAX_RANK];
    for (uint32_t i = 0; i < list.n; i++)
        if (list.u.ts[i]->rank != 1)
            return td__op_fail(c, TD_E_SHAPE, "tensor %u is %s; it must be a vector", i,
                               td__type_str(list.u.ts[i]));
    if (!grid_fits(c)) return false;
    if (list.n == 1) return give(c, list.u.ts[0]);
    td_tensors ts = {list.u.ts, (int)list.n};
    int        n = td_op_meshgrid(ts, "ij", grid, TD_MAX_RANK);
    for (int i = 0; i < n; i++) grid[i] = td_op_flatten(grid[i], 0, -1);
    return n > 0 && give(c, td_op_stack((td_tensors){grid, n}, 1));
}

/* in: self, r, with_replacement. */
bool td__decomp_combinations(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    r = td__in_number(c, 1);
    if (t->rank != 1)
        return td__op_fail(c, TD_E_SHAPE, "self is %s; it must be a vector",
                           td__type_str(t));
    if (r < 0)
        return td__op_fail(c, TD_E_ARG, "r must not be negative, got %lld",
                           (long long)r);
    if (r == 0) return give(c, td_op_new_empty(t, TD_SHAPE(0), TD_DTYPE_NONE));
    td_tensor *index = td_op__combinations(c->cx, t->size[0], r, td__in_bool(c, 2));
    return give(c, td_op__index(t, (td_tensors){&index, 1}));
}

/* ---- diagonals ---------------------------------------------------------- */

/* in: self, offset, dim1, dim2. The derivative of diagonal puts elements on a diagonal
 * of zeros. */
bool td__decomp_diag_embed(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    int64_t    offset = td__in_number(c, 1), size[TD_MAX_RANK];
    int        rank = t->rank + 1, next = 0;
    if (t->rank == 0 || rank > TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE, "self is %s; it must have 1 to %d dims",
                           td__type_str(t), TD_MAX_RANK - 1);
    int dim1 = td__op_dim(c, td__in_int(c, 2), rank);
    int dim2 = dim1 < 0 ? -1 : td__op_dim(c, td__in_int(c, 3), rank);
    if (dim2 < 0) return false;
    if (dim1 == dim2)
        return td__op_fail(c, TD_E_ARG, "dim1 and dim2 are both %d; they must differ",
                           dim1);
    int64_t n = td__dim_add(t->size[t->rank - 1], offset < 0 ? -offset : offset);
    for (int d = 0; d < rank; d++)
        size[d] = d == dim1 || d == dim2 ? n : t->size[next++];
    return give(c, td_op_diagonal_backward(t, ints(size, rank), offset, dim1, dim2));
}

/* in: self, diagonal. */
bool td__decomp_diag(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (t->rank == 1) return give(c, td_op_diag_embed(t, td__in_int(c, 1), -2, -1));
    if (t->rank == 2) return give(c, td_op_diagonal_copy(t, td__in_int(c, 1), 0, 1));
    return td__op_fail(c, TD_E_SHAPE, "self is %s; it must have 1 or 2 dims",
                       td__type_str(t));
}
