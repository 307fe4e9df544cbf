/* putback.c -- runs a functional graph and does by hand what the program does in
 * place: elements go back into arguments, arguments get their new geometry, and
 * results lie where they would. Values only: nothing here is differentiated. */
#include "func/func.h"

static td_meta meta_of(const td_geom *g) {
    td_meta m = {.dtype = g->dtype,
                 .rank = g->rank,
                 .strided = true,
                 .offset = g->offset};
    for (int d = 0; d < g->rank; d++) {
        m.size[d] = g->size[d];
        m.stride[d] = g->stride[d];
    }
    return m;
}

/* Copies of an expanded dim are equal: one is written. */
static bool put(td_ctx *cx, td_storage *st, const td_geom *g, td_tensor *value) {
    td_meta m = meta_of(g);
    for (int d = 0; d < m.rank; d++)
        if (m.stride[d] == 0 && m.size[d] > 1) {
            m.size[d] = 1;
            value = td_op_slice(value, d, td_value_int(0), td_value_int(1), 1);
        }
    td_tensor *t = td__tensor_over(cx, st, &m);
    return t && !td_is_nil(td_op_copy_(t, value, false));
}

/* ---- arguments ---------------------------------------------------------- */

static bool put_data(const td_functional *f, td_storage **st, const td_value *in,
                     const td_value *out, int i) {
    const td_change *c = &f->in[i];
    td_tensor       *t = in[i].u.t;
    td_geom          was = {(td_dtype)t->dtype, t->rank, t->offset, t->size, t->stride};
    return c->update < 0 || put(f->cx, st[i], &was, out[c->update].u.t);
}

static bool put_meta(const td_functional *f, td_storage **st, const td_value *in,
                     const td_value *out, int i) {
    const td_change *c = &f->in[i];
    td_tensor       *t = in[i].u.t;
    td_meta          m = meta_of(&c->end);
    bool             fresh = c->storage && c->from < 0;
    if (c->now < 0) return true;
    if (fresh) {
        td_storage *own = td__storage_make(c->bytes, false);
        if (!own) return td__fail_memory(f->cx);
        td__tensor_set_storage(t, own);
        td__storage_drop(own);
    } else if (c->storage) td__tensor_set_storage(t, st[c->from]);
    bool grown = t->st->bytes < c->bytes;
    if (grown && !td__storage_resize(t->st, c->bytes)) return td__fail_memory(f->cx);
    if (!td__tensor_set_geometry(t, &m)) return false;
    if (!fresh && !grown && !c->data) return true;
    return put(f->cx, t->st, &c->end, out[c->now].u.t);
}

/* ---- results ------------------------------------------------------------ */

/* Results that share bytes get a storage of their own, filled from all of them. */
static bool share(const td_functional *f, const td_value *out, td_value *to, int i) {
    const td_place *p = &f->out[i];
    td_meta         m = meta_of(&p->geom);
    td_storage     *st = p->first < i ? to[p->first].u.t->st : NULL;
    if (!st) {
        if (!(st = td__storage_make(p->bytes, false))) return td__fail_memory(f->cx);
        for (int k = i; k < f->n_out; k++)
            if (f->out[k].first == i && !put(f->cx, st, &f->out[k].geom, out[k].u.t))
                return td__storage_drop(st), false;
    } else td__storage_keep(st);
    td_tensor *t = td__tensor_over(f->cx, st, &m);
    td__storage_drop(st);
    to[i] = td_value_tensor(t);
    return t != NULL;
}

static bool put_result(const td_functional *f, td_storage **st, const td_value *in,
                       const td_value *out, td_value *to) {
    for (int i = 0; i < f->n_out; i++) {
        const td_place *p = &f->out[i];
        to[i] = out[i];
        if (out[i].kind != TD_K_TENSOR) continue;
        if (p->same >= 0) to[i] = in[p->same];
        else if (p->input >= 0) {
            td_meta    m = meta_of(&p->geom);
            td_tensor *t = td__tensor_over(f->cx, st[p->input], &m);
            if (!t) return false;
            to[i] = td_value_tensor(t);
        } else if (p->sharers > 1 && !share(f, out, to, i)) return false;
    }
    return true;
}

/* ---- the run ------------------------------------------------------------ */

static bool run(const td_functional *f, const td_value *in, td_value *all,
                td_value *to) {
    td_storage **st = td__zalloc(sizeof *st * (size_t)(f->n_in + 1));
    bool         ok = st || td__fail_memory(f->cx);
    for (int i = 0; ok && i < f->n_in; i++)
        if (in[i].kind == TD_K_TENSOR) td__storage_keep(st[i] = in[i].u.t->st);
    ok = ok && td__graph_replay(f->g, in, all);
    int first = f->g->outputs.n - f->n_out;
    for (int i = 0; ok && i < f->n_in; i++) ok = !st[i] || put_data(f, st, in, all, i);
    for (int i = 0; ok && i < f->n_in; i++) ok = !st[i] || put_meta(f, st, in, all, i);
    ok = ok && put_result(f, st, in, all + first, to);
    for (int i = 0; st && i < f->n_in; i++) td__storage_drop(st[i]);
    td__free(st);
    return ok;
}

bool td__functional_run(const td_functional *f, const td_value *in, td_value *out) {
    td_value    *all = td__zalloc(sizeof *all * (size_t)(f->g->outputs.n + 1));
    td_grad_mode was = td_no_grad_begin(f->cx);
    for (int i = 0; i < f->n_out; i++) out[i] = TD_NONE;
    bool ok = all ? run(f, in, all, out) : td__fail_memory(f->cx);
    td_no_grad_end(f->cx, was);
    td__free(all);
    return ok;
}
