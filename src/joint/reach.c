/* reach.c -- which tangents lead to which gradients, and which of them share what a
 * backward uses up. What the engine gives depends on
 * the tape and not on the elements: a gradient may be zeros that no tangent has a
 * part in, and is there only when a tangent arrives that leads to it. */
#include "joint/joint_int.h"

typedef struct reached {
    td_node  *node;
    uint64_t *from; /* a set of tangents */
} reached;

typedef struct reaching {
    td_joint_run  *r;
    int            words;
    td_arena       arena;
    const td_edge *to; /* by target */
    td_ptrmap      at; /* node: its number, plus one */
    TD_VEC(reached) all;
    TD_VEC(int) open; /* numbers of nodes whose edges are to be followed */
    bool ran;         /* edges that are mute are known */
} reaching;

/* Gradients end where they are asked for. */
static bool ends(reaching *w, td_edge e, const uint64_t *from) {
    td_joint *j = w->r->to;
    bool      end = false;
    for (int i = 0; i < j->n_targets; i++)
        if (w->to[i].node == e.node && w->to[i].nr == e.nr) {
            td_target *t = &j->targets[i];
            td__set_join(w->ran ? t->gives : t->from, from, w->words);
            end = true;
        }
    return end;
}

static bool arrive(reaching *w, td_edge e, const uint64_t *from) {
    if (!e.node || ends(w, e, from)) return true;
    uintptr_t nr = (uintptr_t)td__ptrmap_get(&w->at, e.node);
    if (!nr) {
        size_t  size = sizeof *from * (size_t)w->words;
        reached one = {e.node, td__arena_zalloc(&w->arena, size)};
        if (!one.from || !td__vec_push(&w->all, one)) return false;
        nr = (uintptr_t)w->all.n;
        if (!td__ptrmap_put(&w->at, e.node, (void *)nr)) return false; /* NOLINT */
    }
    reached *to = &w->all.v[nr - 1];
    if (!td__set_leaves(from, to->from, w->words)) return true;
    td__set_join(to->from, from, w->words);
    return td__vec_push(&w->open, (int)nr - 1);
}

static bool follow(reaching *w) {
    while (w->open.n) {
        reached now = w->all.v[w->open.v[--w->open.n]];
        for (int i = 0; i < now.node->n_edge; i++) {
            td_edge e = now.node->edge[i];
            if (!(w->ran && e.mute) && !arrive(w, e, now.from)) return false;
        }
    }
    return true;
}

/* Tangents that meet in a node which saves values: a backward from either, unless it
 * retains the graph, leaves nothing for the other. */
static void find_clashes(const reaching *w) {
    td_joint *j = w->r->to;
    for (int i = 0; i < w->all.n; i++) {
        const uint64_t *from = w->all.v[i].from;
        if (!td__node_saves(w->all.v[i].node)) continue;
        for (int k = 0; k < j->n_tangents; k++)
            if (td__set_has(from, k))
                td__set_join(j->tangents[k].clash, from, w->words);
    }
}

/* All sets of the joint graph, empty, in one block; false: no memory. */
static bool make_sets(td_joint *j, int words) {
    size_t    n = (size_t)(j->n_tangents + 2 * j->n_targets + 1) * (size_t)words;
    uint64_t *at = td__arena_zalloc(&j->arena, sizeof *at * n);
    for (int i = 0; at && i < j->n_tangents; i++, at += words)
        j->tangents[i].clash = at;
    for (int i = 0; at && i < j->n_targets; i++, at += 2 * words) {
        j->targets[i].from = at;
        j->targets[i].gives = at + words;
    }
    return at != NULL;
}

bool td__joint_reach(td_joint_run *r, const td_edge *to, bool ran) {
    int       words = td__set_words(r->to->n_tangents);
    reaching  w = {.r = r, .to = to, .ran = ran, .words = words};
    uint64_t *one = td__arena_zalloc(&w.arena, sizeof *one * (size_t)words);
    bool      ok = one && (ran || make_sets(r->to, words));
    for (int i = 0; ok && i < r->to->n_tangents; i++) {
        td_edge e = {0};
        if (!td__edge_of(r->roots[i], &e)) { /* eager fails there, too */
            ok = td_error(r->cx) == TD_E_GRAD;
            if (ok) td_clear(r->cx);
            continue;
        }
        td__set_add(one, i);
        ok = arrive(&w, e, one) && follow(&w);
        one[i / 64] = 0;
        if (e.node) td__node_drop(e.node);
    }
    if (ok && !ran) find_clashes(&w);
    td__arena_free(&w.arena);
    td__ptrmap_free(&w.at);
    td__vec_free(&w.all);
    td__vec_free(&w.open);
    return ok || (td_ok(r->cx) ? td__fail_memory(r->cx) : false);
}
