/* aot_many_args.c -- more arguments, results and gradients than any table on the stack
 * has room for, compiled in each way of calling: what eager gives; without memory an
 * error, after which the call works. */
#include "aot_help.h"

enum { MANY = 70 };

/* y[i] = x[i] * x[i + 1], the even arguments are written, results of odd ones are views
 * of each other. */
static bool chain(td_call *c) {
    td_value v[MANY];
    for (int i = 0; i < MANY; i++) {
        td_tensor *x = td_arg(c, i), *y = td_mul(x, td_arg(c, (i + 1) % MANY));
        v[i] = td_value_tensor(i & 1 ? td_transpose(y, 0, 1) : y);
    }
    for (int i = 0; i < MANY; i += 2) td_mul_(td_detach(td_arg(c, i)), 0.5);
    return td_return_values(c, (td_values){v, MANY});
}

typedef struct sides {
    td_tensor *x[MANY], *y[MANY];
    td_value   args[MANY];
} sides;

static void make(td_ctx *cx, sides *s) {
    for (int i = 0; i < MANY; i++) {
        double v = 1 + i / 64.0;
        s->x[i] = td_requires_grad_(td_mul(td_ones(cx, TD_SHAPE(2, 2)), v));
        s->args[i] = td_value_tensor(s->x[i]);
    }
}

/* Sums of results, of what was written, and of gradients. */
static double sum_up(td_ctx *cx, sides *s) {
    td_tensor *sum = td_zeros(cx, TD_SHAPE());
    for (int i = 0; i < MANY; i++) sum = td_add(sum, td_mul(td_sum(s->y[i]), i + 1.0));
    double all = td_item(sum);
    return td_ok(cx) ? all : 0;
}

static double eager(td_ctx *cx) {
    sides    s;
    td_value out[MANY];
    make(cx, &s);
    if (td_call_body(cx, chain, NULL, (td_values){s.args, MANY}, out, MANY) != MANY)
        return 0;
    for (int i = 0; i < MANY; i++) s.y[i] = out[i].u.t;
    return sum_up(cx, &s);
}

TEST(many_arguments_and_results_are_eagers) {
    td_ctx *cx = td_open();
    sides   s;
    td_fn  *f = td_aot_function(cx, chain, NULL, NULL);
    double  want = eager(cx);
    CHECK_OK(cx);
    make(cx, &s);
    CHECK(td_invoke(f, (td_values){s.args, MANY}, s.y, MANY));
    CHECK_NEAR(sum_up(cx, &s), want, 1e-3);
    for (int i = 0; i < MANY; i++)
        CHECK_NEAR(td_item(td_sum(td_detach(s.x[i]))),
                   4 * (1 + i / 64.0) * (i & 1 ? 1 : 0.5), 1e-4);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

static bool products(td_call *c) {
    td_value v[MANY];
    for (int i = 0; i < MANY; i++)
        v[i] = td_value_tensor(td_mul(td_arg(c, i), td_arg(c, (i + 1) % MANY)));
    return td_return_values(c, (td_values){v, MANY});
}

/* Backward through the last results only, whose tangents are beyond a word of bits. */
static double back(td_ctx *cx, sides *s, int from) {
    td_tensor *sum = td_zeros(cx, TD_SHAPE());
    double     all = 0;
    for (int i = from; i < MANY; i++)
        sum = td_add(sum, td_mul(td_sum(s->y[i]), i + 1.0));
    if (!td_backward(sum)) return 0;
    for (int i = 0; i < MANY; i++)
        if (td_has_grad(s->x[i])) all += (i + 1) * td_item(td_sum(td_grad_of(s->x[i])));
    return all;
}

TEST(gradients_of_many_results_are_eagers) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, products, NULL, NULL);
    for (int from = 0; from < MANY; from += 23) {
        sides    a, b;
        td_value out[MANY];
        make(cx, &a);
        make(cx, &b);
        CHECK(td_call_body(cx, products, NULL, (td_values){a.args, MANY}, out, MANY) ==
              MANY);
        for (int i = 0; i < MANY; i++) a.y[i] = out[i].u.t;
        CHECK(td_invoke(f, (td_values){b.args, MANY}, b.y, MANY));
        double got = back(cx, &b, from);
        CHECK_OK(cx);
        double want = back(cx, &a, from);
        CHECK(want > 0);
        CHECK_NEAR(got, want, 1e-6 * want);
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* One result after the other, without retain_graph: each has its own gradients, those
 * of the others are not there, and none uses up what another needs. */
TEST(backward_of_one_of_many_results_is_eagers) {
    static const int order[] = {0, 69, 62, 63, 64, 67, 1, 65};
    td_ctx          *cx = td_open();
    td_fn           *f = td_aot_function(cx, products, NULL, NULL);
    sides            s;
    make(cx, &s);
    CHECK(td_invoke(f, (td_values){s.args, MANY}, s.y, MANY));
    for (int k = 0; k < TD_COUNT(order); k++) {
        int i = order[k], next = (i + 1) % MANY;
        for (int n = 0; n < MANY; n++) td_zero_grad(s.x[n]);
        td_backward(td_sum(s.y[i]));
        CHECK_OK(cx);
        for (int n = 0; n < MANY; n++)
            TD_CHECK_THAT(td_has_grad(s.x[n]) == (n == i || n == next),
                          "result %d, gradient %d", i, n);
        CHECK_NEAR(td_item(td_sum(td_grad_of(s.x[i]))), 4 * (1 + next / 64.0), 1e-4);
        CHECK_NEAR(td_item(td_sum(td_grad_of(s.x[next]))), 4 * (1 + i / 64.0), 1e-4);
    }
    CHECK(!td_backward(td_sum(s.y[67])) && td_error(cx) == TD_E_GRAD); /* again */
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* Gradients of gradients of the last ones. */
TEST(second_gradients_of_one_of_many_results_are_eagers) {
    td_ctx      *cx = td_open();
    td_fn       *f = td_aot_function(cx, products, NULL, NULL);
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    sides        s;
    td_tensor   *g, *h;
    make(cx, &s);
    CHECK(td_invoke(f, (td_values){s.args, MANY}, s.y, MANY));
    td_tensor *y = td_sum(td_mul(s.y[66], s.y[66]));
    CHECK(td_grad(TD_LIST(y), TD_LIST(s.x[66]), &g, &o));
    CHECK(td_grad(TD_LIST(td_sum(g)), TD_LIST(s.x[67]), &h, NULL));
    /* d/db of 2 a b^2 */
    CHECK_NEAR(td_item(td_sum(h)), 4 * 4 * (1 + 66 / 64.0) * (1 + 67 / 64.0), 1e-3);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* The caller's references go with the call. */
TEST(many_arguments_may_be_taken_over) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, products, NULL, NULL);
    for (int round = 0; round < 2; round++) {
        size_t     live = td_memory_live();
        td_tensor *args[MANY], *y[MANY];
        td_scope_begin(cx, "round");
        for (int i = 0; i < MANY; i++)
            args[i] = td_keep(td_mul(td_ones(cx, TD_SHAPE(2, 2)), i + 1.0));
        CHECK(td_invoke_boxed(f, args, MANY, y, MANY));
        for (int i = 0; i < MANY; i++)
            CHECK(!args[i] &&
                  td_item(td_sum(y[i])) == 4.0 * (i + 1) * ((i + 1) % MANY + 1));
        td_scope_end(cx, "round", NULL);
        CHECK(round == 0 || td_memory_live() == live);
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* The compiled call and its backward, one failure at a time. */
TEST(without_memory_many_arguments_are_an_error_and_work_afterwards) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, products, NULL, NULL);
    sides   s;
    make(cx, &s);
    CHECK(td_invoke(f, (td_values){s.args, MANY}, s.y, MANY));
    double want = back(cx, &s, 0);
    int    failed = 0;
    for (int64_t n = 0, more = 1; more; n += n < 40 ? 1 : 37) {
        td_scope_begin(cx, "try");
        make(cx, &s);
        td__fault_arm(n, false);
        bool   ok = td_invoke(f, (td_values){s.args, MANY}, s.y, MANY);
        double got = ok ? back(cx, &s, 0) : 0;
        more = td__fault_count() > n;
        td__fault_arm(-1, false);
        failed += !td_ok(cx);
        if (!td_ok(cx)) CHECK(td_error(cx) == TD_E_MEMORY);
        else CHECK_NEAR(got, want, 1e-6 * want);
        if (!ok) CHECK(td_is_nil(s.y[0]) && td_is_nil(s.y[MANY - 1]));
        td_clear(cx);
        td_scope_end(cx, "try", NULL);
    }
    CHECK(failed > 10);
    make(cx, &s);
    CHECK(td_invoke(f, (td_values){s.args, MANY}, s.y, MANY));
    double got = back(cx, &s, 0);
    CHECK_NEAR(got, want, 1e-6 * want);
    td_fn_drop(f);
    td_close(cx);
}

TEST(more_results_than_there_are_is_an_error) {
    td_ctx    *cx = td_open();
    td_fn     *f = td_aot_function(cx, product, NULL, NULL);
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *y[3];
    CHECK(!td_invoke(f, TD_ARGS(x, x), y, 3));
    CHECK(td_error(cx) == TD_E_ARG && td_is_nil(y[0]) && td_is_nil(y[2]));
    td_clear(cx);
    td_tensor *args[2] = {td_keep(x), td_keep(x)};
    CHECK(!td_invoke_boxed(f, args, 2, y, 3));
    CHECK(td_error(cx) == TD_E_ARG && td_is_nil(y[0]) && td_is_nil(y[2]) && !args[0]);
    td_clear(cx);
    CHECK(td_invoke(f, TD_ARGS(x, x), y, 1) && td_item(td_sum(y[0])) == 2);
    td_fn_drop(f);
    td_close(cx);
}

/* Of a failure inside the call, and of one before it. */
TEST(values_of_a_call_that_failed_are_nil) {
    td_ctx  *cx = td_open();
    td_fn   *f = td_aot_function(cx, product, NULL, NULL);
    td_value v[2] = {td_value_int(7), td_value_int(7)};
    td_value args[2] = {td_value_tensor(td_nil(cx)), td_value_tensor(td_nil(cx))};
    for (int i = 0; i < 2; i++) {
        CHECK(td_invoke_values(f, (td_values){args, 2}, v, 2) < 0 && !td_ok(cx));
        for (int k = 0; k < 2; k++)
            CHECK(v[k].kind == TD_K_TENSOR && td_is_nil(v[k].u.t));
    }
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}
