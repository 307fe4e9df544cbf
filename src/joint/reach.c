/* reach.c -- which tangents lead to which gradients, and which of them share what a
 * backward uses up. What the engine gives depends on the tape and not on the elements:
 * a gradient may be zeros that no tangent has a part in, and is there only when a
 * tangent arrives that leads to it. The engine also hands on that there is no gradient,
 * and a custom function makes zeros of that.
 *
 * Also which results eager sends the gradients of others through: a compiled call is
 * one node and cannot, so that asking for those gradients is refused. */
#include "joint/joint_int.h"

#include <string.h>

/* What comes from which tangents, as sets. */
typedef struct coming {
    uint64_t *from;  /* gradients; before backward has run, all that may come */
    uint64_t *met;   /* ...or the news that there is none */
    uint64_t *fills; /* gradients of which a custom function has seen to it */
} coming;

typedef struct reached {
    td_node *node;
    coming   by;
} reached;

/* A result or written input whose place in the history others may pass. */
typedef struct watched {
    td_edge   at;   /* held */
    uint64_t *from; /* a set: tangents that pass */
} watched;

typedef struct reaching {
    td_joint_run  *r;
    int            words;
    uint64_t      *none; /* the empty set */
    td_arena       arena;
    const td_edge *to; /* by target */
    td_ptrmap      at; /* node: its number, plus one */
    TD_VEC(reached) all;
    TD_VEC(int) open; /* numbers of nodes whose edges are to be followed */
    bool      ran;    /* edges that are mute are known */
    watched  *watch;  /* by tangent, then by result; node NULL: none */
    int       n_watch;
    td_ptrmap watches; /* nodes among them */
} reaching;

static bool leaves(const coming *a, const coming *b, int words) {
    return td__set_leaves(a->from, b->from, words) ||
           td__set_leaves(a->met, b->met, words) ||
           td__set_leaves(a->fills, b->fills, words);
}

static void join(const coming *to, const coming *with, int words) {
    td__set_join(to->from, with->from, words);
    td__set_join(to->met, with->met, words);
    td__set_join(to->fills, with->fills, words);
}

/* Gradients end where they are asked for. */
static bool ends(reaching *w, td_edge e, const coming *by) {
    td_joint *j = w->r->to;
    bool      end = false;
    for (int i = 0; i < j->n_targets; i++)
        if (w->to[i].node == e.node && w->to[i].nr == e.nr) {
            td_target *t = &j->targets[i];
            td__set_join(w->ran ? t->gives : t->from, by->from, w->words);
            if (w->ran) td__set_join(t->fills, by->fills, w->words);
            end = true;
        }
    return end;
}

static bool make_coming(reaching *w, coming *to) {
    size_t    n = (size_t)w->words;
    uint64_t *at = td__arena_zalloc(&w->arena, 3 * sizeof *at * n);
    if (at) *to = (coming){at, at + n, at + 2 * n};
    return at != NULL;
}

static bool arrive(reaching *w, td_edge e, const coming *by) {
    if (!e.node || ends(w, e, by)) return true;
    uintptr_t nr = (uintptr_t)td__ptrmap_get(&w->at, e.node);
    if (!nr) {
        reached one = {.node = e.node};
        if (!make_coming(w, &one.by) || !td__vec_push(&w->all, one)) return false;
        nr = (uintptr_t)w->all.n;
        if (!td__ptrmap_put(&w->at, e.node, (void *)nr)) return false; /* NOLINT */
    }
    reached *to = &w->all.v[nr - 1];
    if (!leaves(by, &to->by, w->words)) return true;
    join(&to->by, by, w->words);
    return td__vec_push(&w->open, (int)nr - 1);
}

static void pass(reaching *w, td_edge e, const uint64_t *from) {
    if (!e.node || !td__ptrmap_get(&w->watches, e.node)) return;
    for (int i = 0; i < w->n_watch; i++)
        if (w->watch[i].at.node == e.node && w->watch[i].at.nr == e.nr)
            td__set_join(w->watch[i].from, from, w->words);
}

/* What a node sends on. One that takes zeros for gradients that do not arrive runs, as
 * the engine does it, when it hears that there is none. */
static coming sent_by(const reached *r) {
    const td_node_kind *k = r->node->kind;
    bool                fills = k->fills && k->fills(r->node);
    return fills ? (coming){r->by.met, r->by.met, r->by.met} : r->by;
}

static bool follow(reaching *w) {
    while (w->open.n) {
        reached now = w->all.v[w->open.v[--w->open.n]];
        coming  sent = sent_by(&now);
        for (int i = 0; i < now.node->n_edge; i++) {
            td_edge e = now.node->edge[i];
            bool    mute = w->ran && e.mute;
            coming  by = mute ? (coming){w->none, now.by.met, w->none} : sent;
            pass(w, e, by.from);
            if (!arrive(w, e, &by)) return false;
        }
    }
    return true;
}

/* Tangents that meet in a node which saves values: a backward from either, unless it
 * retains the graph, leaves nothing for the other. */
static void find_clashes(const reaching *w) {
    td_joint *j = w->r->to;
    for (int i = 0; i < w->all.n; i++) {
        const uint64_t *from = w->all.v[i].by.from;
        if (!td__node_saves(w->all.v[i].node)) continue;
        for (int k = 0; k < j->n_tangents; k++)
            if (td__set_has(from, k))
                td__set_join(j->tangents[k].clash, from, w->words);
    }
}

/* All sets of the joint graph, empty, in one block; false: no memory. */
static bool make_sets(td_joint *j, int words) {
    int       sets = 2 * j->n_tangents + 3 * j->n_targets + 1;
    size_t    n = (size_t)sets * (size_t)words;
    uint64_t *at = td__arena_zalloc(&j->arena, sizeof *at * n);
    for (int i = 0; at && i < j->n_tangents; i++, at += 2 * words) {
        j->tangents[i].clash = at;
        j->tangents[i].feeds = at + words;
    }
    for (int i = 0; at && i < j->n_targets; i++, at += 3 * words) {
        j->targets[i].from = at;
        j->targets[i].gives = at + words;
        j->targets[i].fills = at + 2 * words;
    }
    return at != NULL;
}

/* A view that is made anew outside; its history here is that of the op that made it.
 * One that a write has left behind has no place that anything passes. */
static bool is_view(const td_tensor *t) {
    return t && t->base && td__has_node(t) && !td__is_behind(t);
}

/* False after td__fail, or where there is no memory. Places that eager refuses to tell
 * are left out. */
static bool find_place(reaching *w, int i, td_tensor *t) {
    td_edge *at = &w->watch[i].at;
    w->watch[i].from =
        td__arena_zalloc(&w->arena, sizeof *w->watch->from * (size_t)w->words);
    if (!w->watch[i].from) return false;
    if (!td__edge_of(t, at)) {
        if (td_error(t->cx) != TD_E_GRAD) return false;
        td_clear(t->cx);
    }
    return !at->node || td__ptrmap_put(&w->watches, at->node, at->node);
}

static bool find_places(reaching *w) {
    const td_joint *j = w->r->to;
    bool            ok = true;
    w->n_watch = j->n_tangents + j->n_results;
    w->watch = td__zalloc(sizeof *w->watch * ((size_t)w->n_watch + 1));
    if (!w->watch) return w->n_watch = 0, false;
    for (int i = 0; ok && i < j->n_tangents; i++) ok = find_place(w, i, w->r->roots[i]);
    for (int i = 0; ok && i < j->n_results; i++) {
        td_tensor *t = w->r->out[i].kind == TD_K_TENSOR ? w->r->out[i].u.t : NULL;
        if (is_view(t)) ok = find_place(w, j->n_tangents + i, t);
    }
    return ok;
}

static void note_passes(const reaching *w) {
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

bool td__joint_reach(td_joint_run *r, const td_edge *to, bool ran) {
    int      words = td__set_words(r->to->n_tangents);
    reaching w = {.r = r, .to = to, .ran = ran, .words = words};
    coming   first = {0};
    w.none = td__arena_zalloc(&w.arena, sizeof *w.none * (size_t)words);
    bool ok = w.none && make_coming(&w, &first) && (ran || make_sets(r->to, words)) &&
              find_places(&w);
    for (int i = 0; ok && i < r->to->n_tangents; i++) {
        td__set_add(first.from, i);
        td__set_add(first.met, i);
        ok = arrive(&w, w.watch[i].at, &first) && follow(&w);
        first.from[i / 64] = first.met[i / 64] = 0;
    }
    if (ok && !ran) find_clashes(&w);
    if (ok) note_passes(&w);
    free_reaching(&w);
    return ok || (td_ok(r->cx) ? td__fail_memory(r->cx) : false);
}
