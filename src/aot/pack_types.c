/* pack_types.c -- graphs without nodes, whose inputs are the types that pack and unpack
 * are traced for (pack_saved.c). */
#include "aot/pack_int.h"

td_gval *td__saved_in_fwd(const td_halves *h, int i) {
    const td_saved_value *s = &h->saved[i];
    return s->from == TD_SAVED_PRIMAL ? h->fwd->inputs.v[s->index]
                                      : h->fwd->outputs.v[s->index].u.v;
}

static td_gnode *as_it_is(void *env, const td_gnode *was, td_gnode *now) {
    (void)env, (void)was;
    return now;
}

/* Adds an input like v, a value of a graph whose copy has the values twin[]. */
static bool add_like(td_graph *g, td_gval *const *twin, const td_gval *v, td_desc d) {
    const td_gtype *was = twin[v->id]->type;
    bool            made = was && (was->kind == TD_K_TENSOR || was->kind == TD_K_INT);
    td_gtype        l = made ? *was : (td_gtype){.kind = TD_K_TENSOR, .dtype = TD_F32};
    l.storage = -1;
    l.grad = false;
    const td_gtype *type = td__graph_type_of(g, l);
    return type && td__graph_input(g, NULL, type, d);
}

/* Copies `from` into g for its types, without nodes. Returns the copies by value id,
 * which the caller frees. NULL after td__fail. */
static td_gval **take_types(td_graph *g, const td_graph *from) {
    td_gval **twin = td__zalloc(sizeof *twin * ((size_t)from->n_values + 1));
    int       n = g->inputs.n;
    if (!twin) return td__fail_memory(g->cx), NULL;
    bool ok = td__graph_append(g, from, twin, as_it_is, NULL);
    g->nodes.n = 0;
    g->inputs.n = g->in_desc.n = n;
    if (ok) return twin;
    td__free((void *)twin);
    return NULL;
}

/* Inputs for pack: those of forward, which have all symbolic sizes, then the values. */
bool td__pack_types(const td_packing_trace *t, td_graph *g) {
    const td_graph *fwd = t->h->fwd;
    td_gval       **twin = take_types(g, fwd);
    bool            ok = twin != NULL;
    for (int i = 0; ok && i < fwd->inputs.n; i++)
        ok = add_like(g, twin, fwd->inputs.v[i], TD_PLAIN_DESC);
    for (int k = 0; ok && k < t->n; k++)
        ok = add_like(g, twin, td__saved_in_fwd(t->h, t->which[k]),
                      (td_desc){TD_D_SAVED, t->which[k], NULL});
    td__free((void *)twin);
    return ok;
}

static bool is_packed(const td_packing_trace *t, int i) {
    for (int k = 0; k < t->n; k++)
        if (t->which[k] == i) return t->count[k] > 0;
    return false;
}

static void mark(const td_graph *g, bool *marks, int64_t dim) {
    const td_gdim *d = td__gdim_at(g, dim);
    if (d) marks[d - g->dims.v] = true;
}

static void mark_type(const td_graph *g, bool *marks, const td_gtype *l) {
    for (int d = 0; l && l->kind == TD_K_TENSOR && d < l->rank; d++) {
        mark(g, marks, l->size[d]);
        mark(g, marks, l->stride[d]);
    }
    if (l) mark(g, marks, l->offset);
}

static void mark_arg(const td_graph *g, bool *marks, const td_garg *a) {
    if (a->kind == TD_G_SYM) mark(g, marks, a->u.i);
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->kind == TD_G_INTS) mark(g, marks, a->u.ints[i]);
        if (a->kind == TD_G_LIST) mark_arg(g, marks, &a->u.list[i]);
    }
}

/* Marks the dims that nodes and inputs of g read, and their operands. */
static void mark_reads(const td_graph *g, bool *marks) {
    for (int i = 0; i < g->inputs.n; i++) mark_type(g, marks, g->inputs.v[i]->type);
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        for (int k = 0; k < n->n_in; k++) mark_arg(g, marks, &n->in[k]);
        for (int k = 0; k < n->n_out; k++) mark_type(g, marks, n->out[k]->type);
    }
    for (int i = g->dims.n - 1; i >= 0; i--) { /* operands come first */
        if (!marks[i] || g->dims.v[i].op == TD_GDIM_SYMBOL) continue;
        mark(g, marks, g->dims.v[i].a);
        mark(g, marks, g->dims.v[i].b);
    }
}

/* Does an input of g show this symbol by itself? */
static bool is_shown(const td_graph *g, int64_t symbol) {
    for (int i = 0; i < g->inputs.n; i++) {
        const td_gtype *l = g->inputs.v[i]->type;
        if (l->kind == TD_K_INT && l->offset == symbol) return true;
        for (int d = 0; l->kind == TD_K_TENSOR && d < l->rank; d++)
            if (l->size[d] == symbol) return true;
    }
    return false;
}

/* Adds an integer input to g for each symbolic size that `by` reads and no other input
 * shows. */
bool td__add_symbols(td_graph *g, const td_graph *by) {
    bool *reads = td__zalloc((size_t)by->dims.n + 1), ok = reads != NULL;
    if (!ok) return td__fail_memory(g->cx);
    mark_reads(by, reads);
    for (int i = 0; ok && i < by->dims.n; i++) {
        const td_gdim *d = &by->dims.v[i];
        if (d->op != TD_GDIM_SYMBOL || !reads[i]) continue;
        td_gtype l = {.kind = TD_K_INT, .storage = -1};
        l.offset = td__gdim_symbol(g, d->letter, d->nr);
        if (is_shown(g, l.offset)) continue;
        const td_gtype *type = td__graph_type_of(g, l);
        td_desc         saved = {TD_D_SAVED, g->inputs.n, NULL};
        ok = type && td__graph_input(g, NULL, type, saved);
    }
    td__free(reads);
    return ok;
}

/* Inputs for unpack, as the packed partition saves them: packed values, the other saved
 * values, and sizes. */
bool td__unpack_types(const td_packing_trace *t, td_graph *g, const td_graph *pack) {
    const td_graph *bwd = t->h->bwd;
    td_gval       **a = take_types(g, pack), **b = a ? take_types(g, bwd) : NULL;
    bool            ok = b != NULL;
    for (int k = 0; ok && k < pack->outputs.n; k++)
        ok = add_like(g, a, pack->outputs.v[k].u.v, (td_desc){TD_D_SAVED, k, NULL});
    for (int i = 0; ok && i < t->h->n_saved; i++)
        if (!is_packed(t, i))
            ok = add_like(g, b, bwd->inputs.v[i],
                          (td_desc){TD_D_SAVED, g->inputs.n, NULL});
    td__free((void *)a);
    td__free((void *)b);
    return ok && td__add_symbols(g, pack) && td__add_symbols(g, bwd);
}
