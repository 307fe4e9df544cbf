/* control.c -- branches and loops: eager, captured, replayed, functional, and their
 * derivatives. */
#include "trace_help.h"

#include "aot/facts.h"
#include "pure_help.h"

/* ---- what a captured branch does ---------------------------------------- */

/* A flag of one element: is the first element of argument i above a number? */
static td_tensor *flag_of(td_call *c, int i, double above) {
    td_tensor *x = td_detach(td_arg(c, i));
    return td_gt(td_select(td_select(x, 0, 0), 0, 0), above);
}

static bool grow(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_exp(td_arg(c, 1))));
}
static bool shrink(td_call *c) {
    return td_return(c, td_sub(td_sin(td_arg(c, 0)), td_mul(td_arg(c, 1), 3)));
}
static bool choose(td_call *c, double above) {
    td_tensor  *y;
    td_branches of = {.yes = grow, .no = shrink};
    if (!td_cond(flag_of(c, 0, above), of, TD_ARGS(td_arg(c, 0), td_arg(c, 1)), &y, 1))
        return false;
    return td_return(c, td_mul(y, y));
}
static bool choose_yes(td_call *c) { return choose(c, -100); }
static bool choose_no(td_call *c) { return choose(c, 100); }
TEST(a_captured_branch_does_what_an_if_does) {
    check_body(choose_yes, two);
    check_body(choose_no, two);
}

/* Closes over a value of the body, and over a tensor outside it. */
typedef struct around {
    td_tensor *h, *w;
} around;
static bool uses_around(td_call *c) {
    around *a = td_call_env(c);
    return td_return(c, td_add(td_mul(td_arg(c, 0), a->h), a->w));
}
static bool uses_less(td_call *c) {
    around *a = td_call_env(c);
    return td_return(c, td_mul(td_arg(c, 0), td_tanh(a->h)));
}
static td_tensor *weight;

static bool closing(td_call *c) {
    around     a = {td_exp(td_arg(c, 1)), weight};
    td_tensor *y[2];
    for (int i = 0; i < 2; i++) {
        td_branches of = {.yes = i ? uses_less : uses_around,
                          .no = i ? uses_around : uses_less,
                          .env = &a};
        if (!td_cond(flag_of(c, 0, -100), of, TD_ARGS(td_arg(c, 0)), &y[i], 1))
            return false;
    }
    return td_return(c, y[0], y[1], a.h);
}
static void make_weight(td_ctx *cx, world *w, nature n) {
    two(cx, w, n);
    if (!weight) weight = td_keep(td_ones(cx, TD_SHAPE(4)));
}
TEST(branches_close_over_values_of_the_body_and_tensors_outside) {
    for (int n = 0; n < NATURES; n++) {
        weight = NULL; /* each check opens a context of its own */
        check_nature(closing, NULL, make_weight, (nature)n);
    }
}

/* ---- writes and aliases ------------------------------------------------- */

static bool writes(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_add_(td_select(x, 0, 1), 2);
    return td_return(c, td_mul(x, 3));
}
static bool writes_too(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_mul_(x, td_arg(c, 1));
    return td_return(c, td_sub(x, td_arg(c, 1)));
}
static bool writing(td_call *c) {
    td_tensor  *x = td_mul(td_arg(c, 0), 1.5), *y;
    td_branches of = {.yes = writes, .no = writes_too};
    if (!td_cond(flag_of(c, 0, -100), of, TD_ARGS(x, td_arg(c, 1)), &y, 1))
        return false;
    td_tensor *z;
    if (!td_cond(flag_of(c, 0, 100), of, TD_ARGS(x, td_arg(c, 1)), &z, 1)) return false;
    return td_return(c, x, y, z);
}
TEST(a_branch_may_write_its_arguments) { check_body(writing, two); }

static bool writes_quietly(td_call *c) {
    td_tensor   *x = td_arg(c, 0);
    td_grad_mode was = td_no_grad_begin(td_call_ctx(c));
    td_add_(x, 2);
    td_no_grad_end(td_call_ctx(c), was);
    return td_return(c, td_mul(x, x));
}
static bool quiet(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *y;
    td_branches of = {.yes = writes_quietly, .no = writes_quietly};
    if (!td_cond(flag_of(c, 0, 0), of, TD_ARGS(x), &y, 1)) return false;
    return td_return(c, y);
}
static bool writes_around(td_call *c) {
    td_add_(((around *)td_call_env(c))->h, 1);
    return td_return(c, td_mul(td_arg(c, 0), 2));
}
static bool write_outside(td_call *c) {
    around      a = {td_mul(td_arg(c, 1), 2), NULL};
    td_tensor  *y;
    td_branches of = {.yes = writes_around, .no = writes_around, .env = &a};
    return td_cond(flag_of(c, 0, 0), of, TD_ARGS(td_arg(c, 0)), &y, 1) &&
           td_return(c, y, a.h);
}
TEST(a_branch_may_write_a_tensor_from_outside) { check_body(write_outside, two); }
TEST(a_quiet_write_in_a_branch_leaves_history_alone) { check_body(quiet, two); }

static bool gives_back(td_call *c) { return td_return(c, td_arg(c, 0), td_arg(c, 0)); }
static bool gives_views(td_call *c) {
    return td_return(c, td_view(td_mul(td_arg(c, 0), 2), TD_SHAPE(3, 4)),
                     td_view(td_arg(c, 0), TD_SHAPE(3, 4)));
}
static bool copying(td_call *c) {
    td_tensor  *y[2];
    td_branches of = {.yes = gives_back, .no = gives_views};
    return td_cond(flag_of(c, 0, -100), of, TD_ARGS(td_arg(c, 0)), y, 2) &&
           td_return(c, y[0], y[1]);
}
static bool copying_views(td_call *c) {
    td_tensor  *y[2];
    td_branches of = {.yes = gives_views, .no = gives_back};
    return td_cond(flag_of(c, 0, -100), of, TD_ARGS(td_arg(c, 0)), y, 2) &&
           td_return(c, y[0], y[1]);
}
TEST(a_result_is_no_view_no_argument_and_not_another_result) {
    check_body(copying, two);
    check_body(copying_views, two);
}

/* ---- nested and differentiated inside ----------------------------------- */

static bool inner(td_call *c) {
    around     *a = td_call_env(c);
    td_tensor  *y;
    td_branches of = {.yes = uses_around, .no = uses_less, .env = a};
    if (!td_cond(flag_of(c, 0, 0), of, TD_ARGS(td_arg(c, 0)), &y, 1)) return false;
    return td_return(c, td_tanh(y));
}
static bool nesting(td_call *c) {
    around      a = {td_exp(td_arg(c, 1)), td_sin(td_arg(c, 1))};
    td_tensor  *y;
    td_branches of = {.yes = inner, .no = uses_less, .env = &a};
    if (!td_cond(flag_of(c, 0, -100), of, TD_ARGS(td_arg(c, 0)), &y, 1)) return false;
    return td_return(c, y);
}
TEST(branches_nest) { check_body(nesting, two); }

static bool differentiating(td_call *c) {
    td_tensor   *x = td_requires_grad_(td_mul(td_detach(td_arg(c, 0)), 1)), *y, *g, *h;
    td_tensor   *w = td_requires_grad_(td_mul(td_detach(td_arg(c, 1)), 1));
    td_branches  of = {.yes = grow, .no = shrink};
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    if (!td_cond(flag_of(c, 0, -100), of, TD_ARGS(x, w), &y, 1)) return false;
    if (!td_grad(TD_LIST(td_sum(td_mul(y, y))), TD_LIST(w), &g, &o)) return false;
    if (!td_grad(TD_LIST(td_sum(td_mul(g, g))), TD_LIST(x), &h, NULL)) return false;
    return td_return(c, td_detach(g), h);
}
TEST(td_grad_passes_through_a_captured_branch_twice) {
    check_body(differentiating, two);
}

/* ---- derivatives of programs -------------------------------------------- */

static bool run_program(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                        int n_out) {
    td_value args[MOST], res[MOST];
    for (int i = 0; i < n_in; i++) args[i] = td_value_tensor(in[i]);
    if (!td_program_run(env, (td_values){args, n_in}, res, n_out)) return false;
    for (int i = 0; i < n_out; i++) out[i] = res[i].u.t;
    return true;
}

TEST(derivatives_of_a_captured_branch_are_right) {
    td_body *bodies[] = {choose_yes, choose_no, writing, nesting};
    int      results[] = {1, 1, 3, 1};
    for (int i = 0; i < TD_COUNT(bodies); i++) {
        td_ctx *cx = td_open();
        td_seed(cx, 3);
        td_tensor  *x = td_requires_grad_(td_to(td_randn(cx, TD_SHAPE(3, 4)), TD_F64));
        td_tensor  *w = td_requires_grad_(td_to(td_randn(cx, TD_SHAPE(3, 4)), TD_F64));
        td_program *p = td_capture(cx, bodies[i], NULL, TD_ARGS(x, w));
        TD_CHECK_THAT(!td_is_nil(p), "%d: %s", i, td_message(cx));
        bool ok = td_gradcheck(cx, run_program, p, TD_LIST(x, w), results[i], NULL) &&
                  td_gradgradcheck(cx, run_program, p, TD_LIST(x, w), results[i], NULL);
        TD_CHECK_THAT(ok, "%d: %s", i, td_message(cx));
        td_program_drop(p);
        td_close(cx);
    }
}

TEST(history_outlives_the_program) {
    td_ctx     *cx = td_open();
    td_tensor  *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 4)));
    td_tensor  *w = td_ones(cx, TD_SHAPE(3, 4));
    td_program *p = td_capture(cx, choose_yes, NULL, TD_ARGS(x, w));
    td_value    y;
    CHECK(td_program_run(p, TD_ARGS(x, w), &y, 1));
    td_program_drop(p);
    CHECK(td_backward(td_sum(y.u.t)));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- functional --------------------------------------------------------- */

static void check_values(td_tensor *a, td_tensor *b) {
    double x[64], y[64];
    size_t bytes = (size_t)td_numel(a) * sizeof *x;
    CHECK(td_numel(a) == td_numel(b) && bytes <= sizeof x);
    CHECK(td_read(a, TD_F64, x, bytes) && td_read(b, TD_F64, y, bytes));
    CHECK(!memcmp(x, y, bytes));
}

/* The functional graph does what the program does. */
static void check_functional(td_body *body, int n_out) {
    for (int n = 0; n < NATURES; n++) {
        td_ctx      *cx = td_open();
        static world a, b;
        prepare(cx, &a, two, (nature)n);
        td_graph *g = td__capture(cx, body, NULL, (td_values){a.in, 2});
        td_plan  *f = g ? pure_form(g, a.in, false) : NULL;
        TD_CHECK_THAT(f != NULL, "%s", td_message(cx));
        td_facts *facts = td__facts(g, a.in, false);
        TD_CHECK_THAT(facts != NULL, "%s", td_message(cx));
        prepare(cx, &b, two, (nature)n);
        td_grad_mode was = td_no_grad_begin(cx);
        CHECK(td__graph_replay(g, a.in, a.out) && pure_call(f, b.in, b.out));
        td_no_grad_end(cx, was);
        for (int i = 0; i < n_out; i++) check_values(b.out[i].u.t, a.out[i].u.t);
        for (int i = 0; i < 2; i++) check_values(b.in[i].u.t, a.in[i].u.t);
        td__facts_drop(facts);
        td__plan_drop(f);
        td__graph_drop(g);
        td_close(cx);
    }
}
TEST(branches_are_functionalized) {
    check_functional(choose_yes, 1);
    check_functional(writing, 3);
    check_functional(quiet, 1);
    check_functional(nesting, 1);
    check_functional(copying_views, 2);
}

/* Forward and backward in one graph: both have a branch, and no op writes. */
TEST(a_branch_has_its_place_in_a_joint_graph) {
    td_body *bodies[] = {choose_yes, nesting, writing};
    for (int i = 0; i < TD_COUNT(bodies); i++) {
        td_ctx      *cx = td_open();
        static world a;
        prepare(cx, &a, two, LEAF_GRAD);
        td_joint_opts o = {.train = true};
        td_graph     *g = td__capture(cx, bodies[i], NULL, (td_values){a.in, 2});
        td_joint     *j = g ? td__joint(g, a.in, &o) : NULL;
        int           branches = 0;
        TD_CHECK_THAT(j != NULL, "%d: %s", i, td_message(cx));
        CHECK(td__joint_clean(j, true) && td__graph_verify(j->g, TD_STAGE_JOINT));
        for (int k = 0; k < j->g->nodes.n; k++)
            branches += j->g->nodes.v[k]->op == TD_OP_cond;
        CHECK(branches == (bodies[i] == writing ? 4 : 2));
        td__joint_drop(j);
        td__graph_drop(g);
        td_close(cx);
    }
}

/* ---- loops -------------------------------------------------------------- */

static bool small(td_call *c) {
    return td_return(c, td_lt(td_sum(td_arg(c, 1)), 100.0));
}
static bool doubled(td_call *c) {
    td_tensor *n = td_arg(c, 0), *x = td_arg(c, 1);
    return td_return(c, td_add(n, 1),
                     td_transpose(td_mul(td_transpose(x, 0, 1), 2), 0, 1),
                     td_arg(c, 2));
}
static bool looping(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *x = td_abs(td_detach(td_arg(c, 0))), *y[3];
    td_loop    of = {.test = small, .body = doubled};
    if (!td_while(cx, of, TD_LIST(td_zeros(cx, TD_SHAPE(1)), x, x), y)) return false;
    return td_return(c, y[0], y[1], y[2], x);
}
TEST(a_captured_loop_does_what_a_while_does) { check_body(looping, two); }
TEST(loops_are_functionalized) { check_functional(looping, 4); }

/* Closes over the tensor the state starts from. */
static bool is_off(td_call *c) {
    td_tensor *r = td_arg(c, 0), *a = td_call_env(c);
    return td_return(c, td_gt(td_max(td_abs(td_sub(td_mul(r, r), a))), 1e-3));
}
static bool improve(td_call *c) {
    td_tensor *r = td_arg(c, 0), *a = td_call_env(c);
    return td_return(c, td_mul(td_add(r, td_div(a, r)), 0.5));
}
static bool root(td_call *c) {
    td_tensor *a = td_abs(td_detach(td_arg(c, 0))), *r;
    td_loop    of = {.test = is_off, .body = improve, .env = a};
    return td_while(td_call_ctx(c), of, TD_LIST(a), &r) && td_return(c, r);
}
TEST(a_loop_closes_over_its_first_state) {
    check_body(root, two);
    check_functional(root, 1);
}

static bool never(td_call *c) {
    return td_return(c, td_lt(td_sum(td_arg(c, 0)), -1e6));
}
static bool halved(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), 0.5)); }
static bool not_looping(td_call *c) {
    td_tensor *x = td_detach(td_arg(c, 0)), *y;
    td_loop    of = {.test = never, .body = halved};
    if (!td_while(td_call_ctx(c), of, TD_LIST(x), &y)) return false;
    return td_return(c, y);
}
TEST(a_loop_without_a_turn_gives_copies) { check_body(not_looping, two); }

TEST(a_long_loop_keeps_one_state) {
    td_ctx    *cx = td_open();
    td_tensor *y[3];
    td_loop    of = {.test = small, .body = doubled};
    td_tensor *x = td_full(cx, TD_SHAPE(2, 2), 1e-200);
    int        tensors = 0;
    x = td_to(x, TD_F64);
    CHECK(td_while(cx, of,
                   TD_LIST(td_zeros(cx, TD_SHAPE(1)), td_full_like(x, 1e-200), x), y));
    CHECK(td_item(y[0]) > 600);
    for (td_tensor *t = cx->all; t; t = t->next) tensors++;
    CHECK(tensors < 20);
    td_close(cx);
}

/* ---- gradients of loops -------------------------------------------------- */

/* The state grows by what the body closes over; the sum gets a history in the first
 * turn, the count never does. */
static bool is_below(td_call *c) {
    return td_return(c, td_lt(td_sum(td_abs(td_arg(c, 1))), 40.0));
}
static bool grows_by(td_call *c) {
    around    *a = td_call_env(c);
    td_tensor *n = td_arg(c, 0), *x = td_arg(c, 1), *sum = td_arg(c, 2);
    td_tensor *y = td_add(td_mul(x, td_add(td_sin(a->h), 1.5)), td_mul(x, a->w));
    return td_return(c, td_add(n, 1), y, td_add(sum, td_sum(td_mul(y, a->h))));
}
static bool growing(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *x = td_arg(c, 0), *y[3];
    around     a = {td_arg(c, 1), td_full_like(td_arg(c, 1), 0.5)};
    td_loop    of = {.test = is_below, .body = grows_by, .env = &a};
    td_tensor *zero = td_to(td_zeros(cx, TD_SHAPE()), td_dtype_of(x));
    if (!td_while(cx, of, TD_LIST(td_zeros(cx, TD_SHAPE()), x, zero), y)) return false;
    return td_return(c, y[0], td_tanh(td_mul(y[1], 1e-2)), y[2]);
}
TEST(gradients_pass_through_a_captured_loop) {
    check_body(growing, two);
    check_functional(growing, 3);
}

static bool never_growing(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y;
    td_loop    of = {.test = never, .body = halved};
    return td_while(td_call_ctx(c), of, TD_LIST(x), &y) && td_return(c, td_mul(y, y));
}
TEST(gradients_pass_through_a_loop_without_a_turn) { check_body(never_growing, two); }

TEST(derivatives_of_a_captured_loop_are_right) {
    td_ctx *cx = td_open();
    td_seed(cx, 3);
    td_tensor  *x = td_requires_grad_(td_to(td_randn(cx, TD_SHAPE(3, 4)), TD_F64));
    td_tensor  *w = td_requires_grad_(td_to(td_randn(cx, TD_SHAPE(3, 4)), TD_F64));
    td_program *p = td_capture(cx, growing, NULL, TD_ARGS(x, w));
    TD_CHECK_THAT(!td_is_nil(p), "%s", td_message(cx));
    TD_CHECK_THAT(td_gradcheck(cx, run_program, p, TD_LIST(x, w), 3, NULL), "%s",
                  td_message(cx));
    td_program_drop(p);
    td_close(cx);
}

/* Compiled, the same gradients. */
TEST(a_compiled_loop_has_eagers_gradients) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, growing, NULL, NULL);
    for (int k = 0; k < 3; k++) { /* other numbers, other turns */
        td_tensor *g[2][2];
        td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(3, 4), 0.1 * (k + 1)));
        td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(3, 4), 0.3));
        for (int eager = 0; eager < 2; eager++) {
            td_value out[3];
            CHECK(eager ? td_call_body(cx, growing, NULL, TD_ARGS(x, w), out, 3) == 3
                        : td_invoke_values(f, TD_ARGS(x, w), out, 3) == 3);
            CHECK(!td_requires_grad(out[0].u.t) && td_requires_grad(out[2].u.t));
            td_tensor *loss = td_add(td_sum(out[1].u.t), out[2].u.t);
            CHECK(td_grad(TD_LIST(loss), TD_LIST(x, w), g[eager], NULL));
        }
        CHECK_OK(cx);
        for (int i = 0; i < 2; i++)
            CHECK(td_item(td_max(td_abs(td_sub(g[0][i], g[1][i])))) <
                  1e-5 * td_item(td_max(td_abs(g[1][i]))));
    }
    td_fn_drop(f);
    td_close(cx);
}

static bool multiplied(td_call *c) {
    td_tensor *y = td_arg(c, 1);
    return td_return(c, td_add(td_arg(c, 0), 1), td_mul(y, y));
}
static bool below_two(td_call *c) { return td_return(c, td_lt(td_arg(c, 0), 2.0)); }
/* The second gradient of a loop, or the third. */
static bool derive(td_call *c, bool third) {
    td_ctx      *cx = td_call_ctx(c);
    td_tensor   *whole = td_round(td_mul(td_detach(td_arg(c, 0)), 2)); /* exact sums */
    td_tensor   *x = td_requires_grad_(whole), *y[2], *g, *h;
    td_loop      of = {.test = below_two, .body = multiplied};
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    bool         ok = td_while(cx, of, TD_LIST(td_zeros(cx, TD_SHAPE()), x), y) &&
              td_grad(TD_LIST(td_sum(y[1])), TD_LIST(x), &g, &o) &&
              td_grad(TD_LIST(td_sum(td_mul(g, g))), TD_LIST(x), &h, &o);
    if (ok && third) ok = td_grad(TD_LIST(td_sum(td_mul(h, h))), TD_LIST(x), &h, NULL);
    return ok && td_return(c, td_mul(td_reshape(td_detach(h), TD_SHAPE(-1)), 1));
}
static bool squaring(td_call *c) { return derive(c, false); }
static bool cubing(td_call *c) { return derive(c, true); }
TEST(second_gradients_pass_through_a_captured_loop) { check_body(squaring, two); }

/* ---- refused ------------------------------------------------------------ */

static void check_refused(td_body *body, const char *with) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 4)));
    td_tensor *w = td_ones(cx, TD_SHAPE(3, 4));
    CHECK(td_is_nil(td_capture(cx, body, NULL, TD_ARGS(x, w))));
    TD_CHECK_THAT(strstr(td_message(cx), with), "no \"%s\" in: %s", with,
                  td_message(cx));
    CHECK(!cx->fake && cx->top == cx->tape && !cx->tape->below);
    td_close(cx);
}

static bool other_size(td_call *c) {
    return td_return(c, td_sum(td_arg(c, 0), TD_DIMS(0)));
}
static bool differ(td_call *c) {
    td_tensor  *y;
    td_branches of = {.yes = grow, .no = other_size};
    return td_cond(flag_of(c, 0, 0), of, TD_ARGS(td_arg(c, 0), td_arg(c, 1)), &y, 1) &&
           td_return(c, y);
}
static bool transposed(td_call *c) { /* its sum with 0 is no view */
    td_tensor *t = td_t(td_contiguous(td_t(td_arg(c, 0))));
    return td_return(c, td_add(t, 0));
}
static bool contiguous(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), 3)); }
static bool other_strides(td_call *c) {
    td_tensor  *y;
    td_branches of = {.yes = contiguous, .no = transposed};
    return td_cond(flag_of(c, 0, 0), of, TD_ARGS(td_arg(c, 0)), &y, 1) &&
           td_return(c, y);
}
static bool gives_around(td_call *c) {
    return td_return(c, ((around *)td_call_env(c))->h);
}
static bool alias_outside(td_call *c) {
    around      a = {td_exp(td_arg(c, 1)), NULL};
    td_tensor  *y;
    td_branches of = {.yes = gives_around, .no = gives_around, .env = &a};
    return td_cond(flag_of(c, 0, 0), of, TD_ARGS(td_arg(c, 0)), &y, 1) &&
           td_return(c, y);
}
static bool share_bytes(td_call *c) {
    td_tensor  *x = td_mul(td_arg(c, 0), 2), *y;
    td_branches of = {.yes = writes, .no = writes};
    return td_cond(flag_of(c, 0, 0), of, TD_ARGS(x, td_select(x, 0, 1)), &y, 1) &&
           td_return(c, y);
}
static bool write_loop(td_call *c) {
    td_tensor *y;
    around     a = {td_exp(td_arg(c, 1)), NULL};
    td_loop    of = {.test = never, .body = writes_around, .env = &a};
    return td_while(td_call_ctx(c), of, TD_LIST(td_arg(c, 1)), &y) && td_return(c, y);
}
static bool writes_state(td_call *c) {
    return td_return(c, td_lt(td_sum(td_add_(td_arg(c, 0), 1)), 0));
}
static bool same_state(td_call *c) { return td_return(c, td_arg(c, 0)); }
static bool write_in_test(td_call *c) {
    td_tensor *y;
    td_loop    of = {.test = writes_state, .body = same_state};
    return td_while(td_call_ctx(c), of, TD_LIST(td_arg(c, 1)), &y) && td_return(c, y);
}
static bool no_flag(td_call *c) {
    td_tensor  *y;
    td_branches of = {.yes = grow, .no = shrink};
    return td_cond(td_arg(c, 0), of, TD_ARGS(td_arg(c, 0), td_arg(c, 1)), &y, 1) &&
           td_return(c, y);
}
static bool drops(td_call *c) {
    return td_return(c, td_dropout(td_arg(c, 0), 0.5, true));
}
static bool random_branch(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *y, *g;
    td_branches of = {.yes = drops, .no = halved};
    return td_cond(flag_of(c, 0, 0), of, TD_ARGS(x), &y, 1) &&
           td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, NULL) &&
           td_return(c, td_sum(g, TD_DIMS(0)));
}
static bool drops_twice(td_call *c) {
    td_tensor *x = td_dropout(td_arg(c, 1), 0.5, true);
    return td_return(c, td_add(td_arg(c, 0), 1), td_mul(td_sin(x), 3));
}
static bool random_loop(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *x = td_arg(c, 0), *y[2], *g;
    td_loop    of = {.test = below_two, .body = drops_twice};
    return td_while(cx, of, TD_LIST(td_zeros(cx, TD_SHAPE()), x), y) &&
           td_grad(TD_LIST(td_sum(y[1])), TD_LIST(x), &g, NULL) &&
           td_return(c, td_sum(g, TD_DIMS(0)));
}
TEST(gradients_pass_through_branches_and_loops_that_draw) {
    check_body(random_branch, two);
    check_body(random_loop, two);
}
static bool draws_flag(td_call *c) {
    return td_return(c, td_lt(td_sum(td_rand_like(td_arg(c, 0))), 0.0));
}
static bool random_test(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y, *g;
    td_loop    of = {.test = draws_flag, .body = halved};
    return td_while(td_call_ctx(c), of, TD_LIST(x), &y) &&
           td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, NULL) && td_return(c, g);
}
static bool branches_on_a_value(td_call *c) {
    return td_item(flag_of(c, 0, 0)) > 0 ? grow(c) : shrink(c);
}
TEST(what_a_branch_cannot_be_is_said) {
    check_refused(differ,
                  "result 0 is f32[3,4], but in branch no f32[4]; they must agree (");
    check_refused(other_strides,
                  "result 0 is f32[3,4] with strides [4,1], but in branch no f32[3,4] "
                  "with strides [1,3]; they must agree. Return td_contiguous of it");
    check_refused(alias_outside, "shares storage with a tensor that was not");
    check_refused(share_bytes, "shares storage with another");
    check_refused(cubing, "third derivatives of a captured loop are unsupported");
    check_refused(write_loop, "the body writes a tensor from outside in place (");
    check_refused(write_loop, "make it a state, and return its new value");
    check_refused(write_in_test, "the test writes a state in place (");
    check_refused(no_flag, "the predicate is ");
    check_refused(random_test, "td_while: the test draws random numbers");
    check_refused(branches_on_a_value, "td_cond");
    check_refused(branches_on_a_value, "control.c:");
}

static bool drawing(td_call *c) {
    td_tensor  *x = td_detach(td_arg(c, 0)), *y, *z;
    td_branches of = {.yes = drops, .no = halved};
    return td_cond(flag_of(c, 0, -100), of, TD_ARGS(x), &y, 1) &&
           td_cond(flag_of(c, 0, 100), of, TD_ARGS(x), &z, 1) &&
           td_return(c, y, z, td_dropout(x, 0.5, true));
}
TEST(a_branch_draws_when_it_runs) { check_body(drawing, two); }

/* ---- one tensor in two roles ------------------------------------------------ */

static bool writes_and_reads_around(td_call *c) {
    td_add_(td_arg(c, 0), 1);
    return td_return(c, td_mul(((around *)td_call_env(c))->h, 2));
}
static bool reach_around(td_call *c) {
    around      a = {td_mul(td_arg(c, 1), 3), NULL};
    td_tensor  *y;
    td_branches of = {.yes = writes_and_reads_around,
                      .no = writes_and_reads_around,
                      .env = &a};
    return td_cond(flag_of(c, 0, 0), of, TD_ARGS(a.h), &y, 1) && td_return(c, y, a.h);
}
static bool adds_second(td_call *c) {
    td_add_(td_arg(c, 0), td_arg(c, 1));
    return td_return(c, td_mul(td_arg(c, 1), 2));
}
static bool same_twice(td_call *c) {
    td_tensor  *x = td_mul(td_arg(c, 1), 3), *y;
    td_branches of = {.yes = adds_second, .no = adds_second};
    return td_cond(flag_of(c, 0, 0), of, TD_ARGS(x, x), &y, 1) && td_return(c, y, x);
}
TEST(a_branch_writes_a_tensor_that_it_reads_by_another_way) {
    check_body(reach_around, two);
    check_body(same_twice, two);
}

/* ---- ops that draw or write nothing with these arguments -------------------- */

static bool evaluates(td_call *c) {
    around    *a = td_call_env(c);
    td_tensor *x = td_dropout(td_dropout(td_arg(c, 0), 0.5, false), 0.0);
    return td_return(c, td_op_batch_norm(x, NULL, NULL, a->h, a->w, false, 0.1, 1e-5));
}
static bool evaluation(td_call *c) {
    td_ctx     *cx = td_call_ctx(c);
    around      a = {td_zeros(cx, TD_SHAPE(4)), td_full(cx, TD_SHAPE(4), 2.0)};
    td_tensor  *y;
    td_branches of = {.yes = evaluates, .no = evaluates, .env = &a};
    return td_cond(flag_of(c, 0, 0), of, TD_ARGS(td_arg(c, 0)), &y, 1) &&
           td_return(c, td_mul(y, y));
}
TEST(a_branch_may_evaluate_dropout_and_batch_norm) { check_body(evaluation, two); }

static bool attends(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_scaled_dot_product_attention(x, x, x));
}
static bool attention(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *y;
    td_branches of = {.yes = attends, .no = attends};
    return td_cond(td_gt(td_sum(td_detach(x)), 0.0), of, TD_ARGS(x), &y, 1) &&
           td_return(c, td_sum(y));
}
TEST(a_branch_may_have_attention_without_dropout) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, attention, NULL, NULL);
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(1, 3, 4))), *y;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(y));
    CHECK_NEAR(td_item(y), 12, 1e-5);
    CHECK_NEAR(td_item(td_sum(td_grad_of(x))), 12, 1e-5);
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- the state is the loop's own ------------------------------------------ */

static bool below_three(td_call *c) { return td_return(c, td_lt(td_arg(c, 0), 3)); }
static bool doubles_in_place(td_call *c) {
    td_tensor *n = td_add_(td_arg(c, 0), 1), *x = td_mul_(td_arg(c, 1), 2);
    return td_return(c, n, td_add_(x, td_arg(c, 2)), td_arg(c, 2));
}
static bool writing_loop(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_loop    of = {.test = below_three, .body = doubles_in_place};
    td_tensor *y[3], *x = td_arg(c, 0);
    return td_while(cx, of, TD_LIST(td_zeros(cx, TD_SHAPE()), x, x), y) &&
           td_return(c, y[1], td_mul(y[2], x));
}
TEST(a_loop_that_writes_its_state_leaves_the_callers_tensors_alone) {
    td_ctx    *cx = td_open();
    td_tensor *n = td_zeros(cx, TD_SHAPE()), *x = td_ones(cx, TD_SHAPE(2)), *y[3];
    td_loop    of = {.test = below_three, .body = doubles_in_place};
    CHECK(td_while(cx, of, TD_LIST(n, x, x), y));
    CHECK(td_item(td_sum(y[1])) == 30 && td_item(td_sum(y[2])) == 2);
    CHECK(td_version(x) == 0 && td_version(n) == 0 && td_item(n) == 0);
    CHECK_OK(cx);
    td_close(cx);
    check_body(writing_loop, two);
}

/* ---- lack of memory ----------------------------------------------------- */

TEST(a_captured_branch_survives_any_lack_of_memory) {
    for (int64_t k = 0;; k++) {
        td_ctx    *cx = td_open();
        td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 4)));
        td_tensor *w = td_ones(cx, TD_SHAPE(3, 4));
        td_value   out[3];
        td__fault_arm(k, false);
        td_program *p = td_capture(cx, writing, NULL, TD_ARGS(x, w));
        bool        ok = p && td_program_run(p, TD_ARGS(x, w), out, 3) &&
                  td_backward(td_sum(out[2].u.t));
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
