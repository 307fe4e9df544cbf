/* checkpoint_capture.c -- checkpoint regions in captured bodies: nothing is computed
 * again there; nodes carry what the region asks for, through text and every replay. */
#include "trace_help.h"

#include "joint/joint.h"

#include <math.h>

static bool layer(void *env, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)env, (void)n_in, (void)n;
    out[0] = td_tanh(td_matmul(in[0], in[1]));
    return !td_is_nil(out[0]);
}

static td_policy save_products(void *env, const char *op) {
    (void)env;
    return !strcmp(op, "matmul") ? TD_MUST_SAVE : TD_MUST_RECOMPUTE;
}

static bool layers(td_call *c) {
    td_ctx            *cx = td_call_ctx(c);
    td_tensor         *x = td_arg(c, 0), *w = td_transpose(td_arg(c, 1), 0, 1), *h, *y;
    td_checkpoint_opts o = {TD_CHECKPOINT_OPTS, .region = layer,
                            .policy = save_products};
    return td_checkpoint(cx, layer, NULL, TD_LIST(x, w), &h, 1) &&
           td_checkpoint_with(cx, TD_LIST(h, td_exp(h)), &y, 1, &o) &&
           td_return(c, td_sin(y));
}
TEST(regions_are_captured_and_run) { check_body(layers, two); }

/* Results: sin of the first input, and its gradient by the second, which is NULL. */
static bool unrelated(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                      int n) {
    td_grad_opts unused = {TD_GRAD_OPTS, .allow_unused = true, .create_graph = true};
    (void)env, (void)n_in, (void)n;
    out[0] = td_sin(in[0]);
    if (!td_requires_grad(out[0]) || !td_requires_grad(in[1])) return td_ok(in[0]->cx);
    return td_grad(TD_LIST(td_sum(out[0])), TD_LIST(in[1]), &out[1], &unused);
}

static bool one_of_two(td_call *c) {
    td_tensor *out[2], *x = td_arg(c, 0), *w = td_arg(c, 1);
    return td_checkpoint(td_call_ctx(c), unrelated, NULL, TD_LIST(x, w), out, 2) &&
           !out[1] && td_return(c, td_mul(out[0], w));
}
TEST(a_region_may_leave_a_result_null) { check_body(one_of_two, two); }

static uint32_t tags_of(const td_graph *g, td_op op, int nth) {
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.v[i]->op == op && nth-- == 0) return g->nodes.v[i]->tags;
    CHECK(false);
    return 0;
}

static void check_tags(const td_graph *g, td_op product) {
    CHECK(tags_of(g, TD_OP_transpose, 0) == 0);
    CHECK(tags_of(g, product, 0) == TD_TAG(TD_PREFER_RECOMPUTE, 1));
    CHECK(tags_of(g, TD_OP_tanh, 0) == TD_TAG(TD_PREFER_RECOMPUTE, 1));
    CHECK(tags_of(g, TD_OP_exp, 0) == 0);
    CHECK(tags_of(g, product, 1) == TD_TAG(TD_MUST_SAVE, 2));
    CHECK(tags_of(g, TD_OP_tanh, 1) == TD_TAG(TD_MUST_RECOMPUTE, 2));
    CHECK(tags_of(g, TD_OP_sin, 0) == 0);
}

TEST(nodes_have_the_policy_of_their_region) {
    td_ctx   *cx = td_open();
    td_value  in[2] = {TD_V(td_ones(cx, TD_SHAPE(3, 3))),
                       TD_V(td_ones(cx, TD_SHAPE(3, 3)))};
    td_graph *g = td__capture(cx, layers, NULL, (td_values){in, 2});
    TD_CHECK_THAT(g != NULL, "%s", td_message(cx));
    check_tags(g, TD_OP_matmul);
    td_buf b = {0};
    CHECK(td__graph_print(&b, g, 0));
    CHECK(strstr(b.s, "tanh(%3) prefer_recompute 1\n") != NULL);
    CHECK(strstr(b.s, " must_save 2\n") != NULL);
    td_gfile *f = td__gfile_parse(cx, b.s, b.n, "text");
    TD_CHECK_THAT(!td_is_nil(f), "%s", td_message(cx));
    check_tags(f->graphs.v[0], TD_OP_matmul);
    td_graph *again = td__capture_graph(f->graphs.v[0], in);
    TD_CHECK_THAT(again != NULL, "%s", td_message(cx));
    check_tags(again, TD_OP_matmul);
    td_graph *twin = td__graph_clone(again);
    check_tags(twin, TD_OP_matmul);
    td__graph_drop(twin);
    td__graph_drop(again);
    td__gfile_drop(f);
    td_joint *pure = td__functional_form(g, in, NULL);
    TD_CHECK_THAT(pure != NULL, "%s", td_message(cx));
    check_tags(pure->g, TD_OP_mm);
    td__joint_drop(pure);
    td__graph_drop(g);
    td__buf_free(&b);
    td_close(cx);
}

static bool outer(void *env, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    td_tensor *h;
    (void)n_in;
    if (!td_checkpoint(env, layer, NULL, TD_LIST(in[0], in[1]), &h, 1)) return false;
    out[0] = td_exp(h);
    return n == 1;
}
static bool inside_each_other(td_call *c) {
    td_tensor *y;
    return td_checkpoint(td_call_ctx(c), outer, td_call_ctx(c),
                         TD_LIST(td_arg(c, 0), td_arg(c, 1)), &y, 1) &&
           td_return(c, y);
}
TEST(the_innermost_region_counts) {
    td_ctx   *cx = td_open();
    td_value  in[2] = {TD_V(td_ones(cx, TD_SHAPE(3, 3))),
                       TD_V(td_ones(cx, TD_SHAPE(3, 3)))};
    td_graph *g = td__capture(cx, inside_each_other, NULL, (td_values){in, 2});
    TD_CHECK_THAT(g != NULL, "%s", td_message(cx));
    CHECK(TD_TAG_REGION(tags_of(g, TD_OP_tanh, 0)) == 2);
    CHECK(TD_TAG_REGION(tags_of(g, TD_OP_exp, 0)) == 1);
    td__graph_drop(g);
    td_close(cx);
}

static bool dropping(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                     int n) {
    (void)env, (void)n_in, (void)n;
    out[0] = td_dropout(td_mul(in[0], in[0]), 0.5, true);
    return !td_is_nil(out[0]);
}
static bool drops(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y;
    return td_checkpoint(td_call_ctx(c), dropping, NULL, TD_LIST(x), &y, 1) &&
           td_return(c, y, td_dropout(x, 0.5, true));
}
TEST(a_region_may_draw) { check_body(drops, two); }

static bool detaching(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                      int n) {
    td_tensor *h = td_sin(in[0]);
    (void)env, (void)n_in, (void)n;
    out[0] = td_sin(h);
    return !td_is_nil(td_detach_(h));
}
static bool detaches(td_call *c) {
    td_tensor *y;
    return td_checkpoint(td_call_ctx(c), detaching, NULL, TD_LIST(td_arg(c, 0)), &y,
                         1) &&
           td_return(c, td_sum(y));
}

/* Eager recomputes the region up to the saved value, before it is detached. So the
 * gradient, and the gradient of that, pass the detached tensor. */
TEST(a_saved_argument_may_be_detached_in_a_captured_region) {
    td_ctx      *cx = td_open();
    td_fn       *f = td_aot_function(cx, detaches, NULL, NULL);
    td_tensor   *x = td_requires_grad_(td_full(cx, TD_SHAPE(1), 0.5)), *y, *g, *second;
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    double       s = sin(0.5), c = cos(0.5);
    TD_CHECK_THAT(td_invoke(f, TD_ARGS(x), &y, 1), "%s", td_message(cx));
    TD_CHECK_THAT(td_grad(TD_LIST(y), TD_LIST(x), &g, &o), "%s", td_message(cx));
    CHECK_NEAR(td_item(g), cos(s) * c, 1e-6);
    CHECK(td_grad(TD_LIST(g), TD_LIST(x), &second, NULL));
    CHECK_NEAR(td_item(second), -sin(s) * c * c - cos(s) * s, 1e-6);
    td_fn_drop(f);
    td_close(cx);
}

/* test_checkpoint_with_record_function: a scope is no op, and changes nothing. */
static bool scoped_layer(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                         int n) {
    td_ctx *cx = td_ctx_of(in[0]);
    td_scope_begin(cx, "inside the region");
    bool ok = layer(env, in, n_in, out, n);
    out[0] = td_scope_end(cx, "inside the region", out[0]);
    return ok;
}
static bool scoped(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *y;
    return td_checkpoint(td_call_ctx(c), scoped_layer, NULL, TD_LIST(x, w), &y, 1) &&
           td_return(c, td_sin(y));
}
TEST(a_region_may_have_scopes) { check_body(scoped, two); }

static bool stops(void *env, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)env, (void)in, (void)n_in, (void)out, (void)n;
    return false;
}
static bool stopping(td_call *c) {
    td_tensor *y;
    return td_checkpoint(td_call_ctx(c), stops, NULL, TD_LIST(td_arg(c, 0)), &y, 1) &&
           td_return(c, y);
}
TEST(a_region_that_fails_fails_the_capture) { check_body(stopping, two); }

/* ---- regions that may draw anew ------------------------------------------ */

static bool fresh_layers(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *y;
    td_ctx    *cx = td_call_ctx(c);
    return td_checkpoint_fresh(cx, layer, NULL, TD_LIST(x, w), &y, 1) &&
           td_return(c, td_sin(y));
}
TEST(without_random_numbers_a_fresh_region_is_one_like_others) {
    check_body(fresh_layers, two);
}

static bool inner_drops(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                        int n) {
    return td_checkpoint(td_ctx_of(in[0]), dropping, env, (td_tensors){in, n_in}, out,
                         n);
}
static bool fresh_drops(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y;
    td_region *fn = *(td_region **)td_call_env(c);
    return td_checkpoint_fresh(td_call_ctx(c), fn, NULL, TD_LIST(x), &y, 1) &&
           td_return(c, y);
}

/* Eager's backward would draw other numbers. */
TEST(numbers_that_would_be_drawn_anew_are_refused) {
    td_region *fns[] = {dropping, inner_drops};
    for (int i = 0; i < 2; i++) {
        td_ctx    *cx = td_open();
        td_tensor *x = td_ones(cx, TD_SHAPE(3, 3)), *y;
        td_fn     *f = td_aot_function(cx, fresh_drops, (void *)&fns[i], NULL);
        CHECK(td_invoke(f, TD_ARGS(x), &y, 1)); /* nothing is run again */
        td_requires_grad_(x);
        CHECK(!td_invoke(f, TD_ARGS(x), &y, 1) && td_error(cx) == TD_E_UNSUPPORTED);
        CHECK(strstr(td_message(cx),
                     "td_checkpoint_fresh: unsupported in a captured body"));
        td_fn_drop(f);
        td_close(cx);
    }
}
