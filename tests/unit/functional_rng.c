/* functional_rng.c -- graphs that take the state of the random generator as inputs:
 * they draw eager's numbers, and the generator advances as in eager. */
#include "export_help.h"

#include "aot/aot.h"
#include "td_files.h"

static bool drop(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_tensor *h = td_dropout(td_mul(x, w), 0.5);
    return td_return(c, td_mul(h, td_rand_like(h)),
                     td_randint(td_call_ctx(c), 9, TD_SHAPE(3)));
}

static const td_aot_opts functional = {TD_AOT_OPTS, .functional_rng = true};

static bool same_numbers(td_tensor *a, td_tensor *b) {
    return td_item(td_all(td_eq(a, b))) != 0;
}

/* A leaf like t, without its gradient. */
static td_tensor *leaf(const td_tensor *t) {
    return td_set_requires_grad(td_clone(td_detach((td_tensor *)(uintptr_t)t)), true);
}

/* Results, gradients and generator of two calls and backwards, eager and compiled. */
static bool agrees(td_ctx *cx, td_body *body, const td_aot_opts *o) {
    td_fn     *f = td_aot_function(cx, body, NULL, o);
    td_tensor *x = td_randn(cx, TD_SHAPE(5, 3)), *w = td_randn(cx, TD_SHAPE(3));
    bool       same = true;
    for (int k = 0; k < 2; k++) {
        td_tensor *a[2] = {leaf(x), leaf(w)}, *b[2] = {leaf(x), leaf(w)};
        td_value   want[2];
        td_tensor *got[2];
        td_rng_set(cx, 7, 40);
        td_call_body(cx, body, NULL, TD_ARGS(a[0], a[1]), want, 2);
        td_backward(td_sum(want[0].u.t));
        uint64_t after = td_rng_offset(cx);
        td_rng_set(cx, 7, 40);
        td_invoke(f, TD_ARGS(b[0], b[1]), got, 2);
        td_backward(td_sum(got[0]));
        same &= td_rng_offset(cx) == after && td_rng_seed(cx) == 7;
        same &= same_numbers(got[0], want[0].u.t) && same_numbers(got[1], want[1].u.t);
        same &= aot_near(td_grad_of(a[0]), td_grad_of(b[0]));
        same &= aot_near(td_grad_of(a[1]), td_grad_of(b[1]));
    }
    td_fn_drop(f);
    return same && td_ok(cx);
}

TEST(draws_of_functional_graphs_are_eagers) {
    td_ctx *cx = td_open();
    CHECK(agrees(cx, drop, &functional));
    td_config_set(cx, "functional_rng", "on");
    CHECK(agrees(cx, drop, NULL));
    td_config_set(cx, "dynamic", "on");
    CHECK(agrees(cx, drop, NULL));
    td_config_set(cx, "backend", "interp");
    CHECK(agrees(cx, drop, NULL));
    td_close(cx);
}

static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)env, (void)n_in, (void)n_out;
    out[0] = td_sin(td_dropout(td_sin(in[0]), 0.5));
    return true;
}
static bool checkpointed(td_call *c) {
    td_tensor *h = NULL, *x = td_mul(td_arg(c, 0), td_arg(c, 1));
    return td_checkpoint(td_call_ctx(c), region, NULL, TD_LIST(x), &h, 1) &&
           td_return(c, td_mul(h, td_rand_like(h)), td_rand_like(h));
}

TEST(a_recomputed_draw_repeats_its_numbers_from_the_saved_state) {
    td_ctx *cx = td_open();
    CHECK(agrees(cx, checkpointed, &functional));
    td_close(cx);
}

/* A custom function whose backward draws. */
static bool noisy_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                     int n_out) {
    (void)f, (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], 2.0);
    return true;
}
static bool noisy_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                     int n_in) {
    (void)f, (void)n, (void)n_in;
    grad[0] = td_mul(g[0], td_rand_like(g[0]));
    return true;
}
static bool noisy_backward(td_call *c) {
    static const td_function fn = {"noisy", noisy_fw, noisy_bw, NULL};
    td_tensor *h = td_dropout(td_mul(td_arg(c, 0), td_arg(c, 1)), 0.5), *y = NULL;
    return td_function_call(td_call_ctx(c), &fn, NULL, TD_LIST(h), &y, 1) &&
           td_return(c, y, td_rand_like(y));
}

TEST(a_backward_that_draws_takes_the_state_of_its_own_time) {
    td_ctx *cx = td_open();
    CHECK(agrees(cx, noisy_backward, &functional));
    td_close(cx);
}

/* The backward repeats the draw of the region, then draws anew. */
static bool both_backward(td_call *c) {
    static const td_function fn = {"noisy", noisy_fw, noisy_bw, NULL};
    td_tensor *x = td_mul(td_arg(c, 0), td_arg(c, 1)), *y = NULL, *h = NULL;
    return td_function_call(td_call_ctx(c), &fn, NULL, TD_LIST(x), &y, 1) &&
           td_checkpoint(td_call_ctx(c), region, NULL, TD_LIST(y), &h, 1) &&
           td_return(c, td_mul(h, td_rand_like(h)), td_rand_like(h));
}

TEST(a_repeated_draw_does_not_move_those_of_the_backward) {
    td_ctx *cx = td_open();
    CHECK(agrees(cx, both_backward, &functional));
    td_close(cx);
}

/* ---- what a backend gets ------------------------------------------------- */

typedef struct seen {
    int n_graphs, n_rng, n_draws;
} seen;

static bool look(void *env, const td_graph *g, const td_compile_info *info,
                 td_runner *to) {
    seen *s = env;
    s->n_graphs++;
    s->n_rng += td__graph_takes_rng(g);
    s->n_draws += td__graph_draws(g);
    return td__interp.compile(NULL, g, info, to);
}

TEST(a_backend_gets_pure_graphs_and_others_get_no_state) {
    td_ctx     *cx = td_open();
    seen        s = {0};
    td_backend  b = {.name = "look", .compile = look, .env = &s};
    td_aot_opts o = {TD_AOT_OPTS, .forward = &b, .backward = &b,
                     .functional_rng = true};
    CHECK(agrees(cx, drop, &o));
    CHECK(s.n_graphs == 2 && s.n_rng == 1 && s.n_draws == 0); /* backward draws none */
    s = (seen){0};
    CHECK(agrees(cx, checkpointed, &o));
    CHECK(s.n_graphs == 2 && s.n_rng == 1 && s.n_draws == 0);
    s = (seen){0};
    CHECK(agrees(cx, noisy_backward, &o));
    CHECK(s.n_graphs == 2 && s.n_rng == 2 && s.n_draws == 0);
    td_close(cx);
}

/* ---- kinds of draws ------------------------------------------------------- */

/* Numbers of f64, pairs, choices with and without replacement, coins by their
 * probability, an order, and a dropout that draws nothing. */
static bool all_kinds(td_call *c) {
    td_tensor *x = td_mul(td_arg(c, 0), td_arg(c, 1));
    td_tensor *p = td_softmax(td_detach(x), 1), *h = td_dropout(x, 0.5, false);
    h = td_mul(h, td_to(td_rand_like(td_to(x, TD_F64)), TD_F32));
    h = td_add(h, td_normal(td_detach(x), 1.0, 2.0));
    h = td_mul(h, td_to(td_bernoulli(p), TD_F32));
    h = td_add(h, td_sum(td_to(td_multinomial(p, 2), TD_F32)));
    h = td_add(h, td_sum(td_to(td_multinomial(p, 4, true), TD_F32)));
    return td_return(c, h, td_randperm(td_call_ctx(c), 7));
}

TEST(all_kinds_of_draws_move_the_offset_as_in_eager) {
    td_ctx *cx = td_open();
    CHECK(agrees(cx, all_kinds, &functional));
    td_config_set(cx, "dynamic", "on");
    CHECK(agrees(cx, all_kinds, &functional));
    td_close(cx);
}

/* As many numbers as elements are positive. */
static bool by_values(td_call *c) {
    td_tensor *x = td_mul(td_arg(c, 0), td_arg(c, 1));
    td_tensor *some = td_masked_select(x, td_gt(x, 0.0));
    return td_return(c, td_mul(some, td_rand_like(some)), td_rand_like(x));
}

/* Draws from a state of its own, which it leaves to what follows. */
static bool sets_state(td_call *c) {
    td_tensor *x = td_mul(td_arg(c, 0), td_arg(c, 1));
    td_tensor *to = td_full(td_call_ctx(c), TD_SHAPE(2), 5.0, TD_I64);
    td_tensor *was = td_op_random_state(td_call_ctx(c), to);
    return td_return(c, td_mul(x, td_rand_like(x)), was);
}

/* ...and restores the state before. */
static bool restores_state(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *x = td_mul(td_arg(c, 0), td_arg(c, 1));
    td_tensor *was = td_op_random_state(cx, td_full(cx, TD_SHAPE(2), 5.0, TD_I64));
    td_tensor *h = td_mul(x, td_rand_like(x));
    td_op_random_state(cx, was);
    return td_return(c, td_add(h, td_rand_like(h)), td_clone(was));
}

TEST(graphs_whose_offset_is_not_known_draw_from_the_generator) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_randn(cx, TD_SHAPE(5, 3)), *w = td_randn(cx, TD_SHAPE(3));
    td_body   *bodies[] = {by_values, sets_state, restores_state};
    for (int i = 0; i < 3; i++) {
        td_fn     *f = td_aot_function(cx, bodies[i], NULL, &functional);
        td_value   want[2];
        td_tensor *got[2];
        td_rng_set(cx, 7, 40);
        CHECK(td_call_body(cx, bodies[i], NULL, TD_ARGS(x, w), want, 2) == 2);
        uint64_t offset = td_rng_offset(cx), seed = td_rng_seed(cx);
        td_rng_set(cx, 7, 40);
        CHECK(td_invoke(f, TD_ARGS(x, w), got, 2));
        CHECK(same_numbers(got[0], want[0].u.t) && same_numbers(got[1], want[1].u.t));
        CHECK(td_rng_offset(cx) == offset && td_rng_seed(cx) == seed);
        td_fn_drop(f);
    }
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- branches ------------------------------------------------------------ */

static bool noisy(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_add(x, td_rand_like(x)));
}
static bool quiet(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), 2.0)); }

static bool branches(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *h = NULL;
    td_branches of = {.yes = noisy, .no = quiet};
    return td_cond(td_arg(c, 1), of, TD_ARGS(x), &h, 1) &&
           td_return(c, td_add(h, td_rand_like(x)), td_rand_like(x));
}

TEST(a_branch_that_draws_advances_the_offset_by_what_it_drew) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, branches, NULL, &functional);
    td_tensor *x = td_randn(cx, TD_SHAPE(5));
    for (int on = 0; on < 2; on++) {
        td_tensor *p = td_full(cx, TD_SHAPE(1), (double)on), *got[2];
        td_value   want[2];
        td_rng_set(cx, 3, 0);
        td_call_body(cx, branches, NULL, TD_ARGS(x, p), want, 2);
        uint64_t after = td_rng_offset(cx);
        td_rng_set(cx, 3, 0);
        td_invoke(f, TD_ARGS(x, p), got, 2);
        CHECK(same_numbers(got[0], want[0].u.t) && same_numbers(got[1], want[1].u.t));
        CHECK(td_rng_offset(cx) == after && after == (on ? 6 : 4));
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- exports ------------------------------------------------------------- */

static td_tensor *state(td_ctx *cx, int64_t v) {
    return td_from(cx, TD_I64, TD_SHAPE(), &v);
}

static bool noise(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(x, td_dropout(x, 0.5)));
}

TEST(an_export_takes_seed_and_offset_and_leaves_the_generator_alone) {
    td_ctx        *cx = td_open();
    td_tensor     *x = td_set_requires_grad(td_randn(cx, TD_SHAPE(6)), true);
    td_export_opts o = {TD_EXPORT_OPTS, .functional_rng = true};
    td_exported   *e = td_export_joint(cx, noise, NULL, TD_ARGS(x), &o);
    td_tensor     *one = td_ones(cx, TD_SHAPE(6));
    td_value       a[3], b[3], want[1];
    CHECK_OK(cx);
    CHECK(td_exported_inputs(e) == 4 && td_exported_outputs(e) == 3);
    CHECK(td_exported_input(e, 2).kind == TD_SLOT_SEED);
    CHECK(td_exported_input(e, 3).kind == TD_SLOT_OFFSET);
    CHECK(td_exported_output(e, 2).kind == TD_SLOT_OFFSET);
    CHECK(td_exported_find_input(e, TD_SLOT_SEED, 0) == 2);
    CHECK(td_exported_find_output(e, TD_SLOT_GRAD, 0) == 1);

    uint64_t  before = td_rng_offset(cx);
    td_values in = TD_ARGS(x, one, state(cx, 11), state(cx, 8));
    CHECK(td_exported_run(e, in, a, 3) && td_exported_run(e, in, b, 3));
    CHECK(same_numbers(a[0].u.t, b[0].u.t) && same_numbers(a[1].u.t, b[1].u.t));
    CHECK(td_rng_offset(cx) == before && td_item(a[2].u.t) == 10);

    td_rng_set(cx, 11, 8);
    td_call_body(cx, noise, NULL, TD_ARGS(x), want, 1);
    td_backward(td_sum(want[0].u.t));
    CHECK(same_numbers(a[0].u.t, want[0].u.t) && same_numbers(a[1].u.t, td_grad_of(x)));
    CHECK(td_rng_offset(cx) == 10);

    static char  text[4000];
    size_t       n = td_exported_text(e, text, sizeof text);
    td_exported *l = td_exported_parse(cx, text, n, "text");
    CHECK(strstr(text, "<seed>") && strstr(text, "<offset>"));
    CHECK(td_exported_run(l, in, b, 3) && same_numbers(a[0].u.t, b[0].u.t));
    CHECK(!td_exported_run(l, TD_ARGS(x, one), b, 3));
    CHECK(aot_says(cx, TD_E_ARG, "takes 4 inputs, got 2"));
    td_exported_drop(l);
    td_exported_drop(e);
    td_close(cx);
}

/* ---- text ---------------------------------------------------------------- */

static bool refused(td_ctx *cx, const char *text, const char *why) {
    td_gfile *f = td__gfile_parse(cx, text, strlen(text), "t");
    bool      ok = f && td__graph_verify(f->graphs.v[0], TD_STAGE_HALF);
    td__gfile_drop(f);
    return !ok && aot_says(cx, td__error(cx), why);
}

TEST(misplaced_state_of_the_generator_is_refused) {
    td_ctx *cx = td_open();
    CHECK(refused(cx, "func @f(%s: i64[] <seed>, %x: f32[2]) {\n return %x\n}\n",
                  "must be the last inputs"));
    CHECK(refused(cx,
                  "func @f(%s: i64[] <seed>, %o: i64[] <offset>) {\n return %s\n}\n",
                  "last output"));
    CHECK(refused(cx,
                  "func @f(%s: f32[] <seed>, %o: i64[] <offset>) {\n"
                  " return %o <offset>\n}\n",
                  "must be i64[]"));
    td_close(cx);
}

TEST(a_draw_takes_both_seed_and_offset_or_neither) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_zeros(cx, TD_SHAPE(4)), *s = state(cx, 1), *out[1];
    td_value   in[] = {td_value_tensor(x), TD_NONE, td_value_tensor(s), TD_NONE};
    CHECK(!td__call(cx, TD_OP_rand_like, in, 4, out, 1));
    CHECK(aot_says(cx, TD_E_ARG, "argument rng_offset is missing"));
    in[3] = td_value_tensor(x);
    CHECK(!td__call(cx, TD_OP_rand_like, in, 4, out, 1));
    CHECK(aot_says(cx, TD_E_SHAPE, "rng_offset must be i64[], got f32[4]"));
    td_close(cx);
}
