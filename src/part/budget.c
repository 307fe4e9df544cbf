/* budget.c -- saves less than the min-cut does, at the price of more recomputation.
 *
 * The candidates do not depend on the budget: cuts with fewer and fewer bans, then,
 * from the freest cut, subsets of its saved values (knapsack). Each candidate is
 * measured exactly: bytes saved, cost of recomputation, peak memory. The budget selects
 * the cheapest one that fits. As the candidates are the same for all budgets, a smaller
 * budget never saves more. In a training step, which is one graph, the budget bounds
 * the peak instead. */
#include "part/part_int.h"

#include <math.h>
#include <string.h>

enum { FINEST = 10000, COARSEST = 100 };
#define TABLE_BITS 1e8 /* size of the knapsack table */
#define STEPS 4e7      /* work spent on measuring candidates */
#define PEAK_STEPS 2e6 /* the same if each needs its peak computed */

/* The state of the search. It runs twice: to find the smallest candidate, then the
 * best one within the bound. */
typedef struct pool {
    td_part *p;
    int64_t  bound;       /* bytes; -1: the first run, for the smallest */
    int64_t  least, most; /* sizes of the smallest candidate and of the min-cut */
    int64_t  peak;        /* no candidate may have a higher peak */
    bool     any, failed;
    int64_t  bytes; /* size of the best so far */
    double   cost;
    bool    *best; /* [n_values] its saved values */
    int32_t *item; /* [n] values that the freest cut saves but need not */
    int      n;
    int64_t  unit;  /* bytes per unit of knapsack weight */
    bool    *start; /* [n_values] saved by the freest cut */
    bool    *take;  /* [n] items of the current candidate */
    td_sack  sack;
} pool;

/* Is it a backward inside a training step? */
static bool is_step(const pool *l) { return l->p->from >= 0; }

/* The peak memory of p->saved. Sets l->failed if out of memory. */
static int64_t peak_of(pool *l) {
    int64_t       peak = 0;
    td_arena_mark was = td__arena_mark(&l->p->arena);
    td__part_walk_forward(l->p);
    if (!td__part_peak(l->p, &peak)) l->failed = true;
    td__arena_reset(&l->p->arena, was);
    return peak;
}

/* Does the choice need too much memory at once? */
static bool is_too_high(pool *l) { return !is_step(l) && peak_of(l) > l->peak; }

/* Measures p->saved, and remembers it if it is the best so far within the bound. */
static void offer(pool *l) {
    td_part *p = l->p;
    td__part_walk(p);
    int64_t size = is_step(l) ? peak_of(l) : p->saved_bytes;
    if (l->bound < 0) {
        if ((l->any && size >= l->least) || is_too_high(l)) return;
        l->least = size;
        l->any = true;
        return;
    }
    if (size > l->bound) return;
    bool better = p->recompute_cost < l->cost ||
                  (p->recompute_cost == l->cost && size < l->bytes);
    if ((l->any && !better) || is_too_high(l)) return;
    l->any = true;
    l->bytes = size;
    l->cost = p->recompute_cost;
    memcpy(l->best, p->saved, (size_t)p->n_values);
}

/* ---- cuts --------------------------------------------------------------- */

/* Offers the min-cut under these bans. False after td__fail. */
static bool offer_cut(pool *l, td_bans b) {
    if (!td__part_bans(l->p, b) || !td__part_cut(l->p)) return false;
    offer(l);
    return true;
}

/* Offers two candidates that do not depend on the budget: the cut without the softer
 * bans, and the aggressive one. */
static bool offer_cuts(pool *l) {
    const td_part_opts *o = l->p->o;
    td_bans             b = {.reductions = o->ban_reductions};
    if (!offer_cut(l, b)) return false;
    b.aggressive = true;
    return offer_cut(l, b);
}

/* ---- subsets ------------------------------------------------------------ */

/* The cost of recomputing value v if everything else is saved: all nodes between it
 * and other saved values. mark[i] == v + 1: node i was counted. */
static double benefit(const pool *l, int v, int32_t *mark, int32_t *todo) {
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

/* The greatest common divisor. */
static int64_t common(int64_t a, int64_t b) {
    while (b) {
        int64_t r = a % b;
        a = b, b = r;
    }
    return a;
}

/* Chooses the unit of weight: exact if the sizes have a large common divisor, else
 * coarse enough for the table. */
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

/* Weights and values of the items. False after td__fail. */
static bool make_sack(pool *l) {
    td_part *p = l->p;
    int32_t *weight = td__part_alloc(p, (size_t)l->n, sizeof *weight);
    double  *value = td__part_alloc(p, (size_t)l->n, sizeof *value);
    int32_t *mark = td__part_alloc(p, (size_t)p->n_nodes, sizeof *mark);
    int32_t *todo = td__part_alloc(p, (size_t)p->n_nodes, sizeof *todo);
    if (!weight || !value || !mark || !todo) return false;
    choose_unit(l);
    l->sack = (td_sack){.n = l->n, .weight = weight, .value = value};
    for (int i = 0; i < l->n; i++) {
        int v = l->item[i];
        weight[i] = (int32_t)((p->bytes[v] + l->unit - 1) / l->unit);
        value[i] = benefit(l, v, mark, todo);
        l->sack.cap += weight[i];
    }
    return true;
}

/* Offers the candidate that saves the items in take[] and everything that must be
 * saved. */
static void offer_items(pool *l) {
    td_part *p = l->p;
    memset(p->saved, 0, (size_t)p->n_values);
    for (int i = 0; i < p->n_nodes; i++) {
        const td_gnode *n = p->g->nodes.v[i];
        bool firm = p->firm[i] && p->firm[i] <= TD_REASON_FIRM && !p->view[i];
        for (int k = 0; k < n->n_out && firm; k++) p->saved[n->out[k]->id] = true;
    }
    for (int i = 0; i < l->n; i++)
        if (l->take[i]) p->saved[l->item[i]] = true;
    offer(l);
}

/* How many candidates the work limit allows. */
static int most_offers(const pool *l) {
    double steps = is_step(l) ? PEAK_STEPS : STEPS;
    double n = steps / (l->p->n_nodes + l->p->n_values + 1);
    return n < 16 ? 16 : n > FINEST ? FINEST : (int)n;
}

/* Offers the optimal subset for each bound (dynamic programming). False after
 * td__fail. */
static bool offer_exact(pool *l) {
    double last = -1;
    int    step = l->sack.cap / most_offers(l) + 1;
    if (!l->sack.best && !td__sack_fill(&l->sack, &l->p->arena))
        return td__fail_memory(l->p->cx);
    for (int b = 0; b <= l->sack.cap; b += step) {
        if (l->sack.best[b] == last) continue; /* the same subset as before */
        last = l->sack.best[b];
        td__sack_pick(&l->sack, b, l->take);
        offer_items(l);
    }
    return true;
}

/* Offers the prefixes of the items by benefit per byte. False after td__fail. */
static bool offer_greedy(pool *l) {
    int32_t *order = td__part_alloc(l->p, (size_t)l->n, sizeof *order);
    if (!order || !td__sack_order(&l->sack, order, &l->p->arena))
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

/* ---- both runs ------------------------------------------------------------ */

/* Computes the freest cut and its items. False after td__fail. */
static bool find_items(pool *l) {
    td_part *p = l->p;
    td_bans  b = {.aggressive = true, .reductions = p->o->ban_reductions};
    l->item = td__part_alloc(p, (size_t)p->n_values, sizeof *l->item);
    l->start = td__part_alloc(p, (size_t)p->n_values, 1);
    l->take = td__part_alloc(p, (size_t)p->n_values, 1);
    l->best = td__part_alloc(p, (size_t)p->n_values, 1);
    if (!l->item || !l->start || !l->take || !l->best) return false;
    if (!td__part_bans(p, b) || !td__part_cut(p)) return false;
    td__part_walk(p);
    memcpy(l->start, p->passed, (size_t)p->n_values);
    for (int v = 0; v < p->n_values; v++) {
        int  m = p->maker[v];
        bool firm = m >= 0 && p->firm[m] && p->firm[m] <= TD_REASON_FIRM;
        if (m >= 0 && l->start[v] && !firm) l->item[l->n++] = v;
    }
    return make_sack(l);
}

/* Offers the whole pool. False after td__fail. */
static bool offer_all(pool *l) {
    l->any = false;
    if (!offer_cuts(l)) return false;
    bool exact = l->p->o->knapsack == TD_KNAPSACK_DP;
    return (exact ? offer_exact(l) : offer_greedy(l)) && !l->failed;
}

/* Sets p->saved to the best candidate, or back to `base` if none saves less. False
 * after td__fail. */
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

/* Replaces the saved values by those of the cheapest candidate within the budget.
 * `peak` is the default's peak memory, which no candidate may exceed. */
bool td__part_budget(td_part *p, int64_t peak) {
    pool l = {.p = p, .bound = -1, .peak = peak, .most = p->saved_bytes};
    if (is_step(&l)) l.most = peak;
    bool *base = td__part_alloc(p, (size_t)p->n_values, 1);
    if (!base) return false;
    memcpy(base, p->saved, (size_t)p->n_values);
    return find_items(&l) && pick(&l, base);
}
