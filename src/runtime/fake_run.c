/* fake_run.c -- a call on fake tensors (td_fakes_begin): the code does not run. Its
 * graph is replayed without elements, which gives outputs of the types that the code
 * gives, and aliases where the graph has views; node and epilogue of the plan then do
 * what they always do, so results have the strides, aliases and histories of a real
 * call. */
#include "runtime/plan.h"

bool td__plan_run_fake(td_plan *p, const td_graph *g, const td_value *in,
                       const bool *own, td_value *out) {
    td_ctx *cx = p->cx;
    bool    fake = cx->fake, grad = cx->grad_enabled;
    uint8_t takes = cx->takes_fakes;
    cx->fake = true;
    cx->grad_enabled = false;
    cx->takes_fakes = TD_FAKES_INSIDE; /* a body may close over real tensors */
    bool ok = td__graph_replay(g, in, out);
    cx->fake = fake;
    cx->grad_enabled = grad;
    cx->takes_fakes = takes;
    td__drop_owned(g, in, own, out);
    return ok && td_ok(cx);
}
