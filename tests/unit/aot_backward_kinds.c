/* aot_backward_kinds.c -- td_aot_backward through nodes that are no ops: compiled
 * calls, custom functions, checkpoints; and what the handle itself does. */
#include "aot_backward_help.h"

/* ---- compiled functions ------------------------------------------------- */

static bool affine(td_call *c) {
    td_tensor *h = td_matmul(td_arg(c, 0), td_arg(c, 1));
    return td_return(c, td_tanh(h), td_sum(h));
}

static void calls_in_a_row(side *s) {
    td_fn     *f = td_aot_function(s->cx, affine, NULL, NULL);
    td_tensor *w = leaf(s->cx, TD_SHAPE(3, 3), 0.1),
              *v = leaf(s->cx, TD_SHAPE(2, 3), 1);
    for (int step = 0; step < 3; step++) {
        td_tensor *a[2], *b[2], *x = values(s->cx, TD_SHAPE(2, 3), 0.1 * step);
        td_invoke(f, TD_ARGS(x, w), a, 2);
        td_invoke(f, TD_ARGS(td_mul(a[0], v), w), b, 2);
        td_tensor *loss = td_add(td_sum(td_mul(b[0], b[0])), a[1]); /* not b[1] */
        back(loss, NULL, false);
        tell(s, "w", td_grad_of(w));
        tell(s, "v", td_grad_of(v));
        back(loss, NULL, false);
        tell_error(s, "a second time");
        tell(s, "w", td_grad_of(w));
    }
    td_fn_drop(f);
}
TEST(backward_graphs_of_compiled_calls_become_part_of_it) {
    check_backward(calls_in_a_row, (counts){3, 1, 3});
}

/* Two results, used up one after the other. */
static void results_in_turn(side *s) {
    td_fn *f = td_aot_function(s->cx, affine, NULL, NULL);
    for (int step = 0; step < 2; step++) {
        td_tensor *w = leaf(s->cx, TD_SHAPE(3, 3), 0.1), *y[2];
        td_invoke(f, TD_ARGS(values(s->cx, TD_SHAPE(2, 3), 1), w), y, 2);
        back(y[1], NULL, true);
        tell(s, "w", td_grad_of(w));
        back(td_sum(y[0]), NULL, false);
        tell(s, "w", td_grad_of(w));
        back(td_sum(y[0]), NULL, false);
        tell_error(s, "a second time");
        tell(s, "w", td_grad_of(w));
    }
    td_fn_drop(f);
}
TEST(each_set_of_results_is_a_history) {
    check_backward(results_in_turn, (counts){4, 2, 2});
}

static void symbolic(side *s) {
    td_fn *f =
        td_aot_function(s->cx, affine, NULL,
                        &(td_aot_opts){TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC});
    td_tensor *w = leaf(s->cx, TD_SHAPE(3, 3), 0.1);
    for (int step = 0; step < 4; step++) {
        td_tensor *y[2],
            *x = values(s->cx, step % 2 ? TD_SHAPE(4, 3) : TD_SHAPE(2, 3), 1);
        td_invoke(f, TD_ARGS(x, w), y, 2);
        back(td_add(td_sum(y[0]), y[1]), NULL, false);
        tell(s, "w", td_grad_of(w));
    }
    td_fn_drop(f);
}
TEST(a_call_with_symbolic_sizes_is_compiled_for_each_size) {
    check_backward(symbolic, (counts){4, 2, 0});
}

static bool noisy(td_call *c) {
    return td_return(c, td_dropout(td_exp(td_arg(c, 0)), 0.5, true));
}
static void random_inside(side *s) {
    td_fn     *f = td_aot_function(s->cx, noisy, NULL, NULL);
    td_tensor *x = leaf(s->cx, TD_SHAPE(8), 0.1);
    for (int step = 0; step < 3; step++) {
        td_tensor *y;
        td_invoke(f, TD_ARGS(x), &y, 1);
        back(td_sum(y), NULL, false);
        tell(s, "x", td_grad_of(x));
        tell(s, "drawn next", td_rand(s->cx, TD_SHAPE(2), TD_F64));
    }
    td_fn_drop(f);
}
TEST(a_compiled_dropout_has_the_mask_of_its_forward) {
    check_backward(random_inside, (counts){3, 1, 0});
}

/* ---- custom functions --------------------------------------------------- */

static int backwards; /* C calls of a custom backward */

static bool cube(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)n_in, (void)n;
    out[0] = td_mul(td_mul(in[0], in[0]), in[0]);
    return td_fcall_save(f, TD_LIST(in[0])) &&
           td_fcall_stash(f, TD_LIST(td_mul(in[0], 3.0)));
}
static bool cube_back(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                      int n_in) {
    (void)n_out, (void)n_in;
    backwards++;
    grad[0] = td_mul(td_mul(g[0], td_fcall_stashed(f, 0)), td_fcall_saved(f, 0));
    return true;
}
static const td_function cubed = {.name = "cube",
                                  .forward = cube,
                                  .backward = cube_back};

static void custom(side *s) {
    backwards = 0;
    for (int step = 0; step < 3; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(4), 0.1 + step), *y;
        td_function_call(s->cx, &cubed, NULL, TD_LIST(td_mul(x, 2.0)), &y, 1);
        back(td_sum(td_exp(y)), NULL, false);
        tell(s, "x", td_grad_of(x));
    }
    CHECK(!with || backwards == 1);
}
TEST(a_custom_backward_is_traced_once) { check_backward(custom, (counts){3, 1, 0}); }

static void with_payload(side *s) {
    static int payload;
    for (int step = 0; step < 2; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(4), 0.1 + step), *y;
        td_function_call(s->cx, &cubed, &payload, TD_LIST(x), &y, 1);
        back(td_sum(y), NULL, false);
        tell(s, "x", td_grad_of(x));
    }
}
TEST(a_custom_function_with_a_payload_runs_between_parts_of_code) {
    check_backward(with_payload, (counts){2, 1, 0});
}

static td_tensor *scale; /* read by a custom backward, and saved by nobody */
static bool once(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)f, (void)n_in, (void)n;
    out[0] = td_mul(in[0], scale);
    return true;
}
static bool once_back(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                      int n_in) {
    (void)f, (void)n_out, (void)n_in;
    grad[0] = td_mul(g[0], scale);
    return true;
}
static const td_function scaled = {.name = "scale",
                                   .forward = once,
                                   .backward = once_back};

static void outside(side *s) {
    for (int step = 0; step < 3; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(4), 0.1), *y;
        scale = values(s->cx, TD_SHAPE(4), step);
        td_function_call(s->cx, &scaled, NULL, TD_LIST(x), &y, 1);
        back(td_sum(y), NULL, false);
        tell(s, "x", td_grad_of(x));
    }
}
TEST(a_custom_backward_that_reads_an_unsaved_tensor_is_the_engines) {
    check_backward(outside, (counts){1, 1, 2});
}

static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)env, (void)n_in, (void)n;
    out[0] = td_exp(td_mul(in[0], in[0]));
    return true;
}
static void checkpointed(side *s) {
    for (int step = 0; step < 2; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(4), 0.1), *y;
        td_checkpoint(s->cx, region, NULL, TD_LIST(x), &y, 1);
        back(td_sum(y), NULL, false);
        tell(s, "x", td_grad_of(x));
    }
}
TEST(a_checkpoint_is_recomputed_by_the_engine) {
    check_backward(checkpointed, (counts){2, 1, 0});
}

/* ---- the handle --------------------------------------------------------- */

TEST(options_of_arguments_are_refused) {
    td_ctx *cx = td_open();
    td_aot_backward(cx, &(td_aot_opts){TD_AOT_OPTS, .n_params = 2});
    CHECK(strstr(td_message(cx), "td_aot_opts.n_params has no meaning"));
    td_clear(cx);
    td_ctx         *other = td_open();
    td_backward_fn *f = td_aot_backward(other, NULL);
    td_tensor      *x = leaf(cx, TD_SHAPE(1), 1);
    td_backward_with(TD_LIST(x), (td_tensors){0},
                     &(td_backward_opts){TD_BACKWARD_OPTS, .with = f});
    CHECK(strstr(td_message(cx), "belongs to another context"));
    td_close(other);
    td_close(cx);
}

static bool drops(void *env, td_tensor *t) {
    (void)t;
    td_backward_fn_drop(env);
    return true;
}
TEST(a_hook_may_drop_it) {
    td_ctx         *cx = td_open();
    td_backward_fn *f = td_aot_backward(cx, NULL);
    td_tensor      *x = leaf(cx, TD_SHAPE(2), 1);
    td_on_accumulated(x, drops, f);
    CHECK(td_backward_with(TD_LIST(td_sum(x)), (td_tensors){0},
                           &(td_backward_opts){TD_BACKWARD_OPTS, .with = f}));
    CHECK_OK(cx);
    CHECK(td_has_grad(x));
    td_close(cx);
}

TEST(the_number_of_histories_is_limited) {
    td_ctx         *cx = td_open();
    td_backward_fn *f = td_aot_backward(cx, &(td_aot_opts){TD_AOT_OPTS, .limit = 2});
    td_log_to(cx, NULL, NULL);
    for (int i = 1; i < 5; i++) {
        td_tensor *x = leaf(cx, TD_SHAPE(i), 1);
        CHECK(td_backward_with(TD_LIST(td_sum(x)), (td_tensors){0},
                               &(td_backward_opts){TD_BACKWARD_OPTS, .with = f}));
        CHECK(td_has_grad(x));
    }
    CHECK(td_backward_histories(f) == 2 && td_backward_misses(f) == 2);
    CHECK(strstr(td_backward_why(f), "specialization_limit"));
    char text[4000];
    CHECK(td_backward_explain(f, text, sizeof text) > 0);
    CHECK(strstr(text, "2 backwards ran as code, 2 in the engine"));
    CHECK(strstr(text, "history 1: 1 results"));
    td_close(cx);
}
