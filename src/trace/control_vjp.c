/* control_vjp.c -- backward graphs of branches and loops, and the derivative of cond,
 * which is a cond between the backward graphs of its two branches.
 *
 * A backward graph is captured from a body that replays the forward graph and
 * calls td_grad. So it recomputes the forward values it reads, and higher
 * derivatives of a branch follow from its ops. */
#include "core/typed.h"
#include "ops/call.h"
#include "trace/control_int.h"

#include <stdio.h>
#include <string.h>

/* Arrays for one run of backward_body, in one allocation. */
typedef struct buffers {
    td_value   *in, *out;                /* of the forward graph */
    td_tensor **of, **g, **with, **grad; /* arguments and results of td_grad */
    int         n_of, n_with;
} buffers;

/* One allocation for the arguments, results and gradients of a body and its
 * backward. */
static bool make_buffers(td_ctx *cx, const td_backward_job *j, buffers *r) {
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
static void choose_roots(td_call *c, const td_backward_job *j, buffers *r) {
    int at = j->n_in + j->skipped;
    for (int i = 0; i < j->n_out; i++)
        if (j->have[i]) add_root(r, r->out[i].u.t, td_arg(c, at++));
    for (int i = 0; i < j->n_in; i++) {
        if (!j->need[i]) continue;
        if (i >= j->sums) add_root(r, td_arg(c, i), td_arg(c, at++));
        r->with[r->n_with++] = td_arg(c, i);
    }
}

/* ---- gradients of a type ------------------------------------------------ */

bool td__grad_types_make(td_ctx *cx, td_grad_types *g, int n) {
    g->v = td__zalloc(sizeof(td_tensor *) * ((size_t)n + 1));
    g->n = g->v ? n : 0;
    return g->v || td__fail_memory(cx);
}

void td__grad_types_free(td_grad_types *g) {
    for (int i = 0; i < g->n; i++)
        if (g->v[i]) td__unref(g->v[i]);
    td__free(g->v);
}

static bool is_dense(void *env, td_tensor *leaf) {
    (void)env;
    return td__is_dense(leaf->rank, leaf->size, leaf->stride);
}

bool td__is_dense_inside(td_tensor *t) {
    return is_dense(NULL, t) && td__typed_leaves(t, is_dense, NULL);
}

/* Stores the gradients for j->made, whose types later captures use. */
static void note_made(const td_backward_job *j, const buffers *r) {
    for (int i = 0, at = 0; i < j->n_in && j->made; i++) {
        if (!j->need[i]) continue;
        td_tensor *g = r->grad[at++];
        if (!g || td_is_nil(g) || j->made[i]) continue;
        j->made[i] = td__ref(g);
    }
}

/* ---- one backward graph ------------------------------------------------- */

bool td__private_grads(td_call *c, td_tensor **g, int n) {
    td_values args = td__call_args(c);
    for (int i = 0; i < n; i++) {
        td_tensor *t = g[i];
        bool       shared = false;
        for (int k = 0; k < args.n; k++) shared |= args.v[k].u.t->st == t->st;
        for (int k = 0; k < i; k++) shared |= g[k]->st == t->st;
        if (shared || !td__is_dense_inside(t)) g[i] = td_op_clone(t, true);
        if (td_is_nil(g[i])) return false;
    }
    return true;
}

/* Replaces missing gradients by zeros; marks the others in j->reached. */
static bool fill_missing(const td_backward_job *j, buffers *r) {
    for (int i = 0, at = 0; i < j->n_in; i++) {
        if (!j->need[i]) continue;
        td_tensor *t = r->with[at], **g = &r->grad[at++];
        bool       missing = !*g || td_is_nil(*g);
        if (!missing && j->reached) j->reached[i] = true;
        if (missing && j->like && j->like[i]) *g = td__filled_like(j->like[i], 0.0);
        else if (missing) *g = td_op_zeros_like(t, TD_DTYPE_NONE);
        if (td_is_nil(*g)) return false;
    }
    return true;
}

/* Fails if a hook that the branch registered after hook `after` reads a result of the
 * branch: eager's hook reads the elements after later writes. */
static bool check_hooks(const td_graph *g, const buffers *r, uint64_t after) {
    for (int i = 0; i < g->outputs.n; i++) {
        const td_tensor *t = r->out[i].kind == TD_K_TENSOR ? r->out[i].u.t : NULL;
        if (t && td__hooks_read(g->cx, after, t->st))
            return td__hooks_fail_result(g->cx, t, i);
    }
    return true;
}

/* Replays the forward graph, whose effects have happened. A graph that draws sets the
 * generator (td__check_repeats), which is restored afterwards. */
static bool replay_forward(td_ctx *cx, const td_graph *g, buffers *r) {
    bool       draws = td__graph_draws(g);
    td_tensor *was = draws ? td_op_random_state(cx, NULL) : NULL;
    uint64_t   hooks = cx->last_hook;
    uint32_t   tags = cx->tags;
    if (draws && td_is_nil(was)) return false;
    cx->tags = TD_TAG_WISH(tags) | TD_TAG_FROM(TD_FROM_BEFORE);
    bool ok = td__graph_replay(g, r->in, r->out);
    cx->tags = tags;
    return ok && check_hooks(g, r, hooks) &&
           (!draws || !td_is_nil(td_op_random_state(cx, was)));
}

/* Replays the forward graph, calls td_grad and returns the gradients. */
static bool differentiate(td_call *c, const td_backward_job *j, buffers *r) {
    for (int i = 0, at = 0; i < j->g->inputs.n; i++)
        if (!td__graph_holds(j->g, i)) r->in[i] = td_value_tensor(td_arg(c, at++));
    if (!replay_forward(td_call_ctx(c), j->g, r)) return false;
    choose_roots(c, j, r);
    td_grad_opts o = {TD_GRAD_OPTS, .create_graph = true, .allow_unused = true,
                      .grads = {r->g, r->n_of}};
    td_tensors   of = {r->of, r->n_of}, with = {r->with, r->n_with};
    if (r->n_of && !td_grad(of, with, r->grad, &o)) return false;
    note_made(j, r);
    if (!fill_missing(j, r) || !td__private_grads(c, r->grad, r->n_with)) return false;
    for (int i = 0; i < r->n_with; i++) r->in[i] = td_value_tensor(r->grad[i]);
    return td_return_values(c, (td_values){r->in, r->n_with});
}

/* The body of a backward graph. Arguments: the operands, the gradients that arrived,
 * then the running sums. */
static bool backward_body(td_call *c) {
    const td_backward_job *j = td_call_env(c);
    td_ctx                *cx = td_call_ctx(c);
    buffers                r = {0};
    bool                   whole = cx->whole;
    if (!make_buffers(cx, j, &r)) return false;
    cx->whole = true; /* regions op by op: halves have no second derivative */
    bool ok = differentiate(c, j, &r);
    cx->whole = whole;
    td__free(r.in);
    return ok;
}

/* ---- branches ----------------------------------------------------------- */

bool td__add_template(td_value *to, int *n, td_tensor *t, bool grad) {
    if (!(t = td__template(t, grad))) return false;
    to[(*n)++] = td_value_tensor(t);
    return true;
}

/* Arguments for capturing the backward of a branch: operands, then the gradients that
 * arrived, which require grad with create_graph. */
static bool make_templates(const td_vjp *v, td_value *to, int *n) {
    td_value ops = v->in[3];
    for (uint32_t i = 0; i < ops.n; i++)
        if (!td__add_template(to, n, ops.u.ts[i], v->list_need[3][i])) return false;
    for (int i = 0; i < v->n_out; i++)
        if (v->g[i] && !td__add_template(to, n, v->g[i], td__needs_grad(v->g[i])))
            return false;
    return true;
}

/* Does g set the generator to the state in an input before each draw, so that it draws
 * the same numbers whenever it runs? Nested graphs are checked separately; hooks draw
 * in backward only. */
static bool sets_generator(const td_graph *g) {
    bool set = false;
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->dead || n->kind != TD_N_OP || n->op == TD_OP_on_grad) continue;
        bool state = n->op == TD_OP_random_state;
        if (state && n->n_in && n->in[0].kind == TD_G_VALUE) set = !n->in[0].u.v->node;
        if (state || set || !td__gnode_draws(n)) continue;
        if (td__op_draws(n->op)) return false;
        for (int k = 0; k < n->n_in; k++)
            if (n->in[k].kind == TD_G_GRAPH && !sets_generator(n->in[k].u.g))
                return false;
    }
    return true;
}

static const char *op_of(const char *what) {
    bool loop = !strcmp(what, "body") || !strcmp(what, "test");
    return loop ? "td_while: the" : "td_cond: branch";
}

bool td__check_repeats(td_ctx *cx, const td_graph *g, const char *what) {
    const char *who = op_of(what);
    bool        loop = strchr(who, ' ')[1] == 't';
    if (td__graph_draws(g) && !sets_generator(g))
        return td__fail(cx, TD_E_UNSUPPORTED,
                        "%s %s draws random numbers; its backward recomputes it and "
                        "would draw different ones. Draw them outside and %s",
                        who, what,
                        loop ? "read them in the body" : "pass them as arguments");
    return true;
}

bool td__drop_repeats(td_graph *g, const char *what) {
    bool ok = td__graph_dce(g);
    for (int i = 0; ok && i < g->nodes.n; i++) {
        td_gnode *n = g->nodes.v[i];
        if (n->origin != TD_FROM_BEFORE) continue;
        n->origin = TD_FROM_FORWARD;
        if (td__gnode_has_effect(n))
            ok = td__fail(g->cx, TD_E_UNSUPPORTED,
                          "%s %s: its backward reads the result of %s, and would "
                          "repeat its effect to compute it. Call the op outside, or do "
                          "not read its result",
                          op_of(what), what, td__row(n->op)->name);
    }
    return ok;
}

td_graph *td__without_effects(td_graph *g, const char *what) {
    if (!td__graph_flags(g, TD_OPF_EFFECT)) return td__graph_keep(g), g;
    td_graph *to = td__graph_clone(g);
    for (int i = 0; to && i < to->nodes.n; i++) to->nodes.v[i]->origin = TD_FROM_BEFORE;
    if (to && td__drop_repeats(to, what)) return to;
    td__graph_drop(to);
    return NULL;
}

/* Differentiating a backward graph would run its hooks and those of the forward graph a
 * second time; fails unless that equals one call. */
static bool refuse_hooks(td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        td_gnode   *n = g->nodes.v[i];
        const char *what = td__hook_not_linear(n);
        if (!what) continue;
        char why[320];
        snprintf(why, sizeof why,
                 "td_on_grad: unsupported: double backward passes a gradient hook in a "
                 "captured branch or loop that %s. " TD_HOOK_TWICE,
                 what);
        td_garg *in = td__arena_zalloc(&g->arena, sizeof *in * (TD_ON_GRAD_CODE + 1));
        const char *text = td__graph_str(g, why);
        if (!in || !text) return td__fail_memory(g->cx);
        memcpy(in, n->in, sizeof *in * TD_ON_GRAD_ERROR);
        in[TD_ON_GRAD_ERROR] = (td_garg){.kind = TD_G_STR, .u.s = text};
        in[TD_ON_GRAD_CODE] = (td_garg){.kind = TD_G_INT, .u.i = TD_E_UNSUPPORTED};
        n->in = in;
        n->n_in = TD_ON_GRAD_CODE + 1;
    }
    return true;
}

td_graph *td__capture_backward(td_ctx *cx, td_backward_job *j, td_values args,
                               const char *what) {
    char name[40];
    snprintf(name, sizeof name, "%s_backward", what);
    if (!td__check_repeats(cx, j->g, what)) return NULL;
    bool was = cx->grad_enabled, inference = cx->inference;
    cx->grad_enabled = true;
    cx->inference = false;
    td_graph *g = td__capture(cx, backward_body, j, args);
    cx->grad_enabled = was;
    cx->inference = inference;
    if (g) g->name = td__graph_str(g, name);
    if (g && g->name && refuse_hooks(g) && td__drop_repeats(g, what))
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

/* The backward graphs of both branches, 0 yes and 1 no. */
typedef struct both {
    const td_vjp *v;
    td_values     with;    /* arguments to capture with */
    const bool   *have;    /* as in td_backward_job */
    bool         *reached; /* by operand, in any branch */
    td_grad_types of[2];
    td_graph     *g[2]; /* owned */
} both;

static bool capture_one(both *k, int b) {
    const td_vjp   *v = k->v;
    int             n = (int)v->in[3].n;
    td_backward_job j = {.g = v->in[1 + b].u.g,
                         .n_in = n,
                         .n_out = v->n_out,
                         .need = v->list_need[3],
                         .have = k->have,
                         .sums = n,
                         .reached = k->reached,
                         .made = k->of[b].v,
                         .like = k->of[!b].v};
    td__graph_drop(k->g[b]);
    k->g[b] = td__capture_backward(v->cx, &j, k->with, b ? "no" : "yes");
    return k->g[b] != NULL;
}

/* Is a gradient typed in branch `no` only? Then the zeros of branch `yes` must have
 * that type. */
static bool is_typed_later(const both *k) {
    const td_grad_types *of = k->of;
    bool                 later = false;
    for (int i = 0; i < of[0].n; i++)
        later |= !of[0].v[i] && of[1].v[i] && of[1].v[i]->typed;
    return later;
}

static bool capture_both(both *k) {
    td_ctx *cx = k->v->cx;
    int     n = (int)k->v->in[3].n;
    bool    ok = td__grad_types_make(cx, &k->of[0], n) &&
              td__grad_types_make(cx, &k->of[1], n) && capture_one(k, 0) &&
              capture_one(k, 1);
    if (ok && is_typed_later(k)) ok = capture_one(k, 0);
    td__grad_types_free(&k->of[0]);
    td__grad_types_free(&k->of[1]);
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
    both k = {.v = v, .with = {args, n}, .have = have, .reached = reached};
    bool ok =
        capture_both(&k) && call_backward(v, k.g, (td_tensors){ts, n}, n_need, reached);
    td__graph_drop(k.g[0]);
    td__graph_drop(k.g[1]);
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
