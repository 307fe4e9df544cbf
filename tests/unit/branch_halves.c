/* branch_halves.c -- the branches of a compiled td_cond hand values to their backward:
 * what a branch computed is not computed again, and all is as in eager. */
#include "aot_sides.h"

#include <string.h>

/* ---- an op that counts -------------------------------------------------- */

static int  n_runs; /* of its kernel */
static bool slow(const td_op_run *r) {
    const double *x = td_data(r->in[0].u.t);
    double       *y = td_data(r->out[0]);
    n_runs++;
    for (int64_t i = 0; i < td_numel(r->out[0]); i++) y[i] = x[i] * x[i];
    return true;
}

static td_tensor *my_slow(td_tensor *x) {
    td_tensor *y = td_nil(td_ctx_of(x));
    td_call_op(td_ctx_of(x), "my_slow", TD_ARGS(x), &y, 1);
    return y;
}

static bool register_slow(td_ctx *cx) {
    return td_register_op(cx,
                          &(td_op_opts){TD_OP_OPTS,
                                        .schema = "my_slow(Tensor x) -> Tensor",
                                        .doc = "x * x.", .shape = "x", .kernel = slow,
                                        .derivative = "x: 2 * g * x", .version = 1});
}

/* ---- bodies ------------------------------------------------------------- */

/* x, w: two results; the op that counts runs twice. */
static bool costly(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_tensor *h = my_slow(td_matmul(x, w));
    return td_return(c, td_sin(my_slow(td_add(h, 1.0))), td_exp(h));
}
static bool cheap(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    return td_return(c, td_exp(td_add(x, w)), td_neg(td_mul(x, w)));
}
/* p, x, w */
static bool choose(td_call *c) {
    td_tensor  *y[2];
    td_branches of = {.yes = costly, .no = cheap};
    td_tensor  *x = td_tanh(td_arg(c, 1));
    if (!td_cond(td_arg(c, 0), of, TD_ARGS(x, td_arg(c, 2)), y, 2)) return false;
    return td_return(c, td_mul(y[0], 2.0), y[1]);
}

/* x, w: a branch in a branch. */
static bool inside(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *w = td_arg(c, 1), *y[2];
    td_branches of = {.yes = cheap, .no = costly};
    if (!td_cond(td_gt(td_sum(x), 100.0), of, TD_ARGS(td_sin(x), w), y, 2))
        return false;
    return td_return(c, td_mul(y[0], x), y[1]);
}
static bool choose_twice(td_call *c) {
    td_tensor  *y[2];
    td_branches of = {.yes = inside, .no = cheap};
    if (!td_cond(td_arg(c, 0), of, TD_ARGS(td_arg(c, 1), td_arg(c, 2)), y, 2))
        return false;
    return td_return(c, y[0], y[1]);
}

/* ---- scenes ------------------------------------------------------------- */

typedef struct things {
    td_tensor *p, *x, *w, *y[2];
} things;

static void call(side *s, bool yes, things *t) {
    double on = yes;
    t->p = td_from(s->cx, TD_F64, TD_SHAPE(1), &on);
    t->x = leaf(s->cx, TD_SHAPE(2, 2), 0.1);
    t->w = leaf(s->cx, TD_SHAPE(2, 2), -0.2);
    ask(s, TD_ARGS(t->p, t->x, t->w), t->y, 2);
    tell(s, "y", t->y[0]);
    tell(s, "z", t->y[1]);
}

static void tell_grads(side *s, const things *t) {
    tell_grad(s, "x", td_grad_of(t->x));
    tell_grad(s, "w", td_grad_of(t->w));
}

/* Both branches; then gradients of one result alone, in either order. */
static void train(side *s) {
    things t;
    register_slow(s->cx);
    for (int i = 0; i < 6; i++) {
        call(s, i % 2 == 0, &t);
        td_tensor *a = td_sum(t.y[0]), *b = td_sum(t.y[1]);
        td_backward(i < 2 ? td_add(a, b) : i < 4 ? a : b);
        tell_grads(s, &t);
    }
}

static void twice(side *s) {
    things       t;
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true, .allow_unused = true};
    td_tensor   *g[1];
    register_slow(s->cx);
    for (int i = 0; i < 2; i++) {
        call(s, i == 0, &t);
        td_grad(TD_LIST(td_sum(t.y[0])), TD_LIST(t.x), g, &o);
        tell_grad(s, "g", g[0]);
        td_backward(td_sum(td_mul(g[0], g[0])));
        tell_grads(s, &t);
    }
}

TEST(branches_that_hand_values_over_give_what_eager_gives) {
    check_scene(train, choose);
    check_scene(train, choose_twice);
}
TEST(gradients_of_gradients_pass_through_such_branches) { check_scene(twice, choose); }

/* ---- once --------------------------------------------------------------- */

static void check_once(td_body *body, bool yes, int runs) {
    side   s = {.cx = td_open()};
    things t;
    s.fn = td_aot_function(s.cx, body, NULL, NULL);
    CHECK(register_slow(s.cx));
    for (int i = 0; i < 2; i++) {
        n_runs = 0;
        call(&s, yes, &t);
        TD_CHECK_THAT(n_runs == runs, "%d", n_runs);
        td_backward(td_add(td_sum(t.y[0]), td_sum(t.y[1])));
        TD_CHECK_THAT(td_ok(s.cx), "%s", td_message(s.cx));
        TD_CHECK_THAT(n_runs == runs, "%d", n_runs);
    }
    td_fn_drop(s.fn);
    td_close(s.cx);
}
TEST(an_expensive_branch_runs_once) {
    check_once(choose, true, 2);
    check_once(choose, false, 0);
}
TEST(an_expensive_branch_in_a_branch_runs_once) {
    check_once(choose_twice, true, 2);
    check_once(choose_twice, false, 0);
}
