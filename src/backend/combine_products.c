/* combine_products.c -- turns sums of matrix products into one product. If a loop is
 * unrolled, the gradient of a weight that all its steps read is mm(a1, b1) + mm(a2,
 * b2) + ..., which equals mm([a1 a2 ...], [b1; b2; ...]): the steps' operands are
 * concatenated instead of adding matrices of the weight's size. Sums over rows, the
 * gradients of biases, are combined likewise. Only the order of summation changes.
 * stack becomes a view of cat, so that CSE can merge it with such a concatenation. */
#include "backend/native.h"

enum { LEAST_TERMS = 4, MOST_COPIED = 16 };

typedef TD_VEC(td_gval *) values;

/* A sum of terms: add(add(add(t1, t2), t3), ...). */
typedef struct chain {
    td_graph *g;
    td_gnode *root; /* the last addition */
    int       at;   /* its index among the nodes; new nodes go before it */
    td_op     op;   /* the op of all terms: mm or sum */
    values    term; /* last to first: backward runs the loop in reverse */
} chain;

/* ---- finding sums -------------------------------------------------------- */

static const td_gtype *type_of(const td_garg *a) {
    const td_gtype *l = a->kind == TD_G_VALUE ? a->u.v->type : NULL;
    return l && l->kind == TD_K_TENSOR ? l : NULL;
}

static bool same_sizes(const td_gtype *a, const td_gtype *b) {
    return a && b && a->dtype == b->dtype && td__sizes_identical(&a->geom, &b->geom);
}

/* An add of two tensors of equal sizes in f32 or f64. Halves are excluded: they round
 * after every op. */
static bool is_addition(const td_gnode *n) {
    if (!n || n->kind != TD_N_OP || n->op != TD_OP_add || n->n_in != 2) return false;
    const td_gtype *l = n->out[0]->type;
    return l && (l->dtype == TD_F32 || l->dtype == TD_F64) &&
           same_sizes(type_of(&n->in[0]), l) && same_sizes(type_of(&n->in[1]), l);
}

/* The node of that op that makes v from matrices, for one reader only; else NULL. */
static const td_gnode *maker(const td_gval *v, td_op op) {
    const td_gnode *n = v->n_uses == 1 ? v->node : NULL;
    if (!n || n->kind != TD_N_OP || n->op != op) return NULL;
    const td_gtype *l = type_of(&n->in[0]);
    return l && l->rank == 2 ? n : NULL;
}

/* The sum in view(sum(x, [0], true), [n]), the gradient of a bias; else NULL. */
static const td_gnode *row_sum(const td_gval *v) {
    const td_gnode *n = v->n_uses == 1 ? v->node : NULL;
    if (!n || n->kind != TD_N_OP || n->op != TD_OP_view || !type_of(&n->in[0]))
        return NULL;
    const td_gnode *s = maker(n->in[0].u.v, TD_OP_sum);
    bool fits = s && s->n_in == 3 && s->in[1].kind == TD_G_INTS && s->in[1].n == 1 &&
                s->in[1].u.ints[0] == 0 && v->type->rank == 1 &&
                type_of(&s->in[0])->dtype == v->type->dtype;
    return fits ? s : NULL;
}

static const td_gnode *term_node(const chain *c, const td_gval *v) {
    return c->op == TD_OP_mm ? maker(v, TD_OP_mm) : row_sum(v);
}

/* Collects the terms from the last addition to the first. False: out of memory. */
static bool find_terms(chain *c) {
    const td_gnode *n = c->root;
    for (;;) {
        td_gval *sum = n->in[0].u.v;
        if (!td__vec_push(&c->term, n->in[1].u.v)) return false;
        if (sum->n_uses != 1 || !is_addition(sum->node))
            return td__vec_push(&c->term, sum);
        n = sum->node;
    }
}

/* Does concatenating cost less than the additions, and need no more than a few
 * results' memory? */
static bool pays(const chain *c) {
    const td_gtype *l = c->root->out[0]->type;
    if (c->term.n < LEAST_TERMS) return false;
    if (c->op == TD_OP_sum) return true;
    int64_t copied = 0, one = l->size[0] * l->size[1];
    for (int i = 0; i < c->term.n; i++) {
        const td_gtype *a = type_of(&c->term.v[i]->node->in[0]);
        copied += (l->size[0] + l->size[1]) * a->size[1];
    }
    return 2 * copied <= one * c->term.n && copied <= MOST_COPIED * one;
}

/* Are all terms made by the same op, and does it pay? */
static bool is_chain(chain *c) {
    c->op = maker(c->term.v[0], TD_OP_mm) ? TD_OP_mm : TD_OP_sum;
    for (int i = 0; i < c->term.n; i++)
        if (!term_node(c, c->term.v[i])) return false;
    return pays(c);
}

/* ---- replacing them ------------------------------------------------------ */

/* Inserts a node before the root, with one result of this type; stride NULL:
 * contiguous. NULL after td__fail. */
static td_gval *put(chain *c, td_op op, const td_garg *in, int n_in, td_gtype type) {
    td_graph *g = c->g;
    td_gnode *n = td__graph_op(g, op, in, n_in, 1);
    if (!n) return NULL;
    td_gnode **all = g->nodes.v;
    for (int i = g->nodes.n - 1; i > c->at; i--) all[i] = all[i - 1];
    all[c->at++] = n;
    td__gnode_stand_for(n, c->root);
    n->out[0]->type = td__graph_type_of(g, type);
    return n->out[0]->type ? n->out[0] : NULL;
}

/* Is operand k of every term a transposed matrix? */
static bool are_transposed(const chain *c, int k) {
    for (int i = 0; i < c->term.n; i++) {
        const td_gval *v = term_node(c, c->term.v[i])->in[k].u.v;
        if (!v->node || v->node->op != TD_OP_t || !type_of(&v->node->in[0]))
            return false;
    }
    return true;
}

/* Concatenates operand k of all terms along `dim`. Transposed operands are
 * concatenated untransposed, and the whole is transposed. NULL after td__fail. */
static td_gval *concatenate(chain *c, int k, int dim) {
    bool     transposed = are_transposed(c, k);
    int      along = transposed ? 1 - dim : dim, n = c->term.n;
    td_garg *list = td__arena_zalloc(&c->g->arena, sizeof *list * (size_t)n);
    int64_t  size[2] = {0, 0}, length = 0;
    if (!list) return td__fail_memory(c->g->cx), NULL;
    for (int i = 0; i < n; i++) {
        td_garg a = term_node(c, c->term.v[i])->in[k];
        list[i] = transposed ? a.u.v->node->in[0] : a;
        length += type_of(&list[i])->size[along];
        size[1 - along] = type_of(&list[i])->size[1 - along];
    }
    size[along] = length;
    td_garg  in[2] = {{TD_G_LIST, (uint32_t)n, {.list = list}}, td__garg_int(along)};
    td_gtype l = {.kind = TD_K_TENSOR,
                  .dtype = c->root->out[0]->type->dtype,
                  .rank = 2,
                  .device = c->root->out[0]->type->device,
                  .storage = c->g->n_storages++,
                  .size = size};
    td_gval *all = put(c, TD_OP_cat, in, 2, l);
    if (!all || !transposed) return all;
    td_garg whole = td__garg_value(all);
    l.size = (int64_t[]){size[1], size[0]};
    l.stride = (int64_t[]){1, size[1]};
    return put(c, TD_OP_t, &whole, 1, l);
}

/* Makes the root one mm of concatenated operands. False after td__fail. */
static bool one_product(chain *c) {
    td_gval *a = concatenate(c, 0, 1), *b = a ? concatenate(c, 1, 0) : NULL;
    if (!b) return false;
    td_garg in[2] = {td__garg_value(a), td__garg_value(b)};
    return td__graph_become(c->g, c->root, TD_OP_mm, in, 2);
}

/* Makes the root a view of one sum over concatenated rows. False after td__fail. */
static bool one_sum(chain *c) {
    const td_gnode *first = c->term.v[0]->node;
    const td_gval  *old = first->in[0].u.v;
    td_gval        *rows = concatenate(c, 0, 0);
    if (!rows) return false;
    td_garg  in[3] = {td__garg_value(rows), old->node->in[1], old->node->in[2]};
    td_gtype l = *old->type;
    l.storage = c->g->n_storages++;
    td_gval *sum = put(c, TD_OP_sum, in, 3, l);
    if (!sum) return false;
    td_garg how[2] = {td__garg_value(sum), first->in[1]};
    l = *c->root->out[0]->type;
    l.storage = sum->type->storage;
    c->root->out[0]->type = td__graph_type_of(c->g, l);
    return c->root->out[0]->type && td__graph_become(c->g, c->root, TD_OP_view, how, 2);
}

/* ---- stacks ------------------------------------------------------------- */

static bool is_result(const td_gval *v) {
    for (const td_guse *u = v->uses; u; u = u->next)
        if (!u->node) return true;
    return false;
}

/* A stack along dim 0 of typed values that is no output of the graph? */
static bool is_stack(const td_gnode *n) {
    if (n->kind != TD_N_OP || n->op != TD_OP_stack || n->in[0].kind != TD_G_LIST)
        return false;
    if (n->n_in > 1 && (n->in[1].kind != TD_G_INT || n->in[1].u.i != 0)) return false;
    const td_gtype *l = n->out[0]->type;
    for (uint32_t i = 0; i < n->in[0].n; i++)
        if (!type_of(&n->in[0].u.list[i])) return false;
    return l && l->rank >= 2 && !is_result(n->out[0]);
}

/* Makes the stack a view of cat. False after td__fail. */
static bool stack_as_cat(td_graph *g, int at) {
    chain    c = {.g = g, .root = g->nodes.v[at], .at = at};
    td_gtype l = *c.root->out[0]->type;
    int64_t  size[TD_MAX_RANK];
    td_garg  shape = td__garg_ints(l.size, l.rank);
    for (int d = 1; d < l.rank; d++) size[d - 1] = l.size[d];
    size[0] *= l.size[0];
    l.storage = g->n_storages++;
    c.root->out[0]->type = td__graph_type_of(g, l);
    td_gtype flat = {.kind = l.kind,
                     .dtype = l.dtype,
                     .rank = (uint8_t)(l.rank - 1),
                     .device = l.device,
                     .storage = l.storage,
                     .size = size};
    td_gval *all =
        c.root->out[0]->type ? put(&c, TD_OP_cat, c.root->in, 1, flat) : NULL;
    if (!all) return false;
    td_garg in[2] = {td__garg_value(all), shape};
    return td__graph_become(g, c.root, TD_OP_view, in, 2);
}

/* ---- all of a graph ----------------------------------------------------- */

/* Combines the sum whose last addition is node `at`, if it can be. False after
 * td__fail. */
static bool combine_at(td_graph *g, int at) {
    chain c = {.g = g, .root = g->nodes.v[at], .at = at};
    bool  ok = find_terms(&c) || td__fail_memory(g->cx);
    if (ok && is_chain(&c)) ok = c.op == TD_OP_mm ? one_product(&c) : one_sum(&c);
    td__vec_free(&c.term);
    return ok;
}

/* Is it the last addition of a chain? */
static bool is_root(const td_gnode *n) {
    if (!is_addition(n)) return false;
    const td_guse *u = n->out[0]->uses;
    return n->out[0]->n_uses != 1 || !is_addition(u->node) ||
           u->node->in[0].u.v != n->out[0];
}

/* Visits nodes from last to first, so that the outermost sum of products is combined
 * before its parts. */
bool td__combine_products(td_graph *g) {
    if (g->dims.n) return true; /* sizes must be known */
    if (!td__graph_index(g)) return false;
    for (int i = g->nodes.n - 1; i >= 0; i--) {
        const td_gnode *n = g->nodes.v[i];
        if (is_root(n) ? !combine_at(g, i) : is_stack(n) && !stack_as_cat(g, i))
            return false;
    }
    return true;
}
