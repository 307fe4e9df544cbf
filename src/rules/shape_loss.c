/* shape_loss.c -- sizes, dtypes and argument checks of the negative log likelihood. The
 * class dim of self is 1, or 0 when self has one dim; target has the other dims. */
#include "rules/shape_rules.h"

#include <string.h>

enum { SELF, TARGET, WEIGHT };

/* Sizes of self: [C], [N,C] or [N,C,...]; target has them without C. */
static bool target_fits(td_opcall *c, int rank, const int64_t *size,
                        const td_tensor *target) {
    int64_t want[TD_MAX_RANK];
    int     n = 0;
    if (rank < 1) return td__op_fail(c, TD_E_SHAPE, "self must have at least one dim");
    for (int i = 0; i < rank; i++)
        if (i != (rank > 1 ? 1 : 0)) want[n++] = size[i];
    bool same = target->rank == n;
    for (int i = 0; same && i < n; i++) same = td__dim_eq(target->size[i], want[i]);
    if (!same)
        return td__op_fail(c, TD_E_SHAPE, "target must be %s for scores %s, got %s",
                           td__sizes_str(n, want), td__sizes_str(rank, size),
                           td__type_str(target));
    if (target->dtype != TD_I64 && target->dtype != TD_U8)
        return td__op_fail(c, TD_E_DTYPE, "target must be i64 class indices, got %s",
                           td__type_str(target));
    return true;
}

/* weight, when given, has one entry for each class. */
static bool weight_fits(td_opcall *c, const td_tensor *w, int64_t classes) {
    return !w || (w->rank == 1 && td__dim_eq(w->size[0], classes)) ||
           td__op_fail(c, TD_E_SHAPE, "weight must have %lld entries, got %s",
                       (long long)classes, td__type_str(w));
}

/* in: self, target, weight, reduction. Results: the loss, with the sizes of target
 * under reduction "none", and the total weight, 0-dim, which the derivative divides
 * by. */
bool td__shape_nll_loss(td_opcall *c) {
    const td_tensor *x = td__in(c, SELF), *y = td__in(c, TARGET),
                    *w = td__in(c, WEIGHT);
    if (!td__is_float((td_dtype)x->dtype))
        return td__op_fail(c, TD_E_DTYPE, "self must be floating, got %s",
                           td__type_str(x));
    if (!target_fits(c, x->rank, x->size, y) ||
        !weight_fits(c, w, x->size[x->rank > 1 ? 1 : 0]))
        return false;
    if (w && w->dtype != x->dtype)
        return td__op_fail(c, TD_E_DTYPE,
                           "weight must have the dtype of self, got %s and %s",
                           td__type_str(w), td__type_str(x));
    bool none = !strcmp(c->in[3].u.s, "none");
    td__meta_dense(&c->meta[0], (td_dtype)x->dtype, none ? y->rank : 0, y->size);
    td__meta_dense(&c->meta[1], (td_dtype)x->dtype, 0, NULL);
    return true;
}

/* Argument i, when given, is floating. */
static bool want_float(td_opcall *c, int i) {
    const td_tensor *t = td__in(c, i);
    return !t || td__is_float((td_dtype)t->dtype) ||
           td__op_fail(c, TD_E_DTYPE, "%s must be floating, got %s",
                       c->info->s.in[i].name, td__type_str(t));
}

/* Argument i has these sizes. */
static bool want_like(td_opcall *c, int i, int rank, const int64_t *size) {
    const td_tensor *t = td__in(c, i);
    bool             same = t->rank == rank;
    for (int d = 0; same && d < rank; d++) same = td__dim_eq(t->size[d], size[d]);
    return same ||
           td__op_fail(c, TD_E_SHAPE, "%s must be %s, got %s", c->info->s.in[i].name,
                       td__sizes_str(rank, size), td__type_str(t));
}

/* in: grad, target, weight, total_weight, sizes of self, reduction, ignore_index. */
bool td__shape_nll_loss_backward(td_opcall *c) {
    const td_tensor *g = td__in(c, 0), *y = td__in(c, TARGET);
    td_value         size = c->in[4];
    int              rank = (int)size.n;
    if (rank > TD_MAX_RANK)
        return td__op_fail(c, TD_E_SHAPE,
                           "size has %d entries; at most %d are supported", rank,
                           TD_MAX_RANK);
    if (!target_fits(c, rank, size.u.ints, y) ||
        !weight_fits(c, td__in(c, WEIGHT), size.u.ints[rank > 1 ? 1 : 0]) ||
        !want_float(c, 0) || !want_float(c, WEIGHT) || !want_float(c, 3) ||
        !want_like(c, 3, 0, NULL) ||
        !want_like(c, 0, strcmp(c->in[5].u.s, "none") ? 0 : y->rank, y->size))
        return false;
    td__meta_dense(&c->meta[0], (td_dtype)g->dtype, rank, size.u.ints);
    return true;
}
