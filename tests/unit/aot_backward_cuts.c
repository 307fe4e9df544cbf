/* aot_backward_cuts.c -- histories that the engine cuts into parts of code: hooks of
 * tensors and nodes, saved-tensor hooks, payloads, branches. Each scene has to go as
 * with the engine alone: values, order of calls, what accumulated before a failure. */
#include "aot_backward_help.h"

static side *hearing;

/* The chain x -> a -> h -> c -> y with hooks in the middle, and a second leaf on each
 * side of it. */
typedef struct chain {
    td_tensor *x, *w, *v, *h, *y;
} chain;

static chain chain_of(td_ctx *cx, double first) {
    chain c = {.x = leaf(cx, TD_SHAPE(3), first),
               .w = leaf(cx, TD_SHAPE(3), 1),
               .v = leaf(cx, TD_SHAPE(3), 2)};
    c.h = td_mul(td_sin(td_mul(c.x, c.w)), 2.0);
    c.y = td_sum(td_exp(td_mul(td_cos(c.h), c.v)));
    return c;
}

static void tell_chain(side *s, const chain *c) {
    tell(s, "x", td_grad_of(c->x));
    tell(s, "w", td_grad_of(c->w));
    tell(s, "v", td_grad_of(c->v));
}

/* ---- hooks of tensors --------------------------------------------------- */

static td_tensor *scaled(void *env, td_tensor *g) {
    tell_grad(hearing, "hook gets", g);
    return td_mul(g, *(double *)env);
}

static td_tensor *negated(void *env, td_tensor *g) {
    (void)env;
    tell_grad(hearing, "negated gets", g);
    return td_neg(g);
}

static void another_env(side *s) {
    static double by[] = {2, 3, 4};
    hearing = s;
    for (int step = 0; step < 6; step++) {
        chain c = chain_of(s->cx, 0.1 * step);
        td_on_grad(c.h, step < 3 ? scaled : negated, &by[step % 3]);
        if (step == 5) td_on_grad(c.h, scaled, &by[0]);
        back(c.y, NULL, false);
        tell_chain(s, &c);
    }
}
TEST(another_function_or_env_of_a_hook_is_the_same_history) {
    check_backward(another_env, (counts){6, 1, 0});
}

static void another_place(side *s) {
    static double by = 2;
    hearing = s;
    for (int step = 0; step < 6; step++) {
        chain   c = chain_of(s->cx, 0.1);
        td_hook k = step % 3 ? td_on_grad(step % 3 == 1 ? c.h : c.y, scaled, &by) : 0;
        if (step == 5) td_hook_remove(s->cx, k); /* as step 0 */
        back(c.y, NULL, false);
        tell_chain(s, &c);
    }
}
TEST(a_hook_at_another_place_is_another_history) {
    check_backward(another_place, (counts){6, 3, 0});
}

/* What hooks see of each other, of leaves and of the graph, in one text. */
static td_tensor *writes(void *env, td_tensor *g) {
    chain *c = env;
    tell(hearing, "writes", g);
    tell(hearing, "v by now", td_grad_of(c->v));
    td_mul_(g, 3.0);
    return NULL;
}
static bool leaf_is_there(void *env, td_tensor *t) {
    (void)env;
    tell(hearing, "a leaf has", td_grad_of(t));
    return true;
}
static void in_order(side *s) {
    static double by = 2;
    static chain  c;
    hearing = s;
    for (int step = 0; step < 2; step++) {
        c = chain_of(s->cx, 0.1);
        td_on_grad(c.h, writes, &c);
        td_on_grad(c.y, scaled, &by);
        td_on_grad(c.x, negated, NULL);
        td_on_accumulated(c.v, leaf_is_there, NULL);
        td_on_accumulated(c.w, leaf_is_there, NULL);
        td_retain_grad(c.h);
        back(c.y, NULL, true);
        tell_chain(s, &c);
        tell(s, "h", td_grad_of(c.h));
        back(c.y, NULL, false);
        tell_chain(s, &c);
        back(c.y, NULL, false);
        tell_error(s, "a second time");
    }
}
TEST(hooks_run_in_eagers_order_and_see_leaves_as_eagers) {
    check_backward(in_order, (counts){4, 1, 2});
}

/* One gradient goes to both sides of a sum: a hook that writes it writes both. */
static td_tensor *doubles(void *env, td_tensor *g) {
    (void)env;
    td_mul_(g, 2.0);
    return NULL;
}
static void shared_gradients(side *s) {
    for (int step = 0; step < 2; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(2, 2), 0.1);
        td_tensor *a = td_exp(x), *b = td_sin(x), *c = td_transpose(td_add(a, b), 0, 1);
        td_on_grad(b, doubles, NULL);
        back(td_sum(td_mul(td_exp(c), 0.5)), NULL, false);
        tell(s, "x", td_grad_of(x));
    }
}
TEST(a_written_gradient_is_written_where_it_is_shared) {
    check_backward(shared_gradients, (counts){2, 1, 0});
}

static td_tensor *kept;
static td_tensor *keeps(void *env, td_tensor *g) {
    (void)env;
    kept = g;
    td_keep(g);
    return NULL;
}
static void kept_gradients(side *s) {
    for (int step = 0; step < 2; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *h = td_mul(x, 2.0);
        td_tensor *a = td_exp(h);
        td_on_grad(h, keeps, NULL);
        back(td_sum(td_add(td_mul(a, a), td_sin(h))), NULL, false);
        tell_grad(s, "kept", kept);
        td_drop(kept);
        td_tensor *y = td_add(leaf(s->cx, TD_SHAPE(3), 0), x);
        td_on_grad(y, keeps, NULL);
        back(td_sum(td_exp(y)), NULL, false);
        td_mul_(kept, 10.0);
        tell(s, "x", td_grad_of(x)); /* does it share the gradient? */
        td_drop(kept);
    }
}
TEST(a_kept_gradient_is_not_written_later) {
    check_backward(kept_gradients, (counts){4, 2, 0});
}

/* ---- failures ----------------------------------------------------------- */

static td_tensor *fails(void *env, td_tensor *g) {
    return td_fail(td_ctx_of(g), TD_E_ARG, "the hook %s", (char *)env);
}
static void failing(side *s) {
    for (int step = 0; step < 3; step++) {
        chain c = chain_of(s->cx, 0.1);
        if (step) td_on_grad(c.h, fails, "does not like it");
        else td_on_grad(c.h, doubles, NULL);
        back(c.y, NULL, false);
        if (step) tell_error(s, "does not like it");
        tell_chain(s, &c); /* v accumulated before */
        td_zero_grad(c.v);
        back(c.y, NULL, false); /* what has run is freed */
        tell_error(s, "a second time");
        back(c.h, values(s->cx, TD_SHAPE(3), 1), false); /* the rest is not */
        if (step) tell_error(s, "does not like it");
        else tell_error(s, "a second time");
        tell_chain(s, &c);
    }
}
TEST(a_hook_that_fails_leaves_what_eager_leaves) {
    check_backward(failing, (counts){1, 1, 4});
}

static td_tensor *writes_saved(void *env, td_tensor *g) {
    (void)g;
    td_add_(*(td_tensor **)env, 1.0);
    return NULL;
}
static void written_by_a_hook(side *s) {
    static td_tensor *x;
    for (int step = 0; step < 3; step++) {
        x = td_mul(leaf(s->cx, TD_SHAPE(3), 0.1), 1.0);
        td_tensor *w = leaf(s->cx, TD_SHAPE(3), 1), *v = leaf(s->cx, TD_SHAPE(3), 2);
        td_tensor *h = td_mul(td_mul(x, w), v);
        td_tensor *g = td_mul(h, 2.0);
        if (step) td_on_grad(g, writes_saved, &x);
        else td_on_grad(g, doubles, NULL);
        back(td_sum(td_exp(g)), NULL, false);
        if (step) tell_error(s, "modified in place by add_");
        tell(s, "v", td_grad_of(v)); /* accumulated before */
        tell(s, "w", td_grad_of(w));
    }
}
TEST(a_hook_that_writes_a_saved_value_fails_the_node_that_reads_it) {
    check_backward(written_by_a_hook, (counts){1, 1, 2});
}

/* A leaf hook of the code's own part that fails: later nodes keep their values. */
static bool leaf_fails(void *env, td_tensor *t) {
    (void)t;
    return *(bool *)env ? (bool)td_fail(td_ctx_of(t), TD_E_ARG, "no leaf") && false
                        : true;
}
static void leaf_failing(side *s) {
    for (int step = 0; step < 2; step++) {
        bool       bad = step;
        td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *w = leaf(s->cx, TD_SHAPE(3), 1);
        td_tensor *y = td_add(td_exp(x), w); /* w accumulates before exp runs */
        td_on_accumulated(w, leaf_fails, &bad);
        back(td_sum(y), NULL, false);
        if (step) tell_error(s, NULL);
        bad = false;
        back(td_sum(y), NULL, false);
        tell_error(s, NULL);
        tell(s, "x", td_grad_of(x));
        tell(s, "w", td_grad_of(w));
    }
}
TEST(a_leaf_hook_that_fails_frees_nothing_of_later_nodes) {
    check_backward(leaf_failing, (counts){2, 2, 1});
}

/* ---- hooks of nodes ----------------------------------------------------- */

static bool removes; /* does the hook take the gradient away? */
static bool before(void *env, td_tensor **g, int n) {
    say(hearing, "%s: %d\n", (char *)env, n);
    tell_grad(hearing, "pre", g[0]);
    g[0] = removes ? NULL : td_mul(g[0], 2.0);
    return true;
}
static bool after(void *env, td_tensor **made, int n_made, td_tensor *const *g, int n) {
    say(hearing, "%s: %d of %d\n", (char *)env, n_made, n);
    tell_grad(hearing, "post", made[0] ? made[0] : td_nil(hearing->cx));
    tell_grad(hearing, "from", g[0] ? g[0] : td_nil(hearing->cx));
    if (removes) made[0] = NULL;
    return true;
}
static void node_hooks(side *s) {
    hearing = s;
    for (int step = 0; step < 8; step++) {
        chain c = chain_of(s->cx, 0.1 * step);
        removes = step % 2;
        if (step < 4) td_on_node_pre(td_grad_fn(c.h), before, "pre hook");
        else td_on_node_post(td_grad_fn(c.h), after, "post hook");
        back(c.y, NULL, false);
        tell_chain(s, &c);
    }
}
TEST(node_hooks_may_take_gradients_away) {
    check_backward(node_hooks, (counts){8, 2, 0});
}

/* ---- what hooks do to the history --------------------------------------- */

static td_tensor *adds_hook(void *env, td_tensor *g) {
    static double by = 5;
    (void)g;
    td_on_grad(*(td_tensor **)env, scaled, &by);
    return NULL;
}
static td_tensor *retains(void *env, td_tensor *g) {
    (void)g;
    td_retain_grad(*(td_tensor **)env);
    return NULL;
}
static td_tensor *goes_back(void *env, td_tensor *g) {
    td_backward_with(TD_LIST(*(td_tensor **)env), TD_LIST(g),
                     &(td_backward_opts){TD_BACKWARD_OPTS, .with = with});
    return NULL;
}
static td_tensor *watches(void *env, td_tensor *g) {
    (void)env;
    td_set_anomaly(td_ctx_of(g), true);
    return NULL;
}

/* h, below the hooked one, is in a part of code. */
static void changed_by(side *s, td_grad_hook *hook) {
    static td_tensor *h;
    hearing = s;
    for (int step = 0; step < 3; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *w = leaf(s->cx, TD_SHAPE(3), 1);
        h = td_mul(td_exp(x), w);
        td_tensor *k = td_sin(h);
        td_on_grad(k, step ? hook : doubles, &h);
        back(td_sum(td_exp(k)), NULL, false);
        td_set_anomaly(s->cx, false);
        if (td_error(s->cx)) tell_error(s, "a second time");
        tell(s, "h", td_retains_grad(h) ? td_grad_of(h) : td_nil(s->cx));
        tell(s, "x", td_grad_of(x));
        tell(s, "w", td_grad_of(w));
    }
}
static void hook_adds(side *s) { changed_by(s, adds_hook); }
static void hook_retains(side *s) { changed_by(s, retains); }
static void hook_goes_back(side *s) { changed_by(s, goes_back); }
static void hook_watches(side *s) { changed_by(s, watches); }
TEST(a_hook_that_a_hook_registers_runs) {
    check_backward(hook_adds, (counts){1, 1, 2});
}
TEST(a_gradient_that_a_hook_retains_is_stored) {
    check_backward(hook_retains, (counts){1, 1, 2});
}
TEST(a_hook_may_go_back_through_the_rest) {
    check_backward(hook_goes_back, (counts){1, 1, 2 + 2});
}
TEST(a_hook_may_switch_anomaly_mode_on) {
    check_backward(hook_watches, (counts){1, 1, 2});
}

static td_tensor *removes_itself(void *env, td_tensor *g) {
    td_hook_remove(td_ctx_of(g), *(td_hook *)env);
    return td_mul(g, 2.0);
}
static void once_only(side *s) {
    for (int step = 0; step < 2; step++) {
        td_hook k;
        chain   c = chain_of(s->cx, 0.1);
        k = td_on_grad(c.h, removes_itself, &k);
        back(c.y, NULL, true);
        tell_chain(s, &c);
        back(c.y, NULL, false); /* without it */
        tell_chain(s, &c);
    }
}
TEST(a_hook_may_remove_itself) { check_backward(once_only, (counts){4, 2, 0}); }

static td_tensor *drops_it(void *env, td_tensor *g) {
    (void)g;
    td_backward_fn_drop(env);
    return NULL;
}
TEST(a_hook_inside_may_drop_the_handle) {
    td_ctx         *cx = td_open();
    td_backward_fn *f = td_aot_backward(cx, NULL);
    chain           c = chain_of(cx, 0.1);
    td_on_grad(c.h, drops_it, f);
    CHECK(td_backward_with(TD_LIST(c.y), (td_tensors){0},
                           &(td_backward_opts){TD_BACKWARD_OPTS, .with = f}));
    CHECK_OK(cx);
    CHECK(td_has_grad(c.x));
    td_close(cx);
}

/* ---- what is asked for -------------------------------------------------- */

static void asked(side *s) {
    static double by = 2;
    hearing = s;
    for (int step = 0; step < 2; step++) {
        chain      c = chain_of(s->cx, 0.1);
        td_tensor *g[3];
        td_on_grad(c.h, scaled, &by);
        td_grad(TD_LIST(c.y), TD_LIST(c.h, c.x, c.v), g,
                &(td_grad_opts){TD_GRAD_OPTS, .with = with, .retain_graph = true});
        tell(s, "h", g[0]);
        tell(s, "x", g[1]);
        tell(s, "v", g[2]);
        td_grad(TD_LIST(c.y), TD_LIST(c.h), g, /* nothing behind the hook runs */
                &(td_grad_opts){TD_GRAD_OPTS, .with = with, .retain_graph = true});
        tell(s, "h", g[0]);
        td_backward_with(TD_LIST(c.y), (td_tensors){0},
                         &(td_backward_opts){TD_BACKWARD_OPTS, .with = with,
                                             .inputs = TD_LIST(c.h, c.w)});
        tell(s, "h", td_grad_of(c.h));
        tell_chain(s, &c);
    }
}
TEST(gradients_are_asked_for_on_both_sides_of_a_hook) {
    check_backward(asked, (counts){6, 3, 0});
}

static void hooked_roots(side *s) {
    hearing = s;
    for (int step = 0; step < 2; step++) {
        chain      c = chain_of(s->cx, 0.1);
        td_tensor *g = values(s->cx, TD_SHAPE(3), 1), *k = td_exp(c.h);
        td_on_grad(k, doubles, NULL);
        td_on_grad(c.y, negated, NULL);
        td_backward_with(TD_LIST(c.y, k, c.h), TD_LIST(NULL, g, g),
                         &(td_backward_opts){TD_BACKWARD_OPTS, .with = with});
        tell_chain(s, &c);
        tell(s, "the tangent was written", g);
    }
}
TEST(hooks_of_roots_see_the_tangents) {
    check_backward(hooked_roots, (counts){2, 1, 0});
}

/* ---- other cuts --------------------------------------------------------- */

typedef struct packs {
    int n, unpacked;
} packs;
static void *pack(void *env, td_tensor *t) {
    packs *p = env;
    p->n++;
    td_tensor *c = td_mul(t, 2.0);
    td_keep(c);
    return c;
}
static td_tensor *unpack(void *env, void *packed, td_ctx *cx) {
    packs *p = env;
    (void)cx;
    say(hearing, "unpack %d\n", ++p->unpacked);
    tell_grad(hearing, "unpacks", packed);
    return td_mul(packed, 0.5);
}
static void drop(void *env, void *packed) {
    ((packs *)env)->n--;
    td_drop(packed);
}
static void packed_values(side *s) {
    packs          p = {0};
    td_saved_hooks hooks = {pack, unpack, drop, &p};
    hearing = s;
    for (int step = 0; step < 2; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *h = td_exp(td_mul(x, 2.0));
        td_saved_hooks_push(s->cx, &hooks);
        h = td_mul(h, td_sin(h));
        td_saved_hooks_pop(s->cx);
        back(td_sum(td_cos(h)), NULL, step == 0);
        tell(s, "x", td_grad_of(x));
        if (step == 0) back(td_sum(h), NULL, false);
        say(s, "%d packed\n", p.n);
    }
}
TEST(unpack_is_called_when_its_node_runs) {
    check_backward(packed_values, (counts){3, 2, 0});
}

static bool body(td_call *c) {
    td_tensor *h = td_mul(td_arg(c, 0), td_arg(c, 1));
    return td_return(c, td_sin(h), td_sum(h));
}
static void compiled_call(side *s) {
    td_fn *f = td_aot_function(s->cx, body, NULL, NULL);
    hearing = s;
    for (int step = 0; step < 3; step++) {
        chain      c = chain_of(s->cx, 0.1);
        td_tensor *y[2];
        td_invoke(f, TD_ARGS(c.h, c.v), y, 2);
        td_on_grad(y[0], negated, NULL);
        back(step == 2 ? td_exp(y[1]) : td_sum(td_exp(y[0])), NULL, false);
        tell_chain(s, &c);
    }
    td_fn_drop(f);
}
TEST(results_of_a_compiled_call_may_have_hooks) {
    check_backward(compiled_call, (counts){3, 2, 0});
}

/* A program of graphs that is run op by op: its branch and its loop are one node each.
 */
static const char graphs[] =
    "func @f(%x: f64[3], %w: f64[3], %p: bool[]) {\n"
    "  %h = mul(%x, %w)\n"
    "  %c = cond(%p, func @yes(%a: f64[3], %b: f64[3]) {\n"
    "    %y = mul(%a, %b)\n    return %y\n"
    "  }, func @no(%a: f64[3], %b: f64[3]) {\n"
    "    %y = sin(%a)\n    return %y\n  }, [%h, %w])\n"
    "  %e = exp(%c)\n"
    "  %n = full([], 2, i64)\n"
    "  %m, %l = while_loop(func @test(%n: i64[], %a: f64[3]) {\n"
    "    %t = gt(%n, 0)\n    return %t\n"
    "  }, func @body(%n: i64[], %a: f64[3]) {\n"
    "    %k = sub(%n, 1)\n    %y = sin(%a)\n    return %k, %y\n  }, [%n, %e], [])\n"
    "  %y = mul(%l, %x)\n  return %y\n}\n";
static void branches_and_loops(side *s) {
    td_gfile *f = td_graphs_parse(s->cx, graphs, sizeof graphs - 1, "graphs");
    for (int step = 0; step < 4; step++) {
        td_tensor *x = leaf(s->cx, TD_SHAPE(3), 0.1), *w = leaf(s->cx, TD_SHAPE(3), 1);
        td_tensor *p = td_full(s->cx, TD_SHAPE(), step % 2, TD_BOOL);
        td_value   in[3] = {td_value_tensor(x), td_value_tensor(w), td_value_tensor(p)},
                 y;
        if (!td_graph_run(td_graphs_at(f, 0), in, 3, &y, 1)) break;
        back(td_sum(y.u.t), NULL, false);
        tell_grad(s, "x", td_grad_of(x));
        tell_grad(s, "w", td_grad_of(w));
    }
    td_graphs_drop(f);
}
TEST(branches_and_loops_run_between_parts_of_code) {
    check_backward(branches_and_loops, (counts){4, 1, 0});
}

/* ---- looking at it ------------------------------------------------------ */

TEST(the_explanation_names_the_cuts) {
    td_ctx         *cx = td_open();
    td_backward_fn *f = td_aot_backward(cx, NULL);
    chain           c = chain_of(cx, 0.1);
    char            text[20000];
    td_on_grad(c.h, doubles, NULL);
    CHECK(td_backward_with(TD_LIST(c.y), (td_tensors){0},
                           &(td_backward_opts){TD_BACKWARD_OPTS, .with = f}));
    CHECK(td_backward_explain(f, text, sizeof text) < sizeof text);
    CHECK(strstr(text, "1 backwards ran as code, 0 in the engine"));
    CHECK(strstr(text, "history 0: 2 parts\n  the engine runs hooks of mul\n"));
    CHECK(strstr(text, "history 0, part 0: 2 results, 4 nodes"));
    CHECK(strstr(text, "history 0, part 1: 2 results, 3 nodes"));
    td_close(cx);
}

TEST(sets_of_gradients_are_limited) {
    td_ctx         *cx = td_open();
    td_backward_fn *f = td_aot_backward(cx, &(td_aot_opts){TD_AOT_OPTS, .limit = 1});
    static side     s;
    hearing = &s;
    for (int step = 0; step < 3; step++) {
        chain c = chain_of(cx, 0.1);
        removes = step % 2;
        td_on_node_pre(td_grad_fn(c.h), before, "pre");
        CHECK(td_backward_with(TD_LIST(c.y), (td_tensors){0},
                               &(td_backward_opts){TD_BACKWARD_OPTS, .with = f}));
        CHECK(td_has_grad(c.x) == !removes);
    }
    CHECK(td_backward_runs(f) == 2 && td_backward_misses(f) == 1);
    CHECK_STR(td_backward_why(f), "a part begins with too many sets of gradients");
    td_close(cx);
}
