/* region_ops.c -- the ops of regions in a trace: region becomes a call of its halves,
 * or the ops of its body; the derivative of the forward half is a call of the backward
 * half. */
#include "part/region.h"

#include "core/config.h"
#include "ops/call.h"

/* ---- region ------------------------------------------------------------- */

/* Region is a pure op: passes may remove, move or merge calls of it. td_call_region
 * inlines bodies that are not pure, but a text may contain one. */
static bool check_pure(td_opcall *c, td_tensors ts, const uint64_t *version) {
    for (int i = 0; i < ts.n; i++)
        if (td__version(ts.v[i]) != version[i])
            return td__op_fail(c, TD_E_ARG,
                               "the body writes operand %d; a region leaves its "
                               "operands as they are. Write a clone of it, or call the "
                               "function with control=true, as td_call_region",
                               i);
    for (int i = 0; i < c->n_out; i++) {
        bool shared = false;
        for (int k = 0; k < ts.n; k++) shared |= ts.v[k]->st == c->out[i]->st;
        for (int k = 0; k < i; k++) shared |= c->out[k]->st == c->out[i]->st;
        if (shared)
            return td__op_fail(c, TD_E_ARG,
                               "result %d shares storage with an operand or another "
                               "result; a region returns new tensors. Return a clone "
                               "of it, or call the function with control=true, as "
                               "td_call_region",
                               i);
    }
    return true;
}

/* Operands as inputs of the body; tensors that it holds itself have no operand. */
static void give_operands(const td_graph *body, td_tensors ts, td_value *in) {
    int at = 0;
    for (int i = 0; i < body->inputs.n && at < ts.n; i++)
        if (!td__graph_holds(body, i)) in[i] = td_value_tensor(ts.v[at++]);
}

/* Calls the ops of the body, as eager does. */
static bool call_body(td_opcall *c, const td_graph *body, td_tensors ts) {
    size_t    n = (size_t)body->inputs.n, m = (size_t)body->outputs.n;
    size_t    bytes = sizeof(td_value) * (n + m + 1) + sizeof(uint64_t) * (size_t)ts.n;
    td_value *in = td__zalloc(bytes);
    if (!in) return td__fail_memory(c->cx);
    uint64_t *version = (uint64_t *)(void *)(in + n + m + 1);
    for (int i = 0; i < ts.n; i++) version[i] = td__version(ts.v[i]);
    give_operands(body, ts, in);
    bool ok = td__graph_replay(body, in, in + n) && td__call_results(c, (int)m);
    for (size_t i = 0; i < m && ok; i++) {
        ok = in[n + i].kind == TD_K_TENSOR ||
             td__op_fail(c, TD_E_ARG, "result %d of the body is not a tensor", (int)i);
        if (ok) c->out[i] = in[n + i].u.t;
    }
    ok = ok && check_pure(c, ts, version);
    td__free(in);
    return ok;
}

/* Calls op with arguments in[0..n), whose first m results are those of c. */
static bool call_half(td_opcall *c, td_op op, const td_value *in, int n, int m,
                      int cap) {
    td_tensor **out =
        td__arena_zalloc(&c->cx->scratch, sizeof *out * ((size_t)cap + 1));
    if (!out) return td__fail_memory(c->cx);
    if (td__call_list(c->cx, op, in, n, out, cap) < 0 || !td__call_results(c, m))
        return false;
    for (int i = 0; i < m; i++) c->out[i] = out[i];
    return true;
}

static td_value ints_value(const int64_t *v, int n) {
    return td__value_ints((td_ints){v, n});
}

/* Calls the halves of r. */
static bool call_halves(td_opcall *c, const td_region_parts *r) {
    const td_joint *j = r->j;
    int             m = j->n_results;
    if (!r->h) {
        td_value in[] = {td__value_graph(r->forward), c->in[1]};
        return call_half(c, TD_OP_call, in, 2, m, m);
    }
    td_value in[TD_CALL_ARGS] = {[TD_CALL_BODY] = td__value_graph(r->body),
                                 [TD_CALL_BACKWARD] = td__value_graph(r->back->g),
                                 [TD_CALL_FORWARD] = td__value_graph(r->forward),
                                 [TD_CALL_OPERANDS] = c->in[1],
                                 [TD_CALL_RESULTS] = td_value_int(m),
                                 [TD_CALL_SAVED] = ints_value(r->saved, r->h->n_saved),
                                 [TD_CALL_TANGENTS] =
                                     ints_value(r->tangents, j->n_tangents),
                                 [TD_CALL_GRADS] =
                                     ints_value(r->back->grads, j->n_primals),
                                 [TD_CALL_CHECKS] = ints_value(r->checks, r->n_checks)};
    return call_half(c, TD_OP_call_forward, in, TD_CALL_ARGS, m, m + r->h->n_saved);
}

/* The parts of a region. Outside of a trace, and in a trace of gradients of gradients,
 * they are the ops of the body. */
bool td__decomp_region(td_opcall *c) {
    td_graph  *body = c->in[0].u.g;
    td_tensors ts = {c->in[1].u.ts, (int)c->in[1].n};
    if (!td__nested_literals(c)) return false;
    if (!c->cx->fake || c->cx->whole) return call_body(c, body, ts);
    td_region_parts *r = td__region_for(body, ts, false);
    if (!r) return false;
    return r->inlined ? call_body(c, body, ts) : call_halves(c, r);
}

/* ---- its derivative ------------------------------------------------------ */

td_tensor *td__lay_out(td_tensor *t, const td_gtype *l) {
    bool same = !l || l->of || td__dims_identical(t->stride, l->stride, t->rank);
    if (same) return t;
    td_ints size = {l->size, l->rank}, stride = {l->stride, l->rank};
    return td_op_copy(td__empty_on(t->cx, l->device, size, stride, (td_dtype)l->dtype),
                      t, false);
}

/* A placeholder for a missing tangent: no node of the graph reads it. */
static td_tensor *no_tangent(td_ctx *cx, const td_gval *v) {
    td_ints size = {v->type->size, v->type->rank};
    td_meta m = td__geom_meta(&v->type->geom);
    if (!v->type->of)
        return td__zeros_on(cx, v->type->device, size, (td_dtype)v->type->dtype);
    td_tensor *like = td__tensor_make(cx, &m, true);
    if (!like || !td__gtyped_fake(like, v->type->of)) return td_nil(cx);
    return td__filled_like(like, 0.0);
}

/* The inputs of the backward graph: saved values, then tangents. */
static bool give_inputs(const td_vjp *v, const td_graph *back, td_tensor **ts) {
    int n_saved = (int)v->in[TD_CALL_SAVED].n;
    int results = (int)v->in[TD_CALL_RESULTS].u.i;
    for (int i = 0; i < n_saved; i++) ts[i] = v->out[results + i];
    for (int i = 0; i < (int)v->in[TD_CALL_TANGENTS].n; i++) {
        td_tensor     *g = v->g[v->in[TD_CALL_TANGENTS].u.ints[i]];
        const td_gval *to = back->inputs.v[n_saved + i];
        ts[n_saved + i] = g ? td__lay_out(g, to->type) : no_tangent(v->cx, to);
        if (td_is_nil(ts[n_saved + i])) return false;
    }
    return true;
}

/* Do all gradients arrive, as plain tensors or as those that the graph is for? */
static bool all_arrive(const td_vjp *v, const td_graph *back) {
    int n_saved = (int)v->in[TD_CALL_SAVED].n;
    for (int i = 0; i < (int)v->in[TD_CALL_TANGENTS].n; i++) {
        const td_tensor *g = v->g[v->in[TD_CALL_TANGENTS].u.ints[i]];
        if (!g || g->typed || back->inputs.v[n_saved + i]->type->of) return false;
    }
    return true;
}

/* Does no gradient arrive? Then only custom functions of the body run. */
static bool none_arrives(const td_vjp *v) {
    for (int i = 0; i < v->n_out; i++)
        if (v->g[i]) return false;
    return true;
}

/* The value a of a backward graph as views of an input, ts[nr]; NULL: it is computed,
 * or after td__fail. */
static td_tensor *view_of_input(td_ctx *cx, const td_garg *a, td_tensor *const *ts) {
    const td_gval  *out = a->u.v;
    const td_gnode *n = out->node;
    td_value        in[TD_MAX_ARGS] = {{0}};
    if (!n) return ts[out->nr]->typed ? NULL : ts[out->nr];
    int of = td__opinfo(n->op)->view_of;
    if (of < 0 || n->in[of].kind != TD_G_VALUE) return NULL;
    for (int i = 0; i < n->n_in; i++)
        if (i != of && !td__garg_literal(&n->in[i], &in[i])) return NULL;
    td_tensor *base = view_of_input(cx, &n->in[of], ts);
    if (!base) return NULL;
    /* the trace records no alias, but a view */
    if (n->op == TD_OP_alias) return td_op_view(base, td__sizes(base));
    in[of] = td_value_tensor(base);
    td_tensor **v = td__arena_zalloc(&cx->scratch, sizeof *v * ((size_t)n->n_out + 1));
    if (!v) return td__fail_memory(cx), NULL;
    if (!td__call(cx, n->op, in, n->n_in, v, n->n_out)) return NULL;
    int at = 0;
    while (at < n->n_out - 1 && n->out[at] != out) at++;
    return td_is_nil(v[at]) ? NULL : v[at];
}

/* Result k of the backward graph. A call returns new tensors; a gradient that is a view
 * of the tangent in eager is one here too, because a leaf takes over its storage. */
static td_tensor *result_or_view(td_ctx *cx, const td_graph *back, int64_t k,
                                 td_tensor *const *ts, td_tensor *const *out) {
    td_tensor *view = view_of_input(cx, &back->outputs.v[k], ts);
    return view || !td_ok(cx) ? view : out[k];
}

/* Calls the backward graph; grads[] is as in op call_forward. */
static bool call_back(td_vjp *v, const td_graph *back, const int64_t *grads) {
    td_ctx     *cx = v->cx;
    size_t      n = (size_t)back->inputs.n, m = (size_t)back->outputs.n;
    td_tensor **ts = td__zalloc(sizeof *ts * (n + m + 1));
    if (!ts) return td__fail_memory(cx);
    td_tensor **out = ts + n;
    td_value    in[] = {td__value_graph(back),
                        td__value_tensors((td_tensors){ts, (int)n})};
    bool        ok = give_inputs(v, back, ts) &&
              (m == 0 || td__call_list(cx, TD_OP_call, in, 2, out, (int)m) >= 0);
    for (uint32_t i = 0; ok && i < v->in[TD_CALL_OPERANDS].n; i++)
        if (v->list_need[TD_CALL_OPERANDS][i] && td__region_gives(grads[i]))
            v->list_grad[TD_CALL_OPERANDS][i] =
                grads[i] >= 0 ? result_or_view(cx, back, grads[i], ts, out)
                              : ts[TD_GRAD_INPUT - grads[i]];
    td__free(ts);
    return ok && td_ok(cx);
}

/* Roots and gradients of td_grad in differentiate_body. */
typedef struct body_grads {
    td_tensor **root, **tangent, **with, **grad;
    int         n_root, n_with;
} body_grads;

static bool take_roots(const td_vjp *v, const td_value *out, int n, body_grads *b) {
    for (int i = 0; i < n; i++) {
        td_tensor *t = out[i].u.t;
        if (!v->g[i] || out[i].kind != TD_K_TENSOR || !td__needs_grad(t)) continue;
        b->root[b->n_root] = t;
        b->tangent[b->n_root++] = v->g[i];
    }
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true, .allow_unused = true};
    o.grads = (td_tensor_list){b->tangent, b->n_root};
    return b->n_root == 0 || td_grad((td_tensors){b->root, b->n_root},
                                     (td_tensors){b->with, b->n_with}, b->grad, &o);
}

/* The gradient of a region that is to be differentiated itself: the ops of the body are
 * called once more, on aliases of the operands, through whose histories no gradient of
 * another operand passes, and differentiated as those of eager. */
static bool differentiate_body(td_vjp *v, const td_graph *body) {
    size_t     n_in = (size_t)body->inputs.n, m = (size_t)body->outputs.n;
    int        n = (int)v->in[TD_CALL_OPERANDS].n;
    td_value  *in = td__zalloc(sizeof *in * (n_in + m + 1) +
                               sizeof(td_tensor *) * (2 * m + 3 * (size_t)n + 1));
    body_grads b = {0};
    if (!in) return td__fail_memory(v->cx);
    b.root = (td_tensor **)(void *)(in + n_in + m + 1);
    b.tangent = b.root + m;
    b.with = b.tangent + m;
    b.grad = b.with + n;
    td_tensor **alias = b.grad + n;
    bool        ok = true;
    for (int i = 0; i < n && ok; i++) {
        alias[i] = td_op_alias(v->in[TD_CALL_OPERANDS].u.ts[i]);
        ok = !td_is_nil(alias[i]);
        if (ok && v->list_need[TD_CALL_OPERANDS][i]) b.with[b.n_with++] = alias[i];
    }
    give_operands(body, (td_tensors){alias, n}, in);
    td_autocast_mode was = td_autocast_off_begin(v->cx); /* casts are nodes of body */
    ok = ok && td__graph_replay(body, in, in + n_in);
    td_autocast_end(v->cx, was);
    ok = ok && take_roots(v, in + n_in, (int)m, &b);
    for (int i = 0, at = 0; i < n && ok; i++) {
        if (!v->list_need[TD_CALL_OPERANDS][i]) continue;
        td_tensor *g = b.grad[at++];
        v->list_grad[TD_CALL_OPERANDS][i] = g && !td_is_nil(g) ? g : NULL;
    }
    td__free(in);
    return ok;
}

/* May the body run once more? Numbers would be drawn anew, and an operand that backward
 * does not read may have been written since. */
static bool may_repeat(const td_vjp *v, const td_graph *body) {
    td_tensor *const *ts = v->in[TD_CALL_OPERANDS].u.ts;
    for (uint32_t i = 0; i < v->in[TD_CALL_OPERANDS].n; i++)
        if (!ts || !ts[i]) return false;
    return !td__graph_draws(body);
}

/* For missing gradients eager does not run the nodes they would visit: another backward
 * graph is made, which reads the same saved values. */
bool td__vjp_call_forward(td_vjp *v) {
    const td_graph *body = v->in[TD_CALL_BODY].u.g;
    const td_graph *back = v->in[TD_CALL_BACKWARD].u.g;
    const int64_t  *grads = v->in[TD_CALL_GRADS].u.ints;
    if (v->cx->grad_enabled && !may_repeat(v, body))
        return td__fail(v->cx, TD_E_UNSUPPORTED,
                        "region @%.60s: a gradient of its gradient is taken inside of "
                        "the captured function, which is unsupported for a region that "
                        "draws random numbers, or has an operand that has been "
                        "written since; call the body without td_call_region",
                        body->name);
    if (v->cx->grad_enabled && none_arrives(v))
        return td__fail(v->cx, TD_E_UNSUPPORTED,
                        "region @%.60s: a gradient that is to be differentiated itself "
                        "reaches its results without a value, and its body calls a "
                        "custom function; call the body without td_call_region",
                        body->name);
    if (v->cx->grad_enabled) return differentiate_body(v, body);
    if (all_arrive(v, back)) return call_back(v, back, grads);
    td_region_parts *r = td__region_of(body, v->in[TD_CALL_FORWARD].u.g);
    if (!r)
        return td__fail(v->cx, TD_E_UNSUPPORTED,
                        "call_forward @%.60s: gradients of some results do not arrive, "
                        "or are of a type, and the graph for that cannot be made of a "
                        "text",
                        body->name);
    const td_region_back *b = td__region_back(r, v->g);
    return b && call_back(v, b->g, b->grads);
}
