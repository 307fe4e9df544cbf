/* putback.c -- runs a functional graph and does by hand what the program does in
 * place: elements go back into arguments, arguments get their new geometry, and
 * results lie where they would. Values only; puttaped.c is for histories. */
#include "func/func_int.h"

#include <string.h>

/* Copies of an expanded dim are equal: one is written. */
static bool put(td_ctx *cx, td_storage *st, const td_geom *g, td_tensor *value) {
    td_meta m = td__geom_meta(g);
    for (int d = 0; d < m.rank; d++)
        if (m.stride[d] == 0 && m.size[d] > 1) {
            m.size[d] = 1;
            value = td_op_slice(value, d, td_value_int(0), td_value_int(1), 1);
        }
    td_tensor *t = td__tensor_over(cx, st, &m);
    if (value->st == st) value = td_op_clone(value, false); /* it may overlap */
    return t && !td_is_nil(td_op_copy_(t, value, false));
}

/* ---- storages ----------------------------------------------------------- */

/* By home: those of arguments, and new ones where several tensors share one. */
static bool find_homes(const td_functional *f, const td_value *in, td_storage **st) {
    for (int i = 0; i < f->n_in; i++) {
        if (in[i].kind != TD_K_TENSOR || st[f->in[i].came]) continue;
        td__storage_keep(st[f->in[i].came] = in[i].u.t->st);
    }
    for (int i = 0; i < f->n_homes; i++) {
        const td_home *h = &f->homes[i];
        if (!h->given && h->users > 1 && !(st[i] = td__storage_make(h->bytes, false)))
            return td__fail_memory(f->cx);
        if (st[i] && st[i]->bytes < h->bytes && !td__storage_resize(st[i], h->bytes))
            return td__fail_memory(f->cx);
    }
    return true;
}

/* ---- arguments ---------------------------------------------------------- */

static bool put_data(const td_functional *f, td_storage **st, td_tensor *t,
                     const td_value *out, const td_change *c) {
    td_geom was = {(td_dtype)t->dtype, t->rank, t->offset, t->size, t->stride};
    return c->update < 0 || put(f->cx, st[c->came], &was, out[c->update].u.t);
}

static bool put_meta(const td_functional *f, td_storage **st, td_tensor *t,
                     const td_value *out, const td_change *c) {
    td_meta m = td__geom_meta(&c->end);
    bool    fresh = c->storage && !f->homes[c->home].given;
    bool grown = c->now >= 0 && !c->storage && !c->data; /* zeros behind the old end */
    if (c->now < 0) return true;
    if (fresh && !st[c->home] &&
        !(st[c->home] = td__storage_make(f->homes[c->home].bytes, false)))
        return td__fail_memory(f->cx);
    if (c->storage) td__tensor_set_storage(t, st[c->home]);
    if (!td__tensor_set_geometry(t, &m)) return false;
    if (c->storage) td__accumulator_renew(t);
    if (grown) return true;
    return put(f->cx, t->st, &c->end, out[c->now].u.t);
}

/* ---- results ------------------------------------------------------------ */

static td_storage *zeroed(size_t bytes) {
    td_storage *st = td__storage_make(bytes, false);
    if (st && st->data) memset(st->data, 0, bytes);
    return st;
}

/* Is the tensor a whole storage's, which ends where eager's does? A graph may end in a
 * view of a value where eager has no view. */
static bool is_alone(const td_tensor *t, const td_geom *g, const td_home *h) {
    bool same = !t->base && t->st->bytes == h->bytes && t->offset == g->offset;
    for (int d = 0; same && d < t->rank; d++)
        same = t->stride[d] == g->stride[d] || t->size[d] == 1 || t->numel == 0;
    return same;
}

static bool put_result(const td_functional *f, td_storage **st, td_value *v,
                       const td_place *p) {
    td_meta        m = td__geom_meta(&p->geom);
    const td_home *h = &f->homes[p->home];
    if (!st[p->home] && is_alone(v->u.t, &p->geom, h)) return true;
    if (!st[p->home] && !(st[p->home] = zeroed(h->bytes)))
        return td__fail_memory(f->cx);
    if (!h->given && !put(f->cx, st[p->home], &p->geom, v->u.t)) return false;
    td_tensor *t = td__tensor_over(f->cx, st[p->home], &m);
    *v = td_value_tensor(t);
    return t != NULL;
}

/* The graph ran in the mode of the call, the program may have changed it. */
static void set_inference(td_tensor *t, bool on) {
    t->flags = (uint8_t)(on ? t->flags | TD_TF_INFERENCE : t->flags & ~TD_TF_INFERENCE);
}

static bool put_results(const td_functional *f, td_storage **st, const td_value *in,
                        const td_value *out, td_value *to) {
    for (int i = 0; i < f->n_out; i++) {
        const td_place *p = &f->out[i];
        to[i] = out[i];
        if (out[i].kind != TD_K_TENSOR) continue;
        if (p->same >= 0) to[i] = in[p->same];
        else if (p->again >= 0) to[i] = to[p->again];
        else if (!put_result(f, st, &to[i], p)) return false;
        else set_inference(to[i].u.t, p->inference);
    }
    return true;
}

/* Eager counts its writes one by one. */
static void put_versions(const td_functional *f, td_storage **st, const td_value *to) {
    for (int i = 0; i < f->n_homes; i++)
        if (st[i]) atomic_store(&st[i]->version, f->homes[i].version);
    for (int i = 0; i < f->n_out; i++)
        if (f->out[i].home >= 0 && !st[f->out[i].home])
            atomic_store(&to[i].u.t->st->version, f->homes[f->out[i].home].version);
}

/* ---- the run ------------------------------------------------------------ */

/* Constants of the graph's own may stand behind the program's inputs. */
static bool replay(const td_functional *f, const td_value *in, td_value *all) {
    int       n = f->g->inputs.n > f->n_in ? f->g->inputs.n : f->n_in;
    td_value *v = td__zalloc(sizeof *v * ((size_t)n + 1));
    if (!v) return td__fail_memory(f->cx);
    for (int i = 0; i < f->n_in; i++) v[i] = in[i];
    bool ok = td__functional_replay(f, v, all);
    td__free(v);
    return ok;
}

/* An output that is an argument itself keeps the geometry the argument came with. */
static bool part_outputs(const td_functional *f, const td_value *in, td_value *all) {
    for (int i = 0; i < f->g->outputs.n; i++)
        for (int k = 0; k < f->n_in; k++) {
            if (all[i].kind != TD_K_TENSOR || in[k].kind != TD_K_TENSOR) continue;
            if (all[i].u.t != in[k].u.t) continue;
            td_tensor *t = td__tensor_alias(f->cx, in[k].u.t);
            if (!t) return false;
            all[i] = td_value_tensor(t);
        }
    return true;
}

static bool run(const td_functional *f, const td_value *in, td_value *all,
                td_value *to) {
    td_storage **st = td__zalloc(sizeof *st * (size_t)(f->n_homes + 1));
    bool         ok = st ? replay(f, in, all) : td__fail_memory(f->cx);
    ok = ok && part_outputs(f, in, all) && find_homes(f, in, st);
    for (int i = 0; ok && i < f->n_in; i++)
        if (in[i].kind == TD_K_TENSOR) ok = put_data(f, st, in[i].u.t, all, &f->in[i]);
    for (int i = 0; ok && i < f->n_in; i++)
        if (in[i].kind == TD_K_TENSOR) ok = put_meta(f, st, in[i].u.t, all, &f->in[i]);
    ok = ok && put_results(f, st, in, all + f->g->outputs.n - f->n_out, to);
    if (ok) put_versions(f, st, to);
    for (int i = 0; st && i < f->n_homes; i++) td__storage_drop(st[i]);
    td__free(st);
    return ok;
}

static bool wants_history(const td_functional *f, const td_value *in) {
    bool any = false;
    for (int i = 0; i < f->n_in; i++)
        any |= in[i].kind == TD_K_TENSOR && td__needs_grad(in[i].u.t);
    return any && !f->no_history;
}

static bool run_plain(const td_functional *f, const td_value *in, td_value *out) {
    td_value    *all = td__zalloc(sizeof *all * (size_t)(f->g->outputs.n + 1));
    td_grad_mode was = td_no_grad_begin(f->cx);
    bool         ok = all ? run(f, in, all, out) : td__fail_memory(f->cx);
    td_no_grad_end(f->cx, was);
    td__free(all);
    return ok;
}

static bool run_numbers(const td_functional *f, const td_value *in, td_value *out) {
    return wants_history(f, in) ? td__put_taped(f, in, out) : run_plain(f, in, out);
}

static bool run_symbols(const td_functional *f, const td_value *in, td_value *out) {
    td_functional once;
    bool          ok = td__functional_open(f, &once) && run_numbers(&once, in, out);
    td__arena_free(&once.arena);
    return ok;
}

bool td__functional_run(const td_functional *f, const td_value *in, td_value *out) {
    td_where here = td_here; /* a failure would leave a place of the graph's */
    for (int i = 0; i < f->n_out; i++) out[i] = TD_NONE;
    bool ok = td__functional_guard(f, in) &&
              (f->g->dims.n ? run_symbols(f, in, out) : run_numbers(f, in, out));
    if (ok && f->left) td__region_set(f->cx, (td_gregion)(f->left - 1));
    td_here = here;
    return ok;
}
