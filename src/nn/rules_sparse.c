/* rules_sparse.c -- updates by sparse gradients: SGD, Adagrad and SparseAdam, which
 * read and write only the rows that a gradient has. Entries of one row add up. PyTorch
 * coalesces the gradient; here every entry gets the sum of its row and entries of one
 * row write equal values, so that a captured step has no size that depends on indices.
 * The order of operations is PyTorch's. */
#include "nn/rules.h"
#include "ops/ops.h"
#include "tandem/sparse.h"
#include "tandem/type.h"

/* The entries of a gradient: where they are, and their values. */
typedef struct entries {
    td_tensor *at[TD_MAX_RANK];
    int        n;      /* dims with indices */
    td_tensor *values; /* [nnz, other dims] */
} entries;

/* sums: the value of each entry is that of its row. */
static entries entries_of(const td_update *u, bool sums) {
    entries    e = {.n = td_sparse_dim(u->g)};
    td_tensor *indices = td_type_inner(u->g, 0);
    for (int d = 0; d < e.n; d++) e.at[d] = td_select(indices, 0, d);
    sums &= !td_is_coalesced(u->g);
    e.values = sums ? td_op__values_at(u->g, u->g) : td_type_inner(u->g, 1);
    return e;
}

static td_tensor *rows_of(td_tensor *t, const entries *e) {
    return td_op__index(t, (td_tensors){(td_tensor **)e->at, e->n});
}

static void set_rows(td_tensor *t, const entries *e, td_tensor *rows) {
    td_op__index_put_(t, (td_tensors){(td_tensor **)e->at, e->n}, rows, false);
}

static void add_rows(td_tensor *t, const entries *e, td_tensor *values) {
    td_op__index_put_(t, (td_tensors){(td_tensor **)e->at, e->n}, values, true);
}

/* ---- SGD ---------------------------------------------------------------- */

/* The momentum is plain: it has the rows of all gradients so far. */
void td__sparse_sgd(const td_update *u) {
    td_tensor *buf = u->t->state[TD_S_MOMENTUM], *by;
    entries    e = entries_of(u, false);
    if (!buf) {
        add_rows(u->t->p, &e, td_neg(td_mul(e.values, u->by.rate)));
        return;
    }
    td_mul_(buf, u->r->momentum);
    add_rows(buf, &e, u->by.fix ? td_mul(e.values, u->by.fix) : e.values);
    by = buf;
    if (u->r->nesterov) add_rows(by = td_mul(buf, u->r->momentum), &e, e.values);
    td__rule_descend(u, by, u->by.rate);
}

/* ---- Adagrad ------------------------------------------------------------ */

void td__sparse_adagrad(const td_update *u) {
    td_tensor *sum = u->t->state[TD_S_SUM], *p = u->t->p;
    entries    e = entries_of(u, true);
    td_tensor *all = td_addcmul(rows_of(sum, &e), e.values, e.values);
    td_tensor *by = td_div(e.values, td_add_(td_sqrt(all), u->r->eps));
    set_rows(sum, &e, all);
    set_rows(p, &e, td_addcmul(rows_of(p, &e), by, u->by.rate, -1));
}

/* ---- SparseAdam --------------------------------------------------------- */

/* lr * sqrt(1 - beta2^t) / (1 - beta1^t) */
void td__share_sparse_adam(const td_group *g, td_shared *s) {
    td_tensor *one = td_add(td_neg(td_pow(g->rule.beta1, g->steps)), 1.0);
    td_tensor *two = td_add(td_neg(td_pow(g->rule.beta2, g->steps)), 1.0);
    s->rate = td_div(td_mul(g->lr, td_sqrt(two)), one);
}

/* The rows of a running average of x, moved by 1 - beta. */
static td_tensor *moved(td_tensor *average, const entries *e, td_tensor *x,
                        double beta) {
    td_tensor *was = rows_of(average, e);
    td_tensor *now = td_add(td_mul_(td_sub(x, was), 1 - beta), was);
    set_rows(average, e, now);
    return now;
}

void td__sparse_adam(const td_update *u) {
    td_tensor *p = u->t->p;
    entries    e = entries_of(u, true);
    td_tensor *m = moved(u->t->state[TD_S_EXP_AVG], &e, e.values, u->r->beta1);
    td_tensor *v =
        moved(u->t->state[TD_S_EXP_AVG_SQ], &e, td_square(e.values), u->r->beta2);
    td_tensor *by = td_div(m, td_add_(td_sqrt(v), u->r->eps));
    set_rows(p, &e, td_addcmul(rows_of(p, &e), by, u->by.rate, -1));
}
