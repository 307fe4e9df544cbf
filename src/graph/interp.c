/* interp.c -- the meaning of a graph: its ops called in order. All calls go
 * through the context's modes, so the same loop computes, records, fakes or
 * functionalizes. Nothing recurses over nodes. */
#include "core/callback.h"
#include "core/stack.h"
#include "core/typed.h"
#include "graph/graph_int.h"

/* ---- values ------------------------------------------------------------- */

/* Releases a value. */
static void release(td_value *v) {
    if (v->kind == TD_K_TENSOR && v->u.t) td__unref(v->u.t);
    *v = TD_NONE;
}

static void count_read(void *env, td_gval *v) { ((int32_t *)env)[v->id]++; }

/* Prepares a replay node by node: the caller sets inputs and calls td__replay_node.
 * Values live until td__replay_end. */
bool td__replay_begin(td_replay *r, const td_graph *g) {
    *r = (td_replay){.g = g};
    r->val = td__zalloc(sizeof *r->val * ((size_t)g->n_values + 1));
    r->bound = td__alloc(sizeof *r->bound * ((size_t)g->dims.n + 1));
    if (!r->val || !r->bound) return td__fail_memory(g->cx);
    for (int i = 0; i < g->dims.n; i++) r->bound[i] = INT64_MIN;
    return true;
}

/* Counts how often each value is read, outputs included, so that it can be
 * released after the last read. */
bool td__replay_begin_whole(td_replay *r, const td_graph *g) {
    if (!td__replay_begin(r, g)) return false;
    r->total = td__zalloc(2 * sizeof *r->total * ((size_t)g->n_values + 1));
    if (!r->total) return td__fail_memory(g->cx);
    r->reads = r->total + g->n_values + 1;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_in && !g->nodes.v[i]->dead; k++)
            td__garg_each(&g->nodes.v[i]->in[k], count_read, r->total);
    for (int i = 0; i < g->outputs.n; i++)
        td__garg_each(&g->outputs.v[i], count_read, r->total);
    return true;
}

/* If `name` is a symbol without a value, sets it; true: it did. */
static bool bind(const td_graph *g, int64_t *bound, int64_t name, int64_t value) {
    const td_gdim *s = td__gdim_at(g, name);
    if (!s || s->op != TD_GDIM_SYMBOL) return false;
    int64_t *to = &bound[s - g->dims.v];
    if (*to != INT64_MIN) return false;
    *to = value;
    return true;
}

/* Reads symbols off a value: an integer typed int=s0, or a tensor's sizes,
 * strides and offset. Sizes come first, and strides of dims of size 1 last,
 * because those are arbitrary. True: at least one symbol became known. */
static bool bind_value(const td_graph *g, int64_t *bound, const td_gtype *l,
                       td_value x) {
    if (!l) return false;
    if (x.kind == TD_K_INT) return bind(g, bound, l->offset, x.u.i);
    if (x.kind != TD_K_TENSOR || l->kind != TD_K_TENSOR || l->rank != x.u.t->rank)
        return false;
    const td_tensor *t = x.u.t;
    bool             fresh = false;
    for (int d = 0; d < l->rank; d++) fresh |= bind(g, bound, l->size[d], t->size[d]);
    for (int one = 0; one < 2; one++)
        for (int d = 0; d < l->rank; d++)
            if ((t->size[d] == 1) == one)
                fresh |= bind(g, bound, l->stride[d], t->stride[d]);
    fresh |= bind(g, bound, l->offset, t->offset);
    for (int i = 0; l->of && t->typed && i < l->of->n && i < t->typed->n; i++)
        fresh |=
            bind_value(g, bound, l->of->inner[i], td_value_tensor(t->typed->inner[i]));
    return fresh;
}

/* Binds symbols by comparing the types of inputs with the values; sizes that only occur
 * inside expressions are settled from them. Tangents come last: the caller chose their
 * layout, and a forward call has none. */
void td__gdim_bind(const td_graph *g, const td_value *in, int64_t *bound) {
    for (int i = 0; i < g->dims.n; i++) bound[i] = INT64_MIN;
    for (int tangents = 0; tangents < 2; tangents++)
        for (int i = 0; i < g->inputs.n; i++) {
            bool tensor = in[i].kind == TD_K_TENSOR && in[i].u.t;
            if ((g->in_desc.v[i].kind == TD_D_TANGENT) != tangents) continue;
            if (!tangents || tensor) bind_value(g, bound, g->inputs.v[i]->type, in[i]);
        }
    td__gdim_settle(g, bound);
}

/* Sets a value from outside, with a reference, and binds the symbols in its sizes. */
bool td__replay_set(td_replay *r, const td_gval *v, td_value x) {
    if (x.kind == TD_K_TENSOR) td__ref(x.u.t);
    if (r->g->dims.n && bind_value(r->g, r->bound, v->type, x))
        td__gdim_settle(r->g, r->bound);
    release(&r->val[v->id]);
    r->val[v->id] = x;
    return true;
}

static void restore_modes(td_ctx *cx, const td_region_modes *was) {
    cx->grad_enabled = was->grad;
    cx->inference = was->inference;
    if (was->casts) td_autocast_end(cx, was->autocast);
}

/* Restores modes and releases all values; memory stays for the next run. */
static void reset(td_replay *r) {
    td_ctx *cx = r->g->cx;
    while (r->modes.n) restore_modes(cx, &r->modes.v[--r->modes.n]);
    for (int i = 0; r->val && i < r->g->n_values; i++) release(&r->val[i]);
}

/* Frees a replay, finished or not; values that are still referenced are released. */
void td__replay_end(td_replay *r) {
    reset(r);
    td__free(r->val);
    td__free(r->bound);
    td__free(r->total);
    td__vec_free(&r->args);
    td__vec_free(&r->ts);
    td__vec_free(&r->ints);
    td__vec_free(&r->modes);
}

/* ---- arguments ---------------------------------------------------------- */

/* The value of a dim; fails if a symbol in it is still unknown. A symbol that no value
 * has as a size may equal one that is known. */
static bool dim_value(td_replay *r, int64_t dim, int64_t *out) {
    *out = td__gdim_value(r->g, dim, r->bound);
    if (TD_UNLIKELY(*out == INT64_MIN && td__dim_is_sym(dim))) {
        td__gdim_solve(r->g, r->bound);
        *out = td__gdim_value(r->g, dim, r->bound);
    }
    return *out != INT64_MIN || !td__dim_is_sym(dim) ||
           td__fail(r->g->cx, TD_E_SHAPE,
                    "@%.60s: a symbolic size is used before any input or result has it "
                    "as a size",
                    r->g->name);
}

/* The value of an argument that is no list: a computed value, the number for a symbolic
 * size, a nested graph or a literal. */
static bool scalar_value(td_replay *r, const td_garg *a, td_value *out) {
    int64_t i = 0;
    switch ((td_gkind)a->kind) {
    case TD_G_VALUE: *out = r->val[a->u.v->id]; return true;
    case TD_G_SYM:
        if (!dim_value(r, a->u.i, &i)) return false;
        *out = td_value_int(i);
        return true;
    case TD_G_GRAPH: *out = td__value_graph(a->u.g); return true;
    case TD_G_INTS:
    case TD_G_LIST: break;
    default: return td__garg_literal(a, out);
    }
    return td__fail(r->g->cx, TD_E_UNSUPPORTED,
                    "@%.60s: an argument has a list inside a list, which no op takes",
                    r->g->name);
}

static bool is_integer(td_value v) { return v.kind == TD_K_INT || v.kind == TD_K_BOOL; }

static bool fail_integer(const td_replay *r, uint32_t i, td_value v) {
    return td__fail(r->g->cx, TD_E_ARG, "@%.60s: a list of integers has %s at place %u",
                    r->g->name,
                    v.kind == TD_K_FLOAT    ? "a float"
                    : v.kind == TD_K_TENSOR ? "a tensor"
                                            : "no number",
                    i);
}

/* A list in r->ints. u.i is its start, not its address: the array may still be
 * reallocated (place_lists). */
static bool list_ints(td_replay *r, const td_garg *a, td_value *out) {
    *out = (td_value){TD_K_INTS, a->n, {0}};
    out->u.i = r->ints.n;
    for (uint32_t i = 0; i < a->n; i++) {
        td_value v = TD_NONE;
        int64_t  x = a->kind == TD_G_INTS ? a->u.ints[i] : 0;
        if (a->kind == TD_G_INTS ? !dim_value(r, x, &x)
                                 : !scalar_value(r, &a->u.list[i], &v))
            return false;
        if (a->kind == TD_G_LIST && !is_integer(v)) return fail_integer(r, i, v);
        if (a->kind == TD_G_LIST) x = v.u.i;
        if (!td__vec_push(&r->ints, x)) return td__fail_memory(r->g->cx);
    }
    return true;
}

/* A list of tensors. `out->u.i` is an index into r->ts until place_lists sets the
 * pointer, because r->ts may be reallocated by later arguments. */
static bool list_tensors(td_replay *r, const td_garg *a, td_value *out) {
    *out = (td_value){TD_K_TENSORS, a->n, {0}};
    out->u.i = r->ts.n;
    for (uint32_t i = 0; i < a->n; i++) {
        td_value v;
        if (!scalar_value(r, &a->u.list[i], &v)) return false;
        td_tensor *t = v.kind == TD_K_TENSOR ? v.u.t : NULL;
        if (!td__vec_push(&r->ts, t)) return td__fail_memory(r->g->cx);
    }
    return true;
}

/* Is it a list of integers, or of values that are numbers? An empty list has
 * tensors. */
static bool is_int_list(const td_replay *r, const td_garg *a) {
    if (a->kind != TD_G_LIST || a->n == 0) return a->kind == TD_G_INTS;
    const td_garg *e = &a->u.list[0];
    if (e->kind == TD_G_VALUE && e->u.v->type) return e->u.v->type->kind != TD_K_TENSOR;
    if (e->kind == TD_G_VALUE) return is_integer(r->val[e->u.v->id]);
    return e->kind == TD_G_INT || e->kind == TD_G_SYM;
}

static bool arg_value(td_replay *r, const td_garg *a, td_value *out) {
    if (a->kind != TD_G_INTS && a->kind != TD_G_LIST) return scalar_value(r, a, out);
    return is_int_list(r, a) ? list_ints(r, a, out) : list_tensors(r, a, out);
}

/* Replaces the start of a list by its address, once all lists of the call are
 * complete. */
static void place_lists(td_replay *r, td_value *v) {
    static const int64_t no_ints[1];
    if (v->kind == TD_K_INTS) {
        int64_t at = v->u.i;
        v->u.ints = v->n ? r->ints.v + at : no_ints;
    }
    if (v->kind == TD_K_TENSORS) {
        int64_t at = v->u.i;
        v->u.ts = r->ts.v ? r->ts.v + at : NULL;
    }
}

bool td__replay_arg(td_replay *r, const td_garg *a, td_value *out) {
    r->ints.n = r->ts.n = 0;
    if (!arg_value(r, a, out)) return false;
    place_lists(r, out);
    return true;
}

/* Evaluates the arguments of a node into r->args. Lists get their pointers last, when
 * the vectors no longer grow. */
static bool read_args(td_replay *r, const td_gnode *n) {
    r->args.n = r->ints.n = r->ts.n = 0;
    for (int i = 0; i < n->n_in; i++) {
        td_value v;
        if (!arg_value(r, &n->in[i], &v)) return false;
        if (!td__vec_push(&r->args, v)) return td__fail_memory(r->g->cx);
    }
    for (int i = 0; i < n->n_in; i++) place_lists(r, &r->args.v[i]);
    return true;
}

/* ---- nodes -------------------------------------------------------------- */

void td__region_set(td_ctx *cx, td_gregion r) {
    if (r == TD_R_INFERENCE || r == TD_R_PLAIN) cx->inference = r == TD_R_INFERENCE;
    cx->grad_enabled = r == TD_R_ENABLE_GRAD || r == TD_R_PLAIN;
}

static td_autocast_mode begin_autocast(td_ctx *cx, td_gregion r) {
    if (r == TD_R_AUTOCAST_OFF) return td_autocast_off_begin(cx);
    return td_autocast_begin(cx, r == TD_R_AUTOCAST_BF16 ? TD_BF16 : TD_F16);
}

/* Enters or leaves a region. The modes before it are on r->modes. */
static bool change_mode(td_replay *r, const td_gnode *n) {
    td_ctx *cx = r->g->cx;
    if (n->kind == TD_N_LEAVE) {
        if (r->modes.n == 0)
            return td__fail(cx, TD_E_ARG, "the graph closes a region that is not open");
        restore_modes(cx, &r->modes.v[--r->modes.n]);
        return true;
    }
    td_region_modes now = {.grad = cx->grad_enabled, .inference = cx->inference};
    now.casts = !td__region_is_grad((td_gregion)n->region);
    if (!td__vec_push(&r->modes, now)) return td__fail_memory(cx);
    if (now.casts)
        r->modes.v[r->modes.n - 1].autocast = begin_autocast(cx, (td_gregion)n->region);
    else td__region_set(cx, (td_gregion)n->region);
    return true;
}

/* An op with a list result may give more results than the node has, not fewer. */
static bool check_named(td_replay *r, const td_gnode *n, td_tensor *const *out) {
    int got = 0;
    while (got < n->n_out && !td_is_nil(out[got])) got++;
    return got == n->n_out ||
           td__fail(r->g->cx, TD_E_ARG, "%s: gives %d results, but the graph names %d",
                    td__row(n->op)->name, got, (int)n->n_out);
}

/* The size that depends on values for which the graph's code is made; -1: any size. A
 * program has a list of such sizes, and is also run for others. */
static int64_t size_for(const td_graph *g, const td_gnode *n) {
    bool dynamic = td__row(n->op)->flags & TD_OPF_DYNAMIC && !g->sizes.n;
    return dynamic && td__gtype_is_concrete(n->out[0]->type) ? n->out[0]->type->size[0]
                                                             : -1;
}

/* Calls the op of a node whose result must have `size` as its first. */
static bool call_sized(td_replay *r, const td_gnode *n, td_tensor **out, int64_t size) {
    td_ctx      *cx = r->g->cx;
    td_dim_given was = td__dim_give((td_dim_given){&size, 1, 0});
    bool         ok = td__call(cx, n->op, r->args.v, r->args.n, out, n->n_out);
    td__dim_give(was);
    return ok && (out[0]->size[0] == size ||
                  td__fail_other_size(cx, out[0]->size[0], "==", size));
}

/* Calls one op in a scope of its own; results are referenced by r, temporaries
 * of composites are freed with the scope. */
static bool call_op(td_replay *r, const td_gnode *n) {
    td_ctx          *cx = r->g->cx;
    td_tensor       *few[TD_MAX_RESULTS], **out = few;
    const td_schema *s = &td__opinfo(n->op)->s;
    bool             list = s->n_out == 1 && s->out[0].type == TD_T_TENSORS, ok;
    int              n_out = list ? n->n_out : s->n_out;
    if (n_out > TD_MAX_RESULTS && !(out = td__alloc(sizeof *out * (size_t)n_out)))
        return td__fail_memory(cx);
    ok = td__scope_push(cx);
    if (ok) {
        cx->scopes.v[cx->scopes.n - 1].label = n->scope;
        int64_t size = size_for(r->g, n);
        ok = (size >= 0 ? call_sized(r, n, out, size)
                        : td__call(cx, n->op, r->args.v, r->args.n, out, n_out)) &&
             (!list || check_named(r, n, out));
        for (int i = 0; i < n->n_out && ok; i++)
            td__replay_set(r, n->out[i], td_value_tensor(out[i]));
        td__scope_pop(cx, NULL, 0);
    }
    if (out != few) td__free(out);
    return ok;
}

void td__replay_read(td_replay *r, const td_gval *v) {
    if (--r->reads[v->id] == 0) release(&r->val[v->id]);
}

static void forget_read(void *env, td_gval *v) { td__replay_read(env, v); }

/* A check of two numbers is the user's: a trace assumes something of symbols only. */
bool td__node_is_guess(const td_gnode *n) {
    return n->op == TD_OP_expect && n->n_in > 3 && n->in[3].u.i &&
           (n->in[0].kind == TD_G_SYM || n->in[2].kind == TD_G_SYM);
}

/* The device on which a node without tensor arguments makes its result: that of its
 * type, or without a type the context's. */
static uint8_t device_for(const td_ctx *cx, const td_gnode *n) {
    const td_gtype *l = n->n_out ? n->out[0]->type : NULL;
    return l && l->kind == TD_K_TENSOR ? l->device : cx->device;
}

/* Executes one node through the current modes, with the node's source line and tags in
 * the context, so that errors and newly recorded nodes have them. Releases values that
 * no later node reads. Assumptions of the trace about a size are not checked while
 * sizes are given or measured. */
bool td__replay_node(td_replay *r, const td_gnode *n) {
    if (n->kind != TD_N_OP) return change_mode(r, n);
    if (td__node_is_guess(n) && (r->g->cx->sizes_seen || td__dim_is_given()))
        return true;
    if (td__row(n->op)->flags & TD_OPF_NESTS &&
        !td__stack_holds(r->g->cx, td__row(n->op)->name))
        return false;
    td_where    was = td_here;
    td_ctx     *cx = r->g->cx;
    uint32_t    tags = cx->tags; /* of the enclosing node, if this graph is nested */
    uint8_t     outer = TD_TAG_ORIGIN(tags);
    uint8_t     origin = n->origin && outer != TD_FROM_BEFORE ? n->origin : outer;
    td_callback calls;
    uint8_t     device = td__make_on(cx, device_for(cx, n));
    td_here = n->here;
    cx->tags = (n->tags ? n->tags : TD_TAG_WISH(tags)) | TD_TAG_FROM(origin);
    td__calls_begin(&calls, cx, n->stack);
    bool ok = read_args(r, n) && call_op(r, n);
    td__callback_end(&calls);
    td__make_on(cx, device);
    cx->tags = tags;
    td_here = was;
    if (!ok) return false;
    if (!r->reads) return true;
    for (int i = 0; i < n->n_in; i++) td__garg_each(&n->in[i], forget_read, r);
    for (int i = 0; i < n->n_out; i++)
        if (r->reads[n->out[i]->id] == 0) release(&r->val[n->out[i]->id]);
    return true;
}

/* ---- whole graphs ------------------------------------------------------- */

/* Sets the inputs; releases those that nothing reads. */
static bool set_inputs(td_replay *r, const td_value *in) {
    const td_graph *g = r->g;
    for (int i = 0; i < g->inputs.n; i++) {
        td_value       v = in[i];
        const td_desc *d = &g->in_desc.v[i];
        if (v.kind == TD_K_NONE && d->kind == TD_D_CONST && d->index >= 0 &&
            d->index < g->consts.n)
            v = td_value_tensor(g->consts.v[d->index]);
        if (v.kind == TD_K_TENSOR && td_is_nil(v.u.t)) return false;
        int32_t id = g->inputs.v[i]->id;
        if (r->reads[id] > 0 || g->dims.n) td__replay_set(r, g->inputs.v[i], v);
        if (r->reads[id] == 0) release(&r->val[id]);
    }
    return true;
}

/* Gives an output that no scope owns to the innermost scope. */
static bool give_to_scope(td_replay *r, td_value *v) {
    if (v->kind == TD_K_TENSORS || v->kind == TD_K_INTS)
        return td__fail(
            r->g->cx, TD_E_UNSUPPORTED,
            "@%.60s returns a list, which is unsupported; return its entries",
            r->g->name);
    if (v->kind != TD_K_TENSOR) return true;
    td_tensor *t = v->u.t;
    if (t->slot >= 0 || t->kept > 0) return true;
    if (td__scope_own(td__ref(t))) return true;
    td__unref(t);
    return td__fail_memory(r->g->cx);
}

/* Drops the caller's references to inputs in r->own, now that the replay has
 * its own: so an input can be freed after its last read. */
static void drop_given(const td_replay *r, const td_value *in) {
    for (int i = 0; r->own && i < r->g->inputs.n; i++)
        if (r->own[i]) td_drop(in[i].u.t);
}

/* One execution from inputs to outputs. Read counts are reset from `total` and symbolic
 * sizes are unbound, so that a replay may run several times. */
static bool run_whole(td_replay *r, const td_value *in, td_value *out) {
    const td_graph *g = r->g;
    memcpy(r->reads, r->total, sizeof *r->reads * (size_t)g->n_values);
    for (int i = 0; i < g->dims.n; i++) r->bound[i] = INT64_MIN;
    bool ok = set_inputs(r, in);
    drop_given(r, in);
    if (ok && r->walk) ok = r->walk(r->walk_env, r);
    else
        for (int i = 0; ok && i < g->nodes.n; i++)
            ok = g->nodes.v[i]->dead || td__replay_node(r, g->nodes.v[i]);
    for (int i = 0; ok && i < g->outputs.n; i++) {
        const td_garg *a = &g->outputs.v[i];
        if (TD_LIKELY(a->kind == TD_G_VALUE)) out[i] = r->val[a->u.v->id];
        else ok = td__replay_arg(r, a, &out[i]);
        ok = ok && give_to_scope(r, &out[i]);
    }
    return ok;
}

/* After a failure all outputs are nil. A grad mode that the program leaves set (`left`)
 * is set in the context only after success. */
bool td__replay_whole(td_replay *r, const td_value *in, td_value *out) {
    const td_graph *g = r->g;
    td_dim_given    was = {0};
    for (int i = 0; i < g->outputs.n; i++) out[i] = TD_NONE;
    if (g->sizes.n) was = td__dim_give((td_dim_given){g->sizes.v, g->sizes.n, 0});
    bool ok = run_whole(r, in, out);
    if (g->sizes.n) td__dim_give(was);
    for (int i = 0; !ok && i < g->outputs.n; i++)
        out[i] = td_value_tensor(td_nil(g->cx));
    reset(r);
    if (ok && g->left) td__region_set(g->cx, (td_gregion)(g->left - 1));
    return ok;
}

/* Runs a graph once and returns the values of its symbolic sizes in `bound`, if that is
 * not NULL. */
bool td__graph_replay_bound(const td_graph *g, const td_value *in, td_value *out,
                            int64_t *bound) {
    td_replay r;
    bool      ok = td__replay_begin_whole(&r, g);
    if (ok) ok = td__replay_whole(&r, in, out);
    else
        for (int i = 0; i < g->outputs.n; i++) out[i] = td_value_tensor(td_nil(g->cx));
    if (ok && bound && g->dims.n)
        memcpy(bound, r.bound, sizeof *bound * (size_t)g->dims.n);
    td__replay_end(&r);
    return ok;
}

bool td__graph_replay(const td_graph *g, const td_value *in, td_value *out) {
    return td__graph_replay_bound(g, in, out, NULL);
}
