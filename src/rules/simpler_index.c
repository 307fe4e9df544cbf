/* simpler_index.c -- the likelihood loss, embedding gradients and dropout in terms of
 * gathers, scatters and draws. Ignored targets and padding rows are masked after the
 * gather, because a gather has no way to skip. */
#include "rules/rule_arith.h"

#include <string.h>

/* where(which, yes, no); NULL stands for 0. */
static td_tensor *choose(td_tensor *which, td_tensor *yes, td_tensor *no) {
    td_value zero = td_value_int(0);
    return td_op_where(which, yes ? td_value_tensor(yes) : zero,
                       no ? td_value_tensor(no) : zero);
}

/* ---- likelihood --------------------------------------------------------- */

/* Per place of the target: does it count, its class or 0, its weight. */
typedef struct classes {
    td_tensor *counts, *at, *weight; /* weight NULL: 1 */
} classes;

/* target [..], weight [C]. Ignored places get class 0, so that gathers stay in range;
 * `counts` masks them afterwards. */
static classes classes_of(td_tensor *target, td_tensor *w, int64_t ignore) {
    classes k = {td_op_ne(target, td_value_int(ignore)), NULL, NULL};
    k.at = choose(k.counts, td_op_to(target, TD_I64, false), NULL);
    if (!w) return k;
    td_tensor *picked = td_op_index_select(w, 0, td_op_reshape(k.at, TD_SHAPE(-1)));
    k.weight = td_op_reshape(picked, td__sizes(target));
    return k;
}

/* in: self, target, weight, reduction, ignore_index. */
bool td__simpler_nll_loss(td_opcall *c) {
    td_tensor  *x = td__in(c, 0), *target = td__in(c, 1);
    const char *how = c->in[3].u.s;
    int         dim = x->rank > 1 ? 1 : 0;
    classes     k = classes_of(target, td__in(c, 2), td__in_int(c, 4));
    td_tensor  *loss = td_op_gather(x, dim, td_op_unsqueeze(k.at, dim));
    loss = td_op_neg(td_op_squeeze_dim(loss, dim));
    if (k.weight) loss = t_mul(loss, k.weight);
    loss = choose(k.counts, loss, NULL);
    if (!strcmp(how, "none")) {
        c->out[0] = loss;
        c->out[1] = td_op_zeros(c->cx, TD_SHAPE(), c->meta[1].dtype);
        return true;
    }
    /* the sum of weights, or the count, of targets that are not ignored */
    td_tensor *w = k.weight ? choose(k.counts, k.weight, NULL) : k.counts;
    c->out[1] = td_op_to(t_sum(w, TD_ALL, false), (td_dtype)x->dtype, false);
    c->out[0] = t_sum(loss, TD_ALL, false);
    if (!strcmp(how, "mean")) c->out[0] = t_div(c->out[0], c->out[1]);
    return true;
}

/* in: grad, target, weight, total_weight, size, reduction, ignore_index. */
bool td__simpler_nll_loss_backward(td_opcall *c) {
    td_tensor *g = td__in(c, 0), *target = td__in(c, 1);
    td_ints    size = t_ints(c->in[4]);
    int        dim = size.n > 1 ? 1 : 0;
    classes    k = classes_of(target, td__in(c, 2), td__in_int(c, 6));
    td_tensor *v = td_op_neg(g);
    if (!strcmp(c->in[5].u.s, "mean")) v = t_div(v, td__in(c, 3));
    if (k.weight) v = t_mul(v, k.weight);
    v = td_op_to(choose(k.counts, v, NULL), (td_dtype)g->dtype, false);
    td_tensor *zeros = td_op_zeros(c->cx, size, (td_dtype)g->dtype);
    c->out[0] =
        td_op_scatter(zeros, dim, td_op_unsqueeze(k.at, dim), td_op_unsqueeze(v, dim));
    return true;
}

/* ---- embedding ---------------------------------------------------------- */

/* in: grad_output, indices, num_weights, padding_idx, scale_grad_by_freq. */
bool td__simpler_embedding_backward(td_opcall *c) {
    td_tensor *g = td__in(c, 0), *at = td_op_reshape(td__in(c, 1), TD_SHAPE(-1));
    int64_t    rows = td__in_int(c, 2), width = c->meta[0].size[1];
    td_dtype   dt = (td_dtype)g->dtype;
    td_value   one = td_value_int(1);
    g = td_op_reshape(g, TD_SHAPE(at->size[0], width));
    td_tensor *padding = td_op_eq(at, td_value_int(td__in_int(c, 3)));
    g = choose(td_op_unsqueeze(padding, 1), NULL, g);
    /* scale_grad_by_freq: each row of the gradient over how often its index occurs */
    if (td__in_bool(c, 4)) {
        td_tensor *n = td_op_zeros(c->cx, TD_SHAPE(rows), dt);
        n = td_op_index_add(n, 0, at, td_op_ones_like(at, dt), one);
        g = t_div(g, td_op_unsqueeze(td_op_index_select(n, 0, at), 1));
    }
    td_tensor *zeros = td_op_zeros(c->cx, TD_SHAPE(rows, width), dt);
    c->out[0] = td_op_index_add(zeros, 0, at, td_op_to(g, dt, false), one);
    return true;
}

/* ---- dropout ------------------------------------------------------------ */

/* bernoulli_p, drawn from where c draws. */
static td_tensor *coins(const td_opcall *c, td_tensor *like, double p) {
    int        rng = c->info->rng;
    td_value   in[] = {td_value_tensor(like), td_value_float(p), c->in[rng],
                       c->in[rng + 1]};
    td_tensor *out = NULL;
    bool       ok = td__call(c->cx, TD_OP_bernoulli_p, in, 4, &out, 1);
    return ok ? out : TD_NIL(c->cx, TENSOR);
}

/* The same coins as the kernel's; every product is rounded as there. */
bool td__simpler_dropout(td_opcall *c) {
    td_tensor *x = td__in(c, 0), *mask = td_op_zeros_like(x, TD_BOOL);
    double     p = td__in_f(c, 1);
    if (!td__in_bool(c, 2)) {
        c->out[0] = x;
        c->out[1] = td_op_ones_like(x, TD_BOOL);
        return true;
    }
    if (!td__is_float(x->dtype)) /* the kernel decides, which knows the sizes */
        return td__op_fail(c, TD_E_DTYPE, "needs a float dtype, got %s",
                           td_dtype_name((td_dtype)x->dtype));
    c->out[1] = coins(c, mask, 1 - p);
    c->out[0] = t_scale(t_mul(x, c->out[1]), p == 1 ? 0 : 1 / (1 - p));
    return true;
}
