/* effects.c -- what passes must know about nodes and values: which nodes draw
 * random numbers, write or may fail, and which values are written or escape.
 * Aliasing between results and arguments follows the alias letters of the
 * schema. */
#include "graph/graph_int.h"

#include <stdio.h>
#include <string.h>

/* The flags of an op and of its functional twin. */
static uint32_t flags_of(td_op op) {
    td_op    pure = td__opinfo(op)->pure;
    uint32_t twin = pure != TD_OP_COUNT ? td__row(pure)->flags : 0;
    return td__row(op)->flags | twin;
}

bool td__op_draws(td_op op) {
    return (flags_of(op) & (TD_OPF_RANDOM | TD_OPF_DRAWS)) != 0;
}

/* Is argument k of n, or its default where it is left out, the number `value`? */
static bool has_number(const td_gnode *n, int k, double value) {
    const td_garg *a = &n->in[k];
    if (k >= n->n_in || a->kind == TD_G_NONE) {
        td_value def = td__opinfo(n->op)->s.in[k].def;
        bool     number = def.kind == TD_K_FLOAT || def.kind == TD_K_INT;
        return number && td__value_f(def) == value;
    }
    if (a->kind == TD_G_FLOAT) return a->u.f == value;
    return (a->kind == TD_G_INT || a->kind == TD_G_BOOL) && (double)a->u.i == value;
}

/* Reads "name=number name=number"; true where one holds for the arguments of n. */
bool td__gnode_is_idle(const td_gnode *n) {
    if (n->kind != TD_N_OP) return false;
    td_op            pure = td__opinfo(n->op)->pure;
    const char      *idle = td__row(pure != TD_OP_COUNT ? pure : n->op)->idle;
    const td_schema *s = &td__opinfo(n->op)->s;
    char             name[24];
    double           value;
    int              used;
    for (; idle && sscanf(idle, " %23[^=]=%lf%n", name, &value, &used) == 2;
         idle += used)
        for (int k = 0; k < s->n_in; k++)
            if (!strcmp(s->in[k].name, name) && has_number(n, k, value)) return true;
    return false;
}

/* Does any node have one of these TD_OPF_ flags, in nested graphs as well? */
bool td__graph_flags(const td_graph *g, uint32_t flags) {
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        uint32_t        has = n->kind == TD_N_OP ? flags_of(n->op) : 0;
        if (has & flags) return true;
        for (int k = 0; has & TD_OPF_NESTS && k < n->n_in; k++)
            if (n->in[k].kind == TD_G_GRAPH && td__graph_flags(n->in[k].u.g, flags))
                return true;
    }
    return false;
}

bool td__gnode_is_fixed(const td_gnode *n) {
    if (n->kind != TD_N_OP || td__gnode_draws(n)) return true;
    bool has = td__row(n->op)->flags & TD_OPF_EFFECT;
    if (has && n->origin == TD_FROM_BEFORE) return false; /* it has happened */
    return td__gnode_has_effect(n) || td__opinfo(n->op)->writes ||
           td__opinfo(n->op)->s.n_out == 0;
}

/* Does the type have a symbolic size? */
static bool has_symbolic_sizes(const td_gtype *l) {
    return l && td__dims_any_sym(l->size, l->rank);
}

typedef struct size_search {
    int64_t size;
    bool    found;
} size_search;

static void find_size(void *env, td_gval *v) {
    size_search *s = env;
    for (int d = 0; v->type && d < v->type->rank; d++)
        s->found |= v->type->size[d] == s->size;
}

/* Has the result a symbolic size that no argument of the node has? */
static bool has_new_size(const td_gnode *n, const td_gtype *l) {
    for (int d = 0; l && d < l->rank; d++) {
        size_search s = {l->size[d], !td__dim_is_sym(l->size[d])};
        for (int i = 0; i < n->n_in; i++) td__garg_each(&n->in[i], find_size, &s);
        if (!s.found) return true;
    }
    return false;
}

/* Has it a result whose size depends on values, which later nodes use as a symbol or a
 * number? A composite, which a program records whole, may contain such an op. */
bool td__gnode_shows(const td_gnode *n) {
    const td_opdef *op = td__row(n->op);
    bool            composite = op->decomp || op->decomp_fn;
    if (!(op->flags & TD_OPF_DYNAMIC) && !composite) return false;
    if (!composite && n->origin != TD_FROM_BEFORE) return true;
    for (int i = 0; i < n->n_out; i++)
        if (composite ? has_new_size(n, n->out[i]->type)
                      : has_symbolic_sizes(n->out[i]->type))
            return true;
    return false;
}

/* Must a node of the graph run although nothing reads its results? */
static bool graph_stays(const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (!g->nodes.v[i]->dead && g->nodes.v[i]->kind == TD_N_OP &&
            td__gnode_stays(g->nodes.v[i]))
            return true;
    return false;
}

/* Can the node fail for certain values of its arguments? A pointwise op marked
 * PICKY (division) fails for integers only. A view was checked when it was
 * traced, unless the storage size was symbolic. */
static bool may_fail(const td_gnode *n) {
    uint32_t        flags = td__row(n->op)->flags;
    const td_gtype *l = n->n_out > 0 ? n->out[0]->type : NULL;
    if (n->origin == TD_FROM_BEFORE) return false;
    if (n->op == TD_OP_call || n->op == TD_OP_region) return graph_stays(n->in[0].u.g);
    if (!(flags & TD_OPF_PICKY)) return false;
    if (flags & TD_OPF_VIEW)
        return n->in[0].kind == TD_G_VALUE && has_symbolic_sizes(n->in[0].u.v->type);
    return !(flags & TD_OPF_POINTWISE) || !l ||
           !td__is_differentiable((td_dtype)l->dtype);
}

bool td__gnode_stays(const td_gnode *n) {
    return td__gnode_is_fixed(n) || may_fail(n) || td__gnode_shows(n);
}

static void note_read(void *env, td_gval *v) {
    if (!v->node) ((bool *)env)[v->nr] = true;
}

/* Sets reads[i] for each input that a node or an output reads. */
void td__graph_reads(const td_graph *g, bool *reads) {
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_in; k++)
            td__garg_each(&g->nodes.v[i]->in[k], note_read, reads);
    for (int i = 0; i < g->outputs.n; i++)
        td__garg_each(&g->outputs.v[i], note_read, reads);
}

void td__graph_written_inputs(const td_graph *g, bool *writes) {
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        bool            here = td__opinfo(n->op)->writes && n->in[0].kind == TD_G_VALUE;
        if (here && !n->in[0].u.v->node) writes[n->in[0].u.v->nr] = true;
    }
}

void *td__pass_alloc(td_graph *g, td_arena *a, size_t n, size_t item) {
    void *p = td__arena_zalloc(a, (n + 1) * item);
    if (!p) td__fail_memory(g->cx);
    return p;
}

/* ---- aliases and writes ------------------------------------------------- */

static void mark(void *env, td_gval *v) { ((bool *)env)[v->id] = true; }

/* May result r share storage with argument i? */
static bool shares(const td_gnode *n, int r, int i) {
    const td_schema *s = &td__opinfo(n->op)->s;
    if (td__row(n->op)->flags & (TD_OPF_SHARE | TD_OPF_TYPED) && i == 0) return true;
    if (s->n_out == 0) return false;
    char letter = s->out[r < s->n_out ? r : s->n_out - 1].alias;
    return letter && i < s->n_in && s->in[i].alias == letter;
}

/* Marks values whose metadata is written (t_, resize_, set_). A writing op
 * returns the tensor it wrote, so both names of the tensor are marked. */
static void mark_moved(const td_effects *e, const td_gnode *n, int i) {
    const td_schema *s = &td__opinfo(n->op)->s;
    if (i >= s->n_in || !s->in[i].write || n->in[i].kind != TD_G_VALUE) return;
    bool *arg = &e->moved[n->in[i].u.v->id];
    *arg |= (td__row(n->op)->flags & TD_OPF_META) != 0;
    for (int r = 0; r < n->n_out; r++) {
        bool *out = &e->moved[n->out[r]->id];
        if (shares(n, r, i)) *arg = *out = *arg || *out;
    }
}

/* Passes "written" and "escapes" from results to argument i where they alias. */
static void pass_on(const td_effects *e, const td_gnode *n, int i) {
    for (int r = 0; r < n->n_out; r++) {
        if (!shares(n, r, i)) continue;
        int id = n->out[r]->id;
        if (e->written[id]) td__garg_each(&n->in[i], mark, e->written);
        if (e->escapes[id]) td__garg_each(&n->in[i], mark, e->escapes);
    }
}

/* set_ gives its tensor the storage of another one: from then on each is written
 * through the other, and an output of the tensor is one of the storage. */
static void join_storages(const td_effects *e, const td_gnode *n) {
    if (n->op != TD_OP_set_) return;
    td__garg_each(&n->in[1], mark, e->written);
    td__garg_each(&n->in[1], mark, e->escapes);
}

/* A hook receives the gradients of one value alone: no pass may merge that value with
 * an equal one. */
static void mark_hooked(const td_effects *e, const td_gnode *n) {
    if (n->op != TD_OP_on_grad) return;
    td__garg_each(&n->in[0], mark, e->written);
    td__garg_each(&n->in[0], mark, e->moved);
}

/* Is a value that the argument reads written? */
static bool any_written(const td_effects *e, const td_garg *a) {
    if (a->kind == TD_G_VALUE) return e->written[a->u.v->id];
    for (uint32_t i = 0; a->kind == TD_G_LIST && i < a->n; i++)
        if (any_written(e, &a->u.list[i])) return true;
    return false;
}

/* Passes "written" from arguments to results that alias them. */
static void spread(const td_effects *e, const td_gnode *n) {
    for (int r = 0; r < n->n_out; r++)
        for (int i = 0; i < n->n_in; i++)
            if (shares(n, r, i) && any_written(e, &n->in[i]))
                e->written[n->out[r]->id] = true;
    for (int i = 0; i < n->n_in; i++) mark_moved(e, n, i);
}

/* One tensor may be passed as several inputs: if the metadata of one is written, that
 * of every input with its storage may be. */
static void mark_inputs(const td_effects *e, const td_graph *g) {
    for (int i = 0; i < g->inputs.n; i++) {
        const td_gval *a = g->inputs.v[i];
        for (int k = 0; a->type && e->moved[a->id] && k < g->inputs.n; k++) {
            const td_gval *b = g->inputs.v[k];
            if (b->type && b->type->storage == a->type->storage) e->moved[b->id] = true;
        }
    }
}

/* One backward pass from outputs and writes to their sources, then one forward pass to
 * other views of what is written. */
bool td__effects_make(td_effects *e, const td_graph *g, td_arena *a) {
    size_t    n = (size_t)g->n_values;
    td_graph *mine = (td_graph *)(uintptr_t)g; /* for its context only */
    e->written = td__pass_alloc(mine, a, n, 1);
    e->escapes = td__pass_alloc(mine, a, n, 1);
    e->returned = td__pass_alloc(mine, a, n, 1);
    e->moved = td__pass_alloc(mine, a, n, 1);
    if (!e->written || !e->escapes || !e->returned || !e->moved) return false;
    for (int i = 0; i < g->outputs.n; i++) {
        td__garg_each(&g->outputs.v[i], mark, e->escapes);
        td__garg_each(&g->outputs.v[i], mark, e->returned);
    }
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const td_gnode *node = g->nodes.v[i];
        if (node->dead || node->kind != TD_N_OP) continue;
        const td_schema *s = &td__opinfo(node->op)->s;
        join_storages(e, node);
        mark_hooked(e, node);
        for (int k = 0; k < node->n_in; k++) {
            if (s->in[k].write) td__garg_each(&node->in[k], mark, e->written);
            pass_on(e, node, k);
            mark_moved(e, node, k);
        }
    }
    for (int i = 0; i < g->nodes.n; i++)
        if (!g->nodes.v[i]->dead && g->nodes.v[i]->kind == TD_N_OP)
            spread(e, g->nodes.v[i]);
    mark_inputs(e, g);
    return true;
}
