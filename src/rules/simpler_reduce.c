/* simpler_reduce.c -- means, variances and softmax in terms of sums, for code that is
 * compiled from loops. Shifts that cancel in the result, such as the greatest element,
 * take no part in differentiation: their derivative is 0, and computing it would cost a
 * pass. */
#include "rules/rule_arith.h"

#include <math.h>

/* Sets result 0; the caller looks for nil. */
static bool set_out(td_opcall *c, td_tensor *t) {
    c->out[0] = t;
    return true;
}

/* t without history: a shift by it does not change the result, so its derivative is
 * left out. */
static td_tensor *cut(td_tensor *t) {
    return t->flags & TD_TF_NEEDS_GRAD ? td_op_detach(t) : t;
}

/* where(which, yes, no). */
static td_tensor *choose(td_tensor *which, td_value yes, td_tensor *no) {
    return td_op_where(which, yes, td_value_tensor(no));
}

/* ---- means -------------------------------------------------------------- */

/* How many elements the dims have; none named: all. */
static int64_t count(const td_tensor *t, td_ints dim) {
    int64_t n = 1;
    if (dim.n <= 0) return t->numel;
    for (int i = 0; i < dim.n && t->rank; i++)
        n = td__dim_mul(n, t->size[td__wrap_dim(dim.v[i], t->rank)]);
    return n;
}

/* in: self, dim, keepdim, dtype. sum / count, in the dtype given; halves are summed in
 * f32. */
bool td__simpler_mean(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    td_ints    dim = t_ints(c->in[1]);
    td_dtype   dt = td__in_dtype(c, 3, (td_dtype)x->dtype);
    if (x->dtype != dt && !td__is_half(dt)) x = td_op_to(x, dt, false);
    return set_out(c, t_share(t_sum(x, dim, td__in_bool(c, 2)), count(x, dim)));
}

/* in: self, dim, keepdim, dtype. */
bool td__simpler_nansum(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    td_dtype   dt = td__in_dtype(c, 3, TD_DTYPE_NONE);
    if (td__is_float((td_dtype)x->dtype))
        x = choose(td_op_isnan(x), td_value_int(0), x);
    return set_out(c, td_op_sum(x, t_ints(c->in[1]), td__in_bool(c, 2), dt));
}

/* a / max(n - less, 0); of nothing it is NaN, for a negative less too */
static td_tensor *share_less(td_tensor *a, int64_t n, double less) {
    if (less < 0 && td__dim_eq(n, 0)) less = 0;
    if (less == floor(less))
        return t_share(a, td__dim_max(td__dim_sub(n, (int64_t)less), 0));
    return t_over(a, fmax((double)td__dim_fixed(n) - less, 0));
}

/* Variance over n - correction; *mean keeps the dims. */
static td_tensor *variance(td_opcall *c, td_tensor **mean) {
    td_tensor *x = td__in(c, 0);
    td_ints    dim = t_ints(c->in[1]);
    double     less = td__in_none(c, 2) ? 1 : td__in_f(c, 2);
    *mean = t_mean(x, dim, true);
    td_tensor *d = t_sub(x, *mean);
    return share_less(t_sum(t_mul(d, d), dim, td__in_bool(c, 3)), count(x, dim), less);
}

/* The slope of the root at 0 is taken as 0. */
static td_tensor *root(td_tensor *v) {
    td_tensor *zero = td_op_eq(v, td_value_int(0));
    td_tensor *r = td_op_sqrt(choose(zero, td_value_int(1), v));
    return choose(zero, td_value_int(0), r);
}

/* Result 1 in the sizes of the rule: without the reduced dims unless keepdim. */
static bool give_mean(td_opcall *c, td_tensor *mean) {
    const td_meta *m = &c->meta[1];
    c->out[1] = t_shaped(mean, m->size, m->rank);
    return true;
}

bool td__simpler_var(td_opcall *c) {
    td_tensor *mean;
    return set_out(c, variance(c, &mean));
}
bool td__simpler_std(td_opcall *c) {
    td_tensor *mean;
    return set_out(c, root(variance(c, &mean)));
}
bool td__simpler_var_mean(td_opcall *c) {
    td_tensor *mean;
    return set_out(c, variance(c, &mean)) && give_mean(c, mean);
}
bool td__simpler_std_mean(td_opcall *c) {
    td_tensor *mean;
    return set_out(c, root(variance(c, &mean))) && give_mean(c, mean);
}

/* ---- softmax ------------------------------------------------------------ */

/* x less its greatest along dim, which has elements. */
static td_tensor *shifted(td_tensor *x, int64_t dim) {
    return t_sub(x, cut(td_op_amax(x, TD_DIMS(dim), true)));
}

/* in: self, dim. exp(x - max) over its sum: the maximum cancels, and keeps exp from
 * overflowing. */
bool td__simpler_softmax(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    int64_t    dim = td__in_int(c, 1);
    if (td__dim_eq(x->numel, 0)) return set_out(c, x);
    td_tensor *e = td_op_exp(shifted(x, dim));
    return set_out(c, t_div(e, t_sum(e, TD_DIMS(dim), true)));
}

/* in: self, dim. x - max - log(sum(exp(x - max))). */
bool td__simpler_log_softmax(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    int64_t    dim = td__in_int(c, 1);
    if (td__dim_eq(x->numel, 0)) return set_out(c, x);
    td_tensor *s = shifted(x, dim);
    return set_out(c, t_sub(s, td_op_log(t_sum(td_op_exp(s), TD_DIMS(dim), true))));
}

/* Where everything is -inf the row is computed as zeros, so that no NaN arises. */
bool td__simpler_safe_softmax(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    int64_t    dim = td__in_int(c, 1);
    if (td__dim_eq(x->numel, 0)) return set_out(c, x);
    td_tensor *none = td_op_eq(x, td_value_float(-INFINITY));
    none = td_op_all(none, TD_DIMS(dim), true);
    td_tensor *y = td_op__softmax(choose(none, td_value_int(0), x), dim, false);
    return set_out(c, choose(none, td_value_int(0), y));
}

/* An infinite shift would make NaN of what is infinite itself. */
bool td__simpler_logsumexp(td_opcall *c) {
    td_tensor *x = td__in(c, 0);
    td_ints    dim = t_ints(c->in[1]);
    bool       keep = td__in_bool(c, 2);
    if (!td__is_float((td_dtype)x->dtype)) x = td_op_to(x, c->meta[0].dtype, false);
    if (td__dim_eq(x->numel, 0))
        return set_out(c, td_op_log(t_sum(td_op_exp(x), dim, keep)));
    td_tensor *m = cut(td_op_amax(x, dim, true));
    m = choose(td_op_isinf(m), td_value_int(0), m);
    td_tensor *s = td_op_log(t_sum(td_op_exp(t_sub(x, m)), dim, keep));
    return set_out(c, t_add(s, td_op_reshape(m, td__sizes(s))));
}
