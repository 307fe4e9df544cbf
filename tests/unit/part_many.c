/* part_many.c -- many made-up joint graphs: the halves compute what the joint graph
 * does to the bit, less memory never keeps more, the peak is never above that of
 * keeping everything, and the cut is the least there is. */
#include "part/part_int.h"
#include "part_help.h"

static td_graph *graph_nr(td_ctx *cx, int nr) {
    switch (nr % 5) {
    case 0: return gen_mlp(cx, 5, 4, 2 + nr % 7);
    case 1: return gen_attention(cx, 5, 5, 1 + nr % 3);
    case 2: return gen_chain(cx, 5, 3 + nr % 200);
    default: return gen_mixed(cx, 5, 1 + nr % 4, 3 + nr % 40, (unsigned)nr);
    }
}

static td_halves *check_cut(const td_joint *j, bool mincut, td_part_opts o) {
    td_halves *h = mincut ? td__part_mincut(j, &o) : td__part_default(j, &o);
    td_peak    peak;
    CHECK_OK(j->cx);
    check_same(j, h);
    CHECK(td__peak_bytes(h, &o, &peak));
    CHECK(peak.most == h->peak);
    return h;
}

/* One graph, both partitioners, five budgets. */
static void check_graph(td_ctx *cx, int nr, td_part_opts o) {
    td_graph *g = graph_nr(cx, nr);
    td_joint  j;
    CHECK_OK(cx);
    CHECK(td__joint_over(g, &j));
    td_halves *all = check_cut(&j, false, o);
    CHECK(all->bytes_saved == all->bytes_most && all->peak == all->peak_most);
    int64_t last = INT64_MAX;
    double  cost = -1;
    for (int b = 4; b >= 0; b--) {
        o.budget = b / 4.0;
        td_halves *h = check_cut(&j, true, o);
        CHECK(h->bytes_most == all->bytes_saved && h->peak_most == all->peak);
        CHECK(h->bytes_saved <= last);
        CHECK(b == 4 || h->cost_recompute >= cost || h->bytes_saved == last);
        CHECK(h->peak <= all->peak);
        last = h->bytes_saved;
        cost = h->cost_recompute;
        td__halves_drop(h);
    }
    td__halves_drop(all);
    td__graph_drop(g);
}

static int many(void) { return getenv("TD_TEST_QUICK") ? 60 : 600; }

TEST(halves_compute_what_the_joint_graph_does) {
    td_ctx *cx = td_open();
    for (int i = 0; i < many(); i++) check_graph(cx, i, td__part_defaults());
    td_close(cx);
}

TEST(every_knob_keeps_the_meaning) {
    td_ctx *cx = td_open();
    for (int i = 0; i < many() / 2; i++) {
        td_part_opts o = td__part_defaults();
        o.cse = i & 1;
        o.recompute_views = i & 2;
        o.aggressive = i & 4;
        o.ban_far_apart = i & 8;
        o.ban_long_chains = i & 16;
        o.ban_materialized = i & 32;
        o.ban_reductions = i & 64;
        o.free_params = i & 128;
        o.knapsack = i % 3 ? TD_KNAPSACK_DP : TD_KNAPSACK_GREEDY;
        check_graph(cx, i, o);
    }
    td_close(cx);
}

/* Tags strewn over the forward nodes. */
static void strew_tags(td_graph *g, unsigned seed) {
    uint64_t state = seed + 1;
    int      region = 1;
    for (int i = 0; i < g->nodes.n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        unsigned x = (unsigned)(state >> 33);
        if (x % 7 == 0) region++;
        if (g->nodes.v[i]->origin == TD_FROM_FORWARD && x % 3)
            g->nodes.v[i]->tags = TD_TAG(x / 8 % 5, region);
        if (!TD_TAG_POLICY(g->nodes.v[i]->tags)) g->nodes.v[i]->tags = 0;
    }
}

TEST(any_checkpoint_tags_keep_the_meaning) {
    td_ctx *cx = td_open();
    for (int i = 0; i < many(); i++) {
        td_graph    *g = graph_nr(cx, i);
        td_part_opts o = td__part_defaults();
        td_joint     j;
        strew_tags(g, (unsigned)i);
        CHECK(td__joint_over(g, &j));
        for (int b = 0; b < 4; b++) {
            o.budget = b / 2.0 > 1 ? 1 : b / 2.0;
            td__halves_drop(check_cut(&j, b < 3, o));
        }
        td__graph_drop(g);
    }
    td_close(cx);
}

/* ---- brute force -------------------------------------------------------- */

/* Is this set of saved values enough, and only of values that may be saved? What
 * backward needs is walked; banned nodes must not be reached. */
static bool is_valid(td_part *p, int64_t *cost) {
    td__part_walk(p);
    *cost = 0;
    for (int i = 0; i < p->n_nodes; i++)
        if (p->in_bwd[i] && p->fw[i] && p->reason[i]) return false;
    for (int v = 0; v < p->n_values; v++) {
        if (!p->passed[v]) continue;
        int64_t w = td__part_weight(p, v);
        if (w >= TD_FLOW_INF) return false;
        *cost += w;
    }
    return true;
}

/* The least cost of all sets; -1: too many values to try. */
static int64_t least_cost(td_part *p) {
    int     item[16], n = 0;
    int64_t best = INT64_MAX, cost;
    for (int v = 0; v < p->n_values; v++) {
        int m = p->maker[v];
        if (m < 0 || p->bwd_only_v[v] || p->dist[v] >= TD_FAR) continue;
        if (n == 14) return -1;
        item[n++] = v;
    }
    for (int set = 0; set < 1 << n; set++) {
        for (int i = 0; i < n; i++) p->saved[item[i]] = set >> i & 1;
        if (is_valid(p, &cost) && cost < best) best = cost;
    }
    return best;
}

TEST(no_other_choice_is_cheaper_than_the_cut) {
    td_ctx *cx = td_open();
    int     tried = 0;
    for (int i = 0; i < many() * 2; i++) {
        td_graph    *g = gen_mixed(cx, 3 + i % 3, 1 + i % 3, 2 + i % 8, (unsigned)i);
        td_part_opts o = td__part_defaults();
        td_joint     j;
        td_part      p;
        td_bans b = {.reductions = i & 1, .aggressive = i & 2, .materialized = i & 4};
        int64_t cost;
        if (i % 5 == 0) strew_tags(g, (unsigned)i);
        CHECK(td__joint_over(g, &j) && td__part_open(&p, &j, &o, 0));
        CHECK(td__part_bans(&p, b) && td__part_cut(&p));
        CHECK(is_valid(&p, &cost));
        int64_t least = least_cost(&p);
        if (least >= 0) CHECK(cost == least);
        tried += least >= 0;
        td__part_close(&p);
        td__graph_drop(g);
    }
    CHECK(tried > many());
    td_close(cx);
}
