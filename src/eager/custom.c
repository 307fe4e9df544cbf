/* custom.c -- custom functions (td_function): a forward and a backward in C,
 * like PyTorch's autograd.Function. Forward runs without recording; its results
 * get one node whose derivative is the user's backward. What happens to a
 * result that is an input, a view, written or not differentiable follows
 * PyTorch case by case. */
#include "core/callback.h"
#include "eager/eager_int.h"
#include "eager/history.h"

#include <stdio.h>

/* One call. If it is recorded, its node owns it; otherwise it is freed after
 * the call. */
struct td_fcall {
    TD_HANDLE_FIELDS;
    td_function       fn;
    void             *payload;
    td_node          *node;        /* its owner, weak; NULL: not recorded */
    bool              materialize; /* backward gets zeros for missing gradients */
    int               n_in;
    const bool       *need;      /* in backward: gradients to compute; borrowed */
    td_tensor *const *in;        /* in forward: the inputs; borrowed */
    TD_VEC(td_tensor *) to_save; /* td_fcall_save; referenced until forward is over */
    TD_VEC(td_tensor *) dirty;   /* inputs it wrote; borrowed during forward */
    TD_VEC(td_tensor *) plain;   /* results without gradient; borrowed */
    TD_VEC(td_tensor *) stash;   /* td_fcall_stash; referenced */
    /* In a trace: what backward reads in place of each stashed tensor, late; NULL: that
     * itself. And the calls that stashed something, last first. */
    td_tensor **now;
    uint64_t    id; /* as those of hooks (td_ctx.last_hook); 0: not in the list */
    td_fcall   *newer, *older;
    td_saved   *saved;   /* memory of node->saved */
    bool        dry;     /* a capture calls forward and backward separately */
    td_tensors  kept;    /* dry: what backward reads: saved, then stashed */
    int         n_saved; /* dry: how many of these are saved */
};

static void drop_list(td_tensor **v, int n) {
    for (int i = 0; i < n; i++) td__unref(v[i]);
}

static void leave_list(td_fcall *f) {
    if (!f->id) return;
    if (f->newer) f->newer->older = f->older;
    else td__eager(f->cx)->stashers = f->older;
    if (f->older) f->older->newer = f->newer;
}

/* Frees the call and destroys the payload. */
static void free_call(td_fcall *f) {
    leave_list(f);
    for (int i = 0; f->now && i < f->stash.n; i++)
        if (f->now[i]) td__unref(f->now[i]);
    td__free(f->now);
    drop_list(f->to_save.v, f->to_save.n);
    drop_list(f->stash.v, f->stash.n);
    td__vec_free(&f->to_save);
    td__vec_free(&f->stash);
    td__vec_free(&f->dirty);
    td__vec_free(&f->plain);
    if (f->fn.destroy) f->fn.destroy(f->payload);
    td__free(f->saved);
    td__handle_free(f, TD_H_FCALL);
}

/* ---- functions for use in forward and backward -------------------------- */

td_ctx *td_fcall_ctx(const td_fcall *f) {
    if (!TD_ENTER(f, FCALL)) return td__current_ctx();
    return f->cx;
}
void *td_fcall_payload(const td_fcall *f) {
    if (!TD_ENTER(f, FCALL)) return NULL;
    return f->payload;
}
void td_fcall_materialize(td_fcall *f, bool on) {
    if (!TD_ENTER(f, FCALL)) return;
    f->materialize = on;
}

bool td_fcall_needs(const td_fcall *f, int i) {
    if (!TD_ENTER(f, FCALL)) return false;
    if (i < 0 || i >= f->n_in) return false;
    if (f->need) return f->need[i];
    return f->node && f->in && f->in[i] && td__needs_grad(f->in[i]);
}

bool td_fcall_save(td_fcall *f, td_tensors saved) {
    if (!TD_ENTER(f, FCALL)) return false;
    if (!td__has_list(f->cx, f->fn.name, saved.v, saved.n)) return false;
    if (f->to_save.n > 0)
        return td__fail(f->cx, TD_E_ARG,
                        "%s: td_fcall_save was called before; pass all tensors in one "
                        "call",
                        f->fn.name);
    for (int i = 0; i < saved.n; i++) {
        if (!saved.v[i] || td_is_nil(saved.v[i]))
            return td__fail(f->cx, TD_E_ARG,
                            "%s: td_fcall_save: entry %d is NULL or nil", f->fn.name,
                            i);
        if (!td__vec_push(&f->to_save, saved.v[i])) return td__fail_memory(f->cx);
        td__ref(saved.v[i]);
    }
    return true;
}

td_tensor *td_fcall_saved(td_fcall *f, int i) {
    if (!TD_ENTER(f, FCALL)) return TD_NIL_BY(f, TENSOR);
    td_node *n = f->node;
    if (f->dry && i >= 0 && i < f->n_saved) return f->kept.v[i];
    if (!n || i < 0 || i >= n->n_saved)
        return td_fail(f->cx, TD_E_ARG,
                       "%s: td_fcall_saved: there is no saved value %d; forward saved "
                       "%d",
                       f->fn.name, i,
                       f->dry ? f->n_saved
                       : n    ? n->n_saved
                              : 0);
    td_tensor *t = td__unpack(n, &n->saved[i]);
    return t ? t : td_nil(f->cx);
}

/* In a trace of the joint graph, backward reads the tensor itself, as it is then. */
static void join_list(td_fcall *f) {
    td_eager *e = td__eager(f->cx);
    if (!f->cx->fake || f->dry || f->id) return;
    f->id = ++f->cx->last_hook;
    f->older = e->stashers;
    if (f->older) f->older->newer = f;
    e->stashers = f;
}

static bool replace_stash(td_fcall *f, td_stand_in *by, void *env) {
    for (int i = 0; i < f->stash.n; i++) {
        td_tensor *to = by(env, f->stash.v[i]);
        if (!td_ok(f->cx)) return false;
        if (!to) continue;
        size_t bytes = sizeof *f->now * (size_t)f->stash.n;
        if (!f->now && !(f->now = td__zalloc(bytes))) return td__fail_memory(f->cx);
        f->now[i] = td__ref(to);
    }
    return true;
}

bool td__stashes_replace(td_ctx *cx, uint64_t after, td_stand_in *by, void *env) {
    bool ok = true;
    for (td_fcall *f = td__eager(cx)->stashers; ok && f && f->id > after; f = f->older)
        if (!f->now) ok = replace_stash(f, by, env);
    return ok;
}

const td_tensor *td__stashes_written(const td_ctx *cx, uint64_t after) {
    for (const td_fcall *f = td__eager(cx)->stashers; f && f->id > after; f = f->older)
        for (int i = 0; f->now && i < f->stash.n; i++)
            if (f->now[i] && f->now[i] != f->stash.v[i] && td__version(f->now[i]) > 0)
                return f->stash.v[i];
    return NULL;
}

bool td_fcall_stash(td_fcall *f, td_tensors kept) {
    if (!TD_ENTER(f, FCALL)) return false;
    if (!td__has_list(f->cx, f->fn.name, kept.v, kept.n)) return false;
    if (kept.n) join_list(f);
    for (int i = 0; i < kept.n; i++) {
        if (!td__enter_in(f->cx, kept.v[i], TD_H_TENSOR, __func__)) return false;
        if (!td__vec_push(&f->stash, kept.v[i])) return td__fail_memory(f->cx);
        td__ref(kept.v[i]);
    }
    return true;
}

td_tensor *td_fcall_stashed(td_fcall *f, int i) {
    if (!TD_ENTER(f, FCALL)) return TD_NIL_BY(f, TENSOR);
    if (f->dry && i >= 0 && i < f->kept.n - f->n_saved)
        return f->kept.v[f->n_saved + i];
    if (f->now && i >= 0 && i < f->stash.n && f->now[i]) return td_op__late(f->now[i]);
    if (i >= 0 && i < f->stash.n) return td__history_copy(f->cx, f->stash.v[i]);
    return td_fail(f->cx, TD_E_ARG,
                   "%s: td_fcall_stashed: there is no stashed value %d", f->fn.name, i);
}

bool td_fcall_mark_dirty(td_fcall *f, td_tensors written) {
    if (!TD_ENTER(f, FCALL)) return false;
    if (!td__has_list(f->cx, f->fn.name, written.v, written.n)) return false;
    for (int i = 0; i < written.n; i++)
        if (!td__vec_push(&f->dirty, written.v[i])) return td__fail_memory(f->cx);
    return true;
}

bool td_fcall_mark_non_differentiable(td_fcall *f, td_tensors results) {
    if (!TD_ENTER(f, FCALL)) return false;
    if (!td__has_list(f->cx, f->fn.name, results.v, results.n)) return false;
    for (int i = 0; i < results.n; i++)
        if (!td__vec_push(&f->plain, results.v[i])) return td__fail_memory(f->cx);
    return true;
}

/* ---- backward ----------------------------------------------------------- */

/* In a capture: says in an error about what a captured body cannot do, such as td_data,
 * what it means for a custom function. `before` is the error before the call of
 * `part`. */
static void explain_capture(const td_fcall *f, td_code before, const char *part) {
    char why[300];
    if (!f->cx->fake || before != TD_OK || td__error(f->cx) != TD_E_TRACE) return;
    snprintf(why, sizeof why,
             "%.60s: a compiled function contains the ops that %s calls, and does not "
             "call its C code again; compute with ops alone there, or call %.60s "
             "outside of the compiled function",
             f->fn.name, part, f->fn.name);
    td__fail_prefix(f->cx, why);
}

/* Calls the user's backward; no gradient that it gives may be nil. */
static bool call_backward(td_fcall *f, td_tensor *const *g, int n_out,
                          td_tensor **grads, int n) {
    td_code before = td__error(f->cx);
    bool    ok;
    TD_CALLBACK(f->cx, ok = f->fn.backward(f, g, n_out, grads, n));
    explain_capture(f, before, "backward");
    for (int i = 0; i < n && ok; i++)
        if (grads[i]) ok = !td_is_nil(grads[i]);
    return ok || td__fail(f->cx, TD_E_GRAD,
                          "%s: backward returned false or a nil gradient", f->fn.name);
}

/* Calls the user's backward, with zeros for missing gradients if materialize is on. */
static bool run_backward(td_node *n, td_tensor **g, const bool *need,
                         td_tensor **grads) {
    td_fcall *f = n->data;
    for (int i = 0; i < n->n_out && f->materialize; i++) {
        if (g[i]) continue;
        const td_geom *t = &n->out_type[i];
        g[i] = td__zeros_on(n->cx, t->device, td__geom_sizes(t), (td_dtype)t->dtype);
        if (td_is_nil(g[i])) return false;
    }
    const bool *was = f->need;
    f->need = need;
    bool ok = call_backward(f, g, n->n_out, grads, n->n_edge);
    f->need = was;
    return ok;
}

/* td_node_kind.apply: on a copy of g[], which belongs to the engine. */
static bool custom_apply(td_node *n, td_tensor *const *g, const bool *need,
                         td_tensor **grads) {
    td_tensor *few[8], **all = few;
    if (n->n_out > TD_COUNT(few) && !(all = td__alloc(sizeof *all * (size_t)n->n_out)))
        return td__fail_memory(n->cx);
    for (int i = 0; i < n->n_out; i++) all[i] = g[i];
    bool ok = run_backward(n, all, need, grads);
    if (all != few) td__free(all);
    return ok;
}

static void custom_destroy(td_node *n) {
    n->n_saved = 0; /* released before; the array is f->saved */
    free_call(n->data);
}

/* What a payload holds is known to the user's backward alone, and may be another in
 * each call. */
static const char *custom_describe(const td_node *n, td_history *h) {
    const td_fcall *f = n->data;
    if (f->payload || f->fn.destroy) return "a custom function has a payload";
    td__history_put(h, (int64_t)(uintptr_t)f->fn.backward);
    td__history_put(h, f->materialize);
    for (int i = 0; i < f->stash.n; i++) td__history_value(h, f->stash.v[i]);
    return NULL;
}

/* Backward gets zeros, or decides itself what missing gradients are. */
static bool is_hungry(const td_node *n) {
    (void)n;
    return true;
}

static const td_node_kind custom_kind = {.name = "function",
                                         .apply = custom_apply,
                                         .describe = custom_describe,
                                         .destroy = custom_destroy,
                                         .hungry = is_hungry};

/* ---- forward ------------------------------------------------------------ */

static int find(td_tensor *const *v, int n, const td_tensor *t) {
    for (int i = 0; i < n; i++)
        if (v[i] == t) return i;
    return -1;
}

/* The node of a recorded call; it owns f from here on. NULL after td__fail,
 * with f freed. */
static td_node *make_node(td_fcall *f, td_tensors in, int n_out) {
    td_node_plan p = {.n_edge = in.n, .n_out = n_out};
    int64_t     *ints;
    for (int i = 0; i < in.n; i++) p.n_ints += in.v[i] ? 2 * in.v[i]->rank : 0;
    td_node *n = td__node_make(f->cx, &custom_kind, &p, &ints, NULL);
    if (!n) {
        free_call(f);
        return NULL;
    }
    n->name = f->fn.name;
    n->data = f;
    f->node = n;
    for (int i = 0; i < in.n; i++) {
        td_tensor *t = in.v[i];
        n->in_type[i] = (td_geom){0};
        if (!t) continue;
        td__node_type(&n->in_type[i], t, true, &ints);
        if (td__needs_grad(t) && !td__edge_of(t, &n->edge[i])) {
            td__node_drop(n);
            return NULL;
        }
    }
    return n;
}

/* Result nr is input `in`, marked dirty: its history continues through this
 * node. */
static bool rebase_dirty(td_fcall *f, td_tensor *t, int nr, int in) {
    if (t->base && t->creation != TD_MADE_PLAIN)
        return td__fail(
            f->cx, TD_E_GRAD,
            "%s: the function writes a view that was made under no_grad, in "
            "inference mode, or with several others by one op; write to a "
            "clone",
            f->fn.name);
    if (f->cx->fake && td__may_share_places(t))
        return td__fail(
            f->cx, TD_E_UNSUPPORTED,
            "%s: unsupported: elements of the written tensor %s overlap in "
            "memory, and gradients pass through the write; use a clone of it",
            f->fn.name, td__type_str(t));
    const td_tensor *owner = t->base ? t->base : t;
    bool             inner = owner->ag && owner->ag->fn;
    if (td__needs_grad(t) && !inner)
        return td__fail(f->cx, TD_E_GRAD,
                        "%s: the function writes a leaf that requires grad in place; "
                        "write to a clone, or call the function under no_grad",
                        f->fn.name);
    return td__rebase(t, f->node, nr, in);
}

/* Gives result nr its grad_fn. A result that is an unmarked input is replaced
 * by an alias, so that the input keeps its own history. */
static bool place_result(td_fcall *f, td_tensor **out, int nr, bool differentiable) {
    int        in = find(f->in, f->n_in, *out);
    bool       dirty = find(f->dirty.v, f->dirty.n, *out) >= 0;
    td_tensor *t = *out;
    if (!differentiable) {
        /* An input that requires grad keeps its history, written or not. */
        if (in >= 0 && td__needs_grad(t)) t = td_op_detach(t);
        else if (in >= 0 && !dirty) t = td_op_alias(t);
        *out = t;
        return !td_is_nil(t);
    }
    if (dirty) return rebase_dirty(f, t, nr, in);
    if (in >= 0) *out = t = td_op_alias(t);
    return !td_is_nil(t) && td__set_history(t, f->node, nr);
}

/* Does a call reach the tape? The graphs of cond and while_loop run below it: the op
 * that contains them has the history, and what happens inside is no event. */
static bool reaches_tape(const td_ctx *cx) {
    const td_mode *m = cx->top;
    while (m && m != cx->tape) m = m->below;
    return m != NULL;
}

/* Reports the results to the listener (td_listener.given). */
static bool tell_given(td_fcall *f, td_tensor *const *out, int n_out) {
    const td_listener *l = f->cx->listener;
    bool               tell = l && reaches_tape(f->cx);
    for (int i = 0; i < n_out && tell; i++) {
        bool dirty = find(f->dirty.v, f->dirty.n, out[i]) >= 0;
        bool history = f->node && td__last_node(dirty && out[i]->base ? out[i]->base
                                                                      : out[i]) != NULL;
        if (!l->given(l->env, out[i], history, dirty)) return false;
    }
    return true;
}

/* Checks the dirty marks, gives all results their grad_fn, and marks views: they may
 * not be written later, because the write would bypass the custom backward. */
static bool place_results(td_fcall *f, td_tensor **out, int n_out) {
    int count = 0;
    for (int i = 0; i < f->dirty.n; i++) {
        if (find(f->in, f->n_in, f->dirty.v[i]) < 0)
            return td__fail(f->cx, TD_E_GRAD,
                            "%s: td_fcall_mark_dirty was given a tensor that is not an "
                            "input of the function",
                            f->fn.name);
        if (find(out, n_out, f->dirty.v[i]) < 0)
            return td__fail(f->cx, TD_E_GRAD,
                            "%s: an input marked dirty was not returned as a result; "
                            "return it",
                            f->fn.name);
    }
    for (int i = 0; i < n_out; i++) {
        td_tensor *t = out[i];
        bool       diff = f->node && td__is_differentiable((td_dtype)t->dtype) &&
                    find(f->plain.v, f->plain.n, t) < 0;
        bool kept = find(f->dirty.v, f->dirty.n, t) >= 0;
        if (!place_result(f, &out[i], i, diff)) return false;
        if (out[i]->base && !kept) out[i]->creation = TD_MADE_CUSTOM;
        count += diff;
    }
    for (int i = 0; i < n_out && count > 1; i++)
        if (out[i]->base) out[i]->creation = TD_MADE_MULTI_OUTPUT;
    return tell_given(f, out, n_out);
}

/* Saves the values for backward, after the results have their grad_fn. before[]
 * are the results as forward returned them. */
static bool save_values(td_fcall *f, td_tensor *const *before, int n_out) {
    td_node *n = f->node;
    if (f->to_save.n == 0) return true;
    f->saved = td__zalloc(sizeof *f->saved * (size_t)f->to_save.n);
    if (!f->saved) return td__fail_memory(f->cx);
    n->saved = f->saved;
    for (int i = 0; i < f->to_save.n; i++) {
        td_tensor *t = f->to_save.v[i];
        int        nr = find(f->in, f->n_in, t) < 0 ? find(before, n_out, t) : -1;
        td_saved  *s = &n->saved[n->n_saved++];
        s->arg = (int16_t)(nr >= 0 ? -1 - nr : 0);
        bool dirty = find(f->dirty.v, f->dirty.n, t) >= 0;
        if (dirty) nr = find(before, n_out, t);            /* saved as a result */
        if (find(f->plain.v, f->plain.n, t) >= 0) nr = -1; /* has no history */
        if (!td__save(s, t, nr >= 0, nr >= 0 ? nr : 0)) return false;
    }
    drop_list(f->to_save.v, f->to_save.n);
    f->to_save.n = 0;
    return true;
}

static bool check_results(td_fcall *f, td_tensor **out, int n_out) {
    for (int i = 0; i < n_out; i++)
        if (!out[i] || td_is_nil(out[i]) || out[i]->cx != f->cx)
            return td__fail(f->cx, TD_E_ARG,
                            "%s: forward left result %d unset, or set it to nil or a "
                            "tensor of another context",
                            f->fn.name, i);
    return true;
}

/* Calls the user's forward, which must set every result. */
static bool call_forward(td_fcall *f, td_tensor *const *in, td_tensor **out,
                         int n_out) {
    td_code before = td__error(f->cx);
    bool    ok;
    TD_CALLBACK(f->cx, ok = f->fn.forward(f, in, f->n_in, out, n_out));
    explain_capture(f, before, "forward");
    ok = ok || td__fail(f->cx, TD_E_ARG, "%s: forward returned false", f->fn.name);
    return ok && check_results(f, out, n_out);
}

/* Calls the user's forward under no_grad, then places the results and saves values. */
static bool run_forward(td_fcall *f, td_tensor **out, int n_out) {
    td_ctx    *cx = f->cx;
    td_tensor *few[8], **before = few;
    if (n_out > TD_COUNT(few) && !(before = td__alloc(sizeof *before * (size_t)n_out)))
        return td__fail_memory(cx);
    td_grad_mode was = td_no_grad_begin(cx);
    bool         ok = call_forward(f, f->in, out, n_out);
    for (int i = 0; i < n_out && ok; i++) before[i] = out[i];
    ok = ok && place_results(f, out, n_out);
    td_no_grad_end(cx, was);
    if (ok && f->node) {
        int ints = 0;
        ok = td__node_outputs(f->node, out, n_out, NULL, ints) &&
             save_values(f, before, n_out);
    }
    if (before != few) td__free(before);
    return ok;
}

/* Takes over the payload, also on failure (NULL). */
static td_fcall *make_call(td_ctx *cx, const td_function *fn, void *payload,
                           td_tensors in) {
    td_fcall *f = td__handle_make(cx, TD_H_FCALL, sizeof *f);
    if (!f) {
        if (fn->destroy) fn->destroy(payload);
        return NULL;
    }
    f->fn = *fn;
    f->payload = payload;
    f->materialize = true;
    f->n_in = in.n;
    f->in = in.v;
    if (!f->fn.name) f->fn.name = "function";
    return f;
}

/* The mode that records custom functions as such: a capture's recorder; NULL:
 * none. */
static td_mode *function_recorder(const td_ctx *cx) {
    td_mode *m = cx->top;
    while (m && m != cx->tape && !(m->function && m->composites)) m = m->below;
    return m == cx->tape ? NULL : m;
}

/* Are the arguments valid? If not, the payload is still the caller's. */
static bool check_function(td_ctx *cx, const td_function *fn, td_tensors in,
                           td_tensor **out, int n_out) {
    static const char who[] = "td_function_call";
    return td__has(cx, who, "the function", fn) &&
           td__has(cx, who, "its forward", fn->forward) &&
           td__has(cx, who, "its backward", fn->backward) &&
           td__has_list(cx, who, in.v, in.n) && td__has_room(cx, who, out, n_out);
}

bool td_function_call(td_ctx *cx, const td_function *fn, void *payload, td_tensors in,
                      td_tensor **out, int n_out) {
    if (!TD_ENTER_CTX(cx) || !check_function(cx, fn, in, out, n_out)) {
        td__nil_tensors(cx, out, n_out);
        if (fn && fn->destroy) fn->destroy(payload);
        return false;
    }
    bool ok = true, needs = false;
    for (int i = 0; i < n_out; i++) out[i] = NULL;
    for (int i = 0; i < in.n; i++) {
        if (!in.v[i]) continue;
        if (!td__enter_in(cx, in.v[i], TD_H_TENSOR, __func__)) {
            ok = false;
            continue;
        }
        if (in.v[i]->cx != cx)
            ok = td__fail(cx, TD_E_ARG, "%s: input %d belongs to another context",
                          fn->name, i);
        needs |= td__needs_grad(in.v[i]);
    }
    needs = needs && td__recording(cx) && reaches_tape(cx);
    td_mode *m = needs ? function_recorder(cx) : NULL;
    if (ok && m) {
        td_fncall call = {cx, fn, payload, in, out, n_out};
        ok = m->function(m, &call);
        for (int i = 0; i < n_out && !ok; i++) out[i] = &cx->nil;
        return ok;
    }
    if (cx->fake && td__recording(cx)) cx->inlined++;
    td_fcall *f = make_call(cx, fn, payload, in);
    td_node  *n = NULL;
    ok = ok && f && td__scope_push(cx);
    if (ok) {
        if (needs && !(n = make_node(f, in, n_out))) {
            ok = false;
            f = NULL;
        }
        ok = ok && run_forward(f, out, n_out);
        td__scope_pop(cx, out, ok ? n_out : 0);
    }
    if (f) {
        f->in = NULL;
        if (n) td__node_drop(n);
        else free_call(f);
    }
    for (int i = 0; i < n_out && !ok; i++) out[i] = &cx->nil;
    return ok;
}

/* ---- forward and backward separately, for captures ---------------------- */

td_fcall *td__fcall_open(const td_fncall *call, const bool *need) {
    td_fcall *f = make_call(call->cx, call->fn, call->payload, call->in);
    if (!f) return NULL;
    f->dry = true;
    f->need = need;
    return f;
}

void td__fcall_close(td_fcall *f) { free_call(f); }

bool td__fcall_forward(td_fcall *f, td_tensor *const *in, td_tensor **out, int n_out) {
    f->in = in;
    return call_forward(f, in, out, n_out);
}

bool td__fcall_backward(td_fcall *f, const td_fkept *kept, td_tensor *const *g,
                        int n_out, td_tensor **grad) {
    f->in = NULL;
    f->kept = kept->all;
    f->n_saved = kept->n_saved;
    return call_backward(f, g, n_out, grad, f->n_in);
}

void td__fcall_said(const td_fcall *f, td_fsaid *s) {
    *s = (td_fsaid){.saved = {f->to_save.v, f->to_save.n},
                    .stash = {f->stash.v, f->stash.n},
                    .dirty = {f->dirty.v, f->dirty.n},
                    .plain = {f->plain.v, f->plain.n},
                    .name = f->fn.name,
                    .materialize = f->materialize};
}

td_tensor *td__fcall_zeros(const td_fcall *f, int i) {
    const td_geom *t = &f->node->out_type[i];
    return td__zeros_on(f->cx, t->device, td__geom_sizes(t), (td_dtype)t->dtype);
}
