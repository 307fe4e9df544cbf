/* sparse_torch.c -- sparse tensors against PyTorch: results, gradients, and steps of
 * optimizers with sparse gradients, eagerly and compiled. tests/nn/sparse.safetensors
 * is tools/oracle/sparse.py's. */
#include "nn_help.h"

enum { STEPS = 8 };

typedef struct run {
    td_ctx         *cx;
    td_safetensors *file;
} run;

static run run_begin(void) {
    run r = {.cx = td_open()};
    r.file = td_safetensors_open(r.cx, "tests/nn/sparse.safetensors");
    CHECK_OK(r.cx);
    return r;
}

static void run_end(run *r) {
    CHECK_OK(r->cx);
    td_safetensors_close(r->file);
    td_close(r->cx);
}

static td_tensor *stored(run *r, const char *name) {
    return td_safetensors_get(r->file, name);
}

static bool has(run *r, const char *name) {
    bool found = false;
    for (int i = 0; i < td_safetensors_count(r->file); i++)
        found |= !strcmp(td_safetensors_name(r->file, i), name);
    return found;
}

/* Are the elements of t, sparse or plain, those in the file? */
static bool is(run *r, const char *name, td_tensor *t) {
    double apart = nn_apart(td_to_dense(t), stored(r, name));
    if (!(apart <= 2e-6)) fprintf(stderr, "%s: %g apart\n", name, apart);
    return apart <= 2e-6;
}

static td_tensor *make(run *r, td_tensor *values) {
    return td_sparse_coo_tensor(stored(r, "indices"), values, TD_SHAPE(6, 5));
}

static td_tensor *columns(td_tensor *z, int64_t n) { return td_narrow(z, 1, 0, n); }

TEST(ops_on_sparse_tensors_give_pytorchs_results) {
    run        r = run_begin();
    td_tensor *a = make(&r, stored(&r, "values")), *c = td_coalesce(a);
    td_tensor *csr = td_to_sparse_csr(a), *x = stored(&r, "x"), *z = stored(&r, "z");
    CHECK(is(&r, "mm", td_matmul(a, x)) && is(&r, "csr_mm", td_mm(csr, x)));
    CHECK(is(&r, "dense_mm", td_mm(stored(&r, "y"), a)));
    CHECK(is(&r, "dense_mm", td_mm(stored(&r, "y"), csr)));
    CHECK(is(&r, "mv", td_mv(a, td_select(x, 1, 0))));
    CHECK(is(&r, "add", td_add(a, a)) && is(&r, "plus", td_add(z, a)));
    CHECK(is(&r, "mul", td_mul(a, z)) && is(&r, "square", td_mul(a, a)));
    CHECK(is(&r, "transpose", td_t(a)) && is(&r, "transpose", td_transpose(csr, 0, 1)));
    CHECK(is(&r, "addmm", td_sparse_addmm(columns(z, 4), a, x, 2.0, 0.5)));
    CHECK(is(&r, "addmm", td_addmm(columns(z, 4), csr, x, 2.0, 0.5)));
    CHECK(is(&r, "sum", td_sum(a)) && is(&r, "coalesced", td_values(c)));
    CHECK(is(&r, "places", td_indices(c)) && is(&r, "crow", td_crow_indices(csr)));
    CHECK(is(&r, "col", td_col_indices(csr)));
    td_tensor *by = td_narrow(z, 0, 0, 3);
    CHECK(is(&r, "sampled", td_sparse_sampled_addmm(csr, columns(z, 3), by, 2.0, 0.5)));
    run_end(&r);
}

/* ---- gradients ---------------------------------------------------------- */

static bool of_dense(td_call *c) {
    return td_return(c, td_sum(td_square(td_to_dense(td_arg(c, 0)))));
}
static bool of_mm(td_call *c) {
    td_tensor *y = td_sparse_mm(td_arg(c, 0), td_arg(c, 1));
    return td_return(c, td_sum(td_square(y)));
}
static bool of_sum(td_call *c) {
    td_tensor *s = td_sparse_sum(td_mul(td_arg(c, 0), 3.0));
    return td_return(c, td_add(s, td_sum(td_arg(c, 1))));
}
static bool of_plain(td_call *c) {
    return td_return(c, td_sum(td_square(td_mm(td_arg(c, 0), td_arg(c, 1)))));
}
static bool of_values(td_call *c) {
    td_tensor *a = td_sparse_coo_tensor(td_arg(c, 2), td_arg(c, 0), TD_SHAPE(6, 5));
    return td_return(c, td_sum(td_square(td_sparse_mm(a, td_arg(c, 1)))));
}

/* Gradients of both arguments, with and without the compiler. */
static void check_grads(run *r, td_body *body, const char *name, td_tensor *a) {
    td_tensor *x = td_requires_grad_(td_clone(stored(r, "x"))), *y = NULL;
    td_fn     *f = td_aot_function(r->cx, body, NULL, NULL);
    char       of_x[64];
    snprintf(of_x, sizeof of_x, "%s.x", name);
    for (int twice = 0; twice < 2; twice++) {
        td_scope_begin(r->cx, "grads");
        CHECK(td_invoke(f, TD_ARGS(a, x, stored(r, "indices")), &y, 1));
        CHECK(td_backward(y));
        CHECK(is(r, name, td_grad_of(a)));
        if (has(r, of_x)) CHECK(is(r, of_x, td_grad_of(x)));
        td_zero_grad(a);
        td_zero_grad(x);
        td_scope_end(r->cx, "grads", NULL);
    }
    CHECK(td_fn_specializations(f) == 1);
    td_fn_drop(f);
}

TEST(gradients_of_sparse_tensors_are_pytorchs) {
    run r = run_begin();
    for (int csr = 0; csr < 2; csr++) {
        td_tensor *a = make(&r, stored(&r, "values"));
        a = td_requires_grad_(csr ? td_to_sparse_csr(a) : a);
        check_grads(&r, of_dense, "grad_to_dense", a);
        check_grads(&r, of_mm, "grad_sparse_mm", a);
        check_grads(&r, of_sum, "grad_sparse_sum", a);
        check_grads(&r, of_plain, "grad_plain_mm", a);
    }
    td_tensor *v = td_requires_grad_(td_clone(stored(&r, "values")));
    check_grads(&r, of_values, "grad_values", v);
    run_end(&r);
}

/* ---- optimizers --------------------------------------------------------- */

typedef struct trained {
    td_tensor *w;
    td_optim  *o;
} trained;

static bool step(td_call *c) {
    trained   *t = td_call_env(c);
    td_tensor *y = td_embedding(t->w, td_arg(c, 0), -1, false, true);
    td_tensor *loss = td_sum(td_mul(y, td_arg(c, 1)));
    return td_backward(loss) && td_optim_step(t->o) &&
           (td_optim_zero_grad(t->o), td_return(c, td_detach(loss)));
}

static void check_steps(const char *name, td_rule rule, bool compiled) {
    run     r = run_begin();
    trained t = {td_requires_grad_(td_clone(stored(&r, "start"))), td_optim_make(r.cx)};
    td_fn  *f = td_aot_step(r.cx, step, &t, NULL);
    CHECK(td_optim_add(t.o, TD_LIST(t.w), rule) == 0);
    for (int i = 0; i < STEPS; i++) {
        char at[32], g[32], want[64];
        snprintf(at, sizeof at, "at.%d", i);
        snprintf(g, sizeof g, "grad.%d", i);
        snprintf(want, sizeof want, "%s.%d", name, i + 1);
        td_scope_begin(r.cx, "step");
        td_tensor *loss, *index = stored(&r, at), *by = stored(&r, g);
        if (compiled) CHECK(td_invoke(f, TD_ARGS(index, by), &loss, 1));
        else {
            td_tensor *y = td_embedding(t.w, index, -1, false, true);
            CHECK(td_backward(td_sum(td_mul(y, by))));
            CHECK(td_is_sparse(td_grad_of(t.w)) && td_nnz(td_grad_of(t.w)) == 5);
            CHECK(td_optim_step(t.o));
            td_optim_zero_grad(t.o);
        }
        td_scope_end(r.cx, "step", NULL);
        CHECK(is(&r, want, t.w));
    }
    if (compiled) CHECK(td_fn_specializations(f) == 1);
    td_fn_drop(f);
    td_optim_free(t.o);
    run_end(&r);
}

static void check_rules(bool compiled) {
    td_rule r = td_sgd(0.1);
    check_steps("sgd", r, compiled);
    r.momentum = 0.9;
    check_steps("sgd_momentum", r, compiled);
    r.momentum = 0.8;
    r.nesterov = r.maximize = true;
    check_steps("sgd_nesterov", r, compiled);
    r = td_adagrad(0.1);
    check_steps("adagrad", r, compiled);
    r.lr_decay = 0.1;
    r.initial = 0.5;
    check_steps("adagrad_decay", r, compiled);
    r = td_sparse_adam(0.01);
    check_steps("sparse_adam", r, compiled);
    r.lr = 0.05;
    r.beta1 = 0.8;
    r.beta2 = 0.95;
    r.eps = 1e-4;
    r.maximize = true;
    check_steps("sparse_adam_betas", r, compiled);
}

TEST(optimizers_step_by_sparse_gradients_as_pytorch) { check_rules(false); }
TEST(compiled_steps_by_sparse_gradients_are_pytorchs) { check_rules(true); }

TEST(the_norm_of_a_sparse_gradient_counts_sums_of_places) {
    run        r = run_begin();
    td_tensor *w = td_requires_grad_(td_clone(stored(&r, "start")));
    int64_t    at[] = {1, 3, 1};
    td_tensor *index = td_from(r.cx, TD_I64, TD_SHAPE(3), at);
    CHECK(td_backward(td_sum(td_embedding(w, index, -1, false, true))));
    td_tensor *g = td_grad_of(w);
    CHECK(is(&r, "clip", td_clip_norm(r.cx, TD_LIST(g), 1.0, 2.0)));
    CHECK(is(&r, "clipped", td_grad_of(w)));
    run_end(&r);
}
