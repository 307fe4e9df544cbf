/* epilogue_ops.c -- ops that only the plan of a compiled call contains (_made, _touch,
 * _assign, _bump, _give, _bind). They bring a tensor's version, flags and
 * history to the state that the traced program left it in. */
#include "eager/eager_int.h"
#include "ops/call.h"
#include "ops/cast.h"

/* A write to a tensor of a type writes each of its inner tensors. */
static void set_version(td_tensor *t, uint64_t to) {
    atomic_store_explicit(&t->st->version, to, memory_order_relaxed);
    for (int i = 0; t->typed && i < t->typed->n; i++)
        set_version(t->typed->inner[i], to);
}

/* _made: resets version and inference flag, t counts as newly made. */
static bool made(const td_value *in) {
    td_tensor *t = in[0].u.t;
    bool       inference = t->cx->inference;
    set_version(t, 0);
    t->seen = 0;
    t->flags =
        (uint8_t)(inference ? t->flags | TD_TF_INFERENCE : t->flags & ~TD_TF_INFERENCE);
    return true;
}

/* _touch: regenerates a stale view's grad_fn, as eager did at this point. */
static bool touch(const td_value *in) {
    td_node *fn;
    return td__fn_of(in[0].u.t, &fn);
}

static void count_writes(const td_tensor *t, int64_t n) {
    atomic_fetch_add_explicit(&t->st->version, (uint64_t)n, memory_order_relaxed);
    for (int i = 0; t->typed && i < t->typed->n; i++)
        count_writes(t->typed->inner[i], n);
}

/* _bump: adds to the version of t's storage, or takes back writes of steps before. */
static bool bump(const td_value *in) {
    if (in[1].u.i < 0 && (uint64_t)-in[1].u.i > atomic_load(&in[0].u.t->st->version))
        return td__fail(in[0].u.t->cx, TD_E_ARG,
                        "_bump: writes is %lld, and the version is %llu",
                        (long long)in[1].u.i,
                        (unsigned long long)atomic_load(&in[0].u.t->st->version));
    count_writes(in[0].u.t, in[1].u.i);
    return true;
}

/* Epilogues in text form may be written by hand, so types are checked. */
static bool check_value(const char *op, const td_tensor *t, const td_tensor *value) {
    if (t->dtype == value->dtype && td__same_sizes(t, value)) return true;
    return td__fail(
        t->cx, TD_E_SHAPE,
        "%s: the value is %s, but the tensor is %s; dtype and sizes must be "
        "equal",
        op, td__type_str(value), td__type_str(t));
}

/* copy_ with the tape as the top mode and gradients on. */
static bool copy_recorded(td_tensor *t, td_tensor *value) {
    td_ctx       *cx = t->cx;
    td_mode_scope outer = td__modes_enter(cx, cx->tape);
    cx->grad_enabled = true;
    bool ok = !td_is_nil(td_op_copy_(t, value, false));
    td__modes_leave(cx, &outer);
    return ok;
}

/* The checks of an eager write. Only an exported graph fails here, which runs on
 * tensors it was not exported for: a compiled call's key compares all of this. */
static bool may_assign(const td_tensor *t) {
    if (!t->st->readonly && !td__overlaps_itself(t)) return true;
    return td__fail(t->cx, TD_E_ALIAS, "the program writes %s, %s; pass a clone of it",
                    td__type_str(t),
                    t->st->readonly ? "whose storage is read-only"
                                    : "several elements of which have the same "
                                      "address, as in an expanded view");
}

/* The elements of a tensor of a type are those of its inner tensors. Copying them
 * counts one of the writes there. */
static bool assign_typed(td_tensor *t, td_tensor *value) {
    td_mode_scope outer = td__modes_enter_plain(t->cx, NULL);
    value = td__typed_for(t->cx, "_assign", value, t);
    bool ok = value && td__typed_copy(t, value);
    td__modes_leave(t->cx, &outer);
    if (ok) atomic_fetch_add_explicit(&t->st->version, 1, memory_order_relaxed);
    return ok;
}

/* _assign: copy_(t, value) that takes over value's grad_fn and counts as several
 * writes. A view's history is its base's, so a recorded copy_ rebases it. */
static bool assign(const td_value *in) {
    td_tensor *t = in[0].u.t, *value = in[1].u.t;
    td_node   *fn = td__last_node(value);
    bool       view = fn && t->base, typed = t->typed || value->typed;
    if (!check_value("_assign", t, value) || !may_assign(t)) return false;
    count_writes(t, in[2].u.i - (view || typed)); /* those two count themselves */
    if (view) return copy_recorded(t, value);
    if (TD_UNLIKELY(typed)) {
        if (!assign_typed(t, value)) return false;
    } else if (t->numel > 0) td__copy_into(t, value);
    return !fn || td__set_history(t, fn, value->ag->nr);
}

typedef TD_VEC(uint64_t) versions;

/* Appends the versions of t and of its inner tensors. False: no memory. */
static bool note_versions(const td_tensor *t, versions *to) {
    if (!td__vec_push(to, td__version(t))) return td__fail_memory(t->cx);
    for (int i = 0; t->typed && i < t->typed->n; i++)
        if (!note_versions(t->typed->inner[i], to)) return false;
    return true;
}

/* Sets them again. Returns the next one. */
static const uint64_t *reset_versions(td_tensor *t, const uint64_t *from) {
    atomic_store_explicit(&t->st->version, *from++, memory_order_relaxed);
    for (int i = 0; t->typed && i < t->typed->n; i++)
        from = reset_versions(t->typed->inner[i], from);
    return from;
}

/* Rebases the history of view t as copy_ does, but leaves the versions: the
 * elements are in place and their write was counted already. */
static bool rebase(td_tensor *t, td_tensor *value) {
    versions was = {0};
    bool     ok = note_versions(t, &was) && copy_recorded(t, value);
    if (ok) reset_versions(t, was.v);
    t->seen = td__version(t);
    td__vec_free(&was);
    return ok;
}

/* _give: t gets the grad_fn of `value`, if there is one, and a creation mark, as from a
 * custom function. in_place on a view: the write is passed on to its base. */
static bool give(const td_value *in) {
    td_tensor *t = in[0].u.t, *value = in[1].kind == TD_K_TENSOR ? in[1].u.t : NULL;
    int64_t    creation = in[2].u.i;
    bool       in_place = in[3].u.i;
    td_node   *fn = value ? td__last_node(value) : NULL;
    if (value && !check_value("_give", t, value)) return false;
    if (creation < 0 || creation > TD_MADE_CUSTOM)
        return td__fail(t->cx, TD_E_ARG, "_give: creation is %lld; known are 0 to %d",
                        (long long)creation, (int)TD_MADE_CUSTOM);
    if (fn && in_place && t->base) return rebase(t, value);
    if (fn && !td__set_history(t, fn, value->ag->nr)) return false;
    if (t->base && !in_place) t->creation = (uint8_t)creation;
    return true;
}

/* Fails, because the grad_fn of `value` is no compiled call with such an edge, or t has
 * no gradients. */
static bool fail_bind(const td_tensor *t, const td_node *n, int64_t edge) {
    if (!td__is_differentiable((td_dtype)t->dtype))
        return td__fail(t->cx, TD_E_ARG, "_bind: %s has no gradients", td__type_str(t));
    return td__fail(t->cx, TD_E_ARG, "_bind: %s has no edge %lld to bind",
                    n ? n->name : "a value without a history", (long long)edge);
}

/* The type of the gradient that goes to t. A leaf that was read takes gradients in the
 * sizes it had then. */
static void set_edge_type(td_geom *to, const td_tensor *t) {
    int64_t       *dims = (int64_t *)(uintptr_t)to->size; /* reserved for it */
    const td_node *read = td__has_node(t) ? NULL : td__known_accumulator(t);
    const td_geom *g = read ? &read->out_type[0] : NULL;
    if (!g || (g->rank == t->rank && td__dims_same(g->size, t->size, g->rank))) {
        td__node_type(to, t, true, &dims);
        return;
    }
    *to = (td_geom){g->dtype, g->rank, g->device, 0, dims, NULL};
    for (int d = 0; d < g->rank; d++) dims[d] = g->size[d];
}

/* Where gradients of t go. leaf: into its accumulator. A view that becomes a leaf may
 * be stale here, before its base is detached; the program reads it after that. A stale
 * view whose history eager refuses to read is read after that too, or not at all: then
 * the edge is there for double backward alone, and nothing follows it. */
static bool find_edge(td_tensor *t, bool leaf, td_edge *to) {
    bool refused = td__is_behind(t) && t->creation != TD_MADE_PLAIN;
    if (!refused && !(leaf && t->base)) return td__edge_of(t, to);
    if (!t->ag || !t->ag->wants || td__has_node(t))
        return refused || td__edge_of(t, to);
    *to = (td_edge){.node = td__accumulator(t)};
    return to->node != NULL;
}

/* _bind: edge `edge` of the compiled node, which is the grad_fn of `value`, leads where
 * gradients of t, or of its base, go; bound once. The node has reserved memory for the
 * sizes of t. */
static bool bind(const td_value *in) {
    td_tensor *t = in[0].u.t;
    td_node   *n = in[1].u.t->ag ? in[1].u.t->ag->fn : NULL;
    int64_t    edge = in[2].u.i;
    bool       base = in[3].u.i, leaf = in[4].u.i;
    if (base && t->base) t = t->base;
    if (TD_UNLIKELY(!n || !n->kind->binds || edge < 0 || edge >= n->n_edge ||
                    !td__is_differentiable((td_dtype)t->dtype)))
        return fail_bind(t, n, edge);
    if (n->edge[edge].node) return true;
    set_edge_type(&n->in_type[edge], t);
    return find_edge(t, leaf, &n->edge[edge]);
}

td_step_fn *td__step_of(td_op op) {
    switch (op) {
    case TD_OP__made: return made;
    case TD_OP__touch: return touch;
    case TD_OP__assign: return assign;
    case TD_OP__bump: return bump;
    case TD_OP__give: return give;
    case TD_OP__bind: return bind;
    default: return NULL;
    }
}
