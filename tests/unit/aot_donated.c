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
