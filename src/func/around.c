/* around.c -- what every run of a program under the functional mode begins and ends
 * with: which tensors its inputs are, and the context put back as it was. */
#include "func/func.h"

bool td__program_inputs(const td_graph *p, const td_value *in, td_value *to) {
    for (int i = 0; i < p->inputs.n; i++) {
        const td_desc *d = &p->in_desc.v[i];
        td_value       v = in[i];
        if (v.kind == TD_K_NONE && d->kind == TD_D_CONST && d->index >= 0 &&
            d->index < p->consts.n)
            v = td_value_tensor(p->consts.v[d->index]);
        to[i] = v;
        if (v.kind == TD_K_TENSOR && (!v.u.t || td_is_nil(v.u.t)))
            return td__fail(p->cx, TD_E_ARG, "@%.60s: input %d is missing", p->name, i);
    }
    return true;
}

td_outside td__step_in(td_ctx *cx) {
    td_outside o = {cx->top,        cx->tape->below, cx->grad_enabled,
                    cx->inference,  cx->fake,        cx->rng_seed,
                    cx->rng_offset, td_here,         cx->tags};
    cx->tags = 0;
    td_here = (td_where){0}; /* an earlier failure's may lie in a graph now gone */
    return o;
}

void td__step_out(td_ctx *cx, const td_outside *o, bool ok) {
    cx->top = o->top;
    cx->tape->below = o->below;
    cx->grad_enabled = o->grad;
    cx->inference = o->inference;
    cx->fake = o->fake;
    cx->tags = o->tags;
    td_rng_set(cx, o->seed, o->offset);
    if (ok) td_here = o->here;
}
