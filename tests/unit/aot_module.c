/* aot_module.c -- compiled modules: the members they have at each call, modes, ties,
 * written buffers, gradients; and calls that take their arguments over. */
#include "tower_help.h"

#include "td_test.h"

/* One step of two copies of a module, one eager and one compiled, must agree in all
 * that is left behind. */
typedef struct pair {
    td_ctx    *cx;
    td_module *a, *b;
    td_fn     *f;
} pair;

static pair pair_make(const td_aot_opts *opts) {
    td_ctx    *cx = td_open();
    td_module *a = tower_make(cx), *b = td_module_copy(a);
    tower     *t = td_module_state(b);
    td_module_follow_child(b, "norm", &t->norm);
    norm *n = td_module_state(t->norm);
    td_module_follow(t->norm, "weight", &n->weight);
    td_module_follow(t->norm, "bias", &n->bias);
    td_module_follow(t->norm, "mean", &n->mean);
    td_module_follow(t->norm, "var", &n->var);
    return (pair){cx, a, b, td_aot_module(b, opts)};
}

static void pair_drop(pair *p) {
    CHECK_OK(p->cx);
    td_fn_drop(p->f);
    td_module_free(p->a);
    td_module_free(p->b);
    td_close(p->cx);
}

static bool same_member(td_module *a, td_module *b, const char *name) {
    td_tensor *x = td_module_get(a, name), *y = td_module_get(b, name);
    td_tensor *g = td_grad_of(x), *h = td_grad_of(y);
    return aot_near(x, y) && td_is_nil(g) == td_is_nil(h) &&
           (td_is_nil(g) || aot_near(g, h));
}

static bool same_members(const pair *p) {
    static const char *const names[] = {"in",        "out",       "norm.weight",
                                        "norm.bias", "norm.mean", "norm.var"};
    bool                     ok = true;
    for (int i = 0; i < 6; i++) {
        bool same = same_member(p->a, p->b, names[i]);
        if (!same) fprintf(stderr, "%s differs\n", names[i]);
        ok &= same;
    }
    return ok;
}

static bool step(pair *p, int rows, bool backward) {
    td_tensor *x = td_randn(p->cx, TD_SHAPE(rows, 3)), *out[2];
    td_value   want[2];
    td_module_call_values(p->a, TD_ARGS(x), want, 2);
    bool ok = td_invoke(p->f, TD_ARGS(x), out, 2);
    if (backward) {
        td_backward(want[1].u.t);
        td_backward(out[1]);
    }
    return ok && aot_near(want[0].u.t, out[0]) && aot_near(want[1].u.t, out[1]) &&
           same_members(p);
}

TEST(a_compiled_module_steps_as_the_module_does) {
    pair p = pair_make(NULL);

    CHECK(step(&p, 4, true) && step(&p, 4, true));
    CHECK(td_fn_specializations(p.f) == 1);
    CHECK(step(&p, 5, true));
    pair_drop(&p);
}

TEST(buffers_are_written_back_in_training_and_left_alone_in_evaluation) {
    pair p = pair_make(NULL);

    CHECK(step(&p, 4, false));
    td_module_train(p.a, false);
    td_module_train(p.b, false);
    CHECK(step(&p, 4, true) && td_fn_specializations(p.f) == 2);
    td_module_train(p.a, true);
    td_module_train(p.b, true);
    CHECK(step(&p, 4, true) && td_fn_specializations(p.f) == 2);
    pair_drop(&p);
}

TEST(the_mode_of_a_child_alone_counts_too) {
    pair p = pair_make(NULL);
    CHECK(step(&p, 4, true));

    td_module_train(td_module_find(p.a, "norm"), false);
    td_module_train(td_module_find(p.b, "norm"), false);

    CHECK(step(&p, 4, true) && td_fn_specializations(p.f) == 2);
    pair_drop(&p);
}

TEST(a_replaced_parameter_is_used_and_ties_are_looked_at) {
    pair       p = pair_make(NULL);
    td_tensor *w = td_randn(p.cx, TD_SHAPE(2));
    CHECK(step(&p, 4, true));

    td_module_set(p.a, "norm.weight", td_clone(w));
    td_module_set(p.b, "norm.weight", td_clone(w));
    ((norm *)td_module_state(td_module_find(p.a, "norm")))->weight =
        td_module_get(p.a, "norm.weight");
    CHECK(step(&p, 4, true) && td_fn_specializations(p.f) == 1);

    td_tensor *u = td_randn(p.cx, TD_SHAPE(3, 2));
    td_module_set(p.a, "out", td_clone(u));
    td_module_set(p.b, "out", td_clone(u)); /* untied: another form */
    CHECK(step(&p, 4, true) && td_fn_specializations(p.f) == 2);
    pair_drop(&p);
}

TEST(a_frozen_parameter_gets_no_gradient) {
    pair p = pair_make(NULL);
    CHECK(step(&p, 4, false));

    td_set_requires_grad(td_module_get(p.a, "in"), false);
    td_set_requires_grad(td_module_get(p.b, "in"), false);

    CHECK(step(&p, 4, true) && td_fn_specializations(p.f) == 2);
    CHECK(td_is_nil(td_grad_of(td_module_get(p.b, "in"))));
    pair_drop(&p);
}

TEST(changes_of_other_modules_compile_nothing) {
    pair       p = pair_make(NULL);
    td_module *other = tower_make(p.cx);
    CHECK(step(&p, 4, true));

    td_module_train(other, false);
    td_module_free(other);

    CHECK(step(&p, 4, true) && td_fn_specializations(p.f) == 1);
    pair_drop(&p);
}

TEST(forgetting_compiles_anew) {
    pair p = pair_make(NULL);
    CHECK(step(&p, 4, true) && td_fn_specializations(p.f) == 1);

    td_fn_forget(p.f);

    CHECK(td_fn_specializations(p.f) == 0);
    CHECK(step(&p, 4, true) && td_fn_specializations(p.f) == 1);
    pair_drop(&p);
}

/* Doubles its weight and its argument, and reads a view of the weight that is no
 * member. */
static bool closed(td_module *m, td_call *c) {
    td_tensor **at = td_module_state(m);
    td_mul_(td_arg(c, 0), 2.0);
    td_mul_(at[0], 2.0);
    return td_return(c, td_mul(td_arg(c, 0), at[1]));
}

TEST(a_view_of_a_buffer_that_is_no_member_is_closed_over) {
    static const td_module_type type = {.name = "Odd",
                                        .bytes = 2 * sizeof(td_tensor *),
                                        .forward = closed};
    td_ctx                     *cx = td_open();
    td_module                  *m = td_module_make(cx, &type);
    td_tensor                 **at = td_module_state(m), *y;
    at[0] = td_module_buffer(m, "w", td_ones(cx, TD_SHAPE(2, 2)), true);
    at[1] = td_select(at[0], 0, 0);
    td_fn *f = td_aot_module(m, NULL);

    CHECK(td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(2))), &y, 1));
    CHECK(td_item(td_sum(y)) == 8);
    CHECK(td_invoke(f, TD_ARGS(at[1]), &y, 1)); /* written twice: 2 * 2 * 2 */
    CHECK(td_item(td_sum(y)) == 128 && td_item(td_sum(at[0])) == 24);
    CHECK(td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(2))), &y, 1));
    CHECK(td_item(td_sum(y)) == 64 && td_fn_specializations(f) == 2);
    td_fn_drop(f);
    td_module_free(m);
    td_close(cx);
}

TEST(wrong_arguments_are_counted_without_the_members) {
    td_ctx    *cx = td_open(), *other = td_open();
    td_module *m = tower_make(cx);
    td_fn     *f = td_aot_module(m, NULL);
    td_tensor *y, *theirs = td_ones(other, TD_SHAPE(4, 3));

    CHECK(!td_invoke(f, TD_ARGS(theirs), &y, 1) && td_is_nil(y));
    CHECK(aot_says(cx, TD_E_ARG, "Tower: argument 0 belongs to another context"));
    CHECK(!td_invoke(f, (td_values){NULL, 0}, &y, 1));
    CHECK(aot_says(cx, TD_E_ARG, "there is no argument 0"));
    td_fn_drop(f);
    td_module_free(m);
    td_close(other);
    td_close(cx);
}

TEST(a_flat_module_that_has_changed_is_refused) {
    td_ctx    *cx = td_open();
    td_module *m = tower_make(cx);
    td_fn     *f = td_aot_module_flat(m, NULL);
    td_tensor *x = td_ones(cx, TD_SHAPE(4, 3)), *y;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));

    td_module_train(m, false);
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(aot_says(cx, TD_E_ARG, "changed after td_aot_module_flat"));
    td_module_train(m, true); /* as it was */
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    td_module_set(m, "norm.bias", td_ones(cx, TD_SHAPE(2)));
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1) && aot_says(cx, TD_E_ARG, "changed after"));
    td_fn_drop(f);
    td_module_free(m);
    td_close(cx);
}

/* ---- boxed -------------------------------------------------------------- */

enum { BIG = 1 << 16 }; /* elements */

static td_tensor *big(td_ctx *cx) {
    td_scope_begin(cx, "big");
    td_tensor *t = td_keep(td_ones(cx, TD_SHAPE(BIG)));
    td_scope_end(cx, "big", NULL);
    return t;
}

/* Sums along the way are calls of their own in native code, too: the rest would be one
 * loop, which reads all arguments last. */
static bool chain(td_call *c) {
    td_tensor *h = td_arg(c, 0);
    for (int i = 1; i < td_arg_count(c); i++) h = td_add(td_cumsum(h, 0), td_arg(c, i));
    return td_return(c, h);
}

static size_t peak_of(td_fn *f, td_ctx *cx, bool boxed) {
    td_tensor *args[6], *y;
    td_value   v[6];
    for (int i = 0; i < 6; i++) v[i] = td_value_tensor(args[i] = big(cx));
    td_memory_peak_reset();
    size_t before = td_memory_live();
    td_scope_begin(cx, "call");
    if (boxed) CHECK(td_invoke_boxed(f, args, 6, &y, 1));
    else CHECK(td_invoke(f, (td_values){v, 6}, &y, 1));
    CHECK(td_item(td_sum(y)) > 0);
    size_t peak = td_memory_peak() - before;
    td_scope_end(cx, "call", NULL);
    for (int i = 0; i < 6 && !boxed; i++) td_drop(args[i]);
    for (int i = 0; i < 6 && boxed; i++) CHECK(args[i] == NULL);
    return peak;
}

TEST(a_boxed_call_frees_each_argument_after_its_last_use) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, chain, NULL, NULL);
    size_t  bytes = BIG * sizeof(float), live = td_memory_live();
    peak_of(f, cx, false); /* compiles */

    size_t plain = peak_of(f, cx, false), boxed = peak_of(f, cx, true);

    CHECK(plain >= 2 * bytes && boxed + bytes <= plain);
    CHECK(td_memory_live() <= live);
    td_fn_drop(f);
    CHECK_OK(cx);
    td_close(cx);
}

static bool keeps(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1), *z = td_arg(c, 2);
    td_add_(y, 1);
    return td_return(c, x, td_transpose(y, 0, 1), td_mul(z, z));
}

TEST(a_boxed_argument_lives_on_in_results_writes_and_histories) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, keeps, NULL, NULL);
    td_tensor *x = td_keep(td_ones(cx, TD_SHAPE(2))),
              *y = td_keep(td_ones(cx, TD_SHAPE(2, 3))),
              *z = td_keep(td_ones(cx, TD_SHAPE(2)));
    td_tensor *w = td_mul(td_set_requires_grad(td_ones(cx, TD_SHAPE(2)), true), 3.0);
    td_drop(z);
    td_tensor *args[3] = {x, y, td_keep(w)}, *out[3];

    CHECK(td_invoke_boxed(f, args, 3, out, 3));

    CHECK(out[0] == x && td_item(td_sum(out[1])) == 12);
    td_backward(td_sum(out[2]));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_boxed_call_that_fails_has_taken_its_arguments) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, chain, NULL, NULL);
    size_t  live = td_memory_live();
    td_scope_begin(cx, "failing");
    td_tensor *args[2] = {big(cx), td_keep(td_ones(cx, TD_SHAPE(3)))}, *y;
    td_scope_end(cx, "failing", NULL);

    CHECK(!td_invoke_boxed(f, args, 2, &y, 1) && td_is_nil(y));
    CHECK(!args[0] && !args[1] && td_memory_live() <= live);
    args[0] = big(cx);
    CHECK(!td_invoke_boxed(f, args, 1, &y, 1) && !args[0]); /* an error is set */
    CHECK(aot_says(cx, TD_E_SHAPE, "broadcast") && td_memory_live() <= live);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_module_takes_boxed_arguments) {
    td_ctx    *cx = td_open();
    td_module *m = tower_make(cx);
    td_fn     *f = td_aot_module_flat(m, NULL);
    td_tensor *args[1] = {td_keep(td_randn(cx, TD_SHAPE(4, 3)))}, *y;

    CHECK(td_invoke_boxed(f, args, 1, &y, 1) && td_size(y, 0) == 4);

    CHECK(!args[0]);
    td_backward(td_sum(y));
    CHECK(!td_is_nil(td_grad_of(td_module_get(m, "in"))));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_module_free(m);
    td_close(cx);
}
