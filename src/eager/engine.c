/* engine.c -- the backward walk. From the roots it finds all reachable nodes,
 * counts how many edges lead into each, and marks those that lead to a
 * requested gradient. Then nodes run, latest first, once every edge into them
 * has delivered. Summing over broadcast dims and casting to the input's dtype
 * happen here, for every op.
 *
 * Nothing recurses over the graph. A hook or a custom backward may start a
 * nested walk over the same nodes: a node points to its record in the innermost
 * walk that reached it, and that record remembers the outer one. */
#include "core/callback.h"
#include "eager/engine.h"

#include <string.h>

enum { IDLE_RECS = 1024 }; /* larger work lists are freed, not reused */

/* ---- records ------------------------------------------------------------ */

static td_rec *find_rec(const td_walk *w, const td_node *n) {
    return n->rec && n->rec->walk == w ? n->rec : NULL;
}

td_rec *td__walk_find(const td_walk *w, const td_node *n) { return find_rec(w, n); }

/* The record of node n in this walk. A nested walk (backward inside a hook) hides the
 * record of the outer one, which is restored at its end. */
td_rec *td__walk_enter(td_walk *w, td_node *n) {
    td_rec *r = find_rec(w, n);
    if (r) return r;
    r = td__arena_alloc(&td__eager(w->cx)->walks, sizeof *r);
    if (!r || !td__vec_reserve(&w->lists.recs)) return td__fail_memory(w->cx), NULL;
    *r = (td_rec){.node = td__node_ref(n),
                  .walk = w,
                  .hides = n->rec,
                  .index = w->lists.recs.n,
                  .wanted = !w->some};
    w->lists.recs.v[w->lists.recs.n++] = r;
    n->rec = r;
    r->buf = &r->one;
    if (n->n_out > 1) {
        size_t bytes = sizeof(td_tensor *) * (size_t)n->n_out;
        r->buf = td__arena_zalloc(&td__eager(w->cx)->walks, bytes);
        if (!r->buf) return td__fail_memory(w->cx), NULL;
    }
    return r;
}

/* Releases a record: its gradients, its node, and the outer walk's record. */
static void leave_rec(td_rec *r) {
    for (int i = 0; r->buf && i < r->node->n_out; i++)
        if (r->buf[i]) td__unref(r->buf[i]);
    r->node->rec = r->hides;
    td__node_drop(r->node);
}

void td__walk_lists_free(td_walk_lists *lists) {
    td__vec_free(&lists->recs);
    td__vec_free(&lists->ready);
    td__vec_free(&lists->path);
}

/* Takes over the work lists of the walk before; a nested walk finds none and
 * makes its own. */
void td__walk_begin(td_walk *w) {
    td_eager *e = td__eager(w->cx);
    w->lists = e->idle;
    e->idle = (td_walk_lists){0};
}

void td__walk_end(td_walk *w) {
    td_eager *e = td__eager(w->cx);
    for (int i = w->lists.recs.n - 1; i >= 0; i--) leave_rec(w->lists.recs.v[i]);
    if (e->idle.recs.v || w->lists.recs.cap > IDLE_RECS) td__walk_lists_free(&w->lists);
    w->lists.recs.n = w->lists.ready.n = w->lists.path.n = 0;
    if (!e->idle.recs.v) e->idle = w->lists;
}

/* ---- finding the graph -------------------------------------------------- */

/* Depth-first with an explicit stack. A node must run if one of the nodes it sends
 * gradients to must; these are finished before it. */
bool td__walk_explore(td_walk *w, td_rec *root) {
    if (root->seen) return true;
    root->seen = true;
    if (!td__vec_push(&w->lists.path, root)) return td__fail_memory(w->cx);
    while (w->lists.path.n > 0) {
        td_rec *r = w->lists.path.v[w->lists.path.n - 1];
        if (r->next == r->node->n_edge || (w->stop && r->capture)) {
            w->lists.path.n--;
            if (w->stop && r->capture) r->wanted = false;
            if (td__rec_leads(r) && w->lists.path.n > 0)
                w->lists.path.v[w->lists.path.n - 1]->wanted = true;
            continue;
        }
        td_node *to = r->node->edge[r->next++].node;
        if (!to) continue;
        td_rec *child = td__walk_enter(w, to);
        if (!child) return false;
        if (w->cx->fake && to->kind == &td__accumulate_kind) td__grad_reach(to->data);
        child->deps++;
        if (!child->seen) {
            child->seen = true;
            if (!td__vec_push(&w->lists.path, child)) return td__fail_memory(w->cx);
        } else if (td__rec_leads(child)) r->wanted = true;
    }
    return true;
}

/* ---- the ready queue: a heap, largest sequence number on top ------------- */

static bool later(const td_rec *a, const td_rec *b) {
    return a->node->seq > b->node->seq;
}

/* A heap ordered by sequence number: the node recorded last runs first, as in
 * PyTorch. */
static bool push_ready(td_walk *w, td_rec *r) {
    if (!td__vec_reserve(&w->lists.ready)) return td__fail_memory(w->cx);
    td_rec **v = w->lists.ready.v;
    int      i = w->lists.ready.n++;
    while (i > 0 && later(r, v[(i - 1) / 2])) {
        v[i] = v[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    v[i] = r;
    return true;
}

static td_rec *pop_ready(td_walk *w) {
    td_rec **v = w->lists.ready.v, *top = v[0], *last = v[--w->lists.ready.n];
    int      i = 0, n = w->lists.ready.n;
    for (int k = 1; k < n; k = 2 * i + 1) {
        if (k + 1 < n && later(v[k + 1], v[k])) k++;
        if (!later(v[k], last)) break;
        v[i] = v[k];
        i = k;
    }
    v[i] = last;
    return top;
}

/* ---- delivering gradients ----------------------------------------------- */

/* May a sum be computed in place in `old`? Only if this is the sole reference to it
 * and to its storage. */
static bool unshared(const td_tensor *old) {
    return old->refs == 1 && atomic_load(&old->st->refs) == 1 &&
           td__is_packed(old->rank, old->size, old->stride);
}

static bool same_sizes(const td_tensor *g, const td_geom *t) {
    return g->rank == t->rank && td__dims_eq(g->size, t->size, t->rank);
}

/* Can a tensor of t's sizes be broadcast to g's sizes? */
static bool broadcast_of(const td_tensor *g, const td_geom *t) {
    int lead = g->rank - t->rank;
    for (int i = 0; i < t->rank && lead >= 0; i++)
        if (!td__dim_eq(t->size[i], 1) && !td__dim_eq(t->size[i], g->size[lead + i]))
            return false;
    return lead >= 0;
}

/* A metadata write under no_grad changed the sizes of a result after its node
 * was made, so its gradient has other sizes. If it is a broadcast of the
 * recorded sizes it is summed; otherwise an error. Takes over g; NULL after
 * td__fail. */
static td_tensor *sum_for(const td_node *n, int nr, td_tensor *g) {
    const td_geom *t = &n->out_type[nr];
    td_tensor     *sum = NULL;
    if (!broadcast_of(g, t))
        td__fail(n->cx, TD_E_GRAD,
                 "%s: a gradient of %s arrived for a result of size %s; the result "
                 "changed shape under no_grad after it was computed",
                 n->name, td__type_str(g), td__sizes_str(t->rank, t->size));
    else if (td__scope_push(n->cx)) {
        sum = td_op_sum_to_size(g, td__geom_sizes(t));
        sum = td_is_nil(sum) ? NULL : td__ref(sum);
        td__scope_pop(n->cx, NULL, 0);
    }
    td__unref(g);
    return sum;
}

/* Adds g to result nr of the node, taking over its reference. In place if nothing else
 * can see the sum so far. */
bool td__walk_add(td_walk *w, td_rec *r, int nr, td_tensor *g) {
    td_ctx    *cx = w->cx;
    td_tensor *old = r->buf[nr];
    if (TD_UNLIKELY(!same_sizes(g, &r->node->out_type[nr])) &&
        !(g = sum_for(r->node, nr, g)))
        return false;
    if (!old) {
        r->buf[nr] = g;
        return true;
    }
    if (!td__scope_push(cx)) return td__unref(g), false;
    bool typed = old->typed || g->typed; /* the type of the sum is theirs to say */
    bool in_place = !w->create && unshared(old) && old->dtype == g->dtype && !typed;
    td_tensor *sum =
        td__op2(cx, in_place ? TD_OP_add_ : TD_OP_add, old, td_value_tensor(g));
    bool ok = !td_is_nil(sum);
    if (ok && !in_place) {
        r->buf[nr] = td__ref(sum);
        td__unref(old);
    }
    td__scope_pop(cx, NULL, 0);
    td__unref(g);
    return ok;
}

bool td__walk_arrive(td_walk *w, td_rec *r) {
    r->reached = true;
    return --r->deps > 0 || push_ready(w, r);
}

/* Delivers along edge e; g is referenced, or NULL: the edge counts, without a
 * gradient. */
static bool deliver(td_walk *w, const td_edge *e, td_tensor *g) {
    td_rec *r = e->node ? find_rec(w, e->node) : NULL;
    if (!r || !td__rec_leads(r)) {
        if (g) td__unref(g);
        return true;
    }
    if (e->nr < 64) r->came |= (uint64_t)1 << e->nr;
    return (!g || td__walk_add(w, r, e->nr, g)) && td__walk_arrive(w, r);
}

/* The edge counts as delivered, but does not make its node reached. */
static bool skip_edge(td_walk *w, const td_edge *e) {
    td_rec *r = e->node ? find_rec(w, e->node) : NULL;
    return !r || !td__rec_leads(r) || --r->deps > 0 || push_ready(w, r);
}

/* ---- checking a node's gradients ---------------------------------------- */

/* Of the complex gradient of a real input only the real part counts: the input has no
 * imaginary part that could change. */
static td_tensor *cast_to(td_tensor *g, td_dtype dt) {
    if (td__is_complex((td_dtype)g->dtype) && !td__is_complex(dt))
        g = td_op_contiguous(td_op_real(g));
    return td_op_to(g, dt, false);
}

/* Sums g to the sizes of input i and casts it to its dtype; NULL after td__fail. */
static td_tensor *fit(td_node *n, int i, td_tensor *g) {
    const td_geom *t = &n->in_type[i];
    if (TD_IS_KEPT(g)) return td__fail_kept(n->cx, n->name, g), NULL;
    if (!same_sizes(g, t)) {
        if (!broadcast_of(g, t)) {
            td__fail(n->cx, TD_E_GRAD,
                     "backward of %s returned %s for input %d, whose size is %s; it "
                     "must have that size, or one the input can be broadcast to",
                     n->name, td__type_str(g), i, td__sizes_str(t->rank, t->size));
            return NULL;
        }
        g = td_op_sum_to_size(g, td__geom_sizes(t));
    }
    if (!td_is_nil(g) && g->dtype != t->dtype) g = cast_to(g, (td_dtype)t->dtype);
    return td_is_nil(g) ? NULL : g;
}

static bool has_nan(td_tensor *g) {
    if (td__is_fake(g)) return false;
    td_grad_mode was = td_no_grad_begin(g->cx);
    td_tensor   *any = td_op_any(td_op_isnan(g), TD_ALL, false);
    bool         bad = !td_is_nil(any) && (td_item)(any) != 0.0;
    td_no_grad_end(g->cx, was);
    return bad;
}

/* ", in scope model/attn, called at model.c:41" */
static void where_made(const td_node *n, char *out, size_t cap) {
    int at = snprintf(out, cap, "%s%s", n->path ? ", in scope " : "",
                      n->path ? n->path : "");
    if (n->here.file && at >= 0 && (size_t)at < cap)
        snprintf(out + at, cap - (size_t)at, ", called at %s:%d", n->here.file,
                 n->here.line);
}

static bool check_nan(td_node *n, int i, td_tensor *g) {
    char where[512];
    if (!has_nan(g)) return true;
    where_made(n, where, sizeof where);
    return td__fail(n->cx, TD_E_GRAD,
                    "backward of %s gave NaN as the gradient of its input %d%s",
                    n->name, i, where);
}

/* In anomaly mode: adds the forward op's name and source line to the error.
 * Returns false. */
static bool explain(td_walk *w, td_node *n) {
    td_ctx *cx = w->cx;
    size_t  at = strlen(cx->message);
    char    where[512];
    if (!cx->anomaly || w->explained) return false;
    w->explained = true;
    where_made(n, where, sizeof where);
    if (!strstr(cx->message, where) || !where[0])
        snprintf(cx->message + at, sizeof cx->message - at, " (in backward of %s%s)",
                 n->name, where);
    return false;
}

/* ---- running one node --------------------------------------------------- */

static bool any(td_tensor *const *g, int n) {
    for (int i = 0; i < n; i++)
        if (g[i]) return true;
    return false;
}

/* The hooks that see gradients of the node's results; a leaf's are on the tensor. */
static td_hookrec *grad_hooks(const td_node *n) {
    if (n->kind != &td__accumulate_kind) return n->hooks;
    const td_tensor *leaf = n->data;
    return leaf->ag ? leaf->ag->hooks : NULL;
}

/* Accumulates into a leaf. Since it was used, the tensor may have become a
 * non-leaf by a write (an error) or stopped requiring grad (the gradient is
 * dropped). */
static bool run_leaf(td_rec *r) {
    td_tensor *leaf = r->node->data, *g = r->buf[0];
    td_node   *fn;
    if (!g) return true;
    r->buf[0] = NULL;
    if (!td__fn_of(leaf, &fn)) return td__unref(g), false;
    if (fn || !td__needs_grad(leaf)) td__unref(g);
    if (fn)
        return td__fail(
            leaf->cx, TD_E_GRAD,
            "backward reaches %s, which was a leaf when it was used and has "
            "been written in place since, so it is no leaf now; write to a "
            "clone",
            td__type_str(leaf));
    if (!td__needs_grad(leaf)) return true;
    return td__grad_accumulate(leaf, g) && (!leaf->ag->hooks || td__hooks_leaf(leaf));
}

/* need[i]: edge i leads to a requested gradient. */
static void wanted_edges(const td_walk *w, const td_node *n, bool *need) {
    for (int i = 0; i < n->n_edge; i++) {
        const td_rec *r = n->edge[i].node ? find_rec(w, n->edge[i].node) : NULL;
        need[i] = r && td__rec_leads(r);
    }
}

/* Brings the gradients a node made to their inputs' sizes; NaN check; post hooks. */
static bool finish(td_walk *w, td_node *n, const bool *need, td_tensor **grads,
                   td_tensor **g) {
    for (int i = 0; i < n->n_edge; i++) {
        if (!grads[i]) continue;
        if (!need[i]) {
            grads[i] = NULL;
            continue;
        }
        if (td_is_nil(grads[i]) || !(grads[i] = fit(n, i, grads[i]))) return false;
        if (w->cx->anomaly && !check_nan(n, i, grads[i])) return false;
    }
    return !n->hooks || w->trace ||
           td__hooks_post(w->cx, n->hooks, grads, n->n_edge, g, n->n_out);
}

/* Runs pre hooks, derivative and post hooks inside a scope; grads[] get
 * references, so they survive it. */
static bool run_scoped(td_walk *w, td_rec *r, const bool *need, td_tensor **grads) {
    td_node *n = r->node;
    bool     heard = !n->hooks || r->heard || w->trace;
    bool     ok = heard || td__hooks_pre(w->cx, n->hooks, r->buf, n->n_out);
    if (ok && (any(r->buf, n->n_out) || (n->kind->hungry && n->kind->hungry(n))))
        ok = n->kind->apply(n, r->buf, need, grads);
    ok = ok && finish(w, n, need, grads, r->buf);
    for (int i = 0; i < n->n_edge; i++)
        grads[i] = ok && grads[i] ? td__ref(grads[i]) : NULL;
    if (!w->keep) td__node_release(n);
    return ok;
}

static void drop_buf(td_rec *r) {
    for (int i = 0; i < r->node->n_out; i++) {
        td_tensor *g = r->buf[i];
        r->buf[i] = NULL;
        if (g) td__unref(g);
    }
}

#define FEW_EDGES 8

/* Runs a node and delivers its gradients along its edges. A node without needed edges
 * runs too, because reading its saved values may fail as in eager. */
static bool run_op(td_walk *w, td_rec *r) {
    td_node   *n = r->node;
    td_tensor *few[FEW_EDGES], **grads = few;
    bool       few_need[FEW_EDGES], *need = few_need;
    if (TD_UNLIKELY(w->trace != NULL) && !td__note_ran(w->trace, r)) return false;
    if (n->n_edge > FEW_EDGES) {
        grads = td__alloc((sizeof *grads + sizeof *need) * (size_t)n->n_edge);
        if (!grads) return td__fail_memory(w->cx);
        need = (bool *)(void *)(grads + n->n_edge);
    }
    if (n->n_edge) memset(grads, 0, sizeof *grads * (size_t)n->n_edge);
    wanted_edges(w, n, need);
    td_where    was = td_here;
    td_callback calls; /* in a trace: the node's calls are those of its derivative */
    bool        traced = w->cx->fake;
    td_here = n->here;
    if (TD_UNLIKELY(traced)) td__calls_begin(&calls, w->cx, n->stack);
    bool ok = td__scope_push(w->cx);
    if (ok) {
        ok = run_scoped(w, r, need, grads);
        td__scope_pop(w->cx, NULL, 0);
    }
    if (TD_UNLIKELY(traced)) td__callback_end(&calls);
    if (!ok) td__fail_backward(w->cx, n->here, was);
    td_here = was;
    drop_buf(r);
    for (int i = 0; i < n->n_edge; i++)
        if (ok && !grads[i] && n->kind->apart && n->kind->apart(n, i))
            ok = skip_edge(w, &n->edge[i]);
        else if (ok) ok = deliver(w, &n->edge[i], grads[i]);
        else if (grads[i]) td__unref(grads[i]);
    if (grads != few) td__free(grads);
    return ok || explain(w, n);
}

/* Stores requested gradients as they are before the node runs. As in eager
 * PyTorch, hooks have changed them only if the node itself does not run. */
static bool capture(td_walk *w, td_rec *r) {
    td_hookrec *hooks = grad_hooks(r->node);
    if (TD_UNLIKELY(w->trace != NULL)) return td__note_gradient(w->trace, r);
    if (!r->wanted && hooks && !td__hooks_grad(w->cx, hooks, r->buf, r->node->n_out))
        return false;
    for (td_capture *c = r->capture; c; c = c->next)
        if (r->buf[c->nr]) *c->to = td__ref(r->buf[c->nr]);
    return true;
}

bool td__grad_whole(const td_node *n, td_tensor *const *g, int nr) {
    for (int i = 0; i < n->n_out; i++)
        if (g[i] && i != nr && n->kind->passes(n, i, nr))
            return n->kind->refuse(n, i, nr);
    return true;
}

/* Fails if a requested or hooked gradient of a compiled call is incomplete. */
static bool check_asked(const td_rec *r) {
    const td_node *n = r->node;
    for (const td_capture *c = r->capture; c; c = c->next)
        if (!td__grad_whole(n, r->buf, c->nr)) return false;
    return td__hooks_whole(n, n->hooks, r->buf);
}

/* The node was not reached: nor are those beyond it, by this node. */
static bool skip_edges(td_walk *w, const td_node *n) {
    for (int i = 0; i < n->n_edge; i++)
        if (!skip_edge(w, &n->edge[i])) return false;
    return true;
}

bool td__walk_retains(const td_node *n) { return !n->rec || n->rec->walk->keep; }

bool td__walk_came(const td_node *n, int nr) {
    return !n->rec || nr >= 64 || n->rec->came >> nr & 1;
}

bool td__walk_give(td_node *n, int nr) {
    td_tensor **at = n->rec ? &n->rec->buf[nr] : NULL, *g = at ? *at : NULL;
    if (!g || n->hooks || g->refs != 1 || atomic_load(&g->st->refs) != 1) return false;
    *at = NULL;
    if (td__scope_own(g)) return true;
    td__unref(g);
    return false;
}

/* A trace asks for the gradients that it accumulates later. */
bool td__walk_accumulates(const td_node *n, int edge) {
    const td_node *to = n->edge[edge].node;
    if (!to || to->kind != &td__accumulate_kind || !to->rec) return false;
    return to->rec->walk->trace || !to->rec->capture;
}

/* Requests and tensor hooks, which come before the derivative. */
static bool run_front(td_walk *w, td_rec *r) {
    td_node    *n = r->node;
    td_hookrec *hooks = grad_hooks(n);
    if (n->kind->passes && (r->capture || n->hooks) && !check_asked(r)) return false;
    if (r->capture && !capture(w, r)) return false;
    if (!r->wanted || !hooks || w->trace) return true;
    return td__hooks_grad(w->cx, hooks, r->buf, n->n_out) || explain(w, n);
}

/* One ready node: requests, hooks, then the derivative or accumulation. */
static bool run_rec(td_walk *w, td_rec *r) {
    td_node *n = r->node;
    if (!r->reached) return skip_edges(w, n);
    if (!r->heard && !run_front(w, r)) return false;
    if (!r->wanted) {
        drop_buf(r);
        return true;
    }
    if (n->kind == &td__accumulate_kind) return run_leaf(r);
    return run_op(w, r);
}

/* Does running it create tensors only in scopes of its own? Then it needs no
 * scope around it. */
static bool is_plain(const td_rec *r) {
    const td_node *n = r->node;
    if (r->capture || n->hooks) return false;
    if (n->kind != &td__accumulate_kind) return true;
    const td_tensor *leaf = n->data;
    return leaf->ag && !leaf->ag->hooks && r->buf[0] && td__grad_fits(leaf, r->buf[0]);
}

/* Hooks, requests and leaves run in a scope, so that no temporary ends up in
 * the user's. */
static bool run_in_scope(td_walk *w, td_rec *r) {
    if (is_plain(r)) return run_rec(w, r);
    if (!td__scope_push(w->cx)) return false;
    bool ok = run_rec(w, r);
    td__scope_pop(w->cx, NULL, 0);
    return ok;
}

td_rec *td__walk_top(const td_walk *w) {
    return w->lists.ready.n > 0 ? w->lists.ready.v[0] : NULL;
}

bool td__walk_step(td_walk *w) { return run_in_scope(w, pop_ready(w)); }

/* Pre hooks, as run_op runs them. */
static bool run_pre(td_walk *w, td_rec *r) {
    td_node *n = r->node;
    td_where was = td_here;
    td_here = n->here;
    bool ok = td__hooks_pre(w->cx, n->hooks, r->buf, n->n_out);
    if (!ok && !w->keep) td__node_release(n);
    if (!ok) td__fail_backward(w->cx, n->here, was);
    td_here = was;
    return ok || explain(w, n);
}

bool td__walk_hear(td_walk *w) {
    td_rec *r = td__walk_top(w);
    if (r->reached) {
        if (!td__scope_push(w->cx)) return false;
        bool ok = run_front(w, r) && run_pre(w, r);
        td__scope_pop(w->cx, NULL, 0);
        if (!ok) return false;
    }
    return r->heard = true;
}

bool td__walk_pass(td_walk *w) {
    td_rec *r = pop_ready(w);
    drop_buf(r);
    return skip_edges(w, r->node);
}

bool td__walk_run(td_walk *w) {
    while (w->lists.ready.n > 0)
        if (!td__walk_step(w)) return false;
    return true;
}

/* Hooks, requests and accumulation of a node whose gradients compiled code has computed
 * (history_run.c). An op's derivative is part of that code, so it does not run here. */
bool td__walk_run_one(td_walk *w, td_rec *r) {
    td_node *n = r->node;
    r->reached = true;
    if (n->kind == &td__accumulate_kind) return run_in_scope(w, r);
    if (!td__scope_push(w->cx)) return false;
    bool ok = !r->capture || capture(w, r);
    if (ok && r->wanted && n->hooks)
        ok = td__hooks_grad(w->cx, n->hooks, r->buf, n->n_out);
    drop_buf(r);
    td__scope_pop(w->cx, NULL, 0);
    return ok;
}
