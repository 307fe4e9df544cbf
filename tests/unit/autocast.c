/* autocast.c -- mixed precision. The dtypes of each op under autocast are those of
 * PyTorch (autocast_dtypes.def, made by tools/oracle/autocast.py). */
#include "td_test.h"

#include "trace/trace.h"
#include "tandem/tandem.h"

#include <stdlib.h>

/* ---- dtypes of results -------------------------------------------------- */

/* Calls `op` on arguments of these dtypes, rank-2 square unless the op says. */
typedef td_tensor *caller(td_tensor *a, td_tensor *b);

static td_tensor *t_addmm(td_tensor *a, td_tensor *b) { return td_addmm(a, a, b); }
static td_tensor *t_addmm_(td_tensor *a, td_tensor *b) {
    return td_addmm_(td_clone(a), a, b);
}
static td_tensor *t_mm(td_tensor *a, td_tensor *b) { return td_mm(a, b); }
static td_tensor *t_matmul(td_tensor *a, td_tensor *b) { return td_matmul(a, b); }
static td_tensor *t_vectors(td_tensor *a, td_tensor *b) {
    return td_matmul(td_select(a, 0, 0), td_select(b, 0, 0));
}
static td_tensor *t_linear(td_tensor *a, td_tensor *b) { return td_linear(a, b); }
static td_tensor *wide(td_tensor *a) { return td_unsqueeze(a, 0); }
static td_tensor *t_bmm(td_tensor *a, td_tensor *b) { return td_bmm(wide(a), wide(b)); }
static td_tensor *t_baddbmm(td_tensor *a, td_tensor *b) {
    return td_baddbmm(wide(a), wide(a), wide(b));
}
static td_tensor *t_baddbmm_(td_tensor *a, td_tensor *b) {
    return td_baddbmm_(td_clone(wide(a)), wide(a), wide(b));
}
static td_tensor *t_conv2d(td_tensor *a, td_tensor *b) {
    return td_conv2d(wide(wide(a)), wide(wide(b)));
}
static td_tensor *t_conv1d(td_tensor *a, td_tensor *b) {
    return td_conv1d(wide(a), wide(b));
}
static td_tensor *t_sdpa(td_tensor *a, td_tensor *b) {
    return td_scaled_dot_product_attention(wide(a), wide(b), wide(b));
}
static td_tensor *t_einsum(td_tensor *a, td_tensor *b) {
    td_tensor *both[2] = {a, b};
    return td_einsum("ij,jk->ik", ((td_tensors){both, 2}));
}
static td_tensor *t_prod(td_tensor *a, td_tensor *b) { return (void)b, td_prod(a); }
static td_tensor *t_trace(td_tensor *a, td_tensor *b) { return (void)b, td_trace(a); }
static td_tensor *t_mse(td_tensor *a, td_tensor *b) { return td_mse_loss(a, b); }
static td_tensor *t_l1(td_tensor *a, td_tensor *b) { return td_l1_loss(a, b); }
static td_tensor *t_smooth(td_tensor *a, td_tensor *b) {
    return td_smooth_l1_loss(a, b);
}
static td_tensor *t_huber(td_tensor *a, td_tensor *b) { return td_huber_loss(a, b); }
static td_tensor *t_kl(td_tensor *a, td_tensor *b) { return td_kl_div(a, b); }
static td_tensor *t_bce(td_tensor *a, td_tensor *b) { return td_bce_with_logits(a, b); }
static td_tensor *t_cross(td_tensor *a, td_tensor *b) {
    return (void)b, td_cross_entropy(a, td_zeros(a->cx, TD_SHAPE(3), TD_I64));
}
static td_tensor *t_nll(td_tensor *a, td_tensor *b) {
    return (void)b, td_nll_loss(a, td_zeros(a->cx, TD_SHAPE(3), TD_I64));
}
static td_tensor *t_probabilities(td_tensor *a, td_tensor *b) {
    return td_binary_cross_entropy(a, b);
}
static td_tensor *t_hinge(td_tensor *a, td_tensor *b) {
    return td_hinge_embedding_loss(a, b);
}
static td_tensor *t_poisson(td_tensor *a, td_tensor *b) {
    return td_poisson_nll_loss(a, b);
}
static td_tensor *t_ranking(td_tensor *a, td_tensor *b) {
    return td_margin_ranking_loss(a, b, b);
}
static td_tensor *t_soft_margin(td_tensor *a, td_tensor *b) {
    return td_soft_margin_loss(a, b);
}
static td_tensor *t_multi_margin(td_tensor *a, td_tensor *b) {
    return (void)b, td_multi_margin_loss(a, td_zeros(a->cx, TD_SHAPE(3), TD_I64));
}
static td_tensor *t_multilabel(td_tensor *a, td_tensor *b) {
    return (void)b,
           td_multilabel_margin_loss(a, td_zeros(a->cx, TD_SHAPE(3, 3), TD_I64));
}
static td_tensor *t_multilabel_soft(td_tensor *a, td_tensor *b) {
    return td_multilabel_soft_margin_loss(a, b);
}
static td_tensor *t_cosine(td_tensor *a, td_tensor *b) {
    return td_cosine_embedding_loss(a, b, td_ones(a->cx, TD_SHAPE(3), TD_I64));
}
static td_tensor *t_triplet(td_tensor *a, td_tensor *b) {
    return td_triplet_margin_loss(a, b, b);
}
static td_tensor *t_gaussian(td_tensor *a, td_tensor *b) {
    return td_gaussian_nll_loss(a, a, b);
}
static td_tensor *t_ctc(td_tensor *a, td_tensor *b) {
    (void)b;
    td_tensor *one = td_ones(a->cx, TD_SHAPE(), TD_I64);
    return td_ctc_loss(td_log_softmax(a, 1), td_reshape(one, TD_SHAPE(1)),
                       td_mul(one, 3), one);
}
static td_tensor *t_cdist(td_tensor *a, td_tensor *b) { return td_cdist(a, b); }
static td_tensor *t_inv(td_tensor *a, td_tensor *b) {
    return (void)b, td_linalg_inv(td_to(td_eye(a->cx, 3), td_dtype_of(a)));
}
static td_tensor *t_quantile(td_tensor *a, td_tensor *b) {
    return (void)b, td_quantile(a, 0.5);
}
static td_tensor *t_prelu(td_tensor *a, td_tensor *b) {
    return td_prelu(a, td_narrow(td_select(b, 0, 0), 0, 0, 1));
}
static td_tensor *t_conv_transpose(td_tensor *a, td_tensor *b) {
    return td_conv_transpose1d(wide(a), td_unsqueeze(b, 2));
}
static td_tensor *t_vecdot(td_tensor *a, td_tensor *b) {
    return td_linalg_vecdot(a, b);
}
static td_tensor *t_cat(td_tensor *a, td_tensor *b) {
    td_tensor *both[2] = {a, b};
    return td_cat(((td_tensors){both, 2}));
}
static td_tensor *t_stack(td_tensor *a, td_tensor *b) {
    td_tensor *both[2] = {a, b};
    return td_stack(((td_tensors){both, 2}));
}
static td_tensor *t_index_copy(td_tensor *a, td_tensor *b) {
    return td_index_copy(a, 0, td_arange(a->cx, 0, 3, 1), b);
}
static td_tensor *t_add(td_tensor *a, td_tensor *b) { return td_add(a, b); }
static td_tensor *t_softmax(td_tensor *a, td_tensor *b) {
    return (void)b, td_softmax(a, 1);
}
static td_tensor *t_layer_norm(td_tensor *a, td_tensor *b) {
    return (void)b, td_layer_norm(a, TD_SHAPE(3));
}
static td_tensor *t_gelu(td_tensor *a, td_tensor *b) { return (void)b, td_gelu(a); }
static td_tensor *t_mean(td_tensor *a, td_tensor *b) { return (void)b, td_mean(a); }
static td_tensor *t_mv(td_tensor *a, td_tensor *b) {
    return td_mv(a, td_select(b, 0, 0));
}

/* What PyTorch gives for each pair of dtypes of a and b: their letters, x where it
 * refuses. */
typedef struct row {
    const char *name;
    caller     *fn;
    td_dtype    region;
    const char *results; /* [a][b] */
} row;

static const row rows[] = {
#define ROW(name, region, results) {#name, t_##name, region, results},
#include "autocast_dtypes.def"
#undef ROW
};

static const td_dtype dtypes[] = {TD_F64, TD_F32, TD_F16, TD_BF16};

static void check_row(const row *r, int i) {
    td_ctx          *cx = td_open();
    td_tensor       *a = td_to(td_ones(cx, TD_SHAPE(3, 3)), dtypes[i / 4]);
    td_tensor       *b = td_to(td_ones(cx, TD_SHAPE(3, 3)), dtypes[i % 4]);
    td_autocast_mode was = td_autocast_begin(cx, r->region);
    td_tensor       *y = r->fn(a, b);
    td_autocast_end(cx, was);
    char got = td_ok(cx) ? "dfhb"[td_dtype_of(y)] : 'x';
    TD_CHECK_THAT(got == r->results[i], "%s of %s and %s under %s: %c, not %c; %s",
                  r->name, td_dtype_name(dtypes[i / 4]), td_dtype_name(dtypes[i % 4]),
                  td_dtype_name(r->region), got, r->results[i], td_message(cx));
    td_clear(cx);
    td_close(cx);
}

TEST(results_have_pytorchs_dtypes) {
    CHECK(TD_F64 == 0 && TD_F32 == 1 && TD_F16 == 2 && TD_BF16 == 3);
    for (int i = 0; i < TD_COUNT(rows); i++)
        for (int k = 0; k < 16; k++) check_row(&rows[i], k);
}

/* ---- regions ------------------------------------------------------------ */

TEST(regions_nest_and_switch_off) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 2));
    CHECK(!td_autocast_enabled(cx) && td_autocast_dtype(cx) == TD_DTYPE_NONE);
    td_autocast_mode a = td_autocast_begin(cx, TD_BF16);
    CHECK(td_dtype_of(td_mm(x, x)) == TD_BF16);
    td_autocast_mode b = td_autocast_off_begin(cx);
    CHECK(!td_autocast_enabled(cx) && td_dtype_of(td_mm(x, x)) == TD_F32);
    td_autocast_mode c = td_autocast_begin(cx, TD_F16);
    CHECK(td_autocast_dtype(cx) == TD_F16 && td_dtype_of(td_mm(x, x)) == TD_F16);
    td_autocast_end(cx, c);
    CHECK(td_dtype_of(td_mm(x, x)) == TD_F32);
    td_autocast_end(cx, b);
    CHECK(td_dtype_of(td_mm(x, x)) == TD_BF16);
    td_autocast_end(cx, a);
    CHECK(td_dtype_of(td_mm(x, x)) == TD_F32);
    CHECK(cx->top == cx->tape);
    td_autocast_begin(cx, TD_F32);
    CHECK(strstr(td_message(cx), "dtype is f32, and must be TD_BF16 or TD_F16"));
    td_clear(cx);
    td_close(cx); /* with a region open */
}

typedef struct diary {
    char text[512];
} diary;

static bool note(void *env, td_mode_call *h) {
    diary *d = env;
    size_t n = strlen(d->text);
    snprintf(d->text + n, sizeof d->text - n, "%s ", td_mode_call_name(h));
    return td_mode_call_go(h);
}

/* Whether it is pushed inside or outside, a mode hears casts and what was cast. */
TEST(other_modes_receive_the_casts) {
    td_ctx      *cx = td_open();
    diary        d = {""}, e = {""};
    td_mode_hook in = {.call = note, .env = &d}, out = {.call = note, .env = &e};
    td_tensor   *x = td_ones(cx, TD_SHAPE(2, 2)), *w = td_ones(cx, TD_SHAPE(2, 2));
    td_mode_push(cx, &out);
    td_autocast_mode was = td_autocast_begin(cx, TD_BF16);
    td_mode_push(cx, &in);
    td_tensor *y = td_linear(x, w);
    CHECK(td_mode_pop(cx, &in));
    td_autocast_end(cx, was);
    CHECK(td_mode_pop(cx, &out));
    CHECK_OK(cx);
    CHECK(td_dtype_of(y) == TD_BF16);
    CHECK_STR(d.text, "_to_copy _to_copy t mm ");
    CHECK_STR(e.text, d.text);
    td_close(cx);
}

/* ---- weights and gradients ---------------------------------------------- */

static int count_casts(const diary *d) {
    int n = 0;
    for (const char *p = d->text; (p = strstr(p, "_to_copy")); p++) n++;
    return n;
}

TEST(a_weight_is_cast_once_and_gets_its_gradient) {
    td_ctx      *cx = td_open();
    diary        d = {""};
    td_mode_hook m = {.call = note, .env = &d};
    td_tensor   *x = td_ones(cx, TD_SHAPE(2, 2)), *w = td_ones(cx, TD_SHAPE(2, 2));
    td_requires_grad_(w);
    td_mode_push(cx, &m);
    td_autocast_mode was = td_autocast_begin(cx, TD_BF16);
    for (int i = 0; i < 3; i++) {
        td_scope_begin(cx, "step");
        td_autocast_mode inner = td_autocast_begin(cx, TD_BF16);
        td_mm(td_to(x, TD_BF16), w);
        td_autocast_end(cx, inner);
        td_scope_end(cx, "step", NULL);
    }
    CHECK(count_casts(&d) == 4); /* x three times, w once */
    td_tensor *y = td_mm(x, w);
    td_autocast_end(cx, was);
    td_mode_pop(cx, &m);
    td_backward(td_sum(y));
    CHECK_OK(cx);
    CHECK(td_dtype_of(y) == TD_BF16 && td_dtype_of(td_grad_of(w)) == TD_F32);
    CHECK(td_item(td_select(td_select(td_grad_of(w), 0, 0), 0, 0)) == 2);
    td_close(cx);
}

TEST(a_written_weight_is_cast_again) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 2)), *w = td_ones(cx, TD_SHAPE(2, 2));
    td_requires_grad_(w);
    td_autocast_mode was = td_autocast_begin(cx, TD_BF16);
    td_grad_mode     grad = td_no_grad_begin(cx);
    CHECK(!td_requires_grad(td_mm(x, w)));
    td_no_grad_end(cx, grad);
    td_tensor *y = td_mm(x, w);
    CHECK(td_requires_grad(y) && td_item(td_mean(y)) == 2);
    td_backward(td_sum(y));
    grad = td_no_grad_begin(cx);
    td_mul_(w, 3);
    td_no_grad_end(cx, grad);
    y = td_mm(x, w);
    CHECK(td_item(td_mean(y)) == 6);
    td_backward(td_sum(y));
    td_backward(td_sum(td_mm(x, w))); /* through the same cast again */
    td_autocast_end(cx, was);
    CHECK_OK(cx);
    CHECK(td_item(td_mean(td_grad_of(w))) == 6);
    td_close(cx);
}

static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_tanh(td_mm(in[0], env));
    return true;
}

TEST(a_checkpoint_runs_again_as_it_did) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 2)), *w = td_ones(cx, TD_SHAPE(2, 2)), *y;
    td_requires_grad_(x);
    td_autocast_mode was = td_autocast_begin(cx, TD_BF16);
    td_checkpoint(cx, region, w, (td_tensors){&x, 1}, &y, 1);
    td_autocast_end(cx, was);
    CHECK(td_dtype_of(y) == TD_BF16);
    td_backward(td_sum(y));
    CHECK_OK(cx);
    CHECK(td_dtype_of(td_grad_of(x)) == TD_F32);
    td_close(cx);
}

/* ---- capture ------------------------------------------------------------ */

static bool plain_body(td_call *c) {
    return td_return(c,
                     td_mse_loss(td_linear(td_arg(c, 0), td_arg(c, 1)), td_arg(c, 0)));
}

static bool casting_body(td_call *c) {
    td_autocast_mode was = td_autocast_begin(td_call_ctx(c), TD_BF16);
    td_tensor       *h = td_linear(td_arg(c, 0), td_arg(c, 1));
    td_autocast_end(td_call_ctx(c), was);
    return td_return(c, td_mse_loss(td_to(h, TD_F32), td_arg(c, 0)));
}

static void check_text(td_program *p, const char *words) {
    char text[1024];
    td_program_text(p, text, sizeof text);
    TD_CHECK_THAT(strstr(text, words), "no %s in\n%s", words, text);
}

TEST(casts_in_a_body_are_recorded) {
    td_ctx     *cx = td_open();
    td_tensor  *x = td_randn(cx, TD_SHAPE(2, 2)), *w = td_randn(cx, TD_SHAPE(2, 2));
    td_value    out, eager;
    td_program *p = td_capture(cx, casting_body, NULL, TD_ARGS(x, w));
    CHECK_OK(cx);
    check_text(p, "to(%x0, bf16)");
    CHECK(td_program_run(p, TD_ARGS(x, w), &out, 1));
    CHECK(td_call_body(cx, casting_body, NULL, TD_ARGS(x, w), &eager, 1) == 1);
    CHECK(td_item(out.u.t) == td_item(eager.u.t));
    td_program_drop(p);
    td_close(cx);
}

TEST(a_program_belongs_to_the_state_it_was_captured_in) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_randn(cx, TD_SHAPE(2, 2)), *w = td_randn(cx, TD_SHAPE(2, 2));
    td_value   out, eager;
    td_autocast_mode was = td_autocast_begin(cx, TD_BF16);
    td_program      *p = td_capture(cx, plain_body, NULL, TD_ARGS(x, w));
    CHECK_OK(cx);
    check_text(p, "bf16");
    CHECK(td_program_run(p, TD_ARGS(x, w), &out, 1));
    CHECK(td_call_body(cx, plain_body, NULL, TD_ARGS(x, w), &eager, 1) == 1);
    CHECK(td_item(out.u.t) == td_item(eager.u.t));
    td_autocast_end(cx, was);
    CHECK(!td_program_run(p, TD_ARGS(x, w), &out, 1));
    CHECK(strstr(td_message(cx), "autocast"));
    td_clear(cx);
    td_program_drop(p);
    td_close(cx);
}

typedef struct outer {
    td_tensor *x, *w;
} outer;

/* Closes over a weight, which it writes and makes larger by a dim. */
static bool closing_body(td_call *c) {
    td_ctx      *cx = td_call_ctx(c);
    const outer *o = td_call_env(c);
    td_tensor   *a = td_mm(o->x, o->w);
    td_grad_mode was = td_no_grad_begin(cx);
    td_mul_(o->w, 3);
    td_unsqueeze_(o->x, 0);
    td_no_grad_end(cx, was);
    td_tensor *b = td_einsum("aij,jk->ik", TD_LIST(o->x, o->w));
    return td_return(c, a, b);
}

TEST(a_body_is_cast_with_what_it_has_made_of_outer_tensors) {
    td_ctx    *cx = td_open();
    td_tensor *y[2];
    outer      o = {td_ones(cx, TD_SHAPE(2, 2)), td_ones(cx, TD_SHAPE(2, 2))};
    td_requires_grad_(o.w);
    td_config_set(cx, "backend", "interp");
    td_fn           *f = td_aot_function(cx, closing_body, &o, NULL);
    td_autocast_mode was = td_autocast_begin(cx, TD_BF16);
    CHECK(td_invoke(f, TD_ARGS(td_ones(cx, TD_SHAPE(1))), y, 2));
    td_autocast_end(cx, was);
    CHECK_OK(cx);
    CHECK(td_dtype_of(y[0]) == TD_BF16 && td_dtype_of(y[1]) == TD_BF16);
    CHECK(td_item(td_mean(y[0])) == 2 && td_item(td_mean(y[1])) == 6);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- graphs ------------------------------------------------------------- */

static const char graph[] = "func @f(%x: f32[2,2], %w: f32[2,2]) {\n"
                            "  %y = matmul(%x, %w)\n"
                            "  addmm_(%x, %w, %w)\n"
                            "  return %y\n"
                            "}\n";

/* Compiled for each state: a region's casts are in one program, not in the other. */
TEST(a_compiled_graph_has_the_casts_of_the_region) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_randn(cx, TD_SHAPE(2, 2)), *y;
    td_config_set(cx, "backend", "interp");
    td_gfile *file = td__gfile_parse(cx, graph, strlen(graph), "graph");
    td_fn    *f = td_aot_graph(file->graphs.v[0], NULL);
    for (int i = 0; i < 3; i++) {
        td_autocast_mode was = {0};
        td_tensor       *a = td_randn(cx, TD_SHAPE(2, 2)), *b = td_clone(a);
        if (i == 1) was = td_autocast_begin(cx, TD_BF16);
        CHECK(td_invoke(f, TD_ARGS(a, w), &y, 1));
        CHECK(td_dtype_of(y) == (i == 1 ? TD_BF16 : TD_F32));
        CHECK(td_item(td_all(td_eq(y, td_matmul(b, w)))));
        td_addmm_(b, w, w);
        if (i == 1) td_autocast_end(cx, was);
        CHECK(td_item(td_all(td_eq(a, b))));
        CHECK(td_fn_specializations(f) == 1 + (i > 0));
    }
    CHECK_OK(cx);
    td_fn_drop(f);
    td__gfile_drop(file);
    td_close(cx);
}

static bool leaving_body(td_call *c) {
    td_autocast_begin(td_call_ctx(c), TD_BF16);
    return td_return(c, td_mm(td_arg(c, 0), td_arg(c, 0)));
}

TEST(a_body_that_leaves_it_changed_is_refused) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 2));
    CHECK(td_is_nil(td_capture(cx, leaving_body, NULL, TD_ARGS(x))));
    CHECK(strstr(td_message(cx), "left autocast changed"));
    td_clear(cx);
    CHECK(!td_autocast_enabled(cx) && cx->top == cx->tape);
    td_close(cx);
}

/* ---- custom functions --------------------------------------------------- */

static bool mm_forward(td_fcall *f, td_tensor *const *in, int n, td_tensor **out,
                       int m) {
    (void)n, (void)m;
    out[0] = td_mm(in[0], in[1]);
    return td_fcall_save(f, TD_LIST(in[0], in[1]));
}
static bool mm_backward(td_fcall *f, td_tensor *const *g, int m, td_tensor **grad,
                        int n) {
    (void)n, (void)m;
    td_tensor *a = td_to(td_fcall_saved(f, 0), TD_F32);
    td_tensor *b = td_to(td_fcall_saved(f, 1), TD_F32);
    td_tensor *up = td_to(g[0], TD_F32);
    grad[0] = td_mm(up, td_transpose(b, 0, 1));
    grad[1] = td_mm(td_transpose(a, 0, 1), up);
    return true;
}
static bool calls_custom(td_call *c) {
    static const td_function fn = {.name = "own_mm",
                                   .forward = mm_forward,
                                   .backward = mm_backward};
    td_tensor               *y;
    td_ctx                  *cx = td_call_ctx(c);
    if (!td_function_call(cx, &fn, NULL, TD_LIST(td_arg(c, 0), td_arg(c, 1)), &y, 1))
        return false;
    return td_return(c, y);
}

/* Forward runs in the region, and backward behind it, as eagerly. */
TEST(a_custom_function_is_captured_under_autocast) {
    td_ctx *cx = td_open();
    double  got[2][2];
    td_config_set(cx, "backend", "interp");
    td_fn *f = td_aot_function(cx, calls_custom, NULL, NULL);
    for (int code = 0; code < 2; code++) {
        td_seed(cx, 4);
        td_tensor       *a = td_requires_grad_(td_randn(cx, TD_SHAPE(3, 3)));
        td_tensor       *b = td_requires_grad_(td_randn(cx, TD_SHAPE(3, 3))), *g[2];
        td_autocast_mode was = td_autocast_begin(cx, TD_BF16);
        td_value         v = {0};
        if (code) CHECK(td_invoke(f, TD_ARGS(a, b), &v.u.t, 1));
        else CHECK(td_call_body(cx, calls_custom, NULL, TD_ARGS(a, b), &v, 1) == 1);
        td_autocast_end(cx, was);
        CHECK(td_dtype_of(v.u.t) == TD_BF16);
        got[code][0] = td_item(td_sum(td_to(v.u.t, TD_F32)));
        CHECK(td_grad(TD_LIST(td_sum(td_to(v.u.t, TD_F32))), TD_LIST(a, b), g, NULL));
        got[code][1] = td_item(td_sum(td_mul(g[0], g[1])));
    }
    CHECK(got[0][0] == got[1][0] && got[0][1] == got[1][1]);
    CHECK_OK(cx);
    td_fn_drop(f);
    td_close(cx);
}
