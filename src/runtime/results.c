/* results.c -- makes the results of a call: values as the code gave them, inputs, and
 * views made anew of what they must share storage with. */
#include "runtime/plan.h"

#include <string.h>

static void set_inference(td_tensor *t, bool on) {
    t->flags = (uint8_t)(on ? t->flags | TD_TF_INFERENCE : t->flags & ~TD_TF_INFERENCE);
}

static td_tensor *source_of(const td_pcall *c, const td_result *r) {
    if (r->source == TD_OF_INPUT) return c->in[r->from].u.t;
    if (r->source == TD_OF_RESULT) return c->out[r->from].u.t;
    return c->vals[c->j->bases[r->from].out].u.t;
}

/* ---- views -------------------------------------------------------------- */

td_tensor *td__plan_view(td_ctx *cx, const td_view_op *v, td_tensor *from) {
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

/* Each in the modes it was made in: they decide about its history and what may be done
 * with it. A view that is out of date is made as if nothing had been written, for
 * nobody asked for its history since. */
static td_tensor *replay_views(const td_pcall *c, const td_result *r) {
    td_ctx    *cx = c->p->cx;
    bool       grad = cx->grad_enabled, inference = cx->inference;
    td_tensor *from = source_of(c, r), *t = from;
    uint64_t   seen = from->seen;
    if (r->stale) from->seen = td__version(from);
    for (int i = 0; i < r->n_views && t; i++) {
        cx->grad_enabled = r->views[i].grad;
        cx->inference = r->views[i].inference;
        t = td__plan_view(cx, &r->views[i], t);
    }
    if (r->stale) from->seen = seen;
    if (t && t->base) t->creation = r->creation;
    cx->grad_enabled = grad;
    cx->inference = inference;
    return t;
}

/* ---- bytes -------------------------------------------------------------- */

/* Bytes results share, made by the first of them; NULL after td__fail. */
static td_storage *room_of(const td_pcall *c, int i) {
    const td_room *room = &c->j->rooms[i];
    if (c->rooms[i]) return c->rooms[i];
    td_storage *st = td__storage_make(room->bytes, false);
    if (!st) return td__fail_memory(c->p->cx), NULL;
    atomic_store_explicit(&st->version, room->version, memory_order_relaxed);
    return c->rooms[i] = st;
}

static td_storage *bytes_of(const td_pcall *c, const td_result *r) {
    if (r->source == TD_OF_ROOM) return room_of(c, r->from);
    if (r->source != TD_OF_CAME) return source_of(c, r)->st;
    for (int i = 0; i < c->j->n_updates; i++)
        if (c->j->updates[i].input == r->from) return c->came[i].st;
    return c->in[r->from].u.t->st;
}

/* Writes that eager has counted already. */
static bool fill(td_tensor *t, td_tensor *value) {
    uint64_t was = td__version(t);
    bool     ok = td__plan_put(t, value);
    atomic_store_explicit(&t->st->version, was, memory_order_relaxed);
    return ok;
}

static td_tensor *lie_in(const td_pcall *c, const td_result *r) {
    td_meta     m = td__geom_meta(&r->geom);
    td_storage *st = bytes_of(c, r);
    td_tensor  *t = st ? td__tensor_over(c->p->cx, st, &m) : NULL;
    if (!t || (r->fill && !fill(t, c->vals[r->out].u.t))) return NULL;
    if (r->history && r->creation == TD_MADE_CUSTOM) {
        td_tensor *src = source_of(c, r); /* of the input, and not to be written */
        t->base = td__ref(src->base ? src->base : src);
        t->creation = r->creation;
    }
    return t;
}

/* Strides along which no step can be taken are free in the graph, and not to who asks
 * for them: eager's say whether the bits may be read as another dtype. */
static void set_idle_strides(td_tensor *t, const td_geom *g) {
    for (int d = 0; d < t->rank; d++)
        if ((t->size[d] == 1 || t->numel == 0) && g->stride[d] != INT64_MIN)
            t->stride[d] = g->stride[d];
}

/* ---- all ---------------------------------------------------------------- */

/* Eager's result is a view, which may not be detached in place and has views of its
 * base for views: t becomes its base, and both have the history. */
static td_tensor *view_of(td_tensor *t) {
    td_ctx *cx = t->cx;
    bool    grad = cx->grad_enabled, inference = cx->inference;
    cx->grad_enabled = cx->inference = false;
    td_tensor *v = td_op_alias(t);
    cx->grad_enabled = grad;
    cx->inference = inference;
    if (v->base) v->creation = TD_MADE_PLAIN;
    return v;
}

/* Makes the i-th result, or base. */
static bool make(td_pcall *c, const td_result *r, int i, bool base) {
    td_result_how how = r->how;
    td_value     *to = base ? &c->vals[r->out] : &c->out[i];
    td_tensor    *t = NULL;
    if (how == TD_RESULT_VALUE) {
        *to = r->out >= 0 ? c->vals[r->out] : TD_NONE;
        if (to->kind != TD_K_TENSOR) return true;
        t = to->u.t;
        set_idle_strides(t, &r->geom);
    } else t = how == TD_RESULT_VIEW ? replay_views(c, r) : lie_in(c, r);
    if (!t || td_is_nil(t)) return false;
    *to = td_value_tensor(t);
    if (r->feeds && r->n_views && td__has_node(t) && !td__plan_miss(t)) return false;
    set_inference(t, r->inference);
    int nr = r->history
                 ? td__plan_nr(c->p, base ? TD_TANGENT_BASE : TD_TANGENT_OUTPUT, i)
                 : -1;
    if (nr >= 0 && !td__set_history(t, c->node, nr)) return false;
    if (r->view && !r->inference) {
        *to = td_value_tensor(t = view_of(t));
        if (td_is_nil(t) || (nr >= 0 && !td__set_history(t, c->node, nr))) return false;
    }
    if ((r->stale || r->behind) && t->base) t->seen = td__version(t) - 1;
    return !r->wants || td__plan_want(t);
}

static bool make_some(td_pcall *c, td_result_how how, bool early) {
    const td_joint *j = c->j;
    bool            ok = true;
    for (int i = 0; ok && i < j->n_bases; i++)
        if (j->bases[i].how == how && j->bases[i].early == early)
            ok = make(c, &j->bases[i], i, true);
    for (int i = 0; ok && i < j->n_results; i++)
        if (j->results[i].how == how && j->results[i].early == early)
            ok = make(c, &j->results[i], i, false);
    return ok;
}

/* First what others lie in or are views of. */
static bool make_all(td_pcall *c) {
    if (!make_some(c, TD_RESULT_VALUE, false) || !make_some(c, TD_RESULT_LIE, false) ||
        !make_some(c, TD_RESULT_VIEW, true))
        return false;
    return td__plan_detach(c) && make_some(c, TD_RESULT_VIEW, false);
}

bool td__plan_results(td_pcall *c) {
    const td_joint *j = c->j;
    if (j->n_rooms &&
        !(c->rooms = td__zalloc(sizeof(td_storage *) * (size_t)j->n_rooms)))
        return td__fail_memory(c->p->cx);
    for (int i = 0; i < j->n_results; i++)
        if (j->results[i].how == TD_RESULT_INPUT) c->out[i] = c->in[j->results[i].from];
    bool ok = make_all(c);
    for (int i = 0; c->rooms && i < j->n_rooms; i++)
        if (c->rooms[i]) td__storage_drop(c->rooms[i]);
    td__free(c->rooms);
    for (int i = 0; ok && i < j->n_results; i++)
        if (j->results[i].how == TD_RESULT_AGAIN)
            c->out[i] = c->out[j->results[i].from];
    return ok;
}
