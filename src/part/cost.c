/* cost.c -- bytes of values, and the cost of recomputing a node: estimated
 * nanoseconds on a modest core, from the flops in the op's row and the bytes it reads
 * and writes. Only ratios matter. */
#include "part/flops.h"
#include "part/part_int.h"

enum { LIKELY_SIZE = 64, UNKNOWN_ELEMENTS = 4096 }; /* for unknown sizes */
#define FLOPS_PER_NS 50.0
#define BYTES_PER_NS 10.0

/* The value of a dim; LIKELY_SIZE if it is unknown. */
static int64_t size_of(const td_graph *g, int64_t dim, const int64_t *bound) {
    int64_t n = td__gdim_value(g, dim, bound);
    return n == INT64_MIN || n < 0 ? LIKELY_SIZE : n;
}

/* Number of elements; a guess for a value without a type. */
static double elements(const td_graph *g, const td_gtype *l, const int64_t *bound) {
    if (!l) return UNKNOWN_ELEMENTS;
    double n = 1;
    for (int d = 0; l->kind == TD_K_TENSOR && d < l->rank; d++)
        n *= (double)size_of(g, l->size[d], bound);
    return n;
}

/* Generator states, 16 bytes, are not counted. */
static int64_t value_bytes(const td_graph *g, const td_gval *v, const int64_t *bound) {
    double item = 4;
    if (v->node && v->node->op == TD_OP_random_state) return 0;
    if (v->type)
        item = v->type->kind == TD_K_TENSOR ? td__dtype_bytes[v->type->dtype] : 8;
    double n = item * elements(g, v->type, bound);
    return n < 1e15 ? (int64_t)n : (int64_t)1e15;
}

/* Bytes of every value. Symbols count as their hint; sizes computed from them
 * follow. */
void td__part_sizes(const td_graph *g, const td_part_opts *o, int64_t *bound,
                    int64_t *bytes) {
    for (int i = 0; i < g->dims.n; i++) {
        bound[i] = INT64_MIN;
        if (g->dims.v[i].op == TD_GDIM_SYMBOL)
            bound[i] = o->hint ? o->hint(o->env, g, td__dim_tag(i)) : LIKELY_SIZE;
    }
    td__gdim_settle(g, bound);
    for (int i = 0; i < g->inputs.n; i++)
        bytes[g->inputs.v[i]->id] = value_bytes(g, g->inputs.v[i], bound);
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_out; k++) {
            const td_gval *v = g->nodes.v[i]->out[k];
            bytes[v->id] = value_bytes(g, v, bound);
        }
}

/* One factor of a row's .work: the elements, a size, or the elements without a size,
 * of an argument (t.arg) or of the result. */
static double term_value(const td_graph *g, const td_gnode *n, const int64_t *bound,
                         td_work_term t) {
    const td_gtype *l = NULL;
    if (t.arg < 0) l = n->n_out ? n->out[0]->type : NULL;
    else if (t.arg < n->n_in && n->in[t.arg].kind == TD_G_VALUE)
        l = n->in[t.arg].u.v->type;
    if (!t.how) return elements(g, l, bound);
    int d = !l ? -1 : t.dim < 0 ? l->rank + t.dim : t.dim;
    if (!l || d < 0 || d >= l->rank) return t.how == '.' ? LIKELY_SIZE : 1;
    double size = (double)size_of(g, l->size[d], bound);
    if (t.how == '.') return size;
    return size > 0 ? elements(g, l, bound) / size : 0;
}

/* Two per multiply-add, from the row's .work; 0 for ops without one. */
double td__node_flops(const td_graph *g, const td_gnode *n, const int64_t *bound) {
    td_work_term term[TD_WORK_TERMS];
    const char  *text = td__row(n->op)->work;
    double       flops = 1;
    int          count = text ? td__work_parse(&td__opinfo(n->op)->s, text, term) : 0;
    for (int i = 0; i < count; i++) flops *= term_value(g, n, bound, term[i]);
    return count > 0 ? 2 * flops : 0;
}

/* Estimated nanoseconds of running the node once, or the user's own estimate. */
double td__part_cost(const td_part *p, int node) {
    const td_gnode *n = p->g->nodes.v[node];
    double          moved = 0;
    if (p->o->cost) return p->o->cost(p->o->env, p->g, n);
    if (n->n_out && p->root[n->out[0]->id] != n->out[0]->id)
        return 0; /* a view costs nothing */
    for (int k = p->read_at[node]; k < p->read_at[node + 1]; k++)
        moved += (double)p->bytes[p->reads[k]];
    for (int k = 0; k < n->n_out; k++) moved += (double)p->bytes[n->out[k]->id];
    return td__node_flops(p->g, n, p->bound) / FLOPS_PER_NS + moved / BYTES_PER_NS;
}
