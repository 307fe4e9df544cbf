/* merge.c -- merges writes before the epilogue is written. Writes of one storage that
 * nothing observes in between become one write; the others only increase the version. A
 * tensor that is made and written in one run is made with its last value.
 *
 * A run is a sequence of writes of one storage. An event that reads or changes
 * metadata, flags or storages of its tensors ends it, and so does a grad_fn that a
 * custom function sets. A view made inside a run does not: it is stale after the next
 * write and recomputes its grad_fn from its base. A view of a multi-output view does:
 * eager refuses to recompute its grad_fn once its base has one, and the run may give
 * the base a grad_fn earlier than the program does. */
#include "joint/joint_int.h"

/* ---- one run ------------------------------------------------------------ */

typedef struct run {
    int         first, last; /* events; first -1: no write so far */
    int         made;  /* the event that makes a tensor of the storage; -1: none */
    bool        same;  /* all writes are of the same tensor */
    bool        whole; /* all writes are of `base` or of views of it */
    td_tensor  *t, *base;
    struct run *next; /* all */
} run;

typedef struct merging {
    td_joint_run *r;
    td_ptrmap     runs; /* by storage */
    run          *all;
    int          *next; /* by event, a write: the next of its run; -1: none */
    td_arena      arena;
} merging;

/* The value that event e gives `to`, which is e->t or its base; below, the root. */
static td_tensor *value_for(const td_event *e, const td_tensor *to) {
    return e->t == to ? e->value : e->whole;
}

static td_tensor *root_for(const td_event *e, const td_tensor *to) {
    return e->t == to ? e->root : e->whole_root;
}

/* The tensor whose write can replace all writes of the run; NULL: none. */
static td_tensor *target_of(const merging *m, const run *u) {
    const td_event *all = m->r->log.all.v;
    if (u->whole && u->base && u->made >= 0 && all[u->made].t == u->base)
        return u->base;
    if (u->same) return u->t;
    /* The base of an input is not a value of the epilogue, unless it is passed, too. */
    bool named = u->base && td__tensor_summary(m->r, u->base)->named;
    return u->whole && named ? u->base : NULL;
}

/* A recorded write sets the grad_fn of the view it went through, which is current until
 * the next write. A stale grad_fn is observable only if the base loses its own
 * (requires_grad_, detach_): the view still requires grad then. If the write became a
 * bump, the epilogue recomputes the grad_fn of the view after the write at `at`. */
static void keep_touches(const merging *m, const run *u, const td_event *at) {
    td_event *all = m->r->log.all.v;
    bool      flagged = td__storage_summary(m->r, all[u->first].st)->flagged;
    for (int i = u->first; i >= 0; i = m->next[i]) {
        td_event *e = &all[i];
        bool      last = i == u->last;
        bool      counted = last && e != at && td__joint_is_view(m->r, e->t);
        bool      other = (last || flagged) && e->t != e->to;
        if (e->recorded && (other || counted)) e->touch = e->t;
    }
}

/* Chooses how the epilogue performs the writes of a run that has ended. */
static void close_run(const merging *m, const run *u) {
    td_event  *all = m->r->log.all.v;
    td_tensor *to = u->first < 0 ? NULL : target_of(m, u);
    td_event  *made = u->made >= 0 && to == all[u->made].t ? &all[u->made] : NULL;
    td_event  *recorded = NULL, *begins = NULL, *last = to ? &all[u->last] : NULL;
    if (!to) return;
    for (int i = u->first; i >= 0; i = m->next[i]) {
        td_event *e = &all[i];
        e->how = TD_HOW_BUMP;
        e->to = to;
        e->put = e->hist = NULL;
        if (e->recorded) recorded = e;
        if (e->recorded && !begins) begins = e;
    }
    td_event *at = made ? made : begins ? begins : last;
    keep_touches(m, u, at);
    at->put = value_for(last, to);
    if (recorded) at->hist = root_for(recorded, to);
    if (made) return;
    at->shares = last->t == to ? last->shares : last->whole_shares;
    bool assign =
        m->r->opts.assign_writes && !td__joint_is_view(m->r, to) && !at->shares;
    at->how = assign ? TD_HOW_ASSIGN : TD_HOW_COPY;
}

/* ---- all ---------------------------------------------------------------- */

/* The run of a storage, empty if none has begun. NULL: no memory. */
static run *run_of(merging *m, const td_storage *st) {
    run *u = td__ptrmap_get(&m->runs, st);
    if (u) return u;
    u = td__arena_zalloc(&m->arena, sizeof *u);
    if (!u || !td__ptrmap_put(&m->runs, st, u)) return NULL;
    *u = (run){.first = -1, .last = -1, .made = -1, .next = m->all};
    return m->all = u;
}

/* Closes the run of a storage; the next event begins another. */
static bool end_run(merging *m, const td_storage *st) {
    run *u = run_of(m, st), *next;
    if (!u) return false;
    close_run(m, u);
    next = u->next;
    *u = (run){.first = -1, .last = -1, .made = -1, .next = next};
    return true;
}

/* Appends event i, a write, to the run of its storage. */
static bool add_write(merging *m, int i) {
    const td_event *e = &m->r->log.all.v[i];
    run            *u = run_of(m, e->st);
    td_tensor      *base = e->whole ? e->t->base : e->t;
    if (!u) return false;
    if (u->first < 0) {
        u->first = i;
        u->same = u->whole = true;
        u->t = e->t;
        u->base = base;
    }
    u->same &= u->t == e->t;
    u->whole &= u->base == base;
    if (u->last >= 0) m->next[u->last] = i;
    m->next[i] = -1;
    u->last = i;
    return m->r->opts.merge_writes || end_run(m, e->st);
}

/* A view made before its base had a grad_fn has none after the base loses it
 * (requires_grad_, detach_): then the base must not be made with its later grad_fn. A
 * view of a multi-output view ends the run, see above. */
static bool add_view(merging *m, const td_event *e) {
    run *u = run_of(m, e->st);
    if (u && td__storage_summary(m->r, e->st)->flagged) u->made = -1;
    return u && (!e->t->base || e->t->creation == TD_MADE_PLAIN || end_run(m, e->st));
}

/* Adds the event to the run of writes of its storage, or ends the runs that it
 * observes. Writes that are not merged are performed by copy_ (TD_HOW_COPY). */
static bool add_event(merging *m, int i) {
    td_event *e = &m->r->log.all.v[i];
    e->how = TD_HOW_COPY;
    e->to = e->t;
    e->put = e->value;
    e->hist = e->root;
    switch ((td_event_kind)e->kind) {
    case TD_EV_MADE: {
        run *u = run_of(m, e->st);
        if (u && m->r->opts.merge_made) u->made = i;
        return u != NULL;
    }
    case TD_EV_WRITE: return add_write(m, i);
    case TD_EV_META:
    case TD_EV_FLAG:
    case TD_EV_GIVEN: return end_run(m, e->was) && end_run(m, e->st);
    case TD_EV_VIEW: return add_view(m, e);
    case TD_EV_TOUCH: break;
    }
    return true;
}

/* Replaces each run of writes by one write with the last value and grad_fn; the others
 * only increase versions. */
bool td__log_merge(td_joint_run *r) {
    merging m = {.r = r};
    m.next = td__arena_alloc(&m.arena, sizeof *m.next * (size_t)(r->log.all.n + 1));
    bool ok = m.next != NULL;
    for (int i = 0; ok && i < r->log.all.n; i++) ok = add_event(&m, i);
    for (run *u = m.all; ok && u; u = u->next) close_run(&m, u);
    td__ptrmap_free(&m.runs);
    td__arena_free(&m.arena);
    return ok || td__fail_memory(r->cx);
}
