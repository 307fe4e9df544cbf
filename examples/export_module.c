/* export_module.c -- a module exported with its loss and gradients, saved, loaded and
 * run by its signature alone: what the text says is enough. */
#define _DEFAULT_SOURCE /* mkstemp, also with -std=c11 */
#include <stdio.h>
#include <stdlib.h>
#include <tandem/tandem.h>
#include <unistd.h>

typedef struct net {
    td_tensor *weight, *seen;
} net;

static bool forward(td_module *m, td_call *c) {
    net *n = td_module_state(m);
    td_add_(n->seen, 1.0);
    return td_return(c, td_sum(td_tanh(td_matmul(td_arg(c, 0), n->weight))));
}

static const td_module_type type = {.name = "Net",
                                    .bytes = sizeof(net),
                                    .forward = forward};

/* One call: members by name, arguments by number. It counts in `seen`, as the module
 * does. */
static double step(td_ctx *cx, const td_exported *e, td_module *m, td_tensor *x) {
    td_value in[8], out[8];
    int      n = td_exported_inputs(e), n_out = td_exported_outputs(e);
    for (int i = 0; i < n; i++) {
        td_slot s = td_exported_input(e, i);
        bool    member = s.kind == TD_SLOT_PARAM || s.kind == TD_SLOT_BUFFER;
        in[i] = td_value_tensor(member ? td_module_get(m, s.name) : x);
    }
    if (!td_exported_run(e, (td_values){in, n}, out, n_out)) return 0;
    td_set_grad_enabled(cx, false);
    for (int i = 0; i < n_out; i++) {
        td_slot s = td_exported_output(e, i);
        if (s.kind == TD_SLOT_GRAD) /* a step down the hill */
            td_sub_(in[s.index].u.t, td_mul(out[i].u.t, 0.1));
    }
    td_set_grad_enabled(cx, true);
    return td_item(out[td_exported_loss(e)].u.t);
}

int main(void) {
    char       path[] = "/tmp/tandem-export-XXXXXX";
    td_ctx    *cx = td_open();
    td_module *m = td_module_make(cx, &type);
    net       *n = td_module_state(m);
    td_tensor *x = td_ones(cx, TD_SHAPE(4, 3));
    n->weight = td_module_param(m, "weight", td_full(cx, TD_SHAPE(3, 1), 0.1));
    n->seen = td_module_buffer(m, "seen", td_zeros(cx, TD_SHAPE()), true);

    td_export_opts opts = {TD_EXPORT_OPTS, .what = TD_EXPORT_LOSS, .loss = 0};
    td_exported   *e = td_export_module(m, TD_ARGS(x), &opts);
    int            fd = mkstemp(path);
    if (e && fd >= 0) td_exported_save(e, path);
    td_exported_drop(e);
    e = td_ok(cx) ? td_exported_load(cx, path) : NULL;
    double first = e ? step(cx, e, m, x) : 0, second = e ? step(cx, e, m, x) : 0;
    printf("loss %.4f, then %.4f; seen %g times\n", first, second, td_item(n->seen));
    bool ok = td_ok(cx) && second < first && td_item(n->seen) == 2;
    if (!td_ok(cx)) fprintf(stderr, "%s\n", td_message(cx));
    if (fd >= 0) close(fd), unlink(path);
    td_exported_drop(e);
    td_module_free(m);
    td_close(cx);
    return !ok;
}
