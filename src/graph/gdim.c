/* gdim.c -- symbolic sizes of a graph: expressions over symbols, hash-consed in
 * g->dims. A dim below TD_DIM_SYM_LIMIT is the tag of an entry. The table
 * belongs to the graph, so a graph is complete without the trace that made it;
 * the values of symbols at run time come from the inputs (interp.c). */
#include "graph/graph_int.h"

enum { DEEPEST = 256 }; /* nesting of expressions, which functions recurse over */

const td_gdim *td__gdim_at(const td_graph *g, int64_t dim) {
    int i = td__dim_entry(dim, g->dims.n);
    return i < 0 ? NULL : &g->dims.v[i];
}

static uint64_t hash_dim(const td_gdim *d) {
    int64_t key[4] = {d->op * 256 + d->letter, d->nr, d->a, d->b};
    return td__hash(key, sizeof key, 0);
}

static bool same_dim(const td_gdim *x, const td_gdim *y) {
    return x->op == y->op && x->letter == y->letter && x->nr == y->nr && x->a == y->a &&
           x->b == y->b;
}

/* The slot of d, or the free one where it belongs. */
static int32_t *find_slot(td_graph *g, const td_gdim *d) {
    unsigned mask = (unsigned)g->n_dim_slots - 1;
    unsigned i = (unsigned)hash_dim(d) & mask;
    while (g->dim_slots[i] && !same_dim(&g->dims.v[g->dim_slots[i] - 1], d))
        i = (i + 1) & mask;
    return &g->dim_slots[i];
}

/* Doubles the hash table; the load stays below one half. */
static bool grow_slots(td_graph *g) {
    int      n = g->n_dim_slots ? g->n_dim_slots * 2 : 16;
    int32_t *slots = td__zalloc(sizeof *slots * (size_t)n);
    if (!slots) return false;
    td__free(g->dim_slots);
    g->dim_slots = slots;
    g->n_dim_slots = n;
    for (int i = 0; i < g->dims.n; i++) *find_slot(g, &g->dims.v[i]) = i + 1;
    return true;
}

/* The tag of d, new or existing; TD_DIM_HUGE after td__fail. */
static int64_t intern(td_graph *g, td_gdim d) {
    if (g->dims.n >= g->n_dim_slots / 2 && !grow_slots(g))
        return td__fail_memory(g->cx), TD_DIM_HUGE;
    int32_t *slot = find_slot(g, &d);
    if (*slot) return td__dim_tag(*slot - 1);
    if (!td__vec_push(&g->dims, d)) return td__fail_memory(g->cx), TD_DIM_HUGE;
    *slot = g->dims.n;
    return td__dim_tag(g->dims.n - 1);
}

int64_t td__gdim_symbol(td_graph *g, char letter, int32_t nr) {
    return intern(g, (td_gdim){TD_GDIM_SYMBOL, letter, 0, nr, 0, 0});
}

/* Arithmetic on numbers, or on symbols of an enclosing trace. Division by 0 or
 * -1, which overflows, gives TD_DIM_HUGE. */
static int64_t compute(td_dim_op op, int64_t a, int64_t b) {
    switch (op) {
    case TD_DIM_ADD: return td__dim_add(a, b);
    case TD_DIM_SUB: return td__dim_sub(a, b);
    case TD_DIM_MUL: return td__dim_mul(a, b);
    case TD_DIM_DIV: return b == 0 || b == -1 ? TD_DIM_HUGE : td__dim_div(a, b);
    case TD_DIM_MOD: return b == 0 || b == -1 ? 0 : td__dim_mod(a, b);
    case TD_DIM_MIN: return td__dim_min(a, b);
    case TD_DIM_MAX: return td__dim_max(a, b);
    case TD_DIM_EQ:
    case TD_DIM_LT: break;
    }
    return TD_DIM_HUGE;
}

static int depth_of(const td_graph *g, int64_t dim) {
    const td_gdim *d = td__gdim_at(g, dim);
    return d ? d->depth : 0;
}

/* Interns the expression a op b: equal expressions have equal numbers, and numbers are
 * folded. A result that would collide with the tags of symbolic sizes is clamped. Depth
 * is bounded, because users' text may nest without end. */
int64_t td__gdim_make(td_graph *g, td_dim_op op, int64_t a, int64_t b) {
    bool sa = td__dim_is_sym(a), sb = td__dim_is_sym(b);
    if (!sa && !sb) {
        int64_t r = compute(op, a, b);
        return td__dim_is_sym(r) ? -TD_DIM_HUGE : r; /* keep out of the range of tags */
    }
    bool commutes =
        op == TD_DIM_ADD || op == TD_DIM_MUL || op == TD_DIM_MIN || op == TD_DIM_MAX;
    if (commutes && (sa ? sb && a < b : true)) { /* one order, so equal sums match */
        int64_t swap = a;
        a = b, b = swap;
        sb = td__dim_is_sym(b);
    }
    if (!sb && b == 0 && (op == TD_DIM_ADD || op == TD_DIM_SUB)) return a;
    if (!sb && b == 0 && op == TD_DIM_MUL) return 0;
    if (!sb && b == 1 && (op == TD_DIM_MUL || op == TD_DIM_DIV)) return a;
    if (!sb && b == 1 && op == TD_DIM_MOD) return 0;
    int da = depth_of(g, a), db = depth_of(g, b), deep = 1 + (da > db ? da : db);
    if (deep > DEEPEST)
        return td__fail(g->cx, TD_E_ARG,
                        "a symbolic size is an expression nested more than %d levels "
                        "deep",
                        DEEPEST),
               TD_DIM_HUGE;
    return intern(g, (td_gdim){(uint8_t)op, 0, (int16_t)deep, 0, a, b});
}

int64_t td__gdim_value(const td_graph *g, int64_t dim, const int64_t *bound) {
    int i = td__dim_entry(dim, g->dims.n);
    return i < 0 ? dim : bound[i];
}

/* Operands of an entry come before it in the table, so one pass suffices. */
void td__gdim_settle(const td_graph *g, int64_t *bound) {
    for (int i = 0; i < g->dims.n; i++) {
        const td_gdim *d = &g->dims.v[i];
        if (d->op == TD_GDIM_SYMBOL || bound[i] != INT64_MIN) continue;
        int64_t a = td__gdim_value(g, d->a, bound), b = td__gdim_value(g, d->b, bound);
        if (a != INT64_MIN && b != INT64_MIN)
            bound[i] = compute((td_dim_op)d->op, a, b);
    }
}

/* If `to` is an unknown symbol and `from` is known, sets it; true: it did. */
static bool solve(const td_graph *g, int64_t to, int64_t from, int64_t *bound) {
    const td_gdim *d = td__gdim_at(g, to);
    int64_t        value = td__gdim_value(g, from, bound);
    if (!d || d->op != TD_GDIM_SYMBOL || value == INT64_MIN) return false;
    if (bound[d - g->dims.v] != INT64_MIN) return false;
    bound[d - g->dims.v] = value;
    return true;
}

/* Finds values of symbols that only occur inside expressions, by solving the equalities
 * among the guards until nothing new is found. */
void td__gdim_solve(const td_graph *g, int64_t *bound) {
    for (bool news = true; news;) {
        news = false;
        for (int i = 0; i < g->facts.n; i++) {
            const td_gfact *f = &g->facts.v[i];
            if (f->rel != TD_DIM_IS_EQ) continue;
            news |= solve(g, f->a, f->b, bound) || solve(g, f->b, f->a, bound);
        }
        td__gdim_settle(g, bound);
    }
}

bool td__gfact_holds(const td_graph *g, const td_gfact *f, const int64_t *bound) {
    int64_t a = td__gdim_value(g, f->a, bound), b = td__gdim_value(g, f->b, bound);
    return a != INT64_MIN && b != INT64_MIN &&
           td__dim_rel_holds((td_dim_rel)f->rel, a, b);
}

/* The largest lower bound that facts give for a symbol. */
static int64_t least_symbol(const td_graph *g, int64_t dim) {
    int64_t least = 0;
    for (int i = 0; i < g->facts.n; i++) {
        const td_gfact *f = &g->facts.v[i];
        bool            says = f->rel == TD_DIM_IS_GE || f->rel == TD_DIM_IS_EQ;
        if (!says || f->a != dim || td__dim_is_sym(f->b)) continue;
        if (f->b > least) least = f->b;
    }
    return least;
}

/* A lower bound of a size, from the guards on its symbols; 0 if nothing better is
 * known. */
int64_t td__gdim_least(const td_graph *g, int64_t dim) {
    const td_gdim *d = td__gdim_at(g, dim);
    if (!d) return dim;
    if (d->op == TD_GDIM_SYMBOL) return least_symbol(g, dim);
    int64_t a = td__gdim_least(g, d->a), b = td__gdim_least(g, d->b);
    if (a < 0 || b < 0) return 0;
    switch ((td_dim_op)d->op) {
    case TD_DIM_ADD: return td__dim_add(a, b);
    case TD_DIM_MUL: return td__dim_mul(a, b);
    case TD_DIM_MIN: return a < b ? a : b;
    case TD_DIM_MAX: return a > b ? a : b;
    default: return 0;
    }
}
