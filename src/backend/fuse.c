/* fuse.c -- decides which points share loops. First each reader tries to join the
 * groups of the values it reads, in graph order; then groups that read the same bytes
 * try to share the read. */
#include "backend/native.h"

/* The point, with loops of its own group, that computes the bytes an operand reads; -1:
 * none. */
static int maker_of(const td_lowered *l, const td_access *a) {
    int p = a->root ? l->point_of[a->root->id] : -1;
    return p >= 0 && !l->point.v[p].leaf && l->point.v[p].group >= 0 ? p : -1;
}

/* The called node whose result the operand alone reads; NULL: none. */
static const td_gnode *call_of(const td_lowered *l, const td_access *a) {
    bool call = a->root && a->root->node && l->point_of[a->root->id] < 0;
    return call && a->root->n_uses == 1 ? a->root->node : NULL;
}

enum { LARGE = 1 << 18 }; /* bytes */

/* At least LARGE bytes? Not known for symbolic sizes: false. */
static bool is_large(const td_gtype *l) {
    int64_t n = l ? td__dtype_bytes[l->dtype] : 0;
    for (int d = 0; l && d < l->rank; d++) {
        if (td__dim_is_sym(l->size[d])) return false;
        n *= l->size[d];
    }
    return n >= LARGE;
}

/* Would fusing i with p, which it reads, keep the results of calls alive? p reads one
 * such result and could run before the call whose result i reads too. That is the sum
 * of products of an unrolled loop: fused, all products would be live at once. */
static bool delays_many_calls(const td_lowered *l, const td_point *p,
                              const td_point *i) {
    bool reads_call = false, waits = false;
    if (!is_large(i->v->type)) return false;
    for (int k = 0; k < p->n_in; k++) reads_call |= call_of(l, &p->in[k]) != NULL;
    for (int k = 0; reads_call && k < i->n_in; k++) {
        const td_gnode *n = call_of(l, &i->in[k]);
        waits |= n && n->id > p->pos;
    }
    return waits;
}

static td_origin origin_of(const td_point *p) {
    return p->v->node ? (td_origin)p->v->node->origin : TD_FROM_FORWARD;
}

/* Is point i computed again, from p that is stored, behind a heavy op? Fused with p its
 * value would be stored beside it. */
static bool is_behind(const td_lowered *l, const td_point *p, const td_point *i) {
    if (origin_of(i) != TD_FROM_AGAIN || origin_of(p) == TD_FROM_AGAIN) return false;
    for (int at = p->pos + 1; at < i->pos; at++) {
        const td_gnode *n = l->g->nodes.v[at];
        if (n->kind != TD_N_OP || td__row(n->op)->work) return true;
    }
    return false;
}

/* Tries to fuse point i with each point it reads. */
static void join_makers(td_lowered *l, int i) {
    for (int k = 0; k < l->point.v[i].n_in; k++) {
        int p = maker_of(l, &l->point.v[i].in[k]);
        if (p >= 0 && !delays_many_calls(l, &l->point.v[p], &l->point.v[i]) &&
            !is_behind(l, &l->point.v[p], &l->point.v[i]))
            td__group_join(l, p, i, k);
    }
}

/* The readers of a root are a list; each tries the few before it. */
enum { MOST_TRIES = 4 };

typedef struct reader {
    int point, operand;
    int before; /* the previous reader of the same root; -1: none */
} reader;

typedef TD_VEC(reader) readers;

/* Tries to fuse point i with earlier readers of the same root. False: out of memory. */
static bool share_reads(td_lowered *l, readers *all, int *last, int i) {
    for (int k = 0; k < l->point.v[i].n_in; k++) {
        const td_access *a = &l->point.v[i].in[k];
        if (!a->root || maker_of(l, a) >= 0) continue;
        int *head = &last[a->root->id], at = *head;
        for (int n = 0; at >= 0 && n < MOST_TRIES; n++, at = all->v[at].before)
            if (td__group_share(l, all->v[at].point, all->v[at].operand, i, k)) break;
        if (!td__vec_push(all, ((reader){i, k, *head}))) return false;
        *head = all->n - 1;
    }
    return true;
}

/* Joins groups that read the same tensor: it is then loaded once. `last` is the last
 * reader of each value so far. */
static bool share_all(td_lowered *l) {
    size_t  n = (size_t)l->g->n_values + 1;
    int    *last = td__arena_alloc(&l->arena, sizeof *last * n);
    readers all = {0};
    bool    ok = last != NULL;
    for (size_t i = 0; ok && i < n; i++) last[i] = -1;
    for (int i = 0; ok && i < l->point.n; i++)
        if (l->point.v[i].group >= 0) ok = share_reads(l, &all, last, i);
    td__vec_free(&all);
    return ok;
}

/* Sets td_point.stored: a call, an output or another group reads the value. */
static void find_stored(td_lowered *l) {
    for (int i = 0; i < l->point.n; i++) {
        td_point *p = &l->point.v[i];
        p->stored |= p->group >= 0 && l->needed[p->v->id];
        for (int k = 0; p->group >= 0 && k < p->n_in; k++) {
            int m = maker_of(l, &p->in[k]);
            if (m >= 0 && l->point.v[m].group != p->group) l->point.v[m].stored = true;
        }
    }
}

/* Merges makers with their readers, in program order, then readers of the same
 * tensor. Last: which values are stored at all, because a reader outside their nest
 * needs them. */
bool td__fuse(td_lowered *l) {
    for (int i = 0; i < l->point.n; i++)
        if (l->point.v[i].group >= 0) join_makers(l, i);
    if (!share_all(l) || l->products.failed) return td__fail_memory(l->g->cx);
    find_stored(l);
    return true;
}
