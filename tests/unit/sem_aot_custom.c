/* sem_aot_custom.c -- the rows of tests/README.md about custom functions, compiled: a
 * body that calls one is captured, its backward becomes part of the backward half.
 * The numbers are PyTorch's eager ones. */
#include "aot_help.h"
#include "grad_help.h"

/* Calls the custom function of its env on all arguments. */
static bool call_custom(td_call *c) {
    td_tensor *in[4], *y;
    int        n = td_arg_count(c);
    for (int i = 0; i < n; i++) in[i] = td_arg(c, i);
    return td_function_call(td_call_ctx(c), td_call_env(c), NULL, (td_tensors){in, n},
                            &y, 1) &&
           td_return(c, y);
}

static td_fn *compile(td_ctx *cx, const td_function *fn) {
    return td_aot_function(cx, call_custom, (void *)fn, NULL);
}

static bool copy_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) {
    (void)n_out;
    out[0] = td_clone(in[0]);
    return td_fcall_stash(f, TD_LIST(in[n_in - 1]));
}

/* ---- test_custom_autograd ----------------------------------------------- */

static bool plus_one_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                        int n_in) {
    (void)f, (void)n, (void)n_in;
    grad[0] = td_add(g[0], 1.0);
    return true;
}

TEST(a_custom_backward_is_compiled_and_runs_no_more) {
    static const td_function fn = {"plus one", copy_fw, plus_one_bw, NULL};
    td_ctx                  *cx = td_open();
    td_fn                   *f = compile(cx, &fn);
    td_tensor               *x = LEAF(cx, 1, 2), *y;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(td_sum(td_mul(y, 3.0))));
    CHECK_VALUES(td_grad_of(x), 4, 4);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- test_compiled_backward_vc_check_codegen ---------------------------- */

static bool stash_out_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                         int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], 2.0);
    return td_fcall_stash(f, TD_LIST(out[0]));
}
static bool times_stash_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                           int n_in) {
    (void)n, (void)n_in;
    grad[0] = td_mul(g[0], td_fcall_stashed(f, 0));
    return true;
}

TEST(a_stashed_result_is_not_checked_for_writes) {
    static const td_function fn = {"stash", stash_out_fw, times_stash_bw, NULL};
    td_ctx                  *cx = td_open();
    td_fn                   *f = compile(cx, &fn);
    td_tensor               *x = LEAF(cx, 1, 2), *y;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(td_sum(y)));
    CHECK_VALUES(td_grad_of(x), 2, 4);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* The value that backward reads is the tensor itself, as in eager. */
TEST(a_stashed_result_that_is_written_is_read_as_it_is_then) {
    static const td_function fn = {"stash", stash_out_fw, times_stash_bw, NULL};
    td_ctx                  *cx = td_open();
    td_fn                   *f = compile(cx, &fn);
    for (int compiled = 0; compiled < 2; compiled++) {
        td_tensor *x = LEAF(cx, 1, 2), *y = NULL;
        td_value   v = TD_NONE;
        if (compiled) td_invoke(f, TD_ARGS(x), &y, 1);
        else if (td_call_body(cx, call_custom, (void *)&fn, TD_ARGS(x), &v, 1) == 1)
            y = v.u.t;
        td_tensor   *loss = td_sum(y);
        td_grad_mode was = td_no_grad_begin(cx);
        td_mul_(y, 5.0);
        td_no_grad_end(cx, was);
        CHECK(td_backward(loss));
        CHECK_VALUES(td_grad_of(x), 10, 20);
        CHECK_OK(cx);
    }
    td_fn_drop(f);
    td_close(cx);
}

static bool stash_in_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                        int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], 2.0);
    return td_fcall_stash(f, TD_LIST(in[0]));
}

static bool body_writes(td_call *c) {
    static const td_function fn = {"stash", stash_in_fw, times_stash_bw, NULL};
    td_tensor               *x = td_arg(c, 0), *t = td_arg(c, 1), *y, *in[] = {NULL};
    td_add_(t, 1.0);
    in[0] = td_mul(x, t);
    if (!td_function_call(td_call_ctx(c), &fn, NULL, TD_LIST(in[0]), &y, 1))
        return false;
    td_tensor *z = NULL, *both = td_call_env(c) ? x : t; /* x: not written here */
    if (!td_function_call(td_call_ctx(c), &fn, NULL, TD_LIST(both), &z, 1))
        return false;
    return td_return(c, td_add(y, td_mul(z, x)), in[0]);
}

/* Of an argument that the body writes or not, and of a value that it returns; the
 * caller writes all of them before backward. */
TEST(stashed_arguments_and_results_are_read_as_they_are_then) {
    td_ctx *cx = td_open();
    for (int env = 0; env < 2; env++) {
        td_fn *f = td_aot_function(cx, body_writes, env ? cx : NULL, NULL);
        double sum[2] = {0, 0};
        for (int compiled = 0; compiled < 2; compiled++) {
            td_tensor *x = LEAF(cx, 1, 2), *t = td_tensor1(cx, 3, 4), *y[2];
            td_value   v[2] = {TD_NONE, TD_NONE};
            if (compiled) td_invoke(f, TD_ARGS(x, t), y, 2);
            else if (td_call_body(cx, body_writes, env ? cx : NULL, TD_ARGS(x, t), v,
                                  2) == 2)
                y[0] = v[0].u.t, y[1] = v[1].u.t;
            td_tensor   *loss = td_sum(y[0]);
            td_grad_mode was = td_no_grad_begin(cx);
            td_mul_(y[1], 5.0);
            td_no_grad_end(cx, was);
            CHECK(td_backward(loss));
            sum[compiled] =
                td_item(td_sum(td_mul(td_grad_of(x), td_tensor1(cx, 1, 9))));
            CHECK_OK(cx);
        }
        CHECK(sum[0] == sum[1] && sum[0] != 0);
        td_fn_drop(f);
    }
    td_close(cx);
}

/* ---- test_grad_inputs_alias_inputs -------------------------------------- */

static bool save_first_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                          int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_clone(in[0]);
    return td_fcall_save(f, TD_LIST(in[0]));
}
static bool give_saved_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                          int n_in) {
    (void)g, (void)n, (void)n_in;
    grad[0] = td_fcall_saved(f, 0);
    return true;
}

TEST(a_gradient_may_be_an_input) {
    static const td_function fn = {"give", save_first_fw, give_saved_bw, NULL};
    td_ctx                  *cx = td_open();
    td_fn                   *f = compile(cx, &fn);
    td_tensor               *x = LEAF(cx, 1, 2), *y;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(td_sum(y)));
    CHECK_VALUES(td_grad_of(x), 1, 2);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- writes in backward ------------------------------------------------- */

static bool write_grad_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                          int n_in) {
    (void)f, (void)n, (void)n_in;
    td_mul_(g[0], 2.0);
    grad[0] = td_clone(g[0]);
    return true;
}

/* test_backward_mutation_on_grad_out */
TEST(a_compiled_backward_may_write_the_gradient_it_is_given) {
    static const td_function fn = {"writer", copy_fw, write_grad_bw, NULL};
    td_ctx                  *cx = td_open();
    td_fn                   *f = compile(cx, &fn);
    td_tensor               *x = LEAF(cx, 1, 2), *y;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(td_sum(td_mul(y, 3.0))));
    CHECK_VALUES(td_grad_of(x), 6, 6);
    td_tensor *t = td_tensor1(cx, 1, 2);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) &&
          td_backward_with(TD_LIST(y), TD_LIST(t), NULL));
    CHECK_VALUES(t, 2, 4);
    CHECK_VALUES(td_grad_of(x), 8, 10);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

static bool write_stash_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                           int n_in) {
    (void)n;
    for (int i = 0; i < n_in; i++) grad[i] = i ? NULL : td_clone(g[0]);
    return !td_is_nil(td_mul_(td_fcall_stashed(f, 0), 2.0));
}

/* test_mutations_in_bw_detached_from_tangent */
TEST(a_compiled_backward_may_write_an_input) {
    static const td_function fn = {"writer", copy_fw, write_stash_bw, NULL};
    td_ctx                  *cx = td_open();
    td_fn                   *f = compile(cx, &fn);
    td_tensor               *x = LEAF(cx, 1, 2), *t = td_tensor1(cx, 3, 4), *y;
    CHECK(td_invoke(f, TD_ARGS(x, t), &y, 1));
    CHECK_VALUES(t, 3, 4);
    CHECK(td_backward(td_sum(y)));
    CHECK_VALUES(t, 6, 8);
    CHECK_VALUES(td_grad_of(x), 1, 1);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

static bool write_both_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                          int n_out) {
    (void)n_in, (void)n_out;
    td_add_(in[1], 1.0);
    out[0] = td_clone(in[0]);
    return td_fcall_stash(f, TD_LIST(in[1]));
}
static bool add_stash_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                         int n_in) {
    (void)n;
    for (int i = 0; i < n_in; i++) grad[i] = i ? NULL : td_clone(g[0]);
    return !td_is_nil(td_add_(td_fcall_stashed(f, 0), 1.0));
}

/* test_mutation_of_input_in_fw_and_bw: refused, and nothing is written. */
TEST(an_input_written_by_compiled_forward_and_backward_is_refused) {
    static const td_function fn = {"writer", write_both_fw, add_stash_bw, NULL};
    td_ctx                  *cx = td_open();
    td_fn                   *f = compile(cx, &fn);
    td_tensor               *x = LEAF(cx, 1, 2), *t = td_tensor1(cx, 3, 4), *y;
    CHECK(!td_invoke(f, TD_ARGS(x, t), &y, 1));
    CHECK_FAILS(cx, "input 1 is written in forward, and in backward");
    td_clear(cx);
    CHECK_VALUES(t, 3, 4);
    td_fn_drop(f);
    td_close(cx);
}

static bool turn_saved_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                          int n_in) {
    (void)n, (void)n_in;
    td_tensor *t = td_transpose_(td_fcall_saved(f, 0), 0, 1);
    grad[0] = td_mul(g[0], td_transpose(t, 0, 1));
    return true;
}

/* Beyond the rows: PyTorch's test of it is commented out. */
TEST(a_compiled_backward_that_reshapes_an_input_is_refused) {
    static const td_function fn = {"turn", save_first_fw, turn_saved_bw, NULL};
    td_ctx                  *cx = td_open();
    td_fn                   *f = compile(cx, &fn);
    td_tensor               *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2, 3))), *y;
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK_FAILS(cx, "changes sizes or strides of input 0");
    CHECK(td_error(cx) == TD_E_UNSUPPORTED && td_size(x, 0) == 2);
    td_fn_drop(f);
    td_close(cx);
}

static bool save_out_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                        int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_exp(in[0]);
    return td_fcall_save(f, TD_LIST(out[0]));
}
static bool write_saved_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                           int n_in) {
    (void)n, (void)n_in;
    td_grad_mode was = td_no_grad_begin(td_fcall_ctx(f));
    td_mul_(td_fcall_saved(f, 0), 2.0);
    td_no_grad_end(td_fcall_ctx(f), was);
    grad[0] = td_mul(g[0], td_fcall_saved(f, 0));
    return true;
}

/* The write was lost. */
TEST(a_compiled_backward_that_writes_a_result_is_refused) {
    static const td_function fn = {"writer", save_out_fw, write_saved_bw, NULL};
    td_ctx                  *cx = td_open();
    td_fn                   *f = compile(cx, &fn);
    td_tensor               *x = LEAF(cx, 1, 2), *y;
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK_FAILS(cx, "the backward of a custom function writes result 0");
    CHECK(td_error(cx) == TD_E_UNSUPPORTED);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- checkpoints -------------------------------------------------------- */

static bool square_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                      int n_in) {
    (void)n, (void)n_in;
    grad[0] = td_mul(g[0], td_mul(td_fcall_saved(f, 0), 2.0));
    return true;
}
static bool square_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                      int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul(in[0], in[0]);
    return td_fcall_save(f, TD_LIST(in[0]));
}
static const td_function square = {"square", square_fw, square_bw, NULL};

static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out, int n) {
    (void)n_in, (void)n;
    return td_function_call(env, &square, NULL, TD_LIST(in[0]), out, 1);
}
static bool in_region(td_call *c) {
    td_tensor *y;
    return td_checkpoint(td_call_ctx(c), region, td_call_ctx(c), TD_LIST(td_arg(c, 0)),
                         &y, 1) &&
           td_return(c, td_sin(y));
}

/* test_ac_tags_through_custom_autograd_function */
TEST(a_region_reaches_into_a_custom_function) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, in_region, NULL, NULL);
    td_tensor *x = LEAF(cx, 1, 2), *y;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    const td_graph *g = f->specs->plan->j->g;
    bool            tagged = false;
    for (int i = 0; i < g->nodes.n; i++)
        tagged |= g->nodes.v[i]->tags == TD_TAG(TD_PREFER_RECOMPUTE, 1);
    CHECK(tagged);
    CHECK(td_backward(td_sum(y)));
    CHECK_VALUES(td_grad_of(x), 2 * cos(1), 4 * cos(4));
    td_fn_drop(f);
    td_close(cx);
}

/* ---- second derivatives ------------------------------------------------- */

static bool cube_branch(td_call *c) {
    td_tensor *s = td_arg(c, 0);
    return td_return(c, td_mul(td_mul(s, s), s));
}
static bool sine_fw(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_sin(in[0]);
    return td_fcall_save(f, TD_LIST(in[0]));
}
static bool calls_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                     int n_in) {
    (void)n, (void)n_in;
    td_tensor *s = td_fcall_saved(f, 0), *q;
    grad[0] = td_function_call(td_fcall_ctx(f), &square, NULL, TD_LIST(s), &q, 1)
                  ? td_mul(q, g[0])
                  : NULL;
    return grad[0] != NULL;
}
static bool branches_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                        int n_in) {
    (void)n, (void)n_in;
    td_tensor  *s = td_fcall_saved(f, 0), *q;
    td_branches b = {.yes = cube_branch, .no = cube_branch};
    if (!td_cond(td_gt(td_sum(s), 0.0), b, TD_ARGS(s), &q, 1)) return false;
    grad[0] = td_mul(q, g[0]);
    return true;
}
static bool draws_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                     int n_in) {
    (void)n, (void)n_in;
    grad[0] = td_mul(td_dropout(td_fcall_saved(f, 0), .5, true), g[0]);
    return true;
}
static bool sine_times(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y;
    return td_function_call(td_call_ctx(c), td_call_env(c), NULL, TD_LIST(x), &y, 1) &&
           td_return(c, td_mul(y, x));
}
static void check_refused(td_function fn, const char *why) {
    td_ctx      *cx = td_open();
    td_fn       *f = td_aot_function(cx, sine_times, &fn, NULL);
    td_tensor   *x = LEAF(cx, 1, 2), *y, *g;
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(td_sum(y)));
    CHECK_OK(cx);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(!td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, &o));
    CHECK_FAILS(cx, why);
    CHECK(td_error(cx) == TD_E_UNSUPPORTED);
    td_fn_drop(f);
    td_close(cx);
}

/* They were other values, without an error. */
TEST(second_derivatives_that_a_captured_backward_lost_are_refused) {
    check_refused((td_function){"sine", sine_fw, calls_bw, NULL},
                  "calls a custom function or branches");
    check_refused((td_function){"sine", sine_fw, branches_bw, NULL},
                  "calls a custom function or branches");
    check_refused((td_function){"sine", sine_fw, draws_bw, NULL},
                  "it draws random numbers");
}

static bool nil_bw(td_fcall *f, td_tensor *const *g, int n, td_tensor **grad,
                   int n_in) {
    (void)g, (void)n, (void)n_in;
    grad[0] = td_nil(td_fcall_ctx(f));
    return true;
}

/* It was taken for "no gradient", and later made the call fail. */
TEST(a_nil_gradient_fails_the_backward_alone) {
    static const td_function fn = {"nil", copy_fw, nil_bw, NULL};
    td_ctx                  *cx = td_open();
    td_fn                   *f = compile(cx, &fn);
    td_tensor               *x = LEAF(cx, 1, 2), *y;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && !td_backward(td_sum(y)));
    CHECK_FAILS(cx, "nil: backward returned false or a nil gradient");
    td_fn_drop(f);
    td_close(cx);
}
