/* writes.c -- puts what a program wrote into its inputs: elements, geometry, history,
 * and the version counters eager would have left. */
#include "runtime/plan.h"

#include <string.h>

static td_tensor *input(const td_pcall *c, const td_update *u) {
    return c->in[u->input].u.t;
}

/* Elements without history: a leaf that requires grad may be written so. Copies of an
 * expanded dim are equal: one is written. */
static bool put_quietly(td_tensor *t, td_tensor *value) {
    td_ctx *cx = t->cx;
    bool    grad = cx->grad_enabled, over = false;
    td_meta m;
    td__tensor_meta(t, &m);
    cx->grad_enabled = false;
    for (int d = 0; d < m.rank; d++) {
        if (m.stride[d] != 0 || m.size[d] <= 1) continue;
        m.size[d] = 1;
        value = td_op_slice(value, d, td_value_int(0), td_value_int(1), 1);
        over = true;
    }
    td_tensor *to = over ? td__tensor_over(cx, t->st, &m) : t;
    bool       ok = to && !td_is_nil(td_op_copy_(to, value, false));
    cx->grad_enabled = grad;
    return ok;
}

/* The compiled function's node becomes the history of what it wrote. */
static bool put_with_history(td_pcall *c, td_tensor *t, td_tensor *value, int nr) {
    td_ctx *cx = t->cx;
    bool    grad = cx->grad_enabled;
    cx->grad_enabled = true;
    bool ok =
        td__set_history(value, c->node, nr) && !td_is_nil(td_op_copy_(t, value, false));
    cx->grad_enabled = grad;
    return ok;
}

static bool put_geometry(const td_update *u, td_tensor *t) {
    const td_geom *g = &u->end;
    return !td_is_nil(td_op_as_strided_(t, (td_ints){g->size, g->rank},
                                        (td_ints){g->stride, g->rank},
                                        td_value_int(g->offset)));
}

static bool put_elements(td_pcall *c, int i) {
    const td_update *u = &c->p->j->updates[i];
    td_tensor       *t = input(c, u), *value = c->vals[u->out].u.t;
    int              nr = u->history ? td__plan_nr(c->p, TD_TANGENT_INPUT, i) : -1;
    return nr >= 0 ? put_with_history(c, t, value, nr) : put_quietly(t, value);
}

static bool put_update(td_pcall *c, int i) {
    const td_update *u = &c->p->j->updates[i];
    td_tensor       *t = input(c, u);
    if (u->out >= 0 && !u->late && !put_elements(c, i)) return false;
    if (u->meta && !put_geometry(u, t)) return false;
    if (u->out >= 0 && u->late && !put_elements(c, i)) return false;
    if (u->detached) td__clear_history(t);
    return true;
}

bool td__plan_flags(td_pcall *c) {
    const td_joint *j = c->p->j;
    for (int i = 0; i < j->n_updates; i++)
        if (j->updates[i].wants &&
            td_is_nil(td_set_requires_grad(input(c, &j->updates[i]), true)))
            return false;
    return true;
}

/* ---- versions ----------------------------------------------------------- */

/* How often the steps here, or the graph's own writes, count the storage up. */
static int64_t counted(const td_pcall *c, const td_storage *st) {
    int64_t n = 0;
    for (int i = 0; i < c->p->j->n_updates; i++) {
        const td_update *u = &c->p->j->updates[i];
        if (input(c, u)->st == st) n += (u->out >= 0) + u->meta;
    }
    return n;
}

/* Moves the counter so that the steps to come end where eager's would; views then
 * see no write they do not know of. */
static void prepare_versions(td_pcall *c) {
    for (int i = 0; i < c->p->j->n_updates; i++) {
        const td_update *u = &c->p->j->updates[i];
        td_storage      *st = input(c, u)->st;
        bool             known = false;
        for (int k = 0; k < i && !known; k++)
            known = input(c, &c->p->j->updates[k])->st == st;
        int64_t graph = 0; /* by the graph, already */
        for (int k = i; k < c->p->j->n_updates; k++)
            graph += c->p->j->updates[k].in_graph &&
                     input(c, &c->p->j->updates[k])->st == st;
        int64_t more = u->versions - counted(c, st) - graph;
        if (known || more == 0) continue;
        atomic_fetch_add_explicit(&st->version, (uint64_t)more, memory_order_relaxed);
    }
}

bool td__plan_updates(td_pcall *c) {
    const td_joint *j = c->p->j;
    if (j->n_updates == 0) return true;
    prepare_versions(c);
    for (int i = 0; i < j->n_updates; i++)
        if (!j->updates[i].history && !put_update(c, i)) return false;
    for (int i = 0; i < j->n_updates; i++)
        if (j->updates[i].history && !put_update(c, i)) return false;
    return true;
}
