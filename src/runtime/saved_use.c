/* saved_use.c -- for which tangents a saved value is saved. A backward that does not
 * retain the graph frees the saved values that no later backward can read; a backward
 * without some tangents reads only what the others need. */
#include "runtime/plan.h"

#include <string.h>

/* Sets of tangents, all of one size. */
typedef struct using {
    const td_graph *g;
    int             words;
    uint64_t       *from; /* by value: tangents it depends on */
    uint64_t       *used; /* by value: tangents whose backward reads it */
    uint64_t       *now;
}
using;

static uint64_t *set_of(const using *u, uint64_t *sets, const td_gval *v) {
    return sets + (size_t)v->id * (size_t)u->words;
}

/* Adds the tangents v depends on to u->now. */
static void gather(void *env, td_gval *v) {
    using *u = env;
    td__set_join(u->now, set_of(u, u->from, v), u->words);
}

/* Marks v as read by the backwards of u->now. */
static void spread(void *env, td_gval *v) {
    using *u = env;
    td__set_join(set_of(u, u->used, v), u->now, u->words);
}

static void from_args(using *u, const td_gnode *n) {
    memset(u->now, 0, sizeof *u->now * (size_t)u->words);
    for (int k = 0; k < n->n_in; k++) td__garg_each(&n->in[k], gather, u);
}

/* Forwards: which tangents each value depends on. Backwards from the gradients: for
 * which tangents each value is read. to[]: targets by output. */
static void follow(using *u, const td_target *to) {
    const td_graph *g = u->g;
    uint64_t       *own = u->now;
    for (int i = 0; i < g->inputs.n; i++)
        if (g->in_desc.v[i].kind == TD_D_TANGENT)
            td__set_add(set_of(u, u->from, g->inputs.v[i]), g->in_desc.v[i].index);
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        from_args(u, n);
        for (int k = 0; k < n->n_out; k++)
            td__set_join(set_of(u, u->from, n->out[k]), u->now, u->words);
    }
    for (int i = 0; i < g->outputs.n; i++) {
        u->now = to[i].from;
        td__garg_each(&g->outputs.v[i], spread, u);
    }
    u->now = own;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const td_gnode *n = g->nodes.v[i];
        from_args(u, n);
        for (int k = 0; k < n->n_out; k++)
            td__set_join(u->now, set_of(u, u->used, n->out[k]), u->words);
        if (td__gnode_stays(n)) /* effects are for all */
            memset(u->now, 0xff, sizeof *u->now * (size_t)u->words);
        for (int k = 0; k < n->n_in; k++) td__garg_each(&n->in[k], spread, u);
    }
}

/* Sets td_save_plan.used. Values saved for double backward stay NULL: all need them. */
static bool note_used(td_plan *p, using *u) {
    size_t size = sizeof(uint64_t) * (size_t)u->words;
    for (int i = 0; i < p->n_saved; i++) {
        uint64_t *own = td__arena_alloc(&p->h->arena, size);
        if (!own) return td__fail_memory(p->cx);
        memcpy(own, set_of(u, u->used, u->g->inputs.v[i]), size);
        p->saves[i].used = own;
    }
    return true;
}

/* Computes for each saved value the set of tangents whose backward reads it: a backward
 * checks the versions of the values it reads only. Primals saved for double backward
 * are always checked. */
bool td__plan_used(td_plan *p, bool twice) {
    const td_graph *g = p->h->bwd;
    using u = {.g = g, .words = td__set_words(p->j->n_tangents)};
    size_t n = ((size_t)g->n_values + 1) * (size_t)u.words;
    u.from = td__zalloc(sizeof *u.from * (2 * n + (size_t)u.words));
    if (!u.from) return td__fail_memory(p->cx);
    u.used = u.from + n;
    u.now = u.used + n;
    follow(&u, p->j->targets);
    bool ok = note_used(p, &u);
    for (int i = 0; i < p->j->n_primals; i++) /* gradients of gradients read it */
        if (twice && p->primal_save[i] >= 0) p->saves[p->primal_save[i]].used = NULL;
    td__free(u.from);
    return ok;
}
