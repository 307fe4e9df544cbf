/* views.c -- shortens chains of view ops. A view with the geometry of an
 * earlier value of its chain becomes that value; a reshape of a reshape, a
 * permutation of a permutation and an expand of an expand become one op. Uses
 * types. Nodes in regions and detached values end a chain, because they have
 * another history. A view that is returned or written stays a tensor of its
 * own. */
#include "graph/graph_int.h"

/* State of the pass. */
typedef struct viewing {
    td_graph  *g;
    td_arena   scratch;
    td_effects e;
    td_gval  **now;  /* by value id: its replacement; NULL: itself */
    bool      *free; /* by node id: outside of regions */
} viewing;

static td_gval *current(void *env, td_gval *v) {
    viewing *w = env;
    return w->now[v->id] ? w->now[v->id] : v;
}

/* The value that n is a view of, if n may be part of a chain; else NULL. */
static td_gval *viewed(const viewing *w, const td_gnode *n) {
    if (!n || n->kind != TD_N_OP || !w->free[n->id] || n->n_out != 1) return NULL;
    int      at = td__opinfo(n->op)->view_of;
    uint32_t flags = td__row(n->op)->flags;
    if (at != 0 || n->n_in < 1 || n->in[0].kind != TD_G_VALUE) return NULL;
    if (flags & (TD_OPF_DETACH | TD_OPF_MULTI) || td__opinfo(n->op)->writes ||
        td__row(n->op)->view == TD_VIEW_LATE)
        return NULL;
    td_gval *v = n->in[0].u.v;
    if (w->e.moved[v->id] || w->e.moved[n->out[0]->id]) return NULL;
    return td__gtype_is_concrete(v->type) && td__gtype_is_concrete(n->out[0]->type)
               ? v
               : NULL;
}

/* ---- views equal to an earlier value ------------------------------------ */

/* Replaces n by an earlier value of its chain with the same geometry. *done: it did. */
static bool find_same(viewing *w, td_gnode *n, bool *done) {
    td_gval *from = viewed(w, n);
    while (from && !td__geom_identical(&from->type->geom, &n->out[0]->type->geom))
        from = viewed(w, from->node);
    if (!from) return true;
    int id = n->out[0]->id;
    *done = true;
    if (w->e.returned[id] || w->e.written[id]) {
        td_garg in = td__garg_value(from);
        return td__graph_become(w->g, n, TD_OP_alias, &in, 1);
    }
    w->now[id] = from;
    n->dead = true;
    return true;
}

/* ---- reshapes of reshapes ----------------------------------------------- */

static bool is_kind(const td_gnode *n, td_view_kind kind) {
    return td__op_view_kind(n->op) == kind;
}

/* view(view(x)) becomes one view, if the strides come out the same. */
static bool join_sizes(viewing *w, td_gnode *n, bool *done) {
    const td_gnode *first = n->in[0].u.v->node;
    const td_gtype *l = n->out[0]->type;
    td_gval        *root = viewed(w, first);
    int64_t         stride[TD_MAX_RANK];
    if (!root || !is_kind(n, TD_VIEW_RESHAPE) || !is_kind(first, TD_VIEW_RESHAPE))
        return true;
    if (td__numel(root->type->rank, root->type->size) != td__numel(l->rank, l->size))
        return true;
    if (!td__view_strides(root->type->rank, root->type->size, root->type->stride,
                          l->rank, l->size, stride) ||
        memcmp(stride, l->stride, sizeof *stride * l->rank))
        return true;
    td_garg in[2] = {td__garg_value(root), td__garg_ints(l->size, l->rank)};
    *done = true;
    return td__graph_become(w->g, n, TD_OP_view, in, 2);
}

/* ---- permutations and expands ------------------------------------------- */

/* A dim counted from the front, -1: there is none. */
static int64_t wrapped(int64_t d, int rank) { return td__wrap_dim(d, rank); }

/* The permutation of a node: dim d of the result is dim dims[d] of the
 * argument. False: it is no permutation, or its arguments are not known. */
static bool dims_of(const td_gnode *n, int64_t *dims) {
    int rank = n->out[0]->type->rank;
    if (!is_kind(n, TD_VIEW_PERMUTE)) return false;
    if (n->n_in == 1) {
        for (int d = 0; d < rank; d++) dims[d] = rank - 1 - d;
        return true;
    }
    for (int d = 0; d < rank; d++) dims[d] = d;
    if (n->n_in == 2 && n->in[1].kind == TD_G_INTS) {
        if (n->in[1].n != (uint32_t)rank) return false;
        for (int d = 0; d < rank; d++)
            if ((dims[d] = wrapped(n->in[1].u.ints[d], rank)) < 0) return false;
        return true;
    }
    if (n->n_in != 3 || n->in[1].kind != TD_G_INT || n->in[2].kind != TD_G_INT ||
        rank == 0)
        return false;
    int64_t a = wrapped(n->in[1].u.i, rank), b = wrapped(n->in[2].u.i, rank);
    if (a < 0 || b < 0) return false;
    dims[a] = b, dims[b] = a;
    return true;
}

/* Composes two permutations into one permute. */
static bool join_dims(viewing *w, td_gnode *n, bool *done) {
    const td_gnode *first = n->in[0].u.v->node;
    td_gval        *root = viewed(w, first);
    int64_t         outer[TD_MAX_RANK], inner[TD_MAX_RANK], both[TD_MAX_RANK];
    int             rank = n->out[0]->type->rank;
    if (!root || root->type->rank != rank || first->out[0]->type->rank != rank)
        return true;
    if (!dims_of(n, outer) || !dims_of(first, inner)) return true;
    for (int d = 0; d < rank; d++) both[d] = inner[outer[d]];
    td_garg in[2] = {td__garg_value(root), td__garg_ints(both, rank)};
    *done = true;
    return td__graph_become(w->g, n, TD_OP_permute, in, 2);
}

/* expand of an expand is one expand of the first tensor. */
static bool join_expands(viewing *w, td_gnode *n, bool *done) {
    const td_gnode *first = n->in[0].u.v->node;
    td_gval        *root = viewed(w, first);
    const td_gtype *l = n->out[0]->type;
    if (!root || !is_kind(n, TD_VIEW_EXPAND) || !is_kind(first, TD_VIEW_EXPAND))
        return true;
    td_garg in[2] = {td__garg_value(root), td__garg_ints(l->size, l->rank)};
    *done = true;
    return td__graph_become(w->g, n, TD_OP_expand, in, 2);
}

/* ---- the walk ----------------------------------------------------------- */

static bool shorten(viewing *w, td_gnode *n) {
    bool done = false;
    if (!viewed(w, n)) return true;
    return find_same(w, n, &done) && (done || join_sizes(w, n, &done)) &&
           (done || join_dims(w, n, &done)) && (done || join_expands(w, n, &done));
}

/* One pass in order: arguments are replaced by shorter views found so far, then the
 * node itself is shortened. Views inside a grad-mode region stay, because their
 * creation mode is observable. */
bool td__graph_views(td_graph *g) {
    viewing w = {.g = g};
    int     open = 0;
    td__graph_pack(g);
    w.now = td__pass_alloc(g, &w.scratch, (size_t)g->n_values, sizeof *w.now);
    w.free = td__pass_alloc(g, &w.scratch, (size_t)g->nodes.n, sizeof *w.free);
    bool ok = w.now && w.free && td__effects_make(&w.e, g, &w.scratch);
    for (int i = 0; ok && i < g->nodes.n; i++) {
        td_gnode *n = g->nodes.v[i];
        open += n->kind == TD_N_ENTER ? 1 : n->kind == TD_N_LEAVE ? -1 : 0;
        w.free[n->id] = open == 0;
        for (int k = 0; k < n->n_in; k++) td__garg_map(&n->in[k], current, &w);
        ok = shorten(&w, n);
    }
    for (int i = 0; ok && i < g->outputs.n; i++)
        td__garg_map(&g->outputs.v[i], current, &w);
    if (ok) td__graph_pack(g);
    td__arena_free(&w.scratch);
    return ok;
}
