/* backward.c -- td_backward and td_grad: checks the arguments, starts a walk of
 * engine.c, and restores the context. */
#include "eager/engine.h"

#include <stdio.h>
#include <string.h>

/* What a walk changes in the context. An earlier error is set aside, so that
 * during the walk a failed context means that the walk failed. */
typedef struct outer {
    bool          grad, inference;
    uint32_t      tags;
    td_code       code;
    char         *message;
    td_arena_mark mark;
} outer;

/* Sets the context up for a walk; false: out of memory, nothing changed. */
static bool begin(td_walk *w, outer *o) {
    td_ctx *cx = w->cx;
    *o = (outer){.grad = cx->grad_enabled,
                 .inference = cx->inference,
                 .tags = cx->tags,
                 .code = cx->code,
                 .mark = td__arena_mark(&td__eager(cx)->walks)};
    if (o->code != TD_OK) {
        if (!(o->message = td__strdup(cx->message))) return false;
        td_clear(cx);
    }
    cx->grad_enabled = w->create;
    cx->inference = false;
    if (cx->fake) cx->tags |= TD_TAG_FROM(TD_FROM_BACKWARD); /* marks recorded nodes */
    td__walk_begin(w);
    return true;
}

/* Restores the modes of the caller and an error that was recorded before: a backward
 * may run while one is pending (cleanup code). */
static void end(td_walk *w, outer *o) {
    td_ctx *cx = w->cx;
    td__walk_end(w);
    td__arena_reset(&td__eager(cx)->walks, o->mark);
    cx->grad_enabled = o->grad;
    cx->inference = o->inference;
    cx->tags = o->tags;
    if (o->code == TD_OK) return;
    cx->code = o->code;
    strcpy(cx->message, o->message); /* fits: it was copied from there */
    td__free(o->message);
}

/* ---- roots -------------------------------------------------------------- */

/* Ends the scope t was made in and returns a reference to t; NULL if t is nil. */
static td_tensor *end_scope_with(td_ctx *cx, td_tensor *t) {
    td_tensor *held = td_is_nil(t) ? NULL : td__ref(t);
    td__scope_pop(cx, NULL, 0);
    return held;
}

td_tensor *td__root_grad(td_tensor *root, td_tensors grads, int i, const char *who) {
    td_ctx    *cx = root->cx;
    td_tensor *g = i < grads.n && grads.v ? grads.v[i] : NULL;
    if (!g) {
        if (root->numel != 1) {
            td__fail(
                cx, TD_E_GRAD,
                "%s: the root is %s; only a root of one element has an implicit "
                "gradient "
                "of 1. Reduce it (td_sum, td_mean), or pass a gradient of its sizes to "
                "td_backward_with",
                who, td__type_str(root));
            return NULL;
        }
        if (td__is_complex((td_dtype)root->dtype)) {
            td__fail(cx, TD_E_GRAD,
                     "%s: the root is %s; only a real root has an implicit gradient of "
                     "1. Make it real (td_abs, td_real), or pass a gradient to "
                     "td_backward_with",
                     who, td__type_str(root));
            return NULL;
        }
        if (!td__scope_push(cx)) return NULL;
        return end_scope_with(cx, td_op_ones_like(root, TD_DTYPE_NONE));
    }
    if (td_is_nil(g)) return NULL;
    if (g->rank != root->rank || !td__dims_eq(g->size, root->size, g->rank)) {
        td__fail(cx, TD_E_GRAD,
                 "%s: gradient %d is %s, but its root is %s; their sizes must be equal",
                 who, i, td__type_str(g), td__type_str(root));
        return NULL;
    }
    if (g->dtype == root->dtype) return td__ref(g);
    if (!td__scope_push(cx)) return NULL;
    return end_scope_with(cx, td_op_to(g, (td_dtype)root->dtype, false));
}

/* Explores the graph from each root. Each root counts as one dependency of its node,
 * so no node runs before all roots have delivered. */
static bool enter_roots(td_walk *w, td_tensors roots, td_rec **recs, const char *who) {
    for (int i = 0; i < roots.n; i++) {
        td_edge e;
        if (!td__needs_grad(roots.v[i]))
            return td__fail(
                w->cx, TD_E_GRAD,
                "%s: root %d, %s, does not require grad and has no history: "
                "no tensor it was computed from requires grad "
                "(td_requires_grad_), or it was computed under no_grad, or it is a "
                "result of td_aot_step, whose body calls td_backward itself",
                who, i, td__type_str(roots.v[i]));
        if (!td__edge_of(roots.v[i], &e)) return false;
        if (!e.node)
            return td__fail(w->cx, TD_E_GRAD,
                            "%s: root %d, %s, has no grad_fn: it is a view made under "
                            "no_grad",
                            who, i, td__type_str(roots.v[i]));
        recs[i] = td__walk_enter(w, e.node);
        td__node_drop(e.node); /* the record holds it */
        if (!recs[i] || !td__walk_explore(w, recs[i])) return false;
        recs[i]->deps++;
    }
    return true;
}

/* Delivers the roots' gradients. With w->holes, a NULL one is absent: the root's node
 * runs without it. */
bool td__walk_feed(td_walk *w, const td_walk_roots *from) {
    const td_tensors roots = from->roots;
    for (int i = 0; i < roots.n; i++) {
        if (w->holes && !from->grads.v[i]) continue;
        td_tensor *g = td__root_grad(roots.v[i], from->grads, i, from->who);
        int        nr = roots.v[i]->ag->fn ? roots.v[i]->ag->nr : 0;
        if (!g || !td__walk_add(w, from->recs[i], nr, g)) return false;
    }
    for (int i = 0; i < roots.n; i++)
        if (!td__walk_arrive(w, from->recs[i])) return false;
    return true;
}

static bool walk(td_walk *w, td_tensors roots, td_tensors grads, const char *who) {
    td_rec **recs =
        td__arena_alloc(&td__eager(w->cx)->walks, sizeof *recs * (size_t)roots.n);
    if (!recs) return td__fail_memory(w->cx);
    if (!enter_roots(w, roots, recs, who)) return false;
    const td_walk_roots from = {roots, grads, recs, who};
    if (TD_UNLIKELY(w->by != NULL)) {
        td_walk_end by = td__history_run(w, &from);
        if (by != TD_WALK_LEFT) return by == TD_WALK_DONE;
    }
    return td__walk_feed(w, &from) && td__walk_run(w);
}

/* Checks that entries are live tensors of one context, *cx (set by the first),
 * or NULL if `holes`. False after td__fail, or when one is nil. Errors call entry i
 * "what i", after `who`. */
static bool usable(td_tensors list, bool holes, const char *who, const char *what,
                   td_ctx **cx) {
    char name[64];
    if (TD_UNLIKELY(list.n < 0 || (list.n && !list.v)))
        return snprintf(name, sizeof name, "%s: %ss", who, what),
               td__no_list(td__current_ctx(), name, list.v, list.n);
    for (int i = 0; i < list.n; i++) {
        td_tensor *t = list.v[i];
        if (!t && holes) continue;
        bool fine = td__is_usable(t, TD_H_TENSOR) && !TD_IS_KEPT(t);
        if (TD_UNLIKELY(!fine)) snprintf(name, sizeof name, "%s: %s %d", who, what, i);
        if (!td__enter_in(*cx ? *cx : td__ctx_of_any(t), t, TD_H_TENSOR, name))
            return false;
        if (!*cx) *cx = t->cx;
        if (t->cx != *cx)
            return td__fail(*cx, TD_E_ARG,
                            "%s: %s %d belongs to another context than the first "
                            "tensor; td_share gives it to that one",
                            who, what, i);
        if (!fine) return td__fail_kept(*cx, name, t);
    }
    return true;
}

static bool has_roots(td_tensors roots, const char *who) {
    return roots.n > 0 ||
           td__fail(td__current_ctx(), TD_E_ARG,
                    "%s: the list of tensors to differentiate is empty", who);
}

/* May this context use the `with` of the options? */
static bool may_run(td_ctx *cx, const td_backward_fn *by, const char *who) {
    if (TD_LIKELY(!by)) return true;
    if (!td__enter_in(cx, by, TD_H_BACKWARD, who)) return false;
    return by->cx == cx || td__fail(cx, TD_E_ARG,
                                    "%s: .with belongs to another context; make one "
                                    "with td_aot_backward for this context",
                                    who);
}

/* In a capture: replaces real tensors by their fake copies. */
static bool stand_in(td_ctx *cx, td_tensors *list) {
    if (!cx->fake || list->n == 0 || !list->v) return true;
    td_tensor **to =
        td__arena_alloc(&td__eager(cx)->walks, sizeof *to * (size_t)list->n);
    if (!to) return td__fail_memory(cx);
    for (int i = 0; i < list->n; i++) {
        to[i] = list->v[i] ? td__stand_in(list->v[i]) : NULL;
        if (to[i] && td_is_nil(to[i])) return false;
    }
    list->v = to;
    return true;
}

/* ---- td_backward -------------------------------------------------------- */

/* td_backward_opts.inputs: only these accumulate. A leaf's accumulation node
 * must run; a non-leaf gets td_retain_grad. */
static bool want_inputs(td_walk *w, td_tensors inputs) {
    for (int i = 0; i < inputs.n; i++) {
        td_tensor *t = inputs.v[i];
        td_edge    e = {0};
        if (!t || !td__needs_grad(t))
            return td__fail(w->cx, TD_E_GRAD,
                            "td_backward: input %d, %s, does not require grad; call "
                            "td_requires_grad_ on it before it is used",
                            i, t ? td__type_str(t) : "NULL");
        if (!td_is_leaf(t) && !td_retain_grad(t)) return false;
        if (!td__edge_of(t, &e)) return false;
        if (!e.node) continue;
        td_rec *r = td__walk_enter(w, e.node);
        td__node_drop(e.node);
        if (!r) return false;
        r->wanted = true;
    }
    return true;
}

bool td_backward_with(td_tensors roots, td_tensors grads,
                      const td_backward_opts *opts) {
    td_ctx           *cx = NULL;
    td_backward_opts  o = {0};
    outer             was;
    static const char who[] = "td_backward";
    if (!has_roots(roots, who) || !usable(roots, false, who, "root", &cx) ||
        !td__opts_take(cx, "td_backward_with", &o, sizeof o, opts,
                       "TD_BACKWARD_OPTS") ||
        !usable(grads, true, who, "gradient", &cx) ||
        !usable(o.inputs, false, who, "input", &cx) || !may_run(cx, o.with, who))
        return false;
    td_walk w = {.cx = cx,
                 .keep = o.retain_graph || o.create_graph,
                 .create = o.create_graph,
                 .some = o.inputs.n > 0,
                 .by = o.with};
    if (!begin(&w, &was)) return td__fail_memory(cx);
    bool ok = stand_in(cx, &roots) && stand_in(cx, &grads) && stand_in(cx, &o.inputs) &&
              want_inputs(&w, o.inputs) && walk(&w, roots, grads, "td_backward");
    end(&w, &was);
    return ok;
}

bool td_backward(td_tensor *root) {
    return td_backward_with((td_tensors){&root, 1}, (td_tensors){NULL, 0}, NULL);
}

/* ---- td_grad ------------------------------------------------------------ */

/* Requests the gradient at edge e. */
static bool capture_edge(td_walk *w, td_edge e, td_tensor **to) {
    if (!e.node) return true;
    td_rec     *r = td__walk_enter(w, e.node);
    td_capture *c = td__arena_alloc(&td__eager(w->cx)->walks, sizeof *c);
    if (!r || !c) return td__fail_memory(w->cx);
    *c = (td_capture){.next = r->capture, .nr = e.nr, .to = to};
    r->capture = c;
    return true;
}

/* td_grad: gradients that arrive at these edges are stored in `to` instead of being
 * accumulated. */
static bool capture_inputs(td_walk *w, td_tensors inputs, td_tensor **to) {
    for (int i = 0; i < inputs.n; i++) {
        td_tensor *t = inputs.v[i];
        td_edge    e = {0};
        if (!t || !td__needs_grad(t))
            return td__fail(w->cx, TD_E_GRAD,
                            "td_grad: input %d, %s, does not require grad; call "
                            "td_requires_grad_ on it before it is used",
                            i, t ? td__type_str(t) : "NULL");
        if (!td__edge_of(t, &e)) return false;
        if (w->cx->fake) td__grad_want(t);
        bool ok = td__grad_arrives(t, e.node, "td_grad") && capture_edge(w, e, &to[i]);
        if (e.node) td__node_drop(e.node); /* the record holds it */
        if (!ok) return false;
    }
    return true;
}

/* Inputs that no gradient reached: zeros, NULL or an error, as the options say. */
static bool fill_missing(td_ctx *cx, td_tensors inputs, td_tensor **to,
                         const td_grad_opts *o) {
    for (int i = 0; i < inputs.n; i++) {
        if (to[i]) continue;
        if (o->materialize) {
            to[i] = td_op_zeros_like(inputs.v[i], TD_DTYPE_NONE);
            if (td_is_nil(to[i])) return to[i] = NULL, false;
            td__ref(to[i]);
        } else if (!o->allow_unused)
            return td__fail(
                cx, TD_E_GRAD,
                "td_grad: input %d, %s, was not used to compute the outputs; set "
                "allow_unused to get a nil gradient for it, or materialize for zeros",
                i, td__type_str(inputs.v[i]));
    }
    return true;
}

/* Gives the referenced gradients to the innermost scope; after a failure all
 * are nil. */
static bool give_to_scope(td_ctx *cx, td_tensor **to, int n, bool ok) {
    for (int i = 0; i < n; i++) {
        td_tensor *g = to[i];
        to[i] = &cx->nil;
        if (!g) continue;
        if (!ok || g->slot >= 0)
            td__unref(g); /* a scope owns it already, or it is not needed */
        else if (!td__scope_own(g)) {
            td__unref(g);
            ok = false;
        }
        if (ok) to[i] = g;
    }
    for (int i = 0; i < n && !ok; i++) to[i] = &cx->nil;
    return ok;
}

bool td_grad(td_tensors outputs, td_tensors inputs, td_tensor **grads,
             const td_grad_opts *opts) {
    td_ctx           *cx = NULL;
    td_grad_opts      o = {0};
    outer             was;
    static const char who[] = "td_grad";
    bool fine = has_roots(outputs, who) && usable(outputs, false, who, "output", &cx) &&
                usable(inputs, false, who, "input", &cx) &&
                td__opts_take(cx, who, &o, sizeof o, opts, "TD_GRAD_OPTS") &&
                usable(o.grads, true, who, "gradient", &cx) &&
                may_run(cx, o.with, who) && td__has_room(cx, who, grads, inputs.n);
    td__nil_tensors(cx, grads, inputs.n);
    if (!fine) return false;
    for (int i = 0; i < inputs.n; i++) grads[i] = NULL;
    td_walk w = {.cx = cx,
                 .keep = o.retain_graph || o.create_graph,
                 .create = o.create_graph,
                 .some = true,
                 .by = o.with};
    if (!begin(&w, &was))
        return give_to_scope(cx, grads, inputs.n, td__fail_memory(cx));
    bool ok = stand_in(cx, &outputs) && stand_in(cx, &inputs) &&
              stand_in(cx, &o.grads) && capture_inputs(&w, inputs, grads) &&
              walk(&w, outputs, o.grads, "td_grad") &&
              fill_missing(cx, inputs, grads, &o);
    end(&w, &was);
    return give_to_scope(cx, grads, inputs.n, ok);
}

/* td_grad with respect to edges; w->some says which nodes run. */
static bool grad_to_edges(td_walk *w, td_tensors outputs, const td_edge *to, int n,
                          td_tensor **grads, const td_grad_opts *opts) {
    td_ctx *cx = NULL;
    outer   was;
    memset(grads, 0, sizeof *grads * (size_t)n);
    if (!usable(outputs, true, "backward", "output", &cx) ||
        !usable(opts->grads, true, "backward", "gradient", &cx) || !cx)
        return false;
    w->cx = cx;
    w->keep = opts->retain_graph || opts->create_graph;
    w->create = opts->create_graph;
    w->stop = true;
    if (!begin(w, &was)) return td__fail_memory(cx);
    bool ok = true;
    for (int i = 0; i < n && ok; i++) ok = capture_edge(w, to[i], &grads[i]);
    ok = ok && walk(w, outputs, opts->grads, "backward");
    end(w, &was);
    ok = give_to_scope(cx, grads, n, ok);
    for (int i = 0; i < n; i++)
        if (td_is_nil(grads[i])) grads[i] = NULL;
    return ok;
}

bool td__grad_edges(td_tensors outputs, const td_edge *to, int n, td_tensor **grads,
                    const td_grad_opts *opts) {
    td_walk w = {.some = true, .holes = true};
    return grad_to_edges(&w, outputs, to, n, grads, opts);
}

bool td__grad_all(td_tensors outputs, const td_edge *to, int n, td_tensor **grads,
                  const td_grad_opts *opts) {
    td_walk w = {.holes = true};
    return grad_to_edges(&w, outputs, to, n, grads, opts);
}
