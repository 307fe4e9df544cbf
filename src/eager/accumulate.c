/* accumulate.c -- the accumulation node of a leaf, where gradients end, and the
 * rules by which a gradient becomes the leaf's .grad: taken over, copied or
 * added. */
#include "core/typed.h"
#include "eager/eager_int.h"
#include "ops/call.h"

td_node *td__known_accumulator(const td_tensor *leaf) {
    return leaf->ag ? leaf->ag->accum : NULL;
}

/* The node that adds to a leaf's .grad; one per leaf as long as anything references it.
 * It owns a reference to the leaf. Its sequence number is the highest, so that it runs
 * as soon as its gradient is complete. */
td_node *td__accumulator(td_tensor *leaf) {
    td_autograd *s = td__state(leaf);
    if (!s) return NULL;
    if (s->accum) return td__node_ref(s->accum);
    td_node_plan p = {.n_out = 1, .n_ints = leaf->rank};
    int64_t     *ints;
    td_node     *n = td__node_make(leaf->cx, &td__accumulate_kind, &p, &ints, NULL);
    if (!n) return NULL;
    td__node_type(&n->out_type[0], leaf, false, &ints);
    n->data = td__ref(leaf);
    n->seq = UINT64_MAX; /* runs as soon as it is ready */
    s->accum = n;
    return n;
}

void td__accumulator_renew(td_tensor *leaf) {
    td_autograd *s = leaf->ag;
    if (!s || !s->accum) return;
    const td_geom *was = &s->accum->out_type[0];
    if (was->rank == leaf->rank && td__dims_seem_eq(leaf->size, was->size, was->rank))
        return;
    if (s->borrows) td__node_drop(s->accum);
    s->borrows = false;
    s->accum = NULL;
}

static bool obeys_layout(const td_tensor *g, const td_tensor *t);

/* Have the inner tensors of g the layout of a gradient of t? */
static bool inner_obey(const td_tensor *g, const td_tensor *t) {
    bool obey = true;
    for (int i = 0; obey && i < g->typed->n; i++)
        obey = obeys_layout(g->typed->inner[i], td__typed_inner_like(g, t, i));
    return obey;
}

/* Does g have the layout a .grad of t must have? The strides of t if t is dense, else
 * row-major. Dims that t lost under no_grad must have size 1. */
static bool obeys_layout(const td_tensor *g, const td_tensor *t) {
    if (TD_UNLIKELY(g->typed) && !inner_obey(g, t)) return false;
    if (!t->plain && !td__is_packed(t->rank, t->size, t->stride))
        return td__is_dense(g->rank, g->size, g->stride);
    for (int i = 0; i < g->rank; i++)
        if (g->size[i] != 1 &&
            (i >= t->rank || !td__dim_same(g->stride[i], t->stride[i])))
            return false;
    return true;
}

/* A copy of g in that layout; nil after td__fail. */
static td_tensor *copy_for(td_tensor *t, td_tensor *g) {
    int64_t stride[TD_MAX_RANK];
    if (TD_UNLIKELY(g->typed)) {
        td_tensor *r = td__typed_empty(g, t);
        return td_is_nil(r) ? r : td_op_copy_(r, g, false);
    }
    if (!td__is_packed(t->rank, t->size, t->stride)) return td_op_clone(g, true);
    if (!td__expand_strides(g, t->rank, t->size, stride)) {
        td__fail(t->cx, TD_E_SHAPE,
                 "backward: the gradient of a leaf has shape %s, but the leaf has "
                 "shape %s since a write of its metadata; call backward before that "
                 "write, or change the shape of a view of the leaf",
                 td__sizes_str(g->rank, g->size), td__sizes_str(t->rank, t->size));
        return &t->cx->nil;
    }
    td_tensor *r = td__empty_on(t->cx, t->st->device, td__sizes(t), td__strides(t),
                                (td_dtype)g->dtype);
    return td_is_nil(r) ? r : td_op_copy_(r, g, false);
}

bool td__grad_fits(const td_tensor *leaf, const td_tensor *g) {
    return !leaf->ag->grad && !td__recording(leaf->cx) && g->refs == 1 &&
           obeys_layout(g, leaf);
}

static bool has_sizes_of(const td_tensor *g, const td_tensor *t) {
    for (int i = 0; i < t->rank; i++)
        if (!td__dim_same(g->size[i], t->size[i])) return false;
    return g->rank == t->rank;
}

/* A gradient that requires grad, such as a view of a tangent that does, becomes the
 * leaf's without its history. Takes over g. */
static bool take(td_tensor *leaf, td_tensor *g) {
    td_tensor *own = td__needs_grad(g) ? td_op_detach(g) : g;
    if (own != g) {
        td__unref(g);
        if (td_is_nil(own)) return false;
        td__ref(own);
    }
    leaf->ag->grad = own;
    return true;
}

/* The first gradient. It is taken over without a copy if nothing else
 * references it and the layout is right. In a trace the sizes must be the
 * leaf's: a later stage could not foresee others. Takes over g. */
static bool first(td_tensor *leaf, td_tensor *g) {
    if (td__grad_fits(leaf, g)) {
        if (leaf->cx->fake && !has_sizes_of(g, leaf)) {
            td__unref(g);
            return td__fail(
                leaf->cx, TD_E_UNSUPPORTED,
                "unsupported in a captured body: backward reaches a leaf "
                "that changed shape under no_grad after it was used; change "
                "the shape of a view of it instead");
        }
        return take(leaf, g);
    }
    td_tensor *own = copy_for(leaf, g);
    td__unref(g);
    if (td_is_nil(own)) return false;
    leaf->ag->grad = td__ref(own);
    return true;
}

/* Takes over the reference to g. In place unless the sum is recorded (create_graph), as
 * in PyTorch, or a gradient of another type (tandem/type.h) is added. */
bool td__grad_accumulate(td_tensor *leaf, td_tensor *g) {
    td_ctx *cx = leaf->cx;
    if (!td__state(leaf)) return td__unref(g), false;
    td_tensor *old = leaf->ag->grad;
    bool       came = !(leaf->ag->use & TD_GRAD_SET);
    leaf->ag->use |=
        (uint8_t)(came ? TD_GRAD_ACCUMULATED | TD_GRAD_READ : TD_GRAD_ACCUMULATED);
    if (!old) return first(leaf, g);
    bool in_place = !td__recording(cx) && td__typed_same_inside(old->typed, g->typed) &&
                    !(old->typed && old->typed->type->opts.varies);
    td_tensor *sum =
        td__op2(cx, in_place ? TD_OP_add_ : TD_OP_add, old, td_value_tensor(g));
    td__unref(g);
    if (td_is_nil(sum)) return false;
    if (in_place) return true;
    leaf->ag->grad = td__ref(sum);
    td__unref(old);
    return true;
}

/* Not used by the engine, which calls td__grad_accumulate through run_leaf. */
static bool accumulate_apply(td_node *n, td_tensor *const *g, const bool *need,
                             td_tensor **grads) {
    (void)need, (void)grads;
    return td__grad_accumulate(n->data, td__ref(g[0]));
}

const td_node_kind td__accumulate_kind = {.name = "accumulate",
                                          .apply = accumulate_apply};
