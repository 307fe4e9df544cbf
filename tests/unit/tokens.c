/* tokens.c -- tokens: the order of ordered effects as values of joint graphs and
 * exports, and effects in every part of a program. */
#include "td_test.h"

#include "tandem/tandem.h"

#include <stdio.h>
#include <string.h>

/* ---- ops ---------------------------------------------------------------- */

static char seen[128];

static void add_seen(const char *s) {
    strncat(seen, s, sizeof seen - strlen(seen) - 1);
}

/* Copies x and notes its name. */
static bool note(const td_op_run *r) {
    td_tensor *x = r->in[0].u.t, *y = r->out[0];
    add_seen(r->in[1].u.s);
    memcpy(td_data(y), td_data(x), td_dtype_size(td_dtype_of(x)) * (size_t)td_numel(x));
    return true;
}

/* The gradient is noted in capitals. */
static bool note_back(const td_op_run *r) {
    char text[2] = {(char)(r->in[1].u.s[0] - 'a' + 'A'), 0};
    return td_call_op(r->cx, "tk_note", TD_ARGS(r->g[0], td_value_str(text)), r->grad,
                      1);
}

/* No result; what nothing reads. */
static bool mark(const td_op_run *r) { return add_seen(r->in[1].u.s), true; }

/* Calls tk_mark on a forward value: no tangent is read. */
static bool tell_back(const td_op_run *r) {
    r->grad[0] = r->g[0];
    return td_call_op(r->cx, "tk_mark", TD_ARGS(r->in[0].u.t, td_value_str("T")), NULL,
                      0);
}

static bool open_ops(td_ctx *cx) {
    const td_op_opts all[] = {
        {TD_OP_OPTS, .schema = "tk_note(Tensor x, str s) -> Tensor", .shape = "x",
         .kernel = note, .backward = note_back, .effect = TD_EFFECT_ORDERED,
         .version = 1},
        {TD_OP_OPTS, .schema = "tk_mark(Tensor x, str s='.') -> ()", .kernel = mark,
         .effect = TD_EFFECT_ORDERED, .version = 1},
        {TD_OP_OPTS, .schema = "tk_any(Tensor x, str s='.') -> ()", .kernel = mark,
         .effect = TD_EFFECT_UNORDERED, .version = 1},
        {TD_OP_OPTS, .schema = "tk_tell(Tensor x, str s) -> Tensor", .shape = "x",
         .kernel = note, .backward = tell_back, .saves = "x", .version = 1}};
    seen[0] = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!td_register_op(cx, &all[i])) return false;
    return true;
}

static td_tensor *tk_note(td_tensor *x, const char *s) {
    td_tensor *y;
    td_call_op(td_ctx_of(x), "tk_note", TD_ARGS(x, td_value_str(s)), &y, 1);
    return y;
}
static void tk_mark(td_tensor *x, const char *s) {
    td_call_op(td_ctx_of(x), "tk_mark", TD_ARGS(x, td_value_str(s)), NULL, 0);
}

/* ---- joint graphs ------------------------------------------------------- */

static bool two_notes(td_call *c) {
    td_tensor *a = tk_note(td_sin(td_arg(c, 0)), "a");
    tk_mark(a, "m");
    return td_return(c, tk_note(a, "b"));
}

TEST(each_call_takes_the_token_of_the_call_before_it) {
    td_ctx    *cx = td_open();
    char       text[2000];
    CHECK(open_ops(cx));
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3))), *y;
    td_staged *s = td_stage_capture(cx, two_notes, NULL, TD_ARGS(x), NULL);
    CHECK_OK(cx);
    td_graph_format(td_stage_joint(s), text, sizeof text);
    CHECK_STR(text, "func @f(\n"
                    "    %x0: f32[3] grad,\n"
                    "    %t0: f32[3] <tangent 0>,\n"
                    "    %token: u8[0] <token 0>,\n"
                    "    %backward_token: u8[0] <token 1>) {\n"
                    "  %4 = sin(%x0) : f32[3]\n"
                    "  %5, %6 = tk_note_with_token(%token, %4, \"a\") : "
                    "(u8[0], f32[3])\n"
                    "  %7 = tk_mark_with_token(%5, %6, \"m\") : u8[0]\n"
                    "  %8, %9 = tk_note_with_token(%7, %6, \"b\") : (u8[0], f32[3])\n"
                    "  %10, %11 = tk_note_with_token(%backward_token, %t0, \"B\") : "
                    "(u8[0], f32[3]) backward\n"
                    "  %12, %13 = tk_note_with_token(%10, %11, \"A\") : "
                    "(u8[0], f32[3]) backward\n"
                    "  %14 = cos(%x0) : f32[3] backward\n"
                    "  %15 = mul(%13, %14) : f32[3] backward\n"
                    "  return %9, %15 <grad 0>, %8 <token 0>, %12 <token 1>\n"
                    "}\n");
    td_slot in = td_stage_input(s, 2), out = td_stage_output(s, 3);
    CHECK(in.kind == TD_SLOT_TOKEN && in.index == 0 && in.tensor);
    CHECK(out.kind == TD_SLOT_TOKEN && out.index == 1 && out.tensor);
    td_fn *f = td_stage_compile(s);
    CHECK(seen[0] == 0);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && !strcmp(seen, "amb"));
    CHECK(td_backward(td_sum(y)) && !strcmp(seen, "ambBA"));
    CHECK_OK(cx);
    td_close(cx);
}
