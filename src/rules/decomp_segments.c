/* decomp_segments.c -- reductions whose groups are given by an index or by runs:
 * scatter_reduce with an index for every element. */
#include "rules/index_args.h"
#include "rules/rule_arith.h"

#include <math.h>
#include <string.h>

static td_ints ints(const int64_t *v, int n) { return (td_ints){v, n}; }

/* Sets result 0; false when the call that made t failed. */
static bool give(td_opcall *c, td_tensor *t) {
    c->out[0] = t;
    return t && !td_is_nil(t);
}

/* ---- index_reduce ------------------------------------------------------- */

/* in: self, dim, index, source, reduce, include_self. The wrapped dim; -1 after
 * td__op_fail. */
static int index_reduce_dim(td_opcall *c) {
    const td_tensor *self = td__in(c, 0), *index = td__in(c, 2), *source = td__in(c, 3);
    const char      *how = c->in[4].u.s;
    int              dim = td__op_dim(c, td__in_int(c, 1), self->rank);
    if (dim < 0 || !td__index_dtype(c, index, "index", true)) return -1;
    if (strcmp(how, "prod") && strcmp(how, "mean") && strcmp(how, "amax") &&
        strcmp(how, "amin")) {
        td__op_fail(c, TD_E_ARG, "reduce must be prod, mean, amax or amin, got %.20s",
                    how);
        return -1;
    }
    bool fits =
        index->rank <= 1 && source->rank == self->rank && source->dtype == self->dtype;
    for (int d = 0; fits && d < self->rank; d++)
        fits = td__dim_eq(source->size[d], d == dim ? index->numel : self->size[d]);
    if (fits && (self->rank > 0 || td__dim_eq(index->numel, 1))) return dim;
    td__op_fail(c, TD_E_SHAPE,
                "index %s must be a vector, and source %s be self %s with one entry in "
                "dim %d for each index",
                td__type_str(index), td__type_str(source), td__type_str(self), dim);
    return -1;
}

/* The index of each element of source: a view of index. */
static td_tensor *element_index(td_opcall *c, int dim) {
    td_tensor *index = td__in(c, 2);
    int        rank = td__in(c, 3)->rank;
    int64_t    size[TD_MAX_RANK];
    for (int d = 0; d < rank; d++) size[d] = d == dim ? index->numel : 1;
    return td_op_expand_as(td_op_reshape(index, ints(size, rank)), td__in(c, 3));
}

bool td__decomp_index_reduce(td_opcall *c) {
    int dim = index_reduce_dim(c);
    return dim >= 0 &&
           give(c, td_op_scatter_reduce(td__in(c, 0), dim, element_index(c, dim),
                                        td__in(c, 3), c->in[4].u.s, td__in_bool(c, 5)));
}

/* May the entries of source be read while those of self are written? ATen compares one
 * of each, which may be dense where self and source have gaps. */
static bool entries_apart(td_opcall *c, int dim) {
    td_value   source = c->in[3];
    td_tensor *self = td__in(c, 0), *t = source.u.t;
    if (self->rank < 2 || td__dim_seems_eq(self->numel, 0) ||
        td__dim_seems_eq(t->numel, 0))
        return true;
    self = td_op_select(self, dim, 0);
    c->in[3] = td_value_tensor(td_op_select(t, dim, 0));
    bool apart = !td_is_nil(self) && !td_is_nil(td__in(c, 3)) &&
                 td__may_read_beside(c, 3, self, false);
    c->in[3] = source;
    return apart;
}

bool td__decomp_index_reduce_write(td_opcall *c) {
    int dim = index_reduce_dim(c);
    return dim >= 0 && entries_apart(c, dim) &&
           give(c,
                td_op_scatter_reduce_(td__in(c, 0), dim, element_index(c, dim),
                                      td__in(c, 3), c->in[4].u.s, td__in_bool(c, 5)));
}

/* ---- segment_reduce ----------------------------------------------------- */

/* The arguments of a segment_reduce, read and checked. */
typedef struct segments {
    td_tensor  *data, *offsets; /* offsets: one more than there are segments */
    int         axis;
    int64_t     count; /* segments */
    const char *how;   /* the reduce of scatter_reduce */
    bool        mean;
    double      identity;
    td_value    initial; /* given, or none */
} segments;

/* reduce: its name for scatter_reduce and its value for an empty segment. */
static bool read_reduce(td_opcall *c, segments *s) {
    static const struct {
        const char *name, *how;
        double      identity;
    } all[] = {{"sum", "sum", 0},
               {"mean", "sum", 0},
               {"prod", "prod", 1},
               {"max", "amax", -(double)INFINITY},
               {"min", "amin", (double)INFINITY}};
    for (int i = 0; i < TD_COUNT(all); i++)
        if (!strcmp(c->in[1].u.s, all[i].name)) {
            s->how = all[i].how;
            s->identity = all[i].identity;
            s->mean = i == 1;
            return true;
        }
    return td__op_fail(c, TD_E_ARG,
                       "reduce must be sum, mean, prod, max or min, got %.20s",
                       c->in[1].u.s);
}

/* in: data, reduce, lengths, indices, offsets, axis, unsafe, initial. */
static bool read_segments(td_opcall *c, segments *s) {
    td_tensor *data = td__in(c, 0), *runs = td__in(c, 4) ? td__in(c, 4) : td__in(c, 2);
    *s = (segments){.data = data, .initial = c->in[7]};
    if (!read_reduce(c, s)) return false;
    if (td__in(c, 3) || !runs)
        return td__op_fail(c, TD_E_UNSUPPORTED,
                           "unsupported: segments by indices; give lengths or offsets");
    if (data->rank == 0 || !td__is_float((td_dtype)data->dtype))
        return td__op_fail(c, TD_E_DTYPE,
                           "data must be floating point with at least one dim, got %s",
                           td__type_str(data));
    if ((s->axis = td__op_dim(c, td__in_int(c, 5), data->rank)) < 0 ||
        !td__index_dtype(c, runs, td__in(c, 4) ? "offsets" : "lengths", true))
        return false;
    bool fits = runs->rank == s->axis + 1;
    for (int d = 0; fits && d < s->axis; d++)
        fits = td__dim_eq(runs->size[d], data->size[d]);
    if (!fits)
        return td__op_fail(c, TD_E_SHAPE,
                           "the runs %s must have the sizes of data %s before dim %d, "
                           "and one more dim",
                           td__type_str(runs), td__type_str(data), s->axis);
    s->offsets = runs;
    if (!td__in(c, 4))
        s->offsets =
            td_op__segment_offsets(runs, data->size[s->axis], td__in_bool(c, 6));
    else /* fails for offsets that descend */
        td_op__expect_range(td_op_diff(runs, 1, s->axis), 0, INFINITY,
                            "the length of a segment");
    if (td_is_nil(s->offsets) || !td_ok(c->cx)) return false;
    s->count = td__dim_sub(s->offsets->size[s->axis], 1);
    return !td__dim_lt(s->count, 0) ||
           td__op_fail(c, TD_E_SHAPE, "offsets %s must have at least one entry",
                       td__type_str(runs));
}

/* t, which has the dims of data up to axis, with a dim of size 1 for each other. */
static td_tensor *beside_data(const segments *s, td_tensor *t) {
    for (int d = s->axis + 1; d < s->data->rank; d++) t = td_op_unsqueeze(t, -1);
    return t;
}

/* The group of each element: 0 before the first segment, from 1 on the segments, then
 * the elements behind the last. */
static td_tensor *groups(td_opcall *c, const segments *s) {
    int64_t    n = s->data->size[s->axis], size[TD_MAX_RANK];
    td_tensor *i =
        td_op_arange(c->cx, td_value_int(0), td_value_int(n), td_value_int(1), TD_I64);
    for (int d = 0; d < s->axis; d++) size[d] = s->data->size[d];
    size[s->axis] = n;
    i = td_op_expand(i, ints(size, s->axis + 1));
    i = td_op_searchsorted(s->offsets, td_value_tensor(i), false, true, "", NULL);
    return td_op_expand_as(beside_data(s, i), s->data);
}

/* Sums over how many entries each segment has. Without an initial value a mean of
 * nothing is NaN. */
static td_tensor *mean_of(const segments *s, td_tensor *sum) {
    td_tensor *n = beside_data(s, td_op_diff(s->offsets, 1, s->axis));
    if (s->initial.kind != TD_K_NONE) n = td_op_clamp_min(n, td_value_int(1));
    return t_div(sum, n);
}

bool td__decomp_segment_reduce(td_opcall *c) {
    segments s;
    int64_t  size[TD_MAX_RANK];
    if (!read_segments(c, &s)) return false;
    td_value start =
        s.initial.kind == TD_K_NONE ? td_value_float(s.identity) : s.initial;
    for (int d = 0; d < s.data->rank; d++)
        size[d] = d == s.axis ? td__dim_add(s.count, 2) : s.data->size[d];
    td_tensor *base =
        td_op_new_full(s.data, ints(size, s.data->rank), start, TD_DTYPE_NONE);
    td_tensor *all =
        td_op_scatter_reduce(base, s.axis, groups(c, &s), s.data, s.how, true);
    td_tensor *out = td_op_narrow(all, s.axis, 1, s.count);
    if (s.mean) out = mean_of(&s, out);
    return give(c, s.mean ? out : td_op_clone(out, true));
}
