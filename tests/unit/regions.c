/* regions.c -- td_call_region: a body that is called many times is one graph, and a
 * compiled function that contains it behaves as eager does. */
#include "aot_sides.h"

#include "graph/graph.h"
#include "trace/trace.h"

#include <string.h>

enum { BLOCKS = 4 };

static int runs; /* of a body */

/* ---- bodies ------------------------------------------------------------- */

/* x, w, b: a block with a residual. */
static bool block(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *b = td_arg(c, 2);
    runs++;
    return td_return(c, td_add(x, td_tanh(td_add(td_matmul(x, w), b))));
}

static td_tensor *call_as(td_call *c, td_region_body of, td_values args) {
    td_tensor *y = td_nil(td_call_ctx(c));
    td_call_region(td_call_ctx(c), of, args, &y, 1);
    return y;
}

static td_tensor *call(td_call *c, td_body *body, td_values args) {
    return call_as(c, (td_region_body){.body = body, .name = "block"}, args);
}

/* x and pairs of w and b: a stack of blocks. */
static bool stack(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    for (int i = 1; i + 1 < td_arg_count(c); i += 2)
        x = call(c, block, TD_ARGS(x, td_arg(c, i), td_arg(c, i + 1)));
    return td_return(c, x);
}

/* ---- scenes ------------------------------------------------------------- */

static void make_leaves(side *s, td_value *v, td_tensor **t) {
    td_ctx *cx = s->cx;
    for (int i = 0; i <= 2 * BLOCKS; i++) {
        t[i] = i == 0  ? leaf(cx, TD_SHAPE(2, 3), 0.1)
               : i % 2 ? leaf(cx, TD_SHAPE(3, 3), 0.01 * i)
                       : leaf(cx, TD_SHAPE(3), -0.2 + 0.01 * i);
        v[i] = td_value_tensor(t[i]);
    }
}

static void tell_all(side *s, td_tensor **t, int n) {
    for (int i = 0; i < n; i++) {
        tell(s, "t", t[i]);
        tell_grad(s, "grad", td_grad_of(t[i]));
    }
}

/* Two calls, each with a backward. */
static void train(side *s) {
    td_value   v[2 * BLOCKS + 1];
    td_tensor *t[2 * BLOCKS + 1];
    make_leaves(s, v, t);
    for (int i = 0; i < 2; i++) {
        td_tensor *y = ask1(s, (td_values){v, 2 * BLOCKS + 1});
        tell(s, "y", y);
        td_backward(td_sum(td_mul(y, y)));
        tell_all(s, t, 2 * BLOCKS + 1);
    }
}

static void infer(side *s) {
    td_value   v[2 * BLOCKS + 1];
    td_tensor *t[2 * BLOCKS + 1];
    make_leaves(s, v, t);
    td_grad_mode was = td_no_grad_begin(s->cx);
    tell(s, "y", ask1(s, (td_values){v, 2 * BLOCKS + 1}));
    td_no_grad_end(s->cx, was);
}

/* Gradients of gradients. */
static void twice(side *s) {
    td_value   v[2 * BLOCKS + 1];
    td_tensor *t[2 * BLOCKS + 1], *g[3];
    make_leaves(s, v, t);
    td_tensor   *y = ask1(s, (td_values){v, 2 * BLOCKS + 1});
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true, .allow_unused = true};
    td_grad(TD_LIST(td_sum(td_mul(y, y))), TD_LIST(t[0], t[1], t[2]), g, &o);
    for (int i = 0; i < 3 && td_ok(s->cx); i++) tell_grad(s, "g", g[i]);
    td_backward(td_add(td_sum(td_mul(g[0], g[0])), td_sum(td_mul(g[1], g[1]))));
    tell_all(s, t, 2 * BLOCKS + 1);
}

TEST(a_stack_of_regions_gives_what_eager_gives) {
    check_scene(train, stack);
    check_scene(infer, stack);
}

TEST(gradients_of_gradients_pass_through_regions) { check_scene(twice, stack); }

/* ---- one graph ---------------------------------------------------------- */

static int count(const char *text, const char *word) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p++) n++;
    return n;
}

/* The text of the program of a body on the leaves. */
static char *program_of(td_ctx *cx, td_body *body, td_buf *b) {
    side       s = {.cx = cx};
    td_value   v[2 * BLOCKS + 1];
    td_tensor *t[2 * BLOCKS + 1];
    make_leaves(&s, v, t);
    runs = 0;
    td_graph *g = td__capture(cx, body, NULL, (td_values){v, 2 * BLOCKS + 1});
    CHECK(g && td__graph_print(b, g, TD_PRINT_TYPES));
    td__graph_drop(g);
    return b->s;
}

TEST(equal_regions_are_one_graph_and_printed_once) {
    td_ctx *cx = td_open();
    td_buf  b = {0};
    char   *text = program_of(cx, stack, &b);
    CHECK(count(text, "func @block") == 1);
    CHECK(count(text, "region(@block, ") == BLOCKS - 1);
    CHECK(count(text, "tanh(") == 1);
    CHECK(runs == BLOCKS);
    td__buf_free(&b);
    td_close(cx);
}

static bool stack_once(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    for (int i = 1; i < 2 * BLOCKS; i += 2)
        x = call_as(c, (td_region_body){.body = block, .name = "block", .once = true},
                    TD_ARGS(x, td_arg(c, i), td_arg(c, i + 1)));
    return td_return(c, x);
}

TEST(a_body_that_always_does_the_same_is_called_once) {
    td_ctx *cx = td_open();
    td_buf  b = {0};
    char   *text = program_of(cx, stack_once, &b);
    CHECK(count(text, "func @block") == 1);
    CHECK(runs == 1);
    td__buf_free(&b);
    td_close(cx);
    check_scene(train, stack_once);
}

TEST(a_program_with_regions_reads_back_from_its_text_with_shared_graphs) {
    td_ctx *cx = td_open();
    td_buf  b = {0}, again = {0};
    program_of(cx, stack, &b);
    td_gfile *f = td__gfile_parse(cx, b.s, b.n, "text");
    CHECK(f && f->graphs.n == 1);
    const td_graph *g = f->graphs.v[0];
    CHECK(g->nested.n == BLOCKS);
    for (int i = 1; i < g->nested.n; i++) CHECK(g->nested.v[i] == g->nested.v[0]);
    CHECK(td__graph_print(&again, g, TD_PRINT_TYPES));
    CHECK_STR(again.s, b.s);
    td__gfile_drop(f);
    td__buf_free(&b);
    td__buf_free(&again);
    td_close(cx);
}

TEST(the_name_of_a_function_that_is_not_defined_yet_is_an_error) {
    static const char text[] = "func @f(%x: f32[2]) {\n  %y = region(@g, [%x])\n"
                               "  return %y\n}\n";
    td_ctx           *cx = td_open();
    CHECK(!td__gfile_parse(cx, text, sizeof text - 1, "text"));
    CHECK(strstr(td_message(cx), "no nested function @g before this"));
    td_close(cx);
}

/* ---- closed-over tensors, other bodies ---------------------------------- */

typedef struct layer {
    td_tensor *w;
    double     scale;
} layer;

static bool closing(td_call *c) {
    const layer *l = td_call_env(c);
    return td_return(c, td_sin(td_mul(td_matmul(td_arg(c, 0), l->w), l->scale)));
}

/* Weights that the regions close over: those of the body around, at other scales. */
static bool closing_stack(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    for (int i = 1; i < 2 * BLOCKS; i += 2) {
        layer l = {td_arg(c, i), i < 4 ? 2.0 : 3.0};
        x = call_as(c, (td_region_body){.body = closing, .env = &l}, TD_ARGS(x));
    }
    return td_return(c, x);
}

TEST(regions_close_over_tensors_and_constants_make_others) {
    td_ctx *cx = td_open();
    td_buf  b = {0};
    char   *text = program_of(cx, closing_stack, &b);
    CHECK(count(text, "func @region") == 2);
    CHECK(count(text, "func @region_2(") == 1);
    td__buf_free(&b);
    td_close(cx);
    check_scene(train, closing_stack);
    check_scene(twice, closing_stack);
}

/* A region in a region, and arguments of two signatures. */
static bool pair_of_blocks(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *b = td_arg(c, 2);
    x = call(c, block, TD_ARGS(x, w, b));
    x = call(c, block, TD_ARGS(x, w, b));
    return td_return(c, td_mul(x, 0.5));
}
static bool nested_stack(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    for (int i = 1; i < 2 * BLOCKS; i += 2) {
        if (i == 3) x = td_cat(TD_LIST(x, x), 0);
        x = call(c, pair_of_blocks, TD_ARGS(x, td_arg(c, i), td_arg(c, i + 1)));
    }
    return td_return(c, x);
}
TEST(regions_nest_and_take_arguments_of_several_types) {
    check_scene(train, nested_stack);
    check_scene(infer, nested_stack);
    check_scene(twice, nested_stack);
}

/* ---- random numbers ----------------------------------------------------- */

static bool noisy(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_dropout(td_tanh(td_matmul(x, td_arg(c, 1))), 0.5, true));
}
static bool noisy_stack(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    for (int i = 1; i < 2 * BLOCKS; i += 2)
        x = call(c, noisy, TD_ARGS(x, td_arg(c, i)));
    return td_return(c, x);
}
TEST(a_region_draws_the_numbers_that_eager_draws) {
    check_scene(train, noisy_stack);
    check_scene(twice, noisy_stack);
}

/* ---- several results, some without a gradient ---------------------------- */

static bool two_results(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    td_tensor *h = td_exp(td_matmul(x, w));
    return td_return(c, td_mul(h, x), td_mul(h, h));
}
static bool apart(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *b = td_arg(c, 2);
    return td_return(c, td_mul(x, x), td_matmul(w, b));
}
static bool chained(td_call *c) {
    td_tensor *h = td_matmul(td_arg(c, 0), td_arg(c, 1));
    return td_return(c, td_tanh(h), td_gt(h, 0.0));
}
static bool results(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *b = td_arg(c, 2), *y[2], *z[2];
    td_tensor *m[2];
    td_call_region(cx, (td_region_body){.body = two_results}, TD_ARGS(x, w), y, 2);
    td_call_region(cx, (td_region_body){.body = two_results}, TD_ARGS(x, w), z, 2);
    td_tensor *u[2];
    td_call_region(cx, (td_region_body){.body = apart}, TD_ARGS(x, w, b), u, 2);
    td_call_region(cx, (td_region_body){.body = chained}, TD_ARGS(x, w), m, 2);
    td_tensor *p = td_add(y[0], z[1]), *q = td_add(u[0], td_mul(m[0], m[1]));
    return td_return(c, td_add(p, q));
}
TEST(gradients_that_do_not_arrive_leave_operands_without) {
    check_scene(train, results);
    check_scene(twice, results);
}

static bool unused(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_detach(td_sum(td_arg(c, 1)))));
}
static bool unused_stack(td_call *c) {
    td_tensor *x = call(c, unused, TD_ARGS(td_arg(c, 0), td_arg(c, 1), td_arg(c, 2)));
    return td_return(c, call(c, unused, TD_ARGS(x, td_arg(c, 1), td_arg(c, 2))));
}
TEST(an_operand_that_no_gradient_reaches_gets_none) {
    check_scene(train, unused_stack);
}

/* ---- writes and aliases ------------------------------------------------- */

static bool writes(td_call *c) {
    td_tensor *x = td_arg(c, 0);
    td_mul_(x, td_arg(c, 1));
    return td_return(c, td_add(x, 1.0));
}
static bool returns_views(td_call *c) {
    td_tensor *h = td_mul(td_arg(c, 0), 2.0);
    return td_return(c, td_transpose(h, 0, 1));
}
static bool returns_argument(td_call *c) { return td_return(c, td_arg(c, 0)); }
static bool returns_written(td_call *c) {
    return td_return(c, td_add_(td_mul(td_arg(c, 0), 2.0), 1.0));
}
static bool with_effects(td_call *c) {
    td_tensor *x = td_arg(c, 0), *b = td_arg(c, 2), *h = td_mul(x, 1.5);
    td_tensor *y = call(c, writes, TD_ARGS(h, b));
    td_tensor *v = call(c, returns_views, TD_ARGS(y));
    td_tensor *same = call(c, returns_argument, TD_ARGS(v));
    td_tensor *w = call(c, returns_written, TD_ARGS(h));
    td_mul_(w, 3.0);
    td_add_(same, 1.0);
    return td_return(c, td_add(td_add(h, td_transpose(v, 0, 1)), w));
}
static bool give_view(td_call *c) {
    return td_return(c, call(c, returns_views, TD_ARGS(td_arg(c, 0))));
}
static bool give_argument(td_call *c) {
    return td_return(c, call(c, returns_argument, TD_ARGS(td_arg(c, 0))));
}
TEST(regions_that_write_or_alias_do_what_eager_does) {
    check_scene(train, with_effects);
    check_scene(train, give_view);
    check_scene(infer, give_argument);
}

/* The program writes what a region read, or gave. */
static bool writes_after(td_call *c) {
    td_tensor *x = td_mul(td_arg(c, 0), 1.0);
    td_tensor *y = call(c, block, TD_ARGS(x, td_arg(c, 1), td_arg(c, 2)));
    td_mul_(y, 2.0); /* a sum: eager saves neither */
    return td_return(c, call(c, block, TD_ARGS(y, td_arg(c, 3), td_arg(c, 4))));
}
static bool breaks(td_call *c) {
    td_tensor *x = td_mul(td_arg(c, 0), 1.0);
    td_tensor *y = call(c, block, TD_ARGS(x, td_arg(c, 1), td_arg(c, 2)));
    td_mul_(x, 2.0); /* the product in the block saved it */
    return td_return(c, y);
}
static void fails_backward(side *s) {
    td_value   v[2 * BLOCKS + 1];
    td_tensor *t[2 * BLOCKS + 1];
    make_leaves(s, v, t);
    td_tensor *y = ask1(s, (td_values){v, 2 * BLOCKS + 1});
    tell(s, "y", y);
    td_backward(td_sum(y));
    tell_error(s, "modified in place");
}
TEST(writes_to_what_a_region_saved_fail_as_in_eager) {
    check_scene(train, writes_after);
    check_scene(fails_backward, breaks);
}

/* A second backward finds what the first left. */
static void again(side *s) {
    td_value   v[2 * BLOCKS + 1];
    td_tensor *t[2 * BLOCKS + 1];
    make_leaves(s, v, t);
    td_tensor *y = td_sum(ask1(s, (td_values){v, 2 * BLOCKS + 1}));
    td_backward(y);
    td_backward(y);
    tell_error(s, "second time");
}
static bool sums(td_call *c) {
    return td_return(c, td_add(td_arg(c, 0), td_arg(c, 2)));
}
static bool sum_region(td_call *c) {
    return td_return(c,
                     call(c, sums, TD_ARGS(td_arg(c, 0), td_arg(c, 1), td_arg(c, 2))));
}
TEST(a_second_backward_fails_where_eager_has_freed_saved_values) {
    check_scene(again, stack);
    check_scene(again, sum_region);
}

/* ---- around regions ----------------------------------------------------- */

static bool in_modes(td_call *c) {
    td_ctx      *cx = td_call_ctx(c);
    td_tensor   *x = td_arg(c, 0);
    td_grad_mode was = td_no_grad_begin(cx);
    td_tensor   *y = call(c, block, TD_ARGS(x, td_arg(c, 1), td_arg(c, 2)));
    td_no_grad_end(cx, was);
    return td_return(c,
                     td_mul(y, call(c, block, TD_ARGS(x, td_arg(c, 1), td_arg(c, 2)))));
}
TEST(a_region_without_gradients_is_another_graph) { check_scene(train, in_modes); }

/* Gradients inside of the function, of regions. */
static bool inside(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1), *b = td_arg(c, 2), *g[3];
    td_tensor *y = call(c, block, TD_ARGS(x, w, b));
    y = call(c, block, TD_ARGS(y, w, b));
    td_grad_opts o = {TD_GRAD_OPTS};
    if (!td_grad(TD_LIST(td_sum(td_mul(y, y))), TD_LIST(x, w, b), g, &o)) return false;
    return td_return(c, td_add(g[0], g[2]));
}
static void once(side *s) {
    td_value   v[2 * BLOCKS + 1];
    td_tensor *t[2 * BLOCKS + 1];
    make_leaves(s, v, t);
    tell(s, "y", ask1(s, (td_values){v, 2 * BLOCKS + 1}));
}
TEST(gradients_of_regions_are_taken_inside_of_a_function) { check_scene(once, inside); }

static bool wrong_count(td_call *c) { return td_return(c, td_arg(c, 0), td_arg(c, 0)); }
TEST(a_region_that_returns_another_number_of_results_is_an_error) {
    td_ctx    *cx = td_open();
    td_tensor *x = td_ones(cx, TD_SHAPE(2)), *y;
    CHECK(
        !td_call_region(cx, (td_region_body){.body = wrong_count}, TD_ARGS(x), &y, 1));
    CHECK(td_is_nil(y) && strstr(td_message(cx), "returns 2 results"));
    td_clear(cx);
    CHECK(!td_call_region(cx, (td_region_body){0}, TD_ARGS(x), &y, 1));
    CHECK(td_error(cx) == TD_E_ARG);
    td_clear(cx);
    td_close(cx);
}
