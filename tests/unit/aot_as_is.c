/* aot_as_is.c -- functions of a graph where they are not run as compiled code: inside a
 * capture, and while a mode listens; and values that a body watches, in words. */
#include "aot_help.h"

static const char program[] = "func @f(%x: f32[2], %w: f32[2]) {\n"
                              "  %h = mul(%x, %w)\n"
                              "  %y = exp(%h)\n"
                              "  return %y, %h\n"
                              "}\n";

typedef struct scene {
    td_ctx    *cx;
    td_gfile  *file;
    td_fn     *f;
    td_tensor *x, *w;
} scene;

static void enter(scene *s) {
    s->cx = td_open();
    s->file = td_graphs_parse(s->cx, program, sizeof program - 1, "p.td");
    s->f = td_aot_graph(td_graphs_at(s->file, 0), NULL);
    s->x = td_requires_grad_(td_full(s->cx, TD_SHAPE(2), 0.5));
    s->w = td_requires_grad_(td_full(s->cx, TD_SHAPE(2), 2.0));
}

static void leave(scene *s) {
    td_fn_drop(s->f);
    td_graphs_drop(s->file);
    td_close(s->cx);
}

/* exp(1) twice. */
static void is_right(scene *s, td_tensor *y) {
    CHECK_OK(s->cx);
    CHECK_NEAR(td_item(td_sum(td_detach(y))), 2 * exp(1), 1e-5);
    td_zero_grad(s->w);
    CHECK(td_backward(td_sum(y)));
    CHECK_NEAR(td_item(td_sum(td_grad_of(s->w))), exp(1), 1e-5);
}

static bool around(td_call *c) {
    scene     *s = td_call_env(c);
    td_tensor *y[2];
    return td_invoke(s->f, TD_ARGS(td_arg(c, 0), td_arg(c, 1)), y, 2) &&
           td_return(c, td_mul(y[0], 1.0), y[1]);
}

TEST(a_graph_inside_a_capture_is_part_of_what_is_captured) {
    scene s;
    enter(&s);
    td_fn     *g = td_aot_function(s.cx, around, &s, NULL);
    td_tensor *y[2];
    for (int i = 0; i < 2; i++) {
        CHECK(td_invoke(g, TD_ARGS(s.x, s.w), y, 2));
        is_right(&s, y[0]);
    }
    CHECK(td_fn_specializations(s.f) == 0);
    for (int64_t n = 0, more = 1; more; n++) { /* captured anew each time */
        td_fn *h = td_aot_function(s.cx, around, &s, NULL);
        td__fault_arm(n, false);
        bool ok = td_invoke(h, TD_ARGS(s.x, s.w), y, 2);
        more = td__fault_count() > n;
        td__fault_arm(-1, false);
        CHECK(ok ? td_ok(s.cx) : td_error(s.cx) == TD_E_MEMORY && td_is_nil(y[0]));
        td_clear(s.cx);
        td_fn_drop(h);
    }
    td_fn_drop(g);
    leave(&s);
}

static int ops;

static bool count(void *env, td_mode_call *h) {
    (void)env;
    ops++;
    return td_mode_call_go(h);
}

TEST(a_mode_receives_each_op_of_a_graph) {
    scene        s;
    td_mode_hook m = {.call = count};
    td_tensor   *y[2];
    enter(&s);
    ops = 0;
    CHECK(td_mode_push(s.cx, &m));
    bool ok = td_invoke(s.f, TD_ARGS(s.x, s.w), y, 2);
    td_mode_pop(s.cx, &m);
    CHECK(ok && ops == 2);
    is_right(&s, y[0]);
    CHECK(td_invoke(s.f, TD_ARGS(s.x, s.w), y, 2) && ops == 2); /* compiled again */
    is_right(&s, y[0]);
    leave(&s);
}

TEST(anomaly_checks_a_function_op_by_op_but_not_a_graph) {
    scene s;
    enter(&s);
    td_set_anomaly(s.cx, true);
    td_tensor *y[2];
    CHECK(td_invoke(s.f, TD_ARGS(s.x, s.w), y, 2));
    td_set_anomaly(s.cx, false);
    is_right(&s, y[0]);
    leave(&s);
}

/* ---- watched values ----------------------------------------------------------- */

typedef struct knobs {
    char   one, three[3];
    float  four;
    double eight;
} knobs;

static bool watches(td_call *c) {
    knobs *k = td_call_env(c);
    td_watch(c, &k->one, 1);
    td_watch(c, k->three, 3);
    td_watch(c, &k->four, sizeof k->four);
    td_watch(c, &k->eight, sizeof k->eight);
    double by = k->one + k->three[0] + (double)k->four + k->eight;
    return td_return(c, td_mul(td_arg(c, 0), by));
}

TEST(watched_values_that_change_are_named_by_their_bytes) {
    static const char *const says[] = {"2, was 1", "3 bytes", "1.5 (as an int ",
                                       "2.25 (as an int "};
    td_ctx                  *cx = open_hearing("guards");
    knobs                    k = {1, {2, 0, 0}, 0.5F, 0.25};
    td_tensor               *x = td_ones(cx, TD_SHAPE(2)), *y;
    for (int i = 0; i < TD_COUNT(says); i++) {
        td_fn *f = td_aot_function(cx, watches, &k, NULL);
        CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
        if (i == 0) k.one++;
        if (i == 1) k.three[0]++;
        if (i == 2) k.four++;
        if (i == 3) k.eight += 2;
        heard[0] = 0;
        CHECK(td_invoke(f, TD_ARGS(x), &y, 1));
        double by = k.one + k.three[0] + (double)k.four + k.eight;
        CHECK_NEAR(td_item(td_sum(y)), 2 * by, 1e-6);
        TD_CHECK_THAT(strstr(heard, says[i]), "%s", heard);
        td_fn_drop(f);
    }
    CHECK_OK(cx);
    td_close(cx);
}
