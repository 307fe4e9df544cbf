/* engine.c -- the backward walk itself: depth, memory, threads, order, anomalies
 * and the gradient checks. */
#include "grad_help.h"

#include <pthread.h>

TEST(a_chain_of_a_hundred_thousand_nodes_is_walked_and_freed) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 1.0);

    for (int i = 0; i < 100000; i++) {
        td_scope_begin(cx, "step");
        y = td_scope_end(cx, "step", td_add(y, 1.0));
    }
    CHECK(td_backward(td_sum(y)));

    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(x), 1, 1);
    td_close(cx);
}

TEST(a_deep_chain_dies_with_its_last_tensor) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_scope_begin(cx, "all");
    td_tensor *y = td_mul(x, 1.0);
    for (int i = 0; i < 100000; i++) {
        td_scope_begin(cx, "step");
        y = td_scope_end(cx, "step", td_tanh(y)); /* saves its result */
    }
    td_scope_end(cx, "all", NULL);

    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_deep_chain_of_writes_is_walked_and_freed) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 1.0), *v = td_slice(y, 0, 0, 1);

    for (int i = 0; i < 3000; i++) td_add_(v, 1.0);
    CHECK(td_backward(td_sum(y)));

    CHECK_VALUES(td_grad_of(x), 1, 1);
    td_close(cx);
}

TEST(a_wide_graph_adds_up) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *sum = td_mul(x, 0.0);

    for (int i = 1; i <= 300; i++) sum = td_add(sum, td_mul(x, (double)i));
    td_backward(td_sum(sum));

    CHECK_VALUES(td_grad_of(x), 45150, 45150);
    td_close(cx);
}

TEST(a_diamond_runs_each_node_once) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1.0);

    td_tensor *y = x;
    for (int i = 0; i < 40; i++) y = td_add(y, y); /* 2^40 paths */
    CHECK(td_backward(y));

    CHECK_NEAR(td_item(td_grad_of(x)), ldexp(1, 40), 1);
    td_close(cx);
}

TEST(the_first_gradient_is_taken_over) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3);
    size_t     before;

    td_scope_begin(cx, "s");
    td_tensor *y = td_mul(x, 2.0), *g = td_ones(cx, TD_SHAPE(3));
    before = td_memory_live();
    td_backward_with(TD_LIST(y), TD_LIST(g), NULL);
    size_t grew = td_memory_live() - before;
    td_scope_end(cx, "s", NULL);

    CHECK(grew < 2 * 256); /* one gradient, not two */
    CHECK_VALUES(td_grad_of(x), 2, 2, 2);
    td_close(cx);
}

static void *at[2];

static td_tensor *address(void *env, td_tensor *g) {
    at[*(int *)env] = td_data(g);
    return NULL;
}

TEST(a_taken_gradient_keeps_its_address) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3);
    int        zero = 0;

    td_on_grad(x, address, &zero);
    td_backward(td_sum(td_mul(x, td_tensor1(cx, 4, 5, 6))));

    CHECK(td_data(td_grad_of(x)) == at[0]);
    td_close(cx);
}

TEST(a_gradient_the_user_holds_is_copied) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_add(x, 0.0), *g = td_tensor1(cx, 3, 4);

    td_backward_with(TD_LIST(y), TD_LIST(g), NULL);

    CHECK(!td_same_storage(td_grad_of(x), g));
    CHECK_VALUES(td_grad_of(x), 3, 4);
    td_close(cx);
}

TEST(two_leaves_never_share_a_gradient) {
    td_ctx    *cx = td_open();
    td_tensor *a = LEAF(cx, 1, 2), *b = LEAF(cx, 3, 4);

    td_backward(td_sum(td_add(a, b)));

    CHECK(!td_same_storage(td_grad_of(a), td_grad_of(b)));
    td_grad_mode was = td_no_grad_begin(cx);
    td_mul_(td_grad_of(a), 9.0);
    td_no_grad_end(cx, was);
    CHECK_VALUES(td_grad_of(b), 1, 1);
    td_close(cx);
}

TEST(later_gradients_are_added_in_place) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *w = td_tensor1(cx, 3, 4);
    td_backward(td_sum(td_mul(x, w)));
    td_tensor *g = td_grad_of(x);
    void      *p = td_data(g);

    td_backward(td_sum(td_mul(x, w)));

    CHECK(td_grad_of(x) == g && td_data(g) == p && td_version(g) == 1);
    CHECK_VALUES(g, 6, 8);
    td_close(cx);
}

TEST(create_graph_does_not_write_the_old_gradient) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);
    td_backward(td_sum(td_mul(x, x)));
    td_tensor *g = td_keep(td_grad_of(x)), *y = td_sum(td_mul(x, x));

    td_backward_with(TD_LIST(y), (td_tensors){0},
                     &(td_backward_opts){TD_BACKWARD_OPTS, .create_graph = true});

    CHECK(td_grad_of(x) != g);
    CHECK_VALUES(g, 2, 4);
    CHECK_VALUES(td_grad_of(x), 4, 8);
    td_zero_grad(x);
    td_close(cx);
}

TEST(a_gradient_takes_the_layout_of_its_leaf) {
    td_ctx    *cx = td_open();
    td_tensor *x =
        td_set_requires_grad(td_detach(td_t(td_ones(cx, TD_SHAPE(3, 2)))), true);
    td_tensor *y = td_mul(x, 2.0), *g = td_ones(cx, TD_SHAPE(2, 3));

    td_backward_with(TD_LIST(y), TD_LIST(g), NULL);

    CHECK(td_stride(td_grad_of(x), 0) == 1 && td_stride(td_grad_of(x), 1) == 2);
    td_close(cx);
}

TEST(a_leaf_that_wants_no_gradient_any_more_gets_none) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 2.0), *z = td_mul(x, 3.0);

    td_set_requires_grad(x, false);
    CHECK(td_backward(td_sum(y)));
    CHECK(td_is_nil(td_grad_of(x)));

    td_set_requires_grad(x, true);
    CHECK(td_backward(td_sum(z)));
    CHECK_VALUES(td_grad_of(x), 3, 3);
    td_close(cx);
}

TEST(a_gradient_for_a_leaf_that_has_a_history_by_now_fails) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *w = LEAF(cx, 3, 4), *y = td_mul(x, 2.0);

    td_mul_(td_set_requires_grad(x, false), w);
    td_backward(td_sum(y));

    CHECK_FAILS(cx, "was a leaf when it was used");
    CHECK(td_error(cx) == TD_E_GRAD);
    td_close(cx);
}

TEST(an_expanded_gradient_is_written_out) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(2, 3)), true);

    td_backward(td_sum(x));

    CHECK(td_is_contiguous(td_grad_of(x)));
    CHECK(td_storage_bytes(td_grad_of(x)) == 24);
    td_close(cx);
}

TEST(the_walk_holds_no_gradient_longer_than_needed) {
    td_ctx *cx = td_open();
    enum { N = 1 << 16, DEPTH = 20 };
    size_t     one = N * sizeof(float);
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(N)), true), *y = x;
    for (int i = 0; i < DEPTH; i++) {
        td_scope_begin(cx, "s");
        y = td_scope_end(cx, "s", td_mul(y, 1.01)); /* saves nothing */
    }
    td_tensor *root = td_sum(y);
    td_memory_peak_reset();
    size_t before = td_memory_live();

    CHECK(td_backward(root));

    CHECK(td_memory_peak() - before <= 3 * one);
    td_close(cx);
}

TEST(saved_values_are_freed_as_the_walk_passes) {
    td_ctx *cx = td_open();
    enum { N = 1 << 16, DEPTH = 16 };
    size_t     one = N * sizeof(float);
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(N)), true), *y = x;
    td_scope_begin(cx, "forward");
    for (int i = 0; i < DEPTH; i++) y = td_tanh(y);
    td_tensor *root = td_scope_end(cx, "forward", td_sum(y));
    td_memory_peak_reset();
    size_t before = td_memory_live();

    CHECK(td_backward(root));

    CHECK(td_memory_peak() - before <= 3 * one);
    CHECK(td_memory_live() + (DEPTH - 2) * one < before);
    td_close(cx);
}

TEST(a_backward_leaves_nothing_in_the_users_scope) {
    td_ctx *cx = td_open();
    enum { N = 1 << 16 };
    td_tensor *x = td_set_requires_grad(td_ones(cx, TD_SHAPE(N)), true);
    td_backward(td_sum(td_mul(x, x)));
    td_tensor *y = td_mul(x, x), *root = td_sum(y);
    td_drop(y);
    size_t before = td_memory_live();

    td_backward(root);

    CHECK(td_memory_live() <= before);
    td_close(cx);
}

typedef struct job {
    double result;
    bool   ok;
} job;

static void *train(void *arg) {
    job       *j = arg;
    td_ctx    *cx = td_open();
    td_tensor *w = td_keep(LEAF(cx, 3, -2));
    for (int i = 0; i < 300; i++) {
        td_scope_begin(cx, "step");
        td_zero_grad(w);
        td_backward(td_sum(td_mul(td_tanh(w), w)));
        td_grad_mode was = td_no_grad_begin(cx);
        td_sub_(w, td_mul(td_grad_of(w), 0.1));
        td_no_grad_end(cx, was);
        td_scope_end(cx, "step", NULL);
    }
    j->ok = td_ok(cx);
    j->result = td_item(td_select(w, 0, 0));
    td_close(cx);
    return NULL;
}

TEST(threads_run_backward_at_once) {
    pthread_t t[3];
    job       j[4] = {{0}};

    for (int i = 0; i < 3; i++) pthread_create(&t[i], NULL, train, &j[i]);
    train(&j[3]);
    for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);

    for (int i = 0; i < 4; i++) CHECK(j[i].ok && j[i].result == j[3].result);
}

static char order[16];

static td_tensor *say(void *env, td_tensor *g) {
    (void)g;
    strncat(order, env, sizeof order - strlen(order) - 1);
    return NULL;
}

TEST(later_ops_run_first) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1);
    td_tensor *a = td_mul(x, 2.0), *b = td_mul(x, 3.0), *c = td_mul(x, 4.0);
    order[0] = 0;
    td_on_grad(a, say, "a");
    td_on_grad(b, say, "b");
    td_on_grad(c, say, "c");

    td_backward(td_add(td_add(c, a), b));

    CHECK_STR(order, "cba");
    td_close(cx);
}

TEST(parts_that_lead_nowhere_are_not_walked) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1), *w = LEAF(cx, 2), *a = td_exp(x), *b = td_exp(w);
    order[0] = 0;
    td_on_grad(a, say, "a");
    td_on_grad(b, say, "b");

    grad1(td_mul(a, b), x, NULL);

    CHECK_STR(order, "a");
    td_close(cx);
}

TEST(anomaly_mode_names_the_op_its_line_and_scope) {
    td_ctx *cx = td_open();
    CHECK(!td_set_anomaly(cx, true));
    td_scope_begin(cx, "model");
    td_tensor *x = LEAF(cx, 0), *y = td_sqrt(x); /* the slope at 0 is infinite */

    CHECK(!td_backward(td_sum(td_mul(y, 0.0))));

    CHECK_FAILS(
        cx, "backward of sqrt gave NaN as the gradient of its input 0, in scope model");
    CHECK_FAILS(cx, "engine.c:");
    td_close(cx);
}

TEST(anomaly_mode_places_other_failures_too) {
    td_ctx *cx = td_open();
    td_set_anomaly(cx, true);
    td_tensor *m = MADE(cx, 1), *y = td_mul(m, m);
    td_add_(m, 1.0);

    CHECK(!td_backward(y));

    CHECK_FAILS(cx, "modified in place by add_");
    CHECK_FAILS(cx, "in backward of mul");
    CHECK_FAILS(cx, "engine.c:");
    td_close(cx);
}

TEST(without_anomaly_mode_a_nan_passes) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 0), *y = td_sqrt(x);

    CHECK(td_backward(td_sum(td_mul(y, 0.0))));

    CHECK(isnan(td_item(td_grad_of(x))));
    td_close(cx);
}

TEST(a_failed_backward_leaves_the_context_usable) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *m = td_mul(x, 1.0), *y = td_mul(m, m);
    td_add_(m, 1.0);
    CHECK(!td_backward(td_sum(y)));
    td_clear(cx);

    CHECK(td_grad_enabled(cx) && td_backward(td_sum(td_mul(x, x))));

    CHECK_VALUES(td_grad_of(x), 2, 4);
    td_close(cx);
}

/* ---- gradient checks ---------------------------------------------------- */

static td_tensor *leaf64(td_ctx *cx, double a, double b, double c) {
    return td_set_requires_grad(td_from(cx, TD_F64, TD_SHAPE(3), (double[]){a, b, c}),
                                true);
}

static bool smooth(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)env, (void)n_in;
    out[0] = td_mul(td_tanh(in[0]), td_exp(in[1]));
    if (n_out > 1) out[1] = td_sum(td_mul(in[0], in[1]));
    if (n_out > 2) out[2] = td_argmax(in[0]);
    return true;
}

TEST(gradcheck_accepts_right_derivatives) {
    td_ctx    *cx = td_open();
    td_tensor *in[2] = {leaf64(cx, 0.1, 0.5, -1), leaf64(cx, 0.3, -0.2, 0.8)};

    CHECK(td_gradcheck(cx, smooth, NULL, (td_tensors){in, 2}, 3, NULL));
    CHECK(td_gradgradcheck(cx, smooth, NULL, (td_tensors){in, 2}, 3, NULL));

    CHECK_OK(cx);
    CHECK(td_is_nil(td_grad_of(in[0])));
    CHECK_VALUES(in[0], 0.1, 0.5, -1);
    td_close(cx);
}

static bool twice(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                  int n_out) {
    (void)f, (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], 2.0);
    return true;
}

static bool thrice(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                   int n_in) {
    (void)f, (void)n_in, (void)n_out;
    grad[0] = td_mul(g[0], 3.0);
    return true;
}

static bool lies(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                 int n_out) {
    td_function fn = {"liar", twice, thrice, NULL};
    (void)env;
    return td_function_call(td_ctx_of(in[0]), &fn, NULL, (td_tensors){in, n_in}, out,
                            n_out);
}

TEST(gradcheck_names_the_first_wrong_entry) {
    td_ctx    *cx = td_open();
    td_tensor *x = leaf64(cx, 1, 2, 3);

    CHECK(!td_gradcheck(cx, lies, NULL, TD_LIST(x), 1, NULL));

    CHECK_FAILS(cx, "gradcheck: d result 0 [element 0] / d input 0 [element 0]: "
                    "backward says 3, differences say 2");
    td_close(cx);
}

TEST(gradcheck_wants_doubles) {
    td_ctx *cx = td_open();

    CHECK(!td_gradcheck(cx, lies, NULL, TD_LIST(LEAF(cx, 1)), 1, NULL));

    CHECK_FAILS(cx, "input 0 is f32[1]; differences need f64");
    td_close(cx);
}

static bool through_views(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                          int n_out) {
    (void)env, (void)n_in, (void)n_out;
    td_tensor *y = td_clone(in[0]);
    td_mul_(td_slice(y, 0, 0, 2), td_slice(in[0], 0, 1, 3));
    td_copy_(td_slice(y, 0, 2, 3), td_sin(td_clone(td_slice(y, 0, 1, 2))));
    td_exp_(td_select(y, 0, 1)); /* last: it saves its result */
    out[0] = td_mul(y, y);
    return true;
}

TEST(writes_through_views_pass_gradcheck_and_gradgradcheck) {
    td_ctx    *cx = td_open();
    td_tensor *x = leaf64(cx, 0.4, 0.9, -0.3);

    td_gradcheck(cx, through_views, NULL, TD_LIST(x), 1, NULL);
    CHECK_OK(cx);
    td_gradgradcheck(cx, through_views, NULL, TD_LIST(x), 1, NULL);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(an_error_in_backward_names_the_op_and_the_backward) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(3)));
    int        op = __LINE__ + 1, back = __LINE__ + 3;
    td_tensor *y = td_exp(w);
    td_mul_(td_detach(y), 2.0);
    CHECK(!td_backward(td_sum(y)));
    char want[200];
    snprintf(want, sizeof want, "engine.c:%d, in the backward called at ", op);
    TD_CHECK_THAT(strstr(td_message(cx), want), "%s", td_message(cx));
    snprintf(want, sizeof want, "engine.c:%d)", back);
    TD_CHECK_THAT(strstr(td_message(cx), want), "%s", td_message(cx));
    td_clear(cx);
    td_close(cx);
}
