/* budget.c -- keeping less than the cut would, at the price of computing more again.
 * A pool of choices is made that does not depend on the budget: cuts with ever fewer
 * bans, then, from the freest of them, subsets of what it keeps, by knapsack. Each is
 * measured exactly (bytes kept, price of what is done again, memory needed at once);
 * the budget picks the cheapest that fits. As the pool is the same for all budgets, a
 * smaller budget never keeps more. In a step, where all is one graph, the budget is one
 * of memory needed at once instead, and a smaller one never needs more. */
#include "part/part_int.h"

#include <math.h>
#include <string.h>

enum { FINEST = 10000, COARSEST = 100 };
#define TABLE_BITS 1e8 /* of the knapsack */
#define STEPS 4e7      /* of measuring choices */
#define PEAK_STEPS 2e6 /* ...by the memory they need at once */

typedef struct pool {
    td_part *p;
    int64_t  bound;       /* bytes; -1: looking for the least */
    int64_t  least, most; /* size of the most frugal choice, and of the full cut */
    int64_t  peak;        /* no choice may need more at once */
    bool     any, failed;
    int64_t  bytes; /* of the best so far */
    double   cost;
    bool    *best; /* its saved values */
    int32_t *item; /* values that may be dropped */
    int      n;
    int64_t  unit;  /* bytes of one step of weight */
    bool    *start; /* saved by the freest cut */
    bool    *take;
    td_sack  sack;
} pool;

static bool is_step(const pool *l) { return l->p->from >= 0; }

static int64_t peak_of(pool *l) {
    int64_t       peak = 0;
    td_arena_mark was = td__arena_mark(&l->p->room);
    td__part_walk_forward(l->p);
    if (!td__part_peak(l->p, &peak)) l->failed = true;
    td__arena_reset(&l->p->room, was);
    return peak;
}

/* Does the choice need too much memory at once? */
static bool is_too_high(pool *l) { return !is_step(l) && peak_of(l) > l->peak; }

/* Measures p->saved and remembers it when it is the best that fits. */
static void offer(pool *l) {
    td_part *p = l->p;
    td__part_walk(p);
    int64_t size = is_step(l) ? peak_of(l) : p->kept_bytes;
    if (l->bound < 0) {
        if ((l->any && size >= l->least) || is_too_high(l)) return;
        l->least = size;
        l->any = true;
        return;
    }
    if (size > l->bound) return;
    bool better =
        p->again_cost < l->cost || (p->again_cost == l->cost && size < l->bytes);
    if ((l->any && !better) || is_too_high(l)) return;
    l->any = true;
    l->bytes = size;
    l->cost = p->again_cost;
    memcpy(l->best, p->saved, (size_t)p->n_values);
}

/* ---- cuts --------------------------------------------------------------- */

static bool offer_cut(pool *l, td_bans b) {
    if (!td__part_bans(l->p, b) || !td__part_cut(l->p)) return false;
    offer(l);
    return true;
}

static bool offer_cuts(pool *l) {
    const td_part_opts *o = l->p->o;
    td_bans             b = {.reductions = o->ban_reductions};
    if (!offer_cut(l, b)) return false;
    b.aggressive = true;
    return offer_cut(l, b);
}

/* ---- subsets ------------------------------------------------------------ */

/* What keeping value v saves when all else is kept: everything between it and the
 * other kept values. `mark` has the item's number where it has been. */
static double worth(const pool *l, int v, int32_t *mark, int32_t *todo) {
    const td_part *p = l->p;
    int            n = 0;
    double         sum = 0;
    todo[n++] = p->maker[v];
    mark[p->maker[v]] = v + 1;
    while (n) {
        int i = todo[--n];
        sum += p->cost[i];
        for (int k = p->read_at[i]; k < p->read_at[i + 1]; k++) {
            int u = p->reads[k], m = p->maker[u];
            if (m < 0 || l->start[u] || mark[m] == v + 1) continue;
            mark[m] = v + 1;
            todo[n++] = m;
        }
    }
    return sum;
}

static int64_t common(int64_t a, int64_t b) {
    while (b) {
        int64_t r = a % b;
        a = b, b = r;
    }
    return a;
}

/* Steps of weight: exact when all sizes have a large common measure. */
static void choose_unit(pool *l) {
    int64_t total = 0, unit = 0;
    double  most = TABLE_BITS / (l->n + 1);
    int     cap = most > FINEST ? FINEST : most < COARSEST ? COARSEST : (int)most;
    for (int i = 0; i < l->n; i++) {
        total += l->p->bytes[l->item[i]];
        unit = common(unit, l->p->bytes[l->item[i]]);
    }
    if (unit < 1) unit = 1;
    if (total / unit > cap) unit = total / cap + 1;
    l->unit = unit;
}

static bool make_sack(pool *l) {
    td_part *p = l->p;
    int32_t *weight = td__part_room(p, (size_t)l->n, sizeof *weight);
    double  *value = td__part_room(p, (size_t)l->n, sizeof *value);
    int32_t *mark = td__part_room(p, (size_t)p->n_nodes, sizeof *mark);
    int32_t *todo = td__part_room(p, (size_t)p->n_nodes, sizeof *todo);
    if (!weight || !value || !mark || !todo) return false;
    choose_unit(l);
    l->sack = (td_sack){.n = l->n, .weight = weight, .value = value};
    for (int i = 0; i < l->n; i++) {
        int v = l->item[i];
        weight[i] = (int32_t)((p->bytes[v] + l->unit - 1) / l->unit);
        value[i] = worth(l, v, mark, todo);
        l->sack.cap += weight[i];
    }
    return true;
}

/* The choice that keeps the items taken and what nothing can drop. */
static void offer_items(pool *l) {
    td_part *p = l->p;
    memset(p->saved, 0, (size_t)p->n_values);
    for (int i = 0; i < p->n_nodes; i++) {
        const td_gnode *n = p->g->nodes.v[i];
        bool            firm = p->firm[i] && p->firm[i] <= TD_WHY_FIRM && !p->view[i];
        for (int k = 0; k < n->n_out && firm; k++) p->saved[n->out[k]->id] = true;
    }
    for (int i = 0; i < l->n; i++)
        if (l->take[i]) p->saved[l->item[i]] = true;
    offer(l);
}

static int most_offers(const pool *l) {
    double steps = is_step(l) ? PEAK_STEPS : STEPS;
    double n = steps / (l->p->n_nodes + l->p->n_values + 1);
    return n < 16 ? 16 : n > FINEST ? FINEST : (int)n;
}

static bool offer_exact(pool *l) {
    double last = -1;
    int    step = l->sack.cap / most_offers(l) + 1;
    if (!l->sack.best && !td__sack_fill(&l->sack, &l->p->room))
        return td__fail_memory(l->p->cx);
    for (int b = 0; b <= l->sack.cap; b += step) {
        if (l->sack.best[b] == last) continue; /* the same things as before */
        last = l->sack.best[b];
        td__sack_pick(&l->sack, b, l->take);
        offer_items(l);
    }
    return true;
}

static bool offer_greedy(pool *l) {
    int32_t *order = td__part_room(l->p, (size_t)l->n, sizeof *order);
    if (!order || !td__sack_order(&l->sack, order, &l->p->room))
        return td__fail_memory(l->p->cx);
    int step = l->n / most_offers(l) + 1;
    memset(l->take, 0, (size_t)l->n);
    offer_items(l);
    for (int i = 0; i < l->n; i++) {
        l->take[order[i]] = true;
        if ((i + 1) % step == 0 || i + 1 == l->n) offer_items(l);
    }
    return true;
}

/* ---- both rounds -------------------------------------------------------- */

static bool find_items(pool *l) {
    td_part *p = l->p;
    td_bans  b = {.aggressive = true, .reductions = p->o->ban_reductions};
    l->item = td__part_room(p, (size_t)p->n_values, sizeof *l->item);
    l->start = td__part_room(p, (size_t)p->n_values, 1);
    l->take = td__part_room(p, (size_t)p->n_values, 1);
    l->best = td__part_room(p, (size_t)p->n_values, 1);
    if (!l->item || !l->start || !l->take || !l->best) return false;
    if (!td__part_bans(p, b) || !td__part_cut(p)) return false;
    td__part_walk(p);
    memcpy(l->start, p->kept, (size_t)p->n_values);
    for (int v = 0; v < p->n_values; v++) {
        int  m = p->maker[v];
        bool firm = m >= 0 && p->firm[m] && p->firm[m] <= TD_WHY_FIRM;
        if (m >= 0 && l->start[v] && !firm) l->item[l->n++] = v;
    }
    return make_sack(l);
}

static bool offer_all(pool *l) {
    l->any = false;
    if (!offer_cuts(l)) return false;
    bool exact = l->p->o->knapsack == TD_KNAPSACK_DP;
    return (exact ? offer_exact(l) : offer_greedy(l)) && !l->failed;
}

/* The best of the pool becomes p->saved, where there is one that keeps less. */
static bool pick(pool *l, const bool *base) {
    td_part *p = l->p;
    bool     all = p->all;
    p->all = false;
    if (!offer_all(l)) return false;
    bool found = l->any && l->least < l->most;
    l->bound = l->least + llround(p->o->budget * (double)(l->most - l->least));
    if (found && !offer_all(l)) return false;
    if (!td__part_bans(p, td__part_usual_bans(p->o))) return false; /* for the report */
    found = found && l->any;
    memcpy(p->saved, found ? l->best : base, (size_t)p->n_values);
    p->all = all && !found;
    return true;
}

bool td__part_budget(td_part *p, int64_t peak) {
    pool l = {.p = p, .bound = -1, .peak = peak, .most = p->kept_bytes};
    if (is_step(&l)) l.most = peak;
    bool *base = td__part_room(p, (size_t)p->n_values, 1);
    if (!base) return false;
    memcpy(base, p->saved, (size_t)p->n_values);
    return find_items(&l) && pick(&l, base);
}
