/* plan_epilogue.c -- carries out what a call does behind its forward code, by eager's
 * own ops: values of the code get their place in the history, then the epilogue
 * runs. */
#include "runtime/plan.h"

#include <string.h>

/* Strides along which no step can be taken are free in the graph, and not to who asks
 * for them: eager's say whether the bits may be read as another dtype. */
static void set_idle_strides(td_tensor *t, const td_geom *g) {
    for (int d = 0; d < t->rank; d++)
        if ((t->size[d] == 1 || t->numel == 0) && !td__dim_is_sym(g->stride[d]))
            t->stride[d] = g->stride[d];
}

/* Value i as a result of the compiled node, where gradients count for it. What is only
 * copied may be an input, or another value, as well: an alias has the history. */
static bool give_history(td_pcall *c, int i) {
    const td_fwd *f = &c->j->fwd[i];
    bool          history = c->node && f->tangent >= 0;
    td_tensor    *t = c->vals[i].u.t;
    if (!f->made && (history || c->p->twin[i]) && !(t = td__tensor_alias(c->p->cx, t)))
        return false;
    if (c->vals[i].kind == TD_K_TENSOR) c->vals[i].u.t = t;
    return !history || td__set_history(t, c->node, f->tangent);
}

/* A tensor by which the epilogue knows the compiled node. */
static bool give_node(const td_pcall *c, td_value *to) {
    td_tensor *t = td__tensor_alias(c->p->cx, c->vals[c->j->tangents[0].index].u.t);
    *to = td_value_tensor(t);
    return t && (!c->node || td__set_history(t, c->node, 0));
}

/* Before the epilogue runs: outputs of the code get eager's strides for dims of size 1,
 * and the histories that roots need. */
static bool prepare(td_pcall *c) {
    const td_joint *j = c->j;
    for (int i = 0; i < j->n_fwd; i++) {
        if (j->fwd[i].made) set_idle_strides(c->vals[i].u.t, &j->fwd[i].geom);
        if (!give_history(c, i)) return false;
    }
    return true;
}

/* The node is one that gradients of what was computed inside the call do not pass. */
static bool mark_missed(td_tensor *t) {
    td_node *fn = NULL;
    if (!td__fn_of(t, &fn)) return false;
    if (fn) fn->flags |= TD_NF_MISSED;
    return true;
}

/* A view's history is that of the op that made it, or of its base, and gradients of
 * what was computed from it inside the call do not pass there. */
static bool miss(const td_pcall *c, const td_value *v) {
    td_tensor *t = v->kind == TD_K_TENSOR ? v->u.t : NULL;
    td_node   *fn = NULL;
    if (!t || !t->base || !td__has_node(t)) return true;
    if (!td__fn_of(t, &fn)) return td_clear(c->p->cx), true; /* nobody can ask */
    if (fn == c->node) return true;
    return mark_missed(t) && (!td__has_node(t->base) || mark_missed(t->base));
}

static bool feeds(const td_joint *j, const td_fwd *f) {
    return f->tangent >= 0 &&
           td__set_any(j->tangents[f->tangent].feeds, td__set_words(j->n_tangents));
}

/* Marks results from which other results were computed, so that asking for their
 * gradient is an error instead of a wrong value. */
static bool miss_views(const td_pcall *c) {
    const td_joint *j = c->j;
    for (int i = 0; c->node && i < j->n_fwd; i++) {
        const td_fwd *f = &j->fwd[i];
        if (f->made || !feeds(j, f)) continue;
        if (f->input >= 0 && !miss(c, &c->in[f->input])) return false;
        if (f->result >= 0 && !miss(c, &c->out[f->result])) return false;
    }
    for (int i = 0; c->node && i < j->n_results; i++)
        if (j->feeds[i] && c->out[i].kind == TD_K_TENSOR &&
            td__has_node(c->out[i].u.t) && !mark_missed(c->out[i].u.t))
            return false;
    return true;
}

/* Runs the epilogue on primals, forward outputs and, if leaves are bound, the node: as
 * flat steps, or as a graph if sizes are symbolic. */
bool td__plan_epilogue(td_pcall *c) {
    const td_joint *j = c->j;
    const td_steps *s = &c->p->steps;
    td_value        few[32], *in = few;
    int             n = s->flat ? s->n_slots : j->epilogue->inputs.n;
    if (n > TD_COUNT(few) && !(in = td__alloc(sizeof *in * (size_t)n)))
        return td__fail_memory(c->p->cx);
    bool ok = prepare(c);
    if (j->n_primals) memcpy(in, c->in, sizeof *in * (size_t)j->n_primals);
    if (j->n_fwd) memcpy(in + j->n_primals, c->vals, sizeof *in * (size_t)j->n_fwd);
    if (ok && j->epilogue->inputs.n > j->n_primals + j->n_fwd)
        ok = give_node(c, &in[j->n_primals + j->n_fwd]);
    ok = ok && (s->flat ? td__steps_run(s, c->p->cx, in, c->out, j->n_results)
                        : td__graph_replay(j->epilogue, in, c->out));
    if (in != few) td__free(in);
    return ok && miss_views(c);
}
