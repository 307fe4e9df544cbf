/* sym_args.c -- the arguments of a call as fake tensors with symbolic sizes.
 * The capture and every later stage use them instead of the real tensors, so
 * that the whole trace shares one set of symbols. */
#include "trace/sym_args.h"

#include "core/typed.h"

#include <stdio.h>
#include <string.h>

/* ---- geometry ----------------------------------------------------------- */

/* A view that requires grad is rebuilt through its chain of view ops, whose
 * arguments are numbers; so its sizes, and its base's, stay numbers. */
static bool is_chain(td_tensor *t) { return t->base && td_requires_grad(t); }

/* Collects the bases of such views. */
static bool find_fixed_bases(td_symargs *a, td_values args) {
    for (int i = 0; i < args.n; i++) {
        td_tensor *t = args.v[i].kind == TD_K_TENSOR ? args.v[i].u.t : NULL;
        if (t && is_chain(t) && !td__ptrmap_put(&a->still, t->base, t))
            return td__fail_memory(a->e->cx);
    }
    return true;
}

/* The dims of a leaf that have one of these sizes. */
typedef struct size_search {
    const td_tensor *of;
    uint32_t         dims; /* of `of`: found in a leaf */
} size_search;

static bool find_sizes(void *env, td_tensor *leaf) {
    size_search *s = env;
    for (int d = 0; d < s->of->rank; d++)
        for (int k = 0; k < leaf->rank; k++)
            if (leaf->size[k] == s->of->size[d]) s->dims |= (uint32_t)1 << d;
    return true;
}

/* The dims of a typed tensor that may be symbols: compiled code receives only its inner
 * tensors, so one of them must have the size, and strides must follow from sizes. */
static uint32_t dims_shown(td_tensor *t) {
    size_search s = {t, 0};
    if (t->offset || td__own_grad(t) || !td__sym_strides_follow(t)) return 0;
    td__typed_leaves(t, find_sizes, &s);
    return s.dims;
}

/* The bit of marks that makes sizes of inner tensors symbols, whatever the sizes of t
 * are; 0: the type has none. */
static uint32_t inner_bit(const td_tensor *t) {
    return t->typed->type->opts.varies && !td__own_grad((td_tensor *)(uintptr_t)t)
               ? TD_SYM_INNER
               : 0;
}

/* Which dims of argument number a->n become symbols. */
static td_symhow how_for(const td_symargs *a, td_tensor *t) {
    uint32_t dims = a->plan.marks ? a->plan.marks[a->n] : t->marks | t->maybe;
    if (a->plan.dynamic == TD_DYNAMIC_ALL) dims = UINT32_MAX;
    if (is_chain(t) || td__ptrmap_get(&a->still, t)) dims = 0;
    if (a->plan.fixed && a->plan.fixed[a->n]) dims = 0;
    if (t->typed) dims &= dims_shown(t) | inner_bit(t);
    bool all = a->plan.dynamic == TD_DYNAMIC_ALL, number = t->flags & TD_TF_NUMBER;
    bool duck = !number && (a->plan.duck || (all && !a->plan.no_duck) || t->typed);
    return (td_symhow){dims, duck, number, t->bounds, 0};
}

static bool same_numbers(const int64_t *a, const int64_t *b, int n) {
    return !memcmp(a, b, sizeof *a * (size_t)n);
}

/* The .grad of t gets t's symbolic sizes; its strides must be t's or row-major. */
static bool shape_grad(td_symargs *a, td_tensor *t, const td_meta *of) {
    td_tensor *g = td__own_grad(t);
    td_meta    m = *of;
    if (!g || td__ptrmap_get(&a->fakes.metas, g)) return true;
    m.dtype = (td_dtype)g->dtype;
    m.offset = g->offset;
    if (same_numbers(g->stride, t->stride, t->rank))
        return td__fake_shape(&a->fakes, g, &m);
    if (!td__is_dense(g->rank, g->size, g->stride))
        return td__fail(
            a->e->cx, TD_E_UNSUPPORTED,
            "the .grad of argument %d has neither the argument's strides nor "
            "row-major ones, which dynamic sizes do not support; set a "
            "contiguous gradient",
            a->n);
    td__strides_dense(m.rank, m.size, m.stride);
    return td__fake_shape(&a->fakes, g, &m);
}

/* Which dims of an inner tensor become symbols: all, or those that have the size of a
 * marked dim of the tensor. */
static td_symhow how_inner(const td_symargs *a, const td_tensor *t, td_symhow how,
                           td_tensor *inner) {
    uint32_t dims = 0;
    for (int d = 0; d < t->rank; d++)
        for (int k = 0; k < inner->rank; k++)
            if (how.dims >> d & 1 && t->size[d] == inner->size[k])
                dims |= (uint32_t)1 << k;
    if (how.dims & (a->plan.dynamic == TD_DYNAMIC_ALL ? UINT32_MAX : inner_bit(t)))
        dims = UINT32_MAX;
    if (inner->typed) dims &= dims_shown(inner);
    return (td_symhow){dims, true, false, NULL, 0};
}

/* Inner tensors of t have symbols of their own, read from the parts of the argument;
 * *part is the number of the last one. */
static bool shape_inner(td_symargs *a, const char *name, const td_tensor *t,
                        td_symhow how, int *part) {
    char path[120];
    for (int i = 0; t->typed && i < t->typed->n; i++) {
        td_tensor *inner = t->typed->inner[i];
        td_symhow  h = how_inner(a, t, how, inner);
        td_meta    m;
        h.part = ++*part;
        snprintf(path, sizeof path, "%.70s.%.40s", name, t->typed->type->opts.inner[i]);
        if (!td__sym_tensor(a->e, path, a->n_in, inner, h, &m) ||
            !td__fake_shape(&a->fakes, inner, &m) ||
            !shape_inner(a, path, inner, h, part))
            return false;
    }
    return true;
}

/* Chooses the geometry of t's copy. A tensor passed twice must have the same
 * symbols both times. */
static bool shape(td_symargs *a, const char *name, td_tensor *t) {
    const td_meta *known = td__ptrmap_get(&a->fakes.metas, t);
    td_meta        m;
    int            part = 0;
    if (known) return td__sym_tensor_is(a->e, name, a->n_in, t, known);
    td_symhow how = how_for(a, t);
    return td__sym_tensor(a->e, name, a->n_in, t, how, &m) &&
           td__fake_shape(&a->fakes, t, &m) && shape_grad(a, t, &m) &&
           shape_inner(a, name, t, how, &part);
}

/* ---- arguments ---------------------------------------------------------- */

static td_tensor *tensor_of(td_value v) {
    return v.kind == TD_K_TENSOR && v.u.t && !td_is_nil(v.u.t) ? v.u.t : NULL;
}

/* Makes symbolic copies of the tensor arguments; the symbols are named after the
 * arguments, as x0.size(1), in messages. */
static bool shape_all(td_symargs *a, td_values args) {
    char name[80];
    for (int i = 0; i < args.n; i++, a->n++) {
        td_tensor *t = tensor_of(args.v[i]);
        if (!t) continue;
        const td_graph *g = a->plan.named_as;
        const char     *given = g && i < g->inputs.n ? g->inputs.v[i]->name : NULL;
        if (given) snprintf(name, sizeof name, "%.60s", given);
        else snprintf(name, sizeof name, "x%d", i);
        if (a->plan.by_argument) a->n_in = i;
        if (!shape(a, name, t)) return false;
        a->n_in++;
    }
    return true;
}

/* Copies after all geometries are set: copying a view copies its base too. */
static bool copy_all(td_symargs *a, td_values args) {
    for (int i = 0; i < args.n; i++) {
        td_tensor *t = tensor_of(args.v[i]);
        a->v[i] = args.v[i];
        if (!t) continue;
        uint8_t number = t->flags & TD_TF_NUMBER;
        if (!(t = td__fake_copy(&a->fakes, t))) return false;
        t->flags |= number;
        a->v[i] = td_value_tensor(t);
    }
    return true;
}

bool td__symargs_make(td_symargs *a, td_symenv *e, td_values args, td_symplan plan) {
    *a = (td_symargs){.e = e, .plan = plan, .fakes = {.cx = e->cx}};
    a->v = td__zalloc(sizeof *a->v * ((size_t)args.n + 1));
    if (!a->v) return td__fail_memory(e->cx);
    return find_fixed_bases(a, args) && shape_all(a, args) && copy_all(a, args) &&
           td_ok(e->cx);
}

void td__symargs_drop(td_symargs *a) {
    td__faker_end(&a->fakes);
    td__ptrmap_free(&a->still);
    td__free(a->v);
}

/* ---- graphs ------------------------------------------------------------- */

td_graph *td__capture_symbolic(const td_graph *g, const td_value *in, td_symplan plan,
                               td_buf *guards) {
    td_symenv *e = td__symenv_make(g->cx);
    td_graph  *to = NULL;
    td_symargs a;
    if (!e) return NULL;
    td__symenv_begin(e);
    if (td__symargs_make(&a, e, (td_values){in, g->inputs.n}, plan))
        to = td__capture_graph(g, a.v);
    td__symargs_drop(&a);
    td__guards_print(e, guards);
    td__symenv_end(e);
    td__symenv_drop(e);
    return to;
}
