/* aot_types_nested.c -- tensors of a type as operands, states, closed-over tensors,
 * results and gradients of branches, loops, custom functions and regions. */
#include "type_help.h"

#include "graph/graph.h"

/* ---- samples ------------------------------------------------------------ */

/* A pair of pairs that requires grad, and a plain tensor that does. */
static void pairs_in_a_pair(td_ctx *cx, observed *s) {
    td_tensor *p = make_pair(noise(cx, 2, 3), noise(cx, 2, 3), "in");
    s->arg[0] = s->leaf[0] = td_requires_grad_(make_pair(p, noise(cx, 2, 3), ""));
    s->arg[1] = s->leaf[1] = td_requires_grad_(noise(cx, 2, 3));
    s->n_arg = 2;
}

/* Int8 weights, which are computed as plain tensors. */
static void int8_and_plain(td_ctx *cx, observed *s) {
    s->arg[0] = s->leaf[0] = td_requires_grad_(make_int8(noise(cx, 2, 3)));
    s->arg[1] = s->leaf[1] = td_requires_grad_(noise(cx, 2, 3));
    s->n_arg = 2;
}

static void rows_of(td_ctx *cx, observed *s, int64_t n) { pair_of_rows(cx, s, n); }
static void three_rows(td_ctx *cx, observed *s) { rows_of(cx, s, 3); }
static void five_rows(td_ctx *cx, observed *s) { rows_of(cx, s, 5); }

static const td_aot_opts dynamic = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};

/* One specialization is for 2, 3 and 5 rows. */
static bool agree_for_sizes(td_ctx *cx, td_body *body, int order) {
    td_fn *f = td_aot_function(cx, body, NULL, &dynamic);
    bool   ok = agrees(cx, f, body, pair_and_plain, order, 1) &&
              agrees(cx, f, body, three_rows, order, 1) &&
              agrees(cx, f, body, five_rows, order, 1);
    ok = ok && td_fn_specializations(f) == 1;
    td_fn_drop(f);
    return ok;
}

static bool agree_native(td_ctx *cx, td_body *body, int order) {
    td_config_set(cx, "backend", "native");
    bool ok = agree(cx, body, pair_and_plain, order);
    td_config_set(cx, "backend", "interp");
    return ok;
}

/* Eager and compiled agree: interpreted, as native code, and for symbolic sizes. */
static bool agree_all(td_ctx *cx, td_body *body, int order) {
    return agree_with(cx, body, pair_and_plain, order, NULL) &&
           agree_with(cx, body, pairs_in_a_pair, order, NULL) &&
           agree_native(cx, body, order) && agree_for_sizes(cx, body, order);
}

/* ---- branches ----------------------------------------------------------- */

static td_tensor *positive(td_call *c) {
    return td_gt(td_sum(td_mul(td_detach(td_arg(c, 1)), td_detach(td_arg(c, 1)))), 0.0);
}
static td_tensor *branch(td_call *c, td_body *yes, td_body *no, td_values args) {
    td_tensor  *y = td_nil(td_call_ctx(c));
    td_branches of = {.yes = yes, .no = no};
    td_cond(positive(c), of, args, &y, 1);
    return y;
}

static bool product(td_call *c) {
    return td_return(c, td_tanh(td_mul(td_arg(c, 0), td_arg(c, 1))));
}
static bool sine(td_call *c) { return td_return(c, td_sin(td_arg(c, 0))); }

static bool branches_on_a_pair(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    return td_return(c, branch(c, product, sine, TD_ARGS(a, b)));
}
/* The branch that runs gives b no gradient; that of the other is a pair. */
static bool branches_without_b(td_call *c) {
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1);
    return td_return(c, td_add(branch(c, sine, product, TD_ARGS(a, b)), b));
}

static bool doubles(td_call *c) {
    td_mul_(td_arg(c, 0), 2.0);
    return td_return(c, td_add(td_arg(c, 0), 1.0));
}
static bool writes_in_a_branch(td_call *c) {
    td_tensor *a = td_mul(td_arg(c, 0), 1.5);
    td_tensor *y = branch(c, doubles, sine, TD_ARGS(a, td_arg(c, 1)));
    return td_return(c, td_mul(y, a), a);
}

static bool makes_a_pair(td_call *c) {
    td_tensor *b = td_arg(c, 0);
    return td_return(c, make_pair(td_sin(b), td_cos(b), "made"));
}
static bool makes_another(td_call *c) {
    td_tensor *b = td_arg(c, 0);
    return td_return(c, make_pair(td_neg(b), td_mul(b, b), "made"));
}
static bool branches_make_pairs(td_call *c) {
    td_tensor *y = branch(c, makes_a_pair, makes_another, TD_ARGS(td_arg(c, 1)));
    return td_return(c, td_mul(y, 2.0), td_arg(c, 0));
}

TEST(branches_take_and_give_tensors_of_a_type) {
    td_ctx *cx = td_open();
    CHECK(agree_all(cx, branches_on_a_pair, 2));
    CHECK(agree_all(cx, branches_without_b, 1));
    CHECK(agree_all(cx, writes_in_a_branch, 2));
    CHECK(agree(cx, branches_make_pairs, pair_and_plain, 0));
    CHECK(agree(cx, branches_on_a_pair, int8_and_plain, 2));
    CHECK_OK(cx);
    td_close(cx);
}

/* Fails to compile, with a message that has these words. */
static bool fails(td_ctx *cx, td_body *body, makes *make, const char *words) {
    td_fn   *f = td_aot_function(cx, body, NULL, NULL);
    observed s;
    bool     ok = !watch(cx, f, body, make, 0, &s) && strstr(td_message(cx), words);
    if (!ok) fprintf(stderr, "got: %s\n", td_message(cx));
    td_clear(cx);
    td_fn_drop(f);
    return ok;
}

static bool plain_part(td_call *c) {
    return td_return(c, td_sin(td_type_inner(td_arg(c, 0), 0)));
}
static bool branches_disagree(td_call *c) {
    return td_return(c, branch(c, sine, plain_part, TD_ARGS(td_arg(c, 0))));
}
static bool asks_a_pair(td_call *c) {
    td_tensor  *y;
    td_branches of = {.yes = sine, .no = sine};
    td_cond(td_sum(td_arg(c, 0)), of, TD_ARGS(td_arg(c, 1)), &y, 1);
    return td_return(c, y);
}

TEST(branches_must_give_one_type) {
    td_ctx *cx = td_open();
    CHECK(fails(cx, branches_disagree, pair_and_plain, "must agree"));
    CHECK(fails(cx, asks_a_pair, pair_and_plain, "td_cond: the predicate"));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- loops -------------------------------------------------------------- */

static bool below_three(td_call *c) {
    return td_return(c, td_lt(td_arg(c, td_arg_count(c) - 1), 3.0));
}
static bool iterates(td_call *c) {
    td_tensor *b = td_call_env(c);
    return td_return(c, td_sin(td_mul(td_arg(c, 0), b)), td_add(td_arg(c, 1), 1.0));
}
static bool loops_over_a_pair(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_loop    of = {below_three, iterates, td_arg(c, 1)};
    td_tensor *n = td_zeros(cx, (td_ints){0}), *y[2];
    td_while(cx, of, TD_LIST(td_arg(c, 0), n), y);
    return td_return(c, y[0]);
}

/* A plain state that the loop sums, and a pair from outside. */
static bool adds_inner(td_call *c) {
    td_tensor *a = td_call_env(c), *s = td_arg(c, 0), *x = td_arg(c, 1);
    return td_return(c, td_mul(s, 0.5), td_mul(td_mul(x, a), td_cos(a)),
                     td_add(td_arg(c, 2), 1.0));
}
static bool closes_over_a_pair(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_tensor *a = td_arg(c, 0), *b = td_arg(c, 1), *y[3];
    td_loop    of = {below_three, adds_inner, a};
    td_while(cx, of, TD_LIST(b, td_mul(a, b), td_zeros(cx, (td_ints){0})), y);
    return td_return(c, td_add(y[0], y[1]));
}

static bool changes_its_type(td_call *c) {
    return td_return(c, td_mul(td_arg(c, 0), td_call_env(c)), td_arg(c, 1));
}
static bool loops_with_another_type(td_call *c) {
    td_ctx    *cx = td_call_ctx(c);
    td_loop    of = {below_three, changes_its_type, td_arg(c, 0)};
    td_tensor *y[2];
    td_while(cx, of, TD_LIST(td_arg(c, 1), td_zeros(cx, (td_ints){0})), y);
    return td_return(c, y[0]);
}

TEST(loops_take_and_give_tensors_of_a_type) {
    td_ctx *cx = td_open();
    CHECK(agree_all(cx, loops_over_a_pair, 2));
    CHECK(agree_all(cx, closes_over_a_pair, 2));
    CHECK(fails(cx, loops_with_another_type, pair_and_plain, "type must not change"));
    CHECK_OK(cx);
    td_close(cx);
}

/* The sum of two is a difference of inner tensors. */
static bool subtracts(void *env, td_mode_call *h) {
    bool       add = !strcmp(td_mode_call_name(h), "add");
    td_tensor *a = add ? td_mode_call_arg(h, 0).u.t : NULL;
    td_tensor *b = add ? td_mode_call_arg(h, 1).u.t : NULL;
    (void)env;
    if (!add || !td_type_of(a) || !td_type_of(b)) return td_type_each(h);
    td_tensor *sum = td_sub(td_type_inner(a, 0), td_neg(td_type_inner(b, 0)));
    return td_mode_call_answer(h, 0,
                               td_type_make(td_type_of(a), TD_LIST(sum), "",
                                            td_sizes(sum), (td_ints){0}, TD_F32));
}
static void subtracting(td_ctx *cx, observed *s) {
    static const char *const inner[] = {"x"};
    td_type_opts             o = {TD_TYPE_OPTS, .name = "subtracts", .inner = inner,
                                  .n_inner = 1, .call = subtracts,   .version = 1};
    const td_type           *type = td_register_type(cx, &o);
    td_tensor               *x = noise(cx, 2, 3);
    s->arg[0] = s->leaf[0] = td_requires_grad_(
        td_type_make(type, TD_LIST(x), "", td_sizes(x), (td_ints){0}, TD_F32));
    s->arg[1] = s->leaf[1] = td_requires_grad_(noise(cx, 2, 3));
    s->n_arg = 2;
}

/* First derivatives add up by the type; the double backward adds inner tensors. */
TEST(second_derivatives_of_a_loop_need_a_type_that_adds_inner_tensors) {
    td_ctx  *cx = td_open();
    td_fn   *f = td_aot_function(cx, closes_over_a_pair, NULL, NULL);
    observed s;
    CHECK(agree(cx, closes_over_a_pair, subtracting, 1));
    CHECK(!watch(cx, f, closes_over_a_pair, subtracting, 2, &s));
    CHECK(strstr(td_message(cx), "gradients of type subtracts, whose add is not that"));
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}

/* ---- custom functions --------------------------------------------------- */

static bool cube(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                 int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul(td_mul(in[0], in[0]), in[1]);
    out[1] = td_sin(in[0]);
    return td_fcall_save(f, TD_LIST(in[0], in[1]));
}
static bool cube_back(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                      int n_in) {
    td_tensor *a = td_fcall_saved(f, 0), *b = td_fcall_saved(f, 1);
    (void)n_out, (void)n_in;
    grad[0] = td_add(td_mul(td_mul(td_mul(g[0], a), b), 2.0), td_mul(g[1], td_cos(a)));
    grad[1] = td_mul(td_mul(g[0], a), a);
    return true;
}
static const td_function own = {"own", cube, cube_back, NULL};

/* A gradient arrives for both results. */
static bool calls_own(td_call *c) {
    td_tensor *y[2];
    td_function_call(td_call_ctx(c), &own, NULL, TD_LIST(td_arg(c, 0), td_arg(c, 1)), y,
                     2);
    return td_return(c, td_add(y[0], y[1]));
}
/* ...for one: the other is zeros. */
static bool calls_own_for_one(td_call *c) {
    td_tensor *y[2];
    td_function_call(td_call_ctx(c), &own, NULL, TD_LIST(td_arg(c, 0), td_arg(c, 1)), y,
                     2);
    return td_return(c, y[0]);
}

static bool twice(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                  int n_out) {
    (void)n_in, (void)n_out;
    out[0] = td_mul_(in[0], 2.0);
    return td_fcall_mark_dirty(f, TD_LIST(in[0]));
}
static bool twice_back(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                       int n_in) {
    (void)f, (void)n_out, (void)n_in;
    grad[0] = td_mul(g[0], 2.0);
    return true;
}
static bool writes_by_own(td_call *c) {
    static const td_function fn = {"twice", twice, twice_back, NULL};
    td_tensor               *x = td_sin(td_arg(c, 0)), *y;
    td_function_call(td_call_ctx(c), &fn, NULL, TD_LIST(x), &y, 1);
    return td_return(c, td_mul(y, td_arg(c, 1)));
}

TEST(custom_functions_take_and_give_tensors_of_a_type) {
    td_ctx *cx = td_open();
    CHECK(agree_all(cx, calls_own, 2));
    CHECK(agree_all(cx, calls_own_for_one, 2));
    CHECK(agree_all(cx, writes_by_own, 2));
    CHECK(agree(cx, calls_own, int8_and_plain, 2));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- regions ------------------------------------------------------------ */

static bool block(td_call *c) {
    td_tensor *x = td_arg(c, 0), *w = td_arg(c, 1);
    return td_return(c, td_tanh(td_mul(x, w)));
}
static bool blocks(td_call *c) {
    td_region_body of = {.body = block, .name = "block", .once = true};
    td_tensor     *x = td_arg(c, 0), *w = td_arg(c, 1);
    bool           ok = true;
    for (int i = 0; i < 3 && ok; i++)
        ok = td_call_region(td_call_ctx(c), of, TD_ARGS(x, w), &x, 1);
    return ok && td_return(c, x);
}
/* The results of the region are plain, and their gradients are pairs. */
static bool plain_blocks(td_call *c) {
    td_region_body of = {.body = block, .name = "block"};
    td_tensor     *a = td_arg(c, 0), *x = td_arg(c, 1);
    bool           ok = true;
    for (int i = 0; i < 2 && ok; i++)
        ok = td_call_region(td_call_ctx(c), of, TD_ARGS(x, td_arg(c, 1)), &x, 1);
    return ok && td_return(c, td_mul(a, x));
}

/* Does td_explain have these words, after a call and its backward? */
static bool explains(td_ctx *cx, td_body *body, const char *words) {
    static char text[20000];
    td_fn      *f = td_aot_function(cx, body, NULL, NULL);
    observed    s;
    bool        ok = watch(cx, f, body, pair_and_plain, 1, &s);
    td_explain(f, text, sizeof text);
    if (ok && !strstr(text, words)) fprintf(stderr, "%s\n", text);
    td_fn_drop(f);
    return ok && strstr(text, words);
}

TEST(regions_of_a_type_are_not_inlined) {
    td_ctx *cx = td_open();
    CHECK(agree_all(cx, blocks, 2));
    CHECK(agree_all(cx, plain_blocks, 2));
    CHECK(explains(cx, blocks, "@block_forward"));
    CHECK(explains(cx, plain_blocks, "@block_forward"));
    CHECK_OK(cx);
    td_close(cx);
}

/* ---- exports ------------------------------------------------------------ */

/* An export of the body, through its text, gives what eager gives. */
static bool runs_as_eager(td_ctx *cx, td_body *body) {
    static char  text[20000];
    td_tensor   *x = make_pair(noise(cx, 2, 3), noise(cx, 2, 3), "m");
    td_tensor   *b = noise(cx, 2, 3);
    td_exported *e = td_export_joint(cx, body, NULL, TD_ARGS(x, b), NULL);
    td_value     want, out[2];
    td_exported_text(e, text, sizeof text);
    bool ok = strstr(text, "of pair(\"m\", f32[2,3], f32[2,3])") &&
              td_exported_run(e, TD_ARGS(x, b), out, td_exported_outputs(e)) &&
              td_call_body(cx, body, NULL, TD_ARGS(x, b), &want, 1) == 1;
    return ok && same(out[0].u.t, want.u.t);
}

TEST(branches_and_loops_of_a_type_are_exported) {
    td_ctx *cx = td_open();
    CHECK(runs_as_eager(cx, branches_on_a_pair));
    CHECK(runs_as_eager(cx, loops_over_a_pair));
    CHECK(runs_as_eager(cx, blocks));
    CHECK_OK(cx);
    td_close(cx);
}
