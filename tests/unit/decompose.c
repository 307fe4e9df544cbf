/* decompose.c -- ops replaced by simpler ones. That each simpler form gives what its
 * op does is checked over all samples by tests/ops. */
#include "td_test.h"

#include "trace/trace.h"
#include "tandem/tandem.h"

typedef struct diary {
    char text[512];
} diary;

static bool note(void *env, td_mode_call *h) {
    diary *d = env;
    size_t n = strlen(d->text);
    snprintf(d->text + n, sizeof d->text - n, "%s ", td_mode_call_name(h));
    return td_mode_call_go(h);
}

/* What a mode below hears of f(x) under a decomposition. */
static void check_heard(td_tensor *f(td_tensor *), const char *ops, const char *heard) {
    td_ctx      *cx = td_open();
    diary        d = {""};
    td_mode_hook m = {.call = note, .env = &d, .composites = true};
    td_tensor   *x = td_randn(cx, TD_SHAPE(2, 3)), *y = f(x);
    td_mode_push(cx, &m);
    CHECK(td_decompose_begin(cx, ops));
    td_tensor *z = f(x);
    CHECK(td_decompose_end(cx));
    td_mode_pop(cx, &m);
    CHECK_OK(cx);
    CHECK_STR(d.text, heard);
    CHECK(td_item(td_max(td_abs(td_sub(y, z)))) < 1e-6);
    td_close(cx);
}

static td_tensor *do_silu(td_tensor *x) { return td_silu(x); }
static td_tensor *do_softmax(td_tensor *x) { return td_softmax(x, 1); }
static td_tensor *do_mean(td_tensor *x) { return td_mean(x); }
static td_tensor *do_write(td_tensor *x) { return td_silu_(td_clone(x)); }

TEST(ops_become_simpler_ones) {
    check_heard(do_silu, "all", "sigmoid mul ");
    check_heard(do_mean, "mean,silu", "sum div ");
    check_heard(do_mean, "silu", "mean ");
    check_heard(do_write, "all", "clone sigmoid mul copy_ ");
}

TEST(composites_fall_into_parts_when_named) {
    check_heard(do_softmax, "all", "amax sub exp sum div ");
    check_heard(do_softmax, "softmax", "_softmax ");
    check_heard(do_softmax, "_softmax", "softmax ");
    check_heard(do_softmax, "softmax,_softmax", "amax sub exp sum div ");
}

TEST(names_are_checked) {
    td_ctx *cx = td_open();
    CHECK(!td_decompose_begin(cx, "softmax,nonsense"));
    CHECK(strstr(td_message(cx), "no op nonsense"));
    td_clear(cx);
    CHECK(!td_decompose_begin(cx, "add"));
    CHECK(strstr(td_message(cx), "op add has no decomposition"));
    td_clear(cx);
    CHECK(!td_decompose_end(cx));
    td_clear(cx);
    CHECK(td_decompose_begin(cx, "all")); /* goes with its context */
    td_close(cx);
}

static bool only_mean(void *env, td_mode_call *h) {
    (void)env;
    bool want = !strcmp(td_mode_call_name(h), "mean") && td_mode_call_has_simpler(h);
    return want ? td_mode_call_simpler(h) : td_mode_call_go(h);
}

TEST(a_users_mode_may_choose) {
    td_ctx      *cx = td_open();
    diary        d = {""};
    td_mode_hook below = {.call = note, .env = &d}, mine = {.call = only_mean};
    td_tensor   *x = td_ones(cx, TD_SHAPE(4));
    td_mode_push(cx, &below);
    td_mode_push(cx, &mine);
    td_mean(td_silu(x));
    td_mode_pop(cx, &mine);
    td_mode_pop(cx, &below);
    CHECK_OK(cx);
    CHECK_STR(d.text, "silu sum div ");
    td_close(cx);
}

TEST(shape_errors_are_those_of_the_op) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2, 3));
    CHECK(td_decompose_begin(cx, "all"));
    CHECK(td_is_nil(td_addmm(x, x, x)));
    CHECK(strstr(td_message(cx), "addmm: "));
    td_clear(cx);
    td_close(cx);
}

/* Gradients go through the parts, also of what backward calls. */
TEST(gradients_agree) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_randn(cx, TD_SHAPE(4, 6)), *g[2];
    td_requires_grad_(x);
    for (int i = 0; i < 2; i++) {
        if (i) CHECK(td_decompose_begin(cx, "all"));
        td_tensor *y = td_layer_norm(td_gelu(x), TD_SHAPE(6));
        y = td_sum(td_mul(td_softmax(y, 1), y));
        CHECK(td_grad((td_tensors){&y, 1}, (td_tensors){&x, 1}, &g[i], NULL));
    }
    CHECK(td_decompose_end(cx));
    CHECK_OK(cx);
    CHECK(td_item(td_max(td_abs(td_sub(g[0], g[1])))) < 1e-5);
    td_close(cx);
}

static const char text[] = "func @f(%x: f32[2,3], %w: f32[3,3]) {\n"
                           "  %h = linear(%x, %w)\n"
                           "  %y = softmax(%h, 1)\n"
                           "  return %y, %h\n"
                           "}\n";

TEST(graphs_become_graphs_of_simpler_ops) {
    td_ctx   *cx = td_open();
    td_gfile *f = td__gfile_parse(cx, text, sizeof text - 1, "text");
    CHECK_OK(cx);
    td_graph *g = td__graph_decompose(f->graphs.v[0], "all");
    TD_CHECK_THAT(g != NULL, "%s", td_message(cx));
    CHECK(td__graph_verify(g, TD_STAGE_PROGRAM));
    for (int i = 0; i < g->nodes.n; i++)
        CHECK(!td__opinfo(g->nodes.v[i]->op)->has_simpler);
    CHECK_STR(g->inputs.v[1]->name, "w");
    CHECK(!td__graph_decompose(f->graphs.v[0], "nonsense"));
    td_clear(cx);
    td__graph_drop(g);
    td__gfile_drop(f);
    td_close(cx);
}
