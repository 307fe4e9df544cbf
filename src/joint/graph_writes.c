/* graph_writes.c -- inputs that the joint graph itself writes, by copy_ nodes at its
 * end, after all reads: writes of the program that record no gradient (keep_mutations;
 * the epilogue only increases versions), and writes by the backward of a custom
 * function or by a hook. */
#include "joint/joint_int.h"

/* The input whose elements event e writes: the tensor itself, or an input that covers
 * all the bytes written, such as the original of a detached alias. -1: none. */
static int input_of(const td_joint_run *r, const td_event *e) {
    const td_tensor *t = e->to;
    td_geom          at = td__geom_of(t);
    int              shows = -1;
    bool             moved = td__storage_summary(r, e->st)->meta;
    for (int i = 0; i < r->to->n_primals; i++) {
        if (!r->inputs[i].outer || r->f.in.v[r->inputs[i].nr].st != e->st) continue;
        if (!r->to->primals[i].written || td__overlaps_itself(r->inputs[i].real))
            continue;
        if (r->inputs[i].outer == t) return i;
        if (shows < 0 && !moved && td__geom_covers_bytes(&r->inputs[i].geom, &at))
            shows = i;
    }
    return shows;
}

/* The code writes before the epilogue runs, so the epilogue may have no other write of
 * the storage, and no earlier metadata write. */
static bool is_first(const td_joint_run *r, const td_event *e) {
    const td_storage_summary *st = td__storage_summary(r, e->st);
    bool meta = st->first_meta >= 0 && st->first_meta < (int)(e - r->log.all.v);
    return st->n_writes == 1 && !meta;
}

/* With keep_mutations: a write without history to an input stays in the graph if it is
 * the only write of its storage (is_first); the epilogue then only increases the
 * version. Inputs whose elements overlap are excluded, because loops store in another
 * order. */
bool td__joint_choose_writes(td_joint_run *r) {
    for (int i = 0; r->opts.keep_mutations && i < r->log.all.n; i++) {
        td_event *e = &r->log.all.v[i];
        bool      plain = e->live && e->kind == TD_EV_WRITE && e->put && !e->hist;
        int       input = plain ? input_of(r, e) : -1;
        if (input < 0 || !is_first(r, e)) continue;
        /* The epilogue writes inner tensors, in program order. */
        if (r->inputs[input].real->typed || r->inputs[input].shared) continue;
        /* Of elements that overlap, the last one written stays. Generated loops write
         * in another order, so the epilogue performs this write. */
        if (td__geom_overlaps_itself(&r->inputs[input].geom)) continue;
        td_tensor *value = td__func_given_value(&r->f, r->inputs[input].nr);
        if (!value) return false;
        r->inputs[input].write = td__record_value(&r->rec, &value, "an update");
        if (!r->inputs[input].write) return false;
        e->how = TD_HOW_BUMP;
        td__storage_summary(r, e->st)->n_writes--;
        e->put = NULL;
    }
    return true;
}

/* Appends copy_(input, v), which has the source location of the node that made v. */
static bool add_write(td_joint_run *r, int input, td_gval *v) {
    td_graph *g = r->to->g;
    td_garg   in[2] = {td__garg_value(g->inputs.v[input]), td__garg_value(v)};
    td_gnode *n = td__graph_op(g, TD_OP_copy_, in, 2, 1);
    if (!n) return false;
    n->out[0]->type = g->inputs.v[input]->type;
    if (v->node) n->here = v->node->here;
    if (v->node) n->stack = v->node->stack;
    if (v->node) n->scope = v->node->scope;
    return true;
}

bool td__joint_add_writes(td_joint_run *r) {
    for (int i = 0; i < r->to->n_primals; i++)
        if (r->inputs[i].write && !add_write(r, i, r->inputs[i].write)) return false;
    return true;
}

/* The backward wrote input i, which is input nr of the functional mode. */
static bool add_late_write(td_joint_run *r, int i, int nr) {
    td_tensor *t = td__func_given_value(&r->f, nr);
    td_gval   *v = t ? td__record_value(&r->rec, &t, "an update") : NULL;
    return v && add_write(r, i, v);
}

/* The graph writes a storage by `copies` nodes, one of them to input i, and the
 * backward wrote it `writes` times: adds the difference to its version. */
static bool count_late_writes(td_joint_run *r, int i, uint64_t writes, int copies) {
    td_graph *g = r->to->g;
    int64_t   more = (int64_t)writes - copies;
    td_garg   in[2] = {td__garg_value(g->inputs.v[i]), td__garg_int(more)};
    if (more == 0) return true;
    td_gnode *n = td__graph_op(g, TD_OP__bump, in, 2, 1);
    if (n) n->out[0]->type = g->inputs.v[i]->type;
    return n != NULL;
}

/* Did the backward write input i? A tensor that is passed twice is written once. */
static bool is_late(const td_joint_run *r, int i) {
    const td_traced_input *in = &r->inputs[i];
    return in->outer && r->to->primals[i].same == i &&
           td__func_writes(&r->f, in->nr) != in->before;
}

/* Counts the writes of the storage of input i, if i is the first written input in
 * it. */
static bool count_storage(td_joint_run *r, int i) {
    const td_storage *st = r->inputs[i].outer->st;
    int               copies = 0;
    for (int k = 0; k < r->to->n_primals; k++) {
        if (!is_late(r, k) || r->inputs[k].outer->st != st) continue;
        if (k < i) return true;
        copies++;
    }
    return count_late_writes(r, i, atomic_load(&st->version) - r->inputs[i].version,
                             copies);
}

bool td__joint_fail_twice(const td_joint_run *r, int i) {
    return td__fail(r->cx, TD_E_UNSUPPORTED,
                    "@%.60s: unsupported: input %d is written in forward, and in "
                    "backward by a custom function or a hook. Pass a clone of "
                    "it, or let one of the two write a clone",
                    r->program->name, i);
}

/* Primals and tangents that the backward wrote are written by the backward half. */
bool td__joint_add_late_writes(td_joint_run *r) {
    int n = r->to->n_primals;
    for (int i = 0; i < n; i++) {
        if (!is_late(r, i)) continue;
        if (r->to->primals[i].written) return td__joint_fail_twice(r, i);
        if (!add_late_write(r, i, r->inputs[i].nr)) return false;
    }
    for (int i = 0; i < r->to->n_tangents; i++) {
        int nr = r->first_tangent + i;
        if (td__func_writes(&r->f, nr) && !add_late_write(r, n + i, nr)) return false;
    }
    for (int i = 0; i < n; i++)
        if (is_late(r, i) && !count_storage(r, i)) return false;
    for (int i = 0; i < r->to->n_tangents; i++) {
        int writes = td__func_writes(&r->f, r->first_tangent + i);
        if (writes && !count_late_writes(r, n + i, (uint64_t)writes, 1)) return false;
    }
    return true;
}
