/* average.c -- averages of a module's parameters: EMA and SWA. */
#include "nn/optim.h"

#include <stdio.h>

/* A walk over `into`; `to` has the tensors found so far, in the order of the walk. */
typedef struct averaging {
    td_ctx    *cx;
    td_module *from;
    TD_VEC(td_tensor *) into, with;
    TD_VEC(bool) copied; /* a buffer, which is copied */
} averaging;

/* Finds the tensor of that name, and checks its type. False after td__fail. */
static bool match(void *env, const td_member *m) {
    averaging *a = env;
    td_tensor *with = td_module_get(a->from, m->name);
    char       is[160];
    if (with && td_is_nil(with)) return false;
    if (!with)
        return td__fail(a->cx, TD_E_ARG, "td_module_average: `from` has no \"%.200s\"",
                        m->name);
    if (!td__same_type(m->t, with)) {
        snprintf(is, sizeof is, "%s", td__type_str(with));
        return td__fail(a->cx, TD_E_SHAPE,
                        "td_module_average: \"%.200s\" is %s in `from`, but %s in "
                        "`into`; td_module_copy makes a module of the same types",
                        m->name, is, td__type_str(m->t));
    }
    bool ok = td__vec_push(&a->into, m->t) && td__vec_push(&a->with, with) &&
              td__vec_push(&a->copied, m->buffer);
    return ok || td__fail_memory(a->cx);
}

static void average(const averaging *a, double w) {
    td_grad_mode was = td_no_grad_begin(a->cx);
    for (int i = 0; i < a->into.n && td_ok(a->cx); i++)
        if (a->copied.v[i]) td_copy_(a->into.v[i], a->with.v[i]);
        else td_lerp_(a->into.v[i], a->with.v[i], w);
    td_no_grad_end(a->cx, was);
}

bool td_module_average(td_module *into, td_module *from, double w) {
    if (!TD_ENTER(into, MODULE)) return false;
    td_ctx *cx = td_module_ctx(into);
    if (!td__enter_in(cx, from, TD_H_MODULE, "td_module_average") || !td_ok(cx))
        return false;
    if (!(w >= 0 && w <= 1))
        return td__fail(cx, TD_E_ARG,
                        "td_module_average: w is %g; it must be in [0, 1]", w);
    averaging a = {.cx = cx, .from = from};
    bool      ok = td_module_visit(into, TD_VISIT_ALL, match, &a);
    if (ok) average(&a, w);
    td__vec_free(&a.into);
    td__vec_free(&a.with);
    td__vec_free(&a.copied);
    return ok && td_ok(cx);
}
