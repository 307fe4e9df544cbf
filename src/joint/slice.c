/* slice.c -- marks the events whose effect can be observed after the call, from the
 * last to the first. At the end, inputs, results, their bases and storages are live,
 * and every storage that an input used at any time. An event is live if it changes a
 * live tensor or a live storage; the tensors it reads are live before it.
 *
 * Histories are tracked separately: if only a detached alias of a tensor is live, its
 * history cannot be observed, and its value needs no tangent. */
#include "joint/joint_int.h"

typedef struct slicing {
    td_joint_run *r;
    td_ptrmap     live;    /* tensors and storages */
    td_ptrmap     visible; /* tensors whose history can be observed */
    bool          ok;
} slicing;

static void mark_live(slicing *s, const void *what) {
    if (what && !td__ptrmap_get(&s->live, what))
        s->ok &= td__ptrmap_put(&s->live, what, s);
}

static bool is_live(const slicing *s, const void *what) {
    return td__ptrmap_get(&s->live, what) != NULL;
}

/* Marks the history of t as observable, and that of its base, from which a view has
 * it. */
static void mark_history(slicing *s, const td_tensor *t) {
    const td_tensor *all[2] = {t, t->base};
    for (int i = 0; i < 2 && all[i]; i++)
        if (!td__ptrmap_get(&s->visible, all[i]))
            s->ok &= td__ptrmap_put(&s->visible, all[i], s);
}

/* Can the history of t be observed? */
static bool has_visible_history(const slicing *s, const td_tensor *t) {
    const td_tensor *base = t->base;
    return td__ptrmap_get(&s->visible, t) ||
           (base && td__ptrmap_get(&s->visible, base));
}

static void mark_tensor(slicing *s, const td_tensor *t) {
    mark_live(s, t);
    mark_live(s, t->base);
    mark_history(s, t);
}

/* Marks what the caller can observe: inputs, results, their bases and storages. */
static void find_visible(slicing *s) {
    td_joint_run *r = s->r;
    for (int i = 0; i < r->to->n_primals; i++) {
        if (!r->inputs[i].outer) continue;
        mark_tensor(s, r->inputs[i].outer);
        mark_live(s, r->f.in.v[r->inputs[i].nr].st);
        mark_live(s, r->inputs[i].outer->st);
    }
    for (int i = 0; i < r->to->n_results; i++) {
        if (r->out[i].kind != TD_K_TENSOR) continue;
        mark_tensor(s, r->out[i].u.t);
        mark_live(s, r->out[i].u.t->st);
    }
    for (int i = 0; i < r->log.all.n; i++) { /* storages that inputs used in between */
        const td_event *e = &r->log.all.v[i];
        if (e->kind == TD_EV_META && td__joint_input(r, e->t) >= 0) mark_live(s, e->st);
    }
}

/* Does the write give a live base a grad_fn? After set_, the storage of the view may be
 * another one. */
static bool reaches_base(const slicing *s, const td_event *e) {
    return e->hist && e->to->base && is_live(s, e->to->base) &&
           has_visible_history(s, e->to);
}

/* Does the event change a tensor or storage that is live? */
static bool changes_live(const slicing *s, const td_event *e) {
    bool stored = is_live(s, e->st) || is_live(s, e->was);
    switch ((td_event_kind)e->kind) {
    case TD_EV_VIEW:
        for (int i = 0; i < e->n_out; i++)
            if (is_live(s, e->out[i])) return true;
        return false;
    case TD_EV_WRITE: return stored || is_live(s, e->to) || reaches_base(s, e);
    case TD_EV_META: return stored || is_live(s, e->t);
    case TD_EV_GIVEN: /* in place, of a view: its base gets the history */
        if (e->in_place && e->t->base && is_live(s, e->t->base)) return true;
        break;
    case TD_EV_MADE:
    case TD_EV_FLAG:
    case TD_EV_TOUCH: break;
    }
    return is_live(s, e->t);
}

/* Is e a flag whose effect cannot be observed: it concerns a history that cannot be
 * observed, or changes nothing? */
static bool is_idle_flag(const slicing *s, const td_event *e) {
    return e->kind == TD_EV_FLAG && (e->idle || !has_visible_history(s, e->t));
}

/* An observable history makes the histories it was built from observable, too. */
static void mark_arg_histories(slicing *s, const td_event *e) {
    for (int i = 0; e->kind == TD_EV_VIEW && i < e->n_out; i++)
        if (e->out[i]->base && has_visible_history(s, e->out[i])) mark_history(s, e->t);
    for (int i = 0; e->kind == TD_EV_META && i < e->n_in; i++)
        if (e->in[i].kind == TD_K_TENSOR && e->in[i].u.t && e->in[i].u.t != e->t)
            mark_history(s, e->in[i].u.t);
}

/* Does the event replace the history of a tensor that only writes of elements and
 * metadata have used? Then the earlier history cannot be observed. */
static bool replaces_history(const slicing *s, const td_event *e) {
    return e->kind == TD_EV_WRITE && e->how == TD_HOW_ASSIGN && e->hist &&
           !td__tensor_summary(s->r, e->to)->observed;
}

/* Marks the tensors that a live event reads as live, and the base from which a view has
 * an observable history: requires_grad_ of the base changes it. */
static void mark_args(slicing *s, td_event *e) {
    td_tensor *t = e->kind == TD_EV_WRITE ? e->to : e->t;
    if (e->hist && !has_visible_history(s, t)) {
        e->hist = NULL;
        if (e->kind == TD_EV_WRITE) e->grad = false; /* its elements alone count */
    }
    if (replaces_history(s, e)) s->ok &= td__ptrmap_put(&s->visible, t, NULL);
    mark_arg_histories(s, e);
    mark_live(s, t);
    if (e->kind == TD_EV_WRITE || e->kind == TD_EV_TOUCH || e->kind == TD_EV_GIVEN)
        mark_live(s, t->base);
    for (int i = 0; i < e->n_in; i++) {
        if (e->in[i].kind != TD_K_TENSOR || !e->in[i].u.t) continue;
        mark_live(s, e->in[i].u.t);
        if (has_visible_history(s, e->in[i].u.t)) mark_live(s, e->in[i].u.t->base);
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
        if (!(e->live = changes_live(&s, e) && !is_idle_flag(&s, e))) continue;
        if (e->kind == TD_EV_META && !has_visible_history(&s, e->t)) e->grad = false;
        if (e->touch && !is_live(&s, e->touch)) e->touch = NULL;
        mark_args(&s, e);
    }
    td__ptrmap_free(&s.live);
    td__ptrmap_free(&s.visible);
    return s.ok || td__fail_memory(r->cx);
}
