/* history_parts.c -- a history with cuts, in parts. The engine's walk over the real
 * nodes goes on from cut to cut; in between, code runs the nodes and the walk passes
 * them. The walk is always in a state in which the engine can go on by itself, so a
 * part that code cannot run now is the engine's. */
#include "eager/engine.h"

/* ---- the walk ----------------------------------------------------------- */

bool td__history_begin(td_history *h) { return td__walk_feed(h->w, h->from); }

static bool is_leaf(const td_rec *r) { return r->node->kind == &td__accumulate_kind; }

/* Does the engine have to do something before code may run the node? */
static bool is_cut(const td_rec *r) { return r->host || (r->hears && !r->heard); }

/* A leaf that is next only accumulates: there is nothing to compute. */
int32_t td__history_next(td_history *h) {
    for (td_rec *r; (r = td__walk_top(h->w)) != NULL;) {
        if (!is_cut(r) && !is_leaf(r)) return r->index;
        if (!(r->hears ? td__walk_hear(h->w) : td__walk_step(h->w))) return -2;
    }
    return -1;
}

bool td__history_print_cut(const td_history *h, int i, td_buf *to) {
    const td_rec *r = td__history_rec(h, i);
    if (r->hears) td__buf_printf(to, "  the engine runs hooks of %s\n", r->node->name);
    else if (r->host)
        td__buf_printf(to, "  the engine runs %s: %s\n", r->node->name, r->host);
    return !to->failed;
}

/* ---- which nodes a part has --------------------------------------------- */

/* A record of each node that has not run, and the ready ones in the same heap. */
static bool enter_dry(const td_history *h, td_walk *w) {
    for (int i = 0; i < h->w->lists.recs.n; i++) {
        const td_rec *from = td__history_rec(h, i);
        td_rec       *r = td__rec_leads(from) ? td__walk_enter(w, from->node) : NULL;
        if (!r && td__rec_leads(from)) return false;
        if (!r) continue;
        r->deps = from->deps;
        r->wanted = true;
    }
    for (int i = 0; i < h->w->lists.ready.n; i++)
        if (!td__vec_push(&w->lists.ready, h->w->lists.ready.v[i]->node->rec))
            return td__fail_memory(w->cx);
    return true;
}

/* Passes nodes up to the next cut, in a walk of its own. */
static bool list_nodes(td_history *h, td_history_part *p) {
    td_ctx       *cx = h->w->cx;
    td_arena_mark mark = td__arena_mark(&td__eager(cx)->walks);
    td_walk       w = {.cx = cx, .keep = true};
    td__walk_begin(&w);
    bool ok = enter_dry(h, &w);
    for (td_rec *r; ok && (r = td__walk_top(&w)) != NULL && !is_cut(r->hides);) {
        if (!td__vec_push(&p->recs, r->hides->index)) ok = td__fail_memory(cx);
        ok = ok && td__walk_pass(&w);
    }
    td__walk_end(&w);
    td__arena_reset(&td__eager(cx)->walks, mark);
    return ok;
}

static bool has_place(const td_history_part *p, td_grad_place at) {
    for (int i = p->n_inner; i < p->at.n; i++)
        if (p->at.v[i].rec == at.rec && p->at.v[i].nr == at.nr) return true;
    return false;
}

/* Gradients of its nodes, and then of nodes beyond. inside[] is by place in the walk.
 */
static bool list_places(td_history *h, td_history_part *p, bool *inside) {
    for (int i = 0; i < p->recs.n; i++) {
        int32_t rec = p->recs.v[i];
        inside[rec] = true;
        for (int nr = 0; nr < td__history_rec(h, rec)->node->n_out; nr++)
            if (!td__vec_push(&p->at, ((td_grad_place){rec, nr}))) return false;
    }
    p->n_inner = p->at.n;
    for (int i = 0; i < p->recs.n; i++) {
        const td_node *n = td__history_rec(h, p->recs.v[i])->node;
        for (int k = 0; k < n->n_edge; k++) {
            td_node      *to = n->edge[k].node;
            const td_rec *into = to ? td__walk_find(h->w, to) : NULL;
            if (!into || !td__rec_leads(into) || inside[into->index]) continue;
            td_grad_place at = {into->index, n->edge[k].nr};
            if (!has_place(p, at) && !td__vec_push(&p->at, at)) return false;
        }
    }
    return true;
}

bool td__part_make(td_history *h, td_history_part *p) {
    *p = (td_history_part){.n_inner = 0};
    bool *inside = td__zalloc((size_t)h->w->lists.recs.n);
    bool  ok = inside ? list_nodes(h, p) &&
                           (list_places(h, p, inside) || td__fail_memory(h->w->cx))
                      : td__fail_memory(h->w->cx);
    td__free(inside);
    if (!ok) td__part_free(p);
    return ok;
}

void td__part_free(td_history_part *p) {
    td__vec_free(&p->recs);
    td__vec_free(&p->at);
}

/* ---- running one -------------------------------------------------------- */

/* Pending gradients are values, too. */
static void lift_places(td_history *h, const td_history_part *p) {
    for (int i = 0; i < p->at.n; i++) {
        const td_rec *r = td__history_rec(h, p->at.v[i].rec);
        int           nr = p->at.v[i].nr;
        if (!td__vec_push(&h->there, td__place_state(r, nr))) h->failed = true;
        if (td__pending(r, nr)) td__history_value(h, r->buf[nr]);
    }
}

bool td__part_lift(td_history *h, const td_history_part *p, const char **why) {
    h->values.n = h->there.n = h->storage.n = 0;
    h->stale = false;
    *why = td__history_refuses(h->w);
    for (int i = 0; i < p->recs.n && !*why; i++)
        if (!td__history_lift_node(h, td__history_rec(h, p->recs.v[i])))
            *why = "a hook has changed the history";
    if (!*why && h->stale) *why = TD_WHY_STALE;
    lift_places(h, p);
    h->n_saved = h->values.n; /* none is owned */
    for (int i = 0; i < p->recs.n && !*why && !h->failed; i++)
        if (td__grad_is_read(h, td__history_rec(h, p->recs.v[i]))) *why = TD_WHY_GRAD;
    return !h->failed || td__fail_memory(h->w->cx);
}

/* Takes over the gradients of nodes beyond. */
static void set_pending(td_history *h, const td_history_part *p,
                        const td_history_trace *t, td_tensor **grads) {
    for (int i = p->n_inner; i < p->at.n; i++) {
        td_rec     *r = td__history_rec(h, p->at.v[i].rec);
        td_tensor **at = &r->buf[p->at.v[i].nr], *was = *at;
        uint8_t     state = t->left.v[i - p->n_inner];
        *at = state & 1 ? *grads++ : NULL;
        r->reached = state >> 1;
        if (was) td__unref(was);
    }
}

bool td__part_finish(td_history *h, const td_history_part *p, const td_history_trace *t,
                     td_tensor **grads) {
    bool ok = true;
    for (int i = 0; i < p->recs.n && ok; i++) ok = td__walk_pass(h->w);
    h->values.n = h->n_saved = 0; /* passing has dropped pending ones */
    set_pending(h, p, t, grads + t->events.n);
    if (ok) return td__history_finish(h, t, grads);
    for (int i = 0; i < t->events.n; i++) td__unref(grads[i]);
    return td__fail_memory(h->w->cx);
}

bool td__part_engine(td_history *h, const td_history_part *p) {
    for (int i = 0; i < p->recs.n; i++)
        if (!td__walk_step(h->w)) return false;
    return true;
}
