/* sizes.c -- a joint graph with symbolic sizes. Geometry outside the graph (tangents,
 * made tensors, views of inputs) is expressed in the graph's symbols after the trace,
 * and evaluated for the inputs of each call. */
#include "joint/joint_int.h"

/* ---- after the trace ---------------------------------------------------- */

/* Turns the tracer's dims of a list into dims of g, in place. */
static void keep_list(td_graph *g, const int64_t *list, int n) {
    int64_t *own = (int64_t *)(uintptr_t)list;
    for (int i = 0; i < n; i++) own[i] = td__graph_dim(g, own[i]);
}

void td__geom_keep(td_graph *g, td_geom *of) {
    of->offset = td__graph_dim(g, of->offset);
    keep_list(g, of->size, of->rank);
    keep_list(g, of->stride, of->rank);
}

/* The same for the arguments of view ops. */
static void keep_views(td_graph *g, td_view_op *views, int n) {
    for (int i = 0; i < n; i++)
        for (int k = 0; k < views[i].n_in; k++) {
            td_value *v = &views[i].in[k];
            if (v->kind == TD_K_INT) v->u.i = td__graph_dim(g, v->u.i);
            else if (v->kind == TD_K_INTS) keep_list(g, v->u.ints, (int)v->n);
        }
}

bool td__joint_keep_sizes(td_joint *j) {
    td_graph *g = j->g;
    for (int i = 0; i < j->n_primals; i++)
        keep_views(g, j->related[i].views, j->related[i].n_views);
    for (int i = 0; i < j->n_tangents; i++) td__geom_keep(g, &j->tangents[i].geom);
    for (int i = 0; i < j->n_fwd; i++)
        if (j->fwd[i].made) td__geom_keep(g, &j->fwd[i].geom);
    return td_ok(j->cx);
}

/* ---- for a call --------------------------------------------------------- */

typedef struct setting {
    const td_joint *j;
    td_arena       *a;
    int64_t        *bound;
    bool            ok;
} setting;

/* The value of dim in this call. Inside another trace it may be a symbol of that. */
static int64_t number(setting *s, int64_t dim) {
    int64_t x = td__gdim_value(s->j->g, dim, s->bound);
    if (x == INT64_MIN || (td__dim_is_sym(x) && !td__dim_tracing())) s->ok = false;
    return x;
}

static const int64_t *numbers(setting *s, const int64_t *list, int n) {
    int64_t *own = td__arena_alloc(s->a, sizeof *own * ((size_t)n + 1));
    for (int i = 0; own && i < n; i++) own[i] = number(s, list[i]);
    if (!own) s->ok = td__fail_memory(s->j->cx);
    return own;
}

static td_view_op *views_now(setting *s, const td_view_op *views, int n) {
    td_view_op *own = td__arena_alloc(s->a, sizeof *own * ((size_t)n + 1));
    if (!own) {
        s->ok = td__fail_memory(s->j->cx);
        return NULL;
    }
    for (int i = 0; i < n && s->ok; i++) {
        const td_view_op *v = &views[i];
        own[i] = *v;
        own[i].in = td__arena_alloc(s->a, sizeof *v->in * ((size_t)v->n_in + 1));
        if (!own[i].in) s->ok = td__fail_memory(s->j->cx);
        for (int k = 0; k < v->n_in && s->ok; k++) {
            td_value x = v->in[k];
            if (x.kind == TD_K_INT) x.u.i = number(s, x.u.i);
            if (x.kind == TD_K_INTS) x.u.ints = numbers(s, x.u.ints, (int)x.n);
            own[i].in[k] = x;
        }
    }
    return own;
}

static void *copy_array(setting *s, const void *from, int n, size_t item) {
    void *to = td__arena_alloc(s->a, item * ((size_t)n + 1));
    if (!to) s->ok = td__fail_memory(s->j->cx);
    else if (n) memcpy(to, from, item * (size_t)n);
    return to;
}

/* Evaluates the symbols of the graph for these inputs. */
static bool bind(setting *s, const td_value *in) {
    s->bound = td__arena_alloc(s->a, sizeof *s->bound * ((size_t)s->j->g->dims.n + 1));
    if (!s->ok || !s->bound) return td__fail_memory(s->j->cx);
    td__gdim_bind(s->j->g, in, s->bound);
    return true;
}

/* Refuses a size that the inputs do not determine. */
static bool judge(const setting *s) {
    if (s->ok || !td_ok(s->j->cx)) return s->ok;
    return td__fail(s->j->cx, TD_E_UNSUPPORTED,
                    "@%.60s: unsupported: the sizes of a view or a tangent depend on "
                    "values. Compute it outside of the compiled function",
                    s->j->g->name);
}

bool td__joint_at(const td_joint *j, const td_value *in, td_arena *a, td_joint *to) {
    setting s = {.j = j, .a = a, .ok = true};
    *to = *j;
    to->tangents = copy_array(&s, j->tangents, j->n_tangents, sizeof *j->tangents);
    return bind(&s, in) && judge(&s);
}

bool td__relation_at(const td_joint *j, const td_value *in, td_arena *a,
                     td_relation *to) {
    setting s = {.j = j, .a = a, .ok = true};
    if (j->g->dims.n == 0 || to->n_views == 0) return true;
    if (!bind(&s, in)) return false;
    to->views = views_now(&s, to->views, to->n_views);
    return judge(&s);
}
