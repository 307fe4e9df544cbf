/* lower.c -- decides how loops see each value of a graph. A view is its root with
 * other strides. A point is a value that a recipe computes element by element.
 * Everything else is called. Each point starts as a group of its own. */
#include "backend/native.h"

#include <string.h>

/* ---- views --------------------------------------------------------------- */

static bool is_tensor(const td_gval *v) {
    return v->type && v->type->kind == TD_K_TENSOR;
}

/* A composite such as reshape is a view if the trace saw it share storage. */
static int composite_view_operand(const td_gnode *n) {
    if (n->n_out != 1 || !is_tensor(n->out[0])) return -1;
    int32_t st = n->out[0]->type->storage;
    for (int k = 0; st >= 0 && k < n->n_in; k++)
        if (n->in[k].kind == TD_G_VALUE && is_tensor(n->in[k].u.v) &&
            n->in[k].u.v->type->storage == st)
            return k;
    return -1;
}

/* The operand whose storage the node's result shares: of views, of composites that may
 * be views, and of ops that may return their argument. -1: none. */
int td__view_operand(const td_gnode *n) {
    const td_opinfo *info = td__opinfo(n->op);
    if (n->kind != TD_N_OP || info->writes) return -1;
    if (td__row(n->op)->flags & TD_OPF_VIEW) return info->view_of;
    if (info->composite) return composite_view_operand(n);
    return td__row(n->op)->flags & TD_OPF_SHARE ? 0 : -1;
}

/* The root of each result: of a view, the root of the viewed value. */
static void find_roots(td_lowered *l, const td_gnode *n) {
    int            k = td__view_operand(n);
    const td_gval *of =
        k >= 0 && k < n->n_in && n->in[k].kind == TD_G_VALUE ? n->in[k].u.v : NULL;
    for (int i = 0; i < n->n_out; i++) {
        bool known = of && is_tensor(of) && is_tensor(n->out[i]);
        l->root_of[n->out[i]->id] = known ? l->root_of[of->id] : n->out[i];
    }
}

/* The offset of v relative to its root, in elements of v; TD_EXTENT_BAD: unknown. */
static td_extent offset_of(td_lowered *l, const td_gval *v, const td_gval *root) {
    td_extent a = td__extent_of(&l->products, l->g, v->type->offset);
    td_extent b = td__extent_of(&l->products, l->g, root->type->offset);
    if (td__extent_eq(a, b)) return td__extent(0);
    if (td__extent_is(b, 0)) return a;
    if (a.p == -1 && b.p == -1) return td__extent(a.c - b.c);
    return (td_extent){0, TD_EXTENT_BAD};
}

/* Are they equal as expressions? Sizes that only a guard makes equal count as
 * different. */
static bool same_size(td_lowered *l, int64_t a, int64_t b) {
    return a == b || td__extent_eq(td__extent_of(&l->products, l->g, a),
                                   td__extent_of(&l->products, l->g, b));
}

/* How loops over `space` read v: root tensor, offset, one stride per dim of the space
 * (0: broadcast). False if that cannot be expressed, for example if sizes are not known
 * to be equal. */
bool td__access_of(td_lowered *l, const td_gval *v, const td_gtype *space,
                   td_access *to) {
    const td_gtype *type = v->type;
    const td_gval  *root = l->root_of[v->id];
    int             skip = space->rank - (type ? type->rank : 0);
    if (!is_tensor(v) || !is_tensor(root) || skip < 0) return false;
    *to = (td_access){.root = root, .dtype = type->dtype};
    to->offset = root == v ? td__extent(0) : offset_of(l, v, root);
    if (to->offset.p == TD_EXTENT_BAD) return false;
    if (type->dtype != root->type->dtype && !td__extent_is(to->offset, 0)) return false;
    for (int d = 0; d < space->rank && d < TD_SPACE_DIMS; d++) {
        to->stride[d] = td__extent(0);
        if (d < skip || type->size[d - skip] == 1) continue;
        if (!same_size(l, type->size[d - skip], space->size[d])) return false;
        to->stride[d] = td__extent_of(&l->products, l->g, type->stride[d - skip]);
        if (to->stride[d].p == TD_EXTENT_BAD) return false;
    }
    return true;
}

/* ---- initial groups ------------------------------------------------------ */

/* Is stride a larger than b, so that its loop goes outside? */
static bool goes_outside(td_lowered *l, td_extent a, td_extent b) {
    if (td__extent_is(b, 0) || td__extent_is(a, 0)) return false;
    if (a.p == -1 && b.p == -1) return a.c > b.c;
    td_extent q = td__extent_div(&l->products, a, b);
    return q.p != TD_EXTENT_BAD && !td__extent_is(q, 1);
}

/* Orders the dims of a space by descending stride, without dims of size 1. Returns
 * their number. */
static int order_dims(td_lowered *l, const td_gtype *space, const td_access *by,
                      int *order) {
    int n = 0;
    for (int d = 0; d < space->rank; d++) {
        if (space->size[d] == 1) continue;
        int at = n++;
        for (; at > 0 && goes_outside(l, by->stride[d], by->stride[order[at - 1]]);
             at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    return n;
}

static void reorder(td_access *a, const int *order, int n) {
    td_access was = *a;
    for (int i = 0; i < n; i++) a->stride[i] = was.stride[order[i]];
}

/* A partial fold divides the dims into rows and inside; the inside is the part with
 * the smallest stride, whether it is folded or not. */
static void split_group(td_group *grp, const td_point *p) {
    uint32_t all = (1u << grp->n_dims) - 1;
    grp->split = p->reach == TD_FOLDS_SOME;
    if (!grp->split) return;
    bool inside = p->folded >> (grp->n_dims - 1) & 1;
    grp->outer = inside ? all & ~p->folded : p->folded;
}

/* Makes the group of point i alone, over `space`. False after td__fail. */
static bool make_group(td_lowered *l, int i, const td_gtype *space) {
    td_point *p = &l->point.v[i];
    td_group  grp = {.first = p->pos, .last = p->pos};
    int       order[TD_MAX_RANK];
    uint32_t  folded = p->folded;
    grp.n_dims = order_dims(l, space, p->reach ? &p->in[0] : &p->own, order);
    p->folded = 0;
    for (int d = 0; d < grp.n_dims; d++) {
        grp.size[d] = td__extent_of(&l->products, l->g, space->size[order[d]]);
        if (l->products.failed) return td__fail_memory(l->g->cx);
        if (grp.size[d].p == TD_EXTENT_BAD)
            return td__fail(l->g->cx, TD_E_UNSUPPORTED,
                            "@%.60s: unsupported by native code: a symbolic size that "
                            "is a product of more than 6 symbols. Set backend=interp",
                            l->g->name);
        if (folded >> order[d] & 1) p->folded |= 1u << d;
    }
    reorder(&p->own, order, grp.n_dims);
    for (int k = 0; k < p->n_in; k++) reorder(&p->in[k], order, grp.n_dims);
    uint32_t all = (1u << grp.n_dims) - 1;
    if (p->folded == 0) p->reach = TD_FOLDS_NOT; /* dims of size 1 */
    else if (p->folded == all) p->reach = TD_FOLDS_ALL;
    split_group(&grp, p);
    p->level = p->reach == TD_FOLDS_NOT   ? TD_AT_POINT
               : p->reach == TD_FOLDS_ALL ? TD_AT_ONCE
               : grp.outer == p->folded   ? TD_AT_END
                                          : TD_AT_ROW;
    p->group = l->group.n;
    if (td__vec_push(&grp.member, i) && td__vec_push(&l->group, grp)) return true;
    td__vec_free(&grp.member);
    return td__fail_memory(l->g->cx);
}

/* ---- points -------------------------------------------------------------- */

/* The space of a point: the sizes of its result, or of the tensor it folds or pads. */
static const td_gtype *space_of(const td_point *p) {
    return p->reach || p->tail ? p->v->node->in[0].u.v->type : p->v->type;
}

/* A point that reads nothing and is not random; its readers compute it themselves. */
static bool is_leaf(const td_point *p) {
    if (td__row(p->v->node->op)->flags & TD_OPF_RANDOM) return false;
    for (int k = 0; k < p->n_in; k++)
        if (p->in[k].root) return false;
    return true;
}

/* Adds a point for the node if it has a recipe. False after td__fail. */
static bool add_point(td_lowered *l, const td_gnode *n, int pos) {
    const td_gval *v = n->out[0];
    td_point       p = {.v = v, .pos = pos, .group = -1};
    bool small = n->n_out == 1 && is_tensor(v) && v->type->rank <= TD_SPACE_DIMS;
    bool last = n->op == TD_OP_copy_ && v->n_uses == 0;
    if (!small || td__view_operand(n) >= 0 || (td__opinfo(n->op)->writes && !last))
        return true;
    p.writes = p.stored = last;
    if (!td__recipe(l, &p)) return td_ok(l->g->cx);
    p.leaf = is_leaf(&p);
    l->point_of[v->id] = l->point.n;
    return td__vec_push(&l->point, p) || td__fail_memory(l->g->cx);
}

/* ---- values needed as tensors -------------------------------------------- */

static void need(void *env, td_gval *v) { ((td_lowered *)env)->needed[v->id] = true; }

/* Values that calls read, and outputs; a view needs its root. */
static void find_needs(td_lowered *l) {
    td_graph *g = l->g;
    for (int i = 0; i < g->outputs.n; i++) td__garg_each(&g->outputs.v[i], need, l);
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        td_gnode *n = g->nodes.v[i];
        bool      wanted = n->kind == TD_N_OP && td__view_operand(n) < 0;
        if (wanted && n->n_out == 1 && l->point_of[n->out[0]->id] >= 0) continue;
        for (int k = 0; k < n->n_out; k++) wanted |= l->needed[n->out[k]->id];
        for (int k = 0; wanted && k < n->n_in; k++) td__garg_each(&n->in[k], need, l);
    }
}

/* A constant that is viewed as another dtype must be in memory: it is no leaf. */
static void find_cast_leaves(td_lowered *l) {
    for (int i = 0; i < l->point.n; i++)
        for (int k = 0; k < l->point.v[i].n_in; k++) {
            const td_access *a = &l->point.v[i].in[k];
            int              p = a->root ? l->point_of[a->root->id] : -1;
            if (p >= 0 && a->dtype != a->root->type->dtype) l->point.v[p].leaf = false;
        }
}

/* Allocates the arrays. False: out of memory. */
static bool make_arrays(td_lowered *l) {
    size_t n = (size_t)l->g->n_values + 1;
    l->point_of = td__arena_alloc(&l->arena, sizeof *l->point_of * n);
    l->root_of = td__arena_zalloc(&l->arena, sizeof *l->root_of * n);
    l->needed = td__arena_zalloc(&l->arena, sizeof *l->needed * n);
    l->bytes_of = td__arena_alloc(&l->arena, sizeof *l->bytes_of * n);
    if (!l->point_of || !l->root_of || !l->needed || !l->bytes_of) return false;
    for (size_t i = 0; i < n; i++) l->point_of[i] = -1;
    for (size_t i = 0; i < n; i++) l->bytes_of[i] = (int)i;
    return true;
}

/* Each input is its own root. Inputs that share a storage share bytes_of: a write to
 * one changes all. False: out of memory. */
static bool find_inputs(td_lowered *l) {
    td_graph *g = l->g;
    int *first = td__arena_alloc(&l->arena, sizeof(int) * (size_t)(g->n_storages + 1));
    if (!first) return false;
    for (int i = 0; i < g->n_storages; i++) first[i] = -1;
    for (int i = 0; i < g->inputs.n; i++) {
        td_gval *v = g->inputs.v[i];
        int32_t  st = is_tensor(v) ? v->type->storage : -1;
        l->root_of[v->id] = v;
        if (st < 0 || st >= g->n_storages) continue;
        if (first[st] < 0) first[st] = v->id;
        l->bytes_of[v->id] = first[st];
    }
    return true;
}

/* Finds for each node whether loops can compute it and how they access its operands,
 * and makes one group per such node; fuse.c merges groups afterwards. */
bool td__lower(td_lowered *l, td_graph *g) {
    l->g = g;
    if (!td__graph_index(g) || !make_arrays(l) || !find_inputs(l))
        return td__fail_memory(g->cx);
    for (int i = 0; i < g->nodes.n; i++) {
        find_roots(l, g->nodes.v[i]);
        if (g->nodes.v[i]->kind == TD_N_OP && !add_point(l, g->nodes.v[i], i))
            return false;
    }
    find_needs(l);
    find_cast_leaves(l);
    for (int i = 0; i < l->point.n; i++) {
        td_point *p = &l->point.v[i];
        if (p->leaf && !l->needed[p->v->id]) continue;
        if (!make_group(l, i, space_of(p))) return false;
    }
    return !l->products.failed || td__fail_memory(g->cx);
}

void td__lowered_free(td_lowered *l) {
    for (int i = 0; i < l->group.n; i++) td__vec_free(&l->group.v[i].member);
    td__vec_free(&l->group);
    td__vec_free(&l->point);
    td__vec_free(&l->products.v);
    td__arena_free(&l->arena);
}
