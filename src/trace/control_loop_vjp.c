/* control_loop_vjp.c -- the derivative of while_loop: the op while_loop_backward with
 * the backward graph of one iteration. */
#include "ops/call.h"
#include "trace/control_int.h"

/* Arguments of a call of while_loop_backward while they are collected. */
typedef struct loop_grad {
    td_value   *args;         /* templates: state, fixed tensors, gradients, sums */
    td_tensor **grads, **out; /* incoming gradients and initial sums; results */
    bool *need;  /* by operand: floating state, fixed tensors that need a gradient */
    bool *later; /* by incoming gradient: requires grad in at least one iteration */
    int   n_args, n_grads, n_sums;
    td_grad_types types; /* of gradients, where tensors are of a type */
} loop_grad;

/* Appends an incoming gradient or an initial sum. */
static bool add_grad(loop_grad *l, td_tensor *g) {
    l->later[l->n_grads] = td__needs_grad(g);
    l->grads[l->n_grads++] = g;
    return !td_is_nil(g) && td__add_template(l->args, &l->n_args, g, td__needs_grad(g));
}

/* A tensor of the type that the gradient of operand i of the body has; t is that
 * operand. */
static const td_tensor *grad_like(const loop_grad *l, int i, const td_tensor *t) {
    const td_tensor *g = i < l->types.n ? l->types.v[i] : NULL;
    return g ? g : t;
}

/* The gradient of state i at the end of the loop, row-major as those between
 * iterations are; zeros if none arrived. */
static bool add_state_grad(td_vjp *v, loop_grad *l, int i) {
    const td_tensor *t = v->in[2].u.ts[i], *like = grad_like(l, i, t);
    td_tensor       *g = v->g[i];
    if (!g) g = like->typed ? td__filled_like(like, 0.0) : td__vjp_zeros(v, i);
    if (!td_is_nil(g) && !td__is_dense_inside(g)) g = td_op_clone(g, true);
    return add_grad(l, g);
}

/* The gradient of a fixed tensor, operand i, is a sum over iterations. It starts at
 * -0.0: adding to 0.0 would turn a -0.0 into 0.0. */
static bool add_sum(loop_grad *l, int i, const td_tensor *t) {
    l->n_sums++;
    return add_grad(l, td__filled_like(grad_like(l, i, t), -0.0));
}

/* A tensor of the type that the gradient of state i has: the one that arrived, or the
 * one an iteration computed. */
static td_tensor *grad_shown(const td_vjp *v, const loop_grad *l, int i) {
    td_tensor *made = i < l->types.n ? l->types.v[i] : NULL;
    return v->g[i] ? v->g[i] : made ? made : v->in[2].u.ts[i];
}

/* Captures one iteration backwards to find the states that gradients reach, and adds
 * them to have[]; *more: there were new ones. */
static bool reach_states(td_vjp *v, loop_grad *l, bool *have, bool *reached,
                         bool *more) {
    td_value state = v->in[2], fixed = v->in[3];
    int      n = (int)state.n, n_in = n + (int)fixed.n, n_args = 0;
    bool     ok = true;
    for (int i = 0; ok && i < n_in; i++) {
        td_tensor *t = i < n ? state.u.ts[i] : fixed.u.ts[i - n];
        ok = td__add_template(l->args, &n_args, t, l->need[i]);
    }
    for (int i = 0; ok && i < n; i++)
        ok = !have[i] || td__add_template(l->args, &n_args, grad_shown(v, l, i), false);
    td_backward_job j = {.g = v->in[1].u.g,
                         .n_in = n_in,
                         .n_out = n,
                         .need = l->need,
                         .have = have,
                         .sums = n_in,
                         .reached = reached,
                         .made = l->types.v};
    td_graph       *g =
        ok ? td__capture_backward(v->cx, &j, (td_values){l->args, n_args}, "body")
                 : NULL;
    *more = false;
    for (int i = 0; g && i < n; i++) {
        *more |= reached[i] && !have[i];
        have[i] |= reached[i];
    }
    td__graph_drop(g);
    return g != NULL;
}

/* Finds the states that have gradients: floating-point ones that the arrived gradients
 * reach in some iteration. Other states have none: zeros would become NaN where the
 * body has a pole, and would be added to gradients of other states. If there are typed
 * tensors, at least one iteration is captured, for the types of the gradients. */
static bool find_states(td_vjp *v, loop_grad *l) {
    int   n = (int)v->in[2].n, n_in = n + (int)v->in[3].n;
    bool  more = false, types = v->cx->n_typed > 0;
    bool *have = td__zalloc((size_t)(2 * n_in + 1));
    if (!have) return td__fail_memory(v->cx);
    for (int i = 0; i < n_in; i++) {
        bool fixed = i >= n;
        l->need[i] = fixed ? v->list_need[3][i - n]
                           : td__is_differentiable((td_dtype)v->in[2].u.ts[i]->dtype);
        have[i] = !fixed && l->need[i] && v->g[i];
        more |= !fixed && l->need[i] && !have[i];
    }
    bool all = !more, ok = !types || td__grad_types_make(v->cx, &l->types, n_in);
    more |= types;
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
        ok = td__add_template(l->args, &l->n_args, state.u.ts[i], l->need[i]);
    for (uint32_t i = 0; ok && i < fixed.n; i++)
        ok = td__add_template(l->args, &l->n_args, fixed.u.ts[i], v->list_need[3][i]);
    for (uint32_t i = 0; ok && i < state.n; i++)
        ok = !l->need[i] || add_state_grad(v, l, (int)i);
    for (uint32_t i = 0; ok && i < fixed.n; i++)
        ok = !v->list_need[3][i] || add_sum(l, (int)(state.n + i), fixed.u.ts[i]);
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

/* Marks incoming gradients that require grad from the second iteration on, because
 * `back` returns gradients that do, and renews their templates. *more: there are
 * some. */
static bool note_later(loop_grad *l, const td_graph *back, bool *more) {
    int first = l->n_args - l->n_grads;
    *more = false;
    for (int i = 0; i < l->n_grads; i++) {
        const td_garg *a = &back->outputs.v[i];
        if (l->later[i] || a->kind != TD_G_VALUE || !a->u.v->type->grad) continue;
        l->later[i] = *more = true;
        int at = first + i;
        if (!td__add_template(l->args, &at, l->grads[i], true)) return false;
    }
    return true;
}

/* The backward graph of one iteration; NULL after td__fail. With create_graph it is
 * captured until no further gradient requires grad; each round adds at least one. */
static td_graph *capture_iteration(td_vjp *v, loop_grad *l) {
    int             n = (int)v->in[2].n;
    td_backward_job j = {.g = v->in[1].u.g,
                         .n_in = n + (int)v->in[3].n,
                         .n_out = n,
                         .need = l->need,
                         .have = l->need,
                         .sums = n,
                         .like = l->types.v};
    td_values       args = {l->args, l->n_args};
    for (bool more;;) {
        td_graph *back = td__capture_backward(v->cx, &j, args, "body");
        if (!back || !v->cx->grad_enabled) return back;
        bool ok = note_later(l, back, &more);
        if (ok && !more) return back;
        td__graph_drop(back);
        if (!ok) return NULL;
    }
}

/* In eager an iteration without gradients has no effects of its backward; here zeros
 * arrive in place of those that are missing. */
static bool check_missing(const td_vjp *v, const loop_grad *l, const td_graph *back) {
    bool missing = false;
    for (int i = 0; i < (int)v->in[2].n; i++) missing |= l->need[i] && !v->g[i];
    return !missing || !td__graph_flags(back, TD_OPF_EFFECT) ||
           td__fail(
               v->cx, TD_E_UNSUPPORTED,
               "td_while: the backward of the body calls an op with an effect, and "
               "a state has no gradient after the loop. Use all results of the "
               "loop, or call the op outside");
}

/* Calls while_loop_backward, which runs `back` for each iteration in reverse. */
static bool call_backward(td_vjp *v, loop_grad *l, td_graph *test, td_graph *body,
                          td_graph *back) {
    td_tensors grads = {l->grads, l->n_grads};
    td_value   in[] = {td__value_graph(test),
                       td__value_graph(body),
                       td__value_graph(back),
                       v->in[2],
                       v->in[3],
                       td__value_tensors(grads),
                       td_value_int(l->n_sums)};
    bool       ok =
        td__call_list(v->cx, TD_OP_while_loop_backward, in, 7, l->out, l->n_grads) >= 0;
    if (ok) give_grads(v, l);
    return ok;
}

/* Captures the backward of the body and calls while_loop_backward, which runs it for
 * each iteration in reverse. */
static bool run_loop_rule(td_vjp *v, loop_grad *l) {
    if (!td__check_repeats(v->cx, v->in[0].u.g, "test") || !prepare_loop(v, l))
        return false;
    td_graph *test = td__without_effects(v->in[0].u.g, "test");
    td_graph *body = test ? td__without_effects(v->in[1].u.g, "body") : NULL;
    td_graph *back = body ? capture_iteration(v, l) : NULL;
    bool      ok =
        back && check_missing(v, l, back) && call_backward(v, l, test, body, back);
    td__graph_drop(test);
    td__graph_drop(body);
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
    td__grad_types_free(&l.types);
    td__free(l.args);
    return ok;
}
