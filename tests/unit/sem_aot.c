/* sem_aot.c -- rows of tests/README.md about compiled functions that a case in text
 * cannot say: how often something is compiled, which backend is asked, gradients taken
 * inside, places of backward nodes, memory. */
#include "aot_help.h"
#include "grad_help.h"

/* ---- what is compiled when ---------------------------------------------- */

typedef struct counts {
    int of[3];
} counts;

static bool count_compile(void *env, const td_graph *g, const td_compile_info *info,
                          td_runner *code) {
    ((counts *)env)->of[info->half]++;
    return td__interp.compile(NULL, g, info, code);
}

static bool cosine(td_call *c) { return td_return(c, td_cos(td_arg(c, 0))); }

/* test_aot_stage2_uses_explicit_inference_compiler */
TEST(a_call_without_gradients_uses_the_inference_backend_alone) {
    td_ctx     *cx = td_open();
    counts      n = {{0}}, inference = {{0}};
    td_backend  b = {.name = "train", .compile = count_compile, .env = &n};
    td_backend  i = {.name = "infer", .compile = count_compile, .env = &inference};
    td_aot_opts o = {TD_AOT_OPTS, .forward = &b, .backward = &b, .inference = &i};
    td_fn      *f = td_aot_function(cx, cosine, NULL, &o);
    td_tensor  *y;
    CHECK(td_invoke(f, TD_ARGS(td_tensor1(cx, 1, 2)), &y, 1));
    CHECK(inference.of[TD_INFERENCE] == 1);
    CHECK(n.of[TD_FORWARD] + n.of[TD_BACKWARD] + n.of[TD_INFERENCE] == 0);
    td_fn_drop(f);
    td_close(cx);
}

/* test_grad_context: what a call with gradients off compiles is no backward. */
TEST(gradients_off_and_on_are_two_specializations) {
    td_ctx     *cx = td_open();
    counts      n = {{0}};
    td_backend  b = {.name = "count", .compile = count_compile, .env = &n};
    td_aot_opts o = {TD_AOT_OPTS, .forward = &b, .backward = &b, .inference = &b};
    td_fn      *f = td_aot_function(cx, cosine, NULL, &o);
    td_tensor  *x = LEAF(cx, 1, 2), *y;

    td_grad_mode was = td_no_grad_begin(cx);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && !td_requires_grad(y));
    td_no_grad_end(cx, was);
    CHECK(n.of[TD_INFERENCE] == 1 && n.of[TD_FORWARD] == 0);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_requires_grad(y));
    CHECK(n.of[TD_FORWARD] == 1 && n.of[TD_BACKWARD] == 0);
    CHECK(td_backward(td_sum(y)) && n.of[TD_BACKWARD] == 1);
    CHECK(td_fn_specializations(f) == 2);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- guards ------------------------------------------------------------- */

static int specs_of(td_fn *f, td_tensor *x, td_tensor *y) {
    td_tensor *out;
    CHECK(td_invoke(f, TD_ARGS(x, y), &out, 1));
    return td_fn_specializations(f);
}

static bool write_first(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_add(td_mul_(x, 2.0), td_arg(c, 1)));
}

/* test_invalid_dupe, test_arg_dupe_via_dynamo_recompiles,
 * test_different_inputs_overlapping_set_with_mutation */
TEST(another_alias_pattern_is_another_specialization) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, write_first, NULL, NULL);
    td_tensor *a = td_tensor1(cx, 1, 2, 3), *b = td_tensor1(cx, 4, 5, 6);
    td_tensor *c = td_tensor1(cx, 1, 2, 3, 4);
    td_tensor *d = td_narrow(c, 0, 0, 3), *e = td_narrow(c, 0, 1, 3);
    CHECK(specs_of(f, a, b) == 1);
    CHECK(specs_of(f, b, a) == 1);
    CHECK(specs_of(f, a, a) == 2);
    CHECK(specs_of(f, d, e) == 3);
    CHECK(specs_of(f, e, d) == 4);
    CHECK(specs_of(f, a, b) == 4);
    CHECK_VALUES(c, 2, 8, 12, 8);
    td_fn_drop(f);
    td_close(cx);
}

/* test_invalid_requires_grad, test_requires_grad_fake_via_dynamo_recompiles */
TEST(another_requires_grad_is_another_specialization) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, product, NULL, NULL);
    td_tensor *x = LEAF(cx, 1, 2), *w = LEAF(cx, 3, 4), *y = td_tensor1(cx, 5, 6), *z;
    CHECK(specs_of(f, x, y) == 1);
    CHECK(specs_of(f, x, w) == 2);
    CHECK(specs_of(f, x, y) == 2);
    CHECK(td_invoke(f, TD_ARGS(x, w), &z, 1) && td_backward(td_sum(z)));
    CHECK_VALUES(td_grad_of(w), 1, 2);
    td_fn_drop(f);
    td_close(cx);
}

static bool write_all(td_call *c) {
    td_tensor *sum = td_arg(c, 0);
    for (int i = 0; i < td_arg_count(c); i++) td_add_(td_arg(c, i), 1.0);
    for (int i = 1; i < td_arg_count(c); i++) sum = td_add(sum, td_arg(c, i));
    return td_return(c, sum);
}

/* test_inputs_overlapping_with_mutation_stress: 101 inputs, one line each. */
TEST(a_hundred_overlapping_inputs_have_a_guard_each) {
    enum { MANY = 101 };
    static char text[1 << 16];
    td_ctx     *cx = td_open();
    td_value    v[MANY];
    td_tensor  *all = td_zeros(cx, TD_SHAPE(MANY)), *y;
    for (int i = 0; i < MANY; i++) v[i] = TD_V(td_narrow(all, 0, i, 1));
    td_fn *f = td_aot_function(cx, write_all, NULL, NULL);
    CHECK(td_invoke(f, (td_values){v, MANY}, &y, 1));
    CHECK_VALUES(y, MANY);
    CHECK(td_item(td_sum(all)) == MANY);
    td_explain(f, text, sizeof text);
    char *guards = strstr(text, "  guards\n");
    int   n = 0;
    for (char *at = guards; at && (at = strstr(at, "argument ")); at++) n++;
    CHECK(n >= MANY && n <= 2 * MANY);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- gradients taken inside --------------------------------------------- */

/* The gradient of sum(x^3) inside, with history: 3 x^2. */
static bool first_inside(td_call *c) {
    td_tensor   *x = td_arg(c, 0);
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    return td_return(c, grad1(td_sum(td_mul(td_mul(x, x), x)), x, &o));
}

static bool both_inside(td_call *c) {
    td_tensor   *x = td_arg(c, 0);
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    td_tensor   *g = grad1(td_sum(td_mul(td_mul(x, x), x)), x, &o);
    return td_return(c, grad1(td_sum(g), x, &o));
}

static void check_gradient(td_body *body, double y0, double dy0) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, body, NULL, NULL);
    td_tensor *x = LEAF(cx, 2, 1), *y;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(td_requires_grad(y) && td_item(td_select(y, 0, 0)) == y0);
    CHECK(td_backward(td_sum(y)));
    CHECK(td_item(td_select(td_grad_of(x), 0, 0)) == dy0);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* test_double_backward_with_compile, (1) and (2); (3) is a case. */
TEST(a_gradient_inside_is_differentiated_outside) {
    check_gradient(first_inside, 12, 12); /* 3 x^2, then 6 x */
}
TEST(two_gradients_inside_are_differentiated_outside) {
    check_gradient(both_inside, 12, 6); /* 6 x, then 6 */
}

static bool leaf_inside(td_call *c) {
    td_tensor *p = td_requires_grad_(td_ones(td_call_ctx(c), TD_SHAPE(1)));
    return td_return(c, p, td_add(td_sin(p), td_arg(c, 0)));
}

/* test_donated_buffer6 */
TEST(a_leaf_made_inside_takes_gradients_of_results_that_depend_on_it) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, leaf_inside, NULL, NULL);
    td_tensor *x = LEAF(cx, 1), *y[2];
    CHECK(td_invoke(f, TD_ARGS(x), y, 2));
    CHECK(td_is_leaf(y[0]) && td_requires_grad(y[0]));
    CHECK(td_backward(td_sum(td_mul(y[1], 3.0))));
    CHECK_NEAR(td_item(td_grad_of(x)), 3.0, 1e-6);
    CHECK_NEAR(td_item(td_grad_of(y[0])), 3.0 * cos(1.0), 1e-6);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

static bool normed(td_call *c) {
    return td_return(c, td_layer_norm(td_arg(c, 0), TD_DIMS(2)));
}

/* test_layer_norm_double_backward_dynamic_shapes */
TEST(second_gradients_through_a_norm_are_eagers) {
    double       got[2];
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    for (int compiled = 0; compiled < 2; compiled++) {
        td_ctx    *cx = td_open();
        td_fn     *f = td_aot_function(cx, normed, NULL, NULL);
        td_tensor *x = LEAF(cx, 1, 3), *w = td_tensor1(cx, 1, 2), *y;
        if (compiled) CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
        else y = td_layer_norm(x, TD_DIMS(2));
        td_tensor *g = grad1(td_sum(td_mul(td_mul(y, y), w)), x, &o);
        td_tensor *gg = grad1(td_sum(td_mul(g, td_mul(g, w))), x, NULL);
        got[compiled] = td_item(td_select(gg, 0, 1));
        CHECK_OK(cx);
        td_fn_drop(f);
        td_close(cx);
    }
    CHECK_NEAR(got[1], got[0], 1e-9);
}

/* ---- places ------------------------------------------------------------- */

static int line_of_tanh;

static bool two_lines(td_call *c) {
    td_tensor *h = td_matmul(td_arg(c, 0), td_arg(c, 1));
    line_of_tanh = __LINE__ + 1;
    td_tensor *y = td_tanh(h);
    return td_return(c, y);
}

/* test_aot_sequence_nr, test_aot_module_simplified_preserves_stack_trace */
TEST(backward_nodes_have_the_place_of_the_op_they_derive) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3)), *y;
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 2)));
    td_fn     *f = td_aot_function(cx, two_lines, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, w), &y, 1));
    const td_graph *g = f->specs->plan->j->g;
    int             seen = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        CHECK(n->here.file && strstr(n->here.file, "sem_aot.c"));
        seen += n->origin == TD_FROM_BACKWARD && n->op == TD_OP_tanh_backward &&
                n->here.line == line_of_tanh;
    }
    CHECK(seen == 1);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- hooks -------------------------------------------------------------- */

static td_tensor *doubling(void *env, td_tensor *g) {
    (void)env;
    td_mul_(g, 2.0);
    return NULL;
}

/* Beyond the rows: PyTorch refuses hooks that write. */
TEST(hooks_on_arguments_and_results_of_a_compiled_call_run) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, product, NULL, NULL);
    td_tensor *x = LEAF(cx, 1, 2), *w = LEAF(cx, 3, 4), *y;
    CHECK(td_invoke(f, TD_ARGS(x, w), &y, 1));
    td_retain_grad(y);
    td_on_grad(y, doubling, NULL);
    td_on_grad(x, doubling, NULL);
    CHECK(td_backward(td_sum(td_mul(y, td_tensor1(cx, 1, 1)))));
    CHECK_VALUES(td_grad_of(y), 2, 2);
    CHECK_VALUES(td_grad_of(x), 12, 16);
    CHECK_VALUES(td_grad_of(w), 2, 4);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- memory ------------------------------------------------------------- */

static bool second_part(td_call *c) {
    td_tensor *part[2];
    td_split(td_sin(td_arg(c, 0)), 2, 0, part, 2);
    return td_return(c, part[1], td_mul(part[1], part[1]));
}

/* test_mem_leak_from_save_for_bw */
TEST(saved_values_are_freed_with_the_results_of_a_call) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, second_part, NULL, NULL);
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(4, 64))), *y[2];
    size_t     before = 0;
    for (int i = 0; i < 4; i++) {
        td_scope_begin(cx, "call");
        CHECK(td_invoke(f, TD_ARGS(x), y, 2));
        td_scope_end(cx, "call", NULL);
        if (i == 0) before = td_memory_live();
    }
    CHECK(td_memory_live() == before);
    td_fn_drop(f);
    td_close(cx);
}
