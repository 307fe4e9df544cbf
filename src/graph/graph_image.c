/* graph_image.c -- writes graphs in binary form (graph_image.h). Values are
 * numbered in the order of definition: inputs, then results. */
#include "core/typed.h"
#include "graph/graph_image.h"
#include "graph/graph_int.h"

/* ---- source lines ------------------------------------------------------- */

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

static bool same_place(const td_gnode *a, const td_gnode *b) {
    return a->here.line == b->here.line && same_text(a->here.file, b->here.file) &&
           a->stack == b->stack && same_text(a->scope, b->scope);
}

static uint32_t hash_place(const td_gnode *n) {
    uint64_t h = (uint64_t)n->here.line + 1;
    if (n->scope) h = td__hash(n->scope, strlen(n->scope), h);
    return (uint32_t)(h * 0x9e3779b97f4a7c15u >> 32);
}

/* The slot of the node's source line and scope, or the free one where it
 * belongs. */
static int32_t *find_place(const td_image *m, const td_gnode *n) {
    uint32_t at = hash_place(n) & m->mask;
    while (m->slot[at] && !same_place(m->from->nodes.v[m->slot[at] - 1], n))
        at = (at + 1) & m->mask;
    return &m->slot[at];
}

/* Begins writing a binary image. Nodes of `from` are indexed by their source lines, so
 * that nodes of later graphs can refer to a node of the program instead of storing a
 * path. */
bool td__image_begin(td_image *m, td_buf *b, const td_graph *from, bool bare) {
    *m = (td_image){.b = b, .from = from, .bare = bare};
    if (!from || bare) return true;
    uint32_t n = 16;
    while (n < 2 * (uint32_t)from->nodes.n) n *= 2;
    if (!(m->slot = td__zalloc(sizeof *m->slot * n))) return false;
    m->mask = n - 1;
    for (int i = 0; i < from->nodes.n; i++) {
        int32_t *slot = find_place(m, from->nodes.v[i]);
        if (!*slot) *slot = i + 1;
    }
    return true;
}

void td__image_end(td_image *m) {
    td__free(m->slot);
    td__vec_free(&m->done);
}

/* The number of calls, then each, innermost first. */
static void put_stack(td_buf *b, const td_place *stack) {
    int n = 0;
    for (const td_place *p = stack; p; p = p->up) n++;
    td__put_int(b, n);
    for (const td_place *p = stack; p; p = p->up) {
        td__put_text(b, p->here.file);
        td__put_int(b, p->here.line);
    }
}

/* 0: none; 1: written out; 2 + i: that of node i of `from`. */
static void put_place(td_image *m, const td_gnode *n) {
    bool    none = m->bare || (!n->here.file && !n->scope);
    int32_t at = none || !m->slot ? 0 : *find_place(m, n);
    if (none) td__put_uint(m->b, 0);
    else td__put_uint(m->b, at ? (uint64_t)at + 1 : 1);
    if (none || at) return;
    td__put_text(m->b, n->here.file);
    td__put_int(m->b, n->here.line);
    td__put_text(m->b, n->scope);
    put_stack(m->b, n->stack);
}

/* ---- values ------------------------------------------------------------- */

static bool is_number(const td_gtype *l) {
    for (int d = 0; d < l->rank; d++)
        if (td__dim_is_sym(l->size[d])) return false;
    return true;
}

static void put_type(td_image *m, const td_gtype *l);

/* The inner types of a typed tensor. The version of the type represents its functions;
 * an image of a type without a version would be used after they changed. */
static void put_typed(td_image *m, const td_gtyped *of) {
    const td_type *type = td__type_find(of->name);
    uint64_t       version = type ? type->opts.version : 0;
    if (!version && !m->bare)
        m->why = "it has tensors of a type without td_type_opts.version";
    td__put_text(m->b, of->name);
    td__put_uint(m->b, version);
    td__put_text(m->b, of->metadata);
    for (int i = 0; i < of->n; i++) put_type(m, of->inner[i]);
}

/* A type. Strides are omitted where they follow from the sizes: row-major and
 * no symbols. */
static void put_type(td_image *m, const td_gtype *l) {
    td_buf *b = m->b;
    if (!l) {
        td__put_uint(b, 0);
        return;
    }
    bool plain = l->dense && is_number(l);
    td__put_uint(b, 1 + (uint64_t)l->grad + 2 * (uint64_t)plain +
                        4 * (uint64_t)(l->of != NULL));
    td__put_uint(b, l->kind);
    td__put_uint(b, l->dtype | (uint64_t)l->device << 8);
    td__put_uint(b, l->rank);
    td__put_int(b, l->storage);
    td__put_int(b, l->offset);
    for (int d = 0; d < l->rank; d++) td__put_int(b, l->size[d]);
    for (int d = 0; d < l->rank && !plain; d++) td__put_int(b, l->stride[d]);
    if (l->of) put_typed(m, l->of);
}

static void put_value(td_image *m, const td_gval *v, int32_t *next) {
    m->nr[v->id] = (*next)++;
    td__put_text(m->b, m->bare && v->node ? NULL : v->name);
    put_type(m, v->type);
}

static void put_desc(td_buf *b, const td_desc *d) {
    td__put_uint(b, d->kind);
    td__put_int(b, d->index);
    td__put_text(b, d->name);
}

/* ---- arguments ---------------------------------------------------------- */

/* A nested graph is written where it is first an argument: 0, then the graph. Later it
 * is 1 + its number among those written, so that a reader shares it, too. */
static bool put_nested(td_image *m, const td_graph *g) {
    for (int i = 0; i < m->done.n; i++)
        if (m->done.v[i] == g) {
            td__put_int(m->b, (int64_t)i + 1);
            return !m->b->failed;
        }
    td__put_int(m->b, 0);
    return td__image_graph(m, g) && td__vec_push(&m->done, g);
}

/* Values are numbered in order of definition. */
static bool put_arg(td_image *m, const td_garg *a) {
    td_buf *b = m->b;
    td__put_uint(b, a->kind);
    switch ((td_gkind)a->kind) {
    case TD_G_NONE: break;
    case TD_G_VALUE: td__put_int(b, m->nr[a->u.v->id]); break;
    case TD_G_INT:
    case TD_G_SYM:
    case TD_G_BOOL: td__put_int(b, a->u.i); break;
    case TD_G_FLOAT: td__put_f64(b, a->u.f); break;
    case TD_G_DTYPE: td__put_uint(b, a->u.dt); break;
    case TD_G_STR: td__put_text(b, a->u.s); break;
    case TD_G_GRAPH: return put_nested(m, a->u.g);
    case TD_G_INTS:
        td__put_uint(b, a->n);
        for (uint32_t i = 0; i < a->n; i++) td__put_int(b, a->u.ints[i]);
        break;
    case TD_G_LIST:
        td__put_uint(b, a->n);
        for (uint32_t i = 0; i < a->n; i++)
            if (!put_arg(m, &a->u.list[i])) return false;
        break;
    }
    return !b->failed;
}

/* ---- graphs ------------------------------------------------------------- */

/* A registered op has another number in every process: its image is a number that no op
 * has, then its name and its version mark. */
static bool put_op(td_image *m, td_op op) {
    bool own = op > TD_OP_COUNT;
    td__put_uint(m->b, own ? TD_OP_COUNT : op);
    if (!own) return true;
    if (!td__user_op_mark(op)) {
        m->why = "it calls a registered op without td_op_opts.version";
        return false;
    }
    td__put_text(m->b, td__row(op)->name);
    td__put_uint(m->b, td__user_op_mark(op));
    return true;
}

static bool put_node(td_image *m, const td_gnode *n, int32_t *next) {
    td__put_uint(m->b, n->kind);
    td__put_uint(m->b, n->region);
    td__put_uint(m->b, n->origin);
    if (!put_op(m, n->op)) return false;
    td__put_uint(m->b, n->tags);
    put_place(m, n);
    td__put_uint(m->b, (uint64_t)n->n_in);
    for (int i = 0; i < n->n_in; i++)
        if (!put_arg(m, &n->in[i])) return false;
    td__put_uint(m->b, (uint64_t)n->n_out);
    for (int i = 0; i < n->n_out; i++) put_value(m, n->out[i], next);
    return !m->b->failed;
}

static void put_dims(td_buf *b, const td_graph *g) {
    td__put_uint(b, (uint64_t)g->dims.n);
    for (int i = 0; i < g->dims.n; i++) {
        const td_gdim *d = &g->dims.v[i];
        td__put_uint(b, d->op);
        td__put_uint(b, (unsigned char)d->letter);
        td__put_int(b, d->nr);
        td__put_int(b, d->a);
        td__put_int(b, d->b);
    }
    td__put_uint(b, (uint64_t)g->facts.n);
    for (int i = 0; i < g->facts.n; i++) {
        td__put_uint(b, g->facts.v[i].rel);
        td__put_int(b, g->facts.v[i].a);
        td__put_int(b, g->facts.v[i].b);
    }
}

/* Which const of `from` each const is. For comparison only the number counts;
 * their types are those of inputs. */
static bool put_consts(td_image *m, const td_graph *g) {
    td__put_uint(m->b, (uint64_t)g->consts.n);
    for (int i = 0; i < g->consts.n && !m->bare; i++) {
        int at = 0, n = m->from ? m->from->consts.n : 0;
        while (at < n && m->from->consts.v[at] != g->consts.v[i]) at++;
        if (at == n) {
            m->why = "the graph has a const tensor that its program does not have";
            return false;
        }
        td__put_int(m->b, at);
    }
    return true;
}

/* Inputs, nodes and outputs. */
static bool put_inside(td_image *m, const td_graph *g) {
    td_buf *b = m->b;
    int32_t next = 0;
    int     live = 0;
    td__put_uint(b, (uint64_t)g->inputs.n);
    for (int i = 0; i < g->inputs.n; i++) {
        put_desc(b, &g->in_desc.v[i]);
        put_value(m, g->inputs.v[i], &next);
    }
    for (int i = 0; i < g->nodes.n; i++) live += !g->nodes.v[i]->dead;
    td__put_uint(b, (uint64_t)live);
    for (int i = 0; i < g->nodes.n; i++)
        if (!g->nodes.v[i]->dead && !put_node(m, g->nodes.v[i], &next)) return false;
    td__put_uint(b, (uint64_t)g->outputs.n);
    for (int i = 0; i < g->outputs.n; i++) {
        put_desc(b, &g->out_desc.v[i]);
        if (!put_arg(m, &g->outputs.v[i])) return false;
    }
    return !b->failed;
}

/* Writes one graph. Value numbers of a nested graph begin anew; the outer numbers are
 * restored after it. */
bool td__image_graph(td_image *m, const td_graph *g) {
    td_buf  *b = m->b;
    int32_t *outer = m->nr;
    if (m->deep >= TD_NEST_LIMIT) {
        m->why = "graphs are nested too deeply";
        return false;
    }
    if (m->deep++ == 0) m->done.n = 0;
    m->nr = td__zalloc(sizeof *m->nr * ((size_t)g->n_values + 1));
    td__put_text(b, m->bare ? NULL : g->name);
    put_dims(b, g);
    td__put_uint(b, (uint64_t)g->n_storages);
    td__put_uint(b, g->left);
    for (int k = 0; k < TD_NOTED; k++) {
        td__put_uint(b, (uint64_t)g->noted[k].n);
        for (int i = 0; i < g->noted[k].n; i++) td__put_int(b, g->noted[k].v[i]);
    }
    bool ok = m->nr && put_consts(m, g) && put_inside(m, g) && !m->why;
    td__free(m->nr);
    m->nr = outer;
    m->deep--;
    return ok;
}
