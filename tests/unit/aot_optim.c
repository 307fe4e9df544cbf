/* aot_optim.c -- a compiled step and its optimizer: what is changed in one after the
 * other was compiled counts, and explanations name the state by its parameter. */
#include "cache_help.h"
#include "tandem/nn.h"
#include "tandem/optim.h"

typedef struct trainer {
    td_module *net;
    td_tensor *scale; /* a parameter of its own */
    td_optim  *opt;
    bool       clips;
} trainer;

static bool step(td_call *c) {
    trainer   *t = td_call_env(c);
    td_tensor *y = td_module_call(t->net, TD_ARGS(td_arg(c, 0)));
    td_tensor *loss = td_mean(td_square(td_mul(y, t->scale)));
    if (!td_backward(loss)) return false;
    if (t->clips) td_optim_clip_norm(t->opt, 0.5);
    if (!td_optim_step(t->opt)) return false;
    td_optim_zero_grad(t->opt);
    td_zero_grad(t->scale);
    return td_return(c, loss);
}

static trainer make(td_ctx *cx) {
    td_config_set(cx, "backend", "interp");
    td_config_set(cx, "cache_disk_mb", "0");
    td_seed(cx, 3);
    trainer t = {.net = td_nn_linear(cx, 3, 2, NULL)};
    t.scale = td_set_requires_grad(td_ones(cx, TD_SHAPE(2)), true);
    t.opt = td_optim_module(t.net, td_adamw(0.1));
    return t;
}

static void end(trainer *t) {
    td_optim_free(t->opt);
    td_module_free(t->net);
}

/* Three steps; with `grow` the other parameter joins behind the first. */
static double train(td_ctx *cx, trainer *t, td_fn *f, bool grow) {
    td_tensor *x = td_ones(cx, TD_SHAPE(4, 3)), *loss = NULL;
    td_value   out;
    for (int i = 0; i < 3; i++) {
        if (f) td_invoke(f, TD_ARGS(x), &loss, 1);
        else td_call_body(cx, step, t, TD_ARGS(x), &out, 1);
        if (grow && i == 0) td_optim_add(t->opt, TD_LIST(t->scale), td_sgd(0.1));
    }
    return td_item(td_sum(td_detach(t->scale)));
}

/* Eager and compiled, by the sum of the parameter that joins. */
static void check_growth(bool grow, bool clips, bool module) {
    td_ctx     *a = td_open(), *b = open_hearing("guards");
    trainer     t = make(a), u = make(b);
    td_aot_opts o = {TD_AOT_OPTS};
    if (module) o.module = u.net;
    t.clips = u.clips = clips;
    td_fn *f = td_aot_step(b, step, &u, &o);
    heard[0] = 0;
    double want = train(a, &t, NULL, grow), got = train(b, &u, f, grow);
    CHECK_OK(a);
    CHECK_OK(b);
    CHECK(got == want);
    CHECK((want != 2) == grow);
    CHECK(grow == !!strstr(heard, "the optimizer was changed or freed after"));
    td_fn_drop(f);
    end(&t);
    end(&u);
    td_close(a);
    td_close(b);
}

TEST(a_group_that_joins_later_is_stepped) {
    for (int i = 0; i < 8; i++) check_growth(i & 1, i & 2, i & 4);
}

/* Only gradients are asked for: they are those of the parameters it has now. */
static bool clips_only(td_call *c) {
    trainer *t = td_call_env(c);
    if (!td_backward(td_sum(td_mul(t->scale, td_arg(c, 0))))) return false;
    td_optim_clip_norm(t->opt, 0.5);
    td_tensor *g = td_clone(td_grad_of(t->scale));
    td_zero_grad(t->scale);
    return td_return(c, g);
}
TEST(a_group_that_joins_later_is_clipped) {
    td_ctx    *cx = td_open();
    trainer    t = make(cx);
    td_tensor *x = td_full(cx, TD_SHAPE(2), 4.0), *g = NULL;
    td_fn     *f = td_aot_step(cx, clips_only, &t, NULL);
    td_invoke(f, TD_ARGS(x), &g, 1);
    CHECK(td_item(td_sum(g)) == 8);
    td_optim_add(t.opt, TD_LIST(t.scale), td_sgd(0.1));
    td_invoke(f, TD_ARGS(x), &g, 1);
    CHECK_NEAR(td_item(td_sum(g)), 0.5 * sqrt(2), 1e-5);
    CHECK_OK(cx);
    td_fn_drop(f);
    end(&t);
    td_close(cx);
}

/* The compiled step holds the state of an optimizer that is gone; its body would fail,
 * and so does the call. */
TEST(a_freed_optimizer_is_noticed) {
    td_ctx    *cx = td_open();
    trainer    t = make(cx);
    td_tensor *x = td_ones(cx, TD_SHAPE(4, 3)), *loss = NULL;
    td_fn     *f = td_aot_step(cx, step, &t, NULL);
    CHECK(td_invoke(f, TD_ARGS(x), &loss, 1));
    td_optim_free(t.opt);
    CHECK(!td_invoke(f, TD_ARGS(x), &loss, 1));
    CHECK(strstr(td_message(cx), "td_optim_step") && strstr(td_message(cx), "freed"));
    td_clear(cx);
    td_fn_drop(f);
    td_module_free(t.net);
    td_close(cx);
}

/* ---- names -------------------------------------------------------------- */

static void check_names(bool module, const char *const *names) {
    static char text[20000];
    td_ctx     *cx = td_open();
    trainer     t = make(cx);
    td_tensor  *loss = NULL;
    td_aot_opts o = {TD_AOT_OPTS};
    if (module) o.module = t.net;
    td_fn *f = td_aot_step(cx, step, &t, &o);
    td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(4, 3))), &loss, 1);
    td_explain(f, text, sizeof text);
    for (; *names; names++) {
        char with[80];
        snprintf(with, sizeof with, "%%%s ", *names);
        CHECK(strstr(text, with));
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    end(&t);
    td_close(cx);
}
TEST(state_is_named_by_its_parameter) {
    check_names(true, (const char *[]){"weight", "bias", "weight.exp_avg",
                                       "bias.exp_avg", "weight.exp_avg_sq",
                                       "group.0.lr", "group.0.step", NULL});
    check_names(false, (const char *[]){"Linear.weight", "Linear.weight.exp_avg",
                                        "Linear.bias.exp_avg_sq", "group.0.lr", NULL});
}

/* Two optimizers of one parameter: the second's state keeps its number. */
typedef struct pair {
    td_tensor *p;
    td_optim  *a, *b;
} pair;
static bool steps_both(td_call *c) {
    pair *e = td_call_env(c);
    return td_backward(td_sum(td_mul(e->p, td_arg(c, 0)))) && td_optim_step(e->a) &&
           td_optim_step(e->b) && td_return(c, td_detach(e->p));
}
TEST(names_are_unique) {
    static char text[20000];
    td_ctx     *cx = td_open();
    pair        e = {.p = td_set_requires_grad(td_ones(cx, TD_SHAPE(2)), true)};
    td_tensor  *y = NULL;
    e.a = td_optim_make(cx), e.b = td_optim_make(cx);
    td_optim_add(e.a, TD_LIST(e.p), td_adam(0.1));
    td_optim_add(e.b, TD_LIST(e.p), td_adam(0.1));
    td_fn *f = td_aot_step(cx, steps_both, &e, NULL);
    td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(2))), &y, 1);
    td_explain(f, text, sizeof text);
    const char *first = strstr(text, "%group.0.lr ");
    CHECK(first && !strstr(first + 1, "%group.0.lr "));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_optim_free(e.a);
    td_optim_free(e.b);
    td_close(cx);
}
