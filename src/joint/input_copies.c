/* input_copies.c -- copies of inputs that the call writes. The graph reads the copy, so
 * that backward gets the value that was read and not the one written after it. Copies
 * that are not needed are removed. */
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

static bool has_symbols(const td_gtype *l) {
    return td__dims_any_sym(l->size, l->rank) || td__dims_any_sym(l->stride, l->rank);
}

/* Would a clone have another layout than the value, so that views of it do not have the
 * strides they were traced with? Then `copy` is used, which keeps strides and offset,
 * unless elements overlap. `stride` is the clone's. */
static bool is_moved(const td_gtype *l, const int64_t *stride) {
    bool moved = l->offset != 0;
    for (int d = 0; d < l->rank; d++) {
        if (l->size[d] > 1 && l->stride[d] == 0) return false;
        moved |= l->stride[d] != stride[d];
    }
    return moved;
}

/* Do elements overlap, as those of an expanded tensor do? A copy has another layout
 * then. */
static bool overlaps(const td_gtype *l) {
    for (int d = 0; d < l->rank; d++)
        if (l->stride[d] == 0 && l->size[d] != 1) return true;
    return false;
}

/* The copy through which a written input is read. `exact` copies keep strides and
 * offset; others are clones with the strides that clone gives. It must be saved, not
 * recomputed: by backward the input has other elements. */
static td_gval *add_clone(td_graph *g, td_gval *v) {
    td_garg  in[2] = {td__garg_value(v), td__garg_value(v)};
    td_gtype l = *v->type;
    int64_t  stride[TD_MAX_RANK];
    bool     symbolic = has_symbols(&l), exact;
    if (g->dims.n > 0 && overlaps(&l))
        return td__fail(g->cx, TD_E_UNSUPPORTED,
                        "@%.60s: unsupported: input %%%s is written and its elements "
                        "overlap, while sizes are symbolic; pass a clone",
                        g->name, v->name ? v->name : "?"),
               NULL;
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
    n->tags = TD_TAG(TD_MUST_SAVE, 0);
    return n->out[0]->type ? n->out[0] : NULL;
}

static bool is_written(const td_joint *j, const td_gval *v) {
    return v->nr < j->n_primals && j->primals[v->nr].written && v->type;
}

/* Does the node read the storage of a written input beyond the input's own elements? A
 * copy of the input would not have them, so the node's result is copied. */
static bool reads_beyond(const td_joint *j, const td_gnode *n) {
    if (n->op != TD_OP_as_strided || n->in[0].kind != TD_G_VALUE) return false;
    const td_gval *v = n->in[0].u.v;
    return !v->node && is_written(j, v) && n->out[0]->type;
}

/* Does the node need the strides and offset of the written input itself? Its result is
 * a copy in any case. */
static bool needs_layout(const td_joint *j, const td_gnode *n) {
    bool exact = td__row(n->op)->flags & TD_OPF_EXACT && n->in[0].kind == TD_G_VALUE;
    const td_gnode *from = exact ? n->in[0].u.v->node : NULL;
    if (from && reads_beyond(j, from)) return overlaps(n->in[0].u.v->type);
    if (!exact || from || !is_written(j, n->in[0].u.v)) return false;
    return n->op == TD_OP_as_strided_scatter ||
           !td__gtype_is_packed(n->in[0].u.v->type);
}

/* A node that needs the layout reads the input itself: an alias of it will be an alias
 * of the copy. */
static void skip_aliases(const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        td_gnode *n = g->nodes.v[i];
        if (!(td__row(n->op)->flags & TD_OPF_EXACT)) continue;
        td_garg *a = &n->in[0];
        while (a->kind == TD_G_VALUE && a->u.v->node && a->u.v->node->op == TD_OP_alias)
            *a = a->u.v->node->in[0];
    }
}

/* The argument of n that must have the strides it was traced with: as_strided counts
 * from the start of the storage, and results of others get the strides. NULL: none. */
static td_garg *exact_arg(td_gnode *n) {
    bool exact = td__row(n->op)->flags & TD_OPF_EXACT ||
                 (n->op == TD_OP_as_strided && n->in[3].kind == TD_G_INT);
    return exact && n->in[0].kind == TD_G_VALUE ? &n->in[0] : NULL;
}

/* The elements of v over the storage of `root`, by as_strided; NULL after td__fail. */
static td_gval *strided_view(td_graph *g, td_gval *root, const td_gtype *l) {
    td_garg in[4] = {td__garg_value(root),
                     td__garg_ints(l->size, l->rank),
                     td__garg_ints(l->stride, l->rank),
                     {.kind = TD_G_INT}};
    in[3].u.i = l->offset;
    td_gnode *n = td__graph_op(g, TD_OP_as_strided, in, 4, 1);
    if (n) n->out[0]->type = l;
    return n ? n->out[0] : NULL;
}

/* The copy of an input whose elements overlap has another layout, and so have views of
 * the copy. A view that must have the strides it was traced with is taken over the
 * input itself, by as_strided, and copied with these strides. */
static bool view_inputs(const td_joint *j) {
    td_graph *g = j->g;
    for (int i = 0, n = g->nodes.n; i < n; i++) {
        td_gnode *node = g->nodes.v[i];
        td_garg  *a = exact_arg(node);
        td_gval  *root = a ? td__joint_root(a->u.v) : NULL;
        if (!root || root == a->u.v || root->node || !is_written(j, root)) continue;
        const td_gtype *l = a->u.v->type;
        if (!l || l->dtype != root->type->dtype || !overlaps(root->type)) continue;
        if (g->dims.n > 0) continue; /* add_clone refuses it */
        td_gval *v = node->op == TD_OP_as_strided ? root : strided_view(g, root, l);
        if (!v) return false;
        a->u.v = v;
    }
    return true;
}

/* Moves the nodes that read beyond their input, and then the copies from `first` on, to
 * the front. */
static bool move_front(const td_joint *j, int first) {
    td_graph  *g = j->g;
    int        n = g->nodes.n, at = 0;
    td_gnode **all = td__alloc(sizeof *all * (size_t)(n + 1));
    if (!all) return td__fail_memory(g->cx);
    for (int i = 0; i < first; i++)
        if (reads_beyond(j, g->nodes.v[i])) all[at++] = g->nodes.v[i];
    for (int i = first; i < n; i++) all[at++] = g->nodes.v[i];
    for (int i = 0; i < first; i++)
        if (!reads_beyond(j, g->nodes.v[i])) all[at++] = g->nodes.v[i];
    memcpy(g->nodes.v, all, sizeof *all * (size_t)n);
    td__free(all);
    return true;
}

/* All readers of a copied value read the copy instead, except nodes that need the
 * storage itself (writes, ops that need its layout). */
static void read_copies(const td_joint *j, int n, td_gval **copies) {
    td_graph *g = j->g;
    for (int i = 0; i < n; i++) {
        td_gnode *node = g->nodes.v[i];
        if (reads_beyond(j, node)) continue;
        for (int k = writes(node) || needs_layout(j, node) ? 1 : 0; k < node->n_in; k++)
            td__garg_map(&node->in[k], copy_of, copies);
    }
    for (int i = 0; i < g->outputs.n; i++)
        td__garg_map(&g->outputs.v[i], copy_of, copies);
}

/* One copy for each written input, and for each view that reads beyond its input. */
static bool add_clones(td_joint *j, int first, td_gval **copies) {
    td_graph *g = j->g;
    for (int i = 0; i < g->inputs.n; i++) {
        td_gval *v = g->inputs.v[i];
        if (is_written(j, v) && !(copies[v->id] = add_clone(g, v))) return false;
    }
    for (int i = 0; i < first; i++) {
        td_gnode *n = g->nodes.v[i];
        if (reads_beyond(j, n) && !(copies[n->out[0]->id] = add_clone(g, n->out[0])))
            return false;
    }
    return true;
}

/* ---- copies with another layout ----------------------------------------- */

/* Elements of an expanded input overlap; those of its copy do not. */
static bool has_other_layout(const td_gnode *n) {
    return td__joint_is_input_copy(n) &&
           !same_type(n->in[0].u.v->type, n->out[0]->type);
}

/* A view of the input may have to be a copy of the input's copy. */
static void copy_views(const td_joint *j) {
    for (int i = 0; i < j->g->nodes.n; i++) {
        td_gnode *n = j->g->nodes.v[i];
        if (n->op != TD_OP_view || n->in[0].kind != TD_G_VALUE) continue;
        const td_gval *root = td__joint_root(n->in[0].u.v);
        if (root->node && has_other_layout(root->node)) n->op = TD_OP__reshape_copy;
    }
}

/* Views of such a copy, and results whose layout follows it, have other types than
 * were traced. With symbolic sizes types are not inferred again; add_clone has refused
 * the input there. */
static bool infer_again(td_joint *j) {
    bool some = false;
    for (int i = 0; i < j->g->nodes.n; i++) some |= has_other_layout(j->g->nodes.v[i]);
    return !some || j->g->dims.n > 0 || td__graph_infer(j->g);
}

/* Inputs that the call writes are read through clones, because the epilogue writes them
 * before backward runs. Types of views of the clones are recomputed afterwards. */
bool td__joint_copy_inputs(td_joint *j) {
    td_graph *g = j->g;
    if (!view_inputs(j)) return false;
    int       first = g->nodes.n;
    size_t    n = 2 * (size_t)g->n_values + (size_t)j->n_primals + 1;
    td_gval **copies = td__zalloc(sizeof *copies * n);
    bool      ok = copies ? add_clones(j, first, copies) : td__fail_memory(j->cx);
    if (ok && g->nodes.n > first) {
        skip_aliases(g);
        read_copies(j, first, copies);
        copy_views(j);
        ok = move_front(j, first) && infer_again(j);
    }
    td__free((void *)copies);
    return ok;
}

/* ---- copies that are not needed ----------------------------------------- */

/* Does no reader of v depend on its offset, as views do? */
static bool has_free_offset(const td_gval *v) {
    for (const td_guse *u = v->uses; u; u = u->next) {
        const td_gnode *n = u->node;
        if (n &&
            (td__opinfo(n->op)->view_of >= 0 || td__row(n->op)->flags & TD_OPF_EXACT))
            return false;
    }
    return true;
}

/* A clone of a value that is never written can be replaced by that value. Copies of
 * inputs stay; td__half_drop_input_copies removes those that are not saved. */
static bool is_needless(const td_gnode *n) {
    if (n->op != TD_OP_clone || n->tags || n->in[0].kind != TD_G_VALUE) return false;
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

/* Is v unchanged after the writes of other inputs? */
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

/* An input gets the value itself, not a copy laid out as the input is. */
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

/* ---- after the cut ------------------------------------------------------ */

/* Removes copies of inputs that the forward half does not save for backward. A copy
 * whose strides differ from its input's stays: its views were traced with them. */
bool td__half_drop_input_copies(td_graph *g) {
    bool *used = td__zalloc((size_t)g->n_values + 1);
    if (!used) return td__fail_memory(g->cx);
    for (int i = 0; i < g->outputs.n; i++)
        if (g->outputs.v[i].kind == TD_G_VALUE)
            used[td__joint_root(g->outputs.v[i].u.v)->id] = true;
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
