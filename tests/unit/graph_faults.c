/* graph_faults.c -- graphs when memory runs out: every allocation fails in turn, and
 * each time there is an error, no leak, and a context that still works. */
#include "graph_help.h"

static const char text[] = "func @f(%x: f32[2,3] @1, %y: f32[s0,3] @1, %n: float) {\n"
                           "  %c = tensor([[1, 2, 3], [4, 5, 6]], f32)\n"
                           "  %a = transpose(%x, 0, 1)\n"
                           "  %b = transpose(%a, 0, 1)\n"
                           "  %p... = split(%b, 1)\n"
                           "  %k = cat([%p.1, %p.0])\n"
                           "  no_grad {\n"
                           "    %z = mul(%k, %n)\n"
                           "  }\n"
                           "  %d = mul(%c, 2.0)\n"
                           "  %e = mul(%c, 2.0)\n"
                           "  %s = add(%d, %e)\n"
                           "  %t = add(%s, %z)\n"
                           "  %v = view(%y, [s0*3])\n"
                           "  return %t <update 0>, %v, 3\n"
                           "}\n"
                           "case \"c\" {\n"
                           "  %x = tensor([1.0], f32)\n"
                           "  %r = randn([2], seed=1)\n"
                           "}\n";

static bool clean(td_graph *g) {
    return td__graph_index(g) && td__graph_infer(g) && td__graph_views(g) &&
           td__graph_fold(g) && td__graph_cse(g) && td__graph_dce(g) &&
           td__graph_order(g) && td__graph_verify(g, TD_STAGE_PROGRAM);
}

static bool replay(td_ctx *cx, td_graph *g) {
    td_tensor *x = td_op_ones(cx, TD_SHAPE(2, 3), TD_F32);
    td_value   in[8] = {td_value_tensor(x), td_value_tensor(x), td_value_float(2)},
             out[3];
    return !td_is_nil(x) && td__graph_replay(g, in, out);
}

static bool everything(td_ctx *cx) {
    td_buf    b = {0};
    td_gfile *f = parse(cx, text);
    td_graph *g = f ? td__graph_clone(f->graphs.v[0]) : NULL;
    td_scope_begin(cx, "run");
    bool ok = g && clean(g) && replay(cx, g) &&
              td__gfile_print(&b, f, TD_PRINT_TYPES) && td__graph_json(&b, g) &&
              td__graph_dot(&b, g) && td__graph_hash(g) != 0;
    td_scope_end(cx, "run", NULL);
    td__graph_drop(g);
    td__gfile_drop(f);
    td__buf_free(&b);
    return ok;
}

TEST(every_failing_allocation_is_an_error_and_nothing_else) {
    td_ctx *cx = td_open();
    int     failures = 0;
    CHECK(everything(cx));
    CHECK_OK(cx);

    for (int n = 0;; n++) {
        td__fault_arm(n, false);
        bool ok = everything(cx);
        bool hit = td__fault_count() > n;
        td__fault_arm(-1, false);
        CHECK(ok == td_ok(cx));
        CHECK(ok || td_error(cx) == TD_E_MEMORY);
        failures += !ok;
        td_clear(cx);
        if (!hit) break;
        CHECK(n < 100000);
    }

    CHECK(failures > 50);
    CHECK(everything(cx));
    td_close(cx);
}
