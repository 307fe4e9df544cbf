/* aot_types_sizes.c -- symbolic sizes of tensors of a type: another number of rows is
 * the same specialization, with inner tensors whose sizes follow. */
#include "graph/graph.h"
#include "type_help.h"

static void rows_2(td_ctx *cx, observed *s) { pair_of_rows(cx, s, 2); }
static void rows_4(td_ctx *cx, observed *s) { pair_of_rows(cx, s, 4); }
static void rows_5(td_ctx *cx, observed *s) { pair_of_rows(cx, s, 5); }
static void rows_7(td_ctx *cx, observed *s) { pair_of_rows(cx, s, 7); }

TEST(other_sizes_of_a_pair_do_not_compile_again) {
    td_ctx     *cx = td_open();
    td_aot_opts o = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};
    td_fn      *f = td_aot_function(cx, smooth, NULL, &o);
    CHECK(agrees(cx, f, smooth, rows_4, 2, 1));
    CHECK(agrees(cx, f, smooth, rows_5, 2, 1));
    CHECK(agrees(cx, f, smooth, rows_7, 2, 2));
    CHECK(td_fn_specializations(f) == 1);
    CHECK_OK(cx);
    td_close(cx);
}

TEST(a_size_that_changed_becomes_a_symbol) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, smooth, NULL, NULL);
    CHECK(agrees(cx, f, smooth, rows_2, 1, 1));
    CHECK(agrees(cx, f, smooth, rows_4, 1, 1));
    CHECK(td_fn_specializations(f) == 2);
    CHECK(agrees(cx, f, smooth, rows_5, 1, 1));
    CHECK(agrees(cx, f, smooth, rows_7, 1, 1));
    CHECK(td_fn_specializations(f) == 2);
    CHECK_OK(cx);
    td_close(cx);
}

static void marked(td_ctx *cx, observed *s, int64_t n) {
    pair_of_rows(cx, s, n);
    for (int i = 0; i < 2; i++) td_mark_dynamic(s->arg[i], 0);
}
static void marked_4(td_ctx *cx, observed *s) { marked(cx, s, 4); }
static void marked_6(td_ctx *cx, observed *s) { marked(cx, s, 6); }

TEST(a_marked_size_of_a_pair_is_a_symbol) {
    td_ctx *cx = td_open();
    td_fn  *f = td_aot_function(cx, smooth, NULL, NULL);
    CHECK(agrees(cx, f, smooth, marked_4, 1, 1));
    CHECK(agrees(cx, f, smooth, marked_6, 1, 1));
    CHECK(td_fn_specializations(f) == 1);
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- types whose inner tensors have other sizes ------------------------- */

static bool product(td_call *c) {
    td_tensor *d = td_arg(c, 0), *x = td_arg(c, 1);
    return td_return(c, td_matmul(d, x), td_neg(d));
}

static void diagonal(td_ctx *cx, observed *s, int64_t n) {
    td_tensor *d = td_reshape(noise(cx, n, 1), TD_SHAPE(-1));
    s->arg[0] = s->leaf[0] = td_requires_grad_(make_diag(td_clone(d)));
    s->arg[1] = s->leaf[1] = td_requires_grad_(noise(cx, n, 3));
    s->n_arg = 2;
}
static void diagonal_4(td_ctx *cx, observed *s) { diagonal(cx, s, 4); }
static void diagonal_6(td_ctx *cx, observed *s) { diagonal(cx, s, 6); }

TEST(the_diagonal_of_a_matrix_has_its_symbolic_size) {
    td_ctx     *cx = td_open();
    td_aot_opts o = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};
    td_fn      *f = td_aot_function(cx, product, NULL, &o);
    CHECK(agrees(cx, f, product, diagonal_4, 1, 1));
    CHECK(agrees(cx, f, product, diagonal_6, 1, 2));
    CHECK(td_fn_specializations(f) == 1);
    CHECK_OK(cx);
    td_close(cx);
}

static bool writes_rows(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    td_mul_(a, 2.0);
    td_add_(td_select(a, 0, 1), 1.0);
    return td_return(c, td_sum(td_mul(a, b), TD_DIMS(0)));
}

static void written(td_ctx *cx, observed *s, int64_t n) {
    s->arg[0] = make_pair(noise(cx, n, 3), td_transpose(noise(cx, 3, n), 0, 1), "");
    s->arg[1] = s->leaf[1] = td_requires_grad_(noise(cx, n, 3));
    s->n_arg = 2;
}
static void written_4(td_ctx *cx, observed *s) { written(cx, s, 4); }
static void written_5(td_ctx *cx, observed *s) { written(cx, s, 5); }

TEST(a_pair_of_symbolic_sizes_and_other_strides_is_written) {
    td_ctx     *cx = td_open();
    td_aot_opts o = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};
    td_fn      *f = td_aot_function(cx, writes_rows, NULL, &o);
    CHECK(agrees(cx, f, writes_rows, written_4, 1, 1));
    CHECK(agrees(cx, f, writes_rows, written_5, 1, 1));
    CHECK(td_fn_specializations(f) == 1);
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- types of graphs ---------------------------------------------------- */

static td_gnode *as_it_is(void *env, const td_gnode *was, td_gnode *now) {
    (void)env, (void)was;
    return now;
}

/* The first graph numbers its symbols in another order. */
TEST(appended_inner_tensors_have_the_symbols_of_the_graph) {
    td_ctx     *cx = td_open();
    td_buf      b = {0};
    td_gval    *twin[8] = {0};
    const char *text =
        "func @to(%y: f32[s1,s0]) {\n"
        "  return %y\n"
        "}\n"
        "func @g(%x: f32[s0,s1] of pair(\"\", f32[s0,s1], f32[s0,s1])) {\n"
        "  return %x\n"
        "}\n";
    CHECK(pair_type(cx));
    td_gfile *f = td__gfile_parse(cx, text, strlen(text), "t.td");
    CHECK_OK(cx);
    CHECK(td__graph_append(f->graphs.v[0], f->graphs.v[1], twin, as_it_is, NULL));
    CHECK(td__graph_print(&b, f->graphs.v[0], TD_PRINT_TYPES));
    CHECK(strstr(td__buf_str(&b), "f32[s0,s1] of pair(\"\", f32[s0,s1], f32[s0,s1])"));
    td__buf_free(&b);
    td__gfile_drop(f);
    td_close(cx);
}
