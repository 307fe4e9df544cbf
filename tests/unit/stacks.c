/* stacks.c -- nodes know the calls around them: of bodies, regions, modules, scopes. */
#include "td_test.h"

#include "graph/graph.h"
#include "graph/graph_image.h"
#include "joint/joint.h"
#include "trace/trace.h"
#include "tandem/tandem.h"

#include <string.h>

static int exp_at, region_at, scope_at, body_at; /* lines */

static bool inner(td_call *c) {
    exp_at = __LINE__ + 1;
    return td_return(c, td_exp(td_arg(c, 0)));
}

static bool outer(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *y = td_nil(cx);
    td_values  args = TD_ARGS(td_arg(c, 0));
    scope_at = __LINE__ + 1;
    td_scope_begin(cx, "attn");
    region_at = __LINE__ + 1;
    td_call_region(cx, (td_region_body){.body = inner, .name = "block"}, args, &y, 1);
    y = td_scope_end(cx, "attn", y);
    return td_return(c, td_mul(y, 2.0));
}

static bool is_at(const td_place *p, int line) {
    return p && p->here.line == line && strstr(p->here.file, "stacks.c");
}

static const td_gnode *find(const td_graph *g, td_op op, td_origin origin) {
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.v[i]->op == op && g->nodes.v[i]->origin == origin)
            return g->nodes.v[i];
    return NULL;
}

/* inner < the region < its scope */
static void check_exp(const td_gnode *n) {
    CHECK(n && n->here.line == exp_at);
    CHECK(n && is_at(n->stack, region_at));
    CHECK(n && n->stack && is_at(n->stack->up, scope_at));
}

TEST(nodes_of_a_region_have_the_calls_around_them) {
    td_ctx   *cx = td_open();
    td_graph *g = td__capture(cx, outer, NULL, TD_ARGS(td_ones(cx, TD_SHAPE(2))));
    CHECK_OK(cx);
    const td_gnode *region = g ? find(g, TD_OP_region, TD_FROM_FORWARD) : NULL;
    CHECK(region && region->here.line == region_at);
    CHECK(region && is_at(region->stack, scope_at));
    check_exp(find(region->in[0].u.g, TD_OP_exp, TD_FROM_FORWARD));
    td__graph_drop(g);
    td_close(cx);
}

static bool squares(td_call *c) {
    body_at = __LINE__ + 1;
    td_tensor *y = td_sin(td_arg(c, 0));
    return td_return(c, td_mul(y, y));
}

static bool calls(td_call *c) {
    td_tensor *y;
    td_scope_begin(td_call_ctx(c), "model");
    scope_at = __LINE__ - 1;
    td_value out = TD_NONE;
    region_at = __LINE__ + 1;
    td_call_body(td_call_ctx(c), squares, NULL, TD_ARGS(td_arg(c, 0)), &out, 1);
    y = td_scope_end(td_call_ctx(c), "model", out.u.t);
    return td_return(c, y);
}

/* Backward nodes have the calls of the op they are the derivative of. */
TEST(nodes_of_a_joint_graph_have_the_calls_of_the_program) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_graph  *g = td__capture(cx, calls, NULL, TD_ARGS(x));
    td_value   in = td_value_tensor(x);
    td_joint  *j = g ? td__joint(g, &in, &(td_joint_opts){.train = true}) : NULL;
    CHECK_OK(cx);
    for (int back = 0; j && back < 2; back++) {
        td_op           op = back ? TD_OP_cos : TD_OP_sin;
        const td_gnode *n = find(j->g, op, back ? TD_FROM_BACKWARD : TD_FROM_FORWARD);
        CHECK(n && n->here.line == body_at);
        CHECK(n && is_at(n->stack, region_at));
        CHECK(n && n->stack && is_at(n->stack->up, scope_at));
    }
    td__joint_drop(j);
    td__graph_drop(g);
    td_close(cx);
}

/* Text with stacks reads back, and so does the binary form. */
TEST(stacks_are_part_of_text_and_images) {
    td_ctx   *cx = td_open();
    td_graph *g = td__capture(cx, outer, NULL, TD_ARGS(td_ones(cx, TD_SHAPE(2))));
    td_buf    text = {0}, again = {0}, json = {0};
    unsigned  how = TD_PRINT_TYPES | TD_PRINT_PLACES | TD_PRINT_STACKS;
    CHECK(g && td__graph_print(&text, g, how) && td__graph_json(&json, g));
    CHECK(strstr(td__buf_str(&json), "\"stack\":[{\"file\":\""));
    td_gfile *f = td__gfile_parse(cx, td__buf_str(&text), text.n, "text.td");
    TD_CHECK_THAT(!td_is_nil(f), "%s", td_message(cx));
    const td_gnode *region = find(f->graphs.v[0], TD_OP_region, TD_FROM_FORWARD);
    CHECK(region != NULL);
    if (region) check_exp(find(region->in[0].u.g, TD_OP_exp, TD_FROM_FORWARD));
    CHECK(td__graph_print(&again, f->graphs.v[0], how));
    TD_CHECK_THAT(!strcmp(td__buf_str(&text), td__buf_str(&again)), "%s\n%s",
                  td__buf_str(&text), td__buf_str(&again));
    td__buf_free(&text);
    td__buf_free(&again);
    td__buf_free(&json);
    td__gfile_drop(f);
    td__graph_drop(g);
    td_close(cx);
}

static bool picks(td_call *c) {
    exp_at = __LINE__ + 1;
    return td_return(c, td_index_select(td_arg(c, 0), 0, td_arg(c, 1)));
}

static bool calls_picks(td_call *c) {
    td_value  out = TD_NONE;
    td_values args = TD_ARGS(td_arg(c, 0), td_arg(c, 1));
    region_at = __LINE__ + 1;
    td_call_body(td_call_ctx(c), picks, NULL, args, &out, 1);
    return td_return(c, out.u.t);
}

/* While a body is captured, messages are those of the body run eagerly. */
TEST(errors_of_nodes_name_the_calls_around_them) {
    td_ctx *cx = td_open();
    char    want[80];
    td_config_set(cx, "backend", "interp");
    td_tensor *y, *x = td_ones(cx, TD_SHAPE(2, 3));
    td_fn     *f = td_aot_function(cx, calls_picks, NULL, NULL);
    td_tensor *good = td_to(td_tensor1(cx, 0, 1), TD_I64);
    body_at = __LINE__ + 1;
    CHECK(td_invoke(f, TD_ARGS(x, good), &y, 1));
    CHECK(!td_invoke(f, TD_ARGS(x, td_add(good, 7)), &y, 1));
    snprintf(want, sizeof want, "stacks.c:%d < ", exp_at);
    TD_CHECK_THAT(strstr(td_message(cx), want), "%s", td_message(cx));
    snprintf(want, sizeof want, "stacks.c:%d < ", region_at);
    TD_CHECK_THAT(strstr(td_message(cx), want), "%s", td_message(cx));
    snprintf(want, sizeof want, "stacks.c:%d)", body_at);
    TD_CHECK_THAT(strstr(td_message(cx), want), "%s", td_message(cx));
    td_fn_drop(f);
    td_close(cx);
}

static const char bad[] = "func @f(%x: f32[2]) {\n"
                          "  %y = exp(%x) : f32[2] @\"a.c\":1 < 3\n"
                          "  return %y\n}\n";

TEST(a_wrong_stack_is_an_error_of_the_text) {
    td_ctx *cx = td_open();
    CHECK(td_is_nil(td__gfile_parse(cx, bad, strlen(bad), "t.td")));
    CHECK(strstr(td_message(cx), "t.td:2:36: expected a source location"));
    td_clear(cx);
    td_close(cx);
}
