/* nested_call.c -- the ops call and call_forward run a functional graph on the
 * operands, with the code that a backend made of it, or node by node. On fake tensors
 * the results are made from the types that the graph states, because replaying a graph
 * at each of its many calls would be slow. */
#include "graph/nested.h"

/* Is the type of this value known, for every call? */
static bool is_stated(const td_gval *v) { return td__gtype_is_concrete(v->type); }

/* Has the tensor this type? Its offset does not matter. */
static bool has_type(const td_gtype *l, const td_tensor *t) {
    bool same = l->dtype == t->dtype && l->rank == t->rank;
    for (int d = 0; same && d < t->rank; d++)
        same = l->size[d] == t->size[d] &&
               (t->size[d] == 1 || l->stride[d] == t->stride[d]);
    return same && td__gtyped_is(l->of, t->typed);
}

/* Have the operands the types that the graph was made for, and are all its types
 * known? */
static bool fits(const td_graph *g, td_tensors ts) {
    if (g->inputs.n != ts.n) return false;
    for (int i = 0; i < ts.n; i++)
        if (!is_stated(g->inputs.v[i]) || !has_type(g->inputs.v[i]->type, ts.v[i]))
            return false;
    for (int i = 0; i < g->outputs.n; i++)
        if (g->outputs.v[i].kind != TD_G_VALUE || !is_stated(g->outputs.v[i].u.v))
            return false;
    return true;
}

/* Fake results of the stated types. */
static bool make_results(td_opcall *c, const td_graph *g, td_tensor **out) {
    for (int i = 0; i < g->outputs.n; i++) {
        const td_gtype *l = g->outputs.v[i].u.v->type;
        td_meta         m;
        td__geom_to_meta(&l->geom, &m);
        m.offset = 0;
        if (!(out[i] = td__tensor_make(c->cx, &m, true))) return false;
        if (l->of && !td__gtyped_fake(out[i], l->of)) return false;
    }
    return true;
}

/* Runs the code of g. Results belong to the innermost scope. */
static bool run_code(td_opcall *c, const td_graph *g, td_tensors ts, td_tensor **out) {
    size_t        count = (size_t)(ts.n + g->outputs.n + 1);
    td_arena_mark mark = td__arena_mark(&c->cx->scratch);
    td_value     *in = td__arena_zalloc(&c->cx->scratch, sizeof *in * count);
    if (!in) return td__fail_memory(c->cx);
    td_value *res = in + ts.n;
    for (int i = 0; i < ts.n; i++) in[i] = td_value_tensor(ts.v[i]);
    bool ok = g->code.run(g->code.env, c->cx, in, res);
    for (int i = 0; i < g->outputs.n && ok; i++) out[i] = res[i].u.t;
    td__arena_reset(&c->cx->scratch, mark);
    return ok;
}

/* The outputs of g on ts, each a tensor of its own. */
static bool run(td_opcall *c, const td_graph *g, td_tensors ts, td_tensor **out) {
    bool fake = td__call_is_fake(c);
    if (fake && fits(g, ts)) return make_results(c, g, out);
    bool code = !fake && g->code.env && g->inputs.n == ts.n;
    return (code ? run_code(c, g, ts, out) : td__nested_run(c, g, g->name, ts, out)) &&
           td__nested_own(c, g, ts, out);
}

/* Runs g below all modes in a scope of its own, which frees the temporaries; n of out[]
 * are results of the call. */
static bool call_graph(td_opcall *c, const td_graph *g, td_tensors ts, td_tensor **out,
                       bool (*then)(td_opcall *c, td_tensors ts, td_tensor **out),
                       int n) {
    td_ctx *cx = c->cx;
    bool    fake = td__call_is_fake(c);
    if (!td__scope_push(cx)) return false;
    td_mode_scope o = td__nested_enter(cx, fake);
    bool          ok = run(c, g, ts, out) && (!then || then(c, ts, out));
    td__modes_leave(cx, &o);
    td__scope_pop(cx, c->out, ok ? n : 0);
    return ok;
}

bool td__kern_call(td_opcall *c) {
    const td_graph *g = c->in[0].u.g;
    td_tensors      ts = {c->in[1].u.ts, (int)c->in[1].n};
    return td__call_results(c, g->outputs.n) &&
           call_graph(c, g, ts, c->out, NULL, g->outputs.n);
}

/* ---- call_forward ------------------------------------------------------- */

/* Result `results + k` is saved value k. Below all modes a saved result or operand is
 * indistinguishable from the tensor itself, but the caller may write that: so it is
 * copied. */
static bool add_saved(td_opcall *c, td_tensors ts, td_tensor **out) {
    int results = (int)td__in_int(c, TD_CALL_RESULTS);
    for (int i = 0; i < results; i++) c->out[i] = out[i];
    for (uint32_t k = 0; k < c->in[TD_CALL_SAVED].n; k++) {
        int64_t    at = c->in[TD_CALL_SAVED].u.ints[k];
        td_tensor *t = at < 0 ? ts.v[-1 - at] : out[at];
        td_value   in = td_value_tensor(t);
        bool       fresh = at >= results;
        for (uint32_t j = 0; j < k; j++) fresh &= c->out[results + (int)j] != t;
        if (!fresh) t = td__call1(c->cx, TD_OP_clone, &in, 1);
        if (td_is_nil(t)) return false;
        c->out[results + (int)k] = t;
    }
    return true;
}

/* Do the lists of numbers fit the graphs? A text may contain any. */
static bool check_lists(td_opcall *c) {
    const td_graph *f = c->in[TD_CALL_FORWARD].u.g, *b = c->in[TD_CALL_BACKWARD].u.g;
    int64_t         results = td__in_int(c, TD_CALL_RESULTS);
    int64_t         n = c->in[TD_CALL_OPERANDS].n;
    bool            ok =
        results >= 0 && results <= f->outputs.n && c->in[TD_CALL_GRADS].n == n &&
        (int64_t)c->in[TD_CALL_SAVED].n + c->in[TD_CALL_TANGENTS].n == b->inputs.n;
    for (uint32_t i = 0; ok && i < c->in[TD_CALL_SAVED].n; i++) {
        int64_t at = c->in[TD_CALL_SAVED].u.ints[i];
        ok = at < f->outputs.n && at >= -n;
    }
    for (uint32_t i = 0; ok && i < c->in[TD_CALL_TANGENTS].n; i++) {
        int64_t at = c->in[TD_CALL_TANGENTS].u.ints[i];
        ok = at >= 0 && at < results;
    }
    for (uint32_t i = 0; ok && i < c->in[TD_CALL_GRADS].n; i++) {
        int64_t at = c->in[TD_CALL_GRADS].u.ints[i];
        ok = at < b->outputs.n && at > TD_GRAD_INPUT - b->inputs.n;
    }
    return ok || td__op_fail(c, TD_E_ARG,
                             "the lists of saved values, tangents and gradients do not "
                             "fit the graphs");
}

bool td__kern_call_forward(td_opcall *c) {
    const td_graph *f = c->in[TD_CALL_FORWARD].u.g;
    td_tensors      ts = {c->in[TD_CALL_OPERANDS].u.ts, (int)c->in[TD_CALL_OPERANDS].n};
    td_tensor     **out = td__nested_scratch(c, f->outputs.n);
    if (!out || !check_lists(c)) return false;
    int n = (int)(td__in_int(c, TD_CALL_RESULTS) + c->in[TD_CALL_SAVED].n);
    return td__call_results(c, n) && call_graph(c, f, ts, out, add_saved, n);
}

/* ---- queries of the tape ------------------------------------------------ */

bool td__nested_saves(const td_opcall *c, int arg, int item) {
    if (c->def == td__row(TD_OP_cond_forward))
        return arg >= 0 || item >= c->in[TD_COND_YES].u.g->outputs.n;
    if (td__nested_checks(c, arg, item)) return true;
    const td_tensor *t = arg == TD_CALL_OPERANDS ? c->in[arg].u.ts[item] : NULL;
    return t && !td_is_inference(t);
}

bool td__nested_checks(const td_opcall *c, int arg, int item) {
    if (c->def != td__row(TD_OP_call_forward)) return true;
    int64_t results = td__in_int(c, TD_CALL_RESULTS);
    if (arg < 0 && item >= results) return true;
    if (arg >= 0 && arg != TD_CALL_OPERANDS) return false;
    for (uint32_t k = 0; k < c->in[TD_CALL_CHECKS].n; k++)
        if (c->in[TD_CALL_CHECKS].u.ints[k] == (arg < 0 ? -1 - item : item))
            return true;
    return false;
}

bool td__nested_leads(const td_opcall *c, int item) {
    if (c->def != td__row(TD_OP_call_forward)) return true;
    return c->in[TD_CALL_GRADS].u.ints[item] != TD_GRAD_NO_EDGE;
}
