/* interp_backend.c -- the interpreter as a backend: a graph runs node by node on the
 * kernels, without a compiler. It defines what every other backend must compute. */
#include "backend/backend.h"
#include "core/config.h"

/* Compiled code returns no views: the epilogue makes views, where autograd sees them.
 */
static bool plain_outputs(td_ctx *cx, const td_graph *g, td_value *out) {
    for (int i = 0; i < g->outputs.n; i++) {
        if (out[i].kind != TD_K_TENSOR || !out[i].u.t->base) continue;
        out[i].u.t = td__tensor_alias(cx, out[i].u.t);
        if (!out[i].u.t) return false;
    }
    return true;
}

/* A runner's state. */
typedef struct replayed {
    td_replay replay; /* reused by calls, one at a time */
    bool      busy;

    td_direct_fn *direct;    /* NULL: none */
    void (*drop)(void *env); /* frees walk_env; NULL: nothing to free */
} replayed;

static bool is_output(const td_graph *g, const td_value *out, const td_tensor *t) {
    for (int i = 0; i < g->outputs.n; i++)
        if (out[i].kind == TD_K_TENSOR && out[i].u.t == t) return true;
    return false;
}

void td__drop_owned(const td_graph *g, const td_value *in, const bool *own,
                    const td_value *out) {
    for (int i = 0; own && i < g->inputs.n; i++)
        if (own[i] && !is_output(g, out, in[i].u.t)) td_drop(in[i].u.t);
}

/* A call of code that is running already: without reusable state; drops its own inputs
 * at the end. */
static bool replay_nested(const td_graph *g, const td_value *in, const bool *own,
                          td_value *out) {
    bool ok = td__graph_replay(g, in, out);
    td__drop_owned(g, in, own, out);
    return ok;
}

/* A runner that is called while it runs (a hook that calls the same function) uses a
 * second replay. */
static bool replay(replayed *c, const td_value *in, const bool *own, td_value *out) {
    if (c->busy) return replay_nested(c->replay.g, in, own, out);
    c->busy = true;
    c->replay.own = own;
    bool ok = td__replay_whole(&c->replay, in, out);
    c->replay.own = NULL;
    c->busy = false;
    return ok;
}

/* td_runner.take: runs below all modes without grad mode. own[i]: drop input i after
 * its last use. */
static bool take(void *env, td_ctx *cx, const td_value *in, const bool *own,
                 td_value *out) {
    replayed *c = env;
    td_direct by = c->direct ? c->direct(c->replay.walk_env, in, out) : TD_DIRECT_NOT;
    if (by != TD_DIRECT_NOT) {
        td__drop_owned(c->replay.g, in, own, out);
        return by == TD_DIRECT_DONE;
    }
    td_mode_scope outer = td__modes_enter(cx, NULL);
    cx->grad_enabled = false;
    bool ok = replay(c, in, own, out) && plain_outputs(cx, c->replay.g, out);
    td__modes_leave(cx, &outer);
    return ok;
}

static bool run(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    return take(env, cx, in, NULL, out);
}

static void drop(void *env) {
    replayed *c = env;
    td__replay_end(&c->replay);
    if (c->drop) c->drop(c->replay.walk_env);
    td__free(c);
}

/* A runner that replays g; `walk` (may be NULL) runs the nodes in place of the
 * interpreter. env is dropped with the runner, not if this fails. */
bool td__runner_make(const td_graph *g, td_walk_fn *walk, void *env,
                     void (*env_drop)(void *env), td_runner *to) {
    replayed *c = td__zalloc(sizeof *c);
    if (!c || !td__replay_begin_whole(&c->replay, g)) {
        if (c) td__replay_end(&c->replay);
        td__free(c);
        return td__fail_memory(g->cx);
    }
    c->replay.walk = walk;
    c->replay.walk_env = env;
    c->drop = env_drop;
    *to = (td_runner){.run = run, .drop = drop, .env = c, .take = take};
    return true;
}

void td__runner_direct(td_runner *r, td_direct_fn *direct) {
    ((replayed *)r->env)->direct = direct;
}

td_replay *td__runner_replay(const td_runner *r) {
    return r->run == run ? &((replayed *)r->env)->replay : NULL;
}

/* ---- under modes --------------------------------------------------------- */

/* Shows the modes only the nodes of derivatives. */
static bool walk_under_modes(void *env, td_replay *r) {
    td_ctx  *cx = r->g->cx;
    td_mode *top = cx->top;
    bool     ok = true;
    (void)env;
    for (int i = 0; ok && i < r->g->nodes.n; i++) {
        const td_gnode *n = r->g->nodes.v[i];
        if (n->dead) continue;
        td__modes_from(cx, n->origin == TD_FROM_BACKWARD ? top : NULL);
        ok = td__replay_node(r, n);
    }
    td__modes_from(cx, top);
    return ok;
}

/* Runs the graph op by op through user modes; results that alias inputs are copied, as
 * compiled code would. */
bool td__replay_under_modes(const td_graph *g, const td_value *in, td_value *out) {
    td_replay r;
    bool      ok = td__replay_begin_whole(&r, g);
    r.walk = walk_under_modes;
    ok = ok && td__replay_whole(&r, in, out) && plain_outputs(g->cx, g, out);
    td__replay_end(&r);
    return ok;
}

/* ---- debug_asserts ------------------------------------------------------ */

/* Has the dim the expected value? A symbol that no input has bound yet may be any
 * number. */
static bool matches(const td_replay *r, int64_t dim, int64_t is) {
    int64_t expected = td__gdim_value(r->g, dim, r->bound);
    return expected == is || expected == INT64_MIN;
}

/* By how many bytes the offset of a view may differ from that in the graph: a call may
 * pass another slice of a larger tensor than was traced, and views of it, also of
 * another dtype, shift by the same number. INT64_MIN: not a view, its offset is not
 * checked. */
static int64_t view_shift(const td_replay *r, const td_gnode *n) {
    int            at = td__opinfo(n->op)->view_of;
    const td_gval *v = at >= 0 && n->in[at].kind == TD_G_VALUE ? n->in[at].u.v : NULL;
    if (!v || !v->type || r->val[v->id].kind != TD_K_TENSOR) return INT64_MIN;
    int64_t expected = td__gdim_value(r->g, v->type->offset, r->bound);
    if (expected == INT64_MIN) return INT64_MIN;
    return (r->val[v->id].u.t->offset - expected) *
           (int64_t)td__dtype_bytes[v->type->dtype];
}

/* Has the tensor the type in the graph? Native code relies on it without checking. */
static bool has_type(const td_replay *r, const td_gtype *l, const td_tensor *t,
                     int64_t by) {
    if (l->rank != t->rank || l->dtype != t->dtype) return false;
    for (int d = 0; d < l->rank; d++)
        if (!matches(r, l->size[d], t->size[d]) ||
            (t->numel > 0 && t->size[d] > 1 && !matches(r, l->stride[d], t->stride[d])))
            return false;
    return t->numel == 0 || by == INT64_MIN ||
           matches(r, l->offset, t->offset - by / (int64_t)td__dtype_bytes[l->dtype]);
}

/* With debug_asserts: results have the strides and offset that their types state, on
 * which native code relies. */
static bool check_results(const td_replay *r, const td_gnode *n, int64_t by) {
    for (int i = 0; i < n->n_out; i++) {
        const td_gtype *l = n->out[i]->type;
        td_value        v = r->val[n->out[i]->id];
        if (!l || l->kind != TD_K_TENSOR || v.kind != TD_K_TENSOR) continue;
        if (has_type(r, l, v.u.t, by)) continue;
        return td__fail(r->g->cx, TD_E_GUARD,
                        "debug_asserts: @%.60s: result %d of %s is %s with strides %s "
                        "at offset %lld, which is not its type in the graph",
                        r->g->name, i, td__row(n->op)->name, td__type_str(v.u.t),
                        td__sizes_str(v.u.t->rank, v.u.t->stride),
                        (long long)v.u.t->offset);
    }
    return true;
}

/* Replays and checks the type of every result. */
static bool walk_checking(void *env, td_replay *r) {
    (void)env;
    for (int i = 0; i < r->g->nodes.n; i++) {
        const td_gnode *n = r->g->nodes.v[i];
        if (n->dead) continue;
        int64_t by = view_shift(r, n); /* before its operands are dropped */
        if (!td__replay_node(r, n) || !check_results(r, n, by)) return false;
    }
    return true;
}

static bool compile(void *env, const td_graph *g, const td_compile_info *info,
                    td_runner *to) {
    (void)env, (void)info;
    td_walk_fn *walk = td__config(g->cx)->debug_asserts ? walk_checking : NULL;
    return td__runner_make(g, walk, NULL, NULL, to);
}

const td_backend td__interp = {.name = "interp", .compile = compile};
