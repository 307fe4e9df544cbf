/* order_bwd.c -- the order of the backward half. Its own nodes stay in the order
 * they have; what is computed again stands just before the first of them that needs
 * it, so that it does not lie in memory since the beginning. */
#include "part/part_int.h"

#include <stdlib.h>

typedef struct ordering {
    td_part *p;
    bool    *done; /* by node: has its place, or is on its way to one */
    int32_t *order, *todo;
    int      n;
} ordering;

static int by_position(const void *x, const void *y) {
    int32_t a = *(const int32_t *)x, b = *(const int32_t *)y;
    return (a > b) - (a < b);
}

/* Node i and all it needs that has no place yet, as they stood. */
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
            if (m < 0 || p->kept[v] || o->done[m]) continue;
            o->done[m] = true;
            o->order[tail++] = m;
        }
    }
    if (tail - from > 1)
        qsort(o->order + from, (size_t)(tail - from), sizeof *o->order, by_position);
    o->n = tail;
}

int td__part_order(td_part *p, int32_t *order) {
    ordering o = {.p = p, .order = order};
    o.done = td__part_room(p, (size_t)p->n_nodes, sizeof *o.done);
    if (!o.done) return -1;
    for (int i = 0; i < p->n_nodes; i++) { /* writes come last, as they stood */
        if (p->late[i] && !td__opinfo(p->g->nodes.v[i]->op)->writes) place(&o, i);
    }
    for (int v = 0; v < p->n_values; v++)
        if (p->is_grad[v] && p->maker[v] >= 0 && !p->kept[v]) place(&o, p->maker[v]);
    for (int i = 0; i < p->n_nodes; i++) /* all they read comes before them */
        for (int k = p->read_at[i]; k < p->read_at[i + 1] && p->late[i]; k++) {
            int v = p->reads[k];
            if (p->maker[v] >= 0 && !p->kept[v]) place(&o, p->maker[v]);
        }
    for (int i = 0; i < p->n_nodes; i++)
        if (p->late[i]) place(&o, i);
    return o.n;
}
