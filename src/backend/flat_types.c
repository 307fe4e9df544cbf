/* flat_types.c -- backends see plain tensors only. A graph with inputs or outputs of a
 * type is compiled as one of their inner tensors: an input of a type becomes its inner
 * tensors, <inner i "name">, in order, and so does an output; nodes _inner and _wrap
 * are gone. The runner takes arguments apart and puts results together. */
#include "backend/backend.h"
#include "core/typed.h"
#include "trace/trace.h"

#include <stdio.h>
#include <string.h>

/* ---- the graph ---------------------------------------------------------- */

/* What a value of a type consists of. */
typedef struct parts {
    int      n;
    td_gval *v[TD_MOST_INNER]; /* may be of a type, and have parts */
} parts;

typedef struct flattening {
    td_graph *g;     /* a clone, which becomes flat */
    td_ptrmap parts; /* by value of a type */
    td_ptrmap same;  /* by result of _inner: the value that it is */
    int       n_out; /* outputs that are no sizes */
    bool      ok;
} flattening;

static parts *add_parts(flattening *f, const td_gval *of, int n) {
    parts *p = td__arena_zalloc(&f->g->arena, sizeof *p);
    if (!p || !td__ptrmap_put(&f->parts, of, p))
        return f->ok = td__fail_memory(f->g->cx), NULL;
    p->n = n;
    return p;
}

/* A value that is in no list of the graph yet. */
static td_gval *make_value(flattening *f, const td_gtype *type) {
    td_gval *v = td__arena_zalloc(&f->g->arena, sizeof *v);
    if (!v) return f->ok = td__fail_memory(f->g->cx), NULL;
    v->type = type;
    return v;
}

/* Adds input v of a type as its inner tensors; `name` is the path of names so far. */
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

/* A copy of a value of a type: of its parts. */
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

static void note_typed(void *env, td_gval *v) {
    if (v->type && v->type->of) *(bool *)env = true;
}

static bool reads_typed(const td_gnode *n) {
    bool any = false;
    for (int k = 0; k < n->n_in; k++) td__garg_each(&n->in[k], note_typed, &any);
    return any;
}

/* A node as the flat graph has it: itself, nothing, or copies of parts. */
static bool take_node(flattening *f, td_gnode *n) {
    for (int k = 0; k < n->n_in; k++) td__garg_map(&n->in[k], same_as, f);
    if (n->kind == TD_N_OP && n->op == TD_OP__inner) return take_inner(f, n);
    if (n->kind == TD_N_OP && n->op == TD_OP__wrap) return take_wrap(f, n);
    if (!reads_typed(n))
        return f->ok = td__vec_push(&f->g->nodes, n) || td__fail_memory(f->g->cx);
    bool copies = n->op == TD_OP_clone || n->op == TD_OP_copy;
    if (copies && td__ptrmap_get(&f->parts, n->in[copies && n->op == TD_OP_copy].u.v))
        return take_copy(f, n, n->in[n->op == TD_OP_copy].u.v, n->out[0]);
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

/* Adds value v as an output, an inner tensor where it is of a type. */
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

/* Adds dim as an output, if it is a symbol that only run time knows and is none yet. */
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

/* Adds the symbols of type l and of the types inside that no input of a call shows. */
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

/* ---- the runner --------------------------------------------------------- */

typedef struct typed_code {
    td_graph *g, *flat; /* with and without types; owned */
    td_runner code;
    int      *leaves; /* by input: how many inputs of `flat` it is */
    td_value *values; /* inputs, then outputs of `flat` */
    int64_t  *bound;  /* symbolic sizes of the call; NULL: none */
    int       n_out;  /* outputs of `flat` that are no sizes of outputs */
    bool      busy;
} typed_code;

typedef struct filling {
    td_value *v;
    int       n;
} filling;

static bool add_leaf(void *env, td_tensor *leaf) {
    filling *f = env;
    f->v[f->n++] = td_value_tensor(leaf);
    return true;
}

static int count_leaves(const td_gtype *l) {
    int n = 0;
    if (!l || !l->of) return 1;
    for (int i = 0; i < l->of->n; i++) n += count_leaves(l->of->inner[i]);
    return n;
}

static bool count_leaf(void *env, td_tensor *leaf) {
    (void)leaf;
    ++*(int *)env;
    return true;
}

/* The numbers of sizes or strides in this call. */
static void dims_now(const typed_code *t, int64_t *to, const int64_t *v, int n) {
    for (int d = 0; d < n; d++)
        to[d] = t->bound ? td__gdim_value(t->g, v[d], t->bound) : v[d];
}

/* Leaves for an input that no code reads: it is a plain tensor of its sizes, from which
 * symbolic sizes are bound (td__size_stand_in), and so are these. */
static bool add_stand_ins(const typed_code *t, td_ctx *cx, const td_gtype *l,
                          filling *to) {
    int64_t size[TD_MAX_RANK];
    bool    known = t->bound != NULL, ok = true;
    for (int i = 0; l->of && ok && i < l->of->n; i++)
        ok = add_stand_ins(t, cx, l->of->inner[i], to);
    if (l->of) return ok;
    if (known) dims_now(t, size, l->size, l->rank);
    for (int d = 0; known && d < l->rank; d++) known = size[d] >= 0;
    td_value *v = &to->v[to->n++];
    *v = TD_NONE;
    if (!known) return true;
    *v = td_value_tensor(
        td__zeros_on(cx, l->device, (td_ints){size, l->rank}, (td_dtype)l->dtype));
    return !td_is_nil(v->u.t);
}

/* Takes the inputs apart. An input that is not there has no inner tensors either. */
static bool take_apart(const typed_code *t, td_ctx *cx, const td_value *in,
                       filling *to) {
    for (int i = 0; i < t->g->inputs.n; i++) {
        const td_gtype *l = t->g->inputs.v[i]->type;
        bool            tensor = in[i].kind == TD_K_TENSOR && in[i].u.t;
        int             n = 0;
        if (tensor && l && l->of && !in[i].u.t->typed) {
            if (!add_stand_ins(t, cx, l, to)) return false;
            continue;
        }
        if (tensor) td__typed_leaves(in[i].u.t, count_leaf, &n);
        if (tensor && n != t->leaves[i])
            return td__fail(cx, TD_E_ARG,
                            "@%.60s: input %d consists of %d tensors, and "
                            "its code was made for %d",
                            t->g->name, i, n, t->leaves[i]);
        if (tensor) td__typed_leaves(in[i].u.t, add_leaf, to);
        else
            for (int k = 0; k < t->leaves[i]; k++) to->v[to->n++] = in[i];
    }
    return true;
}

/* Puts an output of type l together from the next outputs of the flat code. */
static td_tensor *put_together(const typed_code *t, td_ctx *cx, const td_gtype *l,
                               filling *from) {
    td_tensor *inner[TD_MOST_INNER];
    int64_t    size[TD_MAX_RANK], stride[TD_MAX_RANK];
    if (!l->of) return from->v[from->n++].u.t;
    for (int i = 0; i < l->of->n; i++) {
        inner[i] = put_together(t, cx, l->of->inner[i], from);
        if (!inner[i] || td_is_nil(inner[i])) return td_nil(cx);
    }
    dims_now(t, size, l->size, l->rank);
    dims_now(t, stride, l->stride, l->rank);
    return td_type_make(td__type_find(l->of->name), (td_tensors){inner, l->of->n},
                        l->of->metadata, (td_ints){size, l->rank},
                        (td_ints){stride, l->rank}, (td_dtype)l->dtype);
}

static bool give_outputs(const typed_code *t, td_ctx *cx, filling *from,
                         td_value *out) {
    for (int i = 0; i < t->g->outputs.n; i++) {
        const td_garg  *a = &t->g->outputs.v[i];
        const td_gtype *l = a->kind == TD_G_VALUE ? a->u.v->type : NULL;
        if (!l || !l->of) {
            out[i] = from->v[from->n++];
            continue;
        }
        out[i] = td_value_tensor(put_together(t, cx, l, from));
        if (td_is_nil(out[i].u.t)) return false;
    }
    return true;
}

static void bind_sizes(const typed_code *t, const td_value *in) {
    if (!t->bound) return;
    td__gdim_bind(t->g, in, t->bound);
    td__gdim_solve(t->g, t->bound);
}

/* Binds the sizes that depend on values: the last outputs (put_symbols). */
static void bind_outputs(const typed_code *t, const td_value *out) {
    for (int i = t->n_out; i < t->flat->outputs.n; i++) {
        int k = td__dim_entry(t->flat->outputs.v[i].u.i, t->g->dims.n);
        if (k >= 0 && out[i].kind == TD_K_INT) t->bound[k] = out[i].u.i;
    }
    if (t->n_out < t->flat->outputs.n) td__gdim_settle(t->g, t->bound);
}

static bool run_flat(typed_code *t, td_ctx *cx, td_value *v, const td_value *in,
                     td_value *out) {
    filling to = {v, 0}, from = {v + t->flat->inputs.n, 0};
    for (int i = 0; i < t->flat->outputs.n; i++) from.v[i] = TD_NONE;
    bind_sizes(t, in);
    if (!take_apart(t, cx, in, &to) || !t->code.run(t->code.env, cx, v, from.v))
        return false;
    bind_sizes(t, in); /* code may have called itself */
    bind_outputs(t, from.v);
    td_mode_scope outer = td__modes_enter_plain(cx, NULL);
    bool          ok = give_outputs(t, cx, &from, out);
    td__modes_leave(cx, &outer);
    return ok;
}

/* A call inside a call of the same code has values of its own. */
static bool run_typed(void *env, td_ctx *cx, const td_value *in, td_value *out) {
    typed_code *t = env;
    size_t      n = (size_t)(t->flat->inputs.n + t->flat->outputs.n) + 1;
    bool        nested = t->busy;
    td_value   *v = nested ? td__alloc(sizeof *v * n) : t->values;
    if (!v) return td__fail_memory(cx);
    t->busy = true;
    bool ok = run_flat(t, cx, v, in, out);
    t->busy = nested;
    if (nested) td__free(v);
    return ok;
}

static void drop_typed(void *env) {
    typed_code *t = env;
    td__runner_drop(&t->code);
    td__graph_drop(t->flat);
    td__graph_drop(t->g);
    td__free(t->leaves);
    td__free(t->values);
    td__free(t->bound);
    td__free(t);
}

bool td__compile_typed(td_ctx *cx, const td_backend *b, const td_graph *g,
                       const td_compile_info *info, const td_on_compile *on,
                       td_runner *code) {
    typed_code *t = td__zalloc(sizeof *t);
    if (!t) return td__fail_memory(cx);
    t->g = td__graph_clone(g);
    t->flat = t->g ? td__graph_flat_types(g) : NULL;
    bool ok = t->flat != NULL;
    if (ok) {
        size_t n = (size_t)(t->flat->inputs.n + t->flat->outputs.n) + 1;
        t->leaves = td__zalloc(sizeof *t->leaves * ((size_t)g->inputs.n + 1));
        t->values = td__zalloc(sizeof *t->values * n);
        if (t->g->dims.n)
            t->bound = td__zalloc(sizeof *t->bound * ((size_t)t->g->dims.n + 1));
        ok = (t->leaves && t->values && (t->bound || !t->g->dims.n)) ||
             td__fail_memory(cx);
    }
    for (int i = 0; ok && i < g->inputs.n; i++)
        t->leaves[i] = count_leaves(t->g->inputs.v[i]->type);
    for (int i = 0; ok && i < g->outputs.n; i++) {
        const td_garg *a = &t->g->outputs.v[i];
        t->n_out += a->kind == TD_G_VALUE ? count_leaves(a->u.v->type) : 1;
    }
    ok = ok && td__compile_told(cx, b, t->flat, info, on, &t->code);
    if (!ok) return drop_typed(t), false;
    *code = (td_runner){.run = run_typed, .drop = drop_typed, .env = t};
    return true;
}

const td_runner *td__runner_inside(const td_runner *r) {
    return r->run == run_typed ? &((const typed_code *)r->env)->code : r;
}
