/* clone.c -- copies of graphs: whole ones, or appended to the nodes of another graph. A
 * copy shares the tensors of consts and the nested graphs with the original; passes may
 * change a nested graph only if its meaning stays the same. */
#include "graph/graph_int.h"

/* A copy in progress. */
typedef struct copy {
    const td_graph *from;
    td_graph       *to;
    td_gval       **twin;     /* by value id in `from`: its copy */
    int64_t        *dim;      /* by entry of from's dims: the same size in `to` */
    int32_t         storages; /* numbers of from's storages count from here */
} copy;

static int64_t own_dim(const copy *c, int64_t dim) {
    const td_gdim *d = td__gdim_at(c->from, dim);
    return d ? c->dim[d - c->from->dims.v] : dim;
}

/* Translates the sizes of `from` to entries of `to`: symbols of one name are one
 * symbol. */
static bool copy_dims(copy *c) {
    const td_graph *from = c->from;
    c->dim =
        td__arena_alloc(&c->to->arena, sizeof *c->dim * ((size_t)from->dims.n + 1));
    if (!c->dim) return td__fail_memory(c->to->cx);
    for (int i = 0; i < from->dims.n; i++) { /* operands come first */
        const td_gdim *d = &from->dims.v[i];
        c->dim[i] = d->op == TD_GDIM_SYMBOL
                        ? td__gdim_symbol(c->to, d->letter, d->nr)
                        : td__gdim_make(c->to, (td_dim_op)d->op, own_dim(c, d->a),
                                        own_dim(c, d->b));
        if (c->dim[i] == TD_DIM_HUGE) return false;
    }
    for (int i = 0; i < from->facts.n; i++) {
        td_gfact f = from->facts.v[i];
        f.a = own_dim(c, f.a);
        f.b = own_dim(c, f.b);
        if (!td__vec_push(&c->to->facts, f)) return td__fail_memory(c->to->cx);
    }
    return true;
}

static const td_gtype *own_type(copy *c, const td_gtype *l);

/* The inner types of a typed tensor, in terms of the target graph. */
static const td_gtyped *own_inner(copy *c, const td_gtyped *of) {
    size_t     n = (size_t)of->n;
    td_gtyped *to = td__arena_alloc(&c->to->arena, sizeof *to + sizeof(td_gtype *) * n);
    if (!to) return td__fail_memory(c->to->cx), NULL;
    *to = *of;
    for (int i = 0; i < of->n; i++)
        if (!(to->inner[i] = own_type(c, of->inner[i]))) return NULL;
    return to;
}

/* The type in terms of the target graph: storage numbers shifted past its own, sizes
 * translated to its expressions. */
static const td_gtype *own_type(copy *c, const td_gtype *l) {
    td_gtype own = *l;
    int64_t  size[TD_MAX_RANK], stride[TD_MAX_RANK];
    if (own.storage >= 0) own.storage += c->storages;
    if (c->from->dims.n) {
        if (TD_UNLIKELY(l->of) && !(own.of = own_inner(c, l->of))) return NULL;
        for (int d = 0; d < l->rank; d++) {
            size[d] = own_dim(c, l->size[d]);
            stride[d] = own_dim(c, l->stride[d]);
        }
        own.offset = own_dim(c, l->offset);
        own.size = size;
        own.stride = stride;
    }
    return td__graph_type_of(c->to, own);
}

static bool copy_value(copy *c, const td_gval *v, td_gval *to) {
    c->twin[v->id] = to;
    if (!to) return false;
    if (v->type && !(to->type = own_type(c, v->type))) return false;
    return !v->name || (to->name = td__graph_str(c->to, v->name)) != NULL;
}

/* Copies inputs with their descriptors, then consts, of which a reference is added. */
static bool copy_inputs(copy *c) {
    for (int i = 0; i < c->from->inputs.n; i++) {
        const td_gval *v = c->from->inputs.v[i];
        if (!copy_value(c, v,
                        td__graph_input(c->to, NULL, NULL, c->from->in_desc.v[i])))
            return false;
    }
    for (int i = 0; i < c->from->consts.n; i++) {
        if (!td__vec_push(&c->to->consts, c->from->consts.v[i]))
            return td__fail_memory(c->to->cx);
        td__ref(c->from->consts.v[i]);
    }
    return td__graph_note_as(c->to, c->from);
}

/* Translates an argument that td__graph_op copied: values, sizes, and nested graphs,
 * which a graph owns. */
static bool own_arg(copy *c, td_garg *a) {
    if (a->kind == TD_G_VALUE) a->u.v = c->twin[a->u.v->id];
    else if (a->kind == TD_G_SYM) a->u.i = own_dim(c, a->u.i);
    else if (a->kind == TD_G_INTS && c->from->dims.n) {
        int64_t *ints = (int64_t *)(uintptr_t)a->u.ints;
        for (uint32_t i = 0; i < a->n; i++) ints[i] = own_dim(c, ints[i]);
    } else if (a->kind == TD_G_GRAPH) {
        td__graph_keep(a->u.g);
        return td__graph_own(c->to, a->u.g);
    }
    for (uint32_t i = 0; a->kind == TD_G_LIST && i < a->n; i++)
        if (!own_arg(c, (td_garg *)(uintptr_t)&a->u.list[i])) return false;
    return true;
}

/* Copies op, arguments, results, origin, tags, source line and scope. Arguments point
 * to the old values until own_arg translates them. */
static bool copy_node(copy *c, const td_gnode *n) {
    if (n->kind == TD_N_ENTER) return td__graph_enter(c->to, (td_gregion)n->region);
    if (n->kind == TD_N_LEAVE) return td__graph_leave(c->to);
    td_gnode *m = td__graph_op(c->to, n->op, n->in, n->n_in, n->n_out);
    if (!m) return false;
    for (int i = 0; i < m->n_in; i++)
        if (!own_arg(c, &m->in[i])) return false;
    for (int i = 0; i < n->n_out; i++)
        if (!copy_value(c, n->out[i], m->out[i])) return false;
    m->origin = n->origin;
    m->tags = n->tags;
    m->here = n->here;
    m->stack = n->stack;
    return !n->scope || (m->scope = td__graph_str(c->to, n->scope)) != NULL;
}

/* Sizes first, because types refer to them; dead nodes are not copied. */
static bool copy_all(copy *c) {
    bool ok = copy_dims(c) && copy_inputs(c);
    for (int i = 0; ok && i < c->from->nodes.n; i++)
        ok = c->from->nodes.v[i]->dead || copy_node(c, c->from->nodes.v[i]);
    for (int i = 0; ok && i < c->from->outputs.n; i++)
        ok = td__graph_output(c->to, c->from->outputs.v[i], c->from->out_desc.v[i]) &&
             own_arg(c, &c->to->outputs.v[i]);
    c->to->n_storages = c->from->n_storages;
    c->to->left = c->from->left;
    return ok;
}

bool td__graph_note_as(td_graph *to, const td_graph *from) {
    for (int k = 0; k < TD_NOTED; k++) {
        to->noted[k].n = 0;
        for (int i = 0; i < from->noted[k].n; i++)
            if (!td__vec_push(&to->noted[k], from->noted[k].v[i]))
                return td__fail_memory(to->cx);
    }
    return true;
}

td_graph *td__graph_clone(const td_graph *g) {
    copy c = {.from = g, .to = td__graph_make(g->cx, g->name)};
    c.twin = td__zalloc(sizeof *c.twin * ((size_t)g->n_values + 1));
    bool ok = c.to && (c.twin || td__fail_memory(g->cx)) && copy_all(&c);
    td__free(c.twin);
    if (ok) return c.to;
    td__graph_drop(c.to);
    return NULL;
}

/* Appends the nodes of g to `to`. twin[id] maps values of g to values of `to`; inputs
 * that are mapped already are not added. `each` may return another node to be used in
 * place of the copy, which is then removed (for merging equal nodes). */
bool td__graph_append(td_graph *to, const td_graph *g, td_gval **twin,
                      td_append_fn *each, void *env) {
    copy c = {.from = g, .to = to, .twin = twin, .storages = to->n_storages};
    bool ok = copy_dims(&c);
    to->n_storages += g->n_storages;
    for (int i = 0; ok && i < g->inputs.n; i++) {
        const td_gval *v = g->inputs.v[i];
        ok = twin[v->id] ||
             copy_value(&c, v, td__graph_input(to, NULL, NULL, g->in_desc.v[i]));
    }
    for (int i = 0; ok && i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->dead) continue;
        ok = copy_node(&c, n);
        td_gnode *now = ok ? to->nodes.v[to->nodes.n - 1] : NULL, *is = NULL;
        if (!ok || !(is = each(env, n, now)) || is == now) continue;
        to->nodes.n--;
        for (int k = 0; k < n->n_out; k++) twin[n->out[k]->id] = is->out[k];
    }
    return ok;
}
