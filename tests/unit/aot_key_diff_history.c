/* aot_key_diff_history.c -- calls that differ in the autograd history or the storage of
 * their arguments: the log names the difference, and the call gives eager's result or
 * is unsupported. */
#include "aot_help.h"

/* The gradient of sum(x * x * w), taken inside. */
static bool slope(td_call *c) {
    td_tensor   *x = td_arg(c, 0), *g;
    td_grad_opts make = {TD_GRAD_OPTS, .create_graph = true};
    td_tensor   *y = td_sum(td_mul(td_mul(x, x), td_arg(c, 1)));
    return td_grad(TD_LIST(y), TD_LIST(x), &g, &make) && td_return(c, g);
}

/* Reads two elements beyond its argument. */
static bool reads_beyond(td_call *c) {
    td_tensor *wide = td_as_strided(td_arg(c, 0), TD_SHAPE(4), TD_SHAPE(1), 0);
    return td_return(c, td_mul(wide, td_arg(c, 1)));
}

/* Does f give eager's values for these arguments? `heard` is what the log says. */
static bool as_eager(td_fn *f, td_body *body, td_tensor *x, td_tensor *w) {
    td_ctx    *cx = td_ctx_of(x);
    td_value   v;
    td_tensor *got;
    heard[0] = 0;
    bool ok = td_invoke(f, TD_ARGS(x, w), &got, 1) &&
              td_call_body(cx, body, NULL, TD_ARGS(x, w), &v, 1) == 1 &&
              td_item(td_max(td_abs(td_sub(got, v.u.t)))) == 0;
    if (!ok) fprintf(stderr, "%s\n", td_message(cx));
    return ok;
}

static td_tensor *doubled(void *env, td_tensor *g) {
    (void)env;
    return td_mul(g, 2.0);
}

/* Is the call unsupported, with the words in its message? */
static bool refused(td_fn *f, td_tensor *x, td_tensor *w, const char *words) {
    td_ctx    *cx = td_ctx_of(x);
    td_tensor *got;
    heard[0] = 0;
    bool ok = !td_invoke(f, TD_ARGS(x, w), &got, 1) && strstr(td_message(cx), words);
    td_clear(cx);
    return ok;
}

TEST(a_hook_on_a_tensor_whose_gradient_the_body_computes_is_named) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_tensor *w = td_full(cx, TD_SHAPE(2), 3.0);
    td_fn     *f = td_aot_function(cx, slope, NULL, NULL);
    CHECK(as_eager(f, slope, x, w));
    td_hook hook = td_on_grad(x, doubled, NULL);
    CHECK(refused(f, x, w, "the gradient of a tensor with gradient hooks"));
    CHECK_STR(difference(),
              "a tensor whose gradient the body computes has gradient hooks");
    td_hook_remove(cx, hook);
    CHECK(as_eager(f, slope, x, w));
    CHECK_STR(difference(), "it fits");
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_history_through_a_tensor_whose_gradient_the_body_computes_is_named) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_tensor *v = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_tensor *other = td_mul(v, 3.0), *own = td_mul(x, 3.0);
    td_fn     *f = td_aot_function(cx, slope, NULL, NULL);
    CHECK(as_eager(f, slope, x, other));
    CHECK(refused(f, x, own, "was computed outside of the body"));
    CHECK_STR(difference(), "the history of one tensor passes now through another "
                            "whose gradient the body computes");
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_view_whose_base_has_another_storage_is_named) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *a = td_full(cx, TD_SHAPE(2), 2.0);
    td_tensor *b = td_full(cx, TD_SHAPE(2), 3.0);
    td_tensor *fresh = td_view(a, TD_SHAPE(2)), *moved = td_view(b, TD_SHAPE(2));
    td_set_(b, td_zeros(cx, TD_SHAPE(2)));
    td_fn *f = td_aot_function(cx, product, NULL, NULL);
    CHECK(as_eager(f, product, x, fresh));
    CHECK(as_eager(f, product, x, moved));
    CHECK_STR(difference(), "argument 1 is a view whose base has another storage now");
    static char text[1 << 14];
    td_explain(f, text, sizeof text);
    CHECK(strstr(text, "argument 1: f32[2], its base in another storage"));
    td_fn_drop(f);

    f = td_aot_function(cx, product, NULL, NULL);
    CHECK(as_eager(f, product, x, moved));
    CHECK(as_eager(f, product, x, fresh));
    CHECK_STR(difference(),
              "argument 1 is no longer a view whose base has another storage");
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* detach_ and requires_grad_ make the base a leaf again; the view keeps its grad_fn. */
TEST(a_view_whose_base_became_a_leaf_is_named) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *x = td_ones(cx, TD_SHAPE(2));
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_tensor *a = td_mul(w, 2.0), *b = td_mul(w, 3.0);
    td_tensor *fresh = td_view(a, TD_SHAPE(2)), *apart = td_view(b, TD_SHAPE(2));
    td_requires_grad_(td_detach_(b));
    td_fn *f = td_aot_function(cx, product, NULL, NULL);
    CHECK(as_eager(f, product, x, fresh));
    CHECK(as_eager(f, product, x, apart));
    CHECK_STR(difference(), "argument 1 is a view whose grad_fn is not its base's now");
    static char text[1 << 14];
    td_explain(f, text, sizeof text);
    CHECK(strstr(text, "a view, its grad_fn not its base's"));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(another_size_of_the_storage_after_an_argument_is_named) {
    td_ctx    *cx = open_hearing("guards");
    td_tensor *w = td_ones(cx, TD_SHAPE(4));
    td_tensor *a = td_slice(td_full(cx, TD_SHAPE(4), 2.0), 0, 0, 2);
    td_tensor *b = td_slice(td_full(cx, TD_SHAPE(6), 3.0), 0, 0, 2);
    td_fn     *f = td_aot_function(cx, reads_beyond, NULL, NULL);
    CHECK(as_eager(f, reads_beyond, a, w));
    CHECK(as_eager(f, reads_beyond, b, w));
    CHECK_STR(difference(), "the storage of argument 0 has another size after it");
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}
