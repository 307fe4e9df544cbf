/* control_vjp.c -- the derivative of a branch: the branch between the backwards of its
 * two graphs; and of a loop: while_loop_backward, with the backward of one turn. Such a
 * backward is captured: it replays the graph and asks the engine for gradients, so it
 * computes again what it reads, and of a branch any order of derivative follows from
 * the ops in it. */
#include "trace/trace.h"

#include <stdio.h>

/* One backward while it is captured. */
typedef struct job {
    const td_graph *g;
    int             n_in, n_out; /* operands and results of the graph */
    const bool     *need;        /* by operand */
    const bool     *have;        /* by result: a gradient arrived */
    int             sums; /* needed operands from this one on have a sum so far */
} job;

/* Results and gradients of a run, in one block. */
typedef struct room {
    td_value   *in, *out;
    td_tensor **of, **g, **with, **grad;
    int         n_of, n_with;
} room;

static bool make_room(td_ctx *cx, const job *j, room *r) {
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

static void add_root(room *r, td_tensor *t, td_tensor *g) {
    if (!td__needs_grad(t)) return;
    r->of[r->n_of] = t;
    r->g[r->n_of++] = g;
}

/* Which results have a gradient to pass on, and which operands want one. A sum so far
 * comes in at the operand itself: what this run adds is added to it, one by one. */
static void choose(td_call *c, const job *j, room *r) {
    int at = j->n_in;
    for (int i = 0; i < j->n_out; i++)
        if (j->have[i]) add_root(r, r->out[i].u.t, td_arg(c, at++));
    for (int i = 0; i < j->n_in; i++) {
        if (!j->need[i]) continue;
        if (i >= j->sums) add_root(r, td_arg(c, i), td_arg(c, at++));
        r->with[r->n_with++] = td_arg(c, i);
    }
}

/* The same layout whichever branch it is, and nobody else's bytes. */
static bool tidy(td_call *c, room *r) {
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

static bool no_grads(room *r) {
    for (int i = 0; i < r->n_with; i++) {
        td_tensor *t = r->with[i];
        r->grad[i] = td_op_zeros(t->cx, td__sizes(t), (td_dtype)t->dtype);
        if (td_is_nil(r->grad[i])) return false;
    }
    return true;
}

static bool differentiate(td_call *c, const job *j, room *r) {
    for (int i = 0, at = 0; i < j->g->inputs.n; i++)
        if (!td__graph_holds(j->g, i)) r->in[i] = td_value_tensor(td_arg(c, at++));
    if (!td__graph_replay(j->g, r->in, r->out)) return false;
    choose(c, j, r);
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true, .materialize = true,
                      .grads = {r->g, r->n_of}};
    td_tensors   of = {r->of, r->n_of}, with = {r->with, r->n_with};
    if (r->n_of ? !td_grad(of, with, r->grad, &o) : !no_grads(r)) return false;
    if (!tidy(c, r)) return false;
    for (int i = 0; i < r->n_with; i++) r->in[i] = td_value_tensor(r->grad[i]);
    return td_return_values(c, (td_values){r->in, r->n_with});
}

static bool backward_body(td_call *c) {
    const job *j = td_call_env(c);
    room       r = {0};
    if (!make_room(td_call_ctx(c), j, &r)) return false;
    bool ok = differentiate(c, j, &r);
    td__free(r.in);
    return ok;
}

/* ---- branches ----------------------------------------------------------- */

static bool add_template(td_value *to, int *n, td_tensor *t, bool grad) {
    if (!(t = td__template(t, grad))) return false;
    to[(*n)++] = td_value_tensor(t);
    return true;
}

/* Inputs of the backward: operands, then gradients that arrived. */
static bool make_templates(const td_vjp *v, td_value *to, int *n) {
    td_value ops = v->in[3];
    for (uint32_t i = 0; i < ops.n; i++)
        if (!add_template(to, n, ops.u.ts[i], v->list_need[3][i])) return false;
    for (int i = 0; i < v->n_out; i++)
        if (v->g[i] && !add_template(to, n, v->g[i], false)) return false;
    return true;
}

/* The backward of j->g, which is the `what` of an op; NULL after td__fail. */
static td_graph *capture_backward(td_ctx *cx, job *j, td_values args,
                                  const char *what) {
    char name[40];
    snprintf(name, sizeof name, "%s_backward", what);
    if (td__graph_draws(j->g)) {
        td__fail(cx, TD_E_UNSUPPORTED,
                 "%s @%.60s draws random numbers, which its backward would draw anew; "
                 "draw them outside and pass them as arguments",
                 what, j->g->name);
        return NULL;
    }
    bool was = cx->grad_enabled, inference = cx->inference;
    cx->grad_enabled = true;
    cx->inference = false;
    td_graph *g = td__capture(cx, backward_body, j, args);
    cx->grad_enabled = was;
    cx->inference = inference;
    if (g) g->name = td__graph_str(g, name);
    if (g && g->name && td__graph_dce(g))
        return g; /* results backward has no use for */
    td__graph_drop(g);
    return NULL;
}

/* Calls cond over the backwards; its results are the gradients that are needed. */
static bool call_backward(td_vjp *v, td_graph *const *g, td_tensors ts, int n_need) {
    td_value    in[] = {v->in[0], td__value_graph(g[0]), td__value_graph(g[1]),
                        td__value_tensors(ts)};
    td_tensor **out = td__alloc(sizeof *out * (size_t)(n_need + 1));
    if (!out) return td__fail_memory(v->cx);
    bool ok = td__call_list(v->cx, TD_OP_cond, in, 4, out, n_need) >= 0;
    for (uint32_t i = 0, at = 0; ok && i < v->in[3].n; i++)
        if (v->list_need[3][i]) v->list_grad[3][i] = out[at++];
    td__free(out);
    return ok;
}

static bool run_rule(td_vjp *v, td_value *args, td_tensor **ts, bool *have) {
    int n = 0, n_need = 0;
    if (!make_templates(v, args, &n)) return false;
    n = 0;
    for (uint32_t i = 0; i < v->in[3].n; i++) {
        ts[n++] = v->in[3].u.ts[i];
        n_need += v->list_need[3][i];
    }
    for (int i = 0; i < v->n_out; i++)
        if ((have[i] = v->g[i] != NULL)) ts[n++] = v->g[i];
    int       n_in = (int)v->in[3].n;
    job       yes = {v->in[1].u.g, n_in, v->n_out, v->list_need[3], have, n_in};
    job       no = {v->in[2].u.g, n_in, v->n_out, v->list_need[3], have, n_in};
    td_values with = {args, n};
    td_graph *g[2] = {capture_backward(v->cx, &yes, with, "yes"), NULL};
    g[1] = g[0] ? capture_backward(v->cx, &no, with, "no") : NULL;
    bool ok = g[1] && call_backward(v, g, (td_tensors){ts, n}, n_need);
    td__graph_drop(g[0]);
    td__graph_drop(g[1]);
    return ok;
}

bool td__vjp_cond(td_vjp *v) {
    size_t n = (size_t)v->in[3].n + (size_t)v->n_out + 1;
    if (v->in[0].kind != TD_K_TENSOR) return true; /* led nowhere: nothing was saved */
    td_value *args = td__zalloc((sizeof *args + sizeof(td_tensor *) + 1) * n);
    if (!args) return td__fail_memory(v->cx);
    td_tensor **ts = (td_tensor **)(void *)(args + n);
    bool        ok = run_rule(v, args, ts, (bool *)(ts + n));
    td__free(args);
    return ok;
}

/* ---- loops -------------------------------------------------------------- */

/* The call of while_loop_backward in the making. */
typedef struct looped {
    td_value   *args; /* templates: the state, fixed tensors, gradients, sums */
    td_tensor **grads, **out;
    bool       *need; /* by operand: the float state, and fixed tensors that need it */
    int         n_args, n_grads, n_sums;
} looped;

static bool add_grad(looped *l, td_tensor *g) {
    l->grads[l->n_grads++] = g;
    return !td_is_nil(g) && add_template(l->args, &l->n_args, g, false);
}

/* Gradients come in at the state's own layout, as those between turns do. */
static bool add_state_grad(td_vjp *v, looped *l, int i) {
    td_tensor *g = v->g[i] ? v->g[i] : td__vjp_zeros(v, i);
    if (!td_is_nil(g) && !td__is_dense(g->rank, g->size, g->stride))
        g = td_op_clone(g, true);
    return add_grad(l, g);
}

/* A sum begins with what changes nothing that is added to it. */
static bool add_sum(looped *l, const td_tensor *t) {
    l->n_sums++;
    return add_grad(l, td_op_full(t->cx, td__sizes(t), td_value_float(-0.0),
                                  (td_dtype)t->dtype));
}

static bool prepare_loop(td_vjp *v, looped *l) {
    td_value state = v->in[2], fixed = v->in[3];
    bool     ok = true;
    for (uint32_t i = 0; ok && i < state.n; i++) {
        l->need[i] = td__is_float((td_dtype)state.u.ts[i]->dtype);
        ok = add_template(l->args, &l->n_args, state.u.ts[i], l->need[i]);
    }
    for (uint32_t i = 0; ok && i < fixed.n; i++) {
        l->need[state.n + i] = v->list_need[3][i];
        ok = add_template(l->args, &l->n_args, fixed.u.ts[i], v->list_need[3][i]);
    }
    for (uint32_t i = 0; ok && i < state.n; i++)
        ok = !l->need[i] || add_state_grad(v, l, (int)i);
    for (uint32_t i = 0; ok && i < fixed.n; i++)
        ok = !v->list_need[3][i] || add_sum(l, fixed.u.ts[i]);
    return ok;
}

static void give_grads(td_vjp *v, const looped *l) {
    int at = 0;
    for (uint32_t i = 0; i < v->in[2].n; i++) {
        if (!l->need[i]) continue;
        if (v->list_need[2][i]) v->list_grad[2][i] = l->out[at];
        at++;
    }
    for (uint32_t i = 0; i < v->in[3].n; i++)
        if (v->list_need[3][i]) v->list_grad[3][i] = l->out[at++];
}

static bool run_loop_rule(td_vjp *v, looped *l) {
    if (!prepare_loop(v, l)) return false;
    int       n = (int)v->in[2].n;
    job       j = {v->in[1].u.g, n + (int)v->in[3].n, n, l->need, l->need, n};
    td_values args = {l->args, l->n_args};
    td_graph *back = capture_backward(v->cx, &j, args, "body");
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

bool td__vjp_while_loop(td_vjp *v) {
    if (v->in[2].kind != TD_K_TENSORS) return true; /* led nowhere */
    size_t most = 2 * ((size_t)v->in[2].n + (size_t)v->in[3].n) + 1;
    looped l = {0};
    l.args = td__zalloc((sizeof(td_value) + 2 * sizeof(td_tensor *) + 1) * most);
    if (!l.args) return td__fail_memory(v->cx);
    l.grads = (td_tensor **)(void *)(l.args + most);
    l.out = l.grads + most;
    l.need = (bool *)(l.out + most);
    bool ok = run_loop_rule(v, &l);
    td__free(l.args);
    return ok;
}

bool td__vjp_while_loop_backward(td_vjp *v) {
    return td__fail(v->cx, TD_E_UNSUPPORTED,
                    "while_loop_backward: second gradients do not pass through a loop "
                    "in a graph; unroll it, or take them of the function as it is");
}
