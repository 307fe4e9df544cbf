/* graph.c -- builds graphs: inputs, op nodes, regions, outputs and types.
 * Everything passed in is copied into the graph's arena. */
#include "graph/graph_int.h"

#include <stdlib.h>

td_graph *td__graph_make(td_ctx *cx, const char *name) {
    td_graph *g = td__handle_make(cx, TD_H_GRAPH, sizeof *g);
    if (!g) return NULL;
    g->name = td__arena_strdup(&g->arena, name ? name : "f");
    if (g->name) return g;
    td__fail_memory(cx);
    td__graph_drop(g);
    return NULL;
}

void td__graph_keep(td_graph *g) { g->holders++; }

/* Graphs may share nested graphs, so a small file could describe an exponentially large
 * graph: the number of nodes, counted once per use on all levels, is limited. */
bool td__graph_own(td_graph *g, td_graph *nested) {
    enum { MOST = 1 << 26 };
    int64_t inside = nested->inside + nested->nodes.n + 1;
    bool    fits = g->inside + inside <= MOST;
    if (fits && td__vec_push(&g->nested, nested)) {
        g->inside += inside;
        return true;
    }
    td__graph_drop(nested);
    return fits ? td__fail_memory(g->cx)
                : td__fail(g->cx, TD_E_UNSUPPORTED,
                           "@%.60s: the graphs inside it have more than %d nodes in "
                           "all calls together",
                           g->name, (int)MOST);
}

/* `holders` counts references beyond the first. Nodes, values and types are in the
 * arena; lists and constants are not. */
void td__graph_drop(td_graph *g) {
    if (!g || g->holders-- > 0) return;
    if (g->parts.env) g->parts.drop(g->parts.env);
    if (g->code.env) g->code.drop(g->code.env);
    td__graph_drop(g->flat);
    for (int i = 0; i < g->consts.n; i++) td__unref(g->consts.v[i]);
    for (int i = 0; i < g->nested.n; i++) td__graph_drop(g->nested.v[i]);
    td__vec_free(&g->inputs);
    td__vec_free(&g->in_desc);
    td__vec_free(&g->nodes);
    td__vec_free(&g->outputs);
    td__vec_free(&g->out_desc);
    td__vec_free(&g->consts);
    td__vec_free(&g->sizes);
    for (int k = 0; k < TD_NOTED; k++) td__vec_free(&g->noted[k]);
    td__vec_free(&g->dims);
    td__vec_free(&g->facts);
    td__vec_free(&g->nested);
    td__free(g->dim_slots);
    td__arena_free(&g->arena);
    td__handle_free(g, TD_H_GRAPH);
}

const char *td__graph_str(td_graph *g, const char *s) {
    if (!s) return NULL;
    char *copy = td__arena_strdup(&g->arena, s);
    if (!copy) td__fail_memory(g->cx);
    return copy;
}

/* ---- values ------------------------------------------------------------- */

static td_gval *make_value(td_graph *g, td_gnode *node, int32_t nr) {
    td_gval *v = td__arena_zalloc(&g->arena, sizeof *v);
    if (!v) return td__fail_memory(g->cx), NULL;
    v->node = node;
    v->nr = nr;
    v->id = g->n_values++;
    return v;
}

/* Counts a storage number that a type uses. */
static void note_storage(td_graph *g, const td_gtype *l) {
    if (l && l->storage >= g->n_storages) g->n_storages = l->storage + 1;
}

/* Names are copied into the graph's arena. The value's number is its index among the
 * inputs. */
td_gval *td__graph_input(td_graph *g, const char *name, const td_gtype *type,
                         td_desc d) {
    if (!td__vec_reserve(&g->inputs) || !td__vec_reserve(&g->in_desc))
        return td__fail_memory(g->cx), NULL;
    td_gval *v = make_value(g, NULL, g->inputs.n);
    if (!v) return NULL;
    if (name && !(v->name = td__graph_str(g, name))) return NULL;
    if (d.name && !(d.name = td__graph_str(g, d.name))) return NULL;
    v->type = type;
    note_storage(g, type);
    g->inputs.v[g->inputs.n++] = v;
    g->in_desc.v[g->in_desc.n++] = d;
    return v;
}

td_gval *td__graph_const(td_graph *g, const char *name, td_tensor *t) {
    if (!td__vec_reserve(&g->consts)) return td__fail_memory(g->cx), NULL;
    const td_gtype *type = td__graph_type(g, t, false, -1);
    td_desc         d = {TD_D_CONST, g->consts.n, NULL};
    td_gval        *v = type ? td__graph_input(g, name, type, d) : NULL;
    if (v) g->consts.v[g->consts.n++] = td__ref(t);
    return v;
}

/* ---- arguments ---------------------------------------------------------- */

static bool is_number(const td_garg *a) {
    return a->kind == TD_G_INT || a->kind == TD_G_FLOAT || a->kind == TD_G_BOOL ||
           a->kind == TD_G_SYM;
}

/* Is it a value that is, or may be, a number? fraction: floats too. */
static bool is_number_value(const td_garg *a, bool fraction) {
    if (a->kind != TD_G_VALUE) return false;
    const td_gtype *l = a->u.v->type;
    return !l || l->kind == TD_K_INT || l->kind == TD_K_BOOL ||
           (fraction && l->kind == TD_K_FLOAT);
}

static bool is_tensor_value(const td_garg *a) {
    return a->kind == TD_G_VALUE &&
           (!a->u.v->type || a->u.v->type->kind == TD_K_TENSOR);
}

/* fits_*: converts the argument to the type, or returns false. */
static bool fits_int(td_garg *a) {
    if (a->kind == TD_G_BOOL) a->kind = TD_G_INT;
    return a->kind == TD_G_INT || a->kind == TD_G_SYM || is_number_value(a, false);
}

static bool fits_float(td_garg *a) {
    if (a->kind == TD_G_INT || a->kind == TD_G_BOOL) {
        a->u.f = (double)a->u.i;
        a->kind = TD_G_FLOAT;
    }
    return a->kind == TD_G_FLOAT || a->kind == TD_G_SYM || is_number_value(a, true);
}

static bool fits_bool(td_garg *a) {
    if (a->kind == TD_G_INT) {
        a->u.i = a->u.i != 0;
        a->kind = TD_G_BOOL;
    }
    return a->kind == TD_G_BOOL || is_number_value(a, false);
}

/* A list of integers may have symbolic sizes and integer values as entries; it is then
 * a list of arguments instead of plain integers. */
static bool fits_ints(const td_garg *a) {
    if (a->kind == TD_G_INTS) return true;
    if (a->kind != TD_G_LIST) return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const td_garg *e = &a->u.list[i];
        if (e->kind != TD_G_INT && e->kind != TD_G_SYM && !is_number_value(e, false))
            return false;
    }
    return true;
}

static bool fits_tensors(td_garg *a, bool holes) {
    if (a->kind == TD_G_INTS && a->n == 0) a->kind = TD_G_LIST;
    if (a->kind != TD_G_LIST) return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (!is_tensor_value(&a->u.list[i]) &&
            !(holes && a->u.list[i].kind == TD_G_NONE))
            return false;
    return true;
}

static bool fits_scalar(const td_garg *a) {
    return is_number(a) || is_number_value(a, true);
}

/* Can parameter p take the argument? Converts numbers to the parameter's kind (an int
 * for a float parameter), so that equal calls have equal arguments. */
bool td__garg_fit(const td_param *p, td_garg *a) {
    bool none = a->kind == TD_G_NONE;
    if (none && p->has_default) return true;
    switch ((td_arg_type)p->type) {
    case TD_T_TENSOR: return is_tensor_value(a);
    case TD_T_OPT_TENSOR: return none || is_tensor_value(a);
    case TD_T_TENSORS: return fits_tensors(a, false);
    case TD_T_OPT_TENSORS: return fits_tensors(a, true);
    case TD_T_OPERAND: return is_tensor_value(a) || fits_scalar(a);
    case TD_T_OPT_SCALAR: return none || fits_scalar(a);
    case TD_T_SCALAR: return fits_scalar(a);
    case TD_T_OPT_INT: return none || fits_int(a);
    case TD_T_INT: return fits_int(a);
    case TD_T_OPT_INTS: return none || fits_ints(a);
    case TD_T_INTS: return fits_ints(a);
    case TD_T_OPT_FLOAT: return none || fits_float(a);
    case TD_T_FLOAT: return fits_float(a);
    case TD_T_BOOL: return fits_bool(a);
    case TD_T_OPT_DTYPE: return none || a->kind == TD_G_DTYPE;
    case TD_T_DTYPE: return a->kind == TD_G_DTYPE;
    case TD_T_STR: return a->kind == TD_G_STR;
    case TD_T_GRAPH: return a->kind == TD_G_GRAPH && a->u.g;
    case TD_T_OBJECT: return is_tensor_value(a);
    }
    return false;
}

/* Is the argument the parameter's default, so that it can be omitted? */
static bool is_default(const td_param *p, const td_garg *a) {
    if (!p->has_default) return false;
    const td_value *d = &p->def;
    switch ((td_gkind)a->kind) {
    case TD_G_NONE: return true; /* NONE takes the default */
    case TD_G_INT: return d->kind == TD_K_INT && d->u.i == a->u.i;
    case TD_G_BOOL: return d->kind == TD_K_BOOL && (d->u.i != 0) == (a->u.i != 0);
    case TD_G_FLOAT:
        return d->kind == TD_K_FLOAT && memcmp(&d->u.f, &a->u.f, sizeof a->u.f) == 0;
    case TD_G_DTYPE: return d->kind == TD_K_DTYPE && d->u.dt == a->u.dt;
    case TD_G_STR: return d->kind == TD_K_STR && !strcmp(d->u.s, a->u.s);
    case TD_G_INTS:
        return d->kind == TD_K_INTS && d->n == a->n &&
               (a->n == 0 || !memcmp(d->u.ints, a->u.ints, sizeof(int64_t) * a->n));
    case TD_G_VALUE:
    case TD_G_SYM:
    case TD_G_LIST:
    case TD_G_GRAPH: break;
    }
    return false;
}

/* Copies an argument with its strings and lists into the arena. */
static bool copy_arg(td_graph *g, td_garg *to, const td_garg *from, int deep) {
    *to = *from;
    if (from->kind == TD_G_STR) return (to->u.s = td__graph_str(g, from->u.s)) != NULL;
    if (from->kind != TD_G_INTS && from->kind != TD_G_LIST) return true;
    if (deep >= TD_NEST_LIMIT)
        return td__fail(g->cx, TD_E_ARG,
                        "an argument has lists nested more than %d levels deep",
                        (int)TD_NEST_LIMIT);
    size_t item = from->kind == TD_G_INTS ? sizeof(int64_t) : sizeof(td_garg);
    void  *copy = td__arena_alloc(&g->arena, item * (from->n ? from->n : 1));
    if (!copy) return td__fail_memory(g->cx);
    if (from->kind == TD_G_INTS) {
        if (from->n) memcpy(copy, from->u.ints, item * from->n);
        to->u.ints = copy;
        return true;
    }
    to->u.list = copy;
    for (uint32_t i = 0; i < from->n; i++)
        if (!copy_arg(g, (td_garg *)copy + i, &from->u.list[i], deep + 1)) return false;
    return true;
}

/* ---- nodes -------------------------------------------------------------- */

/* Turns n into a call of another op, keeping its results. Trailing arguments that equal
 * the default are dropped: one call has one form, which cse and the text format rely
 * on. */
bool td__graph_become(td_graph *g, td_gnode *n, td_op op, const td_garg *in, int n_in) {
    const td_schema *s = &td__opinfo(op)->s;
    td_garg         *args =
        td__arena_alloc(&g->arena, sizeof *args * (size_t)(n_in ? n_in : 1));
    if (!args) return td__fail_memory(g->cx);
    for (int i = 0; i < n_in; i++) {
        if (!copy_arg(g, &args[i], &in[i], 0)) return false;
        if (i < s->n_in) td__garg_fit(&s->in[i], &args[i]);
    }
    while (n_in > 0 && n_in <= s->n_in && is_default(&s->in[n_in - 1], &args[n_in - 1]))
        n_in--;
    n->op = op;
    n->in = args;
    n->n_in = n_in;
    return true;
}

/* A node that is not in the node list yet; memory of a failed one stays in the
 * arena. */
static td_gnode *make_node(td_graph *g, td_op op, const td_garg *in, int n_in,
                           int n_out) {
    td_gnode *n = td__arena_zalloc(&g->arena, sizeof *n);
    if (!n) return td__fail_memory(g->cx), NULL;
    n->out = td__arena_alloc(&g->arena, sizeof *n->out * (size_t)(n_out ? n_out : 1));
    if (!n->out) return td__fail_memory(g->cx), NULL;
    if (!td__graph_become(g, n, op, in, n_in)) return NULL;
    for (int i = 0; i < n_out; i++)
        if (!(n->out[i] = make_value(g, n, i))) return NULL;
    n->n_out = n_out;
    return n;
}

/* Appends a result to a node whose number of results is not known beforehand. The array
 * doubles; *cap is its capacity. */
td_gval *td__graph_result(td_graph *g, td_gnode *n, int *cap) {
    if (n->n_out >= *cap) {
        int       new_cap = *cap ? *cap * 2 : 4;
        td_gval **out = td__arena_alloc(&g->arena, sizeof *out * (size_t)new_cap);
        if (!out) return td__fail_memory(g->cx), NULL;
        if (n->n_out) memcpy(out, n->out, sizeof *out * (size_t)n->n_out);
        n->out = out;
        *cap = new_cap;
    }
    td_gval *v = make_value(g, n, n->n_out);
    if (v) n->out[n->n_out++] = v;
    return v;
}

static td_gnode *add_node(td_graph *g, td_gnode *n) {
    if (!n) return NULL;
    n->id = g->nodes.n;
    return td__vec_push(&g->nodes, n) ? n : (td__fail_memory(g->cx), NULL);
}

td_gnode *td__graph_op(td_graph *g, td_op op, const td_garg *in, int n_in, int n_out) {
    return add_node(g, make_node(g, op, in, n_in, n_out));
}

/* Appends the begin or end of a region. */
static bool add_region_edge(td_graph *g, td_gnode_kind kind, td_gregion r) {
    td_gnode *n = td__arena_zalloc(&g->arena, sizeof *n);
    if (!n) return td__fail_memory(g->cx);
    n->kind = (uint8_t)kind;
    n->region = (uint8_t)r;
    return add_node(g, n) != NULL;
}

bool td__graph_enter(td_graph *g, td_gregion r) {
    return add_region_edge(g, TD_N_ENTER, r);
}
bool td__graph_leave(td_graph *g) {
    return add_region_edge(g, TD_N_LEAVE, TD_R_NO_GRAD);
}

/* Copies the argument and the descriptor's name, so that both may be on the caller's
 * stack. */
bool td__graph_output(td_graph *g, td_garg a, td_desc d) {
    td_garg copy;
    if (!copy_arg(g, &copy, &a, 0)) return false;
    if (d.name && !(d.name = td__graph_str(g, d.name))) return false;
    if (!td__vec_reserve(&g->outputs) || !td__vec_reserve(&g->out_desc))
        return td__fail_memory(g->cx);
    g->outputs.v[g->outputs.n++] = copy;
    g->out_desc.v[g->out_desc.n++] = d;
    return true;
}

/* ---- types -------------------------------------------------------------- */

/* Row-major strides: the stride of a dim is the product of the sizes after it,
 * with 0 counted as 1. */
static void row_major(td_graph *g, int rank, const int64_t *size, int64_t *stride) {
    int64_t step = 1;
    for (int d = rank - 1; d >= 0; d--) {
        stride[d] = step;
        int64_t by = size[d] == 0 ? 1 : size[d];
        step = td__gdim_make(g, TD_DIM_MUL, step, by);
    }
}

/* Copies a type with its sizes and strides into the arena in one block. Strides may
 * be NULL: row-major. `dense` is computed here, so that passes need not compare
 * strides. */
const td_gtype *td__graph_type_of(td_graph *g, td_gtype l) {
    size_t    n = sizeof(int64_t) * l.rank;
    td_gtype *type = td__arena_alloc(&g->arena, sizeof *type + 2 * n);
    if (!type) return td__fail_memory(g->cx), NULL;
    int64_t *size = (int64_t *)(type + 1), *stride = size + l.rank;
    int64_t  plain[TD_MAX_RANK];
    *type = l;
    type->size = size;
    type->stride = stride;
    if (TD_UNLIKELY(l.of) && !(type->of = td__gtyped_copy(g, l.of))) return NULL;
    if (l.rank == 0) {
        type->dense = true;
        return type;
    }
    memcpy(size, l.size, n);
    row_major(g, l.rank, size, plain);
    memcpy(stride, l.stride ? l.stride : plain, n);
    type->dense = !memcmp(stride, plain, n);
    return type;
}

const td_gtype *td__graph_type_number(td_graph *g, td_kind kind) {
    return td__graph_type_of(g, (td_gtype){.kind = (uint8_t)kind, .storage = -1});
}

int64_t td__graph_dim(td_graph *g, int64_t dim) {
    return td__dim_is_sym(dim) && g->dim_in ? g->dim_in(g->dim_env, g, dim) : dim;
}

bool td__is_row_major(const td_tensor *t) {
    int64_t plain[TD_MAX_RANK];
    td__strides_dense(t->rank, t->size, plain);
    return !memcmp(plain, t->stride, sizeof *plain * t->rank);
}

/* The type of a tensor, with symbolic sizes converted to expressions of this graph.
 * Row-major strides are derived again from the sizes, so that equal layouts have equal
 * expressions. */
const td_gtype *td__graph_type(td_graph *g, const td_tensor *t, bool grad,
                               int32_t storage) {
    int64_t size[TD_MAX_RANK], stride[TD_MAX_RANK];
    bool    plain = g->dim_in && td__is_row_major(t);
    for (int d = 0; d < t->rank; d++) {
        size[d] = td__graph_dim(g, t->size[d]);
        stride[d] = td__graph_dim(g, t->stride[d]);
    }
    if (storage >= g->n_storages) g->n_storages = storage + 1;
    const td_gtyped *of = t->typed ? td__gtyped_of(g, t->typed) : NULL;
    if (t->typed && !of) return NULL;
    return td__graph_type_of(g, (td_gtype){.kind = TD_K_TENSOR,
                                           .of = of,
                                           .dtype = t->dtype,
                                           .rank = t->rank,
                                           .device = t->st->device,
                                           .grad = grad,
                                           .storage = storage,
                                           .offset = td__graph_dim(g, t->offset),
                                           .size = size,
                                           .stride = plain ? NULL : stride});
}
