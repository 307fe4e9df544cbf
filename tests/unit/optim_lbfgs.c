/* optim_lbfgs.c -- LBFGS against PyTorch on Rosenbrock's function; its closure, group
 * and files. tests/nn/optim.safetensors is tools/oracle/optim.py's. */
#include "nn_help.h"
#include "td_files.h"

typedef struct problem {
    td_ctx    *cx;
    td_tensor *a, *b;
    td_optim  *o;
    double     sign;
    int        calls;
} problem;

static td_tensor *joined(const problem *p) {
    return td_cat(TD_LIST(p->a, td_reshape(p->b, TD_DIMS(-1))), 0);
}

static td_tensor *loss(void *env) {
    problem *p = env;
    p->calls++;
    td_optim_zero_grad(p->o);
    td_tensor *x = joined(p), *low = td_narrow(x, 0, 0, 3);
    td_tensor *curve = td_square(td_sub(td_narrow(x, 0, 1, 3), td_square(low)));
    td_tensor *l = td_add(td_mul(curve, 100.0), td_square(td_sub(low, 1.0)));
    l = td_mul(td_sum(l), p->sign);
    td_backward(l);
    return l;
}

static problem problem_begin(td_rule r) {
    static const double a[] = {-1.5, 2.0}, b[] = {1.2, 0.7};
    problem             p = {.cx = td_open(), .sign = r.maximize ? -1 : 1};
    p.a = td_requires_grad_(td_from(p.cx, TD_F64, TD_SHAPE(2), a));
    p.b = td_requires_grad_(td_from(p.cx, TD_F64, TD_SHAPE(2, 1), b));
    p.o = td_optim_make(p.cx);
    CHECK(td_optim_add(p.o, TD_LIST(p.a, p.b), r) == 0);
    return p;
}

static void problem_end(problem *p) {
    CHECK_OK(p->cx);
    td_optim_free(p->o);
    td_close(p->cx);
}

static void check(const char *name, td_rule r) {
    problem         p = problem_begin(r);
    td_safetensors *file = td_safetensors_open(p.cx, "tests/nn/optim.safetensors");
    for (int t = 0; t < 5; t++) {
        char key[64];
        snprintf(key, sizeof key, "%s.%d", name, t);
        td_scope_begin(p.cx, "step");
        td_tensor *l = td_optim_step_closure(p.o, loss, &p);
        td_tensor *calls = td_full(p.cx, TD_SHAPE(1), p.calls, TD_F64);
        td_tensor *now =
            td_cat(TD_LIST(joined(&p), td_reshape(l, TD_DIMS(1)), calls), 0);
        double apart = nn_apart(now, td_safetensors_get(file, key));
        if (apart > 1e-9) fprintf(stderr, "%s: %g apart\n", key, apart);
        CHECK(apart <= 1e-9);
        td_scope_end(p.cx, "step", NULL);
    }
    td_safetensors_close(file);
    problem_end(&p);
}

static td_rule wolfe(int history) {
    td_rule r = td_lbfgs(1);
    r.strong_wolfe = true;
    r.max_iter = 6;
    r.history_size = history;
    return r;
}

TEST(lbfgs_without_a_search_steps_as_pytorchs) {
    td_rule r = td_lbfgs(0.02);
    r.max_iter = 4;
    check("lbfgs", r);
}

TEST(lbfgs_with_strong_wolfe_steps_as_pytorchs) {
    check("lbfgs_wolfe", wolfe(3));
    td_rule r = td_lbfgs(0.8);
    r.strong_wolfe = r.maximize = true;
    r.tolerance_change = 1e-12;
    r.tolerance_grad = 1e-9;
    r.max_eval = 7;
    check("lbfgs_all", r);
}

TEST(lbfgs_finds_the_minimum_and_stops_there) {
    td_rule r = td_lbfgs(1);
    r.strong_wolfe = true;
    r.max_iter = 200;
    problem p = problem_begin(r);
    td_optim_step_closure(p.o, loss, &p);
    td_tensor *l = td_optim_step_closure(p.o, loss, &p);
    CHECK(td_item(l) < 1e-12 || td_item(l) - 3.70142 < 1e-5); /* a local minimum */
    int calls = p.calls;
    td_optim_step_closure(p.o, loss, &p);
    CHECK(p.calls <= calls + 3);
    problem_end(&p);
}

TEST(lbfgs_continues_from_its_file_as_if_never_stopped) {
    problem p = problem_begin(wolfe(3)), q = problem_begin(wolfe(3));
    for (int i = 0; i < 3; i++) td_optim_step_closure(p.o, loss, &p);
    files_begin();
    const char *path = files_path("lbfgs.safetensors");
    CHECK(td_optim_save(p.o, path) && td_optim_load(q.o, path));
    double at[2];
    CHECK(td_read(p.a, TD_F64, at, sizeof at) && td_write(q.a, TD_F64, at, sizeof at));
    CHECK(td_read(p.b, TD_F64, at, sizeof at) && td_write(q.b, TD_F64, at, sizeof at));
    td_optim_step_closure(p.o, loss, &p);
    td_optim_step_closure(q.o, loss, &q);
    CHECK(td_read(p.a, TD_F64, at, sizeof at));
    CHECK(nn_apart(q.a, td_from(q.cx, TD_F64, TD_SHAPE(2), at)) == 0);
    problem_end(&q);
    problem_end(&p);
    files_end();
}

static bool says(td_ctx *cx, td_code code, const char *part) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

static td_tensor *no_loss(void *env) {
    (void)env;
    return NULL;
}

static td_tensor *adds_a_group(void *env) {
    problem *p = env;
    p->calls++;
    td_tensor *l = loss(p);
    td_optim_free(p->o);
    return l;
}

TEST(mistakes_with_closures_are_errors) {
    problem p = problem_begin(td_lbfgs(1));
    CHECK(!td_optim_step(p.o));
    CHECK(says(p.cx, TD_E_ARG, "td_optim_step: LBFGS computes the loss several times"));
    CHECK(td_is_nil(td_optim_step_closure(p.o, NULL, NULL)));
    CHECK(says(p.cx, TD_E_ARG, "fn is NULL"));
    CHECK(td_is_nil(td_optim_step_closure(p.o, no_loss, NULL)));
    CHECK(says(p.cx, TD_E_ARG, "the closure returned no loss"));
    td_tensor *other = td_requires_grad_(td_ones(p.cx, TD_SHAPE(1)));
    CHECK(td_optim_add(p.o, TD_LIST(other), td_sgd(1)) == -1);
    CHECK(says(p.cx, TD_E_ARG, "a group with LBFGS is the only one"));
    td_optim *o = td_optim_make(p.cx);
    CHECK(td_optim_add(o, TD_LIST(p.a, other), td_lbfgs(1)) == -1);
    CHECK(says(p.cx, TD_E_DTYPE, "parameter 1 is f32[1]; with LBFGS all parameters"));
    td_rule r = td_lbfgs(1);
    r.history_size = 0;
    CHECK(td_optim_add(o, TD_LIST(p.a), r) == -1);
    CHECK(says(p.cx, TD_E_ARG, "history_size 0"));
    CHECK(td_is_nil(td_optim_step_closure(p.o, adds_a_group, &p)));
    CHECK(td_error(p.cx) != TD_OK);
    td_clear(p.cx);
    td_close(p.cx);
}

/* Other rules step once with the gradients of the closure. */
TEST(a_closure_steps_other_rules_too) {
    problem    p = problem_begin(td_sgd(1e-4)), q = problem_begin(td_sgd(1e-4));
    td_tensor *l = td_optim_step_closure(p.o, loss, &p), *m = loss(&q);
    td_optim_step(q.o);
    double at[2];
    CHECK(p.calls == 1 && td_item(l) == td_item(m));
    CHECK(td_read(p.a, TD_F64, at, sizeof at));
    CHECK(nn_apart(q.a, td_from(q.cx, TD_F64, TD_SHAPE(2), at)) == 0);
    problem_end(&q);
    problem_end(&p);
}
