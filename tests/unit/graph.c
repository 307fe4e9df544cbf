/* graph.c -- building, walking, checking and running graphs. */
#include "graph_help.h"

#include <stdlib.h>

/* The only function of a text, and the file that owns it. */
static td_graph *graph_of(td_ctx *cx, td_gfile **f, const char *text) {
    *f = parse(cx, text);
    CHECK_OK(cx);
    return (*f)->graphs.v[0];
}

TEST(trailing_defaults_are_cut_and_numbers_fit_the_schema) {
    td_ctx   *cx = td_open();
    td_graph *g = td__graph_make(cx, "f");
    td_gval  *x = td__graph_input(g, "x", NULL, TD_PLAIN_DESC);
    td_garg   in[3] = {td__garg_value(x), td__garg_value(x), td__garg_int(1)};

    td_gnode *n = td__graph_op(g, TD_OP_add, in, 3, 1);
    in[1] = td__garg_int(2);
    td_gnode *m = td__graph_op(g, TD_OP_uniform, in, 2, 1);

    CHECK(n->n_in == 2);
    CHECK(m->in[1].kind == TD_G_FLOAT && m->in[1].u.f == 2.0);
    td__graph_drop(g);
    td_close(cx);
}

TEST(use_lists_follow_replacements) {
    td_ctx   *cx = td_open();
    td_gfile *f;
    td_graph *g = graph_of(cx, &f,
                           "func @f(%x: f32[2], %y: f32[2]) {\n"
                           "  %a = add(%x, %x)\n"
                           "  %b = cat([%a, %x])\n"
                           "  return %b, %x\n"
                           "}\n");
    td_gval  *x = g->inputs.v[0], *y = g->inputs.v[1];

    CHECK(td__graph_index(g));
    CHECK(x->n_uses == 4 && y->n_uses == 0);
    CHECK(x->uses->node == g->nodes.v[0]);
    td__graph_replace(g, x, y);
    CHECK(x->n_uses == 0 && y->n_uses == 4);
    CHECK(g->nodes.v[1]->in[0].u.list[1].u.v == y && g->outputs.v[1].u.v == y);
    td__gfile_drop(f);
    td_close(cx);
}

TEST(names_places_and_storage_numbers_do_not_count_in_comparison) {
    td_ctx   *cx = td_open();
    char      why[200];
    td_gfile *f = parse(cx, "func @a(%x: f32[2] @3, %y: f32[2] @3) {\n"
                            "  %z = add(%x, %y)\n  return %z\n}\n"
                            "func @b(%p: f32[2] @8, %q: f32[2] @8) {\n\n"
                            "  %r = add(%p, %q)\n  return %r\n}\n"
                            "func @c(%p: f32[2], %q: f32[2]) {\n"
                            "  %r = add(%p, %q, 2)\n  return %r\n}\n"
                            "func @d(%p: f32[2], %q: f32[2]) {\n"
                            "  %r = add(%p, %q, 2.0)\n  return %r\n}\n");
    CHECK_OK(cx);
    td_graph **g = f->graphs.v;

    CHECK(td__graph_equal(g[0], g[1], why, sizeof why));
    CHECK(td__graph_hash(g[0]) == td__graph_hash(g[1]));
    CHECK(!td__graph_equal(g[1], g[2], why, sizeof why));
    CHECK(!td__graph_equal(g[2], g[3], why, sizeof why));
    CHECK_STR(why,
              "line 2: \"  %2 = add(%0, %1, 2)\" is not \"  %2 = add(%0, %1, 2.0)\"");
    CHECK(td__graph_hash(g[2]) != td__graph_hash(g[3]));
    td__gfile_drop(f);
    td_close(cx);
}

TEST(the_hash_of_a_graph_is_the_same_everywhere) {
    td_ctx   *cx = td_open();
    td_gfile *f;
    td_graph *g = graph_of(cx, &f,
                           "func @f(%x: f32[2]) {\n"
                           "  %y = mul(%x, 0.5)\n  return %y\n}\n");

    CHECK(td__graph_hash(g) == UINT64_C(2708552161759283733));
    td__gfile_drop(f);
    td_close(cx);
}

TEST(a_clone_is_equal_and_independent) {
    td_ctx   *cx = td_open();
    td_gfile *f;
    td_graph *g = graph_of(cx, &f,
                           "func @f(%x: f32[s0,3] grad <param \"w\">) {\n"
                           "  %c = tensor([1, 2, 3], f32)\n"
                           "  no_grad {\n    %y = mul(%x, %c)\n  }\n"
                           "  %z = view(%y, [s0*3])\n  return %z\n}\n");

    td_graph *h = td__graph_clone(g);
    td__gfile_drop(f);
    td_buf b = {0};
    td__graph_print(&b, h, TD_PRINT_TYPES);

    CHECK_STR(td__buf_str(&b), "func @f(%x: f32[s0,3] grad <param \"w\">) {\n"
                               "  %c = tensor([1.0, 2.0, 3.0], f32, [3])\n"
                               "  no_grad {\n    %y = mul(%x, %c)\n  }\n"
                               "  %z = view(%y, [s0*3])\n  return %z\n}\n");
    td__buf_free(&b);
    td__graph_drop(h);
    td_close(cx);
}

/* ---- checking ----------------------------------------------------------- */

static void check_stage(const char *text, td_stage stage, const char *message) {
    td_ctx   *cx = td_open();
    td_gfile *f;
    td_graph *g = graph_of(cx, &f, text);

    CHECK(td__graph_verify(g, TD_STAGE_PROGRAM));
    CHECK(td__graph_verify(g, stage) == (message == NULL));
    CHECK_MESSAGE(cx, message ? message : "");
    td__gfile_drop(f);
    td_close(cx);
}

TEST(each_stage_has_its_contract) {
    check_stage("func @f(%x: f32[2]) {\n  add_(%x, 1)\n  return %x\n}\n",
                TD_STAGE_FUNCTIONAL,
                "t.td:2: add_: writes its argument, in a functional graph");
    check_stage("func @f(%x: f32[2]) {\n  no_grad {\n  }\n  return %x\n}\n",
                TD_STAGE_FUNCTIONAL,
                "graph @f: node 0 (region): a region, in a functional graph");
    check_stage("func @f(%x: f32[2], %d: f32[2] <tangent 0>) {\n  %y = neg(%x)\n"
                "  %g = neg(%d) backward\n  return %y, %g <grad 0>\n}\n",
                TD_STAGE_JOINT, NULL);
    check_stage("func @f(%x: f32[2], %d: f32[2] <tangent 0>) {\n"
                "  %g = neg(%d)\n  return %g <grad 0>\n}\n",
                TD_STAGE_JOINT, "t.td:2: neg: a forward node depends on a tangent");
    check_stage("func @f(%d: f32[2] <tangent 0>, %x: f32[2]) {\n  return %x\n}\n",
                TD_STAGE_JOINT, "graph @f: inputs: input 1 comes after a tangent");
    check_stage("func @f(%x: f32[2]) {\n  return %x <saved 0>, %x\n}\n", TD_STAGE_HALF,
                "graph @f: outputs: output 1 comes after a saved value");
    check_stage("func @f(%x: f32[2]) {\n  return %x <grad 0>\n}\n", TD_STAGE_HALF,
                "graph @f: outputs: a forward half gives no gradients");
}

TEST(a_value_read_before_it_is_made_is_found) {
    td_ctx   *cx = td_open();
    td_gfile *f;
    td_graph *g = graph_of(cx, &f,
                           "func @f(%x: f32[2]) {\n  %a = neg(%x)\n"
                           "  %b = neg(%a)\n  return %b\n}\n");
    td_gnode *swap = g->nodes.v[0];
    g->nodes.v[0] = g->nodes.v[1];
    g->nodes.v[1] = swap;

    CHECK(!td__graph_verify(g, TD_STAGE_PROGRAM));
    CHECK_MESSAGE(cx, "t.td:3: neg: %a is read before it is made");
    td__gfile_drop(f);
    td_close(cx);
}

/* ---- running ------------------------------------------------------------ */

TEST(a_replay_computes_writes_and_aliases) {
    td_ctx    *cx = td_open();
    td_gfile  *f;
    td_graph  *g = graph_of(cx, &f,
                            "func @f(%x: f32[2,2], %n: float) {\n"
                             "  %v = select(%x, 0, 1)\n"
                             "  mul_(%v, %n)\n"
                             "  %p... = unbind(%x)\n"
                             "  %s = add(%p.0, %p.1)\n"
                             "  return %v, %s, 3, %x\n}\n");
    td_tensor *x = td_from(cx, TD_F32, TD_SHAPE(2, 2), (float[]){1, 2, 3, 4});
    td_value   in[2] = {td_value_tensor(x), td_value_float(10)}, out[4];

    CHECK(td__graph_replay(g, in, out));
    CHECK_OK(cx);
    float got[4];
    CHECK(td_read(x, TD_F32, got, sizeof got));
    CHECK_NEAR(got[2], 30.0, 0);
    CHECK(td_same_storage(out[0].u.t, x) && td_is_view(out[0].u.t));
    CHECK(td_read(out[1].u.t, TD_F32, got, 2 * sizeof *got));
    CHECK_NEAR(got[1], 42.0, 0);
    CHECK(out[2].kind == TD_K_INT && out[2].u.i == 3 && out[3].u.t == x);
    td__gfile_drop(f);
    td_close(cx);
}

TEST(a_replay_has_history_except_in_its_regions) {
    td_ctx    *cx = td_open();
    td_gfile  *f;
    td_graph  *g = graph_of(cx, &f,
                            "func @f(%x: f32[]) {\n  no_grad {\n"
                             "    %a = mul(%x, %x)\n    enable_grad {\n"
                             "      %b = mul(%x, 3.0)\n    }\n"
                             "    %c = neg(%x)\n  }\n"
                             "  %d = add(%a, %b)\n  return %a, %c, %d\n}\n");
    td_tensor *x = td_from(cx, TD_F32, TD_SHAPE(), (float[]){2});
    td_set_requires_grad(x, true);
    td_value in[1] = {td_value_tensor(x)}, out[3];

    CHECK(td__graph_replay(g, in, out));
    CHECK(!td_requires_grad(out[0].u.t) && !td_requires_grad(out[1].u.t));
    CHECK(td_grad_enabled(cx) && td_backward(out[2].u.t));
    CHECK_NEAR(td_item(td_grad_of(x)), 3.0, 0);
    td__gfile_drop(f);
    td_close(cx);
}

TEST(a_replay_that_fails_restores_modes_and_says_where) {
    td_ctx    *cx = td_open();
    td_gfile  *f;
    td_graph  *g = graph_of(cx, &f,
                            "func @f(%x: f32[2]) {\n  inference {\n"
                             "    %y = select(%x, 0, 7)\n  }\n  return %y\n}\n");
    td_tensor *x = td_from(cx, TD_F32, TD_SHAPE(2), (float[]){2, 3});
    td_value   in[1] = {td_value_tensor(x)}, out[1];

    CHECK(!td__graph_replay(g, in, out));
    CHECK(td_error(cx) == TD_E_INDEX && td_is_nil(out[0].u.t));
    CHECK(td_grad_enabled(cx) && !td_inference_enabled(cx));
    int line;
    CHECK_STR(td_error_place(cx, &line), "t.td");
    CHECK(line == 3 && strstr(td_message(cx), " (t.td:3)"));
    td__gfile_drop(f);
    td_close(cx);
}

TEST(a_replay_lets_go_of_values_after_their_last_use) {
    td_ctx   *cx = td_open();
    td_gfile *f;
    td_buf    b = {0};
    td__buf_add(&b, "func @f(%x: f32[1000000]) {\n  %y0 = neg(%x)\n");
    for (int i = 1; i < 50; i++) td__buf_printf(&b, "  %%y%d = neg(%%y%d)\n", i, i - 1);
    td__buf_add(&b, "  return %y49\n}\n");
    td_graph  *g = graph_of(cx, &f, b.s);
    td_tensor *x = td_op_ones(cx, TD_SHAPE(1000000), TD_F32);
    td_value   in[1] = {td_value_tensor(x)}, out[1];

    td_memory_peak_reset();
    CHECK(td__graph_replay(g, in, out));
    CHECK(td_memory_peak() < 4 * 4000000);
    CHECK_NEAR(td_item(td_op_sum(out[0].u.t, TD_ALL, false, TD_DTYPE_NONE)), 1e6, 0);
    td__buf_free(&b);
    td__gfile_drop(f);
    td_close(cx);
}

TEST(symbols_take_their_values_from_the_inputs) {
    td_ctx    *cx = td_open();
    td_gfile  *f;
    td_graph  *g = graph_of(cx, &f,
                            "func @f(%x: f32[s0,3]) {\n"
                             "  %y = view(%x, [s0*3])\n"
                             "  %z = narrow(%y, 0, s0-1, s0//2)\n"
                             "  return %z, s0 % 3\n}\n");
    td_tensor *x = td_op_ones(cx, TD_SHAPE(5, 3), TD_F32);
    td_value   in[1] = {td_value_tensor(x)}, out[2];

    CHECK(td__graph_replay(g, in, out));
    CHECK_OK(cx);
    CHECK(td_size(out[0].u.t, 0) == 2 && td_offset(out[0].u.t) == 4);
    CHECK(out[1].u.i == 2);
    td__gfile_drop(f);
    td_close(cx);
}

TEST(looks_are_found_without_bytes) {
    td_ctx   *cx = td_open();
    td_gfile *f;
    td_buf    b = {0};
    td_graph *g = graph_of(cx, &f,
                           "func @f(%x: f32[4,3]) {\n"
                           "  %t = transpose(%x, 0, 1)\n"
                           "  %y = add(%t, 1.0)\n"
                           "  %z = zeros([1000000000,1000000])\n"
                           "  %v, %i = max_dim(%y, 1)\n"
                           "  return %y, %v\n}\n");

    CHECK(td__graph_infer(g));
    CHECK_OK(cx);
    td__graph_print(&b, g, TD_PRINT_TYPES);
    CHECK_STR(td__buf_str(&b), "func @f(%x: f32[4,3] @0) {\n"
                               "  %t = transpose(%x, 0, 1) : f32[3,4]{1,3} @0\n"
                               "  %y = add(%t, 1.0) : f32[3,4]{1,3}\n"
                               "  %z = zeros([1000000000,1000000]) : "
                               "f32[1000000000,1000000]\n"
                               "  %v, %i = max_dim(%y, 1) : (f32[3], i64[3])\n"
                               "  return %y, %v\n}\n");
    td__buf_free(&b);
    td__gfile_drop(f);
    td_close(cx);
}

TEST(a_million_nodes_take_seconds) {
    td_ctx *cx = td_open();
    td_buf  b = {0}, again = {0};
    int     n = getenv("TD_TEST_QUICK") ? 20000 : 1000000;
    td__buf_add(&b, "func @f(%x: f32[2]) {\n  %y0 = neg(%x)\n");
    for (int i = 1; i < n; i++)
        td__buf_printf(&b, "  %%y%d = add(%%y%d, %d.5)\n", i, i - 1, i);
    td__buf_printf(&b, "  return %%y%d\n}\n", n - 1);

    td_gfile *f = td__gfile_parse(cx, b.s, b.n, "t.td");
    CHECK_OK(cx);
    CHECK(td__graph_verify(f->graphs.v[0], TD_STAGE_FUNCTIONAL));
    CHECK(td__gfile_print(&again, f, TD_PRINT_TYPES));
    CHECK(again.n == b.n && !memcmp(again.s, b.s, b.n));
    CHECK(td__graph_dce(f->graphs.v[0]) && td__graph_cse(f->graphs.v[0]) &&
          td__graph_order(f->graphs.v[0]));
    CHECK(f->graphs.v[0]->nodes.n == n);
    td__gfile_drop(f);
    td__buf_free(&b);
    td__buf_free(&again);
    td_close(cx);
}

TEST(the_public_functions_read_print_and_run) {
    td_ctx     *cx = td_open();
    const char *text = "func @f(%x: f32[2]) {\n"
                       "  %c = tensor([1.0, 2.0], f32, [2])\n"
                       "  %y = add(%x, %c)\n  return %y, 7\n}\n";
    td_gfile   *f = td_graphs_parse(cx, text, strlen(text), NULL);
    td_graph   *g = td_graphs_find(f, "f");
    char        out[400];
    td_value    in[1] = {td_value_tensor(td_op_ones(cx, TD_SHAPE(2), TD_F32))}, got[2];

    CHECK(td_graphs_count(f) == 1 && td_graphs_at(f, 0) == g && !td_graphs_at(f, 1));
    CHECK(td_graph_inputs(g) == 1 && td_graph_outputs(g) == 2 &&
          td_graph_nodes(g) == 1);
    CHECK(td_graph_format(g, out, sizeof out) == strlen(text));
    CHECK_STR(out, text);
    CHECK(td_graph_run(g, in, 1, got, 2) && got[1].u.i == 7);
    CHECK_NEAR(td_item(td_op_select(got[0].u.t, 0, 1)), 3.0, 0);
    CHECK(!td_graph_run(g, in, 0, got, 2));
    CHECK_MESSAGE(cx, "td_graph_run: @f takes 1 inputs, got 0");

    td_graphs_drop(f);
    td_close(cx);
}
