/* offload_saved.c -- saved values that are in a store between forward and backward
 * (td_aot_opts.offload): behind pack, a node that stores what would be saved, whose
 * handle is saved instead; before unpack, nodes that fetch it and wait for it. */
#include "aot/pack_int.h"
#include "core/callback.h"

#include <string.h>

enum { LEAST_BYTES = 64 << 10, HINT = 64, AHEAD = 1 };

static int64_t least_bytes(const td_offload *o) {
    return o->min_bytes ? o->min_bytes : LEAST_BYTES;
}

bool td__offload_wants(const td_packing_trace *t, const td_saved_at *at) {
    const td_offload *o = t->off;
    bool              yes = true;
    const td_gnode   *n = td__saved_in_fwd(t->h, at->index)->node;
    if (n && TD_TAG_POLICY(n->tags) == TD_MUST_OFFLOAD) return true;
    if (at->bytes < least_bytes(o)) return false;
    if (o->choose) TD_CALLBACK(t->h->cx, yes = o->choose(o->env, at));
    return yes && td_ok(t->h->cx);
}

/* Bytes of a tensor of type l; a symbolic size counts as HINT. */
static int64_t bytes_of(const td_gtype *l) {
    int64_t n = td__dtype_bytes[l->dtype];
    for (int d = 0; d < l->rank; d++)
        n = td__dim_mul(n, td__dim_is_sym(l->size[d]) ? HINT : l->size[d]);
    return n;
}

/* ---- nodes ----------------------------------------------------------------- */

static td_garg text_arg(const char *s) {
    td_garg a = {TD_G_STR, 0, {0}};
    a.u.s = s;
    return a;
}

/* A node at the end of g with one result of that type. NULL after td__fail. */
static td_gval *add_node(td_graph *g, td_op op, const td_garg *in, int n_in,
                         td_gtype l) {
    td_gnode *n = td__graph_op(g, op, in, n_in, 1);
    l.storage = g->n_storages++;
    l.grad = false;
    if (!n || !(n->out[0]->type = td__graph_type_of(g, l))) return NULL;
    return n->out[0];
}

static td_gtype number_type(void) {
    static const int64_t one = 1;
    td_gtype             l = {.kind = TD_K_TENSOR, .storage = -1};
    l.dtype = TD_I64;
    l.rank = 1;
    l.size = l.stride = &one;
    l.dense = true;
    return l;
}

/* ---- pack ------------------------------------------------------------------ */

/* Which of the traced values is saved value i? */
static int traced(const td_packing_trace *t, int i) {
    int k = 0;
    while (t->which[k] != i) k++;
    return k;
}

/* Is result k of pack stored? Small ones, such as scales, are not worth it. */
static bool is_stored(const td_packing_trace *t, const td_graph *pack, int k) {
    int at = traced(t, pack->out_desc.v[k].index);
    return t->stores[at] && (t->as_is[at] || bytes_of(pack->outputs.v[k].u.v->type) >=
                                                 least_bytes(t->off));
}

/* Is value a, or an inner tensor of it, in storage st? */
static bool is_in(const td_garg *a, int32_t st) {
    const td_gval *v = a->kind == TD_G_VALUE ? a->u.v : NULL;
    bool           is = v && v->type && v->type->storage == st;
    for (uint32_t i = 0;
         v && v->node && v->node->op == TD_OP__wrap && !is && i < v->node->in[0].n; i++)
        is = is_in(&v->node->in[0].u.list[i], st);
    return is;
}

/* Is v an inner tensor of an argument, or a view of one? */
static bool is_inner(const td_gval *v) {
    for (int at = 0; v->node; v = v->node->in[at].u.v) {
        if (v->node->op == TD_OP__inner) return true;
        at = td__opinfo(v->node->op)->view_of;
        if (at < 0 || v->node->in[at].kind != TD_G_VALUE) return false;
    }
    return false;
}

/* Can the caller write saved value i when the call has returned: is it an argument or a
 * result, an inner tensor of one, or does it share its storage with one? */
static bool is_seen(const td_halves *h, int i) {
    const td_graph *g = h->fwd;
    const td_gval  *v = td__saved_in_fwd(h, i);
    int32_t         st = v->type->storage;
    bool            seen = h->saved[i].from != TD_SAVED_FRESH || is_inner(v);
    for (int k = 0; k < g->inputs.n && st >= 0; k++)
        seen |= g->inputs.v[k]->type && g->inputs.v[k]->type->storage == st;
    for (int k = 0; k < h->n_fwd && st >= 0; k++) seen |= is_in(&g->outputs.v[k], st);
    return seen;
}

/* Stores result k of pack; at once if the caller may write it soon. */
static bool store(const td_packing_trace *t, td_graph *pack, int k) {
    int     i = pack->out_desc.v[k].index, at = traced(t, i);
    td_garg in[3] = {pack->outputs.v[k],
                     text_arg(t->f->shared->store),
                     {TD_G_BOOL, 0, {0}}};
    in[2].u.i = t->as_is[at] && is_seen(t->h, i);
    td_gval *v = add_node(pack, TD_OP_offload_store, in, 3, number_type());
    if (v) pack->outputs.v[k].u.v = v;
    return v != NULL;
}

/* ---- unpack ---------------------------------------------------------------- */

/* Input k of g becomes a handle; what it was is fetched. Use lists are there. */
static bool fetch(const td_packing_trace *t, td_graph *g, int k) {
    td_gtype        l = number_type();
    td_gval        *was = g->inputs.v[k];
    const td_gtype *want = was->type, *type = td__graph_type_of(g, l);
    td_gval *handle = type ? td__graph_input(g, NULL, type, g->in_desc.v[k]) : NULL;
    if (!handle) return false;
    g->inputs.v[k] = handle;
    g->inputs.n--;
    g->in_desc.n--;
    int      ahead = t->off->ahead ? t->off->ahead : AHEAD;
    td_garg  ask[2] = {td__garg_value(handle), td__garg_int(ahead < 0 ? 0 : ahead)};
    td_gval *ticket = add_node(g, TD_OP_offload_fetch, ask, 2, l);
    if (!ticket) return false;
    td_garg  in[4] = {td__garg_value(ticket), td__garg_ints(want->size, want->rank),
                      td__garg_ints(want->stride, want->rank),
                      td__garg_dtype((td_dtype)want->dtype)};
    td_gval *v = add_node(g, TD_OP_offload_wait, in, 4, *want);
    if (v) td__graph_replace(g, was, v);
    return v != NULL;
}

/* Moves the nodes from n on before the others. False after td__fail. */
static bool move_to_front(td_graph *g, int n) {
    int        all = g->nodes.n;
    td_gnode **v = td__alloc(sizeof *v * ((size_t)all + 1));
    if (!v) return td__fail_memory(g->cx);
    memcpy((void *)v, (void *)g->nodes.v, sizeof *v * (size_t)all);
    for (int i = 0; i < all; i++)
        g->nodes.v[i] = i < all - n ? v[n + i] : v[i - (all - n)];
    td__free((void *)v);
    return true;
}

bool td__offload_join(const td_packing_trace *t, td_graph *pack, td_graph *unpack) {
    int n = unpack->nodes.n;
    if (!t->off->store || !td__graph_index(unpack)) return !t->off->store;
    for (int k = 0; k < pack->outputs.n; k++)
        if (is_stored(t, pack, k) && (!fetch(t, unpack, k) || !store(t, pack, k)))
            return false;
    if (!move_to_front(unpack, n) || !td__add_symbols(unpack, unpack)) return false;
    td__graph_pack(pack);
    td__graph_pack(unpack);
    return true;
}
