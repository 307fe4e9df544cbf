/* passes.c -- passes over every joint graph before it is partitioned: clean-up, and
 * copies that give each returned value a storage of its own. */
#include "joint/joint_int.h"

/* The value whose storage v shares: the end of a chain of views. */
td_gval *td__joint_root(td_gval *v) {
    while (v->node) {
        const td_gnode  *n = v->node;
        const td_opinfo *info = td__opinfo(n->op);
        int              at = info->view_of >= 0                     ? info->view_of
                              : td__row(n->op)->flags & TD_OPF_SHARE ? 0
                                                                     : -1;
        if (at < 0 || n->in[at].kind != TD_G_VALUE) break;
        v = n->in[at].u.v;
    }
    return v;
}

/* ---- outputs with their own storage ------------------------------------- */

bool td__gtype_is_packed(const td_gtype *l) {
    bool symbolic =
        td__dims_any_sym(l->size, l->rank) || td__dims_any_sym(l->stride, l->rank);
    return symbolic ? l->dense : td__is_packed(l->rank, l->size, l->stride);
}

/* A copy of v with the given strides and offset 0, in a storage of its own. */
static td_gval *copy_with(td_graph *g, td_gval *v, const int64_t *stride) {
    td_gnode *n;
    if (v->type->of || (stride == v->type->stride && td__gtype_is_packed(v->type))) {
        td_garg in = td__garg_value(v);
        n = td__graph_op(g, TD_OP_clone, &in, 1, 1);
    } else {
        td_garg   shape[3] = {td__garg_ints(v->type->size, v->type->rank),
                              td__garg_ints(stride, v->type->rank),
                              td__garg_dtype((td_dtype)v->type->dtype)};
        td_gnode *empty = td__graph_op(g, TD_OP_empty_strided, shape, 3, 1);
        if (!empty) return NULL;
        td_garg in[2] = {td__garg_value(empty->out[0]), td__garg_value(v)};
        n = td__graph_op(g, TD_OP_copy, in, 2, 1);
    }
    if (!n) return NULL;
    td_gtype l = *v->type;
    l.stride = stride;
    l.storage = g->n_storages++;
    l.offset = 0;
    n->out[0]->type = td__graph_type_of(g, l);
    return n->out[0]->type ? n->out[0] : NULL;
}

td_gval *td__joint_view(td_graph *g, td_gval *v, td_gtype l) {
    l.storage = v->type->storage;
    const td_gtype *to = td__graph_type_of(g, l);
    if (!to) return NULL;
    td_garg in[4] = {td__garg_value(v), td__garg_ints(to->size, to->rank),
                     td__garg_ints(to->stride, to->rank), td__garg_int(to->offset)};
    if (td__dim_is_sym(to->offset)) in[3].kind = TD_G_SYM;
    td_gnode *n = td__graph_op(g, TD_OP_as_strided, in, 4, 1);
    if (n) n->out[0]->type = to;
    return n ? n->out[0] : NULL;
}

/* A copy with the sizes, strides and offset of `geom`. */
static td_gval *copy_at(td_graph *g, td_gval *v, const td_geom *geom) {
    int64_t       end = td__joint_extent(g, geom);
    const int64_t one = 1;
    /* A size that depends on values can be 0. */
    if (td__dim_is_sym(end)) end = td__gdim_make(g, TD_DIM_MAX, end, 0);
    td_gtype  l = {.kind = TD_K_TENSOR, .dtype = v->type->dtype, .rank = 1};
    td_garg   shape[3] = {td__garg_ints(&end, 1), td__garg_ints(&one, 1),
                          td__garg_dtype((td_dtype)l.dtype)};
    td_gnode *empty = td__graph_op(g, TD_OP_empty_strided, shape, 3, 1);
    l.device = v->type->device;
    l.storage = g->n_storages++;
    l.size = &end;
    if (!empty || !(empty->out[0]->type = td__graph_type_of(g, l))) return NULL;
    l = *v->type;
    l.grad = false;
    l.stride = geom->stride;
    l.offset = geom->offset;
    td_gval *part = td__joint_view(g, empty->out[0], l);
    if (!part) return NULL;
    td_garg   in[2] = {td__garg_value(part), td__garg_value(v)};
    td_gnode *n = td__graph_op(g, TD_OP_copy, in, 2, 1);
    l.storage = g->n_storages++;
    return n && (n->out[0]->type = td__graph_type_of(g, l)) ? n->out[0] : NULL;
}

bool td__joint_move_nodes(td_graph *g, int first, int to) {
    size_t     moved = sizeof *g->nodes.v * (size_t)(g->nodes.n - first);
    td_gnode **own = td__alloc(moved + 1);
    if (!own) return td__fail_memory(g->cx);
    memcpy((void *)own, g->nodes.v + first, moved);
    memmove(g->nodes.v + to + (g->nodes.n - first), g->nodes.v + to,
            sizeof *g->nodes.v * (size_t)(first - to));
    memcpy(g->nodes.v + to, own, moved);
    td__free((void *)own);
    return true;
}

/* Moves the nodes from `first` on to before the writes at the end of the graph, which
 * would change the elements they read. */
static bool move_up(td_graph *g, int first) {
    int to = first;
    while (to > 0 && td__opinfo(g->nodes.v[to - 1]->op)->writes) to--;
    return td__joint_move_nodes(g, first, to);
}

/* Has the value eager's strides and offset? The epilogue makes views of it by them. */
static bool same_layout(const td_gtype *l, const td_geom *g) {
    bool same = true, empty = false;
    for (int d = 0; d < g->rank; d++) {
        empty |= l->size[d] == 0;
        same &= l->size[d] == 1 || l->stride[d] == g->stride[d];
    }
    return l->offset == g->offset && (same || empty);
}

/* Claims the storages of the tensors that v consists of: its own, or those of its inner
 * tensors. False: an output has one of them already, or an input. */
static bool take_storages(const td_gval *v, bool *taken) {
    const td_gnode *n = v->node;
    bool            free = true;
    if (n && n->op == TD_OP__wrap) {
        for (uint32_t i = 0; i < n->in[0].n; i++)
            free &= take_storages(n->in[0].u.list[i].u.v, taken);
        return free;
    }
    const td_gval *root = td__joint_root((td_gval *)(uintptr_t)v);
    free = root->node && root->node->op != TD_OP__inner && !taken[root->id];
    taken[root->id] = true;
    return free;
}

/* Gives forward output `out` a copy of its value, if another output or an input shares
 * its storage, the epilogue writes it, or its layout is not eager's. */
static bool separate_output(td_joint *j, int out, const td_geom *geom, bool *taken) {
    td_garg *a = &j->g->outputs.v[out];
    bool     alone = j->fwd[out].written;
    if (a->kind != TD_G_VALUE) return true;
    const td_gtype *l = a->u.v->type;
    bool            like = !l || l->rank != geom->rank || same_layout(l, geom);
    if (like && !alone && take_storages(a->u.v, taken)) return true;
    bool     late = l && l->rank == geom->rank && geom->offset != 0;
    td_gval *copy = late ? copy_at(j->g, a->u.v, geom)
                         : copy_with(j->g, a->u.v, like ? l->stride : geom->stride);
    if (copy) a->u.v = copy;
    return copy != NULL;
}

/* Do elements overlap in memory? Then a copy has other strides. */
static bool repeats(const td_geom *g) {
    bool repeats = false, empty = false;
    for (int d = 0; d < g->rank; d++) {
        repeats |= g->stride[d] == 0 && g->size[d] > 1;
        empty |= g->size[d] == 0;
    }
    return repeats && !empty;
}

/* Separates all outputs that become tensors. The other outputs are only read, and
 * inputs that the epilogue writes are read through copies (input_copies.c). */
static bool separate_all(td_joint *j, bool *taken) {
    for (int last = 0; last < 2; last++) /* outputs that cannot be copied first */
        for (int i = 0; i < j->n_fwd; i++) {
            const td_geom *g = &j->fwd[i].geom;
            if (!j->fwd[i].made || repeats(g) == (last == 1)) continue;
            if (!separate_output(j, i, g, taken)) return false;
        }
    return true;
}

/* Outputs that share a storage but must be tensors of their own (or the same value
 * twice) get copies, placed just after the value. */
bool td__joint_separate(td_joint *j) {
    td_graph *g = j->g;
    int       first = g->nodes.n;
    bool     *taken = td__zalloc((size_t)g->n_values + 1);
    bool      ok = taken || td__fail_memory(j->cx);
    ok = ok && separate_all(j, taken);
    td__free(taken);
    return ok && (g->nodes.n == first || move_up(g, first)) && td__graph_index(g);
}

/* ---- storages ----------------------------------------------------------- */

/* Sets the storage number of v to that of its base, which a pass may have replaced. */
static bool follow(td_graph *g, td_gval *v, int32_t storage) {
    if (!v->type || v->type->storage == storage) return true;
    td_gtype l = *v->type;
    l.storage = storage;
    return (v->type = td__graph_type_of(g, l)) != NULL;
}

/* After values were replaced: results of view ops get the storage number of the tensor
 * they view. */
bool td__graph_fix_storages(td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        td_gnode *n = g->nodes.v[i];
        int       at = td__opinfo(n->op)->view_of;
        if (at < 0 || n->in[at].kind != TD_G_VALUE || !n->in[at].u.v->type) continue;
        for (int k = 0; k < n->n_out; k++)
            if (!follow(g, n->out[k], n->in[at].u.v->type->storage)) return false;
    }
    return true;
}

/* ---- clean-up ----------------------------------------------------------- */

bool td__joint_tidy(td_joint *j, bool cse) {
    return td__graph_dce(j->g) && (!cse || td__graph_cse(j->g)) &&
           td__graph_views(j->g);
}

bool td__joint_clean(td_joint *j, bool cse) {
    return td__joint_tidy(j, cse) && td__joint_copy_inputs(j) &&
           td__joint_drop_copies(j) && td__joint_write_plain(j) &&
           td__joint_separate(j) && td__graph_fix_storages(j->g);
}
