/* nested_loop_twice.c -- the kernel of while_loop_double_backward, below all modes: it
 * runs the loop and its backward, whose values it stores, then the derivatives of both
 * in the reverse order. */
#include "graph/nested.h"

/* The derivative of the backward in progress. Iteration k of the loop made state k + 1
 * of state k, and its backward gradients k of gradients k + 1; past and grads have
 * these. */
typedef struct twice {
    td_loop_run l;
    td_graph   *back, *of_back, *of_body;
    int         turns, n_grads, n_tangents, n_ends;
    int         n_fixed;  /* fixed tensors that have a gradient */
    td_tensor **grads;    /* [(turns + 1) * n_grads] */
    td_tensor **of_state; /* [turns * n_ends]: results of of_back */
    td_tensor **sums;     /* [n_fixed], NULL before the first iteration */
    td_tensor **ts, **out;
} twice;

/* Puts the operands of iteration k, before the tangents, into t->ts; returns their
 * number. */
static int put_operands(twice *t, int k) {
    const td_loop_run *l = &t->l;
    int                n = 0;
    for (int i = 0; i < l->n; i++) t->ts[n++] = l->past.v[k * l->n + i];
    for (int i = 0; i < l->n_fixed; i++) t->ts[n++] = l->fixed.u.ts[i];
    for (int i = 0; i < t->n_grads; i++)
        t->ts[n++] = t->grads[(k + 1) * t->n_grads + i];
    return n;
}

/* Runs a graph on t->ts[0..n) in a scope of its own; t->out gets its m results. */
static bool run_in_scope(twice *t, const td_graph *g, const char *which, int n, int m) {
    td_ctx *cx = t->l.c->cx;
    if (!td__scope_push(cx)) return false;
    bool ok = td__nested_run(t->l.c, g, which, (td_tensors){t->ts, n}, t->out);
    td__scope_pop(cx, t->out, ok ? m : 0);
    return ok;
}

/* The gradients of all iterations, as while_loop_backward makes them. */
static bool store_grads(twice *t) {
    int n_grads = t->n_grads;
    for (int i = 0; i < n_grads; i++)
        t->grads[t->turns * n_grads + i] = t->l.c->in[7].u.ts[i];
    for (int k = t->turns - 1; k >= 0; k--) {
        int n = put_operands(t, k);
        if (!run_in_scope(t, t->back, "back", n, n_grads)) return false;
        for (int i = 0; i < n_grads; i++) t->grads[k * n_grads + i] = t->out[i];
    }
    return true;
}

/* Adds t->out[first..] to the gradients of fixed tensors. */
static bool add_sums(twice *t, int first) {
    for (int i = 0; i < t->n_fixed; i++) {
        td_tensor *g = t->out[first + i], **to = &t->sums[i];
        *to = *to ? td_op_add(*to, td_value_tensor(g), td_value_int(1)) : g;
        if (td_is_nil(*to)) return false;
    }
    return true;
}

/* From the first iteration to the last: tangents pass the backward of each. */
static bool go_forth(twice *t, td_tensor **tangents) {
    int n_out = t->of_back->outputs.n;
    for (int k = 0; k < t->turns; k++) {
        int n = put_operands(t, k);
        for (int i = 0; i < t->n_tangents; i++) t->ts[n++] = tangents[i];
        if (!run_in_scope(t, t->of_back, "of_back", n, n_out)) return false;
        for (int i = 0; i < t->n_ends; i++) t->of_state[k * t->n_ends + i] = t->out[i];
        if (!add_sums(t, t->n_ends)) return false;
        for (int i = 0; i < t->n_tangents; i++)
            tangents[i] = t->out[t->n_ends + t->n_fixed + i];
    }
    return true;
}

/* From the last iteration to the first: gradients of states pass the body. No gradient
 * arrives at the last state, which the backward does not read. */
static bool come_back(twice *t, td_tensor **g) {
    for (int i = 0; i < t->n_ends && t->turns; i++)
        g[i] = t->of_state[(t->turns - 1) * t->n_ends + i];
    for (int k = t->turns - 2; k >= 0; k--) {
        int n = put_operands(t, k);
        for (int i = 0; i < t->n_tangents; i++) t->ts[n++] = t->l.c->in[8].u.ts[i];
        for (int i = 0; i < t->n_ends; i++) t->ts[n++] = g[i];
        if (!run_in_scope(t, t->of_body, "of_body", n, t->n_ends + t->n_fixed))
            return false;
        for (int i = 0; i < t->n_ends; i++) {
            td_tensor *add = t->of_state[k * t->n_ends + i];
            g[i] = td_op_add(add, td_value_tensor(t->out[i]), td_value_int(1));
            if (td_is_nil(g[i])) return false;
        }
        if (!add_sums(t, t->n_ends)) return false;
    }
    return true;
}

/* Gradients of fixed tensors are zeros if no iteration ran. */
static bool finish_sums(twice *t, td_tensor **out) {
    for (int i = 0; i < t->n_fixed; i++) {
        out[i] = t->sums[i];
        if (out[i]) continue;
        const td_gtype *l = t->of_back->outputs.v[t->n_ends + i].u.v->type;
        if (!l) return td__op_fail(t->l.c, TD_E_ARG, "of_back has no types");
        td_meta    m = td__geom_meta(&l->geom);
        td_tensor *like = td__tensor_make(t->l.c->cx, &m, true);
        if (!like || (l->of && !td__gtyped_fake(like, l->of))) return false;
        out[i] = td__filled_like(like, 0.0);
        if (td_is_nil(out[i])) return false;
    }
    return true;
}

static bool make_twice(twice *t) {
    td_opcall *c = t->l.c;
    int        n_out = t->of_back->outputs.n, n_ops = t->l.n + t->l.n_fixed;
    t->n_fixed = n_out - t->n_ends - t->n_tangents;
    if (t->n_fixed < 0 || t->of_body->outputs.n != t->n_ends + t->n_fixed ||
        t->back->outputs.n != t->n_grads)
        return td__op_fail(c, TD_E_ARG,
                           "the graphs give other numbers of results than "
                           "there are operands");
    t->turns = t->l.n ? t->l.past.n / t->l.n : 0;
    t->grads = td__nested_scratch(c, (t->turns + 1) * t->n_grads);
    t->of_state = td__nested_scratch(c, t->turns * t->n_ends);
    t->sums = td__nested_scratch(c, t->n_fixed);
    t->ts = td__nested_scratch(c, n_ops + t->n_grads + t->n_tangents + t->n_ends);
    t->out = td__nested_scratch(c, n_out + t->n_grads);
    return t->grads && t->of_state && t->sums && t->ts && t->out;
}

/* c->out gets gradients of states, of fixed tensors, and of the incoming gradients. */
static bool differentiate_back(twice *t, bool fake) {
    td_opcall *c = t->l.c;
    if (!td__loop_run(&t->l, fake) || !make_twice(t) || !store_grads(t)) return false;
    td_tensor **of_grads = c->out + t->n_ends + t->n_fixed;
    for (int i = 0; i < t->n_ends; i++) c->out[i] = c->in[9].u.ts[i];
    for (int i = 0; i < t->n_tangents; i++) of_grads[i] = c->in[8].u.ts[i];
    if (!go_forth(t, of_grads) || !come_back(t, c->out)) return false;
    if (!finish_sums(t, c->out + t->n_ends)) return false;
    td_tensors given = {c->in[8].u.ts, t->n_tangents};
    return td__nested_own(c, t->of_back, given, c->out);
}

bool td__kern_while_loop_double_backward(td_opcall *c) {
    td_ctx *cx = c->cx;
    bool    fake = td__call_is_fake(c);
    twice   t = {.l = {.c = c,
                       .test = c->in[0].u.g,
                       .body = c->in[1].u.g,
                       .state = c->in[5],
                       .fixed = c->in[6],
                       .n = (int)c->in[5].n,
                       .n_fixed = (int)c->in[6].n,
                       .keeps = true},
                 .back = c->in[2].u.g,
                 .n_grads = (int)c->in[7].n,
                 .of_back = c->in[3].u.g,
                 .of_body = c->in[4].u.g,
                 .n_tangents = (int)c->in[8].n,
                 .n_ends = (int)c->in[9].n};
    int     n = t.of_back->outputs.n;
    if (!td__loop_make(&t.l) || !td__call_results(c, n) || !td__scope_push(cx))
        return false;
    td_mode_scope o = td__nested_enter(cx, fake);
    uint64_t      seed = cx->rng_seed, offset = cx->rng_offset;
    bool          ok = differentiate_back(&t, fake);
    if (!fake) td_rng_set(cx, seed, offset); /* numbers were drawn once more */
    td__modes_leave(cx, &o);
    td__scope_pop(cx, c->out, ok ? n : 0);
    td__vec_free(&t.l.past);
    return ok;
}
