/* higher_order.c -- joint graphs of gradients. When a backward records a history
 * (create_graph), the gradients of a program are differentiated from the program
 * itself: it is replayed under the tape as for its own joint graph, and the engine runs
 * with create_graph from the roots of the tangents that arrive. The gradients are the
 * results of the next order, and the tangents are inputs of it. The tape of that replay
 * contains where history ends (no_grad, detach, custom functions). */
#include "joint/joint_int.h"

/* ---- tangents become inputs --------------------------------------------- */

/* The tangents of this order become primals of the next: grows both lists of inputs by
 * `more`. After td__fail they are unchanged: the end of the trace reads them. */
static bool lengthen_inputs(td_joint_run *r, int more) {
    td_joint        *j = r->to;
    size_t           n = (size_t)j->n_primals, all = n + (size_t)more + 1;
    td_traced_input *inputs = td__arena_zalloc(&j->arena, sizeof *inputs * all);
    td_primal       *primals = td__arena_zalloc(&j->arena, sizeof *primals * all);
    if (!inputs || !primals) return td__fail_memory(r->cx);
    if (n) memcpy(inputs, r->inputs, sizeof *inputs * n);
    if (n) memcpy(primals, j->primals, sizeof *primals * n);
    r->inputs = inputs;
    j->primals = primals;
    return true;
}

/* Tangent i becomes input n_primals + i; the caller counts them afterwards. */
static bool add_tangent(td_joint_run *r, int i, bool grad) {
    td_joint *j = r->to;
    int       at = j->n_primals + i, nr = r->f.in.n;
    if (!td__joint_tangent(r, i)) return false;
    td_tensor *t = r->tangent[i];
    j->g->in_desc.v[at] = TD_PLAIN_DESC;
    if (grad && td_is_nil(td_set_requires_grad(t, true))) return false;
    t->flags |= TD_TF_TANGENT;
    td_gval *v = j->g->inputs.v[at];
    v->type = td__graph_type(j->g, t, grad, v->type->storage);
    r->inputs[at].real = r->inputs[at].outer = t;
    r->inputs[at].nr = nr;
    j->primals[at].same = at;
    return v->type && td__geom_copy(r->cx, &j->arena, &r->inputs[at].geom, t);
}

static bool add_tangents(td_joint_run *r, const td_grad_order *o) {
    td_joint *j = r->to;
    if (!lengthen_inputs(r, j->n_tangents)) return false;
    for (int i = 0; i < j->n_tangents; i++)
        if (!add_tangent(r, i, td__set_has(o->grad, i))) return false;
    return true;
}

/* ---- gradients become results ------------------------------------------- */

/* Runs the engine, under a log of its own, from the roots whose tangents arrive. */
static bool go_back(td_joint_run *r, const td_grad_order *o, td_tensor **grads) {
    if (!td__vec_push(&r->logs, r->log)) return td__fail_memory(r->cx);
    td__log_begin(&r->log, r->cx, &r->f);
    bool ok = td__joint_go_back(r, o, grads);
    td__log_end(&r->log);
    return ok;
}

/* The targets of the order below, then the tangents that require grad. */
static bool add_targets(td_joint_run *r, const td_grad_order *o) {
    td_joint  *j = r->to;
    size_t     n = (size_t)j->n_targets, all = n + (size_t)j->n_tangents + 1;
    td_edge   *goal = td__arena_zalloc(&j->arena, sizeof *goal * all);
    td_target *targets = td__arena_zalloc(&j->arena, sizeof *targets * all);
    if (!goal || !targets) return td__fail_memory(r->cx);
    if (n) memcpy(goal, r->goal, sizeof *goal * n);
    if (n) memcpy(targets, j->targets, sizeof *targets * n);
    for (size_t i = 0; i < n; i++) targets[i].event = -1; /* events of the log below */
    r->goal = goal;
    j->targets = targets;
    for (int i = 0; i < j->n_tangents; i++) {
        if (!td__set_has(o->grad, i)) continue;
        td_edge *e = &goal[j->n_targets];
        if (!td__edge_of(r->tangent[i], e)) return false;
        if (!td__vec_push(&r->bound, e->node)) {
            td__node_drop(e->node);
            return td__fail_memory(r->cx);
        }
        targets[j->n_targets++].input = j->n_primals + i;
    }
    return true;
}

/* Refuses a leaf that began to require grad after an op saved it: it has a gradient
 * only in the backward with create_graph. The order below has no target for it, so the
 * history of the gradients cannot lead to it. */
static bool check_new_leaves(const td_joint_run *r) {
    const td_log *l = &r->logs.v[r->logs.n - 1];
    for (int i = 0; i < l->all.n; i++) {
        const td_event *e = &l->all.v[i];
        bool            on = e->kind == TD_EV_FLAG && e->op == TD_OP_requires_grad_;
        const td_node  *n = on && e->live && e->in[1].u.i && td__needs_grad(e->t)
                                ? td__known_accumulator(e->t)
                                : NULL;
        int             k = 0;
        while (n && k < r->to->n_targets && r->goal[k].node != n) k++;
        if (n && k == r->to->n_targets)
            return td__fail(r->cx, TD_E_UNSUPPORTED,
                            "%s: a gradient of a gradient leads to %s, which began to "
                            "require grad after an op of the body had read it. Call "
                            "td_requires_grad_ before that op",
                            r->program->name, td__type_str(e->t));
    }
    return true;
}

/* The gradients of the order below become the results of this one. */
static bool take_results(td_joint_run *r, td_tensor *const *grads, int n) {
    td_joint *j = r->to;
    r->out = td__arena_zalloc(&j->arena, sizeof *r->out * ((size_t)n + 1));
    j->feeds = td__arena_zalloc(&j->arena, sizeof *j->feeds * ((size_t)n + 1));
    if (!r->out || !j->feeds) return td__fail_memory(r->cx);
    for (int i = 0; i < n; i++)
        r->out[i] = grads[i] ? td_value_tensor(grads[i]) : TD_NONE;
    j->n_results = n;
    j->g->outputs.n = j->g->out_desc.n = 0;
    return true;
}

/* ---- tensors from before ------------------------------------------------ */

/* A tensor that a backward takes from the program (a saved value, for example) is made
 * again where it is first viewed or returned: before event `at`. */
static bool name(td_joint_run *r, td_tensor *t, int at) {
    td_log *l = &r->log;
    if (td__tensor_summary(r, t)->named) return true;
    if (!td__log_made(l, t)) return false;
    td_event e = l->all.v[l->all.n - 1];
    e.grad = true;
    memmove(&l->all.v[at + 1], &l->all.v[at], sizeof e * (size_t)(l->all.n - 1 - at));
    l->all.v[at] = e;
    return td__log_index_event(r, &e);
}

/* Adds made events until every tensor that the epilogue of this order reads is an input
 * or made in the log. */
static bool name_all(td_joint_run *r) {
    for (int i = 0; i < r->log.all.n; i++) {
        const td_event *e = &r->log.all.v[i];
        if (e->kind == TD_EV_VIEW && !name(r, e->t, i)) return false;
    }
    for (int i = 0; i < r->to->n_results; i++)
        if (r->out[i].kind == TD_K_TENSOR && !name(r, r->out[i].u.t, r->log.all.n))
            return false;
    return true;
}

/* ---- one order ---------------------------------------------------------- */

/* Raises the run to the next order: runs backward with create_graph; its gradients
 * become the results, and its tangents become primals. Called once per order, before
 * the joint graph is finished. */
bool td__joint_raise(td_joint_run *r, const td_grad_order *o) {
    td_joint *j = r->to;
    r->first = j->g->nodes.n; /* program and orders below come before */
    if (!add_tangents(r, o) || (!r->order && !td__joint_targets(r))) return false;
    int         n = j->n_targets, more = j->n_tangents;
    td_tensor **grads = td__arena_zalloc(&j->arena, sizeof *grads * ((size_t)n + 1));
    if (!grads) return td__fail_memory(r->cx);
    for (int i = 0; i < j->n_primals; i++)
        if (r->inputs[i].outer)
            r->inputs[i].before = td__func_writes(&r->f, r->inputs[i].nr);
    if (!go_back(r, o, grads) || !check_new_leaves(r) || !add_targets(r, o) ||
        !take_results(r, grads, n))
        return false;
    r->order++;
    r->grad = true;
    r->inference = false;
    j->n_primals += more;
    j->n_tangents = 0;
    return td__log_index(r) && name_all(r);
}
