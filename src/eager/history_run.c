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
    return h->w->lists.recs.v[i]->node->seq;
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

bool td__note_ran(td_history_trace *t, const td_rec *r) {
    const td_node *n = r->node;
    bool           ok = td__vec_push(&t->ran, r->hides->index);
    for (int i = 0; ok && n->kind->arrived && i < n->n_out; i++)
        ok = td__vec_push(&t->came, r->buf[i] != NULL);
    return ok || td__fail_memory(n->cx);
}

/* A gradient that is asked for: an event, and a result of the program. */
bool td__note_gradient(td_history_trace *t, const td_rec *r) {
    for (const td_capture *c = r->capture; c; c = c->next) {
        td_tensor *g = r->buf[c->nr];
        if (!g) continue;
        if (!td__vec_push(&t->events, ((td_event){r->hides->index, c->nr})) ||
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

/* The record of a node in the traced walk: as the exploration left it in the walk
 * around it. A leaf does not accumulate here; its gradient is asked for instead. */
static bool enter(td_walk *w, const td_rec *from) {
    td_rec *r = td__walk_enter(w, from->node);
    bool    ok = r != NULL;
    if (!ok) return false;
    r->deps = from->deps;
    r->wanted = from->wanted;
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

bool td__history_trace(td_history *h, td_tensor *const *copies, td_history_trace *t) {
    td_ctx       *cx = h->w->cx;
    td_eager     *e = td__eager(cx);
    td_history   *was = e->traced;
    uint32_t      tags = cx->tags;
    td_arena_mark mark = td__arena_mark(&e->walks);
    td_walk       w = {.cx = cx, .keep = true, .some = h->w->some, .trace = t};
    bool          ok = true;
    t->events.n = t->ran.n = t->came.n = 0;
    h->copies = copies;
    e->traced = h;
    if (cx->fake) cx->tags |= TD_TAG_FROM(TD_FROM_BACKWARD);
    td__walk_begin(&w);
    for (int i = 0; i < h->w->lists.recs.n && ok; i++)
        ok = enter(&w, h->w->lists.recs.v[i]);
    ok = ok && feed(h, &w) && td__walk_run(&w);
    td__walk_end(&w);
    td__arena_reset(&e->walks, mark);
    cx->tags = tags;
    e->traced = was;
    h->copies = NULL;
    return ok && td_ok(cx);
}

/* ---- behind the code ---------------------------------------------------- */

/* Frees the saved values of the nodes that ran. */
static void release(const td_history *h, const td_history_trace *t) {
    const bool *came = t->came.v;
    for (int i = 0; i < t->ran.n; i++) {
        td_node *n = h->w->lists.recs.v[t->ran.v[i]]->node;
        if (n->kind->arrived) {
            n->kind->arrived(n, came);
            came += n->n_out;
        }
        if (!h->w->keep) td__node_release(n);
    }
}

bool td__history_finish(td_history *h, const td_history_trace *t, td_tensor **grads) {
    bool ok = true;
    release(h, t);
    for (int i = 0; i < t->events.n;) {
        int32_t at = t->events.v[i].rec;
        td_rec *r = h->w->lists.recs.v[at];
        for (; i < t->events.n && t->events.v[i].rec == at; i++) {
            int nr = t->events.v[i].nr;
            if (!ok || r->buf[nr]) td__unref(grads[i]);
            else r->buf[nr] = grads[i];
        }
        ok = ok && td__walk_run_one(h->w, r);
    }
    return ok;
}
