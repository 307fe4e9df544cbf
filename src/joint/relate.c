/* relate.c -- how the inputs of a program are related before it runs: whoever runs it
 * once more, on copies of them, makes the copies related alike. */
#include "joint/joint_int.h"

/* Which inputs are one tensor. */
static bool find_same(td_joint_run *r) {
    td_ptrmap first = {0}; /* by tensor: 1 + the first input it is */
    bool      ok = true;
    for (int i = 0; ok && i < r->to->n_primals; i++) {
        uintptr_t at = r->real[i] ? (uintptr_t)td__ptrmap_get(&first, r->real[i]) : 0;
        r->to->related[i] = (td_relation){.same = at ? (int)at - 1 : i, .base = -1};
        if (!at && r->real[i])
            ok = td__ptrmap_put(&first, r->real[i], (void *)(uintptr_t)(i + 1));
    }
    td__ptrmap_free(&first);
    return ok || td__fail_memory(r->cx);
}

/* Where no history passes, the modes of views say what may be done with them. */
static void restore_modes(td_relation *o, const td_tensor *t) {
    for (int i = 0; i < o->n_views; i++) {
        o->views[i].inference = t->creation == TD_MADE_INFERENCE;
        o->views[i].grad = !o->views[i].inference && t->creation != TD_MADE_NO_GRAD;
    }
}

static bool find_base(td_joint_run *r, int i) {
    td_relation *o = &r->to->related[i];
    td_tensor   *t = r->outer[i];
    td_result    made = {.stale = td__joint_is_stale(t)};
    for (int k = 0; t->base && k < r->to->n_primals; k++) {
        if (r->outer[k] != t->base) continue;
        if (!td__geom_copy(r->cx, &r->to->arena, &made.geom, t) ||
            !td__joint_views(r, &made, t, t->base))
            return false;
        o->base = k;
        o->views = made.views;
        o->n_views = made.n_views;
        if (!td__needs_grad(t->base)) restore_modes(o, t);
        return true;
    }
    return true;
}

bool td__joint_relate(td_joint_run *r, const int *shared) {
    if (!find_same(r)) return false;
    for (int i = 0; i < r->to->n_primals; i++) {
        r->to->related[i].shared = shared[i];
        if (shared[i] && r->outer[i] && !find_base(r, i)) return false;
    }
    return true;
}
