/* retrace.c -- captures a graph: its replay is the body. What comes out is what a C
 * body of the same ops would have given, with every value's look filled in. */
#include "trace/trace.h"

#include "tandem/mode.h"

#include <string.h>

/* What is replayed, and which ops by simpler ones; NULL: none. */
typedef struct again {
    const td_graph *g;
    const char     *simpler;
} again;

static bool replay(td_ctx *cx, const again *a, const td_value *in, td_value *out) {
    if (!a->simpler) return td__graph_replay(a->g, in, out);
    return td_decompose_begin(cx, a->simpler) && td__graph_replay(a->g, in, out) &&
           td_decompose_end(cx);
}

/* Arguments are by input of the graph; an absent const is the graph's own. */
static bool replay_body(td_call *c) {
    const again    *a = td_call_env(c);
    const td_graph *g = a->g;
    size_t          n = (size_t)(g->inputs.n + g->outputs.n + 1);
    td_value       *v = td__zalloc(sizeof *v * n), *out = v + g->inputs.n;
    if (!v) return td__fail_memory(td_call_ctx(c));
    for (int i = 0; i < g->inputs.n; i++) {
        td_tensor *t = td_arg(c, i);
        v[i] = t ? td_value_tensor(t) : TD_NONE;
    }
    bool ok = replay(td_call_ctx(c), a, v, out) &&
              td_return_values(c, (td_values){out, g->outputs.n});
    td__free(v);
    return ok;
}

static bool copy_desc(td_graph *g, td_desc *to, const td_desc *from) {
    *to = *from;
    return !from->name || (to->name = td__graph_str(g, from->name)) != NULL;
}

/* Names and descriptors come from the original. */
static bool copy_words(td_graph *to, const td_graph *g, const td_value *in) {
    if (!(to->name = td__graph_str(to, g->name))) return false;
    for (int i = 0, k = 0; i < g->inputs.n; i++) {
        if (in[i].kind != TD_K_TENSOR) continue;
        const char *name = g->inputs.v[i]->name;
        if (name && !(name = td__graph_str(to, name))) return false;
        to->inputs.v[k]->name = name;
        if (!copy_desc(to, &to->in_desc.v[k], &g->in_desc.v[i])) return false;
        if (to->in_desc.v[k].kind == TD_D_CONST) to->in_desc.v[k].index = -1;
        k++;
    }
    for (int i = 0; i < g->outputs.n; i++)
        if (!copy_desc(to, &to->out_desc.v[i], &g->out_desc.v[i])) return false;
    return true;
}

static td_graph *capture(again *a, const td_value *in) {
    const td_graph  *g = a->g;
    /* its casts are in the graph already */
    td_autocast_mode was = td_autocast_off_begin(g->cx);
    td_graph *to = td__capture(g->cx, replay_body, a, (td_values){in, g->inputs.n});
    td_autocast_end(g->cx, was);
    if (!to || copy_words(to, g, in)) return to;
    td__graph_drop(to);
    return NULL;
}

td_graph *td__capture_graph(const td_graph *g, const td_value *in) {
    return capture(&(again){g, NULL}, in);
}

/* ---- from the types alone ----------------------------------------------- */

static bool is_held_const(const td_graph *g, int i) {
    const td_desc *d = &g->in_desc.v[i];
    return d->kind == TD_D_CONST && d->index >= 0 && d->index < g->consts.n;
}

/* Elements from the start of the storage to the last one addressed. */
static int64_t extent(const td_look *l) {
    int64_t last = l->offset;
    for (int d = 0; d < l->rank; d++) {
        if (l->size[d] == 0) return 0;
        last = td__dim_add(last, td__dim_mul(l->size[d] - 1, l->stride[d]));
    }
    return td__dim_add(last, 1);
}

static bool check_look(const td_graph *g, int i, const td_look *l) {
    const char *name = g->inputs.v[i]->name ? g->inputs.v[i]->name : "";
    bool        sym = l && td__dim_is_sym(l->offset);
    for (int d = 0; l && d < l->rank; d++)
        sym |= td__dim_is_sym(l->size[d]) || td__dim_is_sym(l->stride[d]);
    if (l && l->kind == TD_K_TENSOR && !sym) return true;
    return td__fail(g->cx, TD_E_TRACE,
                    "@%.60s: input %d, %%%.60s, %s, so the function cannot be captured "
                    "from its types",
                    g->name, i, name,
                    !l    ? "has no type"
                    : sym ? "has symbolic sizes"
                          : "is a number");
}

/* Storages of inputs by number, each as large as its largest input needs. */
static bool make_storages(const td_graph *g, td_storage **st) {
    for (int i = 0; i < g->inputs.n; i++) {
        const td_look *l = g->inputs.v[i]->look;
        if (is_held_const(g, i)) continue;
        if (!check_look(g, i, l)) return false;
        int64_t bytes = td__dim_mul(extent(l), td__dtype_bytes[l->dtype]);
        int     at = l->storage >= 0 ? l->storage : g->n_storages + i;
        if (bytes >= TD_DIM_HUGE)
            return td__fail(g->cx, TD_E_SHAPE, "@%.60s: input %d is too large", g->name,
                            i);
        if (!st[at] && !(st[at] = td__storage_make((size_t)bytes, true)))
            return td__fail_memory(g->cx);
        if (st[at]->bytes < (size_t)bytes) st[at]->bytes = (size_t)bytes;
    }
    return true;
}

static bool make_inputs(const td_graph *g, td_storage **st, td_value *in) {
    for (int i = 0; i < g->inputs.n; i++) {
        const td_look *l = g->inputs.v[i]->look;
        in[i] = TD_NONE;
        if (is_held_const(g, i)) continue;
        td_meta m = {.dtype = (td_dtype)l->dtype,
                     .rank = l->rank,
                     .strided = true,
                     .offset = l->offset};
        memcpy(m.size, l->size, sizeof(int64_t) * l->rank);
        memcpy(m.stride, l->stride, sizeof(int64_t) * l->rank);
        int        at = l->storage >= 0 ? l->storage : g->n_storages + i;
        td_tensor *t = td__tensor_over(g->cx, st[at], &m);
        if (!t || (l->grad && td_is_nil(td_set_requires_grad(t, true)))) return false;
        in[i] = td_value_tensor(t);
    }
    return true;
}

static td_graph *capture_types(again *a) {
    const td_graph *g = a->g;
    td_ctx         *cx = g->cx;
    size_t          n = (size_t)(g->n_storages + g->inputs.n + 1);
    td_storage    **st = td__zalloc(sizeof *st * n);
    td_value       *in = td__zalloc(sizeof *in * n);
    td_graph       *to = NULL;
    if (!st || !in) td__fail_memory(cx);
    else if (td__scope_push(cx)) {
        if (make_storages(g, st) && make_inputs(g, st, in)) to = capture(a, in);
        td__scope_pop(cx, NULL, 0);
    }
    for (size_t i = 0; st && i < n; i++) td__storage_drop(st[i]);
    td__free(st);
    td__free(in);
    return to;
}

td_graph *td__capture_types(const td_graph *g) {
    return capture_types(&(again){g, NULL});
}

td_graph *td__graph_decompose(const td_graph *g, const char *ops) {
    return capture_types(&(again){g, ops});
}
