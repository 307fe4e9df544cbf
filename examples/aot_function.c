/* aot_function.c -- a function compiled ahead of time, with a pass that looks at the
 * joint graph and a partitioner that keeps nothing but what it must. */
#include <stdio.h>
#include <string.h>
#include <tandem/tandem.h>

/* tanh(x w), and a counter of the caller's goes up. */
static bool layer(td_call *c) {
    td_tensor *w = td_arg(c, 0), *seen = td_arg(c, 1), *x = td_arg(c, 2);
    td_add_(seen, 1.0);
    return td_return(c, td_tanh(td_matmul(x, w)));
}

static bool look(void *env, const td_graph **g) {
    *(int *)env = td_graph_nodes(*g);
    return true; /* *g may point to another graph: docs/aot.md */
}

static bool save_products(void *env, td_split *s) {
    (void)env;
    for (int i = 0; i < td_split_values(s); i++) {
        td_split_value v = td_split_value_at(s, i);
        if (v.forward && !strcmp(v.op, "matmul") && !td_split_save(s, i)) return false;
    }
    return true;
}

int main(void) {
    td_ctx     *cx = td_open();
    int         nodes = 0;
    td_aot_opts opts = {TD_AOT_OPTS, .name = "layer", .n_params = 1, .n_buffers = 1};
    opts.pass = (td_pass){.name = "look", .run = look, .env = &nodes};
    opts.chooser = (td_chooser){.choose = save_products};
    td_fn *f = td_aot_function(cx, layer, NULL, &opts);

    td_tensor *w = td_set_requires_grad(td_ones(cx, TD_SHAPE(3, 2)), true);
    td_tensor *seen = td_zeros(cx, TD_SHAPE()), *x = td_ones(cx, TD_SHAPE(4, 3)), *y;
    for (int i = 0; i < 3; i++) {
        td_invoke(f, TD_ARGS(w, seen, x), &y, 1);
        td_backward(td_sum(y));
    }
    printf("%g calls, %d specialization, a joint graph of %d nodes\n", td_item(seen),
           td_fn_specializations(f), nodes);
    bool ok = td_ok(cx) && td_item(seen) == 3 && nodes > 0;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    td_fn_drop(f);
    td_close(cx);
    return !ok;
}
