/* regrad.c -- gradients of programs that cut history: regions without gradients,
 * detached values, custom functions. Their joint graph computes the right gradients
 * but no longer knows where history ended, so it may not be differentiated. Instead
 * the program itself is run once more and the engine asked for its gradients, with
 * history; that is a body, and is compiled like any other. */
#include "aot/aot.h"
#include "joint/log.h"

#include <string.h>

/* ---- cuts --------------------------------------------------------------- */

static bool cuts(const td_gnode *n) {
    return n->kind != TD_N_OP || td__ops[n->op].flags & (TD_OPF_CUTS | TD_OPF_DETACH);
}

static bool has_cuts(const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (!g->nodes.v[i]->dead && cuts(g->nodes.v[i])) return true;
    for (int i = 0; i < g->nested.n; i++)
        if (has_cuts(g->nested.v[i])) return true;
    return false;
}

/* Is an input with history written through another one without? Its elements come from
 * there then, and its history does not. */
static bool writes_past(const td_joint *j) {
    for (int i = 0; i < j->n_primals; i++)
        if (j->touched[i] && j->related[i].shared) return true;
    return false;
}

/* Are elements of an input read through another one in its bytes? Those that count from
 * the start of the bytes are. */
static bool reads_past(const td_joint *j) {
    for (int i = 0; i < j->g->nodes.n; i++) {
        const td_gnode *n = j->g->nodes.v[i];
        if (n->op != TD_OP_as_strided || n->in[0].kind != TD_G_VALUE) continue;
        const td_gval *v = n->in[0].u.v;
        if (!v->node && v->nr < j->n_primals && j->related[v->nr].shared) return true;
    }
    return false;
}

bool td__again_reruns(const td_graph *program, const td_joint *j) {
    return j->detaches || has_cuts(program) || writes_past(j) || reads_past(j);
}

/* Does the program write it, or what it looks like, or in its bytes? */
static bool touches(const td_joint *j, int i) { return j->written[i] || j->touched[i]; }

/* ---- the body ----------------------------------------------------------- */

typedef struct run {
    const td_regrad *of;
    td_call         *c;
    td_value        *in, *out; /* of the program */
    td_tensor      **roots, **with, **grads;
    td_edge         *to;
    td_log           log;
} run;

static bool make_room(run *r, void **heap) {
    const td_joint *j = r->of->j;
    size_t          in = (size_t)j->n_primals + 1, out = (size_t)j->n_results + 1;
    size_t          tangents = (size_t)j->n_tangents + 1;
    size_t          targets = (size_t)j->n_targets + 1;
    size_t bytes = sizeof *r->in * (in + out) + sizeof *r->roots * 2 * tangents +
                   (sizeof *r->grads + sizeof *r->to) * targets;
    char *at = *heap = td__zalloc(bytes);
    if (!at) return td__fail_memory(r->of->j->cx);
    r->in = (void *)at;
    r->out = r->in + in;
    r->to = (void *)(r->out + out);
    r->roots = (void *)(r->to + targets);
    r->with = r->roots + tangents;
    r->grads = r->with + tangents;
    return true;
}

/* The argument at which the gradients of target k end. */
static int target_at(const td_joint *j, int k) {
    int at = j->targets[k].input;
    return j->targets[k].base ? j->related[at].base : at;
}

static bool is_target(const td_joint *j, int i) {
    for (int k = 0; k < j->n_targets; k++)
        if (target_at(j, k) == i) return true;
    return false;
}

/* A view that requires grad because t, a leaf, does; no gradient passes it. */
static td_tensor *view_apart(td_tensor *t) {
    td_grad_mode was = td_no_grad_begin(t->cx);
    t = td_op_alias(t);
    td_no_grad_end(t->cx, was);
    return t;
}

/* Argument i, or a copy of it. One that no gradient depends on was kept without its
 * history; a gradient may end there all the same. If none does, it was a view made
 * without gradients, and is one again: for those the tape saves less. */
static td_tensor *take_arg(const run *r, int i, bool copy) {
    const td_joint *j = r->of->j;
    const td_look  *l = j->g->inputs.v[i]->look;
    td_tensor      *t = td_arg(r->c, i);
    bool            lost = t && l && l->grad && !td__needs_grad(t);
    if (lost) t = td_set_requires_grad(td_op_detach(t), true);
    if (t && copy) t = td_op_clone(t, false);
    return lost && !copy && !is_target(j, i) ? view_apart(t) : t;
}

/* One view op made again, in the modes that hold; NULL after td__fail. */
static td_tensor *call_view(td_ctx *cx, const td_view_op *v, td_tensor *from) {
    td_value   in[TD_MAX_ARGS];
    td_tensor *few[8], **out = few, *t = NULL;
    if (v->nr >= TD_COUNT(few) && !(out = td__alloc(sizeof *out * (size_t)(v->nr + 1))))
        return td__fail_memory(cx), NULL;
    memcpy(in, v->in, sizeof *in * (size_t)v->n_in);
    in[td__opinfo(v->op)->view_of] = td_value_tensor(from);
    if (td__call(cx, v->op, in, v->n_in, out, v->nr + 1)) t = out[v->nr];
    if (out != few) td__free(out);
    return t;
}

static td_tensor *make_view(td_ctx *cx, const td_relation *o, td_tensor *t) {
    for (int i = 0; i < o->n_views && t; i++) {
        td_grad_mode was = td_enable_grad_begin(cx);
        td_set_grad_enabled(cx, o->views[i].grad);
        t = call_view(cx, &o->views[i], t);
        td_enable_grad_end(cx, was);
    }
    return t;
}

/* The view of another argument that argument i was, by the sizes of this call. */
static td_tensor *take_view(const run *r, int i) {
    const td_joint *j = r->of->j;
    td_relation     o = j->related[i];
    td_arena        a = {0};
    td_value       *in = td__arena_zalloc(&a, sizeof *in * ((size_t)j->n_primals + 1));
    if (!in) return td__fail_memory(j->cx), NULL;
    for (int k = 0; k < j->n_primals; k++) {
        td_tensor *t = td_arg(r->c, k);
        if (t) in[k] = td_value_tensor(t);
    }
    bool       ok = td__relation_at(j, in, &a, &o);
    td_tensor *t = ok ? make_view(j->cx, &o, r->in[o.base].u.t) : NULL;
    td__arena_free(&a);
    return t;
}

/* Do gradients of argument i arrive at what it is a view of? */
static bool goes_to_base(const td_joint *j, int i) {
    const td_look *l = j->g->inputs.v[i]->look;
    for (int k = 0; k < j->n_targets; k++)
        if (j->targets[k].input == i) return j->targets[k].base;
    return l && l->grad;
}

static bool is_view(const td_joint *j, int i) {
    const td_relation *o = &j->related[i];
    return o->base >= 0 && (goes_to_base(j, i) || touches(j, o->base));
}

/* Arguments as they are, but for those the program writes or turns: these are copied,
 * and what was a view of one is a view of the copy. */
static bool take_args(run *r) {
    const td_joint *j = r->of->j;
    for (int views = 0; views < 2; views++)
        for (int i = 0; i < j->n_primals; i++) {
            if (j->related[i].same < i || is_view(j, i) != (views == 1)) continue;
            td_tensor *t = views ? take_view(r, i) : take_arg(r, i, touches(j, i));
            if (t ? td_is_nil(t) : views) return false;
            r->in[i] = t ? td_value_tensor(t) : TD_NONE;
        }
    for (int i = 0; i < j->n_primals; i++)
        if (j->related[i].same < i) r->in[i] = r->in[j->related[i].same];
    for (int i = 0; i < j->n_targets; i++) {
        if (j->targets[i].leaf) continue; /* once it is one */
        if (!td__edge_of(r->in[target_at(j, i)].u.t, &r->to[i])) return false;
    }
    return true;
}

static td_tensor *root_of(const run *r, const td_tangent *t) {
    const td_fwd   *f = &r->of->j->fwd[t->index];
    const td_event *e = f->event < r->log.all.n ? &r->log.all.v[f->event] : NULL;
    return !e ? NULL : f->whole ? e->whole_root : e->root;
}

/* Leaves that the program made; of a copy of an input, what it is a copy of. */
static bool find_leaves(run *r) {
    const td_joint *j = r->of->j;
    for (int i = 0; i < j->n_targets; i++) {
        const td_target *t = &j->targets[i];
        const td_event  *e =
            t->leaf && t->event < r->log.all.n ? &r->log.all.v[t->event] : NULL;
        td_node *n = e ? td__known_accumulator(e->t) : NULL;
        if (n) r->to[i] = (td_edge){.node = td__node_ref(n)};
        else if (e && e->root && !td__edge_of(e->root, &r->to[i])) return false;
    }
    return true;
}

static bool differentiate(run *r) {
    const td_joint *j = r->of->j;
    int             n = 0;
    if (!find_leaves(r)) return false;
    for (int i = 0; i < j->n_tangents; i++) {
        bool       gone = td__set_has(r->of->missing, i);
        td_tensor *root =
            gone || j->tangents[i].broken ? NULL : root_of(r, &j->tangents[i]);
        if (!root) continue;
        r->roots[n] = root;
        r->with[n++] = td_arg(r->c, j->n_primals + i);
    }
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true, .grads = {r->with, n}};
    return n == 0 ||
           td__grad_edges((td_tensors){r->roots, n}, r->to, j->n_targets, r->grads, &o);
}

static bool give_back(run *r) {
    const td_joint *j = r->of->j;
    td_value       *v = r->in; /* no longer needed */
    for (int i = 0; i < j->n_targets; i++)
        v[i] = r->grads[i] ? td_value_tensor(r->grads[i]) : TD_NONE;
    return td_return_values(r->c, (td_values){v, j->n_targets});
}

bool td__regrad(td_call *c) {
    const td_regrad *of = td_call_env(c);
    td_ctx          *cx = td_call_ctx(c);
    run              r = {.of = of, .c = c};
    void            *heap;
    if (!make_room(&r, &heap)) return false;
    td_grad_mode was = td_enable_grad_begin(cx);
    bool         ok = take_args(&r);
    if (ok) td__log_begin(&r.log, cx, NULL);
    ok = ok && td__graph_replay(of->program, r.in, r.out);
    td__log_end(&r.log);
    td_enable_grad_end(cx, was);
    ok = ok && differentiate(&r) && give_back(&r);
    for (int i = 0; i < of->j->n_targets; i++)
        if (r.to[i].node) td__node_drop(r.to[i].node);
    td__log_free(&r.log);
    td__free(heap);
    return ok;
}

/* ---- what it cannot do -------------------------------------------------- */

/* Copies lie at the start of bytes of their own, without gaps. */
static bool counts_bytes(const td_graph *program, const td_look *l) {
    if (l->offset == 0 && td__is_packed(l->rank, l->size, l->stride)) return false;
    for (int i = 0; i < program->nodes.n; i++) {
        const td_gnode *n = program->nodes.v[i];
        if (n->kind == TD_N_OP && td__op_view_kind(n->op) == TD_VIEW_STRIDED)
            return true;
    }
    return false;
}

/* Copies are made one by one: those of tensors in the same bytes share theirs only
 * where one is a view of the other. */
static bool are_apart(const td_joint *j, int i, int k) {
    const td_look     *a = j->g->inputs.v[i]->look, *b = j->g->inputs.v[k]->look;
    const td_relation *x = &j->related[i], *y = &j->related[k];
    if (!a || !b || a->storage < 0 || a->storage != b->storage) return false;
    if (!x->shared || x->same == y->same) return false;
    int at = x->base < 0 ? x->same : j->related[x->base].same;
    return at != (y->base < 0 ? y->same : j->related[y->base].same);
}

/* A view that requires grad, of an argument that does not. */
static bool is_leaf_view(const td_joint *j, int i) {
    const td_relation *x = &j->related[i];
    const td_look     *l = j->g->inputs.v[i]->look;
    const td_look     *o = x->base < 0 ? NULL : j->g->inputs.v[x->base]->look;
    if (!o || !l || !l->grad || !is_view(j, i)) return false;
    return !o->grad;
}

/* Is there a node that says so? It takes leaves, and copies are none. */
static bool lets_go(const td_graph *program) {
    for (int i = 0; i < program->nodes.n; i++)
        if (td__gnode_lets_go(program->nodes.v[i])) return true;
    return false;
}

/* A leaf that the program makes takes gradients from then on only. Run again, it would
 * be another tensor, or a copy with its history from the start. */
static bool begins_inside(const td_joint *j, const td_target *t) {
    return t->leaf && (t->input < 0 || !j->g->inputs.v[t->input]->look->grad);
}

static bool check_leaves(const td_joint *j, const td_graph *program, const char *name) {
    for (int i = 0; i < j->n_targets; i++)
        if (begins_inside(j, &j->targets[i]))
            return td__fail(j->cx, TD_E_UNSUPPORTED,
                            "%s: gradients of gradients of a body in which a tensor "
                            "is set to require grad; set requires_grad before the "
                            "call",
                            name);
    if (!j->releases || !lets_go(program)) return true;
    return td__fail(j->cx, TD_E_UNSUPPORTED,
                    "%s: gradients of gradients of a body that has an input no longer "
                    "require grad; detach it there",
                    name);
}

bool td__regrad_check(const td_joint *j, const td_graph *program, const char *name) {
    if (!check_leaves(j, program, name)) return false;
    for (int i = 0; i < j->n_primals; i++) {
        const td_look *l = j->g->inputs.v[i]->look;
        bool           touched = l && touches(j, i);
        if (touched && counts_bytes(program, l))
            return td__fail(j->cx, TD_E_UNSUPPORTED,
                            "%s: gradients of gradients of a body that cuts history, "
                            "writes input %d, which is a piece of a larger tensor, and "
                            "calls as_strided; pass a clone",
                            name, i);
        for (int k = 0; k < i && touched; k++)
            if (are_apart(j, i, k) || is_leaf_view(j, i) || is_leaf_view(j, k))
                return td__fail(
                    j->cx, TD_E_UNSUPPORTED,
                    "%s: gradients of gradients of a body that cuts history "
                    "and writes inputs that share bytes (%d and %d); pass "
                    "clones",
                    name, k, i);
    }
    for (int i = 0; i < j->n_targets; i++)
        if (j->targets[i].base && j->related[j->targets[i].input].base < 0)
            return td__fail(j->cx, TD_E_UNSUPPORTED,
                            "%s: gradients of gradients of a body that cuts history "
                            "and writes input %d, a view of a tensor that is no input; "
                            "pass a clone",
                            name, j->targets[i].input);
    return true;
}
