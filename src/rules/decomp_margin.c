/* decomp_margin.c -- losses that compare scores or distances with a margin, and the
 * distances of pairs of vectors. Where PyTorch clamps under no_grad, the clamp is added
 * as a detached difference here. */
#include "rules/loss_args.h"
#include "rules/shape_rules.h"

#include <math.h>

/* max(t, least), with the gradient of t. An infinite t needs no lift. */
static td_tensor *lifted(td_tensor *t, double least) {
    td_tensor *lift = td_op_rsub(t, td_value_float(least), td_value_int(1));
    return t_add(t, td_op_detach(td_op_clamp_min(lift, td_value_int(0))));
}

/* k - t. */
static td_tensor *from(double k, td_tensor *t) {
    return td_op_rsub(t, td_value_float(k), td_value_int(1));
}

/* margin - t in the dtype of t: for integers without the margin's fraction. */
static td_tensor *margin_less(double margin, td_tensor *t) {
    if (td__is_float((td_dtype)t->dtype)) return from(margin, t);
    td_ints none = {NULL, 0};
    return t_sub(td_op_new_full(t, none, td_value_float(margin), TD_DTYPE_NONE), t);
}

/* t where the condition holds, else 0. */
static td_tensor *where_zero(td_tensor *condition, td_tensor *t) {
    return td_op_where(condition, T(t), td_value_int(0));
}

/* ---- distances of pairs ------------------------------------------------- */

/* Length along dim, kept as size 1. */
static td_tensor *length(td_tensor *t, int64_t dim) {
    return td_op_norm(t, td_value_float(2), TD_DIMS(dim), true, TD_DTYPE_NONE);
}

/* in: x1, x2, dim, eps. */
bool td__decomp_cosine_similarity(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    int        rank = a->rank > b->rank ? a->rank : b->rank;
    int        dim = td__op_dim(c, td__in_int(c, 2), rank);
    td_dtype   dt = td__result_type(c->cx, c->in, 2);
    td_tensor *pair[2];
    if (!(td__in_f(c, 3) >= 0))
        return td__op_fail(c, TD_E_ARG, "eps must not be negative, got %g",
                           td__in_f(c, 3));
    if (dim < 0 || (!td__is_float((td_dtype)a->dtype) && !check_float(c, 1)))
        return false;
    if (td_op_broadcast_tensors((td_tensors){(td_tensor *[]){a, b}, 2}, pair, 2) != 2)
        return false;
    for (int i = 0; i < 2; i++) {
        td_tensor *t = pair[i];
        if (!td__is_float((td_dtype)t->dtype)) t = t_as(t, dt);
        pair[i] = t_div(t, lifted(length(t, dim), td__in_f(c, 3)));
    }
    c->out[0] = t_sum(t_mul(pair[0], pair[1]), TD_DIMS(dim), false);
    return true;
}

/* in: x1, x2, p, eps, keepdim. The p-norm of x1 - x2 + eps over the last dim. */
bool td__decomp_pairwise_distance(td_opcall *c) {
    td_tensor *d = t_sub(td__in(c, 0), td__in(c, 1));
    d = td_op_add(d, td_value_float(td__in_f(c, 3)), td_value_int(1));
    c->out[0] = td_op_norm(d, td_value_float(td__in_f(c, 2)), TD_DIMS(-1),
                           td__in_bool(c, 4), TD_DTYPE_NONE);
    return true;
}

/* ---- losses of pairs ---------------------------------------------------- */

/* Fails unless arguments 0, 1 and 2 have one rank. */
static bool check_ranks(td_opcall *c) {
    int rank = td__in(c, 0)->rank;
    return (td__in(c, 1)->rank == rank && td__in(c, 2)->rank == rank) ||
           td__op_fail(c, TD_E_SHAPE,
                       "%s, %s and %s must have the same number of dims, got %s, %s "
                       "and %s",
                       c->info->s.in[0].name, c->info->s.in[1].name,
                       c->info->s.in[2].name, td__type_str(td__in(c, 0)),
                       td__type_str(td__in(c, 1)), td__type_str(td__in(c, 2)));
}

/* max(0, margin + t), reduced. */
static td_tensor *over_margin(td_tensor *t, double margin, const char *how) {
    t = td_op_add(t, td_value_float(margin), td_value_int(1));
    return reduce(td_op_clamp_min(t, td_value_int(0)), how);
}

/* in: input1, input2, target, margin, reduction. */
bool td__decomp_margin_ranking_loss(td_opcall *c) {
    if (!check_reduction(c, 4, false) || !check_ranks(c)) return false;
    td_tensor *d = t_sub(td__in(c, 0), td__in(c, 1));
    c->out[0] =
        over_margin(t_mul(td_op_neg(td__in(c, 2)), d), td__in_f(c, 3), c->in[4].u.s);
    return true;
}

/* The loss of targets 1 and -1; another target has neither part. */
static td_tensor *by_target(td_tensor *target, td_tensor *one, td_tensor *minus_one) {
    return t_add(where_zero(td_op_eq(target, td_value_int(1)), one),
                 where_zero(td_op_eq(target, td_value_int(-1)), minus_one));
}

/* in: self, target, margin, reduction. PyTorch compares with the other number: a target
 * that is neither has both parts. */
bool td__decomp_hinge_embedding_loss(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *y = td__in(c, 1);
    if (!check_reduction(c, 3, false)) return false;
    td_tensor *far = td_op_clamp_min(margin_less(td__in_f(c, 2), x), td_value_int(0));
    td_tensor *loss = t_add(where_zero(td_op_ne(y, td_value_int(1)), far),
                            where_zero(td_op_ne(y, td_value_int(-1)), x));
    c->out[0] = reduce(loss, c->in[3].u.s);
    return true;
}

/* The cosine of vectors along the last dim; a vector of zeros has 0. */
static td_tensor *cosine(td_tensor *a, td_tensor *b) {
    td_value   tiny = td_value_float(1e-12), one = td_value_int(1);
    td_tensor *aa = td_op_add(t_sum(t_mul(a, a), TD_DIMS(-1), false), tiny, one);
    td_tensor *bb = td_op_add(t_sum(t_mul(b, b), TD_DIMS(-1), false), tiny, one);
    return t_div(t_sum(t_mul(a, b), TD_DIMS(-1), false), td_op_sqrt(t_mul(aa, bb)));
}

/* in: input1, input2, target, margin, reduction. */
bool td__decomp_cosine_embedding_loss(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1), *y = td__in(c, 2);
    if (!check_reduction(c, 4, false)) return false;
    if (y->rank > 1 || a->rank != y->rank + 1 || b->rank != y->rank + 1)
        return td__op_fail(c, TD_E_SHAPE,
                           "takes inputs [N,D] with target [N], or [D] with a target "
                           "without dims, got %s, %s and %s",
                           td__type_str(a), td__type_str(b), td__type_str(y));
    td_tensor *cos = cosine(a, b);
    td_tensor *apart = td_op_sub(cos, td_value_float(td__in_f(c, 3)), td_value_int(1));
    apart = td_op_clamp_min(apart, td_value_int(0));
    c->out[0] = reduce(by_target(y, from(1, cos), apart), c->in[4].u.s);
    return true;
}

/* in: anchor, positive, negative, margin, p, eps, swap, reduction. */
bool td__decomp_triplet_margin_loss(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *pos = td__in(c, 1), *neg = td__in(c, 2);
    double     margin = td__in_f(c, 3), p = td__in_f(c, 4), eps = td__in_f(c, 5);
    if (!check_reduction(c, 7, false) || !check_ranks(c)) return false;
    if (margin <= 0)
        return td__op_fail(c, TD_E_ARG, "margin must be greater than 0, got %g",
                           margin);
    td_tensor *near = td_op_pairwise_distance(a, pos, p, eps, false);
    td_tensor *far = td_op_pairwise_distance(a, neg, p, eps, false);
    if (td__in_bool(c, 6))
        far = td_op_minimum(far, td_op_pairwise_distance(pos, neg, p, eps, false));
    c->out[0] = over_margin(t_sub(near, far), margin, c->in[7].u.s);
    return true;
}

/* ---- losses of classes -------------------------------------------------- */

/* in: self, target, reduction. The loss has the dtype of self; of halves it is computed
 * in f32. */
bool td__decomp_soft_margin_loss(td_opcall *c) {
    td_tensor *x = t_wide(td__in(c, 0)), *y = td__in(c, 1);
    int64_t    stride[TD_MAX_RANK];
    if (!check_reduction(c, 2, false) || !check_float(c, 0)) return false;
    if (!td__expand_strides(y, x->rank, x->size, stride))
        return td__op_fail(c, TD_E_SHAPE, "target %s must broadcast to self %s",
                           td__type_str(y), td__type_str(td__in(c, 0)));
    td_tensor *loss = td_op_log1p(td_op_exp(t_mul(x, td_op_neg(y))));
    c->out[0] = t_as(reduce(loss, c->in[2].u.s), (td_dtype)td__in(c, 0)->dtype);
    return true;
}

/* Scores [N,C], [C] or [] and targets with as many rows, as [N,C] and [N,..]. */
typedef struct classes {
    td_tensor *x, *y;
    bool       batched, lists;
    int64_t    many; /* C */
} classes;

/* Targets are class indices: one for each row, or a list as long as the row. */
static bool read_classes(td_opcall *c, classes *s, bool lists) {
    td_tensor *x = td__in(c, 0), *y = td__in(c, 1);
    int        rank = lists ? x->rank : x->rank - (x->rank > 0);
    bool       vector =
        x->rank < 2 && y->rank < 2 && td__dim_eq(y->numel, lists ? x->numel : 1);
    bool fits = x->rank < 2 ? vector
                            : x->rank == 2 && y->rank == rank &&
                                  td__dims_eq(x->size, y->size, rank);
    fits = fits && td__dim_lt(0, x->rank ? t_last(x, 1) : 1);
    if (!check_float(c, 0)) return false;
    if (!fits)
        return td__op_fail(c, TD_E_SHAPE,
                           "takes scores [N,C] or [C] with targets %s, got %s and %s",
                           lists ? "of the same sizes" : "[N] or without dims",
                           td__type_str(x), td__type_str(y));
    if (y->dtype != TD_I64)
        return td__op_fail(c, TD_E_DTYPE, "target must be i64 class indices, got %s",
                           td__type_str(y));
    s->batched = x->rank == 2;
    s->lists = lists;
    s->many = x->rank ? t_last(x, 1) : 1;
    s->x = s->batched ? x : td_op_reshape(x, TD_SHAPE(1, s->many));
    s->y = s->batched ? y
           : lists    ? td_op_reshape(y, TD_SHAPE(1, s->many))
                      : td_op_reshape(y, TD_SHAPE(1));
    return true;
}

/* Row losses [N], reduced; without a batch the only one, a vector if the target is
 * one. */
static td_tensor *reduce_rows(td_opcall *c, const classes *s, td_tensor *rows,
                              int word) {
    if (s->batched || (!s->lists && td__in(c, 1)->rank == 1))
        return reduce(rows, c->in[word].u.s);
    return td_op_squeeze_dim(rows, 0);
}

/* in: self, target, p, margin, weight, reduction. */
bool td__decomp_multi_margin_loss(td_opcall *c) {
    td_tensor *weight = td__in(c, 4);
    double     p = td__value_f(c->in[2]);
    classes    s;
    if (!check_reduction(c, 5, false) || !read_classes(c, &s, false)) return false;
    if (p != 1 && p != 2)
        return td__op_fail(c, TD_E_ARG, "p must be 1 or 2, got %g", p);
    if (weight && (weight->rank != 1 || !td__dim_eq(weight->size[0], s.many)))
        return td__op_fail(c, TD_E_SHAPE,
                           "weight must have one entry per class, got %s for %s",
                           td__type_str(weight), td__type_str(td__in(c, 0)));
    td_tensor *y = td_op_unsqueeze(s.y, 1);
    td_tensor *z = from(td__value_f(c->in[3]), t_sub(td_op_gather(s.x, 1, y), s.x));
    td_tensor *counts = td_op_gt(z, td_value_int(0));
    counts = td_op_scatter_value(counts, 1, y, td_value_bool(false));
    if (p == 2) z = td_op_square(z);
    if (weight) z = t_mul(z, td_op_unsqueeze(td_op_index_select(weight, 0, s.y), 1));
    td_tensor *rows = t_sum(where_zero(counts, z), TD_DIMS(1), false);
    c->out[0] = reduce_rows(c, &s, t_share(rows, s.many), 5);
    return true;
}

/* Which classes [N,C] each list [N,C] contains, and, in *listed, which entries of the
 * list count: those before the first -1. *y is the list with class 0 for the others. */
static td_tensor *listed_classes(td_tensor **y, td_tensor **listed, int64_t many) {
    td_tensor *t = td_op__expect_range(*y, -1, (double)td__dim_fixed(many) - 1,
                                       "a class in target");
    td_tensor *ends = td_op_to(td_op_eq(t, td_value_int(-1)), TD_I64, false);
    td_tensor *over = td_op_gt(td_op_cumsum(ends, 1, TD_DTYPE_NONE), td_value_int(0));
    *listed = td_op_logical_not(over);
    *y = td_op_masked_fill(t, over, td_value_int(0));
    td_tensor *none = td_op_zeros_like(t, TD_DTYPE_NONE);
    td_tensor *count = td_op_scatter_add(none, 1, *y, td_op_to(*listed, TD_I64, false));
    return td_op_gt(count, td_value_int(0));
}

/* in: self, target, reduction. The differences are [N, listed class, other class]. */
bool td__decomp_multilabel_margin_loss(td_opcall *c) {
    classes    s;
    td_tensor *listed;
    if (!check_reduction(c, 2, false) || !read_classes(c, &s, true)) return false;
    td_tensor *is_target = listed_classes(&s.y, &listed, s.many);
    td_tensor *mine = td_op_unsqueeze(td_op_gather(s.x, 1, s.y), 2);
    td_tensor *z = from(1, t_sub(mine, td_op_unsqueeze(s.x, 1)));
    td_tensor *counts =
        td_op_logical_and(td_op_unsqueeze(listed, 2),
                          td_op_unsqueeze(td_op_logical_not(is_target), 1));
    counts = td_op_logical_and(counts, td_op_gt(z, td_value_int(0)));
    td_tensor *rows = t_sum(where_zero(counts, z), TD_DIMS(1, 2), false);
    c->out[0] = reduce_rows(c, &s, t_share(rows, s.many), 2);
    return true;
}

/* in: self, target, weight, reduction. */
bool td__decomp_multilabel_soft_margin_loss(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *y = td__in(c, 1);
    if (!check_reduction(c, 3, false) || !check_float(c, 0)) return false;
    if (x->rank == 0)
        return td__op_fail(c, TD_E_SHAPE, "self must be [..,C], got %s",
                           td__type_str(x));
    td_tensor *yes = t_mul(y, td_op_log_sigmoid(x));
    td_tensor *rest = td_op_rsub(y, td_value_int(1), td_value_int(1));
    td_tensor *no = t_mul(rest, td_op_log_sigmoid(td_op_neg(x)));
    td_tensor *loss = td_op_neg(t_add(yes, no));
    if (td__in(c, 2)) loss = t_mul(loss, td__in(c, 2));
    loss = t_share(t_sum(loss, TD_DIMS(x->rank - 1), false), t_last(x, 1));
    c->out[0] = reduce(loss, c->in[3].u.s);
    return true;
}
