/* typed_tangent.c -- tangents of tensors of a type, as backward code was made for them:
 * of the type and metadata of the result they belong to, with inner tensors in the
 * traced layout. Another type is converted by its own function, or has backward code of
 * its own (compiled_node.c), or is an error. */
#include "core/callback.h"
#include "ops/call.h"
#include "runtime/node_frame.h"

#include <stdio.h>
#include <string.h>

bool td__is_of_type(const td_tensor *g, const td_gtyped *of) {
    const td_typed *d = g->typed;
    if (!d || !of) return !d && !of;
    bool same = !strcmp(d->type->opts.name, of->name) &&
                !strcmp(d->metadata, of->metadata) && d->n == of->n;
    for (int i = 0; same && i < of->n; i++) {
        td_geom         is = td__geom_of(d->inner[i]);
        const td_gtype *want = of->inner[i];
        same = want->dtype == d->inner[i]->dtype &&
               td__sizes_identical(&is, &want->geom) &&
               td__is_of_type(d->inner[i], want->of);
    }
    return same;
}

static const char *wanted(const td_gtyped *of, char *out, size_t cap) {
    if (!of) snprintf(out, cap, "a plain tensor");
    else if (!of->metadata[0]) snprintf(out, cap, "a %s", of->name);
    else snprintf(out, cap, "a %s (\"%.60s\")", of->name, of->metadata);
    return out;
}

/* NULL: its type does not convert it. */
static td_tensor *coerced(td_tensor *g, const td_gtyped *of) {
    const td_type_opts *o = g->typed ? &g->typed->type->opts : NULL;
    td_tensor          *t = NULL;
    if (!o || !o->coerce) return NULL;
    TD_CALLBACK(g->cx, t = o->coerce(o->env, g, of ? td__type_find(of->name) : NULL,
                                     of ? of->metadata : ""));
    return t && !td_is_nil(t) && td_ok(g->cx) && td__is_of_type(t, of) ? t : NULL;
}

/* Are the inner tensors in the layout of the types? */
static bool is_laid_out(const td_tensor *g, const td_gtyped *of) {
    for (int i = 0; i < of->n; i++) {
        const td_tensor *t = g->typed->inner[i];
        const td_gtype  *want = of->inner[i];
        if (want->of ? !is_laid_out(t, want->of) : !td__has_layout(t, &want->geom))
            return false;
    }
    return true;
}

static td_tensor *lay_out(td_node *n, int k, td_tensor *g, const td_gtyped *of);

/* One inner tensor in the layout of its type; nil after td__fail. */
static td_tensor *lay_out_inner(td_node *n, int k, td_tensor *t, const td_gtype *want) {
    bool       same = t->numel == 0 || td__has_layout(t, &want->geom);
    td_tensor *to = want->of ? lay_out(n, k, t, want->of)
                    : same   ? t
                             : td__copy_laid_out(n, k, t, &want->geom);
    return to ? to : td_nil(t->cx);
}

/* A tensor of the type with copies of inner tensors; NULL after td__fail. It has no
 * history: backward code without create_graph takes none. */
static td_tensor *lay_out(td_node *n, int k, td_tensor *g, const td_gtyped *of) {
    td_tensor *inner[TD_MOST_INNER];
    for (int i = 0; i < of->n; i++) {
        inner[i] = lay_out_inner(n, k, g->typed->inner[i], of->inner[i]);
        if (td_is_nil(inner[i])) return NULL;
    }
    td_tensor *t =
        td_type_make(g->typed->type, (td_tensors){inner, of->n}, of->metadata,
                     td__sizes(g), td__strides(g), (td_dtype)g->dtype);
    return td_is_nil(t) ? NULL : t;
}

/* The same below the modes of the caller, by which inner tensors have no history. */
static td_tensor *lay_out_plain(td_node *n, int i, td_tensor *t, const td_gtyped *of) {
    td_mode_scope outer = td__modes_enter_plain(n->cx, NULL);
    t = lay_out(n, i, t, of);
    td__modes_leave(n->cx, &outer);
    return t;
}

/* A copy with a history, made by the type. */
static td_tensor *clone_laid_out(td_node *n, td_tensor *g, const td_gtyped *of) {
    for (int dense = 0; dense < 2; dense++) {
        td_tensor *t = td_op_clone(g, dense);
        if (td_is_nil(t)) return NULL;
        if (td__is_of_type(t, of) && is_laid_out(t, of)) return t;
    }
    td__fail(n->cx, TD_E_UNSUPPORTED,
             "%s: unsupported: create_graph with a gradient of type %s whose inner "
             "tensors have other strides than traced; pass a contiguous one",
             n->name, of->name);
    return NULL;
}

bool td__may_fit_typed(td_tensor *g, const td_gtyped *of) {
    return td__is_of_type(g, of) || coerced(g, of);
}

td_tensor *td__fit_typed(td_node *n, int i, td_tensor *g, const td_gtyped *of) {
    char       is[120], want[120];
    td_tensor *t = td__is_of_type(g, of) ? g : coerced(g, of);
    if (!t && td_ok(n->cx))
        td__fail(n->cx, TD_E_UNSUPPORTED,
                 "%s: the gradient of result %d is %s, but the backward was compiled "
                 "for %s, the type of that result, and the gradient's type does not "
                 "convert it (td_type_opts.coerce); pass a gradient of the result's "
                 "type and inner sizes",
                 n->name, i, td__typed_str(g->typed, is, sizeof is),
                 wanted(of, want, sizeof want));
    if (!t || !of || is_laid_out(t, of)) return t;
    if (td__recording(n->cx)) return clone_laid_out(n, t, of);
    return lay_out_plain(n, i, t, of);
}

td_tensor *td__fit_saved_typed(td_node *n, int i, td_tensor *t, const td_gtyped *of) {
    char is[120], want[120];
    if (td__is_of_type(t, of))
        return is_laid_out(t, of) ? t : lay_out_plain(n, i, t, of);
    td__fail(
        n->cx, TD_E_GRAD,
        "%s: the unpack hook of saved value %d gave %s, but %s was packed; compiled "
        "code needs a tensor of that type and those inner sizes back",
        n->name, i, td__typed_str(t->typed, is, sizeof is),
        wanted(of, want, sizeof want));
    return NULL;
}
