/* check_parts.c -- a composite fails for certain values if a part of it may: passes
 * keep a call that may fail, and read that from the composite's row. */
#include "sample.h"

#include "ops/ops.h"

#include <stdio.h>
#include <string.h>

typedef struct part_mode {
    td_mode     mode;
    const char *picky; /* a part that may fail for certain values; NULL: none yet */
} part_mode;

/* As may_fail in graph/effects.c: a view was checked when it was traced, and of
 * pointwise ops only those on integers fail. */
static bool may_fail(const td_opcall *c) {
    uint32_t flags = c->def->flags;
    if (!(flags & TD_OPF_PICKY) || flags & TD_OPF_VIEW) return false;
    return !(flags & TD_OPF_POINTWISE) ||
           !td__is_differentiable((td_dtype)c->out[0]->dtype);
}

static bool see(td_mode *m, td_opcall *c) {
    bool ok = td__call_below(m, c);
    if (ok && may_fail(c)) ((part_mode *)m)->picky = c->def->name;
    return ok;
}

void check_parts(td_ctx *cx, report *r) {
    static inputs in;
    td_op         op = td__op_find(r->s->op_name);
    part_mode     p = {.mode = {.name = "parts", .below = cx->top, .call = see}};
    if (!td__opinfo(op)->composite || td__row(op)->flags & TD_OPF_PICKY) return;
    memset(&in, 0, sizeof in);
    td_mode *was = td__modes_from(cx, &p.mode);
    inputs_call(cx, r->s, op, NULL, &in);
    td__modes_from(cx, was);
    td_clear(cx);
    if (p.picky)
        fail_sample(r, "its part %s has TD_OPF_PICKY, and its own row has not",
                    p.picky);
}
