/* pack_products.c -- packs matrices that several products of few rows read: the
 * weight of a recurrent network is read in every time step of an unrolled loop. Each
 * mm(a, b) becomes _mm_strips(a, strips), where strips is a copy of b that all of them
 * share. Only the order of summation changes. */
#include "backend/native.h"

/* A matrix is packed for so many products or more, of so many rows, if it has so many
 * elements. The copy costs about as much as two of them. */
enum { LEAST_USES = 4, LEAST_ROWS = 2, MOST_ROWS = 64, LEAST_SIZE = 1024, STRIP = 16 };

/* The operand that all products share, and where the first of them is. */
typedef struct packing {
    td_graph *g;
    td_gval  *b;
    int       at, end; /* nodes of the products: after `end` b may be written */
} packing;

static const td_gtype *matrix(const td_garg *a) {
    const td_gtype *l = a->kind == TD_G_VALUE ? a->u.v->type : NULL;
    bool fits = l && l->kind == TD_K_TENSOR && l->rank == 2 && l->dtype == TD_F32;
    return fits && !l->device ? l : NULL;
}

/* Is n a product of few rows with packable strips? */
static bool is_product(const td_gnode *n) {
    if (n->kind != TD_N_OP || n->op != TD_OP_mm) return false;
    const td_gtype *a = matrix(&n->in[0]), *b = matrix(&n->in[1]);
    return a && b && a->size[0] >= LEAST_ROWS && a->size[0] <= MOST_ROWS &&
           b->size[1] % STRIP == 0 && b->size[0] * b->size[1] >= LEAST_SIZE;
}

static bool reads(const td_gnode *n, const td_gval *b) {
    return is_product(n) && n->in[1].u.v == b;
}

static int count_uses(const packing *p) {
    int n = 0;
    for (const td_guse *u = p->b->uses; u; u = u->next)
        n += u->node && u->node->id >= p->at && u->node->id < p->end &&
             reads(u->node, p->b);
    return n;
}

/* Inserts a node before the first product; stride NULL: contiguous. NULL after
 * td__fail. */
static td_gval *put(packing *p, td_op op, const td_garg *in, int n_in, td_gtype l) {
    td_graph *g = p->g;
    td_gnode *n = td__graph_op(g, op, in, n_in, 1), *first = g->nodes.v[p->at];
    if (!n) return NULL;
    for (int i = g->nodes.n - 1; i > p->at; i--) g->nodes.v[i] = g->nodes.v[i - 1];
    g->nodes.v[p->at++] = n;
    p->end++;
    td__gnode_stand_for(n, first);
    n->out[0]->type = td__graph_type_of(g, l);
    return n->out[0]->type ? n->out[0] : NULL;
}

/* The strips of b [k,n]: a copy of b viewed as [n/STRIP, k, STRIP]. NULL after
 * td__fail. */
static td_gval *pack(packing *p) {
    const td_gtype *b = p->b->type;
    int64_t         n = b->size[1] / STRIP, k = b->size[0];
    int64_t         split[3] = {k, n, STRIP}, size[3] = {n, k, STRIP};
    int64_t         by[3] = {b->stride[0], b->stride[1] * STRIP, b->stride[1]};
    int64_t         swapped[3] = {by[1], by[0], by[2]};
    td_gtype        l = *b;
    l.rank = 3;
    l.size = split;
    l.stride = by;
    td_garg  in[3] = {td__garg_value(p->b), td__garg_ints(split, 3)};
    td_gval *v = put(p, TD_OP_view, in, 2, l);
    if (!v) return NULL;
    l.size = size;
    l.stride = swapped;
    in[0] = td__garg_value(v);
    in[1] = td__garg_int(0);
    in[2] = td__garg_int(1);
    if (!(v = put(p, TD_OP_transpose, in, 3, l))) return NULL;
    in[0] = td__garg_value(v);
    in[1] = td__garg_ints(size, 3);
    td_gtype dense = {.kind = TD_K_TENSOR,
                      .dtype = TD_F32,
                      .rank = 3,
                      .storage = p->g->n_storages++,
                      .size = size};
    return put(p, TD_OP__reshape_copy, in, 2, dense);
}

/* All products of p->b from the one at p->at on. False after td__fail. */
static bool replace(packing *p) {
    td_gval *strips = pack(p);
    for (int i = p->at; strips && i < p->end; i++) {
        td_gnode *n = p->g->nodes.v[i];
        if (!reads(n, p->b)) continue;
        td_garg in[2] = {n->in[0], td__garg_value(strips)};
        if (!td__graph_become(p->g, n, TD_OP__mm_strips, in, 2)) return false;
    }
    return strips != NULL;
}

/* The next node that writes, from `at` on. */
static int next_write(const td_graph *g, int at) {
    while (at < g->nodes.n && g->nodes.v[at]->kind == TD_N_OP &&
           !td__opinfo(g->nodes.v[at]->op)->writes)
        at++;
    return at;
}

bool td__pack_products(td_graph *g) {
    if (g->dims.n || !td__config(g->cx)->pack_products) return true;
    if (!td__graph_index(g)) return td__fail_memory(g->cx);
    int end = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        if (i >= end) end = next_write(g, i);
        const td_gnode *n = g->nodes.v[i];
        if (i >= end || !is_product(n)) continue;
        packing p = {.g = g, .b = n->in[1].u.v, .at = i, .end = end};
        if (count_uses(&p) < LEAST_USES) continue;
        if (!replace(&p) || !td__graph_index(g)) return false;
        i = p.at, end = p.end;
    }
    return true;
}
