/* hook_capture.c -- gradient hooks that a captured body registers: they become part of
 * the program, and gradients are those of the body called as it is. */
#include "aot_sides.h"
#include "core/core.h"

#include <math.h>
#include <string.h>

#define CHECK_FAILS(cx, words)                                         \
    TD_CHECK_THAT(!td_ok(cx) && strstr(td_message(cx), words) != NULL, \
                  "the message is \"%s\", without \"%s\"", td_message(cx), words)

static td_tensor *doubled(void *env, td_tensor *g) {
    if (env) ++*(int *)env;
    return td_mul(g, 2.0);
}
static td_tensor *clipped(void *env, td_tensor *g) {
    (void)env;
    return td_clamp(g, -0.5, 0.5);
}
static td_tensor *times(void *env, td_tensor *g) { return td_mul(g, env); }
static td_tensor *tripled_in_place(void *env, td_tensor *g) {
    (void)env;
    td_mul_(g, 3.0);
    return NULL;
}

/* ---- bodies ------------------------------------------------------------- */

/* Hooks on an inner value, a result and a view that is a result; one is removed. */
static bool many_hooks(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *h = td_mul(x, w);
    td_on_grad(h, doubled, NULL);
    td_hook gone = td_on_grad(h, tripled_in_place, NULL);
    td_on_grad(h, clipped, NULL);
    td_hook_remove(td_call_ctx(c), gone);
    td_hook_remove(td_call_ctx(c), gone);
    td_tensor *y = td_exp(h), *v = td_select(y, 0, 1);
    td_on_grad(y, times, h);
    td_on_grad(v, clipped, NULL);
    return td_return(c, y, v, td_sum(td_mul(v, v)));
}

static void use_results(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(2, 2), 0.1);
    td_tensor *w = leaf(s->cx, TD_SHAPE(2, 2), 0.5), *y[3];
    for (int call = 0; call < 2; call++) {
        ask(s, TD_ARGS(x, w), y, 3);
        td_tensor *l =
            td_add(td_sum(td_mul(y[0], y[0])), td_add(td_sum(td_sin(y[1])), y[2]));
        td_backward(l);
        tell_grad(s, "x", td_grad_of(x));
        tell_grad(s, "w", td_grad_of(w));
    }
    ask(s, TD_ARGS(x, w), y, 3);
    td_backward(td_sum(y[1])); /* other tangents are missing */
    tell_grad(s, "x", td_grad_of(x));
}
TEST(hooks_on_inner_values_results_and_views_run_as_eagers) {
    check_scene(use_results, many_hooks);
}

static void differentiate_twice(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(2, 2), 0.1), *g = NULL;
    td_tensor *w = leaf(s->cx, TD_SHAPE(2, 2), 0.5), *y[3];
    ask(s, TD_ARGS(x, w), y, 3);
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    td_grad(TD_LIST(td_add(td_sum(y[0]), y[2])), TD_LIST(x), &g, &o);
    tell_grad(s, "first", g);
    td_backward(td_sum(td_mul(g, g)));
    tell_grad(s, "x", td_grad_of(x));
    tell_grad(s, "w", td_grad_of(w));
}
/* Hooks that are linear in the gradient. */
static bool linear_hooks(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *h = td_mul(x, w);
    td_on_grad(h, doubled, NULL);
    td_on_grad(h, tripled_in_place, NULL);
    td_tensor *y = td_exp(h), *v = td_select(y, 0, 1);
    td_on_grad(y, times, h);
    return td_return(c, y, v, td_sum(td_mul(v, v)));
}
TEST(gradients_of_gradients_pass_through_linear_hooks) {
    check_scene(differentiate_twice, linear_hooks);
}

static td_tensor *noisy(void *env, td_tensor *g) {
    (void)env;
    return td_add(g, td_rand_like(g));
}
static bool yes_noisy(td_call *c) {
    td_tensor *h = td_sin(td_arg(c, 0));
    td_on_grad(h, noisy, NULL);
    return td_return(c, td_mul(h, h));
}
static bool yes_clipped(td_call *c) {
    td_tensor *h = td_sin(td_arg(c, 0));
    td_on_grad(h, clipped, NULL);
    return td_return(c, td_mul(h, h));
}
static bool no_hook(td_call *c) { return td_return(c, td_cos(td_arg(c, 0))); }
static bool in_branch(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *y = NULL;
    td_branches of = {.yes = td_call_env(c) ? yes_noisy : yes_clipped, .no = no_hook};
    td_cond(td_gt(td_sum(x), -100.0), of, TD_ARGS(x), &y, 1);
    return td_return(c, y);
}

/* A second backward would call such a hook once for the gradients of the first
 * backward and once for those of the call, where eager calls it with their sum. */
TEST(gradients_of_gradients_through_other_hooks_are_refused) {
    static const struct {
        td_body    *body;
        void       *env;
        const char *why;
    } row[] = {{yes_clipped, NULL, "is not known to be linear in the gradient"},
               {yes_noisy, NULL, "draws random numbers"},
               {in_branch, NULL, "is not known to be linear in the gradient"},
               {in_branch, (void *)row, "draws random numbers"}};
    for (size_t i = 0; i < TD_COUNT(row); i++) {
        td_ctx    *cx = td_open();
        td_fn     *f = td_aot_function(cx, row[i].body, row[i].env, NULL);
        td_tensor *x = leaf(cx, TD_SHAPE(3), 0.1), *y = NULL, *g = NULL;
        td_invoke(f, TD_ARGS(x), &y, 1);
        td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
        CHECK(!td_grad(TD_LIST(td_sum(td_mul(y, y))), TD_LIST(x), &g, &o));
        CHECK_FAILS(cx, row[i].why);
        td_close(cx);
    }
}

/* The body differentiates a branch, and its caller does so again. */
static bool branch_grad_inside(td_call *c) {
    td_tensor   *x = td_arg(c, 0), *y = NULL, *g = NULL;
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    td_branches  of = {.yes = yes_clipped, .no = no_hook};
    td_cond(td_gt(td_sum(x), -100.0), of, TD_ARGS(x), &y, 1);
    if (!td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, &o)) return false;
    return td_return(c, td_mul(y, g));
}
TEST(a_branch_with_such_a_hook_is_not_differentiated_twice_in_a_body) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, branch_grad_inside, NULL, NULL);
    td_tensor *x = leaf(cx, TD_SHAPE(3), 0.1), *y = NULL;
    bool       ok = td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(td_sum(y));
    CHECK(!ok);
    CHECK_FAILS(cx, "is not known to be linear in the gradient");
    td_close(cx);
}

/* A hook in a loop draws in backward, once for each iteration, and the generator goes
 * on from there. */
static bool below_three(td_call *c) { return td_return(c, td_lt(td_arg(c, 0), 3.0)); }
static bool draw_and_hook(td_call *c) {
    td_tensor *a = td_mul(td_arg(c, 1), td_rand_like(td_arg(c, 1)));
    td_on_grad(a, noisy, NULL);
    return td_return(c, td_add(td_arg(c, 0), 1.0), td_sin(a));
}
static bool hook_draws_in_loop(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *out[2], *n = td_zeros(cx, TD_SHAPE());
    td_loop    of = {.test = below_three, .body = draw_and_hook};
    if (!td_while(cx, of, TD_LIST(n, td_arg(c, 0)), out)) return false;
    return td_return(c, out[1]);
}
static void draw_in_turn(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *y = NULL;
    for (int call = 0; call < 3; call++) {
        ask(s, TD_ARGS(x), &y, 1);
        tell_grad(s, "y", y);
        td_backward(td_sum(y));
        tell_grad(s, "x", td_grad_of(x));
        tell_grad(s, "drawn", td_rand(s->cx, TD_SHAPE(2)));
    }
}
TEST(a_hook_in_a_loop_draws_new_numbers) {
    check_scene(draw_in_turn, hook_draws_in_loop);
}

/* The gradient that the body computes passes through its hook, and so does the one
 * that arrives later. A hook that was removed before runs in neither. */
static bool grad_inside(td_call *c) {
    td_tensor *x = td_arg(c, 0), *h = td_sin(x), *g = NULL;
    td_hook    gone = td_on_grad(h, doubled, NULL);
    td_on_grad(h, clipped, NULL);
    td_tensor   *y = td_sum(td_mul(h, h));
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    if (!td_grad(TD_LIST(y), TD_LIST(x), &g, &o)) return false;
    td_hook_remove(td_call_ctx(c), gone);
    return td_return(c, td_add(y, td_sum(g)), g);
}
static void one_argument(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *y[2];
    for (int call = 0; call < 2; call++) {
        ask(s, TD_ARGS(x), y, 2);
        tell_grad(s, "y", y[0]);
        tell_grad(s, "inside", y[1]);
        td_backward(y[0]);
        tell_grad(s, "x", td_grad_of(x));
    }
}
TEST(a_gradient_inside_the_body_passes_through_its_hooks) {
    check_scene(one_argument, grad_inside);
}

/* ---- the hook itself ---------------------------------------------------- */

static bool counted(td_call *c) {
    td_tensor *h = td_sin(td_arg(c, 0));
    td_on_grad(h, doubled, td_call_env(c));
    return td_return(c, td_mul(h, h));
}

TEST(a_hook_of_a_body_is_called_once_and_its_ops_run_in_each_backward) {
    td_ctx    *cx = td_open();
    int        calls = 0;
    td_fn     *f = td_aot_function(cx, counted, &calls, NULL);
    td_tensor *x = leaf(cx, TD_SHAPE(2), 0.5), *y, *first = NULL;
    for (int i = 0; i < 3; i++) {
        CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
        CHECK(td_backward(td_sum(y)));
        if (!first) first = td_clone(td_grad_of(x));
    }
    CHECK(calls == 1);
    CHECK_NEAR(td_item(td_select(first, 0, 0)), 4 * sin(0.5) * cos(0.5), 1e-12);
    CHECK_NEAR(td_item(td_select(td_grad_of(x), 0, 0)), 12 * sin(0.5) * cos(0.5),
               1e-12);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

static td_tensor *wrong_sizes(void *env, td_tensor *g) {
    (void)env;
    return td_unsqueeze(g, 0);
}
static td_tensor *fails(void *env, td_tensor *g) {
    (void)env;
    return td_fail(td_ctx_of(g), TD_E_ARG, "the hook gives up");
}
static bool with_hook(td_call *c) {
    td_grad_hook **fn = td_call_env(c);
    td_tensor     *h = td_sin(td_arg(c, 0));
    td_on_grad(h, *fn, NULL);
    return td_return(c, td_exp(h));
}
static void fail_in_backward(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(2), 0.5), *y;
    ask(s, TD_ARGS(x), &y, 1);
    tell_grad(s, "y", y);
    td_backward(td_sum(y));
    tell_error(s, NULL);
}
TEST(a_hook_that_fails_fails_in_backward) {
    td_grad_hook *hooks[] = {wrong_sizes, fails};
    for (int i = 0; i < 2; i++)
        check_with(fail_in_backward, with_hook, &hooks[i], NULL);
}

/* Tensors of a hook: a value of the body, one computed from it, and a real tensor. */
typedef struct three {
    td_tensor *own, *later, *outside;
} three;
static td_tensor *reads_three(void *env, td_tensor *g) {
    three *t = env;
    return td_add(td_mul(td_mul(g, t->own), t->later), t->outside);
}
static bool cycle(td_call *c) {
    td_tensor   *h = td_sin(td_arg(c, 0));
    static three t;
    t = (three){h, td_exp(h), td_call_env(c)};
    td_on_grad(h, reads_three, &t);
    return td_return(c, td_mul(h, t.later));
}
static int count_tensors(const td_ctx *cx) {
    int n = 0;
    for (const td_tensor *t = cx->all; t; t = t->next) n++;
    return n;
}

TEST(tensors_that_a_hook_reads_are_freed_after_the_trace) {
    td_ctx    *cx = td_open();
    td_tensor *w = leaf(cx, TD_SHAPE(2), 2.0), *x = leaf(cx, TD_SHAPE(2), 0.5);
    td_scope_begin(cx, "calls");
    int        before = count_tensors(cx);
    td_fn     *f = td_aot_function(cx, cycle, w, NULL);
    td_tensor *y;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(td_backward(td_sum(y)));
    CHECK_OK(cx);
    td_scope_end(cx, "calls", NULL);
    td_fn_drop(f);
    CHECK(count_tensors(cx) == before + 1); /* the gradient of x */
    double s = sin(0.5), e = exp(sin(0.5)), c = cos(0.5);
    CHECK_NEAR(td_item(td_select(td_grad_of(x), 0, 0)), ((e + s * e) * s * e + 2) * c,
               1e-9);
    td_close(cx);
}

/* ---- effects ------------------------------------------------------------ */

static int  printed;
static bool print(const td_op_run *r) {
    (void)r;
    printed++;
    return true;
}
static td_tensor *prints(void *env, td_tensor *g) {
    (void)env;
    td_call_op(td_ctx_of(g), "hook_print", TD_ARGS(g), NULL, 0);
    return NULL;
}
static bool printing(td_call *c) {
    td_tensor *h = td_sin(td_arg(c, 0));
    td_on_grad(h, prints, NULL);
    return td_return(c, td_exp(h));
}

TEST(an_effect_in_a_hook_happens_in_each_backward) {
    td_ctx *cx = td_open();
    CHECK(td_register_op(cx, &(td_op_opts){TD_OP_OPTS,
                                           .schema = "hook_print(Tensor x) -> ()",
                                           .kernel = print, .effect = TD_EFFECT_ORDERED,
                                           .version = 1}));
    td_fn     *f = td_aot_function(cx, printing, NULL, NULL);
    td_tensor *x = leaf(cx, TD_SHAPE(2), 0.5), *y;
    for (int i = 0; i < 3; i++) {
        CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
        CHECK(printed == i);
        CHECK(td_backward(td_sum(y)));
        CHECK(printed == i + 1);
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- what is unsupported ------------------------------------------------ */

static bool on_argument(td_call *c) {
    td_on_grad(td_arg(c, 0), doubled, NULL);
    return td_return(c, td_sin(td_arg(c, 0)));
}
static bool on_closed_over(td_call *c) {
    td_on_grad(td_call_env(c), doubled, NULL);
    return td_return(c, td_mul(td_arg(c, 0), td_call_env(c)));
}
static bool on_own_leaf(td_call *c) {
    td_tensor *l = td_set_requires_grad(td_detach(td_sin(td_arg(c, 0))), true);
    td_on_grad(l, doubled, NULL);
    return td_return(c, td_mul(l, l));
}
static td_hook outside_hook;
static bool    removes_from_outside(td_call *c) {
       td_hook_remove(td_call_ctx(c), outside_hook);
       return td_return(c, td_sin(td_arg(c, 0)));
}
static bool writes_a_view(td_call *c) {
    td_tensor *h = td_sin(td_arg(c, 0));
    td_mul_(td_select(h, 0, 0), 2.0);
    td_on_grad(h, doubled, NULL);
    return td_return(c, td_exp(h));
}

TEST(hooks_that_a_program_cannot_have_are_refused) {
    static const struct {
        td_body    *body;
        const char *says;
    } rows[] = {{on_argument, "the hook would outlive the call"},
                {on_closed_over, "the hook would outlive the call"},
                {on_own_leaf, "the hook would outlive the call"},
                {removes_from_outside, "hooks of tensors from outside"},
                {writes_a_view, "was written through a view before"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        td_ctx    *cx = td_open();
        td_tensor *x = leaf(cx, TD_SHAPE(2), 0.5), *w = leaf(cx, TD_SHAPE(2), 2.0), *y;
        outside_hook = td_on_grad(w, doubled, NULL);
        td_fn *f = td_aot_function(cx, rows[i].body, w, NULL);
        CHECK(!td_invoke(f, TD_ARGS(x), &y, 1));
        CHECK_FAILS(cx, rows[i].says);
        td_clear(cx);
        td_fn_drop(f);
        td_close(cx);
    }
}

static td_hook of_body;
static bool    keeps_its_hook(td_call *c) {
       td_tensor *h = td_sin(td_arg(c, 0));
       of_body = td_on_grad(h, doubled, NULL);
       return td_return(c, td_exp(h));
}

TEST(a_hook_of_a_body_cannot_be_removed_outside) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, keeps_its_hook, NULL, NULL);
    td_tensor *x = leaf(cx, TD_SHAPE(2), 0.5), *y;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    td_hook_remove(cx, of_body);
    CHECK_FAILS(cx, "Remove it in the body");
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* td_alias of the argument takes the hook: it sees the gradient of this call alone. */
static bool on_alias(td_call *c) {
    td_tensor *x = td_alias(td_arg(c, 0));
    td_on_grad(x, clipped, NULL);
    return td_return(c, td_exp(x));
}
static void call_twice(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1);
    td_backward(td_add(td_sum(ask1(s, TD_ARGS(x))), td_sum(ask1(s, TD_ARGS(x)))));
    tell_grad(s, "x", td_grad_of(x));
}
TEST(a_hook_on_an_alias_of_an_argument_works) { check_scene(call_twice, on_alias); }
