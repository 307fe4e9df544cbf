/* infer.c -- type inference by a replay on fake tensors. Ops that create
 * tensors are answered from their shape rules; every op on a fake tensor gives
 * fake results (ops/exec.c). The tape is not on the stack, so requires_grad of
 * values stays as it was. */
#include "graph/graph_int.h"

/* State of one inference. */
typedef struct inferring {
    td_mode   mode; /* first; makes creating ops fake */
    td_graph *g;
    td_replay r;
    TD_VEC(td_storage *) storages; /* referenced; the index is the storage number */
    int32_t *renamed;              /* by old number of an input: new one; -1: none */
    bool     stated;               /* fail where the graph states another type */
} inferring;

/* td_mode.call: an op that creates a tensor has no fake argument, so its result
 * is made fake here. */
static bool fake_call(td_mode *m, td_opcall *c) {
    if (!(c->def->flags & TD_OPF_CREATE) || !c->def->shape || c->info->writes)
        return td__call_below(m, c);
    if (!c->def->shape(c)) return false;
    for (int i = 0; i < c->n_out; i++) c->meta[i].device = c->device;
    for (int i = 0; i < c->n_out; i++)
        if (!(c->out[i] = td__tensor_make(c->cx, &c->meta[i], true))) return false;
    return true;
}

/* ---- storages ----------------------------------------------------------- */

/* The number of a storage among the last 64; -1: not found. */
static int32_t number_of(inferring *f, td_storage *st) {
    for (int i = f->storages.n - 1; i >= 0 && i >= f->storages.n - 64; i--)
        if (f->storages.v[i] == st) return i;
    return -1;
}

/* The storage number of a result: that of an argument with the same storage,
 * else that of another result of the node (near the end of the list), else a
 * new one. */
static bool storage_number(inferring *f, const td_gnode *n, td_tensor *t, int32_t *nr) {
    for (int i = 0; n && i < n->n_in; i++) {
        const td_garg *a = &n->in[i];
        if (a->kind != TD_G_VALUE || !a->u.v->type) continue;
        const td_value *v = &f->r.val[a->u.v->id];
        if (v->kind != TD_K_TENSOR || v->u.t->st != t->st) continue;
        *nr = a->u.v->type->storage;
        if (*nr >= 0) return true;
    }
    if ((*nr = number_of(f, t->st)) >= 0) return true;
    if (!td__vec_push(&f->storages, t->st)) return td__fail_memory(f->g->cx);
    td__storage_keep(t->st);
    *nr = f->storages.n - 1;
    return true;
}

/* ---- inputs ------------------------------------------------------------- */

/* A fake tensor of that type; inputs with one storage number share a storage. */
static td_tensor *fake_input(inferring *f, const td_gtype *l, int32_t *nr) {
    td_ctx *cx = f->g->cx;
    td_meta m = td__geom_meta(&l->geom);
    *nr = l->storage >= 0 ? f->renamed[l->storage] : -1;
    bool       shared = *nr >= 0;
    td_tensor *t = shared ? td__tensor_over(cx, f->storages.v[*nr], &m)
                          : td__tensor_make(cx, &m, true);
    if (!t || (l->of && !td__gtyped_fake(t, l->of))) return NULL;
    if (shared) return t;
    if (!storage_number(f, NULL, t, nr)) return NULL;
    t->st->open = true; /* size unknown: the input may be a part of it */
    if (l->storage >= 0) f->renamed[l->storage] = *nr;
    return t;
}

/* An input is a fake tensor of its stated type; numbers get a placeholder value of 1.
 * Storage numbers are assigned anew, in order. */
static bool set_input(inferring *f, int i) {
    td_gval *v = f->g->inputs.v[i];
    if (v->type->kind != TD_K_TENSOR) {
        td_value one = v->type->kind == TD_K_FLOAT ? td_value_float(1)
                       : v->type->kind == TD_K_INT ? td_value_int(1)
                                                   : td_value_bool(true);
        return td__replay_set(&f->r, v, one);
    }
    int32_t        nr;
    td_tensor     *t = fake_input(f, v->type, &nr);
    const td_desc *d = &f->g->in_desc.v[i];
    if (!t) return false;
    if (d->kind == TD_D_OBJECT &&
        !(t->st->object = td__object_type(f->g->cx, d->name ? d->name : "")))
        return false;
    const td_gtype *type = td__graph_type(f->g, t, v->type->grad, nr);
    if (!type) return false;
    v->type = type;
    return td__replay_set(&f->r, v, td_value_tensor(t));
}

/* ---- nodes -------------------------------------------------------------- */

/* Does the node's result have the dtype and sizes that the graph states? */
static bool is_as_stated(inferring *f, const td_gnode *n, const td_gval *v,
                         const td_tensor *t) {
    const td_gtype *l = v->type;
    if (!l || l->kind != TD_K_TENSOR || !td__gtype_is_concrete(l)) return true;
    bool same = l->dtype == t->dtype && l->rank == t->rank;
    for (int d = 0; same && d < l->rank; d++) same = l->size[d] == t->size[d];
    return same ||
           td__fail(f->g->cx, TD_E_ARG,
                    "graph @%.60s: node %d (%s): its result is %s, but its "
                    "stated type is %s%s",
                    f->g->name, (int)n->id, td__row(n->op)->name, td__type_str(t),
                    td_dtype_name((td_dtype)l->dtype), td__sizes_str(l->rank, l->size));
}

/* Sets the types of a node's results. */
static bool note_results(inferring *f, const td_gnode *n) {
    for (int i = 0; i < n->n_out; i++) {
        td_gval   *v = n->out[i];
        bool       grad = v->type && v->type->grad;
        td_tensor *t = f->r.val[v->id].u.t;
        int32_t    nr = -1;
        if (f->stated && !is_as_stated(f, n, v, t)) return false;
        if (!storage_number(f, n, t, &nr)) return false;
        if (!(v->type = td__graph_type(f->g, t, grad, nr))) return false;
    }
    return true;
}

/* Inference stopped at node `from`: storage numbers of later values are of the
 * old numbering and are cleared. */
static bool forget_storages(inferring *f, int from) {
    for (int i = from; i < f->g->nodes.n; i++) {
        td_gnode *n = f->g->nodes.v[i];
        for (int k = 0; k < n->n_out; k++) {
            if (!n->out[k]->type) continue;
            td_gtype l = *n->out[k]->type;
            l.storage = -1;
            n->out[k]->type = td__graph_type_of(f->g, l);
            if (!n->out[k]->type) return false;
        }
    }
    return true;
}

/* Replays node by node on fake tensors and stores the types of results. Inference
 * stops, without an error, at the first size that depends on data. */
static bool infer_nodes(inferring *f) {
    td_graph *g = f->g;
    for (int i = 0; i < g->nodes.n; i++) {
        td_gnode *n = g->nodes.v[i];
        if (n->dead || n->kind != TD_N_OP) continue;
        if (!td__replay_node(&f->r, n)) {
            if (td__error(g->cx) != TD_E_TRACE) return false;
            td_clear(g->cx); /* a size depends on data */
            return forget_storages(f, i);
        }
        if (!note_results(f, n)) return false;
    }
    return true;
}

/* Runs under a mode of its own with the ambient state cleared; only the default dtype
 * and device are kept, because types depend on them. */
static bool infer_all(inferring *f) {
    td_ctx    *cx = f->g->cx;
    td_outside o;
    bool       ok = td__replay_begin(&f->r, f->g) && td__ambient_clear(cx, &o);
    if (ok) {
        cx->default_dtype = o.was.default_dtype; /* types depend on both */
        cx->device = o.was.device;
        cx->takes_fakes = TD_FAKES_INSIDE;
        td__modes_from(cx, &f->mode); /* alone: no history is wanted */
        for (int i = 0; ok && i < f->g->inputs.n; i++) ok = set_input(f, i);
        ok = ok && infer_nodes(f);
        td__ambient_restore(cx, &o, ok);
    }
    td__replay_end(&f->r);
    return ok;
}

/* Does nothing if an input has no type or a symbolic size. References to the fake
 * storages are held meanwhile, because their addresses identify them. */
static bool infer(td_graph *g, bool stated) {
    inferring f = {.mode = {.name = "infer", .call = fake_call},
                   .g = g,
                   .stated = stated};
    if (!td_ok(g->cx)) return false;
    for (int i = 0; i < g->inputs.n; i++) {
        const td_gtype *l = g->inputs.v[i]->type;
        if (!l || (l->kind == TD_K_TENSOR && !td__gtype_is_concrete(l))) return true;
    }
    f.renamed = td__alloc(sizeof *f.renamed * ((size_t)g->n_storages + 1));
    if (!f.renamed) return td__fail_memory(g->cx);
    for (int i = 0; i < g->n_storages; i++) f.renamed[i] = -1;
    bool ok = infer_all(&f);
    for (int i = 0; i < f.storages.n; i++) td__storage_drop(f.storages.v[i]);
    td__free(f.renamed);
    td__vec_free(&f.storages);
    return ok;
}

bool td__graph_infer(td_graph *g) { return infer(g, false); }

bool td__graph_check_types(const td_graph *g) {
    td_graph *copy = td__graph_clone(g);
    bool      ok = copy && infer(copy, true);
    td__graph_drop(copy);
    return ok;
}
