/* user_op_lists.c -- registered ops that take lists of tensors. */
#include "td_test.h"

#include "tandem/tandem.h"

#include <math.h>
#include <string.h>

/* ---- ops ---------------------------------------------------------------- */

/* Joins vectors, each multiplied by itself and a number. */
static bool squares(const td_op_run *r) {
    float *y = td_data(r->out[0]);
    for (uint32_t k = 0; k < r->in[0].n; k++) {
        const float *x = td_data(r->in[0].u.ts[k]);
        for (int64_t i = 0; i < td_numel(r->in[0].u.ts[k]); i++)
            *y++ = (float)r->in[1].u.f * x[i] * x[i];
    }
    return true;
}

static bool squares_back(const td_op_run *r) {
    int64_t at = 0;
    for (uint32_t k = 0; k < r->in[0].n; k++) {
        td_tensor *x = r->in[0].u.ts[k];
        int64_t    n = td_size(x, 0);
        td_tensor *g = td_narrow(r->g[0], 0, at, n);
        if (r->list_need[0][k])
            r->list_grad[0][k] = td_mul(td_mul(g, x), 2 * r->in[1].u.f);
        at += n;
    }
    return td_ok(r->cx);
}

static bool register_squares(td_ctx *cx) {
    return td_register_op(
        cx, &(td_op_opts){TD_OP_OPTS,
                          .schema = "my_squares(Tensor[] xs, float s=1.0) -> Tensor",
                          .shape = "cat(xs, 0)", .kernel = squares,
                          .backward = squares_back, .saves = "xs",
                          .dtypes = TD_ONLY(TD_F32), .version = 1});
}

static td_tensor *my_squares(td_tensor *const *x, int n, double s) {
    td_tensor *y;
    td_call_op(td_ctx_of(x[0]), "my_squares", TD_ARGS(td_value_tensors(x, n), s), &y,
               1);
    return y;
}

/* ---- calls -------------------------------------------------------------- */

/* The list has one tensor twice, one that is no leaf and one without gradients. */
static bool body(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_tensor *list[] = {x, td_sin(w), x, td_detach(w)};
    return td_return(c, td_mul(my_squares(list, 4, 3.0), 0.5));
}

/* Sums of the result, of the gradients, and of the gradients of their sum. */
static bool sums(td_ctx *cx, td_fn *f, int64_t n, double to[4]) {
    td_tensor   *x = td_requires_grad_(td_linspace(cx, -1.0, 2.0, n));
    td_tensor   *w = td_requires_grad_(td_linspace(cx, 0.5, 1.0, 3));
    td_tensor   *y = NULL, *g[2], *gg[2];
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    td_value     v = TD_NONE;
    if (f) td_invoke(f, TD_ARGS(x, w), &y, 1);
    else if (td_call_body(cx, body, NULL, TD_ARGS(x, w), &v, 1) == 1) y = v.u.t;
    if (!y || !td_grad(TD_LIST(td_sum(y)), TD_LIST(x, w), g, &o)) return false;
    td_tensor *both = td_add(td_sum(g[0]), td_sum(g[1]));
    to[0] = td_item(td_sum(y));
    to[1] = td_item(both);
    if (!td_grad(TD_LIST(both), TD_LIST(x, w), gg, NULL)) return false;
    to[2] = td_item(td_sum(gg[0]));
    to[3] = td_item(td_sum(gg[1]));
    return td_ok(cx);
}

static bool same(const double a[4], const double b[4]) {
    bool ok = true;
    for (int i = 0; i < 4; i++) ok = ok && fabs(a[i] - b[i]) < 1e-5 * (1 + fabs(b[i]));
    return ok;
}

TEST(a_list_is_differentiated_twice_eager_and_compiled) {
    td_ctx     *cx = td_open();
    double      eager[4], compiled[4];
    td_aot_opts o = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};
    CHECK(register_squares(cx) && register_squares(cx));
    td_fn *f = td_aot_function(cx, body, NULL, NULL);
    td_fn *any = td_aot_function(cx, body, NULL, &o);
    for (int64_t n = 4; n < 7; n++) {
        CHECK(sums(cx, NULL, n, eager));
        CHECK(sums(cx, f, n, compiled) && same(compiled, eager));
        CHECK(sums(cx, any, n, compiled) && same(compiled, eager));
    }
    /* d/dx of 1.5 x^2, twice in the list, and of 1.5 sin(w)^2 */
    CHECK(fabs(eager[2] - 6 * 6) < 1e-5);
    td_fn_drop(f);
    td_fn_drop(any);
    td_close(cx);
}

TEST(entries_of_a_list_are_row_major_for_the_kernel) {
    td_ctx    *cx = td_open();
    td_tensor *base = td_linspace(cx, 0.0, 5.0, 6), *y;
    td_tensor *list[2];
    CHECK(register_squares(cx));
    list[0] = td_select(td_reshape(base, TD_SHAPE(3, 2)), 1, 1); /* 1 3 5 */
    list[1] = td_flip(list[0], TD_DIMS(0));
    y = my_squares(list, 2, 1.0);
    CHECK(td_size(y, 0) == 6 && td_item(td_sum(y)) == 70);
    CHECK(td_item(td_select(y, 0, 2)) == 25 && td_item(td_select(y, 0, 3)) == 25);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(mistakes_with_lists_are_named) {
    td_ctx    *cx = td_open();
    td_tensor *y,
        *list[2] = {td_ones(cx, TD_SHAPE(2)), td_ones(cx, TD_SHAPE(2), TD_F64)};
    CHECK(register_squares(cx));
    CHECK(!td_call_op(cx, "my_squares", TD_ARGS(td_value_tensors(list, 2)), &y, 1));
    CHECK(td_error(cx) == TD_E_DTYPE);
    CHECK(strstr(td_message(cx), "argument xs is f64[2]; the op was registered"));
    td_clear(cx);
    CHECK(!td_call_op(cx, "my_squares", TD_ARGS(list[0]), &y, 1) && td_is_nil(y));
    CHECK(td_error(cx) == TD_E_ARG);
    td_clear(cx);
    list[1] = NULL;
    CHECK(!td_call_op(cx, "my_squares", TD_ARGS(td_value_tensors(list, 2)), &y, 1));
    td_clear(cx);
    CHECK(!td_call_op(cx, "my_squares", TD_ARGS(td_value_tensors(NULL, 0)), &y, 1));
    td_clear(cx);
    td_op_opts o = {TD_OP_OPTS, .schema = "my_holes(Tensor?[] xs) -> Tensor",
                    .shape = "xs", .kernel = squares};
    CHECK(!td_register_op(cx, &o) && strstr(td_message(cx), "list with holes"));
    td_clear(cx);
    o.schema = "my_list(Tensor[] xs) -> Tensor";
    o.shape = "cat(xs)";
    o.derivative = "xs: g";
    CHECK(!td_register_op(cx, &o) && strstr(td_message(cx), "by entry"));
    td_close(cx);
}

/* ---- effects ------------------------------------------------------------ */

static int  counted;
static bool count(const td_op_run *r) {
    counted = 10 * counted + (int)r->in[0].n;
    return true;
}

static bool counts(td_call *c) {
    td_tensor *x = td_arg(c, 0), *list[] = {x, td_neg(x), x};
    td_ctx    *cx = td_call_ctx(c);
    td_call_op(cx, "my_count_list", TD_ARGS(td_value_tensors(list, 3)), NULL, 0);
    td_call_op(cx, "my_count_list", TD_ARGS(td_value_tensors(list, 2)), NULL, 0);
    return td_return(c, td_exp(x));
}

TEST(a_list_may_be_read_by_an_op_with_an_effect) {
    td_ctx    *cx = td_open();
    td_tensor *y, *x = td_ones(cx, TD_SHAPE(2));
    CHECK(td_register_op(cx,
                         &(td_op_opts){TD_OP_OPTS,
                                       .schema = "my_count_list(Tensor[] xs) -> ()",
                                       .kernel = count, .effect = TD_EFFECT_ORDERED}));
    td_fn *f = td_aot_function(cx, counts, NULL, NULL);
    counted = 0;
    CHECK(td_invoke(f, TD_ARGS(td_requires_grad_(td_clone(x))), &y, 1));
    CHECK(counted == 32 && td_backward(td_sum(y)) && counted == 32);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}
