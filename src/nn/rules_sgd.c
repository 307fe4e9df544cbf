/* rules_sgd.c -- update rules that step along the gradient, its average or its signs:
 * SGD, ASGD, Rprop, Lion, Muon. The order of operations is PyTorch's. */
#include "nn/rules.h"

#include <math.h>

/* ---- SGD ---------------------------------------------------------------- */

/* The first step of a parameter takes the gradient without dampening, as in PyTorch. */
void td__share_sgd(const td_group *g, td_shared *s) {
    double d = g->rule.dampening;
    if (g->rule.momentum == 0 || d == 0) return;
    td_tensor *first = td_to(td_eq(g->steps, 1), TD_F64);
    s->fix = td_add(td_mul(first, d), 1 - d);
}

void td__step_sgd(const td_update *u) {
    td_tensor *g = td__rule_decayed(u), *buf = u->t->state[TD_S_MOMENTUM];
    if (buf) {
        td_mul_(buf, u->r->momentum);
        if (u->by.fix) td_addcmul_(buf, g, u->by.fix);
        else td_add_(buf, g);
        g = u->r->nesterov ? td_add(g, buf, u->r->momentum) : buf;
    }
    td__rule_descend(u, g, u->by.rate);
}

/* ---- ASGD --------------------------------------------------------------- */

/* PyTorch makes the state of a parameter at its first step, with the rate of that
 * step; here it exists before. So the first step takes the rate. */
static td_tensor *at_first(const td_update *u, td_tensor *state) {
    return td_where(td_eq(u->step, 1), u->by.rate, state);
}

/* ax is the average of the parameter since step t0. */
void td__step_asgd(const td_update *u) {
    const td_rule *r = u->r;
    td_tensor     *p = u->t->p, *g = td__rule_decayed(u), *lr = u->by.rate;
    td_tensor     *eta = u->t->state[TD_S_ETA], *mu = u->t->state[TD_S_MU];
    td_tensor     *now = at_first(u, eta);
    td_mul_(p, td_add(td_mul(now, -r->lambd), 1.0));
    td__rule_descend(u, g, now);
    td__rule_mix(u->t->state[TD_S_AX], p, mu);
    td_tensor *slow = td_add(td_mul(td_mul(lr, u->step), r->lambd), 1.0);
    td_copy_(eta, td_div(lr, td_pow(slow, r->alpha)));
    td_copy_(mu, td_reciprocal(td_clamp_min(td_add(u->step, -r->t0), 1.0)));
}

/* ---- Rprop -------------------------------------------------------------- */

/* Each element has a step size of its own, which grows while the sign of its gradient
 * stays and shrinks when it changes; then the element does not move. */
void td__step_rprop(const td_update *u) {
    const td_rule *r = u->r;
    td_tensor     *prev = u->t->state[TD_S_PREV], *size = u->t->state[TD_S_STEP_SIZE];
    td_tensor     *was = td_where(td_eq(u->step, 1), u->by.rate, size);
    td_tensor     *sign = td_sign(td_mul(u->g, prev)), *turned = td_lt(sign, 0.0);
    td_tensor     *by = td_where(turned, r->etaminus, td_ones_like(sign));
    by = td_where(td_gt(sign, 0.0), r->etaplus, by);
    td_copy_(size, td_clamp(td_mul(was, by), r->step_min, r->step_max));
    td_copy_(prev, td_masked_fill(u->g, turned, 0.0));
    td_addcmul_(u->t->p, td_sign(prev), size, -1);
}

/* ---- Lion --------------------------------------------------------------- */

void td__step_lion(const td_update *u) {
    td_tensor *m = u->t->state[TD_S_EXP_AVG];
    td__rule_shrink(u);
    td__rule_descend(u, td_sign(td_lerp(m, u->g, 1 - u->r->beta1)), u->by.rate);
    td_lerp_(m, u->g, 1 - u->r->beta2);
}

/* ---- Muon --------------------------------------------------------------- */

/* Approximates the nearest orthogonal matrix: Newton-Schulz iterations of degree five
 * move the singular values towards 1; the coefficients trade accuracy for speed. */
static td_tensor *orthogonalized(td_tensor *x, const td_rule *r) {
    const double a = 3.4445, b = -4.7750, c = 2.0315;
    bool         tall = td_size(x, 0) > td_size(x, 1);
    td_tensor   *y = r->ns_wide ? x : td_to(x, TD_BF16);
    if (tall) y = td_t(y);
    y = td_div(y, td_clamp_min(td_norm(y), r->eps));
    for (int i = 0; i < r->ns_steps; i++) {
        td_tensor *gram = td_mm(y, td_t(y));
        y = td_addmm(y, td_addmm(gram, gram, gram, b, c), y, a);
    }
    return tall ? td_t(y) : y;
}

/* The factor of the update by the matrix's shape. */
static double muon_scale(const td_rule *r, td_tensor *p) {
    double rows = (double)td_size(p, 0), cols = (double)td_size(p, 1);
    return r->scale == TD_MUON_MATCH_ADAM ? 0.2 * sqrt(fmax(rows, cols))
                                          : sqrt(fmax(1, rows / cols));
}

void td__step_muon(const td_update *u) {
    const td_rule *r = u->r;
    td_tensor     *buf = u->t->state[TD_S_MOMENTUM];
    td_lerp_(buf, u->g, 1 - r->momentum);
    td_tensor *by = r->nesterov ? td_lerp(u->g, buf, r->momentum) : buf;
    td_tensor *update = td_to(orthogonalized(by, r), td_dtype_of(u->t->p));
    td__rule_shrink(u);
    td__rule_descend(u, update, td_mul(u->by.rate, muon_scale(r, u->t->p)));
}
