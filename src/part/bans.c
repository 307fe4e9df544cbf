/* bans.c -- which forward nodes are not recomputed in backward, and why. First by
 * properties of the node: effects, randomness, heavy ops, results that backward reads
 * from memory anyway, reductions. Then by two heuristics over the graph: readers far
 * apart, and long chains. Only forward nodes are banned: all others run once anyway. */
#include "part/part_int.h"

enum { CHAIN = 100, LOOK_AHEAD = 1000 };

/* ---- one node ----------------------------------------------------------- */

/* Does a backward node that cannot fuse with node i read it, directly or through
 * views? todo: scratch of LOOK_AHEAD entries. */
static bool is_materialized(const td_part *p, int i, int32_t *todo) {
    int n = 0;
    if (p->view[i]) return false;
    todo[n++] = i;
    for (int at = 0; at < n; at++) {
        const td_gnode *node = p->g->nodes.v[todo[at]];
        for (int k = 0; k < node->n_out; k++) {
            int v = node->out[k]->id;
            for (int u = p->user_at[v]; u < p->user_at[v + 1]; u++) {
                int by = p->users[u];
                if (!p->fw[by] && !td__part_fuse(p, i, by)) return true;
                if (p->view[by] && n < LOOK_AHEAD) todo[n++] = by;
            }
        }
    }
    return false;
}

/* Does it read more than four times the bytes it produces? */
static bool is_reduction(const td_part *p, int i) {
    const td_gnode *n = p->g->nodes.v[i];
    double          made = 0, read = 0;
    for (int k = 0; k < n->n_out; k++) made += (double)p->bytes[n->out[k]->id];
    for (int k = p->read_at[i]; k < p->read_at[i + 1]; k++)
        read += (double)p->bytes[p->reads[k]];
    return 4 * made < read;
}

/* The reason not to recompute node i by itself; TD_REASON_FREE: none. */
static td_reason reason_to_save(const td_part *p, int i, td_bans b, int32_t *todo) {
    td_op op = p->g->nodes.v[i]->op;
    if (p->firm[i] || p->must_recompute[i] || p->view[i]) return (td_reason)p->firm[i];
    if (td__row(op)->work) return TD_REASON_HEAVY;
    if (!b.aggressive && !td__op_is_cheap(op)) return TD_REASON_NOT_CHEAP;
    if (b.materialized && is_materialized(p, i, todo)) return TD_REASON_MATERIALIZED;
    return b.reductions && is_reduction(p, i) ? TD_REASON_REDUCTION : TD_REASON_FREE;
}

/* Is it a forward node without a reason that is not a view and has no policy? */
static bool may_ban(const td_part *p, int i) {
    return p->fw[i] && !p->reason[i] && !p->must_recompute[i] && !p->view[i];
}

/* ---- a queue of nodes, the earliest first ------------------------------- */

/* A binary heap of node << 1 | fused; pop returns the earliest node. */
typedef struct queue {
    int32_t *v; /* a binary heap of node << 1 | fused */
    int      n, cap;
} queue;

/* A full queue drops x: each node is queued once per search, and cap is n_nodes. */
static void push(queue *q, int32_t x) {
    if (q->n == q->cap) return;
    int i = q->n++;
    for (; i > 0 && q->v[(i - 1) / 2] > x; i = (i - 1) / 2) q->v[i] = q->v[(i - 1) / 2];
    q->v[i] = x;
}

/* Removes the smallest node number from the heap: nodes are visited in program
 * order. */
static int32_t pop(queue *q) {
    int32_t top = q->v[0], last = q->v[--q->n];
    int     i = 0;
    for (;;) {
        int kid = 2 * i + 1;
        if (kid + 1 < q->n && q->v[kid + 1] < q->v[kid]) kid++;
        if (kid >= q->n || q->v[kid] >= last) break;
        q->v[i] = q->v[kid];
        i = kid;
    }
    if (q->n) q->v[i] = last;
    return top;
}

/* A search over forward readers in graph order. */
typedef struct search {
    td_part *p;
    queue    q;
    int32_t *seen; /* by node: the search that queued it last */
    int32_t  start;
} search;

/* Queues the forward readers of value v up to node `last`. i: its maker, -1 for an
 * input. */
static void push_readers(search *l, int i, int v, int last) {
    const td_part *p = l->p;
    for (int u = p->user_at[v]; u < p->user_at[v + 1]; u++) {
        int by = p->users[u];
        if (!p->fw[by] || by > last || l->seen[by] == l->start) continue;
        l->seen[by] = l->start;
        push(&l->q, by << 1 | (i < 0 || td__part_fuse(p, i, by)));
    }
}

static void push_all(search *l, int i, int last) {
    const td_gnode *n = l->p->g->nodes.v[i];
    for (int k = 0; k < n->n_out; k++) push_readers(l, i, n->out[k]->id, last);
}

/* ---- readers far apart -------------------------------------------------- */

/* The first node that cannot be fused on the way from v's readers to node `last`. */
static int fused_until(search *l, int v, int last) {
    int steps = 0;
    l->q.n = 0;
    l->start++;
    push_readers(l, -1, v, last);
    while (l->q.n) {
        int32_t x = pop(&l->q);
        if (!(x & 1) || ++steps > LOOK_AHEAD) return x >> 1;
        push_all(l, x >> 1, last);
    }
    return last;
}

/* v has several forward readers. Those after the first break in fusion would need v,
 * or its recomputation, long after: they are banned. */
static void ban_far_apart(search *l, int v) {
    td_part *p = l->p;
    int      first = -1, last = -1;
    for (int u = p->user_at[v]; u < p->user_at[v + 1]; u++) {
        if (!p->fw[p->users[u]]) continue;
        if (first < 0) first = p->users[u];
        last = p->users[u];
    }
    if (first == last) return;
    int until = fused_until(l, v, last);
    for (int u = p->user_at[v]; u < p->user_at[v + 1]; u++) {
        int  by = p->users[u];
        bool fuse = p->maker[v] >= 0 && td__part_fuse(p, p->maker[v], by);
        if (by > until && fuse && may_ban(p, by)) p->reason[by] = TD_REASON_FAR_APART;
    }
}

/* ---- long chains -------------------------------------------------------- */

/* Queues fused readers that no search has seen. */
static void push_chain(search *l, int i) {
    const td_part  *p = l->p;
    const td_gnode *n = p->g->nodes.v[i];
    for (int k = 0; k < n->n_out; k++) {
        int v = n->out[k]->id;
        for (int u = p->user_at[v]; u < p->user_at[v + 1]; u++) {
            int by = p->users[u];
            if (!p->fw[by] || p->reason[by] || l->seen[by] || !td__part_fuse(p, i, by))
                continue;
            l->seen[by] = 1;
            push(&l->q, by << 1);
        }
    }
}

/* Bans the node where a chain of fused nodes from `start` narrows to one node after
 * more than CHAIN nodes, so that recomputation does not follow it to the beginning. */
static void ban_long_chain(search *l, int start) {
    td_part *p = l->p;
    l->q.n = 0;
    push(&l->q, start << 1);
    while (l->q.n) {
        int i = pop(&l->q) >> 1;
        if (l->q.n == 0 && i > start + CHAIN && may_ban(p, i)) {
            p->reason[i] = TD_REASON_LONG_CHAIN;
            return;
        }
        push_chain(l, i);
    }
}

/* The bans that the options switch on. */
td_bans td__part_usual_bans(const td_part_opts *o) {
    bool soft = !o->aggressive;
    return (td_bans){.aggressive = o->aggressive,
                     .far_apart = o->ban_far_apart && soft,
                     .long_chains = o->ban_long_chains && soft,
                     .materialized = o->ban_materialized && soft,
                     .reductions = o->ban_reductions};
}

/* Fills p->reason: why each forward node is never recomputed, TD_REASON_FREE if it may
 * be. The bans by distance come after the others and read them. */
bool td__part_bans(td_part *p, td_bans b) {
    search   l = {.p = p};
    int32_t *todo = td__part_alloc(p, LOOK_AHEAD, sizeof *todo);
    l.q.cap = p->n_nodes;
    l.q.v = td__part_alloc(p, (size_t)p->n_nodes, sizeof *l.q.v);
    l.seen = td__part_alloc(p, (size_t)p->n_nodes, sizeof *l.seen);
    if (!todo || !l.q.v || !l.seen) return false;
    for (int i = 0; i < p->n_nodes; i++)
        p->reason[i] = p->fw[i] ? (uint8_t)reason_to_save(p, i, b, todo) : p->firm[i];
    for (int v = 0; v < p->n_values && b.far_apart; v++)
        if (p->maker[v] >= 0 && p->fw[p->maker[v]]) ban_far_apart(&l, v);
    for (int i = 0; i < p->n_nodes; i++) l.seen[i] = 0;
    for (int i = 0; i < p->n_nodes && b.long_chains; i++) {
        if (!p->fw[i] || l.seen[i]) continue;
        l.seen[i] = 1;
        ban_long_chain(&l, i);
    }
    return true;
}
