/* control_loop.c -- td_while: a loop over a state of tensors. Eagerly it calls
 * test and body until the test gives 0. In a capture both become nested graphs
 * of the op `while_loop`. The state before each iteration and what the body
 * returns are row-major and not views, so every iteration has the same types
 * and one graph serves all. */
#include "core/typed.h"
#include "trace/trace.h"

#include <stdio.h>

/* One call of td_while. */
typedef struct loop_call {
    td_ctx   *cx;
    td_loop   of;  /* the user's test and body */
    int       n;   /* tensors in the state */
    int       rng; /* 1: captured with the generator's state as one more state */
    td_value *state, *next; /* [n + 1]: before and after an iteration */
    uint64_t *version;      /* [n]: of the state's storages before an iteration */
    bool     *need;         /* [n]: the state requires grad in at least one iteration */
    bool      copies;       /* the captured body writes its state and receives copies */
    td_lift   lift;         /* tensors that test and body close over */
    td_graph *test, *body;  /* owned */
} loop_call;

/* Calls the test (n is 1) or the body, `who`, which must return n tensors. */
static bool call(loop_call *l, td_body *body, const char *who, td_values args,
                 td_value *out, int n) {
    int got = td_call_body(l->cx, body, l->of.env, args, out, n);
    if (got < 0) return false;
    if (got != n)
        return td__fail(l->cx, TD_E_ARG,
                        "td_while: the %s returns %d results; it must return %d", who,
                        got, n);
    for (int i = 0; i < n; i++)
        if (out[i].kind != TD_K_TENSOR)
            return td__fail(l->cx, TD_E_ARG,
                            "td_while: result %d of the %s is a number or absent; it "
                            "must be a tensor",
                            i, who);
    return true;
}

/* Replaces v[0..n) by row-major clones. */
static bool copy_all(td_value *v, int n) {
    for (int i = 0; i < n; i++)
        if (td_is_nil(v[i].u.t = td_op_clone(v[i].u.t, true))) return false;
    return true;
}

/* Did the body write the storage of t? Earlier writes of the state do not count: no key
 * of a compiled function contains them. */
static bool is_written(const loop_call *l, td_values args, const td_tensor *t) {
    uint64_t since = 0;
    for (int i = 0; i < l->n; i++)
        if (args.v[i].u.t->st == t->st) since = l->version[i];
    return atomic_load(&t->st->version) > since;
}

/* Results of the body that are not row-major, views, written or shared with an earlier
 * one are cloned: an iteration may write its state. */
static bool own_results(const loop_call *l, td_values args, td_value *out) {
    for (int i = 0; i < l->n; i++) {
        bool outside;
        if (!td__result_copy(l->cx, &out[i].u.t, &outside)) return false;
        td_tensor *t = out[i].u.t;
        bool       own =
            !t->base && (outside || !is_written(l, args, t)) && td__is_dense_inside(t);
        for (int k = 0; k < i; k++) own &= out[k].u.t->st != t->st;
        if (!own && !copy_all(&out[i], 1)) return false;
    }
    return true;
}

static bool run_test(loop_call *l, td_values args, td_value *flag) {
    if (!call(l, l->of.test, "test", args, flag, 1)) return false;
    if (flag->u.t->typed)
        return td__fail_typed(flag->u.t, "td_while: the result of the test");
    if (td__dim_eq(flag->u.t->numel, 1)) return true;
    return td__fail(l->cx, TD_E_SHAPE,
                    "td_while: the test returns %s; it must have one element",
                    td__type_str(flag->u.t));
}

/* Same dtype and sizes? */
static bool same_sizes(const td_tensor *a, const td_tensor *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) same = td__dim_eq(a->size[d], b->size[d]);
    return same;
}

/* Same dtype, sizes and inner types? */
static bool same_type(const td_tensor *a, const td_tensor *b) {
    bool same = same_sizes(a, b) && td__typed_same(a->typed, b->typed);
    for (int i = 0; same && a->typed && i < a->typed->n; i++)
        same = same_type(a->typed->inner[i], b->typed->inner[i]);
    return same;
}

/* "f32[2]", or "a pair, f32[2]". */
static const char *type_text(const td_tensor *t, char *out, size_t cap) {
    char of[120];
    if (t->typed)
        snprintf(out, cap, "%s, %s", td__type_str(t),
                 td__typed_str(t->typed, of, sizeof of));
    else snprintf(out, cap, "%s", td__type_str(t));
    return out;
}

/* Calls the body; the new state must have the dtypes, sizes and types of the old
 * one. */
static bool run_body(loop_call *l, td_values args, td_value *out) {
    for (int i = 0; i < l->n; i++)
        l->version[i] = atomic_load(&args.v[i].u.t->st->version);
    if (!call(l, l->of.body, "body", args, out, l->n) || !own_results(l, args, out))
        return false;
    char a[200], b[200];
    for (int i = 0; i < l->n; i++)
        if (!same_type(out[i].u.t, args.v[i].u.t))
            return td__fail(l->cx, TD_E_SHAPE,
                            "td_while: the body returns %s for state %d, which is %s; "
                            "dtype, sizes and type must not change between iterations",
                            type_text(out[i].u.t, a, sizeof a), i,
                            type_text(args.v[i].u.t, b, sizeof b));
    return true;
}

/* ---- eager execution ---------------------------------------------------- */

/* One iteration in a scope of its own, so that its temporaries are freed. keep[]
 * receives a reference to each tensor of the new state, NULL if the loop ended (*on
 * false). */
static bool iterate(loop_call *l, td_tensor **keep, bool *on) {
    td_value  flag = TD_NONE;
    td_values args = {l->state, l->n};
    if (!td__scope_push(l->cx)) return false;
    bool ok = run_test(l, args, &flag);
    *on = ok && (td_item)(flag.u.t) != 0.0;
    ok = ok && td_ok(l->cx) && (!*on || run_body(l, args, l->next));
    for (int i = 0; i < l->n; i++) keep[i] = ok && *on ? td__ref(l->next[i].u.t) : NULL;
    td__scope_pop(l->cx, NULL, 0);
    return ok;
}

/* Makes keep[] the state; held[] are references to the state before. */
static void take(loop_call *l, td_tensor **keep, td_tensor **held) {
    for (int i = 0; i < l->n; i++) {
        if (held[i]) td__unref(held[i]);
        held[i] = keep[i];
        l->state[i].u.t = keep[i];
    }
}

/* Gives the state to the caller's scope. */
static bool finish(loop_call *l, td_tensor **out) {
    for (int i = 0; i < l->n; i++) {
        td_tensor *t = out[i] = l->state[i].u.t;
        if (t->slot >= 0 || t->kept) continue;
        if (!td__scope_own(t)) return false;
        td__ref(t);
    }
    return true;
}

/* Runs test and body until the test is false, with references to the state of the last
 * iteration, because each iteration's scope is freed. */
static bool eager_loop(loop_call *l, td_tensor **out) {
    td_tensor **held = td__zalloc(sizeof *held * (size_t)(2 * l->n + 1));
    bool        ok = held != NULL || td__fail_memory(l->cx), on = ok;
    while (on) {
        ok = iterate(l, held + l->n, &on);
        if (!ok) break;
        if (on) take(l, held + l->n, held);
    }
    ok = ok && finish(l, out);
    for (int i = 0; held && i < l->n; i++)
        if (held[i]) td__unref(held[i]);
    td__free(held);
    return ok;
}

/* ---- captured ----------------------------------------------------------- */

static bool test_body(td_call *c) {
    td_value   flag = TD_NONE;
    loop_call *l = td_call_env(c);
    return run_test(l, (td_values){td__call_args(c).v, l->n}, &flag) &&
           td_return_values(c, (td_values){&flag, 1});
}

static bool loop_body(td_call *c) {
    loop_call *l = td_call_env(c);
    td_values  args = td__call_args(c);
    td_value  *in = td__alloc(sizeof *in * (size_t)(l->n + 1));
    bool       ok = in != NULL || td__fail_memory(l->cx);
    for (int i = 0; ok && i < l->n; i++) in[i] = args.v[i];
    ok = ok && (!l->copies || copy_all(in, l->n)) &&
         (!l->rng || !td_is_nil(td_op_random_state(l->cx, args.v[l->n].u.t))) &&
         run_body(l, (td_values){in, l->n}, l->next);
    if (ok && l->rng) l->next[l->n] = td_value_tensor(td_op_random_state(l->cx, NULL));
    ok = ok && td_return_values(c, (td_values){l->next, l->n + l->rng});
    td__free(in);
    return ok;
}

/* Does the captured body write its state? */
static bool writes_state(const loop_call *l, const td_graph *g, bool *yes) {
    td_input_write *by = td__graph_writes(g, false);
    *yes = false;
    for (int i = 0; by && i < l->n; i++) *yes |= by[i].how != 0;
    td__free(by);
    return by != NULL;
}

/* Fails if a captured test or body writes an input or changes the grad mode. A body
 * that writes its state has received copies, which it may write. */
static bool check_graph(const loop_call *l, const td_graph *g) {
    td_input_write *by = td__graph_writes(g, false);
    char            at[120];
    bool            ok = by != NULL;
    for (int i = 0; ok && i < g->inputs.n; i++)
        if (by[i].how)
            ok = td__fail(l->cx, TD_E_TRACE,
                          "td_while: the %s writes %s in place%s, which is "
                          "unsupported in a captured loop; %sreturn its new value from "
                          "the body",
                          g->name, i < l->n ? "a state" : "a tensor from outside",
                          td__write_place(&by[i], at),
                          i < l->n ? "" : "make it a state, and ");
    if (ok && g->left)
        ok = td__fail(l->cx, TD_E_TRACE,
                      "td_while: the %s changes the grad mode and does not restore it; "
                      "end the region it began",
                      g->name);
    td__free(by);
    return ok;
}

/* Captures test or body. Its arguments are templates, not the initial state
 * itself: a body may close over the initial state, which is another tensor than
 * the state of an iteration. */
static td_graph *capture_one(loop_call *l, td_body *body, const char *name) {
    int       n = l->n + l->rng;
    td_value *args = td__zalloc(sizeof *args * (size_t)(n + 1));
    td_graph *g = NULL;
    bool      ok = args != NULL || td__fail_memory(l->cx);
    for (int i = 0; ok && i < n; i++) {
        td_tensor *t = l->state[i].u.t;
        ok = (t = td__template(t, l->need[i])) != NULL;
        args[i] = td_value_tensor(t);
    }
    if (ok) g = td__capture_nested(l->cx, body, l, (td_values){args, n}, &l->lift);
    td__free(args);
    if (g && (g->name = td__graph_str(g, name))) return g;
    td__graph_drop(g);
    return NULL;
}

/* Marks states to which an iteration gives a grad_fn and that had none; *more: there
 * are some. */
static void note_need(loop_call *l, bool *more) {
    for (int i = 0; i < l->n; i++) {
        bool now = l->body->outputs.v[i].u.v->type->grad && !l->need[i];
        l->need[i] |= now;
        *more |= now;
    }
}

/* Captures the body until nothing changes: once more with requires_grad set where an
 * iteration gives a state a grad_fn (each round finds at least one), and once more on
 * copies of the state if the body writes it. The first capture of such a write may
 * fail, because the written state is a leaf there. */
static bool capture_body(loop_call *l) {
    bool more = true;
    for (int i = 0; i < l->n; i++) l->need[i] = td__needs_grad(l->state[i].u.t);
    while (more) {
        bool writes = true;
        td__graph_drop(l->body);
        l->body = capture_one(l, loop_body, "body");
        if (l->body && !writes_state(l, l->body, &writes)) return false;
        if (!l->body && (l->copies || td_error(l->cx) == TD_E_MEMORY)) return false;
        more = writes && !l->copies;
        if (more) td_clear(l->cx);
        l->copies |= writes;
        if (l->body) note_need(l, &more);
    }
    return true;
}

/* The backward of a loop recomputes it. If the body draws random numbers, and gradients
 * may pass, the generator's state becomes part of the loop's state: an iteration first
 * sets the generator to it, so it draws the same numbers whenever it runs. */
static bool note_state(loop_call *l) {
    bool grads = false;
    for (int i = 0; i < l->n; i++) grads |= l->need[i];
    for (int i = 0; i < l->lift.tensors.n; i++)
        grads |= td__needs_grad(l->lift.tensors.v[i]);
    if (!grads || !td__recording(l->cx) || !td__graph_draws(l->body)) return true;
    td_tensor *t = td_op_random_state(l->cx, NULL);
    if (td_is_nil(t)) return false;
    l->state[l->n] = td_value_tensor(t);
    l->rng = 1;
    td__graph_drop(l->body);
    l->body = capture_one(l, loop_body, "body");
    return l->body != NULL;
}

/* td_while in a capture: two graphs and a call of while_loop. */
static bool capture_loop(loop_call *l, td_tensor **out) {
    if (!capture_body(l) || !note_state(l)) return false;
    int n = l->n + l->rng;
    l->test = capture_one(l, test_body, "test");
    if (!l->test || !td__lift_pad(l->body, &l->lift, n)) return false;
    if (!check_graph(l, l->test) || !check_graph(l, l->body)) return false;
    if (td__graph_gives_lifted(l->body, n) >= 0)
        return td__fail(
            l->cx, TD_E_TRACE,
            "td_while: the new value of state %d shares storage with a tensor "
            "from outside; return a clone of it",
            td__graph_gives_lifted(l->body, n));
    int         n_fixed = l->lift.tensors.n;
    td_tensor **ts = td__alloc(sizeof *ts * (size_t)(2 * n + n_fixed + 1)), **got;
    if (!ts) return td__fail_memory(l->cx);
    got = ts + n + n_fixed;
    for (int i = 0; i < n; i++) ts[i] = l->state[i].u.t;
    for (int i = 0; i < n_fixed; i++) ts[n + i] = l->lift.tensors.v[i];
    td_tensors state = {ts, n}, fixed = {ts + n, n_fixed};
    td_value   in[] = {td__value_graph(l->test), td__value_graph(l->body),
                       td__value_tensors(state), td__value_tensors(fixed)};
    td_graph  *graphs[] = {l->test, l->body};
    bool       ok = td__operands_keep(l->cx, ts, n + n_fixed, graphs) &&
              td__call_list(l->cx, TD_OP_while_loop, in, 4, got, n) >= 0;
    for (int i = 0; ok && i < l->n; i++) out[i] = got[i];
    td__free(ts);
    return ok;
}

/* ---- the call ----------------------------------------------------------- */

/* Would eager fail in the same way as the capture? Eager calls the test at least once,
 * the body perhaps never. The test must have been captured for states like the initial
 * ones, not for states that require grad only later. Errors of autograd do not count,
 * because states are leaves in a capture. */
static bool fails_in_eager(const loop_call *l) {
    bool test = l->body && !l->test && td__error(l->cx) != TD_E_GRAD;
    for (int i = 0; test && i < l->n; i++)
        test = l->need[i] == td__needs_grad(l->state[i].u.t);
    return test;
}

/* The loop gets row-major copies of the state: iterations may write it, and all of them
 * have the same types. All arrays share one allocation. */
bool td_while(td_ctx *cx, td_loop of, td_tensors state, td_tensor **out) {
    static const char who[] = "td_while";
    static const char once[] = "td_while: a compiled function contains test and body, "
                               "however often they run, and one fails";
    if (!TD_ENTER_CTX(cx)) return false;
    loop_call l = {.cx = cx, .of = of, .n = state.n};
    bool      ok = td_ok(cx) && td__has(cx, who, "the test", of.test) &&
              td__has(cx, who, "the body", of.body) &&
              td__has_list(cx, who, state.v, state.n) &&
              td__has_room(cx, who, out, state.n);
    td__nil_tensors(cx, out, state.n);
    for (int i = 0; ok && i < l.n; i++) ok = TD_ENTER(state.v[i], TENSOR);
    if (!ok) return false;
    l.state =
        td__zalloc((2 * sizeof *l.state + sizeof *l.version + 1) * (size_t)(l.n + 1));
    if (!l.state) return td__fail_memory(cx);
    l.next = l.state + l.n + 1;
    l.version = (uint64_t *)(void *)(l.next + l.n + 1);
    l.need = (bool *)(l.version + l.n + 1);
    for (int i = 0; i < l.n; i++) l.state[i] = td_value_tensor(state.v[i]);
    ok = copy_all(l.state, l.n);
    if (ok && cx->fake) {
        ok = capture_loop(&l, out);
        if (!ok && !fails_in_eager(&l)) td__refuse_capture(cx, once);
    } else ok = ok && eager_loop(&l, out);
    for (int i = 0; i < l.n && !ok; i++) out[i] = td_nil(cx);
    td__graph_drop(l.test);
    td__graph_drop(l.body);
    td__lift_free(&l.lift);
    td__free(l.state);
    return ok;
}
