/* aot_branches.c -- what a branch does with its arguments counts for the key of the
 * whole function: offsets, gradients; and which changes of arguments are refused. */
#include "aot_help.h"

/* ---- both branches run the body in `of` ---------------------------------- */

static td_body *of;

static bool in_branches(td_call *c) {
    td_tensor  *y, *x = td_arg(c, 0);
    td_branches both = {.yes = of, .no = of};
    return td_cond(td_arg(c, 1), both, TD_ARGS(x), &y, 1) && td_return(c, y);
}

/* The sum of the result, eager or compiled; NAN: it failed. */
static double sum_of(td_fn *f, td_tensor *x) {
    td_ctx    *cx = td_ctx_of(x);
    td_tensor *y, *on = td_ones(cx, TD_SHAPE(), TD_BOOL);
    td_value   v;
    bool       ok = f ? td_invoke(f, TD_ARGS(x, on), &y, 1)
                      : td_call_body(cx, in_branches, NULL, TD_ARGS(x, on), &v, 1) > 0;
    return ok ? td_item(td_sum(td_detach(f ? y : v.u.t))) : NAN;
}

/* ---- offsets ------------------------------------------------------------ */

static bool from_start(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_as_strided(x, TD_SHAPE(2), TD_DIMS(1), 0));
}
static bool from_second(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_as_strided(x, TD_SHAPE(2), TD_DIMS(1), 1));
}

TEST(a_branch_that_addresses_storage_is_compiled_for_each_offset) {
    td_body *const bodies[] = {from_start, from_second};
    for (int b = 0; b < 2; b++) {
        td_ctx    *cx = td_open();
        td_tensor *all = td_arange(cx, 0, 12, 1);
        td_fn     *f = td_aot_function(cx, in_branches, NULL, NULL);
        of = bodies[b];
        for (int64_t k = 0; k < 12; k += 3) {
            td_tensor *x = td_narrow(all, 0, (k + 6) % 12, 3);
            CHECK(sum_of(f, x) == sum_of(NULL, x));
            CHECK(sum_of(f, td_clone(x)) == sum_of(NULL, td_clone(x)));
        }
        CHECK_OK(cx);
        td_close(cx);
    }
}

/* ---- gradients ---------------------------------------------------------- */

static bool asks_grad(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(td_detach(x), td_has_grad(x) ? 3.0 : 5.0));
}
static bool reads_grad(td_call *c) {
    td_tensor *x = td_arg(c, 0), *d = td_detach(x);
    return td_return(c, td_has_grad(x) ? td_mul(d, td_grad_of(x)) : td_mul(d, 5.0));
}

TEST(a_branch_that_reads_a_gradient_is_compiled_with_and_without_one) {
    td_body *const bodies[] = {asks_grad, reads_grad};
    for (int b = 0; b < 2; b++)
        for (int first = 0; first < 2; first++) {
            td_ctx *cx = td_open();
            td_fn  *f = td_aot_function(cx, in_branches, NULL, NULL);
            of = bodies[b];
            for (int k = 0; k < 4; k++) {
                td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
                if ((k + first) % 2) td_set_grad(x, td_full(cx, TD_SHAPE(2), k + 7.0));
                CHECK(sum_of(f, x) == sum_of(NULL, x));
            }
            CHECK_OK(cx);
            td_close(cx);
        }
}

/* ---- metadata ----------------------------------------------------------- */

static bool transposes(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_transpose_(x, 0, 1);
    return td_return(c, td_exp(x));
}
static bool sets(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_set_(x, td_zeros(td_call_ctx(c), TD_SHAPE(2, 2)));
    return td_return(c, td_exp(x));
}
static bool resizes(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_resize_(x, TD_SHAPE(4));
    return td_return(c, td_exp(x));
}
static bool detaches(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_detach_(x);
    return td_return(c, td_exp(x));
}
static bool requires_grad(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_set_requires_grad(x, true);
    return td_return(c, td_exp(x));
}

TEST(a_captured_branch_cannot_change_metadata_of_an_argument) {
    td_body *const bodies[] = {transposes, sets, resizes, detaches, requires_grad};
    for (int b = 0; b < 5; b++) {
        td_ctx    *cx = td_open();
        td_tensor *x = td_ones(cx, TD_SHAPE(2, 2));
        td_fn     *f = td_aot_function(cx, in_branches, NULL, NULL);
        of = bodies[b];
        CHECK(isnan(sum_of(f, x)));
        TD_CHECK_THAT(strstr(td_message(cx), "argument 0 in place"), "body %d: %s", b,
                      td_message(cx));
        CHECK(td_version(x) == 0 && td_rank(x) == 2);
        td_clear(cx);
        td_close(cx);
    }
}

/* A view of the argument has metadata of its own. */
static bool changes_views(td_call *c) {
    td_tensor *v = td_detach(td_arg(c, 0)), *w = td_detach(v);
    td_set_requires_grad(v, true);
    td_set_(w, td_zeros(td_call_ctx(c), TD_SHAPE(2, 2)));
    return td_return(c, td_add(w, v));
}

TEST(metadata_of_a_view_in_a_branch_is_no_write_of_the_argument) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2, 2)));
    td_fn     *f = td_aot_function(cx, in_branches, NULL, NULL);
    of = changes_views;
    CHECK(sum_of(NULL, x) == 4 && td_version(x) == 0);
    CHECK(sum_of(f, x) == 4 && td_version(x) == 0);
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- loops that run no iteration ----------------------------------------- */

static bool is_positive(td_call *c) { return td_return(c, td_gt(td_arg(c, 0), 0)); }
static bool times_outer(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), (td_tensor *)td_call_env(c)));
}

/* A loop over the first argument, which multiplies by the second. */
static bool loops(td_call *c) {
    td_tensor *y;
    td_loop    l = {is_positive, times_outer, td_arg(c, 1)};
    return td_while(td_call_ctx(c), l, TD_LIST(td_arg(c, 0)), &y) && td_return(c, y);
}

/* docs/beyond.md: compiled code is the same however often a loop iterates. */
TEST(a_compiled_loop_without_iterations_gives_zeros_to_what_its_body_reads) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(), -2.0));
    td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(), 3.0)), *y;
    td_value   v;
    td_fn     *f = td_aot_function(cx, loops, NULL, NULL);
    CHECK(td_call_body(cx, loops, NULL, TD_ARGS(x, w), &v, 1) == 1);
    CHECK(td_backward(v.u.t) && td_has_grad(x) && !td_has_grad(w));
    CHECK(td_invoke(f, TD_ARGS(x, w), &y, 1) && td_backward(y));
    CHECK(td_item(td_grad_of(x)) == 2 && td_item(td_grad_of(w)) == 0);
    CHECK_OK(cx);
    td_close(cx);
}

static bool is_first_positive(td_call *c) {
    return td_return(c, td_gt(td_arg(c, 0), 0));
}
static bool adds_and_takes_roots(td_call *c) {
    td_tensor *n = td_arg(c, 0), *a = td_arg(c, 1), *b = td_arg(c, 2);
    return td_return(c, td_sub(n, 1), td_add(a, b), td_sqrt(b));
}
/* One iteration; the state that takes roots is not returned. */
static bool loops_once(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *y[3], *x = td_arg(c, 0), *one = td_ones(cx, TD_SHAPE());
    td_loop    l = {is_first_positive, adds_and_takes_roots, NULL};
    return td_while(cx, l, TD_LIST(one, x, x), y) && td_return(c, y[1]);
}

/* docs/beyond.md: PyTorch's while_loop gives NaN here, called eagerly or compiled. */
TEST(a_state_without_gradient_has_zeros_as_in_pytorch) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_zeros(cx, TD_SHAPE())), *y;
    td_fn     *f = td_aot_function(cx, loops_once, NULL, NULL);
    td_value   v;
    CHECK(td_call_body(cx, loops_once, NULL, TD_ARGS(x), &v, 1) == 1);
    CHECK(td_backward(v.u.t) && td_item(td_grad_of(x)) == 2);
    td_zero_grad(x);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(y));
    CHECK(isnan(td_item(td_grad_of(x))));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- tensors from outside of the function --------------------------------- */

static td_tensor *total; /* both branches add to it */

static bool adds_up(td_call *c) {
    td_add_(total, td_sum(td_arg(c, 0)));
    return td_return(c, td_mul(td_arg(c, 0), total));
}

TEST(branches_write_a_tensor_from_outside_of_the_function) {
    for (int k = 0; k < 2; k++) {
        td_ctx    *cx = td_open();
        td_tensor *x = td_requires_grad_(td_arange(cx, 1, 4, 1, TD_F32)), *g;
        td_tensor *d = td_detach(x);
        td_fn     *f = k ? td_aot_function(cx, in_branches, NULL, NULL) : NULL;
        of = adds_up;
        total = td_keep(td_zeros(cx, TD_SHAPE()));
        CHECK(sum_of(f, d) == 36 && td_item(total) == 6);
        CHECK(sum_of(f, d) == 72 && td_item(total) == 12);
        td_tensor *y, *on = td_ones(cx, TD_SHAPE(), TD_BOOL);
        td_value   v;
        td_values  args = TD_ARGS(x, on);
        bool       ok = f ? td_invoke(f, args, &y, 1)
                          : td_call_body(cx, in_branches, NULL, args, &v, 1) > 0;
        CHECK(ok && td_grad(TD_LIST(td_sum(f ? y : v.u.t)), TD_LIST(x), &g, NULL));
        CHECK(td_item(td_sum(g)) == 3 * 18 + 3 * 6); /* total is 18, and needs x */
        CHECK_OK(cx);
        td_drop(total);
        td_close(cx);
    }
}
