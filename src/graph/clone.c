/* clone.c -- a copy of a graph that shares nothing with it but constants. */
#include "core/stack.h"
#include "graph/graph_int.h"

typedef struct copy {
    const td_graph *from;
    td_graph       *to;
    td_gval       **twin; /* by id in from */
} copy;

static bool same_dims(copy *c) {
    for (int i = 0; i < c->from->dims.n; i++) {
        const td_gdim *d = &c->from->dims.v[i];
        int64_t        got = d->op == TD_GDIM_SYMBOL
                                 ? td__gdim_symbol(c->to, d->letter, d->nr)
                                 : td__gdim_make(c->to, (td_dim_op)d->op, d->a, d->b);
        if (got == TD_DIM_HUGE) return false;
    }
    for (int i = 0; i < c->from->facts.n; i++) /* the same order gives the same tags */
        if (!td__vec_push(&c->to->facts, c->from->facts.v[i]))
            return td__fail_memory(c->to->cx);
    return true;
}

static bool copy_value(copy *c, const td_gval *v, td_gval *to) {
    c->twin[v->id] = to;
    if (!to) return false;
    if (v->look && !(to->look = td__graph_look_of(c->to, *v->look))) return false;
    return !v->name || (to->name = td__graph_str(c->to, v->name)) != NULL;
}

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
    for (int i = 0; i < c->from->bare.n; i++)
        if (!td__vec_push(&c->to->bare, c->from->bare.v[i]))
            return td__fail_memory(c->to->cx);
    for (int i = 0; i < c->from->wanted.n; i++)
        if (!td__vec_push(&c->to->wanted, c->from->wanted.v[i]))
            return td__fail_memory(c->to->cx);
    return true;
}

static td_gval *twin_of(void *env, td_gval *v) { return ((copy *)env)->twin[v->id]; }

/* Reads of the copy, and nested graphs, which a graph owns. */
static bool own_arg(copy *c, td_garg *a) {
    td__garg_map(a, twin_of, c);
    if (a->kind == TD_G_GRAPH) {
        if (!td__stack_holds(c->to->cx, "a nested graph")) return false;
        if (!(a->u.g = td__graph_clone(a->u.g))) return false;
        return td__graph_own(c->to, a->u.g);
    }
    for (uint32_t i = 0; a->kind == TD_G_LIST && i < a->n; i++)
        if (a->u.list[i].kind == TD_G_GRAPH &&
            !own_arg(c, (td_garg *)(uintptr_t)&a->u.list[i]))
            return false;
    return true;
}

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
    return !n->scope || (m->scope = td__graph_str(c->to, n->scope)) != NULL;
}

static bool copy_all(copy *c) {
    bool ok = same_dims(c) && copy_inputs(c);
    for (int i = 0; ok && i < c->from->nodes.n; i++)
        ok = c->from->nodes.v[i]->dead || copy_node(c, c->from->nodes.v[i]);
    for (int i = 0; ok && i < c->from->outputs.n; i++)
        ok = td__graph_output(c->to, c->from->outputs.v[i], c->from->out_desc.v[i]) &&
             own_arg(c, &c->to->outputs.v[i]);
    c->to->n_storages = c->from->n_storages;
    c->to->left = c->from->left;
    return ok;
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
