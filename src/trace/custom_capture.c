/* custom_capture.c -- custom functions (td_function) in a capture. The user's
 * forward and backward run once each, on fake tensors, and become two nested
 * graphs; the call is recorded as op `custom`, which replays them. The user's C
 * code is not called again. */
#include "trace/sym.h"
#include "trace/trace.h"

/* One custom function during its capture. */
typedef struct capturing {
    const td_fncall *call;
    td_ctx          *cx;
    td_fcall        *f;                  /* the call as the user's functions see it */
    td_arena         arena;              /* everything below; freed at the end */
    bool            *need;               /* by input: requires grad */
    td_lift          lift[2];            /* closed over by forward; by backward */
    td_graph        *forward, *backward; /* owned */
    int              n_saved;            /* values saved for backward */
    int              n_kept;             /* saved values, then stashed ones */
    int64_t         *dirty, *plain, *stash;     /* indices; see td_fsaid */
    int              n_dirty, n_plain, n_stash; /* their counts */
    bool             materialize; /* backward gets zeros for missing gradients */
    bool once; /* backward calls custom functions, so it has no second derivative */
    const char *error; /* backward fails with this message; "": it works */
    td_code     code;  /* ...and this code */
} capturing;

/* n zeroed bytes that live as long as k; NULL after td__fail. */
static void *scratch(capturing *k, size_t n) {
    void *p = td__arena_zalloc(&k->arena, n + 1);
    if (!p) td__fail_memory(k->cx);
    return p;
}

/* The index of t in v[0..n); -1: not in it. */
static int find(td_tensor *const *v, int n, const td_tensor *t) {
    for (int i = 0; i < n; i++)
        if (v[i] == t) return i;
    return -1;
}

/* ---- forward ------------------------------------------------------------ */

/* Stores the indices in `among` of the tensors of `list`; tensors not in it are
 * left out. */
static bool indices_of(capturing *k, td_tensors list, td_tensors among, int64_t **to,
                       int *n) {
    *to = scratch(k, sizeof **to * (size_t)list.n);
    if (!*to) return false;
    for (int i = 0; i < list.n; i++) {
        int at = find(among.v, among.n, list.v[i]);
        if (at >= 0) (*to)[(*n)++] = at;
    }
    return true;
}

/* Takes over what forward declared: values saved for backward, inputs marked dirty
 * (written), outputs marked non-differentiable (plain), stashed tensors. */
static bool take_declarations(capturing *k, td_tensor *const *in, td_tensor *const *out,
                              td_fsaid *s) {
    td__fcall_said(k->f, s);
    k->n_saved = s->saved.n;
    k->n_kept = s->saved.n + s->stash.n;
    k->materialize = s->materialize;
    td_tensors ins = {in, k->call->in.n}, outs = {out, k->call->n_out};
    if (!indices_of(k, s->dirty, ins, &k->dirty, &k->n_dirty) ||
        !indices_of(k, s->plain, outs, &k->plain, &k->n_plain))
        return false;
    if (k->n_dirty < s->dirty.n)
        return td__fail(
            k->cx, TD_E_GRAD,
            "%s: td_fcall_mark_dirty was given a tensor that is not an input of "
            "the function",
            s->name);
    k->stash = scratch(k, sizeof *k->stash * (size_t)s->stash.n);
    for (int i = 0; k->stash && i < s->stash.n; i++)
        k->stash[k->n_stash++] = k->n_saved + i;
    return k->stash != NULL;
}

/* Body of the forward graph. Returns the results, then what backward reads. */
static bool forward_body(td_call *c) {
    capturing  *k = td_call_env(c);
    int         n_in = k->call->in.n, n_out = k->call->n_out;
    td_tensor **in = scratch(k, sizeof *in * (size_t)n_in);
    td_tensor **out = scratch(k, sizeof *out * (size_t)n_out);
    td_fsaid    s;
    if (!in || !out) return false;
    for (int i = 0; i < n_in; i++) in[i] = td_arg(c, i);
    if (!td__fcall_forward(k->f, in, out, n_out) || !take_declarations(k, in, out, &s))
        return false;
    td_value *v = scratch(k, sizeof *v * (size_t)(n_out + k->n_kept));
    if (!v) return false;
    for (int i = 0; i < n_out; i++) v[i] = td_value_tensor(out[i]);
    for (int i = 0; i < s.saved.n; i++) v[n_out + i] = td_value_tensor(s.saved.v[i]);
    for (int i = 0; i < s.stash.n; i++)
        v[n_out + k->n_saved + i] = td_value_tensor(s.stash.v[i]);
    return td_return_values(c, (td_values){v, n_out + k->n_kept});
}

/* Captures forward (grad mode off) or backward (on, and outside of autocast, because
 * the region has ended when backward runs). NULL after td__fail. */
static td_graph *capture(capturing *k, td_body *body, td_values args, bool grad) {
    td_ctx *cx = k->cx;
    bool    was = cx->grad_enabled;
    cx->grad_enabled = grad;
    td_autocast_mode cast = {.depth = -1};
    if (grad) cast = td_autocast_off_begin(cx);
    td_graph *g = td__capture_nested(cx, body, k, args, &k->lift[grad]);
    td_autocast_end(cx, cast);
    cx->grad_enabled = was;
    if (g && g->left) {
        td__fail(cx, TD_E_TRACE,
                 "%s: the function changes the grad mode and does not restore it; end "
                 "the region it began",
                 k->call->fn->name ? k->call->fn->name : "function");
        td__graph_drop(g);
        return NULL;
    }
    return g;
}

/* Records the forward of a custom function as a nested graph. Values it saves for its
 * backward become additional outputs, marked <saved i>. */
static bool capture_forward(capturing *k) {
    int       n = k->call->in.n;
    td_value *args = scratch(k, sizeof *args * (size_t)n);
    if (!args) return false;
    for (int i = 0; i < n; i++) {
        td_tensor *t = k->call->in.v[i];
        args[i] = t ? td_value_tensor(t) : TD_NONE;
    }
    k->forward = capture(k, forward_body, (td_values){args, n}, false);
    if (!k->forward) return false;
    if (!(k->forward->name = td__graph_str(k->forward, "forward"))) return false;
    for (int i = 0; i < k->n_kept; i++)
        k->forward->out_desc.v[k->call->n_out + i] = (td_desc){TD_D_SAVED, i, NULL};
    return true;
}

/* ---- backward ----------------------------------------------------------- */

/* Does backward get a gradient for result j? Always with `materialize`;
 * otherwise for floating-point results that were not marked non-differentiable. */
static bool has_tangent(const capturing *k, int j) {
    if (k->materialize) return true;
    const td_garg *a = &k->forward->outputs.v[j];
    for (int i = 0; i < k->n_plain; i++)
        if (k->plain[i] == j) return false;
    return td__is_differentiable((td_dtype)a->u.v->type->dtype);
}

/* Body of the backward graph. Arguments: saved and stashed values, then
 * gradients. */
static bool backward_body(td_call *c) {
    capturing  *k = td_call_env(c);
    int         n_in = k->call->in.n, n_out = k->call->n_out, at = k->n_kept;
    td_tensor **kept = scratch(k, sizeof *kept * (size_t)k->n_kept);
    td_tensor **g = scratch(k, sizeof *g * (size_t)n_out);
    td_tensor **grad = scratch(k, sizeof *grad * (size_t)n_in);
    td_value   *v = scratch(k, sizeof *v * (size_t)n_in);
    if (!kept || !g || !grad || !v) return false;
    for (int i = 0; i < k->n_kept; i++) kept[i] = td_arg(c, i);
    for (int j = 0; j < n_out; j++)
        if (has_tangent(k, j)) g[j] = td_arg(c, at++);
    td_fkept all = {{kept, k->n_kept}, k->n_saved};
    int      inlined = k->cx->inlined;
    if (!td__fcall_backward(k->f, &all, g, n_out, grad)) return false;
    k->once = k->cx->inlined != inlined; /* their own backward is not in the graph */
    for (int i = 0; i < n_in; i++) v[i] = grad[i] ? td_value_tensor(grad[i]) : TD_NONE;
    return td_return_values(c, (td_values){v, n_in});
}

/* A fake tensor of this type. Types with one storage number give tensors that
 * share a storage; by_storage[] is their table. */
static td_tensor *tensor_like(capturing *k, const td_gtype *l, td_tensor **by_storage) {
    td_meta    m = td__geom_meta(&l->geom);
    td_tensor *first = l->storage >= 0 ? by_storage[l->storage] : NULL;
    if (first) return td__tensor_over(k->cx, first->st, &m);
    td_tensor *t = td__tensor_make(k->cx, &m, true);
    if (t && l->storage >= 0) by_storage[l->storage] = t;
    return t;
}

/* A fake gradient for a result of this type: row-major. */
static td_tensor *tangent_like(capturing *k, const td_gtype *l) {
    td_meta m = {.dtype = (td_dtype)l->dtype, .rank = l->rank, .device = l->device};
    for (int d = 0; d < l->rank; d++) m.size[d] = l->size[d];
    return td__tensor_make(k->cx, &m, true);
}

/* The arguments to capture backward with, from the types of forward's outputs. */
static bool make_args(capturing *k, td_value *to, int *n) {
    const td_graph *f = k->forward;
    int             n_out = k->call->n_out;
    td_tensor     **by = scratch(k, sizeof *by * (size_t)f->n_storages);
    if (!by) return false;
    for (int i = 0; i < k->n_kept; i++) {
        td_tensor *t = tensor_like(k, f->outputs.v[n_out + i].u.v->type, by);
        if (!t) return false;
        to[(*n)++] = td_value_tensor(t);
    }
    for (int j = 0; j < n_out; j++) {
        if (!has_tangent(k, j)) continue;
        td_tensor *t = tangent_like(k, f->outputs.v[j].u.v->type);
        if (!t) return false;
        to[(*n)++] = td_value_tensor(t);
    }
    return true;
}

/* Sets the descriptors: inputs <saved i>, <tangent j>; outputs <grad i>. */
static bool describe_backward(capturing *k) {
    td_graph *b = k->backward;
    int       at = k->n_kept;
    if (!(b->name = td__graph_str(b, "backward"))) return false;
    for (int i = 0; i < k->n_kept; i++)
        b->in_desc.v[i] = (td_desc){TD_D_SAVED, i, NULL};
    for (int j = 0; j < k->call->n_out; j++)
        if (has_tangent(k, j)) b->in_desc.v[at++] = (td_desc){TD_D_TANGENT, j, NULL};
    for (int i = 0; i < b->outputs.n; i++)
        b->out_desc.v[i] = (td_desc){TD_D_GRAD, i, NULL};
    return true;
}

/* The user's backward failed with an error that eager has, too. In eager the call works
 * and backward fails, so the graph is empty and the op stores the error. */
static bool delay_failure(capturing *k) {
    td_ctx *cx = k->cx;
    if (!td__is_eagers(td__error(cx)) || td__symenv_assumed()) return false;
    k->code = td__error(cx);
    k->error = td__arena_strdup(&k->arena, td__message(cx));
    td_clear(cx);
    k->backward = k->error ? td__graph_make(cx, "backward") : NULL;
    return k->backward || td__fail_memory(cx);
}

/* Captured with grad mode on, so that no_grad regions inside are recorded. No
 * argument requires grad, so backward may write all of them, as in eager. */
static bool capture_backward(capturing *k) {
    int       n = 0;
    td_value *args = scratch(k, sizeof *args * (size_t)(k->n_kept + k->call->n_out));
    if (!args || !make_args(k, args, &n)) return false;
    k->backward = capture(k, backward_body, (td_values){args, n}, true);
    return k->backward ? describe_backward(k) : delay_failure(k);
}

/* ---- the call ----------------------------------------------------------- */

static td_value ints(const int64_t *v, int n) {
    return td__value_ints((td_ints){v, n});
}

/* Records the call of op `custom`. Operands after the inputs are the tensors that
 * forward closes over, then those of backward. */
static bool call_custom(capturing *k, const char *name) {
    const td_fncall *call = k->call;
    int              n = k->lift[0].tensors.n, m = k->lift[1].tensors.n;
    int              cap = call->n_out + k->n_kept;
    td_tensor      **fixed = scratch(k, sizeof *fixed * (size_t)(n + m));
    td_tensor      **out = scratch(k, sizeof *out * (size_t)cap);
    if (!fixed || !out) return false;
    for (int i = 0; i < n; i++) fixed[i] = k->lift[0].tensors.v[i];
    for (int i = 0; i < m; i++) fixed[n + i] = k->lift[1].tensors.v[i];
    td_value in[] = {td__value_str(name),
                     td__value_graph(k->forward),
                     td__value_graph(k->backward),
                     td__value_tensors(call->in),
                     td__value_tensors((td_tensors){fixed, n + m}),
                     ints(k->dirty, k->n_dirty),
                     ints(k->plain, k->n_plain),
                     ints(k->stash, k->n_stash),
                     td_value_bool(k->materialize),
                     td_value_bool(k->once),
                     td__value_str(k->error),
                     td_value_int(k->code)};
    if (td__call_list(k->cx, TD_OP_custom, in, TD_COUNT(in), out, cap) < 0)
        return false;
    for (int i = 0; i < call->n_out; i++) call->out[i] = out[i];
    return true;
}

/* Both captures, then the call. td__fcall_open takes over the payload, so the user's
 * destroy runs exactly once on every path. */
static bool run(capturing *k) {
    const td_fncall *call = k->call;
    const char      *name = call->fn->name ? call->fn->name : "function";
    if (!(k->need = scratch(k, (size_t)call->in.n))) {
        if (call->fn->destroy) call->fn->destroy(call->payload);
        return false;
    }
    for (int i = 0; i < call->in.n; i++)
        k->need[i] = call->in.v[i] && td__needs_grad(call->in.v[i]);
    if (!(k->f = td__fcall_open(call, k->need))) return false;
    bool ok = capture_forward(k) && td__scope_push(k->cx);
    if (ok) {
        ok = capture_backward(k);
        td__scope_pop(k->cx, NULL, 0);
    }
    td__fcall_close(k->f);
    return ok && call_custom(k, name);
}

/* td_mode.function of the recorder: runs forward and backward of a custom function once
 * on fake tensors, and records both as graphs of the op `custom`. */
bool td__record_function(td_mode *m, const td_fncall *call) {
    capturing k = {.call = call, .cx = call->cx, .error = ""};
    (void)m;
    bool ok = run(&k);
    td__graph_drop(k.forward);
    td__graph_drop(k.backward);
    td__lift_free(&k.lift[0]);
    td__lift_free(&k.lift[1]);
    td__arena_free(&k.arena);
    return ok;
}
