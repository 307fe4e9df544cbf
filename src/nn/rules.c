/* rules.c -- update rules of optimizers, written in ops: defaults, state, checks,
 * steps. Numbers that change from step to step (rate, step count and derived ones) are
 * small f64 tensors, so that a captured step stays valid; all others are constants of
 * the rule. rules_adam.c and rules_sgd.c have the updates. */
#include "nn/rules.h"
#include "tandem/sparse.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- state tensors ------------------------------------------------------- */

/* Sizes of a state tensor; those that are not numbers have the parameter's dtype. */
typedef enum slot_shape {
    LIKE_PARAM,
    NUMBER, /* f64[] */
    ROW,    /* the parameter's sizes, 1 in the last dim */
    COLUMN  /* 1 in the dim before */
} slot_shape;

static const struct slot {
    const char *name; /* PyTorch's */
    slot_shape  shape;
} slots[TD_S_COUNT] = {
    [TD_S_EXP_AVG] = {"exp_avg", LIKE_PARAM},
    [TD_S_EXP_AVG_SQ] = {"exp_avg_sq", LIKE_PARAM},
    [TD_S_MAX_EXP_AVG_SQ] = {"max_exp_avg_sq", LIKE_PARAM},
    [TD_S_EXP_INF] = {"exp_inf", LIKE_PARAM},
    [TD_S_MU_PRODUCT] = {"mu_product", NUMBER},
    [TD_S_MOMENTUM] = {"momentum_buffer", LIKE_PARAM},
    [TD_S_SQUARE_AVG] = {"square_avg", LIKE_PARAM},
    [TD_S_GRAD_AVG] = {"grad_avg", LIKE_PARAM},
    [TD_S_ACC_DELTA] = {"acc_delta", LIKE_PARAM},
    [TD_S_SUM] = {"sum", LIKE_PARAM},
    [TD_S_ROW_VAR] = {"row_var", ROW},
    [TD_S_COL_VAR] = {"col_var", COLUMN},
    [TD_S_VARIANCE] = {"variance", LIKE_PARAM},
    [TD_S_AX] = {"ax", LIKE_PARAM},
    [TD_S_ETA] = {"eta", NUMBER},
    [TD_S_MU] = {"mu", NUMBER},
    [TD_S_PREV] = {"prev", LIKE_PARAM},
    [TD_S_STEP_SIZE] = {"step_size", LIKE_PARAM},
    [TD_S_GRAD_SUM] = {"grad_sum", LIKE_PARAM},
};

const char *td__slot_name(td_slot_id k) { return slots[k].name; }

/* The sizes of p, but 1 in the dim that is `from_end` before the end. */
static td_tensor *zeros_but(td_tensor *p, int from_end) {
    int64_t size[TD_MAX_RANK];
    int     rank = td_rank(p);
    for (int d = 0; d < rank; d++) size[d] = d == rank - from_end ? 1 : td_size(p, d);
    td_ints sizes = {size, rank};
    return td_zeros(td_ctx_of(p), sizes, td_dtype_of(p));
}

/* What a state tensor contains before the first step. */
static double first_value(const td_rule *r, td_slot_id k) {
    switch (k) {
    case TD_S_SUM: return r->initial;
    case TD_S_MU_PRODUCT:
    case TD_S_MU: return 1;
    case TD_S_ETA:
    case TD_S_STEP_SIZE: return r->lr;
    default: return 0;
    }
}

td_tensor *td__slot_make(td_tensor *p, const td_rule *r, td_slot_id k) {
    double first = first_value(r, k);
    switch (slots[k].shape) {
    case NUMBER: return td_full(td_ctx_of(p), TD_SHAPE(), first, TD_F64);
    case ROW: return zeros_but(p, 1);
    case COLUMN: return zeros_but(p, 2);
    default: return td_full_like(p, first);
    }
}

bool td__slot_fits(const td_tensor *p, const td_tensor *state, td_slot_id k) {
    switch (slots[k].shape) {
    case NUMBER: return true;
    case LIKE_PARAM: return td__same_type(p, state);
    default: return p->dtype == state->dtype;
    }
}

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

td_rule td_adadelta(double lr) {
    td_rule r = td_sgd(lr);
    r.kind = TD_RULE_ADADELTA;
    r.rho = 0.9;
    r.eps = 1e-6;
    return r;
}

td_rule td_adamax(double lr) {
    td_rule r = td_adam(lr);
    r.kind = TD_RULE_ADAMAX;
    return r;
}

td_rule td_nadam(double lr) {
    td_rule r = td_adam(lr);
    r.kind = TD_RULE_NADAM;
    r.momentum_decay = 4e-3;
    return r;
}

td_rule td_radam(double lr) {
    td_rule r = td_adam(lr);
    r.kind = TD_RULE_RADAM;
    return r;
}

td_rule td_adafactor(double lr) {
    td_rule r = td_sgd(lr);
    r.kind = TD_RULE_ADAFACTOR;
    r.beta2_decay = -0.8;
    r.eps2 = 1e-3;
    r.d = 1;
    return r;
}

td_rule td_asgd(double lr) {
    td_rule r = td_sgd(lr);
    r.kind = TD_RULE_ASGD;
    r.lambd = 1e-4;
    r.alpha = 0.75;
    r.t0 = 1e6;
    return r;
}

td_rule td_rprop(double lr) {
    td_rule r = td_sgd(lr);
    r.kind = TD_RULE_RPROP;
    r.etaminus = 0.5;
    r.etaplus = 1.2;
    r.step_min = 1e-6;
    r.step_max = 50;
    return r;
}

td_rule td_lbfgs(double lr) {
    td_rule r = td_sgd(lr);
    r.kind = TD_RULE_LBFGS;
    r.max_iter = 20;
    r.tolerance_grad = 1e-7;
    r.tolerance_change = 1e-9;
    r.history_size = 100;
    return r;
}

td_rule td_sparse_adam(double lr) {
    td_rule r = td_adam(lr);
    r.kind = TD_RULE_SPARSE_ADAM;
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

/* ---- parts of updates ---------------------------------------------------- */

td_tensor *td__rule_decayed(const td_update *u) {
    double decay = u->r->weight_decay;
    return decay != 0 && !u->by.decay ? td_add(u->g, u->t->p, decay) : u->g;
}

void td__rule_shrink(const td_update *u) {
    if (u->by.decay) td_mul_(u->t->p, u->by.decay);
}

void td__rule_descend(const td_update *u, td_tensor *by, td_tensor *rate) {
    td_addcmul_(u->t->p, by, rate, -1);
}

void td__rule_mix(td_tensor *t, td_tensor *by, td_tensor *w) {
    td_add_(t, td_mul(td_sub(by, t), w));
}

/* ---- the table ---------------------------------------------------------- */

static const struct kind {
    const char   *name;
    td_share_fn  *share; /* NULL: the rate is lr */
    td_update_fn *update;
    bool          decoupled; /* weight decay scales the parameter, not the gradient */
    bool          counts;    /* the update reads the step count */
    td_update_fn *sparse;    /* by a sparse gradient; NULL: not supported */
} kinds[TD_RULE_COUNT] = {
    [TD_RULE_SGD] = {"SGD", td__share_sgd, td__step_sgd, false,
                     .sparse = td__sparse_sgd},
    [TD_RULE_ADAM] = {"Adam", td__share_adam, td__step_adam, false},
    [TD_RULE_ADAMW] = {"AdamW", td__share_adam, td__step_adam, true},
    [TD_RULE_RMSPROP] = {"RMSprop", NULL, td__step_rmsprop, false},
    [TD_RULE_ADAGRAD] = {"Adagrad", td__share_adagrad, td__step_adagrad, false,
                         .sparse = td__sparse_adagrad},
    [TD_RULE_LION] = {"Lion", NULL, td__step_lion, true},
    [TD_RULE_MUON] = {"Muon", NULL, td__step_muon, true},
    [TD_RULE_ADADELTA] = {"Adadelta", NULL, td__step_adadelta, false},
    [TD_RULE_ADAMAX] = {"Adamax", td__share_adamax, td__step_adamax, false},
    [TD_RULE_NADAM] = {"NAdam", td__share_nadam, td__step_nadam, false},
    [TD_RULE_RADAM] = {"RAdam", td__share_radam, td__step_radam, false},
    [TD_RULE_ADAFACTOR] = {"Adafactor", NULL, td__step_adafactor, true, .counts = true},
    [TD_RULE_ASGD] = {"ASGD", NULL, td__step_asgd, false, .counts = true},
    [TD_RULE_RPROP] = {"Rprop", NULL, td__step_rprop, false, .counts = true},
    [TD_RULE_LBFGS] = {"LBFGS", NULL, NULL, false}, /* lbfgs.c */
    [TD_RULE_SPARSE_ADAM] = {"SparseAdam", td__share_sparse_adam, NULL, false,
                             .sparse = td__sparse_adam},
};

/* The set with these members. */
#define BIT(slot) (1u << TD_S_##slot)

/* It does not depend on the step, so that state is made once and can be captured. */
unsigned td__rule_slots(const td_rule *r, const td_tensor *p) {
    unsigned momentum = r->momentum != 0 ? BIT(MOMENTUM) : 0;
    switch (r->kind) {
    case TD_RULE_SGD: return momentum;
    case TD_RULE_ADAM:
    case TD_RULE_ADAMW:
        return BIT(EXP_AVG) | BIT(EXP_AVG_SQ) | (r->amsgrad ? BIT(MAX_EXP_AVG_SQ) : 0);
    case TD_RULE_RMSPROP:
        return BIT(SQUARE_AVG) | momentum | (r->centered ? BIT(GRAD_AVG) : 0);
    case TD_RULE_ADAGRAD: return BIT(SUM);
    case TD_RULE_LION: return BIT(EXP_AVG);
    case TD_RULE_ADADELTA: return BIT(SQUARE_AVG) | BIT(ACC_DELTA);
    case TD_RULE_ADAMAX: return BIT(EXP_AVG) | BIT(EXP_INF);
    case TD_RULE_NADAM: return BIT(EXP_AVG) | BIT(EXP_AVG_SQ) | BIT(MU_PRODUCT);
    case TD_RULE_SPARSE_ADAM:
    case TD_RULE_RADAM: return BIT(EXP_AVG) | BIT(EXP_AVG_SQ);
    case TD_RULE_ADAFACTOR:
        return p->rank > 1 ? BIT(ROW_VAR) | BIT(COL_VAR) : BIT(VARIANCE);
    case TD_RULE_ASGD: return BIT(AX) | BIT(ETA) | BIT(MU);
    case TD_RULE_RPROP: return BIT(PREV) | BIT(STEP_SIZE);
    case TD_RULE_LBFGS: return 0;
    default: return BIT(MOMENTUM);
    }
}

/* ---- checks ------------------------------------------------------------- */

/* A number of a rule, and where it may be. */
typedef struct bound {
    const char *name;
    size_t      at; /* a double of td_rule */
    double      below;
} bound;

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

static bool check_bounds(td_ctx *cx, const td_rule *r) {
#define B(field, below) \
    { #field, offsetof(td_rule, field), below }
    static const bound all[] = {
        B(lr, INFINITY),
        B(weight_decay, INFINITY),
        B(momentum, INFINITY),
        B(beta1, 1),
        B(beta2, 1),
        B(eps, INFINITY),
        B(eps2, INFINITY),
        B(alpha, INFINITY),
        B(lr_decay, INFINITY),
        B(initial, INFINITY),
        B(rho, 1.0000001),
        B(momentum_decay, INFINITY),
        B(lambd, INFINITY),
        B(t0, INFINITY),
        B(step_min, INFINITY),
        B(step_max, INFINITY),
        B(tolerance_grad, INFINITY),
        B(tolerance_change, INFINITY),
    };
#undef B
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        double v;
        memcpy(&v, (const char *)r + all[i].at, sizeof v);
        if (!in_range(cx, r, all[i].name, v, all[i].below)) return false;
    }
    return in_range(cx, r, "ns_steps", r->ns_steps, 100);
}

/* Conditions of one kind of rule. */
static bool check_kind(td_ctx *cx, const td_rule *r) {
    if (r->kind == TD_RULE_SGD && r->nesterov &&
        (r->momentum <= 0 || r->dampening != 0))
        return td__fail(cx, TD_E_ARG,
                        "SGD: nesterov requires momentum above 0 and dampening 0");
    if (r->kind == TD_RULE_MUON && r->maximize)
        return td__fail(cx, TD_E_ARG, "Muon: maximize is not supported");
    if (r->kind == TD_RULE_ADAFACTOR && !(r->d >= 1 && r->beta2_decay <= 0))
        return td__fail(cx, TD_E_ARG,
                        "Adafactor: d is %g and beta2_decay is %g; d must be at least "
                        "1, beta2_decay at most 0",
                        r->d, r->beta2_decay);
    if (r->kind == TD_RULE_RPROP &&
        !(0 < r->etaminus && r->etaminus < 1 && 1 < r->etaplus))
        return td__fail(cx, TD_E_ARG,
                        "Rprop: etaminus is %g and etaplus is %g; they must be below "
                        "and above 1, and positive",
                        r->etaminus, r->etaplus);
    if (r->kind == TD_RULE_LBFGS &&
        (r->max_iter < 1 || r->max_eval < 0 || r->history_size < 1))
        return td__fail(cx, TD_E_ARG,
                        "LBFGS: max_iter is %d, max_eval %d, history_size %d; they "
                        "must be positive, max_eval may be 0",
                        r->max_iter, r->max_eval, r->history_size);
    return true;
}

bool td__rule_check(td_ctx *cx, const td_rule *r) {
    if (r->size != sizeof *r || (unsigned)r->kind >= TD_RULE_COUNT)
        return td__fail(
            cx, TD_E_ARG,
            "td_optim_add: the td_rule is invalid; make it with td_adamw(lr) "
            "or another of the td_rule functions");
    return check_bounds(cx, r) && check_kind(cx, r);
}

/* Can the rule update a parameter by this gradient? False after td__fail. */
bool td__rule_takes(const td_rule *r, const char *who, int nr, const td_tensor *g) {
    const char *name = kinds[r->kind].name;
    bool        sparse = td_is_sparse(g), lbfgs = r->kind == TD_RULE_LBFGS;
    if (td_is_sparse_csr(g) || (sparse && !kinds[r->kind].sparse))
        return td__fail(
            g->cx, TD_E_GRAD,
            "%s: %s does not support sparse gradients, and parameter %d has "
            "one; use SparseAdam (td_sparse_adam), SGD or Adagrad, or make "
            "the gradient plain (td_to_dense)",
            who, name, nr);
    if (sparse && r->weight_decay != 0)
        return td__fail(g->cx, TD_E_GRAD,
                        "%s: weight_decay of %s is not compatible with sparse "
                        "gradients, and parameter %d has one; set it to 0",
                        who, name, nr);
    return sparse || lbfgs || kinds[r->kind].update ||
           td__fail(
               g->cx, TD_E_GRAD,
               "%s: %s does not support dense gradients, and parameter %d has one; "
               "use Adam (td_adam)",
               who, name, nr);
}

/* ---- a step ------------------------------------------------------------- */

/* Entry i of a vector; a 0-d tensor or NULL is shared by all. */
static td_tensor *entry(td_tensor *v, int i) {
    return v && td_rank(v) ? td_select(v, 0, i) : v;
}

/* Leaves of each vector the entry of parameter i. */
static void share_out(td_shared *s, int i) {
    s->rate = entry(s->rate, i);
    s->fix = entry(s->fix, i);
    s->now = entry(s->now, i);
    s->next = entry(s->next, i);
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
    td_shared          s = {.rate = g->lr};
    int                n = 0;
    for (int i = 0; i < g->at.n; i++) n += grads[i] != NULL;
    if (!n) return;
    count(g, grads, n);
    if (k->share) k->share(g, &s);
    if ((k->decoupled || r->decoupled) && r->weight_decay != 0)
        s.decay = td_add(td_mul(g->lr, -r->weight_decay), 1.0);
    for (int i = 0; i < g->at.n; i++) {
        if (!grads[i]) continue;
        td_update u = {r, &g->at.v[i], grads[i], NULL, s};
        if (k->counts) u.step = td_select(g->steps, 0, i);
        share_out(&u.by, i);
        td_ctx *cx = td_ctx_of(u.g);
        td_scope_begin(
            cx,
            NULL); /* frees temporaries, so that the next update reuses their memory */
        if (r->maximize) u.g = td_neg(u.g);
        if (td_is_sparse(u.g)) k->sparse(&u);
        else k->update(&u);
        td_scope_end(cx, NULL, NULL);
    }
}
