/* inplace.c -- what writes do to the autograd history. After a write to a
 * tensor, the writing op's node is its grad_fn. A write to a view changes its
 * base: the base gets a copy_slices node, which sends the gradient of the
 * written part through the writing op and the rest unchanged. Every other view
 * of the base is then stale; when its grad_fn is next read, it is regenerated
 * from the base. Which writes fail follows eager PyTorch case by case. */
#include "eager/eager_int.h"
#include "eager/history.h"

#include <string.h>

/* ---- writes that fail --------------------------------------------------- */

/* Why a view with this creation mark may not be written, and what to do instead. */
static const char *reason(const td_tensor *t) {
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

/* c is the write itself; NULL: t is read after its base or another view was
 * written. */
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
    td__buf_printf(&text, ". %s", reason(t));
    if (c) td__op_fail(c, TD_E_GRAD, "%s", td__buf_str(&text));
    else td__fail(t->cx, TD_E_GRAD, "%s", td__buf_str(&text));
    td__buf_free(&text);
    return false;
}

/* A tangent of a compiled backward with create_graph: a leaf of the trace alone. */
static bool fail_tangent(td_opcall *c) {
    return td__op_fail(c, TD_E_UNSUPPORTED,
                       "unsupported: with create_graph, a hook or the backward of a "
                       "custom function writes a gradient that requires grad. Write a "
                       "clone of it");
}

/* PyTorch's rules for in-place writes under autograd: no leaf that requires grad, no
 * view of one, no view of a multi-output op. */
bool td__check_write(td_opcall *c, td_tensor *t) {
    bool needs = td__needs_grad(t);
    if (t->base) {
        if (t->creation != TD_MADE_PLAIN) return fail_view(c, t);
        if (needs && t->base->flags & TD_TF_TANGENT) return fail_tangent(c);
        if (needs && !td__has_node(t->base))
            return td__op_fail(
                c, TD_E_GRAD,
                "a view of a leaf that requires grad is being written in "
                "place; write to it between td_no_grad_begin and td_no_grad_end, "
                "or to a clone");
    }
    td_node *fn;
    if (!td__fn_of(t, &fn)) return false;
    if (needs && !fn && t->flags & TD_TF_TANGENT) return fail_tangent(c);
    if (needs && !fn)
        return td__op_fail(
            c, TD_E_GRAD,
            "a leaf that requires grad is being written in place; write to it between "
            "td_no_grad_begin and td_no_grad_end, or to a clone");
    return true;
}

/* ---- stale views -------------------------------------------------------- */

/* Moves t to an empty storage of unknown size. A base that set_ moved to another
 * storage still provides its views' history, but not their elements; this makes an
 * alias of it usable for that. */
static bool empty_storage(td_tensor *t) {
    td_storage *st = td__storage_make(0, true);
    if (!st) return td__fail_memory(t->cx);
    st->open = true;
    st->device = t->st->device;
    td__tensor_set_storage(t, st);
    td__storage_drop(st);
    return true;
}

/* The tensor from which stale view t gets its grad_fn: its base, whose edge is
 * e, or an alias of it if the base was moved. A base that was detached since
 * gives a history that leads to a new leaf. nil after td__fail. */
static td_tensor *base_with_history(td_tensor *t, td_edge e) {
    td_tensor *base = t->base, *a;
    bool       moved = base->st != t->st;
    if (e.node && !moved) return base;
    a = e.node ? td__alias_at(base, e) : td__tensor_alias(t->cx, base);
    if (a && !e.node) a = td_set_requires_grad(a, true);
    return a && (!moved || empty_storage(a)) ? a : td_nil(t->cx);
}

/* ---- parts of a base ------------------------------------------------------ */

/* A geometry that owns its lists. */
typedef struct place {
    td_geom g;
    int64_t size[TD_MAX_RANK], stride[TD_MAX_RANK];
} place;

/* An offset in elements of dtype `from` in those of `to`, which differ in being real or
 * complex only. */
static int64_t offset_in(td_dtype to, td_dtype from, int64_t offset) {
    if (td__is_complex(from) == td__is_complex(to)) return offset;
    return td__is_complex(to) ? td__dim_div(offset, 2) : td__dim_mul(offset, 2);
}

/* The complex geometry g in real numbers: pairs in a new last dim. */
static const td_geom *in_pairs(const td_geom *g, place *to) {
    to->g = *g;
    to->g.dtype = (uint8_t)td__real_of((td_dtype)g->dtype);
    to->g.size = to->size;
    to->g.stride = to->stride;
    to->g.offset = td__dim_mul(g->offset, 2);
    for (int d = 0; d < g->rank; d++) {
        to->size[d] = g->size[d];
        to->stride[d] = td__dim_mul(g->stride[d], 2);
    }
    to->size[g->rank] = 2;
    to->stride[g->rank] = 1;
    to->g.rank = (uint8_t)(g->rank + 1);
    return &to->g;
}

static td_tensor *strided(td_tensor *whole, const td_geom *g) {
    return td_op_as_strided(whole, (td_ints){g->size, g->rank},
                            (td_ints){g->stride, g->rank}, td_value_int(g->offset));
}

td_tensor *td__view_at(td_tensor *whole, const td_geom *g) {
    bool  complex = td__is_complex((td_dtype)whole->dtype);
    place pairs;
    if (TD_LIKELY(complex == td__is_complex((td_dtype)g->dtype)))
        return strided(whole, g);
    if (complex) return strided(td_op_view_as_real(whole), g);
    return td_op_view_as_complex(strided(whole, in_pairs(g, &pairs)));
}

/* `whole` with `in` as its part of geometry g. */
static td_tensor *put_at(td_tensor *whole, td_tensor *in, const td_geom *g) {
    bool  from = td__is_complex((td_dtype)whole->dtype);
    bool  complex = td__is_complex((td_dtype)g->dtype);
    place pairs;
    if (TD_UNLIKELY(from && !complex)) whole = td_op_view_as_real(whole);
    if (TD_UNLIKELY(!from && complex)) {
        in = td_op_view_as_real(in);
        g = in_pairs(g, &pairs);
    }
    td_tensor *r = td_op_as_strided_scatter(whole, in, (td_ints){g->size, g->rank},
                                            (td_ints){g->stride, g->rank},
                                            td_value_int(g->offset));
    return TD_UNLIKELY(from && !complex) ? td_op_view_as_complex(r) : r;
}

/* Makes the grad_fn of as_strided(whole), with geometry g, that of t. */
static bool take_history_of(td_tensor *t, td_tensor *whole, const td_geom *g) {
    td_tensor *v = td__view_at(whole, g);
    if (td_is_nil(v)) return false;
    if (v->ag && v->ag->fn) return td__set_history(t, v->ag->fn, v->ag->nr);
    td__clear_history(t);
    return true;
}

/* Gives t the grad_fn of a view of its base, and the current version. */
static bool take_history(td_tensor *t) {
    td_geom g = td__geom_of(t);
    td_edge e;
    if (!td__edge_of(t->base, &e)) return false;
    bool ok = take_history_of(t, base_with_history(t, e), &g);
    if (ok) t->seen = td__version(t);
    if (e.node) td__node_drop(e.node);
    return ok;
}

/* Begins a scope in which ops run only for their history: the tape is the only mode,
 * with nothing below it. */
static bool tape_only_begin(td_ctx *cx, td_mode_scope *outer) {
    if (!td__scope_push(cx)) return false;
    *outer = td__modes_enter(cx, cx->tape);
    td__modes_tape(cx, NULL);
    cx->takes_fakes = TD_FAKES_INSIDE; /* a moved base has no elements */
    cx->grad_enabled = true;
    cx->inference = false;
    return true;
}

static void tape_only_end(td_ctx *cx, const td_mode_scope *outer) {
    td__modes_leave(cx, outer);
    td__scope_pop(cx, NULL, 0);
}

bool td__regenerate(td_tensor *t) {
    if (t->creation != TD_MADE_PLAIN) return fail_view(NULL, t);
    const td_listener *l = t->cx->listener;
    td_mode_scope      was;
    if (!tape_only_begin(t->cx, &was)) return false;
    bool ok = take_history(t);
    tape_only_end(t->cx, &was);
    return ok && (!l || l->touched(l->env, t));
}

/* ---- layouts ------------------------------------------------------------ */

td_tensor *td__copy_like(td_ctx *cx, td_tensor *g, const td_geom *like) {
    td_ints    stride = {like->stride, like->rank};
    td_tensor *r = td__empty_on(cx, g->st->device, td__geom_sizes(like), stride,
                                (td_dtype)g->dtype);
    if (td_is_nil(r)) return r;
    bool typed = TD_UNLIKELY(g->typed) && !td__overlaps_itself(r); /* r is plain */
    return typed ? td_op_copy(r, g, false) : td_op_copy_(r, g, false);
}

static bool same_layout(const td_tensor *t, const td_geom *n) {
    return t->rank == n->rank && td__dims_seem_eq(t->size, n->size, n->rank) &&
           td__dims_seem_eq(t->stride, n->stride, n->rank);
}

/* ---- copy_slices -------------------------------------------------------- */

/* td_node.data of a copy_slices node. */
typedef struct slices {
    td_node   *fn;    /* the writing op's node; one reference */
    int        fn_nr; /* the result of fn that is the view */
    int        self;  /* the edge that is the view in fn and the base here */
    td_geom    view;  /* geometry of the view */
    td_tensor *whole; /* in a trace: an alias of the base without history, which the
                         recorder knows, one reference; else NULL */
} slices;

/* The geometry of the written part in `whole`, a tensor laid out like the base was. */
static td_geom part_of(const td_node *n, const td_tensor *whole) {
    const slices  *s = n->data;
    const td_geom *base = &n->in_type[s->self];
    td_geom        g = s->view;
    td_dtype       dt = (td_dtype)g.dtype, own = (td_dtype)base->dtype;
    int64_t        before = td__dim_sub(g.offset, offset_in(dt, own, base->offset));
    g.offset = td__dim_add(offset_in(dt, own, whole->offset), before);
    return g;
}

/* set_ may have moved the base behind the view, or the view beyond the base: no
 * gradient of the base has the part then, wherever in its storage it begins, and
 * however many bytes that storage happens to have. */
static bool has_part(const td_node *n) {
    const slices  *s = n->data;
    const td_geom *base = &n->in_type[s->self];
    if (td__dim_lt(s->view.offset, offset_in((td_dtype)s->view.dtype,
                                             (td_dtype)base->dtype, base->offset)))
        return td__fail(n->cx, TD_E_ARG,
                        "copy_slices: the written view begins at offset %lld, before "
                        "its base, which set_ has moved to offset %lld",
                        (long long)s->view.offset, (long long)base->offset);
    bool known = s->view.dtype == base->dtype && !td__geom_is_symbolic(base) &&
                 !td__geom_is_symbolic(&s->view);
    if (!known || td__numel(s->view.rank, s->view.size) == 0) return true;
    return td__geom_last(&s->view) <= td__geom_last(base) ||
           td__fail(n->cx, TD_E_ARG,
                    "copy_slices: the written view ends at offset %lld, behind its "
                    "base, which ends at %lld; set_ or resize_ has moved one of them",
                    (long long)td__geom_last(&s->view), (long long)td__geom_last(base));
}

/* Runs the writing op's derivative on the gradient of the written part. */
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

/* For a written part with stride 0 (expanded): its elements at one address were
 * written with one value, so one of them stays. Reduces `in`; *to is its geometry. */
static td_tensor *one_of_each(td_tensor *in, const td_geom *g, place *to) {
    bool again[TD_MAX_RANK];
    int  n = td__dims_apart(g->rank, g->size, g->stride, to->size, to->stride, again);
    for (int d = g->rank - 1; d >= 0; d--)
        if (again[d]) in = td_op_select(in, d, 0);
    to->g = *g;
    to->g.size = to->size;
    to->g.stride = to->stride;
    to->g.rank = (uint8_t)n;
    return in;
}

/* The gradient of the base before the write: `whole` with `in` as the written
 * part. Out of place, except where as_strided_scatter has no second derivative. */
static td_tensor *put_back(td_node *n, td_tensor *whole, td_tensor *in) {
    const slices *s = n->data;
    place         part;
    td_geom       g;
    bool          plain = td__is_dense(whole->rank, whole->size, whole->stride);
    if (!plain && td__recording(n->cx)) {
        whole = td__copy_like(n->cx, whole, &n->in_type[s->self]);
        if (td_is_nil(whole)) return whole;
        g = part_of(n, whole);
        in = one_of_each(in, &g, &part);
        td_tensor *to = td__view_at(whole, &part.g);
        return td_is_nil(td_op_copy_(to, in, false)) ? td_nil(n->cx) : whole;
    }
    g = part_of(n, whole);
    in = one_of_each(in, &g, &part);
    return put_at(whole, in, &part.g);
}

/* td_node_kind.apply. The incoming gradient is brought to the base's layout first, so
 * that the written part can be addressed in it. */
static bool slices_apply(td_node *n, td_tensor *const *g, const bool *need,
                         td_tensor **grads) {
    const slices *s = n->data;
    td_tensor    *whole = g[0];
    if (!has_part(n)) return false;
    /* If elements of the base share addresses, no gradient can have its layout; the
     * copy_ in td__copy_like fails with that reason. */
    if (!same_layout(whole, &n->in_type[s->self]) || td__overlaps_itself(whole))
        whole = td__copy_like(n->cx, whole, &n->in_type[s->self]);
    if (td_is_nil(whole)) return false;
    td_geom    at = part_of(n, whole);
    td_tensor *part = td__view_at(whole, &at);
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

/* Which part was written, and the node of the op that wrote it, which runs inside. */
static const char *slices_describe(const td_node *n, td_history *h) {
    const slices *s = n->data;
    if (s->whole) return "a write into a view inside of a capture";
    td__history_put(h, s->fn_nr);
    td__history_put(h, s->self);
    td__history_geom(h, &s->view, true);
    td__history_geom(h, &n->in_type[s->self], true);
    return td__history_node(h, s->fn);
}

const td_node_kind td__slices_kind = {.name = "copy_slices",
                                      .describe = slices_describe,
                                      .apply = slices_apply,
                                      .release = slices_release,
                                      .destroy = slices_destroy};

/* The base after the write, over storage st, with grad_fn n. NULL after
 * td__fail. */
static td_tensor *whole_of(td_node *n, td_storage *st) {
    const slices *s = n->data;
    td_meta       m;
    td__geom_to_meta(&n->in_type[s->self], &m);
    td_tensor *a =
        s->whole ? td__tensor_alias(n->cx, s->whole) : td__tensor_over(n->cx, st, &m);
    return a && td__set_history(a, n, 0) ? a : NULL;
}

/* The view that a write into a view saved: as_strided of the written base. If set_ or
 * hooks moved it to another storage, or its elements are those of inner tensors, an
 * alias that only has the history. */
td_tensor *td__slices_view(td_node *n, td_tensor *data, bool unpacked) {
    const slices *s = n->data;
    td_tensor    *a = whole_of(n, data->st), *v;
    td_geom       g = unpacked ? s->view : td__geom_of(data);
    td_mode_scope was;
    if (!a) return NULL;
    bool in_base = !unpacked && (s->whole ? s->whole->st == data->st : !data->typed);
    if (in_base) {
        td_geom now = td__geom_of(data);
        v = td__view_at(a, &now);
        return td_is_nil(v) ? NULL : v;
    }
    /* set_ moved the view to another storage, or hooks gave a tensor of their own, or
     * the view is of a type: the base can only provide the history */
    v = td__tensor_alias(n->cx, data);
    if (!v || !empty_storage(a) || !tape_only_begin(n->cx, &was)) return NULL;
    bool ok = take_history_of(v, a, &g);
    tape_only_end(n->cx, &was);
    return ok ? v : NULL;
}

const td_node *td__slices_writer(const td_node *n) {
    return ((const slices *)n->data)->fn;
}

/* The edges of the writing op's node, with the base in place of the view. */
static bool slices_edges(td_node *n, td_node *fn, int self, td_tensor *base,
                         int64_t **ints) {
    for (int i = 0; i < fn->n_edge; i++) {
        n->edge[i] = fn->edge[i];
        n->in_type[i] = fn->in_type[i]; /* dims are in fn, which n references */
        if (i == self) n->edge[i].node = NULL;
        else if (n->edge[i].node) td__node_ref(n->edge[i].node);
    }
    td__node_type(&n->in_type[self], base, true, ints);
    return td__edge_of(base, &n->edge[self]);
}

/* The copy_slices node of a write to view t by the op of fn; NULL after td__fail. */
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
    n->stack = fn->stack;
    fn->owner = n;
    td__node_type(&s->view, t, true, &ints);
    td__node_type(&n->out_type[0], base, false, &ints);
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

/* ---- detaching in place ------------------------------------------------- */

td_tensor *td_detach_(td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    if (td_is_nil(t)) return t;
    return TD_UNLIKELY(td__is_intercepted(t->cx)) ? td_op_detach_(t)
                                                  : td__detach_in_place(t);
}

td_tensor *td__detach_in_place(td_tensor *t) {
    if (t->cx->inference || td_is_inference(t)) return t;
    if (t->base)
        return td_fail(t->cx, TD_E_GRAD,
                       "detach_: a view cannot be detached in place; use td_detach");
    td__clear_history(t);
    return t;
}
