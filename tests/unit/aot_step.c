/* aot_step.c -- td_aot_step: whole training steps as one graph do, bit by bit, what the
 * same steps do eagerly. */
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
