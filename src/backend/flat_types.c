/* flat_types.c -- backends receive plain tensors only. A graph with typed inputs or
 * outputs is compiled as a graph of their inner tensors (trace/flat_graph.c). The
 * runner takes arguments apart and builds typed results. */
#include "backend/backend.h"
#include "core/typed.h"
#include "joint/joint.h"
#include "trace/trace.h"

typedef struct typed_code {
    td_graph *g, *flat; /* with and without types; owned */
    td_runner code;
    int      *leaves; /* by input: its number of inputs of `flat` */
    td_value *values; /* inputs, then outputs of `flat` */
    bool     *writes; /* by input: the code writes it */
    int64_t  *bound;  /* symbolic sizes of the call; NULL: none */
    int       n_out;  /* outputs of `flat` before the sizes */
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

/* The values of sizes or strides in this call. */
static void dims_now(const typed_code *t, int64_t *to, const int64_t *v, int n) {
    for (int d = 0; d < n; d++)
        to[d] = t->bound ? td__gdim_value(t->g, v[d], t->bound) : v[d];
}

/* Leaves for an input that no code reads: a plain tensor of its sizes, from which the
 * symbolic sizes are bound (td__size_stand_in), represents each of them, too. */
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

/* Lists the leaves of the inputs. An absent input has absent leaves. */
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

/* Builds an output of type l from the next outputs of the flat code. */
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

/* The input or one of the first n outputs that v is; NULL: it is none of them. */
static const td_value *same_value(const typed_code *t, const td_value *in,
                                  const td_value *out, int n, const td_gval *v) {
    for (int i = 0; i < t->g->inputs.n; i++)
        if (t->g->inputs.v[i] == v) return &in[i];
    for (int i = 0; i < n; i++)
        if (t->g->outputs.v[i].kind == TD_G_VALUE && t->g->outputs.v[i].u.v == v)
            return &out[i];
    return NULL;
}

/* Gives the outputs to the caller. An output that is an input or an earlier output is
 * that same tensor, not another one with the same inner tensors: a leaf copies a
 * gradient that has other references. */
static bool give_outputs(const typed_code *t, td_ctx *cx, const td_value *in,
                         filling *from, td_value *out) {
    for (int i = 0; i < t->g->outputs.n; i++) {
        const td_garg  *a = &t->g->outputs.v[i];
        const td_gtype *l = a->kind == TD_G_VALUE ? a->u.v->type : NULL;
        if (!l || !l->of) {
            out[i] = from->v[from->n++];
            continue;
        }
        const td_value *is = same_value(t, in, out, i, a->u.v);
        if (is) {
            out[i] = *is;
            from->n += count_leaves(l);
            continue;
        }
        out[i] = td_value_tensor(put_together(t, cx, l, from));
        if (td_is_nil(out[i].u.t)) return false;
    }
    return true;
}

/* Counts a write of inner tensors by the code in the version of the typed tensor. */
static void count_write(const td_tensor *t) {
    if (!t->typed) return;
    atomic_fetch_add_explicit(&t->st->version, 1, memory_order_relaxed);
    t->st->writer = td__row(TD_OP_copy_)->name;
    for (int i = 0; i < t->typed->n; i++) count_write(t->typed->inner[i]);
}

static void count_writes(const typed_code *t, const td_value *in) {
    for (int i = 0; i < t->g->inputs.n; i++)
        if (t->writes[i] && in[i].kind == TD_K_TENSOR && in[i].u.t)
            count_write(in[i].u.t);
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
    count_writes(t, in);
    bind_sizes(t, in); /* a nested call of this code may have bound others */
    bind_outputs(t, from.v);
    td_mode_scope outer = td__modes_enter_plain(cx, NULL);
    bool          ok = give_outputs(t, cx, in, &from, out);
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
    td__free(t->writes);
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
    /* views of an inner tensor of a copy are views of the copy of the inner tensor */
    bool ok = t->flat && td__graph_fix_storages(t->flat);
    if (ok) {
        size_t n = (size_t)(t->flat->inputs.n + t->flat->outputs.n) + 1;
        t->leaves = td__zalloc(sizeof *t->leaves * ((size_t)g->inputs.n + 1));
        t->writes = td__zalloc((size_t)g->inputs.n + 1);
        t->values = td__zalloc(sizeof *t->values * n);
        if (t->g->dims.n)
            t->bound = td__zalloc(sizeof *t->bound * ((size_t)t->g->dims.n + 1));
        ok = (t->leaves && t->writes && t->values && (t->bound || !t->g->dims.n)) ||
             td__fail_memory(cx);
    }
    if (ok) td__graph_written_inputs(t->g, t->writes);
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
