/* custom_capture.c -- custom functions in captured bodies: what the user's forward and
 * backward do is what the program does, without calling them again. */
#include "trace_help.h"

#include "aot/facts.h"
#include "pure_help.h"

#include <math.h>

static int calls; /* of the user's code */

static td_tensor *call1(td_call *c, const td_function *fn, td_tensors in) {
    td_tensor *y;
    return td_function_call(td_call_ctx(c), fn, NULL, in, &y, 1)
               ? y
               : td_nil(td_call_ctx(c));
}

/* ---- the ordinary one --------------------------------------------------- */

/* x sin(w); keeps an input, a result and a temporary. */
static bool wave(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)n_in, (void)n;
    calls++;
    td_tensor *s = td_sin(in[1]);
    out[0] = td_mul(in[0], s);
    return td_fcall_save(f, TD_LIST(in[1], out[0], s));
}
static bool wave_back(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                      int n_in) {
    (void)n, (void)n_in;
    calls++;
    td_tensor *w = td_fcall_saved(f, 0), *y = td_fcall_saved(f, 1);
    td_tensor *s = td_fcall_saved(f, 2);
    if (td_fcall_needs(f, 0)) grad[0] = td_mul(g[0], s);
    if (td_fcall_needs(f, 1)) grad[1] = td_mul(td_mul(g[0], td_div(y, s)), td_cos(w));
    return true;
}
static const td_function waves = {.name = "wave",
                                  .forward = wave,
                                  .backward = wave_back};

static bool waving(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_tensor *y = call1(c, &waves, TD_LIST(td_mul(x, 2), td_add(w, 2)));
    return td_return(c, td_mul(y, x));
}
TEST(a_custom_function_is_captured_with_its_backward) { check_body(waving, two); }

TEST(the_users_code_is_not_called_again) {
    td_ctx     *cx = td_open();
    td_tensor  *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 4)));
    td_tensor  *w = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 4)));
    td_program *p = td_capture(cx, waving, NULL, TD_ARGS(x, w));
    td_value    y;
    calls = 0;
    CHECK(td_program_run(p, TD_ARGS(x, w), &y, 1));
    td_program_drop(p);
    CHECK(td_backward(td_sum(y.u.t)));
    CHECK_OK(cx);
    CHECK(calls == 0);
    double g[12]; /* d/dx of 2 x^2 sin(3), at 1 */
    CHECK(td_read(td_grad_of(x), TD_F64, g, sizeof g));
    CHECK_NEAR(g[0], 4 * sin(3.0), 1e-5);
    td_close(cx);
}

static bool run_program(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                        int n_out) {
    td_value args[MOST], res[MOST];
    for (int i = 0; i < n_in; i++) args[i] = td_value_tensor(in[i]);
    if (!td_program_run(env, (td_values){args, n_in}, res, n_out)) return false;
    for (int i = 0; i < n_out; i++) out[i] = res[i].u.t;
    return true;
}

static void check_derivatives(td_body *body, int n_out, bool twice) {
    td_ctx *cx = td_open();
    td_seed(cx, 3);
    td_tensor  *x = td_requires_grad_(td_to(td_randn(cx, TD_SHAPE(3, 4)), TD_F64));
    td_tensor  *w = td_requires_grad_(td_to(td_randn(cx, TD_SHAPE(3, 4)), TD_F64));
    td_program *p = td_capture(cx, body, NULL, TD_ARGS(x, w));
    TD_CHECK_THAT(!td_is_nil(p), "%s", td_message(cx));
    bool ok =
        td_gradcheck(cx, run_program, p, TD_LIST(x, w), n_out, NULL) &&
        (!twice || td_gradgradcheck(cx, run_program, p, TD_LIST(x, w), n_out, NULL));
    TD_CHECK_THAT(ok, "%s", td_message(cx));
    td_program_drop(p);
    td_close(cx);
}
/* Keeps inputs only, which have a history. */
static bool cube(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)n_in, (void)n;
    out[0] = td_mul(td_mul(in[0], in[0]), in[0]);
    return td_fcall_save(f, TD_LIST(in[0]));
}
static bool cube_back(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                      int n_in) {
    (void)n, (void)n_in;
    td_tensor *x = td_fcall_saved(f, 0);
    grad[0] = td_mul(td_mul(g[0], 3), td_mul(x, x));
    return true;
}
static bool cubing(td_call *c) {
    static const td_function fn = {"cube", cube, cube_back, NULL};
    td_tensor               *x = td_mul(td_arg(c, 0), td_arg(c, 1));
    return td_return(c, call1(c, &fn, TD_LIST(x)));
}
TEST(a_captured_backward_has_derivatives_itself) {
    check_body(cubing, two);
    check_derivatives(waving, 1, false);
    check_derivatives(cubing, 1, true);
}

static bool inside(td_call *c) {
    td_tensor   *x = td_requires_grad_(td_mul(td_detach(td_arg(c, 0)), 1));
    td_tensor   *w = td_requires_grad_(td_mul(td_detach(td_arg(c, 1)), 1));
    td_tensor   *y = call1(c, &waves, TD_LIST(x, w)), *g[2], *h;
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    if (!td_grad(TD_LIST(td_sum(td_mul(y, y))), TD_LIST(x, w), g, &o)) return false;
    if (!td_grad(TD_LIST(td_sum(td_mul(g[1], g[0]))), TD_LIST(w), &h, NULL))
        return false;
    return td_return(c, td_detach(g[0]), td_detach(g[1]), h);
}
TEST(td_grad_passes_through_a_captured_function_twice) { check_body(inside, two); }

/* ---- results of every kind ---------------------------------------------- */

static bool times_half(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                       int n_in) {
    (void)f, (void)n, (void)n_in;
    grad[0] = td_mul(g[0], 0.5);
    return true;
}
static bool same(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)f, (void)n_in, (void)n;
    out[0] = in[0];
    return true;
}
static bool a_view(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                   int n) {
    (void)f, (void)n_in, (void)n;
    out[0] = td_view(in[0], TD_SHAPE(3, 4));
    return true;
}
static bool written(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n) {
    (void)n_in, (void)n;
    out[0] = td_mul_(in[0], 0.5);
    return td_fcall_mark_dirty(f, TD_LIST(in[0]));
}
static const td_function as_it_is = {"same", same, times_half, NULL};
static const td_function viewed = {"viewed", a_view, times_half, NULL};
static const td_function dirtied = {"dirtied", written, times_half, NULL};

static bool returns_input(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, call1(c, &as_it_is, TD_LIST(x)), x);
}
static bool returns_view(td_call *c) {
    return td_return(c, call1(c, &viewed, TD_LIST(td_arg(c, 0))));
}
static bool writes_input(td_call *c) {
    td_tensor *x = td_mul(td_arg(c, 0), 3), *y = call1(c, &dirtied, TD_LIST(x));
    return td_return(c, y, td_mul(x, td_arg(c, 1)));
}
static bool writes_view(td_call *c) {
    td_tensor *x = td_mul(td_arg(c, 0), 3);
    call1(c, &dirtied, TD_LIST(td_select(x, 0, 1)));
    return td_return(c, td_mul(x, td_arg(c, 1)));
}
static bool writes_argument(td_call *c) {
    return td_return(c, call1(c, &dirtied, TD_LIST(td_arg(c, 0))));
}
TEST(results_that_are_inputs_views_or_written_inputs) {
    check_body(returns_input, two);
    check_body(returns_view, two);
    check_body(writes_input, two);
    check_body(writes_view, two);
    check_body(writes_argument, two);
}

/* A result that takes no gradient, one of integers, a stash, an absent input. */
static bool mixed(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)n_in, (void)n;
    if (in[1]) return false;
    out[0] = td_exp(in[0]);
    out[1] = td_mul(in[0], 2);
    out[2] = td_argmax(in[0], 1);
    return td_fcall_mark_non_differentiable(f, TD_LIST(out[1])) &&
           td_fcall_stash(f, TD_LIST(out[0], td_neg(in[0])));
}
static bool mixed_back(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                       int n_in) {
    (void)n, (void)n_in;
    td_tensor *e = td_fcall_stashed(f, 0), *m = td_fcall_stashed(f, 1);
    grad[0] = td_add(td_mul(g[0], e), td_mul(g[1], m)); /* g[1] is zeros */
    return !td_fcall_needs(f, 1);
}
static bool mixing(td_call *c) {
    static const td_function fn = {"mixed", mixed, mixed_back, NULL};
    td_tensor               *y[3], *in[2] = {td_arg(c, 0), NULL};
    if (!td_function_call(td_call_ctx(c), &fn, NULL, (td_tensors){in, 2}, y, 3))
        return false;
    return td_return(c, y[0], y[1], y[2]);
}
TEST(results_without_gradient_stashes_and_absent_inputs) { check_body(mixing, two); }

/* Two results, missing gradients stay missing. */
static bool pair(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)n_in, (void)n;
    td_fcall_materialize(f, false);
    out[0] = td_mul(in[0], 2);
    out[1] = td_mul(in[0], 3);
    return true;
}
static bool pair_back(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                      int n_in) {
    (void)f, (void)n, (void)n_in;
    if (g[0] && g[1]) grad[0] = td_add(td_mul(g[0], 2), td_mul(g[1], 3));
    else if (g[0]) grad[0] = td_mul(g[0], 2);
    return true;
}
static bool pairing(td_call *c) {
    static const td_function fn = {"pair", pair, pair_back, NULL};
    td_tensor               *y[2], *x = td_arg(c, 0);
    return td_function_call(td_call_ctx(c), &fn, NULL, TD_LIST(x), y, 2) &&
           td_return(c, y[0], y[1]);
}
TEST(gradients_that_may_be_missing) {
    check_body(pairing, two);
    td_ctx     *cx = td_open();
    td_tensor  *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 4)));
    td_program *p = td_capture(cx, pairing, NULL, TD_ARGS(x, x));
    td_value    y[2];
    CHECK(td_program_run(p, TD_ARGS(x, x), y, 2));
    CHECK(!td_backward(td_sum(y[0].u.t))); /* captured with both */
    CHECK(strstr(td_message(cx), "td_fcall_materialize"));
    td_program_drop(p);
    td_close(cx);
}

/* ---- writes in backward, closures --------------------------------------- */

static bool keeps_input(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                        int n) {
    (void)n_in, (void)n;
    out[0] = td_mul(in[0], in[1]);
    return td_fcall_save(f, TD_LIST(in[1]));
}
static bool writes_saved(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                         int n_in) {
    (void)n, (void)n_in;
    td_tensor *w = td_fcall_saved(f, 0);
    grad[0] = td_mul(g[0], w);
    return !td_is_nil(td_mul_(w, 2));
}
static bool backward_writes(td_call *c) {
    static const td_function fn = {"writes_saved", keeps_input, writes_saved, NULL};
    return td_return(c, call1(c, &fn, TD_LIST(td_arg(c, 0), td_arg(c, 1))));
}
static bool two_through(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                        int n) {
    (void)f, (void)n_in, (void)n;
    out[0] = td_mul(in[0], 2);
    out[1] = td_mul(in[1], 3);
    return true;
}
static bool writes_tangent(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                           int n_in) {
    (void)f, (void)n, (void)n_in;
    grad[0] = td_mul(g[1], 1);
    grad[1] = td_copy_(g[0], g[1]);
    return true;
}
static bool tangent_written(td_call *c) {
    static const td_function fn = {"two", two_through, writes_tangent, NULL};
    td_tensor               *y[2], *in[2] = {td_arg(c, 0), td_arg(c, 1)};
    return td_function_call(td_call_ctx(c), &fn, NULL, (td_tensors){in, 2}, y, 2) &&
           td_return(c, y[0], y[1]);
}
TEST(backward_may_write_what_it_reads) {
    check_body(backward_writes, two);
    check_body(tangent_written, two);
}

static bool reads_payload(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                          int n) {
    (void)n_in, (void)n;
    out[0] = td_mul(in[0], (td_tensor *)td_fcall_payload(f));
    return true;
}
static bool reads_payload_back(td_fcall *f, td_tensor *const *g, int n,
                               td_tensor **grad, int n_in) {
    (void)n, (void)n_in;
    grad[0] = td_mul(g[0], td_exp((td_tensor *)td_fcall_payload(f)));
    return true;
}
static int  dropped;
static void drop_payload(void *p) {
    dropped++;
    td_drop(p);
}
static bool closing(td_call *c) {
    static const td_function fn = {"closing", reads_payload, reads_payload_back,
                                   drop_payload};
    td_tensor               *y, *w = td_keep(td_sin(td_arg(c, 1)));
    return td_function_call(td_call_ctx(c), &fn, w, TD_LIST(td_arg(c, 0)), &y, 1) &&
           td_return(c, y);
}
TEST(a_function_closes_over_values_of_the_body) {
    check_body(closing, two);
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 4)));
    dropped = 0;
    td_program_drop(
        td_capture(cx, closing, NULL, TD_ARGS(x, td_ones(cx, TD_SHAPE(4)))));
    CHECK_OK(cx);
    CHECK(dropped == 1);
    td_close(cx);
}

static bool gives(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)f, (void)in, (void)n_in, (void)out, (void)n;
    return false;
}
static bool failing(td_call *c) {
    static const td_function fn = {"failing", gives, times_half, NULL};
    return td_return(c, call1(c, &fn, TD_LIST(td_arg(c, 0))));
}
TEST(a_forward_that_fails_fails_the_capture) { check_body(failing, two); }

/* ---- functional and facts ----------------------------------------------- */

TEST(a_captured_function_is_functionalized) {
    td_body *bodies[] = {waving,      returns_input, returns_view, writes_input,
                         writes_view, mixing,        closing,      backward_writes};
    for (int i = 0; i < TD_COUNT(bodies); i++) {
        td_ctx      *cx = td_open();
        static world a, b;
        prepare(cx, &a, two, MADE_GRAD);
        td_graph *g = td__capture(cx, bodies[i], NULL, (td_values){a.in, 2});
        td_plan  *f = g ? pure_form(g, a.in, false) : NULL;
        TD_CHECK_THAT(f != NULL, "%d: %s", i, td_message(cx));
        prepare(cx, &b, two, MADE_GRAD);
        td_grad_mode was = td_no_grad_begin(cx);
        CHECK(td__graph_replay(g, a.in, a.out) && pure_call(f, b.in, b.out));
        td_no_grad_end(cx, was);
        for (int k = 0; k < g->outputs.n; k++) {
            double x[64], y[64];
            size_t n = (size_t)td_numel(a.out[k].u.t) * sizeof *x;
            CHECK(td_read(a.out[k].u.t, TD_F64, x, n));
            CHECK(td_read(b.out[k].u.t, TD_F64, y, n));
            TD_CHECK_THAT(!memcmp(x, y, n), "%d: result %d differs", i, k);
        }
        td__plan_drop(f);
        td__graph_drop(g);
        td_close(cx);
    }
}

TEST(facts_see_through_to_the_custom_function) {
    td_ctx    *cx = td_open();
    td_value   in[2];
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 4)));
    in[0] = in[1] = td_value_tensor(x);
    in[1].u.t = td_ones(cx, TD_SHAPE(3, 4));
    td_graph *g = td__capture(cx, returns_view, NULL, (td_values){in, 2});
    td_facts *f = g ? td__facts(g, in, false) : NULL;
    TD_CHECK_THAT(f != NULL, "%s", td_message(cx));
    CHECK(f->out[0].kind == TD_OUT_CUSTOM_VIEW && f->out[0].requires_grad);
    td__facts_drop(f);
    td__graph_drop(g);
    g = td__capture(cx, mixing, NULL, (td_values){in, 2});
    f = g ? td__facts(g, in, false) : NULL;
    TD_CHECK_THAT(f != NULL, "%s", td_message(cx));
    CHECK(f->out[0].requires_grad && !f->out[1].requires_grad);
    td__facts_drop(f);
    td__graph_drop(g);
    td_close(cx);
}

/* ---- lack of memory ----------------------------------------------------- */

TEST(a_captured_function_survives_any_lack_of_memory) {
    for (int64_t k = 0;; k++) {
        td_ctx    *cx = td_open();
        td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 4)));
        td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 4)));
        td_value   out[3];
        td__fault_arm(k, false);
        td_program *p = td_capture(cx, waving, NULL, TD_ARGS(x, w));
        bool        ok = p && td_program_run(p, TD_ARGS(x, w), out, 1) &&
                  td_backward(td_sum(out[0].u.t));
        bool hit = td__fault_count() > k;
        td__fault_arm(-1, false);
        TD_CHECK_THAT(ok ? td_ok(cx) : td_error(cx) == TD_E_MEMORY, "%d: %s", (int)k,
                      td_message(cx));
        CHECK(!cx->fake && cx->top == cx->tape && !cx->tape->below);
        td_program_drop(p);
        td_close(cx);
        if (!hit) break;
    }
}
