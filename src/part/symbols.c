/* symbols.c -- symbolic sizes in the backward graph. Input tensors determine the
 * symbols that are their sizes; a symbol that is read and that no input determines is
 * passed as an integer. */
#include "part/part_int.h"

#include <stdlib.h>

/* Which symbolic dims are read, and which are determined by inputs. */
typedef struct marks {
    const td_graph *g;
    bool           *read, *known; /* by entry of g->dims */
} marks;

static void mark_read(marks *m, int64_t dim) {
    const td_gdim *d = td__gdim_at(m->g, dim);
    if (d) m->read[d - m->g->dims.v] = true;
}

static void mark_known(marks *m, int64_t dim) {
    const td_gdim *d = td__gdim_at(m->g, dim);
    if (d && d->op == TD_GDIM_SYMBOL) m->known[d - m->g->dims.v] = true;
}

static void read_arg(marks *m, const td_garg *a) {
    if (a->kind == TD_G_SYM) mark_read(m, a->u.i);
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->kind == TD_G_INTS) mark_read(m, a->u.ints[i]);
        if (a->kind == TD_G_LIST) read_arg(m, &a->u.list[i]);
    }
}

static void mark_read_type(marks *m, const td_gtype *l) {
    for (int d = 0; l && l->kind == TD_K_TENSOR && d < l->rank; d++) {
        mark_read(m, l->size[d]);
        mark_read(m, l->stride[d]);
    }
    if (l) mark_read(m, l->offset);
}

/* A tensor input determines the symbols that are its sizes, an integer input the symbol
 * it is. Strides and offsets determine nothing. */
static void mark_known_type(marks *m, const td_gtype *l) {
    for (int d = 0; l && l->kind == TD_K_TENSOR && d < l->rank; d++)
        mark_known(m, l->size[d]);
    if (l && l->kind == TD_K_INT) mark_known(m, l->offset);
}

/* Inputs determine sizes; so do backward ops whose sizes depend on values. Recomputed
 * forward ops do not count, because they may run after the reader of the size. */
static void mark_all(const td_part *p, marks *m) {
    const td_graph *g = p->g;
    for (int v = 0; v < g->inputs.n; v++) {
        if (!p->passed[v] && !p->bwd_only_v[v]) continue;
        mark_read_type(m, g->inputs.v[v]->type);
        mark_known_type(m, g->inputs.v[v]->type);
    }
    for (int i = 0; i < p->n_nodes; i++) {
        const td_gnode *n = g->nodes.v[i];
        bool            dynamic = td__row(n->op)->flags & TD_OPF_DYNAMIC;
        for (int k = 0; k < n->n_out; k++) {
            bool in = p->passed[n->out[k]->id];
            if (in || p->in_bwd[i]) mark_read_type(m, n->out[k]->type);
            if (in || (p->bwd_only[i] && dynamic)) mark_known_type(m, n->out[k]->type);
        }
        for (int k = 0; k < n->n_in && p->in_bwd[i]; k++) read_arg(m, &n->in[k]);
    }
    for (int i = p->j->n_fwd; i < g->outputs.n; i++) read_arg(m, &g->outputs.v[i]);
}

static int by_name(const void *x, const void *y) {
    const td_gdim *a = *(const td_gdim *const *)x, *b = *(const td_gdim *const *)y;
    if (a->letter != b->letter) return a->letter - b->letter;
    return (a->nr > b->nr) - (a->nr < b->nr);
}

/* The symbols that backward reads and that none of its tensor inputs has as a size:
 * these are passed as numbers. Sorted by name, so that the order does not depend on how
 * the graph was made. -1 after td__fail. */
int td__part_symbols(td_part *p, int64_t **syms) {
    const td_graph *g = p->g;
    size_t          n = (size_t)g->dims.n;
    int             count = 0;
    marks           m = {.g = g, .read = td__part_alloc(p, n, 1)};
    m.known = td__part_alloc(p, n, 1);
    const td_gdim **missing = td__part_alloc(p, n, sizeof *missing);
    *syms = td__part_alloc(p, n, sizeof **syms);
    if (!m.read || !m.known || !missing || !*syms) return -1;
    if (n == 0) return 0;
    mark_all(p, &m);
    for (int i = g->dims.n - 1; i >= 0;
         i--) { /* operands of an expression have lower indices */
        const td_gdim *d = &g->dims.v[i];
        if (!m.read[i]) continue;
        if (d->op == TD_GDIM_SYMBOL) {
            if (!m.known[i]) missing[count++] = d;
            continue;
        }
        mark_read(&m, d->a);
        mark_read(&m, d->b);
    }
    if (count) qsort(missing, (size_t)count, sizeof *missing, by_name);
    for (int i = 0; i < count; i++)
        (*syms)[i] = td__dim_tag((int)(missing[i] - g->dims.v));
    return count;
}
