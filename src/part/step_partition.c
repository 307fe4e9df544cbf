/* step_partition.c -- partitions a graph with backwards inside, such as a training
 * step. Each backward is a run of consecutive nodes. Nodes before it are forward;
 * from it on nodes stay in place, and read values that are saved, or recomputed just
 * before their first reader. The result is again one graph. */
#include "part/part_int.h"

#include <limits.h>
#include <string.h>

/* Finding each backward costs a walk over all nodes. */
enum { MOST_RUNS = 64 };

/* Is the node part of a backward? */
static bool in_run(const td_gnode *n) {
    return n->origin == TD_FROM_BACKWARD || n->origin == TD_FROM_AGAIN;
}

/* Finds backward number `run` of a step: the nodes p->from to p->last. p->first is the
 * end of the backward before. False: there are fewer. */
bool td__part_find_run(td_part *p, int run) {
    const td_graph *g = p->g;
    int             nr = 0;
    p->first = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        bool was = i > 0 && in_run(g->nodes.v[i - 1]), is = in_run(g->nodes.v[i]);
        if (!was && is && ++nr == run) p->from = i;
        if (!was || is) continue;
        if (nr == run) return p->last = i - 1, true;
        p->first = i;
    }
    return p->from >= 0;
}

/* ---- rebuilding the graph ------------------------------------------------- */

/* The state of rebuilding. */
typedef struct joining {
    td_part   *p;
    td_gval  **now;  /* by value: its recomputed copy, for later nodes; or NULL */
    td_gnode **note; /* by node: saves the generator's state before it; or NULL */
    td_gnode **late; /* the new nodes from p->from on */
    int        n_late;
    bool       any;
} joining;

static td_gval *read_now(void *env, td_gval *v) {
    joining *m = env;
    return v->id < m->p->n_values && m->now[v->id] ? m->now[v->id] : v;
}

static void look_now(void *env, td_gval *v) {
    joining *m = env;
    m->any |= read_now(m, v) != v;
}

/* A view of values that are not recomputed need not be recomputed either. */
static bool is_available(joining *m, int i) {
    const td_gnode *n = m->p->g->nodes.v[i];
    m->any = false;
    for (int k = 0; k < n->n_in; k++) td__garg_each(&n->in[k], look_now, m);
    return !m->any && td__opinfo(n->op)->view_of >= 0;
}

/* Appends a node, with its operands replaced by recomputed ones. */
static void take(joining *m, td_gnode *n) {
    for (int k = 0; k < n->n_in; k++) td__garg_map(&n->in[k], read_now, m);
    m->late[m->n_late++] = n;
}

/* Copies types; each result gets a new storage. */
static bool copy_types(td_graph *g, const td_gnode *from, td_gnode *to) {
    for (int k = 0; k < from->n_out; k++) {
        if (!from->out[k]->type) continue;
        td_gtype l = *from->out[k]->type;
        l.storage = g->n_storages++;
        if (!(to->out[k]->type = td__graph_type_of(g, l))) return false;
    }
    return true;
}

/* Appends a copy of node i. False after td__fail. */
static bool recompute(joining *m, int i) {
    td_graph *g = m->p->g;
    td_gnode *n = g->nodes.v[i];
    td_gnode *c = td__graph_op(g, n->op, n->in, n->n_in, n->n_out);
    if (!c) return false;
    g->nodes.n--;
    c->here = n->here;
    c->stack = n->stack;
    c->scope = n->scope;
    c->tags = n->tags;
    c->origin = TD_FROM_AGAIN;
    if (!copy_types(g, n, c)) return false;
    take(m, c);
    for (int k = 0; k < n->n_out; k++)
        if (!m->p->passed[n->out[k]->id]) m->now[n->out[k]->id] = c->out[k];
    if (!td__gnode_draws(n)) return true;
    if (!(m->note[i] = td__rng_save_node(g))) return false;
    m->n_late += 2;
    return td__rng_wrap(g, c, m->note[i]->out[0], &m->late[m->n_late - 3]);
}

/* Fills late[] in the order of td__part_order. False after td__fail. */
static bool place_late(joining *m) {
    td_part *p = m->p;
    int32_t *order = td__part_alloc(p, (size_t)p->n_nodes, sizeof *order);
    int      n = order ? td__part_order(p, order) : -1;
    for (int i = 0; i < n; i++) {
        int       at = order[i];
        td_gnode *node = p->g->nodes.v[at];
        bool      both = at < p->from && p->in_fwd[at];
        if (both && is_available(m, at)) continue;
        if (both && !recompute(m, at)) return false;
        if (both) continue;
        if (at < p->from) node->origin = TD_FROM_BACKWARD; /* only backward reads it */
        take(m, node);
    }
    return n >= 0;
}

/* The nodes before the backward, then late[]. False after td__fail. */
static bool join_parts(joining *m) {
    td_part   *p = m->p;
    td_graph  *g = p->g;
    td_gnode **was = td__part_take_nodes(p);
    bool       ok = was != NULL;
    if (!ok) return false;
    for (int i = 0; i < p->from && ok; i++) {
        if (!p->in_fwd[i]) continue;
        ok = (!m->note[i] || td__vec_push(&g->nodes, m->note[i])) &&
             td__vec_push(&g->nodes, was[i]);
    }
    for (int i = 0; i < m->n_late && ok; i++) ok = td__vec_push(&g->nodes, m->late[i]);
    if (!ok) return td__fail_memory(p->cx);
    td__graph_pack(g);
    return td__graph_fix_storages(g) && td__graph_verify(g, TD_STAGE_JOINT);
}

/* Rebuilds the step's node list with the recomputed nodes inserted before their first
 * reader. */
static bool rejoin(td_part *p) {
    joining m = {.p = p};
    m.now = td__part_alloc(p, (size_t)p->n_values, sizeof *m.now);
    m.note = td__part_alloc(p, (size_t)p->n_nodes, sizeof *m.note);
    m.late = td__part_alloc(p, 4 * (size_t)p->n_nodes, sizeof *m.late);
    return m.now && m.note && m.late && place_late(&m) && join_parts(&m);
}

/* ---- choosing -------------------------------------------------------------- */

/* Appends the notes of this backward to h. False after td__fail. */
static bool note_run(const td_part *p, td_halves *h) {
    td_part_note *was = h->notes;
    int           n = h->n_notes;
    h->n_notes = 0;
    if (!td__part_notes(p, h)) return false;
    td_part_note *all =
        td__arena_alloc(&h->arena, sizeof *all * (size_t)(n + h->n_notes + 1));
    if (!all) return td__fail_memory(p->cx);
    if (n) memcpy(all, was, sizeof *all * (size_t)n);
    if (h->n_notes) memcpy(all + n, h->notes, sizeof *all * (size_t)h->n_notes);
    h->notes = all;
    h->n_notes += n;
    return true;
}

/* Random ops that the step runs twice. */
static int count_draws(const td_part *p) {
    int n = 0;
    for (int i = 0; i < p->from; i++)
        n += p->in_bwd[i] && p->in_fwd[i] && td__gnode_draws(p->g->nodes.v[i]);
    return n;
}

/* Adds what saving everything would take, without checkpoints. */
static bool measure_most(td_part *p, td_halves *h, int64_t *peak) {
    bool *again = p->must_recompute, *none = td__part_alloc(p, (size_t)p->n_nodes, 1);
    if (!none) return false;
    p->must_recompute = none;
    td__part_save_all(p);
    bool ok = td__part_measure(p, peak);
    p->must_recompute = again;
    if (!ok) return false;
    h->bytes_most += p->saved_bytes;
    if (*peak > h->peak_most) h->peak_most = *peak;
    return true;
}

/* Chooses p->saved for one backward and adds it to the report. False after td__fail. */
static bool choose(td_part *p, td_halves *h) {
    int64_t peak;
    if (!measure_most(p, h, &peak)) return false;
    td__part_save_all(p);
    if (!td__part_measure(p, &peak)) return false;
    if (p->o->budget < 1 && (!td__part_budget(p, peak) || !td__part_measure(p, &peak)))
        return false;
    h->bytes_saved += p->saved_bytes;
    h->cost_recompute += p->recompute_cost;
    h->n_draws += count_draws(p);
    if (peak > h->peak) h->peak = peak;
    return !p->o->make_notes || note_run(p, h);
}

/* Partitions the run-th backward; *more: it exists. False after td__fail. */
static bool partition_run(td_joint *j, const td_part_opts *o, int run, td_halves *h,
                          bool *more) {
    td_part p;
    bool    ok = td__part_open(&p, j, o, run);
    *more = ok && p.from >= 0;
    if (*more && (ok = choose(&p, h) && rejoin(&p))) {
        td_graph *was = j->g;
        j->g = p.g;
        p.g = was;
    }
    td__part_close(&p);
    return ok;
}

/* Is there a backward, and a checkpoint region or a budget below 1? */
static bool is_needed_at_all(const td_graph *g, const td_part_opts *o) {
    bool any = o->budget < 1, backward = false;
    for (int i = 0; i < g->nodes.n && !(any && backward); i++) {
        any |= g->nodes.v[i]->tags != 0;
        backward |= in_run(g->nodes.v[i]);
    }
    return any && backward;
}

/* Partitions one backward after the other, because each rewrites the graph. The report
 * adds up all of them. */
bool td__part_step(td_joint *j, const td_part_opts *opts, td_halves **report) {
    bool more = true, ok = true;
    *report = NULL;
    if (!is_needed_at_all(j->g, opts)) return true;
    td_halves *h = td__zalloc(sizeof *h);
    if (!h) return td__fail_memory(j->cx);
    h->cx = j->cx;
    for (int run = 1; ok && more && run <= MOST_RUNS; run++) {
        ok = partition_run(j, opts, run, h, &more);
        if (ok && run == 1 && !more) break;
        if (ok) *report = h;
    }
    if (!*report || !ok) {
        td__halves_drop(h);
        *report = NULL;
    }
    return ok;
}
