/* ambient.c -- the ambient state of a context: saved and cleared while a trace
 * runs, and restored on every way out. Code that runs a body or a graph in
 * order to record it does so between td__ambient_clear and td__ambient_restore. */
#include "core/core.h"

/* The state at the start of a trace; fields not listed are zero. */
static td_ambient defaults(const td_ctx *cx) {
    return (td_ambient){.top = cx->tape, .grad_enabled = true, .default_dtype = TD_F32};
}

void td__ambient_init(td_ctx *cx) { cx->ambient = defaults(cx); }

/* Begins a trace that must not depend on its caller: default modes and grad state, a
 * fixed seed, no hooks, the tape alone. Undo with td__ambient_restore on every path. */
bool td__ambient_clear(td_ctx *cx, td_outside *o) {
    *o = (td_outside){.was = cx->ambient,
                      .below = cx->tape ? cx->tape->below : NULL,
                      .scopes = cx->scopes.n,
                      .here = td_here};
    if (!td__scope_push(cx)) return false;
    cx->ambient = defaults(cx);
    cx->last_serial = td__handle_last();
    cx->hooks_before = cx->last_hook;
    td__modes_tape(cx, NULL);
    td__named_ctx = cx;      /* calls without a context belong to the trace */
    td_here = (td_where){0}; /* it may point into a graph that was freed */
    return true;
}

/* Removes the modes, scopes and hooks that the trace left, then restores the caller's
 * state. After a failure the current source line stays, so that the error names it. */
void td__ambient_restore(td_ctx *cx, const td_outside *o, bool ok) {
    td__modes_drop(cx, cx->tape);
    while (cx->scopes.n > o->scopes) td__scope_pop(cx, NULL, 0);
    if (cx->hooks && cx->hooks->free_ambient) cx->hooks->free_ambient(cx);
    td__modes_tape(cx, o->below);
    cx->ambient = o->was;
    if (ok) td_here = o->here;
}

void td__ambient_swap(td_ctx *cx, td_outside *o) {
    td_outside to = *o;
    *o = (td_outside){.was = cx->ambient,
                      .below = cx->tape->below,
                      .scopes = to.scopes,
                      .here = to.here};
    td__modes_tape(cx, to.below);
    cx->ambient = to.was;
}

/* ---- state that is in no tensor ------------------------------------------ */

bool td__may_read(const td_ctx *cx, const char *who, const char *what) {
    return TD_LIKELY(!cx->fake) ||
           td__fail((td_ctx *)(uintptr_t)cx, TD_E_TRACE,
                    "%s: a captured body cannot read %s, because later calls would not "
                    "read it again. Read it outside and pass the value as an argument",
                    who, what);
}

bool td__may_change(const td_ctx *cx, const char *who, const char *what) {
    return TD_LIKELY(!cx->fake) ||
           td__fail((td_ctx *)(uintptr_t)cx, TD_E_TRACE,
                    "%s: a captured body cannot change %s, because later calls would "
                    "not repeat the change. Do it outside of the call",
                    who, what);
}

bool td__may_change_object(const void *object, const char *who, const char *what) {
    const td_handle *h = object;
    bool             own = (int32_t)(h->serial - h->cx->last_serial) > 0;
    return own || td__may_change(h->cx, who, what);
}
