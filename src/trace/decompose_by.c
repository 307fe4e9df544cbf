/* decompose_by.c -- decompositions by the user: a mode that passes each call of a
 * chosen op to the user's function, with the op's source location, and compares the
 * results of the function with those of the op. */
#include "core/callback.h"
#include "tandem/aot.h"
#include "trace/trace_int.h"

#include "core/geometry.h"
#include "ops/call.h"

#include <string.h>

/* The table on the mode stack. */
typedef struct decompose_by {
    td_mode                mode; /* first: the mode is this */
    const td_decompose_by *by;
    int     first_scope;      /* scopes from this one on were opened by the graph */
    int16_t row[TD_OP_LIMIT]; /* 1 + index in the table; 0: none */
} decompose_by;

bool td__decompose_by_check(td_ctx *cx, const char *op) {
    static const char who[] = "td_aot_opts.decompositions";
    td_op             nr = td__op_find(op);
    if (nr == TD_OP_COUNT)
        return td__fail(cx, TD_E_ARG,
                        "%s: there is no op %.60s; docs/ops.md lists the ops", who, op);
    uint32_t    flags = td__row(nr)->flags;
    const char *why = flags & (TD_OPF_RANDOM | TD_OPF_DRAWS) ? "draws random numbers"
                      : flags & TD_OPF_NESTS                 ? "takes graphs"
                      : flags & (TD_OPF_VIEW | TD_OPF_SHARE | TD_OPF_MULTI)
                          ? "returns views"
                      : flags & TD_OPF_EFFECT ? "has an effect"
                                              : NULL;
    if (flags & (TD_OPF_META | TD_OPF_TAPE | TD_OPF_CUTS)) why = "changes metadata";
    for (int i = 0; i < td__opinfo(nr)->s.n_in; i++)
        if (td__opinfo(nr)->s.in[i].write) why = "writes an argument";
    return !why || td__fail(cx, TD_E_ARG,
                            "%s: op %.60s %s; only ops that return new tensors can be "
                            "replaced. Use td_aot_opts.pass",
                            who, op, why);
}

/* The labels of the scopes around the op, as the recorder joins them. */
static void scope_text(const decompose_by *d, const td_ctx *cx, char *to, size_t cap) {
    size_t n = 0;
    for (int i = d->first_scope; i < cx->scopes.n && n < cap - 1; i++) {
        const char *label = cx->scopes.v[i].label;
        if (!label) continue;
        if (n) to[n++] = '/';
        size_t len = strnlen(label, cap - 1 - n);
        memcpy(to + n, label, len);
        n += len;
    }
    to[n] = 0;
}

/* Has t the type of the op's own result i, `of`? False after td__fail, which names both
 * types. */
static bool same_type(const td_opcall *c, int i, td_tensor *t, td_tensor *of) {
    td_geom a = td__geom_of(t), b = td__geom_of(of);
    bool    same = a.dtype == b.dtype && td__geom_same(&a, &b);
    td_buf  is = {0}, was = {0};
    if (same) return true;
    td__buf_printf(&is, "%s with strides %s", td__type_str(t),
                   td__sizes_str(t->rank, t->stride));
    td__buf_printf(&was, "%s with strides %s", td__type_str(of),
                   td__sizes_str(of->rank, of->stride));
    td__fail(c->cx, TD_E_ARG,
             "td_aot_opts.decompositions: result %d of the decomposition of %s is %s; "
             "the op gives %s. Cast or copy it, or decline with td_mode_call_go",
             i, c->info->s.name, td__buf_str(&is), td__buf_str(&was));
    td__buf_free(&is);
    td__buf_free(&was);
    return false;
}

/* Also runs the op, to compare types. Nothing reads its results, so its node is removed
 * later. */
static bool check_answer(td_mode *m, td_opcall *c) {
    int         n = c->n_out;
    td_tensor **given = td__alloc(sizeof *given * ((size_t)n + 1));
    if (!given) return td__fail_memory(c->cx);
    for (int i = 0; i < n; i++) given[i] = c->out[i];
    bool ok = td__call_below(m, c) && c->n_out == n;
    for (int i = 0; ok && i < n; i++) ok = same_type(c, i, given[i], c->out[i]);
    for (int i = 0; ok && i < n; i++) c->out[i] = given[i];
    td__free(given);
    return ok;
}

/* Did the user's function give every result, or call td_mode_call_go? False after
 * td__fail. */
static bool check_call(const td_mode_call *h, bool ok) {
    td_opcall  *c = h->c;
    const char *why = NULL;
    if (!ok) why = "returned false without an error; record the reason with td_fail";
    else if (h->gone && h->answered)
        why = "called both td_mode_call_go and td_mode_call_answer; do one of them";
    else if (!h->gone)
        for (int i = 0; i < c->n_out; i++)
            if (!c->out[i] || td_is_nil(c->out[i]))
                why = "left a result out: call td_mode_call_answer for each, or "
                      "td_mode_call_go to keep the op";
    if (!td_ok(c->cx)) return false;
    return !why || td__fail(c->cx, TD_E_ARG,
                            "td_aot_opts.decompositions: the function for %s %s",
                            c->info->s.name, why);
}

/* td_mode.call: passes chosen ops to the user's function, others to the modes below. */
static bool replace(td_mode *m, td_opcall *c) {
    decompose_by *d = (decompose_by *)m;
    int           row = d->row[c->info->op];
    char          scope[512];
    bool          ok;
    if (!row) return td__call_below(m, c);
    const td_decomposition *to = &d->by->v[row - 1];
    td_mode_call h = {.handle = TD_LIVE(MODE_CALL, c->cx), .mode = m, .c = c};
    bool         late = TD_TAG_ORIGIN(c->cx->tags) == TD_FROM_BACKWARD;
    td_op_site   at = {.size = sizeof at,
                       .function = d->by->function,
                       .op = c->info->s.name,
                       .half = late ? TD_BACKWARD : TD_FORWARD,
                       .scope = scope,
                       .file = td_here.file,
                       .line = td_here.line};
    scope_text(d, c->cx, scope, sizeof scope);
    td_where here = td_here;
    if (!td__call_as_recorded(m, c)) return false;
    TD_CALLBACK_FOR(c->cx, d->by->compiling, ok = to->run(to->env, &h, &at));
    TD_ENDED(&h, MODE_CALL);
    td_here = here;
    if (!check_call(&h, ok)) return false;
    return h.gone || d->by->ours || check_answer(m, c);
}

static void drop(td_mode *m) { td__free(m); }

bool td__decompose_by_begin(td_ctx *cx, const td_decompose_by *by) {
    decompose_by *d = td__zalloc(sizeof *d);
    if (!d) return td__fail_memory(cx);
    d->mode = (td_mode){.name = "decompose by",
                        .call = replace,
                        .composites = true,
                        .drop = drop};
    d->by = by;
    d->first_scope = cx->scopes.n;
    for (int i = 0; i < by->n; i++) d->row[td__op_find(by->v[i].op)] = (int16_t)(i + 1);
    td__mode_push(cx, &d->mode);
    return true;
}

void td__decompose_by_end(td_ctx *cx) {
    td_mode *m = td__mode_inner(cx);
    td__mode_pop(cx, m);
    drop(m);
}
