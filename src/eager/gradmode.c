/* gradmode.c -- grad and inference mode of the context; requires_grad, is_leaf
 * and .grad of tensors. */
#include "eager/eager_int.h"

#include <string.h>

/* ---- modes -------------------------------------------------------------- */

bool td_grad_enabled(const td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return false;
    return cx->grad_enabled;
}
bool td_inference_enabled(const td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return false;
    return cx->inference;
}
void td_set_grad_enabled(td_ctx *cx, bool on) {
    if (!TD_ENTER_CTX(cx)) return;
    cx->grad_enabled = on;
}

static td_grad_mode change(td_ctx *cx, bool grad, bool inference) {
    td_grad_mode was = {cx->grad_enabled, cx->inference};
    cx->grad_enabled = grad;
    cx->inference = inference;
    return was;
}

td_grad_mode td_no_grad_begin(td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return (td_grad_mode){0};
    return change(cx, false, cx->inference);
}
void td_no_grad_end(td_ctx *cx, td_grad_mode was) {
    if (!TD_ENTER_CTX(cx)) return;
    change(cx, was.grad, was.inference);
}
td_grad_mode td_enable_grad_begin(td_ctx *cx) {
    if (!TD_ENTER_CTX(cx)) return (td_grad_mode){0};
    return change(cx, true, cx->inference);
}
void td_enable_grad_end(td_ctx *cx, td_grad_mode was) {
    if (!TD_ENTER_CTX(cx)) return;
    change(cx, was.grad, was.inference);
}
td_grad_mode td_inference_begin(td_ctx *cx, bool on) {
    if (!TD_ENTER_CTX(cx)) return (td_grad_mode){0};
    return change(cx, !on, on);
}
void td_inference_end(td_ctx *cx, td_grad_mode was) {
    if (!TD_ENTER_CTX(cx)) return;
    change(cx, was.grad, was.inference);
}

td_modes td__modes_of(const td_ambient *a) {
    return (td_modes){a->grad_enabled, a->inference, a->default_dtype,
                      td__autocast_state(a), a->device};
}

void td__modes_resume(td_ctx *cx, const td_ambient *from) {
    change(cx, from->grad_enabled, from->inference);
    cx->default_dtype = from->default_dtype;
    cx->device = from->device;
}

const char *td__modes_left(const td_ctx *cx, const td_ambient *from) {
    td_modes now = td__modes_of(&cx->ambient), was = td__modes_of(from);
    if (now.autocast != was.autocast || cx->autocast.depth != from->autocast.on)
        return "autocast";
    if (now.device != was.device) return "the default device";
    return now.default_dtype != was.default_dtype ? "the default dtype" : NULL;
}

bool td_set_anomaly(td_ctx *cx, bool on) {
    if (!TD_ENTER_CTX(cx)) return false;
    bool was = cx->anomaly;
    if (td__may_change(cx, "td_set_anomaly", "anomaly mode")) cx->anomaly = on;
    return was;
}

/* ---- flags -------------------------------------------------------------- */

bool td_requires_grad(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return false;
    const td_tensor *copy = td__seen_as(t);
    return td__needs_grad(copy ? copy : t);
}
bool td_is_inference(const td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return false;
    const td_tensor *copy = td__seen_as(t);
    return ((copy ? copy : t)->flags & TD_TF_INFERENCE) != 0;
}

bool td_is_leaf(td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return true;
    td_tensor *copy = td__seen_as(t);
    return td__is_leaf(copy ? copy : t);
}

bool td__is_leaf(td_tensor *t) {
    td_node *fn = NULL;
    return td__fn_of(t, &fn) && !fn;
}

bool td__is_intercepted(const td_ctx *cx) {
    const td_mode *m = cx->top;
    while (m && m != cx->tape) m = m->below;
    return m && cx->top != cx->tape;
}

td_tensor *td_set_requires_grad(td_tensor *t, bool on) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    if (TD_UNLIKELY(td__is_intercepted(t->cx))) return td_op_requires_grad_(t, on);
    return td__set_requires_grad(t, on);
}

td_tensor *td__set_requires_grad(td_tensor *t, bool on) {
    td_ctx *cx = t->cx;
    if (on && !td__is_differentiable((td_dtype)t->dtype))
        return td_fail(cx, TD_E_GRAD,
                       "requires_grad: only floating point and complex tensors can "
                       "require grad, got %s",
                       td__type_str(t));
    if (on && t->flags & TD_TF_INFERENCE && !cx->inference)
        return td_fail(
            cx, TD_E_GRAD,
            "requires_grad: an inference tensor cannot require grad outside of "
            "inference mode; use td_clone of it");
    if (t->ag && t->ag->fn) {
        if (on) return t;
        return td_fail(
            cx, TD_E_GRAD,
            "requires_grad: only leaves can stop requiring grad; %s is a result of %s. "
            "Use td_detach",
            td__type_str(t), t->ag->fn->name);
    }
    if (!on && !t->ag) return t;
    if (!td__state(t)) return &cx->nil;
    t->ag->wants = on;
    t->flags =
        (uint8_t)(on ? t->flags | TD_TF_NEEDS_GRAD : t->flags & ~TD_TF_NEEDS_GRAD);
    return t;
}

/* ---- .grad -------------------------------------------------------------- */

unsigned td__grad_use(const td_tensor *t) { return t->ag ? t->ag->use : 0; }
bool     td__grad_at_entry(td_tensor *t, td_tensor *g) {
        if (!td__state(t)) return false;
    if (t->ag->grad) td__unref(t->ag->grad);
    t->ag->grad = td__ref(g);
        t->ag->use = 0;
        return true;
}
void td__grad_want(td_tensor *t) {
    if (t->ag) t->ag->use |= TD_GRAD_WANTED;
}
void td__grad_reach(td_tensor *t) {
    if (t->ag) t->ag->use |= TD_GRAD_REACHED;
}
td_tensor *td__own_grad(const td_tensor *t) { return t->ag ? t->ag->grad : NULL; }

td_tensor *td__stand_in(td_tensor *t) {
    const td_ctx *cx = t->cx;
    for (td_mode *m = cx->fake ? cx->top : NULL; m; m = m->below)
        if (m->stand_in) return m->stand_in(m, t);
    return t;
}

/* Notes how .grad is used (td_grad_use). After it was replaced, its value at
 * entry no longer matters, so later reads are not noted. */
static bool note(td_tensor *t, td_grad_use use) {
    if (!t->ag && !(t->cx->fake && td__state(t))) return !t->cx->fake;
    if (!(t->ag->use & TD_GRAD_SET)) t->ag->use |= (uint8_t)use;
    return true;
}

bool td__grad_read(td_tensor *t) { return note(t, TD_GRAD_READ); }

/* The nil tensor that stands for a missing .grad; it remembers where it was read, for
 * the error of an op that uses it. */
static td_tensor *no_gradient(td_tensor *t) {
    td_ctx *cx = t->cx;
    cx->no_gradient_at = td_here;
    cx->no_gradient_leaf = td_is_leaf(t);
    return &cx->no_gradient;
}

bool td_has_grad(td_tensor *t) {
    return TD_ENTER(t, TENSOR) && !td_is_nil((td_grad_of)(t));
}

td_tensor *(td_grad_of)(td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return TD_NIL_BY(t, TENSOR);
    if (TD_UNLIKELY(td_is_nil(t = td__stand_in(t))) || !note(t, TD_GRAD_READ))
        return &t->cx->nil;
    td_tensor *g = t->ag ? t->ag->grad : NULL;
    if (!g) return no_gradient(t);
    if (g->slot >= 0 || g->kept > 0) return g;
    td__ref(g);
    if (td__scope_own(g)) return g;
    td__unref(g);
    return &t->cx->nil;
}

bool td_set_grad(td_tensor *t, td_tensor *grad) {
    if (!TD_ENTER(t, TENSOR)) return false;
    if (td_is_nil(t = td__stand_in(t))) return false;
    if (grad && grad->tag == (TD_TAG_FREED | TD_H_TENSOR))
        return td__enter_in(t->cx, grad, TD_H_TENSOR, __func__);
    if (!grad || td_is_nil(grad)) {
        td_zero_grad(t);
        return true;
    }
    grad = td__stand_in(grad);
    if (td_is_nil(grad)) return false;
    if (grad == t)
        return td__fail(t->cx, TD_E_GRAD,
                        "td_set_grad: the gradient is the tensor itself; pass another "
                        "tensor");
    if (grad->cx != t->cx)
        return td__fail(t->cx, TD_E_ARG,
                        "td_set_grad: the gradient belongs to another context than the "
                        "tensor");
    if (TD_IS_KEPT(grad)) return td__fail_kept(t->cx, "td_set_grad", grad);
    if (grad->rank != t->rank || !td__dims_eq(grad->size, t->size, t->rank) ||
        grad->dtype != t->dtype)
        return td__fail(t->cx, TD_E_GRAD,
                        "td_set_grad: the gradient is %s, but the tensor is %s; dtype "
                        "and sizes must be equal",
                        td__type_str(grad), td__type_str(t));
    if (!td__state(t) || !note(t, TD_GRAD_SET)) return false;
    td__ref(grad);
    if (t->ag->grad) td__unref(t->ag->grad);
    t->ag->grad = grad;
    return true;
}

void td_zero_grad(td_tensor *t) {
    if (!TD_ENTER(t, TENSOR)) return;
    if (td_is_nil(t = td__stand_in(t)) || !note(t, TD_GRAD_SET)) return;
    td_tensor *g = t->ag ? t->ag->grad : NULL;
    if (!g) return;
    t->ag->grad = NULL;
    td__unref(g);
}
