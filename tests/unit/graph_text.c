/* graph_text.c -- graphs as text: what is printed parses back, what is wrong is
 * refused with its place. */
#include "graph_help.h"

TEST(a_program_prints_as_it_was_written) {
    check_prints("func @f(%x: f32[4,3], %w: f32[3,2]) {\n"
                 "  %v = select(%x, 0, 1)\n"
                 "  mul_(%v, 2.0)\n"
                 "  no_grad {\n"
                 "    add_(%w, 0.5)\n"
                 "  }\n"
                 "  %h = matmul(%x, %w)\n"
                 "  %y = tanh(%h)\n"
                 "  %t = transpose(%y, 0, 1)\n"
                 "  return %y, %t\n"
                 "}\n");
}

TEST(types_show_strides_offsets_grad_storages_and_symbols) {
    check_prints("func @f(%x: f32[4,3]{1,4}+2 grad @0, %y: f32[s0,3] @0, %n: int) {\n"
                 "  %z = add(%x, 1) : f32[s0*2+1,min(s0,4),s0//2-1,s0 % 8]\n"
                 "  %v = view(%y, [s0*3]) : f32[s0*3]\n"
                 "  return %z, 3, none, 2.5, true, s0+1\n"
                 "}\n");
}

TEST(descriptors_say_what_inputs_and_outputs_stand_for) {
    check_prints("func @f(%w: f32[2] <param \"fc.weight\">, %d: f32[2] <tangent 0>) {\n"
                 "  %p = mul(%d, %w) backward\n"
                 "  return %w, %p <grad 0>\n"
                 "}\n");
}

TEST(several_results_lists_and_keywords_are_read) {
    td_ctx   *cx = td_open();
    td_buf    b = {0};
    td_gfile *f = parse(cx, "func @f(%x: f32[4,3]) {\n"
                            "  %v, %i = max_dim(%x, keepdim=true, dim=1)\n"
                            "  %p... = split(%x, 2)\n"
                            "  %c = cat([%p.1, %p.0])\n"
                            "  return %v, %c\n"
                            "}\n");

    CHECK_OK(cx);
    td__gfile_print(&b, f, 0);
    CHECK_STR(td__buf_str(&b), "func @f(%x: f32[4,3]) {\n"
                               "  %v, %i = max_dim(%x, 1, true)\n"
                               "  %p.0, %p.1 = split(%x, 2)\n"
                               "  %c = cat([%p.1, %p.0])\n"
                               "  return %v, %c\n"
                               "}\n");
    td__buf_free(&b);
    td__gfile_drop(f);
    td_close(cx);
}

TEST(floats_print_with_the_fewest_digits_that_read_back) {
    check_prints("func @f(%x: f64[]) {\n"
                 "  %a = mul(%x, 0.1)\n"
                 "  %b = mul(%a, 1e+300)\n"
                 "  %c = mul(%b, 0.30000000000000004)\n"
                 "  %d = mul(%c, -inf)\n"
                 "  %e = mul(%d, nan)\n"
                 "  %g = mul(%e, -0.0)\n"
                 "  %h = mul(%g, 5e-324)\n"
                 "  return %h\n"
                 "}\n");
}

TEST(literals_in_a_function_are_its_constants) {
    check_prints("func @f(%x: f32[2,2]) {\n"
                 "  %c = tensor([1.0, 0.1, nan, -3.0], f32, [2,2])\n"
                 "  %n = tensor([], i64, [0,3])\n"
                 "  %y = add(%x, %c)\n"
                 "  return %y, %n\n"
                 "}\n");
}

TEST(a_nested_graph_is_an_argument) {
    td_ctx   *cx = td_open();
    td_graph *g = td__graph_make(cx, "f"), *inner = td__graph_make(cx, "inner");
    td_gval  *x = td__graph_input(g, "x", NULL, TD_PLAIN_DESC);
    td_gval  *a = td__graph_input(inner, "a", NULL, TD_PLAIN_DESC);
    td_buf    b = {0};
    td__graph_output(inner, td__garg_value(a), TD_PLAIN_DESC);
    CHECK(td__vec_push(&g->nested, inner));
    td_garg   in[2] = {td__garg_value(x), {.kind = TD_G_GRAPH, .u = {.g = inner}}};
    td_gnode *n = td__graph_op(g, TD_OP_neg, in, 2, 1);
    td__graph_output(g, td__garg_value(n->out[0]), TD_PLAIN_DESC);

    CHECK(td__graph_print(&b, g, 0));
    CHECK(strstr(b.s, "neg(%x, func @inner(%a) {\n    return %a\n  })") != NULL);
    CHECK(!td__graph_verify(g, TD_STAGE_PROGRAM));

    td_graph *twin = td__graph_clone(g);
    CHECK(td__graph_equal(g, twin, NULL, 0));
    td__graph_drop(twin);
    td__buf_free(&b);
    td__graph_drop(g);
    td_close(cx);
}

TEST(source_lines_and_scopes_survive_printing) {
    td_ctx     *cx = td_open();
    td_buf      b = {0};
    const char *text =
        "func @f(%x: f32[2]) {\n"
        "  %y = neg(%x) : f32[2] backward @\"model.c\":41 in \"net/attn\"\n"
        "  return %y\n"
        "}\n";
    td_gfile *f = parse(cx, text);

    CHECK_OK(cx);
    td__gfile_print(&b, f, TD_PRINT_TYPES | TD_PRINT_PLACES | TD_PRINT_SCOPES);
    CHECK_STR(td__buf_str(&b), text);
    CHECK(f->graphs.v[0]->nodes.v[0]->here.line == 41);
    td__buf_free(&b);
    td__gfile_drop(f);
    td_close(cx);
}

/* The argument shares its storage with a value whose type is not printed. */
TEST(storages_are_numbered_if_two_printed_types_share_them) {
    td_ctx   *cx = td_open();
    td_buf    b = {0};
    td_gfile *f = parse(cx, "func @f(%x: f32[4] @0) {\n"
                            "  %y = view(%x, [2,2]) : f32[2,2] @0\n"
                            "  return %y\n"
                            "}\n");

    CHECK_OK(cx);
    td__gfile_print(&b, f, 0);
    CHECK_STR(td__buf_str(&b), "func @f(%x: f32[4]) {\n"
                               "  %y = view(%x, [2,2])\n"
                               "  return %y\n"
                               "}\n");
    td__buf_free(&b);
    td__gfile_drop(f);
    td_close(cx);
}

TEST(values_of_one_name_print_under_two) {
    td_ctx   *cx = td_open();
    td_graph *g = td__graph_make(cx, "f");
    td_gval  *x = td__graph_input(g, "x", NULL, TD_PLAIN_DESC);
    td_garg   a = td__garg_value(x);
    td_buf    b = {0};
    for (int i = 0; i < 3; i++) {
        td_gnode *n = td__graph_op(g, TD_OP_neg, &a, 1, 1);
        n->out[0]->name = i < 2 ? "x" : NULL;
        a = td__garg_value(n->out[0]);
    }
    td__graph_output(g, a, TD_PLAIN_DESC);

    CHECK(td__graph_print(&b, g, 0));
    CHECK_STR(td__buf_str(&b), "func @f(%x) {\n"
                               "  %x_1 = neg(%x)\n"
                               "  %x_2 = neg(%x_1)\n"
                               "  %3 = neg(%x_2)\n"
                               "  return %3\n"
                               "}\n");
    td__buf_free(&b);
    td__graph_drop(g);
    td_close(cx);
}

TEST(mistakes_are_refused_with_their_place) {
    check_refuses("func @f(%x: f32[2]) {\n  %y = nge(%x)\n  return %y\n}\n",
                  "t.td:2:8: no op \"nge\"; did you mean neg?");
    check_refuses("func @f(%x: f32[2]) {\n  return %y\n}\n",
                  "t.td:2:10: %y is not defined before this line");
    check_refuses("func @f(%x: f32[2]) {\n  %x = neg(%x)\n  return %x\n}\n",
                  "t.td:2:3: %x is defined already; a value is defined once");
    check_refuses("func @f(%x: f32[2]) {\n  %y = select(%x, 0)\n  return %y\n}\n",
                  "t.td:2:20: select: argument index is missing");
    check_refuses("func @f(%x: f32[2]) {\n  %y = select(%x, 0, 1.5)\n  return %y\n}\n",
                  "t.td:2:22: select: argument index must be an integer");
    check_refuses("func @f(%x: f33[2]) {\n  return\n}\n",
                  "t.td:1:13: unknown type \"f33\"; types are f32[2,3], int, bool...");
    check_refuses("func @f() {\n  no_grad {\n  return\n}\n",
                  "t.td:4:1: 1 regions are not closed; } is missing");
    check_refuses("func @f() {\n  }\n  return\n}\n",
                  "t.td:2:3: unexpected }: no region is open");
    check_refuses("hello", "t.td:1:1: expected func or case");
    check_refuses("func @f() {\n  return \"\\q\"\n}",
                  "t.td:2:10: unknown escape in a string; known are \\\", \\\\, \\n, "
                  "\\t and \\xHH");
    check_refuses("func @f(%x: f32[2]) {\n  %\u00e4 = neg(%x)\n}",
                  "t.td:2:3: expected a statement: %x = op(...), op(...), return...");
}

TEST(hostile_depth_and_length_are_refused_or_read) {
    td_ctx *cx = td_open();
    td_buf  b = {0};
    td__buf_add(&b, "func @f(%x: f32[");
    for (int i = 0; i < 100000; i++) td__buf_add(&b, "(");
    CHECK(td__gfile_parse(cx, b.s, b.n, "t.td") == NULL);
    CHECK(strstr(td_message(cx), "is nested too deeply") != NULL);
    td_clear(cx);
    b.n = 0;
    td__buf_add(&b, "func @f() {\n");
    for (int i = 0; i < 100000; i++) td__buf_add(&b, "no_grad {\n");
    for (int i = 0; i < 100000; i++) td__buf_add(&b, "}\n");
    td__buf_add(&b, "return\n}\n");
    td_gfile *f = td__gfile_parse(cx, b.s, b.n, "t.td");
    CHECK_OK(cx);
    CHECK(td__graph_verify(f->graphs.v[0], TD_STAGE_PROGRAM));
    b.n = 0;
    CHECK(td__gfile_print(&b, f, 0));
    CHECK(b.n < 10000000);
    CHECK(td__graph_dce(f->graphs.v[0]) && f->graphs.v[0]->nodes.n == 0);
    td__gfile_drop(f);
    td__buf_free(&b);
    td_close(cx);
}

TEST(cases_print_as_they_were_written) {
    check_prints("func @f(%x: f32[2,2], %n: int) {\n"
                 "  return %x\n"
                 "}\n"
                 "\n"
                 "case \"a \\\"name\\\"\" {\n"
                 "  %x = tensor([1.0, 2.0, 3.0, 4.0], f32, [2,2], requires_grad=true)\n"
                 "  %r = randn([2,2], seed=3)\n"
                 "  %l = load(\"w.safetensors\", \"fc.weight\")\n"
                 "  no_grad {\n"
                 "    mul_(%r, 2.0)\n"
                 "  }\n"
                 "  %out.0 = call @f(%x, 3)\n"
                 "  backward seed=3 retain_graph=true\n"
                 "  %z = call @f(%r, 4)\n"
                 "  backward %z\n"
                 "}\n");
}

TEST(a_case_may_only_call_what_is_above_it) {
    check_refuses("case \"c\" {\n  call @f()\n}\n",
                  "t.td:2:8: function @f is not defined before this case");
    check_refuses("func @f() {\n  return\n}\ncase \"c\" {\n  call @f(1)\n}\n",
                  "t.td:5:8: @f takes 0 arguments, got 1");
}
