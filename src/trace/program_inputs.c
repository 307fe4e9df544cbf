/* program_inputs.c -- the tensors of a program's inputs, and fake arguments made from
 * their types. */
#include "trace/trace.h"

bool td__program_inputs(const td_graph *p, const td_value *in, td_value *to) {
    for (int i = 0; i < p->inputs.n; i++) {
        const td_desc *d = &p->in_desc.v[i];
        td_value       v = in[i];
        if (v.kind == TD_K_NONE && d->kind == TD_D_CONST && d->index >= 0 &&
            d->index < p->consts.n)
            v = td_value_tensor(p->consts.v[d->index]);
        to[i] = v;
        if (v.kind == TD_K_TENSOR && (!v.u.t || td_is_nil(v.u.t)))
            return td__fail(p->cx, TD_E_ARG, "@%.60s: input %d is missing", p->name, i);
    }
    return true;
}

/* ---- arguments made from types ------------------------------------------ */

static bool make_like(const td_graph *g, const td_gtype *l, td_storage **st,
                      td_value *to) {
    td_meta m = td__geom_meta(&l->geom);
    for (int d = 0; d < l->rank; d++)
        if (td__dim_is_sym(m.size[d]) || td__dim_is_sym(m.stride[d]))
            return td__fail(g->cx, TD_E_UNSUPPORTED,
                            "@%.60s has symbolic sizes, so its inputs cannot be made "
                            "from their types. Add a case to the file that calls it "
                            "with inputs (docs/text-format.md)",
                            g->name);
    td_storage *shared = l->storage >= 0 ? st[l->storage] : NULL;
    td_tensor  *t = td__tensor_make(g->cx, &m, true);
    if (!t || (l->of && !td__gtyped_fake(t, l->of))) return false;
    if (shared) {
        if (shared->bytes < t->st->bytes) shared->bytes = t->st->bytes;
        td__tensor_set_storage(t, shared);
    } else if (l->storage >= 0) st[l->storage] = t->st;
    if (l->grad && td_is_nil(td_set_requires_grad(t, true))) return false;
    *to = td_value_tensor(t);
    return true;
}

/* An object of the type that the descriptor names, without its data. */
static bool make_object(td_ctx *cx, const td_desc *d, const td_value *to) {
    if (d->kind != TD_D_OBJECT) return true;
    to->u.t->st->object = td__object_type(cx, d->name ? d->name : "");
    return to->u.t->st->object != NULL;
}

bool td__inputs_like(const td_graph *g, td_value *in) {
    size_t       n = (size_t)(g->n_storages > 0 ? g->n_storages : 0) + 1;
    td_storage **st = td__zalloc(sizeof *st * n);
    bool         ok = st || td__fail_memory(g->cx);
    uint8_t      was = g->cx->takes_fakes;
    g->cx->takes_fakes = TD_FAKES_INSIDE;
    for (int i = 0; ok && i < g->inputs.n; i++) {
        const td_gtype *l = g->inputs.v[i]->type;
        in[i] = TD_NONE;
        if (g->in_desc.v[i].kind == TD_D_CONST) continue;
        if (!l)
            ok = td__fail(g->cx, TD_E_ARG, "@%.60s: input %d has no type", g->name, i);
        else if (l->kind == TD_K_TENSOR)
            ok = make_like(g, l, st, &in[i]) &&
                 make_object(g->cx, &g->in_desc.v[i], &in[i]);
        else if (l->kind == TD_K_FLOAT) in[i] = td_value_float(0);
        else in[i] = l->kind == TD_K_BOOL ? td_value_bool(false) : td_value_int(0);
    }
    g->cx->takes_fakes = was;
    td__free(st);
    return ok;
}
