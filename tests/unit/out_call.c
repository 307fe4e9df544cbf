/* out_call.c -- td_out and td_call_out: results in tensors of the caller, for sizes,
 * dtypes, overlaps, views, captures and compiled functions. What is expected is
 * PyTorch's, but for the differences of docs/out.md. */
#include "tandem/tandem.h"
#include "td_test.h"

#include <math.h>

static bool says(td_ctx *cx, td_code code, const char *part) {
    bool ok = td_error(cx) == code && strstr(td_message(cx), part);
    if (!ok) fprintf(stderr, "%s: %s\n", td_code_name(td_error(cx)), td_message(cx));
    td_clear(cx);
    return ok;
}

static const int64_t zero[] = {0}, three[] = {3};

static bool equal(td_tensor *a, td_tensor *b) {
    return td_item(td_equal(td_to(a, TD_F64), td_to(b, TD_F64))) != 0;
}

static td_tensor *count(td_ctx *cx, int64_t n, int64_t m) {
    return td_view(td_to(td_arange(cx, 0, n * m), TD_F32), TD_SHAPE(n, m));
}

TEST(a_fitting_tensor_is_written_without_a_copy) {
    td_ctx    *cx = td_open();
    td_tensor *a = td_randn(cx, TD_SHAPE(64, 64)), *b = td_randn(cx, TD_SHAPE(64, 64));
    td_tensor *y = td_zeros(cx, TD_SHAPE(64, 64)), *sum = td_zeros(cx, TD_SHAPE(64));
    td_tensor *add = td_add(a, b), *mm = td_mm(a, b), *s = td_sum(a, TD_DIMS(0), false);
    void      *at = td_data(y);
    td_memory_peak_reset();
    size_t before = td_memory_peak();

    CHECK(td_out(y, add, a, b) == y);
    CHECK(equal(y, add) && td_data(y) == at && td_version(y) == 1);
    CHECK(td_out(y, mm, a, b) == y);
    CHECK(equal(y, mm) && td_version(y) == 2);
    td_out(sum, sum, a, td_value_ints(zero, 1));
    CHECK(equal(sum, s));
    CHECK_OK(cx);

    td_scope_begin(cx, "peak");
    td_tensor *big = td_zeros(cx, TD_SHAPE(512, 512)),
              *x = td_ones(cx, TD_SHAPE(512, 512));
    td_memory_peak_reset();
    before = td_memory_peak();
    td_out(big, exp, x);
    td_out(big, mm, x, x);
    td_out(big, softmax, x, 1); /* made of others: this one may copy */
    td_out(big, log, x);
    CHECK_OK(cx);
    td_memory_peak_reset();
    before = td_memory_peak();
    td_out(big, add, x, x);
    td_out(td_t(big), exp, x); /* any strides */
    td_out(td_slice(big, 0, 0, 256), sub, td_slice(x, 0, 0, 256), 1);
    CHECK(td_memory_peak() == before);
    CHECK_OK(cx);
    td_scope_end(cx, "peak", NULL);
    td_close(cx);
}

TEST(another_size_is_resized) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, 3, 4), *empty = td_empty(cx, TD_SHAPE(0));
    td_out(empty, add, x, 1);
    CHECK(equal(empty, td_add(x, 1)));
    td_tensor *other = td_empty(cx, TD_SHAPE(5, 5));
    td_out(other, exp, td_t(x)); /* the order of dims is the result's */
    CHECK(td_size(other, 0) == 4 && td_stride(other, 0) == 1 &&
          td_stride(other, 1) == 4);
    CHECK(equal(other, td_exp(td_t(x))));
    td_tensor *kept = td_empty(cx, TD_SHAPE(4, 3));
    td_out(kept, exp, td_t(x));
    CHECK(td_stride(kept, 0) == 3 && equal(kept, td_exp(td_t(x))));
    td_tensor *base = td_zeros(cx, TD_SHAPE(6, 4)), *v = td_slice(base, 0, 0, 2);
    td_out(v, add, x, 1);
    CHECK(td_size(v, 0) == 3 && td_same_storage(v, base));
    CHECK(equal(td_slice(base, 0, 0, 3), td_add(x, 1)));
    td_tensor *zeros = td_ones(cx, TD_SHAPE(0), TD_I64);
    td_out(zeros, zeros, td_value_ints(three, 1));
    CHECK(td_dtype_of(zeros) == TD_I64 && td_numel(zeros) == 3 &&
          !td_item(td_sum(zeros)));
    CHECK_OK(cx);
    td_close(cx);
}

TEST(the_result_is_cast_where_that_is_allowed) {
    td_ctx    *cx = td_open();
    td_tensor *x = count(cx, 2, 3);
    td_dtype   fine[] = {TD_F64, TD_F16, TD_C64}, not [] = {TD_I64, TD_BOOL};
    for (int i = 0; i < 3; i++) {
        td_tensor *y = td_empty(cx, TD_SHAPE(2, 3), fine[i]);
        td_out(y, add, x, 1);
        CHECK(td_ok(cx) && td_dtype_of(y) == fine[i]);
        CHECK(equal(td_dtype_is_complex(fine[i]) ? td_real(y) : y, td_add(x, 1)));
    }
    for (int i = 0; i < 2; i++) {
        td_tensor *y = td_zeros(cx, TD_SHAPE(2, 3), not [i]);
        CHECK(td_is_nil(td_out(y, add, x, 1)));
        CHECK(says(cx, TD_E_DTYPE, "add: the result"));
        CHECK(td_version(y) == 0);
    }
    td_close(cx);
}

TEST(gradients_are_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(count(cx, 2, 3)),
              *y = td_zeros(cx, TD_SHAPE(2, 3));
    CHECK(td_is_nil(td_out(y, exp, x)));
    CHECK(says(cx, TD_E_GRAD, "argument a requires grad"));
    CHECK(td_is_nil(td_out(td_requires_grad_(td_clone(y)), exp, y)));
    CHECK(says(cx, TD_E_GRAD, "out requires grad"));
    td_grad_mode was = td_no_grad_begin(cx);
    CHECK(td_out(y, exp, x) == y);
    td_no_grad_end(cx, was);
    CHECK(equal(y, td_exp(x)));
    CHECK_OK(cx);
    td_close(cx);
}

/* y overlaps an argument fully, in part, transposed: the result is that without y. */
TEST(overlap_does_not_change_the_result) {
    static const char *const ops[] = {"add", "mm", "sub", "matmul"};
    td_ctx                  *cx = td_open();
    for (int k = 0; k < 4; k++)
        for (int how = 0; how < 4; how++) {
            td_tensor *all = td_mul(count(cx, 6, 5), 0.25);
            td_tensor *a = td_slice(all, 0, 0, 5), *b = td_t(a), *want, *y = a;
            if (how == 1) y = b;
            if (how == 2) y = td_slice(all, 0, 1, 6);
            if (how == 3) y = td_slice(td_ones(cx, TD_SHAPE(5, 10)), 1, 0, 10, 2);
            CHECK(td_call_op(cx, ops[k], TD_ARGS(td_clone(a), td_clone(b)), &want, 1));
            CHECK(td_call_into(y, ops[k], TD_ARGS(a, b)) == y);
            CHECK(equal(y, want));
        }
    td_tensor *a = count(cx, 3, 3);
    td_out(a, cumsum, a, 0);
    CHECK(equal(a, td_cumsum(count(cx, 3, 3), 0)));
    td_out(td_select(a, 0, 0), sum, a, td_value_ints(zero, 1));
    CHECK_OK(cx);
    CHECK(td_is_nil(
        td_out(td_expand(td_zeros(cx, TD_SHAPE(3)), TD_SHAPE(3, 3)), add, a, a)));
    CHECK(says(cx, TD_E_ALIAS, "same address"));
    td_close(cx);
}

TEST(several_results_go_to_several_tensors) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_randn(cx, TD_SHAPE(4, 5)), *v = td_empty(cx, TD_SHAPE(0));
    td_tensor *i = td_empty(cx, TD_SHAPE(0), TD_I64), *both[] = {v, i},
              *twice[] = {v, v};
    td_tensor *want[2];
    CHECK(td_call_out(cx, "max_dim", TD_ARGS(x, 1), both, 2));
    CHECK(td_call_op(cx, "max_dim", TD_ARGS(x, 1), want, 2));
    CHECK(equal(v, want[0]) && equal(i, want[1]));
    CHECK(td_call_out(cx, "sort", TD_ARGS(x, 1), both, 2));
    CHECK(!td_call_out(cx, "sort", TD_ARGS(x, 1), twice, 2));
    CHECK(says(cx, TD_E_ARG, "one tensor"));
    CHECK(!td_call_out(cx, "sort", TD_ARGS(x, 1), both, 1));
    CHECK(says(cx, TD_E_ARG, "results"));
    CHECK(!td_call_out(cx, "exp_", TD_ARGS(x), both, 1));
    CHECK(says(cx, TD_E_ARG, "writes its arguments"));
    CHECK(!td_call_out(cx, "unbind", TD_ARGS(x), both, 1));
    CHECK(says(cx, TD_E_UNSUPPORTED, "list"));
    CHECK(!td_call_out(cx, "nothing", TD_ARGS(x), both, 1));
    CHECK(says(cx, TD_E_ARG, "no op nothing"));
    td_close(cx);
}

static bool body(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_arg(c, 1), *z = td_arg(c, 2);
    td_out(y, mul, td_exp(x), 2.0);
    td_out(td_select(z, 0, 0), sum, x, td_value_ints(zero, 1));
    td_out(td_select(z, 0, 1), add, td_select(y, 0, 0), td_select(z, 0, 0));
    return td_return(c, td_add(y, 1));
}

TEST(captured_and_compiled_it_is_a_write) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_randn(cx, TD_SHAPE(3, 4)), *y[2], *z[2], *r[2];
    td_fn     *f = td_aot_function(cx, body, NULL, NULL);
    char       text[2000];
    for (int i = 0; i < 2; i++) {
        y[i] = td_zeros(cx, TD_SHAPE(3, 4));
        z[i] = td_zeros(cx, TD_SHAPE(2, 4));
    }
    CHECK(td_invoke(f, TD_ARGS(x, y[0], z[0]), &r[0], 1));
    td_value v;
    CHECK(td_call_body(cx, body, NULL, TD_ARGS(x, y[1], z[1]), &v, 1) == 1);
    r[1] = v.u.t;
    CHECK(td_item(td_allclose(y[0], y[1])) && td_item(td_allclose(z[0], z[1])));
    CHECK(td_item(td_allclose(r[0], r[1])));
    CHECK(td_version(y[0]) == td_version(y[1]) && td_version(z[0]) == td_version(z[1]));
    td_program *p = td_capture(cx, body, NULL, TD_ARGS(x, y[0], z[0]));
    td_program_text(p, text, sizeof text);
    CHECK(strstr(text, "= mul(") && strstr(text, "copy_("));
    td_program_drop(p);
    td_fn_drop(f);
    CHECK_OK(cx);
    td_close(cx);
}
