/* custom_replay.c -- the op `custom`, which a captured custom function becomes
 * (ops/nested.def). Its decomposition is a call of a custom function whose
 * forward and backward replay the two graphs; histories, writes, views and
 * checks are custom.c's. */
#include "eager/eager_int.h"

#include <string.h>

/* The payload of that function. Referenced by the op call and by the node. */
typedef struct replayed {
    int         refs;
    td_opcall  *c; /* during forward; else NULL */
    char       *name;
    td_graph   *forward, *backward;       /* one reference each */
    int         n_results, n_in, n_saved; /* results, inputs, values for backward */
    td_tensor **fixed;                    /* closed-over tensors, forward's first */
    int         n_fixed, n_fixed_forward; /* all; those of forward */
    bool       *stash;                    /* by saved value: stashed, not saved */
    bool        materialize;              /* zeros for missing gradients */
    bool        once;                     /* backward has no derivative */
    char       *error; /* backward fails with this message, "": it works, */
    td_code     code;  /* ...and this code */
    td_tensor **temps; /* saved values that are neither inputs nor results */
    int         n_temps;
} replayed;

/* td_function.destroy: drops one reference. */
static void destroy(void *payload) {
    replayed *r = payload;
    if (--r->refs > 0) return;
    for (int i = 0; i < r->n_fixed; i++) td__unref(r->fixed[i]);
    for (int i = 0; i < r->n_temps; i++) td__unref(r->temps[i]);
    td__graph_drop(r->forward);
    td__graph_drop(r->backward);
    td__free(r->name); /* and r->error */
    td__free(r->fixed);
    td__free(r->stash);
    td__free(r->temps);
    td__free(r);
}

/* ---- forward ------------------------------------------------------------ */

static bool fail_graph(td_opcall *c, const char *what) {
    return td__op_fail(c, TD_E_ARG, "%s: %s", c->in[TD_CUSTOM_NAME].u.s, what);
}

static bool is_among(const td_tensor *t, td_tensor *const *v, int n) {
    for (int i = 0; i < n; i++)
        if (v[i] == t) return true;
    return false;
}

/* Saves what backward reads. Values that are neither inputs nor results are
 * also collected in r->temps, because the op returns them. */
static bool save(td_fcall *f, replayed *r, td_tensor *const *in, const td_value *got) {
    td_arena   *scratch = &r->c->cx->scratch;
    size_t      n = sizeof(td_tensor *) * (size_t)(r->forward->outputs.n + 1);
    td_tensor **saved = td__arena_alloc(scratch, n),
              **stash = td__arena_alloc(scratch, n);
    int n_saved = 0, n_stash = 0;
    if (!saved || !stash) return td__fail_memory(r->c->cx);
    for (int k = 0; k < r->n_saved; k++) {
        td_tensor *t = got[r->n_results + k].u.t;
        bool known = is_among(t, in, r->n_in) || is_among(t, r->temps, r->n_temps);
        if (r->stash[k]) stash[n_stash++] = t;
        else saved[n_saved++] = t;
        for (int i = 0; i < r->n_results && !known; i++) known = got[i].u.t == t;
        if (!known) r->temps[r->n_temps++] = td__ref(t);
    }
    return (!n_saved || td_fcall_save(f, (td_tensors){saved, n_saved})) &&
           td_fcall_stash(f, (td_tensors){stash, n_stash});
}

/* Marks the inputs or results whose indices list argument `arg` has. */
static bool mark(td_fcall *f, const replayed *r, int arg, td_tensors from,
                 bool (*how)(td_fcall *f, td_tensors list)) {
    td_opcall  *c = r->c;
    int         n = (int)c->in[arg].n;
    td_tensor **list = td__arena_alloc(&c->cx->scratch, sizeof *list * (size_t)(n + 1));
    if (!list) return td__fail_memory(c->cx);
    for (int k = 0; k < n; k++) {
        int64_t i = c->in[arg].u.ints[k];
        if (i < 0 || i >= from.n || !from.v[i])
            return fail_graph(c,
                              "an index in the list of dirty inputs or plain results "
                              "is out of range");
        list[k] = from.v[i];
    }
    return how(f, (td_tensors){list, n});
}

/* td_function.forward: replays the forward graph. */
static bool forward(td_fcall *f, td_tensor *const *in, int n_in, td_tensor **out,
                    int n_out) {
    replayed       *r = td_fcall_payload(f);
    const td_graph *g = r->forward;
    td_arena       *scratch = &r->c->cx->scratch;
    size_t          n = (size_t)(g->inputs.n + g->outputs.n + 1);
    td_value       *v = td__arena_zalloc(scratch, sizeof *v * n);
    int             at = 0, fixed = 0;
    if (!v) return td__fail_memory(r->c->cx);
    td_value *got = v + g->inputs.n;
    for (int i = 0; i < g->inputs.n; i++) {
        if (td__graph_holds(g, i)) continue;
        while (at < n_in && !in[at]) at++;
        v[i] = td_value_tensor(at < n_in ? in[at++] : r->fixed[fixed++]);
    }
    td_fcall_materialize(f, false); /* backward makes the zeros that it needs */
    if (!td__graph_replay(g, v, got)) return false;
    for (int i = 0; i < g->outputs.n; i++)
        if (got[i].kind != TD_K_TENSOR)
            return fail_graph(r->c, "a result of the forward graph is not a tensor");
    for (int i = 0; i < n_out; i++) out[i] = got[i].u.t;
    return save(f, r, in, got) &&
           mark(f, r, TD_CUSTOM_DIRTY, (td_tensors){in, n_in}, td_fcall_mark_dirty) &&
           mark(f, r, TD_CUSTOM_PLAIN, (td_tensors){out, n_out},
                td_fcall_mark_non_differentiable);
}

/* ---- backward ----------------------------------------------------------- */

/* Value k for backward, from the saved or the stashed ones. */
static td_tensor *saved_value(td_fcall *f, const replayed *r, int k) {
    int before = 0; /* how many of its kind come first */
    for (int i = 0; i < k; i++) before += r->stash[i] == r->stash[k];
    return r->stash[k] ? td_fcall_stashed(f, before) : td_fcall_saved(f, before);
}

/* The gradient of result j; zeros if it is missing. nil after td__fail. */
static td_tensor *tangent(td_fcall *f, const replayed *r, td_tensor *g, int j) {
    if (g) return g;
    if (r->materialize) return td__fcall_zeros(f, j);
    return td_fail(td_fcall_ctx(f), TD_E_TRACE,
                   "the captured backward of a custom function needs a gradient of "
                   "result %d, and none arrived; call td_fcall_materialize(f, true) in "
                   "forward to get zeros",
                   j);
}

/* False after td__fail: backward records a history that starts at t, and custom
 * functions or branches which it called have lost their derivatives in its graph. */
static bool may_record(const td_fcall *f, const replayed *r, const td_tensor *t) {
    td_ctx *cx = td_fcall_ctx(f);
    return !r->once || !td__recording(cx) || !td__needs_grad(t) ||
           td__fail(cx, TD_E_UNSUPPORTED,
                    "%s: unsupported: double backward through a captured custom "
                    "function whose backward calls a custom function or branches by "
                    "td_cond. Call %s outside of the body",
                    r->name, r->name);
}

/* td_function.backward: replays the backward graph. Its input descriptors say what
 * each input is: <saved k>, <tangent j>, or a closed-over tensor. */
static bool backward(td_fcall *f, td_tensor *const *g, int n_out, td_tensor **grad,
                     int n_in) {
    const replayed *r = td_fcall_payload(f);
    const td_graph *b = r->backward;
    size_t          n = (size_t)(b->inputs.n + b->outputs.n + 1);
    td_value       *v = td__zalloc(sizeof *v * n), *got = v + b->inputs.n;
    bool            ok = v != NULL || td__fail_memory(td_fcall_ctx(f));
    int             fixed = r->n_fixed_forward;
    for (int i = 0; ok && i < b->inputs.n; i++) {
        td_desc d = b->in_desc.v[i];
        if (td__graph_holds(b, i)) continue;
        td_tensor *t = d.kind == TD_D_SAVED     ? saved_value(f, r, d.index)
                       : d.kind == TD_D_TANGENT ? tangent(f, r, g[d.index], d.index)
                                                : r->fixed[fixed++];
        ok = !td_is_nil(t) && may_record(f, r, t);
        v[i] = td_value_tensor(t);
    }
    (void)n_out;
    if (ok && *r->error) ok = td__fail(td_fcall_ctx(f), r->code, "%s", r->error);
    ok = ok && td__graph_replay(b, v, got);
    for (int i = 0; ok && i < b->outputs.n; i++) {
        int at = b->out_desc.v[i].index;
        if (got[i].kind == TD_K_TENSOR && at < n_in) grad[at] = got[i].u.t;
    }
    td__free(v);
    return ok;
}

/* ---- the op ------------------------------------------------------------- */

static int count_inputs(const td_opcall *c) {
    int n = 0;
    for (uint32_t i = 0; i < c->in[TD_CUSTOM_INPUTS].n; i++)
        n += c->in[TD_CUSTOM_INPUTS].u.ts[i] != NULL;
    return n;
}

/* Do the descriptors of the backward graph refer to existing values? Graphs in
 * text form may be written by hand. */
static bool check_backward(td_opcall *c, const replayed *r) {
    const td_graph *b = r->backward;
    int             fixed = r->n_fixed_forward;
    for (int i = 0; i < b->inputs.n; i++) {
        td_desc d = b->in_desc.v[i];
        if (td__graph_holds(b, i)) continue;
        bool ok = d.kind == TD_D_SAVED     ? d.index >= 0 && d.index < r->n_saved
                  : d.kind == TD_D_TANGENT ? d.index >= 0 && d.index < r->n_results
                                           : fixed++ < r->n_fixed;
        if (!ok)
            return fail_graph(c, "an input of the backward graph is no saved value, "
                                 "tangent or fixed tensor of the call");
    }
    for (int i = 0; i < b->outputs.n; i++)
        if (b->out_desc.v[i].kind != TD_D_GRAD || b->out_desc.v[i].index < 0)
            return fail_graph(c,
                              "an output of the backward graph is not marked <grad>");
    return true;
}

/* Counts inputs, results and saved values. Outputs of the forward graph are the
 * results, then the values marked <saved>. */
static bool read_graphs(td_opcall *c, replayed *r) {
    const td_graph *g = r->forward;
    r->n_fixed_forward = -count_inputs(c);
    for (int i = 0; i < g->inputs.n; i++) r->n_fixed_forward += !td__graph_holds(g, i);
    if (r->n_fixed_forward < 0 || r->n_fixed_forward > (int)c->in[TD_CUSTOM_FIXED].n)
        return fail_graph(c,
                          "the forward graph takes another number of inputs than the "
                          "call has inputs and fixed tensors");
    while (r->n_results < g->outputs.n &&
           g->out_desc.v[r->n_results].kind != TD_D_SAVED)
        r->n_results++;
    r->n_saved = g->outputs.n - r->n_results;
    r->stash = td__zalloc((size_t)r->n_saved + 1);
    if (!r->stash) return td__fail_memory(c->cx);
    for (uint32_t k = 0; k < c->in[TD_CUSTOM_STASH].n; k++) {
        int64_t i = c->in[TD_CUSTOM_STASH].u.ints[k];
        if (i < 0 || i >= r->n_saved)
            return fail_graph(c,
                              "an index in the list of stashed values is out of range");
        r->stash[i] = true;
    }
    return true;
}

/* Takes references to graphs and fixed tensors, and copies the strings. */
static bool take_references(td_opcall *c, replayed *r) {
    int         n = (int)c->in[TD_CUSTOM_FIXED].n;
    const char *error = c->in[TD_CUSTOM_ERROR].u.s;
    size_t      name = strlen(c->in[TD_CUSTOM_NAME].u.s) + 1;
    td__graph_keep(r->forward);
    td__graph_keep(r->backward);
    r->name = td__alloc(name + strlen(error) + 1);
    r->fixed = td__zalloc(sizeof *r->fixed * (size_t)(n + 1));
    r->temps = td__zalloc(sizeof *r->temps * (size_t)(r->forward->outputs.n + 1));
    if (!r->name || !r->fixed || !r->temps) return td__fail_memory(c->cx);
    memcpy(r->name, c->in[TD_CUSTOM_NAME].u.s, name);
    r->error = strcpy(r->name + name, error);
    for (int i = 0; i < n; i++)
        r->fixed[r->n_fixed++] = td__ref(c->in[TD_CUSTOM_FIXED].u.ts[i]);
    return true;
}

/* A custom function recorded in a graph: its forward and backward are nested graphs.
 * The call is referenced by the op and by the autograd node. */
static replayed *make_call(td_opcall *c) {
    replayed *r = td__zalloc(sizeof *r);
    if (!r) return td__fail_memory(c->cx), NULL;
    *r = (replayed){.refs = 1,
                    .c = c,
                    .forward = c->in[TD_CUSTOM_FORWARD].u.g,
                    .backward = c->in[TD_CUSTOM_BACKWARD].u.g,
                    .n_in = (int)c->in[TD_CUSTOM_INPUTS].n,
                    .materialize = td__in_bool(c, TD_CUSTOM_MATERIALIZE),
                    .code = (td_code)td__in_int(c, TD_CUSTOM_CODE),
                    .once =
                        td__in_bool(c, TD_CUSTOM_ONCE) ||
                        td__graph_flags(c->in[TD_CUSTOM_BACKWARD].u.g, TD_OPF_NESTS)};
    if (r->code <= TD_OK || r->code >= TD_E_COUNT) r->code = TD_E_GRAD;
    if (take_references(c, r) && read_graphs(c, r) && check_backward(c, r)) return r;
    destroy(r);
    return NULL;
}

/* Results of the op: those of forward, then the temporaries, owned by the scope
 * as well. */
static bool give_results(td_opcall *c, const replayed *r, td_tensor *const *out) {
    if (!td__call_results(c, r->n_results + r->n_temps)) return false;
    for (int i = 0; i < r->n_results; i++) c->out[i] = out[i];
    for (int i = 0; i < r->n_temps; i++) {
        td_tensor *t = c->out[r->n_results + i] = r->temps[i];
        if (t->slot >= 0 || t->kept > 0) continue;
        if (!td__scope_own(t)) return false;
        td__ref(t);
    }
    return true;
}

/* Runs the recorded custom function as an ordinary custom function, so that its node,
 * saved values and flags are those of eager. */
bool td__decomp_custom(td_opcall *c) {
    replayed *r = td__nested_literals(c) ? make_call(c) : NULL;
    if (!r) return false;
    td_function fn = {r->name, forward, backward, destroy};
    td_tensors  in = {c->in[TD_CUSTOM_INPUTS].u.ts, r->n_in};
    size_t      scratch = sizeof(td_tensor *) * (size_t)(r->n_results + 1);
    td_tensor **out = td__arena_zalloc(&c->cx->scratch, scratch);
    r->refs++; /* the call's */
    bool ok = out != NULL || td__fail_memory(c->cx);
    if (!ok) r->refs--;
    ok = ok && td_function_call(c->cx, &fn, r, in, out, r->n_results) &&
         give_results(c, r, out);
    for (int i = 0; i < r->n_temps; i++) td__unref(r->temps[i]);
    r->n_temps = 0;
    r->c = NULL;
    destroy(r);
    return ok;
}
