/* reach.c -- which tangents lead to which gradients, and which of them share what a
 * backward uses up. What the engine gives depends on
 * the tape and not on the elements: a gradient may be zeros that no tangent has a
 * part in, and is there only when a tangent arrives that leads to it. */
#include "joint/joint_int.h"

typedef struct reached {
    td_node *node;
    uint64_t from; /* bit per tangent */
} reached;

typedef struct reaching {
    td_joint_run  *r;
    const td_edge *to; /* by target */
    td_ptrmap      at; /* node: its number, plus one */
    TD_VEC(reached) all;
    TD_VEC(int) open; /* numbers of nodes whose edges are to be followed */
    bool ran;         /* edges that are mute are known */
} reaching;

/* Gradients end where they are asked for. */
static bool ends(reaching *w, td_edge e, uint64_t from) {
    td_joint *j = w->r->to;
    bool      end = false;
    for (int i = 0; i < j->n_targets; i++)
        if (w->to[i].node == e.node && w->to[i].nr == e.nr) {
            if (w->ran) j->targets[i].gives |= from;
            else j->targets[i].from |= from;
            end = true;
        }
    return end;
}

static bool arrive(reaching *w, td_edge e, uint64_t from) {
    if (!e.node || ends(w, e, from)) return true;
    uintptr_t nr = (uintptr_t)td__ptrmap_get(&w->at, e.node);
    if (!nr) {
        reached one = {e.node, 0};
        if (!td__vec_push(&w->all, one)) return false;
        nr = (uintptr_t)w->all.n;
        if (!td__ptrmap_put(&w->at, e.node, (void *)nr)) return false; /* NOLINT */
    }
    reached *to = &w->all.v[nr - 1];
    if ((to->from & from) == from) return true;
    to->from |= from;
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
        uint64_t from = w->all.v[i].from;
        if (!td__node_saves(w->all.v[i].node)) continue;
        for (int k = 0; k < j->n_tangents; k++)
            if (k >= 64 || from >> k & 1) j->tangents[k].clash |= from;
    }
}

bool td__joint_reach(td_joint_run *r, const td_edge *to, bool ran) {
    reaching w = {.r = r, .to = to, .ran = ran};
    bool     ok = true;
    for (int i = 0; ok && i < r->to->n_tangents; i++) {
        td_edge e = {0};
        if (!td__edge_of(r->roots[i], &e)) { /* eager fails there, too */
            ok = td_error(r->cx) == TD_E_GRAD;
            if (ok) td_clear(r->cx);
            continue;
        }
        ok = arrive(&w, e, i < 64 ? (uint64_t)1 << i : UINT64_MAX) && follow(&w);
        if (e.node) td__node_drop(e.node);
    }
    if (ok && !ran) find_clashes(&w);
    td__ptrmap_free(&w.at);
    td__vec_free(&w.all);
    td__vec_free(&w.open);
    return ok || (td_ok(r->cx) ? td__fail_memory(r->cx) : false);
}
