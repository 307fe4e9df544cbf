/* control_loop_twice.c -- the derivative of while_loop_backward, for gradients of
 * gradients of a loop: the op while_loop_double_backward, with the backward graphs of
 * the body and of its backward. */
#include "ops/call.h"
#include "trace/control_int.h"

/* Arguments of while_loop_backward. */
enum { BODY = 1, BACK, STATE, FIXED, GRADS };

/* One call of the rule. Operands of `back` are states, fixed tensors and gradients;
 * need: the operand gets a gradient; reached: gradients lead to it. */
typedef struct twice {
    td_vjp       *v;
    int           n, n_fixed, n_grads;
    bool         *need, *reached; /* [n + n_fixed + n_grads] */
    bool         *by_body;        /* [n + n_fixed]: reached through the body */
    bool         *have;           /* [n_grads]: its result has a tangent */
    bool         *later;          /* [n]: a gradient arrives at the next state */
    td_value     *args;
    td_tensor   **tangents, **ends, **out;
    int           n_tangents, n_ends;
    td_grad_types types; /* of the gradients of these operands */
} twice;

static td_tensor *operand(const twice *t, int i) {
    const td_vjp *v = t->v;
    if (i < t->n) return v->in[STATE].u.ts[i];
    i -= t->n;
    return i < t->n_fixed ? v->in[FIXED].u.ts[i] : v->in[GRADS].u.ts[i - t->n_fixed];
}

/* A tensor of the type that the gradient of operand i has, or the tangent of a result
 * of its type: the one that arrived, or the one an iteration computed. */
static td_tensor *grad_shown(const twice *t, int i) {
    int        first = t->n + t->n_fixed;
    td_tensor *given = i >= first ? t->v->g[i - first] : NULL;
    return given ? given : t->types.v[i] ? t->types.v[i] : operand(t, i);
}

/* The backward graph of `back` for the tangents in t->have; fills t->reached. NULL
 * after td__fail. */
static td_graph *capture_of_back(twice *t) {
    int  n_in = t->n + t->n_fixed + t->n_grads, n = 0;
    bool ok = true;
    for (int i = 0; ok && i < n_in; i++)
        ok = td__add_template(t->args, &n, operand(t, i), t->need[i]);
    for (int i = 0; ok && i < t->n_grads; i++)
        if (t->have[i])
            ok = td__add_template(t->args, &n, grad_shown(t, t->n + t->n_fixed + i),
                                  false);
    td_backward_job j = {.g = t->v->in[BACK].u.g,
                         .n_in = n_in,
                         .n_out = t->n_grads,
                         .need = t->need,
                         .have = t->have,
                         .sums = n_in,
                         .reached = t->reached,
                         .made = t->types.v,
                         .like = t->types.v};
    if (!ok) return NULL;
    return td__capture_backward(t->v->cx, &j, (td_values){t->args, n}, "body");
}

/* The backward graph of the body for gradients of the states in t->later. It takes all
 * operands of the op and does not read gradients and tangents. */
static td_graph *capture_of_body(twice *t) {
    int  n_in = t->n + t->n_fixed, n_all = n_in + t->n_grads, n = 0;
    bool ok = true;
    for (int i = 0; ok && i < n_all; i++)
        ok = td__add_template(t->args, &n, operand(t, i), i < n_in && t->need[i]);
    for (int i = 0; ok && i < t->n_grads; i++)
        if (t->have[i])
            ok = td__add_template(t->args, &n, grad_shown(t, t->n + t->n_fixed + i),
                                  false);
    int skipped = n - n_in;
    for (int i = 0; ok && i < t->n; i++)
        ok = !t->later[i] || td__add_template(t->args, &n, grad_shown(t, i), false);
    td_backward_job j = {.g = t->v->in[BODY].u.g,
                         .n_in = n_in,
                         .n_out = t->n,
                         .need = t->need,
                         .have = t->later,
                         .sums = n_in,
                         .reached = t->by_body,
                         .skipped = skipped,
                         .made = t->types.v,
                         .like = t->types.v};
    if (!ok) return NULL;
    return td__capture_backward(t->v->cx, &j, (td_values){t->args, n}, "body");
}

/* Adds reached[0..n) to set[]; true: some are new. */
static bool add_reached(bool *set, const bool *reached, int n) {
    bool more = false;
    for (int i = 0; i < n; i++) {
        more |= reached[i] && !set[i];
        set[i] |= reached[i];
    }
    return more;
}

/* Tangents pass from iteration to iteration, and so do gradients of states: finds those
 * that exist in some iteration. Zeros in place of the others would become NaN at
 * poles. */
static bool find_reached(twice *t) {
    int first = t->n + t->n_fixed;
    for (bool more = true; more;) {
        td_graph *g = capture_of_back(t);
        if (!g) return false;
        td__graph_drop(g);
        more = add_reached(t->have, t->reached + first, t->n_grads);
    }
    add_reached(t->later, t->reached, t->n);
    for (bool more = true; more;) {
        td_graph *g = capture_of_body(t);
        if (!g) return false;
        td__graph_drop(g);
        more = add_reached(t->later, t->by_body, t->n);
    }
    for (int i = 0; i < t->n; i++) t->need[i] = t->later[i];
    for (int i = 0; i < t->n_grads; i++) t->need[first + i] = t->have[i];
    return true;
}

static bool make_tensors(twice *t) {
    const td_vjp *v = t->v;
    bool          ok = true;
    for (int i = 0; ok && i < t->n_grads; i++) {
        if (!t->have[i]) continue;
        const td_tensor *like = grad_shown(t, t->n + t->n_fixed + i);
        td_tensor       *g = v->g[i];
        if (!g) g = like->typed ? td__filled_like(like, 0.0) : td__vjp_zeros(v, i);
        if (!td_is_nil(g) && !td__is_dense_inside(g)) g = td_op_clone(g, true);
        t->tangents[t->n_tangents++] = g;
        ok = !td_is_nil(g);
    }
    for (int i = 0; ok && i < t->n; i++) {
        const td_tensor *s = grad_shown(t, i);
        if (!t->later[i]) continue;
        t->ends[t->n_ends++] =
            s->typed ? td__filled_like(s, 0.0)
                     : td_op_zeros(v->cx, td__sizes(s), (td_dtype)s->dtype);
        ok = !td_is_nil(t->ends[t->n_ends - 1]);
    }
    return ok;
}

/* Gradients for the operands that need them and are reached. */
static void give_grads(twice *t) {
    td_vjp *v = t->v;
    int     at = 0;
    for (int i = 0; i < t->n; i++) {
        if (!t->later[i]) continue;
        if (v->list_need[STATE][i]) v->list_grad[STATE][i] = t->out[at];
        at++;
    }
    for (int i = 0; i < t->n_fixed; i++) {
        if (!t->need[t->n + i]) continue;
        bool reached = t->reached[t->n + i] || t->by_body[t->n + i];
        if (reached) v->list_grad[FIXED][i] = t->out[at];
        at++;
    }
    for (int i = 0; i < t->n_grads; i++) {
        if (!t->have[i]) continue;
        if (v->list_need[GRADS][i]) v->list_grad[GRADS][i] = t->out[at];
        at++;
    }
}

/* Calls the op with the graphs of one iteration. */
static bool call_op(twice *t, td_graph *back, td_graph *of_back, td_graph *of_body) {
    td_vjp    *v = t->v;
    td_tensors tangents = {t->tangents, t->n_tangents}, ends = {t->ends, t->n_ends};
    td_value   in[] = {v->in[0],
                       v->in[BODY],
                       td__value_graph(back),
                       td__value_graph(of_back),
                       td__value_graph(of_body),
                       v->in[STATE],
                       v->in[FIXED],
                       v->in[GRADS],
                       td__value_tensors(tangents),
                       td__value_tensors(ends)};
    int        n = of_back->outputs.n;
    if (td__call_list(v->cx, TD_OP_while_loop_double_backward, in, 10, t->out, n) < 0)
        return false;
    give_grads(t);
    return true;
}

static bool run_rule(twice *t) {
    const td_vjp *v = t->v;
    for (int i = 0; i < t->n; i++)
        t->need[i] = td__is_differentiable((td_dtype)operand(t, i)->dtype);
    for (int i = 0; i < t->n_fixed; i++) t->need[t->n + i] = v->list_need[FIXED][i];
    for (int i = 0; i < t->n_grads; i++) {
        t->need[t->n + t->n_fixed + i] = true;
        t->have[i] = v->g[i] != NULL;
    }
    if (!find_reached(t) || !make_tensors(t)) return false;
    td_graph *back = td__without_effects(v->in[BACK].u.g, "body");
    td_graph *of_back = back ? capture_of_back(t) : NULL;
    td_graph *of_body = of_back ? capture_of_body(t) : NULL;
    bool      ok = of_body && call_op(t, back, of_back, of_body);
    td__graph_drop(back);
    td__graph_drop(of_back);
    td__graph_drop(of_body);
    return ok;
}

bool td__vjp_while_loop_backward(td_vjp *v) {
    if (v->in[STATE].kind != TD_K_TENSORS) return true; /* nothing needs a gradient */
    twice  t = {.v = v,
                .n = (int)v->in[STATE].n,
                .n_fixed = (int)v->in[FIXED].n,
                .n_grads = (int)v->in[GRADS].n};
    size_t all = (size_t)(t.n + t.n_fixed + t.n_grads + 1);
    t.args = td__zalloc((2 * sizeof(td_value) + 3 * sizeof(td_tensor *) + 5) * all);
    if (!t.args) return td__fail_memory(v->cx);
    t.tangents = (td_tensor **)(void *)(t.args + 2 * all);
    t.ends = t.tangents + all;
    t.out = t.ends + all;
    t.need = (bool *)(t.out + all);
    t.reached = t.need + all;
    t.by_body = t.reached + all;
    t.have = t.by_body + all;
    t.later = t.have + all;
    bool ok = td__grad_types_make(v->cx, &t.types, (int)all) && run_rule(&t);
    td__grad_types_free(&t.types);
    td__free(t.args);
    return ok;
}

bool td__vjp_while_loop_double_backward(td_vjp *v) {
    return td__fail(v->cx, TD_E_UNSUPPORTED,
                    "while_loop: third derivatives of a captured loop are unsupported; "
                    "unroll the loop, or differentiate the eager function");
}
