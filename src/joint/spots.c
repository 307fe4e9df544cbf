/* spots.c -- which inputs and results are one tensor, and which lie in one storage,
 * looked up instead of searched for. */
#include "joint/joint_int.h"

static const td_joint_spot nowhere = {-1, -1, -1, -1, 0, NULL};

static td_joint_spot *spot_for(td_joint_run *r, const void *of) {
    td_joint_spot *s = td__ptrmap_get(&r->spots, of);
    if (s) return s;
    s = td__arena_alloc(&r->to->arena, sizeof *s);
    if (!s || !td__ptrmap_put(&r->spots, of, s)) return NULL;
    *s = nowhere;
    return s;
}

const td_joint_spot *td__joint_spot(const td_joint_run *r, const void *of) {
    const td_joint_spot *s = td__ptrmap_get(&r->spots, of);
    return s ? s : &nowhere;
}

td_tensor *td__joint_list(td_joint_run *r, const td_tensor *t) {
    td_joint_spot *s = spot_for(r, t->st);
    td_meta        m = {.dtype = (td_dtype)t->dtype, .rank = 1, .stride = {1}};
    if (!s) return td__fail_memory(r->cx), NULL;
    if (td__dim_is_sym(td__storage_span(t->st)))
        return td__fail(r->cx, TD_E_UNSUPPORTED,
                        "@%.60s: a result shows a part of bytes whose size is not a "
                        "number",
                        r->program->name),
               NULL;
    m.size[0] = td__storage_span(t->st) / (int64_t)td__dtype_bytes[m.dtype];
    if (!s->all) s->all = td__tensor_over(r->cx, t->st, &m);
    return s->all;
}

static bool note_input(td_joint_run *r, int i) {
    const td_tensor *t = r->outer[i];
    td_joint_spot   *s = spot_for(r, t), *at = spot_for(r, t->st);
    td_joint_spot   *came = spot_for(r, r->f.in.v[r->nr[i]].st);
    if (!s || !at || !came) return td__fail_memory(r->cx);
    if (s->input < 0) s->input = i;
    if (at->at_end < 0) at->at_end = i;
    if (came->came < 0) came->came = i;
    return true;
}

static bool note_result(td_joint_run *r, int i) {
    const td_tensor *t = r->out[i].kind == TD_K_TENSOR ? r->out[i].u.t : NULL;
    if (!t) return true;
    td_joint_spot *s = spot_for(r, t), *at = spot_for(r, t->st);
    if (!s || !at) return td__fail_memory(r->cx);
    if (s->result >= 0) return true;
    s->result = i;
    at->sharers++;
    return true;
}

bool td__joint_find_spots(td_joint_run *r) {
    for (int i = 0; i < r->to->n_primals; i++)
        if (r->outer[i] && !note_input(r, i)) return false;
    for (int i = 0; i < r->to->n_results; i++)
        if (!note_result(r, i)) return false;
    return true;
}
