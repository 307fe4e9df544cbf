/* user_ops.c -- ops that a program registers: called, differentiated, compiled. */
#include "td_test.h"

#include "tandem/tandem.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* ---- ops ---------------------------------------------------------------- */

static int  n_cubes;
static bool cube(const td_op_run *r) {
    const float *x = td_data(r->in[0].u.t);
    float       *y = td_data(r->out[0]);
    n_cubes++;
    for (int64_t i = 0; i < td_numel(r->out[0]); i++) y[i] = x[i] * x[i] * x[i];
    return true;
}

static bool register_cube(td_ctx *cx) {
    return td_register_op(
        cx, &(td_op_opts){TD_OP_OPTS, .schema = "my_cube(Tensor x) -> Tensor",
                          .doc = "x * x * x.", .shape = "x", .kernel = cube,
                          .derivative = "x: 3 * g * x * x", .dtypes = TD_ONLY(TD_F32),
                          .in_place = true, .version = 1});
}

static td_tensor *my_cube(td_tensor *x) {
    td_tensor *y;
    td_call_op(td_ctx_of(x), "my_cube", TD_ARGS(x), &y, 1);
    return y;
}

static bool cubes(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(my_cube(td_sin(x)), x));
}

/* Sum of the gradient of a body at x, and the sum of its gradient. */
static double second_gradient(td_ctx *cx, td_fn *f, td_body *body, td_tensor *x,
                              double *first) {
    td_tensor   *y = NULL, *g, *gg;
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    td_value     v = TD_NONE;
    if (f) td_invoke(f, TD_ARGS(x), &y, 1);
    else if (td_call_body(cx, body, NULL, TD_ARGS(x), &v, 1) == 1) y = v.u.t;
    if (!y || !td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, &o)) return NAN;
    *first = td_item(td_sum(g));
    return td_grad(TD_LIST(td_sum(g)), TD_LIST(x), &gg, NULL) ? td_item(td_sum(gg))
                                                              : NAN;
}

TEST(a_registered_op_is_differentiated_twice_eager_and_compiled) {
    td_ctx *cx = td_open();
    double  eager, compiled;
    CHECK(register_cube(cx) && register_cube(cx));
    td_tensor *x = td_requires_grad_(td_linspace(cx, -1.0, 2.0, 7));
    td_fn     *f = td_aot_function(cx, cubes, NULL, NULL);
    double     a = second_gradient(cx, NULL, cubes, x, &eager);
    double     b = second_gradient(cx, f, cubes, x, &compiled);
    CHECK_OK(cx);
    CHECK(eager == compiled && a == b && isfinite(a));
    td_tensor *s = td_sin(x), *c = td_cos(x); /* d/dx x sin^3 */
    td_tensor *want =
        td_add(td_mul(td_mul(s, s), s), td_mul(td_mul(td_mul(td_mul(s, s), c), x), 3));
    CHECK_NEAR(eager, td_item(td_sum(want)), 1e-4);
    td_close(cx);
}

TEST(a_registered_op_takes_strides_and_any_size) {
    td_ctx *cx = td_open();
    CHECK(register_cube(cx));
    td_tensor *x = td_transpose(td_reshape(td_arange(cx, 6), TD_SHAPE(2, 3)), 0, 1);
    td_tensor *y = my_cube(td_to(x, TD_F32));
    CHECK(td_size(y, 0) == 3 && td_stride(y, 0) == 2);
    CHECK(td_item(td_select(td_select(y, 0, 2), 0, 1)) == 125);
    td_aot_opts o = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};
    td_fn      *f = td_aot_function(cx, cubes, NULL, &o);
    for (int n = 2; n < 6; n++) {
        td_tensor *v = td_requires_grad_(td_ones(cx, TD_SHAPE(n))), *z;
        CHECK(td_invoke(f, TD_ARGS(v), &z, 1) && td_backward(td_sum(z)));
        CHECK_NEAR(td_item(td_sum(z)), n * pow(sin(1), 3), 1e-5);
    }
    CHECK(td_fn_specializations(f) == 1);
    CHECK_OK(cx);
    td_close(cx);
}

static bool cube_in_place(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y;
    td_call_op(td_call_ctx(c), "my_cube_", TD_ARGS(x), &y, 1);
    return td_return(c, td_add(y, 1));
}

TEST(the_in_place_form_writes_in_compiled_functions_too) {
    td_ctx *cx = td_open();
    CHECK(register_cube(cx));
    td_fn *f = td_aot_function(cx, cube_in_place, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        td_tensor *leaf = td_requires_grad_(td_full(cx, TD_SHAPE(2), 2.0));
        td_tensor *x = td_mul(leaf, 1), *y;
        td_value   v;
        if (i) CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
        else CHECK(td_call_body(cx, cube_in_place, NULL, TD_ARGS(x), &v, 1) == 1);
        y = i ? y : v.u.t;
        CHECK(td_version(x) == 1 && td_item(td_sum(x)) == 16);
        CHECK(td_backward(td_sum(y)) && td_item(td_sum(td_grad_of(leaf))) == 24);
    }
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- complex tensors ---------------------------------------------------- */

static bool turn(const td_op_run *r) {
    const float *x = td_data(r->in[0].u.t);
    float       *y = td_data(r->out[0]);
    for (int64_t i = 0; i < td_numel(r->out[0]); i++) {
        y[2 * i] = -x[2 * i + 1];
        y[2 * i + 1] = x[2 * i];
    }
    return true;
}

/* The gradient times the conjugate of i. */
static bool turn_back(const td_op_run *r) {
    td_tensor *y;
    if (!td_call_op(r->cx, "my_turn", TD_ARGS(td_conj(r->g[0])), &y, 1)) return false;
    r->grad[0] = td_conj(y);
    return td_ok(r->cx);
}

static bool turns(td_call *c) {
    td_tensor *y;
    td_call_op(td_call_ctx(c), "my_turn", TD_ARGS(td_mul(td_arg(c, 0), 1)), &y, 1);
    td_call_op(td_call_ctx(c), "my_turn_", TD_ARGS(y), &y, 1);
    return td_return(c, td_real(td_mul(y, y)));
}

static bool cubes_of_pairs(td_call *c) {
    td_tensor *y = td_mul(td_arg(c, 0), 1);
    td_call_op(td_call_ctx(c), "my_cube", TD_ARGS(y), &y, 1);
    return td_return(c, y);
}

/* Runs a body eagerly, or compiled, on pairs (1, 2) as complex numbers; the sum of the
 * gradient of the pairs. */
static double of_pairs(td_ctx *cx, td_body *body, bool compiled) {
    static const float pairs[] = {1, 2, 1, 2};
    td_tensor *x = td_requires_grad_(td_from(cx, TD_F32, TD_SHAPE(2, 2), pairs));
    td_tensor *z = td_view_as_complex(x), *y = NULL;
    td_value   v = TD_NONE;
    if (compiled) td_invoke(td_aot_function(cx, body, NULL, NULL), TD_ARGS(z), &y, 1);
    else if (td_call_body(cx, body, NULL, TD_ARGS(z), &v, 1) == 1) y = v.u.t;
    return td_ok(cx) && td_backward(td_sum(y)) ? td_item(td_sum(td_grad_of(x))) : NAN;
}

TEST(complex_arguments_are_for_ops_whose_dtypes_say_so) {
    td_ctx *cx = td_open();
    CHECK(register_cube(cx));
    CHECK(td_register_op(
        cx, &(td_op_opts){TD_OP_OPTS, .schema = "my_turn(Tensor x) -> Tensor",
                          .shape = "x", .kernel = turn, .backward = turn_back,
                          .dtypes = TD_ONLY(TD_C64), .in_place = true}));
    CHECK(
        td_register_op(cx,
                       &(td_op_opts){TD_OP_OPTS, .schema = "my_any(Tensor x) -> Tensor",
                                     .shape = "x", .kernel = turn, .in_place = true}));
    for (int compiled = 0; compiled < 2; compiled++) {
        CHECK(of_pairs(cx, turns, compiled) == -4); /* Re z^2: 2 x - 2 y each */
        CHECK_OK(cx);
        CHECK(isnan(of_pairs(cx, cubes_of_pairs, compiled)));
        CHECK(strstr(td_message(cx), "my_cube is not defined on complex numbers"));
        td_clear(cx);
    }
    td_tensor *z = td_complex(td_ones(cx, TD_SHAPE(2)), td_ones(cx, TD_SHAPE(2))), *y;
    static const char *const names[] = {"my_any", "my_any_"};
    for (int i = 0; i < 2; i++) {
        CHECK(!td_call_op(cx, names[i], TD_ARGS(z), &y, 1));
        CHECK(td_error(cx) == TD_E_DTYPE);
        CHECK(strstr(td_message(cx), "is not defined on complex numbers"));
        td_clear(cx);
    }
    td_close(cx);
}

/* test_custom_triton_kernel: a kernel between products, recomputed or saved. */
static bool cube_of_product(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_sum(td_matmul(my_cube(td_matmul(x, x)), td_sin(x))));
}

TEST(a_registered_op_between_products_works_under_every_budget) {
    td_ctx *cx = td_open();
    double  want = 0;
    CHECK(register_cube(cx));
    static const char *const budgets[] = {NULL, "0", "0.25", "0.5", "0.75", "1"};
    for (int i = 0; i < 6; i++) {
        if (i) td_config_set(cx, "memory_budget", budgets[i]);
        td_fn *f = i ? td_aot_function(cx, cube_of_product, NULL, NULL) : NULL;
        td_seed(cx, 3);
        td_tensor *x = td_requires_grad_(td_randn(cx, TD_SHAPE(4, 4))), *y;
        td_value   v;
        if (f) CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
        else CHECK(td_call_body(cx, cube_of_product, NULL, TD_ARGS(x), &v, 1) == 1);
        CHECK(td_backward(f ? y : v.u.t));
        double sum = td_item(td_sum(td_abs(td_grad_of(x))));
        if (i == 0) want = sum;
        CHECK(fabs(sum - want) <= 1e-5 * want);
    }
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- several results, shapes and backward in C ----------------------------- */

static bool shape_of_split(const td_op_run *r) {
    for (int i = 0; i < 2; i++) {
        r->result[i].dtype = td_dtype_of(r->in[0].u.t);
        r->result[i].rank = 1;
        r->result[i].size[0] = td_numel(r->in[0].u.t) / 2;
    }
    return td_rank(r->in[0].u.t) == 1 ||
           (td_fail(r->cx, TD_E_SHAPE, "my_halves: give a vector"), false);
}
static bool halves(const td_op_run *r) {
    int64_t       n = td_numel(r->out[0]);
    const double *x = td_data(r->in[0].u.t);
    double        s = r->in[1].u.f;
    for (int64_t i = 0; i < n; i++) {
        ((double *)td_data(r->out[0]))[i] = x[i] * s;
        ((double *)td_data(r->out[1]))[i] = x[n + i] * s;
    }
    return true;
}
static bool halves_back(const td_op_run *r) {
    td_tensor *g[2];
    for (int i = 0; i < 2; i++) {
        g[i] = r->g[i];
        if (!g[i]) g[i] = td_zeros_like(r->g[!i]);
    }
    if (r->need[0]) r->grad[0] = td_mul(td_cat(TD_LIST(g[0], g[1]), 0), r->in[1].u.f);
    return td_ok(r->cx);
}
static bool uses_halves(td_call *c) {
    td_tensor *y[2];
    if (!td_call_op(td_call_ctx(c), "my_halves", TD_ARGS(td_arg(c, 0)), y, 2))
        return false;
    return td_return(c, td_mul(td_mul(y[0], y[0]), y[1]));
}

TEST(shapes_and_gradients_may_be_c_functions) {
    td_ctx *cx = td_open();
    CHECK(td_register_op(
        cx, &(td_op_opts){TD_OP_OPTS,
                          .schema = "my_halves(Tensor x, float s=2.0) -> (Tensor a, "
                                    "Tensor b)",
                          .shape_fn = shape_of_split, .kernel = halves,
                          .backward = halves_back, .dtypes = TD_ONLY(TD_F64)}));
    td_tensor *x = td_requires_grad_(td_to(td_arange(cx, 4), TD_F64));
    td_fn     *f = td_aot_function(cx, uses_halves, NULL, NULL);
    double     eager, compiled;
    double     a = second_gradient(cx, NULL, uses_halves, x, &eager);
    double     b = second_gradient(cx, f, uses_halves, x, &compiled);
    CHECK_OK(cx);
    CHECK(eager == compiled && a == b && eager == 8 * (2 * 3 + 0 + 1 + 2 * 0));
    td_tensor *y[2];
    CHECK(!td_call_op(cx, "my_halves", TD_ARGS(td_ones(cx, TD_SHAPE(2, 2), TD_F64)), y,
                      2));
    CHECK(strstr(td_message(cx), "give a vector") != NULL);
    td_clear(cx);
    CHECK(!td_call_op(cx, "my_halves", TD_ARGS(td_ones(cx, TD_SHAPE(4))), y, 2));
    CHECK(td_error(cx) == TD_E_DTYPE);
    td_clear(cx);
    td_close(cx);
}

/* ---- effects ------------------------------------------------------------ */

static char seen[64];
static bool note(const td_op_run *r) {
    strncat(seen, r->in[1].u.s, sizeof seen - strlen(seen) - 1);
    memcpy(td_data(r->out[0]), td_data(r->in[0].u.t), 4 * (size_t)td_numel(r->out[0]));
    return true;
}
static bool note_back(const td_op_run *r) {
    return td_call_op(r->cx, "my_note", TD_ARGS(r->g[0], td_value_str("g")), r->grad,
                      1);
}
static bool register_note(td_ctx *cx) {
    return td_register_op(
        cx, &(td_op_opts){TD_OP_OPTS, .schema = "my_note(Tensor x, str s) -> Tensor",
                          .shape = "x", .kernel = note, .backward = note_back,
                          .effect = TD_EFFECT_ORDERED});
}
static bool notes(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *x = td_arg(c, 0), *a, *b, *unused;
    td_call_op(cx, "my_note", TD_ARGS(td_exp(x), td_value_str("a")), &a, 1);
    td_call_op(cx, "my_note", TD_ARGS(x, td_value_str("u")), &unused, 1);
    td_call_op(cx, "my_note", TD_ARGS(td_sin(a), td_value_str("b")), &b, 1);
    return td_return(c, td_mul(b, b));
}

TEST(effects_happen_as_often_and_in_the_order_of_eager) {
    td_ctx *cx = td_open();
    CHECK(register_note(cx));
    td_fn *f = td_aot_function(cx, notes, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3))), *y;
        td_value   v;
        seen[0] = 0;
        if (i) CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
        else CHECK(td_call_body(cx, notes, NULL, TD_ARGS(x), &v, 1) == 1);
        TD_CHECK_THAT(!strcmp(seen, "aub"), "run %d: %s", i, seen);
        CHECK(td_backward(td_sum(i ? y : v.u.t)));
        TD_CHECK_THAT(!strcmp(seen, "aubgg"), "run %d: %s", i, seen);
    }
    CHECK_OK(cx);
    td_close(cx);
}

static bool noting_branch(td_call *c) {
    td_tensor *y;
    return td_call_op(td_call_ctx(c), "my_note",
                      TD_ARGS(td_arg(c, 0), td_value_str("n")), &y, 1) &&
           td_return(c, y);
}
static bool quiet_branch(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), 2)); }
static bool branches(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *y;
    td_branches of = {.yes = noting_branch, .no = quiet_branch};
    return td_cond(td_gt(td_sum(td_detach(x)), 0.0), of, TD_ARGS(x), &y, 1) &&
           td_return(c, y);
}

TEST(the_backward_of_a_branch_does_not_repeat_an_effect) {
    td_ctx *cx = td_open();
    CHECK(register_note(cx));
    td_fn     *f = td_aot_function(cx, branches, NULL, NULL);
    td_tensor *x = td_ones(cx, TD_SHAPE(3)), *y;
    seen[0] = 0;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && !strcmp(seen, "n"));
    CHECK(td_invoke(f, TD_ARGS(td_neg(x)), &y, 1) && !strcmp(seen, "n"));
    td_requires_grad_(x);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && !strcmp(seen, "nn"));
    CHECK(td_backward(td_sum(y)) && !strcmp(seen, "nng"));
    CHECK(td_item(td_sum(td_grad_of(x))) == 3);
    CHECK_OK(cx);
    for (int n = 4; n < 6; n++) { /* sizes become symbols */
        x = td_requires_grad_(td_ones(cx, TD_SHAPE(n)));
        seen[0] = 0;
        CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(td_sum(y)));
        CHECK_OK(cx);
        CHECK_STR(seen, "ng");
    }
    td_close(cx);
}

/* ---- mistakes ----------------------------------------------------------- */

TEST(mistakes_in_a_registration_are_errors_that_name_them) {
    static const struct {
        td_op_opts  o;
        const char *says;
    } all[] = {
        {{TD_OP_OPTS, .kernel = cube}, "opts.schema is NULL"},
        {{TD_OP_OPTS, .schema = "nonsense", .kernel = cube}, "td_register_op: "},
        {{TD_OP_OPTS, .schema = "add(Tensor x) -> Tensor", .shape = "x",
          .kernel = cube},
         "there is another op add already"},
        {{TD_OP_OPTS, .schema = "my_b(Tensor x) -> Tensor", .kernel = cube},
         "one of .shape and .shape_fn"},
        {{TD_OP_OPTS, .schema = "my_b(Tensor x) -> Tensor", .shape = "y",
          .kernel = cube},
         "unknown name y"},
        {{TD_OP_OPTS, .schema = "my_b(Tensor x) -> Tensor", .shape = "x; x",
          .kernel = cube},
         "1 formulas"},
        {{TD_OP_OPTS, .schema = "my_b(Tensor x) -> Tensor", .shape = "x",
          .kernel = cube, .derivative = "z: g"},
         "td_register_op: my_b: a derivative is for z, which is no argument"},
        {{TD_OP_OPTS, .schema = "my_b(Tensor(a!) x) -> Tensor(a!)", .shape = "x",
          .kernel = cube},
         "written or aliased"},
        {{TD_OP_OPTS, .schema = "my_b(Tensor x) -> ()", .kernel = cube}, ".effect"},
        {{TD_OP_OPTS, .schema = "My(Tensor x) -> Tensor", .shape = "x", .kernel = cube},
         "must consist of"},
    };
    td_ctx *cx = td_open();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK(!td_register_op(cx, &all[i].o));
        TD_CHECK_THAT(strstr(td_message(cx), all[i].says), "%d: %s", (int)i,
                      td_message(cx));
        td_clear(cx);
    }
    td_tensor *y, *x = td_ones(cx, TD_SHAPE(2));
    CHECK(!td_call_op(cx, "my_b", TD_ARGS(x), &y, 1) && td_is_nil(y));
    CHECK(strstr(td_message(cx), "there is no op my_b") != NULL);
    td_clear(cx);
    CHECK(td_call_op(cx, "add", TD_ARGS(x, 2.0), &y, 1) && td_item(td_sum(y)) == 6);
    CHECK_OK(cx);
    td_close(cx);
}

static bool plain(const td_op_run *r) {
    memcpy(td_data(r->out[0]), td_data(r->in[0].u.t), 4 * (size_t)td_numel(r->out[0]));
    return td_numel(r->out[0]) != 3;
}

TEST(an_op_without_a_derivative_fails_in_backward) {
    td_ctx *cx = td_open();
    CHECK(td_register_op(cx, &(td_op_opts){TD_OP_OPTS,
                                           .schema = "my_plain(Tensor x) -> Tensor",
                                           .shape = "x", .kernel = plain}));
    td_tensor *y, *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    CHECK(td_call_op(cx, "my_plain", TD_ARGS(x), &y, 1));
    CHECK(!td_backward(td_sum(y)) && td_error(cx) == TD_E_GRAD);
    CHECK(strstr(td_message(cx), "without a derivative") != NULL);
    td_clear(cx);
    CHECK(!td_call_op(cx, "my_plain", TD_ARGS(td_ones(cx, TD_SHAPE(3))), &y, 1));
    CHECK(strstr(td_message(cx), "my_plain: its kernel returned false") != NULL);
    td_clear(cx);
    td_close(cx);
}
