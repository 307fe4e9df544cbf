/* pure_help.h -- the functional form of a program as something to call: its graph,
 * replayed op by op, and behind it what its plan does. */
#ifndef TD_PURE_HELP_H
#define TD_PURE_HELP_H

#include "runtime/plan.h"

/* j may be NULL, and is the plan's. NULL after a failure. */
static inline td_plan *pure_plan(td_joint *j) {
    td_plan_opts o = {.fwd = &td__interp, .bwd = &td__interp, .limit = 1};
    return j ? td__plan_make(j, NULL, &o) : NULL;
}

/* For inputs like these; symbols: and for other sizes. */
static inline td_plan *pure_form(const td_graph *g, const td_value *in, bool symbols) {
    td_buf   guards = {0};
    td_plan *p = pure_plan(td__functional_form(g, in, symbols ? &guards : NULL));
    td__buf_free(&guards);
    return p;
}

static inline bool pure_call(td_plan *p, td_value *in, td_value *out) {
    return p && td__plan_call(p, NULL, in, NULL, out);
}

#endif
