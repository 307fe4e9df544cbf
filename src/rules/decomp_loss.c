/* decomp_loss.c -- losses made of pointwise ops and a reduction. They are composites in
 * PyTorch as well: their derivative is that of the parts. Dtypes follow the parts, too,
 * and where PyTorch casts in between, so does the rule. */
#include "rules/loss_args.h"
#include "rules/shape_rules.h"

#include <math.h>
#include <stdio.h>

/* Returns the difference of self and target. Where their sizes differ it warns, as
 * PyTorch does: f32[8,1] and f32[8] broadcast to 64 differences, which few users want.
 * Once for each call in the user's source, since capture and compilation run this rule
 * again. */
static td_tensor *warned(const td_opcall *c, td_tensor *difference) {
    const td_tensor *x = td__in(c, 0), *y = td__in(c, 1);
    char             at[300] = "";
    if (x->rank == y->rank && td__dims_seem_eq(x->size, y->size, x->rank))
        return difference;
    if (td_is_nil(difference) || !td__is_news_here(c->info->s.name)) return difference;
    if (td_here.file) snprintf(at, sizeof at, " (%s:%d)", td_here.file, td_here.line);
    td__warn(x->cx,
             "%s: target is %s and self is %s; they are broadcast, which is likely not "
             "meant. Give both the same sizes%s",
             c->info->s.name, td__type_str(y), td__type_str(x), at);
    return difference;
}

/* in: self, target, reduction. reduce(|self - target|). */
bool td__decomp_l1_loss(td_opcall *c) {
    if (!check_reduction(c, 2, false)) return false;
    td_tensor *d = warned(c, t_sub(td__in(c, 0), td__in(c, 1)));
    c->out[0] = reduce(td_op_abs(d), c->in[2].u.s);
    return true;
}

/* One of self and target must be of floats: a loss has no integer form. */
static bool check_one_float(td_opcall *c) {
    const td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    return td__is_float((td_dtype)a->dtype) || td__is_float((td_dtype)b->dtype) ||
           td__op_fail(c, TD_E_DTYPE,
                       "self or target must be floating point, got %s and %s",
                       td__type_str(a), td__type_str(b));
}

/* Self minus target; a bool counts as 0 or 1. */
static td_tensor *difference(td_opcall *c) {
    td_tensor *a = td__in(c, 0), *b = td__in(c, 1);
    if (a->dtype == TD_BOOL) a = td_op_to(a, (td_dtype)b->dtype, false);
    if (b->dtype == TD_BOOL) b = td_op_to(b, (td_dtype)a->dtype, false);
    return warned(c, t_sub(a, b));
}

/* in: self, target, reduction. reduce((self - target)^2). */
bool td__decomp_mse_loss(td_opcall *c) {
    if (!check_reduction(c, 2, false) || !check_one_float(c)) return false;
    c->out[0] = reduce(td_op_square(difference(c)), c->in[2].u.s);
    return true;
}

/* d below the limit, 0 from there on: both branches of a loss are computed, and the
 * gradient of the square of an infinite d would be 0 * inf. NaN stays. */
static td_tensor *below(td_tensor *d, double limit) {
    return td_op_where(td_op_ge(d, td_value_float(limit)), td_value_int(0), T(d));
}

/* d^2/(2 beta) below beta, d - beta/2 above. */
static td_tensor *smooth(td_tensor *difference, double beta) {
    td_tensor *d = td_op_abs(difference);
    if (beta == 0) return d;
    td_tensor *small =
        td_op_mul(td_op_square(below(d, beta)), td_value_float(0.5 / beta));
    td_tensor *large = td_op_sub(d, td_value_float(0.5 * beta), td_value_int(1));
    return td_op_where(td_op_lt(d, td_value_float(beta)), T(small), T(large));
}

/* in: self, target, reduction, beta. beta = 0 is l1_loss. */
bool td__decomp_smooth_l1_loss(td_opcall *c) {
    double beta = td__in_f(c, 3);
    if (!check_reduction(c, 2, false) || !check_one_float(c)) return false;
    if (!(beta >= 0))
        return td__op_fail(c, TD_E_ARG, "beta must not be negative, got %g", beta);
    c->out[0] = reduce(smooth(difference(c), beta), c->in[2].u.s);
    return true;
}

/* d^2/2 below delta, delta (d - delta/2) above. A delta that d's dtype takes for
 * infinite leaves no "above", whose gradient would be 0 * inf. */
static td_tensor *huber(td_tensor *difference, double delta) {
    td_tensor *d = td_op_abs(difference);
    if (isinf(delta) || !td__dtype_holds((td_dtype)d->dtype, td_value_float(delta)))
        return td_op_mul(td_op_square(d), td_value_float(0.5));
    td_tensor *small = td_op_mul(td_op_square(below(d, delta)), td_value_float(0.5));
    td_tensor *large = td_op_sub(d, td_value_float(0.5 * delta), td_value_int(1));
    large = td_op_mul(large, td_value_float(delta));
    return td_op_where(td_op_lt(d, td_value_float(delta)), T(small), T(large));
}

/* Unlike the other losses it has the dtype of self, whatever the target's. */
bool td__decomp_huber_loss(td_opcall *c) {
    double   delta = td__in_f(c, 3);
    td_dtype dt = (td_dtype)td__in(c, 0)->dtype;
    if (!check_reduction(c, 2, false) || !check_float(c, 0)) return false;
    if (!(delta > 0))
        return td__op_fail(c, TD_E_ARG, "delta must be positive, got %g", delta);
    td_tensor *t = td_op_to(huber(difference(c), delta), dt, false);
    c->out[0] = reduce(t, c->in[2].u.s);
    return true;
}

/* (1 - y) x - w log_sigmoid(x), with w = (pos_weight - 1) y + 1, in the dtype of the
 * target; of halves in f32, so that the loss and each gradient are rounded once. */
bool td__decomp_bce_with_logits(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *y = td__in(c, 1);
    td_dtype   dt = (td_dtype)y->dtype;
    bool       half = td__is_half(dt) && y->dtype == x->dtype;
    td_tensor *weight = half ? t_wide(td__in(c, 2)) : td__in(c, 2);
    td_tensor *pos = half ? t_wide(td__in(c, 3)) : td__in(c, 3);
    if (!check_reduction(c, 4, false) || !check_float(c, 0) || !check_float(c, 1))
        return false;
    if (!td__same_sizes(x, y))
        return td__op_fail(c, TD_E_SHAPE, "target %s must have the sizes of self %s",
                           td__type_str(y), td__type_str(x));
    if (half) x = t_wide(x), y = t_wide(y);
    td_tensor *log_p = td_op_log_sigmoid(x);
    if (pos) {
        td_tensor *w = t_mul(td_op_sub(pos, td_value_int(1), td_value_int(1)), y);
        log_p = t_mul(td_op_add(w, td_value_int(1), td_value_int(1)), log_p);
    }
    /* 1 - y; the casts below keep the target's dtype, as ATen's in-place steps do */
    td_tensor *rest = td_op_rsub(y, td_value_float(1), td_value_int(1));
    td_tensor *loss = td_op_to(t_mul(rest, x), (td_dtype)rest->dtype, false);
    loss = td_op_to(t_sub(loss, log_p), (td_dtype)rest->dtype, false);
    if (weight) loss = t_mul(loss, weight);
    c->out[0] = t_as(reduce(loss, c->in[4].u.s), dt);
    return true;
}

/* in: self (log probabilities), target, reduction, log_target. target * (log(target) -
 * self), where a target of 0 gives 0 (xlogy); batchmean divides the sum by the batch
 * size. */
bool td__decomp_kl_div(td_opcall *c) {
    td_tensor  *x = td__in(c, 0), *y = td__in(c, 1), *loss;
    const char *how = c->in[2].u.s;
    if (!check_reduction(c, 2, true) || !check_float(c, 0) || !check_float(c, 1))
        return false;
    if (td__in_bool(c, 3)) loss = t_mul(td_op_exp(y), t_sub(y, x));
    else loss = t_sub(td_op_xlogy(y, T(y)), t_mul(y, x));
    if (!strcmp(how, "batchmean")) {
        int64_t n = x->rank ? x->size[0] : 1;
        c->out[0] = td_op_div(sum_all(loss), td_value_int(n), "");
    } else c->out[0] = reduce(loss, how);
    return true;
}

/* in: self, target, weight, reduction, ignore_index. The op with a kernel returns the
 * total weight as well, for its derivative. */
bool td__decomp_nll_loss(td_opcall *c) {
    if (!check_reduction(c, 3, false)) return false;
    c->out[0] = td_op_nll_loss_forward(td__in(c, 0), td__in(c, 1), td__in(c, 2),
                                       c->in[3].u.s, td__in_int(c, 4), NULL);
    return true;
}

/* ---- cross entropy ------------------------------------------------------ */

/* weight [C] seen along the class dim of a tensor of this rank. */
static td_tensor *along_classes(td_tensor *weight, int rank, int class_dim) {
    int64_t size[TD_MAX_RANK];
    for (int i = 0; i < rank; i++) size[i] = 1;
    size[class_dim] = weight->size[0];
    return td_op_view(weight, (td_ints){size, rank});
}

/* Targets are probabilities: smoothing mixes them with the uniform distribution. */
static bool probability_targets(td_opcall *c, td_tensor *log_p, int class_dim) {
    td_tensor  *y = td__in(c, 1), *weight = td__in(c, 2);
    const char *how = c->in[3].u.s;
    double      smooth = td__in_f(c, 5);
    int64_t     classes = log_p->size[class_dim];
    if (smooth > 0)
        y = td_op_add(td_op_mul(y, td_value_float(1 - smooth)),
                      td_value_float(smooth / (double)td__dim_fixed(classes)),
                      td_value_int(1));
    td_tensor *loss = t_mul(log_p, y);
    if (weight) loss = t_mul(loss, along_classes(weight, log_p->rank, class_dim));
    if (!strcmp(how, "none")) {
        c->out[0] =
            td_op_neg(td_op_sum(loss, TD_DIMS(class_dim), false, TD_DTYPE_NONE));
        return true;
    }
    /* "mean" divides by the number of targets, not of elements */
    bool    none = !td__dim_expect(classes, TD_DIM_IS_NE, 0);
    int64_t per = none ? 0 : td__dim_div(log_p->numel, classes);
    loss = td_op_neg(sum_all(loss));
    c->out[0] = strcmp(how, "mean") ? loss : td_op_div(loss, td_value_int(per), "");
    return true;
}

/* The uniform part of label smoothing, over the targets that count. */
static td_tensor *smooth_part(td_opcall *c, td_tensor *log_p, int class_dim) {
    td_tensor  *y = td__in(c, 1), *weight = td__in(c, 2), *part = log_p;
    const char *how = c->in[3].u.s;
    int64_t     skip = td__in_int(c, 4);
    if (weight) part = t_mul(part, along_classes(weight, log_p->rank, class_dim));
    part = td_op_neg(td_op_sum(part, TD_DIMS(class_dim), false, TD_DTYPE_NONE));
    td_tensor *ignored = td_op_eq(y, td_value_int(skip));
    part = td_op_masked_fill(part, ignored, td_value_float(0));
    if (!strcmp(how, "none")) return part;
    if (!strcmp(how, "sum")) return sum_all(part);
    td_tensor *used = td_op_logical_not(ignored);
    if (!weight) return td_op_div(sum_all(part), T(sum_all(used)), "");
    /* ignored targets may lie outside the classes: class 0 stands for them, with weight
     * 0 */
    td_tensor *safe = td_op_masked_fill(y, ignored, td_value_int(0));
    td_tensor *w =
        td_op_reshape(td_op_index_select(weight, 0, td_op_flatten(safe, 0, -1)),
                      td__sizes(y));
    w = td_op_masked_fill(w, ignored, td_value_float(0));
    return td_op_div(sum_all(part), T(sum_all(w)), "");
}

/* in: self [C], [N,C] or [N,C,..], target, weight [C], reduction, ignore_index,
 * label_smoothing. An integer target holds class indices, a float target probabilities
 * in the sizes of self. */
bool td__decomp_cross_entropy(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *y = td__in(c, 1), *weight = td__in(c, 2);
    double     smooth = td__in_f(c, 5);
    int        class_dim = x->rank == 1 ? 0 : 1;
    if (!check_reduction(c, 3, false)) return false;
    if (x->rank < 1)
        return td__op_fail(c, TD_E_SHAPE, "self must be [C] or [N,C,...], got %s",
                           td__type_str(x));
    if (!(smooth >= 0 && smooth <= 1))
        return td__op_fail(c, TD_E_ARG, "label_smoothing must lie in [0, 1], got %g",
                           smooth);
    if (weight &&
        (weight->rank != 1 || !td__dim_eq(weight->size[0], x->size[class_dim])))
        return td__op_fail(c, TD_E_SHAPE,
                           "weight must have one entry per class, got %s for %s",
                           td__type_str(weight), td__type_str(x));
    td_tensor *log_p = td_op_log_softmax(x, class_dim, TD_DTYPE_NONE);
    if (td_is_nil(log_p)) return false;
    if (td__is_float((td_dtype)y->dtype)) {
        if (!td__same_sizes(x, y))
            return td__op_fail(c, TD_E_SHAPE,
                               "target is %s; class indices must be i64 (td_to), or "
                               "probabilities of the sizes of self %s",
                               td__type_str(y), td__type_str(x));
        return probability_targets(c, log_p, class_dim);
    }
    td_tensor *nll = td_op_nll_loss(log_p, y, weight, c->in[3].u.s, td__in_int(c, 4));
    c->out[0] = nll;
    if (smooth == 0 || td_is_nil(nll)) return true;
    double     classes = (double)td__dim_fixed(x->size[class_dim]);
    td_tensor *uniform = smooth_part(c, log_p, class_dim);
    c->out[0] = t_add(td_op_mul(nll, td_value_float(1 - smooth)),
                      td_op_mul(uniform, td_value_float(smooth / classes)));
    return true;
}
