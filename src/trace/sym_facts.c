/* sym_facts.c -- what a trace knows about its symbols, stored in the graph it
 * made (td_graph.facts), and loaded from a graph into a new environment. So a
 * graph with symbolic sizes can be traced again after its trace has ended. */
#include "trace/sym.h"

#include <stdio.h>

/* ---- from a trace into a graph ------------------------------------------ */

/* Adds the fact a rel b. */
static bool add(td_symenv *e, td_graph *g, td_dim_rel rel, int64_t a, int64_t b) {
    td_gfact f = {(uint8_t)rel, td__sym_to_graph(e, g, a), td__sym_to_graph(e, g, b)};
    return td_ok(g->cx) && (td__vec_push(&g->facts, f) || td__fail_memory(g->cx));
}

/* Adds a symbol's range as facts. */
static bool add_range(td_symenv *e, td_graph *g, const td_symbol *s) {
    td_symrange r = s->first;
    if (r.lo > -TD_DIM_HUGE && !add(e, g, TD_DIM_IS_GE, s->tag, r.lo)) return false;
    return r.hi == TD_DIM_HUGE || add(e, g, TD_DIM_IS_LT, s->tag, r.hi + 1);
}

/* Copies ranges and guards into the graph, so that later passes and other processes can
 * use them without this environment. */
bool td__sym_facts(td_symenv *e, td_graph *g) {
    g->facts.n = 0;
    for (int i = 0; i < e->symbols.n; i++) {
        const td_symbol *s = &e->symbols.v[i];
        bool             seen = s->given == s->tag && s->letter == 's';
        if (seen && !add_range(e, g, s)) return false;
    }
    for (int i = 0; i < e->guards.n; i++) {
        const td_guard *f = &e->guards.v[i];
        if (!f->runtime && !add(e, g, (td_dim_rel)f->rel, f->a, f->b)) return false;
    }
    return true;
}

/* ---- from a graph into a trace ------------------------------------------ */

/* Makes a symbol of the graph a new symbol of the same name, which other graphs of the
 * program use, too. Its hint is arbitrary: a trace from types refuses every guard, so
 * no decision is based on hints. */
static int64_t make_symbol(td_symenv *e, const td_gdim *d) {
    char      name[24];
    td_symbol s = {.letter = 's',
                   .read = TD_SYM_SIZE,
                   .arg = -1,
                   .source = name,
                   .hint = 64,
                   .first = {-TD_DIM_HUGE, TD_DIM_HUGE}};
    snprintf(name, sizeof name, "%c%d", d->letter, (int)d->nr);
    int64_t tag = td__sym_input(e, s, NULL);
    if (!td__dim_is_sym(tag)) return tag;
    e->symbols.v[e->symbols.n - 1].nr = d->nr;
    if (e->n_backed <= d->nr) e->n_backed = d->nr + 1;
    return tag;
}

/* The reverse: symbols and facts of a graph as symbols of this environment; bound[i] is
 * the expression for dim i. */
bool td__sym_from_graph(td_symenv *e, const td_graph *g, int64_t *bound) {
    for (int i = 0; i < g->dims.n; i++) {
        const td_gdim *d = &g->dims.v[i];
        bound[i] = INT64_MIN;
        if (d->op != TD_GDIM_SYMBOL) continue;
        if (d->letter != 's')
            return td__fail(g->cx, TD_E_TRACE,
                            "@%.60s: the size %c%d depends on data, so the function "
                            "cannot be captured from its types",
                            g->name, d->letter, (int)d->nr);
        bound[i] = make_symbol(e, d);
    }
    td__gdim_settle(g, bound);
    for (int i = 0; i < g->facts.n && td_ok(g->cx); i++) {
        const td_gfact *f = &g->facts.v[i];
        td__sym_learn(e, td__gdim_value(g, f->a, bound), (td_dim_rel)f->rel,
                      td__gdim_value(g, f->b, bound));
    }
    return td_ok(g->cx);
}
