/* cse.c -- common subexpression elimination: a pure node equal to an earlier
 * one is replaced by it. Literals are equal if kind and bits are: 1, 1.0 and
 * true differ.
 *
 * Never merged: ops that draw random numbers; ops with a data-dependent size,
 * because each has its own symbol; new tensors that are written. Writes and region
 * edges are barriers. Two results that both escape stay two tensors, because the caller
 * could observe the difference. */
#include "graph/graph_int.h"

/* State of the pass. */
typedef struct merging {
    td_graph  *g;
    td_arena   scratch; /* memory of the pass */
    td_effects e;       /* aliases and writes */
    td_gval  **now;     /* by value id: its replacement; NULL: itself */
    td_gnode **table;   /* hash table of nodes since the last barrier; linear probing */
    uint64_t  *hash;    /* by node id */
    int32_t   *new_storage; /* by storage number: 1 + its replacement; 0: itself */
    unsigned   mask;        /* slots of the table - 1 */
} merging;

/* For td__garg_map: the replacement of a value. */
static td_gval *current(void *env, td_gval *v) {
    merging *m = env;
    return m->now[v->id] ? m->now[v->id] : v;
}

/* ---- equality ----------------------------------------------------------- */

/* Equal arguments have equal hashes. Floats count by their bits, so that 0.0 and -0.0
 * differ. */
static uint64_t hash_arg(const td_garg *a, uint64_t h) {
    struct {
        uint64_t kind, n, bits;
    } key = {a->kind, a->n, 0};
    switch ((td_gkind)a->kind) {
    case TD_G_VALUE: key.bits = (uint64_t)a->u.v->id; break;
    case TD_G_INT:
    case TD_G_SYM:
    case TD_G_BOOL: key.bits = (uint64_t)a->u.i; break;
    case TD_G_FLOAT: memcpy(&key.bits, &a->u.f, sizeof key.bits); break;
    case TD_G_DTYPE: key.bits = (uint64_t)a->u.dt; break;
    case TD_G_INTS: key.bits = td__hash(a->u.ints, sizeof(int64_t) * a->n, 0); break;
    case TD_G_STR: key.bits = td__hash(a->u.s, strlen(a->u.s), 0); break;
    case TD_G_LIST:
        for (uint32_t i = 0; i < a->n; i++) h = hash_arg(&a->u.list[i], h);
        break;
    case TD_G_NONE:
    case TD_G_GRAPH: break;
    }
    return td__hash(&key, sizeof key, h);
}

/* Exact equality, by the same rules as hash_arg; nested graphs are compared node by
 * node. */
static bool same_arg(const td_garg *a, const td_garg *b) {
    if (a->kind != b->kind || a->n != b->n) return false;
    switch ((td_gkind)a->kind) {
    case TD_G_NONE: return true;
    case TD_G_VALUE: return a->u.v == b->u.v;
    case TD_G_INT:
    case TD_G_SYM:
    case TD_G_BOOL: return a->u.i == b->u.i;
    case TD_G_FLOAT: return !memcmp(&a->u.f, &b->u.f, sizeof a->u.f);
    case TD_G_DTYPE: return a->u.dt == b->u.dt;
    case TD_G_INTS:
        return !a->n || !memcmp(a->u.ints, b->u.ints, sizeof(int64_t) * a->n);
    case TD_G_STR: return !strcmp(a->u.s, b->u.s);
    case TD_G_LIST:
        for (uint32_t i = 0; i < a->n; i++)
            if (!same_arg(&a->u.list[i], &b->u.list[i])) return false;
        return true;
    case TD_G_GRAPH: return td__graph_equal(a->u.g, b->u.g, NULL, 0);
    }
    return false;
}

/* Would both compute the same? Nodes of different checkpoint policies differ, and so do
 * recomputed nodes from the first ones: merging them would undo the recomputation. */
uint64_t td__gnode_hash(const td_gnode *n) {
    uint64_t h = td__hash(&n->op, sizeof n->op, 0);
    for (int i = 0; i < n->n_in; i++) h = hash_arg(&n->in[i], h);
    return h;
}

bool td__gnode_equal(const td_gnode *a, const td_gnode *b) {
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out) return false;
    if (a->tags != b->tags) return false; /* different checkpoint policies */
    if ((a->origin == TD_FROM_AGAIN) != (b->origin == TD_FROM_AGAIN)) return false;
    for (int i = 0; i < a->n_in; i++)
        if (!same_arg(&a->in[i], &b->in[i])) return false;
    return true;
}

/* ---- merging ------------------------------------------------------------ */

/* May the node be merged at all? Equal views of what is written are equal before and
 * after the write, which reaches both. Views without elements are not: an op may write
 * one and read the other, and refuses to write what it reads. */
static bool is_mergeable(const merging *m, const td_gnode *n) {
    if (td__gnode_is_fixed(n) || td__gnode_shows(n)) return false;
    const bool *no = td__row(n->op)->flags & TD_OPF_VIEW ? m->e.moved : m->e.written;
    for (int i = 0; i < n->n_out; i++) {
        const td_gval *v = n->out[i];
        if (no[v->id]) return false;
        if (m->e.written[v->id] && v->type && td__gtype_is_empty(v->type)) return false;
    }
    return true;
}

/* Could the caller observe the merge? Two new tensors that both escape would become
 * one; two views of one storage alias anyway, so only two that are both returned
 * matter. */
static bool is_observable(const merging *m, const td_gnode *a, const td_gnode *b) {
    bool        view = td__opinfo(a->op)->view_of >= 0;
    const bool *seen = view ? m->e.returned : m->e.escapes;
    for (int i = 0; i < a->n_out; i++)
        if (seen[a->out[i]->id] && seen[b->out[i]->id]) return true;
    return false;
}

/* Gives the storage of a merged result the number of the remaining one's, for views of
 * it. */
static void merge_storage(merging *m, const td_gtype *from, const td_gtype *to) {
    if (!from || !to || from->storage < 0 || to->storage < 0) return;
    int32_t new_storage =
        m->new_storage[to->storage] ? m->new_storage[to->storage] - 1 : to->storage;
    if (from->storage != new_storage) m->new_storage[from->storage] = 1 + new_storage;
}

static bool renumber(merging *m, td_gval *v) {
    if (!v->type || v->type->storage < 0 || !m->new_storage[v->type->storage])
        return true;
    td_gtype l = *v->type;
    l.storage = m->new_storage[l.storage] - 1;
    return (v->type = td__graph_type_of(m->g, l)) != NULL;
}

/* Replaces n by `first`. */
static void replace_node(merging *m, td_gnode *first, td_gnode *n) {
    for (int i = 0; i < n->n_out; i++) {
        int from = n->out[i]->id, to = first->out[i]->id;
        merge_storage(m, n->out[i]->type, first->out[i]->type);
        m->now[from] = first->out[i];
        m->e.escapes[to] |= m->e.escapes[from];
        m->e.returned[to] |= m->e.returned[from];
    }
    n->dead = true;
}

/* Replaces n by an equal earlier node, or adds it to the table. */
static void merge(merging *m, td_gnode *n) {
    uint64_t h = td__gnode_hash(n);
    unsigned at = (unsigned)h & m->mask;
    m->hash[n->id] = h;
    for (; m->table[at]; at = (at + 1) & m->mask) {
        td_gnode *first = m->table[at];
        if (m->hash[first->id] != h || !td__gnode_equal(first, n) ||
            is_observable(m, first, n))
            continue;
        replace_node(m, first, n);
        return;
    }
    m->table[at] = n;
}

/* At a barrier: empties the slots used by nodes[from..to), not the whole table,
 * so that the pass stays linear. */
static void forget(merging *m, int from, int to) {
    for (int i = from; i < to; i++) {
        const td_gnode *n = m->g->nodes.v[i];
        if (n->kind != TD_N_OP) continue;
        for (unsigned at = (unsigned)m->hash[n->id] & m->mask; m->table[at];
             at = (at + 1) & m->mask)
            m->table[at] = NULL;
    }
}

static bool is_barrier(const td_gnode *n) {
    return n->kind != TD_N_OP || td__opinfo(n->op)->writes;
}

/* One pass in order. A barrier (a write, a region) ends the lifetime of the nodes
 * before it: values computed before and after it may differ. */
static bool merge_all(merging *m) {
    int since = 0;
    for (int i = 0; i < m->g->nodes.n; i++) {
        td_gnode *n = m->g->nodes.v[i];
        n->id = i;
        if (n->dead) continue;
        for (int k = 0; k < n->n_in; k++) td__garg_map(&n->in[k], current, m);
        for (int k = 0; k < n->n_out; k++)
            if (!renumber(m, n->out[k])) return false;
        if (is_barrier(n)) {
            forget(m, since, i);
            since = i;
        } else if (is_mergeable(m, n)) merge(m, n);
    }
    for (int i = 0; i < m->g->outputs.n; i++)
        td__garg_map(&m->g->outputs.v[i], current, m);
    return true;
}

/* Merges equal nodes without effects; later ones are replaced by the first, whose
 * storage their views get. */
bool td__graph_cse(td_graph *g) {
    merging m = {.g = g};
    size_t  size = 16;
    while (size < (size_t)g->nodes.n * 2) size *= 2;
    m.mask = (unsigned)size - 1;
    m.now = td__pass_alloc(g, &m.scratch, (size_t)g->n_values, sizeof *m.now);
    m.hash = td__pass_alloc(g, &m.scratch, (size_t)g->nodes.n, sizeof *m.hash);
    m.table = td__pass_alloc(g, &m.scratch, size, sizeof *m.table);
    m.new_storage =
        td__pass_alloc(g, &m.scratch, (size_t)g->n_storages, sizeof *m.new_storage);
    bool ok = m.now && m.hash && m.table && m.new_storage &&
              td__effects_make(&m.e, g, &m.scratch) && merge_all(&m);
    if (ok) td__graph_pack(g);
    td__arena_free(&m.scratch);
    return ok;
}
