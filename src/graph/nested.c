/* nested.c -- ops that take graphs, below all modes: properties of nested graphs,
 * replaying one, and the kernel of cond; loops are in nested_loop.c. cond replays the
 * chosen graph. On fake tensors the predicate has no value: both branches, or one
 * iteration of a loop, are replayed to get the result types and to check that they
 * agree. Results never share storage with operands. */
#include "core/device.h"
#include "core/typed.h"
#include "graph/nested.h"

#include <stdio.h>

/* ---- properties of a nested graph ----------------------------------------- */

static bool arg_draws(const td_garg *a) {
    if (a->kind == TD_G_GRAPH) return td__graph_draws(a->u.g);
    for (uint32_t i = 0; a->kind == TD_G_LIST && i < a->n; i++)
        if (arg_draws(&a->u.list[i])) return true;
    return false;
}

bool td__gnode_has_rng(const td_gnode *n) {
    int at = n->kind == TD_N_OP ? td__opinfo(n->op)->rng : -1;
    return at >= 0 && n->n_in > at && n->in[at].kind == TD_G_VALUE;
}

bool td__gnode_draws(const td_gnode *n) {
    if (n->kind != TD_N_OP) return false;
    if (td__op_draws(n->op)) return !td__gnode_has_rng(n) && !td__gnode_is_idle(n);
    bool nests = td__row(n->op)->flags & TD_OPF_NESTS;
    for (int i = 0; nests && i < n->n_in; i++)
        if (arg_draws(&n->in[i])) return true;
    return false;
}

bool td__graph_draws(const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++)
        if (!g->nodes.v[i]->dead && td__gnode_draws(g->nodes.v[i])) return true;
    return false;
}

bool td__gnode_has_effect(const td_gnode *n) {
    if (n->kind != TD_N_OP || n->origin == TD_FROM_BEFORE) return false;
    uint32_t flags = td__row(n->op)->flags;
    if (flags & TD_OPF_EFFECT) return true;
    for (int i = 0; flags & TD_OPF_NESTS && i < n->n_in; i++)
        if (n->in[i].kind == TD_G_GRAPH && td__graph_flags(n->in[i].u.g, TD_OPF_EFFECT))
            return true;
    return false;
}

bool td__graph_holds(const td_graph *g, int i) {
    const td_desc *d = &g->in_desc.v[i];
    return d->kind == TD_D_CONST && d->index >= 0 && d->index < g->consts.n;
}

/* Does output i require grad? An unknown type counts as yes. */
static bool needs_grad(const td_graph *g, int i) {
    const td_garg *a = &g->outputs.v[i];
    if (a->kind != TD_G_VALUE) return false;
    return !a->u.v->type || a->u.v->type->grad;
}

/* Results of cond are those of both graphs; of other ops, those of the last graph: the
 * test of a loop has no results, and its body no gradients. */
bool td__nested_grad(const td_opcall *c, int i) {
    bool last = false, half = c->def == td__row(TD_OP_call_forward);
    bool split = c->def == td__row(TD_OP_cond_forward);
    if (half && i >= td__in_int(c, TD_CALL_RESULTS)) return false; /* a saved value */
    for (int k = split ? TD_COND_NO : c->n_in - 1; k >= 0 && !last; k--) {
        if (c->in[k].kind != TD_K_GRAPH) continue;
        if (i < c->in[k].u.g->outputs.n && needs_grad(c->in[k].u.g, i)) return true;
        last = c->def != td__row(TD_OP_cond) && !split;
    }
    return false;
}

/* ---- failing ------------------------------------------------------------ */

bool td__refuse_capture(td_ctx *cx, const char *why) {
    char    what[600];
    td_code code = td_error(cx);
    if (code == TD_E_TRACE || code == TD_E_UNSUPPORTED || code == TD_E_MEMORY)
        return false;
    snprintf(what, sizeof what, "%s", td_message(cx));
    td_clear(cx);
    return td__fail(cx, TD_E_TRACE, "%s: %s", why, what);
}

/* ---- replaying one ------------------------------------------------------ */

/* Inputs a nested graph takes from the call: all but consts it owns. */
static int count_inputs(const td_graph *g) {
    int n = 0;
    for (int i = 0; i < g->inputs.n; i++) n += !td__graph_holds(g, i);
    return n;
}

/* Replays a nested graph on the operands. Consts that the graph owns take no operand.
 * Frees its scratch memory at the end. */
bool td__nested_run(td_opcall *c, const td_graph *g, const char *which, td_tensors ts,
                    td_tensor **out) {
    size_t        count = (size_t)(g->inputs.n + g->outputs.n + 1);
    td_arena_mark mark = td__arena_mark(&c->cx->scratch);
    td_value     *in = td__arena_zalloc(&c->cx->scratch, sizeof *in * count);
    if (!in) return td__fail_memory(c->cx);
    td_value *res = in + g->inputs.n;
    if (count_inputs(g) != ts.n)
        return td__op_fail(c, TD_E_ARG, "graph %s takes %d inputs; %d operands given",
                           which, count_inputs(g), ts.n);
    for (int i = 0, k = 0; i < g->inputs.n; i++)
        if (!td__graph_holds(g, i)) in[i] = td_value_tensor(ts.v[k++]);
    bool ok = td__graph_replay(g, in, res);
    for (int i = 0; i < g->outputs.n && ok; i++) {
        if (res[i].kind != TD_K_TENSOR)
            ok = td__op_fail(c, TD_E_ARG, "result %d of graph %s is not a tensor", i,
                             which);
        else out[i] = res[i].u.t;
    }
    td__arena_reset(&c->cx->scratch, mark);
    return ok;
}

static bool in_storage_of(const td_tensor *t, td_tensor *const *v, int n) {
    for (int i = 0; i < n; i++)
        if (v[i] && v[i]->st == t->st) return true;
    return false;
}

static bool in_const(const td_tensor *t, const td_graph *g) {
    return in_storage_of(t, g->consts.v, g->consts.n);
}

/* Results of a nested graph must be separate tensors: a result that is an operand, a
 * view, a const or another result is cloned, so that aliases do not depend on which
 * branch ran. */
bool td__nested_own(td_opcall *c, const td_graph *g, td_tensors ts, td_tensor **out) {
    for (int i = 0; i < g->outputs.n; i++) {
        bool own = !out[i]->base && !in_storage_of(out[i], ts.v, ts.n) &&
                   !in_storage_of(out[i], out, i) && !in_const(out[i], g);
        td_value in = td_value_tensor(out[i]);
        if (!own) out[i] = td__call1(c->cx, TD_OP_clone, &in, 1);
        if (td_is_nil(out[i])) return false;
        atomic_store(&out[i]->st->version, 0);
    }
    return true;
}

bool td__nested_refuse(td_opcall *c) {
    char why[120];
    snprintf(
        why, sizeof why,
        "%s: a compiled function contains all its graphs, whichever run, and one fails",
        c->info->s.name);
    return td__refuse_capture(c->cx, why);
}

bool td__nested_literals(td_opcall *c) {
    for (int k = 0; k < c->n_in && c->cx->fake; k++)
        for (int i = 0; c->in[k].kind == TD_K_GRAPH && i < c->in[k].u.g->inputs.n; i++)
            if (td__graph_holds(c->in[k].u.g, i))
                return td__op_fail(c, TD_E_UNSUPPORTED,
                                   "the nested function @%.60s contains a literal, "
                                   "which cannot be compiled; define it outside and "
                                   "pass it as an operand",
                                   c->in[k].u.g->name);
    return true;
}

td_mode_scope td__nested_enter(td_ctx *cx, bool fake) {
    td_mode_scope outer = td__modes_enter(cx, NULL);
    cx->fake = fake;
    return outer;
}

bool td__nested_flag(td_opcall *c, const td_tensor *t, const char *what, bool *on) {
    if (!td__dim_eq(t->numel, 1))
        return td__op_fail(c, TD_E_SHAPE, "%s is %s; it must have one element", what,
                           td__type_str(t));
    if (t->typed)
        return td__op_fail(c, TD_E_ARG,
                           "%s is a tensor of type %s, which has no elements; pass one "
                           "of its inner tensors",
                           what, t->typed->type->opts.name);
    td_element_bits bytes = {{0}};
    size_t          item = td__dtype_bytes[t->dtype];
    bool            ok = td__is_fake(t) ||
              td__storage_get(t->cx, t->st, (size_t)t->offset * item, &bytes, item);
    td_dtype dt = (td_dtype)t->dtype;
    *on = !td__is_fake(t) && ok &&
          (td__load_f(dt, &bytes) != 0.0 || td__load_imag(dt, &bytes) != 0.0);
    return ok;
}

/* Same dtype and sizes? */
static bool same_sizes(const td_tensor *a, const td_tensor *b) {
    return a->dtype == b->dtype && a->rank == b->rank &&
           td__dims_eq(a->size, b->size, a->rank);
}

/* Same dtype, sizes and strides? Strides of dims of size 1, and of tensors without
 * elements, do not matter. */
static bool same_type(const td_tensor *a, const td_tensor *b) {
    bool same = same_sizes(a, b), empty = td__dim_seems_eq(a->numel, 0);
    for (int d = 0; same && d < a->rank; d++)
        same = empty || td__dim_eq(a->size[d], 1) ||
               td__dim_eq(a->stride[d], b->stride[d]);
    return same;
}

/* "f32[2,3]", "f32[2,3] with strides [1,2]" where only strides differ, or
 * "f32[2,3], a pair" where types do. */
static void type_text(const td_tensor *t, bool strides, bool typed, char *s,
                      size_t cap) {
    char of[120];
    int  n = snprintf(s, cap, "%s", td__type_str(t));
    if (strides)
        snprintf(s + n, cap - (size_t)n, " with strides %s",
                 td__sizes_str(t->rank, t->stride));
    if (typed)
        snprintf(s + n, cap - (size_t)n, ", %s",
                 td__typed_str(t->typed, of, sizeof of));
}

/* The first of the inner tensors that differ; a and b are of one type. */
static bool inner_agree(td_opcall *c, const td_tensor *a, const td_tensor *b, int i,
                        const char *what) {
    for (int k = 0; a->typed && k < a->typed->n; k++)
        if (!td__nested_agree(c, a->typed->inner[k], b->typed->inner[k], i, what))
            return false;
    return true;
}

/* Both branches, and every iteration of a loop, must give the same types, because the
 * op has one type for its results. */
bool td__nested_agree(td_opcall *c, const td_tensor *a, const td_tensor *b, int i,
                      const char *what) {
    char x[200], y[200];
    bool typed = !td__typed_same(a->typed, b->typed);
    if (same_type(a, b) && !typed) return inner_agree(c, a, b, i, what);
    bool strides = same_sizes(a, b) && !typed;
    type_text(a, strides, typed, x, sizeof x);
    type_text(b, strides, typed, y, sizeof y);
    return td__op_fail(c, TD_E_UNSUPPORTED, "result %d is %s, %s %s; they must agree%s",
                       i, x, what, y, strides ? ". Return td_contiguous of it" : "");
}

/* ---- cond --------------------------------------------------------------- */

td_tensor **td__nested_scratch(td_opcall *c, int n) {
    td_tensor **v = td__arena_zalloc(&c->cx->scratch, sizeof *v * (size_t)(n + 1));
    if (!v) td__fail_memory(c->cx);
    return v;
}

/* Replays graph argument k on the operands. */
static bool branch(td_opcall *c, int k, td_tensor **out) {
    td_graph  *g = c->in[k].u.g;
    td_tensors ts = {c->in[TD_COND_OPERANDS].u.ts, (int)c->in[TD_COND_OPERANDS].n};
    return td__nested_run(c, g, c->info->s.in[k].name, ts, out) &&
           td__nested_own(c, g, ts, out);
}

static bool both_branches(td_opcall *c, int yes, td_tensor **out, int n) {
    td_tensor **other = td__nested_scratch(c, n);
    if (!other || !branch(c, yes, out) || !branch(c, yes + 1, other)) return false;
    for (int i = 0; i < n; i++)
        if (!td__nested_agree(c, out[i], other[i], i, "but in branch no")) return false;
    return true;
}

/* For cond_forward: result n + k is output saved[k] of the graphs. A saved value that
 * is a result too is copied, because the caller may write the result. */
static bool add_saved(td_opcall *c, td_tensor **out, int n) {
    td_value saved = c->n_in > TD_COND_SAVED ? c->in[TD_COND_SAVED] : td_value_none();
    for (int i = 0; i < n && saved.kind == TD_K_INTS; i++) c->out[i] = out[i];
    for (uint32_t k = 0; saved.kind == TD_K_INTS && k < saved.n; k++) {
        td_tensor *t = out[saved.u.ints[k]];
        td_value   in = td_value_tensor(t);
        bool       fresh = saved.u.ints[k] >= n;
        for (uint32_t j = 0; j < k; j++) fresh &= c->out[n + (int)j] != t;
        if (!fresh) t = td__call1(c->cx, TD_OP_clone, &in, 1);
        if (td_is_nil(t)) return false;
        c->out[n + (int)k] = t;
    }
    return true;
}

/* On real tensors runs the chosen branch; on fake ones both, to check that they agree.
 * The graphs are arguments `yes` and yes + 1. out[] receives the results, which leave
 * the scope in which the temporaries are freed. */
static bool run_cond(td_opcall *c, int yes, td_tensor **out, int n) {
    td_ctx *cx = c->cx;
    bool    fake = td__call_is_fake(c), on = false;
    if (!td__nested_flag(c, td__in(c, 0), "pred", &on) || !td__scope_push(cx))
        return false;
    td_mode_scope o = td__nested_enter(cx, fake);
    bool          ok = fake ? both_branches(c, yes, out, c->in[yes].u.g->outputs.n) ||
                         td__nested_refuse(c)
                            : branch(c, on ? yes : yes + 1, out);
    ok = ok && add_saved(c, out, n);
    td__modes_leave(cx, &o);
    td__scope_pop(cx, c->out, ok ? c->n_out : 0);
    return ok;
}

static bool check_counts(td_opcall *c, int yes) {
    int n = c->in[yes].u.g->outputs.n, m = c->in[yes + 1].u.g->outputs.n;
    return n == m || td__op_fail(c, TD_E_ARG,
                                 "branch yes returns %d results and branch no %d; they "
                                 "must return the same number",
                                 n, m);
}

bool td__kern_cond(td_opcall *c) {
    int n = c->in[TD_COND_YES].u.g->outputs.n;
    return check_counts(c, TD_COND_YES) && td__call_results(c, n) &&
           run_cond(c, TD_COND_YES, c->out, n);
}

bool td__kern_cond_forward(td_opcall *c) {
    int         n = c->in[TD_COND_YES].u.g->outputs.n;
    int         all = c->in[TD_COND_YES_FORWARD].u.g->outputs.n;
    td_value    saved = c->in[TD_COND_SAVED];
    td_tensor **out = td__nested_scratch(c, all);
    bool        fits = n <= all;
    for (uint32_t k = 0; k < saved.n; k++)
        fits &= saved.u.ints[k] >= 0 && saved.u.ints[k] < all;
    if (!fits)
        return td__op_fail(c, TD_E_ARG,
                           "the results and the list of saved values do not fit the "
                           "forward graphs, which give %d values",
                           all);
    return out && check_counts(c, TD_COND_YES_FORWARD) &&
           td__call_results(c, n + (int)saved.n) &&
           run_cond(c, TD_COND_YES_FORWARD, out, n);
}
