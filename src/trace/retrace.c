/* retrace.c -- captures a graph: its replay is the body. What comes out is what a C
 * body of the same ops would have given, with every value's look filled in. */
#include "trace/trace_int.h"

#include "tandem/mode.h"

static bool replay(td_ctx *cx, const td_retrace *a, const td_value *in, td_value *out) {
    if (!a->simpler) return td__graph_replay(a->g, in, out);
    return td_decompose_begin(cx, a->simpler) && td__graph_replay(a->g, in, out) &&
           td_decompose_end(cx);
}

/* Arguments are by input of the graph; an absent const is the graph's own. */
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

/* Names and descriptors come from the original. */
static bool copy_words(td_graph *to, const td_graph *g, const td_value *in) {
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

static td_graph *capture(td_retrace *a, const td_value *in, const td_closure *close) {
    const td_graph *g = a->g;
    td_graph       *to =
        td__capture_closing(g->cx, replay_body, a, (td_values){in, g->inputs.n}, close);
    if (!to || copy_words(to, g, in)) return to;
    td__graph_drop(to);
    return NULL;
}

/* Its casts are in the graph already. */
td_graph *td__retrace(td_retrace *a, const td_value *in) {
    td_autocast_mode was = td_autocast_off_begin(a->g->cx);
    td_graph        *to = capture(a, in, &(td_closure){0});
    td_autocast_end(a->g->cx, was);
    return to;
}

/* Input i is a tensor that the body closes over, as it was in the original. */
static bool keep_const(td_graph *to, int i, td_tensor *t) {
    if (!td__vec_push(&to->consts, t)) return td__fail_memory(to->cx);
    td__ref(t);
    to->in_desc.v[i].index = to->consts.n - 1;
    return true;
}

static bool keep_inputs(td_graph *to, const td_graph *g) {
    for (int i = 0; i < g->inputs.n; i++) {
        if (!td__graph_holds(g, i)) continue; /* or it is passed like any other */
        if (!keep_const(to, i, g->consts.v[g->in_desc.v[i].index])) return false;
    }
    to->bare.n = to->wanted.n = 0;
    for (int i = 0; i < g->bare.n; i++)
        if (!td__vec_push(&to->bare, g->bare.v[i])) return td__fail_memory(g->cx);
    for (int i = 0; i < g->wanted.n; i++)
        if (!td__vec_push(&to->wanted, g->wanted.v[i])) return td__fail_memory(g->cx);
    return true;
}

td_graph *td__capture_replay(const td_graph *program, const td_value *in) {
    td_graph *to = td__capture_graph(program, in);
    if (!to || keep_inputs(to, program)) return to;
    td__graph_drop(to);
    return NULL;
}

td_graph *td__capture_cast(const td_graph *g, const td_value *in,
                           const td_closure *close) {
    return capture(&(td_retrace){g, NULL}, in, close);
}

td_graph *td__capture_graph(const td_graph *g, const td_value *in) {
    return td__retrace(&(td_retrace){g, NULL}, in);
}
