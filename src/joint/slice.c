/* slice.c -- marks the events whose effect can be observed after the call, from the end
 * upwards. Inputs, results and their bases are live at the end; so are the storages
 * that any input used at any time, and those of live tensors. An event is live if it
 * changes a live tensor or a live storage; the tensors it reads are live before it.
 *
 * Histories are tracked apart: the history of a tensor that lives on by a detached
 * alias alone cannot be observed, and no tangent is needed for it. */
#include "joint/joint_int.h"

typedef struct slicing {
    td_joint_run *r;
    td_ptrmap     live;  /* tensors and storages */
    td_ptrmap     asked; /* tensors whose history can be observed */
    bool          ok;
} slicing;

static void enliven(slicing *s, const void *what) {
    if (what && !td__ptrmap_get(&s->live, what))
        s->ok &= td__ptrmap_put(&s->live, what, s);
}

static bool lives(const slicing *s, const void *what) {
    return td__ptrmap_get(&s->live, what) != NULL;
}

/* The history of t can be observed, and that of its base, which a view has it from. */
static void ask(slicing *s, const td_tensor *t) {
    const td_tensor *all[2] = {t, t->base};
    for (int i = 0; i < 2 && all[i]; i++)
        if (!td__ptrmap_get(&s->asked, all[i]))
            s->ok &= td__ptrmap_put(&s->asked, all[i], s);
}

/* Can the history of t be observed? */
static bool is_asked(const slicing *s, const td_tensor *t) {
    const td_tensor *base = t->base;
    return td__ptrmap_get(&s->asked, t) || (base && td__ptrmap_get(&s->asked, base));
}

static void enliven_tensor(slicing *s, const td_tensor *t) {
    enliven(s, t);
    enliven(s, t->base);
    ask(s, t);
}

/* What is observable at the end: inputs, results, their bases and storages. */
static void find_visible(slicing *s) {
    td_joint_run *r = s->r;
    for (int i = 0; i < r->to->n_primals; i++) {
        if (!r->inputs[i].outer) continue;
        enliven_tensor(s, r->inputs[i].outer);
        enliven(s, r->f.in.v[r->inputs[i].nr].st);
        enliven(s, r->inputs[i].outer->st);
    }
    for (int i = 0; i < r->to->n_results; i++) {
        if (r->out[i].kind != TD_K_TENSOR) continue;
        enliven_tensor(s, r->out[i].u.t);
        enliven(s, r->out[i].u.t->st);
    }
    for (int i = 0; i < r->log.all.n; i++) { /* storages inputs were in for a while */
        const td_event *e = &r->log.all.v[i];
        if (e->kind == TD_EV_META && td__joint_input(r, e->t) >= 0) enliven(s, e->st);
    }
}

/* Does the write give a live base a history? The storage of the view may be another by
 * then, after set_. */
static bool reaches_base(const slicing *s, const td_event *e) {
    return e->hist && e->to->base && lives(s, e->to->base) && is_asked(s, e->to);
}

/* Does the event change a tensor or storage that is live? */
static bool is_seen(const slicing *s, const td_event *e) {
    bool stored = lives(s, e->st) || lives(s, e->was);
    switch ((td_event_kind)e->kind) {
    case TD_EV_VIEW:
        for (int i = 0; i < e->n_out; i++)
            if (lives(s, e->out[i])) return true;
        return false;
    case TD_EV_WRITE: return stored || lives(s, e->to) || reaches_base(s, e);
    case TD_EV_META: return stored || lives(s, e->t);
    case TD_EV_GIVEN: /* in place, of a view: its base gets the history */
        if (e->in_place && e->t->base && lives(s, e->t->base)) return true;
        break;
    case TD_EV_MADE:
    case TD_EV_FLAG:
    case TD_EV_TOUCH: break;
    }
    return lives(s, e->t);
}

/* Is e a flag whose effect cannot be observed: a history that nothing asks for, or one
 * that changes nothing? */
static bool is_idle(const slicing *s, const td_event *e) {
    return e->kind == TD_EV_FLAG && (e->idle || !is_asked(s, e->t));
}

/* The histories that an observable history is made of are observable too. */
static void ask_args(slicing *s, const td_event *e) {
    for (int i = 0; e->kind == TD_EV_VIEW && i < e->n_out; i++)
        if (e->out[i]->base && is_asked(s, e->out[i])) ask(s, e->t);
    for (int i = 0; e->kind == TD_EV_META && i < e->n_in; i++)
        if (e->in[i].kind == TD_K_TENSOR && e->in[i].u.t && e->in[i].u.t != e->t)
            ask(s, e->in[i].u.t);
}

/* Does the event replace the history of a tensor that only writes of elements and
 * metadata have used? Then the history before cannot be observed. */
static bool replaces(const slicing *s, const td_event *e) {
    return e->kind == TD_EV_WRITE && e->how == TD_HOW_ASSIGN && e->hist &&
           !td__about_tensor(s->r, e->to)->observed;
}

/* What a live event reads is live before it, and so is the base that an observable
 * history of a view is from: requires_grad_ of the base changes it. */
static void enliven_args(slicing *s, td_event *e) {
    td_tensor *t = e->kind == TD_EV_WRITE ? e->to : e->t;
    if (e->hist && !is_asked(s, t)) {
        e->hist = NULL;
        if (e->kind == TD_EV_WRITE) e->grad = false; /* its elements alone count */
    }
    if (replaces(s, e)) s->ok &= td__ptrmap_put(&s->asked, t, NULL);
    ask_args(s, e);
    enliven(s, t);
    if (e->kind == TD_EV_WRITE || e->kind == TD_EV_TOUCH || e->kind == TD_EV_GIVEN)
        enliven(s, t->base);
    for (int i = 0; i < e->n_in; i++) {
        if (e->in[i].kind != TD_K_TENSOR || !e->in[i].u.t) continue;
        enliven(s, e->in[i].u.t);
        if (is_asked(s, e->in[i].u.t)) enliven(s, e->in[i].u.t->base);
    }
}

/* Marks the events that can be observed after the call (e->live), from last to first,
 * as a program slice does: an event is live if its tensor or storage is visible or used
 * by a live event. */
bool td__log_slice(td_joint_run *r) {
    slicing s = {.r = r, .ok = true};
    find_visible(&s);
    for (int i = r->log.all.n - 1; s.ok && i >= 0; i--) {
        td_event *e = &r->log.all.v[i];
        e->out_nr = -1;
        if (!(e->live = is_seen(&s, e) && !is_idle(&s, e))) continue;
        if (e->kind == TD_EV_META && !is_asked(&s, e->t)) e->grad = false;
        if (e->touch && !lives(&s, e->touch)) e->touch = NULL;
        enliven_args(&s, e);
    }
    td__ptrmap_free(&s.live);
    td__ptrmap_free(&s.asked);
    return s.ok || td__fail_memory(r->cx);
}
