/* hooks.c -- hooks on gradients, leaves, nodes and saved values. */
#include "grad_help.h"

#include <stdlib.h>

/* What happened, in order, as letters. */
static char trail[64];
static void begin_trail(void) { trail[0] = 0; }
static void note(const char *s) { strncat(trail, s, sizeof trail - strlen(trail) - 1); }

static td_tensor *times_ten(void *env, td_tensor *g) {
    (void)env;
    return td_mul(g, 10.0);
}

static td_tensor *say(void *env, td_tensor *g) {
    (void)g;
    note(env);
    return NULL;
}

TEST(a_hook_can_replace_the_gradient_of_a_result) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 2.0);

    CHECK(td_on_grad(y, times_ten, NULL) != 0);
    td_backward(td_sum(y));

    CHECK_VALUES(td_grad_of(x), 20, 20);
    td_close(cx);
}

TEST(a_hook_can_replace_the_gradient_of_a_leaf) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_on_grad(x, times_ten, NULL);
    td_backward(td_sum(td_mul(x, 2.0)));

    CHECK_VALUES(td_grad_of(x), 20, 20);
    td_close(cx);
}

TEST(a_hook_of_a_leaf_sees_the_whole_sum_once) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);
    begin_trail();

    td_on_grad(x, say, "x");
    td_backward(td_sum(td_add(td_mul(x, 2.0), td_mul(x, 3.0))));

    CHECK_STR(trail, "x");
    td_close(cx);
}

TEST(hooks_run_in_the_order_of_registration) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 2.0);
    begin_trail();

    td_on_grad(y, say, "a");
    td_on_grad(y, say, "b");
    td_on_grad(y, say, "c");
    td_backward(td_sum(y));

    CHECK_STR(trail, "abc");
    td_close(cx);
}

TEST(a_removed_hook_is_silent) {
    td_ctx    *cx = td_open();
    td_tensor *y = MADE(cx, 1, 2);
    begin_trail();

    td_hook a = td_on_grad(y, say, "a");
    td_on_grad(y, say, "b");
    td_hook_remove(cx, a);
    td_hook_remove(cx, a);
    td_backward(td_sum(y));

    CHECK_STR(trail, "b");
    td_close(cx);
}

typedef struct remover {
    td_ctx *cx;
    td_hook me, next;
} remover;

static td_tensor *remove_both(void *env, td_tensor *g) {
    remover *r = env;
    (void)g;
    note("r");
    td_hook_remove(r->cx, r->me);
    td_hook_remove(r->cx, r->next);
    return NULL;
}

TEST(a_hook_can_remove_itself_and_the_next) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);
    remover    r = {.cx = cx};
    begin_trail();

    r.me = td_on_grad(x, remove_both, &r);
    r.next = td_on_grad(x, say, "n");
    td_backward(td_sum(x));
    td_backward(td_sum(x));

    CHECK_STR(trail, "rn"); /* the list was copied when it began, as in PyTorch */
    td_close(cx);
}

static bool remove_after(void *env, td_tensor *t) {
    (void)t;
    return remove_both(env, NULL), true;
}
static bool remove_before(void *env, td_tensor **g, int n) {
    (void)g, (void)n;
    return remove_both(env, NULL), true;
}
static bool remove_behind(void *env, td_tensor **made, int n_made, td_tensor *const *g,
                          int n) {
    (void)made, (void)n_made, (void)g, (void)n;
    return remove_both(env, NULL), true;
}
static bool say_after(void *env, td_tensor *t) {
    (void)t;
    return say(env, NULL), true;
}
static bool say_before(void *env, td_tensor **g, int n) {
    (void)g, (void)n;
    return say(env, NULL), true;
}
static bool say_behind(void *env, td_tensor **made, int n_made, td_tensor *const *g,
                       int n) {
    (void)made, (void)n_made, (void)g, (void)n;
    return say(env, NULL), true;
}

/* PyTorch: post-accumulate hooks, and pre- and post-hooks of a node. */
TEST(every_list_runs_the_hooks_it_began_with) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 2.0);
    remover    leaf = {.cx = cx}, pre = {.cx = cx}, post = {.cx = cx};
    td_node   *n = td_grad_fn(y);
    begin_trail();

    leaf.me = td_on_accumulated(x, remove_after, &leaf);
    leaf.next = td_on_accumulated(x, say_after, "1");
    pre.me = td_on_node_pre(n, remove_before, &pre);
    pre.next = td_on_node_pre(n, say_before, "2");
    post.me = td_on_node_post(n, remove_behind, &post);
    post.next = td_on_node_post(n, say_behind, "3");
    for (int i = 0; i < 2; i++)
        td_backward_with(TD_LIST(td_sum(y)), (td_tensors){0},
                         &(td_backward_opts){TD_BACKWARD_OPTS, .retain_graph = true});

    CHECK_OK(cx);
    CHECK_STR(trail, "r2r3r1");
    td_close(cx);
}

TEST(a_hook_removed_before_its_list_begins_is_silent) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 2.0), *row[2];
    remover    r = {.cx = cx}, p = {.cx = cx};
    begin_trail();

    r.me = td_on_grad(y, remove_both, &r);
    r.next = td_on_node_pre(td_grad_fn(y), say_before, "n");
    td_backward(td_sum(y));
    CHECK_STR(trail, "r");

    begin_trail(); /* results of one node have a list each */
    td_unbind(td_stack(TD_LIST(x, x), 0), 0, row, 2);
    p.me = td_on_grad(row[0], remove_both, &p);
    p.next = td_on_grad(row[1], say, "1");
    td_on_grad(row[1], say, "2");
    td_on_grad(row[0], say, "3");
    td_backward(td_sum(td_add(row[0], row[1])));
    CHECK_STR(trail, "r32");
    td_close(cx);
}

/* Each hook registers itself once more, on the same list. */
typedef struct breeder {
    td_tensor *t;
    td_node   *n;
    int        runs;
} breeder;

static bool       bred_too_often(breeder *b) { return ++b->runs > 100; }
static td_tensor *breed_grad(void *env, td_tensor *g) {
    breeder *b = env;
    (void)g;
    if (!bred_too_often(b)) td_on_grad(b->t, breed_grad, b);
    return NULL;
}
static bool breed_leaf(void *env, td_tensor *t) {
    if (!bred_too_often(env)) td_on_accumulated(t, breed_leaf, env);
    return true;
}
static bool breed_pre(void *env, td_tensor **g, int n) {
    breeder *b = env;
    (void)g;
    (void)n;
    if (!bred_too_often(b)) td_on_node_pre(b->n, breed_pre, b);
    return true;
}
static bool breed_post(void *env, td_tensor **made, int n_made, td_tensor *const *g,
                       int n) {
    breeder *b = env;
    (void)made;
    (void)n_made;
    (void)g;
    (void)n;
    if (!bred_too_often(b)) td_on_node_post(b->n, breed_post, b);
    return true;
}

/* PyTorch: 1 run in the first backward, 2 more in the second. */
TEST(a_hook_that_a_hook_registers_runs_from_the_next_backward_on) {
    td_ctx          *cx = td_open();
    td_tensor       *x = LEAF(cx, 1, 2), *y = td_mul(x, 2.0), *sum = td_sum(y);
    breeder          leaf = {.t = x}, made = {.t = y}, end = {.t = x};
    breeder          pre = {.n = td_grad_fn(y)}, post = {.n = td_grad_fn(y)};
    td_backward_opts o = {TD_BACKWARD_OPTS, .retain_graph = true};

    td_on_grad(x, breed_grad, &leaf);
    td_on_grad(y, breed_grad, &made);
    td_on_accumulated(x, breed_leaf, &end);
    td_on_node_pre(pre.n, breed_pre, &pre);
    td_on_node_post(post.n, breed_post, &post);

    for (int want = 1; want <= 7; want += want + 1) {
        td_backward_with(TD_LIST(sum), (td_tensors){0}, &o);
        CHECK_OK(cx);
        CHECK(leaf.runs == want && made.runs == want && end.runs == want);
        CHECK(pre.runs == want && post.runs == want);
    }
    td_close(cx);
}

TEST(a_hook_needs_a_tensor_that_requires_grad) {
    td_ctx *cx = td_open();

    CHECK(td_on_grad(td_tensor1(cx, 1), say, "") == 0);

    CHECK_FAILS(cx, "does not require grad");
    td_close(cx);
}

static td_tensor *first_half(void *env, td_tensor *g) {
    (void)env;
    return td_slice(g, 0, 0, 1);
}

TEST(a_hook_may_not_change_the_sizes) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_on_grad(x, first_half, NULL);
    CHECK(!td_backward(td_sum(x)));

    CHECK_FAILS(cx, "a gradient hook returned f32[1] for a gradient of f32[2]");
    CHECK(td_is_nil(td_grad_of(x)));
    td_close(cx);
}

static td_tensor *refuse(void *env, td_tensor *g) {
    (void)env;
    return td_fail(td_ctx_of(g), TD_E_ARG, "I do not want to");
}

TEST(a_hook_can_stop_the_backward) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, x);

    td_on_grad(y, refuse, NULL);
    CHECK(!td_backward(td_sum(y)));

    CHECK_MESSAGE(cx, "I do not want to");
    CHECK(td_is_nil(td_grad_of(x)));
    td_close(cx);
}

static bool say_leaf(void *env, td_tensor *t) {
    (void)t;
    note(env);
    return true;
}

static bool say_pre(void *env, td_tensor **g, int n) {
    (void)g, (void)n;
    note(env);
    return true;
}

static bool say_post(void *env, td_tensor **made, int n_made, td_tensor *const *g,
                     int n) {
    (void)made, (void)n_made, (void)g, (void)n;
    note(env);
    return true;
}

TEST(hooks_of_all_kinds_run_in_the_eager_order) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 2.0);
    begin_trail();
    td_on_accumulated(x, say_leaf, "A");
    td_on_grad(x, say, "l");
    td_retain_grad(y);
    td_on_node_post(td_grad_fn(y), say_post, "Q");
    td_on_node_pre(td_grad_fn(y), say_pre, "P");
    td_on_grad(y, times_ten, NULL);
    td_on_grad(y, say, "y");

    td_backward(td_sum(y));

    CHECK_STR(trail, "yPQlA");
    CHECK_VALUES(td_grad_of(y), 10, 10); /* retained after the hooks */
    CHECK_VALUES(td_grad_of(x), 20, 20);
    td_close(cx);
}

static bool double_pre(void *env, td_tensor **g, int n) {
    (void)env;
    for (int i = 0; i < n; i++)
        if (g[i]) g[i] = td_mul(g[i], 2.0);
    return true;
}

static bool negate_post(void *env, td_tensor **made, int n_made, td_tensor *const *g,
                        int n) {
    (void)env, (void)g, (void)n;
    for (int i = 0; i < n_made; i++)
        if (made[i]) made[i] = td_neg(made[i]);
    return true;
}

TEST(hooks_on_a_node_can_change_its_inputs_and_outputs) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 3.0);

    td_on_node_pre(td_grad_fn(y), double_pre, NULL);
    td_on_node_post(td_grad_fn(y), negate_post, NULL);
    td_backward(td_sum(y));

    CHECK_VALUES(td_grad_of(x), -6, -6);
    td_close(cx);
}

TEST(a_hook_after_accumulation_sees_the_gradient) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);
    begin_trail();

    CHECK(td_on_accumulated(x, say_leaf, "A") != 0);
    td_backward(td_sum(td_mul(x, x)));

    CHECK_STR(trail, "A");
    CHECK_VALUES(td_grad_of(x), 2, 4);
    td_close(cx);
}

static bool take_step(void *env, td_tensor *t) {
    (void)env;
    td_sub_(t, td_mul(td_grad_of(t), 0.5)); /* grad mode is off in backward */
    td_zero_grad(t);
    return true;
}

TEST(a_hook_after_accumulation_can_step_and_drop_the_gradient) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_on_accumulated(x, take_step, NULL);
    td_backward(td_sum(td_mul(x, 4.0)));

    CHECK_OK(cx);
    CHECK_VALUES(x, -1, 0);
    CHECK(td_is_nil(td_grad_of(x)));
    td_close(cx);
}

TEST(a_hook_after_accumulation_needs_a_leaf) {
    td_ctx *cx = td_open();

    CHECK(td_on_accumulated(MADE(cx, 1), say_leaf, "") == 0);

    CHECK_FAILS(cx, "is not a leaf");
    td_close(cx);
}

TEST(td_grad_runs_the_hooks_of_what_it_returns) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);

    td_on_grad(x, times_ten, NULL);

    CHECK_VALUES(grad1(td_sum(td_mul(x, 2.0)), x, NULL), 20, 20);
    td_close(cx);
}

TEST(td_grad_takes_an_inner_gradient_before_its_hooks_when_the_walk_goes_on) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 2.0), *z = td_sum(td_mul(y, 1.0)),
              *g[2];

    td_on_grad(y, times_ten, NULL);
    td_grad(TD_LIST(z), TD_LIST(y, x), g,
            &(td_grad_opts){TD_GRAD_OPTS, .retain_graph = true});

    CHECK_VALUES(g[0], 1, 1);
    CHECK_VALUES(g[1], 20, 20);
    CHECK_VALUES(grad1(z, y, NULL), 10, 10);
    td_close(cx);
}

TEST(td_grad_runs_no_hooks_after_accumulation) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);
    begin_trail();

    td_on_accumulated(x, say_leaf, "A");
    grad1(td_sum(x), x, NULL);

    CHECK_STR(trail, "");
    td_close(cx);
}

TEST(a_hook_stays_with_the_value_it_was_put_on) {
    td_ctx    *cx = td_open();
    td_tensor *y = MADE(cx, 1, 2);
    begin_trail();
    td_on_grad(y, say, "1");

    td_mul_(y, 2.0);
    td_on_grad(y, say, "2");
    td_backward(td_sum(td_mul(y, 5.0)));

    CHECK_STR(trail, "21");
    td_close(cx);
}

typedef struct inner_run {
    td_ctx    *cx;
    td_tensor *w;
} inner_run;

static td_tensor *backward_inside(void *env, td_tensor *g) {
    inner_run   *r = env;
    td_grad_mode was = td_enable_grad_begin(r->cx);
    td_tensor   *y = td_sum(td_mul(r->w, 3.0));
    td_enable_grad_end(r->cx, was);
    td_backward(y);
    return td_add(g, td_sum(td_grad_of(r->w)));
}

TEST(a_hook_can_run_another_backward) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 2.0);
    inner_run  r = {cx, LEAF(cx, 1, 1)};

    td_on_grad(y, backward_inside, &r);
    td_backward(td_sum(y));

    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(x), 14, 14);
    CHECK_VALUES(td_grad_of(r.w), 3, 3);
    td_close(cx);
}

typedef struct same_graph {
    td_tensor *z, *x, *seen;
} same_graph;

static td_tensor *walk_same(void *env, td_tensor *g) {
    same_graph *s = env;
    (void)g;
    if (!s->seen) {
        s->seen = s->x; /* once */
        s->seen = td_keep(
            grad1(s->z, s->x, &(td_grad_opts){TD_GRAD_OPTS, .retain_graph = true}));
    }
    return NULL;
}

TEST(a_hook_can_walk_the_graph_it_runs_in) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, x), *z = td_sum(td_mul(y, y));
    same_graph s = {z, x, NULL};

    td_on_grad(y, walk_same, &s);
    td_backward_with(TD_LIST(z), (td_tensors){0},
                     &(td_backward_opts){TD_BACKWARD_OPTS, .retain_graph = true});

    CHECK_OK(cx);
    CHECK_VALUES(s.seen, 4, 32);
    CHECK_VALUES(td_grad_of(x), 4, 32);
    td_close(cx);
}

static td_tensor *drop_root(void *env, td_tensor *g) {
    td_tensor **root = env;
    (void)g;
    if (*root) td_drop(*root);
    *root = NULL;
    return NULL;
}

TEST(a_hook_can_drop_the_graph_that_is_walked) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);
    td_scope_begin(cx, "s");
    td_tensor *y = td_mul(x, 2.0), *root = td_keep(td_sum(y));
    td_on_grad(y, drop_root, &root);
    td_scope_end(cx, "s", NULL);

    CHECK(td_backward(root));

    CHECK_VALUES(td_grad_of(x), 2, 2);
    td_close(cx);
}

/* ---- saved values ------------------------------------------------------- */

static int packs, unpacks, drops;

static void *pack_keep(void *env, td_tensor *t) {
    (void)env;
    packs++;
    return td_keep(t);
}

static td_tensor *unpack_kept(void *env, void *packed, td_ctx *cx) {
    (void)env, (void)cx;
    unpacks++;
    return packed;
}

static void drop_kept(void *env, void *packed) {
    (void)env;
    drops++;
    td_drop(packed);
}

static const td_saved_hooks keeping = {pack_keep, unpack_kept, drop_kept, NULL};

TEST(saved_values_pass_through_their_hooks) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2);
    packs = unpacks = drops = 0;

    td_saved_hooks_push(cx, &keeping);
    td_tensor *y = td_sum(td_exp(td_mul(x, x)));
    td_saved_hooks_pop(cx);
    CHECK(packs == 3 && unpacks == 0);
    td_backward(y);

    CHECK_OK(cx);
    CHECK(unpacks == 3 && drops == 3);
    CHECK_VALUES(td_grad_of(x), 2 * exp(1), 4 * exp(4));
    td_close(cx);
}

TEST(packed_values_are_dropped_with_the_graph) {
    td_ctx *cx = td_open();
    packs = drops = 0;

    td_scope_begin(cx, "s");
    td_saved_hooks_push(cx, &keeping);
    td_mul(LEAF(cx, 1), LEAF(cx, 2));
    td_saved_hooks_pop(cx);
    td_scope_end(cx, "s", NULL);

    CHECK(packs == 2 && drops == 2);
    td_close(cx);
}

TEST(packed_values_are_not_checked_for_writes) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1, 2), *y = td_mul(x, 1.0);

    td_saved_hooks_push(cx, &keeping);
    td_tensor *z = td_mul(y, y);
    td_saved_hooks_pop(cx);
    td_add_(y, 1.0);
    td_backward(td_sum(z));

    CHECK_OK(cx);
    CHECK_VALUES(td_grad_of(x), 4, 6);
    td_close(cx);
}

static void *pack_f64(void *env, td_tensor *t) {
    (void)env;
    return td_keep(td_to(t, TD_F64));
}

static td_tensor *unpack_f32(void *env, void *packed, td_ctx *cx) {
    (void)env, (void)cx;
    return td_to((td_tensor *)packed, TD_F32);
}

TEST(packed_values_keep_their_history_for_a_second_derivative) {
    td_ctx        *cx = td_open();
    td_tensor     *x = LEAF(cx, 1, 2);
    td_saved_hooks h = {pack_f64, unpack_f32, drop_kept, NULL};
    drops = 0;

    td_saved_hooks_push(cx, &h);
    td_tensor *y = td_mul(x, 3.0), *z = td_sum(td_mul(y, td_exp(y)));
    td_saved_hooks_pop(cx);
    td_tensor *g = grad1(z, x, &(td_grad_opts){TD_GRAD_OPTS, .create_graph = true});
    td_tensor *h2 = grad1(td_sum(g), x, NULL);

    CHECK_OK(cx); /* z = 3x e^3x */
    CHECK_VALUES(g, 3 * exp(3) * 4, 3 * exp(6) * 7);
    CHECK_VALUES(h2, 9 * exp(3) * 5, 9 * exp(6) * 8);
    td_close(cx);
}

static void *pack_nothing(void *env, td_tensor *t) {
    (void)env, (void)t;
    return NULL;
}

TEST(a_pack_that_gives_nothing_fails_the_op) {
    td_ctx        *cx = td_open();
    td_saved_hooks h = {pack_nothing, unpack_kept, NULL, NULL};
    td_tensor     *x = LEAF(cx, 1);

    td_saved_hooks_push(cx, &h);
    CHECK(td_is_nil(td_mul(x, x)));
    td_saved_hooks_pop(cx);

    CHECK_FAILS(cx, "saved-tensor hooks: pack returned NULL");
    td_close(cx);
}

TEST(saved_hooks_are_a_stack_and_can_be_switched_off) {
    td_ctx    *cx = td_open();
    td_tensor *x = LEAF(cx, 1);
    packs = 0;

    td_saved_hooks_push(cx, &keeping);
    td_saved_hooks_push(cx, NULL);
    td_mul(x, x);
    td_saved_hooks_pop(cx);
    CHECK(packs == 0);
    td_mul(x, x);
    td_saved_hooks_pop(cx);
    CHECK(packs == 2);
    td_saved_hooks_pop(cx);

    CHECK_FAILS(cx, "no hooks are pushed");
    td_close(cx);
}
