/* control.c -- td_cond and td_while. Eagerly they read the flag and call the body. In
 * a capture the bodies become graphs, what they close over becomes operands, and an op
 * is called that takes them all. */
#include "trace/trace.h"

#include <string.h>

/* ---- results ------------------------------------------------------------ */

static bool lies_in(const td_tensor *t, const td_value *v, int n) {
    for (int i = 0; i < n; i++)
        if (v[i].kind == TD_K_TENSOR && v[i].u.t && v[i].u.t->st == t->st) return true;
    return false;
}

/* A result is no view, no operand, nor shares bytes with one or another result, and
 * was not written, so that it looks the same whichever branch it is from. */
static bool own_results(td_values args, td_value *out, int n) {
    for (int i = 0; i < n; i++) {
        td_tensor *t = out[i].u.t;
        bool       written = atomic_load(&t->st->version) > 0;
        if (!t->base && !written && !lies_in(t, args.v, args.n) && !lies_in(t, out, i))
            continue;
        out[i].u.t = td_op_clone(t, false);
        if (td_is_nil(out[i].u.t)) return false;
    }
    return true;
}

/* Calls a body that must give n tensors. */
static bool call_body(td_ctx *cx, td_body *body, void *env, td_values args,
                      td_value *out, int n) {
    int got = td_call_body(cx, body, env, args, out, n);
    if (got < 0) return false;
    if (got != n)
        return td__fail(cx, TD_E_ARG, "td_cond: a branch gives %d results, not %d", got,
                        n);
    for (int i = 0; i < n; i++)
        if (out[i].kind != TD_K_TENSOR)
            return td__fail(cx, TD_E_ARG, "td_cond: result %d is no tensor", i);
    return own_results(args, out, n);
}

static bool read_flag(td_tensor *t, bool *on) {
    if (t->numel != 1)
        return td__fail(t->cx, TD_E_SHAPE,
                        "td_cond: the flag must have one element, got %s",
                        td__type_str(t));
    *on = (td_item)(t) != 0.0;
    return td_ok(t->cx);
}

static void give(td_ctx *cx, const td_value *from, bool ok, td_tensor **out, int n) {
    for (int i = 0; i < n; i++) out[i] = ok ? from[i].u.t : td_nil(cx);
}

/* Tensors among the arguments; what is absent or a number is part of the body. */
static int count_tensors(td_values args) {
    int n = 0;
    for (int i = 0; i < args.n; i++)
        n += args.v[i].kind == TD_K_TENSOR && args.v[i].u.t;
    return n;
}

/* ---- td_cond, captured -------------------------------------------------- */

/* One branch while it is captured. */
typedef struct branch {
    td_body    *body;
    void       *env;
    int         n_out;
    const bool *written; /* by argument: the body gets a copy; NULL: none */
    td_graph   *g;       /* the body, once it has run; */
    td_lift    *lift;    /* ...what it closes over */
} branch;

/* The captured body in its place; args as the body gets them. */
static bool replay_branch(const branch *b, td_values args, td_value *out) {
    td_value *in = td__zalloc(sizeof *in * ((size_t)b->g->inputs.n + 1));
    int       at = 0;
    if (!in) return td__fail_memory(b->g->cx);
    for (int i = 0; i < args.n; i++)
        if (args.v[i].kind == TD_K_TENSOR && args.v[i].u.t) in[at++] = args.v[i];
    for (int i = 0; at < b->g->inputs.n; i++)
        in[at++] = td_value_tensor(b->lift->tensors.v[i]);
    bool ok = td__graph_replay(b->g, in, out);
    td__free(in);
    return ok;
}

static bool run_branch(td_ctx *cx, const branch *b, td_values args, td_value *out) {
    if (b->g) return replay_branch(b, args, out);
    return call_body(cx, b->body, b->env, args, out, b->n_out);
}

/* The user's body on copies of what it writes; the copies are results too. */
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
    ok = ok && run_branch(cx, b, (td_values){in, args.n}, out);
    for (int i = 0; i < args.n && ok; i++)
        if (b->written && b->written[i]) out[at++] = in[i];
    ok = ok && td_return_values(c, (td_values){out, at});
    td__free(in);
    return ok;
}

typedef struct choice {
    td_ctx     *cx;
    td_branches of;
    td_values   args;
    int         n_args; /* tensors among them */
    int         n_out;
    td_lift     lift;
    td_graph   *g[2];
    bool       *written; /* by argument */
    bool       *quiet;   /* ...and only with gradients off */
    int         n_written;
} choice;

static const char *const branch_names[] = {"yes", "no"};

static void drop_graphs(choice *k) {
    for (int i = 0; i < 2; i++) {
        td__graph_drop(k->g[i]);
        k->g[i] = NULL;
    }
}

/* Graphs that are there already are replayed, on copies of what they write. */
static bool capture_branches(choice *k, const bool *written) {
    for (int i = 0; i < 2; i++) {
        td_graph *was = k->g[i];
        branch    b = {
               i ? k->of.no : k->of.yes, k->of.env, k->n_out, written, was, &k->lift};
        k->g[i] = td__capture_nested(k->cx, branch_body, &b, k->args, &k->lift);
        td__graph_drop(was);
        if (!k->g[i] || !(k->g[i]->name = td__graph_str(k->g[i], branch_names[i])))
            return false;
        if (k->g[i]->left)
            return td__fail(k->cx, TD_E_TRACE,
                            "td_cond: branch %s leaves another grad mode behind",
                            branch_names[i]);
    }
    return td__lift_pad(k->g[0], &k->lift, k->n_args);
}

/* A result in the bytes of a closed-over tensor is another one at each call. */
static bool check_results(const choice *k, const td_graph *g) {
    for (int i = 0; i < g->outputs.n; i++) {
        const td_look *l = g->outputs.v[i].u.v->look;
        for (int j = k->n_args; j < g->inputs.n; j++)
            if (g->inputs.v[j]->look->storage == l->storage && l->storage >= 0)
                return td__fail(k->cx, TD_E_TRACE,
                                "td_cond: result %d of branch %s shares bytes with a "
                                "tensor it closes over; pass that as an argument",
                                i, g->name);
    }
    return true;
}

/* Which other input lies where input i does; -1: none. */
static int sharer(const td_graph *g, int i) {
    for (int j = 0; j < g->inputs.n; j++)
        if (j != i && g->inputs.v[j]->look->storage >= 0 &&
            g->inputs.v[j]->look->storage == g->inputs.v[i]->look->storage)
            return j;
    return -1;
}

static bool note_written(choice *k, const td_graph *g, const uint8_t *how) {
    for (int i = 0, at = 0; i < k->args.n; i++) {
        td_value v = k->args.v[i];
        if (v.kind != TD_K_TENSOR || !v.u.t) continue;
        int nr = at++;
        if (!how[nr]) continue;
        if (sharer(g, nr) >= 0)
            return td__fail(k->cx, TD_E_TRACE,
                            "td_cond: branch %s writes argument %d, which shares bytes "
                            "with another; pass only one of them",
                            g->name, i);
        k->n_written += !k->written[i];
        if (!k->written[i]) k->quiet[i] = true;
        k->written[i] = true;
        k->quiet[i] &= !(how[nr] & TD_WRITTEN_LOUD);
    }
    for (int j = k->n_args; j < g->inputs.n; j++)
        if (how[j])
            return td__fail(k->cx, TD_E_TRACE,
                            "td_cond: branch %s writes a tensor it closes over; pass "
                            "it as an argument",
                            g->name);
    return true;
}

static bool find_writes(choice *k) {
    for (int i = 0; i < 2; i++) {
        uint8_t *how = td__zalloc((size_t)k->g[i]->inputs.n + 1);
        bool     ok = how || td__fail_memory(k->cx);
        ok = ok && td__graph_writes(k->g[i], k->cx->grad_enabled, how) &&
             note_written(k, k->g[i], how);
        td__free(how);
        if (!ok) return false;
    }
    return true;
}

/* The tensors among the arguments, then what was lifted. Backward reads operands, so
 * one that will be written is a copy. */
static bool make_operands(const choice *k, td_tensor **ts) {
    int at = 0;
    for (int i = 0; i < k->args.n; i++) {
        td_tensor *t = k->args.v[i].u.t;
        if (k->args.v[i].kind != TD_K_TENSOR || !t) continue;
        ts[at++] = t = k->written[i] ? td_op_clone(t, false) : t;
        if (td_is_nil(t)) return false;
    }
    for (int i = 0; i < k->lift.tensors.n; i++) ts[at++] = k->lift.tensors.v[i];
    return true;
}

static bool call_cond(choice *k, td_tensor *pred, td_tensor **out) {
    int         n = k->n_args + k->lift.tensors.n;
    td_tensor **ts = td__alloc(sizeof *ts * (size_t)(n + 1));
    if (!ts) return td__fail_memory(k->cx);
    td_value in[] = {td_value_tensor(pred), td__value_graph(k->g[0]),
                     td__value_graph(k->g[1]), td__value_tensors((td_tensors){ts, n})};
    int      cap = k->n_out + k->n_written;
    bool     ok =
        make_operands(k, ts) && td__call_list(k->cx, TD_OP_cond, in, 4, out, cap) >= 0;
    td__free(ts);
    return ok;
}

/* What a branch wrote into its copies, or left as it was, goes into the operands. */
static bool write_back(choice *k, td_tensor **out) {
    for (int i = 0, at = k->n_out; i < k->args.n; i++) {
        if (!k->written[i]) continue;
        td_grad_mode was = {k->cx->grad_enabled, k->cx->inference};
        if (k->quiet[i]) was = td_no_grad_begin(k->cx);
        td_tensor *t = td_op_copy_(k->args.v[i].u.t, out[at++], false);
        if (k->quiet[i]) td_no_grad_end(k->cx, was);
        if (td_is_nil(t)) return false;
    }
    return true;
}

static bool capture_cond(choice *k, td_tensor *pred, td_tensor **out) {
    size_t n = (size_t)k->args.n + 1;
    k->n_args = count_tensors(k->args);
    k->written = td__zalloc(2 * n);
    if (!k->written) return td__fail_memory(k->cx);
    k->quiet = k->written + n;
    if (!capture_branches(k, NULL) || !find_writes(k)) return false;
    if (k->n_written && k->lift.reached)
        return td__fail(k->cx, TD_E_TRACE,
                        "td_cond: a branch writes an argument and closes over one; use "
                        "td_arg for all of them");
    if (k->n_written && !capture_branches(k, k->written)) return false;
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

static bool eager_cond(choice *k, td_tensor *pred, td_tensor **out) {
    bool on = false;
    if (!read_flag(pred, &on)) return false;
    td_value *got = td__zalloc(sizeof *got * (size_t)(k->n_out + 1));
    if (!got) return td__fail_memory(k->cx);
    bool ok =
        call_body(k->cx, on ? k->of.yes : k->of.no, k->of.env, k->args, got, k->n_out);
    give(k->cx, got, ok, out, k->n_out);
    td__free(got);
    return ok;
}

bool(td_cond)(td_tensor *pred, td_branches of, td_values args, td_tensor **out,
              int n_out) {
    static const char who[] = "td_cond";
    td_ctx           *cx = td__ctx_of_any(pred);
    td__nil_tensors(cx, out, n_out);
    if (!TD_ENTER(pred, TENSOR) || !td_ok(cx) ||
        !td__has(cx, who, "the branch yes", of.yes) ||
        !td__has(cx, who, "the branch no", of.no) ||
        !td__has_list(cx, who, args.v, args.n) || !td__has_room(cx, who, out, n_out))
        return false;
    choice k = {.cx = cx, .of = of, .args = args, .n_out = n_out};
    bool   ok = cx->fake ? capture_cond(&k, pred, out) : eager_cond(&k, pred, out);
    for (int i = 0; i < n_out && !ok; i++) out[i] = td_nil(cx);
    drop_graphs(&k);
    td__lift_free(&k.lift);
    td__free(k.written);
    return ok;
}
