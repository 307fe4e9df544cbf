/* cse.c -- common subexpressions: a pure node equal to an earlier one is replaced by
 * it. Literals are equal when kind and bits are: 1, 1.0 and true differ. Random
 * ops never merge, nor do ops that show a size, for each has a symbol of its own.
 * Writes and edges of regions are barriers: nothing merges across them, nor does
 * anything that is written. Two results that are both seen outside stay two: the
 * caller could tell. */
#include "graph/graph_int.h"

typedef struct merging {
    td_graph  *g;
    td_arena   room;
    td_effects e;
    td_gval  **now;   /* by id: what a value has become */
    td_gnode **table; /* open addressing */
    uint64_t  *hash;  /* by node */
    int32_t   *home;  /* by storage: 1 + the one it has become; 0: itself */
    unsigned   mask;
} merging;

static td_gval *current(void *env, td_gval *v) {
    merging *m = env;
    return m->now[v->id] ? m->now[v->id] : v;
}

/* ---- equality ----------------------------------------------------------- */

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

bool td__gnode_equal(const td_gnode *a, const td_gnode *b) {
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out) return false;
    if (a->tags != b->tags) return false; /* a checkpoint wants them treated apart */
    if ((a->origin == TD_FROM_AGAIN) != (b->origin == TD_FROM_AGAIN)) return false;
    for (int i = 0; i < a->n_in; i++)
        if (!same_arg(&a->in[i], &b->in[i])) return false;
    return true;
}

/* ---- merging ------------------------------------------------------------ */

static bool is_mergeable(const merging *m, const td_gnode *n) {
    if (td__gnode_is_fixed(n) || td__gnode_shows(n)) return false;
    for (int i = 0; i < n->n_out; i++)
        if (m->e.written[n->out[i]->id]) return false;
    return true;
}

/* Would the caller notice? Fresh results may escape once; a view may escape twice
 * from one storage anyway, but not be the same tensor. */
static bool tells(const merging *m, const td_gnode *a, const td_gnode *b) {
    bool        view = td__opinfo(a->op)->view_of >= 0;
    const bool *seen = view ? m->e.returned : m->e.escapes;
    for (int i = 0; i < a->n_out; i++)
        if (seen[a->out[i]->id] && seen[b->out[i]->id]) return true;
    return false;
}

/* Views of what goes are views of what stays: their storage is its. */
static void share_home(merging *m, const td_look *from, const td_look *to) {
    if (!from || !to || from->storage < 0 || to->storage < 0) return;
    int32_t home = m->home[to->storage] ? m->home[to->storage] - 1 : to->storage;
    if (from->storage != home) m->home[from->storage] = 1 + home;
}

static bool renumber(merging *m, td_gval *v) {
    if (!v->look || v->look->storage < 0 || !m->home[v->look->storage]) return true;
    td_look l = *v->look;
    l.storage = m->home[l.storage] - 1;
    return (v->look = td__graph_look_of(m->g, l)) != NULL;
}

static void take_over(merging *m, td_gnode *first, td_gnode *n) {
    for (int i = 0; i < n->n_out; i++) {
        int from = n->out[i]->id, to = first->out[i]->id;
        share_home(m, n->out[i]->look, first->out[i]->look);
        m->now[from] = first->out[i];
        m->e.escapes[to] |= m->e.escapes[from];
        m->e.returned[to] |= m->e.returned[from];
    }
    n->dead = true;
}

static void merge(merging *m, td_gnode *n) {
    uint64_t h = td__hash(&n->op, sizeof n->op, 0);
    for (int i = 0; i < n->n_in; i++) h = hash_arg(&n->in[i], h);
    unsigned at = (unsigned)h & m->mask;
    m->hash[n->id] = h;
    for (; m->table[at]; at = (at + 1) & m->mask) {
        td_gnode *first = m->table[at];
        if (m->hash[first->id] != h || !td__gnode_equal(first, n) || tells(m, first, n))
            continue;
        take_over(m, first, n);
        return;
    }
    m->table[at] = n;
}

/* A barrier empties the table: only the slots used since the last one. */
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

bool td__graph_cse(td_graph *g) {
    merging m = {.g = g};
    size_t  size = 16;
    while (size < (size_t)g->nodes.n * 2) size *= 2;
    m.mask = (unsigned)size - 1;
    m.now = td__pass_room(g, &m.room, (size_t)g->n_values, sizeof *m.now);
    m.hash = td__pass_room(g, &m.room, (size_t)g->nodes.n, sizeof *m.hash);
    m.table = td__pass_room(g, &m.room, size, sizeof *m.table);
    m.home = td__pass_room(g, &m.room, (size_t)g->n_storages, sizeof *m.home);
    bool ok = m.now && m.hash && m.table && m.home &&
              td__effects_make(&m.e, g, &m.room) && merge_all(&m);
    if (ok) td__graph_pack(g);
    td__arena_free(&m.room);
    return ok;
}
