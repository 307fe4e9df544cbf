/* aot_saved_hooks.c -- saved-tensor hooks and checkpoints around compiled calls: they
 * act on what a call saves, and leave no trace in the code. */
#include "aot_sides.h"
#include "cache_help.h"

/* ---- hooks that are not inverses of each other -------------------------- */

static int packed;

static void *to_bf16(void *env, td_tensor *t) {
    (void)env;
    packed++;
    return td_keep(td_to(t, TD_BF16));
}
static td_tensor *from_bf16(void *env, void *p, td_ctx *cx) {
    (void)env, (void)cx;
    return td_to(p, TD_F32);
}
static void drop(void *env, void *p) {
    (void)env;
    td_drop(p);
}
static const td_saved_hooks rounding = {to_bf16, from_bf16, drop, NULL};

static bool body(td_call *c) {
    td_tensor *h = td_tanh(td_matmul(td_arg(c, 0), td_arg(c, 1)));
    return td_return(c, td_mul(h, td_exp(h)));
}

typedef struct pair {
    td_tensor *x, *w;
} pair;

static pair inputs(td_ctx *cx) {
    td_seed(cx, 5);
    return (pair){td_requires_grad_(td_randn(cx, TD_SHAPE(4, 3))),
                  td_requires_grad_(td_randn(cx, TD_SHAPE(3, 2)))};
}

/* The gradient of w, summed; hooks may be NULL. */
static double grad_of_call(td_fn *f, pair in, const td_saved_hooks *hooks) {
    td_ctx    *cx = td_ctx_of(in.x);
    td_tensor *y, *g;
    packed = 0;
    if (hooks) td_saved_hooks_push(cx, hooks);
    CHECK(td_invoke(f, TD_ARGS(in.x, in.w), &y, 1));
    if (hooks) td_saved_hooks_pop(cx);
    CHECK(td_grad(TD_LIST(td_sum(y)), TD_LIST(in.w), &g, NULL));
    return td_item(td_sum(g));
}

TEST(hooks_around_the_first_call_are_not_in_the_code) {
    for (int lazy = 0; lazy < 2; lazy++) {
        td_ctx *cx = td_open();
        pair    in = inputs(cx);
        td_config_set(cx, "cache_disk_mb", "0");
        td_config_set(cx, "lazy_backward", lazy ? "on" : "off");
        td_fn *plain = td_aot_function(cx, body, NULL, NULL);
        td_fn *f = td_aot_function(cx, body, NULL, NULL);
        double want = grad_of_call(plain, in, NULL);
        double first = grad_of_call(f, in, &rounding);
        CHECK(packed > 0);
        CHECK(first != want && fabs(first - want) < 0.1);
        CHECK(grad_of_call(f, in, NULL) == want);
        CHECK(grad_of_call(f, in, &rounding) == first);
        CHECK(grad_of_call(plain, in, &rounding) == first);
        CHECK(td_fn_specializations(f) == 1);
        td_fn_drop(plain);
        td_fn_drop(f);
        td_close(cx);
    }
}

static int   n_other;
static void *count_other(void *env, td_tensor *t) {
    (void)env;
    n_other++;
    return td_keep(t);
}
static td_tensor *give_same(void *env, void *p, td_ctx *cx) {
    (void)env, (void)cx;
    return p;
}

/* test_saved_tensors_hooks_recompile, with hooks around the call. */
TEST(other_hooks_around_a_call_compile_nothing_anew) {
    td_ctx              *cx = td_open();
    pair                 in = inputs(cx);
    td_fn               *f = td_aot_function(cx, body, NULL, NULL);
    const td_saved_hooks other = {count_other, give_same, drop, NULL};
    double               want = grad_of_call(f, in, NULL);
    CHECK(grad_of_call(f, in, &rounding) != want && packed > 0);
    CHECK(grad_of_call(f, in, &other) == want && n_other > 0);
    CHECK(td_fn_specializations(f) == 1);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}

TEST(hooks_around_the_first_call_are_not_in_the_cache) {
    td_aot_opts opts = {TD_AOT_OPTS, .name = "rounded"};
    double      got[2];
    for (int later = 0; later < 2; later++) {
        td_ctx *cx = enter("cache");
        pair    in = inputs(cx);
        td_fn  *f = td_aot_function(cx, body, NULL, &opts);
        if (!later) grad_of_call(f, in, &rounding);
        got[later] = grad_of_call(f, in, NULL);
        CHECK(!later || count("hit: f_") == 1);
        td_fn *plain = td_aot_function(cx, body, NULL, NULL);
        CHECK(grad_of_call(plain, in, NULL) == got[later]);
        td_fn_drop(plain);
        td_fn_drop(f);
        if (later) leave(cx);
        else td_close(cx);
    }
    CHECK(got[0] == got[1]);
}

TEST(hooks_around_create_graph_are_not_in_later_second_gradients) {
    td_grad_opts make = {TD_GRAD_OPTS, .create_graph = true};
    td_ctx      *cx = td_open();
    pair         in = inputs(cx);
    td_config_set(cx, "cache_disk_mb", "0");
    double got[2];
    for (int hooked = 0; hooked < 2; hooked++) {
        td_fn *f = td_aot_function(cx, body, NULL, NULL);
        for (int call = 0; call < 2; call++) {
            td_tensor *y, *g, *gg;
            CHECK(td_invoke(f, TD_ARGS(in.x, in.w), &y, 1));
            if (hooked && !call) td_saved_hooks_push(cx, &rounding);
            CHECK(td_grad(TD_LIST(td_sum(y)), TD_LIST(in.w), &g, &make));
            if (hooked && !call) td_saved_hooks_pop(cx);
            CHECK(td_grad(TD_LIST(td_sum(g)), TD_LIST(in.w), &gg, NULL));
            double now = td_item(td_sum(gg));
            if (!hooked) got[call] = now;
            else if (call) CHECK(now == got[1]);
            else CHECK(now != got[0] && fabs(now - got[0]) < 0.2);
        }
        td_fn_drop(f);
    }
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- checkpoints -------------------------------------------------------- */

typedef struct segment {
    td_fn   *f; /* NULL: the body itself */
    td_body *body;
} segment;

static bool run_segment(void *env, td_tensor *const *in, int n, td_tensor **out,
                        int m) {
    segment *s = env;
    td_value v;
    (void)n, (void)m;
    if (s->f) return td_invoke(s->f, TD_ARGS(in[0], in[1]), out, 1);
    if (td_call_body(td_ctx_of(in[0]), s->body, NULL, TD_ARGS(in[0], in[1]), &v, 1) < 0)
        return false;
    out[0] = v.u.t;
    return true;
}

static bool with_dropout(td_call *c) {
    td_tensor *h = td_tanh(td_matmul(td_arg(c, 0), td_arg(c, 1)));
    return td_return(c, td_mul(td_dropout(h, 0.5, true), td_exp(h)));
}

static double grad_in_checkpoint(segment *s, pair in, bool twice) {
    td_ctx    *cx = td_ctx_of(in.x);
    td_tensor *y, *z, *g;
    td_rng_set(cx, 77, 0);
    CHECK(td_checkpoint(cx, run_segment, s, TD_LIST(td_mul(in.x, 1.0), in.w), &y, 1));
    CHECK(!twice ||
          td_checkpoint(cx, run_segment, s, TD_LIST(td_mul(in.x, 2.0), in.w), &z, 1));
    if (twice) y = td_add(y, z);
    CHECK(td_grad(TD_LIST(td_sum(y)), TD_LIST(in.w), &g, NULL));
    return td_item(td_sum(g));
}

TEST(a_compiled_call_in_a_checkpoint_is_computed_again_as_eagers) {
    td_body *const bodies[] = {body, with_dropout};
    for (int i = 0; i < TD_COUNT(bodies); i++)
        for (int warm = 0; warm < 2; warm++)
            for (int twice = 0; twice < 2; twice++) {
                td_ctx *cx = td_open();
                pair    in = inputs(cx);
                td_config_set(cx, "cache_disk_mb", "0");
                segment eager = {NULL, bodies[i]};
                segment code = {td_aot_function(cx, bodies[i], NULL, NULL), NULL};
                if (warm) grad_of_call(code.f, in, NULL);
                double   want = grad_in_checkpoint(&eager, in, twice);
                uint64_t offset = td_rng_offset(cx);
                for (int call = 0; call < 3; call++) {
                    double got = grad_in_checkpoint(&code, in, twice);
                    CHECK(is_number(cx, got, want, 1e-5));
                    CHECK(td_rng_offset(cx) == offset);
                }
                CHECK_OK(cx);
                double after = grad_of_call(code.f, in, NULL);
                CHECK(i || is_number(cx, after, grad_in_checkpoint(&eager, in, false),
                                     1e-5));
                td_fn_drop(code.f);
                td_close(cx);
            }
}

/* One tensor given twice, a view beside its base, leaves and others: the second run is
 * the same specialization as the first. */
static bool product_of_logits(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    return td_return(c, td_mul(td_exp(a), td_tanh(td_mul(a, b))));
}

TEST(a_checkpoint_runs_again_on_the_inputs_themselves) {
    for (int kind = 0; kind < 4; kind++) {
        td_ctx *cx = td_open();
        td_config_set(cx, "cache_disk_mb", "0");
        td_tensor *x = inputs(cx).x, *y, *g;
        double     sum[2];
        td_fn     *f = td_aot_function(cx, product_of_logits, NULL, NULL);
        for (int code = 0; code < 2; code++) {
            segment    s = {code ? f : NULL, product_of_logits};
            td_tensor *a = kind < 2 ? x : td_mul(x, 2.0);
            td_tensor *b = kind % 2 ? td_view(a, TD_SHAPE(4, 3)) : a;
            CHECK(td_checkpoint(cx, run_segment, &s, TD_LIST(a, b), &y, 1));
            CHECK(td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, NULL));
            sum[code] = td_item(td_sum(g));
        }
        CHECK_OK(cx);
        CHECK(is_number(cx, sum[1], sum[0], 1e-5));
        CHECK(td_fn_specializations(f) == 1);
        td_fn_drop(f);
        td_close(cx);
    }
}

/* env: writes in[0], which in[1] need not be. */
static bool writes_input(void *env, td_tensor *const *in, int n, td_tensor **out,
                         int m) {
    (void)n, (void)m;
    out[0] = td_exp(td_mul(env ? td_mul_(in[0], 2.0) : in[0], in[1]));
    return true;
}

/* PyTorch saves the inputs of a checkpoint and looks at their versions alike. */
TEST(a_checkpoint_whose_input_was_written_is_an_error) {
    for (int kind = 0; kind < 4; kind++) {
        bool       inside = kind & 1, grad = kind & 2;
        td_ctx    *cx = td_open();
        td_tensor *x = inputs(cx).x, *y;
        td_tensor *a = grad ? td_mul(x, 1.0) : td_ones_like(x);
        CHECK(
            td_checkpoint(cx, writes_input, inside ? cx : NULL, TD_LIST(a, x), &y, 1));
        if (!inside) td_mul_(a, 2.0);
        CHECK_OK(cx);
        CHECK(!td_backward(td_sum(y)));
        CHECK(td_error(cx) == TD_E_GRAD);
        CHECK(strstr(td_message(cx), "its input 0 (f32[4,3]) has been modified"));
        td_clear(cx);
        td_close(cx);
    }
}

/* ---- hooks that unpack something else ----------------------------------- */

typedef enum other { OTHER_STRIDES, OTHER_DTYPE, OTHER_SIZES, OTHER_RANK } other;

static void *keep_it(void *env, td_tensor *t) {
    (void)env;
    return td_keep(td_clone(t));
}
static td_tensor *give_other(void *env, void *p, td_ctx *cx) {
    td_tensor *t = p;
    (void)cx;
    switch (*(other *)env) {
    case OTHER_STRIDES:
        return td_rank(t) == 2 ? td_transpose(td_clone(td_transpose(t, 0, 1)), 0, 1)
                               : t;
    case OTHER_DTYPE: return td_to(t, TD_F64);
    case OTHER_SIZES: return td_narrow(t, 0, 0, 1);
    default: return td_unsqueeze(t, 0);
    }
}
/* A row-major copy of what was not. */
static td_tensor *give_dense(void *env, void *p, td_ctx *cx) {
    (void)env, (void)cx;
    return td_contiguous(td_add(p, 0.0));
}

static bool square_sum(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(td_mul(x, x), td_arg(c, 1)));
}

TEST(an_unpack_hook_may_give_other_strides) {
    for (int dense = 0; dense < 2; dense++)
        for (int turned = 0; turned < 2; turned++) {
            other          how = OTHER_STRIDES;
            td_saved_hooks hooks = {keep_it, dense ? give_dense : give_other, drop,
                                    &how};
            td_ctx        *cx = td_open();
            td_config_set(cx, "cache_disk_mb", "0");
            td_seed(cx, 3);
            td_tensor *x = td_requires_grad_(td_randn(cx, TD_SHAPE(5, 7)));
            td_tensor *w = td_randn(cx, TD_SHAPE(5, 7)), *y, *g, *want;
            td_tensor *a = turned ? td_transpose(td_mul(x, 1.0), 0, 1) : td_mul(x, 1.0);
            td_tensor *b = turned ? td_transpose(w, 0, 1) : w;
            td_fn     *f = td_aot_function(cx, square_sum, NULL, NULL);
            td_saved_hooks_push(cx, &hooks);
            CHECK(td_invoke(f, TD_ARGS(a, b), &y, 1));
            td_saved_hooks_pop(cx);
            CHECK(td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, NULL));
            want = td_mul(td_mul(td_detach(x), w), 2.0);
            CHECK(td_item(td_max(td_abs(td_sub(g, want)))) < 1e-5);
            CHECK_OK(cx);
            td_fn_drop(f);
            td_close(cx);
        }
}

TEST(an_unpack_hook_that_gives_another_type_is_an_error) {
    for (int dynamic = 0; dynamic < 2; dynamic++)
        for (other how = OTHER_DTYPE; how <= OTHER_RANK; how++) {
            td_saved_hooks hooks = {keep_it, give_other, drop, &how};
            td_aot_opts    opts = {TD_AOT_OPTS, .name = "squared",
                                   .dynamic =
                                    dynamic ? TD_SHAPES_DYNAMIC : TD_SHAPES_STATIC};
            td_ctx        *cx = td_open();
            td_config_set(cx, "cache_disk_mb", "0");
            td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(5, 7)));
            td_tensor *w = td_ones(cx, TD_SHAPE(5, 7)), *y;
            td_fn     *f = td_aot_function(cx, square_sum, NULL, &opts);
            td_saved_hooks_push(cx, &hooks);
            CHECK(td_invoke(f, TD_ARGS(x, w), &y, 1));
            td_saved_hooks_pop(cx);
            CHECK(!td_backward(td_sum(y)));
            CHECK(td_error(cx) == TD_E_GRAD);
            CHECK(strstr(td_message(cx), "squared: the unpack hook"));
            CHECK(strstr(td_message(cx), "f32[5,7]"));
            td_clear(cx);
            td_fn_drop(f);
            td_close(cx);
        }
}

/* ---- anomaly mode ------------------------------------------------------- */

/* NaN arises in the middle of the backward and is gone at its end. */
static bool steps_over_nan(td_call *c) {
    td_tensor *w = td_arg(c, 0), *g;
    td_tensor *h = td_where(td_gt(w, 0.0), td_sqrt(w), w);
    if (!td_grad(TD_LIST(td_sum(td_mul(h, 0.0))), TD_LIST(w), &g, NULL)) return false;
    return td_return(c, g);
}

TEST(anomaly_mode_around_a_call_checks_the_backward_inside) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_requires_grad_(td_zeros(cx, TD_SHAPE(3))), *y;
    td_value   v;
    td_config_set(cx, "cache_disk_mb", "0");
    for (int step = 0; step < 2; step++) {
        td_fn *f = step ? td_aot_step(cx, steps_over_nan, NULL, NULL)
                        : td_aot_function(cx, steps_over_nan, NULL, NULL);
        for (int on = 2; on >= 0; on--) { /* the first call with it, and later ones */
            td_set_anomaly(cx, on != 1);
            bool eager = td_call_body(cx, steps_over_nan, NULL, TD_ARGS(w), &v, 1) >= 0;
            char want[200];
            snprintf(want, sizeof want, "%.150s", td_message(cx));
            td_clear(cx);
            bool got = td_invoke(f, TD_ARGS(w), &y, 1);
            CHECK(got == eager);
            CHECK(eager == (on == 1));
            CHECK(!strncmp(td_message(cx), want, strlen(want)));
            td_clear(cx);
        }
        td_fn_drop(f);
    }
    td_close(cx);
}
