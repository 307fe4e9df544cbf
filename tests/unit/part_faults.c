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
