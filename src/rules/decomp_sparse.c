/* decomp_sparse.c -- composite ops on sparse tensors. Where the number of entries
 * depends on elements, nonzero or unique finds it, as in any other program. */
#include "ops/sparse.h"
#include "rules/rule_arith.h"

/* Sets result 0; false when a call that made t failed. */
static bool give(td_opcall *c, td_tensor *t) {
    c->out[0] = t;
    return t && !td_is_nil(t);
}

/* Where the tensor, in its first n dims, has an element that is not zero: [nnz, n]. */
static td_tensor *hits(td_tensor *t, int n) {
    int64_t rest[TD_MAX_RANK];
    for (int d = n; d < t->rank; d++) rest[d - n] = d;
    td_tensor *set = td_op_ne(t, td_value_int(0));
    if (n < t->rank) set = td_op_any(set, (td_ints){rest, t->rank - n}, false);
    return td_op_nonzero(set);
}

/* The entries of a plain tensor. */
static td_tensor *entries(td_tensor *t, int n) {
    td_tensor *at = hits(t, n), *place[TD_MAX_RANK];
    for (int d = 0; d < n; d++) place[d] = td_op_select(at, 1, d);
    return td_op_sparse_coo_tensor(td_op_t(at), td_op__index(t, (td_tensors){place, n}),
                                   (td_ints){t->size, t->rank}, true);
}

/* in: self, sparse_dim. */
bool td__decomp_to_sparse(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    bool       all = td__in_none(c, 1);
    int64_t    n = all ? t->rank : td__in_number(c, 1);
    if (td__is_coo(t) && (all || n == td__sparse_dims(t)))
        return give(c, td_op_clone(t, false));
    if (td__is_csr(t) && n == 2) return give(c, td_op__csr_to_coo(t));
    if (t->typed || n < 1 || n > t->rank)
        return td__op_fail(
            c, TD_E_ARG,
            "sparse_dim is %lld, and self %s%s; it must be from 1 to the "
            "number of dims, and of a sparse tensor the one that it has",
            (long long)n, t->typed ? "a sparse " : "", td__type_str(t));
    return give(c, entries(t, (int)n));
}

bool td__decomp_to_sparse_csr(td_opcall *c) {
    td_tensor *t = td__in(c, 0);
    if (td__is_csr(t)) return give(c, td_op_clone(t, false));
    if (t->rank != 2 || (t->typed && (!td__is_coo(t) || td__sparse_dims(t) != 2)))
        return td__op_fail(c, TD_E_SHAPE,
                           "self is %s; it must be a matrix whose entries are numbers",
                           td__type_str(t));
    t = t->typed ? td_op_coalesce(t) : entries(t, 2);
    return give(c, td_op__coo_to_csr(t));
}

bool td__decomp_coalesce(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *inverse = NULL;
    if (!td__is_coo(t))
        return td__op_fail(c, TD_E_ARG,
                           "self is %s; only sparse_coo tensors are coalesced "
                           "(td_to_sparse)",
                           td__is_csr(t) ? "a sparse_csr tensor" : "a plain tensor");
    if (td__is_coalesced(t)) return give(c, t);
    td_ints    size = {t->size, td__sparse_dims(t)};
    td_tensor *flat = td_op__coo_flat(td_op__indices(t), size);
    td_tensor *at = td_op_unique(flat, true, false, &inverse, NULL);
    return give(c, td_op__coalesced(t, td_op__coo_unflat(at, size), inverse));
}

/* in: self, a, b, beta, alpha. */
bool td__decomp_sparse_sampled_addmm(td_opcall *c) {
    td_tensor *t = td__in(c, 0), *a = td__in(c, 1), *b = td__in(c, 2);
    if (!td__is_sparse(t) || !td__is_coalesced(t) || t->rank != 2 ||
        td__sparse_dims(t) != 2 || a->typed || b->typed || b->rank != 2)
        return td__op_fail(c, TD_E_ARG,
                           "takes a coalesced sparse matrix and two plain matrices "
                           "(td_coalesce, td_to_dense)");
    td_tensor *y = td_op_values(td_op__sparse_sampled(t, a, td_op_t(b)));
    y = td_op_mul(y, c->in[4]);
    if (td__value_f(c->in[3]) != 0)
        y = td_op_add(y, td_value_tensor(td_op_mul(td_op_values(t), c->in[3])),
                      td_value_int(1));
    return give(c, td_op__sparse_like(t, y));
}
