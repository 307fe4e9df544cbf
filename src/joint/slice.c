/* slice.c -- which events of a program somebody outside can see. That is found from the
 * end. Tensors that live on are inputs, results, and what those are views of; storages
 * that live on are those that any input used at any time and those that live tensors
 * end in. An event stays if it changes a live tensor or a live storage; tensors it
 * reads are live from there upwards.
 *
 * Histories are looked at apart: of a tensor that lives on by a detached alias alone
 * nobody can ask for the history, and no tangent comes in for it. */
#include "joint/joint_int.h"

typedef struct slicing {
    td_joint_run *r;
    td_ptrmap     live;  /* tensors and storages */
    td_ptrmap     asked; /* tensors somebody may ask for their history */
    bool          ok;
} slicing;

static void enliven(slicing *s, const void *what) {
    if (what && !td__ptrmap_get(&s->live, what))
        s->ok &= td__ptrmap_put(&s->live, what, s);
}

static bool lives(const slicing *s, const void *what) {
    return td__ptrmap_get(&s->live, what) != NULL;
}

/* A view has its history from its base. */
static void ask(slicing *s, const td_tensor *t) {
    const td_tensor *all[2] = {t, t->base};
    for (int i = 0; i < 2 && all[i]; i++)
        if (!td__ptrmap_get(&s->asked, all[i]))
            s->ok &= td__ptrmap_put(&s->asked, all[i], s);
}

static bool is_asked(const slicing *s, const td_tensor *t) {
    const td_tensor *base = t->base;
    return td__ptrmap_get(&s->asked, t) || (base && td__ptrmap_get(&s->asked, base));
}

static void enliven_tensor(slicing *s, const td_tensor *t) {
    enliven(s, t);
    enliven(s, t->base);
    ask(s, t);
}

static void find_visible(slicing *s) {
    td_joint_run *r = s->r;
    for (int i = 0; i < r->to->n_primals; i++) {
        if (!r->outer[i]) continue;
        enliven_tensor(s, r->outer[i]);
        enliven(s, r->f.in.v[r->nr[i]].st);
        enliven(s, r->outer[i]->st);
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

static bool is_seen(const slicing *s, const td_event *e) {
    bool stored = lives(s, e->st) || lives(s, e->was);
    switch ((td_event_kind)e->kind) {
    case TD_EV_VIEW:
        for (int i = 0; i < e->n_out; i++)
            if (lives(s, e->out[i])) return true;
        return false;
    case TD_EV_WRITE: return stored || lives(s, e->to);
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

/* Flags say who has which history; does nobody ask for that, or was it so before? */
static bool is_idle(const slicing *s, const td_event *e) {
    return e->kind == TD_EV_FLAG && (e->idle || !is_asked(s, e->t));
}

/* Whose history the event's is made of, where somebody asks for that. */
static void ask_args(slicing *s, const td_event *e) {
    for (int i = 0; e->kind == TD_EV_VIEW && i < e->n_out; i++)
        if (e->out[i]->base && is_asked(s, e->out[i])) ask(s, e->t);
    for (int i = 0; e->kind == TD_EV_META && i < e->n_in; i++)
        if (e->in[i].kind == TD_K_TENSOR && e->in[i].u.t && e->in[i].u.t != e->t)
            ask(s, e->in[i].u.t);
}

/* Does the event replace the history of a tensor that nothing but writes of elements
 * and geometry has seen? Nobody can ask for the one before. */
static bool replaces(const slicing *s, const td_event *e) {
    return e->kind == TD_EV_WRITE && e->how == TD_HOW_ASSIGN && e->hist &&
           !td__about_tensor(s->r, e->to)->observed;
}

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
    for (int i = 0; i < e->n_in; i++)
        if (e->in[i].kind == TD_K_TENSOR && e->in[i].u.t) enliven(s, e->in[i].u.t);
}

bool td__log_slice(td_joint_run *r) {
    slicing s = {.r = r, .ok = true};
    find_visible(&s);
    for (int i = r->log.all.n - 1; s.ok && i >= 0; i--) {
        td_event *e = &r->log.all.v[i];
        e->out_nr = -1;
        if (!(e->kept = is_seen(&s, e) && !is_idle(&s, e))) continue;
        if (e->kind == TD_EV_META && !is_asked(&s, e->t)) e->grad = false;
        if (e->touch && !lives(&s, e->touch)) e->touch = NULL;
        enliven_args(&s, e);
    }
    td__ptrmap_free(&s.live);
    td__ptrmap_free(&s.asked);
    return s.ok || td__fail_memory(r->cx);
}
