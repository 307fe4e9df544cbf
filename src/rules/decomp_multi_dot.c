/* decomp_multi_dot.c -- a chain of matrix products in the cheapest order, found by the
 * usual dynamic program over sub-chains (Cormen et al., Introduction to Algorithms). */
#include "rules/matrix_args.h"

enum { MOST = 64 }; /* matrices in a chain */

typedef struct chain {
    td_tensor **t;
    int         n;
    int8_t      split[MOST][MOST]; /* [i][k]: the first factor of i..k ends here */
} chain;

/* Fills in where to split each sub-chain. Comparisons of costs that depend on symbols
 * are guarded: another order of products rounds otherwise than eager's. */
static void plan(chain *m) {
    int64_t cost[MOST][MOST] = {{0}};
    for (int len = 1; len < m->n; len++)
        for (int i = 0; i + len < m->n; i++) {
            int k = i + len;
            for (int s = i; s < k; s++) {
                int64_t ends = td__dim_mul(m->t[i]->size[0], m->t[k]->size[1]);
                int64_t all = td__dim_add(cost[i][s], cost[s + 1][k]);
                all = td__dim_add(all, td__dim_mul(ends, m->t[s]->size[1]));
                if (s > i && !td__dim_seems_lt(all, cost[i][k])) continue;
                cost[i][k] = all;
                m->split[i][k] = (int8_t)s;
            }
        }
}

/* The product of matrices i to k. */
static td_tensor *multiply(const chain *m, int i, int k) {
    if (i == k) return m->t[i];
    int s = m->split[i][k];
    return td_op_mm(multiply(m, i, s), multiply(m, s + 1, k));
}

/* Matrices, but for the first and the last, which may be vectors; one dtype; sizes
 * that fit. */
static bool check(td_opcall *c, td_tensor *const *t, int n) {
    for (int i = 0; i < n; i++) {
        bool end = i == 0 || i == n - 1;
        if (t[i]->rank != 2 && !(end && t[i]->rank == 1))
            return td__op_fail(c, TD_E_SHAPE, "tensor %d must be a matrix%s, got %s", i,
                               end ? " or a vector" : "", td__type_str(t[i]));
        if (t[i]->dtype != t[0]->dtype)
            return td__op_fail(c, TD_E_DTYPE,
                               "tensor %d is %s and tensor 0 is %s; all "
                               "must have one dtype",
                               i, td__type_str(t[i]), td__type_str(t[0]));
        if (i && !td__dim_eq(t_last(t[i - 1], 1), t[i]->size[0]))
            return td__op_fail(c, TD_E_SHAPE,
                               "inner sizes differ, tensor %d is %s and "
                               "tensor %d is %s",
                               i - 1, td__type_str(t[i - 1]), i, td__type_str(t[i]));
    }
    return true;
}

/* The product, with vectors at the ends as matrices of one row or column. */
static td_tensor *product(td_opcall *c, td_tensor *const *given, int n) {
    td_tensor *t[MOST], *r;
    chain      m = {.t = t, .n = n};
    if (n > MOST) {
        td__op_fail(c, TD_E_ARG, "takes at most %d tensors, got %d", MOST, n);
        return NULL;
    }
    if (!check(c, given, n)) return NULL;
    if (n == 2) return t_mm(given[0], given[1]);
    for (int i = 0; i < n; i++) t[i] = given[i];
    if (given[0]->rank == 1) t[0] = t_row(t[0]);
    if (given[n - 1]->rank == 1) t[n - 1] = t_col(t[n - 1]);
    if (td_is_nil(t[0]) || td_is_nil(t[n - 1])) return NULL;
    plan(&m);
    r = multiply(&m, 0, n - 1);
    if (given[n - 1]->rank == 1) r = td_op_squeeze_dim(r, -1);
    if (given[0]->rank == 1) r = td_op_squeeze_dim(r, 0);
    return r;
}

/* in: tensors. */
bool td__decomp_multi_dot(td_opcall *c) {
    if (c->in[0].n < 2)
        return td__op_fail(c, TD_E_ARG, "takes at least 2 tensors, got %d",
                           (int)c->in[0].n);
    c->out[0] = product(c, c->in[0].u.ts, (int)c->in[0].n);
    return c->out[0] != NULL;
}

/* in: matrices. */
bool td__decomp_chain_matmul(td_opcall *c) {
    int n = (int)c->in[0].n;
    for (int i = 0; i < n; i++)
        if (c->in[0].u.ts[i]->rank != 2)
            return td__op_fail(c, TD_E_SHAPE, "matrix %d is %s; all must have 2 dims",
                               i, td__type_str(c->in[0].u.ts[i]));
    if (n == 0) return td__op_fail(c, TD_E_ARG, "takes at least one matrix, got none");
    c->out[0] =
        n == 1 ? td_op_clone(c->in[0].u.ts[0], false) : product(c, c->in[0].u.ts, n);
    return c->out[0] != NULL;
}
