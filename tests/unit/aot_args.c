/* aot_args.c -- what calls may be given and give: other sizes, strides, flags, the
 * same tensor twice, numbers, absent values, arguments as results. */
#include "aot_sides.h"

/* ---- specializations ---------------------------------------------------- */

static bool mixed_body(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    td_add_(a, 1.0);
    return td_return(c, td_mul(a, b), td_sum(b));
}

static void call_mixed(side *s, td_tensor *a, td_tensor *b) {
    td_tensor *y[2];
    ask(s, TD_ARGS(a, b), y, 2);
    tell(s, "y", y[0]);
    tell(s, "sum", y[1]);
    tell(s, "a", a);
    tell(s, "b", b);
    if (!td_requires_grad(y[0])) return;
    td_backward(td_sum(y[0]));
    if (td_is_leaf(b)) tell_grad(s, "db", td_grad_of(b));
}

static void flags_change(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(2, 3), 0.1);
    td_tensor *p = values(s->cx, TD_SHAPE(2, 3), 0.7);
    for (int round = 0; round < 2; round++) {
        call_mixed(s, values(s->cx, TD_SHAPE(2, 3), 2), p);
        call_mixed(s, values(s->cx, TD_SHAPE(2, 3), 2), x);
        call_mixed(s, td_mul(x, 2.0), p);
        call_mixed(s, td_mul(x, 2.0), x);
        td_grad_mode was = td_no_grad_begin(s->cx);
        call_mixed(s, values(s->cx, TD_SHAPE(2, 3), 2), x);
        call_mixed(s, x, p);
        td_no_grad_end(s->cx, was);
        was = td_inference_begin(s->cx, true);
        call_mixed(s, values(s->cx, TD_SHAPE(2, 3), 2), p);
        td_inference_end(s->cx, was);
    }
    if (s->fn) CHECK(td_fn_specializations(s->fn) == 7);
}
TEST(calls_that_require_gradients_or_not_alternate) {
    check_scene(flags_change, mixed_body);
}

static void geometry_changes(side *s) {
    td_tensor *b = leaf(s->cx, TD_SHAPE(1), 0.3);
    for (int64_t n = 1; n <= 4; n++) {
        call_mixed(s, values(s->cx, TD_SHAPE(n, 3), 1), b);
        call_mixed(s, td_transpose(values(s->cx, TD_SHAPE(3, n), 1), 0, 1), b);
        call_mixed(s, td_narrow(values(s->cx, TD_SHAPE(n, 5), 1), 1, 1, 3), b);
    }
    call_mixed(s, values(s->cx, TD_SHAPE(0, 3), 1), b);
    call_mixed(s, values(s->cx, TD_SHAPE(2, 2, 2), 1), b);
    call_mixed(s, td_to(values(s->cx, TD_SHAPE(2), 1), TD_F64), b);
}
TEST(sizes_strides_and_dtypes_may_be_others) {
    static const td_aot_opts many = {TD_AOT_OPTS, .limit = 64};
    check_with(geometry_changes, mixed_body, NULL, &many);
}

/* ---- arguments that share bytes ----------------------------------------- */

static bool both_written(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    td_mul_(a, 2.0);
    td_mul_(b, td_sum(a));
    return td_return(c, td_mul(a, b));
}
static void call_pair(side *s, td_tensor *a, td_tensor *b, td_tensor *base) {
    tell(s, "y", ask1(s, TD_ARGS(a, b)));
    tell(s, "a", a);
    tell(s, "b", b);
    tell(s, "base", base);
}
static void shared_bytes(side *s) {
    for (int round = 0; round < 2; round++) {
        td_tensor *x = values(s->cx, TD_SHAPE(6), 0.1);
        call_pair(s, x, x, x);
        call_pair(s, td_narrow(x, 0, 0, 4), td_narrow(x, 0, 2, 4), x);
        call_pair(s, td_narrow(x, 0, 0, 3), td_narrow(x, 0, 3, 3), x);
        call_pair(s, td_narrow(x, 0, 1, 4), td_narrow(x, 0, 2, 4), x);
        call_pair(s, td_detach(x), x, x);
        call_pair(s, values(s->cx, TD_SHAPE(6), 1), x, x);
    }
}
TEST(arguments_in_the_same_bytes_are_distinct) {
    check_scene(shared_bytes, both_written);
}

static void shared_with_gradients(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(6), 0.1);
    for (int round = 0; round < 2; round++) {
        td_tensor *base = td_mul(x, 1.5);
        td_tensor *a = td_narrow(base, 0, 0, 4), *b = td_narrow(base, 0, 2, 4);
        td_tensor *y = ask1(s, TD_ARGS(a, b));
        tell(s, "base", base);
        td_backward(td_add(td_sum(td_mul(y, y)), td_sum(base)));
        tell_grad(s, "dx", td_grad_of(x));
    }
    td_tensor *base = td_mul(x, 1.5);
    td_backward(td_sum(ask1(s, TD_ARGS(base, base))));
    tell_grad(s, "dx", td_grad_of(x));
}
TEST(arguments_in_the_same_bytes_take_gradients) {
    check_scene(shared_with_gradients, both_written);
}

/* ---- numbers and absent values ------------------------------------------ */

static bool optional_body(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = td_mul(x, td_arg_number(c, 1));
    if (!td_arg_absent(c, 2)) y = td_add(y, td_arg(c, 2));
    return td_return(c, y, td_arg_int(c, 3), 2.5, TD_NONE, x, y, td_arg_int(c, 3) > 1);
}
static void tell_values(side *s, td_values args) {
    td_value v[8];
    int      n = s->fn ? td_invoke_values(s->fn, args, v, 8)
                       : td_call_body(s->cx, s->body, s->env, args, v, 8);
    say(s, "%d results\n", n);
    for (int i = 0; i < 8; i++) {
        if (v[i].kind == TD_K_TENSOR) tell(s, "tensor", v[i].u.t);
        else if (v[i].kind == TD_K_FLOAT) say(s, "float %g\n", v[i].u.f);
        else if (v[i].kind == TD_K_NONE) say(s, "none\n");
        else say(s, "number %d: %lld\n", (int)v[i].kind, (long long)v[i].u.i);
    }
    say(s, "itself %d %d\n", v[4].u.t == args.v[0].u.t, v[5].u.t == v[0].u.t);
    if (n > 0 && td_requires_grad(v[0].u.t)) td_backward(td_sum(v[0].u.t));
}
static void numbers(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(2), 1), *b = values(s->cx, TD_SHAPE(2), 3);
    for (int round = 0; round < 2; round++) {
        tell_values(s, TD_ARGS(x, 2.0, b, 1));
        tell_values(s, TD_ARGS(x, 3.0, b, 1));
        tell_values(s, TD_ARGS(x, 3, TD_NONE, 2));
        tell_values(s, TD_ARGS(b, 2.0, (td_tensor *)NULL, 2));
        tell_grad(s, "x.grad", td_grad_of(x));
    }
    if (s->fn) CHECK(td_fn_specializations(s->fn) == 4);
}
TEST(numbers_and_absent_values_are_arguments_and_results) {
    check_scene(numbers, optional_body);
}

/* ---- results ------------------------------------------------------------ */

static bool many_ways(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *h = td_mul(x, w);
    return td_return(c, x, h, h, td_select(h, 0, 1), td_reshape(x, TD_SHAPE(-1)),
                     td_detach(h), td_ones(td_call_ctx(c), TD_SHAPE(2)), td_detach(x));
}
static void every_result(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(2, 2), 1), *w = leaf(s->cx, TD_SHAPE(2, 2), 3);
    td_tensor *y[8];
    ask(s, TD_ARGS(x, w), y, 8);
    for (int i = 0; i < 8; i++) {
        tell(s, "y", y[i]);
        for (int k = 0; k < i; k++)
            say(s, "%d%d ", y[i] == y[k], td_same_storage(y[i], y[k]));
        say(s, "x %d%d\n", y[i] == x, td_same_storage(y[i], x));
    }
    td_add_(y[3], 1.0);
    tell(s, "h", y[1]);
    td_backward(td_add(td_sum(td_mul(y[1], y[1])), td_sum(y[4])));
    tell_grad(s, "dx", td_grad_of(x));
    tell_grad(s, "dw", td_grad_of(w));
}
TEST(results_are_arguments_duplicates_views_and_constants) {
    check_scene(every_result, many_ways);
}

static bool nothing_back(td_call *c) {
    td_zero_(td_arg(c, 0));
    return td_return(c);
}
static void no_results(side *s) {
    td_tensor *x = values(s->cx, TD_SHAPE(2), 1);
    say(s, "%d\n", ask(s, TD_ARGS(x), NULL, 0));
    tell(s, "x", x);
}
TEST(a_body_may_return_nothing) { check_scene(no_results, nothing_back); }

/* ---- random numbers ----------------------------------------------------- */

static bool dropping(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_tensor *h = td_dropout(td_mul(x, 2.0), 0.5, true);
    return td_return(c, td_mul(td_exp(h), td_rand(td_call_ctx(c), TD_SHAPE(3))));
}
static void random_numbers(side *s) {
    td_tensor *x = leaf(s->cx, TD_SHAPE(4, 3), 0.1);
    for (int call = 0; call < 3; call++) {
        td_grad_opts make = {TD_GRAD_OPTS, .create_graph = call == 1};
        td_tensor   *y = ask1(s, TD_ARGS(x)), *g;
        tell(s, "y", y);
        td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, &make);
        tell_grad(s, "g", g);
        if (call == 1) td_grad(TD_LIST(td_sum(td_mul(g, g))), TD_LIST(x), &g, NULL);
        tell_grad(s, "gg", g);
        tell(s, "drawn", td_rand(s->cx, TD_SHAPE(2)));
        say(s, "offset %llu\n", (unsigned long long)td_rng_offset(s->cx));
    }
}
TEST(random_numbers_are_eagers_bit_for_bit) { check_scene(random_numbers, dropping); }
