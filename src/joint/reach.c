/* reach.c -- follows the tape from each tangent before the engine runs: which targets
 * its history leads to, which tangents share saved values, and which results the
 * gradients of other results pass through.
 *
 * td_target.from decides which edges a backward visits at all. td_tangent.clash decides
 * whether a second backward finds the saved values it needs. The `feeds` sets name the
 * results that gradients of other results pass through in eager: a compiled call is one
 * node, so td_grad with respect to such a result is unsupported. */
#include "joint/joint_int.h"

/* A node of the history, and the tangents that lead to it, a set. */
typedef struct reached {
    td_node  *node;
    uint64_t *from;
} reached;

/* The edge of a result or written input, and the tangents whose gradients pass it. */
typedef struct watched {
    td_edge   at;   /* referenced; node NULL: no gradient can pass it */
    uint64_t *from; /* a set */
} watched;

typedef struct reaching {
    td_joint_run  *r;
    int            words; /* of a set of tangents */
    td_arena       arena;
    const td_edge *to; /* by target */
    td_ptrmap      at; /* node: 1 + its index in `all` */
    TD_VEC(reached) all;
    TD_VEC(int) open; /* indices of nodes whose edges are still to be followed */
    watched  *watch;  /* by tangent, then by result */
    int       n_watch;
    td_ptrmap watches; /* nodes among them */
} reaching;

static uint64_t *make_set(reaching *w) {
    return td__arena_zalloc(&w->arena, sizeof(uint64_t) * (size_t)w->words);
}

/* Is e the edge of a target? Gradients end there. */
static bool stops(reaching *w, td_edge e, const uint64_t *from) {
    td_joint *j = w->r->to;
    bool      stop = false;
    for (int i = 0; i < j->n_targets; i++)
        if (td__same_edge(w->to[i], e)) {
            td__set_join(j->targets[i].from, from, w->words);
            stop = true;
        }
    return stop;
}

/* Tangents `from` lead to e: if the node does not have all of them yet, its edges are
 * followed again. */
static bool reach_edge(reaching *w, td_edge e, const uint64_t *from) {
    if (!e.node || stops(w, e, from)) return true;
    uintptr_t nr = (uintptr_t)td__ptrmap_get(&w->at, e.node);
    if (!nr) {
        reached one = {e.node, make_set(w)};
        if (!one.from || !td__vec_push(&w->all, one)) return false;
        nr = (uintptr_t)w->all.n;
        if (!td__ptrmap_put(&w->at, e.node, (void *)nr)) return false; /* NOLINT */
    }
    uint64_t *known = w->all.v[nr - 1].from;
    if (!td__set_leaves(from, known, w->words)) return true;
    td__set_join(known, from, w->words);
    return td__vec_push(&w->open, (int)nr - 1);
}

static void note_passing(reaching *w, td_edge e, const uint64_t *from) {
    if (!e.node || !td__ptrmap_get(&w->watches, e.node)) return;
    for (int i = 0; i < w->n_watch; i++)
        if (td__same_edge(w->watch[i].at, e))
            td__set_join(w->watch[i].from, from, w->words);
}

/* Propagates sets of tangents along edges until nothing changes: a node is visited
 * again only if its set grew. */
static bool follow(reaching *w) {
    while (w->open.n) {
        reached now = w->all.v[w->open.v[--w->open.n]];
        for (int i = 0; i < now.node->n_edge; i++) {
            note_passing(w, now.node->edge[i], now.from);
            if (!reach_edge(w, now.node->edge[i], now.from)) return false;
        }
    }
    return true;
}

/* Records the inputs and results whose storage a node has saved: in eager a backward
 * from one of these tangents fails if they are written before. */
static void note_saved(const reaching *w, const td_node *n, const uint64_t *from) {
    td_joint *j = w->r->to;
    for (int k = 0; k < n->n_saved; k++) {
        const void *st = n->saved[k].st;
        if (n->saved[k].flags & TD_SV_SPARE) continue;
        for (int i = 0; i < j->n_primals; i++) {
            const td_tensor *t = w->r->inputs[i].outer;
            if (t && t->st == st) td__set_join(j->primals[i].saved, from, w->words);
        }
        for (int i = 0; i < j->n_fwd; i++) {
            int              nr = j->fwd[i].result;
            const td_tensor *t =
                nr >= 0 && w->r->out[nr].kind == TD_K_TENSOR ? w->r->out[nr].u.t : NULL;
            if (t && t->st == st) td__set_join(j->fwd[i].saved, from, w->words);
        }
    }
}

/* Two tangents whose histories share a node that saves values clash: a backward from
 * one frees the values that the other needs, unless it retains the graph. */
static void find_clashes(const reaching *w) {
    td_joint *j = w->r->to;
    for (int i = 0; i < w->all.n; i++) {
        const uint64_t *from = w->all.v[i].from;
        if (!td__node_saves(w->all.v[i].node)) continue;
        if (w->r->opts.find_saved) note_saved(w, w->all.v[i].node, from);
        for (int k = 0; k < j->n_tangents; k++)
            if (td__set_has(from, k))
                td__set_join(j->tangents[k].clash, from, w->words);
    }
}

/* Allocates all sets of the joint graph, empty, in one block; false: out of memory. */
static bool make_sets(td_joint *j, int words) {
    int       sets = 2 * j->n_tangents + j->n_targets + j->n_primals + j->n_fwd + 1;
    size_t    n = (size_t)sets * (size_t)words;
    uint64_t *at = td__arena_zalloc(&j->arena, sizeof *at * n);
    for (int i = 0; at && i < j->n_tangents; i++, at += 2 * words) {
        j->tangents[i].clash = at;
        j->tangents[i].feeds = at + words;
    }
    for (int i = 0; at && i < j->n_targets; i++, at += words) j->targets[i].from = at;
    for (int i = 0; at && i < j->n_primals; i++, at += words) j->primals[i].saved = at;
    for (int i = 0; at && i < j->n_fwd; i++, at += words) j->fwd[i].saved = at;
    return at != NULL;
}

/* Is t a view that the epilogue makes, with a grad_fn that gradients can pass? A stale
 * view has none. */
static bool is_view(const td_tensor *t) {
    return t && t->base && td__has_node(t) && !td__is_behind(t);
}

/* Finds the edge of t and watches it as entry i. A view whose grad_fn eager refuses to
 * recompute has none. False after td__fail, or if out of memory. */
static bool watch_edge(reaching *w, int i, td_tensor *t) {
    td_edge *at = &w->watch[i].at;
    if (!(w->watch[i].from = make_set(w))) return false;
    if (!td__edge_of(t, at)) {
        if (td__error(t->cx) != TD_E_GRAD) return false;
        td_clear(t->cx);
    }
    return !at->node || td__ptrmap_put(&w->watches, at->node, at->node);
}

/* Watches the roots of tangents, and the results that are views. A gradient that passes
 * one of their edges passes through another result. */
static bool watch_edges(reaching *w) {
    const td_joint *j = w->r->to;
    bool            ok = true;
    w->n_watch = j->n_tangents + j->n_results;
    w->watch = td__zalloc(sizeof *w->watch * ((size_t)w->n_watch + 1));
    if (!w->watch) return w->n_watch = 0, false;
    for (int i = 0; ok && i < j->n_tangents; i++) ok = watch_edge(w, i, w->r->roots[i]);
    for (int i = 0; ok && i < j->n_results; i++) {
        td_tensor *t = w->r->out[i].kind == TD_K_TENSOR ? w->r->out[i].u.t : NULL;
        if (is_view(t)) ok = watch_edge(w, j->n_tangents + i, t);
    }
    return ok;
}

/* Stores which tangents pass through which root or result; the runtime refuses
 * gradients with respect to them. */
static void store_feeds(const reaching *w) {
    td_joint *j = w->r->to;
    size_t    bytes = sizeof(uint64_t) * (size_t)w->words;
    for (int i = 0; i < j->n_tangents; i++)
        memcpy(j->tangents[i].feeds, w->watch[i].from, bytes);
    for (int i = 0; i < j->n_results; i++) {
        const uint64_t *from = w->watch[j->n_tangents + i].from;
        j->feeds[i] = from && td__set_any(from, w->words);
    }
}

static void free_reaching(reaching *w) {
    for (int i = 0; i < w->n_watch; i++)
        if (w->watch[i].at.node) td__node_drop(w->watch[i].at.node);
    td__free(w->watch);
    td__arena_free(&w->arena);
    td__ptrmap_free(&w->watches);
    td__ptrmap_free(&w->at);
    td__vec_free(&w->all);
    td__vec_free(&w->open);
}

/* Computes for each target the set of tangents that reach it, by following eager's
 * edges from each root, without running any derivative. */
bool td__joint_reach(td_joint_run *r, const td_edge *to) {
    reaching  w = {.r = r, .to = to, .words = td__set_words(r->to->n_tangents)};
    uint64_t *one = make_set(&w);
    bool      ok = one && make_sets(r->to, w.words) && watch_edges(&w);
    for (int i = 0; ok && i < r->to->n_tangents; i++) {
        td__set_add(one, i);
        ok = reach_edge(&w, w.watch[i].at, one) && follow(&w);
        one[i / 64] = 0;
    }
    if (ok) find_clashes(&w);
    if (ok) store_feeds(&w);
    free_reaching(&w);
    return ok || (td_ok(r->cx) ? td__fail_memory(r->cx) : false);
}
