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

static bool pass(const td_op_run *r) {
    td_tensor *x = r->in[0].u.t;
    memcpy(td_data(r->out[0]), td_data(x),
           td_dtype_size(td_dtype_of(x)) * (size_t)td_numel(x));
    return true;
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
         .kernel = note, .backward = tell_back, .saves = "x", .version = 1},
        {TD_OP_OPTS, .schema = "tk_pass(Tensor x) -> Tensor", .shape = "x",
         .kernel = pass, .backward = tell_back, .saves = "x", .version = 1}};
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
    td_ctx *cx = td_open();
    char    text[2000];
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

/* ---- as often as eager, in its order -------------------------------------- */

/* Runs the body three times, first eagerly; `backward`: and backward from the sum of
 * its result. Returns whether what was seen is the same in all, and `want`. */
static bool same_effects(td_ctx *cx, td_body *body, const td_aot_opts *o, bool backward,
                         const char *want) {
    td_fn *f = td_aot_function(cx, body, NULL, o);
    bool   good = true;
    for (int i = 0; i < 3 && good; i++) {
        td_tensor *x = td_linspace(cx, 1.0, 2.0, 4), *y = NULL;
        td_value   v = TD_NONE;
        if (backward) x = td_mul(td_requires_grad_(x), 1.0);
        seen[0] = 0;
        if (i) good = td_invoke(f, TD_ARGS(x), &y, 1);
        else if ((good = td_call_body(cx, body, NULL, TD_ARGS(x), &v, 1) == 1))
            y = v.u.t;
        good = good && (!backward || td_backward(td_sum(y)));
        if (good && strcmp(seen, want) != 0) {
            fprintf(stderr, "run %d: %s, not %s\n", i, seen, want);
            good = false;
        }
    }
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    return good && td_ok(cx);
}

static bool tells(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y;
    td_call_op(td_call_ctx(c), "tk_tell", TD_ARGS(td_exp(x), td_value_str("t")), &y, 1);
    return td_return(c, y);
}
static bool unread(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    tk_mark(x, "a");
    (void)tk_note(td_sin(x), "b");
    td_call_op(td_call_ctx(c), "tk_any", TD_ARGS(x, td_value_str("c")), NULL, 0);
    td_call_op(td_call_ctx(c), "tk_any", TD_ARGS(x, td_value_str("c")), NULL, 0);
    return td_return(c, td_mul(x, 2.0));
}
static bool around_writes(td_call *c) {
    td_tensor *x = td_arg(c, 0), *a = tk_note(x, "a");
    td_mul_(x, 2.0);
    tk_mark(x, "b");
    td_add_(x, a);
    tk_mark(td_select(x, 0, 0), "c");
    return td_return(c, tk_note(td_select(x, 0, 1), "d"));
}
static bool inner_grad(td_call *c) {
    td_tensor   *x = td_arg(c, 0), *g;
    td_tensor   *y = td_sum(tk_note(td_exp(x), "a"));
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    if (!td_grad(TD_LIST(y), TD_LIST(x), &g, &o)) return false;
    return td_return(c, tk_note(td_mul(g, x), "b"));
}

TEST(effects_of_every_place_happen_as_in_eager) {
    static const td_aot_opts keeps = {TD_AOT_OPTS, .keep_mutations = true};
    td_ctx                  *cx = td_open();
    CHECK(open_ops(cx));
    for (int i = 0; i < 2; i++) {
        const td_aot_opts *o = i ? &keeps : NULL;
        CHECK(same_effects(cx, two_notes, o, true, "ambBA"));
        CHECK(same_effects(cx, two_notes, o, false, "amb"));
        CHECK(same_effects(cx, tells, o, true, "tT"));
        CHECK(same_effects(cx, unread, o, true, "abcc"));
        CHECK(same_effects(cx, unread, o, false, "abcc"));
        CHECK(same_effects(cx, around_writes, o, true, "abcdDA"));
        CHECK(same_effects(cx, around_writes, o, false, "abcd"));
        CHECK(same_effects(cx, inner_grad, o, true, "aAbB"));
    }
    td_close(cx);
}

static bool loud(td_call *c) {
    tk_mark(td_arg(c, 0), "y");
    return td_return(c, td_mul(td_arg(c, 0), 2.0));
}
static bool quiet(td_call *c) { return td_return(c, td_neg(td_arg(c, 0))); }
static bool unread_branch(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *d = td_detach(x), *y;
    td_branches of = {.yes = loud, .no = quiet};
    tk_mark(x, "a");
    if (!td_cond(td_gt(td_sum(d), 0.0), of, TD_ARGS(d), &y, 1)) return false;
    tk_mark(x, "b");
    return td_return(c, td_exp(x));
}
static bool saved_branch(td_call *c) { /* backward reads what the branch gave */
    td_tensor  *x = td_arg(c, 0), *d = td_detach(x), *y;
    td_branches of = {.yes = loud, .no = quiet};
    if (!td_cond(td_gt(td_sum(d), 0.0), of, TD_ARGS(d), &y, 1)) return false;
    return td_return(c, td_mul(td_mul(x, x), td_mul(y, 3.0)));
}

TEST(an_effect_in_a_branch_happens_once_and_in_its_place) {
    td_ctx *cx = td_open();
    CHECK(open_ops(cx));
    CHECK(same_effects(cx, unread_branch, NULL, false, "ayb"));
    CHECK(same_effects(cx, unread_branch, NULL, true, "ayb"));
    td_aot_opts o = {TD_AOT_OPTS};
    CHECK(same_effects(cx, saved_branch, &o, true, "y"));
    td_close(cx);
}

/* Gradients pass the branch; the effect has a backward of its own. */
static bool noted_branch(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y = tk_note(td_exp(x), "b");
    tk_mark(x, "c");
    return td_return(c, td_mul(y, td_sin(y)));
}
static bool grad_branch(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *y;
    td_branches of = {.yes = noted_branch, .no = quiet};
    td_tensor  *h = tk_note(x, "a"), *p = td_gt(td_sum(td_detach(x)), 0.0);
    if (!td_cond(p, of, TD_ARGS(h), &y, 1)) return false;
    return td_return(c, tk_note(y, "d"));
}
/* It returns its argument, so that it has no halves: backward recomputes it. */
static bool loud_same(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    tk_mark(x, "y");
    (void)tk_note(td_neg(x), "z");
    return td_return(c, x, td_exp(td_mul(x, 2.0)));
}
static bool quiet_same(td_call *c) {
    return td_return(c, td_arg(c, 0), td_neg(td_arg(c, 0)));
}
static bool recomputed_branch(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *y[2];
    td_branches of = {.yes = loud_same, .no = quiet_same};
    tk_mark(x, "a");
    if (!td_cond(td_gt(td_sum(td_detach(x)), 0.0), of, TD_ARGS(x), y, 2)) return false;
    return td_return(c, td_mul(y[0], y[1]));
}

TEST(gradients_pass_a_branch_with_effects) {
    td_ctx *cx = td_open();
    CHECK(open_ops(cx));
    CHECK(same_effects(cx, grad_branch, NULL, true, "abcdDBA"));
    CHECK(same_effects(cx, grad_branch, NULL, false, "abcd"));
    CHECK(same_effects(cx, recomputed_branch, NULL, true, "ayz"));
    td_close(cx);
}

static bool below(td_call *c) {
    tk_mark(td_arg(c, 0), "?");
    return td_return(c, td_lt(td_sum(td_arg(c, 0)), 60.0));
}
static bool turn_marked(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y;
    tk_mark(x, "m");
    td_call_op(td_call_ctx(c), "tk_pass", TD_ARGS(td_mul(x, x)), &y, 1);
    return td_return(c, td_add(x, y));
}
static bool turn_noted(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(tk_note(td_mul(x, 2.0), "n"), x));
}
static bool loop_of(td_call *c, td_body *body) {
    td_tensor *x = td_arg(c, 0), *y;
    td_loop    of = {.test = below, .body = body};
    return td_while(td_call_ctx(c), of, TD_LIST(tk_note(x, "a")), &y) &&
           td_return(c, tk_note(y, "b"));
}
static bool marked_loop(td_call *c) { return loop_of(c, turn_marked); }
static bool noted_loop(td_call *c) { return loop_of(c, turn_noted); }

TEST(gradients_pass_a_loop_with_effects) {
    td_ctx *cx = td_open();
    CHECK(open_ops(cx));
    CHECK(same_effects(cx, marked_loop, NULL, false, "a?m?m?b"));
    CHECK(same_effects(cx, marked_loop, NULL, true, "a?m?m?bBTTA"));
    CHECK(same_effects(cx, noted_loop, NULL, false, "a?n?n?b"));
    td_tensor *x = td_requires_grad_(td_linspace(cx, 1.0, 2.0, 4)), *y;
    td_fn     *f = td_aot_function(cx, noted_loop, NULL, NULL);
    CHECK(!td_invoke(f, TD_ARGS(x), &y, 1) &&
          strstr(td_message(cx), "backward reads the result of tk_note"));
    td_clear(cx);
    td_close(cx);
}

/* A void op has no size, for a budget of any size and for both partitions. */
TEST(effects_without_results_have_no_size_in_a_budget) {
    td_ctx *cx = td_open();
    CHECK(open_ops(cx));
    static const char *const budgets[] = {"0", "0.5", "1"};
    for (int i = 0; i < 6; i++) {
        td_aot_opts o = {TD_AOT_OPTS, .partition = i % 2 ? TD_PARTITION_DEFAULT
                                                         : TD_PARTITION_MINCUT};
        td_config_set(cx, "memory_budget", budgets[i / 2]);
        CHECK(same_effects(cx, two_notes, &o, true, "ambBA"));
        CHECK(same_effects(cx, unread, &o, true, "abcc"));
    }
    td_close(cx);
}

static bool loud_block(td_call *c) {
    td_tensor *y = tk_note(td_sin(td_arg(c, 0)), "r");
    tk_mark(y, "s");
    return td_return(c, y);
}
static bool loud_regions(td_call *c) {
    td_region_body of = {.body = loud_block, .name = "loud"};
    td_tensor     *x = td_arg(c, 0), *y, *z;
    return td_call_region(td_call_ctx(c), of, TD_ARGS(x), &y, 1) &&
           td_call_region(td_call_ctx(c), of, TD_ARGS(td_mul(y, x)), &z, 1) &&
           td_return(c, z);
}

TEST(effects_in_regions_happen_in_their_place) {
    td_ctx *cx = td_open();
    CHECK(open_ops(cx));
    CHECK(same_effects(cx, loud_regions, NULL, true, "rsrsRR"));
    CHECK(same_effects(cx, loud_regions, NULL, false, "rsrs"));
    td_close(cx);
}

static bool square_note(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, tk_note(td_mul(td_mul(x, x), x), "a"));
}

TEST(a_second_gradient_repeats_no_effect_of_the_first) {
    td_ctx      *cx = td_open();
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    CHECK(open_ops(cx));
    td_fn *f = td_aot_function(cx, square_note, NULL, NULL);
    char   eager[64] = "";
    for (int i = 0; i < 3; i++) {
        td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(2), 2.0)), *y, *g, *gg;
        td_value   v;
        seen[0] = 0;
        if (i) CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
        else CHECK(td_call_body(cx, square_note, NULL, TD_ARGS(x), &v, 1) == 1);
        if (!i) y = v.u.t;
        CHECK(td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, &o));
        add_seen("/");
        CHECK(td_grad(TD_LIST(td_sum(g)), TD_LIST(x), &gg, NULL));
        CHECK_OK(cx);
        CHECK(td_item(td_sum(gg)) == 24);
        if (!i) strcpy(eager, seen);
        TD_CHECK_THAT(!strcmp(seen, eager), "run %d: %s, not %s", i, seen, eager);
    }
    td_close(cx);
}

static bool square_marked(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    tk_mark(x, "m");
    return td_return(c, td_mul(td_mul(x, x), x));
}

TEST(a_second_gradient_repeats_no_effect_without_results) {
    td_ctx      *cx = td_open();
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    CHECK(open_ops(cx));
    td_fn     *f = td_aot_function(cx, square_marked, NULL, NULL);
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(2), 2.0)), *y, *g, *gg;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, &o));
    CHECK(td_grad(TD_LIST(td_sum(g)), TD_LIST(x), &gg, NULL));
    CHECK_OK(cx);
    CHECK_STR(seen, "m");
    td_close(cx);
}

static bool square_of_note(td_call *c) {
    td_tensor *y = tk_note(td_arg(c, 0), "a");
    return td_return(c, td_mul(td_mul(y, y), y));
}

TEST(a_second_gradient_that_reads_the_result_of_an_effect_is_refused) {
    td_ctx      *cx = td_open();
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true};
    CHECK(open_ops(cx));
    td_fn     *f = td_aot_function(cx, square_of_note, NULL, NULL);
    td_tensor *x = td_requires_grad_(td_full(cx, TD_SHAPE(2), 2.0)), *y, *g;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(!td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, &o));
    CHECK(td_error(cx) == TD_E_UNSUPPORTED && !strcmp(seen, "a"));
    CHECK(strstr(td_message(cx), "create_graph reads the result of tk_note"));
    td_clear(cx);
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1) && td_backward(td_sum(y)));
    CHECK_OK(cx);
    td_close(cx);
}

static bool classes(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    tk_mark(x, "m");
    return td_return(c, td_squeeze(td_masked_select(x, td_gt(x, 0.0))));
}

/* Finding the size would run the program, and its effects, once more. */
TEST(a_program_with_effects_is_not_run_to_measure_sizes) {
    td_ctx *cx = td_open();
    CHECK(open_ops(cx));
    td_fn     *f = td_aot_function(cx, classes, NULL, NULL);
    td_tensor *y, *few = td_linspace(cx, -2.0, 1.0, 4);
    CHECK(td_invoke(f, TD_ARGS(td_linspace(cx, -1.0, 2.0, 4)), &y, 1));
    CHECK_STR(seen, "m");
    seen[0] = 0;
    CHECK(!td_invoke(f, TD_ARGS(few), &y, 1));
    CHECK(strstr(td_message(cx), "cannot be run once more to measure the size"));
    CHECK(strlen(seen) <= 1);
    td_clear(cx);
    td_close(cx);
}

/* ---- exports ------------------------------------------------------------ */

/* Exports the body, runs the export and what its text gives, and compares effects. */
static bool exports_effects(td_ctx *cx, td_body *body, const char *want,
                            const char *const *has) {
    char         text[9000];
    td_tensor   *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3)));
    td_exported *e = td_export_joint(cx, body, NULL, TD_ARGS(x), NULL), *again = NULL;
    bool         ok = td_ok(cx) && td_exported_text(e, text, sizeof text) < sizeof text;
    for (; ok && *has; has++)
        if (!strstr(text, *has)) {
            fprintf(stderr, "no %s in %s\n", *has, text);
            ok = false;
        }
    if (ok) again = td_exported_parse(cx, text, strlen(text), "again");
    for (int i = 0; ok && i < 2; i++) {
        td_value in[4] = {td_value_tensor(x), td_value_tensor(td_ones(cx, TD_SHAPE(3))),
                          TD_NONE, TD_NONE},
                 out[4];
        int n = td_exported_inputs(e);
        seen[0] = 0;
        ok = n <= 4 &&
             td_exported_run(i ? again : e, (td_values){in, n}, out,
                             td_exported_outputs(e)) &&
             !strcmp(seen, want);
        if (!ok) fprintf(stderr, "%s, not %s\n", seen, want);
    }
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_exported_drop(again);
    td_exported_drop(e);
    return ok && td_ok(cx);
}

static bool quiet_test(td_call *c) {
    return td_return(c, td_lt(td_sum(td_arg(c, 0)), 10.0));
}
static bool quiet_loop(td_call *c) {
    td_tensor *x = td_arg(c, 0), *y;
    td_loop    of = {.test = quiet_test, .body = turn_marked};
    return td_while(td_call_ctx(c), of, TD_LIST(tk_note(x, "a")), &y) &&
           td_return(c, tk_note(y, "b"));
}
static bool branch_in_branch(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *y;
    td_branches of = {.yes = noted_branch, .no = quiet};
    tk_mark(x, "1");
    if (!td_cond(td_gt(td_sum(td_detach(x)), 0.0), of, TD_ARGS(x), &y, 1)) return false;
    tk_mark(y, "2");
    return td_return(c, td_add(y, x));
}
static bool branches_inside(td_call *c) {
    td_tensor  *x = td_arg(c, 0), *y;
    td_branches of = {.yes = branch_in_branch, .no = quiet};
    if (!td_cond(td_gt(td_sum(td_detach(x)), 0.0), of, TD_ARGS(x), &y, 1)) return false;
    return td_return(c, tk_note(y, "d"));
}

TEST(tokens_pass_branches_and_loops) {
    static const char *const branch[] = {"%token: u8[0] <token 0>",
                                         "tk_note_with_token(%token, %1, \"b\")",
                                         "%token <token 0>\n",
                                         " <token 0>\n",
                                         "cond(",
                                         " <token 1>\n",
                                         NULL};
    static const char *const loop[] = {"while_loop(", "while_loop_backward(",
                                       "tk_mark_with_token(", " <token 1>\n", NULL};
    static const char *const none[] = {NULL};
    td_ctx                  *cx = td_open();
    CHECK(open_ops(cx));
    CHECK(exports_effects(cx, grad_branch, "abcdDBA", branch));
    CHECK(exports_effects(cx, recomputed_branch, "ayz", none));
    CHECK(exports_effects(cx, branches_inside, "1bc2dDB", none));
    CHECK(exports_effects(cx, unread_branch, "ayb", none));
    CHECK(exports_effects(cx, quiet_loop, "ammbBTTA", loop));
    td_close(cx);
}

/* The test of a loop returns its answer alone. */
TEST(an_export_of_a_test_with_effects_is_refused) {
    td_ctx *cx = td_open();
    CHECK(open_ops(cx));
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3)));
    td_export_joint(cx, marked_loop, NULL, TD_ARGS(x), NULL);
    CHECK(td_error(cx) == TD_E_UNSUPPORTED &&
          strstr(td_message(cx), "which no token can order"));
    td_clear(cx);
    td_close(cx);
}

TEST(an_export_has_tokens_in_its_signature_and_runs_its_effects) {
    td_ctx *cx = td_open();
    char    text[4000];
    CHECK(open_ops(cx));
    td_tensor   *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3)));
    td_exported *e = td_export_joint(cx, two_notes, NULL, TD_ARGS(x), NULL);
    CHECK_OK(cx);
    CHECK(td_exported_inputs(e) == 4 && td_exported_outputs(e) == 4);
    CHECK(td_exported_find_input(e, TD_SLOT_TOKEN, 0) == 2);
    CHECK(td_exported_find_input(e, TD_SLOT_TOKEN, 1) == 3);
    CHECK(td_exported_find_output(e, TD_SLOT_TOKEN, 0) == 2);
    CHECK(td_exported_find_output(e, TD_SLOT_TOKEN, 1) == 3);
    CHECK(td_exported_text(e, text, sizeof text) < sizeof text);
    CHECK(strstr(text, "%token: u8[0] <token 0>") && strstr(text, "<token 1>\n"));
    td_exported *again = td_exported_parse(cx, text, strlen(text), "again");
    CHECK_OK(cx);
    for (int i = 0; i < 2; i++) {
        td_value out[4];
        seen[0] = 0;
        CHECK(td_exported_run(i ? again : e,
                              TD_ARGS(x, td_ones(cx, TD_SHAPE(3)), TD_NONE, TD_NONE),
                              out, 4));
        CHECK_STR(seen, "ambBA");
        CHECK(td_numel(out[3].u.t) == 0 && td_numel(out[1].u.t) == 3);
        CHECK(!td_exported_run(e, TD_ARGS(x, TD_NONE, TD_NONE, TD_NONE), out, 4));
        td_clear(cx);
    }
    CHECK_OK(cx);
    td_close(cx);
}

static bool loss_of_notes(td_call *c) {
    td_tensor *a = tk_note(td_exp(td_arg(c, 0)), "a");
    return td_return(c, td_sum(td_mul(a, a)));
}

TEST(an_exported_loss_has_one_chain_for_forward_and_backward) {
    td_ctx        *cx = td_open();
    td_export_opts o = {TD_EXPORT_OPTS, .what = TD_EXPORT_LOSS};
    td_value       out[3];
    CHECK(open_ops(cx));
    td_tensor   *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3)));
    td_exported *e = td_export_joint(cx, loss_of_notes, NULL, TD_ARGS(x), &o);
    CHECK_OK(cx);
    CHECK(td_exported_inputs(e) == 2 && td_exported_outputs(e) == 3);
    CHECK(td_exported_run(e, TD_ARGS(x, TD_NONE), out, 3));
    CHECK_STR(seen, "aA");
    CHECK_OK(cx);
    td_close(cx);
}

TEST(an_export_threads_tokens_through_regions) {
    td_ctx  *cx = td_open();
    td_value out[4];
    CHECK(open_ops(cx));
    td_tensor   *x = td_requires_grad_(td_ones(cx, TD_SHAPE(3)));
    td_exported *e = td_export_joint(cx, loud_regions, NULL, TD_ARGS(x), NULL);
    CHECK_OK(cx);
    CHECK(td_exported_find_input(e, TD_SLOT_TOKEN, 1) == 3);
    seen[0] = 0;
    CHECK(td_exported_run(e, TD_ARGS(x, td_ones(cx, TD_SHAPE(3)), TD_NONE, TD_NONE),
                          out, 4));
    CHECK_STR(seen, "rsrsRR");
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- simple exports ----------------------------------------------------- */

static bool pure_body(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_arg(c, 1)));
}
static bool writes_body(td_call *c) {
    td_add_(td_arg(c, 1), 1.0);
    return td_return(c, td_mul(td_arg(c, 0), 2.0));
}
static bool view_body(td_call *c) {
    return td_return(c, td_select(td_arg(c, 0), 0, 0));
}
static bool shared_body(td_call *c) {
    td_tensor *y = td_add(td_arg(c, 0), td_arg(c, 1));
    return td_return(c, y, td_select(y, 0, 0));
}

TEST(a_simple_export_neither_writes_nor_aliases) {
    static const struct {
        td_body    *body;
        const char *says;
    } row[] = {{pure_body, NULL},
               {writes_body, "is written, which td_export_opts.simple"},
               {view_body, "result 0 shares the storage of input 0"},
               {shared_body, "results 0 and 1 share a storage"}};
    td_ctx        *cx = td_open();
    td_export_opts o = {TD_EXPORT_OPTS, .simple = true}, any = {TD_EXPORT_OPTS};
    td_tensor     *x = td_ones(cx, TD_SHAPE(2, 3)), *y = td_ones(cx, TD_SHAPE(2, 3));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        CHECK(!td_is_nil(td_export_joint(cx, row[i].body, NULL, TD_ARGS(x, y), &any)));
        td_exported *e = td_export_joint(cx, row[i].body, NULL, TD_ARGS(x, y), &o);
        CHECK(td_is_nil(e) == (row[i].says != NULL));
        TD_CHECK_THAT(!row[i].says || strstr(td_message(cx), row[i].says), "%s",
                      td_message(cx));
        td_clear(cx);
    }
    CHECK(td_is_nil(
        td_export_joint(cx, pure_body, NULL, TD_ARGS(x, td_select(x, 0, 0)), &o)));
    CHECK(strstr(td_message(cx), "shares the storage of another input") != NULL);
    td_clear(cx);
    td_close(cx);
}

TEST(messages_name_arguments_that_have_names) {
    static const char *const names[] = {"image", "mask"};
    td_ctx                  *cx = td_open();
    td_aot_opts o = {TD_AOT_OPTS, .limit = 1, .arg_names = names, .n_arg_names = 2,
                     .dynamic = TD_SHAPES_STATIC};
    td_fn      *f = td_aot_function(cx, pure_body, NULL, &o);
    td_tensor  *x = td_ones(cx, TD_SHAPE(2, 3)), *y;
    CHECK(td_invoke(f, TD_ARGS(x, x), &y, 1));
    CHECK(!td_invoke(f, TD_ARGS(x, td_to(x, TD_F64)), &y, 1));
    TD_CHECK_THAT(strstr(td_message(cx), "argument 1 (mask)"), "%s", td_message(cx));
    td_clear(cx);
    o.n_arg_names = -1;
    CHECK(td_is_nil(td_aot_function(cx, pure_body, NULL, &o)));
    td_clear(cx);
    td_close(cx);
}
