/* cut.c -- the min-cut: which values to save so that backward can be computed and the
 * least memory is saved. Undecided nodes and values are vertices; nodes that must not
 * be recomputed are the source, backward is the sink. An edge from a node to its
 * result has the cost of saving the result; an edge from a value to its reader is
 * infinite. A cut edge is a saved value. */
#include "part/part_int.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SOURCE, SINK, FIRST };
enum { NOWHERE = -1 };

/* The network; vertices by node and by value. */
typedef struct net {
    td_part *p;
    td_flow  f;
    int32_t *node, *value; /* vertices; NOWHERE: not in the network */
    int      shift;        /* weights are shifted right so that their sum fits */
} net;

/* ---- weights ------------------------------------------------------------ */

/* Is it a parameter, buffer or const, which stays in memory anyway? */
static bool is_static(const td_part *p, int input) {
    uint8_t kind = p->g->in_desc.v[input].kind;
    return kind == TD_D_PARAM || kind == TD_D_BUFFER || kind == TD_D_CONST;
}

/* Is it written to memory anyway, because a reader cannot fuse with it? */
static bool is_stored(const td_part *p, int v) {
    if (p->maker[v] < 0 || p->is_out[v] || p->is_grad[v]) return true;
    for (int u = p->user_at[v]; u < p->user_at[v + 1]; u++)
        if (!td__part_fuse(p, p->maker[v], p->users[u])) return true;
    return false;
}

/* The cost of saving value v, as docs/partition.md defines it. Views and values that
 * must be recomputed cannot be saved. Saving a parameter is free, and so is saving an
 * input of a step, which stays in memory until the step ends. */
int64_t td__part_weight(const td_part *p, int v) {
    static const int nearest = 1, farthest = 100;
    int              maker = p->maker[v], d = p->dist[v];
    if (maker < 0 && p->from >= 0) return 0; /* inputs live until the step ends */
    if (maker < 0 && p->o->free_params && is_static(p, v)) return 0;
    if (maker >= 0 && (p->view[maker] || p->must_recompute[maker])) return TD_FLOW_INF;
    d = d < nearest ? nearest : d > farthest ? farthest : d;
    double w = floor((double)p->bytes[v] * pow(1.1, d)) * (is_stored(p, v) ? 1 : 2);
    if (maker < 0 && p->written[v])
        w = 2 * w + 1; /* prefer saving a copy, even an empty one */
    return w < 1e17 ? (int64_t)w : (int64_t)1e17;
}

/* ---- vertices ----------------------------------------------------------- */

/* Does backward need v, and does forward compute it? */
static bool is_needed(const td_part *p, int v) {
    return p->dist[v] < TD_FAR && !p->bwd_only_v[v];
}

/* Assigns vertices to nodes: backward is the sink, banned nodes are the source. */
static void place_nodes(net *n, int *next) {
    const td_part *p = n->p;
    for (int i = 0; i < p->n_nodes; i++) {
        const td_gnode *node = p->g->nodes.v[i];
        bool            needed = false;
        for (int k = 0; k < node->n_out; k++) needed |= is_needed(p, node->out[k]->id);
        if (p->bwd_only[i]) n->node[i] = SINK;
        else if (!needed) n->node[i] = NOWHERE;
        else n->node[i] = p->reason[i] ? SOURCE : (*next)++;
    }
}

/* Assigns a vertex to value v: the sink if backward reads it. */
static int place_value(const net *n, int v, int *next) {
    const td_part *p = n->p;
    bool           any = false;
    if (!is_needed(p, v)) return NOWHERE;
    if (p->is_grad[v]) return SINK;
    for (int u = p->user_at[v]; u < p->user_at[v + 1]; u++) {
        int at = n->node[p->users[u]];
        if (at == SINK) return SINK;
        any |= at >= FIRST;
    }
    return any ? (*next)++ : NOWHERE;
}

static int source_of(const net *n, int v) {
    return n->p->maker[v] < 0 ? SOURCE : n->node[n->p->maker[v]];
}

/* ---- edges -------------------------------------------------------------- */

/* Finds the shift that keeps the sum of all finite weights below TD_FLOW_INF. */
static void choose_shift(net *n) {
    double sum = 0;
    for (int v = 0; v < n->p->n_values; v++) {
        int64_t w = n->value[v] == NOWHERE ? 0 : td__part_weight(n->p, v);
        if (w < TD_FLOW_INF) sum += (double)w;
    }
    for (; sum >= (double)(TD_FLOW_INF / 2); sum /= 2) n->shift++;
}

/* The edges of value v: from its maker, and to its readers. False: out of memory. */
static bool add_edges(net *n, int v) {
    const td_part *p = n->p;
    int            from = source_of(n, v), at = n->value[v];
    if (at == NOWHERE || from == SINK) return true;
    int64_t w = td__part_weight(p, v);
    bool    endless = w >= TD_FLOW_INF;
    if ((from != SOURCE || at != SINK || endless) &&
        !td__flow_edge(&n->f, from, at, endless ? w : w >> n->shift))
        return false;
    for (int u = p->user_at[v]; u < p->user_at[v + 1] && at >= FIRST; u++) {
        int to = n->node[p->users[u]];
        if (to >= FIRST && !td__flow_edge(&n->f, at, to, TD_FLOW_INF)) return false;
    }
    return true;
}

/* ---- failure ------------------------------------------------------------ */

/* A vertex for the error message. */
static void vertex_name(const net *n, int vertex, char *out, size_t cap) {
    const td_part *p = n->p;
    snprintf(out, cap, vertex == SOURCE ? "must not be recomputed" : "backward");
    for (int i = 0; i < p->n_nodes && vertex >= FIRST; i++)
        if (n->node[i] == vertex)
            snprintf(out, cap, "node %d (%.40s)", i,
                     td__row(p->g->nodes.v[i]->op)->name);
    for (int v = 0; v < p->n_values && vertex >= FIRST; v++)
        if (n->value[v] == vertex) snprintf(out, cap, "value %d", v);
}

/* by[v]: the predecessor of v on a shortest path of infinite edges from the source;
 * -1: not reached. */
static void find_infinite_path(const td_flow *f, int32_t *by) {
    int head = 0, tail = 0;
    for (int v = 0; v < f->n; v++) by[v] = -1;
    f->queue[tail++] = SOURCE;
    by[SOURCE] = SOURCE;
    while (head < tail) {
        int v = f->queue[head++];
        for (int k = f->first[v]; k < f->first[v + 1]; k++) {
            int e = f->list[k];
            if (e & 1 || f->residual[e] + f->residual[e ^ 1] < TD_FLOW_INF) continue;
            if (by[f->to[e]] >= 0) continue;
            by[f->to[e]] = v;
            f->queue[tail++] = f->to[e];
        }
    }
}

/* A bug of ours, never the user's: backward needs a value that can neither be saved
 * nor recomputed. Prints the path from backward to its cause. */
static bool fail_infinite(net *n) {
    char   text[600] = "", name[100];
    size_t used = 0;
    find_infinite_path(&n->f, n->f.level);
    int v = n->f.level[SINK] < 0 ? SOURCE : SINK;
    for (int steps = 0; v >= 0 && used < 400 && steps < 12; steps++) {
        vertex_name(n, v, name, sizeof name);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
                                 used ? " <- " : "", name);
        if (v == SOURCE) break;
        v = n->f.level[v];
    }
    return td__fail(
        n->p->cx, TD_E_BUILD,
        "partition: internal error: a value that backward needs can neither "
        "be saved nor recomputed: %s. Please report the joint graph",
        text);
}

/* ---- solving ------------------------------------------------------------ */

static bool on_source_side(const net *n, int vertex) {
    return vertex == SOURCE || (vertex >= FIRST && n->f.level[vertex] >= 0);
}

/* Builds the network, computes the flow and sets p->saved. False after td__fail. */
static bool solve(net *n) {
    td_part *p = n->p;
    int      next = FIRST;
    place_nodes(n, &next);
    for (int v = 0; v < p->n_values; v++) n->value[v] = place_value(n, v, &next);
    choose_shift(n);
    if (!td__flow_begin(&n->f, next)) return td__fail_memory(p->cx);
    for (int v = 0; v < p->n_values; v++)
        if (!add_edges(n, v)) return td__fail_memory(p->cx);
    int64_t flow = td__flow_run(&n->f, SOURCE, SINK);
    if (flow < 0) return td__fail_memory(p->cx);
    if (flow >= TD_FLOW_INF) return fail_infinite(n);
    for (int v = 0; v < p->n_values; v++)
        p->saved[v] = n->value[v] != NOWHERE && on_source_side(n, source_of(n, v)) &&
                      !on_source_side(n, n->value[v]);
    return true;
}

/* Solves the minimum cut and sets p->saved. */
bool td__part_cut(td_part *p) {
    net n = {.p = p};
    n.node = td__part_alloc(p, (size_t)p->n_nodes, sizeof *n.node);
    n.value = td__part_alloc(p, (size_t)p->n_values, sizeof *n.value);
    bool ok = n.node && n.value && solve(&n);
    td__flow_free(&n.f);
    return ok;
}

/* ---- consequences of p->saved --------------------------------------------- */

/* Backward needs v: it is passed if saved (or an input), else its maker is
 * recomputed. */
static void need(td_part *p, int v) {
    if (p->bwd_only_v[v] || p->passed[v]) return;
    if (p->maker[v] >= 0 && !p->saved[v]) {
        p->in_bwd[p->maker[v]] = true;
        return;
    }
    p->passed[v] = true;
    if (p->maker[v] >= 0) p->saved_bytes += p->bytes[v];
}

/* From the set of saved values: which nodes backward runs (in_bwd), which values are
 * passed to it, the bytes saved and the cost of recomputation. Nodes are visited from
 * last to first, so that readers come before what they read. */
void td__part_walk(td_part *p) {
    p->saved_bytes = 0;
    p->recompute_cost = 0;
    memcpy(p->in_bwd, p->bwd_only, (size_t)p->n_nodes);
    memset(p->passed, 0, (size_t)p->n_values);
    for (int v = 0; v < p->n_values; v++)
        if (p->is_grad[v]) need(p, v);
    for (int i = p->n_nodes - 1; i >= 0; i--) {
        if (!p->in_bwd[i]) continue;
        if (p->fw[i]) p->recompute_cost += p->cost[i];
        for (int k = p->read_at[i]; k < p->read_at[i + 1]; k++) need(p, p->reads[k]);
    }
}

/* Which nodes forward runs: those with effects, and those whose results are outputs,
 * saved, or read by such nodes. */
void td__part_walk_forward(td_part *p) {
    for (int i = p->n_nodes - 1; i >= 0; i--) {
        const td_gnode *n = p->g->nodes.v[i];
        bool            in = !p->bwd_only[i] && td__gnode_stays(n);
        for (int k = 0; k < n->n_out && !in; k++) {
            int v = n->out[k]->id;
            in = p->is_out[v] || p->passed[v];
            for (int u = p->user_at[v]; u < p->user_at[v + 1] && !in; u++)
                in = p->in_fwd[p->users[u]];
        }
        p->in_fwd[i] = in;
    }
}
