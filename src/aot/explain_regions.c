/* explain_regions.c -- the regions of a compiled function (td_call_region): graphs that
 * its code calls, each of which is compiled once. */
#include "aot/explain.h"

/* The graphs found so far, in the order of their first call. */
typedef struct called {
    const td_graph *g;
    int             times;
} called;

typedef TD_VEC(called) called_list;

static bool find_calls(called_list *to, const td_graph *g);

/* Counts one call of g. A graph is searched for calls of its own at the first one. */
static bool note_call(called_list *to, const td_graph *g) {
    for (int i = 0; i < to->n; i++)
        if (to->v[i].g == g) return to->v[i].times++, true;
    return td__vec_push(to, ((called){g, 1})) && find_calls(to, g);
}

static bool find_calls(called_list *to, const td_graph *g) {
    for (int i = 0; i < g->nodes.n; i++) {
        const td_gnode *n = g->nodes.v[i];
        if (n->dead || n->kind != TD_N_OP || n->op != TD_OP_call) continue;
        if (n->in[0].kind == TD_G_GRAPH && !note_call(to, n->in[0].u.g)) return false;
    }
    return true;
}

void td__explain_regions(td_buf *b, const td_graph *g) {
    called_list list = {0};
    b->failed |= !find_calls(&list, g);
    if (list.n) td__buf_add(b, "  regions, each compiled once\n");
    for (int i = 0; i < list.n; i++) {
        int ops = td__count_ops(list.v[i].g).ops, times = list.v[i].times;
        td__buf_printf(b, "    @%-24.60s  %d op%s, called %d time%s\n",
                       list.v[i].g->name, ops, ops == 1 ? "" : "s", times,
                       times == 1 ? "" : "s");
    }
    td__vec_free(&list);
}
