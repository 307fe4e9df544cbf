/* order.c -- a canonical order of nodes, which depends on what a graph computes
 * and not on how it was written: the order in which a depth-first walk from
 * effects and then outputs first needs them; unneeded nodes come last. Effects,
 * region edges and nodes that set a symbolic size stay in place and nothing
 * crosses them. */
#include "graph/graph_int.h"

#include <stdlib.h>

/* A node on the stack of the walk. */
typedef struct visit {
    td_gnode *node;
    int       arg, item; /* the next argument, and list entry, to visit */
} visit;

typedef struct ranked {
    int32_t   rank;
    td_gnode *node;
} ranked;

typedef struct ordering {
    td_graph *g;
    int32_t  *rank;     /* by node id: position; 0: not visited; -1: on the stack */
    int32_t   next;     /* last position assigned */
    TD_VEC(visit) todo; /* the stack */
    bool failed;
} ordering;

static void push(ordering *o, td_gnode *n) {
    if (!n || o->rank[n->id] || n->dead) return;
    o->rank[n->id] = -1;
    if (!td__vec_push(&o->todo, ((visit){n, 0, 0}))) o->failed = true;
}

/* The next node that v's node reads, NULL: none is left. */
static td_gnode *next_read(visit *v) {
    for (; v->arg < v->node->n_in; v->arg++, v->item = 0) {
        const td_garg *a = &v->node->in[v->arg];
        uint32_t       n = a->kind == TD_G_LIST ? a->n : 1;
        while ((uint32_t)v->item < n) {
            const td_garg *e = a->kind == TD_G_LIST ? &a->u.list[v->item] : a;
            v->item++;
            if (e->kind == TD_G_VALUE && e->u.v->node) return e->u.v->node;
        }
    }
    return NULL;
}

/* Assigns positions to n and everything it needs, needed nodes first. */
static void walk(ordering *o, td_gnode *n) {
    push(o, n);
    while (o->todo.n && !o->failed) {
        td_gnode *need = next_read(&o->todo.v[o->todo.n - 1]);
        if (need) push(o, need);
        else o->rank[o->todo.v[--o->todo.n].node->id] = ++o->next;
    }
}

static void walk_value(void *env, td_gval *v) {
    if (v->node) walk(env, v->node);
}

/* Must nothing be moved across the node? It has an effect, or its result has a size
 * that depends on values: later nodes may use that size as a number without reading
 * the result. */
static bool is_fence(const td_gnode *n) {
    return td__gnode_is_fixed(n) || td__gnode_shows(n);
}

static int by_rank(const void *x, const void *y) {
    int32_t a = ((const ranked *)x)->rank, b = ((const ranked *)y)->rank;
    return (a > b) - (a < b);
}

/* Sorts n nodes; `with` has as many places. */
static void sort_run(ordering *o, td_gnode **v, int n, ranked *with) {
    for (int i = 0; i < n; i++) with[i] = (ranked){o->rank[v[i]->id], v[i]};
    qsort(with, (size_t)n, sizeof *with, by_rank);
    for (int i = 0; i < n; i++) v[i] = with[i].node;
}

/* Sorts the nodes between two fences. */
static void sort_runs(ordering *o, ranked *with) {
    td_gnode **v = o->g->nodes.v;
    int        n = o->g->nodes.n, from = 0;
    for (int i = 0; i <= n; i++) {
        if (i < n && !is_fence(v[i])) continue;
        if (i > from + 1) sort_run(o, v + from, i - from, with);
        from = i + 1;
    }
}

/* Fences keep their order; other nodes move to just before their first
 * reader. Last come nodes that nothing reads. The result depends on the graph only, not
 * on the order it had. */
bool td__graph_order(td_graph *g) {
    td_arena scratch = {0};
    td__graph_pack(g);
    ordering o = {.g = g};
    o.rank = td__pass_alloc(g, &scratch, (size_t)g->nodes.n, sizeof *o.rank);
    ranked *with = td__pass_alloc(g, &scratch, (size_t)g->nodes.n, sizeof *with);
    if (o.rank && with) {
        for (int i = 0; i < g->nodes.n; i++)
            if (is_fence(g->nodes.v[i])) walk(&o, g->nodes.v[i]);
        for (int i = 0; i < g->outputs.n; i++)
            td__garg_each(&g->outputs.v[i], walk_value, &o);
        for (int i = 0; i < g->nodes.n; i++) walk(&o, g->nodes.v[i]);
        if (!o.failed) sort_runs(&o, with);
        if (o.failed) td__fail_memory(g->cx);
        td__graph_pack(g);
    }
    bool ok = o.rank && with && !o.failed;
    td__vec_free(&o.todo);
    td__arena_free(&scratch);
    return ok;
}
