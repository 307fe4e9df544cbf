/* typed_inputs.c -- tangents of a type in a joint trace, and inner tensors that inputs
 * share. func/typed_values.c makes inner tensors values of the graph. */
#include "core/typed.h"
#include "joint/joint_int.h"

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
