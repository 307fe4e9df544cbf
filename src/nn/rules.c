/* rules.c -- update rules of optimizers, written in ops. Numbers that change from
 * step to step (rate, step count and derived ones) are small f64 tensors, so that a
 * captured step stays valid; all others are constants of the rule. The order of
 * operations is PyTorch's. */
#include "nn/optim.h"

#include <math.h>

const char *const td__slot_names[TD_S_COUNT] = {
    [TD_S_EXP_AVG] = "exp_avg",
    [TD_S_EXP_AVG_SQ] = "exp_avg_sq",
    [TD_S_MAX_EXP_AVG_SQ] = "max_exp_avg_sq",
    [TD_S_MOMENTUM] = "momentum_buffer",
    [TD_S_SQUARE_AVG] = "square_avg",
    [TD_S_GRAD_AVG] = "grad_avg",
    [TD_S_SUM] = "sum",
    [TD_S_GRAD_SUM] = "grad_sum",
};

/* Values that the updates of a group share; a vector has one entry per parameter. */
typedef struct shared {
    td_tensor *rate;  /* f64[] or f64[n] */
    td_tensor *fix;   /* f64[n]; Adam: sqrt(1 - beta2^t); SGD: 1 - dampening */
    td_tensor *decay; /* f64[]: 1 - lr * weight_decay; NULL: no decoupled decay */
} shared;

/* The update of one parameter. */
typedef struct one {
    const td_rule    *r;
    const td_trained *t;
    td_tensor        *g, *rate, *fix, *decay;
} one;

/* ---- PyTorch's defaults ------------------------------------------------- */

td_rule td_sgd(double lr) {
    return (td_rule){.size = sizeof(td_rule), .kind = TD_RULE_SGD, .lr = lr};
}

td_rule td_adam(double lr) {
    td_rule r = td_sgd(lr);
    r.kind = TD_RULE_ADAM;
    r.beta1 = 0.9;
    r.beta2 = 0.999;
    r.eps = 1e-8;
    return r;
}

td_rule td_adamw(double lr) {
    td_rule r = td_adam(lr);
    r.kind = TD_RULE_ADAMW;
    r.weight_decay = 0.01;
    return r;
}

td_rule td_rmsprop(double lr) {
    td_rule r = td_sgd(lr);
    r.kind = TD_RULE_RMSPROP;
    r.alpha = 0.99;
    r.eps = 1e-8;
    return r;
}

td_rule td_adagrad(double lr) {
    td_rule r = td_sgd(lr);
    r.kind = TD_RULE_ADAGRAD;
    r.eps = 1e-10;
    return r;
}

td_rule td_lion(double lr) {
    td_rule r = td_sgd(lr);
    r.kind = TD_RULE_LION;
    r.beta1 = 0.9;
    r.beta2 = 0.99;
    return r;
}

td_rule td_muon(double lr) {
    td_rule r = td_sgd(lr);
    r.kind = TD_RULE_MUON;
    r.weight_decay = 0.1;
    r.momentum = 0.95;
    r.nesterov = true;
    r.eps = 1e-7;
    r.ns_steps = 5;
    return r;
}

/* ---- SGD ---------------------------------------------------------------- */

/* The gradient with L2 weight decay added, if the rule has it. */
static td_tensor *decayed(const one *u) {
    double decay = u->r->weight_decay;
    return decay != 0 ? td_add(u->g, u->t->p, decay) : u->g;
}

/* p -= rate * by */
static void descend(const one *u, td_tensor *by) {
    td_addcmul_(u->t->p, by, u->rate, -1);
}

/* The first step of a parameter takes the gradient without dampening, as in PyTorch. */
static void share_sgd(const td_group *g, shared *s) {
    double d = g->rule.dampening;
    if (g->rule.momentum == 0 || d == 0) return;
    td_tensor *first = td_to(td_eq(g->steps, 1), TD_F64);
    s->fix = td_add(td_mul(first, d), 1 - d);
}

static void sgd(const one *u) {
    td_tensor *g = decayed(u), *buf = u->t->state[TD_S_MOMENTUM];
    if (buf) {
        td_mul_(buf, u->r->momentum);
        if (u->fix) td_addcmul_(buf, g, u->fix);
        else td_add_(buf, g);
        g = u->r->nesterov ? td_add(g, buf, u->r->momentum) : buf;
    }
    descend(u, g);
}

/* ---- Adam --------------------------------------------------------------- */

/* 1 - beta^steps */
static td_tensor *correction(const td_group *g, double beta) {
    return td_add(td_neg(td_pow(beta, g->steps)), 1.0);
}

/* Bias corrections depend on each parameter's step count. */
static void share_adam(const td_group *g, shared *s) {
    s->rate = td_div(g->lr, correction(g, g->rule.beta1));
    s->fix = td_sqrt(correction(g, g->rule.beta2));
}

static void adam(const one *u) {
    const td_rule *r = u->r;
    td_tensor     *m = u->t->state[TD_S_EXP_AVG], *v = u->t->state[TD_S_EXP_AVG_SQ];
    td_tensor     *most = u->t->state[TD_S_MAX_EXP_AVG_SQ];
    td_tensor     *g = r->kind == TD_RULE_ADAM ? decayed(u) : u->g;
    if (u->decay) td_mul_(u->t->p, u->decay);
    td_lerp_(m, g, 1 - r->beta1);
    td_addcmul_(td_mul_(v, r->beta2), g, g, 1 - r->beta2);
    if (most) td_copy_(most, td_maximum(most, v));
    td_tensor *size = td_div_(td_sqrt(most ? most : v), u->fix);
    descend(u, td_div(m, td_add_(size, r->eps)));
}

/* ---- RMSprop, Adagrad, Lion --------------------------------------------- */

/* centered: subtracts the squared mean gradient from the second moment. */
static void rmsprop(const one *u) {
    const td_rule *r = u->r;
    td_tensor     *g = decayed(u), *square = u->t->state[TD_S_SQUARE_AVG];
    td_tensor     *mean = u->t->state[TD_S_GRAD_AVG];
    td_tensor     *buf = u->t->state[TD_S_MOMENTUM];
    td_addcmul_(td_mul_(square, r->alpha), g, g, 1 - r->alpha);
    if (mean) td_lerp_(mean, g, 1 - r->alpha);
    td_tensor *size = td_sqrt(mean ? td_addcmul(square, mean, mean, -1) : square);
    td_tensor *by = td_div(g, td_add_(size, r->eps));
    if (buf) by = td_add_(td_mul_(buf, r->momentum), by);
    descend(u, by);
}

static void share_adagrad(const td_group *g, shared *s) {
    double d = g->rule.lr_decay;
    if (d == 0) return;
    s->rate = td_div(g->lr, td_add(td_mul(td_sub(g->steps, 1.0), d), 1.0));
}

static void adagrad(const one *u) {
    td_tensor *g = decayed(u), *sum = u->t->state[TD_S_SUM];
    td_addcmul_(sum, g, g);
    descend(u, td_div(g, td_add_(td_sqrt(sum), u->r->eps)));
}

static void lion(const one *u) {
    td_tensor *m = u->t->state[TD_S_EXP_AVG];
    if (u->decay) td_mul_(u->t->p, u->decay);
    descend(u, td_sign(td_lerp(m, u->g, 1 - u->r->beta1)));
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

static void muon(const one *u) {
    const td_rule *r = u->r;
    td_tensor     *buf = u->t->state[TD_S_MOMENTUM];
    td_lerp_(buf, u->g, 1 - r->momentum);
    td_tensor *by = r->nesterov ? td_lerp(u->g, buf, r->momentum) : buf;
    td_tensor *update = td_to(orthogonalized(by, r), td_dtype_of(u->t->p));
    if (u->decay) td_mul_(u->t->p, u->decay);
    td_addcmul_(u->t->p, update, td_mul(u->rate, muon_scale(r, u->t->p)), -1);
}

/* ---- the table ---------------------------------------------------------- */

static const struct kind {
    const char *name;
    void (*share)(const td_group *g, shared *s); /* NULL: the rate is lr */
    void (*update)(const one *u);
    bool decoupled; /* weight decay scales the parameter, not the gradient */
} kinds[TD_RULE_COUNT] = {
    [TD_RULE_SGD] = {"SGD", share_sgd, sgd, false},
    [TD_RULE_ADAM] = {"Adam", share_adam, adam, false},
    [TD_RULE_ADAMW] = {"AdamW", share_adam, adam, true},
    [TD_RULE_RMSPROP] = {"RMSprop", NULL, rmsprop, false},
    [TD_RULE_ADAGRAD] = {"Adagrad", share_adagrad, adagrad, false},
    [TD_RULE_LION] = {"Lion", NULL, lion, true},
    [TD_RULE_MUON] = {"Muon", NULL, muon, true},
};

/* Which state tensors a parameter of this rule has, as a set of bits. It does not
 * depend on the step, so that state is made once and can be captured. */
unsigned td__rule_slots(const td_rule *r) {
    switch (r->kind) {
    case TD_RULE_SGD: return r->momentum != 0 ? 1u << TD_S_MOMENTUM : 0;
    case TD_RULE_ADAM:
    case TD_RULE_ADAMW:
        return 1u << TD_S_EXP_AVG | 1u << TD_S_EXP_AVG_SQ |
               (r->amsgrad ? 1u << TD_S_MAX_EXP_AVG_SQ : 0);
    case TD_RULE_RMSPROP:
        return 1u << TD_S_SQUARE_AVG | (r->momentum != 0 ? 1u << TD_S_MOMENTUM : 0) |
               (r->centered ? 1u << TD_S_GRAD_AVG : 0);
    case TD_RULE_ADAGRAD: return 1u << TD_S_SUM;
    case TD_RULE_LION: return 1u << TD_S_EXP_AVG;
    default: return 1u << TD_S_MOMENTUM;
    }
}

/* ---- checks ------------------------------------------------------------- */

/* Fails unless 0 <= v < below. */
static bool in_range(td_ctx *cx, const td_rule *r, const char *what, double v,
                     double below) {
    if (v >= 0 && v < below) return true;
    if (below == INFINITY)
        return td__fail(cx, TD_E_ARG, "%s: %s is %g; it must be finite and at least 0",
                        kinds[r->kind].name, what, v);
    return td__fail(cx, TD_E_ARG, "%s: %s is %g; it must be at least 0 and below %g",
                    kinds[r->kind].name, what, v, below);
}

bool td__rule_check(td_ctx *cx, const td_rule *r) {
    if (r->size != sizeof *r || (unsigned)r->kind >= TD_RULE_COUNT)
        return td__fail(
            cx, TD_E_ARG,
            "td_optim_add: the td_rule is invalid; make it with td_adamw(lr) "
            "or another of the td_rule functions");
    if (!in_range(cx, r, "lr", r->lr, INFINITY) ||
        !in_range(cx, r, "weight_decay", r->weight_decay, INFINITY) ||
        !in_range(cx, r, "momentum", r->momentum, INFINITY) ||
        !in_range(cx, r, "beta1", r->beta1, 1) ||
        !in_range(cx, r, "beta2", r->beta2, 1) ||
        !in_range(cx, r, "eps", r->eps, INFINITY) ||
        !in_range(cx, r, "alpha", r->alpha, INFINITY) ||
        !in_range(cx, r, "lr_decay", r->lr_decay, INFINITY) ||
        !in_range(cx, r, "initial", r->initial, INFINITY) ||
        !in_range(cx, r, "ns_steps", r->ns_steps, 100))
        return false;
    if (r->kind == TD_RULE_SGD && r->nesterov &&
        (r->momentum <= 0 || r->dampening != 0))
        return td__fail(cx, TD_E_ARG,
                        "SGD: nesterov requires momentum above 0 and dampening 0");
    if (r->kind == TD_RULE_MUON && r->maximize)
        return td__fail(cx, TD_E_ARG, "Muon: maximize is not supported");
    return true;
}

/* ---- a step ------------------------------------------------------------- */

/* Entry i of a vector; a 0-d tensor or NULL is shared by all. */
static td_tensor *entry(td_tensor *v, int i) {
    return v && td_rank(v) ? td_select(v, 0, i) : v;
}

/* Increments the step count of each parameter that has a gradient. */
static void count(const td_group *g, td_tensor *const *grads, int n) {
    if (n == g->at.n) td_add_(g->steps, 1.0);
    for (int i = 0; n < g->at.n && i < g->at.n; i++)
        if (grads[i]) td_add_(td_select(g->steps, 0, i), 1.0);
}

/* Updates all parameters of a group that have a gradient. Step counts and what is
 * shared by the parameters (bias corrections, learning rate) are computed once, as
 * vectors, which saves small ops. */
void td__rule_step(const td_group *g, td_tensor *const *grads) {
    const td_rule     *r = &g->rule;
    const struct kind *k = &kinds[r->kind];
    shared             s = {.rate = g->lr};
    int                n = 0;
    for (int i = 0; i < g->at.n; i++) n += grads[i] != NULL;
    if (!n) return;
    count(g, grads, n);
    if (k->share) k->share(g, &s);
    if (k->decoupled && r->weight_decay != 0)
        s.decay = td_add(td_mul(g->lr, -r->weight_decay), 1.0);
    for (int i = 0; i < g->at.n; i++) {
        if (!grads[i]) continue;
        one u = {r, &g->at.v[i], grads[i], entry(s.rate, i), entry(s.fix, i), s.decay};
        td_ctx *cx = td_ctx_of(u.g);
        td_scope_begin(
            cx,
            NULL); /* frees temporaries, so that the next update reuses their memory */
        if (r->maximize) u.g = td_neg(u.g);
        k->update(&u);
        td_scope_end(cx, NULL, NULL);
    }
}
