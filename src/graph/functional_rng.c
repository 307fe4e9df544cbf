/* functional_rng.c -- makes a graph that draws random numbers a function of its inputs:
 * it takes the generator's seed and offset as its last inputs, and its last output is
 * the new offset.
 *
 * The pass walks the graph in order with the state that the generator would have. Each
 * draw gets seed and offset as arguments, and the state advances by the blocks that the
 * draw takes. random_state nodes, by which a recomputed draw repeats its numbers, only
 * change that state; the pass removes them. A node that draws in a nested graph (a
 * branch, a loop) runs with the generator set to the state before and restored after.
 *
 * A program may set another seed permanently (random_state with an argument). The new
 * seed is not an output, so such a graph is left unchanged and draws from the
 * generator. So is a graph in which the number of draws depends on a size that depends
 * on values. */
#include "graph/graph_int.h"

/* The generator at a point of the graph: base + ahead is its offset. */
typedef struct rng_state {
    td_gval *seed, *base;
    int64_t  ahead;  /* blocks, a number */
    td_gval *offset; /* base + ahead, once a node computes it; else NULL */
} rng_state;

typedef struct threading {
    td_graph *g;
    TD_VEC(td_gnode *) to; /* the nodes of the new graph so far */
    rng_state now;
    uint8_t   origin; /* of the current node, and of new ones */
    int       n_was;
    rng_state
        *was; /* by value id, of results of random_state: the state that it returned */
    td_gval **stands_in; /* by value id: its replacement for readers; NULL: itself */
} threading;

static const td_gtype scalar = {.kind = TD_K_TENSOR}; /* emit completes it */

/* ---- new nodes ----------------------------------------------------------- */

/* Appends a node with one result of this type; a view has the storage of in[0]. NULL
 * after td__fail. */
static td_gval *emit(threading *t, td_op op, const td_garg *in, int n_in, td_gtype l) {
    td_graph *g = t->g;
    td_gnode *n = td__graph_op(g, op, in, n_in, 1);
    if (!n) return NULL;
    g->nodes.n--; /* it is appended to t->to instead */
    n->origin = t->origin;
    bool view = td__opinfo(op)->view_of >= 0 && in[0].u.v->type;
    l.storage = view ? in[0].u.v->type->storage : g->n_storages++;
    l.kind = TD_K_TENSOR;
    l.dtype = TD_I64;
    n->out[0]->type = td__graph_type_of(g, l);
    if (!n->out[0]->type) return NULL;
    if (!td__vec_push(&t->to, n)) return td__fail_memory(g->cx), NULL;
    return n->out[0];
}

/* base + ahead as a value. */
static td_gval *offset_of(threading *t, rng_state *s) {
    if (s->offset) return s->offset;
    td_garg in[] = {td__garg_value(s->base), td__garg_int(s->ahead)};
    s->offset = s->ahead ? emit(t, TD_OP_add, in, 2, scalar) : s->base;
    return s->offset;
}

/* Seed and offset as the i64[2] that random_state takes and returns. */
static td_gval *state_value(threading *t, rng_state *s) {
    static const int64_t two = 2;
    td_gval             *offset = offset_of(t, s);
    if (!offset) return NULL;
    td_garg both[] = {td__garg_value(s->seed), td__garg_value(offset)};
    td_garg list = {.kind = TD_G_LIST, .n = 2, .u.list = both};
    return emit(t, TD_OP_stack, &list, 1,
                (td_gtype){.geom = {.rank = 1, .size = &two}});
}

/* Number i of such a value, which may be a view with an offset and strides. */
static td_gval *state_part(threading *t, td_gval *state, int i) {
    const td_gtype *l = state->type;
    td_garg         in[] = {td__garg_value(state), td__garg_int(0), td__garg_int(i)};
    int64_t         at = i;
    if (l && l->rank == 1) {
        at = td__gdim_make(t->g, TD_DIM_MUL, l->stride[0], i);
        at = td__gdim_make(t->g, TD_DIM_ADD, l->offset, at);
    }
    return emit(t, TD_OP_select, in, 3, (td_gtype){.geom = {.offset = at}});
}

/* ---- how many blocks a draw takes ----------------------------------------- */

/* The product of sizes, which may be symbolic. */
static int64_t count(td_graph *g, const td_gtype *l) {
    int64_t n = 1;
    for (int d = 0; d < l->rank; d++) n = td__gdim_make(g, TD_DIM_MUL, n, l->size[d]);
    return n;
}

static bool is_true(const td_gnode *n, const char *name) {
    int at = td__op_arg(n->op, name);
    if (at >= 0 && at < n->n_in && n->in[at].kind == TD_G_BOOL) return n->in[at].u.i;
    return at >= 0 && td__opinfo(n->op)->s.in[at].def.u.i;
}

/* multinomial draws for each sample, or without replacement for each weight. */
static int64_t choices(td_graph *g, const td_gnode *n) {
    bool            again = is_true(n, "replacement");
    const td_gtype *l = again ? n->out[0]->type : n->in[0].u.v->type;
    return l ? count(g, l) : TD_DIM_HUGE;
}

/* Blocks that a node takes from the generator; may be symbolic. TD_DIM_HUGE: not
 * known. */
static int64_t blocks_of(td_graph *g, const td_gnode *n) {
    const td_gtype *l = n->out[0]->type;
    int64_t         per = 4, elements = l ? count(g, l) : TD_DIM_HUGE;
    switch ((td_draws)td__row(n->op)->draws) {
    case TD_DRAWS_NONE: return TD_DIM_HUGE;
    case TD_DRAWS_FLOATS: per = l && l->dtype == TD_F64 ? 2 : 4; break;
    case TD_DRAWS_PAIRS: per = 2; break;
    case TD_DRAWS_EACH: per = 1; break;
    case TD_DRAWS_COINS:
        if (td__op_arg(n->op, "train") >= 0 && !is_true(n, "train")) return 0;
        break;
    case TD_DRAWS_CHOICES: per = 2, elements = choices(g, n); break;
    }
    if (elements == TD_DIM_HUGE) return TD_DIM_HUGE;
    elements = td__gdim_make(g, TD_DIM_ADD, elements, per - 1);
    return td__gdim_make(g, TD_DIM_DIV, elements, per);
}

/* Advances the state. A symbolic number of blocks becomes part of a new base, so that
 * many draws do not nest expressions deeply. */
static bool advance(threading *t, int64_t blocks) {
    rng_state *s = &t->now;
    if (!td__dim_is_sym(blocks)) {
        if (blocks) s->offset = NULL;
        s->ahead += blocks;
        return true;
    }
    td_gval *offset = offset_of(t, s);
    if (!offset) return false;
    td_garg  in[] = {td__garg_value(offset), {.kind = TD_G_SYM, .u.i = blocks}};
    td_gval *base = emit(t, TD_OP_add, in, 2, scalar);
    if (base) *s = (rng_state){s->seed, base, 0, base};
    return base != NULL;
}

/* ---- nodes that draw ----------------------------------------------------- */

/* Gives a random op its two arguments. Omitted arguments before them get their default
 * explicitly. */
static bool draw(threading *t, td_gnode *n) {
    const td_opinfo *info = td__opinfo(n->op);
    td_garg          in[TD_MAX_ARGS];
    int64_t          blocks = blocks_of(t->g, n);
    if (blocks == TD_DIM_HUGE)
        return td__fail(t->g->cx, TD_E_ARG,
                        "@%.60s: functional_rng: how many random numbers %.40s draws "
                        "is not known, because its result has no type",
                        t->g->name, info->s.name);
    for (int i = 0; i < info->rng; i++) {
        if (i < n->n_in) in[i] = n->in[i];
        else if (!td__garg_of(&info->s.in[i].def, &in[i])) return false;
    }
    td_gval *offset = offset_of(t, &t->now);
    if (!offset) return false;
    in[info->rng] = td__garg_value(t->now.seed);
    in[info->rng + 1] = td__garg_value(offset);
    if (!td__graph_become(t->g, n, n->op, in, info->rng + 2)) return false;
    return (td__vec_push(&t->to, n) || td__fail_memory(t->g->cx)) && advance(t, blocks);
}

/* Is the result read by anything but random_state? */
static bool is_read(const td_gval *v) {
    for (const td_guse *u = v->uses; u; u = u->next)
        if (!u->node || u->node->op != TD_OP_random_state) return true;
    return false;
}

/* The state that value v contains: a known one, if a random_state of this graph
 * returned it, else its two numbers. */
static bool state_of(threading *t, td_gval *v, rng_state *to) {
    if (v->id < t->n_was && t->was[v->id].seed) return *to = t->was[v->id], true;
    td_gval *seed = state_part(t, v, 0), *offset = seed ? state_part(t, v, 1) : NULL;
    *to = (rng_state){seed, offset, 0, offset};
    return offset != NULL;
}

/* The state as a value for the readers of a result of random_state. It takes over the
 * storage number, which views of the result have in their types. */
static bool stand_in(threading *t, const td_gval *out) {
    td_gval *v = state_value(t, &t->now);
    td_gtype l = v ? *v->type : (td_gtype){0};
    if (!v) return false;
    if (out->type) l.storage = out->type->storage;
    v->type = td__graph_type_of(t->g, l);
    t->stands_in[out->id] = v;
    return v->type != NULL;
}

/* random_state: returns the state, then sets another one if it has an argument. */
static bool change_state(threading *t, const td_gnode *n) {
    td_gval *out = n->out[0];
    if (is_read(out) && !stand_in(t, out)) return false;
    t->was[out->id] = t->now;
    return !n->n_in || n->in[0].kind != TD_G_VALUE ||
           state_of(t, n->in[0].u.v, &t->now);
}

/* A node with nested graphs that draw, from the generator. */
static bool draw_inside(threading *t, td_gnode *n) {
    static const int64_t two = 2;
    const td_gtype       pair = {.geom = {.rank = 1, .size = &two}};
    td_gval             *state = state_value(t, &t->now);
    if (!state) return false;
    td_garg  set = td__garg_value(state);
    td_gval *was = emit(t, TD_OP_random_state, &set, 1, pair);
    if (!was) return false;
    if (!td__vec_push(&t->to, n)) return td__fail_memory(t->g->cx);
    td_garg  back = td__garg_value(was);
    td_gval *now = emit(t, TD_OP_random_state, &back, 1, pair);
    td_gval *offset = now ? state_part(t, now, 1) : NULL;
    t->now = (rng_state){t->now.seed, offset, 0, offset};
    return offset != NULL;
}

static td_gval *standing_in(void *env, td_gval *v) {
    const threading *t = env;
    return v->id < t->n_was && t->stands_in[v->id] ? t->stands_in[v->id] : v;
}

static bool thread_node(threading *t, td_gnode *n) {
    t->origin = n->origin;
    if (n->kind == TD_N_OP && n->op == TD_OP_random_state) return change_state(t, n);
    for (int i = 0; i < n->n_in; i++) td__garg_map(&n->in[i], standing_in, t);
    if (n->kind == TD_N_OP && td__gnode_draws(n))
        return td__opinfo(n->op)->rng >= 0 ? draw(t, n) : draw_inside(t, n);
    return td__vec_push(&t->to, n) || td__fail_memory(t->g->cx);
}

/* ---- the graph ----------------------------------------------------------- */

/* Replaces the nodes of the graph by the new ones; outputs read the replacements of
 * removed results. */
static bool put_nodes(threading *t) {
    td_graph *g = t->g;
    g->nodes.n = 0;
    for (int i = 0; i < t->to.n; i++)
        if (!td__vec_push(&g->nodes, t->to.v[i])) return td__fail_memory(g->cx);
    for (int i = 0; i < g->outputs.n; i++)
        td__garg_map(&g->outputs.v[i], standing_in, t);
    return td__graph_output(g, td__garg_value(t->now.offset),
                            (td_desc){TD_D_OFFSET, -1, NULL}) &&
           td__graph_index(g);
}

/* Removes the inputs of a backward that do not need the state, because all its draws
 * repeat those of the forward. */
static void drop_unused(const threading *t, const td_gval *seed,
                        const td_gval *offset) {
    td_graph *g = t->g;
    if (seed->n_uses || offset->n_uses > 1 || t->now.offset != offset) return;
    g->inputs.n = g->in_desc.n = g->inputs.n - 2;
    g->outputs.n = g->out_desc.n = g->outputs.n - 1;
}

static bool thread(threading *t) {
    td_graph       *g = t->g;
    const td_gtype *l = td__graph_type_of(g, (td_gtype){.kind = TD_K_TENSOR,
                                                        .geom = {.dtype = TD_I64},
                                                        .storage = g->n_storages++});
    const td_gtype *m = td__graph_type_of(g, (td_gtype){.kind = TD_K_TENSOR,
                                                        .geom = {.dtype = TD_I64},
                                                        .storage = g->n_storages++});
    if (!l || !m) return false;
    td_gval *seed = td__graph_input(g, "seed", l, (td_desc){TD_D_SEED, -1, NULL});
    td_gval *offset = td__graph_input(g, "offset", m, (td_desc){TD_D_OFFSET, -1, NULL});
    if (!seed || !offset) return false;
    t->now = (rng_state){seed, offset, 0, offset};
    for (int i = 0; i < g->nodes.n; i++)
        if (!thread_node(t, g->nodes.v[i])) return false;
    if (!offset_of(t, &t->now) || !put_nodes(t)) return false;
    drop_unused(t, seed, offset);
    td__graph_pack(g);
    return td__graph_index(g);
}

/* Has the generator another seed after the graph? by_value has room for a number per
 * value: of a result of random_state, which seed there was then. 0 is the first one, 1
 * any that the graph is given. */
static bool leaves_other_seed(const td_graph *g, uint8_t *by_value) {
    uint8_t now = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->kind != TD_N_OP || n->op != TD_OP_random_state) continue;
        by_value[n->out[0]->id] = now;
        if (!n->n_in || n->in[0].kind != TD_G_VALUE) continue;
        const td_gval *to = n->in[0].u.v;
        bool           known = to->node && to->node->op == TD_OP_random_state;
        now = known ? by_value[to->id] : 1;
    }
    return now != 0;
}

/* Does the number of draws depend on a size that depends on values? An offset computed
 * from such a size would not be ordered after the node that computes the size. */
static bool draws_by_values(td_graph *g) {
    bool shows = false, symbolic = false;
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->kind != TD_N_OP) continue;
        shows |= td__gnode_shows(n);
        if (td__gnode_draws(n) && td__opinfo(n->op)->rng >= 0)
            symbolic |= td__dim_is_sym(blocks_of(g, n));
    }
    return shows && symbolic;
}

bool td__graph_functional_rng(td_graph *g) {
    if (!td__graph_draws(g)) return true;
    if (!td__graph_index(g)) return td__fail_memory(g->cx);
    threading t = {.g = g, .n_was = g->n_values};
    td_arena  scratch = {0};
    uint8_t  *seeds = td__pass_alloc(g, &scratch, (size_t)g->n_values, 1);
    if (!seeds || leaves_other_seed(g, seeds) || draws_by_values(g)) {
        td__arena_free(&scratch);
        return seeds != NULL;
    }
    t.was = td__pass_alloc(g, &scratch, (size_t)g->n_values, sizeof *t.was);
    t.stands_in = td__pass_alloc(g, &scratch, (size_t)g->n_values, sizeof *t.stands_in);
    bool ok = t.was && t.stands_in && thread(&t);
    td__vec_free(&t.to);
    td__arena_free(&scratch);
    return ok;
}

bool td__graph_takes_rng(const td_graph *g) {
    int n = g->in_desc.n;
    return n >= 2 && g->in_desc.v[n - 1].kind == TD_D_OFFSET &&
           g->in_desc.v[n - 2].kind == TD_D_SEED;
}
