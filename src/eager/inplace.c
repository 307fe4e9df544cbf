/* inplace.c -- what writes do to history. A write to a tensor makes the writer's
 * node its history. A write to a view changes its base: the base gets a node
 * ("copy_slices") that sends the gradient of the written part through the writer
 * and the rest straight on, and every view of that base finds, when it is next
 * asked, that its own history is out of date and takes it anew from the base.
 * Which writes are refused follows eager PyTorch case by case. */
#include "eager/eager_int.h"

#include <string.h>

/* ---- refusals ----------------------------------------------------------- */

static const char *why_refused(const td_tensor *t) {
    switch ((td_creation)t->creation) {
    case TD_MADE_MULTI_OUTPUT:
        return "It comes from an op that returns several views; these may not be "
               "written. "
               "Write out of place";
    case TD_MADE_NO_GRAD:
        return "Make the view and write both inside no_grad (if the write is not to be "
               "differentiated) or both outside";
    case TD_MADE_INFERENCE:
        return "Make the view and write both inside inference mode (if the write is "
               "not to "
               "be differentiated) or both outside";
    default:
        return "It was made inside a custom function, or is an input returned as it "
               "was; "
               "the write would pass by the custom backward. Clone the result";
    }
}

/* `c` is the write itself, or NULL when t is read after another tensor of its
 * storage was written. */
static bool fail_view(td_opcall *c, const td_tensor *t) {
    const td_node *fn = t->ag ? t->ag->fn : NULL;
    bool mode = t->creation == TD_MADE_NO_GRAD || t->creation == TD_MADE_INFERENCE;
    const char *place =
        t->creation == TD_MADE_INFERENCE ? "in inference mode" : "in no_grad mode";
    const char *how =
        c ? "is being modified in place"
          : "its base or another view of its base has been modified in place";
    td_buf text = {0};
    if (fn && !mode)
        td__buf_printf(&text, "result %d of %s is a view and %s", (int)t->ag->nr,
                       fn->name, how);
    else
        td__buf_printf(&text, "a view was created %s and %s with grad mode enabled",
                       place, how);
    td__buf_printf(&text, ". %s", why_refused(t));
    if (c) td__op_fail(c, TD_E_GRAD, "%s", td__buf_str(&text));
    else td__fail(t->cx, TD_E_GRAD, "%s", td__buf_str(&text));
    td__buf_free(&text);
    return false;
}

/* May t be written while recording a write that needs gradients? */
bool td__check_write(td_opcall *c, td_tensor *t) {
    bool needs = td__needs_grad(t);
    if (t->base) {
        if (t->creation != TD_MADE_PLAIN) return fail_view(c, t);
        if (needs && !td__has_node(t->base))
            return td__op_fail(
                c, TD_E_GRAD,
                "a view of a leaf that requires grad is being written in "
                "place; use no_grad, or write to a clone");
    }
    td_node *fn;
    if (!td__fn_of(t, &fn)) return false;
    if (needs && !fn)
        return td__op_fail(
            c, TD_E_GRAD,
            "a leaf that requires grad is being written in place; use no_grad, "
            "or write to a clone");
    return true;
}

/* ---- views that are behind ---------------------------------------------- */

/* A base that set_ has elsewhere gives its views a history, but no elements: a
 * stand-in, of bytes nobody counts. */
static bool move_away(td_tensor *t) {
    td_storage *st = td__storage_make(0, true);
    if (!st) return td__fail_memory(t->cx);
    st->open = true;
    td__tensor_set_storage(t, st);
    td__storage_drop(st);
    return true;
}

/* What a view takes its history from: its base, whose place in the history is e, or a
 * stand-in. One for a base that was cut off since leads nowhere. */
static td_tensor *base_with_history(td_tensor *t, td_edge e) {
    td_tensor *base = t->base, *a;
    bool       moved = base->st != t->st;
    if (e.node && !moved) return base;
    a = e.node ? td__alias_at(base, e) : td__tensor_alias(t->cx, base);
    if (a && !e.node) a = td_set_requires_grad(a, true);
    return a && (!moved || move_away(a)) ? a : td_nil(t->cx);
}

/* t gets the history of a view of `whole`. */
static bool take_from(td_tensor *t, td_tensor *whole) {
    td_tensor *v =
        td_op_as_strided(whole, td__sizes(t), td__strides(t), td_value_int(t->offset));
    if (td_is_nil(v)) return false;
    if (v->ag && v->ag->fn) return td__set_history(t, v->ag->fn, v->ag->nr);
    td__clear_history(t);
    return true;
}

static bool take_history(td_tensor *t) {
    td_edge e;
    if (!td__edge_of(t->base, &e)) return false;
    bool ok = take_from(t, base_with_history(t, e));
    if (ok) t->seen = td__version(t);
    if (e.node) td__node_drop(e.node);
    return ok;
}

/* Where only the history of ops is wanted: the tape alone hears them, in a scope of
 * their own. */
static bool hear_alone(td_ctx *cx, td_mode_scope *outer) {
    if (!td__scope_push(cx)) return false;
    *outer = td__modes_enter(cx, cx->tape);
    td__modes_tape(cx, NULL);
    cx->grad_enabled = true;
    cx->inference = false;
    return true;
}

static void hear_all(td_ctx *cx, const td_mode_scope *outer) {
    td__modes_leave(cx, outer);
    td__scope_pop(cx, NULL, 0);
}

bool td__regenerate(td_tensor *t) {
    if (t->creation != TD_MADE_PLAIN) return fail_view(NULL, t);
    const td_listener *l = &td__eager(t->cx)->listener;
    td_mode_scope      was;
    if (!hear_alone(t->cx, &was)) return false;
    bool ok = take_history(t);
    hear_all(t->cx, &was);
    return ok && (!l->touched || l->touched(l->env, t));
}

/* ---- layouts ------------------------------------------------------------ */

td_tensor *td__copy_like(td_ctx *cx, td_tensor *g, const td_note *like) {
    td_ints    stride = {like->dims + like->rank, like->rank};
    td_tensor *r =
        td_op_empty_strided(cx, td__note_sizes(like), stride, (td_dtype)g->dtype);
    return td_is_nil(r) ? r : td_op_copy_(r, g, false);
}

static bool same_layout(const td_tensor *t, const td_note *n) {
    return t->rank == n->rank && td__dims_seem_eq(t->size, n->dims, n->rank) &&
           td__dims_seem_eq(t->stride, n->dims + n->rank, n->rank);
}

/* ---- copy_slices -------------------------------------------------------- */

typedef struct slices {
    td_node   *fn;    /* held: the writer's node */
    int        fn_nr; /* which result of it the view is */
    int        self;  /* the edge that is the view there and the base here */
    td_note    view;  /* what the view looked like */
    td_tensor *whole; /* in a trace, held: the base without its history, which the
                         tracer knows; else NULL */
} slices;

static void part_of(const td_node *n, td_tensor *whole, td_ints *size, td_ints *stride,
                    td_value *offset) {
    const slices *s = n->data;
    *size = td__note_sizes(&s->view);
    *stride = (td_ints){s->view.dims + s->view.rank, s->view.rank};
    int64_t before = td__dim_sub(s->view.offset, n->note[s->self].offset);
    *offset = td_value_int(td__dim_add(whole->offset, before));
}

/* Runs the writer's derivative on the written part of the base's gradient. */
static bool apply_writer(td_node *n, td_tensor *part, const bool *need,
                         td_tensor **grads) {
    const slices *s = n->data;
    td_tensor    *few[4] = {0}, **g = few;
    if (s->fn->n_out > TD_COUNT(few) &&
        !(g = td__zalloc(sizeof *g * (size_t)s->fn->n_out)))
        return td__fail_memory(n->cx);
    g[s->fn_nr] = part;
    bool ok = s->fn->kind->apply(s->fn, g, need, grads);
    if (g != few) td__free(g);
    return ok;
}

/* Elements of an expanded part that share a place were written with one value: `in`
 * has one of them left, and size and stride too, in room. */
static td_tensor *one_of_each(td_tensor *in, td_ints *size, td_ints *stride,
                              int64_t room[2][TD_MAX_RANK]) {
    bool again[TD_MAX_RANK];
    int  n = td__dims_apart(size->n, size->v, stride->v, room[0], room[1], again);
    for (int d = size->n - 1; d >= 0; d--)
        if (again[d]) in = td_op_select(in, d, 0);
    *size = (td_ints){room[0], n};
    *stride = (td_ints){room[1], n};
    return in;
}

/* The gradient of the base: `whole` with `in` for the written part. Out of place,
 * except where that has no second derivative. */
static td_tensor *put_back(td_node *n, td_tensor *whole, td_tensor *in) {
    const slices *s = n->data;
    td_ints       size, stride;
    td_value      offset;
    int64_t       room[2][TD_MAX_RANK];
    bool          plain = td__is_dense(whole->rank, whole->size, whole->stride);
    if (!plain && td__recording(n->cx)) {
        whole = td__copy_like(n->cx, whole, &n->note[s->self]);
        if (td_is_nil(whole)) return whole;
        part_of(n, whole, &size, &stride, &offset);
        in = one_of_each(in, &size, &stride, room);
        td_tensor *part = td_op_as_strided(whole, size, stride, offset);
        return td_is_nil(td_op_copy_(part, in, false)) ? td_nil(n->cx) : whole;
    }
    part_of(n, whole, &size, &stride, &offset);
    in = one_of_each(in, &size, &stride, room);
    return td_op_as_strided_scatter(whole, in, size, stride, offset);
}

static bool slices_apply(td_node *n, td_tensor *const *g, const bool *need,
                         td_tensor **grads) {
    const slices *s = n->data;
    td_tensor    *whole = g[0];
    td_ints       size, stride;
    td_value      offset;
    /* Where elements of the base share places no gradient can be laid out so, also not
     * one that happens to be: copy_ says it. */
    if (!same_layout(whole, &n->note[s->self]) || td__overlaps_itself(whole))
        whole = td__copy_like(n->cx, whole, &n->note[s->self]);
    if (td_is_nil(whole)) return false;
    part_of(n, whole, &size, &stride, &offset);
    td_tensor *part = td_op_as_strided(whole, size, stride, offset);
    if (td_is_nil(part) || !apply_writer(n, part, need, grads)) return false;
    if (!need[s->self]) return true;
    td_tensor *in = grads[s->self];
    if (!in) in = td_op_zeros_like(part, TD_DTYPE_NONE);
    grads[s->self] = put_back(n, whole, in);
    return !td_is_nil(grads[s->self]);
}

static void slices_release(td_node *n) {
    slices *s = n->data;
    if (s->fn) td__node_release(s->fn);
}

static void slices_destroy(td_node *n) {
    slices *s = n->data;
    if (s->fn) {
        s->fn->owner = NULL;
        td__node_drop(s->fn);
    }
    if (s->whole) td__unref(s->whole);
    td__free(s);
}

const td_node_kind td__slices_kind = {.name = "copy_slices",
                                      .apply = slices_apply,
                                      .release = slices_release,
                                      .destroy = slices_destroy};

/* The base as it was written, over the bytes st, with the history that n gives it. */
static td_tensor *whole_of(td_node *n, td_storage *st) {
    const slices *s = n->data;
    td_meta       m;
    td__note_meta(&n->note[s->self], &m);
    td_tensor *a =
        s->whole ? td__tensor_alias(n->cx, s->whole) : td__tensor_over(n->cx, st, &m);
    return a && td__set_history(a, n, 0) ? a : NULL;
}

td_tensor *td__slices_view(td_node *n, td_tensor *data) {
    const slices *s = n->data;
    td_tensor    *a = whole_of(n, data->st), *v;
    td_mode_scope was;
    if (!a) return NULL;
    if (!s->whole || s->whole->st == data->st) {
        v = td_op_as_strided(a, td__sizes(data), td__strides(data),
                             td_value_int(data->offset));
        return td_is_nil(v) ? NULL : v;
    }
    /* set_ had the view elsewhere: the base, which the tracer knows, has not its
     * elements. */
    v = td__tensor_alias(n->cx, data);
    if (!v || !move_away(a) || !hear_alone(n->cx, &was)) return NULL;
    bool ok = take_from(v, a);
    hear_all(n->cx, &was);
    return ok ? v : NULL;
}

const td_node *td__slices_writer(const td_node *n) {
    return ((const slices *)n->data)->fn;
}

/* The edges of the writer, with the base in place of the view. */
static bool slices_edges(td_node *n, td_node *fn, int self, td_tensor *base,
                         int64_t **ints) {
    for (int i = 0; i < fn->n_edge; i++) {
        n->edge[i] = fn->edge[i];
        n->note[i] = fn->note[i]; /* dims stay in fn, which n holds */
        if (i == self) n->edge[i].node = NULL;
        else if (n->edge[i].node) td__node_ref(n->edge[i].node);
    }
    td__note(&n->note[self], base, true, ints);
    return td__edge_of(base, &n->edge[self]);
}

static td_node *make_slices(td_tensor *t, td_node *fn, int nr, int self) {
    td_ctx      *cx = t->cx;
    td_tensor   *base = t->base;
    td_node_plan p = {.n_edge = fn->n_edge,
                      .n_out = 1,
                      .n_ints = 3 * base->rank + 2 * t->rank};
    int64_t     *ints;
    slices      *s = td__alloc(sizeof *s);
    if (!s) return td__fail_memory(cx), NULL;
    td_node *n = td__node_make(cx, &td__slices_kind, &p, &ints, NULL);
    if (!n) {
        td__free(s);
        return NULL;
    }
    *s = (slices){.fn = td__node_ref(fn), .fn_nr = nr, .self = self};
    n->data = s;
    n->here = fn->here;
    fn->owner = n;
    td__note(&s->view, t, true, &ints);
    td__note(&n->out_note[0], base, false, &ints);
    bool ok = slices_edges(n, fn, self, base, &ints);
    if (ok && cx->fake) ok = (s->whole = td__loose_alias(base)) != NULL;
    if (ok) return n;
    td__node_drop(n);
    return NULL;
}

bool td__rebase(td_tensor *t, td_node *n, int nr, int self) {
    if (!t->base) return td__set_history(t, n, nr);
    td_node *all = make_slices(t, n, nr, self);
    if (!all) return false;
    bool ok = td__set_history(t->base, all, 0);
    td__node_drop(all);
    return ok && td__regenerate(t);
}

/* ---- cutting off -------------------------------------------------------- */

td_tensor *td_detach_(td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    if (td_is_nil(t)) return t;
    return TD_UNLIKELY(td__heard(t->cx)) ? td_op_detach_(t) : td__detach_in_place(t);
}

td_tensor *td__detach_in_place(td_tensor *t) {
    if (t->base)
        return td_fail(t->cx, TD_E_GRAD,
                       "detach_: a view cannot be detached in place; use detach");
    td__clear_history(t);
    return t;
}
