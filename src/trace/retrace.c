/* retrace.c -- captures a graph: the body is the graph's replay. The result is
 * what a C body of the same ops would give, with every value's type filled in. */
#include "trace/trace_int.h"

#include "tandem/mode.h"

/* Replays the graph, under the user's decompositions where there are some. The modes
 * of a replay that fails are dropped with the capture's. */
static bool replay_by(td_ctx *cx, const td_retrace *a, const td_value *in,
                      td_value *out) {
    if (!a->by) return td__graph_replay(a->g, in, out);
    if (!td__decompose_by_begin(cx, a->by) || !td__graph_replay(a->g, in, out))
        return false;
    td__decompose_by_end(cx);
    return true;
}

/* Replays the graph, inside a decomposition if the caller wants one. */
static bool replay(td_ctx *cx, const td_retrace *a, const td_value *in, td_value *out) {
    if (!a->simpler) return replay_by(cx, a, in, out);
    return td_decompose_begin(cx, a->simpler) && replay_by(cx, a, in, out) &&
           td_decompose_end(cx);
}

/* The body: its arguments are the graph's inputs in order. A const that is
 * absent is taken from the graph itself. */
static bool replay_body(td_call *c) {
    const td_retrace *a = td_call_env(c);
    const td_graph   *g = a->g;
    td_value         *out = td__zalloc(sizeof *out * (size_t)(g->outputs.n + 1));
    if (!out) return td__fail_memory(td_call_ctx(c));
    bool ok = replay(td_call_ctx(c), a, td__call_args(c).v, out) &&
              td_return_values(c, (td_values){out, g->outputs.n});
    td__free(out);
    return ok;
}

static bool copy_desc(td_graph *g, td_desc *to, const td_desc *from) {
    *to = *from;
    return !from->name || (to->name = td__graph_str(g, from->name)) != NULL;
}

/* Copies names and descriptors from the original. Inputs that were not tensors
 * are constants of the new graph and have no descriptor in it. */
static bool copy_names(td_graph *to, const td_graph *g, const td_value *in) {
    if (!(to->name = td__graph_str(to, g->name))) return false;
    for (int i = 0, k = 0; i < g->inputs.n; i++) {
        if (in[i].kind != TD_K_TENSOR) continue;
        const char *name = g->inputs.v[i]->name;
        if (name && !(name = td__graph_str(to, name))) return false;
        to->inputs.v[k]->name = name;
        if (!copy_desc(to, &to->in_desc.v[k], &g->in_desc.v[i])) return false;
        if (to->in_desc.v[k].kind == TD_D_CONST) to->in_desc.v[k].index = -1;
        k++;
    }
    for (int i = 0; i < g->outputs.n; i++)
        if (!copy_desc(to, &to->out_desc.v[i], &g->out_desc.v[i])) return false;
    return true;
}

/* Captures the replay and copies names; NULL after td__fail. */
static td_graph *capture(td_retrace *a, const td_value *in, const td_closure *close) {
    const td_graph *g = a->g;
    td_values       args = {in, g->inputs.n};
    td_graph *to = a->body ? td__capture_closing(g->cx, a->body, a->env, args, close)
                           : td__capture_closing(g->cx, replay_body, a, args, close);
    if (!to || copy_names(to, g, in)) return to;
    td__graph_drop(to);
    return NULL;
}

/* Autocast is off: the casts of the original capture are nodes of the graph
 * already. */
td_graph *td__retrace(td_retrace *a, const td_value *in) {
    td_autocast_mode was = td_autocast_off_begin(a->g->cx);
    td_graph        *to = capture(a, in, &(td_closure){0});
    td_autocast_end(a->g->cx, was);
    return to;
}

/* Makes input i a const again: a tensor the body closes over, which the graph
 * owns. */
static bool keep_const(td_graph *to, int i, td_tensor *t) {
    if (!td__vec_push(&to->consts, t)) return td__fail_memory(to->cx);
    td__ref(t);
    to->in_desc.v[i].index = to->consts.n - 1;
    return true;
}

/* Copies the consts and the lists of inputs; input numbers are the same in both
 * graphs. */
static bool keep_inputs(td_graph *to, const td_graph *g) {
    for (int i = 0; i < g->inputs.n; i++) {
        if (!td__graph_holds(g, i)) continue; /* passed as an ordinary input */
        if (!keep_const(to, i, g->consts.v[g->in_desc.v[i].index])) return false;
    }
    return td__graph_note_as(to, g);
}

td_graph *td__capture_replay(const td_graph *program, const td_value *in) {
    td_graph *to = td__capture_graph(program, in);
    if (!to || keep_inputs(to, program)) return to;
    td__graph_drop(to);
    return NULL;
}

td_graph *td__capture_cast(const td_graph *g, const td_value *in,
                           const td_closure *close) {
    return capture(&(td_retrace){.g = g}, in, close);
}

td_graph *td__capture_graph(const td_graph *g, const td_value *in) {
    return td__retrace(&(td_retrace){.g = g}, in);
}
