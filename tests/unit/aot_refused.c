/* aot_refused.c -- graphs in the place of a joint graph, inputs of an exported one, and
 * texts of one that are not what they should be: each is refused with its place, and
 * nothing has changed. */
#include "base/base.h"
#include "export_help.h"

static bool layer(td_call *c) {
    td_tensor *h = td_matmul(td_arg(c, 2), td_arg(c, 0));
    td_add_(td_arg(c, 1), 1);
    td_mul(td_arg(c, 3), 2); /* takes no gradient */
    return td_return(c, td_silu(h), 2);
}

typedef struct change {
    const char *from, *to, *says;
} change;

/* Of the joint graph of `layer`. */
static const change changes[] = {
    {"<tangent 0>) {", "<tangent 0>,\n    %extra: f32[]) {", "input 5 does not exist"},
    {"%t0: f32[4,2] <tangent 0>", "%t0: f32[4,2]", "input 4 has another descriptor"},
    {"%x1: f32[]", "%x1: f32[1]", "input 1 has another dtype or other sizes"},
    {"%t0: f32[4,2] <tangent 0>", "%t0: f32[4,1] <tangent 0>",
     "input 4 has another dtype or other sizes"},
    {" %7, %10 <", " 3, %10 <", "output 1 must be a tensor"},
    {"none <grad 1>", "%5 <grad 1>", "output 3 must not be a tensor"},
    {" %7, %10 <", " %5b, %10 <", "output 1 has another dtype or other sizes"},
    {"%10 <grad 0>", "%10 <grad 1>", "output 2 has another descriptor"},
    {"none <grad 1>", "none <grad 1>, %7", "output 4 does not exist"},
    {", none <grad 1>", "", "output 3 is missing"},
};

/* The text with the change, and with a value of other sizes to choose. */
static td_gfile *edited(td_ctx *cx, const td_graph *g, const change *c) {
    static char text[4000], out[5000];
    td_graph_format(g, text, sizeof text);
    for (char *p = text; (p = strstr(p, " : ")); *p = '\n')
        memmove(p + 1, strchr(p, '\n') + 1, strlen(strchr(p, '\n')));
    char *at = strstr(text, c->from);
    CHECK(at);
    *at = 0;
    snprintf(out, sizeof out, "%s%s%s", text, c->to, at + strlen(c->from));
    char *end = strstr(out, "  return");
    CHECK(end);
    snprintf(text, sizeof text, "%.*s  %%5b = t(%%5)\n%s", (int)(end - out), out, end);
    return td_graphs_parse(cx, text, strlen(text), "edited");
}

TEST(a_graph_that_is_no_joint_graph_for_a_stage_is_refused_with_the_place) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_requires_grad_(td_randn(cx, TD_SHAPE(3, 2))), *y;
    td_tensor *seen = td_zeros(cx, TD_SHAPE()), *x = td_randn(cx, TD_SHAPE(4, 3));
    td_tensor *idle = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_values  args = TD_ARGS(w, seen, x, idle);
    td_staged *s = td_stage_capture(cx, layer, NULL, args, NULL);
    CHECK_OK(cx);
    for (int i = 0; i < TD_COUNT(changes); i++) {
        td_gfile *f = edited(cx, td_stage_joint(s), &changes[i]);
        CHECK_OK(cx);
        CHECK(!td_stage_replace(s, td_graphs_at(f, 0)));
        CHECK(aot_says(cx, TD_E_ARG, changes[i].says));
        td_graphs_drop(f);
    }
    td_ctx   *other = td_open();
    td_gfile *f = edited(other, td_stage_joint(s), &(change){"@f", "@g", ""});
    CHECK(!td_stage_replace(s, td_graphs_at(f, 0)));
    CHECK(aot_says(cx, TD_E_ARG, "the new graph belongs to another context"));
    td_graphs_drop(f);
    td_close(other);

    td_fn *fn = td_stage_compile(s); /* as it was */
    td_stage_drop(s);
    CHECK(td_invoke(fn, args, &y, 1));
    CHECK(aot_near(y, td_silu(td_matmul(x, w))) && td_item(seen) == 1);
    CHECK_OK(cx);
    td_fn_drop(fn);
    td_close(cx);
}

TEST(slots_beyond_those_of_a_stage_are_none) {
    td_ctx    *cx = td_open();
    td_tensor *w = td_requires_grad_(td_randn(cx, TD_SHAPE(3, 2)));
    td_tensor *seen = td_zeros(cx, TD_SHAPE()), *x = td_randn(cx, TD_SHAPE(4, 3));
    td_tensor *idle = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_values  args = TD_ARGS(w, seen, x, idle);
    td_staged *s = td_stage_capture(cx, layer, NULL, args, NULL);
    for (int i = -2; i < 8; i++) {
        bool in = i >= 0 && i < td_stage_inputs(s),
             out = i >= 0 && i < td_stage_outputs(s);
        CHECK((td_stage_input(s, i).index >= 0) == in);
        CHECK((td_stage_output(s, i).index >= 0) == out);
    }
    td_fn *f = td_stage_compile(s);
    CHECK(td_stage_outputs(s) == 0 && td_stage_input(s, 0).index == -1 &&
          td_stage_output(s, 0).index == -1);
    td_stage_drop(s);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- exports ---------------------------------------------------------------- */

TEST(inputs_of_an_exported_graph_are_checked_one_by_one) {
    td_ctx      *cx = td_open(), *other = td_open();
    td_tensor   *a = td_ones(cx, TD_SHAPE(2, 2)), *b = td_ones(cx, TD_SHAPE(2, 2));
    td_exported *e = td_export_joint(cx, products, NULL, TD_ARGS(a, b), NULL);
    td_value     out[3];
    td_value     wrong[] = {td_value_int(3),
                            td_value_none(),
                            td_value_tensor(NULL),
                            td_value_tensor(td_nil(cx)),
                            td_value_tensor(td_ones(other, TD_SHAPE(2, 2))),
                            td_value_tensor(td_ones(cx, TD_SHAPE(2, 2), TD_F64)),
                            td_value_tensor(td_ones(cx, TD_SHAPE(2))),
                            td_value_tensor(td_ones(cx, TD_SHAPE(2, 3)))};
    for (int i = 0; i < TD_COUNT(wrong); i++)
        for (int k = 0; k < 2; k++) {
            td_value in[2] = {td_value_tensor(a), td_value_tensor(b)};
            char     says[64];
            in[k] = wrong[i];
            snprintf(says, sizeof says, "td_exported_run: input %d, %%x%d, ", k, k);
            CHECK(!td_exported_run(e, (td_values){in, 2}, out, 3));
            CHECK(aot_says(cx, TD_E_ARG, says));
            CHECK(td_is_nil(out[0].u.t) && td_is_nil(out[2].u.t));
        }
    td_value in[3] = {td_value_tensor(a), td_value_tensor(b), td_value_tensor(b)};
    CHECK(!td_exported_run(e, (td_values){in, 3}, out, 3) && td_error(cx) == TD_E_ARG);
    CHECK(!td_exported_run(e, (td_values){in, 2}, out, 3)); /* an older failure */
    td_clear(cx);
    CHECK(td_exported_run(e, (td_values){in, 2}, out, 3));
    CHECK(td_item(td_sum(out[0].u.t)) == 4);
    CHECK(td_exported_find_input(e, TD_SLOT_PLAIN, 1) == 1);
    CHECK(td_exported_find_input(e, TD_SLOT_PLAIN, 2) == -1);
    CHECK(td_exported_find_input(e, TD_SLOT_PARAM, 0) == -1);
    CHECK(td_exported_find_output(e, TD_SLOT_GRAD, 0) == -1);
    for (int i = -1; i < 5; i += 5) {
        CHECK(td_exported_input(e, i).index == -1);
        CHECK(td_exported_output(e, i).index == -1);
    }
    CHECK(td_exported_loss(e) == -1);
    CHECK_OK(cx);
    td_exported_drop(e);
    td_close(other);
    td_close(cx);
}

/* Strides count where inputs that share bytes are written. */
static bool writes_both(td_call *c) {
    td_mul_(td_arg(c, 0), 2.0);
    return td_return(c, td_add(td_arg(c, 0), td_arg(c, 1)));
}

TEST(inputs_in_one_storage_have_the_offsets_they_were_exported_with) {
    td_ctx      *cx = td_open();
    td_tensor   *b = td_ones(cx, TD_SHAPE(8)), *c = td_ones(cx, TD_SHAPE(8));
    td_tensor   *x = td_view(td_slice(b, 0, 0, 4), TD_SHAPE(2, 2));
    td_tensor   *y = td_view(td_slice(b, 0, 2, 6), TD_SHAPE(2, 2));
    td_exported *e = td_export_joint(cx, writes_both, NULL, TD_ARGS(x, y), NULL);
    CHECK_OK(cx);
    td_tensor *p = td_view(td_slice(c, 0, 0, 4), TD_SHAPE(2, 2));
    td_tensor *q = td_view(td_slice(c, 0, 2, 6), TD_SHAPE(2, 2));
    td_tensor *far = td_view(td_slice(c, 0, 4, 8), TD_SHAPE(2, 2));
    td_value   out[8];
    int        n = td_exported_outputs(e);
    CHECK(n <= 8);
    CHECK(td_exported_run(e, TD_ARGS(p, q), out, n));
    td_tensor *const bad[][2] = {{p, far},
                                 {p, td_ones(cx, TD_SHAPE(2, 2))},
                                 {td_t(p), q},
                                 {p, td_t(q)}};
    for (int i = 0; i < TD_COUNT(bad); i++) {
        CHECK(!td_exported_run(e, TD_ARGS(bad[i][0], bad[i][1]), out, n));
        CHECK(aot_says(cx, TD_E_ARG, "%x0 and %x1 share storage in another way"));
    }
    td_exported_drop(e);
    td_close(cx);
}

#define EPILOGUE "func @e(%x: f32[2], %y: f32[2]) {\n  return %y\n}\n"

TEST(texts_of_exports_that_are_none_are_refused) {
    static const struct {
        const char *text, *says;
        td_code     code;
    } all[] = {
        {"", "its first line is not", TD_E_IO},
        {"# tandem export", "its first line is not", TD_E_IO},
        {"# tandem export 3\n", "its first line is not", TD_E_IO},
        {"# tandem export 1\n", "format 1, which has no epilogue", TD_E_IO},
        {"# tandem export 2\n", "two functions, a graph and its epilogue, not 0",
         TD_E_ARG},
        {"# tandem export 2\n# in: (*", "not 0", TD_E_ARG},
        {"# tandem export 2\n# in: (*\nfunc @f(%x: f32[2]) {\n  return "
         "%x\n}\n" EPILOGUE,
         "", TD_E_ARG},
        {"# tandem export 2\n# out: {*\nfunc @f(%x: f32[2]) {\n  return "
         "%x\n}\n" EPILOGUE,
         "", TD_E_ARG},
        {"# tandem export 2\nfunc @f(%x: f32[2]) {\n  return %y\n}\n", "y", TD_E_ARG},
        {"# tandem export 2\nfunc @f(%x: f32[2]) {\n  return %x\n}\n"
         "func @g(%x: f32[2]) {\n  return %x\n}\n",
         "the epilogue @g takes 1 inputs", TD_E_ARG},
    };
    td_ctx *cx = td_open();
    for (int i = 0; i < TD_COUNT(all); i++) {
        td_exported *e = td_exported_parse(cx, all[i].text, strlen(all[i].text), NULL);
        TD_CHECK_THAT(td_is_nil(e) && !td_ok(cx), "text %d", i);
        TD_CHECK_THAT(strstr(td_message(cx), all[i].says), "%s", td_message(cx));
        td_clear(cx);
    }
    const char good[] =
        "# tandem export 2\n# a note\n# in: (*)\n"
        "func @f(%x: f32[2]) {\n  %y = neg(%x)\n  return %y\n}\n" EPILOGUE;
    td_exported *e = td_exported_parse(cx, good, sizeof good - 1, "good");
    td_value     out;
    CHECK_OK(cx);
    CHECK_STR(td_exported_in_tree(e), "(*)");
    CHECK(!td_exported_out_tree(e));
    CHECK(td_exported_run(e, TD_ARGS(td_ones(cx, TD_SHAPE(2))), &out, 1));
    CHECK(td_item(td_sum(out.u.t)) == -2);
    td_exported_drop(e);
    td_close(cx);
}
