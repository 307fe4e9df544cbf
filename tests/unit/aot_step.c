/* aot_step.c -- td_aot_step: whole training steps as one graph do what the same steps
 * do eagerly: bit by bit, where sums have one order. */
#include "step_help.h"

static bool with_grad(td_call *c) {
    net       *n = td_call_env(c);
    td_tensor *g[STEP_PARAMS], *loss = net_loss(n, td_arg(c, 0), td_arg(c, 1));
    if (!td_grad(TD_LIST(loss), (td_tensors){n->p, STEP_PARAMS}, g, NULL)) return false;
    sgd(n, g, 0, STEP_PARAMS, td_arg(c, 2));
    return td_return(c, loss);
}
TEST(a_step_with_td_grad_is_one_graph) { check_step(with_grad, 1); }

static bool with_backward(td_call *c) {
    net       *n = td_call_env(c);
    td_tensor *g[STEP_PARAMS], *loss = net_loss(n, td_arg(c, 0), td_arg(c, 1));
    if (!td_backward(loss)) return false;
    kept_grads(n, g);
    adam(n, g, 0, STEP_PARAMS, td_arg(c, 2));
    forget_grads(n);
    return td_return(c, loss);
}
TEST(a_step_with_td_backward_is_one_graph) { check_step(with_backward, 1); }

static bool forgets_first(td_call *c) {
    net *n = td_call_env(c);
    forget_grads(n);
    td_tensor *g[STEP_PARAMS], *loss = net_loss(n, td_arg(c, 0), td_arg(c, 1));
    if (!td_backward(loss)) return false;
    kept_grads(n, g);
    sgd(n, g, 0, STEP_PARAMS, td_arg(c, 2));
    return td_return(c, loss);
}
TEST(gradients_may_stay_until_the_next_step) { check_step(forgets_first, 1); }

static bool forgets_never(td_call *c) {
    net       *n = td_call_env(c);
    td_tensor *g[STEP_PARAMS], *loss = net_loss(n, td_arg(c, 0), td_arg(c, 1));
    if (!td_backward(loss)) return false;
    kept_grads(n, g);
    sgd(n, g, 0, STEP_PARAMS, td_mul(td_arg(c, 2), 0.1));
    return td_return(c, loss);
}
TEST(gradients_may_grow_from_step_to_step) { check_step(forgets_never, 2); }

static bool zeros_in_place(td_call *c) {
    net         *n = td_call_env(c);
    td_grad_mode was = td_no_grad_begin(n->cx);
    for (int i = 0; i < STEP_PARAMS; i++)
        if (!td_is_nil(td_grad_of(n->p[i]))) td_zero_(td_grad_of(n->p[i]));
    td_no_grad_end(n->cx, was);
    return forgets_never(c);
}
TEST(gradients_may_be_zeroed_in_place) { check_step(zeros_in_place, 2); }

/* Four losses of one row each, one update. */
static bool micro_batches(td_call *c) {
    net       *n = td_call_env(c);
    td_tensor *g[STEP_PARAMS], *sum = td_zeros(n->cx, TD_SHAPE());
    for (int i = 0; i < 4; i++) {
        td_tensor *x = td_slice(td_arg(c, 0), 0, i, i + 1);
        td_tensor *y = td_slice(td_arg(c, 1), 0, i, i + 1);
        td_tensor *loss = td_mul(net_loss(n, x, y), 0.25);
        if (!td_backward(loss)) return false;
        td_add_(sum, td_detach(loss));
    }
    kept_grads(n, g);
    adam(n, g, 0, STEP_PARAMS, td_arg(c, 2));
    forget_grads(n);
    return td_return(c, sum);
}
TEST(gradients_of_micro_batches_add_up) { check_step(micro_batches, 1); }

static bool clipped(td_call *c) {
    net       *n = td_call_env(c);
    td_tensor *g[STEP_PARAMS], *loss = net_loss(n, td_arg(c, 0), td_arg(c, 1));
    if (!td_backward(loss)) return false;
    kept_grads(n, g);
    td_grad_mode was = td_no_grad_begin(n->cx);
    td_tensor   *all = td_zeros(n->cx, TD_SHAPE());
    for (int i = 0; i < STEP_PARAMS; i++) td_add_(all, td_sum(td_square(g[i])));
    td_tensor *by =
        td_clamp_max(td_mul(td_reciprocal(td_add(td_sqrt(all), 1e-6)), 0.1), 1.0);
    for (int i = 0; i < STEP_PARAMS; i++) td_mul_(g[i], by);
    td_no_grad_end(n->cx, was);
    sgd(n, g, 0, STEP_PARAMS, td_arg(c, 2));
    forget_grads(n);
    return td_return(c, loss, td_sqrt(all));
}
TEST(gradients_are_clipped_by_their_norm) { check_step(clipped, 1); }

/* One optimizer for the first layer, another for the second, each with its own loss;
 * the second loss sees what the first optimizer has written. */
static bool two_optimizers(td_call *c) {
    net       *n = td_call_env(c);
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1), *g[STEP_PARAMS];
    td_tensor *first = net_loss(n, x, y);
    if (!td_grad(TD_LIST(first), (td_tensors){n->p, 2}, g, NULL)) return false;
    sgd(n, g, 0, 2, td_arg(c, 2));
    td_tensor *second = td_mean(td_square(net_out(n, x)));
    if (!td_grad(TD_LIST(second), (td_tensors){n->p + 2, 2}, g + 2, NULL)) return false;
    adam(n, g, 2, 4, td_arg(c, 2));
    return td_return(c, first, second);
}
TEST(two_optimizers_take_turns) { check_step(two_optimizers, 1); }

static bool three_steps(td_call *c) {
    net       *n = td_call_env(c);
    td_tensor *g[STEP_PARAMS], *loss = NULL;
    for (int i = 0; i < 3; i++) {
        loss = net_loss(n, td_arg(c, 0), td_arg(c, 1));
        if (!td_backward(loss)) return false;
        kept_grads(n, g);
        adam(n, g, 0, STEP_PARAMS, td_arg(c, 2));
        forget_grads(n);
    }
    return td_return(c, loss);
}
TEST(one_function_may_be_several_steps) { check_step(three_steps, 1); }

/* The loss is on forces: derivatives of the energy by the positions. */
static bool force_field(td_call *c) {
    net         *n = td_call_env(c);
    td_tensor   *g[STEP_PARAMS], *force;
    td_tensor   *at = td_requires_grad_(td_mul(td_arg(c, 0), 1.0));
    td_tensor   *energy = td_sum(td_tanh(net_out(n, at)));
    td_grad_opts with = {TD_GRAD_OPTS, .create_graph = true};
    if (!td_grad(TD_LIST(energy), TD_LIST(at), &force, &with)) return false;
    td_tensor *want = td_tanh(td_arg(c, 0));
    td_tensor *loss = td_add(td_mse_loss(force, want), td_mul(energy, 0.01));
    td_backward(loss);
    kept_grads(n, g);
    adam(n, g, 0, STEP_PARAMS, td_arg(c, 2));
    forget_grads(n);
    return td_return(c, loss);
}
TEST(a_loss_may_be_on_gradients) { check_step(force_field, 1); }

/* Random numbers and statistics that move. */
static bool noisy(td_call *c) {
    net       *n = td_call_env(c);
    td_tensor *g[STEP_PARAMS], *h = td_matmul(td_arg(c, 0), n->p[0]);
    h = td_batch_norm(h, n->p[1], NULL, n->mean, n->var, true);
    h = td_dropout(td_relu(h), 0.3, true);
    td_tensor *out = td_add(td_matmul(h, n->p[2]), n->p[3]);
    td_tensor *loss = td_mse_loss(out, td_arg(c, 1));
    if (!td_backward(loss)) return false;
    kept_grads(n, g);
    sgd(n, g, 0, STEP_PARAMS, td_arg(c, 2));
    forget_grads(n);
    return td_return(c, loss);
}
TEST(dropout_and_running_statistics_work_inside) { check_step(noisy, 1); }

static bool hidden_layer(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                         int n_out) {
    net *n = env;
    (void)n_in, (void)n_out;
    out[0] = td_dropout(td_gelu(td_add(td_matmul(in[0], n->p[0]), n->p[1])), 0.2, true);
    return !td_is_nil(out[0]);
}
static bool checkpointed(td_call *c) {
    net       *n = td_call_env(c);
    td_tensor *g[STEP_PARAMS], *h;
    if (!td_checkpoint(n->cx, hidden_layer, n, TD_LIST(td_arg(c, 0)), &h, 1))
        return false;
    td_tensor *out = td_add(td_matmul(h, n->p[2]), n->p[3]);
    td_tensor *loss = td_mse_loss(out, td_arg(c, 1));
    if (!td_backward(loss)) return false;
    kept_grads(n, g);
    sgd(n, g, 0, STEP_PARAMS, td_arg(c, 2));
    forget_grads(n);
    return td_return(c, loss);
}
TEST(checkpoints_work_inside) { check_step(checkpointed, 1); }

/* One weight for both layers, an average of the parameters, decay before the loss. */
static bool tied(td_call *c) {
    net         *n = td_call_env(c);
    td_grad_mode was = td_no_grad_begin(n->cx);
    for (int i = 0; i < STEP_PARAMS; i++) td_mul_(n->p[i], 0.99);
    td_no_grad_end(n->cx, was);
    td_tensor *h = td_tanh(td_add(td_matmul(td_arg(c, 0), n->p[0]), n->p[1]));
    td_tensor *back = td_matmul(h, td_transpose(n->p[0], 0, 1));
    td_tensor *loss = td_mse_loss(back, td_arg(c, 0));
    if (!td_backward(loss)) return false;
    was = td_no_grad_begin(n->cx);
    for (int i = 0; i < 2; i++) {
        td_sub_(n->p[i], td_mul(td_grad_of(n->p[i]), td_arg(c, 2)));
        td_lerp_(n->m[i], n->p[i], 0.05);
        td_copy_(td_select(n->s[i], 0, 0), td_select(n->p[i], 0, 0));
    }
    td_no_grad_end(n->cx, was);
    forget_grads(n);
    return td_return(c, loss);
}
TEST(parameters_may_be_tied_averaged_and_written_first) { check_step(tied, 1); }

/* ---- modules and state -------------------------------------------------- */

typedef struct trainer {
    td_module *m;
    td_tensor *scale; /* closed over, and nobody was told */
} trainer;

static bool tower_step(td_call *c) {
    trainer     *t = td_call_env(c);
    td_ctx      *cx = td_call_ctx(c);
    td_flat     *all = td_module_flat(t->m);
    td_tensor   *loss = td_sum(td_square(td_module_call(t->m, TD_ARGS(td_arg(c, 0)))));
    bool         ok = td_backward(td_mul(loss, t->scale));
    td_grad_mode was = td_no_grad_begin(cx);
    td_mul_(t->scale, 0.5);
    for (int i = 0; ok && i < all->n_params; i++) {
        td_tensor *p = all->entries[i].t;
        td_sub_(p, td_mul(td_grad_of(p), 0.1));
        td_zero_grad(p);
    }
    td_no_grad_end(cx, was);
    td_flat_drop(all);
    return ok && td_return(c, loss);
}

/* Of the module's weight and of what else the step wrote. */
static double sum_of(const trainer *t, const char *name) {
    return td_item(td_sum(td_detach(td_module_get(t->m, name)))) + td_item(t->scale);
}

static trainer trainer_open(td_ctx *cx) {
    td_seed(cx, 3);
    trainer t = {.m = td_nn_linear(cx, 3, 2, NULL)};
    t.scale = td_ones(cx, TD_SHAPE());
    return t;
}

TEST(members_of_a_module_are_followed) {
    td_ctx *a = td_open(), *b = td_open();
    trainer s = trainer_open(a), t = trainer_open(b);
    td_fn  *f =
        td_aot_step(b, tower_step, &t, &(td_aot_opts){TD_AOT_OPTS, .module = t.m});
    for (int i = 0; i < 6; i++) {
        td_tensor *x[2] = {td_full(a, TD_SHAPE(4, 3), 0.3),
                           td_full(b, TD_SHAPE(4, 3), 0.3)};
        td_value   v;
        td_tensor *loss;
        CHECK(td_call_body(a, tower_step, &s, TD_ARGS(x[0]), &v, 1) == 1);
        CHECK(td_invoke(f, TD_ARGS(x[1]), &loss, 1));
        CHECK(td_item(loss) == td_item(td_detach(v.u.t)));
        CHECK(sum_of(&s, "weight") == sum_of(&t, "weight"));
        if (i == 2) { /* another tensor under the same name */
            td_module_set(s.m, "weight", td_full(a, TD_SHAPE(2, 3), 0.2));
            td_module_set(t.m, "weight", td_full(b, TD_SHAPE(2, 3), 0.2));
        }
    }
    CHECK(td_fn_specializations(f) == 1);
    td_fn_drop(f);
    td_module_free(s.m);
    td_module_free(t.m);
    td_close(a);
    td_close(b);
}

/* ---- what a warm call costs --------------------------------------------- */

static td_tensor *made;
static bool       idle(void *env, td_ctx *cx, const td_value *in, td_value *out) {
          (void)env, (void)cx, (void)in;
          out[0] = td_value_tensor(made);
          return true;
}
static bool no_code(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *code) {
    (void)env;
    CHECK(info->half == TD_INFERENCE && td_graph_outputs(g) == 1);
    *code = (td_runner){.run = idle};
    return true;
}
TEST(a_warm_step_allocates_nothing_itself) {
    const td_backend nothing = {.name = "nothing", .compile = no_code};
    td_aot_opts      o = {TD_AOT_OPTS, .inference = &nothing};
    td_tensor       *loss;
    net              n;
    net_open(&n, with_backward, false);
    made = td_zeros(n.cx, TD_SHAPE());
    td_fn *f = td_aot_step(n.cx, with_backward, &n, &o);
    for (int i = 0; i < 4; i++) {
        td__fault_arm(INT64_MAX, false);
        CHECK(td_invoke(f, TD_ARGS(n.x, n.y, n.lr), &loss, 1));
        if (i) CHECK(td__fault_count() == 0);
    }
    td__fault_arm(-1, false);
    td_fn_drop(f);
    net_close(&n);
}

/* ---- what cannot be ----------------------------------------------------- */

static bool leaves_history(td_call *c) {
    net *n = td_call_env(c);
    td_add_(n->t, td_sum(n->p[0]));
    return td_return(c);
}
static bool leaves_gradient(td_call *c) {
    net             *n = td_call_env(c);
    td_tensor       *loss = net_loss(n, td_arg(c, 0), td_arg(c, 1));
    td_backward_opts o = {TD_BACKWARD_OPTS, .create_graph = true};
    return td_backward_with((td_tensors){&loss, 1}, (td_tensors){0}, &o) &&
           td_return(c);
}
static void check_no_step(td_body *body, const char *words) {
    net n;
    net_open(&n, body, true);
    CHECK(!td_invoke(n.f, TD_ARGS(n.x, n.y, n.lr), NULL, 0));
    TD_CHECK_THAT(td_error(n.cx) == TD_E_UNSUPPORTED && strstr(td_message(n.cx), words),
                  "\"%s\"", td_message(n.cx));
    td_clear(n.cx);
    CHECK(td_item(n.t) == 0 && td_is_nil(td_grad_of(n.p[0])));
    net_close(&n);
}
TEST(histories_that_outlive_a_step_are_refused) {
    check_no_step(leaves_history, "has a grad_fn");
    check_no_step(leaves_gradient, "the .grad of a tensor has");
}

TEST(state_of_another_context_is_refused) {
    td_ctx     *cx = td_open(), *other = td_open();
    td_tensor  *t = td_ones(other, TD_SHAPE());
    td_aot_opts o = {TD_AOT_OPTS, .state = {&t, 1}};
    CHECK(td_is_nil(td_aot_step(cx, with_grad, NULL, &o)) && td_error(cx) == TD_E_ARG);
    td_clear(cx);
    td_module *m = td_nn_linear(other, 2, 2, NULL);
    o = (td_aot_opts){TD_AOT_OPTS, .module = m};
    CHECK(td_is_nil(td_aot_step(cx, with_grad, NULL, &o)));
    CHECK_MESSAGE(cx, "td_aot_step: td_aot_opts.module belongs to another context");
    td_clear(cx);
    td_module_free(m);
    o = (td_aot_opts){TD_AOT_OPTS, .state = {NULL, 1}};
    CHECK(td_is_nil(td_aot_step(cx, with_grad, NULL, &o)) && td_error(cx) == TD_E_ARG);
    td_close(other);
    td_close(cx);
}

/* ---- many calls --------------------------------------------------------- */

static int living(const td_ctx *cx) {
    int n = 0;
    for (const td_tensor *t = cx->all; t; t = t->next) n++;
    return n;
}

static void check_leaks(td_body *body) {
    int    calls = getenv("TD_TEST_QUICK") ? 300 : 10000, tensors = 0;
    size_t bytes = 0, blocks = 0;
    net    n;
    net_open(&n, body, true);
    for (int i = 0; i < calls; i++) {
        if (i == 100) {
            bytes = td_memory_live();
            blocks = td__block_live();
            tensors = living(n.cx);
        }
        td_scope_begin(n.cx, "step");
        net_step(&n, body);
        td_scope_end(n.cx, "step", NULL);
    }
    CHECK(td_memory_live() == bytes && td__block_live() == blocks);
    CHECK(living(n.cx) == tensors);
    net_close(&n);
}
TEST(ten_thousand_steps_hold_no_more_than_a_hundred) {
    check_leaks(with_backward);
    check_leaks(forgets_first);
    check_leaks(forgets_never);
}

/* ---- many parameters ---------------------------------------------------- */

enum { LAYERS = 80 };
typedef struct deep {
    td_tensor *p[2 * LAYERS]; /* weights and biases in turn */
} deep;

static bool deep_step(td_call *c) {
    deep      *d = td_call_env(c);
    td_tensor *h = td_arg(c, 0), *g[2 * LAYERS];
    for (int i = 0; i < LAYERS; i++)
        h = td_tanh(td_add(td_matmul(h, d->p[2 * i]), d->p[2 * i + 1]));
    td_tensor *loss = td_mean(td_mul(h, h));
    if (!td_grad(TD_LIST(loss), (td_tensors){d->p, 2 * LAYERS}, g, NULL)) return false;
    td_grad_mode was = td_no_grad_begin(td_call_ctx(c));
    for (int i = 0; i < 2 * LAYERS; i++) td_sub_(d->p[i], td_mul(g[i], 0.5));
    td_no_grad_end(td_call_ctx(c), was);
    return td_return(c, loss);
}

static td_fn *deep_open(td_ctx *cx, deep *d) {
    td_rng_set(cx, 1, 0);
    for (int i = 0; i < LAYERS; i++) {
        d->p[2 * i] = td_requires_grad_(td_randn(cx, TD_SHAPE(3, 3)));
        d->p[2 * i + 1] = td_requires_grad_(td_randn(cx, TD_SHAPE(3)));
    }
    td_aot_opts o = {TD_AOT_OPTS, .state = {d->p, 2 * LAYERS}};
    return td_aot_step(cx, deep_step, d, &o);
}

TEST(a_large_step_is_not_compiled_for_every_batch_size) {
    td_ctx *cx = td_open();
    deep    a, b;
    td_fn  *f = deep_open(cx, &a);
    td_fn_drop(deep_open(cx, &b));
    for (int64_t rows = 4; rows < 8; rows++) {
        td_tensor *x = td_randn(cx, TD_SHAPE(rows, 3)), *loss;
        td_value   plain;
        CHECK(td_invoke(f, TD_ARGS(x), &loss, 1));
        td_value in = td_value_tensor(x);
        CHECK(td_call_body(cx, deep_step, &b, (td_values){&in, 1}, &plain, 1) == 1);
        CHECK_OK(cx);
        CHECK(is_number(cx, td_item(loss), td_item(plain.u.t), 1e-5));
        same_numbers(b.p[0], a.p[0], "a parameter", (int)rows);
    }
    CHECK(td_fn_specializations(f) == 2);
    td_fn_drop(f);
    td_close(cx);
}
