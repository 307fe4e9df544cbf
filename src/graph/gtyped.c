/* gtyped.c -- graph types of tensors of a type (core/typed.h): copies, comparison, and
 * fake tensors made of them. */
#include "core/typed.h"
#include "graph/graph_int.h"

static td_gtyped *make(td_graph *g, const char *name, const char *metadata, int n) {
    td_gtyped *to =
        td__arena_zalloc(&g->arena, sizeof *to + sizeof(td_gtype *) * (size_t)n);
    if (!to) return td__fail_memory(g->cx), NULL;
    to->name = td__graph_str(g, name);
    to->metadata = td__graph_str(g, metadata);
    to->n = n;
    return to->name && to->metadata ? to : NULL;
}

const td_gtyped *td__gtyped_copy(td_graph *g, const td_gtyped *of) {
    td_gtyped *to = make(g, of->name, of->metadata, of->n);
    for (int i = 0; to && i < of->n; i++)
        if (!(to->inner[i] = td__graph_type_of(g, *of->inner[i]))) return NULL;
    return to;
}

const td_gtyped *td__gtyped_of(td_graph *g, const td_typed *d) {
    td_gtyped *to = make(g, d->type->opts.name, d->metadata, d->n);
    for (int i = 0; to && i < d->n; i++)
        if (!(to->inner[i] = td__graph_type(g, d->inner[i], false, -1))) return NULL;
    return to;
}

bool td__gtyped_fake(td_tensor *t, const td_gtyped *of) {
    const td_type *type = td__type_find(of->name);
    td_tensor     *inner[TD_MOST_INNER];
    if (!type || type->opts.n_inner != of->n)
        return td__fail(t->cx, TD_E_ARG,
                        "a graph has tensors of type %s, which is not "
                        "registered in this process",
                        of->name);
    for (int i = 0; i < of->n; i++) {
        td_meta m = td__geom_meta(&of->inner[i]->geom);
        inner[i] = td__tensor_make(t->cx, &m, true);
        if (!inner[i]) return false;
        if (of->inner[i]->of && !td__gtyped_fake(inner[i], of->inner[i]->of))
            return false;
    }
    td_typed *d = td__typed_make(t->cx, type, inner, of->metadata);
    if (!d) return false;
    td__typed_set(t, d);
    td__typed_drop(d);
    return true;
}

static bool same_inner(const td_gtype *a, const td_gtype *b) {
    return a->dtype == b->dtype && td__sizes_identical(&a->geom, &b->geom) &&
           td__dims_identical(a->stride, b->stride, a->rank) &&
           a->offset == b->offset && td__gtyped_same(a->of, b->of);
}

bool td__gtyped_same(const td_gtyped *a, const td_gtyped *b) {
    if (!a || !b) return a == b;
    bool same =
        a->n == b->n && !strcmp(a->name, b->name) && !strcmp(a->metadata, b->metadata);
    for (int i = 0; same && i < a->n; i++) same = same_inner(a->inner[i], b->inner[i]);
    return same;
}

static bool inner_is(const td_gtype *l, const td_tensor *t) {
    bool same = l->dtype == t->dtype && l->rank == t->rank && l->offset == t->offset;
    for (int d = 0; same && d < t->rank; d++)
        same = l->size[d] == t->size[d] && l->stride[d] == t->stride[d];
    return same && td__gtyped_is(l->of, t->typed);
}

bool td__gtyped_is(const td_gtyped *of, const td_typed *d) {
    if (!of || !d) return !of && !d;
    bool same = of->n == d->n && !strcmp(of->name, d->type->opts.name) &&
                !strcmp(of->metadata, d->metadata);
    for (int i = 0; same && i < of->n; i++) same = inner_is(of->inner[i], d->inner[i]);
    return same;
}

static void note_typed(void *env, td_gval *v) {
    if (v->type && v->type->of) *(bool *)env = true;
}

bool td__graph_is_typed(const td_graph *g) {
    bool any = false;
    for (int i = 0; i < g->inputs.n; i++) note_typed(&any, g->inputs.v[i]);
    for (int i = 0; i < g->outputs.n; i++)
        td__garg_each(&g->outputs.v[i], note_typed, &any);
    for (int i = 0; i < g->nodes.n && !any; i++)
        for (int k = 0; k < g->nodes.v[i]->n_out; k++)
            note_typed(&any, g->nodes.v[i]->out[k]);
    return any;
}
