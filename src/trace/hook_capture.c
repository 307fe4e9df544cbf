/* hook_capture.c -- gradient hooks that a captured body registers (td_on_grad). The
 * user's function runs once, on a fake gradient, and becomes a nested graph; the
 * registration is recorded as op `on_grad`, whose hook replays it. */
#include "trace/sym.h"
#include "trace/trace_int.h"

#include <stdio.h>

/* One hook during its capture. */
typedef struct capturing {
    const td_hookcall *call;
    td_lift            lift;      /* the tensors it closes over */
    td_code            code;      /* TD_OK, or the hook fails with this code */
    char               why[1000]; /* ...and this message */
} capturing;

/* The body of the graph: calls the hook on its argument, a gradient. Returns the
 * gradient that replaces it, or no result. */
static bool hook_body(td_call *c) {
    const capturing *k = td_call_env(c);
    td_tensor       *g = td_arg(c, 0), *by = k->call->fn(k->call->env, g);
    if (!td_ok(g->cx) || !td__hook_may_return(g->cx, g, by)) return false;
    td_value v = by ? td_value_tensor(by) : TD_NONE;
    return td_return_values(c, (td_values){&v, 1});
}

/* Captures the hook with grad mode on, so that no_grad regions inside are recorded, and
 * outside of autocast, because the region has ended when backward runs. The gradient is
 * row-major and does not require grad. NULL after td__fail. */
static td_graph *capture(capturing *k) {
    const td_tensor *t = k->call->t;
    td_ctx          *cx = t->cx;
    td_meta m = {.dtype = (td_dtype)t->dtype, .rank = t->rank, .device = t->st->device};
    for (int d = 0; d < t->rank; d++) m.size[d] = t->size[d];
    td_tensor *g = td__tensor_make(cx, &m, true);
    if (!g) return NULL;
    bool     was = cx->grad_enabled;
    td_value arg = td_value_tensor(g);
    cx->grad_enabled = true;
    td_autocast_mode cast = td_autocast_off_begin(cx);
    td_graph *to = td__capture_nested(cx, hook_body, k, (td_values){&arg, 1}, &k->lift);
    td_autocast_end(cx, cast);
    cx->grad_enabled = was;
    if (to && to->left) {
        td__fail(cx, TD_E_TRACE,
                 "td_on_grad: the hook changes the grad mode and does not restore it; "
                 "end the region it began");
        td__graph_drop(to);
        return NULL;
    }
    if (to && !(to->name = td__graph_str(to, "hook"))) td__graph_drop(to), to = NULL;
    return to;
}

/* The hook failed with an error that eager has, too. In eager registering works and
 * backward fails, so the graph is empty and the op stores the error. NULL after
 * td__fail. */
static td_graph *delay_failure(capturing *k) {
    td_ctx *cx = k->call->t->cx;
    if (!td__is_eagers(td__error(cx)) || td__symenv_assumed()) return NULL;
    k->code = td__error(cx);
    snprintf(k->why, sizeof k->why, "%.900s", td__message(cx));
    td_clear(cx);
    return td__graph_make(cx, "hook");
}

/* Records the op, and its node under the hook's id. */
static bool record(td_record *r, capturing *k, td_graph *g) {
    td_value in[] = {td_value_tensor(k->call->t), td__value_graph(g),
                     td__value_tensors(
                         (td_tensors){k->lift.tensors.v, k->lift.tensors.n}),
                     td__value_str(k->why), td_value_int(k->code)};
    if (!td__call(r->cx, TD_OP_on_grad, in, TD_COUNT(in), NULL, 0)) return false;
    td_recorded_hook h = {r->cx->last_hook, r->g->nodes.v[r->g->nodes.n - 1]};
    return td__vec_push(&r->hooks, h) || td__fail_memory(r->cx);
}

/* Takes the hook out of the program: the ops it added to backwards so far stay, and
 * later backwards do not run it. */
static bool forget(td_record *r, uint64_t id) {
    for (int i = 0; i < r->hooks.n; i++)
        if (r->hooks.v[i].id == id) {
            r->hooks.v[i].node->dead = true;
            r->removed = true;
            r->hooks.v[i] = r->hooks.v[--r->hooks.n];
            return true;
        }
    return true; /* removed before */
}

/* td_mode.hook of the recorder. */
bool td__record_hook(td_mode *m, const td_hookcall *call) {
    td_record *r = (td_record *)m;
    capturing  k = {.call = call};
    if (!call->t) return forget(r, call->id);
    td_graph *g = capture(&k);
    if (!g) g = delay_failure(&k);
    bool ok = g && record(r, &k, g);
    td__graph_drop(g);
    td__lift_free(&k.lift);
    return ok;
}
