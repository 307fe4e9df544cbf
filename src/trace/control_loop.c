/* control_loop.c -- td_while: a loop over a state of tensors. The state and what the
 * body gives are row-major and no views, so that each turn looks like the others. */
#include "trace/trace.h"

typedef struct looping {
    td_ctx   *cx;
    td_loop   of;
    int       n;
    td_value *state, *next; /* [n] */
    bool     *need;         /* [n]: requires grad, in some turn */
    td_lift   lift;
    td_graph *test, *body;
} looping;

static bool wrong_results(td_ctx *cx, int got, int want) {
    return td__fail(cx, TD_E_ARG, "td_while: a body gives %d results, not %d", got,
                    want);
}

static bool call(looping *l, td_body *body, td_values args, td_value *out, int n) {
    int got = td_call_body(l->cx, body, l->of.env, args, out, n);
    if (got < 0) return false;
    if (got != n) return wrong_results(l->cx, got, n);
    for (int i = 0; i < n; i++)
        if (out[i].kind != TD_K_TENSOR)
            return td__fail(l->cx, TD_E_ARG, "td_while: result %d is no tensor", i);
    return true;
}

static bool make_dense(td_value *v, int n) {
    for (int i = 0; i < n; i++) {
        const td_tensor *t = v[i].u.t;
        bool             written = atomic_load(&t->st->version) > 0;
        if (!t->base && !written && td__is_dense(t->rank, t->size, t->stride)) continue;
        v[i].u.t = td_op_clone(v[i].u.t, true);
        if (td_is_nil(v[i].u.t)) return false;
    }
    return true;
}

static bool run_test(looping *l, td_values args, td_value *flag) {
    if (!call(l, l->of.test, args, flag, 1)) return false;
    if (flag->u.t->numel == 1) return true;
    return td__fail(l->cx, TD_E_SHAPE,
                    "td_while: the test must give one element, got %s",
                    td__type_str(flag->u.t));
}

static bool same_looks(const td_tensor *a, const td_tensor *b) {
    bool same = a->dtype == b->dtype && a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++) same = td__dim_eq(a->size[d], b->size[d]);
    return same;
}

/* Gives new values of the state, alike in dtype and sizes. */
static bool run_body(looping *l, td_values args, td_value *out) {
    if (!call(l, l->of.body, args, out, l->n) || !make_dense(out, l->n)) return false;
    for (int i = 0; i < l->n; i++)
        if (!same_looks(out[i].u.t, args.v[i].u.t))
            return td__fail(l->cx, TD_E_SHAPE,
                            "td_while: the body gives %s for state %d, which is %s",
                            td__type_str(out[i].u.t), i, td__type_str(args.v[i].u.t));
    return true;
}

/* ---- eagerly ------------------------------------------------------------ */

/* One turn in a scope of its own; the old state's tensors are held by nobody but the
 * history. */
static bool turn(looping *l, td_tensor **keep, bool *on) {
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

static void take(looping *l, td_tensor **keep, td_tensor **held) {
    for (int i = 0; i < l->n; i++) {
        if (held[i]) td__unref(held[i]);
        held[i] = keep[i];
        l->state[i].u.t = keep[i];
    }
}

/* Results are nobody else's: with no turn at all, copies of the state. */
static bool finish(looping *l, td_tensors given, td_tensor **out) {
    for (int i = 0; i < l->n; i++) {
        td_tensor *t = l->state[i].u.t;
        bool       shared = false;
        for (int k = 0; k < l->n; k++)
            shared |= given.v[k]->st == t->st || (k < i && out[k]->st == t->st);
        if (!shared && t->slot < 0 && t->kept == 0) {
            if (!td__scope_own(t)) return false;
            td__ref(t);
        }
        out[i] = shared ? td_op_clone(t, false) : t;
        if (td_is_nil(out[i])) return false;
    }
    return true;
}

static bool eager_loop(looping *l, td_tensors given, td_tensor **out) {
    td_tensor **held = td__zalloc(sizeof *held * (size_t)(2 * l->n + 1));
    bool        ok = held != NULL || td__fail_memory(l->cx), on = ok;
    while (on) {
        ok = turn(l, held + l->n, &on);
        if (!ok) break;
        if (on) take(l, held + l->n, held);
    }
    ok = ok && finish(l, given, out);
    for (int i = 0; held && i < l->n; i++)
        if (held[i]) td__unref(held[i]);
    td__free(held);
    return ok;
}

/* ---- captured ----------------------------------------------------------- */

static bool test_body(td_call *c) {
    td_value flag = TD_NONE;
    return run_test(td_call_env(c), td__call_args(c), &flag) &&
           td_return_values(c, (td_values){&flag, 1});
}

static bool loop_body(td_call *c) {
    looping *l = td_call_env(c);
    return run_body(l, td__call_args(c), l->next) &&
           td_return_values(c, (td_values){l->next, l->n});
}

static bool check_graph(const looping *l, const td_graph *g) {
    uint8_t *how = td__zalloc((size_t)g->inputs.n + 1);
    bool     ok = how ? td__graph_writes(g, false, how) : td__fail_memory(l->cx);
    for (int i = 0; ok && i < g->inputs.n; i++)
        if (how[i])
            ok = td__fail(l->cx, TD_E_TRACE,
                          "td_while: a captured loop may not write its state or what "
                          "it closes over; return the new value");
    if (ok && g->left)
        ok = td__fail(l->cx, TD_E_TRACE,
                      "td_while: a body leaves another grad mode behind");
    td__free(how);
    return ok;
}

/* The first state may be closed over too; what a turn gets is another tensor. */
static td_graph *capture_one(looping *l, td_body *body, const char *name) {
    td_value *args = td__zalloc(sizeof *args * (size_t)(l->n + 1));
    td_graph *g = NULL;
    bool      ok = args != NULL || td__fail_memory(l->cx);
    for (int i = 0; ok && i < l->n; i++) {
        td_tensor *t = l->state[i].u.t;
        ok = (t = td__template(t, l->need[i])) != NULL;
        args[i] = td_value_tensor(t);
    }
    if (ok) g = td__capture_nested(l->cx, body, l, (td_values){args, l->n}, &l->lift);
    td__free(args);
    if (g && (g->name = td__graph_str(g, name))) return g;
    td__graph_drop(g);
    return NULL;
}

/* Tensors of one storage at the start are several in the next turn. */
static bool part_state(looping *l) {
    for (int i = 1; i < l->n; i++) {
        td_tensor *t = l->state[i].u.t;
        bool       shared = false;
        for (int k = 0; k < i; k++) shared |= l->state[k].u.t->st == t->st;
        if (shared) l->state[i].u.t = td_op_clone(t, false);
        if (td_is_nil(l->state[i].u.t)) return false;
    }
    return true;
}

/* A turn may give a history to what had none: then the next one is captured for it. */
static bool capture_body(looping *l) {
    bool more = true;
    for (int i = 0; i < l->n; i++) l->need[i] = td__needs_grad(l->state[i].u.t);
    while (more) {
        td__graph_drop(l->body);
        if (!(l->body = capture_one(l, loop_body, "body"))) return false;
        more = false;
        for (int i = 0; i < l->n; i++) {
            bool now = l->body->outputs.v[i].u.v->look->grad && !l->need[i];
            l->need[i] |= now;
            more |= now;
        }
    }
    return true;
}

static bool capture_loop(looping *l, td_tensor **out) {
    if (!part_state(l) || !capture_body(l)) return false;
    l->test = capture_one(l, test_body, "test");
    if (!l->test || !td__lift_pad(l->body, &l->lift, l->n)) return false;
    if (!check_graph(l, l->test) || !check_graph(l, l->body)) return false;
    td_tensor **ts = td__alloc(sizeof *ts * (size_t)(l->n + 1));
    if (!ts) return td__fail_memory(l->cx);
    for (int i = 0; i < l->n; i++) ts[i] = l->state[i].u.t;
    td_tensors fixed = {l->lift.tensors.v, l->lift.tensors.n};
    td_value   in[] = {td__value_graph(l->test), td__value_graph(l->body),
                       td__value_tensors((td_tensors){ts, l->n}),
                       td__value_tensors(fixed)};
    bool       ok = td__call_list(l->cx, TD_OP_while_loop, in, 4, out, l->n) >= 0;
    td__free(ts);
    return ok;
}

/* ---- the call ----------------------------------------------------------- */

bool td_while(td_ctx *cx, td_loop of, td_tensors state, td_tensor **out) {
    static const char who[] = "td_while";
    if (!TD_ENTER_CTX(cx)) return false;
    looping l = {.cx = cx, .of = of, .n = state.n};
    bool    ok = td_ok(cx) && td__has(cx, who, "the test", of.test) &&
              td__has(cx, who, "the body", of.body) &&
              td__has_list(cx, who, state.v, state.n) &&
              td__has_room(cx, who, out, state.n);
    td__nil_tensors(cx, out, state.n);
    for (int i = 0; ok && i < l.n; i++) ok = TD_ENTER(state.v[i], TENSOR);
    if (!ok) return false;
    l.state = td__zalloc((2 * sizeof *l.state + 1) * (size_t)(l.n + 1));
    if (!l.state) return td__fail_memory(cx);
    l.next = l.state + l.n;
    l.need = (bool *)(l.next + l.n);
    for (int i = 0; i < l.n; i++) l.state[i] = td_value_tensor(state.v[i]);
    ok = make_dense(l.state, l.n) &&
         (cx->fake ? capture_loop(&l, out) : eager_loop(&l, state, out));
    for (int i = 0; i < l.n && !ok; i++) out[i] = td_nil(cx);
    td__graph_drop(l.test);
    td__graph_drop(l.body);
    td__lift_free(&l.lift);
    td__free(l.state);
    return ok;
}
