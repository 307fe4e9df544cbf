/* peak.c -- the peak of live bytes when the graphs run node by node. A storage lives
 * from the node that makes it to the last reader of it or of its views; outputs live
 * to the end. The same simulation serves finished partitions and candidates. */
#include "part/part_int.h"

#include <limits.h>
#include <string.h>

/* The state of the simulation of one graph. */
typedef struct running {
    const td_graph *g;
    const int32_t  *order; /* node indices; NULL: all, in graph order */
    int             n;
    const bool     *incoming; /* by value: an input, even if a node makes it; or NULL */
    int32_t        *root;     /* by value: the value whose storage it shares */
    int32_t        *reads;    /* by root: reads still to come */
    const int64_t  *bytes;    /* by value */
    bool           *ours;     /* by root: counted in alive */
    int64_t         alive, most;
    int             first, last; /* nodes that count for most */
    td_peak_fn     *each;        /* called for every node; or NULL */
    void           *env;
    bool            bwd;
} running;

static const td_gnode *node_at(const running *r, int i) {
    return r->g->nodes.v[r->order ? r->order[i] : i];
}

/* One more read of v's storage. */
static void retain(running *r, int v) { r->reads[r->root[v]]++; }

static void count_read(void *env, td_gval *v) { retain(env, v->id); }

/* One read is done; the last one frees the storage. */
static void end_read(void *env, td_gval *v) {
    running *r = env;
    int      root = r->root[v->id];
    if (--r->reads[root] > 0 || !r->ours[root]) return;
    r->alive -= r->bytes[root];
    r->ours[root] = false;
}

static bool is_incoming(const running *r, int v) {
    return r->incoming && r->incoming[v];
}

/* Computes roots and counts reads. */
static void prepare(running *r) {
    for (int v = 0; v < r->g->n_values; v++) r->root[v] = v;
    for (int i = 0; i < r->n; i++) {
        const td_gnode *n = node_at(r, i);
        int             of = td__part_shares(n);
        for (int k = 0; k < n->n_out; k++) {
            int v = n->out[k]->id;
            if (of >= 0 && !is_incoming(r, v)) r->root[v] = r->root[of];
        }
        for (int k = 0; k < n->n_in; k++) td__garg_each(&n->in[k], count_read, r);
    }
}

/* Allocates the node's results. A result that is also incoming is computed and thrown
 * away. */
static void make_results(running *r, const td_gnode *n) {
    int64_t waste = 0;
    for (int k = 0; k < n->n_out; k++) {
        int v = n->out[k]->id;
        if (r->root[v] != v) continue;
        if (is_incoming(r, v)) {
            waste += r->bytes[v];
            continue;
        }
        r->alive += r->bytes[v];
        r->ours[v] = true;
    }
    if (n->id < r->first || n->id > r->last) return;
    if (r->alive + waste > r->most) r->most = r->alive + waste;
}

/* Simulates the nodes in order: results are allocated, then storages whose last reader
 * this node was are freed. Views have no bytes of their own (`root` is their base). */
static void run(running *r) {
    for (int i = 0; i < r->n; i++) {
        const td_gnode *n = node_at(r, i);
        make_results(r, n);
        if (r->each) r->each(r->env, n, r->bwd, r->alive);
        for (int k = 0; k < n->n_in; k++) td__garg_each(&n->in[k], end_read, r);
        for (int k = 0; k < n->n_out; k++) { /* free unread results */
            int v = n->out[k]->id;
            if (r->root[v] != v || is_incoming(r, v) || r->reads[v] > 0) continue;
            r->alive -= r->bytes[v];
            r->ours[v] = false;
        }
    }
}

/* Arrays of a simulation: base of each view, remaining readers, and whether the value's
 * bytes count as ours. */
static bool open_run(running *r, const td_graph *g, td_arena *a) {
    size_t n = (size_t)g->n_values + 1;
    *r = (running){.g = g, .n = g->nodes.n, .last = INT_MAX};
    r->root = td__arena_alloc(a, sizeof *r->root * n);
    r->reads = td__arena_zalloc(a, sizeof *r->reads * n);
    r->ours = td__arena_zalloc(a, n);
    return r->root && r->reads && r->ours;
}

/* Bytes of the outputs that the caller retains, each storage once. */
static int64_t retained_outputs(running *r, int n_fwd) {
    int64_t sum = 0;
    for (int i = 0; i < n_fwd; i++) {
        const td_garg *a = &r->g->outputs.v[i];
        int            root = a->kind == TD_G_VALUE ? r->root[a->u.v->id] : -1;
        if (root < 0 || !r->ours[root]) continue;
        r->ours[root] = false;
        sum += r->bytes[root];
    }
    return sum;
}

/* A saved value that is no output is freed after its last reader. */
static void add_incoming(running *r, int v) {
    r->alive += r->bytes[v];
    r->ours[v] = true;
    if (r->alive > r->most) r->most = r->alive;
}

/* ---- finished partitions -------------------------------------------------- */

/* Prepares the simulation of a finished graph. False: out of memory. */
static bool open_half(running *r, const td_graph *g, const td_part_opts *o,
                      td_arena *a) {
    int64_t *bound = td__arena_zalloc(a, sizeof *bound * ((size_t)g->dims.n + 1));
    int64_t *bytes = td__arena_zalloc(a, sizeof *bytes * ((size_t)g->n_values + 1));
    if (!bound || !bytes || !open_run(r, g, a)) return false;
    td__part_sizes(g, o, bound, bytes);
    r->bytes = bytes;
    prepare(r);
    for (int i = 0; i < g->outputs.n; i++)
        td__garg_each(&g->outputs.v[i], count_read, r);
    return true;
}

/* The callback, and the arena of a simulation. */
typedef struct listener {
    td_peak_fn *each;
    void       *env;
    td_arena    arena;
} listener;

/* Both graphs in turn. False: out of memory. */
static bool run_halves(const td_halves *h, const td_part_opts *o, td_peak *out,
                       listener *l) {
    running r;
    if (!open_half(&r, h->fwd, o, &l->arena)) return false;
    r.each = l->each, r.env = l->env;
    run(&r);
    *out = (td_peak){.fwd = r.most};
    int64_t retained = retained_outputs(&r, h->n_fwd);
    if (!h->bwd) return true;
    if (!open_half(&r, h->bwd, o, &l->arena)) return false;
    r.each = l->each, r.env = l->env, r.bwd = true;
    r.alive = r.most = retained;
    int states = h->n_saved - h->n_saved_syms - h->n_draws;
    for (int i = 0; i < h->n_saved; i++)
        if (h->saved[i].from == TD_SAVED_FRESH &&
            (i < states || i >= states + h->n_draws))
            add_incoming(&r, i);
    run(&r);
    out->bwd = r.most;
    return true;
}

bool td__peak_walk(const td_halves *h, const td_part_opts *opts, td_peak *out,
                   td_peak_fn *each, void *env) {
    listener l = {.each = each, .env = env};
    bool     ok = run_halves(h, opts, out, &l);
    out->most = ok && out->bwd > out->fwd ? out->bwd : out->fwd;
    td__arena_free(&l.arena);
    return ok || td__fail_memory(h->cx);
}

bool td__peak_bytes(const td_halves *h, const td_part_opts *opts, td_peak *out) {
    return td__peak_walk(h, opts, out, NULL, NULL);
}

/* ---- candidates ------------------------------------------------------------ */

/* The forward part of a candidate; returns its peak. */
static int64_t run_forward(td_part *p, running *r, int32_t *order) {
    r->bytes = p->bytes;
    r->order = order;
    r->first = p->first, r->last = p->last;
    r->n = 0;
    for (int i = 0; i < p->n_nodes; i++)
        if (p->in_fwd[i]) order[r->n++] = i;
    prepare(r);
    for (int i = 0; i < p->j->n_fwd; i++)
        td__garg_each(&p->g->outputs.v[i], count_read, r);
    for (int v = 0; v < p->n_values; v++)
        if (p->passed[v] && !p->is_out[v]) retain(r, v);
    run(r);
    return r->most;
}

/* The backward part; `retained` bytes of outputs stay live. */
static int64_t run_backward(td_part *p, running *r, int32_t *order, int64_t retained) {
    r->bytes = p->bytes;
    r->order = order;
    r->incoming = p->passed;
    r->first = p->first, r->last = p->last;
    r->alive = r->most = retained;
    prepare(r);
    for (int v = 0; v < p->n_values; v++)
        if (p->is_grad[v]) retain(r, v);
    for (int v = 0; v < p->n_values; v++)
        if (p->passed[v] && p->maker[v] >= 0 && !p->is_out[v]) add_incoming(r, v);
    run(r);
    return r->most;
}

/* The higher of the peaks of forward and backward. Forward outputs stay alive during
 * backward, because the caller has them. */
bool td__part_peak(td_part *p, int64_t *peak) {
    td_arena arena = {0};
    running  r;
    int32_t *order = td__arena_alloc(&arena, sizeof *order * ((size_t)p->n_nodes + 1));
    bool     ok = order && open_run(&r, p->g, &arena);
    if (ok) {
        *peak = run_forward(p, &r, order);
        int64_t retained = retained_outputs(&r, p->j->n_fwd), late = 0;
        ok = open_run(&r, p->g, &arena) && (r.n = td__part_order(p, order)) >= 0;
        if (ok) late = run_backward(p, &r, order, retained);
        if (late > *peak) *peak = late;
    }
    td__arena_free(&arena);
    return ok || td__fail_memory(p->cx);
}
