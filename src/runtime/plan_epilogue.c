/* plan_epilogue.c -- carries out what a call does after its forward code: values of
 * the code become results of the compiled node, the prologue binds the edges of that
 * node, and the epilogue performs the effects of the program by eager's own ops. */
#include "runtime/plan.h"

#include <stdio.h>
#include <string.h>

/* ---- the prologue ------------------------------------------------------- */

/* Binds edge i to that of its input, or of the base of that. `value` has the node. */
static bool put_bind(td_graph *g, const td_target *t, int i, td_gval *value) {
    td_garg in[4] = {td__garg_value(g->inputs.v[t->input]),
                     td__garg_value(value),
                     td__garg_int(i),
                     {.kind = TD_G_BOOL, .u.i = t->base}};
    return td__graph_op(g, TD_OP__bind, in, t->base ? 4 : 3, 1) != NULL;
}

/* One _bind for each edge that exists before the call and is followed. Above the first
 * order the first edges are those of the order below, whose gradients are results. */
bool td__plan_prologue(td_plan *p) {
    const td_joint *j = p->j;
    td_graph       *g = p->prologue = td__graph_clone(j->epilogue);
    char            name[80];
    if (!g) return false;
    snprintf(name, sizeof name, "%.60s_prologue", g->name);
    if (!(g->name = td__graph_str(g, name))) return false;
    g->nodes.n = g->outputs.n = g->out_desc.n = 0;
    td_gval *value = g->inputs.v[j->n_primals + j->tangents[0].index];
    for (int i = j->order ? j->n_results : 0; i < j->n_targets; i++)
        if (!j->targets[i].leaf && p->edges[i].bound &&
            !put_bind(g, &j->targets[i], i, value))
            return false;
    td__graph_pack(g);
    return td__graph_verify(g, TD_STAGE_PROGRAM);
}

/* ---- histories ---------------------------------------------------------- */

/* Strides of dims with at most one element are free in the graph, but can be read:
 * eager's say whether the bits may be read as another dtype. */
static void set_idle_strides(td_tensor *t, const td_geom *g) {
    for (int d = 0; d < t->rank; d++)
        if ((t->size[d] == 1 || t->numel == 0) && !td__dim_is_sym(g->stride[d]))
            t->stride[d] = g->stride[d];
}

/* Value i as a result of the compiled node, where gradients count for it. What is only
 * copied may be an input, or another value, as well: an alias has the history. */
static bool give_history(td_pcall *c, int i) {
    const td_fwd *f = &c->p->j->fwd[i];
    bool          history = c->node && f->tangent >= 0;
    td_tensor    *t = c->vals[i].u.t;
    if (!f->made && (history || c->p->twin[i]) && !(t = td__tensor_alias(c->p->cx, t)))
        return false;
    if (c->vals[i].kind == TD_K_TENSOR) c->vals[i].u.t = t;
    return !history || td__set_history(t, c->node, f->tangent);
}

/* A tensor by which the epilogue knows the compiled node. */
static bool give_node(const td_pcall *c, td_value *to) {
    td_tensor *t = td__tensor_alias(c->p->cx, c->vals[c->p->j->tangents[0].index].u.t);
    *to = td_value_tensor(t);
    return t && (!c->node || td__set_history(t, c->node, 0));
}

/* Before the epilogue runs: outputs of the code get eager's strides for dims of size 1,
 * and the histories that roots need. */
static bool prepare(td_pcall *c) {
    const td_joint *j = c->p->j;
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
    const td_joint *j = c->p->j;
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

/* Runs prologue and epilogue on primals, forward outputs and, if the epilogue binds
 * leaves, the node. */
bool td__plan_epilogue(td_pcall *c) {
    const td_joint *j = c->p->j;
    const td_plan  *p = c->p;
    td_value        few[32], *in = few;
    int             n = p->steps.flat ? p->steps.n_slots : j->epilogue->inputs.n;
    if (n > TD_COUNT(few) && !(in = td__alloc(sizeof *in * (size_t)n)))
        return td__fail_memory(p->cx);
    bool ok = prepare(c);
    if (j->n_primals) memcpy(in, c->in, sizeof *in * (size_t)j->n_primals);
    if (j->n_fwd) memcpy(in + j->n_primals, c->vals, sizeof *in * (size_t)j->n_fwd);
    if (ok && j->epilogue->inputs.n > j->n_primals + j->n_fwd)
        ok = give_node(c, &in[j->n_primals + j->n_fwd]);
    if (ok && p->steps.flat)
        ok = td__steps_run(&p->steps, p->cx, in, c->out, j->n_results);
    else
        ok = ok && (!p->prologue || td__graph_replay(p->prologue, in, NULL)) &&
             td__graph_replay(j->epilogue, in, c->out);
    if (in != few) td__free(in);
    return ok && miss_views(c);
}
