/* sizes.c -- a functional graph with symbolic sizes: what its caller must know is kept
 * in the graph's own symbols and becomes numbers when it runs. */
#include "func/func_int.h"

#include <string.h>

/* ---- after the trace ---------------------------------------------------- */

void td__geom_keep(td_graph *g, td_geom *of) {
    int64_t *size = (int64_t *)(uintptr_t)of->size;
    int64_t *stride = (int64_t *)(uintptr_t)of->stride;
    of->offset = td__graph_dim(g, of->offset);
    for (int d = 0; d < of->rank; d++) {
        size[d] = td__graph_dim(g, size[d]);
        stride[d] = td__graph_dim(g, stride[d]);
    }
}

bool td__functional_keep(td_functional *f) {
    for (int i = 0; i < f->n_in; i++) td__geom_keep(f->g, &f->in[i].end);
    for (int i = 0; i < f->n_out; i++) td__geom_keep(f->g, &f->out[i].geom);
    for (int i = 0; i < f->n_homes; i++)
        f->homes[i].span = td__graph_dim(f->g, f->homes[i].span);
    return td_ok(f->cx);
}

/* ---- before a run ------------------------------------------------------- */

static bool copy_list(td_arena *a, const int64_t **list, int n) {
    int64_t *own = td__arena_alloc(a, sizeof *own * ((size_t)n + 1));
    if (own && n) memcpy(own, *list, sizeof *own * (size_t)n);
    *list = own;
    return own != NULL;
}

static bool copy_geom(td_arena *a, td_geom *g) {
    return copy_list(a, &g->size, g->rank) && copy_list(a, &g->stride, g->rank);
}

static void *copy_array(td_arena *a, const void *from, int n, size_t item) {
    void *to = td__arena_alloc(a, item * ((size_t)n + 1));
    if (to && n) memcpy(to, from, item * (size_t)n);
    return to;
}

bool td__functional_open(const td_functional *f, td_functional *run) {
    *run = *f;
    run->arena = (td_arena){0};
    td_arena *a = &run->arena;
    run->in = copy_array(a, f->in, f->n_in, sizeof *f->in);
    run->out = copy_array(a, f->out, f->n_out, sizeof *f->out);
    run->homes = copy_array(a, f->homes, f->n_homes, sizeof *f->homes);
    run->bound = td__arena_alloc(a, sizeof *run->bound * ((size_t)f->g->dims.n + 1));
    bool ok = run->in && run->out && run->homes && run->bound;
    for (int i = 0; ok && i < f->n_in; i++) ok = copy_geom(a, &run->in[i].end);
    for (int i = 0; ok && i < f->n_out; i++) ok = copy_geom(a, &run->out[i].geom);
    return ok || td__fail_memory(f->cx);
}

/* ---- while it runs ------------------------------------------------------ */

static bool settle(const td_functional *f, int64_t *dim) {
    *dim = td__gdim_value(f->g, *dim, f->bound);
    return !td__dim_is_sym(*dim) ||
           td__fail(f->cx, TD_E_SHAPE, "@%.60s: a symbolic size is not known",
                    f->g->name);
}

static bool settle_geom(const td_functional *f, td_geom *g) {
    int64_t *size = (int64_t *)(uintptr_t)g->size;
    int64_t *stride = (int64_t *)(uintptr_t)g->stride;
    bool     ok = settle(f, &g->offset);
    for (int d = 0; d < g->rank && ok; d++)
        ok = settle(f, &size[d]) && settle(f, &stride[d]);
    return ok;
}

bool td__functional_replay(const td_functional *f, const td_value *in, td_value *out) {
    bool ok = td__graph_replay_bound(f->g, in, out, f->bound);
    if (!f->bound) return ok;
    for (int i = 0; ok && i < f->n_in; i++) ok = settle_geom(f, &f->in[i].end);
    for (int i = 0; ok && i < f->n_out; i++) ok = settle_geom(f, &f->out[i].geom);
    for (int i = 0; ok && i < f->n_homes; i++) {
        td_home *h = &f->homes[i];
        ok = settle(f, &h->span);
        h->bytes = h->span > 0 ? (size_t)h->span : 0; /* below: it has no element */
    }
    return ok;
}
