/* gcopy.c -- copies of values, which passes add to graphs. */
#include "graph/graph_int.h"

static bool has_symbols(const td_gtype *l) {
    return td__dims_any_sym(l->size, l->rank) || td__dims_any_sym(l->stride, l->rank);
}

/* Would a clone, whose strides are `stride`, have another layout than l? */
static bool is_moved(const td_gtype *l, const int64_t *stride) {
    bool moved = l->offset != 0;
    for (int d = 0; d < l->rank; d++) moved |= l->stride[d] != stride[d];
    return moved;
}

/* td__strides_like cannot compare symbolic sizes of a graph: with symbols, only a
 * row-major value is known to have the same strides in a clone. */
td_gnode *td__graph_copy(td_graph *g, td_gval *v) {
    td_garg  in[2] = {td__garg_value(v), td__garg_value(v)};
    td_gtype l = *v->type;
    int64_t  stride[TD_MAX_RANK];
    bool     symbolic = has_symbols(&l), exact;
    if (symbolic) exact = !l.dense || l.offset != 0;
    else {
        td__strides_like(l.rank, l.size, l.stride, stride);
        exact = !l.of && is_moved(&l, stride);
    }
    td_gnode *n = exact ? td__graph_op(g, TD_OP_copy, in, 2, 1)
                        : td__graph_op(g, TD_OP_clone, in, 1, 1);
    if (!n) return NULL;
    if (!exact) {
        l.stride = symbolic ? NULL : stride;
        l.offset = 0;
    }
    l.storage = g->n_storages++;
    n->out[0]->type = td__graph_type_of(g, l);
    return n->out[0]->type ? n : NULL;
}
