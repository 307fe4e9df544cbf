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

bool td__joint_keep_sizes(td_joint *j) {
    td_graph *g = j->g;
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

bool td__joint_at(const td_joint *j, const td_value *in, td_arena *a, td_joint *to) {
    setting s = {.j = j, .a = a, .ok = true};
    *to = *j;
    to->tangents = copy_array(&s, j->tangents, j->n_tangents, sizeof *j->tangents);
    return bind(&s, in);
}
