/* saved.c -- values saved for backward. An argument is saved as it is; a result
 * as an alias without history, which gets its node back when it is read (a
 * reference to the tensor itself would be a cycle). Each saved value records
 * the version of its storage: reading it after a write is an error that names
 * both ops. Saved-tensor hooks on the context's stack may store something else
 * in place of a value. */
#include "core/callback.h"
#include "eager/eager_int.h"
#include "eager/history.h"

/* A value that went through saved-tensor hooks: what pack returned, and what
 * restores the history. */
struct td_pack {
    td_saved_hooks hooks;
    void          *value; /* what pack returned; owned */
    td_edge        edge;  /* of an argument; one reference */
    bool           loose; /* an argument that requires grad without a grad_fn: a view,
                             made under no_grad, of a tensor that requires grad */
};

/* ---- packing ------------------------------------------------------------ */

/* The innermost pushed hooks; NULL: none, or a region that disables them. */
static const td_saved_hooks *packer(const td_ctx *cx) {
    if (cx->packers.n == 0) return NULL;
    const td_saved_hooks *h = &cx->packers.v[cx->packers.n - 1];
    return h->pack ? h : NULL;
}

bool td_saved_hooks_push(td_ctx *cx, const td_saved_hooks *hooks) {
    if (!TD_ENTER_CTX(cx)) return false;
    if (cx->fake && hooks && hooks->pack)
        return td__fail(
            cx, TD_E_TRACE,
            "td_saved_hooks_push: a captured body cannot use saved-tensor hooks; push "
            "them around the call of the compiled function");
    return td__saved_hooks_push(cx, hooks);
}

bool td__saved_hooks_push(td_ctx *cx, const td_saved_hooks *hooks) {
    td_saved_hooks none = {0};
    return td__vec_push(&cx->packers, hooks ? *hooks : none) || td__fail_memory(cx);
}

void td_saved_hooks_pop(td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return;
    if (cx->packers.n > 0) cx->packers.n--;
    else
        td__fail(cx, TD_E_ARG,
                 "td_saved_hooks_pop: no hooks are pushed; call it once for each "
                 "td_saved_hooks_push");
}

/* Calls the user's pack on an alias of t, with the tape as the only mode and
 * these hooks disabled, so that ops in pack do not recurse. NULL after
 * td__fail. */
static void *run_pack(td_ctx *cx, const td_saved_hooks *h, td_tensor *t) {
    if (!td__scope_push(cx)) return NULL;
    td_saved_hooks hooks = *h; /* a copy: the stack may be reallocated */
    td_tensor     *plain = td__tensor_alias(cx, t);
    void          *value = NULL;
    td_mode       *top = td__modes_from(cx, cx->tape);
    if (plain && td_saved_hooks_push(cx, NULL)) {
        TD_CALLBACK(cx, value = hooks.pack(hooks.env, plain));
        td_saved_hooks_pop(cx);
        if (!value)
            td__fail(
                cx, TD_E_GRAD,
                "saved-tensor hooks: pack returned NULL; return what unpack needs, "
                "or record an error with td_fail");
    }
    td__modes_from(cx, top);
    td__scope_pop(cx, NULL, 0);
    return value;
}

/* Saves t through hooks h. The grad_fn of a view that was made under no_grad is not
 * read: if its base was written since, that fails, which is the error of ops with a
 * gradient for the view alone. */
static bool pack(td_saved *s, td_tensor *t, bool output, const td_saved_hooks *h) {
    td_ctx  *cx = t->cx;
    td_pack *p = td__alloc(sizeof *p);
    if (!p) return td__fail_memory(cx);
    *p = (td_pack){.hooks = *h};
    bool needs = !output && td__needs_grad(t);
    bool plain = td__has_node(t) || !t->base || t->creation == TD_MADE_PLAIN;
    if (needs && plain && !td__edge_of(t, &p->edge)) {
        td__free(p);
        return false;
    }
    p->loose = needs && !p->edge.node;
    p->value = run_pack(cx, h, t);
    s->pack = p;
    if (p->value) return true;
    td__saved_free(s);
    return false;
}

static void free_pack(td_pack *p) {
    if (p->value && p->hooks.drop) p->hooks.drop(p->hooks.env, p->value);
    if (p->edge.node) td__node_drop(p->edge.node);
    td__free(p);
}

td_tensor *td__loose_alias(td_tensor *t) {
    td_tensor *a = td__tensor_alias(t->cx, t);
    if (!a) return NULL;
    td__ref(a);
    td_drop(a);
    return a;
}

/* Does the op that is captured or replayed belong to a checkpoint region? */
static bool is_in_region(const td_ctx *cx) {
    return cx->wish || TD_TAG_REGION(TD_TAG_WISH(cx->tags)) > 0;
}

/* The argument t, saved in a checkpoint region that is captured: an alias with its
 * grad_fn. Eager, which recomputes the region, saves aliases, too; detach_ and set_ of
 * the argument do not change these. */
static td_tensor *save_in_region(td_tensor *t) {
    td_tensor *a = td__loose_alias(t);
    if (!a || td__set_history(a, t->ag->fn, (int)t->ag->nr)) return a;
    td__unref(a);
    return NULL;
}

/* Saves t for backward at its present version. An output is saved as an alias without
 * history, because the node itself is its history: a reference would be a cycle. */
bool td__save(td_saved *s, td_tensor *t, bool output, int nr) {
    td_ctx *cx = t->cx;
    if (t->flags & TD_TF_INFERENCE)
        return td__fail(cx, TD_E_GRAD,
                        "an inference tensor (%s) cannot be saved for backward; use "
                        "td_clone of it, "
                        "or compute it under no_grad instead of in inference mode",
                        td__type_str(t));
    bool history = output && td__is_differentiable((td_dtype)t->dtype);
    s->version = td__version(t);
    s->st = t->st;
    s->nr = nr;
    s->flags = output ? TD_SV_OUTPUT | TD_SV_LEAF : td__has_node(t) ? 0 : TD_SV_LEAF;
    const td_saved_hooks *h = packer(cx);
    if (TD_UNLIKELY(h != NULL)) return pack(s, t, output, h);
    if (history) s->flags |= TD_SV_ALIAS;
    bool apart = is_in_region(cx) && !output && td__has_node(t) && !t->base;
    s->t = history ? td__loose_alias(t) : apart ? save_in_region(t) : td__ref(t);
    return s->t != NULL;
}

void td__saved_free(td_saved *s) {
    td_tensor *t = s->t;
    td_pack   *p = s->pack;
    s->t = NULL;
    s->pack = NULL;
    s->flags |= TD_SV_FREED;
    if (t) td__unref(t);
    if (p) free_pack(p);
}

/* ---- unpacking ---------------------------------------------------------- */

/* How an error calls the value: "argument a", or "its result". */
static void saved_name(const td_node *n, const td_saved *s, td_buf *name) {
    if (s->arg < 0) td__buf_add(name, "its result");
    else if (!n->info) td__buf_add(name, "a saved value");
    else td__buf_printf(name, "argument %s", n->info->s.in[s->arg].name);
}

/* The error of a saved value that was written since. Captured branches, loops and
 * regions save operands where eager may save a view of one, which stays in its storage
 * when set_ moves the operand. */
static bool fail_version(td_node *n, const td_saved *s) {
    td_tensor  *t = s->t;
    bool        moved = t->st != s->st || (!t->st->writer && t->moves > 0);
    bool        nests = n->def && n->def->flags & TD_OPF_NESTS && moved;
    const char *writer = moved ? "set_" : t->st->writer ? t->st->writer : "a write";
    td_buf      name = {0}, made = {0}, remedy = {0};
    n->cx->stale = td_ok(n->cx);
    saved_name(n, s, &name);
    if (s->arg >= 0 && t->ag && t->ag->fn)
        td__buf_printf(&made, ", result %d of %s,", (int)t->ag->nr, t->ag->fn->name);
    if (s->arg < 0) td__buf_add(&remedy, "write to a clone of the result");
    else
        td__buf_printf(&remedy, "write to a clone, or write before %s reads it",
                       n->name);
    td__fail(n->cx, nests ? TD_E_UNSUPPORTED : TD_E_GRAD,
             "%s: its backward needs %s (%s%s saved at version %llu), but it has been "
             "modified in place by %s (version %llu); %s",
             n->name, td__buf_str(&name), td__type_str(t), td__buf_str(&made),
             (unsigned long long)s->version, writer, (unsigned long long)td__version(t),
             td__buf_str(&remedy));
    td__buf_free(&name);
    td__buf_free(&made);
    td__buf_free(&remedy);
    return false;
}

bool td__saved_is_detached(const td_saved *s) {
    return !(s->flags & (TD_SV_LEAF | TD_SV_PLAIN)) && !td__has_node(s->t);
}

/* detach_ took the grad_fn of a saved argument, to which gradients of the gradient
 * would go. PyTorch refuses all of backward, and so does this. */
static bool fail_detached(td_node *n, const td_saved *s) {
    td_buf name = {0};
    saved_name(n, s, &name);
    n->cx->stale = td_ok(n->cx);
    td__fail(n->cx, TD_E_GRAD,
             "%s: its backward needs %s (%s), but that was detached in place by "
             "detach_ since; use td_detach, which returns another tensor",
             n->name, td__buf_str(&name), td__type_str(s->t));
    td__buf_free(&name);
    return false;
}

/* An alias of a saved result with its node as grad_fn. The result of a write
 * into a view is a view of the copy_slices node's result, also where the data is what
 * hooks unpacked, which may have another layout. */
static td_tensor *reattach(td_node *n, td_tensor *data, int nr, bool unpacked) {
    if (n->owner) return td__slices_view(n->owner, data, unpacked);
    td_tensor *a = td__tensor_alias(n->cx, data);
    return a && td__set_history(a, n, nr) ? a : NULL;
}

/* An alias of t whose gradient goes to edge e: its grad_fn, or the accumulator of a
 * leaf, which it borrows. */
td_tensor *td__alias_at(td_tensor *t, td_edge e) {
    td_tensor *a = td__tensor_alias(t->cx, t);
    if (!a) return NULL;
    if (e.node->kind != &td__accumulate_kind)
        return td__set_history(a, e.node, e.nr) ? a : NULL;
    if (!td__state(a)) return NULL;
    a->ag->wants = true;
    a->ag->accum = td__node_ref(e.node);
    a->ag->borrows = true;
    a->flags |= TD_TF_NEEDS_GRAD;
    return a;
}

/* Calls the user's unpack and restores the history; NULL after td__fail. */
static td_tensor *unpack_hooks(td_node *n, const td_saved *s) {
    td_ctx    *cx = n->cx;
    td_pack   *p = s->pack;
    td_tensor *t;
    TD_CALLBACK(cx, t = p->hooks.unpack(p->hooks.env, p->value, cx));
    if (!t || td_is_nil(t)) {
        td__fail(
            cx, TD_E_GRAD,
            "%s: saved-tensor hooks: unpack returned NULL or nil; return the tensor",
            n->name);
        return NULL;
    }
    if (!td__recording(cx)) return t;
    if (s->flags & TD_SV_OUTPUT)
        return td__is_differentiable((td_dtype)t->dtype) ? reattach(n, t, s->nr, true)
                                                         : t;
    if (p->edge.node) return td__alias_at(t, p->edge);
    if (!p->loose) return t;
    t = td__tensor_alias(cx, t);
    return t && !td_is_nil(td_set_requires_grad(t, true)) ? t : NULL;
}

bool td__fail_second(const td_node *n) {
    n->cx->gone = td_ok(n->cx);
    return td__fail(
        n->cx, TD_E_GRAD,
        "%s: trying to backward through the graph a second time, but its saved values "
        "were freed by the first; set .retain_graph in the first call (options of "
        "td_backward_with and td_grad)",
        n->name);
}

bool td__saved_is_absent(const td_saved *s) {
    return s->flags & TD_SV_SPARE &&
           (!s->t || !td__recording(s->t->cx) || td__saved_is_detached(s) ||
            s->version != td__version(s->t) || s->st != s->t->st);
}

td_tensor *td__unpack(td_node *n, const td_saved *s) {
    if (s->flags & TD_SV_FREED) return td__fail_second(n), NULL;
    if (s->pack) return unpack_hooks(n, s);
    if (TD_UNLIKELY(td__saved_is_detached(s))) return fail_detached(n, s), NULL;
    if (TD_UNLIKELY(s->version != td__version(s->t) || s->st != s->t->st) &&
        !(s->flags & TD_SV_PLAIN)) {
        fail_version(n, s);
        return NULL;
    }
    if (TD_UNLIKELY(td__eager(n->cx)->traced != NULL)) {
        td_tensor *copy = td__history_copy(n->cx, s->t);
        if (copy != s->t) return copy; /* else a trace inside saved it */
    }
    if (!(s->flags & TD_SV_ALIAS) || !td__recording(n->cx)) return s->t;
    return reattach(n, s->t, s->nr, false);
}
