/* flow.c -- maximal flow and the minimal cut nearest to the source, by Dinic's
 * algorithm on flat arrays: levels by breadth-first search, then augmenting paths
 * that rise one level per edge, with an explicit stack. Deterministic: the same edges
 * in the same order give the same cut. */
#include "part/part_int.h"

#include <string.h>

bool td__flow_begin(td_flow *f, int n_vertices) {
    *f = (td_flow){.n = n_vertices};
    return true;
}

void td__flow_free(td_flow *f) {
    td__free(f->from);
    td__free(f->to);
    td__free(f->residual);
    td__free(f->first);
    *f = (td_flow){0};
}

/* Doubles the edge arrays. False: out of memory; the old arrays stay valid. */
static bool grow(td_flow *f) {
    int      cap = f->cap ? f->cap * 2 : 1024;
    size_t   n = (size_t)cap;
    int32_t *from = td__realloc(f->from, n * sizeof *from);
    if (from) f->from = from;
    int32_t *to = td__realloc(f->to, n * sizeof *to);
    if (to) f->to = to;
    int64_t *residual = td__realloc(f->residual, n * sizeof *residual);
    if (residual) f->residual = residual;
    if (!from || !to || !residual) return false;
    f->cap = cap;
    return true;
}

/* An edge and its reverse are neighbours in the arrays: the reverse of edge e is e ^
 * 1. */
bool td__flow_edge(td_flow *f, int from, int to, int64_t cap) {
    if (from == to || cap <= 0) return true;
    if (f->n_edges + 2 > f->cap && !grow(f)) return false;
    int e = f->n_edges;
    f->from[e] = from, f->to[e] = to, f->residual[e] = cap;
    f->from[e + 1] = to, f->to[e + 1] = from, f->residual[e + 1] = 0;
    f->n_edges += 2;
    return true;
}

/* Sorts edges by their start vertex; that and the work arrays are one block. */
static bool arrange(td_flow *f) {
    size_t   n = (size_t)f->n;
    int32_t *block = td__zalloc(sizeof *block * (5 * (n + 1) + (size_t)f->n_edges));
    if (!block) return false;
    f->first = block;
    f->at = f->first + n + 1;
    f->level = f->at + n + 1;
    f->queue = f->level + n + 1;
    f->path = f->queue + n + 1;
    f->list = f->path + n + 1;
    for (int e = 0; e < f->n_edges; e++) f->first[f->from[e] + 1]++;
    for (size_t v = 0; v < n; v++) f->first[v + 1] += f->first[v];
    memcpy(f->at, f->first, sizeof *f->at * n);
    for (int e = 0; e < f->n_edges; e++) f->list[f->at[f->from[e]]++] = e;
    return true;
}

/* Computes levels in the residual graph; is the sink reachable? */
static bool measure(td_flow *f, int source, int sink) {
    int head = 0, tail = 0;
    for (int v = 0; v < f->n; v++) f->level[v] = -1;
    f->level[source] = 0;
    f->queue[tail++] = source;
    while (head < tail) {
        int v = f->queue[head++];
        for (int k = f->first[v]; k < f->first[v + 1]; k++) {
            int e = f->list[k], to = f->to[e];
            if (f->residual[e] <= 0 || f->level[to] >= 0) continue;
            f->level[to] = f->level[v] + 1;
            f->queue[tail++] = to;
        }
    }
    return f->level[sink] >= 0;
}

/* Pushes as much as fits along the path. Returns the depth up to which the path still
 * has capacity. */
static int augment(td_flow *f, int depth, int64_t *total) {
    int64_t least = INT64_MAX;
    int     good = depth;
    for (int i = 0; i < depth; i++)
        if (f->residual[f->path[i]] < least) least = f->residual[f->path[i]];
    for (int i = depth - 1; i >= 0; i--) {
        f->residual[f->path[i]] -= least;
        f->residual[f->path[i] ^ 1] += least;
        if (f->residual[f->path[i]] == 0) good = i;
    }
    *total += least;
    return good;
}

/* All augmenting paths for the current levels (a blocking flow). */
static void saturate(td_flow *f, int source, int sink, int64_t *total) {
    int depth = 0, v = source;
    memcpy(f->at, f->first, sizeof *f->at * (size_t)f->n);
    while (*total < TD_FLOW_INF) {
        if (v == sink) {
            depth = augment(f, depth, total);
            v = f->from[f->path[depth]];
            continue;
        }
        bool moved = false;
        for (; f->at[v] < f->first[v + 1]; f->at[v]++) {
            int e = f->list[f->at[v]], to = f->to[e];
            if (f->residual[e] <= 0 || f->level[to] != f->level[v] + 1) continue;
            f->path[depth++] = e;
            v = to;
            moved = true;
            break;
        }
        if (moved) continue;
        if (depth == 0) return;
        v = f->from[f->path[--depth]];
        f->at[v]++;
    }
}

/* Dinic: levels by breadth-first search, then a blocking flow, until the sink is not
 * reached. -1: out of memory; TD_FLOW_INF: there is no finite cut. */
int64_t td__flow_run(td_flow *f, int source, int sink) {
    int64_t total = 0;
    if (!arrange(f)) return -1;
    while (total < TD_FLOW_INF && measure(f, source, sink))
        saturate(f, source, sink, &total);
    return total;
}
