/* rules_adam.c -- update rules that divide by a running size of the gradient, each
 * element by its own: Adam and its kin, RMSprop, Adagrad, Adadelta, Adafactor. The
 * order of operations is PyTorch's. */
#include "nn/rules.h"

#include <math.h>

/* 1 - beta^steps */
static td_tensor *correction(const td_group *g, double beta) {
    return td_add(td_neg(td_pow(beta, g->steps)), 1.0);
}

/* 1 - t */
static td_tensor *rest(td_tensor *t) { return td_add(td_neg(t), 1.0); }

/* t = beta * t + (1 - beta) * g * g */
static void mix_square(td_tensor *t, td_tensor *g, double beta) {
    td_addcmul_(td_mul_(t, beta), g, g, 1 - beta);
}

/* ---- Adam --------------------------------------------------------------- */

/* Bias corrections depend on each parameter's step count. */
void td__share_adam(const td_group *g, td_shared *s) {
    s->rate = td_div(g->lr, correction(g, g->rule.beta1));
    s->fix = td_sqrt(correction(g, g->rule.beta2));
}

/* Updates both averages of the gradient, and returns the second. */
static td_tensor *average(const td_update *u, td_tensor *g) {
    td_tensor *v = u->t->state[TD_S_EXP_AVG_SQ];
    td_lerp_(u->t->state[TD_S_EXP_AVG], g, 1 - u->r->beta1);
    mix_square(v, g, u->r->beta2);
    return v;
}

void td__step_adam(const td_update *u) {
    td_tensor *most = u->t->state[TD_S_MAX_EXP_AVG_SQ];
    td_tensor *g = td__rule_decayed(u);
    td__rule_shrink(u);
    td_tensor *v = average(u, g);
    if (most) td_copy_(most, td_maximum(most, v));
    td_tensor *size = td_div_(td_sqrt(most ? most : v), u->by.fix);
    td_tensor *by = td_div(u->t->state[TD_S_EXP_AVG], td_add_(size, u->r->eps));
    td__rule_descend(u, by, u->by.rate);
}

void td__share_adamax(const td_group *g, td_shared *s) {
    s->rate = td_div(g->lr, correction(g, g->rule.beta1));
}

void td__step_adamax(const td_update *u) {
    td_tensor *m = u->t->state[TD_S_EXP_AVG], *most = u->t->state[TD_S_EXP_INF];
    td_tensor *g = td__rule_decayed(u);
    td_lerp_(m, g, 1 - u->r->beta1);
    td_copy_(most,
             td_maximum(td_mul(most, u->r->beta2), td_add_(td_abs(g), u->r->eps)));
    td__rule_descend(u, td_div(m, most), u->by.rate);
}

/* ---- NAdam -------------------------------------------------------------- */

/* The momentum that NAdam has at these step counts. */
static td_tensor *momentum(const td_rule *r, td_tensor *steps) {
    td_tensor *decay = td_pow(0.96, td_mul(steps, r->momentum_decay));
    return td_mul(rest(td_mul(decay, 0.5)), r->beta1);
}

void td__share_nadam(const td_group *g, td_shared *s) {
    s->fix = correction(g, g->rule.beta2);
    s->now = momentum(&g->rule, g->steps);
    s->next = momentum(&g->rule, td_add(g->steps, 1.0));
}

void td__step_nadam(const td_update *u) {
    td_tensor *product = u->t->state[TD_S_MU_PRODUCT];
    td_tensor *g = td__rule_decayed(u);
    td__rule_shrink(u);
    td_mul_(product, u->by.now);
    td_tensor *v = average(u, g);
    td_tensor *size = td_add_(td_sqrt(td_div(v, u->by.fix)), u->r->eps);
    td_tensor *next = rest(td_mul(product, u->by.next));
    td_tensor *lr = u->by.rate;
    td__rule_descend(u, td_div(g, size),
                     td_div(td_mul(lr, rest(u->by.now)), rest(product)));
    td__rule_descend(u, td_div(u->t->state[TD_S_EXP_AVG], size),
                     td_div(td_mul(lr, u->by.next), next));
}

/* ---- RAdam -------------------------------------------------------------- */

/* The length of the average, rho, tells whether its variance is known: only then is
 * the step divided by it, after a rectification. The rectification of other steps is
 * NaN at times, and not used. */
void td__share_radam(const td_group *g, td_shared *s) {
    double     beta2 = g->rule.beta2, most = 2 / (1 - beta2) - 1;
    td_tensor *left = correction(g, beta2);
    td_tensor *spent = td_div(td_mul(g->steps, td_pow(beta2, g->steps)), left);
    td_tensor *rho = td_add(td_mul(spent, -2.0), most);
    td_tensor *up = td_mul(td_add(rho, -4.0), td_add(rho, -2.0));
    td_tensor *rect = td_div(td_mul(up, most), td_mul(rho, (most - 4) * (most - 2)));
    s->rate = td_div(g->lr, correction(g, g->rule.beta1));
    s->fix = td_mul(td_sqrt(rect), td_sqrt(left));
    s->now = td_gt(rho, 5.0);
}

void td__step_radam(const td_update *u) {
    td_tensor *g = td__rule_decayed(u);
    td__rule_shrink(u);
    td_tensor *v = average(u, g), *m = u->t->state[TD_S_EXP_AVG];
    td_tensor *scale = td_mul(td_reciprocal(td_add_(td_sqrt(v), u->r->eps)), u->by.fix);
    td__rule_descend(u, td_where(u->by.now, td_mul(m, scale), m), u->by.rate);
}

/* ---- RMSprop, Adagrad, Adadelta --------------------------------------------- */

/* centered: subtracts the squared mean gradient from the second moment. */
void td__step_rmsprop(const td_update *u) {
    const td_rule *r = u->r;
    td_tensor     *g = td__rule_decayed(u), *square = u->t->state[TD_S_SQUARE_AVG];
    td_tensor     *mean = u->t->state[TD_S_GRAD_AVG];
    td_tensor     *buf = u->t->state[TD_S_MOMENTUM];
    mix_square(square, g, r->alpha);
    if (mean) td_lerp_(mean, g, 1 - r->alpha);
    td_tensor *size = td_sqrt(mean ? td_addcmul(square, mean, mean, -1) : square);
    td_tensor *by = td_div(g, td_add_(size, r->eps));
    if (buf) by = td_add_(td_mul_(buf, r->momentum), by);
    td__rule_descend(u, by, u->by.rate);
}

void td__share_adagrad(const td_group *g, td_shared *s) {
    double d = g->rule.lr_decay;
    if (d == 0) return;
    s->rate = td_div(g->lr, td_add(td_mul(td_sub(g->steps, 1.0), d), 1.0));
}

void td__step_adagrad(const td_update *u) {
    td_tensor *g = td__rule_decayed(u), *sum = u->t->state[TD_S_SUM];
    td_addcmul_(sum, g, g);
    td__rule_descend(u, td_div(g, td_add_(td_sqrt(sum), u->r->eps)), u->by.rate);
}

void td__step_adadelta(const td_update *u) {
    td_tensor *g = td__rule_decayed(u), *square = u->t->state[TD_S_SQUARE_AVG];
    td_tensor *moved = u->t->state[TD_S_ACC_DELTA];
    mix_square(square, g, u->r->rho);
    td_tensor *size = td_sqrt(td_add(square, u->r->eps));
    td_tensor *by = td_mul(td_div(td_sqrt(td_add(moved, u->r->eps)), size), g);
    mix_square(moved, by, u->r->rho);
    td__rule_descend(u, by, u->by.rate);
}

/* ---- Adafactor ---------------------------------------------------------- */

/* The mean square of g along a dim, which stays with size 1. */
static td_tensor *mean_square(td_tensor *g, int64_t dim) {
    return td_mean(td_square(g), TD_DIMS(dim), true);
}

/* Updates the second moment with weight w, and returns it: of a matrix the product of
 * a column and a row. Both are at least eps before a division or root. */
static td_tensor *factored(const td_update *u, td_tensor *w, double eps) {
    td_tensor *row = u->t->state[TD_S_ROW_VAR], *col = u->t->state[TD_S_COL_VAR];
    td_tensor *all = u->t->state[TD_S_VARIANCE];
    if (all) {
        td__rule_mix(all, td_mul(u->g, u->g), w);
        return all;
    }
    td__rule_mix(row, mean_square(u->g, -1), w);
    td__rule_mix(col, mean_square(u->g, -2), w);
    return td_div_(td_mul(row, col),
                   td_clamp_min(td_mean(row, TD_DIMS(-2), true), eps));
}

/* The distance from 1 to the next larger number. */
static double epsilon(td_dtype dtype) {
    switch (dtype) {
    case TD_F64: return 0x1p-52;
    case TD_F16: return 0x1p-10;
    case TD_BF16: return 0x1p-7;
    default: return 0x1p-23;
    }
}

/* The root mean square of t, f64[]. */
static td_tensor *rms(td_tensor *t) {
    return td_div(td_to(td_norm(t), TD_F64), sqrt((double)td_numel(t)));
}

void td__step_adafactor(const td_update *u) {
    const td_rule *r = u->r;
    double         eps = r->eps > 0 ? r->eps : epsilon(td_dtype_of(u->t->p));
    td_tensor     *w = td_pow(u->step, r->beta2_decay);
    td_tensor     *rate = td_minimum(u->by.rate, td_rsqrt(u->step));
    rate = td_mul(rate, td_clamp_min(rms(u->t->p), r->eps2));
    td__rule_shrink(u);
    td_tensor *by = td_rsqrt(td_clamp_min(factored(u, w, eps), eps * eps));
    td_mul_(by, u->g);
    rate = td_div(rate, td_clamp_min(td_div(rms(by), r->d), 1.0));
    td__rule_descend(u, by, rate);
}
