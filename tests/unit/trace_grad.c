/* trace_grad.c -- gradients, flags and histories inside captured bodies. */
#include "trace_help.h"

/* A leaf of its own with the values of argument i. */
static td_tensor *own_leaf(td_call *c, int i) {
    return td_requires_grad_(td_mul(td_detach(td_arg(c, i)), 1));
}

static bool through_composites(td_call *c) {
    td_tensor *w = own_leaf(c, 1), *g[2];
    td_tensor *b = td_requires_grad_(td_zeros(td_call_ctx(c), TD_SHAPE(3)));
    td_tensor *y = td_linear(td_arg(c, 0), w, b);
    td_tensor *l = td_mse_loss(td_layer_norm(y, TD_SHAPE(3)), td_gelu(y));
    if (!td_grad(TD_LIST(l), TD_LIST(w, b), g, NULL)) return false;
    return td_return(c, g[0], g[1], td_detach(l));
}
TEST(gradients_reach_into_composites) { check_body(through_composites, two); }

static bool through_writes(td_call *c) {
    td_tensor *w = own_leaf(c, 1), *h = td_mul(w, 2), *g;
    td_mul_(h, td_mul(w, w)); /* the tape copies h before it is overwritten */
    td_tanh_(td_select(h, 0, 1));
    td_tensor *l = td_sum(td_mul(h, td_detach(td_arg(c, 0))));
    if (!td_grad(TD_LIST(l), TD_LIST(w), &g, NULL)) return false;
    return td_return(c, g, td_detach(h));
}
TEST(gradients_reach_values_that_were_overwritten) { check_body(through_writes, two); }

static bool by_backward(td_call *c) {
    td_tensor *w = own_leaf(c, 1);
    if (!td_backward(td_sum(td_mul(td_mul(w, w), td_detach(td_arg(c, 0))))))
        return false;
    if (!td_backward(td_sum(td_mul(w, 3)))) return false;
    return td_return(c, td_grad_of(w));
}
TEST(backward_into_a_leaf_made_inside_is_recorded) { check_body(by_backward, two); }

static bool step(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *w = own_leaf(c, 1);
    td_tensor *l = td_mse_loss(td_mul(w, 2), td_detach(td_arg(c, 0))), *g;
    if (!td_grad(TD_LIST(l), TD_LIST(w), &g, NULL)) return false;
    td_grad_mode was = td_no_grad_begin(cx);
    td_sub_(w, td_mul(g, 0.1));
    td_no_grad_end(cx, was);
    return td_return(c, w, td_detach(l));
}
TEST(an_optimizer_step_is_recorded) { check_body(step, two); }

static bool of_arguments(td_call *c) {
    td_tensor *x = td_arg(c, 0), *g;
    if (!td_requires_grad(x)) return td_return(c, x);
    td_tensor *l = td_sum(td_exp(td_mul(x, td_arg(c, 1))));
    if (!td_grad(TD_LIST(l), TD_LIST(x), &g, NULL)) return false;
    return td_return(c, g);
}
TEST(gradients_of_arguments_are_recorded) { check_body(of_arguments, two); }

static bool second(td_call *c) {
    td_tensor   *x = own_leaf(c, 0), *g, *h;
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    td_tensor   *y = td_sum(td_mul(td_sigmoid(x), td_tanh(td_arg(c, 1))));
    if (!td_grad(TD_LIST(y), TD_LIST(x), &g, &o)) return false;
    td_tensor *s = td_sum(td_mul(g, g));
    if (!td_grad(TD_LIST(s), TD_LIST(x), &h, &o)) return false;
    return td_return(c, h, td_detach(g), g);
}
TEST(second_gradients_are_recorded) { check_body(second, two); }

static bool sets_flags(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_mul(td_arg(c, 1), 2);
    if (td_is_leaf(x)) td_requires_grad_(x);
    td_detach_(y);
    td_tensor *z = td_requires_grad_(td_ones(td_call_ctx(c), TD_SHAPE(4)));
    return td_return(c, td_mul(x, y), y, z, td_mul(z, 2));
}
TEST(flags_set_inside_are_set_by_the_program) { check_body(sets_flags, two); }

static bool asks_flags(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_mul(x, 2);
    double     n = td_requires_grad(x) + 2 * td_is_leaf(x) + 4 * td_requires_grad(y) +
               8 * td_is_leaf(y) + 16 * td_is_view(td_select(y, 0, 0));
    return td_return(c, td_mul(y, n), n);
}
TEST(flags_of_tensors_are_what_eager_says) { check_body(asks_flags, two); }

static td_tensor *doubled(void *env, td_tensor *g) {
    (void)env;
    return td_mul(g, 2);
}
static bool hooked(td_call *c) {
    td_on_grad(td_requires_grad_(td_mul(td_detach(td_arg(c, 0)), 1)), doubled, NULL);
    return td_return(c);
}
static bool into_argument(td_call *c) {
    if (!td_backward(td_sum(td_mul(td_arg(c, 0), 2)))) return false;
    return td_return(c);
}
static bool zeroed(td_call *c) {
    td_zero_grad(td_arg(c, 0));
    return td_return(c);
}
static bool reads_grad(td_call *c) {
    return td_return(c, td_mul(td_grad_of(td_arg(c, 0)), 2));
}

static void check_refused(td_body *body, bool has_grad, const char *words) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    if (has_grad) td_backward(td_sum(td_mul(x, 3)));

    CHECK(td_is_nil(td_capture(cx, body, NULL, TD_ARGS(x))));

    TD_CHECK_THAT(td_error(cx) == TD_E_TRACE && strstr(td_message(cx), words), "\"%s\"",
                  td_message(cx));
    td_clear(cx);
    td_tensor *y = td_sum(td_mul(x, 3));
    CHECK(td_backward(y) && td_ok(cx));
    CHECK_NEAR(td_item(td_select(td_grad_of(x), 0, 0)), has_grad ? 6 : 3, 0);
    td_close(cx);
}

TEST(what_would_be_lost_with_the_capture_is_refused) {
    check_refused(hooked, false, "would outlive the call");
}

/* A program leaves in its arguments what the body does. */
static void check_left(td_body *body, bool has_grad, double want) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_value   out = TD_NONE;
    if (has_grad) td_backward(td_sum(td_mul(x, 3)));

    td_program *p = td_capture(cx, body, NULL, TD_ARGS(x));
    TD_CHECK_THAT(p, "%s", td_message(cx));
    CHECK(td_program_results(p) == (body == reads_grad));
    CHECK(td_program_run(p, TD_ARGS(x), &out, 1));

    td_tensor *g = td_grad_of(x);
    CHECK_NEAR(td_is_nil(g) ? 0 : td_item(td_select(g, 0, 0)), want, 0);
    td_program_drop(p);
    td_close(cx);
}
TEST(gradients_of_arguments_are_left_by_programs) {
    check_left(into_argument, false, 2);
    check_left(into_argument, true, 5);
    check_left(zeroed, true, 0);
    check_left(zeroed, false, 0);
    check_left(reads_grad, true, 3);
}

TEST(a_program_is_for_the_gradients_that_were_there) {
    td_ctx     *cx = td_open();
    td_tensor  *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_program *p = td_capture(cx, into_argument, NULL, TD_ARGS(x));
    CHECK(td_program_run(p, TD_ARGS(x), NULL, 0));
    CHECK(!td_program_run(p, TD_ARGS(x), NULL, 0) && td_error(cx) == TD_E_ARG);
    td_clear(cx);
    td_zero_grad(x);
    CHECK(td_program_run(p, TD_ARGS(x), NULL, 0));
    td_program_drop(p);
    td_close(cx);
}

static bool drop_half(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                      int n) {
    (void)env, (void)n_in, (void)n;
    out[0] = td_dropout(td_tanh(in[0]), 0.5, true);
    return !td_is_nil(out[0]);
}
static bool random_checkpoint(td_call *c) {
    td_tensor *x = own_leaf(c, 0), *y, *g;
    if (!td_checkpoint(td_call_ctx(c), drop_half, NULL, TD_LIST(x), &y, 1))
        return false;
    y = td_sum(td_mul(y, y));
    if (!td_grad(TD_LIST(y), TD_LIST(x), &g, NULL)) return false;
    return td_return(c, g);
}
TEST(a_checkpoint_that_draws_is_recorded) { check_body(random_checkpoint, two); }

TEST(a_capture_with_gradients_survives_any_lack_of_memory) {
    for (int64_t k = 0;; k++) {
        td_ctx    *cx = td_open();
        td_tensor *x = td_ones(cx, TD_SHAPE(3, 4)), *w = td_ones(cx, TD_SHAPE(3, 4));
        td__fault_arm(k, false);
        td_program *p = td_capture(cx, through_writes, NULL, TD_ARGS(x, w));
        bool        hit = td__fault_count() > k;
        td__fault_arm(-1, false);
        TD_CHECK_THAT(!td_is_nil(p) ? td_ok(cx) : td_error(cx) == TD_E_MEMORY, "%d: %s",
                      (int)k, td_message(cx));
        CHECK(!cx->fake && cx->top == cx->tape && !cx->tape->below);
        td_program_drop(p);
        td_close(cx);
        if (!hit) break;
    }
}
