/* modes.c -- the mode stack of a context: modes pushed and popped, and calls
 * that run under other modes than the user's. The only file besides core.h that
 * assigns cx->top or td_mode.below. */
#include "core/core.h"

/* ---- pushing and popping ------------------------------------------------ */

/* The link where m is pushed or popped: below a mode that always stays first. */
static td_mode **place(td_ctx *cx, const td_mode *m) {
    bool under = cx->top && cx->top->first && cx->top != m && !m->first;
    return under ? &cx->top->below : &cx->top;
}

void td__mode_push(td_ctx *cx, td_mode *m) {
    td_mode **at = place(cx, m);
    m->below = *at;
    *at = m;
}

void td__mode_pop(td_ctx *cx, td_mode *m) {
    td_mode **at = place(cx, m);
    TD_ASSERT(*at == m);
    *at = m->below;
}

/* The link that points to m; the last link of the stack if m is not on it. */
static td_mode **link_to(td_ctx *cx, const td_mode *m) {
    td_mode **at = &cx->top;
    while (*at && *at != m) at = &(*at)->below;
    return at;
}

void td__mode_insert(td_ctx *cx, td_mode *m) {
    td_mode **at = link_to(cx, cx->tape);
    m->below = *at;
    *at = m;
}

void td__mode_remove(td_ctx *cx, td_mode *m) {
    td_mode **at = link_to(cx, m);
    if (*at) *at = m->below;
}

td_mode *td__mode_inner(const td_ctx *cx) {
    return cx->top && cx->top->first ? cx->top->below : cx->top;
}

void td__modes_drop(td_ctx *cx, const td_mode *until) {
    for (td_mode *m; (m = td__mode_inner(cx)) && m != until && m->drop;) {
        td__mode_pop(cx, m);
        m->drop(m);
    }
}

/* ---- running under other modes ------------------------------------------- */

void td__modes_tape(td_ctx *cx, td_mode *below) {
    cx->top = cx->tape;
    if (cx->tape) cx->tape->below = below;
}

td_mode_scope td__modes_enter(td_ctx *cx, td_mode *m) {
    td_mode_scope s = {.top = cx->top,
                       .below = cx->tape ? cx->tape->below : NULL,
                       .grad_enabled = cx->grad_enabled,
                       .inference = cx->inference,
                       .fake = cx->fake,
                       .takes_fakes = cx->takes_fakes};
    cx->top = m;
    return s;
}

td_mode_scope td__modes_enter_plain(td_ctx *cx, td_mode *m) {
    td_mode_scope s = td__modes_enter(cx, m);
    cx->grad_enabled = cx->inference = false;
    return s;
}

void td__modes_leave(td_ctx *cx, const td_mode_scope *s) {
    td__modes_tape(cx, s->below);
    cx->top = s->top;
    cx->grad_enabled = s->grad_enabled;
    cx->inference = s->inference;
    cx->fake = s->fake;
    cx->takes_fakes = s->takes_fakes;
}
