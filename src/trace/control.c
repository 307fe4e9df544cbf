/* control.c -- td_cond: a branch that depends on a value. Eagerly it reads the
 * predicate and calls one body. In a capture both bodies become nested graphs,
 * the tensors they close over become operands, and the op `cond` takes
 * predicate, graphs and operands.
 *
 * A branch may write its arguments. Graphs of cond are pure, so such arguments
 * are passed as copies, each branch returns the copies' final values, and these
 * are copied back into the arguments after the op. */
#include "core/typed.h"
#include "trace/trace_int.h"

#include <stdio.h>
#include <string.h>

/* ---- results ------------------------------------------------------------ */

/* Clones results that are views, operands, written, or share storage with an operand or
 * an earlier result, so that a result has the same properties whichever branch it is
 * from. No key contains whether a closed-over tensor is written, so a captured branch
 * cannot return one. */
static bool own_results(td_ctx *cx, td_values args, td_value *out, int n) {
    for (int i = 0; i < n; i++) {
        bool outside;
        if (!td__result_copy(cx, &out[i].u.t, &outside)) return false;
        td_tensor *t = out[i].u.t;
        bool       written = !outside && atomic_load(&t->st->version) > 0;
        if (!t->base && !written && !td__shares_storage(t, args.v, args.n) &&
            !td__shares_storage(t, out, i))
            continue;
        out[i].u.t = td_op_clone(t, false);
        if (td_is_nil(out[i].u.t)) return false;
    }
    return true;
}

static const char *const branch_names[] = {"yes", "no"};

/* Calls branch i (0 yes, 1 no), which must return n tensors. */
static bool call_branch(td_ctx *cx, const td_branches *of, int i, td_values args,
                        td_value *out, int n) {
    int got = td_call_body(cx, i ? of->no : of->yes, of->env, args, out, n);
    if (got < 0) return false;
    if (got != n)
        return td__fail(cx, TD_E_ARG,
                        "td_cond: branch %s returns %d results; the call expects %d",
                        branch_names[i], got, n);
    for (int k = 0; k < n; k++)
        if (out[k].kind != TD_K_TENSOR)
            return td__fail(cx, TD_E_ARG,
                            "td_cond: result %d of branch %s is a number or absent; "
                            "branches return tensors",
                            k, branch_names[i]);
    return own_results(cx, args, out, n);
}

static bool check_flag(td_tensor *t) {
    if (t->typed) return td__fail_typed(t, "td_cond: the predicate");
    return td__dim_eq(t->numel, 1) ||
           td__fail(t->cx, TD_E_SHAPE,
                    "td_cond: the predicate is %s; it must have one element",
                    td__type_str(t));
}

/* Stores the results, or nil after a failure. */
static void give(td_ctx *cx, const td_value *from, bool ok, td_tensor **out, int n) {
    for (int i = 0; i < n; i++) out[i] = ok ? from[i].u.t : td_nil(cx);
}

/* Counts the tensors among the arguments; numbers become constants of the
 * branches. */
static int count_tensors(td_values args) {
    int n = 0;
    for (int i = 0; i < args.n; i++)
        n += args.v[i].kind == TD_K_TENSOR && args.v[i].u.t;
    return n;
}

/* ---- td_cond, captured -------------------------------------------------- */

/* One branch during its capture. */
typedef struct branch {
    td_branches of;
    int         nr; /* 0 yes, 1 no */
    int         n_out;
    const int  *same;    /* by argument: the first that is the same tensor */
    const bool *written; /* by argument: pass a copy; NULL: first capture, none */
    td_graph   *g;       /* the body, captured earlier; NULL: call the body */
    td_tensor  *rng;     /* the generator's state before the branch; NULL: not set */
} branch;

/* Replays the captured body instead of calling the user's function a second
 * time. */
static bool replay_branch(const branch *b, td_values args, td_value *out) {
    td_value *in = td__zalloc(sizeof *in * ((size_t)b->g->inputs.n + 1));
    int       at = 0;
    if (!in) return td__fail_memory(b->g->cx);
    for (int i = 0; i < args.n; i++)
        if (args.v[i].kind == TD_K_TENSOR && args.v[i].u.t) in[at++] = args.v[i];
    bool ok = td__graph_replay(b->g, in, out);
    td__free(in);
    return ok;
}

/* Replays or calls the body. A tensor that is passed twice is one tensor for the body,
 * and one input of the graph, the first. */
static bool run_branch(td_ctx *cx, const branch *b, td_value *in, int n,
                       td_value *out) {
    if (b->g) return replay_branch(b, (td_values){in, n}, out);
    for (int i = 0; i < n; i++)
        if (b->same[i] != i) in[i] = in[b->same[i]];
    return call_branch(cx, &b->of, b->nr, (td_values){in, n}, out, b->n_out);
}

/* The body that is captured for a branch: clones the arguments that it writes, runs on
 * the clones, and returns its results, then clones of those clones. The second clone
 * gives the output the type it has after the write, which may add a history. */
static bool branch_body(td_call *c) {
    td_ctx       *cx = td_call_ctx(c);
    const branch *b = td_call_env(c);
    td_values     args = td__call_args(c);
    size_t        n = (size_t)(2 * args.n + b->n_out + 1);
    td_value     *in = td__zalloc(sizeof *in * n);
    int           at = b->n_out;
    if (!in) return td__fail_memory(cx);
    td_value *out = in + args.n;
    bool      ok = true;
    for (int i = 0; i < args.n && ok; i++) {
        in[i] = args.v[i];
        if (!b->written || !b->written[i]) continue;
        in[i] = td_value_tensor(td_op_clone(in[i].u.t, false));
        ok = !td_is_nil(in[i].u.t);
    }
    if (ok && b->rng) ok = !td_is_nil(td_op_random_state(cx, b->rng));
    ok = ok && run_branch(cx, b, in, args.n, out);
    for (int i = 0; i < args.n && ok; i++)
        if (b->written && b->written[i]) {
            out[at] = td_value_tensor(td_op_clone(in[i].u.t, false));
            ok = !td_is_nil(out[at++].u.t);
        }
    ok = ok && td_return_values(c, (td_values){out, at});
    td__free(in);
    return ok;
}

/* One call of td_cond. */
typedef struct cond_call {
    td_ctx     *cx;
    td_branches of;
    /* Captured: absent where an earlier one is the same tensor. After the first capture
     * the tensors that the branches close over are behind the arguments. */
    td_values   args;
    int        *same;    /* by argument: the first that is the same tensor */
    int         given;   /* arguments that the caller passed */
    int         n_args;  /* tensors among these */
    int         n_out;   /* results the caller expects */
    td_lift     lift;    /* tensors that the branches close over in a capture, and */
    td_lift     closed;  /* ...those of the first, which are arguments in the second */
    td_graph   *g[2];    /* yes, no; owned */
    bool       *written; /* by argument: a branch writes it */
    bool       *no_grad_only; /* by argument: only under no_grad */
    uint64_t   *times[2];     /* by branch and argument: how often it writes */
    int         n_written;    /* arguments written */
    td_tensor  *rng;          /* as in branch */
    void       *heap;         /* of all arrays */
} cond_call;

static void drop_graphs(cond_call *k) {
    for (int i = 0; i < 2; i++) {
        td__graph_drop(k->g[i]);
        k->g[i] = NULL;
    }
}

/* Captures both branches. The second time, with `written`, it replays the
 * graphs of the first on copies of what they write. */
static bool capture_branches(cond_call *k, const bool *written) {
    for (int i = 0; i < 2; i++) {
        td_graph *was = k->g[i];
        bool      draws = was && td__graph_draws(was);
        branch b = {k->of, i, k->n_out, k->same, written, was, draws ? k->rng : NULL};
        k->g[i] = td__capture_nested(k->cx, branch_body, &b, k->args, &k->lift);
        td__graph_drop(was);
        if (!k->g[i] || !(k->g[i]->name = td__graph_str(k->g[i], branch_names[i])))
            return false;
        if (k->g[i]->left)
            return td__fail(k->cx, TD_E_TRACE,
                            "td_cond: branch %s changes the grad mode and does not "
                            "restore it; end the region it began",
                            branch_names[i]);
    }
    return td__lift_pad(k->g[0], &k->lift, count_tensors(k->args));
}

/* Fails if a result shares storage with a closed-over tensor: eager clones only
 * what shares storage with arguments. */
static bool check_results(const cond_call *k, const td_graph *g) {
    int i = td__graph_gives_lifted(g, k->n_args);
    return i < 0 ||
           td__fail(k->cx, TD_E_TRACE,
                    "td_cond: result %d of branch %s shares storage with a tensor that "
                    "was not passed as an argument; pass it as one",
                    i, g->name);
}

/* Operand i of the branches: a tensor among the arguments, or one they close over. */
static td_tensor *operand(const cond_call *k, int i) {
    for (int at = 0; at < k->args.n; at++) {
        td_value v = k->args.v[at];
        if (v.kind == TD_K_TENSOR && v.u.t && i-- == 0) return v.u.t;
    }
    return i < k->lift.tensors.n ? k->lift.tensors.v[i] : NULL;
}

/* May gradients pass the branches? */
static bool takes_gradients(const cond_call *k) {
    td_tensor *t;
    for (int i = 0; k->cx->grad_enabled && (t = operand(k, i)); i++)
        if (td__needs_grad(t)) return true;
    return false;
}

static bool is_fixed(const td_tensor *t) {
    return !t->typed && !td__dims_any_sym(t->size, t->rank) &&
           !td__dims_any_sym(t->stride, t->rank) && !td__dim_is_sym(t->offset);
}

/* Does a write of operand i change another operand, or its history? Without gradients,
 * and ops that address elements outside of their argument, it does not if the elements
 * do not overlap. */
static bool changes_another(const cond_call *k, const td_graph *g, int i) {
    td_tensor *t = operand(k, i), *u;
    int32_t    st = g->inputs.v[i]->type->storage;
    bool       beside = td__graph_flags(g, TD_OPF_PLACES);
    for (int j = 0; st >= 0 && j < g->inputs.n; j++) {
        if (j == i || g->inputs.v[j]->type->storage != st) continue;
        if (beside || !(u = operand(k, j)) || takes_gradients(k) || !is_fixed(t) ||
            !is_fixed(u))
            return true;
        td_geom a = td__geom_of(t), b = td__geom_of(u);
        if (t->dtype != u->dtype || td__geom_overlap(&a, &b)) return true;
    }
    return false;
}

/* Counts the plain tensors that the operands consist of which overlap one of them. */
typedef struct sharers {
    const cond_call *k;
    const td_tensor *leaf;
    int              n; /* itself included */
} sharers;

static bool count_sharer(void *env, td_tensor *t) {
    sharers *s = env;
    td_geom  a = td__geom_of(t), b = td__geom_of(s->leaf);
    s->n += t == s->leaf || (t->st == s->leaf->st && td__geom_overlap(&a, &b));
    return true;
}

static bool is_leaf_alone(void *env, td_tensor *leaf) {
    sharers s = {.k = env, .leaf = leaf};
    for (int i = 0; i < s.k->args.n; i++)
        if (s.k->args.v[i].kind == TD_K_TENSOR && s.k->args.v[i].u.t)
            td__typed_leaves(s.k->args.v[i].u.t, count_sharer, &s);
    return s.n == 1;
}

/* Does t, an argument, or an inner tensor of it, overlap another operand, another
 * inner tensor of t, or one of another operand? Copies of t, which branches write, do
 * not. */
static bool shares_inner(cond_call *k, td_tensor *t) {
    return k->cx->n_typed > 0 && !td__typed_leaves(t, is_leaf_alone, k);
}

/* "argument 0", or a tensor that the branches close over. */
static const char *operand_text(const cond_call *k, int i, char out[40]) {
    if (i < k->given) snprintf(out, 40, "argument %d", i);
    return i < k->given ? out : "a tensor from outside";
}

/* Adds the writes of branch b to k->written, k->times and k->no_grad_only; by[] is by
 * input. Fails for writes that copying back cannot reproduce. */
static bool note_written(cond_call *k, int b, const td_input_write *by) {
    const td_graph *g = k->g[b];
    char            at_line[120], name[40];
    for (int i = 0, at = 0; i < k->args.n; i++) {
        td_value v = k->args.v[i];
        if (v.kind != TD_K_TENSOR || !v.u.t) continue;
        const td_input_write *w = &by[at];
        int                   nr = at++;
        if (!w->how) continue;
        k->times[b][i] = w->times;
        if (w->how & TD_WRITTEN_META)
            return td__fail(
                k->cx, TD_E_TRACE,
                "td_cond: branch %s changes sizes, storage or history of %s "
                "in place%s, which a captured branch cannot do. Use the op without _, "
                "which returns a new tensor, or change the argument outside of the "
                "branch",
                g->name, operand_text(k, i, name), td__write_place(w, at_line));
        if (changes_another(k, g, nr))
            return td__fail(k->cx, TD_E_TRACE,
                            "td_cond: branch %s writes %s%s, which shares storage "
                            "with another argument; pass only one of them",
                            g->name, operand_text(k, i, name),
                            td__write_place(w, at_line));
        if (TD_UNLIKELY(shares_inner(k, v.u.t)))
            return td__fail(
                k->cx, TD_E_TRACE,
                "td_cond: branch %s writes %s%s, which shares an inner tensor "
                "with another argument, or has it twice; pass clones",
                g->name, operand_text(k, i, name), td__write_place(w, at_line));
        k->n_written += !k->written[i];
        if (!k->written[i]) k->no_grad_only[i] = true;
        k->written[i] = true;
        k->no_grad_only[i] &= !(w->how & TD_WRITTEN_GRAD);
    }
    return true;
}

/* Which operands the branches write: these become additional results of the op, and are
 * copied back after it. */
static bool find_writes(cond_call *k) {
    for (int i = 0; i < 2; i++) {
        td_input_write *by = td__graph_writes(k->g[i], k->cx->grad_enabled);
        bool            ok = by && note_written(k, i, by);
        td__free(by);
        if (!ok) return false;
    }
    return true;
}

/* The operands of cond: tensors among the arguments, then what the second capture
 * closes over, the state of the generator. Arguments that the branches write are cloned
 * in any case. */
static bool make_operands(const cond_call *k, td_tensor **ts) {
    int at = 0;
    for (int i = 0; i < k->args.n; i++)
        if (k->args.v[i].kind == TD_K_TENSOR && k->args.v[i].u.t)
            ts[at++] = k->args.v[i].u.t;
    for (int i = 0; i < k->lift.tensors.n; i++) ts[at++] = k->lift.tensors.v[i];
    if (!td__operands_keep(k->cx, ts, at, k->g)) return false;
    at = 0;
    for (int i = 0; i < k->args.n; i++) {
        td_tensor *t = k->args.v[i].u.t;
        if (k->args.v[i].kind != TD_K_TENSOR || !t) continue;
        if (k->written[i] && ts[at] == t) ts[at] = td_op_clone(t, false);
        if (td_is_nil(ts[at++])) return false;
    }
    return true;
}

/* Calls the op; out[] gets the results, then the final values of written arguments.
 * Backward reads the predicate, which is cloned: the program may write it later. */
static bool call_cond(cond_call *k, td_tensor *pred, td_tensor **out) {
    int         n = count_tensors(k->args) + k->lift.tensors.n;
    td_tensor **ts = td__alloc(sizeof *ts * (size_t)(n + 1));
    if (!ts) return td__fail_memory(k->cx);
    td_value in[] = {td_value_tensor(td_op_clone(pred, false)),
                     td__value_graph(k->g[0]), td__value_graph(k->g[1]),
                     td__value_tensors((td_tensors){ts, n})};
    int      cap = k->n_out + k->n_written;
    bool     ok =
        make_operands(k, ts) && td__call_list(k->cx, TD_OP_cond, in, 4, out, cap) >= 0;
    td__free(ts);
    return ok;
}

/* How many writes of argument i the call counts: as many as both branches do, one if
 * they differ. */
static uint64_t times_written(const cond_call *k, int i) {
    return k->times[0][i] == k->times[1][i] ? k->times[0][i] : 1;
}

/* Copies the final values into the arguments, under no_grad if all writes are under
 * no_grad. One copy for each write increases the version as in eager; a compiled
 * function performs only the last. */
static bool write_back(cond_call *k, td_tensor **out) {
    for (int i = 0, at = k->n_out; i < k->args.n; i++) {
        if (!k->written[i]) continue;
        td_grad_mode was = {k->cx->grad_enabled, k->cx->inference};
        td_tensor   *t = k->args.v[i].u.t;
        if (k->no_grad_only[i]) was = td_no_grad_begin(k->cx);
        for (uint64_t n = times_written(k, i); n > 0 && !td_is_nil(t); n--)
            t = td_op_copy_(k->args.v[i].u.t, out[at], false);
        if (k->no_grad_only[i]) td_no_grad_end(k->cx, was);
        if (td_is_nil(t)) return false;
        at++;
    }
    return true;
}

/* Are they the same tensor to the branches: without gradients, two tensors that have
 * the same elements in one storage? */
static bool is_same(const td_tensor *t, const td_tensor *u) {
    td_geom a = td__geom_of(t), b = td__geom_of(u);
    bool    grad = td__needs_grad(t) || td__needs_grad(u);
    return t == u ||
           (t->st == u->st && t->dtype == u->dtype && t->flags == u->flags && !grad &&
            is_fixed(t) && is_fixed(u) && td__geom_identical(&a, &b));
}

/* Leaves repeated tensors out of the arguments. */
static void find_same(cond_call *k, td_value *to, int n) {
    for (int i = 0; i < n; i++) {
        to[i] = k->args.v[i];
        k->same[i] = i;
        for (int j = 0; j < i && to[i].kind == TD_K_TENSOR && to[i].u.t; j++)
            if (to[j].kind == TD_K_TENSOR && to[j].u.t &&
                is_same(to[j].u.t, to[i].u.t)) {
                k->same[i] = j;
                to[i] = TD_NONE;
            }
    }
}

/* Allocates the arrays of a captured call, in one piece, for the arguments and then
 * the tensors that the branches close over. */
static bool make_arrays(cond_call *k) {
    int       all = k->args.n + k->lift.tensors.n;
    size_t    n = (size_t)all + 1;
    void     *old = k->heap;
    td_value *to =
        td__zalloc(n * (sizeof *to + 2 * sizeof **k->times + sizeof *k->same + 2));
    if (!to) return td__fail_memory(k->cx);
    k->times[0] = (uint64_t *)(void *)(to + n);
    k->times[1] = k->times[0] + n;
    k->same = (int *)(void *)(k->times[1] + n);
    k->written = (bool *)(k->same + n);
    k->no_grad_only = k->written + n;
    find_same(k, to, k->args.n);
    for (int i = k->args.n; i < all; i++) {
        to[i] = td_value_tensor(k->lift.tensors.v[i - k->args.n]);
        k->same[i] = i;
    }
    k->heap = to;
    k->args = (td_values){to, all};
    k->closed = k->lift;
    k->lift = (td_lift){0};
    td__free(old);
    return true;
}

/* The backward of a branch recomputes it. If the branch draws random numbers, and
 * gradients may pass through it, it first sets the generator to its state at the call:
 * then it draws the same numbers whenever it runs. */
static bool note_state(cond_call *k) {
    bool grads = false;
    for (int i = 0; i < k->args.n; i++)
        grads |= k->args.v[i].kind == TD_K_TENSOR && k->args.v[i].u.t &&
                 td__needs_grad(k->args.v[i].u.t);
    if (!grads || !td__recording(k->cx)) return true;
    if (!td__graph_draws(k->g[0]) && !td__graph_draws(k->g[1])) return true;
    k->rng = td_op_random_state(k->cx, NULL);
    return !td_is_nil(k->rng);
}

/* td_cond in a capture. Branches that write or draw are captured twice: first to find
 * their writes and draws, then on copies of what they write. */
static bool capture_cond(cond_call *k, td_tensor *pred, td_tensor **out) {
    if (!make_arrays(k)) return false;
    k->given = k->args.n;
    k->n_args = count_tensors(k->args);
    if (!capture_branches(k, NULL) || !make_arrays(k)) return false;
    if (!find_writes(k) || !note_state(k)) return false;
    if ((k->n_written || k->rng) && !capture_branches(k, k->written)) return false;
    if (!check_results(k, k->g[0]) || !check_results(k, k->g[1])) return false;
    size_t      room = sizeof(td_tensor *) * (size_t)(k->n_out + k->n_written + 1);
    td_tensor **got = td__alloc(room);
    if (!got) return td__fail_memory(k->cx);
    bool ok = call_cond(k, pred, got) && write_back(k, got);
    for (int i = 0; i < k->n_out && ok; i++) out[i] = got[i];
    td__free(got);
    return ok;
}

/* ---- td_cond ------------------------------------------------------------ */

/* Outside of a capture td_cond is an ordinary branch: only the chosen body runs. */
static bool eager_cond(cond_call *k, td_tensor *pred, td_tensor **out) {
    bool on = (td_item)(pred) != 0.0;
    if (!td_ok(k->cx)) return false;
    td_value *got = td__zalloc(sizeof *got * (size_t)(k->n_out + 1));
    if (!got) return td__fail_memory(k->cx);
    bool ok = call_branch(k->cx, &k->of, on ? 0 : 1, k->args, got, k->n_out);
    give(k->cx, got, ok, out, k->n_out);
    td__free(got);
    return ok;
}

bool(td_cond)(td_tensor *pred, td_branches of, td_values args, td_tensor **out,
              int n_out) {
    static const char who[] = "td_cond";
    static const char both[] = "td_cond: a compiled function contains both branches, "
                               "whichever runs, and one fails";
    td_ctx           *cx = td__ctx_of_any(pred);
    td__nil_tensors(cx, out, n_out);
    if (!TD_ENTER(pred, TENSOR) || !td_ok(cx) ||
        !td__has(cx, who, "the branch yes", of.yes) ||
        !td__has(cx, who, "the branch no", of.no) ||
        !td__has_list(cx, who, args.v, args.n) || !td__has_room(cx, who, out, n_out))
        return false;
    cond_call k = {.cx = cx, .of = of, .args = args, .n_out = n_out};
    bool      ok = check_flag(pred);
    if (ok && cx->fake)
        ok = capture_cond(&k, pred, out) || td__refuse_capture(cx, both);
    else if (ok) ok = eager_cond(&k, pred, out);
    for (int i = 0; i < n_out && !ok; i++) out[i] = td_nil(cx);
    drop_graphs(&k);
    td__lift_free(&k.lift);
    td__lift_free(&k.closed);
    td__free(k.heap);
    return ok;
}
