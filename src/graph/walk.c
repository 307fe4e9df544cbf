/* walk.c -- basic operations on graphs: use lists, removing dead nodes,
 * replacing a value. */
#include "graph/graph_int.h"

void td__garg_each(const td_garg *a, void (*fn)(void *env, td_gval *v), void *env) {
    if (a->kind == TD_G_VALUE) fn(env, a->u.v);
    if (a->kind != TD_G_LIST) return;
    for (uint32_t i = 0; i < a->n; i++) td__garg_each(&a->u.list[i], fn, env);
}

/* Lists are in the graph's arena and may be changed; the const in td_garg is
 * for other readers. */
void td__garg_map(td_garg *a, td_gval *(*fn)(void *env, td_gval *v), void *env) {
    if (a->kind == TD_G_VALUE) a->u.v = fn(env, a->u.v);
    if (a->kind != TD_G_LIST) return;
    for (uint32_t i = 0; i < a->n; i++)
        td__garg_map((td_garg *)(uintptr_t)&a->u.list[i], fn, env);
}

/* ---- use lists ---------------------------------------------------------- */

/* State of td__graph_index: the node whose reads are added. */
typedef struct reader {
    td_graph *g;
    td_gnode *node;
    bool      failed;
} reader;

/* Records that r->node (NULL: the outputs) reads v. Uses are a list per value in the
 * arena. */
static void add_use(void *env, td_gval *v) {
    reader  *r = env;
    td_guse *u = td__arena_alloc(&r->g->arena, sizeof *u);
    if (!u) {
        r->failed = true;
        return;
    }
    *u = (td_guse){r->node, v->uses};
    v->uses = u;
    v->n_uses++;
}

static void forget_uses(td_gval *v) {
    v->uses = NULL;
    v->n_uses = 0;
}

/* Goes backwards, so that each use list is in the order of the nodes. */
bool td__graph_index(td_graph *g) {
    reader r = {.g = g};
    for (int i = 0; i < g->inputs.n; i++) forget_uses(g->inputs.v[i]);
    for (int i = 0; i < g->nodes.n; i++) {
        td_gnode *n = g->nodes.v[i];
        n->id = i;
        for (int k = 0; k < n->n_out; k++) forget_uses(n->out[k]);
    }
    for (int i = g->outputs.n - 1; i >= 0; i--)
        td__garg_each(&g->outputs.v[i], add_use, &r);
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        r.node = g->nodes.v[i];
        for (int k = r.node->n_in - 1; k >= 0 && !r.node->dead; k--)
            td__garg_each(&r.node->in[k], add_use, &r);
    }
    return !r.failed || td__fail_memory(g->cx);
}

/* ---- packing ------------------------------------------------------------ */

/* Removes dead nodes and renumbers values and nodes densely, in order. Arrays indexed
 * by an id are invalid afterwards. */
void td__graph_pack(td_graph *g) {
    int n = 0;
    g->n_values = 0;
    for (int i = 0; i < g->inputs.n; i++) {
        g->inputs.v[i]->nr = i;
        g->inputs.v[i]->id = g->n_values++;
    }
    for (int i = 0; i < g->nodes.n; i++) {
        td_gnode *node = g->nodes.v[i];
        if (node->dead) continue;
        for (int k = 0; k < node->n_out; k++) node->out[k]->id = g->n_values++;
        node->id = n;
        g->nodes.v[n++] = node;
    }
    g->nodes.n = n;
}

/* ---- replacing ---------------------------------------------------------- */

typedef struct swap {
    td_gval *from, *to;
} swap;

static td_gval *swapped(void *env, td_gval *v) {
    const swap *s = env;
    return v == s->from ? s->to : v;
}

/* Every reader of `from` reads `to` instead. Needs the use lists (td__graph_index),
 * which it keeps correct: the list of `from` is prepended to that of `to`. */
void td__graph_replace(td_graph *g, td_gval *from, td_gval *to) {
    swap      s = {from, to};
    td_guse **last = &from->uses;
    if (from == to) return;
    for (; *last; last = &(*last)->next) {
        td_gnode *n = (*last)->node;
        for (int k = 0; n && k < n->n_in; k++) td__garg_map(&n->in[k], swapped, &s);
        for (int k = 0; !n && k < g->outputs.n; k++)
            td__garg_map(&g->outputs.v[k], swapped, &s);
    }
    *last = to->uses;
    to->uses = from->uses;
    to->n_uses += from->n_uses;
    forget_uses(from);
}

int td__graph_results(const td_graph *g) {
    int n = g->outputs.n;
    while (n > 0 && g->out_desc.v[n - 1].kind == TD_D_OWN_GRAD) n--;
    return n;
}

/* ---- literals ----------------------------------------------------------- */

/* An argument for a value; false for tensors, which are values of a graph or
 * constants. */
bool td__garg_of(const td_value *v, td_garg *a) {
    *a = (td_garg){0};
    switch ((td_kind)v->kind) {
    case TD_K_NONE: return true;
    case TD_K_INT: *a = td__garg_int(v->u.i); return true;
    case TD_K_INTS: *a = td__garg_ints(v->u.ints, (int)v->n); return true;
    case TD_K_DTYPE: *a = td__garg_dtype(v->u.dt); return true;
    case TD_K_FLOAT:
        a->kind = TD_G_FLOAT;
        a->u.f = v->u.f;
        return true;
    case TD_K_BOOL:
        a->kind = TD_G_BOOL;
        a->u.i = v->u.i;
        return true;
    case TD_K_STR:
        a->kind = TD_G_STR;
        a->u.s = v->u.s;
        return true;
    case TD_K_GRAPH:
        a->kind = TD_G_GRAPH;
        a->u.g = v->u.g;
        return true;
    case TD_K_TENSOR:
    case TD_K_TENSORS: break;
    }
    return false;
}

/* The reverse of td__garg_of for arguments without values; false for the others. Lists
 * are borrowed. */
bool td__garg_literal(const td_garg *a, td_value *v) {
    *v = TD_NONE;
    switch ((td_gkind)a->kind) {
    case TD_G_NONE: return true;
    case TD_G_INT: *v = td_value_int(a->u.i); return true;
    case TD_G_FLOAT: *v = td_value_float(a->u.f); return true;
    case TD_G_BOOL: *v = td_value_bool(a->u.i != 0); return true;
    case TD_G_DTYPE: *v = td__value_dtype(a->u.dt); return true;
    case TD_G_STR: *v = td__value_str(a->u.s); return true;
    case TD_G_INTS: *v = td__value_ints((td_ints){a->u.ints, (int)a->n}); return true;
    case TD_G_VALUE:
    case TD_G_SYM:
    case TD_G_LIST:
    case TD_G_GRAPH: break;
    }
    return false;
}
