/* optim_steps.c -- optimizers: groups, mistakes, state in files, sums, clipping, rates,
 * and whole steps in compiled functions. Numbers of the rules: optim_torch.c. */
#include "core/core.h"
#include "nn_help.h"
#include "td_files.h"

#include "core/core.h"

static bool says(td_ctx *cx, td_code code, const char *part) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

static int living(const td_ctx *cx) {
    int n = 0;
    for (const td_tensor *t = cx->all; t; t = t->next) n++;
    return n;
}

static td_module *mlp(td_ctx *cx) {
    return td_nn_sequential(cx, TD_MODULES(td_nn_linear(cx, 3, 8, NULL), td_nn_tanh(cx),
                                           td_nn_linear(cx, 8, 1, NULL)));
}

static td_tensor *loss_of(td_module *m, td_tensor *x, td_tensor *y) {
    return td_mse_loss(td_module_call(m, TD_ARGS(x)), y);
}

/* A step the ordinary way; the loss before it. */
static double step(td_module *m, td_optim *o, td_tensor *x, td_tensor *y) {
    td_ctx *cx = td_module_ctx(m);
    td_scope_begin(cx, "step");
    td_tensor *loss = loss_of(m, x, y);
    td_backward(loss);
    td_optim_step(o);
    td_optim_zero_grad(o);
    double value = td_item(loss);
    td_scope_end(cx, "step", NULL);
    return value;
}

/* ---- groups ------------------------------------------------------------- */

TEST(each_group_has_its_own_rule_and_rate) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(2, 2)));
    td_tensor *b = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_tensor *frozen = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_optim  *o = td_optim_make(cx);
    CHECK(td_optim_add(o, TD_LIST(w), td_sgd(0.5)) == 0);
    CHECK(td_optim_add(o, TD_LIST(b, frozen), td_sgd(0.25)) == 1);

    td_backward(td_add(td_sum(w), td_sum(b)));
    CHECK(td_optim_step(o));

    CHECK(td_item(td_amax(w, TD_ALL)) == 0.5 && td_item(td_amax(b, TD_ALL)) == 0.75);
    CHECK(td_item(td_amin(frozen, TD_ALL)) == 1);
    CHECK(td_optim_set_lr(o, 1, 1.0) && td_optim_lr(o, 0) == 0.5);
    CHECK(td_optim_lr(o, 1) == 1 && td_optim_groups(o) == 2);
    CHECK(td_optim_rule(o, 1).kind == TD_RULE_SGD);
    td_tensor *p[3];
    CHECK(td_optim_params(o, p, 3) == 3 && p[0] == w && p[2] == frozen);
    CHECK(td_is_leaf(w) && td_requires_grad(w) && td_grad_enabled(cx));
    td_optim_free(o);
    td_close(cx);
}

TEST(what_cannot_be_stepped_is_refused) {
    td_ctx    *cx = td_open(), *other = td_open();
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_tensor *ints = td_ones(cx, TD_SHAPE(2), TD_I64), *made = td_mul(w, 2.0);
    td_optim  *o = td_optim_make(cx);
    td_rule    r = td_sgd(0.1);

    CHECK(td_optim_add(o, TD_LIST(ints), r) == -1);
    CHECK(says(cx, TD_E_DTYPE, "parameter 0 is i64[2]; it must have a float dtype"));
    CHECK(td_optim_add(o, TD_LIST(w, made), r) == -1);
    CHECK(says(cx, TD_E_GRAD, "parameter 1 is a result of mul"));
    CHECK(td_optim_add(o, TD_LIST(w, w), r) == -1);
    CHECK(says(cx, TD_E_ARG, "parameter 1 is in a group of this optimizer already"));
    CHECK(td_optim_add(o, TD_LIST(td_ones(other, TD_SHAPE(1))), r) == -1);
    CHECK(says(cx, TD_E_ARG, "parameter 0 belongs to another context"));
    CHECK(td_optim_add(o, TD_LIST(w), td_muon(0.1)) == -1);
    CHECK(says(cx, TD_E_SHAPE, "parameter 0 is f32[2], but Muon takes matrices"));
    CHECK(td_optim_add(o, TD_LIST(w), r) == 0 && td_optim_groups(o) == 1);
    CHECK(td_optim_add(o, TD_LIST(w), r) == -1 && says(cx, TD_E_ARG, "already"));
    CHECK(isnan(td_optim_lr(o, 1)) &&
          says(cx, TD_E_ARG, "no group 1; the optimizer has 1"));
    CHECK(!td_optim_set_lr(o, 0, NAN) &&
          says(cx, TD_E_ARG, "td_optim_set_lr: lr is nan"));
    CHECK(!td_optim_step_with(o, TD_LIST(w, w)));
    CHECK(says(cx, TD_E_ARG, "2 gradients were passed for 1 parameters"));
    CHECK(!td_optim_step_with(o, TD_LIST(td_ones(cx, TD_SHAPE(3)))));
    CHECK(says(cx, TD_E_SHAPE, "gradient of parameter 0 is f32[3], the parameter f32"));
    CHECK(!td_optim_step_sums(o) && says(cx, TD_E_ARG, "there are no gradient sums"));
    td_optim_free(o);
    td_close(other);
    td_close(cx);
}

/* A step that cannot be done whole does nothing: neither decay nor counts. */
TEST(a_step_after_the_parameters_changed_their_dtype_writes_nothing) {
    td_ctx    *cx = td_open();
    td_module *m = td_nn_linear(cx, 3, 3, NULL);
    td_optim  *o = td_optim_module(m, td_adamw(0.1));
    td_tensor *w = td_init_ones(td_module_get(m, "weight")), *t[2], *g[2];
    td_module_to(m, TD_F64);
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3), TD_F64);
    td_backward(td_sum(td_module_call(m, TD_ARGS(x))));
    CHECK(!td_optim_step(o));
    CHECK(
        says(cx, TD_E_DTYPE,
             "td_optim_step: exp_avg of parameter 0 is f32[3,3], but the parameter is "
             "f64[3,3]; create the optimizer"));
    for (int i = 0; i < 2; i++) g[i] = td_grad_of(i ? td_module_get(m, "bias") : w);
    CHECK(!td_optim_step_with(o, (td_tensors){g, 2}));
    CHECK(says(cx, TD_E_DTYPE, "td_optim_step_with: exp_avg of parameter 0"));
    td_optim_tensors(o, t, 2);
    CHECK(td_item(td_sum(w)) == 9 && td_item(td_sum(t[1])) == 0);
    td_close(cx);
}

TEST(a_step_of_a_parameter_that_may_only_be_read_writes_nothing) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_requires_grad_(td_ones(cx, TD_SHAPE(1)));
    td_tensor *b = td_requires_grad_(td_ones(cx, TD_SHAPE(1)));
    td_optim  *o = td_optim_make(cx);
    td_optim_add(o, TD_LIST(a, b), td_sgd(0.1));
    td_backward(td_sum(td_mul(a, b)));
    b->st->readonly = true; /* as a mapped file is */
    CHECK(!td_optim_step(o));
    CHECK(says(cx, TD_E_ARG, "td_optim_step: parameter 1 is read-only"));
    CHECK(td_item(td_detach(a)) == 1);
    b->st->readonly = false;
    CHECK(td_optim_step(o) && td_item(td_detach(a)) != 1);
    td_optim_free(o);
    td_close(cx);
}

TEST(numbers_out_of_range_are_refused_by_name) {
    td_ctx   *cx = td_open();
    td_optim *o = td_optim_make(cx);
    td_rule   r = td_adam(-1);
    CHECK(td_optim_add(o, TD_LIST(NULL), r) == -1);
    CHECK(says(cx, TD_E_ARG, "Adam: lr is -1; it must be finite and at least 0"));
    r = td_adam(1);
    r.beta2 = 1;
    CHECK(td_optim_add(o, TD_LIST(NULL), r) == -1);
    CHECK(says(cx, TD_E_ARG, "Adam: beta2 is 1; it must be at least 0 and below 1"));
    r = td_sgd(1);
    r.nesterov = true;
    CHECK(td_optim_add(o, TD_LIST(NULL), r) == -1);
    CHECK(says(cx, TD_E_ARG, "SGD: nesterov requires momentum"));
    r = (td_rule){0};
    CHECK(td_optim_add(o, TD_LIST(NULL), r) == -1 &&
          says(cx, TD_E_ARG, "the td_rule is invalid"));
    td_optim_free(o);
    td_close(cx);
}

TEST(an_optimizer_leaks_nothing) {
    td_ctx    *cx = td_open();
    td_module *m = mlp(cx);
    td_tensor *x = td_randn(cx, TD_SHAPE(4, 3)), *y = td_randn(cx, TD_SHAPE(4, 1));
    int        before = living(cx);
    td_optim  *o = td_optim_module(m, td_adamw(0.01));
    int        with = living(cx);

    CHECK(with == before + td_optim_tensors(o, NULL, 0));
    for (int i = 0; i < 5; i++) step(m, o, x, y);
    CHECK_OK(cx);
    CHECK(living(cx) == with);
    td_optim_free(o);
    CHECK(living(cx) == before);
    td_module_free(m);
    td_close(cx);
}

/* ---- training ----------------------------------------------------------- */

static td_rule muon_or(td_tensor *p) {
    return td_rank(p) == 2 ? td_muon(0.05) : td_adamw(0.05);
}

TEST(every_rule_makes_a_small_loss_smaller) {
    td_rule rules[] = {td_sgd(0.1),      td_adam(0.02),   td_adamw(0.02),
                       td_rmsprop(0.01), td_adagrad(0.1), td_lion(0.005)};
    for (int i = 0; i < 7; i++) {
        td_ctx *cx = td_open();
        td_seed(cx, 5);
        td_module *m = mlp(cx);
        td_optim  *o = i < 6 ? td_optim_module(m, rules[i]) : td_optim_make(cx);
        td_tensor *p[4], *x = td_randn(cx, TD_SHAPE(16, 3));
        td_tensor *y = td_sum(td_sin(x), TD_DIMS(1), true);
        td_module_parameters(m, p, 4);
        for (int k = 0; i == 6 && k < 4; k++)
            td_optim_add(o, TD_LIST(p[k]), muon_or(p[k]));
        double first = step(m, o, x, y), last = first;
        for (int t = 0; t < 100; t++) last = step(m, o, x, y);
        CHECK_OK(cx);
        CHECK(last < 0.3 * first);
        td_optim_free(o);
        td_module_free(m);
        td_close(cx);
    }
}

/* ---- compiled ----------------------------------------------------------- */

/* The update alone, of gradients given. */
static bool update(td_call *c) {
    td_tensor *g[4];
    for (int i = 0; i < 4; i++) g[i] = td_arg(c, i);
    return !td_is_nil(td_clip_norm(td_call_ctx(c), (td_tensors){g, 4}, 0.5, 2)) &&
           td_optim_step_with(td_call_env(c), (td_tensors){g, 4}) && td_return(c);
}

TEST(a_compiled_net_and_a_compiled_update_train_as_eager_ones) {
    td_ctx *cx = td_open();
    td_seed(cx, 2);
    td_module *m = mlp(cx), *m2 = td_module_copy(m);
    td_optim  *o = td_optim_module(m, td_adamw(0.01));
    td_optim  *o2 = td_optim_module(m2, td_adamw(0.01));
    td_tensor *x = td_randn(cx, TD_SHAPE(4, 3)), *y = td_randn(cx, TD_SHAPE(4, 1));
    td_tensor *p[4], *g[4], *out;
    td_fn     *net_fn = td_aot_module(m2, NULL),
          *up = td_aot_function(cx, update, o2, NULL);
    td_optim_params(o2, p, 4);

    for (int i = 0; i < 10; i++) {
        td_tensor *want = loss_of(m, x, y);
        td_optim_set_lr(o, -1, 0.01 * (10 - i));
        td_optim_set_lr(o2, -1, 0.01 * (10 - i));
        td_backward(want);
        td_optim_clip_norm(o, 0.5);
        td_optim_step(o);
        td_optim_zero_grad(o);
        CHECK(td_invoke(net_fn, TD_ARGS(x), &out, 1));
        td_tensor *loss = td_mse_loss(out, y);
        CHECK_NEAR(td_item(loss), td_item(want), 1e-6);
        CHECK(td_grad(TD_LIST(loss), (td_tensors){p, 4}, g, NULL));
        td_invoke(up, TD_ARGS(g[0], g[1], g[2], g[3]), NULL, 0);
        CHECK_OK(cx);
    }
    CHECK(td_fn_specializations(net_fn) == 1 && td_fn_specializations(up) == 1);
    CHECK(nn_apart(td_module_get(m2, "0.weight"), td_module_get(m, "0.weight")) < 1e-6);
    td_fn_drop(net_fn);
    td_fn_drop(up);
    td_optim_free(o);
    td_optim_free(o2);
    td_module_free(m);
    td_module_free(m2);
    td_close(cx);
}

typedef struct trained {
    td_module *m;
    td_optim  *o;
} trained;

/* Loss, backward, clipping and update in one function. */
static bool backward_step(td_call *c) {
    trained   *t = td_call_env(c);
    td_tensor *loss = loss_of(t->m, td_arg(c, 0), td_arg(c, 1));
    td_backward(loss);
    td_optim_clip_norm(t->o, 0.5);
    td_optim_step(t->o);
    td_optim_zero_grad(t->o);
    return td_return(c, td_detach(loss));
}

/* The same with gradients in hand. */
static bool grad_step(td_call *c) {
    trained   *t = td_call_env(c);
    td_tensor *p[4], *g[4], *loss = loss_of(t->m, td_arg(c, 0), td_arg(c, 1));
    int        n = td_optim_params(t->o, p, 4);
    return td_grad(TD_LIST(loss), (td_tensors){p, n}, g, NULL) &&
           !td_is_nil(td_clip_norm(td_call_ctx(c), (td_tensors){g, n}, 0.5, 2)) &&
           td_optim_step_with(t->o, (td_tensors){g, n}) &&
           td_return(c, td_detach(loss));
}

static void check_whole(td_body *body) {
    td_ctx *cx = td_open();
    td_seed(cx, 2);
    td_module *m = mlp(cx), *m2 = td_module_copy(m);
    trained    t = {m2, td_optim_module(m2, td_adamw(0.01))};
    td_optim  *o = td_optim_module(m, td_adamw(0.01));
    td_tensor *x = td_randn(cx, TD_SHAPE(4, 3)), *y = td_randn(cx, TD_SHAPE(4, 1));
    td_fn     *f = td_aot_function(cx, body, &t, NULL);
    for (int i = 0; i < 10; i++) {
        td_tensor *got, *want = loss_of(m, x, y);
        td_optim_set_lr(o, -1, 0.01 * (10 - i));
        td_optim_set_lr(t.o, -1, 0.01 * (10 - i));
        td_backward(want);
        td_optim_clip_norm(o, 0.5);
        td_optim_step(o);
        td_optim_zero_grad(o);
        td_invoke(f, TD_ARGS(x, y), &got, 1);
        CHECK_OK(cx);
        CHECK_NEAR(td_item(got), td_item(want), 1e-6);
    }
    CHECK(td_fn_specializations(f) == 1);
    CHECK(nn_apart(td_module_get(m2, "0.weight"), td_module_get(m, "0.weight")) < 1e-6);
    td_fn_drop(f);
    td_optim_free(o);
    td_optim_free(t.o);
    td_module_free(m);
    td_module_free(m2);
    td_close(cx);
}

TEST(a_whole_step_compiles_once_whatever_the_rate) { check_whole(backward_step); }
TEST(a_whole_step_with_gradients_in_hand_too) { check_whole(grad_step); }

static bool step_alone(td_call *c) {
    return td_optim_step(td_call_env(c)) && td_return(c);
}

TEST(a_compiled_step_takes_the_gradients_of_each_call) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_optim  *o = td_optim_make(cx);
    td_optim_add(o, TD_LIST(w), td_sgd(1));
    td_fn *f = td_aot_function(cx, step_alone, o, NULL);

    for (int i = 1; i < 4; i++) {
        td_set_grad(w, td_full(cx, TD_SHAPE(2), (double)i));
        td_invoke(f, (td_values){NULL, 0}, NULL, 0);
        CHECK_OK(cx);
    }
    CHECK(td_item(td_amax(w, TD_ALL)) == 1 - 1 - 2 - 3);
    td_fn_drop(f);
    td_optim_free(o);
    td_close(cx);
}

/* ---- sums --------------------------------------------------------------- */

TEST(sums_over_batches_step_as_one_large_batch) {
    td_ctx    *cx = td_open();
    td_module *m = mlp(cx), *m2 = td_module_copy(m);
    td_optim  *o = td_optim_module(m, td_sgd(0.1)),
             *o2 = td_optim_module(m2, td_sgd(0.1));
    td_tensor *x = td_randn(cx, TD_SHAPE(8, 3)), *y = td_randn(cx, TD_SHAPE(8, 1));
    td_tensor *p[4], *g[4];
    td_optim_params(o2, p, 4);
    CHECK(td_optim_make_sums(o2));

    for (int round = 0; round < 2; round++) {
        step(m, o, x, y);
        for (int i = 0; i < 2; i++) {
            td_tensor *xi = td_narrow(x, 0, 4 * i, 4), *yi = td_narrow(y, 0, 4 * i, 4);
            td_tensor *loss = loss_of(m2, xi, yi);
            CHECK(td_grad(TD_LIST(loss), (td_tensors){p, 4}, g, NULL));
            CHECK(td_optim_add_to_sums(o2, (td_tensors){g, 4}, 0.5));
        }
        CHECK(td_optim_step_sums(o2));
    }

    for (int i = 0; i < 4; i++) {
        td_tensor *all[4];
        td_optim_params(o, all, 4);
        CHECK(nn_apart(p[i], all[i]) < 1e-6);
    }
    CHECK_OK(cx);
    td_optim_free(o);
    td_optim_free(o2);
    td_module_free(m);
    td_module_free(m2);
    td_close(cx);
}

/* ---- files -------------------------------------------------------------- */

TEST(training_goes_on_from_files_as_if_it_had_not_stopped) {
    td_ctx *cx = td_open();
    td_seed(cx, 9);
    td_module *m = mlp(cx), *again = mlp(cx);
    td_rule    r = td_adamw(0.01);
    r.amsgrad = true;
    td_optim  *o = td_optim_module(m, r), *o2 = td_optim_module(again, r);
    td_tensor *x = td_randn(cx, TD_SHAPE(4, 3)), *y = td_randn(cx, TD_SHAPE(4, 1));
    for (int i = 0; i < 3; i++) step(m, o, x, y);
    td_optim_set_lr(o, -1, 0.5);
    files_begin();

    CHECK(td_module_save(m, files_path("m.safetensors"), NULL));
    CHECK(td_module_load(again, files_path("m.safetensors"), NULL));
    CHECK(td_optim_save(o, files_path("o.safetensors")));
    CHECK(td_optim_load(o2, files_path("o.safetensors")));

    CHECK(td_optim_lr(o2, 0) == 0.5);
    for (int i = 0; i < 3; i++) CHECK(step(m, o, x, y) == step(again, o2, x, y));
    char name[64];
    CHECK(td_optim_tensor_name(o, 0, name, sizeof name) == 10);
    CHECK_STR(name, "group.0.lr");
    td_optim_tensor_name(o, 5, name, sizeof name);
    CHECK_STR(name, "state.0.bias.exp_avg");
    CHECK(td_optim_tensor_name(o, 99, name, sizeof name) == 0);
    CHECK_OK(cx);
    files_end();
    td_optim_free(o);
    td_optim_free(o2);
    td_module_free(m);
    td_module_free(again);
    td_close(cx);
}

TEST(state_of_another_optimizer_is_refused_and_changes_nothing) {
    td_ctx    *cx = td_open();
    td_module *m = mlp(cx), *l = td_nn_linear(cx, 3, 7, NULL);
    td_optim  *o = td_optim_module(m, td_adam(0.01));
    td_optim  *sgd = td_optim_module(m, td_sgd(0.25)),
             *small = td_optim_module(l, td_adam(1));
    files_begin();
    CHECK(td_optim_save(o, files_path("o.safetensors")));

    CHECK(!td_optim_load(sgd, files_path("o.safetensors")));
    CHECK(says(cx, TD_E_ARG, "has 10 tensors; the optimizer has 2"));
    CHECK(td_optim_lr(sgd, 0) == 0.25);
    CHECK(!td_optim_load(small, files_path("o.safetensors")));
    CHECK(
        says(cx, TD_E_SHAPE, "\"group.0.step\" is f64[4]; the optimizer's is f64[2]"));
    CHECK(td_optim_lr(small, 0) == 1);
    CHECK(td_optim_save(sgd, files_path("s.safetensors")));
    CHECK(!td_optim_load(o, files_path("s.safetensors")));
    CHECK(says(cx, TD_E_ARG, "has no tensor \"state.0.weight.exp_avg\""));
    CHECK(!td_optim_load(o, files_path("none")) && says(cx, TD_E_IO, "No such file"));
    files_end();
    td_optim_free(o);
    td_optim_free(sgd);
    td_optim_free(small);
    td_module_free(m);
    td_module_free(l);
    td_close(cx);
}

/* ---- clipping and rates ------------------------------------------------- */

TEST(clipping_bounds_the_norm_or_each_element) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_tensor1(cx, 3, -4), *b = td_tensor1(cx, 12);

    CHECK_NEAR(td_item(td_clip_norm(cx, TD_LIST(a, NULL, b), 1, 2)), 13, 1e-5);
    CHECK_NEAR(td_item(td_select(a, 0, 1)), -4.0 / 13, 1e-6);
    CHECK_NEAR(td_item(b), 12.0 / 13, 1e-6);
    CHECK_NEAR(td_item(td_clip_norm(cx, TD_LIST(a, b), 5, 2)), 1, 1e-5);
    CHECK_NEAR(td_item(b), 12.0 / 13, 1e-6); /* small enough already */
    CHECK_NEAR(td_item(td_clip_norm(cx, TD_LIST(a, b), 0.5, INFINITY)), 12.0 / 13,
               1e-5);
    CHECK_NEAR(td_item(b), 0.5, 1e-5);
    CHECK(td_clip_value(cx, TD_LIST(a, b), 0.125));
    CHECK(td_item(b) == 0.125 && td_item(td_select(a, 0, 1)) == -0.125);
    CHECK(td_item(td_clip_norm(cx, (td_tensors){NULL, 0}, 1, 2)) == 0);
    CHECK(td_is_nil(td_clip_norm(cx, TD_LIST(a), -1, 2)));
    CHECK(says(cx, TD_E_ARG, "td_clip_norm: order 2, bound -1"));
    td_close(cx);
}

/* PyTorch's CosineAnnealingLR, StepLR, LinearLR and OneCycleLR at some steps. */
TEST(rates_are_those_of_pytorchs_schedules) {
    CHECK_NEAR(td_lr_cosine(1, 10, 0.1, 0.01), 0.09779754323328192, 1e-15);
    CHECK_NEAR(td_lr_cosine(8, 10, 0.1, 0.01), 0.01859423525312737, 1e-15);
    CHECK(td_lr_cosine(-3, 10, 0.1, 0.01) == 0.1);
    CHECK_NEAR(td_lr_cosine(99, 10, 0.1, 0.01), 0.01, 1e-17);
    CHECK(td_lr_steps(2, 3, 0.5, 0.1) == 0.1 && td_lr_steps(7, 3, 0.5, 0.1) == 0.025);
    CHECK_NEAR(td_lr_linear(3, 4, 0.05, 0.1), 0.0875, 1e-15);
    CHECK_NEAR(td_lr_one_cycle(0, 10, 0.1), 0.004, 1e-15);
    CHECK_NEAR(td_lr_one_cycle(1, 10, 0.1), 0.052, 1e-15);
    CHECK_NEAR(td_lr_one_cycle(5, 10, 0.1), 0.06112620219362893, 1e-15);
    CHECK_NEAR(td_lr_one_cycle(50, 10, 0.1), 4e-7, 1e-15);
    CHECK(td_lr_warmup(0, 4, 1) == 0.25 && td_lr_warmup(9, 4, 1) == 1);
    CHECK(td_lr_warmup(0, 0, 1) == 1);
    CHECK(td_lr_warmup_cosine(1, 4, 14, 1, 0.1) == 0.5);
    CHECK(td_lr_warmup_cosine(4, 4, 14, 1, 0.1) == 1);
    CHECK_NEAR(td_lr_warmup_cosine(9, 4, 14, 1, 0.1), 0.55, 1e-15);
}
