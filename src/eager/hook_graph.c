/* hook_graph.c -- the op `on_grad`, which a gradient hook registered in a captured body
 * becomes (ops/nested.def). Its decomposition registers a hook that replays the graph
 * on the gradient, so order, replacement and checks are those of hooks.c. */
#include "eager/eager_int.h"

#include <string.h>

/* The env of such a hook. */
typedef struct td_hook_graph {
    td_ctx     *cx;
    td_graph   *g;     /* one reference */
    td_tensor **fixed; /* referenced: the tensors it closes over, and */
    td_tensor **now;   /* ...what it reads in place of each in a trace; NULL: itself */
    int         n_fixed;
    bool        late;  /* one of them is an argument, see fixed_now */
    char       *error; /* the hook fails with this message, "": it works, */
    td_code     code;  /* ...and this code */
} td_hook_graph;

/* Releases the fixed tensors; the hook must not run afterwards. With a tensor its node
 * may be freed, and with that h: h is not read after the first. */
static void release(td_hook_graph *h) {
    td_tensor **fixed = h->fixed;
    int         n = h->n_fixed;
    h->fixed = NULL;
    h->n_fixed = 0;
    td_tensor **now = h->now;
    h->now = NULL;
    for (int i = 0; now && i < n; i++)
        if (now[i]) td__unref(now[i]);
    for (int i = 0; i < n; i++) td__unref(fixed[i]);
    td__free(now);
    td__free(fixed);
}

void td__hook_graph_free(td_hook_graph *h) {
    td_graph *g = h->g;
    release(h);
    td__graph_drop(g);
    td__free(h->error);
    td__free(h);
}

/* Releasing a tensor may free hooks, so the search begins anew after each. */
void td__hook_graphs_release(td_ctx *cx) {
    td_hookrec *h = td__eager(cx)->hooks;
    while (h && h->id > cx->hooks_before) {
        bool found = h->graph && h->graph->n_fixed;
        if (found) release(h->graph);
        h = found ? td__eager(cx)->hooks : h->after;
    }
}

static bool reads(const td_hook_graph *h, const td_storage *st) {
    for (int i = 0; i < h->n_fixed; i++)
        if (h->fixed[i]->st == st) return true;
    return false;
}

bool td__hooks_read(const td_ctx *cx, uint64_t after, const td_storage *st) {
    const td_hookrec *h = td__eager(cx)->hooks;
    for (; h && h->id > after; h = h->after)
        if (h->graph && !h->gone && reads(h->graph, st)) return true;
    return false;
}

uint64_t td__hooks_versions(const td_ctx *cx, uint64_t after, td_storage_test *skip,
                            const void *env) {
    uint64_t sum = 0;
    for (const td_hookrec *h = td__eager(cx)->hooks; h && h->id > after; h = h->after)
        for (int i = 0; h->graph && i < h->graph->n_fixed; i++) {
            const td_hook_graph *g = h->graph;
            if (g->now && g->now[i]) sum += td__version(g->now[i]);
            else if (!skip(env, g->fixed[i]->st)) sum += td__version(g->fixed[i]);
        }
    return sum;
}

static bool replace(td_hook_graph *h, td_stand_in *by, void *env) {
    for (int i = 0; i < h->n_fixed; i++) {
        td_tensor *to = by(env, h->fixed[i]);
        if (!td_ok(h->cx)) return false;
        if (!to) continue;
        size_t bytes = sizeof *h->now * (size_t)h->n_fixed;
        if (!h->now && !(h->now = td__zalloc(bytes))) return td__fail_memory(h->cx);
        h->now[i] = td__ref(to);
    }
    return true;
}

bool td__hooks_replace(td_ctx *cx, uint64_t after, td_stand_in *by, void *env) {
    bool ok = true;
    for (const td_hookrec *h = td__eager(cx)->hooks; ok && h && h->id > after;
         h = h->after)
        if (h->graph && !h->gone) ok = replace(h->graph, by, env);
    return ok;
}

void td__hooks_note_given(td_ctx *cx, uint64_t after, const td_storage *st) {
    for (td_hookrec *h = td__eager(cx)->hooks; h && h->id > after; h = h->after)
        if (h->graph && reads(h->graph, st)) h->graph->late = true;
}

bool td__hooks_fail_result(td_ctx *cx, const td_tensor *t, int nr) {
    return td__fail(cx, TD_E_UNSUPPORTED,
                    "td_on_grad: unsupported: the hook reads %s, which shares storage "
                    "with result %d of the captured function or branch. The caller may "
                    "write it before backward; let the hook read td_clone of it",
                    td__type_str(t), nr);
}

/* A tensor that the hook closes over, for its graph. The caller may have written an
 * argument by the time backward runs, so a trace must compute nothing from it in
 * forward: what is saved is the argument, whose version is checked. nil after td__fail.
 */
static td_tensor *fixed_now(const td_hook_graph *h, int i) {
    if (h->now && h->now[i]) return td_op__late(h->now[i]);
    return h->cx->fake && h->late ? td_op__late(h->fixed[i]) : h->fixed[i];
}

/* td_grad_hook: replays the graph on the gradient. */
static td_tensor *run(void *env, td_tensor *grad) {
    const td_hook_graph *h = env;
    const td_graph      *g = h->g;
    td_value            *v, got = TD_NONE;
    if (*h->error) return td_fail(h->cx, h->code, "%s", h->error);
    if (!(v = td__zalloc(sizeof *v * ((size_t)g->inputs.n + 1))))
        return td__fail_memory(h->cx), &h->cx->nil;
    for (int i = 0, at = -1; i < g->inputs.n; i++)
        if (!td__graph_holds(g, i))
            v[i] = td_value_tensor(at++ < 0 ? grad : fixed_now(h, at - 1));
    bool ok = td_ok(h->cx) && td__graph_replay(g, v, &got);
    td__free(v);
    if (!ok) return &h->cx->nil;
    return got.kind == TD_K_TENSOR ? got.u.t : NULL;
}

/* Does the graph take a gradient and the fixed tensors, and give one result? Graphs in
 * text form may be written by hand. */
static bool check_graph(td_opcall *c) {
    const td_graph *g = c->in[TD_ON_GRAD_HOOK].u.g;
    int             n = 0;
    for (int i = 0; i < g->inputs.n; i++) n += !td__graph_holds(g, i);
    if (n == 1 + (int)c->in[TD_ON_GRAD_FIXED].n && g->outputs.n == 1) return true;
    if (*c->in[TD_ON_GRAD_ERROR].u.s) return true; /* it does not run */
    return td__op_fail(c, TD_E_ARG,
                       "the graph @%.60s takes %d inputs and gives %d results; it must "
                       "take the gradient and %d fixed tensors, and give a gradient or "
                       "none",
                       g->name, n, g->outputs.n, (int)c->in[TD_ON_GRAD_FIXED].n);
}

/* The env of the hook that call c registers; NULL after td__fail. */
static td_hook_graph *make(td_opcall *c) {
    td_hook_graph  *h = td__zalloc(sizeof *h);
    const td_value *fixed = &c->in[TD_ON_GRAD_FIXED];
    const char     *error = c->in[TD_ON_GRAD_ERROR].u.s;
    if (!h) return td__fail_memory(c->cx), NULL;
    h->cx = c->cx;
    h->g = c->in[TD_ON_GRAD_HOOK].u.g;
    td__graph_keep(h->g);
    h->code = (td_code)td__in_int(c, TD_ON_GRAD_CODE);
    if (h->code <= TD_OK || h->code >= TD_E_COUNT) h->code = TD_E_GRAD;
    h->fixed = td__alloc(sizeof *h->fixed * ((size_t)fixed->n + 1));
    h->error = td__alloc(strlen(error) + 1);
    if (!h->fixed || !h->error) {
        td__hook_graph_free(h);
        return td__fail_memory(c->cx), NULL;
    }
    strcpy(h->error, error);
    for (uint32_t i = 0; i < fixed->n; i++)
        h->fixed[h->n_fixed++] = td__ref(fixed->u.ts[i]);
    return h;
}

/* A tensor that gets no gradient takes no hook: a branch of td_cond runs its ops below
 * the tape, and registers the hooks when its backward is traced. */
bool td__decomp_on_grad(td_opcall *c) {
    td_tensor *t = c->in[TD_ON_GRAD_X].u.t;
    if (!check_graph(c)) return false;
    if (!td__needs_grad(t)) return true;
    if (c->cx->fake && !td__hook_stays_inside(t)) return false;
    td_hook_graph *g = make(c);
    td_hookrec    *h = g ? td__hook_add(t, run, g, "td_on_grad") : NULL;
    if (h) h->graph = g;
    else if (g) td__hook_graph_free(g);
    return h != NULL;
}

/* Is input i of a hook's graph the gradient? It is the first that is no const. */
static bool is_gradient(const td_graph *g, int i) {
    for (int k = 0; k < i; k++)
        if (!td__graph_holds(g, k)) return false;
    return !td__graph_holds(g, i);
}

const char *td__hook_not_linear(const td_gnode *n) {
    if (n->kind != TD_N_OP || n->op != TD_OP_on_grad || n->dead) return NULL;
    const td_graph *g = n->in[TD_ON_GRAD_HOOK].u.g;
    bool            fails = n->n_in > TD_ON_GRAD_ERROR &&
                 n->in[TD_ON_GRAD_ERROR].kind == TD_G_STR &&
                 *n->in[TD_ON_GRAD_ERROR].u.s;
    if (fails || n->in[TD_ON_GRAD_HOOK].kind != TD_G_GRAPH) return NULL;
    if (td__graph_draws(g)) return "draws random numbers";
    if (td__graph_flags(g, TD_OPF_EFFECT)) return "calls an op with an effect";
    return td__graph_linear(g, is_gradient)
               ? NULL
               : "is not known to be linear in the gradient";
}
