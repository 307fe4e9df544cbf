/* control_vjp.c -- derivatives of cond and while_loop. The derivative of cond
 * is a cond between the backward graphs of its two branches; that of while_loop
 * is the op while_loop_backward with the backward graph of one iteration.
 *
 * A backward graph is captured from a body that replays the forward graph and
 * calls td_grad. So it recomputes the forward values it reads, and higher
 * derivatives of a branch follow from its ops. */
#include "trace/trace.h"

#include <stdio.h>
#include <string.h>

/* One backward graph to capture. */
typedef struct job {
    const td_graph *g;           /* the forward graph */
    int             n_in, n_out; /* its operands and results */
    const bool     *need;        /* by operand: compute its gradient */
    const bool     *have;        /* by result: a gradient arrived */
    int             sums; /* operands from this one on get a running sum as input */
    bool *reached;        /* by operand: set where gradients reach it; NULL: unused */
} job;

/* Arrays for one run of backward_body, in one allocation. */
typedef struct buffers {
    td_value   *in, *out;                /* of the forward graph */
    td_tensor **of, **g, **with, **grad; /* arguments and results of td_grad */
    int         n_of, n_with;
} buffers;

/* One allocation for the arguments, results and gradients of a body and its
 * backward. */
static bool make_buffers(td_ctx *cx, const job *j, buffers *r) {
    size_t n = (size_t)(j->g->inputs.n + 1), m = (size_t)(j->n_out + 1);
    char  *p =
        td__zalloc(sizeof(td_value) * (n + m) + sizeof(td_tensor *) * 2 * (2 * n + m));
    if (!p) return td__fail_memory(cx);
    r->in = (td_value *)(void *)p;
    r->out = r->in + n;
    r->of = (td_tensor **)(void *)(r->out + m);
    r->g = r->of + n + m;
    r->with = r->g + n + m;
    r->grad = r->with + n;
    return true;
}

/* Adds t with incoming gradient g to the roots of td_grad, if it requires grad. */
static void add_root(buffers *r, td_tensor *t, td_tensor *g) {
    if (!td__needs_grad(t)) return;
    r->of[r->n_of] = t;
    r->g[r->n_of++] = g;
}

/* Selects the roots (results whose gradient arrived) and the operands to
 * differentiate. A running sum is passed as an incoming gradient of the operand
 * itself: td_grad adds this iteration's contributions to it one by one, in the
 * order of an unrolled loop. */
static void choose_roots(td_call *c, const job *j, buffers *r) {
    int at = j->n_in;
    for (int i = 0; i < j->n_out; i++)
        if (j->have[i]) add_root(r, r->out[i].u.t, td_arg(c, at++));
    for (int i = 0; i < j->n_in; i++) {
        if (!j->need[i]) continue;
        if (i >= j->sums) add_root(r, td_arg(c, i), td_arg(c, at++));
        r->with[r->n_with++] = td_arg(c, i);
    }
}

/* Clones gradients that are not row-major or share storage with an argument or
 * with each other: both branches must give the same layout. */
static bool make_private(td_call *c, buffers *r) {
    td_values args = td__call_args(c);
    for (int i = 0; i < r->n_with; i++) {
        td_tensor *t = r->grad[i];
        bool       shared = false;
        for (int k = 0; k < args.n; k++) shared |= args.v[k].u.t->st == t->st;
        for (int k = 0; k < i; k++) shared |= r->grad[k]->st == t->st;
        bool dense = td__is_dense(t->rank, t->size, t->stride);
        if (shared || !dense) r->grad[i] = td_op_clone(t, true);
        if (td_is_nil(r->grad[i])) return false;
    }
    return true;
}

/* Gradients that are missing become zeros; j->reached gets the others. */
static bool fill_missing(const job *j, buffers *r) {
    for (int i = 0, at = 0; i < j->n_in; i++) {
        if (!j->need[i]) continue;
        td_tensor *t = r->with[at], **g = &r->grad[at++];
        bool       missing = !*g || td_is_nil(*g);
        if (!missing && j->reached) j->reached[i] = true;
        if (missing) *g = td_op_zeros_like(t, TD_DTYPE_NONE);
        if (td_is_nil(*g)) return false;
    }
    return true;
}

/* Replays the forward graph, calls td_grad and returns the gradients. */
static bool differentiate(td_call *c, const job *j, buffers *r) {
    for (int i = 0, at = 0; i < j->g->inputs.n; i++)
        if (!td__graph_holds(j->g, i)) r->in[i] = td_value_tensor(td_arg(c, at++));
    if (!td__graph_replay(j->g, r->in, r->out)) return false;
    choose_roots(c, j, r);
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true, .allow_unused = true,
                      .grads = {r->g, r->n_of}};
    td_tensors   of = {r->of, r->n_of}, with = {r->with, r->n_with};
    if (r->n_of && !td_grad(of, with, r->grad, &o)) return false;
    if (!fill_missing(j, r) || !make_private(c, r)) return false;
    for (int i = 0; i < r->n_with; i++) r->in[i] = td_value_tensor(r->grad[i]);
    return td_return_values(c, (td_values){r->in, r->n_with});
}

/* The body of a backward graph. Arguments: the operands, the gradients that arrived,
 * then the running sums. */
static bool backward_body(td_call *c) {
    const job *j = td_call_env(c);
    td_ctx    *cx = td_call_ctx(c);
    buffers    r = {0};
    bool       whole = cx->whole;
    if (!make_buffers(cx, j, &r)) return false;
    cx->whole =
        true; /* regions op by op: the halves of one have no second derivative */
    bool ok = differentiate(c, j, &r);
    cx->whole = whole;
    td__free(r.in);
    return ok;
}

/* ---- branches ----------------------------------------------------------- */

/* Appends a template of t (td__template) to to[]. */
static bool add_template(td_value *to, int *n, td_tensor *t, bool grad) {
    if (!(t = td__template(t, grad))) return false;
    to[(*n)++] = td_value_tensor(t);
    return true;
}

/* Arguments to capture the backward of a branch with: operands, then gradients
 * that arrived, which require grad with create_graph. */
static bool make_templates(const td_vjp *v, td_value *to, int *n) {
    td_value ops = v->in[3];
    for (uint32_t i = 0; i < ops.n; i++)
        if (!add_template(to, n, ops.u.ts[i], v->list_need[3][i])) return false;
    for (int i = 0; i < v->n_out; i++)
        if (v->g[i] && !add_template(to, n, v->g[i], td__needs_grad(v->g[i])))
            return false;
    return true;
}

/* May backward recompute graph g of an op? Not where that would draw other numbers, or
 * repeat an effect. `what` is as below. */
static bool check_repeats(td_ctx *cx, const td_graph *g, const char *what) {
    bool        loop = !strcmp(what, "body") || !strcmp(what, "test");
    const char *who = loop ? "td_while: the" : "td_cond: branch";
    if (td__graph_draws(g))
        return td__fail(cx, TD_E_UNSUPPORTED,
                        "%s %s draws random numbers; its backward recomputes it and "
                        "would draw different ones. Draw them outside and %s",
                        who, what,
                        loop ? "read them in the body" : "pass them as arguments");
    return !td__graph_flags(g, TD_OPF_EFFECT) ||
           td__fail(cx, TD_E_UNSUPPORTED,
                    "%s %s calls an op with an effect; its backward recomputes it, and "
                    "the effect would happen again. Call the op outside",
                    who, what);
}

/* Captures the backward graph of j->g, which is the graph argument `what` of an
 * op: "yes", "no" (of cond), "body" (of while_loop). NULL after td__fail. */
static td_graph *capture_backward(td_ctx *cx, job *j, td_values args,
                                  const char *what) {
    char name[40];
    snprintf(name, sizeof name, "%s_backward", what);
    if (!check_repeats(cx, j->g, what)) return NULL;
    bool was = cx->grad_enabled, inference = cx->inference;
    cx->grad_enabled = true;
    cx->inference = false;
    td_graph *g = td__capture(cx, backward_body, j, args);
    cx->grad_enabled = was;
    cx->inference = inference;
    if (g) g->name = td__graph_str(g, name);
    if (g && g->name && td__graph_dce(g))
        return g; /* without the forward results, which nothing reads */
    td__graph_drop(g);
    td__refuse_capture(cx, "the backward of a captured td_cond or td_while contains "
                           "those of both branches, of which one fails");
    return NULL;
}

/* Calls cond with the two backward graphs; its results are the needed gradients. An
 * operand that gradients reach in neither branch has none, as in eager. */
static bool call_backward(td_vjp *v, td_graph *const *g, td_tensors ts, int n_need,
                          const bool *reached) {
    td_value    in[] = {v->in[0], td__value_graph(g[0]), td__value_graph(g[1]),
                        td__value_tensors(ts)};
    td_tensor **out = td__alloc(sizeof *out * (size_t)(n_need + 1));
    if (!out) return td__fail_memory(v->cx);
    bool ok = td__call_list(v->cx, TD_OP_cond, in, 4, out, n_need) >= 0;
    for (uint32_t i = 0, at = 0; ok && i < v->in[3].n; i++) {
        if (!v->list_need[3][i]) continue;
        if (reached[i]) v->list_grad[3][i] = out[at];
        at++;
    }
    td__free(out);
    return ok;
}

/* The derivative of cond with its arrays allocated. Argument 3 of cond is the list of
 * operands; 1 and 2 are the graphs. */
static bool run_rule(td_vjp *v, td_value *args, td_tensor **ts, bool *have) {
    int   n = 0, n_need = 0;
    bool *reached = have + v->n_out;
    if (!make_templates(v, args, &n)) return false;
    n = 0;
    for (uint32_t i = 0; i < v->in[3].n; i++) {
        ts[n++] = v->in[3].u.ts[i];
        n_need += v->list_need[3][i];
    }
    for (int i = 0; i < v->n_out; i++)
        if ((have[i] = v->g[i] != NULL)) ts[n++] = v->g[i];
    int n_in = (int)v->in[3].n;
    job yes = {v->in[1].u.g, n_in, v->n_out, v->list_need[3], have, n_in, reached};
    job no = {v->in[2].u.g, n_in, v->n_out, v->list_need[3], have, n_in, reached};
    td_values with = {args, n};
    td_graph *g[2] = {capture_backward(v->cx, &yes, with, "yes"), NULL};
    g[1] = g[0] ? capture_backward(v->cx, &no, with, "no") : NULL;
    bool ok = g[1] && call_backward(v, g, (td_tensors){ts, n}, n_need, reached);
    td__graph_drop(g[0]);
    td__graph_drop(g[1]);
    return ok;
}

/* The gradient of a condition is a condition: the backward graphs of both branches,
 * chosen by the same flag. */
bool td__vjp_cond(td_vjp *v) {
    size_t n = (size_t)v->in[3].n + (size_t)v->n_out + 1;
    if (v->in[0].kind != TD_K_TENSOR) return true; /* no operand needs a gradient */
    td_value *args = td__zalloc((sizeof *args + sizeof(td_tensor *) + 1) * n);
    if (!args) return td__fail_memory(v->cx);
    td_tensor **ts = (td_tensor **)(void *)(args + n);
    bool        ok = run_rule(v, args, ts, (bool *)(ts + n));
    td__free(args);
    return ok;
}

/* ---- loops -------------------------------------------------------------- */

/* Arguments of a call of while_loop_backward while they are collected. */
typedef struct loop_grad {
    td_value   *args;         /* templates: state, fixed tensors, gradients, sums */
    td_tensor **grads, **out; /* incoming gradients and initial sums; results */
    bool *need;  /* by operand: floating state, fixed tensors that need a gradient */
    bool *later; /* by incoming gradient: requires grad in at least one iteration */
    int   n_args, n_grads, n_sums;
} loop_grad;

/* Appends an incoming gradient or an initial sum. */
static bool add_grad(loop_grad *l, td_tensor *g) {
    l->later[l->n_grads] = td__needs_grad(g);
    l->grads[l->n_grads++] = g;
    return !td_is_nil(g) && add_template(l->args, &l->n_args, g, td__needs_grad(g));
}

/* The gradient of state i at the end of the loop, row-major as those between
 * iterations are; zeros if none arrived. */
static bool add_state_grad(td_vjp *v, loop_grad *l, int i) {
    td_tensor *g = v->g[i] ? v->g[i] : td__vjp_zeros(v, i);
    if (!td_is_nil(g) && !td__is_dense(g->rank, g->size, g->stride))
        g = td_op_clone(g, true);
    return add_grad(l, g);
}

/* The gradient of a fixed tensor is a sum over iterations. It starts at
 * -0.0: adding to 0.0 would turn a -0.0 into 0.0. */
static bool add_sum(loop_grad *l, const td_tensor *t) {
    l->n_sums++;
    return add_grad(l, td_op_full(t->cx, td__sizes(t), td_value_float(-0.0),
                                  (td_dtype)t->dtype));
}

/* One iteration backwards, to see which states gradients reach: have[] gets more of
 * them, in *more whether it does. */
static bool reach_states(td_vjp *v, loop_grad *l, bool *have, bool *reached,
                         bool *more) {
    td_value state = v->in[2], fixed = v->in[3];
    int      n = (int)state.n, n_in = n + (int)fixed.n, n_args = 0;
    bool     ok = true;
    for (int i = 0; ok && i < n_in; i++) {
        td_tensor *t = i < n ? state.u.ts[i] : fixed.u.ts[i - n];
        ok = add_template(l->args, &n_args, t, l->need[i]);
    }
    for (int i = 0; ok && i < n; i++)
        ok = !have[i] || add_template(l->args, &n_args, state.u.ts[i], false);
    job       j = {v->in[1].u.g, n_in, n, l->need, have, n_in, reached};
    td_graph *g =
        ok ? capture_backward(v->cx, &j, (td_values){l->args, n_args}, "body") : NULL;
    *more = false;
    for (int i = 0; g && i < n; i++) {
        *more |= reached[i] && !have[i];
        have[i] |= reached[i];
    }
    td__graph_drop(g);
    return g != NULL;
}

/* Decides for which states there are gradients: floating-point ones that the gradients
 * which arrived reach in some iteration. A state beside them has none: zeros would
 * become NaN where the body has a pole, and be added to gradients of other states. */
static bool find_states(td_vjp *v, loop_grad *l) {
    int   n = (int)v->in[2].n, n_in = n + (int)v->in[3].n;
    bool  more = false;
    bool *have = td__zalloc((size_t)(2 * n_in + 1));
    if (!have) return td__fail_memory(v->cx);
    for (int i = 0; i < n_in; i++) {
        bool fixed = i >= n;
        l->need[i] = fixed ? v->list_need[3][i - n]
                           : td__is_float((td_dtype)v->in[2].u.ts[i]->dtype);
        have[i] = !fixed && l->need[i] && v->g[i];
        more |= !fixed && l->need[i] && !have[i];
    }
    bool all = !more, ok = true;
    while (ok && more) ok = reach_states(v, l, have, have + n_in, &more);
    for (int i = 0; i < n && !all; i++) l->need[i] = have[i];
    td__free(have);
    return ok;
}

/* Fills *l. Arguments 2 and 3 of while_loop are the state and the fixed tensors. */
static bool prepare_loop(td_vjp *v, loop_grad *l) {
    td_value state = v->in[2], fixed = v->in[3];
    bool     ok = find_states(v, l);
    for (uint32_t i = 0; ok && i < state.n; i++)
        ok = add_template(l->args, &l->n_args, state.u.ts[i], l->need[i]);
    for (uint32_t i = 0; ok && i < fixed.n; i++)
        ok = add_template(l->args, &l->n_args, fixed.u.ts[i], v->list_need[3][i]);
    for (uint32_t i = 0; ok && i < state.n; i++)
        ok = !l->need[i] || add_state_grad(v, l, (int)i);
    for (uint32_t i = 0; ok && i < fixed.n; i++)
        ok = !v->list_need[3][i] || add_sum(l, fixed.u.ts[i]);
    return ok;
}

/* Distributes the results to the operands that need them. */
static void give_grads(td_vjp *v, const loop_grad *l) {
    int at = 0;
    for (uint32_t i = 0; i < v->in[2].n; i++) {
        if (!l->need[i]) continue;
        if (v->list_need[2][i]) v->list_grad[2][i] = l->out[at];
        at++;
    }
    for (uint32_t i = 0; i < v->in[3].n; i++)
        if (v->list_need[3][i]) v->list_grad[3][i] = l->out[at++];
}

/* Marks incoming gradients that require grad from the second iteration on, since what
 * `back` computes for them does, and makes their templates anew. *more: there are
 * some. */
static bool note_later(loop_grad *l, const td_graph *back, bool *more) {
    int first = l->n_args - l->n_grads;
    *more = false;
    for (int i = 0; i < l->n_grads; i++) {
        const td_garg *a = &back->outputs.v[i];
        if (l->later[i] || a->kind != TD_G_VALUE || !a->u.v->type->grad) continue;
        l->later[i] = *more = true;
        int at = first + i;
        if (!add_template(l->args, &at, l->grads[i], true)) return false;
    }
    return true;
}

/* The backward graph of one iteration; NULL after td__fail. With create_graph it is
 * captured until it is clear which gradients require grad; each round adds one. */
static td_graph *capture_iteration(td_vjp *v, loop_grad *l) {
    int       n = (int)v->in[2].n;
    job       j = {v->in[1].u.g, n + (int)v->in[3].n, n, l->need, l->need, n, NULL};
    td_values args = {l->args, l->n_args};
    for (bool more;;) {
        td_graph *back = capture_backward(v->cx, &j, args, "body");
        if (!back || !v->cx->grad_enabled) return back;
        bool ok = note_later(l, back, &more);
        if (ok && !more) return back;
        td__graph_drop(back);
        if (!ok) return NULL;
    }
}

/* Captures the backward of the body and calls while_loop_backward, which runs it for
 * each iteration in reverse. */
static bool run_loop_rule(td_vjp *v, loop_grad *l) {
    if (!check_repeats(v->cx, v->in[0].u.g, "test") || !prepare_loop(v, l))
        return false;
    td_graph *back = capture_iteration(v, l);
    if (!back) return false;
    td_tensors grads = {l->grads, l->n_grads};
    td_value   in[] = {v->in[0],
                       v->in[1],
                       td__value_graph(back),
                       v->in[2],
                       v->in[3],
                       td__value_tensors(grads),
                       td_value_int(l->n_sums)};
    bool       ok =
        td__call_list(v->cx, TD_OP_while_loop_backward, in, 7, l->out, l->n_grads) >= 0;
    if (ok) give_grads(v, l);
    td__graph_drop(back);
    return ok;
}

/* The derivative of a captured loop. There is at most one gradient per state variable
 * and per fixed operand, and as many sums. */
bool td__vjp_while_loop(td_vjp *v) {
    if (v->in[2].kind != TD_K_TENSORS) return true; /* no operand needs a gradient */
    size_t    most = 2 * ((size_t)v->in[2].n + (size_t)v->in[3].n) + 1;
    loop_grad l = {0};
    l.args = td__zalloc((sizeof(td_value) + 2 * sizeof(td_tensor *) + 2) * most);
    if (!l.args) return td__fail_memory(v->cx);
    l.grads = (td_tensor **)(void *)(l.args + most);
    l.out = l.grads + most;
    l.need = (bool *)(l.out + most);
    l.later = l.need + most;
    bool ok = run_loop_rule(v, &l);
    td__free(l.args);
    return ok;
}

bool td__vjp_while_loop_backward(td_vjp *v) {
    return td__fail(
        v->cx, TD_E_UNSUPPORTED,
        "while_loop: second derivatives of a captured loop are unsupported; "
        "unroll the loop, or differentiate the eager function");
}
