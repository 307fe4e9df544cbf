/* schedule.c -- dependences and order of units. A group or call depends on the makers
 * of its operands; a write also on earlier readers, a draw on the draw before it, an
 * effect on the effect before it. */
#include "backend/native.h"

/* ---- dependences ---------------------------------------------------------- */

/* The unit that makes v as a tensor; TD_NO_UNIT: none, as for inputs. */
static int unit_of(const td_lowered *l, const td_gval *v) {
    int p = l->point_of[v->id];
    if (p >= 0) return l->point.v[p].group >= 0 ? l->point.v[p].group : TD_NO_UNIT;
    return v->node ? ~v->node->id : TD_NO_UNIT;
}

static int unit_of_node(const td_lowered *l, int i) {
    const td_gnode *n = l->g->nodes.v[i];
    return n->n_out ? unit_of(l, n->out[0]) : ~i;
}

/* A traversal of the units that `unit` depends on. */
typedef struct visit {
    const td_lowered *l;
    bool (*fn)(void *env, int unit);
    void *env;
    int   unit;
    bool  ok;
} visit;

/* Calls fn, unless it is the unit itself or fn returned false before. */
static void visit_unit(visit *v, int unit) {
    if (v->ok && unit != v->unit && unit != TD_NO_UNIT) v->ok = v->fn(v->env, unit);
}

static void visit_value(void *env, td_gval *v) {
    visit *w = env;
    visit_unit(w, unit_of(w->l, v));
}

static void visit_follows(visit *v, int node) {
    for (const td_follow *f = v->l->follows[node]; f; f = f->next)
        visit_unit(v, unit_of_node(v->l, f->node));
}

/* A leaf without loops of its own gets its size from its operands. */
static void visit_maker_of_size(void *env, td_gval *v) {
    visit         *w = env;
    const td_gval *root = w->l->root_of[v->id];
    if (!root || !root->type || !td__dims_any_sym(root->type->size, root->type->rank))
        return;
    int unit = unit_of(w->l, root);
    visit_unit(w, unit);
    for (int i = 0; unit == TD_NO_UNIT && root->node && i < root->node->n_in; i++)
        td__garg_each(&root->node->in[i], visit_maker_of_size, w);
}

/* Visits the roots that loops read; leaves are computed in the loops. Loops may need
 * only the size of an operand, as draws do: if it is symbolic, the maker of the operand
 * binds it. */
static void visit_point(visit *v, const td_point *p) {
    for (int k = 0; k < p->n_in; k++) {
        const td_gval *root = p->in[k].root;
        int            n = root ? v->l->point_of[root->id] : -1;
        if (root && !(n >= 0 && v->l->point.v[n].leaf))
            visit_unit(v, unit_of(v->l, root));
    }
    if (p->writes) visit_unit(v, unit_of(v->l, p->own.root));
    for (int i = 0; p->pw && i < p->n_stmt; i++) /* numbers that other nodes make */
        if (p->stmt[i].kind == TD_S_GIVEN)
            td__garg_each(&p->v->node->in[p->stmt[i].ptr], visit_value, v);
    for (int i = 0; i < p->v->node->n_in; i++)
        td__garg_each(&p->v->node->in[i], visit_maker_of_size, v);
    visit_follows(v, p->pos);
}

/* Calls fn for every unit (group, or ~node of a called op) that must run before `unit`,
 * until fn returns false. */
bool td__unit_deps(const td_lowered *l, int unit, bool (*fn)(void *env, int unit),
                   void *env) {
    visit v = {.l = l, .fn = fn, .env = env, .unit = unit, .ok = true};
    if (unit >= 0) {
        const td_group *g = &l->group.v[unit];
        for (int i = 0; i < g->member.n && v.ok; i++)
            visit_point(&v, &l->point.v[g->member.v[i]]);
        return v.ok;
    }
    const td_gnode *n = l->g->nodes.v[~unit];
    for (int k = 0; k < n->n_in && v.ok; k++) td__garg_each(&n->in[k], visit_value, &v);
    visit_follows(&v, ~unit);
    return v.ok;
}

/* ---- ranks --------------------------------------------------------------- */

/* l->at is always a valid order of the units: initially that of their nodes. A merge
 * moves the units between the two groups to either side. Members of a group may be far
 * apart in the graph, so dependence follows from ranks, not from node indices. */
static int rank_of(const td_lowered *l, int unit) {
    return unit >= 0 ? l->group.v[unit].rank : l->rank[~unit];
}

/* Puts a unit at position `rank`. */
static void set_rank(td_lowered *l, int rank, int unit) {
    l->at[rank] = unit;
    if (unit == TD_NO_UNIT) return;
    *(unit >= 0 ? &l->group.v[unit].rank : &l->rank[~unit]) = rank;
}

static unsigned *mark_of(td_lowered *l, int unit) {
    return unit >= 0 ? &l->group.v[unit].mark : &l->seen[~unit];
}

/* Callback: false, and so stops, at a unit that the current search marked. */
static bool is_unmarked(void *env, int unit) {
    td_lowered *l = env;
    return *mark_of(l, unit) != l->mark;
}

/* Units between the two that depend on the first go after the merged group, others
 * before. */
void td__unit_merge(td_lowered *l, int a, int b) {
    int ra = rank_of(l, a), rb = rank_of(l, b), n = 0;
    int at = ra < rb ? ra : rb, last = ra < rb ? rb : ra;
    *mark_of(l, l->at[at]) = ++l->mark;
    for (int r = at + 1; r < last; r++) { /* defer what depends on the first */
        int u = l->at[r];
        if (u == TD_NO_UNIT) continue;
        if (td__unit_deps(l, u, is_unmarked, l)) {
            set_rank(l, at++, u);
            continue;
        }
        *mark_of(l, u) = l->mark;
        l->deferred[n++] = u;
    }
    set_rank(l, at++, a);
    for (int i = 0; i < n; i++) set_rank(l, at++, l->deferred[i]);
    while (at <= last) set_rank(l, at++, TD_NO_UNIT);
}

/* ---- searching ----------------------------------------------------------- */

enum { MOST_STEPS = 400 };

/* A depth-first search for a dependence on `goal`. */
typedef struct search {
    td_lowered *l;
    int         goal, floor; /* units of a lower rank cannot depend on the goal */
    int         skip;
    bool        found;
    TD_VEC(int) todo;
    int steps;
} search;

/* Callback: adds an unvisited unit; false at the goal, or after MOST_STEPS. */
static bool enqueue(void *env, int unit) {
    search     *s = env;
    td_lowered *l = s->l;
    unsigned   *mark = mark_of(l, unit);
    if (unit == s->goal) s->found = true;
    if (s->found || rank_of(l, unit) < s->floor || unit == s->skip || *mark == l->mark)
        return !s->found;
    *mark = l->mark;
    s->found = ++s->steps > MOST_STEPS || !td__vec_push(&s->todo, unit);
    return !s->found;
}

/* Does `from` depend on `goal` through another unit? */
static bool reaches(td_lowered *l, int from, int goal) {
    search s = {.l = l, .goal = TD_NO_UNIT, .floor = rank_of(l, goal)};
    s.skip = goal;
    l->mark++;
    td__unit_deps(l, from, enqueue, &s);
    s.goal = goal;
    s.skip = TD_NO_UNIT;
    while (!s.found && s.todo.n) {
        int u = s.todo.v[--s.todo.n];
        td__unit_deps(l, u, enqueue, &s);
    }
    td__vec_free(&s.todo);
    return s.found;
}

bool td__unit_between(td_lowered *l, int a, int b) {
    return rank_of(l, a) < rank_of(l, b) ? reaches(l, b, a) : reaches(l, a, b);
}

/* ---- dependences by writes and draws -------------------------------------- */

/* The state of a walk over the nodes in order. */
typedef struct tracks {
    td_lowered *l;
    int        *writer;  /* [n_values] by root: 1 + the last node that wrote it; 0 */
    td_follow **readers; /* [n_values] by root: its readers since then */
    bool       *written; /* [n_values] by root: ever */
    int         node, drew;
    bool        effects; /* the graph has some: */
    int         stayed;  /* the last node that has one or may fail; -1: none */
    bool        failed;
} tracks;

static void follow(tracks *t, td_follow **list, int node) {
    td_follow *f = td__arena_alloc(&t->l->arena, sizeof *f);
    t->failed |= !f;
    if (!f) return;
    *f = (td_follow){node, *list};
    *list = f;
}

/* A read comes after the last write. */
static void note_read(void *env, td_gval *v) {
    tracks *t = env;
    int     r = t->l->bytes_of[t->l->root_of[v->id]->id];
    if (!t->written[r]) return;
    if (t->writer[r]) follow(t, &t->l->follows[t->node], t->writer[r] - 1);
    follow(t, &t->readers[r], t->node);
}

/* Argument i if the node writes it; else NULL. */
static const td_gval *written_arg(const td_gnode *n, int i) {
    const td_schema *s = &td__opinfo(n->op)->s;
    bool             w = n->kind == TD_N_OP && s->in[i].write;
    return w && n->in[i].kind == TD_G_VALUE ? n->in[i].u.v : NULL;
}

/* A write comes after all earlier reads. */
static void note_write(tracks *t, const td_gval *v) {
    int r = t->l->bytes_of[t->l->root_of[v->id]->id];
    for (const td_follow *f = t->readers[r]; f; f = f->next)
        if (f->node != t->node) follow(t, &t->l->follows[t->node], f->node);
    t->readers[r] = NULL;
    t->writer[r] = t->node + 1;
}

/* The node comes after node *last, and is the next one of that order. */
static void note_order(tracks *t, int *last) {
    if (*last >= 0) follow(t, &t->l->follows[t->node], *last);
    *last = t->node;
}

/* Records dependencies of node t->node on earlier writers, readers, draws, effects. */
static void note_node(tracks *t, const td_gnode *n) {
    bool reads = !(td__row(n->op)->flags & TD_OPF_VIEW); /* a view reads no bytes */
    for (int k = 0; reads && k < n->n_in; k++) td__garg_each(&n->in[k], note_read, t);
    for (int k = 0; k < n->n_in; k++)
        if (written_arg(n, k)) note_write(t, written_arg(n, k));
    if (td__gnode_draws(n)) note_order(t, &t->drew);
    bool view = td__opinfo(n->op)->view_of >= 0; /* made where it is read */
    if (t->effects && !view && td__gnode_stays(n)) note_order(t, &t->stayed);
}

/* Marks the roots that any node writes; only their reads matter. */
static void find_written(tracks *t) {
    const td_graph *g = t->l->g;
    for (int i = 0; i < g->nodes.n; i++)
        for (int k = 0; g->nodes.v[i]->kind == TD_N_OP && k < g->nodes.v[i]->n_in;
             k++) {
            const td_gval *v = written_arg(g->nodes.v[i], k);
            if (v) t->written[t->l->bytes_of[t->l->root_of[v->id]->id]] = true;
        }
}

/* The initial order: that of the nodes. False: out of memory. */
static bool make_ranks(td_lowered *l) {
    size_t nodes = (size_t)l->g->nodes.n + 1;
    l->seen = td__arena_zalloc(&l->arena, sizeof *l->seen * nodes);
    l->rank = td__arena_zalloc(&l->arena, sizeof *l->rank * nodes);
    l->at = td__arena_zalloc(&l->arena, sizeof *l->at * nodes);
    l->deferred = td__arena_zalloc(&l->arena, sizeof *l->deferred * nodes);
    if (!l->seen || !l->rank || !l->at || !l->deferred) return false;
    for (int i = 0; i < l->g->nodes.n; i++) set_rank(l, i, unit_of_node(l, i));
    return true;
}

/* Dependencies besides values: writes after reads, reads after writes, random draws in
 * program order, and effects in program order, also among nodes that may fail: what
 * eager has printed before it fails is printed. */
bool td__unit_follows(td_lowered *l) {
    tracks t = {.l = l, .drew = -1, .stayed = -1};
    size_t n = (size_t)l->g->n_values + 1, nodes = (size_t)l->g->nodes.n + 1;
    l->follows = td__arena_zalloc(&l->arena, sizeof *l->follows * nodes);
    t.writer = td__arena_zalloc(&l->arena, sizeof *t.writer * n);
    t.readers = td__arena_zalloc(&l->arena, sizeof *t.readers * n);
    t.written = td__arena_zalloc(&l->arena, sizeof *t.written * n);
    if (!l->follows || !t.writer || !t.readers || !t.written || !make_ranks(l))
        return false;
    find_written(&t);
    t.effects = td__graph_flags(l->g, TD_OPF_EFFECT);
    for (t.node = 0; t.node < l->g->nodes.n; t.node++)
        if (l->g->nodes.v[t.node]->kind == TD_N_OP)
            note_node(&t, l->g->nodes.v[t.node]);
    return !t.failed;
}

/* ---- topological order ---------------------------------------------------- */

/* Depth-first topological sort with an explicit stack. */
typedef struct sorter {
    td_lowered *l;
    td_units   *out, stack;
    uint8_t    *state; /* [nodes] of calls */
    bool        failed;
} sorter;

enum { FRESH, OPEN, DONE };

static uint8_t *state_of(sorter *s, int unit) {
    return unit >= 0 ? &s->l->group.v[unit].state : &s->state[~unit];
}

/* Callback: pushes a unit that is not emitted yet. An OPEN one would be a cycle,
 * which fusion never makes. */
static bool push_missing(void *env, int unit) {
    sorter *s = env;
    uint8_t state = *state_of(s, unit);
    s->failed |= state == OPEN || (state == FRESH && !td__vec_push(&s->stack, unit));
    return !s->failed;
}

/* Emits a unit after everything it depends on. */
static void put(sorter *s, int unit) {
    s->failed |= !td__vec_push(&s->stack, unit);
    while (s->stack.n && !s->failed) {
        int u = s->stack.v[s->stack.n - 1], before = s->stack.n;
        if (*state_of(s, u) == DONE) {
            s->stack.n--;
            continue;
        }
        *state_of(s, u) = OPEN;
        td__unit_deps(s->l, u, push_missing, s);
        if (s->stack.n > before || s->failed) continue;
        s->stack.n--;
        *state_of(s, u) = DONE;
        s->failed |= !td__vec_push(s->out, u);
    }
}

/* A view node is a unit only if one of its results is needed as a tensor. */
static bool is_wanted(const td_lowered *l, const td_gnode *n) {
    if (td__view_operand(n) < 0) return true;
    for (int i = 0; i < n->n_out; i++)
        if (l->needed[n->out[i]->id]) return true;
    return false;
}

/* A topological order of the units, by depth-first search with a stack of its own.
 * Nodes that nothing needs are left out. */
bool td__unit_order(td_lowered *l, td_units *to) {
    sorter s = {.l = l, .out = to};
    s.state = td__arena_zalloc(&l->arena, (size_t)l->g->nodes.n + 1);
    if (!s.state) return false;
    for (int i = 0; i < l->g->nodes.n && !s.failed; i++) {
        int unit = unit_of_node(l, i);
        if (unit == TD_NO_UNIT || *state_of(&s, unit)) continue;
        if (unit >= 0 ? l->group.v[unit].last == i : is_wanted(l, l->g->nodes.v[i]))
            put(&s, unit);
    }
    td__vec_free(&s.stack);
    return !s.failed;
}
