/* case_stops.c -- finds where the gradients of a program differ from the mathematical
 * ones by intention: no_grad, detach, ops without a derivative, fewer digits. A mode
 * sees each op call of an eager run. */
#include "cli/case_differences.h"

#include <stdio.h>
#include <string.h>

static bool needs(const td_tensor *t) { return t && td_requires_grad(t); }

/* Does argument i require grad, or one of its list? */
static bool arg_needs(const td_mode_call *h, int i) {
    td_value v = td_mode_call_arg(h, i);
    if (v.kind == TD_K_TENSOR) return needs(v.u.t);
    for (uint32_t j = 0; v.kind == TD_K_TENSORS && j < v.n; j++)
        if (needs(v.u.ts[j])) return true;
    return false;
}

/* The part of the mathematical derivative that this call leaves out; NULL: none.
 * `tracked`: gradients are recorded. */
static const char *left_out(const td_opinfo *o, int arg, bool tracked) {
    const td_opdef *row = o->def;
    bool            zero = row->vjp && !strcmp(row->vjp, TD_ZERO_GRAD);
    if (row->flags & (TD_OPF_DETACH | TD_OPF_CUTS | TD_OPF_TAPE)) return "";
    if (zero || row->flags & TD_OPF_FILLS) return NULL;
    if (!tracked) return " under no_grad";
    uint32_t twin = o->pure == TD_OP_COUNT ? 0 : td__row(o->pure)->flags;
    if ((row->flags | twin) & TD_OPF_PLACES)
        return ", which reads or moves in a storage";
    if (row->vjp && row->vjp[0] == '!') return ", which has no derivative";
    if (o->differentiable && !row->vjp_fn && row->vjp && row->vjp[0] != '@' &&
        !o->term[arg].f)
        return ", which has no derivative by one of its arguments";
    return NULL;
}

/* Does it write several values to one index? Then the last value stays, and all of them
 * get its gradient, as in PyTorch. */
static bool is_ambiguous(const td_opinfo *o) {
    static const char *const ops[] = {"scatter", "index_put", "_index_put",
                                      "index_copy"};
    const char *name = td__row(o->pure == TD_OP_COUNT ? o->op : o->pure)->name;
    for (int i = 0; i < TD_COUNT(ops); i++)
        if (!strcmp(name, ops[i])) return true;
    return false;
}

/* embedding gives the row of padding_idx no gradient. */
static bool pads(const td_mode_call *h, td_op op) {
    int at = td__op_arg(op, "padding_idx");
    return at >= 0 && td_mode_call_arg(h, at).u.i >= 0;
}

/* Notes the first call at which a gradient ends although its result depends on a leaf.
 */
static bool watch_call(void *env, td_mode_call *h) {
    case_stops *k = env;
    td_op       op = td__op_find(td_mode_call_name(h));
    const char *what = NULL;
    bool        tracked = k->cx->grad_enabled && !k->cx->inference, any = false;
    for (int i = 0; i < td_mode_call_args(h); i++) {
        if (op == TD_OP_COUNT || !arg_needs(h, i)) continue;
        any = true;
        if (!what) what = left_out(td__opinfo(op), i, tracked);
        if (!what && pads(h, op)) what = ", which leaves a row without gradient";
        if (!what && is_ambiguous(td__opinfo(op)))
            what = ", whose gradient counts indices that repeat";
    }
    if (!td_mode_call_go(h)) return false;
    for (int i = 0; any && !what && i < td_mode_call_results(h); i++) {
        td_tensor *t = td_mode_call_result(h, i);
        if (td__is_float((td_dtype)t->dtype) && t->dtype != TD_F64)
            what = ", which computes in fewer digits";
    }
    char text[120];
    if (!what) return true;
    snprintf(text, sizeof text, "%s%s", td_mode_call_name(h), what);
    case_stops_note(k, text, td_here.line);
    return true;
}

void case_stops_note(case_stops *k, const char *what, int line) {
    if (k->at[0]) return;
    if (line) snprintf(k->at, sizeof k->at, "%s (line %d)", what, line);
    else snprintf(k->at, sizeof k->at, "%s", what);
}

bool case_stops_begin(case_stops *k, td_ctx *cx) {
    k->cx = cx;
    k->watch = (td_mode_hook){.name = "differences", .call = watch_call, .env = k};
    return td_mode_push(cx, &k->watch);
}

void case_stops_end(case_stops *k) { td_mode_pop(k->cx, &k->watch); }
