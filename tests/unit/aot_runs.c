/* aot_runs.c -- how often the user's body runs: once for each specialization, whatever
 * becomes of its sizes. A later stage that needs the program once more replays the
 * captured graph. */
#include "aot_help.h"
#include "tandem/export.h"

/* What a body closes over, and how often it has run. */
typedef struct scene {
    int        runs;
    td_tensor *held;
    int        how; /* of a body that does one thing of several */
} scene;

/* One function, called with rows of several sizes. */
typedef struct calls {
    const char *name;
    td_body    *body;
    int64_t     rows[5]; /* 0: the end */
    td_shapes   dynamic;
    int         specs; /* specializations behind all calls, and so runs */
    bool        grad;  /* the arguments require grad; a backward follows */
} calls;

static td_tensor *rows_of(td_ctx *cx, int64_t n, bool grad) {
    td_tensor *x = td_reshape(td_arange(cx, 0, (double)(3 * n)), TD_DIMS(n, 3));
    return td_set_requires_grad(td_mul(td_to(x, TD_F64), 0.25), grad);
}

static bool same(td_tensor *a, td_tensor *b) {
    return td_numel(a) == td_numel(b) &&
           td_item(td_sum(td_abs(td_sub(a, b)))) < 1e-9 * (double)td_numel(a);
}

/* Compares a call with the body itself, whose run is not counted. */
static void compare(td_fn *f, const calls *k, scene *s, td_tensor *x) {
    td_ctx    *cx = td_ctx_of(x);
    td_tensor *y = NULL, *want = NULL, *g = NULL, *h = NULL, *like = td_clone(x);
    td_value   v;
    int        runs = s->runs;
    like = td_set_requires_grad(td_detach(like), k->grad);
    CHECK(td_call_body(cx, k->body, s, TD_ARGS(like), &v, 1) == 1);
    s->runs = runs;
    want = v.u.t;
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    if (!td_ok(cx)) printf("%s: %s\n", k->name, td_message(cx));
    CHECK(same(y, want));
    if (!k->grad || !td_requires_grad(want)) return;
    CHECK(td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, NULL));
    CHECK(td_grad(TD_LIST(td_sum(want)), TD_LIST(like), &h, NULL));
    CHECK(same(g, h));
}

/* Are there `specs` specializations, each of one run of the body? */
static bool once(td_fn *f, const char *name, int runs, int specs) {
    int n = td_fn_specializations(f);
    if (n != specs || runs != specs)
        printf("%s: %d specializations, %d runs, not %d of each\n", name, n, runs,
               specs);
    return n == specs && runs == specs;
}

static bool check_runs(const calls *k, int how) {
    td_ctx     *cx = td_open();
    scene       s = {.how = how};
    td_aot_opts o = {TD_AOT_OPTS, .dynamic = k->dynamic, .name = k->name};
    td_fn      *f = td_aot_function(cx, k->body, &s, &o);
    s.held = rows_of(cx, 1, false);
    for (int again = 0; again < 2; again++)
        for (int i = 0; i < TD_COUNT(k->rows) && k->rows[i]; i++)
            compare(f, k, &s, rows_of(cx, k->rows[i], k->grad));
    bool ok = once(f, k->name, s.runs, k->specs);
    td_fn_drop(f);
    td_close(cx);
    return ok;
}

/* ---- bodies ------------------------------------------------------------- */

static scene *enter(td_call *c) {
    scene *s = td_call_env(c);
    s->runs++;
    return s;
}
static bool plain(td_call *c) {
    enter(c);
    return td_return(c, td_sin(td_mul(td_arg(c, 0), 2.0)));
}
static bool closes(td_call *c) {
    scene *s = enter(c);
    return td_return(c, td_mul(td_arg(c, 0), s->held));
}
/* C reads the size, and branches on it. */
static bool branches(td_call *c) {
    enter(c);
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_size(x, 0) > 4 ? td_sin(x) : td_mul(x, 3.0));
}
static bool lists_sizes(td_call *c) {
    enter(c);
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(x, (double)td_sizes(x).v[0]));
}
static bool computes_with_handles(td_call *c) {
    enter(c);
    td_tensor *x = td_arg(c, 0);
    int64_t    n = td_sym_mul(td_sym_size(x, 0), 3);
    return td_return(c, td_reshape(x, TD_DIMS(n)));
}
/* What symbols cannot say: counted from the start of a storage, or a storage that
 * grows. */
static bool strides(td_call *c) {
    enter(c);
    return td_return(c, td_as_strided(td_mul(td_arg(c, 0), 2.0), TD_DIMS(2, 2),
                                      TD_DIMS(2, 1), 0));
}
static bool grows(td_call *c) {
    enter(c);
    td_tensor *x = td_arg(c, 0), *y = td_mul(td_detach(x), 2.0);
    int64_t    n = td_sym_mul(td_sym_size(x, 0), 2);
    td_resize_(y, TD_DIMS(n, 3));
    return td_return(c, td_add(td_slice(y, 0, 0, 2), 1.0));
}
/* An argument that is a view of what the body closes over. */
static bool reads_base(td_call *c) {
    scene     *s = enter(c);
    td_tensor *x = td_arg(c, 0), *y = td_mul(x, 2.0);
    return td_return(c, td_add(td_sum(y), td_sum(s->held)));
}
/* ...and reads it first behind a write to the same bytes. */
static bool reads_late(td_call *c) {
    scene *s = enter(c);
    td_add_(td_arg(c, 0), 1.0);
    return td_return(c, td_mul(td_sum(s->held), 2.0));
}
static bool picks(td_call *c) {
    enter(c);
    td_tensor *x = td_arg(c, 0);
    return td_return(c, td_mul(td_index(x, TD_LIST(td_gt(x, 0.6))), 2.0));
}
static bool differentiates(td_call *c) {
    enter(c);
    td_tensor *x = td_set_requires_grad(td_detach(td_arg(c, 0)), true), *g;
    if (!td_grad(TD_LIST(td_sum(td_sin(x))), TD_LIST(x), &g, NULL)) return false;
    return td_return(c, g);
}

/* Both branches run once each, one of them writes its argument. */
static bool adds(td_call *c) {
    ((scene *)td_call_env(c))->runs += 100;
    td_add_(td_arg(c, 0), 1.0);
    return td_return(c, td_mul(td_arg(c, 0), ((scene *)td_call_env(c))->held));
}
static bool sines(td_call *c) {
    ((scene *)td_call_env(c))->runs += 10000;
    return td_return(c, td_sin(td_arg(c, 0)));
}
static bool chooses(td_call *c) {
    scene     *s = enter(c);
    td_tensor *x = td_mul(td_arg(c, 0), 2.0), *y = NULL;
    td_cond(td_gt(td_sum(x), 0.0), (td_branches){adds, sines, s}, TD_ARGS(x), &y, 1);
    return td_return(c, td_add(x, y));
}

/* ---- functions ---------------------------------------------------------- */

static const calls cases[] = {
    {"fixed", plain, {5, 6, 7}, TD_SHAPES_STATIC, 3, true},
    {"automatic", plain, {5, 6, 7, 9}, TD_SHAPES_AUTO, 2, true},
    {"automatic, inference", plain, {5, 6, 7, 9}, TD_SHAPES_AUTO, 2, false},
    {"one and none", plain, {5, 6, 1, 7}, TD_SHAPES_AUTO, 3, true},
    {"dynamic", plain, {5, 6, 7, 9}, TD_SHAPES_DYNAMIC, 1, true},
    {"dynamic, inference", plain, {5, 6, 7, 9}, TD_SHAPES_DYNAMIC, 1, false},
    {"closing over", closes, {5, 6, 7}, TD_SHAPES_AUTO, 2, true},
    {"closing over, dynamic", closes, {5, 6, 7}, TD_SHAPES_DYNAMIC, 1, true},
    {"branches on a size", branches, {5, 3, 6, 7}, TD_SHAPES_AUTO, 4, true},
    {"branches on a size, dynamic", branches, {5, 3, 6}, TD_SHAPES_DYNAMIC, 3, true},
    {"lists sizes", lists_sizes, {5, 6, 7}, TD_SHAPES_AUTO, 3, true},
    {"handles", computes_with_handles, {5, 6, 7}, TD_SHAPES_AUTO, 2, true},
    {"counts from the start", strides, {5, 6, 7}, TD_SHAPES_AUTO, 3, true},
    {"counts, dynamic", strides, {5, 6, 7}, TD_SHAPES_DYNAMIC, 3, true},
    {"a storage grows", grows, {5, 6, 7}, TD_SHAPES_AUTO, 3, false},
    {"a storage grows, dynamic", grows, {5, 6, 7}, TD_SHAPES_DYNAMIC, 3, false},
    {"sizes of values", picks, {5, 6, 7}, TD_SHAPES_AUTO, 2, true},
    {"sizes of values, dynamic", picks, {5, 6, 7}, TD_SHAPES_DYNAMIC, 1, true},
    {"a gradient inside", differentiates, {5, 6, 7}, TD_SHAPES_AUTO, 2, false},
};

TEST(a_body_runs_once_for_each_specialization) {
    bool ok = true;
    for (int i = 0; i < TD_COUNT(cases); i++) ok &= check_runs(&cases[i], 0);
    CHECK(ok);
}

TEST(a_branch_that_writes_runs_once) {
    td_ctx *cx = td_open();
    scene   s = {.held = rows_of(cx, 1, false)};
    calls   k = {.name = "branches", .body = chooses};
    td_fn  *f = td_aot_function(cx, chooses, &s, NULL);
    for (int i = 0; i < 3; i++) compare(f, &k, &s, rows_of(cx, 4 + i, false));
    CHECK(td_fn_specializations(f) == 2 && s.runs == 2 * 10101);
    td_fn_drop(f);
    td_close(cx);
}

/* The arguments are views of what the body closes over. */
static bool check_views(td_body *body, td_shapes dynamic, int specs) {
    td_ctx     *cx = td_open();
    scene       s = {.held = rows_of(cx, 8, false)};
    td_aot_opts o = {TD_AOT_OPTS, .dynamic = dynamic};
    td_fn      *f = td_aot_function(cx, body, &s, &o);
    calls       k = {.name = "views", .body = body};
    for (int64_t n = 5; n < 8; n++) {
        td_tensor *y, *x = td_slice(s.held, 0, 0, n);
        double     sum = td_item(td_sum(s.held)), part = td_item(td_sum(x));
        double     want =
            k.body == reads_base ? 2 * part + sum : 2 * (sum + 3.0 * (double)n);
        CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
        CHECK(fabs(td_item(y) - want) < 1e-9);
    }
    bool ok = once(f, k.name, s.runs, specs);
    td_fn_drop(f);
    td_close(cx);
    return ok;
}

TEST(a_body_that_closes_over_the_bytes_of_an_argument_runs_once) {
    static const int specs[] = {2, 1, 3};
    bool             ok = true;
    for (int k = TD_SHAPES_AUTO; k <= TD_SHAPES_STATIC; k++) {
        ok &= check_views(reads_base, (td_shapes)k, specs[k]);
        ok &= check_views(reads_late, (td_shapes)k, specs[k]);
    }
    CHECK(ok);
}

/* It closes over a view of an argument whose sizes are symbols. */
TEST(a_body_that_closes_over_a_view_of_a_dynamic_argument_runs_once) {
    td_ctx     *cx = td_open();
    td_aot_opts o = {TD_AOT_OPTS, .dynamic = TD_SHAPES_DYNAMIC};
    td_tensor  *x = rows_of(cx, 5, false), *y;
    scene       s = {.held = td_slice(x, 0, 1, 3)};
    td_fn      *f = td_aot_function(cx, reads_base, &s, &o);
    double      want = 2 * td_item(td_sum(x)) + td_item(td_sum(s.held));
    CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
    CHECK(fabs(td_item(y) - want) < 1e-9 && once(f, "a view", s.runs, 1));
    td_fn_drop(f);
    td_close(cx);
}

/* ---- modules, steps, stages, exports ------------------------------------ */

static bool forward(td_module *m, td_call *c) {
    scene *s = td_module_state(m);
    s->runs++;
    td_tensor *w = td_module_get(m, "w");
    return td_return(c, td_tanh(td_mul(td_arg(c, 0), w)));
}

static td_module *counting_module(td_ctx *cx) {
    static const td_module_type type = {.name = "Counts",
                                        .bytes = sizeof(scene),
                                        .forward = forward};
    td_module                  *m = td_module_make(cx, &type);
    td_module_param(m, "w", rows_of(cx, 1, false));
    return m;
}

TEST(a_module_runs_once_for_each_specialization) {
    static const int specs[] = {2, 1, 3};
    bool             ok = true;
    for (int k = TD_SHAPES_AUTO; k <= TD_SHAPES_STATIC; k++) {
        td_ctx     *cx = td_open();
        td_module  *m = counting_module(cx);
        scene      *s = td_module_state(m);
        td_aot_opts o = {TD_AOT_OPTS, .dynamic = (td_shapes)k};
        td_fn      *f = td_aot_module(m, &o);
        td_tensor  *y;
        for (int64_t n = 5; n < 8; n++) {
            CHECK(td_invoke(f, TD_ARGS(rows_of(cx, n, false)), &y, 1));
            CHECK(td_backward(td_sum(y)));
        }
        ok &= once(f, "a module", s->runs, specs[k]);
        td_fn_drop(f);
        td_module_free(m);
        td_close(cx);
    }
    CHECK(ok);
}

/* Reads what it writes; adds to a gradient, and takes it away. */
static bool trains(td_call *c) {
    scene     *s = enter(c);
    td_tensor *loss = td_mean(td_mul(td_arg(c, 0), td_sin(s->held)));
    if (!td_backward(loss)) return false;
    td_grad_mode was = td_no_grad_begin(td_call_ctx(c));
    td_sub_(s->held, td_mul(td_grad_of(s->held), 0.5));
    td_no_grad_end(td_call_ctx(c), was);
    td_zero_grad(s->held);
    if (s->how) loss = td_as_strided(td_mul(loss, 1.0), TD_DIMS(1), TD_DIMS(1), 0);
    return td_return(c, loss);
}

/* `how`: with an op that makes it a step for its sizes. */
static bool check_step(td_shapes dynamic, int how, int specs) {
    td_ctx     *cx = td_open();
    scene       s = {.held = rows_of(cx, 1, true), .how = how};
    td_aot_opts o = {TD_AOT_OPTS, .dynamic = dynamic};
    td_fn      *f = td_aot_step(cx, trains, &s, &o);
    td_tensor  *w = td_set_requires_grad(td_clone(td_detach(s.held)), true), *y;
    for (int i = 0; i < 6; i++) {
        td_value   v;
        td_tensor *x = rows_of(cx, 5 + i % 3, false);
        scene      eager = {.held = w, .how = how};
        CHECK(td_call_body(cx, trains, &eager, TD_ARGS(x), &v, 1) == 1);
        CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
        CHECK(same(td_detach(y), td_detach(v.u.t)));
        CHECK(same(td_detach(w), td_detach(s.held)));
    }
    bool ok = once(f, how ? "a step for its sizes" : "a step", s.runs, specs);
    td_fn_drop(f);
    td_close(cx);
    return ok;
}

TEST(a_step_runs_once_for_each_specialization) {
    static const int specs[] = {2, 1, 3};
    bool             ok = true;
    for (int k = TD_SHAPES_AUTO; k <= TD_SHAPES_STATIC; k++) {
        ok &= check_step((td_shapes)k, 0, specs[k]);
        ok &= check_step((td_shapes)k, 1, 3);
    }
    CHECK(ok);
}

TEST(stages_and_exports_run_the_body_once) {
    td_ctx    *cx = td_open();
    scene      s = {.held = rows_of(cx, 1, false)};
    td_tensor *x = rows_of(cx, 5, true);
    for (int k = TD_SHAPES_AUTO; k <= TD_SHAPES_STATIC; k++) {
        td_aot_opts    o = {TD_AOT_OPTS, .dynamic = (td_shapes)k};
        td_export_opts e = {TD_EXPORT_OPTS, .dynamic = (td_shapes)k};
        s.runs = 0;
        td_staged *st = td_stage_capture(cx, closes, &s, TD_ARGS(x), &o);
        td_fn     *f = td_stage_compile(st);
        CHECK(once(f, "stages", s.runs, 1));
        td_fn_drop(f);
        td_stage_drop(st);
        td_exported *out = td_export_joint(cx, closes, &s, TD_ARGS(x), &e);
        CHECK(td_ok(cx) && s.runs == 2);
        td_exported_drop(out);
    }
    td_close(cx);
}

/* ---- where it runs more often ------------------------------------------- */

/* The body compares what it did with what it does: calls 2, 4 and 8. */
TEST(debug_asserts_run_the_body_again_and_nothing_else_does) {
    for (int on = 0; on < 2; on++) {
        td_ctx *cx = td_open();
        scene   s = {0};
        td_config_set(cx, "debug_asserts", on ? "on" : "off");
        td_fn *f = td_aot_function(cx, picks, &s, NULL);
        for (int i = 0; i < 8; i++) {
            td_tensor *y, *g, *x = rows_of(cx, 5, true);
            CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
            CHECK(td_grad(TD_LIST(td_sum(y)), TD_LIST(x), &g, NULL));
        }
        CHECK(td_fn_specializations(f) == 1 && s.runs == (on ? 4 : 1));
        td_fn_drop(f);
        td_close(cx);
    }
}

/* C's own arithmetic on a handle: such a body needs numbers, and runs for them. */
static bool misuses(td_call *c) {
    enter(c);
    td_tensor *x = td_arg(c, 0);
    int64_t    n = (int64_t)(3 * (uint64_t)td_sym_size(x, 0)); /* a handle overflows */
    return td_return(c, td_reshape(x, TD_DIMS(n)));
}

/* A body that fails fails at once, unless symbols may be the reason. */
static bool fails(td_call *c) {
    enter(c);
    return td_return(c, td_matmul(td_arg(c, 0), td_arg(c, 0)));
}

TEST(a_body_that_fails_with_symbols_runs_for_numbers) {
    td_ctx    *cx = td_open();
    scene      s = {0};
    td_fn     *f = td_aot_function(cx, misuses, &s, NULL);
    td_tensor *y;
    for (int64_t n = 5; n < 8; n++) {
        CHECK(td_invoke(f, TD_ARGS(rows_of(cx, n, false)), &y, 1));
        CHECK(td_numel(y) == 3 * n);
    }
    CHECK(td_fn_specializations(f) == 3 && s.runs == 5);
    td_fn_drop(f);
    s.runs = 0;
    f = td_aot_function(cx, fails, &s, NULL);
    CHECK(!td_invoke(f, TD_ARGS(rows_of(cx, 5, false)), &y, 1));
    CHECK(s.runs == 1 && td_error(cx) == TD_E_SHAPE);
    td_clear(cx);
    td_fn_drop(f);
    td_close(cx);
}
