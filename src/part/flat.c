/* flat.c -- the working copy of a joint graph: without dead nodes, and as flat arrays
 * of indices, which all later decisions use. */
#include "part/part_int.h"

#include <limits.h>
#include <string.h>

/* Zeroed memory for n + 1 items: prefix sums of n counts need one more. NULL after
 * td__fail. */
void *td__part_alloc(td_part *p, size_t n, size_t item) {
    void *got = td__arena_zalloc(&p->arena, (n + 1) * item);
    if (!got) td__fail_memory(p->cx);
    return got;
}

/* Empties the node list of the working copy and returns it, so that nodes can be
 * appended in another order. */
td_gnode **td__part_take_nodes(td_part *p) {
    td_gnode **all = td__part_alloc(p, (size_t)p->n_nodes, sizeof *all);
    for (int i = 0; all && i < p->n_nodes; i++) all[i] = p->g->nodes.v[i];
    if (all) p->g->nodes.n = 0;
    return all;
}

void td__part_close(td_part *p) {
    td__graph_drop(p->g);
    td__arena_free(&p->arena);
}

/* ---- dead code ------------------------------------------------------------ */

static void mark(void *env, td_gval *v) { ((bool *)env)[v->id] = true; }

/* Dead code elimination that keeps all inputs and constants in place, unlike
 * td__graph_dce. */
static bool sweep(td_part *p) {
    td_graph *g = p->g;
    bool     *live = td__part_alloc(p, (size_t)g->n_values, sizeof *live);
    if (!live) return false;
    for (int i = 0; i < g->outputs.n; i++) td__garg_each(&g->outputs.v[i], mark, live);
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        td_gnode *n = g->nodes.v[i];
        bool      needed = td__gnode_stays(n);
        for (int k = 0; k < n->n_out; k++) needed |= live[n->out[k]->id];
        n->dead = !needed;
        for (int k = 0; k < n->n_in && needed; k++)
            td__garg_each(&n->in[k], mark, live);
    }
    td__graph_pack(g);
    return true;
}

/* ---- flat arrays -------------------------------------------------------- */

/* The state of listing reads. */
typedef struct reader {
    td_part *p;
    int      n;    /* entries so far */
    int      from; /* first entry of the current node */
} reader;

static void count_read(void *env, td_gval *v) {
    reader *r = env;
    (void)v;
    r->n++;
}

/* A node that reads a value twice has one entry. */
static void add_read(void *env, td_gval *v) {
    reader *r = env;
    for (int i = r->from; i < r->n; i++)
        if (r->p->reads[i] == v->id) return;
    r->p->reads[r->n++] = v->id;
}

/* Fills reads and read_at. False after td__fail; likewise below. */
static bool flatten_reads(td_part *p) {
    const td_graph *g = p->g;
    reader          r = {.p = p};
    for (int i = 0; i < p->n_nodes; i++)
        for (int k = 0; k < g->nodes.v[i]->n_in; k++)
            td__garg_each(&g->nodes.v[i]->in[k], count_read, &r);
    p->read_at = td__part_alloc(p, (size_t)p->n_nodes + 1, sizeof *p->read_at);
    p->reads = td__part_alloc(p, (size_t)r.n, sizeof *p->reads);
    if (!p->read_at || !p->reads) return false;
    r.n = 0;
    for (int i = 0; i < p->n_nodes; i++) {
        p->read_at[i] = r.from = r.n;
        for (int k = 0; k < g->nodes.v[i]->n_in; k++)
            td__garg_each(&g->nodes.v[i]->in[k], add_read, &r);
    }
    p->read_at[p->n_nodes] = r.n;
    return true;
}

/* Fills users and user_at by counting sort. */
static bool flatten_users(td_part *p) {
    int n = p->read_at[p->n_nodes];
    p->user_at = td__part_alloc(p, (size_t)p->n_values + 1, sizeof *p->user_at);
    p->users = td__part_alloc(p, (size_t)n, sizeof *p->users);
    int32_t *next = td__part_alloc(p, (size_t)p->n_values, sizeof *next);
    if (!p->user_at || !p->users || !next) return false;
    for (int i = 0; i < n; i++) p->user_at[p->reads[i] + 1]++;
    for (int v = 0; v < p->n_values; v++) p->user_at[v + 1] += p->user_at[v];
    memcpy(next, p->user_at, sizeof *next * (size_t)p->n_values);
    for (int i = 0; i < p->n_nodes; i++)
        for (int k = p->read_at[i]; k < p->read_at[i + 1]; k++)
            p->users[next[p->reads[k]]++] = i;
    return true;
}

/* The value whose storage the node's result shares (a view, or an op that may return
 * its argument); -1: none. */
int td__part_shares(const td_gnode *n) {
    int at = td__opinfo(n->op)->view_of;
    if (at < 0 && td__row(n->op)->flags & TD_OPF_SHARE) at = 0;
    return at >= 0 && at < n->n_in && n->in[at].kind == TD_G_VALUE ? n->in[at].u.v->id
                                                                   : -1;
}

/* Fills the arrays by value, and views. */
static bool flatten_values(td_part *p) {
    const td_graph *g = p->g;
    size_t          nv = (size_t)p->n_values, nn = (size_t)p->n_nodes;
    p->maker = td__part_alloc(p, nv, sizeof *p->maker);
    p->root = td__part_alloc(p, nv, sizeof *p->root);
    p->bytes = td__part_alloc(p, nv, sizeof *p->bytes);
    p->bound = td__part_alloc(p, (size_t)g->dims.n, sizeof *p->bound);
    p->is_out = td__part_alloc(p, nv, 1);
    p->is_grad = td__part_alloc(p, nv, 1);
    p->view = td__part_alloc(p, nn, 1);
    p->written = td__part_alloc(p, nv, 1);
    if (!p->maker || !p->root || !p->bytes || !p->bound || !p->is_out || !p->is_grad ||
        !p->view || !p->written)
        return false;
    for (int i = 0; i < g->inputs.n; i++) p->maker[i] = -1, p->root[i] = i;
    for (int i = 0; i < p->n_nodes; i++) {
        const td_gnode *n = g->nodes.v[i];
        int             of = td__part_shares(n);
        bool typed = td__row(n->op)->flags & TD_OPF_TYPED; /* computes nothing */
        p->view[i] = (of >= 0 || typed) && p->o->recompute_views;
        for (int k = 0; k < n->n_out; k++) {
            p->maker[n->out[k]->id] = i;
            p->root[n->out[k]->id] = of >= 0 ? p->root[of] : n->out[k]->id;
        }
    }
    for (int i = 0; i < g->outputs.n; i++)
        td__garg_each(&g->outputs.v[i], mark, i < p->j->n_fwd ? p->is_out : p->is_grad);
    td__part_sizes(g, p->o, p->bound, p->bytes);
    return true;
}

/* Allocates the choice and computes costs. */
static bool flatten_choice(td_part *p) {
    size_t nv = (size_t)p->n_values, nn = (size_t)p->n_nodes;
    p->cost = td__part_alloc(p, nn, sizeof *p->cost);
    p->reason = td__part_alloc(p, nn, 1);
    p->saved = td__part_alloc(p, nv, 1);
    p->in_bwd = td__part_alloc(p, nn, 1);
    p->in_fwd = td__part_alloc(p, nn, 1);
    p->passed = td__part_alloc(p, nv, 1);
    if (!p->cost || !p->reason || !p->saved || !p->in_bwd || !p->in_fwd || !p->passed)
        return false;
    for (int i = 0; i < p->n_nodes; i++) p->cost[i] = td__part_cost(p, i);
    return true;
}

static bool flatten(td_part *p) {
    p->n_values = p->g->n_values;
    p->n_nodes = p->g->nodes.n;
    p->n_primals = p->j->n_primals;
    return flatten_reads(p) && flatten_users(p) && flatten_values(p) &&
           flatten_choice(p) && td__part_sets(p);
}

/* Makes a cleaned working copy of the joint graph and its flat arrays. run: the number
 * of a backward inside a step, 0 for a joint graph. Call td__part_close also after a
 * failure. */
bool td__part_open(td_part *p, const td_joint *j, const td_part_opts *o, int run) {
    *p = (td_part){.cx = j->cx, .j = j, .o = o, .from = -1, .last = INT_MAX};
    p->g = td__graph_clone(j->g);
    if (!p->g || !sweep(p)) return false;
    if (o->cse && !td__graph_cse(p->g)) return false;
    if (run && !td__part_find_run(p, run)) return true;
    if (!flatten(p)) return false;
    td__part_tags(p);
    return true;
}
