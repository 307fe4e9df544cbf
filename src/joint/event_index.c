/* event_index.c -- a summary of the log by tensor and by storage, made once, so that
 * passes over the events need not search them. */
#include "joint/joint_int.h"

/* The row of t, added if it is missing. NULL after td__fail. */
static td_tensor_summary *add_tensor(td_joint_run *r, const td_tensor *t) {
    td_tensor_summary *a = td__ptrmap_get(&r->tensors, t);
    if (a) return a;
    a = td__arena_alloc(&r->log.arena, sizeof *a);
    if (!a || !td__ptrmap_put(&r->tensors, t, a)) return td__fail_memory(r->cx), NULL;
    *a = (td_tensor_summary){.input = -1, .result = -1};
    return a;
}

/* The row of a storage, likewise. */
static td_storage_summary *add_storage(td_joint_run *r, const td_storage *st) {
    td_storage_summary *a = td__ptrmap_get(&r->storages, st);
    if (a) return a;
    a = td__arena_alloc(&r->log.arena, sizeof *a);
    if (!a || !td__ptrmap_put(&r->storages, st, a)) return td__fail_memory(r->cx), NULL;
    *a = (td_storage_summary){.last_write = -1, .first_meta = -1};
    return a;
}

/* The caller can observe inputs from the beginning. One tensor passed twice is recorded
 * under its first index. */
static bool index_inputs(td_joint_run *r) {
    for (int i = 0; i < r->to->n_primals; i++) {
        td_tensor_summary *a =
            r->inputs[i].outer ? add_tensor(r, r->inputs[i].outer) : NULL;
        if (r->inputs[i].outer && !a) return false;
        if (a && a->input < 0) a->input = i;
        if (a) a->named = true;
    }
    return true;
}

/* Records the first index of each tensor among the results; later ones return the same
 * tensor. */
static bool index_results(td_joint_run *r) {
    for (int i = 0; i < r->to->n_results; i++) {
        if (r->out[i].kind != TD_K_TENSOR || !r->out[i].u.t) continue;
        td_tensor_summary *a = add_tensor(r, r->out[i].u.t);
        if (!a) return false;
        if (a->result < 0) a->result = i;
    }
    return true;
}

/* Records the effects of event e on its tensor, its base, the views it makes, and the
 * storages before and after. */
bool td__log_index_event(td_joint_run *r, const td_event *e) {
    bool               change = e->kind == TD_EV_WRITE || e->kind == TD_EV_META;
    td_tensor_summary *t = add_tensor(r, e->t), *of = NULL;
    if (!t) return false;
    t->touched |= change || e->kind == TD_EV_FLAG;
    t->observed |= !change && e->kind != TD_EV_MADE;
    t->named |= e->kind == TD_EV_MADE;
    if (e->t->base && !(of = add_tensor(r, e->t->base))) return false;
    if (e->t->base) of->observed = true;
    for (int k = 0; e->kind == TD_EV_VIEW && k < e->n_out; k++) {
        if (!(of = add_tensor(r, e->out[k]))) return false;
        of->named = true;
    }
    td_storage_summary *was = add_storage(r, e->was), *st = add_storage(r, e->st);
    if (!was || !st) return false;
    if (change) was->changed = st->changed = true;
    if (e->kind == TD_EV_META) was->meta = st->meta = true;
    if (e->kind == TD_EV_FLAG) st->flagged = true;
    return true;
}

bool td__log_index(td_joint_run *r) {
    td__log_index_free(r);
    if (!index_inputs(r) || !index_results(r)) return false;
    for (int i = 0; i < r->log.all.n; i++)
        if (!td__log_index_event(r, &r->log.all.v[i])) return false;
    return true;
}

/* Counts the live event i for the storage of its tensor before it and after it. */
static void index_live(td_joint_run *r, const td_event *e, int i) {
    td_storage_summary *at[2] = {td__ptrmap_get(&r->storages, e->st),
                                 td__ptrmap_get(&r->storages, e->was)};
    for (int k = 0; k < (at[0] == at[1] ? 1 : 2); k++) {
        if (e->kind == TD_EV_META && at[k]->first_meta < 0) at[k]->first_meta = i;
        if (e->kind == TD_EV_WRITE && e->how != TD_HOW_BUMP) at[k]->n_writes++;
    }
    if (e->kind == TD_EV_WRITE && e->how != TD_HOW_BUMP) at[0]->last_write = i;
    if (e->kind == TD_EV_META)
        ((td_tensor_summary *)td__ptrmap_get(&r->tensors, e->t))->meta_written = true;
}

void td__log_index_live(td_joint_run *r) {
    for (int i = 0; i < r->log.all.n; i++)
        if (r->log.all.v[i].live) index_live(r, &r->log.all.v[i], i);
}

void td__log_index_free(td_joint_run *r) {
    td__ptrmap_free(&r->tensors);
    td__ptrmap_free(&r->storages);
    r->tensors = r->storages = (td_ptrmap){0};
}

const td_tensor_summary *td__tensor_summary(const td_joint_run *r, const td_tensor *t) {
    static const td_tensor_summary nothing = {.input = -1, .result = -1};
    const td_tensor_summary       *a = td__ptrmap_get(&r->tensors, t);
    return a ? a : &nothing;
}

td_storage_summary *td__storage_summary(const td_joint_run *r, const td_storage *st) {
    return td__ptrmap_get(&r->storages, st);
}
