/* user_op_lists.c -- registered ops that take and return lists of tensors. */
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

/* ---- lists as results ---------------------------------------------------- */

/* The rows of a matrix, each multiplied by a number. */
static bool rows(const td_op_run *r) {
    const float *x = td_data(r->in[0].u.t);
    for (int k = 0; k < r->n_out; k++) {
        float  *y = td_data(r->out[k]);
        int64_t n = td_numel(r->out[k]);
        for (int64_t i = 0; i < n; i++) y[i] = (float)r->in[1].u.f * *x++;
    }
    return true;
}

/* Reads its results, which it needs not: y * 0 + g * s. */
static bool rows_back(const td_op_run *r) {
    td_tensor *g[64];
    td_tensors all = {g, r->n_out};
    for (int k = 0; k < r->n_out; k++) {
        td_tensor *none = td_mul(r->out[k], 0.0);
        g[k] = r->g[k] ? td_add(none, td_mul(r->g[k], r->in[1].u.f)) : none;
    }
    if (r->need[0]) r->grad[0] = td_stack(all, 0);
    return td_ok(r->cx);
}

static bool register_rows(td_ctx *cx) {
    return td_register_op(
        cx,
        &(td_op_opts){TD_OP_OPTS,
                      .schema = "my_rows(Tensor x, float s=1.0) -> Tensor[]",
                      .shape = "unbind(x, 0)", .kernel = rows, .backward = rows_back,
                      .saves = "out", .dtypes = TD_ONLY(TD_F32), .version = 1});
}

/* Halves: as C code, so sizes are numbers there. */
static bool halves_shape(const td_op_run *r) {
    const td_tensor *x = r->in[0].u.t;
    td_op_result    *to = td_op_results(r, 2);
    if (!to) return false;
    for (int i = 0; i < 2; i++)
        to[i] = (td_op_result){td_dtype_of(x), 1, {(td_size(x, 0) + 1 - i) / 2}};
    return true;
}
static bool halves(const td_op_run *r) {
    const float *x = td_data(r->in[0].u.t);
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < td_numel(r->out[k]); i++)
            ((float *)td_data(r->out[k]))[i] = *x++;
    return true;
}

/* Each entry negated. */
static bool negated(const td_op_run *r) {
    for (int k = 0; k < r->n_out; k++) td_copy_(r->out[k], td_neg(r->in[0].u.ts[k]));
    return td_ok(r->cx);
}
static bool negated_back(const td_op_run *r) {
    for (int k = 0; k < r->n_out; k++)
        if (r->g[k] && r->list_need[0][k]) r->list_grad[0][k] = td_neg(r->g[k]);
    return td_ok(r->cx);
}

static bool register_more(td_ctx *cx) {
    return td_register_op(cx, &(td_op_opts){TD_OP_OPTS,
                                            .schema = "my_pair(Tensor x) -> Tensor[]",
                                            .shape_fn = halves_shape, .kernel = halves,
                                            .version = 1}) &&
           td_register_op(cx,
                          &(td_op_opts){TD_OP_OPTS,
                                        .schema = "my_turned(Tensor[] xs) -> Tensor[]",
                                        .shape = "xs", .kernel = negated,
                                        .backward = negated_back, .version = 1});
}

/* Of three rows: one has no gradient, one goes through another list. */
static bool rows_body(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *x = td_arg(c, 0), *row[3], *neg[2];
    td_call_op(cx, "my_rows", TD_ARGS(td_sin(x), 3.0), row, 3);
    td_tensor *in[] = {row[2], td_detach(row[0])};
    td_call_op(cx, "my_turned", TD_ARGS(td_value_tensors(in, 2)), neg, 2);
    return td_return(c, td_mul(row[0], neg[0]), neg[1], td_detach(row[1]));
}

static bool row_sums(td_ctx *cx, td_fn *f, int64_t n, double to[4]) {
    td_tensor   *x = td_reshape(td_linspace(cx, -1.0, 2.0, 3 * n), TD_SHAPE(3, n));
    td_tensor   *y[3] = {0}, *g = NULL, *gg = NULL;
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    td_value     v[3] = {TD_NONE, TD_NONE, TD_NONE};
    x = td_requires_grad_(td_clone(x)); /* sizes of a view would be numbers */
    if (f) td_invoke(f, TD_ARGS(x), y, 3);
    else if (td_call_body(cx, rows_body, NULL, TD_ARGS(x), v, 3) == 3)
        for (int i = 0; i < 3; i++) y[i] = v[i].u.t;
    if (!y[0] || !td_ok(cx)) return false;
    to[0] = td_item(td_add(td_sum(y[0]), td_add(td_sum(y[1]), td_sum(y[2]))));
    if (!td_grad(TD_LIST(td_sum(y[0])), TD_LIST(x), &g, &o)) return false;
    to[1] = td_item(td_sum(g));
    to[2] = td_item(td_sum(td_select(g, 0, 1)));
    if (!td_grad(TD_LIST(td_sum(g)), TD_LIST(x), &gg, NULL)) return false;
    to[3] = td_item(td_sum(gg));
    return td_ok(cx);
}

TEST(a_list_of_results_is_differentiated_twice_eager_and_compiled) {
    td_ctx     *cx = td_open();
    double      eager[4], compiled[4];
    td_aot_opts o = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};
    CHECK(register_rows(cx) && register_rows(cx) && register_more(cx));
    td_fn *f = td_aot_function(cx, rows_body, NULL, NULL);
    td_fn *any = td_aot_function(cx, rows_body, NULL, &o);
    for (int64_t n = 4; n < 7; n++) {
        CHECK(row_sums(cx, NULL, n, eager) && eager[2] == 0 && eager[1] != 0);
        CHECK(row_sums(cx, f, n, compiled) && same(compiled, eager));
        CHECK(row_sums(cx, any, n, compiled) && same(compiled, eager));
    }
    CHECK(td_fn_specializations(any) == 1);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_fn_drop(any);
    td_close(cx);
}

TEST(a_list_of_results_has_its_length_from_the_shape) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_linspace(cx, 0.0, 4.0, 5), *y[3], *none[2];
    CHECK(register_rows(cx) && register_more(cx));
    CHECK(td_call_op(cx, "my_pair", TD_ARGS(x), y, 2));
    CHECK(td_size(y[0], 0) == 3 && td_item(td_sum(y[1])) == 7);
    CHECK(td_call_op(cx, "my_rows", TD_ARGS(td_zeros(cx, TD_SHAPE(0, 2))), none, 0));
    CHECK(td_call_op(cx, "my_rows", TD_ARGS(td_ones(cx, TD_SHAPE(1, 2))), y, 1));
    CHECK(!td_call_op(cx, "my_rows", TD_ARGS(td_ones(cx, TD_SHAPE(4, 2))), y, 3));
    CHECK(strstr(td_message(cx), "my_rows: returns 4 tensors, and out has room for 3"));
    td_clear(cx);
    td_tensor *many[40];
    CHECK(td_call_op(cx, "my_rows", TD_ARGS(td_ones(cx, TD_SHAPE(40, 2))), many, 40));
    CHECK(td_item(td_sum(many[39])) == 2);
    CHECK_OK(cx);
    td_close(cx);
}

static bool many_body(td_call *c) {
    td_tensor *row[40], *x = td_arg(c, 0);
    td_call_op(td_call_ctx(c), "my_rows", TD_ARGS(td_exp(x), 2.0), row, 40);
    td_tensor *s = row[0];
    for (int i = 1; i < 40; i++) s = td_add(s, td_mul(row[i], (double)i));
    return td_return(c, s);
}

TEST(a_long_list_of_results_is_compiled) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(40, 700))), *y;
    CHECK(register_rows(cx));
    td_fn *f = td_aot_function(cx, many_body, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(td_sum(y)));
        double row = td_item(td_select(td_select(td_grad_of(x), 0, 39), 0, 5));
        CHECK(fabs(row - 39 * 2 * exp(1.0)) < 1e-3);
        td_zero_grad(x);
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_graph_with_lists_of_results_survives_its_text) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(3, 2)), *y[3], *z[3];
    CHECK(register_rows(cx) && register_more(cx));
    td_program *p = td_capture(cx, rows_body, NULL, TD_ARGS(x));
    char        text[2000];
    CHECK(td_program_text(p, text, sizeof text) < sizeof text);
    CHECK(strstr(text, "my_rows(%") && strstr(text, "my_turned([%"));
    td_gfile *file = td_graphs_parse(cx, text, strlen(text), "rows.td");
    td_fn    *f = td_aot_graph(td_graphs_at(file, 0), NULL);
    td_fn    *g = td_aot_function(cx, rows_body, NULL, NULL);
    CHECK(f && td_invoke(f, TD_ARGS(x), y, 3) && td_invoke(g, TD_ARGS(x), z, 3));
    for (int i = 0; i < 3; i++) CHECK(td_item(td_sum(td_abs(td_sub(y[i], z[i])))) == 0);
    td_graphs_drop(file);
    td_program_drop(p);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
}

TEST(mistakes_with_lists_of_results_are_named) {
    td_ctx    *cx = td_open();
    td_tensor *y[2], *x = td_ones(cx, TD_SHAPE(2));
    td_op_opts o = {TD_OP_OPTS, .schema = "my_bad(Tensor x) -> (Tensor a, Tensor[] b)",
                    .shape = "x; x", .kernel = rows};
    CHECK(!td_register_op(cx, &o) && strstr(td_message(cx), "the only result"));
    td_clear(cx);
    o.schema = "my_bad(Tensor x) -> Tensor[]";
    o.shape = "unbind(x)";
    o.derivative = "x: g";
    CHECK(!td_register_op(cx, &o) && strstr(td_message(cx), "set .backward"));
    td_clear(cx);
    o.derivative = NULL;
    o.in_place = true;
    CHECK(!td_register_op(cx, &o) && strstr(td_message(cx), ".in_place needs"));
    td_clear(cx);
    o.in_place = false;
    o.shape = "x + x";
    CHECK(td_register_op(cx, &o));
    CHECK(!td_call_op(cx, "my_bad", TD_ARGS(x), y, 2) &&
          strstr(td_message(cx), "the shape \"x + x\" gives no list"));
    td_clear(cx);
    o.schema = "my_unsaid(Tensor x) -> Tensor[]";
    o.shape = NULL;
    o.shape_fn = rows;
    CHECK(td_register_op(cx, &o));
    CHECK(!td_call_op(cx, "my_unsaid", TD_ARGS(x), y, 2) &&
          strstr(td_message(cx), "did not call td_op_results"));
    td_clear(cx);
    CHECK(td_op_results(NULL, 1) == NULL);
    td_close(cx);
}

static bool count_rows(const td_op_run *r) {
    counted = 10 * counted + r->n_out;
    return rows(r);
}

static bool counting(td_call *c) {
    td_tensor *row[3], *x = td_arg(c, 0);
    for (int i = 3; i > 1; i--) {
        td_tensor *part = td_narrow(x, 0, 0, i);
        td_call_op(td_call_ctx(c), "my_count_rows", TD_ARGS(part, 2.0), row, i);
    }
    return td_return(c, td_mul(row[1], row[0]));
}

TEST(an_op_with_an_effect_may_return_a_list) {
    td_ctx    *cx = td_open();
    td_tensor *y, *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3, 2)));
    CHECK(td_register_op(
        cx, &(td_op_opts){TD_OP_OPTS,
                          .schema = "my_count_rows(Tensor x, float s=1.0) -> Tensor[]",
                          .shape = "unbind(x, 0)", .kernel = count_rows,
                          .backward = rows_back, .saves = "out",
                          .effect = TD_EFFECT_ORDERED}));
    td_fn *f = td_aot_function(cx, counting, NULL, NULL);
    counted = 0;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && counted == 32);
    CHECK(td_backward(td_sum(y)) && counted == 32);
    CHECK(td_item(td_sum(td_grad_of(x))) == 4 * 4);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}
