/* aot_closed.c -- tensors that a body reads around its arguments count as arguments do:
 * which argument is the same tensor, overlaps it, is a view of it or its base, and what
 * they look like at each call. */
#include "aot_sides.h"
#include "base/base.h"
#include "tower_help.h"

/* ---- bodies ------------------------------------------------------------- */

static td_tensor *held, *other; /* what the bodies close over */

static bool reads(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), held)); }
static bool writes_arg(td_call *c) {
    td_mul_(td_arg(c, 0), 2.0);
    return td_return(c, td_add(td_sum(held), td_sum(td_arg(c, 0))));
}
static bool writes_held(td_call *c) {
    td_mul_(held, 2.0);
    return td_return(c, td_mul(td_sum(td_arg(c, 0)), td_sum(held)));
}
static bool writes_both(td_call *c) {
    td_mul_(td_arg(c, 0), td_sum(held));
    td_add_(held, 1.0);
    return td_return(c, td_exp(td_mul(td_sum(td_arg(c, 0)), 0.01)), td_sum(held));
}
static bool gives_held(td_call *c) {
    td_mul_(td_arg(c, 0), 2.0);
    return td_return(c, held, td_view(held, TD_DIMS(3, 1)));
}
static bool gives_both(td_call *c) {
    return td_return(c, held, td_arg(c, 0), td_mul(held, td_arg(c, 0)));
}
static bool differs_inside(td_call *c) {
    td_tensor *g, *x = td_mul(td_arg(c, 0), 1.0), *y = td_mul(x, td_sin(held));
    bool       taken = td_requires_grad(held);
    if (taken && !td_grad(TD_LIST(td_sum(y)), TD_LIST(held), &g,
                          &(td_grad_opts){TD_GRAD_OPTS, .retain_graph = true,
                                          .allow_unused = true}))
        return false;
    return td_return(c, taken ? td_add(y, g) : y);
}
/* Asks for a view of what was written only behind the write. */
static bool reads_late(td_call *c) {
    td_tensor *x = td_mul_(td_arg(c, 0), 3.0);
    td_tensor *y = td_requires_grad(held) ? td_mul(held, 2.0) : td_add(held, 5.0);
    return td_return(c, td_sum(td_mul(x, y)));
}
static bool reads_two(td_call *c) {
    td_mul_(held, 2.0);
    td_add_(other, td_sum(td_arg(c, 0)));
    return td_return(c, td_sum(td_mul(held, other)));
}
static bool yes(td_call *c) {
    return td_return(c, td_add(td_mul(td_arg(c, 0), 2.0), held));
}
static bool no(td_call *c) { return td_return(c, td_sub(td_arg(c, 0), held)); }
static bool branches(td_call *c) {
    td_tensor *y;
    td_mul_(td_arg(c, 0), 2.0);
    if (!td_cond(td_gt(td_sum(held), 1.0), (td_branches){.yes = yes, .no = no},
                 TD_ARGS(td_arg(c, 0)), &y, 1))
        return false;
    return td_return(c, y);
}

/* ---- every relation, in turn, to one function --------------------------- */

typedef enum kind { PLAIN, FROM_LEAF, IS_LEAF } kind;
static kind of;
static int  skip; /* a relation; 0: none */

static td_tensor *relative(td_tensor *base, int k) {
    td_ctx *cx = td_ctx_of(base);
    switch (k) {
    case 0: return values(cx, TD_SHAPE(3), 0.7);
    case 1: return held;
    case 2: return td_slice(base, 0, 0, 3);
    case 3: return td_slice(base, 0, 1, 4);
    case 4: return td_view(held, TD_DIMS(3));
    case 5: return td_slice(base, 0, 3, 6);
    default: return td_mul(td_slice(base, 0, 0, 3), 1.0);
    }
}

static void tell_grads(side *s, td_tensor *leaf_, td_tensor *y) {
    if (td_is_nil(y) || !td_requires_grad(y)) return;
    td_tensor *g;
    if (!td_grad(TD_LIST(td_sum(y)), TD_LIST(leaf_), &g,
                 &(td_grad_opts){TD_GRAD_OPTS, .allow_unused = true}))
        tell_error(s, NULL);
    else tell_grad(s, "gradient", g);
}

static void call_with(side *s, td_tensor *from, td_tensor *base, int k) {
    td_tensor *x = relative(base, k), *out[3];
    say(s, "relation %d\n", k);
    if (!ask(s, TD_ARGS(x), out, 3)) tell_error(s, NULL);
    for (int i = 0; i < 3; i++) {
        tell(s, "out", out[i]);
        if (td_is_nil(out[i])) continue;
        say(s, "is %d %d in %d\n", out[i] == held, out[i] == x,
            td_same_storage(out[i], held));
    }
    tell(s, "held", held);
    tell(s, "x", x);
    tell(s, "base", base);
    for (int i = 0; i < 3; i++) tell_grads(s, from, out[i]);
}

static void each_relation(side *s) {
    static const int orders[][5] = {{0, 1, 2, 3, 4},
                                    {1, 0, 2, 5, 1},
                                    {3, 6, 1, 2, 0},
                                    {4, 0, 3, 1, 4}};
    for (int o = 0; o < TD_COUNT(orders); o++) {
        td_tensor *from = values(s->cx, TD_SHAPE(6), 0.5), *base = from;
        if (of == FROM_LEAF) base = td_mul(td_requires_grad_(from), 1.0);
        if (of == IS_LEAF) base = td_requires_grad_(from);
        held = td_slice(base, 0, 0, 3);
        other = td_slice(base, 0, 2, 5);
        if (s->fn) td_fn_forget(s->fn);
        say(s, "order %d\n", o);
        td_config_set(s->cx, "backend", o ? "interp" : "auto");
        for (int i = 0; i < 5; i++)
            if (!skip || orders[o][i] != skip) call_with(s, from, base, orders[o][i]);
    }
}

static void check_relations(td_body *body, kind k) {
    static const td_aot_opts opts[] = {{TD_AOT_OPTS},
                                       {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC},
                                       {TD_AOT_OPTS, .keep_mutations = true}};
    of = k;
    for (int i = 0; i < TD_COUNT(opts); i++)
        check_with(each_relation, body, NULL, &opts[i]);
}

/* Eager refuses to write views of a leaf, behind other writes: that is no call. */
static void check_all(td_body *body) {
    check_relations(body, PLAIN);
    check_relations(body, FROM_LEAF);
}

TEST(an_argument_may_be_what_is_closed_over) {
    check_all(reads);
    check_relations(reads, IS_LEAF);
}
TEST(an_argument_that_overlaps_is_written) { check_all(writes_arg); }
TEST(what_is_closed_over_is_written) { check_all(writes_held); }
TEST(both_are_written) { check_all(writes_both); }
TEST(a_closed_over_tensor_is_returned) { check_all(gives_held); }
TEST(both_are_returned) {
    check_all(gives_both);
    check_relations(gives_both, IS_LEAF);
}
TEST(gradients_inside_go_to_what_is_closed_over) {
    skip = 4; /* its history passes through what is closed over */
    check_all(differs_inside);
    check_relations(differs_inside, IS_LEAF);
}
TEST(a_view_is_first_read_after_a_write) { check_relations(reads_late, PLAIN); }
TEST(two_that_are_closed_over_overlap) { check_all(reads_two); }
TEST(branches_close_over_arguments) { check_relations(branches, PLAIN); }

/* ---- what a later call finds -------------------------------------------- */

/* The tensor closed over is changed in place between calls. */
static void changes(side *s) {
    td_tensor *x = values(s->cx, TD_SHAPE(3), 0.3), *y;
    held = leaf(s->cx, TD_SHAPE(3), 0.5);
    for (int i = 0; i < 7; i++) {
        td_grad_mode was = td_no_grad_begin(s->cx);
        if (i == 1) td_set_requires_grad(held, false);
        if (i == 2) td_resize_(held, TD_DIMS(1, 3));
        if (i == 3) td_resize_(held, TD_DIMS(3, 1));
        if (i == 4) td_t_(held);
        if (i == 5) td_set_(held, values(s->cx, TD_SHAPE(4, 3), 0.1));
        if (i == 6) td_set_(held, x);
        td_no_grad_end(s->cx, was);
        say(s, "change %d\n", i);
        y = ask1(s, TD_ARGS(x));
        tell(s, "y", y);
        tell_grads(s, held, y);
    }
}
TEST(what_is_closed_over_may_change_between_calls) {
    check_scene(changes, reads);
    check_with(changes, reads, NULL,
               &(td_aot_opts){TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC});
}

/* Bodies change flags or sizes of what they close over, and read them. */
static bool makes_a_leaf(td_call *c) {
    td_set_requires_grad(held, true);
    bool is = td_requires_grad(held) && td_is_leaf(held);
    return td_return(c, is ? td_mul(td_arg(c, 0), held) : td_arg(c, 0));
}
static bool changes_sizes(td_call *c) {
    if (td_size(held, 0) == 3) td_unsqueeze_(held, 0);
    bool is = td_rank(held) == 2 && td_size(held, 1) == 3;
    return td_return(c, is ? td_add(td_arg(c, 0), held) : td_arg(c, 0));
}
static void calls_twice(side *s) {
    held = values(s->cx, TD_SHAPE(3), 0.5);
    for (int i = 0; i < 2; i++) {
        td_tensor *y = ask1(s, TD_ARGS(values(s->cx, TD_SHAPE(3), 0.3)));
        tell(s, "y", y);
        tell_grads(s, held, y);
    }
}
TEST(a_body_reads_what_it_made_of_a_tensor_it_closes_over) {
    td_body    *bodies[] = {makes_a_leaf, changes_sizes};
    td_aot_opts sizes = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};
    for (int i = 0; i < TD_COUNT(bodies); i++) {
        check_scene(calls_twice, bodies[i]);
        check_with(calls_twice, bodies[i], NULL, &sizes);
    }
}

TEST(what_is_closed_over_outlives_its_scope) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, reads, NULL, NULL);
    td_tensor *y, *x = values(cx, TD_SHAPE(3), 1.0);
    td_scope_begin(cx, "short");
    held = values(cx, TD_SHAPE(3), 2.0);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    td_scope_end(cx, "short", NULL);
    for (int i = 0; i < 8; i++) (void)values(cx, TD_SHAPE(3), -9.0);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_ok(cx));
    CHECK(fabs(td_item(td_sum(y)) - (2.0 + 1.1 * 2.1 + 1.2 * 2.2)) < 1e-9);
    td_fn_drop(f);
    td_close(cx);
}

/* The state that a step closes over is its argument too. */
static bool step_body(td_call *c) {
    td_tensor *g, *loss = td_sum(td_mul(td_sin(held), td_arg(c, 0)));
    if (!td_grad(TD_LIST(loss), TD_LIST(held), &g, NULL)) return false;
    td_grad_mode was = td_no_grad_begin(td_call_ctx(c));
    td_sub_(held, td_mul(g, 0.5));
    td_no_grad_end(td_call_ctx(c), was);
    return td_return(c, td_detach(loss));
}
TEST(a_step_may_be_given_its_state) {
    double got[2][6];
    for (int compiled = 0; compiled < 2; compiled++) {
        td_ctx    *cx = td_open();
        td_fn     *f = td_aot_step(cx, step_body, NULL, NULL);
        td_tensor *x = values(cx, TD_SHAPE(3), 1.0), *y;
        held = leaf(cx, TD_SHAPE(3), 0.5);
        for (int i = 0; i < 6; i++) {
            td_value   v;
            td_tensor *a = i % 3 == 1 ? held : i % 3 == 2 ? td_detach(held) : x;
            if (compiled) CHECK(td_invoke(f, TD_ARGS(a), &y, 1));
            else CHECK(td_call_body(cx, step_body, NULL, TD_ARGS(a), &v, 1) == 1);
            got[compiled][i] = td_item(compiled ? y : v.u.t);
        }
        CHECK(!compiled || td_fn_specializations(f) == 3);
        td_fn_drop(f);
        td_close(cx);
    }
    for (int i = 0; i < 6; i++) CHECK(fabs(got[0][i] - got[1][i]) < 1e-12);
}

TEST(tensors_that_a_graph_holds_count_too) {
    td_ctx    *cx = td_open();
    td_tensor *x = values(cx, TD_SHAPE(3), 1.0), *y, *z;
    held = values(cx, TD_SHAPE(3), 1.0);
    td_staged *s = td_stage_capture(cx, writes_arg, NULL, TD_ARGS(x), NULL);
    td_fn     *f = td_aot_graph(td_stage_program(s), NULL);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_invoke(f, TD_ARGS(held), &z, 1));
    CHECK(fabs(td_item(y) - 9.9) < 1e-9 && fabs(td_item(z) - 13.2) < 1e-9);
    CHECK(td_fn_specializations(f) == 2);
    td_fn_drop(f);
    td_stage_drop(s);
    td_close(cx);
}

/* ---- where no key is compared ------------------------------------------- */

TEST(a_program_knows_which_tensors_share_bytes) {
    td_ctx    *cx = td_open();
    td_tensor *x = values(cx, TD_SHAPE(3), 1.0);
    td_value   v;
    held = values(cx, TD_SHAPE(3), 2.0);
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        td_capture_opts o = {TD_CAPTURE_OPTS,
                             .dynamic = dynamic ? TD_DYNAMIC_ALL : TD_DYNAMIC_OFF};
        CHECK(td_is_nil(td_capture_with(cx, reads, NULL, TD_ARGS(held), &o)));
        CHECK(aot_says(cx, TD_E_TRACE, "read it with td_arg"));
        td_program *p = td_capture_with(cx, reads, NULL, TD_ARGS(x), &o);
        CHECK(p && td_program_run(p, TD_ARGS(x), &v, 1));
        CHECK(!td_program_run(p, TD_ARGS(held), &v, 1));
        CHECK(aot_says(cx, TD_E_ARG, "which the body closes over, shares storage"));
        td_program_drop(p);
    }
    td_close(cx);
}

TEST(an_export_refuses_an_argument_that_is_closed_over) {
    td_ctx *cx = td_open();
    held = values(cx, TD_SHAPE(3), 2.0);
    CHECK(td_is_nil(
        td_export_joint(cx, reads, NULL, TD_ARGS(td_view(held, TD_DIMS(3))), NULL)));
    CHECK(aot_says(cx, TD_E_UNSUPPORTED, "input 0, %x0, shares bytes with a tensor"));
    td_close(cx);
}

/* ---- histories outside -------------------------------------------------- */

static bool asks_for_second(td_call *c) {
    td_tensor *g, *x = td_arg(c, 0), *w = td_arg(c, 1);
    if (!td_grad(TD_LIST(td_sum(td_mul(x, td_sin(w)))), TD_LIST(w), &g, NULL))
        return false;
    return td_return(c, g);
}
TEST(a_gradient_inside_that_would_go_on_outside_is_refused) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, asks_for_second, NULL, NULL);
    td_tensor *w = leaf(cx, TD_SHAPE(3), 0.5), *v = leaf(cx, TD_SHAPE(3), 0.1), *y;
    CHECK(td_invoke(f, TD_ARGS(td_sin(v), w), &y, 1));
    CHECK(!td_invoke(f, TD_ARGS(td_sin(w), w), &y, 1)); /* looks the same */
    CHECK(aot_says(cx, TD_E_UNSUPPORTED,
                   "of input x1, from which input x0 was computed outside of"));
    CHECK(td_invoke(f, TD_ARGS(td_detach(td_sin(w)), w), &y, 1));
    CHECK(td_invoke(f, TD_ARGS(td_sin(v), w), &y, 1));
    CHECK(td_fn_specializations(f) == 2);
    td_fn_drop(f);
    td_close(cx);
}

static bool grad_of_member(td_call *c) {
    td_module *m = td_call_env(c);
    td_tensor *w = td_module_get(m, "fc.weight"), *g;
    td_tensor *y = td_sum(td_mul(w, td_module_get(m, "twice")));
    return td_grad(TD_LIST(td_add(y, td_arg(c, 0))), TD_LIST(w), &g, NULL) &&
           td_return(c, g);
}
TEST(such_a_gradient_is_refused_by_the_names_of_members) {
    static const td_module_type type = {.name = "Net"};
    td_ctx                     *cx = td_open();
    td_module                  *m = td_module_make(cx, &type);
    td_tensor                  *y, *x = values(cx, TD_SHAPE(), 1.0);
    td_nn_add(m, "fc", td_nn_linear(cx, 3, 2, NULL));
    td_module_buffer(m, "twice", td_mul(td_module_get(m, "fc.weight"), 2), true);
    td_fn *f = td_aot_function(cx, grad_of_member, m, NULL);
    td_fn *g =
        td_aot_step(cx, grad_of_member, m, &(td_aot_opts){TD_AOT_OPTS, .module = m});
    CHECK_OK(cx);
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(aot_says(cx, TD_E_UNSUPPORTED, "of Net.fc.weight, from which Net.twice was"));
    CHECK(!td_invoke(g, TD_ARGS(x), &y, 1));
    CHECK(
        aot_says(cx, TD_E_UNSUPPORTED, "of fc.weight, from which twice was computed"));
    td_fn_drop(f);
    td_fn_drop(g);
    td_module_free(m);
    td_close(cx);
}
