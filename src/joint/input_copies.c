/* input_copies.c -- copies of inputs that the call writes. The graph reads the copy, so
 * that backward gets the value that was read and not the one written after it. A copy
 * has the strides and the offset of its input, so that all views and results keep the
 * types they were traced with. Copies that are not needed are removed. */
#include "joint/joint_int.h"

static bool writes(const td_gnode *n) { return td__opinfo(n->op)->writes; }

/* ---- types -------------------------------------------------------------- */

static bool same_type(const td_gtype *a, const td_gtype *b) {
    return a && b && a->kind == TD_K_TENSOR && a->dtype == b->dtype &&
           td__sizes_identical(&a->geom, &b->geom) &&
           td__dims_identical(a->stride, b->stride, a->rank);
}

/* ---- copies of inputs --------------------------------------------------- */

bool td__joint_is_input_copy(const td_gnode *n) {
    bool copies = n->op == TD_OP_clone || n->op == TD_OP_copy;
    return copies && n->tags == TD_TAG(TD_MUST_SAVE, 0);
}

static td_gval *copy_of(void *env, td_gval *v) {
    td_gval *t = ((td_gval **)env)[v->id];
    return t ? t : v;
}

/* Do elements overlap, as those of an expanded tensor do? */
static bool overlaps(const td_gtype *l) {
    for (int d = 0; d < l->rank; d++)
        if (l->stride[d] == 0 && l->size[d] != 1) return true;
    return false;
}

/* Adds a copy of the elements of v, which must be saved and not recomputed: in backward
 * the input has other elements. */
static td_gval *add_copy(td_graph *g, td_gval *v) {
    td_gnode *n = td__graph_copy(g, v);
    if (!n) return NULL;
    n->tags = TD_TAG(TD_MUST_SAVE, 0);
    return n->out[0];
}

static bool is_written(const td_joint *j, const td_gval *v) {
    return v->nr < j->n_primals && j->primals[v->nr].written && v->type;
}

/* ---- copies of storages ------------------------------------------------- */

/* Does as_strided_scatter n copy the whole storage of its first argument? It makes a
 * dense copy where elements of that overlap, and addresses the copy. */
static bool copies_storage(const td_gnode *n) {
    return n->op == TD_OP_as_strided_scatter && n->in[0].kind == TD_G_VALUE &&
           !overlaps(n->in[0].u.v->type);
}

/* A value whose storage as_strided_scatter copies is addressed with the result. */
const td_gval *td__joint_addressed(const td_gnode *n) {
    bool     places = td__row(n->op)->flags & TD_OPF_PLACES;
    td_gval *v = places && n->in[0].kind == TD_G_VALUE ? n->in[0].u.v : NULL;
    if (!v || (n->op == TD_OP_as_strided_scatter && !copies_storage(n))) return NULL;
    v = td__joint_root(v);
    while (v->node && copies_storage(v->node)) v = td__joint_root(v->node->in[0].u.v);
    return v;
}

/* The elements of that storage that n addresses, as a geometry. */
static td_geom addressed(const td_gnode *n) {
    td_geom at = n->out[0]->type->geom;
    if (n->op != TD_OP_as_strided_scatter) return at;
    at.rank = (uint8_t)n->in[2].n;
    at.size = n->in[2].u.ints;
    at.stride = n->in[3].u.ints;
    if (n->n_in > 4 && n->in[4].kind == TD_G_INT) at.offset = n->in[4].u.i;
    return at;
}

/* The dtype with the smallest elements in which the graph reads the storage of v: the
 * storage has a whole number of them, which need not hold for larger ones. */
static td_dtype finest_dtype(const td_graph *g, const td_gval *v) {
    td_dtype dt = v->type->dtype;
    for (int i = 0; i < g->nodes.n; i++) {
        if (td__joint_addressed(g->nodes.v[i]) != v) continue;
        td_dtype as = g->nodes.v[i]->out[0]->type->dtype;
        if (td__dtype_bytes[as] < td__dtype_bytes[dt]) dt = as == TD_BOOL ? TD_U8 : as;
    }
    return dt;
}

int64_t td__joint_extent(td_graph *of, const td_geom *g) {
    int64_t end = td__gdim_make(of, TD_DIM_ADD, g->offset, 1);
    for (int d = 0; d < g->rank; d++) {
        if (g->size[d] == 0) return 0;
        int64_t steps = td__gdim_make(of, TD_DIM_SUB, g->size[d], 1);
        steps = td__gdim_make(of, TD_DIM_MUL, steps, g->stride[d]);
        end = td__gdim_make(of, TD_DIM_ADD, end, steps);
    }
    return end;
}

/* How many elements of `item` bytes, at most those of g, the storage must have to
 * contain the elements of g; a dim of `of`, like the sizes of g. */
static int64_t elements_to(td_graph *of, const td_geom *g, int64_t item) {
    int64_t end = td__joint_extent(of, g);
    int64_t fit = td__dtype_bytes[g->dtype] / item;
    return fit == 1 ? end : td__gdim_make(of, TD_DIM_MUL, end, fit);
}

/* How many elements of dtype dt of v's storage a copy needs, if the graph addresses the
 * storage or elements of v overlap. 0: a copy of v alone suffices. */
static int64_t storage_needed(td_graph *g, const td_gval *v, td_dtype dt) {
    int64_t item = td__dtype_bytes[dt], end = 0;
    if (overlaps(v->type)) end = elements_to(g, &v->type->geom, item);
    for (int i = 0; i < g->nodes.n; i++) {
        if (td__joint_addressed(g->nodes.v[i]) != v) continue;
        td_geom at = addressed(g->nodes.v[i]);
        int64_t to = elements_to(g, &at, item);
        if (end == 0) end = elements_to(g, &v->type->geom, item);
        if (to != end) end = td__gdim_make(g, TD_DIM_MAX, end, to);
    }
    return end;
}

/* The first n elements, of dtype dt, of the storage of v, as a 1-d view. */
static td_gval *list_of(td_graph *g, td_gval *v, td_dtype dt, int64_t n) {
    td_gtype list = {.kind = TD_K_TENSOR, .dtype = dt, .rank = 1};
    list.device = v->type->device;
    list.size = &n;
    return td__joint_view(g, v, list);
}

/* The list read as another dtype; n is its number of elements in that dtype. */
static td_gval *list_as(td_graph *g, td_gval *list, td_dtype dt, int64_t n) {
    td_gtype l = {.kind = TD_K_TENSOR, .dtype = dt, .rank = 1};
    td_garg  in[2] = {td__garg_value(list), td__garg_dtype(dt)};
    l.size = &n;
    l.device = list->type->device;
    l.storage = list->type->storage;
    td_gnode *as = td__graph_op(g, TD_OP_view_dtype, in, 2, 1);
    return as && (as->out[0]->type = td__graph_type_of(g, l)) ? as->out[0] : NULL;
}

/* v over a copy of its storage, of which n elements of dtype dt are copied as a list.
 * If v has larger elements, the storage is read as dt through its first element. */
static td_gval *copy_storage(td_graph *g, td_gval *v, td_dtype dt, int64_t n) {
    td_dtype own = v->type->dtype;
    int64_t  one = !td__gtype_is_empty(v->type);
    int64_t  fit = one * td__dtype_bytes[own] / td__dtype_bytes[dt];
    td_gval *from = v;
    if (dt != own && (from = list_of(g, v, own, one))) from = list_as(g, from, dt, fit);
    td_gval *all = from ? list_of(g, from, dt, n) : NULL;
    td_gval *copy = all ? add_copy(g, all) : NULL;
    if (dt != own && copy && (copy = list_of(g, copy, dt, fit)))
        copy = list_as(g, copy, own, one);
    return copy ? td__joint_view(g, copy, *v->type) : NULL;
}

/* ---- inner tensors ------------------------------------------------------ */

/* The written input that v is an inner tensor of, at any depth; NULL: none. */
static const td_gval *written_whole(const td_joint *j, const td_gval *v) {
    const td_gval *u = v;
    while (u->node && u->node->op == TD_OP__inner && u->node->in[0].kind == TD_G_VALUE)
        u = u->node->in[0].u.v;
    return u != v && !u->node && is_written(j, u) ? u : NULL;
}

/* Takes the inner tensor v of an input out of it, by _inner nodes. */
static td_gval *take_inner(td_graph *g, td_gval *v) {
    if (!v->node) return v;
    td_garg in[2] = {td__garg_value(take_inner(g, v->node->in[0].u.v)), v->node->in[1]};
    td_gnode *n = in[0].u.v ? td__graph_op(g, TD_OP__inner, in, 2, 1) : NULL;
    if (n) n->out[0]->type = v->type;
    return n ? n->out[0] : NULL;
}

/* Reads a written input of a type through copies of its inner tensors. An inner tensor
 * whose storage the graph addresses is read through a copy of that storage. */
static bool copy_inner(td_joint *j, int n_nodes, td_gval **copies) {
    td_graph *g = j->g;
    bool      ok = true;
    for (int i = 0; ok && i < n_nodes; i++) {
        td_gval *v = g->nodes.v[i]->n_out ? g->nodes.v[i]->out[0] : NULL;
        if (!v || !v->type || v->type->of || !written_whole(j, v)) continue;
        td_dtype dt = finest_dtype(g, v);
        int64_t  n = storage_needed(g, v, dt);
        if (!td__dim_is_sym(n) && n <= 0) continue;
        td_gval *own = take_inner(g, v);
        ok = own && (copies[v->id] = copy_storage(g, own, dt, n));
    }
    return ok;
}

/* ---- all inputs --------------------------------------------------------- */

/* Replaces each copied input by its copy in all readers; nodes that write the input
 * stay unchanged. The copies, nodes from n on, move to the front. */
static bool read_copies(td_graph *g, int n, td_gval **copies) {
    for (int i = 0; i < n; i++) {
        td_gnode *node = g->nodes.v[i];
        for (int k = writes(node) ? 1 : 0; k < node->n_in; k++)
            td__garg_map(&node->in[k], copy_of, copies);
    }
    for (int i = 0; i < g->outputs.n; i++)
        td__garg_map(&g->outputs.v[i], copy_of, copies);
    return td__joint_move_nodes(g, n, 0);
}

/* Inputs that the call writes are read through copies, because the epilogue writes them
 * before backward runs. */
bool td__joint_copy_inputs(td_joint *j) {
    td_graph *g = j->g;
    int       first = g->nodes.n;
    td_gval **copies = td__zalloc(sizeof *copies * ((size_t)g->n_values + 1));
    bool      ok = copies || td__fail_memory(j->cx);
    for (int i = 0; ok && i < g->inputs.n; i++) {
        td_gval *v = g->inputs.v[i];
        if (!is_written(j, v)) continue;
        td_dtype dt = finest_dtype(g, v);
        int64_t  n = storage_needed(g, v, dt);
        bool     plain = !td__dim_is_sym(n) && n <= 0;
        copies[v->id] = plain ? add_copy(g, v) : copy_storage(g, v, dt, n);
        ok = copies[v->id] != NULL;
    }
    ok = ok && copy_inner(j, first, copies);
    ok = ok && (g->nodes.n == first || read_copies(g, first, copies));
    td__free((void *)copies);
    return ok;
}

/* ---- copies that are not needed ----------------------------------------- */

/* Are there only readers of v that do not depend on its offset, unlike views and a
 * tensor of a type that v is an inner tensor of, whose views are views of v? */
static bool has_free_offset(const td_gval *v) {
    for (const td_guse *u = v->uses; u; u = u->next) {
        const td_gnode *n = u->node;
        if (n && (td__opinfo(n->op)->view_of >= 0 || n->op == TD_OP__wrap ||
                  td__row(n->op)->flags & TD_OPF_EXACT))
            return false;
    }
    return true;
}

/* A clone of a value that is never written can be replaced by that value. Copies of
 * inputs stay; td__half_drop_input_copies removes those that are not saved. Copies
 * without elements stay, too: resize_ of a result reads the rest of its storage. */
static bool is_needless(const td_gnode *n) {
    if (n->op != TD_OP_clone || n->tags || n->in[0].kind != TD_G_VALUE) return false;
    if (n->out[0]->type && td__gtype_is_empty(n->out[0]->type)) return false;
    const td_gval *v = n->in[0].u.v;
    bool           input = !td__joint_root(n->in[0].u.v)->node;
    if (!input && td__joint_is_input_copy(v->node)) v = v->node->in[0].u.v;
    if (input || !same_type(v->type, n->out[0]->type)) return false;
    return v->type->offset == n->out[0]->type->offset || has_free_offset(n->out[0]);
}

/* Removes copies whose source is not written and already has the layout. */
bool td__joint_drop_copies(td_joint *j) {
    td_graph *g = j->g;
    if (!td__graph_index(g)) return false;
    for (int i = 0; i < g->nodes.n; i++) {
        td_gnode *n = g->nodes.v[i];
        if (is_needless(n)) td__graph_replace(g, n->out[0], n->in[0].u.v);
    }
    return td__graph_dce(g);
}

/* ---- writes ------------------------------------------------------------- */

/* Does v keep its elements while other inputs are written? */
static bool stays(const td_joint *j, td_gval *v) {
    const td_gval *root = td__joint_root(v);
    if (root->node) return !td__joint_is_input_copy(root->node);
    for (int i = 0; i < j->n_primals; i++) {
        const td_gtype *l = j->g->inputs.v[i]->type;
        if (j->primals[i].written &&
            (!l || !root->type || l->storage == root->type->storage))
            return false;
    }
    return true;
}

static bool same_sizes(const td_gtype *a, const td_gtype *b) {
    return a && b && a->dtype == b->dtype && td__sizes_identical(&a->geom, &b->geom);
}

/* Writes the value itself to an input, instead of a copy in the input's layout. */
bool td__joint_write_plain(td_joint *j) {
    td_graph *g = j->g;
    for (int i = g->nodes.n - 1; i >= 0 && writes(g->nodes.v[i]); i--) {
        td_garg *from = &g->nodes.v[i]->in[1];
        while (g->nodes.v[i]->op == TD_OP_copy_ && from->kind == TD_G_VALUE) {
            const td_gnode *n = from->u.v->node;
            if (!n || n->op != TD_OP_copy || n->in[1].kind != TD_G_VALUE) break;
            td_gval *v = n->in[1].u.v;
            if (!same_sizes(v->type, from->u.v->type) || !stays(j, v)) break;
            from->u.v = v;
        }
    }
    return td__graph_dce(g);
}

/* ---- after the partition ------------------------------------------------ */

/* Marks the values whose storages v has: its own, or those of its inner tensors. */
static void mark_roots(td_gval *v, bool *used) {
    const td_gnode *n = v->node;
    if (n && n->op == TD_OP__wrap) {
        for (uint32_t i = 0; i < n->in[0].n; i++)
            mark_roots(n->in[0].u.list[i].u.v, used);
        return;
    }
    v = td__joint_root(v);
    used[v->id] = true;
    if (v->node && v->node->op == TD_OP__inner) mark_roots(v->node->in[0].u.v, used);
}

/* Removes copies of inputs that the forward half does not return, whole or as inner
 * tensors, and does not save for backward. A copy whose strides differ from its input's
 * stays: its views were traced with them. */
bool td__half_drop_input_copies(td_graph *g) {
    bool *used = td__zalloc((size_t)g->n_values + 1);
    if (!used) return td__fail_memory(g->cx);
    for (int i = 0; i < g->outputs.n; i++)
        if (g->outputs.v[i].kind == TD_G_VALUE) mark_roots(g->outputs.v[i].u.v, used);
    bool ok = td__graph_index(g);
    for (int i = 0; ok && i < g->nodes.n; i++) {
        td_gnode *n = g->nodes.v[i];
        if (!td__joint_is_input_copy(n)) continue;
        td_gval *from = n->in[0].u.v, *to = n->out[0];
        if (used[to->id] || !same_type(from->type, to->type)) continue;
        td__graph_replace(g, to, from);
    }
    td__free(used);
    return ok && td__graph_dce(g) && td__graph_fix_storages(g);
}
