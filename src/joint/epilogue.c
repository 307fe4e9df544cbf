/* epilogue.c -- writes the live events of the log as a graph: the ops that a call runs
 * after its forward code, in program order. Views, metadata writes and flags are the
 * program's own ops; outputs of the forward code replace the ops that computed
 * values. */
#include "joint/joint_int.h"

#include <stdio.h>

typedef struct writing {
    td_joint_run *r;
    td_graph     *g;
    td_ptrmap     vals;            /* tensor of the run: its value in g */
    bool          grad, inference; /* modes inside the open regions */
    int           open;            /* regions */
} writing;

/* Closes all regions: the modes are those of the call. */
static bool leave_all(writing *w) {
    for (; w->open; w->open--)
        if (!td__graph_leave(w->g)) return false;
    w->grad = w->r->grad;
    w->inference = w->r->inference;
    return true;
}

static bool enter(writing *w, td_gregion region) {
    w->open++;
    return td__graph_enter(w->g, region);
}

/* Opens and closes regions until grad mode and inference mode have these values. */
static bool use_modes(writing *w, bool grad, bool inference) {
    if (w->grad == grad && w->inference == inference) return true;
    if (!leave_all(w)) return false;
    if (w->inference != inference) {
        if (!enter(w, inference ? TD_R_INFERENCE : TD_R_PLAIN)) return false;
        w->grad = !inference;
    }
    if (w->grad != grad && !enter(w, grad ? TD_R_ENABLE_GRAD : TD_R_NO_GRAD))
        return false;
    w->grad = grad;
    w->inference = inference;
    return true;
}

/* Is e a copy_ that replaces the history of a tensor, which is no view? Recorded, it
 * would send zeros to the earlier history, where the program's own write sends the
 * gradient or nothing. So it copies elements, and a _give sets the history. */
static bool gives(const writing *w, const td_event *e) {
    return e->kind == TD_EV_WRITE && e->how == TD_HOW_COPY && e->hist && !e->shares &&
           !td__joint_is_view(w->r, e->to);
}

/* Opens the regions that event e was recorded in. A step that acts alike in every mode
 * needs none. */
static bool use_modes_of(writing *w, const td_event *e) {
    bool any = e->kind == TD_EV_TOUCH || e->kind == TD_EV_GIVEN ||
               (e->kind == TD_EV_WRITE && e->how != TD_HOW_COPY);
    if (any) return true;
    if (gives(w, e)) return use_modes(w, false, e->inference);
    if (e->kind == TD_EV_MADE && w->inference == e->inference) return true;
    return use_modes(w, e->grad, e->inference);
}

/* The value of tensor t in the epilogue. NULL after td__fail: no earlier step makes
 * t. */
static td_gval *value_of(writing *w, const td_tensor *t) {
    td_gval *v = td__ptrmap_get(&w->vals, t);
    if (!v && td_ok(w->r->cx))
        td__fail(
            w->r->cx, TD_E_TRACE,
            "@%.60s: internal error: the epilogue reads a tensor that no step makes. "
            "Please report the program",
            w->r->program->name);
    return v;
}

static bool name_value(writing *w, const td_tensor *t, td_gval *v) {
    return td__ptrmap_put(&w->vals, t, v) || td__fail_memory(w->r->cx);
}

/* Converts an argument of a logged op call to an argument of the epilogue. */
static bool arg_of(writing *w, const td_value *v, td_garg *to) {
    td_graph *g = w->g;
    *to = (td_garg){0};
    switch ((td_kind)v->kind) {
    case TD_K_TENSOR:
        if (!v->u.t) return true;
        *to = td__garg_value(value_of(w, v->u.t));
        return to->u.v != NULL;
    case TD_K_INT:
        *to = td__garg_int(td__graph_dim(g, v->u.i));
        if (g->dim_in && td__dim_is_symbolic(v->u.i)) to->kind = TD_G_SYM;
        return true;
    case TD_K_INTS: {
        int64_t *own = td__arena_alloc(&g->arena, sizeof *own * ((size_t)v->n + 1));
        if (!own) return td__fail_memory(w->r->cx);
        for (uint32_t i = 0; i < v->n; i++) own[i] = td__graph_dim(g, v->u.ints[i]);
        *to = td__garg_ints(own, (int)v->n);
        return true;
    }
    case TD_K_TENSORS:
    case TD_K_STR:
    case TD_K_GRAPH: break;
    default: return td__garg_of(v, to);
    }
    return td__fail(w->r->cx, TD_E_TRACE,
                    "@%.60s: the plan has an argument it cannot "
                    "write down",
                    w->r->program->name);
}

/* Appends a step for event e, with its source location. NULL after td__fail. */
static td_gnode *put(writing *w, const td_event *e, td_op op, const td_garg *in,
                     int n_in) {
    int       n_out = e->kind == TD_EV_VIEW ? e->n_out : 1;
    td_gnode *n = td__graph_op(w->g, op, in, n_in, n_out);
    if (n) n->here = e->here;
    return n;
}

/* Converts a geometry of the log, of an input before the call or of a tensor after a
 * metadata write, to a type of g. */
static const td_gtype *type_of(td_graph *g, const td_geom *from) {
    int64_t size[TD_MAX_RANK], stride[TD_MAX_RANK], plain[TD_MAX_RANK];
    td__strides_dense(from->rank, from->size, plain);
    bool     dense = !memcmp(plain, from->stride, sizeof *plain * (size_t)from->rank);
    td_gtype l = {.kind = TD_K_TENSOR,
                  .dtype = (uint8_t)from->dtype,
                  .rank = (uint8_t)from->rank,
                  .device = from->device,
                  .offset = td__graph_dim(g, from->offset),
                  .storage = -1,
                  .size = size,
                  .stride = dense ? NULL : stride}; /* in the graph's symbols */
    for (int d = 0; d < from->rank; d++) {
        size[d] = td__graph_dim(g, from->size[d]);
        stride[d] = td__graph_dim(g, from->stride[d]);
    }
    return td__graph_type_of(g, l);
}

/* Appends the event's own op: a view, a metadata write or a flag. */
static bool put_op(writing *w, const td_event *e) {
    td_garg in[TD_MAX_ARGS];
    for (int i = 0; i < e->n_in; i++)
        if (!arg_of(w, &e->in[i], &in[i])) return false;
    td_gnode *n = put(w, e, e->op, in, e->n_in);
    if (!n) return false;
    if (e->kind == TD_EV_META && !(n->out[0]->type = type_of(w->g, &e->geom)))
        return false;
    for (int i = 0; e->kind == TD_EV_VIEW && i < e->n_out; i++) {
        n->out[i]->type =
            td__graph_type(w->g, e->out[i], td__needs_grad(e->out[i]), -1);
        if (!n->out[i]->type || !name_value(w, e->out[i], n->out[i])) return false;
    }
    return true;
}

/* Adds 1 to the version of `self`, whose elements another step writes: by a _bump, or
 * by a larger count of a _bump or _assign of `self` right before it. */
static bool put_bump(writing *w, const td_event *e, td_garg self) {
    td_gnode *last = w->g->nodes.n ? w->g->nodes.v[w->g->nodes.n - 1] : NULL;
    int       at = !last || last->kind != TD_N_OP ? -1
                   : last->op == TD_OP__bump      ? 1
                   : last->op == TD_OP__assign    ? 2
                                                  : -1;
    td_garg   in[2] = {self, td__garg_int(1)};
    if (at < 0 || last->in[0].u.v != self.u.v)
        return put(w, e, TD_OP__bump, in, 2) != NULL;
    last->in[at].u.i++;
    return true;
}

/* Writes the value in[1] to the elements of e->to, in[0]. If a view has its grad_fn
 * from this write (e->touch), a _touch refreshes it. */
static bool put_write(writing *w, const td_event *e, td_garg *in) {
    in[2] = td__garg_int(1);
    bool ok = e->how == TD_HOW_BUMP     ? put_bump(w, e, in[0])
              : e->how == TD_HOW_ASSIGN ? put(w, e, TD_OP__assign, in, 3) != NULL
              : e->shares               ? put(w, e, TD_OP__put_, in, 2) != NULL
                                        : put(w, e, TD_OP_copy_, in, 2) != NULL;
    if (ok && gives(w, e)) {
        in[2] = td__garg_int(0);
        in[3] = (td_garg){.kind = TD_G_BOOL, .u.i = true};
        ok = put(w, e, TD_OP__give, in, 4) != NULL;
    }
    if (!ok || !e->touch) return ok;
    in[0] = td__garg_value(value_of(w, e->touch));
    return in[0].u.v && put(w, e, TD_OP__touch, in, 1);
}

/* Appends the step that uses an output of the forward code: makes it a tensor, writes
 * it to one, or sets a grad_fn. */
static bool put_value(writing *w, const td_event *e) {
    td_gval *k = e->out_nr < 0 ? NULL : w->g->inputs.v[w->r->to->n_primals + e->out_nr];
    td_garg  in[4] = {{0}};
    if (e->kind == TD_EV_MADE) {
        in[0] = td__garg_value(k);
        td_gnode *n = put(w, e, TD_OP__made, in, 1);
        return n && name_value(w, e->t, n->out[0]);
    }
    td_gval *v = value_of(w, e->to);
    if (!v) return false;
    in[0] = td__garg_value(v);
    if (k) in[1] = td__garg_value(k);
    if (e->kind == TD_EV_WRITE) return put_write(w, e, in);
    if (e->kind == TD_EV_TOUCH) return put(w, e, TD_OP__touch, in, 1) != NULL;
    in[2] = td__garg_int(e->creation);
    in[3].kind = TD_G_BOOL;
    in[3].u.i = e->in_place;
    return put(w, e, TD_OP__give, in, 4) != NULL;
}

/* The index of the target that event i binds; -1: none. */
static int bound_at(const td_joint_run *r, int i) {
    for (int k = 0; k < r->to->n_targets; k++)
        if (r->to->targets[k].leaf && r->to->targets[k].event == i) return k;
    return -1;
}

/* Binds edge k of the compiled node, the last input, to the leaf of the event. */
static bool put_bind(writing *w, const td_event *e, int k) {
    td_gval *node = w->g->inputs.v[w->g->inputs.n - 1];
    td_garg  in[5] = {td__garg_value(value_of(w, e->t)),
                      td__garg_value(node),
                      td__garg_int(k),
                      {.kind = TD_G_BOOL},
                      {.kind = TD_G_BOOL, .u.i = true}};
    return in[0].u.v && put(w, e, TD_OP__bind, in, 5);
}

/* Does an event bind a leaf? */
static bool binds(const td_joint_run *r) {
    for (int i = 0; i < r->to->n_targets; i++)
        if (r->to->targets[i].leaf && r->to->targets[i].event >= 0) return true;
    return false;
}

static const td_gtype *type_of_number(td_graph *g, int64_t dim) {
    td_gtype l = {.kind = TD_K_INT, .storage = -1, .offset = td__graph_dim(g, dim)};
    return td__graph_type_of(g, l);
}

/* Inputs: those of the program, then the forward outputs. */
static bool write_inputs(writing *w) {
    td_joint_run   *r = w->r;
    const td_graph *g = r->to->g;
    char            name[24];
    for (int i = 0; i < r->to->n_primals; i++) {
        const td_gtype *l =
            r->inputs[i].outer ? type_of(w->g, &r->inputs[i].geom) : NULL;
        td_gval *v = td__graph_input(w->g, g->inputs.v[i]->name, l, TD_PLAIN_DESC);
        if (!v ||
            (r->inputs[i].outer && !td__ptrmap_get(&w->vals, r->inputs[i].outer) &&
             !name_value(w, r->inputs[i].outer, v)))
            return false;
    }
    for (int i = 0; i < r->to->n_fwd; i++) {
        snprintf(name, sizeof name, "f%d", i);
        td_desc d = g->out_desc.v[i];
        d.name = d.name ? td__graph_str(w->g, d.name) : NULL;
        const td_gtype *l = r->values[i] ? td__graph_type(w->g, r->values[i], false, -1)
                                         : type_of_number(w->g, r->numbers[i]);
        if (!l || !td__graph_input(w->g, td__graph_str(w->g, name), l, d)) return false;
    }
    return true;
}

/* If leaves are bound, adds one more input: a tensor whose grad_fn is the compiled
 * node. */
static bool write_node(writing *w) {
    td_joint_run *r = w->r;
    if (!binds(r)) return true;
    int             of = r->to->tangents[0].index;
    const td_gtype *l = td__graph_type(w->g, r->values[of], true, -1);
    return l && td__graph_input(w->g, "node", l, TD_PLAIN_DESC);
}

/* The results are those of the program, in its order; above the first order they are
 * gradients without descriptors. */
static bool write_outputs(writing *w) {
    td_joint_run *r = w->r;
    for (int i = 0; i < r->to->n_results; i++) {
        td_garg a;
        td_desc d = r->order ? TD_PLAIN_DESC : r->program->out_desc.v[i];
        if (!arg_of(w, &r->out[i], &a) || !td__graph_output(w->g, a, d)) return false;
    }
    return true;
}

/* Writes the live events in program order, each under the grad mode it had. Events of
 * existing ops are repeated as they are; writes and new tensors take their values from
 * forward outputs. */
static bool write_events(writing *w) {
    td_joint_run *r = w->r;
    for (int i = 0; i < r->log.all.n; i++) {
        const td_event *e = &r->log.all.v[i];
        if (!e->live) continue;
        if (!use_modes_of(w, e)) return false;
        bool own =
            e->kind == TD_EV_VIEW || e->kind == TD_EV_META || e->kind == TD_EV_FLAG;
        int bound = bound_at(r, i);
        if (!(own ? put_op(w, e) : put_value(w, e)) ||
            (bound >= 0 && !put_bind(w, e, bound)))
            return false;
    }
    return leave_all(w);
}

/* Did leaf t have an accumulator before the call? */
static bool had_accumulator(const td_joint_run *r, const td_tensor *t) {
    for (int i = 0; i < r->to->n_primals; i++)
        if (r->inputs[i].outer == t && td__known_accumulator(r->inputs[i].real))
            return true;
    return false;
}

/* Does the call return a tensor that event k made, or a view of it? A view that is only
 * written through is a temporary of the epilogue. */
static bool is_returned(const td_joint_run *r, int k) {
    const td_event *all = r->log.all.v;
    for (int i = 0; i < all[k].n_out; i++) {
        const td_tensor *t = all[k].out[i];
        if (td__tensor_summary(r, t)->result >= 0) return true;
        for (int m = k + 1; m < r->log.all.n; m++)
            if (all[m].kind == TD_EV_VIEW && all[m].t == t && is_returned(r, m))
                return true;
    }
    return false;
}

/* Can the history of a tangent lead to leaf t? */
static bool may_lead_to(const td_joint_run *r, const td_tensor *t) {
    const td_joint *j = r->to;
    for (int i = 0; i < j->n_targets; i++) {
        const td_target *to = &j->targets[i];
        if (to->input >= 0 && !to->base && r->inputs[to->input].outer == t)
            return td__set_any(to->from, td__set_words(j->n_tangents));
    }
    return true; /* a leaf that the program made */
}

/* After the call, does a view of the leaf from before event i still exist, or a value
 * whose history leads to it? */
static bool lives_on(const td_joint_run *r, int i) {
    const td_event *all = r->log.all.v;
    bool            leads = may_lead_to(r, all[i].t);
    for (int k = 0; k < i; k++) {
        bool view = all[k].kind == TD_EV_VIEW && all[k].t == all[i].t && all[k].grad;
        if (all[k].live && ((all[k].hist && leads) || (view && is_returned(r, k))))
            return true;
    }
    return false;
}

bool td__joint_check_leaves(const td_joint_run *r, bool dead) {
    for (int i = 0; i < r->log.all.n; i++) {
        const td_event *e = &r->log.all.v[i];
        if (!e->late || !(e->live || dead) || had_accumulator(r, e->t) ||
            lives_on(r, i))
            continue;
        return td__fail(r->cx, TD_E_UNSUPPORTED,
                        "@%.60s: unsupported: a leaf that requires grad is read, and "
                        "then its sizes change. Change the sizes of a view of it",
                        r->program->name);
    }
    return true;
}

/* Makes the epilogue graph. Its inputs are the primals, the forward outputs and, if
 * leaves are bound, the node. While it is written, sizes are translated into the
 * symbols of the joint graph. */
bool td__epilogue_write(td_joint_run *r) {
    if (!td__joint_check_leaves(r, false)) return false;
    writing w = {.r = r, .grad = r->grad, .inference = r->inference};
    w.g = r->to->epilogue = td__graph_make(r->cx, r->program->name);
    if (!w.g) return false;
    w.g->dim_in = r->to->g->dim_in;
    w.g->dim_env = r->to->g->dim_env;
    bool ok =
        write_inputs(&w) && write_node(&w) && write_events(&w) && write_outputs(&w);
    w.g->dim_in = NULL;
    w.g->dim_env = NULL;
    td__ptrmap_free(&w.vals);
    return ok && td__graph_verify(w.g, TD_STAGE_PROGRAM);
}
