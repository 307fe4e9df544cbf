/* puttaped.c -- runs a functional graph under the tape and does by hand, with ordinary
 * ops, what the program does in place: arguments and results get the histories eager
 * gives them. Only for graphs that can say them (td_functional.no_history). */
#include "eager/node.h"
#include "func/func_int.h"

#include <string.h>

typedef struct taped {
    const td_functional *f;
    const td_value      *in;
    td_value            *own; /* what the graph gets: written arguments copied */
    td_value            *all; /* outputs of the graph */
    td_value            *to;
    td_tensor          **base; /* by home: what results that share one are views of */
} taped;

/* t shown once along expanded dims, whose copies are equal. */
static td_tensor *once(td_tensor *t, const td_geom *g) {
    for (int d = 0; d < g->rank; d++)
        if (g->stride[d] == 0 && g->size[d] > 1)
            t = td_op_slice(t, d, td_value_int(0), td_value_int(1), 1);
    return t;
}

static bool put(td_tensor *t, td_tensor *value) {
    td_geom g = {(td_dtype)t->dtype, t->rank, t->offset, t->size, t->stride};
    return !td_is_nil(td_op_copy_(once(t, &g), once(value, &g), false));
}

static td_tensor *view_of(td_tensor *t, const td_geom *g) {
    return td_op_as_strided(t, (td_ints){g->size, g->rank},
                            (td_ints){g->stride, g->rank}, td_value_int(g->offset));
}

static td_storage *copy_bytes(const td_tensor *t) {
    td_storage *st = td__storage_make(t->st->bytes, false);
    if (!st) return td__fail_memory(t->cx), NULL;
    if (st->bytes) memcpy(st->data, t->st->data, st->bytes);
    return st;
}

/* Elements, geometry and place in the history of t, in bytes of its own. */
static td_tensor *stand_in(td_tensor *t) {
    td_edge     e = {0};
    td_storage *st = copy_bytes(t);
    bool        ok = st && (!td__needs_grad(t) || td__edge_of(t, &e));
    td_tensor  *c = ok ? td__tensor_alias(t->cx, t) : NULL;
    if (c) td__tensor_set_storage(c, st);
    if (c && e.node && !td__set_history(c, e.node, e.nr)) c = NULL;
    if (e.node) td__node_drop(e.node);
    td__storage_drop(st);
    return c;
}

/* The same by a copy, which is an op of its own; not where elements share places, each
 * of which would get the gradient of all. */
static td_tensor *copy_of(td_tensor *t) {
    td_meta m;
    if (td__overlaps_itself(t)) return stand_in(t);
    td_storage *st = copy_bytes(t);
    if (!st) return NULL;
    td__tensor_meta(t, &m);
    td_tensor *c = td__tensor_over(t->cx, st, &m);
    td__storage_drop(st);
    return c && put(c, t) ? c : NULL;
}

static bool has_strides(const td_tensor *t, const td_geom *g) {
    bool same = true;
    for (int d = 0; same && d < t->rank; d++)
        same = t->stride[d] == g->stride[d] || t->size[d] == 1 || t->numel == 0;
    return same;
}

/* Elements and history of t in another geometry, in bytes of its own. */
static td_tensor *copy_as(td_tensor *t, const td_geom *g, size_t bytes) {
    td_meta     m = td__geom_meta(g);
    td_storage *st = td__storage_make(bytes, false);
    if (!st) return td__fail_memory(t->cx), NULL;
    if (bytes) memset(st->data, 0, bytes);
    td_tensor *c = td__tensor_over(t->cx, st, &m);
    td__storage_drop(st);
    return c && put(c, t) ? c : NULL;
}

/* ---- arguments ---------------------------------------------------------- */

static bool is_written(const taped *r, int i) {
    return r->in[i].kind == TD_K_TENSOR &&
           td__version(r->in[i].u.t) != r->f->homes[r->f->in[i].came].version;
}

static void mark(void *env, td_gval *v) { ((bool *)env)[v->id] = true; }

/* By value of the graph: does anything read it? */
static bool *find_reads(const td_graph *g) {
    bool *read = td__zalloc(sizeof *read * ((size_t)g->n_values + 1));
    for (int i = 0; read && i < g->nodes.n; i++)
        for (int k = 0; k < g->nodes.v[i]->n_in; k++)
            td__garg_each(&g->nodes.v[i]->in[k], mark, read);
    for (int i = 0; read && i < g->outputs.n; i++)
        td__garg_each(&g->outputs.v[i], mark, read);
    return read;
}

/* What is saved for backward must not be written later: the graph reads a copy of all
 * that lies in a storage with writes. What nobody reads may be a view eager would
 * refuse to read. */
static bool copy_args(taped *r, const bool *read) {
    for (int i = 0; i < r->f->n_in; i++) {
        td_value v = r->in[i];
        r->own[i] = v;
        if (!is_written(r, i) || !read[r->f->g->inputs.v[i]->id]) continue;
        for (int k = 0; k < i; k++)
            if (r->in[k].kind == TD_K_TENSOR && r->in[k].u.t == v.u.t)
                r->own[i] = r->own[k];
        if (r->own[i].u.t != v.u.t) continue;
        td_tensor *t = copy_of(v.u.t);
        if (!t) return false;
        r->own[i] = td_value_tensor(t);
    }
    return true;
}

static bool read_args(taped *r) {
    bool *read = find_reads(r->f->g);
    bool  ok = read ? copy_args(r, read) : td__fail_memory(r->f->cx);
    td__free(read);
    return ok;
}

/* Elements first where they are an output of their own, in the geometry it had. */
static bool put_arg(taped *r, td_tensor *t, const td_change *c) {
    td_ints size = {c->end.size, c->end.rank}, stride = {c->end.stride, c->end.rank};
    if (c->update >= 0 && !put(t, r->all[c->update].u.t)) return false;
    if (c->now < 0) return true;
    if (td_is_nil(td_op_as_strided_(t, size, stride, td_value_int(c->end.offset))))
        return false;
    return !c->data || c->update >= 0 || put(t, r->all[c->now].u.t);
}

static bool put_args(taped *r) {
    for (int i = 0; i < r->f->n_in; i++)
        if (r->in[i].kind == TD_K_TENSOR && !put_arg(r, r->in[i].u.t, &r->f->in[i]))
            return false;
    for (int i = 0; i < r->f->n_in; i++)
        if (r->in[i].kind == TD_K_TENSOR)
            atomic_store(&r->in[i].u.t->st->version,
                         r->f->homes[r->f->in[i].came].version);
    return true;
}

/* ---- results ------------------------------------------------------------ */

static bool is_new(const taped *r, int i) {
    const td_place *p = &r->f->out[i];
    return p->home >= 0 && p->same < 0 && p->again < 0;
}

/* Results that share a home become views of one base; here it gets their elements. */
static bool fill_base(taped *r, int i) {
    const td_place *p = &r->f->out[i];
    const td_home  *h = &r->f->homes[p->home];
    if (!is_new(r, i) || h->given || h->users < 2) return true;
    td_meta m = {.dtype = p->geom.dtype, .rank = 1};
    m.size[0] = (int64_t)h->bytes / td__dtype_bytes[m.dtype];
    td_tensor **base = &r->base[p->home];
    if (!*base && !(*base = td__tensor_make(r->f->cx, &m, false))) return false;
    return put(view_of(*base, &p->geom), r->to[i].u.t);
}

static td_tensor *make_result(taped *r, int i) {
    const td_place *p = &r->f->out[i];
    const td_home  *h = &r->f->homes[p->home];
    td_tensor      *t = r->to[i].u.t;
    if (h->given) t = view_of(r->in[p->of].u.t, &p->geom);
    else if (r->base[p->home]) t = view_of(r->base[p->home], &p->geom);
    else if (!has_strides(t, &p->geom) && !td__geom_overlaps_itself(&p->geom))
        t = copy_as(t, &p->geom, h->bytes);
    else if (td__version(t) != h->version) t = stand_in(t); /* it may be saved */
    if (!t || td_is_nil(t)) return NULL;
    if (!h->given && !r->base[p->home]) {
        td_is_leaf(t); /* a copy may be a view: its history is told now */
        atomic_store(&t->st->version, h->version);
        t->seen = h->version;
    }
    if (p->multi && !t->base) t = td_op_alias(t);
    if (td_is_nil(t)) return NULL;
    if (p->multi) t->creation = TD_MADE_MULTI_OUTPUT;
    if (p->behind && h->given && t->base)
        t->seen = td__version(t) - 1; /* as in eager */
    return t;
}

static bool put_results(taped *r) {
    const td_functional *f = r->f;
    int                  first = f->g->outputs.n - f->n_out;
    for (int i = 0; i < f->n_out; i++) r->to[i] = r->all[first + i];
    for (int i = 0; i < f->n_out; i++)
        if (!fill_base(r, i)) return false;
    for (int i = 0; i < f->n_homes; i++)
        if (r->base[i]) atomic_store(&r->base[i]->st->version, f->homes[i].version);
    for (int i = 0; i < f->n_out; i++) {
        const td_place *p = &f->out[i];
        if (p->same >= 0) r->to[i] = r->in[p->same];
        else if (p->again >= 0) r->to[i] = r->to[p->again];
        else if (p->home >= 0) {
            td_tensor *t = make_result(r, i);
            if (!t) return false;
            r->to[i] = td_value_tensor(t);
        }
    }
    return true;
}

/* ---- the run ------------------------------------------------------------ */

bool td__put_taped(const td_functional *f, const td_value *in, td_value *out) {
    size_t n = (size_t)(f->n_in + f->g->outputs.n + 1);
    taped  r = {.f = f, .in = in, .to = out};
    r.own = td__zalloc(sizeof *r.own * n);
    r.base = td__zalloc(sizeof *r.base * (size_t)(f->n_homes + 1));
    bool ok = r.own && r.base;
    if (ok) r.all = r.own + f->n_in;
    else td__fail_memory(f->cx);
    ok = ok && read_args(&r) && td__functional_replay(f, r.own, r.all) &&
         put_args(&r) && put_results(&r);
    td__free(r.own);
    td__free(r.base);
    return ok;
}
