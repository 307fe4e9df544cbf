/* fold.c -- constant folding: a pure node whose tensor arguments are all known
 * is computed now. If all elements are equal it becomes full(...), which makes
 * a new tensor in every call; otherwise a const of the graph, unless it
 * escapes. Views stay views, because their base may be observable. Only values
 * of known, small size are computed. */
#include "graph/graph_int.h"

#include <math.h>

enum { MOST = 4096 }; /* elements of a value that is computed */

/* State of the pass. */
typedef struct folding {
    td_graph  *g;
    td_arena   scratch;
    td_effects e;
    td_replay  r;   /* the values that are known */
    td_gval  **now; /* by value id: its replacement; NULL: itself */
} folding;

/* For td__garg_map: the replacement of a value. */
static td_gval *current(void *env, td_gval *v) {
    folding *f = env;
    return f->now[v->id] ? f->now[v->id] : v;
}

/* ---- what can be computed ----------------------------------------------- */

/* Does a node read any tensor, and one that is unknown? */
typedef struct reads {
    const folding *f;
    bool           any, unknown;
} reads;

static void look_at(void *env, td_gval *v) {
    reads *r = env;
    r->any = true;
    r->unknown |= r->f->r.val[v->id].kind != TD_K_TENSOR;
}

/* Is it a plain tensor of the CPU with few elements? */
static bool is_small(const td_gtype *l) {
    return l && l->kind == TD_K_TENSOR && !l->of && !l->device &&
           !td__dims_any_sym(l->size, l->rank) && td__numel(l->rank, l->size) <= MOST;
}

static bool has_symbols(const td_garg *a) {
    if (a->kind == TD_G_SYM || a->kind == TD_G_GRAPH) return true;
    return a->kind == TD_G_INTS && td__dims_any_sym(a->u.ints, (int)a->n);
}

/* Can the node be computed now? *any: it reads at least one constant (a
 * creating op alone is not worth folding). */
static bool is_known(const folding *f, const td_gnode *n, bool *any) {
    reads r = {.f = f};
    if (td__gnode_is_fixed(n)) return false;
    for (int i = 0; i < n->n_out; i++)
        if (!is_small(n->out[i]->type) || f->e.written[n->out[i]->id]) return false;
    for (int i = 0; i < n->n_in; i++) {
        if (has_symbols(&n->in[i])) return false;
        td__garg_each(&n->in[i], look_at, &r);
    }
    *any = r.any;
    return !r.unknown && (r.any || td__row(n->op)->flags & TD_OPF_CREATE);
}

/* Computes the node without modes and without history. A node that fails stays
 * in the graph, to fail at run time; the error is cleared. */
static bool compute(folding *f, const td_gnode *n) {
    td_ctx       *cx = f->g->cx;
    td_where      here = td_here;
    td_mode_scope outer = td__modes_enter_plain(cx, NULL);
    bool          ok = td__replay_node(&f->r, n);
    td__modes_leave(cx, &outer);
    td_here = here;
    if (!ok && td__error(cx) != TD_E_MEMORY) td_clear(cx);
    return ok;
}

/* ---- what it becomes ---------------------------------------------------- */

/* Are all elements bitwise equal, and not NaN or complex, which full could not
 * reproduce? */
static bool is_uniform(const td_tensor *t) {
    size_t item = td__dtype_bytes[t->dtype];
    if (t->numel == 0 || td__is_complex((td_dtype)t->dtype)) return false;
    for (int64_t i = 1; i < t->numel; i++)
        if (memcmp(td__ptr(t), td__ptr(t) + (size_t)i * item, item)) return false;
    return !td__is_float((td_dtype)t->dtype) ||
           !isnan(td__load_f((td_dtype)t->dtype, td__ptr(t)));
}

/* n computed a constant with equal elements: it becomes full(size, value, dtype), which
 * is printed and compared without its bytes. */
static bool become_full(folding *f, td_gnode *n, const td_tensor *t) {
    td_dtype dt = (td_dtype)t->dtype;
    td_garg  in[3] = {td__garg_ints(t->size, t->rank), {0}, {0}};
    in[1].kind = td__is_float(dt) ? TD_G_FLOAT : dt == TD_BOOL ? TD_G_BOOL : TD_G_INT;
    if (td__is_float(dt)) in[1].u.f = td__load_f(dt, td__ptr(t));
    else in[1].u.i = td__load_i(dt, td__ptr(t));
    in[2].kind = TD_G_DTYPE;
    in[2].u.dt = dt;
    return td__graph_become(f->g, n, TD_OP_full, in, 3);
}

/* Replaces the node by const inputs. Value ids change only when the graph is
 * packed. */
static bool become_const(folding *f, td_gnode *n) {
    for (int i = 0; i < n->n_out; i++) {
        td_gval *v = n->out[i];
        td_gval *c = td__graph_const(f->g, v->name, f->r.val[v->id].u.t);
        if (!c) return false;
        c->type = v->type; /* same storage number, for its views */
        f->now[v->id] = c;
    }
    n->dead = true;
    return true;
}

/* Replaces a computed node, if that is possible. */
static bool replace(folding *f, td_gnode *n) {
    bool seen = false, dense = true;
    for (int i = 0; i < n->n_out; i++) {
        const td_tensor *t = f->r.val[n->out[i]->id].u.t;
        int64_t          plain[TD_MAX_RANK];
        td__strides_dense(t->rank, t->size, plain);
        seen |= f->e.escapes[n->out[i]->id];
        dense &= !memcmp(plain, t->stride, sizeof *plain * t->rank);
    }
    const td_tensor *t = n->n_out == 1 ? f->r.val[n->out[0]->id].u.t : NULL;
    if (t && dense && is_uniform(t)) return become_full(f, n, t);
    return seen || !dense || n->n_out == 0 || become_const(f, n);
}

/* May a result share storage with an argument? */
static bool is_alias(const td_gnode *n) {
    const td_schema *s = &td__opinfo(n->op)->s;
    for (int i = 0; i < s->n_out; i++)
        if (s->out[i].alias) return true;
    return (td__row(n->op)->flags & TD_OPF_SHARE) != 0;
}

/* Computes nodes whose arguments are all known, with the eager kernels. Views and
 * aliases of a constant are left: they share its storage, which a literal would not. */
static bool fold_nodes(folding *f) {
    td_graph *g = f->g;
    int       n = g->nodes.n;
    for (int i = 0; i < n; i++) {
        td_gnode *node = g->nodes.v[i];
        bool      any = false;
        if (node->dead) continue;
        bool known = is_known(f, node, &any) && compute(f, node);
        if (!td_ok(g->cx)) return false;
        if (known && any && !is_alias(node) && !replace(f, node)) return false;
        for (int k = 0; k < node->n_in && !node->dead; k++)
            td__garg_map(&node->in[k], current, f);
    }
    for (int i = 0; i < g->outputs.n; i++) td__garg_map(&g->outputs.v[i], current, f);
    return true;
}

/* An input that the caller updates after each call is not constant. */
static void mark_updated(folding *f) {
    const td_graph *g = f->g;
    for (int i = 0; i < g->out_desc.n; i++) {
        const td_desc *d = &g->out_desc.v[i];
        bool           update = d->kind == TD_D_UPDATE || d->kind == TD_D_META_UPDATE;
        if (update && d->index >= 0 && d->index < g->inputs.n)
            f->e.written[g->inputs.v[d->index]->id] = true;
    }
}

/* Only constants that the graph does not write are known values. */
static void set_consts(folding *f) {
    for (int i = 0; i < f->g->inputs.n; i++) {
        const td_gval *v = f->g->inputs.v[i];
        if (td__is_const_input(f->g, i) && !f->e.written[v->id])
            td__replay_set(&f->r, v,
                           td_value_tensor(f->g->consts.v[f->g->in_desc.v[i].index]));
    }
}

/* Consts are added on the way; the replay has slots only for the values before. */
static bool fold_all(folding *f) {
    td_graph *g = f->g;
    int32_t   before = g->n_values;
    bool      ok = td__replay_begin(&f->r, g);
    mark_updated(f);
    if (ok) set_consts(f);
    ok = ok && fold_nodes(f);
    int32_t made = g->n_values;
    g->n_values = before;
    td__replay_end(&f->r);
    g->n_values = made;
    td__graph_pack(g);
    return ok;
}

/* Replaces nodes whose arguments are all known by constants. Results above a size
 * limit, and ops that draw or fail, stay. */
bool td__graph_fold(td_graph *g) {
    folding f = {.g = g};
    if (!td_ok(g->cx)) return false;
    f.now = td__pass_alloc(g, &f.scratch, (size_t)g->n_values, sizeof *f.now);
    bool ok = f.now && td__effects_make(&f.e, g, &f.scratch) && fold_all(&f);
    td__arena_free(&f.scratch);
    return ok;
}
