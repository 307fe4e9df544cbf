/* graph_image_read.c -- reads graphs in binary form (graph_image.h). Whatever
 * it returns is memory-safe: values are defined before they are read and no
 * index is out of range. verify.c checks the stage's contract. */
#include "core/device.h"
#include "core/typed.h"
#include "graph/graph_int.h"
#include "graph/graph_image.h"

/* What the graphs of one image share. */
typedef struct source {
    td_reader      *r;
    td_ctx         *cx;
    const td_graph *from;
    TD_VEC(td_graph *)
    done; /* nested graphs that are complete; their owners keep them */
} source;

/* A graph being read. */
typedef struct reading {
    td_reader      *r;
    td_graph       *g;
    source         *src;
    const td_graph *from;
    TD_VEC(td_gval *) made; /* values by number */
    int deep;               /* nesting */
} reading;

static td_graph *read_graph(source *src, int deep);

/* Marks the image as invalid. */
static bool bad(reading *x) {
    x->r->bad = true;
    return false;
}

static void *alloc_items(reading *x, int n, size_t item) {
    return td__get_room(x->r, &x->g->arena, n, item);
}

int64_t td__get_dim(td_reader *r, const td_graph *g) {
    int64_t d = td__get_int(r);
    if (td__dim_is_sym(d) && !td__gdim_at(g, d)) r->bad = true;
    return d;
}

const int64_t *td__get_dims(td_reader *r, td_arena *a, const td_graph *g, int n) {
    int64_t *v = td__get_room(r, a, n, sizeof *v);
    for (int i = 0; v && i < n; i++) v[i] = td__get_dim(r, g);
    return v;
}

/* ---- values ------------------------------------------------------------- */

static bool read_type(reading *x, const td_gtype **to, int deep);

/* The inner types of a typed tensor, whose type must be registered in this process with
 * the same version. */
static const td_gtyped *read_typed(reading *x, int deep) {
    const char    *name = td__get_text(x->r, &x->g->arena);
    uint64_t       version = td__get_uint(x->r);
    const char    *metadata = td__get_text(x->r, &x->g->arena);
    const td_type *type = name ? td__type_find(name) : NULL;
    if (!type || !metadata || type->opts.version != version || deep >= TD_TYPE_DEPTH)
        return NULL;
    int        n = type->opts.n_inner;
    td_gtyped *of =
        td__arena_zalloc(&x->g->arena, sizeof *of + sizeof(td_gtype *) * (size_t)n);
    if (!of) return NULL;
    *of = (td_gtyped){name, metadata, n};
    for (int i = 0; i < n; i++)
        if (!read_type(x, &of->inner[i], deep + 1) || !of->inner[i]) return NULL;
    return of;
}

/* A type; the first number is 0 for none, else 1 + grad + 2 * row-major + 4 if it is of
 * a type. */
static bool read_type(reading *x, const td_gtype **to, int deep) {
    td_reader *r = x->r;
    int64_t    size[TD_MAX_RANK], stride[TD_MAX_RANK];
    int        what = td__get_below(r, 9);
    *to = NULL;
    if (what == 0) return !r->bad;
    bool typed = what > 4;
    if (typed) what -= 4;
    td_gtype l = {.grad = (what - 1) & 1, .size = size};
    l.kind = (uint8_t)td__get_below(r, TD_K_GRAPH);
    int dtype = td__get_below(r, 1 << 16);
    l.dtype = (uint8_t)dtype;
    l.device = (uint8_t)(dtype >> 8);
    l.rank = (uint8_t)td__get_below(r, TD_MAX_RANK + 1);
    l.storage = td__get_within(r, -1, INT32_MAX);
    l.offset = td__get_dim(r, x->g);
    for (int d = 0; d < l.rank; d++) {
        size[d] = td__get_dim(r, x->g);
        if (size[d] < 0 && !td__dim_is_sym(size[d])) return bad(x);
    }
    for (int d = 0; d < l.rank && what < 3; d++) stride[d] = td__get_dim(r, x->g);
    l.stride = what < 3 ? stride : NULL;
    bool number = l.kind == TD_K_INT || l.kind == TD_K_FLOAT || l.kind == TD_K_BOOL;
    if (l.kind == TD_K_TENSOR ? l.dtype >= TD_DTYPE_COUNT : !number) return bad(x);
    if (l.storage >= x->g->n_storages) return bad(x);
    if (td__device_code(td__device_at(l.device)) != l.device) return bad(x);
    if (typed && !(l.of = read_typed(x, deep))) return bad(x);
    if (!r->bad) *to = td__graph_type_of(x->g, l);
    return *to || bad(x);
}

/* Values are appended to `made`, by whose index later nodes refer to them: a node can
 * only read values before it. */
static td_gval *read_value(reading *x, td_gnode *node, int nr) {
    td_gval *v = alloc_items(x, 1, sizeof *v);
    if (!v) return NULL;
    v->node = node;
    v->nr = nr;
    v->id = x->g->n_values++;
    v->name = td__get_text(x->r, &x->g->arena);
    if (!read_type(x, &v->type, 0) || !td__vec_push(&x->made, v)) return bad(x), NULL;
    return v;
}

static bool read_desc(reading *x, td_desc *d) {
    d->kind = (uint8_t)td__get_below(x->r, TD_D_COUNT);
    d->index = td__get_within(x->r, -1, INT32_MAX);
    d->name = td__get_text(x->r, &x->g->arena);
    return !x->r->bad;
}

/* ---- arguments ---------------------------------------------------------- */

static bool read_arg(reading *x, td_garg *a, int deep);

static bool read_list(reading *x, td_garg *a, int deep) {
    int n = td__get_count(x->r);
    a->n = (uint32_t)n;
    if (a->kind == TD_G_INTS) {
        a->u.ints = td__get_dims(x->r, &x->g->arena, x->g, n);
        return !x->r->bad;
    }
    td_garg *list = alloc_items(x, n, sizeof *list);
    a->u.list = list;
    for (int i = 0; list && i < n; i++)
        if (!read_arg(x, &list[i], deep + 1)) return false;
    return !x->r->bad;
}

/* A graph that follows, or one that is complete: no graph contains itself. */
static bool read_nested(reading *x, td_garg *a) {
    int nr = td__get_within(x->r, 0, (int64_t)x->src->done.n + 1);
    if (x->r->bad) return false;
    if (nr > 0) td__graph_keep(a->u.g = x->src->done.v[nr - 1]);
    else if (!(a->u.g = read_graph(x->src, x->deep + 1))) return false;
    if (!td__graph_own(x->g, a->u.g)) return bad(x);
    return nr > 0 || td__vec_push(&x->src->done, a->u.g) || bad(x);
}

/* Every number is checked against its range: an image is input from outside. Depth is
 * bounded, because lists nest. */
static bool read_arg(reading *x, td_garg *a, int deep) {
    td_reader *r = x->r;
    int        at;
    if (deep > TD_NEST_LIMIT) return bad(x);
    a->kind = (uint8_t)td__get_below(r, TD_G_GRAPH + 1);
    switch ((td_gkind)a->kind) {
    case TD_G_NONE: break;
    case TD_G_VALUE:
        at = td__get_within(r, 0, x->made.n);
        if (r->bad) return false;
        a->u.v = x->made.v[at];
        break;
    case TD_G_SYM: a->u.i = td__get_dim(r, x->g); break;
    case TD_G_INT:
    case TD_G_BOOL: a->u.i = td__get_int(r); break;
    case TD_G_FLOAT: a->u.f = td__get_f64(r); break;
    case TD_G_DTYPE: a->u.dt = (td_dtype)td__get_below(r, TD_DTYPE_COUNT); break;
    case TD_G_STR: return (a->u.s = td__get_text(r, &x->g->arena)) || bad(x);
    case TD_G_GRAPH: return read_nested(x, a);
    case TD_G_INTS:
    case TD_G_LIST: return read_list(x, a, deep);
    }
    return !r->bad;
}

/* ---- nodes -------------------------------------------------------------- */

/* The calls around a node, as put_stack wrote them. */
static const td_place *read_stack(reading *x) {
    td_where        at[TD_STACK_MOST];
    const td_place *up = NULL;
    int             n = td__get_within(x->r, 0, TD_STACK_MOST + 1);
    for (int i = 0; i < n && !x->r->bad; i++) {
        at[i].file = td__get_text(x->r, &x->g->arena);
        at[i].line = (int)td__get_int(x->r);
    }
    for (int i = n - 1; i >= 0 && !x->r->bad; i--) up = td__place_in(at[i], up);
    return up;
}

/* Source line and scope, as put_place wrote them. */
static bool read_place(reading *x, td_gnode *n) {
    td_reader *r = x->r;
    int what = td__get_below(r, INT32_MAX), most = x->from ? x->from->nodes.n : 0;
    if (what == 0) return !r->bad;
    if (what == 1) {
        const char *file = td__get_text(r, &x->g->arena);
        n->here.file = td__place_file(x->g->cx, file);
        n->here.line = (int)td__get_int(r);
        n->scope = td__get_text(r, &x->g->arena);
        n->stack = read_stack(x);
        return !r->bad && (!file || n->here.file);
    }
    if (what - 2 >= most) return bad(x);
    const td_gnode *like = x->from->nodes.v[what - 2];
    n->here = like->here;
    n->stack = like->stack;
    return !like->scope || (n->scope = td__graph_str(x->g, like->scope)) || bad(x);
}

/* Arguments, checked against the op's schema. */
static bool read_args(reading *x, td_gnode *n) {
    const td_schema *s = &td__opinfo(n->op)->s;
    n->n_in = td__get_count(x->r);
    n->in = alloc_items(x, n->n_in, sizeof *n->in);
    if (!n->in || n->n_in > s->n_in) return bad(x);
    for (int i = 0; i < n->n_in; i++)
        if (!read_arg(x, &n->in[i], 0) || !td__garg_fit(&s->in[i], &n->in[i]))
            return bad(x);
    for (int i = n->n_in; i < s->n_in; i++)
        if (!s->in[i].has_default) return bad(x);
    return true;
}

static bool read_results(reading *x, td_gnode *n) {
    const td_schema *s = &td__opinfo(n->op)->s;
    bool             list = s->n_out == 1 && s->out[0].type == TD_T_TENSORS;
    n->n_out = td__get_count(x->r);
    n->out = alloc_items(x, n->n_out, sizeof *n->out);
    if (!n->out || (!list && n->n_out != s->n_out)) return bad(x);
    for (int i = 0; i < n->n_out; i++)
        if (!(n->out[i] = read_value(x, n, i))) return false;
    return true;
}

/* Reads what put_op wrote; an op that is not registered, or differs, makes the image
 * unusable. */
static td_op read_op(reading *x) {
    td_op op = (td_op)td__get_below(x->r, TD_OP_COUNT + 1);
    if (op != TD_OP_COUNT || x->r->bad) return op;
    const char *name = td__get_text(x->r, &x->g->arena);
    uint64_t    mark = td__get_uint(x->r);
    op = name ? td__user_op_find(name) : TD_OP_COUNT;
    if (op == TD_OP_COUNT || td__user_op_mark(op) != mark) x->r->bad = true;
    return op;
}

/* Regions have neither arguments nor results. */
static bool read_node(reading *x) {
    td_gnode *n = alloc_items(x, 1, sizeof *n);
    if (!n) return false;
    n->kind = (uint8_t)td__get_below(x->r, TD_N_LEAVE + 1);
    n->region = (uint8_t)td__get_below(x->r, TD_R_COUNT);
    n->origin = (uint8_t)td__get_below(x->r, TD_FROM_COUNT);
    n->op = read_op(x);
    n->tags = (uint32_t)td__get_uint(x->r);
    n->id = x->g->nodes.n;
    if (TD_TAG_POLICY(n->tags) > TD_MUST_OFFLOAD) return bad(x);
    if (x->r->bad || !read_place(x, n)) return false;
    if (n->kind == TD_N_OP) {
        if (!read_args(x, n) || !read_results(x, n)) return false;
    } else if (td__get_count(x->r) + td__get_count(x->r) != 0) return bad(x);
    return td__vec_push(&x->g->nodes, n) || bad(x);
}

/* ---- graphs ------------------------------------------------------------- */

static bool known_dim(const td_graph *g, int64_t d) {
    return !td__dim_is_sym(d) || td__gdim_at(g, d);
}

/* Symbolic sizes. Added in the same order, they get the same tags. */
static bool read_dims(reading *x) {
    td_reader *r = x->r;
    int        n = td__get_count(r);
    for (int i = 0; i < n; i++) {
        int     op = td__get_below(r, 256), letter = td__get_below(r, 128);
        int     nr = td__get_within(r, 0, INT32_MAX);
        int64_t a = td__get_int(r), b = td__get_int(r), got;
        if (r->bad || !known_dim(x->g, a) || !known_dim(x->g, b)) return bad(x);
        if (op == TD_GDIM_SYMBOL) got = td__gdim_symbol(x->g, (char)letter, nr);
        else if (op > TD_DIM_MAX) return bad(x);
        else got = td__gdim_make(x->g, (td_dim_op)op, a, b);
        if (got != td__dim_tag(i)) return bad(x);
    }
    return !r->bad;
}

/* Facts about symbolic sizes. */
static bool read_facts(reading *x) {
    td_reader *r = x->r;
    int        n = td__get_count(r);
    for (int i = 0; !r->bad && i < n; i++) {
        td_gfact f = {.rel = (uint8_t)td__get_below(r, TD_DIM_RELS)};
        f.a = td__get_dim(r, x->g);
        f.b = td__get_dim(r, x->g);
        if (!td__vec_push(&x->g->facts, f)) return bad(x);
    }
    return !r->bad;
}

/* Constants are not stored: they are taken from the program that the image belongs
 * to. */
static bool read_consts(reading *x) {
    int n = td__get_count(x->r), most = x->from ? x->from->consts.n : 0;
    for (int i = 0; i < n; i++) {
        int at = td__get_within(x->r, 0, most);
        if (x->r->bad || !td__vec_reserve(&x->g->consts)) return bad(x);
        x->g->consts.v[x->g->consts.n++] = td__ref(x->from->consts.v[at]);
    }
    return !x->r->bad;
}

static bool read_head(reading *x) {
    td_graph *g = x->g;
    g->n_storages = td__get_below(x->r, INT32_MAX);
    g->left = (uint8_t)td__get_below(x->r, TD_R_COUNT + 1);
    for (int k = 0; k < TD_NOTED; k++)
        for (int n = td__get_count(x->r); n > 0; n--)
            if (!td__vec_push(&g->noted[k], td__get_within(x->r, 0, INT32_MAX)))
                return bad(x);
    return read_consts(x);
}

/* Lists that refer to inputs by index are checked once the number of inputs is
 * known. */
static bool read_inputs(reading *x) {
    int n = td__get_count(x->r);
    for (int i = 0; i < n; i++) {
        td_desc  d;
        td_gval *v = read_desc(x, &d) ? read_value(x, NULL, i) : NULL;
        if (!v || !td__vec_push(&x->g->inputs, v) || !td__vec_push(&x->g->in_desc, d))
            return bad(x);
    }
    for (int k = 0; k < TD_NOTED; k++)
        for (int i = 0; i < x->g->noted[k].n; i++)
            if (x->g->noted[k].v[i] >= n) return bad(x);
    return !x->r->bad;
}

static bool read_outputs(reading *x) {
    int n = td__get_count(x->r);
    for (int i = 0; i < n; i++) {
        td_desc d;
        td_garg a = {0};
        if (!read_desc(x, &d) || !read_arg(x, &a, 0)) return bad(x);
        if (!td__vec_push(&x->g->outputs, a) || !td__vec_push(&x->g->out_desc, d))
            return bad(x);
    }
    return !x->r->bad;
}

static bool read_all(reading *x) {
    const char *name = td__get_text(x->r, &x->g->arena);
    if (name) x->g->name = name;
    if (!read_dims(x) || !read_facts(x) || !read_head(x) || !read_inputs(x))
        return false;
    int n = td__get_count(x->r);
    for (int i = 0; i < n; i++)
        if (!read_node(x)) return false;
    return read_outputs(x);
}

/* Sets r->bad after any inconsistency; a partly read graph is freed. The result is not
 * verified yet: callers do that for their stage. */
static td_graph *read_graph(source *src, int deep) {
    reading x = {.r = src->r, .src = src, .from = src->from, .deep = deep};
    if (deep > TD_NEST_LIMIT || !(x.g = td__graph_make(src->cx, ""))) {
        src->r->bad = true;
        return NULL;
    }
    bool ok = read_all(&x) && !src->r->bad;
    td__vec_free(&x.made);
    if (ok) return x.g;
    td__graph_drop(x.g);
    src->r->bad = true;
    return NULL;
}

td_graph *td__image_read(td_reader *r, td_ctx *cx, const td_graph *from) {
    source    src = {.r = r, .cx = cx, .from = from};
    td_graph *g = read_graph(&src, 0);
    td__vec_free(&src.done);
    return g;
}
