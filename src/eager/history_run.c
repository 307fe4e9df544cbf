/* history_run.c -- traces a walk over a history that was lifted (history.c), and does
 * what is left of a backward behind the code that was made of the trace. */
#include "eager/history.h"

#include "eager/engine.h"

bool td__history_traced(const td_ctx *cx) { return td__eager(cx)->traced != NULL; }

td_tensor *td__history_copy(const td_ctx *cx, td_tensor *t) {
    const td_history *h = td__eager(cx)->traced;
    for (int i = 0; h && i < h->values.n; i++)
        if (h->values.v[i] == t) return h->copies[i];
    return t;
}

/* ---- order -------------------------------------------------------------- */

int td__history_nodes(const td_history *h) { return h->w->lists.recs.n; }

static uint64_t time_of(const td_history *h, int32_t i) {
    return td__history_rec(h, i)->node->seq;
}

/* Leaves have one time, before all others. */
bool td__history_in_order(const td_history *h, const int32_t *order) {
    for (int i = 1; i < h->w->lists.recs.n; i++)
        if (time_of(h, order[i - 1]) < time_of(h, order[i])) return false;
    return true;
}

/* Shell's sort: it needs no memory, and runs once for each history. */
void td__history_order(const td_history *h, int32_t *order) {
    int n = h->w->lists.recs.n, gap = 1;
    for (int i = 0; i < n; i++) order[i] = i;
    while (gap < n / 3) gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        for (int i = gap; i < n; i++) {
            int32_t at = order[i];
            int     k = i;
            for (; k >= gap && time_of(h, order[k - gap]) < time_of(h, at); k -= gap)
                order[k] = order[k - gap];
            order[k] = at;
        }
}

/* ---- what a trace notes ------------------------------------------------- */

/* Which tangents arrived; if none has a value, those that arrived without one. */
bool td__note_ran(td_history_trace *t, const td_rec *r) {
    const td_node *n = r->node;
    bool           ok = td__vec_push(&t->ran, r->hides->index), any = false;
    for (int i = 0; i < n->n_out; i++) any |= r->buf[i] != NULL;
    for (int i = 0; ok && n->kind->arrived && i < n->n_out; i++)
        ok = td__vec_push(&t->came, any ? r->buf[i] != NULL : td__walk_came(n, i));
    return ok || td__fail_memory(n->cx);
}

/* A gradient that is asked for: an event, and a result of the program. */
bool td__note_gradient(td_history_trace *t, const td_rec *r) {
    for (const td_capture *c = r->capture; c; c = c->next) {
        td_tensor *g = r->buf[c->nr];
        if (!g) continue;
        if (!td__vec_push(&t->events, ((td_event){r->hides->index, c->nr, t->ran.n})) ||
            !td__vec_push(&t->results, g))
            return td__fail_memory(r->node->cx);
        td__ref(g);
    }
    return true;
}

void td__noted_drop(td_history_trace *t) {
    for (int i = 0; i < t->results.n; i++) td__unref(t->results.v[i]);
    t->results.n = 0;
}

void td__noted_free(td_history_trace *t) {
    td__noted_drop(t);
    td__vec_free(&t->events);
    td__vec_free(&t->results);
    td__vec_free(&t->ran);
    td__vec_free(&t->came);
    td__vec_free(&t->left);
}

/* ---- the traced walk ---------------------------------------------------- */

/* Asks for the gradient of result nr, once. */
static bool ask(td_walk *w, td_rec *r, int nr) {
    for (const td_capture *c = r->capture; c; c = c->next)
        if (c->nr == nr) return true;
    td_capture *c = td__arena_alloc(&td__eager(w->cx)->walks, sizeof *c);
    if (!c) return td__fail_memory(w->cx);
    *c = (td_capture){.next = r->capture, .nr = nr};
    r->capture = c;
    return true;
}

/* The record of a node in the traced walk: as it is in the walk around it. A leaf does
 * not accumulate here; its gradient is asked for instead. */
static bool enter(td_walk *w, const td_rec *from) {
    if (td__walk_find(w, from->node)) return true;
    td_rec *r = td__walk_enter(w, from->node);
    bool    ok = r != NULL;
    if (!ok) return false;
    r->deps = from->deps;
    r->wanted = from->wanted;
    r->reached = from->reached;
    r->heard = from->heard;
    if (r->heard) return true; /* what is asked for has been stored */
    for (const td_capture *c = from->capture; c && ok; c = c->next)
        ok = ask(w, r, c->nr);
    if (from->node->kind == &td__accumulate_kind) {
        if (r->wanted) ok = ok && ask(w, r, 0);
        r->wanted = false;
        return ok;
    }
    for (const td_hookrec *k = from->node->hooks; k && ok; k = k->next)
        if (!k->gone && k->kind == TD_HOOK_RETAIN && td__rec_leads(from))
            ok = ask(w, r, k->nr);
    return ok;
}

/* The gradients of the roots: copies of the given ones, or 1. */
static bool feed(const td_history *h, td_walk *w) {
    const td_walk_roots *from = h->from;
    int                  at = h->n_saved;
    for (int i = 0; i < from->roots.n; i++) {
        const td_tensor *root = from->roots.v[i];
        uint8_t          was = td__make_on(w->cx, root->st->device);
        td_tensor       *g =
            td__root_has_tangent(h, i)
                      ? h->copies[at++]
                      : td_op_ones(w->cx, (td_ints){NULL, 0}, (td_dtype)root->dtype);
        td__make_on(w->cx, was);
        int nr = root->ag->fn ? root->ag->nr : 0;
        if (td_is_nil(g) || !td__walk_add(w, from->recs[i]->node->rec, nr, td__ref(g)))
            return false;
    }
    for (int i = 0; i < from->roots.n; i++)
        if (!td__walk_arrive(w, from->recs[i]->node->rec)) return false;
    return true;
}

/* The whole history, from the roots. */
static bool trace_all(const td_history *h, td_walk *w) {
    bool ok = true;
    for (int i = 0; i < h->w->lists.recs.n && ok; i++)
        ok = enter(w, h->w->lists.recs.v[i]);
    return ok && feed(h, w) && td__walk_run(w);
}

/* The ready nodes are those of the walk around it, in the same heap. */
static bool enter_ready(const td_history *h, td_walk *w) {
    for (int i = 0; i < h->w->lists.ready.n; i++) {
        const td_rec *r = h->w->lists.ready.v[i];
        if (!enter(w, r)) return false;
        if (!td__vec_push(&w->lists.ready, r->node->rec)) return td__fail_memory(w->cx);
    }
    return true;
}

/* Pending gradients before the part are the last copies. */
static bool enter_part(const td_history *h, const td_history_part *p, td_walk *w) {
    int at = h->values.n;
    for (int i = 0; i < p->at.n; i++)
        at -= td__pending(td__history_rec(h, p->at.v[i].rec), p->at.v[i].nr);
    for (int i = 0; i < p->at.n; i++) {
        const td_rec *from = td__history_rec(h, p->at.v[i].rec);
        if (!enter(w, from)) return false;
        if (td__pending(from, p->at.v[i].nr))
            from->node->rec->buf[p->at.v[i].nr] = td__ref(h->copies[at++]);
    }
    return enter_ready(h, w);
}

/* Pending gradients after the part are the last results. */
static bool note_left(const td_history *h, const td_history_part *p,
                      td_history_trace *t) {
    for (int i = p->n_inner; i < p->at.n; i++) {
        const td_rec *r = td__history_rec(h, p->at.v[i].rec)->node->rec;
        td_tensor    *g = r->buf[p->at.v[i].nr];
        if (!td__vec_push(&t->left, td__place_state(r, p->at.v[i].nr)) ||
            (g && !td__vec_push(&t->results, g)))
            return td__fail_memory(h->w->cx);
        if (g) td__ref(g);
    }
    return true;
}

static bool trace_part(const td_history *h, const td_history_part *p, td_walk *w) {
    bool ok = enter_part(h, p, w);
    for (int i = 0; i < p->recs.n && ok; i++) ok = td__walk_step(w);
    return ok && note_left(h, p, w->trace);
}

bool td__history_trace(td_history *h, const td_history_part *p,
                       td_tensor *const *copies, td_history_trace *t) {
    td_ctx       *cx = h->w->cx;
    td_eager     *e = td__eager(cx);
    td_history   *was = e->traced;
    uint32_t      tags = cx->tags;
    td_arena_mark mark = td__arena_mark(&e->walks);
    td_walk       w = {.cx = cx, .keep = true, .some = h->w->some, .trace = t};
    t->events.n = t->ran.n = t->came.n = t->left.n = 0;
    h->copies = copies;
    e->traced = h;
    if (cx->fake) cx->tags |= TD_TAG_FROM(TD_FROM_BACKWARD);
    td__walk_begin(&w);
    bool ok = p ? trace_part(h, p, &w) : trace_all(h, &w);
    td__walk_end(&w);
    td__arena_reset(&e->walks, mark);
    t->n_results = t->results.n;
    cx->tags = tags;
    e->traced = was;
    h->copies = NULL;
    return ok && td_ok(cx);
}

/* ---- behind the code ---------------------------------------------------- */

/* Where td__history_finish is in what was noted. */
typedef struct done {
    int         ran;
    const bool *came;
} done;

/* Frees the saved values of the nodes that ran, up to the n-th. */
static void release(const td_history *h, const td_history_trace *t, done *at, int n) {
    for (; at->ran < n; at->ran++) {
        td_node *node = td__history_rec(h, t->ran.v[at->ran])->node;
        if (node->kind->arrived) {
            node->kind->arrived(node, at->came);
            at->came += node->n_out;
        }
        if (!h->w->keep) td__node_release(node);
    }
}

/* In the engine's order, so that an event that fails leaves the later nodes as they
 * are. */
bool td__history_finish(td_history *h, const td_history_trace *t, td_tensor **grads) {
    bool ok = true;
    done at = {0, t->came.v};
    for (int i = 0; i < t->events.n;) {
        int32_t rec = t->events.v[i].rec;
        td_rec *r = td__history_rec(h, rec);
        if (ok) release(h, t, &at, t->events.v[i].ran);
        for (; i < t->events.n && t->events.v[i].rec == rec; i++) {
            int nr = t->events.v[i].nr;
            if (!ok || r->buf[nr]) td__unref(grads[i]);
            else r->buf[nr] = grads[i];
        }
        ok = ok && td__walk_run_one(h->w, r);
    }
    if (ok) release(h, t, &at, t->ran.n);
    return ok;
}
