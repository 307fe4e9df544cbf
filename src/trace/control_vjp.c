/* control_vjp.c -- the derivative of a branch: the branch between the backwards of its
 * two graphs. Such a backward is captured: it replays the graph and asks the engine
 * for gradients, so it computes again what it reads, and any order of derivative
 * follows from the ops in it. */
#include "trace/trace.h"

/* One backward while it is captured. */
typedef struct job {
    const td_graph *g;
    int             n_in, n_out; /* operands and results of the graph */
    const bool     *need;        /* by operand */
    const bool     *have;        /* by result: a gradient arrived */
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
        td__zalloc(sizeof(td_value) * (n + m) + sizeof(td_tensor *) * 2 * (n + m));
    if (!p) return td__fail_memory(cx);
    r->in = (td_value *)(void *)p;
    r->out = r->in + n;
    r->of = (td_tensor **)(void *)(r->out + m);
    r->g = r->of + m;
    r->with = r->g + m;
    r->grad = r->with + n;
    return true;
}

/* Which results have a gradient to pass on, and which operands want one. */
static void choose(td_call *c, const job *j, room *r) {
    for (int i = 0, at = j->n_in; i < j->n_out; i++) {
        if (!j->have[i]) continue;
        td_tensor *g = td_arg(c, at++), *t = r->out[i].u.t;
        if (!td__needs_grad(t)) continue;
        r->of[r->n_of] = t;
        r->g[r->n_of++] = g;
    }
    for (int i = 0; i < j->n_in; i++)
        if (j->need[i]) r->with[r->n_with++] = td_arg(c, i);
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
        r->grad[i] = td_op_zeros(t->cx, td_sizes(t), (td_dtype)t->dtype);
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

/* ---- the rule ----------------------------------------------------------- */

/* Inputs of the backward: operands, then gradients that arrived. */
static bool make_templates(const td_vjp *v, td_value *to, int *n) {
    td_value ops = v->in[3];
    for (uint32_t i = 0; i < ops.n; i++) {
        td_tensor *t = td__template(ops.u.ts[i], v->list_need[3][i]);
        if (!t) return false;
        to[(*n)++] = td_value_tensor(t);
    }
    for (int i = 0; i < v->n_out; i++) {
        td_tensor *t = v->g[i] ? td__template(v->g[i], false) : NULL;
        if (v->g[i] && !t) return false;
        if (t) to[(*n)++] = td_value_tensor(t);
    }
    return true;
}

static td_graph *capture_backward(const td_vjp *v, int arg, td_values args,
                                  const bool *have) {
    td_ctx *cx = v->cx;
    job     j = {.g = v->in[arg].u.g,
                 .n_in = (int)v->in[3].n,
                 .n_out = v->n_out,
                 .need = v->list_need[3],
                 .have = have};
    if (td__graph_draws(j.g)) {
        td__fail(cx, TD_E_UNSUPPORTED,
                 "cond: branch @%.60s draws random numbers, which its backward would "
                 "draw anew; draw them outside and pass them as arguments",
                 j.g->name);
        return NULL;
    }
    bool was = cx->grad_enabled, inference = cx->inference;
    cx->grad_enabled = true;
    cx->inference = false;
    td_graph *g = td__capture(cx, backward_body, &j, args);
    cx->grad_enabled = was;
    cx->inference = inference;
    if (g) g->name = td__graph_str(g, arg == 1 ? "yes_backward" : "no_backward");
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
    td_graph *g[2] = {capture_backward(v, 1, (td_values){args, n}, have), NULL};
    g[1] = g[0] ? capture_backward(v, 2, (td_values){args, n}, have) : NULL;
    bool ok = g[1] && call_backward(v, g, (td_tensors){ts, n}, n_need);
    td__graph_drop(g[0]);
    td__graph_drop(g[1]);
    return ok;
}

bool td__vjp_cond(td_vjp *v) {
    size_t n = (size_t)v->in[3].n + (size_t)v->n_out + 1;
    if (v->in[0].kind != TD_K_TENSOR) return true; /* led nowhere: nothing was saved */
    td_value   *args = td__zalloc((sizeof *args + sizeof(td_tensor *) + 1) * n);
    td_tensor **ts = (td_tensor **)(void *)(args + n);
    if (!args) return td__fail_memory(v->cx);
    bool ok = run_rule(v, args, ts, (bool *)(ts + n));
    td__free(args);
    return ok;
}

bool td__vjp_while_loop(td_vjp *v) {
    return td__fail(v->cx, TD_E_UNSUPPORTED,
                    "while_loop: gradients do not pass through a loop in a graph; run "
                    "it with gradients off, or unroll it");
}
