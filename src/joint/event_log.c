/* event_log.c -- records the events of a program. The log is a mode right above the
 * tape and receives the same calls: composites as their parts, each op once. Two kinds
 * of events are not ops; the tape reports them to its listener. */
#include "joint/event_log.h"

#include <string.h>

/* ---- one event ---------------------------------------------------------- */

/* An event owns references to the tensors, storages and accumulator it names, because
 * the program may free them before the epilogue is written. */
static void drop(td_event *e) {
    td__unref(e->t);
    if (e->value) td__unref(e->value);
    if (e->root) td__unref(e->root);
    if (e->whole) td__unref(e->whole);
    if (e->whole_root) td__unref(e->whole_root);
    for (int i = 0; i < e->n_out; i++) td__unref(e->out[i]);
    if (e->accum) td__node_drop(e->accum);
    td__storage_drop(e->st);
    if (e->was != e->st) td__storage_drop(e->was);
}

/* Appends an event with the current modes and source location, and takes references to
 * its tensors and storages. Takes over the references to its root and wholes, also on
 * failure. NULL after td__fail. */
static td_event *add(td_log *l, td_event e) {
    const td_ctx *cx = l->cx;
    e.grad = cx->grad_enabled;
    e.inference = cx->inference;
    e.here = td_here;
    e.out_nr = -1;
    e.st = e.t->st;
    if (!e.was) e.was = e.st;
    td__ref(e.t);
    if (e.value) td__ref(e.value);
    for (int i = 0; i < e.n_out; i++) td__ref(e.out[i]);
    td__storage_keep(e.st);
    if (e.was != e.st) td__storage_keep(e.was);
    if (td__vec_push(&l->all, e)) return &l->all.v[l->all.n - 1];
    drop(&e);
    td__fail_memory(l->cx);
    return NULL;
}

/* Lists of op arguments are on the caller's stack, so they are copied into the log's
 * arena. */
static bool copy_list(td_log *l, td_value *v) {
    size_t item = v->kind == TD_K_INTS ? sizeof(int64_t) : sizeof(td_tensor *);
    void  *own = td__arena_alloc(&l->arena, item * ((size_t)v->n + 1));
    if (!own) return td__fail_memory(l->cx);
    if (v->n) memcpy(own, v->u.ints, item * v->n);
    if (v->kind == TD_K_INTS) v->u.ints = own;
    else v->u.ts = own;
    return true;
}

/* Copies the arguments of an op call. Tensors among them are not referenced: other
 * events reference them, or they are inputs. */
static bool copy_args(td_log *l, td_event *e, const td_opcall *c) {
    e->op = c->info->op;
    e->n_in = c->n_in;
    e->in = td__arena_alloc(&l->arena, sizeof *e->in * (size_t)(c->n_in + 1));
    if (!e->in) return td__fail_memory(l->cx);
    for (int i = 0; i < c->n_in; i++) {
        e->in[i] = c->in[i];
        bool list = c->in[i].kind == TD_K_INTS || c->in[i].kind == TD_K_TENSORS;
        if (list && !copy_list(l, &e->in[i])) return false;
    }
    return true;
}

/* Stores the current value of the event's tensor. */
static bool note_value(td_log *l, td_event *e) {
    return (e->value = td__func_value(l->f, e->t)) != NULL;
}

/* An alias of t with its current grad_fn, at which the engine starts; t has a grad_fn
 * and is not stale. The caller owns a reference. NULL after td__fail. */
static td_tensor *root_of(td_tensor *t) {
    td_edge at;
    if (!td__edge_of(t, &at)) return NULL;
    td_tensor *root = at.node ? td__alias_at(t, at) : NULL;
    if (at.node) td__node_drop(at.node);
    return root ? td__ref(root) : NULL;
}

static bool note_root(td_event *e) {
    e->recorded = true;
    return (e->root = root_of(e->t)) != NULL;
}

/* Of a write through a view: stores value and root of its base, if the base covers the
 * view. Inner tensors of a base of a type are unknown unless it is an argument. */
static bool note_whole(td_log *l, td_event *e) {
    td_tensor *base = e->t->base;
    if (!base || base->st != e->t->st) return true;
    if (base->typed && !td__func_knows(l->f, base)) return true;
    td_geom all = td__geom_of(base), part = td__geom_of(e->t);
    if (!td__geom_covers_bytes(&all, &part)) return true;
    td_tensor *value = td__func_value(l->f, base);
    if (!value) return false;
    e->whole = td__ref(value);
    return !e->recorded || (e->whole_root = root_of(base));
}

/* ---- ops ---------------------------------------------------------------- */

/* The state of a tensor before an op writes it. */
typedef struct before {
    td_tensor  *t;
    td_storage *st;    /* referenced */
    td_node    *fn;    /* referenced; grad_fn of the base, or of t if it is no view */
    bool        own;   /* t itself requires grad, not only its base */
    td_node    *accum; /* referenced; accumulator of a leaf; then its sizes: */
    int         rank;
    int64_t     size[TD_MAX_RANK];
} before;

static td_node *node_of(const td_tensor *t) {
    const td_tensor *owner = t->base ? t->base : t;
    return td__last_node(owner);
}

/* Stores the state of a tensor before the op writes it; the op's effects are the
 * difference to the state after it. */
static before note_before(td_tensor *t) {
    before b = {.t = t, .st = t->st, .fn = node_of(t), .rank = t->rank};
    b.own = t->flags & TD_TF_NEEDS_GRAD;
    b.accum = td__known_accumulator(t);
    if (b.accum) td__node_ref(b.accum);
    if (b.accum && t->rank) memcpy(b.size, t->size, sizeof *b.size * t->rank);
    td__storage_keep(b.st);
    if (b.fn) td__node_ref(b.fn);
    return b;
}

static void forget_before(const before *b) {
    td__storage_drop(b->st);
    if (b->fn) td__node_drop(b->fn);
    if (b->accum) td__node_drop(b->accum);
}

/* An op made t, in a storage of its own. */
bool td__log_made(td_log *l, td_tensor *t) {
    td_event e = {.kind = TD_EV_MADE, .t = t};
    if (!note_value(l, &e) || !td__geom_copy(l->cx, &l->arena, &e.geom, t))
        return false;
    td_event *to = add(l, e);
    return to && (!td__has_node(t) || note_root(to));
}

/* A view op made its results; one event for all of them. */
static bool log_view(td_log *l, const td_opcall *c) {
    td_event e = {.kind = TD_EV_VIEW, .t = c->in[c->info->view_of].u.t};
    e.out = td__arena_alloc(&l->arena, sizeof *e.out * (size_t)(c->n_out + 1));
    if (!e.out) return td__fail_memory(l->cx);
    e.n_out = c->n_out;
    for (int i = 0; i < c->n_out; i++) e.out[i] = c->out[i];
    return copy_args(l, &e, c) && add(l, e);
}

static bool same_sizes(const before *b) {
    return b->rank == b->t->rank && td__dims_same(b->size, b->t->size, b->rank);
}

/* The op wrote elements, metadata or flags of b->t. */
static bool log_write(td_log *l, const td_opcall *c, const before *b) {
    bool     meta = c->def->flags & TD_OPF_META;
    bool     flag = meta && !td__op_writes_geometry(c->info->op);
    td_event e = {.t = b->t, .was = b->st};
    e.kind = flag ? TD_EV_FLAG : meta ? TD_EV_META : TD_EV_WRITE;
    e.shares = td__overlaps_itself(b->t);
    e.whole_shares = b->t->base && td__overlaps_itself(b->t->base);
    e.idle = c->info->op == TD_OP_requires_grad_
                 ? b->own == ((b->t->flags & TD_TF_NEEDS_GRAD) != 0)
                 : c->info->op == TD_OP_detach_ &&
                       (l->cx->inference || td_is_inference(b->t));
    e.late = b->accum && !flag && !same_sizes(b);
    e.leaf = td__needs_grad(e.t) && !td__has_node(e.t);
    if (meta && !copy_args(l, &e, c)) return false;
    if (!meta && !note_value(l, &e)) return false;
    if (e.kind == TD_EV_META && !td__geom_copy(l->cx, &l->arena, &e.geom, e.t))
        return false;
    td_event *to = add(l, e);
    bool      recorded = !flag && node_of(b->t) != b->fn;
    if (!to) return false;
    if (e.kind == TD_EV_META && b->accum) to->accum = td__node_ref(b->accum);
    /* The tape does not record writes of running statistics, even if they require
     * grad. */
    if (!meta && !recorded && td__needs_grad(b->t)) to->grad = false;
    return (!recorded || note_root(to)) && (meta || note_whole(l, to));
}

/* Adds the events of a call that has run: of the n tensors it wrote, b, and of those it
 * made. */
static bool log_results(td_log *l, const td_opcall *c, const before *b, int n) {
    if (c->def->flags & TD_OPF_VIEW) return log_view(l, c);
    for (int i = 0; i < n; i++)
        if (!log_write(l, c, &b[i])) return false;
    for (int i = 0; i < c->n_out; i++) {
        bool written = false;
        for (int k = 0; k < n; k++) written |= b[k].t == c->out[i];
        if (!written && !td__log_made(l, c->out[i])) return false;
    }
    return true;
}

/* Drops touches from event `first` on of tensors that the op itself wrote: the step
 * that writes them in the epilogue refreshes their grad_fn, too. */
static void forget_touches(td_log *l, int first, const before *b, int n) {
    int at = first;
    for (int i = first; i < l->all.n; i++) {
        bool own = false;
        for (int k = 0; k < n; k++) own |= l->all.v[i].t == b[k].t;
        if (own && l->all.v[i].kind == TD_EV_TOUCH) drop(&l->all.v[i]);
        else l->all.v[at++] = l->all.v[i];
    }
    l->all.n = at;
}

/* td_mode.call of the log: stores the state of written arguments, runs the op in the
 * modes below, then adds events for the differences. Touches that the op itself caused
 * are not events of the program. */
static bool log_call(td_mode *m, td_opcall *c) {
    td_log *l = (td_log *)m;
    before  b[TD_MAX_ARGS];
    int     n = 0;
    for (int i = 0; i < c->n_in; i++) {
        td_tensor *t = c->info->s.in[i].write ? td__in(c, i) : NULL;
        if (t) b[n++] = note_before(t);
    }
    int  first = l->all.n;
    bool split = c->def->split_fn && td__recording(l->cx) && !l->cx->whole;
    bool ok = split ? c->def->split_fn(c) : td__call_below(m, c);
    forget_touches(l, first, b, n);
    ok = ok && log_results(l, c, b, n);
    for (int i = 0; i < n; i++) forget_before(&b[i]);
    return ok;
}

/* ---- events that are not ops -------------------------------------------- */

/* The tape has recomputed the grad_fn of a stale view. */
static bool log_touched(void *env, td_tensor *t) {
    return add(env, (td_event){.kind = TD_EV_TOUCH, .t = t}) != NULL;
}

/* A custom function has set the grad_fn or the creation mark of t, an existing
 * tensor. */
static bool log_given(void *env, td_tensor *t, bool recorded, bool in_place) {
    td_log  *l = env;
    td_event e = {.kind = TD_EV_GIVEN,
                  .t = t,
                  .creation = t->creation,
                  .in_place = in_place};
    if (!recorded && (in_place || !t->base)) return true; /* no change */
    if (!note_value(l, &e)) return false;
    td_event *to = add(l, e);
    return to && (!recorded || note_root(to));
}

/* Are the tensors, which are not stale, the same result of one node? */
static bool same_edge(td_tensor *a, td_tensor *b) {
    td_edge x = {0}, y = {0};
    bool    same = td__last_node(a) == td__last_node(b) && td__edge_of(a, &x) &&
                td__edge_of(b, &y) && x.nr == y.nr;
    if (x.node) td__node_drop(x.node);
    if (y.node) td__node_drop(y.node);
    return same;
}

/* The event whose root is the grad_fn of t; NULL: t has its grad_fn from a view op, a
 * metadata write or its base. */
static const td_event *root_event(const td_log *l, td_tensor *t) {
    for (int i = l->all.n - 1; i >= 0; i--)
        if (l->all.v[i].root && l->all.v[i].kind != TD_EV_META &&
            same_edge(l->all.v[i].root, t))
            return &l->all.v[i];
    return NULL;
}

/* The last event that set the grad_fn of t without a root; -1: none. */
static int last_change(const td_log *l, const td_tensor *t) {
    for (int i = l->all.n - 1; i >= 0; i--) {
        const td_event *e = &l->all.v[i];
        bool made = (e->kind == TD_EV_META || e->kind == TD_EV_TOUCH) && e->t == t;
        for (int k = 0; e->kind == TD_EV_VIEW && k < e->n_out; k++)
            made |= e->out[k] == t;
        if (made) return i;
    }
    return -1;
}

/* Inserts a root for the grad_fn of t right after the event that set it: gradients of
 * everything computed from t since then pass through it. */
static bool add_root(td_log *l, td_tensor *t) {
    int at = last_change(l, t) + 1, last = l->all.n;
    if (!log_given(l, t, true, false)) return false;
    td_event e = l->all.v[last];
    memmove(&l->all.v[at + 1], &l->all.v[at], sizeof e * (size_t)(last - at));
    l->all.v[at] = e;
    return true;
}

/* The body registers a hook on t. In the trace it must receive the same whole gradient
 * as in eager. The gradient of a root arrives at its node as a tangent. A view, or a
 * tensor whose metadata was written, gets its grad_fn in the epilogue, so a root
 * replaces that grad_fn here. After a write through a view, gradients of base and view
 * pass separate nodes in eager and one node in the trace: unsupported. */
static bool log_hooked(void *env, td_tensor *t) {
    td_log         *l = env;
    const td_event *e = root_event(l, t);
    bool            slices = !strcmp(td__last_node(t)->name, "copy_slices");
    if (slices || (e && e->kind == TD_EV_WRITE && t->base))
        return td__fail(l->cx, TD_E_UNSUPPORTED,
                        "td_on_grad: unsupported: %s was written through a view "
                        "before the body registers a hook on it. Register the hook "
                        "on td_alias of the tensor",
                        td__type_str(t));
    return e || add_root(l, t);
}

/* ---- beginning and end -------------------------------------------------- */

void td__log_begin(td_log *l, td_ctx *cx, td_func *f) {
    *l = (td_log){.mode = {.name = "log", .call = log_call}, .cx = cx, .f = f};
    td__mode_insert(cx, &l->mode);
    l->listener = (td_listener){log_touched, log_given, log_hooked, l};
    l->was = cx->listener;
    cx->listener = &l->listener;
}

void td__log_end(td_log *l) {
    if (!l->cx) return;
    td__mode_remove(l->cx, &l->mode);
    l->cx->listener = l->was;
}

void td__log_free(td_log *l) {
    for (int i = 0; i < l->all.n; i++) drop(&l->all.v[i]);
    td__vec_free(&l->all);
    td__arena_free(&l->arena);
}
