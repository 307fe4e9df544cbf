/* compute_again.c -- values that are computed again where they are read. A norm
 * computes (x - mean) * rstd, and so does its derivative, behind many products: as one
 * value it would be stored and read. But x is stored anyway, as the next sum of a
 * residual reads it, so the derivative's loop computes the value from x, and nothing
 * stores it. Each op runs on the same numbers, so every bit is the same. */
#include "backend/native.h"

#include <string.h>

/* MOST: nodes that are computed again; SMALL: a value with so many fewer elements is of
 * rows; LEAST: bytes of a value that is worth it. */
enum { MOST = 4, SMALL = 16, LEAST = 1 << 20 };

typedef struct again {
    td_graph *g;
    int32_t  *apart; /* by node: products and other calls up to it */
    td_gval  *root;  /* what is computed again */
    td_gval  *from;  /* the stored value of as many elements; NULL: none yet */
    td_gnode *node[MOST];
    td_gnode *made[MOST]; /* their copies */
    int       n;
    int       first; /* the first reader behind a call */
} again;

static const td_gtype *tensor_of(const td_gval *v) {
    return v->type && v->type->kind == TD_K_TENSOR ? v->type : NULL;
}

/* The number of elements; -1: not known. */
static int64_t elements(const td_gval *v) {
    const td_gtype *l = tensor_of(v);
    int64_t         n = l && !td__dims_any_sym(l->size, l->rank) ? 1 : -1;
    for (int d = 0; n >= 0 && d < l->rank; d++) n *= l->size[d];
    return n;
}

static int64_t bytes(const td_gval *v) {
    return elements(v) * td__dtype_bytes[v->type->dtype];
}

static bool has_flag(const td_gnode *n, uint32_t flag) {
    return n->kind == TD_N_OP && td__row(n->op)->flags & flag;
}

/* Is it arithmetic, without a quotient or a function? */
static bool is_light(const td_gnode *n) {
    const char *expr = has_flag(n, TD_OPF_POINTWISE) ? td__row(n->op)->expr : NULL;
    return expr && n->n_out == 1 && !strpbrk(expr, "(/");
}

/* Is it behind a call that `of` is before? */
static bool is_behind(const again *a, const td_gnode *n, const td_gnode *of) {
    return a->apart[n->id] > a->apart[of->id];
}

/* Is v stored whatever is done here? Then a call makes it, or a loop far behind reads
 * it beside the one that makes it. */
static bool is_stored(const again *a, const td_gval *v) {
    if (!has_flag(v->node, TD_OPF_POINTWISE | TD_OPF_VIEW)) return true;
    for (const td_guse *u = v->uses; u; u = u->next)
        if (!u->node || is_behind(a, u->node, v->node)) return true;
    return false;
}

static bool collect(again *a, td_gnode *n);

/* May the value be read where the root is read now? Inputs may be written by then. */
static bool take(again *a, td_gval *v) {
    int64_t n = elements(v);
    if (!v->node || n < 0) return false;
    if (n <= elements(a->root) / SMALL) return true;
    if (!is_stored(a, v)) return collect(a, v->node);
    bool one = (!a->from || a->from == v) && n == elements(a->root);
    a->from = v;
    return one && bytes(v) <= bytes(a->root);
}

/* Adds the node behind those that compute what it reads. */
static bool collect(again *a, td_gnode *n) {
    for (int i = 0; i < a->n; i++)
        if (a->node[i] == n) return true;
    if (!is_light(n)) return false;
    for (int i = 0; i < n->n_in; i++) {
        const td_garg *x = &n->in[i];
        if (x->kind == TD_G_LIST || (x->kind == TD_G_VALUE && !take(a, x->u.v)))
            return false;
    }
    if (a->n == MOST) return false;
    a->node[a->n++] = n;
    return true;
}

/* Are there loops that read v beside the one that makes it, and one behind calls? */
static bool is_read_far(again *a, const td_gval *v) {
    int32_t far = -1;
    bool    near = false;
    a->first = a->g->nodes.n;
    for (const td_guse *u = v->uses; u; u = u->next) {
        if (!u->node || !has_flag(u->node, TD_OPF_POINTWISE)) return false;
        if (!is_behind(a, u->node, v->node)) {
            near = true;
            continue;
        }
        if (far >= 0 && far != a->apart[u->node->id]) return false;
        far = a->apart[u->node->id];
        if (u->node->id < a->first) a->first = u->node->id;
    }
    return near && far >= 0;
}

static td_gval *read_copy(void *env, td_gval *v) {
    const again *a = env;
    for (int i = 0; i < a->n; i++)
        if (a->node[i]->out[0] == v && a->made[i]) return a->made[i]->out[0];
    return v;
}

/* Puts copies before the first far reader, and lets those read them. */
static bool compute_again(again *a) {
    td_graph  *g = a->g;
    td_gnode **all;
    int        readers = g->nodes.n;
    for (int i = 0; i < a->n; i++) {
        td_gnode *n = a->node[i], *c = td__graph_op(g, n->op, n->in, n->n_in, 1);
        td_gtype  l = *n->out[0]->type;
        if (!c) return false;
        for (int k = 0; k < c->n_in; k++) td__garg_map(&c->in[k], read_copy, a);
        td__gnode_stand_for(c, g->nodes.v[a->first]);
        c->origin = TD_FROM_AGAIN; /* its loop is that of its readers (fuse.c) */
        l.storage = g->n_storages++;
        if (!(c->out[0]->type = td__graph_type_of(g, l))) return false;
        a->made[i] = c;
    }
    all = g->nodes.v;
    for (int i = a->first; i < readers; i++)
        for (int k = 0; k < all[i]->n_in; k++)
            td__garg_map(&all[i]->in[k], read_copy, a);
    memmove(all + a->first + a->n, all + a->first,
            sizeof *all * (size_t)(readers - a->first));
    memcpy(all + a->first, a->made, sizeof *all * (size_t)a->n);
    return true;
}

/* Fills a->apart for the nodes as they are now. */
static bool count_calls(again *a) {
    td_graph *g = a->g;
    int32_t   n = 0;
    a->apart = td__arena_alloc(&g->arena, sizeof *a->apart * (size_t)(g->nodes.n + 1));
    if (!a->apart) return td__fail_memory(g->cx);
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *at = g->nodes.v[i];
        n += at->kind != TD_N_OP || td__row(at->op)->work != NULL;
        a->apart[i] = n;
    }
    return true;
}

bool td__compute_again(td_graph *g) {
    bool changed = true;
    for (int i = 0; i < g->nodes.n; i++) {
        again a = {.g = g};
        if (changed && !td__graph_index(g)) return td__fail_memory(g->cx);
        changed = false;
        td_gnode *n = g->nodes.v[i];
        if (!is_light(n) || !tensor_of(n->out[0]) || !n->out[0]->type->device) continue;
        a.root = n->out[0];
        if (elements(a.root) < 0 || bytes(a.root) < LEAST) continue;
        if (!count_calls(&a)) return false;
        changed = is_read_far(&a, a.root) && collect(&a, n) && a.from;
        if (changed && !compute_again(&a)) return false;
    }
    return true;
}
