/* missing.c -- joint graphs for calls some of whose tangents are missing. When a set of
 * tangents arrives for the first time, the program is joined once more and the engine
 * starts at their roots alone: what it gives, None or zeros, is what eager gives. The
 * arguments may be gone or changed by then: td_arrived has copies of them. */
#include "aot/aot.h"
#include "core/callback.h"
#include "trace/sym_args.h"

#include <string.h>

/* ---- sizes --------------------------------------------------------------- */

/* Dims that are symbols in the joint graph are symbols again. Where all sizes began as
 * symbols, so do those that the trace found to be numbers: symbols are counted, and the
 * next has the same name only then. */
bool td__missing_symbols(td_trace_source *t) {
    size_t n = (size_t)t->program->inputs.n + 1;
    t->marks = td__arena_zalloc(&t->arena, sizeof *t->marks * n);
    t->fixed = td__arena_zalloc(&t->arena, n);
    if (!t->marks || !t->fixed) return td__fail_memory(t->p->cx);
    for (int i = 0; i < t->program->inputs.n; i++) {
        const td_gtype *l = t->p->j->g->inputs.v[i]->type;
        for (int d = 0; l && d < l->rank; d++)
            if (td__dim_is_sym(l->size[d])) t->marks[i] |= (uint32_t)1 << d;
        t->fixed[i] = !t->marks[i];
        if (t->marks[i] && t->set.dynamic == TD_SHAPES_DYNAMIC)
            t->marks[i] = UINT32_MAX;
    }
    return true;
}

/* ---- td_trace_source ------------------------------------------------------------ */

static bool has_symbols(const td_trace_source *t) {
    for (int i = 0; i < t->program->inputs.n; i++)
        if (!t->fixed[i]) return true;
    return false;
}

static bool refuse(const td_trace_source *t) {
    return td__fail(t->p->cx, TD_E_UNSUPPORTED,
                    "%s: a backward that starts at some of the results alone could not "
                    "be traced; go backward from all at once",
                    t->p->name);
}

/* Sizes of two traces are the same if they are equal numbers or symbols of the same
 * name; expressions are not compared. */
static bool same_dim(const td_graph *g, int64_t a, const td_graph *h, int64_t b) {
    const td_gdim *x = td__gdim_at(g, a), *y = td__gdim_at(h, b);
    if (!x || !y || x->op != TD_GDIM_SYMBOL || y->op != TD_GDIM_SYMBOL)
        return !x && !y ? a == b : x && y;
    return x->letter == y->letter && x->nr == y->nr;
}

/* Have the sizes of the primals the same names in both graphs? The backward of the one
 * takes values that the forward of the other saved. */
static bool same_symbols(const td_graph *g, const td_graph *h, int n_primals) {
    for (int i = 0; i < n_primals; i++) {
        const td_gtype *a = g->inputs.v[i]->type, *b = h->inputs.v[i]->type;
        for (int d = 0; a && b && d < a->rank && d < b->rank; d++)
            if (!same_dim(g, a->size[d], h, b->size[d])) return false;
    }
    return true;
}

/* Are tangents and targets those of the plan? A trace that differs is a mistake of this
 * library; it must not give other gradients. */
static bool check_same(const td_trace_source *t, const td_joint *j) {
    const td_joint *was = t->p->j;
    bool            same = j->n_fwd == was->n_fwd && j->n_tangents == was->n_tangents &&
                j->n_targets == was->n_targets &&
                same_symbols(was->g, j->g, was->n_primals);
    for (int i = 0; same && i < j->n_targets; i++)
        same = j->targets[i].input == was->targets[i].input &&
               j->targets[i].base == was->targets[i].base &&
               j->targets[i].leaf == was->targets[i].leaf;
    return same || refuse(t);
}

/* Traces the program again for a set of missing tangents. Decompositions and clean-up
 * must give the same forward as the first trace, because the saved values are those of
 * the first. */
static td_joint *join(td_trace_source *t, const td_value *in, td_arriving a) {
    td_joint_opts o = t->opts;
    bool          cse = t->set.cse;
    o.missing = a.missing;
    o.tangents = a.tangents;
    o.plain_tangents = a.plain_tangents;
    td_joint          *j = td__joint(t->program, in, &o);
    const td_aot_opts *by = &t->shared->opts;
    bool               own = by->decompose || by->n_decompositions, ok = j != NULL;
    td_compile_info    info = t->p->info;
    info.stage = td__stages[TD_PIPE_PASSES].name;
    info.half = TD_JOINT;
    if (ok && own) TD_CALLBACK_FOR(j->cx, &info, ok = td__joint_decompose(j, by, cse));
    ok = ok && td__joint_clean(j, cse) && check_same(t, j);
    if (ok) return j;
    td__joint_drop(j);
    return NULL;
}

/* Sizes that the first trace found to be numbers, or equal, are so again: the op that
 * said so may be gone from the program, or only the capture, which does not run again,
 * had it. */
static bool fix_sizes(const td_trace_source *t, const td_symargs *a) {
    const td_graph *g = t->p->j->g;
    int64_t        *first = td__zalloc(sizeof *first * ((size_t)g->dims.n + 1));
    bool            ok = first || td__fail_memory(t->p->cx);
    for (int i = 0; ok && i < t->program->inputs.n; i++) {
        const td_tensor *x = a->v[i].kind == TD_K_TENSOR ? a->v[i].u.t : NULL;
        for (int d = 0; ok && x && d < x->rank; d++) {
            int64_t  size = g->inputs.v[i]->type->size[d];
            int      at = td__dim_entry(size, g->dims.n);
            int64_t *was = at < 0 ? &size : &first[at];
            if (at >= 0 && g->dims.v[at].op != TD_GDIM_SYMBOL) continue;
            if (at >= 0 && !*was) *was = x->size[d];
            ok = td__dim_eq(x->size[d], *was) || refuse(t);
        }
    }
    td__free(first);
    return ok && td_ok(t->p->cx);
}

/* The same with symbols for the sizes that were symbols. */
static td_joint *join_symbolic(td_trace_source *t, td_symenv *e, td_arriving which) {
    td_symplan plan = {.dynamic = TD_DYNAMIC_MARKED,
                       .duck = t->set.dynamic == TD_SHAPES_DYNAMIC && t->set.duck_sizes,
                       .marks = t->marks,
                       .by_argument = true,
                       .named_as = t->program,
                       .fixed = t->fixed};
    td_symargs a;
    td_values  in = {t->arrived->in, t->arrived->n};
    bool       ok = td__symargs_make(&a, e, in, plan) && fix_sizes(t, &a);
    td_joint  *j = ok ? join(t, a.v, which) : NULL;
    if (j && !td__sym_facts(e, j->g)) td__joint_drop(j), j = NULL;
    td__symargs_drop(&a);
    return j;
}

/* With symbolic sizes the trace runs in a symbol environment of its own, with symbols
 * named as in the first trace. */
static td_joint *join_sizes(td_trace_source *t, td_arriving which) {
    if (t->set.dynamic == TD_SHAPES_STATIC) return join(t, t->arrived->in, which);
    td_symenv *e = td__symenv_make(t->p->cx);
    if (!e) return NULL;
    td__symenv_begin(e);
    td_joint *j =
        has_symbols(t) ? join_symbolic(t, e, which) : join(t, t->arrived->in, which);
    td__symenv_end(e);
    td__symenv_drop(e);
    return j;
}

/* In the modes of the call, whatever backward runs in. */
td_joint *td__missing_joint(void *env, td_arriving which) {
    td_trace_source *t = env;
    td_ctx          *cx = t->p->cx;
    bool             grad = cx->grad_enabled, inference = cx->inference;
    td_dtype         dtype = cx->default_dtype;
    td_where         here = td_here;
    cx->grad_enabled = t->grad;
    cx->inference = t->inference;
    cx->default_dtype = t->dtype;
    td_joint *j = join_sizes(t, which);
    cx->grad_enabled = grad;
    cx->inference = inference;
    cx->default_dtype = dtype;
    td_here = here;
    return j;
}
