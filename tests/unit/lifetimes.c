/* lifetimes.c -- objects that failed, were freed or never were: what the user sees of
 * them. That no public function crashes on one is programs/entries.c. */
#include "tandem/tandem.h"

#include "td_test.h"

#include <math.h>
#include <string.h>

static bool says(td_ctx *cx, td_code code, const char *text) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), text);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

/* ---- failed constructors ------------------------------------------------- */

static bool doubled(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), 2.0)); }

TEST(a_failed_constructor_leaves_one_error_for_one_check) {
    td_ctx    *cx = td_open();
    td_module *net =
        td_nn_sequential(cx, TD_MODULES(td_nn_linear(cx, 4, 0, NULL), td_nn_relu(cx)));
    td_fn     *f = td_aot_module(net, NULL);
    td_optim  *o = td_optim_module(net, td_sgd(0.1));
    td_tensor *y, *x = td_ones(cx, TD_SHAPE(2, 4));

    CHECK(td_is_nil(net) && net && td_is_nil(f) && f && td_is_nil(o) && o);
    td_invoke(f, TD_ARGS(x), &y, 1);
    td_backward(td_sum(td_module_call(net, TD_ARGS(y))));
    td_optim_step(o);
    td_optim_free(o);
    td_fn_drop(f);
    td_module_free(net);
    CHECK(says(cx, TD_E_ARG, "Linear: out is 0"));
    td_close(cx);
}

TEST(an_error_before_makes_what_follows_nil_and_stays) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_matmul(td_ones(cx, TD_SHAPE(2, 3)), td_ones(cx, TD_SHAPE(4, 5)));
    td_module *m = td_nn_linear(cx, 3, 4, NULL);
    td_fn     *f = td_aot_function(cx, doubled, NULL, NULL);
    td_tensor *y = td_module_call(m, TD_ARGS(x)), *out;

    CHECK(td_is_nil(m) && td_is_nil(y) && !td_invoke(f, TD_ARGS(x), &out, 1));
    CHECK(td_is_nil(out) && says(cx, TD_E_SHAPE, "matmul"));
    td_close(cx);
}

TEST(a_body_that_is_null_is_an_error) {
    td_ctx    *cx = td_open();
    td_tensor *y, *x = td_ones(cx, TD_SHAPE(2));
    td_fn     *f = td_aot_function(cx, NULL, NULL, NULL);
    CHECK(td_is_nil(f) && !td_invoke(f, TD_ARGS(x), &y, 1) && td_is_nil(y));
    CHECK(says(cx, TD_E_ARG, "td_aot_function: the body is NULL"));
    td_close(cx);
}

/* ---- failures without a tensor ------------------------------------------- */

TEST(what_fails_without_a_tensor_shows_in_the_context_of_the_thread) {
    td_ctx *cx = td_open();
    CHECK(td_is_nil(td_pow(2, 3)) && says(cx, TD_E_ARG, "pow: argument a must be"));
    CHECK(td_is_nil(td_op_cat((td_tensors){NULL, 0}, 0)));
    CHECK(says(cx, TD_E_ARG, "cat: argument tensors must be a list of at least one"));
    CHECK(td_is_nil(td_add((td_tensor *)NULL, 1.0)));
    CHECK(says(cx, TD_E_ARG, "add: argument a must be a tensor, got NULL"));
    CHECK(!td_backward(NULL));
    CHECK(says(cx, TD_E_ARG, "td_backward: root 0: the tensor is NULL"));
    CHECK(isnan(td_item(NULL)) && says(cx, TD_E_ARG, "td_item: the tensor is NULL"));
    CHECK(td_is_nil(td_module_call(NULL, (td_values){NULL, 0})));
    CHECK(says(cx, TD_E_ARG, "td_module_call: the module is NULL"));
    td_close(cx);
}

TEST(without_a_context_the_last_error_has_it) {
    td_ctx *cx = td_open();
    td_close(cx);
    td_clear(NULL);
    CHECK(!*td_last_error() && !td_ok(NULL));
    CHECK(td_is_nil(td_zeros((td_ctx *)NULL, TD_SHAPE(2))));
    CHECK(strstr(td_last_error(), "zeros: the context is NULL"));
    CHECK_STR(td_message(NULL), td_last_error());
    td_scope_begin(cx, "late");
    CHECK(strstr(td_last_error(), "td_scope_begin: this context was closed already"));
    td_clear(NULL);
    CHECK(!*td_last_error());
}

/* ---- the order of freeing ------------------------------------------------ */

TEST(a_context_may_close_first) {
    td_ctx    *cx = td_open();
    td_module *m = td_nn_linear(cx, 2, 2, NULL);
    td_optim  *o = td_optim_module(m, td_adam(0.1));
    td_fn *f = td_aot_module(m, NULL), *g = td_aot_function(cx, doubled, NULL, NULL);
    td_tensor *x = td_keep(td_ones(cx, TD_SHAPE(1, 2))), *y;
    td_tree   *t = td_tree_make(cx);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_tree_put(t, NULL, td_value_tensor(x)));
    td_close(cx);
    td_clear(NULL);
    td_optim_free(o);
    td_fn_drop(f);
    td_module_free(m);
    td_fn_drop(g);
    td_tree_drop(t);
    td_drop(x);
    CHECK(!*td_last_error());
    td_close(cx);
    CHECK(strstr(td_last_error(), "td_close: this context was closed already"));
    CHECK(!td_optim_step(o) &&
          strstr(td_last_error(), "freed when its context closed"));
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1) && td_is_nil(y));
    td_clear(NULL);
}

TEST(modules_are_freed_with_the_context_whatever_their_order) {
    td_ctx    *cx = td_open();
    td_module *list = td_nn_list(cx, (td_modules){NULL, 0});
    td_module *shared = td_nn_linear(cx, 2, 2, NULL);
    for (int i = 0; i < 3; i++) td_nn_append(list, shared);
    td_nn_append(list, td_nn_sequential(cx, TD_MODULES(td_nn_relu(cx), shared)));
    CHECK(td_ok(cx) && td_module_children(list) == 4);
    td_close(cx);
}

TEST(a_function_reports_that_its_module_was_freed) {
    td_ctx    *cx = td_open();
    td_module *m = td_nn_linear(cx, 2, 2, NULL);
    td_fn     *f = td_aot_module(m, NULL);
    td_tensor *y, *x = td_ones(cx, TD_SHAPE(1, 2));
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    td_module_free(m);
    for (int i = 0; i < 70; i++) m = td_nn_linear(cx, 2, 2, NULL); /* reuses memory */
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(says(cx, TD_E_ARG, "the module of this function was freed"));
    td_close(cx);
}

TEST(freeing_twice_is_an_error) {
    td_ctx    *cx = td_open();
    td_module *m = td_nn_linear(cx, 2, 2, NULL);
    td_fn     *f = td_aot_function(cx, doubled, NULL, NULL);
    td_tensor *x = td_ones(cx, TD_SHAPE(4));
    td_drop(x);
    td_drop(x);
    CHECK(says(cx, TD_E_ARG, "td_drop: this tensor (f32[4]) was freed by td_drop"));
    td_fn_drop(f);
    td_fn_drop(f);
    CHECK(says(cx, TD_E_ARG, "td_fn_drop: this compiled function was freed already"));
    td_module_free(m);
    td_module_free(m);
    CHECK(says(cx, TD_E_ARG, "td_module_free: this module was freed already"));
    td_close(cx);
}

TEST(a_function_of_a_graph_outlives_the_file_of_the_graph) {
    static const char text[] =
        "func @f(%x: f32[2]) {\n  %y = neg(%x)\n  return %y\n}\n";
    td_ctx    *cx = td_open();
    td_gfile  *file = td_graphs_parse(cx, text, sizeof text - 1, "f");
    td_fn     *f = td_aot_graph(td_graphs_at(file, 0), NULL);
    td_tensor *y, *x = td_ones(cx, TD_SHAPE(2));
    td_graphs_drop(file);
    CHECK(td_ok(cx) && td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(td_item(td_sum(y)) == -2);
    td_close(cx);
}

/* ---- freed tensors ------------------------------------------------------- */

TEST(a_tensor_of_a_scope_that_ended_is_recognized) {
    td_ctx    *cx = td_open();
    td_tensor *best = NULL;
    for (int i = 0; i < 3; i++) {
        td_scope_begin(cx, "step");
        td_tensor *y = td_full(cx, TD_SHAPE(4), 10.0 * i);
        if (i == 1) best = y; /* without td_keep */
        td_scope_end(cx, "step", NULL);
    }
    td_tensor *other = td_full(cx, TD_SHAPE(2, 2), 77.0);
    CHECK(td_is_nil(best) && td_ok(cx));
    CHECK(td_is_nil(td_add_(best, 1.0)));
    CHECK(strstr(td_message(cx), "lifetimes.c:"));
    CHECK(
        says(cx, TD_E_ARG,
             "add_: argument a: this tensor (f32[4]) was freed when the scope \"step\" "
             "ended at "));
    CHECK(td_numel(best) == 0 && says(cx, TD_E_ARG, "td_numel: this tensor"));
    CHECK(td_is_nil(td_cat(TD_LIST(other, best))) && says(cx, TD_E_ARG, "\"step\""));
    CHECK(td_item(td_sum(other)) == 4 * 77.0);
    td_close(cx);
}

TEST(a_freed_tensor_stays_recognized_while_others_are_made) {
    td_ctx *cx = td_open();
    td_scope_begin(cx, "early");
    td_tensor *x = td_ones(cx, TD_SHAPE(3));
    td_scope_end(cx, "early", NULL);
    for (int i = 0; i < 60; i++) td_ones(cx, TD_SHAPE(3));
    CHECK(td_is_nil(td_neg(x)) && says(cx, TD_E_ARG, "\"early\""));
    td_close(cx);
}

TEST(a_tensor_outlives_its_context_as_freed) {
    td_ctx    *cx = td_open(), *other = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(3)), *y = td_ones(other, TD_SHAPE(3));
    td_close(cx);
    CHECK(td_is_nil(td_add(y, x)) && says(other, TD_E_ARG, "when its context closed"));
    CHECK(td_is_nil(td_neg(x)) && says(other, TD_E_ARG, "when its context closed"));
    td_close(other);
}

static bool keeps(td_call *c) {
    td_tensor **slot = td_call_env(c);
    *slot = td_mul(td_arg(c, 0), 2.0);
    return td_return(c, *slot);
}

/* The result is nil in cx: so the error has to be there, too. */
TEST(a_freed_argument_is_an_error_of_the_context_of_another_argument) {
    td_ctx    *cx = td_open(), *other = td_open(), *third = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(3)), *freed[2];
    freed[0] = td_keep(td_ones(other, TD_SHAPE(3)));
    freed[1] = td_keep(td_ones(third, TD_SHAPE(3)));
    td_close(other);
    td_drop(freed[1]);
    td_drop(freed[1]);
    for (int i = 0; i < 2; i++) {
        const char *part = i ? "was freed by td_drop" : "td_share before td_close";
        CHECK(td_is_nil(td_add(x, freed[i])) && says(cx, TD_E_ARG, part));
        CHECK(td_is_nil(td_add(freed[i], x)) && says(cx, TD_E_ARG, part));
        CHECK(td_is_nil(td_matmul(x, freed[i])) && says(cx, TD_E_ARG, part));
        CHECK(td_is_nil(td_copy_(x, freed[i])) && says(cx, TD_E_ARG, part));
        CHECK(td_is_nil(td_cat(TD_LIST(x, freed[i]), 0)) && says(cx, TD_E_ARG, part));
        CHECK(td_is_nil(td_share(cx, freed[i])) && says(cx, TD_E_ARG, part));
        CHECK(!td_same_storage(x, freed[i]) && says(cx, TD_E_ARG, part));
        CHECK(!td_set_grad(x, freed[i]) && says(cx, TD_E_ARG, part));
        CHECK(td_ok(third));
    }
    td_close(third);
    td_close(cx);
}

TEST(a_tensor_that_escapes_a_captured_body_is_recognized) {
    td_ctx    *cx = td_open();
    td_tensor *out = NULL, *y;
    td_fn     *f =
        td_aot_function(cx, keeps, &out, &(td_aot_opts){TD_AOT_OPTS, .name = "keeper"});
    CHECK(td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(2))), &y, 1));
    CHECK(td_is_nil(td_add(out, 1.0)));
    CHECK(strstr(td_message(cx), "lifetimes.c:") != NULL);
    CHECK(strstr(td_message(cx), " in the body of keeper) belongs to a body") != NULL);
    CHECK(says(cx, TD_E_ARG, "this tensor (mul at "));
    td_close(cx);
}

static bool ends_its_scope(td_call *c) {
    td_scope_begin(td_call_ctx(c), "in");
    td_tensor *y = td_sin(td_arg(c, 0));
    td_scope_end(td_call_ctx(c), "in", NULL);
    return td_return(c, y);
}

TEST(a_tensor_freed_in_a_captured_body_is_reported_as_in_eager) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *y;
    td_value   eager;
    CHECK(td_call_body(cx, ends_its_scope, NULL, TD_ARGS(x), &eager, 1) < 0);
    CHECK(says(cx, TD_E_ARG, "was freed when the scope \"in\" ended at "));
    td_fn *f = td_aot_function(cx, ends_its_scope, NULL, NULL);
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(says(cx, TD_E_ARG, "was freed when the scope \"in\" ended at "));
    td_close(cx);
}

/* ---- gradients that are not there ---------------------------------------- */

TEST(a_gradient_that_does_not_exist_can_be_asked_for_and_not_used) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    CHECK(!td_has_grad(w) && td_is_nil(td_grad_of(w)) && td_ok(cx));
    td_grad_mode was = td_no_grad_begin(cx);
    CHECK(td_is_nil(td_sub_(w, td_mul(td_grad_of(w), 0.1))));
    td_no_grad_end(cx, was);
    CHECK(strstr(td_message(cx),
                 "mul: argument a: this is the result of td_grad_of at "));
    CHECK(says(cx, TD_E_GRAD, "for a tensor that has no gradient"));
    td_tensor *loss = td_sum(td_mul(w, w));
    CHECK(td_set_grad(w, td_grad_of(w)) && td_backward(loss));
    CHECK(td_has_grad(w) && !td_is_nil(td_mul(td_grad_of(w), 0.1)) && td_ok(cx));
    td_close(cx);
}

/* ---- options ------------------------------------------------------------- */

TEST(options_without_their_size_are_an_error) {
    td_ctx           *cx = td_open();
    td_nn_linear_opts linear = {.no_bias = true};
    td_backward_opts  back = {.retain_graph = true};
    td_aot_opts       aot = {.name = "x"};
    td_nn_linear_opts right = {TD_NN_LINEAR_OPTS, .no_bias = true};
    td_tensor        *w = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_tensor        *roots[] = {td_sum(w)};
    CHECK(td_is_nil(td_nn_linear(cx, 3, 4, &linear)));
    CHECK(says(cx, TD_E_ARG,
               "Linear: the options have size 0; begin them with their macro: "
               "{TD_NN_LINEAR_OPTS, .field = value}"));
    CHECK(!td_backward_with((td_tensors){roots, 1}, (td_tensors){NULL, 0}, &back));
    CHECK(says(cx, TD_E_ARG, "{TD_BACKWARD_OPTS, "));
    CHECK(td_is_nil(td_aot_function(cx, doubled, NULL, &aot)));
    CHECK(says(cx, TD_E_ARG, "{TD_AOT_OPTS, "));
    CHECK(td_module_parameters(td_nn_linear(cx, 3, 4, &right), NULL, 0) == 1);
    td_close(cx);
}

/* ---- tensors kept from a captured body ----------------------------------- */

static td_tensor *kept;

static bool keeping(td_call *c) {
    td_tensor *h = td_exp(td_arg(c, 0));
    if (!kept) kept = td_keep(h);
    return td_return(c, td_mul(h, 2.0));
}

static td_tensor *kept_as_gradient(void *env, td_tensor *g) {
    (void)g, (void)env;
    return kept;
}

static void use_as_tangent(td_fn *f, td_tensor *x, bool hooked) {
    td_tensor *y;
    td_requires_grad_(x);
    td_invoke(f, TD_ARGS(x), &y, 1);
    if (hooked) td_on_grad(y, kept_as_gradient, NULL);
    if (hooked) td_backward(td_sum(y));
    else td_backward_with(TD_LIST(y), TD_LIST(kept), NULL);
}

/* Use nr k of the kept tensor outside of the body; false: there are no more. */
static bool use_kept(td_ctx *cx, td_fn *f, td_tensor *x, int k) {
    td_tensor *y;
    switch (k) {
    case 0: return td_invoke(f, TD_ARGS(kept), &y, 1), true;
    case 1: return td_add_(x, kept), true;
    case 2: return td_add(x, kept), true;
    case 3: return td_set_grad(td_requires_grad_(x), kept), true;
    case 4: return use_as_tangent(f, x, false), true;
    case 5: return use_as_tangent(f, x, true), true;
    case 6: return td_share(cx, kept), true;
    case 7: return td_copy_(x, kept), true;
    case 8: return td_index(x, TD_LIST(td_to(kept, TD_I64))), true;
    case 9: return td_set_(x, kept, 0, td_sizes(x), td_strides(x)), true;
    case 10: return td_cat(TD_LIST(x, kept), 0), true;
    case 11: return td_backward(td_sum(td_requires_grad_(kept))), true;
    case 12: return td_view(kept, TD_SHAPE(3)), true;
    case 13: return td_optim_add(td_optim_make(cx), TD_LIST(kept), td_sgd(0.1)), true;
    case 14: return td_capture(cx, doubled, NULL, TD_ARGS(kept)), true;
    case 15: return td_export_joint(cx, doubled, NULL, TD_ARGS(kept), NULL), true;
    case 16: return td_stage_capture(cx, doubled, NULL, TD_ARGS(kept), NULL), true;
    case 17: return td_fn_facts(f, TD_ARGS(kept)), true;
    case 18: return td_format(kept, NULL, 0), true;
    }
    return false;
}

/* Its symbols belong to the trace, which has ended. */
TEST(a_tensor_kept_from_a_captured_body_has_no_symbolic_size) {
    td_ctx *cx = td_open();
    td_config_set(cx, "dynamic", "on");
    td_fn     *f = td_aot_function(cx, keeping, NULL, NULL);
    td_tensor *y, *x = td_ones(cx, TD_SHAPE(3));
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(td_size(kept, 0) == 0 && says(cx, TD_E_TRACE, "kept from a body"));
    CHECK(td_numel(kept) == 0 && says(cx, TD_E_TRACE, "kept from a body"));
    td_drop(kept);
    kept = NULL; /* for the next test in this process */
    td_fn_drop(f);
    td_close(cx);
}

static void count_warning(void *env, const char *topic, const char *text) {
    if (!strcmp(topic, "warning") && strstr(text, "the result of exp at ") &&
        strstr(text, "lifetimes.c:") &&
        strstr(text, " in the body of keeper was kept (td_keep) beyond the capture"))
        ++*(int *)env;
}

/* Inside of a nested body a tensor may be kept for the body around it. */
TEST(a_kept_tensor_is_found_when_the_capture_ends_and_named_when_it_is_used) {
    td_ctx *cx = td_open();
    int     warnings = 0;
    td_log_to(cx, count_warning, &warnings);
    td_fn     *f = td_aot_function(cx, keeping, NULL,
                                   &(td_aot_opts){TD_AOT_OPTS, .name = "keeper"});
    td_tensor *y, *x = td_ones(cx, TD_SHAPE(3));
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && warnings == 1);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && warnings == 1);
    CHECK(td_is_nil(td_neg(kept)));
    CHECK(strstr(td_message(cx), "lifetimes.c:") != NULL);
    CHECK(strstr(td_message(cx), " in the body of keeper) was kept from a body") !=
          NULL);
    CHECK(says(cx, TD_E_TRACE, "neg: argument a: this tensor (exp at "));
    td_drop(kept);
    CHECK(td_is_nil(td_neg(kept)) && says(cx, TD_E_ARG, "freed by td_drop"));
    kept = NULL;
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_tensor_kept_from_a_captured_body_is_refused_everywhere) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, keeping, NULL, NULL);
    td_tensor *y, *x = td_ones(cx, TD_SHAPE(3));
    td_invoke(f, TD_ARGS(x), &y, 1);
    for (int k = 0; use_kept(cx, f, td_ones(cx, TD_SHAPE(3)), k); k++)
        CHECK(says(cx, TD_E_TRACE, "kept from a body"));
    td_drop(kept);
    kept = NULL; /* for the next test in this process */
    td_fn_drop(f);
    td_close(cx);
}
