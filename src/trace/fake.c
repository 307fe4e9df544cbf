/* fake.c -- copies of tensors without their bytes. A copy behaves in every rule as
 * the tensor does: which tensors it shares storage with, what it is a view of, whether
 * it requires grad and has a history. */
#include "trace/trace.h"

#include "eager/node.h"

#include <string.h>

/* ---- storages ----------------------------------------------------------- */

/* Two storages over the same foreign bytes are one. */
static const void *bytes_of(const td_storage *st) {
    return st->data ? st->data : (const void *)st;
}

td_fake_store *td__fake_store_of(td_faker *f, const td_tensor *real) {
    return td__ptrmap_get(&f->stores, bytes_of(real->st));
}

/* Elements from the start of the storage to the last one addressed. */
static int64_t extent(const td_meta *m) {
    int64_t last = m->offset;
    for (int d = 0; d < m->rank; d++)
        last = td__dim_add(last, td__dim_mul(td__dim_sub(m->size[d], 1), m->stride[d]));
    return td__dim_add(last, 1);
}

static bool is_symbolic(const td_meta *m) {
    for (int d = 0; m && d < m->rank; d++)
        if (td__dim_is_sym(td__dim_now(m->size[d]))) return true;
    return false;
}

/* The storage grows with the tensor where that reaches to its end. */
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
    st->open = real->st->open || is_symbolic(td__ptrmap_get(&f->metas, real));
    if (st->open) st->bytes = 0; /* span says */
    st->readonly = real->st->readonly;
    *s = (td_fake_store){.st = st, .nr = -1};
    if (!td__ptrmap_put(&f->stores, bytes_of(real->st), s))
        return td__fail_memory(f->cx), NULL;
    return s;
}

/* ---- copies ------------------------------------------------------------- */

/* What is true of the original. */
typedef struct nature {
    bool needs, leaf;
    bool lost; /* its history cannot be told */
    bool due;  /* it is its base's, which it has not been asked for */
} nature;

static void leave_inference(td_tensor *t, const td_tensor *real) {
    t->flags = (uint8_t)((t->flags & ~TD_TF_INFERENCE) |
                         (real->flags & (TD_TF_INFERENCE | TD_TF_NUMBER)));
}

/* Its geometry, with the symbols it was given and what is known of them by now. */
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

/* Not a view: fresh geometry over the storage; one with a history is the result of
 * an op on a leaf. */
static td_tensor *copy_whole(td_faker *f, td_tensor *real, nature n) {
    td_fake_store *s = store_for(f, real);
    td_meta        m;
    if (!s) return NULL;
    geometry_of(f, real, &m);
    td_tensor *t = td__tensor_over(f->cx, s->st, &m);
    if (!t) return NULL;
    leave_inference(t, real);
    f->cx->inference = td_is_inference(real);
    if (n.needs && td_is_nil(td_set_requires_grad(t, true))) return NULL;
    if (n.needs && !n.leaf) {
        if (!td__vec_push(&f->beyond, t)) return td__fail_memory(f->cx), NULL;
        td__ref(t);
        f->cx->grad_enabled = true;
        f->cx->inference = false;
        t = td_op_clone(t, false);
        if (td_is_nil(t) || !td__tensor_set_geometry(t, &m)) return NULL;
        td__tensor_set_storage(t, s->st);
        leave_inference(t, real);
    }
    return t;
}

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
    return td_is_nil(out[s->out_nr]) ? NULL : out[s->out_nr]; /* fewer than before */
}

/* The chain of views, made again from the copy of the base. */
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

static bool same_geometry(const td_tensor *a, const td_meta *b) {
    size_t n = sizeof(int64_t) * a->rank;
    return a->rank == b->rank && a->offset == b->offset && a->dtype == b->dtype &&
           !memcmp(a->size, b->size, n) && !memcmp(a->stride, b->stride, n);
}

/* One step for the whole chain: what eager makes of it once the base or the geometry
 * was written. */
static td_tensor *one_step(const td_tensor *real, td_tensor *base) {
    if (real->dtype != base->dtype) return td_op_alias(base);
    return td_op_as_strided(base, td__sizes(real), td__strides(real),
                            td_value_int(real->offset));
}

/* The view as it was made. Writes of geometry may have left the chain behind, and one
 * with symbols of its own never had one: then one step stands for it. */
static td_tensor *remake_view(td_faker *f, const td_tensor *real, td_tensor *base,
                              const td_meta *m) {
    td_ctx    *cx = f->cx;
    bool       own = is_symbolic(td__ptrmap_get(&f->metas, real));
    td_tensor *t = own ? td_op_alias(base) : copy_views(f, real, base);
    bool       fails = !t && td_error(cx) != TD_E_MEMORY;
    bool       other = t && !own && cx->grad_enabled && !same_geometry(t, m);
    if (fails) td_clear(cx);
    if (fails || other) t = one_step(real, base);
    if (!t || td_is_nil(t)) return NULL;
    return same_geometry(t, m) || td__tensor_set_geometry(t, m) ? t : NULL;
}

/* A view whose base was cut off since has a history of its
 * own: that of an op on a leaf. */
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

static td_tensor *copy_view(td_faker *f, td_tensor *real, nature n) {
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
    leave_inference(t, real);
    if (n.needs && !n.leaf && !td__has_node(t) && !give_own_history(f, t)) return NULL;
    if (n.needs && n.leaf && real->flags & TD_TF_NEEDS_GRAD &&
        td_is_nil(td_set_requires_grad(t, true)))
        return NULL;
    return t;
}

/* A gradient the original has: it is there, but as nothing the body was given. */
static bool copy_grad(td_faker *f, td_tensor *real, td_tensor *t) {
    td_tensor *g = td__own_grad(real);
    if (!g) return true;
    td_tensor *copy = td__fake_copy(f, g);
    if (!copy || !td__grad_came(t, copy)) return false;
    if (td__ptrmap_get(&f->grads, copy)) return true;
    td_fake_grad *of = td__arena_alloc(&f->arena, sizeof *of);
    if (of) *of = (td_fake_grad){t, g};
    return (of && td__ptrmap_put(&f->grads, copy, of)) || td__fail_memory(f->cx);
}

static bool hold(td_faker *f, td_tensor *copy, td_tensor *real) {
    if (!td__vec_push(&f->held, copy)) return false;
    td__ref(copy);
    if (!td__vec_push(&f->held, real)) return false;
    td__ref(real);
    return true;
}

/* A view may have a history that eager refuses to tell, because its base was written:
 * that is an error of whoever asks, and the copy must give it again. Where eager would
 * tell it nobody asks either, for a view that was asked keeps what it got. */
static bool find_nature(td_faker *f, td_tensor *real, nature *n) {
    bool view = real->base && real->base->st == real->st;
    if (view && td__is_behind(real) && real->creation == TD_MADE_PLAIN) {
        *n = (nature){true, false, false, true}; /* also of a base that was cut off */
        return true;
    }
    *n = (nature){td__needs_grad(real), td__is_leaf(real), false, false};
    if (td_ok(f->cx)) return true;
    n->lost = real->base && td_error(f->cx) != TD_E_MEMORY;
    if (n->lost) td_clear(f->cx);
    if (n->lost) n->leaf = !td__has_node(real);
    return n->lost;
}

/* A view that may not be asked, of a base that set_ has taken elsewhere: it tells
 * nothing of itself but that. */
static td_tensor *copy_parted(td_faker *f, td_tensor *real, nature n) {
    td_tensor *base = td__fake_copy(f, real->base);
    n.needs &= !n.leaf;
    td_tensor *t = base ? copy_whole(f, real, n) : NULL;
    if (!t) return NULL;
    t->base = td__ref(base);
    t->creation = real->creation;
    return t;
}

static td_tensor *make_copy(td_faker *f, td_tensor *real) {
    nature n;
    if (!td_ok(f->cx) || !find_nature(f, real, &n)) return NULL;
    bool view = real->base && real->base->st == real->st; /* or set_ moved it away */
    bool dangles = n.needs && n.leaf && !(real->flags & TD_TF_NEEDS_GRAD);
    td_tensor *t = view && (!f->flat || dangles || n.lost) ? copy_view(f, real, n)
                   : n.lost                                ? copy_parted(f, real, n)
                                                           : copy_whole(f, real, n);
    if (!t || !copy_grad(f, real, t)) return NULL;
    t->moves = real->moves; /* its version, and that of its history, with them */
    t->seen += real->moves;
    bool unasked = n.due && t->base && !td__has_node(real);
    bool behind = view && !n.due && real->seen != td__version(real); /* or would be */
    if (unasked) td__clear_history(t);
    if (unasked && real->flags & TD_TF_NEEDS_GRAD && /* it was a leaf of its own */
        td_is_nil(td_set_requires_grad(t, true)))
        return NULL;
    if (n.lost || behind || unasked) t->seen = td__version(t) - 1;
    bool ok = hold(f, t, real) && td__ptrmap_put(&f->copies, real, t);
    return ok ? t : (td__fail_memory(f->cx), NULL);
}

td_tensor *td__fake_copy(td_faker *f, td_tensor *real) {
    td_ctx    *cx = f->cx;
    td_tensor *t = td__ptrmap_get(&f->copies, real);
    if (t) return t;
    if (!td__scope_push(cx)) return NULL;
    td_mode_scope outer = td__modes_enter(cx, cx->tape);
    cx->fake = false;
    t = make_copy(f, real);
    td__modes_leave(cx, &outer);
    td__scope_pop(cx, NULL, 0);
    return t;
}

void td__faker_close(td_faker *f) {
    int n = f->held.n / 2;
    for (int i = 0; i < n; i++) {
        td__unref(f->held.v[2 * i + 1]);
        f->held.v[i] = f->held.v[2 * i];
    }
    f->held.n = n;
    td__ptrmap_free(&f->copies);
    td__ptrmap_free(&f->stores);
    td__ptrmap_free(&f->metas);
    td__ptrmap_free(&f->grads);
}

void td__faker_end(td_faker *f) {
    for (int i = f->held.n - 1; i >= 0; i--) td__unref(f->held.v[i]);
    for (int i = 0; i < f->beyond.n; i++) td__unref(f->beyond.v[i]);
    for (int i = 0; i < f->storages.n; i++) td__storage_drop(f->storages.v[i]);
    td__vec_free(&f->held);
    td__vec_free(&f->beyond);
    td__ptrmap_free(&f->grads);
    td__vec_free(&f->storages);
    td__ptrmap_free(&f->stores);
    td__ptrmap_free(&f->copies);
    td__ptrmap_free(&f->metas);
    td__arena_free(&f->arena);
}
