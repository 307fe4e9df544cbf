/* aot_packed.c -- saved-tensor hooks that are compiled (td_aot_opts.saved): pack joins
 * the forward graph and unpack the backward graph, for values a filter admits. */
#include "saved_help.h"

#include <pthread.h>

/* ---- hooks -------------------------------------------------------------- */

/* What hooks were called with, as text: "exp>mul ". */
static char offered[512];
static int  n_pack, n_unpack;

static int to_bf16(void *env, const td_saved_at *at, td_tensor *t, td_tensor **packed) {
    size_t n = strlen(offered);
    (void)env;
    n_pack++;
    snprintf(offered + n, sizeof offered - n, "%s>%s ", at->op, at->reader);
    if (td_dtype_of(t) != TD_F32) return 0;
    packed[0] = td_to(t, TD_BF16);
    return 1;
}
static td_tensor *from_bf16(void *env, const td_saved_at *at, td_tensor *const *packed,
                            int n) {
    (void)env, (void)at, (void)n;
    n_unpack++;
    return td_to(packed[0], TD_F32);
}

/* Loses nothing: two halves of a product. */
static int to_two(void *env, const td_saved_at *at, td_tensor *t, td_tensor **packed) {
    (void)env, (void)at;
    packed[0] = td_mul(t, 0.5);
    packed[1] = td_reshape(td_transpose(packed[0], 0, -1), TD_SHAPE(-1));
    return 2;
}
static td_tensor *from_two(void *env, const td_saved_at *at, td_tensor *const *packed,
                           int n) {
    (void)env, (void)at;
    CHECK(n == 2);
    return td_mul(packed[0], 2.0);
}

static td_aot_opts packing(td_packing p) {
    offered[0] = 0;
    n_pack = n_unpack = 0;
    return (td_aot_opts){TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT, .saved = p};
}
static const td_packing bf16 = {.pack = to_bf16, .unpack = from_bf16};
static const td_packing two = {.pack = to_two, .unpack = from_two};

/* ---- runs --------------------------------------------------------------- */

typedef struct run {
    double     loss;
    td_tensor *grad[3];
    size_t     saved; /* bytes that the history of the call has live */
    size_t     peak;  /* of forward and backward */
} run;

/* Forward and backward of @deep on n x n matrices, eagerly where f is NULL. */
static run train(td_ctx *cx, td_fn *f, int64_t n) {
    td_tensor *in[3], *out[1];
    td_value   v = TD_NONE;
    run        r = {0};
    td_seed(cx, 3);
    for (int i = 0; i < 3; i++)
        in[i] = td_requires_grad_(td_mul(td_randn(cx, TD_SHAPE(n, n)), 0.3));
    size_t before = td_memory_live();
    td_memory_peak_reset();
    if (f) CHECK(td_invoke(f, TD_ARGS(in[0], in[1], in[2]), out, 1));
    else {
        CHECK(td_call_body(cx, deep, NULL, TD_ARGS(in[0], in[1], in[2]), &v, 1) == 1);
        out[0] = v.u.t;
    }
    r.saved = td_memory_live() - before;
    CHECK(td_backward(out[0]));
    r.peak = td_memory_peak() - before;
    r.loss = td_item(out[0]);
    for (int i = 0; i < 3; i++) r.grad[i] = td_grad_of(in[i]);
    CHECK_OK(cx);
    return r;
}

/* The run of three with the lowest peak: memory is counted for the whole process, in
 * which threads of earlier tests may still end. */
static run train_lowest(td_ctx *cx, td_fn *f, int64_t n) {
    run best = train(cx, f, n);
    for (int i = 0; i < 2; i++) {
        run r = train(cx, f, n);
        if (r.peak < best.peak) best = r;
    }
    return best;
}

static double distance(const run *a, const run *b) {
    double most = 0;
    for (int i = 0; i < 3; i++) {
        double d = td_item(td_amax(td_abs(td_sub(a->grad[i], b->grad[i]))));
        double s = td_item(td_amax(td_abs(b->grad[i])));
        if (d / s > most) most = d / s;
    }
    return most;
}

/* ---- values ------------------------------------------------------------- */

TEST(packed_values_lose_what_pack_loses) {
    td_ctx     *cx = td_open();
    td_aot_opts o = packing(bf16);
    td_fn      *f = td_aot_function(cx, deep, NULL, &o);
    run         eager = train(cx, NULL, 16), r = train(cx, f, 16);
    double      d = distance(&r, &eager);
    CHECK(is_number(cx, r.loss, eager.loss, 1e-6));
    CHECK(d > 1e-5 && d < 1e-1);
    CHECK_STR(offered, "tanh>t tanh>tanh_backward exp>mul ");
    CHECK(n_pack == 3 && n_unpack == 3);
    r = train(cx, f, 16);
    CHECK(n_pack == 3 && n_unpack == 3); /* traced, not called */
    td_fn_drop(f);
    td_close(cx);
}

TEST(several_packed_values_and_views_give_the_exact_gradients) {
    td_ctx    *cx = td_open();
    td_packing all = two;
    all.filter = TD_SAVED_ALL;
    td_aot_opts o = packing(two), o_all = packing(all);
    td_fn      *f = td_aot_function(cx, deep, NULL, &o);
    td_fn      *g = td_aot_function(cx, deep, NULL, &o_all);
    run         eager = train(cx, NULL, 8), a = train(cx, f, 8), b = train(cx, g, 8);
    CHECK(distance(&a, &eager) < 1e-6 && distance(&b, &eager) < 1e-6);
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
}

TEST(packed_values_take_less_memory) {
    td_ctx *cx = td_open();
    td_config_set(cx, "lazy_backward", "off");
    td_aot_opts o = packing(bf16), plain = packing((td_packing){0});
    td_fn      *f = td_aot_function(cx, deep, NULL, &o);
    td_fn      *g = td_aot_function(cx, deep, NULL, &plain);
    td_scope_begin(cx, NULL);
    train(cx, f, 256), train(cx, g, 256); /* compiles */
    td_scope_end(cx, NULL, NULL);
    run    a = train_lowest(cx, f, 256), b = train_lowest(cx, g, 256);
    size_t unit = 256 * 256 * 4;
    CHECK(b.saved >= 3 * unit && a.saved <= b.saved - 3 * unit / 2 + 4096);
    CHECK(a.peak <= b.peak);
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
}

/* ---- filters ------------------------------------------------------------ */

static bool affine(td_call *c) {
    td_tensor *h = td_mul(td_arg(c, 0), td_arg(c, 1)); /* a parameter, an input */
    return td_return(c, td_exp(h));
}

static const char *offered_with(td_saved_filter filter) {
    td_ctx    *cx = td_open();
    td_packing p = bf16;
    p.filter = filter;
    td_aot_opts o = packing(p);
    o.n_params = 1;
    td_fn     *f = td_aot_function(cx, affine, NULL, &o);
    td_tensor *w = td_requires_grad_(td_ones(cx, TD_SHAPE(4))), *y[1];
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(4)));
    CHECK(td_invoke(f, TD_ARGS(w, x), y, 1));
    CHECK(td_backward(td_sum(y[0])));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
    return offered;
}

/* The result exp is saved as well, and is no buffer of the call's own. */
TEST(filters_admit_donated_values_all_but_state_or_all) {
    CHECK_STR(offered_with(TD_SAVED_DONATED), "");
    CHECK_STR(offered_with(TD_SAVED_NO_STATIC), "input>mul exp>mul ");
    CHECK_STR(offered_with(TD_SAVED_ALL), "input>mul input>mul exp>mul ");
}

/* ---- backwards ---------------------------------------------------------- */

/* A gradient of one result alone: the engine is traced again, and reads what forward
 * packed. */
TEST(a_missing_tangent_reads_packed_values) {
    td_ctx    *cx = td_open();
    td_packing all = two;
    all.filter = TD_SAVED_ALL;
    td_aot_opts o = packing(all);
    td_fn      *f = td_aot_function(cx, pair, NULL, &o);
    for (int which = 0; which < 2; which++) {
        td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(2, 3), 0.3)), *y[2];
        td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(2, 3), 0.7)), *want[2];
        td_tensor *in[2] = {x, w};
        td_value   v[2];
        CHECK(td_call_body(cx, pair, NULL, TD_ARGS(x, w), v, 2) == 2);
        td_grad_opts may = {TD_GRAD_OPTS, .allow_unused = true};
        CHECK(td_grad((td_tensors){&v[which].u.t, 1}, (td_tensors){in, 2}, want, &may));
        CHECK(td_invoke(f, TD_ARGS(x, w), y, 2));
        CHECK(td_backward(y[which]));
        CHECK(fabs(td_item(td_sum(td_grad_of(x))) - td_item(td_sum(want[0]))) < 1e-5);
        CHECK(td_has_grad(w) == (which == 1));
        if (which)
            CHECK(fabs(td_item(td_sum(td_grad_of(w))) - td_item(td_sum(want[1]))) <
                  1e-5);
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(retain_graph_unpacks_twice) {
    td_ctx          *cx = td_open();
    td_aot_opts      o = packing(two);
    td_fn           *f = td_aot_function(cx, deep, NULL, &o);
    td_tensor       *x = td_requires_grad_(td_full(cx, TD_SHAPE(2, 2), 0.3)), *y[1];
    td_tensor       *w = td_full(cx, TD_SHAPE(2, 2), 0.2);
    td_backward_opts keep = {TD_BACKWARD_OPTS, .retain_graph = true};
    CHECK(td_invoke(f, TD_ARGS(x, w), y, 1));
    CHECK(td_backward_with((td_tensors){y, 1}, (td_tensors){0}, &keep));
    double once = td_item(td_sum(td_grad_of(x)));
    CHECK(td_backward(y[0]));
    CHECK(fabs(td_item(td_sum(td_grad_of(x))) - 2 * once) < 1e-5);
    CHECK(!td_backward(y[0]) && td_error(cx) == TD_E_GRAD);
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(create_graph_through_packed_values_is_refused) {
    td_ctx          *cx = td_open();
    td_aot_opts      o = packing(two);
    td_fn           *f = td_aot_function(cx, deep, NULL, &o);
    td_tensor       *x = td_requires_grad_(td_full(cx, TD_SHAPE(2, 2), 0.3)), *y[1];
    td_backward_opts twice = {TD_BACKWARD_OPTS, .create_graph = true};
    CHECK(td_invoke(f, TD_ARGS(x, x), y, 1));
    CHECK(!td_backward_with((td_tensors){y, 1}, (td_tensors){0}, &twice));
    CHECK(td_error(cx) == TD_E_UNSUPPORTED);
    CHECK(strstr(td_message(cx), "td_aot_opts.saved"));
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(packed_values_may_have_symbolic_sizes) {
    td_ctx     *cx = td_open();
    td_aot_opts o = packing(two);
    o.dynamic = TD_SHAPES_DYNAMIC;
    td_fn *f = td_aot_function(cx, deep, NULL, &o);
    for (int64_t n = 4; n < 8; n++) {
        run eager = train(cx, NULL, n), r = train(cx, f, n);
        CHECK(distance(&r, &eager) < 1e-5);
    }
    CHECK(td_fn_specializations(f) == 1);
    td_fn_drop(f);
    td_close(cx);
}

/* The result is donated to nobody; what pack made of it is backward's. */
TEST(packed_values_are_donated) {
    td_ctx    *cx = td_open();
    td_packing p = two;
    char       text[4096];
    p.filter = TD_SAVED_NO_STATIC;
    td_aot_opts o = packing(p);
    td_fn      *f = td_aot_function(cx, affine, NULL, &o);
    td_tensor  *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2, 3))), *y[1];
    CHECK(td_invoke(f, TD_ARGS(x, x), y, 1));
    td_explain(f, text, sizeof text);
    CHECK(strstr(text, "saved value 1 is packed: <saved 2> <saved 3>, 48 B of 24 B"));
    CHECK(strstr(text, "donated to backward: <saved 0> <saved 1> <saved 2> <saved 3>"));
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- hooks around a call -------------------------------------------------- */

static int   around;
static void *keep_it(void *env, td_tensor *t) {
    (void)env;
    around++;
    return td_keep(t);
}
static td_tensor *give_it(void *env, void *packed, td_ctx *cx) {
    (void)env, (void)cx;
    return packed;
}
static void drop_it(void *env, void *packed) {
    (void)env;
    td_drop(packed);
}

TEST(hooks_around_the_call_get_the_packed_values) {
    td_ctx        *cx = td_open();
    td_aot_opts    o = packing(bf16);
    td_fn         *f = td_aot_function(cx, deep, NULL, &o);
    td_saved_hooks h = {.pack = keep_it, .unpack = give_it, .drop = drop_it};
    run            alone = train(cx, f, 8);
    around = 0;
    CHECK(td_saved_hooks_push(cx, &h));
    run both = train(cx, f, 8);
    td_saved_hooks_pop(cx);
    CHECK(around > 0 && distance(&alone, &both) == 0);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- errors ------------------------------------------------------------- */

static int writes(void *env, const td_saved_at *at, td_tensor *t, td_tensor **packed) {
    (void)env, (void)at;
    packed[0] = td_mul_(t, 2.0);
    return 1;
}
static int draws(void *env, const td_saved_at *at, td_tensor *t, td_tensor **packed) {
    (void)env, (void)at;
    packed[0] = td_add(t, td_rand_like(t));
    return 1;
}
static int reads(void *env, const td_saved_at *at, td_tensor *t, td_tensor **packed) {
    (void)at;
    packed[0] = td_mul(t, (td_tensor *)env);
    return 1;
}
static int nothing(void *env, const td_saved_at *at, td_tensor *t, td_tensor **packed) {
    (void)env, (void)at, (void)t, (void)packed;
    return 1;
}
static int fails(void *env, const td_saved_at *at, td_tensor *t, td_tensor **packed) {
    (void)env, (void)at, (void)t, (void)packed;
    return -1;
}
static td_tensor *half(void *env, const td_saved_at *at, td_tensor *const *packed,
                       int n) {
    (void)env, (void)at, (void)n;
    return packed[0];
}

static void refused(td_packing p, td_code code, const char *text) {
    td_ctx     *cx = td_open();
    td_tensor  *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3))), *y[1];
    td_tensor  *other = td_ones(cx, TD_SHAPE(3));
    td_aot_opts o = packing(p);
    if (p.pack == reads) o.saved.env = other;
    td_fn *f = td_aot_function(cx, pair, NULL, &o);
    CHECK(td_is_nil(f) || !td_invoke(f, TD_ARGS(x, x), y, 1));
    CHECK(td_error(cx) == code);
    if (!strstr(td_message(cx), text)) CHECK_STR(td_message(cx), text);
    td_clear(cx);
    CHECK(td_item(td_sum(x)) == 3);
    td_fn_drop(f);
    td_close(cx);
}

TEST(hooks_that_write_draw_or_read_others_are_refused) {
    refused((td_packing){.pack = writes, .unpack = from_bf16}, TD_E_UNSUPPORTED,
            "writes a tensor");
    refused((td_packing){.pack = draws, .unpack = from_bf16}, TD_E_UNSUPPORTED,
            "draws random numbers");
    refused((td_packing){.pack = reads, .unpack = from_bf16}, TD_E_UNSUPPORTED,
            "not its argument");
}
TEST(hooks_that_return_nothing_fail) {
    refused((td_packing){.pack = nothing, .unpack = from_bf16}, TD_E_ARG,
            "NULL or nil");
    refused((td_packing){.pack = fails, .unpack = from_bf16}, TD_E_ARG, "-1");
    refused((td_packing){.pack = to_bf16, .unpack = half}, TD_E_SHAPE,
            "unpack returned bf16[3]");
    refused((td_packing){.pack = to_bf16}, TD_E_ARG, "unpack");
    refused((td_packing){.unpack = half}, TD_E_ARG, "pack");
}

/* ---- registered ops ------------------------------------------------------- */

static bool square(const td_op_run *r) {
    const float *x = td_data(r->in[0].u.t);
    float       *y = td_data(r->out[0]);
    for (int64_t i = 0; i < td_numel(r->out[0]); i++) y[i] = x[i] * x[i];
    return true;
}
static td_tensor *call_square(const char *name, td_tensor *x) {
    td_tensor *y;
    td_call_op(td_ctx_of(x), name, TD_ARGS(x), &y, 1);
    return y;
}
static bool squares(td_call *c) {
    return td_return(c, td_sum(td_exp(call_square("packed_square", td_arg(c, 0)))));
}
static int squared(void *env, const td_saved_at *at, td_tensor *t, td_tensor **packed) {
    (void)at;
    packed[0] = call_square(env, t);
    return 1;
}
static td_tensor *rooted(void *env, const td_saved_at *at, td_tensor *const *packed,
                         int n) {
    (void)env, (void)at, (void)n;
    return td_sqrt(packed[0]);
}

/* The value is computed by one, and pack calls one; one with an effect is refused. */
TEST(registered_ops_make_and_pack_saved_values) {
    td_ctx    *cx = td_open();
    td_op_opts pure = {TD_OP_OPTS, .schema = "packed_square(Tensor x) -> Tensor",
                       .shape = "x", .kernel = square, .derivative = "x: 2 * g * x"};
    td_op_opts loud = pure;
    loud.schema = "loud_square(Tensor x) -> Tensor";
    loud.effect = TD_EFFECT_ORDERED;
    CHECK(td_register_op(cx, &pure) && td_register_op(cx, &loud));
    td_packing  p = {.pack = squared,
                     .unpack = rooted,
                     .env = "packed_square",
                     .filter = TD_SAVED_ALL};
    td_aot_opts o = packing(p);
    td_fn      *f = td_aot_function(cx, squares, NULL, &o);
    td_tensor  *x = td_requires_grad_(td_full(cx, TD_SHAPE(4), 0.5)), *y[1];
    CHECK(td_invoke(f, TD_ARGS(x), y, 1) && td_backward(y[0]));
    CHECK(fabs(td_item(td_sum(td_grad_of(x))) - 4 * exp(0.25)) < 1e-5);
    CHECK_OK(cx);
    o.saved.env = "loud_square";
    td_fn *g = td_aot_function(cx, squares, NULL, &o);
    CHECK(!td_invoke(g, TD_ARGS(x), y, 1) && td_error(cx) == TD_E_UNSUPPORTED);
    CHECK(strstr(td_message(cx), "loud_square, which has an effect"));
    td_clear(cx);
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
}

/* A graph gets numbers as inputs, which pack does not read. */
TEST(numbers_that_a_graph_is_called_with_are_not_packed) {
    static const char text[] = "func @f(%x: f32[3], %n, %none) {\n"
                               "  %y = exp(%x)\n  %z = mul(%y, %n)\n"
                               "  %s = sum(%z)\n  return %s\n}\n";
    td_ctx           *cx = td_open();
    td_gfile         *file = td__gfile_parse(cx, text, sizeof text - 1, "numbers.td");
    td_aot_opts       o = packing(two);
    td_fn            *f = td_aot_graph(td_graphs_at(file, 0), &o);
    td_tensor        *x = td_requires_grad_(td_zeros(cx, TD_SHAPE(3))), *y;
    for (int n = 2; n < 4; n++) {
        CHECK(td_invoke(f, TD_ARGS(x, n, TD_NONE), &y, 1) && td_backward(y));
        CHECK(td_item(y) == 3 * n);
    }
    CHECK(td_item(td_sum(td_grad_of(x))) == 15);
    CHECK_OK(cx);
    td_fn_drop(f);
    td__gfile_drop(file);
    td_close(cx);
}

/* ---- promises, threads, marks, numbers ------------------------------------- */

static int to_half(void *env, const td_saved_at *at, td_tensor *t, td_tensor **packed) {
    (void)env, (void)at;
    packed[0] = td_mul(t, 0.5);
    return 1;
}
static td_tensor *from_half(void *env, const td_saved_at *at, td_tensor *const *packed,
                            int n) {
    (void)env, (void)at, (void)n;
    return td_mul(packed[0], 2.0);
}
static const td_packing exact = {.pack = to_half,
                                 .unpack = from_half,
                                 .lossless = true};

/* The second gradient of sum(b*b), with b = sin(exp(x)*w), summed over x and w. */
static double second(td_ctx *cx, td_fn *f) {
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(2, 3), 0.3)), *y[2], *g[1];
    td_tensor *w = td_requires_grad_(td_full(cx, TD_SHAPE(2, 3), 0.7)), *gg[2];
    td_tensor *in[2] = {x, w};
    CHECK(td_invoke(f, TD_ARGS(x, w), y, 2));
    td_grad_opts twice = {TD_GRAD_OPTS, .create_graph = true};
    if (!td_grad((td_tensors){&y[1], 1}, (td_tensors){in, 1}, g, &twice)) return NAN;
    td_tensor *sum = td_sum(td_mul(g[0], g[0]));
    CHECK(td_grad((td_tensors){&sum, 1}, (td_tensors){in, 2}, gg, NULL));
    return td_item(td_add(td_sum(gg[0]), td_sum(gg[1])));
}

TEST(create_graph_works_where_pack_promises_to_lose_nothing) {
    td_ctx     *cx = td_open();
    td_packing  lossy = exact;
    td_aot_opts plain = packing((td_packing){0}), o = packing(exact);
    lossy.lossless = false;
    td_aot_opts no = packing(lossy);
    td_fn      *f = td_aot_function(cx, pair, NULL, &plain);
    td_fn      *g = td_aot_function(cx, pair, NULL, &o);
    td_fn      *h = td_aot_function(cx, pair, NULL, &no);
    CHECK(second(cx, f) == second(cx, g));
    CHECK_OK(cx);
    CHECK(isnan(second(cx, h)) && td_error(cx) == TD_E_UNSUPPORTED);
    CHECK(strstr(td_message(cx), "td_aot_opts.saved.lossless"));
    td_clear(cx);
    td_fn_drop(f);
    td_fn_drop(g);
    td_fn_drop(h);
    td_close(cx);
}

static void *pack_in_a_thread(void *env) {
    td_ctx     *cx = td_open();
    td_aot_opts plain = {TD_AOT_OPTS, .partition = TD_PARTITION_DEFAULT}, o = plain;
    o.saved = exact;
    td_fn *f = td_aot_function(cx, deep, NULL, &plain);
    td_fn *g = td_aot_function(cx, deep, NULL, &o);
    run    a = train(cx, f, 16), b = train(cx, g, 16);
    *(bool *)env = td_ok(cx) && a.loss == b.loss && distance(&a, &b) == 0;
    td_fn_drop(f);
    td_fn_drop(g);
    td_close(cx);
    return NULL;
}

TEST(two_threads_pack_in_contexts_of_their_own) {
    pthread_t thread[2];
    bool      ok[2] = {false, false};
    for (int i = 0; i < 2; i++)
        CHECK(!pthread_create(&thread[i], NULL, pack_in_a_thread, &ok[i]));
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    CHECK(ok[0] && ok[1]);
}

/* A marked dim is symbolic in pack and unpack. */
TEST(marked_sizes_are_packed) {
    td_ctx     *cx = td_open();
    td_aot_opts o = packing(exact);
    o.dynamic = TD_SHAPES_MARKED;
    td_fn *f = td_aot_function(cx, pair, NULL, &o);
    for (int64_t n = 4; n < 7; n++) {
        td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(n, 3), 0.3)), *y[2];
        td_tensor *w = td_full(cx, TD_SHAPE(3), 0.7), *want[1];
        td_value   v[2];
        CHECK(td_mark_dynamic(x, 0));
        CHECK(td_call_body(cx, pair, NULL, TD_ARGS(x, w), v, 2) == 2);
        CHECK(td_grad((td_tensors){&v[1].u.t, 1}, (td_tensors){&x, 1}, want, NULL));
        CHECK(td_invoke(f, TD_ARGS(x, w), y, 2) && td_backward(y[1]));
        CHECK(td_item(td_amax(td_abs(td_sub(td_grad_of(x), want[0])))) < 1e-5);
    }
    CHECK(td_fn_specializations(f) == 1);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

static bool scaled(td_call *c) {
    td_tensor *s = call_square("varied_square", td_arg(c, 0));
    return td_return(c, td_sum(td_exp(td_mul(s, td_arg_value(c, 1)))));
}

/* A number that varies is an input of the graphs, also beside a registered op. */
TEST(numbers_that_vary_are_packed_beside_registered_ops) {
    td_ctx    *cx = td_open();
    td_op_opts pure = {TD_OP_OPTS, .schema = "varied_square(Tensor x) -> Tensor",
                       .shape = "x", .kernel = square, .derivative = "x: 2 * g * x"};
    CHECK(td_register_op(cx, &pure));
    td_aot_opts o = packing(exact);
    td_fn      *f = td_aot_function(cx, scaled, NULL, &o);
    for (int i = 1; i < 5; i++) {
        double     k = 0.25 * i;
        td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(4), 0.5)), *y[1];
        CHECK(td_invoke(f, TD_ARGS(x, k), y, 1) && td_backward(y[0]));
        CHECK(fabs(td_item(td_sum(td_grad_of(x))) - 4 * k * exp(0.25 * k)) < 1e-5);
    }
    CHECK(td_fn_specializations(f) <= 2);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- sizes that pack hides ------------------------------------------------- */

static int to_row(void *env, const td_saved_at *at, td_tensor *t, td_tensor **to) {
    (void)env, (void)at;
    if (td_rank(t) != 2) return 0;
    to[0] = td_reshape(t, TD_SHAPE(-1));
    return 1;
}
static td_tensor *from_row(void *env, const td_saved_at *at, td_tensor *const *from,
                           int n) {
    (void)env, (void)at, (void)n;
    return td_reshape(from[0], TD_SHAPE(-1, 3));
}

/* The second size is 3 where it is not marked; else unpack cannot know it. */
TEST(unpack_may_restore_sizes_that_are_known) {
    td_ctx     *cx = td_open();
    td_aot_opts o = packing((td_packing){.pack = to_row, .unpack = from_row});
    td_fn      *f[2];
    for (int i = 0; i < 2; i++) {
        o.dynamic = i ? TD_SHAPES_DYNAMIC : TD_SHAPES_MARKED;
        f[i] = td_aot_function(cx, pair, NULL, &o);
    }
    for (int64_t n = 4; n < 7; n++) {
        td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(n, 3), 0.3)), *y[2];
        td_tensor *w = td_full(cx, TD_SHAPE(n, 3), 0.7), *want[1];
        td_value   v[2];
        CHECK(td_mark_dynamic(x, 0) && td_mark_dynamic(w, 0));
        CHECK(td_call_body(cx, pair, NULL, TD_ARGS(x, w), v, 2) == 2);
        CHECK(td_grad((td_tensors){&v[1].u.t, 1}, (td_tensors){&x, 1}, want, NULL));
        CHECK(td_invoke(f[0], TD_ARGS(x, w), y, 2) && td_backward(y[1]));
        CHECK(td_item(td_amax(td_abs(td_sub(td_grad_of(x), want[0])))) < 1e-5);
    }
    CHECK(td_fn_specializations(f[0]) == 1);
    CHECK_OK(cx);
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(4, 3), 0.3)), *y[2];
    CHECK(!td_invoke(f[1], TD_ARGS(x, x), y, 2) || !td_backward(y[1]));
    CHECK(strstr(td_message(cx),
                 "sizes [-1,3] do not hold the s0*s1 elements of f32[s0*s1]"));
    td_clear(cx);
    td_fn_drop(f[0]);
    td_fn_drop(f[1]);
    td_close(cx);
}
