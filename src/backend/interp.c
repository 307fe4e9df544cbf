/* interp.c -- the backend that needs no compiler: a graph runs as its replay, straight
 * on the kernels. The meaning of every other backend. */
#include "backend/backend.h"
#include "core/config.h"

/* What a graph gives is nobody's view; views are made outside, where they count. */
static bool plain_outputs(td_ctx *cx, const td_graph *g, td_value *out) {
    for (int i = 0; i < g->outputs.n; i++) {
        if (out[i].kind != TD_K_TENSOR || !out[i].u.t->base) continue;
        out[i].u.t = td__tensor_alias(cx, out[i].u.t);
        if (!out[i].u.t) return false;
    }
    return true;
}

typedef struct replayed {
    td_replay room; /* for one call at a time */
    bool      busy;
    void (*drop)(void *env); /* of the walk's env; NULL: none */
} replayed;

/* The code inside itself: inputs that are its own go at the end. */
static bool replay_again(const td_graph *g, const td_value *in, const bool *own,
                         td_value *out) {
    bool ok = td__graph_replay(g, in, out);
    for (int i = 0; own && i < g->inputs.n; i++)
        if (own[i]) td_drop(in[i].u.t);
    return ok;
}

static bool replay(replayed *c, const td_value *in, const bool *own, td_value *out) {
    if (c->busy) return replay_again(c->room.g, in, own, out);
    c->busy = true;
    c->room.own = own;
    bool ok = td__replay_whole(&c->room, in, out);
    c->room.own = NULL;
    c->busy = false;
    return ok;
}

static bool take(void *env, td_ctx *cx, const td_value *in, const bool *own,
                 td_value *out) {
    replayed     *c = env;
    td_mode_scope outer = td__modes_enter(cx, NULL);
    cx->grad_enabled = false;
    bool ok = replay(c, in, own, out) && plain_outputs(cx, c->room.g, out);
    td__modes_leave(cx, &outer);
    return ok;
}

static bool run(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    return take(env, cx, in, NULL, out);
}

static void drop(void *env) {
    replayed *c = env;
    td__replay_end(&c->room);
    if (c->drop) c->drop(c->room.walk_env);
    td__free(c);
}

bool td__runner_make(const td_graph *g, td_walk_fn *walk, void *env,
                     void (*env_drop)(void *env), td_runner *to) {
    replayed *c = td__zalloc(sizeof *c);
    if (!c || !td__replay_begin_whole(&c->room, g)) {
        if (c) td__replay_end(&c->room);
        td__free(c);
        return td__fail_memory(g->cx);
    }
    c->room.walk = walk;
    c->room.walk_env = env;
    c->drop = env_drop;
    *to = (td_runner){.run = run, .drop = drop, .env = c, .take = take};
    return true;
}

td_replay *td__runner_replay(const td_runner *r) {
    return r->run == run ? &((replayed *)r->env)->room : NULL;
}

/* ---- under modes --------------------------------------------------------- */

static bool walk_heard(void *env, td_replay *r) {
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

bool td__replay_heard(const td_graph *g, const td_value *in, td_value *out) {
    td_replay r;
    bool      ok = td__replay_begin_whole(&r, g);
    r.walk = walk_heard;
    ok = ok && td__replay_whole(&r, in, out) && plain_outputs(g->cx, g, out);
    td__replay_end(&r);
    return ok;
}

/* ---- debug_asserts ------------------------------------------------------ */

/* A symbol that nothing has told yet may be any number. */
static bool is_told(const td_replay *r, int64_t dim, int64_t is) {
    int64_t told = td__gdim_value(r->g, dim, r->bound);
    return told == is || told == INT64_MIN;
}

/* A call may pass another piece of a larger tensor than was traced, unless the graph
 * counts from its start: a view lies as far away as what it is a view of. Where others
 * begin is their own; INT64_MIN. */
static int64_t moved(const td_replay *r, const td_gnode *n) {
    int            at = td__opinfo(n->op)->view_of;
    const td_gval *v = at >= 0 && n->in[at].kind == TD_G_VALUE ? n->in[at].u.v : NULL;
    if (!v || !v->look || r->val[v->id].kind != TD_K_TENSOR) return INT64_MIN;
    int64_t told = td__gdim_value(r->g, v->look->offset, r->bound);
    return told == INT64_MIN ? INT64_MIN : r->val[v->id].u.t->offset - told;
}

/* Native code never asks: it reads values where their looks say. */
static bool lies_as_told(const td_replay *r, const td_look *l, const td_tensor *t,
                         int64_t by) {
    if (l->rank != t->rank || l->dtype != t->dtype) return false;
    for (int d = 0; d < l->rank; d++)
        if (!is_told(r, l->size[d], t->size[d]) ||
            (t->numel > 0 && t->size[d] > 1 && !is_told(r, l->stride[d], t->stride[d])))
            return false;
    return t->numel == 0 || by == INT64_MIN || is_told(r, l->offset, t->offset - by);
}

static bool check_results(const td_replay *r, const td_gnode *n, int64_t by) {
    for (int i = 0; i < n->n_out; i++) {
        const td_look *l = n->out[i]->look;
        td_value       v = r->val[n->out[i]->id];
        if (!l || l->kind != TD_K_TENSOR || v.kind != TD_K_TENSOR) continue;
        if (lies_as_told(r, l, v.u.t, by)) continue;
        return td__fail(r->g->cx, TD_E_GUARD,
                        "debug_asserts: @%.60s: result %d of %s is %s with strides %s "
                        "at %lld; the graph says otherwise",
                        r->g->name, i, td__ops[n->op].name, td__type_str(v.u.t),
                        td__sizes_str(v.u.t->rank, v.u.t->stride),
                        (long long)v.u.t->offset);
    }
    return true;
}

static bool walk_checking(void *env, td_replay *r) {
    (void)env;
    for (int i = 0; i < r->g->nodes.n; i++) {
        const td_gnode *n = r->g->nodes.v[i];
        if (n->dead) continue;
        int64_t by = moved(r, n); /* before what it reads is dropped */
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

bool td__compile(td_ctx *cx, const td_backend *b, const td_graph *g,
                 const td_compile_info *info, td_runner *code) {
    static const char *const which[] = {"forward", "backward", "inference"};
    static const char *const span[] = {"compile forward", "compile backward",
                                       "compile inference"};
    const char              *name = b->name ? b->name : "?";
    *code = (td_runner){0};
    td__log(cx, TD_LOG_compile, "@%.60s #%d: %s graph of %d nodes, by %.40s", g->name,
            info->nr, which[info->half], g->nodes.n, name);
    td__span_begin(cx, span[info->half]);
    td__span_arg(cx, "nodes", g->nodes.n);
    bool ok = b->compile(b->env, g, info, code) && code->run;
    td__span_end(cx, span[info->half]);
    if (ok) return true;
    if (td_ok(cx))
        td__fail(cx, TD_E_UNSUPPORTED, "backend %.40s gave no %s code for @%.60s", name,
                 which[info->half], g->name);
    td__runner_drop(code);
    return false;
}

void td__runner_drop(td_runner *code) {
    if (code->drop) code->drop(code->env);
    *code = (td_runner){0};
}
