/* nested_loop.c -- the kernels of while_loop and while_loop_backward, below all modes.
 * The backward repeats the loop, stores the state before every iteration, and then runs
 * the backward graph from the last iteration to the first; eager's tape would have
 * saved the same states in forward. */
#include "graph/nested.h"

/* ---- while_loop --------------------------------------------------------- */

static td_tensors all_of(const td_loop_run *l) {
    return (td_tensors){l->ts, l->n + l->n_fixed};
}

static bool test_state(td_loop_run *l, bool *on) {
    td_tensor *flag;
    return td__nested_run(l->c, l->test, "test", all_of(l), &flag) &&
           td__nested_flag(l->c, flag, "the result of test", on);
}

static bool is_among(const td_tensor *t, td_tensor *const *v, int n) {
    for (int i = 0; i < n; i++)
        if (v[i] == t) return true;
    return false;
}

/* Drops v[0..n), except tensors of the caller and those in `on`, which are still
 * used. */
static void drop_unused(const td_loop_run *l, td_tensor **v, int n,
                        td_tensor *const *on) {
    for (int i = 0; i < n; i++) {
        td_tensor *t = v[i];
        bool       keep = is_among(t, l->state.u.ts, l->n) ||
                    is_among(t, l->fixed.u.ts, l->n_fixed) || is_among(t, on, n) ||
                    is_among(t, v + i + 1, n - i - 1);
        if (!keep && t->slot >= 0) td_drop(t);
    }
}

/* Makes l->next the state. */
static bool advance(td_loop_run *l) {
    for (int i = 0; i < l->n && l->keeps; i++)
        if (!td__vec_push(&l->past, l->ts[i])) return td__fail_memory(l->c->cx);
    if (!l->keeps) drop_unused(l, l->ts, l->n, l->next);
    for (int i = 0; i < l->n; i++) l->ts[i] = l->next[i];
    return true;
}

/* One iteration in a scope of its own; *on: the loop continues. */
static bool iterate(td_loop_run *l, bool *on) {
    td_ctx *cx = l->c->cx;
    bool    ok = td__scope_push(cx);
    if (!ok) return false;
    ok = test_state(l, on) &&
         (!*on || td__nested_run(l->c, l->body, "body", all_of(l), l->next));
    for (int i = 0; i < l->n && ok && *on; i++)
        ok = td__nested_agree(l->c, l->next[i], l->ts[i], i, "the state is");
    td__scope_pop(cx, l->next, ok && *on ? l->n : 0);
    return ok && (!*on || advance(l));
}

/* On fake tensors: one iteration, to check that types agree. */
static bool iterate_fake(td_loop_run *l) {
    bool on;
    if (!test_state(l, &on) ||
        !td__nested_run(l->c, l->body, "body", all_of(l), l->next))
        return false;
    for (int i = 0; i < l->n; i++)
        if (!td__nested_agree(l->c, l->next[i], l->ts[i], i, "the state is"))
            return false;
    return advance(l);
}

bool td__loop_run(td_loop_run *l, bool fake) {
    bool on = true;
    if (fake) return iterate_fake(l) || td__nested_refuse(l->c);
    while (on)
        if (!iterate(l, &on)) return false;
    return true;
}

static void start_over(td_loop_run *l) {
    for (int i = 0; i < l->n; i++) l->ts[i] = l->state.u.ts[i];
    for (int i = 0; i < l->n_fixed; i++) l->ts[l->n + i] = l->fixed.u.ts[i];
}

bool td__loop_make(td_loop_run *l) {
    td_opcall *c = l->c;
    if (l->test->outputs.n != 1 || l->body->outputs.n != l->n)
        return td__op_fail(c, TD_E_ARG,
                           "graph test returns %d results and graph body %d; 1 and %d "
                           "are required",
                           l->test->outputs.n, l->body->outputs.n, l->n);
    l->ts = td__nested_scratch(c, l->n + l->n_fixed);
    l->next = td__nested_scratch(c, l->n);
    if (!l->ts || !l->next) return false;
    start_over(l);
    return true;
}

/* Results that are still operands, because no iteration ran, are cloned: they never
 * alias operands. */
bool td__kern_while_loop(td_opcall *c) {
    td_ctx     *cx = c->cx;
    bool        fake = td__call_is_fake(c);
    td_loop_run l = {.c = c,
                     .test = c->in[0].u.g,
                     .body = c->in[1].u.g,
                     .state = c->in[2],
                     .fixed = c->in[3],
                     .n = (int)c->in[2].n,
                     .n_fixed = (int)c->in[3].n};
    if (!td__loop_make(&l) || !td__call_results(c, l.n) || !td__scope_push(cx))
        return false;
    td_mode_scope o = td__nested_enter(cx, fake);
    bool          ok = td__loop_run(&l, fake);
    for (int i = 0; i < l.n; i++) c->out[i] = l.ts[i];
    start_over(&l);
    ok = ok && td__nested_own(c, l.body, all_of(&l), c->out);
    td__modes_leave(cx, &o);
    td__scope_pop(cx, c->out, ok ? l.n : 0);
    return ok;
}

/* ---- while_loop_backward ------------------------------------------------ */

/* The backward in progress. ts: the state before an iteration, the fixed
 * tensors, then the gradients of the state after it, with the gradient sums of
 * fixed tensors so far. */
typedef struct going_back {
    td_loop_run l;
    td_graph   *back;
    int         n_grads, n_sums; /* gradients and sums; sums are the last of them */
    td_tensor **ts, **g, **made;
} going_back;

/* Is it an operand, which the caller owns? */
static bool is_operand(const td_loop_run *l, const td_tensor *t) {
    return is_among(t, l->c->in[5].u.ts, (int)l->c->in[5].n) ||
           is_among(t, l->state.u.ts, l->n) || is_among(t, l->fixed.u.ts, l->n_fixed);
}

/* After one iteration backwards: drops the old gradients and the state it
 * started from. */
static void step_back(going_back *b, int turn) {
    td_loop_run *l = &b->l;
    td_tensor  **state = l->past.v + turn * l->n;
    for (int i = 0; i < b->n_grads; i++) {
        td_tensor *t = b->g[i];
        bool       used = is_operand(l, t) || is_among(t, b->made, b->n_grads) ||
                    is_among(t, b->g + i + 1, b->n_grads - i - 1);
        if (!used && t->slot >= 0) td_drop(t);
        b->g[i] = b->made[i];
    }
    if (turn > 0) drop_unused(l, state, l->n, state - l->n);
}

/* One iteration backwards. */
static bool iterate_back(going_back *b, int turn) {
    const td_loop_run *l = &b->l;
    td_ctx            *cx = l->c->cx;
    int                n = l->n + l->n_fixed;
    if (!td__scope_push(cx)) return false;
    for (int i = 0; i < l->n; i++) b->ts[i] = l->past.v[turn * l->n + i];
    for (int i = 0; i < b->n_grads; i++) b->ts[n + i] = b->g[i];
    td_tensors all = {b->ts, n + b->n_grads};
    bool       ok = td__nested_run(l->c, b->back, "back", all, b->made);
    for (int i = 0; ok && i < b->n_grads; i++)
        ok = td__nested_agree(l->c, b->made[i], b->g[i], i, "the gradient was");
    td__scope_pop(cx, b->made, ok ? b->n_grads : 0);
    if (ok) step_back(b, turn);
    return ok;
}

/* After zero iterations the sums are zeros; they start at -0.0 otherwise. */
static bool zero_sums(going_back *b) {
    for (int i = b->n_grads - b->n_sums; i < b->n_grads; i++) {
        b->g[i] = td__filled_like(b->g[i], 0.0);
        if (td_is_nil(b->g[i])) return false;
    }
    return true;
}

/* Repeats the loop with the random numbers that the forward drew, and restores the
 * generator. */
static bool run_again(td_loop_run *l, bool fake) {
    td_ctx  *cx = l->c->cx;
    uint64_t seed = cx->rng_seed, offset = cx->rng_offset;
    bool     ok = td__loop_run(l, fake);
    if (!fake) td_rng_set(cx, seed, offset);
    return ok;
}

/* The gradient of a loop: repeats it forward, stores the state of each iteration in
 * `past`, then runs the backward graph from the last iteration to the first. That graph
 * draws the numbers of gradient hooks. */
static bool go_back(going_back *b, bool fake) {
    td_opcall *c = b->l.c;
    if (!run_again(&b->l, fake)) return false;
    int turns = b->l.n ? b->l.past.n / b->l.n : 0;
    for (int i = turns - 1; i >= 0; i--)
        if (!iterate_back(b, i)) return false;
    if (turns == 0 && !zero_sums(b)) return false;
    for (int i = 0; i < b->n_grads; i++) c->out[i] = b->g[i];
    return td__nested_own(c, b->back, (td_tensors){c->in[5].u.ts, b->n_grads}, c->out);
}

/* Checks the numbers of results of the backward graph. Gradients of fixed tensors,
 * n_sums of them, are added up over iterations. */
static bool make_back(going_back *b) {
    td_opcall *c = b->l.c;
    if (b->back->outputs.n != b->n_grads)
        return td__op_fail(c, TD_E_ARG,
                           "graph back returns %d results; there are %d gradients",
                           b->back->outputs.n, b->n_grads);
    if (b->n_sums < 0 || b->n_sums > b->n_grads)
        return td__op_fail(c, TD_E_ARG, "sums is %d; it must be between 0 and %d",
                           b->n_sums, b->n_grads);
    b->ts = td__nested_scratch(c, b->l.n + b->l.n_fixed + b->n_grads);
    b->g = td__nested_scratch(c, b->n_grads);
    b->made = td__nested_scratch(c, b->n_grads);
    if (!b->ts || !b->g || !b->made) return false;
    for (int i = 0; i < b->l.n_fixed; i++) b->ts[b->l.n + i] = b->l.fixed.u.ts[i];
    for (int i = 0; i < b->n_grads; i++) b->g[i] = c->in[5].u.ts[i];
    return true;
}

/* in: test, body, backward graph, state, fixed operands, gradients of results, number
 * of sums. The loop runs forward again, because the states of its iterations were not
 * saved. */
bool td__kern_while_loop_backward(td_opcall *c) {
    td_ctx    *cx = c->cx;
    bool       fake = td__call_is_fake(c);
    going_back b = {.l = {.c = c,
                          .test = c->in[0].u.g,
                          .body = c->in[1].u.g,
                          .state = c->in[3],
                          .fixed = c->in[4],
                          .n = (int)c->in[3].n,
                          .n_fixed = (int)c->in[4].n,
                          .keeps = true},
                    .back = c->in[2].u.g,
                    .n_grads = (int)c->in[5].n,
                    .n_sums = (int)td__in_int(c, 6)};
    if (!td__loop_make(&b.l) || !make_back(&b) || !td__call_results(c, b.n_grads) ||
        !td__scope_push(cx))
        return false;
    td_mode_scope o = td__nested_enter(cx, fake);
    bool          ok = go_back(&b, fake);
    td__modes_leave(cx, &o);
    td__scope_pop(cx, c->out, ok ? b.n_grads : 0);
    td__vec_free(&b.l.past);
    return ok;
}
