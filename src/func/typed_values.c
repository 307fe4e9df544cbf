/* typed_values.c -- tensors of a type in functional graphs. An input of a type is a
 * value of the graph, and each of its inner tensors is one too, by an _inner node: the
 * type computes with these. Its results enter the graph by _wrap nodes (ops/typed.c),
 * so typed outputs need no further handling.
 *
 * Graphs of branches, loops and calls have inner tensors in place of typed tensors
 * (trace/flat_graph.c), like compiled code: the op takes the inner tensors of its
 * operands, and _wrap nodes build its results. */
#include "core/typed.h"
#include "func/func_int.h"
#include "ops/call.h"

/* ---- inputs ------------------------------------------------------------- */

/* Replaces the inner tensors of t, a recorded value. */
static bool replace_inner(td_tensor *t, td_tensor *const *inner) {
    td_typed *d = td__typed_make(t->cx, t->typed->type, inner, t->typed->metadata);
    if (!d) return false;
    td__typed_set(t, d);
    td__typed_drop(d);
    return true;
}

/* Makes all inner tensors of t values; types may nest. */
static bool unwrap(td_ctx *cx, td_tensor *t) {
    td_tensor *inner[TD_MOST_INNER];
    for (int i = 0; i < t->typed->n; i++) {
        td_value in[2] = {td_value_tensor(t), td_value_int(i)};
        inner[i] = td__call1(cx, TD_OP__inner, in, 2);
        if (td_is_nil(inner[i])) return false;
        if (inner[i]->typed && !unwrap(cx, inner[i])) return false;
    }
    return replace_inner(t, inner);
}

bool td__func_unwrap(td_record *rec, td_tensor *t) {
    td_ctx       *cx = rec->cx;
    td_mode_scope outer = td__modes_enter_plain(cx, &rec->mode);
    cx->handling++; /* inner tensors in their own storages, not as a body gets them */
    bool ok = unwrap(cx, t);
    cx->handling--;
    td__modes_leave(cx, &outer);
    return ok;
}

/* Builds a value like `like` from the next plain results. NULL after td__fail. */
static td_tensor *put_together(td_tensor *like, td_tensor **got, int *at) {
    td_tensor *inner[TD_MOST_INNER];
    if (!like->typed) return got[(*at)++];
    for (int i = 0; i < like->typed->n; i++) {
        inner[i] = put_together(like->typed->inner[i], got, at);
        if (!inner[i]) return NULL;
    }
    td_tensor *t = td__typed_rewrap(like, inner);
    return td_is_nil(t) ? NULL : t;
}

/* ---- inner tensors that arguments share --------------------------------- */

/* A list of plain tensors; v NULL: only counts them. */
typedef struct leaves {
    td_tensor **v;
    int         n;
} leaves;

static bool add_leaf(void *env, td_tensor *leaf) {
    leaves *l = env;
    if (l->v) l->v[l->n] = leaf;
    l->n++;
    return true;
}

/* Lists the leaves of t, in scratch memory. */
static bool list_leaves(td_tensor *t, leaves *l) {
    *l = (leaves){0};
    td__typed_leaves(t, add_leaf, l);
    l->v = td__arena_alloc(&t->cx->scratch, sizeof *l->v * ((size_t)l->n + 1));
    if (!l->v) return td__fail_memory(t->cx);
    l->n = 0;
    return td__typed_leaves(t, add_leaf, l);
}

static bool overlap(const td_tensor *a, const td_tensor *b) {
    td_geom x = td__geom_of(a), y = td__geom_of(b);
    return a->st == b->st && td__geom_overlap(&x, &y);
}

/* A value like `like` with leaf `nr` replaced; *at counts leaves. NULL after
 * td__fail. */
static td_tensor *replace_leaf(td_tensor *like, int nr, td_tensor *leaf, int *at) {
    td_tensor *inner[TD_MOST_INNER];
    if (!like->typed) return (*at)++ == nr ? leaf : like;
    for (int i = 0; i < like->typed->n; i++) {
        inner[i] = replace_leaf(like->typed->inner[i], nr, leaf, at);
        if (!inner[i]) return NULL;
    }
    td_tensor *t = td__typed_rewrap(like, inner);
    return td_is_nil(t) ? NULL : t;
}

/* Sets the value of leaf nr of argument `to`, the root of its group. */
static bool put_leaf(td_func *f, const td_func_in *to, int nr, td_tensor *value) {
    td_group *g = td__group_of(to->given);
    td_fval  *root = g->root;
    if (!root || root != to->given)
        return td__fail(f->cx, TD_E_UNSUPPORTED,
                        "unsupported: an inner tensor of %s, an argument whose storage "
                        "is read as a whole, is written; pass clones",
                        td__type_str(to->t));
    td_tensor    *was = td__fval_value(root);
    td_mode_scope outer = td__modes_enter_plain(f->cx, f->mode.below);
    int           at = 0;
    f->cx->handling++;
    td_tensor *now = was ? replace_leaf(was, nr, value, &at) : NULL;
    f->cx->handling--;
    td__modes_leave(f->cx, &outer);
    if (!now) return false;
    g->gen++;
    return td__fval_hold(root, now);
}

/* A written tensor whose elements overlap leaf nr of argument `to`. */
typedef struct shared_leaf {
    const td_func_in *from, *to;
    td_tensor        *written, *leaf; /* outer */
    td_tensor        *value;          /* of `written` */
    int               nr;
} shared_leaf;

/* Leaf nr of the value of an argument. NULL after td__fail. */
static td_tensor *leaf_value(const td_func_in *of, int nr) {
    leaves     l;
    td_tensor *value = td__fval_value(of->given);
    return value && list_leaves(value, &l) ? l.v[nr] : NULL;
}

/* The offset in t, the value of elements at `in`, at which elements with offset
 * `offset` begin. */
static int64_t place_in(const td_tensor *t, const td_geom *in, int64_t offset) {
    return td__dim_add(td__dim_sub(offset, in->offset), t->offset);
}

/* The elements at `of`, a subset of those at `in`, whose value is t. */
static td_tensor *cut_out(td_func *f, td_tensor *t, const td_geom *in,
                          const td_geom *of) {
    td_value args[4] = {td_value_tensor(t), td__ints(of->size, of->rank),
                        td__ints(of->stride, of->rank),
                        td_value_int(place_in(t, in, of->offset))};
    return td__func_call1(f, TD_OP_as_strided, args, 4);
}

/* The new value of an inner tensor of s->to, which overlaps one of s->from. NULL after
 * td__fail. */
static td_tensor *typed_leaf(td_func *f, const shared_leaf *s) {
    td_geom    a = td__geom_of(s->written), b = td__geom_of(s->leaf);
    td_tensor *old = leaf_value(s->to, s->nr), *value = s->value;
    bool       laid = old && a.dtype == b.dtype &&
                td__dims_seem_eq(value->stride, a.stride, a.rank) &&
                td__dims_seem_eq(old->stride, b.stride, b.rank);
    if (!old) return NULL;
    if (td__geom_same(&a, &b)) return value;
    if (laid && td__geom_covers(&a, &b)) return cut_out(f, value, &a, &b);
    if (laid && td__geom_covers(&b, &a))
        return td__func_put(f, old, value, &a, place_in(old, &b, a.offset));
    td__fail(f->cx, TD_E_UNSUPPORTED,
             "unsupported: inner tensors of %s and %s, two arguments, overlap in part, "
             "and one of them is written; pass clones",
             td__type_str(s->from->t), td__type_str(s->to->t));
    return NULL;
}

/* Updates leaf s->nr: plain arguments and inner tensors of one storage are pieces of
 * it. */
static bool share_leaf(td_func *f, const shared_leaf *s) {
    bool       plain = !s->from->t->typed, to = s->to->t->typed != NULL;
    td_group  *g = td__group_of(to ? s->from->given : s->to->given);
    td_fval   *piece = NULL;
    td_tensor *value = NULL;
    if (plain || !to) {
        piece = td__fval_make(f, TD_F_PIECE, g, to ? s->leaf : s->written);
        if (!piece) return false;
    }
    if (!to) return td__fval_store(piece, s->value);
    value = plain ? td__fval_value(piece) : typed_leaf(f, s);
    return value && put_leaf(f, s->to, s->nr, value);
}

/* Updates the leaves of argument `to` that overlap the written argument `from`. */
static bool share_with(td_func *f, const td_func_in *from, const td_func_in *to) {
    leaves     a, b, now;
    td_tensor *value = td__fval_value(from->given);
    if (!value || !list_leaves(from->t, &a) || !list_leaves(to->t, &b) ||
        !list_leaves(value, &now))
        return false;
    for (int i = 0; i < a.n; i++)
        for (int k = 0; k < b.n; k++) {
            shared_leaf s = {from, to, a.v[i], b.v[k], now.v[i], k};
            if (overlap(a.v[i], b.v[k]) && !share_leaf(f, &s)) return false;
        }
    return true;
}

/* ---- views of inner tensors --------------------------------------------- */

/* Lists the leaves of the outer tensor of a record. */
static bool list_record(const td_fval *v, leaves *l) {
    td_ctx *cx = td__group_of(v)->f->cx;
    *l = (leaves){0};
    for (int i = 0; i < v->of->n; i++) td__typed_leaves(v->of->inner[i], add_leaf, l);
    l->v = td__arena_alloc(&cx->scratch, sizeof *l->v * ((size_t)l->n + 1));
    if (!l->v) return td__fail_memory(cx);
    l->n = 0;
    for (int i = 0; i < v->of->n; i++) td__typed_leaves(v->of->inner[i], add_leaf, l);
    return true;
}

/* Are view and base of one type, and the inner tensors of the value laid out as those
 * of the base, so that geometries of one are valid in the other? */
static bool are_places(const leaves *part, const leaves *all, const leaves *now) {
    bool same = part->n == all->n && all->n == now->n;
    for (int i = 0; same && i < all->n; i++) {
        const td_tensor *a = all->v[i], *b = part->v[i], *c = now->v[i];
        td_geom          whole = td__geom_of(a), of = td__geom_of(b);
        same = a->st == b->st && a->dtype == b->dtype && a->rank == c->rank &&
               td__dims_seem_eq(a->stride, c->stride, a->rank) &&
               td__geom_covers(&whole, &of);
    }
    return same;
}

static void fail_places(const td_fval *base) {
    td__fail(
        td__group_of(base)->f->cx, TD_E_UNSUPPORTED,
        "unsupported in a captured body: a view of a tensor of type %s, which its "
        "type cannot compute, is read or written; use the whole tensor, or a clone "
        "of the view",
        base->of->type->opts.name);
}

/* A fake tensor with the type and inner types of the outer tensor of v. */
static td_tensor *like_record(const td_fval *v) {
    td_meta    m = td__geom_meta(&v->geom);
    td_tensor *t = td__tensor_make(td__group_of(v)->f->cx, &m, true);
    if (t) td__typed_set(t, v->of);
    return t;
}

/* A value like `like` built from these plain values by the mode below. */
static td_tensor *wrap_value(td_func *f, td_tensor *like, td_tensor **got) {
    td_mode_scope outer = td__modes_enter_plain(f->cx, f->mode.below);
    int           at = 0;
    f->cx->handling++;
    td_tensor *t = put_together(like, got, &at);
    f->cx->handling--;
    td__modes_leave(f->cx, &outer);
    return t;
}

td_tensor *td__func_typed_as(td_func *f, td_tensor *value, td_tensor *like) {
    td_mode_scope outer = td__modes_enter_plain(f->cx, f->mode.below);
    value = td__typed_laid_out(value, like);
    td__modes_leave(f->cx, &outer);
    return value;
}

td_tensor *td__fval_lay_out_typed(const td_fval *v, td_tensor *value) {
    td_tensor *like = like_record(v);
    return like ? td__func_typed_as(td__group_of(v)->f, value, like) : NULL;
}

td_tensor *td__fval_cut_inner(td_fval *v) {
    td_func *f = td__group_of(v)->f;
    leaves   part, all, now;
    if (!list_record(v, &part) || !list_record(v->up, &all) ||
        !list_leaves(v->up->inner, &now))
        return NULL;
    if (!are_places(&part, &all, &now)) return fail_places(v->up), NULL;
    for (int i = 0; i < all.n; i++) {
        td_geom in = td__geom_of(all.v[i]), of = td__geom_of(part.v[i]);
        if (!td__geom_same(&in, &of)) now.v[i] = cut_out(f, now.v[i], &in, &of);
        if (!now.v[i]) return NULL;
    }
    td_tensor *like = like_record(v);
    return like ? wrap_value(f, like, now.v) : NULL;
}

/* as_strided_scatter reads elements of a storage outside of the tensor. The value of a
 * written typed tensor has inner tensors in new storages without these elements. */
td_tensor *td__fval_typed_in_storage(td_fval *v) {
    leaves     outer, inner;
    td_tensor *value = td__fval_value(v);
    if (!value || !list_record(v, &outer) || !list_leaves(value, &inner)) return NULL;
    bool same = outer.n == inner.n;
    for (int i = 0; same && i < outer.n; i++) {
        const td_tensor *a = outer.v[i], *b = inner.v[i];
        same =
            td__dims_seem_eq(&a->offset, &b->offset, 1) && b->st->bytes >= a->st->bytes;
    }
    if (same) return value;
    td__fail(td__group_of(v)->f->cx, TD_E_UNSUPPORTED,
             "unsupported in a captured body: as_strided_scatter reads elements beside "
             "those of a tensor of type %s that was written; use a clone of it",
             v->of->type->opts.name);
    return NULL;
}

/* Arguments of writing a value to the inner tensors of a base. */
typedef struct putting {
    td_tensor *old;                /* the value of the base */
    leaves     part, all, now, to; /* outer: of view and base; of value and old */
} putting;

static bool list_all(putting *p, const td_fval *v, td_fval *base, td_tensor *value) {
    p->part = (leaves){0};
    p->old = td__fval_value(base);
    return p->old && (!v->of || list_record(v, &p->part)) &&
           list_record(base, &p->all) && list_leaves(p->old, &p->to) &&
           list_leaves(value, &p->now);
}

bool td__fval_may_put_inner(const td_fval *v, td_fval *base, td_tensor *value,
                            bool *yes) {
    putting p;
    if (!list_all(&p, v, base, value)) return false;
    *yes = p.now.n == p.all.n && are_places(&p.part, &p.all, &p.to);
    return true;
}

td_tensor *td__fval_put_inner(const td_fval *v, td_fval *base, td_tensor *value) {
    td_func *f = td__group_of(v)->f;
    putting  p;
    if (!list_all(&p, v, base, value)) return NULL;
    if (p.now.n != p.all.n || !are_places(&p.part, &p.all, &p.to))
        return fail_places(base), NULL;
    for (int i = 0; i < p.all.n; i++) {
        td_tensor **to = &p.to.v[i];
        td_geom     in = td__geom_of(p.all.v[i]), of = td__geom_of(p.part.v[i]);
        *to = td__geom_same(&in, &of) ? p.now.v[i]
                                      : td__func_put(f, *to, p.now.v[i], &of,
                                                     place_in(*to, &in, of.offset));
        if (!*to) return NULL;
    }
    return wrap_value(f, p.old, p.to.v);
}

/* ---- writes ------------------------------------------------------------- */

/* A write copies inner tensors one after the other: of those that share elements, the
 * last one determines them. */
static bool share_inside(td_func *f, const td_func_in *of) {
    leaves l;
    if (!of->t->typed) return true;
    if (!list_leaves(of->t, &l)) return false;
    for (int i = 1; i < l.n; i++)
        for (int k = 0; k < i; k++) {
            if (!overlap(l.v[i], l.v[k])) continue;
            shared_leaf s = {of, of, l.v[i], l.v[k], leaf_value(of, i), k};
            if (!s.value || !share_leaf(f, &s)) return false;
        }
    return true;
}

bool td__func_share_write(td_func *f, td_group *g) {
    for (int i = 0; i < f->in.n; i++) {
        const td_func_in from = f->in.v[i];
        if (td__group_of(from.given) != g) continue;
        if (!share_inside(f, &from)) return false;
        for (int k = 0; k < f->in.n; k++) {
            const td_func_in to = f->in.v[k];
            bool             typed = from.t->typed || to.t->typed;
            if (!typed || td__group_of(to.given) == g) continue;
            if (!share_with(f, &from, &to)) return false;
        }
    }
    return true;
}

/* ---- ops that take graphs ----------------------------------------------- */

/* Has the call typed tensors, or graphs with typed values? */
bool td__func_is_typed(const td_graph_call *k) {
    bool any = false;
    for (int i = 0; i < k->n_in; i++) {
        const td_value *v = &k->in[i];
        if (v->kind == TD_K_GRAPH) any |= td__graph_is_typed(v->u.g);
        for (uint32_t j = 0; v->kind == TD_K_TENSORS && j < v->n; j++)
            any |= v->u.ts[j] && v->u.ts[j]->typed;
    }
    return any;
}

static void add_leaves(leaves *l, const td_value *list) {
    for (uint32_t k = 0; k < list->n; k++) td__typed_leaves(list->u.ts[k], add_leaf, l);
}

/* Replaces the tensors of a list by their leaves. */
static bool flatten_list(td_func *f, td_value *list) {
    leaves l = {0};
    add_leaves(&l, list);
    l.v = td__arena_alloc(&f->cx->scratch, sizeof *l.v * ((size_t)l.n + 1));
    if (!l.v) return td__fail_memory(f->cx);
    l.n = 0;
    add_leaves(&l, list);
    *list = td__value_tensors((td_tensors){l.v, l.n});
    return true;
}

/* The last gradients of a loop's backward are sums; updates their number to leaves. */
static void count_sums(td_op op, td_value *in) {
    enum { GRADS = 5, SUMS };
    leaves l = {0};
    if (op != TD_OP_while_loop_backward || in[SUMS].kind != TD_K_INT) return;
    td_value sums = in[GRADS];
    sums.u.ts += sums.n - in[SUMS].u.i;
    sums.n = (uint32_t)in[SUMS].u.i;
    add_leaves(&l, &sums);
    in[SUMS] = td_value_int(l.n);
}

/* A graph of inner tensors. Sizes of its results that depend on values would be results
 * as well, which only compiled code has (put_symbols). */
static td_graph *make_flat(const td_graph *g) {
    td_graph *flat = td__graph_flat_types(g);
    for (int i = 0; flat && i < flat->outputs.n; i++)
        if (flat->outputs.v[i].kind != TD_G_VALUE) {
            td__graph_drop(flat);
            td__fail(g->cx, TD_E_UNSUPPORTED,
                     "@%.60s, a nested graph, returns a tensor of a type whose sizes "
                     "depend on values; return its inner tensors",
                     g->name);
            return NULL;
        }
    return flat;
}

/* The flat graph of g, cached in g: calls of one graph share it. */
static td_graph *flat_graph(td_graph *g) {
    if (!g->flat && !(g->flat = make_flat(g))) return NULL;
    td__graph_keep(g->flat);
    return g->flat;
}

/* Replaces graphs and lists of operands. made[i]: the flat graph of argument i, owned
 * by the caller. */
static bool flatten(td_func *f, const td_graph_call *k, td_graph **made) {
    count_sums(k->op, k->in);
    for (int i = 0; i < k->n_in; i++) {
        td_value *v = &k->in[i];
        if (v->kind == TD_K_TENSORS && !flatten_list(f, v)) return false;
        if (v->kind != TD_K_GRAPH) continue;
        if (!(made[i] = flat_graph(v->u.g))) return false;
        *v = td__value_graph(made[i]);
    }
    return true;
}

/* Builds the results from the plain ones, by the mode below. */
static bool wrap_results(td_func *f, td_tensor *const *like, td_tensor **got,
                         td_tensor **out, int n_out) {
    td_mode_scope outer = td__modes_enter_plain(f->cx, f->mode.below);
    int           at = 0;
    bool          ok = true;
    f->cx->handling++;
    for (int i = 0; ok && i < n_out; i++)
        ok = (out[i] = put_together(like[i], got, &at)) != NULL;
    f->cx->handling--;
    td__modes_leave(f->cx, &outer);
    return ok;
}

bool td__func_call_typed(td_func *f, const td_graph_call *k, td_tensor **out,
                         int n_out) {
    td_graph *made[TD_MAX_ARGS] = {0};
    leaves    l = {0};
    for (int i = 0; i < n_out; i++) td__typed_leaves(k->like[i], add_leaf, &l);
    size_t      bytes = sizeof(td_tensor *) * ((size_t)l.n + 1);
    td_tensor **got = td__arena_zalloc(&f->cx->scratch, bytes);
    bool        ok = got != NULL || td__fail_memory(f->cx);
    ok = ok && flatten(f, k, made) &&
         td__func_call(f, k->op, k->in, k->n_in, got, l.n) &&
         wrap_results(f, k->like, got, out, n_out);
    for (int i = 0; i < k->n_in; i++) td__graph_drop(made[i]);
    return ok;
}
