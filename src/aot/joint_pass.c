/* joint_pass.c -- the user's changes to a joint graph: decompositions into simpler
 * ops, and a pass that may replace the graph. */
#include "aot/aot.h"
#include "core/callback.h"
#include "trace/sym.h"

#include <string.h>

/* ---- replacing the graph ------------------------------------------------- */

static bool same_desc(const td_desc *a, const td_desc *b) {
    return a->kind == b->kind && a->index == b->index;
}

/* Same dtype, rank and sizes. Untyped values match anything. */
static bool same_type(const td_gtype *a, const td_gtype *b) {
    if (!a || !b) return true;
    return a->kind == b->kind && a->dtype == b->dtype && a->rank == b->rank &&
           (a->rank == 0 ||
            !memcmp(a->size, b->size, sizeof *a->size * (size_t)a->rank));
}

/* Fails: the new graph's input or output i is not the old one's. Returns false. */
static bool reject(const td_graph *g, const char *who, const char *which, int i,
                   const char *what) {
    return td__fail(g->cx, TD_E_ARG,
                    "%.60s: @%.60s cannot replace the joint graph: its %s %d %s", who,
                    g->name, which, i, what);
}

/* A graph that replaces the joint graph must have the same inputs: the plan was made
 * for them. */
static bool check_inputs(const td_graph *old, const td_graph *g, const char *who) {
    for (int i = 0; i < g->inputs.n; i++) {
        if (i >= old->inputs.n) {
            bool literal = g->in_desc.v[i].kind == TD_D_CONST;
            return reject(g, who, "input", i,
                          literal
                              ? "is a literal tensor; compute it with full or arange"
                              : "does not exist in the joint graph");
        }
        if (!same_desc(&old->in_desc.v[i], &g->in_desc.v[i]))
            return reject(g, who, "input", i,
                          "has another descriptor (argument, parameter, tangent, ...)");
        if (!same_type(old->inputs.v[i]->type, g->inputs.v[i]->type))
            return reject(g, who, "input", i,
                          "has another dtype or other sizes than in the joint graph");
    }
    return g->inputs.n == old->inputs.n ||
           reject(g, who, "input", g->inputs.n, "is missing");
}

static const td_gtype *type_of(const td_garg *a) {
    return a->kind == TD_G_VALUE ? a->u.v->type : NULL;
}

/* The same for outputs. A gradient that was absent must stay absent. */
static bool check_outputs(const td_graph *old, const td_graph *g, const char *who) {
    for (int i = 0; i < g->outputs.n && i < old->outputs.n; i++) {
        const td_garg *a = &old->outputs.v[i], *b = &g->outputs.v[i];
        if (!same_desc(&old->out_desc.v[i], &g->out_desc.v[i]))
            return reject(g, who, "output", i,
                          "has another descriptor (argument, parameter, tangent, ...)");
        if ((a->kind == TD_G_VALUE) != (b->kind == TD_G_VALUE))
            return reject(g, who, "output", i,
                          a->kind == TD_G_VALUE ? "must be a tensor"
                                                : "must not be a tensor");
        if (!same_type(type_of(a), type_of(b)))
            return reject(g, who, "output", i,
                          "has another dtype or other sizes than in the joint graph");
    }
    if (g->outputs.n > old->outputs.n)
        return reject(g, who, "output", old->outputs.n,
                      "does not exist in the joint graph");
    return g->outputs.n == old->outputs.n ||
           reject(g, who, "output", g->outputs.n, "is missing");
}

/* Sets *late[1] if v depends on a tangent. */
static void mark(void *env, td_gval *v) {
    bool **late = env;
    if (late[0][v->id]) *late[1] = true;
}

/* Is it an input of backward alone: a tangent, or the token of backward's effects? */
static bool is_late(const td_desc *d) {
    return d->kind == TD_D_TANGENT || (d->kind == TD_D_TOKEN && d->index == 1);
}

/* Marks every node that depends on a tangent as backward; a graph from text does not
 * say. */
static bool mark_backward(td_graph *g) {
    bool *late = td__zalloc((size_t)g->n_values + 1), reads = false,
         *env[2] = {late, &reads};
    if (!late) return td__fail_memory(g->cx);
    for (int i = 0; i < g->inputs.n; i++)
        late[g->inputs.v[i]->id] = is_late(&g->in_desc.v[i]);
    for (int i = 0; i < g->nodes.n; i++) {
        td_gnode *n = g->nodes.v[i];
        reads = false;
        for (int k = 0; k < n->n_in; k++) td__garg_each(&n->in[k], mark, env);
        if (!reads) continue;
        n->origin = TD_FROM_BACKWARD;
        for (int k = 0; k < n->n_out; k++) late[n->out[k]->id] = true;
    }
    td__free(late);
    return true;
}

/* Keeps the function's name, and requires_grad of the inputs: both belong to the
 * call. */
static bool take_names(td_graph *g, const td_graph *old) {
    if (!(g->name = td__graph_str(g, old->name))) return false;
    for (int i = 0; i < g->inputs.n; i++) {
        const td_gtype *was = old->inputs.v[i]->type;
        td_gval        *v = g->inputs.v[i];
        if (!was) continue;
        td_gtype l = v->type ? *v->type : *was;
        l.grad = was->grad;
        if (!(v->type = td__graph_type_of(g, l))) return false;
    }
    return true;
}

/* Replaces the joint graph by a copy of g after checking it; j is unchanged after a
 * failure. `who` names the pass in messages. */
bool td__joint_become(td_joint *j, const td_graph *g, const char *who) {
    if (g->cx != j->cx)
        return td__fail(j->cx, TD_E_ARG,
                        "%.60s: the new graph belongs to another context", who);
    td_graph *to = td__graph_clone(g);
    bool      ok = to && mark_backward(to) && check_inputs(j->g, to, who) &&
              take_names(to, j->g) && td__graph_infer(to) &&
              check_outputs(j->g, to, who) && td__graph_verify(to, TD_STAGE_JOINT);
    if (!ok) {
        td__graph_drop(to);
        return false;
    }
    td__graph_drop(j->g);
    j->g = to;
    return true;
}

/* ---- decompositions ------------------------------------------------------ */

/* Replaces ops by the user's decompositions and by simpler ops, forward and backward,
 * without recording history. Guards on symbolic sizes become facts of the graph first,
 * because decomposing may ask for them. */
bool td__joint_decompose(td_joint *j, const td_aot_opts *o, bool cse) {
    td_ctx         *cx = j->cx;
    bool            grad = cx->grad_enabled;
    td_decompose_by by = {o->decompositions, o->n_decompositions, j->g->name,
                          td__compiling(cx), false};
    if (!td__joint_tidy(j, cse)) return false;
    if (!o->decompose && !by.n) return true;
    if (td__symenv_current() && !td__sym_facts(td__symenv_current(), j->g))
        return false;
    cx->grad_enabled = false;
    td_graph *to = td__graph_decompose_by(j->g, by.n ? &by : NULL, o->decompose);
    cx->grad_enabled = grad;
    if (!to) return false;
    td__graph_drop(j->g);
    j->g = to;
    return td__graph_verify(to, TD_STAGE_JOINT) && td__joint_tidy(j, cse);
}

/* ---- the user's pass ---------------------------------------------------- */

/* Runs the user's pass, and takes over the graph that it leaves. False after
 * td__fail. */
static bool run_pass(td_joint *j, const td_pass *p, bool cse) {
    const char     *name = p->name ? p->name : "pass";
    const td_graph *g = j->g;
    bool            ok = p->run(p->env, &g);
    if (!ok && td_ok(j->cx))
        td__fail(j->cx, TD_E_ARG,
                 "%.60s: the pass returned false without reporting an error", name);
    if (!ok || !td_ok(j->cx)) return false;
    if (!g)
        return td__fail(j->cx, TD_E_ARG, "%.60s: the pass set the graph to NULL", name);
    return g == j->g || (td__joint_become(j, g, name) && td__joint_tidy(j, cse));
}

/* Applies the user's decompositions and pass, in this order. Gradients of gradients
 * (f->inner) have decompositions and no pass. */
bool td__joint_change(td_fn *f, td_joint *j, bool cse) {
    bool pass = f->opts.pass.run && !f->inner;
    if (!f->staged && !f->opts.decompose && !f->opts.n_decompositions && !pass)
        return true;
    if (!td__joint_decompose(j, &f->opts, cse)) return false;
    return !pass || run_pass(j, &f->opts.pass, cse);
}
