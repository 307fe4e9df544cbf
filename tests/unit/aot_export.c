/* aot_export.c -- exported graphs: what their signatures say, that they compute what
 * the function does, and what cannot be exported. */
#include "export_help.h"

#include "td_files.h"

/* ---- modules ------------------------------------------------------------ */

TEST(a_module_exports_its_results_and_writes_its_buffers) {
    td_ctx    *cx = td_open();
    td_module *m = tower_make(cx);
    td_tensor *x = td_randn(cx, TD_SHAPE(4, 3));
    td_tensor *mean = td_module_get(m, "norm.mean"),
              *var = td_module_get(m, "norm.var");
    td_tensor   *mean_0 = td_clone(mean), *var_0 = td_clone(var);
    td_exported *e = td_export_module(m, TD_ARGS(x), NULL);
    td_value     in[ROOM], out[ROOM], want[2];
    CHECK_OK(cx);

    CHECK(td_exported_inputs(e) == 6 && td_exported_outputs(e) == 2);
    CHECK_STR(td_exported_input(e, 0).name, "in");
    CHECK(td_exported_input(e, 2).kind == TD_SLOT_PARAM);
    CHECK(td_exported_input(e, 3).kind == TD_SLOT_BUFFER);
    CHECK(td_exported_input(e, 5).kind == TD_SLOT_PLAIN);
    CHECK(td_exported_output(e, 1).index == 1 && td_exported_loss(e) == -1);
    CHECK(td_graph_outputs(td_exported_graph(e)) == 4); /* two updates */

    CHECK(run(e, m, TD_ARGS(x), in, out));
    td_tensor *mean_1 = td_clone(mean), *var_1 = td_clone(var);
    td_copy_(mean, mean_0);
    td_copy_(var, var_0);
    CHECK(td_module_call_values(m, TD_ARGS(x), want, 2) == 2);
    CHECK(aot_near(out[0].u.t, want[0].u.t) && aot_near(out[1].u.t, want[1].u.t));
    CHECK(aot_near(mean_1, mean) && aot_near(var_1, var) && !aot_near(mean, mean_0));
    CHECK(!td_requires_grad(out[0].u.t));
    CHECK_OK(cx);
    td_exported_drop(e);
    td_module_free(m);
    td_close(cx);
}

TEST(the_loss_is_a_result_and_gradients_have_names) {
    td_ctx        *cx = td_open();
    td_module     *m = tower_make(cx);
    td_tensor     *x = td_randn(cx, TD_SHAPE(4, 3));
    td_export_opts o = {TD_EXPORT_OPTS, .what = TD_EXPORT_LOSS, .loss = 1};
    td_exported   *e = td_export_module(m, TD_ARGS(x), &o);
    td_value       in[ROOM], out[ROOM], want[2];
    CHECK_OK(cx);

    CHECK(td_exported_inputs(e) == 6 && td_exported_outputs(e) == 5);
    CHECK(td_exported_loss(e) == 1);
    CHECK(td_exported_output(e, 1).kind == TD_SLOT_LOSS);
    CHECK_STR(td_exported_output(e, 2).name, "in");
    CHECK_STR(td_exported_output(e, 4).name, "norm.bias");

    CHECK(run(e, m, TD_ARGS(x), in, out));
    td_module_call_values(m, TD_ARGS(x), want, 2);
    td_backward(want[1].u.t);
    CHECK(aot_near(out[1].u.t, want[1].u.t));
    for (int i = 2; i < 5; i++)
        CHECK(aot_near(out[i].u.t,
                       td_grad_of(td_module_get(m, td_exported_output(e, i).name))));
    CHECK_OK(cx);
    td_exported_drop(e);
    td_module_free(m);
    td_close(cx);
}

TEST(an_export_survives_its_file) {
    td_ctx        *cx = td_open();
    td_module     *m = tower_make(cx);
    td_tensor     *x = td_randn(cx, TD_SHAPE(4, 3));
    td_export_opts o = {TD_EXPORT_OPTS, .what = TD_EXPORT_LOSS, .loss = 1};
    o.in_tree = "(*)";
    o.out_tree = "{loss: *, y: *}";
    td_exported *e = td_export_module(m, TD_ARGS(x), &o);
    static char  text[20000], again[20000];
    td_exported_text(e, text, sizeof text);
    td_value in[ROOM], out[ROOM], out2[ROOM];

    CHECK(td_exported_save(e, files_path("tower.td")));
    td_exported *l = td_exported_load(cx, files_path("tower.td"));

    CHECK_OK(cx);
    td_exported_text(l, again, sizeof again);
    CHECK_STR(again, text);
    CHECK_STR(td_exported_in_tree(l), "(*)");
    CHECK_STR(td_exported_out_tree(l), "{loss: *, y: *}");
    CHECK(td_exported_loss(l) == 1 && td_exported_inputs(l) == 6);
    CHECK(run(e, m, TD_ARGS(x), in, out) && run(l, m, TD_ARGS(x), in, out2));
    for (int i = 0; i < td_exported_outputs(l); i++) {
        td_slot a = td_exported_output(e, i), b = td_exported_output(l, i);
        CHECK(a.kind == b.kind && a.index == b.index);
        CHECK(aot_near(out[i].u.t, out2[i].u.t));
    }
    td_exported_drop(e);
    td_exported_drop(l);
    td_module_free(m);
    td_close(cx);
}

/* ---- functions ---------------------------------------------------------- */

TEST(a_function_exports_tangents_for_all_its_differentiable_results) {
    td_ctx      *cx = td_open();
    td_tensor   *x = td_set_requires_grad(td_randn(cx, TD_SHAPE(3)), true);
    td_tensor   *y = td_set_requires_grad(td_randn(cx, TD_SHAPE(3)), true);
    td_tensor   *t = td_randn(cx, TD_SHAPE(3)), *u = td_randn(cx, TD_SHAPE(3));
    td_exported *e = td_export_joint(cx, products, NULL, TD_ARGS(x, y), NULL);
    td_value     out[ROOM];
    CHECK_OK(cx);

    CHECK(td_exported_inputs(e) == 4 && td_exported_outputs(e) == 5);
    CHECK(td_exported_input(e, 3).kind == TD_SLOT_TANGENT);
    CHECK(td_exported_find_input(e, TD_SLOT_TANGENT, 1) == 3);
    CHECK(td_exported_find_output(e, TD_SLOT_GRAD, 1) == 4);
    CHECK(td_exported_run(e, TD_ARGS(x, y, t, u), out, 5));

    td_tensor *dy = td_add(td_mul(x, t), td_mul(y, u));
    CHECK(aot_near(out[3].u.t, td_mul(y, t)) && aot_near(out[4].u.t, dy));
    CHECK(out[2].kind == TD_K_INT && out[2].u.i == 3);
    CHECK_OK(cx);
    td_exported_drop(e);
    td_close(cx);
}

TEST(writes_and_geometry_are_done_and_views_become_values) {
    td_ctx        *cx = td_open();
    td_tensor     *x = td_randn(cx, TD_SHAPE(2, 3)), *y = td_randn(cx, TD_SHAPE(2, 2));
    td_tensor     *z = td_randn(cx, TD_SHAPE(2, 3));
    td_tensor     *x2 = td_clone(x), *y2 = td_clone(y), *z2 = td_clone(z);
    td_export_opts o = {TD_EXPORT_OPTS, .what = TD_EXPORT_FORWARD};
    td_exported   *e = td_export_joint(cx, moves, NULL, TD_ARGS(x, y, z), &o);
    td_value       out[ROOM], want[3];
    CHECK_OK(cx);

    CHECK(td_exported_outputs(e) == 3);
    CHECK(td_exported_run(e, TD_ARGS(x, y, z), out, 3));

    CHECK(td_call_body(cx, moves, NULL, TD_ARGS(x2, y2, z2), want, 3) == 3);
    for (int i = 0; i < 3; i++) CHECK(aot_near(out[i].u.t, want[i].u.t));
    CHECK(aot_near(x, x2) && aot_near(y, y2) && aot_near(z, z2));
    CHECK(td_size(x, 0) == 3 && td_size(z, 0) == 3);
    CHECK_OK(cx);
    td_exported_drop(e);
    td_close(cx);
}

static bool writes_both(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1);
    td_mul_(x, 2.0);
    return td_return(c, td_sum(td_add(x, y)));
}

/* x and y as they are, then again as they were before. */
static bool exports_as_it_runs(td_ctx *cx, td_tensor *x, td_tensor *y) {
    td_export_opts o = {TD_EXPORT_OPTS, .what = TD_EXPORT_FORWARD};
    td_exported   *e = td_export_joint(cx, writes_both, NULL, TD_ARGS(x, y), &o);
    td_tensor     *was = td_clone(x), *y_was = td_clone(y);
    td_value       out, want;
    bool           ok = e && td_exported_run(e, TD_ARGS(x, y), &out, 1);
    td_tensor     *x_now = td_clone(x), *y_now = td_clone(y);
    td_copy_(x, was);
    td_copy_(y, y_was);
    td_call_body(cx, writes_both, NULL, TD_ARGS(x, y), &want, 1);
    ok = ok && aot_near(out.u.t, want.u.t) && aot_near(x_now, x) && aot_near(y_now, y);
    td_exported_drop(e);
    return ok && td_ok(cx);
}

TEST(arguments_may_be_views_of_each_other_or_the_same) {
    td_ctx    *cx = td_open();
    td_tensor *b = td_randn(cx, TD_SHAPE(2, 3)), *x = td_randn(cx, TD_SHAPE(3));

    CHECK(exports_as_it_runs(cx, x, td_randn(cx, TD_SHAPE(3))));
    CHECK(exports_as_it_runs(cx, td_randn(cx, TD_SHAPE(2, 3)), x));
    CHECK(exports_as_it_runs(cx, b, td_select(b, 0, 1)));
    CHECK(exports_as_it_runs(cx, x, x));
    td_close(cx);
}

/* A write to what requires grad, with its history. */
TEST(inputs_that_require_grad_may_be_written) {
    td_ctx        *cx = td_open();
    td_tensor     *b = td_set_requires_grad(td_randn(cx, TD_SHAPE(3)), true);
    td_tensor     *x = td_mul(b, 1.0), *y = td_randn(cx, TD_SHAPE(3));
    td_export_opts o = {TD_EXPORT_OPTS, .what = TD_EXPORT_LOSS};
    td_exported   *e = td_export_joint(cx, writes_both, NULL, TD_ARGS(x, y), &o);
    td_value       out[ROOM];
    CHECK_OK(cx);

    CHECK(td_exported_run(e, TD_ARGS(x, y), out, 2));

    CHECK(td_exported_loss(e) == 0 && td_exported_output(e, 1).kind == TD_SLOT_GRAD);
    CHECK(aot_near(x, td_mul(b, 2.0)));
    CHECK(aot_near(out[1].u.t, td_full(cx, TD_SHAPE(3), 2.0)));
    td_exported_drop(e);
    td_close(cx);
}

static bool writes_turned(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_mul_(x, w);
    td_t_(x);
    td_mul_(x, w);
    return td_return(c);
}

/* One tangent comes in, for what the input is in the end. */
TEST(inputs_may_be_written_before_and_after_their_geometry) {
    td_ctx      *cx = td_open();
    td_tensor   *b = td_set_requires_grad(td_randn(cx, TD_SHAPE(2, 2)), true);
    td_tensor   *x = td_mul(b, 1.0), *w = td_randn(cx, TD_SHAPE(2, 2));
    td_tensor   *t = td_randn(cx, TD_SHAPE(2, 2)), *g;
    td_exported *e = td_export_joint(cx, writes_turned, NULL, TD_ARGS(x, w), NULL);
    td_value     out[ROOM];
    CHECK_OK(cx);

    CHECK(td_exported_inputs(e) == 3 && td_exported_outputs(e) == 1);
    CHECK(td_exported_input(e, 2).kind == TD_SLOT_UPDATE_TANGENT);
    td_tensor *y = td_detach(td_clone(x));
    CHECK(td_exported_run(e, TD_ARGS(y, w, t), out, 1));

    CHECK(td_call_body(cx, writes_turned, NULL, TD_ARGS(x, w), NULL, 0) == 0);
    td_grad_opts o = {TD_GRAD_OPTS, .grads = TD_LIST(t)};
    CHECK(td_grad(TD_LIST(x), TD_LIST(b), &g, &o));
    CHECK(aot_near(y, x) && aot_near(out[0].u.t, g));
    CHECK_OK(cx);
    td_exported_drop(e);
    td_close(cx);
}

static bool several(td_call *c) {
    td_tensor *h = td_mul(td_arg(c, 0), td_arg(c, 1));
    return td_return(c, h, td_sum(h));
}

TEST(with_a_loss_other_results_may_require_grad) {
    td_ctx        *cx = td_open();
    td_tensor     *w = td_set_requires_grad(td_randn(cx, TD_SHAPE(3)), true);
    td_tensor     *x = td_randn(cx, TD_SHAPE(3));
    td_export_opts o = {TD_EXPORT_OPTS, .what = TD_EXPORT_LOSS, .loss = 1};
    td_exported   *e = td_export_joint(cx, several, NULL, TD_ARGS(w, x), &o);
    td_value       out[ROOM];

    CHECK(td_exported_run(e, TD_ARGS(w, x), out, 3) && aot_near(out[2].u.t, x));
    td_exported_drop(e);
    o.loss = 0;
    CHECK(td_is_nil(td_export_joint(cx, several, NULL, TD_ARGS(w, x), &o)));
    CHECK(aot_says(cx, TD_E_GRAD, "has several elements"));
    o.loss = 7;
    CHECK(td_is_nil(td_export_joint(cx, several, NULL, TD_ARGS(w, x), &o)));
    CHECK(aot_says(cx, TD_E_ARG, "has 2 results, and no loss 7"));
    o.loss = 1;
    CHECK(td_is_nil(td_export_joint(cx, several, NULL, TD_ARGS(x, x), &o)));
    CHECK(aot_says(cx, TD_E_GRAD, "does not depend on anything that requires grad"));
    td_set_grad_enabled(cx, false);
    CHECK(td_is_nil(td_export_joint(cx, several, NULL, TD_ARGS(w, x), &o)));
    CHECK(aot_says(cx, TD_E_GRAD, "gradients are off"));
    td_close(cx);
}

static bool with_const(td_call *c) {
    td_tensor **k = td_call_env(c);
    if (k[1]) td_add_(k[0], 1);
    return td_return(c, td_mul(td_arg(c, 0), k[0]));
}

TEST(tensors_closed_over_are_literals_and_may_not_be_written) {
    td_ctx      *cx = td_open();
    td_tensor   *k[2] = {td_full(cx, TD_SHAPE(3), 2.5), NULL};
    td_tensor   *x = td_randn(cx, TD_SHAPE(3));
    td_exported *e = td_export_joint(cx, with_const, k, TD_ARGS(x), NULL), *l;
    static char  text[4000];
    size_t       n = td_exported_text(e, text, sizeof text);
    td_value     out;

    CHECK(td_exported_inputs(e) == 1 && strstr(text, "tensor([2.5, 2.5, 2.5]"));
    l = td_exported_parse(cx, text, n, NULL);
    CHECK(td_exported_run(l, TD_ARGS(x), &out, 1));
    CHECK(aot_near(out.u.t, td_mul(x, 2.5)));
    td_exported_drop(e);
    td_exported_drop(l);
    k[1] = x;
    CHECK(td_is_nil(td_export_joint(cx, with_const, k, TD_ARGS(x), NULL)));
    CHECK(aot_says(cx, TD_E_UNSUPPORTED, "make it a buffer"));
    td_close(cx);
}

static bool noisy(td_call *c) {
    return td_return(c, td_dropout(td_arg(c, 0), 0.5, true));
}

TEST(random_numbers_are_drawn_by_the_exported_graph) {
    td_ctx      *cx = td_open();
    td_tensor   *x = td_ones(cx, TD_SHAPE(64));
    td_exported *e = td_export_joint(cx, noisy, NULL, TD_ARGS(x), NULL);
    td_value     out, want;
    td_seed(cx, 5);
    CHECK(td_call_body(cx, noisy, NULL, TD_ARGS(x), &want, 1) == 1);

    td_seed(cx, 5);
    CHECK(td_exported_run(e, TD_ARGS(x), &out, 1));

    CHECK(aot_near(out.u.t, want.u.t));
    td_exported_drop(e);
    td_close(cx);
}

static bool sets(td_call *c) {
    td_set_(td_arg(c, 0), td_arg(c, 1));
    return td_return(c);
}

static bool leaves(td_call *c) {
    td_set_grad_enabled(td_call_ctx(c), false);
    return td_return(c, td_neg(td_arg(c, 0)));
}

/* The row has a history of its own, and the input another. */
static bool writes_row(td_call *c) {
    td_tensor *x = td_arg(c, 0), *row = td_select(x, 0, 0);
    td_mul_(row, td_arg(c, 1));
    td_t_(x);
    td_mul_(row, td_arg(c, 1));
    return td_return(c);
}

/* Runs the export of `body` and the body itself, each on two tensors like these. */
static bool does_the_same(td_ctx *cx, td_body *body, td_tensor **a, td_tensor **b) {
    td_export_opts o = {TD_EXPORT_OPTS, .what = TD_EXPORT_FORWARD};
    td_exported   *e = td_export_joint(cx, body, NULL, TD_ARGS(a[0], a[1]), &o);
    bool           ok = e && td_exported_run(e, TD_ARGS(a[0], a[1]), NULL, 0) &&
              td_call_body(cx, body, NULL, TD_ARGS(b[0], b[1]), NULL, 0) == 0;
    td_exported_drop(e);
    for (int i = 0; i < 2; i++)
        ok = ok && aot_near(a[i], b[i]) &&
             td_requires_grad(a[i]) == td_requires_grad(b[i]) &&
             td_version(a[i]) == td_version(b[i]);
    return ok && td_ok(cx);
}

static bool flags(td_call *c) {
    td_requires_grad_(td_arg(c, 0));
    return td_return(c);
}

TEST(storages_and_flags_change_as_in_the_function) {
    td_ctx    *cx = td_open();
    td_tensor *a[2] = {td_ones(cx, TD_SHAPE(2)), td_zeros(cx, TD_SHAPE(3))};
    td_tensor *b[2] = {td_ones(cx, TD_SHAPE(2)), td_zeros(cx, TD_SHAPE(3))};

    CHECK(does_the_same(cx, sets, a, b) && td_size(a[0], 0) == 3);
    td_add_(a[0], 1.0); /* it is the other's storage */
    CHECK(td_item(td_sum(a[1])) == 3);
    for (int i = 0; i < 2; i++) {
        a[i] = td_ones(cx, TD_SHAPE(2));
        b[i] = td_ones(cx, TD_SHAPE(2));
    }
    CHECK(does_the_same(cx, flags, a, b) && td_requires_grad(a[0]));
    td_close(cx);
}

TEST(what_a_graph_cannot_say_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *b = td_set_requires_grad(td_randn(cx, TD_SHAPE(2, 3)), true);
    td_tensor *v = td_mul(b, 1.0), *x = td_select(v, 0, 0), *y = td_select(v, 0, 1);

    CHECK(td_is_nil(
        td_export_joint(cx, leaves, NULL, TD_ARGS(td_ones(cx, TD_SHAPE(2))), NULL)));
    td_set_grad_enabled(cx, true);
    CHECK(aot_says(cx, TD_E_UNSUPPORTED, "leaves gradients switched"));
    CHECK(td_is_nil(td_export_joint(cx, writes_both, NULL, TD_ARGS(x, y), NULL)));
    CHECK(aot_says(cx, TD_E_UNSUPPORTED, "pass clones"));
    x = td_ones(cx, TD_SHAPE(3));
    CHECK(td_is_nil(td_export_joint(cx, writes_row, NULL, TD_ARGS(v, x), NULL)));
    CHECK(aot_says(cx, TD_E_UNSUPPORTED, "write to a clone"));
    td_close(cx);
}

TEST(wrong_trees_texts_files_and_inputs_are_refused) {
    static const char old[] = "func @f(%x: f32[2]) {\n  return %x\n}\n";
    static const char two[] =
        "# tandem export 2\nfunc @f(%x: f32[2]) {\n  return %x\n}\n"
        "func @g(%x: f32[2]) {\n  return %x\n}\n";
    static const char tree[] =
        "# tandem export 2\n# in: (*\nfunc @f(%x: f32[2]) {\n  return %x\n}\n";
    td_ctx        *cx = td_open(), *other = td_open();
    td_tensor     *x = td_ones(cx, TD_SHAPE(3));
    td_export_opts o = {TD_EXPORT_OPTS, .in_tree = "(*, *, *)"};
    td_value       out[4];

    CHECK(td_is_nil(td_export_joint(cx, products, NULL, TD_ARGS(x, x), &o)));
    CHECK(aot_says(cx, TD_E_ARG, "is no tree of 2 arguments"));
    CHECK(td_is_nil(td_exported_parse(cx, old, sizeof old - 1, "old.td")));
    CHECK(aot_says(cx, TD_E_IO, "old.td: no exported graph"));
    CHECK(td_is_nil(td_exported_parse(cx, two, sizeof two - 1, NULL)));
    CHECK(aot_says(cx, TD_E_ARG, "@g takes 1 inputs, but @f has 2"));
    CHECK(td_is_nil(td_exported_parse(cx, tree, sizeof tree - 1, NULL)) && !td_ok(cx));
    td_clear(cx);
    CHECK(td_is_nil(td_exported_load(cx, files_path("absent.td"))) && !td_ok(cx));
    td_clear(cx);
    td_exported *e = td_export_joint(cx, products, NULL, TD_ARGS(x, x), NULL);
    CHECK(!td_exported_run(e, TD_ARGS(x), out, 3) && td_is_nil(out[0].u.t));
    CHECK(aot_says(cx, TD_E_ARG,
                   "td_exported_run: @f takes 2 inputs, got 1; "
                   "parameters and buffers come first"));
    CHECK(!td_exported_run(e, TD_ARGS(x, td_ones(cx, TD_SHAPE(4))), out, 3));
    CHECK(
        aot_says(cx, TD_E_ARG, "input 1, %x1, is f32[4], but the graph takes f32[3]"));
    CHECK(!td_exported_run(e, TD_ARGS(x, td_ones(other, TD_SHAPE(3))), out, 3));
    CHECK(aot_says(cx, TD_E_ARG, "input 1"));
    CHECK(!td_exported_run(e, TD_ARGS(x, x), out, 2));
    CHECK(aot_says(cx, TD_E_ARG, "has 3 outputs"));
    td_exported_drop(e);
    td_close(other);
    td_close(cx);
}

/* ---- other inputs than those it was made of ------------------------------ */

TEST(inputs_that_share_bytes_otherwise_are_refused) {
    td_ctx        *cx = td_open();
    td_tensor     *b = td_randn(cx, TD_SHAPE(2, 3)), *x = td_randn(cx, TD_SHAPE(3));
    td_tensor     *first = td_select(b, 0, 0), *last = td_select(b, 0, 1);
    td_export_opts o = {TD_EXPORT_OPTS, .what = TD_EXPORT_FORWARD};
    td_exported   *e = td_export_joint(cx, writes_both, NULL, TD_ARGS(b, last), &o);
    td_value       out[ROOM];
    CHECK_OK(cx);

    CHECK(td_exported_run(e, TD_ARGS(b, last), out, 1));
    CHECK(!td_exported_run(e, TD_ARGS(b, x), out, 1));
    CHECK(aot_says(cx, TD_E_ARG, "%x0 and %x1 share storage in another way"));
    CHECK(!td_exported_run(e, TD_ARGS(b, first), out, 1));
    CHECK(aot_says(cx, TD_E_ARG, "share storage in another way"));
    td_exported_drop(e);
    e = td_export_joint(cx, writes_both, NULL, TD_ARGS(b, x), &o);
    CHECK(!td_exported_run(e, TD_ARGS(b, last), out, 1));
    CHECK(aot_says(cx, TD_E_ARG, "share storage in another way"));
    td_exported_drop(e);
    e = td_export_joint(cx, several, NULL, TD_ARGS(x, last), &o); /* writes nothing */
    CHECK(td_exported_run(e, TD_ARGS(x, x), out, 2));
    CHECK_OK(cx);
    td_exported_drop(e);
    td_close(cx);
}

/* A file whose epilogue states another type than its ops give would write one input and
 * fail at the next. */
TEST(types_of_an_epilogue_are_checked_when_it_is_loaded) {
    static const char *const texts[] = {
        "# tandem export 2\n"
        "func @f(%x: f32[4,4]) {\n  %1 = exp(%x) : f32[4,4]\n"
        "  return %1 <update 0>\n}\n"
        "func @f_epilogue(%x: f32[4,4], %f0: f32[4,4] <update 0>) {\n"
        "  resize_(%x, [6,2]) : f32[4,4]\n  _assign(%x, %f0, 1)\n  return\n}\n",
        "# tandem export 2\n"
        "func @f(%x: f32[4]) {\n  %1 = exp(%x) : f32[4]\n  return %1 <update 0>\n}\n"
        "func @f_epilogue(%x: f32[4], %f0: f32[2] <update 0>) {\n"
        "  _assign(%x, %f0, 1)\n  return\n}\n",
        "# tandem export 2\n"
        "func @f(%x: f32[4]) {\n  %1 = exp(%x) : f32[4]\n  return %1 <update 0>\n}\n"
        "func @f_epilogue(%x: f32[4], %f0: f32[4] <update 0>) {\n"
        "  resize_(%x, [2]) : f32[2]\n  _assign(%x, %f0, 1)\n  return\n}\n"};
    td_ctx *cx = td_open();
    for (int i = 0; i < (int)(sizeof texts / sizeof *texts); i++) {
        td_exported *e = td_exported_parse(cx, texts[i], strlen(texts[i]), "text");
        TD_CHECK_THAT(td_is_nil(e) && !td_ok(cx), "text %d is accepted", i);
        td_clear(cx);
    }
    td_close(cx);
}
