/* trace.c -- a program does what its body does. Each test names one kind of body. */
#include "trace_help.h"

/* ---- plain values ------------------------------------------------------- */

static bool arithmetic(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1);
    return td_return(c, td_add(td_mul(x, y), 2.0), td_tanh(x));
}
TEST(arithmetic_is_replayed) { check_body(arithmetic, two); }

static bool network(td_call *c) {
    td_tensor *h = td_relu(td_matmul(td_arg(c, 0), td_transpose(td_arg(c, 1), 0, 1)));
    return td_return(c, td_log_softmax(h, 1), td_mean(h));
}
TEST(products_and_reductions_are_replayed) { check_body(network, two); }

static bool many_results(td_call *c) {
    td_tensor *v, *i;
    v = td_max_dim(td_arg(c, 0), 1, false, &i);
    return td_return(c, v, i);
}
TEST(ops_with_several_results_are_replayed) { check_body(many_results, two); }

static bool creates(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *z = td_zeros(cx, TD_SHAPE(3, 4));
    td_add_(z, td_arg(c, 0));
    return td_return(c, z, td_ones_like(z), td_arange(cx, 0, 5, 1));
}
TEST(tensors_made_inside_are_made_anew) { check_body(creates, two); }

static bool literal(td_call *c) {
    td_tensor *k = td_tensor1(td_call_ctx(c), 1, 2, 3, 4);
    td_add_(k, 1);
    return td_return(c, td_mul(td_arg(c, 0), k), k);
}
TEST(literal_tensors_are_new_in_each_run) {
    td_ctx *cx = td_open();
    check_body(literal, two);
    td_tensor  *x = td_ones(cx, TD_SHAPE(3, 4));
    td_value    out[2];
    td_program *p = td_capture(cx, literal, NULL, TD_ARGS(x, x));
    for (int i = 0; i < 2; i++) CHECK(td_program_run(p, TD_ARGS(x, x), out, 2));
    CHECK_NEAR(td_item(td_select(out[1].u.t, 0, 0)), 2, 0);
    td_program_drop(p);
    td_close(cx);
}

static bool empty_ones(td_call *c) {
    td_tensor *e = td_slice(td_arg(c, 0), 0, 0, 0);
    return td_return(c, td_sum(e), td_cat(TD_LIST(e, td_arg(c, 1))), e);
}
TEST(tensors_without_elements_are_replayed) { check_body(empty_ones, two); }

static bool casts(td_call *c) {
    td_tensor *h = td_to(td_arg(c, 0), TD_F16);
    return td_return(c, h, td_gt(h, 0), td_add(h, td_to(td_arg(c, 1), TD_I32)));
}
TEST(dtypes_are_replayed) { check_body(casts, two); }

/* ---- views -------------------------------------------------------------- */

static bool views(td_call *c) {
    td_tensor *x = td_arg(c, 0), *t = td_transpose(x, 0, 1);
    return td_return(c, t, td_select(t, 0, 1),
                     td_expand(td_unsqueeze(x, 0), TD_SHAPE(2, 3, 4)), td_detach(t));
}
TEST(views_of_arguments_are_views_of_arguments) { check_body(views, two); }

static bool views_of_results(td_call *c) {
    td_tensor *y = td_mul(td_arg(c, 0), 2), *t = td_transpose(y, 0, 1);
    return td_return(c, y, t, td_select(t, 0, 0));
}
TEST(results_that_share_storage_still_share_it) { check_body(views_of_results, two); }

static bool parts(td_call *c) {
    td_tensor *p[4];
    td_unbind(td_arg(c, 0), 0, p, 4);
    return td_return(c, p[2], p[0], td_add(p[0], p[1]));
}
TEST(views_with_several_results_are_replayed) { check_body(parts, two); }

static bool lists(td_call *c) {
    td_tensor *p[4];
    td_split(td_arg(c, 0), 2, 1, p, 4);
    return td_return(c, td_cat(TD_LIST(p[1], p[0], td_arg(c, 1)), 1),
                     td_stack(TD_LIST(p[0], p[1])));
}
TEST(lists_of_tensors_are_replayed) { check_body(lists, two); }

static bool strided(td_call *c) {
    td_tensor *x = td_contiguous(td_arg(c, 0));
    td_tensor *d = td_diagonal(td_arg(c, 1));
    return td_return(c, td_as_strided(x, TD_SHAPE(2, 2), TD_SHAPE(4, 1), 1), d, x);
}
TEST(a_call_that_returns_its_argument_returns_it_in_the_program) {
    check_body(strided, two);
}

/* ---- writes ------------------------------------------------------------- */

static bool writes(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_mul_(x, 2);
    td_add_(x, td_arg(c, 1));
    return td_return(c, td_mul(x, 3));
}
TEST(writes_to_arguments_happen_to_the_arguments) { check_body(writes, two); }

static bool writes_views(td_call *c) {
    td_tensor *x = td_arg(c, 0), *v = td_select(td_transpose(x, 0, 1), 0, 1);
    td_mul_(v, 3);
    td_add_(td_narrow(v, 0, 1, 2), 1);
    return td_return(c, td_mul(x, 2), v);
}
TEST(writes_through_views_reach_the_base) { check_body(writes_views, two); }

static bool writes_inner(td_call *c) {
    td_tensor *y = td_mul(td_arg(c, 0), 2), *d = td_diagonal(y);
    td_copy_(d, td_mul(td_select(td_arg(c, 1), 1, 0), 5));
    td_fill_(td_select(y, 0, 0), 9);
    return td_return(c, y, d);
}
TEST(writes_into_intermediates_are_replayed) { check_body(writes_inner, two); }

static bool writes_geometry(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_mul(td_arg(c, 1), 2);
    td_t_(y);
    td_unsqueeze_(y, 0);
    return td_return(c, y, td_add(td_transpose(x, 0, 1), td_squeeze(y)));
}
TEST(writes_of_geometry_are_replayed) { check_body(writes_geometry, two); }

static bool writes_arg_geometry(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_transpose_(x, 0, 1);
    return td_return(c, td_mul(x, 2), x);
}
TEST(the_geometry_of_an_argument_may_be_written) {
    check_body(writes_arg_geometry, two);
}

static bool writes_under_detach(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_mul_(td_detach(x), 2);
    return td_return(c, td_add(x, 3));
}
TEST(writes_through_a_detached_alias_change_the_value_only) {
    check_body(writes_under_detach, two);
}

static bool moves_storage(td_call *c) {
    td_tensor *y = td_mul(td_arg(c, 0), 2), *z = td_mul(td_arg(c, 1), 3);
    td_set_(td_detach(y), td_detach(z));
    td_tensor *e = td_empty(td_call_ctx(c), TD_SHAPE(0));
    td_set_(e, td_detach(z));
    return td_return(c, y, e, z);
}
TEST(set_moves_a_tensor_to_other_bytes) { check_body(moves_storage, two); }

/* ---- arguments that are related ----------------------------------------- */

static void same_twice(td_ctx *cx, world *w, nature n) {
    td_tensor *x = drawn(cx, w, n, TD_SHAPE(3, 4));
    GIVE(w, x);
    GIVE(w, x);
}
TEST(one_tensor_given_twice_is_one_tensor) { check_body(writes, same_twice); }

static void overlapping(td_ctx *cx, world *w, nature n) {
    td_tensor *x = drawn(cx, w, n, TD_SHAPE(4, 4));
    GIVE(w, td_narrow(x, 0, 0, 3));
    GIVE(w, td_narrow(x, 0, 1, 3));
}
static bool writes_shared(td_call *c) {
    td_mul_(td_arg(c, 0), 2);
    return td_return(c, td_add(td_arg(c, 1), 1), td_arg(c, 1));
}
TEST(arguments_that_overlap_see_each_others_writes) {
    check_body(writes_shared, overlapping);
}

static void view_and_base(td_ctx *cx, world *w, nature n) {
    td_tensor *x = drawn(cx, w, n, TD_SHAPE(3, 4));
    GIVE(w, x);
    GIVE(w, td_transpose(x, 0, 1));
}
static bool writes_base(td_call *c) {
    td_mul_(td_arg(c, 0), 2);
    return td_return(c, td_mul(td_arg(c, 1), 2), td_select(td_arg(c, 1), 0, 0));
}
TEST(a_base_and_its_view_stay_base_and_view) { check_body(writes_base, view_and_base); }

static void under_no_grad(td_ctx *cx, world *w, nature n) {
    td_tensor   *x = drawn(cx, w, n, TD_SHAPE(3, 4));
    td_grad_mode was = td_no_grad_begin(cx);
    GIVE(w, td_transpose(x, 0, 1));
    td_no_grad_end(cx, was);
    GIVE(w, td_detach(x));
}
TEST(views_made_without_gradients_are_refused_the_same_writes) {
    check_body(writes_base, under_no_grad);
}

static void several_views(td_ctx *cx, world *w, nature n) {
    td_tensor *p[2];
    td_split(drawn(cx, w, n, TD_SHAPE(6, 4)), 3, 0, p, 2);
    GIVE(w, p[0]);
    GIVE(w, p[1]);
}
TEST(views_of_one_split_are_refused_the_same_writes) {
    check_body(writes, several_views);
}

/* ---- what comes back ---------------------------------------------------- */

static bool returns_inputs(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_mul(x, 2);
    return td_return(c, x, y, y, td_arg(c, 1), x);
}
TEST(an_argument_or_one_tensor_twice_may_be_returned) {
    check_body(returns_inputs, two);
}

static bool returns_numbers(td_call *c) {
    return td_return(c, 3, TD_NONE, 0.5, true, td_arg(c, 0));
}
TEST(numbers_and_absent_values_may_be_returned) { check_body(returns_numbers, two); }

static bool returns_nothing(td_call *c) {
    td_mul_(td_detach(td_arg(c, 0)), 2);
    return true;
}
static bool returns_none(td_call *c) { return td_return(c); }
TEST(a_body_may_return_nothing) {
    check_body(returns_nothing, two);
    check_body(returns_none, two);
}

static void with_numbers(td_ctx *cx, world *w, nature n) {
    GIVE(w, drawn(cx, w, n, TD_SHAPE(3)));
    GIVE(w, TD_NONE);
    GIVE(w, 3);
    GIVE(w, 0.25);
}
static bool takes_numbers(td_call *c) {
    CHECK(td_arg(c, 1) == NULL && td_arg_absent(c, 1) && td_arg_count(c) == 4);
    td_tensor *y = td_mul(td_arg(c, 0), td_arg_number(c, 3));
    return td_return(c, td_add(y, (double)td_arg_int(c, 2)), td_arg_int(c, 2));
}
TEST(numbers_and_absent_arguments_pass_through) {
    check_body(takes_numbers, with_numbers);
}

/* ---- grad modes --------------------------------------------------------- */

static bool regions(td_call *c) {
    td_ctx      *cx = td_call_ctx(c);
    td_tensor   *x = td_arg(c, 0), *a = td_mul(x, 2);
    td_grad_mode was = td_no_grad_begin(cx);
    td_tensor   *b = td_mul(x, 3);
    td_grad_mode in = td_enable_grad_begin(cx);
    td_tensor   *d = td_mul(x, 4);
    td_enable_grad_end(cx, in);
    td_mul_(x, 5);
    td_no_grad_end(cx, was);
    return td_return(c, a, b, d, td_add(td_mul(x, 2), b));
}
TEST(regions_without_gradients_are_replayed) { check_body(regions, two); }

static bool inference(td_call *c) {
    td_ctx      *cx = td_call_ctx(c);
    td_grad_mode was = td_inference_begin(cx, true);
    td_tensor   *a = td_mul(td_arg(c, 0), 2);
    td_grad_mode out = td_inference_begin(cx, false);
    td_tensor   *b = td_mul(td_arg(c, 0), 4);
    td_inference_end(cx, out);
    td_inference_end(cx, was);
    return td_return(c, a, td_mul(td_arg(c, 1), 3), b);
}
TEST(inference_mode_is_replayed) { check_body(inference, two); }

static bool leaves_no_grad(td_call *c) {
    td_tensor *y = td_mul(td_arg(c, 0), 2);
    td_set_grad_enabled(td_call_ctx(c), false);
    return td_return(c, y, td_mul(td_arg(c, 0), 3));
}
TEST(a_grad_mode_that_a_body_leaves_is_set_by_the_program) {
    check_body(leaves_no_grad, two);
}

static bool leaves_at_the_end(td_call *c) {
    td_tensor *y = td_mul(td_arg(c, 0), 2);
    td_inference_begin(td_call_ctx(c), true);
    return td_return(c, y);
}
TEST(a_grad_mode_changed_after_the_last_op_counts_too) {
    check_body(leaves_at_the_end, two);
}

/* ---- random numbers ----------------------------------------------------- */

static bool draws(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *x = td_arg(c, 0);
    td_tensor *n = td_randn(cx, TD_SHAPE(3, 4)), *d = td_dropout(x, 0.5, true);
    td_uniform_(td_detach(td_arg(c, 1)), 0, 1);
    return td_return(c, td_add(n, x), d, td_bernoulli(td_sigmoid(n)), td_rand_like(n));
}
TEST(random_ops_draw_what_eager_draws) { check_body(draws, two); }

/* ---- composites --------------------------------------------------------- */

static void for_loss(td_ctx *cx, world *w, nature n) {
    GIVE(w, drawn(cx, w, n, TD_SHAPE(5, 4)));
    GIVE(w, td_randint(cx, 0, 4, TD_SHAPE(5)));
}
static bool loss(td_call *c) {
    return td_return(c, td_cross_entropy(td_arg(c, 0), td_arg(c, 1)));
}
TEST(cross_entropy_is_replayed) { check_body(loss, for_loss); }

static void for_norm(td_ctx *cx, world *w, nature n) {
    GIVE(w, drawn(cx, w, n, TD_SHAPE(5, 3, 4)));
    GIVE(w, drawn(cx, w, n, TD_SHAPE(3)));
    GIVE(w, drawn(cx, w, n, TD_SHAPE(3)));
    GIVE(w, td_zeros(cx, TD_SHAPE(3)));
    GIVE(w, td_ones(cx, TD_SHAPE(3)));
}
static bool norm(td_call *c) {
    return td_return(c, td_batch_norm(td_arg(c, 0), td_arg(c, 1), td_arg(c, 2),
                                      td_arg(c, 3), td_arg(c, 4), true, 0.1, 1e-5));
}
TEST(batch_norm_in_training_writes_its_statistics) { check_body(norm, for_norm); }

static bool attention(td_call *c) {
    td_tensor *q = td_reshape(td_arg(c, 0), TD_SHAPE(1, 1, 3, 4));
    td_tensor *k = td_reshape(td_arg(c, 1), TD_SHAPE(1, 1, 3, 4));
    td_tensor *y = td_scaled_dot_product_attention(q, k, k, NULL, 0.0, true);
    return td_return(c, td_layer_norm(y, TD_SHAPE(4)),
                     td_einsum("ij,kj->ik", TD_LIST(td_arg(c, 0), td_arg(c, 1))));
}
TEST(attention_and_einsum_are_replayed) { check_body(attention, two); }

TEST(composites_are_recorded_whole) {
    td_ctx *cx = td_open();
    char   *s = text_of_body(cx, loss,
                             TD_ARGS(td_ones(cx, TD_SHAPE(5, 4)),
                                     td_zeros(cx, TD_SHAPE(5), TD_I64)));
    CHECK(strstr(s, "cross_entropy(%x0, %x1)") && !strstr(s, "softmax"));
    free(s);
    td_close(cx);
}

/* ---- gradients inside --------------------------------------------------- */

static bool gradient(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *w = td_mul(td_detach(td_arg(c, 1)), 1), *g;
    td_requires_grad_(w);
    td_tensor *y = td_sum(td_tanh(td_mul(td_arg(c, 0), td_mul(w, w))));
    if (!td_grad(TD_LIST(y), TD_LIST(w), &g, NULL)) return false;
    (void)cx;
    return td_return(c, g, td_detach(y));
}
TEST(gradients_taken_inside_become_ops) { check_body(gradient, two); }

static bool penalty(td_call *c) {
    td_tensor   *x = td_requires_grad_(td_mul(td_detach(td_arg(c, 0)), 1)), *g;
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    td_tensor   *y = td_sum(td_mul(td_mul(x, td_arg(c, 1)), td_mul(x, x)));
    if (!td_grad(TD_LIST(y), TD_LIST(x), &g, &o)) return false;
    return td_return(c, td_sum(td_mul(g, g)), y);
}
TEST(gradients_with_a_history_become_ops_with_a_history) { check_body(penalty, two); }

static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)env, (void)n_in, (void)n_out;
    out[0] = td_tanh(td_mul(in[0], in[0]));
    return !td_is_nil(out[0]);
}
static bool checkpointed(td_call *c) {
    td_tensor *y;
    if (!td_checkpoint(td_call_ctx(c), region, NULL, TD_LIST(td_arg(c, 0)), &y, 1))
        return false;
    return td_return(c, y);
}
TEST(a_checkpointed_region_is_replayed) { check_body(checkpointed, two); }

static bool checkpointed_inside(td_call *c) {
    td_tensor *x = td_requires_grad_(td_mul(td_detach(td_arg(c, 0)), 1)), *y, *g;
    if (!td_checkpoint(td_call_ctx(c), region, NULL, TD_LIST(x), &y, 1)) return false;
    y = td_sum(y);
    if (!td_grad(TD_LIST(y), TD_LIST(x), &g, NULL)) return false;
    return td_return(c, g);
}
TEST(a_checkpoint_run_again_inside_is_recorded_twice) {
    check_body(checkpointed_inside, two);
}

/* ---- scopes ------------------------------------------------------------- */

static bool scoped(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *x = td_arg(c, 0);
    for (int i = 0; i < 3; i++) {
        td_scope_begin(cx, "layer");
        td_tensor *h = td_mul(x, 2);
        td_scope_begin(cx, "inner");
        h = td_tanh(h);
        td_scope_end(cx, "inner", h);
        x = td_scope_end(cx, "layer", td_add(x, h));
    }
    return td_return(c, x);
}
TEST(tensors_may_die_while_a_body_is_captured) { check_body(scoped, two); }

static bool scoped_return(td_call *c) {
    td_ctx *cx = td_call_ctx(c);
    td_scope_begin(cx, "all");
    bool ok = td_return(c, td_mul(td_arg(c, 0), 2));
    td_scope_end(cx, "all", NULL);
    return ok;
}
TEST(results_outlive_the_scope_they_were_returned_in) {
    check_body(scoped_return, two);
}

TEST(nodes_have_the_source_line_and_scope_of_their_call) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2));
    td_graph  *g = td__capture(cx, scoped, NULL, TD_ARGS(x));
    CHECK_OK(cx);
    CHECK_STR(g->nodes.v[0]->scope, "layer");
    CHECK_STR(g->nodes.v[1]->scope, "layer/inner");
    CHECK_STR(g->nodes.v[2]->scope, "layer");
    CHECK(strstr(g->nodes.v[0]->here.file, "trace.c") && g->nodes.v[0]->here.line > 0);
    CHECK(g->nodes.v[1]->here.line == g->nodes.v[0]->here.line + 2);
    td__graph_drop(g);
    td_close(cx);
}

/* ---- graphs ------------------------------------------------------------- */

TEST(a_program_prints_with_types_and_shared_storage) {
    td_ctx *cx = td_open();
    char   *s =
        text_of_body(cx, writes_views,
                     TD_ARGS(td_ones(cx, TD_SHAPE(3, 4)), td_ones(cx, TD_SHAPE(1))));
    CHECK(strstr(s, "func @f(%x0: f32[3,4]"));
    CHECK(strstr(s, "mul_("));
    free(s);
    td_close(cx);
}

TEST(the_program_of_a_program_is_the_same_program) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(3, 4)), *y = td_ones(cx, TD_SHAPE(3, 4));
    td_graph  *g = td__capture(cx, regions, NULL, TD_ARGS(x, y));
    td_value   in[2] = {TD_V(x), TD_V(y)};
    td_graph  *again = td__capture_graph(g, in);
    char       why[256];
    CHECK_OK(cx);
    TD_CHECK_THAT(td__graph_equal(g, again, why, sizeof why), "%s", why);
    td__graph_drop(g);
    td__graph_drop(again);
    td_close(cx);
}

static bool long_body(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    for (int i = 0; i < 100000; i++) {
        td_tensor *y = td_add(x, 1);
        td_drop(i ? x : NULL);
        x = y;
    }
    return td_return(c, x);
}
TEST(a_long_body_is_captured_in_proportion) {
    td_ctx   *cx = td_open();
    td_graph *g = td__capture(cx, long_body, NULL, TD_ARGS(td_ones(cx, TD_SHAPE(2))));
    CHECK_OK(cx);
    CHECK(g->nodes.n == 100000);
    td__graph_drop(g);
    td_close(cx);
}

/* ---- lists of arguments ------------------------------------------------- */

static bool counts_args(td_call *c) {
    return td_return(c, td_full(td_call_ctx(c), TD_SHAPE(2), (double)td_arg_count(c)));
}

TEST(a_list_of_arguments_may_be_empty) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *y;
    td_fn     *f = td_aot_function(cx, counts_args, NULL, NULL);
    CHECK(TD_ARGS().n == 0 && TD_ARGS(x).n == 1 && TD_ARGS((x)).n == 1);
    CHECK(TD_ARGS((td_tensor *)x).n == 1 && TD_ARGS(NULL).n == 1);
    CHECK(TD_ARGS((x), (x)).n == 2);
    CHECK(td_invoke(f, TD_ARGS(), &y, 1));
    CHECK(td_item(td_sum(y)) == 0 && td_ok(cx));
    td_close(cx);
}
