/* part_flow.c -- the flow solver, the knapsack and the budget, by themselves. */
#include "part/part_int.h"
#include "part_help.h"

static uint64_t state;
static int      dice(int n) {
         state = state * 6364136223846793005u + 1442695040888963407u;
         return (int)((state >> 33) % (unsigned)n);
}

typedef struct edge {
    int     from, to;
    int64_t cap;
} edge;

static int64_t cut_cost(const edge *e, int n, unsigned side) {
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        if (side >> e[i].from & 1 && !(side >> e[i].to & 1)) sum += e[i].cap;
    return sum;
}

/* Side 0 is the source's; the answer is the smallest source side of least cost. */
static unsigned best_side(const edge *e, int n, int vertices, int64_t *least) {
    unsigned both = 0;
    *least = INT64_MAX;
    for (unsigned side = 1; side < 1u << vertices; side += 2) {
        if (side >> 1 & 1) continue; /* the sink is 1 */
        int64_t cost = cut_cost(e, n, side);
        if (cost < *least) both = side, *least = cost;
        else if (cost == *least) both &= side;
    }
    return both;
}

TEST(a_flow_is_the_least_cut_and_the_nearest_to_the_source) {
    for (int round = 0; round < 400; round++) {
        int     vertices = 3 + dice(6), n = dice(24);
        edge    e[24];
        td_flow f;
        int64_t least;
        CHECK(td__flow_begin(&f, vertices));
        for (int i = 0; i < n; i++) {
            e[i] = (edge){dice(vertices), dice(vertices), dice(8)};
            CHECK(td__flow_edge(&f, e[i].from, e[i].to, e[i].cap));
        }
        unsigned side = best_side(e, n, vertices, &least);
        CHECK(td__flow_run(&f, 0, 1) == least);
        for (int v = 0; v < vertices; v++) {
            bool near = (side & 1u << v) != 0;
            CHECK(near ? f.level[v] >= 0 : f.level[v] < 0);
        }
        td__flow_free(&f);
    }
}

TEST(a_flow_of_endless_edges_says_so) {
    td_flow f;
    CHECK(td__flow_begin(&f, 4));
    CHECK(td__flow_edge(&f, 0, 2, TD_FLOW_INF) && td__flow_edge(&f, 2, 3, 7));
    CHECK(td__flow_edge(&f, 3, 1, TD_FLOW_INF));
    CHECK(td__flow_run(&f, 0, 1) == 7);
    td__flow_free(&f);
    CHECK(td__flow_begin(&f, 3));
    CHECK(td__flow_edge(&f, 0, 2, TD_FLOW_INF) && td__flow_edge(&f, 2, 1, TD_FLOW_INF));
    CHECK(td__flow_run(&f, 0, 1) >= TD_FLOW_INF);
    td__flow_free(&f);
}

TEST(a_long_way_needs_no_stack) {
    enum { LONG = 200000 };
    td_flow f;
    CHECK(td__flow_begin(&f, LONG));
    for (int v = 2; v < LONG; v++)
        CHECK(td__flow_edge(&f, v == 2 ? 0 : v - 1, v, v == 777 ? 3 : 5));
    CHECK(td__flow_edge(&f, LONG - 1, 1, 5));
    CHECK(td__flow_run(&f, 0, 1) == 3);
    CHECK(f.level[776] >= 0 && f.level[777] < 0);
    td__flow_free(&f);
}

/* Broken on purpose: a view that may not be repeated can be neither kept. */
TEST(a_value_that_can_neither_be_saved_nor_recomputed_is_named) {
    td_ctx      *cx = td_open();
    td_part_opts o = td__part_defaults();
    td_joint     j;
    td_part      p;
    td_gfile    *f = parse(cx, "func @f(%x: f32[4,4], %t: f32[4,4] <tangent 0>) {\n"
                                  "  %h = exp(%x)\n"
                                  "  %v = transpose(%h, 0, 1)\n"
                                  "  %y = mul(%v, %v)\n"
                                  "  %g = mul(%t, %v) backward\n"
                                  "  return %y, %g <grad 0>\n"
                                  "}\n");
    CHECK(f && td__graph_infer(f->graphs.v[0]) && td__joint_over(f->graphs.v[0], &j));
    CHECK(td__part_open(&p, &j, &o, 0) && td__part_bans(&p, (td_bans){0}));
    p.reason[1] = TD_REASON_EFFECT;
    CHECK(!td__part_cut(&p));
    CHECK(td_error(cx) == TD_E_BUILD);
    CHECK(strstr(td_message(cx), "can neither be saved nor recomputed: backward <- "
                                 "must not be recomputed") != NULL);
    td__part_close(&p);
    td__gfile_drop(f);
    td_close(cx);
}

/* ---- knapsack ----------------------------------------------------------- */

/* The most value of any set within the bound, by trying all. */
static double best_value(const td_sack *s, int bound) {
    double best = 0;
    for (int set = 0; set < 1 << s->n; set++) {
        double v = 0;
        int    w = 0;
        for (int i = 0; i < s->n; i++)
            if (set >> i & 1) v += s->value[i], w += s->weight[i];
        if (w <= bound && v > best) best = v;
    }
    return best;
}

static void check_pick(const td_sack *s, int bound) {
    bool   take[10];
    double got = 0;
    int    heavy = 0;
    td__sack_pick(s, bound, take);
    for (int i = 0; i < s->n; i++) {
        if (!take[i]) continue;
        got += s->value[i], heavy += s->weight[i];
        CHECK(s->value[i] > 0);
    }
    CHECK(got == best_value(s, bound) && heavy <= bound);
}

TEST(the_knapsack_is_exact_for_every_bound) {
    for (int round = 0; round < 60; round++) {
        int32_t  weight[10];
        double   value[10];
        td_arena a = {0};
        td_sack  s = {.n = dice(11), .cap = 40, .weight = weight, .value = value};
        for (int i = 0; i < s.n; i++) weight[i] = dice(13), value[i] = dice(9);
        CHECK(td__sack_fill(&s, &a));
        for (int bound = 0; bound <= s.cap; bound++) check_pick(&s, bound);
        td__arena_free(&a);
    }
}

/* ---- budgets ------------------------------------------------------------ */

/* A layer mm, cos: `width[i]` columns each, all from one input. */
static td_graph *columns(td_ctx *cx, const int *width, int n) {
    td_buf b = {0}, back = {0};
    td__buf_add(&b, "func @f(%x: f32[8,8]");
    for (int i = 0; i < n; i++)
        td__buf_printf(&b, ", %%w%d: f32[8,%d] <param \"w\">", i, width[i]);
    for (int i = 0; i < n; i++)
        td__buf_printf(&b, ", %%t%d: f32[8,%d] <tangent %d>", i, width[i], i);
    td__buf_add(&b, ") {\n");
    for (int i = 0; i < n; i++) {
        td__buf_printf(&b, "  %%m%d = mm(%%x, %%w%d)\n  %%y%d = cos(%%m%d)\n", i, i, i,
                       i);
        td__buf_printf(&back, "  %%s%d = sin(%%m%d) backward\n", i, i);
        td__buf_printf(&back, "  %%g%d = mul(%%t%d, %%s%d) backward\n", i, i, i);
    }
    td__buf_add(&b, td__buf_str(&back));
    td__buf_add(&b, "  return ");
    for (int i = 0; i < n; i++) td__buf_printf(&b, "%%y%d, ", i);
    for (int i = 0; i < n; i++)
        td__buf_printf(&b, "%s%%g%d <grad %d>", i ? ", " : "", i, 1 + i);
    td__buf_add(&b, "\n}\n");
    td_gfile *f = td__gfile_parse(cx, b.s, b.n, "t.td");
    CHECK_OK(cx);
    CHECK(td__graph_infer(f->graphs.v[0]));
    td_graph *g = td__graph_clone(f->graphs.v[0]);
    td__gfile_drop(f);
    td__buf_free(&b);
    td__buf_free(&back);
    return g;
}

/* Products cost what they write: flops alone. */
static double cost_by_width(void *env, const td_graph *g, const td_gnode *n) {
    (void)env, (void)g;
    return n->op == TD_OP_mm ? (double)n->out[0]->type->size[1] : 0;
}

TEST(a_budget_that_is_a_sum_of_sizes_is_met_exactly) {
    static const int width[] = {11, 3, 4, 2};
    td_ctx          *cx = td_open();
    td_graph        *g = columns(cx, width, 4);
    td_joint         j;
    CHECK(td__joint_over(g, &j));
    for (int set = 0; set < 16; set++) {
        td_part_opts o = td__part_defaults();
        int          sum = 0;
        for (int i = 0; i < 4; i++) sum += set >> i & 1 ? width[i] : 0;
        o.budget = sum / 20.0;
        o.cost = cost_by_width;
        td_halves *h = td__part_mincut(&j, &o);
        CHECK_OK(cx);
        CHECK(h->bytes_saved == sum * 32);
        check_same(&j, h);
        td__halves_drop(h);
    }
    td__graph_drop(g);
    td_close(cx);
}

static double flat_cost(void *env, const td_graph *g, const td_gnode *n) {
    (void)g;
    return n->op == TD_OP_mm ? *(double *)env : 0;
}

TEST(a_callers_cost_decides_what_is_repeated) {
    static const int width[] = {4, 4};
    td_ctx          *cx = td_open();
    td_graph        *g = columns(cx, width, 2);
    double           price = 3;
    td_part_opts     o = td__part_defaults();
    td_joint         j;
    o.cost = flat_cost;
    o.env = &price;
    o.budget = 0.5;
    CHECK(td__joint_over(g, &j));
    td_halves *h = td__part_mincut(&j, &o);
    CHECK_OK(cx);
    CHECK(h->cost_recompute == 3);
    td__halves_drop(h);
    td__graph_drop(g);
    td_close(cx);
}

/* mm, cos, five times over. */
TEST(a_chain_of_products_gives_up_one_product_at_a_time) {
    td_ctx *cx = td_open();
    gen     m;
    int     x = 0;
    gen_begin(&m, cx, 16, 6);
    for (int i = 0; i < 5; i++) {
        x = gen_do(&m, GEN_MM, x, 1 + i);
        x = gen_do(&m, GEN_SIN, x, x);
    }
    td_graph *g = gen_end(&m, &x, 1, 6);
    td_joint  j;
    CHECK(td__joint_over(g, &j));
    for (int b = 0; b <= 10; b++) {
        td_part_opts o = td__part_defaults();
        o.budget = b / 10.0;
        td_halves *h = td__part_mincut(&j, &o);
        CHECK_OK(cx);
        int mm = count_op(h->bwd, TD_OP_mm) - 10;
        CHECK(b < 10 || h->bytes_saved == 9 * 1024);
        CHECK(b == 10 || h->bytes_saved <= b * 9 * 1024 / 10);
        CHECK(mm == 5 - (int)(h->bytes_saved / 1024) || b == 10);
        td__halves_drop(h);
    }
    td__graph_drop(g);
    td_close(cx);
}

/* ---- peaks -------------------------------------------------------------- */

TEST(the_peak_counts_what_is_alive_at_once) {
    td_part_opts o = td__part_defaults();
    cut          c = cut_with("func @f(%x: f32[8], %t: f32[8] <tangent 0>) {\n"
                                       "  %a = exp(%x)\n"
                                       "  %b = sin(%a)\n"
                                       "  %y = cos(%b)\n"
                                       "  %sb = sin(%b) backward\n"
                                       "  %gb = mul(%t, %sb) backward\n"
                                       "  %ca = cos(%a) backward\n"
                                       "  %ga = mul(%gb, %ca) backward\n"
                                       "  %g = mul(%ga, %a) backward\n"
                                       "  return %y, %g <grad 0>\n"
                                       "}\n",
                              false, o);
    td_peak      peak;
    CHECK(td__peak_bytes(c.h, &o, &peak));
    CHECK(peak.fwd == 3 * 32); /* a and b kept, y handed out */
    CHECK(peak.bwd == 5 * 32); /* y held, a kept; gb, ca and ga for a moment */
    CHECK(c.h->peak == peak.most);
    cut_end(&c);
}
