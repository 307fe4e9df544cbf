/* fakes.c -- fake tensors: ops and compiled calls on them compute types alone. */
#include "aot_help.h"
#include "tower_help.h"

#include "tandem/fake.h"

#define NONE ((td_ints){NULL, 0})

TEST(ops_on_fakes_compute_types_and_aliases) {
    td_ctx    *cx = td_open();
    bool       was = td_fakes_begin(cx);
    td_tensor *x = td_fake(cx, TD_SHAPE(4, 3), TD_SHAPE(1, 4), TD_F32);
    td_tensor *w = td_fake_like(td_fake(cx, TD_SHAPE(3, 5), NONE, TD_F32));
    CHECK(td_is_fake(x) && td_stride(x, 1) == 4 && td_stride(w, 0) == 5);
    td_tensor *y = td_relu(td_matmul(x, w)), *v = td_select(y, 0, 1);
    CHECK(td_is_fake(y) && td_size(y, 0) == 4 && td_size(y, 1) == 5);
    CHECK(td_is_fake(v) && td_same_storage(v, y) && td_stride(td_t(y), 0) == 1);
    td_add_(v, 1.0);
    CHECK(td_is_fake(td_randn(cx, TD_SHAPE(2))) && td_dtype_of(td_gt(y, 0)) == TD_BOOL);
    CHECK(td_rng_offset(cx) == 0); /* nothing is drawn */
    CHECK_OK(cx);
    td_fakes_end(cx, was);
    CHECK(!td_is_fake(td_zeros(cx, TD_SHAPE(2))) && td_size(y, 1) == 5);
    td_close(cx);
}

TEST(elements_of_fakes_cannot_be_read) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_fake(cx, TD_SHAPE(2), NONE, TD_F32);
    CHECK(!td_data(x) && aot_says(cx, TD_E_TRACE, "has no elements"));
    CHECK(td_is_nil(td_exp(x)) && aot_says(cx, TD_E_TRACE, "td_fakes_begin"));
    bool was = td_fakes_begin(cx);
    td_item(td_sum(x));
    CHECK(aot_says(cx, TD_E_TRACE, "fake"));
    CHECK(!td_data(x) && aot_says(cx, TD_E_TRACE, "fake"));
    td_fakes_end(cx, was);
    td_close(cx);
}

TEST(real_tensors_among_fakes_are_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *f = td_fake_like(x), *out;
    td_fn     *fn = td_aot_function(cx, product, NULL, NULL);
    bool       was = td_fakes_begin(cx);
    CHECK(td_is_nil(td_add(f, x)));
    CHECK(aot_says(cx, TD_E_ARG, "add: argument b is a real tensor"));
    CHECK(td_is_nil(td_exp(x)) && aot_says(cx, TD_E_ARG, "td_fake_like"));
    CHECK(!td_invoke(fn, TD_ARGS(f, x), &out, 1));
    CHECK(aot_says(cx, TD_E_ARG, "argument 1 is a real tensor"));
    td_fakes_end(cx, was);
    CHECK(!td_invoke(fn, TD_ARGS(f, x), &out, 1));
    CHECK(aot_says(cx, TD_E_TRACE, "td_fakes_begin"));
    td_fn_drop(fn);
    td_close(cx);
}

TEST(wrong_types_of_fakes_are_refused) {
    td_ctx *cx = td_open();
    CHECK(td_is_nil(td_fake(cx, TD_SHAPE(-2), NONE, TD_F32)));
    CHECK(aot_says(cx, TD_E_SHAPE, "size -2 in dim 0"));
    CHECK(td_is_nil(td_fake(cx, TD_SHAPE(2, 3), TD_SHAPE(1), TD_F32)));
    CHECK(aot_says(cx, TD_E_SHAPE, "1 strides for 2 sizes"));
    CHECK(td_is_nil(td_fake(cx, TD_SHAPE(2), TD_SHAPE(-1), TD_F32)));
    CHECK(aot_says(cx, TD_E_SHAPE, "stride -1 in dim 0"));
    CHECK(td_is_nil(td_fake(cx, TD_SHAPE(1ll << 40, 1ll << 40), NONE, TD_F32)));
    CHECK(aot_says(cx, TD_E_SHAPE, "too many elements"));
    CHECK(td_is_nil(td_fake(cx, TD_SHAPE(2), NONE, (td_dtype)99)));
    CHECK(aot_says(cx, TD_E_DTYPE, "no dtype 99"));
    td_close(cx);
}

/* ---- compiled calls ------------------------------------------------------ */

TEST(a_call_on_fakes_compiles_for_the_real_one) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, layer, NULL, NULL);
    td_tensor *x = td_randn(cx, TD_SHAPE(4, 3)), *w = td_randn(cx, TD_SHAPE(3, 2));
    td_tensor *seen = td_zeros(cx, TD_SHAPE(1)), *out[2], *y[2];
    td_set_requires_grad(w, true);
    bool       was = td_fakes_begin(cx);
    td_tensor *fx = td_fake_like(x), *fw = td_fake_like(w), *fs = td_fake_like(seen);
    CHECK(td_invoke(f, TD_ARGS(fx, fw, fs), out, 2));
    CHECK(td_is_fake(out[0]) && td_same_storage(out[0], out[1]));
    CHECK(td_stride(out[1], 0) == 1 && td_stride(out[1], 1) == 2);
    CHECK(td_requires_grad(out[0]) && td_version(fs) == 1);
    td_backward(td_sum(out[1]));
    CHECK(td_is_fake(td_grad_of(fw)) && td_size(td_grad_of(fw), 1) == 2);
    CHECK_OK(cx);
    td_fakes_end(cx, was);

    CHECK(td_invoke(f, TD_ARGS(x, w, seen), y, 2));
    CHECK(td_fn_specializations(f) == 1 && !td_is_fake(y[0]));
    CHECK(aot_near(y[0], td_tanh(td_matmul(x, w))) && td_item(seen) == 1);
    for (int d = 0; d < 2; d++) CHECK(td_stride(y[1], d) == td_stride(out[1], d));
    td_backward(td_sum(y[0]));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

static bool views(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_tensor *v = td_t(x);
    td_mul_(v, 2.0);
    return td_return(c, v, td_add(x, 1.0), x);
}

TEST(results_on_fakes_alias_as_real_ones) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, views, NULL, NULL);
    bool       was = td_fakes_begin(cx);
    td_tensor *x = td_fake(cx, TD_SHAPE(4, 3), NONE, TD_F32), *out[3];
    CHECK(td_invoke(f, TD_ARGS(x), out, 3));
    CHECK(td_same_storage(out[0], x) && td_stride(out[0], 0) == 1);
    CHECK(!td_same_storage(out[1], x) && out[2] == x && td_version(x) == 1);
    CHECK_OK(cx);
    td_fakes_end(cx, was);
    td_fn_drop(f);
    td_close(cx);
}

TEST(symbolic_sizes_of_fakes_are_those_of_the_call) {
    td_ctx *cx = td_open();
    td_config_set(cx, "dynamic", "on");
    td_fn     *f = td_aot_function(cx, product, NULL, NULL);
    bool       was = td_fakes_begin(cx);
    td_tensor *out[1];
    for (int n = 4; n < 6; n++) {
        td_tensor *x = td_fake(cx, TD_SHAPE(n, 3), NONE, TD_F32);
        CHECK(td_invoke(f, TD_ARGS(x, td_fake_like(x)), out, 1));
        CHECK(td_size(out[0], 0) == n && td_is_fake(out[0]));
    }
    CHECK(td_fn_specializations(f) == 1);
    td_fakes_end(cx, was);
    td_fn_drop(f);
    td_close(cx);
}

static int  n_compiled;
static bool count(void *env, const td_graph *g, const td_compile_info *info,
                  td_runner *to) {
    (void)env;
    n_compiled++;
    return td__interp.compile(NULL, g, info, to);
}

TEST(precompiling_leaves_nothing_for_the_first_call) {
    td_ctx     *cx = td_open();
    td_backend  b = {.name = "count", .compile = count};
    td_aot_opts o = {TD_AOT_OPTS, .forward = &b, .backward = &b, .inference = &b};
    td_fn      *f = td_aot_function(cx, layer, NULL, &o);
    td_tensor  *w = td_fake(cx, TD_SHAPE(3, 2), NONE, TD_F32);
    td_tensor  *x = td_fake(cx, TD_SHAPE(4, 3), NONE, TD_F32);
    td_tensor  *seen = td_zeros(cx, TD_SHAPE(1)), *out[2];
    n_compiled = 0;
    td_set_requires_grad(w, true);
    CHECK(td_fn_precompile(f, TD_ARGS(x, w, seen)));
    CHECK(n_compiled == 2 && td_item(seen) == 0);
    td_tensor *v = td_set_requires_grad(td_randn(cx, TD_SHAPE(3, 2)), true);
    CHECK(td_invoke(f, TD_ARGS(td_randn(cx, TD_SHAPE(4, 3)), v, seen), out, 2));
    td_backward(td_sum(out[0]));
    CHECK(n_compiled == 2 && td_fn_specializations(f) == 1 && td_item(seen) == 1);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

static bool closed_over(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), (td_tensor *)td_call_env(c)));
}

TEST(a_body_cannot_close_over_a_fake_nor_make_one) {
    td_ctx    *cx = td_open();
    td_tensor *k = td_fake(cx, TD_SHAPE(3), NONE, TD_F32), *out;
    td_fn     *f = td_aot_function(cx, closed_over, k, NULL);
    CHECK(!td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(3))), &out, 1));
    CHECK(aot_says(cx, TD_E_TRACE, "closes over a fake tensor"));
    td_fn_drop(f);
    td_close(cx);
}

TEST(gradients_of_gradients_of_fakes_are_fake) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, product, NULL, NULL);
    bool       was = td_fakes_begin(cx);
    td_tensor *x = td_fake(cx, TD_SHAPE(3), NONE, TD_F32), *out, *g[1];
    td_set_requires_grad(x, true);
    CHECK(td_invoke(f, TD_ARGS(x, x), &out, 1));
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    CHECK(td_grad(TD_LIST(td_sum(out)), TD_LIST(x), g, &o) && td_requires_grad(g[0]));
    CHECK(td_backward(td_sum(g[0])) && td_is_fake(td_grad_of(x)));
    CHECK_OK(cx);
    td_fakes_end(cx, was);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- models -------------------------------------------------------------- */

TEST(a_model_of_a_hundred_gigabytes_takes_no_memory) {
    td_ctx    *cx = td_open();
    bool       was = td_fakes_begin(cx);
    td_tensor *h = td_fake(cx, TD_SHAPE(8, 65536), NONE, TD_F32);
    for (int i = 0; i < 6; i++) {
        td_tensor *w = td_randn(cx, TD_SHAPE(65536, 65536)); /* 16 GiB each */
        h = td_tanh(td_matmul(h, td_set_requires_grad(w, true)));
    }
    td_backward(td_sum(h));
    CHECK(td_size(h, 1) == 65536 && td_is_fake(h));
    CHECK_OK(cx);
    td_fakes_end(cx, was);
    td_close(cx);
}

TEST(a_module_made_of_fakes_is_called_and_compiled) {
    td_ctx    *cx = td_open();
    bool       was = td_fakes_begin(cx);
    td_module *m = td_nn_linear(cx, 512, 65536, NULL);
    td_fn     *f = td_aot_module(m, NULL);
    td_tensor *x = td_fake(cx, TD_SHAPE(2, 512), NONE, TD_F32), *out[1];
    CHECK(td_is_fake(td_module_get(m, "weight")));
    CHECK(td_invoke(f, TD_ARGS(x), out, 1));
    CHECK_OK(cx);
    CHECK(td_size(out[0], 1) == 65536);
    td_backward(td_sum(out[0]));
    CHECK(td_is_fake(td_grad_of(td_module_get(m, "weight"))));
    CHECK_OK(cx);
    td_fakes_end(cx, was);
    td_fn_drop(f);
    td_module_free(m);
    td_close(cx);
}
