/* results.c -- makes the results of a call: values as the code gave them, inputs, and
 * views made anew of what they must share storage with. */
#include "runtime/plan.h"

#include <string.h>

static td_meta meta_of(const td_geom *g) {
    td_meta m = {.dtype = g->dtype,
                 .rank = g->rank,
                 .strided = true,
                 .offset = g->offset};
    memcpy(m.size, g->size, sizeof *m.size * (size_t)g->rank);
    memcpy(m.stride, g->stride, sizeof *m.stride * (size_t)g->rank);
    return m;
}

static void set_inference(td_tensor *t, bool on) {
    t->flags = (uint8_t)(on ? t->flags | TD_TF_INFERENCE : t->flags & ~TD_TF_INFERENCE);
}

static td_tensor *source_of(const td_pcall *c, const td_result *r) {
    if (r->source == TD_OF_INPUT) return c->in[r->from].u.t;
    if (r->source == TD_OF_RESULT) return c->out[r->from].u.t;
    return c->vals[c->j->bases[r->from].out].u.t;
}

/* ---- views -------------------------------------------------------------- */

static td_tensor *view(td_ctx *cx, const td_view_op *v, td_tensor *from) {
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

/* In the grad mode the view was made in, which decides what may be done with it. */
static td_tensor *replay_views(const td_pcall *c, const td_result *r) {
    td_ctx    *cx = c->p->cx;
    bool       grad = cx->grad_enabled, inference = cx->inference;
    td_tensor *t = source_of(c, r);
    cx->inference = r->creation == TD_MADE_INFERENCE;
    cx->grad_enabled = r->creation != TD_MADE_NO_GRAD && !cx->inference;
    for (int i = 0; i < r->n_views && t; i++) {
        if (r->resumed && i == r->n_views - 1) cx->grad_enabled = true;
        t = view(cx, &r->views[i], t);
    }
    cx->grad_enabled = grad;
    cx->inference = inference;
    return t;
}

static td_storage *bytes_of(const td_pcall *c, const td_result *r) {
    if (r->source != TD_OF_CAME) return source_of(c, r)->st;
    for (int i = 0; i < c->j->n_updates; i++)
        if (c->j->updates[i].input == r->from) return c->came[i].st;
    return c->in[r->from].u.t->st;
}

static td_tensor *lie_in(const td_pcall *c, const td_result *r, int i) {
    td_meta    m = meta_of(&r->geom);
    td_tensor *t = td__tensor_over(c->p->cx, bytes_of(c, r), &m);
    if (!t || !r->history) return t;
    if (r->creation == TD_MADE_CUSTOM) { /* of the input, and not to be written */
        td_tensor *src = source_of(c, r);
        t->base = td__ref(src->base ? src->base : src);
        t->creation = r->creation;
    }
    int nr = td__plan_nr(c->p, TD_TANGENT_OUTPUT, i);
    return td__set_history(t, c->node, nr) ? t : NULL;
}

/* ---- all ---------------------------------------------------------------- */

static bool attach(td_pcall *c, td_tensor *t, td_tangent_of of, int index,
                   bool history) {
    int nr = history ? td__plan_nr(c->p, of, index) : -1;
    return nr < 0 || td__set_history(t, c->node, nr);
}

static bool make_bases(td_pcall *c) {
    const td_joint *j = c->j;
    for (int i = 0; i < j->n_bases; i++) {
        td_tensor *t = c->vals[j->bases[i].out].u.t;
        if (!attach(c, t, TD_TANGENT_BASE, i, j->bases[i].history)) return false;
        if (j->bases[i].wants && td_is_nil(td_set_requires_grad(t, true))) return false;
    }
    return true;
}

/* The results themselves, those others are views of first. */
static bool make_value(td_pcall *c, int i) {
    const td_result *r = &c->j->results[i];
    if (r->how == TD_RESULT_INPUT) c->out[i] = c->in[r->from];
    if (r->how != TD_RESULT_VALUE) return true;
    c->out[i] = r->out >= 0 ? c->vals[r->out] : TD_NONE;
    if (c->out[i].kind != TD_K_TENSOR) return true;
    td_tensor *t = c->out[i].u.t;
    set_inference(t, r->inference);
    if (!attach(c, t, TD_TANGENT_OUTPUT, i, r->history)) return false;
    return !r->wants || !td_is_nil(td_set_requires_grad(t, true));
}

static bool make_alias(td_pcall *c, int i) {
    const td_result *r = &c->j->results[i];
    td_tensor       *t = NULL;
    if (r->how == TD_RESULT_VIEW) t = replay_views(c, r);
    else if (r->how == TD_RESULT_LIE) t = lie_in(c, r, i);
    else return true;
    if (!t || td_is_nil(t)) return false;
    set_inference(t, r->inference);
    if (r->stale) t->seen = td__version(t) - 1;
    c->out[i] = td_value_tensor(t);
    return !r->wants || !td_is_nil(td_set_requires_grad(t, true));
}

bool td__plan_results(td_pcall *c) {
    const td_joint *j = c->j;
    if (!make_bases(c)) return false;
    for (int i = 0; i < j->n_results; i++)
        if (!make_value(c, i)) return false;
    for (int i = 0; i < j->n_results; i++)
        if (!make_alias(c, i)) return false;
    for (int i = 0; i < j->n_results; i++)
        if (j->results[i].how == TD_RESULT_AGAIN)
            c->out[i] = c->out[j->results[i].from];
    return true;
}
