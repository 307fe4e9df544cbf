/* part_faults.c -- the partitioners when memory runs out: every allocation fails in
 * turn, and each time there is an error, no leak, and a context that still works. */
#include "part_help.h"

static const char text[] = "func @f(%x: f32[s0,s1], %w: f32[s1,s1] <param \"w\">,\n"
                           "        %t: f32[s0] <tangent 0>) {\n"
                           "  %r = rand_like(%x) : f32[s0,s1] must_recompute 1\n"
                           "  %m = mul(%x, %r) : f32[s0,s1] must_recompute 1\n"
                           "  %h = mm(%m, %w) : f32[s0,s1]\n"
                           "  %a = tanh(%h) : f32[s0,s1]\n"
                           "  %v = transpose(%a, 0, 1) : f32[s1,s0]{1,s1}\n"
                           "  %y = sum(%v, [0]) : f32[s0]\n"
                           "  %u = unsqueeze(%t, 1) : f32[s0,1] backward\n"
                           "  %e = expand(%u, [s0,s1]) : f32[s0,s1]{1,0} backward\n"
                           "  %g = tanh_backward(%e, %a) : f32[s0,s1] backward\n"
                           "  %mt = transpose(%m, 0, 1) : f32[s1,s0]{1,s1} backward\n"
                           "  %gw = mm(%mt, %g) : f32[s1,s1] backward\n"
                           "  return %y, none <grad 0>, %gw <grad 1>\n"
                           "}\n";

static bool cut_and_report(const td_joint *j, int way) {
    td_part_opts o = td__part_defaults();
    td_buf       b = {0};
    td_peak      peak;
    o.budget = way == 2 ? 0.5 : 1;
    o.knapsack = way == 2 ? TD_KNAPSACK_DP : TD_KNAPSACK_GREEDY;
    if (way == 3) o.budget = 0.3;
    td_halves *h = way == 0 ? td__part_default(j, &o) : td__part_mincut(j, &o);
    bool       ok = h && td__halves_report(&b, h) && td__peak_bytes(h, &o, &peak);
    td__buf_free(&b);
    td__halves_drop(h);
    return ok;
}

/* Every allocation of one way to cut. */
static int fail_each(td_ctx *cx, const td_joint *j, int way) {
    int failures = 0;
    for (int n = 0;; n++) {
        td__fault_arm(n, false);
        bool ok = cut_and_report(j, way);
        bool hit = td__fault_count() > n;
        td__fault_arm(-1, false);
        CHECK(ok == td_ok(cx));
        CHECK(ok || td_error(cx) == TD_E_MEMORY);
        failures += !ok;
        td_clear(cx);
        if (!hit) break;
        CHECK(n < 100000);
    }
    CHECK(cut_and_report(j, way));
    return failures;
}

TEST(every_failing_allocation_of_a_cut_is_an_error) {
    td_ctx   *cx = td_open();
    td_gfile *f = parse(cx, text);
    td_joint  j;
    CHECK_OK(cx);
    CHECK(td__joint_over(f->graphs.v[0], &j));
    for (int way = 0; way < 4; way++) CHECK(fail_each(cx, &j, way) > 20);
    td__gfile_drop(f);
    td_close(cx);
}

/* ---- a step ------------------------------------------------------------- */

static const char step[] = "func @s(%x: f32[8,8], %w: f32[8,8]) {\n"
                           "  %r = rand_like(%x) must_recompute 1\n"
                           "  %m = mul(%x, %r) must_recompute 1\n"
                           "  %h = mm(%m, %w)\n"
                           "  %a = tanh(%h)\n"
                           "  %l = sum(%a, [0,1])\n"
                           "  %o = ones_like(%a) backward\n"
                           "  %g = tanh_backward(%o, %a) backward\n"
                           "  %mt = transpose(%m, 0, 1) backward\n"
                           "  %gw = mm(%mt, %g) backward\n"
                           "  return %l, %gw\n"
                           "}\n";

/* The graph as it is afterwards; NULL after a failure. */
static td_graph *settle(td_graph *g, double budget) {
    td_part_opts o = td__part_defaults();
    td_joint     j = {.cx = g->cx, .n_primals = 2, .n_fwd = g->outputs.n};
    td_halves   *h = NULL;
    o.budget = budget;
    bool ok = (j.g = td__graph_clone(g)) && td__part_step(&j, &o, &h);
    td__halves_drop(h);
    if (ok) return j.g;
    td__graph_drop(j.g);
    return NULL;
}

static void fail_each_step(td_graph *g, double budget) {
    td_ctx *cx = g->cx;
    int     failures = 0;
    for (bool hit = true; hit;) {
        td__fault_arm(failures, false);
        td_graph *to = settle(g, budget);
        hit = td__fault_count() > failures;
        td__fault_arm(-1, false);
        CHECK(to != NULL ? td_ok(cx) : td_error(cx) == TD_E_MEMORY);
        failures += !to;
        td__graph_drop(to);
        td_clear(cx);
        CHECK(hit == !to && failures < 10000);
    }
    CHECK(failures > 20);
}

TEST(a_step_is_settled_or_fails_and_means_the_same) {
    td_ctx   *cx = td_open();
    td_gfile *f = parse(cx, step);
    td_graph *g = f->graphs.v[0];
    CHECK(td__graph_infer(g));
    for (int i = 0; i < 2; i++) {
        td_value  in[2], want[2], got[2];
        td_graph *to = settle(g, i);
        CHECK(to && count_op(to, TD_OP_rand_like) == 2);
        CHECK(count_op(to, TD_OP_random_state) == 3);
        make_inputs(g, in);
        td_seed(cx, 9);
        CHECK(run_half(g, in, want));
        td_seed(cx, 9);
        CHECK(run_half(to, in, got));
        CHECK(same_bits(want[0], got[0]) && same_bits(want[1], got[1]));
        td__graph_drop(to);
        fail_each_step(g, i);
    }
    td__gfile_drop(f);
    td_close(cx);
}
