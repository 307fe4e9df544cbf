/* place_pieces.c -- lets loops store the pieces of a concatenation where the result
 * has them: cat([a, b]) of values that loops compute becomes an empty tensor, and a
 * copy of each piece to its slice right behind the node that computes it, which the
 * loop of that node takes over. The gradients of the gates of an LSTM, for example, are
 * stored side by side. A concatenation of concatenations is one tensor. */
#include "backend/native.h"

/* Nodes that are put behind another one. */
typedef struct added {
    td_gnode     *node;
    struct added *next;
} added;

typedef struct placing {
    td_graph *g;
    int       n;       /* nodes that it began with */
    added   **behind;  /* [n + 1]: behind node i - 1, in reverse order */
    bool     *written; /* [storages]: some op writes it */
    bool     *placed;  /* [n]: the cat is a slice of another one */
} placing;

static const td_gtype *type_of(const td_garg *a) {
    const td_gtype *l = a->kind == TD_G_VALUE ? a->u.v->type : NULL;
    return l && l->kind == TD_K_TENSOR ? l : NULL;
}

/* ---- what can be placed ---------------------------------------------------- */

/* A new tensor of the CPU, row-major, with elements, that no op writes later? */
static bool is_plain(const placing *p, const td_gtype *l) {
    return l && !td__gtype_is_empty(l) && l->dense && l->offset == 0 && !l->device &&
           l->storage >= 0 && !p->written[l->storage] &&
           !td__is_complex((td_dtype)l->dtype);
}

/* The dim along which a cat joins its pieces. */
static int dim_of(const td_gnode *cat) {
    int64_t dim = cat->n_in > 1 ? cat->in[1].u.i : 0;
    return (int)(dim < 0 ? dim + cat->out[0]->type->rank : dim);
}

/* Is n a cat of tensors of one dtype and rank? */
static bool is_cat(const placing *p, const td_gnode *n) {
    if (!n || n->op != TD_OP_cat || n->in[0].kind != TD_G_LIST) return false;
    const td_gtype *l = n->out[0]->type;
    bool            ok = is_plain(p, l) && (n->n_in < 2 || n->in[1].kind == TD_G_INT);
    for (uint32_t i = 0; ok && i < n->in[0].n; i++) {
        const td_gtype *of = type_of(&n->in[0].u.list[i]);
        ok = of && of->dtype == l->dtype && of->rank == l->rank && !of->device &&
             of->size[dim_of(n)] > 0;
    }
    return ok;
}

static bool is_loop(const placing *p, const td_gval *v) {
    return v->node && td__row(v->node->op)->flags & TD_OPF_POINTWISE &&
           is_plain(p, v->type);
}

/* May the piece be a slice, with the pieces of its own in place? All its readers are
 * calls that any offset suits: no views, whose types say where they begin. */
static bool is_slice(const placing *p, const td_gnode *cat, const td_garg *piece) {
    const td_gnode *n = piece->u.v->node;
    if (!is_cat(p, n)) return false;
    for (int d = 0; d < dim_of(cat); d++)
        if (cat->out[0]->type->size[d] != 1) return false; /* it would have gaps */
    for (const td_guse *u = piece->u.v->uses; u; u = u->next) {
        if (!u->node || u->node->op >= TD_OP_COUNT) return false;
        const td_opinfo *info = td__opinfo(u->node->op);
        if (info->composite || info->writes || td__view_operand(u->node) >= 0 ||
            td__row(u->node->op)->flags & (TD_OPF_SHARE | TD_OPF_HOLDS | TD_OPF_NESTS))
            return false;
    }
    return true;
}

static int64_t count_elements(const td_gtype *l) {
    int64_t n = 1;
    for (int d = 0; d < l->rank; d++) n *= l->size[d];
    return n;
}

/* How many elements of the cat do loops compute; *first: the earliest node that is
 * concerned. */
static int64_t count_placed(const placing *p, const td_gnode *cat, int *first) {
    int64_t n = 0;
    if (cat->id < *first) *first = cat->id;
    for (uint32_t i = 0; i < cat->in[0].n; i++) {
        const td_garg *a = &cat->in[0].u.list[i];
        if (is_slice(p, cat, a)) n += count_placed(p, a->u.v->node, first);
        if (!is_loop(p, a->u.v)) continue;
        n += count_elements(a->u.v->type);
        if (a->u.v->node->id < *first) *first = a->u.v->node->id;
    }
    return n;
}

/* ---- placing ---------------------------------------------------------------- */

/* Puts a new node behind node `at`, with what is known of `like`. NULL after
 * td__fail. */
static td_gnode *put(placing *p, int at, td_op op, const td_garg *in, int n_in,
                     const td_gnode *like) {
    added    *a = td__arena_alloc(&p->g->arena, sizeof *a);
    td_gnode *n = a ? td__graph_op(p->g, op, in, n_in, 1) : NULL;
    if (!n) return a ? NULL : (td__fail_memory(p->g->cx), NULL);
    p->g->nodes.n--; /* td__graph_op has put it at the end */
    *a = (added){n, p->behind[at + 1]};
    p->behind[at + 1] = a;
    td__gnode_stand_for(n, like);
    return n;
}

/* Where a piece is: in `whole`, or in the piece at `in`; along `dim`, from `start`. */
typedef struct place {
    td_gval            *whole;
    const struct place *in;
    int                 dim;
    int64_t             start, length;
} place;

/* Arguments and type of a slice of v. False after td__fail. */
static bool describe_slice(td_graph *g, td_gval *v, const place *at, td_garg in[4],
                           const td_gtype **type) {
    td_gtype l = *v->type;
    int64_t  size[TD_MAX_RANK];
    for (int d = 0; d < l.rank; d++) size[d] = l.size[d];
    size[at->dim] = at->length;
    l.offset += at->start * l.stride[at->dim];
    l.size = size;
    in[0] = td__garg_value(v);
    in[1] = td__garg_int(at->dim);
    in[2] = td__garg_int(at->start);
    in[3] = td__garg_int(at->start + at->length);
    return (*type = td__graph_type_of(g, l)) != NULL;
}

/* The slice as a value, behind node `after`. NULL after td__fail. */
static td_gval *put_slice(placing *p, int after, const place *at,
                          const td_gnode *like) {
    td_garg         in[4];
    const td_gtype *type;
    td_gval        *v = at->in ? put_slice(p, after, at->in, like) : at->whole;
    if (!v || !describe_slice(p->g, v, at, in, &type)) return NULL;
    td_gnode *n = put(p, after, TD_OP_slice, in, 4, like);
    if (n) n->out[0]->type = type;
    return n ? n->out[0] : NULL;
}

/* Copies a value to its place: right behind its node if a loop computes it, else
 * where the cat is. False after td__fail. */
static bool place_value(placing *p, const td_gnode *cat, td_gval *v, const place *at) {
    const td_gnode *by = is_loop(p, v) ? v->node : cat;
    int             after = by == cat ? cat->id - 1 : by->id;
    td_gval        *to = put_slice(p, after, at, by);
    if (!to) return false;
    td_garg   in[2] = {td__garg_value(to), td__garg_value(v)};
    td_gnode *n = put(p, after, TD_OP_copy_, in, 2, by);
    if (n) n->out[0]->type = to->type;
    return n != NULL;
}

/* Places the pieces of a cat, which is at `in`; NULL: it is `whole`. A piece that is a
 * cat itself becomes a slice. False after td__fail. */
static bool place_pieces(placing *p, const td_gnode *cat, td_gval *whole,
                         const place *in) {
    place at = {whole, in, dim_of(cat), 0, 0};
    for (uint32_t i = 0; i < cat->in[0].n; i++, at.start += at.length) {
        const td_garg *piece = &cat->in[0].u.list[i];
        td_gval       *v = piece->u.v;
        at.length = v->type->size[at.dim];
        if (!is_slice(p, cat, piece) || p->placed[v->node->id]) {
            if (!place_value(p, cat, v, &at)) return false;
            continue;
        }
        td_gnode       *n = v->node;
        const td_gtype *type;
        td_garg         args[4];
        td_gval        *of = in ? put_slice(p, n->id - 1, in, n) : whole;
        p->placed[n->id] = true;
        if (!of || !place_pieces(p, n, whole, &at) ||
            !describe_slice(p->g, of, &at, args, &type) ||
            !td__graph_become(p->g, n, TD_OP_slice, args, 4))
            return false;
        v->type = type;
    }
    return true;
}

/* Replaces a cat if loops compute at least half of it: its value is that of an `empty`
 * before the first of them. False after td__fail. */
static bool replace(placing *p, td_gnode *cat) {
    td_gval *v = cat->out[0];
    int      first = cat->id;
    if (2 * count_placed(p, cat, &first) < count_elements(v->type)) return true;
    td_garg   in[2] = {td__garg_ints(v->type->size, v->type->rank),
                       td__garg_dtype((td_dtype)v->type->dtype)};
    td_gnode *n = put(p, first - 1, TD_OP_empty, in, 2, cat);
    if (!n || !place_pieces(p, cat, v, NULL)) return false;
    n->out[0] = v;
    v->node = n;
    cat->dead = true;
    p->placed[cat->id] = true;
    return true;
}

/* ---- all of a graph ------------------------------------------------------------ */

static void note_write(void *env, td_gval *v) {
    placing        *p = env;
    const td_gtype *l = v->type;
    if (l && l->kind == TD_K_TENSOR && l->storage >= 0) p->written[l->storage] = true;
}

/* Notes what is written. False: a node begins or ends a region. */
static bool note_writes(placing *p) {
    for (int i = 0; i < p->n; i++) {
        const td_gnode *n = p->g->nodes.v[i];
        if (n->kind != TD_N_OP) return false;
        for (int k = 0; k < n->n_in; k++)
            if (td__opinfo(n->op)->s.in[k].write)
                td__garg_each(&n->in[k], note_write, p);
    }
    return true;
}

/* Puts the added nodes where they belong. False after td__fail. */
static bool insert(placing *p) {
    td_graph *g = p->g;
    TD_VEC(td_gnode *) all = {0};
    bool ok = true;
    for (int i = 0; i <= p->n; i++) {
        added *list = NULL;
        if (i > 0) ok = ok && td__vec_push(&all, g->nodes.v[i - 1]);
        for (added *a = p->behind[i], *next; a; a = next)
            next = a->next, a->next = list, list = a;
        for (; ok && list; list = list->next) ok = td__vec_push(&all, list->node);
    }
    for (int i = 0; ok && i < all.n; i++)
        ok = i < g->nodes.n || td__vec_push(&g->nodes, all.v[i]);
    for (int i = 0; ok && i < all.n; i++) g->nodes.v[i] = all.v[i];
    td__vec_free(&all);
    if (ok) td__graph_pack(g);
    return ok || td__fail_memory(g->cx);
}

/* From last to first, so that a cat comes before those that are its pieces. */
bool td__place_pieces(td_graph *g) {
    if (g->dims.n || !td__config(g->cx)->place_pieces) return true;
    if (!td__graph_index(g)) return td__fail_memory(g->cx);
    placing p = {.g = g, .n = g->nodes.n};
    size_t  nodes = (size_t)p.n + 1, storages = (size_t)g->n_storages + 1;
    p.behind = td__arena_zalloc(&g->arena, sizeof *p.behind * nodes);
    p.placed = td__arena_zalloc(&g->arena, nodes);
    p.written = td__arena_zalloc(&g->arena, storages);
    if (!p.behind || !p.placed || !p.written) return td__fail_memory(g->cx);
    if (!note_writes(&p)) return true;
    for (int i = p.n - 1; i >= 0; i--)
        if (is_cat(&p, g->nodes.v[i]) && !replace(&p, g->nodes.v[i])) return false;
    return insert(&p);
}
