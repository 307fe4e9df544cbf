/* tangents.c -- what a gradient that comes in from outside looks like. */
#include "joint/joint_int.h"
#include "rules/geom.h"

void td__tangent_strides(const td_tangent *t, const int64_t *size, int64_t *stride) {
    int64_t step = 1;
    for (int k = t->geom.rank - 1; k >= 0; k--) {
        stride[t->order[k]] = step;
        step = td__dim_mul(step, td__dim_max(size[t->order[k]], 1));
    }
}

/* The order of dims that a gradient has which the engine makes for t (ones_like), and
 * most ops that follow t: its own, so that derivatives find the layout they find in
 * eager. `stride` is room for it. */
static void find_order(td_tangent *to, const td_tensor *t, int64_t *stride) {
    td__strides_like(t->rank, t->size, t->stride, stride);
    for (int i = 0; i < t->rank; i++) {
        int k = i;
        for (; k > 0 && td__dim_seems_lt(stride[to->order[k - 1]], stride[i]); k--)
            to->order[k] = to->order[k - 1];
        to->order[k] = (uint8_t)i;
    }
}

bool td__joint_want(td_joint_run *r, int index, td_tensor *t) {
    td_joint   *j = r->to;
    td_tangent *to = &j->tangents[j->n_tangents];
    int64_t    *stride =
        td__arena_alloc(&j->arena, sizeof *stride * (size_t)(t->rank + 1));
    *to = (td_tangent){.index = index};
    to->order = td__arena_alloc(&j->arena, (size_t)t->rank + 1);
    if (!stride || !to->order) return td__fail_memory(r->cx);
    if (!td__geom_copy(r->cx, &j->arena, &to->geom, t)) return false;
    find_order(to, t, stride);
    td__tangent_strides(to, t->size, stride);
    to->geom.stride = stride;
    to->geom.offset = 0;
    r->roots[j->n_tangents++] = t;
    return true;
}
