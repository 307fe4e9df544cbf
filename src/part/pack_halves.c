/* pack_halves.c -- saved-tensor hooks inlined into a partition: the user's pack, traced
 * as a graph, joins the forward half, and unpack joins the backward half. Each pack
 * runs as soon as its value exists and each unpack right before the first reader, so
 * that the values themselves are not live in between. */
#include "part/part_int.h"
#include "trace/sym.h"

/* A partition while it is packed. */
typedef struct packing {
    const td_halves *plain; /* before */
    const td_graph  *pack, *unpack;
    td_halves       *h;      /* after */
    bool            *hooked; /* by saved value of plain */
    int             *at;     /* by saved value of plain: its index in h; -1: hooked */
    int              n_hooked, n_tensors; /* of plain; tensors with generator states */
} packing;

static td_gnode *as_it_is(void *env, const td_gnode *was, td_gnode *now) {
    (void)env, (void)was;
    return now;
}

/* td__graph_append of all nodes. NULL after td__fail; the caller frees it. */
static td_gval **append(td_graph *to, const td_graph *g, td_gval **twin) {
    if (!twin) return td__fail_memory(to->cx), NULL;
    if (td__graph_append(to, g, twin, as_it_is, NULL)) return twin;
    td__free((void *)twin);
    return NULL;
}

static td_gval **twins(const td_graph *g) {
    return td__zalloc(sizeof(td_gval *) * ((size_t)g->n_values + 1));
}

/* ---- the order of nodes --------------------------------------------------- */

/* Nodes first..first + n keep their order. Each other node i goes before the one with
 * number key[i] among them; those of one key keep their order. False after td__fail. */
static bool place(td_graph *g, int first, int n, const int32_t *key) {
    int        all = g->nodes.n, to = 0;
    td_gnode **v = td__alloc(sizeof *v * ((size_t)all + 1));
    int32_t   *head = td__alloc(sizeof *head * ((size_t)n + 1 + (size_t)all));
    int32_t   *next = head ? head + n + 1 : NULL;
    if (!v || !head) {
        td__free((void *)v);
        td__free(head);
        return td__fail_memory(g->cx);
    }
    for (int k = 0; k <= n; k++) head[k] = -1;
    for (int i = all - 1; i >= 0; i--) {
        if (i >= first && i < first + n) continue;
        next[i] = head[key[i]];
        head[key[i]] = i;
    }
    for (int k = 0; k <= n; k++) {
        for (int i = head[k]; i >= 0; i = next[i]) v[to++] = g->nodes.v[i];
        if (k < n) v[to++] = g->nodes.v[first + k];
    }
    for (int i = 0; i < all; i++) g->nodes.v[i] = v[i];
    td__free((void *)v);
    td__free(head);
    return true;
}

typedef struct latest {
    const int32_t *key;
    int            n; /* of the nodes that keep their order, from 0 */
    int32_t        key_of_all;
} latest;

/* The value exists after its node: a node that reads it has this key or a later one. */
static void after_maker(void *env, td_gval *v) {
    latest *l = env;
    if (!v->node) return;
    int32_t key = v->node->id < l->n ? v->node->id + 1 : l->key[v->node->id];
    if (key > l->key_of_all) l->key_of_all = key;
}

/* Moves the nodes from n on as far forward as what they read allows. */
static bool place_early(td_graph *g, int n) {
    int32_t *key = td__zalloc(sizeof *key * ((size_t)g->nodes.n + 1));
    bool     ok = (key || td__fail_memory(g->cx)) && td__graph_index(g);
    for (int i = n; ok && i < g->nodes.n; i++) {
        latest l = {key, n, 0};
        for (int k = 0; k < g->nodes.v[i]->n_in; k++)
            td__garg_each(&g->nodes.v[i]->in[k], after_maker, &l);
        key[i] = l.key_of_all;
    }
    ok = ok && place(g, 0, n, key);
    td__free(key);
    return ok;
}

/* Nodes that fetch offloaded values, ordered by the nodes that wait for them. */
typedef struct fetches {
    int32_t *node; /* by rank: its index, */
    int32_t *key;  /* ...and the key before it moved */
    int      n;
} fetches;

/* Sorts node i in by its key; those of one key keep their order. */
static void add_fetch(fetches *f, int i, int32_t key) {
    int at = f->n++;
    for (; at > 0 && f->key[at - 1] > key; at--) {
        f->node[at] = f->node[at - 1];
        f->key[at] = f->key[at - 1];
    }
    f->node[at] = i;
    f->key[at] = key;
}

/* A value is fetched where the value `ahead` places before it is waited for: it is
 * loaded while that one is used, and no more values are in memory at once. */
static bool place_fetches(const td_graph *g, int32_t *key) {
    fetches f = {0};
    for (int i = 0; i < g->nodes.n; i++)
        f.n += g->nodes.v[i]->op == TD_OP_offload_fetch;
    if (!f.n) return true;
    f.node = td__alloc(2 * sizeof *f.node * (size_t)f.n);
    if (!f.node) return td__fail_memory(g->cx);
    f.key = f.node + f.n;
    f.n = 0;
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.v[i]->op == TD_OP_offload_fetch) add_fetch(&f, i, key[i]);
    for (int k = 0; k < f.n; k++) {
        const td_gnode *node = g->nodes.v[f.node[k]];
        int64_t         ahead = node->n_in > 1 ? node->in[1].u.i : 0;
        if (ahead > 0) key[f.node[k]] = k < ahead ? 0 : f.key[k - ahead];
    }
    td__free(f.node);
    return true;
}

/* Moves all nodes but first..first + n to right before the first node that reads them,
 * directly or through others; fetches of offloaded values earlier. */
static bool place_late(td_graph *g, int first, int n) {
    int32_t *key = td__zalloc(sizeof *key * ((size_t)g->nodes.n + 1));
    bool     ok = (key || td__fail_memory(g->cx)) && td__graph_index(g);
    for (int i = g->nodes.n - 1; ok && i >= 0; i--) {
        const td_gnode *node = g->nodes.v[i];
        if (i >= first && i < first + n) continue;
        key[i] = n;
        for (int k = 0; k < node->n_out; k++)
            for (const td_guse *u = node->out[k]->uses; u; u = u->next) {
                int32_t at = u->node ? u->node->id : -1;
                if (at < 0) continue; /* an output: at the end is early enough */
                at = at >= first && at < first + n ? at - first : key[at];
                if (at < key[i]) key[i] = at;
            }
    }
    ok = ok && place_fetches(g, key) && place(g, first, n, key);
    td__free(key);
    return ok;
}

/* ---- the forward half ----------------------------------------------------- */

static td_gval *saved_in(const td_halves *h, const td_graph *fwd, int i) {
    const td_saved_value *s = &h->saved[i];
    if (s->from == TD_SAVED_PRIMAL) return fwd->inputs.v[s->index];
    return fwd->outputs.v[s->index].u.v;
}

/* Adds output `a` for saved value k of the packed partition. */
static bool save_output(const packing *p, td_graph *g, td_garg a, int k) {
    p->h->saved[k] = (td_saved_value){TD_SAVED_FRESH, g->outputs.n, 0};
    return td__graph_output(g, a, (td_desc){TD_D_SAVED, k, NULL});
}

/* Outputs for saved values that are not packed: old[] are those before. */
static bool save_others(const packing *p, td_graph *g, const td_garg *old) {
    for (int i = 0; i < p->plain->n_saved; i++) {
        const td_saved_value *s = &p->plain->saved[i];
        if (p->at[i] < 0) continue;
        p->h->saved[p->at[i]] = *s;
        if (s->from == TD_SAVED_FRESH && !save_output(p, g, old[s->index], p->at[i]))
            return false;
    }
    int first = p->pack->outputs.n + p->plain->n_saved - p->n_hooked;
    for (int k = first; k < p->h->n_saved;
         k++) { /* sizes that only packed values had */
        const td_gdim *d = td__gdim_at(p->unpack, p->unpack->inputs.v[k]->type->offset);
        td_garg        a = {TD_G_SYM, 0, {0}};
        a.u.i = td__gdim_symbol(g, d->letter, d->nr);
        if (a.u.i == TD_DIM_HUGE || !save_output(p, g, a, k)) return false;
    }
    return true;
}

/* Adds the nodes of pack, and replaces the saved outputs. */
static bool join_pack(const packing *p, td_graph *g, const td_garg *old) {
    int       n = g->nodes.n;
    td_gval **twin = twins(p->pack);
    for (int k = 0; twin && k < p->pack->inputs.n; k++) {
        const td_desc *d = &p->pack->in_desc.v[k];
        twin[p->pack->inputs.v[k]->id] =
            d->kind == TD_D_SAVED ? saved_in(p->plain, g, d->index) : g->inputs.v[k];
    }
    if (!(twin = append(g, p->pack, twin))) return false;
    g->outputs.n = g->out_desc.n = p->plain->n_fwd;
    bool ok = true;
    for (int k = 0; ok && k < p->pack->outputs.n; k++) {
        td_gval *v = twin[p->pack->outputs.v[k].u.v->id];
        ok = save_output(p, g, td__garg_value(v), k);
    }
    td__free((void *)twin);
    return ok && save_others(p, g, old) && place_early(g, n);
}

static bool make_forward(const packing *p) {
    td_graph *g = p->h->fwd = td__graph_clone(p->plain->fwd);
    if (!g) return false;
    td_garg *old = td__arena_alloc(&g->arena, sizeof *old * (size_t)g->outputs.n + 1);
    if (!old) return td__fail_memory(g->cx);
    for (int i = 0; i < g->outputs.n; i++) old[i] = g->outputs.v[i];
    if (!join_pack(p, g, old)) return false;
    td__graph_pack(g);
    return td__graph_fix_storages(g) && td__graph_verify(g, TD_STAGE_HALF);
}

/* ---- the backward half ---------------------------------------------------- */

static bool fail_type(const td_graph *g, int i, const td_gtype *is,
                      const td_gtype *want) {
    td_buf a = {0}, b = {0};
    td__gtype_print(&a, g, is);
    td__gtype_print(&b, g, want);
    td__fail(g->cx, TD_E_SHAPE,
             "td_aot_opts.saved: unpack returned %.80s for saved value %d, which is "
             "%.80s; return a tensor of that dtype and these sizes",
             td__buf_str(&a), i, td__buf_str(&b));
    td__buf_free(&a);
    td__buf_free(&b);
    return false;
}

/* Are the sizes the same by the facts of the graph, which may make a symbol a number or
 * another symbol? */
static bool sizes_proved(td_graph *g, const td_gtype *a, const td_gtype *b) {
    td_symenv *e = td__symenv_make(g->cx);
    int64_t   *bound = td__zalloc(sizeof *bound * ((size_t)g->dims.n + 1));
    bool       ok = e && (bound || td__fail_memory(g->cx));
    if (ok) {
        td__symenv_begin(e);
        ok = td__sym_from_graph(e, g, bound);
        for (int d = 0; ok && d < a->rank; d++) {
            int64_t x = td__sym_now(e, td__gdim_value(g, a->size[d], bound));
            int64_t y = td__sym_now(e, td__gdim_value(g, b->size[d], bound));
            ok = x == y || td__sym_prove(e, x, TD_DIM_IS_EQ, y) == 1;
        }
        td__symenv_end(e);
    }
    td__symenv_drop(e);
    td__free(bound);
    return ok;
}

static bool same_dims(int rank, const int64_t *a, const int64_t *b) {
    for (int d = 0; d < rank; d++)
        if (a[d] != b[d]) return false;
    return true;
}

/* v, or a copy of it with the strides that backward was traced for. NULL after
 * td__fail. */
static td_gval *fit(td_graph *g, td_gval *v, const td_gtype *want, int i) {
    const td_gtype *is = v->type;
    if (is->dtype != want->dtype || is->rank != want->rank ||
        !(same_dims(is->rank, is->size, want->size) || sizes_proved(g, is, want)))
        return fail_type(g, i, is, want), NULL;
    if (same_dims(is->rank, is->stride, want->stride) && is->offset == want->offset)
        return v;
    td_garg   shape[3] = {td__garg_ints(want->size, want->rank),
                          td__garg_ints(want->stride, want->rank),
                          td__garg_dtype((td_dtype)want->dtype)};
    td_gnode *empty = td__graph_op(g, TD_OP_empty_strided, shape, 3, 1);
    td_gtype  l = *want;
    l.storage = g->n_storages++;
    l.grad = false;
    if (!empty || !(empty->out[0]->type = td__graph_type_of(g, l))) return NULL;
    td_garg   in[2] = {td__garg_value(empty->out[0]), td__garg_value(v)};
    td_gnode *copy = td__graph_op(g, TD_OP_copy, in, 2, 1);
    l.storage = g->n_storages++;
    return copy && (copy->out[0]->type = td__graph_type_of(g, l)) ? copy->out[0] : NULL;
}

/* Replaces the inputs of bwd that stand for packed values (twin[] are its values in g)
 * by what unpack returns. Use lists are there. */
static bool replace_packed(const packing *p, td_graph *g, td_gval *const *made,
                           td_gval *const *twin, const td_graph *bwd) {
    for (int k = 0; k < p->unpack->outputs.n; k++) {
        int      i = p->unpack->out_desc.v[k].index;
        td_gval *was = twin[bwd->inputs.v[i]->id];
        td_gval *v = fit(g, made[p->unpack->outputs.v[k].u.v->id], was->type, i);
        if (!v) return false;
        td__graph_replace(g, was, v);
    }
    return true;
}

/* The inputs of g are those of unpack, then those of bwd. A value that both have
 * becomes the latter: in unpack, facts may have made its symbolic sizes numbers. */
static void merge_inputs(const packing *p, td_graph *g) {
    int n = p->unpack->inputs.n, n_saved = p->plain->n_saved;
    for (int i = 0; i < n_saved; i++) {
        if (p->at[i] < 0) continue;
        td__graph_replace(g, g->inputs.v[p->at[i]], g->inputs.v[n + i]);
        g->inputs.v[p->at[i]] = g->inputs.v[n + i];
    }
    for (int i = n + n_saved; i < g->inputs.n; i++) { /* tangents */
        g->inputs.v[i - n_saved] = g->inputs.v[i];
        g->in_desc.v[i - n_saved] = g->in_desc.v[i];
    }
    g->inputs.n = g->in_desc.n = g->inputs.n - n_saved;
}

/* Appends the graph `bwd` and its outputs. NULL after td__fail. */
static td_gval **join_backward(td_graph *g, const td_graph *bwd) {
    td_gval **twin = append(g, bwd, twins(bwd));
    bool      ok = twin != NULL;
    for (int i = 0; ok && i < bwd->outputs.n; i++) {
        td_garg a = bwd->outputs.v[i];
        if (a.kind == TD_G_VALUE) a.u.v = twin[a.u.v->id];
        ok = td__graph_output(g, a, bwd->out_desc.v[i]);
    }
    if (ok) return twin;
    td__free((void *)twin);
    return NULL;
}

/* unpack, then bwd; both are copied. */
static bool fill_backward(const packing *p, td_graph *g, const td_graph *bwd) {
    td_gval **made = append(g, p->unpack, twins(p->unpack)), **twin = NULL;
    if (!made) return false;
    int  first = g->nodes.n;
    bool ok = (twin = join_backward(g, bwd)) != NULL;
    int  n = g->nodes.n - first;
    ok = ok && td__graph_index(g) && replace_packed(p, g, made, twin, bwd);
    if (ok) merge_inputs(p, g);
    td__free((void *)made);
    td__free((void *)twin);
    for (int i = 0; i < g->nodes.n; i++)
        if (i < first || i >= first + n) g->nodes.v[i]->origin = TD_FROM_BACKWARD;
    if (!ok || !place_late(g, first, n)) return false;
    td__graph_pack(g);
    return td__graph_fix_storages(g) && td__graph_verify(g, TD_STAGE_HALF);
}

static td_graph *make_backward(const packing *p, const td_graph *bwd) {
    td_graph *g = td__graph_make(bwd->cx, bwd->name);
    if (!g || fill_backward(p, g, bwd)) return g;
    td__graph_drop(g);
    return NULL;
}

/* ---- both ----------------------------------------------------------------- */

/* Finds the saved values that pack replaces, and the new index of the others. False:
 * pack and unpack do not belong to this partition (the cache entry is damaged), or
 * after td__fail. */
static bool find_hooked(packing *p) {
    const td_halves *plain = p->plain;
    size_t           n = (size_t)plain->n_saved + 1;
    p->n_tensors = plain->n_saved - plain->n_saved_syms;
    p->at = td__zalloc((sizeof *p->at + 1) * n);
    if (!p->at) return td__fail_memory(plain->cx);
    p->hooked = (bool *)(p->at + n);
    for (int k = 0; k < p->pack->outputs.n; k++) {
        int i = p->pack->out_desc.v[k].index;
        if (p->pack->outputs.v[k].kind != TD_G_VALUE || i < 0 ||
            i >= p->n_tensors - plain->n_draws)
            return false;
        p->n_hooked += !p->hooked[i];
        p->hooked[i] = true;
    }
    for (int i = 0, next = p->pack->outputs.n; i < plain->n_saved; i++)
        p->at[i] = p->hooked[i] ? -1 : next++;
    return true;
}

static bool graphs_fit(const packing *p) {
    const td_halves *plain = p->plain;
    const td_graph  *a = p->pack, *b = p->unpack;
    if (b->inputs.n < a->outputs.n + plain->n_saved - p->n_hooked ||
        b->outputs.n != p->n_hooked || a->inputs.n < plain->fwd->inputs.n)
        return false;
    for (int k = 0; k < a->inputs.n; k++) {
        const td_desc *d = &a->in_desc.v[k];
        if (d->kind == TD_D_SAVED ? d->index < 0 || d->index >= p->n_tensors
                                  : k >= plain->fwd->inputs.n)
            return false;
    }
    for (int k = 0; k < b->outputs.n; k++) {
        int i = b->out_desc.v[k].index;
        if (b->outputs.v[k].kind != TD_G_VALUE || i < 0 || i >= p->n_tensors ||
            !p->hooked[i] || !b->outputs.v[k].u.v->type)
            return false;
    }
    int others = a->outputs.n + plain->n_saved - p->n_hooked;
    for (int k = others; k < b->inputs.n; k++)
        if (!b->inputs.v[k]->type || !td__gdim_at(b, b->inputs.v[k]->type->offset))
            return false;
    return true;
}

/* Bytes of the packed values, and the peak of both halves. */
static bool measure(const packing *p, const td_part_opts *o) {
    td_halves *h = p->h;
    td_graph  *g = h->fwd;
    int64_t   *bytes = td__zalloc(sizeof *bytes * ((size_t)g->n_values + 1));
    int64_t   *bound = td__zalloc(sizeof *bound * ((size_t)g->dims.n + 1));
    td_peak    peak = {0};
    bool       ok = (bytes && bound) || td__fail_memory(h->cx);
    if (ok) td__part_sizes(g, o, bound, bytes);
    for (int i = 0; ok && i < h->n_saved - h->n_saved_syms; i++) {
        h->saved[i].bytes = bytes[saved_in(h, g, i)->id];
        if (h->saved[i].from != TD_SAVED_PRIMAL) h->bytes_saved += h->saved[i].bytes;
    }
    ok = ok && (td__peak_bytes(h, o, &peak) || td__fail_memory(h->cx));
    h->peak = peak.most;
    td__free(bytes);
    td__free(bound);
    return ok;
}

/* The new partition without its graphs. */
static bool make_halves(packing *p) {
    const td_halves *plain = p->plain;
    td_halves       *h = p->h;
    h->cx = plain->cx;
    h->n_fwd = plain->n_fwd;
    h->n_saved = p->unpack->inputs.n;
    h->n_saved_syms = h->n_saved - p->pack->outputs.n - (p->n_tensors - p->n_hooked);
    h->n_draws = plain->n_draws;
    h->bytes_most = plain->bytes_most;
    h->peak_most = plain->peak_most;
    h->cost_recompute = plain->cost_recompute;
    h->fell_back = plain->fell_back;
    h->notes = plain->notes; /* owned by plain, which h owns */
    h->n_notes = plain->n_notes;
    h->saved = td__arena_zalloc(&h->arena, sizeof *h->saved * ((size_t)h->n_saved + 1));
    return h->saved || td__fail_memory(h->cx);
}

static bool fill(packing *p, const td_part_opts *o) {
    td_halves *h = p->h;
    if (!find_hooked(p) || !graphs_fit(p))
        return td_ok(h->plain->cx) &&
               td__fail(h->plain->cx, TD_E_TRACE,
                        "partition: pack and unpack are not of this partition");
    return make_halves(p) && make_forward(p) &&
           (h->bwd = make_backward(p, p->plain->bwd)) && measure(p, o);
}

td_halves *td__part_pack(td_halves *plain, td_graph *pack, td_graph *unpack,
                         const td_part_opts *o) {
    td_halves *h = td__zalloc(sizeof *h);
    packing    p = {.plain = plain, .pack = pack, .unpack = unpack, .h = h};
    if (!h) {
        td__fail_memory(plain->cx);
        td__halves_drop(plain);
        td__graph_drop(pack);
        td__graph_drop(unpack);
        return NULL;
    }
    h->plain = plain;
    h->pack = pack;
    h->unpack = unpack;
    bool ok = fill(&p, o);
    td__free(p.at);
    if (ok) return h;
    td__halves_drop(h);
    return NULL;
}

td_graph *td__part_unpacked(const td_halves *h, const td_graph *bwd) {
    packing   p = {.plain = h->plain, .pack = h->pack, .unpack = h->unpack};
    td_graph *g = find_hooked(&p) ? make_backward(&p, bwd) : NULL;
    td__free(p.at);
    if (!g || td__graph_dce(g)) return g; /* values that this backward does not read */
    td__graph_drop(g);
    return NULL;
}
