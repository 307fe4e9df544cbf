/* aot_types.c -- compiled functions of tensors of a type do what eager does: values,
 * inner tensors, writes, views, gradients of any order. */
#include "graph/graph.h"
#include "type_help.h"

/* ---- pairs -------------------------------------------------------------- */

static bool arithmetic(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    return td_return(c, td_add(td_mul(a, 6.0), td_div(b, 2.0)));
}

TEST(a_pair_is_argument_result_and_gradient_of_a_compiled_function) {
    td_ctx *cx = td_open();
    CHECK(agree(cx, arithmetic, pair_and_plain, 0));
    CHECK(agree(cx, arithmetic, pair_and_plain, 1));
    CHECK_OK(cx);
    td_close(cx);
}

TEST(gradients_of_gradients_of_pairs_agree_with_eager) {
    td_ctx *cx = td_open();
    CHECK(agree(cx, smooth, pair_and_plain, 1));
    CHECK(agree(cx, smooth, pair_and_plain, 2));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- writes and views --------------------------------------------------- */

static void two_pairs(td_ctx *cx, observed *s) {
    s->leaf[0] = td_requires_grad_(make_pair(noise(cx, 2, 3), noise(cx, 2, 3), ""));
    s->arg[0] = td_mul(s->leaf[0], 1.0); /* no leaf: it may be written */
    s->arg[1] = make_pair(noise(cx, 2, 3), noise(cx, 2, 3), "");
    s->n_arg = 2;
}

static bool writes_both(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    td_mul_(a, 2.0);
    td_mul_(b, 3.0);
    return td_return(c, td_mul(a, b), td_select(b, 0, 1));
}

TEST(arguments_of_a_type_are_written_and_viewed) {
    td_ctx *cx = td_open();
    CHECK(agree(cx, writes_both, two_pairs, 0));
    CHECK(agree(cx, writes_both, two_pairs, 2));
    CHECK_OK(cx);
    td_close(cx);
}

static bool writes_a_view(td_call *c) {
    td_tensor *a = td_arg(c, 0), *row = td_select(a, 0, 0);
    td_add_(row, 1.0);
    td_tensor *t = td_transpose(td_mul(a, a), 0, 1);
    td_mul_(td_select(t, 0, 2), 5.0);
    return td_return(c, t, td_mul(td_arg(c, 1), row));
}

TEST(writes_to_views_of_a_type_agree_with_eager) {
    td_ctx *cx = td_open();
    CHECK(agree(cx, writes_a_view, two_pairs, 0));
    CHECK(agree(cx, writes_a_view, two_pairs, 1));
    CHECK_OK(cx);
    td_close(cx);
}

/* test_collect_metadata_subclass_*: views of one intermediate that is not returned, and
 * results of a type behind a write. */
static bool views_of_a_sum(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    td_tensor *y = td_add(a, b);
    td_add_(a, 1.0);
    return td_return(c, td_view(y, TD_SHAPE(6)), td_view(y, TD_SHAPE(3, 2)), td_sin(a));
}

TEST(views_of_a_sum_of_pairs_alias_as_in_eager) {
    td_ctx *cx = td_open();
    CHECK(agree(cx, views_of_a_sum, two_pairs, 0));
    CHECK(agree(cx, views_of_a_sum, two_pairs, 2));
    CHECK_OK(cx);
    td_tensor *x = make_pair(noise(cx, 2, 3), noise(cx, 2, 3), ""), *y[3];
    td_fn     *f = td_aot_function(cx, views_of_a_sum, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, x), y, 3));
    CHECK(td_same_storage(y[0], y[1]) && !td_same_storage(y[0], y[2]));
    CHECK_OK(cx);
    td_close(cx);
}

static bool turns(td_call *c) {
    td_tensor *a = td_arg(c, 1);
    td_t_(a);
    td_unsqueeze_(a, 0);
    return td_return(c, td_mul(a, 2.0), a);
}

TEST(metadata_of_an_argument_of_a_type_is_written) {
    td_ctx *cx = td_open();
    CHECK(agree(cx, turns, two_pairs, 0));
    CHECK_OK(cx);
    td_close(cx);
}

static bool returns_argument(td_call *c) {
    return td_return(c, td_arg(c, 0), td_detach(td_arg(c, 1)), td_arg(c, 0));
}

TEST(arguments_of_a_type_are_returned_as_themselves) {
    td_ctx    *cx = td_open();
    td_tensor *x = make_pair(noise(cx, 2, 2), noise(cx, 2, 2), ""), *y[3];
    td_fn     *f = td_aot_function(cx, returns_argument, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(x, x), y, 3));
    CHECK(y[0] == x && y[2] == x && td_same_storage(y[1], x));
    td_mul_(y[1], 0.0);
    CHECK(td_item(td_sum(td_type_inner(x, 1))) == 0);
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- the other types ---------------------------------------------------- */

static void plain_and_int8(td_ctx *cx, observed *s) {
    s->arg[0] = s->leaf[0] = td_requires_grad_(noise(cx, 5, 4));
    s->arg[1] = s->leaf[1] = td_requires_grad_(make_int8(noise(cx, 4, 3)));
    s->n_arg = 2;
}

static bool product(td_call *c) {
    return td_return(c, td_tanh(td_matmul(td_arg(c, 0), td_arg(c, 1))));
}

TEST(int8_weights_take_gradients) {
    td_ctx *cx = td_open();
    CHECK(agree(cx, product, plain_and_int8, 1));
    CHECK(agree(cx, product, plain_and_int8, 2));
    CHECK_OK(cx);
    td_close(cx);
}

static bool trains(td_call *c) {
    td_tensor   *x = td_arg(c, 0), *w = td_arg(c, 1), *g;
    td_tensor   *loss = td_sum(td_square(td_sub(td_matmul(x, w), 1.0)));
    td_ctx      *cx = td_call_ctx(c);
    td_grad_mode was;
    if (!td_grad(TD_LIST(loss), TD_LIST(w), &g, NULL)) return false;
    was = td_no_grad_begin(cx);
    td_sub_(w, td_mul(g, 0.01));
    td_no_grad_end(cx, was);
    return td_return(c, loss);
}

TEST(a_step_writes_int8_weights_as_eager_rounds_them) {
    td_ctx *cx = td_open();
    CHECK(agree(cx, trains, plain_and_int8, 0));
    CHECK_OK(cx);
    td_close(cx);
}

static void diag_and_plain(td_ctx *cx, observed *s) {
    s->arg[0] = s->leaf[0] = td_requires_grad_(make_diag(td_randn(cx, TD_SHAPE(4))));
    s->arg[1] = s->leaf[1] = td_requires_grad_(noise(cx, 4, 4));
    s->n_arg = 2;
}

static bool diag_products(td_call *c) {
    td_tensor *d = td_arg(c, 0), *x = td_arg(c, 1);
    return td_return(c, td_matmul(td_matmul(d, x), d), td_matmul(d, td_neg(d)));
}

TEST(products_of_diagonal_matrices_agree_with_eager) {
    td_ctx *cx = td_open();
    CHECK(agree(cx, diag_products, diag_and_plain, 1));
    CHECK(agree(cx, diag_products, diag_and_plain, 2));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- nesting ------------------------------------------------------------ */

static void nested(td_ctx *cx, observed *s) {
    td_tensor *p = make_pair(noise(cx, 2, 3), noise(cx, 2, 3), "");
    td_tensor *q = make_pair(make_pair(noise(cx, 2, 3), noise(cx, 2, 3), "inner"),
                             make_counted(noise(cx, 2, 3)), "");
    s->arg[0] = s->leaf[0] = td_requires_grad_(make_counted(p));
    s->arg[1] = s->leaf[1] = td_requires_grad_(q);
    s->n_arg = 2;
}

static bool of_nested(td_call *c) {
    td_tensor *a = td_sin(td_arg(c, 0)), *b = td_cos(td_sin(td_arg(c, 1)));
    return td_return(c, td_mul(a, 2.0), td_mul(b, b));
}

static void nested_alone(td_ctx *cx, observed *s) {
    td_tensor *a = make_counted(noise(cx, 2, 3));
    s->arg[0] = s->leaf[0] =
        td_requires_grad_(make_pair(make_pair(a, noise(cx, 2, 3), "in"), a, ""));
    s->n_arg = 1;
}

static bool of_one(td_call *c) {
    td_tensor *b = td_arg(c, 0);
    td_tensor *y = td_mul(td_cos(td_sin(b)), b);
    td_mul_(y, 2.0);
    return td_return(c, y);
}

TEST(types_nest) {
    td_ctx *cx = td_open();
    n_counted = 0;
    CHECK(agree(cx, of_nested, nested, 1));
    CHECK(n_counted > 0);
    CHECK(agree(cx, of_one, nested_alone, 2));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- inner tensors in a body -------------------------------------------- */

static bool makes_pair(td_call *c) {
    td_tensor *x = td_arg(c, 1);
    return td_return(c, make_pair(td_sin(x), td_cos(x), "made"), td_mul(x, 2.0));
}

static bool reads_inner(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_tensor *y = td_add(td_type_inner(x, 0), td_type_inner(x, 1));
    return td_return(c, td_mul(x, 2.0), y);
}

TEST(a_body_makes_tensors_of_a_type_and_reads_inner_ones) {
    td_ctx *cx = td_open();
    CHECK(agree(cx, makes_pair, pair_and_plain, 0));
    CHECK(agree(cx, reads_inner, pair_and_plain, 1));
    CHECK_OK(cx);
    td_close(cx);
}

static bool writes_inner(td_call *c) {
    td_mul_(td_type_inner(td_arg(c, 0), 0), 2.0);
    return td_return(c, td_arg(c, 0));
}
static bool gives_inner(td_call *c) {
    return td_return(c, td_type_inner(td_arg(c, 0), 0));
}
static bool wraps_argument(td_call *c) {
    return td_return(c, make_pair(td_arg(c, 1), td_arg(c, 1), ""));
}

/* Fails to compile, with a message that has these words. */
static bool fails(td_ctx *cx, td_body *body, makes *make, const char *words) {
    td_fn   *f = td_aot_function(cx, body, NULL, NULL);
    observed s;
    bool     ok = !watch(cx, f, body, make, 0, &s) && strstr(td_message(cx), words);
    if (!ok) fprintf(stderr, "got: %s\n", td_message(cx));
    td_clear(cx);
    td_fn_drop(f);
    return ok;
}

TEST(what_a_body_cannot_do_with_inner_tensors_is_an_error) {
    td_ctx *cx = td_open();
    CHECK(fails(cx, writes_inner, two_pairs, "is an inner tensor"));
    CHECK(fails(cx, gives_inner, two_pairs, "return a clone"));
    CHECK(fails(cx, wraps_argument, pair_and_plain, "pass a clone"));
    CHECK_OK(cx);
    td_close(cx);
}

/* A text is its own program; what its tensors of a type share is found all the same. */
TEST(a_text_cannot_share_elements_with_a_tensor_that_it_makes) {
    static const struct {
        const char *text, *words;
    } row[] = {
        {"  %m = mul_(%v, 2.0)\n  return %a\n", "and is written"},
        {"  %m = mul_(%x, 2.0)\n  return %v\n", "and is written"},
        {"  %m = mul_(%a, 2.0)\n  return %v\n", "and is written"},
        {"  %t = transpose(%v, 0, 1)\n  return %t\n", "return a clone"},
        {"  %w = sin(%v)\n  return %w, %a\n", "return a clone"},
    };
    static const char head[] =
        "func @f(%x: f32[2,3]) {\n"
        "  %a = sin(%x)\n"
        "  %v = _wrap([%x, %a], \"pair\", \"\", [2,3], [], f32)\n";
    td_ctx *cx = td_open();
    CHECK(pair_type(cx));
    for (size_t i = 0; i < TD_COUNT(row); i++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s}\n", head, row[i].text);
        td_gfile  *file = td__gfile_parse(cx, text, strlen(text), "t.td");
        td_tensor *x = noise(cx, 2, 3), *y[2];
        td_fn     *f = td_aot_graph(file->graphs.v[0], NULL);
        CHECK_OK(cx);
        CHECK(!td_invoke(f, TD_ARGS(x), y, 2) && strstr(td_message(cx), row[i].words));
        td_clear(cx);
        td_fn_drop(f);
        td__gfile_drop(file);
    }
    td_close(cx);
}

/* Two pairs that share an inner tensor. */
static void sharing_pairs(td_ctx *cx, observed *s) {
    td_tensor *a = noise(cx, 2, 3);
    s->arg[0] = make_pair(a, noise(cx, 2, 3), "");
    s->arg[1] = make_pair(noise(cx, 2, 3), a, "");
    s->n_arg = 2;
}

/* ...and a plain tensor of which the shared one is a part. */
static void sharing_a_row(td_ctx *cx, observed *s) {
    td_tensor *a = noise(cx, 4, 3), *row = td_slice(a, 0, 1, 3, 1);
    s->arg[0] = make_pair(row, noise(cx, 2, 3), "");
    s->arg[1] = make_pair(noise(cx, 2, 3), row, "");
    s->arg[2] = a;
    s->n_arg = 3;
}

/* Each argument is written, and read after the others are. */
static bool writes_each(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1), *a = td_arg(c, 2);
    td_mul_(x, 2.0);
    td_tensor *p = td_add(y, 1.0);
    td_add_(a, 0.5);
    td_tensor *q = td_mul(x, y);
    td_neg_(td_transpose(y, 0, 1));
    return td_return(c, p, q, td_add(a, 1.0), td_add(x, y));
}

/* The pair that eager saves has another inner tensor when backward runs. */
static bool saves_one(td_call *c) {
    td_tensor *w = td_arg(c, 2), *y = td_mul(td_arg(c, 1), w);
    td_mul_(td_arg(c, 0), 2.0);
    return td_return(c, y);
}
static bool saves_a_copy(td_call *c) {
    td_tensor *w = td_arg(c, 2), *y = td_mul(td_clone(td_arg(c, 1)), w);
    td_mul_(td_arg(c, 0), 2.0);
    return td_return(c, td_add(y, td_arg(c, 1)));
}
static void sharing_pairs_and_leaf(td_ctx *cx, observed *s) {
    sharing_pairs(cx, s);
    s->arg[2] = s->leaf[2] = td_requires_grad_(noise(cx, 2, 3));
    s->n_arg = 3;
}
static void one_inner_tensor_twice(td_ctx *cx, observed *s) {
    td_tensor *a = noise(cx, 2, 3);
    s->arg[0] = make_pair(a, a, "");
    s->arg[1] = make_pair(noise(cx, 2, 3), noise(cx, 2, 3), "");
    s->n_arg = 2;
}

TEST(inner_tensors_that_arguments_share_may_be_written) {
    td_ctx *cx = td_open();
    CHECK(agree(cx, arithmetic, sharing_pairs, 0));
    CHECK(agree(cx, writes_both, sharing_pairs, 0));
    CHECK(agree(cx, writes_each, sharing_a_row, 0));
    CHECK(agree(cx, saves_a_copy, sharing_pairs_and_leaf, 1));
    CHECK(fails(cx, saves_one, sharing_pairs_and_leaf, "is saved for backward"));
    CHECK(agree(cx, writes_both, one_inner_tensor_twice, 0));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- keys --------------------------------------------------------------- */

TEST(metadata_and_inner_types_have_specializations_of_their_own) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, arithmetic, NULL, NULL);
    td_tensor *a = noise(cx, 2, 3), *b = noise(cx, 2, 3), *y;
    char       why[4000];
    CHECK(td_invoke(f, TD_ARGS(make_pair(a, b, "one"), a), &y, 1));
    CHECK(!strcmp(td_type_metadata(y), "one"));
    CHECK(td_invoke(f, TD_ARGS(make_pair(a, b, "two"), b), &y, 1));
    CHECK(!strcmp(td_type_metadata(y), "two") && td_fn_specializations(f) == 2);
    CHECK(td_invoke(f, TD_ARGS(a, b), &y, 1) && !td_type_of(y));
    CHECK(td_invoke(f, TD_ARGS(make_counted(a), b), &y, 1));
    CHECK(td_fn_specializations(f) == 4);
    td_tensor *t = td_transpose(noise(cx, 3, 2), 0, 1);
    CHECK(td_invoke(f, TD_ARGS(make_pair(a, t, "one"), td_clone(a)), &y, 1));
    CHECK(td_fn_specializations(f) == 5);
    CHECK(td_explain(f, why, sizeof why) > 0 && strstr(why, "of pair(\"two\""));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- tangents ----------------------------------------------------------- */

static bool twice(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), 2.0)); }

/* Goes backward with the gradient g from a compiled call on x. */
static bool go_back(td_ctx *cx, td_tensor *x, td_tensor *g) {
    td_fn     *f = td_aot_function(cx, twice, NULL, NULL);
    td_tensor *y;
    bool       ok = td_invoke(f, TD_ARGS(x), &y, 1) &&
              td_backward_with(TD_LIST(y), TD_LIST(g), NULL);
    td_fn_drop(f);
    return ok;
}

/* ...and has the gradient that eager has? */
static bool goes_back(td_ctx *cx, td_tensor *x, td_tensor *g) {
    td_tensor *e = td_requires_grad_(td_clone(td_detach(x))), *y = td_mul(e, 2.0);
    td_zero_grad(x);
    return go_back(cx, x, g) && td_backward_with(TD_LIST(y), TD_LIST(g), NULL) &&
           same(td_grad_of(x), td_grad_of(e));
}

static bool goes_back_twice(td_ctx *cx, td_tensor *x, td_tensor *g) {
    td_fn       *f = td_aot_function(cx, twice, NULL, NULL);
    td_grad_opts o = {TD_GRAD_OPTS, .grads = TD_LIST(g), .create_graph = true};
    td_tensor   *y, *got;
    bool         ok =
        td_invoke(f, TD_ARGS(x), &y, 1) && td_grad(TD_LIST(y), TD_LIST(x), &got, &o);
    td_fn_drop(f);
    return ok;
}

TEST(a_tangent_of_another_type_is_converted_or_has_a_backward) {
    td_ctx    *cx = td_open();
    td_tensor *a = noise(cx, 2, 3), *b = noise(cx, 2, 3);
    td_tensor *x = td_requires_grad_(make_pair(a, b, "m"));
    td_tensor *plain = td_requires_grad_(noise(cx, 2, 3));
    CHECK(goes_back(cx, x, a));
    CHECK(goes_back(cx, x, make_counted(a)));
    CHECK(goes_back(cx, plain, make_counted(b)));
    CHECK_OK(cx);
    CHECK(!goes_back_twice(cx, x, a) && strstr(td_message(cx), "is a plain tensor"));
    CHECK(strstr(td_message(cx), "a pair (\"m\")"));
    td_clear(cx);
    CHECK(goes_back(cx, plain, make_pair(a, b, "")));
    td_zero_grad(x);
    td_zero_grad(plain);
    CHECK(go_back(cx, x, make_pair(a, b, "converts")));
    CHECK(!strcmp(td_type_metadata(td_grad_of(x)), "m"));
    CHECK(go_back(cx, plain, make_pair(a, b, "converts")));
    CHECK(same(td_grad_of(plain), td_mul(td_add(a, b), 2.0)));
    CHECK_OK(cx);
    td_close(cx);
}

static bool twice_and_thrice(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), 2.0), td_mul(td_arg(c, 0), 3.0));
}

/* The gradients of two results, made by f and eagerly, are the same. */
static bool both_go_back(td_fn *f, td_tensor *x, td_tensor *g, td_tensor *h) {
    td_tensor *e = td_requires_grad_(td_clone(td_detach(x)));
    td_tensor *y = td_mul(e, 2.0), *z = td_mul(e, 3.0), *r[2];
    td_zero_grad(x);
    return td_invoke(f, TD_ARGS(x), r, 2) &&
           td_backward_with(TD_LIST(r[0], r[1]), TD_LIST(g, h), NULL) &&
           td_backward_with(TD_LIST(y, z), TD_LIST(g, h), NULL) &&
           same(td_grad_of(x), td_grad_of(e));
}

TEST(a_backward_for_tangents_of_other_types_serves_exactly_these) {
    td_ctx    *cx = td_open();
    td_tensor *a = noise(cx, 2, 3), *b = noise(cx, 2, 3), *c = noise(cx, 2, 3);
    td_tensor *x = td_requires_grad_(make_pair(a, b, "m")), *p = make_pair(b, c, "m");
    td_fn     *f = td_aot_function(cx, twice_and_thrice, NULL, NULL);
    CHECK(both_go_back(f, x, a, c));
    CHECK(both_go_back(f, x, p, c));
    CHECK(both_go_back(f, x, c, p));
    CHECK(both_go_back(f, x, p, p));
    CHECK(both_go_back(f, x, make_counted(a), c));
    CHECK(both_go_back(f, x, c, b));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_tangent_of_a_type_with_other_strides_is_copied) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(make_pair(noise(cx, 2, 3), noise(cx, 2, 3), ""));
    td_tensor *a = td_transpose(noise(cx, 3, 2), 0, 1), *b = noise(cx, 2, 3);
    CHECK(go_back(cx, x, make_pair(a, b, "")));
    CHECK(same(td_grad_of(x),
               make_pair(td_mul(td_clone(a, true), 2.0), td_mul(b, 2.0), "")));
    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_plain_gradient_and_one_of_a_type_add_up) {
    td_ctx    *cx = td_open();
    td_tensor *x = make_pair(noise(cx, 2, 3), noise(cx, 2, 3), "");
    td_tensor *b = td_requires_grad_(noise(cx, 2, 3)), *g;
    td_tensor *want = td_add(td_cos(td_detach(b)), x);
    CHECK(td_backward(td_sum(td_sin(b))) && !td_type_of(td_grad_of(b)));
    CHECK(td_backward(td_sum(td_mul(b, x))) && same(td_grad_of(b), want));
    td_tensor *y = td_sum(td_sin(b)), *z = td_sum(td_mul(b, x));
    CHECK(td_grad(TD_LIST(y, z), TD_LIST(b), &g, NULL) && same(g, want));
    y = td_sum(td_sin(b)), z = td_sum(td_mul(b, x));
    CHECK(td_grad(TD_LIST(z, y), TD_LIST(b), &g, NULL) && same(g, want));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- modules --------------------------------------------------- */

typedef struct layer {
    td_tensor *w;
} layer;

static bool layer_forward(td_module *m, td_call *c) {
    const layer *l = td_module_state(m);
    return td_return(c, td_tanh(td_matmul(td_arg(c, 0), l->w)));
}

TEST(a_member_of_a_module_may_be_of_a_type) {
    static const td_module_type type = {.name = "layer",
                                        .bytes = sizeof(layer),
                                        .forward = layer_forward};
    td_ctx                     *cx = td_open();
    td_module                  *m = td_module_make(cx, &type);
    layer                      *l = td_module_state(m);
    td_tensor                  *x = noise(cx, 5, 4), *y, *first, *e;
    l->w = td_module_param(m, "w", make_int8(noise(cx, 4, 3)));
    e = td_tanh(td_matmul(x, l->w));
    CHECK(td_backward(td_sum(e)));
    first = td_clone(td_grad_of(l->w));
    td_zero_grad(l->w);
    td_fn *f = td_aot_module(m, NULL);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && same(y, e));
    CHECK(td_backward(td_sum(y)) && same(td_grad_of(l->w), first));
    CHECK_OK(cx);
    td_close(cx);
}
