/* ambient.c -- the ambient state of a context: saved and cleared while a trace
 * runs, and restored on every way out. Code that runs a body or a graph in
 * order to record it does so between td__ambient_clear and td__ambient_restore. */
#include "core/core.h"

/* The seed during a trace: an unlikely one, so that a body that sets it is noticed. */
#define TRACE_SEED 0x7ac3d5eedull

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
    cx->rng_seed = TRACE_SEED;
    td__modes_tape(cx, NULL);
    td_here = (td_where){0}; /* it may point into a graph that was freed */
    return true;
}

/* Removes whatever modes, scopes and hooks the trace left, then puts the caller's state
 * back. After a failure the current source line stays: the error names it. */
void td__ambient_restore(td_ctx *cx, const td_outside *o, bool ok) {
    td__modes_drop(cx, cx->tape);
    while (cx->scopes.n > o->scopes) td__scope_pop(cx, NULL, 0);
    if (cx->hooks && cx->hooks->free_ambient) cx->hooks->free_ambient(cx);
    td__modes_tape(cx, o->below);
    cx->ambient = o->was;
    if (ok) td_here = o->here;
}
