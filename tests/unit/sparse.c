/* sparse.c -- sparse tensors: conversions, errors, printing, captured and compiled
 * functions that take, close over and give them, and sparse gradients. */
#include "nn_help.h"

static const int64_t places[] = {0, 1, 1, 2, 2, 0, 0, 1};

/* [[0, 0, 3], [9, 0, 0], [0, 6, 0]], with two entries at (1, 0). */
static td_tensor *sample(td_ctx *cx) {
    td_tensor *i = td_from(cx, TD_I64, TD_SHAPE(2, 4), places);
    td_tensor *v = td_from(cx, TD_F32, TD_SHAPE(4), (float[]){3, 4, 5, 6});
    return td_sparse_coo_tensor(i, v, TD_SHAPE(3, 3));
}

static td_tensor *ints(td_ctx *cx, int n, const int64_t *v) {
    return td_from(cx, TD_I64, TD_SHAPE(n), v);
}

static bool same(td_tensor *a, td_tensor *b) {
    return td_equal(td_to_dense(a), td_to_dense(b));
}

static bool fails(td_ctx *cx, const char *text) {
    bool says = strstr(td_message(cx), text) != NULL;
    if (!says) fprintf(stderr, "not said: %s\nmessage: %s\n", text, td_message(cx));
    td_clear(cx);
    return says;
}

/* ---- eager -------------------------------------------------------------- */

TEST(entries_of_one_place_add_up) {
    td_ctx    *cx = td_open();
    td_tensor *a = sample(cx), *d = td_to_dense(a);
    CHECK(td_is_sparse(a) && !td_is_sparse_csr(a) && !td_is_sparse(d));
    CHECK(td_nnz(a) == 4 && td_sparse_dim(a) == 2 && td_nnz(d) == 0);
    CHECK(td_item(td_select(td_select(d, 0, 1), 0, 0)) == 9);
    CHECK(td_item(td_sum(a)) == 18 && td_item(td_sum(d)) == 18);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(coalesced_tensors_are_sorted_and_have_each_place_once) {
    td_ctx    *cx = td_open();
    td_tensor *a = sample(cx), *c = td_coalesce(a), *again = td_coalesce(c);
    CHECK(!td_is_coalesced(a) && td_is_coalesced(c) && again == c && td_nnz(c) == 3);
    CHECK(same(a, c) && td_item(td_amax(td_values(c))) == 9);
    CHECK(!td_is_coalesced(td_add(c, c)) && td_nnz(td_add(c, c)) == 6);
    CHECK(td_is_coalesced(td_mul(c, 2.0)) && td_is_coalesced(td_neg(c)));
    CHECK(!td_is_coalesced(td_t(c)));
    CHECK_OK(cx);
    td_close(cx);
}

TEST(layouts_convert_to_each_other) {
    td_ctx    *cx = td_open();
    td_tensor *a = sample(cx), *d = td_to_dense(a), *csr = td_to_sparse_csr(d);
    CHECK(td_is_sparse_csr(csr) && td_nnz(csr) == 3 && same(csr, d));
    CHECK(same(td_to_sparse_csr(a), d) && same(td_to_sparse(csr), d));
    CHECK(same(td_to_sparse(d), d) && td_is_coalesced(td_to_sparse(d)));
    CHECK(same(td_t(csr), td_t(d)) && same(td_transpose(a, 0, 1), td_t(d)));
    CHECK(same(td_transpose(a, 1, -1), d) && td_is_sparse_csr(td_t(csr)));
    td_tensor *rows = td_to_sparse(d, 1);
    CHECK(td_sparse_dim(rows) == 1 && td_nnz(rows) == 3 && same(rows, d));
    CHECK(td_size(td_values(rows), 1) == 3);
    td_tensor *made = td_sparse_csr_tensor(td_crow_indices(csr), td_col_indices(csr),
                                           td_values(csr), TD_SHAPE(3, 3));
    CHECK(same(made, csr));
    CHECK_OK(cx);
    td_close(cx);
}

TEST(empty_tensors_and_halves_are_supported) {
    td_ctx    *cx = td_open();
    td_tensor *none = td_to_sparse(td_zeros(cx, TD_SHAPE(3, 4)));
    td_tensor *x = td_randn(cx, TD_SHAPE(4, 2)), *a = sample(cx);
    CHECK(td_nnz(none) == 0 && td_nnz(td_coalesce(td_add(none, none))) == 0);
    CHECK(td_item(td_sum(td_abs(td_mm(none, x)))) == 0);
    CHECK(td_item(td_sum(td_mm(td_to_sparse_csr(none), x))) == 0);
    CHECK(td_size(td_mm(td_to_sparse(td_zeros(cx, TD_SHAPE(0, 4))), x), 0) == 0);
    td_tensor *h = td_to(a, TD_BF16),
              *y = td_mm(h, td_ones(cx, TD_SHAPE(3, 2), TD_BF16));
    CHECK(td_dtype_of(h) == TD_BF16 && td_dtype_of(y) == TD_BF16);
    CHECK(td_item(td_sum(y)) == 36);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(arithmetic_mixes_sparse_and_plain_tensors) {
    td_ctx    *cx = td_open();
    td_tensor *a = sample(cx), *d = td_to_dense(a), *x = td_randn(cx, TD_SHAPE(3, 3));
    td_tensor *csr = td_to_sparse_csr(a);
    CHECK(same(td_add(a, x), td_add(d, x)) && same(td_add(x, a), td_add(x, d)));
    CHECK(same(td_sub(x, a, 2), td_sub(x, d, 2)) && same(td_sub(a, a), td_sub(d, d)));
    CHECK(same(td_add(csr, csr), td_add(d, d)) && same(td_add(a, csr), td_add(d, d)));
    CHECK(same(td_mul(x, a), td_mul(x, d)) && same(td_div(csr, 4.0), td_div(d, 4.0)));
    CHECK(same(td_mul(a, td_select(x, 0, 0)), td_mul(d, td_select(x, 0, 0))));
    td_mul_(a, 2.0);
    CHECK(same(a, td_mul(d, 2.0)) && td_version(a) == 1);
    td_add_(x, a);
    CHECK(!td_is_sparse(x));
    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_sparse_tensor_prints_its_parts) {
    td_ctx *cx = td_open();
    char    text[400];
    td_format(sample(cx), text, sizeof text);
    CHECK_STR(text, "tensor(indices=tensor([[0, 1, 1, 2],\n"
                    "                       [2, 0, 0, 1]]),\n"
                    "       values=tensor([3., 4., 5., 6.]),\n"
                    "       size=(3, 3), type=sparse_coo)");
    td_tensor *csr = td_requires_grad_(td_to_sparse_csr(sample(cx)));
    td_format(csr, text, sizeof text);
    CHECK_STR(text, "tensor(crow_indices=tensor([0, 1, 2, 3]),\n"
                    "       col_indices=tensor([2, 0, 1]),\n"
                    "       values=tensor([3., 9., 6.]),\n"
                    "       size=(3, 3), type=sparse_csr, requires_grad=True)");
    CHECK_OK(cx);
    td_close(cx);
}

TEST(other_ops_and_wrong_arguments_are_errors_with_a_remedy) {
    td_ctx    *cx = td_open();
    td_tensor *a = sample(cx), *csr = td_to_sparse_csr(a),
              *x = td_ones(cx, TD_SHAPE(3));
    td_tensor *at = td_from(cx, TD_I64, TD_SHAPE(2, 4), places);
    td_cos(a);
    CHECK(fails(cx, "cos: unsupported for a sparse tensor in this place; convert it "
                    "with td_to_dense"));
    td_sum(a, TD_DIMS(0));
    CHECK(fails(cx, "sum: unsupported: a sum of a sparse tensor over some dims"));
    td_values(a);
    CHECK(fails(cx, "values: self is not coalesced; coalesce it (td_coalesce)"));
    td_indices(csr);
    CHECK(fails(cx, "indices: self is a sparse_csr tensor"));
    td_values(x);
    CHECK(fails(cx, "values: self is a plain tensor; it must be a sparse one"));
    td_sparse_coo_tensor(at, td_ones(cx, TD_SHAPE(4)), TD_SHAPE(2, 3));
    CHECK(fails(cx, "sparse_coo_tensor: index 2 of entry 3 is out of range for a dim "
                    "of 2"));
    td_sparse_coo_tensor(at, td_ones(cx, TD_SHAPE(3)), TD_SHAPE(3, 3));
    CHECK(fails(cx, "values f32[3] must have a first dim of the number of entries"));
    td_sparse_coo_tensor(at, td_ones(cx, TD_SHAPE(4)), TD_SHAPE(3));
    CHECK(fails(cx, "there are 1 sizes; 2 dims have indices"));
    td_sparse_csr_tensor(ints(cx, 3, (int64_t[]){0, 2, 1}), ints(cx, 1, places),
                         td_ones(cx, TD_SHAPE(1)), TD_SHAPE(2, 2));
    CHECK(fails(cx, "crow_indices[1] is 2; the starts of rows ascend"));
    td_mm(a, a);
    CHECK(fails(cx, "takes a sparse matrix whose entries are numbers and a plain"));
    td_add(a, 1.0);
    CHECK(fails(cx, "can be added to a tensor of its sizes and dtype"));
    td_add(csr, td_to_sparse_csr(td_eye(cx, 3)));
    CHECK(fails(cx, "two sparse_csr tensors with entries at different places"));
    td_add_(a, a);
    CHECK(
        fails(cx, "its inner tensor indices is i64[2,4], and the new one is i64[2,8]"));
    td_coalesce(x);
    CHECK(fails(cx, "only sparse_coo tensors are coalesced"));
    td_reshape(a, TD_SHAPE(9));
    CHECK(fails(cx, "reshape: unsupported for a sparse tensor"));
    td_close(cx);
}

/* Whoever writes an inner tensor cannot make a product read beside its operands. */
TEST(indices_that_were_written_are_checked_where_they_are_used) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(3, 2));
    for (int csr = 0; csr < 2; csr++) {
        td_tensor *a = csr ? td_to_sparse_csr(sample(cx)) : sample(cx);
        td_fill_(td_type_inner(a, 0), 1000000);
        td_mm(a, x);
        CHECK(!td_ok(cx));
        td_clear(cx);
        td_to_dense(a);
        CHECK(!td_ok(cx));
        td_clear(cx);
    }
    td_close(cx);
}

/* ---- gradients ---------------------------------------------------------- */

TEST(gradients_of_sparse_leaves_accumulate) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(3, 2)), *a = td_requires_grad_(sample(cx));
    for (int k = 0; k < 2; k++) CHECK(td_backward(td_sum(td_sparse_mm(a, x))));
    td_tensor *g = td_grad_of(a), *twos = td_full(cx, TD_SHAPE(3, 3), 4.0);
    CHECK(td_is_sparse(g) && td_nnz(g) == 8);
    CHECK(td_equal(td_to_dense(g), td_to_dense(td_sparse_mask(twos, td_detach(a)))));
    td_zero_grad(a);
    CHECK(td_backward(td_sum(td_mm(a, x))) && !td_is_sparse(td_grad_of(a)));
    td_tensor *b = td_requires_grad_(td_to_sparse_csr(sample(cx)));
    for (int k = 0; k < 2; k++) CHECK(td_backward(td_sum(td_sparse_mm(b, x))));
    CHECK(td_is_sparse_csr(td_grad_of(b)) && td_nnz(td_grad_of(b)) == 3);
    CHECK(td_item(td_sum(td_grad_of(b))) == 12);
    CHECK_OK(cx);
    td_close(cx);
}

/* d/dv of |S(v) x|^2 and its own derivative, beside those of the plain product. */
static void check_second(td_ctx *cx, bool sparse, td_tensor *v, td_tensor *out[2]) {
    td_tensor   *i = td_from(cx, TD_I64, TD_SHAPE(2, 4), places);
    td_tensor   *a = td_sparse_coo_tensor(i, v, TD_SHAPE(3, 3));
    td_tensor   *x = td_add(td_reshape(td_arange(cx, 6.0), TD_SHAPE(3, 2)), 1.0);
    td_tensor   *y = sparse ? td_sparse_mm(a, x) : td_mm(td_to_dense(a), x);
    td_tensor   *loss = td_sum(td_mul(td_square(y), y));
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    CHECK(td_grad(TD_LIST(loss), TD_LIST(v), &out[0], &o));
    CHECK(td_grad(TD_LIST(td_sum(td_square(out[0]))), TD_LIST(v), &out[1], NULL));
}

TEST(products_have_second_derivatives) {
    td_ctx    *cx = td_open();
    td_tensor *v = td_requires_grad_(td_ones(cx, TD_SHAPE(4))), *s[2], *p[2];
    check_second(cx, true, v, s);
    check_second(cx, false, v, p);
    CHECK(nn_apart(s[0], p[0]) < 1e-5 && nn_apart(s[1], p[1]) < 1e-5);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(embeddings_give_sparse_gradients) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(5, 2)));
    td_tensor *at = ints(cx, 3, (int64_t[]){1, 3, 1});
    td_tensor *bags = td_reshape(ints(cx, 4, (int64_t[]){0, 1, 4, 4}), TD_SHAPE(2, 2));
    CHECK(td_backward(td_sum(td_embedding(w, at, 3, false, true))));
    td_tensor *g = td_grad_of(w);
    CHECK(td_is_sparse(g) && td_sparse_dim(g) == 1 && td_nnz(g) == 3);
    CHECK(td_item(td_sum(g)) == 4); /* the padding has zeros */
    td_tensor *y =
        td_embedding_bag(w, bags, NULL, false, "sum", NULL, false, TD_NONE, true);
    CHECK(td_backward(td_sum(y)) && td_nnz(td_grad_of(w)) == 7);
    CHECK(td_backward(td_sum(w)) && !td_is_sparse(td_grad_of(w)));
    CHECK(td_item(td_sum(td_grad_of(w))) == 22);
    td_embedding(w, at, -1, true, true);
    CHECK(fails(cx, "scale_grad_by_freq is not supported with sparse gradients"));
    td_nn_embedding_opts o = {TD_NN_EMBEDDING_OPTS, .sparse = true};
    td_module           *m = td_nn_embedding(cx, 5, 2, &o);
    CHECK(td_backward(td_sum(td_module_call(m, TD_ARGS(at)))));
    CHECK(td_is_sparse(td_grad_of(td_module_get(m, "weight"))));
    td_module_free(m);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(optimizers_say_which_gradients_they_take) {
    td_ctx                  *cx = td_open();
    td_tensor               *w = td_requires_grad_(td_ones(cx, TD_SHAPE(5, 2)));
    td_tensor               *at = ints(cx, 3, (int64_t[]){1, 3, 1});
    static const char *const says[] = {
        "td_optim_step: Adam does not support sparse gradients, and parameter 0 has "
        "one; "
        "use SparseAdam (td_sparse_adam)",
        "AdamW does not support sparse",
        "RMSprop does not support sparse",
        "weight_decay of SGD is not compatible with sparse gradients",
        "weight_decay of Adagrad is not compatible",
        "SparseAdam does not support dense"};
    td_rule rules[6] = {td_adam(.1), td_adamw(.1), td_rmsprop(.1)};
    rules[3] = td_sgd(.1);
    rules[4] = td_adagrad(.1);
    rules[5] = td_sparse_adam(.1);
    for (int i = 0; i < 6; i++) {
        td_optim *o = td_optim_make(cx);
        rules[i].weight_decay = i < 5 ? 0.1 : 0;
        CHECK(td_optim_add(o, TD_LIST(w), rules[i]) == 0);
        CHECK(td_backward(td_sum(td_embedding(w, at, -1, false, i < 5))));
        CHECK(!td_optim_step(o) && fails(cx, says[i]));
        CHECK(td_item(td_sum(w)) == 10); /* nothing was written */
        td_optim_free(o);
        td_zero_grad(w);
    }
    CHECK(td_backward(td_sum(td_embedding(w, at, -1, false, true))));
    td_tensor *g = td_grad_of(w);
    CHECK(!td_clip_value(cx, TD_LIST(g), 1.0));
    CHECK(fails(cx, "td_clip_value: gradient 0 is of type sparse_coo"));
    td_close(cx);
}

/* ---- compiled ----------------------------------------------------------- */

static bool product(td_call *c) {
    td_tensor *a = td_arg(c, 0);
    return td_return(c, td_sparse_mm(a, td_arg(c, 1)), td_mul(td_t(a), 2.0));
}

TEST(compiled_functions_take_and_give_sparse_tensors) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_randn(cx, TD_SHAPE(3, 2)), *out[2];
    td_fn     *f = td_aot_function(cx, product, NULL, NULL);
    for (int csr = 0; csr < 2; csr++) {
        td_tensor *a = csr ? td_to_sparse_csr(sample(cx)) : sample(cx);
        td_tensor *b = td_requires_grad_(td_clone(a)), *e = td_requires_grad_(a);
        CHECK(td_invoke(f, TD_ARGS(b, x), out, 2));
        CHECK(td_equal(out[0], td_sparse_mm(e, x)) &&
              same(out[1], td_mul(td_t(e), 2.0)));
        CHECK(csr ? td_is_sparse_csr(out[1]) : td_is_sparse(out[1]));
        CHECK(td_backward(td_add(td_sum(td_square(out[0])), td_sparse_sum(out[1]))));
        td_tensor *y = td_square(td_sparse_mm(e, x));
        CHECK(td_backward(td_add(td_sum(y), td_sparse_sum(td_mul(td_t(e), 2.0)))));
        CHECK(same(td_grad_of(b), td_grad_of(e)));
        CHECK(td_nnz(td_grad_of(b)) == td_nnz(td_grad_of(e)));
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(the_number_of_entries_becomes_a_symbol) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_randn(cx, TD_SHAPE(3, 2)), *a = sample(cx), *out[2];
    for (int all = 0; all < 2; all++) {
        td_aot_opts o = {TD_AOT_OPTS,
                         .dynamic = all ? TD_SHAPES_DYNAMIC : TD_SHAPES_AUTO};
        td_fn      *f = td_aot_function(cx, product, NULL, &o);
        for (int k = 2; k < 6; k++) {
            td_tensor *b = a;
            for (int i = 1; i < k; i++) b = td_add(b, a);
            CHECK(td_invoke(f, TD_ARGS(b, x), out, 2));
            CHECK(td_equal(out[0], td_sparse_mm(b, x)) && td_nnz(out[1]) == 4 * k);
        }
        CHECK(td_fn_specializations(f) == (all ? 1 : 2));
        td_fn_drop(f);
    }
    CHECK_OK(cx);
    td_close(cx);
}

static bool of_values(td_call *c) {
    td_tensor *a = td_coalesce(td_to_sparse(td_arg(c, 0)));
    td_tensor *b = td_to_sparse_csr(td_coalesce(td_add(a, a)));
    return td_return(c, td_sum(td_square(td_sparse_mm(b, td_arg(c, 1)))));
}

/* How many elements are not zero differs between calls. */
TEST(conversions_whose_size_depends_on_elements_are_compiled) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_randn(cx, TD_SHAPE(3, 2)), *y;
    for (int all = 0; all < 2; all++) {
        td_aot_opts o = {TD_AOT_OPTS,
                         .dynamic = all ? TD_SHAPES_DYNAMIC : TD_SHAPES_AUTO};
        td_fn      *f = td_aot_function(cx, of_values, NULL, &o);
        for (int k = 0; k < 3; k++) {
            td_tensor *d = td_to_dense(sample(cx));
            td_fill_(td_select(td_select(d, 0, k), 0, k), 5.0 * k);
            td_tensor *p = td_requires_grad_(td_clone(d));
            CHECK(td_invoke(f, TD_ARGS(p, x), &y, 1) && td_backward(y));
            td_tensor *q = td_requires_grad_(d);
            td_tensor *b = td_to_sparse_csr(td_mul(td_to_sparse(q), 2.0));
            CHECK(td_backward(td_sum(td_square(td_sparse_mm(b, x)))));
            CHECK(nn_apart(td_grad_of(p), td_grad_of(q)) < 1e-6);
        }
        td_fn_drop(f);
    }
    CHECK_OK(cx);
    td_close(cx);
}

static bool closes_over(td_call *c) {
    return td_return(c, td_relu(td_mm(td_call_env(c), td_arg(c, 0))));
}

TEST(a_compiled_function_closes_over_a_sparse_tensor) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_to_sparse_csr(sample(cx)), *y;
    td_tensor *x = td_requires_grad_(td_randn(cx, TD_SHAPE(3, 2)));
    td_fn     *f = td_aot_function(cx, closes_over, a, NULL);
    for (int k = 0; k < 2; k++) {
        CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
        CHECK(td_equal(y, td_relu(td_mm(a, x))) && td_backward(td_sum(y)));
        td_mul_(a, -1.0); /* the next call reads the new values */
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

static bool on_mask(td_call *c) {
    td_tensor *m = td_sparse_sampled_addmm(td_arg(c, 0), td_arg(c, 1),
                                           td_t(td_arg(c, 1)), 0.5, 2.0);
    return td_return(c, td_sum(td_square(td_to_dense(m))));
}

TEST(sampled_products_differentiate_in_all_arguments) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_requires_grad_(td_coalesce(sample(cx))), *y;
    td_tensor *x = td_requires_grad_(td_randn(cx, TD_SHAPE(3, 2)));
    td_tensor *d = td_requires_grad_(td_to_dense(td_detach(a)));
    td_tensor *z = td_requires_grad_(td_clone(td_detach(x)));
    td_fn     *f = td_aot_function(cx, on_mask, NULL, NULL);
    CHECK(td_invoke(f, TD_ARGS(a, x), &y, 1) && td_backward(y));
    td_tensor *full = td_add(td_mul(d, 0.5), td_mul(td_mm(z, td_t(z)), 2.0));
    full = td_where(td_ne(td_detach(d), 0), full, td_zeros_like(full));
    CHECK(td_backward(td_sum(td_square(full))));
    CHECK(nn_apart(td_grad_of(x), td_grad_of(z)) < 1e-5);
    CHECK(nn_apart(td_to_dense(td_grad_of(a)), td_grad_of(d)) < 1e-5);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}
