/* order_bwd.c -- the order of the backward graph's nodes. Backward nodes stay in
 * order; a recomputed node goes just before its first reader, so that it is live as
 * briefly as possible. */
#include "part/part_int.h"

#include <stdlib.h>

/* The state of ordering. */
typedef struct ordering {
    td_part *p;
    bool    *done; /* by node: it is in order[], or being added */
    int32_t *order, *todo;
    int      n;
} ordering;

static int by_position(const void *x, const void *y) {
    int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

/* Appends node i after everything it needs that is not in order[] yet, in graph
 * order. */
static void place(ordering *o, int i) {
    const td_part *p = o->p;
    int            from = o->n, tail = o->n;
    if (o->done[i]) return;
    o->done[i] = true;
    o->order[tail++] = i;
    for (int head = from; head < tail; head++) {
        int at = o->order[head];
        for (int k = p->read_at[at]; k < p->read_at[at + 1]; k++) {
            int v = p->reads[k], m = p->maker[v];
            if (m < 0 || p->passed[v] || o->done[m]) continue;
            o->done[m] = true;
            o->order[tail++] = m;
        }
    }
    if (tail - from > 1)
        qsort(o->order + from, (size_t)(tail - from), sizeof *o->order, by_position);
    o->n = tail;
}

/* The order in which backward runs: each recomputed node just before its first reader,
 * so that it is alive for a short time. Nodes that write come last. Returns the number
 * of nodes, -1 after td__fail. */
int td__part_order(td_part *p, int32_t *order) {
    ordering o = {.p = p, .order = order};
    o.done = td__part_alloc(p, (size_t)p->n_nodes, sizeof *o.done);
    if (!o.done) return -1;
    for (int i = 0; i < p->n_nodes; i++) { /* writes come last */
        if (p->bwd_only[i] && !td__opinfo(p->g->nodes.v[i]->op)->writes) place(&o, i);
    }
    for (int v = 0; v < p->n_values; v++)
        if (p->is_grad[v] && p->maker[v] >= 0 && !p->passed[v]) place(&o, p->maker[v]);
    for (int i = 0; i < p->n_nodes; i++) /* then what the writes read */
        for (int k = p->read_at[i]; k < p->read_at[i + 1] && p->bwd_only[i]; k++) {
            int v = p->reads[k];
            if (p->maker[v] >= 0 && !p->passed[v]) place(&o, p->maker[v]);
        }
    for (int i = 0; i < p->n_nodes; i++)
        if (p->bwd_only[i]) place(&o, i);
    return o.n;
}
