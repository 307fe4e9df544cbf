/* decompose_by.c -- decompositions by the user: which calls of an op they replace,
 * where they are asked, and what they may answer. */
#include "cache_help.h"

/* What the function was told, and what it does. */
static int         asked, backward_asked, dropped;
static char        told_scope[64], told_file[64];
static int         told_line;
static const char *only; /* a scope: decline elsewhere */
static enum { RIGHT, TWICE_AS_MUCH, DTYPE, SIZES, STRIDES, NOTHING, BOTH, LIE } answer;

/* tanh(x) = 2 sigmoid(2x) - 1 */
static td_tensor *by_sigmoid(td_tensor *x) {
    return td_sub(td_mul(td_sigmoid(td_mul(x, 2.0)), 2.0), 1.0);
}

static bool run(void *env, td_mode_call *h, const td_op_site *at) {
    td_tensor *x = td_mode_call_arg(h, 0).u.t, *y;
    CHECK(env == &asked && !strcmp(at->op, "tanh") && !strcmp(at->function, "layer"));
    asked++;
    backward_asked += at->half == TD_BACKWARD;
    snprintf(told_scope, sizeof told_scope, "%s", at->scope);
    snprintf(told_file, sizeof told_file, "%s", at->file ? at->file : "");
    told_line = at->line;
    if (only && strcmp(only, at->scope)) return td_mode_call_go(h);
    y = by_sigmoid(x);
    switch (answer) {
    case TWICE_AS_MUCH: y = td_mul(y, 2.0); break;
    case DTYPE: y = td_to(y, TD_F64); break;
    case SIZES: y = td_unsqueeze(y, 0); break;
    case STRIDES: y = td_transpose(td_contiguous(td_transpose(y, 0, 1)), 0, 1); break;
    case NOTHING: return true;
    case BOTH: return td_mode_call_go(h) && td_mode_call_answer(h, 0, y);
    case LIE: return false;
    default: break;
    }
    return td_mode_call_answer(h, 0, y);
}

static void gone(void *env) { dropped += env == &asked; }

static const td_decomposition table[] = {
    {.op = "tanh", .run = run, .env = &asked, .drop = gone}};
static const td_aot_opts opts = {TD_AOT_OPTS, .name = "layer", .decompositions = table,
                                 .n_decompositions = 1};

static void start(void) {
    asked = backward_asked = dropped = 0;
    only = NULL;
    answer = RIGHT;
}

static int line_of_tanh;

static bool body(td_call *c) {
    td_ctx *cx = td_call_ctx(c);
    td_scope_begin(cx, "first");
    line_of_tanh = __LINE__ + 1;
    td_tensor *a = td_tanh(td_arg(c, 0));
    td_scope_end(cx, "first", a);
    td_scope_begin(cx, "second");
    td_tensor *b = td_tanh(td_mul(a, 0.5));
    td_scope_end(cx, "second", b);
    return td_return(c, td_sum(b));
}

/* The value and the gradient's sum; *ops gets the explanation. */
static bool call(td_ctx *cx, td_fn *f, double *y, double *g) {
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(2, 3), 0.25)), *out;
    if (!td_invoke(f, TD_ARGS(x), &out, 1) || !td_backward(out)) return false;
    *y = td_item(out);
    *g = td_item(td_sum(td_grad_of(x)));
    return true;
}

static int count_op(const td_fn *f, const char *op) {
    const td_graph *g = f->specs->plan->j->g;
    int             n = 0;
    for (int i = 0; i < g->nodes.n; i++)
        n += !strcmp(td__row(g->nodes.v[i]->op)->name, op);
    return n;
}

TEST(a_decomposition_replaces_every_call_of_its_op) {
    double  y, g, y0, g0;
    td_ctx *cx = td_open();
    start();
    td_fn *f = td_aot_function(cx, body, NULL, &opts);
    td_fn *e = td_aot_function(cx, body, NULL, NULL);
    CHECK(call(cx, f, &y, &g) && call(cx, e, &y0, &g0) && asked == 2);
    CHECK(count_op(f, "tanh") == 0 && count_op(f, "sigmoid") == 2);
    CHECK(fabs(y - y0) < 1e-5 && fabs(g - g0) < 1e-5);
    td_fn_drop(f);
    td_close(cx);
    CHECK(dropped == 1);
}

TEST(a_decomposition_declines_by_place) {
    double  y, g;
    td_ctx *cx = td_open();
    start();
    only = "first";
    td_fn *f = td_aot_function(cx, body, NULL, &opts);
    CHECK(call(cx, f, &y, &g) && asked == 2);
    CHECK(count_op(f, "tanh") == 1 && count_op(f, "sigmoid") == 1);
    CHECK(!strcmp(told_scope, "second") && strstr(told_file, "decompose_by.c"));
    CHECK(told_line == line_of_tanh + 3);
    td_close(cx);
}

static bool squares(td_call *c) {
    return td_return(c, td_sum(td_exp(td_mul(td_arg(c, 0), td_arg(c, 0)))));
}

static int  n_fwd, n_bwd;
static bool plain_mul(void *env, td_mode_call *h, const td_op_site *at) {
    (void)env;
    n_fwd += at->half == TD_FORWARD;
    n_bwd += at->half == TD_BACKWARD;
    return td_mode_call_go(h);
}

TEST(a_decomposition_sees_forward_and_backward) {
    td_decomposition one = {.op = "mul", .run = plain_mul};
    td_aot_opts      o = {TD_AOT_OPTS, .decompositions = &one, .n_decompositions = 1};
    double           y, g;
    td_ctx          *cx = td_open();
    td_fn           *f = td_aot_function(cx, squares, NULL, &o);
    n_fwd = n_bwd = 0;
    CHECK(call(cx, f, &y, &g) && n_fwd == 1 && n_bwd >= 1);
    td_close(cx);
}

static bool simpler(void *env, td_mode_call *h, const td_op_site *at) {
    (void)env, (void)at;
    return td_mode_call_has_simpler(h) ? td_mode_call_simpler(h) : td_mode_call_go(h);
}

static bool with_silu(td_call *c) {
    return td_return(c, td_sum(td_silu(td_arg(c, 0))));
}

TEST(a_decomposition_takes_the_librarys_own) {
    td_decomposition one = {.op = "silu", .run = simpler};
    td_aot_opts      o = {TD_AOT_OPTS, .decompositions = &one, .n_decompositions = 1};
    double           y, g;
    td_ctx          *cx = td_open();
    td_fn           *f = td_aot_function(cx, with_silu, NULL, &o);
    CHECK(call(cx, f, &y, &g) && count_op(f, "silu") == 0);
    td_close(cx);
}

TEST(a_decomposition_with_symbolic_sizes) {
    double      y, g;
    td_aot_opts o = opts;
    td_ctx     *cx = td_open();
    start();
    o.dynamic = TD_SHAPES_DYNAMIC;
    td_fn *f = td_aot_function(cx, body, NULL, &o);
    CHECK(call(cx, f, &y, &g) && count_op(f, "tanh") == 0);
    td_close(cx);
}

static void refuse(int how, const char *message) {
    double  y, g;
    td_ctx *cx = td_open();
    start();
    answer = how;
    td_fn *f = td_aot_function(cx, body, NULL, &opts);
    CHECK(!call(cx, f, &y, &g));
    CHECK(strstr(td_message(cx), message));
    td_clear(cx);
    answer = RIGHT;
    CHECK(call(cx, f, &y, &g));
    td_close(cx);
}

TEST(an_answer_of_another_type_is_an_error_that_names_both) {
    refuse(DTYPE, "result 0 of the decomposition of tanh is f64[2,3] with strides "
                  "[3,1]; the op gives f32[2,3] with strides [3,1]");
    refuse(SIZES, "is f32[1,2,3] with strides");
    refuse(STRIDES, "is f32[2,3] with strides [1,2]; the op gives");
    refuse(NOTHING, "left a result out");
    refuse(BOTH, "called both td_mode_call_go and td_mode_call_answer");
    refuse(LIE, "returned false without an error");
}

/* The sum of the second derivative. */
static double curvature(td_ctx *cx, td_fn *f) {
    td_tensor   *x = td_requires_grad_(td_full(cx, TD_SHAPE(2, 3), 0.25)), *y, *g, *h;
    td_grad_opts twice = {TD_GRAD_OPTS, .create_graph = true};
    return td_invoke(f, TD_ARGS(x), &y, 1) &&
                   td_grad(TD_LIST(y), TD_LIST(x), &g, &twice) &&
                   td_grad(TD_LIST(td_sum(g)), TD_LIST(x), &h, NULL)
               ? td_item(td_sum(h))
               : NAN;
}

TEST(gradients_of_gradients_are_decomposed_too) {
    td_ctx *cx = enter("graphs,cache");
    start();
    double a = curvature(cx, td_aot_function(cx, body, NULL, NULL));
    CHECK(strstr(heard, "@f' #0: joint graph, function") && strstr(heard, "tanh("));
    heard[0] = 0;
    double b = curvature(cx, td_aot_function(cx, body, NULL, &opts));
    CHECK(fabs(a - b) < 1e-5 && asked == 4);
    const char *at = strstr(heard, "@layer' #0: joint graph, function");
    CHECK(at && strstr(at, "sigmoid(") && !strstr(at, "tanh("));
    /* One reason for the function, one for its gradients. */
    CHECK(count("its decompositions have no version") == 2);
    leave(cx);
}

static bool with_softmax(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_sum(td_mul(td_softmax(td_mul(x, x), 1), x)));
}

TEST(gradients_of_gradients_take_the_librarys_decompositions) {
    double  was = 0;
    td_ctx *cx = enter("graphs");
    for (int i = 0; i < 2; i++) {
        td_aot_opts o = {TD_AOT_OPTS, .name = "layer"};
        o.decompose = i ? "_softmax" : NULL;
        heard[0] = 0;
        double      is = curvature(cx, td_aot_function(cx, with_softmax, NULL, &o));
        const char *at = strstr(heard, "@layer' #0: joint graph, function");
        CHECK(at && !strstr(at, " _softmax(") == (i == 1));
        CHECK(i == 0 || fabs(is - was) < 1e-4);
        was = is;
    }
    leave(cx);
}

TEST(ops_that_cannot_be_decomposed_are_refused) {
    static const char *const op[] = {"nosuchop", "rand_like", "transpose", "add_"};
    static const char *const why[] = {"there is no op nosuchop", "draws random numbers",
                                      "returns views", "writes an argument"};
    td_ctx                  *cx = td_open();
    for (int i = 0; i < 4; i++) {
        td_decomposition one = {.op = op[i], .run = run};
        td_aot_opts o = {TD_AOT_OPTS, .decompositions = &one, .n_decompositions = 1};
        (void)td_aot_function(cx, body, NULL, &o);
        CHECK(strstr(td_message(cx), why[i]));
        td_clear(cx);
    }
    td_decomposition two[] = {{.op = "tanh", .run = run}, {.op = "tanh", .run = run}};
    (void)td_aot_function(cx, body, NULL,
                          &(td_aot_opts){TD_AOT_OPTS, .decompositions = two,
                                         .n_decompositions = 2});
    CHECK(strstr(td_message(cx), "[0] and [1] are both for tanh"));
    td_close(cx);
}

TEST(decompositions_are_cached_by_the_version_of_the_stages) {
    double      y, g;
    td_aot_opts o = opts;
    td_ctx     *cx = enter("cache");
    start();
    for (int i = 0; i < 2; i++) {
        td_fn *f = td_aot_function(cx, body, NULL, &o);
        CHECK(call(cx, f, &y, &g));
        td_fn_drop(f);
    }
    CHECK(asked == 4 && count("its decompositions have no version") == 2);
    o.stages = "1";
    for (int i = 0; i < 2; i++) {
        td_fn *f = td_aot_function(cx, body, NULL, &o);
        CHECK(call(cx, f, &y, &g) && count_op(f, "tanh") == 0);
        td_fn_drop(f);
    }
    CHECK(asked == 6 && count("hit: f_") == 1);
    leave(cx);
}
