/* counts.c -- a negative length is an error of every public function that takes one: of
 * a list, or of an array for results. */
#include "tandem/export.h"
#include "tandem/io.h"
#include "tandem/tandem.h"

#include "td_test.h"

#include <string.h>

static bool doubled(td_call *c) { return td_return(c, td_mul(td_arg(c, 0), 2.0)); }
static bool below(td_call *c) { return td_return(c, td_lt(td_sum(td_arg(c, 0)), 9.0)); }
static bool region(void *env, td_tensor *const *in, int n_in, td_tensor **out,
                   int n_out) {
    (void)env, (void)n_in, (void)n_out;
    out[0] = td_exp(in[0]);
    return true;
}
static bool run_forward(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                        int n_out) {
    return region(f, in, n_in, out, n_out);
}
static bool run_backward(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                         int n_in) {
    return region(f, g, n_out, grad, n_in);
}
static const td_function function = {.name = "f",
                                     .forward = run_forward,
                                     .backward = run_backward};

/* Call nr k with length n; false: there are no more. */
static bool call(td_ctx *cx, int k, int n) {
    static const char text[] = "func @g(%x: f32[2]) {\n  return %x\n}\n";
    td_tensor        *out[2], *x = td_ones(cx, TD_SHAPE(2)), *list[1] = {x};
    td_tensor        *w = td_requires_grad_(td_ones(cx, TD_SHAPE(2)));
    td_value          values[2], in[1] = {td_value_tensor(x)};
    td_fn            *f = td_aot_function(cx, doubled, NULL, NULL);
    td_module        *net = td_nn_linear(cx, 2, 2, NULL);
    td_optim         *o = td_optim_module(net, td_sgd(0.1));
    td_program       *p = td_capture(cx, doubled, NULL, TD_ARGS(x));
    td_exported      *e = td_export_joint(cx, doubled, NULL, TD_ARGS(x), NULL);
    td_gfile         *file = td_graphs_parse(cx, text, sizeof text - 1, "text");
    td_graph         *g = td_graphs_at(file, 0);
    td_tensor        *yes = td_gt(td_sum(x), 0.0);
    td_branches       both = {.yes = doubled, .no = doubled};
    td_loop           loop = {.test = below, .body = doubled};
    int64_t           sizes[1] = {2};
    switch (k) {
    case 0: return td_invoke(f, TD_ARGS(x), out, n), true;
    case 1: return td_invoke(f, ((td_values){in, n}), out, 1), true;
    case 2: return td_invoke_values(f, TD_ARGS(x), values, n), true;
    case 3: return td_invoke_values(f, ((td_values){in, n}), values, 1), true;
    case 4: return td_invoke_boxed(f, list, 1, out, n), true;
    case 5: return td_invoke_boxed(f, list, n, out, 1), true;
    case 6: return td_call_body(cx, doubled, NULL, TD_ARGS(x), values, n), true;
    case 7: return td_call_body(cx, doubled, NULL, (td_values){in, n}, values, 1), true;
    case 8: return td_cond(yes, both, TD_ARGS(x), out, n), true;
    case 9: return td_cond(yes, both, ((td_values){in, n}), out, 1), true;
    case 10: return td_while(cx, loop, ((td_tensors){list, n}), out), true;
    case 11: return td_program_run(p, TD_ARGS(x), values, n), true;
    case 12: return td_program_run(p, ((td_values){in, n}), values, 1), true;
    case 13: return td_exported_run(e, TD_ARGS(x), values, n), true;
    case 14: return td_exported_run(e, ((td_values){in, n}), values, 1), true;
    case 15: return td_graph_run(g, in, 1, values, n), true;
    case 16: return td_graph_run(g, in, n, values, 1), true;
    case 17: return td_function_call(cx, &function, NULL, TD_LIST(x), out, n), true;
    case 18:
        return td_function_call(cx, &function, NULL, ((td_tensors){list, n}), out, 1),
               true;
    case 19: return td_checkpoint(cx, region, NULL, TD_LIST(x), out, n), true;
    case 20: return td_checkpoint_fresh(cx, region, NULL, TD_LIST(x), out, n), true;
    case 21:
        return td_checkpoint_with(cx, TD_LIST(x), out, n,
                                  &(td_checkpoint_opts){TD_CHECKPOINT_OPTS,
                                                        .region = region}),
               true;
    case 22: return td_gradcheck(cx, region, NULL, TD_LIST(w), n, NULL), true;
    case 23: return td_gradgradcheck(cx, region, NULL, TD_LIST(w), n, NULL), true;
    case 24: return td_module_call_values(net, TD_ARGS(x), values, n), true;
    case 25: return td_module_call_values(net, ((td_values){in, n}), values, 1), true;
    case 26: return td_module_parameters(net, out, n), true;
    case 27: return td_module_buffers(net, out, n), true;
    case 28: return td_optim_params(o, out, n), true;
    case 29: return td_optim_tensors(o, out, n), true;
    case 30: return td_optim_step_with(o, ((td_tensors){list, n})), true;
    case 31: return td_optim_add(o, ((td_tensors){list, n}), td_sgd(0.1)), true;
    case 32: return td_from_doubles(cx, (double[]){1}, n), true;
    case 33: return td_from(cx, TD_F32, TD_SHAPE_OF(sizes, n), &(float){1}), true;
    case 34: return td_ones(cx, ((td_ints){sizes, n})), true;
    case 35: return td_cat(((td_tensors){list, n}), 0), true;
    case 36: return td_unbind(x, 0, out, n), true;
    case 37: return td_grad(TD_LIST(td_sum(w)), ((td_tensors){&w, n}), out, NULL), true;
    case 38: return td_capture(cx, doubled, NULL, (td_values){in, n}), true;
    case 39: return td_export_joint(cx, doubled, NULL, (td_values){in, n}, NULL), true;
    case 40: return td_clip_norm(cx, ((td_tensors){list, n}), 1, 2), true;
    case 41: return td_tree_from(cx, "*", (td_values){in, n}), true;
    case 42: return td_fn_facts(f, ((td_values){in, n})), true;
    }
    return false;
}

TEST(a_negative_length_is_an_error) {
    int bad = 0, more = 1;
    for (int k = 0; more; k++) {
        td_ctx *cx = td_open();
        more = call(cx, k, -1);
        const char *text = td_message(cx);
        bool        good = !more || strstr(text, "negative") || strstr(text, "-1") ||
                    strstr(text, "an empty list");
        if (!good) printf("call %d: '%s'\n", k, td_message(cx));
        bad += !good;
        td_clear(cx);
        td_close(cx);
    }
    CHECK(bad == 0);
}
