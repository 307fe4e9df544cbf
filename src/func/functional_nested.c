/* functional_nested.c -- ops that take graphs, in the functional mode: each graph is
 * functionalized by a run of its own. */
#include "core/typed.h"
#include "func/func_int.h"
#include "ops/call.h"

/* The functional run of one nested graph. Operands are never written, so the graph has
 * outputs for its results only. */
typedef struct run {
    const td_graph *g;
    td_graph       *to;
    td_ctx         *cx;
    td_value       *in, *out;
    td_faker        fakes; /* outer copies */
    td_func         f;
    td_record       rec;
} run;

/* Operands by input of g, among them its constants. */
static bool make_inputs(run *r, const td_value *args, int n_args) {
    int at = 0, arg = 0;
    for (int i = 0; i < r->g->inputs.n; i++) {
        if (td__graph_holds(r->g, i)) continue;
        while (arg < n_args &&
               (args[arg].kind != TD_K_TENSORS || at >= (int)args[arg].n)) {
            at = 0;
            arg++;
        }
        td_tensor *t = arg < n_args ? td__template(args[arg].u.ts[at++], false) : NULL;
        if (!t)
            return td__fail(r->cx, TD_E_ARG, "@%.60s: an operand is missing",
                            r->g->name);
        r->in[i] = td_value_tensor(t);
    }
    return td__program_inputs(r->g, r->in, r->in);
}

/* The recorder's copy of an operand, or of a constant of g. */
static td_tensor *inner_input(run *r, int i, td_tensor *t) {
    const td_graph *g = r->g;
    if (td__graph_holds(g, i))
        return td__record_value(&r->rec, &t, "a constant") ? t : NULL;
    t = td__record_input(&r->rec, t, g->inputs.v[i]->name);
    if (t) r->to->in_desc.v[i] = g->in_desc.v[i];
    return !t || !t->typed || td__func_unwrap(&r->rec, t) ? t : NULL;
}

/* Inputs of the nested graph: fake outer tensors for the run, recorded inner ones. */
static bool give_inputs(run *r) {
    for (int i = 0; i < r->g->inputs.n; i++) {
        td_tensor *t = r->in[i].u.t, *outer = td__fake_copy(&r->fakes, t);
        td_tensor *inner = outer ? inner_input(r, i, t) : NULL;
        if (!inner || !td__func_give(&r->f, outer, inner)) return false;
        r->in[i] = td_value_tensor(outer);
    }
    return true;
}

/* The functional values of the results become outputs of the new nested graph. */
static bool put_results(run *r) {
    for (int i = 0; i < r->g->outputs.n; i++) {
        td_tensor *t = td__func_value(&r->f, r->out[i].u.t);
        td_gval   *v = t ? td__record_value(&r->rec, &t, "a result") : NULL;
        if (!v || !td__graph_output(r->to, td__garg_value(v), r->g->out_desc.v[i]))
            return false;
    }
    return true;
}

/* Writes of a nested graph to its operands were turned into results when it was
 * captured; a write that remains is unsupported. */
static bool check_writes(run *r) {
    for (int i = 0; i < r->f.in.n; i++)
        if (td__func_writes(&r->f, i))
            return td__fail(r->cx, TD_E_UNSUPPORTED,
                            "@%.60s, a nested graph, writes its inputs; return the new "
                            "values",
                            r->g->name);
    return true;
}

/* The mode stack becomes tape, functional mode, recorder. Grad mode is off: the tape of
 * the enclosing trace records the call. */
static bool trace(run *r, const td_ambient *outside) {
    td_ctx *cx = r->cx;
    td__func_record(&r->f, cx, &r->rec, r->to);
    bool ok = give_inputs(r);
    td__modes_resume(cx, outside);
    ok = ok && td__graph_replay(r->g, r->in, r->out) &&
         td__copies_returned(cx, r->out, r->g->outputs.n) &&
         td__record_asserts(&r->rec) && check_writes(r);
    cx->grad_enabled = cx->inference = false;
    ok = ok && put_results(r);
    td__func_end(&r->f);
    td__record_end(&r->rec);
    td__modes_tape(cx, NULL); /* the modes below it have ended */
    return ok && td__graph_verify(r->to, TD_STAGE_FUNCTIONAL);
}

/* Results require grad as in `from`: the tape that records the call reads these
 * flags. */
static bool copy_flags(td_graph *to, const td_graph *from) {
    for (int i = 0; i < from->outputs.n; i++) {
        const td_garg *a = &from->outputs.v[i], *b = &to->outputs.v[i];
        if (a->kind != TD_G_VALUE || b->kind != TD_G_VALUE || !b->u.v->type) continue;
        td_gtype l = *b->u.v->type;
        bool     grad = !a->u.v->type || a->u.v->type->grad;
        l.grad = (l.grad || grad) && td__is_differentiable((td_dtype)l.dtype);
        if (!(b->u.v->type = td__graph_type_of(to, l))) return false;
    }
    return true;
}

static bool make(run *r, const td_value *args, int n_args) {
    td_arena *a = &r->cx->scratch;
    size_t    n = (size_t)r->g->inputs.n + 1, m = (size_t)r->g->outputs.n + 1;
    r->in = td__arena_zalloc(a, sizeof *r->in * n);
    r->out = td__arena_zalloc(a, sizeof *r->out * m);
    r->to = td__graph_make(r->cx, r->g->name);
    td_outside o;
    if (!r->in || !r->out || !r->to) return td__fail_memory(r->cx);
    if (!make_inputs(r, args, n_args) || !td__ambient_clear(r->cx, &o)) return false;
    bool ok = trace(r, &o.was) && copy_flags(r->to, r->g);
    td__ambient_restore(r->cx, &o, ok);
    td__faker_end(&r->fakes);
    return ok;
}

/* g without writes, for operands like these. NULL after td__fail. */
static td_graph *functional(td_ctx *cx, const td_graph *g, const td_value *args,
                            int n_args) {
    run *r = td__zalloc(sizeof *r); /* too large for a small stack */
    if (!r) return td__fail_memory(cx), NULL;
    *r = (run){.g = g, .cx = cx, .fakes = {.cx = cx}};
    bool ok = td__scope_push(cx);
    if (ok) {
        ok = make(r, args, n_args);
        td__scope_pop(cx, NULL, 0);
    }
    td_graph *to = r->to;
    td__free(r);
    if (ok) return to;
    td__graph_drop(to);
    return NULL;
}

/* ---- sums of gradients of a type ---------------------------------------- */

static bool add_body(td_call *c) {
    td_value b = td_value_tensor(td_arg(c, 1));
    return td_return(c, td_op_add(td_arg(c, 0), b, td_value_int(1)));
}

/* Is output i the sum of inputs i and n + i? */
static bool is_sum(const td_graph *g, int i) {
    const td_garg  *a = &g->outputs.v[i];
    const td_gnode *n = a->kind == TD_G_VALUE ? a->u.v->node : NULL;
    return n && n->op == TD_OP_add && n->in[0].kind == TD_G_VALUE &&
           n->in[1].kind == TD_G_VALUE && n->in[0].u.v == g->inputs.v[i] &&
           n->in[1].u.v == g->inputs.v[g->outputs.n + i];
}

/* Does the type of t implement add as add of its inner tensors? */
static bool adds_inner(td_ctx *cx, td_tensor *t, bool *yes) {
    td_tensor *ts[2] = {t, t};
    td_value   in = td__value_tensors((td_tensors){ts, 2});
    td_value   args[2] = {td_value_tensor(td__template(t, false)),
                          td_value_tensor(td__template(t, false))};
    if (!args[0].u.t || !args[1].u.t) return false;
    td_graph *g = td__capture(cx, add_body, NULL, (td_values){args, 2});
    td_graph *to = g ? functional(cx, g, &in, 1) : NULL;
    td_graph *flat = to ? td__graph_flat_types(to) : NULL;
    *yes = flat && flat->inputs.n == 2 * flat->outputs.n;
    for (int i = 0; *yes && i < flat->outputs.n; i++) *yes = is_sum(flat, i);
    bool ok = flat != NULL;
    td__graph_drop(flat);
    td__graph_drop(to);
    td__graph_drop(g);
    return ok;
}

/* The double backward of a loop adds gradients of iterations itself; of typed
 * gradients, it adds the inner tensors. */
static bool check_sums(const td_opcall *c) {
    bool yes = true;
    if (c->info->op != TD_OP_while_loop_double_backward) return true;
    for (int i = 0; i < c->n_out; i++) {
        const td_typed *of = c->out[i]->typed;
        if (!of) continue;
        if (!adds_inner(c->cx, c->out[i], &yes)) return false;
        if (!yes)
            return td__fail(c->cx, TD_E_UNSUPPORTED,
                            "while_loop: unsupported: a second derivative adds up "
                            "gradients of type %s, whose add is not that of its inner "
                            "tensors; unroll the loop",
                            of->type->opts.name);
    }
    return true;
}

/* ---- the calls ---------------------------------------------------------- */

/* Calls the op below. */
static bool call_below(td_func *f, const td_graph_call *k, td_tensor **out, int n_out) {
    bool typed = TD_UNLIKELY(f->cx->n_typed > 0) && td__func_is_typed(k);
    return typed ? td__func_call_typed(f, k, out, n_out)
                 : td__func_call(f, k->op, k->in, k->n_in, out, n_out);
}

/* The tensors that the outputs of a forward half are built like: the outer results of
 * call c; those after the n results are outputs saved[]. NULL after td__fail. */
static td_tensor **like_outer(const td_opcall *c, int n, const td_value *saved,
                              int all) {
    size_t      bytes = sizeof(td_tensor *) * ((size_t)all + 1);
    td_tensor **like = td__arena_zalloc(&c->cx->scratch, bytes);
    if (!like) return td__fail_memory(c->cx), NULL;
    for (int i = 0; i < n; i++) like[i] = c->out[i];
    for (uint32_t k = 0; k < saved->n; k++)
        if (saved->u.ints[k] >= 0) like[saved->u.ints[k]] = c->out[n + (int)k];
    return like;
}

/* The forward half of a region is a call of its graph. A saved value that is an operand
 * or a result is that value, even if it is written later. */
static bool call_half(td_func *f, const td_opcall *c, const td_value *in,
                      td_tensor **out) {
    const td_graph *g = in[TD_CALL_FORWARD].u.g;
    td_value        args[] = {in[TD_CALL_FORWARD], in[TD_CALL_OPERANDS]};
    size_t          bytes = sizeof(td_tensor *) * ((size_t)g->outputs.n + 1);
    td_tensor     **got = td__arena_alloc(&f->cx->scratch, bytes);
    int64_t         n = in[TD_CALL_RESULTS].u.i;
    td_tensor     **like = like_outer(c, (int)n, &in[TD_CALL_SAVED], g->outputs.n);
    if (!got || !like) return td__fail_memory(f->cx);
    td_graph_call call = {TD_OP_call, args, 2, like};
    if (!call_below(f, &call, got, g->outputs.n)) return false;
    for (int64_t i = 0; i < n; i++) out[i] = got[i];
    for (uint32_t k = 0; k < in[TD_CALL_SAVED].n; k++) {
        int64_t at = in[TD_CALL_SAVED].u.ints[k];
        out[n + k] = at < 0 ? in[TD_CALL_OPERANDS].u.ts[-1 - at] : got[at];
    }
    return true;
}

/* Calls the op with functional graphs in place of those among its arguments. */
static bool call_functional(td_func *f, const td_graph_call *k, td_tensor **out,
                            int n_out) {
    td_graph *made[TD_MAX_ARGS] = {0};
    bool      ok = true;
    for (int i = 0; i < k->n_in && ok; i++) {
        if (k->in[i].kind != TD_K_GRAPH) continue;
        made[i] = functional(f->cx, k->in[i].u.g, k->in, k->n_in);
        ok = made[i] != NULL;
        k->in[i] = td__value_graph(made[i]);
    }
    ok = ok && call_below(f, k, out, n_out);
    for (int i = 0; i < k->n_in; i++) td__graph_drop(made[i]);
    return ok;
}

/* Calls the forward halves of a cond that passes values to its backward. */
static bool call_branches(td_func *f, const td_opcall *c, const td_value *in,
                          td_tensor **out) {
    td_value    args[] = {in[TD_COND_PRED], in[TD_COND_YES_FORWARD],
                          in[TD_COND_NO_FORWARD], in[TD_COND_OPERANDS]};
    int         n = in[TD_COND_YES].u.g->outputs.n;
    int         all = in[TD_COND_YES_FORWARD].u.g->outputs.n;
    size_t      bytes = sizeof(td_tensor *) * ((size_t)all + 1);
    td_tensor **got = td__arena_alloc(&f->cx->scratch, bytes);
    td_tensor **like = like_outer(c, n, &in[TD_COND_SAVED], all);
    if (!got || !like) return td__fail_memory(f->cx);
    td_graph_call call = {TD_OP_cond, args, TD_COUNT(args), like};
    if (!call_functional(f, &call, got, all)) return false;
    for (int i = 0; i < n; i++) out[i] = got[i];
    for (uint32_t k = 0; k < in[TD_COND_SAVED].n; k++)
        out[n + (int)k] = got[in[TD_COND_SAVED].u.ints[k]];
    return true;
}

bool td__func_nested(td_func *f, const td_opcall *c, td_value *in, td_tensor **out) {
    if (c->info->op == TD_OP_call_forward) return call_half(f, c, in, out);
    if (c->info->op == TD_OP_cond_forward) return call_branches(f, c, in, out);
    td_graph_call k = {c->info->op, in, c->n_in, c->out};
    if (k.op == TD_OP_call) return call_below(f, &k, out, c->n_out);
    return check_sums(c) && call_functional(f, &k, out, c->n_out);
}
