/* fake.c -- fake copies of tensors: geometry without bytes. A copy obeys every
 * eager rule as its original does: which tensors share its storage, which base
 * and view ops it has, whether it requires grad, is a leaf, is a stale view,
 * has a .grad.
 *
 * A copy of a non-leaf has a grad_fn of its own: that of a clone of a fake leaf
 * (td_faker.outer_leaves), which ends the history at the border of the capture. */
#include "core/typed.h"
#include "trace/trace.h"

#include "eager/node.h"

#include <string.h>

/* ---- storages ----------------------------------------------------------- */

/* The identity of a storage: two storages over the same foreign memory (DLPack,
 * td_wrap) count as one. */
static const void *bytes_of(const td_storage *st) {
    return st->data ? st->data : (const void *)st;
}

td_fake_store *td__fake_store_of(td_faker *f, const td_tensor *real) {
    return td__ptrmap_get(&f->stores, bytes_of(real->st));
}

/* Number of elements from the start of the storage to the last one addressed,
 * plus 1. */
static int64_t extent(const td_meta *m) {
    td_geom g = td__meta_geom(m);
    return td__dim_add(td__geom_last(&g), 1);
}

/* Is a size symbolic, given the equalities that the trace has established so far? */
static bool has_symbols(const td_meta *m) {
    for (int d = 0; m && d < m->rank; d++)
        if (td__dim_is_sym(td__dim_now(m->size[d]))) return true;
    return false;
}

/* The symbolic byte size of a fake storage. If the real tensor fills its
 * storage to the end, the size follows from the tensor's symbolic sizes;
 * otherwise 0: unknown. */
static int64_t span_for(const td_faker *f, const td_tensor *real) {
    const td_meta *given = td__ptrmap_get(&f->metas, real);
    td_meta        m;
    int64_t        item = td__dtype_bytes[real->dtype];
    td__tensor_meta(real, &m);
    if (real->st->span || !given) return real->st->span;
    if (extent(&m) * item != (int64_t)real->st->bytes) return 0;
    int64_t span = td__dim_mul(extent(given), item);
    return td__dim_is_sym(span) ? span : 0;
}

/* The fake storage for a real tensor's bytes, made on first use with the same
 * version, so that stale views stay stale. NULL after td__fail. */
static td_fake_store *store_for(td_faker *f, const td_tensor *real) {
    td_fake_store *s = td__fake_store_of(f, real);
    if (s) return s;
    s = td__arena_zalloc(&f->arena, sizeof *s);
    td_storage *st = td__storage_make(real->st->bytes, true);
    if (!s || !st || !td__vec_push(&f->storages, st)) {
        td__storage_drop(st);
        td__fail_memory(f->cx);
        return NULL;
    }
    atomic_store(&st->version, atomic_load(&real->st->version));
    st->span = td__dim_now(span_for(f, real));
    st->open = real->st->open || has_symbols(td__ptrmap_get(&f->metas, real));
    if (st->open) st->bytes = 0; /* the size is symbolic: see span */
    st->device = real->st->device;
    st->readonly = real->st->readonly;
    st->object = real->st->object;
    st->object_key = real->st->object_key;
    *s = (td_fake_store){.st = st, .nr = -1};
    if (!td__ptrmap_put(&f->stores, bytes_of(real->st), s))
        return td__fail_memory(f->cx), NULL;
    return s;
}

/* ---- copies ------------------------------------------------------------- */

/* The autograd state of an original. */
typedef struct autograd_state {
    bool needs, leaf; /* requires_grad; is a leaf */
    bool lost;        /* reading its grad_fn is an error in eager */
    bool due; /* a stale view: its grad_fn is regenerated from its base when read */
} autograd_state;

/* Copies the flag "inference tensor". */
static void copy_flags(td_tensor *t, const td_tensor *real) {
    t->flags =
        (uint8_t)((t->flags & ~TD_TF_INFERENCE) | (real->flags & TD_TF_INFERENCE));
}

/* The geometry of the copy: the one given by td__fake_shape or the original's,
 * with symbols replaced by what the trace has learned of them. */
static void geometry_of(const td_faker *f, const td_tensor *real, td_meta *m) {
    const td_meta *given = td__ptrmap_get(&f->metas, real);
    if (given) *m = *given;
    else td__tensor_meta(real, m);
    m->offset = td__dim_now(m->offset);
    for (int d = 0; d < m->rank; d++) {
        m->size[d] = td__dim_now(m->size[d]);
        m->stride[d] = td__dim_now(m->stride[d]);
    }
}

bool td__fake_shape(td_faker *f, const td_tensor *real, const td_meta *m) {
    td_meta *own = td__arena_alloc(&f->arena, sizeof *own);
    if (own) *own = *m;
    return (own && td__ptrmap_put(&f->metas, real, own)) || td__fail_memory(f->cx);
}

/* Copies a tensor that is not a view (or is copied as if it were not). A
 * non-leaf becomes a clone of a fake leaf, moved onto the fake storage. */
static td_tensor *copy_base(td_faker *f, td_tensor *real, autograd_state n) {
    td_fake_store *s = store_for(f, real);
    td_meta        m;
    if (!s) return NULL;
    geometry_of(f, real, &m);
    td_tensor *t = td__tensor_over(f->cx, s->st, &m);
    if (!t) return NULL;
    copy_flags(t, real);
    f->cx->inference = td_is_inference(real);
    if (n.needs && td_is_nil(td_set_requires_grad(t, true))) return NULL;
    if (n.needs && !n.leaf) {
        if (!td__vec_push(&f->outer_leaves, t)) return td__fail_memory(f->cx), NULL;
        td__ref(t);
        f->cx->grad_enabled = true;
        f->cx->inference = false;
        t = td_op_clone(t, false);
        if (td_is_nil(t) || !td__tensor_set_geometry(t, &m)) return NULL;
        td__tensor_set_storage(t, s->st);
        copy_flags(t, real);
        td_tensor *leaf = f->outer_leaves.v[f->outer_leaves.n - 1];
        if (!td__ptrmap_put(&f->borders, t, leaf)) return td__fail_memory(f->cx), NULL;
    }
    return t;
}

/* Calls one view op of the original's chain on `from`, in the grad mode the
 * original was made in. NULL: it failed, or gave fewer results than before. */
static td_tensor *view_step(td_faker *f, const td_view_step *s, td_tensor *from) {
    td_ctx     *cx = f->cx;
    td_value    in[TD_MAX_ARGS];
    size_t      room = sizeof(td_tensor *) * (size_t)(s->out_nr + 1);
    td_tensor **out = td__arena_alloc(&f->arena, room);
    if (!out) return td__fail_memory(cx), NULL;
    for (int i = 0; i < s->n_in; i++) in[i] = s->in[i];
    const td_opinfo *info = td__opinfo((td_op)(s->def - td__ops));
    in[info->view_of] = td_value_tensor(from);
    bool grad = cx->grad_enabled;
    cx->grad_enabled = grad && s->grad && !s->inference; /* as it was made */
    bool ok = td__call(cx, info->op, in, s->n_in, out, s->out_nr + 1);
    cx->grad_enabled = grad;
    if (!ok) return NULL;
    return td_is_nil(out[s->out_nr]) ? NULL : out[s->out_nr];
}

/* Repeats the original's chain of view ops, from the copy of the base. */
static td_tensor *copy_views(td_faker *f, const td_tensor *real, td_tensor *base) {
    int n = 0;
    for (const td_view_step *s = real->steps; s; s = s->up) n++;
    const td_view_step **chain =
        td__arena_alloc(&f->arena, sizeof *chain * (size_t)(n + 1));
    if (!chain) return td__fail_memory(f->cx), NULL;
    int at = n;
    for (const td_view_step *s = real->steps; s; s = s->up) chain[--at] = s;
    td_tensor *t = base;
    for (int i = 0; i < n && t; i++) t = view_step(f, chain[i], t);
    return t;
}

static bool has_geometry(const td_tensor *t, const td_meta *m) {
    td_geom a = td__geom_of(t), b = td__meta_geom(m);
    return td__geom_identical(&a, &b);
}

/* Are the elements of one those of the other, or their parts? */
static bool same_parts(const td_tensor *a, const td_tensor *b) {
    return td__real_of((td_dtype)a->dtype) == td__real_of((td_dtype)b->dtype);
}

/* One as_strided in place of a whole chain: eager does the same when it
 * regenerates the grad_fn of a view after a write to its base. */
static td_tensor *as_one_step(const td_tensor *real, td_tensor *base) {
    td_geom g = td__geom_of(real);
    return same_parts(real, base) ? td__view_at(base, &g) : td_op_alias(base);
}

/* The copy of a view, from the copy of its base, with geometry m. The chain may
 * no longer apply (a metadata write changed base or view since), and a view
 * with symbolic sizes of its own has no chain in these sizes; then one step
 * replaces it. */
static td_tensor *remake_view(td_faker *f, const td_tensor *real, td_tensor *base,
                              const td_meta *m) {
    td_ctx    *cx = f->cx;
    bool       own = has_symbols(td__ptrmap_get(&f->metas, real));
    td_tensor *t = own ? td_op_alias(base) : copy_views(f, real, base);
    bool       fails = !t && td__error(cx) != TD_E_MEMORY;
    bool       other = t && !own && cx->grad_enabled && !has_geometry(t, m);
    if (fails) td_clear(cx);
    if (fails || other) t = as_one_step(real, base);
    if (!t || td_is_nil(t)) return NULL;
    return has_geometry(t, m) || td__tensor_set_geometry(t, m) ? t : NULL;
}

/* A view whose base was detached since it was made, or that got another grad_fn than
 * its base's (set_), keeps its own in eager. The copy gets that of a clone of a fake
 * leaf. */
static bool give_own_history(td_faker *f, td_tensor *t) {
    td_tensor *leaf = td__tensor_alias(f->cx, t);
    if (!leaf || td_is_nil(td_set_requires_grad(leaf, true))) return false;
    f->cx->grad_enabled = true;
    td_edge e = {0};
    bool    ok = td__edge_of(td_op_clone(leaf, false), &e) && e.node &&
              td__set_history(t, e.node, e.nr);
    if (e.node) td__node_drop(e.node);
    return ok;
}

/* Copies a view: copies its base, then repeats the view in the grad mode that
 * gives the same grad_fn or none. */
static td_tensor *copy_view(td_faker *f, td_tensor *real, autograd_state n) {
    td_ctx    *cx = f->cx;
    td_tensor *base = td__fake_copy(f, real->base);
    td_meta    m;
    if (!base) return NULL;
    geometry_of(f, real, &m);
    cx->grad_enabled = n.needs && !n.leaf;
    cx->inference = false;
    td_tensor *t = remake_view(f, real, base, &m);
    if (!t) return NULL;
    t->creation = real->creation;
    copy_flags(t, real);
    bool own = !td__has_node(t) || td__is_apart(real);
    if (n.needs && !n.leaf && own && !give_own_history(f, t)) return NULL;
    if (n.needs && n.leaf && real->flags & TD_TF_NEEDS_GRAD &&
        td_is_nil(td_set_requires_grad(t, true)))
        return NULL;
    return t;
}

/* Copies the original's .grad. It becomes an input of the program only if the
 * body uses it (input_grad.c). */
static bool copy_grad(td_faker *f, td_tensor *real, td_tensor *t) {
    td_tensor *g = td__own_grad(real);
    if (!g) return true;
    td_tensor *copy = td__fake_copy(f, g);
    if (!copy || !td__grad_at_entry(t, copy)) return false;
    if (td__ptrmap_get(&f->grads, copy)) return true;
    td_fake_grad *of = td__arena_alloc(&f->arena, sizeof *of);
    if (of) *of = (td_fake_grad){t, g};
    return (of && td__ptrmap_put(&f->grads, copy, of)) || td__fail_memory(f->cx);
}

/* Retains the pair until td__faker_end. False: out of memory. */
static bool retain_pair(td_faker *f, td_tensor *copy, td_tensor *real) {
    if (!td__vec_push(&f->pairs, copy)) return false;
    td__ref(copy);
    if (!td__vec_push(&f->pairs, real)) return false;
    td__ref(real);
    return true;
}

/* Reads the autograd state without changing the original. Eager may refuse to
 * give a view's grad_fn because its base was written in a way autograd cannot
 * express: that error belongs to the later read, so it is cleared here and
 * the copy reproduces it. A plain stale view is not read at all: reading would
 * regenerate its grad_fn, which must happen in the program. */
static bool read_state(td_faker *f, td_tensor *real, autograd_state *n) {
    bool view = real->base && real->base->st == real->st;
    if (view && td__is_behind(real) && real->creation == TD_MADE_PLAIN) {
        *n = (autograd_state){true, false, false,
                              true}; /* even if the base was detached */
        return true;
    }
    *n = (autograd_state){td__needs_grad(real), td__is_leaf(real), false, false};
    if (td_ok(f->cx)) return true;
    n->lost = real->base && td__error(f->cx) != TD_E_MEMORY;
    if (n->lost) td_clear(f->cx);
    if (n->lost) n->leaf = !td__has_node(real);
    return n->lost;
}

/* A view that set_ moved to another storage than its base's. Its grad_fn is its own,
 * but a write sends gradients to the base, and an error in reading its grad_fn depends
 * on the base. */
static td_tensor *copy_moved_view(td_faker *f, td_tensor *real, autograd_state n) {
    td_tensor *base = td__fake_copy(f, real->base);
    if (n.lost) n.needs &= !n.leaf;
    td_tensor *t = base ? copy_base(f, real, n) : NULL;
    if (!t) return NULL;
    t->base = td__ref(base);
    t->creation = real->creation;
    return t;
}

static bool has_sizes(const td_tensor *t, const td_geom *g) {
    return t->rank == g->rank && td__dims_same(t->size, g->size, g->rank);
}

/* A leaf that an op has read gets gradients in the sizes it had then, as long as its
 * accumulation node lives. So does its copy, which is read here in these sizes. The
 * node is referenced like those of copies that are not leaves. */
static bool copy_accumulator(td_faker *f, const td_tensor *real, td_tensor *t) {
    const td_node *was = td__known_accumulator(real);
    td_meta        now, then;
    td_edge        e = {0};
    if (!was || td__has_node(t) || !(t->flags & TD_TF_NEEDS_GRAD)) return true;
    td__tensor_meta(t, &now);
    then = now;
    if (!has_sizes(real, &was->out_type[0])) {
        then.strided = false;
        then.rank = was->out_type[0].rank;
        for (int d = 0; d < then.rank; d++) then.size[d] = was->out_type[0].size[d];
        td__strides_dense(then.rank, then.size, then.stride);
    }
    if (!td__tensor_set_geometry(t, &then) || !td__edge_of(t, &e) || !e.node)
        return false;
    td_tensor *holder = td__alias_at(t, e);
    td__node_drop(e.node);
    if (!holder || !td__tensor_set_geometry(t, &now)) return false;
    if (!td__vec_push(&f->outer_leaves, holder)) return td__fail_memory(f->cx);
    td__ref(holder);
    return true;
}

/* A typed tensor has copies of its inner tensors, even if it is a view, whose base's
 * copy may have others. */
static bool copy_inner(td_faker *f, const td_tensor *real, td_tensor *t) {
    const td_typed *from = real->typed;
    td_tensor      *inner[TD_MOST_INNER];
    bool            flat = f->flat, ok = true;
    if (TD_LIKELY(!from)) return true;
    f->flat = true; /* autograd, which distinguishes views, does not see them */
    for (int i = 0; ok && i < from->n; i++)
        ok = (inner[i] = td__fake_copy(f, from->inner[i])) != NULL;
    f->flat = flat;
    td_typed *d = ok ? td__typed_make(f->cx, from->type, inner, from->metadata) : NULL;
    if (!d) return false;
    td__typed_set(t, d);
    td__typed_drop(d);
    return true;
}

/* Makes the copy with the tape as the only mode. A stale original gives a stale
 * copy: its recorded version (`seen`) is older than the storage's. */
static td_tensor *make_copy(td_faker *f, td_tensor *real) {
    autograd_state n;
    if (!td_ok(f->cx) || !read_state(f, real, &n)) return NULL;
    bool view = real->base && real->base->st == real->st; /* or set_ moved it away */
    bool dangles = n.needs && n.leaf && !(real->flags & TD_TF_NEEDS_GRAD);
    td_tensor *t = view && (!f->flat || dangles || n.lost) ? copy_view(f, real, n)
                   : (real->base && !view && !f->flat) || n.lost
                       ? copy_moved_view(f, real, n)
                       : copy_base(f, real, n);
    if (!t || !copy_inner(f, real, t)) return NULL;
    t->flags &= (uint8_t)~TD_TF_TRACED; /* a tensor from outside of the body */
    if (!copy_grad(f, real, t) || !copy_accumulator(f, real, t)) return NULL;
    if (real->bounds && !td__bounds_copy(t, real)) return NULL;
    t->moves = real->moves; /* both versions count these set_ calls */
    t->seen += real->moves;
    bool unasked = n.due && t->base && !td__has_node(real);
    bool behind =
        view && !n.due && real->seen != td__version(real); /* or will be stale */
    if (unasked) td__clear_history(t);
    if (unasked && real->flags & TD_TF_NEEDS_GRAD && /* a leaf by itself */
        td_is_nil(td_set_requires_grad(t, true)))
        return NULL;
    if (n.lost || behind || unasked) t->seen = td__version(t) - 1;
    if (td__has_node(t)) td__last_node(t)->flags |= TD_NF_OUTSIDE;
    bool ok = retain_pair(f, t, real) && td__ptrmap_put(&f->copies, real, t);
    return ok ? t : (td__fail_memory(f->cx), NULL);
}

/* The fake copy of a tensor, made once per faker, with its autograd state: leaf, view
 * of the copied base, or a stand-in for its history. Modes of the caller do not receive
 * the ops that make it. */
td_tensor *td__fake_copy(td_faker *f, td_tensor *real) {
    td_ctx    *cx = f->cx;
    td_tensor *t = td__ptrmap_get(&f->copies, real);
    if (t) return t;
    if (!td__scope_push(cx)) return NULL;
    td_mode_scope outer = td__modes_enter(cx, cx->tape);
    cx->fake = real->typed != NULL; /* functions of types make fake tensors */
    cx->takes_fakes = TD_FAKES_INSIDE;
    t = make_copy(f, real);
    td__modes_leave(cx, &outer);
    td__scope_pop(cx, NULL, 0);
    return t;
}

/* The leaf in which the history of t, a copy that is no view, ends in the trace; NULL:
 * unknown. */
static td_tensor *border_of(const td_faker *f, td_tensor *t) {
    td_tensor *leaf = td__ptrmap_get(&f->borders, t);
    return leaf || td__has_node(t) ? leaf : t;
}

/* A view may have a grad_fn of its own, and is otherwise reached through its base. */
bool td__fake_reached(const td_faker *f, td_tensor *copy, const td_tensor *real) {
    td_tensor *base = real->base ? td__ptrmap_get(&f->copies, real->base) : NULL;
    bool       view = real->base && real->base->st == real->st;
    if (real->base && (!view || !base || td__is_apart(real) || real->base->base))
        return true;
    const td_tensor *leaf = border_of(f, base ? base : copy);
    return !leaf || (td__grad_use(leaf) & TD_GRAD_REACHED) != 0;
}

void td__faker_close(td_faker *f) {
    int n = f->pairs.n / 2;
    for (int i = 0; i < n; i++) {
        td__unref(f->pairs.v[2 * i + 1]);
        f->pairs.v[i] = f->pairs.v[2 * i];
    }
    f->pairs.n = n;
    td__ptrmap_free(&f->copies);
    td__ptrmap_free(&f->stores);
    td__ptrmap_free(&f->metas);
    td__ptrmap_free(&f->grads);
    td__ptrmap_free(&f->borders);
}

/* Tensors are released from last to first: views before their bases. */
void td__faker_end(td_faker *f) {
    for (int i = f->pairs.n - 1; i >= 0; i--) td__unref(f->pairs.v[i]);
    for (int i = 0; i < f->outer_leaves.n; i++) td__unref(f->outer_leaves.v[i]);
    for (int i = 0; i < f->storages.n; i++) td__storage_drop(f->storages.v[i]);
    td__vec_free(&f->pairs);
    td__vec_free(&f->outer_leaves);
    td__ptrmap_free(&f->grads);
    td__vec_free(&f->storages);
    td__ptrmap_free(&f->stores);
    td__ptrmap_free(&f->copies);
    td__ptrmap_free(&f->metas);
    td__ptrmap_free(&f->borders);
    td__arena_free(&f->arena);
}
