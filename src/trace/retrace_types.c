/* retrace_types.c -- captures a graph from its input types alone, on fake
 * tensors of these types. Symbolic sizes become symbols of a new environment
 * that knows the facts the graph states about them. A capture that needs a
 * further guard is refused, because no call would check it. */
#include "trace/trace_int.h"

#include "trace/sym.h"

#include <string.h>

/* State of one capture from types. */
typedef struct types {
    const td_graph *g;
    td_symenv      *e;      /* NULL: all sizes are numbers */
    int64_t        *bound;  /* by entry of g->dims: the expression in e */
    td_storage    **st;     /* by storage number, then by input without one; owned */
    td_value       *in;     /* the inputs to replay with */
    int64_t        *number; /* by input: the symbol of an integer input */
} types;

/* Is input i a const whose tensor the graph owns? */
static bool is_held_const(const td_graph *g, int i) {
    const td_desc *d = &g->in_desc.v[i];
    return d->kind == TD_D_CONST && d->index >= 0 && d->index < g->consts.n;
}

/* A size of the graph as a size of the new trace. */
static int64_t dim_of(const types *t, int64_t dim) {
    return t->e ? td__sym_now(t->e, td__gdim_value(t->g, dim, t->bound)) : dim;
}

/* ---- inputs ------------------------------------------------------------- */

static void meta_of(const types *t, const td_gtype *l, td_meta *m) {
    *m = (td_meta){.dtype = (td_dtype)l->dtype,
                   .rank = l->rank,
                   .strided = true,
                   .device = l->device};
    m->offset = dim_of(t, l->offset);
    for (int d = 0; d < l->rank; d++) {
        m->size[d] = dim_of(t, l->size[d]);
        m->stride[d] = dim_of(t, l->stride[d]);
    }
}

/* Elements from the start of the storage to the last one addressed; 0 if there
 * are none. */
static int64_t extent(const td_meta *m) {
    int64_t last = m->offset;
    for (int d = 0; d < m->rank; d++) {
        if (m->size[d] == 0) return 0;
        last = td__dim_add(last, td__dim_mul(td__dim_sub(m->size[d], 1), m->stride[d]));
    }
    return td__dim_add(last, 1);
}

/* Only inputs typed as tensors or integers can be made from their type. */
static bool check_type(const td_graph *g, int i, const td_gtype *l) {
    const char *name = g->inputs.v[i]->name ? g->inputs.v[i]->name : "";
    if (l && (l->kind == TD_K_TENSOR || l->kind == TD_K_INT)) return true;
    return td__fail(g->cx, TD_E_TRACE,
                    "@%.60s: input %d (%%%.60s) %s; capturing from types needs a "
                    "tensor or int type for every input",
                    g->name, i, name, !l ? "has no type" : "is a float or bool");
}

/* The index in t->st of input i's storage. */
static int storage_of(const types *t, int i) {
    int32_t nr = t->g->inputs.v[i]->type->storage;
    return nr >= 0 ? nr : t->g->n_storages + i;
}

/* Makes or enlarges the storage of input i. A storage is as large as its
 * largest input needs. With symbolic sizes its byte size is that of all its
 * inputs, if they agree, else unknown (span 0). */
static bool fit_storage(types *t, int i, const td_meta *m) {
    td_storage **st = &t->st[storage_of(t, i)];
    int64_t      bytes = td__dim_mul(extent(m), td__dtype_bytes[m->dtype]);
    bool         sym = td__dim_is_sym(bytes), first = !*st;
    if (!sym && bytes >= TD_DIM_HUGE)
        return td__fail(t->g->cx, TD_E_SHAPE,
                        "@%.60s: input %d has more bytes than a tensor can have",
                        t->g->name, i);
    if (first && !(*st = td__storage_make(sym ? 0 : (size_t)bytes, true)))
        return td__fail_memory(t->g->cx);
    if (first) (*st)->device = m->device;
    if (first && sym) (*st)->span = bytes;
    else if (!first && (sym || (*st)->open) && (*st)->span != bytes) (*st)->span = 0;
    (*st)->open |= sym;
    if (!sym && (*st)->bytes < (size_t)bytes) (*st)->bytes = (size_t)bytes;
    if ((*st)->open) (*st)->bytes = 0;
    return td_ok(t->g->cx);
}

/* Inputs with one storage number share a fake storage, large enough for all of them. */
static bool make_storages(types *t) {
    for (int i = 0; i < t->g->inputs.n; i++) {
        const td_gtype *l = t->g->inputs.v[i]->type;
        td_meta         m;
        if (is_held_const(t->g, i)) continue;
        if (!check_type(t->g, i, l)) return false;
        if (l->kind != TD_K_TENSOR) continue;
        meta_of(t, l, &m);
        if (!fit_storage(t, i, &m)) return false;
    }
    return true;
}

static bool make_tensor(types *t, int i, const td_gtype *l) {
    td_meta m;
    meta_of(t, l, &m);
    td_tensor *x = td__tensor_over(t->g->cx, t->st[storage_of(t, i)], &m);
    if (!x || (l->grad && td_is_nil(td_set_requires_grad(x, true)))) return false;
    t->in[i] = td_value_tensor(x);
    return true;
}

/* An integer input: the symbol its type names, or a new one. */
static bool make_number(types *t, int i, const td_gtype *l) {
    td_symbol s = {.letter = 's',
                   .read = TD_SYM_INT,
                   .arg = -1,
                   .source = "a number",
                   .hint = 64,
                   .first = {-TD_DIM_HUGE, TD_DIM_HUGE}};
    bool      named = td__dim_is_sym(l->offset);
    t->number[i] = named ? td__gdim_value(t->g, l->offset, t->bound)
                         : td__sym_input(t->e, s, NULL);
    t->in[i] = td_value_int(td__sym_now(t->e, t->number[i]));
    return td_ok(t->g->cx);
}

static bool make_inputs(types *t) {
    for (int i = 0; i < t->g->inputs.n; i++) {
        const td_gtype *l = t->g->inputs.v[i]->type;
        if (is_held_const(t->g, i)) continue;
        if (l->kind == TD_K_TENSOR ? !make_tensor(t, i, l) : !make_number(t, i, l))
            return false;
    }
    return true;
}

/* ---- what was captured -------------------------------------------------- */

/* td__retrace made integer inputs constants. Here they become inputs again, at
 * their old positions. */
static bool put_numbers(types *t, td_graph *to) {
    const td_graph *g = t->g;
    for (int i = 0, k = -1; i < g->inputs.n; i++) {
        if (!is_held_const(g, i)) k++;
        if (t->in[i].kind != TD_K_INT) continue;
        td_gtype l = {.kind = TD_K_INT, .storage = -1};
        td_desc  d = g->in_desc.v[i];
        td_gval *v;
        l.offset = td__sym_to_graph(t->e, to, t->number[i]);
        if (d.name && !(d.name = td__graph_str(to, d.name))) return false;
        const td_gtype *type = td__graph_type_of(to, l);
        if (!type || !(v = td__graph_input(to, NULL, type, d))) return false;
        v->name = td__graph_str(to, g->inputs.v[i]->name);
        for (int j = to->inputs.n - 1; j > k; j--) {
            to->inputs.v[j] = to->inputs.v[j - 1];
            to->in_desc.v[j] = to->in_desc.v[j - 1];
        }
        to->inputs.v[k] = v;
        to->in_desc.v[k] = d;
    }
    td__graph_pack(to);
    return td_ok(g->cx);
}

/* Marks a symbol that is a size, stride or offset by itself. */
static void mark_dim(const td_graph *g, bool *shown, int64_t dim) {
    const td_gdim *d = td__gdim_at(g, dim);
    if (d && d->op == TD_GDIM_SYMBOL) shown[d - g->dims.v] = true;
}

/* Fails unless each symbol is a size of some input by itself, so that a call
 * can read its value. Two sizes found equal in the trace are one symbol, and
 * the inputs may show only expressions of it. */
static bool symbols_readable(const td_graph *g) {
    bool *shown = td__zalloc((size_t)g->dims.n + 1), all = true;
    if (!shown) return td__fail_memory(g->cx);
    for (int i = 0; i < g->inputs.n; i++) {
        const td_gtype *l = g->inputs.v[i]->type;
        bool            tensor = l && l->kind == TD_K_TENSOR;
        if (l) mark_dim(g, shown, l->offset);
        for (int d = 0; tensor && d < l->rank; d++) mark_dim(g, shown, l->size[d]);
        for (int d = 0; tensor && d < l->rank; d++) mark_dim(g, shown, l->stride[d]);
    }
    for (int i = 0; i < g->dims.n; i++)
        all &= g->dims.v[i].op != TD_GDIM_SYMBOL || shown[i];
    td__free(shown);
    return all || td__fail(g->cx, TD_E_TRACE,
                           "@%.60s: a symbolic size occurs in the input types only "
                           "inside expressions; one input needs it as a size by itself",
                           g->name);
}

/* Copies what the graph states about its symbols. */
static bool keep_facts(const types *t, td_graph *to) {
    for (int i = 0; i < t->g->facts.n; i++) {
        td_gfact f = t->g->facts.v[i];
        f.a = td__sym_to_graph(t->e, to, td__gdim_value(t->g, f.a, t->bound));
        f.b = td__sym_to_graph(t->e, to, td__gdim_value(t->g, f.b, t->bound));
        if (!td__vec_push(&to->facts, f)) return td__fail_memory(to->cx);
    }
    return td_ok(to->cx);
}

/* Fails if the trace depends on a comparison that the graph's facts do not
 * decide. */
static bool check_guards(const types *t) {
    td_buf b = {0};
    if (t->e->guards.n == 0) return true;
    td__guard_print(t->e, &t->e->guards.v[0], &b);
    td__fail(t->g->cx, TD_E_TRACE,
             "@%.60s: the capture is valid only where %.200s, which its types do not "
             "state",
             t->g->name, td__buf_str(&b));
    td__buf_free(&b);
    return false;
}

/* ---- the capture -------------------------------------------------------- */

/* Makes the inputs and captures; t->e serves the thread if sizes are symbolic. */
static td_graph *capture(types *t, td_retrace *a) {
    td_ctx *cx = t->g->cx;
    uint8_t was = cx->takes_fakes;
    cx->takes_fakes = TD_FAKES_INSIDE;
    td_graph *to = make_storages(t) && make_inputs(t) ? td__retrace(a, t->in) : NULL;
    cx->takes_fakes = was;
    if (!t->e || !to) return to;
    if (check_guards(t) && put_numbers(t, to) && symbols_readable(to) &&
        keep_facts(t, to))
        return to;
    td__graph_drop(to);
    return NULL;
}

static td_graph *capture_symbolic(types *t, td_retrace *a) {
    td_graph *to = NULL;
    if (!(t->e = td__symenv_make(t->g->cx))) return NULL;
    td__symenv_begin(t->e);
    if (td__sym_from_graph(t->e, t->g, t->bound)) to = capture(t, a);
    td__symenv_end(t->e);
    return to;
}

static bool is_symbolic(const td_graph *g) {
    bool sym = g->dims.n > 0;
    for (int i = 0; i < g->inputs.n; i++)
        sym |= g->inputs.v[i]->type && g->inputs.v[i]->type->kind == TD_K_INT;
    return sym;
}

/* Captures a graph for fake inputs made from its types alone, sharing storages as the
 * types say. */
static td_graph *capture_types(td_retrace *a) {
    const td_graph *g = a->g;
    size_t          n = (size_t)(g->n_storages + g->inputs.n + 1);
    types           t = {.g = g};
    td_graph       *to = NULL;
    t.st = td__zalloc(sizeof *t.st * n);
    t.in = td__zalloc(sizeof *t.in * n);
    t.number = td__zalloc(sizeof *t.number * n);
    t.bound = td__zalloc(sizeof *t.bound * ((size_t)g->dims.n + 1));
    if (!t.st || !t.in || !t.number || !t.bound) td__fail_memory(g->cx);
    else if (td__scope_push(g->cx)) {
        to = is_symbolic(g) ? capture_symbolic(&t, a) : capture(&t, a);
        td__scope_pop(g->cx, NULL, 0);
    }
    for (size_t i = 0; t.st && i < n; i++) td__storage_drop(t.st[i]);
    td__symenv_drop(t.e);
    td__free(t.st);
    td__free(t.in);
    td__free(t.number);
    td__free(t.bound);
    return to;
}

td_graph *td__capture_types(const td_graph *g) {
    return capture_types(&(td_retrace){.g = g});
}

td_graph *td__graph_decompose(const td_graph *g, const char *ops) {
    return capture_types(&(td_retrace){.g = g, .simpler = ops});
}

td_graph *td__graph_decompose_by(const td_graph *g, const td_decompose_by *by,
                                 const char *ops) {
    return capture_types(&(td_retrace){.g = g, .simpler = ops, .by = by});
}

td_graph *td__capture_types_of(const td_graph *g, td_body *body, void *env) {
    return capture_types(&(td_retrace){.g = g, .body = body, .env = env});
}
