/* sem_custom.c -- rows of tests/README.md that need a backward written in C: custom
 * functions that write while gradients flow. The numbers are PyTorch's. */
#include "grad_help.h"

/* ---- pieces ------------------------------------------------------------- */

/* Returns a copy of input 0; keeps the last input as it is. */
static bool copy_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) {
    (void)n_out;
    out[0] = td_clone(in[0]);
    return td_fcall_stash(f, TD_LIST(in[n_in - 1]));
}

static td_tensor *apply2(td_ctx *cx, const td_function *fn, td_tensor *x,
                         td_tensor *t) {
    td_tensor *y;
    td_function_call(cx, fn, NULL, TD_LIST(x, t), &y, 1);
    return y;
}

/* ---- test_backward_mutation_data ---------------------------------------- */

static bool save_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_clone(in[0]);
    return td_fcall_save(f, TD_LIST(in[0]));
}

static bool write_saved_bw(td_fcall *f, td_tensor *const *g, int n_out,
                           td_tensor **grad, int n_in) {
    (void)n_in, (void)n_out;
    grad[0] = td_clone(g[0]);
    return !td_is_nil(td_mul_(td_fcall_saved(f, 0), 2.0));
}

TEST(a_backward_may_write_what_was_saved) {
    const td_function fn = {"writer", save_fw, write_saved_bw, NULL};
    td_ctx           *cx = td_open();
    td_tensor        *a = LEAF(cx, 1, 2), *b = LEAF(cx, 3, 4), *copy;
    td_function_call(cx, &fn, NULL, TD_LIST(b), &copy, 1);
    CHECK_VALUES(b, 3, 4);
    td_backward(td_sum(td_mul(a, copy)));
    CHECK_OK(cx);
    CHECK_VALUES(b, 6, 8);
    CHECK(td_version(b) == 1 && td_is_leaf(b));
    CHECK_VALUES(td_grad_of(a), 3, 4);
    CHECK_VALUES(td_grad_of(b), 1, 2);
    td_close(cx);
}

TEST(a_backward_that_is_not_needed_writes_nothing) {
    const td_function fn = {"writer", save_fw, write_saved_bw, NULL};
    td_ctx           *cx = td_open();
    td_tensor        *a = LEAF(cx, 1, 2), *b = td_tensor1(cx, 3, 4), *copy;
    td_function_call(cx, &fn, NULL, TD_LIST(b), &copy, 1);
    td_backward(td_sum(td_mul(a, copy)));
    CHECK_OK(cx);
    CHECK_VALUES(b, 3, 4);
    CHECK_VALUES(td_grad_of(a), 3, 4);
    td_close(cx);
}

/* ---- test_backward_mutation_on_grad_out --------------------------------- */

static bool write_grad_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                          int n_in) {
    (void)f, (void)n_in, (void)n_out;
    td_mul_(g[0], 2.0);
    grad[0] = td_clone(g[0]);
    return true;
}

TEST(a_backward_may_write_the_gradient_it_is_given) {
    const td_function fn = {"writer", save_fw, write_grad_bw, NULL};
    td_ctx           *cx = td_open();
    td_tensor        *a = LEAF(cx, 1, 2), *copy;
    td_function_call(cx, &fn, NULL, TD_LIST(td_mul(a, 1.0)), &copy, 1);
    td_backward(td_sum(td_mul(copy, 3.0)));
    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(a), 6, 6);
    td_close(cx);
}

/* ---- test_mutations_in_bw_* --------------------------------------------- */

static bool add_one_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                       int n_in) {
    (void)n_in, (void)n_out;
    td_add_(td_fcall_stashed(f, 0), td_add(td_mul(g[0], 0.0), 1.0));
    grad[0] = td_mul(g[0], 2.0);
    return true;
}

TEST(a_backward_may_write_an_input_that_takes_no_gradient) {
    const td_function fn = {"writer", copy_fw, add_one_bw, NULL};
    td_ctx           *cx = td_open();
    td_tensor        *a = LEAF(cx, 1, 2), *t = td_tensor1(cx, 5, 6);
    td_tensor        *y = apply2(cx, &fn, a, t);
    CHECK_VALUES(t, 5, 6);
    CHECK(td_version(t) == 0);
    td_backward(td_sum(y));
    CHECK_OK(cx);
    CHECK_VALUES(t, 6, 7);
    CHECK(td_version(t) == 1 && !td_requires_grad(t));
    CHECK_VALUES(td_grad_of(a), 2, 2);
    td_close(cx);
}

static bool double_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                      int n_in) {
    (void)n_in, (void)n_out;
    td_mul_(td_fcall_stashed(f, 0), 2.0);
    grad[0] = td_mul(g[0], 2.0);
    return true;
}

TEST(a_backward_may_write_an_input_that_requires_grad) {
    const td_function fn = {"writer", copy_fw, double_bw, NULL};
    td_ctx           *cx = td_open();
    td_tensor        *a = LEAF(cx, 1, 2), *t = LEAF(cx, 5, 6);
    td_backward(td_sum(apply2(cx, &fn, a, t)));
    CHECK_OK(cx);
    CHECK_VALUES(t, 10, 12);
    CHECK(td_version(t) == 1 && td_is_leaf(t) && td_requires_grad(t));
    CHECK_VALUES(td_grad_of(a), 2, 2);
    CHECK(td_is_nil(td_grad_of(t)));
    td_close(cx);
}

/* ---- test_mutation_of_input_in_fw_and_bw -------------------------------- */

static bool add_one_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                       int n_out) {
    (void)n_in, (void)n_out;
    td_add_(in[1], 1.0);
    out[0] = td_clone(in[0]);
    return td_fcall_stash(f, TD_LIST(in[1]));
}

static bool add_again_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                         int n_in) {
    (void)n_in, (void)n_out;
    grad[0] = td_mul(g[0], td_add_(td_fcall_stashed(f, 0), 1.0));
    return true;
}

TEST(forward_and_backward_may_write_the_same_input) {
    const td_function fn = {"writer", add_one_fw, add_again_bw, NULL};
    td_ctx           *cx = td_open();
    td_tensor        *a = LEAF(cx, 1, 2), *t = td_tensor1(cx, 5, 6);
    td_tensor        *y = apply2(cx, &fn, a, t);
    CHECK_VALUES(t, 6, 7);
    td_backward(td_sum(y));
    CHECK_OK(cx);
    CHECK_VALUES(t, 7, 8);
    CHECK(td_version(t) == 2);
    CHECK_VALUES(td_grad_of(a), 7, 8);
    td_close(cx);
}

/* ---- test_autograd_function_tangent_mutation ---------------------------- */

static bool two_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)f, (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], 2.0);
    out[1] = td_mul(in[1], 3.0);
    return true;
}

static bool copy_bw(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                    int n_in) {
    (void)f, (void)n_in, (void)n_out;
    grad[0] = td_copy_(g[0], g[1]);
    grad[1] = g[1];
    return true;
}

TEST(a_backward_may_copy_one_gradient_into_another) {
    const td_function fn = {"copier", two_fw, copy_bw, NULL};
    td_ctx           *cx = td_open();
    td_tensor        *a = LEAF(cx, 1, 2), *b = LEAF(cx, 3, 4), *out[2];
    td_function_call(cx, &fn, NULL, TD_LIST(a, b), out, 2);
    td_backward(td_add(td_sum(td_mul(out[0], 5.0)), td_sum(td_mul(out[1], 7.0))));
    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(a), 7, 7);
    CHECK_VALUES(td_grad_of(b), 7, 7);
    td_close(cx);
}
