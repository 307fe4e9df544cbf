/* typed_inputs.c -- primals and tangents of a type in a joint trace. The input is a
 * value of the graph, and so is each of its inner tensors, by a node _inner: the type
 * computes with these. What it makes of them enters the graph by nodes _wrap
 * (ops/typed.c), so that outputs of a type need nothing. */
#include "core/typed.h"
#include "joint/joint_int.h"

/* Gives t, a recorded value, other inner tensors. */
static bool replace_inner(td_tensor *t, td_tensor *const *inner) {
    td_typed *d = td__typed_make(t->cx, t->typed->type, inner, t->typed->metadata);
    if (!d) return false;
    td__typed_set(t, d);
    td__typed_drop(d);
    return true;
}

/* Types nest: an inner tensor may be of a type, too. */
static bool unwrap(td_ctx *cx, td_tensor *t) {
    td_tensor *inner[TD_MOST_INNER];
    for (int i = 0; i < t->typed->n; i++) {
        td_value in[2] = {td_value_tensor(t), td_value_int(i)};
        inner[i] = td__call1(cx, TD_OP__inner, in, 2);
        if (td_is_nil(inner[i])) return false;
        if (inner[i]->typed && !unwrap(cx, inner[i])) return false;
    }
    return replace_inner(t, inner);
}

bool td__joint_unwrap(td_joint_run *r, td_tensor *t) {
    td_mode_scope outer = td__modes_enter_plain(r->cx, &r->rec.mode);
    r->cx
        ->handling++; /* inner tensors in their own storages, not as a body gets them */
    bool ok = unwrap(r->cx, t);
    r->cx->handling--;
    td__modes_leave(r->cx, &outer);
    return ok;
}

bool td__joint_type_tangent(td_joint_run *r, td_tensor *t, const td_tensor *value) {
    const td_typed *of = value->typed;
    td_tensor      *inner[TD_MOST_INNER];
    for (int i = 0; i < of->n; i++) {
        td_meta m;
        int64_t like[TD_MAX_RANK];
        td__tensor_meta(of->inner[i], &m);
        td__strides_like(m.rank, m.size, m.stride, like);
        for (int d = 0; d < m.rank; d++) m.stride[d] = like[d];
        m.offset = 0;
        inner[i] = td__tensor_make(r->cx, &m, true);
        if (!inner[i]) return false;
        if (of->inner[i]->typed && !td__joint_type_tangent(r, inner[i], of->inner[i]))
            return false;
    }
    td_typed *d = td__typed_make(r->cx, of->type, inner, of->metadata);
    if (!d) return false;
    td__typed_set(t, d);
    td__typed_drop(d);
    return true;
}

/* ---- inner tensors that share elements ---------------------------------- */

/* The storages of the inputs and their inner tensors so far. */
typedef struct sharing {
    const td_joint_run *r;
    td_ptrmap           first; /* by bytes: 1 + the first input */
    int                 input;
    bool                typed; /* the input is of a type */
} sharing;

static bool is_written(const td_joint_run *r, int i) {
    return r->to->primals[i].written || r->to->primals[r->to->primals[i].same].written;
}

/* Two plain inputs that share bytes are aliases that the trace knows. */
static bool note_leaf(void *env, td_tensor *leaf) {
    sharing            *s = env;
    const td_joint_run *r = s->r;
    const void *bytes = leaf->st->data ? leaf->st->data : (const void *)leaf->st;
    int         was = (int)(uintptr_t)td__ptrmap_get(&s->first, bytes) - 1;
    if (was < 0)
        return td__ptrmap_put(&s->first, bytes, (void *)(uintptr_t)(s->input + 1)) ||
               td__fail_memory(r->cx);
    bool plain = !s->typed && !r->inputs[was].real->typed;
    if (plain || !(is_written(r, was) || is_written(r, s->input))) return true;
    return td__fail(r->cx, TD_E_UNSUPPORTED,
                    "@%.60s: unsupported: an inner tensor shares elements between "
                    "inputs %d and %d, one of which the call writes; pass clones",
                    r->program->name, was, s->input);
}

bool td__joint_check_inner(const td_joint_run *r) {
    sharing s = {.r = r};
    bool    ok = true;
    if (TD_LIKELY(r->cx->n_typed == 0)) return true;
    for (int i = 0; ok && i < r->to->n_primals; i++) {
        td_tensor *t = r->inputs[i].real;
        if (!t || r->to->primals[i].same != i) continue;
        s.input = i;
        s.typed = t->typed != NULL;
        ok = td__typed_leaves(t, note_leaf, &s);
    }
    td__ptrmap_free(&s.first);
    return ok;
}
