/* program_inputs.c -- which tensors the inputs of a program are. */
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
