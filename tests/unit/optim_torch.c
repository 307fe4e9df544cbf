/* optim_torch.c -- optimizers against PyTorch: 20 steps with given gradients, eagerly
 * and as a compiled function. tests/nn/optim.safetensors is tools/oracle/optim.py's. */
#include "nn_help.h"

enum { STEPS = 20, MOST = 3 };

typedef struct run {
    td_ctx         *cx;
    td_safetensors *file;
    const char     *name;
    td_optim       *o;
    td_tensor      *p[MOST];
    int             nr[MOST], n; /* their numbers in the file */
} run;

static td_tensor *stored(run *r, const char *what, int step, int nr) {
    char name[64];
    snprintf(name, sizeof name, "%s.%d.%d", what, step, nr);
    return td_safetensors_get(r->file, name);
}

static run run_begin(const char *name, td_rule rule) {
    run r = {.cx = td_open(), .name = name};
    r.file = td_safetensors_open(r.cx, "tests/nn/optim.safetensors");
    CHECK_OK(r.cx);
    bool muon = rule.kind == TD_RULE_MUON;
    r.n = muon ? 2 : 3;
    for (int i = 0; i < r.n; i++) {
        char key[32];
        r.nr[i] = muon && i ? 3 : i;
        snprintf(key, sizeof key, "start.%d", r.nr[i]);
        r.p[i] = td_requires_grad_(td_clone(td_safetensors_get(r.file, key)));
    }
    r.o = td_optim_make(r.cx);
    CHECK(td_optim_add(r.o, (td_tensors){r.p, r.n}, rule) == 0);
    return r;
}

static void run_end(run *r) {
    CHECK_OK(r->cx);
    td_optim_free(r->o);
    td_safetensors_close(r->file);
    td_close(r->cx);
}

/* Muon's products are in bf16, whose sums may round otherwise. */
static bool near(run *r, int step, double tol) {
    bool ok = true;
    for (int i = 0; i < r->n; i++) {
        double apart = nn_apart(r->p[i], stored(r, r->name, step, r->nr[i]));
        if (apart > tol)
            fprintf(stderr, "%s: parameter %d, step %d: %g apart\n", r->name, i, step,
                    apart);
        ok &= apart <= tol;
    }
    return ok;
}

/* The tensors of an optimizer are lr and step, then ax, eta, mu of each parameter. */
static bool average_as_stored(run *r, int i) {
    td_tensor *t[2 + 3 * MOST];
    char       name[64];
    snprintf(name, sizeof name, "ax.%d", r->nr[i]);
    return td_optim_tensors(r->o, t, 2 + 3 * MOST) == 2 + 3 * r->n &&
           nn_apart(t[2 + 3 * i], td_safetensors_get(r->file, name)) < 2e-6;
}

static bool has_grad(const run *r, int i, int t) { return r->nr[i] != 2 || t % 2; }

static void check_eager(const char *name, td_rule rule) {
    run    r = run_begin(name, rule);
    double lr = rule.lr, tol = rule.kind == TD_RULE_MUON ? 4e-3 : 2e-6;
    for (int t = 0; t < STEPS; t++) {
        td_scope_begin(r.cx, "step");
        CHECK(td_optim_set_lr(r.o, -1, lr * (1 + t % 3)));
        for (int i = 0; i < r.n; i++) {
            td_tensor *g = stored(&r, "grad", t, r.nr[i]);
            CHECK(td_set_grad(r.p[i], has_grad(&r, i, t) ? td_clone(g) : NULL));
        }
        CHECK(td_optim_step(r.o));
        td_scope_end(r.cx, "step", NULL);
        if (t < 2 || t + 1 == STEPS) CHECK(near(&r, t + 1, tol));
    }
    if (!strcmp(name, "asgd_decay"))
        for (int i = 0; i < r.n; i++) CHECK(average_as_stored(&r, i));
    run_end(&r);
}

/* The body of a step: gradients are its arguments, absent ones stay absent. */
static bool step_body(td_call *c) {
    td_tensor *grads[MOST];
    int        n = td_arg_count(c);
    for (int i = 0; i < n; i++) grads[i] = td_arg_absent(c, i) ? NULL : td_arg(c, i);
    return td_optim_step_with(td_call_env(c), (td_tensors){grads, n}) && td_return(c);
}

static void check_compiled(const char *name, td_rule rule) {
    run    r = run_begin(name, rule);
    double lr = rule.lr, tol = rule.kind == TD_RULE_MUON ? 4e-3 : 2e-6;
    td_fn *f = td_aot_function(r.cx, step_body, r.o, NULL);
    for (int t = 0; t < STEPS; t++) {
        td_scope_begin(r.cx, "step");
        td_value grads[MOST];
        CHECK(td_optim_set_lr(r.o, 0, lr * (1 + t % 3)));
        for (int i = 0; i < r.n; i++)
            grads[i] = has_grad(&r, i, t)
                           ? td_value_tensor(td_clone(stored(&r, "grad", t, r.nr[i])))
                           : TD_NONE;
        td_invoke(f, (td_values){grads, r.n}, NULL, 0);
        CHECK_OK(r.cx);
        td_scope_end(r.cx, "step", NULL);
        if (t < 2 || t + 1 == STEPS) CHECK(near(&r, t + 1, tol));
    }
    CHECK(td_fn_specializations(f) == (rule.kind == TD_RULE_MUON ? 1 : 2));
    td_fn_drop(f);
    run_end(&r);
}

typedef void check_fn(const char *name, td_rule rule);

static void sgds(check_fn *check) {
    td_rule r = td_sgd(0.1);
    check("sgd", r);
    r.momentum = 0.9;
    r.weight_decay = 0.02;
    check("sgd_momentum", r);
    r.weight_decay = 0;
    r.dampening = 0.3;
    check("sgd_dampening", r);
    r.dampening = 0;
    r.nesterov = r.maximize = true;
    check("sgd_nesterov", r);
}

static void adams(check_fn *check) {
    td_rule r = td_adam(0.01);
    check("adam", r);
    r.amsgrad = true;
    check("adam_amsgrad", r);
    r = td_adam(0.01);
    r.beta1 = 0.8;
    r.beta2 = 0.95;
    r.eps = 1e-3;
    r.weight_decay = 0.1;
    check("adam_decay", r);
    r = td_adamw(0.01);
    check("adamw", r);
    r.amsgrad = r.maximize = true;
    r.weight_decay = 0.2;
    check("adamw_amsgrad", r);
}

static void others(check_fn *check) {
    td_rule r = td_rmsprop(0.01);
    check("rmsprop", r);
    r.momentum = 0.9;
    r.centered = true;
    r.weight_decay = 0.1;
    r.alpha = 0.9;
    check("rmsprop_all", r);
    r = td_adagrad(0.1);
    check("adagrad", r);
    r.lr_decay = r.weight_decay = 0.1;
    r.initial = 0.5;
    check("adagrad_decay", r);
    r = td_lion(0.01);
    check("lion", r);
    r.beta1 = 0.95;
    r.beta2 = 0.98;
    r.weight_decay = 0.3;
    check("lion_decay", r);
}

static void nadams(check_fn *check) {
    td_rule r = td_nadam(0.02);
    check("nadam", r);
    r.weight_decay = 0.1;
    r.momentum_decay = 0.1;
    check("nadam_decay", r);
    r = td_nadam(0.02);
    r.weight_decay = 0.1;
    r.maximize = r.decoupled = true;
    check("nadam_decoupled", r);
}

static void radams(check_fn *check) {
    td_rule r = td_radam(0.01);
    check("radam", r);
    r.beta1 = 0.8;
    r.beta2 = 0.95;
    r.weight_decay = 0.1;
    check("radam_decay", r);
    r = td_radam(0.01);
    r.weight_decay = 0.1;
    r.maximize = r.decoupled = true;
    check("radam_decoupled", r);
}

static void adadeltas(check_fn *check) {
    td_rule r = td_adadelta(1);
    check("adadelta", r);
    r = td_adadelta(0.5);
    r.rho = 0.8;
    r.weight_decay = 0.1;
    r.maximize = true;
    check("adadelta_decay", r);
    r = td_adamax(0.02);
    check("adamax", r);
    r.beta1 = 0.8;
    r.beta2 = 0.9;
    r.weight_decay = 0.1;
    r.maximize = true;
    check("adamax_decay", r);
}

static void adafactors(check_fn *check) {
    td_rule r = td_adafactor(0.01);
    check("adafactor", r);
    r = td_adafactor(0.5);
    r.beta2_decay = -0.6;
    r.eps = 1e-4;
    r.eps2 = 1e-2;
    r.d = 1.5;
    r.weight_decay = 0.1;
    r.maximize = true;
    check("adafactor_decay", r);
}

static void asgds(check_fn *check) {
    td_rule r = td_asgd(0.01);
    check("asgd", r);
    r = td_asgd(0.1);
    r.lambd = 0.05;
    r.alpha = 0.5;
    r.t0 = 3;
    r.weight_decay = 0.1;
    r.maximize = true;
    check("asgd_decay", r);
}

static void rprops(check_fn *check) {
    td_rule r = td_rprop(0.01);
    check("rprop", r);
    r.etaminus = 0.3;
    r.etaplus = 1.7;
    r.step_min = 5e-3;
    r.step_max = 0.05;
    r.maximize = true;
    check("rprop_etas", r);
}

static void muons(check_fn *check) {
    td_rule r = td_muon(0.02);
    check("muon", r);
    r.nesterov = false;
    r.momentum = 0.8;
    r.scale = TD_MUON_MATCH_ADAM;
    check("muon_adam", r);
}

TEST(sgd_steps_as_pytorchs) { sgds(check_eager); }
TEST(adam_steps_as_pytorchs) { adams(check_eager); }
TEST(rmsprop_adagrad_and_lion_step_as_they_should) { others(check_eager); }
TEST(muon_steps_as_pytorchs) { muons(check_eager); }
TEST(a_compiled_step_of_sgd_is_the_same) { sgds(check_compiled); }
TEST(a_compiled_step_of_adam_is_the_same) { adams(check_compiled); }
TEST(a_compiled_step_of_the_others_is_the_same) { others(check_compiled); }
TEST(a_compiled_step_of_muon_is_the_same) { muons(check_compiled); }

TEST(nadam_steps_as_pytorchs) { nadams(check_eager); }
TEST(radam_steps_as_pytorchs) { radams(check_eager); }
TEST(adadelta_and_adamax_step_as_pytorchs) { adadeltas(check_eager); }
TEST(adafactor_steps_as_pytorchs) { adafactors(check_eager); }
TEST(asgd_steps_as_pytorchs) { asgds(check_eager); }
TEST(rprop_steps_as_pytorchs) { rprops(check_eager); }
TEST(a_compiled_step_of_nadam_is_the_same) { nadams(check_compiled); }
TEST(a_compiled_step_of_radam_is_the_same) { radams(check_compiled); }
TEST(a_compiled_step_of_adadelta_and_adamax_is_the_same) { adadeltas(check_compiled); }
TEST(a_compiled_step_of_adafactor_is_the_same) { adafactors(check_compiled); }
TEST(a_compiled_step_of_asgd_is_the_same) { asgds(check_compiled); }
TEST(a_compiled_step_of_rprop_is_the_same) { rprops(check_compiled); }
