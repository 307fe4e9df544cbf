/* pack_saved.c -- saved-tensor hooks that are compiled (td_aot_opts.saved): traces the
 * user's pack on every saved value that the filter admits, and unpack on what pack
 * returned. What goes to a store (td_aot_opts.offload) does so behind pack and comes
 * back before unpack (offload_saved.c). The partition then joins both graphs to its
 * halves (part/pack_halves.c). */
#include "aot/pack_int.h"

/* ---- which values --------------------------------------------------------- */

static bool is_static(const td_halves *h, int i) {
    const td_saved_value *s = &h->saved[i];
    if (s->from != TD_SAVED_PRIMAL) return false;
    uint8_t kind = h->fwd->in_desc.v[s->index].kind;
    return kind == TD_D_PARAM || kind == TD_D_BUFFER || kind == TD_D_CONST;
}

/* Can it be replaced by what unpack returns, a tensor with a storage of its own? A
 * tensor of a type is saved as it is. */
static bool has_plain_layout(const td_gtype *l) {
    return l && !l->of && l->kind == TD_K_TENSOR && l->offset == 0 &&
           td__gtype_is_packed(l);
}

static bool is_admitted(const td_halves *h, td_saved_filter filter, int i) {
    switch (filter) {
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

static void describe(const td_packing_trace *t, int i, td_saved_at *to) {
    const td_halves *h = t->h;
    const td_gval   *v = td__saved_in_fwd(h, i);
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
                        .donated = h->saved[i].from == TD_SAVED_FRESH,
                        .bytes = h->saved[i].bytes};
}

/* Does a hook read saved value i, an argument, as it is when backward runs? Then it is
 * saved as it is, and its version is checked. */
static bool is_read_late(const td_graph *bwd, int i) {
    const td_gval *saved = bwd->inputs.v[i];
    for (int k = 0; k < bwd->nodes.n; k++) {
        const td_gnode *n = bwd->nodes.v[k];
        if (td__row(n->op)->view != TD_VIEW_LATE) continue;
        const td_gval *v = n->in[0].u.v;
        while (v->node && td__opinfo(v->node->op)->view_of >= 0)
            v = v->node->in[td__opinfo(v->node->op)->view_of].u.v;
        if (v == saved) return true;
    }
    return false;
}

/* Is it an object (tandem/object.h), or a view of one? It has no elements, and what a
 * hook makes of it carries no object. */
static bool is_object(const td_halves *h, int i) {
    const td_gval *v = td__saved_in_fwd(h, i);
    while (v->node && td__opinfo(v->node->op)->view_of >= 0)
        v = v->node->in[td__opinfo(v->node->op)->view_of].u.v;
    if (v->node) return false;
    const td_desc *d = &h->fwd->in_desc.v[v->nr];
    if (d->kind == TD_D_CONST && d->index >= 0 && d->index < h->fwd->consts.n)
        return h->fwd->consts.v[d->index]->st->object;
    return d->kind == TD_D_OBJECT;
}

/* Adds value i if it is packed or offloaded. False after td__fail. */
static bool add_value(td_packing_trace *t, int i) {
    if (is_read_late(t->h->bwd, i) || is_object(t->h, i)) return true;
    bool packs = t->by->pack && is_admitted(t->h, t->by->filter, i);
    bool stores = t->off->store && is_admitted(t->h, t->off->filter, i);
    if (!packs && !stores) return true;
    describe(t, i, &t->at[t->n]);
    stores = stores && td__offload_wants(t, &t->at[t->n]);
    if (!td_ok(t->h->cx)) return false;
    t->packs[t->n] = packs;
    t->stores[t->n] = stores;
    t->which[t->n] = i;
    t->n += packs || stores;
    return true;
}

static bool list_values(td_packing_trace *t) {
    const td_halves *h = t->h;
    int              tensors = h->n_saved - h->n_saved_syms - h->n_draws;
    size_t           n = (size_t)h->n_saved + 1;
    size_t           n_in = (size_t)h->bwd->inputs.n + 1;
    bool            *beside = td__arena_zalloc(&t->arena, n_in);
    bool            *writes = td__arena_zalloc(&t->arena, n_in);
    t->which = td__arena_zalloc(&t->arena, sizeof *t->which * n);
    t->count = td__arena_zalloc(&t->arena, sizeof *t->count * n);
    t->at = td__arena_zalloc(&t->arena, sizeof *t->at * n);
    t->packs = td__arena_zalloc(&t->arena, 3 * n);
    if (!beside || !writes || !t->which || !t->count || !t->at || !t->packs)
        return td__fail_memory(h->cx);
    t->stores = t->packs + n;
    t->as_is = t->stores + n;
    if (!td__graph_reads_beside(h->bwd, beside)) return false;
    td__graph_written_inputs(h->bwd, writes);
    for (int i = 0; i < tensors; i++) {
        if (beside[i] || writes[i] || !has_plain_layout(h->bwd->inputs.v[i]->type))
            continue;
        if (!add_value(t, i)) return false;
    }
    return true;
}

/* ---- the user's functions -------------------------------------------------- */

static bool fail_hook(const td_packing_trace *t, const td_saved_at *at,
                      const char *what) {
    td_ctx *cx = t->h->cx;
    return td_ok(cx) &&
           td__fail(cx, TD_E_ARG,
                    "td_aot_opts.saved of %.60s: %s for saved value %d (%s)",
                    at->function, what, at->index, at->op);
}

/* Calls pack for value k and adds clones of what it returns to out: graphs of
 * partitions return no views. A value that is only offloaded is as it is. Returns their
 * number, -1 after td__fail. */
static int pack_one(td_packing_trace *t, int k, td_tensor *x, td_value *out) {
    td_tensor         *packed[TD_PACKED_MOST] = {0};
    const td_saved_at *at = &t->at[k];
    int                n = t->packs[k] ? t->by->pack(t->by->env, at, x, packed) : 0;
    if (n < 0 || !td_ok(t->h->cx))
        return fail_hook(t, at, "pack returned -1 without an error (td_fail)"), -1;
    if (n > TD_PACKED_MOST)
        return fail_hook(t, at, "pack returned more than TD_PACKED_MOST values"), -1;
    if (n == 1 && packed[0] == x) n = 0;
    for (int i = 0; i < n; i++) {
        if (!packed[i] || td_is_nil(packed[i]))
            return fail_hook(t, at, "pack stored NULL or nil in packed[]"), -1;
        out[i] = td_value_tensor(td_op_clone(packed[i], false));
    }
    if (n || !t->stores[k]) return n;
    t->as_is[k] = true;
    out[0] = td_value_tensor(x);
    return 1;
}

/* Calls pack for all values. */
static bool pack_all(td_call *c) {
    td_packing_trace *t = td_call_env(c);
    td_value         *out =
        td__arena_zalloc(&t->arena, sizeof *out * TD_PACKED_MOST * ((size_t)t->n + 1));
    int n = 0;
    if (!out) return td__fail_memory(t->h->cx);
    for (int k = 0; k < t->n; k++) {
        td_tensor *x = td__call_args(c).v[t->first + k].u.t;
        t->count[k] = pack_one(t, k, x, out + n);
        if (t->count[k] < 0) return false;
        n += t->count[k];
    }
    return td_return_values(c, (td_values){out, n});
}

/* Calls unpack for all values that pack replaced. */
static bool unpack_all(td_call *c) {
    td_packing_trace *t = td_call_env(c);
    td_value *out = td__arena_zalloc(&t->arena, sizeof *out * ((size_t)t->n + 1));
    int       n = 0, from = 0;
    if (!out) return td__fail_memory(t->h->cx);
    for (int k = 0; k < t->n; k++) {
        td_tensor *packed[TD_PACKED_MOST];
        if (!t->count[k]) continue;
        for (int i = 0; i < t->count[k]; i++)
            packed[i] = td__call_args(c).v[from++].u.t;
        td_tensor *x = t->as_is[k]
                           ? packed[0]
                           : t->by->unpack(t->by->env, &t->at[k], packed, t->count[k]);
        if (!x || td_is_nil(x))
            return fail_hook(t, &t->at[k], "unpack returned NULL or nil");
        out[n++] = td_value_tensor(x);
    }
    return td_return_values(c, (td_values){out, n});
}

/* Composites are recorded as their parts, as in joint graphs: a mode that does not ask
 * for composites gets their parts. */
static bool in_parts(td_call *c, td_body *body) {
    td_ctx *cx = td_call_ctx(c);
    td_mode parts = {.name = "parts", .call = td__call_below};
    td__mode_push(cx, &parts);
    bool ok = body(c);
    td__mode_remove(cx, &parts);
    return ok;
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
static td_graph *trace(td_packing_trace *t, td_graph *types, td_body *body,
                       const char *who) {
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

static td_graph *trace_pack(td_packing_trace *t) {
    td_graph *types = td__graph_make(t->h->cx, "pack");
    t->first = t->h->fwd->inputs.n;
    if (!types || !td__pack_types(t, types)) return td__graph_drop(types), NULL;
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

static td_graph *trace_unpack(td_packing_trace *t, const td_graph *pack) {
    td_graph *types = td__graph_make(t->h->cx, "unpack");
    if (!types || !td__unpack_types(t, types, pack)) return td__graph_drop(types), NULL;
    td_graph *g = trace(t, types, unpack_body, "unpack");
    for (int k = 0, at = 0; g && k < t->n; k++)
        if (t->count[k]) g->out_desc.v[at++] = (td_desc){TD_D_SAVED, t->which[k], NULL};
    return g;
}

bool td__pack_check_sizes(const td_fn *f, const td_joint *j) {
    const td_graph *g = j->g;
    bool            packs = (f->opts.saved.pack || f->opts.offload.store) && !f->inner;
    for (int i = 0; packs && j->n_tangents && i < g->dims.n; i++)
        if (g->dims.v[i].op == TD_GDIM_SYMBOL && g->dims.v[i].letter != 's')
            return td__fail(
                f->cx, TD_E_UNSUPPORTED,
                "td_aot_opts.saved and offload: unsupported beside a size that "
                "depends on values (nonzero, masked_select) which are not "
                "known before the call. Compile the part without such an "
                "op by itself");
    return true;
}

bool td__spec_pack(const td_fn *f, td_spec *s, const td_part_opts *o) {
    td_packing_trace t = {.f = f,
                          .by = &f->opts.saved,
                          .off = &f->opts.offload,
                          .h = s->h};
    td_graph        *pack = NULL, *unpack = NULL;
    bool             ok = list_values(&t) && (t.n == 0 || (pack = trace_pack(&t)));
    if (pack && pack->outputs.n == 0) {
        td__graph_drop(pack);
        pack = NULL;
    }
    if (pack && !(unpack = trace_unpack(&t, pack))) ok = false;
    ok = ok && (!unpack || td__offload_join(&t, pack, unpack));
    td__arena_free(&t.arena);
    if (!ok) return td__graph_drop(pack), td__graph_drop(unpack), false;
    if (unpack) s->h = td__part_pack(s->h, pack, unpack, o);
    return s->h != NULL;
}
