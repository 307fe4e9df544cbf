/* flat_graph.c -- graphs without tensors of a type. An input of a type becomes its
 * inner tensors, <inner i "name">, in order, and so does an output; nodes _inner and
 * _wrap are gone. For the code of backends (backend/flat_types.c), and for the graphs
 * of branches, loops and calls in joint graphs (func/functional_nested.c). */
#include "core/typed.h"
#include "trace/trace.h"

#include <stdio.h>
#include <string.h>

/* The inner values of a value of a type. */
typedef struct parts {
    int      n;
    td_gval *v[TD_MOST_INNER]; /* may be typed and have parts in turn */
} parts;

typedef struct flattening {
    td_graph *g;     /* a clone, which becomes flat */
    td_ptrmap parts; /* by value of a type */
    td_ptrmap same;  /* by result of _inner: the value that replaces it */
    int       n_out; /* outputs before the sizes */
    bool      ok;
} flattening;

/* Adds an entry with n parts for value `of`. NULL if out of memory. */
static parts *add_parts(flattening *f, const td_gval *of, int n) {
    parts *p = td__arena_zalloc(&f->g->arena, sizeof *p);
    if (!p || !td__ptrmap_put(&f->parts, of, p))
        return f->ok = td__fail_memory(f->g->cx), NULL;
    p->n = n;
    return p;
}

/* A new value that is in no list of the graph. */
static td_gval *make_value(flattening *f, const td_gtype *type) {
    td_gval *v = td__arena_zalloc(&f->g->arena, sizeof *v);
    if (!v) return f->ok = td__fail_memory(f->g->cx), NULL;
    v->type = type;
    return v;
}

/* Replaces input v of a type by inputs for its inner tensors; `name` is the path of
 * names to it. */
static bool open_input(flattening *f, const td_gval *v, int index, const char *name) {
    const td_gtyped *of = v->type->of;
    const td_type   *type = td__type_find(of->name);
    parts           *p = add_parts(f, v, of->n);
    for (int i = 0; p && i < of->n; i++) {
        char path[160];
        snprintf(path, sizeof path, "%s%s%s", name, name[0] ? "." : "",
                 type && i < type->opts.n_inner ? type->opts.inner[i] : "?");
        if (of->inner[i]->of) {
            p->v[i] = make_value(f, of->inner[i]);
            if (!p->v[i] || !open_input(f, p->v[i], index, path)) return false;
            continue;
        }
        td_desc d = {TD_D_INNER, index, td__graph_str(f->g, path)};
        p->v[i] = d.name ? td__graph_input(f->g, NULL, of->inner[i], d) : NULL;
        if (!p->v[i]) return f->ok = false;
    }
    return p != NULL;
}

/* Replaces the inputs; inner tensors stand where their tensor stood. */
static bool open_inputs(flattening *f) {
    td_graph *g = f->g;
    int       n = g->inputs.n;
    td_gval **was = td__alloc(sizeof *was * ((size_t)n + 1));
    td_desc  *desc = td__alloc(sizeof *desc * ((size_t)n + 1));
    f->ok = (was && desc) || td__fail_memory(g->cx);
    for (int i = 0; f->ok && i < n; i++) {
        was[i] = g->inputs.v[i];
        desc[i] = g->in_desc.v[i];
    }
    if (f->ok) g->inputs.n = g->in_desc.n = 0;
    for (int i = 0; f->ok && i < n; i++) {
        if (was[i]->type && was[i]->type->of) open_input(f, was[i], i, "");
        else
            f->ok = (td__vec_push(&g->inputs, was[i]) &&
                     td__vec_push(&g->in_desc, desc[i])) ||
                    td__fail_memory(g->cx);
    }
    td__free(was);
    td__free(desc);
    return f->ok;
}

static td_gval *same_as(void *env, td_gval *v) {
    td_gval *to = td__ptrmap_get(&((flattening *)env)->same, v);
    return to ? to : v;
}

/* out = _inner(v, i): is a part of v. */
static bool take_inner(flattening *f, const td_gnode *n) {
    const parts *p = td__ptrmap_get(&f->parts, n->in[0].u.v);
    int64_t      i = n->in[1].u.i;
    if (!p || i < 0 || i >= p->n)
        return f->ok = td__fail(f->g->cx, TD_E_ARG,
                                "graph @%.60s: _inner of a value "
                                "that has no such inner tensor",
                                f->g->name);
    f->ok = td__ptrmap_put(&f->same, n->out[0], p->v[i]) || td__fail_memory(f->g->cx);
    return f->ok;
}

static bool take_wrap(flattening *f, const td_gnode *n) {
    const td_garg *list = &n->in[0];
    parts *p = list->n <= TD_MOST_INNER ? add_parts(f, n->out[0], (int)list->n) : NULL;
    if (!p) return f->ok = false;
    for (int i = 0; i < p->n; i++) p->v[i] = list->u.list[i].u.v;
    return true;
}

/* A copy of a typed value: copies its parts. */
static bool take_copy(flattening *f, const td_gnode *n, const td_gval *from,
                      const td_gval *to) {
    const parts *p = td__ptrmap_get(&f->parts, from);
    parts       *q = add_parts(f, to, p->n);
    for (int i = 0; q && i < p->n; i++) {
        if (p->v[i]->type->of) {
            if (!(q->v[i] = make_value(f, p->v[i]->type)) ||
                !take_copy(f, n, p->v[i], q->v[i]))
                return false;
            continue;
        }
        td_gnode *c = td__graph_copy(f->g, p->v[i]);
        if (!c) return f->ok = false;
        c->tags = n->tags;
        c->origin = n->origin;
        c->here = n->here;
        c->stack = n->stack;
        c->scope = n->scope;
        q->v[i] = c->out[0];
    }
    return q != NULL;
}

/* copy_(to, from), a write to a typed input: writes its parts. */
static bool take_write(flattening *f, const td_gnode *n, const td_gval *to,
                       const td_gval *from) {
    const parts *p = td__ptrmap_get(&f->parts, to),
                *q = td__ptrmap_get(&f->parts, from);
    for (int i = 0; i < p->n; i++) {
        if (p->v[i]->type->of) {
            if (!take_write(f, n, p->v[i], q->v[i])) return false;
            continue;
        }
        td_garg   in[2] = {td__garg_value(p->v[i]), td__garg_value(q->v[i])};
        td_gnode *c = td__graph_op(f->g, TD_OP_copy_, in, 2, 1);
        if (!c) return f->ok = false;
        c->out[0]->type = p->v[i]->type;
        c->tags = n->tags;
        c->here = n->here;
        c->stack = n->stack;
        c->scope = n->scope;
    }
    return true;
}

/* Has every typed value that the node reads parts? */
static bool has_parts(flattening *f, const td_gnode *n) {
    bool all = true;
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k].kind == TD_G_VALUE)
            all &= td__ptrmap_get(&f->parts, n->in[k].u.v) != NULL;
    return all;
}

static void note_typed(void *env, td_gval *v) {
    if (v->type && v->type->of) *(bool *)env = true;
}

static bool reads_typed(const td_gnode *n) {
    bool any = false;
    for (int k = 0; k < n->n_in; k++) td__garg_each(&n->in[k], note_typed, &any);
    return any;
}

/* Adds the node to the flat graph: unchanged, not at all, or as copies of parts. */
static bool take_node(flattening *f, td_gnode *n) {
    for (int k = 0; k < n->n_in; k++) td__garg_map(&n->in[k], same_as, f);
    if (n->kind == TD_N_OP && n->op == TD_OP__inner) return take_inner(f, n);
    if (n->kind == TD_N_OP && n->op == TD_OP__wrap) return take_wrap(f, n);
    if (!reads_typed(n))
        return f->ok = td__vec_push(&f->g->nodes, n) || td__fail_memory(f->g->cx);
    bool copies = n->op == TD_OP_clone || n->op == TD_OP_copy;
    if (copies && td__ptrmap_get(&f->parts, n->in[copies && n->op == TD_OP_copy].u.v))
        return take_copy(f, n, n->in[n->op == TD_OP_copy].u.v, n->out[0]);
    if (n->op == TD_OP_copy_ && has_parts(f, n))
        return take_write(f, n, n->in[0].u.v, n->in[1].u.v);
    if (n->op == TD_OP__bump) return true; /* the runner counts it (flat_types.c) */
    if (n->op == TD_OP_alias || n->op == TD_OP_detach)
        return f->ok = td__ptrmap_put(&f->same, n->out[0], n->in[0].u.v) ||
                       td__fail_memory(f->g->cx);
    return f->ok = td__fail(f->g->cx, TD_E_UNSUPPORTED,
                            "graph @%.60s: %s takes a tensor of a type, which only "
                            "_inner, _wrap and copies may in compiled graphs",
                            f->g->name, td__row(n->op)->name);
}

static bool take_nodes(flattening *f) {
    td_graph  *g = f->g;
    int        n = g->nodes.n;
    td_gnode **was = td__alloc(sizeof *was * ((size_t)n + 1));
    if (!was) return td__fail_memory(g->cx);
    if (n) memcpy(was, g->nodes.v, sizeof *was * (size_t)n);
    g->nodes.n = 0;
    for (int i = 0; f->ok && i < n; i++)
        if (!was[i]->dead) take_node(f, was[i]);
    td__free(was);
    return f->ok;
}

/* Adds value v as an output; if it is typed, its inner tensors. */
static bool put_output(flattening *f, td_gval *v, td_desc d) {
    v = same_as(f, v);
    if (!v->type || !v->type->of) return td__graph_output(f->g, td__garg_value(v), d);
    const parts   *p = td__ptrmap_get(&f->parts, v);
    const td_type *type = td__type_find(v->type->of->name);
    if (!p || !type)
        return td__fail(f->g->cx, TD_E_UNSUPPORTED,
                        "graph @%.60s: an output of type %s is made by an op",
                        f->g->name, v->type->of->name);
    for (int i = 0; i < p->n; i++) {
        td_desc inner = {TD_D_INNER, d.index, type->opts.inner[i]};
        if (!put_output(f, p->v[i], inner)) return false;
    }
    return true;
}

/* Adds dim as an output, if it is a symbol known only at run time and not an output
 * yet. */
static bool put_symbol(flattening *f, int64_t dim) {
    td_graph      *g = f->g;
    const td_gdim *s = td__gdim_at(g, dim);
    td_garg        a = {TD_G_SYM, 0, {0}};
    if (!s) return true;
    if (s->op != TD_GDIM_SYMBOL) return put_symbol(f, s->a) && put_symbol(f, s->b);
    for (int i = f->n_out; i < g->outputs.n; i++)
        if (g->outputs.v[i].u.i == dim) return true;
    a.u.i = dim;
    return s->letter != 'u' || td__graph_output(g, a, TD_PLAIN_DESC);
}

/* Adds the symbols in type l, and in inner types, that no input determines. */
static bool put_symbols(flattening *f, const td_gtype *l) {
    bool ok = true;
    if (!l || !l->of) return true;
    for (int d = 0; ok && d < l->rank; d++)
        ok = put_symbol(f, l->size[d]) && put_symbol(f, l->stride[d]);
    for (int i = 0; ok && i < l->of->n; i++) ok = put_symbols(f, l->of->inner[i]);
    return ok;
}

/* Replaces the outputs: the inner tensors of those of a type, then sizes of these. */
static bool put_outputs(flattening *f) {
    td_graph *g = f->g;
    int       n = g->outputs.n;
    td_garg  *was = td__alloc(sizeof *was * ((size_t)n + 1));
    td_desc  *desc = td__alloc(sizeof *desc * ((size_t)n + 1));
    bool      ok = (was && desc) || td__fail_memory(g->cx);
    for (int i = 0; ok && i < n; i++) {
        was[i] = g->outputs.v[i];
        desc[i] = g->out_desc.v[i];
    }
    if (ok) g->outputs.n = g->out_desc.n = 0;
    for (int i = 0; ok && i < n; i++) {
        bool typed = was[i].kind == TD_G_VALUE;
        if (typed && was[i].u.v->type && was[i].u.v->type->of) desc[i].index = i;
        ok = typed ? put_output(f, was[i].u.v, desc[i])
                   : td__graph_output(g, was[i], desc[i]);
    }
    f->n_out = g->outputs.n;
    for (int i = 0; ok && i < n; i++)
        ok = was[i].kind != TD_G_VALUE || put_symbols(f, was[i].u.v->type);
    td__free(was);
    td__free(desc);
    return ok;
}

td_graph *td__graph_flat_types(const td_graph *g) {
    flattening f = {.g = td__graph_clone(g), .ok = true};
    bool       ok = f.g && open_inputs(&f) && take_nodes(&f) && put_outputs(&f);
    td__ptrmap_free(&f.parts);
    td__ptrmap_free(&f.same);
    if (ok) td__graph_pack(f.g);
    if (ok && td__graph_dce(f.g)) return f.g;
    td__graph_drop(f.g);
    return NULL;
}
