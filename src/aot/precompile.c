/* precompile.c -- td_fn_precompile: the specialization that a call with such arguments
 * would make, with the code of both halves. */
#include "core/callback.h"
#include "aot/aot.h"
#include "tandem/fake.h"

/* The stages for these arguments and the code of backward. False after td__fail. */
static bool precompile(td_fn *f, td_values args) {
    if (!td__fn_prepare(f, args)) return false;
    td_plan *p = f->specs ? f->specs->plan : NULL; /* the one found is the first */
    return !p || !p->h || td__plan_compile_back(p, &p->back);
}

/* A function with state takes the members before the user's arguments. */
static bool precompile_state(td_fn *f, td_values args) {
    td_values all;
    if (!td__state_renew(f) || !td__state_args(f, args, &all)) return false;
    bool ok = precompile(f, all);
    td__state_give(f, all);
    return ok;
}

/* The user's backends and passes run, as in a call. */
bool td_fn_precompile(td_fn *f, td_values args) {
    static const char who[] = "td_fn_precompile";
    td_callback       b;
    if (!td__enter(f, TD_H_FN, who) || !td_ok(f->cx) ||
        !td__has_list(f->cx, who, args.v, args.n) ||
        !td__may_change(f->cx, who, "a compiled function"))
        return false;
    f->calls++; /* a callback may drop the function */
    td__callback_begin(&b, f->cx);
    bool ok = f->state ? precompile_state(f, args) : precompile(f, args);
    td__callback_end(&b);
    td__fn_leave(f);
    return ok;
}
