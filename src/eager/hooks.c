/* hooks.c -- callbacks on gradients, leaves and nodes. A hook on a leaf belongs
 * to the tensor; a hook on another tensor belongs to its grad_fn, so after a
 * write it stays with the older value. td_retain_grad is a hook that moves
 * along with the tensor.
 *
 * Hooks may register and remove hooks. A list runs the hooks it had when it
 * started, as in PyTorch, which copies it. While any hook runs, removed ones
 * stay in their lists and are freed afterwards. The hooks on one result of a
 * node form one list in this sense, and so do those of a node and of a leaf. */
#include "core/callback.h"
#include "eager/eager_int.h"

#include <string.h>

/* ---- registration ------------------------------------------------------- */

/* May the user's call `who` register a hook of a node or a leaf? Not in a captured
 * body: a program has values and no nodes. */
static bool may_register(td_ctx *cx, const char *who) {
    return !cx->fake ||
           td__fail(cx, TD_E_TRACE,
                    "%s: a captured body can register hooks with td_on_grad only; use "
                    "that, or register this one outside of the body",
                    who);
}

/* Appends a hook to its owner's list; NULL after td__fail. */
static td_hookrec *add(td_ctx *cx, td_hookrec **owner, td_hook_kind kind) {
    td_eager   *e = td__eager(cx);
    td_hookrec *h = td__zalloc(sizeof *h);
    if (!h) return td__fail_memory(cx), NULL;
    h->id = ++e->cx->last_hook;
    h->kind = kind;
    h->owner = owner;
    h->after = e->hooks;
    if (e->hooks) e->hooks->before = h;
    e->hooks = h;
    while (*owner) owner = &(*owner)->next;
    *owner = h;
    return h;
}

static void unlink_and_free(td_eager *e, td_hookrec *h) {
    struct td_hook_graph *graph = h->graph;
    if (h->before) h->before->after = h->after;
    if (h->after) h->after->before = h->before;
    if (e->hooks == h) e->hooks = h->after;
    td__free(h);
    if (graph) td__hook_graph_free(graph);
}

static void take_out(td_eager *e, td_hookrec *h) {
    td_hookrec **at = h->owner;
    while (*at != h) at = &(*at)->next;
    *at = h->next;
    unlink_and_free(e, h);
}

/* Removes a hook, or marks it removed while hooks run. */
static void drop_hook(td_eager *e, td_hookrec *h) {
    if (e->hooks_running == 0) {
        take_out(e, h);
        return;
    }
    if (!h->gone) h->gone = ++e->cx->last_hook;
    e->hooks_removed = true;
}

/* The recorder of the body that is being captured; NULL: none records hooks. */
static td_mode *hook_recorder(const td_ctx *cx) {
    td_mode *m = cx->top;
    while (m && m != cx->tape && !(m->hook && m->composites)) m = m->below;
    return cx->fake && m != cx->tape ? m : NULL;
}

/* In the td_hook of a hook that a captured body registered: compiled calls have it, so
 * that only the body can remove it. */
static const td_hook CAPTURED = (td_hook)1 << 63;

/* May this hook be removed now? A captured body may remove those that it registered. */
static bool may_remove(td_ctx *cx, td_hook hook) {
    td_mode *m = hook_recorder(cx);
    td_hook  id = hook & ~CAPTURED;
    if (m && id > cx->hooks_before) return m->hook(m, &(td_hookcall){.id = id});
    if (hook == id || cx->fake)
        return td__may_change(cx, "td_hook_remove", "hooks of tensors from outside");
    return td__fail(cx, TD_E_UNSUPPORTED,
                    "td_hook_remove: unsupported: a captured body registered the hook, "
                    "and compiled calls have it. Remove it in the body");
}

void td_hook_remove(td_ctx *cx, td_hook hook) {
    if (!TD_ENTER_CTX(cx) || !may_remove(cx, hook)) return;
    td_eager *e = td__eager(cx);
    hook &= ~CAPTURED;
    for (td_hookrec *h = e->hooks; h && hook; h = h->after)
        if (h->id == hook && !h->gone) {
            drop_hook(e, h);
            return;
        }
}

void td__hooks_free(td_ctx *cx, td_hookrec **list) {
    td_hookrec *h = *list;
    *list = NULL;
    while (h) {
        td_hookrec *next = h->next;
        unlink_and_free(td__eager(cx), h);
        h = next;
    }
}

/* Begins to run a list. Returns the hook clock: hooks registered later do not
 * run. */
static td_hook enter(td_eager *e, td_callback *b) {
    e->hooks_running++;
    td__callback_begin(b, e->cx);
    return e->cx->last_hook;
}

/* Was h in the list, and not removed, when the list began to run? */
static bool runs(const td_hookrec *h, td_hook_kind kind, td_hook began) {
    return h->kind == kind && h->id <= began && (!h->gone || h->gone > began);
}

/* Ends a list; the outermost one frees hooks that were removed meanwhile. Freeing one
 * may free tensors, and with them other hooks, so the search begins anew. */
static void leave(td_eager *e, const td_callback *b) {
    td__callback_end(b);
    if (--e->hooks_running > 0 || !e->hooks_removed) return;
    e->hooks_removed = false;
    for (td_hookrec *h = e->hooks, *next; h; h = next) {
        bool freed = h->graph != NULL;
        next = h->after;
        if (!h->gone) continue;
        take_out(e, h);
        if (freed) next = e->hooks;
    }
}

bool td__grad_arrives(const td_tensor *t, const td_node *fn, const char *who) {
    if (!fn || TD_LIKELY(!(fn->flags & (TD_NF_MISSED | TD_NF_REPEATED)))) return true;
    if (fn->flags & TD_NF_REPEATED)
        return td__fail(t->cx, TD_E_UNSUPPORTED,
                        "%s: unsupported in a captured body: %s is a result of a "
                        "branch, loop or region (%s) whose gradient was computed with "
                        "create_graph before; that gradient repeats its ops, and no "
                        "gradient of it passes this result. Call the ops without "
                        "td_cond, td_while or td_call_region",
                        who, td__type_str(t), fn->name);
    return td__fail(t->cx, TD_E_UNSUPPORTED,
                    "%s: %s is a view that a compiled call returned or wrote, and "
                    "another result of the call was computed from it; the compiled "
                    "function passes no gradient of the one through the other. Compute "
                    "that result outside of the compiled function",
                    who, td__type_str(t));
}

/* The list for hooks on t's gradient, of its grad_fn or of the leaf, and which
 * result of the grad_fn t is. NULL after td__fail. */
static td_hookrec **list_of(td_tensor *t, const char *who, int *nr) {
    td_node *fn;
    if (!td__needs_grad(t)) {
        td__fail(t->cx, TD_E_GRAD,
                 "%s: %s does not require grad, so it gets no gradient", who,
                 td__type_str(t));
        return NULL;
    }
    if (!td__fn_of(t, &fn) || !td__grad_arrives(t, fn, who)) return NULL;
    *nr = fn ? t->ag->nr : 0;
    if (fn) return &fn->hooks;
    return td__state(t) ? &t->ag->hooks : NULL;
}

/* Tells the trace that the gradient of t is observed. */
static bool report(td_tensor *t) {
    const td_listener *l = t->cx->listener;
    return !l || !td__has_node(t) || l->hooked(l->env, t);
}

td_hookrec *td__hook_add(td_tensor *t, td_grad_hook *fn, void *env, const char *who) {
    int          nr;
    td_hookrec **list = list_of(t, who, &nr);
    td_hookrec  *h = list && report(t) ? add(t->cx, list, TD_HOOK_GRAD) : NULL;
    if (!h) return NULL;
    h->nr = nr;
    h->env = env;
    h->fn.grad = fn;
    return h;
}

/* Fails, because t belongs to the caller of the captured body, or is a leaf. */
static bool fail_outlives(const td_tensor *t) {
    return td__fail(t->cx, TD_E_TRACE,
                    "td_on_grad: %s is an argument of the captured body, a tensor from "
                    "outside, or a leaf, so the hook would outlive the call, and later "
                    "calls would not register it. Register it outside of the body, or "
                    "in the body on td_alias of the tensor",
                    td__type_str(t));
}

bool td__hook_stays_inside(td_tensor *t) {
    td_node *fn;
    if (!td__fn_of(t, &fn)) return false;
    return (fn && !(fn->flags & TD_NF_OUTSIDE)) || fail_outlives(t);
}

td_hook td_on_grad(td_tensor *t, td_grad_hook *fn, void *env) {
    static const char who[] = "td_on_grad";
    if (!TD_ENTER(t, TENSOR)) return 0;
    int      nr;
    td_ctx  *cx = t->cx;
    td_mode *m = hook_recorder(cx);
    if (!td__has(cx, who, "the hook", fn)) return 0;
    if (m) {
        bool ok = list_of(t, who, &nr) && (!td__from_outside(t) || fail_outlives(t)) &&
                  td__hook_stays_inside(t) && m->hook(m, &(td_hookcall){t, fn, env, 0});
        return ok ? cx->last_hook | CAPTURED : 0;
    }
    if (!may_register(cx, who)) return 0;
    const td_hookrec *h = td__hook_add(t, fn, env, who);
    return h ? h->id : 0;
}

td_hook td_on_accumulated(td_tensor *leaf, td_leaf_hook *fn, void *env) {
    if (!TD_ENTER(leaf, TENSOR)) return 0;
    int nr;
    if (!td__has(leaf->cx, "td_on_accumulated", "the hook", fn)) return 0;
    td_hookrec **list = list_of(leaf, "td_on_accumulated", &nr);
    if (list && (!leaf->ag || list != &leaf->ag->hooks)) {
        td__fail(leaf->cx, TD_E_GRAD,
                 "td_on_accumulated: %s is not a leaf; use td_on_grad",
                 td__type_str(leaf));
        return 0;
    }
    td_hookrec *h = list && may_register(leaf->cx, "td_on_accumulated")
                        ? add(leaf->cx, list, TD_HOOK_LEAF)
                        : NULL;
    if (!h) return 0;
    h->env = env;
    h->fn.leaf = fn;
    return h->id;
}

td_hook td_on_node_pre(td_node *n, td_pre_hook *fn, void *env) {
    if (!TD_ENTER(n, NODE)) return 0;
    if (!td__has(n->cx, "td_on_node_pre", "the hook", fn) ||
        !may_register(n->cx, "td_on_node_pre"))
        return 0;
    td_hookrec *h = add(n->cx, &n->hooks, TD_HOOK_PRE);
    if (!h) return 0;
    h->env = env;
    h->fn.pre = fn;
    return h->id;
}

td_hook td_on_node_post(td_node *n, td_post_hook *fn, void *env) {
    if (!TD_ENTER(n, NODE)) return 0;
    if (!td__has(n->cx, "td_on_node_post", "the hook", fn) ||
        !may_register(n->cx, "td_on_node_post"))
        return 0;
    td_hookrec *h = add(n->cx, &n->hooks, TD_HOOK_POST);
    if (!h) return 0;
    h->env = env;
    h->fn.post = fn;
    return h->id;
}

/* Would a hook run if a gradient arrived at t? A compiled function must then not skip
 * that gradient. Hooks of a stale view's old grad_fn no longer count, except
 * retain_grad, which moves. */
bool td__grad_hooked(const td_tensor *t, bool accumulated) {
    const td_autograd *a = t->ag;
    const td_hookrec  *h = !a ? NULL : a->fn ? a->fn->hooks : a->hooks;
    if (h && td__is_behind(t)) return a->retains; /* only it moves to the new grad_fn */
    for (; h; h = h->next) {
        bool sees = h->kind == TD_HOOK_GRAD || h->kind == TD_HOOK_RETAIN;
        if (!h->gone && ((sees && (!a->fn || h->nr == a->nr)) ||
                         (h->kind == TD_HOOK_LEAF && accumulated)))
            return true;
    }
    return false;
}

/* ---- retained gradients ------------------------------------------------- */

static td_hookrec *find_retain(td_node *n, const td_tensor *t) {
    for (td_hookrec *h = n->hooks; h; h = h->next)
        if (h->kind == TD_HOOK_RETAIN && h->t == t && !h->gone) return h;
    return NULL;
}

static bool add_retain(td_tensor *t, td_node *n, int nr) {
    td_hookrec *h = add(t->cx, &n->hooks, TD_HOOK_RETAIN);
    if (!h) return false;
    h->t = t;
    h->nr = nr;
    return true;
}

bool td__retain_move(td_tensor *t, td_node *from, td_node *to, int nr) {
    td_hookrec *h = find_retain(from, t);
    if (h) {
        h->t = NULL; /* t may be freed before the hook record */
        drop_hook(td__eager(t->cx), h);
    }
    return !to || add_retain(t, to, nr);
}

bool td_retain_grad(td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return false;
    td_node *fn;
    if (!td__needs_grad(t))
        return td__fail(t->cx, TD_E_GRAD, "td_retain_grad: %s does not require grad",
                        td__type_str(t));
    if (!td__fn_of(t, &fn) || !td__grad_arrives(t, fn, "td_retain_grad")) return false;
    if (!fn || t->ag->retains) return true; /* a leaf keeps its gradient anyway */
    if (!add_retain(t, fn, t->ag->nr)) return false;
    return t->ag->retains = true;
}

bool td__retains_grad(const td_tensor *t) { return t->ag && t->ag->retains; }

/* In a captured body, of an outside tensor: fails, because no key compares it
 * (td__may_read_tensor). */
bool td_retains_grad(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return false;
    if (TD_UNLIKELY(td__from_outside(t)) &&
        !td__may_read_tensor(t, "td_retains_grad", "whether its gradient is retained"))
        return false;
    return td__retains_grad(t);
}

/* Stores a copy, because nodes that run later may write g in place. */
static bool store_retained(td_tensor *t, td_tensor *g) {
    td_tensor *old = t->ag->grad;
    td_tensor *now =
        old ? td__op2(t->cx, TD_OP_add, old, td_value_tensor(g)) : td_op_clone(g, true);
    if (td_is_nil(now)) return false;
    t->ag->grad = td__ref(now);
    if (old) td__unref(old);
    return true;
}

/* ---- running ------------------------------------------------------------ */

bool td__hook_may_return(td_ctx *cx, const td_tensor *old, const td_tensor *by) {
    if (!by || by == old) return true;
    if (td_is_nil(by))
        return td__fail(cx, TD_E_GRAD,
                        "a gradient hook returned nil; return a tensor or NULL");
    if (TD_IS_KEPT(by)) return td__fail_kept(cx, "a gradient hook", by);
    if (!old)
        return td__fail(cx, TD_E_GRAD,
                        "a node hook set an entry that is NULL to %s; it may replace "
                        "and remove gradients, but not add one that is missing",
                        td__type_str(by));
    return (by->rank == old->rank && td__dims_eq(by->size, old->size, old->rank) &&
            by->dtype == old->dtype) ||
           td__fail(cx, TD_E_GRAD,
                    "a gradient hook returned %s for a gradient of %s; dtype and "
                    "sizes must stay",
                    td__type_str(by), td__type_str(old));
}

/* Replaces *g, which is referenced, by what a hook returned; NULL: unchanged. */
static bool replace(td_ctx *cx, td_tensor **g, td_tensor *by) {
    td_tensor *old = *g;
    if (!by || by == old) return true;
    if (!td__hook_may_return(cx, old, by)) return false;
    *g = td__ref(by);
    td__unref(old);
    return true;
}

/* Is h the first gradient hook on its result? */
static bool begins(const td_hookrec *list, const td_hookrec *h) {
    if (h->kind != TD_HOOK_GRAD) return false;
    while (list->kind != TD_HOOK_GRAD || list->nr != h->nr) list = list->next;
    return list == h;
}

/* Runs the gradient hooks on one result; h is the first of them. */
static bool run_grad(td_ctx *cx, td_hookrec *h, td_tensor **g) {
    td_hook began = cx->last_hook;
    int     nr = h->nr;
    bool    ok = true;
    for (; h && ok; h = h->next)
        if (h->nr == nr && runs(h, TD_HOOK_GRAD, began))
            ok = replace(cx, g, h->fn.grad(h->env, *g)) && td_ok(cx);
    return ok;
}

/* Tensor hooks of a node: each may replace its gradient. Gradients for retain_grad are
 * stored last, as the hooks left them. */
bool td__hooks_grad(td_ctx *cx, td_hookrec *list, td_tensor **g, int n) {
    bool        ok = true;
    td_callback b;
    enter(td__eager(cx), &b);
    for (td_hookrec *h = list; h && ok; h = h->next)
        if (h->nr < n && g[h->nr] && begins(list, h)) ok = run_grad(cx, h, &g[h->nr]);
    for (td_hookrec *h = list; h && ok; h = h->next)
        if (h->kind == TD_HOOK_RETAIN && !h->gone && h->nr < n && g[h->nr])
            ok = store_retained(h->t, g[h->nr]);
    leave(td__eager(cx), &b);
    return ok;
}

bool td__hooks_whole(const td_node *n, const td_hookrec *list, td_tensor *const *g) {
    for (const td_hookrec *h = list; h; h = h->next)
        if (!h->gone && (h->kind == TD_HOOK_GRAD || h->kind == TD_HOOK_RETAIN) &&
            !td__grad_whole(n, g, h->nr))
            return false;
    return true;
}

/* What the node hooks of a kind get: list[0..n), which they may change, and a post hook
 * the gradients of the node's results. The engine references the list of pre hooks; the
 * innermost scope owns that of post hooks. */
typedef struct node_lists {
    td_hook_kind      kind;
    td_tensor       **list;
    int               n;
    td_tensor *const *g;
    int               n_g;
} node_lists;

/* Runs one hook on a copy of the list, so that a failing hook changes nothing. */
static bool run_node(td_ctx *cx, td_hookrec *h, const node_lists *l, td_tensor **copy) {
    bool ok;
    if (l->n) memcpy(copy, l->list, sizeof *copy * (size_t)l->n);
    if (l->kind == TD_HOOK_PRE) ok = h->fn.pre(h->env, copy, l->n);
    else ok = h->fn.post(h->env, copy, l->n, l->g, l->n_g);
    if (!ok) return td__fail(cx, TD_E_GRAD, "a node hook failed");
    for (int i = 0; i < l->n && ok; i++)
        ok = td__hook_may_return(cx, l->list[i], copy[i]);
    return ok && td_ok(cx);
}

/* Each hook gets the entries that the one before it left. */
static bool run_nodes(td_ctx *cx, td_hookrec *hooks, const node_lists *l) {
    td_tensor *few[8], **copy = few;
    bool       owned = l->kind == TD_HOOK_PRE;
    if (l->n > TD_COUNT(few) && !(copy = td__alloc(sizeof *copy * (size_t)l->n)))
        return td__fail_memory(cx);
    bool        ok = true;
    td_callback b;
    td_hook     began = enter(td__eager(cx), &b);
    for (td_hookrec *h = hooks; h && ok; h = h->next) {
        if (!runs(h, l->kind, began)) continue;
        ok = run_node(cx, h, l, copy);
        for (int i = 0; i < l->n && ok; i++) {
            td_tensor *old = l->list[i];
            if (owned && copy[i]) td__ref(copy[i]);
            l->list[i] = copy[i];
            if (owned && old) td__unref(old);
        }
    }
    leave(td__eager(cx), &b);
    if (copy != few) td__free(copy);
    return ok && td_ok(cx);
}

bool td__hooks_pre(td_ctx *cx, td_hookrec *list, td_tensor **g, int n) {
    return run_nodes(cx, list, &(node_lists){TD_HOOK_PRE, g, n, NULL, 0});
}

bool td__hooks_post(td_ctx *cx, td_hookrec *list, td_tensor **made, int n_made,
                    td_tensor *const *g, int n) {
    return run_nodes(cx, list, &(node_lists){TD_HOOK_POST, made, n_made, g, n});
}

bool td__hooks_leaf(td_tensor *t) {
    bool        ok = true;
    td_callback b;
    td_hook     began = enter(td__eager(t->cx), &b);
    for (td_hookrec *h = t->ag->hooks; h && ok; h = h->next)
        if (runs(h, TD_HOOK_LEAF, began))
            ok = h->fn.leaf(h->env, t) ||
                 td__fail(t->cx, TD_E_GRAD, "a leaf hook failed");
    leave(td__eager(t->cx), &b);
    return ok && td_ok(t->cx);
}
