/* own_backend.c -- a backend: it hears which graph of which function it is given,
 * counts its nodes, and lets td_graph_run do the work. */
#include <stdint.h>
#include <stdio.h>
#include <tandem/tandem.h>

static bool layer(td_call *c) {
    return td_return(c, td_sum(td_exp(td_mul(td_arg(c, 0), td_arg(c, 0)))));
}

static bool run(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    const td_graph *g = env;
    (void)cx;
    return td_graph_run(g, in, td_graph_inputs(g), out, td_graph_outputs(g));
}

static bool compile(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *code) {
    static const char *const halves[] = {"forward", "backward", "inference"};
    printf("%s, number %d: %s graph of %d nodes\n", info->name, info->nr,
           halves[info->half], td_graph_nodes(g));
    *(int *)env += td_graph_nodes(g);
    *code = (td_runner){.run = run, .env = (void *)(uintptr_t)g};
    return true;
}

int main(void) {
    td_ctx     *cx = td_open();
    int         nodes = 0;
    td_backend  ours = {.name = "counting", .compile = compile, .env = &nodes};
    td_aot_opts opts = {TD_AOT_OPTS, .name = "layer", .forward = &ours,
                        .backward = &ours, .inference = &ours};
    td_fn      *f = td_aot_function(cx, layer, NULL, &opts);
    td_tensor  *x = td_set_requires_grad(td_zeros(cx, TD_SHAPE(3)), true), *y;
    td_invoke(f, TD_ARGS(x), &y, 1);
    td_backward(y);
    printf("%d nodes, result %g\n", nodes, td_item(y));
    bool ok = td_ok(cx) && nodes > 0 && td_item(y) == 3;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_fn_drop(f);
    td_close(cx);
    return !ok;
}
