/* partition.c -- how long the partitioners take on joint graphs of 1k, 10k and 100k
 * nodes of three kinds, and what they save. */
#include "bench.h"

#include "../tests/unit/part_gen.h"

typedef td_graph *make_fn(td_ctx *cx, int nodes);

static td_graph *make_mlp(td_ctx *cx, int nodes) {
    return gen_mlp(cx, 256, 65, nodes / 9);
}
static td_graph *make_attention(td_ctx *cx, int nodes) {
    return gen_attention(cx, 256, 65, nodes / 44);
}
static td_graph *make_chain(td_ctx *cx, int nodes) {
    return gen_chain(cx, 256, nodes * 3 / 8);
}

/* The least of a few runs, in seconds; *h is the last one's result. */
static double time_cut(const td_joint *j, const td_part_opts *o, td_halves **h) {
    double best = 1e9, end = bench_now() + 1;
    *h = NULL;
    do {
        td__halves_drop(*h);
        double start = bench_now();
        *h = td__part_mincut(j, o);
        double t = bench_now() - start;
        if (t < best) best = t;
    } while (*h && bench_now() < end);
    return best;
}

static bool run_one(td_ctx *cx, const char *kind, make_fn *make, int nodes) {
    td_graph    *g = make(cx, nodes);
    td_joint     j;
    td_part_opts o = td__part_defaults();
    td_halves   *h = NULL;
    char         name[80];
    o.make_notes = false;
    if (!g || !td__joint_over(g, &j)) return false;
    double t = time_cut(&j, &o, &h);
    if (!h) return false;
    snprintf(name, sizeof name, "partition_%s_%dk", kind, nodes / 1000);
    printf("{\"name\": \"%s\", \"value\": %.4g, \"unit\": \"ms\", \"nodes\": %d, "
           "\"kept\": %.3f, \"peak\": %.3f}\n",
           name, 1e3 * t, g->nodes.n, (double)h->bytes_saved / (double)h->bytes_most,
           (double)h->peak / (double)h->peak_most);
    td__halves_drop(h);
    td__graph_drop(g);
    return true;
}

int main(void) {
    td_ctx *cx = td_open();
    bool    ok = cx != NULL;
    for (int nodes = 1000; ok && nodes <= 100000; nodes *= 10)
        ok = run_one(cx, "mlp", make_mlp, nodes) &&
             run_one(cx, "attention", make_attention, nodes) &&
             run_one(cx, "chain", make_chain, nodes);
    if (!ok) fprintf(stderr, "partition: %s\n", cx ? td_message(cx) : "no context");
    td_close(cx);
    return !ok;
}
