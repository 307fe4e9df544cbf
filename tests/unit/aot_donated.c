/* aot_donated.c -- saved values and tangents that nobody else can look at belong to the
 * backward code (donated_buffers): it frees and reuses them on the way. */
#include "aot_help.h"

/* ---- memory ------------------------------------------------------------- */

enum { LAYERS = 8, WIDE = 128, UNIT = WIDE * WIDE * 4 };

/* One hidden activation for each layer; gradients of weights have the same size. */
static bool layers(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    for (int i = 1; i <= LAYERS; i++) x = td_tanh(td_matmul(x, td_arg(c, i)));
    return td_return(c, td_sum(x));
}

/* Bytes that the backward of @layers needs beyond what forward left; the gradients'
 * sums go to `sums`. */
static size_t backward_peak(const char *donated, double *sums) {
    td_ctx *cx = td_open();
    td_config_set(cx, "donated_buffers", donated);
    td_config_set(cx, "partition", "default"); /* all activations are saved */
    td_config_set(cx, "lazy_backward", "off");
    td_value   args[LAYERS + 1];
    td_tensor *out[1];
    td_seed(cx, 5);
    args[0] = td_value_tensor(td_randn(cx, TD_SHAPE(WIDE, WIDE)));
    for (int i = 1; i <= LAYERS; i++)
        args[i] = td_value_tensor(
            td_requires_grad_(td_mul(td_randn(cx, TD_SHAPE(WIDE, WIDE)), 0.1)));
    td_fn *f = td_aot_function(cx, layers, NULL, NULL);
    CHECK(td_invoke(f, (td_values){args, LAYERS + 1}, out, 1));
    td_memory_peak_reset();
    size_t before = td_memory_peak();
    CHECK(td_backward(out[0]));
    size_t peak = td_memory_peak() - before;
    for (int i = 1; i <= LAYERS; i++)
        sums[i - 1] = td_item(td_sum(td_grad_of(args[i].u.t)));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
    return peak;
}

TEST(a_backward_frees_saved_values_on_the_way) {
    double on[LAYERS], off[LAYERS];
    size_t with = backward_peak("on", on), without = backward_peak("off", off);
    CHECK(!memcmp(on, off, sizeof on));
    /* without: all gradients beside all activations */
    CHECK(without >= LAYERS * (size_t)UNIT);
    CHECK(with <= without - (LAYERS - 3) * (size_t)UNIT);
}

/* ---- which values ------------------------------------------------------- */

static struct {
    td_runner code;
    bool      own[8];
    int       n, calls;
} spy;

static bool spy_take(void *env, td_ctx *cx, const td_value *in, const bool *own,
                     td_value *out) {
    spy.calls++;
    for (int i = 0; i < spy.n; i++) spy.own[i] = own[i];
    return spy.code.take(env, cx, in, own, out);
}

/* Notes which inputs the backward code of f's only specialization is given. */
static void watch(td_fn *f) {
    td_back *b = &f->specs->plan->back;
    spy.code = b->code;
    spy.n = b->g->inputs.n;
    spy.calls = 0;
    memset(spy.own, 0, sizeof spy.own);
    b->code.take = spy_take;
}

static bool   one_relu(td_call *c) { return td_return(c, td_relu(td_arg(c, 0))); }
static bool   one_exp(td_call *c) { return td_return(c, td_sum(td_exp(td_arg(c, 0)))); }
static td_fn *compile_eagerly(td_ctx *cx, td_body *body) {
    td_config_set(cx, "lazy_backward", "off");
    td_config_set(cx, "partition", "default");
    return td_aot_function(cx, body, NULL, NULL);
}

TEST(a_saved_value_of_the_call_is_donated) {
    td_ctx    *cx = td_open();
    td_fn     *f = compile_eagerly(cx, one_exp);
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(6))), *out[1];
    CHECK(td_invoke(f, TD_ARGS(x), out, 1));
    watch(f);
    CHECK(td_backward(out[0]));
    CHECK(spy.calls == 1 && spy.own[0]);
    CHECK(fabs(td_item(td_sum(td_grad_of(x))) - 6 * exp(1)) < 1e-4);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(what_the_user_can_see_is_not_donated) {
    td_ctx    *cx = td_open();
    td_fn     *f = compile_eagerly(cx, product), *g = compile_eagerly(cx, one_relu);
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(6), 3.0)), *y[1], *z[1];
    td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(6), 2.0));
    td_tensor *ones = td_ones(cx, TD_SHAPE(6));
    CHECK(td_invoke(f, TD_ARGS(x, w), y, 1)); /* saves its arguments */
    watch(f);
    CHECK(td_backward_with((td_tensors){y, 1}, (td_tensors){&ones, 1}, NULL));
    CHECK(spy.calls == 1 && !spy.own[0] && !spy.own[1] && !spy.own[2]);
    CHECK(td_item(td_sum(ones)) == 6 && td_item(td_sum(x)) == 18);
    CHECK(td_invoke(g, TD_ARGS(x), z, 1)); /* saves its result, or a mask */
    CHECK(td_backward(td_sum(z[0])));
    CHECK(td_item(td_sum(z[0])) == 18);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
}

TEST(retain_graph_donates_no_saved_value) {
    td_ctx          *cx = td_open();
    td_fn           *f = compile_eagerly(cx, one_exp);
    td_tensor       *x = td_requires_grad_(td_ones(cx, TD_SHAPE(6))), *out[1];
    td_backward_opts keep = {TD_BACKWARD_OPTS, .retain_graph = true};
    CHECK(td_invoke(f, TD_ARGS(x), out, 1));
    watch(f);
    for (int i = 0; i < 2; i++) {
        CHECK(td_backward_with((td_tensors){out, 1}, (td_tensors){0}, &keep));
        CHECK(!spy.own[0]);
    }
    CHECK(td_backward(out[0]));
    CHECK(spy.calls == 3 && spy.own[0]);
    CHECK(fabs(td_item(td_sum(td_grad_of(x))) - 18 * exp(1)) < 1e-4);
    CHECK(!td_backward(out[0])); /* as in eager: the values are gone */
    CHECK(td_error(cx) == TD_E_GRAD);
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(a_tangent_that_only_the_walk_has_is_donated) {
    td_ctx    *cx = td_open();
    td_fn     *f = compile_eagerly(cx, product);
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(6), 3.0)), *y[1];
    td_tensor *w = td_full(cx, TD_SHAPE(6), 2.0);
    CHECK(td_invoke(f, TD_ARGS(x, w), y, 1));
    watch(f);
    CHECK(td_backward(td_sum(td_exp(y[0]))));
    CHECK(spy.calls == 1 && spy.own[spy.n - 1]);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* The gradient of the result is asked for as well: it must survive the backward code
 * that reads it. */
TEST(a_tangent_that_was_asked_for_is_not_donated) {
    td_ctx    *cx = td_open();
    td_fn     *f = compile_eagerly(cx, product);
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(6), 3.0)), *y[1], *got[2];
    td_tensor *w = td_full(cx, TD_SHAPE(6), 2.0);
    CHECK(td_invoke(f, TD_ARGS(x, w), y, 1));
    watch(f);
    td_tensor *loss = td_sum(td_mul(y[0], y[0])), *of[2] = {x, y[0]};
    CHECK(td_grad((td_tensors){&loss, 1}, (td_tensors){of, 2}, got, NULL));
    CHECK(spy.calls == 1 && !spy.own[spy.n - 1]);
    CHECK(td_item(td_sum(got[0])) == 6 * 24 && td_item(td_sum(got[1])) == 6 * 12);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- a backend of the user ---------------------------------------------- */

/* own[] as backward's code got it, as text: "o" owned, "-" not, "n" not a tensor. */
static char given[32];

static bool plain_run(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    const td_graph *g = env;
    (void)cx;
    return td_graph_run(g, in, td_graph_inputs(g), out, td_graph_outputs(g));
}

static bool noting_take(void *env, td_ctx *cx, const td_value *in, const bool *own,
                        td_value *out) {
    int  n = td_graph_inputs(env);
    bool ok = plain_run(env, cx, in, out);
    for (int i = 0; i < n && i < (int)sizeof given - 1; i++) {
        given[i] = own[i] ? 'o' : in[i].kind == TD_K_TENSOR ? '-' : 'n';
        given[i + 1] = 0;
        bool returned = false;
        for (int k = 0; k < td_graph_outputs(env); k++)
            returned |= out[k].kind == TD_K_TENSOR && out[k].u.t == in[i].u.t;
        if (own[i] && !returned) td_drop(in[i].u.t);
    }
    return ok;
}

static bool noting_compile(void *env, const td_graph *g, const td_compile_info *info,
                           td_runner *code) {
    *code = (td_runner){.run = plain_run, .env = (void *)(uintptr_t)g};
    if (info->half == TD_BACKWARD && !env) code->take = noting_take;
    return true;
}

static bool relu_plus(td_call *c) {
    return td_return(c, td_add(td_relu(td_arg(c, 0)), td_arg(c, 1)));
}
static bool view_times(td_call *c) {
    td_tensor *x = td_arg(c, 0), *z = td_arg(c, 1);
    td_tensor *y = td_mm(td_view(x, TD_SHAPE(2, 3)), x);
    return td_return(c, td_add(y, td_relu(z)));
}
static bool mm_of(td_call *c) {
    return td_return(c, td_mm(td_arg(c, 0), td_arg(c, 1)));
}

/* What the backward of a call is given, where a later op reads its result. */
static const char *given_to(td_body *body, td_ints a, td_ints b) {
    td_ctx     *cx = td_open();
    td_backend  ours = {.name = "noting", .compile = noting_compile};
    td_aot_opts o = {TD_AOT_OPTS, .backward = &ours, .partition = TD_PARTITION_DEFAULT};
    td_fn      *f = td_aot_function(cx, body, NULL, &o);
    td_tensor  *x = td_requires_grad_(td_ones(cx, a)), *y[1];
    td_tensor  *w = td_requires_grad_(td_ones(cx, b));
    given[0] = 0;
    CHECK(td_invoke(f, TD_ARGS(x, w), y, 1));
    CHECK(td_backward(td_sum(td_mul(y[0], y[0]))));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
    return given;
}

/* The rows test_donated_buffer1 to 5 of tests/README.md: saved values, then the
 * tangent, which the engine alone has. */
TEST(a_backend_owns_what_the_call_made_and_nobody_else_reads) {
    CHECK_STR(given_to(relu_plus, TD_SHAPE(4), TD_SHAPE(4)), "oo");
    CHECK_STR(given_to(mm_of, TD_SHAPE(3, 3), TD_SHAPE(3, 3)), "--o");
    CHECK_STR(given_to(view_times, TD_SHAPE(3, 2), TD_SHAPE(2, 2)), "-oo");
}

/* A backend without take: the library frees what it donates after run, but not the
 * tangent that run returned as the gradient of w. */
TEST(a_backend_without_take_may_return_a_donated_tangent) {
    td_ctx     *cx = td_open();
    int         no_take = 1;
    td_backend  ours = {.name = "plain", .compile = noting_compile, .env = &no_take};
    td_aot_opts o = {TD_AOT_OPTS, .backward = &ours, .partition = TD_PARTITION_DEFAULT};
    td_fn      *f = td_aot_function(cx, relu_plus, NULL, &o);
    td_tensor  *x = td_requires_grad_(td_ones(cx, TD_SHAPE(6))), *y[1];
    td_tensor  *w = td_requires_grad_(td_ones(cx, TD_SHAPE(6)));
    for (int i = 0; i < 3; i++) {
        td_scope_begin(cx, NULL);
        CHECK(td_invoke(f, TD_ARGS(x, w), y, 1));
        CHECK(td_backward(td_sum(td_mul(y[0], 2.0))));
        td_scope_end(cx, NULL, NULL);
    }
    CHECK(td_item(td_sum(td_grad_of(x))) == 36 && td_item(td_sum(td_grad_of(w))) == 36);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}
