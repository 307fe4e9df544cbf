/* custom.c -- custom functions and checkpoints. */
#include "grad_help.h"

#include <stdlib.h>

/* ---- functions ---------------------------------------------------------- */

static bool square_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                      int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], in[0]);
    return td_fcall_save(f, TD_LIST(in[0]));
}

static bool square_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                      int n_in) {
    (void)n_in, (void)n_out;
    grad[0] = td_mul(g[0], td_mul(td_fcall_saved(f, 0), 2.0));
    return true;
}

static const td_function square = {"square", square_fw, square_bw, NULL};

static td_tensor *call1(td_ctx *cx, const td_function *fn, td_tensor *x) {
    td_tensor *y;
    td_function_call(cx, fn, NULL, TD_LIST(x), &y, 1);
    return y;
}

TEST(a_custom_function_is_one_node) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3), *y = call1(cx, &square, x);

    CHECK_STR(td_grad_fn_name(y), "square");
    CHECK_STR(td_node_name(td_node_edge(td_grad_fn(y), 0)), "accumulate");
    td_backward(td_sum(y));
    CHECK_VALUES(td_grad_of(x), 2, 4, 6);
    td_close(cx);
}

TEST(a_custom_function_can_be_differentiated_twice) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_sum(call1(cx, &square, x));

    td_tensor *g = grad1(y, x, &(td_grad_opts){TD_GRAD_OPTS, .create_graph = true});

    CHECK_VALUES(g, 2, 4);
    CHECK_VALUES(grad1(td_sum(g), x, NULL), 2, 2);
    td_close(cx);
}

TEST(a_custom_function_of_plain_inputs_records_nothing) {
    td_ctx    *cx = td_open();
    td_tensor *y = call1(cx, &square, td_tensor1(cx, 3));

    CHECK(!td_requires_grad(y));
    CHECK_VALUES(y, 9);
    td_close(cx);
}

TEST(values_a_custom_function_saved_are_checked_for_writes) {
    td_ctx    *cx = td_open();
    td_tensor *x = MADE(cx, 1, 2), *y = call1(cx, &square, x);

    td_add_(x, 1.0);
    CHECK(!td_backward(td_sum(y)));

    CHECK_FAILS(cx, "square: its backward needs a saved value");
    CHECK_FAILS(cx, "add_");
    td_close(cx);
}

TEST(values_a_custom_function_saved_are_freed_by_backward) {
    td_ctx    *cx = td_open();
    td_tensor *y = td_sum(call1(cx, &square, LEAF(cx, 1, 2)));

    CHECK(td_backward(y) && !td_backward(y));

    CHECK_FAILS(cx, "second time");
    td_close(cx);
}

static bool exp_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_exp(in[0]);
    return td_fcall_save(f, TD_LIST(out[0]));
}

static bool exp_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                   int n_in) {
    (void)n_in, (void)n_out;
    grad[0] = td_mul(g[0], td_fcall_saved(f, 0));
    return true;
}

TEST(a_custom_function_can_save_its_result) {
    td_ctx     *cx = td_open();
    td_function fn = {"my_exp", exp_fw, exp_bw, NULL};
    td_tensor  *x = LEAF(cx, 1, 2), *y = td_sum(call1(cx, &fn, x));

    td_tensor *g = grad1(y, x, &(td_grad_opts){TD_GRAD_OPTS, .create_graph = true});

    CHECK_VALUES(g, exp(1), exp(2));
    CHECK_VALUES(grad1(td_sum(g), x, NULL), exp(1), exp(2));
    td_close(cx);
}

static bool stash_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                     int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], in[0]);
    return td_fcall_stash(f, TD_LIST(in[0]));
}

static bool stash_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                     int n_in) {
    (void)n_in, (void)n_out;
    grad[0] = td_mul(g[0], td_fcall_stashed(f, 0));
    return true;
}

TEST(stashed_values_are_not_checked_for_writes) {
    td_ctx     *cx = td_open();
    td_function fn = {"stash", stash_fw, stash_bw, NULL};
    td_tensor  *x = LEAF(cx, 1, 2), *m = td_mul(x, 1.0), *y = call1(cx, &fn, m);

    td_add_(m, 10.0);
    td_backward(td_sum(y));

    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(x), 11, 12);
    td_close(cx);
}

static int destroyed;

static void count_destroy(void *payload) {
    destroyed++;
    free(payload);
}

static bool scale_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                     int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], *(double *)td_fcall_payload(f));
    return true;
}

static bool scale_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                     int n_in) {
    (void)n_in, (void)n_out;
    grad[0] = td_mul(g[0], *(double *)td_fcall_payload(f));
    return true;
}

TEST(the_payload_lives_as_long_as_the_graph) {
    td_ctx     *cx = td_open();
    td_function fn = {"scale", scale_fw, scale_bw, count_destroy};
    double     *by = malloc(sizeof *by);
    td_tensor  *x = td_keep(LEAF(cx, 1, 2)), *y;
    *by = 7, destroyed = 0;

    td_scope_begin(cx, "s");
    td_function_call(cx, &fn, by, TD_LIST(x), &y, 1);
    td_backward(td_sum(y));
    CHECK_VALUES(td_grad_of(x), 7, 7);
    CHECK(destroyed == 0);
    td_scope_end(cx, "s", NULL);

    CHECK(destroyed == 1);
    td_close(cx);
    CHECK(destroyed == 1);
}

TEST(the_payload_dies_at_once_when_nothing_is_recorded) {
    td_ctx     *cx = td_open();
    td_function fn = {"scale", scale_fw, scale_bw, count_destroy};
    double     *by = malloc(sizeof *by);
    td_tensor  *y;
    *by = 7, destroyed = 0;

    td_function_call(cx, &fn, by, TD_LIST(td_tensor1(cx, 1)), &y, 1);

    CHECK_VALUES(y, 7);
    CHECK(destroyed == 1);
    td_close(cx);
}

static bool identity_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                        int n_out) {
    (void)f, (void)n_in, (void)n_out;
    out[0] = in[0];
    return true;
}

static bool triple_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                      int n_in) {
    (void)f, (void)n_in, (void)n_out;
    grad[0] = td_mul(g[0], 3.0);
    return true;
}

TEST(an_input_returned_as_it_was_becomes_a_view_with_the_custom_backward) {
    td_ctx     *cx = td_open();
    td_function fn = {"identity", identity_fw, triple_bw, NULL};
    td_tensor  *x = LEAF(cx, 1, 2), *y = call1(cx, &fn, x);

    CHECK(y != x && td_is_view(y) && td_same_storage(x, y) && td_is_leaf(x));
    td_backward(td_sum(y));
    CHECK_VALUES(td_grad_of(x), 3, 3);
    td_close(cx);
}

TEST(a_view_from_a_custom_function_may_not_be_written) {
    td_ctx     *cx = td_open();
    td_function fn = {"identity", identity_fw, triple_bw, NULL};
    td_tensor  *y = call1(cx, &fn, LEAF(cx, 1, 2));

    td_mul_(y, 2.0);

    CHECK_FAILS(cx, "result 0 of identity is a view and is being modified in place");
    CHECK_FAILS(cx, "custom function");
    td_close(cx);
}

static bool dirty_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                     int n_out) {
    (void)n_in, (void)n_out;
    td_mul_(in[0], 2.0);
    out[0] = in[0];
    return td_fcall_mark_dirty(f, TD_LIST(in[0]));
}

static bool five_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                    int n_in) {
    (void)f, (void)n_in, (void)n_out;
    grad[0] = td_mul(g[0], 5.0);
    return true;
}

static const td_function dirty = {"dirty", dirty_fw, five_bw, NULL};

TEST(a_dirty_input_continues_its_history_through_the_function) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *m = td_mul(x, 1.0), *y = call1(cx, &dirty, m);

    CHECK(y == m);
    CHECK_STR(td_grad_fn_name(m), "dirty");
    td_backward(td_sum(y));
    CHECK_VALUES(td_grad_of(x), 5, 5);
    td_close(cx);
}

TEST(a_dirty_leaf_is_refused) {
    td_ctx *cx = td_open();

    CHECK(td_is_nil(call1(cx, &dirty, LEAF(cx, 1, 2))));

    CHECK_FAILS(cx, "writes a leaf that requires grad in place");
    td_close(cx);
}

TEST(a_dirty_view_rebases_its_base) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2, 3, 4), *m = td_mul(x, 1.0);

    call1(cx, &dirty, td_slice(m, 0, 0, 2));
    CHECK_STR(td_grad_fn_name(m), "copy_slices");
    td_backward(td_sum(m));

    CHECK_VALUES(td_grad_of(x), 5, 5, 1, 1);
    td_close(cx);
}

static bool lost_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], 2.0);
    return td_fcall_mark_dirty(f, TD_LIST(in[0]));
}

TEST(a_dirty_input_must_be_returned) {
    td_ctx     *cx = td_open();
    td_function fn = {"lost", lost_fw, five_bw, NULL};

    CHECK(td_is_nil(call1(cx, &fn, MADE(cx, 1))));

    CHECK_FAILS(cx, "lost: an input marked dirty was not returned");
    td_close(cx);
}

static bool pair_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], 2.0);
    out[1] = td_mul(in[0], 3.0);
    return td_fcall_mark_non_differentiable(f, TD_LIST(out[1]));
}

static bool pair_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                    int n_in) {
    (void)f, (void)n_in;
    if (n_out != 2 || !g[1]) return false;
    grad[0] = td_add(td_mul(g[0], 2.0), g[1]);
    return true;
}

TEST(a_result_can_be_marked_as_not_differentiable) {
    td_ctx     *cx = td_open();
    td_function fn = {"pair", pair_fw, pair_bw, NULL};
    td_tensor  *x = LEAF(cx, 1, 2), *y[2];

    td_function_call(cx, &fn, NULL, TD_LIST(x), y, 2);

    CHECK(td_requires_grad(y[0]) && !td_requires_grad(y[1]));
    CHECK(td_backward(td_sum(y[0]))); /* g[1] is zeros */
    CHECK_VALUES(td_grad_of(x), 2, 2);
    td_close(cx);
}

static bool bare_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) {
    (void)n_in, (void)n_out;
    td_fcall_materialize(f, false);
    out[0] = td_mul(in[0], 2.0);
    out[1] = td_mul(in[0], 3.0);
    return true;
}

static bool bare_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                    int n_in) {
    (void)f, (void)n_in, (void)n_out;
    if (g[0]) grad[0] = td_mul(g[0], 2.0);
    return true;
}

TEST(gradients_that_did_not_arrive_can_be_asked_for_as_they_are) {
    td_ctx     *cx = td_open();
    td_function fn = {"bare", bare_fw, bare_bw, NULL};
    td_tensor  *x = LEAF(cx, 1, 2), *y[2];

    td_function_call(cx, &fn, NULL, TD_LIST(x), y, 2);
    CHECK(td_backward(td_sum(y[1])));

    CHECK(td_is_nil(td_grad_of(x)));
    td_close(cx);
}

static bool wrong_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                     int n_in) {
    (void)g, (void)n_in, (void)n_out;
    grad[0] = td_ones(td_fcall_ctx(f), TD_SHAPE(5));
    return true;
}

TEST(a_gradient_that_does_not_fit_its_input_is_refused) {
    td_ctx     *cx = td_open();
    td_function fn = {"wrong", identity_fw, wrong_bw, NULL};

    CHECK(!td_backward(td_sum(call1(cx, &fn, LEAF(cx, 1, 2, 3)))));

    CHECK_FAILS(cx, "backward of wrong returned f32[5] for input 0, whose size is [3]");
    td_close(cx);
}

static bool failing(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                    int n_in) {
    (void)g, (void)n_in, (void)n_out, (void)grad;
    td_fail(td_fcall_ctx(f), TD_E_IO, "the disk is full");
    return false;
}

TEST(a_custom_backward_can_fail) {
    td_ctx     *cx = td_open();
    td_function fn = {"failing", identity_fw, failing, NULL};
    td_tensor  *x = LEAF(cx, 1);

    CHECK(!td_backward(call1(cx, &fn, x)));

    CHECK_MESSAGE(cx, "the disk is full");
    CHECK(td_is_nil(td_grad_of(x)));
    td_close(cx);
}

static bool no_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                  int n_out) {
    (void)f, (void)in, (void)n_in, (void)out, (void)n_out;
    return false;
}

TEST(a_custom_forward_can_fail) {
    td_ctx     *cx = td_open();
    td_function fn = {"never", no_fw, five_bw, count_destroy};
    destroyed = 0;

    CHECK(td_is_nil(call1(cx, &fn, LEAF(cx, 1))));

    CHECK_FAILS(cx, "never: forward returned false");
    CHECK(destroyed == 1);
    td_close(cx);
}

static bool needs_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                     int n_out) {
    (void)n_out;
    if (n_in != 3 || in[2]) return false;
    if (!td_fcall_needs(f, 0) || td_fcall_needs(f, 1) || td_fcall_needs(f, 2))
        return false;
    out[0] = td_add(in[0], in[1]);
    return true;
}

static bool needs_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                     int n_in) {
    (void)n_in, (void)n_out;
    if (!td_fcall_needs(f, 0) || td_fcall_needs(f, 1)) return false;
    grad[0] = grad[1] = td_mul(g[0], 4.0); /* one too many: ignored */
    return true;
}

TEST(a_custom_function_knows_which_gradients_are_wanted) {
    td_ctx     *cx = td_open();
    td_function fn = {"needs", needs_fw, needs_bw, NULL};
    td_tensor  *x = LEAF(cx, 1), *b = td_tensor1(cx, 2), *y;

    td_function_call(cx, &fn, NULL, TD_LIST(x, b, NULL), &y, 1);
    CHECK(td_backward(y));

    CHECK_VALUES(td_grad_of(x), 4);
    CHECK(td_is_nil(td_grad_of(b)));
    td_close(cx);
}

static bool view_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) {
    (void)f, (void)n_in, (void)n_out;
    out[0] = td_view(in[0], TD_SHAPE(-1));
    return true;
}

TEST(a_view_made_in_a_custom_function_has_its_backward) {
    td_ctx     *cx = td_open();
    td_function fn = {"flat", view_fw, five_bw, NULL};
    td_tensor  *x = LEAF(cx, 1, 2), *m = td_mul(x, 1.0), *y = call1(cx, &fn, m);

    td_backward(td_sum(y));
    CHECK_VALUES(td_grad_of(x), 5, 5);
    td_mul_(y, 2.0);
    CHECK_FAILS(cx, "result 0 of flat is a view");
    td_close(cx);
}

/* ---- checkpoints -------------------------------------------------------- */

static int runs;

static bool block(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                  int n_out) {
    (void)env, (void)n_in, (void)n_out;
    runs++;
    out[0] = td_exp(td_mul(td_sin(in[0]), in[1]));
    return true;
}

TEST(a_checkpointed_region_gives_the_same_gradients_and_runs_twice) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 0.3, 0.7), *w = LEAF(cx, 2, 3), *in[2] = {x, w}, *y, *g[2];
    runs = 0;

    block(NULL, in, 2, &y, 1);
    td_grad(TD_LIST(td_sum(y)), TD_LIST(x, w), g, NULL);
    CHECK(td_checkpoint(cx, block, NULL, (td_tensors){in, 2}, &y, 1));
    CHECK(runs == 2);
    CHECK(td_backward(td_sum(y)));

    CHECK(runs == 3);
    CHECK_VALUES(td_sub(td_grad_of(x), g[0]), 0, 0);
    CHECK_VALUES(td_sub(td_grad_of(w), g[1]), 0, 0);
    td_close(cx);
}

static bool noisy(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                  int n_out) {
    (void)env, (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], td_exp(td_rand(td_ctx_of(in[0]), TD_SHAPE(4))));
    return true;
}

TEST(a_checkpointed_region_draws_the_same_numbers_again) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 1, 1, 1), *y;
    td_seed(cx, 5);

    td_checkpoint(cx, noisy, NULL, TD_LIST(x), &y, 1);
    td_rand(cx, TD_SHAPE(3));
    uint64_t offset = td_rng_offset(cx);
    td_backward(td_sum(y));

    CHECK_OK(cx);
    CHECK_VALUES(td_sub(td_grad_of(x), y), 0, 0, 0, 0);
    CHECK(td_rng_offset(cx) == offset);
    td_close(cx);
}

static bool closes_over(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                        int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul(td_exp(in[0]), (td_tensor *)env);
    return true;
}

TEST(a_checkpointed_region_may_read_leaves_that_are_no_inputs) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 0, 1), *w = LEAF(cx, 2, 3), *y;

    td_checkpoint(cx, closes_over, w, TD_LIST(x), &y, 1);
    td_backward(td_sum(y));

    CHECK_VALUES(td_grad_of(w), 1, exp(1));
    CHECK_VALUES(td_grad_of(x), 2, 3 * exp(1));
    td_close(cx);
}

TEST(a_checkpoint_can_be_walked_twice_and_differentiated_twice) {
    td_ctx      *cx = td_open();
    td_tensor   *x = LEAF(cx, 0.5), *w = LEAF(cx, 2), *in[2] = {x, w}, *y;
    td_grad_opts cg = {TD_GRAD_OPTS, .create_graph = true};

    td_checkpoint(cx, block, NULL, (td_tensors){in, 2}, &y, 1);
    td_tensor *g = grad1(y, x, &cg);
    td_tensor *h = grad1(g, x, NULL);

    double s = sin(0.5), c = cos(0.5), f = exp(2 * s);
    CHECK_OK(cx);
    CHECK_VALUES(g, 2 * c * f);
    CHECK_VALUES(h, 4 * c * c * f - 2 * s * f);
    td_close(cx);
}

static bool moody(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                  int n_out) {
    (void)env, (void)n_in, (void)n_out;
    out[0] = runs++ ? td_mul(in[0], 2.0) : td_exp(td_sin(in[0]));
    return true;
}

TEST(a_region_that_does_something_else_the_second_time_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *y;
    runs = 0;

    td_checkpoint(cx, moody, NULL, TD_LIST(LEAF(cx, 1)), &y, 1);
    CHECK(!td_backward(y));

    CHECK_FAILS(cx, "it must compute the same each time");
    td_close(cx);
}

static bool outer_block(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                        int n_out) {
    (void)n_in, (void)n_out;
    td_tensor *h;
    td_ctx    *cx = td_ctx_of(in[0]);
    td_tensor *two[2] = {td_sin(in[0]), in[0]};
    if (!td_checkpoint(cx, block, env, (td_tensors){two, 2}, &h, 1)) return false;
    out[0] = td_mul(h, h);
    return true;
}

TEST(checkpoints_nest) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 0.4, 0.9), *y;

    outer_block(NULL, &x, 1, &y, 1);
    td_tensor *want = grad1(td_sum(y), x, NULL);
    td_checkpoint(cx, outer_block, NULL, TD_LIST(x), &y, 1);
    td_backward(td_sum(y));

    CHECK_OK(cx);
    CHECK_VALUES(td_sub(td_grad_of(x), want), 0, 0);
    td_close(cx);
}

TEST(a_checkpoint_without_grad_just_runs) {
    td_ctx    *cx = td_open();
    td_tensor *in[2] = {td_tensor1(cx, 1), td_tensor1(cx, 2)}, *y;
    runs = 0;

    CHECK(td_checkpoint(cx, block, NULL, (td_tensors){in, 2}, &y, 1));

    CHECK(runs == 1 && !td_requires_grad(y));
    td_close(cx);
}

/* The gradient of exp(w sin x) by x, taken inside. */
static bool differentiates(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                           int n_out) {
    td_grad_opts cg = {TD_GRAD_OPTS, .create_graph = true};
    td_tensor   *y;
    (void)n_in, (void)n_out;
    return block(env, in, 2, &y, 1) &&
           td_grad(TD_LIST(td_sum(y)), TD_LIST(in[0]), &out[0], &cg);
}

TEST(a_checkpointed_region_may_go_backward_inside) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 0.3, 0.7), *w = LEAF(cx, 2, 3), *in[2] = {x, w}, *y, *z;
    td_tensor *g[2];
    differentiates(NULL, in, 2, &y, 1);
    td_grad(TD_LIST(td_sum(y)), TD_LIST(x, w), g, NULL);
    runs = 0;

    CHECK(td_checkpoint(cx, differentiates, NULL, (td_tensors){in, 2}, &z, 1));
    CHECK_VALUES(td_sub(z, y), 0, 0);
    CHECK(td_backward(td_sum(z)));

    CHECK(runs == 3); /* once more for the backward inside, once for the one outside */
    CHECK_VALUES(td_sub(td_grad_of(x), g[0]), 0, 0);
    CHECK_VALUES(td_sub(td_grad_of(w), g[1]), 0, 0);
    td_close(cx);
}

static bool overwrites(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                       int n_out) {
    (void)env, (void)n_in, (void)n_out;
    td_tensor *h = td_mul(in[0], 2.0);
    out[0] = td_sin(h);
    return !td_is_nil(td_mul_(h, 3.0));
}

TEST(a_checkpointed_region_that_overwrites_what_it_saved_is_an_error) {
    td_ctx    *cx = td_open();
    td_tensor *y;

    CHECK(td_checkpoint(cx, overwrites, NULL, TD_LIST(LEAF(cx, 1)), &y, 1));
    CHECK(!td_backward(y));

    CHECK_FAILS(cx, "has modified it in place after saving it");
    td_close(cx);
}
