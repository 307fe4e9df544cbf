/* reuse.c -- a backward half for tangents some of which are missing. The program is
 * joined a second time with the engine starting at the other roots; this file finds
 * the values of that joint graph that the forward half already computes and saves.
 *
 * Two traces of one program compute the same forward values in the same order. So the
 * nodes of the second graph are appended to the forward half, and each that equals one
 * of its nodes is replaced by it; the rest is backward. */
#include "part/part_int.h"

#include <limits.h>
#include <string.h>

typedef struct pairing {
    const td_joint *j;           /* the second */
    td_graph       *g;           /* the forward half, then the new nodes */
    int             n;           /* nodes of the forward half */
    int             next;        /* of them: after the last one that was found */
    bool           *used;        /* by node of the forward half: it is paired already */
    uint64_t       *hash;        /* by node of the forward half */
    int            *slot, *link; /* a hash table of these nodes */
    bool           *late;        /* by id in j->g: depends on a tangent */
    td_gval       **twin;        /* by id in j->g */
    bool            tangent;     /* result of depends() */
} pairing;

/* Primals are the inputs of the forward half; tangents have no twin and make all nodes
 * that depend on them late. */
static void give_inputs(pairing *p) {
    for (int i = 0; i < p->j->g->inputs.n; i++) {
        const td_gval *v = p->j->g->inputs.v[i];
        p->late[v->id] = i >= p->j->n_primals;
        if (i < p->j->n_primals) p->twin[v->id] = p->g->inputs.v[i];
    }
}

static void depends(void *env, td_gval *v) {
    pairing *p = env;
    p->tangent |= p->late[v->id];
}

/* Puts the nodes of the forward half into a hash table: slot[] and link[] are 1 + the
 * index of a node. */
static void index_nodes(pairing *p) {
    for (int i = p->n - 1; i >= 0; i--) {
        p->hash[i] = td__gnode_hash(p->g->nodes.v[i]);
        int *slot = &p->slot[p->hash[i] % (unsigned)p->n];
        p->link[i] = *slot;
        *slot = i + 1;
    }
}

/* The first node of the forward half, from the last found on, that computes the same
 * and is not paired yet; if all are paired, the first that draws nothing. */
static td_gnode *find_equal(pairing *p, const td_gnode *now) {
    uint64_t h = td__gnode_hash(now);
    int      best = -1, least = INT_MAX;
    for (int at = p->slot[h % (unsigned)p->n] - 1; at >= 0; at = p->link[at] - 1) {
        int far = (at - p->next + p->n) % p->n + (p->used[at] ? p->n : 0);
        if (p->hash[at] != h || far >= least || (p->used[at] && td__gnode_draws(now)) ||
            !td__gnode_equal(p->g->nodes.v[at], now))
            continue;
        best = at;
        least = far;
    }
    if (best < 0) return NULL;
    p->used[best] = true;
    p->next = best + 1;
    return p->g->nodes.v[best];
}

/* Finds for a forward node of the new joint graph the equal node of the existing
 * forward half. Nodes that depend on a tangent have none. */
static td_gnode *pair(void *env, const td_gnode *was, td_gnode *now) {
    pairing *p = env;
    p->tangent = false;
    for (int k = 0; k < was->n_in; k++) td__garg_each(&was->in[k], depends, p);
    for (int k = 0; k < was->n_out; k++) p->late[was->out[k]->id] = p->tangent;
    if (p->tangent || p->n == 0) return now;
    td_gnode *n = find_equal(p, now);
    if (!n &&
        td__joint_is_input_copy(was)) { /* td__half_drop_input_copies has removed it */
        now->dead = true;
        p->twin[was->out[0]->id] = now->in[0].u.v;
    }
    return n ? n : now;
}

/* The call has written its inputs before backward runs. */
static void drop_effects(td_graph *g, int from, int to) {
    for (int i = from; i < to; i++) {
        td_gnode *n = g->nodes.v[i];
        if (n->origin == TD_FROM_FORWARD && td__opinfo(n->op)->writes) n->dead = true;
    }
}

/* Appends the new joint graph to a copy of the forward half, merging equal forward
 * nodes, so that both describe one computation. Effects are dropped: only values matter
 * here. */
static bool join(pairing *p) {
    const td_graph *from = p->j->g;
    drop_effects(p->g, 0, p->n);
    give_inputs(p);
    if (!td__graph_append(p->g, from, p->twin, pair, p)) return false;
    drop_effects(p->g, p->n, p->g->nodes.n);
    for (int i = p->j->n_fwd; i < from->outputs.n; i++) {
        td_garg a = from->outputs.v[i];
        if (a.kind == TD_G_VALUE) a.u.v = p->twin[a.u.v->id];
        if (!td__graph_output(p->g, a, from->out_desc.v[i])) return false;
    }
    td__graph_pack(p->g);
    return td__graph_fix_storages(p->g);
}

/* Extracts the backward half from the merged graph, with the saved values of h. */
static td_graph *cut(const td_halves *h, const td_joint *j, td_graph *g) {
    td_part_opts o = td__part_defaults();
    td_joint     over = {.cx = j->cx,
                         .g = g,
                         .n_primals = j->n_primals,
                         .n_fwd = h->fwd->outputs.n,
                         .n_tangents = j->n_tangents,
                         .n_targets = j->n_targets};
    td_part      p;
    o.cse = o.make_notes = false;
    td_graph *to =
        td__part_open(&p, &over, &o, 0) ? td__part_extract_backward(&p, h) : NULL;
    td__part_close(&p);
    return to;
}

/* Merge, then cut; the twin, late and used arrays share one allocation. */
static td_graph *reuse(const td_halves *h, const td_joint *j) {
    pairing   p = {.j = j, .g = td__graph_clone(h->fwd), .n = h->fwd->nodes.n};
    td_graph *to = NULL;
    if (!p.g) return NULL;
    size_t n = (size_t)j->g->n_values + 1;
    size_t m = (size_t)p.n + 1;
    p.twin = td__zalloc(sizeof *p.twin * n + n + m);
    p.hash = td__zalloc((sizeof *p.hash + 2 * sizeof *p.slot) * m);
    if (!p.twin || !p.hash) td__fail_memory(j->cx);
    else {
        p.late = (bool *)(p.twin + n);
        p.used = p.late + n;
        p.slot = (int *)(void *)(p.hash + m);
        p.link = p.slot + m;
        index_nodes(&p);
        if (join(&p)) to = cut(h, j, p.g);
    }
    td__free((void *)p.twin);
    td__free(p.hash);
    td__graph_drop(p.g);
    return to;
}

td_graph *td__part_reuse(const td_halves *h, const td_joint *j) {
    if (!h->plain) return reuse(h, j);
    td_graph *bwd = reuse(h->plain, j);
    td_graph *g = bwd ? td__part_unpacked(h, bwd) : NULL;
    td__graph_drop(bwd);
    return g;
}
