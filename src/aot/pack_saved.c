/* pack_saved.c -- saved-tensor hooks that are compiled (td_aot_opts.saved): traces the
 * user's pack on every saved value that the filter admits, and unpack on what pack
 * returned. The partition then joins both graphs to its halves (part/pack_halves.c). */
#include "aot/aot.h"
#include "tandem/mode.h"

#include <string.h>

/* Hooks while they are traced. */
typedef struct tracing {
    const td_fn      *f;
    const td_packing *by;
    const td_halves  *h;
    td_arena          arena;
    int               n;     /* values that the filter admits, */
    int              *which; /* ...by index of td_halves.saved */
    td_saved_at      *at;    /* ...with what hooks are told about each, */
    int              *count; /* ...and how many values pack made of it; 0: none */
    int               first; /* the input of the traced graph that is the first of them,
                               or the first packed value */
} tracing;

/* ---- which values --------------------------------------------------------- */

static td_gval *value_of(const td_halves *h, int i) {
    const td_saved_value *s = &h->saved[i];
    return s->from == TD_SAVED_PRIMAL ? h->fwd->inputs.v[s->index]
                                      : h->fwd->outputs.v[s->index].u.v;
}

static bool is_static(const td_halves *h, int i) {
    const td_saved_value *s = &h->saved[i];
    if (s->from != TD_SAVED_PRIMAL) return false;
    uint8_t kind = h->fwd->in_desc.v[s->index].kind;
    return kind == TD_D_PARAM || kind == TD_D_BUFFER || kind == TD_D_CONST;
}

/* Can it be replaced by what unpack returns, a tensor with a storage of its own? */
static bool has_plain_layout(const td_gtype *l) {
    return l && l->kind == TD_K_TENSOR && l->offset == 0 && td__gtype_is_packed(l);
}

static bool is_admitted(const tracing *t, int i) {
    const td_halves *h = t->h;
    switch (t->by->filter) {
    case TD_SAVED_DONATED: return h->saved[i].from == TD_SAVED_FRESH;
    case TD_SAVED_NO_STATIC: return !is_static(h, i);
    default: return true;
    }
}

/* The first op of backward that reads saved value i; "" if it is a gradient itself. */
static const char *reader_of(const td_graph *bwd, int i) {
    const td_gval *v = bwd->inputs.v[i];
    for (int k = 0; k < bwd->nodes.n; k++) {
        const td_gnode *n = bwd->nodes.v[k];
        for (int a = 0; a < n->n_in; a++)
            if (n->in[a].kind == TD_G_VALUE && n->in[a].u.v == v)
                return td__row(n->op)->name;
    }
    return "";
}

static void describe(const tracing *t, int i, td_saved_at *to) {
    const td_halves *h = t->h;
    const td_gval   *v = value_of(h, i);
    const td_gnode  *n = v->node;
    const td_desc   *d = n ? NULL : &h->fwd->in_desc.v[h->saved[i].index];
    *to = (td_saved_at){.function = t->f->name,
                        .index = i,
                        .value = v->name ? v->name : "",
                        .op = n ? td__row(n->op)->name : "input",
                        .reader = reader_of(h->bwd, i),
                        .state = d ? d->name : NULL,
                        .scope = n && n->scope ? n->scope : "",
                        .file = n ? n->here.file : NULL,
                        .line = n ? n->here.line : 0,
                        .donated = h->saved[i].from == TD_SAVED_FRESH};
}

static bool list_values(tracing *t) {
    const td_halves *h = t->h;
    int              tensors = h->n_saved - h->n_saved_syms - h->n_draws;
    size_t           n = (size_t)h->n_saved + 1;
    size_t           n_in = (size_t)h->bwd->inputs.n + 1;
    bool            *beside = td__arena_zalloc(&t->arena, n_in);
    bool            *writes = td__arena_zalloc(&t->arena, n_in);
    t->which = td__arena_zalloc(&t->arena, sizeof *t->which * n);
    t->count = td__arena_zalloc(&t->arena, sizeof *t->count * n);
    t->at = td__arena_zalloc(&t->arena, sizeof *t->at * n);
    if (!beside || !writes || !t->which || !t->count || !t->at)
        return td__fail_memory(h->cx);
    if (!td__graph_reads_beside(h->bwd, beside)) return false;
    td__graph_written_inputs(h->bwd, writes);
    for (int i = 0; i < tensors; i++) {
        if (beside[i] || writes[i] || !has_plain_layout(h->bwd->inputs.v[i]->type) ||
            !is_admitted(t, i))
            continue;
        describe(t, i, &t->at[t->n]);
        t->which[t->n++] = i;
    }
    return true;
}

/* ---- graphs without nodes, as types to trace for -------------------------- */

static td_gnode *as_it_is(void *env, const td_gnode *was, td_gnode *now) {
    (void)env, (void)was;
    return now;
}

/* Adds an input like v, a value of a graph whose copy has the values twin[]. A number
 * or none that a graph was called with is no symbol and is not read here: a 0-d tensor
 * keeps its place. */
static bool add_like(td_graph *g, td_gval *const *twin, const td_gval *v, td_desc d) {
    const td_gtype *was = twin[v->id]->type;
    bool            made = was && (was->kind == TD_K_TENSOR || was->kind == TD_K_INT);
    td_gtype        l = made ? *was : (td_gtype){.kind = TD_K_TENSOR, .dtype = TD_F32};
    l.storage = -1;
    l.grad = false;
    const td_gtype *type = td__graph_type_of(g, l);
    return type && td__graph_input(g, NULL, type, d);
}

/* Copies `from` into g for its types, without nodes. Returns the copies by value id,
 * which the caller frees. NULL after td__fail. */
static td_gval **take_types(td_graph *g, const td_graph *from) {
    td_gval **twin = td__zalloc(sizeof *twin * ((size_t)from->n_values + 1));
    int       n = g->inputs.n;
    if (!twin) return td__fail_memory(g->cx), NULL;
    bool ok = td__graph_append(g, from, twin, as_it_is, NULL);
    g->nodes.n = 0;
    g->inputs.n = g->in_desc.n = n;
    if (ok) return twin;
    td__free((void *)twin);
    return NULL;
}

/* Inputs for pack: those of forward, which have all symbolic sizes, then the values. */
static bool fill_pack_types(const tracing *t, td_graph *g) {
    const td_graph *fwd = t->h->fwd;
    td_gval       **twin = take_types(g, fwd);
    bool            ok = twin != NULL;
    for (int i = 0; ok && i < fwd->inputs.n; i++)
        ok = add_like(g, twin, fwd->inputs.v[i], TD_PLAIN_DESC);
    for (int k = 0; ok && k < t->n; k++)
        ok = add_like(g, twin, value_of(t->h, t->which[k]),
                      (td_desc){TD_D_SAVED, t->which[k], NULL});
    td__free((void *)twin);
    return ok;
}

static bool is_packed(const tracing *t, int i) {
    for (int k = 0; k < t->n; k++)
        if (t->which[k] == i) return t->count[k] > 0;
    return false;
}

static void mark(const td_graph *g, bool *marks, int64_t dim) {
    const td_gdim *d = td__gdim_at(g, dim);
    if (d) marks[d - g->dims.v] = true;
}

static void mark_type(const td_graph *g, bool *marks, const td_gtype *l) {
    for (int d = 0; l && l->kind == TD_K_TENSOR && d < l->rank; d++) {
        mark(g, marks, l->size[d]);
        mark(g, marks, l->stride[d]);
    }
    if (l) mark(g, marks, l->offset);
}

static void mark_arg(const td_graph *g, bool *marks, const td_garg *a) {
    if (a->kind == TD_G_SYM) mark(g, marks, a->u.i);
    for (uint32_t i = 0; i < a->n; i++) {
        if (a->kind == TD_G_INTS) mark(g, marks, a->u.ints[i]);
        if (a->kind == TD_G_LIST) mark_arg(g, marks, &a->u.list[i]);
    }
}

/* Marks the dims that nodes and inputs of g read, and their operands. */
static void mark_reads(const td_graph *g, bool *marks) {
    for (int i = 0; i < g->inputs.n; i++) mark_type(g, marks, g->inputs.v[i]->type);
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        for (int k = 0; k < n->n_in; k++) mark_arg(g, marks, &n->in[k]);
        for (int k = 0; k < n->n_out; k++) mark_type(g, marks, n->out[k]->type);
    }
    for (int i = g->dims.n - 1; i >= 0; i--) { /* operands come first */
        if (!marks[i] || g->dims.v[i].op == TD_GDIM_SYMBOL) continue;
        mark(g, marks, g->dims.v[i].a);
        mark(g, marks, g->dims.v[i].b);
    }
}

/* Does an input of g show this symbol by itself? */
static bool is_shown(const td_graph *g, int64_t symbol) {
    for (int i = 0; i < g->inputs.n; i++) {
        const td_gtype *l = g->inputs.v[i]->type;
        if (l->kind == TD_K_INT && l->offset == symbol) return true;
        for (int d = 0; l->kind == TD_K_TENSOR && d < l->rank; d++)
            if (l->size[d] == symbol) return true;
    }
    return false;
}

/* Adds an integer input to g for each symbolic size that `by` reads and no other input
 * shows. */
static bool add_symbols(td_graph *g, const td_graph *by) {
    bool *reads = td__zalloc((size_t)by->dims.n + 1), ok = reads != NULL;
    if (!ok) return td__fail_memory(g->cx);
    mark_reads(by, reads);
    for (int i = 0; ok && i < by->dims.n; i++) {
        const td_gdim *d = &by->dims.v[i];
        if (d->op != TD_GDIM_SYMBOL || !reads[i]) continue;
        td_gtype l = {.kind = TD_K_INT, .storage = -1};
        l.offset = td__gdim_symbol(g, d->letter, d->nr);
        if (is_shown(g, l.offset)) continue;
        const td_gtype *type = td__graph_type_of(g, l);
        td_desc         saved = {TD_D_SAVED, g->inputs.n, NULL};
        ok = type && td__graph_input(g, NULL, type, saved);
    }
    td__free(reads);
    return ok;
}

/* Inputs for unpack, as the packed partition saves them: packed values, the other saved
 * values, and sizes. */
static bool fill_unpack_types(const tracing *t, td_graph *g, const td_graph *pack) {
    const td_graph *bwd = t->h->bwd;
    td_gval       **a = take_types(g, pack), **b = a ? take_types(g, bwd) : NULL;
    bool            ok = b != NULL;
    for (int k = 0; ok && k < pack->outputs.n; k++)
        ok = add_like(g, a, pack->outputs.v[k].u.v, (td_desc){TD_D_SAVED, k, NULL});
    for (int i = 0; ok && i < t->h->n_saved; i++)
        if (!is_packed(t, i))
            ok = add_like(g, b, bwd->inputs.v[i],
                          (td_desc){TD_D_SAVED, g->inputs.n, NULL});
    td__free((void *)a);
    td__free((void *)b);
    return ok && add_symbols(g, pack) && add_symbols(g, bwd);
}

/* ---- the user's functions -------------------------------------------------- */

static bool fail_hook(const tracing *t, const td_saved_at *at, const char *what) {
    td_ctx *cx = t->h->cx;
    return td_ok(cx) &&
           td__fail(cx, TD_E_ARG,
                    "td_aot_opts.saved of %.60s: %s for saved value %d (%s)",
                    at->function, what, at->index, at->op);
}

/* Calls pack for one value and adds clones of what it returns to out: graphs of
 * partitions return no views. Returns their number, -1 after td__fail. */
static int pack_one(const tracing *t, const td_saved_at *at, td_tensor *x,
                    td_value *out) {
    td_tensor *packed[TD_PACKED_MOST] = {0};
    int        n = t->by->pack(t->by->env, at, x, packed);
    if (n < 0 || !td_ok(t->h->cx))
        return fail_hook(t, at, "pack returned -1 without an error (td_fail)"), -1;
    if (n > TD_PACKED_MOST)
        return fail_hook(t, at, "pack returned more than TD_PACKED_MOST values"), -1;
    if (n == 1 && packed[0] == x) return 0;
    for (int k = 0; k < n; k++) {
        if (!packed[k] || td_is_nil(packed[k]))
            return fail_hook(t, at, "pack stored NULL or nil in packed[]"), -1;
        out[k] = td_value_tensor(td_op_clone(packed[k], false));
    }
    return n;
}

/* Calls pack for all values. */
static bool pack_all(td_call *c) {
    tracing  *t = td_call_env(c);
    td_value *out =
        td__arena_zalloc(&t->arena, sizeof *out * TD_PACKED_MOST * ((size_t)t->n + 1));
    int n = 0;
    if (!out) return td__fail_memory(t->h->cx);
    for (int k = 0; k < t->n; k++) {
        td_tensor *x = td__call_args(c).v[t->first + k].u.t;
        t->count[k] = pack_one(t, &t->at[k], x, out + n);
        if (t->count[k] < 0) return false;
        n += t->count[k];
    }
    return td_return_values(c, (td_values){out, n});
}

/* Calls unpack for all values that pack replaced. */
static bool unpack_all(td_call *c) {
    tracing  *t = td_call_env(c);
    td_value *out = td__arena_zalloc(&t->arena, sizeof *out * ((size_t)t->n + 1));
    int       n = 0, from = 0;
    if (!out) return td__fail_memory(t->h->cx);
    for (int k = 0; k < t->n; k++) {
        td_tensor *packed[TD_PACKED_MOST];
        if (!t->count[k]) continue;
        for (int i = 0; i < t->count[k]; i++)
            packed[i] = td__call_args(c).v[from++].u.t;
        td_tensor *x = t->by->unpack(t->by->env, &t->at[k], packed, t->count[k]);
        if (!x || td_is_nil(x))
            return fail_hook(t, &t->at[k], "unpack returned NULL or nil");
        out[n++] = td_value_tensor(x);
    }
    return td_return_values(c, (td_values){out, n});
}

/* Names of all composite ops, with commas. NULL: out of memory. */
static const char *composites(td_arena *a) {
    td_buf b = {0};
    for (int op = 0; op < TD_OP_COUNT; op++)
        if (td__opinfo((td_op)op)->composite && td__opinfo((td_op)op)->has_simpler)
            td__buf_printf(&b, "%s%s", b.n ? "," : "", td__ops[op].name);
    const char *list = td__arena_strdup(a, td__buf_str(&b));
    td__buf_free(&b);
    return list;
}

/* Composites are recorded as their parts, as in joint graphs. */
static bool in_parts(td_call *c, td_body *body) {
    tracing    *t = td_call_env(c);
    const char *list = composites(&t->arena);
    if (!list) return td__fail_memory(t->h->cx);
    return td_decompose_begin(t->h->cx, list) && body(c) && td_decompose_end(t->h->cx);
}
static bool pack_body(td_call *c) { return in_parts(c, pack_all); }
static bool unpack_body(td_call *c) { return in_parts(c, unpack_all); }

/* ---- the traces ------------------------------------------------------------ */

/* Why a half may not contain the node; NULL: it may. */
static const char *refusal(const td_gnode *n) {
    if (n->kind != TD_N_OP) return "changes the grad mode; gradients are off there";
    if (td__opinfo(n->op)->writes)
        return "writes a tensor; call the op that returns a new one";
    if (td__row(n->op)->flags & TD_OPF_EFFECT)
        return "has an effect, whose order among others would change";
    if (td__gnode_draws(n))
        return "draws random numbers; pass them to the function as an argument";
    if (td__row(n->op)->flags & TD_OPF_NESTS)
        return "has a body of its own; use td_where to choose per element";
    return td__row(n->op)->flags & TD_OPF_DYNAMIC
               ? "has a result whose size depends on values; use an op of fixed size"
               : NULL;
}

/* False after td__fail: the traced function does what a half cannot. */
static bool check_trace(const td_graph *g, int n_in, const char *who) {
    if (g->inputs.n > n_in || g->consts.n)
        return td__fail(g->cx, TD_E_UNSUPPORTED,
                        "unsupported: %s of td_aot_opts.saved reads a tensor that is "
                        "not its argument; compute it inside %s from numbers",
                        who, who);
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        const char     *why = refusal(n);
        if (why)
            return td__fail(g->cx, TD_E_UNSUPPORTED,
                            "unsupported: %s of td_aot_opts.saved calls %s, which %s",
                            who, n->kind == TD_N_OP ? td__row(n->op)->name : "a region",
                            why);
    }
    return true;
}

/* Without gradients, in a graph with these inputs; takes over `types`. NULL after
 * td__fail. */
static td_graph *trace(tracing *t, td_graph *types, td_body *body, const char *who) {
    td_ctx *cx = t->h->cx;
    bool    grad = cx->grad_enabled;
    td__graph_pack(types);
    cx->grad_enabled = false;
    td_graph *g = td__capture_types_of(types, body, t);
    cx->grad_enabled = grad;
    bool ok = g && check_trace(g, types->inputs.n, who) && td__graph_dce(g);
    td__graph_drop(types);
    if (ok) return g;
    td__graph_drop(g);
    return NULL;
}

/* An output is a clone. Where it copies a new tensor that pack made, which is no view,
 * that tensor is the output. */
static void skip_clones(td_graph *g) {
    for (int k = 0; k < g->outputs.n; k++) {
        td_gnode *n = g->outputs.v[k].u.v->node;
        td_gval  *v = n && n->op == TD_OP_clone ? n->in[0].u.v : NULL;
        bool      taken =
            !v || !v->node || td__joint_root(v) != v || !has_plain_layout(v->type);
        for (int i = 0; i < k; i++) taken |= g->outputs.v[i].u.v == v;
        if (!taken) g->outputs.v[k].u.v = v;
    }
}

static td_graph *trace_pack(tracing *t) {
    td_graph *types = td__graph_make(t->h->cx, "pack");
    t->first = t->h->fwd->inputs.n;
    if (!types || !fill_pack_types(t, types)) return td__graph_drop(types), NULL;
    td_graph *g = trace(t, types, pack_body, "pack");
    if (!g) return NULL;
    for (int k = 0, at = 0; k < t->n; k++)
        for (int i = 0; i < t->count[k]; i++)
            g->out_desc.v[at++] = (td_desc){TD_D_SAVED, t->which[k], NULL};
    skip_clones(g);
    if (td__graph_dce(g)) return g;
    td__graph_drop(g);
    return NULL;
}

static td_graph *trace_unpack(tracing *t, const td_graph *pack) {
    td_graph *types = td__graph_make(t->h->cx, "unpack");
    if (!types || !fill_unpack_types(t, types, pack))
        return td__graph_drop(types), NULL;
    td_graph *g = trace(t, types, unpack_body, "unpack");
    for (int k = 0, at = 0; g && k < t->n; k++)
        if (t->count[k]) g->out_desc.v[at++] = (td_desc){TD_D_SAVED, t->which[k], NULL};
    return g;
}

/* Traces from types know no size that depends on values. False after td__fail. */
static bool check_sizes(const td_fn *f, const td_graph *g) {
    for (int i = 0; i < g->dims.n; i++)
        if (g->dims.v[i].op == TD_GDIM_SYMBOL && g->dims.v[i].letter != 's')
            return td__fail(f->cx, TD_E_UNSUPPORTED,
                            "%s: unsupported: td_aot_opts.saved in a function with a "
                            "size that depends on values (nonzero, masked_select). "
                            "Compile the part without such an op by itself",
                            f->name);
    return true;
}

bool td__spec_pack(const td_fn *f, td_spec *s, const td_part_opts *o) {
    tracing   t = {.f = f, .by = &f->opts.saved, .h = s->h};
    td_graph *pack = NULL, *unpack = NULL;
    if (!check_sizes(f, s->h->fwd) || !check_sizes(f, s->h->bwd)) return false;
    bool ok = list_values(&t) && (t.n == 0 || (pack = trace_pack(&t)));
    if (pack && pack->outputs.n == 0) {
        td__graph_drop(pack);
        pack = NULL;
    }
    if (pack && !(unpack = trace_unpack(&t, pack))) ok = false;
    td__arena_free(&t.arena);
    if (!ok) return td__graph_drop(pack), false;
    if (unpack) s->h = td__part_pack(s->h, pack, unpack, o);
    return s->h != NULL;
}
